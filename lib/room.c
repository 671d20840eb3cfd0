// SPDX-License-Identifier: MIT
/*
 * Whether there is room for memory that nobody has set aside, before it is touched. Where there is none the kernel does
 * not refuse pages: it kills, in the container whose limit they exceed, among those bound to the same nodes, or on the
 * whole machine.
 *
 * What is there now is no promise, since others use the same memory. But what exceeds all that is free or could be
 * freed, and swap, cannot come to a good end.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* A line of a meminfo, "Key:  123 kB"; -errno as hpi_sys_read_field(). */
static int read_kib(const char *root, const char *file, const char *key, uint64_t *bytes)
{
	char path[PATH_MAX], text[32];
	uint64_t kib;
	int err;

	if ((size_t)snprintf(path, sizeof(path), "%s%s", root, file) >= sizeof(path))
		return -ENAMETOOLONG;
	err = hpi_sys_read_field(path, key, text, sizeof(text));
	if (err)
		return err;
	text[strspn(text, "0123456789")] = '\0';	/* a unit follows */
	err = hpi_size_parse_uint(text, &kib);
	if (!err)
		*bytes = kib * 1024;
	return err;
}

uint64_t hpi_room_on_machine(const char *root)
{
	uint64_t bytes;

	return read_kib(root, "/proc/meminfo", "MemAvailable:", &bytes) ? UINT64_MAX : bytes;
}

static uint64_t swap(const char *root)
{
	uint64_t bytes;

	return read_kib(root, "/proc/meminfo", "SwapFree:", &bytes) ? 0 : bytes;
}

/* A node tells no MemAvailable: what it has free, and file pages, which are dropped before anything is killed. */
static uint64_t room_on_node(const char *root, unsigned int id)
{
	static const char *const keys[] = { "MemFree:", "Active(file):", "Inactive(file):", "SReclaimable:" };
	char file[64], key[48];
	uint64_t sum = 0, bytes;
	size_t i;

	snprintf(file, sizeof(file), "/sys/devices/system/node/node%u/meminfo", id);
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		snprintf(key, sizeof(key), "Node %u %s", id, keys[i]);
		if (!read_kib(root, file, key, &bytes))
			sum += bytes;
		else if (!i)
			return UINT64_MAX;
	}
	return sum;
}

uint64_t hpi_room_on_nodes(const char *root, const struct hpi_nodes *nodes)
{
	uint64_t sum = 0, bytes;
	unsigned int id;

	for (id = 0; id < HPI_NODES_MAX; id++) {
		if (!hpi_nodes_has(nodes, id))
			continue;
		bytes = room_on_node(root, id);
		if (bytes == UINT64_MAX)
			return UINT64_MAX;
		sum += bytes;
	}
	return sum;
}

/* ---- the three that kill; swap is looked at where nothing else is left ---- */

/* What of the machine's swap the container may use. */
static int container_swap(const char *root, uint64_t *out)
{
	uint64_t allowed, there;
	int err = hpi_cgroup_swap_headroom(root, &allowed);

	if (err)
		return err;
	there = swap(root);
	*out = allowed < there ? allowed : there;
	return 0;
}

/* Read anew each time: limits are raised and lowered while the container runs. */
static int check_container(const char *root, const char *what, uint64_t bytes)
{
	uint64_t charge = bytes + bytes / 512;		/* page tables are charged too */
	uint64_t limit, headroom, swapped;
	int err = hpi_cgroup_memory_headroom(root, &headroom);

	if (!err && charge <= headroom)
		return 0;
	if (!err)
		err = container_swap(root, &swapped);
	if (!err)
		err = hpi_cgroup_memory_limit(root, &limit);
	if (err) {
		hpi_error_clear();	/* what cannot be known forbids nothing */
		return 0;
	}
	if (charge - headroom <= swapped)
		return 0;
	return hpi_error(-ENOMEM, "%s: asked %llu bytes, the container has %llu left of its limit of %llu, and %llu "
			 "of swap", what, (unsigned long long)bytes, (unsigned long long)headroom,
			 (unsigned long long)limit, (unsigned long long)swapped);
}

static int check_nodes(const char *root, const struct hpi_nodes *nodes, const char *what, uint64_t bytes)
{
	uint64_t room = hpi_room_on_nodes(root, nodes), swapped;
	char list[64];

	if (bytes <= room)
		return 0;
	swapped = swap(root);
	if (bytes - room <= swapped)
		return 0;
	hpi_nodes_name(nodes, list, sizeof(list));
	return hpi_error(-ENOMEM, "%s: asked %llu bytes on %s, with %llu available, and %llu of swap", what,
			 (unsigned long long)bytes, list, (unsigned long long)room, (unsigned long long)swapped);
}

static int check_machine(const char *root, const char *what, uint64_t bytes)
{
	uint64_t room = hpi_room_on_machine(root), swapped;

	if (bytes <= room)
		return 0;
	swapped = swap(root);
	if (bytes - room <= swapped)
		return 0;
	return hpi_error(-ENOMEM, "%s: asked %llu bytes, the machine has %llu available, and %llu of swap", what,
			 (unsigned long long)bytes, (unsigned long long)room, (unsigned long long)swapped);
}

int hpi_room_check(const char *root, const struct hpi_topology *topology, const struct hpi_policy *policy,
		   const char *what, uint64_t bytes)
{
	int err;

	if (bytes > topology->memory_bytes)
		return hpi_error(-ENOMEM, "%s: asked %llu bytes, the machine's memory is %llu", what,
				 (unsigned long long)bytes, (unsigned long long)topology->memory_bytes);
	err = check_container(root, what, bytes);
	if (!err && policy && policy->policy == HUGEPIN_NODES_BIND)
		err = check_nodes(root, &policy->nodes, what, bytes);
	return err ? err : check_machine(root, what, bytes);
}
