// SPDX-License-Identifier: MIT
/* Runtime ascend on the stand-in: which call registers, contexts of threads, fences, memory in 2M and 1G pages. */
#include <pthread.h>

#include "runtime_world.h"

#define LIBRARY		"libascendcl.so"
#define MEMORY_BYTES	HPI_MIB(16)

static struct hugepin_context *ctx;
static char *memory;
static const struct hpi_runtime *ascend = &hpi_runtime_ascend;

static void (*loopback_acl_without)(int pages_1g, int registering, int pinning);
static int (*aclInit)(const char *config);
static int (*aclrtSetDevice)(int32_t device);
static int (*aclrtResetDeviceForce)(int32_t device);
static int (*aclrtGetCurrentContext)(void **out);
static int (*aclrtSetCurrentContext)(void *context);
static int (*aclrtHostRegisterV2)(void *addr, uint64_t bytes, uint32_t flags);
static int (*aclrtHostUnregister)(void *addr);
static int (*aclrtCreateStream)(void **out);
static int (*aclmdlRICaptureBegin)(void *stream, int mode);
static int (*aclmdlRICaptureEnd)(void *stream, void **model);
static int (*aclrtMemcpy)(void *to, size_t room, const void *from, size_t count, int kind);

static int group_setup(void **state)
{
	static const struct runtime_call calls[] = {
		RUNTIME_CALL(loopback_acl_without),
		RUNTIME_CALL(aclInit),
		RUNTIME_CALL(aclrtSetDevice),
		RUNTIME_CALL(aclrtResetDeviceForce),
		RUNTIME_CALL(aclrtGetCurrentContext),
		RUNTIME_CALL(aclrtSetCurrentContext),
		RUNTIME_CALL(aclrtHostRegisterV2),
		RUNTIME_CALL(aclrtHostUnregister),
		RUNTIME_CALL(aclrtCreateStream),
		RUNTIME_CALL(aclmdlRICaptureBegin),
		RUNTIME_CALL(aclmdlRICaptureEnd),
		RUNTIME_CALL(aclrtMemcpy),
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
	loopback_acl_without(0, 0, 0);
	assert_int_equal(aclInit(NULL), 0);
	assert_int_equal(aclrtSetDevice(0), 0);
	ctx = context_with("ascend", "register_chunk", "2M", "register_threads", "2", NULL);
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
	assert_int_equal(ledger.device_bytes, 0);
	assert_int_equal(ledger.device_reserved_bytes, 0);
	return 0;
}

static void assert_registers(void)
{
	struct loopback_ledger ledger;

	assert_int_equal(hpi_register_range(ctx, memory, MEMORY_BYTES), 0);
	assert_true(loopback.is_registered(memory, MEMORY_BYTES));
	assert_int_equal(hpi_unregister_range(ctx, memory, MEMORY_BYTES), 0);
	loopback.ledger(&ledger);
	assert_int_equal(ledger.live, 0);
	assert_int_equal(ledger.misuses, 0);
}

static void test_a_range_is_registered_in_chunks_and_let_go(void **state)
{
	(void)state;
	assert_registers();
}

static void test_what_cannot_be_pinned_is_mapped(void **state)
{
	(void)state;
	loopback_acl_without(0, 0, 1);
	assert_registers();
}

static void test_the_older_call_registers_where_the_newer_is_not_supported(void **state)
{
	(void)state;
	loopback_acl_without(0, 1, 0);
	assert_registers();
}

static void test_a_product_that_cannot_register_says_so(void **state)
{
	(void)state;
	loopback_acl_without(0, 2, 0);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), -EOPNOTSUPP);
	assert_text("207000");
}

static void test_what_the_program_registered_is_told_apart(void **state)
{
	(void)state;
	assert_int_equal(aclrtHostRegisterV2(memory + HPI_2M, HPI_2M, 2), 0);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), -EEXIST);
	assert_text("507910");
	assert_int_equal(aclrtHostUnregister(memory + HPI_2M), 0);
}

static void test_device_address_is_told_of_registered_memory_only(void **state)
{
	uint64_t device;
	int code;

	(void)state;
	assert_int_equal(ascend->device_pointer(memory, &device, &code), -EINVAL);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), 0);
	assert_int_equal(ascend->device_pointer(memory + 64, &device, &code), 0);
	assert_int_equal(device, (uintptr_t)memory + 64);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_2M), 0);
}

/* C042: a block inside a pool, not a multiple of anything. */
static void test_an_unaligned_part_is_refused_by_name_of_what_is_asked(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory + 4096, 100000), -EINVAL);
	assert_text("not whole pages");
	assert_int_equal(aclrtHostRegisterV2(memory + 64, HPI_2M, 2), 507899);
}

