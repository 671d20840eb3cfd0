// SPDX-License-Identifier: MIT
/* CREATE: what is given is what was asked, node by node and class by class, or the difference is told. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define RANKS	4	/* processes of one job */
#define REGIONS	3

#define NODES_MAX	64

static uint64_t mask[HUGEPIN_NODES_MAX / 64];

static void nodes(struct hugepin_create *a, uint32_t bits)
{
	a->nodemask = (uintptr_t)mask;
	a->nodemask_bits = bits;
}

static void pages_of(int fd, struct hugepin_extent *extents, uint32_t *count)
{
	struct hugepin_region_info info = {
		.size = sizeof(info), .extents = (uintptr_t)extents, .nr_extents = *count,
	};

	CHECK_OK(ioctl(fd, HUGEPIN_IOC_REGION_INFO, &info));
	*count = info.nr_extents;
}

static uint64_t pages_in(const struct hugepin_extent *extents, uint32_t count, unsigned int node, unsigned int class)
{
	uint64_t sum = 0;

	while (count--)
		if (extents[count].node == node && extents[count].class == class)
			sum += extents[count].pages;
	return sum;
}

static void bytes_are_rounded_up_and_told_everywhere(const void *arg)
{
	static const struct {
		uint64_t asked, got;
	} sizes[] = {
		{ 1, PAGE_2M }, { PAGE_2M - 1, PAGE_2M }, { PAGE_2M, PAGE_2M }, { PAGE_2M + 1, 2 * PAGE_2M },
		{ 5 * PAGE_2M - 4096, 5 * PAGE_2M },
	};
	int device = device_open();
	unsigned int i;

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct hugepin_create args = create_args(sizes[i].asked, CLASS_2M);
		int fd = CHECK_OK(region_create(device, &args));
		struct hugepin_region_info info = region_info(fd);
		struct stat st;

		CHECK_OK(fstat(fd, &st));
		CHECK_EQ(args.bytes, sizes[i].got);
		CHECK_EQ(st.st_size, sizes[i].got);
		CHECK_EQ(info.bytes, sizes[i].got);
		CHECK_EQ(info.bytes_1g, 0);
		CHECK_EQ(info.uid, 0);
		CHECK(S_ISCHR(st.st_mode) && (st.st_mode & 07777) == 0600, "mode %o", st.st_mode);
		CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
		CHECK_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
		CHECK(info.created_ns > 0, "no time");
		close(fd);
	}
}

static void bind_takes_pages_of_that_node_only(const void *arg)
{
	unsigned int nodes[NODES_MAX], count = reserve_nodes(nodes, NODES_MAX), i;

	(void)arg;
	for (i = 0; i < count; i++) {
		uint64_t free = reserve_free_pages(nodes[i], HUGEPIN_CLASS_2M), ask = free < 6 ? free : 6;
		int fd = region_make_on(nodes[i], ask * PAGE_2M, CLASS_2M);
		struct hugepin_extent extents[4];
		uint32_t extent_count = ARRAY_SIZE(extents);

		pages_of(fd, extents, &extent_count);
		CHECK_EQ(extent_count, 1);
		CHECK_EQ(pages_in(extents, extent_count, nodes[i], HUGEPIN_CLASS_2M), ask);
		CHECK_EQ(reserve_of(nodes[i], HUGEPIN_CLASS_2M).in_use, ask);
		close(fd);
	}
}

/* C008: other nodes' pages do not count */
static void bind_over_what_the_node_has_says_how_much_there_is(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 2);
	uint64_t free = reserve_free_pages(node, HUGEPIN_CLASS_2M);
	struct hugepin_create args = create_args((free + 3) * PAGE_2M, CLASS_2M);
	struct hugepin_shortfall short_of = { 0 };
	int device = device_open();
	struct reserve before;

	(void)arg;
	reserve_read(&before);
	memset(mask, 0, sizeof(mask));
	nodes(&args, node + 1);
	mask[node / 64] = 1ULL << node % 64;
	args.shortfall = (uintptr_t)&short_of;
	CHECK_EQ(region_create(device, &args), -ENOMEM);
	CHECK_EQ(short_of.reason, HUGEPIN_SHORT_FREE);
	CHECK_EQ(short_of.class, HUGEPIN_CLASS_2M);
	CHECK_EQ(short_of.node, node);
	CHECK_EQ(short_of.asked, free + 3);
	CHECK_EQ(short_of.available, free);
	args.flags = HUGEPIN_CREATE_FALLBACK;	/* bind stays bind */
	CHECK_EQ(region_create(device, &args), -ENOMEM);
	reserve_check_same(&before, "a shortfall");
}

