/* SPDX-License-Identifier: MIT */
/*
 * libhugepin: huge-page and pinned memory for training hosts.
 *
 * Order of things: options -> context -> pool -> memory. Regions, below the pools, can be used on their own.
 *
 *	struct hugepin_context *ctx;
 *	struct hugepin_pool *pool;
 *	void *p;
 *
 *	hugepin_context_create(NULL, &ctx);
 *	hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool);
 *	p = hugepin_alloc(pool, 64 << 20, 0);
 *
 * Conventions, for everything below unless it says otherwise:
 * - A call returns 0 or a negative errno value; a call that returns a pointer returns NULL and sets errno. After a
 *   failure hugepin_error() tells this thread the step that failed, with numbers.
 * - A call that fails leaves everything as it was: counters, mappings, registrations, @out arguments.
 * - Sizes are bytes. Node numbers are the kernel's ids, never indices.
 * - Every call is thread-safe; ending an object while another thread uses it is the caller's error.
 * - Fork: a child keeps the mappings it inherits and may read and write them, but its calls on its parent's objects
 *   return -EPERM (NULL with EPERM), except *_destroy(), *_close(), *_release(), *_end() and *_unwatch(), which then
 *   free the child's bookkeeping only, and those that only tell what a region, variable or plan has (descriptor, address,
 *   bytes, extents). Nothing of the parent is freed or unregistered.
 * - A handle is what a call gave, and has not been ended: another address is not looked for, nor is NULL but for a
 *   context.
 * - EINTR never comes out of this library, except where said.
 * - A call may need 32 KiB of the caller's stack: fibres have to have as much.
 * - The library does not print, exit, fork, install signal handlers or change limits or locales.
 * - Structs that the caller fills or reads begin with @size = sizeof(struct ...); they grow at the end only. A size below
 *   the library's own, or above 4096, is -EINVAL.
 */
#ifndef HUGEPIN_H
#define HUGEPIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HUGEPIN_VERSION_MAJOR	0
#define HUGEPIN_VERSION_MINOR	1
#define HUGEPIN_VERSION_PATCH	0

/** hugepin_version - version of the library at run time, "0.1.0". Static. Since: 0.1 */
const char *hugepin_version(void);

/**
 * hugepin_error - what went wrong in this thread's last failed call
 *
 * One line without a newline: the step, asked, available, limit, node, class, runtime code, and what to do next.
 * Ownership: the library's, valid until this thread's next call into it. Empty when nothing has failed yet.
 * Since: 0.1
 */
const char *hugepin_error(void);

/* ---- Log: the library never prints; it tells a callback ---- */

enum hugepin_log_level {
	HUGEPIN_LOG_ERROR = 0,		/* something asked for was not given */
	HUGEPIN_LOG_WARNING = 1,	/* given, but not as asked: a fallback, a node missed; said once per pool and cause */
	HUGEPIN_LOG_INFO = 2,		/* pools and segments come and go */
	HUGEPIN_LOG_DEBUG = 3,
};

/**
 * hugepin_log_set - send log lines to a function
 * @fn:    called with one line without newline, from any thread, possibly with internal locks held: it must not call
 *         into the library. NULL: no log.
 * @arg:   passed to @fn
 * @level: lines above this level are not made
 *
 * Process-wide. Default: no log. Since: 0.1
 */
void hugepin_log_set(void (*fn)(enum hugepin_log_level level, const char *line, void *arg), void *arg,
		     enum hugepin_log_level level);

/* ---- Options: one table describes them all; see Documentation/options.md ---- */

struct hugepin_options;		/* opaque */

/**
 * hugepin_options_create - an option set with every option at its default
 * @out: set on success; the caller's, ended by hugepin_options_destroy()
 *
 * Threads: one thread at a time on one set. Return: 0 or -ENOMEM. Since: 0.1
 */
int hugepin_options_create(struct hugepin_options **out);
void hugepin_options_destroy(struct hugepin_options *options);

/**
 * hugepin_options_set - set one option, source "API"
 * @key:   its name, as in Documentation/options.md, e.g. "pinned_ladder" or "variable_use_1g_huge_page"
 * @value: its value as text; numbers are read the same under every locale
 *
 * Return: 0, or -ENOENT (no such option), -EINVAL (does not parse, out of range), -ENOMEM. hugepin_error() then has
 * the option, the value, the range and the source. The set is unchanged. Since: 0.1
 */
int hugepin_options_set(struct hugepin_options *options, const char *key, const char *value);

/**
 * hugepin_options_load_file - read "key = value" lines; '#' at the start of one or behind a blank starts a comment
 *
 * All or nothing: one bad line and the set is unchanged; hugepin_error() has "file:line". An unknown key is an error.
 * Options set by the environment or the API keep their value whatever the order of calls: defaults < file <
 * environment < API. A file whose name ends in ".pbtxt" or ".textproto" is read as hugepin_options_load_proto() reads
 * its text.
 *
 * Return: 0, -errno of open and read, -EINVAL, -ENOENT (unknown key), -ENOMEM. Since: 0.1
 */
int hugepin_options_load_file(struct hugepin_options *options, const char *path);

/**
 * hugepin_options_load_proto - read TensorFlow's GPUOptions from the text form of a protocol buffer, source "API"
 * @text:  "gpu_options { allow_growth: true }", with that message around the fields, "config { }" around it, or neither
 * @where: what errors and listings call the text, followed by ":line"; NULL: "API"
 *
 * All or nothing. A field that hugepin does not have, a message within gpu_options, or a field that stands there twice
 * is refused with its line.
 *
 * Return: 0, -EINVAL, -ENOENT (unknown field), -ENOMEM. Since: 0.1
 */
int hugepin_options_load_proto(struct hugepin_options *options, const char *text, const char *where);

/**
 * hugepin_options_load_environment - read HUGEPIN_<OPTION> for hugepin's own and FLAGS_<option> for Paddle's names
 *
 * An unknown FLAGS_ variable is ignored (Paddle has many others), an unknown HUGEPIN_ variable is an error.
 * HUGEPIN_CONFIG names a file that is read first. All or nothing. In a set-user-ID program the environment is ignored.
 *
 * Return: as hugepin_options_load_file(). Since: 0.1
 */
