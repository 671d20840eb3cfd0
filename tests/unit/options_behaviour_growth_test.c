// SPDX-License-Identifier: MIT
/*
 * Options about how pools grow and what caps them, by what is mapped: a test is named for its option. Device pools'
 * options are tried on a pool that grows as those do.
 */
#include "pool_world.h"

/* Bytes that are mapped after each of three blocks of @bytes. */
static void grow_thrice(struct hugepin_pool *pool, uint64_t bytes, uint64_t mapped[3])
{
	char *p[3];
	int i;

	for (i = 0; i < 3; i++) {
		p[i] = take(pool, bytes);
		mapped[i] = stats_of(pool).mapped_bytes;
	}
	for (i = 0; i < 3; i++)
		give(pool, p[i]);
	hugepin_pool_trim(pool, 0);
}

static void expect_growth(struct hugepin_pool *pool, uint64_t bytes, uint64_t first, uint64_t second, uint64_t third)
{
	uint64_t mapped[3];

	grow_thrice(pool, bytes, mapped);
	assert_int_equal(mapped[0], first);
	assert_int_equal(mapped[1], second);
	assert_int_equal(mapped[2], third);
}

static void FLAGS_allocator_strategy_decides_between_chunks_and_the_need(void **state)
{
	struct hugepin_pool *pool;

	(void)state;
	pool = device_like(make_context("FLAGS_allocator_strategy", "naive_best_fit", NULL), HPI_MIB(100), HPI_MIB(100));
	expect_growth(pool, HPI_MIB(2), HPI_MIB(92), HPI_MIB(92), HPI_MIB(92));
	end_device(pool);
	pool = device_like(make_context("FLAGS_allocator_strategy", "auto_growth", NULL), HPI_MIB(100), HPI_MIB(100));
	expect_growth(pool, HPI_MIB(2), HPI_MIB(2), HPI_MIB(4), HPI_MIB(6));
	end_device(pool);
	/* Host and pinned pools work by chunks whatever it says. */
	pool = pool_of(make_context("FLAGS_allocator_strategy", "auto_growth", NULL), HUGEPIN_POOL_PINNED, HPI_MIB(100));
	expect_growth(pool, HPI_MIB(2), HPI_MIB(50), HPI_MIB(50), HPI_MIB(50));
	end_pool(pool);
}

static void FLAGS_fraction_of_cpu_memory_to_use_is_the_host_pools_chunk(void **state)
{
	struct hugepin_pool *pool;

	(void)state;
	pool = pool_of(make_context("FLAGS_fraction_of_cpu_memory_to_use", "0.1", NULL), HUGEPIN_POOL_HOST, HPI_MIB(100));
	expect_growth(pool, HPI_MIB(6), HPI_MIB(10), HPI_MIB(20), HPI_MIB(20));
	end_pool(pool);
	/* 0: no chunks. Its default, 1.0, is all there is, if that is less than 500 MB. */
	pool = pool_of(make_context("FLAGS_fraction_of_cpu_memory_to_use", "0", NULL), HUGEPIN_POOL_HOST, HPI_MIB(100));
	expect_growth(pool, HPI_MIB(6), HPI_MIB(6), HPI_MIB(12), HPI_MIB(18));
	end_pool(pool);
	pool = pool_of(make_context("FLAGS_eager_delete_scope", "true", NULL), HUGEPIN_POOL_HOST, HPI_MIB(100));
	expect_growth(pool, HPI_MIB(6), HPI_MIB(100), HPI_MIB(100), HPI_MIB(100));
	end_pool(pool);
}

