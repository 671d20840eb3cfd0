// SPDX-License-Identifier: MIT
/* Devices of runtime cuda and their memory: what is told, mapped and set, and failures of every call. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda.h"
#include "cuda_world.h"

static const struct hpi_runtime *cuda = &hpi_runtime_cuda;

static int group_setup(void **state)
{
	(void)state;
	return load_world();
}

static int setup(void **state)
{
	(void)state;
	begin_world(2);
	return 0;
}

static int teardown(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	loopback.ledger(&ledger);
	end_world();
	assert_int_equal(ledger.device_bytes, 0);
	assert_int_equal(ledger.device_mapped_bytes, 0);
	assert_int_equal(ledger.device_reserved_bytes, 0);
	assert_int_equal(ledger.streams, 0);
	return 0;
}

static char *reserve(uint64_t bytes)
{
	void *addr;
	int code;

	assert_int_equal(cuda->memory_reserve(bytes, &addr, &code), 0);
	assert_int_equal((uintptr_t)addr % HPI_2M, 0);
	return addr;
}

static void map(char *addr, uint64_t bytes)
{
	int code;

	assert_int_equal(cuda->memory_map(0, addr, bytes, HUGEPIN_PAGES_2M, &code), 0);
}

static void unmap(char *addr, uint64_t bytes)
{
	int code;

	assert_int_equal(cuda->memory_unmap(addr, bytes, &code), 0);
}

static void release(char *addr, uint64_t bytes)
{
	int code;

	assert_int_equal(cuda->memory_release(addr, bytes, &code), 0);
}

static void test_devices_are_told_as_sysfs_names_them(void **state)
{
	struct hpi_device device;
	int code, count;

	(void)state;
	loopback.device_memory(HPI_MIB(64));
	assert_int_equal(cuda->device_count(&count, &code), 0);
	assert_int_equal(count, 2);
	assert_int_equal(cuda->device_read(0, &device, &code), 0);
	assert_int_equal(device.id, 0);
	assert_string_equal(device.pci_address, "0000:1a:00.0");
	assert_int_equal(device.total_bytes, HPI_MIB(64));
	assert_int_equal(device.free_bytes, HPI_MIB(64));
	assert_int_equal(cuda->device_read(1, &device, &code), 0);
	assert_string_equal(device.pci_address, "0000:2a:00.0");
	assert_true(device.free_bytes == UINT64_MAX);	/* no context there, and none was made */
	assert_int_equal(cuda->device_read(2, &device, &code), -ENODEV);
	assert_text("no device 2");
}

static void test_a_context_is_used_and_never_made(void **state)
{
	struct hpi_runtime_scope other;
	int code;

	(void)state;
	assert_int_equal(cuda->begin_on(&other, 0, &code), 0);
	assert_ptr_equal(other.context, scope.context);
	cuda->end(&other);
	assert_int_equal(cuda->begin_on(&other, 1, &code), -EIO);
	assert_text("no context on device 1");
	assert_int_equal(cuda->begin_on(&other, 2, &code), -EIO);
	start_device(1);
	assert_int_equal(cuda->begin_on(&other, 1, &code), 0);
	assert_ptr_not_equal(other.context, scope.context);
	assert_int_equal(other.device, 1);
	cuda->end(&other);
}

static void test_pages_come_and_go_in_reserved_space(void **state)
{
	char *addr = reserve(HPI_MIB(16));
	struct loopback_ledger ledger;
	uint64_t granule;
	int code;

	(void)state;
	assert_int_equal(cuda->memory_granule(0, &granule, &code), 0);
	assert_int_equal(granule, HPI_2M);
	map(addr, HPI_MIB(4));
	map(addr + HPI_MIB(4), HPI_MIB(2));
	loopback.ledger(&ledger);
	assert_int_equal(ledger.device_bytes, HPI_MIB(6));
	assert_int_equal(cuda->memory_unmap(addr, HPI_MIB(6), &code), -EIO);	/* only as they were mapped */
	unmap(addr, HPI_MIB(4));
	loopback.ledger(&ledger);
	assert_int_equal(ledger.device_bytes, HPI_MIB(2));
	unmap(addr + HPI_MIB(4), HPI_MIB(2));
	release(addr, HPI_MIB(16));
}

