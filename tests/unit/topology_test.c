// SPDX-License-Identifier: MIT
/* The machine's nodes and the container's limit, from trees made for each test. */
#include <errno.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "internal.h"
#include "tree.h"

#define NODES "sys/devices/system/node/"
#define V1 "sys/fs/cgroup/memory/"
#define V2 "sys/fs/cgroup/"
#define GIB(n) ((uint64_t)(n) << 30)

static struct tree tree;
static struct hpi_topology topology;

static void write_list(const char *name, const char *text)
{
	char path[128], line[1024];

	snprintf(path, sizeof(path), NODES "%s", name);
	snprintf(line, sizeof(line), "%s\n", text);
	tree_write(&tree, path, line);
}

static void write_node(unsigned int id, unsigned long gib, const char *cpus, const char *distances)
{
	char name[64], text[256];

	snprintf(name, sizeof(name), "node%u/meminfo", id);
	snprintf(text, sizeof(text), "Node %u MemTotal:       %lu kB\nNode %u MemFree:        1024 kB", id, gib << 20,
		 id);
	write_list(name, text);
	snprintf(name, sizeof(name), "node%u/cpulist", id);
	write_list(name, cpus);
	snprintf(name, sizeof(name), "node%u/distance", id);
	write_list(name, distances);
}

static void write_lists(const char *possible, const char *online, const char *memory, const char *cpus)
{
	write_list("possible", possible);
	write_list("online", online);
	write_list("has_memory", memory);
	write_list("has_normal_memory", memory);
	write_list("has_cpu", cpus);
}

static int make_tree(void **state)
{
	(void)state;
	tree_make(&tree);
	tree_write(&tree, "proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        1 kB\n");
	memset(&topology, 0, sizeof(topology));
	return 0;
}

static int remove_tree(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	hpi_topology_free(&topology);
	tree_remove(&tree, "");
	return 0;
}

static void read_tree(void)
{
	hpi_topology_free(&topology);
	assert_int_equal(hpi_topology_read(tree.root, &topology), 0);
}

