// SPDX-License-Identifier: GPL-2.0
/* Regions: which pages a request gets, and putting them together, all or nothing. */
#include <linux/cred.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>

#include "hugepin.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static atomic64_t region_count = ATOMIC64_INIT(0);

u64 hugepin_region_count(void)
{
	return atomic64_read(&region_count);
}

u64 hugepin_region_bytes(const struct hugepin_region *region)
{
	return (region->nr_1g << PUD_SHIFT) + (region->nr_2m << PMD_SHIFT);
}

struct page *hugepin_region_page(const struct hugepin_region *region, pgoff_t index, unsigned int *class,
				 unsigned long *sub)
{
	u64 nr = index >> HUGEPIN_ORDER_1G;

	if (nr < region->nr_1g) {
		*class = HUGEPIN_CLASS_1G;
		*sub = index & ((1UL << HUGEPIN_ORDER_1G) - 1);
		return region->pages[nr]->page;
	}
	index -= region->nr_1g << HUGEPIN_ORDER_1G;
	nr = index >> HUGEPIN_ORDER_2M;
	if (nr >= region->nr_2m)
		return NULL;
	*class = HUGEPIN_CLASS_2M;
	*sub = index & ((1UL << HUGEPIN_ORDER_2M) - 1);
	return region->pages[region->nr_1g + nr]->page;
}

u32 hugepin_region_extents(const struct hugepin_region *region, struct hugepin_extent *extents, u32 room)
{
	u64 nr = region->nr_1g + region->nr_2m, i;
	u32 count = 0;
	int id, class;

	for_each_node_mask(id, hugepin_nodes_online) {
		for (class = HUGEPIN_CLASS_COUNT - 1; class >= 0; class--) {
			u64 pages = 0;

			for (i = 0; i < nr; i++)
				pages += region->pages[i]->reserve->node == id &&
					 region->pages[i]->reserve->class == class;
			if (!pages)
				continue;
			if (count < room)
				extents[count] = (struct hugepin_extent){ .node = id, .class = class, .pages = pages };
			count++;
			cond_resched();
		}
	}
	return count;
}

void hugepin_region_attach(struct hugepin_region *region, struct address_space *mapping)
{
	u64 i;

	for (i = 0; i < region->nr_1g + region->nr_2m; i++) {
		struct folio *folio = page_folio(region->pages[i]->page);

		folio->mapping = mapping;
		folio->index = i < region->nr_1g ? i << HUGEPIN_ORDER_1G :
			       (region->nr_1g << HUGEPIN_ORDER_1G) + ((i - region->nr_1g) << HUGEPIN_ORDER_2M);
	}
}

/* ---- the plan: how many pages from which node ---- */

/* Made under take_mutex: free pages only become more until it is carried out. */
struct plan {
	unsigned int nr_nodes;
	u64 nr[HUGEPIN_CLASS_COUNT];			/* pages wanted */
	struct plan_node {
		int id;
		u64 free[HUGEPIN_CLASS_COUNT];
		u64 take[HUGEPIN_CLASS_COUNT];
	} node[];
};

static void add_nearest_first(struct plan *plan, nodemask_t nodes)
{
	int here = numa_mem_id();

	while (!nodes_empty(nodes)) {
		int id, best = NUMA_NO_NODE;

		for_each_node_mask(id, nodes)
			if (best == NUMA_NO_NODE || node_distance(here, id) < node_distance(here, best))
				best = id;
		node_clear(best, nodes);
		plan->node[plan->nr_nodes++].id = best;
	}
}

static void add_in_order(struct plan *plan, nodemask_t nodes)
{
	int id;

	for_each_node_mask(id, nodes)
		plan->node[plan->nr_nodes++].id = id;
}

static struct plan *plan_make(const struct hugepin_request *request)
{
	struct plan *plan;
	nodemask_t others;
	unsigned int i;
	int class;

	plan = kvzalloc(struct_size(plan, node, num_node_state(N_MEMORY) + 1), GFP_KERNEL);
	if (!plan)
		return NULL;
	if (request->policy == HUGEPIN_POLICY_INTERLEAVE)
		add_in_order(plan, request->nodes);
	else
		add_nearest_first(plan, request->nodes);
	if (request->policy == HUGEPIN_POLICY_PREFERRED) {
		nodes_andnot(others, hugepin_nodes_online, request->nodes);
		add_nearest_first(plan, others);
	}
	for (i = 0; i < plan->nr_nodes; i++)
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
			plan->node[i].free[class] =
				hugepin_reserve_free(&hugepin_node(plan->node[i].id)->reserve[class]);
	return plan;
}

static u64 plan_free(const struct plan *plan, unsigned int class)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < plan->nr_nodes; i++)
		sum += plan->node[i].free[class];
	return sum;
}

static int too_few(struct hugepin_request *request, unsigned int class, u32 node, u64 asked, u64 available)
{
	request->shortfall = (struct hugepin_shortfall){
		.reason = HUGEPIN_SHORT_FREE,
		.class = class,
		.node = node,
		.asked = asked,
		.available = available,
	};
	return -ENOMEM;
}

