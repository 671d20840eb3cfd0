/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inside the hugepin module. Prototypes are grouped under the file that defines them.
 *
 * Lifetimes: who holds whom, what ends what.
 *
 *   page      struct hugepin_page, one for each huge page the module holds. Born when the reserve grows, ended when it
 *             shrinks or the module goes. Holds one reference on its struct page, the baseline. It is in exactly one
 *             state; the reserve's lock guards the state, the list it is on and the counters.
 *   region    struct hugepin_region, an array of pages in use. Made by CREATE, owned by its inode (i_private), ended by
 *             evict_inode. The array never changes, so faults take no lock.
 *   inode     held by its dentry (named: by the name, until unlinked; unnamed: by the files alone) and by open files.
 *   file      held by descriptors, by areas (a mapping holds its file), by whatever else the kernel passes files in.
 *   mapping   an area (VMA); holds its file, hence the inode, hence the region: a page cannot leave its region while an
 *             entry points to it. The file is put after the TLB flush of the unmapping.
 *   pins      references on a struct page taken by others (get_user_pages, pipes, sockets). They outlive all of the
 *             above. When a region ends, a page whose count is above the baseline goes to quarantine, and to the dirty
 *             list once the count is back. folio->mapping is cleared under the folio lock before, so that a late
 *             set_page_dirty_lock() finds no dead inode; it is set without, while nobody else has the page.
 *   range     a pinned range (pin.c): pins on the caller's own pages, whatever they are, and what they are booked with
 *             at the user's account. Both belong to its file, and never change until that ends; the range's mapping
 *             and process may be long gone.
 *   dma-buf   holds the file of a region or a pinned range, and so all of the above. Held by its descriptors and by
 *             importers; an area that maps one holds the region's file itself.
 *   charge    what a user (and a mount with limits) holds. Belongs to the page: made at CREATE, ended when the page is
 *             free again, after quarantine. A page holds references on its accounts; an account of a mount outlives it.
 *   module    held by: open descriptors of /dev/hugepin, of regions and of pinned ranges (f_op->owner), by dma-bufs,
 *             and by every superblock of hugepinfs (file_system_type.owner), so by every mount, every name and every
 *             unnamed region. The hidden mount behind /dev/hugepin exists while somebody has that device open; a region
 *             made there holds the mount through its file. So the module cannot go before the last evict_inode() has
 *             returned, and at exit no page is in use. Quarantined pages do not hold it: their baseline reference is
 *             dropped, the last unpin frees them.
 *
 * Locks, outermost first: resize_mutex, take_mutex, scan_mutex, folio lock, reserve->lock; account_lock nests in none
 * of ours but take_mutex and scan_mutex. A directory's inode lock is held over none of these. The self-test holds
 * resize_mutex and take_mutex over the mmap lock and over a region's beginning and end; no fault takes either of them.
 * Of the two indexes (xarrays) that of pages is locked over reserve->lock, that of regions over none of ours. A
 * dma-buf's own lock may be taken under its reservation lock; none is taken under it. Whoever removes folders of knobs
 * (tree_mutex) waits for those who write to them, and so for all of the above.
 *   resize_mutex  one change of the reserve's size at a time; may be held for long, taken interruptibly
 *   take_mutex    one taker of free pages at a time, so that a plan made from the counters holds when it is carried out
 */
#ifndef HUGEPIN_KMOD_H
#define HUGEPIN_KMOD_H

#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/nodemask.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "uapi/hugepin.h"

#undef pr_fmt
#define pr_fmt(fmt)	"hugepin: " fmt

#define HUGEPIN_ORDER_2M	(PMD_SHIFT - PAGE_SHIFT)
#define HUGEPIN_ORDER_1G	(PUD_SHIFT - PAGE_SHIFT)

static inline unsigned int hugepin_class_order(unsigned int class)
{
	return class == HUGEPIN_CLASS_1G ? HUGEPIN_ORDER_1G : HUGEPIN_ORDER_2M;
}

static inline u64 hugepin_class_bytes(unsigned int class)
{
	return (u64)PAGE_SIZE << hugepin_class_order(class);
}

static inline const char *hugepin_class_name(unsigned int class)
{
	return class == HUGEPIN_CLASS_1G ? "1G" : "2M";
}

