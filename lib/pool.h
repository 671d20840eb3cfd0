/* SPDX-License-Identifier: MIT */
/*
 * Inside a pool. Seen by pool*.c and variable.c only.
 *
 *	window: address space reserved once, 1 GiB aligned unless it is small
 *	| segment | segment |  gap  | segment | .............................. | nothing |
 *	 <---- a run -----> ^       ^ a run  ^ grows here                       zero-size blocks
 *
 * Segments lie back to back, so that the arena may lay a block across them and a growth need only map what the free
 * space before it lacks. Segments of different rungs never touch: a block has one page size and one provider. A gap
 * is what a trimmed segment left, or what keeps two rungs apart; new segments go into gaps too.
 *
 * Locks: growth, then garbage.lock or lock, of which neither is held over the other. growth is held over mapping and
 * registering, which take long; lock never is, so blocks come and go while the pool grows. The table of segments is
 * changed under both, read under either.
 */
#ifndef HUGEPIN_POOL_H
#define HUGEPIN_POOL_H

#include <pthread.h>

#include "internal.h"

#define HPI_POOL_GRAIN	64ull			/* what blocks are aligned to and sized in, as in the arena */

struct segment {
	struct hpi_mapping mapping;
	size_t rung;
	bool registered;
	bool leaving;				/* not in the arena: on its way in or out, or stuck there */
	bool told;				/* to those who watch */
};

/* pool_ahead.c: growth in the background. */
struct hpi_ahead {
	pthread_mutex_t lock;			/* of the rest */
	pthread_cond_t ended;
	pthread_t thread;
	bool running, done, stop;		/* running: to be joined */
	uint64_t bytes, got;
	int err;
	char text[512];
};

/* watch.c: who is told of segments. */
struct hpi_watches {
	pthread_mutex_t lock;			/* of the rest, but first: only who tells changes that */
	pthread_cond_t idle;
	bool telling, more;			/* more: something to be told has come since */
	pthread_t teller;
	struct hugepin_watch *first;
};

/* How a growth is sized beyond the need; see pool_strategy.c. step_bytes and share_bytes need growth held. */
struct hpi_growth {
	enum hpi_strategy strategy;
	bool whole;				/* chunks: one, of all that the pool may have */
	bool of_available;			/* chunks: a share of what is available, not of the total */
	double fraction;
	uint64_t most_bytes;			/* a chunk from the fraction has no more */
	uint64_t first_bytes, next_bytes;	/* sizes of chunks in place of the fraction's; 0: none given */
	uint64_t step_bytes;			/* doubling: of the next segment */
	uint64_t share_bytes;			/* of_available: what the fraction came to */
};

struct hpi_memory {
	uint64_t total_bytes, available_bytes;
};

/* Address space and the arena over what is mapped there: the pool's window, or an extent. */
struct hpi_space {
	char *start, *end;
	struct hpi_arena *arena;
};

struct hpi_extent {
	struct hpi_extent *next;
	struct hpi_space space;
	void *reserved;				/* NULL: unmapped already */
	uint64_t reserved_bytes;
	bool taken;				/* by a plan */
	bool clean;				/* for CLEAN blocks alone */
};

struct hpi_live;

/* Blocks given back but kept for a while, and the scopes that blocks were taken in; see pool_garbage.c and scope.c. */
struct hpi_garbage {
	/* What the options say; never changes. */
	bool gathers;				/* blocks taken in no scope, too: threshold_bytes is not 0 */
	bool never;				/* nothing is collected before its scope closes */
	bool in_background;			/* what a closed scope had goes back in the reaper */
	uint64_t threshold_bytes;
	double fraction;

	unsigned int scopes;			/* open; atomic */

	pthread_mutex_t lock;
	struct hpi_live **buckets;		/* blocks in scopes, by address */
	size_t bucket_count, live_count;
	struct hugepin_scope *open;
	struct hpi_retired *queue;		/* of blocks taken in no scope */
	uint64_t waiting_bytes;			/* in this queue and the scopes', to be collected */

	struct hpi_retired *closed;		/* for the reaper */
	pthread_cond_t wake;
	pthread_t reaper;
	bool reaping, stop;
};

struct cache;

