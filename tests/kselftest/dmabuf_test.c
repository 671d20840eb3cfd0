// SPDX-License-Identifier: MIT
/* dma-bufs of regions and pinned ranges, as a device that imports them sees them, and as the processor maps them. */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dma-buf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "pinned.h"
#include "region.h"
#include "reserve.h"

#define BYTES	(4 * PAGE_2M)

static uint64_t in_use(unsigned int class)
{
	unsigned int nodes[64], count = reserve_nodes(nodes, 64), i;
	uint64_t sum = 0;

	for (i = 0; i < count; i++)
		sum += reserve_of(nodes[i], class).in_use;
	return sum;
}

static uint64_t quarantined(unsigned int class)
{
	unsigned int nodes[64], count = reserve_nodes(nodes, 64), i;
	uint64_t sum = 0;

	for (i = 0; i < count; i++)
		sum += reserve_of(nodes[i], class).quarantined;
	return sum;
}

struct expectation {
	unsigned int class;
	uint64_t pages;
};

static bool are_in_use(const struct reserve *reserve, const void *arg)
{
	const struct expectation *expected = arg;
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < reserve->info.nr_pages; i++)
		sum += reserve->pages[i].class == expected->class ? reserve->pages[i].in_use : 0;
	return sum == expected->pages;
}

static bool wait_in_use(unsigned int class, uint64_t pages)
{
	return reserve_wait(are_in_use, &(struct expectation){ class, pages });
}

/* The device's bytes are the processor's, both ways, at [@offset, @offset + @bytes) of the dma-buf. */
static void check_both_ways(int driver, char *start, uint64_t offset, uint64_t bytes, uint64_t seed)
{
	char *copy = malloc(bytes);

	CHECK(copy, "no memory");
	marks_write(start, offset, bytes, seed);
	CHECK_OK(device_io(driver, false, offset, copy, bytes));
	CHECK(!memcmp(copy, start, bytes), "the device reads other bytes");
	memset(copy, 0xdd, bytes);
	CHECK_OK(device_io(driver, true, offset, copy, bytes));
	CHECK(!memcmp(copy, start, bytes), "the device wrote elsewhere");
	free(copy);
}

static void check_region(uint64_t bytes, uint32_t classes)
{
	int fd = region_make(bytes, classes), driver = driver_open(), dmabuf = export_all(fd);
	char *start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE), byte;
	struct hugepin_test_import import = import_make(driver, dmabuf);

	CHECK_EQ(import.bytes, bytes);
	CHECK(import.entries <= bytes / PAGE_2M, "%llu entries", import.entries);
	CHECK_EQ(lseek(dmabuf, 0, SEEK_END), bytes);
	check_both_ways(driver, start, 0, PAGE_2M, 1);
	check_both_ways(driver, start + bytes - PAGE_2M, bytes - PAGE_2M, PAGE_2M, 2);
	CHECK_ERRNO(device_io(driver, false, bytes, &byte, 1), ERANGE);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNMAP));
	CHECK_ERRNO(ioctl(driver, HUGEPIN_TEST_IOC_UNMAP), ENODATA);
}

static void a_device_has_the_bytes_of_a_region(const void *arg)
{
	(void)arg;
	check_region(BYTES, CLASS_2M);
}

