// SPDX-License-Identifier: MIT
/* The reserve's knobs and counters: growing, shrinking, refusing, and states that always add up. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define NODES_MAX	64

static const char * const count_files[] = {
	"nr_hugepages", "free_hugepages", "clean_hugepages", "dirty_hugepages", "inuse_hugepages",
	"quarantined_hugepages", "poisoned_hugepages", "asked_hugepages",
};

static unsigned int first_node(void)
{
	unsigned int node;

	CHECK(reserve_nodes(&node, 1) >= 1, "no node with memory");
	return node;
}

static bool same_pages(const struct hugepin_info_pages *a, const struct hugepin_info_pages *b)
{
	return a->asked == b->asked && a->total == b->total && a->in_use == b->in_use &&
	       a->clean + a->dirty == b->clean + b->dirty && a->quarantined == b->quarantined;
}

static void check_adds_up(const struct hugepin_info_pages *pages)
{
	uint64_t sum = pages->clean + pages->dirty + pages->in_use + pages->quarantined + pages->poisoned;

	CHECK(sum == pages->total, "node %u class %u: clean %llu + dirty %llu + in use %llu + quarantined %llu"
	      " + poisoned %llu, total %llu", pages->node, pages->class, pages->clean, pages->dirty, pages->in_use,
	      pages->quarantined, pages->poisoned, pages->total);
}

static void every_count_has_a_file_that_agrees_with_info(const void *arg)
{
	struct reserve reserve;
	unsigned int i, f;

	(void)arg;
	reserve_read(&reserve);
	CHECK(reserve.info.nr_pages >= 1, "INFO has no entries");
	for (i = 0; i < reserve.info.nr_pages; i++) {
		const struct hugepin_info_pages *pages = &reserve.pages[i];
		const uint64_t want[ARRAY_SIZE(count_files)] = {
			pages->total, pages->clean + pages->dirty, 0, 0, pages->in_use, pages->quarantined,
			pages->poisoned, pages->asked,
		};

		check_adds_up(pages);
		for (f = 0; f < ARRAY_SIZE(count_files); f++) {
			uint64_t value = knob_read(pages->node, pages->class, count_files[f]);

			/* clean and dirty may move while we look */
			if (f != 2 && f != 3)
				CHECK(value == want[f], "node %u class %u %s: %" PRIu64 ", INFO has %" PRIu64,
				      pages->node, pages->class, count_files[f], value, want[f]);
		}
		CHECK(knob_read(pages->node, pages->class, "user_limit_percent") <= 100, "node %u", pages->node);
	}
}

static void info_tells_version_and_fills_what_fits(const void *arg)
{
	struct hugepin_info_pages pages[2] = { { .node = 77 }, { .node = 77 } };
	struct hugepin_info info = { .size = sizeof(info), .pages = (uintptr_t)pages, .nr_pages = 1 };
	int fd = device_open();

	(void)arg;
	CHECK_OK(ioctl(fd, HUGEPIN_IOC_INFO, &info));
	CHECK_EQ(info.version, HUGEPIN_UAPI_VERSION);
	if (info.nr_pages < 2)
		ktap_skip("one node, one class");
	CHECK(pages[0].node != 77 && pages[1].node == 77, "one entry fits, %u and %u were written", pages[0].node,
	      pages[1].node);
	info = (struct hugepin_info){ .size = sizeof(info) };
	CHECK_OK(ioctl(fd, HUGEPIN_IOC_INFO, &info));
	CHECK(info.nr_pages >= 2, "%u entries", info.nr_pages);
}

static void bad_info_is_refused(const void *arg)
{
	struct {
		struct hugepin_info info;
		uint64_t tail;
	} longer = { .info = { .size = sizeof(longer) } };
	struct hugepin_info info = { .size = sizeof(info), .flags = 1 };
	int fd = device_open();

	(void)arg;
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_INFO, &info), EINVAL);
	info = (struct hugepin_info){ .size = sizeof(info), .pad = 1 };
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_INFO, &info), EINVAL);
	info = (struct hugepin_info){ .size = sizeof(info) - 8 };
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_INFO, &info), EINVAL);
	info = (struct hugepin_info){ .size = sizeof(info), .pages = 8, .nr_pages = 1 };
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_INFO, &info), EFAULT);
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_INFO, NULL), EFAULT);
	CHECK_OK(ioctl(fd, HUGEPIN_IOC_INFO, &longer));
	longer.info.size = sizeof(longer);
	longer.tail = 1;
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_INFO, &longer), E2BIG);
	CHECK_ERRNO(ioctl(fd, _IO(HUGEPIN_IOC_TYPE, 0xbf), &info), ENOTTY);
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_REGION_INFO, &info), ENOTTY);
}

