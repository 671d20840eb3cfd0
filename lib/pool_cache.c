// SPDX-License-Identifier: MIT
/*
 * The caches of a pool, one a thread: who has which, and how all are stopped, so that another thread may empty them or
 * read them as one snapshot.
 *
 * A thread marks its cache as entered with plain stores; whoever wants the cache says so and then has the kernel
 * run a barrier on every CPU of the process, after which either the thread sees the wish or the mark is seen.
 *
 * A thread that ends abandons its caches as they are: the next new thread takes one over, or they are emptied with the
 * others. So the end of a thread never touches a pool, which may be ending as well.
 */
#include "pool_cache.h"

#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

/*
 * Of the cap, what one thread may have: in stacks of small blocks, and in whole ones. Replays of a training program's
 * allocations decide the latter: with 1 MiB kept while the pool still grows, or blocks above LARGEST, the arena maps 6
 * to 23 % more than is live at the peak. Once it has not grown for QUIET allocations a thread may keep more, bit by
 * bit.
 */
#define STACKS_SHARE	8
#define ROOM_FIRST	8				/* of that, what a stack begins with; it doubles as it is used */
#define WHOLE_SHARE	80
#define WHOLE_SHARE_FREES	16			/* of one that frees what others allocate: it would lie idle */
#define LARGEST		65536
#define QUIET		131072
/*
 * Before a growth the caches are emptied, but not again within so many allocations: a pool without any slack crawls. One
 * that has not grown for long was emptied often enough: it lacks what is kept, and grows.
 */
#define EMPTY_INTERVAL	1024

#define OCTAVE(step)	9 * (step), 10 * (step), 11 * (step), 12 * (step), \
			13 * (step), 14 * (step), 15 * (step), 16 * (step)

const uint32_t hpi_class_bytes[CLASSES] = {
	64, 128, 192, 256, 320, 384, 448, 512,
	OCTAVE(64), OCTAVE(128), OCTAVE(256), OCTAVE(512), OCTAVE(1024), OCTAVE(2048), OCTAVE(4096),
	OCTAVE(8192), OCTAVE(16384), OCTAVE(32768), OCTAVE(65536),
};

bool hpi_cache_heavy;

static struct {
	pthread_once_t once;
	pthread_key_t key;			/* whose destructor abandons what a thread has */
	bool works;
} threads = { .once = PTHREAD_ONCE_INIT };

_Thread_local struct hpi_cache_hot hpi_cache_hot[HPI_CACHE_HOT];
static _Thread_local struct cache *of_thread;

/*
 * Of whole blocks, that go to or from what all share in one go. One that goes to the arena costs as much as ARENA_COST
 * of them: together they bound the costliest call.
 */
#define AT_ONCE		16
#define ARENA_COST	4

static uint64_t min_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- threads ---- */

/* The thread's list without those whose pool has ended. */
static void drop_orphans(void)
{
	struct cache **link = &of_thread, *c;

	while ((c = *link)) {
		if (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) != CACHE_ORPHANED) {
			link = &c->next_of_thread;
			continue;
		}
		*link = c->next_of_thread;
		free(c);
	}
}

static void abandon_all(void *unused)
{
	struct cache *c, *next;
	unsigned int i;

	(void)unused;
	for (i = 0; i < HPI_CACHE_HOT; i++)
		hpi_cache_hot[i].id = 0;
	for (c = of_thread; c; c = next) {
		next = c->next_of_thread;
		if (__atomic_exchange_n(&c->state, CACHE_ABANDONED, __ATOMIC_ACQ_REL) == CACHE_ORPHANED)
			free(c);
	}
	of_thread = NULL;
}

static void threads_init(void)
{
	hpi_cache_heavy = hpi_sys_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
	threads.works = !pthread_key_create(&threads.key, abandon_all);
}

/* The library may be unloaded before a thread ends. */
static void __attribute__((destructor)) threads_end(void)
{
	if (threads.works)
		pthread_key_delete(threads.key);
}

/* ---- a pool's caches come and go ---- */

