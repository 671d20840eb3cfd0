// SPDX-License-Identifier: MIT
/*
 * The malloc family as the program sees it. Small blocks cost one comparison on the way to the C library, two on the
 * way back.
 *
 * The real functions are looked up by the first call, which comes before every constructor; what dlsym() itself asks
 * for meanwhile comes from static memory.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

struct real_malloc real;

static THREAD_LOCAL bool resolving;

/* ---- before dlsym() has answered ---- */

static _Alignas(max_align_t) char early[32768];
static atomic_size_t early_used;

static void *early_alloc(size_t bytes)
{
	size_t need = (bytes + 15) & ~(size_t)15, at;

	if (need < bytes || need > sizeof(early))
		return NULL;
	at = atomic_fetch_add(&early_used, need);
	return at <= sizeof(early) - need ? early + at : NULL;
}

static bool is_early(const void *addr)
{
	return (uintptr_t)addr - (uintptr_t)early < sizeof(early);
}

static void resolve(void)
{
	int saved = errno;

	resolving = true;
	real.calloc = dlsym(RTLD_NEXT, "calloc");
	real.realloc = dlsym(RTLD_NEXT, "realloc");
	real.free = dlsym(RTLD_NEXT, "free");
	real.memalign = dlsym(RTLD_NEXT, "memalign");
	real.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	real.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
	real.usable_size = dlsym(RTLD_NEXT, "malloc_usable_size");
	real.malloc = dlsym(RTLD_NEXT, "malloc");
	/* An allocator that is preloaded behind us registers its fork handlers by now, so that ours comes after it. */
	real.free(real.malloc(1));
	fork_watch();
	resolving = false;
	errno = saved;
}

/* False: called from inside resolve(). Before there is a second thread. */
static inline bool ready(void)
{
	if (__builtin_expect(real.malloc && !resolving, 1))
		return true;
	if (resolving)
		return false;
	resolve();
	return true;
}

static __attribute__((constructor)) void start(void)
{
	ready();
	settings_read();
}

/* ---- taking ---- */

EXPORT void *malloc(size_t bytes)
{
	void *block;

	if (!ready())
		return early_alloc(bytes);
	if (host_wants(bytes)) {
		block = host_take(0, bytes, false);
		if (block)
			return block;
	}
	return real.malloc(bytes);
}

EXPORT void *calloc(size_t n, size_t each)
{
	size_t bytes = 0;
	bool wraps = __builtin_mul_overflow(n, each, &bytes);
	void *block;

	if (!ready())
		return wraps ? NULL : early_alloc(bytes);	/* static memory, used once: still zero */
	if (!wraps && host_wants(bytes)) {
		block = host_take(0, bytes, true);
		if (block)
			return block;
	}
	return real.calloc(n, each);
}

static bool is_power_of_two(size_t n)
{
	return n && !(n & (n - 1));
}

/* An alignment that is none is for the C library to refuse or to correct. */
static void *take_aligned(size_t align, size_t bytes)
{
	return host_wants(bytes) && is_power_of_two(align) ? host_take(align, bytes, false) : NULL;
}

EXPORT void *memalign(size_t align, size_t bytes)
{
	void *block;

	if (!ready())
		return NULL;
	block = take_aligned(align, bytes);
	return block ? block : real.memalign(align, bytes);
}

EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
	void *block;

	if (!ready())
		return NULL;
	block = take_aligned(align, bytes);
	return block ? block : real.aligned_alloc(align, bytes);
}

EXPORT int posix_memalign(void **out, size_t align, size_t bytes)
{
	void *block;

	if (!ready())
		return ENOMEM;
	block = align % sizeof(void *) ? NULL : take_aligned(align, bytes);
	if (!block)
		return real.posix_memalign(out, align, bytes);
	*out = block;
	return 0;
}

EXPORT void *valloc(size_t bytes)
{
	return memalign((size_t)sysconf(_SC_PAGESIZE), bytes);
}

EXPORT void *pvalloc(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (bytes > SIZE_MAX - page) {
		errno = ENOMEM;
		return NULL;
	}
	return memalign(page, round_up(bytes, page));
}

/* ---- giving back and changing ---- */

EXPORT void free(void *addr)
{
	if (__builtin_expect(host_owns(addr), 0))
		host_free(addr);
	else if (!is_early(addr) && ready())
		real.free(addr);
}

/* C23: the C library's own would not know our blocks. */
EXPORT void free_sized(void *addr, size_t bytes);
EXPORT void free_sized(void *addr, size_t bytes)
{
	(void)bytes;
	free(addr);
}

EXPORT void free_aligned_sized(void *addr, size_t align, size_t bytes);
EXPORT void free_aligned_sized(void *addr, size_t align, size_t bytes)
{
	(void)align;
	(void)bytes;
	free(addr);
}

static void *realloc_early(const void *old, size_t bytes)
{
	size_t left = (size_t)(early + sizeof(early) - (const char *)old);
	void *block = malloc(bytes);

	if (block)
		memcpy(block, old, bytes < left ? bytes : left);
	return block;
}

EXPORT void *realloc(void *old, size_t bytes)
{
	if (!old)
		return malloc(bytes);
	if (__builtin_expect(is_early(old), 0))
		return realloc_early(old, bytes);
	if (!ready())
		return NULL;
	if (host_wants(bytes) || host_owns(old))
		return host_realloc(old, bytes);
	return real.realloc(old, bytes);
}

EXPORT void *reallocarray(void *old, size_t n, size_t each)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, each, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

EXPORT size_t malloc_usable_size(void *addr)
{
	if (host_owns(addr))
		return host_bytes(addr);
	if (is_early(addr))
		return (size_t)(early + early_used - (char *)addr);
	return ready() && addr ? real.usable_size(addr) : 0;
}