static void a_device_has_the_bytes_of_a_1g_page(const void *arg)
{
	(void)arg;
	if (class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has no 1G class");
	if (!reserve_free_class(HUGEPIN_CLASS_1G))
		ktap_skip("the reserve has no 1G page");
	check_region(PAGE_1G, CLASS_1G);
	check_region(PAGE_1G + PAGE_2M, CLASS_1G | CLASS_2M);
}

static void a_1g_page_is_one_entry(const void *arg)
{
	int driver = driver_open();
	struct hugepin_test_import import;

	(void)arg;
	if (class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has no 1G class");
	if (!reserve_free_class(HUGEPIN_CLASS_1G))
		ktap_skip("the reserve has no 1G page");
	import = import_make(driver, export_all(region_make(PAGE_1G, CLASS_1G)));
	CHECK_EQ(import.entries, 1);
	CHECK_EQ(import.largest, PAGE_1G);
}

static void entries_keep_the_device_s_limits(const void *arg)
{
	static const struct {
		uint32_t max_segment;
		uint64_t boundary, largest, entries;	/* 0: what the pages' neighbourhood makes it */
	} limits[] = {
		{ 0, 0, 64 * KiB, BYTES / (64 * KiB) },	/* what a device has that says nothing */
		{ PAGE_4K, 0, PAGE_4K, BYTES / PAGE_4K },
		{ 3 * PAGE_4K + 17, 0, 3 * PAGE_4K, 0 },
		{ MiB, 0, MiB, BYTES / MiB },
		{ UINT32_MAX, MiB, MiB, BYTES / MiB },
		{ 5 * MiB / 2, MiB, MiB, BYTES / MiB },
		{ 96 * KiB, 128 * KiB, 96 * KiB, BYTES / (64 * KiB) },
		{ UINT32_MAX, PAGE_4K, PAGE_4K, BYTES / PAGE_4K },
	};
	int dmabuf = export_all(region_make(BYTES, CLASS_2M)), driver = driver_open();
	struct hugepin_test_import import;
	unsigned int i;

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		import = (struct hugepin_test_import){
			.max_segment = limits[i].max_segment, .boundary = limits[i].boundary,
		};
		CHECK_OK(import_try(driver, dmabuf, &import));
		CHECK(import.largest == limits[i].largest, "limit %u: largest is %llu", i, import.largest);
		CHECK(import.bytes == BYTES, "limit %u: %llu bytes", i, import.bytes);
		CHECK(!limits[i].entries || import.entries == limits[i].entries, "limit %u: %llu entries", i,
		      import.entries);
		CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNMAP));
	}
	/* less than this memory can be cut into */
	import = (struct hugepin_test_import){ .max_segment = PAGE_4K - 1 };
	CHECK_ERRNO(import_try(driver, dmabuf, &import), EINVAL);
	import = (struct hugepin_test_import){ .boundary = 512 };
	CHECK_ERRNO(import_try(driver, dmabuf, &import), EINVAL);
	CHECK_OK(close(dmabuf));
}

static void a_part_is_exported(const void *arg)
{
	int fd = region_make(BYTES, CLASS_2M), driver = driver_open();
	struct hugepin_export export = { .size = sizeof(export), .offset = PAGE_2M };
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE), *part, byte;
	int dmabuf = CHECK_OK(export_try(fd, PAGE_2M, PAGE_2M));

	(void)arg;
	CHECK_EQ(import_make(driver, dmabuf).bytes, PAGE_2M);
	check_both_ways(driver, start + PAGE_2M, 0, PAGE_2M, 1);
	CHECK_ERRNO(device_io(driver, false, PAGE_2M, &byte, 1), ERANGE);
	CHECK_ZERO(start, PAGE_2M);
	CHECK_ZERO(start + 2 * PAGE_2M, 2 * PAGE_2M);
	part = region_map(dmabuf, 0, PAGE_2M, PROT_READ);
	CHECK(!memcmp(part, start + PAGE_2M, PAGE_2M), "the dma-buf maps other bytes");
	CHECK_ERRNO((long)mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED, dmabuf, PAGE_2M), EINVAL);
	CHECK_ERRNO((long)mmap(NULL, 2 * PAGE_2M, PROT_READ, MAP_SHARED, dmabuf, 0), EINVAL);
	/* length 0 is the rest, and is told */
	CHECK_OK(ioctl(fd, HUGEPIN_IOC_EXPORT, &export));
	CHECK_EQ(export.bytes, BYTES - PAGE_2M);
	CHECK_EQ(lseek(export.fd, 0, SEEK_END), BYTES - PAGE_2M);
	CHECK(fcntl(export.fd, F_GETFD) & FD_CLOEXEC, "kept across exec");
}

