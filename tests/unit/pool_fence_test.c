// SPDX-License-Identifier: MIT
/*
 * Blocks freed while a device may still use them: never used early, never lost, whatever the runtime says.
 */
#include "fence_world.h"

#include <sys/wait.h>

static void block_is_not_used_again_before_its_stream_is_done(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, HPI_2M), *q;

	(void)state;
	free_after(pool, p, work_on(0));
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_2M);
	assert_int_equal(hugepin_pool_poll(pool), HPI_2M);
	q = take(pool, HPI_2M);
	assert_ptr_not_equal(q, p);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	assert_ptr_equal(take(pool, HPI_2M), p);
	give(pool, p);
	give(pool, q);
	end_device_pool(pool);
}

static void work_given_later_is_not_waited_for(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, HPI_2M);

	(void)state;
	free_after(pool, p, work_on(0));
	work_done(0);
	work_on(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	end_device_pool(pool);
}

static void block_waits_for_each_of_its_streams(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	void *streams[] = { work_on(0), work_on(1), work_on(2) };
	size_t i;

	(void)state;
	assert_int_equal(hugepin_free_after(pool, take(pool, KIB), streams, 3), 0);
	assert_int_equal(device.records, 3);
	for (i = 0; i < 3; i++) {
		assert_int_equal(hugepin_pool_poll(pool), KIB);
		work_done(2 - i);
	}
	assert_int_equal(hugepin_pool_poll(pool), 0);
	end_device_pool(pool);
}

static void without_streams_all_the_devices_work_is_waited_for(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	size_t i;

	(void)state;
	for (i = 0; i < STREAMS; i++)
		work_on(i);
	assert_int_equal(hugepin_free_after(pool, take(pool, KIB), NULL, 0), 0);
	for (i = 0; i < STREAMS; i++) {
		assert_int_equal(hugepin_pool_poll(pool), KIB);
		work_done(i);
	}
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(device.device_records, 1);
	assert_int_equal(device.records, 0);
	end_device_pool(pool);
}

static void the_default_stream_is_a_stream(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	work_on(0);
	free_after(pool, take(pool, KIB), NULL);
	assert_int_equal(device.records, 1);
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	end_device_pool(pool);
}

/* C070: active drops at once, whether an event is pending or not, and every block is counted once */
static void blocks_with_events_pending_are_deferred_and_never_active(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *a = take(pool, HPI_MIB(1)), *b = take(pool, HPI_MIB(2)), *c = take(pool, HPI_MIB(4));
	struct hugepin_pool_stats stats;

	(void)state;
	give(pool, a);
	stats = stats_of(pool);
	assert_int_equal(stats.active_bytes, HPI_MIB(6));
	free_after(pool, b, work_on(0));
	stats = stats_of(pool);
	assert_int_equal(stats.active_bytes, HPI_MIB(4));
	assert_int_equal(stats.deferred_bytes, HPI_MIB(2));
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	free_after(pool, c, &device.streams[0]);	/* after its event: it has passed at the first look */
	assert_int_equal(hugepin_pool_poll(pool), 0);
	stats = stats_of(pool);
	assert_int_equal(stats.active_bytes, 0);
	assert_int_equal(stats.active_blocks, 0);
	assert_int_equal(stats.deferred_bytes, 0);
	assert_int_equal(stats.allocs, 3);
	assert_int_equal(stats.frees, 3);
	end_device_pool(pool);
}

static void what_is_not_in_use_is_refused_and_leaves_no_fence(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, KIB), outside;
	void *stream = work_on(0);

	(void)state;
	assert_int_equal(hugepin_free_after(pool, &outside, &stream, 1), -EINVAL);
	assert_non_null(strstr(hugepin_error(), "not a block of the pinned pool"));
	assert_int_equal(hugepin_free_after(pool, p + 64, &stream, 1), -EINVAL);
	free_after(pool, p, stream);
	assert_int_equal(hugepin_free_after(pool, p, &stream, 1), -EINVAL);
	assert_int_equal(hugepin_free(pool, p), -EINVAL);
	assert_int_equal(device.live, 1);
	assert_int_equal(hugepin_free_after(pool, NULL, &stream, 1), 0);
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	end_device_pool(pool);
}

