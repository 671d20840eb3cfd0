// SPDX-License-Identifier: MIT
/*
 * The arena's space: runs of contiguous addresses, added and taken away by the pool. Segments that touch become one
 * run, so that blocks may span them. These calls are as rare as mappings are, and may search.
 */
#include "arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t hpi_arena_run_after(const struct hpi_arena *arena, uintptr_t addr)
{
	size_t low = 0, high = arena->run_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (arena->runs[middle]->end > addr)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Room in the array for one more, and a run to put there. */
static struct run *run_reserve(struct hpi_arena *arena)
{
	size_t room = arena->run_room ? 2 * arena->run_room : 8;
	struct run **runs, *run;

	if (arena->run_count == arena->run_room) {
		runs = hpi_store_calloc(room * sizeof(*runs));
		if (!runs)
			goto no_memory;
		if (arena->run_count)
			memcpy(runs, arena->runs, arena->run_count * sizeof(*runs));
		free(arena->runs);
		arena->runs = runs;
		arena->run_room = room;
	}
	run = hpi_store_calloc(sizeof(*run));
	if (!run)
		goto no_memory;
	run->low.state = CHUNK_WALL;
	run->high.state = CHUNK_WALL;
	return run;

no_memory:
	hpi_error(-ENOMEM, "no memory for a run of segments");
	return NULL;
}

static void run_insert(struct hpi_arena *arena, size_t position, struct run *run)
{
	memmove(&arena->runs[position + 1], &arena->runs[position],
		(arena->run_count - position) * sizeof(*arena->runs));
	arena->runs[position] = run;
	arena->run_count++;
}

static void run_delete(struct hpi_arena *arena, size_t position)
{
	free(arena->runs[position]);
	arena->run_count--;
	memmove(&arena->runs[position], &arena->runs[position + 1],
		(arena->run_count - position) * sizeof(*arena->runs));
}

int hpi_arena_add(struct hpi_arena *arena, void *addr, uint64_t bytes, bool zeroed)
{
	uintptr_t start = (uintptr_t)addr, end = start + bytes;
	size_t position = hpi_arena_run_after(arena, start);
	struct run *right = position < arena->run_count ? arena->runs[position] : NULL;
	struct run *left = position && arena->runs[position - 1]->end == start ? arena->runs[position - 1] : NULL;
	struct chunk *c;

	if (!start || !bytes || end < start || (start | bytes) % HPI_ARENA_GRAIN)
		return hpi_error(-EINVAL, "%#lx bytes at %p cannot be managed", bytes, addr);
	if (right && right->start < end)
		return hpi_error(-EEXIST, "%#lx bytes at %p overlap what is there", bytes, addr);
	if (right && right->start > end)
		right = NULL;
	if (hpi_store_reserve(&arena->store, 1))
		return -ENOMEM;
	if (!left && !right) {
		left = run_reserve(arena);
		if (!left)
			return -ENOMEM;
		left->start = start;
		left->end = start;
		chunk_link(&left->low, &left->high);
		run_insert(arena, position, left);
	}

	c = hpi_store_take(&arena->store);
	*c = (struct chunk){ .addr = start, .bytes = bytes, .state = CHUNK_FREE, .clean = zeroed ? bytes : 0 };
	if (left) {
		chunk_link(left->high.prev, c);
		chunk_link(c, &left->high);
		left->end = end;
	} else {
		chunk_link(c, right->low.next);
		chunk_link(&right->low, c);
		right->start = start;
	}
	if (left && right) {
		chunk_link(c, right->low.next);
		chunk_link(right->high.prev, &left->high);
		left->end = right->end;
		run_delete(arena, position);
	}
	arena->mapped += bytes;
	hpi_arena_settle(arena, c);
	return 0;
}

/* The run at @position loses @c, which divides it: what follows goes to @right. */
static void run_divide(struct hpi_arena *arena, size_t position, struct chunk *c, struct run *right)
{
	struct run *run = arena->runs[position];

	right->start = chunk_end(c);
	right->end = run->end;
	chunk_link(run->high.prev, &right->high);
	chunk_link(&right->low, c->next);
	chunk_link(c->prev, &run->high);
	run->end = c->addr;
	run_insert(arena, position + 1, right);
}

int hpi_arena_remove(struct hpi_arena *arena, void *addr, uint64_t bytes)
{
	uintptr_t start = (uintptr_t)addr, end = start + bytes;
	size_t position = hpi_arena_run_after(arena, start);
	struct run *run = position < arena->run_count ? arena->runs[position] : NULL, *right = NULL;
	struct chunk *c;

	if (!bytes || end < start || (start | bytes) % HPI_ARENA_GRAIN || !run || run->start > start || run->end < end)
		return hpi_error(-ENOENT, "%#lx bytes at %p are not managed here", bytes, addr);
	c = hpi_bins_holding(&arena->bins, start, bytes);
	if (!c)
		return hpi_error(-EBUSY, "%#lx bytes at %p are in use", bytes, addr);
	if (hpi_store_reserve(&arena->store, 2))
		return -ENOMEM;
	if (run->start < start && end < run->end) {
		right = run_reserve(arena);
		if (!right)
			return -ENOMEM;
	}

	hpi_bins_remove(&arena->bins, c);
	hpi_arena_carve(arena, c, start, bytes);
	if (right) {
		run_divide(arena, position, c, right);
	} else {
		chunk_link(c->prev, c->next);
		if (run->start == start)
			run->start = end;
		else
			run->end = start;
		if (run->start == run->end)
			run_delete(arena, position);
	}
	hpi_store_give(&arena->store, c);
	arena->mapped -= bytes;
	return 0;
}

bool hpi_arena_is_free(const struct hpi_arena *arena, const void *addr, uint64_t bytes)
{
	return bytes && !((uintptr_t)addr % HPI_ARENA_GRAIN) && !(bytes % HPI_ARENA_GRAIN) &&
	       hpi_bins_holding(&arena->bins, (uintptr_t)addr, bytes);
}

uint64_t hpi_arena_free_before(const struct hpi_arena *arena, const void *end)
{
	size_t position = hpi_arena_run_after(arena, (uintptr_t)end - 1);
	const struct chunk *last;

	if (position == arena->run_count || arena->runs[position]->end != (uintptr_t)end)
		return 0;
	last = arena->runs[position]->high.prev;
	return last->state == CHUNK_FREE ? last->bytes : 0;
}
