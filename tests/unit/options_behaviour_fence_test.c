// SPDX-License-Identifier: MIT
/*
 * The options of fences, each by what memory, the runtime and the poller do: a test is named after its option.
 */
#include "fence_world.h"

#include <sched.h>

/* ---- FLAGS_fast_eager_deletion_mode ---- */

static void FLAGS_fast_eager_deletion_mode_true_reuses_at_once_on_the_same_stream(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, HPI_2M), *q;
	struct hugepin_pool_stats stats;

	(void)state;
	free_after(pool, p, work_on(0));
	q = hugepin_alloc_on(pool, HPI_2M, 0, &device.streams[0]);
	assert_ptr_equal(q, p);
	stats = stats_of(pool);
	assert_int_equal(stats.active_bytes, HPI_2M);
	assert_int_equal(stats.requested_bytes, HPI_2M);
	assert_int_equal(stats.deferred_bytes, 0);
	assert_int_equal(stats.segments, 1);
	assert_int_equal(stats.allocs, 2);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(device.live, 0);		/* nobody waits for it any more */

	/* behind the same stream once more: it passes with the work given since */
	free_after(pool, q, work_on(0));
	assert_int_equal(hugepin_pool_poll(pool), HPI_2M);
	end_device_pool(pool);
}

static void FLAGS_fast_eager_deletion_mode_true_makes_every_other_stream_wait(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	void *both[] = { work_on(0), work_on(1) };
	char *p = take(pool, HPI_2M), *q = take(pool, HPI_2M), *r;

	(void)state;
	free_after(pool, p, &device.streams[0]);
	assert_int_equal(hugepin_free_after(pool, q, both, 2), 0);
	r = hugepin_alloc_on(pool, HPI_2M, 0, &device.streams[1]);
	assert_ptr_not_equal(r, p);
	assert_ptr_not_equal(r, q);
	give(pool, r);
	end_device_pool(pool);
}

static void FLAGS_fast_eager_deletion_mode_true_gives_whole_blocks_of_about_the_size(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, HPI_2M), *q;
	struct hugepin_pool_stats stats;

	(void)state;
	free_after(pool, p, work_on(0));
	q = hugepin_alloc_on(pool, HPI_MIB(1), 0, &device.streams[0]);		/* half of it: no */
	assert_ptr_not_equal(q, p);
	give(pool, q);
	q = hugepin_alloc_on(pool, HPI_2M + 1, 0, &device.streams[0]);
	assert_ptr_not_equal(q, p);
	give(pool, q);
	q = hugepin_alloc_on(pool, HPI_2M, HUGEPIN_ALLOC_ZERO, &device.streams[0]);	/* the CPU's zeroes come too early */
	assert_ptr_not_equal(q, p);
	give(pool, q);
	q = hugepin_alloc_on(pool, HPI_2M - 100 * KIB, 0, &device.streams[0]);
	assert_ptr_equal(q, p);
	stats = stats_of(pool);
	assert_int_equal(stats.active_bytes, HPI_2M);
	assert_int_equal(stats.wasted_bytes, 100 * KIB);
	give(pool, q);
	end_device_pool(pool);
}

static void FLAGS_fast_eager_deletion_mode_true_knows_default_streams_by_their_context(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, HPI_2M), *q, other;

	(void)state;
	work_on(0);
	free_after(pool, p, NULL);
	device.context = &other;
	q = hugepin_alloc_on(pool, HPI_2M, 0, NULL);
	assert_ptr_not_equal(q, p);
	device.context = &device;
	assert_ptr_equal(hugepin_alloc_on(pool, HPI_2M, 0, NULL), p);
	give(pool, p);
	give(pool, q);
	end_device_pool(pool);
}

static void FLAGS_fast_eager_deletion_mode_true_keeps_pools_apart(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL), *other = device_pool(pool->ctx);
	char *p = take(pool, HPI_2M), *q;

	(void)state;
	free_after(pool, p, work_on(0));
	q = hugepin_alloc_on(other, HPI_2M, 0, &device.streams[0]);
	assert_ptr_not_equal(q, p);
	give(other, q);
	assert_int_equal(hugepin_pool_destroy(other), 0);
	end_device_pool(pool);
}

