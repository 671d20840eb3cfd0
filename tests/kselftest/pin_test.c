// SPDX-License-Identifier: MIT
/*
 * References that outlive their region: what a device holds is never handed to anybody else, and comes back clean.
 * Needs the stand-in driver /dev/hugepin_test.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "driver.h"
#include "region.h"
#include "reserve.h"

#define BYTES		(4 * PAGE_2M)
#define DEVICE_BYTE	0xdd

enum { SLOW = 0, FAST = HUGEPIN_TEST_PIN_FAST, REFERENCE = HUGEPIN_TEST_PIN_GET };

static const unsigned int slow = SLOW, fast = FAST, reference = REFERENCE, fast_reference = FAST | REFERENCE;

/* A region of the class at work, on the node with most of it. */
struct backing {
	unsigned int class;
	uint64_t page, bytes;
	unsigned int node;
};

static struct backing backing_2m(void)
{
	return (struct backing){ HUGEPIN_CLASS_2M, PAGE_2M, BYTES, reserve_node_with(HUGEPIN_CLASS_2M, 8) };
}

static struct backing backing_1g(void)
{
	if (class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has no 1G class");
	if (!reserve_free_class(HUGEPIN_CLASS_1G))
		ktap_skip("the reserve has no 1G page");
	return (struct backing){ HUGEPIN_CLASS_1G, PAGE_1G, PAGE_1G, reserve_node_with(HUGEPIN_CLASS_1G, 1) };
}

static struct hugepin_test_pin pin(int driver, const char *start, uint64_t bytes, unsigned int flags)
{
	struct hugepin_test_pin request = {
		.size = sizeof(request), .flags = flags, .addr = (uintptr_t)start, .bytes = bytes,
	};

	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &request));
	return request;
}

/* ---- while the region lives ---- */

static void check_pins(const struct backing *backing, unsigned int flags)
{
	int driver = driver_open(), fd = region_make_on(backing->node, backing->bytes, 1u << backing->class);
	char *start = region_map(fd, 0, backing->bytes, PROT_READ | PROT_WRITE), *copy = malloc(PAGE_2M);
	struct hugepin_test_pin got;

	CHECK(copy, "no memory");
	got = pin(driver, start, backing->bytes, flags);
	CHECK_EQ(got.pages, backing->bytes / PAGE_4K);
	CHECK(got.runs <= backing->bytes / backing->page, "%llu runs for %" PRIu64 " pages", got.runs,
	      backing->bytes / backing->page);

	/* what the processor writes the device reads, and the other way round */
	marks_write(start, 0, backing->bytes, 1);
	CHECK_OK(device_io(driver, false, backing->bytes - PAGE_2M, copy, PAGE_2M));
	CHECK(!memcmp(copy, start + backing->bytes - PAGE_2M, PAGE_2M), "the device reads other bytes");
	memset(copy, DEVICE_BYTE, PAGE_2M);
	CHECK_OK(device_io(driver, true, PAGE_4K / 2, copy, PAGE_2M - PAGE_4K));
	CHECK(!memcmp(copy, start + PAGE_4K / 2, PAGE_2M - PAGE_4K), "the device wrote elsewhere");
	CHECK_ERRNO(device_io(driver, true, backing->bytes - 1, copy, 2), ERANGE);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
	CHECK_OK(munmap(start, backing->bytes));
	free(copy);
}

/* C072: the mapping is of pages that a driver can register */
static void pins_hold_every_page_in_whole_runs_2m(const void *arg)
{
	struct backing backing = backing_2m();

	check_pins(&backing, *(const unsigned int *)arg);
}

static void pins_hold_every_page_in_whole_runs_1g(const void *arg)
{
	struct backing backing = backing_1g();

	check_pins(&backing, *(const unsigned int *)arg);
}

