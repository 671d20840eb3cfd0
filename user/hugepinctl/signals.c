// SPDX-License-Identifier: MIT
/*
 * INT, TERM and HUP while the reserve is being changed: noted, and the write that is under way ended, so that the
 * caller can put back what it has changed and then die by the signal as its parent expects.
 *
 * A signal may come between the look at the flag and the write that can take a minute. So the handler sets an alarm
 * that goes on interrupting, every second, until signals_hold().
 *
 * PIPE and XFSZ, all the time: ignored.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "hugepinctl.h"

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
#define COUNT	(sizeof(signals) / sizeof(signals[0]))

static volatile sig_atomic_t caught;
static struct sigaction before[COUNT], before_alarm;
static sigset_t mask_before;
static void (*pipe_before)(int), (*file_size_before)(int);

void signals_ignore_writes(void)
{
	pipe_before = signal(SIGPIPE, SIG_IGN);
	file_size_before = signal(SIGXFSZ, SIG_IGN);
}

void signals_restore_writes(void)
{
	signal(SIGPIPE, pipe_before);
	signal(SIGXFSZ, file_size_before);
}

static void note(int signo)
{
	int saved = errno;

	if (signo != SIGALRM)
		caught = signo;
	alarm(1);
	errno = saved;
}

int signals_catch(void)
{
	struct sigaction action = { .sa_handler = note };	/* no SA_RESTART: a write must end */

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < COUNT; i++)
		sigaddset(&action.sa_mask, signals[i]);
	if (sigprocmask(SIG_SETMASK, NULL, &mask_before) || sigaction(SIGALRM, &action, &before_alarm))
		return -errno;
	for (size_t i = 0; i < COUNT; i++) {
		if (sigaction(signals[i], NULL, &before[i]))
			return -errno;
		/* What the parent has us ignore (nohup) stays ignored. */
		if (before[i].sa_handler != SIG_IGN && sigaction(signals[i], &action, NULL))
			return -errno;
	}
	return 0;
}

/* Signals that wait since signals_hold() count: they came before the last look. */
bool signals_caught(void)
{
	sigset_t waiting;

	if (caught)
		return true;
	if (sigpending(&waiting))
		return false;
	for (size_t i = 0; i < COUNT; i++) {
		if (sigismember(&waiting, signals[i]) && before[i].sa_handler != SIG_IGN) {
			caught = signals[i];
			return true;
		}
	}
	return false;
}

void signals_hold(void)
{
	sigset_t mask = mask_before;

	for (size_t i = 0; i < COUNT; i++)
		sigaddset(&mask, signals[i]);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	signal(SIGALRM, SIG_IGN);	/* also drops one that waits */
	alarm(0);
}

void signals_release(void)
{
	sigset_t one;

	for (size_t i = 0; i < COUNT; i++)
		sigaction(signals[i], &before[i], NULL);
	sigaction(SIGALRM, &before_alarm, NULL);
	if (caught) {
		signal(caught, SIG_DFL);
		sigemptyset(&one);
		sigaddset(&one, caught);
		raise(caught);
		sigprocmask(SIG_UNBLOCK, &one, NULL);
	}
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
}
