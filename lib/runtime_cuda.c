// SPDX-License-Identifier: MIT
/*
 * Runtime cuda: host memory registered through the CUDA driver API, of libcuda.so.1 as it is on the machine.
 *
 * - cuInit is never called and no context is ever made. A process that has initialised CUDA cannot use it in its
 *   forked children, so that is the program's to decide; registration is possible once the program has a context. The
 *   thread's current one is used, else the primary context of the first device that has an active one.
 * - The driver API keeps no "last error": a failure here cannot surface in an innocent cudaGetLastError() of the
 *   program, as one of cudaHostRegister() does.
 * - Registering is what CUDA calls an unsafe call during stream capture: it would break a capture under way in
 *   another thread of the program. The calling thread's capture mode is relaxed for the time of our calls.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "cuda.h"

/*
 * One call of 512 GiB fails on drivers from r580 on (a table of 16 bytes a base page in one allocation); half of that
 * is safe on all and a multiple of every page size.
 */
#define REGISTER_MAX	HPI_GIB(256)

struct hpi_cuda hpi_cu;

/* All of CUDA 11.0. */
static const struct {
	const char *name;
	void **function;
} symbols[] = {
	{ "cuCtxGetCurrent", (void **)&hpi_cu.ctx_get_current },
	{ "cuCtxPushCurrent_v2", (void **)&hpi_cu.ctx_push },
	{ "cuCtxPopCurrent_v2", (void **)&hpi_cu.ctx_pop },
	{ "cuCtxGetDevice", (void **)&hpi_cu.ctx_get_device },
	{ "cuCtxSynchronize", (void **)&hpi_cu.ctx_synchronize },
	{ "cuDeviceGetCount", (void **)&hpi_cu.device_count },
	{ "cuDeviceGet", (void **)&hpi_cu.device_get },
	{ "cuDeviceGetPCIBusId", (void **)&hpi_cu.device_pci },
	{ "cuDeviceTotalMem_v2", (void **)&hpi_cu.device_total },
	{ "cuDevicePrimaryCtxGetState", (void **)&hpi_cu.primary_state },
	{ "cuDevicePrimaryCtxRetain", (void **)&hpi_cu.primary_retain },
	{ "cuDevicePrimaryCtxRelease_v2", (void **)&hpi_cu.primary_release },
	{ "cuMemHostRegister_v2", (void **)&hpi_cu.host_register },
	{ "cuMemHostUnregister", (void **)&hpi_cu.host_unregister },
	{ "cuMemHostGetDevicePointer_v2", (void **)&hpi_cu.host_device_pointer },
	{ "cuGetErrorName", (void **)&hpi_cu.error_name },
	{ "cuThreadExchangeStreamCaptureMode", (void **)&hpi_cu.exchange_capture_mode },
	{ "cuStreamCreate", (void **)&hpi_cu.stream_create },
	{ "cuStreamDestroy_v2", (void **)&hpi_cu.stream_destroy },
	{ "cuStreamGetCtx", (void **)&hpi_cu.stream_context },
	{ "cuStreamIsCapturing", (void **)&hpi_cu.stream_capturing },
	{ "cuStreamSynchronize", (void **)&hpi_cu.stream_synchronize },
	{ "cuEventCreate", (void **)&hpi_cu.event_create },
	{ "cuEventDestroy_v2", (void **)&hpi_cu.event_destroy },
	{ "cuEventRecord", (void **)&hpi_cu.event_record },
	{ "cuEventQuery", (void **)&hpi_cu.event_query },
	{ "cuMemGetInfo_v2", (void **)&hpi_cu.mem_info },
	{ "cuMemGetAllocationGranularity", (void **)&hpi_cu.mem_granularity },
	{ "cuMemAddressReserve", (void **)&hpi_cu.mem_reserve },
	{ "cuMemAddressFree", (void **)&hpi_cu.mem_address_free },
	{ "cuMemCreate", (void **)&hpi_cu.mem_create },
	{ "cuMemRelease", (void **)&hpi_cu.mem_release },
	{ "cuMemMap", (void **)&hpi_cu.mem_map },
	{ "cuMemUnmap", (void **)&hpi_cu.mem_unmap },
	{ "cuMemSetAccess", (void **)&hpi_cu.mem_access },
	{ "cuMemsetD8Async", (void **)&hpi_cu.memset_async },
	{ "cuMemcpyDtoDAsync_v2", (void **)&hpi_cu.copy_async },
};

