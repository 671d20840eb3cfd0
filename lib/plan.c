// SPDX-License-Identifier: MIT
/*
 * Plans: the memory of one graph, laid out as Ascend's static_memory_policy says.
 *
 *	0	blocks anywhere in the pool
 *	2	one extent of fixed size, shared by one plan after the other
 *	3	an extent for each plan that is open, which grows at its end
 *	4	one extent, shared, which grows at its end
 *
 * CLEAN blocks, with atomic_clean_policy 0, lie next to each other and keep their places until the plan ends: in an
 * extent of their own, upwards; in a fixed extent from its end downwards, since what that has is all the plan may use.
 * Where no more pages can be had behind them, another run of them is begun in an extent of its own, which may be on
 * another rung of the ladder.
 *
 *	fixed:    | block | block |    free    | CLEAN | CLEAN | CLEAN |
 *	growing:  | block | block |  free |        | CLEAN | CLEAN | CLEAN |  free |
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>

#define POLICY_FIXED	2
#define POLICY_GROWING	3
#define POLICY_SHARED	4
#define BYTES_MAX	(1ull << 62)	/* so that what is rounded up or added does not wrap */
#define CLEAN_TRIES	3		/* a growth can first take garbage back, and make no room yet */

/* CLEAN blocks next to each other. */
struct run {
	struct run *next;
	struct hpi_extent *extent;		/* NULL: the plan's own */
	char *start, *end;
};

struct hugepin_plan {
	struct hugepin_pool *pool;
	struct hugepin_plan *prev, *next;	/* open ones */
	struct hugepin_scope *scope;		/* its blocks */
	unsigned int policy;
	bool one_pass;				/* atomic_clean_policy 0 */
	struct hpi_extent *body;
	struct run clean;			/* of one pass, and those that follow; under growth */
};

static void *fail(int err)
{
	errno = -err;
	return NULL;
}

/* ---- Begin and end ---- */

static void extent_stats(const struct hugepin_pool *pool, const struct hpi_extent *extent, struct hpi_arena_stats *out)
{

	hpi_pool_lock(pool);
	hpi_arena_stats(extent->space.arena, out);
	hpi_pool_unlock(pool);
}

static void drop_extent(struct hpi_extent *extent)
{
	if (extent)
		extent->taken = false;
}

/* The old pages of a fixed extent go first: both at once may be more than there is. */
static int make_room(struct hugepin_plan *plan, uint64_t bytes)
{
	struct hugepin_pool *pool = plan->pool;
	struct hpi_arena_stats stats;
	int err = 0;

	extent_stats(pool, plan->body, &stats);
	if (plan->policy != POLICY_GROWING && stats.retired_bytes)
		return hpi_error(-EBUSY, "%s pool: %llu bytes of the last plan still wait for a device",
				 hpi_pool_name(pool), (unsigned long long)stats.retired_bytes);
	/* Who watches the pool could not be told of pages that go now: there the extent grows. */
	if (plan->policy == POLICY_FIXED && stats.mapped_bytes && stats.mapped_bytes < bytes && !hpi_watches_any(pool)) {
		err = hpi_segments_unmap_in(pool, &plan->body->space);
		extent_stats(pool, plan->body, &stats);
	}
	while (!err && stats.largest_free_bytes < bytes) {
		err = hpi_pool_grow_in(pool, &plan->body->space, bytes);
		extent_stats(pool, plan->body, &stats);
	}
	if (!err && plan->policy == POLICY_FIXED && stats.largest_free_bytes < stats.mapped_bytes)
		err = hpi_error(-ENOMEM, "%s pool: a plan's %llu bytes are not in one piece with what came before; trim the "
				"pool first", hpi_pool_name(pool), (unsigned long long)bytes);
	return err;
}

static int lay_out(struct hugepin_plan *plan, uint64_t bytes)
{
	struct hpi_arena_stats stats;
	int err;

	if (!plan->policy)
		return 0;
	if (plan->policy != POLICY_GROWING && plan->pool->plans)
		return hpi_error(-EBUSY, "%s pool: another plan is open, and static_memory_policy %u lets plans "
				 "share one extent, one after the other", hpi_pool_name(plan->pool), plan->policy);
	err = hpi_extent_get(plan->pool, bytes, false, &plan->body);
	if (!err)
		err = make_room(plan, bytes);
	if (err) {
		drop_extent(plan->body);
		return err;
	}
	extent_stats(plan->pool, plan->body, &stats);
	if (plan->policy == POLICY_FIXED)
		plan->clean.start = plan->clean.end = plan->body->space.start + stats.mapped_bytes;
	return 0;
}