static void test_memory_is_set_and_copied_by_the_driver_across_mappings(void **state)
{
	char *addr = reserve(HPI_MIB(16)), *back = malloc(HPI_MIB(4)), *expected = malloc(HPI_MIB(4));
	void *captured, *graph;
	int code;

	(void)state;
	map(addr, HPI_2M);
	map(addr + HPI_2M, HPI_2M);
	memset(expected, 0xa5, HPI_MIB(4));
	assert_int_equal(cuStreamCreate(&captured, 0), 0);
	assert_int_equal(cuStreamBeginCapture(captured, CAPTURE_GLOBAL), 0);
	assert_int_equal(cuda->memory_set(addr, 0xa5, HPI_MIB(4), &code), 0);
	assert_int_equal(cuda->memory_set(addr + 100, 0, HPI_2M, &code), 0);
	memset(expected + 100, 0, HPI_2M);
	assert_int_equal(cuda->memory_copy(addr + HPI_2M, addr, HPI_2M, &code), 0);
	memcpy(expected + HPI_2M, expected, HPI_2M);
	assert_false(loopback.capture_broken());
	assert_int_equal(cuStreamEndCapture(captured, &graph), 0);
	assert_int_equal(cuStreamDestroy(captured), 0);
	assert_int_equal(cuMemcpyDtoH(back, (uintptr_t)addr, HPI_MIB(4)), 0);
	assert_memory_equal(back, expected, HPI_MIB(4));
	unmap(addr, HPI_2M);
	unmap(addr + HPI_2M, HPI_2M);
	release(addr, HPI_MIB(16));
	free(back);
	free(expected);
}

static void test_shortage_and_pages_it_does_not_have_are_told_apart(void **state)
{
	char *addr = reserve(HPI_MIB(64));
	int code;

	(void)state;
	loopback.device_memory(HPI_MIB(32));
	assert_int_equal(cuda->memory_map(0, addr, HPI_MIB(34), HUGEPIN_PAGES_2M, &code), -ENOMEM);
	assert_text("35651584 bytes on device 0");
	assert_int_equal(cuda->memory_map(0, addr, HPI_MIB(32), HUGEPIN_PAGES_1G, &code), -EOPNOTSUPP);
	map(addr, HPI_MIB(32));
	unmap(addr, HPI_MIB(32));
	release(addr, HPI_MIB(64));
}

static void test_every_failure_of_mapping_leaves_nothing(void **state)
{
	static const char *const calls[] = { "cuDeviceGet", "cuMemCreate", "cuMemMap", "cuMemSetAccess" };
	char *addr = reserve(HPI_MIB(8));
	struct loopback_ledger ledger;
	size_t i;
	int code;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		loopback.fail_nth(calls[i], 1, 999);
		assert_int_equal(cuda->memory_map(0, addr, HPI_2M, HUGEPIN_PAGES_2M, &code), -EIO);
		assert_int_equal(code, 999);
			loopback.ledger(&ledger);
		assert_int_equal(ledger.device_bytes, 0);
		assert_int_equal(ledger.device_mapped_bytes, 0);
	}
	release(addr, HPI_MIB(8));
}

static void test_every_failure_of_setting_leaves_no_stream(void **state)
{
	static const char *const calls[] = { "cuStreamCreate", "cuMemsetD8Async", "cuStreamSynchronize" };
	char *addr = reserve(HPI_MIB(8));
	struct loopback_ledger ledger;
	size_t i;
	int code;

	(void)state;
	map(addr, HPI_2M);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		loopback.fail_nth(calls[i], 1, 999);
		assert_int_equal(cuda->memory_set(addr, 0, HPI_2M, &code), -EIO);
		loopback.ledger(&ledger);
		assert_int_equal(ledger.streams, 0);
	}
	unmap(addr, HPI_2M);
	release(addr, HPI_MIB(8));
}

static void test_device_sees_registered_memory_where_the_driver_says(void **state)
{
	char *page = aligned_alloc(4096, 8192);
	uint64_t device = 0;
	int code;

	(void)state;
	assert_int_equal(cuda->device_pointer(page, &device, &code), -EINVAL);
	assert_int_equal(cuda->host_register(page, 8192, &code), 0);
	assert_int_equal(cuda->device_pointer(page + 100, &device, &code), 0);
	assert_int_equal(device, (uintptr_t)page + 100);
	assert_int_equal(cuda->host_unregister(page, 8192, &code), 0);
	free(page);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(devices_are_told_as_sysfs_names_them),
		TEST(a_context_is_used_and_never_made),
		TEST(pages_come_and_go_in_reserved_space),
		TEST(memory_is_set_and_copied_by_the_driver_across_mappings),
		TEST(shortage_and_pages_it_does_not_have_are_told_apart),
		TEST(every_failure_of_mapping_leaves_nothing),
		TEST(every_failure_of_setting_leaves_no_stream),
		TEST(device_sees_registered_memory_where_the_driver_says),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
