// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that the hardware reports faulty: heard of at once, where the kernel tells machine checks. The page is put
 * aside for good; a region that has it loses its entries for it, and the next touch is answered by SIGBUS
 * (BUS_MCEERR_AR).
 *
 * The kernel's own handler (memory_failure()) does nothing about pages of drivers but set a flag. pages.c looks at that
 * when a page is zeroed or given back, map.c when a base page is touched.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/notifier.h>
#include <linux/xarray.h>

#include "compat.h"
#include "hugepin.h"

/*
 * Our pages by the number of their head, in units of 2M: so that neighbours are in one node of the array, and not each
 * in one of its own, which is larger than all else that is known about a page. A page is found here from its first day
 * to its last.
 */
static DEFINE_XARRAY(pages);

static unsigned long index_of(unsigned long pfn)
{
	return pfn >> HUGEPIN_ORDER_2M;
}

int hugepin_poison_watch(struct hugepin_page *page)
{
	return xa_insert(&pages, index_of(page_to_pfn(page->page)), page, GFP_KERNEL);
}

void hugepin_poison_unwatch(struct hugepin_page *page)
{
	xa_erase(&pages, index_of(page_to_pfn(page->page)));
}

/* Marks the page that @pfn is in: true if it is one of ours and was not faulty yet. */
static bool mark(unsigned long pfn, struct hugepin_page **found)
{
	bool news = false;
	int class;

	xa_lock(&pages);	/* while it is held no page goes */
	for (class = 0; class < HUGEPIN_CLASS_COUNT && !news; class++) {
		unsigned long head = round_down(pfn, 1UL << hugepin_class_order(class));
		struct hugepin_page *page = xa_load(&pages, index_of(head));

		if (page && page->reserve->class == class) {
			news = hugepin_reserve_mark_faulty(page);
			*found = page;
		}
	}
	xa_unlock(&pages);
	return news;
}

void hugepin_poison(unsigned long pfn)
{
	struct hugepin_page *page;

	if (!mark(pfn, &page))
		return;
	/* only as a number from here on: it may go at any time */
	if (!hugepin_list_unmap(page))
		return;
	pr_err("a faulty page was in use: whoever maps it gets SIGBUS at the next touch\n");
}

#ifdef CONFIG_X86_MCE
/* Called in process context. Corrected errors leave the page usable. */
static int machine_check(struct notifier_block *nb, unsigned long action, void *data)
{
	struct mce *m = data;

	if (m && m->status & (MCI_STATUS_UC | MCI_STATUS_DEFERRED) && mce_is_memory_error(m) && mce_usable_address(m))
		hugepin_poison((m->addr & GENMASK_ULL(boot_cpu_data.x86_phys_bits - 1, 0)) >> PAGE_SHIFT);
	return NOTIFY_DONE;
}

static struct notifier_block machine_check_nb = {
	.notifier_call	= machine_check,
	.priority	= MCE_PRIO_NFIT,	/* after the kernel's own handler */
};

void hugepin_poison_init(void)
{
	mce_register_decode_chain(&machine_check_nb);
}

void hugepin_poison_exit(void)
{
	mce_unregister_decode_chain(&machine_check_nb);
}
#else
void hugepin_poison_init(void)
{
}

void hugepin_poison_exit(void)
{
}
#endif