static int begin(struct hugepin_plan *plan, uint64_t bytes)
{
	struct hugepin_pool *pool = plan->pool;
	int err;

	pthread_mutex_lock(&pool->growth);
	err = lay_out(plan, bytes);
	if (!err) {
		plan->next = pool->plans;
		if (plan->next)
			plan->next->prev = plan;
		pool->plans = plan;
	}
	pthread_mutex_unlock(&pool->growth);
	hpi_watches_tell(pool);
	return err;
}

int hugepin_plan_begin(struct hugepin_pool *pool, uint64_t bytes, struct hugepin_plan **out)
{
	const struct hugepin_options *options = pool->ctx->options;
	struct hugepin_plan *plan;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	plan = hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(1, sizeof(*plan));
	if (!plan)
		return hpi_error(-ENOMEM, "%s pool: no memory for a plan", hpi_pool_name(pool));
	plan->pool = pool;
	plan->policy = hpi_options_static_policy(options);
	plan->one_pass = !hpi_options_uint(options, HPI_OPT_ASCEND_CLEAN_POLICY);
	if (plan->policy && bytes > BYTES_MAX)
		err = hpi_error(-EINVAL, "a plan of %llu bytes is more than %llu", (unsigned long long)bytes,
				(unsigned long long)BYTES_MAX);
	if (plan->policy == POLICY_FIXED && !bytes)
		err = hpi_error(-EINVAL, "a plan of 0 bytes in an extent of fixed size (static_memory_policy 2)");
	if (!err)
		err = hugepin_scope_open(pool, &plan->scope);
	if (!err) {
		plan->scope->is_plan = true;
		err = begin(plan, bytes);
	}
	if (err) {
		hpi_scope_end(plan->scope, true);
		free(plan);
		return err;
	}
	*out = plan;
	return 0;
}

/* The first is the plan's own. */
static void free_runs(struct hugepin_plan *plan)
{
	struct run *run;

	while ((run = plan->clean.next)) {
		plan->clean.next = run->next;
		free(run);
	}
}

void hugepin_plan_end(struct hugepin_plan *plan)
{
	struct hugepin_pool *pool;
	struct run *run;

	if (!plan)
		return;
	pool = plan->pool;
	if (hpi_context_is_child(pool->ctx)) {
		hugepin_scope_close(plan->scope);
		free_runs(plan);
		free(plan);
		return;
	}
	pthread_mutex_lock(&pool->growth);
	if (plan->next)
		plan->next->prev = plan->prev;
	if (plan->prev)
		plan->prev->next = plan->next;
	else
		pool->plans = plan->next;
	hpi_scope_end(plan->scope, true);	/* the next plan may be begun at once */
	drop_extent(plan->body);
	for (run = &plan->clean; run; run = run->next)
		drop_extent(run->extent);
	pthread_mutex_unlock(&pool->growth);
	free_runs(plan);
	free(plan);
}

void *hugepin_plan_address(const struct hugepin_plan *plan)
{
	return plan->body ? plan->body->space.start : NULL;
}

uint64_t hugepin_plan_bytes(const struct hugepin_plan *plan)
{
	struct hpi_arena_stats stats = { 0 };

	if (plan->body && !hpi_context_check(plan->pool->ctx))
		extent_stats(plan->pool, plan->body, &stats);
	return stats.mapped_bytes;
}

/* ---- Blocks ---- */

