// SPDX-License-Identifier: MIT
/*
 * Many blocks at once, and blocks of one size: batches of a pool's blocks, all or nothing, and fixed-size block pools,
 * as key-value caches are made of. The latter are one block of their pool, cut up; a stack has the numbers of those
 * that are free, so that taking and giving costs the same however many there are.
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *book(size_t count, size_t bytes)
{
	return hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(count, bytes);
}

/* ---- batches ---- */

uint64_t hugepin_usable_bytes(struct hugepin_pool *pool, void *ptr)
{
	uint64_t bytes, old;

	if (hpi_context_check(pool->ctx))
		return 0;
	if (hpi_scope_is_plan(pool, ptr)) {
		hpi_error(-EINVAL, "the block at %p is a plan's, and keeps its size", ptr);
		return 0;
	}
	bytes = hpi_block_usable(pool, ptr);
	if (bytes == UINT64_MAX || (bytes && hpi_block_resize(pool, ptr, bytes, &old))) {
		hpi_error(-EINVAL, "%p is not a block of the %s pool", ptr, hpi_pool_name(pool));
		return 0;
	}
	return bytes;
}

int hugepin_alloc_batch(struct hugepin_pool *pool, size_t bytes, size_t count, unsigned int flags, void *out[])
{
	void **taken = book(count ? count : 1, sizeof(*taken));
	size_t done;
	int err = 0;

	if (!taken)
		return hpi_error(-ENOMEM, "%s pool: no memory for a batch of %zu addresses", hpi_pool_name(pool), count);
	for (done = 0; done < count; done++) {
		taken[done] = hugepin_alloc(pool, bytes, flags);
		if (!taken[done]) {
			err = hpi_error_add(-errno, "; block %zu of a batch of %zu", done, count);
			break;
		}
	}
	if (!err && count)
		memcpy(out, taken, count * sizeof(*out));
	while (err && done)
		hpi_block_free(pool, taken[--done]);
	free(taken);
	return err;
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

/* Every one a block in use, and none named twice. */
static int check_batch(struct hugepin_pool *pool, void *const ptrs[], size_t count)
{
	uintptr_t *sorted = book(count, sizeof(*sorted));
	int err = 0;
	size_t i;

	if (!sorted)
		return hpi_error(-ENOMEM, "%s pool: no memory to check a batch of %zu blocks", hpi_pool_name(pool), count);
	memcpy(sorted, ptrs, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), by_address);
	for (i = 0; i < count && !err; i++) {
		if (i && sorted[i] == sorted[i - 1])
			err = hpi_error(-EINVAL, "%p is twice in a batch of %zu", (void *)sorted[i], count);
		else if (hpi_block_bytes(pool, (void *)sorted[i]) == UINT64_MAX)
			err = hpi_error(-EINVAL, "%p, of a batch of %zu, is not a block of the %s pool, or is freed already",
					(void *)sorted[i], count, hpi_pool_name(pool));
	}
	free(sorted);
	return err;
}

int hugepin_free_batch(struct hugepin_pool *pool, void *const ptrs[], size_t count)
{
	int err = hpi_context_check(pool->ctx);
	size_t i;

	if (err || !count)
		return err;
	err = check_batch(pool, ptrs, count);
	for (i = 0; i < count && !err; i++)
		err = hugepin_free(pool, ptrs[i]);
	return err;
}

/* ---- blocks of one size ---- */

struct hugepin_blocks {
	struct hugepin_pool *pool;
	struct hugepin_blocks *next;		/* of the pool's */
	char *memory;
	uint64_t block_bytes;
	size_t count;

	pthread_mutex_t lock;
	uint32_t *free;				/* numbers of free blocks, a stack */
	size_t free_count;
	uint64_t *taken;			/* a bit for each block */
};

static void free_books(struct hugepin_blocks *blocks)
{
	free(blocks->free);
	free(blocks->taken);
	free(blocks);
}

static int open_books(struct hugepin_pool *pool, uint64_t block_bytes, size_t count, struct hugepin_blocks **out)
{
	struct hugepin_blocks *blocks = book(1, sizeof(*blocks));
	size_t i;

	if (!blocks)
		goto no_memory;
	blocks->pool = pool;
	blocks->block_bytes = block_bytes;
	blocks->count = count;
	blocks->free_count = count;
	blocks->free = book(count, sizeof(*blocks->free));
	blocks->taken = book((count + 63) / 64, sizeof(*blocks->taken));
	if (!blocks->free || !blocks->taken)
		goto no_books;
	for (i = 0; i < count; i++)
		blocks->free[i] = (uint32_t)(count - 1 - i);
	*out = blocks;
	return 0;

no_books:
	free_books(blocks);
no_memory:
	return hpi_error(-ENOMEM, "%s pool: no memory to book %zu blocks", hpi_pool_name(pool), count);
}

/*
 * The first block has the address of the pool's that all are cut from, which nobody may give back or resize meanwhile: to
 * the pool no address here is a block.
 */
bool hpi_blocks_own_any(const struct hugepin_pool *pool, const void *ptr)
{
	const struct hugepin_blocks *blocks;

	for (blocks = pool->blocks; blocks; blocks = blocks->next)
		if (blocks->memory == ptr)
			return true;
	return false;
}

static void link_to_pool(struct hugepin_blocks *blocks)
{
	struct hugepin_pool *pool = blocks->pool;

	hpi_pool_lock(pool);
	blocks->next = pool->blocks;
	pool->blocks = blocks;
	hpi_pool_unlock(pool);
}

