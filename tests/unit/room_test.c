// SPDX-License-Identifier: MIT
/* What memory that nobody has set aside there is room for, from trees made for each test. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "internal.h"
#include "tree.h"

#define V1	"sys/fs/cgroup/memory/"
#define V2	"sys/fs/cgroup/"
#define GIB(n)	((uint64_t)(n) << 30)

static struct tree tree;
static struct hpi_topology topology;
static const struct hpi_policy local = { .policy = HUGEPIN_NODES_PREFERRED };

/* A machine of 64 GiB, of which 40 are available, in two nodes with 30 and 12 GiB free or in file pages. */
static int setup(void **state)
{
	(void)state;
	tree_make(&tree);
	tree_write(&tree, "proc/meminfo", "MemTotal:       67108864 kB\nMemFree:  1 kB\nMemAvailable:   41943040 kB\n"
		   "SwapFree:       0 kB\n");
	tree_write(&tree, "sys/devices/system/node/node0/meminfo",
		   "Node 0 MemTotal: 33554432 kB\nNode 0 MemFree: 10485760 kB\nNode 0 Active(file): 10485760 kB\n"
		   "Node 0 Inactive(file): 5242880 kB\nNode 0 SReclaimable: 5242880 kB\n");
	tree_write(&tree, "sys/devices/system/node/node2/meminfo",
		   "Node 2 MemTotal: 33554432 kB\nNode 2 MemFree: 12582912 kB\n");
	topology = (struct hpi_topology){ .memory_bytes = GIB(64), .limit_bytes = GIB(64) };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tree_remove(&tree, "");
	return 0;
}

static int check(const struct hpi_policy *policy, uint64_t bytes)
{
	return hpi_room_check(tree.root, &topology, policy, "base", bytes);
}

static struct hpi_policy bound(const char *nodes)
{
	struct hpi_policy policy = { .policy = HUGEPIN_NODES_BIND };

	assert_int_equal(hpi_nodes_parse(nodes, &policy.nodes), 0);
	return policy;
}

/* C002, without a container: the host is what would be killed on. */
static void more_than_the_machine_has_available_is_refused(void **state)
{
	(void)state;
	assert_true(hpi_room_on_machine(tree.root) == GIB(40));
	assert_int_equal(check(&local, GIB(40)), 0);
	assert_int_equal(check(NULL, GIB(40)), 0);
	assert_int_equal(check(&local, GIB(40) + 4096), -ENOMEM);
	assert_string_equal(hugepin_error(), "base: asked 42949677056 bytes, the machine has 42949672960 available, "
			    "and 0 of swap");
	assert_int_equal(check(NULL, GIB(40) + 4096), -ENOMEM);
	assert_int_equal(check(&local, GIB(64) + 4096), -ENOMEM);
	assert_string_equal(hugepin_error(), "base: asked 68719480832 bytes, the machine's memory is 68719476736");
}

static void swap_counts_but_not_beyond_the_machines_memory(void **state)
{
	(void)state;
	tree_write(&tree, "proc/meminfo", "MemAvailable:   41943040 kB\nSwapFree:       33554432 kB\n");
	assert_int_equal(check(&local, GIB(64)), 0);
	assert_int_equal(check(&local, GIB(64) + 4096), -ENOMEM);
}

/* C038: strict is an error, and not the end of the process. */
static void more_than_the_nodes_have_that_it_is_bound_to_is_refused(void **state)
{
	struct hpi_policy node0 = bound("0"), node2 = bound("2"), both = bound("0,2");

	(void)state;
	assert_true(hpi_room_on_nodes(tree.root, &node0.nodes) == GIB(30));
	assert_int_equal(check(&node0, GIB(30)), 0);
	assert_int_equal(check(&node2, GIB(12)), 0);
	assert_int_equal(check(&node2, GIB(12) + 4096), -ENOMEM);
	assert_string_equal(hugepin_error(), "base: asked 12884905984 bytes on node 2, with 12884901888 available, "
			    "and 0 of swap");
	assert_int_equal(check(&both, GIB(40)), 0);
	assert_int_equal(check(&both, GIB(42) + 4096), -ENOMEM);
	/* Preferred and interleaved memory goes elsewhere when its nodes are full. */
	node2.policy = HUGEPIN_NODES_PREFERRED;
	assert_int_equal(check(&node2, GIB(40)), 0);
	node2.policy = HUGEPIN_NODES_INTERLEAVE;
	assert_int_equal(check(&node2, GIB(40)), 0);
}

