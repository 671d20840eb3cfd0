// SPDX-License-Identifier: MIT
/*
 * Scopes and garbage: what is given back when, with sources of pages that the test controls.
 */
#include <sys/wait.h>
#include <time.h>

#include "pool_world.h"

static struct hugepin_scope *open_scope(struct hugepin_pool *pool)
{
	struct hugepin_scope *scope;

	assert_int_equal(hugepin_scope_open(pool, &scope), 0);
	return scope;
}

static char *take_in(struct hugepin_scope *scope, uint64_t bytes)
{
	char *p = hugepin_scope_alloc(scope, bytes, 0);

	assert_non_null(p);
	return p;
}

/* One rung of 2M pages. Options as key, value, ... NULL. */
#define POOL(...)	make_pool_on(make_context("strategy", "needed", __VA_ARGS__), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL)

static void closing_a_scope_gives_back_what_was_taken_in_it_and_nothing_else(void **state)
{
	struct hugepin_pool *pool = POOL(NULL);
	struct hugepin_scope *outer = open_scope(pool), *inner = open_scope(pool);
	char *own = take(pool, KIB), *a = take_in(outer, HPI_MIB(1)), *b = take_in(inner, HPI_MIB(2));

	(void)state;
	take_in(inner, 0);
	assert_int_equal(stats_of(pool).active_blocks, 4);
	/* The outer one first: they do not know of each other. */
	hugepin_scope_close(outer);
	assert_int_equal(stats_of(pool).active_bytes, HPI_MIB(2) + KIB);
	assert_int_equal(hugepin_free(pool, a), -EINVAL);
	hugepin_scope_close(inner);
	assert_int_equal(stats_of(pool).active_blocks, 1);
	assert_int_equal(hugepin_free(pool, b), -EINVAL);
	hugepin_scope_close(NULL);
	give(pool, own);
	end_pool(pool);
}

static void a_block_freed_before_its_scope_closes_is_freed_once(void **state)
{
	struct hugepin_pool *pool = POOL(NULL);
	struct hugepin_scope *scope = open_scope(pool);
	char *a = take_in(scope, HPI_MIB(1)), *b;

	(void)state;
	give(pool, a);
	assert_int_equal(hugepin_free(pool, a), -EINVAL);
	/* The same place, no longer the scope's. */
	b = take(pool, HPI_MIB(1));
	assert_ptr_equal(a, b);
	hugepin_scope_close(scope);
	assert_int_equal(stats_of(pool).active_blocks, 1);
	give(pool, b);
	end_pool(pool);
}

static void a_block_that_realloc_moves_stays_in_its_scope(void **state)
{
	struct hugepin_pool *pool = POOL(NULL);
	struct hugepin_scope *scope = open_scope(pool);
	char *a = take_in(scope, KIB), *wall = take(pool, KIB), *b;

	(void)state;
	a[0] = 'a';
	b = hugepin_realloc(pool, a, HPI_MIB(1));
	assert_ptr_not_equal(a, b);
	assert_int_equal(b[0], 'a');
	assert_ptr_equal(hugepin_realloc(pool, b, 2 * KIB), b);
	assert_non_null(hugepin_realloc(pool, b, 0));
	assert_int_equal(stats_of(pool).active_blocks, 2);
	hugepin_scope_close(scope);
	assert_int_equal(stats_of(pool).active_blocks, 1);
	give(pool, wall);
	end_pool(pool);
}

static void a_pool_with_an_open_scope_is_busy(void **state)
{
	struct hugepin_pool *pool = POOL(NULL);
	struct hugepin_scope *scope = open_scope(pool);

	(void)state;
	assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
	assert_non_null(strstr(hugepin_error(), "1 scopes or plans are open"));
	hugepin_scope_close(scope);
	end_pool(pool);
}

static void what_gathers_goes_back_once_it_is_enough(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_tensor_gb", "0.00390625", NULL);	/* 4 MiB */
	char *p[4];
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++)
		p[i] = take(pool, HPI_MIB(1));
	for (i = 0; i < 3; i++) {
		give(pool, p[i]);
		assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(i + 1));
	}
	assert_int_equal(hugepin_free(pool, p[0]), -EINVAL);
	give(pool, p[3]);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	assert_int_equal(stats_of(pool).free_bytes, HPI_MIB(4));
	end_pool(pool);
}

static void collecting_by_hand_and_trimming_do_not_wait_for_the_threshold(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_tensor_gb", "1", NULL);

	(void)state;
	give(pool, take(pool, HPI_MIB(2)));
	assert_int_equal(hugepin_pool_collect(pool), HPI_MIB(2));
	assert_int_equal(hugepin_pool_collect(pool), 0);
	give(pool, take(pool, HPI_MIB(2)));
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(2));
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(2));
	end_pool(pool);
}