int hugepin_options_load_environment(struct hugepin_options *options);

/** struct hugepin_option_info - one option as it stands in a set; strings are the set's, valid until it changes */
struct hugepin_option_info {
	size_t size;
	const char *name;
	const char *dialect;		/* "hugepin", "paddle", "tensorflow", "ascend" */
	const char *type;		/* "bool", "int", "uint", "double", "bytes", "choice", "string", "list" */
	const char *unit;		/* "", "MB", "bytes", ... */
	const char *default_value;
	const char *min;		/* "" where there is none */
	const char *max;
	const char *choices;		/* "a|b|c", or "" */
	const char *value;		/* in force */
	const char *source;		/* "default", "file:line", "environment", "API", "text:line" */
	const char *doc;
	const char *environment;	/* the variable that sets it */
};

/**
 * hugepin_options_get - one option by name;  hugepin_options_at - by position, 0 on, until -ENOENT
 * @info: @info->size is set by the caller
 *
 * Return: 0, -ENOENT, -EINVAL (size). Since: 0.1
 */
int hugepin_options_get(const struct hugepin_options *options, const char *key, struct hugepin_option_info *info);
int hugepin_options_at(const struct hugepin_options *options, size_t position, struct hugepin_option_info *info);

/* ---- Context: options in force, topology, runtime, registry ---- */

struct hugepin_context;		/* opaque */

/**
 * hugepin_context_create - read the machine and check the options against it
 * @options: copied; NULL for the defaults plus the environment
 * @out:     set on success; the caller's, ended by hugepin_context_destroy()
 *
 * Opens /dev/hugepin or the hugepinfs mount when there is one, and loads the runtime that the option "runtime" names
 * ("auto": the first that is there). Nothing is allocated or registered.
 *
 * Return: 0, -EINVAL (an option does not fit this machine), -ENODEV (a node or runtime asked for by name is not
 * there), -ENOMEM; with NULL also what hugepin_options_load_environment() returns. Since: 0.1
 */
int hugepin_context_create(const struct hugepin_options *options, struct hugepin_context **out);

/** hugepin_context_destroy - Return: 0, or -EBUSY while it has pools, regions or pins. NULL is 0. Since: 0.1 */
int hugepin_context_destroy(struct hugepin_context *ctx);

/* ---- Page size classes, nodes, reports ---- */

enum hugepin_class {
	HUGEPIN_PAGES_BASE = 0,		/* the machine's base pages */
	HUGEPIN_PAGES_2M = 1,
	HUGEPIN_PAGES_1G = 2,
};

#define HUGEPIN_CLASSES_2M	(1u << HUGEPIN_PAGES_2M)
#define HUGEPIN_CLASSES_1G	(1u << HUGEPIN_PAGES_1G)

enum hugepin_provider {
	HUGEPIN_PROVIDER_KMOD = 1,	/* regions of the hugepin module */
	HUGEPIN_PROVIDER_HUGETLB = 2,	/* the kernel's own huge pages */
	HUGEPIN_PROVIDER_BASE = 4,	/* anonymous memory */
	HUGEPIN_PROVIDER_DEVICE = 8,	/* memory of an accelerator */
	HUGEPIN_PROVIDER_THP = 16,	/* the same, on transparent huge pages as far as the kernel gave such */
	HUGEPIN_PROVIDER_RUNTIME = 32,	/* host memory that the accelerator's runtime allocates and pins itself */
};

/**
 * struct hugepin_extent_info - pages of one class on one node
 * @node is -1 where the kernel does not tell.
 */
struct hugepin_extent_info {
	int node;
	enum hugepin_class page_class;
	uint64_t bytes;
};

/* ---- The reserve: what the module holds on this host ---- */

/** struct hugepin_reserve_info - one node's pages of one class; clean + dirty + in_use + quarantined + poisoned = total */
struct hugepin_reserve_info {
	size_t size;
	int node;
	enum hugepin_class page_class;
	uint64_t asked_pages;		/* what was last asked for */
	uint64_t total_pages;
	uint64_t clean_pages;		/* free, zeroed */
	uint64_t dirty_pages;		/* free, to be zeroed */
	uint64_t in_use_pages;
	uint64_t quarantined_pages;	/* region gone, a reference still held */
	uint64_t poisoned_pages;
};

/**
 * hugepin_reserve_at - by position, 0 on, until -ENOENT; ordered by node, then 1G before 2M
 * Each entry is one snapshot. Return: 0, -ENOENT, -ENODEV (no module here), -EACCES, -EINVAL (size). Since: 0.1
 */
int hugepin_reserve_at(struct hugepin_context *ctx, size_t position, struct hugepin_reserve_info *info);

/**
 * hugepin_reserve_set - make the reserve of one node and class hold @pages, faulty ones not counted
 * @got: set to what it holds so afterwards, also on failure; NULL if the caller does not care
 *
 * Needs the right to write the module's knobs (root). Can take long; a signal ends it with -EINTR. A shortfall keeps
 * what was got: it is for the caller to give it back.
 *
 * Return: 0, -ENOMEM (short: hugepin_error() has asked and got), -EBUSY (pages in use cannot be given back), -ERANGE
 * (more than the node could ever hold), -EINTR, -EACCES, -EROFS, -ENODEV (no module, node or class). Since: 0.1
 */
int hugepin_reserve_set(struct hugepin_context *ctx, int node, enum hugepin_class page_class, uint64_t pages,
			uint64_t *got);

/** hugepin_class_absent - NULL if the module has the class, else why not; static text. Since: 0.1 */
const char *hugepin_class_absent(struct hugepin_context *ctx, enum hugepin_class page_class);

/* ---- Regions: the module's memory as files (needs the module) ---- */

struct hugepin_region;		/* opaque */

#define HUGEPIN_REGION_FALLBACK	(1u << 0)	/* 2M pages where 1G pages are short; else a shortfall is an error */

enum hugepin_policy {
	HUGEPIN_NODES_BIND = 0,
	HUGEPIN_NODES_INTERLEAVE = 1,
	HUGEPIN_NODES_PREFERRED = 2,
};

