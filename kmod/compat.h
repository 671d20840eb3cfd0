/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where kernels differ, and nowhere else: every #if on a kernel feature is in this file. HAVE_* comes from features.sh.
 *
 * Two styles of mapping exist (Documentation/mapping.md has the why):
 * - folio inserts: entries take references and account as file memory; no VM_MIXEDMAP.
 * - pfn inserts with VM_MIXEDMAP: entries take no reference, so the region must outlive every mapping. It does: an area
 *   holds its file, the file its inode, the inode the region.
 */
#ifndef HUGEPIN_COMPAT_H
#define HUGEPIN_COMPAT_H

#ifndef HAVE_PROBED
#error "features.sh did not run: without it this would silently build for the oldest kernel"
#endif

#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/namei.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <asm/dma.h>
#ifdef CONFIG_X86_MCE
#include <asm/mce.h>
#endif
#ifndef HAVE_FOLIO_INSERT
#include <linux/pfn_t.h>
#endif

/* ---- huge faults ---- */

#ifdef HAVE_HUGE_FAULT_ORDER
typedef unsigned int hugepin_entry_size;

static inline unsigned int hugepin_entry_order(hugepin_entry_size size)
{
	return size;
}
#else
typedef enum page_entry_size hugepin_entry_size;

static inline unsigned int hugepin_entry_order(hugepin_entry_size size)
{
	return size == PE_SIZE_PUD ? PUD_SHIFT - PAGE_SHIFT : size == PE_SIZE_PMD ? PMD_SHIFT - PAGE_SHIFT : 0;
}
#endif

#ifdef HAVE_FOLIO_INSERT
#define HUGEPIN_VM_FLAGS	0
#define HUGEPIN_PMD_OF_1G	false	/* the core maps whole folios only */

static inline vm_fault_t hugepin_insert_pmd(struct vm_fault *vmf, struct page *page, bool write)
{
	return vmf_insert_folio_pmd(vmf, page_folio(page), write);
}

static inline vm_fault_t hugepin_insert_pud(struct vm_fault *vmf, struct page *page, bool write)
{
	return vmf_insert_folio_pud(vmf, page_folio(page), write);
}

/* @page may be a tail page; the core maps what .fault returns and keeps the reference. */
static inline vm_fault_t hugepin_insert_pte(struct vm_fault *vmf, struct page *page)
{
	get_page(page);
	vmf->page = page;
	return 0;
}
#else
#define HUGEPIN_VM_FLAGS	VM_MIXEDMAP
#define HUGEPIN_PMD_OF_1G	true	/* 2M entries may point into a 1G page */

static inline vm_fault_t hugepin_insert_pmd(struct vm_fault *vmf, struct page *page, bool write)
{
	return vmf_insert_pfn_pmd(vmf, page_to_pfn_t(page), write);
}

/* Never a 1G entry where 1G pages cannot be had: pinning one spins on 6.1. */
static inline vm_fault_t hugepin_insert_pud(struct vm_fault *vmf, struct page *page, bool write)
{
#ifdef HAVE_CONTIG_COMPOUND
	return vmf_insert_pfn_pud(vmf, page_to_pfn_t(page), write);
#else
	return VM_FAULT_FALLBACK;
#endif
}

/* In a VM_MIXEDMAP area .fault must not return a page: unmapping would not drop its reference. */
static inline vm_fault_t hugepin_insert_pte(struct vm_fault *vmf, struct page *page)
{
	int err = vm_insert_page(vmf->vma, vmf->address, page);

	/* another thread was first */
	if (err && err != -EBUSY)
		return vmf_error(err);
	return VM_FAULT_NOPAGE;
}
#endif

static inline void hugepin_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#ifdef HAVE_VM_FLAGS_SET
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

/* Until the mmap lock, which is held for writing, is let go. Without locks of areas that one is enough. */
static inline void hugepin_vma_lock(struct vm_area_struct *vma)
{
#ifdef HAVE_VM_FLAGS_SET
	vma_start_write(vma);
#endif
}

static inline unsigned long hugepin_find_area(unsigned long hint, unsigned long len, unsigned long flags)
{
#if defined(HAVE_MM_UNMAPPED_AREA)
	return mm_get_unmapped_area(NULL, hint, len, 0, flags);
#elif defined(HAVE_MM_UNMAPPED_AREA_MM)
	return mm_get_unmapped_area(current->mm, NULL, hint, len, 0, flags);
#else
	return current->mm->get_unmapped_area(NULL, hint, len, 0, flags);
#endif
}