int hpi_caches_create(struct hugepin_pool *pool)
{
	uint64_t window = (uint64_t)(pool->window_end - pool->window);
	static uint64_t ids;
	struct hpi_caches *caches;
	unsigned int i;
	void *map;
	int err;

	pthread_once(&threads.once, threads_init);
	if (!pool->cache_cap_bytes || !threads.works)
		return 0;
	caches = hpi_store_calloc(sizeof(*caches));
	if (!caches)
		return hpi_error(-ENOMEM, "%s pool: no memory for its caches", hpi_pool_name(pool));
	caches->map_bytes = window / HPI_TABLE_SLOT_BYTES * sizeof(*caches->map);
	err = hpi_sys_mmap(NULL, caches->map_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &map);
	if (err) {
		free(caches);
		return hpi_error(err, "%s pool: no address space for a map of %llu bytes", hpi_pool_name(pool),
				 (unsigned long long)(window / HPI_TABLE_SLOT_BYTES * sizeof(uintptr_t)));
	}
	for (i = 0; i < WHOLE_CLASSES; i++)
		caches->shared[i] = (struct stack){ .block = caches->shared_block[i], .room = STACK_ROOM,
						    .bytes = class_bytes(SMALL_CLASSES + i) };
	caches->map = map;
	caches->cap_bytes = pool->cache_cap_bytes;
	caches->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
	pthread_mutex_init(&caches->lock, NULL);
	pool->caches = caches;
	hpi_arena_use_map(pool->arena, pool->window, window, map);
	hpi_quick_init(pool);
	return 0;
}

void hpi_caches_end(struct hugepin_pool *pool, bool child)
{
	struct hpi_caches *caches = pool->caches;
	struct cache *c, *next;

	if (!caches)
		return;
	for (c = caches->first; c; c = next) {
		next = c->next;
		hpi_small_free_books(c);
		/* In a child other threads are not here to free theirs. */
		if ((child && c->thread != &of_thread) ||
		    __atomic_exchange_n(&c->state, CACHE_ORPHANED, __ATOMIC_ACQ_REL) == CACHE_ABANDONED)
			free(c);
	}
	hpi_sys_munmap(caches->map, caches->map_bytes);
	pthread_mutex_destroy(&caches->lock);
	free(caches);
	pool->caches = NULL;
}

/* Of the cap. Needs the pool's lock. */
static uint64_t left(const struct hpi_caches *caches)
{
	return caches->cap_bytes - caches->granted_bytes - caches->shared_bytes;
}

/* So much of whole blocks, up to @largest. Needs the pool's lock, and the cache. */
static void let_keep(struct hpi_caches *caches, struct cache *cache, uint64_t bytes, uint64_t largest)
{
	unsigned int i;

	caches->granted_bytes += bytes - cache->may_keep_bytes;
	cache->may_keep_bytes = bytes;
	largest = min_bytes(largest, bytes / 2);
	if (largest < SMALL_MAX)
		largest = SMALL_MAX;
	__atomic_store_n(&cache->largest, largest, __ATOMIC_RELAXED);
	for (i = SMALL_CLASSES; i < CLASSES; i++)
		cache->stack[i].room = class_bytes(i) <= largest ? STACK_ROOM : 0;
}

/* Small blocks of a class that one thread may keep in the end. */
static uint32_t most_room(const struct hpi_caches *caches, unsigned int class)
{
	return (uint32_t)min_bytes(caches->cap_bytes / STACKS_SHARE / SMALL_CLASSES / class_bytes(class), STACK_ROOM);
}

/* Needs the pool's lock, and the cache. */
static bool add_room(struct hpi_caches *caches, struct stack *stack, uint32_t blocks)
{
	if (!blocks || left(caches) < (uint64_t)blocks * stack->bytes)
		return false;
	stack->room += blocks;
	caches->granted_bytes += (uint64_t)blocks * stack->bytes;
	return true;
}

bool hpi_small_grow(struct cache *cache, unsigned int class)
{
	struct stack *stack = &cache->stack[class];
	uint32_t more = most_room(cache->pool->caches, class) - stack->room;

	return add_room(cache->pool->caches, stack, more < stack->room ? more : stack->room);
}

