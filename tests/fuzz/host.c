// SPDX-License-Identifier: MIT
/*
 * What hugepinctl reads of a node: /proc/zoneinfo, memory blocks, /proc/kpageflags; and what explain makes of it. One
 * part is the flags of pages, eight bytes each, from the first block on.
 */
#include "host.h"
#include "tree.h"

#define BLOCKS		"sys/devices/system/memory/"
#define FLAGS		"flags"
#define FIRST_BLOCK	32

static const char *const names[] = {
	/* a */ "proc/zoneinfo", BLOCKS "block_size_bytes",
	/* c */ BLOCKS "memory32/state", BLOCKS "memory32/valid_zones",
	/* e */ BLOCKS "memory33/state", BLOCKS "memory33/valid_zones",
	/* g */ FLAGS,
};

/* Folders that the parts do not make; what nodes a block is on stands in names alone. */
static void make_folders(void)
{
	static bool made;

	if (made)
		return;
	made = true;
	tree_begin();
	tree_write(BLOCKS "memory32/node0/x", NULL, 0);
	tree_write(BLOCKS "memory33/node0/x", NULL, 0);
	tree_write(BLOCKS "memory33/node1/x", NULL, 0);
	tree_write("sys/devices/system/node/node0/memory32/x", NULL, 0);
	tree_write("sys/devices/system/node/node0/memory33/x", NULL, 0);
}

/* The same flags for every page behind those given would make one run: they are repeated. */
static void place_flags(uint64_t block_pages)
{
	uint64_t entries[512];
	char path[512];
	off_t at = (off_t)(FIRST_BLOCK * block_pages * sizeof(entries[0])), i;
	ssize_t got;
	int fd;

	tree_path(path, sizeof(path), FLAGS);
	fd = open(path, O_RDONLY);
	got = fd < 0 ? 0 : read(fd, entries, sizeof(entries));
	if (fd >= 0)
		close(fd);
	tree_path(path, sizeof(path), "proc/kpageflags");
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	PROPERTY(fd >= 0);
	for (i = 0; got > 0 && i < 16; i++)
		PROPERTY(pwrite(fd, entries, (size_t)got, at + i * got) == got);
	close(fd);
}

static void check_tallies(const struct node_map *map, const struct node_scan *scan)
{
	uint64_t windows = 0, blocks = 0, sum = 0;
	size_t i, kind;

	for (kind = 0; kind < PAGE_KINDS; kind++) {
		for (i = 0; i < scan->nr_windows; i++)
			windows += scan->windows[i].tally.pages[kind];
		for (i = 0; i < map->nr_blocks; i++)
			blocks += scan->blocks[i].pages[kind];
		sum += scan->sum.pages[kind];
	}
	/* Each page of each block once. */
	PROPERTY(sum == map->nr_blocks * map->block_pages && windows == sum && blocks == sum);
}

static void check_node(int node)
{
	struct message why = { 0 };
	struct forecast forecast;
	struct node_map map;
	struct node_scan scan;
	size_t i;

	if (node_map_read(node, &map, &why))
		return;
	PROPERTY(map.nr_zones > 0 && map.nr_zones <= ZONES_MAX && map.block_pages);
	for (i = 0; i < map.nr_blocks; i++)
		PROPERTY(map.blocks[i].zone == ZONE_BY_SPAN || (size_t)map.blocks[i].zone < map.nr_zones);
	place_flags(map.block_pages);
	if (!node_scan_run(&map, node == 0, &scan, NULL, &why)) {
		check_tallies(&map, &scan);
		forecast_make(&map, &scan, &forecast);
		PROPERTY(forecast.now <= forecast.most);
		node_scan_free(&scan);
	}
	node_map_free(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	make_folders();
	host_root = tree_root;
	tree_make(data, size, names, sizeof(names) / sizeof(names[0]));
	check_node(0);
	return 0;
}