/* See pool_lock.c. */
struct hpi_pool_lock {
	pthread_mutex_t mutex;
	struct cache *owner;			/* whose thread needs no mutex; written with the mutex held */
	struct cache *holder;			/* the owner, while it holds it without */
	struct cache *last;			/* who took the mutex last, and how often in a row */
	unsigned int streak, patience;
};

/* What nearly every call looks at, in one cache line; written when the pool is made, free_id also by scopes. */
struct hpi_quick {
	uint64_t alloc_id, free_id;		/* of the pool's caches; HPI_NEVER_QUICK: such calls go the slow way */
	const uint32_t *fork_mark;
	uintptr_t *map;
	char *window;
	uint64_t window_bytes;
};

#define HPI_NEVER_QUICK	UINT64_MAX

struct hugepin_pool {
	_Alignas(64) struct hpi_quick quick;

	struct hugepin_context *ctx;
	enum hugepin_pool_kind kind;
	struct hugepin_pool *next;		/* of the context's */

	/* What the options say; never changes. */
	struct hpi_ladder ladder;
	struct hpi_policy policy;
	uint64_t cap_bytes;			/* 0: none */
	bool pinned;				/* registered with the runtime */
	bool compatible;			/* under the pinned pool's cap together: force_gpu_compatible */
	bool on_host;				/* counts as the process's host memory */
	bool fills;				/* FLAGS_init_allocated_mem */
	double host_fraction;			/* per_process_host_memory_fraction; 0: no cap */
	/* How much memory there is where this pool's comes from. -errno: it cannot be told. */
	int (*memory)(const struct hugepin_pool *pool, struct hpi_memory *out);
	struct hpi_growth growth_by;
	uint64_t cache_cap_bytes;		/* most that its caches keep; 0: none */
	bool ascend;				/* variable_use_1g_huge_page made the ladder */
	bool reuse_on_stream;			/* FLAGS_fast_eager_deletion_mode */
	int device;				/* the runtime's number; -1: host memory */

	void *reserved;				/* all the address space of the pool */
	uint64_t reserved_bytes;
	char *window, *window_end;
	char *nothing, *nothing_end;

	struct hpi_garbage garbage;

	pthread_mutex_t growth;
	unsigned int warned[HPI_LADDER_MAX];	/* causes told, a bit each, by rung */
	bool cannot_register;			/* the runtime has said so of this machine */

	struct hpi_pool_lock lock;		/* of the rest */
	struct hpi_arena *arena;
	struct hpi_caches *caches;		/* NULL: none */
	bool stopped;				/* they are, by the holder of this lock */
	struct hpi_arena *zero_size;		/* over [nothing, nothing_end) */
	struct hpi_extent *extents;		/* beside the window, for plans */
	struct hugepin_plan *plans;		/* open ones; under growth */
	struct hugepin_blocks *blocks;		/* open ones, of one size */
	struct segment *segments;		/* ordered by address */
	size_t segment_count, segment_room;
	uint64_t leaving_bytes, registered_bytes;
	uint64_t variable_bytes, variable_requested, variables;
	uint64_t allocs, frees, failed_allocs, fallbacks;
	uint64_t peak_active, peak_requested, peak_mapped;

	uint64_t fenced, fenced_bytes;		/* blocks behind fences; atomic */
	struct hpi_ahead ahead;
	struct hpi_watches watches;
};

/* ---- pool_lock.c ---- */

void hpi_pool_lock(const struct hugepin_pool *pool);
void hpi_pool_unlock(const struct hugepin_pool *pool);
void hpi_pool_lock_init(struct hugepin_pool *pool);
void hpi_pool_lock_end(struct hugepin_pool *pool);

/* ---- pool.c ---- */

/* hugepin_alloc_aligned() with the arguments checked; NULL with errno and the text set. */
void *hpi_pool_allocate(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, unsigned int flags);
int hpi_pool_trim(struct hugepin_pool *pool, uint64_t keep_bytes, uint64_t *given);	/* no locks held */
int hpi_pool_no_block(const struct hugepin_pool *pool, const void *ptr);	/* sets the text; returns -EINVAL */

/* ---- pool_options.c ---- */

const char *hpi_pool_name(const struct hugepin_pool *pool);
/* @device: a device's number as users give it; -1: none. */
int hpi_pool_configure(struct hugepin_pool *pool, int device);

/* ---- pool_caps.c ---- */

