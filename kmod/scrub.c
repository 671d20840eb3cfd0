// SPDX-License-Identifier: GPL-2.0
/* Background zeroing: dirty pages become clean, one worker a node. */
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/workqueue.h>

#include "hugepin.h"

bool hugepin_scrub_enabled = true;
unsigned int hugepin_scrub_throttle_mib_s;

/* A taker waits for the page in hand, or the module goes: bring it back as it is. */
static bool must_stop(const struct hugepin_reserve *reserve)
{
	return READ_ONCE(reserve->hurry) || READ_ONCE(hugepin_stopping);
}

/* 2M pages became dirty while a 1G page is in hand: it can wait, what is done of it stays done. */
static bool small_ones_first(const struct hugepin_reserve *reserve)
{
	struct hugepin_node *node = hugepin_node(reserve->node);

	return reserve->class == HUGEPIN_CLASS_1G && READ_ONCE(node->reserve[HUGEPIN_CLASS_2M].nr[HUGEPIN_DIRTY]);
}

/* Every 2 MiB: keeps to the rate, and tells whether to stop. */
static bool pace(void *arg)
{
	struct hugepin_reserve *reserve = arg;
	unsigned int mib_s = READ_ONCE(hugepin_scrub_throttle_mib_s);

	if (mib_s)
		wait_event_idle_timeout(reserve->scrub_wait, must_stop(reserve), max(2 * HZ / mib_s, 1u));
	return must_stop(reserve) || small_ones_first(reserve);
}

static bool scrub_one(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page;

	if (!READ_ONCE(hugepin_scrub_enabled) || READ_ONCE(hugepin_stopping))
		return false;
	page = hugepin_reserve_scrub_begin(reserve);
	if (page)
		hugepin_reserve_scrub_end(page, hugepin_page_zero(page, pace, reserve));
	return page;
}

/* Small pages first: they are wanted more often and are done sooner. */
static void scrub_work(struct work_struct *work)
{
	struct hugepin_node *node = container_of(work, struct hugepin_node, scrub);

	while (scrub_one(&node->reserve[HUGEPIN_CLASS_2M]) || scrub_one(&node->reserve[HUGEPIN_CLASS_1G]))
		cond_resched();
}

void hugepin_scrub_init(struct hugepin_node *node)
{
	INIT_WORK(&node->scrub, scrub_work);
}

void hugepin_scrub_kick(struct hugepin_node *node)
{
	if (READ_ONCE(hugepin_scrub_enabled) && !READ_ONCE(hugepin_stopping))
		queue_work_node(node->id, hugepin_wq, &node->scrub);
}

/* hugepin_stopping is set */
void hugepin_scrub_stop(struct hugepin_node *node)
{
	int class;

	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
		wake_up_all(&node->reserve[class].scrub_wait);
	cancel_work_sync(&node->scrub);
}
