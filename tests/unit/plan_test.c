// SPDX-License-Identifier: MIT
/*
 * Plans and their CLEAN blocks, with sources of pages that the test controls.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "pool_world.h"

#define POOL(...)	make_pool_on(make_context(__VA_ARGS__), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL)

static struct hugepin_plan *begin(struct hugepin_pool *pool, uint64_t bytes)
{
	struct hugepin_plan *plan = NULL;

	if (hugepin_plan_begin(pool, bytes, &plan))
		print_error("%s\n", hugepin_error());
	assert_non_null(plan);
	return plan;
}

static char *plan_take(struct hugepin_plan *plan, uint64_t bytes, unsigned int flags)
{
	char *p = hugepin_plan_alloc(plan, bytes, flags);

	if (!p)
		print_error("%s\n", hugepin_error());
	assert_non_null(p);
	return p;
}

static void a_plan_without_a_policy_gives_its_blocks_back_when_it_ends(void **state)
{
	struct hugepin_pool *pool = POOL(NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(100)), *other = begin(pool, 0);
	char *a = plan_take(plan, HPI_MIB(1), 0), *b = plan_take(other, HPI_MIB(1), HUGEPIN_ALLOC_ZERO);

	(void)state;
	assert_null(hugepin_plan_address(plan));
	assert_int_equal(hugepin_plan_bytes(plan), 0);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(2));
	assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
	hugepin_plan_end(plan);
	assert_int_equal(hugepin_free(pool, a), -EINVAL);
	give(pool, b);
	hugepin_plan_end(other);
	hugepin_plan_end(NULL);
	assert_int_equal(stats_of(pool).active_blocks, 0);
	end_pool(pool);
}

static void a_fixed_extent_is_used_by_one_plan_after_the_other(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "2", NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(7)), *second;
	char *at = hugepin_plan_address(plan), *a, *b;

	(void)state;
	assert_int_equal(hugepin_plan_bytes(plan), HPI_MIB(8));
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(1), &second), -EBUSY);
	assert_non_null(strstr(hugepin_error(), "another plan is open"));
	a = plan_take(plan, HPI_MIB(5), 0);
	b = plan_take(plan, HPI_MIB(3), 0);
	assert_in_range((uintptr_t)a, (uintptr_t)at, (uintptr_t)at + HPI_MIB(3));
	assert_null(hugepin_plan_alloc(plan, 1, 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "of 8388608 in its extent 0 are free"));
	/* What is freed is used again within the plan; elsewhere in the pool nothing of it is. */
	give(pool, b);
	assert_int_equal(hugepin_free(pool, b), -EINVAL);
	assert_int_equal(hugepin_free(pool, b + 64), -EINVAL);
	assert_ptr_equal(plan_take(plan, HPI_MIB(3), 0), b);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(8));
	hugepin_plan_end(plan);
	/* A smaller one finds it, as large as it was. */
	plan = begin(pool, HPI_MIB(2));
	assert_ptr_equal(hugepin_plan_address(plan), at);
	assert_int_equal(hugepin_plan_bytes(plan), HPI_MIB(8));
	assert_int_equal(source_2m.maps, 1);
	hugepin_plan_end(plan);
	end_pool(pool);
}

static void a_fixed_extent_that_is_too_small_is_given_back_before_another_is_taken(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "1", NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(8));

	(void)state;
	plan_take(plan, HPI_MIB(8), 0);
	hugepin_plan_end(plan);
	/* Both at once would not fit. */
	source_2m.left = HPI_MIB(4);
	plan = begin(pool, HPI_MIB(12));
	assert_int_equal(hugepin_plan_bytes(plan), HPI_MIB(12));
	assert_int_equal(source_2m.unmaps, 1);
	assert_int_equal(stats_of(pool).segments, 1);
	assert_int_equal(stats_of(pool).peak_mapped_bytes, HPI_MIB(12));
	hugepin_plan_end(plan);
	/* More than there is: the old one is gone then, and nothing else has changed. */
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(14), &plan), -ENOMEM);
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	source_2m.left = 64 * HPI_1G;
	plan = begin(pool, HPI_MIB(2));
	hugepin_plan_end(plan);
	assert_int_equal(hugepin_plan_begin(pool, 0, &plan), -EINVAL);
	end_pool(pool);
}