static void bad_requests_are_refused(const void *arg)
{
	static const struct {
		struct hugepin_export export;
		int error;
	} bad[] = {
		{ { .size = sizeof(struct hugepin_export) - 1 }, EINVAL },
		{ { .size = 0 }, EINVAL },
		{ { .size = PAGE_4K + 1 }, E2BIG },
		{ { .size = sizeof(struct hugepin_export), .flags = 1 }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .pad = 1 }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .offset = 1 }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .offset = PAGE_4K }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .offset = BYTES }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .offset = -PAGE_2M }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .bytes = PAGE_4K }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .bytes = BYTES + PAGE_2M }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .bytes = -PAGE_2M }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .offset = 2 * PAGE_2M, .bytes = -PAGE_2M }, EINVAL },
		{ { .size = sizeof(struct hugepin_export), .offset = 2 * PAGE_2M, .bytes = 3 * PAGE_2M }, EINVAL },
	};
	int directory = fs_mount(NULL, NULL), fd = region_create_named(directory, "emb", BYTES, 0644), device = device_open();
	struct hugepin_export *export = mmap(NULL, PAGE_4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct hugepin_export good = { .size = sizeof(good) };
	unsigned int i, next;

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		*export = bad[i].export;
		errno = 0;
		CHECK(ioctl(fd, HUGEPIN_IOC_EXPORT, export) == -1 && errno == bad[i].error, "request %u: %s", i,
		      strerror(errno));
	}
	CHECK_EQ(export_try(CHECK_OK(openat(directory, "emb", O_RDONLY)), 0, 0), -EBADF);
	CHECK_EQ(export_try(CHECK_OK(openat(directory, "emb", O_WRONLY)), 0, 0), -EBADF);
	CHECK_EQ(export_try(device, 0, 0), -ENOTTY);
	CHECK_EQ(export_try(directory, 0, 0), -ENOTTY);
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_EXPORT, NULL), EFAULT);
	/* it can be read, but not answered: nothing may be left, which the hooks see */
	*export = good;
	CHECK_OK(mprotect(export, PAGE_4K, PROT_READ));
	next = CHECK_OK(dup(device));
	close(next);
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_EXPORT, export), EFAULT);
	CHECK_EQ(dup(device), next);
}

/* ---- who lives how long ---- */

/* A client that makes a region, hands its dma-buf to our driver context and is killed. */
static void client_dies_exported(int driver, int directory, const char *name)
{
	struct channel channel = channel_open();
	pid_t child = ktap_fork();

	if (!child) {
		int fd = name ? region_create_named(directory, name, BYTES, 0) : region_make(BYTES, CLASS_2M);
		char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);

		marks_write(start, 0, BYTES, 5);
		import_make(driver, export_all(fd));
		channel_signal(&channel, 1);
		for (;;)
			pause();
	}
	channel_wait(&channel, 0);
	kill(child, SIGKILL);
	ktap_join_killed(child, SIGKILL);
}

static void check_device_holds(int driver, uint64_t before)
{
	char *copy = malloc(BYTES);

	CHECK(copy, "no memory");
	CHECK_EQ(in_use(HUGEPIN_CLASS_2M), before + BYTES / PAGE_2M);
	CHECK_EQ(quarantined(HUGEPIN_CLASS_2M), 0);
	CHECK_OK(device_io(driver, false, 0, copy, BYTES));
	CHECK_MARKS(copy, 0, BYTES, 5);
	CHECK_OK(device_io(driver, true, 0, copy, BYTES));
	free(copy);
}

static void a_killed_client_s_region_lives_until_the_device_lets_go(const void *arg)
{
	uint64_t before = in_use(HUGEPIN_CLASS_2M);
	int driver = driver_open();

	(void)arg;
	client_dies_exported(driver, -1, NULL);
	check_device_holds(driver, before);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNMAP));
	CHECK(wait_in_use(HUGEPIN_CLASS_2M, before), "still in use after the device let go");
	CHECK_EQ(quarantined(HUGEPIN_CLASS_2M), 0);
}

