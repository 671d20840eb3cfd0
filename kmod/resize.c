// SPDX-License-Identifier: GPL-2.0
/* Growing and shrinking the reserve: as far as it goes, and why not further. */
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "hugepin.h"
#include "trace.h"

/*
 * A free 1G range is often a matter of time: what is in its way is moved, but a page under I/O, on its way to be freed
 * or held by somebody for a moment cannot be. So it is looked for again, until a few rounds in a row have brought
 * nothing.
 */
#define ROUNDS		3
#define ROUND_PAUSE	(HZ / 4)

static DEFINE_MUTEX(resize_mutex);	/* see hugepin.h for the order of locks */
static bool tested;			/* the self-test has passed; under resize_mutex */

const char *hugepin_shortfall_text(unsigned int reason)
{
	static const char * const text[] = {
		[HUGEPIN_ENOUGH]	= "none",
		[HUGEPIN_AT_FLOOR]	= "no more without eating the node's last free memory",
		[HUGEPIN_NO_RANGE]	= "no further free range of that size",
		[HUGEPIN_NO_MEMORY]	= "no memory for bookkeeping",
		[HUGEPIN_INTERRUPTED]	= "interrupted",
		[HUGEPIN_IN_THE_WAY]	= "pages are in use or held by others",
		[HUGEPIN_UNTESTED]	= "the self-test did not pass",
	};

	return text[reason];
}

static bool interrupted(void)
{
	return signal_pending(current) || READ_ONCE(hugepin_stopping);
}

/* ---- growing ---- */

static struct hugepin_page *new_page(struct hugepin_reserve *reserve, int *reason)
{
	struct hugepin_page *page = kzalloc(sizeof(*page), GFP_KERNEL);
	bool zeroed;

	*reason = HUGEPIN_NO_MEMORY;
	if (!page)
		return NULL;
	page->page = hugepin_page_alloc(reserve->node, reserve->class, &reserve->cursor, &zeroed);
	if (!page->page) {
		*reason = HUGEPIN_NO_RANGE;
		kfree(page);
		return NULL;
	}
	INIT_LIST_HEAD(&page->link);
	page->reserve = reserve;
	if (hugepin_poison_watch(page)) {
		*reason = HUGEPIN_NO_MEMORY;
		hugepin_page_free(page);
		kfree(page);
		return NULL;
	}
	page->state = zeroed ? HUGEPIN_CLEAN : HUGEPIN_DIRTY;
	page->zero_steps = zeroed ? hugepin_page_steps(page) : 0;
	return page;
}

static void free_page_of_ours(struct hugepin_page *page)
{
	hugepin_poison_unwatch(page);
	hugepin_page_free(page);
	kfree(page);
}

static bool stop_zeroing(void *arg)
{
	return interrupted();
}

/* One page back to the system, dirty ones first; false if none is free. */
static bool give_back_one(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page;
	bool waited;

	lockdep_assert_held(&hugepin_take_mutex);
	page = hugepin_reserve_take(reserve, false, &waited);
	if (!page)
		return false;
	hugepin_reserve_remove(page);
	free_page_of_ours(page);
	return true;
}

/*
 * The first 1G page is tried out before anybody can take it. The process that grows the reserve could see its bytes, so
 * they are zeroed. Without a pass the page goes back; if the test could not be run, the next growing tries again.
 */
static int add_first(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;
	int ret = hugepin_page_zero(page, stop_zeroing, NULL);

	if (ret) {
		free_page_of_ours(page);
		return ret;
	}
	page->state = HUGEPIN_IN_USE;
	mutex_lock(&hugepin_take_mutex);
	hugepin_reserve_add(page);
	ret = hugepin_selftest(page);
	tested = !ret;
	/* somebody may hold it for a moment, and it would come back as a page like any other */
	if (ret && !give_back_one(reserve))
		WRITE_ONCE(hugepin_absent[HUGEPIN_CLASS_1G], HUGEPIN_ABSENT_SELFTEST);
	mutex_unlock(&hugepin_take_mutex);
	return ret;
}

/* @growers: how many do so at once; each of them may be about to take a page. */
static int grow_by_one(struct hugepin_reserve *reserve, unsigned int growers)
{
	struct hugepin_page *page;
	int reason, ret;

	if (interrupted())
		return HUGEPIN_INTERRUPTED;
	if (!hugepin_node_has_room(reserve->node, reserve->class, growers))
		return HUGEPIN_AT_FLOOR;
	page = new_page(reserve, &reason);
	if (!page)
		return reason;
	if (reserve->class == HUGEPIN_CLASS_1G && !tested) {
		ret = add_first(page);
		return !ret ? HUGEPIN_ENOUGH : ret == -EINTR ? HUGEPIN_INTERRUPTED : HUGEPIN_UNTESTED;
	}
	hugepin_reserve_add(page);
	return HUGEPIN_ENOUGH;
}

/* Before another round; false: a signal came. */
static bool pause(struct hugepin_reserve *reserve)
{
	schedule_timeout_interruptible(ROUND_PAUSE);
	reserve->cursor = 0;
	return !interrupted();
}

/* ---- growing by 2M pages: by more than one CPU where scrub/workers allows ---- */

struct growing {
	struct hugepin_reserve *reserve;
	unsigned int growers;
	atomic64_t left;		/* pages that nobody has begun to get */
	int reason;			/* why it is over before that, or HUGEPIN_ENOUGH */
};