static void unlink_from_pool(struct hugepin_blocks *blocks)
{
	struct hugepin_pool *pool = blocks->pool;
	struct hugepin_blocks **at = &pool->blocks;

	hpi_pool_lock(pool);
	while (*at != blocks)
		at = &(*at)->next;
	*at = blocks->next;
	hpi_pool_unlock(pool);
}

int hugepin_blocks_create(struct hugepin_pool *pool, uint64_t block_bytes, size_t count, struct hugepin_blocks **out)
{
	struct hugepin_blocks *blocks = NULL;
	uint64_t bytes;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	if (!block_bytes || !count || count > UINT32_MAX || block_bytes > INT64_MAX ||
	    __builtin_mul_overflow(hpi_round_up(block_bytes, HPI_POOL_GRAIN), count, &bytes))
		return hpi_error(-EINVAL, "%s pool: %zu blocks of %llu bytes are none, or more than can be counted",
				 hpi_pool_name(pool), count, (unsigned long long)block_bytes);
	err = open_books(pool, hpi_round_up(block_bytes, HPI_POOL_GRAIN), count, &blocks);
	if (err)
		return err;
	/* More aligned than what caches keep: freeing it is never so quick that hpi_blocks_own() is not asked. */
	blocks->memory = hugepin_alloc_aligned(pool, 2 * HPI_POOL_GRAIN, bytes, 0);
	if (!blocks->memory) {
		err = -errno;
		free_books(blocks);
		return err;
	}
	pthread_mutex_init(&blocks->lock, NULL);
	link_to_pool(blocks);
	*out = blocks;
	return 0;
}

int hugepin_blocks_destroy(struct hugepin_blocks *blocks)
{
	size_t in_use;
	int err;

	if (!blocks)
		return 0;
	if (hpi_context_is_child(blocks->pool->ctx)) {
		free_books(blocks);
		return 0;
	}
	pthread_mutex_lock(&blocks->lock);
	in_use = blocks->count - blocks->free_count;
	pthread_mutex_unlock(&blocks->lock);
	if (in_use)
		return hpi_error(-EBUSY, "%zu of %zu blocks of %llu bytes are in use", in_use, blocks->count,
				 (unsigned long long)blocks->block_bytes);
	unlink_from_pool(blocks);
	err = hugepin_free(blocks->pool, blocks->memory);
	if (err) {
		link_to_pool(blocks);
		return err;
	}
	pthread_mutex_destroy(&blocks->lock);
	free_books(blocks);
	return 0;
}

int hugepin_blocks_take(struct hugepin_blocks *blocks, size_t count, void *out[])
{
	int err = hpi_context_check(blocks->pool->ctx);
	uint32_t number;
	size_t i, left;

	if (err)
		return err;
	pthread_mutex_lock(&blocks->lock);
	left = blocks->free_count;
	for (i = 0; i < count && count <= left; i++) {
		number = blocks->free[--blocks->free_count];
		blocks->taken[number / 64] |= 1ull << number % 64;
		out[i] = blocks->memory + number * blocks->block_bytes;
	}
	pthread_mutex_unlock(&blocks->lock);
	if (count > left)
		return hpi_error(-ENOMEM, "asked %zu blocks of %llu bytes, %zu of %zu are free", count,
				 (unsigned long long)blocks->block_bytes, left, blocks->count);
	return 0;
}

/* The number of the block in use at @ptr; SIZE_MAX: there is none. Needs lock. */
static size_t number_of(const struct hugepin_blocks *blocks, const void *ptr)
{
	uint64_t offset = (uint64_t)((const char *)ptr - blocks->memory);
	size_t number = offset / blocks->block_bytes;

	if (offset % blocks->block_bytes || number >= blocks->count ||
	    !(blocks->taken[number / 64] >> number % 64 & 1))
		return SIZE_MAX;
	return number;
}

/* Onto the stack one by one, which finds what is named twice; at a bad one all come down again. */
int hugepin_blocks_give(struct hugepin_blocks *blocks, size_t count, void *const ptrs[])
{
	int err = hpi_context_check(blocks->pool->ctx);
	size_t i, number;

	if (err)
		return err;
	pthread_mutex_lock(&blocks->lock);
	for (i = 0; i < count; i++) {
		number = number_of(blocks, ptrs[i]);
		if (number == SIZE_MAX)
			break;
		blocks->taken[number / 64] &= ~(1ull << number % 64);
		blocks->free[blocks->free_count++] = (uint32_t)number;
	}
	if (i < count) {
		err = hpi_error(-EINVAL, "%p is not one of %zu blocks of %llu bytes, or is given back already", ptrs[i],
				blocks->count, (unsigned long long)blocks->block_bytes);
		while (i--) {
			number = blocks->free[--blocks->free_count];
			blocks->taken[number / 64] |= 1ull << number % 64;
		}
	}
	pthread_mutex_unlock(&blocks->lock);
	return err;
}

int hugepin_blocks_stats(struct hugepin_blocks *blocks, struct hugepin_blocks_stats *stats)
{
	struct hugepin_blocks_stats ours = {
		.block_bytes = blocks->block_bytes,
		.count = blocks->count,
	};
	int err = hpi_context_check(blocks->pool->ctx);

	if (err)
		return err;
	pthread_mutex_lock(&blocks->lock);
	ours.free = blocks->free_count;
	pthread_mutex_unlock(&blocks->lock);
	return hpi_pool_answer(stats, stats->size, &ours, sizeof(ours));
}
