// SPDX-License-Identifier: MIT
/*
 * What a full allocator costs. holes: of twice @live blocks every second is freed, which leaves @live holes; then
 * blocks are exchanged at random. Result: nanoseconds an exchange. limits: @live blocks are taken one after another;
 * result: what the last tenth costs, as a multiple of the first tenth (medians of groups, so that a growth does not
 * count).
 */
#include <stdio.h>
#include <stdlib.h>

#include "worker.h"

#define GROUPS	1000

static void **blocks;
static uint64_t state = 0x2545f4914f6cdd1dull;

static int refill(const struct job *job, uint64_t i)
{
	blocks[i] = job->allocator->alloc(bench_size(job, &state));
	return blocks[i] ? 0 : bench_complain("no block");
}

static int churn(const struct job *job, uint64_t operations)
{
	uint64_t i, victim;

	for (i = 0; i < operations; i++) {
		victim = bench_random(&state) % job->live * 2;
		job->allocator->free(blocks[victim]);
		if (refill(job, victim))
			return -1;
	}
	return 0;
}

static int holes_open(const struct job *job)
{
	uint64_t i;

	blocks = calloc(2 * job->live, sizeof(*blocks));
	if (!blocks)
		return bench_complain("no memory");
	for (i = 0; i < 2 * job->live; i++) {
		if (refill(job, i))
			return -1;
	}
	for (i = 1; i < 2 * job->live; i += 2) {
		job->allocator->free(blocks[i]);
		blocks[i] = NULL;
	}
	return churn(job, job->warm_up);
}

static int holes_repeat(const struct job *job)
{
	double from = bench_now();

	if (churn(job, job->operations))
		return -1;
	printf("%.3f\n", (bench_now() - from) / (double)job->operations * 1e9);
	return 0;
}

static int holes_close(const struct job *job)
{
	uint64_t i;

	for (i = 0; i < 2 * job->live; i++) {
		if (blocks[i])
			job->allocator->free(blocks[i]);
	}
	return 0;
}

const struct bench bench_holes = { "holes", holes_open, holes_repeat, holes_close };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int limits_open(const struct job *job)
{
	blocks = calloc(job->live, sizeof(*blocks));
	return blocks ? 0 : bench_complain("no memory");
}

static int limits_repeat(const struct job *job)
{
	static double seconds[GROUPS];
	uint64_t group = job->live / GROUPS, i, k;
	double from;

	for (i = 0; i < GROUPS; i++) {
		from = bench_now();
		for (k = 0; k < group; k++) {
			if (refill(job, i * group + k))
				return -1;
		}
		seconds[i] = bench_now() - from;
	}
	qsort(seconds, GROUPS / 10, sizeof(*seconds), by_value);
	qsort(seconds + GROUPS - GROUPS / 10, GROUPS / 10, sizeof(*seconds), by_value);
	printf("%.3f\n", seconds[GROUPS - GROUPS / 20] / seconds[GROUPS / 20]);
	for (i = 0; i < GROUPS * group; i++)
		job->allocator->free(blocks[i]);
	return 0;
}

static int limits_close(const struct job *job)
{
	(void)job;
	free(blocks);
	return 0;
}

const struct bench bench_limits = { "limits", limits_open, limits_repeat, limits_close };
