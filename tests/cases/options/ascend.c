// SPDX-License-Identifier: MIT
/*
 * A job configured by keys of Ascend's MemoryConfig alone: options_ascend FILE, with
 *
 *	atomic_clean_policy = 0
 *	static_memory_policy = 2
 *	variable_use_1g_huge_page = 2
 */
#include "observe.h"

static char told[1024];

static void keep(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	snprintf(told, sizeof(told), "%s", line);
}

/* 1G pages, else 2M pages with a line that says so, else an error with a line; nothing is held then. */
static void variables(struct hugepin_context *ctx)
{
	struct hugepin_pool *pool;
	uint64_t page_bytes;
	void *p;

	hugepin_log_set(keep, NULL, HUGEPIN_LOG_ERROR);
	need(!hugepin_pool_create(ctx, HUGEPIN_POOL_VARIABLE, &pool), "a variable pool");
	p = hugepin_alloc(pool, MIB(3), 0);
	page_bytes = p ? segment_of(pool, p).page_bytes : 0;
	if (page_bytes) {
		check(page_bytes == MIB(1024) || (page_bytes == MIB(2) && *told), "a variable has pages of %llu bytes: %s",
		      (unsigned long long)page_bytes, *told ? told : "as asked for");
		check_module(ctx, stats_of(pool).mapped_bytes, "with a variable");
		hugepin_free(pool, p);
	} else {
		check(errno == ENOMEM && *told, "no huge pages at all is an error: %s", told);
		check(stats_of(pool).mapped_bytes == 0, "and nothing is held");
	}
	check(!hugepin_pool_destroy(pool), "the variable pool ends");
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_ERROR);
}

static void plans(struct hugepin_context *ctx, struct hugepin_pool *pool)
{
	struct hugepin_plan *plan, *second;
	char *clean, *more, *other;
	void *extent;

	need(!hugepin_plan_begin(pool, MIB(6), &plan), "a plan");
	extent = hugepin_plan_address(plan);
	check(hugepin_plan_begin(pool, MIB(2), &second) == -EBUSY, "a second plan is refused: %s", hugepin_error());
	check(hugepin_plan_bytes(plan) == MIB(6), "the extent has %llu bytes", (unsigned long long)hugepin_plan_bytes(plan));
	check_pages(ctx, pool, extent);
	check_module(ctx, MIB(6), "with a plan");
	clean = hugepin_plan_alloc(plan, MIB(1), HUGEPIN_ALLOC_CLEAN);
	other = hugepin_plan_alloc(plan, MIB(4), 0);
	more = hugepin_plan_alloc(plan, MIB(1), HUGEPIN_ALLOC_CLEAN);
	need(clean && other && more, "the plan's blocks");
	check(more + MIB(1) == clean || clean + MIB(1) == more, "CLEAN blocks lie next to each other");
	memset(clean, 1, MIB(1));
	memset(more, 1, MIB(1));
	memset(other, 1, MIB(4));
	check(hugepin_pool_clean(pool) == (int64_t)MIB(2), "one pass clears 2 MiB");
	check(!clean[0] && !more[MIB(1) - 1] && other[0] && other[MIB(4) - 1], "the CLEAN blocks are zero, the other is not");
	check(!hugepin_plan_alloc(plan, 1, 0), "the extent is full: %s", hugepin_error());
	hugepin_plan_end(plan);

	need(!hugepin_plan_begin(pool, MIB(4), &plan), "a smaller plan");
	check(hugepin_plan_address(plan) == extent, "a smaller plan has the same extent");
	hugepin_plan_end(plan);
	need(!hugepin_plan_begin(pool, MIB(10), &plan), "a larger plan");
	check(hugepin_plan_bytes(plan) == MIB(10), "a larger plan has %llu bytes",
	      (unsigned long long)hugepin_plan_bytes(plan));
	check_module(ctx, MIB(10), "the old extent given back,");
	hugepin_plan_end(plan);
}

int main(int argc, char **argv)
{
	struct hugepin_options *options;
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;

	need(argc == 2, "one argument, a file");
	need(!hugepin_options_create(&options), "options");
	need(!hugepin_options_load_file(options, argv[1]), "a file of options");
	need(!hugepin_context_create(options, &ctx), "a context");
	hugepin_options_destroy(options);
	variables(ctx);
	need(!hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool), "a host pool");
	plans(ctx, pool);
	end(pool, ctx);
	return conclude();
}
