// SPDX-License-Identifier: MIT
/*
 * hugepinctl completion: what the shells complete, written from the same tables that the help is printed from:
 * options from a command's own, arguments by the words of its usage line.
 */
#include <ctype.h>
#include <string.h>

#include "hugepinctl.h"

static bool wants(const struct command *command, const char *word)
{
	const char *at = command->arguments;
	size_t length = strlen(word);

	/* SPEC... counts as SPEC, --output FILE does not: that is the option's */
	while ((at = strstr(at, word))) {
		bool begins = at == command->arguments || strchr(" [|", at[-1]);
		bool optional = at - command->arguments > 2 && at[-1] == ' ' && islower((unsigned char)at[-2]);

		if (begins && !optional && !isalpha((unsigned char)at[length]))
			return true;
		at += length;
	}
	return false;
}

/* ---- bash ---- */

static const char bash_begin[] =
	"# Completion of hugepinctl(1) for bash, written by 'hugepinctl completion bash'.\n"
	"\n"
	"# Nodes and classes come from the host: nothing is offered that is not there.\n"
	"_hugepinctl_specs()\n"
	"{\n"
	"\thugepinctl status 2>/dev/null | awk '$1 ~ /^[0-9]+$/ && $2 ~ /^(1G|2M)$/ { print $1 \":\" $2 \":\" }'\n"
	"}\n"
	"\n"
	"_hugepinctl_nodes()\n"
	"{\n"
	"\tlocal node\n"
	"\n"
	"\tfor node in /sys/devices/system/node/node[0-9]*; do\n"
	"\t\techo \"${node##*/node}\"\n"
	"\tdone\n"
	"}\n"
	"\n"
	"_hugepinctl()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}\n"
	"\tlocal words='' files='' values='' arguments='' verbs=''\n"
	"\n"
	"\tCOMPREPLY=()\n";

static const char bash_end[] =
	"\tif [[ $cur != -* && \" $files \" == *\" $prev \"* ]]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\treturn\n"
	"\tfi\n"
	"\t# what another option wants nobody can guess\n"
	"\t[[ \" $values \" != *\" $prev \"* ]] || return\n"
	"\tif [[ $cur != -* && $verbs ]]; then\n"
	"\t\t((COMP_CWORD == 2)) && words=$verbs\n"
	"\t\tif ((COMP_CWORD > 2)); then\n"
	"\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\t\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\t\treturn\n"
	"\t\tfi\n"
	"\telif [[ $cur != -* ]]; then\n"
	"\t\tcase $arguments in\n"
	"\t\tspec)\n"
	"\t\t\t# A colon begins a new word in bash: behind one there is a class or a count.\n"
	"\t\t\t[[ $cur != : && $prev != : ]] || return\n"
	"\t\t\twords=$(_hugepinctl_specs)\n"
	"\t\t\tcompopt -o nospace 2>/dev/null\n"
	"\t\t\t;;\n"
	"\t\tnode) words=$(_hugepinctl_nodes) ;;\n"
	"\t\tpool)\n"
	"\t\t\tif [[ $prev =~ ^[0-9]+$ ]]; then\n"
	"\t\t\t\twords='1G 2M'\n"
	"\t\t\telif [[ $prev == [12][GM] ]]; then\n"
	"\t\t\t\twords=all\n"
	"\t\t\telse\n"
	"\t\t\t\twords=$(_hugepinctl_nodes)\n"
	"\t\t\tfi\n"
	"\t\t\t;;\n"
	"\t\tshell) words='bash zsh' ;;\n"
	"\t\tprogram)\n"
	"\t\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	"\t\t\treturn\n"
	"\t\t\t;;\n"
	"\t\tesac\n"
	"\tfi\n"
	"\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	"}\n"
	"\n"
	"complete -F _hugepinctl hugepinctl\n";

static const char *argument_kind(const struct command *command)
{
	if (wants(command, "SPEC"))
		return "spec";
	if (wants(command, "CLASS"))
		return "pool";
	if (wants(command, "NODE"))
		return "node";
	if (wants(command, "PROGRAM"))
		return "program";
	return wants(command, "SHELL") ? "shell" : "";
}

/* All options' names, those with a FILE, or those with another argument. */
enum choice { EVERY, WITH_FILE, WITH_VALUE };

static void write_names(const struct command *command, enum choice choice)
{
	const struct command_option *option;
	const char *between = "";

	for (size_t i = 0; (option = command_option_at(command, i)); i++) {
		bool file = option->argument && !strcmp(option->argument, "FILE");

		if ((choice == WITH_FILE && !file) || (choice == WITH_VALUE && (file || !option->argument)))
			continue;
		/* -o FILE completes as --output FILE does; only the long name is offered */
		printf("%s--%s", between, option->name);
		if (choice != EVERY)
			printf(" -%c", option->letter);
		between = " ";
	}
}

/* Words of a usage line "... | get NAME | check FILE...": the first of each alternative. */
static void write_verbs(const struct command *command)
{
	const char *at = command->arguments;

	while ((at = strstr(at, "| "))) {
		at += 2;
		if (islower((unsigned char)*at))
			printf("%.*s ", (int)strspn(at, "abcdefghijklmnopqrstuvwxyz"), at);
	}
}