static void an_unlinked_region_lives_until_the_device_lets_go(const void *arg)
{
	uint64_t before = in_use(HUGEPIN_CLASS_2M);
	int directory = fs_mount(NULL, NULL), driver = driver_open();

	(void)arg;
	client_dies_exported(driver, directory, "emb");
	CHECK_OK(unlinkat(directory, "emb", 0));
	check_device_holds(driver, before);
	close(driver);		/* the last descriptor lets go as well */
	CHECK(wait_in_use(HUGEPIN_CLASS_2M, before), "still in use after the device let go");
}

static void a_dma_buf_alone_holds_its_region(const void *arg)
{
	uint64_t before = in_use(HUGEPIN_CLASS_2M);
	int fd = region_make(BYTES, CLASS_2M), dmabuf = export_all(fd), one = driver_open(), two = driver_open();
	char byte = 'x';

	(void)arg;
	close(fd);
	CHECK_EQ(in_use(HUGEPIN_CLASS_2M), before + BYTES / PAGE_2M);
	import_make(one, dmabuf);
	import_make(two, dmabuf);
	close(dmabuf);
	CHECK_OK(device_io(one, true, PAGE_2M, &byte, 1));
	byte = 0;
	CHECK_OK(device_io(two, false, PAGE_2M, &byte, 1));
	CHECK_EQ(byte, 'x');
	CHECK_OK(ioctl(one, HUGEPIN_TEST_IOC_UNMAP));
	CHECK_EQ(in_use(HUGEPIN_CLASS_2M), before + BYTES / PAGE_2M);
	CHECK_OK(ioctl(two, HUGEPIN_TEST_IOC_UNMAP));
	CHECK(wait_in_use(HUGEPIN_CLASS_2M, before), "still in use after the last device let go");
}

static void the_next_owner_sees_nothing_of_what_a_device_wrote(const void *arg)
{
	struct hugepin_create args;
	int driver = driver_open();
	uint64_t bytes;
	char *start;

	(void)arg;
	client_dies_exported(driver, -1, NULL);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNMAP));
	bytes = reserve_free_class(HUGEPIN_CLASS_2M) * PAGE_2M;
	args = create_args(bytes, CLASS_2M);
	start = region_map(CHECK_OK(region_create(device_open(), &args)), 0, bytes, PROT_READ);
	CHECK_ZERO(start, bytes);
}

/* ---- the processor's side ---- */

static char *map_at(int fd, char *where, uint64_t bytes)
{
	char *start = mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);

	CHECK(start == where, "%s", start == MAP_FAILED ? strerror(errno) : "elsewhere");
	return start;
}

static void a_dma_buf_is_mapped_in_huge_entries_where_aligned(const void *arg)
{
	int fd = region_make(BYTES, CLASS_2M), dmabuf = export_all(fd);
	char *region = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	char *start = map_at(dmabuf, address_hole(BYTES, PAGE_2M), BYTES);
	unsigned long faults = touch_faults(start, BYTES);

	(void)arg;
	CHECK(faults <= BYTES / PAGE_2M, "%lu faults", faults);
	marks_write(region, 0, BYTES, 1);
	CHECK_MARKS(start, 0, BYTES, 1);
	start[BYTES - 1] = 7;
	CHECK_EQ(region[BYTES - 1], 7);
}

static void a_dma_buf_is_mapped_in_small_entries_elsewhere(const void *arg)
{
	int fd = region_make(BYTES, CLASS_2M), dmabuf = export_all(fd);
	char *region = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	char *start = map_at(dmabuf, address_hole(BYTES, PAGE_2M) + 3 * PAGE_4K, BYTES);
	unsigned long faults = touch_faults(start, BYTES);

	(void)arg;
	CHECK(faults > BYTES / PAGE_2M, "%lu faults", faults);
	marks_write(region, 0, BYTES, 1);
	CHECK_MARKS(start, 0, BYTES, 1);
	marks_write(start, 0, BYTES, 2);
	CHECK_MARKS(region, 0, BYTES, 2);
	CHECK_ERRNO(munmap(start, PAGE_4K), EINVAL);		/* an area never ends inside a page */
	CHECK_OK(munmap(start, PAGE_2M));
	CHECK_MARKS(start + PAGE_2M, PAGE_2M, BYTES - PAGE_2M, 2);
	CHECK_OK(munmap(start + PAGE_2M, BYTES - PAGE_2M));
}

