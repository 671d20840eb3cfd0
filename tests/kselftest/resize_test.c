// SPDX-License-Identifier: MIT
/* What ends the growing of the reserve early, and what its files say then: it keeps what it got, and tells why not more. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

#include "region.h"
#include "reserve.h"

#define SCRUB_ENABLED	"/sys/class/misc/hugepin/scrub/enabled"
#define ROOM_1G		(6 * GiB)	/* a node with less may have no range at all */

static uint64_t node_memory(unsigned int node, const char *key)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", node);
	return file_number(path, key) << 10;
}

/* The files after a write of @asked that was answered by an error, for one reason or the other. */
static void check_told(unsigned int node, unsigned int class, uint64_t before, uint64_t asked, const char *reason,
		       const char *or_else)
{
	uint64_t got = knob_read(node, class, "nr_hugepages");
	char path[128], text[128];

	CHECK(got >= before && got < asked, "had %" PRIu64 ", asked %" PRIu64 ", have %" PRIu64, before, asked, got);
	CHECK_EQ(reserve_of(node, class).total, got);
	CHECK_EQ(knob_read(node, class, "asked_hugepages"), asked);
	knob_path(path, sizeof(path), node, class, "shortfall_reason");
	CHECK(file_read(path, text, sizeof(text)), "%s: %s", path, strerror(errno));
	CHECK(!strcmp(text, reason) || !strcmp(text, or_else), "the reason is '%s'", text);
	ktap_note("%" PRIu64 " of %" PRIu64 " pages: %s", got, asked, text);
}

static void tick(int signal)
{
	(void)signal;
}

/* Any signal, and at once: also one after which other calls go on by themselves. */
static void a_signal_ends_growing_which_keeps_what_it_got(const void *arg)
{
	const struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
	const struct itimerval ticking = { .it_interval.tv_usec = 500, .it_value.tv_usec = 500 }, still = { 0 };
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 1);
	uint64_t before = reserve_of(node, HUGEPIN_CLASS_2M).total;
	uint64_t asked = before + node_memory(node, "MemFree:") / 2 / PAGE_2M;
	int error, attempt = 0;

	(void)arg;
	CHECK_EQ(file_write(SCRUB_ENABLED, "0"), 0);	/* what is not zeroed is soon given back */
	CHECK_OK(sigaction(SIGALRM, &action, NULL));
	do {	/* a fast machine may have it all between two signals */
		CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before), 0);
		CHECK_OK(setitimer(ITIMER_REAL, &ticking, NULL));
		error = knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", asked);
		CHECK_OK(setitimer(ITIMER_REAL, &still, NULL));
	} while (!error && ++attempt < 50);
	CHECK_EQ(error, -EINTR);
	check_told(node, HUGEPIN_CLASS_2M, before, asked, "interrupted", "interrupted");
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before), 0);
	CHECK_EQ(file_write(SCRUB_ENABLED, "1"), 0);
}

/* C007: of 1G pages, too. 2M pages take what the last of them would need. */
static void a_1g_shortfall_keeps_what_it_got_and_says_why(const void *arg)
{
	unsigned int node;
	uint64_t before, small, asked;
	int error;

	(void)arg;
	if (class_absent(HUGEPIN_CLASS_1G) || !reserve_free_class(HUGEPIN_CLASS_1G))
		ktap_skip("no 1G pages");
	node = reserve_node_with(HUGEPIN_CLASS_1G, 1);
	if (node_memory(node, "MemTotal:") < ROOM_1G)
		ktap_skip("node %u has less than %llu GiB", node, ROOM_1G / GiB);
	before = reserve_of(node, HUGEPIN_CLASS_1G).total;
	small = reserve_of(node, HUGEPIN_CLASS_2M).total;
	CHECK_EQ(file_write(SCRUB_ENABLED, "0"), 0);	/* an emulated machine zeroes 1G pages for long */
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", small + 3 * GiB / 2 / PAGE_2M), 0);
	asked = node_memory(node, "MemTotal:") / PAGE_1G;
	while ((error = knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", asked)) == -ERANGE)
		asked--;
	CHECK_EQ(error, -ENOMEM);
	CHECK(knob_read(node, HUGEPIN_CLASS_1G, "nr_hugepages") > before, "not one more of them");
	check_told(node, HUGEPIN_CLASS_1G, before, asked, "no further free range of that size",
		   "no more without eating the node's last free memory");
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", before), 0);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", small), 0);
	CHECK_EQ(file_write(SCRUB_ENABLED, "1"), 0);
}

#define CASE(f)	{ .name = #f, .run = f, .timeout_s = 120 }

static const struct ktap_case cases[] = {
	CASE(a_signal_ends_growing_which_keeps_what_it_got),
	CASE(a_1g_shortfall_keeps_what_it_got_and_says_why),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
