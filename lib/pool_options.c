// SPDX-License-Identifier: MIT
/*
 * From options to a pool's ladder, policy, cap and chunk, with what two dialects say of them.
 */
#include "pool.h"

#include <errno.h>

static const struct {
	const char *name;
	enum hpi_option_id ladder, cap;
	void (*growth)(const struct hugepin_options *options, struct hpi_growth *out);
} kinds[] = {
	[HUGEPIN_POOL_HOST] = { "host", HPI_OPT_HOST_LADDER, HPI_OPT_HOST_CAP, hpi_growth_host },
	[HUGEPIN_POOL_PINNED] = { "pinned", HPI_OPT_PINNED_LADDER, HPI_OPT_PINNED_CAP, hpi_growth_pinned },
	[HUGEPIN_POOL_VARIABLE] = { "variable", HPI_OPT_VARIABLE_LADDER, HPI_OPT_VARIABLE_CAP, hpi_growth_variable },
	[HUGEPIN_POOL_DEVICE] = { "device", HPI_OPT_COUNT, HPI_OPT_DEVICE_CAP, hpi_growth_device },
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

	if (rung->provider->id == HUGEPIN_PROVIDER_RUNTIME)
		return ctx->runtime->host_alloc;
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
	return hpi_error(-ENODEV, "%s pool: nothing on its ladder \"%.300s\" exists here: the hugepin module is not loaded "
			 "or has no pages of that class; runtime %s allocates %s host memory", hpi_pool_name(pool), text,
			 pool->ctx->runtime->name, pool->ctx->runtime->host_alloc ? "such" : "no");
}

/* The kind whose ladder, cap and growth the pool has: force_gpu_compatible puts pinned memory behind a host pool. */
static enum hugepin_pool_kind served_from(struct hugepin_pool *pool)
{
	bool forced = hpi_options_bool(pool->ctx->options, HPI_OPT_TF_FORCE_GPU_COMPATIBLE);

	pool->compatible = forced && (pool->kind == HUGEPIN_POOL_HOST || pool->kind == HUGEPIN_POOL_PINNED);
	return pool->compatible ? HUGEPIN_POOL_PINNED : pool->kind;
}

static void configure_memory(struct hugepin_pool *pool, enum hugepin_pool_kind kind)
{
	const struct hugepin_options *options = pool->ctx->options;

	pool->cap_bytes = hpi_options_uint(options, kinds[kind].cap);
	pool->pinned = kind == HUGEPIN_POOL_PINNED;
	pool->on_host = kind != HUGEPIN_POOL_DEVICE;
	pool->host_fraction = hpi_options_double(options, HPI_OPT_HOST_FRACTION);
	pool->fills = hpi_options_bool(options, HPI_OPT_PADDLE_INIT_ALLOCATED_MEM);
	pool->memory = pool->on_host ? hpi_memory_host : hpi_memory_device;
	kinds[kind].growth(options, &pool->growth_by);
}

/* What is filled at once, by the CPU, cannot be what a stream still works on. */
static void read_reuse(struct hugepin_pool *pool)
{
	const struct hugepin_options *options = pool->ctx->options;

	pool->reuse_on_stream = hpi_options_bool(options, HPI_OPT_PADDLE_FAST_EAGER_DELETION) &&
				!hpi_options_bool(options, HPI_OPT_PADDLE_INIT_ALLOCATED_MEM);
}

/* On an NPU the pages that variable_use_1g_huge_page names, elsewhere the driver's only ones. */
static void device_ladder(struct hugepin_pool *pool)
{
	static const struct hpi_rung huge = { &hpi_provider_device, HUGEPIN_CLASSES_1G };
	static const struct hpi_rung plain = { &hpi_provider_device, HUGEPIN_CLASSES_2M };
	uint64_t use_1g = 0;

	pool->ascend = pool->ctx->runtime == &hpi_runtime_ascend &&
		       hpi_options_is_set(pool->ctx->options, HPI_OPT_ASCEND_VARIABLE_1G);
	if (pool->ascend)
		use_1g = hpi_options_uint(pool->ctx->options, HPI_OPT_ASCEND_VARIABLE_1G);
	if (use_1g)
		pool->ladder.rungs[pool->ladder.count++] = huge;
	if (use_1g != 1)
		pool->ladder.rungs[pool->ladder.count++] = plain;
}

