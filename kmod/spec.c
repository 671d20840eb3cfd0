// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers from text, and the reserve= parameter: NODE:CLASS:COUNT[%] entries with commas between them, NODE an id or *
 * for every node with memory, CLASS 1G or 2M, COUNT in pages or in percent of the node's memory: "0:1G:4,*:2M:10%".
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "hugepin.h"

int hugepin_parse_digits(const char **text, unsigned int base, u64 max, u64 *out)
{
	const char *p = *text;
	u64 value = 0;

	for (; *p >= '0' && *p < '0' + base; p++) {
		u64 digit = *p - '0';

		if (digit > max || value > (max - digit) / base)
			return -ERANGE;
		value = value * base + digit;
	}
	if (p == *text)
		return -EINVAL;
	*text = p;
	*out = value;
	return 0;
}

static int __init parse_node(const char **p, nodemask_t *nodes)
{
	u64 id;

	if (**p == '*') {
		*nodes = hugepin_nodes_online;
		++*p;
	} else {
		if (hugepin_parse_digits(p, 10, U64_MAX, &id))
			return -EINVAL;
		if (id >= MAX_NUMNODES || !hugepin_node(id))
			return -ENODEV;
		*nodes = nodemask_of_node(id);
	}
	return *(*p)++ == ':' ? 0 : -EINVAL;
}

static int __init parse_class(const char **p, unsigned int *class)
{
	for (*class = 0; *class < HUGEPIN_CLASS_COUNT; (*class)++) {
		size_t len = strlen(hugepin_class_name(*class));

		if (!strncmp(*p, hugepin_class_name(*class), len) && (*p)[len] == ':') {
			*p += len + 1;
			return 0;
		}
	}
	return -EINVAL;
}

static int __init parse_entry(const char *text, struct hugepin_spec *spec)
{
	int ret;

	ret = parse_node(&text, &spec->nodes);
	if (!ret)
		ret = parse_class(&text, &spec->class);
	if (!ret)
		ret = hugepin_parse_digits(&text, 10, U64_MAX, &spec->count);
	if (ret)
		return ret;
	spec->percent = *text == '%';
	if (spec->percent)
		text++;
	if (*text || (spec->percent && spec->count > 100))
		return -EINVAL;
	return hugepin_absent[spec->class] ? -EOPNOTSUPP : 0;
}

static u64 __init spec_pages(const struct hugepin_spec *spec, int node)
{
	if (!spec->percent)
		return spec->count;
	return node_present_pages(node) * spec->count / 100 >> hugepin_class_order(spec->class);
}

/* The last entry for a node and class holds: an earlier one must not take pages first, only to give them back. */
static void __init add_entry(struct hugepin_spec *specs, unsigned int *count)
{
	unsigned int i;

	for (i = 0; i < *count; i++)
		if (specs[i].class == specs[*count].class)
			nodes_andnot(specs[i].nodes, specs[i].nodes, specs[*count].nodes);
	(*count)++;
}

/* All together must fit into the node. */
static int __init check_node(const struct hugepin_spec *specs, unsigned int count, int node)
{
	u64 pages[HUGEPIN_CLASS_COUNT] = {};
	unsigned int i, class;
	u64 sum = 0;

	for (i = 0; i < count; i++)
		if (node_isset(node, specs[i].nodes))
			pages[specs[i].class] = spec_pages(&specs[i], node);
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
		if (pages[class] > hugepin_node_max_pages(node, class))
			return -ERANGE;
		sum += pages[class] << hugepin_class_order(class);
	}
	return sum > hugepin_node_max_pages(node, HUGEPIN_CLASS_2M) << HUGEPIN_ORDER_2M ? -ERANGE : 0;
}

int __init hugepin_spec_parse(const char *text, struct hugepin_spec *specs, unsigned int *count)
{
	char *copy, *rest, *entry;
	int ret = 0, id;

	*count = 0;
	copy = kstrdup(text, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = copy;
	while (!ret && (entry = strsep(&rest, ","))) {
		ret = *count < HUGEPIN_SPEC_MAX ? parse_entry(entry, &specs[*count]) : -E2BIG;
		if (ret)
			pr_err("reserve=%s: '%s' is refused (%d): want NODE:1G|2M:COUNT[%%], a node with memory, a class of this kernel\n",
			       text, entry, ret);
		else
			add_entry(specs, count);
	}
	kfree(copy);
	for_each_node_mask(id, hugepin_nodes_online) {
		if (ret)
			break;
		ret = check_node(specs, *count, id);
		if (ret)
			pr_err("reserve=%s is refused (%d): more than node %d can ever hold\n", text, ret, id);
	}
	return ret;
}

static void __init apply_class(const struct hugepin_spec *spec)
{
	int id, ret;

	for_each_node_mask(id, spec->nodes) {
		struct hugepin_reserve *reserve = &hugepin_node(id)->reserve[spec->class];
		u64 pages = spec_pages(spec, id);

		ret = hugepin_reserve_resize(reserve, pages);
		if (ret)
			pr_err("reserve=: node %d: asked %llu %s pages, got %llu (%d)\n", id, pages,
			       hugepin_class_name(spec->class), hugepin_reserve_total(reserve), ret);
		else
			pr_info("reserve=: node %d: %llu %s pages\n", id, pages, hugepin_class_name(spec->class));
	}
}

/*
 * 1G pages first: 2M pages would break their ranges up. A shortfall is said here and in asked_hugepages against
 * nr_hugepages; the module stays, with what it got.
 */
void __init hugepin_spec_apply(const struct hugepin_spec *specs, unsigned int count)
{
	unsigned int i;
	int class;

	for (class = HUGEPIN_CLASS_COUNT - 1; class >= 0; class--)
		for (i = 0; i < count; i++)
			if (specs[i].class == class)
				apply_class(&specs[i]);
}