static u32 only_node(const struct plan *plan)
{
	return plan->nr_nodes == 1 ? plan->node[0].id : HUGEPIN_NODE_ANY;
}

/* Fills the nodes one after the other. */
static void plan_fill(struct plan *plan, unsigned int class, u64 pages)
{
	unsigned int i;

	for (i = 0; i < plan->nr_nodes && pages; i++) {
		u64 n = min(pages, plan->node[i].free[class] - plan->node[i].take[class]);

		plan->node[i].take[class] += n;
		pages -= n;
	}
}

/* Equal shares, the first nodes one more; with fallback, what a node lacks is taken where there is some. */
static int plan_interleave(struct plan *plan, struct hugepin_request *request, unsigned int class, u64 pages)
{
	u64 share = pages / plan->nr_nodes, rest = pages % plan->nr_nodes, missing = 0;
	unsigned int i;

	for (i = 0; i < plan->nr_nodes; i++) {
		u64 want = share + (i < rest), free = plan->node[i].free[class];

		if (want > free && !(request->flags & HUGEPIN_CREATE_FALLBACK))
			return too_few(request, class, plan->node[i].id, want, free);
		plan->node[i].take[class] = min(want, free);
		missing += want - min(want, free);
	}
	plan_fill(plan, class, missing);
	return 0;
}

static int plan_class(struct plan *plan, struct hugepin_request *request, unsigned int class, u64 pages)
{
	u64 free = plan_free(plan, class);

	if (pages > free)
		return too_few(request, class, only_node(plan), pages, free);
	plan->nr[class] = pages;
	if (request->policy == HUGEPIN_POLICY_INTERLEAVE)
		return plan_interleave(plan, request, class, pages);
	plan_fill(plan, class, pages);
	return 0;
}

/* bytes are checked not to wrap by the caller */
static int plan_classes(struct plan *plan, struct hugepin_request *request)
{
	u64 bytes = request->bytes, nr_1g = 0, nr_2m = 0, free;
	int ret;

	if (request->classes == BIT(HUGEPIN_CLASS_1G))
		nr_1g = DIV_ROUND_UP_ULL(bytes, PUD_SIZE);
	else if (request->classes & BIT(HUGEPIN_CLASS_1G))
		nr_1g = bytes >> PUD_SHIFT;
	if (request->classes & BIT(HUGEPIN_CLASS_2M)) {
		free = plan_free(plan, HUGEPIN_CLASS_1G);
		if (nr_1g > free && request->flags & HUGEPIN_CREATE_FALLBACK)
			nr_1g = free;
		nr_2m = DIV_ROUND_UP_ULL(bytes - (nr_1g << PUD_SHIFT), PMD_SIZE);
	}
	ret = plan_class(plan, request, HUGEPIN_CLASS_1G, nr_1g);
	if (!ret)
		ret = plan_class(plan, request, HUGEPIN_CLASS_2M, nr_2m);
	return ret;
}

static int over_limit(struct hugepin_request *request, u32 reason, unsigned int class, u32 node, u64 asked, u64 limit,
		      u64 held)
{
	request->shortfall = (struct hugepin_shortfall){
		.reason = reason,
		.class = class,
		.node = node,
		.asked = asked,
		.limit = limit,
		.held = held,
	};
	return -EDQUOT;
}

static int plan_check_user(const struct plan *plan, struct hugepin_request *request, struct hugepin_account *user)
{
	unsigned int i, class;

	for (i = 0; i < plan->nr_nodes; i++) {
		const struct plan_node *pn = &plan->node[i];

		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
			struct hugepin_reserve *reserve = &hugepin_node(pn->id)->reserve[class];
			u64 limit = hugepin_reserve_total(reserve) * READ_ONCE(reserve->user_limit_percent) / 100;
			u64 held = hugepin_account_held(user, pn->id, class);

			if (pn->take[class] && held + pn->take[class] > limit)
				return over_limit(request, HUGEPIN_SHORT_USER, class, pn->id, pn->take[class], limit,
						  held);
		}
	}
	return 0;
}

static int plan_check_mount(const struct plan *plan, struct hugepin_request *request)
{
	unsigned int class;

	if (!request->mount)
		return 0;
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
		u64 limit = hugepin_account_limit(request->mount, class);
		u64 held = hugepin_account_held_class(request->mount, class);

		if (plan->nr[class] && (held > limit || plan->nr[class] > limit - held))
			return over_limit(request, HUGEPIN_SHORT_MOUNT, class, HUGEPIN_NODE_ANY, plan->nr[class],
					  limit, held);
	}
	return 0;
}

/* ---- carrying it out ---- */

/* The node that the next page of a class comes from: in turn, or one node until it is used up. */
static struct plan_node *take_from(struct plan *plan, unsigned int class, bool in_turn, unsigned int *at)
{
	while (!plan->node[*at % plan->nr_nodes].take[class])
		(*at)++;
	plan->node[*at % plan->nr_nodes].take[class]--;
	return &plan->node[in_turn ? (*at)++ % plan->nr_nodes : *at % plan->nr_nodes];
}

