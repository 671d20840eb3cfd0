// SPDX-License-Identifier: MIT
/*
 * From specs to a plan: one change for each node and class, with what it holds and what it shall hold. Everything that
 * can be known beforehand is refused here, before anything is changed. Works on a snapshot only.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hugepinctl.h"

/* Appends "0, 1, 8" to @why: the nodes that could have been meant. */
static void list_nodes(const struct snapshot *now, struct message *why)
{
	const char *between = "";
	int last = -1;

	for (size_t i = 0; i < now->count; i++) {
		size_t used = strlen(why->text);

		if (now->entries[i].node == last)
			continue;
		last = now->entries[i].node;
		snprintf(why->text + used, sizeof(why->text) - used, "%s%d", between, last);
		between = ", ";
	}
}

static int no_such_entry(const struct snapshot *now, const struct spec *spec, struct message *why)
{
	const char *absent = now->absent[spec->page_class];

	if (absent)
		return message_set(why, -EOPNOTSUPP, "%s pages are absent on this host: %s",
				   class_name(spec->page_class), absent);
	if (spec->every_node)
		return message_set(why, -EOPNOTSUPP, "no node can hold %s pages", class_name(spec->page_class));
	/* Not -ENODEV, which is for the module. */
	message_set(why, -ENXIO, "node %d cannot hold %s pages; nodes with memory: ", spec->node,
		    class_name(spec->page_class));
	list_nodes(now, why);
	return -ENXIO;
}

static int target_reserve(const struct hugepin_reserve_info *info, const struct spec *spec, struct change *change,
			  struct message *why)
{
	uint64_t max = UINT64_MAX / class_bytes(info->page_class);
	uint64_t usable = pages_usable(info), stuck = usable - pages_free(info);

	if (spec->relative && spec->count > max - usable)
		return message_set(why, -EOVERFLOW, "node %d: %s: %" PRIu64 " + %" PRIu64 " pages cannot be counted",
				   info->node, class_name(info->page_class), usable, spec->count);
	change->target = spec->relative ? usable + spec->count : spec->count;
	if (change->target < stuck)
		return message_set(why, -EBUSY,
				   "node %d: %s: cannot go down to %" PRIu64 " pages: %" PRIu64 " of %" PRIu64
				   " are not free (%" PRIu64 " in use, %" PRIu64 " quarantined)",
				   info->node, class_name(info->page_class), change->target, stuck, usable,
				   info->in_use_pages, info->quarantined_pages);
	return 0;
}

static int target_release(const struct hugepin_reserve_info *info, const struct spec *spec, struct change *change,
			  struct message *why)
{
	if (spec->count > pages_free(info))
		return message_set(why, -EBUSY,
				   "node %d: %s: asked to give back %" PRIu64 ", free %" PRIu64 " of %" PRIu64
				   " (%" PRIu64 " in use, %" PRIu64 " quarantined, %" PRIu64 " poisoned)",
				   info->node, class_name(info->page_class), spec->count, pages_free(info),
				   info->total_pages, info->in_use_pages, info->quarantined_pages,
				   info->poisoned_pages);
	change->target = pages_usable(info) - spec->count;
	return 0;
}

typedef int target_fn(const struct hugepin_reserve_info *info, const struct spec *spec, struct change *change,
		      struct message *why);

static int add_change(struct plan *plan, const struct hugepin_reserve_info *info, const struct spec *spec,
		      target_fn *target, struct message *why)
{
	struct change *change = &plan->changes[plan->count];
	int err;

	*change = (struct change){
		.node = info->node,
		.page_class = info->page_class,
		.before = pages_usable(info),
		.got = pages_usable(info),
		.now = pages_usable(info),
	};
	err = target(info, spec, change, why);
	if (!err)
		plan->count++;
	return err;
}

static int expand(struct plan *plan, const struct snapshot *now, const struct spec *spec, target_fn *target,
		  struct message *why)
{
	bool found = false;
	int err;

	for (size_t i = 0; i < now->count; i++) {
		const struct hugepin_reserve_info *info = &now->entries[i];

		if (info->page_class != spec->page_class || (!spec->every_node && info->node != spec->node))
			continue;
		found = true;
		err = add_change(plan, info, spec, target, why);
		if (err)
			return err;
	}
	return found ? 0 : no_such_entry(now, spec, why);
}

static int build(const struct snapshot *now, const struct spec *specs, size_t nr, target_fn *target, struct plan *out,
		 struct message *why)
{
	/* No two specs mean the same node and class, so that a plan never has more entries than the snapshot; of none
	 * calloc() may return NULL. */
	struct plan plan = { .changes = calloc(now->count + 1, sizeof(*plan.changes)) };
	int err = 0;

	if (!plan.changes)
		return message_set(why, -ENOMEM, "no memory for a plan of %zu changes", now->count);
	for (size_t i = 0; !err && i < nr; i++)
		err = expand(&plan, now, &specs[i], target, why);
	if (err)
		plan_free(&plan);
	else
		*out = plan;
	return err;
}

static unsigned int turn_of(const struct change *change)
{
	if (change->target < change->before)
		return 0;
	return change->page_class == HUGEPIN_PAGES_1G ? 1 : 2;
}

/*
 * What gives back goes first, for others to take it; then 1G pages, for which there are few places, before 2M pages
 * settle in these. Otherwise as they were given.
 */
static void put_in_order(struct plan *plan)
{
	for (size_t i = 1; i < plan->count; i++) {
		struct change change = plan->changes[i];
		size_t at = i;

		for (; at && turn_of(&plan->changes[at - 1]) > turn_of(&change); at--)
			plan->changes[at] = plan->changes[at - 1];
		plan->changes[at] = change;
	}
}

int plan_reserve(const struct snapshot *now, const struct spec *specs, size_t nr, struct plan *out,
		 struct message *why)
{
	int err = build(now, specs, nr, target_reserve, out, why);

	if (!err)
		put_in_order(out);
	return err;
}

int plan_release(const struct snapshot *now, const struct spec *specs, size_t nr, struct plan *out,
		 struct message *why)
{
	return build(now, specs, nr, target_release, out, why);
}

int plan_release_all(const struct snapshot *now, struct plan *out, struct message *why)
{
	struct plan plan = { .changes = calloc(now->count + 1, sizeof(*plan.changes)) };
	int err = 0;

	if (!plan.changes)
		return message_set(why, -ENOMEM, "no memory for a plan of %zu changes", now->count);
	for (size_t i = 0; !err && i < now->count; i++) {
		struct spec spec = { .count = pages_free(&now->entries[i]) };

		if (spec.count)
			err = add_change(&plan, &now->entries[i], &spec, target_release, why);
	}
	if (err)
		plan_free(&plan);
	else
		*out = plan;
	return err;
}

void plan_free(struct plan *plan)
{
	free(plan->changes);
	plan->changes = NULL;
	plan->count = 0;
}
