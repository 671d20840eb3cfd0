// SPDX-License-Identifier: MIT
/*
 * The reserve as user space sees it: INFO in order, the knob of one node and class, and why a class is absent.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kmod/uapi/hugepin.h"
#include "internal.h"

#define SYSFS_DEVICE	"/sys/class/misc/hugepin"

/* ---- reading ---- */

static int by_node_and_class(const void *a, const void *b)
{
	const struct hugepin_info_pages *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->class < y->class) - (x->class > y->class);
}

/* All entries, sorted; the caller's to free. */
static int read_pages(int fd, struct hugepin_info_pages **out, size_t *count)
{
	const size_t most = HUGEPIN_NODES_MAX * HUGEPIN_CLASS_COUNT;
	struct hugepin_info info = { .size = sizeof(info), .nr_pages = (uint32_t)most };
	struct hugepin_info_pages *pages = malloc(most * sizeof(*pages));
	int err;

	if (!pages)
		return hpi_error(-ENOMEM, "reserve: no memory for %zu entries", most);
	info.pages = (uintptr_t)pages;
	err = hpi_sys_ioctl(fd, HUGEPIN_IOC_INFO, &info);
	if (err) {
		free(pages);
		return hpi_error(err, "reserve: reading it from the module: %s", strerror(-err));
	}
	*count = info.nr_pages < most ? info.nr_pages : most;
	qsort(pages, *count, sizeof(*pages), by_node_and_class);
	*out = pages;
	return 0;
}

int hugepin_reserve_at(struct hugepin_context *ctx, size_t position, struct hugepin_reserve_info *info)
{
	struct hugepin_info_pages *pages = NULL, *p;
	size_t count = 0;
	int fd, err;

	err = hpi_context_check(ctx);
	if (err)
		return err;
	if (!info || info->size < sizeof(*info) || info->size > HPI_STRUCT_MAX)
		return hpi_error(-EINVAL, "reserve: size is %zu, not %zu", info ? info->size : 0, sizeof(*info));
	fd = hpi_context_module_fd(ctx);
	if (fd < 0)
		return fd;
	err = read_pages(fd, &pages, &count);
	if (err)
		return err;
	if (position >= count) {
		err = hpi_error(-ENOENT, "reserve: no entry %zu, there are %zu", position, count);
	} else {
		p = &pages[position];
		memset(info + 1, 0, info->size - sizeof(*info));	/* what only a newer caller knows */
		*info = (struct hugepin_reserve_info){
			.size = info->size,
			.node = (int)p->node,
			.page_class = (enum hugepin_class)(p->class + 1),
			.asked_pages = p->asked,
			.total_pages = p->total,
			.clean_pages = p->clean,
			.dirty_pages = p->dirty,
			.in_use_pages = p->in_use,
			.quarantined_pages = p->quarantined,
			.poisoned_pages = p->poisoned,
		};
	}
	free(pages);
	return err;
}

const char *hugepin_class_absent(struct hugepin_context *ctx, enum hugepin_class page_class)
{
	if (page_class != HUGEPIN_PAGES_2M && page_class != HUGEPIN_PAGES_1G)
		return "the module holds huge pages only";
	if (ctx->device_fd < 0 && ctx->mount_fd < 0)
		return "the hugepin module is not here or may not be used";
	switch (ctx->absent[page_class]) {
	case HUGEPIN_ABSENT_NOT:
		return NULL;
	case HUGEPIN_ABSENT_KERNEL:
		return "this kernel cannot map or pin such pages safely";
	case HUGEPIN_ABSENT_PARAM:
		return "switched off by a module parameter";
	case HUGEPIN_ABSENT_SELFTEST:
		return "the module's self-test objected, see the kernel log";
	default:
		return "the module does not have it, for a reason newer than this library";
	}
}

/* ---- the knob ---- */

static int read_held(const char *knob, uint64_t *out)
{
	char text[32];
	int err = hpi_sys_read_file(knob, text, sizeof(text));

	if (err)
		return err;
	return hpi_size_parse_uint(text, out) ? -EIO : 0;
}

