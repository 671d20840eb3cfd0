// SPDX-License-Identifier: MIT
/*
 * Blocks come and go. This file alone knows where a block lives: in a span, in the arena, or among those of no bytes. What
 * the thread's cache has not is taken under the lock, which is never held over anything slow; growth is.
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

/* ---- from and to the thread's cache ---- */

static inline struct cache *cache_of(struct hugepin_pool *pool)
{
	const struct hpi_cache_hot *hot;

	if (!pool->caches)
		return NULL;
	hot = &hpi_cache_hot[pool->caches->id % HPI_CACHE_HOT];
	return __builtin_expect(hot->id == pool->caches->id, 1) ? hot->cache : hpi_cache_find(pool);
}

static inline struct cache *enter_cache(struct hugepin_pool *pool)
{
	struct cache *cache = cache_of(pool);

	while (cache && !cache_enter(cache))
		hpi_cache_wait(cache);
	return cache;
}

static inline void count_alloc(struct cache *cache, uint64_t bytes, uint64_t requested)
{
	count_add(&cache->counts.active, (int64_t)bytes);
	count_add(&cache->counts.requested, (int64_t)requested);
	cache->counts.allocs++;
	if (cache->counts.active > cache->high_active)
		cache->high_active = cache->counts.active;
	if (cache->counts.requested > cache->high_requested)
		cache->high_requested = cache->counts.requested;
}

static inline void count_free(struct cache *cache, uint64_t bytes, uint64_t requested)
{
	count_add(&cache->counts.active, -(int64_t)bytes);
	count_add(&cache->counts.requested, -(int64_t)requested);
	cache->counts.frees++;
}

/* Half a stack at once; false: nothing to be had without growing. */
static __attribute__((noinline)) bool refill(struct hugepin_pool *pool, struct cache *cache, unsigned int class)
{
	if (!cache->room[class])
		return false;
	hpi_pool_lock(pool);
	hpi_cache_add_counts(cache);
	cache->filled[class] = hpi_small_take(pool, class, cache->stack[class], (cache->room[class] + 1) / 2);
	hpi_pool_unlock(pool);
	return cache->filled[class];
}

static inline void *take_small(struct hugepin_pool *pool, struct cache *cache, uint64_t bytes)
{
	unsigned int class = class_of(bytes);
	const struct small *small;

	if (__builtin_expect(!cache->filled[class], 0) && !refill(pool, cache, class))
		return NULL;
	small = &cache->stack[class][--cache->filled[class]];
	*small->state = (uint16_t)(bytes + 1);
	count_alloc(cache, class_bytes(class), bytes);
	return small->ptr;
}

static inline void *take_kept(struct cache *cache, uint64_t bytes)
{
	struct chunk *c = hpi_keep_take(cache, hpi_round_up(bytes, HPI_POOL_GRAIN));

	if (!c)
		return NULL;
	c->requested = bytes;
	__atomic_store_n(&c->kept, 0, __ATOMIC_RELAXED);
	cache->kept_requested += (int64_t)bytes;
	count_alloc(cache, c->bytes, bytes);
	return (void *)c->addr;
}

void *hpi_block_take_cached(struct hugepin_pool *pool, uint64_t bytes)
{
	struct cache *cache;
	void *p;

	if (bytes - 1 >= KEEP_MAX)
		return NULL;
	cache = enter_cache(pool);
	if (!cache)
		return NULL;
	if (bytes <= SMALL_MAX)
		p = take_small(pool, cache, bytes);
	else
		p = take_kept(cache, bytes);
	cache_leave(cache);
	return p;
}

/* The lower half of a full stack; what was freed last is used next. */
static __attribute__((noinline)) void spill(struct hugepin_pool *pool, struct cache *cache, unsigned int class)
{
	struct small *stack = cache->stack[class];
	unsigned int i, half = (cache->room[class] + 1) / 2;

	hpi_pool_lock(pool);
	hpi_cache_add_counts(cache);
	for (i = 0; i < half; i++)
		hpi_small_give(pool, &stack[i]);
	hpi_pool_unlock(pool);
	cache->filled[class] -= half;
	memmove(stack, stack + half, cache->filled[class] * sizeof(*stack));
}

static inline int give_small(struct hugepin_pool *pool, struct cache *cache, struct span *span, void *ptr)
{
	uint16_t *state = span_state(span, ptr);
	unsigned int class = span->class;

	if (__builtin_expect(!state || !*state || *state == STATE_RETIRED || !cache->room[class], 0))
		return -EINVAL;
	if (__builtin_expect(cache->filled[class] == cache->room[class], 0))
		spill(pool, cache, class);
	count_free(cache, span->bytes, *state - 1u);
	*state = 0;
	cache->stack[class][cache->filled[class]++] = (struct small){ ptr, state };
	return 0;
}

