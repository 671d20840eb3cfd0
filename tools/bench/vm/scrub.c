// SPDX-License-Identifier: MIT
/*
 * scrub: GiB a second of the module's one worker, from the moment it is let go until no page is dirty; beside memset()
 * of as much memory, in huge pages that are mapped and have been written before.
 */
#include <string.h>

#include "vm.h"

static int measure_worker(const struct machine *m, enum hugepin_class page_class, double *gib_s)
{
	double start;

	if (scrub_enable(false) || reserve_make_dirty(m, page_class, m->bytes))
		return -1;
	start = now_ms();
	if (scrub_enable(true) || reserve_settle(m))
		return -1;
	*gib_s = (double)m->bytes / (double)GIB(1) / ((now_ms() - start) / 1e3);
	return 0;
}

static int measure_memset(const struct machine *m, enum hugepin_class page_class, double *gib_s)
{
	struct hugepin_region *region;
	double start, ms;
	void *memory;

	if (region_make(m, page_class, m->bytes, &region, &memory, &ms))
		return -1;
	memset(memory, 1, m->bytes);
	start = now_ms();
	memset(memory, 0, m->bytes);
	__asm__ volatile("" ::"r"(memory) : "memory");	/* not left out */
	*gib_s = (double)m->bytes / (double)GIB(1) / ((now_ms() - start) / 1e3);
	hugepin_region_close(region);
	return reserve_settle(m);
}

static int measure(const struct machine *m, enum hugepin_class page_class, bool counts)
{
	const char *name = class_name(page_class);
	double worker, peer;

	if (measure_worker(m, page_class, &worker) || measure_memset(m, page_class, &peer))
		return -1;
	if (!counts)
		return 0;
	tell("scrub", name, 1, "GiB/s", "hugepin", worker);
	tell("scrub", name, 1, "GiB/s", "memset", peer);
	return 0;
}

int bench_scrub(const struct machine *m)
{
	unsigned int i;

	if (reserve_set(m, HUGEPIN_PAGES_1G, m->bytes) || reserve_set(m, HUGEPIN_PAGES_2M, m->bytes) ||
	    reserve_settle(m))
		return -1;
	for (i = 0; i <= m->repetitions; i++) {
		progress("scrub: repetition %u of %u", i, m->repetitions);
		if ((m->has_1g && measure(m, HUGEPIN_PAGES_1G, i)) || measure(m, HUGEPIN_PAGES_2M, i))
			return -1;
	}
	return 0;
}
