// SPDX-License-Identifier: MIT
/*
 * Which kind each page of a node is, from /proc/kpageflags, and which control group the kernel's pages are charged
 * to, from /proc/kpagecgroup. Read in pieces of half a MiB and added up at once, so that memory is needed for windows
 * and memory blocks only, whatever the host has.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kernel-page-flags.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

#define PAGE_FLAGS	"/proc/kpageflags"
#define PIECE_PAGES	(1u << 16)
#define PAGES_2M	512
#define KPF_KERNEL_RESERVED	32		/* the kernel's header has the public bits only */

const char *const page_kind_names[PAGE_KINDS] = {
	[PAGE_FREE] = "free",
	[PAGE_MOVABLE] = "movable",
	[PAGE_OURS] = "hugepin",
	[PAGE_HUGETLB] = "hugetlb",
	[PAGE_SLAB] = "slab",
	[PAGE_TABLE] = "page tables",
	[PAGE_KERNEL] = "kernel",
	[PAGE_RESERVED] = "boot",
	[PAGE_POISONED] = "poisoned",
	[PAGE_ABSENT] = "absent",
};
const char *const page_kind_keys[PAGE_KINDS] = {
	[PAGE_FREE] = "free",
	[PAGE_MOVABLE] = "movable",
	[PAGE_OURS] = "hugepin",
	[PAGE_HUGETLB] = "hugetlb",
	[PAGE_SLAB] = "slab",
	[PAGE_TABLE] = "page_tables",
	[PAGE_KERNEL] = "kernel",
	[PAGE_RESERVED] = "boot",
	[PAGE_POISONED] = "poisoned",
	[PAGE_ABSENT] = "absent",
};

/* A compound page is one thing: what its head is, its tails are; whether it is ours is known when its length is. */
struct compound {
	uint64_t pfn, pages;
	enum page_kind kind;
	bool open, may_be_ours;
};
struct reader {
	const struct node_map *map;
	struct node_scan *scan;
	int flags_fd, groups_fd;
	uint64_t *flags, *groups;	/* a piece each */
	struct compound compound;
	bool ours;			/* the module holds pages here */
	bool asked, answered;		/* of a page that is online; the file has told of one */
};

static bool has(uint64_t flags, unsigned int bit)
{
	return flags >> bit & 1;
}

static enum page_kind kind_of(uint64_t flags)
{
	if (has(flags, KPF_NOPAGE) || has(flags, KPF_OFFLINE))
		return PAGE_ABSENT;
	if (has(flags, KPF_HWPOISON))
		return PAGE_POISONED;
	if (has(flags, KPF_BUDDY))
		return PAGE_FREE;
	if (has(flags, KPF_HUGE))
		return PAGE_HUGETLB;
	if (has(flags, KPF_KERNEL_RESERVED))
		return PAGE_RESERVED;
	if (has(flags, KPF_SLAB))
		return PAGE_SLAB;
	if (has(flags, KPF_PGTABLE))
		return PAGE_TABLE;
	/* Anonymous pages reach the lists of the kernel a little later; it looks there before it gives up. */
	if (has(flags, KPF_LRU) || has(flags, KPF_ANON))
		return PAGE_MOVABLE;
	return PAGE_KERNEL;
}

/* ---- adding up ---- */

static int compare_window(const void *key, const void *element)
{
	uint64_t pfn = *(const uint64_t *)key;
	const struct window *window = element;

	return pfn < window->pfn ? -1 : pfn >= window->pfn + WINDOW_PAGES;
}

static struct window *window_at(struct node_scan *scan, uint64_t pfn)
{
	return bsearch(&pfn, scan->windows, scan->nr_windows, sizeof(*scan->windows), compare_window);
}

