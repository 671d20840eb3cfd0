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

struct hugepin_page *hugepin_region_page(const struct hugepin_region *region, pgoff_t index, unsigned long *sub)
{
	u64 nr = index >> HUGEPIN_ORDER_1G;

	if (nr < region->nr_1g) {
		*sub = index & ((1UL << HUGEPIN_ORDER_1G) - 1);
		return region->pages[nr];
	}
	index -= region->nr_1g << HUGEPIN_ORDER_1G;
	nr = index >> HUGEPIN_ORDER_2M;
	if (nr >= region->nr_2m)
		return NULL;
	*sub = index & ((1UL << HUGEPIN_ORDER_2M) - 1);
	return region->pages[region->nr_1g + nr];
}

bool hugepin_region_unmap(const struct hugepin_region *region, const struct hugepin_page *page)
{
	u64 i, offset;

	smp_mb();	/* why is known before entries are looked for: see insert_huge() */
	for (i = 0; i < region->nr_1g + region->nr_2m; i++) {
		if (region->pages[i] != page)
			continue;
		offset = i < region->nr_1g ? i << PUD_SHIFT :
			 (region->nr_1g << PUD_SHIFT) + ((i - region->nr_1g) << PMD_SHIFT);
		unmap_mapping_range(region->inode->i_mapping, offset, i < region->nr_1g ? PUD_SIZE : PMD_SIZE, 1);
		return true;
	}
	return false;
}

int hugepin_region_for_each(const struct hugepin_region *region,
			    int (*each)(const struct hugepin_run *run, void *arg), void *arg)
{
	u64 i;
	int ret = 0;

	for (i = 0; i < region->nr_1g + region->nr_2m && !ret; i++) {
		const struct hugepin_run run = {
			.page = region->pages[i]->page,
			.pages = 1ULL << hugepin_class_order(region->pages[i]->reserve->class),
		};

		ret = each(&run, arg);
	}
	return ret;
}

void hugepin_region_attach(struct hugepin_region *region, struct address_space *mapping)
{
	u64 i;

	for (i = 0; i < region->nr_1g + region->nr_2m; i++) {
		struct folio *folio = page_folio(region->pages[i]->page);

		folio->mapping = mapping;
		folio->index = i < region->nr_1g ? i << HUGEPIN_ORDER_1G :
			       (region->nr_1g << HUGEPIN_ORDER_1G) + ((i - region->nr_1g) << HUGEPIN_ORDER_2M);
		cond_resched();
	}
}

/* ---- the plan: how many pages from which node ---- */

/*
 * Made and carried out under take_mutex, so nobody else takes free pages in between. A page that turns out faulty can
 * still be missing; then the plan is made anew.
 */
struct plan {
	unsigned int nr_nodes;
	u64 nr[HUGEPIN_CLASS_COUNT];			/* pages wanted */
	struct plan_node {
		int id;
		u64 free[HUGEPIN_CLASS_COUNT];
		u64 limit[HUGEPIN_CLASS_COUNT];		/* the user's share, and what it holds of it */
		u64 held[HUGEPIN_CLASS_COUNT];
		u64 can[HUGEPIN_CLASS_COUNT];		/* free, and within the user's share */
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

static void look_at(struct plan_node *pn, unsigned int class, struct hugepin_account *user)
{
	struct hugepin_reserve *reserve = &hugepin_node(pn->id)->reserve[class];
	u64 room;

	pn->free[class] = hugepin_reserve_free(reserve);
	pn->limit[class] = hugepin_reserve_total(reserve) * READ_ONCE(reserve->user_limit_percent) / 100;
	room = hugepin_account_room(user, pn->id, class, pn->limit[class], &pn->held[class]);
	pn->can[class] = min(pn->free[class], room);
}

static struct plan *plan_make(const struct hugepin_request *request, struct hugepin_account *user)
{
	struct plan *plan;
	nodemask_t others;
	unsigned int i;
	int class;

