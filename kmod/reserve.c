// SPDX-License-Identifier: GPL-2.0
/* The reserve: which state each page is in; taking, giving back, quarantine. */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/slab.h>

#include "hugepin.h"
#include "trace.h"

/* How often the quarantine is looked through: at first, and after longer and longer without a page coming back. */
#define QUARANTINE_SHORT	(HZ / 10)
#define QUARANTINE_LONG		(2 * HZ)
#define QUARANTINE_BATCH	256

nodemask_t hugepin_nodes_online;
DEFINE_MUTEX(hugepin_take_mutex);	/* see hugepin.h for the order of locks */

static struct hugepin_node *nodes[MAX_NUMNODES];

static unsigned long quarantine_interval = QUARANTINE_SHORT;
static void quarantine_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(quarantine_dwork, quarantine_work);

struct hugepin_node *hugepin_node(int id)
{
	if (id < 0 || id >= MAX_NUMNODES)
		return NULL;
	return nodes[array_index_nospec(id, MAX_NUMNODES)];	/* ids come from user space */
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
	struct list_head *list;

	lockdep_assert_held(&reserve->lock);
	if (page->faulty && (state == HUGEPIN_CLEAN || state == HUGEPIN_DIRTY))
		state = HUGEPIN_POISONED;
	list = list_of(reserve, state);
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
 * The only free pages are in the hands of the scrubber: have it bring them back as they are. It may also find one
 * faulty, so that there is none in the end.
 */
static void wait_for_scrubber(struct hugepin_reserve *reserve)
	__must_hold(&reserve->lock)
{
	lockdep_assert_held(&reserve->lock);
	reserve->hurry++;
	while (list_empty(&reserve->clean) && list_empty(&reserve->dirty) && reserve->scrubbing) {
		spin_unlock(&reserve->lock);
		wake_up_all(&reserve->scrub_wait);
		wait_event(reserve->scrub_wait, !READ_ONCE(reserve->scrubbing) ||
			   !list_empty_careful(&reserve->clean) || !list_empty_careful(&reserve->dirty));
		spin_lock(&reserve->lock);
	}
	reserve->hurry--;
}

struct hugepin_page *hugepin_reserve_take(struct hugepin_reserve *reserve, bool clean_first, bool *waited)
{
	struct hugepin_page *page;
	bool stopped = false;

	lockdep_assert_held(&hugepin_take_mutex);
	spin_lock(&reserve->lock);
	if (list_empty(&reserve->clean) && list_empty(&reserve->dirty) && reserve->scrubbing) {
		wait_for_scrubber(reserve);
		stopped = true;
	}
	page = list_first_entry_or_null(clean_first ? &reserve->clean : &reserve->dirty, struct hugepin_page, link);
	if (!page)
		page = list_first_entry_or_null(clean_first ? &reserve->dirty : &reserve->clean, struct hugepin_page,
						link);
	if (page)
		set_state(page, HUGEPIN_IN_USE);
	spin_unlock(&reserve->lock);
	if (stopped) {		/* for us */
		hugepin_scrub_kick(hugepin_node(reserve->node));
		*waited = true;
	}
	return page;
}

void hugepin_reserve_put(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;

	hugepin_account_uncharge(page);
	spin_lock(&reserve->lock);
	set_state(page, hugepin_page_is_zero(page) ? HUGEPIN_CLEAN : HUGEPIN_DIRTY);
	spin_unlock(&reserve->lock);
	hugepin_scrub_kick(hugepin_node(reserve->node));
}

static void say_poisoned(const struct hugepin_reserve *reserve)
{
	pr_err("node %d: a %s page is faulty and is not used again\n", reserve->node,
	       hugepin_class_name(reserve->class));
}

bool hugepin_reserve_mark_faulty(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;
	bool news;

	spin_lock(&reserve->lock);
	news = !page->faulty;
	page->faulty = true;
	/* one in the hands of the scrubber, on no list, comes back to set_state() */
	if (news && !list_empty(&page->link) && (page->state == HUGEPIN_CLEAN || page->state == HUGEPIN_DIRTY))
		set_state(page, HUGEPIN_POISONED);
	spin_unlock(&reserve->lock);
	if (news)
		say_poisoned(reserve);
	return news;
}

struct hugepin_page *hugepin_reserve_scrub_begin(struct hugepin_reserve *reserve)
{
	struct hugepin_page *page = NULL;

