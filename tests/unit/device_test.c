// SPDX-License-Identifier: MIT
/* Devices and device pools on the stand-ins: numbers, memory that the CPU never touches, caps, pages, failures. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comma_locale.h"
#include "cuda_world.h"

static struct hugepin_context *ctx;

static int group_setup(void **state)
{
	(void)state;
	return load_world();
}

/* What is left of the world for a context of the public interface: no scope of ours around it. */
static int setup(void **state)
{
	(void)state;
	loopback.reset();
	loopback.devices(3);
	loopback.device_memory(HPI_MIB(256));
	assert_int_equal(cuCtxSetCurrent(start_device(0)), 0);
	ctx = NULL;
	return 0;
}

static int teardown(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	hpi_sys_fault = NULL;
	if (ctx)
		assert_int_equal(hugepin_context_destroy(ctx), 0);
	loopback.ledger(&ledger);
	loopback.reset();
	assert_int_equal(ledger.device_bytes, 0);
	assert_int_equal(ledger.device_mapped_bytes, 0);
	assert_int_equal(ledger.device_reserved_bytes, 0);
	assert_int_equal(ledger.streams, 0);
	return 0;
}

/* Options in pairs, to a NULL. */
static void begin(const char *runtime, ...)
{
	va_list args;

	va_start(args, runtime);
	ctx = vcontext_with(runtime, args);
	va_end(args);
}

static struct hugepin_pool *device_pool(void)
{
	struct hugepin_pool *pool;

	if (hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool))
		fail_msg("%s", hugepin_error());
	return pool;
}

static void assert_bytes(const void *device, int value, size_t bytes)
{
	char *back = malloc(bytes);

	assert_int_equal(cuMemcpyDtoH(back, (uintptr_t)device, bytes), 0);
	assert_true(back[0] == (char)value && !memcmp(back, back + 1, bytes - 1));
	free(back);
}

static void test_numbers_are_positions_in_the_visible_list(void **state)
{
	int device;

	(void)state;
	begin("cuda", "visible_device_list", "2,0", NULL);
	assert_int_equal(hpi_device_find(ctx, 0, &device), 0);
	assert_int_equal(device, 2);
	assert_int_equal(hpi_device_find(ctx, 1, &device), 0);
	assert_int_equal(device, 0);
	assert_int_equal(hpi_device_find(ctx, 2, &device), -ENODEV);
	assert_text("does not have as many");
	assert_int_equal(hpi_device_find(ctx, -1, &device), -EINVAL);
}

static void test_a_device_that_is_not_there_is_named(void **state)
{
	struct hugepin_pool *pool = NULL;
	int device;

	(void)state;
	begin("cuda", "visible_device_list", "0,5", NULL);
	assert_int_equal(hpi_device_find(ctx, 1, &device), -ENODEV);
	assert_text("device 5: runtime cuda has 3 devices");
	assert_int_equal(hugepin_pool_create_on(ctx, HUGEPIN_POOL_DEVICE, 1, &pool), -ENODEV);
	assert_int_equal(hugepin_pool_create_on(ctx, HUGEPIN_POOL_DEVICE, -1, &pool), -EINVAL);
	assert_null(pool);
}

static void test_bad_lists_are_refused(void **state)
{
	static const char *const bad[] = { "1,1", "-1", "0,,1", "a", "0,", "1 2" };
	struct hugepin_options *options;
	size_t i;

	(void)state;
	assert_int_equal(hugepin_options_create(&options), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hugepin_options_set(options, "visible_device_list", bad[i]), -EINVAL);
	hugepin_options_destroy(options);
}

static void test_memory_is_the_devices_and_told_as_such(void **state)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };
	struct loopback_ledger ledger;
	struct hugepin_pool *pool;
	void *p;

	(void)state;
	begin("cuda", NULL);
	pool = device_pool();
	loopback.ledger(&ledger);
	assert_int_equal(ledger.device_bytes, 0);
	p = hugepin_alloc(pool, HPI_MIB(3), 0);
	assert_non_null(p);
	assert_int_equal(hugepin_block_segment(pool, p, &info), 0);
	assert_int_equal(info.provider, HUGEPIN_PROVIDER_DEVICE);
	assert_int_equal(info.page_bytes, HPI_2M);
	assert_int_equal(info.fd, -1);
	assert_int_equal(info.node, -1);
	loopback.ledger(&ledger);
	assert_int_equal(ledger.device_bytes, info.bytes);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

