// SPDX-License-Identifier: MIT
/* hugepinctl release: give free pages of the reserve back to the kernel. */
#include <getopt.h>

#include "hugepinctl.h"

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct change_request request = { .command = self };
	int option;

	while ((option = getopt_long(argc, argv, "anjh", options, NULL)) != -1) {
		switch (option) {
		case 'a':
			request.everything = true;
			request.apply.free_only = true;
			break;
		case 'n':
			request.dry_run = true;
			break;
		case 'j':
			request.json = true;
			break;
		case 'h':
			return print_help(self);
		default:
			return usage_error(self);
		}
	}
	if (request.everything == (optind < argc)) {
		complain("release: either SPECs or --all are wanted");
		return usage_error(self);
	}
	request.arguments = argv + optind;
	request.nr_arguments = (size_t)(argc - optind);
	return change_run(&request);
}

const struct command command_release = {
	.name = "release",
	.arguments = "[--dry-run] [--json] SPEC...|--all",
	.summary = "give free pages back to the kernel",
	.help =
		"SPEC is NODE:CLASS:COUNT, several with blanks or commas between them:\n"
		"  NODE    a node's number, or * for every node with memory\n"
		"  CLASS   1G or 2M\n"
		"  COUNT   pages to give back (of each node, with *)\n"
		"\n"
		"  -a, --all        every free page of every node and class\n"
		"  -n, --dry-run    check everything, say what would change, change nothing\n"
		"  -j, --json       machine-readable\n"
		"  -h, --help       this text\n"
		"\n"
		"Pages in use are never given back: asking for more than is free is an error and changes nothing.\n",
	.run = run,
};
