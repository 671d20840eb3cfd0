// SPDX-License-Identifier: MIT
/*
 * Pools, scopes, groups and plans used wrongly: sizes that wrap, blocks that are none, a second free by every way
 * there is, an order that is none. Each is refused and changes nothing.
 */
#include "fence_world.h"

static const uint64_t huge[] = {
	UINT64_MAX,	UINT64_MAX - 62, UINT64_MAX - 63, UINT64_MAX - 64, (1ull << 63) + 64, 1ull << 63, INT64_MAX,
	INT64_MAX - 62, INT64_MAX - 63,	 INT64_MAX - 64,  1ull << 62,	   (1ull << 62) - 1,  1ull << 48,
};

#define HUGE (sizeof(huge) / sizeof(huge[0]))

static struct hugepin_pool *host_pool(const char *static_policy, const char *clean_policy)
{
	struct hugepin_context *ctx =
		make_context("static_memory_policy", static_policy, "atomic_clean_policy", clean_policy, NULL);

	return make_pool_on(ctx, HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
}

static void assert_same(const struct hugepin_pool *pool, const struct hugepin_pool_stats *before)
{
	struct hugepin_pool_stats now = stats_of(pool);

	assert_int_equal(now.active_blocks, before->active_blocks);
	assert_int_equal(now.active_bytes, before->active_bytes);
	assert_int_equal(now.requested_bytes, before->requested_bytes);
	assert_int_equal(now.deferred_bytes, before->deferred_bytes);
	assert_int_equal(now.mapped_bytes, before->mapped_bytes);
	assert_int_equal(now.allocs - now.frees, before->allocs - before->frees);
}

/* ---- sizes ---- */

static void blocks_of_impossible_sizes_are_refused(void **state)
{
	struct hugepin_pool *pool = host_pool("0", "0");
	char *p = take(pool, HPI_MIB(1));
	struct hugepin_pool_stats before = stats_of(pool);
	struct hugepin_scope *scope;
	size_t i;

	(void)state;
	assert_int_equal(hugepin_scope_open(pool, &scope), 0);
	for (i = 0; i < HUGE; i++) {
		assert_null(hugepin_alloc(pool, huge[i], HUGEPIN_ALLOC_ZERO));
		assert_int_equal(errno, ENOMEM);
		assert_null(hugepin_alloc_aligned(pool, HPI_1G, huge[i], 0));
		assert_null(hugepin_alloc_on(pool, huge[i], 0, NULL));
		assert_null(hugepin_scope_alloc(scope, huge[i], 0));
		assert_null(hugepin_realloc(pool, p, huge[i]));
		assert_int_equal(errno, ENOMEM);
		assert_same(pool, &before);
	}
	hugepin_scope_close(scope);
	give(pool, p);
	end_pool(pool);
}

static void groups_whose_sizes_wrap_are_refused(void **state)
{
	struct hugepin_pool *pool = host_pool("0", "0");
	struct hugepin_pool_stats before = stats_of(pool);
	size_t i, j;

	(void)state;
	for (i = 0; i < HUGE; i++) {
		for (j = 0; j < HUGE; j++) {
			uint64_t sizes[2] = { huge[i], huge[j] };
			void *out[2];
			int err = hugepin_group_alloc(pool, sizes, 2, 0, out);

			assert_true(err == -EINVAL || err == -ENOMEM);
			assert_string_not_equal(hugepin_error(), "");
			assert_same(pool, &before);
		}
	}
	/* The first, rounded up, is all that can be counted. */
	assert_int_equal(hugepin_group_alloc(pool, (uint64_t[]){ (1ull << 62) - 1, (1ull << 63) + 64 }, 2, 0,
					     (void *[2]){ 0 }),
			 -EINVAL);
	assert_non_null(strstr(hugepin_error(), "parameters 0 to 1 of 2"));
	end_pool(pool);
}

static void try_huge_in(struct hugepin_plan *plan, struct hugepin_pool *pool, unsigned int flags)
{
	struct hugepin_pool_stats before = stats_of(pool);
	uint64_t bytes = hugepin_plan_bytes(plan);
	size_t i;

	for (i = 0; i < HUGE; i++) {
		assert_null(hugepin_plan_alloc(plan, huge[i], flags));
		assert_int_equal(errno, ENOMEM);
		assert_string_not_equal(hugepin_error(), "");
		assert_same(pool, &before);
		assert_int_equal(hugepin_plan_bytes(plan), bytes);
	}
}

static void plans_refuse_impossible_sizes_under_every_policy(void **state)
{
	static const char *const policies[] = { "0", "2", "3", "4" }, *const cleans[] = { "0", "1" };
	size_t i, j;

	(void)state;
	for (i = 0; i < 4; i++) {
		for (j = 0; j < 2; j++) {
			struct hugepin_pool *pool = host_pool(policies[i], cleans[j]);
			struct hugepin_plan *plan = NULL;

			assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(8), &plan), 0);
			try_huge_in(plan, pool, 0);
			try_huge_in(plan, pool, HUGEPIN_ALLOC_CLEAN);
			/* With some there, and free space behind them. */
			assert_non_null(hugepin_plan_alloc(plan, 100, 0));
			assert_non_null(hugepin_plan_alloc(plan, 100, HUGEPIN_ALLOC_CLEAN));
			try_huge_in(plan, pool, 0);
			try_huge_in(plan, pool, HUGEPIN_ALLOC_CLEAN);
			hugepin_plan_end(plan);
			end_pool(pool);
		}
	}
}

