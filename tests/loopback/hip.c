// SPDX-License-Identifier: MIT
/*
 * The stand-in HIP runtime: libamdhip64.so, over the model of the stand-in CUDA driver, whose codes HIP shares.
 *
 * What HIP has beyond it: it initialises itself, devices are current instead of contexts, and each thread has a last
 * error. Newer releases keep that until it is read; older ones overwrite it with the result of every call.
 */
#include <stdlib.h>

#include "calls.h"

#define HIP_EXPORT(declaration)	\
	EXPORT declaration;	\
	EXPORT declaration

enum { hipErrorNotReady = CUDA_ERROR_NOT_READY };

#define VERSION		60241134		/* 6.2 */
#define VERSION_ORDER	50300000		/* before, hipMemAllocationProp had its members in another order */

static _Thread_local CUresult last_error;
static _Thread_local CUdevice current_device;
static bool older;
static int version = VERSION;

/* The result of every call goes through this. */
static CUresult answer(CUresult code)
{
	if (older || (code && code != hipErrorNotReady))
		last_error = code;
	return code;
}

/* Makes the thread's device current, or @code of a fault in its place. */
static CUresult enter(const char *call)
{
	CUresult code = driver_fault(call);
	CUcontext ctx;

	if (!code)
		code = cuInit(0);
	if (!code)
		code = cuDevicePrimaryCtxRetain(&ctx, current_device);
	return code ? code : cuCtxSetCurrent(ctx);
}

HIP_EXPORT(void loopback_hip_older(int on))
{
	older = on;
}

HIP_EXPORT(void loopback_hip_version(int is))
{
	version = is ? is : VERSION;
}

/* ---- errors, devices ---- */

HIP_EXPORT(CUresult hipRuntimeGetVersion(int *out))
{
	CUresult code = driver_fault("hipRuntimeGetVersion");

	if (!code)
		*out = version;
	return answer(code);
}

HIP_EXPORT(CUresult hipGetLastError(void))
{
	CUresult code = last_error;

	last_error = CUDA_SUCCESS;
	return code;
}

HIP_EXPORT(CUresult hipPeekAtLastError(void))
{
	return last_error;
}

HIP_EXPORT(const char *hipGetErrorName(CUresult code))
{
	const char *name;

	return cuGetErrorName(code, &name) ? "hipErrorUnknown" : name;
}

HIP_EXPORT(CUresult hipGetDeviceCount(int *count))
{
	CUresult code = enter("hipGetDeviceCount");

	if (!code)
		*count = (int)driver_devices();
	return answer(code);
}

HIP_EXPORT(CUresult hipGetDevice(int *device))
{
	CUresult code = enter("hipGetDevice");

	if (!code)
		*device = current_device;
	return answer(code);
}

HIP_EXPORT(CUresult hipSetDevice(int device))
{
	CUresult code = enter("hipSetDevice");

	if (!code && !context_is_device(device))
		code = CUDA_ERROR_INVALID_DEVICE;
	if (!code) {
		current_device = device;
		code = enter("hipSetDevice");
	}
	return answer(code);
}

HIP_EXPORT(CUresult hipDeviceGetPCIBusId(char *text, int size, int device))
{
	CUresult code = enter("hipDeviceGetPCIBusId");
	char *c;

	if (!code)
		code = cuDeviceGetPCIBusId(text, size, device);
	for (c = text; !code && *c; c++)
		if (*c >= 'A' && *c <= 'F')
			*c += 'a' - 'A';
	return answer(code);
}

HIP_EXPORT(CUresult hipMemGetInfo(size_t *free, size_t *total))
{
	CUresult code = enter("hipMemGetInfo");

	return answer(code ? code : cuMemGetInfo_v2(free, total));
}

HIP_EXPORT(CUresult hipDeviceSynchronize(void))
{
	CUresult code = enter("hipDeviceSynchronize");

	return answer(code ? code : cuCtxSynchronize());
}

HIP_EXPORT(CUresult hipDeviceReset(void))
{
	CUresult code = enter("hipDeviceReset");

	return answer(code ? code : cuDevicePrimaryCtxReset_v2(current_device));
}

/* ---- host memory ---- */

HIP_EXPORT(CUresult hipHostRegister(void *addr, size_t bytes, unsigned int flags))
{
	CUresult code = enter("hipHostRegister");

	return answer(code ? code : cuMemHostRegister_v2(addr, bytes, flags));
}

HIP_EXPORT(CUresult hipHostUnregister(void *addr))
{
	CUresult code = enter("hipHostUnregister");

	return answer(code ? code : cuMemHostUnregister(addr));
}

HIP_EXPORT(CUresult hipHostGetDevicePointer(void **out, void *addr, unsigned int flags))
{
	CUresult code = enter("hipHostGetDevicePointer");
	CUdeviceptr pointer;

	if (!code)
		code = cuMemHostGetDevicePointer_v2(&pointer, addr, flags);
	if (!code)
		*out = (void *)(uintptr_t)pointer;
	return answer(code);
}

/* ---- memory of devices: HIP's structures are CUDA's, but for what those reserve at their end ---- */

static CUresult enter_memory(const char *call, const CUmemAllocationProp *prop)
{
	CUresult code = enter(call);

	return !code && prop && version < VERSION_ORDER ? CUDA_ERROR_INVALID_VALUE : code;
}

HIP_EXPORT(CUresult hipMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, int option))
{
	CUresult code = enter_memory("hipMemGetAllocationGranularity", prop);

	return answer(code ? code : cuMemGetAllocationGranularity(bytes, prop, option));
}