static void FLAGS_initial_cpu_memory_in_mb_bounds_the_host_pools_chunk(void **state)
{
	struct hugepin_pool *pool;

	(void)state;
	pool = pool_of(make_context("FLAGS_initial_cpu_memory_in_mb", "8", NULL), HUGEPIN_POOL_HOST, HPI_GIB(2));
	expect_growth(pool, HPI_MIB(6), HPI_MIB(8), HPI_MIB(16), HPI_MIB(24));
	end_pool(pool);
	/* The smaller of the two. */
	pool = pool_of(make_context("FLAGS_initial_cpu_memory_in_mb", "80", "FLAGS_fraction_of_cpu_memory_to_use", "0.01",
				    NULL), HUGEPIN_POOL_HOST, HPI_GIB(1));
	expect_growth(pool, HPI_MIB(2), HPI_MIB(10), HPI_MIB(10), HPI_MIB(10));
	end_pool(pool);
	/* 500 without being set, where something else of Paddle's is. */
	pool = pool_of(make_context("FLAGS_eager_delete_scope", "true", NULL), HUGEPIN_POOL_HOST, HPI_GIB(2));
	expect_growth(pool, HPI_MIB(6), HPI_MIB(500), HPI_MIB(500), HPI_MIB(500));
	end_pool(pool);
}

static void FLAGS_fraction_of_cuda_pinned_memory_to_use_is_the_pinned_pools_chunk(void **state)
{
	struct hugepin_pool *pool;

	(void)state;
	pool = pool_of(make_context("FLAGS_fraction_of_cuda_pinned_memory_to_use", "0.25", NULL), HUGEPIN_POOL_PINNED,
		       HPI_MIB(40));
	expect_growth(pool, HPI_MIB(6), HPI_MIB(10), HPI_MIB(20), HPI_MIB(20));
	end_pool(pool);
	pool = pool_of(make_context("FLAGS_eager_delete_scope", "true", NULL), HUGEPIN_POOL_PINNED, HPI_MIB(40));
	expect_growth(pool, HPI_MIB(6), HPI_MIB(20), HPI_MIB(20), HPI_MIB(20));
	end_pool(pool);
}

static void FLAGS_fraction_of_gpu_memory_to_use_is_a_chunk_of_what_the_device_had_available(void **state)
{
	struct hugepin_pool *pool;
	char *p[3];

	(void)state;
	pool = device_like(make_context("FLAGS_fraction_of_gpu_memory_to_use", "0.25", NULL), HPI_MIB(100), HPI_MIB(80));
	p[0] = take(pool, HPI_MIB(16));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(20));
	there.available_bytes = HPI_MIB(60);
	p[1] = take(pool, HPI_MIB(16));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(40));
	/* C037: one more is not there, what is needed is. */
	source_2m.left = HPI_MIB(14);
	p[2] = take(pool, HPI_MIB(20));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(52));
	give(pool, p[0]);
	give(pool, p[1]);
	give(pool, p[2]);
	end_device(pool);
}

static void FLAGS_initial_gpu_memory_in_mb_is_the_first_chunk(void **state)
{
	struct hugepin_pool *pool = device_like(make_context("FLAGS_initial_gpu_memory_in_mb", "16",
							     "FLAGS_fraction_of_gpu_memory_to_use", "0.25", NULL),
						HPI_MIB(200), HPI_MIB(160));

	(void)state;
	expect_growth(pool, HPI_MIB(12), HPI_MIB(16), HPI_MIB(56), HPI_MIB(56));
	end_device(pool);
}

static void FLAGS_reallocate_gpu_memory_in_mb_is_each_later_chunk(void **state)
{
	struct hugepin_pool *pool;

	(void)state;
	pool = device_like(make_context("FLAGS_reallocate_gpu_memory_in_mb", "4", "FLAGS_initial_gpu_memory_in_mb", "16",
					NULL), HPI_MIB(200), HPI_MIB(160));
	expect_growth(pool, HPI_MIB(15), HPI_MIB(16), HPI_MIB(30), HPI_MIB(46));
	end_device(pool);
	pool = device_like(make_context("FLAGS_reallocate_gpu_memory_in_mb", "24", "FLAGS_fraction_of_gpu_memory_to_use",
					"0.1", NULL), HPI_MIB(200), HPI_MIB(160));
	expect_growth(pool, HPI_MIB(14), HPI_MIB(16), HPI_MIB(40), HPI_MIB(64));
	end_device(pool);
}

