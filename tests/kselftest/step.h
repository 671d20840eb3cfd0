/* SPDX-License-Identifier: MIT */
/* A process followed from system call to system call, to be killed at one of them. */
#ifndef HUGEPIN_KSELFTEST_STEP_H
#define HUGEPIN_KSELFTEST_STEP_H

#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the process to be followed: it waits until it is let go on. */
static inline void step_begin(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
}

/* In its parent; false: it has ended already. */
static inline bool step_attach(pid_t process, long options)
{
	int status;

	return waitpid(process, &status, 0) == process && WIFSTOPPED(status) &&
	       !ptrace(PTRACE_SETOPTIONS, process, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | options);
}

/*
 * Lets it go on to its @nth stop from here; it stops where a system call begins and where it ends. False: it has ended
 * before that, with *@status as of wait(2), after *@stops.
 */
static inline bool step_to(pid_t process, unsigned int nth, unsigned int *stops, int *status)
{
	int signal = 0;

	for (*stops = 0; *stops < nth;) {
		if (ptrace(PTRACE_SYSCALL, process, 0, signal) || waitpid(process, status, 0) != process)
			return false;
		if (!WIFSTOPPED(*status))
			return false;
		signal = WSTOPSIG(*status);
		if (signal == (SIGTRAP | 0x80)) {
			(*stops)++;
			signal = 0;
		} else if (signal == SIGTRAP) {		/* of exec and the like */
			signal = 0;
		}
	}
	return true;
}

#endif /* HUGEPIN_KSELFTEST_STEP_H */
