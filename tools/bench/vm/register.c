// SPDX-License-Identifier: MIT
/*
 * register: a block of a pinned pool, whose memory the library registers in chunks with the stand-in driver of
 * tests/loopback, which really pins each chunk by the test module. With one thread and with two. The region under the
 * block comes from a clean reserve, so that what is measured is the registration.
 */
#include <inttypes.h>
#include <stdio.h>

#include "vm.h"

#define CHUNK	"64M"

static int pool_open(unsigned int threads, const char *ladder, struct hugepin_context **ctx, struct hugepin_pool **pool)
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
		err = hugepin_options_set(options, "register_chunk", CHUNK);
	if (!err)
		err = hugepin_options_set(options, "register_threads", number);
	if (!err)
		err = hugepin_context_create(options, ctx);
	hugepin_options_destroy(options);
	if (!err)
		err = hugepin_pool_create(*ctx, HUGEPIN_POOL_PINNED, pool);
	return err ? complain("a pinned pool: %s", hugepin_error()) : 0;
}

static int measure(const struct machine *m, enum hugepin_class page_class, unsigned int threads, double *ms)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	double start;
	void *block;

	if (pool_open(threads, page_class == HUGEPIN_PAGES_1G ? "kmod:1G" : "kmod:2M", &ctx, &pool))
		return -1;
	start = now_ms();
	block = hugepin_alloc(pool, m->bytes, 0);
	*ms = now_ms() - start;
	if (!block || hugepin_pool_stats_get(pool, &stats) || stats.registered_bytes < m->bytes)
		return complain("a pinned block of %" PRIu64 " bytes, %" PRIu64 " registered: %s", m->bytes,
				stats.registered_bytes, hugepin_error());
	if (hugepin_free(pool, block) || hugepin_pool_destroy(pool) || hugepin_context_destroy(ctx))
		return complain("giving it back: %s", hugepin_error());
	return reserve_settle(m);
}

static int measure_class(const struct machine *m, enum hugepin_class page_class)
{
	const char *name = class_name(page_class);
	unsigned int i;
	double ms;

	for (i = 0; i <= m->repetitions; i++) {
		progress("register: %s, repetition %u of %u", name, i, m->repetitions);
		if (measure(m, page_class, 1, &ms))
			return -1;
		if (i)
			tell("register", name, 2, "ms", "one thread", ms);
		if (measure(m, page_class, 2, &ms))
			return -1;
		if (i)
			tell("register", name, 2, "ms", "hugepin", ms);
	}
	return 0;
}

int bench_register(const struct machine *m)
{
	if (reserve_set(m, HUGEPIN_PAGES_1G, m->bytes) || reserve_set(m, HUGEPIN_PAGES_2M, m->bytes) ||
	    reserve_settle(m))
		return -1;
	if (m->has_1g && measure_class(m, HUGEPIN_PAGES_1G))
		return -1;
	return measure_class(m, HUGEPIN_PAGES_2M);
}
