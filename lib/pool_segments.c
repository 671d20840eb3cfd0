// SPDX-License-Identifier: MIT
/*
 * A pool's segments come and go. On its way in or out a segment is "leaving": in the table and counted, but not in the
 * arena. So whatever step fails, and whatever cannot be undone, the books say what is mapped and registered.
 */
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hpi_provider *provider_of(const struct hugepin_pool *pool, const struct segment *segment)
{
	return pool->ladder.rungs[segment->rung].provider;
}

static int table_reserve(struct hugepin_pool *pool)
{
	size_t room = pool->segment_room ? 2 * pool->segment_room : 8;
	struct segment *segments;

	if (pool->segment_count < pool->segment_room)
		return 0;
	segments = hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(room, sizeof(*segments));
	if (!segments)
		return hpi_error(-ENOMEM, "%s pool: no memory for a table of %zu segments", hpi_pool_name(pool), room);
	hpi_pool_lock(pool);
	if (pool->segment_count)
		memcpy(segments, pool->segments, pool->segment_count * sizeof(*segments));
	free(pool->segments);
	pool->segments = segments;
	pool->segment_room = room;
	hpi_pool_unlock(pool);
	return 0;
}

/* Leaving until it is in the arena. Returns its position. */
static size_t table_insert(struct hugepin_pool *pool, const struct hpi_mapping *mapping, size_t rung)
{
	size_t at = 0;

	while (at < pool->segment_count && pool->segments[at].mapping.addr < mapping->addr)
		at++;
	hpi_pool_lock(pool);
	memmove(&pool->segments[at + 1], &pool->segments[at], (pool->segment_count - at) * sizeof(pool->segments[0]));
	pool->segments[at] = (struct segment){ .mapping = *mapping, .rung = rung, .leaving = true };
	pool->segment_count++;
	pool->leaving_bytes += mapping->bytes;
	hpi_pool_unlock(pool);
	return at;
}

static void table_remove(struct hugepin_pool *pool, size_t at)
{
	hpi_pool_lock(pool);
	pool->leaving_bytes -= pool->segments[at].mapping.bytes;
	pool->segment_count--;
	memmove(&pool->segments[at], &pool->segments[at + 1], (pool->segment_count - at) * sizeof(pool->segments[0]));
	hpi_pool_unlock(pool);
}

static void set_registered(struct hugepin_pool *pool, struct segment *segment, bool registered)
{
	hpi_pool_lock(pool);
	segment->registered = registered;
	if (registered)
		pool->registered_bytes += segment->mapping.bytes;
	else
		pool->registered_bytes -= segment->mapping.bytes;
	hpi_pool_unlock(pool);
}

/* ---- out with what is leaving, or it stays so ---- */

#define BATCH_MAX	64

/* Segments that go together, from the highest position on. */
struct batch {
	size_t count, positions[BATCH_MAX];
	uint64_t bytes;
};

static void add_to_batch(struct hugepin_pool *pool, struct batch *batch, size_t position)
{
	batch->positions[batch->count++] = position;
	batch->bytes += pool->segments[position].mapping.bytes;
}

/* The first error; what could be unregistered is not registered any more. */
static int unregister(struct hugepin_pool *pool, const struct batch *batch)
{
	struct segment *segments[BATCH_MAX];
	struct hpi_span spans[BATCH_MAX];
	size_t i, count = 0;
	int err;

	for (i = 0; i < batch->count; i++) {
		struct segment *segment = &pool->segments[batch->positions[i]];

		if (!segment->registered)
			continue;
		if (provider_of(pool, segment)->places_itself) {
			set_registered(pool, segment, false);
			continue;
		}
		segments[count] = segment;
		spans[count++] = (struct hpi_span){ .addr = segment->mapping.addr, .bytes = segment->mapping.bytes };
	}
	err = count ? hpi_unregister_ranges(pool->ctx, spans, count) : 0;
	for (i = 0; i < count; i++) {
		if (!spans[i].err)
			set_registered(pool, segments[i], false);
	}
	return err;
}

static int unmap(struct hugepin_pool *pool, size_t position)
{
	struct segment *segment = &pool->segments[position];
	struct hpi_mapping mapping = segment->mapping;
	uint64_t bytes = mapping.bytes;
	int err = provider_of(pool, segment)->unmap(pool->ctx, &mapping, true);

	if (err)
		return err;
	hpi_log(HUGEPIN_LOG_INFO, "%s pool: gave back %llu bytes at %p", hpi_pool_name(pool),
		(unsigned long long)segment->mapping.bytes, segment->mapping.addr);
	table_remove(pool, position);
	hpi_caps_uncharge(pool, bytes);
	return 0;
}

