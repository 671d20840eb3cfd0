/* SPDX-License-Identifier: MIT */
/*
 * What the programs share that show a job configured in another system's words: lines of TAP about what the library and
 * the module say of the memory that was given.
 */
#ifndef OBSERVE_H
#define OBSERVE_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hugepin.h"

#define MIB(n)	((uint64_t)(n) << 20)

static int lines, bad_lines;

/* "ok N - what", where @what ends in what was seen. */
__attribute__((format(printf, 2, 3)))
static inline void check(int good, const char *what, ...)
{
	va_list args;

	printf("%sok %d - ", good ? "" : "not ", ++lines);
	va_start(args, what);
	vprintf(what, args);
	va_end(args);
	printf("\n");
	bad_lines += !good;
}

/* What the job needs to go on at all. */
static inline void need(int good, const char *what)
{
	if (good)
		return;
	printf("not ok %d - %s: %s\n1..%d\n", lines + 1, what, hugepin_error(), lines + 1);
	exit(1);
}

static inline int conclude(void)
{
	printf("1..%d\n", lines);
	return bad_lines != 0;
}

static inline struct hugepin_pool_stats stats_of(const struct hugepin_pool *pool)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };

	need(!hugepin_pool_stats_get(pool, &stats), "statistics");
	return stats;
}

static inline struct hugepin_segment_info segment_of(const struct hugepin_pool *pool, const void *ptr)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };

	need(!hugepin_block_segment(pool, ptr, &info), "the segment of a block");
	return info;
}

static inline void *take(struct hugepin_pool *pool, size_t bytes)
{
	void *p = hugepin_alloc(pool, bytes, 0);

	need(p != NULL, "an allocation");
	return p;
}

/* The module's pages in regions, in bytes; -1 where it is not loaded. */
static inline int64_t module_bytes(struct hugepin_context *ctx)
{
	struct hugepin_reserve_info info = { .size = sizeof(info) };
	int64_t bytes = 0;
	size_t i;
	int err;

	for (i = 0; !(err = hugepin_reserve_at(ctx, i, &info)); i++)
		bytes += (int64_t)info.in_use_pages * (info.page_class == HUGEPIN_PAGES_1G ? 1 << 30 : 1 << 21);
	return err == -ENOENT ? bytes : -1;
}

/* Where the module gives the memory, it says the same of it as the pool. */
static inline void check_module(struct hugepin_context *ctx, uint64_t mapped, const char *when)
{
	int64_t bytes = module_bytes(ctx);

	if (bytes >= 0)
		check((uint64_t)bytes == mapped, "%s the module has %lld bytes in regions, the pool maps %llu", when,
		      (long long)bytes, (unsigned long long)mapped);
}

static inline const char *provider_name(enum hugepin_provider provider)
{
	return provider == HUGEPIN_PROVIDER_KMOD ? "the module" : provider == HUGEPIN_PROVIDER_HUGETLB ? "hugetlb" : "base";
}

static inline void check_pages(struct hugepin_context *ctx, const struct hugepin_pool *pool, const void *ptr)
{
	struct hugepin_segment_info info = segment_of(pool, ptr);
	int loaded = module_bytes(ctx) >= 0;

	check(!loaded || info.provider == HUGEPIN_PROVIDER_KMOD, "pages of %llu bytes from %s, node %d",
	      (unsigned long long)info.page_bytes, provider_name(info.provider), info.node);
}

static inline void end(struct hugepin_pool *pool, struct hugepin_context *ctx)
{
	check(!hugepin_pool_destroy(pool), "the pool ends");
	check_module(ctx, 0, "afterwards");
	check(!hugepin_context_destroy(ctx), "the context ends");
}

#endif /* OBSERVE_H */
