// SPDX-License-Identifier: GPL-2.0
/* The reserve: which state each page is in; growing, shrinking, taking, giving back, quarantine. */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "hugepin.h"
#include "trace.h"

#define QUARANTINE_INTERVAL	(HZ / 10)
#define QUARANTINE_BATCH	256

nodemask_t hugepin_nodes_online;
DEFINE_MUTEX(hugepin_take_mutex);	/* see hugepin.h for the order of locks */

static DEFINE_MUTEX(resize_mutex);
static struct hugepin_node *nodes[MAX_NUMNODES];

static void quarantine_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(quarantine_dwork, quarantine_work);

struct hugepin_node *hugepin_node(int id)
{
	return id >= 0 && id < MAX_NUMNODES ? nodes[id] : NULL;
}

static struct list_head *list_of(struct hugepin_reserve *reserve, enum hugepin_page_state state)
{
	switch (state) {
	case HUGEPIN_CLEAN:
		return &reserve->clean;
	case HUGEPIN_DIRTY:
		return &reserve->dirty;
	case HUGEPIN_QUARANTINED:
		return &reserve->quarantine;
	case HUGEPIN_POISONED:
		return &reserve->poisoned;
	default:
		return NULL;		/* pages in use are on no list of ours */
	}
}

static void set_state(struct hugepin_page *page, enum hugepin_page_state state)
{
	struct hugepin_reserve *reserve = page->reserve;
	struct list_head *list = list_of(reserve, state);

	lockdep_assert_held(&reserve->lock);
	reserve->nr[page->state]--;
	reserve->nr[state]++;
	page->state = state;
	if (list)
		list_move(&page->link, list);
	else
		list_del_init(&page->link);
}

static u64 total_locked(const struct hugepin_reserve *reserve)
{
	u64 sum = 0;
	int i;

	lockdep_assert_held(&reserve->lock);
	for (i = 0; i < HUGEPIN_STATES; i++)
		sum += reserve->nr[i];
	return sum;
}

u64 hugepin_reserve_total(struct hugepin_reserve *reserve)
{
	u64 total;

	spin_lock(&reserve->lock);
	total = total_locked(reserve);
	spin_unlock(&reserve->lock);
	return total;
}

u64 hugepin_reserve_free(struct hugepin_reserve *reserve)
{
	u64 free;

	spin_lock(&reserve->lock);
	free = reserve->nr[HUGEPIN_CLEAN] + reserve->nr[HUGEPIN_DIRTY];
	spin_unlock(&reserve->lock);
	return free;
}

void hugepin_reserve_snapshot(struct hugepin_reserve *reserve, struct hugepin_info_pages *out)
{
	memset(out, 0, sizeof(*out));
	out->node = reserve->node;
	out->class = reserve->class;
	spin_lock(&reserve->lock);
	out->asked = reserve->asked;
	out->total = total_locked(reserve);
	out->clean = reserve->nr[HUGEPIN_CLEAN];
	out->dirty = reserve->nr[HUGEPIN_DIRTY];
	out->in_use = reserve->nr[HUGEPIN_IN_USE];
	out->quarantined = reserve->nr[HUGEPIN_QUARANTINED];
	out->poisoned = reserve->nr[HUGEPIN_POISONED];
	spin_unlock(&reserve->lock);
}

/* ---- taking and giving back ---- */

/*
 * Only takers and shrinkers remove free pages, all under take_mutex; the scrubber keeps a page for a moment. So when
 * the counters say that there is one, either a list has it or the scrubber will bring it.
 */
struct hugepin_page *hugepin_reserve_take(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page;
	bool waited = false;

	lockdep_assert_held(&hugepin_take_mutex);
	spin_lock(&reserve->lock);
	while (list_empty(&reserve->clean) && list_empty(&reserve->dirty)) {
		if (WARN_ON_ONCE(!reserve->scrubbing)) {
			spin_unlock(&reserve->lock);
			return NULL;
		}
		spin_unlock(&reserve->lock);
		atomic_inc(&reserve->hurry);
		wait_event(reserve->scrub_wait,
			   !list_empty_careful(&reserve->clean) || !list_empty_careful(&reserve->dirty));
		atomic_dec(&reserve->hurry);
		waited = true;
		spin_lock(&reserve->lock);
	}
	page = list_first_entry_or_null(&reserve->clean, struct hugepin_page, link);
	if (!page)
		page = list_first_entry(&reserve->dirty, struct hugepin_page, link);
	page->zeroed = page->state == HUGEPIN_CLEAN;
	set_state(page, HUGEPIN_IN_USE);
	spin_unlock(&reserve->lock);
	if (waited)		/* the scrubber stopped for us */
		hugepin_scrub_kick(hugepin_node(reserve->node));
	return page;
}

void hugepin_reserve_put(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;

	hugepin_account_uncharge(page);
	spin_lock(&reserve->lock);
	set_state(page, page->zeroed ? HUGEPIN_CLEAN : HUGEPIN_DIRTY);
	spin_unlock(&reserve->lock);
	hugepin_scrub_kick(hugepin_node(reserve->node));
}