/* C054: about 200 GB a call. */
static void test_a_limit_of_one_call_is_found(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	loopback.limit(HPI_2M);
	assert_int_equal(hpi_register_range(ctx, memory, MEMORY_BYTES), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, MEMORY_BYTES), 0);
	loopback.ledger(&ledger);
	assert_in_range(ledger.largest_bytes, 4096, HPI_2M);
}

static void *unregister_elsewhere(void *arg)
{
	void *context = NULL;

	*(int *)arg = hpi_unregister_range(ctx, memory, HPI_2M);
	aclrtGetCurrentContext(&context);
	return context;
}

static void test_a_thread_without_a_context_works_in_the_last_one(void **state)
{
	pthread_t thread;
	int err = -1;

	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_2M), 0);
	assert_int_equal(pthread_create(&thread, NULL, unregister_elsewhere, &err), 0);
	pthread_join(thread, NULL);
	assert_int_equal(err, 0);
}

static void test_the_threads_own_context_comes_back(void **state)
{
	struct hpi_runtime_thread thread;
	struct hpi_runtime_scope scope;
	void *first, *second, *after;
	int code;

	(void)state;
	assert_int_equal(aclrtGetCurrentContext(&first), 0);
	assert_int_equal(ascend->begin_on(&scope, 1, &code), -EIO);
	assert_text("device 0, not on device 1");
	assert_int_equal(ascend->begin(&scope, &code), 0);
	assert_int_equal(aclrtSetDevice(1), 0);
	assert_int_equal(aclrtGetCurrentContext(&second), 0);
	assert_int_equal(ascend->enter(&scope, &thread, &code), 0);
	assert_int_equal(aclrtGetCurrentContext(&after), 0);
	assert_ptr_equal(after, first);
	ascend->leave(&thread);
	ascend->end(&scope);
	assert_int_equal(aclrtGetCurrentContext(&after), 0);
	assert_ptr_equal(after, second);
}

static void test_fences_wait_for_their_stream_or_for_the_device(void **state)
{
	struct hpi_fence *fence, *all;
	void *stream, *other;
	int code;

	(void)state;
	assert_int_equal(aclrtCreateStream(&stream), 0);
	assert_int_equal(aclrtCreateStream(&other), 0);
	loopback.work(stream);
	assert_int_equal(ascend->fence_record(stream, &fence, &code), 0);
	assert_int_equal(ascend->fence_query(fence, &code), -EBUSY);
	loopback.done(stream);
	assert_int_equal(ascend->fence_query(fence, &code), 0);
	assert_int_equal(ascend->fence_record(HPI_STREAM_DEVICE, &all, &code), 0);
	assert_int_equal(ascend->fence_query(all, &code), 0);
	loopback.fail_nth("aclrtSynchronizeDevice", 1, 507899);
	assert_int_equal(ascend->fence_query(all, &code), -EIO);
	ascend->fence_end(fence);
	ascend->fence_end(all);
}

static void test_a_capture_is_left_whole(void **state)
{
	struct hpi_fence *fence;
	void *stream, *model;
	int code;

	(void)state;
	assert_int_equal(aclrtCreateStream(&stream), 0);
	assert_int_equal(aclmdlRICaptureBegin(stream, 0), 0);
	assert_true(ascend->is_capturing(stream));
	assert_int_equal(ascend->fence_record(stream, &fence, &code), -EBUSY);
	assert_int_equal(ascend->fence_record(HPI_STREAM_DEVICE, &fence, &code), -EBUSY);
	assert_registers();
	assert_false(loopback.capture_broken());
	assert_int_equal(aclmdlRICaptureEnd(stream, &model), 0);
}

static char *reserve(uint64_t bytes)
{
	void *addr;
	int code;

	assert_int_equal(ascend->memory_reserve(bytes, &addr, &code), 0);
	return addr;
}