static void a_pool_grows_while_it_has_garbage_but_does_not_fail_for_it(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_tensor_gb", "-1", "host_cap", "8M", NULL);
	struct hugepin_scope *scope = open_scope(pool);
	char *a = take_in(scope, HPI_MIB(4)), *b;

	(void)state;
	give(pool, a);
	b = take_in(scope, HPI_MIB(4));
	assert_ptr_not_equal(a, b);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(8));
	assert_int_equal(hugepin_pool_collect(pool), 0);
	/* At the cap: now the garbage is taken back. */
	assert_ptr_equal(take_in(scope, HPI_MIB(4)), a);
	assert_null(hugepin_scope_alloc(scope, 1, 0));
	assert_int_equal(errno, ENOMEM);
	hugepin_scope_close(scope);
	end_pool(pool);
}

static void what_is_passed_over_waits_for_its_scope_through_later_collections(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_memory_fraction_of_eager_deletion", "0.5",
					 "FLAGS_eager_delete_tensor_gb", "1", NULL);
	struct hugepin_scope *scope = open_scope(pool), *other = open_scope(pool);
	static const uint64_t sizes[] = { 1, 8, 2, 4 };
	char *p[4];
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++)
		p[i] = take_in(scope, HPI_MIB(sizes[i]));
	for (i = 0; i < 4; i++)
		give(pool, p[i]);
	/* Of 15 MiB the largest, 8, is half. */
	assert_int_equal(hugepin_pool_collect(pool), HPI_MIB(8));
	assert_int_equal(hugepin_pool_collect(pool), 0);
	/* 3 MiB more make 18: 1 is lacking to half of them. What was passed over is not looked at again. */
	p[0] = take_in(scope, HPI_MIB(1));
	p[1] = take_in(scope, HPI_MIB(2));
	give(pool, p[0]);
	give(pool, p[1]);
	assert_int_equal(hugepin_pool_collect(pool), HPI_MIB(2));
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(8));
	hugepin_scope_close(other);
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(8));
	hugepin_scope_close(scope);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	end_pool(pool);
}

static void wait_until_nothing_is_deferred(struct hugepin_pool *pool)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int i;

	for (i = 0; i < 5000 && stats_of(pool).deferred_bytes; i++)
		nanosleep(&pause, NULL);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
}

static void a_scope_closed_in_the_background_is_closed_at_once_for_its_user(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_scope", "false", NULL);
	struct hugepin_scope *scope = open_scope(pool);
	char *p = take_in(scope, HPI_MIB(2));
	int i;

	(void)state;
	for (i = 0; i < 100; i++)
		take_in(scope, KIB);
	hugepin_scope_close(scope);
	assert_int_equal(hugepin_free(pool, p), -EINVAL);
	assert_int_equal(stats_of(pool).active_blocks, 0);
	wait_until_nothing_is_deferred(pool);
	assert_true(pool->garbage.reaping);
	end_pool(pool);
}

static void a_pool_ends_although_a_scope_closes_in_the_background(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_scope", "false", NULL);
	struct hugepin_scope *scope;
	int i, j;

	(void)state;
	for (i = 0; i < 20; i++) {
		scope = open_scope(pool);
		for (j = 0; j < 50; j++)
			take_in(scope, KIB * (j % 5));
		hugepin_scope_close(scope);
	}
	end_pool(pool);
}

static int refuse_threads(const char *call)
{
	return strcmp(call, "pthread_create") ? 0 : EAGAIN;
}

static void without_a_thread_a_scope_closes_inside_the_call(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_scope", "false", NULL);
	struct hugepin_scope *scope = open_scope(pool);

	(void)state;
	take_in(scope, HPI_MIB(2));
	hpi_sys_fault = refuse_threads;
	hugepin_scope_close(scope);
	hpi_sys_fault = NULL;
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	assert_false(pool->garbage.reaping);
	assert_string_equal(hugepin_error(), "");
	end_pool(pool);
}

/* Behind a fence: retired, out of its scope, garbage only later. */
static void a_block_behind_a_fence_outlives_its_scope_and_is_not_lost(void **state)
{
	struct hugepin_pool *pool = POOL(NULL);
	struct hugepin_scope *scope = open_scope(pool);
	char *p[2] = { take_in(scope, HPI_MIB(2)), take_in(scope, HPI_MIB(2)) };
	struct hpi_retired *away[2];
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		away[i] = hpi_scope_leave(pool, p[i]);
		assert_non_null(away[i]);
		assert_int_equal(hpi_block_retire(pool, p[i], &away[i]->bytes), 0);
		assert_null(hpi_scope_leave(pool, p[i]));
	}
	hugepin_scope_close(scope);
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(4));
	hpi_garbage_put(pool, away[0]);
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(2));
	hpi_garbage_put(pool, away[1]);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	end_pool(pool);
}

