// SPDX-License-Identifier: MIT
/*
 * The stand-in AscendCL: libascendcl.so, over the model of the stand-in CUDA driver, with AscendCL's names and codes.
 *
 * What it has of its own: addresses are multiples of 4 KiB; pinning is a flag that refuses memory which is locked
 * already; memory that was pinned but not mapped has no device address; 1G pages, which a test can take away.
 */
#include <stdlib.h>
#include <string.h>

#include "calls.h"

#define ACL_EXPORT(declaration)	\
	EXPORT declaration;	\
	EXPORT declaration

typedef int aclError;

enum {
	ACL_ERROR_UNINITIALIZE = 100001,
	ACL_ERROR_RT_PARAM_INVALID = 107000,
	ACL_ERROR_RT_INVALID_DEVICEID = 107001,
	ACL_ERROR_RT_CONTEXT_NULL = 107002,
	ACL_ERROR_RT_STREAM_CAPTURED = 107027,
	ACL_ERROR_RT_EVENT_CAPTURED = 107028,
	ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT = 107030,
	ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT = 107031,
	ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000,
	ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
	ACL_ERROR_RT_INTERNAL_ERROR = 500000,
	ACL_ERROR_RT_DRV_INTERNAL_ERROR = 507899,
	ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED = 507903,
	ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 507910,
	ACL_ERROR_HOST_MEMORY_NOT_REGISTERED = 507911,

	HOST_REG_KNOWN = 0x1000000e,	/* MAPPED 2, IOMEMORY 4, READONLY 8, PINNED 0x10000000 */
	EVENT_FLAGS = 0x7b,
	HBM_MEM_HUGE = 4,
	HBM_MEM_HUGE1G = 10,
};

typedef struct {
	int handle_type, allocation_type, attribute;
	struct {
		uint32_t id;
		int type;
	} location;
	uint64_t reserved;
} aclrtPhysicalMemProp;

static bool no_1g, no_v2, no_register, no_pinning;

static aclError translate(CUresult code)
{
	static const struct {
		CUresult cuda;
		aclError acl;
	} codes[] = {
		{ CUDA_SUCCESS, 0 },
		{ CUDA_ERROR_INVALID_VALUE, ACL_ERROR_RT_PARAM_INVALID },
		{ CUDA_ERROR_OUT_OF_MEMORY, ACL_ERROR_RT_MEMORY_ALLOCATION },
		{ CUDA_ERROR_NOT_INITIALIZED, ACL_ERROR_UNINITIALIZE },
		{ CUDA_ERROR_DEINITIALIZED, ACL_ERROR_UNINITIALIZE },
		{ CUDA_ERROR_INVALID_DEVICE, ACL_ERROR_RT_INVALID_DEVICEID },
		{ CUDA_ERROR_INVALID_CONTEXT, ACL_ERROR_RT_CONTEXT_NULL },
		{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED },
		{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED },
		{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT },
		{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED },
		{ CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT },
		{ CUDA_ERROR_CAPTURED_EVENT, ACL_ERROR_RT_EVENT_CAPTURED },
	};
	size_t i;

	for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].cuda == code)
			return codes[i].acl;
	return code > 1000 ? code : ACL_ERROR_RT_INTERNAL_ERROR;	/* an injected code is AscendCL's already */
}

/* @registering: 1: aclrtHostRegisterV2 is not supported, 2: aclrtHostRegister neither */
ACL_EXPORT(void loopback_acl_without(int pages_1g, int registering, int pinning))
{
	no_1g = pages_1g;
	no_v2 = registering;
	no_register = registering > 1;
	no_pinning = pinning;
}

/* ---- devices and contexts ---- */

ACL_EXPORT(aclError aclInit(const char *config))
{
	CUresult code = driver_fault("aclInit");

	(void)config;
	return translate(code ? code : cuInit(0));
}

ACL_EXPORT(aclError aclrtSetDevice(int32_t device))
{
	CUresult code = driver_fault("aclrtSetDevice");
	CUcontext ctx;

	if (!code)
		code = cuDevicePrimaryCtxRetain(&ctx, device);
	return translate(code ? code : cuCtxSetCurrent(ctx));
}

ACL_EXPORT(aclError aclrtResetDeviceForce(int32_t device))
{
	CUresult code = driver_fault("aclrtResetDeviceForce");

	return translate(code ? code : cuDevicePrimaryCtxReset_v2(device));
}

ACL_EXPORT(aclError aclrtGetCurrentContext(void **out))
{
	CUresult code = driver_fault("aclrtGetCurrentContext");
	CUcontext ctx = NULL;

	if (!code)
		code = cuCtxGetCurrent(&ctx);
	if (!code && !ctx)
		code = CUDA_ERROR_INVALID_CONTEXT;
	if (!code)
		*out = ctx;
	return translate(code);
}

ACL_EXPORT(aclError aclrtSetCurrentContext(void *ctx))
{
	CUresult code = driver_fault("aclrtSetCurrentContext");

	return translate(code ? code : cuCtxSetCurrent(ctx));
}

