// SPDX-License-Identifier: MIT
/* CREATE: what is refused changes nothing; what is given is what was asked, node by node and class by class. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define NODES_MAX	64
#define MASK_WORDS	(HUGEPIN_NODES_MAX / 64)

static uint64_t mask[MASK_WORDS + 1];
static char long_name[HUGEPIN_NAME_MAX + 64];

/* ---- refusals ---- */

struct refusal {
	const char *name;
	void (*spoil)(struct hugepin_create *args);
	int error;
};

static void unknown_flag(struct hugepin_create *a)	{ a->flags = HUGEPIN_CREATE_FLAGS + 1; }
static void top_flag(struct hugepin_create *a)		{ a->flags = 1u << 31; }
static void size_zero(struct hugepin_create *a)		{ a->size = 0; }
static void size_short(struct hugepin_create *a)	{ a->size = sizeof(*a) - 8; }
static void size_huge(struct hugepin_create *a)		{ a->size = ~0u; }
static void no_bytes(struct hugepin_create *a)		{ a->bytes = 0; }
static void sign_bit_bytes(struct hugepin_create *a)	{ a->bytes = 1ULL << 63; }
static void all_bytes(struct hugepin_create *a)		{ a->bytes = ~0ULL; }
static void wrapping_bytes(struct hugepin_create *a)	{ a->bytes = ~0ULL - PAGE_2M + 2; }
static void largest_file(struct hugepin_create *a)	{ a->bytes = INT64_MAX; }
static void a_pebibyte(struct hugepin_create *a)	{ a->bytes = 1ULL << 50; }
static void no_class(struct hugepin_create *a)		{ a->classes = 0; }
static void unknown_class(struct hugepin_create *a)	{ a->classes = CLASS_2M | 1u << HUGEPIN_CLASS_COUNT; }
static void only_unknown_class(struct hugepin_create *a) { a->classes = 1u << 31; }
static void unknown_policy(struct hugepin_create *a)	{ a->policy = HUGEPIN_POLICY_PREFERRED + 1; }
static void all_policy(struct hugepin_create *a)	{ a->policy = ~0u; }
static void mode_too_wide(struct hugepin_create *a)	{ a->mode = 01777; }
static void mode_setuid(struct hugepin_create *a)	{ a->mode = 04600; }
static void mode_of_a_file(struct hugepin_create *a)	{ a->mode = S_IFREG | 0600; }
static void extents_nowhere(struct hugepin_create *a)	{ a->extents = 0; a->nr_extents = 1; }
static void extents_unwritable(struct hugepin_create *a) { a->extents = 8; a->nr_extents = 4; }
static void name_on_the_device(struct hugepin_create *a) { a->name = (uintptr_t)"emb0"; }
static void name_unreadable(struct hugepin_create *a)	{ a->name = 8; }
static void name_empty(struct hugepin_create *a)	{ a->name = (uintptr_t)""; }
static void name_dot(struct hugepin_create *a)		{ a->name = (uintptr_t)"."; }
static void name_dot_dot(struct hugepin_create *a)	{ a->name = (uintptr_t)".."; }
static void name_slash(struct hugepin_create *a)	{ a->name = (uintptr_t)"a/b"; }
static void name_root(struct hugepin_create *a)		{ a->name = (uintptr_t)"/"; }
static void name_parent(struct hugepin_create *a)	{ a->name = (uintptr_t)"../x"; }

static void name_of(struct hugepin_create *a, size_t length)
{
	memset(long_name, 'n', sizeof(long_name));
	long_name[length] = '\0';
	a->name = (uintptr_t)long_name;
}

static void name_256(struct hugepin_create *a)	{ name_of(a, HUGEPIN_NAME_MAX + 1); }
static void name_300(struct hugepin_create *a)	{ name_of(a, HUGEPIN_NAME_MAX + 45); }

static void nodes(struct hugepin_create *a, uint32_t bits)
{
	a->nodemask = (uintptr_t)mask;
	a->nodemask_bits = bits;
}

static void mask_without_bits(struct hugepin_create *a)	{ nodes(a, 0); mask[0] = 1; }
static void bits_without_mask(struct hugepin_create *a)	{ a->nodemask_bits = 64; }
static void mask_empty(struct hugepin_create *a)	{ nodes(a, 64); }
static void mask_too_wide(struct hugepin_create *a)	{ nodes(a, HUGEPIN_NODES_MAX + 1); mask[0] = 1; }
static void mask_far_too_wide(struct hugepin_create *a)	{ nodes(a, ~0u); mask[0] = 1; }
static void mask_unreadable(struct hugepin_create *a)	{ a->nodemask = 8; a->nodemask_bits = 64; }
static void node_missing(struct hugepin_create *a)	{ nodes(a, 64); mask[0] = 1ULL << 63; }
static void node_missing_too(struct hugepin_create *a)	{ nodes(a, 64); mask[0] = 1 | 1ULL << 62; }
static void last_node(struct hugepin_create *a)
{
	nodes(a, HUGEPIN_NODES_MAX);
	mask[MASK_WORDS - 1] = 1ULL << 63;
}

