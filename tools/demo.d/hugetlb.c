// SPDX-License-Identifier: MIT
/*
 * The same amount of memory from the kernel's own huge pages, with nothing but mmap(2).
 *
 * What is measured must be the kernel's work and not the machine's: memory of an emulated machine that nobody has
 * written yet is paid for by the host at the first touch. So the pages are made ready twice, by the same call, and the
 * second time counts: those were touched by the first. Taking them into the kernel's pool (nr_hugepages) is not
 * measured, as little as taking pages into hugepin's reserve. The kernel zeroes such pages when they are mapped, and
 * that is the difference.
 */
#include <errno.h>
#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <string.h>
#include <sys/mman.h>

#include "demo.h"

#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB	(21 << 26)
#endif

static int knob_read(int node, uint64_t *pages)
{
	char path[128];
	FILE *file;
	int n;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", node);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n = fscanf(file, "%" SCNu64, pages);
	fclose(file);
	return n == 1 ? 0 : -EIO;
}

static int knob_write(int node, uint64_t pages)
{
	char path[128];
	FILE *file;
	int err = 0;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", node);
	file = fopen(path, "we");
	if (!file)
		return -errno;
	if (fprintf(file, "%" PRIu64 "\n", pages) < 0)
		err = -EIO;
	if (fclose(file))
		err = -errno;
	return err;
}

/* The node with most free memory, the region's own only if there is no other with enough. */
static int find_node(uint64_t bytes, int other_than_node)
{
	long long most = 0;
	int best = -1;

	for (int node = 0; node <= numa_max_node(); node++) {
		long long available = 0;

		if (numa_node_size64(node, &available) < 0 || available < (long long)bytes)
			continue;
		if (node == other_than_node)
			available = 1;
		if (available > most) {
			most = available;
			best = node;
		}
	}
	return best;
}

/* Every byte ready: mapped, zeroed, with its page-table entry. */
static int populate(int node, uint64_t bytes, uint64_t *us)
{
	struct bitmask *nodes = numa_allocate_nodemask();
	uint64_t start;
	void *memory;
	int err = 0;

	numa_bitmask_setbit(nodes, (unsigned int)node);
	numa_set_membind(nodes);
	numa_run_on_node(node);
	start = now_us();
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB | MAP_POPULATE, -1, 0);
	*us = now_us() - start;
	if (memory == MAP_FAILED)
		err = -errno;
	numa_run_on_node(-1);
	numa_set_localalloc();
	numa_free_nodemask(nodes);
	if (!err && munmap(memory, bytes))
		err = -errno;
	return err;
}

static int measure(struct demo *demo, int node, uint64_t bytes, uint64_t *us)
{
	char text[TEXT_SIZE];
	int err;

	for (int round = 1; round <= 2; round++) {
		report_progress("mapping %s of the kernel's own hugetlb pages, round %d of 2", text_bytes(bytes, text),
				round);
		err = populate(node, bytes, us);
		if (err)
			return report_stop(demo, "%s of hugetlb pages on node %d: %s", text, node, strerror(-err));
	}
	return 0;
}

int hugetlb_ready_us(struct demo *demo, uint64_t bytes, int other_than_node, int *node, uint64_t *us)
{
	uint64_t pages = bytes / PAGE_2M, before = 0, got = 0;
	char text[TEXT_SIZE];
	int ret;

	*node = find_node(bytes, other_than_node);
	if (*node < 0)
		return report_stop(demo, "no node has %s of memory free for hugetlb pages", text_bytes(bytes, text));
	ret = knob_read(*node, &before);
	if (ret)
		return report_stop(demo, "node %d's nr_hugepages: %s", *node, strerror(-ret));
	report_progress("taking %" PRIu64 " hugetlb pages on node %d", pages, *node);
	ret = knob_write(*node, before + pages);
	if (!ret)
		ret = knob_read(*node, &got);
	if (ret)
		ret = report_stop(demo, "node %d's nr_hugepages: %s", *node, strerror(-ret));
	else if (got < before + pages)
		ret = report_stop(demo, "hugetlb pages on node %d: asked %" PRIu64 ", got %" PRIu64, *node,
				  before + pages, got);
	else
		ret = measure(demo, *node, bytes, us);
	knob_write(*node, before);
	return ret;
}