static void a_growing_extent_grows_at_its_end_and_nothing_moves(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "3", NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(4)), *second;
	char *at = hugepin_plan_address(plan), *own = take(pool, HPI_MIB(2)), *p[8];
	size_t i;

	(void)state;
	for (i = 0; i < 8; i++) {
		p[i] = plan_take(plan, HPI_MIB(2), 0);
		assert_ptr_equal(p[i], at + i * HPI_MIB(2));
	}
	assert_int_equal(hugepin_plan_bytes(plan), HPI_MIB(16));
	/* Another one at the same time has an extent of its own. */
	second = begin(pool, HPI_MIB(2));
	assert_ptr_not_equal(hugepin_plan_address(second), at);
	plan_take(second, HPI_MIB(6), 0);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(2 + 16 + 6));
	hugepin_plan_end(plan);
	/* Kept for the next, and extended, not replaced. */
	plan = begin(pool, HPI_MIB(20));
	assert_ptr_equal(hugepin_plan_address(plan), at);
	assert_int_equal(hugepin_plan_bytes(plan), HPI_MIB(20));
	assert_int_equal(source_2m.unmaps, 0);
	/* Trimming leaves open plans alone. */
	assert_int_equal(hugepin_pool_trim(pool, 0), 0);
	hugepin_plan_end(plan);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(20));
	hugepin_plan_end(second);
	give(pool, own);
	end_pool(pool);
}

static void a_shared_growing_extent_is_for_one_plan_at_a_time(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "4", NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(4)), *second;
	char *at = hugepin_plan_address(plan);

	(void)state;
	assert_int_equal(hugepin_plan_begin(pool, 0, &second), -EBUSY);
	plan_take(plan, HPI_MIB(6), 0);
	hugepin_plan_end(plan);
	plan = begin(pool, HPI_MIB(12));
	assert_ptr_equal(hugepin_plan_address(plan), at);
	assert_int_equal(source_2m.unmaps, 0);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(12));
	hugepin_plan_end(plan);
	end_pool(pool);
}

static void extents_count_towards_the_cap_and_give_way_when_no_plan_has_them(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "3", "host_cap", "8M", NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(6));
	char *p;

	(void)state;
	assert_null(hugepin_alloc(pool, HPI_MIB(4), 0));
	assert_null(hugepin_plan_alloc(plan, HPI_MIB(9), 0));
	hugepin_plan_end(plan);
	p = take(pool, HPI_MIB(8));
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(2), &plan), -ENOMEM);
	give(pool, p);
	end_pool(pool);
}

static void a_block_of_a_plan_behind_a_fence_keeps_the_shared_extent_busy(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "2", NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(4));
	char *p = plan_take(plan, HPI_MIB(1), 0);
	struct hpi_retired *away = hpi_scope_leave(pool, p);

	(void)state;
	assert_int_equal(hpi_block_retire(pool, p, &away->bytes), 0);
	hugepin_plan_end(plan);
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(4), &plan), -EBUSY);
	assert_non_null(strstr(hugepin_error(), "1048576 bytes of the last plan still wait"));
	hpi_garbage_put(pool, away);
	plan = begin(pool, HPI_MIB(4));
	hugepin_plan_end(plan);
	end_pool(pool);
}

static bool is_zero(const char *p, uint64_t bytes)
{
	uint64_t i;

	for (i = 0; i < bytes; i++) {
		if (p[i])
			return false;
	}
	return true;
}

/* Three CLEAN blocks among others, under each layout: next to each other, and cleared in one pass with nothing else. */
static void clean_blocks_lie_next_to_each_other_and_are_cleared_in_one_pass(void **state)
{
	static const char *const policies[] = { "0", "2", "3", "4" };
	struct hugepin_pool *pool;
	struct hugepin_plan *plan;
	char *clean[3], *other[3], *low;
	size_t i, j;

	(void)state;
	for (i = 0; i < 4; i++) {
		pool = POOL("static_memory_policy", policies[i], NULL);
		plan = begin(pool, HPI_MIB(4));
		for (j = 0; j < 3; j++) {
			clean[j] = plan_take(plan, 4096, HUGEPIN_ALLOC_CLEAN);
			other[j] = plan_take(plan, 4096, 0);
			assert_true(is_zero(clean[j], 4096));
			memset(clean[j], 'c', 4096);
			memset(other[j], 'o', 4096);
		}
		low = clean[0] < clean[2] ? clean[0] : clean[2];
		assert_ptr_equal(clean[1], low + 4096);
		assert_int_equal(clean[0] < clean[2] ? clean[2] - low : clean[0] - low, 2 * 4096);
		/* Freed, it keeps its place. */
		give(pool, clean[1]);
		assert_int_equal(hugepin_free(pool, clean[1]), -EINVAL);
		assert_int_equal(hugepin_pool_clean(pool), 3 * 4096);
		assert_true(is_zero(low, 3 * 4096));
		for (j = 0; j < 3; j++)
			assert_false(is_zero(other[j], 4096));
		hugepin_plan_end(plan);
		assert_int_equal(stats_of(pool).active_blocks, 0);
		assert_int_equal(stats_of(pool).deferred_bytes, 0);
		end_pool(pool);
	}
}