/*
 * References on a page of ours beyond the baseline and those that page-table entries hold: what others have taken. No
 * entry but a base one takes a reference where huge entries are pfn inserts, and none is counted in the compound page's
 * own mapcount there.
 */
static inline long hugepin_page_refs(struct page *page, unsigned int order)
{
	long refs = page_ref_count(page) - 1L;
#ifdef HAVE_FOLIO_MAPCOUNT
	return refs - folio_mapcount(page_folio(page));
#else
	unsigned long i;

	for (i = 0; refs > 0 && i < 1UL << order; i++)
		refs -= atomic_read(&page[i]._mapcount) + 1;
	return refs;
#endif
}

/* Through the slow walk, under the mmap lock. */
static inline long hugepin_pin_slowly(unsigned long addr, unsigned int flags, struct page **page)
{
	long ret;

	mmap_read_lock(current->mm);
#ifdef HAVE_PIN_AREAS
	ret = pin_user_pages(addr, 1, flags, page, NULL);
#else
	ret = pin_user_pages(addr, 1, flags, page);
#endif
	mmap_read_unlock(current->mm);
	return ret;
}

/* ---- 1G pages from the page allocator ---- */

#if defined(HAVE_CONTIG_FROZEN) && defined(CONFIG_CONTIG_ALLOC)
#define HUGEPIN_HAVE_1G		1
/* A compound page of @order on @node with one reference, or NULL. The allocator looks for the range. */
static inline struct page *hugepin_alloc_contig(int node, unsigned int order, gfp_t gfp, unsigned long *cursor,
						const bool *stop)
{
	nodemask_t mask = nodemask_of_node(node);
	struct page *page = alloc_contig_frozen_pages(1UL << order, gfp, node, &mask);

	if (page)
		set_page_count(page, 1);
	return page;
}
#elif defined(HAVE_CONTIG_COMPOUND) && defined(CONFIG_CONTIG_ALLOC)
#define HUGEPIN_HAVE_1G		1
/* Only ranges can be asked for here: try each aligned one from *@cursor on, so that a failed one is not tried again. */
static inline bool hugepin_contig_may_work(int node, unsigned long pfn, unsigned long pages)
{
	struct page *first = pfn_to_online_page(pfn), *page;
	unsigned long i;

	/* spans of nodes may interleave */
	if (!first || page_to_nid(first) != node || zone_idx(page_zone(first)) == ZONE_MOVABLE)
		return false;
	for (i = 0; i < pages; i += pageblock_nr_pages) {
		page = pfn_to_online_page(pfn + i);
		if (!page || page_zone(page) != page_zone(first))
			return false;
	}
	for (i = 0; i < pages; i++) {
		page = pfn_to_page(pfn + i);
		if (PageReserved(page) || PageHuge(page))
			return false;
	}
	return true;
}

static inline struct page *hugepin_contig_between(int node, unsigned long start, unsigned long end, unsigned long pages,
						  gfp_t gfp, unsigned long *cursor, const bool *stop)
{
	unsigned long pfn = ALIGN(max(*cursor, start), pages);

	for (; pfn + pages <= end && !signal_pending(current) && !READ_ONCE(*stop); pfn += pages) {
		*cursor = pfn + pages;
		if (hugepin_contig_may_work(node, pfn, pages) &&
		    !alloc_contig_range(pfn, pfn + pages, MIGRATE_MOVABLE, gfp))
			return pfn_to_page(pfn);
		cond_resched();
	}
	return NULL;
}

/* What devices of 32 address bits can reach comes last, as where the allocator looks for the range. */
static inline struct page *hugepin_alloc_contig(int node, unsigned int order, gfp_t gfp, unsigned long *cursor,
						const bool *stop)
{
	unsigned long pages = 1UL << order, start = max(node_start_pfn(node), 1UL), end = node_end_pfn(node);
	unsigned long high = max(start, MAX_DMA32_PFN);
	struct page *page;

	if (!*cursor || *cursor >= high) {
		page = hugepin_contig_between(node, high, end, pages, gfp, cursor, stop);
		if (page)
			return page;
		*cursor = start;
	}
	return hugepin_contig_between(node, start, min(end, high), pages, gfp, cursor, stop);
}
#else
#define HUGEPIN_HAVE_1G		0
static inline struct page *hugepin_alloc_contig(int node, unsigned int order, gfp_t gfp, unsigned long *cursor,
						const bool *stop)
{
	return NULL;
}
#endif

/* ---- names in a directory ---- */

/*
 * hugepin_name_begin() locks the directory and gives a negative dentry for a new name, or an error (EEXIST).
 * hugepin_name_make() hangs @inode (whose reference it takes) under it, to stay until unlinked.
 * hugepin_name_end() unlocks and drops the dentry, whether or not something was made.
 */