/* The knob is not there: says what is missing. */
static int explain_missing(struct hugepin_context *ctx, int node, enum hugepin_class page_class)
{
	char text[32];

	if (hpi_sys_read_file(SYSFS_DEVICE "/uapi_version", text, sizeof(text)))
		return hpi_error(-ENODEV, "reserve: no " SYSFS_DEVICE ": the hugepin module is not loaded, or sysfs not mounted");
	if (ctx->absent[page_class])
		return hpi_error(-ENODEV, "reserve: no %s pages: %s", hpi_class_name(page_class),
				 hugepin_class_absent(ctx, page_class));
	return hpi_error(-ENODEV, "reserve: the module has no %s pages on node %d", hpi_class_name(page_class), node);
}

static int explain_write(int err, int node, enum hugepin_class page_class, uint64_t pages, uint64_t held)
{
	unsigned long long asked = pages, got = held;
	const char *class = hpi_class_name(page_class);

	switch (err) {
	case -ENOMEM:
		return hpi_error(err,
				 "reserve: asked %llu page%s of %s on node %d, got %llu; 'hugepinctl explain' shows "
				 "what is in the way",
				 asked, HPI_PLURAL(asked), class, node, got);
	case -EBUSY:
		return hpi_error(err,
				 "reserve: asked for no more than %llu page%s of %s on node %d, %llu are held and "
				 "not free; 'hugepinctl ps' shows by whom",
				 asked, HPI_PLURAL(asked), class, node, got);
	case -ERANGE:
		return hpi_error(err, "reserve: asked %llu page%s of %s on node %d, more than it can hold; it holds "
				 "%llu",
				 asked, HPI_PLURAL(asked), class, node, got);
	case -EINTR:
		return hpi_error(err, "reserve: a signal came, %llu of %llu page%s of %s are held on node %d", got,
				 asked, HPI_PLURAL(asked), class, node);
	case -EACCES:
	case -EPERM:
		return hpi_error(-EACCES, "reserve: only root may write the module's knobs");
	case -EROFS:
		return hpi_error(err, "reserve: sysfs is read-only here, reserve on the host");
	default:
		return hpi_error(err, "reserve: asking for %llu page%s of %s on node %d: %s", asked, HPI_PLURAL(asked),
				 class, node, strerror(-err));
	}
}

int hugepin_reserve_set(struct hugepin_context *ctx, int node, enum hugepin_class page_class, uint64_t pages,
			uint64_t *got)
{
	char knob[128], text[32];
	uint64_t held = 0;
	int err, read_err;

	err = hpi_context_check(ctx);
	if (err)
		return err;
	if (page_class != HUGEPIN_PAGES_2M && page_class != HUGEPIN_PAGES_1G)
		return hpi_error(-ENODEV, "reserve: class %d is not one of huge pages", (int)page_class);
	if (node < 0)
		return hpi_error(-ENODEV, "reserve: node %d does not exist", node);
	snprintf(knob, sizeof(knob), SYSFS_DEVICE "/node%d/hugepages-%llukB/nr_hugepages", node,
		 (unsigned long long)(page_class == HUGEPIN_PAGES_1G ? HPI_1G : HPI_2M) >> 10);
	if (read_held(knob, &held) == -ENOENT)
		return explain_missing(ctx, node, page_class);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)pages);
	err = hpi_sys_write_file(knob, text);
	read_err = read_held(knob, &held);
	if (got && !read_err)
		*got = held;
	/* Nothing had to be changed, so that nothing may be changed here is no failure. */
	if ((err == -EACCES || err == -EPERM || err == -EROFS) && !read_err && held == pages)
		return 0;
	if (err)
		return explain_write(err, node, page_class, pages, held);
	return read_err ? hpi_error(read_err, "reserve: %s cannot be read back: %s", knob, strerror(-read_err)) : 0;
}
