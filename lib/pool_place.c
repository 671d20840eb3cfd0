// SPDX-License-Identifier: MIT
/*
 * Where in a pool's window the next segment goes: the place at which the fewest bytes must be mapped, which is
 * mostly the end of the last segment, less what is free there. Needs growth held, so that the table of segments
 * stands still.
 */
#include "pool.h"

/* Unmapped space between two segments, or before the first, or behind the last. */
struct gap {
	char *start, *end;
	const struct segment *left, *right;
};

static bool is_in(const struct hpi_space *space, const struct segment *segment)
{
	return (char *)segment->mapping.addr >= space->start && (char *)segment->mapping.addr < space->end;
}

/* Positions of the segments of @space: from @*first on, before @*end. Without any both are where one would go. */
static void segments_in(const struct hugepin_pool *pool, const struct hpi_space *space, size_t *first, size_t *end)
{
	*first = 0;
	while (*first < pool->segment_count && (char *)pool->segments[*first].mapping.addr < space->start)
		++*first;
	for (*end = *first; *end < pool->segment_count && is_in(space, &pool->segments[*end]);)
		++*end;
}

static struct gap gap_before(const struct hugepin_pool *pool, const struct hpi_space *space, size_t position,
			     size_t first, size_t end)
{
	const struct segment *left = position > first ? &pool->segments[position - 1] : NULL;
	const struct segment *right = position < end ? &pool->segments[position] : NULL;

	return (struct gap){
		.start = left ? (char *)left->mapping.addr + left->mapping.bytes : space->start,
		.end = right ? right->mapping.addr : space->end,
		.left = left,
		.right = right,
	};
}

/* Huge pages need addresses to match; 1G pages in a mixed segment too, to be mapped as such. */
static uint64_t address_step(const struct hpi_rung *rung, uint64_t bytes)
{
	if (rung->classes & HUGEPIN_CLASSES_1G && bytes >= HPI_1G)
		return HPI_1G;
	return hpi_ladder_granule(rung);
}

/* Sets need and room for a segment that is to give the bytes up to @end. False: the gap is too small. */
static bool measure(const struct hugepin_pool *pool, const struct gap *gap, size_t rung, uintptr_t end,
		    struct place *place)
{
	uint64_t granule = hpi_ladder_granule(&pool->ladder.rungs[rung]);
	char *limit = gap->end;

	if (gap->right && gap->right->rung != rung)
		limit -= HPI_2M;
	if (limit <= place->addr)
		return false;
	place->room = (uint64_t)(limit - place->addr) & ~(granule - 1);
	place->need = end > (uintptr_t)place->addr ? hpi_round_up(end - (uintptr_t)place->addr, granule) : 0;
	return place->need <= place->room;
}

static bool place_in_gap(const struct hugepin_pool *pool, const struct hpi_arena *arena, const struct gap *gap,
			 size_t rung, uint64_t alignment, uint64_t bytes, struct place *place)
{
	uint64_t step = address_step(&pool->ladder.rungs[rung], bytes), before = 0;
	bool joins = gap->left && gap->left->rung == rung;
	uintptr_t addr = (uintptr_t)gap->start, at;

	if (gap->left && !joins)
		addr += HPI_2M;
	addr = hpi_round_up(addr, step);
	if (joins && addr == (uintptr_t)gap->start)
		before = hpi_arena_free_before(arena, gap->start);
	at = hpi_round_up(addr - before, alignment);
	if (at > addr)
		addr = at & ~(step - 1);
	place->addr = (char *)addr;
	return measure(pool, gap, rung, at + bytes, place);
}

static bool places_itself(const struct hugepin_pool *pool, size_t rung)
{
	return pool->ladder.rungs[rung].provider->places_itself;
}

/* For memory that lies where its source puts it: nothing is known of the address but that it is a multiple of the grain. */
static bool place_anywhere(const struct hpi_space *space, const struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes,
			   struct place *place)
{
	if (space->arena != pool->arena)	/* an extent is in one piece */
		return false;
	*place = (struct place){
		.need = hpi_round_up(bytes + (alignment > HPI_POOL_GRAIN ? alignment : 0), HPI_2M),
		.room = UINT64_MAX & ~(HPI_1G - 1),
	};
	return true;
}

bool hpi_place_block(const struct hugepin_pool *pool, const struct hpi_space *space, size_t rung, uint64_t alignment,
		     uint64_t bytes, struct place *out)
{
	struct place place;
	size_t i, first, end;
	bool found = false;

	if (bytes > (uint64_t)(space->end - space->start))
		return false;
	if (places_itself(pool, rung))
		return place_anywhere(space, pool, alignment, bytes, out);
	hpi_pool_lock(pool);
	segments_in(pool, space, &first, &end);
	for (i = first; i <= end; i++) {
		struct gap gap = gap_before(pool, space, i, first, end);

		if (!place_in_gap(pool, space->arena, &gap, rung, alignment, bytes, &place) ||
		    (found && place.need >= out->need))
			continue;
		*out = place;
		found = true;
	}
	hpi_pool_unlock(pool);
	return found;
}

/* Behind the last segment, or else in the highest gap. What is free there already does not count. */
bool hpi_place_more(const struct hugepin_pool *pool, size_t rung, uint64_t bytes, struct place *out)
{
	const struct hpi_space space = hpi_space_at(pool, pool->window);
	uint64_t step = address_step(&pool->ladder.rungs[rung], bytes);
	size_t i, first, end;
	bool found = false;

	if (places_itself(pool, rung))
		return place_anywhere(&space, pool, 0, bytes, out);
	segments_in(pool, &space, &first, &end);
	for (i = end + 1; i > first && !found; i--) {
		struct gap gap = gap_before(pool, &space, i - 1, first, end);
		uintptr_t addr = (uintptr_t)gap.start;

		if (gap.left && gap.left->rung != rung)
			addr += HPI_2M;
		out->addr = (char *)hpi_round_up(addr, step);
		found = measure(pool, &gap, rung, (uintptr_t)out->addr + bytes, out);
	}
	return found;
}

bool hpi_place_extension(const struct hugepin_pool *pool, size_t rung, const void *ptr, uint64_t old, uint64_t bytes,
			 struct place *out)
{
	const char *behind = (const char *)ptr + hpi_round_up(old, HPI_POOL_GRAIN);
	const struct hpi_space space = hpi_space_at(pool, ptr);
	size_t i, first, end;
	bool found = false;

	if (places_itself(pool, rung) || bytes > (uint64_t)(space.end - space.start))
		return false;
	hpi_pool_lock(pool);
	segments_in(pool, &space, &first, &end);
	for (i = first + 1; i <= end && !found; i++) {
		struct gap gap = gap_before(pool, &space, i, first, end);

		if (gap.left->rung != rung || gap.start - hpi_arena_free_before(space.arena, gap.start) != behind)
			continue;
		out->addr = gap.start;
		found = measure(pool, &gap, rung, (uintptr_t)ptr + bytes, out);
	}
	hpi_pool_unlock(pool);
	return found;
}