/* C008 */
static void growing_and_shrinking_is_exact_and_on_that_node_only(const void *arg)
{
	unsigned int nodes[NODES_MAX], count = reserve_nodes(nodes, NODES_MAX), i, other;
	static const int steps[] = { 3, 1, 0, -2, -2 };
	struct hugepin_info_pages before[NODES_MAX], now;

	(void)arg;
	for (i = 0; i < count; i++)
		before[i] = reserve_of(nodes[i], HUGEPIN_CLASS_2M);
	for (i = 0; i < count; i++) {
		uint64_t want = before[i].total;
		unsigned int step;

		for (step = 0; step < ARRAY_SIZE(steps); step++) {
			want += steps[step];
			CHECK_EQ(knob_write(nodes[i], HUGEPIN_CLASS_2M, "nr_hugepages", want), 0);
			now = reserve_of(nodes[i], HUGEPIN_CLASS_2M);
			check_adds_up(&now);
			CHECK_EQ(now.total, want);
			CHECK_EQ(now.asked, want);
			CHECK_EQ(knob_read(nodes[i], HUGEPIN_CLASS_2M, "nr_hugepages"), want);
			for (other = 0; other < count; other++) {
				now = reserve_of(nodes[other], HUGEPIN_CLASS_2M);
				CHECK(other == i || same_pages(&now, &before[other]), "node %u changed with node %u",
				      nodes[other], nodes[i]);
			}
		}
		CHECK_EQ(knob_write(nodes[i], HUGEPIN_CLASS_2M, "nr_hugepages", before[i].total), 0);
		before[i] = reserve_of(nodes[i], HUGEPIN_CLASS_2M);
	}
}

static void new_pages_are_on_the_node_they_were_asked_for(const void *arg)
{
	unsigned int nodes[NODES_MAX], count = reserve_nodes(nodes, NODES_MAX), i;

	(void)arg;
	for (i = 0; i < count; i++) {
		uint64_t bytes = 2 * PAGE_2M;
		int fd = region_make_on(nodes[i], bytes, CLASS_2M);
		char *start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);
		struct hugepin_extent extent = { 0 };
		struct hugepin_region_info info = {
			.size = sizeof(info), .extents = (uintptr_t)&extent, .nr_extents = 1,
		};

		start[0] = 1;
		CHECK_OK(ioctl(fd, HUGEPIN_IOC_REGION_INFO, &info));
		CHECK_EQ(info.nr_extents, 1);
		CHECK(extent.node == nodes[i] && extent.pages == 2 && extent.class == HUGEPIN_CLASS_2M,
		      "%llu pages of class %u on node %u", extent.pages, extent.class, extent.node);
		munmap(start, bytes);
		close(fd);
	}
}

