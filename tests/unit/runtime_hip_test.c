// SPDX-License-Identifier: MIT
/* Runtime hip on the stand-in: registration, the program's last error as it was, fences, devices. */
#include <pthread.h>

#include "runtime_world.h"

#define LIBRARY		"libamdhip64.so.7"
#define MEMORY_BYTES	HPI_MIB(16)

static struct hugepin_context *ctx;
static char *memory;
static const struct hpi_runtime *hip = &hpi_runtime_hip;

static void (*loopback_hip_older)(int on);
static int (*hipGetLastError)(void);
static int (*hipPeekAtLastError)(void);
static int (*hipGetDevice)(int *device);
static int (*hipSetDevice)(int device);
static int (*hipDeviceReset)(void);
static int (*hipHostRegister)(void *addr, size_t bytes, unsigned int flags);
static int (*hipHostUnregister)(void *addr);
static int (*hipStreamCreateWithFlags)(void **stream, unsigned int flags);
static int (*hipStreamBeginCapture)(void *stream, int mode);
static int (*hipStreamEndCapture)(void *stream, void **graph);

static int group_setup(void **state)
{
	static const struct runtime_call calls[] = {
		RUNTIME_CALL(loopback_hip_older),
		RUNTIME_CALL(hipGetLastError),
		RUNTIME_CALL(hipPeekAtLastError),
		RUNTIME_CALL(hipGetDevice),
		RUNTIME_CALL(hipSetDevice),
		RUNTIME_CALL(hipDeviceReset),
		RUNTIME_CALL(hipHostRegister),
		RUNTIME_CALL(hipHostUnregister),
		RUNTIME_CALL(hipStreamCreateWithFlags),
		RUNTIME_CALL(hipStreamBeginCapture),
		RUNTIME_CALL(hipStreamEndCapture),
	};

	(void)state;
	LOAD_RUNTIME(LIBRARY, calls);
	memory = map_memory(MEMORY_BYTES);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	loopback.reset();
	loopback.devices(2);
	loopback_hip_older(0);
	hipGetLastError();
	assert_int_equal(hipSetDevice(0), 0);
	ctx = context_with("hip", "register_chunk", "2M", "register_threads", "2", NULL);
	return 0;
}

static int teardown(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	hpi_sys_fault = NULL;
	loopback.ledger(&ledger);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	loopback.reset();
	assert_int_equal(ledger.live, 0);
	assert_int_equal(ledger.events, 0);
	return 0;
}

/* As a program that has made a mistake and not looked yet. */
static int leave_an_error_unread(void)
{
	int code = hipHostRegister(NULL, 0, 0);

	assert_int_not_equal(code, 0);
	assert_int_equal(hipPeekAtLastError(), code);
	return code;
}

static void test_a_range_is_registered_in_chunks_and_let_go(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, MEMORY_BYTES), 0);
	assert_true(loopback.is_registered(memory, MEMORY_BYTES));
	loopback.ledger(&ledger);
	assert_in_range(ledger.registrations, 8, 9);
	assert_int_equal(hpi_unregister_range(ctx, memory, MEMORY_BYTES), 0);
	loopback.ledger(&ledger);
	assert_int_equal(ledger.live, 0);
	assert_int_equal(ledger.misuses, 0);
}

/* C024: a registration that failed must not surface in an innocent call. */
static void test_a_failure_of_ours_is_not_the_programs_last_error(void **state)
{
	int older, unread;

	(void)state;
	for (older = 0; older <= 1; older++) {
		loopback_hip_older(older);
		loopback.fail_nth("hipHostRegister", 1, 999);
		assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), -EIO);
		assert_int_equal(hipPeekAtLastError(), 0);

		unread = leave_an_error_unread();
		loopback.fail_nth("hipHostRegister", 1, 999);
		assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), -EIO);
		assert_int_equal(hipGetLastError(), unread);
	}
}

/* Older releases overwrite it with a success, too. */
static void test_a_success_of_ours_does_not_take_the_programs_error_away(void **state)
{
	struct hpi_fence *fence;
	struct hpi_device device;
	int older, unread, code, count;

	(void)state;
	for (older = 0; older <= 1; older++) {
		loopback_hip_older(older);
		unread = leave_an_error_unread();
		assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), 0);
		assert_int_equal(hip->fence_record(NULL, &fence, &code), 0);
		assert_int_equal(hip->fence_query(fence, &code), 0);
		hip->fence_end(fence);
		assert_int_equal(hip->device_count(&count, &code), 0);
		assert_int_equal(hip->device_read(1, &device, &code), 0);
		assert_int_equal(hpi_unregister_range(ctx, memory, HPI_2M), 0);
		assert_int_equal(hipGetLastError(), unread);
	}
}

static void test_the_threads_device_stays_current(void **state)
{
	struct hpi_device device;
	struct hpi_fence *fence;
	int code, current;

	(void)state;
	assert_int_equal(hipSetDevice(1), 0);
	assert_int_equal(hip->device_read(0, &device, &code), 0);
	assert_string_equal(device.pci_address, "0000:1a:00.0");
	assert_int_equal(device.total_bytes, HPI_1G);
	assert_int_equal(hip->device_read(2, &device, &code), -ENODEV);
	assert_int_equal(hip->fence_record(HPI_STREAM_DEVICE, &fence, &code), 0);
	assert_int_equal(hip->fence_query(fence, &code), 0);
	hip->fence_end(fence);
	assert_int_equal(hipGetDevice(&current), 0);
	assert_int_equal(current, 1);
	assert_int_equal(hipPeekAtLastError(), 0);
	assert_int_equal(hipSetDevice(0), 0);
}

