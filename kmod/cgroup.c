// SPDX-License-Identifier: GPL-2.0
/*
 * Limits by control group, where the kernel has the dmem controller: each node is a region "hugepin/nodeN" of it. A
 * page is charged to its maker's group, and like the user's the charge ends when the page is free again, after
 * quarantine.
 */
#include <linux/err.h>
#include <linux/mm.h>

#include "compat.h"
#include "hugepin.h"

#ifdef HUGEPIN_HAVE_DMEM
static struct dmem_cgroup_region *regions[MAX_NUMNODES];

int hugepin_cgroup_init(void)
{
	struct hugepin_node *node;
	int id;

	for_each_hugepin_node(node, id) {
		u64 bytes = hugepin_node_max_pages(id, HUGEPIN_CLASS_2M) * hugepin_class_bytes(HUGEPIN_CLASS_2M);
		struct dmem_cgroup_region *region;

		if (!bytes)	/* less memory than is left to the rest: never a page, and none to charge */
			continue;
		region = hugepin_dmem_register(bytes, id);
		if (IS_ERR_OR_NULL(region)) {
			hugepin_cgroup_exit();
			return region ? PTR_ERR(region) : -ENOMEM;
		}
		regions[id] = region;
	}
	return 0;
}

void hugepin_cgroup_exit(void)
{
	int id;

	for (id = 0; id < MAX_NUMNODES; id++) {
		if (regions[id])
			dmem_cgroup_unregister_region(regions[id]);
		regions[id] = NULL;
	}
}

int hugepin_cgroup_charge(struct hugepin_page *page)
{
	struct dmem_cgroup_pool_state *over = NULL;
	int ret;

	ret = dmem_cgroup_try_charge(regions[page->reserve->node], hugepin_class_bytes(page->reserve->class),
				     &page->pool, &over);
	if (!ret)
		return 0;
	page->pool = NULL;
	if (over)
		dmem_cgroup_pool_state_put(over);
	return ret == -EAGAIN ? -EDQUOT : -ENOMEM;
}

void hugepin_cgroup_uncharge(struct hugepin_page *page)
{
	if (page->pool)
		dmem_cgroup_uncharge(page->pool, hugepin_class_bytes(page->reserve->class));
	page->pool = NULL;
}
#else
int hugepin_cgroup_init(void)
{
	return 0;
}

void hugepin_cgroup_exit(void)
{
}

int hugepin_cgroup_charge(struct hugepin_page *page)
{
	return 0;
}

void hugepin_cgroup_uncharge(struct hugepin_page *page)
{
}
#endif