static void preferred_takes_the_rest_from_other_nodes(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 2);
	uint64_t free = reserve_free_pages(node, HUGEPIN_CLASS_2M), all = reserve_free_class(HUGEPIN_CLASS_2M);
	struct hugepin_create args = create_args((free + 2) * PAGE_2M, CLASS_2M);
	struct hugepin_extent extents[NODES_MAX];
	int device = device_open(), fd;

	(void)arg;
	if (all < free + 2)
		ktap_skip("no other node has two pages");
	memset(mask, 0, sizeof(mask));
	nodes(&args, node + 1);
	mask[node / 64] = 1ULL << node % 64;
	args.policy = HUGEPIN_POLICY_PREFERRED;
	args.extents = (uintptr_t)extents;
	args.nr_extents = ARRAY_SIZE(extents);
	fd = CHECK_OK(region_create(device, &args));
	CHECK(args.nr_extents >= 2, "%u extents", args.nr_extents);
	CHECK_EQ(pages_in(extents, args.nr_extents, node, HUGEPIN_CLASS_2M), free);
	close(fd);
}

static void interleave_splits_evenly_and_in_turn(const void *arg)
{
	unsigned int ids[NODES_MAX], count = reserve_nodes(ids, NODES_MAX), i;
	struct hugepin_create args = create_args((2 * count + 1) * PAGE_2M, CLASS_2M);
	struct hugepin_extent extents[NODES_MAX];
	int device = device_open(), fd;
	uint64_t extra = 0;

	(void)arg;
	if (count < 2)
		ktap_skip("one node");
	args.policy = HUGEPIN_POLICY_INTERLEAVE;
	args.extents = (uintptr_t)extents;
	args.nr_extents = ARRAY_SIZE(extents);
	fd = CHECK_OK(region_create(device, &args));
	CHECK_EQ(args.nr_extents, count);
	for (i = 0; i < count; i++) {
		uint64_t got = pages_in(extents, count, ids[i], HUGEPIN_CLASS_2M);

		CHECK(got == 2 || got == 3, "node %u: %" PRIu64 " pages", ids[i], got);
		extra += got - 2;
	}
	CHECK_EQ(extra, 1);
	close(fd);
}

static void interleave_with_a_short_node_is_refused_unless_fallback(const void *arg)
{
	unsigned int ids[NODES_MAX], count = reserve_nodes(ids, NODES_MAX);
	struct hugepin_create args = create_args(4 * count * PAGE_2M, CLASS_2M);
	struct hugepin_shortfall short_of = { 0 };
	struct hugepin_extent extents[NODES_MAX];
	int device = device_open(), hold, fd;
	uint64_t free;

	(void)arg;
	if (count < 2)
		ktap_skip("one node");
	free = reserve_free_pages(ids[1], HUGEPIN_CLASS_2M);
	hold = region_make_on(ids[1], (free - 1) * PAGE_2M, CLASS_2M);
	args.policy = HUGEPIN_POLICY_INTERLEAVE;
	args.shortfall = (uintptr_t)&short_of;
	CHECK_EQ(region_create(device, &args), -ENOMEM);
	CHECK(short_of.node == ids[1] && short_of.asked == 4 && short_of.available == 1,
	      "node %u asked %llu available %llu", short_of.node, short_of.asked, short_of.available);
	args.flags = HUGEPIN_CREATE_FALLBACK;
	args.extents = (uintptr_t)extents;
	args.nr_extents = ARRAY_SIZE(extents);
	fd = CHECK_OK(region_create(device, &args));
	CHECK_EQ(pages_in(extents, args.nr_extents, ids[1], HUGEPIN_CLASS_2M), 1);
	close(fd);
	close(hold);
}

