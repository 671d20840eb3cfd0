// SPDX-License-Identifier: MIT
/* Who watches a pool knows of each segment before it goes, and can do what it likes meanwhile. Growth ahead of use. */
#include "fence_world.h"

#include <sched.h>
#include <sys/wait.h>

struct observer {
	struct hugepin_pool *pool;
	unsigned int came, went;
	uint64_t bytes;				/* that it knows of */
	bool allocate;
	int trimmed, watched;			/* what these said inside the callback */
	struct hugepin_watch *watch;
	pthread_mutex_t *lock;
};

static void observe(enum hugepin_segment_event event, const struct hugepin_segment_info *info, void *arg)
{
	struct observer *observer = arg;

	if (observer->lock)
		pthread_mutex_lock(observer->lock);
	if (event == HUGEPIN_SEGMENT_CAME) {
		observer->came++;
		observer->bytes += info->bytes;
		*(volatile char *)info->addr = 1;
	} else {
		observer->went++;
		observer->bytes -= info->bytes;
		*(volatile char *)info->addr = 2;	/* still there */
	}
	if (observer->lock)
		pthread_mutex_unlock(observer->lock);
	if (!observer->allocate)
		return;
	observer->allocate = false;
	give(observer->pool, take(observer->pool, HPI_MIB(32)));
	observer->trimmed = (int)hugepin_pool_trim(observer->pool, 0);
	observer->watched = hugepin_segment_unwatch(observer->watch);
}

static void watch(struct observer *observer, struct hugepin_pool *pool)
{
	observer->pool = pool;
	assert_int_equal(hugepin_segment_watch(pool, observe, observer, &observer->watch), 0);
}

static void watch_is_told_of_segments_there_are_and_of_those_that_come(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct observer first = { .came = 0 }, second = { .came = 0 };
	char *p = take(pool, HPI_2M), *q;

	(void)state;
	watch(&first, pool);
	assert_int_equal(first.bytes, HPI_2M);
	q = take(pool, HPI_MIB(8));
	assert_int_equal(first.bytes, stats_of(pool).mapped_bytes);
	watch(&second, pool);
	assert_int_equal(second.bytes, first.bytes);
	assert_int_equal(second.came, first.came);
	give(pool, p);
	give(pool, q);
	assert_int_equal(hugepin_segment_unwatch(second.watch), 0);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(10));
	assert_int_equal(first.bytes, 0);
	assert_int_equal(first.went, first.came);
	assert_int_equal(second.went, 0);
	end_device_pool(pool);
}

static void destroying_tells_before_anything_is_unmapped(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct observer observer = { .came = 0 };

	(void)state;
	watch(&observer, pool);
	give(pool, take(pool, HPI_2M));
	end_device_pool(pool);
	assert_int_equal(observer.went, 1);
}

static void every_way_to_grow_tells_of_its_segments(void **state)
{
	static const char *const policies[] = { "0", "2", "3", "4" };
	uint64_t sizes[2] = { HPI_MIB(3), HPI_MIB(3) };
	struct hugepin_plan *plan;
	void *group[2], *p;
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		struct hugepin_pool *pool = device_pool(make_context("static_memory_policy", policies[i], NULL));
		struct observer observer = { .came = 0 };

		watch(&observer, pool);
		assert_int_equal(hugepin_group_alloc(pool, sizes, 2, 0, group), 0);
		assert_int_equal(observer.bytes, stats_of(pool).mapped_bytes);
		p = hugepin_realloc(pool, group[1], HPI_MIB(8));	/* in place, at the end */
		assert_ptr_equal(p, group[1]);
		assert_int_equal(observer.bytes, stats_of(pool).mapped_bytes);
		give(pool, p);
		give(pool, group[0]);
		assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(4), &plan), 0);
		assert_int_equal(observer.bytes, stats_of(pool).mapped_bytes);
		assert_non_null(hugepin_plan_alloc(plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN));
		assert_int_equal(observer.bytes, stats_of(pool).mapped_bytes);
		assert_int_equal(hugepin_plan_alloc(plan, HPI_MIB(32), 0) == NULL, i == 1);	/* a fixed one is full */
		assert_int_equal(observer.bytes, stats_of(pool).mapped_bytes);
		hugepin_plan_end(plan);
		/* A larger one gives no pages back that nobody was told of. */
		assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(64), &plan), 0);
		assert_int_equal(observer.bytes, stats_of(pool).mapped_bytes);
		assert_int_equal(observer.went, 0);
		p = hugepin_plan_alloc(plan, HPI_MIB(1), HUGEPIN_ALLOC_CLEAN);
		assert_non_null(p);
		hugepin_plan_end(plan);
		assert_true(hugepin_pool_trim(pool, 0) > 0);
		assert_int_equal(observer.bytes, 0);
		end_device_pool(pool);
		device.free_running = false;
	}
}

static void trimming_empties_the_caches(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct observer observer = { .came = 0 };

	(void)state;
	watch(&observer, pool);
	give(pool, take(pool, 100));
	give(pool, take(pool, 20 * KIB));
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_2M);
	assert_int_equal(observer.bytes, 0);
	end_device_pool(pool);
}

