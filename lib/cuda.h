/* SPDX-License-Identifier: MIT */
/*
 * Runtime cuda, shared by its files: the types and numbers of the CUDA driver API that it uses, and the functions of
 * the driver. No header of CUDA is needed; make cuda-check compares this one with it where it is installed.
 */
#ifndef HUGEPIN_CUDA_H
#define HUGEPIN_CUDA_H

#include "internal.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_CAPTURED_EVENT = 907,

	CU_MEMHOSTREGISTER_PORTABLE = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_NON_BLOCKING = 1,
	CU_EVENT_DISABLE_TIMING = 2,
	CU_MEM_ALLOCATION_TYPE_PINNED = 1,
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
	CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
};

/* Instead of a stream's handle; NULL means the legacy one too. */
#define CU_STREAM_LEGACY	((CUstream)0x1)
#define CU_STREAM_PER_THREAD	((CUstream)0x2)

typedef struct {
	int type;
	int id;
} CUmemLocation;

typedef struct {
	int type;
	int requested_handle_types;
	CUmemLocation location;
	void *win32_metadata;
	struct {
		unsigned char compression, gpu_direct_rdma_capable;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
} CUmemAllocationProp;

typedef struct {
	CUmemLocation location;
	int flags;
} CUmemAccessDesc;

struct hpi_cuda {
	CUresult (*ctx_get_current)(CUcontext *ctx);
	CUresult (*ctx_push)(CUcontext ctx);
	CUresult (*ctx_pop)(CUcontext *ctx);
	CUresult (*ctx_get_device)(CUdevice *device);
	CUresult (*ctx_synchronize)(void);
	CUresult (*ctx_record_event)(CUcontext ctx, CUevent event);	/* NULL before CUDA 12.5 */
	CUresult (*device_count)(int *count);
	CUresult (*device_get)(CUdevice *device, int ordinal);
	CUresult (*device_pci)(char *text, int size, CUdevice device);
	CUresult (*device_total)(size_t *bytes, CUdevice device);
	CUresult (*primary_state)(CUdevice device, unsigned int *flags, int *active);
	CUresult (*primary_retain)(CUcontext *ctx, CUdevice device);
	CUresult (*primary_release)(CUdevice device);
	CUresult (*host_register)(void *addr, size_t bytes, unsigned int flags);
	CUresult (*host_unregister)(void *addr);
	CUresult (*host_device_pointer)(CUdeviceptr *out, void *addr, unsigned int flags);
	CUresult (*error_name)(CUresult code, const char **text);
	CUresult (*exchange_capture_mode)(int *mode);
	CUresult (*stream_create)(CUstream *out, unsigned int flags);
	CUresult (*stream_destroy)(CUstream stream);
	CUresult (*stream_context)(CUstream stream, CUcontext *out);
	CUresult (*stream_capturing)(CUstream stream, int *status);
	CUresult (*stream_synchronize)(CUstream stream);
	CUresult (*event_create)(CUevent *out, unsigned int flags);
	CUresult (*event_destroy)(CUevent event);
	CUresult (*event_record)(CUevent event, CUstream stream);
	CUresult (*event_query)(CUevent event);
	CUresult (*mem_info)(size_t *free, size_t *total);
	CUresult (*mem_granularity)(size_t *bytes, const CUmemAllocationProp *prop, int option);
	CUresult (*mem_reserve)(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr addr,
				unsigned long long flags);
	CUresult (*mem_address_free)(CUdeviceptr addr, size_t bytes);
	CUresult (*mem_create)(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
			       unsigned long long flags);
	CUresult (*mem_release)(CUmemGenericAllocationHandle handle);
	CUresult (*mem_map)(CUdeviceptr addr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
			    unsigned long long flags);
	CUresult (*mem_unmap)(CUdeviceptr addr, size_t bytes);
	CUresult (*mem_access)(CUdeviceptr addr, size_t bytes, const CUmemAccessDesc *access, size_t count);
	CUresult (*memset_async)(CUdeviceptr addr, unsigned char value, size_t count, CUstream stream);
	CUresult (*copy_async)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
};

/* ---- runtime_cuda.c ---- */

extern struct hpi_cuda hpi_cu;			/* filled when the driver is loaded */
const char *hpi_cuda_name(CUresult code);

/* ---- cuda_fence.c: fences, and captures of streams ---- */

int hpi_cuda_fence_record(void *stream, struct hpi_fence **out, int *code);
int hpi_cuda_fence_query(struct hpi_fence *fence, int *code);
void hpi_cuda_fence_end(struct hpi_fence *fence);
bool hpi_cuda_is_capturing(void *stream);

/* ---- cuda_device.c: the devices and their memory ---- */

int hpi_cuda_device_count(int *count, int *code);
int hpi_cuda_device_read(int device, struct hpi_device *out, int *code);
int hpi_cuda_memory_granule(int device, uint64_t *bytes, int *code);
int hpi_cuda_memory_reserve(uint64_t bytes, void **out, int *code);
int hpi_cuda_memory_release(void *addr, uint64_t bytes, int *code);
int hpi_cuda_memory_map(int device, void *addr, uint64_t bytes, enum hugepin_class page_class, int *code);
int hpi_cuda_memory_unmap(void *addr, uint64_t bytes, int *code);
int hpi_cuda_memory_set(void *addr, unsigned char value, uint64_t bytes, int *code);
int hpi_cuda_memory_copy(void *to, const void *from, uint64_t bytes, int *code);

#endif /* HUGEPIN_CUDA_H */