/**
 * struct hugepin_region_request - what region to make
 * @size:    sizeof(struct hugepin_region_request)
 * @flags:   OR of HUGEPIN_REGION_*
 * @bytes:   > 0; rounded up to the smallest class allowed
 * @classes: OR of HUGEPIN_CLASSES_*; 0 for both (1G is left out silently only where the kernel has no such class)
 * @policy:  how @nodes is used
 * @nodes:   list such as "0", "0-3,8"; NULL for every node that this thread may use and that has memory
 * @name:    NULL: the region dies with its last user. Else a name in the hugepinfs mount (option "mount"), or a path
 *           with a slash in any mount of hugepinfs
 * @mode:    permission bits of a named region, 0 for 0600; the umask applies
 */
struct hugepin_region_request {
	size_t size;
	unsigned int flags;
	unsigned int classes;
	uint64_t bytes;
	enum hugepin_policy policy;
	unsigned int mode;
	const char *nodes;
	const char *name;
};

/**
 * hugepin_region_create - take pages from the reserve, all or nothing, zeroed
 * @out: set on success; the caller's, ended by hugepin_region_close()
 *
 * Takes microseconds where the reserve is clean, else the time to zero what is missing.
 * Fork: the descriptor is inherited, see the conventions above.
 *
 * Return: 0, or
 *   -EINVAL      zero bytes, unknown flag, class, policy or node syntax, bad name
 *   -ENODEV      no module here, or a node that does not exist
 *   -EOPNOTSUPP  1G pages asked for alone where the class is absent
 *   -ENOMEM      the reserve is short; hugepin_error() has asked and available per node and class
 *   -EDQUOT      over a limit; hugepin_error() has asked, limit and held
 *   -ENOSPC      the mount has as many names as it may have (nr_names=)
 *   -EEXIST, -ENOENT, -ENOTDIR, -EACCES, -EROFS, -ENAMETOOLONG, -EMFILE, -ENFILE  as open(2)
 *   -EINTR       a fatal signal
 * Since: 0.1
 */
int hugepin_region_create(struct hugepin_context *ctx, const struct hugepin_region_request *request,
			  struct hugepin_region **out);

/**
 * hugepin_region_open - open a named region
 * @name: as in struct hugepin_region_request
 *
 * Return: 0, -ENOENT, -EACCES, -ENODEV (not a region), -ENOMEM. Since: 0.1
 */
int hugepin_region_open(struct hugepin_context *ctx, const char *name, struct hugepin_region **out);

/** hugepin_region_close - drop the handle and its mappings made by hugepin_region_map(); NULL is allowed. Since: 0.1 */
void hugepin_region_close(struct hugepin_region *region);

/** hugepin_region_unlink - remove a name; users of the region keep it. Return: 0 or -errno of unlink(2). Since: 0.1 */
int hugepin_region_unlink(struct hugepin_context *ctx, const char *name);

#define HUGEPIN_MAP_READONLY	(1u << 0)
#define HUGEPIN_MAP_POPULATE	(1u << 1)	/* every entry is made before the call returns */

/**
 * hugepin_region_map - map a part of a region, shared
 * @offset: multiple of 2 MiB
 * @bytes:  multiple of 2 MiB, 0 for all from @offset on
 * @flags:  OR of HUGEPIN_MAP_*
 * @out:    address; the region's, ended by hugepin_region_unmap() or hugepin_region_close()
 *
 * 1G entries are used where the address and the offset allow; the address is chosen so that they do.
 * Return: 0, -EINVAL, -EACCES (for writing, where the region's mode lets this process only read), -ENOMEM. Since: 0.1
 */
int hugepin_region_map(struct hugepin_region *region, uint64_t offset, uint64_t bytes, unsigned int flags, void **out);
int hugepin_region_unmap(struct hugepin_region *region, void *addr);

int hugepin_region_fd(const struct hugepin_region *region);	/* borrowed; mmap(2) and pass it as you like */
uint64_t hugepin_region_bytes(const struct hugepin_region *region);

/**
 * hugepin_region_extents - what was really given
 * @extents: array to fill, or NULL
 * @count:   its length
 * Return: number of extents there are, or -errno. Since: 0.1
 */
int hugepin_region_extents(const struct hugepin_region *region, struct hugepin_extent_info *extents, size_t count);

/**
 * hugepin_region_export - a dma-buf of a part of a region, for drivers that import such
 * @offset: multiple of 2 MiB
 * @bytes:  multiple of 2 MiB, 0 for all from @offset on
 *
 * The dma-buf holds the region by itself: handle, name and process may go before it.
 * Ownership: the descriptor is the caller's to close, and is not kept across exec. Fork: it is inherited.
 *
 * Return: the descriptor, or
 *   -EINVAL      misaligned, or not within the region
 *   -EACCES      the region's mode lets this process only read
 *   -EOPNOTSUPP  a module without it
 *   -EMFILE, -ENFILE, -ENOMEM
 * Since: 0.1
 */
int hugepin_region_export(const struct hugepin_region *region, uint64_t offset, uint64_t bytes);

/* ---- Who holds what: every region and user of the module, whoever made it (needs the module) ---- */

/**
 * struct hugepin_listed_region - one region as it stands; strings and arrays are valid during the visit
 * @path:        below the root of its mount, NULL without a name
 * @path_is_cut: @path is the end of a longer one
 * @id:          a number that no other region has or will have; older ones have smaller ones
 * @dev, @ino:   as stat(2) tells them, and /proc/PID/maps
 * @used_ns:     CLOCK_REALTIME of the last open or mapping; @created_ns: of its making
 * @mappings:    areas that map it, in all processes; each of them is an open file, too
 * @opens:       open files of it
 * @held_bytes:  bytes of its pages that devices, pipes or sockets hold besides; @references: so often
 * @charged_uid: who is charged for it; @uid, @gid, @mode: of the inode
 */
struct hugepin_listed_region {
	size_t size;
	const char *path;
	int path_is_cut;
	unsigned int charged_uid, uid, gid, mode;
	uint64_t id, dev, ino;
	uint64_t bytes, bytes_1g;
	uint64_t created_ns, used_ns;
	uint64_t mappings, opens, held_bytes, references;
	const struct hugepin_extent_info *extents;
	size_t nr_extents;
};

