// SPDX-License-Identifier: MIT
/*
 * A child of a fork, made while other threads of its parent hold every lock of a pool and have blocks in every
 * place: each call on a pool, a scope or a plan is refused without waiting, the ends free the books, and the parent
 * goes on as if nothing had been.
 */
#include <sys/wait.h>

#include "fence_world.h"

#define CHILD_SECONDS 30 /* a child that waits for a lock waits for good */

static struct world {
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	struct hugepin_scope *scope;
	struct hugepin_plan *plan;
	struct hugepin_watch *watch;
	struct hugepin_blocks *blocks;
	char *block, *in_scope, *in_plan, *nothing;
	void *of_blocks;
} world;

/* ---- calls that return -errno ---- */

static int64_t create(void)
{
	return hugepin_pool_create(world.ctx, HUGEPIN_POOL_HOST, &(struct hugepin_pool *){ NULL });
}

static int64_t create_on(void)
{
	return hugepin_pool_create_on(world.ctx, HUGEPIN_POOL_DEVICE, 0, &(struct hugepin_pool *){ NULL });
}

static int64_t free_block(void)
{
	return hugepin_free(world.pool, world.block);
}

static int64_t free_of_scope(void)
{
	return hugepin_free(world.pool, world.in_scope);
}

static int64_t free_of_plan(void)
{
	return hugepin_free(world.pool, world.in_plan);
}

static int64_t free_nothing(void)
{
	return hugepin_free(world.pool, world.nothing);
}

static int64_t free_after_stream(void)
{
	return hugepin_free_after(world.pool, world.block, &(void *){ NULL }, 1);
}

static int64_t free_after_all(void)
{
	return hugepin_free_after(world.pool, world.in_scope, NULL, 0);
}

static int64_t poll(void)
{
	return hugepin_pool_poll(world.pool);
}

static int64_t drain(void)
{
	return hugepin_pool_drain(world.pool);
}

static int64_t trim(void)
{
	return hugepin_pool_trim(world.pool, 0);
}

static int64_t collect(void)
{
	return hugepin_pool_collect(world.pool);
}

static int64_t clean(void)
{
	return hugepin_pool_clean(world.pool);
}

static int64_t stats_get(void)
{
	return hugepin_pool_stats_get(world.pool,
				      &(struct hugepin_pool_stats){ .size = sizeof(struct hugepin_pool_stats) });
}

static int64_t segment_at(void)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };

	return hugepin_pool_segment(world.pool, 0, &info);
}

static int64_t segment_of(void)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };

	return hugepin_block_segment(world.pool, world.block, &info);
}

static int64_t scope_open(void)
{
	return hugepin_scope_open(world.pool, &(struct hugepin_scope *){ NULL });
}

static int64_t group(void)
{
	return hugepin_group_alloc(world.pool, (uint64_t[]){ 64, 64 }, 2, 0, (void *[2]){ NULL });
}

static int64_t plan_begin(void)
{
	return hugepin_plan_begin(world.pool, HPI_MIB(2), &(struct hugepin_plan *){ NULL });
}

static int64_t variable(void)
{
	return hugepin_variable_open(world.pool, "v", 64, NULL, &(struct hugepin_variable *){ NULL });
}

static int64_t pin(void)
{
	return hugepin_pin_range(world.ctx, world.block, 4096, 0, &(struct hugepin_pin *){ NULL });
}

static void watch_segment(enum hugepin_segment_event event, const struct hugepin_segment_info *info, void *arg)
{
	(void)event;
	(void)info;
	(void)arg;
}

static int64_t watch(void)
{
	return hugepin_segment_watch(world.pool, watch_segment, NULL, &(struct hugepin_watch *){ NULL });
}

static int64_t grow(void)
{
	return hugepin_pool_grow(world.pool, HPI_MIB(2), 0);
}

static int64_t grow_in_background(void)
{
	return hugepin_pool_grow(world.pool, HPI_MIB(2), HUGEPIN_GROW_BACKGROUND);
}

static int64_t wait_for_growth(void)
{
	return hugepin_pool_wait(world.pool);
}

static int see_block(const struct hugepin_block_info *info, void *arg)
{
	(void)info;
	(void)arg;
	return 1;
}

static int64_t each_block(void)
{
	return hugepin_pool_each_block(world.pool, see_block, NULL);
}

static int write_text(const char *text, size_t length, void *arg)
{
	(void)text;
	(void)length;
	(void)arg;
	return 0;
}

static int64_t snapshot(void)
{
	return hugepin_pool_snapshot(world.pool, HUGEPIN_SNAPSHOT_SVG, write_text, NULL);
}

static int64_t take_batch(void)
{
	return hugepin_alloc_batch(world.pool, 64, 2, 0, (void *[2]){ NULL });
}

static int64_t free_batch(void)
{
	return hugepin_free_batch(world.pool, (void *[1]){ world.block }, 1);
}

static int64_t usable(void)
{
	return hugepin_usable_bytes(world.pool, world.block) ? 0 : -EPERM;
}

static int64_t blocks_create(void)
{
	return hugepin_blocks_create(world.pool, 64, 2, &(struct hugepin_blocks *){ NULL });
}