static void block_stays_in_use_when_a_stream_is_none(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, KIB), outside;
	void *wrong[] = { work_on(0), &outside }, *all = HPI_STREAM_DEVICE;

	(void)state;
	assert_int_equal(hugepin_free_after(pool, p, wrong, 2), -EINVAL);
	assert_non_null(strstr(hugepin_error(), "is not a stream"));
	assert_int_equal(hugepin_free_after(pool, p, &all, 1), -EINVAL);
	assert_int_equal(hugepin_free_after(pool, p, NULL, 1), -EINVAL);
	assert_int_equal(hugepin_free_after(pool, p, wrong, 1025), -EINVAL);
	assert_non_null(strstr(hugepin_error(), "1025 streams"));
	assert_int_equal(stats_of(pool).active_blocks, 1);
	assert_int_equal(device.live, 0);
	give(pool, p);
	end_device_pool(pool);
}

static void block_of_no_bytes_waits_for_nothing(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	free_after(pool, take(pool, 0), work_on(0));
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(stats_of(pool).active_blocks, 0);
	end_device_pool(pool);
}

static void without_a_runtime_nothing_is_waited_for(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	void *stream = &device;
	char *p = take(pool, HPI_2M);

	(void)state;
	pool->ctx->runtime = &hpi_runtime_none;
	assert_int_equal(hugepin_free_after(pool, p, &stream, 1), 0);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	assert_ptr_equal(take(pool, HPI_2M), p);
	assert_int_equal(hugepin_free_after(pool, p, NULL, 0), 0);
	assert_int_equal(stats_of(pool).free_bytes, HPI_2M);
	pool->ctx->runtime = &test_runtime;
	end_pool(pool);
}

/* ---- captures ---- */

static void while_its_stream_is_captured_a_block_waits(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	capture(0, true);
	free_after(pool, take(pool, KIB), work_on(0));
	assert_int_equal(device.records, 0);
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	assert_int_equal(hugepin_pool_drain(pool), -EBUSY);
	assert_non_null(strstr(hugepin_error(), "captured"));
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
	capture(0, false);
	assert_int_equal(hugepin_pool_poll(pool), KIB);		/* recorded */
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(device.device_records, 1);
	assert_int_equal(told.warnings, 0);
	end_device_pool(pool);
}

static void capture_of_another_stream_does_not_hold_up_a_named_one(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	capture(1, true);
	free_after(pool, take(pool, KIB), work_on(0));
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(hugepin_free_after(pool, take(pool, KIB), NULL, 0), 0);
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	capture(1, false);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	end_device_pool(pool);
}

/* ---- a runtime that fails ---- */

static void fence_that_cannot_be_recorded_is_told_once_and_made_up_for(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, KIB), *q = take(pool, KIB);

	(void)state;
	device.refuse_record = EIO;
	free_after(pool, p, work_on(0));
	free_after(pool, q, &device.streams[0]);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 2 * KIB);
	assert_int_equal(hugepin_pool_poll(pool), 2 * KIB);
	assert_int_equal(told.warnings, 1);
	assert_non_null(strstr(told.last, "refuses to record"));
	assert_int_equal(hugepin_pool_drain(pool), -EIO);
	assert_int_equal(hugepin_pool_destroy(pool), -EIO);
	assert_non_null(strstr(hugepin_error(), "the pool stays"));
	device.refuse_record = 0;
	assert_int_equal(hugepin_pool_drain(pool), 0);
	assert_int_equal(device.device_records, 1);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	end_device_pool(pool);
}

static void fence_that_nobody_can_tell_of_is_replaced_by_one_over_all_work(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	work_on(1);
	free_after(pool, take(pool, KIB), work_on(0));
	device.refuse_query = EIO;
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	assert_int_equal(told.warnings, 1);
	device.refuse_query = 0;
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	assert_true(device.device_records > 0);
	work_done(1);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	end_device_pool(pool);
}

static int no_malloc(const char *call)
{
	return strcmp(call, "malloc") ? 0 : ENOMEM;
}

static void without_memory_for_the_note_the_block_stays_in_use(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	void *stream = work_on(0);
	char *p = take(pool, KIB);

	(void)state;
	hpi_sys_fault = no_malloc;
	assert_int_equal(hugepin_free_after(pool, p, &stream, 1), -ENOMEM);
	hpi_sys_fault = NULL;
	assert_int_equal(stats_of(pool).active_blocks, 1);
	assert_int_equal(device.live, 0);
	give(pool, p);
	end_device_pool(pool);
}

