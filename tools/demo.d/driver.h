/* SPDX-License-Identifier: MIT */
/* driver.c: the accelerator's driver as a client uses it, and what the stand-in tells beyond the driver's calls. */
#ifndef HUGEPIN_DEMO_DRIVER_H
#define HUGEPIN_DEMO_DRIVER_H

#include <stdint.h>

/* What a CUDA program does first: initialises the driver and makes a context. NULL, or what went wrong; static text. */
const char *driver_begin(void);
/* Bytes that are registered now, by the driver's own books. */
uint64_t driver_registered_bytes(void);
/* The descriptors that hold the pins: their number, @room at most; borrowed. -errno. */
int driver_descriptors(int *fds, unsigned int room);

#endif /* HUGEPIN_DEMO_DRIVER_H */