static int64_t blocks_take(void)
{
	return hugepin_blocks_take(world.blocks, 1, (void *[1]){ NULL });
}

static int64_t blocks_give(void)
{
	return hugepin_blocks_give(world.blocks, 1, &world.of_blocks);
}

static int64_t blocks_stats(void)
{
	return hugepin_blocks_stats(world.blocks,
				    &(struct hugepin_blocks_stats){ .size = sizeof(struct hugepin_blocks_stats) });
}

/* ---- and calls that return a block, which set errno ---- */

static int64_t said(const void *p)
{
	return p ? 0 : -errno;
}

static int64_t take_small(void)
{
	return said(hugepin_alloc(world.pool, 64, 0));
}

static int64_t take_large(void)
{
	return said(hugepin_alloc(world.pool, HPI_MIB(64), HUGEPIN_ALLOC_ZERO));
}

static int64_t take_nothing(void)
{
	return said(hugepin_alloc(world.pool, 0, 0));
}

static int64_t take_aligned(void)
{
	return said(hugepin_alloc_aligned(world.pool, 4096, 64, 0));
}

static int64_t take_on(void)
{
	return said(hugepin_alloc_on(world.pool, 64, 0, NULL));
}

static int64_t realloc_new(void)
{
	return said(hugepin_realloc(world.pool, NULL, 64));
}

static int64_t realloc_block(void)
{
	return said(hugepin_realloc(world.pool, world.block, HPI_MIB(64)));
}

static int64_t realloc_away(void)
{
	return said(hugepin_realloc(world.pool, world.in_scope, 0));
}

static int64_t find_pool(void)
{
	return said(hugepin_pool_of(world.ctx, world.block));
}

static int64_t scope_take(void)
{
	return said(hugepin_scope_alloc(world.scope, 64, 0));
}

static int64_t plan_take(void)
{
	return said(hugepin_plan_alloc(world.plan, 64, 0));
}

static int64_t plan_take_clean(void)
{
	return said(hugepin_plan_alloc(world.plan, 64, HUGEPIN_ALLOC_CLEAN));
}

static const struct {
	const char *name;
	int64_t (*fn)(void);
} calls[] = {
	{ "pool_create", create },
	{ "pool_create_on", create_on },
	{ "free", free_block },
	{ "free, of a scope", free_of_scope },
	{ "free, of a plan", free_of_plan },
	{ "free, of no bytes", free_nothing },
	{ "free_after", free_after_stream },
	{ "free_after, no stream", free_after_all },
	{ "pool_poll", poll },
	{ "pool_drain", drain },
	{ "pool_trim", trim },
	{ "pool_collect", collect },
	{ "pool_clean", clean },
	{ "pool_stats_get", stats_get },
	{ "pool_segment", segment_at },
	{ "block_segment", segment_of },
	{ "scope_open", scope_open },
	{ "group_alloc", group },
	{ "plan_begin", plan_begin },
	{ "variable_open", variable },
	{ "pin_range", pin },
	{ "segment_watch", watch },
	{ "pool_grow", grow },
	{ "pool_grow, in the background", grow_in_background },
	{ "pool_wait", wait_for_growth },
	{ "pool_each_block", each_block },
	{ "pool_snapshot", snapshot },
	{ "alloc_batch", take_batch },
	{ "free_batch", free_batch },
	{ "usable_bytes", usable },
	{ "blocks_create", blocks_create },
	{ "blocks_take", blocks_take },
	{ "blocks_give", blocks_give },
	{ "blocks_stats", blocks_stats },
	{ "pool_of", find_pool },
	{ "alloc", take_small },
	{ "alloc, large", take_large },
	{ "alloc, no bytes", take_nothing },
	{ "alloc_aligned", take_aligned },
	{ "alloc_on", take_on },
	{ "realloc, NULL", realloc_new },
	{ "realloc", realloc_block },
	{ "realloc, to nothing", realloc_away },
	{ "scope_alloc", scope_take },
	{ "plan_alloc", plan_take },
	{ "plan_alloc, CLEAN", plan_take_clean },
};

/* ---- the world that is forked ---- */

static void build(void)
{
	struct hugepin_context *ctx = make_context("static_memory_policy", "3", "FLAGS_eager_delete_tensor_gb", "1",
						   "FLAGS_eager_delete_scope", "false", NULL);
	struct hugepin_pool *pool = device_pool(ctx);
	struct hugepin_scope *closed;

	world.ctx = ctx;
	world.pool = pool;
	world.block = take(pool, HPI_MIB(1));
	world.nothing = take(pool, 0);
	assert_int_equal(hugepin_segment_watch(pool, watch_segment, NULL, &world.watch), 0);
	assert_int_equal(hugepin_blocks_create(pool, 64, 4, &world.blocks), 0);
	assert_int_equal(hugepin_blocks_take(world.blocks, 1, &world.of_blocks), 0);
	assert_int_equal(hugepin_scope_open(pool, &world.scope), 0);
	world.in_scope = hugepin_scope_alloc(world.scope, HPI_MIB(1), 0);
	assert_non_null(world.in_scope);
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(4), &world.plan), 0);
	world.in_plan = hugepin_plan_alloc(world.plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN);
	assert_non_null(world.in_plan);
	/* Garbage of no scope and of one, behind a fence, and on its way to the reaper. */
	give(pool, take(pool, 4096));
	give(pool, hugepin_scope_alloc(world.scope, 4096, 0));
	free_after(pool, take(pool, HPI_MIB(1)), work_on(0));
	assert_int_equal(hugepin_scope_open(pool, &closed), 0);
	free_after(pool, hugepin_scope_alloc(closed, HPI_MIB(1), 0), work_on(0));
	hugepin_scope_close(closed);
}