/* C028 */
static void at_exit_of_the_runtime_blocks_pass_quietly(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *before = take(pool, KIB), *gathered = take(pool, KIB), *later = take(pool, KIB);

	(void)state;
	free_after(pool, before, work_on(0));
	assert_int_equal(hugepin_free_after(pool, gathered, NULL, 0), 0);
	device.shut_down = true;
	assert_int_equal(hugepin_pool_poll(pool), 0);
	free_after(pool, later, &device.streams[0]);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	assert_int_equal(told.warnings + told.errors, 0);
	assert_int_equal(device.live, 0);
	device.shut_down = false;	/* for the ledger: what is registered then ends with the process */
	end_device_pool(pool);
}

/* It takes fences, but never tells that one has passed: waiting for it has an end, and its blocks stay where they are. */
static void a_device_in_error_is_not_waited_for_without_end(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	free_after(pool, take(pool, KIB), work_on(0));
	work_done(0);
	device.refuse_query = EIO;
	assert_int_equal(hugepin_pool_drain(pool), -EIO);
	assert_non_null(strstr(hugepin_error(), "1024 bytes wait for a device"));
	assert_int_equal(hugepin_pool_destroy(pool), -EIO);
	assert_int_equal(stats_of(pool).deferred_bytes, KIB);
	device.refuse_query = 0;
	assert_int_equal(hugepin_pool_drain(pool), 0);
	end_device_pool(pool);
}

static void without_a_context_registered_memory_waits_for_one(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, KIB);

	(void)state;
	work_on(0);
	device.context = NULL;
	assert_int_equal(hugepin_free_after(pool, p, NULL, 0), 0);
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	device.context = &device;
	assert_int_equal(hugepin_pool_poll(pool), KIB);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	end_device_pool(pool);
}

static void without_a_context_unregistered_memory_is_free_at_once(void **state)
{
	struct hugepin_context *ctx = make_context(NULL);
	struct hugepin_pool *pool;

	(void)state;
	ctx->runtime = &device_runtime;
	pool = make_pool_on(ctx, HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	device.context = NULL;
	assert_int_equal(hugepin_free_after(pool, take(pool, KIB), NULL, 0), 0);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	end_device_pool(pool);
}

static void fence_is_recorded_in_the_context_of_the_thread_that_freed(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char other;

	(void)state;
	assert_int_equal(hugepin_free_after(pool, take(pool, KIB), NULL, 0), 0);
	device.context = &other;		/* the first is gone by the time of the fence */
	assert_int_equal(hugepin_free_after(pool, take(pool, KIB), NULL, 0), 0);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	assert_int_equal(device.device_records, 2);
	end_device_pool(pool);
}

/* ---- room ---- */

static void allocation_that_finds_no_room_looks_before_it_grows(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	char *p = take(pool, HPI_2M);

	(void)state;
	free_after(pool, p, work_on(0));
	work_done(0);
	assert_ptr_equal(take(pool, HPI_2M), p);
	assert_int_equal(stats_of(pool).segments, 1);
	give(pool, p);
	end_device_pool(pool);
}

static void allocation_that_fails_says_what_waits(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("pinned_cap", "2M", NULL));

	(void)state;
	free_after(pool, take(pool, HPI_2M), work_on(0));
	assert_null(hugepin_alloc(pool, HPI_2M, 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "2097152 bytes are freed but wait for a device"));
	work_done(0);
	give(pool, take(pool, HPI_2M));
	end_device_pool(pool);
}

static void destroying_waits_for_the_fences(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	free_after(pool, take(pool, KIB), work_on(0));
	assert_int_equal(hugepin_free_after(pool, take(pool, KIB), NULL, 0), 0);
	end_device_pool(pool);
	assert_int_equal(device.live, 0);
}

static void trim_leaves_what_waits(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	free_after(pool, take(pool, HPI_2M), work_on(0));
	assert_int_equal(hugepin_pool_trim(pool, 0), 0);
	assert_int_equal(runtime.unregisters, 0);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_2M);
	end_device_pool(pool);
}

/* ---- other processes, other threads ---- */

