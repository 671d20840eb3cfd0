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
		return hugepin_alloc_contig(node, order, HUGEPIN_GFP, cursor);
	return alloc_pages_node(node, HUGEPIN_GFP, order);
}

void hugepin_page_free(struct page *page)
{
	put_page(page);
}

int hugepin_page_zero(struct page *page, unsigned int order, bool (*stop)(void *), void *arg)
{
	unsigned long i, n = 1UL << order;

	for (i = 0; i < n; i++) {
		if (PageHWPoison(page + i))
			return -EHWPOISON;
		clear_highpage(page + i);
		if ((i + 1) % (1UL << HUGEPIN_ORDER_2M))
			continue;
		cond_resched();
		if (i + 1 < n && stop && stop(arg))
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

/* What is always left to the rest of the node: 1/32 of it, at least 128 MiB, at most 2 GiB. */
static u64 hugepin_node_floor(int node)
{
	return clamp_t(u64, node_present_pages(node) / 32, SZ_128M >> PAGE_SHIFT, SZ_2G >> PAGE_SHIFT);
}

u64 hugepin_node_max_pages(int node, unsigned int class)
{
	u64 present = node_present_pages(node), floor = hugepin_node_floor(node);

	return present <= floor ? 0 : (present - floor) >> hugepin_class_order(class);
}

/* True if a page more would leave the floor; file pages that can be dropped count as free. */
bool hugepin_node_has_room(int node, unsigned int class)
{
	pg_data_t *pgdat = NODE_DATA(node);
	u64 free = 0;
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++)
		free += zone_page_state(&pgdat->node_zones[i], NR_FREE_PAGES);
	free += max(0L, atomic_long_read(&pgdat->vm_stat[NR_INACTIVE_FILE]));
	free += max(0L, atomic_long_read(&pgdat->vm_stat[NR_ACTIVE_FILE]));
	return free >= hugepin_node_floor(node) + (1ULL << hugepin_class_order(class));
}