enum hugepin_page_state {
	HUGEPIN_CLEAN,		/* on reserve->clean */
	HUGEPIN_DIRTY,		/* on reserve->dirty, or in the hands of the scrubber */
	HUGEPIN_IN_USE,		/* in a region, or on its way into one */
	HUGEPIN_QUARANTINED,	/* on reserve->quarantine */
	HUGEPIN_POISONED,	/* on reserve->poisoned */
	HUGEPIN_STATES,
};

struct hugepin_account;

struct hugepin_page {
	struct list_head link;
	struct page *page;			/* head */
	struct hugepin_reserve *reserve;
	struct hugepin_account *user;		/* charged while in use or quarantined */
	struct hugepin_account *mount;		/* likewise, or NULL */
	struct dmem_cgroup_pool_state *pool;	/* likewise: the cgroup's, or NULL */
	enum hugepin_page_state state;
	bool faulty;				/* set once, under the reserve's lock; never free again */
	unsigned int zero_steps;		/* of 2 MiB, from the start, that are zero and that nobody has seen */
};

/* The pages of one node and class. */
struct hugepin_reserve {
	int node;
	unsigned int class;
	struct kobject *kobj;
	unsigned int user_limit_percent;	/* a knob: read as it stands */

	spinlock_t lock;			/* of the pages' states and of what follows */
	struct list_head clean, dirty, quarantine, poisoned;
	u64 nr[HUGEPIN_STATES];
	u64 scrubbing;				/* of the dirty pages, those in the hands of the scrubber */
	unsigned int hurry;			/* takers waiting for a page that is being scrubbed */
	/* a page came back from the scrubber; for a throttled one: hurry, or the end */
	wait_queue_head_t scrub_wait;

	/* changed under resize_mutex, read without */
	u64 asked;
	unsigned int shortfall;			/* enum hugepin_shortfall_reason: why the last resizing ended early */
	unsigned long cursor;			/* where to look for the next 1G range */
};

enum hugepin_shortfall_reason {
	HUGEPIN_ENOUGH,
	HUGEPIN_AT_FLOOR,			/* the node's last free memory is left alone */
	HUGEPIN_NO_RANGE,			/* no free range of that size, however often looked for */
	HUGEPIN_NO_MEMORY,			/* for the module's own records */
	HUGEPIN_INTERRUPTED,
	HUGEPIN_IN_THE_WAY,			/* shrinking: pages are in use or quarantined */
	HUGEPIN_UNTESTED,			/* the self-test objected or could not be run */
};

#define HUGEPIN_SCRUBBERS	16	/* workers of a node, at most */

struct hugepin_node {
	int id;
	struct hugepin_reserve reserve[HUGEPIN_CLASS_COUNT];
	struct hugepin_scrubber {
		struct work_struct work;
		struct hugepin_node *node;
		struct hugepin_reserve *reserve;	/* of the page in hand */
		u64 due_ns;				/* the next 2 MiB, with a throttle */
	} scrub[HUGEPIN_SCRUBBERS];
	struct kobject *kobj;
};

/* ---- main.c ---- */
extern bool hugepin_stopping;			/* the module is going: long work ends early */
extern unsigned int hugepin_absent[HUGEPIN_CLASS_COUNT];	/* HUGEPIN_ABSENT_* */
extern struct workqueue_struct *hugepin_wq;
const char *hugepin_absent_reason(unsigned int class);
struct vfsmount *hugepin_hidden_mount(void);	/* valid while /dev/hugepin is open, or held */
int hugepin_hidden_mount_get(void);
void hugepin_hidden_mount_put(void);

/* ---- pages.c: huge pages from and to the page allocator ---- */
struct page *hugepin_page_alloc(int node, unsigned int class, unsigned long *cursor, bool *zeroed);
/* Gives it back, unless a part of it is faulty. */
void hugepin_page_free(struct hugepin_page *page);
bool hugepin_page_poisoned(struct page *page);	/* a base page */
/*
 * Zeroes what is not zero yet: 0, -EHWPOISON if a part is faulty, -EINTR if @stop, asked every step, said so; what was
 * done by then stays done. Call it in process context.
 */
