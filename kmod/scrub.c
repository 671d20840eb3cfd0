// SPDX-License-Identifier: GPL-2.0
/* Background zeroing: dirty pages become clean, one worker a node. */
#include <linux/delay.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/workqueue.h>

#include "hugepin.h"

bool hugepin_scrub_enabled = true;
unsigned int hugepin_scrub_throttle_mib_s;

/* A taker waits for the page in hand, or the module goes: bring it back as it is. */
static bool must_stop(void *arg)
{
	struct hugepin_reserve *reserve = arg;

	return atomic_read(&reserve->hurry) || READ_ONCE(hugepin_stopping);
}

static struct hugepin_page *scrub_begin(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page = NULL;

	spin_lock(&reserve->lock);
	if (!atomic_read(&reserve->hurry))
		page = list_first_entry_or_null(&reserve->dirty, struct hugepin_page, link);
	if (page) {
		list_del_init(&page->link);
		reserve->scrubbing++;
	}
	spin_unlock(&reserve->lock);
	return page;
}

static void scrub_end(struct hugepin_page *page, int err)
{
	struct hugepin_reserve *reserve = page->reserve;

	spin_lock(&reserve->lock);
	reserve->scrubbing--;
	if (!err) {
		reserve->nr[HUGEPIN_DIRTY]--;
		reserve->nr[HUGEPIN_CLEAN]++;
		page->state = HUGEPIN_CLEAN;
		list_add(&page->link, &reserve->clean);
	} else {
		list_add(&page->link, &reserve->dirty);
	}
	spin_unlock(&reserve->lock);
	if (err == -EHWPOISON)
		hugepin_reserve_poison(page);
	wake_up_all(&reserve->scrub_wait);
}

static void throttle(u64 bytes)
{
	unsigned int mib_s = READ_ONCE(hugepin_scrub_throttle_mib_s);

	if (mib_s)
		msleep(min_t(u64, div_u64(bytes >> 10, mib_s) + 1, 10 * MSEC_PER_SEC));
}

static bool scrub_one(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page;
	int err;

	if (!READ_ONCE(hugepin_scrub_enabled) || READ_ONCE(hugepin_stopping))
		return false;
	page = scrub_begin(reserve);
	if (!page)
		return false;
	err = hugepin_page_zero(page->page, hugepin_class_order(reserve->class), must_stop, reserve);
	scrub_end(page, err);
	if (!err)
		throttle(hugepin_class_bytes(reserve->class));
	return true;
}

/* Small pages first: they are wanted more often and are done sooner. */
static void scrub_work(struct work_struct *work)
{
	struct hugepin_node *node = container_of(work, struct hugepin_node, scrub);
	int class = 0;

	while (class < HUGEPIN_CLASS_COUNT) {
		if (!scrub_one(&node->reserve[class]))
			class++;
		cond_resched();
	}
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

void hugepin_scrub_stop(struct hugepin_node *node)
{
	cancel_work_sync(&node->scrub);
}
