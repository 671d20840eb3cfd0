// SPDX-License-Identifier: MIT
/*
 * How pools grow by strategy, and the caps that stand against it, with sources of pages and amounts of memory that the
 * test controls. A device pool's growth is tested here on a pool of another kind: the strategy does not look at it.
 */
#include <sys/wait.h>

#include "pool_world.h"

static void a_second_chunk_has_the_size_of_the_first(void **state)
{
	struct hugepin_pool *pool = pool_of(make_context("FLAGS_initial_cpu_memory_in_mb", "16", NULL),
					    HUGEPIN_POOL_HOST, HPI_GIB(1));
	char *a = take(pool, HPI_MIB(10)), *b;

	(void)state;
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(16));
	b = take(pool, HPI_MIB(10));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(32));
	assert_int_equal(stats_of(pool).segments, 2);
	give(pool, a);
	give(pool, b);
	end_pool(pool);
}

/* C017: the limit is the container's, and is read again when the pool grows. */
static void a_chunk_is_a_share_of_the_limit_as_it_is_now(void **state)
{
	struct hugepin_pool *pool = pool_of(make_context("FLAGS_fraction_of_cuda_pinned_memory_to_use", "0.5", NULL),
					    HUGEPIN_POOL_PINNED, HPI_MIB(64));
	char *a = take(pool, HPI_MIB(1)), *b;

	(void)state;
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(32));
	there.total_bytes = HPI_MIB(16);
	b = take(pool, HPI_MIB(32));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(40));
	assert_int_equal(stats_of(pool).segments, 2);
	give(pool, a);
	give(pool, b);
	end_pool(pool);
}

static void doubling_begins_at_2m_and_doubles(void **state)
{
	static const uint64_t mapped[] = { 2, 6, 14, 30 };
	struct hugepin_pool *pool = pool_of(make_context("strategy", "doubling", NULL), HUGEPIN_POOL_PINNED, HPI_GIB(1));
	char *p[16];
	size_t i, count = 0;

	(void)state;
	for (i = 0; i < 4; i++) {
		do
			p[count++] = take(pool, HPI_MIB(2));
		while (stats_of(pool).free_bytes);
		assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(mapped[i]));
		assert_int_equal(stats_of(pool).segments, i + 1);
	}
	while (count)
		give(pool, p[--count]);
	end_pool(pool);
}

static void doubling_backs_off_by_a_tenth_until_a_segment_can_be_had(void **state)
{
	struct hugepin_pool *pool = pool_of(make_context("strategy", "doubling", NULL), HUGEPIN_POOL_HOST, HPI_GIB(1));
	char *a = take(pool, HPI_MIB(200)), *b;

	(void)state;
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(256));
	source_2m.left = HPI_MIB(440);
	b = take(pool, HPI_MIB(100));
	/* 512, 460, 414 MiB, in whole pages */
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(256 + 414));
	assert_int_equal(source_2m.failed_maps, 2);
	source_2m.left = 64 * HPI_1G - HPI_MIB(256 + 414);
	give(pool, a);
	give(pool, b);
	end_pool(pool);
}

static void a_strategy_never_takes_a_pool_over_its_cap(void **state)
{
	static const char *const strategies[] = { "needed", "chunks", "doubling" };
	struct hugepin_pool *pool;
	char *a, *b;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		pool = pool_of(make_context("strategy", strategies[i], "host_cap", "11M", NULL), HUGEPIN_POOL_HOST,
			       HPI_GIB(1));
		a = take(pool, HPI_MIB(5));
		b = take(pool, HPI_MIB(4));
		assert_in_range(stats_of(pool).mapped_bytes, HPI_MIB(10), HPI_MIB(11));
		assert_null(hugepin_alloc(pool, HPI_MIB(2), 0));
		assert_int_equal(errno, ENOMEM);
		assert_in_range(stats_of(pool).mapped_bytes, HPI_MIB(10), HPI_MIB(11));
		give(pool, a);
		give(pool, b);
		end_pool(pool);
	}
}