/* per_process_gpu_memory_fraction: the less of it and device_cap. */
static int device_cap(struct hugepin_pool *pool)
{
	double fraction = hpi_options_double(pool->ctx->options, HPI_OPT_TF_GPU_FRACTION);
	uint64_t total, available;
	int err;

	if (fraction == 0)
		return 0;
	err = hpi_device_memory(pool->ctx, pool->device, &total, &available);
	if (err)
		return hpi_error_add(err, ", for per_process_gpu_memory_fraction");
	if (hpi_options_share(fraction, total) < HPI_2M)
		return hpi_error(-EINVAL, "per_process_gpu_memory_fraction %s of %llu bytes, set by %s: less than 2M",
				 hpi_options_string(pool->ctx->options, HPI_OPT_TF_GPU_FRACTION),
				 (unsigned long long)total,
				 hpi_options_source(pool->ctx->options, HPI_OPT_TF_GPU_FRACTION));
	pool->cap_bytes = hpi_caps_of_device(pool->ctx->options, total);
	return 0;
}

static int configure_device(struct hugepin_pool *pool, int number)
{
	int err = hpi_device_find(pool->ctx, number, &pool->device);

	if (err)
		return err;
	device_ladder(pool);
	return device_cap(pool);
}

/*
 * A runtime that may turn out to register nothing on this machine is asked for memory of its own in the end, where the
 * program has said nothing of the ladder. Caches know of blocks in the window only.
 */
static void add_runtime(struct hugepin_pool *pool, enum hpi_option_id ladder)
{
	static const struct hpi_rung own = { &hpi_provider_runtime, 1u << HUGEPIN_PAGES_BASE };
	size_t i;

	if (pool->pinned && pool->ctx->runtime->host_alloc && !hpi_options_is_set(pool->ctx->options, ladder) &&
	    pool->ladder.count < HPI_LADDER_MAX)
		pool->ladder.rungs[pool->ladder.count++] = own;
	for (i = 0; i < pool->ladder.count; i++) {
		if (pool->ladder.rungs[i].provider->places_itself)
			pool->cache_cap_bytes = 0;
	}
}

static int find_policy(struct hugepin_pool *pool, int device)
{
	const char *text = hpi_options_string(pool->ctx->options, HPI_OPT_NODE_POLICY);

	if (device >= 0 || hpi_policy_is_device(text, &device))
		return hpi_device_policy(pool->ctx, device, &pool->policy);
	return hpi_policy_parse(text, &pool->ctx->topology, &pool->policy);
}

int hpi_pool_configure(struct hugepin_pool *pool, int device)
{
	const struct hugepin_options *options = pool->ctx->options;
	enum hugepin_pool_kind kind;
	const char *text;
	int err;

	if ((size_t)pool->kind >= KINDS)
		return hpi_error(-EINVAL, "%d is no kind of pool", (int)pool->kind);
	pool->device = -1;
	kind = served_from(pool);
	configure_memory(pool, kind);
	read_reuse(pool);
	hpi_garbage_configure(pool);
	if (pool->kind == HUGEPIN_POOL_DEVICE)
		return configure_device(pool, device);
	text = hpi_options_string(options, kinds[kind].ladder);
	pool->ascend = pool->kind == HUGEPIN_POOL_VARIABLE &&
		       hpi_options_outranks(options, HPI_OPT_ASCEND_VARIABLE_1G, HPI_OPT_VARIABLE_LADDER);
	if (pool->ascend)
		text = ascend_ladders[hpi_options_uint(options, HPI_OPT_ASCEND_VARIABLE_1G)];
	err = hpi_ladder_parse(text, &pool->ladder);
	if (err)
		return hpi_error_add(err, "; in the ladder of the %s pool", hpi_pool_name(pool));
	err = find_policy(pool, device);
	if (err)
		return err;
	pool->cache_cap_bytes = hpi_options_uint(options, HPI_OPT_CACHE_CAP);
	add_runtime(pool, kinds[kind].ladder);
	return check_ladder(pool, text);
}
