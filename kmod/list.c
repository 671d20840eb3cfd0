// SPDX-License-Identifier: GPL-2.0
/*
 * Finding forgotten regions: a registry of all that are alive, and what of them anybody who may open the device, or a
 * mount's directory, may know.
 */
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include "compat.h"
#include "hugepin.h"

#define ENTRY_SIZE_0	632
#define USER_SIZE_0	48

static_assert(sizeof(struct hugepin_list_entry) == ENTRY_SIZE_0);
static_assert(sizeof(struct hugepin_user_entry) == USER_SIZE_0);

/* Regions by id, each from when its inode is whole until that is evicted: under the lock its inode is there. */
static DEFINE_XARRAY_FLAGS(regions, XA_FLAGS_ACCOUNT);
static atomic64_t last_id = ATOMIC64_INIT(0);

int hugepin_list_add(struct hugepin_region *region, struct inode *inode)
{
	region->inode = inode;
	region->id = atomic64_inc_return(&last_id);
	return xa_insert(&regions, region->id, region, GFP_KERNEL);
}

void hugepin_list_remove(struct hugepin_region *region)
{
	xa_erase(&regions, region->id);
}

void hugepin_region_use(const struct hugepin_region *region, struct hugepin_use *use)
{
	u64 i;

	*use = (struct hugepin_use){
		.used_ns = READ_ONCE(region->used_ns),
		.mappings = atomic64_read(&region->mappings),
		.opens = atomic64_read(&region->opens),
	};
	for (i = 0; i < region->nr_1g + region->nr_2m && !fatal_signal_pending(current); i++) {
		const struct hugepin_page *page = region->pages[i];
		long refs = hugepin_page_refs(page->page, hugepin_class_order(page->reserve->class));

		if (refs > 0) {
			use->held_bytes += hugepin_class_bytes(page->reserve->class);
			use->refs += refs;
		}
		cond_resched();
	}
}

/* ---- one after the other ---- */

/* So many regions of others are passed before the lock is let go for a moment. */
#define WALK_BATCH	1024

/*
 * The oldest region after *@id, on @only or anywhere; its inode and superblock are held, so that neither an unmounting
 * nor an unlinking meanwhile pulls them away. NULL: none.
 */
static struct hugepin_region *next_region(const struct super_block *only, u64 *id)
{
	struct hugepin_region *region;
	unsigned int passed = 0;
	struct super_block *sb;
	struct inode *inode;

	do {
		XA_STATE(xas, &regions, *id + 1);

		inode = NULL;
		sb = NULL;
		xas_lock(&xas);
		xas_for_each(&xas, region, ULONG_MAX) {
			*id = region->id;
			sb = region->inode->i_sb;
			if ((!only || sb == only) && atomic_inc_not_zero(&sb->s_active)) {
				inode = igrab(region->inode);
				break;
			}
			if (++passed % WALK_BATCH)
				continue;
			xas_pause(&xas);
			xas_unlock(&xas);
			cond_resched();
			xas_lock(&xas);
		}
		xas_unlock(&xas);
		if (region && !inode)	/* on its way out */
			deactivate_super(sb);
	} while (region && !inode);
	return region;
}

static void put_region(struct hugepin_region *region)
{
	struct super_block *sb = region->inode->i_sb;

	iput(region->inode);
	deactivate_super(sb);
}

/* What is known of one region, until it is copied out. */
struct told {
	struct hugepin_list_entry entry;
	char path[PATH_MAX];
	u32 nr_extents;
	struct hugepin_extent extents[];	/* one for each node and class at most */
};

static struct told *told_alloc(void)
{
	struct told *told;

	return kvmalloc(struct_size(told, extents, nodes_weight(hugepin_nodes_online) * HUGEPIN_CLASS_COUNT),
			GFP_KERNEL_ACCOUNT);
}

static void tell_path(struct inode *inode, struct hugepin_list_entry *entry, char *buffer)
{
	struct dentry *dentry = d_find_any_alias(inode);
	const char *path;
	size_t len;

	if (!dentry)
		return;
	path = d_unhashed(dentry) ? NULL : dentry_path_raw(dentry, buffer, PATH_MAX);
	dput(dentry);
	if (!path)
		return;
	entry->flags |= HUGEPIN_LIST_NAMED;
	if (IS_ERR(path)) {	/* deeper than any path can be */
		entry->flags |= HUGEPIN_LIST_CUT;
		return;
	}
	path++;			/* the slash */
	len = strlen(path);
	if (len >= sizeof(entry->path)) {
		entry->flags |= HUGEPIN_LIST_CUT;
		path += len - (sizeof(entry->path) - 1);
	}
	strscpy(entry->path, path, sizeof(entry->path));
}

