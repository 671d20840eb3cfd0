// SPDX-License-Identifier: MIT
/*
 * Taking pages from the module's reserve: the CREATE call, and its refusals in words and numbers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kmod/uapi/hugepin.h"
#include "internal.h"

#define EXTENTS_MAX	(2 * HUGEPIN_NODES_MAX)

_Static_assert(HPI_NODES_MAX == HUGEPIN_NODES_MAX, "node sets are as wide as the module's");
_Static_assert(HUGEPIN_PAGES_2M == HUGEPIN_CLASS_2M + 1 && HUGEPIN_PAGES_1G == HUGEPIN_CLASS_1G + 1,
	       "the library's classes are the module's with base pages in front");
_Static_assert((int)HUGEPIN_NODES_BIND == HUGEPIN_POLICY_BIND &&
	       (int)HUGEPIN_NODES_INTERLEAVE == HUGEPIN_POLICY_INTERLEAVE &&
	       (int)HUGEPIN_NODES_PREFERRED == HUGEPIN_POLICY_PREFERRED, "policies are the module's");

/* "node 3", or "nodes 0-3" for a sum. */
static void where(char *text, size_t size, uint32_t node, const struct hpi_nodes *nodes)
{
	if (node != HUGEPIN_NODE_ANY)
		snprintf(text, size, "node %u", node);
	else
		hpi_nodes_name(nodes, text, size);
}

/* A node that more pages would help on: the one that is short, or the first of the sum. */
static unsigned int node_to_grow(uint32_t node, const struct hpi_nodes *nodes)
{
	char list[64];

	if (node != HUGEPIN_NODE_ANY)
		return node;
	hpi_nodes_format(nodes, list, sizeof(list));
	return (unsigned int)strtoul(list, NULL, 10);
}

static int refuse_short(const struct hpi_take *take, const struct hugepin_shortfall *s, int err)
{
	unsigned long long bytes = take->bytes, asked = s->asked, available = s->available;
	unsigned long long limit = s->limit, held = s->held;
	const char *class = hpi_class_name((enum hugepin_class)(s->class + 1));
	char place[80];

	where(place, sizeof(place), s->node, take->nodes);
	switch (s->reason) {
	case HUGEPIN_SHORT_FREE:
		return hpi_error(err,
				 "region of %llu bytes: asked %llu page%s of %s on %s, %llu free; reserve more with "
				 "'hugepinctl reserve %u:%s:+%llu'%s",
				 bytes, asked, HPI_PLURAL(asked), class, place, available,
				 node_to_grow(s->node, take->nodes), class,
				 asked > available ? asked - available : 1, take->fallback ? "" : " or allow fallback");
	case HUGEPIN_SHORT_USER:
		return hpi_error(err,
				 "region of %llu bytes: asked %llu page%s of %s on %s, where one user may hold %llu "
				 "and this one holds %llu; close regions or raise user_limit_percent",
				 bytes, asked, HPI_PLURAL(asked), class, place, limit, held);
	case HUGEPIN_SHORT_MOUNT:
		return hpi_error(err,
				 "region of %llu bytes: asked %llu page%s of %s, the mount may hold %llu and holds "
				 "%llu; close or unlink regions or mount with a higher limit",
				 bytes, asked, HPI_PLURAL(asked), class, limit, held);
	case HUGEPIN_SHORT_CGROUP:
		return hpi_error(err,
				 "region of %llu bytes: asked %llu page%s of %s on %s, more than dmem.max leaves to "
				 "this control group; see its dmem.current for hugepin/node%d",
				 bytes, asked, HPI_PLURAL(asked), class, place, (int)s->node);
	default:
		return hpi_error(err, "region of %llu bytes: %s", bytes,
				 err == -ENOMEM ? "the kernel has no memory for its bookkeeping" : strerror(-err));
	}
}

static int refuse(struct hugepin_context *ctx, const struct hpi_take *take, const struct hugepin_shortfall *s, int err)
{
	unsigned long long bytes = take->bytes;
	const char *absent;
	char place[80];

	switch (err) {
	case -ENOMEM:
	case -EDQUOT:
		return refuse_short(take, s, err);
	case -EOPNOTSUPP:
		absent = hugepin_class_absent(ctx, HUGEPIN_PAGES_1G);
		return hpi_error(err, "region of %llu bytes: no 1G pages: %s", bytes,
				 absent ? absent : "the module says that it has no such class");
	case -ENODEV:
		where(place, sizeof(place), HUGEPIN_NODE_ANY, take->nodes);
		return hpi_error(err, "region of %llu bytes: the module has no pages on one of %s", bytes, place);
	case -EEXIST:
		return hpi_error(err, "region of %llu bytes: the name \"%s\" exists", bytes, take->name);
	case -ENOTTY:
		return hpi_error(-ENODEV, "region of %llu bytes: the file system asked is not hugepinfs", bytes);
	default:
		return hpi_error(err, "region of %llu bytes: %s", bytes, strerror(-err));
	}
}

void hpi_region_convert(const struct hugepin_extent *from, size_t count, struct hugepin_extent_info *to)
{
	size_t i;

	for (i = 0; i < count; i++) {
		to[i].node = (int)from[i].node;
		to[i].page_class = (enum hugepin_class)(from[i].class + 1);
		to[i].bytes = from[i].pages * (from[i].class == HUGEPIN_CLASS_1G ? HPI_1G : HPI_2M);
	}
}

int hpi_region_take(struct hugepin_context *ctx, const struct hpi_take *take, uint64_t *bytes,
		    struct hpi_extents *extents)
{
	struct hugepin_extent *raw = malloc(EXTENTS_MAX * sizeof(*raw));
	struct hugepin_extent_info *list = malloc(EXTENTS_MAX * sizeof(*list)), *fitted;
	struct hugepin_shortfall shortfall = { .reason = HUGEPIN_SHORT_NOT };
	struct hugepin_create create = {
		.size = sizeof(create),
		.flags = take->fallback ? HUGEPIN_CREATE_FALLBACK : 0,
		.bytes = take->bytes,
		.classes = take->classes >> 1,
		.policy = take->policy,
		.nodemask = (uintptr_t)take->nodes->bits,
		.nodemask_bits = HPI_NODES_MAX,
		.mode = take->mode,
		.name = (uintptr_t)take->name,
		.extents = (uintptr_t)raw,
		.nr_extents = EXTENTS_MAX,
		.shortfall = (uintptr_t)&shortfall,
	};
	int err = -ENOMEM;

	if (raw && list)
		err = hpi_sys_ioctl(take->dir_fd, HUGEPIN_IOC_CREATE, &create);
	if (err) {
		refuse(ctx, take, &shortfall, err);
		if (err == -ENOTTY)
			err = -ENODEV;
		goto out;
	}
	/* From here on nothing can fail: the region may have a name already. */
	hpi_region_convert(raw, create.nr_extents, list);
	fitted = realloc(list, (create.nr_extents ? create.nr_extents : 1) * sizeof(*list));
	extents->list = fitted ? fitted : list;
	extents->count = create.nr_extents;
	*bytes = create.bytes;
	list = NULL;
	err = create.fd;
out:
	free(raw);
	free(list);
	return err;
}
