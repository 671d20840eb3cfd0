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

static inline int64_t max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The highest so far are written always: sizes are random, and so a branch would be. */
static inline void count_alloc(struct cache *cache, uint64_t bytes, uint64_t requested)
{
	int64_t active = cache->counts.active + (int64_t)bytes, sum = cache->counts.requested + (int64_t)requested;

	__atomic_store_n(&cache->counts.active, active, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->counts.requested, sum, __ATOMIC_RELAXED);
	cache->counts.allocs++;
	cache->high_active = max(active, cache->high_active);
	cache->high_requested = max(sum, cache->high_requested);
}

static inline void count_free(struct cache *cache, uint64_t bytes, uint64_t requested)
{
	count_add(&cache->counts.active, -(int64_t)bytes);
	count_add(&cache->counts.requested, -(int64_t)requested);
	cache->counts.frees++;
}

/* ---- a thread's stacks; the cache is entered ---- */

/* From a stack that is not empty. */
static inline void *pop(struct cache *cache, struct stack *stack, uint64_t bytes)
{
	struct block block = stack->block[--stack->filled];

	*block.held = (uint32_t)bytes + 1;
	cache->kept_bytes -= stack->weight;
	count_alloc(cache, stack->bytes, bytes);
	return block.ptr;
}

/* One that is held by a user, on a stack that has room for it. */
static inline void push(struct cache *cache, struct stack *stack, void *ptr, uint32_t *held)
{
	count_free(cache, stack->bytes, *held - 1);
	*held = 0;
	cache->kept_bytes += stack->weight;
	stack->block[stack->filled++] = (struct block){ ptr, held };
}

/* Half a stack at once; false: nothing to be had without growing. Whole blocks the arena has for who wants one. */
static bool refill(struct hugepin_pool *pool, struct cache *cache, unsigned int class)
{
	struct stack *stack = &cache->stack[class];

	if (class >= SMALL_CLASSES)
		return hpi_whole_take(cache, class);
	if (!stack->room)
		return false;
	pool_lock_as(pool, cache);
	cache_add_counts(cache);
	hpi_small_grow(cache, class);
	stack->filled = hpi_small_take(cache, class, stack->block, (stack->room + 1) / 2);
	pool_unlock(pool);
	return stack->filled;
}

/* A full stack gets more room, or loses its lower half; what was freed last is used next. */
static void spill(struct hugepin_pool *pool, struct cache *cache, struct stack *stack)
{
	unsigned int i, half = (stack->room + 1) / 2;

	pool_lock_as(pool, cache);
	cache_add_counts(cache);
	if (hpi_small_grow(cache, (unsigned int)(stack - cache->stack)))
		half = 0;
	for (i = 0; i < half; i++)
		hpi_small_give(pool, &stack->block[i]);
	pool_unlock(pool);
	stack->filled -= half;
	memmove(stack->block, stack->block + half, stack->filled * sizeof(*stack->block));
}

static void let_grow(struct hugepin_pool *pool, struct cache *cache)
{
	pool_lock_as(pool, cache);
	cache_add_counts(cache);
	hpi_whole_grow(cache);
	pool_unlock(pool);
}

/* Among the whole blocks, for a few more than the next one. */
static void make_room(struct hugepin_pool *pool, struct cache *cache)
{
	pool_lock_as(pool, cache);
	cache_add_counts(cache);
	if (!hpi_whole_grow(cache))
		hpi_whole_give(cache, cache->may_keep_bytes / 2);
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
	if (cache->stack[class].filled || refill(pool, cache, class))
		p = pop(cache, &cache->stack[class], bytes);
	cache_leave(cache);
	return p;
}

/* From what is mapped; NULL: nothing fits. */
static inline void *book(struct hugepin_pool *pool, struct cache *cache, size_t bytes, bool grow)
{
	void *p;

	pool_lock_as(pool, cache);
	if (cache)
		cache_add_counts(cache);
	if (grow)
		hpi_whole_grow(cache);
	p = hpi_block_book(pool, HPI_POOL_GRAIN, bytes, NULL);
	pool_unlock(pool);
	return p;
}

static NOINLINE void *alloc_booked(struct hugepin_pool *pool, struct cache *cache, size_t bytes)
{
	void *p = book(pool, cache, bytes, false);

	return likely(p) ? p : hugepin_alloc_aligned(pool, HPI_POOL_GRAIN, bytes, 0);
}