int hpi_memory_host(const struct hugepin_pool *pool, struct hpi_memory *out);
int hpi_memory_device(const struct hugepin_pool *pool, struct hpi_memory *out);
uint64_t hpi_caps_of_device(const struct hugepin_options *options, uint64_t total_bytes);	/* 0: none */
uint64_t hpi_caps_left(const struct hugepin_pool *pool);	/* bytes that may still be mapped; UINT64_MAX: no cap */
/* Before mapping, with growth held. -ENOMEM with the numbers of the cap that stands against it. */
int hpi_caps_charge(struct hugepin_pool *pool, uint64_t bytes);
void hpi_caps_uncharge(struct hugepin_pool *pool, uint64_t bytes);

/* ---- pool_strategy.c ---- */

void hpi_growth_host(const struct hugepin_options *options, struct hpi_growth *out);
void hpi_growth_pinned(const struct hugepin_options *options, struct hpi_growth *out);
void hpi_growth_variable(const struct hugepin_options *options, struct hpi_growth *out);
void hpi_growth_device(const struct hugepin_options *options, struct hpi_growth *out);
/* The rest needs growth held. Bytes that a segment for @need bytes should have; 0, or less than that, is no wish. */
uint64_t hpi_growth_wish(struct hugepin_pool *pool, uint64_t need);
/* What to try after @bytes failed with @err, in multiples of @granule or just @need; less than @bytes, which are more. */
uint64_t hpi_growth_less(const struct hugepin_pool *pool, uint64_t bytes, uint64_t need, uint64_t granule, int err);
void hpi_growth_took(struct hugepin_pool *pool, uint64_t bytes, bool less);	/* @less: after a failure */

/* ---- pool_fill.c ---- */

/* A block's first contents, as @flags and the options say; @zeroed: it is known to be zero. */
int hpi_fill_block(const struct hugepin_pool *pool, void *ptr, uint64_t bytes, unsigned int flags, bool zeroed);
int hpi_fill_zero(const struct hugepin_pool *pool, void *ptr, uint64_t bytes);

/* ---- pool_window.c ---- */

uint64_t hpi_window_share(void);	/* of a limited address space, for one reservation; UINT64_MAX: not limited */
int hpi_window_reserve(struct hugepin_pool *pool);
int hpi_window_release(struct hugepin_pool *pool);

/* ---- pool_extent.c: needs lock for reading, growth too for the rest ---- */

struct hpi_space hpi_space_at(const struct hugepin_pool *pool, const void *ptr);	/* an extent, or the window */
bool hpi_extent_is_taken(const struct hugepin_pool *pool, const void *ptr);
void hpi_extents_add_stats(const struct hugepin_pool *pool, struct hpi_arena_stats *stats);
uint64_t hpi_extents_mapped(const struct hugepin_pool *pool);
/* Takes one that is not taken and has room for @bytes, mapped or not, or makes it. */
int hpi_extent_get(struct hugepin_pool *pool, uint64_t bytes, bool clean, struct hpi_extent **out);
int hpi_extents_unmap(struct hugepin_pool *pool);		/* their address space, at the pool's end */
void hpi_extents_free_books(struct hugepin_pool *pool);

/* ---- pool_ladder.c: needs growth held ---- */

#define HPI_RUNG_SKIPPED	1		/* this rung is not for such a request: no failure */

/*
 * Rung after rung until an attempt returns 0. -EDQUOT, -ENOMEM, -EOPNOTSUPP and -ENODEV go on, all else ends. Tells
 * of a fallback. Failed: the first in this order that any rung said; the error text has every rung's reason.
 */
int hpi_pool_descend(struct hugepin_pool *pool, int (*attempt)(struct hugepin_pool *pool, size_t rung, void *arg),
		     void *arg);
/* The last word on a failure: puts what was wanted before the reasons. Logs where a dialect wants it. Returns @err. */
int hpi_pool_refuse(struct hugepin_pool *pool, int err, const char *what, uint64_t bytes);

/* ---- pool_place.c ---- */

struct place {
	char *addr;
	uint64_t need;				/* bytes to map there at least, in pages of the rung */
	uint64_t room;				/* bytes that may be mapped there */
};

/* The place in the window where mapping fewest bytes of @rung makes room for a block. False: there is none. */
bool hpi_place_block(const struct hugepin_pool *pool, const struct hpi_space *space, size_t rung, uint64_t alignment,
		     uint64_t bytes, struct place *out);
