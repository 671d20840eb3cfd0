// SPDX-License-Identifier: MIT
/*
 * hugepin_alloc() and hugepin_free(), as they nearly always go: to and from what the thread keeps, with no lock and no
 * atomic read-modify-write; larger blocks to and from the arena, under the pool's lock, which a thread alone owns. What
 * does not go this way (a pool that has to grow, garbage, alignments, mistakes) is passed on to pool_block.c.
 */
#include "pool_cache.h"

#include <errno.h>
#include <string.h>

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define NOINLINE	__attribute__((noinline))

#define GIVEN_AT_ONCE	4			/* whole blocks: what bounds the costliest call */

/*
 * The quick functions call nothing, so that they need no frame: whatever is not as usual is the business of a slow one,
 * which begins anew.
 */

static struct cache *cache_of(struct hugepin_pool *pool)
{
	struct cache *cache = cache_at_hand(pool);

	return likely(cache) || !pool->caches ? cache : hpi_cache_find(pool);
}

static void enter(struct cache *cache)
{
	while (unlikely(!cache_enter(cache)))
		hpi_cache_wait(cache);
}

static inline void count_alloc(struct cache *cache, uint64_t bytes, uint64_t requested)
{
	int64_t active = cache->counts.active + (int64_t)bytes, sum = cache->counts.requested + (int64_t)requested;

	__atomic_store_n(&cache->counts.active, active, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->counts.requested, sum, __ATOMIC_RELAXED);
	cache->counts.allocs++;
	if (unlikely(active > cache->high_active))
		cache->high_active = active;
	if (unlikely(sum > cache->high_requested))
		cache->high_requested = sum;
}

static inline void count_free(struct cache *cache, uint64_t bytes, uint64_t requested)
{
	count_add(&cache->counts.active, -(int64_t)bytes);
	count_add(&cache->counts.requested, -(int64_t)requested);
	cache->counts.frees++;
}

/* ---- a thread's stacks; the cache is entered ---- */

/* From a stack that is not empty. */
static inline void *pop(struct cache *cache, unsigned int class, uint64_t bytes)
{
	unsigned int at = --cache->filled[class];
	const struct small *small;
	struct chunk *c;

	if (class < SMALL_CLASSES) {
		small = &cache->stack[class][at];
		*small->state = (uint16_t)(bytes + 1);
		count_alloc(cache, class_bytes(class), bytes);
		return small->ptr;
	}
	c = cache->whole[class - SMALL_CLASSES][at];
	cache->kept_bytes -= c->bytes;
	c->requested = bytes;
	__atomic_store_n(&c->kept, 0, __ATOMIC_RELAXED);
	cache->kept_requested += (int64_t)bytes;
	count_alloc(cache, c->bytes, bytes);
	return (void *)c->addr;
}

/* On a stack that is not full. */
static inline void push_small(struct cache *cache, const struct span *span, uint16_t *state, void *ptr)
{
	unsigned int class = span->class;

	count_free(cache, span->bytes, *state - 1u);
	*state = 0;
	cache->stack[class][cache->filled[class]++] = (struct small){ ptr, state };
}

static inline void push_whole(struct cache *cache, unsigned int class, struct chunk *c)
{
	count_free(cache, c->bytes, c->requested);
	cache->kept_requested -= (int64_t)c->requested;
	c->requested = 0;
	__atomic_store_n(&c->kept, 1, __ATOMIC_RELAXED);
	cache->whole[class - SMALL_CLASSES][cache->filled[class]++] = c;
	cache->kept_bytes += c->bytes;
}

/* Half a stack at once; false: nothing to be had without growing. Whole blocks come one by one, from who wants one. */
static bool refill(struct hugepin_pool *pool, struct cache *cache, unsigned int class)
{
	if (class >= SMALL_CLASSES || !cache->room[class])
		return false;
	pool_lock_as(pool, cache);
	cache_add_counts(cache);
	cache->filled[class] = hpi_small_take(pool, class, cache->stack[class], (cache->room[class] + 1) / 2);
	pool_unlock(pool);
	return cache->filled[class];
}

/* The lower half of a full stack; what was freed last is used next. */
static void spill(struct hugepin_pool *pool, struct cache *cache, unsigned int class)
{
	struct small *stack = cache->stack[class];
	unsigned int i, half = (cache->room[class] + 1) / 2;

	pool_lock_as(pool, cache);
	cache_add_counts(cache);
	for (i = 0; i < half; i++)
		hpi_small_give(pool, &stack[i]);
	pool_unlock(pool);
	cache->filled[class] -= half;
	memmove(stack, stack + half, cache->filled[class] * sizeof(*stack));
}

