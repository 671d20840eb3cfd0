// SPDX-License-Identifier: MIT
/* hugepinctl reserve: make the reserve of nodes and classes hold so many pages. */
#include <getopt.h>

#include "hugepinctl.h"

#define WAIT_MAX_S	86400

static int run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{ "dry-run", no_argument, NULL, 'n' },
		{ "partial", no_argument, NULL, 'p' },
		{ "wait", required_argument, NULL, 'w' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct change_request request = { .command = self };
	int option;

	while ((option = getopt_long(argc, argv, "npw:jh", options, NULL)) != -1) {
		switch (option) {
		case 'n':
			request.dry_run = true;
			break;
		case 'p':
			request.apply.partial = true;
			break;
		case 'w':
			if (number_parse(optarg, WAIT_MAX_S, &request.apply.wait_s)) {
				complain("--wait %s: 0 to %d seconds are wanted", optarg, WAIT_MAX_S);
				return usage_error(self);
			}
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
	if (optind == argc) {
		complain("reserve: no SPEC was given");
		return usage_error(self);
	}
	request.arguments = argv + optind;
	request.nr_arguments = (size_t)(argc - optind);
	return change_run(&request);
}

const struct command command_reserve = {
	.name = "reserve",
	.arguments = "[--dry-run] [--partial] [--wait SECONDS] [--json] SPEC...",
	.summary = "hold so many pages on a node: all that is asked, or nothing changes",
	.help =
		"SPEC is NODE:CLASS:COUNT, several with blanks or commas between them:\n"
		"  NODE    a node's number, or * for every node with memory\n"
		"  CLASS   1G or 2M\n"
		"  COUNT   pages to hold (each node, with *); +N: so many more than now\n"
		"\n"
		"  -n, --dry-run        check everything, say what would change, change nothing\n"
		"  -p, --partial        keep what could be had when it is less than asked (exit status 4)\n"
		"  -w, --wait SECONDS   go on trying so long while pages are short (default 0)\n"
		"  -j, --json           machine-readable\n"
		"  -h, --help           this text\n"
		"\n"
		"SPECs are carried out in the order given. When one fails, or a signal (INT, TERM, HUP) comes,\n"
		"everything that was changed is put back, last first.\n",
	.run = run,
};