/* The place for @bytes more, behind the last segment if there is room. False: there is none. */
bool hpi_place_more(const struct hugepin_pool *pool, size_t rung, uint64_t bytes, struct place *out);
/* The place where mapping lets the block at @ptr, of @old bytes, grow to @bytes. */
bool hpi_place_extension(const struct hugepin_pool *pool, size_t rung, const void *ptr, uint64_t old, uint64_t bytes,
			 struct place *out);

/* ---- pool_segments.c: needs growth held ---- */

/* Maps, registers and adds to the arena; all or nothing. */
int hpi_segment_map(struct hugepin_pool *pool, size_t rung, const struct place *place, uint64_t bytes);
/*
 * Takes a free segment from the arena, unregisters and unmaps it; -EBUSY: in use. When the runtime or the kernel
 * refuses, it stays, leaving; the next try goes on from there.
 */
int hpi_segment_unmap(struct hugepin_pool *pool, size_t position);
int hpi_segments_unmap_in(struct hugepin_pool *pool, const struct hpi_space *space);	/* all there; it has no blocks */
uint64_t hpi_segments_idle(struct hugepin_pool *pool);		/* bytes of the segments that are wholly free */
/* From the end of the window on, until no more than @keep_bytes are mapped; @given is added to. The first error. */
int hpi_segments_trim(struct hugepin_pool *pool, uint64_t keep_bytes, uint64_t *given);
/* The same in two steps: what is to go leaves the arena; what has left is unregistered and unmapped. */
void hpi_segments_part(struct hugepin_pool *pool, uint64_t keep_bytes);
int hpi_segments_expel(struct hugepin_pool *pool, uint64_t *given);

/* ---- pool_grow.c: needs growth held ---- */

/* Success means that it is worth another look: there may still be no room. */
int hpi_pool_grow(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes);
int hpi_pool_grow_in(struct hugepin_pool *pool, const struct hpi_space *space, uint64_t bytes);	/* by the need alone */
int hpi_pool_extend(struct hugepin_pool *pool, const void *ptr, uint64_t old, uint64_t bytes);
/* After a growth that found no memory: takes back garbage and gives back free segments. True: worth another try. */
bool hpi_pool_make_way(struct hugepin_pool *pool, uint64_t bytes);

/* ---- pool_cache.c: what threads keep of what was freed ---- */

int hpi_caches_create(struct hugepin_pool *pool);		/* once the window is reserved */
void hpi_caches_end(struct hugepin_pool *pool, bool child);	/* frees their books */
/* Emptying them may make a growth needless, and was not tried just now. */
bool hpi_caches_are_worth_it(struct hugepin_pool *pool);
void hpi_caches_note_growth(struct hugepin_pool *pool, uint64_t bytes);	/* for a block of @bytes. Needs lock */
/* All that is kept goes to the arena. True: it became more there. No locks held but growth. */
bool hpi_caches_empty(struct hugepin_pool *pool);
/*
 * Takes the pool's lock while every cache stands still and is counted: for a look at all blocks at once. No locks held
 * but growth.
 */
void hpi_caches_lock(struct hugepin_pool *pool);
void hpi_caches_unlock(struct hugepin_pool *pool);
/* From the arena's view, to which all that is kept is in use, to the user's. Needs lock. */
void hpi_caches_correct(const struct hugepin_pool *pool, struct hpi_arena_stats *stats);

/* ---- pool_quick.c: blocks come and go ---- */

/* From the caller's thread cache, or by its growing a stack of it; NULL: hpi_block_take() knows. */
void *hpi_block_take_cached(struct hugepin_pool *pool, uint64_t bytes);
int hpi_block_free(struct hugepin_pool *pool, void *ptr);	/* -EINVAL without a text: not a block in use */
void hpi_quick_init(struct hugepin_pool *pool);
/* Frees are quick, or not while blocks may be in scopes. */
void hpi_quick_frees(struct hugepin_pool *pool, bool quick);

/* ---- pool_block.c: the same where it is not quick ---- */

/* From what is mapped; NULL with errno. Needs lock, as the next. */
void *hpi_block_book(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed);
int hpi_block_free_booked(struct hugepin_pool *pool, void *ptr);

