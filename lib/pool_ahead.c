// SPDX-License-Identifier: MIT
/*
 * A pool that grows ahead of its use: so much memory is mapped, zeroed and registered before it is asked for. In
 * pieces, so that the first is of use while the last is still being pinned, and no lock is held for long.
 */
#include "pool.h"

#include <errno.h>
#include <stdio.h>

#define PIECE_BYTES	HPI_GIB(1)

struct piece {
	uint64_t bytes;
	uint64_t mapped;			/* of the last rung's attempt */
};

static uint64_t min_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int map_piece(struct hugepin_pool *pool, size_t rung, void *arg)
{
	struct piece *piece = arg;
	uint64_t bytes = hpi_round_up(piece->bytes, hpi_ladder_granule(&pool->ladder.rungs[rung]));
	struct place place;
	int err;

	if (!hpi_place_more(pool, rung, bytes, &place))
		return hpi_error(-ENOMEM, "no room in the %s pool's address space", hpi_pool_name(pool));
	err = hpi_segment_map(pool, rung, &place, bytes);
	if (!err)
		piece->mapped = bytes;
	return err;
}

static bool is_stopped(struct hugepin_pool *pool)
{
	bool stopped;

	pthread_mutex_lock(&pool->ahead.lock);
	stopped = pool->ahead.stop;
	pthread_mutex_unlock(&pool->ahead.lock);
	return stopped;
}

/* @got: how much, also on failure. -ECANCELED: the pool is going. */
static int grow_ahead(struct hugepin_pool *pool, uint64_t bytes, uint64_t *got)
{
	struct piece piece;
	int err = 0;

	for (*got = 0; !err && *got < bytes; *got += piece.mapped) {
		if (is_stopped(pool))
			return hpi_error(-ECANCELED, "%s pool: it is being destroyed", hpi_pool_name(pool));
		piece = (struct piece){ .bytes = min_bytes(PIECE_BYTES, bytes - *got) };
		pthread_mutex_lock(&pool->growth);
		err = hpi_pool_descend(pool, map_piece, &piece);
		pthread_mutex_unlock(&pool->growth);
		hpi_watches_tell(pool);
	}
	if (!err)
		return 0;
	if (err != -EDQUOT && err != -EIO)
		err = -ENOMEM;
	return hpi_pool_refuse(pool, err, "growing ahead", bytes);
}

/* ---- in the background ---- */

static void work(void *arg)
{
	struct hugepin_pool *pool = arg;
	struct hpi_ahead *ahead = &pool->ahead;
	uint64_t got;
	int err = grow_ahead(pool, ahead->bytes, &got);

	pthread_mutex_lock(&ahead->lock);
	ahead->err = err;
	ahead->got = got;
	if (err)
		snprintf(ahead->text, sizeof(ahead->text), "%s", hugepin_error());
	ahead->done = true;
	pthread_cond_broadcast(&ahead->ended);
	pthread_mutex_unlock(&ahead->lock);
}

/* Lock held. */
static int start(struct hugepin_pool *pool, uint64_t bytes)
{
	struct hpi_ahead *ahead = &pool->ahead;

	if (ahead->running && !ahead->done)
		return hpi_error(-EBUSY, "%s pool: it is still growing by %llu bytes in the background", hpi_pool_name(pool),
				 (unsigned long long)ahead->bytes);
	if (ahead->running)
		pthread_join(ahead->thread, NULL);
	ahead->running = ahead->done = false;
	ahead->bytes = bytes;
	ahead->err = hpi_thread_start("hugepin-ahead", work, pool, &ahead->thread);
	ahead->running = !ahead->err;
	return ahead->err;
}

static int refuse_flags(unsigned int flags)
{
	return hpi_error(-EINVAL, "unknown flags %#x for growing", flags & ~HUGEPIN_GROW_BACKGROUND);
}

/* What came is given back, as far as nobody has used it since. */
static int grow_now(struct hugepin_pool *pool, uint64_t bytes)
{
	uint64_t got, given = 0, before;
	char text[512];
	int err;

	pthread_mutex_lock(&pool->growth);
	before = hpi_pool_mapped(pool);
	pthread_mutex_unlock(&pool->growth);
	err = grow_ahead(pool, bytes, &got);
	if (!err || !got)
		return err;
	snprintf(text, sizeof(text), "%s", hugepin_error());
	hpi_pool_trim(pool, before, &given);
	return hpi_error(err, "%s", text);
}

int hugepin_pool_grow(struct hugepin_pool *pool, uint64_t bytes, unsigned int flags)
{
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	if (flags & ~HUGEPIN_GROW_BACKGROUND)
		return refuse_flags(flags);
	if (!bytes || bytes > (uint64_t)(pool->window_end - pool->window))
		return hpi_error(bytes ? -ENOMEM : -EINVAL, "%s pool: growing by %llu bytes, of 1 to %llu", hpi_pool_name(pool),
				 (unsigned long long)bytes, (unsigned long long)(pool->window_end - pool->window));
	if (!(flags & HUGEPIN_GROW_BACKGROUND))
		return grow_now(pool, bytes);
	pthread_mutex_lock(&pool->ahead.lock);
	err = start(pool, bytes);
	pthread_mutex_unlock(&pool->ahead.lock);
	return err;
}

int hugepin_pool_wait(struct hugepin_pool *pool)
{
	struct hpi_ahead *ahead = &pool->ahead;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	pthread_mutex_lock(&ahead->lock);
	if (ahead->running && pthread_equal(ahead->thread, pthread_self())) {
		pthread_mutex_unlock(&ahead->lock);
		return hpi_error(-EDEADLK, "%s pool: a callback of its watch waits for the growth that called it",
				 hpi_pool_name(pool));
	}
	while (ahead->running && !ahead->done)
		pthread_cond_wait(&ahead->ended, &ahead->lock);
	err = ahead->running ? ahead->err : 0;
	if (err)
		hpi_error(err, "%s; %llu bytes have come, and stay", ahead->text, (unsigned long long)ahead->got);
	pthread_mutex_unlock(&ahead->lock);
	return err;
}

void hpi_ahead_init(struct hugepin_pool *pool)
{
	pthread_mutex_init(&pool->ahead.lock, NULL);
	pthread_cond_init(&pool->ahead.ended, NULL);
}

void hpi_ahead_stop(struct hugepin_pool *pool)
{
	struct hpi_ahead *ahead = &pool->ahead;

	pthread_mutex_lock(&ahead->lock);
	ahead->stop = true;
	pthread_mutex_unlock(&ahead->lock);
	if (ahead->running)
		pthread_join(ahead->thread, NULL);
	ahead->running = ahead->stop = false;	/* should the pool stay after all */
}

void hpi_ahead_end(struct hugepin_pool *pool)
{
	pthread_cond_destroy(&pool->ahead.ended);
	pthread_mutex_destroy(&pool->ahead.lock);
}
