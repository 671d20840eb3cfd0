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

/* A taker waits for the page in hand, nobody wants it zeroed any more, or the module goes: bring it back as it is. */
static bool must_stop(const struct hugepin_reserve *reserve)
{
	return READ_ONCE(reserve->hurry) || READ_ONCE(hugepin_stopping) || !READ_ONCE(hugepin_scrub_enabled);
}

/* 2M pages became dirty while a 1G page is in hand: it can wait, what is done of it stays done. */
static bool small_ones_first(const struct hugepin_reserve *reserve)
{
	struct hugepin_node *node = hugepin_node(reserve->node);

	return reserve->class == HUGEPIN_CLASS_1G && READ_ONCE(node->reserve[HUGEPIN_CLASS_2M].nr[HUGEPIN_DIRTY]);
}

/*
 * When the next 2 MiB are due, at a share of @mib_s. Waits end with a tick, so they are late by up to one: that is made
 * up for, while what was not used before is not. Nor is a wait that was cut short owed, maybe at another rate.
 */
static u64 next_due(const struct hugepin_scrubber *scrubber, u64 now, u64 mib_s)
{
	return clamp(scrubber->due_ns, now - 2 * TICK_NSEC, now + TICK_NSEC) +
	       div64_u64(2ULL * NSEC_PER_SEC * READ_ONCE(hugepin_scrub_workers), mib_s);
}

/* Every 2 MiB: keeps to the rate, which the workers of a node share, and tells whether to stop. */
static bool pace(void *arg)
{
	struct hugepin_scrubber *scrubber = arg;
	struct hugepin_reserve *reserve = scrubber->reserve;
	u64 mib_s = READ_ONCE(hugepin_scrub_throttle_mib_s), now = ktime_get_ns();

	if (mib_s) {
		scrubber->due_ns = next_due(scrubber, now, mib_s);
		if (scrubber->due_ns >= now + TICK_NSEC)
			wait_event_idle_timeout(reserve->scrub_wait, must_stop(reserve),
						nsecs_to_jiffies(scrubber->due_ns - now));
	}
	return must_stop(reserve) || small_ones_first(reserve);
}

static int scrub_page(struct hugepin_scrubber *scrubber, struct hugepin_page *page)
{
	unsigned int before = page->zero_steps;
	ktime_t start = ktime_get();
	int ret = hugepin_page_zero(page, pace, scrubber);

	atomic64_add(ktime_to_ns(ktime_sub(ktime_get(), start)), &hugepin_figures.scrub_ns);
	atomic64_add((u64)(page->zero_steps - before) << PMD_SHIFT, &hugepin_figures.scrub_bytes);
	trace_hugepin_scrub(page->reserve->node, page->reserve->class, page->zero_steps - before, ret);
	return ret;
}

static bool scrub_one(struct hugepin_scrubber *scrubber, unsigned int class)
{
	struct hugepin_reserve *reserve = &scrubber->node->reserve[class];
	struct hugepin_page *page;

	if (!READ_ONCE(hugepin_scrub_enabled) || READ_ONCE(hugepin_stopping))
		return false;
	scrubber->reserve = reserve;
	page = hugepin_reserve_scrub_begin(reserve);
	if (page)
		hugepin_reserve_scrub_end(page, scrub_page(scrubber, page));
	return page;
}

/* Small pages first: they are wanted more often and are done sooner. */
static void scrub_work(struct work_struct *work)
{
	struct hugepin_scrubber *scrubber = container_of(work, struct hugepin_scrubber, work);
	struct hugepin_node *node = scrubber->node;

	while (scrubber - node->scrub < READ_ONCE(hugepin_scrub_workers) &&
	       (scrub_one(scrubber, HUGEPIN_CLASS_2M) || scrub_one(scrubber, HUGEPIN_CLASS_1G)))
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

/* hugepin_stopping is set, or hugepin_scrub_enabled is not */
void hugepin_scrub_wake(struct hugepin_node *node)
{
	int class;

	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
		wake_up_all(&node->reserve[class].scrub_wait);
}

/* hugepin_stopping is set */
void hugepin_scrub_stop(struct hugepin_node *node)
{
	int i;

	hugepin_scrub_wake(node);
	for (i = 0; i < HUGEPIN_SCRUBBERS; i++)
		cancel_work_sync(&node->scrub[i].work);
}