ACL_EXPORT(aclError aclrtGetDevice(int32_t *device))
{
	CUcontext ctx = NULL;
	CUresult code = driver_fault("aclrtGetDevice");

	if (!code)
		code = cuCtxGetCurrent(&ctx);
	if (!code && !ctx)
		code = CUDA_ERROR_INVALID_CONTEXT;
	if (!code)
		*device = context_device(ctx);
	return translate(code);
}

ACL_EXPORT(aclError aclrtGetDeviceCount(uint32_t *count))
{
	CUresult code = driver_fault("aclrtGetDeviceCount");

	if (!code)
		*count = driver_devices();
	return translate(code);
}

ACL_EXPORT(aclError aclrtDeviceGetPCIBusId(int32_t device, char *text, int32_t size))
{
	CUresult code = driver_fault("aclrtDeviceGetPCIBusId");
	char *c;

	if (!code)
		code = cuDeviceGetPCIBusId(text, size, device);
	for (c = text; !code && *c; c++)
		if (*c >= 'A' && *c <= 'F')
			*c += 'a' - 'A';
	return translate(code);
}

ACL_EXPORT(aclError aclrtGetMemInfo(int attribute, size_t *free, size_t *total))
{
	CUresult code = driver_fault("aclrtGetMemInfo");

	(void)attribute;
	return translate(code ? code : cuMemGetInfo_v2(free, total));
}

ACL_EXPORT(aclError aclrtSynchronizeDevice(void))
{
	CUresult code = driver_fault("aclrtSynchronizeDevice");

	return translate(code ? code : cuCtxSynchronize());
}

/* ---- host memory ---- */

static aclError host_register(void *addr, uint64_t bytes)
{
	if ((uintptr_t)addr % 4096)
		return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
	return translate(cuMemHostRegister_v2(addr, bytes, 0));
}

ACL_EXPORT(aclError aclrtHostRegisterV2(void *addr, uint64_t bytes, uint32_t flags))
{
	CUresult code = driver_fault("aclrtHostRegisterV2");

	if (code)
		return translate(code);
	if (no_v2)
		return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
	if (!addr || !bytes || !flags || flags & ~(uint32_t)HOST_REG_KNOWN || (no_pinning && flags & 0x10000000))
		return ACL_ERROR_RT_PARAM_INVALID;
	return host_register(addr, bytes);
}

ACL_EXPORT(aclError aclrtHostRegister(void *addr, uint64_t bytes, int type, void **device))
{
	CUresult code = driver_fault("aclrtHostRegister");
	aclError err;

	if (code)
		return translate(code);
	if (no_register)
		return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
	if (!addr || !bytes || type || !device)
		return ACL_ERROR_RT_PARAM_INVALID;
	err = host_register(addr, bytes);
	if (!err)
		*device = addr;
	return err;
}

ACL_EXPORT(aclError aclrtHostUnregister(void *addr))
{
	CUresult code = driver_fault("aclrtHostUnregister");

	return translate(code ? code : cuMemHostUnregister(addr));
}

/* For memory that is not registered: success, and no address. */
ACL_EXPORT(aclError aclrtHostGetDevicePointer(void *addr, void **out, uint32_t flags))
{
	CUresult code = driver_fault("aclrtHostGetDevicePointer");
	CUdeviceptr pointer = 0;

	if (code)
		return translate(code);
	if (!out || flags)
		return ACL_ERROR_RT_PARAM_INVALID;
	*out = cuMemHostGetDevicePointer_v2(&pointer, addr, 0) ? NULL : (void *)(uintptr_t)pointer;
	return 0;
}

ACL_EXPORT(aclError aclrtMallocHost(void **out, size_t bytes))
{
	CUresult code = driver_fault("aclrtMallocHost");

	if (!code && (!bytes || (driver_limit() && bytes > driver_limit())))
		code = bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	return translate(code ? code : cuMemHostAlloc(out, bytes, 0));
}

ACL_EXPORT(aclError aclrtFreeHost(void *addr))
{
	CUresult code = driver_fault("aclrtFreeHost");

	return translate(code ? code : cuMemFreeHost(addr));
}

/* ---- streams, events, captures ---- */

ACL_EXPORT(aclError aclrtCreateStream(void **out))
{
	CUresult code = driver_fault("aclrtCreateStream");

	return translate(code ? code : cuStreamCreate((CUstream *)out, 0));
}

ACL_EXPORT(aclError aclrtDestroyStream(void *stream))
{
	CUresult code = driver_fault("aclrtDestroyStream");

	return translate(code ? code : cuStreamDestroy_v2(stream));
}

ACL_EXPORT(aclError aclmdlRICaptureBegin(void *stream, int mode))
{
	CUresult code = driver_fault("aclmdlRICaptureBegin");

	return translate(code ? code : cuStreamBeginCapture_v2(stream, mode));
}

ACL_EXPORT(aclError aclmdlRICaptureEnd(void *stream, void **model))
{
	CUresult code = driver_fault("aclmdlRICaptureEnd");

	return translate(code ? code : cuStreamEndCapture(stream, model));
}