/* Grows the pool if it must. -ENOMEM, -EDQUOT, -EIO, with the text set. @zeroed: see hpi_arena_alloc(). */
int hpi_block_take(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, bool *zeroed, void **out);
/*
 * Blocks of these sizes, none of them 0, back to back, each to be freed by itself; all or nothing. They are booked in
 * the arena however small they are.
 */
int hpi_block_take_run(struct hugepin_pool *pool, const uint64_t sizes[], size_t count, void *out[]);
/*
 * Takes a block from its user without making it free: garbage, or behind a fence. Counts as a free, and as deferred
 * until hpi_block_return(). -EINVAL without a text: not a block in use. @bytes: as rounded; 0: it had none, and is
 * free.
 */
int hpi_block_retire(struct hugepin_pool *pool, void *ptr, uint64_t *bytes);
void hpi_block_return(struct hugepin_pool *pool, void *ptr);	/* a retired block becomes free */
/* A retired block is in use again, as it is, for @bytes, at most what it has. Counts as an allocation. */
int hpi_block_revive(struct hugepin_pool *pool, void *ptr, uint64_t bytes);
/* What was asked for; UINT64_MAX: not a block in use with bytes. */
uint64_t hpi_block_bytes(struct hugepin_pool *pool, const void *ptr);
/* What may be used of it without asking again; UINT64_MAX likewise. */
uint64_t hpi_block_usable(struct hugepin_pool *pool, const void *ptr);
/*
 * In place, in what is mapped: shrinks always. @old: the size until now. -EINVAL: not a block in use, -ENOSPC: no room
 * behind it, -E2BIG: nor can there ever be any.
 */
int hpi_block_resize(struct hugepin_pool *pool, void *ptr, uint64_t bytes, uint64_t *old);
bool hpi_block_is_empty(const struct hugepin_pool *pool, const void *ptr);	/* an address for blocks of no bytes */

/*
 * A block on its way from hpi_block_retire() to hpi_block_return(), handed from queue to queue: first behind its fences
 * (pool_fence.c), then garbage (pool_garbage.c). Whoever cannot get memory for one does the waiting at once instead: a
 * free never fails for that.
 */
struct hpi_retired {
	struct hpi_retired *next;
	void *ptr;
	uint64_t bytes;
	struct hugepin_scope *scope;		/* it was taken in, or NULL */
	bool kept;				/* nobody else has its place before the scope closes */
};

/* ---- blocks.c ---- */

/* Of blocks of one size, the one that they are cut from is no user's to free or resize. Needs lock. */
bool hpi_blocks_own_any(const struct hugepin_pool *pool, const void *ptr);
static inline bool hpi_blocks_own(const struct hugepin_pool *pool, const void *ptr)
{
	return __builtin_expect(pool->blocks != NULL, 0) && hpi_blocks_own_any(pool, ptr);
}

/* ---- pool_fence.c: blocks behind fences; no locks held ---- */

uint64_t hpi_pool_fenced(const struct hugepin_pool *pool);	/* bytes */
bool hpi_pool_let_pass(struct hugepin_pool *pool);		/* true: blocks came back from behind their fences */

/* ---- scope.c ---- */

/* A block that its user holds and that belongs to a scope. retired is first: it becomes that when it is freed. */
struct hpi_live {
	struct hpi_retired retired;
	struct hpi_live *chain;			/* in the table by address */
	struct hpi_live *prev, *next;		/* in its scope */
	uint64_t requested;
	bool clean;				/* to be cleared by hugepin_pool_clean() */
};

struct hugepin_scope {
	struct hugepin_pool *pool;
	struct hugepin_scope *prev, *next;	/* open ones of the pool */
	struct hpi_live *live;
	struct hpi_retired *gathered, *passed;	/* to be collected; passed over, until the scope closes */
	uint64_t considered_bytes, chosen_bytes;	/* of what has been collected or passed over */
	size_t away;				/* freed, but not yet garbage: behind fences */
	bool closed, is_plan;
};

/*
 * Takes a block that is being freed out of its scope: for hpi_garbage_put(), or for hpi_scope_drop() if it does not
 * come to that. NULL: it is in none.
 */
