// SPDX-License-Identifier: MIT
/* hugepinctl reserve: make the reserve of nodes and classes hold so many pages. */

#include "hugepinctl.h"

#define WAIT_MAX_S	86400

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	struct change_request request = {
		.command = &command_reserve,
		.dry_run = option_given(line, 'n'),
		.apply.partial = option_given(line, 'p'),
		.json = option_given(line, 'j'),
		.arguments = words,
		.nr_arguments = nr_words,
	};
	const char *wait = option_value(line, 'w');

	if (wait && number_parse(wait, WAIT_MAX_S, &request.apply.wait_s)) {
		complain("--wait '%s' is not a number of seconds, 0 to %d", wait, WAIT_MAX_S);
		return usage_error(&command_reserve);
	}
	if (!nr_words) {
		complain("reserve: no SPEC was given");
		return usage_error(&command_reserve);
	}
	return change_run(&request);
}

const struct command command_reserve = {
	.name = "reserve",
	.arguments = "[--dry-run] [--partial] [--wait SECONDS] [--json] SPEC...",
	.summary = "hold so many pages on a node: all that is asked, or nothing changes",
	.options = {
		{ 'n', "dry-run", NULL, "check everything, say what would change, change nothing" },
		{ 'p', "partial", NULL, "keep what could be had when it is less than asked (exit status 4)" },
		{ 'w', "wait", "SECONDS", "go on trying so long while pages are short (default 0)" },
		{ 'j', "json", NULL, "machine-readable" },
	},
	.help = "SPEC is NODE:CLASS:COUNT, several with blanks or commas between them:\n"
		"  NODE    a node's number, or * for every node with memory\n"
		"  CLASS   1G or 2M\n"
		"  COUNT   pages to hold (each node, with *); +N: so many more than now\n"
		"\n"
		"What gives pages back goes first, then 1G pages, then 2M pages. When one SPEC fails, or a signal\n"
		"(INT, TERM, HUP) comes, everything that was changed is put back, last first.\n",
	.takes_words = true,
	.run = run,
};
