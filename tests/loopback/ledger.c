// SPDX-License-Identifier: MIT
/*
 * The stand-in CUDA driver: host memory. What is registered or allocated, by whom, and that each registration ends
 * once. What is modelled from where, and what nobody knows, is in README.md.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "driver.h"

struct entry {
	struct entry *next;
	char *addr;
	uint64_t bytes;
	unsigned int flags;
	bool allocated;			/* by cuMemHostAlloc; else registered */
	CUcontext ctx;
	int handle;			/* of the pin */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static struct loopback_ledger book;
static uint64_t inside;			/* calls that are in the driver now */

static void call_begin(void)
{
	pthread_mutex_lock(&lock);
	book.calls++;
	if (++inside > book.most_parallel)
		book.most_parallel = inside;
	pthread_mutex_unlock(&lock);
	driver_delay();
}

static void call_end(void)
{
	pthread_mutex_lock(&lock);
	inside--;
	pthread_mutex_unlock(&lock);
}

/* The entry with any byte of the range. Lock held. */
static struct entry *overlapping(const char *addr, uint64_t bytes)
{
	struct entry *e;

	for (e = entries; e; e = e->next)
		if (addr < e->addr + e->bytes && e->addr < addr + bytes)
			return e;
	return NULL;
}

/* Lock held. */
static CUresult misuse(CUresult code)
{
	book.misuses++;
	return code;
}

static void unlink_entry(struct entry *entry)
{
	struct entry **link = &entries;

	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	if (entry->allocated)
		return;
	book.live--;
	book.live_bytes -= entry->bytes;
}

static void free_entry(struct entry *entry)
{
	pin_end(entry->handle, entry->addr, entry->bytes);
	if (entry->allocated)
		munmap(entry->addr, entry->bytes);
	free(entry);
}

/* ---- for the other files ---- */

/* What a context of the driver had registered ends with it. Entries of a NULL context: all. */
static void drop(CUcontext ctx)
{
	struct entry *e, *next, *gone = NULL;

	pthread_mutex_lock(&lock);
	for (e = entries; e; e = next) {
		next = e->next;
		if (ctx && e->ctx != ctx)
			continue;
		if (!e->allocated)
			book.dropped++;
		unlink_entry(e);
		driver_ledger_line("drop %p %llu", (void *)e->addr, (unsigned long long)e->bytes);
		e->next = gone;
		gone = e;
	}
	pthread_mutex_unlock(&lock);
	for (e = gone; e; e = next) {
		next = e->next;
		free_entry(e);
	}
}

void ledger_drop(CUcontext ctx)
{
	drop(ctx);
}

void ledger_reset(void)
{
	drop(NULL);
	pthread_mutex_lock(&lock);
	book = (struct loopback_ledger){ 0 };
	pthread_mutex_unlock(&lock);
}

void ledger_read(struct loopback_ledger *out)
{
	pthread_mutex_lock(&lock);
	*out = book;
	pthread_mutex_unlock(&lock);
}

bool ledger_covers(const void *addr, uint64_t bytes)
{
	const char *at = addr, *end = at + bytes;
	const struct entry *e = NULL;

	pthread_mutex_lock(&lock);
	while (at < end) {
		e = overlapping(at, 1);
		if (!e)
			break;
		at = e->addr + e->bytes;
	}
	pthread_mutex_unlock(&lock);
	return at >= end;
}

/* ---- registration ---- */

/* Books first, so that two threads never pin the same range, and pins then. */
static CUresult add(char *addr, uint64_t bytes, unsigned int flags, bool allocated, CUcontext ctx)
{
	struct entry *entry = malloc(sizeof(*entry));
	CUresult code = CUDA_SUCCESS;
	int handle;

	if (!entry)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*entry = (struct entry){ .addr = addr, .bytes = bytes, .flags = flags, .allocated = allocated, .ctx = ctx };
	handle = pin_begin(addr, bytes, &code);
	if (handle < 0) {
		free(entry);
		return code;
	}
	entry->handle = handle;
	pthread_mutex_lock(&lock);
	if (overlapping(addr, bytes)) {
		code = misuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	} else {
		entry->next = entries;
		entries = entry;
	}
	if (!code && !allocated) {
		book.registrations++;
		book.live++;
		book.live_bytes += bytes;
		if (bytes > book.largest_bytes)
			book.largest_bytes = bytes;
		driver_ledger_line("register %p %llu", (void *)addr, (unsigned long long)bytes);
	}
	pthread_mutex_unlock(&lock);
	if (code) {
		entry->allocated = false;	/* the caller unmaps */
		free_entry(entry);
	}
	return code;
}

