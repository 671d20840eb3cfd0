// SPDX-License-Identifier: MIT
/*
 * Watches: a program is told when a pool's segments come and go, to register them elsewhere (an RDMA stack, another
 * process).
 *
 * Callbacks run without any lock of the pool, one at a time. One thread tells: what comes meanwhile is told by that
 * one, and nobody waits for it. Only where a segment goes somebody must wait, since the memory may not be unmapped
 * before everyone knows; so a pool that is watched gives segments back in hugepin_pool_trim() and
 * hugepin_pool_destroy() only, never inside an allocation.
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hugepin_watch {
	struct hugepin_watch *next;
	struct hugepin_pool *pool;
	void (*fn)(enum hugepin_segment_event event, const struct hugepin_segment_info *info, void *arg);
	void *arg;
};

/* ---- who tells ---- */

bool hpi_watches_are_told_here(struct hugepin_pool *pool)
{
	struct hpi_watches *watches = &pool->watches;
	bool is;

	pthread_mutex_lock(&watches->lock);
	is = watches->telling && pthread_equal(watches->teller, pthread_self());
	pthread_mutex_unlock(&watches->lock);
	return is;
}

/* @wait: false: another thread tells already, and will see what is new. */
static bool begin_telling(struct hpi_watches *watches, bool wait)
{
	pthread_mutex_lock(&watches->lock);
	while (watches->telling && wait)
		pthread_cond_wait(&watches->idle, &watches->lock);
	if (watches->telling) {
		watches->more = true;
		pthread_mutex_unlock(&watches->lock);
		return false;
	}
	watches->telling = true;
	watches->teller = pthread_self();
	watches->more = false;
	pthread_mutex_unlock(&watches->lock);
	return true;
}

/* False: something came meanwhile, and is still to be told. */
static bool end_telling(struct hpi_watches *watches)
{
	bool ended;

	pthread_mutex_lock(&watches->lock);
	ended = !watches->more;
	watches->more = false;
	if (ended) {
		watches->telling = false;
		pthread_cond_broadcast(&watches->idle);
	}
	pthread_mutex_unlock(&watches->lock);
	return ended;
}

static void tell(struct hpi_watches *watches, enum hugepin_segment_event event, const struct hugepin_segment_info *info)
{
	const struct hugepin_watch *watch;

	for (watch = watches->first; watch; watch = watch->next)
		watch->fn(event, info, watch->arg);
}

/* ---- segments that come ---- */

/* The next that is in the pool and not told; false: all are. */
static bool take_new(struct hugepin_pool *pool, struct hugepin_segment_info *info)
{
	bool found = false;
	size_t i;

	hpi_pool_lock(pool);
	for (i = 0; i < pool->segment_count && !found; i++) {
		struct segment *segment = &pool->segments[i];

		found = !segment->told && !segment->leaving;
		if (found) {
			segment->told = true;
			hpi_segment_describe(pool, segment, info);
		}
	}
	hpi_pool_unlock(pool);
	return found;
}

static void tell_new(struct hugepin_pool *pool)
{
	struct hugepin_segment_info info;

	do {
		while (take_new(pool, &info))
			tell(&pool->watches, HUGEPIN_SEGMENT_CAME, &info);
	} while (!end_telling(&pool->watches));
}

bool hpi_watches_any(struct hugepin_pool *pool)
{
	return __atomic_load_n(&pool->watches.first, __ATOMIC_ACQUIRE);
}

void hpi_watches_tell(struct hugepin_pool *pool)
{
	if (hpi_watches_any(pool) && begin_telling(&pool->watches, false))
		tell_new(pool);
}

/* ---- segments that go ---- */

/* The next that is leaving and of which it was told that it came. */
static bool take_leaving(struct hugepin_pool *pool, struct hugepin_segment_info *info)
{
	bool found = false;
	size_t i;

	hpi_pool_lock(pool);
	for (i = 0; i < pool->segment_count && !found; i++) {
		struct segment *segment = &pool->segments[i];

		found = segment->told && segment->leaving;
		if (found) {
			segment->told = false;
			hpi_segment_describe(pool, segment, info);
		}
	}
	hpi_pool_unlock(pool);
	return found;
}

