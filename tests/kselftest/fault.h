/* SPDX-License-Identifier: MIT */
/* Calls that fault_test.c makes with faults injected; fault_calls.c has them. */
#ifndef HUGEPIN_KSELFTEST_FAULT_H
#define HUGEPIN_KSELFTEST_FAULT_H

#include <stddef.h>

struct fault_call {
	const char *name;
	void (*prepare)(void);
	int (*perform)(void);		/* with a fault to come: 0 or -errno */
	void (*undo)(void);		/* of a success */
	void (*look)(unsigned int nth);	/* after a failure, besides what is always looked at; or NULL */
	int may_fail_with;		/* besides ENOMEM and EFAULT */
};

extern const struct fault_call fault_calls[];
extern const size_t fault_call_count;

#endif /* HUGEPIN_KSELFTEST_FAULT_H */
