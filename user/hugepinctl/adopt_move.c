// SPDX-License-Identifier: MIT
/*
 * From the kernel's hugetlb pool to the reserve, a few pages at a time: a page is nobody's only between two writes,
 * and one that the reserve does not get goes back before the next is touched.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "adopt.h"

/*
 * A freed range is found at once or after what the kernel had in its lists has been put together; more does not help.
 */
#define TRIES	4

static uint64_t sum(const struct pools *pools)
{
	return pools->hugetlb + pools->reserve;
}

static uint64_t saturating_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

int adopt_give(const struct pool_ops *ops, void *arg, struct pools target, enum pool_order order)
{
	struct pools before, after;
	uint64_t wanted;
	int err = ops->read(arg, &before), second = 0;

	if (err)
		return err;
	if (order == HUGETLB_FIRST && before.hugetlb != target.hugetlb)
		err = ops->set_hugetlb(arg, target.hugetlb);
	if (order == RESERVE_FIRST && before.reserve != target.reserve)
		err = ops->set_reserve(arg, target.reserve);
	if (ops->read(arg, &after))
		return -EIO;
	if (order == HUGETLB_FIRST) {
		wanted = before.reserve + saturating_sub(before.hugetlb, after.hugetlb);
		if (after.hugetlb == target.hugetlb)
			wanted = target.reserve;
		if (wanted != after.reserve)
			second = ops->set_reserve(arg, wanted);
	} else {
		wanted = before.hugetlb + saturating_sub(before.reserve, after.reserve);
		if (after.reserve == target.reserve)
			wanted = target.hugetlb;
		if (wanted != after.hugetlb)
			second = ops->set_hugetlb(arg, wanted);
	}
	return err ? err : second;
}

/* Goes on while the pools are not at @target: 0, or why they are not. */
static int reach(struct adoption *adoption, struct pools target, enum pool_order order, const struct adopt_ops *ops)
{
	int err = 0;

	for (int tries = 0; tries < TRIES; tries++) {
		err = ops->give(ops->arg, target, order, &adoption->now);
		if (adoption->now.hugetlb == target.hugetlb && adoption->now.reserve == target.reserve)
			return 0;
	}
	return err ? err : -ENOMEM;
}

/* What one step freed and the reserve did not get goes back to the hugetlb pool. */
static void give_back(struct adoption *adoption, uint64_t missing, const struct adopt_ops *ops)
{
	struct pools target = adoption->now;
	uint64_t held = target.hugetlb;

	target.hugetlb += missing;
	reach(adoption, target, RESERVE_FIRST, ops);
	adoption->returned += saturating_sub(adoption->now.hugetlb, held);
}

static int step(struct adoption *adoption, uint64_t pages, const struct adopt_ops *ops, struct message *why)
{
	const struct pools start = adoption->now;
	const struct pools target = { .hugetlb = start.hugetlb - pages, .reserve = start.reserve + pages };
	int err = reach(adoption, target, HUGETLB_FIRST, ops);
	uint64_t freed = saturating_sub(start.hugetlb, adoption->now.hugetlb);
	uint64_t gained = saturating_sub(adoption->now.reserve, start.reserve);

	if (!err)
		return 0;
	if (freed < pages && err != -ENOMEM)
		message_set(why, err, "the hugetlb pool cannot be changed: %s", strerror(-err));
	else if (freed < pages)
		message_set(why, err,
			    "the hugetlb pool gave %" PRIu64 " of %" PRIu64 " pages: the others came into use", freed,
			    pages);
	else
		message_set(why, err, "the reserve got %" PRIu64 " of %" PRIu64 " pages that the hugetlb pool gave: %s",
			    gained, freed,
			    err == -ENOMEM ? "the node would fall below its floor, or others were quicker" :
					     strerror(-err));
	if (freed > gained)
		give_back(adoption, freed - gained, ops);
	return err;
}

static void put_back(struct adoption *adoption, const struct adopt_ops *ops)
{
	uint64_t held = adoption->now.hugetlb;

	reach(adoption, adoption->before, RESERVE_FIRST, ops);
	adoption->returned += saturating_sub(adoption->now.hugetlb, held);
}

int adopt_move(struct adoption *adoption, const struct adopt_ops *ops, struct message *why)
{
	int err = 0;

	while (!err && adopt_moved(adoption) < adoption->count) {
		uint64_t left = adoption->count - adopt_moved(adoption);

		if (ops->interrupted(ops->arg))
			err = message_set(why, -EINTR, "interrupted by a signal");
		else
			err = step(adoption, left < adoption->step_pages ? left : adoption->step_pages, ops, why);
	}
	if (err && (!adoption->partial || err == -EINTR))
		put_back(adoption, ops);
	adoption->lost = saturating_sub(sum(&adoption->before), sum(&adoption->now));
	return err;
}