/* Half of what is kept goes, so that the next blocks need no lock. */
static __attribute__((noinline)) void make_room(struct hugepin_pool *pool, struct cache *cache)
{
	hpi_pool_lock(pool);
	hpi_cache_add_counts(cache);
	hpi_keep_give(cache, cache->may_keep_bytes / 2);
	hpi_pool_unlock(pool);
}

static inline int give_whole(struct hugepin_pool *pool, struct cache *cache, void *ptr, uint64_t offset)
{
	uintptr_t slot = __atomic_load_n(&pool->caches->map[offset / HPI_TABLE_SLOT_BYTES], __ATOMIC_RELAXED);
	struct chunk *c = hpi_table_slot_chunk(slot, (uintptr_t)ptr);

	if (!c || c->addr != (uintptr_t)ptr || c->state != CHUNK_USED || __atomic_load_n(&c->kept, __ATOMIC_RELAXED) ||
	    c->bytes <= SMALL_MAX || c->bytes > KEEP_MAX || c->bytes > cache->may_keep_bytes / 2)
		return -EINVAL;
	if (__builtin_expect(cache->kept_bytes + c->bytes > cache->may_keep_bytes, 0))
		make_room(pool, cache);
	count_free(cache, c->bytes, c->requested);
	cache->kept_requested -= (int64_t)c->requested;
	c->requested = 0;
	__atomic_store_n(&c->kept, 1, __ATOMIC_RELAXED);
	hpi_keep_put(cache, c);
	return 0;
}

/* -EINVAL: not a block that a cache can keep. */
static int give_cached(struct hugepin_pool *pool, void *ptr)
{
	uint64_t offset = (uint64_t)((char *)ptr - pool->window);
	struct cache *cache;
	struct span *span;
	int err;

	if (offset >= (uint64_t)(pool->window_end - pool->window))
		return -EINVAL;
	cache = enter_cache(pool);
	if (!cache)
		return -EINVAL;
	span = span_at(pool->caches, offset);
	err = span ? give_small(pool, cache, span, ptr) : give_whole(pool, cache, ptr, offset);
	cache_leave(cache);
	return err;
}

/* ---- under the lock ---- */

/* The span's block at @ptr, with its state; NULL: it lies in no span. */
static struct span *small_at(const struct hugepin_pool *pool, const void *ptr, uint16_t **state)
{
	uint64_t offset = (uint64_t)((const char *)ptr - pool->window);
	struct span *span = NULL;

	if (pool->caches && offset < (uint64_t)(pool->window_end - pool->window))
		span = span_at(pool->caches, offset);
	if (span)
		*state = span_state(span, ptr);
	return span;
}

static bool is_in_use(const uint16_t *state)
{
	return state && *state && *state != STATE_RETIRED;
}

/* What the thread has counted so far is added before what is done next: for the peaks. */
static void lock_books(struct hugepin_pool *pool)
{
	struct cache *cache = cache_of(pool);

	hpi_pool_lock(pool);
	if (cache)
		hpi_cache_add_counts(cache);
}

/* A block from what is mapped. -ENOSPC: nothing fits. */
static int take(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed, void **out)
{
	struct hpi_arena *arena = bytes ? pool->arena : pool->zero_size;
	void *p;

	lock_books(pool);
	p = hpi_arena_alloc(arena, alignment, bytes, zeroed);
	if (p) {
		pool->allocs++;
		hpi_pool_note_peaks(pool);
	}
	hpi_pool_unlock(pool);
	if (!p)
		return -errno;
	*out = p;
	return 0;
}