static void test_what_the_program_registered_is_told_apart(void **state)
{
	(void)state;
	assert_int_equal(hipHostRegister(memory + HPI_2M, HPI_2M, 0), 0);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), -EEXIST);
	assert_int_equal(hipPeekAtLastError(), 0);
	assert_int_equal(hipHostUnregister(memory + HPI_2M), 0);
}

static void test_a_limit_of_one_call_is_found(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	loopback.limit(HPI_2M);
	assert_int_equal(hpi_register_range(ctx, memory, MEMORY_BYTES), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, MEMORY_BYTES), 0);
	loopback.ledger(&ledger);
	assert_in_range(ledger.largest_bytes, 4096, HPI_2M);
	assert_int_equal(hipPeekAtLastError(), 0);
}

static void test_a_device_reset_let_the_memory_go(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), 0);
	assert_int_equal(hipDeviceReset(), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_2M), 0);
	assert_false(hpi_registry_has(ctx->registry, memory, HPI_2M));
}

/* C028 */
static void test_unregistering_while_the_runtime_shuts_down_is_quiet(void **state)
{
	struct loopback_ledger ledger;
	uint64_t live;

	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), 0);
	loopback.ledger(&ledger);
	live = ledger.live;			/* one or two, as the memory lies to the chunks */
	loopback.shutdown(1);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_2M), 0);
	loopback.ledger(&ledger);
	assert_true(live);
	assert_int_equal(ledger.live, live);	/* the driver's to end, and the stand-in's memory of it is reset */
	loopback.reset();
}

static void test_fences_wait_for_their_stream_or_for_all(void **state)
{
	struct hpi_fence *fence, *all;
	void *stream, *other;
	int code;

	(void)state;
	assert_int_equal(hipStreamCreateWithFlags(&stream, 1), 0);
	assert_int_equal(hipStreamCreateWithFlags(&other, 1), 0);
	loopback.work(stream);
	loopback.work(other);
	assert_int_equal(hip->fence_record(stream, &fence, &code), 0);
	assert_int_equal(hip->fence_record(HPI_STREAM_DEVICE, &all, &code), 0);
	assert_int_equal(hip->fence_query(fence, &code), -EBUSY);
	loopback.done(stream);
	assert_int_equal(hip->fence_query(fence, &code), 0);
	assert_int_equal(hip->fence_query(all, &code), -EBUSY);
	loopback.done(other);
	assert_int_equal(hip->fence_query(all, &code), 0);
	hip->fence_end(fence);
	hip->fence_end(all);
	assert_int_equal(hipPeekAtLastError(), 0);
}

static void test_a_capture_is_left_whole(void **state)
{
	struct hpi_fence *fence, *idle;
	void *stream, *other, *graph;
	int code;

	(void)state;
	assert_int_equal(hipStreamCreateWithFlags(&stream, 0), 0);
	assert_int_equal(hipStreamCreateWithFlags(&other, 1), 0);
	assert_int_equal(hip->fence_record(other, &idle, &code), 0);
	assert_int_equal(hipStreamBeginCapture(stream, 0), 0);
	assert_true(hip->is_capturing(stream));
	assert_int_equal(hip->fence_record(stream, &fence, &code), -EBUSY);
	assert_int_equal(hip->fence_record(HPI_STREAM_DEVICE, &fence, &code), -EBUSY);
	assert_int_equal(hip->fence_query(idle, &code), 0);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_2M), 0);
	assert_false(loopback.capture_broken());
	assert_int_equal(hipStreamEndCapture(stream, &graph), 0);
	hip->fence_end(idle);
}

static void test_a_capture_that_was_named_is_waited_for(void **state)
{
	struct hpi_fence *fence;
	void *stream, *graph;
	int code;

	(void)state;
	assert_int_equal(hipStreamCreateWithFlags(&stream, 1), 0);
	assert_int_equal(hipStreamBeginCapture(stream, 0), 0);
	assert_int_equal(hip->fence_record(stream, &fence, &code), -EBUSY);
	assert_true(hip->is_capturing(HPI_STREAM_DEVICE));
	assert_int_equal(hip->fence_record(HPI_STREAM_DEVICE, &fence, &code), -EBUSY);
	assert_int_equal(hipStreamEndCapture(stream, &graph), 0);
	assert_false(hip->is_capturing(HPI_STREAM_DEVICE));
	assert_false(loopback.capture_broken());
	assert_int_equal(hipPeekAtLastError(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_range_is_registered_in_chunks_and_let_go),
		TEST(a_failure_of_ours_is_not_the_programs_last_error),
		TEST(a_success_of_ours_does_not_take_the_programs_error_away),
		TEST(the_threads_device_stays_current),
		TEST(what_the_program_registered_is_told_apart),
		TEST(a_limit_of_one_call_is_found),
		TEST(a_device_reset_let_the_memory_go),
		TEST(unregistering_while_the_runtime_shuts_down_is_quiet),
		TEST(fences_wait_for_their_stream_or_for_all),
		TEST(a_capture_is_left_whole),
		TEST(a_capture_that_was_named_is_waited_for),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
