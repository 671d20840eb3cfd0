// SPDX-License-Identifier: MIT
/*
 * The parser of NODE:CLASS:COUNT. It takes what the grammar says and nothing else: no blanks, no signs but the one of
 * "+N", no leading zeros (is 010 ten or eight?), no units, no overflow.
 *
 *	SPEC  := NODE ":" CLASS ":" COUNT
 *	NODE  := NUMBER | "*"
 *	CLASS := "1G" | "2M"
 *	COUNT := NUMBER | "+" NUMBER
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hugepinctl.h"

static const struct {
	const char *name;
	uint64_t bytes;
} classes[] = {
	[HUGEPIN_PAGES_2M] = { "2M", 2ull << 20 },
	[HUGEPIN_PAGES_1G] = { "1G", 1ull << 30 },
};

const char *class_name(enum hugepin_class page_class)
{
	return classes[page_class].name;
}

uint64_t class_bytes(enum hugepin_class page_class)
{
	return classes[page_class].bytes;
}

int number_parse(const char *text, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (!*text || (text[0] == '0' && text[1]))
		return -EINVAL;
	for (const char *c = text; *c; c++) {
		unsigned int digit = (unsigned char)*c - '0';

		if (digit > 9)
			return -EINVAL;
		if (digit > max || value > (max - digit) / 10)
			return -ERANGE;
		value = value * 10 + digit;
	}
	*out = value;
	return 0;
}

static int parse_node(const char *text, const char *spec, struct spec *out, struct message *why)
{
	uint64_t node;
	int err;

	out->every_node = !strcmp(text, "*");
	if (out->every_node)
		return 0;
	err = number_parse(text, INT_MAX, &node);
	if (err == -ERANGE)
		return message_set(why, -EINVAL, "'%s': node '%s' is beyond %d", spec, text, INT_MAX);
	if (err)
		return message_set(why, -EINVAL, "'%s': '%s' is not a node: a number or * is wanted", spec, text);
	out->node = (int)node;
	return 0;
}

static int parse_class(const char *text, const char *spec, struct spec *out, struct message *why)
{
	for (int c = CLASS_FIRST; c <= CLASS_LAST; c++) {
		if (!strcmp(text, classes[c].name)) {
			out->page_class = (enum hugepin_class)c;
			return 0;
		}
	}
	return message_set(why, -EINVAL, "'%s': '%s' is not a page size class: 1G or 2M is wanted", spec, text);
}

/* Counts are bounded so that the bytes of a plan can always be told in 64 bits. */
static int parse_count(const char *text, const char *spec, struct spec *out, struct message *why)
{
	uint64_t max = UINT64_MAX / class_bytes(out->page_class);
	size_t length = strlen(text);
	int err;

	out->relative = *text == '+';
	err = number_parse(text + out->relative, max, &out->count);
	if (err == -ERANGE)
		return message_set(why, -EINVAL, "'%s': '%s' is more than %llu, the most %s pages there can be", spec,
				   text, (unsigned long long)max, class_name(out->page_class));
	if (err && length && text[length - 1] == '%')
		return message_set(why, -EINVAL,
				   "'%s': only the module's parameter reserve= takes a percentage; pages are wanted",
				   spec);
	if (err)
		return message_set(why, -EINVAL, "'%s': '%s' is not a count: N or +N pages are wanted", spec, text);
	return 0;
}

int spec_parse(const char *text, struct spec *out, struct message *why)
{
	struct spec spec = { .node = -1 };
	char copy[96], *rest = copy, *node, *page_class;
	int err;

	if (strlen(text) >= sizeof(copy))
		return message_set(why, -EINVAL, "'%.40s...' is too long for NODE:CLASS:COUNT", text);
	strcpy(copy, text);
	node = strsep(&rest, ":");
	page_class = strsep(&rest, ":");
	if (!rest || strchr(rest, ':'))
		return message_set(why, -EINVAL, "'%s' is not NODE:CLASS:COUNT, as in 0:1G:4", text);

	err = parse_node(node, text, &spec, why);
	if (!err)
		err = parse_class(page_class, text, &spec, why);
	if (!err)
		err = parse_count(rest, text, &spec, why);
	if (!err)
		*out = spec;
	return err;
}

/* Whether a node and class is meant by two of them can be told without looking at the host. */
static int refuse_twice(const struct spec *specs, size_t nr, struct message *why)
{
	for (size_t i = 0; i < nr; i++)
		for (size_t j = 0; j < i; j++) {
			const struct spec *a = &specs[i], *b = &specs[j];

			if (a->page_class != b->page_class ||
			    (!a->every_node && !b->every_node && a->node != b->node))
				continue;
			if (a->every_node && b->every_node)
				return message_set(why, -EINVAL, "every node: %s is named twice",
						   class_name(a->page_class));
			return message_set(why, -EINVAL, "node %d: %s is named twice",
					   a->every_node ? b->node : a->node, class_name(a->page_class));
		}
	return 0;
}

static size_t count_specs(char *const *arguments, size_t count)
{
	size_t nr = count;

	for (size_t i = 0; i < count; i++)
		for (const char *c = arguments[i]; *c; c++)
			nr += *c == ',';
	return nr;
}

int spec_parse_all(char *const *arguments, size_t count, struct spec **out, size_t *nr, struct message *why)
{
	size_t max = count_specs(arguments, count), done = 0;
	struct spec *specs = calloc(max ? max : 1, sizeof(*specs));
	int err = specs ? 0 : message_set(why, -ENOMEM, "no memory for %zu specs", max);

	for (size_t i = 0; !err && i < count; i++) {
		char *copy = strdup(arguments[i]), *rest = copy, *text;

		if (!copy)
			err = message_set(why, -ENOMEM, "no memory for %zu specs", max);
		while (!err && (text = strsep(&rest, ",")))
			err = spec_parse(text, &specs[done++], why);
		free(copy);
	}
	if (!err)
		err = refuse_twice(specs, done, why);
	if (err) {
		free(specs);
		return err;
	}
	*out = specs;
	*nr = done;
	return 0;
}
