// SPDX-License-Identifier: MIT
/* Who holds what: the module's regions and users, told one by one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../kmod/uapi/hugepin.h"
#include "internal.h"

#define ENTRIES		64
#define EXTENTS		(HUGEPIN_NODES_MAX * HUGEPIN_CLASS_COUNT)	/* no region has more */

struct page_of_list {
	struct hugepin_list_entry entries[ENTRIES];
	struct hugepin_extent extents[EXTENTS];
	struct hugepin_extent_info converted[EXTENTS];
};

static int explain(int err)
{
	if (err == -ENOTTY)
		return hpi_error(-EOPNOTSUPP, "listing: this module cannot list what is held, load a newer one");
	return hpi_error(err, "listing: asking the module: %s", strerror(-err));
}

static int visit_region(struct page_of_list *page, const struct hugepin_list_entry *entry,
			int (*visit)(const struct hugepin_listed_region *info, void *arg), void *arg)
{
	const struct hugepin_listed_region info = {
		.size = sizeof(info),
		.path = entry->flags & HUGEPIN_LIST_NAMED ? entry->path : NULL,
		.path_is_cut = entry->flags & HUGEPIN_LIST_CUT,
		.id = entry->id,
		.dev = entry->dev,
		.ino = entry->ino,
		.bytes = entry->bytes,
		.bytes_1g = entry->bytes_1g,
		.created_ns = entry->created_ns,
		.used_ns = entry->used_ns,
		.mappings = entry->mappings,
		.opens = entry->opens,
		.held_bytes = entry->held_bytes,
		.references = entry->refs,
		.charged_uid = entry->charged_uid,
		.uid = entry->uid,
		.gid = entry->gid,
		.mode = entry->mode,
		.extents = page->converted,
		.nr_extents = entry->nr_extents,
	};

	hpi_region_convert(page->extents + entry->first_extent, entry->nr_extents, page->converted);
	return visit(&info, arg);
}

/* One call's worth; sets @cursor to where the next goes on. */
static int visit_page(int fd, struct page_of_list *page, uint64_t *cursor,
		      int (*visit)(const struct hugepin_listed_region *info, void *arg), void *arg)
{
	struct hugepin_list list = {
		.size = sizeof(list),
		.cursor = *cursor,
		.entries = (uintptr_t)page->entries,
		.nr_entries = ENTRIES,
		.entry_size = sizeof(page->entries[0]),
		.extents = (uintptr_t)page->extents,
		.nr_extents = EXTENTS,
	};
	int err = hpi_sys_ioctl(fd, HUGEPIN_IOC_LIST, &list);

	if (err)
		return explain(err);
	for (uint32_t i = 0; !err && i < list.nr_entries; i++)
		err = visit_region(page, &page->entries[i], visit, arg);
	*cursor = list.cursor;
	return err;
}

int hugepin_region_visit(struct hugepin_context *ctx, int (*visit)(const struct hugepin_listed_region *info, void *arg),
			 void *arg)
{
	struct page_of_list *page;
	uint64_t cursor = 0;
	int fd, err = hpi_context_check(ctx);

	if (err)
		return err;
	if (!visit)
		return hpi_error(-EINVAL, "listing: nobody to tell");
	fd = hpi_context_module_fd(ctx);
	if (fd < 0)
		return fd;
	page = malloc(sizeof(*page));
	if (!page)
		return hpi_error(-ENOMEM, "listing: no memory for %d regions at a time", ENTRIES);
	do {
		err = visit_page(fd, page, &cursor, visit, arg);
	} while (!err && cursor);
	free(page);
	return err;
}

static int visit_users(int fd, uint64_t *cursor, int (*visit)(const struct hugepin_listed_user *info, void *arg),
		       void *arg)
{
	struct hugepin_user_entry entries[ENTRIES] = { { 0 } };
	struct hugepin_users users = {
		.size = sizeof(users),
		.cursor = *cursor,
		.entries = (uintptr_t)entries,
		.nr_entries = ENTRIES,
		.entry_size = sizeof(entries[0]),
	};
	int err = hpi_sys_ioctl(fd, HUGEPIN_IOC_USERS, &users);

	if (err)
		return explain(err);
	for (uint32_t i = 0; !err && i < users.nr_entries; i++) {
		const struct hugepin_listed_user info = {
			.size = sizeof(info),
			.uid = entries[i].uid,
			.depth = entries[i].depth,
			.held_2m_pages = entries[i].held[HUGEPIN_CLASS_2M],
			.held_1g_pages = entries[i].held[HUGEPIN_CLASS_1G],
			.quarantined_2m_pages = entries[i].quarantined[HUGEPIN_CLASS_2M],
			.quarantined_1g_pages = entries[i].quarantined[HUGEPIN_CLASS_1G],
			.pinned_bytes = entries[i].pinned,
		};

		err = visit(&info, arg);
	}
	*cursor = users.cursor;
	return err;
}

int hugepin_user_visit(struct hugepin_context *ctx, int (*visit)(const struct hugepin_listed_user *info, void *arg),
		       void *arg)
{
	uint64_t cursor = 0;
	int err = hpi_context_check(ctx);

	if (err)
		return err;
	if (!visit)
		return hpi_error(-EINVAL, "listing: nobody to tell");
	if (ctx->device_fd < 0) {
		err = hpi_context_module_fd(ctx);
		return err < 0 ? err :
				 hpi_error(-ENODEV, "listing: only " HUGEPIN_DEVICE " tells users, and it is not here");
	}
	do {
		err = visit_users(ctx->device_fd, &cursor, visit, arg);
	} while (!err && cursor);
	return err;
}
