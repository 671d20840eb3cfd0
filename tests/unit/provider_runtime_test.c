// SPDX-License-Identifier: MIT
/*
 * Pinned pools on an NPU that registers no host memory: what aclrtMallocHost gives in its place, on the stand-in
 * AscendCL.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool.h"
#include "runtime_world.h"

#define LIBRARY		"libascendcl.so"
#define REGISTERS_NOTHING	2

static struct hugepin_context *ctx;
static struct hugepin_pool *pool;

static void (*loopback_acl_without)(int pages_1g, int registering, int pinning);
static int (*aclInit)(const char *config);
static int (*aclrtSetDevice)(int32_t device);
static int (*aclrtCreateStream)(void **out);

static int group_setup(void **state)
{
	static const struct runtime_call calls[] = {
		RUNTIME_CALL(loopback_acl_without),
		RUNTIME_CALL(aclInit),
		RUNTIME_CALL(aclrtSetDevice),
		RUNTIME_CALL(aclrtCreateStream),
	};

	(void)state;
	LOAD_RUNTIME(LIBRARY, calls);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	loopback.reset();
	loopback_acl_without(0, REGISTERS_NOTHING, 0);
	assert_int_equal(aclInit(NULL), 0);
	assert_int_equal(aclrtSetDevice(0), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	loopback.fail_clear();
	if (pool)
		assert_int_equal(hugepin_pool_destroy(pool), 0);
	pool = NULL;
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	assert_int_equal(ledger_now().live, 0);
	assert_int_equal(ledger_now().misuses, 0);
	return 0;
}

/* Options in pairs, to a NULL. */
static void begin(const char *runtime, ...)
{
	va_list args;

	va_start(args, runtime);
	ctx = vcontext_with(runtime, args);
	va_end(args);
	if (hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool))
		fail_msg("%s", hugepin_error());
}

static struct hugepin_pool_stats stats(void)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };

	assert_int_equal(hugepin_pool_stats_get(pool, &stats), 0);
	assert_int_equal(stats.active_bytes + stats.cached_bytes + stats.deferred_bytes + stats.free_bytes, stats.mapped_bytes);
	hpi_pool_lock(pool);
	assert_int_equal(hpi_arena_check(pool->arena), 0);
	hpi_pool_unlock(pool);
	return stats;
}

static char *take(size_t bytes, unsigned int flags)
{
	char *p = hugepin_alloc(pool, bytes, flags);

	if (!p)
		fail_msg("%s", hugepin_error());
	return p;
}

static struct hugepin_segment_info segment_of(const void *p)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };

	assert_int_equal(hugepin_block_segment(pool, p, &info), 0);
	return info;
}

static bool is_all(const char *p, int value, size_t bytes)
{
	return p[0] == (char)value && !memcmp(p, p + 1, bytes - 1);
}

static void test_a_block_is_of_the_runtimes_own_memory_and_says_so(void **state)
{
	char *p, *q;

	(void)state;
	begin("ascend", NULL);
	p = take(HPI_MIB(3), HUGEPIN_ALLOC_ZERO);
	assert_true(is_all(p, 0, HPI_MIB(3)));
	assert_int_equal(segment_of(p).provider, HUGEPIN_PROVIDER_RUNTIME);
	assert_string_equal(segment_of(p).registered, "ascend");
	assert_int_equal(segment_of(p).page_bytes, sysconf(_SC_PAGESIZE));
	assert_int_equal(segment_of(p).fd, -1);
	assert_ptr_equal(hugepin_pool_of(ctx, p + 77), pool);
	assert_int_equal(stats().registered_bytes, stats().mapped_bytes);
	memset(p, 0x5a, HPI_MIB(3));
	q = hugepin_realloc(pool, p, HPI_MIB(40));
	assert_non_null(q);
	assert_true(is_all(q, 0x5a, HPI_MIB(3)));
	assert_int_equal(hugepin_free(pool, q), 0);
	assert_true(hugepin_pool_trim(pool, 0) >= (int64_t)HPI_MIB(40));
	assert_int_equal(stats().mapped_bytes, 0);
	assert_int_equal(stats().registered_bytes, 0);
	assert_int_equal(ledger_now().live, 0);
}

static int free_one(const struct hugepin_block_info *info, void *arg)
{
	(void)arg;
	return info->state == HUGEPIN_BLOCK_ACTIVE ? hugepin_free(pool, info->addr) : 0;
}

static void free_all(void)
{
	assert_int_equal(hugepin_pool_each_block(pool, free_one, NULL), 0);
	assert_int_equal(stats().active_blocks, 0);
}

