// SPDX-License-Identifier: MIT
/*
 * The stand-in CUDA driver: the devices and their memory, by virtual memory management and by plain allocation.
 *
 * Device addresses are address space without access, so that a program that touches one faults as it would with a
 * device. The bytes are elsewhere, where only this file knows.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

#define GRANULE		(2ull << 20)

enum { TYPE_PINNED = 1, LOCATION_DEVICE = 1, ACCESS_READWRITE = 3 };

struct pages {				/* what cuMemCreate() gives */
	struct pages *next;
	CUdevice device;
	uint64_t bytes;
	char *alias;			/* where the CPU has them */
	bool held;			/* by the handle */
	unsigned int maps;
};

struct span {				/* of address space: reserved, or mapped */
	struct span *next;
	uintptr_t addr;
	uint64_t bytes;
	struct pages *pages;		/* NULL: a reservation */
	bool access;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pages *all_pages;
static struct span *reservations, *maps;
static uint64_t bytes_each = 1ull << 30;

/* ---- devices ---- */

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device);
EXPORT CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
	CUresult code = context_enter("cuDeviceGetPCIBusId", NULL);

	if (code)
		return code;
	if (!text || size < 13)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(text, (size_t)size, "0000:%02X:00.0", 0x1a + 0x10 * device);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult code = context_enter("cuDeviceTotalMem", NULL);

	if (code)
		return code;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = bytes_each;
	return CUDA_SUCCESS;
}

/* Lock held. */
static uint64_t used_bytes(CUdevice device)
{
	uint64_t used = 0;
	struct pages *p;

	for (p = all_pages; p; p = p->next)
		if (p->device == device)
			used += p->bytes;
	return used;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	CUcontext current;
	CUresult code = context_enter("cuMemGetInfo", &current);

	if (code)
		return code;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!free || !total)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*total = bytes_each;
	*free = bytes_each - used_bytes(context_device(current));
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* ---- address space ---- */

/* Lock held. */
static struct span *span_at(struct span *list, uintptr_t addr, uint64_t bytes)
{
	for (; list; list = list->next)
		if (addr < list->addr + list->bytes && list->addr < addr + bytes)
			return list;
	return NULL;
}

static void take_out(struct span **list, struct span *span)
{
	while (*list != span)
		list = &(*list)->next;
	*list = span->next;
}

static CUresult reserve(uint64_t bytes, uint64_t alignment, struct span **out)
{
	struct span *span = calloc(1, sizeof(*span));
	uint64_t room = bytes + alignment;
	char *p, *at;

	p = span ? mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
	if (p == MAP_FAILED) {
		free(span);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	at = (char *)(((uintptr_t)p + alignment - 1) & ~(alignment - 1));
	if (at > p)
		munmap(p, (size_t)(at - p));
	munmap(at + bytes, (size_t)(p + room - (at + bytes)));
	span->addr = (uintptr_t)at;
	span->bytes = bytes;
	pthread_mutex_lock(&lock);
	span->next = reservations;
	reservations = span;
	pthread_mutex_unlock(&lock);
	*out = span;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr addr,
				    unsigned long long flags);
EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr addr,
				    unsigned long long flags)
{
	CUresult code = context_enter("cuMemAddressReserve", NULL);
	struct span *span;

	(void)addr;		/* a wish */
	if (code)
		return code;
	if (!out || !bytes || bytes % GRANULE || flags || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	code = reserve(bytes, alignment > GRANULE ? alignment : GRANULE, &span);
	if (!code)
		*out = span->addr;
	return code;
}

static CUresult unreserve(uintptr_t addr, uint64_t bytes)
{
	CUresult code = CUDA_SUCCESS;
	struct span *span;

	pthread_mutex_lock(&lock);
	span = span_at(reservations, addr, 1);
	if (!span || span->addr != addr || span->bytes != bytes || span_at(maps, addr, bytes))
		code = CUDA_ERROR_INVALID_VALUE;
	else
		take_out(&reservations, span);
	pthread_mutex_unlock(&lock);
	if (code)
		return code;
	munmap((void *)addr, bytes);
	free(span);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr addr, size_t bytes);
EXPORT CUresult cuMemAddressFree(CUdeviceptr addr, size_t bytes)
{
	CUresult code = context_enter("cuMemAddressFree", NULL);

	return code ? code : unreserve(addr, bytes);
}

/* ---- pages ---- */

static bool is_property(const CUmemAllocationProp *prop)
{
	return prop && prop->type == TYPE_PINNED && prop->location.type == LOCATION_DEVICE &&
	       context_is_device(prop->location.id);
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, int option);
EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, int option)
{
	CUresult code = context_enter("cuMemGetAllocationGranularity", NULL);

	if (code)
		return code;
	if (!bytes || !is_property(prop) || option < 0 || option > 1)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = GRANULE;
	return CUDA_SUCCESS;
}