static void a_1g_page_s_dma_buf_is_mapped_anywhere(const void *arg)
{
	unsigned int shift[] = { 0, 5 };
	int fd, dmabuf, i;
	char *region;

	(void)arg;
	if (class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has no 1G class");
	if (!reserve_free_class(HUGEPIN_CLASS_1G))
		ktap_skip("the reserve has no 1G page");
	fd = region_make(PAGE_1G, CLASS_1G);
	dmabuf = export_all(fd);
	region = region_map(fd, 0, PAGE_1G, PROT_READ | PROT_WRITE);
	for (i = 0; i < 2; i++) {
		char *start = map_at(dmabuf, address_hole(PAGE_1G, PAGE_1G) + shift[i] * PAGE_4K, PAGE_1G);

		marks_write(region, 0, PAGE_1G, i + 1);
		CHECK_MARKS(start, 0, PAGE_1G, i + 1);
		/* moved over another address it could leave stale entries behind: refused as for the region */
		CHECK_ERRNO((long)mremap(start, PAGE_1G, PAGE_1G, MREMAP_MAYMOVE | MREMAP_FIXED,
					 address_hole(PAGE_1G, PAGE_1G)), EINVAL);
		CHECK_OK(munmap(start, PAGE_1G));
	}
}

static void a_mapping_outlives_dma_buf_and_region(const void *arg)
{
	uint64_t before = in_use(HUGEPIN_CLASS_2M);
	int fd = region_make(BYTES, CLASS_2M), dmabuf = export_all(fd);
	char *start = region_map(dmabuf, 0, BYTES, PROT_READ | PROT_WRITE);
	pid_t child;

	(void)arg;
	marks_write(start, 0, BYTES, 3);
	close(fd);
	close(dmabuf);
	CHECK_MARKS(start, 0, BYTES, 3);
	child = ktap_fork();
	if (!child) {		/* shared with a child, too */
		CHECK_MARKS(start, 0, BYTES, 3);
		start[17] = 9;
		ktap_exit();
	}
	ktap_join(child);
	CHECK_EQ(start[17], 9);
	CHECK_EQ(in_use(HUGEPIN_CLASS_2M), before + BYTES / PAGE_2M);
	CHECK_OK(munmap(start, BYTES));
	CHECK(wait_in_use(HUGEPIN_CLASS_2M, before), "still in use after the last mapping");
}

static void mappings_that_a_region_refuses_are_refused(const void *arg)
{
	int dmabuf = export_all(region_make(BYTES, CLASS_2M));
	char *start;

	(void)arg;
	CHECK_ERRNO((long)mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, dmabuf, 0), EINVAL);
	CHECK_ERRNO((long)mmap(NULL, PAGE_4K, PROT_READ, MAP_SHARED, dmabuf, 0), EINVAL);
	CHECK_ERRNO((long)mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED, dmabuf, PAGE_4K), EINVAL);
	CHECK_ERRNO((long)mmap(NULL, BYTES + PAGE_2M, PROT_READ, MAP_SHARED, dmabuf, 0), EINVAL);
	start = region_map(dmabuf, PAGE_2M, PAGE_2M, PROT_READ | PROT_WRITE);
	CHECK_ERRNO((long)mremap(start, PAGE_2M, 2 * PAGE_2M, MREMAP_MAYMOVE), EFAULT);
	CHECK_ZERO(start, PAGE_2M);
}

