// SPDX-License-Identifier: MIT
/* The stand-in CUDA driver: devices, contexts and each thread's stack of them, errors in words. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver.h"

#define DEVICES_MAX	8
#define STACK_MAX	16
#define DRIVER_VERSION	13000

struct CUctx_st {
	CUdevice device;
	unsigned int refs;		/* of a primary context; active while > 0 */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st primary[DEVICES_MAX];
static bool initialised;
static pid_t initialised_by;		/* in a child of a fork the driver is not initialised, and cannot be */
static unsigned int epoch;		/* a reset empties every thread's stack */

static _Thread_local struct {
	unsigned int epoch;
	size_t depth;
	CUcontext stack[STACK_MAX];
	int capture_mode;
} thread;

static void __attribute__((constructor)) start(void)
{
	unsigned int i;

	for (i = 0; i < DEVICES_MAX; i++)
		primary[i].device = (CUdevice)i;
}

/* control.c's constructor reads the environment, in whatever order: so this is asked at the first call. Lock held. */
static void start_with_context(void)
{
	static bool asked;

	if (asked)
		return;
	asked = true;
	if (driver_starts_with_context()) {
		initialised = true;
		initialised_by = getpid();
		primary[0].refs = 1;
	}
}

CUresult context_enter(const char *call, CUcontext *current)
{
	CUresult code = driver_fault(call);

	pthread_mutex_lock(&lock);
	start_with_context();
	if (thread.epoch != epoch) {
		thread.epoch = epoch;
		thread.depth = 0;
		thread.capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	}
	if (!code && (!initialised || initialised_by != getpid()))
		code = CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_unlock(&lock);
	if (current)
		*current = thread.depth ? thread.stack[thread.depth - 1] : NULL;
	return code;
}

int context_capture_mode(void)
{
	return thread.capture_mode;
}

CUdevice context_device(CUcontext ctx)
{
	return ctx->device;
}

void context_reset(void)
{
	unsigned int i;

	pthread_mutex_lock(&lock);
	start_with_context();
	for (i = 0; i < DEVICES_MAX; i++)
		primary[i].refs = 0;
	initialised = false;
	epoch++;
	pthread_mutex_unlock(&lock);
}

/* ---- start ---- */

EXPORT CUresult cuInit(unsigned int flags);
EXPORT CUresult cuInit(unsigned int flags)
{
	CUresult code = driver_fault("cuInit");

	if (code)
		return code;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!driver_devices())
		return CUDA_ERROR_NO_DEVICE;
	pthread_mutex_lock(&lock);
	start_with_context();
	if (!initialised)
		initialised_by = getpid();
	initialised = true;
	if (initialised_by != getpid())
		code = CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_unlock(&lock);
	return code;
}

EXPORT CUresult cuDriverGetVersion(int *version);
EXPORT CUresult cuDriverGetVersion(int *version)
{
	CUresult code = driver_fault("cuDriverGetVersion");

	if (code)
		return code;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count);
EXPORT CUresult cuDeviceGetCount(int *count)
{
	CUresult code = context_enter("cuDeviceGetCount", NULL);

	if (code)
		return code;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (int)driver_devices();
	return CUDA_SUCCESS;
}

bool context_is_device(CUdevice device)
{
	return device >= 0 && (unsigned int)device < driver_devices();
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal);
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult code = context_enter("cuDeviceGet", NULL);

	if (code)
		return code;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_is_device(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

/* ---- the thread's current context ---- */

EXPORT CUresult cuCtxGetCurrent(CUcontext *ctx);
EXPORT CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	CUcontext current;
	CUresult code = context_enter("cuCtxGetCurrent", &current);

	if (code)
		return code;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = current;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext ctx);
EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CUresult code = context_enter("cuCtxSetCurrent", NULL);

	if (code)
		return code;
	if (thread.depth)
		thread.depth--;
	if (ctx)
		thread.stack[thread.depth++] = ctx;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx);
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	CUresult code = context_enter("cuCtxPushCurrent", NULL);

	if (code)
		return code;
	if (!ctx || thread.depth == STACK_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	thread.stack[thread.depth++] = ctx;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *ctx);
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	CUcontext current;
	CUresult code = context_enter("cuCtxPopCurrent", &current);

	if (code)
		return code;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	thread.depth--;
	if (ctx)
		*ctx = current;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device);
EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	CUcontext current;
	CUresult code = context_enter("cuCtxGetDevice", &current);

	if (code)
		return code;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = current->device;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	CUresult code = context_enter("cuThreadExchangeStreamCaptureMode", NULL);
	int before = thread.capture_mode;

	if (code)
		return code;
	if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread.capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

/* ---- primary contexts ---- */

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	CUresult code = context_enter("cuDevicePrimaryCtxGetState", NULL);

	if (code)
		return code;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	*flags = 0;
	*active = primary[device].refs > 0;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device);
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device)
{
	CUresult code = context_enter("cuDevicePrimaryCtxRetain", NULL);

	if (code)
		return code;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	primary[device].refs++;
	pthread_mutex_unlock(&lock);
	*ctx = &primary[device];
	return CUDA_SUCCESS;
}

/* The last release ends the context, and what was registered in it. */
static CUresult release(CUdevice device, bool all)
{
	CUresult code = CUDA_SUCCESS;
	bool last = false;

	if (!context_is_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!primary[device].refs && !all)
		code = CUDA_ERROR_INVALID_CONTEXT;
	else if (primary[device].refs) {
		primary[device].refs = all ? 0 : primary[device].refs - 1;
		last = !primary[device].refs;
	}
	pthread_mutex_unlock(&lock);
	if (last)
		ledger_drop(&primary[device]);
	return code;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult code = context_enter("cuDevicePrimaryCtxRelease", NULL);

	return code ? code : release(device, false);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult code = context_enter("cuDevicePrimaryCtxReset", NULL);

	return code ? code : release(device, true);
}

/* ---- errors in words: these two work without cuInit and at exit ---- */

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
	  "the operation cannot be performed in the present state" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	  "part or all of the requested memory range is already mapped" },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	  "pointer does not correspond to a registered memory region" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "operation failed due to a previous error during capture" },
	{ CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
	  "operation would make the legacy stream depend on a capturing blocking stream" },
	{ CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
	  "operation not permitted on an event last recorded in a capturing stream" },
	{ CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static CUresult error_text(CUresult code, bool name, const char **text)
{
	size_t i;

	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = NULL;
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == code)
			*text = name ? errors[i].name : errors[i].text;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **text);
EXPORT CUresult cuGetErrorName(CUresult error, const char **text)
{
	return error_text(error, true, text);
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text);
EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	return error_text(error, false, text);
}