/**
 * hugepin_region_visit - tell every region alive, oldest first
 * @visit: called for each; what it returns, if not 0, ends the visit and is returned
 *
 * By /dev/hugepin all regions of the host, by a mount alone those of that mount. One that comes or goes meanwhile is
 * told once or not. Threads: safe on one @ctx; @visit may call the library.
 *
 * Return: 0, -ENODEV or -EACCES (no module that this process may use), -EOPNOTSUPP (an older module), -ENOMEM, -EINVAL
 * (no @visit). Since: 0.1
 */
int hugepin_region_visit(struct hugepin_context *ctx, int (*visit)(const struct hugepin_listed_region *info, void *arg),
			 void *arg);

/**
 * struct hugepin_listed_user - what one user holds; pages in quarantine are among the held ones
 * @depth: 0, or how many user namespaces deep it is a user; what it holds counts for their owners, too
 */
struct hugepin_listed_user {
	size_t size;
	unsigned int uid, depth;
	uint64_t held_2m_pages, held_1g_pages;
	uint64_t quarantined_2m_pages, quarantined_1g_pages;
	uint64_t pinned_bytes;		/* of its own memory */
};

/** hugepin_user_visit - tell every user that holds something; as hugepin_region_visit(), by /dev/hugepin only. Since: 0.1 */
int hugepin_user_visit(struct hugepin_context *ctx, int (*visit)(const struct hugepin_listed_user *info, void *arg),
		       void *arg);

/* ---- Pinned ranges: keep the caller's own pages resident and unmoving ---- */

struct hugepin_pin;		/* opaque; ended only by hugepin_pin_release() */

#define HUGEPIN_PIN_NEED_KMOD	(1u << 0)	/* an error rather than mlock() */

enum hugepin_pin_kind {
	HUGEPIN_PIN_LOCKED = 0,		/* by mlock(): resident, but the kernel may move the pages */
	HUGEPIN_PIN_KMOD = 1,		/* by the module: they neither go nor move */
};

/**
 * hugepin_pin_range - pin the pages behind a range, all or nothing
 * @ctx:   context; borrowed, must outlive *@out
 * @addr:  first byte, a multiple of the base page size
 * @bytes: length in bytes, > 0, a multiple of the same
 * @flags: OR of HUGEPIN_PIN_*; an unknown bit is refused
 * @out:   set on success, untouched on failure
 *
 * Any memory of the caller's: base pages or huge ones, of whatever provider; a part of a huge page pins all of it.
 * Faults in what is missing, so a large range can take seconds. Without the module it falls back to mlock(), which
 * keeps pages resident but lets the kernel move them; hugepin_pin_kind() tells which one this is. Ranges may overlap:
 * each is held until its own release.
 *
 * Ownership: *@out is the caller's. Unmapping the range first is safe: pages the module has pinned live until release,
 * locked ones go. Threads: safe on one @ctx. Fork: not inherited. Signals: only a fatal one ends it.
 *
 * Return: 0, or
 *   -EINVAL      misaligned, zero length, unknown flag
 *   -EOVERFLOW   @addr + @bytes wraps
 *   -EFAULT      part of the range is not mapped for writing (mlock(): not mapped at all), or cannot be made resident
 *   -EDQUOT      over RLIMIT_MEMLOCK; hugepin_error() has asked, held and limit. The module counts what all processes of
 *                the user have pinned, mlock() what this process has locked
 *   -EBUSY       a page cannot be moved to where it may stay
 *   -EOPNOTSUPP  HUGEPIN_PIN_NEED_KMOD without a usable module; memory of a kind that cannot be pinned
 *   -EMFILE, -ENFILE, -ENOMEM
 * hugepin_error() then names the step, for this thread.
 *
 * Since: 0.1
 */
int hugepin_pin_range(struct hugepin_context *ctx, void *addr, uint64_t bytes, unsigned int flags,
		      struct hugepin_pin **out);

/** hugepin_pin_release - let the pages go, unless a dma-buf still holds them; NULL is allowed. Since: 0.1 */
void hugepin_pin_release(struct hugepin_pin *pin);

/** hugepin_pin_kind - what hugepin_pin_range() gave. Since: 0.1 */
enum hugepin_pin_kind hugepin_pin_kind(const struct hugepin_pin *pin);

/**
 * hugepin_pin_export - a dma-buf of a part of a pinned range
 * @offset: from the range's first byte, a multiple of the base page size
 * @bytes:  multiple of the same, 0 for all from @offset on
 *
 * As hugepin_region_export(), for which the range may be released and unmapped as well; what is pinned stays charged
 * until the dma-buf is gone. It cannot be mapped: the memory is the caller's, and is mapped there.
 * Return: the descriptor, or what hugepin_region_export() returns; -EOPNOTSUPP also for HUGEPIN_PIN_LOCKED. Since: 0.1
 */
int hugepin_pin_export(const struct hugepin_pin *pin, uint64_t offset, uint64_t bytes);

/* ---- Pools ---- */

struct hugepin_pool;		/* opaque */

enum hugepin_pool_kind {
	HUGEPIN_POOL_HOST = 0,		/* plain memory on huge pages */
	HUGEPIN_POOL_PINNED = 1,	/* registered with the runtime */
	HUGEPIN_POOL_VARIABLE = 2,	/* variables and constants; named ones survive the process */
	HUGEPIN_POOL_DEVICE = 3,	/* memory of an accelerator, which the CPU cannot touch */
};

/**
 * hugepin_pool_create - a pool of a kind, as the context's options say
 *
 * Memory is taken when it is first needed. Options read: <kind>_ladder, <kind>_cap, node_policy, the dialects' own.
 * @out: set on success; the caller's, ended by hugepin_pool_destroy()
 *
 * Return: 0, -EINVAL, -ENOMEM, -ENODEV (nothing on the ladder exists here). Since: 0.1
 */
int hugepin_pool_create(struct hugepin_context *ctx, enum hugepin_pool_kind kind, struct hugepin_pool **out);

