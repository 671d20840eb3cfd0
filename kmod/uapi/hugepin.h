/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * hugepin: the contract between the kernel module and user space.
 *
 * Every struct begins with its own size. A caller sets @size to the size it was compiled with; the module accepts any
 * size from the first version's on, reads what is missing as zero and refuses (E2BIG) bytes it does not know unless
 * they are zero. Unknown flags and non-zero padding are refused (EINVAL). New members are added at the end only.
 * Pointers travel as __u64. Nothing here depends on the word size of the caller.
 *
 * What errno means, for every call on hugepin's descriptors and files:
 *
 *   EINVAL      an argument is malformed: unknown flag, non-zero padding, zero or unaligned size, unknown class or
 *               policy, a name with a slash, a number that does not parse
 *   E2BIG       the struct is longer than the module knows and its tail is not zero
 *   EFAULT      a pointer cannot be read or written
 *   ENODEV      a node in the mask does not exist, or has no memory the module manages
 *   EOPNOTSUPP  the class is absent on this kernel (INFO and the kernel log say why); memory of a kind that cannot be
 *               pinned for long (PIN: a DAX file)
 *   EOVERFLOW   a range that wraps
 *   ENOMEM      not enough free pages where they may come from (@shortfall tells), or no memory for bookkeeping
 *   EDQUOT      over the share of a user, the limit of a mount or a cgroup (@shortfall tells) or RLIMIT_MEMLOCK (PIN)
 *   ERANGE      more than the node could ever hold, or than a knob's range
 *   EBUSY       reserve pages cannot be given back, since they are in use; a page cannot be moved to where it may stay
 *               pinned (PIN)
 *   EHWPOISON   a page of the range is faulty (PIN)
 *   EEXIST      the name exists
 *   ENAMETOOLONG  the name is longer than HUGEPIN_NAME_MAX
 *   ENOSPC      the mount has as many names as it may have (nr_names=)
 *   EMSGSIZE    an array that the caller gave has no room for the next entry (LIST)
 *   EACCES, EPERM, EROFS  the file system's usual answers; EACCES also for a name on a mount with nodev
 *   EBADF       the device (CREATE, PIN) is not open for writing, a region (EXPORT) not for reading and writing
 *   EMFILE, ENFILE  no descriptor left
 *   EINTR       a fatal signal (CREATE, PIN, LIST) or any signal (knobs) came; what the call says of partial results
 *               holds
 *   ENOTTY      no such call on this descriptor
 */
#ifndef _UAPI_HUGEPIN_H
#define _UAPI_HUGEPIN_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define HUGEPIN_UAPI_VERSION	1
#define HUGEPIN_DEVICE		"/dev/hugepin"
#define HUGEPIN_FS_NAME		"hugepinfs"
#define HUGEPIN_FS_MAGIC	0x48504e46	/* "HPNF", statfs.f_type */
#define HUGEPIN_NAME_MAX	255		/* bytes of a name, without the NUL */
#define HUGEPIN_NODES_MAX	1024		/* bits of a node mask that may be given */

/* Page size classes; a set of them is an OR of 1 << class. */
#define HUGEPIN_CLASS_2M	0
#define HUGEPIN_CLASS_1G	1
#define HUGEPIN_CLASS_COUNT	2

/* Why a class is absent (hugepin_info.absent[class]). */
#define HUGEPIN_ABSENT_NOT	0	/* it is there */
#define HUGEPIN_ABSENT_KERNEL	1	/* this kernel cannot map or pin such pages safely */
#define HUGEPIN_ABSENT_PARAM	2	/* switched off by a module parameter */
#define HUGEPIN_ABSENT_SELFTEST	3	/* the self-test with the first such page objected */

/**
 * struct hugepin_info_pages - one node's pages of one class, a snapshot
 * @node:        node id
 * @class:       HUGEPIN_CLASS_*
 * @asked:       what was last asked for, in pages
 * @total:       pages held; clean + dirty + in_use + quarantined + poisoned
 * @clean:       free and zeroed
 * @dirty:       free, to be zeroed (being zeroed included)
 * @in_use:      in regions
 * @quarantined: their region is gone, somebody still holds a reference
 * @poisoned:    faulty, never used again
 */
