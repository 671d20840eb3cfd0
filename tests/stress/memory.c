// SPDX-License-Identifier: MIT
/* The kernel's own memory; see memory.h. The reserve is no part of it, so it may change while it is sampled. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "memory.h"

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Slab that cannot be reclaimed holds the module's records; the others would grow with areas or processes left over. */
void memory_sample(struct memory_samples *samples)
{
	unsigned int i = samples->count;
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128], name[64];
	double kb;

	if (!file || i == MEMORY_SAMPLES) {
		if (file)
			fclose(file);
		return;
	}
	samples->sample[i].at_s = now();
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63[^:]: %lf", name, &kb) != 2)
			continue;
		if (!strcmp(name, "SUnreclaim"))
			samples->sample[i].slab_kb = kb;
		else if (!strcmp(name, "PageTables") || !strcmp(name, "KernelStack") || !strcmp(name, "VmallocUsed") ||
			 !strcmp(name, "Percpu"))
			samples->sample[i].other_kb += kb;
	}
	fclose(file);
	samples->count++;
}

/* By least squares over the second half, when caches have filled. */
static double slope(const struct memory_samples *samples)
{
	unsigned int first = samples->count / 2, n = samples->count - first, i;
	double x = 0, y = 0, xx = 0, xy = 0;

	for (i = first; i < samples->count; i++) {
		double at = samples->sample[i].at_s - samples->sample[first].at_s;
		double kb = samples->sample[i].slab_kb + samples->sample[i].other_kb;

		x += at;
		y += kb;
		xx += at * at;
		xy += at * kb;
	}
	return n * xx == x * x ? 0 : (n * xy - x * y) / (n * xx - x * x) * 3600;
}

void memory_report(const struct memory_samples *samples)
{
	unsigned int last = samples->count - 1;

	if (samples->count < 4) {
		printf("memory: %u samples are too few\n", samples->count);
		return;
	}
	printf("memory: slab %.0f kB first, %.0f half-way, %.0f last; page tables, stacks, vmalloc, per-CPU %.0f, %.0f, %.0f; "
	       "slope of the second half %.0f kB an hour, %u samples\n", samples->sample[0].slab_kb,
	       samples->sample[samples->count / 2].slab_kb, samples->sample[last].slab_kb, samples->sample[0].other_kb,
	       samples->sample[samples->count / 2].other_kb, samples->sample[last].other_kb, slope(samples),
	       samples->count);
}
