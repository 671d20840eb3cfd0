/* SPDX-License-Identifier: MIT */
/*
 * What the tests of pools share: providers with a number of pages, a runtime that can refuse, a log that is kept,
 * and the machine's own huge pages for as long as a test needs them.
 */
#ifndef POOL_WORLD_H
#define POOL_WORLD_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool.h"

#define KIB	((uint64_t)1 << 10)

/* ---- a provider: address space without pages behind it, until a test writes there ---- */

struct source {
	uint64_t left;				/* bytes it can still give */
	uint64_t page_bytes;
	unsigned int maps, failed_maps, unmaps;
	int err;				/* how it says no: -ENOMEM, or what a test sets */
	bool refuse_unmap;
};

static struct source source_1g, source_2m, source_base;

static int source_map(struct source *source, const struct hpi_request *request, struct hpi_mapping *out)
{
	void *addr;
	int err;

	assert_int_equal(request->bytes % source->page_bytes, 0);
	assert_int_equal((uintptr_t)request->addr % source->page_bytes, 0);
	if (request->bytes > source->left) {
		source->failed_maps++;
		return hpi_error(source->err ? source->err : -ENOMEM,
				 "source: asked %lu pages of %lu, %lu available on node 0",
				 request->bytes / source->page_bytes, source->page_bytes,
				 source->left / source->page_bytes);
	}
	err = hpi_mapping_place(request->addr, request->bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, &addr);
	if (err)				/* as a test has it: hpi_sys_fault */
		return hpi_error(err, "source: cannot map");
	assert_ptr_equal(addr, request->addr);
	source->left -= request->bytes;
	source->maps++;
	*out = (struct hpi_mapping){ .addr = addr, .bytes = request->bytes, .fd = -1, .zeroed = true };
	out->bytes_1g = source->page_bytes == HPI_1G ? request->bytes : 0;
	out->bytes_2m = source->page_bytes == HPI_2M ? request->bytes : 0;
	out->provider = source == &source_base ? HUGEPIN_PROVIDER_BASE : HUGEPIN_PROVIDER_HUGETLB;
	return 0;
}

static int source_unmap(struct source *source, struct hpi_mapping *mapping, bool reserve)
{
	uint64_t bytes = mapping->bytes;

	if (source->refuse_unmap)
		return hpi_error(-ENOMEM, "source: refuses to unmap");
	assert_int_equal(hpi_mapping_unmap(NULL, mapping, reserve), 0);
	source->left += bytes;
	source->unmaps++;
	return 0;
}