static void tell_region(const struct hugepin_region *region, struct told *told)
{
	struct user_namespace *ns = current_user_ns();
	struct inode *inode = region->inode;
	struct hugepin_use use;

	hugepin_region_use(region, &use);
	told->entry = (struct hugepin_list_entry){
		.id = region->id,
		.dev = new_encode_dev(inode->i_sb->s_dev),
		.ino = inode->i_ino,
		.bytes = hugepin_region_bytes(region),
		.bytes_1g = region->nr_1g << PUD_SHIFT,
		.created_ns = region->created_ns,
		.used_ns = use.used_ns,
		.mappings = use.mappings,
		.opens = use.opens,
		.held_bytes = use.held_bytes,
		.refs = use.refs,
		.charged_uid = from_kuid_munged(ns, region->owner),
		.uid = from_kuid_munged(ns, inode->i_uid),
		.gid = from_kgid_munged(ns, inode->i_gid),
		.mode = inode->i_mode,
	};
	tell_path(inode, &told->entry, told->path);
	told->nr_extents = region->nr_extents;
	memcpy(told->extents, region->extents, region->nr_extents * sizeof(*region->extents));
}

/*
 * The next region is told; false: there is none. It is let go before anything is copied out: the caller's memory may
 * take as long as the caller likes (userfaultfd, FUSE), and until then the region could not end, nor its mount.
 */
static bool tell_next(const struct super_block *only, u64 *id, struct told *told)
{
	struct hugepin_region *region = *id == U64_MAX ? NULL : next_region(only, id);

	if (!region)
		return false;
	tell_region(region, told);
	put_region(region);
	return true;
}

/* ---- copying out ---- */

/* What the caller does not know is left out, what we do not know is zero. */
static int copy_entry(u64 entries, u32 index, u32 stride, const void *entry, size_t known)
{
	void __user *to = u64_to_user_ptr(entries + (u64)index * stride);

	if (copy_to_user(to, entry, min_t(size_t, stride, known)))
		return -EFAULT;
	return stride > known && clear_user(to + known, stride - known) ? -EFAULT : 0;
}

static bool entries_fit(u64 entries, u32 nr, u32 stride, u32 least)
{
	return entries && nr && stride >= least && stride <= PAGE_SIZE && !(stride & 7);
}

/* 0, -EMSGSIZE: no room for them. */
static int copy_extents(struct told *told, struct hugepin_list *list, u32 room)
{
	struct hugepin_extent __user *to = u64_to_user_ptr(list->extents);

	if (!list->extents)
		return 0;
	if (told->nr_extents > room - list->nr_extents)
		return -EMSGSIZE;
	told->entry.first_extent = list->nr_extents;
	told->entry.nr_extents = told->nr_extents;
	if (copy_to_user(to + list->nr_extents, told->extents, told->nr_extents * sizeof(*to)))
		return -EFAULT;
	list->nr_extents += told->nr_extents;
	return 0;
}

static int copy_region(struct told *told, struct hugepin_list *list, u32 extents_room)
{
	int ret = copy_extents(told, list, extents_room);

	if (ret == -EMSGSIZE && !list->nr_entries)
		list->nr_extents = told->nr_extents;
	if (!ret)
		ret = copy_entry(list->entries, list->nr_entries, list->entry_size, &told->entry,
				 sizeof(told->entry));
	return ret ?: fatal_signal_pending(current) ? -EINTR : 0;
}

/* ---- a page that is faulty ---- */

bool hugepin_list_unmap(const struct hugepin_page *page)
{
	struct hugepin_region *region;
	bool found = false;
	u64 id = 0;

	while (!found && (region = next_region(NULL, &id))) {
		found = hugepin_region_unmap(region, page);
		put_region(region);
		cond_resched();
	}
	return found;
}

/* ---- the listings ---- */

int hugepin_list_regions(const struct super_block *only, struct hugepin_list *list)
{
	u32 room_entries = min_t(u32, list->nr_entries, HUGEPIN_LIST_MAX), room_extents = list->nr_extents;
	u64 id = list->cursor;
	struct told *told;
	bool more = true;
	int ret = 0;

	if (!entries_fit(list->entries, list->nr_entries, list->entry_size, ENTRY_SIZE_0))
		return -EINVAL;
	told = told_alloc();
	if (!told)
		return -ENOMEM;
	list->nr_entries = 0;
	list->nr_extents = 0;
	while (!ret && list->nr_entries < room_entries) {
		more = tell_next(only, &id, told);
		if (!more)
			break;
		ret = copy_region(told, list, room_extents);
		if (!ret) {
			list->nr_entries++;
			list->cursor = id;
		}
	}
	kvfree(told);
	if (!more)
		list->cursor = 0;
	return ret == -EMSGSIZE && list->nr_entries ? 0 : ret;
}

int hugepin_list_users(struct hugepin_users *users)
{
	u32 room = min_t(u32, users->nr_entries, HUGEPIN_LIST_MAX), i;
	struct hugepin_user_entry *entries;
	int ret = 0;

	if (!entries_fit(users->entries, users->nr_entries, users->entry_size, USER_SIZE_0))
		return -EINVAL;
	entries = kvcalloc(room, sizeof(*entries), GFP_KERNEL_ACCOUNT);
	if (!entries)
		return -ENOMEM;
	users->nr_entries = hugepin_account_list(&users->cursor, entries, room);
	for (i = 0; i < users->nr_entries && !ret; i++)
		ret = copy_entry(users->entries, i, users->entry_size, &entries[i], sizeof(entries[i]));
	kvfree(entries);
	return ret;
}