/* The stand-in's device addresses fault when the CPU touches them: what passes here never did. */
static void test_zeroing_and_moving_are_the_runtimes(void **state)
{
	struct hugepin_pool *pool;
	char *p, *wall, *q;

	(void)state;
	begin("cuda", NULL);
	pool = device_pool();
	p = hugepin_alloc(pool, HPI_MIB(1), HUGEPIN_ALLOC_ZERO);
	assert_non_null(p);
	assert_bytes(p, 0, HPI_MIB(1));
	assert_int_equal(hpi_device_set(ctx, 0, p, 0x77, HPI_MIB(1)), 0);
	wall = hugepin_alloc(pool, HPI_MIB(1), 0);
	q = hugepin_realloc(pool, p, HPI_MIB(8));
	assert_non_null(q);
	assert_ptr_not_equal(q, p);
	assert_bytes(q, 0x77, HPI_MIB(1));
	p = hugepin_alloc(pool, HPI_MIB(1), HUGEPIN_ALLOC_ZERO);	/* where the old one was, or elsewhere */
	assert_bytes(p, 0, HPI_MIB(1));
	q = hugepin_realloc(pool, q, 0);	/* blocks of no bytes have addresses of the device too */
	assert_non_null(q);
	assert_int_equal(hugepin_free(pool, wall), 0);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_free(pool, q), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

static void test_a_share_of_the_device_is_a_hard_cap(void **state)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };
	struct hugepin_pool *pool;
	void *p;

	(void)state;
	begin("cuda", "per_process_gpu_memory_fraction", "0.25", "allow_growth", "1", NULL);
	pool = device_pool();
	p = hugepin_alloc(pool, HPI_MIB(64), 0);
	assert_non_null(p);
	assert_null(hugepin_alloc(pool, HPI_MIB(2), 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(hugepin_pool_stats_get(pool, &stats), 0);
	assert_int_equal(stats.cap_bytes, HPI_MIB(64));
	assert_int_equal(stats.mapped_bytes, HPI_MIB(64));
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

/* A kernel may still write to a block of the device's as to one of the host's. */
/* C035: the number is told as it was given, whatever the program's locale makes of it. */
static void test_a_share_of_less_than_a_page_is_refused(void **state)
{
	struct hugepin_pool *pool = NULL;
	struct tree tree;
	void *p;

	(void)state;
	comma_locale_enter(&tree);
	begin("cuda", "per_process_gpu_memory_fraction", "0.007", NULL);
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool), -EINVAL);
	comma_locale_leave(&tree);
	assert_text("per_process_gpu_memory_fraction 0.007 of 268435456 bytes, set by API: less than 2M");
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	begin("cuda", "per_process_gpu_memory_fraction", "0.0078125", NULL);
	pool = device_pool();
	p = hugepin_alloc(pool, HPI_2M, 0);
	assert_non_null(p);
	assert_null(hugepin_alloc(pool, 1, 0));
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

static void test_a_block_freed_behind_a_stream_is_not_given_again_before(void **state)
{
	struct hugepin_pool *pool;
	void *stream, *p, *q;

	(void)state;
	begin("cuda", NULL);
	pool = device_pool();
	assert_int_equal(cuStreamCreate(&stream, NON_BLOCKING), 0);
	p = hugepin_alloc(pool, HPI_MIB(64), 0);
	loopback.work(stream);
	assert_int_equal(hugepin_free_after(pool, p, &stream, 1), 0);
	q = hugepin_alloc(pool, HPI_MIB(64), 0);
	assert_non_null(q);
	assert_ptr_not_equal(q, p);
	loopback.done(stream);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	assert_ptr_equal(hugepin_alloc(pool, HPI_MIB(64), 0), p);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_free(pool, q), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
	assert_int_equal(cuStreamDestroy(stream), 0);
}

static void test_a_full_device_is_an_error_with_its_numbers(void **state)
{
	struct loopback_ledger before, after;
	struct hugepin_pool *pool;
	void *p;

	(void)state;
	begin("cuda", NULL);
	pool = device_pool();
	p = hugepin_alloc(pool, HPI_MIB(100), 0);
	loopback.ledger(&before);
	assert_null(hugepin_alloc(pool, HPI_MIB(200), 0));
	assert_int_equal(errno, ENOMEM);
	assert_text("on device 0");
	loopback.ledger(&after);
	assert_int_equal(after.device_bytes, before.device_bytes);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

static void test_a_context_of_the_program_is_needed(void **state)
{
	struct hugepin_pool *pool = NULL;
	void *p;

	(void)state;
	begin("cuda", NULL);
	assert_int_equal(hugepin_pool_create_on(ctx, HUGEPIN_POOL_DEVICE, 1, &pool), -EIO);
	assert_text("no context on device 1");
	start_device(1);
	assert_int_equal(hugepin_pool_create_on(ctx, HUGEPIN_POOL_DEVICE, 1, &pool), 0);
	p = hugepin_alloc(pool, 100, 0);
	assert_non_null(p);
	assert_int_equal(cuCtxSetCurrent(start_device(2)), 0);	/* the thread's own device does not matter */
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

static void test_runtimes_without_device_memory_say_so(void **state)
{
	struct hugepin_pool *pool = NULL;

	(void)state;
	begin("none", NULL);
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool), -ENODEV);
	assert_text("runtime none has 0 devices");
	assert_null(pool);
}

static void test_a_host_ladder_cannot_name_a_device(void **state)
{
	struct hpi_ladder ladder;

	(void)state;
	assert_int_equal(hpi_ladder_parse("device:2M", &ladder), -EINVAL);
	assert_text("is not a rung");
}

/* C016: memory on the wrong node. */
static void test_the_node_next_to_a_device_is_read_from_its_pci_address(void **state)
{
	struct tree tree;

	(void)state;
	tree_make(&tree);
	assert_int_equal(hpi_device_node(tree.root, "0000:1a:00.0"), -1);
	tree_write(&tree, "sys/bus/pci/devices/0000:1a:00.0/numa_node", "7\n");
	assert_int_equal(hpi_device_node(tree.root, "0000:1a:00.0"), 7);
	tree_write(&tree, "sys/bus/pci/devices/0000:1a:00.0/numa_node", "-1\n");
	assert_int_equal(hpi_device_node(tree.root, "0000:1a:00.0"), -1);
	assert_int_equal(hpi_device_node(tree.root, ""), -1);
	tree_remove(&tree, "");
}

static void test_host_memory_next_to_a_device_needs_that_device(void **state)
{
	struct hugepin_pool *pool = NULL;
	void *p;

	(void)state;
	begin("cuda", "node_policy", "device:9", "host_ladder", "base", NULL);
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool), -ENODEV);
	assert_text("next to device 9");
	assert_int_equal(hugepin_pool_create_on(ctx, HUGEPIN_POOL_HOST, 0, &pool), 0);
	p = hugepin_alloc(pool, 100, 0);
	assert_non_null(p);
	memset(p, 1, 100);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

