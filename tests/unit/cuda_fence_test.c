// SPDX-License-Identifier: MIT
/* Fences of runtime cuda: what they wait for, what they leave alone, captures, failures of every call. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cuda.h"
#include "cuda_world.h"

static const struct hpi_runtime *cuda = &hpi_runtime_cuda;
static CUresult (*ctx_record_event)(CUcontext ctx, CUevent event);

static int group_setup(void **state)
{
	(void)state;
	if (load_world())
		return -1;
	ctx_record_event = hpi_cu.ctx_record_event;
	return 0;
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
	hpi_cu.ctx_record_event = ctx_record_event;
	end_world();
	assert_int_equal(ledger.events, 0);
	return 0;
}

static void *stream(unsigned int flags)
{
	void *made;

	assert_int_equal(cuStreamCreate(&made, flags), 0);
	return made;
}

static struct hpi_fence *record(void *behind)
{
	struct hpi_fence *fence = NULL;
	int code = 77, err = cuda->fence_record(behind, &fence, &code);

	if (err)
		fail_msg("recording: %d, %s", err, hugepin_error());
	return fence;
}

static void assert_query(struct hpi_fence *fence, int expected)
{
	int code;

	assert_int_equal(cuda->fence_query(fence, &code), expected);
}

static void assert_record_fails(void *behind, int expected)
{
	struct hpi_fence *fence = (void *)&scope;
	int code;

	assert_int_equal(cuda->fence_record(behind, &fence, &code), expected);
	assert_ptr_equal(fence, &scope);
}

static void test_fence_behind_a_stream_waits_for_its_work_and_no_other(void **state)
{
	void *a = stream(NON_BLOCKING), *b = stream(NON_BLOCKING);
	struct hpi_fence *fence;

	(void)state;
	loopback.work(a);
	loopback.work(b);
	fence = record(a);
	assert_query(fence, -EBUSY);
	loopback.done(b);
	assert_query(fence, -EBUSY);
	loopback.done(a);
	loopback.work(a);		/* later work does not matter */
	assert_query(fence, 0);
	cuda->fence_end(fence);
}

static void test_fence_behind_the_legacy_stream_misses_non_blocking_ones(void **state)
{
	void *a = stream(0), *b = stream(NON_BLOCKING);
	struct hpi_fence *fence;

	(void)state;
	loopback.work(a);
	loopback.work(b);
	fence = record(NULL);
	assert_query(fence, -EBUSY);
	loopback.done(a);
	assert_query(fence, 0);		/* which is why nobody else is served by it */
	cuda->fence_end(fence);
}

static void assert_waits_for_everything(void)
{
	void *blocking = stream(0), *other = stream(NON_BLOCKING), *elsewhere;
	struct hpi_fence *fence;

	assert_int_equal(cuCtxSetCurrent(start_device(1)), 0);
	elsewhere = stream(NON_BLOCKING);
	assert_int_equal(cuCtxSetCurrent(start_device(0)), 0);
	loopback.work(blocking);
	loopback.work(other);
	loopback.work(elsewhere);
	fence = record(HPI_STREAM_DEVICE);
	loopback.done(blocking);
	assert_query(fence, -EBUSY);
	loopback.done(other);
	assert_query(fence, -EBUSY);
	loopback.done(elsewhere);
	assert_query(fence, 0);
	cuda->fence_end(fence);
}

static void test_fence_over_the_devices_waits_for_every_stream_of_every_context(void **state)
{
	(void)state;
	assert_waits_for_everything();
}

static void test_an_older_driver_synchronises_instead(void **state)
{
	(void)state;
	hpi_cu.ctx_record_event = NULL;
	assert_waits_for_everything();
}

static void test_stream_of_another_device_is_recorded_in_its_context(void **state)
{
	struct hpi_fence *fence;
	void *elsewhere;

	(void)state;
	assert_int_equal(cuCtxSetCurrent(start_device(1)), 0);
	elsewhere = stream(0);
	assert_int_equal(cuCtxSetCurrent(start_device(0)), 0);
	loopback.work(elsewhere);
	fence = record(elsewhere);
	assert_query(fence, -EBUSY);
	loopback.done(elsewhere);
	assert_query(fence, 0);
	cuda->fence_end(fence);
}

static void test_nothing_becomes_part_of_a_capture_or_breaks_it(void **state)
{
	void *captured = stream(0), *idle = stream(NON_BLOCKING), *graph;
	struct hpi_fence *fence = record(idle), *older;

	(void)state;
	hpi_cu.ctx_record_event = NULL;
	older = record(HPI_STREAM_DEVICE);
	hpi_cu.ctx_record_event = ctx_record_event;
	assert_false(cuda->is_capturing(HPI_STREAM_DEVICE));
	assert_int_equal(cuStreamBeginCapture(captured, CAPTURE_GLOBAL), 0);
	assert_true(cuda->is_capturing(captured));
	assert_true(cuda->is_capturing(HPI_STREAM_DEVICE));
	assert_false(cuda->is_capturing(idle));
	assert_record_fails(captured, -EBUSY);
	assert_record_fails(HPI_STREAM_DEVICE, -EBUSY);
	assert_query(fence, 0);
	assert_query(older, -EBUSY);
	assert_false(loopback.capture_broken());
	assert_int_equal(cuStreamEndCapture(captured, &graph), 0);
	assert_non_null(graph);
	assert_query(older, 0);
	cuda->fence_end(older);
	cuda->fence_end(fence);
}