/* The block that has @pfn; there is one, for pages are read block by block. */
static size_t block_at(const struct node_map *map, uint64_t pfn)
{
	size_t low = 0, high = map->nr_blocks;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (map->blocks[middle].pfn <= pfn)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The pages lie in one block and one window. */
static void add(struct node_scan *scan, size_t block, uint64_t pfn, uint64_t pages, enum page_kind kind)
{
	struct window *window = window_at(scan, pfn);

	window->tally.pages[kind] += pages;
	scan->blocks[block].pages[kind] += pages;
	scan->sum.pages[kind] += pages;
}

/* A run of pages that are on no compound page. */
static void add_run(struct node_scan *scan, size_t block, uint64_t pfn, uint64_t pages, enum page_kind kind)
{
	add(scan, block, pfn, pages, kind);
	if (kind == PAGE_KERNEL)
		window_at(scan, pfn)->loose += pages;
}

static void end_compound(struct reader *reader)
{
	struct compound *compound = &reader->compound;
	uint64_t pfn = compound->pfn, left = compound->pages;
	enum page_kind kind = compound->kind;

	if (!compound->open)
		return;
	compound->open = false;
	if (compound->may_be_ours && (left == PAGES_2M || left == WINDOW_PAGES) && !(pfn & (left - 1))) {
		kind = PAGE_OURS;
		if (left == WINDOW_PAGES)
			window_at(reader->scan, pfn)->huge_ours += left;
	}
	while (left) {
		size_t block = block_at(reader->map, pfn);
		uint64_t block_end = reader->map->blocks[block].pfn + reader->map->block_pages;
		uint64_t end = (pfn | (WINDOW_PAGES - 1)) + 1, n;

		if (end > block_end)
			end = block_end;
		n = left < end - pfn ? left : end - pfn;
		add(reader->scan, block, pfn, n, kind);
		pfn += n;
		left -= n;
	}
}

static void begin_compound(struct reader *reader, uint64_t pfn, uint64_t flags)
{
	enum page_kind kind = kind_of(flags);

	reader->compound = (struct compound){
		.pfn = pfn,
		.pages = 1,
		.kind = kind,
		.open = true,
		.may_be_ours = reader->ours && kind == PAGE_KERNEL && !has(flags, KPF_THP),
	};
}

static void count_owner(struct node_scan *scan, uint64_t inode)
{
	for (size_t i = 0; i < scan->nr_owners; i++) {
		if (scan->owners[i].inode == inode) {
			scan->owners[i].pages++;
			return;
		}
	}
	if (scan->nr_owners < OWNERS_MAX)
		scan->owners[scan->nr_owners++] = (struct owner){ .inode = inode, .pages = 1 };
}

/*
 * A piece lies in one block and one window: a block is a power of two of at least 2^15 pages, aligned. Returns true
 * if there are kernel pages whose group is worth asking for.
 */
static bool take_piece(struct reader *reader, size_t block, uint64_t pfn, size_t count)
{
	enum page_kind kind = PAGE_FREE;
	uint64_t run = 0;
	bool kernel = false;

	for (size_t i = 0; i < count; i++) {
		uint64_t flags = reader->flags[i];
		bool tail = reader->compound.open && has(flags, KPF_COMPOUND_TAIL);
		bool head = !tail && has(flags, KPF_COMPOUND_HEAD);

		if (run && (tail || head || kind_of(flags) != kind)) {
			add_run(reader->scan, block, pfn + i - run, run, kind);
			run = 0;
		}
		if (tail) {
			reader->compound.pages++;
			continue;
		}
		end_compound(reader);
		if (head) {
			begin_compound(reader, pfn + i, flags);
			continue;
		}
		kind = kind_of(flags);
		kernel = kernel || kind == PAGE_KERNEL;
		run++;
	}
	if (run)
		add_run(reader->scan, block, pfn + count - run, run, kind);
	return kernel;
}

/* ---- reading ---- */

/* Entries that the file does not have are holes. How many it has, or -errno. */
static ssize_t read_entries(int fd, uint64_t pfn, uint64_t *entries, size_t count)
{
	size_t size = count * sizeof(*entries), done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (char *)entries + done, size - done, (off_t)(pfn * sizeof(*entries) + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	for (size_t i = done / sizeof(*entries); i < count; i++)
		entries[i] = 1ULL << KPF_NOPAGE;
	return (ssize_t)(done / sizeof(*entries));
}

static void count_owners(struct reader *reader, uint64_t pfn, size_t count)
{
	/* Only what hangs on no compound page is asked for: that is what scatters. */
	if (reader->groups_fd < 0 || read_entries(reader->groups_fd, pfn, reader->groups, count) < 0)
		return;
	for (size_t i = 0; i < count; i++)
		if (kind_of(reader->flags[i]) == PAGE_KERNEL && !has(reader->flags[i], KPF_COMPOUND_HEAD) &&
		    !has(reader->flags[i], KPF_COMPOUND_TAIL) && reader->groups[i])
			count_owner(reader->scan, reader->groups[i]);
}

static int read_block(struct reader *reader, size_t index)
{
	const struct block *block = &reader->map->blocks[index];
	uint64_t pfn = block->pfn, end = block->pfn + reader->map->block_pages;

	if (!block->online) {
		end_compound(reader);
		for (; pfn < end; pfn += PAGES_2M)
			add(reader->scan, index, pfn, PAGES_2M, PAGE_ABSENT);
		return 0;
	}
	while (pfn < end) {
		size_t count = end - pfn < PIECE_PAGES ? (size_t)(end - pfn) : PIECE_PAGES;
		ssize_t n = read_entries(reader->flags_fd, pfn, reader->flags, count);

		if (n < 0)
			return (int)n;
		reader->asked = true;
		reader->answered = reader->answered || n;
		if (take_piece(reader, index, pfn, count))
			count_owners(reader, pfn, count);
		pfn += count;
	}
	return 0;
}

/* ---- windows ---- */

/* What a block adds to a window before its pages are looked at: pages from @pfn to @end, all in both. */
static void place(const struct node_map *map, const struct block *block, struct window *window, uint64_t pfn,
		  uint64_t end)
{
	const struct zone *zone = node_map_zone(map, block, pfn);

	window->shared = window->shared || block->shared;
	if (!block->online)
		return;
	window->online += end - pfn;
	if (!zone) {
		window->one_zone = false;
		return;
	}
	if (!zone_is_usable(zone))
		window->outside += end - pfn;
	if (window->first_zone < 0) {
		window->first_zone = (int)(zone - map->zones);
		window->cpu_pages = zone->cpu_pages;
	} else if (window->first_zone != zone - map->zones) {
		window->one_zone = false;
	}
	/* a block by span may have the end of one zone and the begin of the next */
	if (node_map_zone(map, block, end - 1) != zone)
		window->one_zone = false;
}

static struct window *add_window(struct node_scan *scan, uint64_t pfn)
{
	struct window *window = scan->nr_windows ? &scan->windows[scan->nr_windows - 1] : NULL;

	if (window && window->pfn == pfn)
		return window;
	window = &scan->windows[scan->nr_windows++];
	*window = (struct window){ .pfn = pfn, .first_zone = -1, .one_zone = true };
	return window;
}

static int make_windows(const struct node_map *map, struct node_scan *scan)
{
	uint64_t a_block = map->block_pages / WINDOW_PAGES + 2;

	scan->windows = calloc(map->nr_blocks * a_block + 1, sizeof(*scan->windows));
	scan->blocks = calloc(map->nr_blocks + 1, sizeof(*scan->blocks));
	if (!scan->windows || !scan->blocks)
		return -ENOMEM;
	for (size_t i = 0; i < map->nr_blocks; i++) {
		const struct block *block = &map->blocks[i];
		uint64_t pfn = block->pfn, end = pfn + map->block_pages;

		while (pfn < end) {
			uint64_t first = pfn & ~(WINDOW_PAGES - 1), window_end = first + WINDOW_PAGES;
			uint64_t until = end < window_end ? end : window_end;

			place(map, block, add_window(scan, first), pfn, until);
			pfn = until;
		}
	}
	return 0;
}

static int read_node(struct reader *reader, void (*progress)(uint64_t done, uint64_t all))
{
	int err = make_windows(reader->map, reader->scan);

	for (size_t i = 0; !err && i < reader->map->nr_blocks; i++) {
		const struct block *block = &reader->map->blocks[i];

		if (i && block->pfn != block[-1].pfn + reader->map->block_pages)
			end_compound(reader);
		err = read_block(reader, i);
		if (progress)
			progress((i + 1) * reader->map->block_pages, reader->map->nr_blocks * reader->map->block_pages);
	}
	end_compound(reader);
	return !err && reader->asked && !reader->answered ? -ENODATA : err;
}

static int cannot_read(int err, struct message *why)
{
	if (err == -EPERM || err == -EACCES)
		return message_set(why, err, PAGE_FLAGS ": %s; reading it takes root, or CAP_DAC_READ_SEARCH",
				   strerror(-err));
	if (err == -ENODATA)
		return message_set(why, err, PAGE_FLAGS " tells of no page of this node: is it masked here?");
	return message_set(why, err, PAGE_FLAGS ": %s", strerror(-err));
}

int node_scan_run(const struct node_map *map, bool ours, struct node_scan *out,
		  void (*progress)(uint64_t done, uint64_t all), struct message *why)
{
	struct node_scan scan = { 0 };
	struct reader reader = { .map = map, .scan = &scan, .groups_fd = -1, .ours = ours };
	int err;

	reader.flags_fd = host_open(O_RDONLY, PAGE_FLAGS);
	if (reader.flags_fd < 0)
		return cannot_read(reader.flags_fd, why);
	reader.groups_fd = host_open(O_RDONLY, "/proc/kpagecgroup");
	reader.flags = malloc(PIECE_PAGES * sizeof(*reader.flags));
	reader.groups = malloc(PIECE_PAGES * sizeof(*reader.groups));
	err = reader.flags && reader.groups ? read_node(&reader, progress) : -ENOMEM;
	free(reader.flags);
	free(reader.groups);
	close(reader.flags_fd);
	if (reader.groups_fd >= 0)
		close(reader.groups_fd);
	if (!err) {
		*out = scan;
		return 0;
	}
	node_scan_free(&scan);
	return cannot_read(err, why);
}

void node_scan_free(struct node_scan *scan)
{
	free(scan->windows);
	free(scan->blocks);
	*scan = (struct node_scan){ 0 };
}