/* ---- loading ---- */

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int load_err;
static char load_text[256];

static int load_symbols(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *reason;
	size_t i;

	if (!driver) {
		reason = dlerror();
		return hpi_error(-ENODEV, "no CUDA driver: %s", reason ? reason : "libcuda.so.1 cannot be loaded");
	}
	for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		*symbols[i].function = dlsym(driver, symbols[i].name);
		if (!*symbols[i].function)
			return hpi_error(-EIO, "the CUDA driver has no %s: it is older than CUDA 11.0",
					 symbols[i].name);
	}
	*(void **)&hpi_cu.ctx_record_event = dlsym(driver, "cuCtxRecordEvent");
	return 0;
}

static void load_first(void)
{
	load_err = load_symbols();
	if (load_err)
		snprintf(load_text, sizeof(load_text), "%s", hugepin_error());
}

static int load(void)
{
	pthread_once(&load_once, load_first);
	return load_err ? hpi_error(load_err, "%s", load_text) : 0;
}

/*
 * The program has the driver already, or the kernel has the device's nodes: /dev/dxg is the one under WSL, nvmap
 * Tegra's.
 */
static bool present(void)
{
	static const char *const nodes[] = { "/dev/nvidiactl", "/dev/nvmap", "/dev/dxg" };
	void *loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	size_t i;

	if (loaded) {
		dlclose(loaded);
		return true;
	}
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		if (!access(nodes[i], F_OK))
			return true;
	return false;
}

/* ---- contexts ---- */

const char *hpi_cuda_name(CUresult code)
{
	const char *name;

	return hpi_cu.error_name(code, &name) == CUDA_SUCCESS ? name : "?";
}

static int no_context(CUresult code)
{
	return hpi_error(
		-EIO, "CUDA: the program has no context to register memory in (code %d); its first CUDA call makes one",
		code);
}

/* The first device's primary context that the program made active; retained, so that it stays. */
static int borrow_primary(struct hpi_runtime_scope *scope, int *code)
{
	int count, i, active;
	unsigned int flags;
	CUdevice device;
	CUcontext ctx;

	*code = hpi_cu.device_count(&count);
	for (i = 0; !*code && i < count; i++) {
		*code = hpi_cu.device_get(&device, i);
		if (!*code)
			*code = hpi_cu.primary_state(device, &flags, &active);
		if (*code || !active)
			continue;
		/*
		 * Should the program reset its device between these two calls, this makes a context, let go at the end.
		 */
		*code = hpi_cu.primary_retain(&ctx, device);
		if (*code)
			break;
		scope->context = ctx;
		scope->device = device;
		return 0;
	}
	if (!*code)
		*code = CUDA_ERROR_INVALID_CONTEXT;
	return no_context(*code);
}

static int begin(struct hpi_runtime_scope *scope, int *code)
{
	CUcontext ctx = NULL;

	*scope = (struct hpi_runtime_scope){ .device = -1 };
	*code = hpi_cu.ctx_get_current(&ctx);
	if (*code == CUDA_ERROR_DEINITIALIZED)
		return hpi_error(-ESHUTDOWN, "CUDA: the driver is shutting down");
	if (*code)
		return no_context(*code);
	if (!ctx)
		return borrow_primary(scope, code);
	scope->context = ctx;
	return 0;
}

/* The thread's own context if it is on that device, else the device's primary context. */
static int begin_on(struct hpi_runtime_scope *scope, int ordinal, int *code)
{
	CUdevice device, current;
	unsigned int flags;
	CUcontext ctx;
	int active;

	*code = hpi_cu.device_get(&device, ordinal);
	if (*code)
		return hpi_error(*code == CUDA_ERROR_DEINITIALIZED ? -ESHUTDOWN : -EIO, "CUDA: device %d: %s (%d)",
				 ordinal, hpi_cuda_name(*code), *code);
	if (!hpi_cu.ctx_get_current(&ctx) && ctx && !hpi_cu.ctx_get_device(&current) && current == device) {
		*scope = (struct hpi_runtime_scope){ .context = ctx, .device = -1 };
		return 0;
	}
	*code = hpi_cu.primary_state(device, &flags, &active);
	if (!*code && active)
		*code = hpi_cu.primary_retain(&ctx, device);
	else if (!*code)
		*code = CUDA_ERROR_INVALID_CONTEXT;
	if (*code)
		return hpi_error(-EIO, "CUDA: the program has no context on device %d (code %d)", ordinal, *code);
	*scope = (struct hpi_runtime_scope){ .context = ctx, .device = device };
	return 0;
}

