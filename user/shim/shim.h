/* SPDX-License-Identifier: MIT */
/*
 * Inside the preload library libhugepin-shim.so. Prototypes are grouped under the file that defines them; a file uses
 * only groups above its own: settings, blocks <- gate <- pool <- fork, real <- host, driver <- cuda, malloc <- report.
 *
 * The shim stands between a program that knows nothing of it and its C library and CUDA runtime. So: what it cannot
 * serve is passed on, never refused; it takes no lock that the program could hold; and it is safe from the program's
 * first allocation, before any constructor, to its last free, after every destructor.
 */
#ifndef HUGEPIN_SHIM_H
#define HUGEPIN_SHIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hugepin.h"

#define EXPORT __attribute__((visibility("default")))

/* initial-exec: the first access must not itself allocate */
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#define MIB(n)	((uint64_t)(n) << 20)

static inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) & ~(to - 1); }	/* no wrap check */

/* ---- settings.c: what `hugepinctl run` asked for, through the environment ---- */

/* Not HUGEPIN_*: those are the library's options, and it refuses one that it does not know. */
#define ENV_THRESHOLD	"HUGEPINCTL_RUN_THRESHOLD"	/* bytes; unset: the malloc family is left alone */
#define ENV_REPORT	"HUGEPINCTL_RUN_REPORT"		/* "-", a path, "" for none; unset: see report.c */
#define ENV_CHILDREN	"HUGEPINCTL_RUN_CHILDREN"	/* "0": programs that this one starts are not hooked */

#define THRESHOLD_MIN	((size_t)64 << 10)

struct settings {
	bool hooking;			/* false: a set-user-ID program, or settings that do not parse */
	atomic_size_t threshold;	/* from here on the malloc family is served; until known, the least it can be */
	const char *report;
};
extern struct settings settings;
void settings_read(void);		/* idempotent; does nothing before there is an environment */
/* The program may have put another file behind the number since it began: that is not written to unasked. */
bool stderr_is_still(void);
/* One write(), of which the program sees nothing: no signal, errno as it was. At worst nothing is written. */
void put_text(int fd, const char *text, size_t length);
/* A line on standard error, without allocating. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- blocks.c: where each block in use begins and how long it is; O(1), no locks ---- */

#define BLOCK_ALIGN	64u		/* blocks begin at multiples of it, and two never in the same 4 KiB */

struct block {
	char *addr;
	size_t bytes;
	unsigned int tag;		/* the owner's, 0 to 255 */
};
/* @spare: NULL, or what keeps this from failing, for a block that cannot be done without. False: no memory. */
struct blocks_spare {
	void *leaf;
};
bool blocks_add(const struct block *block, struct blocks_spare *spare);
bool blocks_spare_get(struct blocks_spare *out);
void blocks_spare_drop(struct blocks_spare *spare);
bool blocks_remove(const void *addr, struct block *out);	/* false: no block begins there. One remover wins. */
bool blocks_at(const void *addr, struct block *out);		/* the one that begins there */
/* The one that holds @addr, and begins at most @most before it. */
bool blocks_around(const void *addr, size_t most, struct block *out);
/* Those that begin in [from, to), by address. */
void blocks_each(const void *from, const void *to, void (*fn)(const struct block *block, void *arg), void *arg);

/* ---- gate.c: every call into the library goes through here ---- */

struct visit {
	int saved_errno, cancel_state;
	bool nested, holds;
};
/*
 * Inside, this thread's own allocations go to the C library, it is not cancelled, and fork() waits. Leaving restores
 * errno: a call that the shim made good has not failed.
 */
void gate_enter(struct visit *visit);
void gate_enter_unheld(struct visit *visit);	/* fork() does not wait: for what may wait for the program's locks */
void gate_leave(const struct visit *visit);
bool gate_inside(void);
bool gate_close(void);			/* waits until nobody is inside; false: this thread is, so it cannot wait */
void gate_open(void);
void gate_reset(void);			/* in a child: as never closed */

/* ---- pool.c: a pool of the library's, made at first need ---- */

enum pool_state {
	POOL_FRESH,
	POOL_MAKING,			/* by a thread; the others do without meanwhile */
	POOL_READY,
	POOL_CLOSED,			/* serves no more, or never did: @reason. What is in use may be given back. */
	POOL_INHERITED,			/* the parent's: what is in use may be used */
};

struct pool {
	enum hugepin_pool_kind kind;
	_Atomic(enum pool_state) state;
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	/* Whatever was served lies in [low, high), and nothing of anybody else does: a pool has one window. */
	atomic_uintptr_t low, high;
	atomic_size_t largest;
	atomic_ullong mapped_seen;
	atomic_size_t short_bytes;	/* what could not be had, until short_end_ms */
	atomic_ullong short_end_ms;
	atomic_ullong served, served_bytes, active_bytes, peak_bytes, given;
	char reason[256];
};
extern struct pool host_pool, pinned_pool;

