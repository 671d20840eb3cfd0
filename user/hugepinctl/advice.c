// SPDX-License-Identifier: MIT
/* Who is in the way of pages of 1 GiB, and what would make more of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "explain.h"

#define GROUPS		"/sys/fs/cgroup"
#define GROUPS_DEEP	16
#define MIB(pages)	((pages) >> 8)

static void __attribute__((format(printf, 2, 3))) add(struct explanation *node, const char *fmt, ...)
{
	va_list args;

	if (node->nr_advice == ADVICE_MAX)
		return;
	va_start(args, fmt);
	vsnprintf(node->advice[node->nr_advice].text, sizeof(node->advice[0].text), fmt, args);
	va_end(args);
	node->nr_advice++;
}

static const char *windows(uint64_t count)
{
	return count == 1 ? "window" : "windows";
}

static void advise_room(struct explanation *node)
{
	const struct forecast *forecast = &node->forecast;
	uint64_t fit = forecast->windows[WINDOW_FREE] + forecast->windows[WINDOW_MOVABLE];
	uint64_t needed = forecast->floor_pages + fit * WINDOW_PAGES;

	if (fit > forecast->now)
		add(node,
		    "%" PRIu64 " more could be had if %" PRIu64
		    " MiB more were free: end programs there, or move them to "
		    "another node; the module leaves %" PRIu64 " MiB to the node",
		    fit - forecast->now, MIB(needed - forecast->available_pages), MIB(forecast->floor_pages));
}

static void advise_pools(struct explanation *node)
{
	const uint64_t *windows_in = node->forecast.windows;
	int id = node->map.node;

	if (windows_in[WINDOW_HUGETLB])
		add(node,
		    "%" PRIu64
		    " %s: pages of the kernel's hugetlb pool are in the way; 'hugepinctl adopt %d CLASS COUNT' "
		    "takes free ones over",
		    windows_in[WINDOW_HUGETLB], windows(windows_in[WINDOW_HUGETLB]), id);
	if (windows_in[WINDOW_OURS_2M])
		add(node,
		    "%" PRIu64 " %s: 2M pages of hugepin are in the way; 'hugepinctl release %d:2M:COUNT' gives free "
		    "ones back",
		    windows_in[WINDOW_OURS_2M], windows(windows_in[WINDOW_OURS_2M]), id);
}

static void advise_kernel(struct explanation *node)
{
	const struct forecast *forecast = &node->forecast;
	uint64_t rest = forecast->windows[WINDOW_BLOCKED] - forecast->slab_only;

	if (forecast->slab_only)
		add(node,
		    "%" PRIu64 " %s: slab alone is in the way; 'echo 2 >/proc/sys/vm/drop_caches' frees a part of it",
		    forecast->slab_only, windows(forecast->slab_only));
	if (rest)
		add(node,
		    "%" PRIu64 " %s: the kernel's own pages are in the way; reserve at boot, before it scatters them",
		    rest, windows(rest));
	if (forecast->windows[WINDOW_ZONE])
		add(node,
		    "%" PRIu64 " %s: in zone Movable, where no page may stay for good; boot without movablecore= and "
		    "kernelcore=, and online memory as 'online_kernel'",
		    forecast->windows[WINDOW_ZONE], windows(forecast->windows[WINDOW_ZONE]));
	if (forecast->cma_pages)
		add(node,
		    "%" PRIu64 " MiB are kept for CMA; windows they lie in cannot be had, and are not shown apart",
		    MIB(forecast->cma_pages));
}

void advise(struct explanation *node, uint64_t pins, const char *absent)
{
	uint64_t perhaps = node->forecast.windows[WINDOW_PERHAPS];

	if (absent)
		add(node, "hugepin has no 1G pages here (%s): this is what the kernel's own pool could have", absent);
	advise_room(node);
	advise_pools(node);
	advise_kernel(node);
	if (perhaps)
		add(node,
		    "%" PRIu64
		    " %s: in the way are free pages in lists of CPUs, which a reservation empties, or the kernel's "
		    "own; only trying tells",
		    perhaps, windows(perhaps));
	if (node->forecast.windows[WINDOW_MOVABLE] && pins)
		add(node,
		    "%" PRIu64
		    " pins by drivers on this host cannot be told from here; pinned pages look movable and do "
		    "not move, so that a reservation may find fewer",
		    pins);
}

uint64_t pins_outstanding(void)
{
	FILE *file = host_open_text("/proc/vmstat");
	uint64_t acquired = 0, released = 0, value;
	char line[128], name[64];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63s %" SCNu64, name, &value) != 2)
			continue;
		if (!strcmp(name, "nr_foll_pin_acquired"))
			acquired = value;
		else if (!strcmp(name, "nr_foll_pin_released"))
			released = value;
	}
	fclose(file);
	return acquired > released ? acquired - released : 0;
}

/* ---- control groups: an inode number has a path ---- */

struct search {
	uint64_t inode;
	char path[192];			/* of the folder looked at, then of what was found */
	bool found;
};

static void search_in(struct search *search, unsigned int deep);

static void search_below(struct search *search, const char *name, unsigned int deep)
{
	size_t length = strlen(search->path);

	if (length + 1 + strlen(name) >= sizeof(search->path))
		return;
	snprintf(search->path + length, sizeof(search->path) - length, "/%s", name);
	search_in(search, deep + 1);
	if (!search->found)
		search->path[length] = '\0';
}

static void search_in(struct search *search, unsigned int deep)
{
	DIR *dir = host_open_dir(GROUPS "%s", search->path);
	const struct dirent *entry;
	struct stat stat;

	if (!dir)
		return;
	if (!fstat(dirfd(dir), &stat) && stat.st_ino == search->inode)
		search->found = true;
	while (!search->found && deep < GROUPS_DEEP && (entry = readdir(dir)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			search_below(search, entry->d_name, deep);
	closedir(dir);
}

static int more_pages_first(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return (x->pages < y->pages) - (x->pages > y->pages);
}

void name_owners(struct explanation *node)
{
	struct node_scan *scan = &node->scan;

	qsort(scan->owners, scan->nr_owners, sizeof(scan->owners[0]), more_pages_first);
	for (size_t i = 0; i < scan->nr_owners && node->nr_owners < OWNERS_SHOWN; i++) {
		struct named_owner *owner = &node->owners[node->nr_owners++];
		struct search search = { .inode = scan->owners[i].inode };

		search_in(&search, 0);
		owner->pages = scan->owners[i].pages;
		if (!search.found)
			snprintf(owner->path, sizeof(owner->path), "a control group that is gone (inode %" PRIu64 ")",
				 search.inode);
		else
			snprintf(owner->path, sizeof(owner->path), "%s", *search.path ? search.path : "/");
		text_for_terminal(owner->path);
	}
}
