// SPDX-License-Identifier: MIT
/* The stand-in for device drivers in the self-tests; see driver.h. */
#include <fcntl.h>
#include <sys/ioctl.h>

#include "driver.h"
#include "ktap.h"

int driver_open(void)
{
	int fd = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		ktap_skip("the test module is not loaded");
	CHECK(fd >= 0, "%s: %s", HUGEPIN_TEST_DEVICE, strerror(errno));
	return fd;
}

int device_io(int driver, bool write, uint64_t offset, void *buffer, uint64_t bytes)
{
	struct hugepin_test_io io = {
		.size = sizeof(io), .offset = offset, .buffer = (uintptr_t)buffer, .bytes = bytes,
	};

	return ioctl(driver, write ? HUGEPIN_TEST_IOC_WRITE : HUGEPIN_TEST_IOC_READ, &io);
}

struct hugepin_test_pages pages_of(int driver, const char *start, uint64_t bytes)
{
	struct hugepin_test_pages pages = { .size = sizeof(pages), .addr = (uintptr_t)start, .bytes = bytes };

	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PAGES, &pages));
	return pages;
}

int import_try(int driver, int dmabuf, struct hugepin_test_import *import)
{
	import->size = sizeof(*import);
	import->fd = dmabuf;
	return ioctl(driver, HUGEPIN_TEST_IOC_IMPORT, import);
}

struct hugepin_test_import import_make(int driver, int dmabuf)
{
	struct hugepin_test_import import = { .max_segment = UINT32_MAX };

	CHECK_OK(import_try(driver, dmabuf, &import));
	return import;
}