	spin_lock(&reserve->lock);
	if (!reserve->hurry)
		page = list_first_entry_or_null(&reserve->dirty, struct hugepin_page, link);
	if (page) {
		list_del_init(&page->link);
		reserve->scrubbing++;
	}
	spin_unlock(&reserve->lock);
	return page;
}

void hugepin_reserve_scrub_end(struct hugepin_page *page, int err)
{
	struct hugepin_reserve *reserve = page->reserve;

	if (err == -EHWPOISON)
		hugepin_reserve_mark_faulty(page);
	spin_lock(&reserve->lock);
	reserve->scrubbing--;
	set_state(page, err ? HUGEPIN_DIRTY : HUGEPIN_CLEAN);
	spin_unlock(&reserve->lock);
	wake_up_all(&reserve->scrub_wait);
}

void hugepin_reserve_release(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;
	int refs;
	bool idle;

	page->zero_steps = 0;
	hugepin_page_detach(page->page);
	refs = page_ref_count(page->page);	/* once in quarantine it may be gone at any time */
	idle = refs == 1;
	if (idle)
		hugepin_account_uncharge(page);
	else
		hugepin_account_quarantine(page);
	spin_lock(&reserve->lock);
	set_state(page, idle ? HUGEPIN_DIRTY : HUGEPIN_QUARANTINED);
	spin_unlock(&reserve->lock);
	if (idle) {
		hugepin_scrub_kick(hugepin_node(reserve->node));
	} else {
		trace_hugepin_quarantine(reserve->node, reserve->class, refs);
		WRITE_ONCE(quarantine_interval, QUARANTINE_SHORT);
		queue_delayed_work(hugepin_wq, &quarantine_dwork, QUARANTINE_SHORT);
	}
}

/* ---- quarantine ---- */

/* Looks at up to QUARANTINE_BATCH pages from the list's head; those still held go to its tail. *@back: one came. */
static unsigned int quarantine_batch(struct hugepin_reserve *reserve, u64 count, bool *back)
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
		*back = true;
	}
	return seen;
}

/* True if a page came back; as many are looked at as were there when it began. */
static bool quarantine_scan(struct hugepin_reserve *reserve)
{
	u64 left = READ_ONCE(reserve->nr[HUGEPIN_QUARANTINED]);
	bool back = false;
	unsigned int seen;

	while (left) {
		seen = quarantine_batch(reserve, left, &back);
		if (!seen)
			break;
		left -= seen;
		cond_resched();
	}
	if (back)
		hugepin_scrub_kick(hugepin_node(reserve->node));
	return back;
}

static DEFINE_MUTEX(scan_mutex);	/* so that a scan sees every page once */
static unsigned long scanned_at;	/* jiffies, under scan_mutex */

static bool quarantine_scan_all(void)
{
	struct hugepin_node *node;
	bool back = false;
	int id, class;

	lockdep_assert_held(&scan_mutex);
	for_each_hugepin_node(node, id)
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
			back |= quarantine_scan(&node->reserve[class]);
	scanned_at = jiffies;
	return back;
}

static bool quarantine_empty(void)
{
	struct hugepin_node *node;
	int id, class;

	for_each_hugepin_node(node, id)
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
			if (READ_ONCE(node->reserve[class].nr[HUGEPIN_QUARANTINED]))
				return false;
	return true;
}

/* Anybody can make us look, so not more often than the work does by itself at its quickest. */
void hugepin_quarantine_check(void)
{
	if (quarantine_empty() || mutex_lock_killable(&scan_mutex))
		return;
	if (time_after(jiffies, scanned_at + QUARANTINE_SHORT / 4))
		quarantine_scan_all();
	mutex_unlock(&scan_mutex);
}

static void quarantine_work(struct work_struct *work)
{
	unsigned long interval = READ_ONCE(quarantine_interval);
	bool back;

	mutex_lock(&scan_mutex);
	back = quarantine_scan_all();
	mutex_unlock(&scan_mutex);
	interval = back ? QUARANTINE_SHORT : min_t(unsigned long, interval * 2, QUARANTINE_LONG);
	WRITE_ONCE(quarantine_interval, interval);
	if (!quarantine_empty() && !READ_ONCE(hugepin_stopping))
		queue_delayed_work(hugepin_wq, &quarantine_dwork, interval);
}

/* ---- new pages, and pages that go ---- */

void hugepin_reserve_add(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;

	spin_lock(&reserve->lock);
	reserve->nr[page->state]++;
	set_state(page, page->state);	/* or poisoned, if that has been heard already */
	spin_unlock(&reserve->lock);
	if (page->state == HUGEPIN_DIRTY)
		hugepin_scrub_kick(hugepin_node(reserve->node));
}

void hugepin_reserve_remove(struct hugepin_page *page)
{
	struct hugepin_reserve *reserve = page->reserve;

	spin_lock(&reserve->lock);
	reserve->nr[page->state]--;
	list_del_init(&page->link);
	spin_unlock(&reserve->lock);
}

u64 hugepin_reserve_usable(struct hugepin_reserve *reserve)
{
	u64 pages;

	spin_lock(&reserve->lock);
	pages = total_locked(reserve) - reserve->nr[HUGEPIN_POISONED];
	spin_unlock(&reserve->lock);
	return pages;
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
		hugepin_account_uncharge(page);		/* quarantined; its last holder frees it */
		hugepin_poison_unwatch(page);
		hugepin_page_free(page);
		kfree(page);
		cond_resched();
	}
}

/* Nobody else runs any more: no file, no mount, no knob. */
void hugepin_reserve_exit(void)
{
	struct hugepin_node *node;
	int id, class;

	WRITE_ONCE(hugepin_stopping, true);
	cancel_delayed_work_sync(&quarantine_dwork);
	mutex_lock(&scan_mutex);
	quarantine_scan_all();
	mutex_unlock(&scan_mutex);
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
		}
		nodes[id] = NULL;
		kfree(node);
	}
	nodes_clear(hugepin_nodes_online);
}
