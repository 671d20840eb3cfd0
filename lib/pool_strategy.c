// SPDX-License-Identifier: MIT
/*
 * How much a growth takes beyond what is needed: the strategies of OPTIONS "strategy", "FLAGS_allocator_strategy" and
 * "allow_growth". A strategy only wishes: caps, room and the machine have their say in pool_grow.c, and what cannot be
 * had beyond the need is done without. A chunk is no cap.
 */
#include "pool.h"

#include <errno.h>

#define GROWTH_PARTS	128			/* needed: one part in so many of what is mapped */
#define DOUBLING_FIRST	HPI_2M
#define SYSTEM_SHARE	0.95			/* whole, without a cap: the rest is the device's other users' */

static uint64_t min_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_bytes(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- What the options say ---- */

static enum hpi_strategy own_strategy(const struct hugepin_options *options)
{
	return (enum hpi_strategy)hpi_options_uint(options, HPI_OPT_STRATEGY);
}

/* Paddle's host and pinned pools always work by chunks; allocator_strategy and allow_growth are about devices. */
static enum hpi_strategy host_strategy(const struct hugepin_options *options)
{
	if (hpi_options_is_set(options, HPI_OPT_STRATEGY))
		return own_strategy(options);
	return hpi_options_dialect_active(options, "paddle") ? HPI_STRATEGY_CHUNKS : HPI_STRATEGY_NEEDED;
}

void hpi_growth_host(const struct hugepin_options *options, struct hpi_growth *out)
{
	*out = (struct hpi_growth){
		.strategy = host_strategy(options),
		.fraction = hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_CPU),
	};
	hpi_options_scaled(options, HPI_OPT_PADDLE_INITIAL_CPU_MB, &out->most_bytes);
}

void hpi_growth_pinned(const struct hugepin_options *options, struct hpi_growth *out)
{
	*out = (struct hpi_growth){
		.strategy = host_strategy(options),
		.fraction = hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_PINNED),
		.most_bytes = UINT64_MAX,
	};
}

/* Paddle has no such pool: only hugepin's own option makes it work by chunks, of the host pool's size. */
void hpi_growth_variable(const struct hugepin_options *options, struct hpi_growth *out)
{
	hpi_growth_host(options, out);
	out->strategy = own_strategy(options);
}

/* Somebody who gives a size of chunks wants chunks, unless allocator_strategy says otherwise. */
static bool gives_device_chunks(const struct hugepin_options *options)
{
	return hpi_options_is_set(options, HPI_OPT_PADDLE_FRACTION_GPU) ||
	       hpi_options_is_set(options, HPI_OPT_PADDLE_INITIAL_GPU_MB) ||
	       hpi_options_is_set(options, HPI_OPT_PADDLE_REALLOCATE_GPU_MB);
}

static enum hpi_strategy device_strategy(const struct hugepin_options *options, bool *whole)
{
	*whole = false;
	if (hpi_options_outranks(options, HPI_OPT_STRATEGY, HPI_OPT_PADDLE_ALLOCATOR_STRATEGY) &&
	    hpi_options_outranks(options, HPI_OPT_STRATEGY, HPI_OPT_TF_ALLOW_GROWTH))
		return own_strategy(options);
	if (hpi_options_outranks(options, HPI_OPT_PADDLE_ALLOCATOR_STRATEGY, HPI_OPT_TF_ALLOW_GROWTH))
		return hpi_options_uint(options, HPI_OPT_PADDLE_ALLOCATOR_STRATEGY) ? HPI_STRATEGY_NEEDED :
										      HPI_STRATEGY_CHUNKS;
	if (!hpi_options_is_set(options, HPI_OPT_TF_ALLOW_GROWTH) && gives_device_chunks(options))
		return HPI_STRATEGY_CHUNKS;
	if (hpi_options_bool(options, HPI_OPT_TF_ALLOW_GROWTH))
		return HPI_STRATEGY_DOUBLING;
	*whole = hpi_options_dialect_active(options, "tensorflow");
	return *whole ? HPI_STRATEGY_CHUNKS : HPI_STRATEGY_NEEDED;
}

