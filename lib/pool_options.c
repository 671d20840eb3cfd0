// SPDX-License-Identifier: MIT
/*
 * From options to a pool's ladder, policy, cap and chunk, with what two dialects say of them.
 */
#include "pool.h"

#include <errno.h>

static const struct {
	const char *name;
	enum hpi_option_id ladder, cap;
} kinds[] = {
	[HUGEPIN_POOL_HOST] = { "host", HPI_OPT_HOST_LADDER, HPI_OPT_HOST_CAP },
	[HUGEPIN_POOL_PINNED] = { "pinned", HPI_OPT_PINNED_LADDER, HPI_OPT_PINNED_CAP },
	[HUGEPIN_POOL_VARIABLE] = { "variable", HPI_OPT_VARIABLE_LADDER, HPI_OPT_VARIABLE_CAP },
};

#define KINDS	(sizeof(kinds) / sizeof(kinds[0]))

/* variable_use_1g_huge_page */
static const char *const ascend_ladders[] = {
	"kmod:2M,hugetlb:2M,base",
	"kmod:1G,hugetlb:1G",
	"kmod:1G,hugetlb:1G,kmod:2M,hugetlb:2M",
};

const char *hpi_pool_name(const struct hugepin_pool *pool)
{
	return kinds[pool->kind].name;
}

static bool rung_exists(const struct hugepin_context *ctx, const struct hpi_rung *rung)
{
	unsigned int class;

	if (rung->provider->id != HUGEPIN_PROVIDER_KMOD)
		return true;
	if (ctx->device_fd < 0 && ctx->mount_fd < 0)
		return false;
	for (class = HUGEPIN_PAGES_2M; class <= HUGEPIN_PAGES_1G; class++) {
		if (rung->classes >> class & 1 && !ctx->absent[class])
			return true;
	}
	return false;
}

static int check_ladder(const struct hugepin_pool *pool, const char *text)
{
	size_t i;

	for (i = 0; i < pool->ladder.count; i++) {
		if (rung_exists(pool->ctx, &pool->ladder.rungs[i]))
			return 0;
	}
	return hpi_error(-ENODEV, "%s pool: nothing on its ladder \"%s\" exists here: the hugepin module is not loaded "
			 "or has no pages of that class", hpi_pool_name(pool), text);
}

/* Paddle's fraction is the size of a chunk, not a cap. */
static uint64_t paddle_chunk(const struct hugepin_pool *pool)
{
	const struct hugepin_options *options = pool->ctx->options;

	if (pool->kind != HUGEPIN_POOL_PINNED || !hpi_options_dialect_active(options, "paddle"))
		return 0;
	return hpi_options_share(hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_PINNED),
				 pool->ctx->topology.limit_bytes);
}

/* What is filled at once, by the CPU, cannot be what a stream still works on. */
static void read_reuse(struct hugepin_pool *pool)
{
	const struct hugepin_options *options = pool->ctx->options;

	pool->reuse_on_stream = hpi_options_bool(options, HPI_OPT_PADDLE_FAST_EAGER_DELETION) &&
				!hpi_options_bool(options, HPI_OPT_PADDLE_INIT_ALLOCATED_MEM);
}

int hpi_pool_configure(struct hugepin_pool *pool)
{
	const struct hugepin_options *options = pool->ctx->options;
	const char *text;
	int err;

	if ((size_t)pool->kind >= KINDS)
		return hpi_error(-EINVAL, "%d is no kind of pool", (int)pool->kind);
	text = hpi_options_string(options, kinds[pool->kind].ladder);
	pool->ascend = pool->kind == HUGEPIN_POOL_VARIABLE &&
		       hpi_options_outranks(options, HPI_OPT_ASCEND_VARIABLE_1G, HPI_OPT_VARIABLE_LADDER);
	if (pool->ascend)
		text = ascend_ladders[hpi_options_uint(options, HPI_OPT_ASCEND_VARIABLE_1G)];
	err = hpi_ladder_parse(text, &pool->ladder);
	if (err)
		return hpi_error_add(err, "; in the ladder of the %s pool", hpi_pool_name(pool));
	err = hpi_policy_parse(hpi_options_string(options, HPI_OPT_NODE_POLICY), &pool->ctx->topology, &pool->policy);
	if (err)
		return err;
	pool->cap_bytes = hpi_options_uint(options, kinds[pool->kind].cap);
	pool->chunk_bytes = paddle_chunk(pool);
	read_reuse(pool);
	return check_ladder(pool, text);
}