static void plans_cannot_begin_with_impossible_sizes(void **state)
{
	static const char *const policies[] = { "2", "3", "4" };
	size_t i, j;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct hugepin_pool *pool = host_pool(policies[i], "0");
		struct hugepin_pool_stats before = stats_of(pool);
		struct hugepin_plan *plan = NULL;

		for (j = 0; j < HUGE; j++) {
			int err = hugepin_plan_begin(pool, huge[j], &plan);

			assert_true(err == -EINVAL || err == -ENOMEM);
			assert_null(plan);
			assert_same(pool, &before);
		}
		end_pool(pool);
	}
	/* Without a policy the size is not looked at. */
	for (j = 0; j < HUGE; j++) {
		struct hugepin_pool *pool = host_pool("0", "0");
		struct hugepin_plan *plan = NULL;

		assert_int_equal(hugepin_plan_begin(pool, huge[j], &plan), 0);
		hugepin_plan_end(plan);
		end_pool(pool);
	}
}

/* ---- a plan's blocks and realloc ---- */

static void a_plans_blocks_are_not_reallocated_under_any_policy(void **state)
{
	static const char *const policies[] = { "0", "2", "3", "4" }, *const cleans[] = { "0", "1" };
	size_t i, j, k;

	(void)state;
	for (i = 0; i < 4; i++) {
		for (j = 0; j < 2; j++) {
			struct hugepin_pool *pool = host_pool(policies[i], cleans[j]);
			struct hugepin_pool_stats before;
			struct hugepin_plan *plan = NULL;
			void *p[4];

			assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(8), &plan), 0);
			p[0] = hugepin_plan_alloc(plan, HPI_MIB(1), 0);
			p[1] = hugepin_plan_alloc(plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN);
			p[2] = hugepin_plan_alloc(plan, 100, 0);
			p[3] = hugepin_plan_alloc(plan, 0, 0);
			before = stats_of(pool);
			for (k = 0; k < 4; k++) {
				assert_non_null(p[k]);
				assert_null(hugepin_realloc(pool, p[k], 64));
				assert_int_equal(errno, EINVAL);
				assert_null(hugepin_realloc(pool, p[k], HPI_MIB(2)));
				assert_int_equal(errno, EINVAL);
				assert_null(hugepin_realloc(pool, p[k], 0));
				assert_same(pool, &before);
			}
			hugepin_plan_end(plan);
			end_pool(pool);
		}
	}
}