/* Blocks like it may be kept from now on, if the pool has stopped growing. */
static NOINLINE void *alloc_unkept(struct hugepin_pool *pool, struct cache *cache, size_t bytes)
{
	void *p;

	enter(cache);
	p = book(pool, cache, bytes, true);
	cache_leave(cache);
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

/* Of a class of which the thread has none. */
static NOINLINE void *alloc_whole(struct hugepin_pool *pool, struct cache *cache, size_t bytes)
{
	if (is_whole_shared(pool->caches, class_of(bytes)))
		return alloc_slow(pool, bytes, 0);
	return alloc_booked(pool, cache, bytes);
}

/* Whether a call may be quick: @id is of the pool's caches then, and one of those this thread's. */
static inline bool is_quick(const struct hugepin_pool *pool, uint64_t id, struct cache **out)
{
	const struct hpi_cache_hot *hot = &hpi_cache_hot[id % HPI_CACHE_HOT];

	if (unlikely(hot->id != id || *(const volatile uint32_t *)pool->quick.fork_mark != HPI_FORK_MARK))
		return false;
	*out = hot->cache;
	return true;
}

void *hugepin_alloc(struct hugepin_pool *pool, size_t bytes, unsigned int flags)
{
	struct cache *cache;
	struct stack *stack;
	void *p;

	if (unlikely(!is_quick(pool, pool->quick.alloc_id, &cache) || flags))
		return alloc_slow(pool, bytes, flags);
	if (unlikely(!is_kept_at_all(cache, bytes)))
		return bytes > WHOLE_MAX ? alloc_booked(pool, cache, bytes) :
		       bytes ? alloc_unkept(pool, cache, bytes) : alloc_slow(pool, bytes, flags);
	stack = &cache->stack[class_of(bytes)];
	if (unlikely(!cache_enter_light(cache)))
		return alloc_slow(pool, bytes, flags);
	if (unlikely(!stack->filled)) {
		cache_leave(cache);
		return bytes > SMALL_MAX ? alloc_whole(pool, cache, bytes) : alloc_slow(pool, bytes, flags);
	}
	p = pop(cache, stack, bytes);
	cache_leave(cache);
	return p;
}

/* ---- out ---- */

/* The lot that has @ptr, if it is a block, as is known before the cache is entered; NULL: none, or who knows. */
static inline struct chunk *find(const struct hugepin_pool *pool, const void *ptr)
{
	uint64_t offset = (uint64_t)((const char *)ptr - pool->quick.window);

	if (unlikely(offset >= pool->quick.window_bytes))
		return NULL;
	return hpi_table_slot_at(__atomic_load_n(&pool->quick.map[offset / HPI_TABLE_SLOT_BYTES], __ATOMIC_RELAXED),
				 (uintptr_t)ptr);
}

/* What a user holds the block at @ptr for; NULL: nobody does. */
static inline uint32_t *held_by_user(struct chunk *lot, const void *ptr)
{
	uint32_t *held = lot_held_at(lot, (uintptr_t)ptr);

	return likely(held && is_held(*held)) ? held : NULL;
}

/* Of a lot that has a mark. */
static inline struct stack *stack_of(struct cache *cache, const struct chunk *lot)
{
	return &cache->stack[lot->mark - mark_of(0)];
}

/* -EINVAL: not a block that a cache can keep. */
static int give_cached(struct hugepin_pool *pool, struct cache *cache, struct chunk *lot, void *ptr)
{
	struct stack *stack = stack_of(cache, lot);
	uint32_t *held = held_by_user(lot, ptr);

	if (!held)
		return -EINVAL;
	if (!stack->room && stack->weight)
		let_grow(pool, cache);
	if (!stack->room || (stack->filled >= stack->room && stack->weight))
		return -EINVAL;
	if (stack->filled >= stack->room)
		spill(pool, cache, stack);
	if (cache->kept_bytes + stack->weight > cache->may_keep_bytes)
		make_room(pool, cache);
	if (cache->kept_bytes + stack->weight > cache->may_keep_bytes)
		return -EINVAL;
	push(cache, stack, ptr, held);
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
	struct chunk *lot = NULL;
	int err = -EINVAL;

	if (cache)
		lot = find(pool, ptr);
	if (lot && lot->mark) {
		enter(cache);
		err = give_cached(pool, cache, lot, ptr);
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
	err = hpi_blocks_own(pool, ptr) ? -EINVAL : hpi_arena_free(pool->arena, ptr);
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
	struct cache *cache;
	struct stack *stack;
	struct chunk *lot;
	uint32_t *held;

	if (unlikely(!is_quick(pool, __atomic_load_n(&pool->quick.free_id, __ATOMIC_RELAXED), &cache)))
		return free_slow(pool, ptr);
	lot = find(pool, ptr);
	if (unlikely(!lot))
		return free_slow(pool, ptr);
	if (unlikely(!lot->mark))
		return lot->bytes > WHOLE_MAX ? free_large(pool, cache, ptr) : free_unkept(pool, cache, ptr);
	stack = stack_of(cache, lot);
	if (unlikely(!cache_enter_light(cache)))
		return free_slow(pool, ptr);
	held = held_by_user(lot, ptr);
	if (unlikely(!held || stack->filled >= stack->room ||
		     cache->kept_bytes + stack->weight > cache->may_keep_bytes)) {
		cache_leave(cache);
		return free_slow(pool, ptr);
	}
	push(cache, stack, ptr, held);
	cache_leave(cache);
	return 0;
}

/* ---- which pools ---- */

void hpi_quick_frees(struct hugepin_pool *pool, bool quick)
{
	quick = quick && pool->caches && pool->ctx->fork_mark && !hpi_cache_heavy && !pool->garbage.gathers;
	__atomic_store_n(&pool->quick.free_id, quick ? pool->caches->id : HPI_NEVER_QUICK, __ATOMIC_RELAXED);
}

void hpi_quick_init(struct hugepin_pool *pool)
{
	pool->quick.map = pool->caches->map;
	pool->quick.window = pool->window;
	pool->quick.window_bytes = (uint64_t)(pool->window_end - pool->window);
	pool->quick.fork_mark = pool->ctx->fork_mark;
	if (pool->ctx->fork_mark && !hpi_cache_heavy && !pool->fills)
		pool->quick.alloc_id = pool->caches->id;
	hpi_quick_frees(pool, true);
}
