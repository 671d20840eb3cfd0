// SPDX-License-Identifier: MIT
/*
 * Batches, usable bytes and blocks of one size: all or nothing, refused when wrong, and never the same block twice.
 */
#include "pool_world.h"

static struct hugepin_pool *small_pool(void)
{
	return make_pool_on(make_context("host_cap", "8M", NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
}

static void what_may_be_used_of_a_block_is_kept_when_it_moves(void **state)
{
	static const uint64_t sizes[] = { 1, 100, 1000, 5000, 8192, 8193, 70001 };
	struct hugepin_pool *pool = small_pool();
	uint64_t usable, i, k;
	char *p;

	(void)state;
	for (i = 0; i < 7; i++) {
		p = take(pool, sizes[i]);
		usable = hugepin_usable_bytes(pool, p);
		assert_in_range(usable, sizes[i], sizes[i] + sizes[i] / 8 + 63);
		assert_int_equal(stats_of(pool).requested_bytes, usable);
		memset(p, 'x', usable);
		p = hugepin_realloc(pool, p, 3 * usable);
		assert_non_null(p);
		for (k = 0; k < usable; k++)
			assert_int_equal(p[k], 'x');
		give(pool, p);
		assert_int_equal(hugepin_usable_bytes(pool, p), 0);
		assert_non_null(strstr(hugepin_error(), "not a block"));
	}
	p = take(pool, 0);
	assert_int_equal(hugepin_usable_bytes(pool, p), 0);
	give(pool, p);
	end_pool(pool);
}

static void a_batch_is_taken_whole_or_not_at_all(void **state)
{
	struct hugepin_pool *pool = small_pool();
	struct hugepin_pool_stats before;
	void *p[100] = { NULL };
	size_t i;

	(void)state;
	assert_int_equal(hugepin_alloc_batch(pool, 3000, 100, HUGEPIN_ALLOC_ZERO, p), 0);
	for (i = 0; i < 100; i++) {
		assert_int_equal(((char *)p[i])[2999], 0);
		memset(p[i], (int)i, 3000);
	}
	for (i = 0; i < 100; i++)
		assert_int_equal(((unsigned char *)p[i])[2999], i);
	assert_int_equal(hugepin_free_batch(pool, p, 100), 0);
	before = stats_of(pool);
	memset(p, 0, sizeof(p));
	assert_int_equal(hugepin_alloc_batch(pool, 100000, 100, 0, p), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "of a batch of 100"));
	assert_null(p[0]);
	assert_int_equal(stats_of(pool).active_bytes, before.active_bytes);
	assert_int_equal(hugepin_alloc_batch(pool, 100, 0, 0, p), 0);
	assert_int_equal(hugepin_alloc_batch(pool, 100, 1, 1u << 30, p), -EINVAL);
	end_pool(pool);
}

static void a_batch_with_a_wrong_address_frees_nothing(void **state)
{
	struct hugepin_pool *pool = small_pool();
	void *p[10], *good;

	(void)state;
	assert_int_equal(hugepin_alloc_batch(pool, 500, 10, 0, p), 0);
	good = p[7];
	p[7] = p[3];
	assert_int_equal(hugepin_free_batch(pool, p, 10), -EINVAL);
	assert_non_null(strstr(hugepin_error(), "twice"));
	p[7] = (char *)good + 64;
	assert_int_equal(hugepin_free_batch(pool, p, 10), -EINVAL);
	p[7] = NULL;
	assert_int_equal(hugepin_free_batch(pool, p, 10), -EINVAL);
	assert_int_equal(stats_of(pool).active_blocks, 10);
	p[7] = good;
	assert_int_equal(hugepin_free_batch(pool, p, 10), 0);
	assert_int_equal(hugepin_free_batch(pool, p, 10), -EINVAL);
	assert_int_equal(hugepin_free_batch(pool, p, 0), 0);
	end_pool(pool);
}

static void no_block_of_one_size_is_the_pools(void **state)
{
	static const uint64_t sizes[] = { 64, 4096, HPI_2M };	/* all together: small, kept by caches, large */
	struct hugepin_pool *pool = small_pool();
	struct hugepin_blocks *blocks;
	void *p[4], *other;
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (k = 0; k < 40; k++)	/* by now a thread's cache keeps such blocks */
			hugepin_free(pool, hugepin_alloc(pool, 4 * sizes[i], 0));
		assert_int_equal(hugepin_blocks_create(pool, sizes[i], 4, &blocks), 0);
		assert_int_equal(hugepin_blocks_take(blocks, 4, p), 0);
		for (k = 0; k < 4; k++) {
			assert_int_equal(hugepin_free(pool, p[k]), -EINVAL);
			assert_int_equal(hugepin_free_after(pool, p[k], NULL, 0), -EINVAL);
			assert_int_equal(hugepin_free_batch(pool, &p[k], 1), -EINVAL);
			assert_null(hugepin_realloc(pool, p[k], 100));
			assert_null(hugepin_realloc(pool, p[k], 0));
			assert_int_equal(hugepin_usable_bytes(pool, p[k]), 0);
		}
		assert_int_equal(stats_of(pool).active_blocks, 1);
		other = hugepin_alloc(pool, 4 * sizes[i], 0);
		for (k = 0; k < 4; k++)
			assert_ptr_not_equal(other, p[k]);
		assert_int_equal(hugepin_free(pool, other), 0);
		assert_int_equal(hugepin_blocks_give(blocks, 4, p), 0);
		assert_int_equal(hugepin_blocks_destroy(blocks), 0);
		assert_int_equal(stats_of(pool).active_blocks, 0);
	}
	end_pool(pool);
}