/**
 * hugepin_pool_create_on - a pool of a device, or of host memory next to it
 * @device: its number: as the runtime's, or a position in visible_device_list
 *
 * Of kind HUGEPIN_POOL_DEVICE the pool's memory is the device's: blocks are device addresses, for kernels and copies.
 * HUGEPIN_ALLOC_ZERO and moves by hugepin_realloc() are done by the runtime, and have ended on return. 2M pages; on an
 * NPU what variable_use_1g_huge_page says. per_process_gpu_memory_fraction and device_cap are caps. Any other kind is
 * placed on the node next to the device, whatever node_policy says.
 *
 * The program must have initialised the runtime, and have a context on the device for as long as the pool has memory.
 * hugepin_pool_create() takes device 0 for a device pool.
 *
 * Return: as hugepin_pool_create(); -ENODEV (no such device), -EIO (no context of the program there), -EOPNOTSUPP (the
 * runtime gives no memory of devices). Since: 0.1
 */
int hugepin_pool_create_on(struct hugepin_context *ctx, enum hugepin_pool_kind kind, int device,
			   struct hugepin_pool **out);

/**
 * hugepin_pool_destroy - give everything back
 *
 * Waits for the fences of blocks that were freed behind such.
 * Return: 0, or -EBUSY while blocks are in use (hugepin_error() has count and bytes), a scope or plan is open, or a
 * capture forbids waiting, or -EIO when a runtime refused to unregister or to record a fence: then that memory stays
 * mapped and booked. NULL is 0. Since: 0.1
 */
int hugepin_pool_destroy(struct hugepin_pool *pool);

#define HUGEPIN_ALLOC_ZERO	(1u << 0)	/* all bytes zero; free of cost on memory that is known to be zero */
#define HUGEPIN_ALLOC_CLEAN	(1u << 1)	/* in plans only: zero, and again after each hugepin_pool_clean() */

/**
 * hugepin_alloc - take a block
 * @bytes: 0 gives a unique pointer that must not be dereferenced and takes no memory
 * @flags: OR of HUGEPIN_ALLOC_*
 *
 * Aligned to 64 bytes. Resident: touching it never raises SIGBUS. Bytes are unspecified without HUGEPIN_ALLOC_ZERO.
 * Ownership: the pool's, until hugepin_free().
 *
 * Return: the block, or NULL with errno ENOMEM (ladder exhausted, over the pool's cap or over RLIMIT_MEMLOCK), EDQUOT,
 * EINVAL (unknown flag), EIO (the runtime refused to register), EPERM (child of a fork). Since: 0.1
 */
void *hugepin_alloc(struct hugepin_pool *pool, size_t bytes, unsigned int flags);

/** hugepin_alloc_aligned - the same; @alignment is a power of two up to 1 GiB, else EINVAL; ENOMEM beyond. Since: 0.1 */
void *hugepin_alloc_aligned(struct hugepin_pool *pool, size_t alignment, size_t bytes, unsigned int flags);

/**
 * hugepin_realloc - change a block's size, in place where possible
 *
 * NULL as @ptr allocates; 0 as @bytes gives a block of no bytes. Shrinking, to 0 as well, always succeeds. On failure
 * NULL, and the old block is intact. Alignment beyond 64 bytes is kept only in place. Since: 0.1
 */
void *hugepin_realloc(struct hugepin_pool *pool, void *ptr, size_t bytes);

/**
 * hugepin_free - give a block back; NULL is allowed
 *
 * The memory may be used again at once: nothing (no device either) may still use it. Safe in any thread.
 * Return: 0, or -EINVAL: not a block of this pool, or freed already. Since: 0.1
 */
int hugepin_free(struct hugepin_pool *pool, void *ptr);

/**
 * hugepin_free_after - give a block back that a device may still use
 * @streams: handles of the runtime's streams (CUstream, aclrtStream, hipStream_t), NULL for the default one; at most
 * 1024
 * @count:   0: the caller does not know which
 *
 * The block is used again only after the work that these streams were given so far has passed; without streams, the
 * work of all of them on every device in whose context the program works. Until then it counts as deferred. Fences of
 * blocks freed without streams are gathered (option deferred_deletion_bytes). The streams may be destroyed right after
 * the call; one that is being captured only when its capture has ended and hugepin_pool_drain() has returned.
 *
 * Work captured into a graph is not work given: what a graph uses may be freed once its last launch has been given.
 * While a stream is being captured, blocks wait for the capture to end. CUDA tells of captures of a stream that is
 * named, and of blocking streams; one of a non-blocking stream, a free that names no stream may break: name it.
 *
 * Runtimes without devices (none), and one that is shutting down at exit, have nothing to wait for. When a fence cannot
 * be recorded the block waits until one over all work can: it is never used early.
 *
 * Return: 0, or the block stays in use: -EINVAL (not a block of this pool, freed already, not a stream), -ENOMEM (also:
 * no memory to remember that a stream is being captured). Since: 0.1
 */
int hugepin_free_after(struct hugepin_pool *pool, void *ptr, void *const *streams, size_t count);

/**
 * hugepin_alloc_on - take a block that will be used by work given to @stream from now on, and by nothing else before
 * that
 *
 * As hugepin_alloc(), but a block freed after that same stream alone may be given at once, since the stream keeps the
 * order. Only the stream may write to it until that work has passed, the CPU must not. Not with HUGEPIN_ALLOC_ZERO, and
 * not where the option FLAGS_fast_eager_deletion_mode is false: then it waits for its fence like every other.
 * @stream must not have been destroyed since, and another made with its handle.
 * Since: 0.1
 */
void *hugepin_alloc_on(struct hugepin_pool *pool, size_t bytes, unsigned int flags, void *stream);

/**
 * hugepin_pool_poll - look whether fences have passed, and let the blocks behind them go on
 *
 * Nobody need call this: a thread of the context looks (options polling_*), and so does an allocation that finds no
 * room.
 * Return: bytes still behind fences, or -EPERM (child of a fork). Since: 0.1
 */
int64_t hugepin_pool_poll(struct hugepin_pool *pool);

/**
 * hugepin_pool_drain - wait until no block of the pool is behind a fence
 *
 * Takes as long as the devices' work does. hugepin_pool_destroy() does this first.
 * Return: 0, -EBUSY (a stream is being captured, so nothing can be waited for now), -EIO (the runtime refuses to record
 * a fence, or to tell of any: a device is in error), -EPERM. Since: 0.1
 */
int hugepin_pool_drain(struct hugepin_pool *pool);

