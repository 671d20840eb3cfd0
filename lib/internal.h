/* SPDX-License-Identifier: MIT */
/*
 * Inside libhugepin. Prototypes are grouped under the file that defines them; a file uses only groups above its own:
 * error, sys, thread, size, nodes <- cgroup, topology, options <- policy, room, hold, pin, region, listing, mapping,
 * provider, ladder, runtime, register <- fence, poller, arena <- pool <- variable. Only context.c, which puts them
 * together, uses groups below its own. Names across files are hpi_<file>_<verb>; everything here is hidden in the
 * shared library.
 */
#ifndef HUGEPIN_INTERNAL_H
#define HUGEPIN_INTERNAL_H

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hugepin.h"

#define HPI_MIB(n)	((uint64_t)(n) << 20)
#define HPI_GIB(n)	((uint64_t)(n) << 30)
#define HPI_2M		HPI_MIB(2)
#define HPI_1G		HPI_GIB(1)

#define HPI_PLURAL(n)	((n) == 1 ? "" : "s")	/* "%llu page%s" */

#define HPI_STRUCT_MAX	4096	/* a caller's struct is not longer: such a size was never set */

static inline uint64_t hpi_round_up(uint64_t n, uint64_t to) { return (n + to - 1) & ~(to - 1); }	/* no wrap check */
static inline const char *hpi_class_name(enum hugepin_class c)
{
	return c == HUGEPIN_PAGES_1G ? "1G" : c == HUGEPIN_PAGES_2M ? "2M" : "base";
}
static inline bool hpi_is_pow2(uint64_t n) { return n && !(n & (n - 1)); }

/* ---- error.c: the thread's error text and the log ---- */

