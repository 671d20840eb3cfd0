// SPDX-License-Identifier: MIT
/* hugepinctl release: give free pages of the reserve back to the kernel. */

#include "hugepinctl.h"

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	struct change_request request = {
		.command = &command_release,
		.everything = option_given(line, 'a'),
		.apply.free_only = option_given(line, 'a'),
		.dry_run = option_given(line, 'n'),
		.json = option_given(line, 'j'),
		.arguments = words,
		.nr_arguments = nr_words,
	};

	if (request.everything == (nr_words > 0)) {
		complain("release: either SPECs or --all are wanted");
		return usage_error(&command_release);
	}
	return change_run(&request);
}

const struct command command_release = {
	.name = "release",
	.arguments = "[--dry-run] [--json] SPEC...|--all",
	.summary = "give free pages back to the kernel",
	.options = {
		{ 'a', "all", NULL, "every free page of every node and class" },
		{ 'n', "dry-run", NULL, "check everything, say what would change, change nothing" },
		{ 'j', "json", NULL, "machine-readable" },
	},
	.help = "SPEC is NODE:CLASS:COUNT, several with blanks or commas between them:\n"
		"  NODE    a node's number, or * for every node with memory\n"
		"  CLASS   1G or 2M\n"
		"  COUNT   pages to give back (of each node, with *)\n"
		"\n"
		"Pages in use are never given back: asking for more than is free is an error and changes nothing.\n",
	.takes_words = true,
	.run = run,
};
