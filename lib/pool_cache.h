/* SPDX-License-Identifier: MIT */
/*
 * Between a pool's users and its arena: what a thread has freed serves what it asks for next, without a lock and
 * without a cache line that another thread writes. Seen by pool_block.c, pool_quick.c, pool_lock.c and
 * pool_cache*.c only.
 *
 *	up to 8 KiB	classes; blocks of a class lie in spans of 64 KiB, which are blocks of the arena
 *			thread's stack <- batches, under the pool's lock -> spans with free blocks
 *			A thread takes from its own spans: what neighbouring blocks are held for is in one cache line
 *	up to 64 KiB	classes, too, but each block is one of the arena; a thread's stack has them as they are
 *	up to 1 MiB	the same once the pool has stopped growing
 *			thread's stack <-> stack that all share, once the pool has stopped growing <-> arena
 *	above		nothing is kept
 *
 * An address leads to its block through the arena's map: to the chunk that starts in a slot of 8 KiB, or to the span
 * that the slot is part of. Both are lots (arena.h), and the quick way does not care which. Nothing is written into the
 * memory itself.
 *
 * Who may touch a cache: its thread, between cache_enter() and cache_leave(), which cost it no atomic
 * operation; or whoever has stopped all caches of the pool. Locks: growth, then caches' lock, then "entered", then the
 * pool's lock.
 */
#ifndef HUGEPIN_POOL_CACHE_H
#define HUGEPIN_POOL_CACHE_H

#include "arena.h"
#include "pool.h"

extern const uint32_t hpi_class_bytes[];	/* pool_cache.c */

#define SMALL_MAX	8192ull			/* larger blocks have a slot of the map for themselves */
#define SMALL_CLASSES	40
#define SPAN_BYTES	(HPI_TABLE_SLOT_BYTES * 8)

#define WHOLE_MAX	(1024 * 1024ull)	/* larger blocks are not kept */
#define WHOLE_CLASSES	56

#define CLASSES		(SMALL_CLASSES + WHOLE_CLASSES)
#define STACK_ROOM	64			/* blocks of a class that a thread keeps at most, or all share */

/* A class has 1 to 8 grains, then each power of two is divided in eight steps, so that an eighth is wasted at most. */
static inline unsigned int class_of(uint64_t bytes)
{
	unsigned int n = (unsigned int)((bytes - 1) / HPI_POOL_GRAIN), shift = 28 - (unsigned int)__builtin_clz(n | 8);

	return 8 * shift + (n >> shift);
}

static inline uint32_t class_bytes(unsigned int class)
{
	return hpi_class_bytes[class];
}

/* How lots are marked whose blocks a stack may have; 0: none may. */
static inline uint8_t mark_of(unsigned int class)
{
	return (uint8_t)(class + 1);
}

/*
 * The map's slots of a span lead to its lot, and are the owner's. The lot begins SPAN_BEFORE blocks before the span: so
 * what its blocks are held for, which is written all the time, is not in the line that every free of one reads. What
 * free blocks are held for is 0, as kept ones'.
 */
#define SPAN_BEFORE	2

struct span {
	uint64_t free_bits[SPAN_BYTES / HPI_POOL_GRAIN / 64];
	struct cache *home;			/* whose thread made it, and takes its blocks */
	struct span *prev, *next;		/* among those of home and class that have free blocks */
	uint16_t class;
	uint16_t blocks, free;			/* free: not with a user, nor with a cache */
	_Alignas(64) struct chunk lot;		/* prev: the chunk that the span is */
	uint32_t held[];			/* of each block */
};

_Static_assert(offsetof(struct span, held) == offsetof(struct span, lot.held) + SPAN_BEFORE * sizeof(uint32_t),
	       "they are the lot's");
_Static_assert(SPAN_BYTES + SPAN_BEFORE * SMALL_MAX <= LOT_BYTES, "a reciprocal is right for so many bytes");

static inline uintptr_t span_addr(const struct span *span) { return span->lot.addr + SPAN_BEFORE * span->lot.bytes; }

/* A block at hand; what it is held for. */
struct block {
	char *ptr;
	uint32_t *held;
};

/* Blocks of a class that a thread keeps, those freed last on top. */
struct stack {
	struct block *block;
	uint32_t filled, room;
	uint32_t bytes;				/* of a block */
	uint32_t weight;			/* so many of them count as kept: all of a whole block, none in a span */
};

