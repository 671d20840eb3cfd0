// SPDX-License-Identifier: MIT
/*
 * What the shim and a runtime ask of a CUDA driver beyond registration, added to the stand-in driver of tests/loopback:
 * waiting for work, attributes of pointers, entry points by name.
 *
 * Work is a thread that writes to host memory for a while, as a copy from a device does.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

/* Weak: should the stand-in get one of its own, that is taken. */
#define STANDIN	EXPORT __attribute__((weak))

enum { CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2, CU_MEMORYTYPE_HOST = 1, CUDA_ERROR_NOT_FOUND = 500 };

struct work {
	volatile char *addr;
	size_t bytes;
	unsigned int ms;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static unsigned int running;

static void *do_work(void *arg)
{
	struct work *work = arg;
	unsigned int ms;
	size_t i;

	for (ms = 0; ms < work->ms; ms++) {
		usleep(1000);
		for (i = 0; i < work->bytes; i += 4096)
			work->addr[i] = 0x55;
	}
	pthread_mutex_lock(&lock);
	running--;
	pthread_cond_broadcast(&done);
	pthread_mutex_unlock(&lock);
	free(work);
	return NULL;
}

EXPORT int standin_work(void *addr, size_t bytes, unsigned int ms);
EXPORT int standin_work(void *addr, size_t bytes, unsigned int ms)
{
	struct work *work = malloc(sizeof(*work));
	pthread_t thread;

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*work = (struct work){ .addr = addr, .bytes = bytes, .ms = ms };
	pthread_mutex_lock(&lock);
	running++;
	pthread_mutex_unlock(&lock);
	if (pthread_create(&thread, NULL, do_work, work))
		abort();
	pthread_detach(thread);
	return CUDA_SUCCESS;
}

STANDIN CUresult cuCtxSynchronize(void);
STANDIN CUresult cuCtxSynchronize(void)
{
	CUcontext current;
	CUresult code = context_enter("cuCtxSynchronize", &current);

	if (code)
		return code;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	while (running)
		pthread_cond_wait(&done, &lock);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

STANDIN CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer);
STANDIN CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer)
{
	CUresult code = context_enter("cuPointerGetAttribute", NULL);

	if (code)
		return code;
	if (!data || attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE || !ledger_covers((void *)pointer, 1))
		return CUDA_ERROR_INVALID_VALUE;
	*(unsigned int *)data = CU_MEMORYTYPE_HOST;
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device);
CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags);
CUresult cuMemFreeHost(void *addr);

STANDIN CUresult cuMemAllocHost(void **out, size_t bytes);
STANDIN CUresult cuMemAllocHost(void **out, size_t bytes)
{
	return cuMemHostAlloc(out, bytes, 0);
}

STANDIN CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t flags);
STANDIN CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
	static const struct {
		const char *name;
		void *function;
	} entries[] = {
		{ "cuInit", (void *)cuInit },
		{ "cuDeviceGet", (void *)cuDeviceGet },
		{ "cuCtxSetCurrent", (void *)cuCtxSetCurrent },
		{ "cuDevicePrimaryCtxRetain", (void *)cuDevicePrimaryCtxRetain },
		{ "cuMemHostAlloc", (void *)cuMemHostAlloc },
		{ "cuMemFreeHost", (void *)cuMemFreeHost },
	};
	size_t i;

	(void)version;
	(void)flags;
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (strcmp(entries[i].name, name))
			continue;
		*out = entries[i].function;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}
