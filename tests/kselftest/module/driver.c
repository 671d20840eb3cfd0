// SPDX-License-Identifier: GPL-2.0
/*
 * hugepin_test: a stand-in for a device driver that does DMA to user memory.
 *
 * It takes references the way such drivers do (pin_user_pages under the mmap lock, its lockless sibling, plain
 * references for what sits in pipes and sockets), keeps them after the process is gone, and reads and writes through
 * them as a device would. See uapi.h.
 *
 * Locking: context->lock covers everything in the context. It is taken before the mmap lock (by PIN), and user memory
 * is copied while it is held; nothing takes it with the mmap lock held.
 */
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "driver.h"

/* Base pages of one get_user_pages call: what a 128 MiB chunk needs, so that a signal is seen now and then. */
#define BATCH_PAGES	32768UL

struct context {
	struct mutex lock;	/* covers what follows */
	struct page **pages;	/* NULL: holds nothing */
	unsigned long nr_pages;
	unsigned long first;	/* offset of the first byte in pages[0] */
	u64 bytes;
	unsigned int flags;	/* HUGEPIN_TEST_PIN_* they were taken with */
	struct import *import;	/* whose pages these are; NULL: they were pinned */
};

/* Number of base pages that [addr, addr + bytes) touches, or an error; nothing else is assumed about the range. */
static long range_pages(u64 addr, u64 bytes)
{
	u64 end;

	if (!bytes)
		return -EINVAL;
	if (bytes > HUGEPIN_TEST_BYTES_MAX)
		return -ERANGE;
	if (check_add_overflow(addr, bytes, &end) || end > TASK_SIZE_MAX)
		return -EFAULT;
	return DIV_ROUND_UP(offset_in_page(addr) + bytes, PAGE_SIZE);
}

static long take_batch(unsigned long addr, unsigned long nr, unsigned int flags, struct page **pages)
{
	long got;

	if (flags & HUGEPIN_TEST_PIN_FAST) {
		if (flags & HUGEPIN_TEST_PIN_GET)
			return get_user_pages_fast(addr, nr, FOLL_WRITE, pages);
		return pin_user_pages_fast(addr, nr, FOLL_WRITE | FOLL_LONGTERM, pages);
	}
	if (mmap_read_lock_killable(current->mm))
		return -EINTR;
	if (flags & HUGEPIN_TEST_PIN_GET)
		got = compat_get_user_pages(addr, nr, FOLL_WRITE, pages);
	else
		got = compat_pin_user_pages(addr, nr, FOLL_WRITE | FOLL_LONGTERM, pages);
	mmap_read_unlock(current->mm);
	return got;
}

static void drop_pages(struct page **pages, unsigned long nr, unsigned int flags)
{
	unsigned long i;

	if (!(flags & HUGEPIN_TEST_PIN_GET)) {
		unpin_user_pages_dirty_lock(pages, nr, true);
		return;
	}
	for (i = 0; i < nr; i++) {
		put_page(pages[i]);
		if (!(i % BATCH_PAGES))
			cond_resched();
	}
}

/* Fills @pages with references to @nr pages from @addr on, or takes none. */
static int take_pages(unsigned long addr, unsigned long nr, unsigned int flags, struct page **pages)
{
	unsigned long done = 0;
	long got;

	while (done < nr) {
		if (fatal_signal_pending(current)) {
			got = -EINTR;
			goto undo;
		}
		got = take_batch(addr + done * PAGE_SIZE, min(nr - done, BATCH_PAGES), flags, pages + done);
		if (!got)
			got = -EFAULT;
		if (got < 0)
			goto undo;
		done += got;
		cond_resched();
	}
	return 0;

undo:
	drop_pages(pages, done, flags);
	return got;
}

static unsigned long count_runs(struct page **pages, unsigned long nr)
{
	unsigned long i, runs = 1;

	for (i = 1; i < nr; i++)
		runs += page_to_pfn(pages[i]) != page_to_pfn(pages[i - 1]) + 1;
	return runs;
}

