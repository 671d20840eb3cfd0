// SPDX-License-Identifier: MIT
/*
 * Every invariant of the arena, tested one by one. For tests: the cost is that of a walk over all chunks.
 */
#include "arena.h"

#include <errno.h>

struct tally {
	uint64_t free_chunks, used_chunks, retired_chunks, mapped, active, requested, retired;
};

static int check_chunk(const struct hpi_arena *arena, const struct chunk *c, struct tally *tally)
{
	if (!c->bytes || (c->addr | c->bytes) % HPI_ARENA_GRAIN)
		return hpi_error(-EUCLEAN, "chunk %#lx of %#lx bytes is not in grains", c->addr, c->bytes);
	tally->mapped += c->bytes;
	if (c->state == CHUNK_USED) {
		if (hpi_table_find(&arena->table, c->addr) != c)
			return hpi_error(-EUCLEAN, "used chunk %#lx is not in the table", c->addr);
		if (chunk_requested(c) > c->bytes)
			return hpi_error(-EUCLEAN, "used chunk %#lx has %#lx bytes of %#lx", c->addr, c->bytes,
					 chunk_requested(c));
		tally->used_chunks++;
		tally->active += c->bytes;
		tally->requested += chunk_requested(c);
		return 0;
	}
	if (c->state == CHUNK_RETIRED) {
		if (hpi_table_find(&arena->table, c->addr) != c)
			return hpi_error(-EUCLEAN, "retired chunk %#lx is not in the table", c->addr);
		tally->retired_chunks++;
		tally->retired += c->bytes;
		return 0;
	}
	if (c->state != CHUNK_FREE)
		return hpi_error(-EUCLEAN, "chunk %#lx is in state %u", c->addr, c->state);
	if (c->clean > c->bytes)
		return hpi_error(-EUCLEAN, "free chunk %#lx has %#lx zero bytes of %#lx", c->addr, c->clean, c->bytes);
	if (c->next->state == CHUNK_FREE)
		return hpi_error(-EUCLEAN, "free chunks %#lx and %#lx are neighbours", c->addr, c->next->addr);
	tally->free_chunks++;
	return 0;
}

static int check_run(const struct hpi_arena *arena, const struct run *run, struct tally *tally)
{
	const struct chunk *c, *prev = &run->low;
	uintptr_t at = run->start;
	int err;

	if (run->low.state != CHUNK_WALL || run->high.state != CHUNK_WALL || run->start >= run->end)
		return hpi_error(-EUCLEAN, "run %#lx to %#lx is broken", run->start, run->end);
	for (c = run->low.next; c != &run->high; prev = c, c = c->next) {
		if (c->addr != at || c->prev != prev)
			return hpi_error(-EUCLEAN, "chunk %#lx does not follow its neighbour at %#lx", c->addr, at);
		at += c->bytes;
		err = check_chunk(arena, c, tally);
		if (err)
			return err;
	}
	if (at != run->end || run->high.prev != prev)
		return hpi_error(-EUCLEAN, "chunks of run %#lx end at %#lx, not %#lx", run->start, at, run->end);
	return 0;
}

int hpi_arena_check(const struct hpi_arena *arena)
{
	struct tally tally = { 0 };
	uint64_t binned;
	size_t i;
	int err;

	for (i = 0; i < arena->run_count; i++) {
		if (i && arena->runs[i - 1]->end >= arena->runs[i]->start)
			return hpi_error(-EUCLEAN, "runs %zu and %zu touch or overlap", i - 1, i);
		err = check_run(arena, arena->runs[i], &tally);
		if (err)
			return err;
	}
	err = hpi_bins_check(&arena->bins, &binned);
	if (err)
		return err;
	/* Bins hold free chunks of the right size only; as many as there are in the runs, so exactly those. */
	if (binned != tally.free_chunks)
		return hpi_error(-EUCLEAN, "%lu chunks in bins, %lu free", binned, tally.free_chunks);
	if (arena->table.used != tally.used_chunks + tally.retired_chunks ||
	    arena->retired_blocks != tally.retired_chunks || arena->retired != tally.retired)
		return hpi_error(-EUCLEAN, "%zu chunks in the table, %lu used; %lu retired of %lu bytes, counted %lu of %lu",
				 arena->table.used, tally.used_chunks, tally.retired_chunks, tally.retired,
				 arena->retired_blocks, arena->retired);
	/* The map's owner exchanges users of a chunk without telling: only with its own count would the sum be right. */
	if (arena->mapped != tally.mapped || arena->active != tally.active ||
	    (!arena->table.map && arena->requested != tally.requested))
		return hpi_error(-EUCLEAN, "counters say %lu mapped, %lu active, %lu requested; chunks %lu, %lu, %lu",
				 arena->mapped, arena->active, arena->requested, tally.mapped, tally.active,
				 tally.requested);
	return 0;
}
