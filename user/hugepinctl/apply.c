// SPDX-License-Identifier: MIT
/*
 * Carrying out a plan. The knob of one node and class keeps what it got when it falls short; all or nothing over
 * several of them is made here: on a failure every change that was tried is put back, last first.
 */
#include <errno.h>
#include <time.h>

#include "hugepinctl.h"

/*
 * A knob that falls short often gets further when it is tried again at once, since the first try has moved pages out of
 * the way. So while a try makes progress the next one follows, a few times.
 */
#define QUICK_TRIES	4

static uint64_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

static int set(struct change *change, uint64_t pages, const struct apply_ops *ops)
{
	uint64_t got = change->now;
	int err;

	/* A stop and a continue also end a write early; only the signals that ask to end shall. */
	do {
		err = ops->set(ops->arg, change->node, change->page_class, pages, &got);
	} while (err == -EINTR && !ops->interrupted(ops->arg));
	change->now = got;
	return err;
}

static int reach(struct change *change, const struct apply_options *options, const struct apply_ops *ops)
{
	uint64_t start = seconds();
	unsigned int quick = QUICK_TRIES;

	for (;;) {
		uint64_t before = change->now;
		int err = set(change, change->target, ops);

		change->got = change->now;
		if (err != -ENOMEM || ops->interrupted(ops->arg))
			return err;
		if (change->now > before && --quick)
			continue;
		if (seconds() - start >= options->wait_s)
			return err;
		nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);	/* a signal ends it */
		if (ops->interrupted(ops->arg))
			return -EINTR;
		quick = QUICK_TRIES;
	}
}

/* Tries harder than a way forward would: signals wait, so that only a stop and a continue end a write early. */
static void restore(struct change *change, const struct apply_ops *ops)
{
	for (unsigned int tries = QUICK_TRIES; change->now != change->before && tries; tries--) {
		int err = set(change, change->before, ops);

		if (err && err != -ENOMEM && err != -EINTR)
			break;
	}
	change->state = change->now == change->before ? CHANGE_RESTORED : CHANGE_STUCK;
}

static bool put_back(struct plan *plan, const struct apply_ops *ops)
{
	bool all = true;

	for (size_t i = plan->count; i-- > 0;) {
		struct change *change = &plan->changes[i];

		if (change->state == CHANGE_TODO)
			continue;
		restore(change, ops);
		all = all && change->state == CHANGE_RESTORED;
	}
	return all;
}

static bool is_changed(const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->changes[i].now != plan->changes[i].before)
			return true;
	return false;
}

enum apply_result plan_apply(struct plan *plan, const struct apply_options *options, const struct apply_ops *ops,
			     int *err, struct message *why)
{
	bool is_short = false;

	*err = 0;
	for (size_t i = 0; !*err && i < plan->count; i++) {
		struct change *change = &plan->changes[i];

		if (ops->interrupted(ops->arg)) {
			*err = -EINTR;
			break;
		}
		change->state = CHANGE_SHORT;
		*err = reach(change, options, ops);
		if (!*err) {
			change->state = CHANGE_DONE;
			continue;
		}
		if (*err == -EBUSY && options->free_only) {
			change->state = CHANGE_DONE;
			*err = 0;
			continue;
		}
		if (!is_short || *err != -ENOMEM)
			message_set(why, *err, "%s", ops->error(ops->arg));
		if (*err == -ENOMEM && options->partial) {
			is_short = true;
			*err = 0;
		}
	}

	ops->commit(ops->arg);
	if (!*err && ops->interrupted(ops->arg))
		*err = -EINTR;
	if (*err == -EINTR)
		message_set(why, *err, "interrupted by a signal");
	if (*err)
		return put_back(plan, ops) ? APPLY_RESTORED : APPLY_STUCK;
	if (!is_short)
		return APPLY_DONE;
	*err = -ENOMEM;
	return is_changed(plan) ? APPLY_PARTIAL : APPLY_RESTORED;
}
