// SPDX-License-Identifier: MIT
/*
 * The lock of a pool's books. Most pools are used by one thread most of the time: a thread that has taken the mutex
 * often enough, with nobody else between, becomes the lock's owner and from then on marks it as held with a plain
 * store, as it enters its cache. Whoever else wants the lock takes the mutex, ends the ownership, and has the kernel
 * run a barrier on every CPU of the process, after which either the owner sees that it is none any more, or its mark is
 * seen.
 *
 * Ending an ownership costs microseconds: each time it takes twice as much patience to become an owner again.
 */
#include "pool_cache.h"

#include <sched.h>
#include <time.h>

#define PATIENCE_MIN	64			/* in a row one thread takes the mutex, then it owns the lock */
#define PATIENCE_MAX	65536
#define SPINS		200

/* It is held for a few hundred instructions: who finds it taken looks again for a moment before going to sleep. */
void hpi_pool_lock_init(struct hugepin_pool *pool)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&pool->lock.mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	pool->lock.patience = PATIENCE_MIN;
}

void hpi_pool_lock_end(struct hugepin_pool *pool)
{
	pthread_mutex_destroy(&pool->lock.mutex);
}

/*
 * Without the kernel's help (a filter of system calls was set meanwhile) there is only time: a store on its way out of
 * a CPU is seen by all long before this has passed.
 */
static void wait_for_stores(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	nanosleep(&pause, NULL);
}

/* With the mutex held. */
static void end_ownership(struct hpi_pool_lock *lock)
{
	struct cache *owner = lock->owner;
	unsigned int spins = 0;

	__atomic_store_n(&lock->owner, NULL, __ATOMIC_SEQ_CST);
	if (!hpi_cache_barrier())
		wait_for_stores();
	while (__atomic_load_n(&owner->holds, __ATOMIC_ACQUIRE)) {
		if (++spins > SPINS)
			sched_yield();
	}
	if (lock->patience < PATIENCE_MAX)
		lock->patience *= 2;
	lock->last = NULL;
}

/* With the mutex held. */
static void consider(struct hpi_pool_lock *lock, struct cache *cache)
{
	if (cache != lock->last) {
		lock->last = cache;
		lock->streak = 0;
	} else if (cache && ++lock->streak >= lock->patience && !hpi_cache_heavy) {
		__atomic_store_n(&lock->owner, cache, __ATOMIC_RELAXED);
	}
}

void hpi_pool_lock_mutex(struct hugepin_pool *pool, struct cache *cache)
{
	pthread_mutex_lock(&pool->lock.mutex);
	if (pool->lock.owner)
		end_ownership(&pool->lock);
	consider(&pool->lock, cache);
	pool->lock.holder = NULL;
}

void hpi_pool_lock(const struct hugepin_pool *pool)
{
	pool_lock_as((struct hugepin_pool *)pool, cache_at_hand(pool));
}

void hpi_pool_unlock(const struct hugepin_pool *pool)
{
	pool_unlock((struct hugepin_pool *)pool);
}