static void callback_may_allocate_but_not_trim_or_unwatch(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct observer observer = { .allocate = true };
	char *p;

	(void)state;
	watch(&observer, pool);
	p = take(pool, HPI_2M);
	assert_int_equal(observer.trimmed, -EDEADLK);
	assert_int_equal(observer.watched, -EDEADLK);
	assert_int_equal(observer.bytes, stats_of(pool).mapped_bytes);	/* what it made come itself included */
	assert_int_equal(observer.came, stats_of(pool).segments);
	give(pool, p);
	end_device_pool(pool);
	assert_int_equal(observer.bytes, 0);
}

static void segment_that_cannot_go_is_told_of_once(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct observer observer = { .came = 0 };

	(void)state;
	watch(&observer, pool);
	give(pool, take(pool, HPI_2M));
	runtime.refuse_unregister = true;
	assert_int_equal(hugepin_pool_trim(pool, 0), -EIO);
	assert_int_equal(hugepin_pool_trim(pool, 0), -EIO);
	assert_int_equal(observer.went, 1);
	runtime.refuse_unregister = false;
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_2M);
	end_device_pool(pool);
	assert_int_equal(observer.went, 1);
}

/* An allocation must not wait for callbacks, so it gives no segment back. */
static void allocation_in_a_watched_pool_gives_no_segment_back(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("pinned_cap", "8M", NULL));
	struct observer observer = { .came = 0 };
	char *p = take(pool, HPI_2M), *q = take(pool, HPI_2M), *r = take(pool, HPI_2M);

	(void)state;
	watch(&observer, pool);
	give(pool, p);
	give(pool, r);
	assert_null(hugepin_alloc(pool, HPI_MIB(6), 0));
	assert_int_equal(observer.went, 0);
	give(pool, q);
	end_device_pool(pool);
}

static const char *failing;

static int no_memory(const char *call)
{
	return strcmp(call, failing) ? 0 : ENOMEM;
}

static void without_memory_there_is_no_watch(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct observer observer = { .came = 0 };
	const char *calls[] = { "malloc", "calloc" };
	char *p = take(pool, HPI_2M);
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		failing = calls[i];
		hpi_sys_fault = no_memory;
		assert_int_equal(hugepin_segment_watch(pool, observe, &observer, &observer.watch), -ENOMEM);
		hpi_sys_fault = NULL;
	}
	give(pool, p);
	end_device_pool(pool);
	assert_int_equal(observer.came + observer.went, 0);
}

struct worker {
	struct hugepin_pool *pool;
	pthread_mutex_t *lock;
	bool trims;
};

static void *take_and_give(void *arg)
{
	struct worker *worker = arg;
	int i;
	char *p;

	for (i = 0; i < 300; i++) {
		if (worker->trims) {
			hugepin_pool_trim(worker->pool, 0);
			continue;
		}
		p = hugepin_alloc(worker->pool, HPI_2M * (1 + (uint64_t)i % 3), 0);
		pthread_mutex_lock(worker->lock);	/* the callback's: other threads may be in it */
		hugepin_free(worker->pool, p);
		pthread_mutex_unlock(worker->lock);
	}
	return NULL;
}

static void threads_grow_and_trim_a_watched_pool(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct observer observer = { .lock = &lock };
	struct worker workers[3] = { { pool, &lock, false }, { pool, &lock, false }, { pool, &lock, true } };
	pthread_t threads[3];
	size_t i;

	(void)state;
	watch(&observer, pool);
	for (i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &workers[i]), 0);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	hugepin_pool_trim(pool, 0);
	assert_int_equal(observer.bytes, 0);
	assert_int_equal(observer.came, observer.went);
	end_device_pool(pool);
}

static void child_of_a_fork_ends_the_watches_it_inherits(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	struct hugepin_context *ctx = pool->ctx;
	struct observer observer = { .came = 0 }, other = { .came = 0 };
	int status;
	pid_t pid;

	(void)state;
	watch(&observer, pool);
	watch(&other, pool);
	pid = fork();
	if (!pid) {
		if (hugepin_segment_watch(pool, observe, &observer, &observer.watch) != -EPERM ||
		    hugepin_segment_unwatch(observer.watch))
			_exit(1);
		_exit(hugepin_pool_destroy(pool) || hugepin_context_destroy(ctx) ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	end_device_pool(pool);
}

/* ---- growing ahead ---- */

/* C055: what was made ready is not made again by the allocations that use it. */
static void grown_pool_serves_without_mapping_or_registering(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);
	unsigned int maps, registers;
	char *p[8];
	size_t i;

	(void)state;
	assert_int_equal(hugepin_pool_grow(pool, HPI_MIB(64), 0), 0);
	assert_int_equal(stats_of(pool).free_bytes, HPI_MIB(64));
	assert_int_equal(stats_of(pool).registered_bytes, HPI_MIB(64));
	maps = source_2m.maps;
	registers = runtime.registers;
	for (i = 0; i < 8; i++)
		p[i] = take(pool, HPI_MIB(8));
	assert_int_equal(source_2m.maps, maps);
	assert_int_equal(runtime.registers, registers);
	for (i = 0; i < 8; i++)
		give(pool, p[i]);
	end_device_pool(pool);
}

static void growth_adds_to_what_is_free(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	give(pool, take(pool, HPI_MIB(8)));
	assert_int_equal(hugepin_pool_grow(pool, HPI_MIB(5), 0), 0);
	assert_int_equal(stats_of(pool).free_bytes, HPI_MIB(14));
	give(pool, take(pool, HPI_MIB(14)));		/* in one piece with it */
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(14));
	end_device_pool(pool);
}

