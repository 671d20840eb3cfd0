// SPDX-License-Identifier: MIT
/* The calls that fault_test.c makes, what undoes each, and what else must be as before when one has failed. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "driver.h"
#include "fault.h"
#include "pinned.h"
#include "region.h"
#include "reserve.h"

#define PAGES		4
#define BYTES		(PAGES * PAGE_2M)
#define BASE_BYTES	(8 * PAGE_4K)	/* of memory of our own, to pin */

/* Of the call that is tested; each case has a process of its own. */
static struct {
	int device, directory, region, pin, buffer, driver;
	unsigned int node;
	uint64_t pages;		/* of the node's reserve */
	long long pinned;	/* base pages, by anybody */
	char *start;
	pid_t child;
} s;

static void nothing(void)
{
}

/* ---- the device and its regions ---- */

static int open_it(void)
{
	s.device = open(HUGEPIN_DEVICE, O_RDWR | O_CLOEXEC);
	return s.device < 0 ? -errno : 0;
}

static void close_device(void)
{
	close(s.device);
}

static void open_device(void)
{
	s.device = device_open();
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

static void choose_2m(void)
{
	open_device();
	s.node = reserve_node_with(HUGEPIN_CLASS_2M, PAGES);
}

static void choose_1g(void)
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

static int list(void)
{
	static struct hugepin_list_entry entries[8];
	struct hugepin_extent extents[16];
	struct hugepin_list args = {
		.size = sizeof(args), .entries = (uintptr_t)entries, .nr_entries = ARRAY_SIZE(entries),
		.entry_size = sizeof(entries[0]), .extents = (uintptr_t)extents, .nr_extents = ARRAY_SIZE(extents),
	};

	return ioctl(s.device, HUGEPIN_IOC_LIST, &args) ? -errno : 0;
}

static int list_users(void)
{
	struct hugepin_user_entry entries[8];
	struct hugepin_users args = {
		.size = sizeof(args), .entries = (uintptr_t)entries, .nr_entries = ARRAY_SIZE(entries),
		.entry_size = sizeof(entries[0]),
	};

	return ioctl(s.device, HUGEPIN_IOC_USERS, &args) ? -errno : 0;
}

static void make_region_open_device(void)
{
	make_region();
	open_device();
}

/* ---- names; the mount has limits, so that what it holds can be seen ---- */

static uint64_t mount_free(void)
{
	struct statfs fs;

	CHECK_OK(fstatfs(s.directory, &fs));
	return fs.f_bfree;
}

static void mount_limited(void)
{
	char options[32];

	snprintf(options, sizeof(options), "limit_1g=0,limit_2m=%d", PAGES);
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

static int rename_it(void)
{
	return renameat(s.directory, "emb0", s.directory, "emb1") ? -errno : 0;
}

static void rename_back(void)
{
	CHECK_OK(renameat(s.directory, "emb1", s.directory, "emb0"));
}

static void old_name_alone(unsigned int nth)
{
	CHECK(!faccessat(s.directory, "emb0", F_OK, 0), "fault %u: %s", nth, strerror(errno));
	CHECK_ERRNO(faccessat(s.directory, "emb1", F_OK, 0), ENOENT);
}

static int make_directory(void)
{
	return mkdirat(s.directory, "tables", 0700) ? -errno : 0;
}

static void remove_directory(void)
{
	CHECK_OK(unlinkat(s.directory, "tables", AT_REMOVEDIR));
}

static void no_directory(unsigned int nth)
{
	CHECK(faccessat(s.directory, "tables", F_OK, 0) && errno == ENOENT, "it is there after fault %u", nth);
}

static int mount_another(void)
{
	return mount("none", "/mnt", HUGEPIN_FS_NAME, 0, "limit_2m=7,mode=700") ? -errno : 0;
}

static int remount(void)
{
	return mount("none", "/mnt", HUGEPIN_FS_NAME, MS_REMOUNT, "limit_2m=9") ? -errno : 0;
}

static void mount_to_change(void)
{
	CHECK_EQ(mount_another(), 0);
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

static void map_afresh(void)
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

/* ---- pinned ranges and dma-bufs ---- */

/* Base pages that are pinned in the whole system. */
static long long pinned_pages(void)
{
	long long acquired = -1, released = -1;
	char line[128];
	FILE *file;

	CHECK_EQ(file_write("/proc/sys/vm/stat_refresh", "1"), 0);
	file = fopen("/proc/vmstat", "re");
	CHECK(file, "/proc/vmstat: %s", strerror(errno));
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "nr_foll_pin_acquired %lld", &acquired) != 1)
			sscanf(line, "nr_foll_pin_released %lld", &released);
	fclose(file);
	CHECK(acquired >= 0 && released >= 0, "/proc/vmstat does not count pins");
	return acquired - released;
}

static void open_device_and_touch(void)
{
	open_device();
	s.start = mmap(NULL, BASE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(s.start != MAP_FAILED, "%s", strerror(errno));
	s.pinned = pinned_pages();
}

static int pin(void)
{
	s.pin = pin_range(s.device, s.start, BASE_BYTES);
	return s.pin < 0 ? s.pin : 0;
}

static void unpin(void)
{
	close(s.pin);
	CHECK_EQ(pinned_pages(), s.pinned);
}

static void nothing_pinned(unsigned int nth)
{
	CHECK(pinned_pages() == s.pinned, "after fault %u %lld pages are pinned, before %lld", nth, pinned_pages(),
	      s.pinned);
}

static int export_region(void)
{
	s.buffer = export_try(s.region, 0, 0);
	return s.buffer < 0 ? s.buffer : 0;
}

static void close_buffer(void)
{
	close(s.buffer);
}

static void export_to_driver(void)
{
	s.driver = driver_open();
	make_region();
	CHECK_EQ(export_region(), 0);
}

/* In small entries, so that the table is of several parts. */
static int import(void)
{
	struct hugepin_test_import args = { .max_segment = 64 * KiB };

	return import_try(s.driver, s.buffer, &args) ? -errno : 0;
}

static void unmap_import(void)
{
	CHECK_OK(ioctl(s.driver, HUGEPIN_TEST_IOC_UNMAP));
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

	CHECK(now + PAGES >= s.pages && now <= s.pages + PAGES, "after fault %u %" PRIu64 " pages, before %" PRIu64,
	      nth, now, s.pages);
	size_as_before();
}

const struct fault_call fault_calls[] = {
	{ "opening the device", nothing, open_it, close_device, NULL, 0 },
	{ "INFO", open_device, info, nothing, NULL, 0 },
	{ "CREATE", choose_2m, create_2m, close_region, NULL, 0 },
	{ "CREATE of 1G and 2M", choose_1g, create_mixed, close_region, NULL, 0 },
	{ "REGION_INFO", make_region, info_of_region, nothing, NULL, 0 },
	{ "CREATE with a name", mount_limited, create_named, remove_name, no_name_and_nothing_held, 0 },
	{ "opening a name", mount_with_name, open_name, close_region, NULL, 0 },
	{ "rename", mount_with_name, rename_it, rename_back, old_name_alone, 0 },
	{ "mkdir", mount_limited, make_directory, remove_directory, no_directory, 0 },
	{ "mounting", nothing, mount_another, unmount, NULL, 0 },
	{ "remounting", mount_to_change, remount, nothing, NULL, 0 },
	{ "LIST", make_region_open_device, list, nothing, NULL, 0 },
	{ "USERS", make_region_open_device, list_users, nothing, NULL, 0 },
	{ "mmap", make_region, map, unmap, NULL, 0 },
	{ "the first touch", make_and_map, touch_all, map_afresh, NULL, 0 },
	{ "munmap of a half", make_and_map, unmap_half, map_afresh, NULL, 0 },
	{ "fork", make_and_map, fork_with_area, join, NULL, EAGAIN },
	{ "PIN", open_device_and_touch, pin, unpin, nothing_pinned, 0 },
	{ "EXPORT", make_region, export_region, close_buffer, NULL, 0 },
	/* EINVAL: the driver makes a device, which is what the core says where its name could not be had. */
	{ "importing a dma-buf", export_to_driver, import, unmap_import, NULL, EINVAL },
	{ "growing", choose_size, grow, size_as_before, size_between, 0 },
	{ "shrinking", choose_size, shrink, size_as_before, size_between, 0 },
};

const size_t fault_call_count = ARRAY_SIZE(fault_calls);
