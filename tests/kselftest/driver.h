/* SPDX-License-Identifier: MIT */
/* The stand-in for device drivers (module/): /dev/hugepin_test as the self-tests use it. */
#ifndef HUGEPIN_KSELFTEST_DRIVER_H
#define HUGEPIN_KSELFTEST_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "module/uapi.h"

int driver_open(void);		/* a device context; skips the case without the module */
/* The device reads or writes what PIN or IMPORT holds; as an ioctl, 0 or -1. */
int device_io(int driver, bool write, uint64_t offset, void *buffer, uint64_t bytes);
struct hugepin_test_pages pages_of(int driver, const char *start, uint64_t bytes);

/* An importer of the dma-buf that takes all there is in one entry; or the case fails. */
struct hugepin_test_import import_make(int driver, int dmabuf);
/* As an ioctl, 0 or -1. */
int import_try(int driver, int dmabuf, struct hugepin_test_import *import);

#endif /* HUGEPIN_KSELFTEST_DRIVER_H */
