// SPDX-License-Identifier: GPL-2.0
/*
 * Which places of the module have been reached: for a build with HUGEPIN_COVER=1, in which the compiler calls
 * __sanitizer_cov_trace_pc() at the beginning of each basic block. Works on kernels without kcov, which have no such
 * function, and counts for all processes and workers together. tests/fuzz/kernel/cover tells lines from it.
 */
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#define PLACES	16384		/* a power of two, well above what the module has */

static unsigned long places[PLACES];
static unsigned int next;	/* place to tell */

void __sanitizer_cov_trace_pc(void);

/* Called from anywhere, interrupts and sections without preemption too. */
void notrace __sanitizer_cov_trace_pc(void)
{
	const unsigned long place = _RET_IP_;
	unsigned int at = (place * 0x9e3779b97f4a7c15ULL) >> 50, tries;

	for (tries = 0; tries < PLACES; tries++, at = (at + 1) % PLACES) {
		unsigned long seen = READ_ONCE(places[at]);

		if (!seen)
			seen = cmpxchg(&places[at], 0, place) ?: place;
		if (seen == place)
			return;
	}
}

/* As many as fit, each time it is read; nothing after the last one, and then from the first again. */
static int cover_get(char *buffer, const struct kernel_param *parameter)
{
	int length = 0;

	while (next < PLACES && length < PAGE_SIZE - 32) {
		unsigned long place = READ_ONCE(places[next++]);

		if (place)
			length += sprintf(buffer + length, "%lx\n", place);
	}
	if (!length)
		next = 0;
	return length;
}

static const struct kernel_param_ops cover_ops = { .get = cover_get };
module_param_cb(cover, &cover_ops, NULL, 0400);
