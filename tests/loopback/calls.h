/* SPDX-License-Identifier: MIT */
/*
 * The calls of the stand-in CUDA driver on which the stand-ins of HIP and AscendCL are built: they have the same
 * model.
 */
#ifndef HUGEPIN_LOOPBACK_CALLS_H
#define HUGEPIN_LOOPBACK_CALLS_H

#include "driver.h"

CUresult cuInit(unsigned int flags);
CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuCtxGetCurrent(CUcontext *ctx);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuCtxSynchronize(void);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
CUresult cuGetErrorName(CUresult error, const char **text);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemHostRegister_v2(void *addr, size_t bytes, unsigned int flags);
CUresult cuMemHostUnregister(void *addr);
CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags);
CUresult cuMemFreeHost(void *addr);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *addr, unsigned int flags);
CUresult cuStreamCreate(CUstream *out, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *out);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, void **graph);
CUresult cuEventCreate(CUevent *out, unsigned int flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr addr, size_t bytes);
CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, int option);
CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
		     unsigned long long flags);
CUresult cuMemMap(CUdeviceptr addr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr addr, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr addr, size_t bytes, const CUmemAccessDesc *access, size_t count);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD8Async(CUdeviceptr addr, unsigned char value, size_t count, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);

#endif /* HUGEPIN_LOOPBACK_CALLS_H */