/* The first error. */
static int expel_batch(struct hugepin_pool *pool, const struct batch *batch, uint64_t *given)
{
	int err, first = unregister(pool, batch);
	size_t i;

	if (first)
		hpi_error_add(first, "; it stays mapped");
	for (i = 0; i < batch->count; i++) {
		uint64_t bytes = pool->segments[batch->positions[i]].mapping.bytes;

		if (pool->segments[batch->positions[i]].registered)
			continue;
		err = unmap(pool, batch->positions[i]);
		if (!err)
			*given += bytes;
		else if (!first)
			first = err;
	}
	return first;
}

static int expel(struct hugepin_pool *pool, size_t position)
{
	struct batch batch = { .count = 0 };
	uint64_t given = 0;

	add_to_batch(pool, &batch, position);
	return expel_batch(pool, &batch, &given);
}

/* Undoes a growth that failed; its error text is the one to be seen. */
static int undo(struct hugepin_pool *pool, size_t position, int err)
{
	char text[512];

	snprintf(text, sizeof(text), "%s", hugepin_error());
	if (expel(pool, position))
		hpi_log(HUGEPIN_LOG_ERROR, "%s pool: after a failed growth: %s", hpi_pool_name(pool), hugepin_error());
	return hpi_error(err, "%s", text);
}

static int enter(struct hugepin_pool *pool, struct segment *segment)
{
	const struct hpi_mapping *mapping = &segment->mapping;
	int err;

	hpi_pool_lock(pool);
	err = hpi_arena_add(hpi_space_at(pool, mapping->addr).arena, mapping->addr, mapping->bytes, mapping->zeroed);
	if (!err) {
		segment->leaving = false;
		pool->leaving_bytes -= mapping->bytes;
		pool->fallbacks += segment->rung > 0;
		hpi_pool_note_peaks(pool);
	}
	hpi_pool_unlock(pool);
	return err;
}

static int cannot_register(const struct hugepin_pool *pool)
{
	return hpi_error(-EOPNOTSUPP, "runtime %s registers no memory on this machine%s", pool->ctx->runtime->name,
			 pool->ctx->runtime->host_alloc ? ": the rung \"runtime\" has memory that it allocates" : "");
}

/* -EOPNOTSUPP is for the whole machine: the rungs that follow need not map anything to find out. */
static int enrol(struct hugepin_pool *pool, struct segment *segment)
{
	int err = hpi_register_mapping(pool->ctx, &segment->mapping);

	if (!err || err == -ENOTRECOVERABLE)	/* it failed half-way and is still booked */
		set_registered(pool, segment, true);
	if (err == -EOPNOTSUPP)
		pool->cannot_register = true;
	if (err == -EDQUOT)			/* of smaller pages the need alone may fit under the limit */
		err = -ENOMEM;
	return !err || err == -ENOMEM || err == -EOPNOTSUPP ? err : -EIO;
}

/* Registering costs by the page: what it was is for who chooses page sizes. */
static void tell_growth(const struct hugepin_pool *pool, const struct hpi_mapping *mapping, const char *provider,
			uint64_t register_ns)
{
	unsigned long long per_gib_ms = register_ns * (HPI_1G >> 12) / (mapping->bytes >> 12) / 1000000;
	char cost[80] = "";

	if (pool->pinned)
		snprintf(cost, sizeof(cost), ", registered in %llu us, %llu ms a GiB", (unsigned long long)register_ns / 1000,
			 per_gib_ms);
	hpi_log(HUGEPIN_LOG_INFO, "%s pool: %llu bytes from %s at %p, node %d, %llu in 1G pages, %llu in 2M pages%s",
		hpi_pool_name(pool), (unsigned long long)mapping->bytes, provider, mapping->addr, mapping->node,
		(unsigned long long)mapping->bytes_1g, (unsigned long long)mapping->bytes_2m, cost);
}

int hpi_segment_map(struct hugepin_pool *pool, size_t rung, const struct place *place, uint64_t bytes)
{
	const struct hpi_rung *from = &pool->ladder.rungs[rung];
	const struct hpi_request request = {
		.bytes = bytes,
		.classes = from->classes,
		.policy = &pool->policy,
		.addr = place->addr,
		.device = pool->device,
	};
	struct hpi_mapping mapping;
	uint64_t start, register_ns;
	size_t position;
	int err;

	if (pool->pinned && pool->cannot_register && !from->provider->places_itself)
		return cannot_register(pool);
	err = table_reserve(pool);
	if (err)
		return err;
	err = hpi_caps_charge(pool, bytes);
	if (err)
		return err;
	err = from->provider->map(pool->ctx, &request, &mapping);
	if (err) {
		hpi_caps_uncharge(pool, bytes);
		return err;
	}
	position = table_insert(pool, &mapping, rung);
	start = hpi_sys_now_ns();
	if (pool->pinned) {
		err = enrol(pool, &pool->segments[position]);
		if (err)
			return undo(pool, position, err);
	}
	register_ns = hpi_sys_now_ns() - start;
	err = enter(pool, &pool->segments[position]);
	if (err)
		return undo(pool, position, err);
	tell_growth(pool, &mapping, from->provider->name, register_ns);
	return 0;
}

