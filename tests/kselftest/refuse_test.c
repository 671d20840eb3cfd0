// SPDX-License-Identifier: MIT
/* CREATE: what is refused, with which error; and that it changes nothing then, not even a number. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define MASK_WORDS	(HUGEPIN_NODES_MAX / 64)

static uint64_t mask[MASK_WORDS + 1];
static char long_name[HUGEPIN_NAME_MAX + 64];

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
/* C045 */
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
	reserve_check_same(&before, refusal->name);
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
	reserve_check_same(&before, "a bad pointer");
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
	reserve_check_same(&before, "no descriptor");
}

#define CASE(f)	{ .name = #f, .run = f }

static const struct ktap_case cases[] = {
	CASE(every_bad_request_is_refused_and_changes_nothing),
	CASE(every_bad_name_is_refused_and_changes_nothing),
	CASE(pointers_that_cannot_be_used_are_efault_and_leave_nothing),
	CASE(a_longer_struct_is_taken_if_its_tail_is_zero),
	CASE(no_descriptor_left_is_emfile_and_leaves_nothing),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