void hugepin_reserve_poison(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;

	hugepin_account_uncharge(page);
	spin_lock(&reserve->lock);
	set_state(page, HUGEPIN_POISONED);
	spin_unlock(&reserve->lock);
	pr_err("node %d: a %s page is faulty and is not used again\n", reserve->node,
	       hugepin_class_name(reserve->class));
}

void hugepin_reserve_release(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;
	bool idle;

	page->zeroed = false;
	hugepin_page_detach(page->page);
	idle = hugepin_page_idle(page->page);
	if (idle)
		hugepin_account_uncharge(page);
	spin_lock(&reserve->lock);
	set_state(page, idle ? HUGEPIN_DIRTY : HUGEPIN_QUARANTINED);
	spin_unlock(&reserve->lock);
	if (idle) {
		hugepin_scrub_kick(hugepin_node(reserve->node));
	} else {
		trace_hugepin_quarantine(reserve->node, reserve->class, page_ref_count(page->page));
		mod_delayed_work(hugepin_wq, &quarantine_dwork, QUARANTINE_INTERVAL);
	}
}

/* ---- quarantine ---- */

/* Looks at up to QUARANTINE_BATCH pages from the list's head; those still held go to its tail. */
static unsigned int quarantine_batch(struct hugepin_reserve *reserve, u64 count)
{
	struct hugepin_page *page, *next;
	unsigned int seen = 0;
	LIST_HEAD(idle);

	spin_lock(&reserve->lock);
	list_for_each_entry_safe(page, next, &reserve->quarantine, link) {
		if (seen == min_t(u64, count, QUARANTINE_BATCH))
			break;
		seen++;
		if (hugepin_page_idle(page->page))
			list_move(&page->link, &idle);	/* still counted as quarantined */
		else
			list_move_tail(&page->link, &reserve->quarantine);
	}
	spin_unlock(&reserve->lock);

	list_for_each_entry_safe(page, next, &idle, link) {
		hugepin_page_detach(page->page);
		hugepin_account_uncharge(page);
		spin_lock(&reserve->lock);
		set_state(page, HUGEPIN_DIRTY);
		spin_unlock(&reserve->lock);
		trace_hugepin_release(reserve->node, reserve->class);
	}
	return seen;
}

static bool quarantine_scan(struct hugepin_reserve *reserve)
{
	u64 left, before;

	spin_lock(&reserve->lock);
	before = reserve->nr[HUGEPIN_QUARANTINED];
	spin_unlock(&reserve->lock);
	left = before;
	while (left) {
		unsigned int seen = quarantine_batch(reserve, left);

		if (!seen)
			break;
		left -= seen;
		cond_resched();
	}
	spin_lock(&reserve->lock);
	left = reserve->nr[HUGEPIN_QUARANTINED];
	spin_unlock(&reserve->lock);
	if (left < before)
		hugepin_scrub_kick(hugepin_node(reserve->node));
	return left;
}

static bool quarantine_scan_all(void)
{
	static DEFINE_MUTEX(scan_mutex);	/* so that a scan sees every page once */
	struct hugepin_node *node;
	bool left = false;
	int id, class;

	mutex_lock(&scan_mutex);
	for_each_hugepin_node(node, id)
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
			left |= quarantine_scan(&node->reserve[class]);
	mutex_unlock(&scan_mutex);
	return left;
}

void hugepin_quarantine_check(void)
{
	quarantine_scan_all();
}

static void quarantine_work(struct work_struct *work)
{
	if (quarantine_scan_all() && !READ_ONCE(hugepin_stopping))
		mod_delayed_work(hugepin_wq, &quarantine_dwork, QUARANTINE_INTERVAL);
}

/* ---- growing and shrinking ---- */

