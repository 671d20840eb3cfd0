/* SPDX-License-Identifier: GPL-2.0 */
/* Between driver.c, which serves the device, and import.c, which stands for an importer of dma-bufs. */
#ifndef HUGEPIN_TEST_DRIVER_H
#define HUGEPIN_TEST_DRIVER_H

#include <linux/mm_types.h>

#include "uapi.h"

struct import;

/*
 * Attaches a device of its own to the dma-buf and maps it for both directions. *@pages: kvmalloc()ed, the base pages
 * behind the DMA addresses in order, the caller's. Sets what @request says is out.
 */
struct import *import_begin(struct hugepin_test_import *request, struct page ***pages);
void import_end(struct import *import);

/* ---- mce.c ---- */
long poison(void __user *argument);

/* ---- refuse.c ---- */
void refuse_nothing(void);

#endif /* HUGEPIN_TEST_DRIVER_H */