/* Faulted in beforehand or by the pin, in huge entries or in 4K ones: pins work all the same. */
static void pins_work_on_4k_entries_and_parts(const void *arg)
{
	int driver = driver_open(), fd = region_make(BYTES, CLASS_2M);
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE), byte = 7;
	struct hugepin_test_pin got;

	CHECK_OK(madvise(start, BYTES, MADV_NOHUGEPAGE));
	touch_faults(start, PAGE_2M);
	got = pin(driver, start + 3 * PAGE_4K + 17, PAGE_2M, *(const unsigned int *)arg);
	CHECK_EQ(got.pages, PAGE_2M / PAGE_4K + 1);
	CHECK_OK(device_io(driver, true, 1, &byte, 1));
	CHECK_EQ(start[3 * PAGE_4K + 18], 7);
	CHECK_OK(madvise(start, BYTES, MADV_HUGEPAGE));
	CHECK_OK(madvise(start, BYTES, MADV_DONTNEED));	/* the pins stay on the same pages */
	byte = 9;
	CHECK_OK(device_io(driver, true, 1, &byte, 1));
	CHECK_EQ(start[3 * PAGE_4K + 18], 9);
}

static void pins_end_before_the_region_without_a_trace(const void *arg)
{
	int driver = driver_open(), fd = region_make(BYTES, CLASS_2M), round;
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	long long refs = pages_of(driver, start, PAGE_4K).refs;

	for (round = 0; round < 3; round++) {
		pin(driver, start, BYTES, *(const unsigned int *)arg);
		CHECK(pages_of(driver, start, PAGE_4K).refs >= refs + 512, "fewer references than pages");
		CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
		CHECK_EQ(pages_of(driver, start, PAGE_4K).refs, refs);
	}
}

static void a_hole_in_the_range_is_refused_whole(const void *arg)
{
	int driver = driver_open(), fd = region_make(BYTES, CLASS_2M);
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	struct hugepin_test_pin request = {
		.size = sizeof(request), .flags = *(const unsigned int *)arg, .addr = (uintptr_t)start, .bytes = BYTES,
	};
	long long refs = pages_of(driver, start, PAGE_4K).refs;

	CHECK_OK(munmap(start + PAGE_2M, PAGE_2M));
	CHECK_ERRNO(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &request), EFAULT);
	CHECK_EQ(pages_of(driver, start, PAGE_4K).refs, refs);
	CHECK_ERRNO(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN), ENODATA);
}

static void a_read_only_mapping_is_not_pinned_for_writing(const void *arg)
{
	int driver = driver_open(), fd = region_make(PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, PAGE_2M, PROT_READ);
	struct hugepin_test_pin request = {
		.size = sizeof(request), .flags = *(const unsigned int *)arg,
		.addr = (uintptr_t)start, .bytes = PAGE_2M,
	};

	CHECK_EQ(read_signal(start), 0);
	CHECK_ERRNO(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &request), EFAULT);
}

static void pages_are_where_and_what_they_are_said_to_be(const void *arg)
{
	unsigned int nodes[64], count = reserve_nodes(nodes, 64), i;
	int driver = driver_open();

	(void)arg;
	for (i = 0; i < count; i++) {
		int fd = region_make_on(nodes[i], BYTES, CLASS_2M);
		char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
		struct hugepin_test_pages pages = pages_of(driver, start, BYTES);

		CHECK_EQ(pages.node, nodes[i]);
		CHECK_EQ(pages.other, 0);
		CHECK_EQ(pages.order, 9);
		CHECK(pages.runs <= BYTES / PAGE_2M, "%llu runs", pages.runs);
		CHECK_OK(munmap(start, BYTES));
		close(fd);
	}
}

static void interleaved_pages_alternate(const void *arg)
{
	struct hugepin_create args = create_args(BYTES, CLASS_2M);
	unsigned int nodes[64], i, turn[4];
	int driver = driver_open(), fd;
	char *start;

	(void)arg;
	if (reserve_nodes(nodes, 64) != 2)
		ktap_skip("not two nodes");
	args.policy = HUGEPIN_POLICY_INTERLEAVE;
	fd = CHECK_OK(region_create(device_open(), &args));
	start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	for (i = 0; i < 4; i++)
		turn[i] = pages_of(driver, start + i * PAGE_2M, PAGE_2M).node;
	CHECK(turn[0] != turn[1] && turn[0] == turn[2] && turn[1] == turn[3], "nodes %u %u %u %u", turn[0], turn[1],
	      turn[2], turn[3]);
}

