// SPDX-License-Identifier: MIT
/* What the library reads of the machine: nodes and distances, the kernel's huge pages, the container's limits. */
#include "internal.h"
#include "tree.h"

#define NODES	"sys/devices/system/node/"
#define PAGES	"sys/kernel/mm/hugepages/hugepages-2048kB/"

static const char *const names[] = {
	/* a */ NODES "possible", NODES "online", NODES "has_memory", NODES "has_normal_memory", NODES "has_cpu",
	/* f */ NODES "node0/meminfo", NODES "node0/cpulist", NODES "node0/distance",
	/* i */ NODES "node3/meminfo", NODES "node3/cpulist", NODES "node3/distance",
	/* l */ "proc/meminfo", "proc/self/cgroup", "proc/self/mountinfo",
	/* o */ "sys/fs/cgroup/job/memory.max", "sys/fs/cgroup/job/memory.stat", "sys/fs/cgroup/job/memory.current",
	/* r */ "sys/fs/cgroup/job/hugetlb.2MB.max", "sys/fs/cgroup/memory/memory.limit_in_bytes",
	/* t */ PAGES "nr_hugepages", PAGES "free_hugepages", PAGES "resv_hugepages", PAGES "nr_overcommit_hugepages",
	/* x */ PAGES "surplus_hugepages", NODES "node0/hugepages/hugepages-2048kB/free_hugepages",
};

static void check_topology(void)
{
	struct hpi_topology topology, again;
	struct hpi_nodes usable, defaults;
	unsigned int id;
	size_t i, k;

	memset(&topology, 0, sizeof(topology));
	if (hpi_topology_read(tree_root, &topology))
		return;
	PROPERTY(topology.count > 0 && topology.limit_bytes <= topology.memory_bytes);
	for (i = 0; i < topology.count; i++) {
		PROPERTY(topology.nodes[i].id < HPI_NODES_MAX);
		PROPERTY(!i || topology.nodes[i].id > topology.nodes[i - 1].id);
		PROPERTY(hpi_topology_node(&topology, topology.nodes[i].id) == &topology.nodes[i]);
		for (k = 0; k < topology.count; k++)
			PROPERTY(hpi_topology_distance(&topology, topology.nodes[i].id, topology.nodes[k].id) >= 0);
	}
	hpi_topology_usable(&topology, &usable);
	hpi_topology_default_nodes(&topology, &defaults);
	for (id = 0; id < HPI_NODES_MAX; id++) {
		PROPERTY(!hpi_nodes_has(&defaults, id) || hpi_nodes_has(&usable, id));
		PROPERTY(!hpi_nodes_has(&usable, id) || hpi_topology_node(&topology, id));
	}
	memset(&again, 0, sizeof(again));
	PROPERTY(!hpi_topology_read(tree_root, &again) && again.count == topology.count &&
		 again.memory_bytes == topology.memory_bytes && again.limit_bytes == topology.limit_bytes);
	hpi_topology_free(&again);
	hpi_topology_free(&topology);
}

static void check_hugetlb(void)
{
	struct hpi_hugetlb_pool pool = { .total_pages = 77 };
	struct hpi_nodes nodes;

	if (hpi_hugetlb_pool_read(tree_root, HPI_2M, &pool))
		PROPERTY(pool.total_pages == 77);
	PROPERTY(hpi_hugetlb_pool_read(tree_root, HPI_1G, &pool));
	if (!hpi_nodes_parse("0,3", &nodes))
		hpi_hugetlb_free_on(tree_root, HPI_2M, &nodes);
}

static void check_limits(void)
{
	uint64_t limit = 77, headroom = 77;
	int limit_err = hpi_cgroup_memory_limit(tree_root, &limit);
	int headroom_err = hpi_cgroup_memory_headroom(tree_root, &headroom);

	PROPERTY(!limit_err || limit == 77);
	PROPERTY(!headroom_err || headroom == 77);
	/* What may still be had is within the limit, unless there is none. */
	PROPERTY(limit_err || headroom_err || headroom <= limit);
	hpi_cgroup_hugetlb_limit(tree_root, HPI_2M, &limit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tree_make(data, size, names, sizeof(names) / sizeof(names[0]));
	check_topology();
	check_hugetlb();
	check_limits();
	return 0;
}