static void assert_nodes(void (*fn)(const struct hpi_topology *, struct hpi_nodes *), const char *expected)
{
	struct hpi_nodes nodes;
	char text[256];

	fn(&topology, &nodes);
	hpi_nodes_format(&nodes, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void two_nodes_are_read_with_memory_cpus_and_distances(void **state)
{
	(void)state;
	write_lists("0-1", "0-1", "0-1", "0-1");
	write_node(0, 32, "0-15", "10 21");
	write_node(1, 16, "16-31", "22 11");
	read_tree();
	assert_int_equal(topology.count, 2);
	assert_true(topology.memory_bytes == GIB(64));
	assert_true(topology.limit_bytes == GIB(64));
	assert_true(hpi_topology_node(&topology, 0)->memory_bytes == GIB(32));
	assert_true(hpi_topology_node(&topology, 1)->memory_bytes == GIB(16));
	assert_true(hpi_topology_node(&topology, 1)->has_cpus && hpi_topology_node(&topology, 1)->has_memory);
	assert_int_equal(hpi_topology_distance(&topology, 0, 1), 21);
	assert_int_equal(hpi_topology_distance(&topology, 1, 0), 22);
	assert_int_equal(hpi_topology_distance(&topology, 1, 1), 11);
	assert_int_equal(hpi_topology_distance(&topology, 0, 2), -ENODEV);
	assert_int_equal(hpi_topology_distance(&topology, 2, 0), -ENODEV);
	assert_null(hpi_topology_node(&topology, 2));
	assert_nodes(hpi_topology_usable, "0-1");
}

/* C057: possible is not online, and distances are those of the online nodes */
static void offline_nodes_are_not_there_and_distances_keep_their_ids(void **state)
{
	(void)state;
	write_lists("0-3", "0,2", "0,2", "0,2");
	write_node(0, 32, "0-3", "10 20");
	write_node(2, 32, "4-7", "20 10");
	read_tree();
	assert_int_equal(topology.count, 2);
	assert_int_equal(topology.nodes[1].id, 2);
	assert_null(hpi_topology_node(&topology, 1));
	assert_null(hpi_topology_node(&topology, 3));
	assert_int_equal(hpi_topology_distance(&topology, 0, 2), 20);
	assert_int_equal(hpi_topology_distance(&topology, 2, 2), 10);
	assert_int_equal(hpi_topology_distance(&topology, 0, 1), -ENODEV);
}

/* C057: a node goes between listing and reading; the rows of distances may have its number or not */
static void node_that_vanished_is_offline_and_no_error(void **state)
{
	static const char *const rows[][2] = {
		{ "10 20 30", "30 40 10" }, { "10 30", "30 10" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		write_lists("0-3", "0,2-3", "0,2-3", "0,2-3");
		write_node(0, 32, "0-3", rows[i][0]);
		write_node(3, 16, "4-7", rows[i][1]);
		read_tree();
		assert_int_equal(topology.count, 2);
		assert_null(hpi_topology_node(&topology, 2));
		assert_int_equal(hpi_topology_distance(&topology, 0, 3), 30);
		assert_int_equal(hpi_topology_distance(&topology, 3, 0), 30);
		assert_int_equal(hpi_topology_distance(&topology, 3, 3), 10);
		assert_nodes(hpi_topology_usable, "0,3");
	}
	/* Both gone, one come: no telling whose the numbers are. */
	write_node(0, 32, "0-3", "10 17 18 19");
	read_tree();
	assert_int_equal(hpi_topology_distance(&topology, 0, 3), 20);
	assert_int_equal(hpi_topology_distance(&topology, 0, 0), 10);
}

static int reads_until_gone;

static int vanish_while_reading(const char *call)
{
	if (strcmp(call, "read") || --reads_until_gone)
		return 0;
	tree_remove(&tree, NODES "node1");
	return ENODEV;			/* what sysfs says of a file held open */
}

/* C057: at whichever read the node goes, the call succeeds and the other node is whole */
static void node_may_vanish_at_any_read(void **state)
{
	int at, seen = 0;

	(void)state;
	for (at = 1; at <= 40; at++) {
		write_lists("0-1", "0-1", "0-1", "0-1");
		write_node(0, 32, "0-3", "10 20");
		write_node(1, 16, "4-7", "20 10");
		reads_until_gone = at;
		hpi_sys_fault = vanish_while_reading;
		hpi_topology_free(&topology);
		assert_int_equal(hpi_topology_read(tree.root, &topology), 0);
		hpi_sys_fault = NULL;
		if (reads_until_gone > 0)
			break;		/* fewer reads than that */
		seen++;
		assert_true(topology.count >= 1 && topology.count <= 2);
	}
	assert_true(seen >= 10);
	assert_true(at <= 40);
}

/* C060: one node with CPUs, one of memory alone, seven empty ones */
static void nodes_without_cpus_or_memory_are_told_apart(void **state)
{
	unsigned int id;

	(void)state;
	write_lists("0-8", "0-8", "0-8", "0");
	write_node(0, 480, "0-71", "10 80 80 80 80 80 80 80 80");
	write_node(1, 96, "", "80 10 255 255 255 255 255 255 255");
	for (id = 2; id <= 8; id++)
		write_node(id, 0, "", "80 255 10 255 255 255 255 255 255");
	read_tree();
	assert_int_equal(topology.count, 9);
	assert_true(hpi_topology_node(&topology, 0)->has_cpus);
	assert_false(hpi_topology_node(&topology, 1)->has_cpus);
	assert_true(hpi_topology_node(&topology, 1)->has_memory);
	assert_false(hpi_topology_node(&topology, 8)->has_memory);
	assert_int_equal(hpi_topology_distance(&topology, 1, 2), 255);
	assert_nodes(hpi_topology_usable, "0-1");
	assert_nodes(hpi_topology_default_nodes, "0");
	/* A cpuset of the memory-only node alone: it was asked for. */
	tree_write(&tree, "proc/self/status", "Name:\tx\nMems_allowed_list:\t1-8\n");
	read_tree();
	assert_nodes(hpi_topology_usable, "1");
	assert_nodes(hpi_topology_default_nodes, "1");
}

/* C060: an accelerator's memory is a node, far away and without CPUs; its other nodes are empty */
static void accelerators_memory_is_taken_only_where_it_is_named(void **state)
{
	unsigned int id;

	(void)state;
	write_lists("0-8", "0-8", "0-1", "0");
	write_node(0, 480, "0-71", "10 80 80 80 80 80 80 80 80");
	write_node(1, 96, "", "80 10 255 255 255 255 255 255 255");
	for (id = 2; id <= 8; id++)
		write_node(id, 0, "", "80 255 10 255 255 255 255 255 255");
	read_tree();
	assert_int_equal(topology.count, 9);
	assert_nodes(hpi_topology_usable, "0-1");
	assert_nodes(hpi_topology_default_nodes, "0");
	assert_int_equal(hpi_topology_nearest(&topology, 0), 0);
	assert_int_equal(hpi_topology_nearest(&topology, 1), 0);
	assert_int_equal(hpi_topology_nearest(&topology, 5), 0);
	assert_int_equal(hpi_topology_nearest(&topology, 9), -1);
}

/* C060: a memory expander between two sockets, nearer to the first than the other socket is */
static void nearest_node_is_one_with_cpus(void **state)
{
	(void)state;
	write_lists("0-2", "0-2", "1-2", "0,2");
	write_node(0, 0, "0-7", "10 14 21");
	write_node(1, 64, "", "14 10 24");
	write_node(2, 64, "8-15", "21 24 10");
	read_tree();
	assert_nodes(hpi_topology_default_nodes, "2");
	assert_int_equal(hpi_topology_nearest(&topology, 0), 2);
}

/* C062: ids with holes are ids, whatever the position */
static void node_ids_with_holes_stay_what_they_are(void **state)
{
	static const struct {
		const char *online;
		unsigned int count, ids[6];
	} trees[] = {
		{ "0,8,252-255", 6, { 0, 8, 252, 253, 254, 255 } },
		{ "1", 1, { 1 } },
		{ "0-1,16-17", 4, { 0, 1, 16, 17 } },
		{ "1023", 1, { 1023 } },
	};
	size_t i, j, k;

	(void)state;
	for (i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		write_lists("0-1023", trees[i].online, trees[i].online, trees[i].online);
		for (j = 0; j < trees[i].count; j++) {
			char row[64] = "";

			for (k = 0; k < trees[i].count; k++)
				snprintf(row + strlen(row), sizeof(row) - strlen(row), "%zu ",
					 j == k ? 10 : 30 + j + k);
			row[strlen(row) - 1] = '\0';
			write_node(trees[i].ids[j], 1 + j, "0", row);
		}
		read_tree();
		assert_int_equal(topology.count, trees[i].count);
		for (j = 0; j < trees[i].count; j++) {
			const struct hpi_node *node = hpi_topology_node(&topology, trees[i].ids[j]);

			assert_int_equal(topology.nodes[j].id, trees[i].ids[j]);
			assert_true(node && node->memory_bytes == GIB(1 + j));
			for (k = 0; k < trees[i].count; k++)
				assert_int_equal(hpi_topology_distance(&topology, trees[i].ids[j], trees[i].ids[k]),
						 j == k ? 10 : 30 + j + k);
		}
		assert_nodes(hpi_topology_usable, trees[i].online);
		assert_null(hpi_topology_node(&topology, 2));
	}
}

static void nodes_outside_of_the_cpuset_are_not_usable(void **state)
{
	(void)state;
	write_lists("0-2", "0-2", "0-2", "0-2");
	write_node(0, 16, "0", "10 20 20");
	write_node(1, 16, "1", "20 10 20");
	write_node(2, 16, "2", "20 20 10");
	read_tree();			/* a kernel without cpusets has no such field */
	assert_nodes(hpi_topology_usable, "0-2");
	tree_write(&tree, "proc/self/status", "Mems_allowed:\t00000000,00000005\nMems_allowed_list:\t0,2\n");
	read_tree();
	assert_int_equal(topology.count, 3);
	assert_false(hpi_topology_node(&topology, 1)->allowed);
	assert_nodes(hpi_topology_usable, "0,2");
	assert_nodes(hpi_topology_default_nodes, "0,2");
}

static void without_sysfs_there_is_one_node_with_the_machines_memory(void **state)
{
	(void)state;
	read_tree();
	assert_int_equal(topology.count, 1);
	assert_int_equal(topology.nodes[0].id, 0);
	assert_true(topology.nodes[0].memory_bytes == GIB(64));
	assert_int_equal(hpi_topology_distance(&topology, 0, 0), 10);
	assert_nodes(hpi_topology_usable, "0");
	assert_nodes(hpi_topology_default_nodes, "0");
	write_list("online", "");
	read_tree();
	assert_int_equal(topology.count, 1);
}

static void without_proc_memory_is_the_nodes_sum(void **state)
{
	(void)state;
	tree_remove(&tree, "proc");
	assert_int_equal(hpi_topology_read(tree.root, &topology), -ENODEV);
	assert_non_null(strstr(hugepin_error(), "/proc/meminfo"));
	write_lists("0-1", "0-1", "0-1", "0-1");
	write_node(0, 32, "0-15", "10 21");
	write_node(1, 16, "16-31", "22 11");
	read_tree();
	assert_true(topology.memory_bytes == GIB(48));
}

static void sparse_sysfs_still_gives_its_nodes(void **state)
{
	(void)state;
	write_list("online", "0-1");
	write_list("node0/meminfo", "Node 0 MemTotal: 1048576 kB");
	write_list("node1/meminfo", "Node 1 MemTotal: 1048576 kB");
	write_list("has_cpu", "1");
	read_tree();
	assert_int_equal(topology.count, 2);
	assert_false(topology.nodes[0].has_cpus);
	assert_true(topology.nodes[1].has_cpus);
	assert_true(topology.nodes[0].has_memory && topology.nodes[1].has_memory);
	assert_int_equal(hpi_topology_distance(&topology, 0, 1), 20);
	assert_int_equal(hpi_topology_distance(&topology, 1, 1), 10);
}

static void malformed_file_is_an_error_that_names_it_and_leaves_nothing(void **state)
{
	static const struct {
		const char *file, *text;
	} table[] = {
		{ NODES "online", "3-1\n" }, { NODES "online", "0-1024\n" }, { NODES "has_memory", "x\n" },
		{ NODES "node0/distance", "10 x\n" }, { NODES "node0/distance", "10 256\n" },
		{ NODES "node0/meminfo", "Node 0 MemTotal: 12 MB\n" },
		{ NODES "node0/meminfo", "Node 0 MemTotal: -1 kB\n" },
		{ NODES "node0/meminfo", "Node 0 MemTotal: 36028797018963968 kB\n" },
		{ "proc/meminfo", "MemTotal: lots kB\n" },
		{ "proc/self/status", "Mems_allowed_list:\t0-\n" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		write_lists("0", "0", "0", "0");
		write_node(0, 32, "0-3", "10");
		tree_write(&tree, "proc/meminfo", "MemTotal: 33554432 kB\n");
		tree_write(&tree, "proc/self/status", "Mems_allowed_list:\t0\n");
		tree_write(&tree, table[i].file, table[i].text);
		assert_int_equal(hpi_topology_read(tree.root, &topology), -EIO);
		assert_non_null(strstr(hugepin_error(), table[i].file));
		assert_int_equal(topology.count, 0);
		assert_null(topology.nodes);
	}
}

static int fail_read_with;
static int fail_read_at;

static int fail_one_read(const char *call)
{
	return !strcmp(call, "read") && !--fail_read_at ? fail_read_with : 0;
}

/* Every single read fails once with an error that does not mean "absent". */
static void failing_read_is_an_error_that_leaves_nothing(void **state)
{
	int at;

	(void)state;
	write_lists("0-1", "0-1", "0-1", "0-1");
	write_node(0, 32, "0-3", "10 20");
	write_node(1, 32, "4-7", "20 10");
	tree_write(&tree, "proc/self/status", "Mems_allowed_list:\t0-1\n");
	tree_write(&tree, "proc/self/cgroup", "0::/job\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	tree_write(&tree, V2 "job/memory.max", "max\n");
	for (at = 1;; at++) {
		fail_read_at = at;
		fail_read_with = EIO;
		hpi_sys_fault = fail_one_read;
		if (!hpi_topology_read(tree.root, &topology))
			break;
		assert_true(strlen(hugepin_error()) > 0);
		assert_null(topology.nodes);
	}
	assert_true(at > 12);
	assert_true(fail_read_at > 0);
}

static void the_real_machine_is_read(void **state)
{
	int local = hpi_topology_local_node();

	(void)state;
	assert_int_equal(hpi_topology_read("", &topology), 0);
	assert_true(topology.count >= 1);
	assert_true(topology.memory_bytes > 0);
	assert_true(topology.limit_bytes > 0 && topology.limit_bytes <= topology.memory_bytes);
	assert_true(local >= 0);
	assert_non_null(hpi_topology_node(&topology, (unsigned int)local));
}

/* ---- The container's limit ---- */

static void assert_limit(uint64_t expected)
{
	read_tree();
	if (topology.limit_bytes != expected)
		fail_msg("limit is %llu, expected %llu", (unsigned long long)topology.limit_bytes,
			 (unsigned long long)expected);
}

/* C017: the least limit of the group and its ancestors, v2 */
static void limit_of_any_ancestor_counts_v2(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "0::/a/b/c\n");
	tree_write(&tree, "proc/self/mountinfo",
		   "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
	assert_limit(GIB(64));
	tree_write(&tree, V2 "a/b/c/memory.max", "max\n");
	tree_write(&tree, V2 "a/b/memory.max", "34359738368\n");
	assert_limit(GIB(32));
	tree_write(&tree, V2 "a/memory.max", "8589934592\n");
	assert_limit(GIB(8));
	tree_write(&tree, V2 "a/b/c/memory.max", "1073741824\n");
	assert_limit(GIB(1));
	tree_write(&tree, V2 "x/memory.max", "4096\n");		/* somebody else's */
	assert_limit(GIB(1));
}

/* C017: v1, its "unlimited" number, and ancestors that the mount does not show */
static void limit_of_any_ancestor_counts_v1(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "9:name=systemd:/\n5:cpu,memory:/a/b\n3:cpuset:/other\n0::/\n");
	tree_write(&tree, "proc/self/mountinfo",
		   "30 24 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
		   "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n"
		   "32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	tree_write(&tree, V1 "memory.limit_in_bytes", "9223372036854771712\n");
	tree_write(&tree, V1 "a/memory.limit_in_bytes", "17179869184\n");
	tree_write(&tree, V1 "a/b/memory.limit_in_bytes", "9223372036854771712\n");
	assert_limit(GIB(16));
	tree_write(&tree, V1 "a/b/memory.stat",
		   "cache 5\nhierarchical_memory_limit 4294967296\nhierarchical_memsw_limit 9\n");
	assert_limit(GIB(4));
	tree_write(&tree, V1 "a/b/memory.stat", "cache 5\n");
	assert_limit(GIB(16));
}

/* C017: a limit above the machine's memory is none */
static void limit_above_the_machine_is_the_machine(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "0::/a\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	tree_write(&tree, V2 "a/memory.max", "137438953472\n");
	assert_limit(GIB(64));
}

/* A container without a cgroup namespace: the path is the host's, the mount shows the container's own group. */
static void limit_is_found_where_the_mount_shows_the_group_itself(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "4:memory:/docker/abc\n");
	tree_write(&tree, "proc/self/mountinfo",
		   "31 24 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
	tree_write(&tree, V1 "memory.limit_in_bytes", "2147483648\n");
	assert_limit(GIB(2));
	/* A group below it. */
	tree_write(&tree, "proc/self/cgroup", "4:memory:/docker/abc/job\n");
	tree_write(&tree, V1 "job/memory.limit_in_bytes", "1073741824\n");
	assert_limit(GIB(1));
	/* "/docker/abcdef" is not below "/docker/abc". */
	tree_write(&tree, "proc/self/cgroup", "4:memory:/docker/abcdef\n");
	assert_limit(GIB(2));
	/* Outside of the cgroup namespace, and a mount that shows it all the same. */
	tree_write(&tree, "proc/self/cgroup", "4:memory:/../job\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
	assert_limit(GIB(2));
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 /.. /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
	assert_limit(GIB(1));
}

static void limit_is_found_at_the_usual_mounts_without_mountinfo(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "0::/a\n");
	tree_write(&tree, V2 "a/memory.max", "3221225472\n");
	assert_limit(GIB(3));
	tree_write(&tree, "proc/self/cgroup", "4:memory:/a\n");
	assert_limit(GIB(64));
	tree_write(&tree, V1 "a/memory.limit_in_bytes", "5368709120\n");
	assert_limit(GIB(5));
}

static void mount_point_may_hold_blanks(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "0::/a\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
	tree_write(&tree, "my groups/a/memory.max", "1073741824\n");
	assert_limit(GIB(1));
}

static void assert_headroom(uint64_t expected)
{
	uint64_t headroom = 0;

	assert_int_equal(hpi_cgroup_memory_headroom(tree.root, &headroom), 0);
	if (headroom != expected)
		fail_msg("headroom is %llu, expected %llu", (unsigned long long)headroom,
			 (unsigned long long)expected);
}

static void headroom_is_the_least_of_any_ancestor_with_file_pages_free_v2(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "0::/a/b\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	assert_headroom(UINT64_MAX);
	tree_write(&tree, V2 "a/b/memory.max", "1000000\n");
	assert_headroom(1000000);
	tree_write(&tree, V2 "a/b/memory.current", "600000\n");
	assert_headroom(400000);
	tree_write(&tree, V2 "a/b/memory.stat", "anon 1\ninactive_anon 7\nactive_file 100000\ninactive_file 20000\n");
	assert_headroom(520000);
	tree_write(&tree, V2 "a/memory.max", "2000000\n");
	tree_write(&tree, V2 "a/memory.current", "1900000\n");
	assert_headroom(100000);
	tree_write(&tree, V2 "a/memory.current", "2900000\n");	/* the limit was lowered */
	assert_headroom(0);
}

static void headroom_counts_the_groups_below_v1(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "5:memory:/a\n");
	tree_write(&tree, "proc/self/mountinfo",
		   "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
	tree_write(&tree, V1 "a/memory.limit_in_bytes", "9223372036854771712\n");
	tree_write(&tree, V1 "a/memory.usage_in_bytes", "700000\n");
	tree_write(&tree, V1 "a/memory.stat",
		   "inactive_file 1\nactive_file 1\nhierarchical_memory_limit 1000000\ntotal_inactive_file 50000\n"
		   "total_active_file 4000\n");
	assert_headroom(354000);
	tree_write(&tree, V1 "a/memory.usage_in_bytes", "lots\n");
	assert_int_equal(hpi_cgroup_memory_headroom(tree.root, &(uint64_t){ 0 }), -EIO);
	assert_non_null(strstr(hugepin_error(), "memory.usage_in_bytes"));
}

static void malformed_limit_is_an_error_that_names_the_file(void **state)
{
	(void)state;
	tree_write(&tree, "proc/self/cgroup", "0::/a\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	tree_write(&tree, V2 "a/memory.max", "1G\n");
	assert_int_equal(hpi_topology_read(tree.root, &topology), -EIO);
	assert_non_null(strstr(hugepin_error(), "a/memory.max"));
	assert_null(topology.nodes);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, make_tree, remove_tree)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(two_nodes_are_read_with_memory_cpus_and_distances),
		TEST(offline_nodes_are_not_there_and_distances_keep_their_ids),
		TEST(node_that_vanished_is_offline_and_no_error),
		TEST(node_may_vanish_at_any_read),
		TEST(nodes_without_cpus_or_memory_are_told_apart),
		TEST(accelerators_memory_is_taken_only_where_it_is_named),
		TEST(nearest_node_is_one_with_cpus),
		TEST(node_ids_with_holes_stay_what_they_are),
		TEST(nodes_outside_of_the_cpuset_are_not_usable),
		TEST(without_sysfs_there_is_one_node_with_the_machines_memory),
		TEST(without_proc_memory_is_the_nodes_sum),
		TEST(sparse_sysfs_still_gives_its_nodes),
		TEST(malformed_file_is_an_error_that_names_it_and_leaves_nothing),
		TEST(failing_read_is_an_error_that_leaves_nothing),
		TEST(the_real_machine_is_read),
		TEST(limit_of_any_ancestor_counts_v2),
		TEST(limit_of_any_ancestor_counts_v1),
		TEST(limit_above_the_machine_is_the_machine),
		TEST(limit_is_found_where_the_mount_shows_the_group_itself),
		TEST(limit_is_found_at_the_usual_mounts_without_mountinfo),
		TEST(mount_point_may_hold_blanks),
		TEST(headroom_is_the_least_of_any_ancestor_with_file_pages_free_v2),
		TEST(headroom_counts_the_groups_below_v1),
		TEST(malformed_limit_is_an_error_that_names_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