static const struct refusal refused_by_the_device[] = {
	{ "an unknown flag", unknown_flag, EINVAL },
	{ "the top flag", top_flag, EINVAL },
	{ "no size", size_zero, EINVAL },
	{ "a short struct", size_short, EINVAL },
	{ "an absurd size", size_huge, E2BIG },
	{ "no bytes", no_bytes, EINVAL },
	{ "2^63 bytes", sign_bit_bytes, EINVAL },
	{ "2^64 - 1 bytes", all_bytes, EINVAL },
	{ "bytes that wrap when rounded up", wrapping_bytes, EINVAL },
	{ "2^63 - 1 bytes", largest_file, EINVAL },
	{ "2^50 bytes", a_pebibyte, ENOMEM },
	{ "no class", no_class, EINVAL },
	{ "an unknown class beside a known one", unknown_class, EINVAL },
	{ "only an unknown class", only_unknown_class, EINVAL },
	{ "an unknown policy", unknown_policy, EINVAL },
	{ "all bits of policy", all_policy, EINVAL },
	{ "the sticky bit in mode", mode_too_wide, EINVAL },
	{ "setuid in mode", mode_setuid, EINVAL },
	{ "a file type in mode", mode_of_a_file, EINVAL },
	{ "room for extents at address 0", extents_nowhere, EINVAL },
	{ "extents that cannot be written", extents_unwritable, EFAULT },
	{ "a node mask of 0 bits", mask_without_bits, EINVAL },
	{ "bits without a node mask", bits_without_mask, EINVAL },
	{ "an empty node mask", mask_empty, EINVAL },
	{ "a node mask one bit too wide", mask_too_wide, EINVAL },
	{ "a node mask of 2^32 - 1 bits", mask_far_too_wide, EINVAL },
	{ "a node mask that cannot be read", mask_unreadable, EFAULT },
	{ "node 63", node_missing, ENODEV },
	{ "node 0 and node 62", node_missing_too, ENODEV },
	{ "the last node there could be", last_node, ENODEV },
	{ "a name on the device", name_on_the_device, EINVAL },
};

static const struct refusal refused_by_a_directory[] = {
	{ "a name that cannot be read", name_unreadable, EFAULT },
	{ "an empty name", name_empty, EINVAL },
	{ "the name .", name_dot, EINVAL },
	{ "the name ..", name_dot_dot, EINVAL },
	{ "a name with a slash", name_slash, EINVAL },
	{ "the name /", name_root, EINVAL },
	{ "a name that leaves the directory", name_parent, EINVAL },
	{ "a name of 256 bytes", name_256, ENAMETOOLONG },
	{ "a name of 300 bytes", name_300, ENAMETOOLONG },
};

static void check_same(const struct reserve *before, const char *what)
{
	struct reserve now;
	unsigned int i;

	reserve_read(&now);
	CHECK(now.info.regions == before->info.regions, "%s made a region", what);
	for (i = 0; i < now.info.nr_pages; i++) {
		const struct hugepin_info_pages *a = &before->pages[i], *b = &now.pages[i];

		CHECK(a->total == b->total && a->in_use == b->in_use && a->clean + a->dirty == b->clean + b->dirty &&
		      a->quarantined == b->quarantined && a->asked == b->asked, "%s changed node %u class %u", what,
		      a->node, a->class);
	}
}

static int lowest_free_descriptor(void)
{
	int fd = CHECK_OK(dup(STDOUT_FILENO));

	close(fd);
	return fd;
}

static void try_refusal(int fd, const struct refusal *refusal)
{
	int answer, first_free = lowest_free_descriptor();
	struct hugepin_create args = create_args(PAGE_2M, CLASS_2M), sent;
	struct hugepin_extent extents[4];
	struct reserve before;

	reserve_read(&before);
	args.extents = (uintptr_t)extents;
	args.nr_extents = ARRAY_SIZE(extents);
	memset(mask, 0, sizeof(mask));
	refusal->spoil(&args);
	sent = args;
	answer = region_create(fd, &args);
	CHECK(answer == -refusal->error, "%s: %s, not %s", refusal->name,
	      answer >= 0 ? "accepted" : strerror(-answer), strerror(refusal->error));
	CHECK(args.fd == sent.fd && args.bytes == sent.bytes, "%s: wrote into the struct", refusal->name);
	CHECK(lowest_free_descriptor() == first_free, "%s: left a descriptor open", refusal->name);
	check_same(&before, refusal->name);
}