/* C045 */
static void bad_numbers_are_refused_and_change_nothing(const void *arg)
{
	static const struct {
		const char *text;
		int error;	/* 0: any */
	} bad[] = {
		{ "4294967297", -ERANGE },
		{ "18446744073709551615", -ERANGE },
		{ "18446744073709551616", 0 },
		{ "99999999999999999999999999", 0 },
		{ "9223372036854775808", -ERANGE },
		{ "-1", -EINVAL },
		{ "-0", -EINVAL },
		{ "12abc", -EINVAL },
		{ "abc", -EINVAL },
		{ "\n", -EINVAL },
		{ " ", -EINVAL },
		{ " 5", -EINVAL },
		{ "5 ", -EINVAL },
		{ "5 6", -EINVAL },
		{ "0x10", -EINVAL },
		{ "1e3", -EINVAL },
		{ "5%", -EINVAL },
		{ "2M", -EINVAL },
		{ "5\n\n", -EINVAL },
	};
	static const char * const files[] = { "nr_hugepages", "user_limit_percent" };
	unsigned int node = first_node(), f, i;
	struct hugepin_info_pages before = reserve_of(node, HUGEPIN_CLASS_2M), now;
	uint64_t percent = knob_read(node, HUGEPIN_CLASS_2M, "user_limit_percent");

	(void)arg;
	for (f = 0; f < ARRAY_SIZE(files); f++) {
		for (i = 0; i < ARRAY_SIZE(bad); i++) {
			const char *text = bad[i].text;
			int error = knob_write_text(node, HUGEPIN_CLASS_2M, files[f], text, strlen(text));

			CHECK(error == -EINVAL || error == -ERANGE || error == -EOVERFLOW, "'%s' to %s: %s", text,
			      files[f], error ? strerror(-error) : "accepted");
			if (!f && bad[i].error)
				CHECK(error == bad[i].error, "'%s' to %s: %s", text, files[f], strerror(-error));
			now = reserve_of(node, HUGEPIN_CLASS_2M);
			CHECK(same_pages(&before, &now), "'%s' to %s: asked %llu -> %llu, total %llu -> %llu", text,
			      files[f], before.asked, now.asked, before.total, now.total);
			CHECK_EQ(knob_read(node, HUGEPIN_CLASS_2M, "user_limit_percent"), percent);
		}
	}
	CHECK(knob_write(node, HUGEPIN_CLASS_2M, "user_limit_percent", 101) < 0, "101 percent were accepted");
	CHECK_EQ(knob_read(node, HUGEPIN_CLASS_2M, "user_limit_percent"), percent);
}

static void numbers_that_parse_are_taken(const void *arg)
{
	unsigned int node = first_node(), i;
	uint64_t total = reserve_of(node, HUGEPIN_CLASS_2M).total;

	(void)arg;
	for (i = 0; i < 2; i++) {	/* with and without the newline that echo sends */
		char text[32];
		int length = snprintf(text, sizeof(text), "%" PRIu64 "%s", total, i ? "\n" : "");

		CHECK_EQ(knob_write_text(node, HUGEPIN_CLASS_2M, "nr_hugepages", text, length), 0);
		CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_2M).total, total);
	}
}

static void counts_cannot_be_written_and_knobs_not_by_others(const void *arg)
{
	unsigned int node = first_node(), i;
	char path[128];
	pid_t child;

	(void)arg;
	for (i = 1; i < ARRAY_SIZE(count_files); i++)
		CHECK(knob_write(node, HUGEPIN_CLASS_2M, count_files[i], 1) < 0, "%s took a number", count_files[i]);
	child = ktap_fork();
	if (!child) {
		CHECK_OK(setuid(NOBODY));
		knob_path(path, sizeof(path), node, HUGEPIN_CLASS_2M, "nr_hugepages");
		CHECK_ERRNO(open(path, O_WRONLY), EACCES);
		knob_read(node, HUGEPIN_CLASS_2M, "nr_hugepages");
		ktap_exit();
	}
	ktap_join(child);
}

static void shrinking_below_what_is_in_use_is_busy_and_takes_nothing_from_it(const void *arg)
{
	unsigned int node = first_node();
	struct hugepin_info_pages before = reserve_of(node, HUGEPIN_CLASS_2M), now;
	uint64_t bytes = 4 * PAGE_2M;
	int fd = region_make_on(node, bytes, CLASS_2M);
	char *start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);

	(void)arg;
	marks_write(start, 0, bytes, 5);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before.in_use + 2), -EBUSY);
	now = reserve_of(node, HUGEPIN_CLASS_2M);
	check_adds_up(&now);
	CHECK_EQ(now.in_use, before.in_use + 4);
	CHECK(now.total >= now.in_use && now.total <= before.total, "total %llu", now.total);
	CHECK_EQ(knob_read(node, HUGEPIN_CLASS_2M, "nr_hugepages"), now.total);
	CHECK_MARKS(start, 0, bytes, 5);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before.total), 0);
	CHECK_MARKS(start, 0, bytes, 5);
}

/* A line of the node's meminfo, in bytes. */
static uint64_t node_meminfo(unsigned int node, const char *what)
{
	char path[96], line[256];
	uint64_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", node);
	file = fopen(path, "re");
	CHECK(file, "%s: %s", path, strerror(errno));
	while (!kib && fgets(line, sizeof(line), file))
		if (strstr(line, what))
			kib = strtoull(strchr(line, ':') + 1, NULL, 10);
	fclose(file);
	CHECK(kib, "no %s in %s", what, path);
	return kib << 10;
}