/* Numbers that users see change, as a cache or the pool has counted them. */
struct counts {
	int64_t active;				/* bytes; what the arena calls active is corrected by it */
	int64_t requested;
	uint64_t allocs, frees;
};

struct cache {
	/* The first line is all that a common call writes here, beside a stack. */
	uint32_t entered;			/* by its thread */
	uint32_t stop;				/* by others: the thread has to wait */
	uint32_t holds;				/* its thread holds the pool's lock as its owner */
	struct counts counts;
	int64_t high_active, high_requested;	/* highest since the counts were last added to the pool's */

	_Alignas(64) struct hugepin_pool *pool;
	uint64_t kept_bytes, may_keep_bytes;	/* of whole blocks */
	uint64_t largest;			/* block that is kept at present */
	unsigned int next_to_give;		/* whole class */
	struct counts added;			/* of the counts, to the pool's */

	struct stack stack[CLASSES];
	struct block block[CLASSES][STACK_ROOM];

	struct span *open[SMALL_CLASSES];	/* with free blocks; under the pool's lock */

	struct cache *next;			/* of the pool; never changes */
	struct cache *next_of_thread;
	int state;
	const void *thread;
};

enum { CACHE_OWNED, CACHE_ABANDONED, CACHE_ORPHANED };

struct hpi_caches {
	uint64_t id;				/* of the pool; never used again */
	pthread_mutex_t lock;			/* held while they are stopped, and to add one */
	struct cache *first;
	unsigned int count;			/* of them */
	uint64_t cap_bytes;
	uintptr_t *map;
	uint64_t map_bytes;

	/* Needs the pool's lock. */
	struct counts counts;			/* of the caches, as far as added; and of what was done without one */
	int64_t blocks;				/* what the arena calls active blocks is corrected by it */
	uint64_t emptied_at, grown_at;		/* at so many allocations; grown: the pool, for its users */
	uint64_t grown_to;			/* bytes mapped then */
	uint64_t granted_bytes;			/* to the caches; with what is shared at most the cap */
	uint64_t shared_bytes;
	uint64_t retired_bytes;			/* of spans' blocks */
	struct stack shared[WHOLE_CLASSES];		/* @filled may be read without it */
	struct block shared_block[WHOLE_CLASSES][STACK_ROOM];
};

/* ---- pool_cache.c ---- */

#define HPI_CACHE_HOT	4

/* The thread's caches of the pools it used last. */
extern _Thread_local struct hpi_cache_hot {
	uint64_t id;
	struct cache *cache;
} hpi_cache_hot[HPI_CACHE_HOT] __attribute__((tls_model("initial-exec")));

struct cache *hpi_cache_find(struct hugepin_pool *pool);	/* this thread's; makes it. NULL: no memory */
bool hpi_cache_barrier(void);			/* every thread of the process has run one since; false: no */
void hpi_cache_wait(struct cache *cache);		/* until they are no longer stopped */
void hpi_cache_add_counts(struct cache *cache);		/* needs the pool's lock, and the cache */
/* More and larger whole blocks may be kept, if the pool has not grown for long; false: no. Needs the same. */
bool hpi_whole_grow(struct cache *cache);
bool hpi_small_grow(struct cache *cache, unsigned int class);	/* room for more small ones; false: no. Needs the same */
/* There are some to take; who wants to be sure has to have locked. */
static inline bool is_whole_shared(const struct hpi_caches *caches, unsigned int class)
{
	return __atomic_load_n(&caches->shared[class - SMALL_CLASSES].filled, __ATOMIC_RELAXED);
}

/* A few whole blocks from what is shared to an empty stack; false: none are. Needs the cache. */
bool hpi_whole_take(struct cache *cache, unsigned int class);
/* A few to what is shared, or fewer to the arena, of each class in turn, until @most_bytes are left. Needs both. */
void hpi_whole_give(struct cache *cache, uint64_t most_bytes);

extern bool hpi_cache_heavy;				/* the kernel cannot interrupt the other CPUs for us */

/* False: others have the cache now. Where caches are not heavy. */
static inline bool cache_enter_light(struct cache *cache)
{
	__atomic_store_n(&cache->entered, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&cache->stop, __ATOMIC_SEQ_CST), 0)) {
		__atomic_store_n(&cache->entered, 0, __ATOMIC_RELEASE);
		return false;
	}
	return true;
}

static inline bool cache_enter(struct cache *cache)
{
	if (__builtin_expect(hpi_cache_heavy, 0))
		__atomic_store_n(&cache->entered, 1, __ATOMIC_SEQ_CST);
	return cache_enter_light(cache);
}

