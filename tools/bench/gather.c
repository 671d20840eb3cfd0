// SPDX-License-Identifier: MIT
/*
 * gather: one block of min bytes is a table of 64-byte lines; lines drawn at random are read whole, as rows of an
 * embedding are. Result: nanoseconds a line. Each line says which one it is, and what was read is summed up and
 * compared.
 */
#include <stdio.h>

#include "worker.h"

#define LINE_WORDS	8

static uint64_t *table;
static uint64_t state = 0x2545f4914f6cdd1dull;

static int gather_open(const struct job *job)
{
	uint64_t words = job->min_bytes / sizeof(*table), i;

	if (job->min_bytes < LINE_WORDS * sizeof(*table) || job->min_bytes != job->max_bytes)
		return bench_complain("the table has min = max bytes, 64 at least");
	table = job->allocator->alloc(job->min_bytes);
	if (!table)
		return bench_complain("no block of %llu bytes", (unsigned long long)job->min_bytes);
	for (i = 0; i < words; i++)
		table[i] = i / LINE_WORDS;
	return 0;
}

static int gather_repeat(const struct job *job)
{
	uint64_t lines = job->min_bytes / sizeof(*table) / LINE_WORDS, expected = 0, sum = 0, i, k, line;
	double from = bench_now();

	for (i = 0; i < job->operations; i++) {
		line = bench_random(&state) & (lines - 1);
		expected += line;
		for (k = 0; k < LINE_WORDS; k++)
			sum += table[line * LINE_WORDS + k];
	}
	from = bench_now() - from;
	if (sum != expected * LINE_WORDS)
		return bench_complain("the table has changed");
	printf("%.3f\n", from / (double)job->operations * 1e9);
	return 0;
}

static int gather_close(const struct job *job)
{
	job->allocator->free(table);
	return 0;
}

const struct bench bench_gather = { "gather", gather_open, gather_repeat, gather_close };
