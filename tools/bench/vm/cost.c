// SPDX-License-Identifier: MIT
/*
 * memory: what the module takes for itself. For each GiB in the reserve, for a region made of it, and for the page
 * tables of who maps that: the growth of the kernel's slabs, of vmalloc and of page tables, as /proc/meminfo tells
 * them. Each step is done and undone several times, and all growth is told; the pages held are no part of it.
 */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vm.h"

#define HELD_2M	GIB(4)		/* so that whole slabs are filled */
#define HELD_1G	GIB(2)		/* a node has few such pages */

/* Slabs that are empty go: or what a step takes may have been left there by the one before, and is no growth. */
static void slabs_shrink(void)
{
	glob_t caches;
	size_t i;

	if (glob("/sys/kernel/slab/*/shrink", 0, NULL, &caches))
		return;
	for (i = 0; i < caches.gl_pathc; i++)
		knob_write(caches.gl_pathv[i], 1);
	globfree(&caches);
}

/* KiB of all three. */
static int kernel_kib(double *kib)
{
	char name[64];
	uint64_t value;
	FILE *file;

	slabs_shrink();
	if (knob_write("/proc/sys/vm/stat_refresh", 1))		/* what the CPUs have counted each for itself */
		return -1;
	file = fopen("/proc/meminfo", "re");
	if (!file)
		return complain("/proc/meminfo cannot be opened");
	*kib = 0;
	while (fscanf(file, "%63[^:]: %" SCNu64 "%*[^\n]\n", name, &value) == 2) {
		if (!strcmp(name, "Slab") || !strcmp(name, "VmallocUsed") || !strcmp(name, "PageTables") ||
		    !strcmp(name, "Percpu"))
			*kib += (double)value;
	}
	fclose(file);
	return *kib > 0 ? 0 : complain("/proc/meminfo tells nothing");
}

/* Growth since @before, for each GiB of @bytes. */
static int tell_growth(const char *name, uint64_t bytes, double before)
{
	double now;

	if (kernel_kib(&now))
		return -1;
	tell("memory", name, 1, "KiB/GiB", "hugepin", (now - before) / ((double)bytes / (double)GIB(1)));
	return 0;
}

static int measure_region(const struct machine *m, enum hugepin_class page_class, uint64_t bytes)
{
	const char *class = class_name(page_class);
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.bytes = bytes,
		.classes = page_class == HUGEPIN_PAGES_1G ? HUGEPIN_CLASSES_1G : HUGEPIN_CLASSES_2M,
	};
	struct hugepin_region *region;
	double before, mapped;
	char name[32];
	void *memory;
	int ret;

	if (kernel_kib(&before))
		return -1;
	if (hugepin_region_create(m->ctx, &request, &region))
		return complain("a region of %" PRIu64 " bytes: %s", bytes, hugepin_error());
	snprintf(name, sizeof(name), "%s region", class);
	ret = tell_growth(name, bytes, before);
	if (!ret)
		ret = kernel_kib(&mapped);
	if (!ret && hugepin_region_map(region, 0, 0, HUGEPIN_MAP_POPULATE, &memory))
		ret = complain("mapping it: %s", hugepin_error());
	snprintf(name, sizeof(name), "%s mapping", class);
	if (!ret)
		ret = tell_growth(name, bytes, mapped);
	hugepin_region_close(region);
	return ret ? ret : reserve_settle(m);
}

static int measure(const struct machine *m, enum hugepin_class page_class, uint64_t bytes)
{
	char name[32];
	double before;

	if (reserve_set(m, page_class, 0) || kernel_kib(&before) || reserve_set(m, page_class, bytes))
		return -1;
	snprintf(name, sizeof(name), "%s reserve", class_name(page_class));
	return tell_growth(name, bytes, before) || reserve_settle(m) || measure_region(m, page_class, bytes) ? -1 : 0;
}

int bench_memory(const struct machine *m)
{
	unsigned int i;

	if (reserve_set(m, HUGEPIN_PAGES_1G, 0) || reserve_set(m, HUGEPIN_PAGES_2M, 0))
		return -1;
	for (i = 0; i < m->repetitions; i++) {
		progress("memory: repetition %u of %u", i + 1, m->repetitions);
		if ((m->has_1g && measure(m, HUGEPIN_PAGES_1G, HELD_1G)) || reserve_set(m, HUGEPIN_PAGES_1G, 0) ||
		    measure(m, HUGEPIN_PAGES_2M, HELD_2M) || reserve_set(m, HUGEPIN_PAGES_2M, 0))
			return -1;
	}
	return 0;
}
