// SPDX-License-Identifier: MIT
/*
 * Groups: parameters next to each other, so that one collective call takes many; by count and by bytes, as Paddle's
 * FLAGS_fuse_parameter_groups_size and FLAGS_fuse_parameter_memory_size say.
 */
#include "pool.h"

#include <errno.h>
#include <stdio.h>

#define TOTAL_MAX	(1ull << 62)		/* a multiple of the grain: so is what is left of it */

struct limits {
	size_t count;
	uint64_t bytes;
};

/* Without an option of Paddle's that is set, all is one group. A memory size of 0 means one group, too. */
static struct limits limits_of(const struct hugepin_options *options)
{
	struct limits limits = { .count = SIZE_MAX, .bytes = UINT64_MAX };
	int64_t count = hpi_options_int(options, HPI_OPT_PADDLE_FUSE_GROUPS_SIZE);

	if (!hpi_options_dialect_active(options, "paddle"))
		return limits;
	if (hpi_options_scaled(options, HPI_OPT_PADDLE_FUSE_MEMORY_MB, &limits.bytes) && !limits.bytes)
		return (struct limits){ .count = SIZE_MAX, .bytes = UINT64_MAX };
	if (count > 0)
		limits.count = (size_t)count;
	return limits;
}

static int check(const uint64_t sizes[], size_t count, void *const out[])
{
	uint64_t total = 0;
	size_t i;

	if (!count || !sizes || !out)
		return hpi_error(-EINVAL, "a group of %zu parameters with sizes at %p, to be told at %p", count,
				 (const void *)sizes, (const void *)out);
	for (i = 0; i < count; i++) {
		if (!sizes[i])
			return hpi_error(-EINVAL, "parameter %zu of %zu has 0 bytes", i, count);
		if (sizes[i] > TOTAL_MAX - total)
			return hpi_error(-EINVAL, "parameters 0 to %zu of %zu have together more than %llu bytes", i,
					 count, (unsigned long long)TOTAL_MAX);
		total += hpi_round_up(sizes[i], HPI_POOL_GRAIN);
	}
	return 0;
}

/* How many of them make the next group: one at least, even if it alone is larger than the limit. */
static size_t next_group(const struct limits *limits, const uint64_t sizes[], size_t count)
{
	uint64_t bytes = sizes[0];
	size_t n;

	for (n = 1; n < count && n < limits->count; n++) {
		if (bytes > limits->bytes || sizes[n] > limits->bytes - bytes)
			break;
		bytes += sizes[n];
	}
	return n;
}

static int fail(struct hugepin_pool *pool, int err, void *const out[], size_t count)
{
	char text[768];

	snprintf(text, sizeof(text), "%s", hugepin_error());
	while (count)
		hpi_block_free(pool, out[--count]);
	hpi_pool_lock(pool);
	pool->failed_allocs++;
	hpi_pool_unlock(pool);
	return hpi_error(err, "%s", text);
}

int hugepin_group_alloc(struct hugepin_pool *pool, const uint64_t sizes[], size_t count, unsigned int flags,
			void *out[])
{
	struct limits limits;
	size_t done, n, i;
	int err = hpi_context_check(pool->ctx);

	if (!err && flags & ~HUGEPIN_ALLOC_ZERO)
		err = hpi_error(-EINVAL, "unknown flags %#x for groups", flags & ~HUGEPIN_ALLOC_ZERO);
	if (!err)
		err = check(sizes, count, out);
	if (err)
		return err;
	limits = limits_of(pool->ctx->options);
	for (done = 0; done < count && !err; done += n) {
		n = next_group(&limits, &sizes[done], count - done);
		err = hpi_block_take_run(pool, &sizes[done], n, &out[done]);
		if (err)
			break;
	}
	for (i = 0; i < count && !err; i++)
		err = hpi_fill_block(pool, out[i], sizes[i], flags, false);
	return err ? fail(pool, err, out, done) : 0;
}
