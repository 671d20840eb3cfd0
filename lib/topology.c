// SPDX-License-Identifier: MIT
/*
 * The machine's NUMA nodes as sysfs shows them, under a root prefix so that tests can give a tree of their own.
 *
 * Read here and not through libnuma: that counts nodes at load time, from the real root only, and calls the machine
 * "not NUMA" where a container's seccomp filter forbids get_mempolicy(2), as common ones do. For the same reason the
 * nodes allowed come from Mems_allowed_list of /proc/self/status: it is the value get_mempolicy(MPOL_F_MEMS_ALLOWED)
 * would give, needs no right, and follows the cpuset as it is now. A kernel without cpusets has no such line: then
 * every node is allowed.
 *
 * Ids are never indices: they may have holes ("0,8,252-255"), and a node listed may be gone when it is read.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The kernel's LOCAL_DISTANCE and REMOTE_DISTANCE, where the firmware's table cannot be had. */
#define DISTANCE_LOCAL	10
#define DISTANCE_REMOTE	20

/* Longest list that can name 1024 nodes ("0,2,4,..."), and longest row of distances. */
#define TEXT_SIZE	8192

struct lists {
	struct hpi_nodes online, memory, cpus, allowed;
};

static bool is_absent(int err)
{
	return err == -ENOENT || err == -ENOTDIR || err == -ENODEV || err == -ENODATA;
}

static int path_of(char path[PATH_MAX], const char *root, const char *name)
{
	if ((size_t)snprintf(path, PATH_MAX, "%s%s", root, name) >= PATH_MAX)
		return hpi_error(-ENAMETOOLONG, "path %s%s is longer than %d bytes", root, name, PATH_MAX - 1);
	return 0;
}

static int read_failed(const char *path, int err)
{
	return hpi_error(err, "reading %s: %s", path, strerror(-err));
}

/*
 * A list of nodes: a whole file, or with @key the field of one. An empty list is an empty set. Absent: @out is left
 * as it is.
 */
static int read_list(const char *root, const char *name, const char *key, struct hpi_nodes *out)
{
	char path[PATH_MAX], text[TEXT_SIZE];
	int err = path_of(path, root, name);

	if (err)
		return err;
	err = key ? hpi_sys_read_field(path, key, text, sizeof(text)) : hpi_sys_read_file(path, text, sizeof(text));
	if (is_absent(err))
		return 0;
	if (err)
		return read_failed(path, err);
	if (!text[0]) {
		*out = (struct hpi_nodes){ { 0 } };
		return 0;
	}
	if (hpi_nodes_parse(text, out))
		return hpi_error(-EIO, "%s: \"%.64s\" is no list of node ids from 0 to %d", path, text,
				 HPI_NODES_MAX - 1);
	return 0;
}

/* "24684096 kB" behind @key; -ENOENT without an error text: not there. */
static int read_kib(const char *root, const char *name, const char *key, uint64_t *bytes)
{
	char path[PATH_MAX], text[64];
	uint64_t kib;
	char *unit;
	int err = path_of(path, root, name);

	if (err)
		return err;
	err = hpi_sys_read_field(path, key, text, sizeof(text));
	if (is_absent(err))
		return -ENOENT;
	if (err)
		return read_failed(path, err);
	unit = strchr(text, ' ');
	if (unit)
		*unit++ = '\0';
	if (!unit || strcmp(unit, "kB") || hpi_size_parse_uint(text, &kib) || kib > UINT64_MAX / 1024)
		return hpi_error(-EIO, "%s: \"%s\" behind \"%s\" is not a number of kB", path, text, key);
	*bytes = kib * 1024;
	return 0;
}

static int read_lists(const char *root, struct lists *lists)
{
	static const char nodes[] = "/sys/devices/system/node";
	char name[sizeof(nodes) + 32];
	int err;

	memset(lists, 0, sizeof(*lists));
	memset(&lists->allowed, 0xff, sizeof(lists->allowed));
	snprintf(name, sizeof(name), "%s/online", nodes);
	err = read_list(root, name, NULL, &lists->online);
	if (err)
		return err;
	/* Before 3.8 there was has_normal_memory only; where neither is, meminfo decides alone. */
	lists->memory = lists->online;
	snprintf(name, sizeof(name), "%s/has_normal_memory", nodes);
	err = read_list(root, name, NULL, &lists->memory);
	if (err)
		return err;
	snprintf(name, sizeof(name), "%s/has_memory", nodes);
	err = read_list(root, name, NULL, &lists->memory);
	if (err)
		return err;
	snprintf(name, sizeof(name), "%s/has_cpu", nodes);
	err = read_list(root, name, NULL, &lists->cpus);
	if (err)
		return err;
	return read_list(root, "/proc/self/status", "Mems_allowed_list:", &lists->allowed);
}