struct hpi_retired *hpi_scope_leave(struct hugepin_pool *pool, void *ptr);
void hpi_scope_drop(struct hugepin_pool *pool, struct hugepin_scope *scope);	/* NULL is allowed */
bool hpi_scope_is_plan(struct hugepin_pool *pool, const void *ptr);	/* the block is in one that is a plan's */
void hpi_scope_moved(struct hugepin_pool *pool, void *from, void *to);	/* @to takes the place of @from in its scope */
/* To have a block in a scope: first what it takes to note it (NULL with errno and the text set; free() it if it comes to
 * nothing), then the block. */
struct hpi_live *hpi_scope_note(struct hugepin_scope *scope);
void hpi_scope_enter(struct hugepin_scope *scope, struct hpi_live *live, void *ptr);
void hpi_scope_end(struct hugepin_scope *scope, bool at_once);	/* at_once: not in the background, whatever the options say */
int hpi_scopes_check(struct hugepin_pool *pool);	/* -EBUSY: some are open */

/* ---- pool_garbage.c ---- */

void hpi_garbage_configure(struct hugepin_pool *pool);
/* hugepin_free() without the text: at once, or as garbage. */
int hpi_garbage_free(struct hugepin_pool *pool, void *ptr);
/* A retired block that no fence holds any more; @retired is malloc()ed, and no longer the caller's. */
void hpi_garbage_put(struct hugepin_pool *pool, struct hpi_retired *retired);
void hpi_garbage_close(struct hugepin_pool *pool, struct hpi_retired *list, bool at_once);	/* what a scope had */
uint64_t hpi_garbage_collect(struct hugepin_pool *pool);	/* bytes that became free */
/* All of it, whatever the options say: the pool is short of memory, or ends. */
uint64_t hpi_garbage_reclaim(struct hugepin_pool *pool);
void hpi_garbage_stop(struct hugepin_pool *pool);	/* ends the reaper, with nothing left of its work */
void hpi_garbage_free_books(struct hugepin_pool *pool);

/* ---- pool_cache_walk.c; the caches stopped ---- */

void hpi_block_walk(const struct hugepin_pool *pool, void (*fn)(const struct hpi_arena_piece *piece, void *arg), void *arg);

/* ---- pool_of.c ---- */

void hpi_pools_add(struct hugepin_pool *pool);
void hpi_pools_remove(struct hugepin_pool *pool);

/* ---- pool_ahead.c ---- */

void hpi_ahead_init(struct hugepin_pool *pool);
void hpi_ahead_stop(struct hugepin_pool *pool);		/* waits until nothing grows in the background */
void hpi_ahead_end(struct hugepin_pool *pool);

/* ---- watch.c; no locks held ---- */

bool hpi_watches_are_told_here(struct hugepin_pool *pool);	/* this thread is inside a callback */
bool hpi_watches_any(struct hugepin_pool *pool);		/* growth may be held: then it stays true */
void hpi_watches_tell(struct hugepin_pool *pool);		/* after a growth */
/* hpi_segments_trim() for a pool that is watched. */
int hpi_watches_trim(struct hugepin_pool *pool, uint64_t keep_bytes, uint64_t *given);
void hpi_watches_init(struct hugepin_pool *pool);
void hpi_watches_end(struct hugepin_pool *pool, bool child);

/* ---- pool_stats.c; these need lock ---- */

const struct segment *hpi_segment_of(const struct hugepin_pool *pool, const void *address);	/* or NULL */

void hpi_pool_numbers(const struct hugepin_pool *pool, struct hugepin_pool_stats *out);
void hpi_segment_describe(const struct hugepin_pool *pool, const struct segment *segment, struct hugepin_segment_info *out);

uint64_t hpi_pool_mapped(const struct hugepin_pool *pool);	/* needs either lock */
/* Of all its arenas, as its users see it, but for variables. Needs lock. */
void hpi_pool_sum(const struct hugepin_pool *pool, struct hpi_arena_stats *out);
/*
 * Fills a caller's struct that begins with its size. The caller may be newer than the library, not older: what it has
 * beyond ours is set to zero. -EINVAL: a size that it cannot be.
 */
int hpi_pool_answer(void *out, size_t out_size, const void *ours, size_t our_size);
void hpi_pool_note_peaks(struct hugepin_pool *pool);		/* needs lock */
/* The same when there were meanwhile so many bytes more. */
void hpi_pool_note_peaks_above(struct hugepin_pool *pool, int64_t active, int64_t requested);

#endif /* HUGEPIN_POOL_H */
