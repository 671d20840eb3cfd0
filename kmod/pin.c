// SPDX-License-Identifier: GPL-2.0
/*
 * Pinned ranges: long-term pins on the caller's own memory, held by a descriptor. Unmapping the memory, the end of the
 * process and closing the descriptor may come in any order; the pages are let go with the descriptor.
 *
 * What is pinned counts for the user (account.c) under RLIMIT_MEMLOCK, not for the process: a child that pins and
 * passes the descriptor on does not get around the limit.
 */
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "hugepin.h"

#define BATCH	512

/* Pages are kept as runs of neighbours: a pinned 1G page is one run, not a quarter of a million pointers. */
struct run_block {
	struct list_head link;
	unsigned int count;
	struct hugepin_run runs[];
};

#define RUNS_PER_BLOCK	((PAGE_SIZE - sizeof(struct run_block)) / sizeof(struct hugepin_run))

struct pinned {
	struct list_head blocks;
	struct hugepin_account *user;
	u64 pages;
	u64 runs;
};

static int add_page(struct pinned *pin, struct page *page)
{
	struct run_block *block = list_empty(&pin->blocks) ? NULL :
		list_last_entry(&pin->blocks, struct run_block, link);
	struct hugepin_run *last = block ? &block->runs[block->count - 1] : NULL;

	if (last && page_to_pfn(page) == page_to_pfn(last->page) + last->pages) {
		last->pages++;
		return 0;
	}
	if (!block || block->count == RUNS_PER_BLOCK) {
		block = kzalloc(PAGE_SIZE, GFP_KERNEL_ACCOUNT);
		if (!block)
			return -ENOMEM;
		list_add_tail(&block->link, &pin->blocks);
	}
	block->runs[block->count++] = (struct hugepin_run){ .page = page, .pages = 1 };
	pin->runs++;
	return 0;
}

/* In steps, since base pages that happen to be neighbours make long runs and each has its own lock to take. */
static void unpin_run(const struct hugepin_run *run)
{
	u64 done, n;

	for (done = 0; done < run->pages; done += n) {
		n = min_t(u64, run->pages - done, BATCH);
		unpin_user_page_range_dirty_lock(pfn_to_page(page_to_pfn(run->page) + done), n, true);
		cond_resched();
	}
}

static void unpin(struct pinned *pin)
{
	struct run_block *block, *next;
	unsigned int i;

	list_for_each_entry_safe(block, next, &pin->blocks, link) {
		for (i = 0; i < block->count; i++)
			unpin_run(&block->runs[i]);
		kfree(block);
	}
}

static int add_batch(struct pinned *pin, struct page **pages, long count)
{
	long i;
	int ret;

	for (i = 0; i < count; i++) {
		ret = add_page(pin, pages[i]);
		if (ret) {
			unpin_user_pages(pages + i, count - i);
			return ret;
		}
	}
	return 0;
}

/*
 * The mmap lock is taken and dropped a batch: others may fault and map while a large range is pinned. Only a fatal
 * signal ends it: with any signal a program with an interval timer would begin anew for ever.
 */
static int pin_all(struct pinned *pin, unsigned long addr, struct page **pages)
{
	u64 left = pin->pages;
	long got;
	int ret;

	while (left) {
		if (fatal_signal_pending(current))
			return -EINTR;
		got = pin_user_pages_fast(addr, min_t(u64, left, BATCH), FOLL_WRITE | FOLL_LONGTERM, pages);
		if (got <= 0)
			return got ?: -EFAULT;
		ret = add_batch(pin, pages, got);
		if (ret)
			return ret;
		addr += got << PAGE_SHIFT;
		left -= got;
		cond_resched();
	}
	return 0;
}

static void pin_end(struct pinned *pin)
{
	unpin(pin);
	hugepin_account_unlock(pin->user, pin->pages);
	hugepin_account_put(pin->user);
	kfree(pin);
}

static int pin_release(struct inode *inode, struct file *file)
{
	pin_end(file->private_data);
	return 0;
}

static void pin_show_fdinfo(struct seq_file *m, struct file *file)
{
	const struct pinned *pin = file->private_data;

	seq_printf(m, "pinned-bytes:\t%llu\nruns:\t%llu\n", pin->pages << PAGE_SHIFT, pin->runs);
}

static const struct file_operations pin_fops = {
	.owner		= THIS_MODULE,
	.release	= pin_release,
	.unlocked_ioctl	= hugepin_pin_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= pin_show_fdinfo,
};

bool hugepin_pin_is(const struct file *file)
{
	return file->f_op == &pin_fops;
}

/* Calls @each for the runs of a pinned range, in order, until it returns non-zero. */
int hugepin_pin_for_each(const struct file *file, int (*each)(const struct hugepin_run *run, void *arg), void *arg)
{
	const struct pinned *pin = file->private_data;
	struct run_block *block;
	unsigned int i;
	int ret = 0;

	list_for_each_entry(block, &pin->blocks, link)
		for (i = 0; i < block->count && !ret; i++)
			ret = each(&block->runs[i], arg);
	return ret;
}

u64 hugepin_pin_bytes(const struct file *file)
{
	const struct pinned *pin = file->private_data;

	return pin->pages << PAGE_SHIFT;
}

/* A file that holds the range pinned. @limit: what was hit, on -EDQUOT. */
struct file *hugepin_pin_make(unsigned long addr, u64 bytes, struct hugepin_limit *limit)
{
	struct pinned *pin;
	struct page **pages;
	struct file *file;
	int ret = -ENOMEM;

	pages = kmalloc_array(BATCH, sizeof(*pages), GFP_KERNEL);
	pin = kzalloc(sizeof(*pin), GFP_KERNEL_ACCOUNT);
	if (!pages || !pin)
		goto out_free;
	INIT_LIST_HEAD(&pin->blocks);
	pin->pages = bytes >> PAGE_SHIFT;
	pin->user = hugepin_account_user();
	if (!pin->user)
		goto out_free;
	limit->asked = bytes;
	limit->limit = capable(CAP_IPC_LOCK) ? U64_MAX : rlimit(RLIMIT_MEMLOCK);
	ret = hugepin_account_lock(pin->user, pin->pages, limit);
	if (ret)
		goto out_user;
	ret = pin_all(pin, addr, pages);
	if (ret)
		goto out_end;
	file = anon_inode_getfile("[hugepin-pin]", &pin_fops, pin, O_RDWR | O_CLOEXEC);
	if (IS_ERR(file)) {
		ret = PTR_ERR(file);
		goto out_end;
	}
	kfree(pages);
	return file;

out_end:
	pin_end(pin);
	kfree(pages);
	return ERR_PTR(ret);
out_user:
	hugepin_account_put(pin->user);
out_free:
	kfree(pin);
	kfree(pages);
	return ERR_PTR(ret);
}