static void test_device_memory_comes_in_2m_and_1g_pages(void **state)
{
	char *addr = reserve(2 * HPI_1G), *back = memory;
	int code;

	(void)state;
	loopback.device_memory(2 * HPI_1G);
	assert_int_equal(ascend->memory_map(0, addr, HPI_1G, HUGEPIN_PAGES_1G, &code), 0);
	assert_int_equal(ascend->memory_map(0, addr + HPI_1G, HPI_2M, HUGEPIN_PAGES_2M, &code), 0);
	assert_int_equal(ascend->memory_set(addr + HPI_1G - HPI_2M, 0x5a, 2 * HPI_2M, &code), 0);
	assert_int_equal(ascend->memory_copy(addr, addr + HPI_1G, HPI_2M, &code), 0);
	assert_int_equal(aclrtMemcpy(back, HPI_2M, addr, HPI_2M, 2), 0);
	assert_true(back[0] == 0x5a && !memcmp(back, back + 1, HPI_2M - 1));
	assert_int_equal(ascend->memory_map(0, addr + HPI_1G + HPI_2M, HPI_1G - HPI_2M, HUGEPIN_PAGES_2M, &code), 0);
	assert_int_equal(ascend->memory_unmap(addr + HPI_1G + HPI_2M, HPI_1G - HPI_2M, &code), 0);
	assert_int_equal(ascend->memory_unmap(addr + HPI_1G, HPI_2M, &code), 0);
	assert_int_equal(ascend->memory_unmap(addr, HPI_1G, &code), 0);
	assert_int_equal(ascend->memory_release(addr, 2 * HPI_1G, &code), 0);
}

static void test_products_without_1g_pages_and_shortage_are_told_apart(void **state)
{
	char *addr = reserve(HPI_1G);
	int code;

	(void)state;
	loopback.device_memory(HPI_MIB(8));
	assert_int_equal(ascend->memory_map(0, addr, HPI_1G, HUGEPIN_PAGES_1G, &code), -ENOMEM);
	loopback_acl_without(1, 0, 0);
	assert_int_equal(ascend->memory_map(0, addr, HPI_1G, HUGEPIN_PAGES_1G, &code), -EOPNOTSUPP);
	assert_text("1073741824 bytes in 1G pages on device 0");
	loopback.fail_nth("aclrtMapMem", 1, 507899);
	assert_int_equal(ascend->memory_map(0, addr, HPI_2M, HUGEPIN_PAGES_2M, &code), -EIO);
	assert_int_equal(ascend->memory_release(addr, HPI_1G, &code), 0);
}

static struct hugepin_pool *device_pool(const char *use_1g)
{
	struct hugepin_options *options;
	struct hugepin_pool *pool;

	assert_int_equal(hugepin_context_destroy(ctx), 0);
	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(hugepin_options_set(options, "runtime", "ascend"), 0);
	assert_int_equal(hugepin_options_set(options, "variable_use_1g_huge_page", use_1g), 0);
	assert_int_equal(hugepin_context_create(options, &ctx), 0);
	hugepin_options_destroy(options);
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool), 0);
	return pool;
}

static void assert_page(struct hugepin_pool *pool, uint64_t page_bytes)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };
	void *p = hugepin_alloc(pool, HPI_MIB(1), HUGEPIN_ALLOC_ZERO);

	if (!p)
		fail_msg("%s", hugepin_error());
	assert_int_equal(hugepin_block_segment(pool, p, &info), 0);
	assert_int_equal(info.page_bytes, page_bytes);
	assert_int_equal(hugepin_free(pool, p), 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

static void test_an_npu_pool_has_the_pages_that_its_option_names(void **state)
{
	(void)state;
	loopback.device_memory(2 * HPI_1G);
	assert_page(device_pool("0"), HPI_2M);
	assert_page(device_pool("1"), HPI_1G);
	assert_page(device_pool("2"), HPI_1G);
	loopback_acl_without(1, 0, 0);
	assert_page(device_pool("2"), HPI_2M);
}

static void test_1g_pages_that_a_product_lacks_are_an_error_that_says_so(void **state)
{
	struct hugepin_pool *pool;

	(void)state;
	loopback_acl_without(1, 0, 0);
	pool = device_pool("1");
	assert_null(hugepin_alloc(pool, HPI_MIB(1), 0));
	assert_text("this product or driver has it not");
	assert_int_equal(hugepin_pool_destroy(pool), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_range_is_registered_in_chunks_and_let_go),
		TEST(what_cannot_be_pinned_is_mapped),
		TEST(the_older_call_registers_where_the_newer_is_not_supported),
		TEST(a_product_that_cannot_register_says_so),
		TEST(what_the_program_registered_is_told_apart),
		TEST(device_address_is_told_of_registered_memory_only),
		TEST(an_unaligned_part_is_refused_by_name_of_what_is_asked),
		TEST(a_limit_of_one_call_is_found),
		TEST(a_thread_without_a_context_works_in_the_last_one),
		TEST(the_threads_own_context_comes_back),
		TEST(fences_wait_for_their_stream_or_for_the_device),
		TEST(a_capture_is_left_whole),
		TEST(device_memory_comes_in_2m_and_1g_pages),
		TEST(products_without_1g_pages_and_shortage_are_told_apart),
		TEST(an_npu_pool_has_the_pages_that_its_option_names),
		TEST(1g_pages_that_a_product_lacks_are_an_error_that_says_so),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
