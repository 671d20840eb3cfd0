/* SPDX-License-Identifier: MIT */
/* What this process has locked, for tests of pinning. */
#ifndef HUGEPIN_TESTS_LOCKED_H
#define HUGEPIN_TESTS_LOCKED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

static inline uint64_t locked_kib(void)
{
	char text[32];

	if (hpi_sys_read_field("/proc/self/status", "VmLck:", text, sizeof(text)))
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

/* False under the address and thread sanitizers, whose mlock() does nothing: such a test is skipped there. */
static inline bool locking_works(void)
{
	static char page[8192] __attribute__((aligned(4096)));
	uint64_t before = locked_kib();
	bool works = !mlock(page, 4096) && locked_kib() == before + 4;

	munlock(page, 4096);
	return works;
}

#endif /* HUGEPIN_TESTS_LOCKED_H */