/* Among the whole blocks, for a few more than the next one. */
static void make_room(struct hugepin_pool *pool, struct cache *cache)
{
	pool_lock_as(pool, cache);
	cache_add_counts(cache);
	if (!hpi_whole_grow(cache))
		hpi_whole_give(cache, cache->may_keep_bytes / 2, GIVEN_AT_ONCE);
	pool_unlock(pool);
}

/* ---- in ---- */

void *hpi_block_take_cached(struct hugepin_pool *pool, uint64_t bytes)
{
	struct cache *cache = bytes - 1 < WHOLE_MAX ? cache_of(pool) : NULL;
	unsigned int class;
	void *p = NULL;

	if (!cache)
		return NULL;
	class = class_of(bytes);
	enter(cache);
	if (cache->filled[class] || refill(pool, cache, class))
		p = pop(cache, class, bytes);
	cache_leave(cache);
	return p;
}

/* From what is mapped, or by growing. */
static NOINLINE void *alloc_booked(struct hugepin_pool *pool, struct cache *cache, size_t bytes)
{
	void *p;

	pool_lock_as(pool, cache);
	if (cache)
		cache_add_counts(cache);
	p = hpi_block_book(pool, HPI_POOL_GRAIN, bytes, NULL);
	pool_unlock(pool);
	return likely(p) ? p : hugepin_alloc_aligned(pool, HPI_POOL_GRAIN, bytes, 0);
}

static NOINLINE void *alloc_slow(struct hugepin_pool *pool, size_t bytes, unsigned int flags)
{
	void *p;

	if (flags || pool->fills || !hpi_context_is_ours(pool->ctx))
		return hugepin_alloc_aligned(pool, HPI_POOL_GRAIN, bytes, flags);
	p = hpi_block_take_cached(pool, bytes);
	if (p)
		return p;
	if (bytes > SMALL_MAX)
		return alloc_booked(pool, cache_of(pool), bytes);
	return hugepin_alloc_aligned(pool, HPI_POOL_GRAIN, bytes, flags);
}

void *hugepin_alloc(struct hugepin_pool *pool, size_t bytes, unsigned int flags)
{
	struct cache *cache = cache_at_hand(pool);
	unsigned int class;
	void *p;

	if (unlikely(flags | pool->fills || !cache || !bytes || !hpi_context_is_ours(pool->ctx)))
		return alloc_slow(pool, bytes, flags);
	if (bytes > SMALL_MAX && !is_kept_at_all(cache, bytes))
		return alloc_booked(pool, cache, bytes);
	class = class_of(bytes);
	if (unlikely(!cache_enter(cache)))
		return alloc_slow(pool, bytes, flags);
	if (unlikely(!cache->filled[class])) {
		cache_leave(cache);
		return class < SMALL_CLASSES ? alloc_slow(pool, bytes, flags) : alloc_booked(pool, cache, bytes);
	}
	p = pop(cache, class, bytes);
	cache_leave(cache);
	return p;
}

/* ---- out ---- */

/* What is known of the block at @ptr before the cache is entered. */
struct found {
	struct span *span;
	struct chunk *chunk;			/* of the arena, which has a slot of the map for itself; or NULL */
};

static inline struct found find(const struct hugepin_pool *pool, const void *ptr)
{
	uint64_t offset = (uint64_t)((const char *)ptr - pool->window);
	uintptr_t slot;

	if (unlikely(offset >= (uint64_t)(pool->window_end - pool->window)))
		return (struct found){ NULL, NULL };
	slot = __atomic_load_n(&pool->caches->map[offset / HPI_TABLE_SLOT_BYTES], __ATOMIC_RELAXED);
	if (slot & 1)
		return (struct found){ (struct span *)(slot - 1), NULL };
	return (struct found){ NULL, hpi_table_slot_chunk(slot, (uintptr_t)ptr) };
}

/* The state of a block in use that its class may be kept of; or NULL. */
static inline uint16_t *state_in_use(const struct cache *cache, struct span *span, const void *ptr)
{
	uint16_t *state = span_state(span, ptr);

	return likely(state && (*state - 1u) < STATE_RETIRED - 1u && cache->room[span->class]) ? state : NULL;
}

static inline bool is_keepable(const struct cache *cache, const struct chunk *c, const void *ptr, unsigned int class)
{
	return c->addr == (uintptr_t)ptr && c->state == CHUNK_USED && !__atomic_load_n(&c->kept, __ATOMIC_RELAXED) &&
	       class - SMALL_CLASSES < WHOLE_CLASSES && class_bytes(class) == c->bytes &&
	       cache->filled[class] < cache->room[class];
}