static CUresult create(CUdevice device, uint64_t bytes, struct pages **out)
{
	struct pages *pages = calloc(1, sizeof(*pages));
	CUresult code = CUDA_SUCCESS;

	if (!pages)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pages = (struct pages){ .device = device, .bytes = bytes, .held = true };
	pthread_mutex_lock(&lock);
	if (bytes > bytes_each - used_bytes(device)) {
		code = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		pages->next = all_pages;
		all_pages = pages;
	}
	pthread_mutex_unlock(&lock);
	if (code) {
		free(pages);
		return code;
	}
	pages->alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pages->alias == MAP_FAILED)
		abort();
	*out = pages;
	return CUDA_SUCCESS;
}

/* Lock held. Pages go with their last user, handle or mapping. */
static void put(struct pages *pages)
{
	struct pages **link;

	if (pages->held || pages->maps)
		return;
	for (link = &all_pages; *link != pages; link = &(*link)->next)
		;
	*link = pages->next;
	munmap(pages->alias, pages->bytes);
	free(pages);
}

/* Lock held. */
static bool is_handle(CUmemGenericAllocationHandle handle)
{
	struct pages *p;

	for (p = all_pages; p && (uintptr_t)p != handle; p = p->next)
		;
	return p && p->held;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
			    unsigned long long flags);
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
			    unsigned long long flags)
{
	CUresult code = context_enter("cuMemCreate", NULL);
	struct pages *pages;

	if (code)
		return code;
	if (!out || !bytes || bytes % GRANULE || !is_property(prop) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!driver_capture_check())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	code = create(prop->location.id, bytes, &pages);
	if (!code)
		*out = (uintptr_t)pages;
	return code;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult code = context_enter("cuMemRelease", NULL);

	if (code)
		return code;
	pthread_mutex_lock(&lock);
	if (is_handle(handle)) {
		((struct pages *)(uintptr_t)handle)->held = false;
		put((struct pages *)(uintptr_t)handle);
	} else {
		code = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

/* ---- mappings ---- */

static CUresult map(uintptr_t addr, uint64_t bytes, CUmemGenericAllocationHandle handle, struct span **out)
{
	struct span *span = calloc(1, sizeof(*span)), *inside;
	CUresult code = CUDA_SUCCESS;

	if (!span)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*span = (struct span){ .addr = addr, .bytes = bytes, .pages = (void *)(uintptr_t)handle };
	pthread_mutex_lock(&lock);
	inside = span_at(reservations, addr, 1);
	if (!inside || addr + bytes > inside->addr + inside->bytes || span_at(maps, addr, bytes) ||
	    !is_handle(handle) || bytes != span->pages->bytes) {
		code = CUDA_ERROR_INVALID_VALUE;
	} else {
		span->pages->maps++;
		span->next = maps;
		maps = span;
	}
	pthread_mutex_unlock(&lock);
	if (code)
		free(span);
	else
		*out = span;
	return code;
}

EXPORT CUresult cuMemMap(CUdeviceptr addr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
			 unsigned long long flags);
EXPORT CUresult cuMemMap(CUdeviceptr addr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
			 unsigned long long flags)
{
	CUresult code = context_enter("cuMemMap", NULL);
	struct span *span;

	if (code)
		return code;
	if (offset || flags || addr % GRANULE || !bytes || bytes % GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	return map(addr, bytes, handle, &span);
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr addr, size_t bytes, const CUmemAccessDesc *access, size_t count);
EXPORT CUresult cuMemSetAccess(CUdeviceptr addr, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
	CUresult code = context_enter("cuMemSetAccess", NULL);
	struct span *span;

	if (code)
		return code;
	if (!access || !count)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	span = span_at(maps, addr, 1);
	if (!span || span->addr != addr || span->bytes != bytes)
		code = CUDA_ERROR_INVALID_VALUE;
	else
		span->access = access->flags == ACCESS_READWRITE;
	pthread_mutex_unlock(&lock);
	return code;
}

static CUresult unmap(uintptr_t addr, uint64_t bytes)
{
	CUresult code = CUDA_SUCCESS;
	struct span *span;

	pthread_mutex_lock(&lock);
	span = span_at(maps, addr, 1);
	if (!span || span->addr != addr || span->bytes != bytes) {
		code = CUDA_ERROR_INVALID_VALUE;
	} else {
		take_out(&maps, span);
		span->pages->maps--;
		put(span->pages);
		free(span);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr addr, size_t bytes);
EXPORT CUresult cuMemUnmap(CUdeviceptr addr, size_t bytes)
{
	CUresult code = context_enter("cuMemUnmap", NULL);

	return code ? code : unmap(addr, bytes);
}

/* ---- plain allocations: space, pages and a mapping of their own ---- */

static CUresult alloc(CUdevice device, uint64_t bytes, CUdeviceptr *out)
{
	struct span *space, *span;
	struct pages *pages;
	CUresult code = create(device, bytes, &pages);

	if (code)
		return code;
	code = reserve(bytes, GRANULE, &space);
	if (!code)
		code = map(space->addr, bytes, (uintptr_t)pages, &span);
	if (!code) {
		span->access = true;
		*out = space->addr;
	}
	pthread_mutex_lock(&lock);
	pages->held = false;
	put(pages);
	pthread_mutex_unlock(&lock);
	return code;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes);
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	CUcontext current;
	CUresult code = context_enter("cuMemAlloc", &current);

	if (code)
		return code;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!driver_capture_check())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return alloc(context_device(current), (bytes + GRANULE - 1) & ~(GRANULE - 1), out);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr addr);
EXPORT CUresult cuMemFree_v2(CUdeviceptr addr)
{
	CUresult code = context_enter("cuMemFree", NULL);

	if (!code && !driver_capture_check())
		code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!code)
		code = memory_unmap(addr);
	return code ? code : memory_unreserve(addr);
}

/* ---- bytes ---- */

/* Where the CPU has device memory, and how much of it lies together. NULL: not there, or no access. Lock held. */
static char *bytes_at(uintptr_t addr, uint64_t *together)
{
	struct span *span = span_at(maps, addr, 1);

	if (!span || !span->access)
		return NULL;
	*together = span->addr + span->bytes - addr;
	return span->pages->alias + (addr - span->addr);
}

/* To or from device memory, or setting it where neither is a buffer. */
static CUresult transfer(CUdeviceptr device, uint64_t bytes, char *to, const char *from, int value)
{
	CUresult code = CUDA_SUCCESS;
	uint64_t now;
	char *at;

	pthread_mutex_lock(&lock);
	for (; bytes; bytes -= now, device += now) {
		at = bytes_at(device, &now);
		if (!at) {
			code = CUDA_ERROR_INVALID_VALUE;
			break;
		}
		now = now < bytes ? now : bytes;
		if (to)
			memcpy(to, at, now), to += now;
		else if (from)
			memcpy(at, from, now), from += now;
		else
			memset(at, value, now);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr addr, unsigned char value, size_t count, CUstream stream);
EXPORT CUresult cuMemsetD8Async(CUdeviceptr addr, unsigned char value, size_t count, CUstream stream)
{
	CUcontext current;
	CUresult code = context_enter("cuMemsetD8Async", &current);

	if (!code)
		code = stream_use(stream, current);
	return code ? code : transfer(addr, count, NULL, NULL, value);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	CUresult code = context_enter("cuMemcpyDtoH", NULL);

	return code ? code : transfer(from, bytes, to, NULL, 0);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	CUresult code = context_enter("cuMemcpyHtoD", NULL);

	return code ? code : transfer(to, bytes, NULL, from, 0);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	CUcontext current;
	CUresult code = context_enter("cuMemcpyDtoHAsync", &current);

	if (!code)
		code = stream_use(stream, current);
	return code ? code : transfer(from, bytes, to, NULL, 0);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	CUcontext current;
	CUresult code = context_enter("cuMemcpyHtoDAsync", &current);

	if (!code)
		code = stream_use(stream, current);
	return code ? code : transfer(to, bytes, NULL, from, 0);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	CUcontext current;
	CUresult code = context_enter("cuMemcpyDtoDAsync", &current);
	char *buffer;

	if (!code)
		code = stream_use(stream, current);
	if (code)
		return code;
	buffer = malloc(bytes ? bytes : 1);
	if (!buffer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	code = transfer(from, bytes, buffer, NULL, 0);
	if (!code)
		code = transfer(to, bytes, NULL, buffer, 0);
	free(buffer);
	return code;
}

/* ---- for the other files ---- */

/* AscendCL knows spans by their address alone. */
static uint64_t span_bytes(struct span *list, uintptr_t addr)
{
	struct span *span;
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	span = span_at(list, addr, 1);
	bytes = span && span->addr == addr ? span->bytes : 0;
	pthread_mutex_unlock(&lock);
	return bytes;
}

CUresult memory_unreserve(uintptr_t addr)
{
	uint64_t bytes = span_bytes(reservations, addr);

	return bytes ? unreserve(addr, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult memory_create(CUdevice device, uint64_t bytes, CUmemGenericAllocationHandle *out)
{
	struct pages *pages;
	CUresult code = create(device, bytes, &pages);

	if (!code)
		*out = (uintptr_t)pages;
	return code;
}

CUresult memory_map(uintptr_t addr, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
	struct span *span;
	CUresult code = map(addr, bytes, handle, &span);

	if (!code)
		span->access = true;
	return code;
}

CUresult memory_unmap(uintptr_t addr)
{
	uint64_t bytes = span_bytes(maps, addr);

	return bytes ? unmap(addr, bytes) : CUDA_ERROR_INVALID_VALUE;
}

bool memory_is_mapped(CUmemGenericAllocationHandle handle)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = is_handle(handle) && ((struct pages *)(uintptr_t)handle)->maps;
	pthread_mutex_unlock(&lock);
	return is;
}

void memory_limit(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	bytes_each = bytes;
	pthread_mutex_unlock(&lock);
}

void memory_reset(void)
{
	struct pages *p;

	while (maps)
		unmap(maps->addr, maps->bytes);
	while (reservations)
		unreserve(reservations->addr, reservations->bytes);
	pthread_mutex_lock(&lock);
	while (all_pages) {
		p = all_pages;
		p->held = false;
		put(p);
	}
	bytes_each = 1ull << 30;
	pthread_mutex_unlock(&lock);
}

void memory_read(struct loopback_ledger *out)
{
	struct pages *p;
	struct span *s;

	pthread_mutex_lock(&lock);
	for (out->device_bytes = 0, p = all_pages; p; p = p->next)
		out->device_bytes += p->bytes;
	for (out->device_reserved_bytes = 0, s = reservations; s; s = s->next)
		out->device_reserved_bytes += s->bytes;
	for (out->device_mapped_bytes = 0, s = maps; s; s = s->next)
		out->device_mapped_bytes += s->bytes;
	pthread_mutex_unlock(&lock);
}