/* What a block will need in the books, so that no growth is made for one that then cannot be booked. */
static int reserve_books(struct hugepin_pool *pool)
{
	int err;

	hpi_pool_lock(pool);
	err = hpi_arena_reserve(pool->arena);
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
		err = reserve_books(pool);
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

	if (alignment <= HPI_POOL_GRAIN) {
		*out = hpi_block_take_cached(pool, bytes);
		if (*out)
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
static int end_use(struct hugepin_pool *pool, const struct span *span, uint16_t *state, uint16_t after)
{
	if (!is_in_use(state))
		return -EINVAL;
	pool->caches->counts.active -= span->bytes;
	pool->caches->counts.requested -= *state - 1;
	pool->caches->blocks--;
	pool->frees++;
	*state = after;
	return 0;
}

static int free_locked(struct hugepin_pool *pool, void *ptr)
{
	uint16_t *state;
	struct span *span = small_at(pool, ptr, &state);
	int err;

	if (span) {
		err = end_use(pool, span, state, 0);
		if (!err)
			hpi_small_give(pool, &(struct small){ ptr, state });
		return err;
	}
	err = hpi_arena_free(arena_of(pool, ptr), ptr);
	if (!err)
		pool->frees++;
	return err;
}

int hpi_block_free(struct hugepin_pool *pool, void *ptr)
{
	int err = give_cached(pool, ptr);

	if (!err)
		return 0;
	lock_books(pool);
	err = free_locked(pool, ptr);
	hpi_pool_unlock(pool);
	return err;
}

int hpi_block_retire(struct hugepin_pool *pool, void *ptr, uint64_t *bytes)
{
	struct span *span;
	uint16_t *state;
	int err;

	if (hpi_block_is_empty(pool, ptr)) {
		*bytes = 0;
		return hpi_block_free(pool, ptr);
	}
	lock_books(pool);
	span = small_at(pool, ptr, &state);
	if (span) {
		err = end_use(pool, span, state, STATE_RETIRED);
		if (!err) {
			*bytes = span->bytes;
			pool->caches->retired_bytes += span->bytes;
		}
	} else {
		err = hpi_arena_retire(arena_of(pool, ptr), ptr, bytes);
		if (!err)
			pool->frees++;
	}
	hpi_pool_unlock(pool);
	return err;
}

static int revive_small(struct hugepin_pool *pool, const struct span *span, uint16_t *state, uint64_t bytes)
{
	if (!state || *state != STATE_RETIRED || bytes > span->bytes)
		return -EINVAL;
	*state = (uint16_t)(bytes + 1);
	pool->caches->retired_bytes -= span->bytes;
	pool->caches->counts.active += span->bytes;
	pool->caches->counts.requested += (int64_t)bytes;
	pool->caches->blocks++;
	return 0;
}

int hpi_block_revive(struct hugepin_pool *pool, void *ptr, uint64_t bytes)
{
	struct span *span;
	uint16_t *state;
	int err;

	lock_books(pool);
	span = small_at(pool, ptr, &state);
	err = span ? revive_small(pool, span, state, bytes) : hpi_arena_revive(pool->arena, ptr, bytes);
	if (!err) {
		pool->allocs++;
		hpi_pool_note_peaks(pool);
	}
	hpi_pool_unlock(pool);
	return err;
}

void hpi_block_return(struct hugepin_pool *pool, void *ptr)
{
	struct span *span;
	uint16_t *state;

	hpi_pool_lock(pool);
	span = small_at(pool, ptr, &state);
	if (span) {
		*state = 0;
		pool->caches->retired_bytes -= span->bytes;
		hpi_small_give(pool, &(struct small){ ptr, state });
	} else {
		hpi_arena_return(arena_of(pool, ptr), ptr);
	}
	hpi_pool_unlock(pool);
}

/* ---- of one block ---- */

uint64_t hpi_block_bytes(struct hugepin_pool *pool, const void *ptr)
{
	uint16_t *state;
	uint64_t bytes;

	hpi_pool_lock(pool);
	if (small_at(pool, ptr, &state))
		bytes = is_in_use(state) ? *state - 1u : UINT64_MAX;
	else
		bytes = hpi_arena_block_bytes(arena_of(pool, ptr), ptr);
	hpi_pool_unlock(pool);
	return bytes;
}

uint64_t hpi_block_usable(struct hugepin_pool *pool, const void *ptr)
{
	const struct span *span;
	uint16_t *state;
	uint64_t bytes;

	hpi_pool_lock(pool);
	span = small_at(pool, ptr, &state);
	if (span) {
		bytes = is_in_use(state) ? span->bytes : UINT64_MAX;
	} else {
		bytes = hpi_arena_block_bytes(hpi_block_is_empty(pool, ptr) ? pool->zero_size : pool->arena, ptr);
		if (bytes != UINT64_MAX)
			bytes = hpi_round_up(bytes, HPI_POOL_GRAIN);
	}
	hpi_pool_unlock(pool);
	return bytes;
}

static int resize_small(struct hugepin_pool *pool, const struct span *span, uint16_t *state, uint64_t bytes, uint64_t *old)
{
	if (!is_in_use(state))
		return -EINVAL;
	*old = *state - 1u;
	if (bytes > span->bytes)
		return -E2BIG;
	pool->caches->counts.requested += (int64_t)(bytes - *old);
	*state = (uint16_t)(bytes + 1);
	return 0;
}

static int resize(struct hugepin_pool *pool, void *ptr, uint64_t bytes, uint64_t *old)
{
	struct span *span;
	uint16_t *state;
	int err;

	lock_books(pool);
	span = small_at(pool, ptr, &state);
	if (span) {
		err = resize_small(pool, span, state, bytes, old);
	} else {
		*old = hpi_arena_block_bytes(pool->arena, ptr);
		err = hpi_arena_resize(pool->arena, ptr, bytes);
	}
	if (!err)
		hpi_pool_note_peaks(pool);
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
