// SPDX-License-Identifier: MIT
/* scrub/: how many workers zero and help growing, and what is known about it. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define SCRUB	"/sys/class/misc/hugepin/scrub/"

static unsigned long long figure(const char *name)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), SCRUB "%s", name);
	CHECK(file_read(path, text, sizeof(text)), "%s", path);
	return strtoull(text, NULL, 10);
}

static bool nothing_dirty(const struct reserve *reserve, const void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0; i < reserve->info.nr_pages; i++)
		if (reserve->pages[i].dirty)
			return false;
	return true;
}

static void settle(void)
{
	int tries;

	for (tries = 0; tries < 6; tries++)	/* 1G pages take their time when emulated */
		if (reserve_wait(nothing_dirty, NULL))
			return;
	ktap_fail_here("pages stay dirty");
}

/* All free 2M pages become dirty. */
static uint64_t use_all(void)
{
	uint64_t bytes = reserve_free_class(HUGEPIN_CLASS_2M) * PAGE_2M;

	close(region_make(bytes, CLASS_2M));
	return bytes;
}

static void workers_are_a_number_from_1_to_16(const void *arg)
{
	static const char * const bad[] = { "0", "17", "-1", "", "two", "4294967297", "1 " };
	unsigned int i;

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK(file_write(SCRUB "workers", bad[i]) != 0 || !*bad[i], "'%s' was taken", bad[i]);
		CHECK_EQ(figure("workers"), 1);
	}
	CHECK_EQ(file_write(SCRUB "workers", "16"), 0);
	CHECK_EQ(figure("workers"), 16);
	CHECK_EQ(file_write(SCRUB "workers", "1\n"), 0);
}

static void what_the_background_zeroed_is_counted(const void *arg)
{
	unsigned long long mib, ms;
	uint64_t bytes;

	(void)arg;
	settle();
	mib = figure("done_mib");
	ms = figure("busy_ms");
	bytes = use_all();
	settle();
	CHECK_EQ(figure("done_mib") - mib, bytes / MiB);
	CHECK(figure("busy_ms") > ms, "no time for %llu MiB", (unsigned long long)bytes / MiB);
	ktap_note("%llu MiB in %llu ms; since loading %llu MiB/s", (unsigned long long)bytes / MiB,
		  figure("busy_ms") - ms, figure("rate_mib_s"));
	CHECK(figure("rate_mib_s") > 0, "no rate");
}

static void several_workers_lose_and_repeat_nothing(const void *arg)
{
	unsigned long long mib;
	uint64_t bytes;
	int round;

	(void)arg;
	settle();
	CHECK_EQ(file_write(SCRUB "workers", "4"), 0);
	mib = figure("done_mib");
	bytes = use_all();
	settle();
	CHECK_EQ(figure("done_mib") - mib, bytes / MiB);
	for (round = 0; round < 5; round++) {	/* takers against workers */
		char *start;
		int fd;

		bytes = reserve_free_class(HUGEPIN_CLASS_2M) * PAGE_2M;
		fd = region_make(bytes, CLASS_2M);
		start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);
		CHECK_ZERO(start, bytes);
		marks_write(start, 0, bytes, round);
		CHECK_OK(munmap(start, bytes));
		close(fd);
	}
	CHECK_EQ(file_write(SCRUB "workers", "1"), 0);
	settle();
}

static void several_workers_grow_to_the_page(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 1);
	uint64_t before = reserve_of(node, HUGEPIN_CLASS_2M).total, pages;

	(void)arg;
	CHECK_EQ(file_write(SCRUB "workers", "8"), 0);
	for (pages = before + 1; pages < before + 80; pages += 26) {
		CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", pages), 0);
		CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_2M).total, pages);
	}
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before), 0);
	CHECK_EQ(file_write(SCRUB "workers", "1"), 0);
}

static void creations_that_zero_themselves_are_counted(const void *arg)
{
	unsigned long long made, zeroed;

	(void)arg;
	settle();
	CHECK_EQ(file_write(SCRUB "enabled", "0"), 0);
	made = figure("creations");
	zeroed = figure("creations_zeroed");
	use_all();
	CHECK_EQ(figure("creations") - made, 1);
	CHECK_EQ(figure("creations_zeroed") - zeroed, 0);
	use_all();
	CHECK_EQ(figure("creations") - made, 2);
	CHECK_EQ(figure("creations_zeroed") - zeroed, 1);
	CHECK_EQ(file_write(SCRUB "enabled", "1"), 0);
	settle();
}