int hugepin_page_zero(struct hugepin_page *page, bool (*stop)(void *), void *arg);
unsigned int hugepin_page_steps(const struct hugepin_page *page);	/* all of it, in steps of 2 MiB */
bool hugepin_page_is_zero(const struct hugepin_page *page);
/* Takes the page out of @mapping's sight and off whatever flags its users left. */
void hugepin_page_detach(struct page *page);
bool hugepin_page_idle(struct page *page);	/* nobody but us holds a reference */
u64 hugepin_node_max_pages(int node, unsigned int class);
bool hugepin_node_has_room(int node, unsigned int class, unsigned int pages);	/* for as many, above the floor */

/* ---- reserve.c: states of pages, growing and shrinking ---- */
extern nodemask_t hugepin_nodes_online;		/* nodes with memory, fixed at load */
struct hugepin_node *hugepin_node(int id);	/* NULL: no such node */
#define for_each_hugepin_node(n, id)									\
	for ((id) = first_node(hugepin_nodes_online); (id) < MAX_NUMNODES && ((n) = hugepin_node(id));	\
	     (id) = next_node(id, hugepin_nodes_online))

int hugepin_reserve_init(void);
void hugepin_reserve_exit(void);
void hugepin_reserve_snapshot(struct hugepin_reserve *reserve, struct hugepin_info_pages *out);
u64 hugepin_reserve_free(struct hugepin_reserve *reserve);
u64 hugepin_reserve_total(struct hugepin_reserve *reserve);

/* All but poisoned pages, which are held for good and count for nothing. */
u64 hugepin_reserve_usable(struct hugepin_reserve *reserve);
/* A new page, in the state that it says; and one of ours that leaves, on no list that others see. */
void hugepin_reserve_add(struct hugepin_page *page);
void hugepin_reserve_remove(struct hugepin_page *page);

extern struct mutex hugepin_take_mutex;
/*
 * Takes one free page, clean or dirty ones first; take_mutex held. NULL: none, e.g. the last one turned out faulty.
 * *@waited is set if the scrubber had to bring one back.
 */
struct hugepin_page *hugepin_reserve_take(struct hugepin_reserve *reserve, bool clean_first, bool *waited);
/* Gives back a page that no region has used: clean if it is zero. */
void hugepin_reserve_put(struct hugepin_page *page);
/* Gives back a page of a region that ends: to the dirty list, or to quarantine while others hold it. */
void hugepin_reserve_release(struct hugepin_page *page);
/* The hardware says so: a free page is put aside now, another one when it would be free. False: that is known. */
bool hugepin_reserve_mark_faulty(struct hugepin_page *page);
/* For the scrubber: a dirty page, or NULL; and back, with what zeroing it returned. */
struct hugepin_page *hugepin_reserve_scrub_begin(struct hugepin_reserve *reserve);
void hugepin_reserve_scrub_end(struct hugepin_page *page, int err);
/* Looks through the quarantine now, unless it was just done; also runs by itself while there is any. */
void hugepin_quarantine_check(void);

/* ---- resize.c: growing and shrinking ---- */
/* To @pages: 0, -ERANGE, -ENOMEM (kept what was got), -EBUSY (in use), -EINTR, -EOPNOTSUPP */
int hugepin_reserve_resize(struct hugepin_reserve *reserve, u64 pages);
const char *hugepin_shortfall_text(unsigned int reason);

/* ---- selftest.c: whether this kernel maps and pins 1G pages as it should ---- */
/*
 * With a zeroed page in use that no region has, which it consumes. 0; -EOPNOTSUPP: it objects, which is in the log;
 * another error: it could not be run.
 */
int hugepin_selftest(struct hugepin_page *page);

/* ---- scrub.c: dirty to clean, in the background ---- */
extern bool hugepin_scrub_enabled;
extern unsigned int hugepin_scrub_throttle_mib_s;	/* 0: none */
extern unsigned int hugepin_scrub_workers;		/* of each node; they help growing as well */

/* Since loading. */
extern struct hugepin_figures {
	atomic64_t scrub_bytes, scrub_ns;	/* by all workers, what the throttle made them wait included */
	atomic64_t creations;			/* of regions */
	atomic64_t creations_waited;		/* for a page in the hands of a worker */
	atomic64_t creations_zeroed;		/* by themselves, at least a page */
} hugepin_figures;
void hugepin_scrub_init(struct hugepin_node *node);
void hugepin_scrub_kick(struct hugepin_node *node);
void hugepin_scrub_wake(struct hugepin_node *node);	/* hugepin_scrub_enabled has become false */
void hugepin_scrub_stop(struct hugepin_node *node);

