// SPDX-License-Identifier: MIT
/*
 * Every allocation and every copy between user and kernel fails once: each call is made again and again, with its first,
 * second, third … fault injected (/proc/self/fail-nth), until it gets through without one. After each the reserve, the
 * mount's limits, the names and the descriptors are as before.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define DEBUG_DIR	"/sys/kernel/debug/"
#define FAULTS_MAX	2000	/* no call here comes near: more means that it never gets through */
#define PAGES		4
#define BYTES		(PAGES * PAGE_2M)

/* ---- injecting ---- */

/* What is spared by default: allocations that may wait (all of ours), highmem, single pages. And reports of each fault. */
static struct setting {
	const char *path, *text;
	char before[16];
} settings[] = {
	{ DEBUG_DIR "failslab/ignore-gfp-wait", "N", "" },
	{ DEBUG_DIR "failslab/verbose", "0", "" },
	{ DEBUG_DIR "fail_page_alloc/ignore-gfp-wait", "N", "" },
	{ DEBUG_DIR "fail_page_alloc/ignore-gfp-highmem", "N", "" },
	{ DEBUG_DIR "fail_page_alloc/min-order", "0", "" },
	{ DEBUG_DIR "fail_page_alloc/verbose", "0", "" },
	{ DEBUG_DIR "fail_usercopy/verbose", "0", "" },
};

static int fail_nth = -1;

static void settings_make(void)
{
	size_t i;

	reserve_hooks.start();
	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (file_read(settings[i].path, settings[i].before, sizeof(settings[i].before)))
			file_write(settings[i].path, settings[i].text);
}

static void settings_restore(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].before[0])
			file_write(settings[i].path, settings[i].before);
	reserve_hooks.restore();
}

static void faults_open(void)
{
	fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth < 0 && errno == ENOENT)
		ktap_skip("this kernel has no /proc/self/fail-nth");
	CHECK(fail_nth >= 0, "/proc/self/fail-nth: %s", strerror(errno));
}

static void faults_arm(unsigned int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", nth);

	CHECK_EQ(pwrite(fail_nth, text, length, 0), length);
}

/* Whether the fault has come. One that was still to come may hit this very read: then it had not. */
static bool faults_disarm(void)
{
	char text[16] = "";
	ssize_t length = pread(fail_nth, text, sizeof(text) - 1, 0);

	CHECK(length > 0 || errno == EFAULT, "/proc/self/fail-nth: %s", strerror(errno));
	faults_arm(0);
	return length > 0 && atoi(text) == 0;
}

/* ---- the calls ---- */

static struct {
	int device, directory, region;
	unsigned int node;
	uint64_t pages;		/* of the node's reserve */
	char *start;
	pid_t child;
} s = { .device = -1, .directory = -1, .region = -1 };

struct operation {
	const char *name;
	void (*prepare)(void);
	int (*perform)(void);		/* with a fault to come: 0 or -errno */
	void (*undo)(void);		/* of a success */
	void (*look)(unsigned int nth);	/* after a failure, besides what is always looked at */
	int may_fail_with;		/* besides ENOMEM and EFAULT */
};

static void nothing(void)
{
}

static void open_device(void)
{
	s.device = device_open();
}

static int device(void)
{
	s.device = open(HUGEPIN_DEVICE, O_RDWR | O_CLOEXEC);
	return s.device < 0 ? -errno : 0;
}

static void close_device(void)
{
	close(s.device);
}

static int info(void)
{
	struct hugepin_info_pages pages[RESERVE_ENTRIES];
	struct hugepin_info args = { .size = sizeof(args), .pages = (uintptr_t)pages, .nr_pages = ARRAY_SIZE(pages) };

	return ioctl(s.device, HUGEPIN_IOC_INFO, &args) ? -errno : 0;
}

static int create_on(int fd, const char *name, uint64_t bytes, uint32_t classes)
{
	static uint64_t mask[HUGEPIN_NODES_MAX / 64];
	struct hugepin_create args = create_args(bytes, classes);
	struct hugepin_extent extents[8];

	mask[s.node / 64] = 1ULL << s.node % 64;
	args.nodemask = (uintptr_t)mask;
	args.nodemask_bits = s.node + 1;
	args.extents = (uintptr_t)extents;
	args.nr_extents = ARRAY_SIZE(extents);
	args.name = (uintptr_t)name;
	s.region = region_create(fd, &args);
	return s.region < 0 ? s.region : 0;
}