/* How much a new cache may keep; what is left of the cap decides. Needs the pool's lock. */
static void grant(struct hpi_caches *caches, struct cache *cache)
{
	unsigned int i;

	let_keep(caches, cache, min_bytes(caches->cap_bytes / WHOLE_SHARE, left(caches)), LARGEST);
	for (i = 0; i < SMALL_CLASSES; i++)
		add_room(caches, &cache->stack[i], (most_room(caches, i) + ROOM_FIRST - 1) / ROOM_FIRST);
}

static void set_stacks(struct cache *cache)
{
	unsigned int i;

	for (i = 0; i < CLASSES; i++)
		cache->stack[i] = (struct stack){ .block = cache->block[i], .bytes = class_bytes(i),
						  .weight = i < SMALL_CLASSES ? 0 : class_bytes(i) };
}

static struct cache *add_cache(struct hugepin_pool *pool)
{
	struct cache *cache = hpi_store_calloc(sizeof(*cache));

	if (!cache)
		return NULL;
	cache->pool = pool;
	set_stacks(cache);
	hpi_pool_lock(pool);
	grant(pool->caches, cache);
	hpi_pool_unlock(pool);
	cache->next = pool->caches->first;
	__atomic_store_n(&pool->caches->first, cache, __ATOMIC_RELEASE);
	__atomic_store_n(&pool->caches->count, pool->caches->count + 1, __ATOMIC_RELAXED);
	return cache;
}

/* One that a thread has left behind, or a new one. */
static struct cache *obtain(struct hugepin_pool *pool)
{
	struct cache *c;

	pthread_mutex_lock(&pool->caches->lock);
	for (c = pool->caches->first; c; c = c->next) {
		if (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == CACHE_ABANDONED)
			break;
	}
	if (!c)
		c = add_cache(pool);
	if (c) {
		c->thread = &of_thread;
		__atomic_store_n(&c->state, CACHE_OWNED, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&pool->caches->lock);
	return c;
}

struct cache *hpi_cache_find(struct hugepin_pool *pool)
{
	struct hpi_cache_hot *hot = &hpi_cache_hot[pool->caches->id % HPI_CACHE_HOT];
	struct cache *c;