	plan = kvzalloc(struct_size(plan, node, nodes_weight(hugepin_nodes_online)), GFP_KERNEL);
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
			look_at(&plan->node[i], class, user);
	return plan;
}

/*
 * Says which bound was hit: free pages, or the user's share. @pn: the node that is short, NULL if all together are;
 * then the share named is that of the first node on which it is what is missing.
 */
static int too_few(const struct plan *plan, struct hugepin_request *request, unsigned int class,
		   const struct plan_node *pn, u64 asked)
{
	struct hugepin_shortfall *s = &request->shortfall;
	const struct plan_node *limited = NULL;
	unsigned int i;

	memset(s, 0, sizeof(*s));
	s->class = class;
	s->asked = asked;
	if (!pn && plan->nr_nodes == 1)
		pn = &plan->node[0];
	s->node = pn ? pn->id : HUGEPIN_NODE_ANY;
	for (i = 0; i < plan->nr_nodes; i++) {
		if (pn && pn != &plan->node[i])
			continue;
		s->available += plan->node[i].free[class];
		if (!limited && plan->node[i].can[class] < plan->node[i].free[class])
			limited = &plan->node[i];
	}
	if (asked > s->available || !limited) {
		s->reason = HUGEPIN_SHORT_FREE;
		return -ENOMEM;
	}
	s->reason = HUGEPIN_SHORT_USER;
	s->node = limited->id;
	s->limit = limited->limit[class];
	s->held = limited->held[class];
	return -EDQUOT;
}

/* Fills the nodes one after the other. */
static void plan_fill(struct plan *plan, unsigned int class, u64 pages)
{
	unsigned int i;

	for (i = 0; i < plan->nr_nodes && pages; i++) {
		u64 n = min(pages, plan->node[i].can[class] - plan->node[i].take[class]);

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
		u64 want = share + (i < rest), can = plan->node[i].can[class];

		if (want > can && !(request->flags & HUGEPIN_CREATE_FALLBACK))
			return too_few(plan, request, class, &plan->node[i], want);
		plan->node[i].take[class] = min(want, can);
		missing += want - min(want, can);
	}
	plan_fill(plan, class, missing);
	return 0;
}

static u64 plan_can(const struct plan *plan, unsigned int class)
{
	u64 sum = 0;
	unsigned int i;

	for (i = 0; i < plan->nr_nodes; i++)
		sum += plan->node[i].can[class];
	return sum;
}

static u64 mount_room(const struct hugepin_request *request, unsigned int class)
{
	u64 limit, held;

	if (!request->mount)
		return U64_MAX;
	limit = hugepin_account_limit(request->mount, class);
	held = hugepin_account_held_class(request->mount, class);
	return limit - min(limit, held);
}

static int over_mount(const struct plan *plan, struct hugepin_request *request, unsigned int class, u64 pages)
{
	too_few(plan, request, class, NULL, pages);	/* for the numbers of free pages */
	request->shortfall.reason = HUGEPIN_SHORT_MOUNT;
	request->shortfall.node = HUGEPIN_NODE_ANY;
	request->shortfall.limit = hugepin_account_limit(request->mount, class);
	request->shortfall.held = hugepin_account_held_class(request->mount, class);
	return -EDQUOT;
}

static int plan_class(struct plan *plan, struct hugepin_request *request, unsigned int class, u64 pages)
{
	if (pages > plan_can(plan, class))
		return too_few(plan, request, class, NULL, pages);
	if (pages > mount_room(request, class))
		return over_mount(plan, request, class, pages);
	plan->nr[class] = pages;
	if (request->policy == HUGEPIN_POLICY_INTERLEAVE)
		return plan_interleave(plan, request, class, pages);
	plan_fill(plan, class, pages);
	return 0;
}

/* ioctl.c has checked that rounding the bytes up does not wrap */
static int plan_classes(struct plan *plan, struct hugepin_request *request)
{
	u64 bytes = request->bytes, nr_1g = 0, nr_2m = 0;
	int ret;

	if (request->classes == BIT(HUGEPIN_CLASS_1G))
		nr_1g = DIV_ROUND_UP_ULL(bytes, PUD_SIZE);
	else if (request->classes & BIT(HUGEPIN_CLASS_1G))
		nr_1g = bytes >> PUD_SHIFT;
	if (request->classes & BIT(HUGEPIN_CLASS_2M)) {
		if (request->flags & HUGEPIN_CREATE_FALLBACK)
			nr_1g = min3(nr_1g, plan_can(plan, HUGEPIN_CLASS_1G), mount_room(request, HUGEPIN_CLASS_1G));
		nr_2m = DIV_ROUND_UP_ULL(bytes - (nr_1g << PUD_SHIFT), PMD_SIZE);
	}
	ret = plan_class(plan, request, HUGEPIN_CLASS_1G, nr_1g);
	if (!ret)
		ret = plan_class(plan, request, HUGEPIN_CLASS_2M, nr_2m);
	return ret;
}

static u64 plan_pages(const struct plan *plan)
{
	return plan->nr[HUGEPIN_CLASS_1G] + plan->nr[HUGEPIN_CLASS_2M];
}

/* What the region will be made of, by node. */
static u32 plan_extents(const struct plan *plan, struct hugepin_extent *extents)
{
	unsigned int i;
	u32 count = 0;
	int id, class;

	for_each_node_mask(id, hugepin_nodes_online)
		for (i = 0; i < plan->nr_nodes; i++)
			for (class = HUGEPIN_CLASS_COUNT - 1; class >= 0; class--)
				if (plan->node[i].id == id && plan->node[i].take[class])
					extents[count++] = (struct hugepin_extent){
						.node = id, .class = class, .pages = plan->node[i].take[class] };
	return count;
}

/* ---- carrying it out ---- */

/*
 * The node that the next page of a class comes from: in turn, or one node until it is used up. What the nodes give adds
 * up to the pages wanted.
 */
static struct plan_node *take_from(struct plan *plan, unsigned int class, bool in_turn, unsigned int *at)
{
	struct plan_node *pn;
	unsigned int tried;