ACL_EXPORT(aclError aclmdlRICaptureGetInfo(void *stream, int *status, void **model))
{
	CUresult code = driver_fault("aclmdlRICaptureGetInfo");

	*model = NULL;
	return translate(code ? code : cuStreamIsCapturing(stream, status));
}

ACL_EXPORT(aclError aclmdlRICaptureThreadExchangeMode(int *mode))
{
	CUresult code = driver_fault("aclmdlRICaptureThreadExchangeMode");

	return translate(code ? code : cuThreadExchangeStreamCaptureMode(mode));
}

ACL_EXPORT(aclError aclrtCreateEventWithFlag(void **out, uint32_t flags))
{
	CUresult code = driver_fault("aclrtCreateEventWithFlag");

	if (!code && (!flags || flags & ~(uint32_t)EVENT_FLAGS))
		code = CUDA_ERROR_INVALID_VALUE;
	return translate(code ? code : cuEventCreate((CUevent *)out, 0));
}

ACL_EXPORT(aclError aclrtRecordEvent(void *event, void *stream))
{
	CUresult code = driver_fault("aclrtRecordEvent");

	return translate(code ? code : cuEventRecord(event, stream));
}

ACL_EXPORT(aclError aclrtQueryEventStatus(void *event, int *status))
{
	CUresult code = driver_fault("aclrtQueryEventStatus");

	if (!code)
		code = cuEventQuery(event);
	if (!code || code == CUDA_ERROR_NOT_READY) {
		*status = !code;
		code = CUDA_SUCCESS;
	}
	return translate(code);
}

ACL_EXPORT(aclError aclrtDestroyEvent(void *event))
{
	CUresult code = driver_fault("aclrtDestroyEvent");

	return translate(code ? code : cuEventDestroy_v2(event));
}

/* ---- device memory ---- */

ACL_EXPORT(aclError aclrtReserveMemAddress(void **out, size_t bytes, size_t alignment, void *addr, uint64_t flags))
{
	CUresult code = driver_fault("aclrtReserveMemAddress");
	CUdeviceptr pointer;

	if (!code && (alignment || addr || flags))
		code = CUDA_ERROR_INVALID_VALUE;
	if (!code)
		code = cuMemAddressReserve(&pointer, bytes, 0, 0, 0);
	if (!code)
		*out = (void *)(uintptr_t)pointer;
	return translate(code);
}

ACL_EXPORT(aclError aclrtReleaseMemAddress(void *addr))
{
	CUresult code = driver_fault("aclrtReleaseMemAddress");

	return translate(code ? code : memory_unreserve((uintptr_t)addr));
}

ACL_EXPORT(aclError aclrtMallocPhysical(void **out, size_t bytes, const aclrtPhysicalMemProp *prop, uint64_t flags))
{
	CUresult code = driver_fault("aclrtMallocPhysical");
	uint64_t page = prop->attribute == HBM_MEM_HUGE1G ? 1ull << 30 : 2ull << 20;
	CUmemGenericAllocationHandle handle;

	if (!code && (flags || bytes % page || prop->location.type != 1 ||
		      !context_is_device((CUdevice)prop->location.id) ||
		      (prop->attribute == HBM_MEM_HUGE1G ? no_1g : prop->attribute != HBM_MEM_HUGE)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (!code)
		code = memory_create((CUdevice)prop->location.id, bytes, &handle);
	if (!code)
		*out = (void *)(uintptr_t)handle;
	return translate(code);
}

ACL_EXPORT(aclError aclrtFreePhysical(void *handle))
{
	CUresult code = driver_fault("aclrtFreePhysical");

	return translate(code ? code : cuMemRelease((uintptr_t)handle));
}

ACL_EXPORT(aclError aclrtMapMem(void *addr, size_t bytes, size_t offset, void *handle, uint64_t flags))
{
	CUresult code = driver_fault("aclrtMapMem");

	if (!code && (offset || flags))
		code = CUDA_ERROR_INVALID_VALUE;
	return translate(code ? code : memory_map((uintptr_t)addr, bytes, (uintptr_t)handle));
}

ACL_EXPORT(aclError aclrtUnmapMem(void *addr))
{
	CUresult code = driver_fault("aclrtUnmapMem");

	return translate(code ? code : memory_unmap((uintptr_t)addr));
}

ACL_EXPORT(aclError aclrtMemset(void *addr, size_t room, int32_t value, size_t count))
{
	CUresult code = driver_fault("aclrtMemset");

	if (!code && count > room)
		code = CUDA_ERROR_INVALID_VALUE;
	return translate(code ? code : cuMemsetD8Async((uintptr_t)addr, (unsigned char)value, count, NULL));
}

/* Between devices' memory (3), and from it to the host's (2), for tests to look. */
ACL_EXPORT(aclError aclrtMemcpy(void *to, size_t room, const void *from, size_t count, int kind))
{
	CUresult code = driver_fault("aclrtMemcpy");

	if (!code && (count > room || (kind != 3 && kind != 2)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (!code)
		code = kind == 3 ? cuMemcpyDtoDAsync_v2((uintptr_t)to, (uintptr_t)from, count, NULL) :
		       cuMemcpyDtoH_v2(to, (uintptr_t)from, count);
	return translate(code);
}