static void child_of_a_fork_is_refused_and_can_end_what_it_inherits(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct hugepin_context *ctx = pool->ctx;
	char *p = take(pool, KIB), *q = take(pool, KIB);
	int status;
	pid_t pid;

	(void)state;
	free_after(pool, p, work_on(0));
	pid = fork();
	if (!pid) {
		void *stream = &device.streams[0];

		if (hugepin_free_after(pool, q, &stream, 1) != -EPERM || hugepin_pool_poll(pool) != -EPERM ||
		    hugepin_pool_drain(pool) != -EPERM || hugepin_alloc_on(pool, KIB, 0, stream) || errno != EPERM)
			_exit(1);
		if (hugepin_pool_destroy(pool) || hugepin_context_destroy(ctx))
			_exit(2);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	work_done(0);
	assert_int_equal(hugepin_pool_poll(pool), 0);
	give(pool, q);
	end_device_pool(pool);
}

#define THREADS	4
#define ROUNDS	2000

struct worker {
	struct hugepin_pool *pool;
	size_t number;
	unsigned int failures;
};

/* Each block holds its owner's number while it is in use, and is checked before its stream is done. */
static void *use_and_free(void *arg)
{
	struct worker *worker = arg;
	void *stream;
	size_t round;
	char *p;

	for (round = 0; round < ROUNDS; round++) {
		p = round % 3 ? hugepin_alloc(worker->pool, KIB, 0) :
		    hugepin_alloc_on(worker->pool, KIB, 0, &device.streams[worker->number]);
		if (!p) {
			worker->failures++;
			continue;
		}
		memset(p, (int)worker->number, KIB);
		stream = work_on(worker->number);
		worker->failures += p[0] != (char)worker->number || p[KIB - 1] != (char)worker->number;
		worker->failures += hugepin_free_after(worker->pool, p, &stream, round % 5 ? 1 : 0) != 0;
		work_done(worker->number);
	}
	return NULL;
}

static void threads_free_after_their_streams_while_the_poller_looks(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	size_t i;

	(void)state;
	poller_run();
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .pool = pool, .number = i };
		assert_int_equal(pthread_create(&threads[i], NULL, use_and_free, &workers[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(workers[i].failures, 0);
	}
	assert_int_equal(hugepin_pool_drain(pool), 0);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	assert_int_equal(stats_of(pool).allocs, THREADS * ROUNDS);
	assert_int_equal(stats_of(pool).frees, THREADS * ROUNDS);
	end_device_pool(pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		DEVICE_TEST(block_is_not_used_again_before_its_stream_is_done),
		DEVICE_TEST(work_given_later_is_not_waited_for),
		DEVICE_TEST(block_waits_for_each_of_its_streams),
		DEVICE_TEST(without_streams_all_the_devices_work_is_waited_for),
		DEVICE_TEST(the_default_stream_is_a_stream),
		DEVICE_TEST(blocks_with_events_pending_are_deferred_and_never_active),
		DEVICE_TEST(what_is_not_in_use_is_refused_and_leaves_no_fence),
		DEVICE_TEST(block_stays_in_use_when_a_stream_is_none),
		DEVICE_TEST(block_of_no_bytes_waits_for_nothing),
		DEVICE_TEST(without_a_runtime_nothing_is_waited_for),
		DEVICE_TEST(while_its_stream_is_captured_a_block_waits),
		DEVICE_TEST(capture_of_another_stream_does_not_hold_up_a_named_one),
		DEVICE_TEST(fence_that_cannot_be_recorded_is_told_once_and_made_up_for),
		DEVICE_TEST(fence_that_nobody_can_tell_of_is_replaced_by_one_over_all_work),
		DEVICE_TEST(without_memory_for_the_note_the_block_stays_in_use),
		DEVICE_TEST(at_exit_of_the_runtime_blocks_pass_quietly),
		DEVICE_TEST(a_device_in_error_is_not_waited_for_without_end),
		DEVICE_TEST(without_a_context_registered_memory_waits_for_one),
		DEVICE_TEST(without_a_context_unregistered_memory_is_free_at_once),
		DEVICE_TEST(fence_is_recorded_in_the_context_of_the_thread_that_freed),
		DEVICE_TEST(allocation_that_finds_no_room_looks_before_it_grows),
		DEVICE_TEST(allocation_that_fails_says_what_waits),
		DEVICE_TEST(destroying_waits_for_the_fences),
		DEVICE_TEST(trim_leaves_what_waits),
		DEVICE_TEST(child_of_a_fork_is_refused_and_can_end_what_it_inherits),
		DEVICE_TEST(threads_free_after_their_streams_while_the_poller_looks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