/* Which of several options about a device pool's growth is heard. */
static void the_option_of_the_highest_source_says_how_a_device_pool_grows(void **state)
{
	static const struct {
		const char *key, *value;
		enum hpi_strategy strategy;
		bool whole;
	} rows[] = {
		{ "host_cap", "0", HPI_STRATEGY_NEEDED, false },
		{ "strategy", "doubling", HPI_STRATEGY_DOUBLING, false },
		{ "FLAGS_allocator_strategy", "naive_best_fit", HPI_STRATEGY_CHUNKS, false },
		{ "FLAGS_allocator_strategy", "auto_growth", HPI_STRATEGY_NEEDED, false },
		{ "FLAGS_eager_delete_scope", "true", HPI_STRATEGY_NEEDED, false },
		{ "FLAGS_initial_gpu_memory_in_mb", "4", HPI_STRATEGY_CHUNKS, false },
		{ "allow_growth", "true", HPI_STRATEGY_DOUBLING, false },
		{ "allow_growth", "false", HPI_STRATEGY_CHUNKS, true },
		{ "per_process_gpu_memory_fraction", "0.5", HPI_STRATEGY_CHUNKS, true },
	};
	struct hugepin_context *ctx;
	struct hpi_growth growth;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ctx = make_context(rows[i].key, rows[i].value, NULL);
		hpi_growth_device(ctx->options, &growth);
		assert_int_equal(growth.strategy, rows[i].strategy);
		assert_int_equal(growth.whole, rows[i].whole);
		assert_int_equal(hugepin_context_destroy(ctx), 0);
	}
}

static void the_whole_is_backed_off_from_where_others_have_a_part(void **state)
{
	struct hugepin_pool *pool = device_like(make_context("per_process_gpu_memory_fraction", "1.0", NULL),
						HPI_MIB(200), HPI_MIB(150));
	char *p;

	(void)state;
	p = take(pool, HPI_MIB(3));
	/* 200, 180, 162, 144: in whole pages */
	assert_in_range(stats_of(pool).mapped_bytes, HPI_MIB(140), HPI_MIB(150));
	assert_int_equal(stats_of(pool).segments, 1);
	give(pool, p);
	end_device(pool);
}

static void without_a_cap_the_whole_is_what_is_available_less_a_part_for_others(void **state)
{
	struct hugepin_pool *pool = device_like(make_context("allow_growth", "false", NULL), HPI_MIB(400), HPI_MIB(200));
	char *p = take(pool, HPI_MIB(3));

	(void)state;
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(190));
	give(pool, p);
	end_device(pool);
}

static int cannot_tell(const struct hugepin_pool *pool, struct hpi_memory *out)
{
	(void)pool;
	(void)out;
	return hpi_error(-EIO, "it cannot be told");
}

static void where_the_amount_of_memory_cannot_be_told_a_pool_takes_what_it_needs(void **state)
{
	struct hugepin_pool *pool = pool_of(make_context("strategy", "chunks", NULL), HUGEPIN_POOL_PINNED, HPI_GIB(1));
	char *p;

	(void)state;
	pool->memory = cannot_tell;
	p = take(pool, HPI_MIB(1));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(2));
	assert_string_equal(hugepin_error(), "");
	give(pool, p);
	end_pool(pool);
}

/* C002: what counts is what is mapped, not what is asked for. */
static void one_share_of_the_memory_caps_all_host_pools_of_the_process(void **state)
{
	struct hugepin_context *first = make_context("per_process_host_memory_fraction", "0.25", NULL);
	struct hugepin_context *second = make_context("per_process_host_memory_fraction", "0.25", NULL);
	struct hugepin_pool *host = pool_of(first, HUGEPIN_POOL_HOST, HPI_MIB(64));
	struct hugepin_pool *pinned = pool_of(first, HUGEPIN_POOL_PINNED, HPI_MIB(64));
	struct hugepin_pool *other = pool_of(second, HUGEPIN_POOL_VARIABLE, HPI_MIB(64));
	char *a = take(host, HPI_MIB(3)), *b = take(pinned, HPI_MIB(6)), *c = take(other, HPI_MIB(5));

	(void)state;
	/* 4 + 6 + 6 = 16 MiB mapped, though 14 are asked for. */
	assert_null(hugepin_alloc(other, HPI_MIB(2), 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "asked 2097152 bytes, this process's pools have 16777216, limit "
			       "16777216"));
	assert_int_equal(stats_of(other).mapped_bytes, HPI_MIB(6));
	give(host, a);
	assert_int_equal(hugepin_pool_trim(host, 0), HPI_MIB(4));
	a = take(other, HPI_MIB(2));
	give(other, a);
	give(pinned, b);
	give(other, c);
	assert_int_equal(hugepin_pool_destroy(host), 0);
	end_pool(pinned);
	end_pool(other);
}