static void per_process_gpu_memory_fraction_is_taken_up_front_and_never_exceeded(void **state)
{
	struct hugepin_pool *pool;
	char *p;

	(void)state;
	pool = device_like(make_context("per_process_gpu_memory_fraction", "0.4", NULL), HPI_MIB(100), HPI_MIB(100));
	p = take(pool, 64);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(40));
	assert_null(hugepin_alloc(pool, HPI_MIB(40), 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(40));
	give(pool, p);
	end_device(pool);
	/* With allow_growth it is a cap alone. */
	pool = device_like(make_context("per_process_gpu_memory_fraction", "0.1", "allow_growth", "true", NULL),
			   HPI_MIB(100), HPI_MIB(100));
	expect_growth(pool, HPI_MIB(3), HPI_MIB(4), HPI_MIB(10), HPI_MIB(10));
	assert_null(hugepin_alloc(pool, HPI_MIB(11), 0));
	end_device(pool);
}

static void allow_growth_begins_small_and_doubles(void **state)
{
	struct hugepin_pool *pool;

	(void)state;
	pool = device_like(make_context("allow_growth", "true", NULL), HPI_MIB(400), HPI_MIB(400));
	expect_growth(pool, HPI_MIB(2), HPI_MIB(2), HPI_MIB(6), HPI_MIB(6));
	end_device(pool);
	pool = device_like(make_context("allow_growth", "false", NULL), HPI_MIB(400), HPI_MIB(400));
	expect_growth(pool, HPI_MIB(2), HPI_MIB(380), HPI_MIB(380), HPI_MIB(380));
	end_device(pool);
}

static void allocator_type_BFC_fits_best_and_coalesces(void **state)
{
	static const char *const types[] = { "", "BFC" };
	struct hugepin_pool *pool;
	char *p[5], *q;
	int i, j;

	(void)state;
	for (i = 0; i < 2; i++) {
		pool = device_like(make_context("allocator_type", types[i], "strategy", "needed", NULL), HPI_MIB(100),
				   HPI_MIB(100));
		for (j = 0; j < 5; j++)
			p[j] = take(pool, HPI_MIB(j == 1 ? 4 : 2));
		/* Holes of 4 and 2 MiB: the smaller one fits better. */
		give(pool, p[1]);
		give(pool, p[3]);
		q = take(pool, HPI_MIB(2));
		assert_ptr_equal(q, p[3]);
		/* Free neighbours are one. */
		give(pool, p[2]);
		p[1] = take(pool, HPI_MIB(6));
		assert_ptr_equal(p[1], p[0] + HPI_MIB(2));
		give(pool, p[0]);
		give(pool, p[1]);
		give(pool, q);
		give(pool, p[4]);
		assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(12));
		end_device(pool);
	}
}

static void force_gpu_compatible_serves_the_host_pool_from_pinned_memory_under_one_cap(void **state)
{
	struct hugepin_context *ctx = make_context("force_gpu_compatible", "true", "pinned_cap", "8M", "host_cap", "64M", NULL);
	struct hugepin_pool *host = pool_of(ctx, HUGEPIN_POOL_HOST, HPI_GIB(1));
	struct hugepin_pool *pinned = pool_of(ctx, HUGEPIN_POOL_PINNED, HPI_GIB(1));
	char *a = take(host, HPI_MIB(4)), *b = take(pinned, HPI_MIB(4));

	(void)state;
	assert_string_equal(segment_of_block(host, a).registered, "test");
	assert_int_equal(runtime.bytes, HPI_MIB(8));
	assert_null(hugepin_alloc(host, HPI_MIB(2), 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "over the cap of the pinned pool"));
	give(pinned, b);
	assert_int_equal(hugepin_pool_trim(pinned, 0), HPI_MIB(4));
	give(host, take(host, HPI_MIB(4)));
	give(host, a);
	assert_int_equal(hugepin_pool_destroy(pinned), 0);
	end_pool(host);
	/* Not set: a host pool has nothing to do with it. */
	host = pool_of(make_context("pinned_cap", "2M", NULL), HUGEPIN_POOL_HOST, HPI_GIB(1));
	a = take(host, HPI_MIB(4));
	assert_string_equal(segment_of_block(host, a).registered, "");
	give(host, a);
	end_pool(host);
}