struct hugepin_info_pages {
	__u32 node;
	__u32 class;
	__u64 asked;
	__u64 total;
	__u64 clean;
	__u64 dirty;
	__u64 in_use;
	__u64 quarantined;
	__u64 poisoned;
};

/* hugepin_info.features */
#define HUGEPIN_FEATURE_PIN	(1u << 0)	/* HUGEPIN_IOC_PIN */
#define HUGEPIN_FEATURE_DMABUF	(1u << 1)	/* HUGEPIN_IOC_EXPORT */
#define HUGEPIN_FEATURE_LIST	(1u << 2)	/* HUGEPIN_IOC_LIST, HUGEPIN_IOC_USERS, REGION_INFO's @id and after */

/**
 * struct hugepin_info - what the module is and holds (HUGEPIN_IOC_INFO)
 * @size:     in: sizeof(struct hugepin_info)
 * @flags:    in: 0
 * @version:  out: HUGEPIN_UAPI_VERSION of the module
 * @features: out: HUGEPIN_FEATURE_*
 * @absent:   out: HUGEPIN_ABSENT_* for each class
 * @regions:  out: regions alive, with or without a name
 * @pages:    in: array of struct hugepin_info_pages, or 0
 * @nr_pages: in: entries @pages has room for; out: entries there are. Only the smaller number is written.
 * @pad:      in: 0
 *
 * Each entry is one snapshot: its states add up to its total.
 */
struct hugepin_info {
	__u32 size;
	__u32 flags;
	__u32 version;
	__u32 features;
	__u32 absent[HUGEPIN_CLASS_COUNT];
	__u64 regions;
	__u64 pages;
	__u32 nr_pages;
	__u32 pad;
};

/* hugepin_create.flags */
#define HUGEPIN_CREATE_FALLBACK	(1u << 0)	/* 2M pages where 1G pages are short, uneven shares where a node is */
#define HUGEPIN_CREATE_FLAGS	HUGEPIN_CREATE_FALLBACK

/* hugepin_create.policy */
#define HUGEPIN_POLICY_BIND		0	/* only the nodes in the mask, nearest to the caller's CPU first */
#define HUGEPIN_POLICY_INTERLEAVE	1	/* the nodes in the mask in turn, page by page */
#define HUGEPIN_POLICY_PREFERRED	2	/* the nodes in the mask first, then all others, nearest first */

/* hugepin_shortfall.reason */
#define HUGEPIN_SHORT_NOT		0	/* nothing was short */
#define HUGEPIN_SHORT_FREE		1	/* free pages of @class (@node: HUGEPIN_NODE_ANY: over the mask) */
#define HUGEPIN_SHORT_USER		2	/* the user's share on @node */
#define HUGEPIN_SHORT_MOUNT		3	/* the mount's limit */
#define HUGEPIN_SHORT_CGROUP		4	/* dmem.max of the caller's cgroup or one above */
#define HUGEPIN_NODE_ANY		(~0u)

/**
 * struct hugepin_shortfall - why a CREATE failed with ENOMEM or EDQUOT, all counts in pages of @class
 * @reason:    HUGEPIN_SHORT_*
 * @class:     HUGEPIN_CLASS_*
 * @node:      node id or HUGEPIN_NODE_ANY
 * @pad:       0
 * @asked:     pages this call wanted of @class (there)
 * @available: free pages of @class there when it was refused
 * @limit:     the limit hit, for _USER and _MOUNT; the cgroup's are in its dmem.max and dmem.current
 * @held:      what the user or mount held already
 */
struct hugepin_shortfall {
	__u32 reason;
	__u32 class;
	__u32 node;
	__u32 pad;
	__u64 asked;
	__u64 available;
	__u64 limit;
	__u64 held;
};

/**
 * struct hugepin_extent - pages of one node and class that a region has
 * @node: node id, @class: HUGEPIN_CLASS_*, @pages: how many
 */