static void clean_blocks_anywhere_are_cleared_one_by_one(void **state)
{
	static const char *const policies[] = { "0", "2", "3", "4" };
	struct hugepin_pool *pool;
	struct hugepin_plan *plan;
	char *a, *b, *other;
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		pool = POOL("static_memory_policy", policies[i], "atomic_clean_policy", "1",
			    "cache_cap", "0", NULL);
		plan = begin(pool, HPI_MIB(4));
		a = plan_take(plan, 4096, HUGEPIN_ALLOC_CLEAN);
		other = plan_take(plan, 4096, 0);
		b = plan_take(plan, 8192, HUGEPIN_ALLOC_CLEAN);
		memset(a, 'a', 4096);
		memset(b, 'b', 8192);
		memset(other, 'o', 4096);
		give(pool, b);
		assert_int_equal(hugepin_pool_clean(pool), 4096);
		assert_true(is_zero(a, 4096));
		assert_false(is_zero(other, 4096));
		/* Taken again, at its first use in this step: zero. */
		assert_ptr_equal(plan_take(plan, 8192, HUGEPIN_ALLOC_CLEAN), b);
		assert_true(is_zero(b, 8192));
		hugepin_plan_end(plan);
		end_pool(pool);
	}
}

static void a_full_fixed_extent_has_no_room_for_clean_blocks_either(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "2", NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(2));
	char *c = plan_take(plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN), *d;

	(void)state;
	d = plan_take(plan, HPI_MIB(1) / 2, 0);
	assert_null(hugepin_plan_alloc(plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN));
	assert_int_equal(errno, ENOMEM);
	assert_null(hugepin_plan_alloc(plan, HPI_MIB(3), HUGEPIN_ALLOC_CLEAN));
	assert_ptr_equal(plan_take(plan, HPI_MIB(1) / 2, HUGEPIN_ALLOC_CLEAN), c - HPI_MIB(1) / 2);
	assert_ptr_equal(d, hugepin_plan_address(plan));
	hugepin_plan_end(plan);
	end_pool(pool);
}

/* The rung they began on has no more pages: they go on on the next, next to each other again, and are all cleared. */
static void clean_blocks_go_on_on_the_next_rung(void **state)
{
	static const char *const policies[] = { "0", "3", "4" };
	struct hugepin_pool *pool;
	struct hugepin_plan *plan;
	char *p[5];
	size_t i, j;

	(void)state;
	for (i = 0; i < 3; i++) {
		pool = make_pool_on(make_context("static_memory_policy", policies[i], NULL), HUGEPIN_POOL_HOST, 2, &rung_2m,
				    &rung_base);
		source_2m.left = HPI_MIB(2);
		plan = begin(pool, 0);
		for (j = 0; j < 5; j++) {
			p[j] = plan_take(plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN);
			memset(p[j], 'c', HPI_MIB(1));
		}
		assert_ptr_equal(p[1], p[0] + HPI_MIB(1));
		assert_ptr_equal(p[3], p[2] + HPI_MIB(1));
		assert_ptr_equal(p[4], p[3] + HPI_MIB(1));
		assert_int_equal(segment_of_block(pool, p[1]).page_bytes, HPI_2M);
		assert_int_equal(segment_of_block(pool, p[2]).page_bytes, 4096);
		assert_int_equal(hugepin_pool_clean(pool), HPI_MIB(5));
		for (j = 0; j < 5; j++)
			assert_true(is_zero(p[j], HPI_MIB(1)));
		hugepin_plan_end(plan);
		assert_int_equal(stats_of(pool).active_blocks, 0);
		end_pool(pool);
		assert_int_equal(source_2m.left, HPI_MIB(2));
	}
	source_2m.left = 64 * HPI_1G;
}

