// SPDX-License-Identifier: MIT
/*
 * register: the first block of a pinned pool, whose memory the library registers in chunks with the stand-in driver of
 * tests/loopback, which really pins each chunk by the test module. With one thread and with two; of the module's pages,
 * from a clean reserve, less what a host pool's first block takes, which is the new region; and of base pages, which the
 * pool brings in, as what others register.
 */
#include <inttypes.h>
#include <stdio.h>

#include "vm.h"

#define CHUNK	"64M"

static int context_open(unsigned int threads, const char *ladder, struct hugepin_context **ctx)
{
	struct hugepin_options *options;
	char number[8];
	int err;

	snprintf(number, sizeof(number), "%u", threads);
	err = hugepin_options_create(&options);
	if (err)
		return complain("%s", hugepin_error());
	err = hugepin_options_set(options, "runtime", "cuda");
	if (!err)
		err = hugepin_options_set(options, "pinned_ladder", ladder);
	if (!err)
		err = hugepin_options_set(options, "host_ladder", ladder);
	if (!err)
		err = hugepin_options_set(options, "register_chunk", CHUNK);
	if (!err)
		err = hugepin_options_set(options, "register_threads", number);
	if (!err)
		err = hugepin_context_create(options, ctx);
	hugepin_options_destroy(options);
	return err ? complain("a context with the stand-in driver: %s", hugepin_error()) : 0;
}

/* What the first block of a new pool takes. */
static int first_block(const struct machine *m, struct hugepin_context *ctx, enum hugepin_pool_kind kind, double *ms)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };
	struct hugepin_pool *pool;
	double start;
	void *block;

	if (hugepin_pool_create(ctx, kind, &pool))
		return complain("a pool: %s", hugepin_error());
	start = now_ms();
	block = hugepin_alloc(pool, m->bytes, 0);
	*ms = now_ms() - start;
	if (!block || hugepin_pool_stats_get(pool, &stats) ||
	    stats.registered_bytes < (kind == HUGEPIN_POOL_PINNED ? m->bytes : 0))
		return complain("a block of %" PRIu64 " bytes, %" PRIu64 " registered: %s", m->bytes,
				stats.registered_bytes, hugepin_error());
	if (hugepin_free(pool, block) || hugepin_pool_destroy(pool))
		return complain("giving it back: %s", hugepin_error());
	return reserve_settle(m);
}

static int measure(const struct machine *m, const char *ladder, unsigned int threads, enum hugepin_pool_kind kind,
		   double *ms)
{
	struct hugepin_context *ctx;

	if (context_open(threads, ladder, &ctx) || first_block(m, ctx, kind, ms))
		return -1;
	return hugepin_context_destroy(ctx) ? complain("a context: %s", hugepin_error()) : 0;
}

/* In turns; the first turn is not told. */
static int measure_pages(const struct machine *m, const char *name, const char *ladder, bool less_host)
{
	double host = 0, one, two;
	unsigned int i;

	for (i = 0; i <= m->repetitions; i++) {
		progress("register: %s, repetition %u of %u", name, i, m->repetitions);
		if ((less_host && measure(m, ladder, 1, HUGEPIN_POOL_HOST, &host)) ||
		    measure(m, ladder, 1, HUGEPIN_POOL_PINNED, &one) || measure(m, ladder, 2, HUGEPIN_POOL_PINNED, &two))
			return -1;
		if (!i)
			continue;
		tell("register", name, 2, "ms", "one thread", one - host);
		tell("register", name, 2, "ms", "hugepin", two - host);
	}
	return 0;
}

int bench_register(const struct machine *m)
{
	if (reserve_set(m, HUGEPIN_PAGES_1G, m->bytes) || reserve_set(m, HUGEPIN_PAGES_2M, m->bytes) ||
	    reserve_settle(m))
		return -1;
	if ((m->has_1g && measure_pages(m, "1G", "kmod:1G", true)) || measure_pages(m, "2M", "kmod:2M", true))
		return -1;
	return measure_pages(m, "base pages", "base", false);
}
