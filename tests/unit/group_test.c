// SPDX-License-Identifier: MIT
/*
 * Groups of parameters: what lies next to what, and that nothing is left behind.
 */
#include "pool_world.h"

#define COUNT	7

static const uint64_t sizes[COUNT] = { 1000, HPI_MIB(1), 64, 300, HPI_MIB(2), 1, 4096 };

/* The parameters that do not lie right behind the one before, by bit. */
static unsigned int groups_of(void *const p[], size_t count)
{
	unsigned int first = 1;
	size_t i;

	for (i = 1; i < count; i++) {
		if ((char *)p[i] != (char *)p[i - 1] + hpi_round_up(sizes[i - 1], 64))
			first |= 1u << i;
	}
	return first;
}

static void blocks_of_a_group_are_back_to_back_and_freed_each_by_itself(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	void *p[COUNT];
	size_t i;

	(void)state;
	assert_int_equal(hugepin_group_alloc(pool, sizes, COUNT, HUGEPIN_ALLOC_ZERO, p), 0);
	assert_int_equal(groups_of(p, COUNT), 1);
	assert_int_equal(stats_of(pool).active_blocks, COUNT);
	for (i = 0; i < COUNT; i++) {
		assert_int_equal(((char *)p[i])[0], 0);
		memset(p[i], (int)i + 1, sizes[i]);
	}
	give(pool, p[3]);
	assert_int_equal(hugepin_free(pool, p[3]), -EINVAL);
	assert_int_equal(((char *)p[2])[63], 3);
	assert_int_equal(((char *)p[4])[0], 5);
	assert_ptr_equal(hugepin_realloc(pool, p[6], 8192), p[6]);
	for (i = 0; i < COUNT; i++) {
		if (i != 3)
			give(pool, p[i]);
	}
	assert_int_equal(stats_of(pool).allocs, stats_of(pool).frees);
	/* Whole again. */
	assert_ptr_equal(take(pool, HPI_MIB(4)), p[0]);
	give(pool, p[0]);
	end_pool(pool);
}

static void malformed_groups_are_refused_whole(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	static const uint64_t with_zero[] = { 64, 0 }, too_much[] = { INT64_MAX, 64 };
	void *p[COUNT];

	(void)state;
	assert_int_equal(hugepin_group_alloc(pool, sizes, 0, 0, p), -EINVAL);
	assert_int_equal(hugepin_group_alloc(pool, with_zero, 2, 0, p), -EINVAL);
	assert_string_equal(hugepin_error(), "parameter 1 of 2 has 0 bytes");
	assert_int_equal(hugepin_group_alloc(pool, too_much, 2, 0, p), -EINVAL);
	assert_int_equal(hugepin_group_alloc(pool, sizes, COUNT, HUGEPIN_ALLOC_CLEAN, p), -EINVAL);
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	end_pool(pool);
}

static void groups_that_do_not_all_fit_are_not_given(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context("FLAGS_fuse_parameter_groups_size", "1", "host_cap", "2M",
							      "strategy", "needed", NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	void *p[COUNT];

	(void)state;
	assert_int_equal(hugepin_group_alloc(pool, sizes, COUNT, 0, p), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "over the cap of the host pool"));
	assert_int_equal(stats_of(pool).active_blocks, 0);
	assert_int_equal(stats_of(pool).failed_allocs, 1);
	assert_int_equal(stats_of(pool).frees, stats_of(pool).allocs);
	end_pool(pool);
}

static int faults_until, faults_seen;

static int fail_nth(const char *call)
{
	if (strcmp(call, "calloc"))
		return 0;
	return faults_seen++ == faults_until ? ENOMEM : 0;
}

static void without_memory_for_the_books_nothing_is_given(void **state)
{
	enum { MANY = 600 };
	static uint64_t many[MANY];
	static void *p[MANY];
	int i, failures = 0;

	(void)state;
	for (i = 0; i < MANY; i++)
		many[i] = 128;
	for (i = 0; i < 16; i++) {
		struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);

		faults_until = i;
		faults_seen = 0;
		hpi_sys_fault = fail_nth;
		if (hugepin_group_alloc(pool, many, MANY, 0, p)) {
			failures++;
			assert_int_equal(stats_of(pool).active_blocks, 0);
		}
		hpi_sys_fault = NULL;
		while (stats_of(pool).active_blocks)
			give(pool, p[stats_of(pool).active_blocks - 1]);
		end_pool(pool);
	}
	assert_in_range(failures, 3, 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_of_a_group_are_back_to_back_and_freed_each_by_itself),
		TEST(malformed_groups_are_refused_whole),
		TEST(groups_that_do_not_all_fit_are_not_given),
		TEST(without_memory_for_the_books_nothing_is_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
