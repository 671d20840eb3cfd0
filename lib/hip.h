/* SPDX-License-Identifier: MIT */
/*
 * Runtime hip, shared by its files: the types and numbers of HIP that it uses, as its public headers have them, and the
 * functions of the library. No header of HIP is needed.
 */
#ifndef HUGEPIN_HIP_H
#define HUGEPIN_HIP_H

#include "internal.h"

typedef int hipError_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipMemGenericAllocationHandle *hipMemGenericAllocationHandle_t;

enum {
	hipSuccess = 0,
	hipErrorInvalidValue = 1,
	hipErrorOutOfMemory = 2,
	hipErrorDeinitialized = 4,
	hipErrorInvalidDevice = 101,
	hipErrorInvalidHandle = 400,
	hipErrorNotReady = 600,
	hipErrorHostMemoryAlreadyRegistered = 712,
	hipErrorHostMemoryNotRegistered = 713,
	hipErrorNotSupported = 801,
	hipErrorStreamCaptureUnsupported = 900,
	hipErrorCapturedEvent = 907,

	hipHostRegisterPortable = 1,
	hipEventDisableTiming = 2,
	hipStreamCaptureModeRelaxed = 2,
	hipStreamNonBlocking = 1,
	hipMemAllocationTypePinned = 1,
	hipMemLocationTypeDevice = 1,
	hipMemAccessFlagsProtReadWrite = 3,
	hipMemAllocationGranularityRecommended = 1,
};

typedef struct {
	int type;
	int id;
} hipMemLocation;

/* ROCm 5.2 had its members in another order: memory is not asked of that. */
typedef struct {
	int type;
	int requested_handle_type;
	hipMemLocation location;
	void *win32_metadata;
	struct {
		unsigned char compression, gpu_direct_rdma_capable;
		unsigned short usage;
	} flags;
} hipMemAllocationProp;

typedef struct {
	hipMemLocation location;
	int flags;
} hipMemAccessDesc;

struct hpi_hip {
	hipError_t (*peek_last_error)(void);
	hipError_t (*get_last_error)(void);
	hipError_t (*get_device)(int *device);
	hipError_t (*set_device)(int device);
	hipError_t (*device_count)(int *count);
	hipError_t (*device_pci)(char *text, int size, int device);
	hipError_t (*mem_info)(size_t *free, size_t *total);
	hipError_t (*device_synchronize)(void);
	hipError_t (*host_register)(void *addr, size_t bytes, unsigned int flags);
	hipError_t (*host_unregister)(void *addr);
	hipError_t (*host_device_pointer)(void **out, void *addr, unsigned int flags);
	hipError_t (*event_create)(hipEvent_t *out, unsigned int flags);
	hipError_t (*event_record)(hipEvent_t event, hipStream_t stream);
	hipError_t (*event_query)(hipEvent_t event);
	hipError_t (*event_destroy)(hipEvent_t event);
	const char *(*error_name)(hipError_t code);
	/* These came later; NULL where they are not there. */
	hipError_t (*stream_capturing)(hipStream_t stream, int *status);
	hipError_t (*exchange_capture_mode)(int *mode);
	hipError_t (*stream_device)(hipStream_t stream, int *device);
	hipError_t (*runtime_version)(int *version);
	hipError_t (*stream_create)(hipStream_t *out, unsigned int flags);
	hipError_t (*stream_destroy)(hipStream_t stream);
	hipError_t (*stream_synchronize)(hipStream_t stream);
	hipError_t (*memset_async)(void *addr, unsigned char value, size_t bytes, hipStream_t stream);
	hipError_t (*copy_async)(void *to, void *from, size_t bytes, hipStream_t stream);
	hipError_t (*mem_granularity)(size_t *bytes, const hipMemAllocationProp *prop, int option);
	hipError_t (*mem_reserve)(void **out, size_t bytes, size_t alignment, void *addr, unsigned long long flags);
	hipError_t (*mem_address_free)(void *addr, size_t bytes);
	hipError_t (*mem_create)(hipMemGenericAllocationHandle_t *out, size_t bytes, const hipMemAllocationProp *prop,
				 unsigned long long flags);
	hipError_t (*mem_release)(hipMemGenericAllocationHandle_t handle);
	hipError_t (*mem_map)(void *addr, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
			      unsigned long long flags);
	hipError_t (*mem_unmap)(void *addr, size_t bytes);
	hipError_t (*mem_access)(void *addr, size_t bytes, const hipMemAccessDesc *access, size_t count);
};
extern struct hpi_hip hpi_hip;

/* ---- runtime_hip.c ---- */

#define HPI_HIP_ANY_DEVICE	(-1)		/* the calling thread's, if that can be told */

/* The thread's last error, device and capture mode are as before: where that takes a thread of its own, it is made. */
hipError_t hpi_hip_call(hipError_t (*fn)(void *arg), void *arg, int device);
int hpi_hip_failed(hipError_t code, const char *what);	/* -errno of a failure, with the text */

/* ---- hip_device.c: as struct hpi_runtime has them ---- */

int hpi_hip_device_count(int *count, int *code);
int hpi_hip_device_read(int device, struct hpi_device *out, int *code);
int hpi_hip_memory_granule(int device, uint64_t *bytes, int *code);
int hpi_hip_memory_reserve(uint64_t bytes, void **out, int *code);
int hpi_hip_memory_release(void *addr, uint64_t bytes, int *code);
int hpi_hip_memory_map(int device, void *addr, uint64_t bytes, enum hugepin_class page_class, int *code);
int hpi_hip_memory_unmap(void *addr, uint64_t bytes, int *code);
int hpi_hip_memory_set(void *addr, unsigned char value, uint64_t bytes, int *code);
int hpi_hip_memory_copy(void *to, const void *from, uint64_t bytes, int *code);

#endif /* HUGEPIN_HIP_H */
