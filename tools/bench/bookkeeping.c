// SPDX-License-Identifier: MIT
/*
 * bookkeeping: what hugepin keeps for each block beside the block itself. Result: bytes a block, which is the growth of
 * the process's resident memory while @live blocks are taken, without what the pool has mapped for them (a pool's
 * memory is resident as soon as it is mapped).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

static void **blocks;

static int resident(uint64_t *bytes)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	uint64_t kib;

	if (!file)
		return bench_complain("/proc/self/status cannot be opened");
	*bytes = 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1 || sscanf(line, "RssShmem: %" SCNu64, &kib) == 1)
			*bytes += kib << 10;
	}
	fclose(file);
	return 0;
}

static int bookkeeping_open(const struct job *job)
{
	blocks = malloc(job->live * sizeof(*blocks));
	if (!blocks)
		return bench_complain("no memory");
	/* What there is once, however many blocks, is there from the start. */
	memset(blocks, 1, job->live * sizeof(*blocks));
	job->allocator->free(job->allocator->alloc(job->min_bytes));
	return 0;
}

static int bookkeeping_repeat(const struct job *job)
{
	uint64_t before, after, mapped = allocator_mapped_bytes(), state = 1, i;

	if (resident(&before))
		return -1;
	for (i = 0; i < job->live; i++) {
		blocks[i] = job->allocator->alloc(bench_size(job, &state));
		if (!blocks[i])
			return bench_complain("no block");
	}
	if (resident(&after))
		return -1;
	mapped = allocator_mapped_bytes() - mapped;
	printf("%.3f\n", ((double)after - (double)before - (double)mapped) / (double)job->live);
	return 0;
}

static int bookkeeping_close(const struct job *job)
{
	uint64_t i;

	for (i = 0; i < job->live; i++)
		job->allocator->free(blocks[i]);
	free(blocks);
	return 0;
}

const struct bench bench_bookkeeping = { "bookkeeping", bookkeeping_open, bookkeeping_repeat, bookkeeping_close };
