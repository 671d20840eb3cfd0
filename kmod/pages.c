// SPDX-License-Identifier: GPL-2.0
/* Huge pages from and to the page allocator; zeroing. */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/vmstat.h>

#include "compat.h"
#include "hugepin.h"

/*
 * Never __GFP_MOVABLE: movable and CMA pages cannot be pinned long-term. RETRY_MAYFAIL: reclaim and compact, but no OOM
 * kill for a reservation.
 */
#define HUGEPIN_GFP	(GFP_KERNEL | __GFP_COMP | __GFP_THISNODE | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

struct page *hugepin_page_alloc(int node, unsigned int class, unsigned long *cursor, bool *zeroed)
{
	unsigned int order = hugepin_class_order(class);

	*zeroed = want_init_on_alloc(HUGEPIN_GFP);
	if (class == HUGEPIN_CLASS_1G)
		return hugepin_alloc_contig(node, order, HUGEPIN_GFP, cursor, &hugepin_stopping);
	return alloc_pages_node(node, HUGEPIN_GFP, order);
}

static bool faulty(struct page *page, unsigned int order)
{
	unsigned long i;

	for (i = 0; i < 1UL << order; i++)
		if (PageHWPoison(page + i))
			return true;
	return false;
}

bool hugepin_page_poisoned(struct page *page)
{
	return PageHWPoison(page);
}

void hugepin_page_free(struct hugepin_page *page)
{
	unsigned int class = page->reserve->class;

	/* the allocator looks at single pages only: it would hand the faulty part out again */
	if (page->faulty || faulty(page->page, hugepin_class_order(class)))
		pr_warn("a %s page with a faulty part is not given back\n", hugepin_class_name(class));
	else
		put_page(page->page);
}

unsigned int hugepin_page_steps(const struct hugepin_page *page)
{
	return 1U << (hugepin_class_order(page->reserve->class) - HUGEPIN_ORDER_2M);
}

bool hugepin_page_is_zero(const struct hugepin_page *page)
{
	return page->zero_steps == hugepin_page_steps(page);
}

static int zero_step(struct page *page)
{
	unsigned long i;

	for (i = 0; i < 1UL << HUGEPIN_ORDER_2M; i++) {
		if (PageHWPoison(page + i))
			return -EHWPOISON;
		clear_highpage(page + i);
	}
	return 0;
}

int hugepin_page_zero(struct hugepin_page *page, bool (*stop)(void *), void *arg)
{
	int ret;

	if (READ_ONCE(page->faulty))
		return -EHWPOISON;
	while (!hugepin_page_is_zero(page)) {
		ret = zero_step(page->page + ((unsigned long)page->zero_steps << HUGEPIN_ORDER_2M));
		if (ret || READ_ONCE(page->faulty))
			return -EHWPOISON;
		page->zero_steps++;
		cond_resched();
		if (stop && stop(arg) && !hugepin_page_is_zero(page))
			return -EINTR;
	}
	return 0;
}

void hugepin_page_detach(struct page *page)
{
	struct folio *folio = page_folio(page);

	folio_lock(folio);
	folio->mapping = NULL;
	folio->index = 0;
	folio_clear_dirty(folio);
	folio_clear_referenced(folio);
	folio_clear_active(folio);
	folio_unlock(folio);
}

bool hugepin_page_idle(struct page *page)
{
	return page_ref_count(page) == 1;
}

/* ---- how much a node can give: zones that HUGEPIN_GFP takes from, without what is kept for CMA ---- */

static u64 node_managed_pages(int node)
{
	u64 pages = 0;
	int i;

	for (i = 0; i <= gfp_zone(HUGEPIN_GFP); i++)
		pages += zone_managed_pages(&NODE_DATA(node)->node_zones[i]);
	return pages;
}

/* File pages that can be dropped count as free. */
static u64 node_free_pages(int node)
{
	long pages = 0;
	int i;

	for (i = 0; i <= gfp_zone(HUGEPIN_GFP); i++) {
		struct zone *zone = &NODE_DATA(node)->node_zones[i];

		pages += zone_page_state(zone, NR_FREE_PAGES);
		pages -= zone_page_state(zone, NR_FREE_CMA_PAGES);
		pages += zone_page_state(zone, NR_ZONE_INACTIVE_FILE);
		pages += zone_page_state(zone, NR_ZONE_ACTIVE_FILE);
	}
	return max(pages, 0L);
}

/* What is always left to the rest of the node: 1/32 of it, at least 128 MiB, at most 2 GiB. */
static u64 node_floor(int node)
{
	return clamp_t(u64, node_managed_pages(node) / 32, SZ_128M >> PAGE_SHIFT, SZ_2G >> PAGE_SHIFT);
}

u64 hugepin_node_max_pages(int node, unsigned int class)
{
	u64 managed = node_managed_pages(node), floor = node_floor(node);

	return managed <= floor ? 0 : (managed - floor) >> hugepin_class_order(class);
}

bool hugepin_node_has_room(int node, unsigned int class, unsigned int pages)
{
	return node_free_pages(node) >= node_floor(node) + ((u64)pages << hugepin_class_order(class));
}
