/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * hugepin_test: what the stand-in device driver of the self-tests understands. Never part of hugepin's own ABI.
 *
 * An open file of /dev/hugepin_test is a device context. It holds at most one set of references, which end with UNPIN
 * or with the last descriptor, whoever holds that by then: the process whose memory it is may long be gone; or else at
 * most one imported dma-buf, which ends with UNMAP or the last descriptor. Structs begin with their size, which must be
 * exactly the struct's; unknown flags are EINVAL.
 */
#ifndef HUGEPIN_TEST_UAPI_H
#define HUGEPIN_TEST_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define HUGEPIN_TEST_DEVICE	"/dev/hugepin_test"
#define HUGEPIN_TEST_BYTES_MAX	(64ULL << 30)	/* of one PIN, READ, WRITE or PAGES */

#define HUGEPIN_TEST_PIN_FAST	(1u << 0)	/* pin_user_pages_fast() instead of the slow walk under the mmap lock */
#define HUGEPIN_TEST_PIN_GET	(1u << 1)	/* a plain reference, which no pin count shows */
#define HUGEPIN_TEST_PIN_FLAGS	(HUGEPIN_TEST_PIN_FAST | HUGEPIN_TEST_PIN_GET)

/**
 * struct hugepin_test_pin - hold [@addr, @addr + @bytes) of the caller for a long time, for writing; all or nothing
 * @size:  in: sizeof(struct hugepin_test_pin)
 * @flags: in: HUGEPIN_TEST_PIN_*
 * @addr:  in: first byte
 * @bytes: in: length, > 0
 * @pages: out: base pages referenced
 * @runs:  out: physically contiguous runs they make
 *
 * EBUSY: this context holds something already. ERANGE: over HUGEPIN_TEST_BYTES_MAX. EINTR: a fatal signal came.
 */
struct hugepin_test_pin {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u64 bytes;
	__u64 pages;
	__u64 runs;
};

/**
 * struct hugepin_test_io - device access through what PIN or IMPORT holds (READ: to @buffer, WRITE: from @buffer)
 * @size:   in: sizeof(struct hugepin_test_io)
 * @flags:  in: 0
 * @offset: in: first byte, counted from PIN's @addr or in the dma-buf
 * @buffer: in: the caller's memory
 * @bytes:  in: length, > 0; ERANGE past the end of what is held
 */
struct hugepin_test_io {
	__u32 size;
	__u32 flags;
	__u64 offset;
	__u64 buffer;
	__u64 bytes;
};

/**
 * struct hugepin_test_pages - what backs [@addr, @addr + @bytes) of the caller; touches it, keeps nothing
 * @size:  in: sizeof(struct hugepin_test_pages)
 * @flags: in: 0
 * @addr:  in: first byte
 * @bytes: in: length, > 0
 * @runs:  out: physically contiguous runs
 * @refs:  out: references to the compound page at @addr, this call's own not counted
 * @order: out: order of the compound page at @addr
 * @node:  out: node of the page at @addr
 * @other: out: base pages of the range that are on another node than @node
 */
struct hugepin_test_pages {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u64 bytes;
	__u64 runs;
	__s64 refs;
	__u32 order;
	__u32 node;
	__u64 other;
};

/**
 * struct hugepin_test_import - attach a device to a dma-buf and map it for both directions
 * @size:        in: sizeof(struct hugepin_test_import)
 * @flags:       in: 0
 * @fd:          in: the dma-buf's descriptor
 * @max_segment: in: the device's largest segment in bytes, 0 for what devices have that say nothing (64 KiB)
 * @boundary:    in: a power of two, 4 GiB at most, that no segment may cross, 0 for what devices have (4 GiB)
 * @entries:     out: scatterlist entries, as DMA addresses
 * @largest:     out: bytes of the largest of them
 * @bytes:       out: bytes of all of them
 *
 * EBUSY: this context holds something already. EIO: the entries are not whole pages, or not the dma-buf's length.
 */
struct hugepin_test_import {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 max_segment;
	__u64 boundary;
	__u64 entries;
	__u64 largest;
	__u64 bytes;
};

/* hugepin_test_poison.flags */
#define HUGEPIN_TEST_POISON_FIND	(1u << 0)	/* only tell @pfn */

/**
 * struct hugepin_test_poison - tell the kernel of an uncorrected memory error, as the machine-check code does
 * @size:  in: sizeof(struct hugepin_test_poison)
 * @flags: in: HUGEPIN_TEST_POISON_*
 * @addr:  in: with FIND, an address of the caller's memory
 * @pfn:   out with FIND, else in: the base page
 *
 * Those who listen to machine checks hear of it before the call returns or soon after; the kernel itself does nothing
 * about the page. EOPNOTSUPP: a kernel without X86_MCE.
 */
struct hugepin_test_poison {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u64 pfn;
};

#define HUGEPIN_TEST_IOC_PIN	_IO('h', 0xc0)
#define HUGEPIN_TEST_IOC_READ	_IO('h', 0xc1)
#define HUGEPIN_TEST_IOC_WRITE	_IO('h', 0xc2)
#define HUGEPIN_TEST_IOC_UNPIN	_IO('h', 0xc3)	/* no argument; ENODATA when nothing is held */
#define HUGEPIN_TEST_IOC_PAGES	_IO('h', 0xc4)
#define HUGEPIN_TEST_IOC_IMPORT	_IO('h', 0xc5)
#define HUGEPIN_TEST_IOC_UNMAP	_IO('h', 0xc6)	/* no argument; ENODATA when nothing is imported */

#define HUGEPIN_TEST_IOC_POISON	_IO('h', 0xc7)

#endif /* HUGEPIN_TEST_UAPI_H */