HIP_EXPORT(CUresult hipMemAddressReserve(void **out, size_t bytes, size_t alignment, void *addr, unsigned long long flags))
{
	CUresult code = enter("hipMemAddressReserve");
	CUdeviceptr space;

	if (!code)
		code = cuMemAddressReserve(&space, bytes, alignment, (uintptr_t)addr, flags);
	if (!code)
		*out = (void *)(uintptr_t)space;
	return answer(code);
}

HIP_EXPORT(CUresult hipMemAddressFree(void *addr, size_t bytes))
{
	CUresult code = enter("hipMemAddressFree");

	return answer(code ? code : cuMemAddressFree((uintptr_t)addr, bytes));
}

HIP_EXPORT(CUresult hipMemCreate(void **out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags))
{
	CUresult code = enter_memory("hipMemCreate", prop);
	CUmemGenericAllocationHandle handle;

	if (!code)
		code = cuMemCreate(&handle, bytes, prop, flags);
	if (!code)
		*out = (void *)(uintptr_t)handle;
	return answer(code);
}

/* The caller keeps the handle for as long as it is mapped: see README.md. */
HIP_EXPORT(CUresult hipMemRelease(void *handle))
{
	CUresult code = enter("hipMemRelease");

	if (!code && memory_is_mapped((uintptr_t)handle))
		code = CUDA_ERROR_INVALID_VALUE;
	return answer(code ? code : cuMemRelease((uintptr_t)handle));
}

HIP_EXPORT(CUresult hipMemMap(void *addr, size_t bytes, size_t offset, void *handle, unsigned long long flags))
{
	CUresult code = enter("hipMemMap");

	return answer(code ? code : cuMemMap((uintptr_t)addr, bytes, offset, (uintptr_t)handle, flags));
}

HIP_EXPORT(CUresult hipMemUnmap(void *addr, size_t bytes))
{
	CUresult code = enter("hipMemUnmap");

	return answer(code ? code : cuMemUnmap((uintptr_t)addr, bytes));
}

HIP_EXPORT(CUresult hipMemSetAccess(void *addr, size_t bytes, const CUmemAccessDesc *access, size_t count))
{
	CUresult code = enter("hipMemSetAccess");

	return answer(code ? code : cuMemSetAccess((uintptr_t)addr, bytes, access, count));
}

HIP_EXPORT(CUresult hipMemsetD8Async(void *addr, unsigned char value, size_t bytes, CUstream stream))
{
	CUresult code = enter("hipMemsetD8Async");

	return answer(code ? code : cuMemsetD8Async((uintptr_t)addr, value, bytes, stream));
}

HIP_EXPORT(CUresult hipMemcpyDtoDAsync(void *to, void *from, size_t bytes, CUstream stream))
{
	CUresult code = enter("hipMemcpyDtoDAsync");

	return answer(code ? code : cuMemcpyDtoDAsync_v2((uintptr_t)to, (uintptr_t)from, bytes, stream));
}

HIP_EXPORT(CUresult hipMemcpyDtoH(void *to, void *from, size_t bytes))
{
	CUresult code = enter("hipMemcpyDtoH");

	return answer(code ? code : cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes));
}

/* ---- streams and events ---- */

HIP_EXPORT(CUresult hipStreamSynchronize(CUstream stream))
{
	CUresult code = enter("hipStreamSynchronize");

	return answer(code ? code : cuStreamSynchronize(stream));
}

HIP_EXPORT(CUresult hipStreamCreateWithFlags(CUstream *out, unsigned int flags))
{
	CUresult code = enter("hipStreamCreateWithFlags");

	return answer(code ? code : cuStreamCreate(out, flags));
}

HIP_EXPORT(CUresult hipStreamDestroy(CUstream stream))
{
	CUresult code = enter("hipStreamDestroy");

	return answer(code ? code : cuStreamDestroy_v2(stream));
}

HIP_EXPORT(CUresult hipStreamGetDevice(CUstream stream, int *device))
{
	CUresult code = enter("hipStreamGetDevice");
	CUcontext ctx;

	if (!code)
		code = cuStreamGetCtx(stream, &ctx);
	if (!code)
		*device = context_device(ctx);
	return answer(code);
}

HIP_EXPORT(CUresult hipStreamIsCapturing(CUstream stream, int *status))
{
	CUresult code = enter("hipStreamIsCapturing");

	return answer(code ? code : cuStreamIsCapturing(stream, status));
}

HIP_EXPORT(CUresult hipStreamBeginCapture(CUstream stream, int mode))
{
	CUresult code = enter("hipStreamBeginCapture");

	return answer(code ? code : cuStreamBeginCapture_v2(stream, mode));
}

HIP_EXPORT(CUresult hipStreamEndCapture(CUstream stream, void **graph))
{
	CUresult code = enter("hipStreamEndCapture");

	return answer(code ? code : cuStreamEndCapture(stream, graph));
}

HIP_EXPORT(CUresult hipThreadExchangeStreamCaptureMode(int *mode))
{
	CUresult code = enter("hipThreadExchangeStreamCaptureMode");

	return answer(code ? code : cuThreadExchangeStreamCaptureMode(mode));
}

HIP_EXPORT(CUresult hipEventCreateWithFlags(CUevent *out, unsigned int flags))
{
	CUresult code = enter("hipEventCreateWithFlags");

	return answer(code ? code : cuEventCreate(out, flags));
}

HIP_EXPORT(CUresult hipEventRecord(CUevent event, CUstream stream))
{
	CUresult code = enter("hipEventRecord");

	return answer(code ? code : cuEventRecord(event, stream));
}

HIP_EXPORT(CUresult hipEventQuery(CUevent event))
{
	CUresult code = enter("hipEventQuery");

	return answer(code ? code : cuEventQuery(event));
}

HIP_EXPORT(CUresult hipEventDestroy(CUevent event))
{
	CUresult code = enter("hipEventDestroy");

	return answer(code ? code : cuEventDestroy_v2(event));
}
