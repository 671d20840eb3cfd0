// SPDX-License-Identifier: MIT
/* hugepin-demo: carries out the steps one after the other. Runs inside a machine that tools/demo boots. */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <sys/utsname.h>

#include "demo.h"

static const char usage[] =
	"Usage: hugepin-demo [--json FILE] --trace FILE\n"
	"Does hugepin's main job on a machine with two nodes and the module loaded, checks the results and reports.\n"
	"\n"
	"  --trace FILE  the allocations to replay (tools/trace)\n"
	"  --json FILE   the results as data too; \"-\" writes them to stdout, after a line's first byte of 0x1e\n"
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
	bool to_stdout = !strcmp(path, "-");
	FILE *out = to_stdout ? stdout : fopen(path, "we");
	int err;

	if (!out) {
		fprintf(stderr, "hugepin-demo: %s: %s\n", path, strerror(errno));
		return -1;
	}
	if (to_stdout)
		putchar(0x1e);		/* as in RFC 7464 */
	err = json_write(&demo->results, out);
	if (!to_stdout && fclose(out) && !err)
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
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct demo demo = { 0 };
	const char *json = NULL;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			json = optarg;
			break;
		case 't':
			demo.trace = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind != argc || !demo.trace) {
		fputs(usage, stderr);
		return 2;
	}
	carry_out(&demo);
	report_progress_end();
	if (json && write_results(&demo, json))
		return 1;
	return demo.failures || fflush(stdout) ? 1 : 0;
}