	for (tried = 0; tried < plan->nr_nodes; tried++, (*at)++) {
		pn = &plan->node[*at % plan->nr_nodes];
		if (!pn->take[class])
			continue;
		pn->take[class]--;
		*at += in_turn;
		return pn;
	}
	return NULL;
}

static int over_cgroup(const struct plan *plan, struct hugepin_request *request, unsigned int class,
		       const struct plan_node *pn)
{
	too_few(plan, request, class, pn, plan->nr[class]);	/* for the numbers of free pages */
	request->shortfall.reason = HUGEPIN_SHORT_CGROUP;
	request->shortfall.limit = 0;
	request->shortfall.held = 0;
	return -EDQUOT;
}

/* -EAGAIN: a page that was counted turned out faulty. */
static int take_pages(struct plan *plan, struct hugepin_request *request, struct hugepin_account *user,
		      struct hugepin_region *region)
{
	bool in_turn = request->policy == HUGEPIN_POLICY_INTERLEAVE;
	bool waited = false;
	u64 n = 0, i;
	int class, ret;

	region->nr_extents = plan_extents(plan, region->extents);
	for (class = HUGEPIN_CLASS_COUNT - 1; class >= 0; class--) {
		unsigned int at = 0;

		for (i = 0; i < plan->nr[class]; i++) {
			struct plan_node *pn = take_from(plan, class, in_turn, &at);
			struct hugepin_page *page;

			if (WARN_ON_ONCE(!pn))
				return -ENOMEM;
			page = hugepin_reserve_take(&hugepin_node(pn->id)->reserve[class], true, &waited);
			if (!page)
				return -EAGAIN;
			ret = hugepin_cgroup_charge(page);
			if (ret) {
				hugepin_reserve_put(page);
				return ret == -EDQUOT ? over_cgroup(plan, request, class, pn) : ret;
			}
			hugepin_account_charge(page, user, request->mount);
			region->pages[n++] = page;
			*(class == HUGEPIN_CLASS_1G ? &region->nr_1g : &region->nr_2m) += 1;
			cond_resched();
		}
	}
	if (waited)
		atomic64_inc(&hugepin_figures.creations_waited);
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

		dirty += !hugepin_page_is_zero(page);
		if (fatal_signal_pending(current))
			return -EINTR;
		ret = hugepin_page_zero(page, killed, NULL);
		if (ret == -EHWPOISON)
			hugepin_reserve_mark_faulty(page);
		if (ret)
			return ret;
	}
	if (dirty)
		atomic64_inc(&hugepin_figures.creations_zeroed);
	trace_hugepin_region_make(region->nr_1g, region->nr_2m, dirty);
	return 0;
}

static void region_free(struct hugepin_region *region)
{
	if (region)
		kvfree(region->extents);
	kvfree(region);
}

static struct hugepin_region *region_alloc(u64 pages)
{
	struct hugepin_region *region;

