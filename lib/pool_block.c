// SPDX-License-Identifier: MIT
/*
 * Blocks come and go. This file alone knows where a block lives: in a span, in the arena, or among those of no bytes.
 * What does not go the quick way (pool_quick.c) is done under the lock, which is never held over anything slow; growth
 * is.
 *
 *	nothing -> used -> free
 *	           used -> retired -> free		given back, but garbage or behind a fence
 *	                   retired -> used		ordered behind what it waited for
 */
#include "pool_cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOVE_MIN	HPI_MIB(1)

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

/* ---- under the lock ---- */

/* The span that @ptr lies in, and what the block there is held for (NULL: none starts there); NULL: in none. */
static struct span *small_at(const struct hugepin_pool *pool, const void *ptr, uint32_t **held)
{
	uint64_t offset = (uint64_t)((const char *)ptr - pool->window);
	struct span *span = NULL;

	if (pool->caches && offset < (uint64_t)(pool->window_end - pool->window))
		span = span_at(pool->caches, offset);
	if (span)
		*held = lot_held_at(&span->lot, (uintptr_t)ptr);
	return span;
}

static bool is_in_use(const uint32_t *held)
{
	return held && is_held(*held);
}

/* What the thread has counted so far is added before what is done next: for the peaks. */
static void lock_books(struct hugepin_pool *pool)
{
	struct cache *cache = cache_at_hand(pool);

	pool_lock_as(pool, cache);
	if (cache)
		cache_add_counts(cache);
}

/* More than what is asked for where a cache could keep it then; but rather just that than none. */
static void *book(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed)
{
	const struct cache *cache;
	unsigned int class;
	void *p = NULL;

	if (bytes > SMALL_MAX && bytes <= WHOLE_MAX && alignment <= HPI_POOL_GRAIN) {
		cache = cache_at_hand(pool);
		class = class_of(bytes);
		if (cache && is_kept_at_all(cache, bytes))
			p = hpi_arena_alloc_marked(pool->arena, bytes, class_bytes(class), mark_of(class), zeroed);
	}
	return p ? p : hpi_arena_alloc(pool->arena, alignment, bytes, zeroed);
}

void *hpi_block_book(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed)
{
	void *p = bytes ? book(pool, alignment, bytes, zeroed) :
			  hpi_arena_alloc(pool->zero_size, alignment, 0, zeroed);

	if (p) {
		pool->allocs++;
		pool_note_peaks(pool, 0, 0);
	}
	return p;
}

/* A block from what is mapped. -ENOSPC: nothing fits. */
static int take(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed, void **out)
{
	int err;

	lock_books(pool);
	*out = hpi_block_book(pool, alignment, bytes, zeroed);
	err = *out ? 0 : -errno;
	hpi_pool_unlock(pool);
	return err;
}

/* Before a growth. What a block will need in the books, so that none is made for one that then cannot be booked. */
static int reserve_books(struct hugepin_pool *pool, uint64_t bytes)
{
	int err;

	hpi_pool_lock(pool);
	err = hpi_arena_reserve(pool->arena);
	if (pool->caches)
		hpi_caches_note_growth(pool, bytes);
	hpi_pool_unlock(pool);
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
		err = reserve_books(pool, bytes);
		if (err)
			break;
		if (!grown)
			before = hpi_pool_mapped(pool);
		grown = true;
		err = hpi_pool_grow(pool, alignment, bytes);
		if (err && !hpi_caches_empty(pool))
			break;
	}
	if (err && grown && hpi_pool_mapped(pool) > before && !hpi_watches_any(pool))
		shrink_to(pool, before);
	pthread_mutex_unlock(&pool->growth);
	return err;
}

