// SPDX-License-Identifier: MIT
/*
 * A stand-in CUDA runtime, as little as the shim's tests need: shared as libcudart.so.12, and static. Like the real one it
 * loads the driver itself, calls it by looked-up addresses, and makes the primary context with a thread's first call.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "cudart.h"

typedef struct CUctx_st *CUcontext;

static struct {
	int (*init)(unsigned int flags);
	int (*device_get)(int *device, int ordinal);
	int (*primary_retain)(CUcontext *ctx, int device);
	int (*primary_reset)(int device);
	int (*ctx_set)(CUcontext ctx);
	int (*ctx_synchronize)(void);
	int (*host_alloc)(void **out, size_t bytes, unsigned int flags);
	int (*free_host)(void *addr);
	int (*get_flags)(unsigned int *flags, void *addr);
	int (*device_pointer)(unsigned long long *out, void *addr, unsigned int flags);
	int (*host_register)(void *addr, size_t bytes, unsigned int flags);
	int (*host_unregister)(void *addr);
} cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUcontext primary;
static _Thread_local int bound;

static void *find(void *driver, const char *name)
{
	void *symbol = dlsym(driver, name);

	if (!symbol)
		abort();
	return symbol;
}

static void start(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int device;

	if (!driver)
		abort();
	*(void **)&cu.init = find(driver, "cuInit");
	*(void **)&cu.device_get = find(driver, "cuDeviceGet");
	*(void **)&cu.primary_retain = find(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&cu.primary_reset = find(driver, "cuDevicePrimaryCtxReset_v2");
	*(void **)&cu.ctx_set = find(driver, "cuCtxSetCurrent");
	*(void **)&cu.ctx_synchronize = find(driver, "cuCtxSynchronize");
	*(void **)&cu.host_alloc = find(driver, "cuMemHostAlloc");
	*(void **)&cu.free_host = find(driver, "cuMemFreeHost");
	*(void **)&cu.get_flags = find(driver, "cuMemHostGetFlags");
	*(void **)&cu.device_pointer = find(driver, "cuMemHostGetDevicePointer_v2");
	*(void **)&cu.host_register = find(driver, "cuMemHostRegister_v2");
	*(void **)&cu.host_unregister = find(driver, "cuMemHostUnregister");
	if (cu.init(0) || cu.device_get(&device, 0) || cu.primary_retain(&primary, device))
		primary = NULL;
}

static int ready(void)
{
	pthread_once(&once, start);
	if (!primary)
		return 3;
	if (!bound && cu.ctx_set(primary))
		return 3;
	bound = 1;
	return 0;
}

int cudaHostAlloc(void **out, size_t bytes, unsigned int flags)
{
	int code = ready();

	return code ? code : cu.host_alloc(out, bytes, flags);
}

/* By the public name, as a library that is not linked -Bsymbolic does: through the shim, which must not count it. */
int cudaMallocHost(void **out, size_t bytes)
{
	return cudaHostAlloc(out, bytes, 0);
}

int cudaFreeHost(void *addr)
{
	int code = ready();

	if (!code)
		code = cu.ctx_synchronize();
	return code || !addr ? code : cu.free_host(addr);
}

int cudaHostGetFlags(unsigned int *flags, void *addr)
{
	int code = ready();

	return code ? code : cu.get_flags(flags, addr);
}

int cudaHostGetDevicePointer(void **out, void *addr, unsigned int flags)
{
	unsigned long long pointer = 0;
	int code = ready();

	if (!code)
		code = cu.device_pointer(&pointer, addr, flags);
	if (!code)
		*out = (void *)pointer;
	return code;
}

int cudaHostRegister(void *addr, size_t bytes, unsigned int flags)
{
	int code = ready();

	return code ? code : cu.host_register(addr, bytes, flags);
}

int cudaHostUnregister(void *addr)
{
	int code = ready();

	return code ? code : cu.host_unregister(addr);
}

/* The primary context ends; the next call of this thread begins another. */
int cudaDeviceReset(void)
{
	int code = ready();

	if (!code)
		code = cu.primary_reset(0);
	if (!code)
		code = cu.primary_retain(&primary, 0);
	bound = 0;
	return code;
}