static struct hugepin_blocks_stats blocks_stats(struct hugepin_blocks *blocks)
{
	struct hugepin_blocks_stats stats = { .size = sizeof(stats) };

	assert_int_equal(hugepin_blocks_stats(blocks, &stats), 0);
	return stats;
}

static void blocks_of_one_size_are_each_given_out_once(void **state)
{
	struct hugepin_pool *pool = small_pool();
	struct hugepin_blocks *blocks;
	char *p[1000];
	size_t i;

	(void)state;
	assert_int_equal(hugepin_blocks_create(pool, 1000, 1000, &blocks), 0);
	assert_int_equal(blocks_stats(blocks).block_bytes, 1024);
	assert_int_equal(hugepin_blocks_take(blocks, 400, (void **)p), 0);
	assert_int_equal(hugepin_blocks_take(blocks, 601, (void **)p + 400), -ENOMEM);
	assert_int_equal(blocks_stats(blocks).free, 600);
	assert_int_equal(hugepin_blocks_take(blocks, 600, (void **)p + 400), 0);
	for (i = 0; i < 1000; i++)
		memset(p[i], (int)i, 1000);
	for (i = 0; i < 1000; i++)
		assert_int_equal((unsigned char)p[i][999], i % 256);
	assert_int_equal(hugepin_blocks_destroy(blocks), -EBUSY);
	assert_int_equal(hugepin_blocks_give(blocks, 1000, (void **)p), 0);
	assert_int_equal(hugepin_blocks_destroy(blocks), 0);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	end_pool(pool);
}

static void a_wrong_block_of_one_size_gives_none_back(void **state)
{
	struct hugepin_pool *pool = small_pool();
	struct hugepin_blocks *blocks;
	char *p[8], *good;

	(void)state;
	assert_int_equal(hugepin_blocks_create(pool, 64, 64, &blocks), 0);
	assert_int_equal(hugepin_blocks_take(blocks, 8, (void **)p), 0);
	good = p[5];
	p[5] = p[2];
	assert_int_equal(hugepin_blocks_give(blocks, 8, (void **)p), -EINVAL);
	p[5] = good + 1;
	assert_int_equal(hugepin_blocks_give(blocks, 8, (void **)p), -EINVAL);
	p[5] = p[0] + 64 * 64;
	assert_int_equal(hugepin_blocks_give(blocks, 8, (void **)p), -EINVAL);
	assert_int_equal(blocks_stats(blocks).free, 56);
	p[5] = good;
	assert_int_equal(hugepin_blocks_give(blocks, 8, (void **)p), 0);
	assert_int_equal(hugepin_blocks_give(blocks, 1, (void **)p), -EINVAL);
	assert_int_equal(blocks_stats(blocks).free, 64);
	assert_int_equal(hugepin_blocks_destroy(blocks), 0);
	end_pool(pool);
}

static int calls_until_failure;

static int fail_one_calloc(const char *call)
{
	return strcmp(call, "calloc") || calls_until_failure-- ? 0 : ENOMEM;
}

static void sizes_that_cannot_be_and_missing_memory_are_refused_whole(void **state)
{
	struct hugepin_pool *pool = small_pool();
	struct hugepin_blocks *blocks = NULL;
	void *p[4];
	int i;

	(void)state;
	assert_int_equal(hugepin_blocks_create(pool, 0, 1, &blocks), -EINVAL);
	assert_int_equal(hugepin_blocks_create(pool, 1, 0, &blocks), -EINVAL);
	assert_int_equal(hugepin_blocks_create(pool, UINT64_MAX, 1, &blocks), -EINVAL);
	assert_int_equal(hugepin_blocks_create(pool, 1ull << 40, UINT32_MAX, &blocks), -EINVAL);
	assert_int_equal(hugepin_blocks_create(pool, HPI_MIB(1), 9, &blocks), -ENOMEM);
	give(pool, take(pool, 100));
	for (i = 0; i < 3; i++) {
		calls_until_failure = i;
		hpi_sys_fault = fail_one_calloc;
		assert_int_equal(hugepin_blocks_create(pool, 64, 64, &blocks), -ENOMEM);
		hpi_sys_fault = NULL;
		assert_int_equal(stats_of(pool).active_bytes, 0);
	}
	hpi_sys_fault = fail_one_calloc;
	calls_until_failure = 0;
	assert_int_equal(hugepin_alloc_batch(pool, 64, 4, 0, p), -ENOMEM);
	hpi_sys_fault = NULL;
	assert_null(blocks);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	end_pool(pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(what_may_be_used_of_a_block_is_kept_when_it_moves),
		TEST(a_batch_is_taken_whole_or_not_at_all),
		TEST(a_batch_with_a_wrong_address_frees_nothing),
		TEST(no_block_of_one_size_is_the_pools),
		TEST(blocks_of_one_size_are_each_given_out_once),
		TEST(a_wrong_block_of_one_size_gives_none_back),
		TEST(sizes_that_cannot_be_and_missing_memory_are_refused_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
