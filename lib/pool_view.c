// SPDX-License-Identifier: MIT
/*
 * What a pool is made of: copied under its lock, all at one moment, and handed out without, so that whoever is called
 * may call the library in turn.
 */
#include "pool_view.h"

#include <errno.h>
#include <stdlib.h>

static void add_block(struct hpi_view *view, void *addr, uint64_t bytes, uint64_t requested, enum hugepin_block_state state)
{
	if (view->block_count < view->block_room)
		view->blocks[view->block_count] = (struct hugepin_block_info){
			.size = sizeof(view->blocks[0]),
			.addr = addr,
			.bytes = bytes,
			.requested_bytes = requested,
			.state = state,
		};
	view->block_count++;
}

static void add_piece(const struct hpi_arena_piece *piece, void *arg)
{
	add_block(arg, piece->addr, piece->bytes, piece->requested, piece->state);
}

/* Counts all there is, and fills in what there is room for. The caches stopped. */
static void fill(const struct hugepin_pool *pool, struct hpi_view *view)
{
	size_t i;

	view->segment_count = pool->segment_count;
	view->block_count = 0;
	for (i = 0; i < pool->segment_count; i++) {
		const struct segment *segment = &pool->segments[i];

		if (i < view->segment_room)
			hpi_segment_describe(pool, segment, &view->segments[i]);
		if (segment->leaving)
			add_block(view, segment->mapping.addr, segment->mapping.bytes, 0, HUGEPIN_BLOCK_DEFERRED);
	}
	hpi_block_walk(pool, add_piece, view);
	hpi_pool_numbers(pool, &view->stats);
}

static int by_address(const void *a, const void *b)
{
	const struct hugepin_block_info *left = a, *right = b;

	return left->addr < right->addr ? -1 : left->addr > right->addr;
}

/* Room for what was there, and a little that may have come meanwhile. */
static int make_room(struct hpi_view *view)
{
	size_t segments = view->segment_count + 4, blocks = view->block_count + view->block_count / 8 + 16;

	hpi_view_free(view);
	if (hpi_sys_fault && hpi_sys_fault("calloc"))
		return -ENOMEM;
	view->segments = calloc(segments, sizeof(view->segments[0]));
	view->blocks = calloc(blocks, sizeof(view->blocks[0]));
	if (!view->segments || !view->blocks)
		return -ENOMEM;
	view->segment_room = segments;
	view->block_room = blocks;
	return 0;
}

int hpi_view_take(const struct hugepin_pool *pool, struct hpi_view *out)
{
	struct hugepin_pool *books = (struct hugepin_pool *)pool;
	struct hpi_view view = { .segment_count = 0 };

	for (;;) {
		hpi_caches_lock(books);
		fill(pool, &view);
		hpi_caches_unlock(books);
		if (view.segment_count <= view.segment_room && view.block_count <= view.block_room)
			break;
		if (make_room(&view)) {
			hpi_view_free(&view);
			return hpi_error(-ENOMEM, "%s pool: no memory to copy what it has: %zu segments, %zu blocks",
					 hpi_pool_name(pool), view.segment_count, view.block_count);
		}
	}
	if (view.block_count)
		qsort(view.blocks, view.block_count, sizeof(view.blocks[0]), by_address);
	*out = view;
	return 0;
}

void hpi_view_free(struct hpi_view *view)
{
	free(view->segments);
	free(view->blocks);
	view->segments = NULL;
	view->blocks = NULL;
	view->segment_room = view->block_room = 0;
}

const char *hpi_view_state(enum hugepin_block_state state)
{
	static const char *const names[] = {
		[HUGEPIN_BLOCK_ACTIVE] = "active",
		[HUGEPIN_BLOCK_CACHED] = "cached",
		[HUGEPIN_BLOCK_DEFERRED] = "deferred",
		[HUGEPIN_BLOCK_FREE] = "free",
	};

	return names[state];
}

const char *hpi_view_provider(enum hugepin_provider provider)
{
	switch (provider) {
	case HUGEPIN_PROVIDER_KMOD:
		return "kmod";
	case HUGEPIN_PROVIDER_HUGETLB:
		return "hugetlb";
	case HUGEPIN_PROVIDER_BASE:
		return "base";
	case HUGEPIN_PROVIDER_THP:
		return "thp";
	case HUGEPIN_PROVIDER_RUNTIME:
		return "runtime";
	default:
		return "device";
	}
}

int hugepin_pool_each_block(const struct hugepin_pool *pool, int (*fn)(const struct hugepin_block_info *info, void *arg),
			    void *arg)
{
	struct hpi_view view;
	size_t i;
	int err = hpi_context_check(pool->ctx);

	if (!err && !fn)
		err = hpi_error(-EINVAL, "%s pool: a walk with nobody to tell", hpi_pool_name(pool));
	if (!err)
		err = hpi_view_take(pool, &view);
	if (err)
		return err;
	for (i = 0; i < view.block_count && !err; i++)
		err = fn(&view.blocks[i], arg);
	hpi_view_free(&view);
	return err;
}
