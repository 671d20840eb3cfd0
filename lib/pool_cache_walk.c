// SPDX-License-Identifier: MIT
/* All pieces of a pool, as its users see them: blocks in spans one by one, and what caches keep as cached. */
#include "pool_cache.h"

struct walk {
	const struct hugepin_pool *pool;
	void (*fn)(const struct hpi_arena_piece *piece, void *arg);
	void *arg;
};

static void show_block(const struct walk *walk, const struct span *span, unsigned int block)
{
	uint32_t held = span->held[block];
	struct hpi_arena_piece piece = {
		.addr = (void *)(span_addr(span) + block * span->lot.bytes),
		.bytes = span->lot.bytes,
		.state = HUGEPIN_BLOCK_CACHED,
	};

	if (held == HELD_RETIRED) {
		piece.state = HUGEPIN_BLOCK_DEFERRED;
	} else if (held) {
		piece.state = HUGEPIN_BLOCK_ACTIVE;
		piece.requested = held - 1;
	}
	walk->fn(&piece, walk->arg);
}

static void show_span(const struct walk *walk, const struct span *span, const struct hpi_arena_piece *whole)
{
	uint64_t used = span->blocks * span->lot.bytes;
	struct hpi_arena_piece rest = *whole;
	unsigned int block;

	for (block = 0; block < span->blocks; block++)
		show_block(walk, span, block);
	if (used == whole->bytes)
		return;
	rest.addr = (char *)whole->addr + used;		/* too little for another block */
	rest.bytes = whole->bytes - used;
	rest.state = HUGEPIN_BLOCK_CACHED;
	walk->fn(&rest, walk->arg);
}

static void show(const struct hpi_arena_piece *piece, void *arg)
{
	const struct walk *walk = arg;
	const struct hugepin_pool *pool = walk->pool;
	struct hpi_arena_piece cached = *piece;
	const struct span *span = NULL;

	if (!piece->kept) {
		walk->fn(piece, walk->arg);
		return;
	}
	if (pool->caches)
		span = span_at(pool->caches, (uint64_t)((char *)piece->addr - pool->window));
	if (span) {
		show_span(walk, span, piece);
		return;
	}
	cached.state = HUGEPIN_BLOCK_CACHED;
	cached.requested = 0;
	walk->fn(&cached, walk->arg);
}

void hpi_block_walk(const struct hugepin_pool *pool, void (*fn)(const struct hpi_arena_piece *piece, void *arg), void *arg)
{
	struct walk walk = { .pool = pool, .fn = fn, .arg = arg };
	const struct hpi_extent *extent;

	hpi_arena_walk(pool->arena, show, &walk);
	for (extent = pool->extents; extent; extent = extent->next)
		hpi_arena_walk(extent->space.arena, show, &walk);
}