#define SOURCE(what)											\
	static int map_##what(struct hugepin_context *ctx, const struct hpi_request *request,		\
			      struct hpi_mapping *out)							\
	{												\
		(void)ctx;										\
		return source_map(&source_##what, request, out);					\
	}												\
	static int unmap_##what(struct hugepin_context *ctx, struct hpi_mapping *mapping, bool reserve)	\
	{												\
		(void)ctx;										\
		return source_unmap(&source_##what, mapping, reserve);					\
	}												\
	static const struct hpi_provider provider_##what = {						\
		.name = #what,										\
		.id = HUGEPIN_PROVIDER_HUGETLB,								\
		.classes = HUGEPIN_CLASSES_2M | HUGEPIN_CLASSES_1G,					\
		.map = map_##what,									\
		.unmap = unmap_##what,									\
	}

SOURCE(1g);
SOURCE(2m);
SOURCE(base);

static const struct hpi_rung rung_1g = { &provider_1g, HUGEPIN_CLASSES_1G };
static const struct hpi_rung rung_2m = { &provider_2m, HUGEPIN_CLASSES_2M };
static const struct hpi_rung rung_base = { &provider_base, 1u << HUGEPIN_PAGES_BASE };

/* ---- how much memory there is, where a test says so: pool->memory = memory_there ---- */

static struct hpi_memory there;

static inline int memory_there(const struct hugepin_pool *pool, struct hpi_memory *out)
{
	(void)pool;
	*out = there;
	return 0;
}

/* ---- a runtime ---- */

static struct {
	_Atomic unsigned int registers, unregisters;	/* chunks go side by side */
	unsigned int begins;			/* visits, however many chunks they are for */
	void *keeps;				/* unregistering what begins there is refused */
	_Atomic uint64_t bytes;
	bool refuse_register, refuse_unregister;
	unsigned int refuse_after;		/* so many registrations; 0: never */
	pthread_mutex_t *held;			/* locked over a registration: it takes as long as a test wants */
} runtime;

static bool runtime_present(void)
{
	return true;
}

static int runtime_load(void)
{
	return 0;
}

static int runtime_begin(struct hpi_runtime_scope *scope, int *code)
{
	*scope = (struct hpi_runtime_scope){ .device = -1 };
	*code = 0;
	runtime.begins++;
	return 0;
}

static int runtime_enter(struct hpi_runtime_scope *scope, struct hpi_runtime_thread *thread, int *code)
{
	(void)scope;
	*thread = (struct hpi_runtime_thread){ .pushed = false };
	*code = 0;
	return 0;
}

static void runtime_leave(struct hpi_runtime_thread *thread)
{
	(void)thread;
}

static void runtime_end(struct hpi_runtime_scope *scope)
{
	(void)scope;
}

static int runtime_register(void *addr, uint64_t bytes, int *code)
{
	(void)addr;
	*code = 0;
	if (runtime.held) {
		pthread_mutex_lock(runtime.held);
		pthread_mutex_unlock(runtime.held);
	}
	if (runtime.refuse_register || (runtime.refuse_after && runtime.registers >= runtime.refuse_after)) {
		*code = 2;
		return hpi_error(-ENOMEM, "runtime: out of memory, code 2");
	}
	runtime.registers++;
	runtime.bytes += bytes;
	return 0;
}

static int runtime_unregister(void *addr, uint64_t bytes, int *code)
{
	*code = 0;
	if (runtime.refuse_unregister || (runtime.keeps && addr == runtime.keeps)) {
		*code = 999;
		return hpi_error(-EIO, "runtime: unknown error, code 999");
	}
	runtime.unregisters++;
	runtime.bytes -= bytes;
	return 0;
}

static const struct hpi_runtime test_runtime = {
	.name = "test",
	.present = runtime_present,
	.load = runtime_load,
	.begin = runtime_begin,
	.enter = runtime_enter,
	.leave = runtime_leave,
	.end = runtime_end,
	.host_register = runtime_register,
	.host_unregister = runtime_unregister,
};

/* ---- the log ---- */

static struct {
	unsigned int errors, warnings;
	char last[2048];			/* error or warning */
} told;

static void keep_line(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)arg;
	told.errors += level == HUGEPIN_LOG_ERROR;
	told.warnings += level == HUGEPIN_LOG_WARNING;
	if (level <= HUGEPIN_LOG_WARNING)
		snprintf(told.last, sizeof(told.last), "%s", line);
}

/* ---- contexts and pools ---- */

/* Options as key, value, ... NULL. */
static inline struct hugepin_context *make_context(const char *key, ...)
{
	struct hugepin_options *options;
	struct hugepin_context *ctx;
	va_list args;

	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(hugepin_options_set(options, "runtime", "none"), 0);
	va_start(args, key);
	for (; key; key = va_arg(args, const char *))
		assert_int_equal(hugepin_options_set(options, key, va_arg(args, const char *)), 0);
	va_end(args);
	assert_int_equal(hugepin_context_create(options, &ctx), 0);
	hugepin_options_destroy(options);
	ctx->runtime = &test_runtime;
	return ctx;
}

static inline struct hugepin_pool *make_pool(struct hugepin_context *ctx, enum hugepin_pool_kind kind)
{
	struct hugepin_pool *pool;

	assert_int_equal(hugepin_pool_create(ctx, kind, &pool), 0);
	return pool;
}

/* A pool whose memory comes from the sources above. */
static inline struct hugepin_pool *make_pool_on(struct hugepin_context *ctx, enum hugepin_pool_kind kind, size_t count,
					 const struct hpi_rung *first, const struct hpi_rung *second)
{
	struct hugepin_pool *pool = make_pool(ctx, kind);

	pool->ladder.count = count;
	pool->ladder.rungs[0] = *first;
	if (second)
		pool->ladder.rungs[1] = *second;
	return pool;
}

