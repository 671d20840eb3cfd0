// SPDX-License-Identifier: GPL-2.0
/*
 * Open files of a region, and areas that map it. What every memory call does to one stands in Documentation/mapping.md;
 * why it is done this way, and what went wrong with the others, too.
 *
 * The inode is a character inode with S_DAX, so that huge entries can be pinned. A region's page array never changes
 * and outlives every area, so faults take no lock.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/timekeeping.h>

#include "compat.h"
#include "hugepin.h"

#define FAULT_AROUND	(16 * PMD_SIZE)

static struct hugepin_region *file_region(const struct file *file)
{
	return file_inode(file)->i_private;
}

/* Each entry may hold a reference, and so may pipes: refuse before the count wraps, which only an attack gets to. */
static bool crowded(struct page *page)
{
	return page_ref_count(compound_head(page)) > INT_MAX / 2;
}

/* What a touch of @page is answered with, or 0. @sub: the base page touched; the whole huge page is lost with it. */
static vm_fault_t refusal(const struct vm_area_struct *vma, struct hugepin_page *page, unsigned long sub)
{
	if (!page || crowded(page->page))
		return VM_FAULT_SIGBUS;
	if (unlikely(hugepin_page_poisoned(page->page + sub)) && hugepin_reserve_mark_faulty(page))
		hugepin_region_unmap(file_region(vma->vm_file), page);
	return READ_ONCE(page->faulty) ? VM_FAULT_HWPOISON : 0;
}

static vm_fault_t insert_entry(struct vm_fault *vmf, struct hugepin_page *page, unsigned long sub, unsigned int order)
{
	bool write = vmf->flags & FAULT_FLAG_WRITE;
	unsigned int class = page->reserve->class;
	vm_fault_t ret;

	if (order == HUGEPIN_ORDER_2M && (class == HUGEPIN_CLASS_2M || HUGEPIN_PMD_OF_1G))
		return hugepin_insert_pmd(vmf, page->page + sub, write);
	if (order == HUGEPIN_ORDER_1G && class == HUGEPIN_CLASS_1G) {
		ret = hugepin_insert_pud(vmf, page->page, write);
		WRITE_ONCE(file_region(vmf->vma->vm_file)->fault_1g, (__force unsigned int)ret);
		return ret;
	}
	return VM_FAULT_FALLBACK;
}

static vm_fault_t insert_huge(struct vm_fault *vmf, pgoff_t index, unsigned int order)
{
	struct hugepin_region *region = file_region(vmf->vma->vm_file);
	struct hugepin_page *page;
	unsigned long sub;
	vm_fault_t ret;

	page = hugepin_region_page(region, index, &sub);
	ret = refusal(vmf->vma, page, sub);
	if (ret)
		return ret;
	ret = insert_entry(vmf, page, sub, order);
	smp_mb();	/* the entry is there before this is read; who sets it then looks for entries */
	if (unlikely(READ_ONCE(page->faulty)))	/* heard of since: who took the entries away may have been too early */
		hugepin_region_unmap(region, page);
	return ret;
}

/*
 * The pages are there and zeroed, so one fault answers for its neighbours as well: more than half of what it costs is
 * not the entry. Aligned, so that all are in the table that @vmf->pmd points into. As for a read: who tracks writes is
 * told of none that was not made, and an entry that others made meanwhile is left alone.
 */
static void insert_around(const struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long addr = max(ALIGN_DOWN(vmf->address, FAULT_AROUND), ALIGN(vma->vm_start, PMD_SIZE));
	unsigned long end = min(ALIGN_DOWN(vmf->address, FAULT_AROUND) + FAULT_AROUND, vma->vm_end);

	for (; addr + PMD_SIZE <= end; addr += PMD_SIZE) {
		struct vm_fault neighbour = {
			.vma = vma,
			.address = addr,
			.flags = vmf->flags & ~FAULT_FLAG_WRITE,
			.pmd = vmf->pmd - pmd_index(vmf->address) + pmd_index(addr),
		};

		if (pmd_none(READ_ONCE(*neighbour.pmd)))
			insert_huge(&neighbour, linear_page_index(vma, addr), HUGEPIN_ORDER_2M);
	}
}

static vm_fault_t region_huge_fault(struct vm_fault *vmf, hugepin_entry_size entry)
{
	const unsigned int order = hugepin_entry_order(entry);
	const unsigned long size = PAGE_SIZE << order, base = vmf->address & ~(size - 1);
	struct vm_area_struct *vma = vmf->vma;
	vm_fault_t ret;
	pgoff_t index;

	if (base < vma->vm_start || base + size > vma->vm_end)
		return VM_FAULT_FALLBACK;
	if (order == HUGEPIN_ORDER_1G && !(vma->vm_flags & VM_ACCESS_FLAGS))	/* see region_mprotect() */
		return VM_FAULT_FALLBACK;
	index = linear_page_index(vma, base);
	if (!IS_ALIGNED(index, 1UL << order))	/* moved out of step: base entries only */
		return VM_FAULT_FALLBACK;
	ret = insert_huge(vmf, index, order);
	if (ret == VM_FAULT_NOPAGE && order == HUGEPIN_ORDER_2M)
		insert_around(vmf);
	return ret;
}

/* Base entries: out of step, or huge ones are not allowed here (MADV_NOHUGEPAGE, PR_SET_THP_DISABLE, THP "never"). */
static vm_fault_t region_fault(struct vm_fault *vmf)
{
	struct hugepin_page *page;
	unsigned long sub;
	vm_fault_t ret;

	page = hugepin_region_page(file_region(vmf->vma->vm_file), vmf->pgoff, &sub);
	ret = refusal(vmf->vma, page, sub);
	return ret ?: hugepin_insert_pte(vmf, page->page + sub);
}