/* Everything that a pool's life calls, each call failing each time: no memory is left, none is lost. */
static bool live_once(void)
{
	struct hugepin_pool *pool = NULL;
	bool whole = false;
	char *p, *q, *wall;

	if (hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool)) {
		assert_null(pool);
		return false;
	}
	p = hugepin_alloc(pool, HPI_MIB(1), HUGEPIN_ALLOC_ZERO);
	wall = hugepin_alloc(pool, HPI_MIB(1), 0);
	q = p ? hugepin_realloc(pool, p, HPI_MIB(3)) : NULL;
	if (p)
		assert_int_equal(hugepin_free(pool, q ? q : p), 0);
	assert_int_equal(hugepin_free(pool, wall), 0);
	whole = p && q && wall;
	if (hugepin_pool_destroy(pool)) {		/* refused by the runtime: it stays, to be tried again */
		loopback.fail_clear();
		assert_int_equal(hugepin_pool_destroy(pool), 0);
		whole = false;
	}
	return whole;
}

static void test_every_failure_leaves_nothing_on_the_device(void **state)
{
	static const char *const calls[] = {
		"cuCtxGetCurrent", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceTotalMem", "cuDeviceGetPCIBusId",
		"cuMemGetAllocationGranularity", "cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess",
		"cuMemUnmap", "cuMemAddressFree", "cuStreamCreate", "cuMemsetD8Async", "cuMemcpyDtoDAsync",
		"cuStreamSynchronize", "cuThreadExchangeStreamCaptureMode",
	};
	struct loopback_ledger ledger;
	unsigned int nth, failures;
	size_t i;
	bool whole;

	(void)state;
	begin("cuda", NULL);
	assert_true(live_once());
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (failures = 0, nth = 1, whole = false; nth < 60 && (!whole || nth < 12); nth++) {
			loopback.fail_nth(calls[i], nth, 999);
			whole = live_once();
			loopback.fail_clear();
			failures += !whole;
			loopback.ledger(&ledger);
			assert_int_equal(ledger.device_bytes, 0);
			assert_int_equal(ledger.device_reserved_bytes, 0);
			assert_int_equal(ledger.streams, 0);
		}
		if (!failures)
			fail_msg("no failure of %s was seen", calls[i]);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(numbers_are_positions_in_the_visible_list),
		TEST(a_device_that_is_not_there_is_named),
		TEST(bad_lists_are_refused),
		TEST(memory_is_the_devices_and_told_as_such),
		TEST(zeroing_and_moving_are_the_runtimes),
		TEST(a_share_of_the_device_is_a_hard_cap),
		TEST(a_share_of_less_than_a_page_is_refused),
		TEST(a_block_freed_behind_a_stream_is_not_given_again_before),
		TEST(a_full_device_is_an_error_with_its_numbers),
		TEST(a_context_of_the_program_is_needed),
		TEST(runtimes_without_device_memory_say_so),
		TEST(a_host_ladder_cannot_name_a_device),
		TEST(the_node_next_to_a_device_is_read_from_its_pci_address),
		TEST(host_memory_next_to_a_device_needs_that_device),
		TEST(every_failure_leaves_nothing_on_the_device),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