static CUresult do_register(void *addr, size_t bytes, unsigned int flags, CUcontext ctx)
{
	uint64_t limit = driver_limit();
	bool taken;

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!addr || !bytes || flags & ~CU_MEMHOSTREGISTER_KNOWN || (uintptr_t)addr + bytes < bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!driver_capture_check())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	taken = overlapping(addr, bytes);
	if (taken)
		misuse(0);
	pthread_mutex_unlock(&lock);
	/* Before anything is pinned: with locks instead of pins, undoing would unlock the range that is there. */
	if (taken)
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (limit && bytes > limit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return add(addr, bytes, flags, false, ctx);
}

EXPORT CUresult cuMemHostRegister_v2(void *addr, size_t bytes, unsigned int flags);
EXPORT CUresult cuMemHostRegister_v2(void *addr, size_t bytes, unsigned int flags)
{
	CUcontext ctx;
	CUresult code;

	call_begin();
	code = context_enter("cuMemHostRegister", &ctx);
	if (!code)
		code = do_register(addr, bytes, flags, ctx);
	call_end();
	return code;
}

EXPORT CUresult cuMemHostRegister(void *addr, size_t bytes, unsigned int flags);
EXPORT CUresult cuMemHostRegister(void *addr, size_t bytes, unsigned int flags)
{
	return cuMemHostRegister_v2(addr, bytes, flags);
}

/* Takes the entry that begins at @addr out, if it is of the kind asked for. */
static CUresult take(char *addr, bool allocated, struct entry **out)
{
	struct entry *e;
	CUresult code = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	e = overlapping(addr, 1);
	if (!e)
		code = misuse(allocated ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	else if (e->addr != addr || e->allocated != allocated)
		code = misuse(CUDA_ERROR_INVALID_VALUE);
	if (!code) {
		unlink_entry(e);
		if (!allocated)
			book.unregistrations++;
		driver_ledger_line("%s %p", allocated ? "free" : "unregister", (void *)addr);
		*out = e;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

static CUresult end(const char *call, void *addr, bool allocated)
{
	struct entry *entry;
	CUcontext ctx;
	CUresult code;

	call_begin();
	code = context_enter(call, &ctx);
	if (!code && !ctx)
		code = CUDA_ERROR_INVALID_CONTEXT;
	if (!code && !driver_capture_check())
		code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!code)
		code = take(addr, allocated, &entry);
	if (!code)
		free_entry(entry);
	call_end();
	return code;
}

EXPORT CUresult cuMemHostUnregister(void *addr);
EXPORT CUresult cuMemHostUnregister(void *addr)
{
	return end("cuMemHostUnregister", addr, false);
}

/* ---- allocation ---- */

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags);
EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
	CUcontext ctx;
	CUresult code = context_enter("cuMemHostAlloc", &ctx);
	void *addr;

	if (code)
		return code;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || flags & ~CU_MEMHOSTALLOC_KNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytes) {
		*out = NULL;
		return CUDA_SUCCESS;
	}
	addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (addr == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = add(addr, bytes, flags, true, ctx);
	if (code)
		munmap(addr, bytes);
	else
		*out = addr;
	return code;
}

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t bytes);
EXPORT CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
	return cuMemHostAlloc(out, bytes, 0);
}

EXPORT CUresult cuMemFreeHost(void *addr);
EXPORT CUresult cuMemFreeHost(void *addr)
{
	return end("cuMemFreeHost", addr, true);
}

/* ---- questions ---- */

/* Any pointer into an entry; @flags and @start as asked for. */
static CUresult find(const char *call, char *addr, unsigned int *flags)
{
	CUcontext ctx;
	CUresult code = context_enter(call, &ctx);
	struct entry *e;

	if (code)
		return code;
	pthread_mutex_lock(&lock);
	e = overlapping(addr, 1);
	if (e)
		*flags = e->flags | CU_MEMHOST_DEVICEMAP;	/* with unified addresses all is mapped */
	pthread_mutex_unlock(&lock);
	return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *addr);
EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *addr)
{
	return flags ? find("cuMemHostGetFlags", addr, flags) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *addr, unsigned int flags);
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *addr, unsigned int flags)
{
	CUresult code;

	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	code = find("cuMemHostGetDevicePointer", addr, &flags);
	if (!code)
		*out = (uintptr_t)addr;
	return code;
}
