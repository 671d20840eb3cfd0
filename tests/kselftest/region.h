/* SPDX-License-Identifier: MIT */
/* Regions in the self-tests: making and mapping them, marking and checking bytes, touching what may not be there. */
#ifndef HUGEPIN_KSELFTEST_REGION_H
#define HUGEPIN_KSELFTEST_REGION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "ktap.h"
#include "uapi/hugepin.h"

#define KiB		1024ULL
#define MiB		(1ULL << 20)
#define GiB		(1ULL << 30)
#define PAGE_4K		4096ULL
#define PAGE_2M		(2 * MiB)
#define PAGE_1G		GiB
#define CLASS_2M	(1u << HUGEPIN_CLASS_2M)
#define CLASS_1G	(1u << HUGEPIN_CLASS_1G)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define NOBODY		65534

/* ---- making ---- */

/* A strict request for any node, with @extents (or NULL) and @shortfall (or NULL) wired up. */
struct hugepin_create create_args(uint64_t bytes, uint32_t classes);
/* The ioctl on @fd; the new descriptor or -errno. */
int region_create(int fd, struct hugepin_create *args);
int device_open(void);
/* An unnamed region, or the case fails; on any node, or on the one given. */
int region_make(uint64_t bytes, uint32_t classes);
int region_make_on(unsigned int node, uint64_t bytes, uint32_t classes);
struct hugepin_region_info region_info(int fd);
/* 2M pages, by name; the new descriptor or -errno. */
int region_create_named(int directory, const char *name, uint64_t bytes, unsigned int mode);

/* A hugepinfs in this case's mount namespace: an open directory and its path (valid until the next mount). */
int fs_mount(const char *options, const char **path);
/* As mount(2) on a fresh directory: 0 or -errno. */
int fs_try_mount(const char *options);

/* ---- mapping ---- */

char *region_map(int fd, uint64_t offset, uint64_t bytes, int protection);
/* An address range without anything in it, aligned; its whole surroundings of one alignment each side are free too. */
char *address_hole(uint64_t bytes, uint64_t alignment);
/* Page faults it takes to write one byte in each base page of the range. */
unsigned long touch_faults(char *start, uint64_t bytes);

/* ---- bytes ---- */

/*
 * Marks sit at every 4K near both ends and at every 2M in between, and depend on @seed and the offset. @base is the
 * offset in the region of @start, so that a part can be checked alone.
 */
void marks_write(char *start, uint64_t base, uint64_t bytes, uint64_t seed);
/* The first wrong offset, or -1. */
long long marks_wrong(const char *start, uint64_t base, uint64_t bytes, uint64_t seed);
/* The first offset that is not zero, or -1. Up to 64 MiB every byte is read, above that three words in each 4K. */
long long nonzero_at(const char *start, uint64_t bytes);

#define CHECK_MARKS(start, base, bytes, seed)	CHECK_EQ(marks_wrong(start, base, bytes, seed), -1)
#define CHECK_ZERO(start, bytes)		CHECK_EQ(nonzero_at(start, bytes), -1)

/* ---- touching: 0 or the signal that it raised ---- */
int read_signal(const char *address);
int write_signal(char *address, char value);

/* ---- processes ---- */

/* Runs the checks in a child that is another user (and its group), with what it inherits. */
void as_user(unsigned int uid, void (*check)(const void *arg), const void *arg);

/* A pair of one-byte channels between a parent and its child. */
struct channel {
	int ends[2];
};
struct channel channel_open(void);
void channel_signal(const struct channel *channel, int side);	/* side: 0 parent, 1 child */
void channel_wait(const struct channel *channel, int side);
void descriptor_send(const struct channel *channel, int side, int fd);
int descriptor_receive(const struct channel *channel, int side);

#endif /* HUGEPIN_KSELFTEST_REGION_H */
