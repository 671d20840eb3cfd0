/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for the hugepin module, for tests of the library: the system calls that would reach it are wrapped (see
 * loopback.mk) and answered here. Regions are files of ordinary memory; a temporary directory is the mount of
 * hugepinfs.
 */
#ifndef HUGEPIN_TESTS_FAKE_MODULE_H
#define HUGEPIN_TESTS_FAKE_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../kmod/uapi/hugepin.h"

#define FAKE_NODES	4

struct fake_module {
	char mount[64];				/* the directory; "" while there is none */
	int device_err;				/* of opening the device: 0, -ENOENT, -EACCES */
	bool device_is_dumb;			/* opens, and knows no ioctl */
	uint32_t absent[HUGEPIN_CLASS_COUNT];
	uint64_t free[FAKE_NODES][HUGEPIN_CLASS_COUNT];
	int create_err;				/* refuse every CREATE, with this shortfall */
	struct hugepin_shortfall shortfall;
	uint32_t features;			/* HUGEPIN_FEATURE_*; 0 at first */
	int pin_err, export_err;		/* refuse every PIN, every EXPORT */
	unsigned int pin_interrupts;		/* so many PINs are interrupted first */
	uint64_t pin_held, pin_limit;		/* numbers of a refusal */
	char sysfs[64];				/* what stands for /sys/class/misc/hugepin; "": the real one */
	int knob_write_err;

	bool can_list;				/* LIST and USERS; false at first, as an older module */
	int list_err;				/* refuse LIST and USERS */
	unsigned int lists;			/* calls of LIST; each gives two regions at most */

	/* what was asked last */
	struct hugepin_create create;
	uint64_t create_nodes;			/* the first word of its mask */
	char create_name[HUGEPIN_NAME_MAX + 1];
	unsigned int creates;
	struct hugepin_pin_range pin;
	struct hugepin_export export;
	unsigned int pins;
};

extern struct fake_module fake;

void fake_module_load(void);			/* device and mount, 4 x 1G and 512 x 2M free on node 0 */
void fake_module_unload(void);			/* no device, no mount, and the directory is gone */

unsigned int fake_pins_open(void);		/* descriptors of pins that this process has */

/* @count nodes with memory and CPUs, 0 on, in the place of the machine's. */
struct hugepin_context;
void fake_topology(struct hugepin_context *ctx, unsigned int count);
/* A context with an option set, NULL NULL at the end: fake_context("runtime", "none", NULL). Asserts that it works. */
struct hugepin_context *fake_context(const char *key, ...);

#endif /* HUGEPIN_TESTS_FAKE_MODULE_H */