static inline void hugepin_name_end(struct file *dir, struct dentry *dentry)
{
#ifdef HAVE_START_CREATING
	end_creating(dentry);
#else
	inode_unlock(file_inode(dir));
	dput(dentry);
#endif
}

static inline struct dentry *hugepin_name_begin(struct file *dir, const char *name, size_t len)
{
	struct dentry *dentry;

#ifdef HAVE_START_CREATING
	dentry = start_creating(file_mnt_idmap(dir), dir->f_path.dentry, &QSTR_LEN(name, len));
	if (IS_ERR(dentry))
		return dentry;
#else
	struct inode *inode = file_inode(dir);

	inode_lock_nested(inode, I_MUTEX_PARENT);
	dentry = IS_DEADDIR(inode) ? ERR_PTR(-ENOENT) : lookup_one_len(name, dir->f_path.dentry, len);
	if (IS_ERR(dentry)) {
		inode_unlock(inode);
		return dentry;
	}
#endif
	/* neither of them refuses a name that exists */
	if (d_really_is_positive(dentry)) {
		hugepin_name_end(dir, dentry);
		return ERR_PTR(-EEXIST);
	}
	return dentry;
}

static inline void hugepin_name_make(struct dentry *dentry, struct inode *inode)
{
#ifdef HAVE_PERSISTENT_DENTRY
	d_make_persistent(dentry, inode);
#else
	d_instantiate(dentry, inode);
	dget(dentry);
#endif
}

/* Defines the inode operation @name as what @make(dir, dentry, mode) does; its shape changed twice. */
#if defined(HAVE_MKDIR_DENTRY)
#define HUGEPIN_MKDIR(name, make)									\
static struct dentry *name(struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode)	\
{													\
	return ERR_PTR(make(dir, dentry, mode));							\
}
#elif defined(HAVE_MNT_IDMAP)
#define HUGEPIN_MKDIR(name, make)									\
static int name(struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode)	\
{													\
	return make(dir, dentry, mode);									\
}
#else
#define HUGEPIN_MKDIR(name, make)									\
static int name(struct user_namespace *ns, struct inode *dir, struct dentry *dentry, umode_t mode)	\
{													\
	return make(dir, dentry, mode);									\
}
#endif

static inline void hugepin_kill_super(struct super_block *sb)
{
#ifdef HAVE_PERSISTENT_DENTRY
	kill_anon_super(sb);
#else
	kill_litter_super(sb);
#endif
}

/* Owner and group as for any new inode: a directory with the set-group-id bit gives its group. */
static inline void hugepin_inode_init_owner(struct inode *inode, const struct inode *dir, umode_t mode)
{
#ifdef HAVE_MNT_IDMAP
	inode_init_owner(&nop_mnt_idmap, inode, dir, mode);
#else
	inode_init_owner(&init_user_ns, inode, dir, mode);
#endif
}

/* ---- symbol namespaces ---- */

#ifdef HAVE_IMPORT_NS_STRING
#define HUGEPIN_IMPORT_NS(name)	MODULE_IMPORT_NS(#name)
#else
#define HUGEPIN_IMPORT_NS(name)	MODULE_IMPORT_NS(name)
#endif

/* ---- the dmem controller ---- */

#if defined(HAVE_DMEM) && defined(CONFIG_CGROUP_DMEM)
#include <linux/cgroup_dmem.h>
#define HUGEPIN_HAVE_DMEM	1

static inline struct dmem_cgroup_region *hugepin_dmem_register(u64 bytes, int node)
{
#ifdef HAVE_DMEM_INIT
	const struct dmem_cgroup_init init = { .size = bytes };

	return dmem_cgroup_register_region(&init, "hugepin/node%d", node);
#else
	return dmem_cgroup_register_region(bytes, "hugepin/node%d", node);
#endif
}
#endif

/* ---- times ---- */

static inline void hugepin_inode_init_times(struct inode *inode)
{
#ifdef HAVE_INODE_TS
	simple_inode_init_ts(inode);
#else
	inode->i_atime = current_time(inode);
	inode->i_mtime = inode->i_atime;
	inode->i_ctime = inode->i_atime;
#endif
}

static inline void hugepin_inode_touch(struct inode *inode)
{
#ifdef HAVE_INODE_TS
	inode_set_mtime_to_ts(inode, inode_set_ctime_current(inode));
#else
	inode->i_ctime = current_time(inode);
	inode->i_mtime = inode->i_ctime;
#endif
}

#endif /* HUGEPIN_COMPAT_H */