static void mixed_regions_have_pages_of_both_sizes(const void *arg)
{
	struct hugepin_test_pin got;
	int driver = driver_open(), fd;
	char *start;

	(void)arg;
	backing_1g();	/* skips where there is none */
	fd = region_make(PAGE_1G + PAGE_2M, CLASS_1G | CLASS_2M);
	start = region_map(fd, 0, PAGE_1G + PAGE_2M, PROT_READ | PROT_WRITE);
	CHECK_EQ(pages_of(driver, start, PAGE_1G).order, 18);
	CHECK_EQ(pages_of(driver, start, PAGE_1G).runs, 1);
	CHECK_EQ(pages_of(driver, start + PAGE_1G, PAGE_2M).order, 9);
	got = pin(driver, start + PAGE_1G - PAGE_4K, 2 * PAGE_4K, SLOW);	/* across the border */
	CHECK_EQ(got.pages, 2);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
	got = pin(driver, start, PAGE_1G + PAGE_2M, FAST);
	CHECK_EQ(got.pages, (PAGE_1G + PAGE_2M) / PAGE_4K);
}

/* ---- after the region ---- */

/* A client that pins all of its region by our driver context and is killed; then only the pins are left. */
static void client_dies_pinned(int driver, const struct backing *backing, unsigned int flags)
{
	struct channel channel = channel_open();
	pid_t child = ktap_fork();

	if (!child) {
		int fd = region_make_on(backing->node, backing->bytes, 1u << backing->class);
		char *start = region_map(fd, 0, backing->bytes, PROT_READ | PROT_WRITE);

		marks_write(start, 0, backing->bytes, 3);
		pin(driver, start, backing->bytes, flags);
		channel_signal(&channel, 1);
		for (;;)
			pause();
	}
	channel_wait(&channel, 0);
	kill(child, SIGKILL);
	ktap_join_killed(child, SIGKILL);
}

/* Takes all free pages of the node and class: what a client that comes next could get. */
static char *take_all(const struct backing *backing, uint64_t *bytes, int *fd)
{
	*bytes = reserve_free_pages(backing->node, backing->class) * backing->page;
	if (!*bytes)
		return NULL;
	*fd = region_make_on(backing->node, *bytes, 1u << backing->class);
	return region_map(*fd, 0, *bytes, PROT_READ | PROT_WRITE);
}

static void check_exhausted(const struct backing *backing)
{
	uint64_t mask[2] = { 0 };
	struct hugepin_create args = create_args(backing->page, 1u << backing->class);

	mask[backing->node / 64] = 1ULL << backing->node % 64;
	args.nodemask = (uintptr_t)mask;
	args.nodemask_bits = backing->node + 1;
	CHECK_EQ(region_create(device_open(), &args), -ENOMEM);
}

static void check_quarantine(const struct backing *backing, unsigned int flags)
{
	struct hugepin_info_pages before = reserve_of(backing->node, backing->class), now;
	uint64_t held = backing->bytes / backing->page, bytes;
	char *others, *poison = malloc(PAGE_2M);
	int driver = driver_open(), fd = -1;

	CHECK(poison, "no memory");
	client_dies_pinned(driver, backing, flags);
	CHECK(reserve_wait_quarantined(backing->node, backing->class, held), "quarantined: %llu, not %" PRIu64,
	      reserve_of(backing->node, backing->class).quarantined, held);
	CHECK_EQ(reserve_of(backing->node, backing->class).in_use, before.in_use);

	others = take_all(backing, &bytes, &fd);
	check_exhausted(backing);
	if (others)
		CHECK_ZERO(others, bytes);
	memset(poison, DEVICE_BYTE, PAGE_2M);
	CHECK_OK(device_io(driver, true, 0, poison, PAGE_2M));	/* late DMA */
	CHECK_OK(device_io(driver, true, backing->bytes - PAGE_2M, poison, PAGE_2M));
	if (others) {
		CHECK_ZERO(others, bytes);
		CHECK_OK(munmap(others, bytes));
		close(fd);
	}

	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
	CHECK(reserve_wait_quarantined(backing->node, backing->class, 0), "still quarantined after the last unpin");
	now = reserve_of(backing->node, backing->class);
	CHECK_EQ(now.clean + now.dirty, before.clean + before.dirty);
	others = take_all(backing, &bytes, &fd);
	CHECK_EQ(bytes / backing->page, before.clean + before.dirty);
	CHECK_ZERO(others, bytes);
	free(poison);
}

static void a_dead_client_s_pins_keep_its_pages_from_others_2m(const void *arg)
{
	struct backing backing = backing_2m();

	check_quarantine(&backing, *(const unsigned int *)arg);
}

