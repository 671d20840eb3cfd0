/* SPDX-License-Identifier: MIT */
/* What those who watch the module as a whole share: its page counts, and the host's settings before and after. */
#ifndef HUGEPIN_FUZZ_KERNEL_BALANCE_H
#define HUGEPIN_FUZZ_KERNEL_BALANCE_H

#include <stdint.h>

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

#define PAGES_2M_OF_1G	512

/* ---- balance.c: what of the reserve there is, and whether it adds up ---- */
struct balance {
	uint64_t total, free, in_use, quarantined, poisoned;
	uint64_t regions, users;
};
/* NULL, or why a snapshot does not add up. */
const char *balance_read(struct balance *balance);
/* Nothing in use, nothing held, none missing of @before: NULL, or what is not so after @seconds. */
const char *balance_settles(const struct balance *before, unsigned int seconds);

/* ---- knobs.c: the host's settings ---- */
struct knob_values {
	struct knob_value {
		char path[128], text[32];
	} knob[64];
	unsigned int count;
};
/* NULL or what went wrong. */
const char *knobs_read(struct knob_values *knobs);
/* Takes off *@expected, what was there before, the 1G pages that the kernel has no free range for any more. */
const char *knobs_restore(const struct knob_values *knobs, struct balance *expected);
const char *knobs_empty(const struct knob_values *knobs, unsigned int seconds);

#endif /* HUGEPIN_FUZZ_KERNEL_BALANCE_H */