/* @at: where exactly; NULL: anywhere in @arena */
static int try_take(struct hugepin_pool *pool, struct hpi_arena *arena, void *at, uint64_t bytes, bool *zeroed,
		    void **out)
{
	void *p;

	hpi_pool_lock(pool);
	p = at ? hpi_arena_alloc_at(arena, at, bytes, zeroed) : hpi_arena_alloc(arena, HPI_POOL_GRAIN, bytes, zeroed);
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

static int is_full(const struct hugepin_plan *plan, uint64_t bytes)
{
	struct hpi_arena_stats stats;

	extent_stats(plan->pool, plan->body, &stats);
	return hpi_error(-ENOMEM, "plan: asked %llu bytes, of %llu in its extent %llu are free, %llu in one piece",
			 (unsigned long long)bytes, (unsigned long long)stats.mapped_bytes,
			 (unsigned long long)stats.free_bytes, (unsigned long long)stats.largest_free_bytes);
}

static int take_anywhere(struct hugepin_plan *plan, uint64_t bytes, bool *zeroed, void **out)
{
	const struct hpi_space *space = &plan->body->space;
	struct hugepin_pool *pool = plan->pool;
	int err = try_take(pool, space->arena, NULL, bytes, zeroed, out);

	if (err != -ENOSPC)
		return err;
	if (plan->policy == POLICY_FIXED)
		return is_full(plan, bytes);
	pthread_mutex_lock(&pool->growth);
	do {
		err = hpi_pool_grow_in(pool, space, bytes);
		if (!err)
			err = try_take(pool, space->arena, NULL, bytes, zeroed, out);
	} while (err == -ENOSPC);
	pthread_mutex_unlock(&pool->growth);
	hpi_watches_tell(pool);
	return err;
}

/* What follows needs growth held. */

static int take_clean_down(struct hugepin_plan *plan, uint64_t bytes, bool *zeroed, void **out)
{
	uint64_t rounded = hpi_round_up(bytes, HPI_POOL_GRAIN);
	const struct hpi_space *space = &plan->body->space;
	int err;

	if (rounded > (uint64_t)(plan->clean.start - space->start))
		return is_full(plan, bytes);
	err = try_take(plan->pool, space->arena, plan->clean.start - rounded, bytes, zeroed, out);
	if (!err)
		plan->clean.start -= rounded;
	return err == -ENOSPC ? is_full(plan, bytes) : err;
}

static bool is_short(int err)
{
	return err == -ENOMEM || err == -EDQUOT;
}

static int extend_run(struct hugepin_pool *pool, const struct run *run, uint64_t bytes)
{
	uint64_t old = (uint64_t)(run->end - run->start);
	int err = hpi_pool_extend(pool, run->start, old, old + bytes);

	if (is_short(err) && hpi_pool_make_way(pool, bytes))
		err = hpi_pool_extend(pool, run->start, old, old + bytes);
	return err;
}

/* Behind the run's last block; the first may lie anywhere in its extent. */
static int take_in_run(struct hugepin_pool *pool, struct run *run, uint64_t bytes, bool *zeroed, void **out)
{
	uint64_t rounded = hpi_round_up(bytes, HPI_POOL_GRAIN);
	char *at = run->start == run->end ? NULL : run->end;
	int tries, err;

	for (tries = 0; tries < CLEAN_TRIES; tries++) {
		err = try_take(pool, run->extent->space.arena, at, bytes, zeroed, out);
		if (!err) {
			run->start = at ? run->start : *out;
			run->end = (char *)*out + rounded;
			return 0;
		}
		if (err == -ENOSPC)
			err = at ? extend_run(pool, run, rounded) : hpi_pool_grow_in(pool, &run->extent->space, bytes);
		if (err)
			return err;
	}
	return hpi_error(-ENOMEM, "%s pool: others took the place of a plan's CLEAN blocks", hpi_pool_name(pool));
}

static int begin_run(struct hugepin_pool *pool, struct run *run, uint64_t bytes, bool *zeroed, void **out)
{
	int err = hpi_extent_get(pool, bytes, true, &run->extent);

	if (err)
		return err;
	run->start = run->end = run->extent->space.start;
	err = take_in_run(pool, run, bytes, zeroed, out);
	if (err) {
		drop_extent(run->extent);
		run->extent = NULL;
	}
	return err;
}

static int add_run(struct hugepin_pool *pool, struct run *last, uint64_t bytes, bool *zeroed, void **out)
{
	struct run *run = hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(1, sizeof(*run));
	int err = run ? begin_run(pool, run, bytes, zeroed, out) :
		  hpi_error_add(-ENOMEM, "no memory to note where CLEAN blocks lie");

	if (err)
		free(run);
	else
		last->next = run;
	return err;
}

static struct run *last_run(struct hugepin_plan *plan)
{
	struct run *run = &plan->clean;

	while (run->next)
		run = run->next;
	return run;
}

static int take_clean_up(struct hugepin_plan *plan, uint64_t bytes, bool *zeroed, void **out)
{
	struct hugepin_pool *pool = plan->pool;
	struct run *last = last_run(plan);
	int err;

	if (!last->extent)
		return begin_run(pool, last, bytes, zeroed, out);
	err = take_in_run(pool, last, bytes, zeroed, out);
	if (!is_short(err))
		return err;
	err = add_run(pool, last, bytes, zeroed, out);
	if (!err)
		hpi_error_clear();		/* of the run that could not become longer */
	return err;
}

/* Growth is held until it is cleared: hugepin_pool_clean() by another thread clears it too. */
static int take_clean(struct hugepin_plan *plan, uint64_t bytes, void **out)
{
	uint64_t rounded = hpi_round_up(bytes, HPI_POOL_GRAIN);
	bool zeroed = false;
	int err;

	if (plan->policy == POLICY_FIXED)
		err = take_clean_down(plan, bytes, &zeroed, out);
	else
		err = take_clean_up(plan, bytes, &zeroed, out);
	if (err)
		return err;
	err = zeroed ? 0 : hpi_fill_zero(plan->pool, *out, bytes);
	if (!err)
		return 0;
	hpi_block_free(plan->pool, *out);
	if (plan->policy == POLICY_FIXED)
		plan->clean.start += rounded;
	else
		last_run(plan)->end -= rounded;
	return err;
}

static int take_and_fill(struct hugepin_plan *plan, uint64_t bytes, unsigned int flags, void **out)
{
	bool zeroed = false;
	int err = take_anywhere(plan, bytes, &zeroed, out);

	if (err)
		return err;
	err = hpi_fill_block(plan->pool, *out, bytes, flags, zeroed);
	if (err)
		hpi_block_free(plan->pool, *out);
	return err;
}

static void *take(struct hugepin_plan *plan, uint64_t bytes, unsigned int flags, bool in_one_pass)
{
	struct hugepin_pool *pool = plan->pool;
	void *p = NULL;
	int err;

	if (!bytes || (!plan->body && !in_one_pass))
		return hpi_pool_allocate(pool, HPI_POOL_GRAIN, bytes, flags);
	if (in_one_pass) {
		pthread_mutex_lock(&pool->growth);
		err = take_clean(plan, bytes, &p);
		pthread_mutex_unlock(&pool->growth);
		hpi_watches_tell(pool);
	} else {
		err = take_and_fill(plan, bytes, flags, &p);
	}
	if (!err)
		return p;
	hpi_pool_lock(pool);
	pool->failed_allocs++;
	hpi_pool_unlock(pool);
	return fail(err);
}

void *hugepin_plan_alloc(struct hugepin_plan *plan, size_t bytes, unsigned int flags)
{
	bool clean = flags & HUGEPIN_ALLOC_CLEAN, in_one_pass = clean && plan->one_pass && bytes;
	struct hpi_live *live;
	int err = hpi_context_check(plan->pool->ctx);
	void *p;

	if (!err && flags & ~(HUGEPIN_ALLOC_ZERO | HUGEPIN_ALLOC_CLEAN))
		err = hpi_error(-EINVAL, "unknown flags %#x for an allocation in a plan",
				flags & ~(HUGEPIN_ALLOC_ZERO | HUGEPIN_ALLOC_CLEAN));
	if (!err && bytes > BYTES_MAX)
		err = hpi_error(-ENOMEM, "plan: asked %zu bytes, at most %llu", bytes, (unsigned long long)BYTES_MAX);
	if (err)
		return fail(err);
	live = hpi_scope_note(plan->scope);
	if (!live)
		return NULL;
	p = take(plan, bytes, clean ? HUGEPIN_ALLOC_ZERO : flags, in_one_pass);
	if (!p) {
		free(live);
		return NULL;
	}
	live->requested = bytes;
	live->clean = clean;
	live->retired.kept = in_one_pass;
	hpi_scope_enter(plan->scope, live, p);
	return p;
}

/* ---- The beginning of a step ---- */

static int clear_one_by_one(struct hugepin_plan *plan, int64_t *cleared)
{
	struct hugepin_pool *pool = plan->pool;
	struct hpi_live *live;
	int err = 0;

	pthread_mutex_lock(&pool->garbage.lock);
	for (live = plan->scope->live; live && !err; live = live->next) {
		if (!live->clean)
			continue;
		err = hpi_fill_zero(pool, live->retired.ptr, live->requested);
		*cleared += (int64_t)live->requested;
	}
	pthread_mutex_unlock(&pool->garbage.lock);
	return err;
}

int64_t hugepin_pool_clean(struct hugepin_pool *pool)
{
	struct hugepin_plan *plan;
	const struct run *run;
	int64_t cleared = 0;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	pthread_mutex_lock(&pool->growth);
	for (plan = pool->plans; plan && !err; plan = plan->next) {
		if (!plan->one_pass) {
			err = clear_one_by_one(plan, &cleared);
			continue;
		}
		for (run = &plan->clean; run && !err; run = run->next) {
			err = hpi_fill_zero(pool, run->start, (uint64_t)(run->end - run->start));
			cleared += run->end - run->start;
		}
	}
	pthread_mutex_unlock(&pool->growth);
	return err ? err : cleared;
}
