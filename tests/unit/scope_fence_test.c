// SPDX-License-Identifier: MIT
/*
 * Blocks of scopes, plans and garbage that a device may still use: first their fences, then what the options say.
 */
#include "fence_world.h"

static struct hugepin_scope *open_scope(struct hugepin_pool *pool)
{
	struct hugepin_scope *scope;

	assert_int_equal(hugepin_scope_open(pool, &scope), 0);
	return scope;
}

static void a_scope_that_closes_before_the_device_is_done_loses_nothing(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct hugepin_scope *scope = open_scope(pool);
	char *p = hugepin_scope_alloc(scope, HPI_2M, 0);

	(void)state;
	free_after(pool, p, work_on(0));
	assert_non_null(hugepin_scope_alloc(scope, HPI_2M, 0));
	hugepin_scope_close(scope);
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_2M);
	assert_int_equal(hugepin_free(pool, p), -EINVAL);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	end_device_pool(pool);
}

static void behind_its_fence_a_block_gathers_as_garbage(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("strategy", "needed", "FLAGS_eager_delete_tensor_gb",
							     "0.00390625", NULL));
	struct hugepin_scope *scope = open_scope(pool);

	(void)state;
	free_after(pool, hugepin_scope_alloc(scope, HPI_2M, 0), work_on(0));
	free_after(pool, take(pool, HPI_2M), work_on(0));
	/* The fences first: nothing is garbage yet. */
	assert_int_equal(pool->garbage.waiting_bytes, 0);
	assert_int_equal(hugepin_pool_collect(pool), 0);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	/* 4 MiB together: collected. */
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	free_after(pool, take(pool, HPI_2M), work_on(0));
	work_done(0);
	hugepin_pool_poll(pool);
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_2M);
	hugepin_scope_close(scope);
	end_device_pool(pool);
}

static void a_block_reused_on_its_stream_is_in_no_scope_any_more(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct hugepin_scope *scope = open_scope(pool);
	char *p = hugepin_scope_alloc(scope, HPI_2M, 0);
	void *stream = work_on(0);

	(void)state;
	free_after(pool, p, stream);
	assert_ptr_equal(hugepin_alloc_on(pool, HPI_2M, 0, stream), p);
	hugepin_scope_close(scope);
	assert_int_equal(stats_of(pool).active_blocks, 1);
	work_done(0);
	hugepin_pool_poll(pool);
	give(pool, p);
	end_device_pool(pool);
}

static void a_plans_block_is_not_reused_outside_the_plan(void **state)
{
	static const unsigned int flags[] = { 0, HUGEPIN_ALLOC_CLEAN };
	struct hugepin_pool *pool;
	struct hugepin_plan *plan;
	void *stream;
	char *p, *q;
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		pool = device_pool(make_context("static_memory_policy", "2", NULL));
		assert_int_equal(hugepin_plan_begin(pool, HPI_2M, &plan), 0);
		stream = work_on(0);
		p = hugepin_plan_alloc(plan, HPI_2M, flags[i]);
		free_after(pool, p, stream);
		q = hugepin_alloc_on(pool, HPI_2M, 0, stream);
		assert_ptr_not_equal(p, q);
		hugepin_plan_end(plan);
		assert_int_equal(hugepin_plan_begin(pool, HPI_2M, &plan), -EBUSY);
		work_done(0);
		hugepin_pool_poll(pool);
		assert_int_equal(hugepin_plan_begin(pool, HPI_2M, &plan), 0);
		hugepin_plan_end(plan);
		give(pool, q);
		end_device_pool(pool);
	}
}

static struct hugepin_plan *begin_plan(struct hugepin_pool *pool)
{
	struct hugepin_plan *plan;

	assert_int_equal(hugepin_plan_begin(pool, 0, &plan), 0);
	return plan;
}

/* A trim takes the first segment of CLEAN blocks and leaves the second, whose block a device may still use. */
static void clean_blocks_begin_where_a_trim_has_left_a_hole(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("strategy", "needed", NULL));
	struct hugepin_plan *plan = begin_plan(pool);
	char *first, *second;

	(void)state;
	first = hugepin_plan_alloc(plan, HPI_2M, HUGEPIN_ALLOC_CLEAN);
	second = hugepin_plan_alloc(plan, HPI_2M, HUGEPIN_ALLOC_CLEAN);
	assert_ptr_equal(second, first + HPI_2M);
	free_after(pool, second, work_on(0));
	hugepin_plan_end(plan);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_2M);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(stats_of(pool).free_bytes, HPI_2M);

	plan = begin_plan(pool);
	assert_non_null(hugepin_plan_alloc(plan, HPI_2M, HUGEPIN_ALLOC_CLEAN));
	assert_non_null(hugepin_plan_alloc(plan, HPI_2M, HUGEPIN_ALLOC_CLEAN));
	hugepin_plan_end(plan);
	end_device_pool(pool);
}

static void a_group_is_behind_as_many_fences_as_it_has_blocks(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	static const uint64_t sizes[2] = { 4096, 4096 };
	void *p[2];

	(void)state;
	assert_int_equal(hugepin_group_alloc(pool, sizes, 2, 0, p), 0);
	free_after(pool, p[0], work_on(0));
	free_after(pool, p[1], work_on(1));
	work_done(1);
	assert_int_equal(hugepin_pool_poll(pool), 4096);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	end_device_pool(pool);
}

static void a_pool_that_ends_waits_for_blocks_of_closed_scopes(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("FLAGS_eager_delete_tensor_gb", "-1", NULL));
	struct hugepin_scope *scope = open_scope(pool);

	(void)state;
	free_after(pool, hugepin_scope_alloc(scope, KIB, 0), work_on(0));
	hugepin_scope_close(scope);
	work_done(0);
	end_device_pool(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(a_scope_that_closes_before_the_device_is_done_loses_nothing),
		DEVICE_TEST(behind_its_fence_a_block_gathers_as_garbage),
		DEVICE_TEST(a_block_reused_on_its_stream_is_in_no_scope_any_more),
		DEVICE_TEST(a_plans_block_is_not_reused_outside_the_plan),
		DEVICE_TEST(clean_blocks_begin_where_a_trim_has_left_a_hole),
		DEVICE_TEST(a_group_is_behind_as_many_fences_as_it_has_blocks),
		DEVICE_TEST(a_pool_that_ends_waits_for_blocks_of_closed_scopes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
