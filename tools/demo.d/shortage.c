// SPDX-License-Identifier: MIT
/* Step 4: more 1G pages than there are, where the difference must be an error and where it may be made up for. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "demo.h"

#define EXTENTS_MAX	16

static bool same_as(const struct reserve_sum *a, const struct reserve_sum *b)
{
	return a->free_1g == b->free_1g && a->free_2m == b->free_2m && a->in_use == b->in_use && a->total == b->total;
}

static int strict(struct demo *demo, uint64_t bytes)
{
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.bytes = bytes,
		.classes = HUGEPIN_CLASSES_1G,
	};
	struct reserve_sum before, after;
	struct hugepin_region *region;
	char number[TEXT_SIZE];
	int err, wanted = demo->absent_1g ? -EOPNOTSUPP : -ENOMEM;

	if (reserve_sum(demo->ctx, NODE_EVERY, &before))
		return report_stop(demo, "reading the reserve: %s", hugepin_error());
	err = hugepin_region_create(demo->ctx, &request, &region);
	if (!err) {
		hugepin_region_close(region);
		return report_stop(demo, "%" PRIu64 " bytes of 1G pages were given, where there are %" PRIu64 " pages",
				   bytes, before.free_1g);
	}
	demo->results.strict_errno = -err;
	report_line("strict", "refused, errno %d %s: %s", -err, strerrorname_np(-err), hugepin_error());
	report_check(demo, err == wanted, "errno %d, %d is wanted", -err, -wanted);
	if (!demo->absent_1g) {
		const char *text = hugepin_error();

		snprintf(number, sizeof(number), "%" PRIu64, bytes / PAGE_1G);
		report_check(demo, strstr(text, number), "the error does not tell what was asked for (%s)", number);
		snprintf(number, sizeof(number), "%" PRIu64, before.free_1g);
		report_check(demo, strstr(text, number), "the error does not tell what there is (%s)", number);
	}
	if (reserve_sum(demo->ctx, NODE_EVERY, &after))
		return report_stop(demo, "reading the reserve: %s", hugepin_error());
	if (report_check(demo, same_as(&before, &after),
			 "free 1G and 2M pages: %" PRIu64 " and %" PRIu64 " before, %" PRIu64 " and %" PRIu64 " after",
			 before.free_1g, before.free_2m, after.free_1g, after.free_2m))
		report_line("held", "nothing: %" PRIu64 " x 1G and %" PRIu64 " x 2M are free, as before", after.free_1g,
			    after.free_2m);
	return 0;
}

static void add_extents(struct demo *demo, const struct hugepin_region *region)
{
	struct hugepin_extent_info extents[EXTENTS_MAX];
	int count = hugepin_region_extents(region, extents, EXTENTS_MAX);

	for (int i = 0; i < count && i < EXTENTS_MAX; i++) {
		if (extents[i].page_class == HUGEPIN_PAGES_1G)
			demo->results.fallback_1g_bytes += extents[i].bytes;
		else
			demo->results.fallback_2m_bytes += extents[i].bytes;
	}
}

static int fallback(struct demo *demo, uint64_t bytes)
{
	struct demo_results *r = &demo->results;
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.flags = HUGEPIN_REGION_FALLBACK,
		.bytes = bytes,
	};
	char pages[TEXT_PAGES_SIZE], text[TEXT_SIZE];
	struct hugepin_region *region;
	struct reserve_sum before;

	if (reserve_sum(demo->ctx, NODE_EVERY, &before))
		return report_stop(demo, "reading the reserve: %s", hugepin_error());
	report_progress("taking %s", text_bytes(bytes, text));
	if (hugepin_region_create(demo->ctx, &request, &region))
		return report_stop(demo, "%" PRIu64 " bytes with fallback: %s", bytes, hugepin_error());
	add_extents(demo, region);
	hugepin_region_close(region);
	report_line("fallback", "given, as %s", text_pages(r->fallback_1g_bytes, r->fallback_2m_bytes, pages));
	report_check(demo,
		     r->fallback_1g_bytes == before.free_1g * PAGE_1G &&
			     r->fallback_1g_bytes + r->fallback_2m_bytes == bytes,
		     "%" PRIu64 " bytes in 1G and %" PRIu64 " in 2M pages, of %" PRIu64 " asked with %" PRIu64
		     " x 1G free",
		     r->fallback_1g_bytes, r->fallback_2m_bytes, bytes, before.free_1g);
	return 0;
}

int step_shortage(struct demo *demo)
{
	struct reserve_sum sum;
	uint64_t bytes;

	report_section("4", "More 1G pages than there are: refused with numbers, or made up for if that was allowed");
	/* What is short must be the 1G pages, not clean ones: zeroing them in the call would only take time. */
	if (reserve_settle(demo))
		return -1;
	if (reserve_sum(demo->ctx, NODE_EVERY, &sum))
		return report_stop(demo, "reading the reserve: %s", hugepin_error());
	/* A page more than there are; without 1G pages the same amount as with them. */
	bytes = (demo->absent_1g ? 5 : sum.free_1g + 1) * PAGE_1G;
	if (strict(demo, bytes))
		return -1;
	return fallback(demo, bytes);
}
