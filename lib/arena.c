// SPDX-License-Identifier: MIT
/*
 * The arena: blocks from free chunks, best fit, and back with coalescing. See arena.h for the data. Not thread-safe.
 *
 * A call first reserves all the bookkeeping memory it could need, and then cannot fail.
 */
#include "arena.h"

#include <errno.h>
#include <stdlib.h>

#define ALWAYS_INLINE	__attribute__((always_inline))

#define ARENA_MAX_BYTES	(1ull << 62)		/* far above any address space; keeps sums from wrapping */

int hpi_arena_create(struct hpi_arena **out)
{
	struct hpi_arena *arena = hpi_store_calloc(sizeof(*arena));
	int err;

	if (!arena)
		return hpi_error(-ENOMEM, "no memory for an arena of %zu bytes", sizeof(*arena));
	err = hpi_table_init(&arena->table);
	if (err) {
		free(arena);
		return err;
	}
	*out = arena;
	return 0;
}

void hpi_arena_destroy(struct hpi_arena *arena)
{
	size_t i;

	if (!arena)
		return;
	for (i = 0; i < arena->run_count; i++)
		free(arena->runs[i]);
	free(arena->runs);
	hpi_table_free(&arena->table);
	hpi_store_free(&arena->store);
	free(arena);
}

static uint64_t min_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A new free chunk in front of @next, with its zero bytes taken from @clean_from on. */
static void carve_piece(struct hpi_arena *arena, struct chunk *next, uintptr_t addr, uint64_t bytes,
			uintptr_t clean_from)
{
	struct chunk *piece = hpi_store_take(&arena->store);

	piece->addr = addr;
	piece->bytes = bytes;
	piece->state = CHUNK_FREE;
	piece->clean = addr + bytes > clean_from ? min_bytes(bytes, addr + bytes - clean_from) : 0;
	chunk_link(next->prev, piece);
	chunk_link(piece, next);
	hpi_bins_insert(&arena->bins, piece);
}

void hpi_arena_carve(struct hpi_arena *arena, struct chunk *c, uintptr_t addr, uint64_t bytes)
{
	uintptr_t end = addr + bytes, clean_from = chunk_end(c) - c->clean;

	if (addr > c->addr)
		carve_piece(arena, c, c->addr, addr - c->addr, clean_from);
	if (end < chunk_end(c))
		carve_piece(arena, c->next, end, chunk_end(c) - end, clean_from);
	c->addr = addr;
	c->bytes = bytes;
	c->clean = end > clean_from ? min_bytes(bytes, end - clean_from) : 0;
}

/* The same with what is left over behind alone. */
static inline void split(struct hpi_arena *arena, struct chunk *c, uint64_t bytes)
{
	uint64_t rest = c->bytes - bytes;
	struct chunk *piece;

	if (!rest)
		return;
	piece = hpi_store_take(&arena->store);
	piece->addr = c->addr + bytes;
	piece->bytes = rest;
	piece->state = CHUNK_FREE;
	piece->clean = min_bytes(c->clean, rest);
	chunk_link(piece, c->next);
	chunk_link(c, piece);
	c->bytes = bytes;
	c->clean -= piece->clean;
	hpi_bins_insert(&arena->bins, piece);
}

/* @right goes into @left; both are free and in no bin. */
static void merge(struct hpi_arena *arena, struct chunk *left, struct chunk *right)
{
	left->clean = right->clean == right->bytes ? left->clean + right->bytes : right->clean;
	left->bytes += right->bytes;
	chunk_link(left, right->next);
	hpi_store_give(&arena->store, right);
}

void hpi_arena_settle(struct hpi_arena *arena, struct chunk *c)
{
	struct chunk *prev = c->prev, *next = c->next;

	if (next->state == CHUNK_FREE) {
		hpi_bins_remove(&arena->bins, next);
		merge(arena, c, next);
	}
	if (prev->state == CHUNK_FREE) {
		hpi_bins_remove(&arena->bins, prev);
		merge(arena, prev, c);
		c = prev;
	}
	hpi_bins_insert(&arena->bins, c);
}

static uint64_t to_grains(uint64_t bytes)
{
	return bytes ? hpi_round_up(bytes, HPI_ARENA_GRAIN) : HPI_ARENA_GRAIN;
}

int hpi_arena_reserve(struct hpi_arena *arena)
{
	int err = hpi_store_reserve(&arena->store, 4);	/* two for the block, as many for space that is added first */

	return err ? err : hpi_table_reserve(&arena->table);
}

/* With room in the table. */
static void use(struct hpi_arena *arena, struct chunk *c, uint64_t requested)
{
	c->state = CHUNK_USED;
	c->held = requested + 1;
	c->reciprocal = 0;
	c->mark = 0;
	hpi_table_insert(&arena->table, c);
	arena->active += c->bytes;
	arena->requested += requested;
}

