// SPDX-License-Identifier: MIT
/*
 * Node policies on whatever nodes there are: ids with gaps, nodes without memory or without CPUs. A machine that has
 * them all: tools/vm/run --node-memory 2G,0,2G,1G (CPUs are on the first two).
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "driver.h"
#include "region.h"
#include "reserve.h"

#define NODES_MAX	64
#define MASK_WORDS	(HUGEPIN_NODES_MAX / 64)

struct nodes {
	unsigned int id[NODES_MAX], count;
};

static struct nodes all_nodes(void)
{
	struct nodes nodes;

	nodes.count = reserve_nodes(nodes.id, NODES_MAX);
	CHECK(nodes.count, "no node");
	return nodes;
}

/* Interleaved over the nodes, with a mask as wide as there may be; the new descriptor or -errno. */
static int interleave(const struct nodes *nodes, uint64_t pages, struct hugepin_extent *extents, uint32_t *count)
{
	struct hugepin_create args = create_args(pages * PAGE_2M, CLASS_2M);
	uint64_t mask[MASK_WORDS] = { 0 };
	int device = device_open(), fd;
	unsigned int i;

	for (i = 0; i < nodes->count; i++)
		mask[nodes->id[i] / 64] |= 1ULL << nodes->id[i] % 64;
	args.policy = HUGEPIN_POLICY_INTERLEAVE;
	args.nodemask = (uintptr_t)mask;
	args.nodemask_bits = HUGEPIN_NODES_MAX;
	args.extents = (uintptr_t)extents;
	args.nr_extents = NODES_MAX;
	fd = region_create(device, &args);
	*count = args.nr_extents;
	close(device);
	return fd;
}

/* Each node its share, the first ones one more; and the pages in turn, by address. */
static void check_interleaved(int driver, const struct nodes *nodes, uint64_t pages)
{
	struct hugepin_extent extents[NODES_MAX];
	unsigned int i;
	uint32_t count;
	uint64_t page;
	char *start;
	int fd = interleave(nodes, pages, extents, &count);

	CHECK(fd >= 0, "%llu pages over %u nodes: %s", (unsigned long long)pages, nodes->count, strerror(-fd));
	CHECK_EQ(count, pages < nodes->count ? pages : nodes->count);
	for (i = 0; i < count; i++) {
		CHECK_EQ(extents[i].node, nodes->id[i]);
		CHECK_EQ(extents[i].pages, pages / nodes->count + (i < pages % nodes->count));
	}
	start = region_map(fd, 0, pages * PAGE_2M, PROT_READ | PROT_WRITE);
	for (page = 0; page < pages; page++)
		CHECK_EQ(pages_of(driver, start + page * PAGE_2M, PAGE_2M).node, nodes->id[page % nodes->count]);
	CHECK_OK(munmap(start, pages * PAGE_2M));
	close(fd);
}

static void interleave_is_exact_over_every_set_of_nodes(const void *arg)
{
	struct nodes all = all_nodes(), some;
	int driver = driver_open();
	unsigned int set, i;
	uint64_t pages;

	(void)arg;
	for (set = 1; set < 1u << all.count && set < 64; set++) {
		some.count = 0;
		for (i = 0; i < all.count; i++)
			if (set >> i & 1)
				some.id[some.count++] = all.id[i];
		for (pages = 1; pages <= 2 * some.count + 1; pages++)
			check_interleaved(driver, &some, pages);
	}
	close(driver);
}

static bool online(const char *list, unsigned int node)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/sys/devices/system/node/%s", list);
	CHECK(file_read(path, text, sizeof(text)), "%s", path);
	for (char *item = strtok(text, ","); item; item = strtok(NULL, ",")) {
		unsigned int first = 0, last = 0;
		int got = sscanf(item, "%u-%u", &first, &last);

		if (got > 0 && node >= first && node <= (got == 2 ? last : first))
			return true;
	}
	return false;
}

/* A node of the machine that @list does not have; skips if there is none. */
static unsigned int node_not_in(const char *list, const char *lack)
{
	unsigned int node;

	for (node = 0; node < NODES_MAX; node++)
		if (online("online", node) && !online(list, node))
			return node;
	ktap_skip("this machine has no node without %s", lack);
}

static void a_node_without_memory_is_none_of_ours(const void *arg)
{
	unsigned int node = node_not_in("has_memory", "memory");
	struct nodes nodes = all_nodes();
	struct hugepin_extent extents[NODES_MAX];
	uint32_t count;
	char path[128];

	(void)arg;
	knob_path(path, sizeof(path), node, HUGEPIN_CLASS_2M, "nr_hugepages");
	CHECK(access(path, F_OK), "%s is there", path);
	nodes.id[nodes.count++] = node;
	CHECK_EQ(interleave(&nodes, 4, extents, &count), -ENODEV);
	/* all nodes are all that have memory, gap or no gap */
	CHECK_EQ(interleave(&(struct nodes){ .id = { node }, .count = 1 }, 1, extents, &count), -ENODEV);
	close(region_make(reserve_free_class(HUGEPIN_CLASS_2M) * PAGE_2M, CLASS_2M));
}

static bool clean_on(const struct reserve *reserve, const void *arg)
{
	unsigned int i;

	for (i = 0; i < reserve->info.nr_pages; i++)
		if (reserve->pages[i].node == *(const unsigned int *)arg && reserve->pages[i].dirty)
			return false;
	return true;
}

static void a_node_without_cpus_is_scrubbed_by_others(const void *arg)
{
	unsigned int node = node_not_in("has_cpu", "CPUs");

	(void)arg;
	close(region_make_on(node, reserve_free_pages(node, HUGEPIN_CLASS_2M) * PAGE_2M, CLASS_2M));
	CHECK(reserve_wait(clean_on, &node), "node %u stays dirty", node);
}

#define CASE(f)	{ .name = #f, .run = f, .timeout_s = 90 }

static const struct ktap_case cases[] = {
	CASE(interleave_is_exact_over_every_set_of_nodes),
	CASE(a_node_without_memory_is_none_of_ours),
	CASE(a_node_without_cpus_is_scrubbed_by_others),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