struct helper {
	struct work_struct work;
	struct growing *growing;
};

static void get_pages_while_left(struct growing *growing)
{
	while (!READ_ONCE(growing->reason) && atomic64_dec_return(&growing->left) >= 0) {
		int reason = grow_by_one(growing->reserve, growing->growers);

		if (reason)
			cmpxchg(&growing->reason, HUGEPIN_ENOUGH, reason);
		cond_resched();
	}
}

static void help_growing(struct work_struct *work)
{
	get_pages_while_left(container_of(work, struct helper, work)->growing);
}

/* Where the kernel zeroes what it gives out, one CPU alone takes its time for a large node. */
static int grow_by(struct hugepin_reserve *reserve, u64 pages)
{
	unsigned int count = min_t(u64, READ_ONCE(hugepin_scrub_workers) - 1, pages), i;
	struct helper *helpers = count ? kcalloc(count, sizeof(*helpers), GFP_KERNEL) : NULL;
	struct growing growing = {
		.reserve = reserve, .growers = helpers ? count + 1 : 1, .left = ATOMIC64_INIT(pages),
	};

	for (i = 0; helpers && i < count; i++) {
		helpers[i].growing = &growing;
		INIT_WORK(&helpers[i].work, help_growing);
		queue_work_node(reserve->node, hugepin_wq, &helpers[i].work);
	}
	get_pages_while_left(&growing);	/* a signal comes to us: then the helpers end too */
	for (i = 0; helpers && i < count; i++)
		cancel_work_sync(&helpers[i].work);	/* it may have to wait for a throttled scrubber to begin */
	kfree(helpers);
	return growing.reason;
}

static int grow_2m(struct hugepin_reserve *reserve, u64 pages)
{
	int reason = HUGEPIN_ENOUGH;
	u64 have;

	while (!reason && (have = hugepin_reserve_usable(reserve)) < pages)
		reason = grow_by(reserve, pages - have);
	return reason;
}

/* ---- growing by 1G pages ---- */

static int grow_1g(struct hugepin_reserve *reserve, u64 pages)
{
	unsigned int round = 1;
	int reason = HUGEPIN_ENOUGH;

	reserve->cursor = 0;
	while (hugepin_reserve_usable(reserve) < pages) {
		reason = grow_by_one(reserve, 1);
		if (reason == HUGEPIN_ENOUGH)
			round = 1;
		else if (reason != HUGEPIN_NO_RANGE || round++ >= ROUNDS || !pause(reserve))
			break;
		cond_resched();
	}
	return reason == HUGEPIN_NO_RANGE && interrupted() ? HUGEPIN_INTERRUPTED : reason;
}

/* ---- shrinking ---- */

static bool shrink_by_one(struct hugepin_reserve *reserve)
{
	bool done;

	mutex_lock(&hugepin_take_mutex);
	done = give_back_one(reserve);
	mutex_unlock(&hugepin_take_mutex);
	return done;
}

static int shrink(struct hugepin_reserve *reserve, u64 pages)
{
	bool looked = false;

	while (hugepin_reserve_usable(reserve) > pages) {
		if (interrupted())
			return HUGEPIN_INTERRUPTED;
		if (!shrink_by_one(reserve)) {
			if (looked)
				return HUGEPIN_IN_THE_WAY;
			hugepin_quarantine_check();
			looked = true;
		}
		cond_resched();
	}
	return HUGEPIN_ENOUGH;
}

/* ---- both ---- */

static int resize(struct hugepin_reserve *reserve, u64 pages)
{
	u64 usable = hugepin_reserve_usable(reserve);
	int reason = usable >= pages ? shrink(reserve, pages) :
		     reserve->class == HUGEPIN_CLASS_1G ? grow_1g(reserve, pages) : grow_2m(reserve, pages);

	WRITE_ONCE(reserve->shortfall, reason);
	if (hugepin_absent[reserve->class]) {	/* the self-test has objected, and the page is gone */
		hugepin_sysfs_withdraw();
		return -EOPNOTSUPP;
	}
	if (reason == HUGEPIN_ENOUGH)
		return 0;
	pr_warn("node %d: asked %llu %s pages, have %llu: %s\n", reserve->node, pages,
		hugepin_class_name(reserve->class), hugepin_reserve_usable(reserve), hugepin_shortfall_text(reason));
	return reason == HUGEPIN_INTERRUPTED ? -EINTR : reason == HUGEPIN_IN_THE_WAY ? -EBUSY : -ENOMEM;
}

int hugepin_reserve_resize(struct hugepin_reserve *reserve, u64 pages)
{
	int ret;

	if (pages > hugepin_node_max_pages(reserve->node, reserve->class))
		return -ERANGE;
	/* -EINTR, not -ERESTARTSYS: a restart would begin the wait anew behind others */
	if (mutex_lock_interruptible(&resize_mutex))
		return -EINTR;
	if (hugepin_absent[reserve->class]) {
		ret = -EOPNOTSUPP;
	} else {
		WRITE_ONCE(reserve->asked, pages);
		ret = resize(reserve, pages);
		trace_hugepin_resize(reserve->node, reserve->class, pages, hugepin_reserve_total(reserve), ret);
	}
	mutex_unlock(&resize_mutex);
	return ret;
}