/* -EINVAL: not a block that a cache can keep. */
static int give_cached(struct hugepin_pool *pool, struct cache *cache, struct found found, void *ptr)
{
	unsigned int class;
	uint16_t *state;

	if (found.span) {
		state = state_in_use(cache, found.span, ptr);
		if (!state)
			return -EINVAL;
		class = found.span->class;
		if (cache->filled[class] == cache->room[class])
			spill(pool, cache, class);
		push_small(cache, found.span, state, ptr);
		return 0;
	}
	class = class_of(found.chunk->bytes);
	if (!is_keepable(cache, found.chunk, ptr, class))
		return -EINVAL;
	if (cache->kept_bytes + found.chunk->bytes > cache->may_keep_bytes)
		make_room(pool, cache);
	if (cache->kept_bytes + found.chunk->bytes > cache->may_keep_bytes)
		return -EINVAL;
	push_whole(cache, class, found.chunk);
	return 0;
}

static int free_booked(struct hugepin_pool *pool, struct cache *cache, void *ptr)
{
	int err;

	pool_lock_as(pool, cache);
	if (cache)
		cache_add_counts(cache);
	err = hpi_block_free_booked(pool, ptr);
	pool_unlock(pool);
	return err;
}

int hpi_block_free(struct hugepin_pool *pool, void *ptr)
{
	struct cache *cache = cache_of(pool);
	struct found found = { NULL, NULL };
	int err = -EINVAL;

	if (cache)
		found = find(pool, ptr);
	if (found.span || (found.chunk && is_kept_at_all(cache, found.chunk->bytes))) {
		enter(cache);
		err = give_cached(pool, cache, found, ptr);
		cache_leave(cache);
	}
	return err ? free_booked(pool, cache, ptr) : 0;
}

static NOINLINE int free_slow(struct hugepin_pool *pool, void *ptr)
{
	int err = hpi_context_is_ours(pool->ctx) ? 0 : hpi_context_check(pool->ctx);

	if (err || !ptr)
		return err;
	if (!pool->garbage.gathers && !__atomic_load_n(&pool->garbage.scopes, __ATOMIC_RELAXED))
		err = hpi_block_free(pool, ptr);
	else
		err = hpi_garbage_free(pool, ptr);
	return err ? hpi_pool_no_block(pool, ptr) : 0;
}

/* One that is in the arena, if it is a block at all. */
static inline int free_there(struct hugepin_pool *pool, struct cache *cache, void *ptr, bool grow)
{
	int err;

	pool_lock_as(pool, cache);
	cache_add_counts(cache);
	err = hpi_arena_free(pool->arena, ptr);
	if (likely(!err))
		pool->frees++;
	if (grow)
		hpi_whole_grow(cache);
	pool_unlock(pool);
	return likely(!err) ? 0 : hpi_pool_no_block(pool, ptr);
}

static NOINLINE int free_large(struct hugepin_pool *pool, struct cache *cache, void *ptr)
{
	return free_there(pool, cache, ptr, false);
}

/* Blocks like it may be kept from now on, if the pool has stopped growing. */
static NOINLINE int free_unkept(struct hugepin_pool *pool, struct cache *cache, void *ptr)
{
	int err;

	enter(cache);
	err = free_there(pool, cache, ptr, true);
	cache_leave(cache);
	return err;
}

int hugepin_free(struct hugepin_pool *pool, void *ptr)
{
	struct cache *cache = cache_at_hand(pool);
	struct found found;
	unsigned int class;
	uint16_t *state;

	if (unlikely(!cache || pool->garbage.gathers || __atomic_load_n(&pool->garbage.scopes, __ATOMIC_RELAXED) ||
		     !hpi_context_is_ours(pool->ctx)))
		return free_slow(pool, ptr);
	found = find(pool, ptr);
	if (!found.span && unlikely(!found.chunk))
		return free_slow(pool, ptr);
	if (!found.span && !is_kept_at_all(cache, found.chunk->bytes))
		return found.chunk->bytes > WHOLE_MAX ? free_large(pool, cache, ptr) : free_unkept(pool, cache, ptr);
	if (unlikely(!cache_enter(cache)))
		return free_slow(pool, ptr);
	if (found.span) {
		state = state_in_use(cache, found.span, ptr);
		class = found.span->class;
		if (unlikely(!state || cache->filled[class] == cache->room[class]))
			goto unusual;
		push_small(cache, found.span, state, ptr);
	} else {
		class = class_of(found.chunk->bytes);
		if (unlikely(!is_keepable(cache, found.chunk, ptr, class) ||
			     cache->kept_bytes + found.chunk->bytes > cache->may_keep_bytes))
			goto unusual;
		push_whole(cache, class, found.chunk);
	}
	cache_leave(cache);
	return 0;

unusual:
	cache_leave(cache);
	return free_slow(pool, ptr);
}