struct hugepin_extent {
	__u32 node;
	__u32 class;
	__u64 pages;
};

/**
 * struct hugepin_create - make a region (HUGEPIN_IOC_CREATE on /dev/hugepin or on an open directory of hugepinfs)
 * @size:          in: sizeof(struct hugepin_create)
 * @flags:         in: HUGEPIN_CREATE_*
 * @bytes:         in: length wanted, > 0; out: length got, rounded up to the smallest class allowed
 * @classes:       in: set of classes allowed, OR of 1 << HUGEPIN_CLASS_*; with both the largest goes first and the
 *                 rest is made of 2M pages
 * @policy:        in: HUGEPIN_POLICY_*
 * @nodemask:      in: array of __u64 words, bit n of word w is node 64 * w + n; 0 for every node with memory
 * @nodemask_bits: in: bits in @nodemask, at most HUGEPIN_NODES_MAX; a set bit for a node without memory is ENODEV
 * @mode:          in: permission bits for the inode (0777 at most), 0 for 0600; the umask applies to names
 * @name:          in: NUL-terminated name in the directory, or 0 for a region that dies with its last user. Only on a
 *                 directory.
 * @extents:       in: array of struct hugepin_extent to fill with what was got, or 0
 * @nr_extents:    in: entries @extents has room for, of no matter when that is 0; out: entries there are
 * @fd:            out: descriptor, open for reading and writing, close-on-exec
 * @shortfall:     in: struct hugepin_shortfall to fill when the call fails with ENOMEM or EDQUOT, or 0
 *
 * All or nothing. Pages are zero. What is missing in clean pages is zeroed by the call itself, which takes time and can
 * be killed (nothing held). The length is part of the region for good.
 */
struct hugepin_create {
	__u32 size;
	__u32 flags;
	__u64 bytes;
	__u32 classes;
	__u32 policy;
	__u64 nodemask;
	__u32 nodemask_bits;
	__u32 mode;
	__u64 name;
	__u64 extents;
	__u32 nr_extents;
	__s32 fd;
	__u64 shortfall;
};

/**
 * struct hugepin_region_info - what a region is made of (HUGEPIN_IOC_REGION_INFO on a region's descriptor)
 * @size:       in: sizeof(struct hugepin_region_info)
 * @flags:      in: 0
 * @bytes:      out: length
 * @bytes_1g:   out: how much of it, from offset 0 on, is made of 1G pages; the rest is 2M pages
 * @extents:    in: array of struct hugepin_extent, or 0
 * @nr_extents: in: entries @extents has room for, of no matter when that is 0; out: entries there are
 * @uid:        out: owner charged for it, in the caller's user namespace
 * @created_ns: out: CLOCK_REALTIME when it was made
 * @id:         out: as in struct hugepin_list_entry, and so are the ones below
 * @used_ns:    out: CLOCK_REALTIME of the last open or mapping
 * @mappings:   out: areas that map it
 * @opens:      out: open files of it
 * @held_bytes: out: bytes of its pages that somebody holds besides
 * @refs:       out: references that makes
 *
 * From @id on: 0 where INFO lacks HUGEPIN_FEATURE_LIST.
 */
struct hugepin_region_info {
	__u32 size;
	__u32 flags;
	__u64 bytes;
	__u64 bytes_1g;
	__u64 extents;
	__u32 nr_extents;
	__u32 uid;
	__u64 created_ns;
	__u64 id;
	__u64 used_ns;
	__u64 mappings;
	__u64 opens;
	__u64 held_bytes;
	__u64 refs;
};

#define HUGEPIN_LIST_MAX	1024	/* entries that one LIST or USERS call gives at most */
#define HUGEPIN_LIST_PATH	512	/* bytes of a path, with the NUL */

/* hugepin_list_entry.flags */
#define HUGEPIN_LIST_NAMED	(1u << 0)	/* it has a name */
#define HUGEPIN_LIST_CUT	(1u << 1)	/* the path is longer: @path is its end */

