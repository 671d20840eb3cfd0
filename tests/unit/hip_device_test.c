// SPDX-License-Identifier: MIT
/* Device pools of runtime hip on the stand-in: bytes, devices, releases, and failures of every call. */

#include "runtime_world.h"

#define LIBRARY		"libamdhip64.so.7"
#define UNREAD		1		/* hipErrorInvalidValue */

static struct hugepin_context *ctx;

static void (*loopback_hip_version)(int version);
static int (*hipGetLastError)(void);
static int (*hipPeekAtLastError)(void);
static int (*hipGetDevice)(int *device);
static int (*hipSetDevice)(int device);
static int (*hipHostRegister)(void *addr, size_t bytes, unsigned int flags);
static int (*hipMemcpyDtoH)(void *to, const void *from, size_t bytes);
static int (*hipStreamCreateWithFlags)(void **stream, unsigned int flags);
static int (*hipStreamDestroy)(void *stream);
static int (*hipStreamBeginCapture)(void *stream, int mode);
static int (*hipStreamEndCapture)(void *stream, void **graph);

static int group_setup(void **state)
{
	static const struct runtime_call calls[] = {
		RUNTIME_CALL(loopback_hip_version),
		RUNTIME_CALL(hipGetLastError),
		RUNTIME_CALL(hipPeekAtLastError),
		RUNTIME_CALL(hipGetDevice),
		RUNTIME_CALL(hipSetDevice),
		RUNTIME_CALL(hipHostRegister),
		RUNTIME_CALL(hipMemcpyDtoH),
		RUNTIME_CALL(hipStreamCreateWithFlags),
		RUNTIME_CALL(hipStreamDestroy),
		RUNTIME_CALL(hipStreamBeginCapture),
		RUNTIME_CALL(hipStreamEndCapture),
	};

	(void)state;
	LOAD_RUNTIME(LIBRARY, calls);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	loopback.reset();
	loopback.devices(2);
	loopback.device_memory(HPI_MIB(256));
	loopback_hip_version(0);
	hipGetLastError();
	assert_int_equal(hipSetDevice(0), 0);
	ctx = context_with("hip", NULL);
	return 0;
}

static int teardown(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	hpi_sys_fault = NULL;
	loopback.fail_clear();
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	loopback.ledger(&ledger);
	loopback.reset();
	assert_int_equal(ledger.device_bytes, 0);
	assert_int_equal(ledger.device_mapped_bytes, 0);
	assert_int_equal(ledger.device_reserved_bytes, 0);
	assert_int_equal(ledger.streams, 0);
	return 0;
}

static struct hugepin_pool *pool_on(int device)
{
	struct hugepin_pool *pool = NULL;

	if (hugepin_pool_create_on(ctx, HUGEPIN_POOL_DEVICE, device, &pool))
		fail_msg("%s", hugepin_error());
	return pool;
}

static void assert_bytes(const void *at, int value, size_t bytes)
{
	char *back = malloc(bytes);

	assert_int_equal(hipMemcpyDtoH(back, at, bytes), 0);
	assert_true(back[0] == (char)value && !memcmp(back, back + 1, bytes - 1));
	free(back);
}

