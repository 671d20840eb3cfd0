// SPDX-License-Identifier: MIT
/* The tracepoints: each tells what happened, with the right numbers. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "driver.h"
#include "region.h"
#include "reserve.h"

#define TRACEFS	"/sys/kernel/tracing"

/* From here on the module's events are in the trace, and no older ones. */
static void trace_begin(void)
{
	if (mount("none", TRACEFS, "tracefs", 0, NULL) && errno != EBUSY)
		ktap_skip("no tracefs in this kernel: %s", strerror(errno));
	CHECK_EQ(file_write(TRACEFS "/events/hugepin/enable", "1"), 0);
	close(CHECK_OK(open(TRACEFS "/trace", O_WRONLY | O_TRUNC | O_CLOEXEC)));	/* which empties it */
}

static void trace_end(void)
{
	CHECK_EQ(file_write(TRACEFS "/events/hugepin/enable", "0"), 0);
}

static bool traced(const char *event)
{
	static char text[1 << 18];
	size_t length = 0;
	ssize_t part;
	int fd = CHECK_OK(open(TRACEFS "/trace", O_RDONLY | O_CLOEXEC));

	while (length < sizeof(text) - 1 && (part = CHECK_OK(read(fd, text + length, sizeof(text) - 1 - length))))
		length += part;
	close(fd);
	text[length] = '\0';
	return strstr(text, event);
}

/* What others do on the module's behalf comes a moment later. */
static void check_traced(const char *event)
{
	int waited_ms;

	for (waited_ms = 0; !traced(event); waited_ms += 10) {
		CHECK(waited_ms < SETTLE_MS, "not in the trace: %s", event);
		poll(NULL, 0, 10);
	}
}

static void resizing_is_traced_with_its_answer(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 4);
	uint64_t before = reserve_of(node, HUGEPIN_CLASS_2M).total;
	char event[128];
	int fd;

	(void)arg;
	trace_begin();
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before + 3), 0);
	snprintf(event, sizeof(event), "hugepin_resize: node=%u class=0 asked=%" PRIu64 " got=%" PRIu64 " ret=0\n", node,
		 before + 3, before + 3);
	check_traced(event);
	fd = region_make_on(node, 4 * PAGE_2M, CLASS_2M);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", 3), -EBUSY);
	snprintf(event, sizeof(event), "hugepin_resize: node=%u class=0 asked=3 got=4 ret=%d\n", node, -EBUSY);
	check_traced(event);
	close(fd);
	trace_end();
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before), 0);
}

static void a_region_s_beginning_and_end_are_traced(const void *arg)
{
	int fd;

	(void)arg;
	trace_begin();
	fd = region_make(3 * PAGE_2M, CLASS_2M);
	check_traced("hugepin_region_make: pages_1g=0 pages_2m=3 zeroed_by_caller=");
	CHECK(!traced("hugepin_region_end:"), "the end of a region that is there");
	close(fd);
	check_traced("hugepin_region_end: pages_1g=0 pages_2m=3\n");
	trace_end();
}

static void scrubbing_is_traced_page_by_page(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 1);
	char event[128];

	(void)arg;
	trace_begin();
	close(region_make_on(node, PAGE_2M, CLASS_2M));
	snprintf(event, sizeof(event), "hugepin_scrub: node=%u class=0 steps=1 ret=0\n", node);
	check_traced(event);
	trace_end();
}

static void quarantine_is_traced_in_and_out(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 1);
	int driver = driver_open(), fd = region_make_on(node, PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE), event[128];
	struct hugepin_test_pin pin = { .size = sizeof(pin), .addr = (uintptr_t)start, .bytes = PAGE_4K };

	(void)arg;
	trace_begin();
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin));
	CHECK_OK(munmap(start, PAGE_2M));
	close(fd);
	snprintf(event, sizeof(event), "hugepin_quarantine: node=%u class=0 refs=", node);
	check_traced(event);
	snprintf(event, sizeof(event), "hugepin_release: node=%u class=0\n", node);
	CHECK(!traced(event), "released while it is pinned");
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
	check_traced(event);
	trace_end();
}

#define CASE(f)	{ .name = #f, .run = f }

static const struct ktap_case cases[] = {
	CASE(resizing_is_traced_with_its_answer),
	CASE(a_region_s_beginning_and_end_are_traced),
	CASE(scrubbing_is_traced_page_by_page),
	CASE(quarantine_is_traced_in_and_out),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
