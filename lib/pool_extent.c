// SPDX-License-Identifier: MIT
/*
 * Extents: address space beside the pool's window, each with an arena of its own, in which plans lie. Reserved once, so
 * that pages can be mapped at its end without anything moving; what is mapped there is segments like all others.
 *
 *	extent: | segment | segment | ... nothing mapped yet ...                    |
 *
 * Blocks of the pool's never lie in one. An extent that no plan has keeps its pages for the next one, until the pool is
 * trimmed or short of memory.
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXTENT_MIN	HPI_GIB(1)

static struct hpi_extent *extent_at(const struct hugepin_pool *pool, const void *ptr)
{
	struct hpi_extent *extent;

	for (extent = pool->extents; extent; extent = extent->next) {
		if ((const char *)ptr >= extent->space.start && (const char *)ptr < extent->space.end)
			return extent;
	}
	return NULL;
}

struct hpi_space hpi_space_at(const struct hugepin_pool *pool, const void *ptr)
{
	const struct hpi_extent *extent = extent_at(pool, ptr);

	if (extent)
		return extent->space;
	return (struct hpi_space){ .start = pool->window, .end = pool->window_end, .arena = pool->arena };
}

bool hpi_extent_is_taken(const struct hugepin_pool *pool, const void *ptr)
{
	const struct hpi_extent *extent = extent_at(pool, ptr);

	return extent && extent->taken;
}

void hpi_extents_add_stats(const struct hugepin_pool *pool, struct hpi_arena_stats *stats)
{
	const struct hpi_extent *extent;
	struct hpi_arena_stats more;

	for (extent = pool->extents; extent; extent = extent->next) {
		hpi_arena_stats(extent->space.arena, &more);
		stats->mapped_bytes += more.mapped_bytes;
		stats->free_bytes += more.free_bytes;
		stats->active_bytes += more.active_bytes;
		stats->requested_bytes += more.requested_bytes;
		stats->retired_bytes += more.retired_bytes;
		stats->active_blocks += more.active_blocks;
	}
}

uint64_t hpi_extents_mapped(const struct hugepin_pool *pool)
{
	const struct hpi_extent *extent;
	uint64_t bytes = 0;

	for (extent = pool->extents; extent; extent = extent->next)
		bytes += hpi_arena_mapped(extent->space.arena);
	return bytes;
}

static int reserve_bytes(struct hugepin_pool *pool, uint64_t bytes, void **out)
{
	if (pool->device >= 0)
		return hpi_device_reserve(pool->ctx, pool->device, bytes, out);
	return hpi_sys_mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, out);
}

static uint64_t smaller(uint64_t size, uint64_t least)
{
	return size / 2 > least ? hpi_round_up(size / 2, HPI_1G) : least;
}

/* As much address space as there is memory; under a limit no more than a share, as a window, but room for @bytes. */
static int reserve(struct hugepin_pool *pool, struct hpi_extent *extent, uint64_t bytes)
{
	uint64_t least = hpi_round_up(bytes > EXTENT_MIN ? bytes : EXTENT_MIN, HPI_1G), size = least;
	uint64_t share = pool->device < 0 ? hpi_window_share() : UINT64_MAX;
	struct hpi_memory memory;
	int err;

	if (!pool->memory(pool, &memory) && memory.total_bytes > least)
		size = hpi_round_up(memory.total_bytes, HPI_1G);
	while (size > least && size + HPI_1G > share)
		size = smaller(size, least);
	for (;; size = smaller(size, least)) {
		extent->reserved_bytes = size + HPI_1G;
		err = reserve_bytes(pool, extent->reserved_bytes, &extent->reserved);
		if (err != -ENOMEM || size == least)
			break;
	}
	if (err)
		return hpi_error(err, "%s pool: reserving %llu bytes of address space for a plan: %s",
				 hpi_pool_name(pool), (unsigned long long)extent->reserved_bytes, strerror(-err));
	hpi_error_clear();		/* of an attempt that was too large */
	extent->space.start = (char *)hpi_round_up((uintptr_t)extent->reserved, HPI_1G);
	extent->space.end = extent->space.start + size;
	return 0;
}

static int make(struct hugepin_pool *pool, uint64_t bytes, struct hpi_extent **out)
{
	struct hpi_extent *extent = hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(1, sizeof(*extent));
	int err;

	if (!extent)
		return hpi_error(-ENOMEM, "%s pool: no memory for an extent", hpi_pool_name(pool));
	err = hpi_arena_create(&extent->space.arena);
	if (!err)
		err = reserve(pool, extent, bytes);
	if (err) {
		hpi_arena_destroy(extent->space.arena);
		free(extent);
		return err;
	}
	*out = extent;
	return 0;
}

static bool has_leaving_segment(const struct hugepin_pool *pool, const struct hpi_extent *extent)
{
	size_t i;

	for (i = 0; i < pool->segment_count; i++) {
		if (pool->segments[i].leaving && extent_at(pool, pool->segments[i].mapping.addr) == extent)
			return true;
	}
	return false;
}

/*
 * CLEAN blocks go from the extent's first byte up, so that must be free. It is not when a block of an ended plan is
 * behind its fence; nor when such a block kept a later segment from a trim that took the first one; nor while a segment
 * is leaving, of which those who watch the pool are being told.
 */
static bool begins_free(struct hugepin_pool *pool, const struct hpi_extent *extent)
{
	uint64_t mapped;
	bool free;

	hpi_pool_lock(pool);
	mapped = hpi_arena_mapped(extent->space.arena);
	free = !mapped || hpi_arena_is_free(extent->space.arena, extent->space.start, mapped);
	hpi_pool_unlock(pool);
	return free && !has_leaving_segment(pool, extent);
}

int hpi_extent_get(struct hugepin_pool *pool, uint64_t bytes, bool clean, struct hpi_extent **out)
{
	struct hpi_extent *extent;
	int err;

	for (extent = pool->extents; extent; extent = extent->next) {
		if (extent->reserved && !extent->taken && extent->clean == clean && (!clean || begins_free(pool, extent)) &&
		    bytes <= (uint64_t)(extent->space.end - extent->space.start))
			break;
	}
	if (!extent) {
		err = make(pool, bytes, &extent);
		if (err)
			return err;
		extent->clean = clean;
		hpi_pool_lock(pool);
		extent->next = pool->extents;
		pool->extents = extent;
		hpi_pool_unlock(pool);
	}
	extent->taken = true;
	*out = extent;
	return 0;
}

void hpi_extents_free_books(struct hugepin_pool *pool)
{
	struct hpi_extent *extent;

	while ((extent = pool->extents)) {
		pool->extents = extent->next;
		hpi_arena_destroy(extent->space.arena);
		free(extent);
	}
}

static int unreserve(struct hugepin_pool *pool, struct hpi_extent *extent)
{
	int err;

	if (pool->device >= 0)
		return hpi_device_release(pool->ctx, pool->device, extent->reserved, extent->reserved_bytes);
	err = hpi_sys_munmap(extent->reserved, extent->reserved_bytes);
	return err ? hpi_error(err, "%s pool: giving back the address space of a plan: %s", hpi_pool_name(pool),
			       strerror(-err)) : 0;
}

int hpi_extents_unmap(struct hugepin_pool *pool)
{
	struct hpi_extent *extent;
	int err = 0;

	for (extent = pool->extents; extent && !err; extent = extent->next) {
		if (!extent->reserved)
			continue;
		err = unreserve(pool, extent);
		if (!err)
			extent->reserved = NULL;
	}
	return err;
}
