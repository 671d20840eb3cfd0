// SPDX-License-Identifier: MIT
/*
 * How much memory there is, how much of it pools have taken, and what the caps still allow. A cap is checked against
 * bytes that are really mapped, before they are: a charge is made first and taken back if the mapping fails, so that
 * pools growing side by side never get beyond a cap together.
 */
#include "pool.h"

#include <errno.h>
#include <unistd.h>

static uint64_t min_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- How much there is ---- */

/* Read at each growth: a container's limit changes, and others use the same memory. */
int hpi_memory_host(const struct hugepin_pool *pool, struct hpi_memory *out)
{
	uint64_t limit, headroom, room = hpi_room_on_machine("");
	int err = hpi_cgroup_memory_limit("", &limit);

	if (!err)
		err = hpi_cgroup_memory_headroom("", &headroom);
	if (err)
		return err;
	out->total_bytes = min_bytes(limit, pool->ctx->topology.memory_bytes);
	out->available_bytes = room == UINT64_MAX ? 0 : min_bytes(min_bytes(out->total_bytes, headroom), room);
	return 0;
}

int hpi_memory_device(const struct hugepin_pool *pool, struct hpi_memory *out)
{
	return hpi_device_memory(pool->ctx, pool->device, &out->total_bytes, &out->available_bytes);
}

/* ---- What the pools of this process have taken, all contexts together ---- */

/*
 * One word has the process's id and its base pages, so that a child of a fork begins at nothing, with no lock that a
 * thread of the parent could have held. Kernels have fewer than 2^22 ids.
 */
#define PAGES_BITS	42
#define PAGES_MASK	((1ull << PAGES_BITS) - 1)
#define PAGE_UNIT	4096ull

static uint64_t process_word;

static uint64_t process_pages(uint64_t word)
{
	return word >> PAGES_BITS == (uint64_t)getpid() ? word & PAGES_MASK : 0;
}

static uint64_t process_bytes(void)
{
	return process_pages(__atomic_load_n(&process_word, __ATOMIC_RELAXED)) * PAGE_UNIT;
}

/* False: over @limit, and @held is what the process has. */
static bool process_add(uint64_t bytes, uint64_t limit, uint64_t *held)
{
	uint64_t before = __atomic_load_n(&process_word, __ATOMIC_RELAXED), after;

	do {
		*held = process_pages(before) * PAGE_UNIT;
		if (*held > limit || bytes > limit - *held)
			return false;
		after = (uint64_t)getpid() << PAGES_BITS | (*held + bytes) / PAGE_UNIT;
	} while (!__atomic_compare_exchange_n(&process_word, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

static void process_sub(uint64_t bytes)
{
	__atomic_sub_fetch(&process_word, bytes / PAGE_UNIT, __ATOMIC_RELAXED);
}

/* UINT64_MAX: no such cap. */
static uint64_t process_limit(const struct hugepin_pool *pool)
{
	struct hpi_memory memory;

	if (!pool->host_fraction)
		return UINT64_MAX;
	if (pool->memory(pool, &memory)) {
		hpi_error_clear();
		memory.total_bytes = pool->ctx->topology.limit_bytes;	/* as it was when the context was made */
	}
	return hpi_options_share(pool->host_fraction, memory.total_bytes);
}

/* ---- The caps of one pool ---- */

uint64_t hpi_caps_of_device(const struct hugepin_options *options, uint64_t total_bytes)
{
	double fraction = hpi_options_double(options, HPI_OPT_TF_GPU_FRACTION);
	uint64_t cap = hpi_options_uint(options, HPI_OPT_DEVICE_CAP), share;

	if (!fraction)
		return cap;
	share = hpi_options_share(fraction, total_bytes) & ~(HPI_2M - 1);	/* whole pages */
	return cap ? min_bytes(cap, share) : share;
}

/* What counts towards the pool's cap: its own bytes, or those of all that force_gpu_compatible puts under one. */
static uint64_t capped_bytes(const struct hugepin_pool *pool)
{
	return pool->compatible ? __atomic_load_n(&pool->ctx->compatible_bytes, __ATOMIC_RELAXED) :
				  hpi_pool_mapped(pool);
}

uint64_t hpi_caps_left(const struct hugepin_pool *pool)
{
	uint64_t left = UINT64_MAX, limit;

	if (pool->cap_bytes)
		left = pool->cap_bytes - min_bytes(pool->cap_bytes, capped_bytes(pool));
	if (pool->on_host) {
		limit = process_limit(pool);
		if (limit != UINT64_MAX)
			left = min_bytes(left, limit - min_bytes(limit, process_bytes()));
	}
	return left;
}

static int over_cap(const struct hugepin_pool *pool, uint64_t asked, uint64_t mapped)
{
	return hpi_error(-ENOMEM, "over the cap of the %s pool%s: asked %llu bytes, mapped %llu, cap %llu",
			 pool->compatible ? "pinned" : hpi_pool_name(pool),
			 pool->compatible ? ", from which force_gpu_compatible serves the host pool too" : "",
			 (unsigned long long)asked, (unsigned long long)mapped, (unsigned long long)pool->cap_bytes);
}

/* Needs growth held, so that the pool's own bytes stand still; others' do not. */
static int charge_pool(struct hugepin_pool *pool, uint64_t bytes)
{
	uint64_t mapped = capped_bytes(pool);

	do {
		if (pool->cap_bytes && (mapped > pool->cap_bytes || bytes > pool->cap_bytes - mapped))
			return over_cap(pool, bytes, mapped);
	} while (pool->compatible &&
		 !__atomic_compare_exchange_n(&pool->ctx->compatible_bytes, &mapped, mapped + bytes, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return 0;
}

static void uncharge_pool(struct hugepin_pool *pool, uint64_t bytes)
{
	if (pool->compatible)
		__atomic_sub_fetch(&pool->ctx->compatible_bytes, bytes, __ATOMIC_RELAXED);
}

int hpi_caps_charge(struct hugepin_pool *pool, uint64_t bytes)
{
	uint64_t limit, held;
	int err = charge_pool(pool, bytes);

	if (err || !pool->on_host)
		return err;
	limit = process_limit(pool);
	if (process_add(bytes, limit, &held))
		return 0;
	uncharge_pool(pool, bytes);
	return hpi_error(-ENOMEM, "%s pool: over per_process_host_memory_fraction: asked %llu bytes, this process's "
			 "pools have %llu, limit %llu", hpi_pool_name(pool), (unsigned long long)bytes,
			 (unsigned long long)held, (unsigned long long)limit);
}

void hpi_caps_uncharge(struct hugepin_pool *pool, uint64_t bytes)
{
	uncharge_pool(pool, bytes);
	if (pool->on_host)
		process_sub(bytes);
}