/* ---- account.c: who holds how much ---- */
struct hugepin_account *hugepin_account_user(void);	/* the caller's, with a reference; NULL: no memory */
struct hugepin_account *hugepin_account_mount(const u64 limit[HUGEPIN_CLASS_COUNT]);
void hugepin_account_set_limits(struct hugepin_account *account, const u64 limit[HUGEPIN_CLASS_COUNT]);
void hugepin_account_put(struct hugepin_account *account);
/* Pages a user may still take under @limit; @held: what it or an owner of a user namespace around it holds. */
u64 hugepin_account_room(struct hugepin_account *user, int node, unsigned int class, u64 limit, u64 *held);
u64 hugepin_account_held_class(struct hugepin_account *account, unsigned int class);
u64 hugepin_account_limit(struct hugepin_account *account, unsigned int class);	/* U64_MAX: none */
void hugepin_account_charge(struct hugepin_page *page, struct hugepin_account *user, struct hugepin_account *mount);
void hugepin_account_uncharge(struct hugepin_page *page);
/* The page goes to quarantine: its charge stays until uncharged, and is told apart. */
void hugepin_account_quarantine(struct hugepin_page *page);
/* Users that hold something, after *@cursor, in a fixed order: how many. *@cursor: where to go on, 0 at the end. */
u32 hugepin_account_list(u64 *cursor, struct hugepin_user_entry *entries, u32 room);

/* ---- cgroup.c: the dmem controller, where the kernel has it ---- */
int hugepin_cgroup_init(void);
void hugepin_cgroup_exit(void);
int hugepin_cgroup_charge(struct hugepin_page *page);	/* the caller's; 0, -EDQUOT, -ENOMEM */
void hugepin_cgroup_uncharge(struct hugepin_page *page);

/* What a pin was refused for, in bytes. */
struct hugepin_limit {
	u64 asked, limit, held;
};

/* Books @pages base pages as pinned by @user and the owners around it: 0, or -EDQUOT with @limit->held set. */
int hugepin_account_lock(struct hugepin_account *user, u64 pages, struct hugepin_limit *limit);
void hugepin_account_unlock(struct hugepin_account *user, u64 pages);

/* Base pages that are neighbours in memory. */
struct hugepin_run {
	struct page *page;
	u64 pages;
};

/* ---- region.c: pages chosen and put together ---- */
struct hugepin_request {
	u64 bytes;
	u32 classes;
	u32 flags;			/* HUGEPIN_CREATE_* */
	u32 policy;
	nodemask_t nodes;		/* not empty, all with memory */
	struct hugepin_account *mount;	/* or NULL */
	struct hugepin_shortfall shortfall;	/* out, on -ENOMEM and -EDQUOT */
};

struct hugepin_region {
	u64 nr_1g, nr_2m;
	u64 id;				/* list.c's */
	struct inode *inode;		/* likewise; which owns it */
	u64 created_ns, used_ns;
	atomic64_t opens, mappings;	/* files and areas of it that there are */
	unsigned int fault_1g;		/* the last try to make a 1G entry answered VM_FAULT_*; 0: none was tried */
	bool named;			/* made with a name, whatever became of that */
	kuid_t owner;
	u32 nr_extents;
	struct hugepin_extent *extents;	/* by node, 1G before 2M */
	struct hugepin_page *pages[];	/* nr_1g 1G pages, then nr_2m 2M pages; never changes */
};

/* What is being done with a region. */
struct hugepin_use {
	u64 used_ns, mappings, opens, held_bytes, refs;
};

struct hugepin_region *hugepin_region_make(struct hugepin_request *request);
/* Of one page, charged to nobody; NULL: no memory. */
struct hugepin_region *hugepin_region_of(struct hugepin_page *page);
void hugepin_region_discard(struct hugepin_region *region);	/* nobody has seen it: its pages stay clean */
void hugepin_region_end(struct hugepin_region *region);
u64 hugepin_region_bytes(const struct hugepin_region *region);
/* The page behind @index (in base pages), with the base page within it; NULL past the end. */
struct hugepin_page *hugepin_region_page(const struct hugepin_region *region, pgoff_t index, unsigned long *sub);
u64 hugepin_region_count(void);
/* Takes away all entries for @page: whether it is one of the region's. */
bool hugepin_region_unmap(const struct hugepin_region *region, const struct hugepin_page *page);
/* Calls @each for the pages, in order, until it returns non-zero. */
int hugepin_region_for_each(const struct hugepin_region *region,
			    int (*each)(const struct hugepin_run *run, void *arg), void *arg);