static void a_dead_client_s_pins_keep_its_pages_from_others_1g(const void *arg)
{
	struct backing backing = backing_1g();

	check_quarantine(&backing, *(const unsigned int *)arg);
}

static void only_the_pages_that_are_held_are_kept(const void *arg)
{
	struct backing backing = backing_2m();
	int driver = driver_open(), fd = region_make_on(backing.node, BYTES, CLASS_2M);
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);

	pin(driver, start + PAGE_2M + 5 * PAGE_4K, 1, *(const unsigned int *)arg);	/* one byte of one of four */
	CHECK_OK(munmap(start, BYTES));
	close(fd);
	CHECK(reserve_wait_quarantined(backing.node, HUGEPIN_CLASS_2M, 1), "quarantined: %llu, not 1",
	      reserve_of(backing.node, HUGEPIN_CLASS_2M).quarantined);
	close(driver);		/* the last descriptor ends the pin as well */
	CHECK(reserve_wait_quarantined(backing.node, HUGEPIN_CLASS_2M, 0), "still quarantined");
}

struct share {
	int driver, device;
	unsigned int flags;
	uint64_t mask[HUGEPIN_NODES_MAX / 64];
	uint64_t pages;
};

static int create_shared(struct share *share, uint64_t pages, struct hugepin_shortfall *short_of)
{
	struct hugepin_create args = create_args(pages * PAGE_2M, CLASS_2M);

	args.nodemask = (uintptr_t)share->mask;
	args.nodemask_bits = HUGEPIN_NODES_MAX;
	args.shortfall = (uintptr_t)short_of;
	return region_create(share->device, &args);
}

static void try_to_dodge_the_limit(struct share *share)
{
	struct hugepin_shortfall short_of = { 0 };
	int fd, waited_ms;
	char *start;

	CHECK_OK(setuid(NOBODY));
	fd = CHECK_OK(create_shared(share, share->pages, NULL));
	start = region_map(fd, 0, share->pages * PAGE_2M, PROT_READ | PROT_WRITE);
	pin(share->driver, start, share->pages * PAGE_2M, share->flags);
	CHECK_OK(munmap(start, share->pages * PAGE_2M));
	close(fd);
	CHECK_EQ(create_shared(share, 1, &short_of), -EDQUOT);
	CHECK_EQ(short_of.held, share->pages);
	CHECK_OK(ioctl(share->driver, HUGEPIN_TEST_IOC_UNPIN));
	for (waited_ms = 0; (fd = create_shared(share, share->pages, &short_of)) == -EDQUOT; waited_ms += 10) {
		CHECK(waited_ms < SETTLE_MS, "still held: %llu", short_of.held);
		poll(NULL, 0, 10);
	}
	CHECK(fd >= 0, "%s", strerror(-fd));
}

static void a_held_page_stays_charged_to_its_user(const void *arg)
{
	struct backing backing = backing_2m();
	uint64_t total = reserve_of(backing.node, HUGEPIN_CLASS_2M).total;
	struct share share = {
		.driver = driver_open(), .device = device_open(), .flags = *(const unsigned int *)arg,
		.pages = total * 10 / 100,
	};
	pid_t child;

	CHECK(share.pages >= 1, "%" PRIu64 " pages on the node", total);
	share.mask[backing.node / 64] = 1ULL << backing.node % 64;
	CHECK_EQ(knob_write(backing.node, HUGEPIN_CLASS_2M, "user_limit_percent", 10), 0);
	child = ktap_fork();
	if (!child) {
		try_to_dodge_the_limit(&share);
		ktap_exit();
	}
	ktap_join(child);
}

