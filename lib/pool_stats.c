// SPDX-License-Identifier: MIT
/*
 * A pool in numbers: each answer is one snapshot, taken under the pool's lock.
 */
#include "pool.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MAX(a, b)	((a) > (b) ? (a) : (b))

uint64_t hpi_pool_mapped(const struct hugepin_pool *pool)
{
	return hpi_arena_mapped(pool->arena) + hpi_extents_mapped(pool) + pool->leaving_bytes + pool->variable_bytes;
}

void hpi_pool_sum(const struct hugepin_pool *pool, struct hpi_arena_stats *out)
{
	hpi_arena_stats(pool->arena, out);
	hpi_extents_add_stats(pool, out);
	hpi_caches_correct(pool, out);
}

void hpi_pool_note_peaks_above(struct hugepin_pool *pool, int64_t active, int64_t requested)
{
	struct hpi_arena_stats arena;

	hpi_pool_sum(pool, &arena);
	active += (int64_t)(arena.active_bytes + pool->variable_bytes);
	requested += (int64_t)(arena.requested_bytes + pool->variable_requested);
	pool->peak_active = MAX(pool->peak_active, (uint64_t)active);
	pool->peak_requested = MAX(pool->peak_requested, (uint64_t)requested);
	pool->peak_mapped = MAX(pool->peak_mapped, hpi_pool_mapped(pool));
}

void hpi_pool_note_peaks(struct hugepin_pool *pool)
{
	hpi_pool_note_peaks_above(pool, 0, 0);
}

int hpi_pool_answer(void *out, size_t out_size, const void *ours, size_t our_size)
{
	if (out_size < our_size || out_size > HPI_STRUCT_MAX)
		return hpi_error(-EINVAL, "size is %zu, not that of the struct: %zu to %d", out_size, our_size,
				 HPI_STRUCT_MAX);
	memset(out, 0, out_size);
	memcpy(out, ours, our_size);
	*(size_t *)out = out_size;
	return 0;
}

void hpi_pool_numbers(const struct hugepin_pool *pool, struct hugepin_pool_stats *out)
{
	struct hpi_arena_stats arena, zero_size;

	hpi_pool_sum(pool, &arena);
	hpi_arena_stats(pool->zero_size, &zero_size);
	*out = (struct hugepin_pool_stats){
		.active_bytes = arena.active_bytes + pool->variable_bytes,
		.deferred_bytes = pool->leaving_bytes + arena.retired_bytes,
		.cached_bytes = arena.mapped_bytes - arena.active_bytes - arena.retired_bytes - arena.free_bytes,
		.free_bytes = arena.free_bytes,
		.mapped_bytes = hpi_pool_mapped(pool),
		.registered_bytes = pool->registered_bytes,
		.requested_bytes = arena.requested_bytes + pool->variable_requested,
		.peak_active_bytes = pool->peak_active,
		.peak_requested_bytes = pool->peak_requested,
		.peak_mapped_bytes = pool->peak_mapped,
		.cap_bytes = pool->cap_bytes,
		.active_blocks = arena.active_blocks + zero_size.active_blocks + pool->variables,
		.allocs = pool->allocs,
		.frees = pool->frees,
		.failed_allocs = pool->failed_allocs,
		.segments = pool->segment_count,
		.fallbacks = pool->fallbacks,
	};
	out->wasted_bytes = out->active_bytes - out->requested_bytes;
}

int hugepin_pool_stats_get(const struct hugepin_pool *pool, struct hugepin_pool_stats *stats)
{
	struct hugepin_pool *books = (struct hugepin_pool *)pool;
	struct hugepin_pool_stats ours;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	hpi_caches_lock(books);
	hpi_pool_numbers(pool, &ours);
	hpi_caches_unlock(books);
	return hpi_pool_answer(stats, stats->size, &ours, sizeof(ours));
}

void hpi_segment_describe(const struct hugepin_pool *pool, const struct segment *segment, struct hugepin_segment_info *out)
{
	const struct hpi_mapping *mapping = &segment->mapping;
	uint64_t page_bytes = HPI_1G;

	if (mapping->provider == HUGEPIN_PROVIDER_THP && mapping->bytes_2m < mapping->bytes)
		page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	else if (mapping->bytes_1g + mapping->bytes_2m < mapping->bytes)
		page_bytes = hpi_ladder_granule(&pool->ladder.rungs[segment->rung]);
	else if (mapping->bytes_2m)
		page_bytes = HPI_2M;
	*out = (struct hugepin_segment_info){
		.addr = mapping->addr,
		.bytes = mapping->bytes,
		.provider = mapping->provider,
		.page_bytes = page_bytes,
		.bytes_1g = mapping->bytes_1g,
		.bytes_2m = mapping->bytes_2m,
		.node = mapping->node,
		.fd = mapping->fd,
		.offset = mapping->offset,
		.registered = segment->registered ? pool->ctx->runtime->name : "",
	};
}

int hugepin_pool_segment(const struct hugepin_pool *pool, size_t position, struct hugepin_segment_info *info)
{
	struct hugepin_segment_info ours;
	size_t count;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	hpi_pool_lock(pool);
	count = pool->segment_count;
	if (position < count)
		hpi_segment_describe(pool, &pool->segments[position], &ours);
	hpi_pool_unlock(pool);
	if (position >= count)
		return hpi_error(-ENOENT, "segment %zu of %zu", position, count);
	return hpi_pool_answer(info, info->size, &ours, sizeof(ours));
}

const struct segment *hpi_segment_of(const struct hugepin_pool *pool, const void *address)
{
	const char *ptr = address;
	size_t low = 0, high = pool->segment_count, middle;
	const struct hpi_mapping *mapping;

	while (low < high) {
		middle = low + (high - low) / 2;
		mapping = &pool->segments[middle].mapping;
		if (ptr < (const char *)mapping->addr)
			high = middle;
		else if (ptr >= (const char *)mapping->addr + mapping->bytes)
			low = middle + 1;
		else
			return &pool->segments[middle];
	}
	return NULL;
}

/* Any address within a block will do: a block may span segments, and so the caller can ask for each. */
int hugepin_block_segment(const struct hugepin_pool *pool, const void *ptr, struct hugepin_segment_info *info)
{
	struct hugepin_segment_info ours;
	const struct segment *segment;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	hpi_pool_lock(pool);
	segment = hpi_segment_of(pool, ptr);
	if (segment)
		hpi_segment_describe(pool, segment, &ours);
	hpi_pool_unlock(pool);
	if (!segment)
		return hpi_error(-ENOENT, "%p is in no segment of the %s pool", ptr, hpi_pool_name(pool));
	return hpi_pool_answer(info, info->size, &ours, sizeof(ours));
}
