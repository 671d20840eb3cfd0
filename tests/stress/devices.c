// SPDX-License-Identifier: MIT
/* What devices do to regions: the stand-in driver (tests/kselftest/module) pins and imports, and reads and writes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kmod/uapi/hugepin.h"
#include "stress.h"
#include "tests/kselftest/module/uapi.h"

static int driver_open(void)
{
	int fd = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		fail(HUGEPIN_TEST_DEVICE ": %s", strerror(errno));
	return fd;
}

/* What the device reads is what was planted. */
static void device_check(int driver, uint64_t bytes, uint64_t seed, const char *what)
{
	static char buffer[PAGE_2M];
	struct hugepin_test_io io = { .size = sizeof(io), .buffer = (uintptr_t)buffer, .bytes = sizeof(buffer) };

	for (io.offset = 0; io.offset < bytes; io.offset += io.bytes) {
		if (ioctl(driver, HUGEPIN_TEST_IOC_READ, &io))
			fail("the device cannot read: %s", strerror(errno));
		check_bytes(buffer, io.offset, io.bytes, seed, what);
	}
}

static int export_of(int fd)
{
	struct hugepin_export args = { .size = sizeof(args) };

	if (ioctl(fd, HUGEPIN_IOC_EXPORT, &args))
		fail("EXPORT: %s", strerror(errno));
	return args.fd;
}

/* A dma-buf of a region, or of a pinned range of it, read by a device when all else has been closed. */
void pin_and_export(unsigned int which)
{
	unsigned int pages = 1 + chance_of(3);
	uint64_t bytes = pages * PAGE_2M, seed = getpid() * 31ULL + chance_of(1000);
	int device = open(HUGEPIN_DEVICE, O_RDWR | O_CLOEXEC), fd = make_region(device, NULL, pages, 1), dmabuf;
	int driver = driver_open();
	struct hugepin_pin_range pin = { .size = sizeof(pin), .bytes = bytes };
	struct hugepin_test_import import = { .size = sizeof(import), .max_segment = PAGE_2M };
	char *start;

	(void)which;
	if (fd < 0)
		goto out;
	start = map_all(fd, bytes);
	plant_bytes(start, 0, bytes, seed);
	if (chance_of(2)) {
		pin.addr = (uintptr_t)start;
		if (ioctl(device, HUGEPIN_IOC_PIN, &pin))
			fail("PIN: %s", strerror(errno));
		dmabuf = export_of(pin.fd);
		close(pin.fd);
	} else {
		dmabuf = export_of(fd);
	}
	munmap(start, bytes);
	close(fd);
	import.fd = dmabuf;
	if (ioctl(driver, HUGEPIN_TEST_IOC_IMPORT, &import))
		fail("IMPORT: %s", strerror(errno));
	close(dmabuf);
	device_check(driver, bytes, seed, "what a dma-buf holds");
out:
	close(driver);
	close(device);
}

/* The device's pins outlive the region: its pages are nobody else's until they end. */
void hold_past_the_end(unsigned int which)
{
	uint64_t seed = getpid() * 77ULL + chance_of(1000);
	int device = open(HUGEPIN_DEVICE, O_RDWR | O_CLOEXEC), fd = make_region(device, NULL, 1, 1);
	int driver = driver_open();
	struct hugepin_test_pin pin = { .size = sizeof(pin), .flags = chance_of(4), .bytes = PAGE_2M };
	char *start;

	(void)which;
	if (fd >= 0) {
		start = map_all(fd, PAGE_2M);
		plant_bytes(start, 0, PAGE_2M, seed);
		pin.addr = (uintptr_t)start;
		if (ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin))
			fail("the device cannot pin: %s", strerror(errno));
		munmap(start, PAGE_2M);
		close(fd);
		usleep(chance_of(50000));
		device_check(driver, PAGE_2M, seed, "a page in quarantine");
	}
	close(driver);
	close(device);
}