void hpi_growth_device(const struct hugepin_options *options, struct hpi_growth *out)
{
	*out = (struct hpi_growth){
		.fraction = hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_GPU),
		.of_available = true,
		.most_bytes = UINT64_MAX,
	};
	out->strategy = device_strategy(options, &out->whole);
	hpi_options_scaled(options, HPI_OPT_PADDLE_INITIAL_GPU_MB, &out->first_bytes);
	hpi_options_scaled(options, HPI_OPT_PADDLE_REALLOCATE_GPU_MB, &out->next_bytes);
}

/* ---- What a growth wishes ---- */

/*
 * The container's limit is read each time, as it may change. A device's chunks are all equal although each takes from
 * what is available: the first growth decides.
 */
static uint64_t share_of_memory(struct hugepin_pool *pool)
{
	struct hpi_growth *growth = &pool->growth_by;
	struct hpi_memory memory;
	uint64_t bytes;

	if (growth->share_bytes)
		return growth->share_bytes;
	if (pool->memory(pool, &memory)) {
		hpi_error_clear();		/* no chunk is no failure */
		return 0;
	}
	bytes = hpi_options_share(growth->fraction, growth->of_available ? memory.available_bytes : memory.total_bytes);
	bytes = min_bytes(bytes, growth->most_bytes);
	if (growth->of_available)
		growth->share_bytes = bytes;
	return bytes;
}

static uint64_t chunk(struct hugepin_pool *pool, uint64_t mapped)
{
	const struct hpi_growth *growth = &pool->growth_by;
	uint64_t bytes = mapped ? growth->next_bytes : growth->first_bytes, share;

	if (bytes && !growth->of_available)
		return bytes;
	share = share_of_memory(pool);		/* of what is available before the first chunk */
	return bytes ? bytes : share;
}

/* All that one process may have, at once; nothing more later. */
static uint64_t whole(struct hugepin_pool *pool, uint64_t mapped)
{
	uint64_t left = hpi_caps_left(pool);
	struct hpi_memory memory;

	if (mapped)
		return 0;
	if (left != UINT64_MAX)
		return left;
	if (pool->memory(pool, &memory)) {
		hpi_error_clear();
		return 0;
	}
	return hpi_options_share(SYSTEM_SHARE, memory.available_bytes);
}

static uint64_t doubled(const struct hugepin_pool *pool, uint64_t need)
{
	uint64_t step = max_bytes(pool->growth_by.step_bytes, DOUBLING_FIRST);

	while (step < need && step <= UINT64_MAX / 2)
		step *= 2;
	return step;
}

uint64_t hpi_growth_wish(struct hugepin_pool *pool, uint64_t need)
{
	uint64_t mapped = hpi_pool_mapped(pool);

	switch (pool->growth_by.strategy) {
	case HPI_STRATEGY_NEEDED:
		return mapped / GROWTH_PARTS;
	case HPI_STRATEGY_CHUNKS:
		return pool->growth_by.whole ? whole(pool, mapped) : chunk(pool, mapped);
	case HPI_STRATEGY_DOUBLING:
		return doubled(pool, need);
	}
	return 0;
}

/* Large steps are backed off from by a tenth; a chunk that cannot be had gives way to the need. */
uint64_t hpi_growth_less(const struct hugepin_pool *pool, uint64_t bytes, uint64_t need, uint64_t granule, int err)
{
	bool backs_off = pool->growth_by.strategy == HPI_STRATEGY_DOUBLING || pool->growth_by.whole;

	if (!backs_off || (err != -ENOMEM && err != -EDQUOT))
		return need;
	return max_bytes((bytes - bytes / 10) & ~(granule - 1), need);
}

void hpi_growth_took(struct hugepin_pool *pool, uint64_t bytes, bool less)
{
	pool->growth_by.step_bytes = less || bytes > UINT64_MAX / 2 ? bytes : 2 * bytes;
}