/* Shows the pages to the core as @mapping's, so that futexes and dirtying work. */
void hugepin_region_attach(struct hugepin_region *region, struct address_space *mapping);

/* ---- list.c: all regions, and what is being done with them ---- */
int hugepin_list_add(struct hugepin_region *region, struct inode *inode);
void hugepin_list_remove(struct hugepin_region *region);
void hugepin_region_use(const struct hugepin_region *region, struct hugepin_use *use);
/* Takes away all entries for @page, which may be gone by now: whether a region has it. */
bool hugepin_list_unmap(const struct hugepin_page *page);
/* The calls LIST and USERS. @only: regions of this superblock, NULL for all. */
int hugepin_list_regions(const struct super_block *only, struct hugepin_list *list);
int hugepin_list_users(struct hugepin_users *users);

/* ---- map.c: open files of a region and areas that map it ---- */
extern const struct file_operations hugepin_region_fops;
void hugepin_region_opened(struct hugepin_region *region);
int hugepin_region_map_area(const struct file *file, struct vm_area_struct *vma, bool in_step);

/* ---- pin.c: pinned ranges of the caller's own memory ---- */
struct file *hugepin_pin_make(unsigned long addr, u64 bytes, struct hugepin_limit *limit);
bool hugepin_pin_is(const struct file *file);
u64 hugepin_pin_bytes(const struct file *file);
int hugepin_pin_for_each(const struct file *file, int (*each)(const struct hugepin_run *run, void *arg), void *arg);

/* ---- dmabuf.c: regions and pinned ranges for devices ---- */
struct dma_buf;
struct dma_buf *hugepin_dmabuf_make(struct file *file, u64 offset, u64 bytes);

/* ---- fs.c: hugepinfs ---- */
extern struct file_system_type hugepinfs_type;
bool hugepin_fs_is_dir(const struct file *file);
struct hugepin_account *hugepin_fs_account(const struct file *dir);
/* An inode on @mnt that owns @region; @dir NULL without a name. After an error @region is still the caller's. */
struct inode *hugepin_fs_inode(struct vfsmount *mnt, const struct inode *dir, struct hugepin_region *region,
			       umode_t mode);
int hugepin_fs_check_name(struct file *dir, const char *name, umode_t mode);
struct file *hugepin_fs_open_unnamed(struct vfsmount *mnt, struct inode *inode);
struct file *hugepin_fs_open_named(struct file *dir, const char *name, struct inode *inode);

/* ---- poison.c: memory that the hardware reports faulty ---- */
int hugepin_poison_watch(struct hugepin_page *page);	/* 0 or -ENOMEM */
void hugepin_poison_unwatch(struct hugepin_page *page);
void hugepin_poison(unsigned long pfn);			/* process context; any page of the system */
void hugepin_poison_init(void);
void hugepin_poison_exit(void);

/* ---- power.c: hibernation ---- */
int hugepin_power_init(void);
void hugepin_power_exit(void);

/* ---- ioctl.c ---- */
long hugepin_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
long hugepin_region_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
long hugepin_pin_ioctl(struct file *file, unsigned int cmd, unsigned long arg);

/* ---- sysfs.c ---- */
extern const struct attribute_group *hugepin_device_groups[];
int hugepin_sysfs_init(struct kobject *device);
void hugepin_sysfs_exit(void);
void hugepin_sysfs_withdraw(void);	/* the class 1G has become absent */

/* ---- spec.c: numbers from text; the reserve= parameter ---- */
/* Digits and nothing else, at least one; moves *@text behind them. -EINVAL: none, -ERANGE: above @max. */
int hugepin_parse_digits(const char **text, unsigned int base, u64 max, u64 *out);

struct hugepin_spec {
	nodemask_t nodes;
	unsigned int class;
	u64 count;			/* pages, or percent of the node's memory */
	bool percent;
};

#define HUGEPIN_SPEC_MAX	64
int hugepin_spec_parse(const char *text, struct hugepin_spec *specs, unsigned int *count);
void hugepin_spec_apply(const struct hugepin_spec *specs, unsigned int count);

#endif /* HUGEPIN_KMOD_H */
