// SPDX-License-Identifier: MIT
/*
 * Options about device pools, on the stand-in of CUDA: what it says that it gave, and what is in the device's memory. A
 * test is named for its option.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda_world.h"
#include "pool.h"

#define DEVICE_MIB	256

static struct hugepin_context *ctx;
static struct hugepin_pool *pool;

static int group_setup(void **state)
{
	(void)state;
	return load_world();
}

static int setup(void **state)
{
	(void)state;
	loopback.reset();
	loopback.devices(3);
	loopback.device_memory(HPI_MIB(DEVICE_MIB));
	assert_int_equal(cuCtxSetCurrent(start_device(0)), 0);
	return 0;
}

static int teardown(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	loopback.ledger(&ledger);
	loopback.reset();
	assert_int_equal(ledger.device_bytes, 0);
	assert_int_equal(ledger.device_reserved_bytes, 0);
	return 0;
}

/* Options in pairs, to a NULL: a pool on device 0. */
static void begin(const char *key, ...)
{
	struct hugepin_options *options;
	va_list args;

	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(hugepin_options_set(options, "runtime", "cuda"), 0);
	va_start(args, key);
	for (; key; key = va_arg(args, const char *))
		assert_int_equal(hugepin_options_set(options, key, va_arg(args, const char *)), 0);
	va_end(args);
	assert_int_equal(hugepin_context_create(options, &ctx), 0);
	hugepin_options_destroy(options);
	if (hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool))
		fail_msg("%s", hugepin_error());
}

static void end(void)
{
	if (hugepin_pool_destroy(pool))
		fail_msg("%s", hugepin_error());
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

/* What the stand-in has given, as it says. */
static uint64_t given(void)
{
	struct loopback_ledger ledger;

	loopback.ledger(&ledger);
	return ledger.device_bytes;
}

static void *take(uint64_t bytes)
{
	void *p = hugepin_alloc(pool, bytes, 0);

	if (!p)
		fail_msg("%s", hugepin_error());
	return p;
}

/* Three blocks of @bytes; in MiB what the device has given after each. */
static void expect_growth(uint64_t bytes, uint64_t first, uint64_t second, uint64_t third)
{
	const uint64_t expected[3] = { first, second, third };
	void *p[3];
	int i;

	for (i = 0; i < 3; i++) {
		p[i] = take(bytes);
		assert_int_equal(given(), HPI_MIB(expected[i]));
	}
	for (i = 0; i < 3; i++)
		assert_int_equal(hugepin_free(pool, p[i]), 0);
	end();
	assert_int_equal(given(), 0);
}

static void FLAGS_allocator_strategy_is_chunks_or_the_need_on_a_device(void **state)
{
	(void)state;
	begin("FLAGS_allocator_strategy", "naive_best_fit", NULL);
	expect_growth(HPI_MIB(2), 234, 234, 234);	/* 0.92 of 256 MiB, in whole pages */
	begin("FLAGS_allocator_strategy", "auto_growth", NULL);
	expect_growth(HPI_MIB(2), 2, 4, 6);
}

static void FLAGS_fraction_of_gpu_memory_to_use_is_of_what_is_available_and_equal(void **state)
{
	(void)state;
	begin("FLAGS_fraction_of_gpu_memory_to_use", "0.25", NULL);
	expect_growth(HPI_MIB(40), 64, 128, 128);
}

static void FLAGS_initial_gpu_memory_in_mb_is_taken_first_on_a_device(void **state)
{
	(void)state;
	begin("FLAGS_initial_gpu_memory_in_mb", "16", "FLAGS_fraction_of_gpu_memory_to_use", "0.125", NULL);
	expect_growth(HPI_MIB(12), 16, 48, 48);
}

static void FLAGS_reallocate_gpu_memory_in_mb_is_taken_later_on_a_device(void **state)
{
	(void)state;
	begin("FLAGS_initial_gpu_memory_in_mb", "16", "FLAGS_reallocate_gpu_memory_in_mb", "8", NULL);
	expect_growth(HPI_MIB(12), 16, 24, 36);	/* the third lacks more than a chunk */
}

static void per_process_gpu_memory_fraction_is_all_taken_at_the_first_allocation(void **state)
{
	(void)state;
	begin("per_process_gpu_memory_fraction", "0.5", NULL);
	assert_int_equal(given(), 0);
	assert_int_equal(hugepin_free(pool, take(64)), 0);
	assert_int_equal(given(), HPI_MIB(128));
	assert_null(hugepin_alloc(pool, HPI_MIB(130), 0));
	assert_int_equal(errno, ENOMEM);
	assert_text("cap");
	end();
}

static void allow_growth_takes_little_and_doubles_on_a_device(void **state)
{
	(void)state;
	begin("allow_growth", "true", NULL);
	expect_growth(HPI_MIB(2), 2, 6, 6);
	begin("allow_growth", "false", NULL);
	expect_growth(HPI_MIB(2), 242, 242, 242);	/* 95% of what is there, in whole pages */
}

static void visible_device_list_says_whose_memory_device_0_is(void **state)
{
	struct hpi_memory memory;

	(void)state;
	start_device(2);		/* the library makes no contexts */
	begin("visible_device_list", "2,0", "allow_growth", "true", NULL);
	assert_int_equal(pool->device, 2);
	assert_int_equal(hpi_memory_device(pool, &memory), 0);
	assert_int_equal(memory.total_bytes, HPI_MIB(DEVICE_MIB));
	assert_int_equal(hugepin_free(pool, take(HPI_MIB(2))), 0);
	/* Device 2 has given it: of the first device all is there. */
	assert_int_equal(hpi_memory_device(pool, &memory), 0);
	assert_int_equal(memory.available_bytes, HPI_MIB(DEVICE_MIB - 2));
	pool->device = 0;
	assert_int_equal(hpi_memory_device(pool, &memory), 0);
	assert_int_equal(memory.available_bytes, HPI_MIB(DEVICE_MIB));
	pool->device = 2;
	end();
}

static unsigned char byte_at(const void *device, uint64_t offset)
{
	unsigned char byte;

	assert_int_equal(cuMemcpyDtoH(&byte, (uintptr_t)device + offset, 1), 0);
	return byte;
}

static void FLAGS_init_allocated_mem_is_set_by_the_runtime_on_a_device(void **state)
{
	void *p;

	(void)state;
	begin("FLAGS_init_allocated_mem", "true", NULL);
	p = take(HPI_MIB(1));
	assert_int_not_equal(byte_at(p, 0), 0);
	assert_int_equal(byte_at(p, HPI_MIB(1) - 1), byte_at(p, 0));
	assert_int_equal(hugepin_free(pool, p), 0);
	p = hugepin_alloc(pool, HPI_MIB(1), HUGEPIN_ALLOC_ZERO);
	assert_int_equal(byte_at(p, 0), 0);
	assert_int_equal(hugepin_free(pool, p), 0);
	end();
}

static void static_memory_policy_reserves_extents_on_the_device(void **state)
{
	struct hugepin_plan *plan, *second;
	char *clean, *more;

	(void)state;
	begin("static_memory_policy", "4", NULL);
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(2), &plan), 0);
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(2), &second), -EBUSY);
	assert_ptr_equal(hugepin_plan_alloc(plan, HPI_MIB(6), 0), hugepin_plan_address(plan));
	assert_int_equal(given(), HPI_MIB(6));
	clean = hugepin_plan_alloc(plan, 4096, HUGEPIN_ALLOC_CLEAN);
	more = hugepin_plan_alloc(plan, 4096, HUGEPIN_ALLOC_CLEAN);
	assert_ptr_equal(more, clean + 4096);
	assert_int_equal(hpi_device_set(ctx, pool->device, clean, 0x55, 8192), 0);
	assert_int_equal(hugepin_pool_clean(pool), 8192);
	assert_int_equal(byte_at(clean, 0), 0);
	assert_int_equal(byte_at(more, 4095), 0);
	hugepin_plan_end(plan);
	end();
}