static void a_refused_mapping_is_not_counted_in_the_processs_share(void **state)
{
	struct hugepin_pool *pool = pool_of(make_context("per_process_host_memory_fraction", "0.5", NULL),
					    HUGEPIN_POOL_PINNED, HPI_MIB(64));
	char *p;
	size_t i;

	(void)state;
	for (i = 0; i < 20; i++) {
		source_2m.left = i % 2 ? 64 * HPI_1G : 0;
		runtime.refuse_register = true;
		assert_null(hugepin_alloc(pool, HPI_MIB(8), 0));
	}
	runtime.refuse_register = false;
	p = take(pool, HPI_MIB(32));
	give(pool, p);
	end_pool(pool);
}

static void a_child_of_a_fork_has_a_share_of_its_own(void **state)
{
	struct hugepin_pool *pool = pool_of(make_context("per_process_host_memory_fraction", "0.5", NULL),
					    HUGEPIN_POOL_HOST, HPI_MIB(64)), *childs;
	char *p = take(pool, HPI_MIB(32));
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		childs = pool_of(make_context("per_process_host_memory_fraction", "0.5", NULL), HUGEPIN_POOL_HOST,
				 HPI_MIB(64));
		_exit(hugepin_alloc(childs, HPI_MIB(32), 0) && !hugepin_alloc(childs, 1, 0) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_null(hugepin_alloc(pool, 1, 0));
	give(pool, p);
	end_pool(pool);
}

#define GROWERS	4

static void *grow_and_shrink(void *arg)
{
	struct hugepin_pool *pool = arg;
	int i;

	for (i = 0; i < 50; i++) {
		void *p = hugepin_alloc(pool, HPI_MIB(6), 0);

		if (p) {
			hugepin_free(pool, p);
			hugepin_pool_trim(pool, 0);
		}
	}
	return NULL;
}

static void pools_that_grow_side_by_side_stay_within_the_processs_share(void **state)
{
	struct hugepin_context *ctx = make_context("per_process_host_memory_fraction", "0.25", "host_ladder", "base", NULL);
	struct hugepin_pool *pools[GROWERS];
	pthread_t threads[GROWERS];
	char *p;
	int i;

	(void)state;
	for (i = 0; i < GROWERS; i++) {
		pools[i] = make_pool(ctx, HUGEPIN_POOL_HOST);
		pools[i]->memory = memory_there;
	}
	there = (struct hpi_memory){ HPI_MIB(64), HPI_MIB(64) };
	for (i = 0; i < GROWERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, grow_and_shrink, pools[i]), 0);
	for (i = 0; i < GROWERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	/* Nothing of it is left in the count: all of the share can be had by one. */
	p = take(pools[0], HPI_MIB(16));
	give(pools[0], p);
	for (i = 0; i < GROWERS - 1; i++)
		assert_int_equal(hugepin_pool_destroy(pools[i]), 0);
	end_pool(pools[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_second_chunk_has_the_size_of_the_first),
		TEST(a_chunk_is_a_share_of_the_limit_as_it_is_now),
		TEST(doubling_begins_at_2m_and_doubles),
		TEST(doubling_backs_off_by_a_tenth_until_a_segment_can_be_had),
		TEST(a_strategy_never_takes_a_pool_over_its_cap),
		TEST(the_option_of_the_highest_source_says_how_a_device_pool_grows),
		TEST(the_whole_is_backed_off_from_where_others_have_a_part),
		TEST(without_a_cap_the_whole_is_what_is_available_less_a_part_for_others),
		TEST(where_the_amount_of_memory_cannot_be_told_a_pool_takes_what_it_needs),
		TEST(one_share_of_the_memory_caps_all_host_pools_of_the_process),
		TEST(a_refused_mapping_is_not_counted_in_the_processs_share),
		TEST(a_child_of_a_fork_has_a_share_of_its_own),
		TEST(pools_that_grow_side_by_side_stay_within_the_processs_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
