// SPDX-License-Identifier: MIT
/* The mapping contract: every row on every backing there is; see mapping.h. Pins are pin_test's. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "mapping.h"
#include "module/uapi.h"
#include "reserve.h"

#define PAGES_2M	4		/* of the small backing */
#define MIXED_BYTES	(PAGE_1G + 3 * PAGE_2M)

static const struct mapping_row * const tables[] = {
	mapping_place_rows, mapping_advice_rows, mapping_file_rows, mapping_peek_rows, mapping_io_rows,
	mapping_death_rows,
};

/* Scrubbing 1 GiB takes seconds in an emulated machine, so all cases share one region with a 1G page. */
static int mixed_fd = -1;

/*
 * Whether its pages' references are as they were is asked of the test module, through a mapping that no child has.
 * Without that module only the end of the region tells.
 */
static char *mixed_start;
static int test_module = -1;
static long long refs_before;

void check_huge_entries(const struct area *area, char *start, uint64_t offset, uint64_t bytes)
{
	unsigned long faults = touch_faults(start, bytes), fewest = 0;
	uint64_t at, step;

	for (at = offset; at < offset + bytes; at += step) {
		step = at < area->bytes_1g ? PAGE_1G : FAULT_AROUND - (uintptr_t)(start + at - offset) % FAULT_AROUND;
		fewest++;
	}
	/* a fault or two more can be the program's own */
	CHECK(faults >= fewest && faults <= fewest + 4, "%lu faults, expected %lu", faults, fewest);
}

struct mapping_case {
	const struct mapping_row *row;
	bool mixed;
};

static void run_row(const void *arg)
{
	const struct mapping_case *one = arg;
	struct area area = { .fd = mixed_fd };

	if (!one->mixed)
		area.fd = region_make(PAGES_2M * PAGE_2M, CLASS_2M);
	area.bytes = region_info(area.fd).bytes;
	area.bytes_1g = region_info(area.fd).bytes_1g;
	area.page = area.bytes_1g ? PAGE_1G : PAGE_2M;
	area.start = region_map(area.fd, 0, area.bytes, PROT_READ | PROT_WRITE);
	one->row->run(&area);
}

static long long mixed_refs(void)
{
	long long sum = 0;
	uint64_t at;

	for (at = 0; at < MIXED_BYTES; at += at ? PAGE_2M : PAGE_1G) {
		struct hugepin_test_pages pages = {
			.size = sizeof(pages), .addr = (uintptr_t)mixed_start + at, .bytes = 1,
		};

		CHECK_OK(ioctl(test_module, HUGEPIN_TEST_IOC_PAGES, &pages));
		sum += pages.refs;
	}
	return sum;
}

static void before(void)
{
	if (test_module >= 0)
		refs_before = mixed_refs();
	reserve_hooks.before();
}

static const char *after(void)
{
	static char text[96];
	int waited_ms;

	for (waited_ms = 0; test_module >= 0 && mixed_refs() != refs_before; waited_ms += 10) {
		if (waited_ms >= SETTLE_MS) {
			snprintf(text, sizeof(text), "the 1G region's pages had %lld references, now %lld", refs_before,
				 mixed_refs());
			return text;
		}
		poll(NULL, 0, 10);
	}
	return reserve_hooks.after();
}

static void start(void)
{
	reserve_hooks.start();
	if (mixed_fd < 0)
		return;
	test_module = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	mixed_start = region_map(mixed_fd, 0, MIXED_BYTES, PROT_READ | PROT_WRITE);
	CHECK_OK(madvise(mixed_start, MIXED_BYTES, MADV_DONTFORK));
}

static size_t row_count(void)
{
	size_t count = 0, t;

	for (t = 0; t < ARRAY_SIZE(tables); t++) {
		const struct mapping_row *row;

		for (row = tables[t]; row->name; row++)
			count++;
	}
	return count;
}

/* Ends the shared region; whether all its pages came back. */
static bool end_mixed(const struct reserve *at_first)
{
	struct reserve now;
	int waited_ms;

	munmap(mixed_start, MIXED_BYTES);
	close(mixed_fd);
	for (waited_ms = 0; waited_ms <= SETTLE_MS; waited_ms += 10) {
		bool same = true;
		unsigned int i;

		reserve_read(&now);
		for (i = 0; i < now.info.nr_pages; i++)
			same &= now.pages[i].in_use == at_first->pages[i].in_use &&
				now.pages[i].quarantined == at_first->pages[i].quarantined;
		if (same)
			return true;
		poll(NULL, 0, 10);
	}
	ktap_note("pages of the region with a 1G page did not come back at its end");
	return false;
}

int main(int argc, char **argv)
{
	static const struct ktap_hooks hooks = { .start = start, .before = before, .after = after };
	size_t rows = row_count(), count = 0, t, mixed;
	struct mapping_case *args = calloc(2 * rows, sizeof(*args));
	struct ktap_case *cases = calloc(2 * rows, sizeof(*cases));
	struct ktap_hooks all = hooks;
	struct reserve at_first;
	int status;

	if (!args || !cases)
		return KTAP_FAIL;
	all.restore = reserve_hooks.restore;
	reserve_read(&at_first);
	if (!class_absent(HUGEPIN_CLASS_1G) && reserve_free_class(HUGEPIN_CLASS_1G))
		mixed_fd = region_make(MIXED_BYTES, CLASS_1G | CLASS_2M);
	else
		ktap_note("no rows on 1G pages: %s",
			  class_absent(HUGEPIN_CLASS_1G) ? "this kernel lacks the class" : "the reserve has none");

	for (mixed = 0; mixed < (mixed_fd >= 0 ? 2 : 1); mixed++) {
		for (t = 0; t < ARRAY_SIZE(tables); t++) {
			const struct mapping_row *row;

			for (row = tables[t]; row->name; row++, count++) {
				args[count] = (struct mapping_case){ row, mixed };
				cases[count] = (struct ktap_case){
					.name = row->name, .run = run_row, .arg = &args[count],
					.variant = mixed ? "1G + 2M" : "2M",
				};
			}
		}
	}
	status = ktap_main(argc, argv, cases, count, &all);
	if (mixed_fd >= 0 && !end_mixed(&at_first))
		status = KTAP_FAIL;
	return status;
}