static inline void cache_leave(struct cache *cache)
{
	__atomic_store_n(&cache->entered, 0, __ATOMIC_RELEASE);
}

/* This thread's, if it used the pool lately; or NULL. */
static inline struct cache *cache_at_hand(const struct hugepin_pool *pool)
{
	const struct hpi_cache_hot *hot;

	if (!pool->caches)
		return NULL;
	hot = &hpi_cache_hot[pool->caches->id % HPI_CACHE_HOT];
	return __builtin_expect(hot->id == pool->caches->id, 1) ? hot->cache : NULL;
}

/* ---- pool_lock.c ---- */

void hpi_pool_lock_mutex(struct hugepin_pool *pool, struct cache *cache);	/* @cache: this thread's, or NULL */

static inline void pool_lock_as(struct hugepin_pool *pool, struct cache *cache)
{
	if (__builtin_expect(cache && __atomic_load_n(&pool->lock.owner, __ATOMIC_RELAXED) == cache, 1)) {
		__atomic_store_n(&cache->holds, 1, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (__builtin_expect(__atomic_load_n(&pool->lock.owner, __ATOMIC_ACQUIRE) == cache, 1)) {
			pool->lock.holder = cache;
			return;
		}
		__atomic_store_n(&cache->holds, 0, __ATOMIC_RELEASE);
	}
	hpi_pool_lock_mutex(pool, cache);
}

static inline void pool_unlock(struct hugepin_pool *pool)
{
	struct cache *holder = pool->lock.holder;

	if (__builtin_expect(!!holder, 1))
		__atomic_store_n(&holder->holds, 0, __ATOMIC_RELEASE);
	else
		pthread_mutex_unlock(&pool->lock.mutex);
}

/* Its thread's guess; who wants to be sure has to have entered. Blocks of no bytes are not. */
static inline bool is_kept_at_all(const struct cache *cache, uint64_t bytes)
{
	return bytes - 1 < __atomic_load_n(&cache->largest, __ATOMIC_RELAXED);
}

/* Written by its thread alone, while others may look. */
static inline void count_add(int64_t *count, int64_t n)
{
	__atomic_store_n(count, *count + n, __ATOMIC_RELAXED);
}

static inline void cache_add_counts(struct cache *cache)
{
	if (cache->counts.allocs != cache->added.allocs || cache->counts.frees != cache->added.frees)
		hpi_cache_add_counts(cache);
}

/* Needs the pool's lock. The highest numbers so far, when there were meanwhile so many bytes more than now. */
static inline void pool_note_peaks(struct hugepin_pool *pool, int64_t active, int64_t requested)
{
	if (__builtin_expect(!!pool->extents, 0)) {
		hpi_pool_note_peaks_above(pool, active, requested);
		return;
	}
	active += (int64_t)(pool->arena->active + pool->variable_bytes);
	requested += (int64_t)(pool->arena->requested + pool->variable_requested);
	if (pool->caches) {
		active += pool->caches->counts.active;
		requested += pool->caches->counts.requested;
	}
	if ((uint64_t)active > pool->peak_active)
		pool->peak_active = (uint64_t)active;
	if ((uint64_t)requested > pool->peak_requested)
		pool->peak_requested = (uint64_t)requested;
}

/* ---- pool_cache_small.c: blocks in spans; needs the pool's lock ---- */

/* Up to @count blocks; 0: no room in the arena for a span, or no memory for its descriptor. */
unsigned int hpi_small_take(struct cache *cache, unsigned int class, struct block *out, unsigned int count);
void hpi_small_give(struct hugepin_pool *pool, const struct block *block);	/* one that is held for nothing */
void hpi_small_free_books(struct cache *cache);	/* when its pool ends */

/* The span that has @ptr, in the pool's window; NULL: none has. */
static inline struct span *span_at(const struct hpi_caches *caches, uint64_t offset)
{
	uintptr_t slot = __atomic_load_n(&caches->map[offset / HPI_TABLE_SLOT_BYTES], __ATOMIC_RELAXED);

	if (!(slot & HPI_TABLE_OWNERS))
		return NULL;
	return (struct span *)((char *)hpi_table_slot_lot(slot) - offsetof(struct span, lot));
}

static inline bool is_held(uint32_t held)		/* by a user */
{
	return held - 1 < HELD_RETIRED - 1;
}

#endif /* HUGEPIN_POOL_CACHE_H */