static void every_bad_request_is_refused_and_changes_nothing(const void *arg)
{
	int device = device_open();
	unsigned int i;

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(refused_by_the_device); i++)
		try_refusal(device, &refused_by_the_device[i]);
}

static void every_bad_name_is_refused_and_changes_nothing(const void *arg)
{
	int directory = fs_mount(NULL, NULL);
	unsigned int i;

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(refused_by_a_directory); i++)
		try_refusal(directory, &refused_by_a_directory[i]);
}

static void pointers_that_cannot_be_used_are_efault_and_leave_nothing(const void *arg)
{
	char *page = mmap(NULL, 2 * PAGE_4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct hugepin_create *args = (struct hugepin_create *)(page + PAGE_4K) - 1;
	int device = device_open(), first_free = lowest_free_descriptor();
	struct reserve before;

	(void)arg;
	reserve_read(&before);
	CHECK_OK(munmap(page + PAGE_4K, PAGE_4K));
	CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_CREATE, NULL), EFAULT);
	*(uint32_t *)(page + PAGE_4K - 4) = sizeof(*args);	/* the size is there, the rest is not */
	CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_CREATE, page + PAGE_4K - 4), EFAULT);
	*args = create_args(PAGE_2M, CLASS_2M);
	args->size++;		/* one byte beyond the page */
	CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_CREATE, args), EFAULT);
	*args = create_args(PAGE_2M, CLASS_2M);
	CHECK_OK(mprotect(page, PAGE_4K, PROT_READ));	/* the answer cannot be written: all or nothing */
	CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_CREATE, args), EFAULT);
	CHECK_EQ(lowest_free_descriptor(), first_free);
	CHECK_OK(mprotect(page, PAGE_4K, PROT_READ | PROT_WRITE));
	args->bytes = 1ULL << 50;
	args->shortfall = 8;
	CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_CREATE, args), EFAULT);
	check_same(&before, "a bad pointer");
}

static void a_longer_struct_is_taken_if_its_tail_is_zero(const void *arg)
{
	struct {
		struct hugepin_create args;
		uint64_t tail[4];
	} longer = { .args = create_args(PAGE_2M, CLASS_2M) };
	int device = device_open();

	(void)arg;
	longer.args.size = sizeof(longer);
	longer.tail[3] = 1ULL << 63;
	CHECK_EQ(region_create(device, &longer.args), -E2BIG);
	longer.tail[3] = 0;
	close(CHECK_OK(region_create(device, &longer.args)));
}

static void no_descriptor_left_is_emfile_and_leaves_nothing(const void *arg)
{
	struct hugepin_create args = create_args(PAGE_2M, CLASS_2M);
	int device = device_open(), fd;
	struct reserve before;

	(void)arg;
	reserve_read(&before);
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		;
	CHECK_EQ(region_create(device, &args), -EMFILE);
	close(3 == device ? 4 : 3);
	check_same(&before, "no descriptor");
}

/* ---- what is given ---- */

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
	check_same(&before, "a shortfall");
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
	/* Close, and at once again: the scrubber has no time, so the call meets clean and dirty pages and some in between. */
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
	/* With fallback the missing 1G page is 512 pages of 2M, which are not there either: the error is about those. */
	args.flags = HUGEPIN_CREATE_FALLBACK;
	if (free_2m < 512) {
		CHECK_EQ(region_create(device, &args), -ENOMEM);
		CHECK(short_of.class == HUGEPIN_CLASS_2M && short_of.asked == 512 && short_of.available == free_2m,
		      "class %u asked %llu available %llu", short_of.class, short_of.asked, short_of.available);
	}
	check_same(&before, "a shortfall");
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
	CASE(every_bad_request_is_refused_and_changes_nothing),
	CASE(every_bad_name_is_refused_and_changes_nothing),
	CASE(pointers_that_cannot_be_used_are_efault_and_leave_nothing),
	CASE(a_longer_struct_is_taken_if_its_tail_is_zero),
	CASE(no_descriptor_left_is_emfile_and_leaves_nothing),
	CASE(bytes_are_rounded_up_and_told_everywhere),
	CASE(bind_takes_pages_of_that_node_only),
	CASE(bind_over_what_the_node_has_says_how_much_there_is),
	CASE(preferred_takes_the_rest_from_other_nodes),
	CASE(interleave_splits_evenly_and_in_turn),
	CASE(interleave_with_a_short_node_is_refused_unless_fallback),
	CASE(extents_are_counted_beyond_the_room_given),
	CASE(a_fresh_region_is_zero_however_its_pages_were_left),
	CASE(a_user_gets_no_more_than_the_share),
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