static void extents_are_counted_beyond_the_room_given(const void *arg)
{
	unsigned int ids[NODES_MAX], count = reserve_nodes(ids, NODES_MAX);
	struct hugepin_create args = create_args(count * PAGE_2M, CLASS_2M);
	struct hugepin_extent extents[2] = { { .node = 77 }, { .node = 77 } };
	int device = device_open(), fd;

	(void)arg;
	if (count < 2)
		ktap_skip("one node");
	args.policy = HUGEPIN_POLICY_INTERLEAVE;
	args.extents = (uintptr_t)extents;
	args.nr_extents = 1;
	fd = CHECK_OK(region_create(device, &args));
	CHECK_EQ(args.nr_extents, count);
	CHECK(extents[0].node != 77 && extents[1].node == 77, "%u %u", extents[0].node, extents[1].node);
	close(fd);
}

static void a_fresh_region_is_zero_however_its_pages_were_left(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 4);
	uint64_t bytes = reserve_free_pages(node, HUGEPIN_CLASS_2M) * PAGE_2M;
	int round;

	(void)arg;
	/* Closed and at once again: the scrubber has no time, so the call meets clean and dirty pages. */
	for (round = 0; round < 2; round++) {
		int fd = region_make_on(node, bytes, CLASS_2M);
		char *start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);

		CHECK_ZERO(start, bytes);
		memset(start, 0xa5, bytes);
		munmap(start, bytes);
		close(fd);
	}
}

/* ---- limits of a user ---- */

struct share {
	unsigned int node;
	uint64_t limit;
	int device;
};

static int create_on(const struct share *share, uint64_t pages, struct hugepin_shortfall *short_of)
{
	struct hugepin_create args = create_args(pages * PAGE_2M, CLASS_2M);

	memset(mask, 0, sizeof(mask));
	mask[share->node / 64] = 1ULL << share->node % 64;
	nodes(&args, share->node + 1);
	args.shortfall = (uintptr_t)short_of;
	return region_create(share->device, &args);
}

static void use_up_share(const struct share *share)
{
	struct hugepin_shortfall short_of = { 0 };

	CHECK_OK(setuid(NOBODY));
	CHECK_EQ(region_info(CHECK_OK(create_on(share, share->limit - 1, &short_of))).uid, NOBODY);
	CHECK_EQ(create_on(share, 2, &short_of), -EDQUOT);
	CHECK_EQ(short_of.reason, HUGEPIN_SHORT_USER);
	CHECK_EQ(short_of.node, share->node);
	CHECK_EQ(short_of.class, HUGEPIN_CLASS_2M);
	CHECK_EQ(short_of.asked, 2);
	CHECK_EQ(short_of.limit, share->limit);
	CHECK_EQ(short_of.held, share->limit - 1);
	CHECK_OK(create_on(share, 1, &short_of));
	CHECK_EQ(create_on(share, 1, &short_of), -EDQUOT);
}

static void a_user_gets_no_more_than_the_share(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 8);
	struct share share = { .node = node, .device = device_open() };
	int round;

	(void)arg;
	share.limit = reserve_of(node, HUGEPIN_CLASS_2M).total * 25 / 100;
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "user_limit_percent", 25), 0);
	for (round = 0; round < 2; round++) {	/* the charge goes with the pages: the same again */
		pid_t child = ktap_fork();

		if (!child) {
			use_up_share(&share);
			ktap_exit();
		}
		ktap_join(child);
		CHECK(reserve_wait_quarantined(node, HUGEPIN_CLASS_2M, 0), "pages did not come back");
	}
	close(CHECK_OK(create_on(&share, share.limit, NULL)));	/* another user's share is its own */
	CHECK_EQ(create_on(&share, share.limit + 1, NULL), -EDQUOT);
}

/* Takes page by page, until it is told that the user's share is used up, and keeps them until it is let go. */
static void take_until_refused(const struct share *share, const struct channel *channel)
{
	struct hugepin_shortfall short_of = { 0 };
	uint64_t taken;
	int fd;

	CHECK_OK(setuid(NOBODY));
	channel_wait(channel, 1);
	for (taken = 0; (fd = create_on(share, 1, &short_of)) >= 0; taken++)
		CHECK(taken < share->limit, "one process has all %" PRIu64 " and goes on", share->limit);
	CHECK_EQ(fd, -EDQUOT);
	CHECK_EQ(short_of.limit, share->limit);
	CHECK_EQ(short_of.held, share->limit);	/* by all of them */
	channel_signal(channel, 1);
	channel_wait(channel, 1);
	ktap_exit();
}

