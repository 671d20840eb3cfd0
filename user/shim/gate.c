// SPDX-License-Identifier: MIT
/*
 * Every call into the library goes through the gate, which keeps apart what must not meet: the library's own
 * allocations and the pools they would come from, a cancellation and the pool's locks, fork() and a pool in motion.
 */
#include <errno.h>

#include "shim.h"

/* fork() must not wait for ever behind threads that come and go. */
#define GATE_OPEN	PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP

static pthread_rwlock_t gate = GATE_OPEN;
static THREAD_LOCAL unsigned int inside;

static void enter(struct visit *visit, bool hold)
{
	visit->saved_errno = errno;
	visit->nested = inside++;
	visit->holds = hold && !visit->nested;
	if (!visit->nested)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &visit->cancel_state);
	if (visit->holds)
		pthread_rwlock_rdlock(&gate);
}

void gate_enter(struct visit *visit)
{
	enter(visit, true);
}

void gate_enter_unheld(struct visit *visit)
{
	enter(visit, false);
}

void gate_leave(const struct visit *visit)
{
	int ignored;

	inside--;
	if (visit->holds)
		pthread_rwlock_unlock(&gate);
	if (!visit->nested)
		pthread_setcancelstate(visit->cancel_state, &ignored);
	errno = visit->saved_errno;
}

bool gate_inside(void)
{
	return inside;
}

bool gate_close(void)
{
	if (inside)
		return false;
	pthread_rwlock_wrlock(&gate);
	inside++;
	return true;
}

void gate_open(void)
{
	inside--;
	pthread_rwlock_unlock(&gate);
}

void gate_reset(void)
{
	inside = 0;
	gate = (pthread_rwlock_t)GATE_OPEN;
}