static void write_bash_command(const struct command *command)
{
	const char *kind = argument_kind(command);

	printf("\t%s)\n\t\twords='", command->name);
	write_names(command, EVERY);
	fputs("'\n\t\tfiles='", stdout);
	write_names(command, WITH_FILE);
	fputs("'\n\t\tvalues='", stdout);
	write_names(command, WITH_VALUE);
	printf("'\n\t\targuments='%s'\n\t\tverbs='", kind);
	write_verbs(command);
	puts("'\n\t\t;;");
}

static void write_command_names(void)
{
	for (size_t i = 0; command_at(i); i++)
		printf("%s ", command_at(i)->name);
}

static void write_bash(void)
{
	fputs(bash_begin, stdout);
	fputs("\tif ((COMP_CWORD == 1)); then\n\t\tmapfile -t COMPREPLY < <(compgen -W '", stdout);
	write_command_names();
	fputs("help --version --help' -- \"$cur\")\n\t\treturn\n\tfi\n\tcase $command in\n", stdout);
	for (size_t i = 0; command_at(i); i++)
		write_bash_command(command_at(i));
	fputs("\thelp) words='", stdout);
	write_command_names();
	fputs("' ;;\n\t*) return ;;\n\tesac\n", stdout);
	fputs(bash_end, stdout);
}

/* ---- zsh ---- */

static const char zsh_begin[] =
	"#compdef hugepinctl\n"
	"# Completion of hugepinctl(1) for zsh, written by 'hugepinctl completion zsh'.\n"
	"\n"
	"_hugepinctl_specs() {\n"
	"\tlocal -a specs\n"
	"\tspecs=(${(f)\"$(hugepinctl status 2>/dev/null |\n"
	"\t\tawk '$1 ~ /^[0-9]+$/ && $2 ~ /^(1G|2M)$/ { print $1 \":\" $2 \":\" }')\"})\n"
	"\tcompadd -S '' -a specs\n"
	"}\n"
	"\n"
	"_hugepinctl_nodes() {\n"
	"\tlocal -a nodes\n"
	"\tnodes=(/sys/devices/system/node/node<->(N:t))\n"
	"\tcompadd -- ${nodes#node}\n"
	"}\n"
	"\n"
	"_hugepinctl() {\n"
	"\tlocal context state state_descr line\n"
	"\ttypeset -A opt_args\n"
	"\tlocal -a commands\n"
	"\n"
	"\tcommands=(\n";

/* A line, inside single quotes, where zsh's _arguments has meanings for brackets and colons. */
static void write_zsh_text(const char *text)
{
	for (; *text && *text != '\n'; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr("[]:\\", *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void write_zsh_option(const struct command_option *option)
{
	printf("\t\t\t'(-%c --%s)'{-%c,--%s}'[", option->letter, option->name, option->letter, option->name);
	write_zsh_text(option->help);
	putchar(']');
	if (option->argument)
		printf(":%s:%s", option->argument, !strcmp(option->argument, "FILE") ? "_files" : " ");
	fputs("' \\\n", stdout);
}

static void write_zsh_command(const struct command *command)
{
	static const struct {
		const char *kind, *action;
	} actions[] = {
		{ "spec", "'*:spec:_hugepinctl_specs'" },
		{ "node", "'1:node:_hugepinctl_nodes'" },
		{ "pool", "'1:node:_hugepinctl_nodes' '2:class:(1G 2M)' '3:count:(all)'" },
		{ "program", "'1:program:_command_names -e' '*::arguments:_normal'" },
		{ "shell", "'1:shell:(bash zsh)'" },
		{ "", "" },
	};
	const char *kind = argument_kind(command);
	const struct command_option *option;

	printf("\t%s)\n\t\t_arguments -S \\\n", command->name);
	for (size_t i = 0; (option = command_option_at(command, i)); i++)
		write_zsh_option(option);
	if (strstr(command->arguments, "| ") && !*kind) {
		fputs("\t\t\t'1:word:(", stdout);
		write_verbs(command);
		puts(")' '*:file:_files'\n\t\t;;");
		return;
	}
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (!strcmp(actions[i].kind, kind))
			printf("\t\t\t%s\n\t\t;;\n", actions[i].action);
}

static void write_zsh(void)
{
	fputs(zsh_begin, stdout);
	for (size_t i = 0; command_at(i); i++) {
		printf("\t\t'%s:", command_at(i)->name);
		write_zsh_text(command_at(i)->summary);
		fputs("'\n", stdout);
	}
	fputs("\t\t'help:show the help of a command'\n\t)\n"
	      "\t_arguments -C '1:command:->command' '*::argument:->argument'\n"
	      "\tif [[ $state == command ]]; then\n"
	      "\t\t_describe command commands\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tcase $words[1] in\n", stdout);
	for (size_t i = 0; command_at(i); i++)
		write_zsh_command(command_at(i));
	fputs("\thelp) _describe command commands ;;\n\tesac\n}\n\n_hugepinctl \"$@\"\n", stdout);
}

/* ---- the command ---- */

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	(void)line;
	if (nr_words == 1 && !strcmp(words[0], "bash")) {
		write_bash();
	} else if (nr_words == 1 && !strcmp(words[0], "zsh")) {
		write_zsh();
	} else {
		complain("completion: one shell is wanted, bash or zsh");
		return usage_error(&command_completion);
	}
	return flush_output(STATUS_OK);
}

const struct command command_completion = {
	.name = "completion",
	.arguments = "SHELL",
	.summary = "print what a shell needs to complete command lines",
	.help = "SHELL is bash or zsh. The packages install both; by hand: source <(hugepinctl completion bash)\n",
	.takes_words = true,
	.run = run,
};
