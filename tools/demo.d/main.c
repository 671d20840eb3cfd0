// SPDX-License-Identifier: MIT
/* hugepin-demo: carries out the steps one after the other. Runs inside a machine that tools/demo boots. */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <sys/utsname.h>

#include "demo.h"

static const char usage[] =
	"Usage: hugepin-demo [--json FILE | --marked] --trace FILE\n"
	"Does hugepin's main job on a machine with two nodes and the module loaded, checks the results and reports.\n"
	"\n"
	"  --trace FILE  the allocations to replay (tools/trace)\n"
	"  --json FILE   the results as data too\n"
	"  --marked      for tools/demo: progress and results on stdout too, in lines that begin with the bytes 0x1d\n"
	"                and 0x1e; the results are the rest of the output\n"
	"\n"
	"Exit status: 0 all as it should be, 1 something was not, 2 usage.\n";

static int begin(struct demo *demo)
{
	static const struct setting settings[] = { { "runtime", "none" } };
	struct reserve_sum sum;
	struct utsname name;

	uname(&name);
	snprintf(demo->results.kernel, sizeof(demo->results.kernel), "%s", name.release);
	printf("hugepin %s on Linux %s\n", hugepin_version(), name.release);
	if (context_open(settings, 1, &demo->ctx))
		return report_stop(demo, "%s", hugepin_error());
	if (reserve_sum(demo->ctx, NODE_EVERY, &sum))
		return report_stop(demo, "the module's reserve: %s", hugepin_error());
	demo->absent_1g = hugepin_class_absent(demo->ctx, HUGEPIN_PAGES_1G);
	if (sum.in_use || sum.quarantined)
		return report_stop(demo, "the reserve is used by others: %llu pages in use, %llu quarantined",
				   (unsigned long long)sum.in_use, (unsigned long long)sum.quarantined);
	return 0;
}

static void carry_out(struct demo *demo)
{
	static int (*const steps[])(struct demo *) = {
		step_reserve, step_ready, step_replay, step_shortage, step_death, step_pins,
	};

	if (begin(demo))
		return;
	/* What follows a step that could not be carried out would only repeat its failure. */
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i](demo))
			break;
	step_give_back(demo);
	report_check(demo, !hugepin_context_destroy(demo->ctx), "closing the library: %s", hugepin_error());
}

static int write_results(const struct demo *demo, const char *path)
{
	FILE *out = fopen(path, "we");
	int err;

	if (!out) {
		fprintf(stderr, "hugepin-demo: %s: %s\n", path, strerror(errno));
		return -1;
	}
	err = json_write(&demo->results, out);
	if (fclose(out) && !err)
		err = -errno;
	if (err)
		fprintf(stderr, "hugepin-demo: %s: %s\n", path, strerror(-err));
	return err;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", required_argument, NULL, 'j' },
		{ "trace", required_argument, NULL, 't' },
		{ "marked", no_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct demo demo = { 0 };
	const char *json = NULL;
	bool marked = false;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			json = optarg;
			break;
		case 't':
			demo.trace = optarg;
			break;
		case 'm':
			marked = true;
			report_mark();
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind != argc || !demo.trace || (marked && json)) {
		fputs(usage, stderr);
		return 2;
	}
	carry_out(&demo);
	if (json && write_results(&demo, json))
		return 1;
	if (marked) {
		putchar(REPORT_MARK_RESULTS);
		if (json_write(&demo.results, stdout))
			return 1;
	}
	return demo.failures || fflush(stdout) ? 1 : 0;
}