/* Garbage stands in the way of a page behind the last CLEAN block: it goes before the block is refused, or lies apart. */
static void clean_blocks_take_the_place_of_garbage(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_tensor_gb", "1", "host_cap", "4M", "cache_cap", "0", NULL);
	struct hugepin_plan *plan = begin(pool, 0);
	char *first = plan_take(plan, HPI_MIB(2), HUGEPIN_ALLOC_CLEAN);

	(void)state;
	give(pool, take(pool, HPI_MIB(2)));
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(2));
	assert_ptr_equal(plan_take(plan, HPI_MIB(2), HUGEPIN_ALLOC_CLEAN), first + HPI_MIB(2));
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	assert_null(hugepin_plan_alloc(plan, HPI_MIB(2), HUGEPIN_ALLOC_CLEAN));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "over the cap of the host pool"));
	assert_int_equal(stats_of(pool).failed_allocs, 1);
	assert_int_equal(hugepin_pool_clean(pool), HPI_MIB(4));
	hugepin_plan_end(plan);
	end_pool(pool);
}

static unsigned int callocs, refused_calloc;

static int refuse_nth_calloc(const char *call)
{
	return !strcmp(call, "calloc") && callocs++ == refused_calloc ? ENOMEM : 0;
}

static void without_memory_for_another_run_clean_blocks_are_as_they_were(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 2, &rung_2m, &rung_base);
	struct hugepin_plan *plan = begin(pool, 0);
	unsigned int refused = 0;
	char *p = NULL;

	(void)state;
	source_2m.left = HPI_MIB(2);
	plan_take(plan, HPI_MIB(2), HUGEPIN_ALLOC_CLEAN);
	for (refused_calloc = 0; !p; refused_calloc++) {
		callocs = 0;
		hpi_sys_fault = refuse_nth_calloc;
		p = hugepin_plan_alloc(plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN);
		hpi_sys_fault = NULL;
		refused += !p;
		assert_int_equal(hugepin_pool_clean(pool), HPI_MIB(p ? 3 : 2));
		assert_int_equal(stats_of(pool).active_blocks, p ? 2 : 1);
	}
	assert_in_range(refused, 2, 8);
	hugepin_plan_end(plan);
	end_pool(pool);
	source_2m.left = 64 * HPI_1G;
}

static void what_is_not_of_a_plan_is_refused(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "3", NULL);
	struct hugepin_plan *plan;
	char *p;

	(void)state;
	assert_null(hugepin_alloc(pool, 64, HUGEPIN_ALLOC_CLEAN));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(hugepin_plan_begin(pool, UINT64_MAX, &plan), -EINVAL);
	plan = begin(pool, 0);
	assert_null(hugepin_plan_alloc(plan, 64, 1u << 7));
	assert_int_equal(errno, EINVAL);
	p = plan_take(plan, 64, 0);
	assert_null(hugepin_realloc(pool, p, 128));
	assert_int_equal(errno, EINVAL);
	assert_non_null(hugepin_plan_alloc(plan, 0, 0));
	assert_int_equal(hugepin_pool_clean(pool), 0);
	hugepin_plan_end(plan);
	end_pool(pool);
}

static int faults_until, faults_seen;

static int fail_nth(const char *call)
{
	if (strcmp(call, "calloc"))
		return 0;
	return faults_seen++ == faults_until ? ENOMEM : 0;
}

static void without_memory_a_plan_leaves_nothing_behind(void **state)
{
	static const char *const policies[] = { "0", "2", "3", "4" };
	struct hugepin_pool *pool;
	struct hugepin_plan *plan;
	int i, failures = 0, policy;

	(void)state;
	for (policy = 0; policy < 4; policy++) {
		for (i = 0; i < 30; i++) {
			pool = POOL("static_memory_policy", policies[policy], NULL);
			faults_until = i;
			faults_seen = 0;
			hpi_sys_fault = fail_nth;
			if (hugepin_plan_begin(pool, HPI_MIB(2), &plan)) {
				failures++;
			} else {
				failures += !hugepin_plan_alloc(plan, HPI_MIB(1), 0);
				failures += !hugepin_plan_alloc(plan, KIB, HUGEPIN_ALLOC_CLEAN);
				hugepin_plan_end(plan);
			}
			hpi_sys_fault = NULL;
			assert_int_equal(stats_of(pool).active_blocks, 0);
			end_pool(pool);
		}
	}
	assert_in_range(failures, 12, 119);
}

static int refuse_mmap(const char *call)
{
	return strcmp(call, "mmap") ? 0 : ENOMEM;
}

