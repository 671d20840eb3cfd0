// SPDX-License-Identifier: MIT
/*
 * Blocks come and go. This file alone knows where a block lives: in the arena, or among those of no bytes. The lock is
 * never held over anything slow; growth is.
 *
 *	nothing -> used -> free
 *	           used -> retired -> free		given back, but garbage or behind a fence
 *	                   retired -> used		ordered behind what it waited for
 */
#include "pool.h"

#include <errno.h>
#include <stdio.h>

bool hpi_block_is_empty(const struct hugepin_pool *pool, const void *ptr)
{
	return (const char *)ptr >= pool->nothing && (const char *)ptr < pool->nothing_end;
}

/* Where the block at @ptr is booked. Needs lock. */
static struct hpi_arena *arena_of(const struct hugepin_pool *pool, const void *ptr)
{
	if (hpi_block_is_empty(pool, ptr))
		return pool->zero_size;
	return pool->extents ? hpi_space_at(pool, ptr).arena : pool->arena;
}

/* A block from what is mapped. -ENOSPC: nothing fits. */
static int take(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed, void **out)
{
	struct hpi_arena *arena = bytes ? pool->arena : pool->zero_size;
	void *p;

	pthread_mutex_lock(&pool->lock);
	p = hpi_arena_alloc(arena, alignment, bytes, zeroed);
	if (p) {
		pool->allocs++;
		hpi_pool_note_peaks(pool);
	}
	pthread_mutex_unlock(&pool->lock);
	if (!p)
		return -errno;
	*out = p;
	return 0;
}

/* What a block will need in the books, so that no growth is made for one that then cannot be booked. */
static int reserve_books(struct hugepin_pool *pool)
{
	int err;

	pthread_mutex_lock(&pool->lock);
	err = hpi_arena_reserve(pool->arena);
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* After a growth that was of no use; the error text stays that of the reason. */
static void shrink_to(struct hugepin_pool *pool, uint64_t bytes)
{
	char text[512];
	uint64_t given = 0;

	snprintf(text, sizeof(text), "%s", hugepin_error());
	if (hpi_segments_trim(pool, bytes, &given))
		hpi_log(HUGEPIN_LOG_ERROR, "%s pool: after a failed block: %s", hpi_pool_name(pool), hugepin_error());
	hpi_error(-ENOMEM, "%s", text);
}

/*
 * Threads that did not find room queue up here; whoever is first may grow enough for the next. A thread that took what
 * was reserved in the books meanwhile leaves the growth without its block: then it is given back.
 */
static int take_growing(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed, void **out)
{
	uint64_t before = 0;
	bool grown = false;
	int err;

	pthread_mutex_lock(&pool->growth);
	for (;;) {
		err = take(pool, alignment, bytes, zeroed, out);
		if (err != -ENOSPC)
			break;
		err = reserve_books(pool);
		if (err)
			break;
		if (!grown)
			before = hpi_pool_mapped(pool);
		grown = true;
		err = hpi_pool_grow(pool, alignment, bytes);
		if (err)
			break;
	}
	if (err && grown && hpi_pool_mapped(pool) > before)
		shrink_to(pool, before);
	pthread_mutex_unlock(&pool->growth);
	return err;
}

int hpi_block_take(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed, void **out)
{
	int err = take(pool, alignment, bytes, zeroed, out);

	if (err == -ENOSPC && bytes && hpi_pool_let_pass(pool))
		err = take(pool, alignment, bytes, zeroed, out);
	if (err == -ENOSPC && bytes)
		err = take_growing(pool, alignment, bytes, zeroed, out);
	else if (err == -ENOSPC)
		err = hpi_error(-ENOMEM, "%s pool: no address left for another block of no bytes", hpi_pool_name(pool));
	if (err && bytes && hpi_pool_fenced(pool))
		hpi_error_add(err, "; %llu bytes are freed but wait for a device", (unsigned long long)hpi_pool_fenced(pool));
	return err;
}

/* Cuts what was taken for a run into its blocks; -ENOMEM: @*done of them are cut, and the rest is one. */
static int cut(struct hugepin_pool *pool, const uint64_t sizes[], size_t count, uint64_t total, void *out[],
	       size_t *done)
{
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	for (*done = 0; *done + 1 < count && !err; ++*done) {
		total -= hpi_round_up(sizes[*done], HPI_POOL_GRAIN);
		err = hpi_arena_split(pool->arena, out[*done], sizes[*done], total);
		if (err)
			break;
		out[*done + 1] = (char *)out[*done] + hpi_round_up(sizes[*done], HPI_POOL_GRAIN);
	}
	pool->allocs += *done;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int hpi_block_take_run(struct hugepin_pool *pool, const uint64_t sizes[], size_t count, void *out[])
{
	uint64_t total = 0;
	size_t i, done;
	int err;

	for (i = 0; i + 1 < count; i++)
		total += hpi_round_up(sizes[i], HPI_POOL_GRAIN);
	total += sizes[i];
	err = take(pool, HPI_POOL_GRAIN, total, NULL, &out[0]);
	if (err == -ENOSPC)
		err = take_growing(pool, HPI_POOL_GRAIN, total, NULL, &out[0]);
	if (err)
		return err;
	err = cut(pool, sizes, count, total, out, &done);
	if (!err)
		return 0;
	for (i = 0; i <= done; i++)
		hpi_block_free(pool, out[i]);
	return err;
}

int hpi_block_free(struct hugepin_pool *pool, void *ptr)
{
	int err;

	pthread_mutex_lock(&pool->lock);
	err = hpi_arena_free(arena_of(pool, ptr), ptr);
	if (!err)
		pool->frees++;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int hpi_block_retire(struct hugepin_pool *pool, void *ptr, uint64_t *bytes)
{
	int err;

	if (hpi_block_is_empty(pool, ptr)) {
		*bytes = 0;
		return hpi_block_free(pool, ptr);
	}
	pthread_mutex_lock(&pool->lock);
	err = hpi_arena_retire(arena_of(pool, ptr), ptr, bytes);
	if (!err)
		pool->frees++;
	pthread_mutex_unlock(&pool->lock);
	return err;
}

int hpi_block_revive(struct hugepin_pool *pool, void *ptr, uint64_t bytes)
{
	int err;

	pthread_mutex_lock(&pool->lock);
	err = hpi_arena_revive(pool->arena, ptr, bytes);
	if (!err) {
		pool->allocs++;
		hpi_pool_note_peaks(pool);
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

void hpi_block_return(struct hugepin_pool *pool, void *ptr)
{
	pthread_mutex_lock(&pool->lock);
	hpi_arena_return(arena_of(pool, ptr), ptr);
	pthread_mutex_unlock(&pool->lock);
}