static int grow_by_one(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page;
	bool zeroed;

	page = kzalloc(sizeof(*page), GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	page->page = hugepin_page_alloc(reserve->node, reserve->class, &reserve->cursor, &zeroed);
	if (!page->page) {
		kfree(page);
		return -ENOMEM;
	}
	INIT_LIST_HEAD(&page->link);
	page->reserve = reserve;
	page->state = zeroed ? HUGEPIN_CLEAN : HUGEPIN_DIRTY;

	spin_lock(&reserve->lock);
	list_add(&page->link, list_of(reserve, page->state));
	reserve->nr[page->state]++;
	spin_unlock(&reserve->lock);
	if (!zeroed)
		hugepin_scrub_kick(hugepin_node(reserve->node));
	return 0;
}

static int grow(struct hugepin_reserve *reserve, u64 pages)
{
	u64 have;

	reserve->cursor = 0;
	while ((have = hugepin_reserve_total(reserve)) < pages) {
		if (signal_pending(current) || READ_ONCE(hugepin_stopping))
			return -EINTR;
		if (!hugepin_node_has_room(reserve->node, reserve->class)) {
			pr_warn("node %d: %llu of %llu %s pages: no more without eating the node's last free memory\n",
				reserve->node, have, pages, hugepin_class_name(reserve->class));
			return -ENOMEM;
		}
		if (grow_by_one(reserve)) {
			pr_warn("node %d: %llu of %llu %s pages: no further free range of %llu KiB\n", reserve->node,
				have, pages, hugepin_class_name(reserve->class),
				hugepin_class_bytes(reserve->class) >> 10);
			return -ENOMEM;
		}
		cond_resched();
	}
	return 0;
}

/* One page back to the system, dirty ones first; false if none is free. */
static bool shrink_by_one(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page = NULL;

	mutex_lock(&hugepin_take_mutex);
	if (hugepin_reserve_free(reserve))
		page = hugepin_reserve_take(reserve);
	if (page) {
		spin_lock(&reserve->lock);
		reserve->nr[HUGEPIN_IN_USE]--;
		spin_unlock(&reserve->lock);
	}
	mutex_unlock(&hugepin_take_mutex);
	if (!page)
		return false;
	hugepin_page_free(page->page);
	kfree(page);
	return true;
}

static int shrink(struct hugepin_reserve *reserve, u64 pages)
{
	while (hugepin_reserve_total(reserve) > pages) {
		if (signal_pending(current) || READ_ONCE(hugepin_stopping))
			return -EINTR;
		if (!shrink_by_one(reserve))
			return -EBUSY;
		cond_resched();
	}
	return 0;
}

int hugepin_reserve_resize(struct hugepin_reserve *reserve, u64 pages)
{
	int ret;

	if (hugepin_absent[reserve->class])
		return -EOPNOTSUPP;
	if (pages > hugepin_node_max_pages(reserve->node, reserve->class))
		return -ERANGE;
	/* -EINTR, not -ERESTARTSYS: a restart would begin the wait anew behind others */
	if (mutex_lock_interruptible(&resize_mutex))
		return -EINTR;
	spin_lock(&reserve->lock);
	reserve->asked = pages;
	spin_unlock(&reserve->lock);
	if (hugepin_reserve_total(reserve) < pages)
		ret = grow(reserve, pages);
	else
		ret = shrink(reserve, pages);
	trace_hugepin_resize(reserve->node, reserve->class, pages, hugepin_reserve_total(reserve), ret);
	mutex_unlock(&resize_mutex);
	return ret;
}

/* ---- birth and end ---- */

static void reserve_init(struct hugepin_reserve *reserve, int node, unsigned int class)
{
	spin_lock_init(&reserve->lock);
	INIT_LIST_HEAD(&reserve->clean);
	INIT_LIST_HEAD(&reserve->dirty);
	INIT_LIST_HEAD(&reserve->quarantine);
	INIT_LIST_HEAD(&reserve->poisoned);
	init_waitqueue_head(&reserve->scrub_wait);
	reserve->user_limit_percent = 100;
	reserve->node = node;
	reserve->class = class;
}

int hugepin_reserve_init(void)
{
	int id, class;

	for_each_node_state(id, N_MEMORY) {
		struct hugepin_node *node = kzalloc_node(sizeof(*node), GFP_KERNEL, id);

		if (!node) {
			hugepin_reserve_exit();
			return -ENOMEM;
		}
		node->id = id;
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
			reserve_init(&node->reserve[class], id, class);
		hugepin_scrub_init(node);
		nodes[id] = node;
		node_set(id, hugepin_nodes_online);
	}
	return 0;
}

static void free_list(struct list_head *list)
{
	struct hugepin_page *page, *next;

	list_for_each_entry_safe(page, next, list, link) {
		if (page->state == HUGEPIN_QUARANTINED)		/* its last holder frees it */
			hugepin_account_uncharge(page);
		hugepin_page_free(page->page);
		kfree(page);
	}
}

/* Nobody else runs any more: no file, no mount, no knob. */
void hugepin_reserve_exit(void)
{
	struct hugepin_node *node;
	int id, class;

	WRITE_ONCE(hugepin_stopping, true);
	cancel_delayed_work_sync(&quarantine_dwork);
	hugepin_quarantine_check();
	for_each_hugepin_node(node, id)
		hugepin_scrub_stop(node);
	for_each_hugepin_node(node, id) {
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
			struct hugepin_reserve *reserve = &node->reserve[class];

			WARN_ON(reserve->nr[HUGEPIN_IN_USE]);
			if (reserve->nr[HUGEPIN_QUARANTINED])
				pr_warn("node %d: %llu %s pages are still held by others and are freed by them\n",
					id, reserve->nr[HUGEPIN_QUARANTINED], hugepin_class_name(class));
			free_list(&reserve->clean);
			free_list(&reserve->dirty);
			free_list(&reserve->quarantine);
			free_list(&reserve->poisoned);
			cond_resched();
		}
		nodes[id] = NULL;
		kfree(node);
	}
	nodes_clear(hugepin_nodes_online);
}
