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
#include <errno.h>
#include <unistd.h>

#include "cuda.h"

/*
 * One call of 512 GiB fails on drivers from r580 on (a table of 16 bytes a base page in one allocation); half of that
 * is safe on all and a multiple of every page size.
 */
#define REGISTER_MAX	HPI_GIB(256)

struct hpi_cuda hpi_cu;

/* CUDA 11.0 has all but the last. */
static const struct hpi_symbol table[] = {
	{ "cuCtxGetCurrent", (void **)&hpi_cu.ctx_get_current, false },
	{ "cuCtxPushCurrent_v2", (void **)&hpi_cu.ctx_push, false },
	{ "cuCtxPopCurrent_v2", (void **)&hpi_cu.ctx_pop, false },
	{ "cuCtxGetDevice", (void **)&hpi_cu.ctx_get_device, false },
	{ "cuCtxSynchronize", (void **)&hpi_cu.ctx_synchronize, false },
	{ "cuDeviceGetCount", (void **)&hpi_cu.device_count, false },
	{ "cuDeviceGet", (void **)&hpi_cu.device_get, false },
	{ "cuDeviceGetPCIBusId", (void **)&hpi_cu.device_pci, false },
	{ "cuDeviceTotalMem_v2", (void **)&hpi_cu.device_total, false },
	{ "cuDevicePrimaryCtxGetState", (void **)&hpi_cu.primary_state, false },
	{ "cuDevicePrimaryCtxRetain", (void **)&hpi_cu.primary_retain, false },
	{ "cuDevicePrimaryCtxRelease_v2", (void **)&hpi_cu.primary_release, false },
	{ "cuMemHostRegister_v2", (void **)&hpi_cu.host_register, false },
	{ "cuMemHostUnregister", (void **)&hpi_cu.host_unregister, false },
	{ "cuMemHostGetDevicePointer_v2", (void **)&hpi_cu.host_device_pointer, false },
	{ "cuGetErrorName", (void **)&hpi_cu.error_name, false },
	{ "cuThreadExchangeStreamCaptureMode", (void **)&hpi_cu.exchange_capture_mode, false },
	{ "cuStreamCreate", (void **)&hpi_cu.stream_create, false },
	{ "cuStreamDestroy_v2", (void **)&hpi_cu.stream_destroy, false },
	{ "cuStreamGetCtx", (void **)&hpi_cu.stream_context, false },
	{ "cuStreamIsCapturing", (void **)&hpi_cu.stream_capturing, false },
	{ "cuStreamSynchronize", (void **)&hpi_cu.stream_synchronize, false },
	{ "cuEventCreate", (void **)&hpi_cu.event_create, false },
	{ "cuEventDestroy_v2", (void **)&hpi_cu.event_destroy, false },
	{ "cuEventRecord", (void **)&hpi_cu.event_record, false },
	{ "cuEventQuery", (void **)&hpi_cu.event_query, false },
	{ "cuMemGetInfo_v2", (void **)&hpi_cu.mem_info, false },
	{ "cuMemGetAllocationGranularity", (void **)&hpi_cu.mem_granularity, false },
	{ "cuMemAddressReserve", (void **)&hpi_cu.mem_reserve, false },
	{ "cuMemAddressFree", (void **)&hpi_cu.mem_address_free, false },
	{ "cuMemCreate", (void **)&hpi_cu.mem_create, false },
	{ "cuMemRelease", (void **)&hpi_cu.mem_release, false },
	{ "cuMemMap", (void **)&hpi_cu.mem_map, false },
	{ "cuMemUnmap", (void **)&hpi_cu.mem_unmap, false },
	{ "cuMemSetAccess", (void **)&hpi_cu.mem_access, false },
	{ "cuMemsetD8Async", (void **)&hpi_cu.memset_async, false },
	{ "cuMemcpyDtoDAsync_v2", (void **)&hpi_cu.copy_async, false },
	{ "cuCtxRecordEvent", (void **)&hpi_cu.ctx_record_event, true },
	{ 0 },
};

/* ---- loading ---- */

static const char *const libraries[] = { "libcuda.so.1", NULL };
static struct hpi_symbols symbols = {
	.what = "CUDA driver",
	.oldest = "CUDA 11.0",
	.libraries = libraries,
	.table = table,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static int load(void)
{
	return hpi_symbols_load(&symbols);
}

/*
 * The program has the driver already, or the kernel has the device's nodes: /dev/dxg is the one under WSL, nvmap
 * Tegra's.
 */
static bool present(void)
{
	static const char *const nodes[] = { "/dev/nvidiactl", "/dev/nvmap", "/dev/dxg" };
	size_t i;

	if (hpi_symbols_are_loaded(&symbols))
		return true;
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