static void FLAGS_fast_eager_deletion_mode_false_waits_for_the_fence(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("FLAGS_fast_eager_deletion_mode", "false", NULL));
	char *p = take(pool, HPI_2M), *q;

	(void)state;
	free_after(pool, p, work_on(0));
	q = hugepin_alloc_on(pool, HPI_2M, 0, &device.streams[0]);
	assert_ptr_not_equal(q, p);
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_2M);
	give(pool, q);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	end_device_pool(pool);
}

static void alloc_on_refuses_what_is_no_stream(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	assert_null(hugepin_alloc_on(pool, KIB, 0, HPI_STREAM_DEVICE));
	assert_int_equal(errno, EINVAL);
	assert_null(hugepin_alloc_on(pool, KIB, 1u << 31, &device.streams[0]));
	assert_int_equal(errno, EINVAL);
	end_device_pool(pool);
}

/* Without the look into the arena that stats_of() takes, while the poller is at work. */
static uint64_t deferred_bytes(const struct hugepin_pool *pool)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };

	assert_int_equal(hugepin_pool_stats_get(pool, &stats), 0);
	return stats.deferred_bytes;
}

/* ---- deferred_deletion_bytes ---- */

static void free_without_streams(struct hugepin_pool *pool, uint64_t bytes)
{
	assert_int_equal(hugepin_free_after(pool, take(pool, bytes), NULL, 0), 0);
}

static void deferred_deletion_bytes_gathers_frees_for_one_call_of_the_driver(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("deferred_deletion_bytes", "1M", NULL));
	size_t i;

	(void)state;
	work_on(0);
	for (i = 0; i < 15; i++)
		free_without_streams(pool, 64 * KIB);
	assert_int_equal(device.device_records, 0);
	assert_int_equal(stats_of(pool).deferred_bytes, 15 * 64 * KIB);
	free_without_streams(pool, 64 * KIB);
	assert_int_equal(device.device_records, 1);
	assert_int_equal(device.live, 1);
	work_done(0);
	device.queries = 0;
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(device.queries, 1);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	end_device_pool(pool);
}

static void deferred_deletion_bytes_of_zero_is_8_MiB(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	free_without_streams(pool, HPI_MIB(8) - 64);
	assert_int_equal(device.device_records, 0);
	free_without_streams(pool, 64);
	assert_int_equal(device.device_records, 1);
	end_device_pool(pool);
}

static void deferred_deletion_bytes_do_not_wait_once_nothing_else_is_pending(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	free_after(pool, take(pool, KIB), work_on(0));
	free_without_streams(pool, KIB);
	poller_pause(1);
	poller_look(1);
	poller_pause(2);
	assert_int_equal(device.device_records, 0);	/* the driver is asked of the first all the same */
	work_done(0);
	poller_look(1);
	poller_pause(3);
	assert_int_equal(device.device_records, 1);
	poller_look(1);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	end_device_pool(pool);
}

static void deferred_deletion_bytes_are_not_kept_from_an_allocation(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("pinned_cap", "2M", NULL));

	(void)state;
	free_without_streams(pool, HPI_2M);
	assert_null(hugepin_alloc(pool, HPI_2M, 0));		/* this has it recorded */
	give(pool, take(pool, HPI_2M));
	end_device_pool(pool);
}

/* ---- polling_active_delay_usecs, polling_inactive_delay_msecs ---- */