/**
 * hugepin_pool_trim - give wholly free segments back to where they came from
 * @keep_bytes: stop once no more than this is mapped
 * Return: bytes given back, or -errno. Since: 0.1
 */
int64_t hugepin_pool_trim(struct hugepin_pool *pool, uint64_t keep_bytes);

/**
 * struct hugepin_pool_stats - one snapshot: active + cached + deferred + free = mapped
 * @active_bytes:    in blocks the user holds, as rounded
 * @cached_bytes:    freed, kept for quick reuse
 * @deferred_bytes:  freed, waiting for a fence or a batch
 * @free_bytes:      in the arena
 * @mapped_bytes:    in segments
 * @registered_bytes: of these, registered with the runtime (with "none": pinned or locked)
 * @requested_bytes: what the users of the active blocks asked for
 * @wasted_bytes:    active - requested
 * @peak_*:          highest value so far
 */
struct hugepin_pool_stats {
	size_t size;
	uint64_t active_bytes;
	uint64_t cached_bytes;
	uint64_t deferred_bytes;
	uint64_t free_bytes;
	uint64_t mapped_bytes;
	uint64_t registered_bytes;
	uint64_t requested_bytes;
	uint64_t wasted_bytes;
	uint64_t peak_active_bytes;
	uint64_t peak_requested_bytes;
	uint64_t peak_mapped_bytes;
	uint64_t cap_bytes;		/* 0: none */
	uint64_t active_blocks;		/* zero-size ones and variables included */
	uint64_t allocs;
	uint64_t frees;
	uint64_t failed_allocs;
	uint64_t segments;
	uint64_t fallbacks;		/* segments that came from a lower rung of the ladder than the first */
};

/** hugepin_pool_stats_get - @stats->size is set by the caller. Return: 0 or -EINVAL. Since: 0.1 */
int hugepin_pool_stats_get(const struct hugepin_pool *pool, struct hugepin_pool_stats *stats);

/**
 * struct hugepin_segment_info - one segment, as it really is
 * @fd and @offset let another process or stack map the same bytes; @fd is -1 for anonymous memory, borrowed.
 */
struct hugepin_segment_info {
	size_t size;
	void *addr;
	uint64_t bytes;
	enum hugepin_provider provider;
	uint64_t page_bytes;		/* of the smallest page in it */
	uint64_t bytes_1g;
	uint64_t bytes_2m;
	int node;			/* -1: several, or not told */
	int fd;
	uint64_t offset;
	const char *registered;		/* runtime's name; "none": pinned or locked; "": not at all */
};

/** hugepin_pool_segment - by position, 0 on, until -ENOENT; hugepin_block_segment - the one that holds a block.
 *  Since: 0.1 */
int hugepin_pool_segment(const struct hugepin_pool *pool, size_t position, struct hugepin_segment_info *info);
int hugepin_block_segment(const struct hugepin_pool *pool, const void *ptr, struct hugepin_segment_info *info);

/* ---- Scopes: what is taken in one goes back when it closes ---- */

struct hugepin_scope;		/* opaque; ended only by hugepin_scope_close() */

/**
 * hugepin_scope_open - a scope of a pool
 * @out: set on success; the caller's, and the pool cannot be destroyed while it is open
 *
 * Scopes do not know of each other: they may overlap and be closed in any order.
 * Return: 0, -ENOMEM, -EPERM (child of a fork). Since: 0.1
 */
int hugepin_scope_open(struct hugepin_pool *pool, struct hugepin_scope **out);

/**
 * hugepin_scope_alloc - take a block that goes back when the scope closes, unless it has been freed before
 *
 * As hugepin_alloc(). The block may be freed like any other, by any thread; hugepin_realloc() keeps it in its scope.
 * Threads: any number in one scope. Since: 0.1
 */
void *hugepin_scope_alloc(struct hugepin_scope *scope, size_t bytes, unsigned int flags);

/**
 * hugepin_scope_close - give back all blocks that were taken in the scope
 *
 * Nothing, no device either, may still use the blocks that were not freed; those that were freed after streams stay
 * behind their fences. Blocks go back inside the call, or by a thread of the pool's where FLAGS_eager_delete_scope is
 * false. NULL is allowed. Since: 0.1
 */
void hugepin_scope_close(struct hugepin_scope *scope);

/**
 * hugepin_pool_collect - give garbage back now: blocks that were freed but gather (FLAGS_eager_delete_tensor_gb)
 *
 * As a collection does by itself once enough has gathered: of a scope's garbage no more than
 * FLAGS_memory_fraction_of_eager_deletion goes back, and none where FLAGS_eager_delete_tensor_gb is negative. A pool
 * that is short of memory takes back all of it before an allocation fails.
 * Return: bytes that became free, or -EPERM. Since: 0.1
 */
int64_t hugepin_pool_collect(struct hugepin_pool *pool);

/* ---- Groups: parameters next to each other ---- */

/**
 * hugepin_group_alloc - take blocks of these sizes, group by group next to each other
 * @sizes: bytes of each, > 0
 * @count: > 0
 * @flags: OR of HUGEPIN_ALLOC_ZERO
 * @out:   room for @count pointers; unspecified on failure
 *
 * Within a group a block begins at the next multiple of 64 bytes behind the one before. A group has at most
 * FLAGS_fuse_parameter_groups_size blocks and FLAGS_fuse_parameter_memory_size of memory, but one block at least; all
 * are one group where no option of Paddle's is set. Each block is freed by itself, by hugepin_free().
 * Return: 0, or, with nothing taken, -EINVAL and what hugepin_alloc() gives. Since: 0.1
 */
int hugepin_group_alloc(struct hugepin_pool *pool, const uint64_t sizes[], size_t count, unsigned int flags, void *out[]);

/* ---- Plans: the memory of one graph, laid out as static_memory_policy says ---- */

struct hugepin_plan;		/* opaque; ended only by hugepin_plan_end() */

