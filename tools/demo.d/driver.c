// SPDX-License-Identifier: MIT
/*
 * The driver as the demo's client uses it: libcuda.so.1, loaded at run time as the library does. What is found must be
 * the stand-in of tests/loopback, and it must really pin: each registration is an open file of the test module.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demo.h"
#include "driver.h"
#include "loopback.h"
#include "uapi.h"

static struct loopback loopback;

const char *driver_begin(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context = NULL;
	int (*init)(unsigned int), (*device_get)(int *, int), (*retain)(void **, int);
	int device = 0;

	if (!driver)
		return "no libcuda.so.1 is found (LD_LIBRARY_PATH)";
	if (loopback_load(&loopback))
		return "the libcuda.so.1 that is found is not the stand-in of tests/loopback (LD_LIBRARY_PATH)";
	if (!loopback.pins_really())
		return "the stand-in driver cannot pin: " HUGEPIN_TEST_DEVICE " is not there";
	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&device_get = dlsym(driver, "cuDeviceGet");
	*(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	if (!init || !device_get || !retain)
		return "the stand-in driver lacks cuInit, cuDeviceGet or cuDevicePrimaryCtxRetain";
	if (init(0) || device_get(&device, 0) || retain(&context, device))
		return "the stand-in driver gives no context";
	return NULL;
}

uint64_t driver_registered_bytes(void)
{
	struct loopback_ledger ledger;

	loopback.ledger(&ledger);
	return ledger.live_bytes;
}

/* The driver does not tell them, the kernel does. */
int driver_descriptors(int *fds, unsigned int room)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		char target[sizeof(HUGEPIN_TEST_DEVICE) + 1];
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));

		if (length != sizeof(HUGEPIN_TEST_DEVICE) - 1 || memcmp(target, HUGEPIN_TEST_DEVICE, (size_t)length) != 0)
			continue;
		if (count == room) {
			closedir(dir);
			return -EMFILE;
		}
		fds[count++] = atoi(entry->d_name);
	}
	closedir(dir);
	return (int)count;
}