static inline ALWAYS_INLINE void *alloc(struct hpi_arena *arena, uint64_t alignment, uint64_t bytes, uint64_t room,
					     uint8_t mark, bool *zeroed)
{
	uint64_t rounded;
	struct chunk *c;

	if (room > ARENA_MAX_BYTES || alignment > ARENA_MAX_BYTES)
		goto nothing_fits;
	if (alignment < HPI_ARENA_GRAIN)
		alignment = HPI_ARENA_GRAIN;
	rounded = to_grains(room);
	c = hpi_bins_find(&arena->bins, alignment, rounded);
	if (!c)
		goto nothing_fits;
	if (hpi_store_reserve(&arena->store, 2) || hpi_table_reserve(&arena->table)) {
		errno = ENOMEM;
		return NULL;
	}

	hpi_bins_remove(&arena->bins, c);
	if (alignment == HPI_ARENA_GRAIN)
		split(arena, c, rounded);
	else
		hpi_arena_carve(arena, c, hpi_round_up(c->addr, alignment), rounded);
	if (zeroed)
		*zeroed = c->clean == c->bytes;
	use(arena, c, bytes);
	c->mark = mark;
	return (void *)c->addr;

nothing_fits:
	errno = ENOSPC;
	return NULL;
}

void *hpi_arena_alloc(struct hpi_arena *arena, uint64_t alignment, uint64_t bytes, bool *zeroed)
{
	return alloc(arena, alignment, bytes, bytes, 0, zeroed);
}

void *hpi_arena_alloc_marked(struct hpi_arena *arena, uint64_t bytes, uint64_t room, uint8_t mark, bool *zeroed)
{
	return alloc(arena, HPI_ARENA_GRAIN, bytes, room, mark, zeroed);
}

void *hpi_arena_alloc_at(struct hpi_arena *arena, void *addr, uint64_t bytes, bool *zeroed)
{
	uint64_t rounded = to_grains(bytes);
	struct chunk *c = NULL;

	if (bytes <= ARENA_MAX_BYTES)
		c = hpi_bins_holding(&arena->bins, (uintptr_t)addr, rounded);
	if (!c) {
		errno = ENOSPC;
		return NULL;
	}
	if (hpi_arena_reserve(arena)) {
		errno = ENOMEM;
		return NULL;
	}
	hpi_bins_remove(&arena->bins, c);
	hpi_arena_carve(arena, c, (uintptr_t)addr, rounded);
	if (zeroed)
		*zeroed = c->clean == c->bytes;
	use(arena, c, bytes);
	return addr;
}

/* The user's block at @ptr, or NULL. */
static struct chunk *used_chunk(const struct hpi_arena *arena, const void *ptr)
{
	struct chunk *c = hpi_table_find(&arena->table, (uintptr_t)ptr);

	return c && c->state == CHUNK_USED && c->held ? c : NULL;
}

/* One that the table has no more. */
static void make_free(struct hpi_arena *arena, struct chunk *c)
{
	c->state = CHUNK_FREE;
	c->clean = 0;
	hpi_arena_settle(arena, c);
}

static void release(struct hpi_arena *arena, struct chunk *c)
{
	hpi_table_remove(&arena->table, c->addr);
	make_free(arena, c);
}

/* Nearly always the map has it; then one look there is all. */
int hpi_arena_free(struct hpi_arena *arena, void *ptr)
{
	uintptr_t *slot = hpi_table_map_slot(&arena->table, (uintptr_t)ptr);
	struct chunk *c = slot ? hpi_table_slot_chunk(*slot, (uintptr_t)ptr) : NULL;

	if (__builtin_expect(c && c->addr == (uintptr_t)ptr && c->state == CHUNK_USED && c->held, 1)) {
		__atomic_store_n(slot, 0, __ATOMIC_RELAXED);
		arena->table.used--;
	} else {
		c = used_chunk(arena, ptr);
		if (!c)
			return -EINVAL;
		hpi_table_remove(&arena->table, c->addr);
	}
	arena->active -= c->bytes;
	arena->requested -= chunk_requested(c);
	make_free(arena, c);
	return 0;
}

int hpi_arena_retire(struct hpi_arena *arena, void *ptr, uint64_t *bytes)
{
	struct chunk *c = used_chunk(arena, ptr);

	if (!c)
		return -EINVAL;
	arena->active -= c->bytes;
	arena->requested -= chunk_requested(c);
	arena->retired += c->bytes;
	arena->retired_blocks++;
	c->state = CHUNK_RETIRED;
	c->held = HELD_RETIRED;
	*bytes = c->bytes;
	return 0;
}