static long context_pin(struct context *context, void __user *argument)
{
	struct hugepin_test_pin pin;
	struct page **pages;
	long nr, ret;

	lockdep_assert_held(&context->lock);
	if (copy_from_user(&pin, argument, sizeof(pin)))
		return -EFAULT;
	if (pin.size != sizeof(pin) || (pin.flags & ~HUGEPIN_TEST_PIN_FLAGS))
		return -EINVAL;
	if (context->pages)
		return -EBUSY;
	nr = range_pages(pin.addr, pin.bytes);
	if (nr < 0)
		return nr;

	pages = kvmalloc_array(nr, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	ret = take_pages(pin.addr & PAGE_MASK, nr, pin.flags, pages);
	if (ret)
		goto free;
	pin.pages = nr;
	pin.runs = count_runs(pages, nr);
	if (copy_to_user(argument, &pin, sizeof(pin))) {
		ret = -EFAULT;
		goto drop;
	}
	context->pages = pages;
	context->nr_pages = nr;
	context->first = offset_in_page(pin.addr);
	context->bytes = pin.bytes;
	context->flags = pin.flags;
	return 0;

drop:
	drop_pages(pages, nr, pin.flags);
free:
	kvfree(pages);
	return ret;
}

static long context_unpin(struct context *context)
{
	if (!context->pages || context->import)
		return -ENODATA;
	drop_pages(context->pages, context->nr_pages, context->flags);
	kvfree(context->pages);
	context->pages = NULL;
	return 0;
}

static long context_import(struct context *context, void __user *argument)
{
	struct hugepin_test_import request;
	struct import *import;
	struct page **pages;

	lockdep_assert_held(&context->lock);
	if (copy_from_user(&request, argument, sizeof(request)))
		return -EFAULT;
	if (request.size != sizeof(request) || request.flags)
		return -EINVAL;
	if (context->pages)
		return -EBUSY;
	import = import_begin(&request, &pages);
	if (IS_ERR(import))
		return PTR_ERR(import);
	if (copy_to_user(argument, &request, sizeof(request))) {
		import_end(import);
		kvfree(pages);
		return -EFAULT;
	}
	context->import = import;
	context->pages = pages;
	context->nr_pages = request.bytes >> PAGE_SHIFT;
	context->first = 0;
	context->bytes = request.bytes;
	return 0;
}

static long context_unmap(struct context *context)
{
	if (!context->import)
		return -ENODATA;
	import_end(context->import);
	context->import = NULL;
	kvfree(context->pages);
	context->pages = NULL;
	return 0;
}

static long context_io(struct context *context, void __user *argument, bool write)
{
	struct hugepin_test_io io;
	u64 position, end, done;

	lockdep_assert_held(&context->lock);
	if (copy_from_user(&io, argument, sizeof(io)))
		return -EFAULT;
	if (io.size != sizeof(io) || io.flags || !io.bytes)
		return -EINVAL;
	if (!context->pages)
		return -ENODATA;
	if (check_add_overflow(io.offset, io.bytes, &end) || end > context->bytes)
		return -ERANGE;

	for (done = 0; done < io.bytes;) {
		void __user *buffer = u64_to_user_ptr(io.buffer + done);
		unsigned long left, length;
		void *kernel;

		position = context->first + io.offset + done;
		length = min_t(u64, io.bytes - done, PAGE_SIZE - offset_in_page(position));
		kernel = kmap_local_page(context->pages[position >> PAGE_SHIFT]) + offset_in_page(position);
		left = write ? copy_from_user(kernel, buffer, length) : copy_to_user(buffer, kernel, length);
		kunmap_local(kernel);
		if (left)
			return -EFAULT;
		if (fatal_signal_pending(current))
			return -EINTR;
		done += length;
		cond_resched();
	}
	return 0;
}

/* @answer->size, flags, addr and bytes are checked; @pages are referenced. */
static void describe_pages(struct hugepin_test_pages *answer, struct page **pages, unsigned long nr)
{
	struct folio *folio = page_folio(pages[0]);
	unsigned long i;
	long own = 0;

	answer->runs = count_runs(pages, nr);
	answer->order = folio_order(folio);
	answer->node = page_to_nid(pages[0]);
	answer->other = 0;
	for (i = 0; i < nr; i++) {
		answer->other += page_to_nid(pages[i]) != answer->node;
		own += page_folio(pages[i]) == folio;
	}
	answer->refs = (s64)folio_ref_count(folio) - own;
}

static long query_pages(void __user *argument)
{
	struct hugepin_test_pages answer;
	struct page **pages;
	long nr, ret;

	if (copy_from_user(&answer, argument, sizeof(answer)))
		return -EFAULT;
	if (answer.size != sizeof(answer) || answer.flags)
		return -EINVAL;
	nr = range_pages(answer.addr, answer.bytes);
	if (nr < 0)
		return nr;
	pages = kvmalloc_array(nr, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	ret = take_pages(answer.addr & PAGE_MASK, nr, HUGEPIN_TEST_PIN_GET, pages);
	if (!ret) {
		describe_pages(&answer, pages, nr);
		drop_pages(pages, nr, HUGEPIN_TEST_PIN_GET);
		if (copy_to_user(argument, &answer, sizeof(answer)))
			ret = -EFAULT;
	}
	kvfree(pages);
	return ret;
}

static long test_ioctl(struct file *file, unsigned int command, unsigned long value)
{
	struct context *context = file->private_data;
	void __user *argument = (void __user *)value;
	long ret;

	if (command == HUGEPIN_TEST_IOC_PAGES)
		return query_pages(argument);
	if (command == HUGEPIN_TEST_IOC_POISON)
		return poison(argument);
	if (mutex_lock_killable(&context->lock))
		return -EINTR;
	switch (command) {
	case HUGEPIN_TEST_IOC_PIN:
		ret = context_pin(context, argument);
		break;
	case HUGEPIN_TEST_IOC_READ:
	case HUGEPIN_TEST_IOC_WRITE:
		ret = context_io(context, argument, command == HUGEPIN_TEST_IOC_WRITE);
		break;
	case HUGEPIN_TEST_IOC_UNPIN:
		ret = context_unpin(context);
		break;
	case HUGEPIN_TEST_IOC_IMPORT:
		ret = context_import(context, argument);
		break;
	case HUGEPIN_TEST_IOC_UNMAP:
		ret = context_unmap(context);
		break;
	default:
		ret = -ENOTTY;
	}
	mutex_unlock(&context->lock);
	return ret;
}

static int test_open(struct inode *inode, struct file *file)
{
	struct context *context = kzalloc(sizeof(*context), GFP_KERNEL);

	if (!context)
		return -ENOMEM;
	mutex_init(&context->lock);
	file->private_data = context;
	return nonseekable_open(inode, file);
}

static int test_release(struct inode *inode, struct file *file)
{
	struct context *context = file->private_data;

	if (context->import)
		context_unmap(context);
	else
		context_unpin(context);
	mutex_destroy(&context->lock);
	kfree(context);
	return 0;
}

static const struct file_operations test_fops = {
	.owner		= THIS_MODULE,
	.open		= test_open,
	.release	= test_release,
	.unlocked_ioctl	= test_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

static struct miscdevice test_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "hugepin_test",
	.fops	= &test_fops,
	.mode	= 0666,
};

static int __init test_init(void)
{
	return misc_register(&test_device);
}

static void __exit test_exit(void)
{
	misc_deregister(&test_device);
	refuse_nothing();
}

module_init(test_init);
module_exit(test_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("hugepin self-tests: a stand-in for a driver that pins user memory and imports dma-bufs");