static void growth_that_fails_leaves_what_was(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("pinned_cap", "3G", NULL));

	(void)state;
	give(pool, take(pool, HPI_2M));
	assert_int_equal(hugepin_pool_grow(pool, HPI_GIB(4), 0), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "growing ahead of 4294967296 bytes"));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_2M);
	assert_int_equal(hugepin_pool_grow(pool, 0, 0), -EINVAL);
	assert_int_equal(hugepin_pool_grow(pool, HPI_2M, 2), -EINVAL);
	assert_int_equal(hugepin_pool_grow(pool, UINT64_MAX, 0), -ENOMEM);
	end_device_pool(pool);
}

static void background_growth_is_of_use_from_its_first_piece(void **state)
{
	pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
	struct hugepin_pool *pool = device_pool(make_context("register_threads", "1", NULL));
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };
	char *p;

	(void)state;
	pthread_mutex_lock(&held);
	runtime.held = &held;
	assert_int_equal(hugepin_pool_grow(pool, HPI_GIB(3), HUGEPIN_GROW_BACKGROUND), 0);
	assert_int_equal(hugepin_pool_grow(pool, HPI_2M, HUGEPIN_GROW_BACKGROUND), -EBUSY);
	do {		/* let one registration after the other go, until the first piece is there */
		pthread_mutex_unlock(&held);
		sched_yield();
		pthread_mutex_lock(&held);
		assert_int_equal(hugepin_pool_stats_get(pool, &stats), 0);
	} while (!stats.free_bytes);
	assert_true(stats.mapped_bytes <= HPI_GIB(3));
	p = hugepin_alloc(pool, HPI_MIB(512), 0);
	assert_non_null(p);
	pthread_mutex_unlock(&held);
	assert_int_equal(hugepin_pool_wait(pool), 0);
	assert_int_equal(hugepin_pool_wait(pool), 0);
	runtime.held = NULL;
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_GIB(3));
	give(pool, p);
	end_device_pool(pool);
}

static void background_growth_that_fails_says_what_came(void **state)
{
	struct hugepin_pool *pool = device_pool(make_context("pinned_cap", "2G", NULL));

	(void)state;
	assert_int_equal(hugepin_pool_wait(pool), 0);
	assert_int_equal(hugepin_pool_grow(pool, HPI_GIB(3), HUGEPIN_GROW_BACKGROUND), 0);
	assert_int_equal(hugepin_pool_wait(pool), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "2147483648 bytes have come, and stay"));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_GIB(2));
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_GIB(2));
	assert_int_equal(hugepin_pool_grow(pool, HPI_GIB(1), HUGEPIN_GROW_BACKGROUND), 0);
	assert_int_equal(hugepin_pool_wait(pool), 0);
	end_device_pool(pool);
}

static void destroying_ends_a_growth_in_the_background(void **state)
{
	struct hugepin_pool *pool = device_pool(NULL);

	(void)state;
	assert_int_equal(hugepin_pool_grow(pool, HPI_GIB(6), HUGEPIN_GROW_BACKGROUND), 0);
	end_device_pool(pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		DEVICE_TEST(watch_is_told_of_segments_there_are_and_of_those_that_come),
		DEVICE_TEST(destroying_tells_before_anything_is_unmapped),
		DEVICE_TEST(every_way_to_grow_tells_of_its_segments),
		DEVICE_TEST(trimming_empties_the_caches),
		DEVICE_TEST(callback_may_allocate_but_not_trim_or_unwatch),
		DEVICE_TEST(segment_that_cannot_go_is_told_of_once),
		DEVICE_TEST(allocation_in_a_watched_pool_gives_no_segment_back),
		DEVICE_TEST(without_memory_there_is_no_watch),
		DEVICE_TEST(threads_grow_and_trim_a_watched_pool),
		DEVICE_TEST(child_of_a_fork_ends_the_watches_it_inherits),
		DEVICE_TEST(grown_pool_serves_without_mapping_or_registering),
		DEVICE_TEST(growth_adds_to_what_is_free),
		DEVICE_TEST(growth_that_fails_leaves_what_was),
		DEVICE_TEST(background_growth_is_of_use_from_its_first_piece),
		DEVICE_TEST(background_growth_that_fails_says_what_came),
		DEVICE_TEST(destroying_ends_a_growth_in_the_background),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
