// SPDX-License-Identifier: MIT
/*
 * What the pages of a node mean for pages of 1 GiB: which aligned windows the kernel could empty, and how many of
 * them may be taken before the module's floor. The kernel does not tell free pages in the lists of CPUs from its own
 * that are on no list and have no type; a reservation empties these lists, so windows with nothing else in the way
 * make the forecast a range. The rules are the kernel's for contiguous ranges (one zone, no hole, nothing that cannot
 * move, not from a zone kept for what can) and the module's in kmod/pages.c; both halves are tried against real
 * reservations in tests/cases/hugepinctl_vm.sh.
 */
#include <string.h>

#include "host.h"

#define PAGE_BYTES	4096
#define MIB		(1ULL << 20)

const char *const window_state_names[WINDOW_STATES] = {
	[WINDOW_FREE] = "free",
	[WINDOW_MOVABLE] = "movable",
	[WINDOW_PERHAPS] = "free ones in lists of CPUs or the kernel's",
	[WINDOW_OURS] = "hugepin, one 1G page",
	[WINDOW_HUGETLB] = "hugetlb in the way",
	[WINDOW_OURS_2M] = "hugepin's 2M pages in the way",
	[WINDOW_BLOCKED] = "blocked",
	[WINDOW_ZONE] = "zone for movable memory only",
	[WINDOW_PARTIAL] = "not whole",
};
const char *const window_state_keys[WINDOW_STATES] = {
	[WINDOW_FREE] = "free",
	[WINDOW_MOVABLE] = "movable",
	[WINDOW_PERHAPS] = "perhaps",
	[WINDOW_OURS] = "hugepin_1g",
	[WINDOW_HUGETLB] = "hugetlb",
	[WINDOW_OURS_2M] = "hugepin_2m",
	[WINDOW_BLOCKED] = "blocked",
	[WINDOW_ZONE] = "movable_zone",
	[WINDOW_PARTIAL] = "partial",
};
const char window_state_signs[WINDOW_STATES] = {
	[WINDOW_FREE] = '.',
	[WINDOW_MOVABLE] = '-',
	[WINDOW_PERHAPS] = '?',
	[WINDOW_OURS] = 'O',
	[WINDOW_HUGETLB] = 'h',
	[WINDOW_OURS_2M] = 'o',
	[WINDOW_BLOCKED] = '#',
	[WINDOW_ZONE] = 'z',
	[WINDOW_PARTIAL] = '/',
};

bool page_kind_blocks(enum page_kind kind)
{
	return kind != PAGE_FREE && kind != PAGE_MOVABLE;
}

uint64_t blocking_pages(const struct tally *tally)
{
	uint64_t pages = 0;

	for (int kind = 0; kind < PAGE_KINDS; kind++)
		if (page_kind_blocks((enum page_kind)kind))
			pages += tally->pages[kind];
	return pages;
}

enum window_state window_state(const struct window *window)
{
	const uint64_t *pages = window->tally.pages;
	uint64_t blocking = blocking_pages(&window->tally);

	/* With its own pages of 1 GiB a window is whole by proof. */
	if (window->huge_ours == WINDOW_PAGES)
		return WINDOW_OURS;
	if (window->online != WINDOW_PAGES || pages[PAGE_ABSENT] || window->shared)
		return WINDOW_PARTIAL;
	if (window->outside == WINDOW_PAGES)
		return WINDOW_ZONE;
	if (!window->one_zone || window->outside)
		return WINDOW_PARTIAL;
	if (blocking && blocking == window->loose && blocking <= window->cpu_pages)
		return WINDOW_PERHAPS;
	if (blocking > pages[PAGE_HUGETLB] + pages[PAGE_OURS])
		return WINDOW_BLOCKED;
	if (pages[PAGE_HUGETLB])
		return WINDOW_HUGETLB;
	if (pages[PAGE_OURS])
		return WINDOW_OURS_2M;
	return pages[PAGE_MOVABLE] ? WINDOW_MOVABLE : WINDOW_FREE;
}

bool block_is_stuck(const struct tally *tally)
{
	/* Free pages of the hugetlb pool and holes do not keep a block from going offline. */
	return blocking_pages(tally) >
	       tally->pages[PAGE_HUGETLB] + tally->pages[PAGE_ABSENT] + tally->pages[PAGE_POISONED];
}

static uint64_t saturating_sub(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t node_floor_bytes(uint64_t managed_bytes)
{
	uint64_t floor = managed_bytes / 32;

	if (floor < 128 * MIB)
		return 128 * MIB;
	return floor > 2048 * MIB ? 2048 * MIB : floor;
}

static void count_room(const struct node_map *map, struct forecast *out)
{
	uint64_t managed = 0;

	for (size_t i = 0; i < map->nr_zones; i++) {
		const struct zone *zone = &map->zones[i];

		if (!zone_is_usable(zone))
			continue;
		managed += zone->managed_pages;
		out->available_pages += saturating_sub(zone->free_pages, zone->free_cma_pages) + zone->file_pages;
		out->cma_pages += zone->cma_pages;
	}
	out->floor_pages = node_floor_bytes(managed * PAGE_BYTES) / PAGE_BYTES;
	out->room = saturating_sub(out->available_pages, out->floor_pages) / WINDOW_PAGES;
}

void forecast_make(const struct node_map *map, const struct node_scan *scan, struct forecast *out)
{
	uint64_t fit, most;

	*out = (struct forecast){ 0 };
	for (size_t i = 0; i < scan->nr_windows; i++) {
		const struct window *window = &scan->windows[i];
		const uint64_t *pages = window->tally.pages;
		enum window_state state = window_state(window);

		out->windows[state]++;
		if (state == WINDOW_BLOCKED && blocking_pages(&window->tally) == pages[PAGE_SLAB])
			out->slab_only++;
	}
	for (size_t i = 0; i < map->nr_blocks; i++)
		out->blocks_stuck += map->blocks[i].online && block_is_stuck(&scan->blocks[i]);
	count_room(map, out);
	fit = out->windows[WINDOW_FREE] + out->windows[WINDOW_MOVABLE];
	most = fit + out->windows[WINDOW_PERHAPS];
	out->now = fit < out->room ? fit : out->room;
	out->most = most < out->room ? most : out->room;
}
