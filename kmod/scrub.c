// SPDX-License-Identifier: GPL-2.0
/*
 * Background zeroing: dirty pages become clean, by one worker a node, or by as many as the administrator allows; and
 * what is known about how well that goes.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/workqueue.h>

#include "hugepin.h"
#include "trace.h"

bool hugepin_scrub_enabled = true;
unsigned int hugepin_scrub_throttle_mib_s;
unsigned int hugepin_scrub_workers = 1;
struct hugepin_figures hugepin_figures;

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
	u64 mib_s = READ_ONCE(hugepin_scrub_throttle_mib_s);

	if (mib_s)	/* the workers of a node share the rate */
		wait_event_idle_timeout(reserve->scrub_wait, must_stop(reserve),
					max(2ULL * HZ * READ_ONCE(hugepin_scrub_workers) / mib_s, 1ULL));
	return must_stop(reserve) || small_ones_first(reserve);
}

static int scrub_page(struct hugepin_page *page)
{
	unsigned int before = page->zero_steps;
	ktime_t start = ktime_get();
	int ret = hugepin_page_zero(page, pace, page->reserve);

	atomic64_add(ktime_to_ns(ktime_sub(ktime_get(), start)), &hugepin_figures.scrub_ns);
	atomic64_add((u64)(page->zero_steps - before) << PMD_SHIFT, &hugepin_figures.scrub_bytes);
	trace_hugepin_scrub(page->reserve->node, page->reserve->class, page->zero_steps - before, ret);
	return ret;
}

static bool scrub_one(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page;

	if (!READ_ONCE(hugepin_scrub_enabled) || READ_ONCE(hugepin_stopping))
		return false;
	page = hugepin_reserve_scrub_begin(reserve);
	if (page)
		hugepin_reserve_scrub_end(page, scrub_page(page));
	return page;
}

/* Small pages first: they are wanted more often and are done sooner. */
static void scrub_work(struct work_struct *work)
{
	struct hugepin_scrubber *scrubber = container_of(work, struct hugepin_scrubber, work);
	struct hugepin_node *node = scrubber->node;

	while (scrubber - node->scrub < READ_ONCE(hugepin_scrub_workers) &&
	       (scrub_one(&node->reserve[HUGEPIN_CLASS_2M]) || scrub_one(&node->reserve[HUGEPIN_CLASS_1G])))
		cond_resched();
}

void hugepin_scrub_init(struct hugepin_node *node)
{
	int i;

	for (i = 0; i < HUGEPIN_SCRUBBERS; i++) {
		node->scrub[i].node = node;
		INIT_WORK(&node->scrub[i].work, scrub_work);
	}
}

void hugepin_scrub_kick(struct hugepin_node *node)
{
	unsigned int i;

	if (!READ_ONCE(hugepin_scrub_enabled) || READ_ONCE(hugepin_stopping))
		return;
	for (i = 0; i < READ_ONCE(hugepin_scrub_workers); i++)
		queue_work_node(node->id, hugepin_wq, &node->scrub[i].work);
}

/* hugepin_stopping is set */
void hugepin_scrub_stop(struct hugepin_node *node)
{
	int class, i;

	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
		wake_up_all(&node->reserve[class].scrub_wait);
	for (i = 0; i < HUGEPIN_SCRUBBERS; i++)
		cancel_work_sync(&node->scrub[i].work);
}
