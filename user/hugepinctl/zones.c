// SPDX-License-Identifier: MIT
/*
 * Where a node's memory lies: its zones from /proc/zoneinfo, its memory blocks from sysfs. Spans of nodes may
 * interleave, so which pages are a node's is told by the blocks; a block that has pages of one zone only names it.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

#define MEMORY	"/sys/devices/system/memory"

/* Of a memory block: powers of two between these. What is looked at page by page relies on that. */
#define BLOCK_PAGES_MIN	((uint64_t)1 << 9)	/* 2 MiB */
#define BLOCK_PAGES_MAX	((uint64_t)1 << 28)	/* 1 TiB */

bool zone_is_usable(const struct zone *zone)
{
	return strcmp(zone->name, "Movable") && strcmp(zone->name, "Device");
}

/* ---- /proc/zoneinfo ---- */

/* Member of struct zone that a line "  name value" adds to. The file pages are two lines. */
static uint64_t *member_of(struct zone *zone, const char *name)
{
	const struct {
		const char *name;
		uint64_t *member;
	} members[] = {
		{ "spanned", &zone->spanned_pages },
		{ "managed", &zone->managed_pages },
		{ "cma", &zone->cma_pages },
		{ "nr_free_pages", &zone->free_pages },
		{ "nr_free_cma", &zone->free_cma_pages },
		{ "nr_zone_inactive_file", &zone->file_pages },
		{ "nr_zone_active_file", &zone->file_pages },
		{ "count:", &zone->cpu_pages },
		{ "start_pfn:", &zone->start_pfn },
	};

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if (!strcmp(members[i].name, name))
			return members[i].member;
	return NULL;
}

static int begin_zone(struct node_map *map, const char *name)
{
	struct zone *zone;

	if (map->nr_zones == ZONES_MAX)
		return -E2BIG;
	zone = &map->zones[map->nr_zones++];
	*zone = (struct zone){ 0 };
	snprintf(zone->name, sizeof(zone->name), "%s", name);
	return 0;
}

static int take_line(struct node_map *map, const char *line, bool *ours)
{
	char name[32];
	uint64_t value, *member;
	int node;

	if (sscanf(line, "Node %d, zone %31s", &node, name) == 2) {
		*ours = node == map->node;
		return *ours ? begin_zone(map, name) : 0;
	}
	if (!*ours || sscanf(line, " %31s %" SCNu64, name, &value) != 2)
		return 0;
	member = member_of(&map->zones[map->nr_zones - 1], name);
	if (member)
		*member += value;
	return 0;
}

static int read_zones(struct node_map *map, struct message *why)
{
	FILE *file = host_open_text("/proc/zoneinfo");
	bool ours = false;
	char line[256];
	int err = 0;

	if (!file)
		return message_set(why, -errno, "/proc/zoneinfo: %s; explain needs to read it", strerror(errno));
	while (!err && fgets(line, sizeof(line), file))
		err = take_line(map, line, &ours);
	if (!err && ferror(file))
		err = -EIO;
	fclose(file);
	if (err)
		return message_set(why, err, "/proc/zoneinfo: %s", strerror(-err));
	if (!map->nr_zones)
		return message_set(why, -ENXIO,
				   "/proc/zoneinfo tells nothing of node %d, which has memory: is it masked here?",
				   map->node);
	return 0;
}

/* ---- memory blocks ---- */

static int zone_by_name(const struct node_map *map, const char *name)
{
	for (size_t i = 0; i < map->nr_zones; i++)
		if (!strcmp(map->zones[i].name, name))
			return (int)i;
	return ZONE_BY_SPAN;
}

static int read_block(const struct node_map *map, struct block *block)
{
	char folder[64], text[128];
	uint64_t *nodes;
	size_t count;
	int err;

	snprintf(folder, sizeof(folder), MEMORY "/memory%" PRIu64, block->number);
	err = host_read(text, sizeof(text), "%s/state", folder);
	if (err)
		return err;
	block->online = !strcmp(text, "online") || !strcmp(text, "going-offline");
	block->pfn = block->number * map->block_pages;
	block->zone = host_read(text, sizeof(text), "%s/valid_zones", folder) ? ZONE_BY_SPAN : zone_by_name(map, text);
	err = host_numbered(folder, "node", &nodes, &count);
	if (err)
		return err;
	block->shared = count > 1;
	free(nodes);
	return 0;
}

static int read_blocks(struct node_map *map)
{
	char folder[64];
	uint64_t *numbers;
	size_t count;
	int err;

	snprintf(folder, sizeof(folder), "/sys/devices/system/node/node%d", map->node);
	err = host_numbered(folder, "memory", &numbers, &count);
	if (err)
		return err;
	map->blocks = calloc(count ? count : 1, sizeof(*map->blocks));
	if (!map->blocks) {
		free(numbers);
		return -ENOMEM;
	}
	for (size_t i = 0; !err && i < count; i++) {
		map->blocks[map->nr_blocks].number = numbers[i];
		err = read_block(map, &map->blocks[map->nr_blocks]);
		if (!err)
			map->nr_blocks++;
		else if (err == -ENOENT)
			err = 0;		/* it has been taken away meanwhile */
	}
	free(numbers);
	return err;
}

static int read_block_size(struct node_map *map)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char text[32], *end;
	int err = host_read(text, sizeof(text), MEMORY "/block_size_bytes");

	if (err)
		return err;
	map->block_pages = strtoull(text, &end, 16) / page;
	if (!isxdigit((unsigned char)*text) || *end || map->block_pages < BLOCK_PAGES_MIN ||
	    map->block_pages > BLOCK_PAGES_MAX || map->block_pages & (map->block_pages - 1))
		return -EIO;
	return 0;
}

int node_map_read(int node, struct node_map *out, struct message *why)
{
	struct node_map map = { .node = node };
	int err = read_zones(&map, why);

	if (err)
		return err;
	err = read_block_size(&map);
	if (err)
		return message_set(why, err, MEMORY "/block_size_bytes: %s; explain needs a kernel with memory blocks",
				   strerror(-err));
	err = read_blocks(&map);
	if (err) {
		node_map_free(&map);
		return message_set(why, err, "the memory blocks of node %d cannot be read in " MEMORY ": %s", node,
				   strerror(-err));
	}
	*out = map;
	return 0;
}

void node_map_free(struct node_map *map)
{
	free(map->blocks);
	map->blocks = NULL;
	map->nr_blocks = 0;
}

const struct zone *node_map_zone(const struct node_map *map, const struct block *block, uint64_t pfn)
{
	if (block->zone != ZONE_BY_SPAN)
		return &map->zones[block->zone];
	for (size_t i = 0; i < map->nr_zones; i++) {
		const struct zone *zone = &map->zones[i];

		if (pfn >= zone->start_pfn && pfn - zone->start_pfn < zone->spanned_pages)
			return zone;
	}
	return NULL;
}
