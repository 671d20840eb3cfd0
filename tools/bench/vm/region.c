// SPDX-License-Identifier: MIT
/* Regions and the reserve, as the benchmarks need them: through the library, and the knobs that it does not set. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "vm.h"

#define SETTLE_MS	120000

const char *class_name(enum hugepin_class page_class)
{
	return page_class == HUGEPIN_PAGES_1G ? "1G" : "2M";
}

uint64_t class_bytes(enum hugepin_class page_class)
{
	return page_class == HUGEPIN_PAGES_1G ? GIB(1) : MIB(2);
}

int reserve_set(const struct machine *m, enum hugepin_class page_class, uint64_t bytes)
{
	if (page_class == HUGEPIN_PAGES_1G && !m->has_1g)
		return 0;
	return hugepin_reserve_set(m->ctx, NODE, page_class, bytes / class_bytes(page_class), NULL) ?
	       complain("reserve of %" PRIu64 " bytes in %s pages: %s", bytes, class_name(page_class), hugepin_error()) : 0;
}

int scrub_enable(bool on)
{
	return knob_write("/sys/class/misc/hugepin/scrub/enabled", on);
}

/* Pages that are not yet as they shall be; -1 if nobody can tell. */
static int64_t unsettled(const struct machine *m, bool scrubbing)
{
	struct hugepin_reserve_info info = { .size = sizeof(info) };
	int64_t pages = 0;
	size_t i;
	int err;

	for (i = 0; !(err = hugepin_reserve_at(m->ctx, i, &info)); i++)
		pages += (int64_t)(info.in_use_pages + info.quarantined_pages + (scrubbing ? info.dirty_pages : 0));
	return i ? pages : complain("the reserve: %s", hugepin_error());
}

int reserve_settle(const struct machine *m)
{
	double end = now_ms() + SETTLE_MS;
	uint64_t scrubbing;
	int64_t pages;

	if (knob_read("/sys/class/misc/hugepin/scrub/enabled", &scrubbing))
		return -1;
	while ((pages = unsettled(m, scrubbing)) > 0) {
		if (now_ms() > end)
			return complain("%" PRId64 " pages are not free after %d ms", pages, SETTLE_MS);
		usleep(1000);
	}
	return pages < 0 ? -1 : 0;
}

int region_make(const struct machine *m, enum hugepin_class page_class, uint64_t bytes, struct hugepin_region **region,
		void **memory, double *ms)
{
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.bytes = bytes,
		.classes = page_class == HUGEPIN_PAGES_1G ? HUGEPIN_CLASSES_1G : HUGEPIN_CLASSES_2M,
	};
	double start = now_ms();

	if (hugepin_region_create(m->ctx, &request, region))
		return complain("a region of %" PRIu64 " bytes in %s pages: %s", bytes, class_name(page_class),
				hugepin_error());
	if (hugepin_region_map(*region, 0, 0, HUGEPIN_MAP_POPULATE, memory)) {
		hugepin_region_close(*region);
		return complain("mapping it: %s", hugepin_error());
	}
	*ms = now_ms() - start;
	return 0;
}

int memory_check_and_dirty(void *memory, uint64_t bytes)
{
	volatile uint64_t *word = memory;
	uint64_t i;

	for (i = 0; i < bytes / sizeof(*word); i += LINE_BYTES / sizeof(*word)) {
		if (word[i])
			return complain("new memory is not zero at byte %" PRIu64, i * sizeof(*word));
		word[i] = i + 1;
	}
	return 0;
}

int reserve_make_dirty(const struct machine *m, enum hugepin_class page_class, uint64_t bytes)
{
	struct hugepin_region *region;
	void *memory;
	double ms;
	int ret;

	if (region_make(m, page_class, bytes, &region, &memory, &ms))
		return -1;
	ret = memory_check_and_dirty(memory, bytes);
	hugepin_region_close(region);
	return ret ? ret : reserve_settle(m);
}