/* -ENOENT without an error text: the node is offline. */
static int read_node(const char *root, unsigned int id, const struct lists *lists, struct hpi_node *node)
{
	char name[64], key[64], path[PATH_MAX], cpus[TEXT_SIZE];
	int err;

	*node = (struct hpi_node){ .id = id, .allowed = hpi_nodes_has(&lists->allowed, id) };
	snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/meminfo", id);
	snprintf(key, sizeof(key), "Node %u MemTotal:", id);
	err = read_kib(root, name, key, &node->memory_bytes);
	if (err)
		return err;
	/* The kernel lists nodes whose memory is all reserved or off-line: nothing could ever be had there. */
	node->has_memory = node->memory_bytes && hpi_nodes_has(&lists->memory, id);

	snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/cpulist", id);
	err = path_of(path, root, name);
	if (err)
		return err;
	err = hpi_sys_read_file(path, cpus, sizeof(cpus));
	if (err && !is_absent(err))
		return read_failed(path, err);
	node->has_cpus = err ? hpi_nodes_has(&lists->cpus, id) : cpus[0] != '\0';
	return 0;
}

/* One node with the memory of /proc/meminfo: no sysfs (a kernel without NUMA, a bare container). */
static void make_single_node(uint64_t memory_bytes, const struct lists *lists, struct hpi_topology *topology)
{
	topology->nodes[0] = (struct hpi_node){
		.id = 0, .has_memory = true, .has_cpus = true,
		.allowed = hpi_nodes_has(&lists->allowed, 0), .memory_bytes = memory_bytes,
	};
	topology->count = 1;
}

static int read_nodes(const char *root, const struct lists *lists, struct hpi_topology *topology)
{
	size_t room = hpi_nodes_count(&lists->online);
	unsigned int id;
	int err;

	topology->nodes = calloc(room ? room : 1, sizeof(*topology->nodes));
	if (!topology->nodes)
		return hpi_error(-ENOMEM, "no memory for %zu nodes", room);
	for (id = 0; id < HPI_NODES_MAX; id++) {
		if (!hpi_nodes_has(&lists->online, id))
			continue;
		err = read_node(root, id, lists, &topology->nodes[topology->count]);
		if (!err)
			topology->count++;
		else if (err != -ENOENT)
			return err;
	}
	return 0;
}

