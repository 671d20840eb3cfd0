// SPDX-License-Identifier: MIT
/*
 * hugepin-bench ALLOCATOR BENCH KEY=VALUE… - measures on request: says "ready" once it is warm, then answers each line
 * on its standard input with one result, so that whoever asks can take turns between allocators. Ends with its input.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker.h"

double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void bench_pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % (unsigned int)CPU_SETSIZE, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_complain("cannot run on CPU %u alone: %s", cpu, strerror(errno));
}

uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

uint64_t bench_size(const struct job *job, uint64_t *state)
{
	unsigned int low = 63 - (unsigned int)__builtin_clzll(job->min_bytes), powers;
	uint64_t base;

	if (job->min_bytes == job->max_bytes)
		return job->min_bytes;
	powers = 63 - (unsigned int)__builtin_clzll(job->max_bytes) - low;
	base = 1ull << (low + bench_random(state) % powers);
	return base + bench_random(state) % base;
}

int bench_complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

static const struct bench *const benches[] = { &bench_pair,   &bench_worst,  &bench_remote,	&bench_holes,
					       &bench_limits, &bench_gather, &bench_bookkeeping };

static const struct bench *bench_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
		if (!strcmp(benches[i]->name, name))
			return benches[i];
	}
	return NULL;
}

static int set(struct job *job, const char *setting)
{
	const struct {
		const char *key;
		uint64_t *value;
	} keys[] = {
		{ "min", &job->min_bytes }, { "max", &job->max_bytes }, { "live", &job->live },
		{ "threads", &job->threads }, { "operations", &job->operations }, { "warm_up", &job->warm_up },
		{ "grow", &job->grow },
	};
	const char *equals = strchr(setting, '=');
	size_t i;
	char *end;

	if (!strcmp(setting, "touch")) {
		job->touch = true;
		return 0;
	}
	for (i = 0; equals && i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strlen(keys[i].key) != (size_t)(equals - setting) ||
		    strncmp(keys[i].key, setting, (size_t)(equals - setting)))
			continue;
		*keys[i].value = strtoull(equals + 1, &end, 10);
		return *end || end == equals + 1 ? bench_complain("%s: not a number", setting) : 0;
	}
	return bench_complain("%s: unknown", setting);
}

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

int main(int argc, char **argv)
{
	struct job job = { .threads = 1, .live = 1 };
	const struct bench *bench;
	char line[16];
	int i;

	if (argc < 3)
		return bench_complain("usage: hugepin-bench ALLOCATOR BENCH KEY=VALUE...") ? 2 : 2;
	job.allocator = allocator_find(argv[1]);
	bench = bench_find(argv[2]);
	if (!job.allocator || !bench)
		return bench_complain("no such allocator or bench: %s %s", argv[1], argv[2]) ? 2 : 2;
	for (i = 3; i < argc; i++) {
		if (set(&job, argv[i]))
			return 2;
	}
	if (!is_power_of_two(job.min_bytes) || !is_power_of_two(job.max_bytes) || job.max_bytes < job.min_bytes ||
	    !job.threads || !job.live || !job.operations)
		return bench_complain("min and max are powers of two; threads, live and operations are not 0") ? 2 : 2;
	bench_pin(0);
	if (job.allocator->open() || bench->open(&job))
		return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (bench->repeat(&job))
			return 1;
		fflush(stdout);
	}
	return bench->close(&job) ? 1 : 0;
}
