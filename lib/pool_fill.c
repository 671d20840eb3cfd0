// SPDX-License-Identifier: MIT
/*
 * What is in a block when its user gets it: zeros if asked for, a pattern if FLAGS_init_allocated_mem says so, else
 * whatever was there.
 */
#include "pool.h"

#include <string.h>

#define PATTERN	0xef	/* in every byte: as a float about -1.5e29, as an index far outside, as a pointer not mapped */

static int set_bytes(const struct hugepin_pool *pool, void *ptr, int value, uint64_t bytes)
{
	if (pool->device >= 0)
		return hpi_device_set(pool->ctx, pool->device, ptr, value, bytes);
	memset(ptr, value, bytes);
	return 0;
}

int hpi_fill_zero(const struct hugepin_pool *pool, void *ptr, uint64_t bytes)
{
	return bytes ? set_bytes(pool, ptr, 0, bytes) : 0;
}

int hpi_fill_block(const struct hugepin_pool *pool, void *ptr, uint64_t bytes, unsigned int flags, bool zeroed)
{
	if (!bytes)
		return 0;
	if (flags & HUGEPIN_ALLOC_ZERO)
		return zeroed ? 0 : hpi_fill_zero(pool, ptr, bytes);
	return pool->fills ? set_bytes(pool, ptr, PATTERN, bytes) : 0;
}
