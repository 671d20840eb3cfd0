// SPDX-License-Identifier: MIT
/*
 * The stand-in CUDA driver: keeping pages where they are. With the self-tests' module this is what a GPU's driver does,
 * a long-term pin for writing, one open file a registration; elsewhere the pages are locked.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../kselftest/module/uapi.h"
#include "driver.h"

#define HANDLE_LOCKED	0x7fffffff	/* instead of a descriptor */

bool pin_is_real(void)
{
	return !access(HUGEPIN_TEST_DEVICE, R_OK | W_OK);
}

/* The driver takes whole pages around an unaligned range. */
static void whole_pages(void **addr, uint64_t *bytes)
{
	uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, begin = (uintptr_t)*addr & ~mask;

	*bytes = (((uintptr_t)*addr + *bytes + mask) & ~mask) - begin;
	*addr = (void *)begin;
}

/* Not by libc's functions: the sanitizers put ones that do nothing in their place. */
static int lock_pages(const void *addr, uint64_t bytes)
{
	return (int)syscall(SYS_mlock, addr, bytes);
}

static void unlock_pages(const void *addr, uint64_t bytes)
{
	syscall(SYS_munlock, addr, bytes);
}

static CUresult to_code(int error, void *addr, uint64_t bytes)
{
	/* Memory that is not there, or cannot be pinned; mlock says ENOMEM for a hole as for its limit. */
	if (error == EFAULT || error == EINVAL || error == EPERM || error == EOPNOTSUPP)
		return CUDA_ERROR_INVALID_VALUE;
	if (error == ENOMEM && msync(addr, bytes, MS_ASYNC) && errno == ENOMEM)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static int pin_by_module(void *addr, uint64_t bytes, CUresult *code)
{
	struct hugepin_test_pin pin = { .size = sizeof(pin), .addr = (uintptr_t)addr, .bytes = bytes };
	int fd = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		*code = CUDA_ERROR_OUT_OF_MEMORY;
		return -1;
	}
	if (!ioctl(fd, HUGEPIN_TEST_IOC_PIN, &pin))
		return fd;
	*code = to_code(errno, addr, bytes);
	close(fd);
	return -1;
}

int pin_begin(void *addr, uint64_t bytes, CUresult *code)
{
	whole_pages(&addr, &bytes);
	if (pin_is_real())
		return pin_by_module(addr, bytes, code);
	if (!lock_pages(addr, bytes))
		return HANDLE_LOCKED;
	*code = to_code(errno, addr, bytes);
	unlock_pages(addr, bytes);
	return -1;
}

/* Pages that two locked ranges share are unlocked with the first: good enough where nothing is really pinned. */
void pin_end(int handle, void *addr, uint64_t bytes)
{
	whole_pages(&addr, &bytes);
	if (handle == HANDLE_LOCKED)
		unlock_pages(addr, bytes);
	else
		close(handle);
}