static void open_device_choose_2m(void)
{
	open_device();
	s.node = reserve_node_with(HUGEPIN_CLASS_2M, PAGES);
}

static void open_device_choose_1g(void)
{
	if (class_absent(HUGEPIN_CLASS_1G) || !reserve_free_class(HUGEPIN_CLASS_1G))
		ktap_skip("no 1G pages");
	open_device();
	s.node = reserve_node_with(HUGEPIN_CLASS_1G, 1);
}

static int create_2m(void)
{
	return create_on(s.device, NULL, BYTES, CLASS_2M);
}

static int create_mixed(void)
{
	return create_on(s.device, NULL, PAGE_1G + PAGE_2M, CLASS_1G | CLASS_2M);
}

static void close_region(void)
{
	close(s.region);
}

static void make_region(void)
{
	s.node = reserve_node_with(HUGEPIN_CLASS_2M, PAGES);
	s.region = region_make_on(s.node, BYTES, CLASS_2M);
}

static int info_of_region(void)
{
	struct hugepin_extent extents[8];
	struct hugepin_region_info args = {
		.size = sizeof(args), .extents = (uintptr_t)extents, .nr_extents = ARRAY_SIZE(extents),
	};

	return ioctl(s.region, HUGEPIN_IOC_REGION_INFO, &args) ? -errno : 0;
}

/* ---- names; the mount has a limit, so that what it holds can be seen ---- */

static uint64_t mount_free(void)
{
	struct statfs fs;

	CHECK_OK(fstatfs(s.directory, &fs));
	return fs.f_bfree;
}

static void mount_limited(void)
{
	char options[32];

	snprintf(options, sizeof(options), "limit_2m=%d", PAGES);
	s.node = reserve_node_with(HUGEPIN_CLASS_2M, PAGES);
	s.directory = fs_mount(options, NULL);
	CHECK_EQ(mount_free(), PAGES);
}

static int create_named(void)
{
	return create_on(s.directory, "emb0", BYTES, CLASS_2M);
}

static void remove_name(void)
{
	close(s.region);
	CHECK_OK(unlinkat(s.directory, "emb0", 0));
}

static void no_name_and_nothing_held(unsigned int nth)
{
	CHECK_ERRNO(faccessat(s.directory, "emb0", F_OK, 0), ENOENT);
	CHECK(mount_free() == PAGES, "after fault %u the mount has %" PRIu64 " of %d pages left", nth, mount_free(),
	      PAGES);
}

static void mount_with_name(void)
{
	mount_limited();
	CHECK_EQ(create_named(), 0);
	close(s.region);
}

static int open_name(void)
{
	s.region = openat(s.directory, "emb0", O_RDWR | O_CLOEXEC);
	return s.region < 0 ? -errno : 0;
}

static int mount_another(void)
{
	return mount("none", "/mnt", HUGEPIN_FS_NAME, 0, "limit_2m=7,mode=700") ? -errno : 0;
}

static void unmount(void)
{
	CHECK_OK(umount2("/mnt", 0));
}

/* ---- areas ---- */

static int map(void)
{
	s.start = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s.region, 0);
	return s.start == MAP_FAILED ? -errno : 0;
}

static void unmap(void)
{
	CHECK_OK(munmap(s.start, BYTES));
}

static void make_and_map(void)
{
	make_region();
	CHECK_EQ(map(), 0);
}

/* A page fault that lacks memory is tried again: it may take longer, but raises no signal. */
static int touch_all(void)
{
	uint64_t at;

	for (at = 0; at < BYTES; at += PAGE_2M)
		if (write_signal(s.start + at, 1))
			return -EIO;
	return 0;
}

static void forget_entries(void)
{
	unmap();
	CHECK_EQ(map(), 0);
}

static int unmap_half(void)
{
	return munmap(s.start, BYTES / 2) ? -errno : 0;
}

static int fork_with_area(void)
{
	s.child = fork();
	if (!s.child)
		_exit(write_signal(s.start, 2));
	return s.child < 0 ? -errno : 0;
}

static void join(void)
{
	ktap_join(s.child);
}

/* ---- the reserve's size ---- */

static void choose_size(void)
{
	s.node = reserve_node_with(HUGEPIN_CLASS_2M, PAGES);
	s.pages = knob_read(s.node, HUGEPIN_CLASS_2M, "nr_hugepages");
}

