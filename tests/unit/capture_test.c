// SPDX-License-Identifier: MIT
/* Streams that are captured into graphs while blocks are freed after them, on the stand-in CUDA driver: none is forgotten. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cuda_world.h"

#define STREAMS		100

static struct hugepin_context *ctx;
static struct hugepin_pool *pool;
static void *streams[STREAMS];

static int group_setup(void **state)
{
	(void)state;
	return load_world();
}

static int setup(void **state)
{
	struct hugepin_options *options;
	size_t i;

	(void)state;
	begin_world(1);
	for (i = 0; i < STREAMS; i++)
		assert_int_equal(cuStreamCreate(&streams[i], NON_BLOCKING), 0);
	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(hugepin_options_set(options, "runtime", "cuda"), 0);
	assert_int_equal(hugepin_options_set(options, "pinned_ladder", "base"), 0);
	assert_int_equal(hugepin_context_create(options, &ctx), 0);
	hugepin_options_destroy(options);
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool), 0);
	return 0;
}

static int teardown(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_pool_destroy(pool), 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	loopback.ledger(&ledger);
	assert_int_equal(ledger.events, 0);
	assert_int_equal(ledger.live, 0);
	end_world();
	return 0;
}

static void begin_captures(size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		assert_int_equal(cuStreamBeginCapture(streams[i], CAPTURE_GLOBAL), 0);
}

static void end_capture(size_t i)
{
	void *graph = NULL;

	assert_int_equal(cuStreamEndCapture(streams[i], &graph), 0);
	assert_non_null(graph);
}

static void *take(void)
{
	void *p = hugepin_alloc(pool, 4096, 0);

	assert_non_null(p);
	return p;
}

static int refuse_realloc(const char *call)
{
	return strcmp(call, "realloc") ? 0 : ENOMEM;
}

/* The first of this process to be remembered: there is no list yet. */
static void test_a_capture_that_cannot_be_remembered_refuses_the_free(void **state)
{
	struct hugepin_pool_stats before = { .size = sizeof(before) }, after = { .size = sizeof(after) };
	void *p = take(), *both[] = { streams[1], streams[0] };

	(void)state;
	begin_captures(1);
	assert_int_equal(hugepin_pool_stats_get(pool, &before), 0);
	hpi_sys_fault = refuse_realloc;
	assert_int_equal(hugepin_free_after(pool, p, &streams[0], 1), -ENOMEM);
	assert_text("no memory to remember that a stream is being captured");
	assert_text("stays in use");
	assert_int_equal(hugepin_free_after(pool, p, both, 2), -ENOMEM);
	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_pool_stats_get(pool, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(hugepin_free_after(pool, p, both, 2), 0);
	assert_int_equal(hugepin_pool_drain(pool), -EBUSY);
	end_capture(0);
	assert_int_equal(hugepin_pool_drain(pool), 0);
}

static void test_however_many_captures_there_are_the_last_is_waited_for(void **state)
{
	size_t i;

	(void)state;
	begin_captures(STREAMS);
	for (i = 0; i < STREAMS; i++)
		assert_int_equal(hugepin_free_after(pool, take(), &streams[i], 1), 0);
	for (i = 0; i < STREAMS; i++) {
		assert_int_equal(hugepin_pool_poll(pool), STREAMS * 4096);
		assert_int_equal(hugepin_pool_drain(pool), -EBUSY);
		assert_false(loopback.capture_broken());
		end_capture(i);
	}
	assert_int_equal(hugepin_pool_drain(pool), 0);
}

static void test_captures_named_by_one_free_are_each_remembered(void **state)
{
	(void)state;
	begin_captures(3);
	assert_int_equal(hugepin_free_after(pool, take(), streams, 4), 0);
	end_capture(0);
	assert_int_equal(hugepin_pool_poll(pool), 4096);
	end_capture(2);
	assert_int_equal(hugepin_pool_poll(pool), 4096);
	assert_false(loopback.capture_broken());
	end_capture(1);
	assert_int_equal(hugepin_pool_drain(pool), 0);
}

#define TEST(name)	cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_capture_that_cannot_be_remembered_refuses_the_free),
		TEST(however_many_captures_there_are_the_last_is_waited_for),
		TEST(captures_named_by_one_free_are_each_remembered),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
