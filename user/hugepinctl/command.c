// SPDX-License-Identifier: MIT
/* What a command takes: its table of options is what is parsed, what the help shows and what the shells complete. */
#include <getopt.h>
#include <string.h>

#include "hugepinctl.h"

static const struct command_option help_option = { 'h', "help", NULL, "this text" };

const struct command_option *command_option_at(const struct command *command, size_t position)
{
	size_t count = 0;

	while (count < OPTIONS_MAX && command->options[count].letter)
		count++;
	if (position < count)
		return &command->options[position];
	return position == count ? &help_option : NULL;
}

/* ---- help ---- */

static int option_width(const struct command_option *option)
{
	return (int)(strlen(option->name) + (option->argument ? strlen(option->argument) + 1 : 0));
}

static void print_option(const struct command_option *option, int width)
{
	const char *line = option->help;

	printf("  -%c, --%s%s%s%*s", option->letter, option->name, option->argument ? " " : "",
	       option->argument ? option->argument : "", width - option_width(option), "");
	for (;;) {
		size_t length = strcspn(line, "\n");

		printf("   %.*s\n", (int)length, line);
		if (!line[length])
			return;
		line += length + 1;
		printf("%*s", width + 8, "");
	}
}

int print_help(const struct command *command)
{
	const struct command_option *option;
	int width = 0;

	printf("usage: hugepinctl %s %s\n%s\n\n", command->name, command->arguments, command->summary);
	for (size_t i = 0; (option = command_option_at(command, i)); i++)
		if (option_width(option) > width)
			width = option_width(option);
	for (size_t i = 0; (option = command_option_at(command, i)); i++)
		print_option(option, width);
	if (command->help)
		printf("\n%s", command->help);
	return flush_output(STATUS_OK);
}

int usage_error(const struct command *command)
{
	fprintf(stderr, "usage: hugepinctl %s %s\nsee 'hugepinctl help %s'\n", command->name, command->arguments,
		command->name);
	return STATUS_USAGE;
}

/* ---- the command line ---- */

struct command_line {
	const struct command *command;
	const char *values[OPTIONS_MAX];	/* of its options, "" for a switch; NULL: not given */
};

const char *option_value(const struct command_line *line, char letter)
{
	for (size_t i = 0; i < OPTIONS_MAX; i++)
		if (line->command->options[i].letter == letter)
			return line->values[i];
	return NULL;
}

bool option_given(const struct command_line *line, char letter)
{
	return option_value(line, letter) != NULL;
}

/* What getopt_long() wants to know; @shorts begins with "+" where the first word ends the options. */
static void make_tables(const struct command *command, struct option *longs, char *shorts)
{
	const struct command_option *option;

	if (command->words_are_a_program)
		*shorts++ = '+';
	for (size_t i = 0; (option = command_option_at(command, i)); i++) {
		longs[i] = (struct option){
			.name = option->name,
			.has_arg = option->argument ? required_argument : no_argument,
			.val = option->letter,
		};
		*shorts++ = option->letter;
		if (option->argument)
			*shorts++ = ':';
	}
}

int command_start(const struct command *command, int argc, char **argv)
{
	struct option longs[OPTIONS_MAX + 2] = { 0 };
	char shorts[2 * OPTIONS_MAX + 3] = "";
	struct command_line line = { .command = command };
	int letter;

	make_tables(command, longs, shorts);
	while ((letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		size_t i = 0;

		if (letter == help_option.letter)
			return print_help(command);
		while (i < OPTIONS_MAX && command->options[i].letter != letter)
			i++;
		if (i == OPTIONS_MAX)
			return usage_error(command);
		if (optarg && line.values[i]) {
			complain("%s: --%s is given twice", command->name, command->options[i].name);
			return usage_error(command);
		}
		line.values[i] = optarg ? optarg : "";
	}
	if (!command->takes_words && optind < argc) {
		complain("%s takes no argument, '%s' was given", command->name, argv[optind]);
		return usage_error(command);
	}
	return command->run(&line, argv + optind, (size_t)(argc - optind));
}