/* A pinned pool of sixteen segments of 2 MiB, all free. */
static struct hugepin_pool *sixteen_segments(const char *bytes)
{
	struct hugepin_pool *pool = make_pool_on(make_context("deferred_deletion_bytes", bytes, "cache_cap", "0",
							      "strategy", "needed", NULL),
						 HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	char *p[16];
	size_t i;

	for (i = 0; i < 16; i++)
		p[i] = take(pool, HPI_2M);
	assert_int_equal(stats_of(pool).segments, 16);
	for (i = 0; i < 16; i++)
		give(pool, p[i]);
	runtime.begins = 0;
	return pool;
}

static void deferred_deletion_bytes_of_unregistrations_go_out_in_one_batch(void **state)
{
	static const struct {
		const char *bytes;
		unsigned int batches;
	} cases[] = { { "1", 16 }, { "4M", 8 }, { "0", 4 }, { "12M", 3 }, { "1G", 1 } };
	struct hugepin_pool *pool;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pool = sixteen_segments(cases[i].bytes);
		assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(32));
		assert_int_equal(runtime.begins, cases[i].batches);
		assert_int_equal(stats_of(pool).registered_bytes, 0);
		end_pool(pool);
		assert_int_equal(runtime.unregisters, (i + 1) * 16);
	}
}

static void deferred_deletion_bytes_do_not_give_back_more_than_was_asked(void **state)
{
	struct hugepin_pool *pool = sixteen_segments("1G");

	(void)state;
	assert_int_equal(hugepin_pool_trim(pool, HPI_MIB(20)), HPI_MIB(12));
	assert_int_equal(runtime.begins, 1);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(20));
	end_pool(pool);
}

/* One of a batch that the runtime does not let go stays mapped and booked; the others go. */
static void deferred_deletion_bytes_of_one_that_stays_do_not_keep_the_others(void **state)
{
	struct hugepin_pool *pool = sixteen_segments("8M");
	struct hugepin_segment_info info = { .size = sizeof(info) };

	(void)state;
	assert_int_equal(hugepin_pool_segment(pool, 9, &info), 0);
	runtime.keeps = info.addr;
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(30));
	assert_non_null(strstr(hugepin_error(), "code 999"));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(2));
	assert_int_equal(stats_of(pool).registered_bytes, HPI_MIB(2));
	assert_int_equal(hugepin_pool_trim(pool, 0), -EIO);
	assert_non_null(strstr(hugepin_error(), "stays mapped"));
	runtime.keeps = NULL;
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(2));
	end_pool(pool);
}

static void polling_active_delay_usecs_is_the_sleep_while_fences_are_pending(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("polling_active_delay_usecs", "250", NULL));
	unsigned int look;

	(void)state;
	free_after(pool, take(pool, KIB), work_on(0));
	poller_pause(1);
	for (look = 1; look <= 5; look++) {
		poller_look(1);
		assert_int_equal(poller_pause(look + 1), 250000);
		assert_int_equal(device.queries, look);
	}
	work_done(0);
	poller_look(1);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	end_device_pool(pool);
}

static void polling_active_delay_usecs_of_zero_is_10(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	free_after(pool, take(pool, KIB), work_on(0));
	poller_pause(1);
	poller_look(1);
	assert_int_equal(poller_pause(2), 10000);
	end_device_pool(pool);
}

static void polling_inactive_delay_msecs_is_the_sleep_before_an_idle_poller_looks(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("polling_inactive_delay_msecs", "7", NULL));

	(void)state;
	assert_int_equal(device.pauses, 0);
	free_after(pool, take(pool, KIB), work_on(0));
	work_done(0);
	assert_int_equal(poller_pause(1), 7000000);
	poller_look(1);
	while (deferred_bytes(pool))
		sched_yield();
	assert_int_equal(device.pauses, 1);		/* idle, it does not look at all */
	assert_int_equal(device.queries, 1);
	free_after(pool, take(pool, KIB), work_on(0));
	assert_int_equal(poller_pause(2), 7000000);
	end_device_pool(pool);
}

static void polling_inactive_delay_msecs_of_zero_is_1(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	free_after(pool, take(pool, KIB), work_on(0));
	assert_int_equal(poller_pause(1), 1000000);
	end_device_pool(pool);
}

static void polling_inactive_delay_msecs_is_the_sleep_while_nothing_can_be_recorded(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("polling_inactive_delay_msecs", "3", NULL));

	(void)state;
	capture(0, true);
	free_after(pool, take(pool, KIB), work_on(0));
	assert_int_equal(poller_pause(1), 3000000);
	poller_look(1);
	assert_int_equal(poller_pause(2), 3000000);
	capture(0, false);
	poller_look(1);
	assert_int_equal(poller_pause(3), 10000);
	end_device_pool(pool);
}

