// SPDX-License-Identifier: MIT
/*
 * killat [-a] N COMMAND... - run COMMAND and kill it at the Nth place where a system call of it begins or ends: exit
 * status 0. With -a all its processes are counted and killed; else the first alone, and those that it has started go on
 * to their ends, which are waited for. Status 3: it ended before that; how, and after how many places, is printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "step.h"

#define ENDED		3
#define PROCESSES_MAX	256

static pid_t processes[PROCESSES_MAX];	/* that are followed */
static unsigned int process_count;

static void add_process(pid_t process)
{
	unsigned int i;

	for (i = 0; i < process_count; i++)
		if (processes[i] == process)
			return;
	if (process_count < PROCESSES_MAX)
		processes[process_count++] = process;
}

static void remove_process(pid_t process)
{
	unsigned int i;

	for (i = 0; i < process_count; i++)
		if (processes[i] == process)
			processes[i] = processes[--process_count];
}

/* All of them, from stop to stop of whichever comes next: true at the @nth. */
static bool step_all(pid_t first, unsigned int nth, unsigned int *stops, int *status)
{
	int state, signal;
	pid_t one;

	*stops = 0;
	add_process(first);
	ptrace(PTRACE_SYSCALL, first, 0, 0);
	while ((one = waitpid(-1, &state, __WALL)) > 0) {
		if (!WIFSTOPPED(state)) {
			remove_process(one);
			if (one == first)
				*status = state;
			continue;
		}
		add_process(one);
		signal = WSTOPSIG(state);
		if (signal == (SIGTRAP | 0x80) && ++*stops == nth)
			return true;
		/* not passed on: what comes of following it, and the stop that each new process begins with */
		if (signal == (SIGTRAP | 0x80) || signal == SIGTRAP || signal == SIGSTOP)
			signal = 0;
		ptrace(PTRACE_SYSCALL, one, 0, signal);
	}
	return false;
}

static int run(bool all, unsigned int nth, char **command)
{
	const long follow = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
	unsigned int stops, i;
	pid_t first = fork();
	int status = 0;
	bool reached;

	if (first < 0) {
		perror("fork");
		return 2;
	}
	if (!first) {
		step_begin();
		execvp(command[0], command);
		perror(command[0]);
		_exit(127);
	}
	if (!step_attach(first, all ? follow : 0)) {
		fprintf(stderr, "killat: %s cannot be followed\n", command[0]);
		return 2;
	}
	reached = all ? step_all(first, nth, &stops, &status) : step_to(first, nth, &stops, &status);
	if (!reached) {
		printf("ended with status %d after %u places\n",
		       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), stops);
		return ENDED;
	}
	kill(first, SIGKILL);
	for (i = 0; i < process_count; i++)
		kill(processes[i], SIGKILL);
	while (waitpid(-1, &status, __WALL) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	bool all = argc > 1 && !strcmp(argv[1], "-a");
	char *end;
	unsigned long nth;

	argc -= all;
	argv += all;
	nth = argc > 2 ? strtoul(argv[1], &end, 10) : 0;
	if (!nth || nth > 1000000 || *end) {
		fprintf(stderr, "usage: killat [-a] N COMMAND...\n");
		return 2;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return run(all, nth, argv + 2);
}