static void demolish(void)
{
	give(world.pool, world.block);
	give(world.pool, world.nothing);
	assert_int_equal(hugepin_segment_unwatch(world.watch), 0);
	assert_int_equal(hugepin_blocks_give(world.blocks, 1, &world.of_blocks), 0);
	assert_int_equal(hugepin_blocks_destroy(world.blocks), 0);
	hugepin_scope_close(world.scope);
	hugepin_plan_end(world.plan);
	end_device_pool(world.pool);
}

static pid_t fork_with_locks_held(void)
{
	struct hugepin_pool *pool = world.pool;
	pid_t pid;

	pthread_mutex_lock(&pool->watches.lock);
	pthread_mutex_lock(&pool->ahead.lock);
	pthread_mutex_lock(&pool->growth);
	pthread_mutex_lock(&pool->garbage.lock);
	hpi_pool_lock(pool);
	pid = fork();
	if (!pid) {
		alarm(CHILD_SECONDS);
		return 0;
	}
	hpi_pool_unlock(pool);
	pthread_mutex_unlock(&pool->garbage.lock);
	pthread_mutex_unlock(&pool->growth);
	pthread_mutex_unlock(&pool->ahead.lock);
	pthread_mutex_unlock(&pool->watches.lock);
	assert_true(pid > 0);
	return pid;
}

static void assert_exits_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- tests ---- */

static void every_call_in_a_child_is_refused_at_once(void **state)
{
	size_t i;
	pid_t pid;

	(void)state;
	build();
	pid = fork_with_locks_held();
	for (i = 0; !pid && i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].fn() == -EPERM && strstr(hugepin_error(), "child of process"))
			continue;
		print_error("%s was not refused: \"%s\"\n", calls[i].name, hugepin_error());
		_exit(1);
	}
	if (!pid)
		_exit(0);
	assert_exits_well(pid);
	demolish();
}

static void what_only_reads_answers_in_a_child(void **state)
{
	pid_t pid;

	(void)state;
	build();
	memset(world.block, 0x5a, HPI_MIB(1));
	pid = fork_with_locks_held();
	if (!pid)
		_exit(hugepin_plan_address(world.plan) == NULL || hugepin_plan_bytes(world.plan) != 0 ||
		      world.block[HPI_MIB(1) - 1] != 0x5a);
	assert_exits_well(pid);
	demolish();
}

static void a_child_ends_all_it_has_from_its_parent(void **state)
{
	unsigned int unregisters, ends;
	pid_t pid;

	(void)state;
	build();
	unregisters = runtime.unregisters;
	ends = device.live;
	pid = fork_with_locks_held();
	if (!pid) {
		int bad;

		hugepin_plan_end(world.plan);
		hugepin_scope_close(world.scope);
		bad = hugepin_segment_unwatch(world.watch) || hugepin_blocks_destroy(world.blocks);
		bad |= hugepin_pool_destroy(world.pool);
		bad |= hugepin_context_destroy(world.ctx);
		_exit(bad || runtime.unregisters != unregisters || device.live != ends);
	}
	assert_exits_well(pid);
	/* The parent's are all there. */
	memset(world.in_plan, 0x5a, HPI_MIB(1));
	memset(world.in_scope, 0x5a, HPI_MIB(1));
	assert_int_equal(hugepin_pool_clean(world.pool), HPI_MIB(1));
	assert_int_equal(world.in_plan[HPI_MIB(1) - 1], 0);
	demolish();
}

static void a_child_has_pools_of_its_own(void **state)
{
	pid_t pid;

	(void)state;
	build();
	pid = fork_with_locks_held();
	if (!pid) {
		struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
		struct hugepin_scope *scope;
		struct hugepin_plan *plan;

		if (hugepin_scope_open(pool, &scope) || !hugepin_scope_alloc(scope, 64, 0))
			_exit(1);
		if (hugepin_plan_begin(pool, 64, &plan) || !hugepin_plan_alloc(plan, 64, HUGEPIN_ALLOC_CLEAN))
			_exit(2);
		free_after(pool, take(pool, 64), NULL);
		hugepin_plan_end(plan);
		hugepin_scope_close(scope);
		_exit(hugepin_pool_destroy(pool) != 0);
	}
	assert_exits_well(pid);
	demolish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(every_call_in_a_child_is_refused_at_once),
		DEVICE_TEST(what_only_reads_answers_in_a_child),
		DEVICE_TEST(a_child_ends_all_it_has_from_its_parent),
		DEVICE_TEST(a_child_has_pools_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