/* What hugepin_pool_clean() clears is the plan's alone. */
static void clearing_touches_nobody_elses_bytes(void **state)
{
	struct hugepin_pool *pool = host_pool("0", "1");
	struct hugepin_plan *plan = NULL;
	char *clean, *own;
	size_t i;

	(void)state;
	assert_int_equal(hugepin_plan_begin(pool, 0, &plan), 0);
	clean = hugepin_plan_alloc(plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN);
	assert_non_null(clean);
	assert_null(hugepin_realloc(pool, clean, HPI_MIB(1) / 2));
	own = take(pool, HPI_MIB(1) / 2);
	memset(own, 0x5a, HPI_MIB(1) / 2);
	assert_int_equal(hugepin_pool_clean(pool), HPI_MIB(1));
	for (i = 0; i < HPI_MIB(1) / 2; i++)
		assert_int_equal(own[i], 0x5a);
	give(pool, own);
	hugepin_plan_end(plan);
	end_pool(pool);
}

/* ---- not a block, or not any more ---- */

static int end_by_free(struct hugepin_pool *pool, void *ptr)
{
	return hugepin_free(pool, ptr);
}

static int end_after(struct hugepin_pool *pool, void *ptr)
{
	void *stream = &device.streams[0];

	return hugepin_free_after(pool, ptr, &stream, 1);
}

static int end_after_unknown(struct hugepin_pool *pool, void *ptr)
{
	return hugepin_free_after(pool, ptr, NULL, 0);
}

static int end_by_realloc(struct hugepin_pool *pool, void *ptr)
{
	void *p = hugepin_realloc(pool, ptr, 1024);

	return p ? hugepin_free(pool, p) : -errno;
}

static int end_by_emptying(struct hugepin_pool *pool, void *ptr)
{
	void *p = hugepin_realloc(pool, ptr, 0);

	return p ? hugepin_free(pool, p) : -errno;
}

static int end_in_batch(struct hugepin_pool *pool, void *ptr)
{
	return hugepin_free_batch(pool, (void *[]){ ptr }, 1);
}

static int (*const ends[])(struct hugepin_pool *pool, void *ptr) = {
	end_by_free, end_after, end_after_unknown, end_in_batch, end_by_realloc, end_by_emptying,
};

#define ENDS (sizeof(ends) / sizeof(ends[0]))

static void refuse_all(struct hugepin_pool *pool, void *ptr)
{
	struct hugepin_pool_stats before = stats_of(pool);
	size_t i;

	for (i = 0; i < ENDS; i++) {
		assert_int_equal(ends[i](pool, ptr), -EINVAL);
		assert_string_not_equal(hugepin_error(), "");
		assert_same(pool, &before);
	}
}