static int enter(struct hpi_runtime_scope *scope, struct hpi_runtime_thread *thread, int *code)
{
	CUcontext current = NULL;

	thread->pushed = false;
	thread->capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	*code = hpi_cu.ctx_get_current(&current);
	if (!*code && current != scope->context) {
		*code = hpi_cu.ctx_push(scope->context);
		thread->pushed = !*code;
	}
	if (!*code)
		*code = hpi_cu.exchange_capture_mode(&thread->capture_mode);
	if (!*code)
		return 0;
	if (thread->pushed)
		hpi_cu.ctx_pop(&current);
	return hpi_error(-EIO, "CUDA: using the program's context in a thread: %s (%d)", hpi_cuda_name(*code), *code);
}

static void leave(struct hpi_runtime_thread *thread)
{
	CUcontext current;

	hpi_cu.exchange_capture_mode(&thread->capture_mode);
	if (thread->pushed)
		hpi_cu.ctx_pop(&current);
}

static void end(struct hpi_runtime_scope *scope)
{
	if (scope->device >= 0)
		hpi_cu.primary_release(scope->device);
}

/* ---- registration ---- */

static int host_register(void *addr, uint64_t bytes, int *code)
{
	*code = hpi_cu.host_register(addr, bytes, CU_MEMHOSTREGISTER_PORTABLE);
	switch (*code) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
		return hpi_error(-EEXIST, "CUDA: the program has registered a part of it already (code %d)", *code);
	case CUDA_ERROR_OUT_OF_MEMORY:
		return hpi_error(-ENOMEM, "CUDA: %s (%d): the driver could not pin that much in one call",
				 hpi_cuda_name(*code), *code);
	case CUDA_ERROR_INVALID_VALUE:
		return hpi_error(-EINVAL, "CUDA: %s (%d): not memory that the driver can pin", hpi_cuda_name(*code),
				 *code);
	default:
		return hpi_error(-EIO, "CUDA: %s (%d)", hpi_cuda_name(*code), *code);
	}
}

/* The code alone does not say that the process is exiting: then every call answers it. */
static bool is_shutting_down(void)
{
	CUcontext ctx;

	return hpi_cu.ctx_get_current(&ctx) == CUDA_ERROR_DEINITIALIZED;
}

static int host_unregister(void *addr, uint64_t bytes, int *code)
{
	(void)bytes;
	*code = hpi_cu.host_unregister(addr);
	if (*code == CUDA_SUCCESS || (*code == CUDA_ERROR_DEINITIALIZED && is_shutting_down()))
		return 0;
	if (*code == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
		return hpi_error(-ENOENT, "CUDA: %s (%d): its context has been destroyed", hpi_cuda_name(*code), *code);
	return hpi_error(-EIO, "CUDA: %s (%d)", hpi_cuda_name(*code), *code);
}

static int device_pointer(void *addr, uint64_t *device_addr, int *code)
{
	CUdeviceptr pointer;

	*code = hpi_cu.host_device_pointer(&pointer, addr, 0);
	if (*code)
		return hpi_error(*code == CUDA_ERROR_INVALID_VALUE ? -EINVAL : -EIO,
				 "CUDA: the device's address of %p: %s (%d)", addr, hpi_cuda_name(*code), *code);
	*device_addr = pointer;
	return 0;
}

const struct hpi_runtime hpi_runtime_cuda = {
	.name = "cuda",
	.max_register_bytes = REGISTER_MAX,
	.present = present,
	.load = load,
	.begin = begin,
	.enter = enter,
	.leave = leave,
	.end = end,
	.begin_on = begin_on,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.device_pointer = device_pointer,
	.fence_record = hpi_cuda_fence_record,
	.fence_query = hpi_cuda_fence_query,
	.fence_end = hpi_cuda_fence_end,
	.is_capturing = hpi_cuda_is_capturing,
	.device_count = hpi_cuda_device_count,
	.device_read = hpi_cuda_device_read,
	.memory_granule = hpi_cuda_memory_granule,
	.memory_reserve = hpi_cuda_memory_reserve,
	.memory_release = hpi_cuda_memory_release,
	.memory_map = hpi_cuda_memory_map,
	.memory_unmap = hpi_cuda_memory_unmap,
	.memory_set = hpi_cuda_memory_set,
	.memory_copy = hpi_cuda_memory_copy,
};
