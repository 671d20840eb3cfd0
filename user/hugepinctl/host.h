/* SPDX-License-Identifier: MIT */
/* What the commands that look at the host read of it: small files, and the memory of one node page by page. */
#ifndef HUGEPINCTL_HOST_H
#define HUGEPINCTL_HOST_H

#include <dirent.h>

#include "hugepinctl.h"

/* ---- host.c: small files under a root ---- */

extern const char *host_root;		/* "" but in tests */

#define HOST_FORMAT(a, b)	__attribute__((format(printf, a, b)))
int host_open(int flags, const char *fmt, ...) HOST_FORMAT(2, 3);		/* a descriptor or -errno */
FILE *host_open_text(const char *fmt, ...) HOST_FORMAT(1, 2);			/* NULL and errno */
DIR *host_open_dir(const char *fmt, ...) HOST_FORMAT(1, 2);			/* NULL and errno */
bool host_exists(const char *fmt, ...) HOST_FORMAT(1, 2);
/* All of it without the newlines at its end; -EFBIG if it has @size bytes or more. */
int host_read(char *buffer, size_t size, const char *fmt, ...) HOST_FORMAT(3, 4);
int host_read_number(uint64_t *out, const char *fmt, ...) HOST_FORMAT(2, 3);
int host_write(const char *text, const char *fmt, ...) HOST_FORMAT(2, 3);
/* The numbers N of the entries PREFIXN of a folder, in ascending order; *@out is the caller's to free. */
int host_numbered(const char *folder, const char *prefix, uint64_t **out, size_t *count);

int host_node_memory(int node, uint64_t *bytes);		/* MemTotal */

/* ---- zones.c: where a node's memory lies ---- */

#define ZONE_NAME_MAX	32
#define ZONES_MAX	8
#define ZONE_BY_SPAN	(-1)		/* of a block with pages of several zones: each page's zone is where it lies */

struct zone {
	char name[ZONE_NAME_MAX];
	uint64_t start_pfn, spanned_pages, managed_pages;
	uint64_t free_pages, free_cma_pages, cma_pages, file_pages;
	uint64_t cpu_pages;		/* free, but in a CPU's own list */
};
struct block {				/* what can go offline at once */
	uint64_t number;		/* memoryN */
	uint64_t pfn;
	int zone;			/* index, or ZONE_BY_SPAN */
	bool online, shared;		/* @shared: with another node */
};
struct node_map {
	int node;
	struct zone zones[ZONES_MAX];
	size_t nr_zones;
	struct block *blocks;		/* ascending */
	size_t nr_blocks;
	uint64_t block_pages;
};
int node_map_read(int node, struct node_map *out, struct message *why);
void node_map_free(struct node_map *map);
/* The zone of a page of @block, or NULL. */
const struct zone *node_map_zone(const struct node_map *map, const struct block *block, uint64_t pfn);
/* Can pages that stay for good come from this zone? Those of Movable must be able to move. */
bool zone_is_usable(const struct zone *zone);

/* ---- scan.c: which kind each page is ---- */

#define WINDOW_PAGES	((uint64_t)1 << 18)	/* 1 GiB */

enum page_kind {
	PAGE_FREE,
	PAGE_MOVABLE,			/* of programs or files: the kernel can put it elsewhere */
	PAGE_OURS,			/* the reserve's and the regions' */
	PAGE_HUGETLB,
	PAGE_SLAB,
	PAGE_TABLE,
	PAGE_KERNEL,			/* any other of the kernel's: stacks, buffers of pipes and drivers */
	PAGE_RESERVED,			/* since boot: the kernel itself, its map of the pages, firmware */
	PAGE_POISONED,
	PAGE_ABSENT,			/* a hole, or offline */
	PAGE_KINDS
};
extern const char *const page_kind_names[PAGE_KINDS];
extern const char *const page_kind_keys[PAGE_KINDS];	/* in JSON */

struct tally {
	uint64_t pages[PAGE_KINDS];
};
struct window {				/* 1 GiB, aligned */
	uint64_t pfn;
	struct tally tally;
	uint64_t huge_ours;		/* of them in 1G pages */
	uint64_t loose;			/* of the kernel's, those that may be free ones in a CPU's list */
	uint64_t cpu_pages;		/* its zone has so many of these */
	uint64_t outside;		/* pages of it in a zone that is not usable */
	uint64_t online;		/* pages of it that are this node's and online */
	int first_zone;			/* index of the zone of its first page */
	bool one_zone, shared;
};
#define OWNERS_MAX	64
struct owner {				/* a control group that kernel pages are charged to */
	uint64_t inode, pages;
};
struct node_scan {
	struct window *windows;		/* those with a page of the node, ascending */
	size_t nr_windows;
	struct tally *blocks;		/* as node_map.blocks */
	struct tally sum;
	struct owner owners[OWNERS_MAX];
	size_t nr_owners;
};
/*
 * Streams; @progress, if not NULL, is told pages done of all. @ours: the module holds pages on the node, so that what
 * looks like them is theirs.
 */
int node_scan_run(const struct node_map *map, bool ours, struct node_scan *out,
		  void (*progress)(uint64_t done, uint64_t all), struct message *why);
void node_scan_free(struct node_scan *scan);

/* ---- forecast.c: what that means for pages of 1 GiB ---- */

enum window_state {
	WINDOW_FREE,
	WINDOW_MOVABLE, /* to be had, once what is in it has moved */
	WINDOW_PERHAPS, /* in the way is what may be free in a CPU's list, or the kernel's: not to be told */
	WINDOW_OURS, /* a 1G page of hugepin */
	WINDOW_HUGETLB, /* nothing but hugetlb pages in the way */
	WINDOW_OURS_2M, /* nothing but our 2M pages in the way */
	WINDOW_BLOCKED,
	WINDOW_ZONE, /* in a zone whose pages must be able to move */
	WINDOW_PARTIAL, /* a part is missing, or another node's or zone's */
	WINDOW_STATES
};
extern const char *const window_state_names[WINDOW_STATES];
extern const char *const window_state_keys[WINDOW_STATES];
extern const char window_state_signs[WINDOW_STATES];

enum window_state window_state(const struct window *window);
bool page_kind_blocks(enum page_kind kind);	/* cannot move out of the way */
uint64_t blocking_pages(const struct tally *tally);

struct forecast {
	uint64_t windows[WINDOW_STATES];
	uint64_t room;			/* 1G pages that may be taken before the floor */
	uint64_t floor_pages;		/* the module leaves so much to the node */
	uint64_t available_pages;	/* free or in files */
	uint64_t now;			/* 1G pages to be had now, at least */
	uint64_t most;			/* and at most */
	uint64_t slab_only;		/* blocked windows with nothing but slab in the way */
	uint64_t blocks_stuck;		/* memory blocks that cannot go offline */
	uint64_t cma_pages;
};
/* What the module leaves to a node of so much memory, in zones that it takes from. */
uint64_t node_floor_bytes(uint64_t managed_bytes);
void forecast_make(const struct node_map *map, const struct node_scan *scan, struct forecast *out);
bool block_is_stuck(const struct tally *tally);

#endif /* HUGEPINCTL_HOST_H */