/* A free that named the stream is why: nothing else tells of a non-blocking one. */
static void test_a_capture_that_was_named_is_waited_for(void **state)
{
	void *captured = stream(NON_BLOCKING), *graph;
	struct hpi_fence *fence;

	(void)state;
	assert_int_equal(cuStreamBeginCapture(captured, CAPTURE_GLOBAL), 0);
	assert_record_fails(captured, -EBUSY);
	assert_true(cuda->is_capturing(HPI_STREAM_DEVICE));
	assert_record_fails(HPI_STREAM_DEVICE, -EBUSY);
	assert_int_equal(cuStreamEndCapture(captured, &graph), 0);
	assert_non_null(graph);
	fence = record(HPI_STREAM_DEVICE);
	assert_query(fence, 0);
	cuda->fence_end(fence);
	assert_int_equal(cuStreamDestroy(captured), 0);
	assert_false(cuda->is_capturing(HPI_STREAM_DEVICE));
}

static char log_line[512];

static void keep_log(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	strncpy(log_line, line, sizeof(log_line) - 1);
}

/* Nothing tells of it; waiting on is then all that is left, and saying so. */
static void test_a_capture_that_cannot_be_seen_is_told_of(void **state)
{
	void *captured = stream(NON_BLOCKING), *graph;
	struct hpi_fence *fence;

	(void)state;
	assert_int_equal(cuStreamBeginCapture(captured, CAPTURE_GLOBAL), 0);
	hugepin_log_set(keep_log, NULL, HUGEPIN_LOG_WARNING);
	assert_record_fails(HPI_STREAM_DEVICE, -EBUSY);
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_ERROR);
	assert_non_null(strstr(log_line, "the capture is broken"));
	assert_int_equal(cuStreamEndCapture(captured, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	fence = record(HPI_STREAM_DEVICE);
	assert_query(fence, 0);
	cuda->fence_end(fence);
}

static void test_what_is_no_stream_is_refused(void **state)
{
	void *gone = stream(0);

	(void)state;
	assert_int_equal(cuStreamDestroy(gone), 0);
	assert_record_fails(gone, -EINVAL);
	assert_text("not a stream");
}

static void test_fence_of_an_exiting_program_has_passed(void **state)
{
	void *a = stream(0);
	struct hpi_fence *fence;

	(void)state;
	loopback.work(a);
	fence = record(a);
	loopback.shutdown(1);
	assert_query(fence, 0);
	loopback.shutdown(0);
	cuda->fence_end(fence);
}

static void test_device_in_error_is_not_a_fence_that_passed(void **state)
{
	struct hpi_fence *fence = record(NULL);

	(void)state;
	loopback.fail_nth("cuEventQuery", 1, 719);
	assert_query(fence, -EIO);
	assert_text("719");
	cuda->fence_end(fence);
}

/* Each call, each time it is made: no event is left behind. */
static void test_every_failure_leaves_nothing(void **state)
{
	static const char *const calls[] = {
		"cuCtxGetCurrent", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxGetState",
		"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuStreamGetCtx", "cuEventCreate", "cuEventRecord",
		"cuCtxRecordEvent",
	};
	void *behind[] = { stream(0), HPI_STREAM_DEVICE };
	struct loopback_ledger ledger;
	struct hpi_fence *fence;
	unsigned int nth, failed;
	size_t call, kind;
	int code, err;

	(void)state;
	start_device(1);
	for (call = 0; call < sizeof(calls) / sizeof(calls[0]); call++) {
		for (failed = 0, kind = 0; kind < 2; kind++) {
			for (nth = 1, err = -EIO; err; nth++) {
				loopback.fail_nth(calls[call], nth, CUDA_ERROR_OUT_OF_MEMORY);
				err = cuda->fence_record(behind[kind], &fence, &code);
				loopback.fail_clear();
				if (err) {
					failed++;
					assert_true(err == -EIO || err == -ENOMEM);
					loopback.ledger(&ledger);
					assert_int_equal(ledger.events, 0);
				} else {
					assert_query(fence, 0);
					cuda->fence_end(fence);
				}
				assert_in_range(nth, 1, 20);
			}
		}
		assert_in_range(failed, 1, 20);
	}
}

static int no_memory(const char *call)
{
	return strcmp(call, "malloc") ? 0 : ENOMEM;
}

static void test_no_memory_is_said_with_nothing_recorded(void **state)
{
	(void)state;
	hpi_sys_fault = no_memory;
	assert_record_fails(HPI_STREAM_DEVICE, -ENOMEM);
	hpi_sys_fault = NULL;
}

static void test_without_an_accelerator_fences_pass_at_once(void **state)
{
	const struct hpi_runtime *none = &hpi_runtime_none;
	struct hpi_fence *fence;
	int code;

	(void)state;
	assert_int_equal(none->fence_record(HPI_STREAM_DEVICE, &fence, &code), 0);
	assert_int_equal(none->fence_query(fence, &code), 0);
	none->fence_end(fence);
	assert_false(none->is_capturing(NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fence_behind_a_stream_waits_for_its_work_and_no_other),
		TEST(fence_behind_the_legacy_stream_misses_non_blocking_ones),
		TEST(fence_over_the_devices_waits_for_every_stream_of_every_context),
		TEST(an_older_driver_synchronises_instead),
		TEST(stream_of_another_device_is_recorded_in_its_context),
		TEST(nothing_becomes_part_of_a_capture_or_breaks_it),
		TEST(a_capture_that_was_named_is_waited_for),
		TEST(a_capture_that_cannot_be_seen_is_told_of),
		TEST(what_is_no_stream_is_refused),
		TEST(fence_of_an_exiting_program_has_passed),
		TEST(device_in_error_is_not_a_fence_that_passed),
		TEST(every_failure_leaves_nothing),
		TEST(no_memory_is_said_with_nothing_recorded),
		TEST(without_an_accelerator_fences_pass_at_once),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
