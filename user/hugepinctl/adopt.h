/* SPDX-License-Identifier: MIT */
/* Moving pages of one node and class from the kernel's hugetlb pool to the reserve. */
#ifndef HUGEPINCTL_ADOPT_H
#define HUGEPINCTL_ADOPT_H

#include "hugepinctl.h"

struct pools {				/* pages that each holds */
	uint64_t hugetlb, reserve;
};
enum pool_order { HUGETLB_FIRST, RESERVE_FIRST };

/* The two pools as they are; the tests have their own. */
struct pool_ops {
	int (*read)(void *arg, struct pools *out);
	int (*set_hugetlb)(void *arg, uint64_t pages);	/* may fall short without a failure */
	int (*set_reserve)(void *arg, uint64_t pages);
};
/*
 * One write to each pool, so that they hold @target. The second gets what the first gave and no more, or it would
 * grow at the cost of the rest of the node; unless the first has what it shall have: then this goes on where an
 * earlier try fell short. A pool that holds what it shall is not written, since a write looks at the whole node. 0 or
 * the first failure.
 */
int adopt_give(const struct pool_ops *ops, void *arg, struct pools target, enum pool_order order);

/* What adopting needs from the world; the tests have their own. */
struct adopt_ops {
	/*
	 * Makes both pools hold @target, in that order, as one piece that no signal to this process divides. @now:
	 * what they hold afterwards, also on failure. Returns 0 or the first failure, of which falling short is none
	 * by itself.
	 */
	int (*give)(void *arg, struct pools target, enum pool_order order, struct pools *now);
	bool (*interrupted)(void *arg);
	void *arg;
};
struct adoption {
	uint64_t count, step_pages;	/* to move, and how many at a time */
	bool partial;			/* keep what was moved when the rest cannot be */
	struct pools before, now;
	uint64_t returned;		/* pages that left the hugetlb pool and went back */
	uint64_t lost;			/* pages that others have taken */
};
/* Needs @before (and @now the same). 0: all moved; else why not, and the pages went back unless @partial. */
int adopt_move(struct adoption *adoption, const struct adopt_ops *ops, struct message *why);

static inline uint64_t adopt_moved(const struct adoption *adoption)
{
	return adoption->now.reserve > adoption->before.reserve ? adoption->now.reserve - adoption->before.reserve : 0;
}

#endif /* HUGEPINCTL_ADOPT_H */