/* C014 and C017: what holds is the limit as it is now. */
static void a_containers_limit_is_as_it_is_now(void **state)
{
	(void)state;
	topology.limit_bytes = GIB(8);		/* when the context was made */
	tree_write(&tree, "proc/self/cgroup", "0::/a\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	tree_write(&tree, V2 "a/memory.max", "34359738368\n");
	tree_write(&tree, V2 "a/memory.current", "1073741824\n");
	assert_int_equal(check(&local, GIB(30)), 0);
	/* With its page tables it would not fit. */
	assert_int_equal(check(&local, GIB(31)), -ENOMEM);
	assert_string_equal(hugepin_error(), "base: asked 33285996544 bytes, the container has 33285996544 left of its "
			    "limit of 34359738368, and 0 of swap");
	tree_write(&tree, V2 "a/memory.max", "1073741824\n");
	assert_int_equal(check(&local, 4096), -ENOMEM);
	tree_write(&tree, V2 "a/memory.max", "max\n");
	assert_int_equal(check(&local, GIB(40)), 0);
	tree_write(&tree, V2 "a/memory.max", "nonsense\n");
	assert_int_equal(check(&local, GIB(40)), 0);
	assert_string_equal(hugepin_error(), "");
}

/* C017: the host's swap is not the container's. */
static void a_container_swaps_no_more_than_it_may(void **state)
{
	(void)state;
	tree_write(&tree, "proc/meminfo", "MemAvailable:   41943040 kB\nSwapFree:       33554432 kB\n");
	tree_write(&tree, "proc/self/cgroup", "0::/a\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	tree_write(&tree, V2 "a/memory.max", "1073741824\n");
	assert_int_equal(check(&local, GIB(2)), 0);
	tree_write(&tree, V2 "a/memory.swap.max", "0\n");
	assert_int_equal(check(&local, GIB(2)), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "1073741824 left of its limit of 1073741824, and 0 of swap"));
	assert_int_equal(check(&local, GIB(1) - GIB(1) / 256), 0);
	tree_write(&tree, V2 "a/memory.swap.max", "2147483648\n");
	assert_int_equal(check(&local, GIB(2)), 0);
	tree_write(&tree, V2 "a/memory.swap.current", "2147000000\n");
	assert_int_equal(check(&local, GIB(2)), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "and 483648 of swap"));
	tree_write(&tree, V2 "a/memory.swap.max", "max\n");
	assert_int_equal(check(&local, GIB(2)), 0);
}

/* The older kind limits memory and swap together; both counts have the same file pages in them. */
static void a_container_of_the_older_kind_swaps_no_more_than_it_may(void **state)
{
	(void)state;
	tree_write(&tree, "proc/meminfo", "MemAvailable:   41943040 kB\nSwapFree:       33554432 kB\n");
	tree_write(&tree, "proc/self/cgroup", "4:memory:/a\n");
	tree_write(&tree, "proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
	tree_write(&tree, V1 "a/memory.limit_in_bytes", "1073741824\n");
	tree_write(&tree, V1 "a/memory.usage_in_bytes", "1000000\n");
	assert_int_equal(check(&local, GIB(2)), 0);
	tree_write(&tree, V1 "a/memory.memsw.limit_in_bytes", "1073741824\n");
	tree_write(&tree, V1 "a/memory.memsw.usage_in_bytes", "1000000\n");
	assert_int_equal(check(&local, GIB(2)), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "and 0 of swap"));
	tree_write(&tree, V1 "a/memory.memsw.limit_in_bytes", "2147483648\n");
	assert_int_equal(check(&local, GIB(2)), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "and 1073741824 of swap"));
	assert_int_equal(check(&local, GIB(2) - GIB(1) / 64), 0);
}

static void what_is_not_told_forbids_nothing(void **state)
{
	struct hpi_policy node2 = bound("2");

	(void)state;
	tree_remove(&tree, "sys");
	tree_remove(&tree, "proc");
	assert_true(hpi_room_on_machine(tree.root) == UINT64_MAX);
	assert_true(hpi_room_on_nodes(tree.root, &node2.nodes) == UINT64_MAX);
	assert_int_equal(check(&node2, GIB(64)), 0);
	tree_write(&tree, "proc/meminfo", "MemAvailable: -1 kB\n");
	assert_int_equal(check(&node2, GIB(64)), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(more_than_the_machine_has_available_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(swap_counts_but_not_beyond_the_machines_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(more_than_the_nodes_have_that_it_is_bound_to_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_containers_limit_is_as_it_is_now, setup, teardown),
		cmocka_unit_test_setup_teardown(a_container_swaps_no_more_than_it_may, setup, teardown),
		cmocka_unit_test_setup_teardown(a_container_of_the_older_kind_swaps_no_more_than_it_may, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_told_forbids_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