static int grow(void)
{
	return knob_write(s.node, HUGEPIN_CLASS_2M, "nr_hugepages", s.pages + PAGES);
}

static int shrink(void)
{
	return knob_write(s.node, HUGEPIN_CLASS_2M, "nr_hugepages", s.pages - PAGES);
}

static void size_as_before(void)
{
	CHECK_EQ(knob_write(s.node, HUGEPIN_CLASS_2M, "nr_hugepages", s.pages), 0);
}

/* A resize that fails keeps what it got. */
static void size_between(unsigned int nth)
{
	uint64_t now = knob_read(s.node, HUGEPIN_CLASS_2M, "nr_hugepages");

	CHECK(now + PAGES >= s.pages && now <= s.pages + PAGES, "after fault %u %" PRIu64 " pages, before %" PRIu64, nth,
	      now, s.pages);
	size_as_before();
}

static const struct operation operations[] = {
	{ "opening the device", nothing, device, close_device, NULL, 0 },
	{ "INFO", open_device, info, nothing, NULL, 0 },
	{ "CREATE", open_device_choose_2m, create_2m, close_region, NULL, 0 },
	{ "CREATE of 1G and 2M", open_device_choose_1g, create_mixed, close_region, NULL, 0 },
	{ "REGION_INFO", make_region, info_of_region, nothing, NULL, 0 },
	{ "CREATE with a name", mount_limited, create_named, remove_name, no_name_and_nothing_held, 0 },
	{ "opening a name", mount_with_name, open_name, close_region, NULL, 0 },
	{ "mounting", nothing, mount_another, unmount, NULL, 0 },
	{ "mmap", make_region, map, unmap, NULL, 0 },
	{ "the first touch", make_and_map, touch_all, forget_entries, NULL, 0 },
	{ "munmap of a half", make_and_map, unmap_half, forget_entries, NULL, 0 },
	{ "fork", make_and_map, fork_with_area, join, NULL, EAGAIN },
	{ "growing", choose_size, grow, size_as_before, size_between, 0 },
	{ "shrinking", choose_size, shrink, size_as_before, size_between, 0 },
};

/* ---- the rule ---- */

static int lowest_free_descriptor(void)
{
	int fd = CHECK_OK(dup(STDOUT_FILENO));

	close(fd);
	return fd;
}

/* Once, with fault @nth to come; whether it came. */
static bool once(const struct operation *op, unsigned int nth, unsigned int *failures)
{
	int descriptor = lowest_free_descriptor(), result;
	const char *changed;
	bool came;

	faults_arm(nth);
	result = op->perform();
	came = faults_disarm();
	if (result < 0) {
		CHECK(came, "without a fault: %s", strerror(-result));
		CHECK(result == -ENOMEM || result == -EFAULT || result == -op->may_fail_with, "fault %u: %s", nth,
		      strerror(-result));
		(*failures)++;
		if (op->look)
			op->look(nth);
	} else {
		op->undo();
	}
	changed = reserve_hooks.after();
	CHECK(!changed, "fault %u (the call answered %d): %s", nth, result, changed);
	CHECK(lowest_free_descriptor() == descriptor, "fault %u left a descriptor behind", nth);
	return came;
}

static void any_fault_in_it_leaves_no_trace(const void *arg)
{
	const struct operation *op = arg;
	unsigned int nth = 1, failures = 0;

	faults_open();
	op->prepare();
	reserve_hooks.before();
	while (once(op, nth, &failures))
		CHECK(++nth < FAULTS_MAX, "still a fault at the %dth", FAULTS_MAX);
	CHECK(nth > 1, "no fault came: nothing was tested");
	ktap_note("%s: %u faults, %u of them made it fail", op->name, nth - 1, failures);
}

int main(int argc, char **argv)
{
	static struct ktap_case cases[ARRAY_SIZE(operations)];
	struct ktap_hooks hooks = reserve_hooks;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(operations); i++)
		cases[i] = (struct ktap_case){
			.name = "any_fault_in_it_leaves_no_trace", .run = any_fault_in_it_leaves_no_trace,
			.arg = &operations[i], .variant = operations[i].name, .timeout_s = 300,
		};
	hooks.start = settings_make;
	hooks.restore = settings_restore;
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &hooks);
}