static void more_than_the_node_could_hold_is_refused_at_once(const void *arg)
{
	unsigned int node = first_node();
	struct hugepin_info_pages before = reserve_of(node, HUGEPIN_CLASS_2M), now;
	uint64_t too_many = node_meminfo(node, "MemTotal:") / PAGE_2M + 1;

	(void)arg;
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", too_many), -ERANGE);
	now = reserve_of(node, HUGEPIN_CLASS_2M);
	CHECK(same_pages(&before, &now), "total %llu -> %llu, asked %llu -> %llu", before.total, now.total,
	      before.asked, now.asked);
}

/* C007: the write does not succeed with fewer pages than it was given */
static void a_shortfall_is_an_error_that_keeps_what_it_got(const void *arg)
{
	unsigned int nodes[NODES_MAX], count = reserve_nodes(nodes, NODES_MAX), node = nodes[count - 1];
	struct hugepin_info_pages before = reserve_of(node, HUGEPIN_CLASS_2M), now;
	uint64_t ask = before.total + node_meminfo(node, "MemFree:") / PAGE_2M;
	int error;

	(void)arg;
	/* Taking apart a large node is minutes of zeroing in an emulated machine; the small ones do it. */
	if (node_meminfo(node, "MemFree:") > 3 * GiB && !getenv("HUGEPIN_SLOW"))
		ktap_skip("node %u has %" PRIu64 " MiB free: run on nodes of 2 GiB, or with HUGEPIN_SLOW=1", node,
			  (uint64_t)(node_meminfo(node, "MemFree:") / MiB));
	error = knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", ask);
	if (error == -ERANGE) {		/* the floor that is always left counts too: the most there could be */
		do
			ask--;
		while ((error = knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", ask)) == -ERANGE);
	}
	now = reserve_of(node, HUGEPIN_CLASS_2M);
	check_adds_up(&now);
	CHECK(error == -ENOMEM, "asked %" PRIu64 ", total %llu: %s", ask, now.total, strerror(-error));
	CHECK_EQ(now.asked, ask);
	CHECK(now.total > before.total && now.total < ask, "asked %" PRIu64 ", total %llu -> %llu", ask, before.total,
	      now.total);
	CHECK(node_meminfo(node, "MemFree:") >= 64 * MiB, "%" PRIu64 " MiB are left on node %u",
	      (uint64_t)(node_meminfo(node, "MemFree:") / MiB), node);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before.total), 0);
}

static void a_killed_writer_leaves_a_sound_reserve(const void *arg)
{
	unsigned int node = first_node();
	struct hugepin_info_pages before = reserve_of(node, HUGEPIN_CLASS_2M), now;
	int round, status;

	(void)arg;
	for (round = 0; round < 4; round++) {
		pid_t child = ktap_fork();

		if (!child) {
			knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before.total + 96);
			_exit(KTAP_PASS);
		}
		poll(NULL, 0, 1 + 5 * round);
		kill(child, round % 2 ? SIGKILL : SIGTERM);
		CHECK_EQ(waitpid(child, &status, 0), child);
		now = reserve_of(node, HUGEPIN_CLASS_2M);
		check_adds_up(&now);
		CHECK(now.total >= before.total && now.total <= before.total + 96, "total %llu", now.total);
		CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before.total), 0);
	}
}

static void busy_client(unsigned int seed)
{
	int device = device_open();

	for (;;) {
		struct hugepin_create args = create_args((1 + rand_r(&seed) % 4) * PAGE_2M, CLASS_2M);
		int fd = region_create(device, &args);

		if (fd < 0)
			continue;
		if (rand_r(&seed) % 2) {
			char *start = region_map(fd, 0, args.bytes, PROT_READ | PROT_WRITE);

			start[0] = 1;
			munmap(start, args.bytes);
		}
		close(fd);
	}
}

static void states_add_up_while_everything_moves(const void *arg)
{
	unsigned int node = first_node(), i, look;
	uint64_t total = reserve_of(node, HUGEPIN_CLASS_2M).total;
	pid_t children[4];

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(children); i++) {
		children[i] = ktap_fork();
		if (!children[i] && i)
			busy_client(i);
		while (!children[i])
			knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", total + rand() % 8);
	}
	for (look = 0; look < 300; look++) {
		struct reserve reserve;

		reserve_read(&reserve);
		for (i = 0; i < reserve.info.nr_pages; i++)
			check_adds_up(&reserve.pages[i]);
		if (look % 8 == 0)
			poll(NULL, 0, 10);
	}
	for (i = 0; i < ARRAY_SIZE(children); i++) {
		kill(children[i], SIGKILL);
		ktap_join_killed(children[i], SIGKILL);
	}
}