/* An area never begins or ends inside a page. */
static int region_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	unsigned long sub;

	if (hugepin_region_page(file_region(vma->vm_file), linear_page_index(vma, addr), &sub) && sub)
		return -EINVAL;
	return 0;
}

/*
 * 1G entries go before access does, and none is made without. The core would keep them as PROT_NONE entries, which its
 * pud_present() takes for absent ones: the next mprotect() would warn of that. A page comes back with the next touch
 * that is allowed.
 */
static int region_mprotect(struct vm_area_struct *vma, unsigned long start, unsigned long end, unsigned long newflags)
{
	const struct hugepin_region *region = file_region(vma->vm_file);
	u64 from = (u64)linear_page_index(vma, start) << PAGE_SHIFT, below = (u64)region->nr_1g << PUD_SHIFT;
	u64 to = min(round_up(from + (end - start), PUD_SIZE), below);

	if (newflags & VM_ACCESS_FLAGS || from >= below)
		return 0;
	hugepin_vma_lock(vma);		/* until access is gone no fault makes one anew */
	/* whole pages, in all areas: of another's entry the core must not be asked to take away a part (6.12 warns) */
	from = round_down(from, PUD_SIZE);
	unmap_mapping_range(region->inode->i_mapping, from, to - from, 1);
	return 0;
}

/* More areas of one that there is: its file is open. */
static void area_open(struct vm_area_struct *vma)
{
	atomic64_inc(&file_region(vma->vm_file)->mappings);
}

static void area_close(struct vm_area_struct *vma)
{
	atomic64_dec(&file_region(vma->vm_file)->mappings);
}

static const struct vm_operations_struct region_vm_ops = {
	.open		= area_open,
	.close		= area_close,
	.fault		= region_fault,
	.huge_fault	= region_huge_fault,
	.may_split	= region_may_split,
	.mprotect	= region_mprotect,
};

/*
 * Chooses an address in step with the offset for the largest page mapped. MAP_FIXED on a region with 1G pages needs
 * MAP_FIXED_NOREPLACE or MAP_SHARED_VALIDATE with it: mremap() comes here with MAP_FIXED | MAP_SHARED, and the core
 * moves a 1G entry without a TLB flush, which is a use after free.
 */
static unsigned long region_get_area(struct file *file, unsigned long hint, unsigned long len, unsigned long pgoff,
				     unsigned long flags)
{
	const struct hugepin_region *region = file_region(file);
	unsigned long align = PMD_SIZE, addr;
	u64 offset = (u64)pgoff << PAGE_SHIFT;

	if (flags & MAP_FIXED) {
		if (region->nr_1g && !(flags & MAP_FIXED_NOREPLACE) && (flags & MAP_TYPE) != MAP_SHARED_VALIDATE)
			return -EINVAL;
		return hint;
	}
	if (len >= PUD_SIZE && offset < region->nr_1g << PUD_SHIFT)
		align = PUD_SIZE;
	if (len > TASK_SIZE - align)
		return -ENOMEM;
	if (hint && !((hint - offset) & (align - 1))) {
		addr = hugepin_find_area(hint, len, flags);
		if (addr == hint)
			return addr;
	}
	addr = hugepin_find_area(0, len + align, flags);
	if (IS_ERR_VALUE(addr))
		return addr;
	return addr + ((offset - addr) & (align - 1));
}

/* @in_step: refuse an address at which no huge entry is possible. */
int hugepin_region_map_area(const struct file *file, struct vm_area_struct *vma, bool in_step)
{
	const u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT, len = vma->vm_end - vma->vm_start;
	struct hugepin_region *region = file_region(file);
	const u64 bytes = hugepin_region_bytes(region);

	if (!(vma->vm_flags & VM_MAYSHARE))	/* VM_SHARED is off where the file is open for reading only */
		return -EINVAL;
	if (!IS_ALIGNED(offset | len | (in_step ? vma->vm_start : 0), PMD_SIZE))
		return -EINVAL;
	if (offset > bytes || len > bytes - offset)
		return -EINVAL;
	atomic64_inc(&region->mappings);	/* area_close() undoes it: nothing may fail from here on */
	WRITE_ONCE(region->used_ns, ktime_get_real_ns());
	vma->vm_ops = &region_vm_ops;
	hugepin_vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP | VM_HUGEPAGE | HUGEPIN_VM_FLAGS);
	return 0;
}

static int region_mmap(struct file *file, struct vm_area_struct *vma)
{
	file_accessed(file);
	return hugepin_region_map_area(file, vma, true);
}

void hugepin_region_opened(struct hugepin_region *region)
{
	atomic64_inc(&region->opens);
	WRITE_ONCE(region->used_ns, ktime_get_real_ns());
}

static int region_open(struct inode *inode, struct file *file)
{
	hugepin_region_opened(inode->i_private);
	return 0;
}

static int region_release(struct inode *inode, struct file *file)
{
	struct hugepin_region *region = inode->i_private;

	atomic64_dec(&region->opens);
	return 0;
}

const struct file_operations hugepin_region_fops = {
	.owner		= THIS_MODULE,
	.open		= region_open,
	.release	= region_release,
	.mmap		= region_mmap,
	.get_unmapped_area = region_get_area,
	.unlocked_ioctl	= hugepin_region_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.fsync		= noop_fsync,
	.llseek		= generic_file_llseek,
};