static int take_pages(struct plan *plan, const struct hugepin_request *request, struct hugepin_account *user,
		      struct hugepin_region *region)
{
	bool in_turn = request->policy == HUGEPIN_POLICY_INTERLEAVE;
	u64 n = 0, i;
	int class;

	for (class = HUGEPIN_CLASS_COUNT - 1; class >= 0; class--) {
		unsigned int at = 0;

		for (i = 0; i < plan->nr[class]; i++) {
			struct plan_node *pn = take_from(plan, class, in_turn, &at);
			struct hugepin_page *page = hugepin_reserve_take(&hugepin_node(pn->id)->reserve[class]);

			if (!page)	/* warned: the counters lied */
				return -ENOMEM;
			hugepin_account_charge(page, user, request->mount);
			region->pages[n++] = page;
			*(class == HUGEPIN_CLASS_1G ? &region->nr_1g : &region->nr_2m) += 1;
		}
		cond_resched();
	}
	return 0;
}

static bool killed(void *arg)
{
	return fatal_signal_pending(current);
}

/* Zeroes what the reserve had no clean pages for. */
static int zero_pages(struct hugepin_region *region)
{
	u64 i, dirty = 0;
	int ret;

	for (i = 0; i < region->nr_1g + region->nr_2m; i++) {
		struct hugepin_page *page = region->pages[i];

		if (page->zeroed)
			continue;
		if (fatal_signal_pending(current))
			return -EINTR;
		ret = hugepin_page_zero(page->page, hugepin_class_order(page->reserve->class), killed, NULL);
		if (ret)
			return ret;
		page->zeroed = true;
		dirty++;
	}
	trace_hugepin_region_make(region->nr_1g, region->nr_2m, dirty);
	return 0;
}

/* Nobody has seen the pages: what is zero still is. A faulty page is put aside. */
static void put_pages(struct hugepin_region *region, int err)
{
	u64 i;

	for (i = 0; i < region->nr_1g + region->nr_2m; i++) {
		struct hugepin_page *page = region->pages[i];

		if (err == -EHWPOISON && !page->zeroed) {
			hugepin_reserve_poison(page);
			err = 0;	/* zeroing stopped at the first; later ones were not looked at */
		} else {
			hugepin_reserve_put(page);
		}
	}
}

static struct hugepin_region *take_planned(struct hugepin_request *request, struct hugepin_account *user)
{
	struct hugepin_region *region = NULL;
	struct plan *plan;
	int ret;

	plan = plan_make(request);
	if (!plan)
		return ERR_PTR(-ENOMEM);
	ret = plan_classes(plan, request);
	if (!ret)
		ret = plan_check_user(plan, request, user);
	if (!ret)
		ret = plan_check_mount(plan, request);
	if (ret)
		goto out;
	ret = -ENOMEM;
	region = kvzalloc(struct_size(region, pages, plan->nr[HUGEPIN_CLASS_1G] + plan->nr[HUGEPIN_CLASS_2M]),
			  GFP_KERNEL_ACCOUNT);
	if (!region)
		goto out;
	ret = take_pages(plan, request, user, region);
	if (ret) {
		put_pages(region, ret);
		kvfree(region);
	}
out:
	kvfree(plan);
	return ret ? ERR_PTR(ret) : region;
}

/* One try; -EHWPOISON: a faulty page was put aside, try again. */
static struct hugepin_region *try_make(struct hugepin_request *request, struct hugepin_account *user)
{
	struct hugepin_region *region;
	int ret;

	if (mutex_lock_interruptible(&hugepin_take_mutex))
		return ERR_PTR(-EINTR);
	region = take_planned(request, user);
	mutex_unlock(&hugepin_take_mutex);
	if (IS_ERR(region))
		return region;
	ret = zero_pages(region);
	if (!ret)
		return region;
	put_pages(region, ret);
	kvfree(region);
	return ERR_PTR(ret);
}

struct hugepin_region *hugepin_region_make(struct hugepin_request *request)
{
	struct hugepin_region *region;
	struct hugepin_account *user;
	bool looked = false;
	long err;

	user = hugepin_account_user(current_euid());
	if (!user)
		return ERR_PTR(-ENOMEM);
	for (;;) {
		region = try_make(request, user);
		err = PTR_ERR_OR_ZERO(region);
		/* what is short may have come back from quarantine since the last look */
		if ((err == -ENOMEM || err == -EDQUOT) && !looked) {
			hugepin_quarantine_check();
			looked = true;
		} else if (err != -EHWPOISON) {
			break;
		}
	}
	hugepin_account_put(user);
	if (err)
		return region;
	region->owner = current_euid();
	region->created_ns = ktime_get_real_ns();
	atomic64_inc(&region_count);
	return region;
}

void hugepin_region_end(struct hugepin_region *region)
{
	u64 i;

	trace_hugepin_region_end(region->nr_1g, region->nr_2m);
	for (i = 0; i < region->nr_1g + region->nr_2m; i++) {
		hugepin_reserve_release(region->pages[i]);
		cond_resched();
	}
	kvfree(region);
	atomic64_dec(&region_count);
}
