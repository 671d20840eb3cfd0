// SPDX-License-Identifier: MIT
/*
 * A pool grows: rung by rung down its ladder, at the place that needs least, within the cap. All with growth held,
 * while other threads take and give blocks.
 *
 * A growth maps what is lacking. More is taken only where the dialect asks for chunks, and by one part in
 * GROWTH_PARTS of what is mapped, so that a large pool does not end up in thousands of small segments, each with a
 * descriptor and a registration. What cannot be had beyond the need is done without.
 */
#include "pool.h"

#include <errno.h>
#include <string.h>

#define GROWTH_PARTS	128

/* What the growth is for: a new block, or @ptr to become larger. */
struct wish {
	uint64_t alignment, bytes, old;
	const void *ptr;
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
 * need is left. Read at each growth: others use the same memory.
 */
static uint64_t base_surplus(const struct hugepin_pool *pool, uint64_t need)
{
	uint64_t kib, left = pool->ctx->topology.limit_bytes, headroom;
	char text[32];

	if (hpi_sys_read_field("/proc/meminfo", "MemAvailable:", text, sizeof(text)))
		return 0;
	text[strspn(text, "0123456789")] = '\0';	/* a unit follows */
	if (hpi_size_parse_uint(text, &kib))
		return 0;
	if (hpi_cgroup_memory_headroom("", &headroom)) {
		hpi_error_clear();	/* no surplus is no failure */
		return 0;
	}
	left = min_bytes(min_bytes(left, kib * 1024), headroom);
	return left > need ? (left - need) / 2 : 0;
}

static bool takes_from_all(const struct hpi_rung *rung)
{
	return rung->provider->id == HUGEPIN_PROVIDER_BASE || rung->provider->id == HUGEPIN_PROVIDER_THP;
}

/* How much to map at @place: need at least, more if policy, cap, room and the machine allow. */
static uint64_t bytes_to_map(const struct hugepin_pool *pool, size_t rung, const struct place *place)
{
	uint64_t granule = max_bytes(hpi_ladder_granule(&pool->ladder.rungs[rung]), HPI_2M);
	uint64_t mapped = hpi_pool_mapped(pool), bytes, limit = place->room;

	bytes = max_bytes(pool->chunk_bytes, mapped / GROWTH_PARTS) & ~(granule - 1);
	bytes = max_bytes(bytes, hpi_round_up(place->need, granule));
	if (pool->cap_bytes)
		limit = min_bytes(limit, pool->cap_bytes - mapped);
	if (bytes > place->need && takes_from_all(&pool->ladder.rungs[rung]))
		limit = min_bytes(limit, place->need + base_surplus(pool, place->need));
	bytes = min_bytes(bytes, limit & ~(granule - 1));
	return max_bytes(bytes, place->need);
}

static int grow_on(struct hugepin_pool *pool, size_t rung, void *arg)
{
	const struct wish *wish = arg;
	struct place place;
	uint64_t bytes;
	int err;

	if (wish->ptr ? !hpi_place_extension(pool, rung, wish->ptr, wish->old, wish->bytes, &place) :
			!hpi_place_block(pool, rung, wish->alignment, wish->bytes, &place))
		return hpi_error(-ENOMEM, "no room in the %s pool's %llu bytes of address space", hpi_pool_name(pool),
				 (unsigned long long)(pool->window_end - pool->window));
	if (!place.need)		/* another thread has freed enough meanwhile */
		return 0;
	err = hpi_pool_over_cap(pool, place.need);
	if (err)
		return err;
	bytes = bytes_to_map(pool, rung, &place);
	err = hpi_segment_map(pool, rung, &place, bytes);
	if (err && bytes > place.need)
		err = hpi_segment_map(pool, rung, &place, place.need);
	return err;
}

/*
 * Segments that are wholly free may be where a growth did not find room for: elsewhere in the window, or from
 * another rung. They are given back if that could be enough. Blocks are not touched; should the growth fail all the
 * same, it has cost free segments, which is the one thing that a failed allocation may change.
 */
static bool give_way(struct hugepin_pool *pool, const struct wish *wish)
{
	uint64_t idle = hpi_segments_idle(pool), given = 0, unused = 0;

	if (pool->cap_bytes)
		unused = pool->cap_bytes - min_bytes(pool->cap_bytes, hpi_pool_mapped(pool));
	if (!idle || idle + unused < wish->bytes)
		return false;
	hpi_segments_trim(pool, 0, &given);
	return given > 0;
}

int hpi_pool_grow(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes)
{
	struct wish wish = { .alignment = max_bytes(alignment, HPI_POOL_GRAIN), .bytes = bytes };
	int err;

	err = hpi_pool_descend(pool, grow_on, &wish);
	if ((err == -ENOMEM || err == -EDQUOT) && give_way(pool, &wish))
		err = hpi_pool_descend(pool, grow_on, &wish);
	if (!err)
		return 0;
	/* What a rung met (not on this machine, no descriptor left) is in the text; who asks for memory got none. */
	if (err != -EDQUOT && err != -EIO)
		err = -ENOMEM;
	return hpi_pool_refuse(pool, err, "growing for a block", bytes);
}

int hpi_pool_extend(struct hugepin_pool *pool, const void *ptr, uint64_t old, uint64_t bytes)
{
	struct wish wish = { .bytes = bytes, .ptr = ptr, .old = old };
	size_t rung;
	int err = -ENOSPC;

	for (rung = 0; rung < pool->ladder.count && err; rung++)
		err = grow_on(pool, rung, &wish);	/* finds a place on the block's own rung only */
	return err;
}
