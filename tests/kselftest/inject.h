/* SPDX-License-Identifier: MIT */
/*
 * Faults injected into this thread's system calls: allocations and copies between user and kernel, one by one
 * (/proc/self/fail-nth).
 */
#ifndef HUGEPIN_KSELFTEST_INJECT_H
#define HUGEPIN_KSELFTEST_INJECT_H

#include <stdbool.h>

#include "ktap.h"

/*
 * The reserve's hooks for a program that injects: while it runs, what is spared by default is not, and each fault is not
 * reported.
 */
struct ktap_hooks inject_hooks(void);

/* Whether each fault is reported in the kernel log, with where it came. */
void inject_report(bool wanted);

/* In a case, first; skips it where the kernel cannot. */
void inject_open(void);
/* The @nth fault from here on, of 1, 2, …, is to come. */
void inject_arm(unsigned int nth);
/* How many were still to pass before it: 0 if it has come. One that was to come next may hit this reading or writing. */
unsigned int inject_disarm(void);

#endif /* HUGEPIN_KSELFTEST_INJECT_H */
