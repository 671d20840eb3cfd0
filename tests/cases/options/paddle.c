// SPDX-License-Identifier: MIT
/*
 * A job configured by Paddle's variables in its environment alone; options_test.sh sets them.
 *
 *	FLAGS_initial_cpu_memory_in_mb=16		the host pool's chunk
 *	FLAGS_init_allocated_mem=true
 *	FLAGS_eager_delete_tensor_gb=0.00390625		4 MiB of garbage gather
 *	FLAGS_fuse_parameter_groups_size=2
 */
#include "observe.h"

static int is_filled(const unsigned char *p, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes && p[i]; i++)
		;
	return i == bytes;
}

static void chunks(struct hugepin_context *ctx, struct hugepin_pool *pool)
{
	struct hugepin_pool_stats stats;
	void *a = take(pool, MIB(1)), *b;

	stats = stats_of(pool);
	check(stats.mapped_bytes == MIB(16), "the first chunk has %llu bytes", (unsigned long long)stats.mapped_bytes);
	check_module(ctx, stats.mapped_bytes, "with one chunk");
	check_pages(ctx, pool, a);
	check(is_filled(a, MIB(1)), "a block is filled with %#x", *(unsigned char *)a);
	b = hugepin_alloc(pool, MIB(15), HUGEPIN_ALLOC_ZERO);
	need(b != NULL, "the rest of the chunk");
	check(!*(unsigned char *)b, "a block that was asked for zeroed is zero");
	check(stats_of(pool).mapped_bytes == MIB(16), "the chunk is used up first");
	hugepin_free(pool, take(pool, 1));
	stats = stats_of(pool);
	check(stats.mapped_bytes == MIB(32), "a second chunk of the same size makes %llu bytes",
	      (unsigned long long)stats.mapped_bytes);
	check_module(ctx, stats.mapped_bytes, "with two chunks");
	check(stats.cap_bytes == 0, "a chunk is no cap");
	hugepin_free(pool, a);
	hugepin_free(pool, b);
}

static void garbage(struct hugepin_pool *pool)
{
	struct hugepin_scope *scope;
	uint64_t before, gathered;
	void *a, *b;

	hugepin_pool_collect(pool);
	before = stats_of(pool).deferred_bytes;
	need(!hugepin_scope_open(pool, &scope), "a scope");
	a = hugepin_scope_alloc(scope, MIB(3), 0);
	b = hugepin_scope_alloc(scope, MIB(1), 0);
	need(a && b, "blocks in a scope");
	hugepin_free(pool, a);
	gathered = stats_of(pool).deferred_bytes - before;
	check(gathered == MIB(3), "%llu bytes gather as garbage", (unsigned long long)gathered);
	hugepin_free(pool, b);
	check(stats_of(pool).deferred_bytes == 0, "at 4 MiB they go back");
	hugepin_scope_close(scope);
}

static void groups(struct hugepin_pool *pool)
{
	static const uint64_t sizes[5] = { 1000, 2000, 3000, 4000, 5000 };
	void *p[5];
	int i;

	need(!hugepin_group_alloc(pool, sizes, 5, 0, p), "groups");
	check((char *)p[1] == (char *)p[0] + 1024, "two parameters lie next to each other");
	check((char *)p[3] == (char *)p[2] + 3008, "and the next two");
	for (i = 0; i < 5; i++)
		check(!hugepin_free(pool, p[i]), "parameter %d is freed by itself", i);
}

int main(void)
{
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;

	need(!hugepin_context_create(NULL, &ctx), "a context from the environment");
	need(!hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool), "a host pool");
	chunks(ctx, pool);
	garbage(pool);
	groups(pool);
	end(pool, ctx);
	return conclude();
}