/* One rung of 2M pages, in a world of @total bytes. */
static inline struct hugepin_pool *pool_of(struct hugepin_context *ctx, enum hugepin_pool_kind kind, uint64_t total)
{
	struct hugepin_pool *pool = make_pool_on(ctx, kind, 1, &rung_2m, NULL);

	there = (struct hpi_memory){ total, total };
	pool->memory = memory_there;
	return pool;
}

/* Grows and is capped as a device pool is, on a device of @total bytes; a strategy does not look at what is behind. */
static inline struct hugepin_pool *device_like(struct hugepin_context *ctx, uint64_t total, uint64_t available)
{
	struct hugepin_pool *pool = pool_of(ctx, HUGEPIN_POOL_HOST, total);

	there.available_bytes = available;
	source_2m.left = available;
	hpi_growth_device(ctx->options, &pool->growth_by);
	pool->cap_bytes = hpi_caps_of_device(ctx->options, total);
	pool->on_host = false;
	return pool;
}

static inline void end_pool(struct hugepin_pool *pool)
{
	struct hugepin_context *ctx = pool->ctx;

	assert_int_equal(hugepin_pool_destroy(pool), 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static inline struct hugepin_pool_stats stats_of(const struct hugepin_pool *pool)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };
	const struct hpi_extent *extent;
	int err;

	assert_int_equal(hugepin_pool_stats_get(pool, &stats), 0);
	assert_int_equal(stats.active_bytes + stats.cached_bytes + stats.deferred_bytes + stats.free_bytes,
			 stats.mapped_bytes);
	assert_int_equal(stats.wasted_bytes, stats.active_bytes - stats.requested_bytes);
	hpi_pool_lock(pool);	/* threads of the pool's own may be at work */
	err = hpi_arena_check(pool->arena);
	for (extent = pool->extents; extent && !err; extent = extent->next)
		err = hpi_arena_check(extent->space.arena);
	hpi_pool_unlock(pool);
	assert_int_equal(err, 0);
	return stats;
}

/* What device_like() has made less of. */
static inline void end_device(struct hugepin_pool *pool)
{
	uint64_t mapped = stats_of(pool).mapped_bytes;

	source_2m.left = 64 * HPI_1G - mapped;
	end_pool(pool);
}

static inline struct hugepin_segment_info segment_of_block(const struct hugepin_pool *pool, const void *ptr)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };

	assert_int_equal(hugepin_block_segment(pool, ptr, &info), 0);
	return info;
}

static inline char *take(struct hugepin_pool *pool, uint64_t bytes)
{
	char *p = hugepin_alloc(pool, bytes, 0);

	if (!p)
		print_error("%s\n", hugepin_error());
	assert_non_null(p);
	return p;
}

static inline void give(struct hugepin_pool *pool, void *ptr)
{
	assert_int_equal(hugepin_free(pool, ptr), 0);
}

static inline uint64_t address_space_used(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages * 4096ull;
}

static inline int world_setup(void **state)
{
	(void)state;
	source_1g = (struct source){ .left = 64 * HPI_1G, .page_bytes = HPI_1G };
	source_2m = (struct source){ .left = 64 * HPI_1G, .page_bytes = HPI_2M };
	source_base = (struct source){ .left = 64 * HPI_1G, .page_bytes = 4 * KIB };
	memset(&runtime, 0, sizeof(runtime));
	memset(&told, 0, sizeof(told));
	hugepin_log_set(keep_line, NULL, HUGEPIN_LOG_WARNING);
	return 0;
}

static inline int world_teardown(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_ERROR);
	assert_int_equal(source_1g.left, 64 * HPI_1G);
	assert_int_equal(source_2m.left, 64 * HPI_1G);
	assert_int_equal(source_base.left, 64 * HPI_1G);
	assert_int_equal(runtime.bytes, 0);
	return 0;
}

#define TEST(name)	cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

#endif /* POOL_WORLD_H */