/* C018: a share is the user's, however many processes ask at the same time. */
static void ranks_that_start_at_once_share_one_share(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 16), i;
	struct share share = { .node = node, .device = device_open() };
	struct hugepin_info_pages before = reserve_of(node, HUGEPIN_CLASS_2M);
	struct channel channels[RANKS];
	pid_t ranks[RANKS];

	(void)arg;
	share.limit = before.total * 50 / 100;
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "user_limit_percent", 50), 0);
	for (i = 0; i < RANKS; i++) {
		channels[i] = channel_open();
		ranks[i] = ktap_fork();
		if (!ranks[i])
			take_until_refused(&share, &channels[i]);
	}
	for (i = 0; i < RANKS; i++)
		channel_signal(&channels[i], 0);
	for (i = 0; i < RANKS; i++)
		channel_wait(&channels[i], 0);
	CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_2M).in_use - before.in_use, share.limit);
	for (i = 0; i < RANKS; i++) {
		channel_signal(&channels[i], 0);
		ktap_join(ranks[i]);
	}
}

/* C023: what parent and child make after a fork is each one's own, from one descriptor of the device. */
static void parent_and_child_make_regions_of_their_own(const void *arg)
{
	int device = device_open(), i;
	char *start[REGIONS];
	pid_t child = ktap_fork();

	(void)arg;
	for (i = 0; i < REGIONS; i++) {
		struct hugepin_create args = create_args(2 * PAGE_2M, CLASS_2M);

		start[i] = region_map(CHECK_OK(region_create(device, &args)), 0, 2 * PAGE_2M, PROT_READ | PROT_WRITE);
		CHECK_ZERO(start[i], 2 * PAGE_2M);
		marks_write(start[i], 0, 2 * PAGE_2M, child ? i : REGIONS + i);
	}
	if (child)
		ktap_join(child);
	for (i = 0; i < REGIONS; i++)
		CHECK_MARKS(start[i], 0, 2 * PAGE_2M, child ? i : REGIONS + i);
}

/* ---- 1G ---- */