int hpi_block_take(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed, void **out)
{
	int err;

	void *p = alignment <= HPI_POOL_GRAIN ? hpi_block_take_cached(pool, bytes) : NULL;

	if (p) {
		*out = p;
		return 0;
	}
	err = take(pool, alignment, bytes, zeroed, out);
	if (err == -ENOSPC && bytes && hpi_caches_are_worth_it(pool)) {
		hpi_caches_empty(pool);		/* before more is mapped */
		err = take(pool, alignment, bytes, zeroed, out);
	}
	if (err == -ENOSPC && bytes && hpi_pool_let_pass(pool))
		err = take(pool, alignment, bytes, zeroed, out);
	if (err == -ENOSPC && bytes) {
		err = take_growing(pool, alignment, bytes, zeroed, out);
		hpi_watches_tell(pool);
	} else if (err == -ENOSPC) {
		err = hpi_error(-ENOMEM, "%s pool: no address left for another block of no bytes", hpi_pool_name(pool));
	}
	if (err && bytes && hpi_pool_fenced(pool))
		hpi_error_add(err, "; %llu bytes are freed but wait for a device", (unsigned long long)hpi_pool_fenced(pool));
	return err;
}

/* Cuts what was taken for a run into its blocks; -ENOMEM: @*done of them are cut, and the rest is one. */
static int cut(struct hugepin_pool *pool, const uint64_t sizes[], size_t count, uint64_t total, void *out[],
	       size_t *done)
{
	int err = 0;

	hpi_pool_lock(pool);
	for (*done = 0; *done + 1 < count && !err; ++*done) {
		total -= hpi_round_up(sizes[*done], HPI_POOL_GRAIN);
		err = hpi_arena_split(pool->arena, out[*done], sizes[*done], total);
		if (err)
			break;
		out[*done + 1] = (char *)out[*done] + hpi_round_up(sizes[*done], HPI_POOL_GRAIN);
	}
	pool->allocs += *done;
	hpi_pool_unlock(pool);
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
	if (err == -ENOSPC) {
		err = take_growing(pool, HPI_POOL_GRAIN, total, NULL, &out[0]);
		hpi_watches_tell(pool);
	}
	if (err)
		return err;
	err = cut(pool, sizes, count, total, out, &done);
	if (!err)
		return 0;
	for (i = 0; i <= done; i++)
		hpi_block_free(pool, out[i]);
	return err;
}

/* Takes a small block from its user, to be free at once or later. */
static int end_use(struct hugepin_pool *pool, const struct span *span, uint32_t *held, uint32_t after)
{
	if (!is_in_use(held))
		return -EINVAL;
	pool->caches->counts.active -= (int64_t)span->lot.bytes;
	pool->caches->counts.requested -= (int64_t)*held - 1;
	pool->caches->blocks--;
	pool->frees++;
	*held = after;
	return 0;
}

int hpi_block_free_booked(struct hugepin_pool *pool, void *ptr)
{
	uint32_t *held;
	struct span *span = small_at(pool, ptr, &held);
	int err;

	if (span) {
		err = end_use(pool, span, held, 0);
		if (!err)
			hpi_small_give(pool, &(struct block){ ptr, held });
		return err;
	}
	err = hpi_blocks_own(pool, ptr) ? -EINVAL : hpi_arena_free(arena_of(pool, ptr), ptr);
	if (!err)
		pool->frees++;
	return err;
}

int hpi_block_retire(struct hugepin_pool *pool, void *ptr, uint64_t *bytes)
{
	struct span *span;
	uint32_t *held;
	int err;

	if (hpi_block_is_empty(pool, ptr)) {
		*bytes = 0;
		return hpi_block_free(pool, ptr);
	}
	lock_books(pool);
	span = small_at(pool, ptr, &held);
	if (span) {
		err = end_use(pool, span, held, HELD_RETIRED);
		if (!err) {
			*bytes = span->lot.bytes;
			pool->caches->retired_bytes += span->lot.bytes;
		}
	} else {
		err = hpi_blocks_own(pool, ptr) ? -EINVAL : hpi_arena_retire(arena_of(pool, ptr), ptr, bytes);
		if (!err)
			pool->frees++;
	}
	hpi_pool_unlock(pool);
	return err;
}

static int revive_small(struct hugepin_pool *pool, const struct span *span, uint32_t *held, uint64_t bytes)
{
	if (!held || *held != HELD_RETIRED || bytes > span->lot.bytes)
		return -EINVAL;
	*held = (uint32_t)bytes + 1;
	pool->caches->retired_bytes -= span->lot.bytes;
	pool->caches->counts.active += (int64_t)span->lot.bytes;
	pool->caches->counts.requested += (int64_t)bytes;
	pool->caches->blocks++;
	return 0;
}