	region = kvzalloc(struct_size(region, pages, pages), GFP_KERNEL_ACCOUNT);
	if (!region)
		return NULL;
	region->extents = kvcalloc(nodes_weight(hugepin_nodes_online) * HUGEPIN_CLASS_COUNT, sizeof(*region->extents),
				   GFP_KERNEL_ACCOUNT);
	if (!region->extents) {
		region_free(region);
		return NULL;
	}
	return region;
}

/* Nobody has seen the pages: what is zero still is. A faulty page is put aside. */
static void put_pages(struct hugepin_region *region)
{
	u64 i;

	for (i = 0; i < region->nr_1g + region->nr_2m; i++) {
		hugepin_reserve_put(region->pages[i]);
		cond_resched();
	}
	region->nr_1g = 0;
	region->nr_2m = 0;
}

/*
 * Plans and takes into *@region, which has room for *@room pages. Where that is too little, *@room is set and it is
 * -ENOSPC: memory for it is got without the mutex.
 */
static int plan_and_take(struct hugepin_request *request, struct hugepin_account *user, struct hugepin_region *region,
			 u64 *room)
{
	struct plan *plan;
	int ret;

	lockdep_assert_held(&hugepin_take_mutex);
	memset(&request->shortfall, 0, sizeof(request->shortfall));	/* of an earlier look */
	plan = plan_make(request, user);
	if (!plan)
		return -ENOMEM;
	ret = plan_classes(plan, request);
	if (!ret && plan_pages(plan) > *room) {
		*room = plan_pages(plan);
		ret = -ENOSPC;
	} else if (!ret) {
		ret = take_pages(plan, request, user, region);
		if (ret)
			put_pages(region);
	}
	kvfree(plan);
	return ret;
}

/* One step of making it; the loop in hugepin_region_make() says what each result leads to. */
static int try_make(struct hugepin_request *request, struct hugepin_account *user, struct hugepin_region **region,
		    u64 *room)
{
	int ret;

	if (mutex_lock_killable(&hugepin_take_mutex))
		return -EINTR;
	ret = plan_and_take(request, user, *region, room);
	mutex_unlock(&hugepin_take_mutex);
	if (ret == -ENOSPC) {
		region_free(*region);
		*region = region_alloc(*room);
		if (*region)
			return -EAGAIN;
		*room = 0;	/* a second look at what is short begins without a region */
		return -ENOMEM;
	}
	if (ret)
		return ret;
	ret = zero_pages(*region);
	if (ret)
		put_pages(*region);
	return ret == -EHWPOISON ? -EAGAIN : ret;
}

static void region_born(struct hugepin_region *region)
{
	region->owner = current_euid();
	region->created_ns = ktime_get_real_ns();
	region->used_ns = region->created_ns;
	atomic64_inc(&region_count);
}

struct hugepin_region *hugepin_region_make(struct hugepin_request *request)
{
	struct hugepin_region *region = NULL;
	struct hugepin_account *user;
	bool looked = false;
	u64 room = 0;
	int ret;

	user = hugepin_account_user();
	if (!user)
		return ERR_PTR(-ENOMEM);
	for (;;) {
		ret = try_make(request, user, &region, &room);
		if (ret == -EAGAIN && !fatal_signal_pending(current))
			continue;
		/* what is short may have come back from quarantine since the last look */
		if ((ret != -ENOMEM && ret != -EDQUOT) || looked)
			break;
		hugepin_quarantine_check();
		looked = true;
	}
	hugepin_account_put(user);
	if (ret) {
		region_free(region);
		return ERR_PTR(ret == -EAGAIN ? -EINTR : ret);
	}
	region_born(region);
	atomic64_inc(&hugepin_figures.creations);
	return region;
}

struct hugepin_region *hugepin_region_of(struct hugepin_page *page)
{
	struct hugepin_region *region = region_alloc(1);

	if (!region)
		return NULL;
	region->pages[0] = page;
	*(page->reserve->class == HUGEPIN_CLASS_1G ? &region->nr_1g : &region->nr_2m) = 1;
	region->nr_extents = 1;
	region->extents[0] = (struct hugepin_extent){
		.node = page->reserve->node, .class = page->reserve->class, .pages = 1 };
	region_born(region);
	return region;
}

void hugepin_region_discard(struct hugepin_region *region)
{
	put_pages(region);
	region_free(region);
	atomic64_dec(&region_count);
}

void hugepin_region_end(struct hugepin_region *region)
{
	u64 i;

	trace_hugepin_region_end(region->nr_1g, region->nr_2m);
	for (i = 0; i < region->nr_1g + region->nr_2m; i++) {
		hugepin_reserve_release(region->pages[i]);
		cond_resched();
	}
	region_free(region);
	atomic64_dec(&region_count);
}