static void what_is_no_block_is_refused_by_every_way_to_free(void **state)
{
	static const uint64_t sizes[] = { 1, 100, 8192, 20000, HPI_MIB(3) };
	struct hugepin_pool *pool = device_pool(NULL),
			    *other = make_pool_on(pool->ctx, HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	char outside[128], *p, *theirs = take(other, HPI_MIB(1)), *nothing = take(other, 0);
	size_t i;

	(void)state;
	for (i = 0; i < 5; i++) {
		p = take(pool, sizes[i]);
		refuse_all(pool, p + 1);
		refuse_all(pool, p + 64);
		refuse_all(pool, p - 64);
		refuse_all(pool, theirs);
		refuse_all(pool, nothing);
		refuse_all(pool, outside);
		refuse_all(pool, (void *)1);
		refuse_all(pool, (void *)UINTPTR_MAX);
		refuse_all(pool, pool->nothing + 64);
		refuse_all(pool, pool->nothing + 1);
		give(pool, p);
	}
	give(other, theirs);
	give(other, nothing);
	assert_int_equal(hugepin_pool_destroy(other), 0);
	end_device_pool(pool);
}

static void a_second_free_is_refused_whatever_the_first_was(void **state)
{
	static const uint64_t sizes[] = { 1, 8192, 20000, HPI_MIB(3) };
	static const char *const gigabytes[] = { "0", "1", "-1" };
	struct hugepin_scope *scope;
	size_t i, j, k;

	(void)state;
	for (k = 0; k < 3; k++) {
		struct hugepin_pool *pool =
			device_pool(make_context("FLAGS_eager_delete_tensor_gb", gigabytes[k], NULL));

		for (i = 0; i < 4; i++) {
			for (j = 0; j < 4; j++) {
				char *p = take(pool, sizes[j]);

				work_on(0);
				assert_int_equal(ends[i](pool, p), 0);
				refuse_all(pool, p);
				assert_int_equal(hugepin_scope_open(pool, &scope), 0);
				p = hugepin_scope_alloc(scope, sizes[j], 0);
				assert_non_null(p);
				assert_int_equal(ends[i](pool, p), 0);
				refuse_all(pool, p);
				hugepin_scope_close(scope);
			}
		}
		end_device_pool(pool);
		device.free_running = false;
	}
}

/* ---- arguments ---- */

static void streams_that_are_none_leave_the_block_in_use(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	void *many[1025] = { NULL }, *p = take(pool, HPI_MIB(1));
	struct hugepin_pool_stats before = stats_of(pool);

	(void)state;
	assert_int_equal(hugepin_free_after(pool, p, NULL, 1), -EINVAL);
	assert_int_equal(hugepin_free_after(pool, p, many, 1025), -EINVAL);
	assert_int_equal(hugepin_free_after(pool, p, many, SIZE_MAX), -EINVAL);
	many[3] = (void *)-1;
	assert_int_equal(hugepin_free_after(pool, p, many, 4), -EINVAL);
	many[3] = many;
	assert_int_equal(hugepin_free_after(pool, p, many, 4), -EINVAL);
	assert_same(pool, &before);
	assert_int_equal(device.live, 0);
	many[3] = NULL;
	assert_int_equal(hugepin_free_after(pool, p, many, 1024), 0);
	end_device_pool(pool);
}

static void groups_of_nothing_are_refused(void **state)
{
	struct hugepin_pool *pool = host_pool("0", "0");
	uint64_t sizes[2] = { 64, 0 };
	void *out[2];

	(void)state;
	assert_int_equal(hugepin_group_alloc(pool, sizes, 0, 0, out), -EINVAL);
	assert_int_equal(hugepin_group_alloc(pool, NULL, 2, 0, out), -EINVAL);
	assert_int_equal(hugepin_group_alloc(pool, sizes, 2, 0, out), -EINVAL);
	assert_int_equal(hugepin_group_alloc(pool, sizes, 1, 0, NULL), -EINVAL);
	assert_int_equal(hugepin_group_alloc(pool, sizes, 1, HUGEPIN_ALLOC_CLEAN, out), -EINVAL);
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	end_pool(pool);
}

static void flags_of_plans_are_refused_elsewhere(void **state)
{
	struct hugepin_pool *pool = host_pool("0", "0");
	struct hugepin_scope *scope;
	struct hugepin_plan *plan;

	(void)state;
	assert_int_equal(hugepin_scope_open(pool, &scope), 0);
	assert_int_equal(hugepin_plan_begin(pool, 0, &plan), 0);
	assert_null(hugepin_alloc(pool, 64, HUGEPIN_ALLOC_CLEAN));
	assert_int_equal(errno, EINVAL);
	assert_null(hugepin_alloc_on(pool, 64, HUGEPIN_ALLOC_CLEAN, NULL));
	assert_int_equal(errno, EINVAL);
	assert_null(hugepin_scope_alloc(scope, 64, HUGEPIN_ALLOC_CLEAN));
	assert_int_equal(errno, EINVAL);
	assert_null(hugepin_plan_alloc(plan, 64, ~0u));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	hugepin_scope_close(scope);
	hugepin_plan_end(plan);
	end_pool(pool);
}

static void batches_take_a_plans_blocks_too(void **state)
{
	static const char *const policies[] = { "0", "2", "3", "4" };
	struct hugepin_plan *plan;
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		struct hugepin_pool *pool = host_pool(policies[i], "1");
		void *p[3];

		assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(8), &plan), 0);
		p[0] = hugepin_plan_alloc(plan, 100, HUGEPIN_ALLOC_CLEAN);
		p[1] = hugepin_plan_alloc(plan, HPI_MIB(1), 0);
		p[2] = p[0];
		/* All of its bytes would be its user's then, but not all are cleared. */
		assert_int_equal(hugepin_usable_bytes(pool, p[0]), 0);
		assert_non_null(strstr(hugepin_error(), "a plan's"));
		assert_int_equal(hugepin_free_batch(pool, p, 3), -EINVAL);
		assert_int_equal(stats_of(pool).active_blocks, 2);
		assert_int_equal(hugepin_free_batch(pool, p, 2), 0);
		assert_int_equal(end_in_batch(pool, p[1]), -EINVAL);
		hugepin_plan_end(plan);
		end_pool(pool);
	}
}