static bool all_free_is_clean(const struct reserve *reserve, const void *arg)
{
	const unsigned int *node = arg;
	unsigned int i;

	for (i = 0; i < reserve->info.nr_pages; i++)
		if (reserve->pages[i].node == *node && reserve->pages[i].class == HUGEPIN_CLASS_2M)
			return !reserve->pages[i].dirty && !reserve->pages[i].in_use;
	return false;
}

static void pages_of_a_closed_region_are_scrubbed(const void *arg)
{
	unsigned int node = first_node();
	uint64_t bytes = 8 * PAGE_2M, clean;
	int fd = region_make_on(node, bytes, CLASS_2M);
	char *start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);

	(void)arg;
	marks_write(start, 0, bytes, 1);
	munmap(start, bytes);
	close(fd);
	CHECK(reserve_wait(all_free_is_clean, &node), "%llu pages are still dirty after %d ms",
	      reserve_of(node, HUGEPIN_CLASS_2M).dirty, SETTLE_MS);
	clean = reserve_of(node, HUGEPIN_CLASS_2M).clean;
	CHECK(clean >= 8, "%" PRIu64 " clean pages", clean);
	CHECK_EQ(knob_read(node, HUGEPIN_CLASS_2M, "clean_hugepages"), clean);
	fd = region_make_on(node, clean * PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, clean * PAGE_2M, PROT_READ);
	CHECK_ZERO(start, clean * PAGE_2M);
}

static void an_absent_class_has_no_entry_and_no_knobs(const void *arg)
{
	struct reserve reserve;
	unsigned int i;

	(void)arg;
	reserve_read(&reserve);
	if (reserve.info.absent[HUGEPIN_CLASS_1G] == HUGEPIN_ABSENT_NOT)
		ktap_skip("this kernel has the 1G class");
	for (i = 0; i < reserve.info.nr_pages; i++)
		CHECK_EQ(reserve.pages[i].class, HUGEPIN_CLASS_2M);
	CHECK_EQ(knob_write(first_node(), HUGEPIN_CLASS_1G, "nr_hugepages", 1), -ENOENT);
}

/* The 1G class: one page less and back; a page that cannot be had again would fail the case. */
static void the_1g_class_shrinks_and_grows_back(const void *arg)
{
	struct hugepin_info_pages before;
	unsigned int node;

	(void)arg;
	if (class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has no 1G class");
	if (!reserve_free_class(HUGEPIN_CLASS_1G))
		ktap_skip("the reserve has no 1G page");
	node = reserve_node_with(HUGEPIN_CLASS_1G, 1);
	before = reserve_of(node, HUGEPIN_CLASS_1G);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", before.total - 1), 0);
	CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_1G).total, before.total - 1);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", before.total), 0);
	CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_1G).total, before.total);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", 1 << 20), -ERANGE);
}

#define CASE(f, ...)	{ .name = #f, .run = f, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(every_count_has_a_file_that_agrees_with_info),
	CASE(info_tells_version_and_fills_what_fits),
	CASE(bad_info_is_refused),
	CASE(growing_and_shrinking_is_exact_and_on_that_node_only),
	CASE(new_pages_are_on_the_node_they_were_asked_for),
	CASE(bad_numbers_are_refused_and_change_nothing),
	CASE(numbers_that_parse_are_taken),
	CASE(counts_cannot_be_written_and_knobs_not_by_others),
	CASE(shrinking_below_what_is_in_use_is_busy_and_takes_nothing_from_it),
	CASE(more_than_the_node_could_hold_is_refused_at_once),
	CASE(a_shortfall_is_an_error_that_keeps_what_it_got, .timeout_s = 120),
	CASE(a_killed_writer_leaves_a_sound_reserve),
	CASE(states_add_up_while_everything_moves),
	CASE(pages_of_a_closed_region_are_scrubbed),
	CASE(an_absent_class_has_no_entry_and_no_knobs),
	CASE(the_1g_class_shrinks_and_grows_back, .timeout_s = 120),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
