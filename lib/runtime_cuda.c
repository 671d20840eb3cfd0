// SPDX-License-Identifier: MIT
/*
 * Runtime cuda: host memory registered through the CUDA driver API, of libcuda.so.1 as it is on the machine.
 *
 * - No header of CUDA is needed: the types and numbers here are those of the CUDA driver API reference, fixed by its
 *   ABI.
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

#include "internal.h"

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,

	CU_MEMHOSTREGISTER_PORTABLE = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

/*
 * One call of 512 GiB fails on drivers from r580 on (a table of 16 bytes a base page in one allocation); half of that
 * is safe on all and a multiple of every page size.
 */
#define REGISTER_MAX	HPI_GIB(256)

static struct {
	CUresult (*ctx_get_current)(CUcontext *ctx);
	CUresult (*ctx_push)(CUcontext ctx);
	CUresult (*ctx_pop)(CUcontext *ctx);
	CUresult (*device_count)(int *count);
	CUresult (*device_get)(CUdevice *device, int ordinal);
	CUresult (*primary_state)(CUdevice device, unsigned int *flags, int *active);
	CUresult (*primary_retain)(CUcontext *ctx, CUdevice device);
	CUresult (*primary_release)(CUdevice device);
	CUresult (*host_register)(void *addr, size_t bytes, unsigned int flags);
	CUresult (*host_unregister)(void *addr);
	CUresult (*error_name)(CUresult code, const char **text);
	CUresult (*exchange_capture_mode)(int *mode);
} cu;

static const struct {
	const char *name;
	void **function;
} symbols[] = {
	{ "cuCtxGetCurrent", (void **)&cu.ctx_get_current },
	{ "cuCtxPushCurrent_v2", (void **)&cu.ctx_push },
	{ "cuCtxPopCurrent_v2", (void **)&cu.ctx_pop },
	{ "cuDeviceGetCount", (void **)&cu.device_count },
	{ "cuDeviceGet", (void **)&cu.device_get },
	{ "cuDevicePrimaryCtxGetState", (void **)&cu.primary_state },
	{ "cuDevicePrimaryCtxRetain", (void **)&cu.primary_retain },
	{ "cuDevicePrimaryCtxRelease_v2", (void **)&cu.primary_release },
	{ "cuMemHostRegister_v2", (void **)&cu.host_register },
	{ "cuMemHostUnregister", (void **)&cu.host_unregister },
	{ "cuGetErrorName", (void **)&cu.error_name },
	{ "cuThreadExchangeStreamCaptureMode", (void **)&cu.exchange_capture_mode },
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

static const char *code_name(CUresult code)
{
	const char *name;

	return cu.error_name(code, &name) == CUDA_SUCCESS ? name : "?";
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

	*code = cu.device_count(&count);
	for (i = 0; !*code && i < count; i++) {
		*code = cu.device_get(&device, i);
		if (!*code)
			*code = cu.primary_state(device, &flags, &active);
		if (*code || !active)
			continue;
		/*
		 * Should the program reset its device between these two calls, this makes a context, let go at the end.
		 */
		*code = cu.primary_retain(&ctx, device);
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
	*code = cu.ctx_get_current(&ctx);
	if (*code == CUDA_ERROR_DEINITIALIZED)
		return hpi_error(-ESHUTDOWN, "CUDA: the driver is shutting down");
	if (*code)
		return no_context(*code);
	if (!ctx)
		return borrow_primary(scope, code);
	scope->context = ctx;
	return 0;
}

static int enter(struct hpi_runtime_scope *scope, struct hpi_runtime_thread *thread, int *code)
{
	CUcontext current = NULL;

	thread->pushed = false;
	thread->capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	*code = cu.ctx_get_current(&current);
	if (!*code && current != scope->context) {
		*code = cu.ctx_push(scope->context);
		thread->pushed = !*code;
	}
	if (!*code)
		*code = cu.exchange_capture_mode(&thread->capture_mode);
	if (!*code)
		return 0;
	if (thread->pushed)
		cu.ctx_pop(&current);
	return hpi_error(-EIO, "CUDA: using the program's context in a thread: %s (%d)", code_name(*code), *code);
}

static void leave(struct hpi_runtime_thread *thread)
{
	CUcontext current;

	cu.exchange_capture_mode(&thread->capture_mode);
	if (thread->pushed)
		cu.ctx_pop(&current);
}

static void end(struct hpi_runtime_scope *scope)
{
	if (scope->device >= 0)
		cu.primary_release(scope->device);
}

/* ---- registration ---- */

static int host_register(void *addr, uint64_t bytes, int *code)
{
	*code = cu.host_register(addr, bytes, CU_MEMHOSTREGISTER_PORTABLE);
	switch (*code) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
		return hpi_error(-EEXIST, "CUDA: the program has registered a part of it already (code %d)", *code);
	case CUDA_ERROR_OUT_OF_MEMORY:
		return hpi_error(-ENOMEM, "CUDA: %s (%d): the driver could not pin that much in one call",
				 code_name(*code), *code);
	case CUDA_ERROR_INVALID_VALUE:
		return hpi_error(-EINVAL, "CUDA: %s (%d): not memory that the driver can pin", code_name(*code), *code);
	default:
		return hpi_error(-EIO, "CUDA: %s (%d)", code_name(*code), *code);
	}
}

/* The code alone does not say that the process is exiting: then every call answers it. */
static bool is_shutting_down(void)
{
	CUcontext ctx;

	return cu.ctx_get_current(&ctx) == CUDA_ERROR_DEINITIALIZED;
}

static int host_unregister(void *addr, uint64_t bytes, int *code)
{
	(void)bytes;
	*code = cu.host_unregister(addr);
	if (*code == CUDA_SUCCESS || (*code == CUDA_ERROR_DEINITIALIZED && is_shutting_down()))
		return 0;
	if (*code == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
		return hpi_error(-ENOENT, "CUDA: %s (%d): its context has been destroyed", code_name(*code), *code);
	return hpi_error(-EIO, "CUDA: %s (%d)", code_name(*code), *code);
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
	.host_register = host_register,
	.host_unregister = host_unregister,
};
