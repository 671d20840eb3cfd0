// SPDX-License-Identifier: MIT
/*
 * A pool grows: rung by rung down its ladder, at the place that needs least, within the cap. All with growth held,
 * while other threads take and give blocks.
 *
 * A growth maps what is lacking, and more where the strategy (pool_strategy.c) wishes it. What cannot be had beyond the
 * need is done without.
 */
#include "pool.h"

#include <errno.h>

/* What the growth is for: a new block, or @ptr to become larger. */
struct wish {
	struct hpi_space space;
	uint64_t alignment, bytes, old;
	const void *ptr;
	bool exact;				/* no more than is needed */
};

static uint64_t min_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_bytes(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * Base pages are made resident at once, and nobody has set them aside: what is taken beyond the need (@need bytes) must
 * drive neither the machine nor the container out of memory, where the kernel kills. Half of what is left beyond the
 * need is left.
 */
static uint64_t base_surplus(const struct hugepin_pool *pool, uint64_t need)
{
	struct hpi_memory memory;

	if (pool->memory(pool, &memory)) {
		hpi_error_clear();	/* no surplus is no failure */
		return 0;
	}
	return memory.available_bytes > need ? (memory.available_bytes - need) / 2 : 0;
}

static bool takes_from_all(const struct hpi_rung *rung)
{
	return rung->provider->id == HUGEPIN_PROVIDER_BASE || rung->provider->id == HUGEPIN_PROVIDER_THP ||
	       rung->provider->id == HUGEPIN_PROVIDER_RUNTIME;
}

/* What is mapped beyond the need comes in steps of this. */
static uint64_t granule_of(const struct hugepin_pool *pool, size_t rung)
{
	return max_bytes(hpi_ladder_granule(&pool->ladder.rungs[rung]), HPI_2M);
}

/* How much to map at @place: need at least, more if strategy, caps, room and the machine allow. */
static uint64_t bytes_to_map(struct hugepin_pool *pool, size_t rung, const struct place *place)
{
	uint64_t granule = granule_of(pool, rung), limit = min_bytes(place->room, hpi_caps_left(pool)), bytes;

	bytes = hpi_growth_wish(pool, place->need) & ~(granule - 1);
	bytes = max_bytes(bytes, hpi_round_up(place->need, granule));
	if (bytes > place->need && takes_from_all(&pool->ladder.rungs[rung]))
		limit = min_bytes(limit, place->need + base_surplus(pool, place->need));
	bytes = min_bytes(bytes, limit & ~(granule - 1));
	return max_bytes(bytes, place->need);
}

static int grow_on(struct hugepin_pool *pool, size_t rung, void *arg)
{
	const struct wish *wish = arg;
	struct place place;
	uint64_t bytes, first;
	int err;

	if (wish->ptr ? !hpi_place_extension(pool, rung, wish->ptr, wish->old, wish->bytes, &place) :
			!hpi_place_block(pool, &wish->space, rung, wish->alignment, wish->bytes, &place))
		return hpi_error(-ENOMEM, "no room in the %s pool's %llu bytes of address space", hpi_pool_name(pool),
				 (unsigned long long)(wish->space.end - wish->space.start));
	if (!place.need)		/* another thread has freed enough meanwhile */
		return 0;
	first = bytes = wish->exact ? place.need : bytes_to_map(pool, rung, &place);
	while ((err = hpi_segment_map(pool, rung, &place, bytes)) && bytes > place.need)
		bytes = hpi_growth_less(pool, bytes, place.need, granule_of(pool, rung), err);
	if (!err && !wish->exact)
		hpi_growth_took(pool, bytes, bytes < first);
	return err;
}

/*
 * Segments that are wholly free may be where a growth did not find room for: elsewhere in the window, or from
 * another rung. They are given back if that could be enough. Blocks are not touched; should the growth fail all the
 * same, it has cost free segments, which is the one thing that a failed allocation may change.
 */
static bool give_way(struct hugepin_pool *pool, uint64_t bytes)
{
	uint64_t idle = hpi_segments_idle(pool), given = 0, unused = hpi_caps_left(pool);

	if (hpi_watches_any(pool))		/* nobody could be told now */
		return false;
	if (unused == UINT64_MAX)		/* no cap: it is the providers that have nothing left */
		unused = 0;
	if (!idle || idle + unused < bytes)
		return false;
	hpi_segments_trim(pool, 0, &given);
	return given > 0;
}

static bool is_short(int err)
{
	return err == -ENOMEM || err == -EDQUOT;
}

static int grow(struct hugepin_pool *pool, struct wish *wish)
{
	int err;

	err = hpi_pool_descend(pool, grow_on, wish);
	if (is_short(err) && hpi_garbage_reclaim(pool))
		return 0;			/* to look again: that may be enough */
	if (is_short(err) && give_way(pool, wish->bytes))
		err = hpi_pool_descend(pool, grow_on, wish);
	if (!err)
		return 0;
	/* What a rung met (not on this machine, no descriptor left) is in the text; who asks for memory got none. */
	if (err != -EDQUOT && err != -EIO)
		err = -ENOMEM;
	return hpi_pool_refuse(pool, err, "growing for a block", wish->bytes);
}

int hpi_pool_grow(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes)
{
	struct wish wish = {
		.space = hpi_space_at(pool, pool->window),
		.alignment = max_bytes(alignment, HPI_POOL_GRAIN),
		.bytes = bytes,
	};

	return grow(pool, &wish);
}

int hpi_pool_grow_in(struct hugepin_pool *pool, const struct hpi_space *space, uint64_t bytes)
{
	struct wish wish = { .space = *space, .alignment = HPI_POOL_GRAIN, .bytes = bytes, .exact = true };

	return grow(pool, &wish);
}

int hpi_pool_extend(struct hugepin_pool *pool, const void *ptr, uint64_t old, uint64_t bytes)
{
	struct wish wish = { .space = hpi_space_at(pool, ptr), .bytes = bytes, .ptr = ptr, .old = old };
	size_t rung;
	int err = -ENOSPC;

	wish.exact = wish.space.arena != pool->arena;	/* an extent has what its plan needs */
	for (rung = 0; rung < pool->ladder.count && err; rung++)
		err = grow_on(pool, rung, &wish);	/* finds a place on the block's own rung only */
	return err;
}

bool hpi_pool_make_way(struct hugepin_pool *pool, uint64_t bytes)
{
	bool freed = hpi_garbage_reclaim(pool);

	return give_way(pool, bytes) || freed;
}
