// SPDX-License-Identifier: MIT
/*
 * A job configured by a fragment of TensorFlow's alone: options_tensorflow FILE.pbtxt, with
 *
 *	gpu_options { force_gpu_compatible: true  allocator_type: "BFC" }
 */
#include "observe.h"

int main(int argc, char **argv)
{
	struct hugepin_options *options;
	struct hugepin_segment_info info;
	struct hugepin_pool_stats stats;
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	void *a, *b;

	need(argc == 2, "one argument, a file");
	need(!hugepin_options_create(&options), "options");
	need(!hugepin_options_load_file(options, argv[1]), "a fragment of text");
	need(!hugepin_context_create(options, &ctx), "a context");
	hugepin_options_destroy(options);
	need(!hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool), "a host pool");

	a = take(pool, MIB(3));
	info = segment_of(pool, a);
	stats = stats_of(pool);
	check(*info.registered, "a block of the host pool is registered with \"%s\"", info.registered);
	check(stats.registered_bytes == stats.mapped_bytes && stats.mapped_bytes == MIB(4),
	      "%llu bytes are mapped, %llu of them registered", (unsigned long long)stats.mapped_bytes,
	      (unsigned long long)stats.registered_bytes);
	check_pages(ctx, pool, a);
	check_module(ctx, stats.mapped_bytes, "with one block");
	b = take(pool, MIB(1));
	check((char *)b == (char *)a + MIB(3), "best fit: the next block fills the page");
	hugepin_free(pool, a);
	hugepin_free(pool, b);
	a = take(pool, MIB(4));
	check(stats_of(pool).mapped_bytes == MIB(4), "coalescing: one block has the room of two");
	hugepin_free(pool, a);
	check(hugepin_pool_trim(pool, 0) == (int64_t)MIB(4), "trimming gives all of it back");
	check_module(ctx, 0, "trimmed");
	end(pool, ctx);
	return conclude();
}