/* C043: whatever address the runtime gives, a multiple of 64 bytes. */
static void test_alignments_hold_wherever_the_memory_lies(void **state)
{
	size_t alignment;
	char *p;

	(void)state;
	begin("ascend", NULL);
	for (alignment = 64; alignment <= HPI_MIB(16); alignment *= 2) {
		p = hugepin_alloc_aligned(pool, alignment, 5000, 0);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % alignment, 0);
		memset(p, 1, 5000);
	}
	assert_int_equal(stats().active_blocks, 19);
	free_all();
}

/* Blocks of one segment go from hand to hand; those of two never become one, even where the runtime puts them together. */
static void test_segments_keep_apart(void **state)
{
	struct hugepin_segment_info a = { .size = sizeof(a) }, b = { .size = sizeof(b) };
	size_t i;

	(void)state;
	begin("ascend", "strategy", "needed", NULL);
	for (i = 0; i < 40; i++)
		take(HPI_MIB(2), 0);
	free_all();
	assert_in_range(stats().segments, 2, 40);
	for (i = 0; !hugepin_pool_segment(pool, i + 1, &b); i++) {
		assert_int_equal(hugepin_pool_segment(pool, i, &a), 0);
		assert_true((char *)a.addr + a.bytes < (char *)b.addr);
	}
	for (i = 0; i < 40; i++)
		take(HPI_MIB(2), 0);
	free_all();
}

static void test_registering_is_tried_once(void **state)
{
	(void)state;
	begin("ascend", "pinned_ladder", "thp,base,runtime", NULL);
	take(HPI_MIB(2), 0);
	assert_true(pool->cannot_register);
	loopback.fail_nth("aclrtHostRegisterV2", 0, 507899);	/* would end the ladder */
	take(HPI_MIB(30), 0);
	free_all();
}

static void test_a_ladder_of_the_programs_own_is_kept_to(void **state)
{
	(void)state;
	begin("ascend", "pinned_ladder", "base", NULL);
	assert_null(hugepin_alloc(pool, HPI_MIB(2), 0));
	assert_int_equal(errno, ENOMEM);
	assert_text("207000");
	assert_null(hugepin_alloc(pool, HPI_MIB(2), 0));
	assert_text("the rung \"runtime\" has memory that it allocates");
	assert_int_equal(stats().mapped_bytes, 0);
}

static void test_where_memory_can_be_registered_it_is(void **state)
{
	char *p;

	(void)state;
	loopback_acl_without(0, 0, 0);
	begin("ascend", NULL);
	p = take(HPI_MIB(2), 0);
	assert_int_not_equal(segment_of(p).provider, HUGEPIN_PROVIDER_RUNTIME);
	assert_true(loopback.is_registered(segment_of(p).addr, segment_of(p).bytes));
	assert_int_equal(hugepin_free(pool, p), 0);
}

static void test_other_runtimes_have_no_such_rung(void **state)
{
	struct hugepin_options *options;

	(void)state;
	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(hugepin_options_set(options, "runtime", "none"), 0);
	assert_int_equal(hugepin_options_set(options, "pinned_ladder", "runtime"), 0);
	assert_int_equal(hugepin_context_create(options, &ctx), 0);
	hugepin_options_destroy(options);
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool), -ENODEV);
	assert_text("runtime none allocates no host memory");
}

static void test_growing_ahead_and_caps_hold(void **state)
{
	struct hugepin_pool_stats before;
	char *p;

	(void)state;
	begin("ascend", "pinned_cap", "64M", NULL);
	assert_int_equal(hugepin_pool_grow(pool, HPI_MIB(32), 0), 0);
	before = stats();
	assert_int_equal(before.mapped_bytes, HPI_MIB(32));
	p = take(HPI_MIB(20), 0);
	assert_int_equal(stats().mapped_bytes, before.mapped_bytes);
	assert_null(hugepin_alloc(pool, HPI_MIB(60), 0));
	assert_text("over the cap of the pinned pool");
	assert_int_equal(hugepin_free(pool, p), 0);
}

/* An extent is in one piece, which the runtime's memory is not. */
static void test_a_plan_that_needs_an_extent_is_refused_whole(void **state)
{
	struct hugepin_plan *plan = NULL;

	(void)state;
	begin("ascend", "static_memory_policy", "3", NULL);
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(4), &plan), -ENOMEM);
	assert_null(plan);
	assert_int_equal(stats().mapped_bytes, 0);
	assert_int_equal(hugepin_pool_destroy(pool), 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	begin("ascend", NULL);
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(4), &plan), 0);
	assert_non_null(hugepin_plan_alloc(plan, HPI_MIB(1), 0));
	hugepin_plan_end(plan);
	assert_int_equal(stats().active_blocks, 0);
}