static void need_1g(uint64_t pages)
{
	if (class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has no 1G class");
	if (reserve_free_class(HUGEPIN_CLASS_1G) < pages)
		ktap_skip("the reserve has fewer than %" PRIu64 " pages of 1G", pages);
}

static void without_the_1g_class_2m_pages_serve_if_allowed(const void *arg)
{
	struct hugepin_create args = create_args(PAGE_1G, CLASS_1G);
	int device = device_open(), fd;

	(void)arg;
	if (!class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has the 1G class");
	CHECK_EQ(region_create(device, &args), -EOPNOTSUPP);
	args.classes = CLASS_1G | CLASS_2M;
	CHECK_EQ(region_create(device, &args), -EOPNOTSUPP);
	args.bytes = 3 * PAGE_2M;	/* too short for a 1G page, so none is missed */
	fd = CHECK_OK(region_create(device, &args));
	CHECK_EQ(region_info(fd).bytes_1g, 0);
	close(fd);
}

static void a_mixed_region_is_1g_first_and_2m_after(const void *arg)
{
	struct hugepin_create args = create_args(PAGE_1G + 5 * PAGE_2M - 100, CLASS_1G | CLASS_2M);
	struct hugepin_region_info info;
	struct hugepin_extent extents[NODES_MAX];
	uint64_t big = 0, small = 0;
	int device = device_open(), fd;
	char *start;
	uint32_t i;

	(void)arg;
	need_1g(1);
	args.extents = (uintptr_t)extents;
	args.nr_extents = ARRAY_SIZE(extents);
	fd = CHECK_OK(region_create(device, &args));
	info = region_info(fd);
	CHECK_EQ(info.bytes, PAGE_1G + 5 * PAGE_2M);
	CHECK_EQ(info.bytes_1g, PAGE_1G);
	for (i = 0; i < args.nr_extents; i++)
		*(extents[i].class == HUGEPIN_CLASS_1G ? &big : &small) += extents[i].pages;
	CHECK_EQ(big, 1);
	CHECK_EQ(small, 5);
	start = region_map(fd, 0, info.bytes, PROT_READ | PROT_WRITE);
	CHECK_ZERO(start, info.bytes);
	/* not one byte written: a page that was only read is as dear to scrub, but no dearer */
	munmap(start, info.bytes);
	close(fd);
}

static void a_1g_only_region_is_rounded_up_to_1g(const void *arg)
{
	struct hugepin_create args = create_args(1, CLASS_1G);
	int device = device_open(), fd;

	(void)arg;
	need_1g(1);
	fd = CHECK_OK(region_create(device, &args));
	CHECK_EQ(args.bytes, PAGE_1G);
	CHECK_EQ(region_info(fd).bytes_1g, PAGE_1G);
	close(fd);
}

static void one_1g_page_too_many_is_refused_or_made_of_2m(const void *arg)
{
	struct hugepin_create args;
	struct hugepin_shortfall short_of = { 0 };
	uint64_t free_1g, free_2m;
	int device = device_open();
	struct reserve before;

	(void)arg;
	need_1g(1);
	free_1g = reserve_free_class(HUGEPIN_CLASS_1G);
	free_2m = reserve_free_class(HUGEPIN_CLASS_2M);
	reserve_read(&before);
	args = create_args((free_1g + 1) * PAGE_1G, CLASS_1G | CLASS_2M);
	args.shortfall = (uintptr_t)&short_of;
	CHECK_EQ(region_create(device, &args), -ENOMEM);
	CHECK(short_of.class == HUGEPIN_CLASS_1G && short_of.asked == free_1g + 1 && short_of.available == free_1g,
	      "class %u asked %llu available %llu", short_of.class, short_of.asked, short_of.available);
	CHECK_EQ(short_of.node, HUGEPIN_NODE_ANY);
	/* With fallback the missing 1G page is 512 pages of 2M, not there either: the error is about those. */
	args.flags = HUGEPIN_CREATE_FALLBACK;
	if (free_2m < 512) {
		CHECK_EQ(region_create(device, &args), -ENOMEM);
		CHECK(short_of.class == HUGEPIN_CLASS_2M && short_of.asked == 512 && short_of.available == free_2m,
		      "class %u asked %llu available %llu", short_of.class, short_of.asked, short_of.available);
	}
	reserve_check_same(&before, "a shortfall");
}

static void fallback_without_free_1g_pages_is_all_2m(const void *arg)
{
	struct hugepin_create args;
	struct reserve reserve;
	uint64_t free_1g;
	int device = device_open(), hold, fd;

	(void)arg;
	need_1g(1);
	free_1g = reserve_free_class(HUGEPIN_CLASS_1G);
	hold = region_make(free_1g * PAGE_1G, CLASS_1G);
	args = create_args(3 * PAGE_2M, CLASS_1G | CLASS_2M);
	args.flags = HUGEPIN_CREATE_FALLBACK;
	fd = CHECK_OK(region_create(device, &args));
	CHECK_EQ(region_info(fd).bytes_1g, 0);
	CHECK_EQ(args.bytes, 3 * PAGE_2M);
	reserve_read(&reserve);
	close(fd);
	close(hold);
}

#define CASE(f, ...)	{ .name = #f, .run = f, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(bytes_are_rounded_up_and_told_everywhere),
	CASE(bind_takes_pages_of_that_node_only),
	CASE(bind_over_what_the_node_has_says_how_much_there_is),
	CASE(preferred_takes_the_rest_from_other_nodes),
	CASE(interleave_splits_evenly_and_in_turn),
	CASE(interleave_with_a_short_node_is_refused_unless_fallback),
	CASE(extents_are_counted_beyond_the_room_given),
	CASE(a_fresh_region_is_zero_however_its_pages_were_left),
	CASE(a_user_gets_no_more_than_the_share),
	CASE(ranks_that_start_at_once_share_one_share),
	CASE(parent_and_child_make_regions_of_their_own),
	CASE(without_the_1g_class_2m_pages_serve_if_allowed),
	CASE(a_mixed_region_is_1g_first_and_2m_after, .timeout_s = 90),
	CASE(a_1g_only_region_is_rounded_up_to_1g, .timeout_s = 90),
	CASE(one_1g_page_too_many_is_refused_or_made_of_2m),
	CASE(fallback_without_free_1g_pages_is_all_2m, .timeout_s = 90),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