/* -EBUSY: in use */
static int part(struct hugepin_pool *pool, struct segment *segment)
{
	int err;

	hpi_pool_lock(pool);
	err = hpi_arena_remove(hpi_space_at(pool, segment->mapping.addr).arena, segment->mapping.addr,
			       segment->mapping.bytes);
	if (!err) {
		segment->leaving = true;
		pool->leaving_bytes += segment->mapping.bytes;
	}
	hpi_pool_unlock(pool);
	return err;
}

int hpi_segment_unmap(struct hugepin_pool *pool, size_t position)
{
	struct segment *segment = &pool->segments[position];
	int err = segment->leaving ? 0 : part(pool, segment);

	return err ? err : expel(pool, position);
}

int hpi_segments_unmap_in(struct hugepin_pool *pool, const struct hpi_space *space)
{
	int err = 0;
	size_t i;

	for (i = pool->segment_count; i && !err; i--) {
		const char *addr = pool->segments[i - 1].mapping.addr;

		if (addr >= space->start && addr < space->end)
			err = hpi_segment_unmap(pool, i - 1);
	}
	return err;
}

static bool is_idle(struct hugepin_pool *pool, const struct segment *segment)
{
	bool idle;

	hpi_pool_lock(pool);
	idle = !hpi_extent_is_taken(pool, segment->mapping.addr) &&
	       hpi_arena_is_free(hpi_space_at(pool, segment->mapping.addr).arena, segment->mapping.addr,
				 segment->mapping.bytes);
	hpi_pool_unlock(pool);
	return idle;
}

uint64_t hpi_segments_idle(struct hugepin_pool *pool)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < pool->segment_count; i++) {
		if (is_idle(pool, &pool->segments[i]))
			bytes += pool->segments[i].mapping.bytes;
	}
	return bytes;
}

/* Takes what is to go from the arena, until @stay bytes are no more than @keep_bytes, or @most are gone. Returns how many. */
static uint64_t part_some(struct hugepin_pool *pool, uint64_t stay, uint64_t keep_bytes, uint64_t most)
{
	uint64_t parted = 0;
	size_t i;

	for (i = pool->segment_count; i && stay > keep_bytes && parted < most; i--) {
		struct segment *segment = &pool->segments[i - 1];

		if (segment->leaving || !is_idle(pool, segment) || part(pool, segment))
			continue;
		stay -= segment->mapping.bytes;
		parted += segment->mapping.bytes;
	}
	return parted;
}

void hpi_segments_part(struct hugepin_pool *pool, uint64_t keep_bytes)
{
	uint64_t stay = hpi_pool_mapped(pool) - pool->leaving_bytes;

	if (stay > keep_bytes)
		hpi_caches_empty(pool);
	part_some(pool, stay, keep_bytes, UINT64_MAX);
}

int hpi_segments_expel(struct hugepin_pool *pool, uint64_t *given)
{
	struct batch batch = { .count = 0 };
	uint64_t most = hpi_options_deferred_deletion(pool->ctx->options);
	int err, first = 0;
	size_t i;

	for (i = pool->segment_count; i; i--) {
		if (pool->segments[i - 1].leaving)
			add_to_batch(pool, &batch, i - 1);
		if (!batch.count || (i > 1 && batch.bytes < most && batch.count < BATCH_MAX))
			continue;
		err = expel_batch(pool, &batch, given);
		first = first ? first : err;
		batch = (struct batch){ .count = 0 };
	}
	return first;
}

/*
 * Some at a time, so that the rest can be used meanwhile. What the runtime or the kernel refuses stays, leaving: the
 * others go all at once then, so that it is not asked again and again.
 */
int hpi_segments_trim(struct hugepin_pool *pool, uint64_t keep_bytes, uint64_t *given)
{
	uint64_t most = hpi_options_deferred_deletion(pool->ctx->options), parted;
	uint64_t stay = hpi_pool_mapped(pool) - pool->leaving_bytes;
	int err, first = 0;

	if (hpi_pool_mapped(pool) <= keep_bytes)
		return 0;
	hpi_caches_empty(pool);
	parted = part_some(pool, stay, keep_bytes, most);
	do {
		err = hpi_segments_expel(pool, given);
		first = first ? first : err;
		most = err ? UINT64_MAX : most;
		parted = part_some(pool, hpi_pool_mapped(pool), keep_bytes, most);
	} while (parted);
	return first;
}
