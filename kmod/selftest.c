// SPDX-License-Identifier: GPL-2.0
/*
 * The self-test of the class 1G, with the first such page: that a 1G entry shows the right page, that it can be pinned
 * for long both ways the kernel has, and that afterwards nobody holds it. Kernels that close one of these ways have
 * done it in stable updates; then the class is absent rather than a program stuck.
 *
 * It runs in the address space of who grows the reserve. Each pin is told not to fault (FOLL_NOFAULT): where the kernel
 * does not accept the entry it would otherwise fault, find the entry there and try again, until killed.
 */
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "hugepin.h"

#define PIN_FLAGS	(FOLL_WRITE | FOLL_LONGTERM | FOLL_NOFAULT)
#define LAST		((1UL << HUGEPIN_ORDER_1G) - 1)	/* a base page far from the head */

/* The self-test's region, mapped. */
struct trial {
	struct hugepin_page *page;
	struct file *file;
	unsigned long addr;
};

static int cannot(const char *what, long value)
{
	pr_warn("1G pages: the self-test could not be run: %s (%ld)\n", what, value);
	return value;
}

/* A process that is being killed gets no answer out of faults and pins: that says nothing about the kernel. */
static int reject(const char *what, long value)
{
	if (fatal_signal_pending(current))
		return cannot("killed", -EINTR);
	pr_err("1G pages: the self-test objects: %s (%ld)\n", what, value);
	WRITE_ONCE(hugepin_absent[HUGEPIN_CLASS_1G], HUGEPIN_ABSENT_SELFTEST);
	return -EOPNOTSUPP;
}

static long refs(const struct trial *trial)
{
	return hugepin_page_refs(trial->page->page, HUGEPIN_ORDER_1G);
}

/* Consumes the page: whatever happens it is the region's, and the region the file's. */
static struct file *open_trial(struct hugepin_page *page)
{
	struct hugepin_region *region = hugepin_region_of(page);
	struct inode *inode;

	if (!region) {
		hugepin_reserve_put(page);
		return ERR_PTR(-ENOMEM);
	}
	inode = hugepin_fs_inode(hugepin_hidden_mount(), NULL, region, 0);
	if (IS_ERR(inode)) {
		hugepin_region_discard(region);
		return ERR_CAST(inode);
	}
	return hugepin_fs_open_unnamed(hugepin_hidden_mount(), inode);
}

/* What is written through the mapping stands in the page. */
static int check_mapping(const struct trial *trial)
{
	const struct hugepin_region *region = file_inode(trial->file)->i_private;
	const u32 mark = 0x48504e31;
	u32 __user *there = (u32 __user *)(trial->addr + (LAST << PAGE_SHIFT));
	bool touched = !put_user(mark, there);
	unsigned int fault = READ_ONCE(region->fault_1g);
	u32 seen;

	if (!fault)
		return touched ? cannot("huge pages are switched off for this process or system", -EAGAIN) :
				 cannot("the page cannot be faulted in", -ENOMEM);
	if (fault != (__force unsigned int)VM_FAULT_NOPAGE)
		return reject("no 1G entry can be made", fault);
	if (!touched)
		return reject("the page cannot be touched", -EFAULT);
	memcpy_from_page((char *)&seen, trial->page->page + LAST, 0, sizeof(seen));
	return seen == mark ? 0 : reject("the mapping shows another page", seen);
}

static int check_pin(const struct trial *trial, long nr, struct page *got, const char *refused)
{
	struct page *want = trial->page->page + LAST;
	long held;

	if (nr != 1)
		return reject(refused, nr);
	held = refs(trial);
	unpin_user_page(got);
	if (got != want)
		return reject("pinned another page", (long)page_to_pfn(got) - (long)page_to_pfn(want));
	if (held < 1)
		return reject("a pin does not hold the page; references", held);
	return 0;
}

static int check_pins(const struct trial *trial)
{
	unsigned long addr = trial->addr + (LAST << PAGE_SHIFT);
	struct page *got = NULL;
	long nr;
	int ret;

	nr = pin_user_pages_fast(addr, 1, PIN_FLAGS, &got);
	ret = check_pin(trial, nr, got, "the quick way to pin is closed");
	if (ret)
		return ret;
	nr = hugepin_pin_slowly(addr, PIN_FLAGS, &got);
	return check_pin(trial, nr, got, "the slow way to pin is closed");
}

static int try_out(struct trial *trial)
{
	int ret, tries;

	trial->addr = vm_mmap(trial->file, 0, PUD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	if (IS_ERR_VALUE(trial->addr))
		return cannot("it cannot be mapped", (long)trial->addr);
	ret = check_mapping(trial);
	if (!ret)
		ret = check_pins(trial);
	vm_munmap(trial->addr, PUD_SIZE);
	for (tries = 0; !ret && refs(trial) && tries < 10; tries++)	/* nobody's, or somebody's for a moment */
		msleep(20);
	if (!ret && refs(trial))
		ret = reject("references stay behind", refs(trial));
	return ret;
}

int hugepin_selftest(struct hugepin_page *page)
{
	struct trial trial = { .page = page };
	int ret;

	ret = current->mm ? hugepin_hidden_mount_get() : -ESRCH;
	if (ret) {
		hugepin_reserve_put(page);
		return cannot("no address space, or no mount", ret);
	}
	trial.file = open_trial(page);
	ret = PTR_ERR_OR_ZERO(trial.file);
	if (!ret) {
		ret = try_out(&trial);
		/* now, not on the way back to user space: loading may still fail */
		__fput_sync(trial.file);
	} else {
		cannot("no region", ret);
	}
	hugepin_hidden_mount_put();
	if (!ret)
		pr_info("1G pages are mapped and pinned as they should\n");
	return ret;
}