/**
 * struct hugepin_list_entry - one region
 * @id:           a number that no other region has or will have, greater than those of older regions
 * @dev:          st_dev, as stat(2) tells it and /proc/PID/mountinfo (major:minor) and /proc/PID/maps show it; regions
 *                made on /dev/hugepin are on a mount that nobody sees
 * @ino:          st_ino
 * @bytes:        length
 * @bytes_1g:     how much of it is made of 1G pages
 * @created_ns:   CLOCK_REALTIME when it was made
 * @used_ns:      CLOCK_REALTIME of the last open or mapping
 * @mappings:     areas that map it, in all processes; each of them holds an open file
 * @opens:        open files of it; each is held by descriptors (dup and fork share one), by areas, by dma-bufs
 * @held_bytes:   bytes of its pages that somebody holds besides: a device's pin, a pipe, a socket. Such pages go to
 *                quarantine if the region ends now.
 * @refs:         references that makes; a pin counts once for each base page
 * @charged_uid:  who is charged for it (the maker), in the caller's user namespace
 * @uid, @gid:    owner and group of the inode
 * @mode:         st_mode
 * @flags:        HUGEPIN_LIST_*
 * @nr_extents:   entries of its own in the array of extents; 0 where none was given
 * @first_extent: the first of them
 * @pad:          0
 * @path:         path from the root of its mount, without a slash in front, NUL-terminated; empty without a name
 *
 * The members are read one after the other while others go on: @refs may be a moment older than @mappings.
 */
struct hugepin_list_entry {
	__u64 id;
	__u64 dev;
	__u64 ino;
	__u64 bytes;
	__u64 bytes_1g;
	__u64 created_ns;
	__u64 used_ns;
	__u64 mappings;
	__u64 opens;
	__u64 held_bytes;
	__u64 refs;
	__u32 charged_uid;
	__u32 uid;
	__u32 gid;
	__u32 mode;
	__u32 flags;
	__u32 nr_extents;
	__u32 first_extent;
	__u32 pad;
	char path[HUGEPIN_LIST_PATH];
};

/**
 * struct hugepin_list - the regions (HUGEPIN_IOC_LIST): on /dev/hugepin all of them, on a directory those of its mount
 * @size:       in: sizeof(struct hugepin_list)
 * @flags:      in: 0
 * @cursor:     in: 0, or what the call before gave; out: where to go on, 0 at the end
 * @entries:    in: array of entries
 * @nr_entries: in: entries it has room for, > 0; out: entries written, at most HUGEPIN_LIST_MAX
 * @entry_size: in: sizeof(struct hugepin_list_entry) as the caller knows it, which is how far apart they are; what the
 *              module does not know of one is zero
 * @extents:    in: array of struct hugepin_extent for all of them, or 0
 * @nr_extents: in: entries @extents has room for; out: entries written. EMSGSIZE: too few for the first region; out:
 *              how many it has
 * @pad:        in: 0
 *
 * By @id, oldest first. A region that lives from the first call to the last is told once, one that comes or goes
 * meanwhile once or not. Reading is enough. Paths are told whole, whatever the directories between permit.
 */
struct hugepin_list {
	__u32 size;
	__u32 flags;
	__u64 cursor;
	__u64 entries;
	__u32 nr_entries;
	__u32 entry_size;
	__u64 extents;
	__u32 nr_extents;
	__u32 pad;
};

/**
 * struct hugepin_user_entry - what one user holds
 * @uid:         in the caller's user namespace
 * @depth:       0, or how many user namespaces deep it is a user; what it holds counts for their owners too
 * @held:        pages of each class in regions and in quarantine
 * @quarantined: of these, pages whose region is gone and that somebody still holds
 * @pinned:      bytes of pinned ranges (PIN)
 */
struct hugepin_user_entry {
	__u32 uid;
	__u32 depth;
	__u64 held[HUGEPIN_CLASS_COUNT];
	__u64 quarantined[HUGEPIN_CLASS_COUNT];
	__u64 pinned;
};