static int faults_until, faults_seen;

static int fail_nth(const char *call)
{
	if (strcmp(call, "calloc"))
		return 0;
	return faults_seen++ == faults_until ? ENOMEM : 0;
}

static void without_memory_an_allocation_in_a_scope_changes_nothing_and_a_free_does_not_fail(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_tensor_gb", "1", NULL);
	struct hugepin_scope *scope;
	int failures = 0, i;
	char *p;

	(void)state;
	for (i = 0; i < 40; i++) {
		faults_until = i;
		faults_seen = 0;
		hpi_sys_fault = fail_nth;
		if (hugepin_scope_open(pool, &scope)) {
			hpi_sys_fault = NULL;
			failures++;
			continue;
		}
		p = hugepin_scope_alloc(scope, HPI_MIB(3), 0);
		hpi_sys_fault = NULL;
		if (!p) {
			assert_int_equal(errno, ENOMEM);
			assert_string_not_equal(hugepin_error(), "");
			assert_int_equal(stats_of(pool).active_blocks, 0);
			failures++;
		}
		hugepin_scope_close(scope);
		p = take(pool, KIB);
		faults_seen = faults_until;
		hpi_sys_fault = fail_nth;
		give(pool, p);
		hpi_sys_fault = NULL;
		assert_int_equal(stats_of(pool).active_blocks, 0);
		hugepin_pool_trim(pool, 0);
	}
	assert_in_range(failures, 3, 39);
	end_pool(pool);
}

static void in_a_child_of_a_fork_scopes_are_refused_and_forgotten(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_tensor_gb", "1", NULL);
	struct hugepin_scope *scope = open_scope(pool), *other;
	char *p = take_in(scope, HPI_MIB(2));
	int status;
	pid_t pid;

	(void)state;
	give(pool, take_in(scope, KIB));
	pid = fork();
	if (!pid) {
		int bad = hugepin_scope_alloc(scope, 1, 0) != NULL || errno != EPERM;

		bad |= hugepin_scope_open(pool, &other) != -EPERM || hugepin_pool_collect(pool) != -EPERM;
		hugepin_scope_close(scope);
		bad |= hugepin_pool_destroy(pool) != 0;
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	give(pool, p);
	hugepin_scope_close(scope);
	end_pool(pool);
}

#define WORKERS	4

static void *open_take_free_close(void *arg)
{
	struct hugepin_pool *pool = arg;
	struct hugepin_scope *scope;
	void *p[8];
	int i, j;

	for (i = 0; i < 200; i++) {
		if (hugepin_scope_open(pool, &scope))
			return arg;
		for (j = 0; j < 8; j++)
			p[j] = hugepin_scope_alloc(scope, (size_t)(j + 1) << 10, 0);
		for (j = 0; j < 8; j += 2)
			if (!p[j] || hugepin_free(pool, p[j]))
				return arg;
		if (i % 16 == 0)
			hugepin_pool_collect(pool);
		hugepin_scope_close(scope);
	}
	return NULL;
}

static void threads_have_scopes_of_one_pool_side_by_side(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_scope", "false", "FLAGS_eager_delete_tensor_gb",
					 "0.0001", "FLAGS_memory_fraction_of_eager_deletion", "0.7", NULL);
	pthread_t threads[WORKERS];
	void *failed;
	int i;

	(void)state;
	for (i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_take_free_close, pool), 0);
	for (i = 0; i < WORKERS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(stats_of(pool).active_blocks, 0);
	assert_int_equal(stats_of(pool).frees, stats_of(pool).allocs);
	end_pool(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(closing_a_scope_gives_back_what_was_taken_in_it_and_nothing_else),
		TEST(a_block_freed_before_its_scope_closes_is_freed_once),
		TEST(a_block_that_realloc_moves_stays_in_its_scope),
		TEST(a_pool_with_an_open_scope_is_busy),
		TEST(what_gathers_goes_back_once_it_is_enough),
		TEST(collecting_by_hand_and_trimming_do_not_wait_for_the_threshold),
		TEST(a_pool_grows_while_it_has_garbage_but_does_not_fail_for_it),
		TEST(what_is_passed_over_waits_for_its_scope_through_later_collections),
		TEST(a_scope_closed_in_the_background_is_closed_at_once_for_its_user),
		TEST(a_pool_ends_although_a_scope_closes_in_the_background),
		TEST(without_a_thread_a_scope_closes_inside_the_call),
		TEST(a_block_behind_a_fence_outlives_its_scope_and_is_not_lost),
		TEST(without_memory_an_allocation_in_a_scope_changes_nothing_and_a_free_does_not_fail),
		TEST(in_a_child_of_a_fork_scopes_are_refused_and_forgotten),
		TEST(threads_have_scopes_of_one_pool_side_by_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
