/* SPDX-License-Identifier: MIT */
/* PIN and EXPORT as calls of the self-tests. */
#ifndef HUGEPIN_KSELFTEST_PINNED_H
#define HUGEPIN_KSELFTEST_PINNED_H

#include <stdint.h>
#include <sys/ioctl.h>

#include "ktap.h"
#include "uapi/hugepin.h"

/* The new descriptor or -errno. */
static inline int pin_try(int device, struct hugepin_pin_range *pin)
{
	pin->size = sizeof(*pin);
	return ioctl(device, HUGEPIN_IOC_PIN, pin) ? -errno : pin->fd;
}

static inline int pin_range(int device, const void *start, uint64_t bytes)
{
	struct hugepin_pin_range pin = { .addr = (uintptr_t)start, .bytes = bytes };

	return pin_try(device, &pin);
}

static inline int export_try(int fd, uint64_t offset, uint64_t bytes)
{
	struct hugepin_export export = { .size = sizeof(export), .offset = offset, .bytes = bytes };

	return ioctl(fd, HUGEPIN_IOC_EXPORT, &export) ? -errno : export.fd;
}

static inline int export_all(int fd)
{
	int dmabuf = export_try(fd, 0, 0);

	if (dmabuf < 0)
		ktap_fail_here("EXPORT: %s", strerror(-dmabuf));
	return dmabuf;
}

#endif /* HUGEPIN_KSELFTEST_PINNED_H */