static void atomic_clean_policy_keeps_its_blocks_together_when_one_could_not_be_cleared(void **state)
{
	static const char *const policies[] = { "0", "2", "4" };
	struct hugepin_plan *plan;
	char *p[2], *refused;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		begin("static_memory_policy", policies[i], NULL);
		assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(2), &plan), 0);
		loopback.fail_nth("cuMemsetD8Async", 1, 999);
		refused = hugepin_plan_alloc(plan, 4096, HUGEPIN_ALLOC_CLEAN);
		assert_null(refused);
		loopback.fail_clear();
		p[0] = hugepin_plan_alloc(plan, 4096, HUGEPIN_ALLOC_CLEAN);
		loopback.fail_nth("cuMemsetD8Async", 1, 999);
		assert_null(hugepin_plan_alloc(plan, 4096, HUGEPIN_ALLOC_CLEAN));
		loopback.fail_clear();
		p[1] = hugepin_plan_alloc(plan, 4096, HUGEPIN_ALLOC_CLEAN);
		assert_true(p[1] == p[0] + 4096 || p[0] == p[1] + 4096);
		assert_int_equal(hugepin_pool_clean(pool), 8192);
		hugepin_plan_end(plan);
		end();
	}
}

#define TEST(name)	cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(FLAGS_allocator_strategy_is_chunks_or_the_need_on_a_device),
		TEST(FLAGS_fraction_of_gpu_memory_to_use_is_of_what_is_available_and_equal),
		TEST(FLAGS_initial_gpu_memory_in_mb_is_taken_first_on_a_device),
		TEST(FLAGS_reallocate_gpu_memory_in_mb_is_taken_later_on_a_device),
		TEST(per_process_gpu_memory_fraction_is_all_taken_at_the_first_allocation),
		TEST(allow_growth_takes_little_and_doubles_on_a_device),
		TEST(visible_device_list_says_whose_memory_device_0_is),
		TEST(FLAGS_init_allocated_mem_is_set_by_the_runtime_on_a_device),
		TEST(atomic_clean_policy_keeps_its_blocks_together_when_one_could_not_be_cleared),
		TEST(static_memory_policy_reserves_extents_on_the_device),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