static void the_processor_s_access_is_synchronised(const void *arg)
{
	static const uint64_t directions[] = { DMA_BUF_SYNC_READ, DMA_BUF_SYNC_WRITE, DMA_BUF_SYNC_RW };
	int fd = region_make(BYTES, CLASS_2M), dmabuf = export_all(fd), one = driver_open(), two = driver_open();
	char *start = region_map(dmabuf, 0, BYTES, PROT_READ | PROT_WRITE);
	struct dma_buf_sync sync;
	unsigned int i;

	(void)arg;
	import_make(one, dmabuf);
	for (i = 0; i < ARRAY_SIZE(directions); i++) {
		sync.flags = DMA_BUF_SYNC_START | directions[i];
		CHECK_OK(ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync));
		check_both_ways(one, start, 0, PAGE_2M, i);
		sync.flags = DMA_BUF_SYNC_END | directions[i];
		CHECK_OK(ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync));
		if (i == 0)
			import_make(two, dmabuf);	/* then with two devices */
		if (i == 1)
			CHECK_OK(ioctl(one, HUGEPIN_TEST_IOC_UNMAP));
		if (i == 1)
			import_make(one, dmabuf);
	}
}

/* ---- pinned ranges ---- */

static char *anonymous(uint64_t bytes)
{
	char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	return start;
}

static void a_device_has_the_bytes_of_a_pinned_range(const void *arg)
{
	int device = device_open(), driver = driver_open(), pin, dmabuf;
	struct hugepin_test_import import = { .max_segment = 3 * PAGE_4K };
	char *start = anonymous(BYTES), *range = start + 5 * PAGE_4K, byte;
	uint64_t bytes = BYTES - 12 * PAGE_4K;

	(void)arg;
	CHECK_EQ(read_signal(range), 0);	/* the zero page, which must not be what is pinned */
	pin = CHECK_OK(pin_range(device, range, bytes));
	dmabuf = export_all(pin);
	CHECK_OK(import_try(driver, dmabuf, &import));
	CHECK_EQ(import.bytes, bytes);
	CHECK(import.largest <= 3 * PAGE_4K, "largest is %llu", import.largest);
	check_both_ways(driver, range, 0, bytes, 1);
	CHECK_ERRNO(device_io(driver, false, bytes, &byte, 1), ERANGE);
	CHECK_ERRNO((long)mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED, dmabuf, 0), EOPNOTSUPP);
	/* a part, at base pages */
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNMAP));
	import_make(driver, CHECK_OK(export_try(pin, 3 * PAGE_4K, 7 * PAGE_4K)));
	check_both_ways(driver, range + 3 * PAGE_4K, 0, 7 * PAGE_4K, 2);
	CHECK_EQ(export_try(pin, bytes, 0), -EINVAL);
	CHECK_EQ(export_try(pin, 0, bytes + PAGE_4K), -EINVAL);
	CHECK_EQ(export_try(pin, 17, 0), -EINVAL);
}

static void a_pinned_range_of_region_pages_shares_entries(const void *arg)
{
	int device = device_open(), driver = driver_open(), fd = region_make(BYTES, CLASS_2M), pin;
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);

	(void)arg;
	pin = CHECK_OK(pin_range(device, start + PAGE_4K, BYTES - 2 * PAGE_4K));
	CHECK(import_make(driver, export_all(pin)).entries <= BYTES / PAGE_2M, "pages were cut");
	check_both_ways(driver, start + PAGE_4K, 0, PAGE_2M, 1);
}

static void a_pinned_range_lives_until_the_device_lets_go(const void *arg)
{
	int driver = driver_open();
	char *copy = malloc(BYTES);
	pid_t child = ktap_fork();

	(void)arg;
	CHECK(copy, "no memory");
	if (!child) {
		char *start = anonymous(BYTES);
		int pin;

		marks_write(start, 0, BYTES, 5);
		pin = CHECK_OK(pin_range(device_open(), start, BYTES));
		import_make(driver, export_all(pin));
		CHECK_OK(close(pin));
		CHECK_OK(munmap(start, BYTES));
		memset(anonymous(BYTES), 0x33, BYTES);	/* whoever comes next on those addresses */
		kill(getpid(), SIGKILL);
	}
	ktap_join_killed(child, SIGKILL);
	memset(anonymous(2 * BYTES), 0x44, 2 * BYTES);
	CHECK_OK(device_io(driver, false, 0, copy, BYTES));
	CHECK_MARKS(copy, 0, BYTES, 5);
	CHECK_OK(device_io(driver, true, 0, copy, BYTES));
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNMAP));
	free(copy);
}