static void walks_and_watches_need_somebody_to_tell(void **state)
{
	struct hugepin_pool *pool = host_pool("0", "0");
	struct hugepin_watch *watch;

	(void)state;
	assert_int_equal(hugepin_segment_watch(pool, NULL, NULL, &watch), -EINVAL);
	assert_int_equal(hugepin_segment_unwatch(NULL), 0);
	assert_int_equal(hugepin_pool_each_block(pool, NULL, NULL), -EINVAL);
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_JSON, NULL, NULL), -EINVAL);
	assert_int_equal(hugepin_pool_snapshot(pool, (enum hugepin_snapshot)7, NULL, NULL), -EINVAL);
	end_pool(pool);
}

/* ---- order ---- */

/* A callback that tries what it must not, from the thread that grows the pool in the background. */
static struct {
	struct hugepin_pool *pool;
	int destroyed, waited;
} caller;

static void do_what_is_forbidden(enum hugepin_segment_event event, const struct hugepin_segment_info *info, void *arg)
{
	(void)info;
	(void)arg;
	if (event == HUGEPIN_SEGMENT_GOES)
		return;
	caller.waited = hugepin_pool_wait(caller.pool);
	caller.destroyed = hugepin_pool_destroy(caller.pool);
}

static void a_growth_is_not_ended_by_a_callback_of_its_own(void **state)
{
	struct hugepin_pool *pool = host_pool("0", "0");
	struct hugepin_watch *watch;

	(void)state;
	caller.pool = pool;
	assert_int_equal(hugepin_segment_watch(pool, do_what_is_forbidden, NULL, &watch), 0);
	assert_int_equal(hugepin_pool_grow(pool, HPI_MIB(4), HUGEPIN_GROW_BACKGROUND), 0);
	assert_int_equal(hugepin_pool_wait(pool), 0);
	assert_int_equal(caller.waited, -EDEADLK);
	assert_int_equal(caller.destroyed, -EDEADLK);
	assert_int_equal(stats_of(pool).free_bytes, HPI_MIB(4));
	end_pool(pool);
}

static void nothing_ends_before_what_it_holds(void **state)
{
	struct hugepin_pool *pool = host_pool("3", "0");
	struct hugepin_context *ctx = pool->ctx;
	struct hugepin_scope *scope;
	struct hugepin_plan *plan;

	(void)state;
	assert_int_equal(hugepin_context_destroy(ctx), -EBUSY);
	assert_int_equal(hugepin_scope_open(pool, &scope), 0);
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(2), &plan), 0);
	assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
	assert_non_null(strstr(hugepin_error(), "2 scopes or plans are open"));
	/* Refused, it works on. */
	assert_non_null(hugepin_plan_alloc(plan, 64, 0));
	assert_non_null(hugepin_scope_alloc(scope, 64, 0));
	hugepin_scope_close(scope);
	assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
	hugepin_plan_end(plan);
	assert_int_equal(hugepin_context_destroy(ctx), -EBUSY);
	end_pool(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_of_impossible_sizes_are_refused),
		TEST(groups_whose_sizes_wrap_are_refused),
		TEST(plans_refuse_impossible_sizes_under_every_policy),
		TEST(plans_cannot_begin_with_impossible_sizes),
		TEST(a_plans_blocks_are_not_reallocated_under_any_policy),
		TEST(clearing_touches_nobody_elses_bytes),
		DEVICE_TEST(what_is_no_block_is_refused_by_every_way_to_free),
		DEVICE_TEST(a_second_free_is_refused_whatever_the_first_was),
		DEVICE_TEST(streams_that_are_none_leave_the_block_in_use),
		TEST(groups_of_nothing_are_refused),
		TEST(flags_of_plans_are_refused_elsewhere),
		TEST(batches_take_a_plans_blocks_too),
		TEST(walks_and_watches_need_somebody_to_tell),
		TEST(a_growth_is_not_ended_by_a_callback_of_its_own),
		TEST(nothing_ends_before_what_it_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