static void plans_leave_a_limited_address_space_to_the_program(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "3", NULL);
	struct hugepin_plan *plans[4];
	struct rlimit before, limit;
	uint64_t left = HPI_GIB(64);
	size_t i;

	(void)state;
	there = (struct hpi_memory){ 64 * HPI_1G, 64 * HPI_1G };
	pool->memory = memory_there;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = before;
	limit.rlim_cur = address_space_used() + left;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	for (i = 0; i < 4; i++)
		plans[i] = begin(pool, HPI_MIB(2));
	/* Each takes a quarter of what the ones before have left; and where a quarter is too little, what it needs. */
	assert_true(limit.rlim_cur - address_space_used() > left / 4);
	hugepin_plan_end(plans[0]);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(2));
	plans[0] = begin(pool, HPI_GIB(18));
	assert_true(limit.rlim_cur - address_space_used() < left / 4);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	for (i = 0; i < 4; i++)
		hugepin_plan_end(plans[i]);
	end_pool(pool);
}

static void without_address_space_there_is_no_plan(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "3", NULL);
	struct hugepin_plan *plan;

	(void)state;
	hpi_sys_fault = refuse_mmap;
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(2), &plan), -ENOMEM);
	hpi_sys_fault = NULL;
	assert_non_null(strstr(hugepin_error(), "of address space for a plan"));
	end_pool(pool);
}

static void in_a_child_of_a_fork_plans_are_refused_and_forgotten(void **state)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", "2", NULL);
	struct hugepin_plan *plan = begin(pool, HPI_MIB(2)), *other;
	int status;
	pid_t pid;

	(void)state;
	plan_take(plan, KIB, 0);
	pid = fork();
	if (!pid) {
		int bad = hugepin_plan_alloc(plan, 1, 0) != NULL || errno != EPERM;

		bad |= hugepin_plan_begin(pool, 1, &other) != -EPERM || hugepin_pool_clean(pool) != -EPERM;
		hugepin_plan_end(plan);
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	hugepin_plan_end(plan);
	end_pool(pool);
}

#define WORKERS	4

static void *run_plans(void *arg)
{
	struct hugepin_pool *pool = arg;
	struct hugepin_plan *plan;
	void *p, *q;
	int i;

	for (i = 0; i < 60; i++) {
		if (hugepin_plan_begin(pool, HPI_MIB(2), &plan))
			return arg;
		p = hugepin_plan_alloc(plan, HPI_MIB(3), 0);
		q = hugepin_plan_alloc(plan, 4096, HUGEPIN_ALLOC_CLEAN);
		if (!p || !q || hugepin_free(pool, p) || hugepin_pool_clean(pool) < 0)
			return arg;
		hugepin_plan_end(plan);
		if (i % 8 == 0)
			hugepin_pool_trim(pool, 0);
	}
	return NULL;
}

static void threads_have_plans_of_one_pool_side_by_side(void **state)
{
	struct hugepin_pool *pool = make_pool(make_context("static_memory_policy", "3", "host_ladder", "base", NULL),
					      HUGEPIN_POOL_HOST);
	pthread_t threads[WORKERS];
	void *failed;
	int i;

	(void)state;
	for (i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_plans, pool), 0);
	for (i = 0; i < WORKERS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(stats_of(pool).active_blocks, 0);
	end_pool(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_plan_without_a_policy_gives_its_blocks_back_when_it_ends),
		TEST(a_fixed_extent_is_used_by_one_plan_after_the_other),
		TEST(a_fixed_extent_that_is_too_small_is_given_back_before_another_is_taken),
		TEST(a_growing_extent_grows_at_its_end_and_nothing_moves),
		TEST(a_shared_growing_extent_is_for_one_plan_at_a_time),
		TEST(extents_count_towards_the_cap_and_give_way_when_no_plan_has_them),
		TEST(a_block_of_a_plan_behind_a_fence_keeps_the_shared_extent_busy),
		TEST(clean_blocks_lie_next_to_each_other_and_are_cleared_in_one_pass),
		TEST(clean_blocks_anywhere_are_cleared_one_by_one),
		TEST(a_full_fixed_extent_has_no_room_for_clean_blocks_either),
		TEST(clean_blocks_go_on_on_the_next_rung),
		TEST(clean_blocks_take_the_place_of_garbage),
		TEST(without_memory_for_another_run_clean_blocks_are_as_they_were),
		TEST(what_is_not_of_a_plan_is_refused),
		TEST(without_memory_a_plan_leaves_nothing_behind),
		TEST(plans_leave_a_limited_address_space_to_the_program),
		TEST(without_address_space_there_is_no_plan),
		TEST(in_a_child_of_a_fork_plans_are_refused_and_forgotten),
		TEST(threads_have_plans_of_one_pool_side_by_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