int hpi_block_revive(struct hugepin_pool *pool, void *ptr, uint64_t bytes)
{
	struct span *span;
	uint32_t *held;
	int err;

	lock_books(pool);
	span = small_at(pool, ptr, &held);
	err = span ? revive_small(pool, span, held, bytes) : hpi_arena_revive(pool->arena, ptr, bytes);
	if (!err) {
		pool->allocs++;
		pool_note_peaks(pool, 0, 0);
	}
	hpi_pool_unlock(pool);
	return err;
}

void hpi_block_return(struct hugepin_pool *pool, void *ptr)
{
	struct span *span;
	uint32_t *held;

	hpi_pool_lock(pool);
	span = small_at(pool, ptr, &held);
	if (span) {
		*held = 0;
		pool->caches->retired_bytes -= span->lot.bytes;
		hpi_small_give(pool, &(struct block){ ptr, held });
	} else {
		hpi_arena_return(arena_of(pool, ptr), ptr);
	}
	hpi_pool_unlock(pool);
}

/* ---- of one block ---- */

uint64_t hpi_block_bytes(struct hugepin_pool *pool, const void *ptr)
{
	uint32_t *held;
	uint64_t bytes;

	hpi_pool_lock(pool);
	if (small_at(pool, ptr, &held))
		bytes = is_in_use(held) ? *held - 1u : UINT64_MAX;
	else if (hpi_blocks_own(pool, ptr))
		bytes = UINT64_MAX;
	else
		bytes = hpi_arena_block_bytes(arena_of(pool, ptr), ptr);
	hpi_pool_unlock(pool);
	return bytes;
}

uint64_t hpi_block_usable(struct hugepin_pool *pool, const void *ptr)
{
	const struct span *span;
	uint32_t *held;
	uint64_t bytes;

	hpi_pool_lock(pool);
	span = small_at(pool, ptr, &held);
	if (span) {
		bytes = is_in_use(held) ? span->lot.bytes : UINT64_MAX;
	} else if (hpi_blocks_own(pool, ptr)) {
		bytes = UINT64_MAX;
	} else {
		bytes = hpi_arena_block_bytes(hpi_block_is_empty(pool, ptr) ? pool->zero_size : pool->arena, ptr);
		if (bytes != UINT64_MAX)
			bytes = hpi_round_up(bytes, HPI_POOL_GRAIN);
	}
	hpi_pool_unlock(pool);
	return bytes;
}

static int resize_small(struct hugepin_pool *pool, const struct span *span, uint32_t *held, uint64_t bytes,
			uint64_t *old)
{
	if (!is_in_use(held))
		return -EINVAL;
	*old = *held - 1u;
	if (bytes > span->lot.bytes)
		return -E2BIG;
	pool->caches->counts.requested += (int64_t)(bytes - *old);
	*held = (uint32_t)bytes + 1;
	return 0;
}

static int resize(struct hugepin_pool *pool, void *ptr, uint64_t bytes, uint64_t *old)
{
	struct span *span;
	uint32_t *held;
	int err;

	lock_books(pool);
	span = small_at(pool, ptr, &held);
	if (span) {
		err = resize_small(pool, span, held, bytes, old);
	} else if (hpi_blocks_own(pool, ptr)) {
		err = -EINVAL;
	} else {
		*old = hpi_arena_block_bytes(pool->arena, ptr);
		err = hpi_arena_resize(pool->arena, ptr, bytes);
	}
	if (!err)
		pool_note_peaks(pool, 0, 0);
	hpi_pool_unlock(pool);
	return err;
}

int hpi_block_resize(struct hugepin_pool *pool, void *ptr, uint64_t bytes, uint64_t *old)
{
	int err = resize(pool, ptr, bytes, old);

	/* What is kept may stand in the way; moving a large block costs more than emptying the caches. */
	if (err == -ENOSPC && pool->caches && bytes >= MOVE_MIN) {
		hpi_caches_empty(pool);
		err = resize(pool, ptr, bytes, old);
	}
	return err;
}