	drop_orphans();
	for (c = of_thread; c && c->pool != pool; c = c->next_of_thread)
		;
	if (!c) {
		if (pthread_setspecific(threads.key, &of_thread))
			return NULL;
		c = obtain(pool);
		if (!c)
			return NULL;
		c->next_of_thread = of_thread;
		of_thread = c;
	}
	*hot = (struct hpi_cache_hot){ pool->caches->id, c };
	return c;
}

/* ---- all stopped ---- */

void hpi_cache_wait(struct cache *cache)
{
	pthread_mutex_lock(&cache->pool->caches->lock);
	pthread_mutex_unlock(&cache->pool->caches->lock);
}

static bool is_only_mine(const struct hpi_caches *caches)
{
	return !caches->first || (!caches->first->next && caches->first->thread == &of_thread);
}

bool hpi_cache_barrier(void)
{
	if (hpi_cache_heavy)		/* both sides' stores are sequentially consistent then */
		return true;
	if (!hpi_sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		return true;
	return !hpi_sys_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
	       !hpi_sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

static void resume(struct hpi_caches *caches)
{
	struct cache *c;

	for (c = caches->first; c; c = c->next)
		__atomic_store_n(&c->stop, 0, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&caches->lock);
}

/* False: none are stopped. */
static bool stop(struct hugepin_pool *pool)
{
	struct hpi_caches *caches = pool->caches;
	struct cache *c;

	if (!caches)
		return false;
	pthread_mutex_lock(&caches->lock);
	for (c = caches->first; c; c = c->next)
		__atomic_store_n(&c->stop, 1, __ATOMIC_SEQ_CST);
	if (!is_only_mine(caches) && !hpi_cache_barrier()) {
		resume(caches);
		return false;
	}
	for (c = caches->first; c; c = c->next) {
		while (__atomic_load_n(&c->entered, __ATOMIC_SEQ_CST))
			sched_yield();
	}
	return true;
}

static bool is_quiet(const struct hugepin_pool *pool)
{
	return pool->allocs - pool->caches->grown_at >= QUIET;
}

/*
 * For what caches keep a pool may grow by the cap: that tells nothing of what its users need, which have had as much
 * before and found room.
 */
void hpi_caches_note_growth(struct hugepin_pool *pool, uint64_t bytes)
{
	struct hpi_caches *caches = pool->caches;
	uint64_t mapped = hpi_pool_mapped(pool) + bytes;
	struct hpi_arena_stats arena;

	hpi_pool_sum(pool, &arena);
	if (arena.active_bytes + pool->variable_bytes + bytes <= pool->peak_active &&
	    mapped <= caches->grown_to + caches->cap_bytes)
		return;
	caches->grown_at = pool->allocs;
	caches->grown_to = mapped;
}

/* One thread alone would only share with itself. */
static bool are_several(const struct hpi_caches *caches)
{
	return __atomic_load_n(&caches->count, __ATOMIC_RELAXED) > 1;
}

/* Of whole blocks, most that it may keep in the end: half the cap alone, a part of three quarters with others. */
static uint64_t share_of(const struct hpi_caches *caches, const struct cache *cache)
{
	if (!are_several(caches))
		return caches->cap_bytes / 2;
	if (cache->counts.allocs < cache->counts.frees / 2)
		return caches->cap_bytes / WHOLE_SHARE_FREES;
	return caches->cap_bytes / 4 * 3 / __atomic_load_n(&caches->count, __ATOMIC_RELAXED);
}

bool hpi_whole_grow(struct cache *cache)
{
	struct hpi_caches *caches = cache->pool->caches;
	uint64_t keeps = cache->may_keep_bytes, most, more;

	if (!is_quiet(cache->pool))
		return false;
	most = share_of(caches, cache);
	more = min_bytes(keeps, left(caches));
	if (keeps < most && more)
		let_keep(caches, cache, min_bytes(keeps + more, most), WHOLE_MAX);
	else if (keeps > most)		/* there are more threads by now */
		let_keep(caches, cache, most, WHOLE_MAX);
	return cache->may_keep_bytes > keeps;
}

static void to_arena(struct hugepin_pool *pool, const struct block *block, uint32_t bytes)
{
	pool->caches->counts.active += bytes;
	pool->caches->blocks++;
	*block->held = 1;			/* for a user of no bytes, who gives it back */
	hpi_arena_free(pool->arena, block->ptr);
}

static void set_filled(struct stack *shared, uint32_t filled)
{
	__atomic_store_n(&shared->filled, filled, __ATOMIC_RELAXED);
}

/* False: there is no room for it. */
static bool share(struct hpi_caches *caches, struct stack *shared, const struct block *block)
{
	if (shared->filled == shared->room || left(caches) < shared->bytes)
		return false;
	shared->block[shared->filled] = *block;
	set_filled(shared, shared->filled + 1);
	caches->shared_bytes += shared->bytes;
	return true;
}

bool hpi_whole_take(struct cache *cache, unsigned int class)
{
	struct hpi_caches *caches = cache->pool->caches;
	struct stack *shared = &caches->shared[class - SMALL_CLASSES], *stack = &cache->stack[class];

	if (!stack->room || !is_whole_shared(caches, class))
		return false;
	pool_lock_as(cache->pool, cache);
	cache_add_counts(cache);
	if (cache->kept_bytes + AT_ONCE * stack->bytes > cache->may_keep_bytes)
		hpi_whole_grow(cache);
	while (shared->filled && stack->filled < AT_ONCE &&
	       (!stack->filled || cache->kept_bytes + stack->bytes <= cache->may_keep_bytes)) {
		stack->block[stack->filled++] = shared->block[shared->filled - 1];
		cache->kept_bytes += stack->bytes;
		set_filled(shared, shared->filled - 1);
		caches->shared_bytes -= stack->bytes;
	}
	pool_unlock(cache->pool);
	return stack->filled;
}

/* One of each class in turn, until @most_bytes are left or it has cost @most. */
static void give(struct cache *cache, uint64_t most_bytes, unsigned int most, bool shares)
{
	struct hugepin_pool *pool = cache->pool;
	unsigned int class = cache->next_to_give, cost = 0;
	struct stack *stack;

	for (; cache->kept_bytes > most_bytes && cost < most; class = (class + 1) % WHOLE_CLASSES) {
		stack = &cache->stack[SMALL_CLASSES + class];
		if (!stack->filled)
			continue;
		stack->filled--;
		cache->kept_bytes -= stack->bytes;
		cost++;
		if (shares && share(pool->caches, &pool->caches->shared[class], &stack->block[stack->filled]))
			continue;
		to_arena(pool, &stack->block[stack->filled], stack->bytes);
		cost += ARENA_COST - 1;
	}
	cache->next_to_give = class;
}

void hpi_whole_give(struct cache *cache, uint64_t most_bytes)
{
	give(cache, most_bytes, AT_ONCE, are_several(cache->pool->caches) && is_quiet(cache->pool));
}

static void empty_shared(struct hugepin_pool *pool, struct stack *stack)
{
	for (; stack->filled; set_filled(stack, stack->filled - 1))
		to_arena(pool, &stack->block[stack->filled - 1], stack->bytes);
}

static void empty(struct hugepin_pool *pool, struct cache *cache)
{
	struct stack *stack;

	hpi_cache_add_counts(cache);
	for (stack = cache->stack; stack < &cache->stack[SMALL_CLASSES]; stack++) {
		while (stack->filled)
			hpi_small_give(pool, &stack->block[--stack->filled]);
	}
	give(cache, 0, UINT_MAX, false);
	if (!is_quiet(pool))
		let_keep(pool->caches, cache,
			 min_bytes(cache->may_keep_bytes, pool->caches->cap_bytes / WHOLE_SHARE), LARGEST);
}

bool hpi_caches_are_worth_it(struct hugepin_pool *pool)
{
	bool worth_it;

	if (!pool->caches)
		return false;
	hpi_pool_lock(pool);
	worth_it = pool->allocs - pool->caches->emptied_at >= (is_quiet(pool) ? QUIET : EMPTY_INTERVAL);
	hpi_pool_unlock(pool);
	return worth_it;
}

bool hpi_caches_empty(struct hugepin_pool *pool)
{
	struct cache *c;
	uint64_t before;
	unsigned int i;
	bool freed;

	if (!stop(pool))
		return false;
	hpi_pool_lock(pool);
	before = pool->arena->active;
	for (c = pool->caches->first; c; c = c->next)
		empty(pool, c);
	for (i = 0; i < WHOLE_CLASSES; i++)
		empty_shared(pool, &pool->caches->shared[i]);
	pool->caches->shared_bytes = 0;
	freed = pool->arena->active < before;
	pool->caches->emptied_at = pool->allocs;
	hpi_pool_unlock(pool);
	resume(pool->caches);
	return freed;
}

/* ---- in numbers ---- */

void hpi_cache_add_counts(struct cache *cache)
{
	struct hugepin_pool *pool = cache->pool;
	struct hpi_caches *caches = pool->caches;

	pool_note_peaks(pool, cache->high_active - cache->added.active,
				  cache->high_requested - cache->added.requested);
	caches->counts.active += cache->counts.active - cache->added.active;
	caches->counts.requested += cache->counts.requested - cache->added.requested;
	pool->allocs += cache->counts.allocs - cache->added.allocs;
	pool->frees += cache->counts.frees - cache->added.frees;
	caches->blocks += (int64_t)(cache->counts.allocs - cache->added.allocs - cache->counts.frees + cache->added.frees);
	cache->added = cache->counts;
	cache->high_active = cache->counts.active;
	cache->high_requested = cache->counts.requested;
}

void hpi_caches_lock(struct hugepin_pool *pool)
{
	struct cache *c;
	bool stopped = stop(pool);

	hpi_pool_lock(pool);
	for (c = stopped ? pool->caches->first : NULL; c; c = c->next)
		hpi_cache_add_counts(c);
	pool->stopped = stopped;
}

void hpi_caches_unlock(struct hugepin_pool *pool)
{
	bool stopped = pool->stopped;

	hpi_pool_unlock(pool);
	if (stopped)
		resume(pool->caches);
}

void hpi_caches_correct(const struct hugepin_pool *pool, struct hpi_arena_stats *stats)
{
	const struct hpi_caches *caches = pool->caches;

	if (!caches)
		return;
	stats->active_bytes += (uint64_t)caches->counts.active;
	stats->requested_bytes += (uint64_t)caches->counts.requested;
	stats->retired_bytes += caches->retired_bytes;
	stats->active_blocks += (uint64_t)caches->blocks;
}