static inline bool pool_owns(const struct pool *pool, const void *addr)
{
	uintptr_t at = (uintptr_t)addr;

	return at < atomic_load_explicit(&pool->high, memory_order_relaxed) &&
	       at >= atomic_load_explicit(&pool->low, memory_order_relaxed);
}
/* NULL: it cannot be had; nothing has changed. @align: a power of two, BLOCK_ALIGN to 1 GiB. */
void *pool_take(struct pool *pool, size_t align, size_t bytes, unsigned int tag, bool zero);
/* @block has been taken out of the table by the caller, so that nobody else gives it back. */
void pool_give(struct pool *pool, const struct block *block);
void pool_give_after(struct pool *pool, const struct block *block);	/* used again after the devices' work of now */
void pool_untake(struct pool *pool, const struct block *block);	/* the same, as if it had never been served */
void *pool_resize(struct pool *pool, const struct block *block, size_t bytes);	/* NULL: @block is as it was */
void pool_close(struct pool *pool, const char *reason);
void pool_child(void);			/* in a child: nobody is making one */

/* ---- fork.c: a child gets its own copy of what shared pages hold ---- */

struct inheritance {
	uint64_t copied_bytes;		/* in a child: of the parent's blocks */
	pid_t parent;			/* 0: this process is no child */
	bool lost;			/* they could not be copied, and are not there */
};
extern struct inheritance inheritance;
void fork_watch(void);			/* once, before there is a pool */

/* ---- malloc.c: the C library's malloc family, and ours in front of it ---- */

struct real_malloc {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	size_t (*usable_size)(void *);
};
extern struct real_malloc real;

/* ---- host.c: large blocks of the malloc family ---- */

struct host_counters {
	atomic_ullong passed, passed_bytes;	/* large enough, and left to the C library */
	atomic_ullong dropped;			/* in a child: frees of the parent's blocks */
};
extern struct host_counters host_counters;
static inline bool host_wants(size_t bytes)
{
	return bytes >= atomic_load_explicit(&settings.threshold, memory_order_relaxed);
}
static inline bool host_owns(const void *addr) { return pool_owns(&host_pool, addr); }
void *host_take(size_t align, size_t bytes, bool zero);		/* NULL: the C library is to serve it */
void host_free(void *addr);					/* of a block that host_owns() */
size_t host_bytes(const void *addr);
/* realloc() where the old block is ours, or the new one might be. */
void *host_realloc(void *old, size_t bytes);

/* ---- driver.c: the CUDA driver that the program has loaded ---- */

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_CAPTURED_EVENT = 907,
};
bool driver_has_context(void);		/* loaded by the program, and this thread has a context */
bool driver_knows(const void *addr);	/* as pinned host memory */
/*
 * Waits for all work of the thread's context and of every active primary context; makes none. CUDA's code: 900 without
 * waiting while the driver tells of a capture, which waiting would break.
 */
int driver_wait(void);
/* What the program would have called: behind us, or in a library that it loaded for itself. NULL: there is none. */
void *driver_find(const char *name, const char *library);
bool driver_loaded(const char *library);	/* an object of this name, whatever stands behind the name */

/* ---- cuda.c: pinned memory of CUDA's runtime and driver ---- */

enum cuda_entry {
	CUDA_HOST_ALLOC, CUDA_MALLOC_HOST, CU_MEM_HOST_ALLOC, CU_MEM_ALLOC_HOST, CU_MEM_ALLOC_HOST_V2,
	CUDA_FREE_HOST, CU_MEM_FREE_HOST,
	CUDA_HOST_GET_FLAGS, CU_MEM_HOST_GET_FLAGS, CUDA_HOST_UNREGISTER, CU_MEM_HOST_UNREGISTER,
	CUDA_ENTRIES,
};
enum cuda_pass {
	PASS_ARGUMENTS,			/* what only the real function can answer or honour */
	PASS_NO_CONTEXT,
	PASS_NO_MEMORY,
	PASS_CLOSED,
	PASS_REASONS,
};
struct cuda_counters {
	atomic_ullong calls[CUDA_ENTRIES];
	atomic_ullong passed[PASS_REASONS];	/* allocations */
	atomic_ullong foreign;			/* frees of what is not ours */
	atomic_ullong deferred;			/* frees that could not wait for the device, so far */
};
extern struct cuda_counters cuda_counters;
extern const char *const cuda_names[CUDA_ENTRIES];
extern const char *const cuda_pass_names[PASS_REASONS];
void cuda_reset_counters(void);

/* ---- report.c: the line that tells what was done ---- */

void report_reset(void);		/* in a child: nothing has been done so far */

#endif /* HUGEPIN_SHIM_H */