/**
 * hugepin_plan_begin - begin a plan
 * @bytes: what it needs. Policy 2: all that it can have, > 0. 3 and 4: mapped to begin with. 0: not looked at
 * @out:   set on success; the caller's, and the pool cannot be destroyed while it is open
 *
 * Policy 0: its blocks lie anywhere in the pool. 2: plans share one extent, one after the other; if it is too small its
 * pages are given back first and others taken: when those cannot be had the old ones are gone. 3: an extent for each
 * plan that is open, in address space reserved once, that grows at its end. 4: one such extent, shared like that of 2.
 * An extent keeps its pages between plans, until hugepin_pool_trim() or a shortage.
 *
 * Return: 0, -EBUSY (2 and 4: another plan is open, or blocks of the last one wait for a device), -EINVAL, what
 * hugepin_alloc() gives. Since: 0.1
 */
int hugepin_plan_begin(struct hugepin_pool *pool, uint64_t bytes, struct hugepin_plan **out);

/**
 * hugepin_plan_alloc - take a block in a plan
 * @flags: OR of HUGEPIN_ALLOC_ZERO, HUGEPIN_ALLOC_CLEAN
 *
 * Aligned to 64 bytes. It may be freed by hugepin_free(), and is used again within the plan then; hugepin_plan_end()
 * gives back the others. hugepin_realloc() does not take it: EINVAL.
 *
 * HUGEPIN_ALLOC_CLEAN: zero now, and after each hugepin_pool_clean(). With atomic_clean_policy 0 such blocks lie next
 * to each other and keep their place until the plan ends, freed or not; with 1 they lie anywhere, like the others.
 *
 * Return: the block, or NULL with errno as of hugepin_alloc(); ENOMEM also when an extent of fixed size is full. Since:
 * 0.1
 */
void *hugepin_plan_alloc(struct hugepin_plan *plan, size_t bytes, unsigned int flags);

/** hugepin_plan_address, hugepin_plan_bytes - its extent, as mapped now; NULL and 0 under policy 0; in a child of a fork 0
 *  bytes. Since: 0.1 */
void *hugepin_plan_address(const struct hugepin_plan *plan);
uint64_t hugepin_plan_bytes(const struct hugepin_plan *plan);

/**
 * hugepin_plan_end - end a plan and give back its blocks
 *
 * Nothing, no device either, may still use those that were not freed. NULL is allowed. Since: 0.1
 */
void hugepin_plan_end(struct hugepin_plan *plan);

/**
 * hugepin_pool_clean - the beginning of a step: clear the CLEAN blocks of all open plans
 *
 * With atomic_clean_policy 0 in one pass over each plan's; with 1 one by one, those that are in use. What is taken
 * later in the step is cleared then. Nothing may use the blocks meanwhile.
 * Return: bytes cleared, or -EPERM. Since: 0.1
 */
int64_t hugepin_pool_clean(struct hugepin_pool *pool);

/* ---- Growing ahead ---- */

#define HUGEPIN_GROW_BACKGROUND	(1u << 0)	/* return at once; hugepin_pool_wait() has the result */

/**
 * hugepin_pool_grow - map, zero and register memory before it is asked for
 * @bytes: more than there is now, > 0; rounded up to pages of the ladder
 * @flags: OR of HUGEPIN_GROW_*
 *
 * An allocation that fits then neither maps nor registers anything. Done in pieces of 1 GiB, each of use as soon as it
 * is there: in the background also while the rest is still being pinned.
 * Return: 0, -ENOMEM, -EDQUOT, -EIO as hugepin_alloc(), then nothing has come; -EBUSY (it grows in the background
 * already), -EAGAIN (no thread can be started for it), -EINVAL, -EPERM. Since: 0.1
 */
int hugepin_pool_grow(struct hugepin_pool *pool, uint64_t bytes, unsigned int flags);

/**
 * hugepin_pool_wait - wait until the pool does not grow in the background
 * Return: 0, or why the last such growth ended early: what had come by then stays, and hugepin_error() has how much;
 * -EDEADLK (in a callback that this growth has called).
 * Since: 0.1
 */
int hugepin_pool_wait(struct hugepin_pool *pool);

/* ---- Sharing what a pool is made of ---- */

struct hugepin_watch;		/* opaque */

enum hugepin_segment_event {
	HUGEPIN_SEGMENT_CAME = 0,
	HUGEPIN_SEGMENT_GOES = 1,	/* it is in nobody's use any more, and still mapped until the call returns */
};

/**
 * hugepin_segment_watch - be told when segments come and go, to map or register them elsewhere
 * @fn:  called with one segment; @info is good until it returns
 * @out: the caller's, ended by hugepin_segment_unwatch(), or with the pool
 *
 * Begins with the segments there are. One call at a time, from the thread that allocates, grows or trims, without any
 * lock of the library: @fn may allocate and free. It must not trim, destroy, watch or unwatch (-EDEADLK). A segment is
 * told of before or shortly after its first block is given out, and always before it goes.
 *
 * A pool that is watched gives segments back in hugepin_pool_trim() and hugepin_pool_destroy() only; an extent of fixed
 * size (static_memory_policy 2) grows there instead of being replaced. As these and allocations call @fn, they must not
 * be called with a lock held that it takes; freeing never calls it.
 * Return: 0, -EINVAL (no @fn), -ENOMEM, -EDEADLK, -EPERM. Since: 0.1
 */
int hugepin_segment_watch(struct hugepin_pool *pool,
			  void (*fn)(enum hugepin_segment_event event, const struct hugepin_segment_info *info, void *arg),
			  void *arg, struct hugepin_watch **out);

/** hugepin_segment_unwatch - once it returns @fn is not running and is not called again. Return: 0, -EDEADLK. NULL is 0.
 *  Since: 0.1 */
int hugepin_segment_unwatch(struct hugepin_watch *watch);

/** hugepin_pool_of - the pool whose segments have @ptr, or NULL with errno ENOENT, EPERM. Since: 0.1 */
struct hugepin_pool *hugepin_pool_of(struct hugepin_context *ctx, const void *ptr);

/* ---- Looking into a pool ---- */

enum hugepin_block_state {
	HUGEPIN_BLOCK_ACTIVE = 0,	/* a user has it */
	HUGEPIN_BLOCK_CACHED = 1,	/* freed, kept for quick reuse */
	HUGEPIN_BLOCK_DEFERRED = 2,	/* freed, behind a fence, garbage, or in a segment on its way */
	HUGEPIN_BLOCK_FREE = 3,		/* nobody's: a hole */
};

