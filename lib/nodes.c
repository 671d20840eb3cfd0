// SPDX-License-Identifier: MIT
/*
 * Sets of node ids and their text, as the kernel writes them ("0-3,8"), and the syntax of a node policy on top.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define DEVICES_MAX	4095			/* as a number; there are never as many */

/* Reads the id at *@text and moves it behind. */
static int take_id(const char **text, unsigned int *out)
{
	const char *s = *text;
	unsigned int id = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++) {
		id = id * 10 + (unsigned int)(*s - '0');
		if (id >= HPI_NODES_MAX)
			return -ERANGE;
	}
	*text = s;
	*out = id;
	return 0;
}

/* A list is a set: an id may be named twice. A descending range is a mistake, never an empty one. */
int hpi_nodes_parse(const char *text, struct hpi_nodes *out)
{
	struct hpi_nodes nodes = { { 0 } };
	unsigned int first, last;
	int err;

	if (!text)
		return -EINVAL;
	for (;;) {
		err = take_id(&text, &first);
		if (err)
			return err;
		last = first;
		if (*text == '-') {
			text++;
			err = take_id(&text, &last);
			if (err)
				return err;
		}
		if (last < first)
			return -EINVAL;
		while (first <= last)
			hpi_nodes_set(&nodes, first++);
		if (!*text)
			break;
		if (*text++ != ',')
			return -EINVAL;
	}
	*out = nodes;
	return 0;
}

int hpi_nodes_format(const struct hpi_nodes *nodes, char *buffer, size_t size)
{
	unsigned int id, last;
	size_t used = 0;

	if (size)
		buffer[0] = '\0';
	for (id = 0; id < HPI_NODES_MAX; id = last + 1) {
		last = id;
		if (!hpi_nodes_has(nodes, id))
			continue;
		while (hpi_nodes_has(nodes, last + 1))
			last++;
		used += (size_t)snprintf(used < size ? buffer + used : NULL, used < size ? size - used : 0,
					 last > id ? "%s%u-%u" : "%s%u", used ? "," : "", id, last);
	}
	return (int)used;
}

int hpi_nodes_name(const struct hpi_nodes *nodes, char *buffer, size_t size)
{
	size_t used = (size_t)snprintf(buffer, size, hpi_nodes_count(nodes) == 1 ? "node " : "nodes ");

	return (int)used + hpi_nodes_format(nodes, used < size ? buffer + used : NULL, used < size ? size - used : 0);
}

unsigned int hpi_nodes_count(const struct hpi_nodes *nodes)
{
	unsigned int count = 0;
	size_t i;

	for (i = 0; i < HPI_NODES_MAX / 64; i++)
		count += (unsigned int)__builtin_popcountll(nodes->bits[i]);
	return count;
}

bool hpi_policy_is_device(const char *text, int *number)
{
	static const char prefix[] = "device:";
	int64_t id;

	if (!text || strncmp(text, prefix, sizeof(prefix) - 1) != 0)
		return false;
	if (hpi_size_parse_int(text + sizeof(prefix) - 1, &id) || id < 0 || id > DEVICES_MAX)
		return false;
	*number = (int)id;
	return true;
}

int hpi_policy_split(const char *text, enum hugepin_policy *policy, struct hpi_nodes *nodes, bool *local)
{
	static const struct {
		const char *prefix;
		enum hugepin_policy policy;
	} forms[] = {
		{ "bind:", HUGEPIN_NODES_BIND },
		{ "interleave:", HUGEPIN_NODES_INTERLEAVE },
		{ "preferred:", HUGEPIN_NODES_PREFERRED },
	};
	size_t i, length;
	int err;

	if (!text)
		return hpi_error(-EINVAL, "node policy is NULL");
	if (!strcmp(text, "local")) {
		*policy = HUGEPIN_NODES_PREFERRED;
		*nodes = (struct hpi_nodes){ { 0 } };
		*local = true;
		return 0;
	}
	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		length = strlen(forms[i].prefix);
		if (strncmp(text, forms[i].prefix, length))
			continue;
		err = hpi_nodes_parse(text + length, nodes);
		if (err)
			return hpi_error(-EINVAL, "node policy \"%.200s\": \"%.200s\" is no list of ids 0 to %d such as "
					 "0-3,8", text, text + length, HPI_NODES_MAX - 1);
		*policy = forms[i].policy;
		*local = false;
		return 0;
	}
	return hpi_error(-EINVAL, "node policy \"%.200s\" is none of local, bind:LIST, interleave:LIST, preferred:LIST, "
			 "device:N",
			 text);
}