/* Formats the text of hugepin_error(), keeps errno, returns @err (negative): return hpi_error(-EINVAL, "..."); */
int hpi_error(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends to the text set last: the caller adds what it was doing. "; " goes between unless @fmt begins with a blank,
 * comma, semicolon or colon. Returns @err. */
int hpi_error_add(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void hpi_error_clear(void);		/* for a step that failed and was made good: no call of the user's failed */
void hpi_log(enum hugepin_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- sys.c: system calls; errno becomes -errno here and nowhere else ---- */

/*
 * Tests set this to make a call fail: it gets the call's name ("mmap", "open", ...) and returns 0 or the errno to
 * fail with. NULL outside tests.
 */
extern int (*hpi_sys_fault)(const char *call);

int hpi_sys_open(const char *path, int flags, unsigned int mode);		/* O_CLOEXEC is added */
void hpi_sys_close(int fd);							/* keeps errno */
int hpi_sys_mmap(void *addr, uint64_t bytes, int prot, int flags, int fd, uint64_t offset, void **out);
int hpi_sys_munmap(void *addr, uint64_t bytes);
int hpi_sys_ioctl(int fd, unsigned long request, void *arg);
int hpi_sys_madvise(void *addr, uint64_t bytes, int advice);
int hpi_sys_membarrier(int command);
int hpi_sys_mlock(const void *addr, uint64_t bytes);
int hpi_sys_munlock(const void *addr, uint64_t bytes);
int hpi_sys_memfd(const char *name, unsigned int flags);
int hpi_sys_ftruncate(int fd, uint64_t bytes);
int hpi_sys_unlink(const char *path);
int hpi_sys_open_at(int dir_fd, const char *name, int flags);	/* O_CLOEXEC is added, a symbolic link is refused */
int hpi_sys_unlink_at(int dir_fd, const char *name);
int hpi_sys_file_system(int fd, uint64_t *magic);		/* statfs.f_type */
int hpi_sys_local_node(void);							/* of the calling thread's CPU */
uint64_t hpi_sys_now_ns(void);							/* monotonic */
bool hpi_sys_secure(void);		/* a set-user-ID program or the like: its environment is a stranger's */
int64_t hpi_sys_read(int fd, void *buffer, size_t size);			/* bytes read; fewer only at the end */
/* A whole small file as a string without its trailing newline, at most @size - 1 bytes; -EFBIG beyond, -EILSEQ: NUL. */
int hpi_sys_read_file(const char *path, char *buffer, size_t size);
int hpi_sys_write_file(const char *path, const char *text);			/* in one write; EINTR is reported */
/*
 * Calls @fn for each line, without its newline (a NUL byte in it makes it end before @length), until it returns
 * non-zero: > 0 ends with success, < 0 is passed on. -EFBIG: a line of more than @max_line bytes; -EINVAL: neither a
 * regular file nor a directory.
 */
#define HPI_SYS_LINE_MAX	((size_t)1 << 20)
int hpi_sys_read_lines(const char *path, size_t max_line, int (*fn)(char *line, size_t length, void *arg), void *arg);
/* What follows @key and blanks in the first line that begins with @key; -ENODATA: no such line. */
int hpi_sys_read_field(const char *path, const char *key, char *buffer, size_t size);

/* ---- thread.c: helper threads ---- */

/* @name is static text of at most 15 characters. 0, or -errno with the text set; the thread is to be joined. */
int hpi_thread_start(const char *name, void (*fn)(void *arg), void *arg, pthread_t *out);
struct hpi_topology;
/*
 * CPUs that the process may use on the node that the calling thread runs on, one at least. An error, without a text:
 * there are none, or it is not known, as with more than 1,024 CPUs.
 */
int hpi_thread_cpus_near(const char *root, const struct hpi_topology *topology, cpu_set_t *out);

/* ---- size.c: numbers from text, whole or not at all, under any locale ---- */

/* All: -EINVAL does not parse (NULL and "" included), -ERANGE does not fit the type; @out is then untouched. */
int hpi_size_parse_uint(const char *text, uint64_t *out);		/* digits only */
int hpi_size_parse_int(const char *text, int64_t *out);
int hpi_size_parse_double(const char *text, double *out);		/* finite, decimal; -0.0 becomes 0 */
int hpi_size_parse_bool(const char *text, bool *out);			/* 0 1 true false yes no on off */
int hpi_size_parse_bytes(const char *text, uint64_t *out);		/* 4096, 512K, 2M, 1G, 1T with i and B optional */
/* "5.3 GiB", "2 MiB" if it is that to the byte; plain bytes below 10 KiB. Length as of snprintf(). */
int hpi_size_format(uint64_t bytes, char *buffer, size_t size);

/* ---- nodes.c: sets of node ids, 0 to HPI_NODES_MAX - 1 ---- */

#define HPI_NODES_MAX	1024
struct hpi_nodes {
	uint64_t bits[HPI_NODES_MAX / 64];
};
int hpi_nodes_parse(const char *text, struct hpi_nodes *out);		/* "0-3,8"; empty is -EINVAL */
int hpi_nodes_format(const struct hpi_nodes *nodes, char *buffer, size_t size);	/* "0-3,8"; length as of snprintf() */
int hpi_nodes_name(const struct hpi_nodes *nodes, char *buffer, size_t size);	/* "node 3", "nodes 0-3,8"; the same */
static inline bool hpi_nodes_has(const struct hpi_nodes *n, unsigned int id)
{
	return id < HPI_NODES_MAX && (n->bits[id / 64] >> (id % 64) & 1);
}
static inline void hpi_nodes_set(struct hpi_nodes *n, unsigned int id) { n->bits[id / 64] |= 1ull << (id % 64); }
unsigned int hpi_nodes_count(const struct hpi_nodes *nodes);
/* The syntax of a node policy: "local" (*@local; @nodes is empty), "bind:LIST", "interleave:LIST", "preferred:LIST". */
bool hpi_policy_is_device(const char *text, int *number);		/* "device:N": made of a device, not of nodes */
int hpi_policy_split(const char *text, enum hugepin_policy *policy, struct hpi_nodes *nodes, bool *local);

/* ---- cgroup.c: the container's limits ---- */

/* The least limit of this process's memory cgroup and its ancestors, v1 or v2; UINT64_MAX: none. */
int hpi_cgroup_memory_limit(const char *root, uint64_t *out);
/* What these groups may still be charged before the kernel kills in one of them: file pages count as free. */
int hpi_cgroup_memory_headroom(const char *root, uint64_t *out);
/* How much of what is there of swap its cgroups leave; UINT64_MAX: all of it. */
int hpi_cgroup_swap_headroom(const char *root, uint64_t *out);
/* The same of the hugetlb controller, for pages of 2 MiB or 1 GiB. */
int hpi_cgroup_hugetlb_limit(const char *root, uint64_t page_bytes, uint64_t *out);

/* ---- topology.c: the machine's nodes, from sysfs under a root prefix ---- */

struct hpi_node {
	unsigned int id;
	bool has_memory, has_cpus, allowed;	/* allowed: by the cpuset of this process */
	uint64_t memory_bytes;
};
struct hpi_topology {
	size_t count;				/* nodes online, ascending ids */
	struct hpi_node *nodes;
	uint64_t memory_bytes;			/* machine's total */
	uint64_t limit_bytes;			/* the container's limit or the machine's total, whichever is less */
	uint8_t *distances;			/* count * count, by position in @nodes */
};
int hpi_topology_read(const char *root, struct hpi_topology *out);	/* root "" for the real machine */
void hpi_topology_free(struct hpi_topology *topology);
const struct hpi_node *hpi_topology_node(const struct hpi_topology *topology, unsigned int id);
int hpi_topology_distance(const struct hpi_topology *topology, unsigned int from, unsigned int to);	/* -ENODEV */
int hpi_topology_local_node(void);					/* of the calling thread's CPU; -1 unknown */
int hpi_topology_nearest(const struct hpi_topology *topology, unsigned int id);	/* of the default nodes; -1 */
void hpi_topology_usable(const struct hpi_topology *topology, struct hpi_nodes *out);	/* allowed and with memory */
/* The usable ones that have CPUs: nodes of memory alone (CXL, an accelerator's) are taken only where named. */
void hpi_topology_default_nodes(const struct hpi_topology *topology, struct hpi_nodes *out);

/* ---- options*.c: the one table of options ---- */

enum hpi_option_id {
	HPI_OPT_RUNTIME,			/* auto none cuda ascend hip */
	HPI_OPT_MOUNT,				/* directory of hugepinfs, /run/hugepin */
	HPI_OPT_NODE_POLICY,			/* local | bind:LIST | interleave:LIST | preferred:LIST | device:N */
	HPI_OPT_STRATEGY,			/* enum hpi_strategy */
	HPI_OPT_HOST_LADDER,			/* see ladder below */
	HPI_OPT_PINNED_LADDER,
	HPI_OPT_VARIABLE_LADDER,
	HPI_OPT_HOST_CAP,			/* bytes, 0 none */
	HPI_OPT_PINNED_CAP,
	HPI_OPT_VARIABLE_CAP,
	HPI_OPT_DEVICE_CAP,
	HPI_OPT_HOST_FRACTION,			/* host and pinned memory of the process, of limit_bytes; 0 no cap */
	HPI_OPT_CACHE_CAP,			/* bytes in the thread caches of one pool, 0 no caching */
	HPI_OPT_REGISTER_CHUNK,			/* bytes a registration call */
	HPI_OPT_REGISTER_THREADS,
	HPI_OPT_RAISE_MEMLOCK,			/* soft limit up to the hard one */
	HPI_OPT_SCRUB,				/* read by hugepin-boot, in the environment */
	HPI_OPT_LOG_LEVEL,			/* none, then as enum hugepin_log_level; read by the shim */
	HPI_OPT_PADDLE_ALLOCATOR_STRATEGY,	/* naive_best_fit auto_growth */
	HPI_OPT_PADDLE_FRACTION_CPU,
	HPI_OPT_PADDLE_INITIAL_CPU_MB,
	HPI_OPT_PADDLE_FRACTION_PINNED,
	HPI_OPT_PADDLE_FRACTION_GPU,
	HPI_OPT_PADDLE_INITIAL_GPU_MB,		/* 0 off */
	HPI_OPT_PADDLE_REALLOCATE_GPU_MB,	/* 0 off */
	HPI_OPT_PADDLE_INIT_ALLOCATED_MEM,
	HPI_OPT_PADDLE_EAGER_DELETE_GB,		/* < 0: no collection */
	HPI_OPT_PADDLE_EAGER_DELETE_FRACTION,
	HPI_OPT_PADDLE_FAST_EAGER_DELETION,
	HPI_OPT_PADDLE_EAGER_DELETE_SCOPE,
	HPI_OPT_PADDLE_FUSE_GROUPS_SIZE,	/* > 0, or -1: one group */
	HPI_OPT_PADDLE_FUSE_MEMORY_MB,		/* -1: no limit; 0: one group */
	HPI_OPT_TF_GPU_FRACTION,		/* 0: no cap */
	HPI_OPT_TF_ALLOCATOR_TYPE,		/* "" BFC: both the arena's */
	HPI_OPT_TF_DEFERRED_DELETION,		/* bytes, 0: 8 MiB */
	HPI_OPT_TF_ALLOW_GROWTH,
	HPI_OPT_TF_VISIBLE_DEVICES,		/* "5,3": no duplicates; "" all */
	HPI_OPT_TF_POLL_ACTIVE_US,		/* 0: 10 */
	HPI_OPT_TF_POLL_INACTIVE_MS,		/* 0: 1 */
	HPI_OPT_TF_FORCE_GPU_COMPATIBLE,
	HPI_OPT_ASCEND_CLEAN_POLICY,		/* 0 1 */
	HPI_OPT_ASCEND_STATIC_POLICY,		/* see hpi_options_static_policy() */
	HPI_OPT_ASCEND_VARIABLE_1G,		/* 0 1 2 */
	HPI_OPT_COUNT,
};
enum hpi_strategy {				/* how a pool grows */
	HPI_STRATEGY_NEEDED,			/* by what is needed */
	HPI_STRATEGY_CHUNKS,			/* by equal chunks */
	HPI_STRATEGY_DOUBLING,			/* by segments that double */
};
/* Typed readers; calling the wrong one for the option's type is a bug (assert). */
const char *hpi_options_string(const struct hugepin_options *options, enum hpi_option_id id);	/* any type: its text */
uint64_t hpi_options_uint(const struct hugepin_options *options, enum hpi_option_id id);	/* uint, bytes, choice index */
int64_t hpi_options_int(const struct hugepin_options *options, enum hpi_option_id id);
double hpi_options_double(const struct hugepin_options *options, enum hpi_option_id id);
bool hpi_options_bool(const struct hugepin_options *options, enum hpi_option_id id);
bool hpi_options_is_set(const struct hugepin_options *options, enum hpi_option_id id);	/* by anything but the default */
/* An option with the unit MB or GB in bytes, to the nearest; false if it is negative, which its doc gives a meaning. */
bool hpi_options_scaled(const struct hugepin_options *options, enum hpi_option_id id, uint64_t *bytes);
/* static_memory_policy: 0, 2, 3 or 4; 1 means 2. */
unsigned int hpi_options_static_policy(const struct hugepin_options *options);
uint64_t hpi_options_deferred_deletion(const struct hugepin_options *options);	/* bytes, not 0 */
const char *hpi_options_source(const struct hugepin_options *options, enum hpi_option_id id);
/* A dialect's own defaults hold only if one of its options is set; else hugepin's own behaviour does. */
bool hpi_options_dialect_active(const struct hugepin_options *options, const char *dialect);
/* Of two options for the same thing: @id is set, and by a higher source than @other if that is set too. */
bool hpi_options_outranks(const struct hugepin_options *options, enum hpi_option_id id, enum hpi_option_id other);
int hpi_options_copy(const struct hugepin_options *options, struct hugepin_options **out);
/* @fraction of @bytes to the nearest byte, without losing any to a double; 0 <= fraction <= 1, 1.0 gives @bytes */
uint64_t hpi_options_share(double fraction, uint64_t bytes);

/* ---- context.c ---- */

struct hpi_runtime;
struct hpi_registry;
struct hpi_fences;
struct hpi_poller;

struct hugepin_context {
	struct hugepin_options *options;
	struct hpi_topology topology;
	int device_fd;				/* /dev/hugepin, or -1 */
	int mount_fd;				/* directory of hugepinfs, or -1 */
	bool can_pin;				/* the device is open and has PIN */
	unsigned int absent[3];			/* HUGEPIN_ABSENT_* by enum hugepin_class, where the module answered */
	const struct hpi_runtime *runtime;	/* never NULL: "none" at least */
	struct hpi_registry *registry;
	struct hpi_fences *fences;
	struct hpi_poller *poller;
	int module_err;				/* why both are -1: -ENODEV, or -errno of opening the device */
	pid_t pid;				/* of the creator; a child of a fork is refused */
	uint32_t *fork_mark;			/* a page the kernel wipes in a child: saves a getpid() a call; or NULL */
	pthread_mutex_t pools_lock;
	struct hugepin_pool *pools;
	unsigned int objects;			/* pools, regions and pins alive; atomic */
	uint64_t compatible_bytes;		/* mapped under one cap by force_gpu_compatible; atomic */
};
/* -EPERM with the error text set in a child of a fork, else 0. */
int hpi_context_check(const struct hugepin_context *ctx);
bool hpi_context_is_child(const struct hugepin_context *ctx);
#define HPI_FORK_MARK	0x48504e31u
/* hpi_context_check() for the calls that are made most: true if that would say 0, without having to ask the kernel. */
static inline bool hpi_context_is_ours(const struct hugepin_context *ctx)
{
	return ctx->fork_mark && *(const volatile uint32_t *)ctx->fork_mark == HPI_FORK_MARK;
}
/* The device or the mount, for calls that either takes; borrowed. -ENODEV or -EACCES with the text set. */
int hpi_context_module_fd(const struct hugepin_context *ctx);

/* ---- policy.c: node policy as pools and regions use it, parsed once from text ---- */

struct hpi_policy {
	enum hugepin_policy policy;
	struct hpi_nodes nodes;
};
/* "local", "bind:0-1", "interleave:0,8", "preferred:1"; nodes checked against @topology (-ENODEV). local is preferred
 * with the calling thread's node, decided at each use: @nodes is empty then. */
int hpi_policy_parse(const char *text, const struct hpi_topology *topology, struct hpi_policy *out);
/* -ENODEV with the text set: a node of the set does not exist, has no memory or is not allowed to this process. */
int hpi_policy_check_nodes(const struct hpi_nodes *nodes, const struct hpi_topology *topology);
/* The nodes meant now: for local the usable node nearest to the calling thread. */
void hpi_policy_nodes(const struct hpi_policy *policy, const struct hpi_topology *topology, struct hpi_nodes *out);
/* Binds memory not touched yet. Local leaves the thread's own policy in force, which numactl may have set, and without one
 * keeps to the default nodes. */
int hpi_policy_apply(const struct hpi_policy *policy, const struct hpi_topology *topology, void *addr, uint64_t bytes);

/* ---- room.c: memory that nobody has set aside; files under a root prefix, "" for the real ones ---- */

/* Free or at once to be had; UINT64_MAX: not told. */
uint64_t hpi_room_on_machine(const char *root);
uint64_t hpi_room_on_nodes(const char *root, const struct hpi_nodes *nodes);
/* -ENOMEM with the numbers: the container, the nodes that @policy binds to, or the machine have no room for so much, and the
 * kernel would kill instead of refusing. @policy: NULL for memory that somebody else places. */
int hpi_room_check(const char *root, const struct hpi_topology *topology, const struct hpi_policy *policy,
		   const char *what, uint64_t bytes);

/* ---- hold.c: the program's own memory, pinned by the module or locked ---- */

struct hpi_hold;
/*
 * Whole pages, all or nothing. @by_address: ended by hpi_hold_end_at(), and *@out is not to be kept. Both: -EDQUOT (a
 * limit; the text has the numbers), -EFAULT (a hole), -ENOMEM. pin: -EOPNOTSUPP, -EBUSY and others. lock: -EIO.
 */
int hpi_hold_pin(int device_fd, void *addr, uint64_t bytes, bool by_address, struct hpi_hold **out);
int hpi_hold_lock(void *addr, uint64_t bytes, bool by_address, struct hpi_hold **out);
/* From now on a request over the soft limit on locked memory raises it to the hard one: the option raise_memlock. */
void hpi_hold_may_raise(void);
bool hpi_hold_is_pin(const struct hpi_hold *hold);
int hpi_hold_fd(const struct hpi_hold *hold);				/* of the module's pin, or -1 */
/* Lets go; pages that others have locked through here stay so. 0 also when the range is unmapped; -EIO: still held. */
int hpi_hold_end(struct hpi_hold *hold);
int hpi_hold_end_at(void *addr, uint64_t bytes);			/* -ENOENT */

/* ---- pin.c ---- */

/* A dma-buf of the region or pinned range of @whole bytes behind @fd, in multiples of @unit: its descriptor or -errno. */
int hpi_pin_export(int fd, uint64_t whole, uint64_t unit, uint64_t offset, uint64_t bytes);

/* ---- region_take.c, region.c ---- */

struct hpi_extents {
	size_t count;
	struct hugepin_extent_info *list;	/* malloc()ed; by node, 1G before 2M */
};
struct hpi_take {
	int dir_fd;				/* /dev/hugepin or a directory of hugepinfs */
	const char *name;			/* in that directory, or NULL */
	unsigned int mode;
	uint64_t bytes;
	unsigned int classes;			/* OR of 1u << enum hugepin_class, not 0 */
	bool fallback;
	enum hugepin_policy policy;
	const struct hpi_nodes *nodes;
};
/*
 * Takes pages from the reserve as a region: its descriptor and length (@bytes rounded up), and what was got; or -errno
 * with the error text, in numbers. @extents->list is the caller's to free.
 */
int hpi_region_take(struct hugepin_context *ctx, const struct hpi_take *take, uint64_t *bytes,
		    struct hpi_extents *extents);
struct hugepin_extent;				/* of the module's header */
void hpi_region_convert(const struct hugepin_extent *from, size_t count, struct hugepin_extent_info *to);

/* ---- hugetlb_pool.c: the kernel's own huge pages in numbers, and where libhugetlbfs finds mounts of them ---- */

struct hpi_hugetlb_pool {
	uint64_t total_pages, free_pages, reserved_pages, overcommit_pages, surplus_pages;
	uint64_t limit_bytes;			/* the least of this process's cgroups; UINT64_MAX: none */
};
int hpi_hugetlb_pool_read(const char *root, uint64_t page_bytes, struct hpi_hugetlb_pool *out);	/* -ENODEV: no such size */
/* Free pages of these nodes together; nodes that do not tell count as 0. */
uint64_t hpi_hugetlb_free_on(const char *root, uint64_t page_bytes, const struct hpi_nodes *nodes);
const char *hpi_hugetlb_mount(uint64_t page_bytes);	/* a writable mount of that page size, or NULL; static */

/* ---- mapping.c: what all providers do with address space ---- */

struct hpi_request {
	uint64_t bytes;				/* multiple of the rung's smallest class */
	unsigned int classes;			/* OR of 1u << enum hugepin_class; one, or 1G and 2M */
	const struct hpi_policy *policy;
	void *addr;				/* where to map (replacing a PROT_NONE reservation there), or NULL */
	int device;				/* of provider device: the runtime's number */
};
struct hpi_mapping {
	void *addr;
	uint64_t bytes;
	enum hugepin_provider provider;
	uint64_t bytes_1g, bytes_2m;		/* of it; the rest is base pages */
	int node;				/* -1: several or not told */
	int fd;					/* owned by the mapping, -1 for anonymous */
	uint64_t offset;
	bool zeroed;
	int device;				/* of provider device */
};
/* mmap of zero-filled or file memory, over a reservation if @addr is given, which comes back on failure. */
int hpi_mapping_place(void *addr, uint64_t bytes, int flags, int fd, void **out);
/* Node of all the pages (of @page_bytes each), -1 if they differ or the kernel does not tell. */
int hpi_mapping_node(const void *addr, uint64_t bytes, uint64_t page_bytes);
/* Takes back what hpi_mapping_place() did, in an error path: the error text stays as it is. */
void hpi_mapping_undo(void *addr, uint64_t bytes, bool reserve);
/* The unmap of every provider: a reservation is put in place without a gap that another thread could map into. */
int hpi_mapping_unmap(struct hugepin_context *ctx, struct hpi_mapping *mapping, bool reserve);

/* ---- populate.c: pages there before anybody touches them ---- */

/*
 * Makes fresh memory in pages of @page_bytes resident, with register_threads threads: 0, or without an error text
 * -ENOMEM or -EFAULT (pages ran out where a touch would be SIGBUS), then some of it may be.
 */
int hpi_populate(struct hugepin_context *ctx, void *addr, uint64_t bytes, uint64_t page_bytes);
/* Makes the entries of a region's mapping, whose pages exist; contents are kept. */
int hpi_populate_region(void *addr, uint64_t bytes, bool writable);

/* ---- provider_*.c: sources of mapped memory ---- */

struct hpi_provider {
	const char *name;
	enum hugepin_provider id;
	unsigned int classes;			/* it can give at all */
	/* All or nothing; every page resident on success, else an error with numbers and nothing mapped (a reservation at
	 * @addr is put back as PROT_NONE). */
	int (*map)(struct hugepin_context *ctx, const struct hpi_request *request, struct hpi_mapping *out);
	/* @reserve: leave a PROT_NONE reservation behind instead of a hole. */
	int (*unmap)(struct hugepin_context *ctx, struct hpi_mapping *mapping, bool reserve);
	/* Memory lies where its source puts it, beside every window, and is pinned: it is neither extended nor registered. */
	bool places_itself;
};
extern const struct hpi_provider hpi_provider_kmod, hpi_provider_hugetlb, hpi_provider_thp, hpi_provider_base;
extern const struct hpi_provider hpi_provider_device, hpi_provider_runtime;

/* ---- ladder.c: what a pool tries, in order ---- */

#define HPI_LADDER_MAX	8
struct hpi_rung {
	const struct hpi_provider *provider;
	unsigned int classes;
};
struct hpi_ladder {
	size_t count;
	struct hpi_rung rungs[HPI_LADDER_MAX];
};
/* "kmod:1G+2M,kmod:2M,hugetlb:2M,thp,base"; "kmod:1G" is 1G pages only, "kmod:1G+2M" 1G pages with the rest in 2M pages. */
int hpi_ladder_parse(const char *text, struct hpi_ladder *out);
uint64_t hpi_ladder_granule(const struct hpi_rung *rung);		/* smallest class's page size */
/*
 * Tries rung by rung from @first on; rounds bytes up for each. @rung is set to what it ended on. The error text of a
 * failure has every rung's reason. -ENOMEM, -EDQUOT, -ENODEV, -EOPNOTSUPP go on to the next rung, anything else ends.
 */
int hpi_ladder_map(struct hugepin_context *ctx, const struct hpi_ladder *ladder, size_t first,
		   const struct hpi_request *request, struct hpi_mapping *out, size_t *rung);

/* ---- symbols.c: a runtime's library, loaded at run time ---- */

struct hpi_symbol {
	const char *name;
	void **function;
	bool later;				/* NULL where the release has it not, which is no failure */
};
struct hpi_symbols {
	const char *what;			/* "CUDA driver" */
	const char *oldest;			/* release that has all of them but the later ones */
	const char *const *libraries;		/* ended by NULL, in the order in which they are tried */
	const struct hpi_symbol *table;		/* ended by a NULL name */
	/* What became of it; the lock is of the rest. */
	pthread_mutex_t lock;
	bool tried;
	int err;
	char text[256];
};
/* Once; later calls answer the same. 0, -ENODEV (not on this machine), -EIO (a release too old). */
int hpi_symbols_load(struct hpi_symbols *symbols);
bool hpi_symbols_are_loaded(const struct hpi_symbols *symbols);	/* by anybody; loads nothing */

/* ---- runtime.c, runtime_*.c and cuda_*.c: an accelerator's interface to memory ---- */

struct hpi_runtime_scope {
	void *context;
	int device;				/* whose primary context the scope holds, -1 none */
};
struct hpi_runtime_thread {
	bool pushed;
	int capture_mode;
	void *before;			/* the thread's own context */
};
struct hpi_fence;			/* a runtime's own */
#define HPI_STREAM_DEVICE	((void *)-1)	/* instead of a stream's handle: whatever the devices were given */
struct hpi_device {
	int id;
	char pci_address[16];		/* "0000:3b:00.0"; "" where the runtime does not tell */
	uint64_t total_bytes;
	uint64_t free_bytes;		/* UINT64_MAX: not told, since the program has no context there */
};
struct hpi_runtime {
	const char *name;
	uint64_t max_register_bytes;		/* one call's ceiling, 0 unknown */
	/* Signs of the accelerator, without touching its driver: for "auto". */
	bool (*present)(void);
	int (*load)(void);			/* idempotent, thread-safe: 0, -ENODEV (not on this machine), -EIO */
	/*
	 * Calls of one range are made inside a scope: begun and ended by the thread that asks, entered and left by each
	 * thread that calls. begin: 0, -EIO (no context of the program to work in), -ESHUTDOWN (shutting down at exit).
	 */
	int (*begin)(struct hpi_runtime_scope *scope, int *code);
	int (*enter)(struct hpi_runtime_scope *scope, struct hpi_runtime_thread *thread, int *code);
	void (*leave)(struct hpi_runtime_thread *thread);
	void (*end)(struct hpi_runtime_scope *scope);
	/* begin in the context that the program has on a device; -EIO: it has none there. NULL: no devices. */
	int (*begin_on)(struct hpi_runtime_scope *scope, int device, int *code);

	/*
	 * What follows is called inside a scope that the thread has entered. *@code is the runtime's own number. A call
	 * that the runtime has nothing for is NULL.
	 */

	/* 0; -EEXIST (registered already), -ENOMEM, -EDQUOT (over a limit: less may pass), -EINVAL, -EIO; -EOPNOTSUPP: it
	 * registers none on this machine. */
	int (*host_register)(void *addr, uint64_t bytes, int *code);
	/* 0 also when the runtime is shutting down at exit; -ENOENT, -EIO. */
	int (*host_unregister)(void *addr, uint64_t bytes, int *code);
	/*
	 * Host memory that the runtime allocates and pins, at an address of its choice, a multiple of 64 bytes, with
	 * contents of anybody's. -ENOMEM, -EIO. free: as host_unregister.
	 */
	int (*host_alloc)(uint64_t bytes, void **out, int *code);
	int (*host_free)(void *addr, int *code);
	/* Where a device finds a byte of registered memory; -EINVAL: not registered. */
	int (*device_pointer)(void *addr, uint64_t *device_addr, int *code);

	/*
	 * Fences. record: behind the work given to @stream so far, or with HPI_STREAM_DEVICE behind all that was given
	 * to any stream of the scope's context and of the program's context on every device; -EBUSY: a capture is under
	 * way that it would break or become part of, to be tried again later; -EINVAL (no such stream), -ENOMEM, -EIO;
	 * -ENOBUFS: a capture too, and there is no memory to remember it. query: 0 passed, also where its context is
	 * gone; -EBUSY pending; -EIO: the device is in error and nobody knows. It may block on a driver that cannot
	 * record a context. end: at any time.
	 */
	int (*fence_record)(void *stream, struct hpi_fence **out, int *code);
	int (*fence_query)(struct hpi_fence *fence, int *code);
	void (*fence_end)(struct hpi_fence *fence);
	/*
	 * Whether the stream is being captured into a graph; HPI_STREAM_DEVICE: one of those that a fence there waits
	 * for, as far as the runtime tells.
	 */
	bool (*is_capturing)(void *stream);

	/* Devices, numbered as the program sees them: in the order of CUDA_VISIBLE_DEVICES and the like. */
	int (*device_count)(int *count, int *code);
	int (*device_read)(int device, struct hpi_device *out, int *code);	/* -ENODEV */

	/*
	 * Memory of the scope's device. granule: what sizes and addresses are multiples of. reserve, release: address
	 * space, aligned to the granule. map: pages of @bytes at @addr in it; -ENOMEM, -EOPNOTSUPP (no pages of that
	 * class on this product). Unmapped are ranges as they were mapped. set and copy have ended on return; nothing
	 * here is ordered with the program's streams.
	 */
	int (*memory_granule)(int device, uint64_t *bytes, int *code);
	int (*memory_reserve)(uint64_t bytes, void **out, int *code);
	int (*memory_release)(void *addr, uint64_t bytes, int *code);
	int (*memory_map)(int device, void *addr, uint64_t bytes, enum hugepin_class page_class, int *code);
	int (*memory_unmap)(void *addr, uint64_t bytes, int *code);
	int (*memory_set)(void *addr, unsigned char value, uint64_t bytes, int *code);
	int (*memory_copy)(void *to, const void *from, uint64_t bytes, int *code);
};
extern const struct hpi_runtime hpi_runtime_none, hpi_runtime_cuda, hpi_runtime_ascend, hpi_runtime_hip;
extern const struct hpi_runtime hpi_runtime_none_pinning;	/* none, where the module pins */
/* @name as in the option "runtime"; "auto" never fails. */
int hpi_runtime_find(const char *name, const struct hpi_runtime **out);

/* ---- capture.c: streams that the program named while they were captured; for runtimes ---- */

/* Such a stream must live until its capture has been seen to have ended. -ENOBUFS: no memory, it is not remembered. */
int hpi_capture_note(bool (*is_capturing)(void *stream), void *stream);
bool hpi_capture_pending(bool (*is_capturing)(void *stream));		/* one of that runtime's still is */

/* ---- device.c: devices as pools see them, in the program's context on them ---- */

/* The runtime's number of a device numbered as visible_device_list says; -ENODEV, -EINVAL, and what the runtime says. */
int hpi_device_find(struct hugepin_context *ctx, int number, int *out);
/* All that follow take the runtime's number, and fail with -EIO where the program has no context there. */
int hpi_device_memory(struct hugepin_context *ctx, int device, uint64_t *total, uint64_t *available);
/* Address space of a device; -EOPNOTSUPP: this runtime gives no memory of devices. */
int hpi_device_reserve(struct hugepin_context *ctx, int device, uint64_t bytes, void **out);
int hpi_device_release(struct hugepin_context *ctx, int device, void *addr, uint64_t bytes);
int hpi_device_map(struct hugepin_context *ctx, int device, void *addr, uint64_t bytes, enum hugepin_class page_class);
int hpi_device_unmap(struct hugepin_context *ctx, int device, void *addr, uint64_t bytes);
/* Done on return. What the program's streams still do to the bytes is the caller's to wait for. */
int hpi_device_set(struct hugepin_context *ctx, int device, void *addr, unsigned char value, uint64_t bytes);
int hpi_device_copy(struct hugepin_context *ctx, int device, void *to, const void *from, uint64_t bytes);
int hpi_device_node(const char *root, const char *pci_address);		/* -1: the kernel does not tell */
/* The policy "device:N": the usable node nearest to the device; local where its node is not told. */
int hpi_device_policy(struct hugepin_context *ctx, int number, struct hpi_policy *out);

/* ---- register.c: chunked, parallel, all-or-nothing registration; the registry of what is registered ---- */

int hpi_registry_create(struct hpi_registry **out);
void hpi_registry_destroy(struct hpi_registry *registry);		/* forgets what is left: a child of a fork has some */
/*
 * Registers [addr, addr + bytes), whole base pages, in chunks with threads as the context's options say; on a failure
 * everything is rolled back. -ENOMEM: no memory to book it. -EDQUOT: over the limit of locked memory. -EEXIST: overlaps
 * what is registered, answered without the runtime. -EIO, -EINVAL: the runtime refused. -ENOTRECOVERABLE: the roll-back
 * failed too, the range is still booked: it must stay mapped until hpi_unregister_range() gives 0.
 */
int hpi_register_range(struct hugepin_context *ctx, void *addr, uint64_t bytes);
/* The same for a provider's memory. The module's stays where it is by itself: runtime none has nothing to pin there; and the
 * runtime's own is registered already. */
int hpi_register_mapping(struct hugepin_context *ctx, const struct hpi_mapping *mapping);
/* Exactly a range registered before. -EIO: the runtime refused; what remains registered stays booked. */
int hpi_unregister_range(struct hugepin_context *ctx, void *addr, uint64_t bytes);
struct hpi_span {
	void *addr;
	uint64_t bytes;
	int err;				/* what became of it */
};
/* Several together: the runtime is visited once, and helper threads share all their chunks. The first of their errors. */
int hpi_unregister_ranges(struct hugepin_context *ctx, struct hpi_span spans[], size_t count);
bool hpi_registry_has(struct hpi_registry *registry, const void *addr, uint64_t bytes);

/* ---- fence.c: what waits for a device ---- */

struct hpi_wait {
	void (*passed)(struct hpi_wait *wait);	/* called once, without locks of this file, by any thread; has it then */
	uint64_t bytes;				/* that come free with it */
	/* The rest is the queue's. */
	struct hpi_wait *next, *also;		/* also: those that pass together with it */
	void *stream, *context;
	bool claimed;				/* claimed: it ended by hpi_fence_claim() */
	size_t count;
	struct hpi_fence *fences[];		/* room for as many as there are streams, one at least */
};
#define HPI_WAIT_PASSED	1
/*
 * Records fences behind what the streams were given so far; count 0: over all devices, with others, at a later time.
 * @registered: a device may know of the memory. 0: to be queued; HPI_WAIT_PASSED: there is nothing to wait for;
 * -EINVAL: no stream; -ENOMEM: a stream is being captured, and cannot be remembered. What else fails makes it wait for
 * all the devices instead.
 */
int hpi_fence_record(struct hugepin_context *ctx, struct hpi_wait *wait, void *const *streams, size_t count,
		     bool registered);
void hpi_fence_drop(struct hugepin_context *ctx, struct hpi_wait *wait);	/* recorded, but not queued after all */
void hpi_fence_queue(struct hugepin_context *ctx, struct hpi_wait *wait);
/* The oldest that waits for @stream alone and that @fits, called with a lock held, takes. It passes later on, claimed. */
bool hpi_fence_claim(struct hugepin_context *ctx, void *stream, bool (*fits)(struct hpi_wait *wait, void *arg),
		     void *arg);
enum hpi_fences_left {
	HPI_FENCES_NONE,
	HPI_FENCES_PENDING,
	HPI_FENCES_GATHERED,			/* nothing recorded: all that wait have no fence yet */
};
/* Lets pass what has passed. @record: a fence for what is gathered. @err: why that has none, or 0; or NULL. */
enum hpi_fences_left hpi_fences_poll(struct hugepin_context *ctx, bool record, int *err);
int hpi_fences_create(struct hugepin_context *ctx);
void hpi_fences_destroy(struct hugepin_context *ctx);

/* ---- poller.c: the thread that looks ---- */

extern void (*hpi_poller_pause)(uint64_t ns);	/* tests set it to take the place of the poller's sleep */
int hpi_poller_create(struct hugepin_context *ctx);
void hpi_poller_destroy(struct hugepin_context *ctx);
void hpi_poller_wake(struct hugepin_context *ctx);	/* something is queued; starts the thread, too */

/* ---- arena.c: best fit with coalescing over out-of-band bookkeeping; not thread-safe, the pool locks ---- */

struct hpi_arena;
struct hpi_arena_stats {
	uint64_t mapped_bytes, free_bytes, active_bytes, requested_bytes, retired_bytes, active_blocks;
	uint64_t largest_free_bytes;
};
int hpi_arena_create(struct hpi_arena **out);
void hpi_arena_destroy(struct hpi_arena *arena);
/* Adds free space; coalesces with neighbours that touch it. @zeroed: all its bytes are zero. */
int hpi_arena_add(struct hpi_arena *arena, void *addr, uint64_t bytes, bool zeroed);
/* Bookkeeping memory for a piece of space and a block in it, which then do not fail for lack of it. */
int hpi_arena_reserve(struct hpi_arena *arena);
/* Takes away space that is wholly free; -EBUSY if any of it is in use, -ENOENT if it is not the arena's. */
int hpi_arena_remove(struct hpi_arena *arena, void *addr, uint64_t bytes);
bool hpi_arena_is_free(const struct hpi_arena *arena, const void *addr, uint64_t bytes);
/* Free bytes that end exactly at @end (the growth end of a pool's window). */
uint64_t hpi_arena_free_before(const struct hpi_arena *arena, const void *end);
/* NULL when nothing fits (errno ENOSPC) or without memory for bookkeeping (ENOMEM); nothing is changed then. @zeroed is set
 * if the block's bytes are known to be zero. */
void *hpi_arena_alloc(struct hpi_arena *arena, uint64_t alignment, uint64_t bytes, bool *zeroed);
/* The same at the grain's alignment, with room for @room bytes, of which @bytes are asked for; @mark: see arena.h. */
void *hpi_arena_alloc_marked(struct hpi_arena *arena, uint64_t bytes, uint64_t room, uint8_t mark, bool *zeroed);
/* The same at an address, a multiple of the grain. */
void *hpi_arena_alloc_at(struct hpi_arena *arena, void *addr, uint64_t bytes, bool *zeroed);
/* A block becomes two, next to each other: of @bytes at @ptr, and of @rest behind. -EINVAL: not a block in use, or too
 * small; -ENOMEM. */
int hpi_arena_split(struct hpi_arena *arena, void *ptr, uint64_t bytes, uint64_t rest);
int hpi_arena_free(struct hpi_arena *arena, void *ptr);			/* -EINVAL: not a block in use */
/* A block that its user has given back, but that must not be used yet: from then on only hpi_arena_return() takes it. */
int hpi_arena_retire(struct hpi_arena *arena, void *ptr, uint64_t *bytes);	/* -EINVAL: not a block in use */
int hpi_arena_return(struct hpi_arena *arena, void *ptr);		/* -EINVAL: not a retired block */
/* A retired block is in use again, for @bytes; -EINVAL: not a retired block, or too small. */
int hpi_arena_revive(struct hpi_arena *arena, void *ptr, uint64_t bytes);
/* In place: shrinks always, grows if the free chunk behind it suffices; -ENOSPC. */
int hpi_arena_resize(struct hpi_arena *arena, void *ptr, uint64_t bytes);
uint64_t hpi_arena_block_bytes(const struct hpi_arena *arena, const void *ptr);	/* requested; UINT64_MAX: no block */
void hpi_arena_stats(const struct hpi_arena *arena, struct hpi_arena_stats *out);
uint64_t hpi_arena_mapped(const struct hpi_arena *arena);
/* Blocks that begin in [addr, addr + bytes) are booked in a map that its owner may read: see arena.h. Before the first one. */
void hpi_arena_use_map(struct hpi_arena *arena, void *addr, uint64_t bytes, uintptr_t *map);
int hpi_arena_check(const struct hpi_arena *arena);			/* every invariant; for tests */
/* Memory for bookkeeping, zeroed; aligned to a cache line. Fails where hpi_sys_fault("calloc") says so. */
void *hpi_store_calloc(size_t bytes);
struct hpi_arena_piece {
	void *addr;
	uint64_t bytes, requested;
	enum hugepin_block_state state;
	bool kept;				/* active to the arena, but a cache has it */
};
void hpi_arena_walk(const struct hpi_arena *arena, void (*fn)(const struct hpi_arena_piece *piece, void *arg), void *arg);

#endif /* HUGEPIN_INTERNAL_H */