/**
 * struct hugepin_users - the users that hold something (HUGEPIN_IOC_USERS on /dev/hugepin)
 * @size:       in: sizeof(struct hugepin_users)
 * @flags:      in: 0
 * @cursor:     in: 0, or what the call before gave; out: where to go on, 0 at the end
 * @entries:    in: array of struct hugepin_user_entry
 * @nr_entries: in: entries it has room for, > 0; out: entries written, at most HUGEPIN_LIST_MAX
 * @entry_size: in: sizeof(struct hugepin_user_entry) as the caller knows it, as for LIST
 *
 * One call's entries are one snapshot.
 */
struct hugepin_users {
	__u32 size;
	__u32 flags;
	__u64 cursor;
	__u64 entries;
	__u32 nr_entries;
	__u32 entry_size;
};

/**
 * struct hugepin_pin_range - pin a range of the caller's own memory (HUGEPIN_IOC_PIN on /dev/hugepin, open for writing)
 * @size:  in: sizeof(struct hugepin_pin_range)
 * @flags: in: 0
 * @addr:  in: first byte, a multiple of the base page size
 * @bytes: in: length, > 0, a multiple of the same; @addr + @bytes must not wrap (EOVERFLOW)
 * @held:  out, with EDQUOT: bytes that the user has pinned already
 * @limit: out, with EDQUOT: RLIMIT_MEMLOCK
 * @fd:    out: descriptor that holds the pins, close-on-exec; the pages are let go when its last copy is closed
 * @pad:   in: 0
 *
 * Long-term: the pages are faulted in, moved out of zones where they would stand in the way, and neither move nor go
 * until unpinned; the range may be unmapped before. All or nothing; EFAULT if a part is not mapped for writing (a
 * shared mapping of a file on disk is as good as not, on kernels that have to see every write to one), EINTR if a fatal
 * signal came. What all processes of a user have pinned counts against the caller's RLIMIT_MEMLOCK (owners of the user
 * namespaces around it likewise); with CAP_IPC_LOCK it is counted only.
 */
struct hugepin_pin_range {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u64 bytes;
	__u64 held;
	__u64 limit;
	__s32 fd;
	__u32 pad;
};

/**
 * struct hugepin_export - a dma-buf of a region or a pinned range (HUGEPIN_IOC_EXPORT on the region's or pin's
 * descriptor)
 * @size:   in: sizeof(struct hugepin_export)
 * @flags:  in: 0
 * @offset: in: first byte, a multiple of the base page size (2 MiB for a region)
 * @bytes:  in: length, a multiple of the same, 0 for all from @offset on; out: the length
 * @fd:     out: descriptor of the dma-buf, close-on-exec
 * @pad:    in: 0
 *
 * The dma-buf holds the memory by itself. A region's descriptor must be open for reading and writing (EBADF).
 * Neighbouring pages share a scatterlist entry, up to the importer's segment limit and boundary.
 */
struct hugepin_export {
	__u32 size;
	__u32 flags;
	__u64 offset;
	__u64 bytes;
	__s32 fd;
	__u32 pad;
};

#define HUGEPIN_IOC_TYPE	'h'
#define HUGEPIN_IOC_INFO	_IO(HUGEPIN_IOC_TYPE, 0x80)
#define HUGEPIN_IOC_CREATE	_IO(HUGEPIN_IOC_TYPE, 0x81)
#define HUGEPIN_IOC_REGION_INFO	_IO(HUGEPIN_IOC_TYPE, 0x82)
#define HUGEPIN_IOC_PIN		_IO(HUGEPIN_IOC_TYPE, 0x83)
#define HUGEPIN_IOC_EXPORT	_IO(HUGEPIN_IOC_TYPE, 0x84)
#define HUGEPIN_IOC_LIST	_IO(HUGEPIN_IOC_TYPE, 0x85)
#define HUGEPIN_IOC_USERS	_IO(HUGEPIN_IOC_TYPE, 0x86)

#endif /* _UAPI_HUGEPIN_H */
