// SPDX-License-Identifier: MIT
/* hugepinctl: finds the subcommand. A new one is a file with a struct command, and a line in this table. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hugepinctl.h"

static const struct command *const commands[] = {
	&command_status,
	&command_ps,
	&command_top,
	&command_reserve,
	&command_release,
	&command_adopt,
	&command_explain,
	&command_doctor,
	&command_config,
	&command_metrics,
	&command_run,
	&command_completion,
};
#define COUNT	(sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COUNT; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

const struct command *command_at(size_t position)
{
	return position < COUNT ? commands[position] : NULL;
}

static void print_overview(FILE *out)
{
	fputs("usage: hugepinctl COMMAND [OPTION]... [ARGUMENT]...\n\n", out);
	for (size_t i = 0; i < COUNT; i++)
		fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fputs("  help       show this, or the help of a command: hugepinctl help COMMAND\n"
	      "\n"
	      "  -V, --version   the version of this program and of the library\n"
	      "  -h, --help      this text\n"
	      "\n"
	      "Exit status:\n"
	      "  0  done\n"
	      "  1  failed; nothing has changed, unless the message says so\n"
	      "  2  the command line is wrong; nothing was tried\n"
	      "  3  the hugepin module is not loaded\n"
	      "  4  --partial: less than asked was got, and is kept\n"
	      "  5  no permission; nothing has changed\n", out);
}

static int help(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2 || (argc == 2 && !strcmp(argv[1], "help"))) {
		print_overview(stdout);
		return flush_output(STATUS_OK);
	}
	command = find(argv[1]);
	if (command && argc == 2)
		return print_help(command);
	if (command)
		complain("help takes one command, '%s' is one too many", argv[2]);
	else
		complain("'%s' is not a command; 'hugepinctl help' lists them", argv[1]);
	return STATUS_USAGE;
}

static int version(int argc, char **argv)
{
	if (argc > 1) {
		complain("%s takes no argument, '%s' was given", argv[0], argv[1]);
		return STATUS_USAGE;
	}
	printf("hugepinctl %d.%d.%d (libhugepin %s)\n", HUGEPIN_VERSION_MAJOR, HUGEPIN_VERSION_MINOR,
	       HUGEPIN_VERSION_PATCH, hugepin_version());
	return flush_output(STATUS_OK);
}

static bool is_any(const char *text, const char *a, const char *b, const char *c)
{
	return !strcmp(text, a) || !strcmp(text, b) || !strcmp(text, c);
}

/*
 * Where a standard stream is closed, the next file opened would be it: the lock, say, would take the output, and all
 * would seem well. Read-only, so that what is written there fails, and is told, as on a closed one.
 */
static void fill_standard_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	static char name[] = "hugepinctl";
	const struct command *command;

	fill_standard_streams();
	signals_ignore_writes();
	if (argc < 2) {
		print_overview(stderr);
		return STATUS_USAGE;
	}
	if (is_any(argv[1], "--help", "-h", "help"))
		return help(argc - 1, argv + 1);
	if (is_any(argv[1], "--version", "-V", "version"))
		return version(argc - 1, argv + 1);
	command = find(argv[1]);
	if (!command) {
		complain("'%s' is not a command; 'hugepinctl help' lists them", argv[1]);
		return STATUS_USAGE;
	}
	/* getopt's own messages then name the program as ours do, whatever the path it was started by. */
	argv[1] = name;
	return command_start(command, argc - 1, argv + 1);
}
