// SPDX-License-Identifier: MIT
/* The lock of a pool's books: owned by the thread that uses it alone, shared again as soon as another comes. */
#include "pool_world.h"

#include "pool_cache.h"

#define OFTEN	200				/* in a row makes an owner */
#define ROUNDS	20000

static struct hugepin_pool *new_pool(void)
{
	return make_pool_on(make_context("cache_cap", "64M", NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
}

/* What comes from the arena takes the lock each time. */
static void use(struct hugepin_pool *pool, unsigned int times)
{
	while (times--)
		give(pool, take(pool, HPI_MIB(1)));
}

static void who_takes_the_lock_often_owns_it(void **state)
{
	struct hugepin_pool *pool = new_pool();

	(void)state;
	use(pool, 2);
	assert_null(pool->lock.owner);
	use(pool, OFTEN);
	if (hpi_cache_heavy)
		assert_null(pool->lock.owner);	/* membarrier() is not to be had here */
	else
		assert_ptr_equal(pool->lock.owner, cache_at_hand(pool));
	assert_int_equal(stats_of(pool).allocs, OFTEN + 2);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	end_pool(pool);
}

static void *use_once(void *arg)
{
	use(arg, 1);
	return NULL;
}

static void another_thread_ends_the_ownership_and_it_comes_later_again(void **state)
{
	struct hugepin_pool *pool = new_pool();
	unsigned int patience, i;
	pthread_t thread;

	(void)state;
	if (hpi_cache_heavy)
		skip();		/* membarrier() is not to be had here at all */
	for (i = 0; i < 3; i++) {
		patience = pool->lock.patience;
		use(pool, patience + 2);
		assert_non_null(pool->lock.owner);
		assert_int_equal(pthread_create(&thread, NULL, use_once, pool), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_null(pool->lock.owner);
		assert_in_range(pool->lock.patience, patience + 1, UINT32_MAX);
	}
	end_pool(pool);
}

static void *use_much(void *arg)
{
	use(arg, ROUNDS);
	return NULL;
}

/* Ownership comes and goes while three threads change the same books. */
static void books_are_right_whoever_owned_the_lock(void **state)
{
	struct hugepin_pool *pool = new_pool();
	pthread_t thread[2];
	unsigned int i;

	(void)state;
	use(pool, OFTEN);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, use_much, pool), 0);
	for (i = 0; i < 100; i++) {
		hpi_pool_lock(pool);
		pool->lock.patience = 1;	/* so that it comes and goes as often as it can */
		hpi_pool_unlock(pool);
		use(pool, 100);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(stats_of(pool).allocs, 2 * ROUNDS + OFTEN + 100 * 100);
	assert_int_equal(stats_of(pool).frees, 2 * ROUNDS + OFTEN + 100 * 100);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	assert_int_equal(hpi_arena_check(pool->arena), 0);
	end_pool(pool);
}

static int no_membarrier(const char *call)
{
	return strcmp(call, "membarrier") ? 0 : EPERM;
}

static void without_the_kernels_barrier_ownership_ends_all_the_same(void **state)
{
	struct hugepin_pool *pool = new_pool();
	pthread_t thread;

	(void)state;
	use(pool, OFTEN);
	hpi_sys_fault = no_membarrier;
	assert_int_equal(pthread_create(&thread, NULL, use_once, pool), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	hpi_sys_fault = NULL;
	assert_null(pool->lock.owner);
	assert_int_equal(stats_of(pool).allocs, OFTEN + 1);
	end_pool(pool);
}

static void an_owner_that_ended_leaves_the_lock_to_others(void **state)
{
	struct hugepin_pool *pool = new_pool();
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, use_much, pool), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	use(pool, 1);
	assert_int_equal(stats_of(pool).allocs, ROUNDS + 1);
	end_pool(pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(who_takes_the_lock_often_owns_it),
		TEST(another_thread_ends_the_ownership_and_it_comes_later_again),
		TEST(books_are_right_whoever_owned_the_lock),
		TEST(without_the_kernels_barrier_ownership_ends_all_the_same),
		TEST(an_owner_that_ended_leaves_the_lock_to_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