int hpi_arena_revive(struct hpi_arena *arena, void *ptr, uint64_t bytes)
{
	struct chunk *c = hpi_table_find(&arena->table, (uintptr_t)ptr);

	if (!c || c->state != CHUNK_RETIRED || bytes > c->bytes)
		return -EINVAL;
	arena->retired -= c->bytes;
	arena->retired_blocks--;
	arena->active += c->bytes;
	arena->requested += bytes;
	c->state = CHUNK_USED;
	c->held = bytes + 1;
	return 0;
}

int hpi_arena_return(struct hpi_arena *arena, void *ptr)
{
	struct chunk *c = hpi_table_find(&arena->table, (uintptr_t)ptr);

	if (!c || c->state != CHUNK_RETIRED)
		return -EINVAL;
	arena->retired -= c->bytes;
	arena->retired_blocks--;
	release(arena, c);
	return 0;
}

int hpi_arena_split(struct hpi_arena *arena, void *ptr, uint64_t bytes, uint64_t rest)
{
	struct chunk *c = used_chunk(arena, ptr), *tail;
	uint64_t rounded = to_grains(bytes);

	if (!c || rounded >= c->bytes || rest > c->bytes - rounded)
		return -EINVAL;
	if (hpi_arena_reserve(arena))
		return -ENOMEM;
	arena->active -= c->bytes;
	arena->requested -= chunk_requested(c);
	hpi_table_remove(&arena->table, c->addr);
	tail = hpi_store_take(&arena->store);
	*tail = (struct chunk){ .addr = c->addr + rounded, .bytes = c->bytes - rounded };
	chunk_link(tail, c->next);
	chunk_link(c, tail);
	c->bytes = rounded;
	use(arena, c, bytes);
	use(arena, tail, rest);
	return 0;
}

/* Moves the border between a used chunk and the free one behind it, which is out of its bin. */
static void move_border(struct hpi_arena *arena, struct chunk *c, struct chunk *next, uint64_t bytes)
{
	uintptr_t end = chunk_end(next);

	c->bytes = bytes;
	if (chunk_end(c) == end) {
		chunk_link(c, next->next);
		hpi_store_give(&arena->store, next);
		return;
	}
	next->addr = chunk_end(c);
	next->bytes = end - next->addr;
	next->clean = min_bytes(next->clean, next->bytes);
	hpi_bins_insert(&arena->bins, next);
}

static int resize_rounded(struct hpi_arena *arena, struct chunk *c, uint64_t bytes)
{
	struct chunk *next = c->next;

	if (bytes == c->bytes)
		return 0;
	if (next->state == CHUNK_FREE) {
		if (bytes > c->bytes && bytes - c->bytes > next->bytes)
			return -ENOSPC;
		hpi_bins_remove(&arena->bins, next);
		move_border(arena, c, next, bytes);
		return 0;
	}
	if (bytes > c->bytes)
		return -ENOSPC;
	/* Shrinking must not fail: without memory for a descriptor the block keeps its tail. */
	if (hpi_store_reserve(&arena->store, 1))
		return 0;
	carve_piece(arena, next, c->addr + bytes, c->bytes - bytes, UINTPTR_MAX);
	c->bytes = bytes;
	return 0;
}

int hpi_arena_resize(struct hpi_arena *arena, void *ptr, uint64_t bytes)
{
	struct chunk *c = used_chunk(arena, ptr);
	uint64_t before;
	int err;

	if (!c)
		return -EINVAL;
	if (bytes > ARENA_MAX_BYTES)
		return -ENOSPC;
	before = c->bytes;
	err = resize_rounded(arena, c, to_grains(bytes));
	if (err)
		return err;
	if (c->bytes != before)
		c->mark = 0;
	arena->active += c->bytes - before;
	arena->requested += bytes - chunk_requested(c);
	c->held = bytes + 1;
	return 0;
}

uint64_t hpi_arena_block_bytes(const struct hpi_arena *arena, const void *ptr)
{
	const struct chunk *c = used_chunk(arena, ptr);

	return c ? chunk_requested(c) : UINT64_MAX;
}

void hpi_arena_stats(const struct hpi_arena *arena, struct hpi_arena_stats *out)
{
	*out = (struct hpi_arena_stats){
		.mapped_bytes = arena->mapped,
		.free_bytes = arena->mapped - arena->active - arena->retired,
		.active_bytes = arena->active,
		.requested_bytes = arena->requested,
		.retired_bytes = arena->retired,
		.active_blocks = arena->table.used - arena->retired_blocks,
		.largest_free_bytes = hpi_bins_largest(&arena->bins),
	};
}

uint64_t hpi_arena_mapped(const struct hpi_arena *arena)
{
	return arena->mapped;
}

void hpi_arena_use_map(struct hpi_arena *arena, void *addr, uint64_t bytes, uintptr_t *map)
{
	arena->table.map = map;
	arena->table.map_start = (uintptr_t)addr;
	arena->table.map_bytes = bytes;
}
