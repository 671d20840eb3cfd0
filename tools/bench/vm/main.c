// SPDX-License-Identifier: MIT
/*
 * hugepin-bench-vm [--gib N] [--repetitions N] BENCH… - measures what it is asked for, one after the other, and tells
 * every single measurement; whoever started it judges them. Puts nothing back: the machine is thrown away afterwards.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vm.h"

static const struct {
	const char *name;
	int (*run)(const struct machine *m);
} benches[] = {
	{ "bringup", bench_bringup }, { "bringup_dirty", bench_bringup_dirty }, { "scrub", bench_scrub },
	{ "pin", bench_pin },	      { "register", bench_register },		{ "limits", bench_limits },
	{ "calls", bench_calls },     { "memory", bench_memory },
};

void tell(const char *bench, const char *name, unsigned int threads, const char *unit, const char *who, double value)
{
	printf("%s\t%s\t%u\t%s\t%s\t%.6g\n", bench, name, threads, unit, who, value);
	fflush(stdout);
}

void progress(const char *fmt, ...)
{
	va_list args;

	fputs("progress: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

int complain(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void run_on(int cpu)
{
	cpu_set_t set;
	int i;

	CPU_ZERO(&set);
	for (i = 0; i < CPU_SETSIZE; i++) {
		if (cpu < 0 || i == cpu)
			CPU_SET(i, &set);
	}
	if (sched_setaffinity(0, sizeof(set), &set))
		complain("CPU %d: %s", cpu, strerror(errno));
}

static int run(const struct machine *m, const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
		if (!strcmp(benches[i].name, name))
			return benches[i].run(m) ? complain("%s: no result", name) : 0;
	}
	return complain("no such bench: %s", name);
}

static bool number(const char *text, unsigned int max, unsigned int *out)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || end == text || !n || n > max)
		return false;
	*out = (unsigned int)n;
	return true;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "gib", required_argument, NULL, 'g' },
		{ "repetitions", required_argument, NULL, 'r' },
		{ 0 },
	};
	struct machine m = { .repetitions = 3 };
	unsigned int gib = 1;
	int opt, failed = 0;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt != 'g' && opt != 'r')
			return 2;
		if (!number(optarg, 1024, opt == 'g' ? &gib : &m.repetitions)) {
			complain("%s: not a number from 1 to 1024", optarg);
			return 2;
		}
	}
	m.bytes = GIB(gib);
	if (hugepin_context_create(NULL, &m.ctx)) {
		complain("%s", hugepin_error());
		return 1;
	}
	m.has_1g = !hugepin_class_absent(m.ctx, HUGEPIN_PAGES_1G);
	for (; optind < argc; optind++)
		failed |= run(&m, argv[optind]);
	hugepin_context_destroy(m.ctx);
	return failed ? 1 : 0;
}