/* One that needs the page in a worker's hands makes it bring that back, and has waited. */
static void creations_that_wait_for_a_worker_are_counted(const void *arg)
{
	unsigned long long waited = figure("creations_waited");
	int round;

	(void)arg;
	CHECK_EQ(file_write(SCRUB "throttle_mib_s", "2"), 0);	/* a worker holds a page for a second */
	for (round = 0; round < 5 && figure("creations_waited") == waited; round++) {
		use_all();
		poll(NULL, 0, 100);
		use_all();
	}
	CHECK_EQ(file_write(SCRUB "throttle_mib_s", "0"), 0);
	CHECK(figure("creations_waited") > waited, "none has waited");
	settle();
}

/* How much less it is depends on the machine. */
static void the_background_keeps_below_its_rate(const void *arg)
{
	struct timespec from, to;
	struct reserve reserve;
	double mib, seconds;
	unsigned int i, nodes = 0;

	(void)arg;
	settle();
	reserve_read(&reserve);
	for (i = 0; i < reserve.info.nr_pages; i++)
		nodes += reserve.pages[i].class == HUGEPIN_CLASS_2M && reserve.pages[i].clean;
	CHECK_EQ(file_write(SCRUB "throttle_mib_s", "40"), 0);
	mib = use_all() / MiB;
	clock_gettime(CLOCK_MONOTONIC, &from);
	settle();
	clock_gettime(CLOCK_MONOTONIC, &to);
	seconds = to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) / 1e9;
	CHECK_EQ(file_write(SCRUB "throttle_mib_s", "0"), 0);
	ktap_note("%.0f MiB of %u nodes in %.1f s, at 40 MiB/s each", mib, nodes, seconds);
	/* what a worker makes up for lets a page or two go before */
	CHECK((mib - nodes * 4) / seconds < 40 * nodes, "faster than allowed");
}

/* A worker with a page in hand brings it back, however slow it was told to be. */
static void switched_off_it_lets_go_of_the_page(const void *arg)
{
	unsigned long long waited;

	(void)arg;
	settle();
	CHECK_EQ(file_write(SCRUB "throttle_mib_s", "1"), 0);
	use_all();
	poll(NULL, 0, 100);
	CHECK_EQ(file_write(SCRUB "enabled", "0"), 0);
	poll(NULL, 0, 500);
	waited = figure("creations_waited");
	use_all();
	CHECK_EQ(figure("creations_waited"), waited);
	CHECK_EQ(file_write(SCRUB "throttle_mib_s", "0"), 0);
	CHECK_EQ(file_write(SCRUB "enabled", "1"), 0);
	settle();
}

/* Where the kernel zeroes at allocation (init_on_alloc=1) nothing is left to do. */
static void pages_that_arrive_zeroed_are_not_zeroed_again(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 1);
	uint64_t before = reserve_of(node, HUGEPIN_CLASS_2M).total;
	unsigned long long mib;
	char text[4096];
	bool zeroed;

	(void)arg;
	CHECK(file_read("/proc/cmdline", text, sizeof(text)), "/proc/cmdline");
	zeroed = strstr(text, "init_on_alloc=1");
	settle();
	mib = figure("done_mib");
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before + 10), 0);
	if (zeroed)
		CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_2M).dirty, 0);
	settle();
	CHECK_EQ(figure("done_mib") - mib, zeroed ? 0 : 20);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before), 0);
}

#define CASE(f, ...)	{ .name = #f, .run = f, .timeout_s = 90, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(workers_are_a_number_from_1_to_16),
	CASE(what_the_background_zeroed_is_counted),
	CASE(several_workers_lose_and_repeat_nothing),
	CASE(several_workers_grow_to_the_page),
	CASE(creations_that_zero_themselves_are_counted),
	CASE(creations_that_wait_for_a_worker_are_counted),
	CASE(the_background_keeps_below_its_rate),
	CASE(switched_off_it_lets_go_of_the_page),
	CASE(pages_that_arrive_zeroed_are_not_zeroed_again),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