static void test_a_block_behind_a_fence_waits(void **state)
{
	void *stream, *p;

	(void)state;
	begin("ascend", NULL);
	p = take(HPI_MIB(2), 0);
	assert_int_equal(aclrtCreateStream(&stream), 0);
	loopback.work(stream);
	assert_int_equal(hugepin_free_after(pool, p, &stream, 1), 0);
	assert_int_equal(hugepin_pool_poll(pool), HPI_MIB(2));
	loopback.done(stream);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	assert_int_equal(stats().deferred_bytes, 0);
}

struct text {
	char *at;
	size_t length;
};

static int append(const char *text, size_t length, void *arg)
{
	struct text *to = arg;

	to->at = realloc(to->at, to->length + length + 1);
	assert_non_null(to->at);
	memcpy(to->at + to->length, text, length);
	to->length += length;
	to->at[to->length] = '\0';
	return 0;
}

static void test_snapshots_show_it(void **state)
{
	struct text text = { 0 };

	(void)state;
	begin("ascend", NULL);
	take(HPI_MIB(2), 0);
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_JSON, append, &text), 0);
	assert_non_null(strstr(text.at, "\"runtime\""));
	text.length = 0;
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_SVG, append, &text), 0);
	assert_non_null(strstr(text.at, "</svg>"));
	free(text.at);
	free_all();
}

/* Of a child that ends its copy of a pool nothing is given back. */
static void test_a_child_frees_nothing_of_its_parents(void **state)
{
	int status;
	pid_t child;
	char *p;

	(void)state;
	begin("ascend", NULL);
	p = take(HPI_MIB(2), HUGEPIN_ALLOC_ZERO);
	child = fork();
	if (!child)
		_exit(hugepin_alloc(pool, 64, 0) || errno != EPERM || hugepin_pool_destroy(pool));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	memset(p, 1, HPI_MIB(2));
	assert_int_equal(hugepin_free(pool, p), 0);
}

/* The Nth call of each, for every N: an error with its code, all as before, and the next try is as if nothing had been. */
static void test_every_failure_of_every_call_leaves_nothing(void **state)
{
	static const char *const calls[] = { "aclrtMallocHost", "aclrtFreeHost", "aclrtGetCurrentContext" };
	unsigned int nth;
	int64_t given;
	size_t i;
	void *p;

	(void)state;
	begin("ascend", "pinned_ladder", "runtime", NULL);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (nth = 1; nth < 20; nth++) {
			loopback.fail_nth(calls[i], nth, 507899);
			p = hugepin_alloc(pool, HPI_MIB(2), 0);
			if (p)
				assert_int_equal(hugepin_free(pool, p), 0);
			else
				assert_text("507899");
			given = p ? hugepin_pool_trim(pool, 0) : 0;
			if (given < 0)
				assert_int_equal(stats().mapped_bytes, HPI_MIB(2));
			loopback.fail_clear();
			hugepin_pool_trim(pool, 0);
			assert_int_equal(stats().mapped_bytes, 0);
			assert_int_equal(ledger_now().live, 0);
			if (p && given > 0)
				break;
		}
		assert_in_range(nth, 2, 19);
	}
}

static void test_a_shortage_of_the_runtime_is_one_of_memory(void **state)
{
	(void)state;
	begin("ascend", "pinned_ladder", "runtime", NULL);
	loopback.limit(HPI_MIB(8));
	assert_null(hugepin_alloc(pool, HPI_MIB(8), 0));
	assert_int_equal(errno, ENOMEM);
	assert_text("out of memory (code 207001)");
	assert_int_equal(stats().failed_allocs, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_block_is_of_the_runtimes_own_memory_and_says_so),
		TEST(alignments_hold_wherever_the_memory_lies),
		TEST(segments_keep_apart),
		TEST(registering_is_tried_once),
		TEST(a_ladder_of_the_programs_own_is_kept_to),
		TEST(where_memory_can_be_registered_it_is),
		TEST(other_runtimes_have_no_such_rung),
		TEST(growing_ahead_and_caps_hold),
		TEST(a_plan_that_needs_an_extent_is_refused_whole),
		TEST(a_block_behind_a_fence_waits),
		TEST(snapshots_show_it),
		TEST(a_child_frees_nothing_of_its_parents),
		TEST(every_failure_of_every_call_leaves_nothing),
		TEST(a_shortage_of_the_runtime_is_one_of_memory),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