/* ---- the poller itself ---- */

static void memory_comes_back_without_anybody_asking(void **state)
{
	struct hugepin_pool *pool;

	(void)state;
	hpi_poller_pause = NULL;
	pool = device_pool(NULL);
	free_after(pool, take(pool, KIB), work_on(0));
	free_without_streams(pool, KIB);
	work_done(0);
	while (deferred_bytes(pool))
		sched_yield();
	end_device_pool(pool);
}

static void ending_a_context_does_not_wait_for_the_pollers_sleep(void **state)
{
	struct timespec before, after;
	struct hugepin_pool *pool;

	(void)state;
	hpi_poller_pause = NULL;
	pool = device_pool(make_context("polling_inactive_delay_msecs", "600000", NULL));
	free_after(pool, take(pool, KIB), work_on(0));
	work_done(0);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	clock_gettime(CLOCK_MONOTONIC, &before);
	end_device_pool(pool);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_true(after.tv_sec - before.tv_sec < 60);
}

static int no_threads(const char *call)
{
	return strcmp(call, "pthread_create") ? 0 : EAGAIN;
}

static void without_a_poller_memory_comes_back_when_asked_for(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, HPI_2M);

	(void)state;
	hpi_sys_fault = no_threads;
	free_after(pool, p, work_on(0));
	hpi_sys_fault = NULL;
	assert_int_equal(told.warnings, 1);
	assert_non_null(strstr(told.last, "hugepin-poller"));
	work_done(0);
	assert_ptr_equal(take(pool, HPI_2M), p);
	free_after(pool, p, work_on(0));
	assert_int_equal(told.warnings, 1);
	end_device_pool(pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		DEVICE_TEST(FLAGS_fast_eager_deletion_mode_true_reuses_at_once_on_the_same_stream),
		DEVICE_TEST(FLAGS_fast_eager_deletion_mode_true_makes_every_other_stream_wait),
		DEVICE_TEST(FLAGS_fast_eager_deletion_mode_true_gives_whole_blocks_of_about_the_size),
		DEVICE_TEST(FLAGS_fast_eager_deletion_mode_true_knows_default_streams_by_their_context),
		DEVICE_TEST(FLAGS_fast_eager_deletion_mode_true_keeps_pools_apart),
		DEVICE_TEST(FLAGS_fast_eager_deletion_mode_false_waits_for_the_fence),
		DEVICE_TEST(alloc_on_refuses_what_is_no_stream),
		DEVICE_TEST(deferred_deletion_bytes_gathers_frees_for_one_call_of_the_driver),
		DEVICE_TEST(deferred_deletion_bytes_of_zero_is_8_MiB),
		DEVICE_TEST(deferred_deletion_bytes_do_not_wait_once_nothing_else_is_pending),
		DEVICE_TEST(deferred_deletion_bytes_are_not_kept_from_an_allocation),
		TEST(deferred_deletion_bytes_of_unregistrations_go_out_in_one_batch),
		TEST(deferred_deletion_bytes_do_not_give_back_more_than_was_asked),
		TEST(deferred_deletion_bytes_of_one_that_stays_do_not_keep_the_others),
		DEVICE_TEST(polling_active_delay_usecs_is_the_sleep_while_fences_are_pending),
		DEVICE_TEST(polling_active_delay_usecs_of_zero_is_10),
		DEVICE_TEST(polling_inactive_delay_msecs_is_the_sleep_before_an_idle_poller_looks),
		DEVICE_TEST(polling_inactive_delay_msecs_of_zero_is_1),
		DEVICE_TEST(polling_inactive_delay_msecs_is_the_sleep_while_nothing_can_be_recorded),
		DEVICE_TEST(memory_comes_back_without_anybody_asking),
		DEVICE_TEST(ending_a_context_does_not_wait_for_the_pollers_sleep),
		DEVICE_TEST(without_a_poller_memory_comes_back_when_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
