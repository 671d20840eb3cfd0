// SPDX-License-Identifier: MIT
/*
 * calls: what each call for a region costs, and a first touch of each of its pages, from a clean reserve. There is nothing
 * to compare with: in a machine whose clock counts instructions (tools/vm/run --icount) these are what they take, the
 * same each time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "vm.h"

enum step { CREATE, MAP, TOUCH, DROP, POPULATE, CLOSE, STEPS };

static const char *const step_names[STEPS] = { "create", "map", "touch", "drop", "populate", "close" };

static void touch(void *memory, uint64_t bytes, uint64_t page_bytes)
{
	volatile char *byte = memory;
	uint64_t at;

	for (at = 0; at < bytes; at += page_bytes)
		byte[at] = 1;
}

static int measure(const struct machine *m, enum hugepin_class page_class, double at[STEPS + 1])
{
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.bytes = m->bytes,
		.classes = page_class == HUGEPIN_PAGES_1G ? HUGEPIN_CLASSES_1G : HUGEPIN_CLASSES_2M,
	};
	struct hugepin_region *region;
	void *memory;

	at[CREATE] = now_ms();
	if (hugepin_region_create(m->ctx, &request, &region))
		return complain("a region of %s pages: %s", class_name(page_class), hugepin_error());
	at[MAP] = now_ms();
	if (hugepin_region_map(region, 0, 0, 0, &memory)) {
		hugepin_region_close(region);
		return complain("mapping it: %s", hugepin_error());
	}
	at[TOUCH] = now_ms();
	touch(memory, m->bytes, class_bytes(page_class));
	at[DROP] = now_ms();
	if (madvise(memory, m->bytes, MADV_DONTNEED))
		return complain("dropping entries: %s", strerror(errno));
	at[POPULATE] = now_ms();
	if (madvise(memory, m->bytes, MADV_POPULATE_WRITE))
		return complain("populating: %s", strerror(errno));
	at[CLOSE] = now_ms();
	hugepin_region_close(region);
	at[STEPS] = now_ms();
	return 0;
}

static int measure_class(const struct machine *m, enum hugepin_class page_class)
{
	double at[STEPS + 1], gib = (double)m->bytes / (double)GIB(1);
	unsigned int i, step;
	char name[32];

	if (reserve_set(m, page_class, m->bytes) || reserve_settle(m))
		return -1;
	for (i = 0; i <= m->repetitions; i++) {
		progress("calls: %s, repetition %u of %u", class_name(page_class), i, m->repetitions);
		if (measure(m, page_class, at) || reserve_settle(m))
			return -1;
		for (step = 0; i && step < STEPS; step++) {
			snprintf(name, sizeof(name), "%s, %s", class_name(page_class), step_names[step]);
			tell("calls", name, 1, "us/GiB", "hugepin", 1e3 * (at[step + 1] - at[step]) / gib);
		}
	}
	return 0;
}

int bench_calls(const struct machine *m)
{
	return (m->has_1g && measure_class(m, HUGEPIN_PAGES_1G)) || measure_class(m, HUGEPIN_PAGES_2M) ? -1 : 0;
}