/** struct hugepin_block_info - a block, or the free space between two */
struct hugepin_block_info {
	size_t size;
	void *addr;
	uint64_t bytes;			/* as rounded */
	uint64_t requested_bytes;	/* 0 unless active */
	enum hugepin_block_state state;
};

/**
 * hugepin_pool_each_block - call a function for each block and each hole, in the order of addresses
 * @fn: other than 0 ends the walk and is returned; @info is good until it returns
 *
 * All is as it was at one moment: a copy, taken at the begin. No lock is held: @fn may call the library. Blocks of no
 * bytes and variables are not among them.
 * Return: 0, what @fn returned, -EINVAL (no @fn), -ENOMEM, -EPERM. Since: 0.1
 */
int hugepin_pool_each_block(const struct hugepin_pool *pool, int (*fn)(const struct hugepin_block_info *info, void *arg),
			    void *arg);

enum hugepin_snapshot {
	HUGEPIN_SNAPSHOT_JSON = 0,	/* {"pool", "stats", "segments": [...], "blocks": [...]} with the names of the structs */
	HUGEPIN_SNAPSHOT_SVG = 1,	/* a picture, to scale */
};

/**
 * hugepin_pool_snapshot - what a pool is made of, as text in UTF-8
 * @write: called with piece after piece; a negative value ends it
 *
 * One moment, no lock held, as hugepin_pool_each_block(). Return: 0, -EINVAL (format, no @write), -ENOMEM, -EPERM, what
 * @write returned. Since: 0.1
 */
int hugepin_pool_snapshot(const struct hugepin_pool *pool, enum hugepin_snapshot format,
			  int (*write)(const char *text, size_t length, void *arg), void *arg);

/* ---- Many blocks at once, and blocks of one size ---- */

/**
 * hugepin_usable_bytes - all that may be used of a block
 * @ptr: a block of @pool, but not a plan's
 *
 * What rounding has added becomes part of the block: it counts as asked for from now on, and hugepin_realloc() keeps
 * it.
 * Return: bytes, 0 for a block of no bytes; 0 also for what is no block, with hugepin_error() set. Since: 0.1
 */
uint64_t hugepin_usable_bytes(struct hugepin_pool *pool, void *ptr);

/**
 * hugepin_alloc_batch - take @count blocks of @bytes each, all or nothing
 * @flags: OR of HUGEPIN_ALLOC_*, as for hugepin_alloc()
 * @out:   room for @count addresses; untouched on failure
 *
 * Return: 0, or -errno as of hugepin_alloc(), and -ENOMEM without memory for the list. Since: 0.1
 */
int hugepin_alloc_batch(struct hugepin_pool *pool, size_t bytes, size_t count, unsigned int flags, void *out[]);

/**
 * hugepin_free_batch - give @count blocks back, all or nothing
 *
 * Return: 0; -EINVAL: one is not a block of this pool, is freed already, or is named twice; -ENOMEM: no memory to check
 * them. None is freed then. Since: 0.1
 */
int hugepin_free_batch(struct hugepin_pool *pool, void *const ptrs[], size_t count);

struct hugepin_blocks;		/* opaque: blocks of one size, such as a key-value cache's */

/**
 * hugepin_blocks_create - @count blocks of one size, back to back in one block of @pool
 * @block_bytes: > 0; rounded up to 64
 * @count:       > 0, below 2^32
 * @out:         set on success; the caller's, ended by hugepin_blocks_destroy() before the pool
 *
 * All memory is taken at once. Threads: safe. Fork: see the conventions above.
 * Return: 0, -EINVAL, or -errno as of hugepin_alloc(). Since: 0.1
 */
int hugepin_blocks_create(struct hugepin_pool *pool, uint64_t block_bytes, size_t count, struct hugepin_blocks **out);

/** hugepin_blocks_destroy - Return: 0, or -EBUSY while blocks are taken. NULL is 0. Since: 0.1 */
int hugepin_blocks_destroy(struct hugepin_blocks *blocks);

/** hugepin_blocks_take - @count of them, or none: 0, -ENOMEM (not so many are free). Contents are unspecified. Since: 0.1 */
int hugepin_blocks_take(struct hugepin_blocks *blocks, size_t count, void *out[]);

/** hugepin_blocks_give - all or none back: 0, -EINVAL (one is not of these, not taken, or named twice). Since: 0.1 */
int hugepin_blocks_give(struct hugepin_blocks *blocks, size_t count, void *const ptrs[]);

struct hugepin_blocks_stats {
	size_t size;
	uint64_t block_bytes;		/* as rounded */
	uint64_t count;
	uint64_t free;
};

/** hugepin_blocks_stats - @stats->size is set by the caller. Return: 0 or -EINVAL. Since: 0.1 */
int hugepin_blocks_stats(struct hugepin_blocks *blocks, struct hugepin_blocks_stats *stats);

/* ---- Variables: blocks with a name, kept by the module for the restart ---- */

struct hugepin_variable;	/* opaque */

/**
 * hugepin_variable_open - find the variable a former process left, contents and all, or make it, zeroed
 * @pool:  of kind HUGEPIN_POOL_VARIABLE
 * @name:  as in struct hugepin_region_request
 * @bytes: > 0; an existing variable must have this size, rounded up to 2 MiB or to a page of the ladder
 * @found: set to 1 if it was there, 0 if it was made; NULL if the caller does not care
 *
 * The page size is what variable_ladder or variable_use_1g_huge_page says, of the module's rungs. Needs the module.
 * Return: 0, -EEXIST (there, but of another size), -ENODEV, and what hugepin_region_create() returns. Since: 0.1
 */
int hugepin_variable_open(struct hugepin_pool *pool, const char *name, uint64_t bytes, int *found,
			  struct hugepin_variable **out);
void *hugepin_variable_address(const struct hugepin_variable *variable);
uint64_t hugepin_variable_bytes(const struct hugepin_variable *variable);
const struct hugepin_region *hugepin_variable_region(const struct hugepin_variable *variable);

/** hugepin_variable_close - unmap; the name and the contents stay until hugepin_region_unlink(). Since: 0.1 */
void hugepin_variable_close(struct hugepin_variable *variable);

#ifdef __cplusplus
}
#endif

#endif /* HUGEPIN_H */
