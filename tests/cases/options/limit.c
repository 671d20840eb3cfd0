// SPDX-License-Identifier: MIT
/*
 * A job that takes pages of 2 MiB until the module says that it has its share: options_limit PAGES, with
 * HUGEPIN_HOST_LADDER=kmod:2M in its environment and a limit of PAGES in force for its user.
 */
#include "observe.h"

int main(int argc, char **argv)
{
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	uint64_t pages, i;
	void *p[64];
	int err;

	need(argc == 2, "one argument, a number of pages");
	pages = strtoull(argv[1], NULL, 10);
	need(pages > 0 && pages < 64, "1 to 63 pages");
	need(!hugepin_context_create(NULL, &ctx), "a context from the environment");
	need(!hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool), "a host pool");
	for (i = 0; i < pages; i++)
		p[i] = take(pool, MIB(2));
	check_module(ctx, pages * MIB(2), "at the limit");
	p[pages] = hugepin_alloc(pool, 1, 0);
	err = errno;
	check(!p[pages] && err == EDQUOT, "one more is over the limit (%s): %s", strerror(err), hugepin_error());
	check_module(ctx, pages * MIB(2), "refused,");
	while (pages)
		hugepin_free(pool, p[--pages]);
	end(pool, ctx);
	return conclude();
}
