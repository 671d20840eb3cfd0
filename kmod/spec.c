// SPDX-License-Identifier: GPL-2.0
/*
 * The reserve= parameter: NODE:CLASS:COUNT[%] entries with commas between them, NODE an id or * for every node with
 * memory, CLASS 1G or 2M, COUNT in pages or in percent of the node's memory: "0:1G:4,1:1G:4,*:2M:10%".
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "hugepin.h"

/* Digits up to @end; moves *@p behind it. */
static int parse_number(const char **p, char end, u64 *out)
{
	u64 value = 0;
	const char *s = *p;

	for (; *s >= '0' && *s <= '9'; s++) {
		if (value > (U64_MAX - 9) / 10)
			return -EINVAL;
		value = value * 10 + (*s - '0');
	}
	if (s == *p || *s != end)
		return -EINVAL;
	*p = end ? s + 1 : s;
	*out = value;
	return 0;
}

static int parse_node(const char **p, nodemask_t *nodes)
{
	u64 id;

	if ((*p)[0] == '*' && (*p)[1] == ':') {
		*nodes = hugepin_nodes_online;
		*p += 2;
		return 0;
	}
	if (parse_number(p, ':', &id))
		return -EINVAL;
	if (id >= MAX_NUMNODES || !hugepin_node(id))
		return -ENODEV;
	*nodes = nodemask_of_node(id);
	return 0;
}

static int parse_class(const char **p, unsigned int *class)
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

static int parse_entry(const char *text, struct hugepin_spec *spec)
{
	size_t len = strlen(text);
	int ret;

	ret = parse_node(&text, &spec->nodes);
	if (!ret)
		ret = parse_class(&text, &spec->class);
	if (ret)
		return ret;
	if (hugepin_absent[spec->class])
		return -EOPNOTSUPP;
	spec->percent = len && text[strlen(text) - 1] == '%';
	ret = parse_number(&text, spec->percent ? '%' : '\0', &spec->count);
	if (!ret && spec->percent && (*text || spec->count > 100))
		ret = -EINVAL;
	return ret;
}

static u64 spec_pages(const struct hugepin_spec *spec, int node)
{
	if (!spec->percent)
		return spec->count;
	return node_present_pages(node) * spec->count / 100 >> hugepin_class_order(spec->class);
}

int hugepin_spec_parse(const char *text, struct hugepin_spec *specs, unsigned int *count)
{
	char *copy, *rest, *entry;
	int ret = 0, id;

	*count = 0;
	copy = kstrdup(text, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = copy;
	while (!ret && (entry = strsep(&rest, ","))) {
		struct hugepin_spec *spec = &specs[*count];

		ret = *count < HUGEPIN_SPEC_MAX ? parse_entry(entry, spec) : -E2BIG;
		if (!ret)
			for_each_node_mask(id, spec->nodes)
				if (spec_pages(spec, id) > hugepin_node_max_pages(id, spec->class))
					ret = -ERANGE;
		if (ret)
			pr_err("reserve=%s: '%s' is refused (%d): NODE:1G|2M:COUNT[%%], node with memory, class of this kernel, no more than the node can hold\n",
			       text, entry, ret);
		else
			(*count)++;
	}
	kfree(copy);
	return ret;
}

/* A shortfall is said here and in asked_hugepages against nr_hugepages; the module stays, with what it got. */
void hugepin_spec_apply(const struct hugepin_spec *specs, unsigned int count)
{
	unsigned int i;
	int id, ret;

	for (i = 0; i < count; i++) {
		for_each_node_mask(id, specs[i].nodes) {
			struct hugepin_reserve *reserve = &hugepin_node(id)->reserve[specs[i].class];
			u64 pages = spec_pages(&specs[i], id);

			ret = hugepin_reserve_resize(reserve, pages);
			if (ret)
				pr_err("reserve=: node %d: asked %llu %s pages, got %llu (%d)\n", id, pages,
				       hugepin_class_name(specs[i].class), hugepin_reserve_total(reserve), ret);
		}
	}
}