static void test_blocks_are_zeroed_and_moved_by_the_runtime(void **state)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };
	struct hugepin_pool *pool = pool_on(0);
	char *p = hugepin_alloc(pool, HPI_MIB(3), HUGEPIN_ALLOC_ZERO), *other = hugepin_alloc(pool, HPI_MIB(1), 0), *moved;

	(void)state;
	assert_non_null(p);
	assert_non_null(other);
	assert_bytes(p, 0, HPI_MIB(3));
	assert_int_equal(hugepin_block_segment(pool, p, &info), 0);
	assert_int_equal(info.provider, HUGEPIN_PROVIDER_DEVICE);
	assert_int_equal(info.page_bytes, HPI_2M);
	assert_int_equal(hpi_runtime_hip.memory_set(p, 0x5a, HPI_MIB(3), &(int){ 0 }), 0);
	moved = hugepin_realloc(pool, p, HPI_MIB(9));
	assert_non_null(moved);
	assert_bytes(moved, 0x5a, HPI_MIB(3));
	assert_int_equal(hugepin_free(pool, moved), 0);
	assert_int_equal(hugepin_free(pool, other), 0);
	assert_in_range(hugepin_pool_trim(pool, 0), HPI_MIB(10), HPI_MIB(20));
	assert_int_equal(ledger_now().device_bytes, 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

/* Its pages are that device's, and the thread's device is as before. */
static void test_a_pool_of_another_device_leaves_the_threads_device_alone(void **state)
{
	struct hugepin_pool *pool = pool_on(1);
	struct hpi_device before, after;
	int code, current = -1;
	void *p;

	(void)state;
	assert_int_equal(hpi_runtime_hip.device_read(1, &before, &code), 0);
	p = hugepin_alloc(pool, HPI_MIB(2), HUGEPIN_ALLOC_ZERO);
	assert_non_null(p);
	assert_int_equal(hpi_runtime_hip.device_read(1, &after, &code), 0);
	assert_int_equal(before.free_bytes - after.free_bytes, HPI_MIB(2));
	assert_int_equal(hipGetDevice(&current), 0);
	assert_int_equal(current, 0);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

static void test_an_error_that_the_program_has_not_read_stays(void **state)
{
	struct hugepin_pool *pool;
	void *p;

	(void)state;
	hipHostRegister(NULL, 0, 0);
	assert_int_equal(hipPeekAtLastError(), UNREAD);
	pool = pool_on(0);
	p = hugepin_alloc(pool, HPI_MIB(2), HUGEPIN_ALLOC_ZERO);
	assert_non_null(p);
	assert_null(hugepin_alloc(pool, HPI_1G, 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
	assert_int_equal(hipGetLastError(), UNREAD);
}

static void test_nothing_breaks_a_capture_of_the_program(void **state)
{
	struct hugepin_pool *pool = pool_on(0);
	void *stream, *graph = NULL, *p;

	(void)state;
	assert_int_equal(hipStreamCreateWithFlags(&stream, 0), 0);
	assert_int_equal(hipStreamBeginCapture(stream, 0), 0);
	p = hugepin_alloc(pool, HPI_MIB(2), HUGEPIN_ALLOC_ZERO);
	assert_non_null(p);
	assert_false(loopback.capture_broken());
	assert_int_equal(hipStreamEndCapture(stream, &graph), 0);
	assert_int_equal(hipStreamDestroy(stream), 0);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

/* The release before had another layout of what is asked for, which would be understood as something else. */
static void test_a_release_before_5_3_gives_no_memory(void **state)
{
	struct hugepin_pool *pool = NULL;

	(void)state;
	loopback_hip_version(50220804);
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool), -EOPNOTSUPP);
	assert_non_null(strstr(hugepin_error(), "HIP 5.2 gives no memory to be mapped"));
	assert_null(pool);
	loopback_hip_version(50300000);
	assert_int_equal(hugepin_pool_destroy(pool_on(0)), 0);
}

static void test_pages_that_the_device_does_not_have_are_a_shortage(void **state)
{
	struct hugepin_pool *pool = pool_on(0);
	int code;

	(void)state;
	assert_null(hugepin_alloc(pool, HPI_MIB(300), 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "hipErrorOutOfMemory") ?: strstr(hugepin_error(), "OUT_OF_MEMORY"));
	assert_int_equal(hpi_runtime_hip.memory_map(0, NULL, HPI_1G, HUGEPIN_PAGES_1G, &code), -EOPNOTSUPP);
	assert_int_equal(hpi_runtime_hip.memory_unmap(&code, HPI_2M, &code), -EIO);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

/* A pool's life: made, a zeroed block, a larger one, all given back. 0, or the first error. */
static int life(void)
{
	struct hugepin_pool *pool = NULL;
	int err = hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool);
	void *p, *larger;

	if (err)
		return err;
	p = hugepin_alloc(pool, HPI_MIB(2), HUGEPIN_ALLOC_ZERO);
	err = p ? 0 : -errno;
	larger = p ? hugepin_realloc(pool, p, HPI_MIB(4)) : NULL;
	if (p && !larger)
		err = -errno;
	if (p)
		assert_int_equal(hugepin_free(pool, larger ? larger : p), 0);
	if (hugepin_pool_destroy(pool)) {
		err = -EIO;
		loopback.fail_clear();
		assert_int_equal(hugepin_pool_destroy(pool), 0);
	}
	return err;
}

/* The Nth call of each function, for every N until it is not called so often: an error, and nothing left behind. */
static void test_every_failure_of_every_call_leaves_nothing(void **state)
{
	static const char *const calls[] = {
		"hipRuntimeGetVersion", "hipMemGetAllocationGranularity", "hipMemAddressReserve", "hipMemCreate", "hipMemMap",
		"hipMemSetAccess", "hipMemUnmap", "hipMemAddressFree", "hipStreamCreateWithFlags", "hipMemsetD8Async",
		"hipStreamSynchronize", "hipMemGetInfo",
	};
	unsigned int nth;
	size_t i;
	int err;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (nth = 1;; nth++) {
			loopback.fail_nth(calls[i], nth, 999);
			err = life();
			loopback.fail_clear();
			assert_int_equal(hipPeekAtLastError(), 0);
			assert_int_equal(ledger_now().device_bytes, 0);
			assert_int_equal(ledger_now().device_reserved_bytes, 0);
			assert_int_equal(ledger_now().streams, 0);
			if (!err)
				break;
			assert_in_range(nth, 1, 20);
		}
		if (nth == 1)
			fail_msg("%s is never called, or its failure is not told", calls[i]);
	}
}

static unsigned int mallocs, refused_malloc;

static int refuse_nth_malloc(const char *call)
{
	return !strcmp(call, "malloc") && ++mallocs == refused_malloc ? ENOMEM : 0;
}

static void test_without_memory_for_the_note_nothing_is_mapped(void **state)
{
	int err = -1;

	(void)state;
	for (refused_malloc = 1; err; refused_malloc++) {
		mallocs = 0;
		hpi_sys_fault = refuse_nth_malloc;
		err = life();
		hpi_sys_fault = NULL;
		assert_int_equal(ledger_now().device_bytes, 0);
	}
	assert_in_range(refused_malloc, 3, 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_are_zeroed_and_moved_by_the_runtime),
		TEST(a_pool_of_another_device_leaves_the_threads_device_alone),
		TEST(an_error_that_the_program_has_not_read_stays),
		TEST(nothing_breaks_a_capture_of_the_program),
		TEST(a_release_before_5_3_gives_no_memory),
		TEST(pages_that_the_device_does_not_have_are_a_shortage),
		TEST(every_failure_of_every_call_leaves_nothing),
		TEST(without_memory_for_the_note_nothing_is_mapped),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