/* A page in a pipe has a reference but no pin count. */
static void a_page_in_a_pipe_is_kept_and_read_unchanged(const void *arg)
{
	struct backing backing = backing_2m();
	char expect[PAGE_4K], got[PAGE_4K];
	int ends[2], fd = -1;
	uint64_t bytes;
	char *others;
	pid_t child;

	(void)arg;
	memset(expect, 0x5a, sizeof(expect));
	CHECK_OK(pipe(ends));
	child = ktap_fork();
	if (!child) {
		int region = region_make_on(backing.node, BYTES, CLASS_2M);
		char *start = region_map(region, 0, BYTES, PROT_READ | PROT_WRITE);
		struct iovec one = { start + PAGE_2M + PAGE_4K, PAGE_4K };

		memcpy(start + PAGE_2M + PAGE_4K, expect, PAGE_4K);
		CHECK_EQ(vmsplice(ends[1], &one, 1, 0), PAGE_4K);
		kill(getpid(), SIGKILL);
	}
	ktap_join_killed(child, SIGKILL);
	CHECK(reserve_wait_quarantined(backing.node, HUGEPIN_CLASS_2M, 1), "quarantined: %llu, not 1",
	      reserve_of(backing.node, HUGEPIN_CLASS_2M).quarantined);
	others = take_all(&backing, &bytes, &fd);
	memset(others, 0x33, bytes);
	CHECK_EQ(read(ends[0], got, PAGE_4K), PAGE_4K);
	CHECK(!memcmp(got, expect, PAGE_4K), "the pipe gives other bytes than were put in");
	CHECK(reserve_wait_quarantined(backing.node, HUGEPIN_CLASS_2M, 0), "still quarantined");
}

static void one_context_after_the_other_can_hold_the_same_page(const void *arg)
{
	struct backing backing = backing_2m();
	int one = driver_open(), two = driver_open(), fd = region_make_on(backing.node, PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);

	(void)arg;
	pin(one, start, PAGE_2M, SLOW);
	pin(two, start + PAGE_4K, PAGE_4K, REFERENCE);
	CHECK_OK(munmap(start, PAGE_2M));
	close(fd);
	CHECK(reserve_wait_quarantined(backing.node, HUGEPIN_CLASS_2M, 1), "not quarantined");
	close(one);
	poll(NULL, 0, 300);	/* some rounds of whoever looks through the quarantine */
	CHECK_EQ(reserve_of(backing.node, HUGEPIN_CLASS_2M).quarantined, 1);
	close(two);
	CHECK(reserve_wait_quarantined(backing.node, HUGEPIN_CLASS_2M, 0), "still quarantined");
}

#define CASE(f, flags)	{ .name = #f, .run = f, .arg = &(flags), .variant = #flags, .timeout_s = 60 }
#define ONCE(f)		{ .name = #f, .run = f, .timeout_s = 60 }

static const struct ktap_case cases[] = {
	CASE(pins_hold_every_page_in_whole_runs_2m, slow),
	CASE(pins_hold_every_page_in_whole_runs_2m, fast),
	CASE(pins_hold_every_page_in_whole_runs_2m, reference),
	CASE(pins_hold_every_page_in_whole_runs_2m, fast_reference),
	CASE(pins_work_on_4k_entries_and_parts, slow),
	CASE(pins_work_on_4k_entries_and_parts, fast),
	CASE(pins_end_before_the_region_without_a_trace, slow),
	CASE(pins_end_before_the_region_without_a_trace, fast),
	CASE(pins_end_before_the_region_without_a_trace, reference),
	CASE(a_hole_in_the_range_is_refused_whole, slow),
	CASE(a_hole_in_the_range_is_refused_whole, fast),
	CASE(a_read_only_mapping_is_not_pinned_for_writing, slow),
	CASE(a_read_only_mapping_is_not_pinned_for_writing, fast),
	ONCE(pages_are_where_and_what_they_are_said_to_be),
	ONCE(interleaved_pages_alternate),
	CASE(a_dead_client_s_pins_keep_its_pages_from_others_2m, slow),
	CASE(a_dead_client_s_pins_keep_its_pages_from_others_2m, fast),
	CASE(a_dead_client_s_pins_keep_its_pages_from_others_2m, reference),
	CASE(only_the_pages_that_are_held_are_kept, slow),
	CASE(only_the_pages_that_are_held_are_kept, reference),
	CASE(a_held_page_stays_charged_to_its_user, slow),
	CASE(a_held_page_stays_charged_to_its_user, reference),
	ONCE(a_page_in_a_pipe_is_kept_and_read_unchanged),
	ONCE(one_context_after_the_other_can_hold_the_same_page),
	CASE(pins_hold_every_page_in_whole_runs_1g, slow),
	CASE(pins_hold_every_page_in_whole_runs_1g, fast),
	ONCE(mixed_regions_have_pages_of_both_sizes),
	CASE(a_dead_client_s_pins_keep_its_pages_from_others_1g, fast),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