/* The numbers of a row, at most @room; -EINVAL: something else is among them. */
static int parse_row(char *text, uint8_t *row, size_t room, size_t *count)
{
	uint64_t distance;
	char *word, *save;

	*count = 0;
	for (word = strtok_r(text, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (*count == room || hpi_size_parse_uint(word, &distance) || distance > UINT8_MAX)
			return -EINVAL;
		row[(*count)++] = (uint8_t)distance;
	}
	return 0;
}

/*
 * A row has one number for each node that was online when it was read, in ascending order. A node gone since the list
 * was read has one or not; when neither count explains the row, the distances of this node are not known.
 */
static int read_row(const char *root, const struct lists *lists, struct hpi_topology *topology, size_t from)
{
	uint8_t row[HPI_NODES_MAX], *out = topology->distances + from * topology->count;
	char name[64], path[PATH_MAX], text[TEXT_SIZE];
	size_t count, to, position = 0;
	unsigned int id;
	int err;

	for (to = 0; to < topology->count; to++)
		out[to] = from == to ? DISTANCE_LOCAL : DISTANCE_REMOTE;
	snprintf(name, sizeof(name), "/sys/devices/system/node/node%u/distance", topology->nodes[from].id);
	err = path_of(path, root, name);
	if (err)
		return err;
	err = hpi_sys_read_file(path, text, sizeof(text));
	if (is_absent(err))
		return 0;
	if (err)
		return read_failed(path, err);
	if (parse_row(text, row, HPI_NODES_MAX, &count))
		return hpi_error(-EIO, "%s: not a row of at most %d distances from 0 to %d", path, HPI_NODES_MAX,
				 UINT8_MAX);
	if (count == topology->count) {
		memcpy(out, row, count);
	} else if (count == hpi_nodes_count(&lists->online)) {
		for (id = 0, to = 0; id < HPI_NODES_MAX && to < topology->count; id++) {
			if (!hpi_nodes_has(&lists->online, id))
				continue;
			if (topology->nodes[to].id == id)
				out[to++] = row[position];
			position++;
		}
	}
	return 0;
}

static int read_distances(const char *root, const struct lists *lists, struct hpi_topology *topology)
{
	size_t from;
	int err = 0;

	topology->distances = calloc(topology->count, topology->count);
	if (!topology->distances)
		return hpi_error(-ENOMEM, "no memory for the distances of %zu nodes", topology->count);
	for (from = 0; !err && from < topology->count; from++)
		err = read_row(root, lists, topology, from);
	return err;
}

static int read_all(const char *root, struct hpi_topology *topology)
{
	struct lists lists;
	size_t i;
	int err = read_lists(root, &lists);
	bool no_meminfo;

	if (!err)
		err = read_nodes(root, &lists, topology);
	if (err)
		return err;
	err = read_kib(root, "/proc/meminfo", "MemTotal:", &topology->memory_bytes);
	no_meminfo = err == -ENOENT;
	if (err && !no_meminfo)
		return err;
	if (no_meminfo)
		for (i = 0; i < topology->count; i++)
			topology->memory_bytes += topology->nodes[i].memory_bytes;
	if (!topology->count) {
		if (no_meminfo)
			return hpi_error(-ENODEV, "no nodes: neither %s/sys/devices/system/node nor %s/proc/meminfo",
					 root, root);
		make_single_node(topology->memory_bytes, &lists, topology);
	}
	err = read_distances(root, &lists, topology);
	if (err)
		return err;
	err = hpi_cgroup_memory_limit(root, &topology->limit_bytes);
	if (!err && topology->limit_bytes > topology->memory_bytes)
		topology->limit_bytes = topology->memory_bytes;
	return err;
}

int hpi_topology_read(const char *root, struct hpi_topology *out)
{
	struct hpi_topology topology = { 0 };
	int err = read_all(root, &topology);

	if (err)
		hpi_topology_free(&topology);
	else
		*out = topology;
	return err;
}

void hpi_topology_free(struct hpi_topology *topology)
{
	free(topology->nodes);
	free(topology->distances);
	*topology = (struct hpi_topology){ 0 };
}

const struct hpi_node *hpi_topology_node(const struct hpi_topology *topology, unsigned int id)
{
	size_t i;

	for (i = 0; i < topology->count; i++)
		if (topology->nodes[i].id == id)
			return &topology->nodes[i];
	return NULL;
}

int hpi_topology_distance(const struct hpi_topology *topology, unsigned int from, unsigned int to)
{
	const struct hpi_node *a = hpi_topology_node(topology, from), *b = hpi_topology_node(topology, to);

	if (!a || !b)
		return -ENODEV;
	if (!topology->distances)
		return a == b ? DISTANCE_LOCAL : DISTANCE_REMOTE;
	return topology->distances[(size_t)(a - topology->nodes) * topology->count + (size_t)(b - topology->nodes)];
}

int hpi_topology_local_node(void)
{
	int node = hpi_sys_local_node();

	return node < 0 ? -1 : node;
}

int hpi_topology_nearest(const struct hpi_topology *topology, unsigned int id)
{
	int best = -1, distance, least = 0;
	struct hpi_nodes nodes;
	size_t i;

	hpi_topology_default_nodes(topology, &nodes);
	for (i = 0; i < topology->count; i++) {
		distance = hpi_topology_distance(topology, id, topology->nodes[i].id);
		if (hpi_nodes_has(&nodes, topology->nodes[i].id) && distance >= 0 && (best < 0 || distance < least)) {
			best = (int)topology->nodes[i].id;
			least = distance;
		}
	}
	return best;
}

void hpi_topology_usable(const struct hpi_topology *topology, struct hpi_nodes *out)
{
	size_t i;

	*out = (struct hpi_nodes){ { 0 } };
	for (i = 0; i < topology->count; i++)
		if (topology->nodes[i].allowed && topology->nodes[i].has_memory)
			hpi_nodes_set(out, topology->nodes[i].id);
}

void hpi_topology_default_nodes(const struct hpi_topology *topology, struct hpi_nodes *out)
{
	size_t i;

	*out = (struct hpi_nodes){ { 0 } };
	for (i = 0; i < topology->count; i++)
		if (topology->nodes[i].allowed && topology->nodes[i].has_memory && topology->nodes[i].has_cpus)
			hpi_nodes_set(out, topology->nodes[i].id);
	/* A cpuset may hold memory-only nodes alone: then they were asked for. */
	if (!hpi_nodes_count(out))
		hpi_topology_usable(topology, out);
}