int hpi_watches_trim(struct hugepin_pool *pool, uint64_t keep_bytes, uint64_t *given)
{
	struct hugepin_segment_info info;
	int err;

	if (hpi_watches_are_told_here(pool))
		return hpi_error(-EDEADLK, "%s pool: not trimmed by a callback of its own watch", hpi_pool_name(pool));
	begin_telling(&pool->watches, true);
	pthread_mutex_lock(&pool->growth);
	hpi_segments_part(pool, keep_bytes);
	pthread_mutex_unlock(&pool->growth);
	while (take_leaving(pool, &info))
		tell(&pool->watches, HUGEPIN_SEGMENT_GOES, &info);
	pthread_mutex_lock(&pool->growth);
	err = hpi_segments_expel(pool, given);
	pthread_mutex_unlock(&pool->growth);
	tell_new(pool);
	return err;
}

/* ---- watches come and go ---- */

/* For one that is new: what the others know already. */
static int tell_known(struct hugepin_pool *pool, const struct hugepin_watch *watch)
{
	struct hugepin_segment_info *known;
	size_t count, i, room = 0, n = 0;

	hpi_pool_lock(pool);
	count = pool->segment_count;
	hpi_pool_unlock(pool);
	known = hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(count ? count : 1, sizeof(*known));
	if (!known)
		return -ENOMEM;
	room = count;
	hpi_pool_lock(pool);
	for (i = 0; i < pool->segment_count && n < room; i++) {
		if (pool->segments[i].told)
			hpi_segment_describe(pool, &pool->segments[i], &known[n++]);
	}
	hpi_pool_unlock(pool);
	for (i = 0; i < n; i++)
		watch->fn(HUGEPIN_SEGMENT_CAME, &known[i], watch->arg);
	free(known);
	return 0;
}

/* With growth held: a segment either goes before anybody is told of it, or everyone will be told that it goes. */
static void add(struct hugepin_pool *pool, struct hugepin_watch *watch)
{
	pthread_mutex_lock(&pool->growth);
	watch->next = pool->watches.first;
	__atomic_store_n(&pool->watches.first, watch, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&pool->growth);
}

int hugepin_segment_watch(struct hugepin_pool *pool,
			  void (*fn)(enum hugepin_segment_event event, const struct hugepin_segment_info *info, void *arg),
			  void *arg, struct hugepin_watch **out)
{
	struct hpi_watches *watches = &pool->watches;
	struct hugepin_watch *watch;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	if (!fn)
		return hpi_error(-EINVAL, "%s pool: a watch with nobody to tell", hpi_pool_name(pool));
	if (hpi_watches_are_told_here(pool))
		return hpi_error(-EDEADLK, "%s pool: no watch is added by a callback of one", hpi_pool_name(pool));
	watch = hpi_sys_fault && hpi_sys_fault("malloc") ? NULL : malloc(sizeof(*watch));
	if (!watch)
		return hpi_error(-ENOMEM, "%s pool: no memory for a watch", hpi_pool_name(pool));
	*watch = (struct hugepin_watch){ .pool = pool, .fn = fn, .arg = arg };
	begin_telling(watches, true);
	err = tell_known(pool, watch);
	if (!err)
		add(pool, watch);
	tell_new(pool);
	if (err) {
		free(watch);
		return hpi_error(err, "%s pool: no memory to tell a new watch of its segments", hpi_pool_name(pool));
	}
	*out = watch;
	return 0;
}

int hugepin_segment_unwatch(struct hugepin_watch *watch)
{
	struct hugepin_watch **link;
	struct hpi_watches *watches;
	struct hugepin_pool *pool;
	bool child;

	if (!watch)
		return 0;
	pool = watch->pool;
	watches = &pool->watches;
	child = hpi_context_is_child(pool->ctx);
	if (!child && hpi_watches_are_told_here(pool))
		return hpi_error(-EDEADLK, "%s pool: a watch is not ended by a callback of one", hpi_pool_name(pool));
	if (!child)
		begin_telling(watches, true);
	for (link = &watches->first; *link != watch; link = &(*link)->next)
		;
	__atomic_store_n(link, watch->next, __ATOMIC_RELEASE);
	if (!child)
		tell_new(pool);
	free(watch);
	return 0;
}

void hpi_watches_init(struct hugepin_pool *pool)
{
	pthread_mutex_init(&pool->watches.lock, NULL);
	pthread_cond_init(&pool->watches.idle, NULL);
}

/* Those that the program has not ended go with the pool. */
void hpi_watches_end(struct hugepin_pool *pool, bool child)
{
	struct hugepin_watch *watch, *next;

	for (watch = pool->watches.first; watch; watch = next) {
		next = watch->next;
		free(watch);
	}
	if (child)
		return;
	pthread_cond_destroy(&pool->watches.idle);
	pthread_mutex_destroy(&pool->watches.lock);
}