static void strategy_is_for_pools_of_every_kind(void **state)
{
	static const enum hugepin_pool_kind kinds[] = { HUGEPIN_POOL_HOST, HUGEPIN_POOL_PINNED, HUGEPIN_POOL_VARIABLE };
	struct hugepin_pool *pool;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		pool = pool_of(make_context("strategy", "needed", NULL), kinds[i], HPI_MIB(100));
		expect_growth(pool, HPI_MIB(3), HPI_MIB(4), HPI_MIB(6), HPI_MIB(10));
		end_pool(pool);
		pool = pool_of(make_context("strategy", "chunks", "FLAGS_initial_cpu_memory_in_mb", "50", NULL), kinds[i],
			       HPI_MIB(100));
		expect_growth(pool, HPI_MIB(3), HPI_MIB(50), HPI_MIB(50), HPI_MIB(50));
		end_pool(pool);
		pool = pool_of(make_context("strategy", "doubling", NULL), kinds[i], HPI_MIB(100));
		expect_growth(pool, HPI_MIB(3), HPI_MIB(4), HPI_MIB(12), HPI_MIB(12));
		end_pool(pool);
	}
}

static void per_process_host_memory_fraction_caps_host_memory_and_no_devices(void **state)
{
	struct hugepin_context *ctx = make_context("per_process_host_memory_fraction", "0.5", NULL);
	struct hugepin_pool *host = pool_of(ctx, HUGEPIN_POOL_HOST, HPI_MIB(16));
	struct hugepin_pool *pinned = pool_of(ctx, HUGEPIN_POOL_PINNED, HPI_MIB(16)), *device;
	char *a = take(host, HPI_MIB(4)), *b = take(pinned, HPI_MIB(4));

	(void)state;
	assert_null(hugepin_alloc(host, 64 + HPI_MIB(2), 0));
	assert_null(hugepin_alloc(pinned, 64, 0));
	give(host, a);
	give(pinned, b);
	assert_int_equal(hugepin_pool_destroy(host), 0);
	end_pool(pinned);
	device = device_like(make_context("per_process_host_memory_fraction", "0.1", NULL), HPI_MIB(16), HPI_MIB(16));
	give(device, take(device, HPI_MIB(16)));
	end_device(device);
}

static void device_cap_is_kept_besides_the_fraction(void **state)
{
	struct hugepin_pool *pool = device_like(make_context("device_cap", "6M", "per_process_gpu_memory_fraction", "0.5",
							     NULL), HPI_MIB(100), HPI_MIB(100));

	(void)state;
	give(pool, take(pool, HPI_MIB(1)));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(6));
	assert_null(hugepin_alloc(pool, HPI_MIB(7), 0));
	end_device(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(FLAGS_allocator_strategy_decides_between_chunks_and_the_need),
		TEST(FLAGS_fraction_of_cpu_memory_to_use_is_the_host_pools_chunk),
		TEST(FLAGS_initial_cpu_memory_in_mb_bounds_the_host_pools_chunk),
		TEST(FLAGS_fraction_of_cuda_pinned_memory_to_use_is_the_pinned_pools_chunk),
		TEST(FLAGS_fraction_of_gpu_memory_to_use_is_a_chunk_of_what_the_device_had_available),
		TEST(FLAGS_initial_gpu_memory_in_mb_is_the_first_chunk),
		TEST(FLAGS_reallocate_gpu_memory_in_mb_is_each_later_chunk),
		TEST(per_process_gpu_memory_fraction_is_taken_up_front_and_never_exceeded),
		TEST(allow_growth_begins_small_and_doubles),
		TEST(allocator_type_BFC_fits_best_and_coalesces),
		TEST(force_gpu_compatible_serves_the_host_pool_from_pinned_memory_under_one_cap),
		TEST(strategy_is_for_pools_of_every_kind),
		TEST(per_process_host_memory_fraction_caps_host_memory_and_no_devices),
		TEST(device_cap_is_kept_besides_the_fraction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
