// SPDX-License-Identifier: MIT
/*
 * What the layouts of plans cost, in time and memory: the figures of Documentation/pools.md.
 *
 *	options_plan_cost [ROUNDS]
 *
 * A run of 40 plans that need 24 to 96 MiB. Each takes blocks of 64 KiB to 1 MiB in a random order, writes to every
 * page of each, frees one in three on the way, and ends; between two plans the program takes and gives blocks of its
 * own. The policies take turns, ROUNDS (9) times; the median of the CPU time counts, the least and most are shown.
 * "begun with" is what a plan says that it will need: all of it, or nothing, so that what can grow must.
 */
#include <time.h>

#include "observe.h"

#define PLANS		40
#define ROUNDS_MAX	99
#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static const struct layout {
	const char *policy;
	int tells;				/* plans begin with all they need */
} layouts[] = { { "0", 1 }, { "2", 1 }, { "3", 1 }, { "3", 0 }, { "4", 1 }, { "4", 0 } };

struct result {
	double ms[ROUNDS_MAX];
	uint64_t peak_bytes;
};

static uint64_t state;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static void write_pages(char *p, uint64_t bytes)
{
	uint64_t at;

	for (at = 0; at < bytes; at += 4096)
		p[at] = 1;
}

static void run_plan(struct hugepin_pool *pool, const struct layout *layout, uint64_t bytes)
{
	struct hugepin_plan *plan;
	uint64_t used = 0;
	char *p;

	/* A quarter more than is in use at a time: room for what does not fit exactly. */
	need(!hugepin_plan_begin(pool, layout->tells ? bytes + bytes / 4 : 0, &plan), "a plan");
	while (used < bytes) {
		uint64_t size = (uint64_t)64 << 10 << draw(5);

		p = hugepin_plan_alloc(plan, size, 0);
		need(p != NULL, "a block of a plan");
		write_pages(p, size);
		if (draw(3))
			used += size;
		else
			need(!hugepin_free(pool, p), "a free");
	}
	hugepin_plan_end(plan);
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);	/* the kernel's mapping included; others' load is not */
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double run(const struct layout *layout, uint64_t *peak_bytes)
{
	struct hugepin_options *options;
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	void *own[4];
	double start;
	int i, j;

	need(!hugepin_options_create(&options), "options");
	need(!hugepin_options_set(options, "static_memory_policy", layout->policy), "the policy");
	need(!hugepin_context_create(options, &ctx), "a context");
	need(!hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool), "a pool");
	state = 88172645463325252u;
	start = cpu_ms();
	for (i = 0; i < PLANS; i++) {
		run_plan(pool, layout, MIB(24 + draw(73)));
		for (j = 0; j < 4; j++)
			own[j] = take(pool, MIB(1) + draw(MIB(1)));
		for (j = 0; j < 4; j++)
			hugepin_free(pool, own[j]);
	}
	start = cpu_ms() - start;
	*peak_bytes = stats_of(pool).peak_mapped_bytes;
	need(!hugepin_pool_destroy(pool) && !hugepin_context_destroy(ctx), "the end");
	hugepin_options_destroy(options);
	return start;
}

static int compare(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

int main(int argc, char **argv)
{
	static struct result results[COUNT(layouts)];
	int rounds = argc > 1 ? atoi(argv[1]) : 9, round;
	size_t i;

	need(rounds > 0 && rounds <= ROUNDS_MAX, "1 to 99 rounds");
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < COUNT(layouts); i++)
			results[i].ms[round] = run(&layouts[i], &results[i].peak_bytes);
	}
	printf("%-8s %-12s %14s %18s %14s\n", "policy", "begun with", "CPU ms a plan", "least, most", "peak MiB");
	for (i = 0; i < COUNT(layouts); i++) {
		double *ms = results[i].ms;

		qsort(ms, (size_t)rounds, sizeof(*ms), compare);
		printf("%-8s %-12s %14.3f %9.3f %8.3f %14.1f\n", layouts[i].policy, layouts[i].tells ? "its need" : "nothing",
		       ms[rounds / 2] / PLANS, ms[0] / PLANS, ms[rounds - 1] / PLANS,
		       (double)results[i].peak_bytes / (double)MIB(1));
	}
	return 0;
}