/* ---- a driver of the kernel's own that imports ---- */

/* Of the kernel's drm/drm.h, which comes with a package of its own. */
struct drm_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};

struct drm_gem_close {
	uint32_t handle, pad;
};

struct drm_prime_handle {
	uint32_t handle, flags;
	int32_t fd;
};

#define DRM_IOCTL_VERSION		_IOWR('d', 0x00, struct drm_version)
#define DRM_IOCTL_GEM_CLOSE		_IOW('d', 0x09, struct drm_gem_close)
#define DRM_IOCTL_PRIME_HANDLE_TO_FD	_IOWR('d', 0x2d, struct drm_prime_handle)
#define DRM_IOCTL_PRIME_FD_TO_HANDLE	_IOWR('d', 0x2e, struct drm_prime_handle)

/* vgem, a DRM driver without hardware, is in kernels with all drivers. */
static int vgem_open(void)
{
	char path[32], name[16] = "";
	struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };
	int i, fd;

	for (i = 0; i < 8; i++) {
		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !ioctl(fd, DRM_IOCTL_VERSION, &version) && !strcmp(name, "vgem"))
			return fd;
		close(fd);
		version.name_len = sizeof(name) - 1;
	}
	ktap_skip("no vgem here");
}

static void vgem_imports_it(const void *arg)
{
	uint64_t before = in_use(HUGEPIN_CLASS_2M);
	int vgem = vgem_open(), fd = region_make(BYTES, CLASS_2M), dmabuf = export_all(fd);
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	struct drm_prime_handle prime = { .fd = dmabuf };
	struct drm_gem_close gem = { 0 };

	(void)arg;
	marks_write(start, 0, BYTES, 4);
	CHECK_OK(ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime));
	CHECK_OK(munmap(start, BYTES));
	close(fd);
	close(dmabuf);
	CHECK_EQ(in_use(HUGEPIN_CLASS_2M), before + BYTES / PAGE_2M);
	/* out again: the dma-buf it is holding */
	prime.flags = O_CLOEXEC | O_RDWR;
	CHECK_OK(ioctl(vgem, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime));
	start = region_map(prime.fd, 0, BYTES, PROT_READ);
	CHECK_MARKS(start, 0, BYTES, 4);
	CHECK_OK(munmap(start, BYTES));
	close(prime.fd);
	gem.handle = prime.handle;
	CHECK_OK(ioctl(vgem, DRM_IOCTL_GEM_CLOSE, &gem));
	CHECK(wait_in_use(HUGEPIN_CLASS_2M, before), "still in use after vgem let go");
}

#define CASE(f)	{ .name = #f, .run = f, .timeout_s = 60 }

static const struct ktap_case cases[] = {
	CASE(a_device_has_the_bytes_of_a_region),
	CASE(entries_keep_the_device_s_limits),
	CASE(a_part_is_exported),
	CASE(bad_requests_are_refused),
	CASE(a_killed_client_s_region_lives_until_the_device_lets_go),
	CASE(an_unlinked_region_lives_until_the_device_lets_go),
	CASE(a_dma_buf_alone_holds_its_region),
	CASE(the_next_owner_sees_nothing_of_what_a_device_wrote),
	CASE(a_dma_buf_is_mapped_in_huge_entries_where_aligned),
	CASE(a_dma_buf_is_mapped_in_small_entries_elsewhere),
	CASE(a_mapping_outlives_dma_buf_and_region),
	CASE(mappings_that_a_region_refuses_are_refused),
	CASE(the_processor_s_access_is_synchronised),
	CASE(a_device_has_the_bytes_of_a_pinned_range),
	CASE(a_pinned_range_of_region_pages_shares_entries),
	CASE(a_pinned_range_lives_until_the_device_lets_go),
	CASE(vgem_imports_it),
	CASE(a_device_has_the_bytes_of_a_1g_page),
	CASE(a_1g_page_is_one_entry),
	CASE(a_1g_page_s_dma_buf_is_mapped_anywhere),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
