// SPDX-License-Identifier: MIT
/*
 * Runtime ascend: host memory registered through AscendCL, libascendcl.so as it is on the machine.
 *
 * - The types and numbers are those of AscendCL's public headers.
 * - aclInit and aclrtSetDevice are the program's to call, and contexts its to make: the calling thread's context is
 *   used.
 * - aclrtHostRegisterV2 is asked to pin and to map; what it does not pin (memory that is locked, products and kernels
 *   without that flag) it is asked to map alone, and where it is not there or not supported aclrtHostRegister maps it.
 *   Addresses are multiples of 4 KiB, which whole base pages are. Where neither is supported (NPUs before the series
 *   A2, kernels up to 5.10) aclrtMallocHost gives memory that is pinned.
 * - Memory of devices is reserved, created and mapped as with CUDA, in 2M pages or in 1G pages; the latter products
 *   of the series A2 and A3 have.
 *
 * Not run on hardware.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

typedef int aclError;
typedef void *aclrtContext;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtDrvMemHandle;

enum {
	ACL_SUCCESS = 0,
	ACL_ERROR_INVALID_PARAM = 100000,
	ACL_ERROR_RT_PARAM_INVALID = 107000,
	ACL_ERROR_RT_INVALID_DEVICEID = 107001,
	ACL_ERROR_RT_CONTEXT_NULL = 107002,
	ACL_ERROR_RT_STREAM_CAPTURED = 107027,
	ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT = 107031,
	ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000,
	ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
	ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 507910,
	ACL_ERROR_HOST_MEMORY_NOT_REGISTERED = 507911,

	ACL_HOST_REG_MAPPED = 0x2,
	ACL_HOST_REG_PINNED = 0x10000000,
	ACL_HOST_REGISTER_MAPPED = 0,
	ACL_EVENT_CAPTURE_STREAM_PROGRESS = 0x2,
	ACL_EVENT_RECORDED_STATUS_COMPLETE = 1,
	ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2,
	ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
	ACL_HBM_MEM = 1,
	ACL_HBM_MEM_HUGE = 4,
	ACL_HBM_MEM_HUGE1G = 10,
	ACL_MEM_LOCATION_TYPE_DEVICE = 1,
	ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
};

typedef struct {
	int handle_type, allocation_type, attribute;
	struct {
		uint32_t id;
		int type;
	} location;
	uint64_t reserved;
} aclrtPhysicalMemProp;

/*
 * One call of more than about 200 GB fails; half of the next power of two below is safe and a multiple of every page
 * size.
 */
#define REGISTER_MAX	HPI_GIB(64)

static struct {
	aclError (*get_context)(aclrtContext *out);
	aclError (*set_context)(aclrtContext context);
	aclError (*get_device)(int32_t *device);
	aclError (*device_count)(uint32_t *count);
	aclError (*mem_info)(int attribute, size_t *free, size_t *total);
	aclError (*synchronize_device)(void);
	aclError (*create_event)(aclrtEvent *out, uint32_t flag);
	aclError (*record_event)(aclrtEvent event, aclrtStream stream);
	aclError (*query_event)(aclrtEvent event, int *status);
	aclError (*destroy_event)(aclrtEvent event);
	aclError (*memset)(void *addr, size_t room, int32_t value, size_t count);
	aclError (*memcpy)(void *to, size_t room, const void *from, size_t count, int kind);
	aclError (*malloc_host)(void **out, size_t bytes);
	aclError (*free_host)(void *addr);
	/* These came later, or not on all products; NULL where they are not there. */
	aclError (*host_register_v2)(void *addr, uint64_t bytes, uint32_t flags);
	aclError (*host_register)(void *addr, uint64_t bytes, int type, void **device_addr);
	aclError (*host_unregister)(void *addr);
	aclError (*host_device_pointer)(void *addr, void **out, uint32_t flags);
	aclError (*device_pci)(int32_t device, char *text, int32_t size);
	aclError (*capture_info)(aclrtStream stream, int *status, void **model);
	aclError (*exchange_capture_mode)(int *mode);
	aclError (*reserve_address)(void **out, size_t bytes, size_t alignment, void *addr, uint64_t flags);
	aclError (*release_address)(void *addr);
	aclError (*malloc_physical)(aclrtDrvMemHandle *out, size_t bytes, const aclrtPhysicalMemProp *prop,
				    uint64_t flags);
	aclError (*free_physical)(aclrtDrvMemHandle handle);
	aclError (*map_mem)(void *addr, size_t bytes, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);
	aclError (*unmap_mem)(void *addr);
} acl;

static const struct hpi_symbol table[] = {
	{ "aclrtGetCurrentContext", (void **)&acl.get_context, false },
	{ "aclrtSetCurrentContext", (void **)&acl.set_context, false },
	{ "aclrtGetDevice", (void **)&acl.get_device, false },
	{ "aclrtGetDeviceCount", (void **)&acl.device_count, false },
	{ "aclrtGetMemInfo", (void **)&acl.mem_info, false },
	{ "aclrtSynchronizeDevice", (void **)&acl.synchronize_device, false },
	{ "aclrtCreateEventWithFlag", (void **)&acl.create_event, false },
	{ "aclrtRecordEvent", (void **)&acl.record_event, false },
	{ "aclrtQueryEventStatus", (void **)&acl.query_event, false },
	{ "aclrtDestroyEvent", (void **)&acl.destroy_event, false },
	{ "aclrtMemset", (void **)&acl.memset, false },
	{ "aclrtMemcpy", (void **)&acl.memcpy, false },
	{ "aclrtMallocHost", (void **)&acl.malloc_host, false },
	{ "aclrtFreeHost", (void **)&acl.free_host, false },
	{ "aclrtHostRegisterV2", (void **)&acl.host_register_v2, true },
	{ "aclrtHostRegister", (void **)&acl.host_register, true },
	{ "aclrtHostUnregister", (void **)&acl.host_unregister, true },
	{ "aclrtHostGetDevicePointer", (void **)&acl.host_device_pointer, true },
	{ "aclrtDeviceGetPCIBusId", (void **)&acl.device_pci, true },
	{ "aclmdlRICaptureGetInfo", (void **)&acl.capture_info, true },
	{ "aclmdlRICaptureThreadExchangeMode", (void **)&acl.exchange_capture_mode, true },
	{ "aclrtReserveMemAddress", (void **)&acl.reserve_address, true },
	{ "aclrtReleaseMemAddress", (void **)&acl.release_address, true },
	{ "aclrtMallocPhysical", (void **)&acl.malloc_physical, true },
	{ "aclrtFreePhysical", (void **)&acl.free_physical, true },
	{ "aclrtMapMem", (void **)&acl.map_mem, true },
	{ "aclrtUnmapMem", (void **)&acl.unmap_mem, true },
	{ 0 },
};

/* ---- loading ---- */

static const char *const libraries[] = { "libascendcl.so", NULL };
static struct hpi_symbols symbols = {
	.what = "AscendCL",
	.oldest = "CANN 6",
	.libraries = libraries,
	.table = table,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static int load(void)
{
	return hpi_symbols_load(&symbols);
}

static bool present(void)
{
	return hpi_symbols_are_loaded(&symbols) || !access("/dev/davinci_manager", F_OK);
}

static int failed(aclError code, const char *what)
{
	switch (code) {
	case ACL_ERROR_RT_MEMORY_ALLOCATION:
		return hpi_error(-ENOMEM, "AscendCL: %s: out of memory (code %d)", what, code);
	case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
		return hpi_error(-EOPNOTSUPP, "AscendCL: %s: this product or driver has it not (code %d)", what, code);
	case ACL_ERROR_INVALID_PARAM:
	case ACL_ERROR_RT_PARAM_INVALID:
		return hpi_error(-EINVAL, "AscendCL: %s: refused (code %d)", what, code);
	case ACL_ERROR_RT_INVALID_DEVICEID:
		return hpi_error(-ENODEV, "AscendCL: %s: no such device (code %d)", what, code);
	default:
		return hpi_error(-EIO, "AscendCL: %s: code %d", what, code);
	}
}

/* ---- contexts: the calling thread's, or the one that a thread of the program had last ---- */

/* For threads that have none, of the library or of the program; AscendCL refuses it once it is destroyed. */
static _Atomic(aclrtContext) last_context;

static int begin(struct hpi_runtime_scope *scope, int *code)
{
	aclrtContext context = NULL;

	*scope = (struct hpi_runtime_scope){ .device = -1 };
	*code = acl.get_context(&context);
	if (*code == ACL_ERROR_RT_CONTEXT_NULL || (!*code && !context)) {
		context = last_context;
		*code = context ? 0 : ACL_ERROR_RT_CONTEXT_NULL;
	}
	if (*code)
		return hpi_error(-EIO, "AscendCL: this thread has no context to register memory in (code %d); "
				 "aclrtSetDevice() gives it one", *code);
	last_context = scope->context = context;
	return 0;
}

static int begin_on(struct hpi_runtime_scope *scope, int device, int *code)
{
	int32_t current = -1;
	int err = begin(scope, code);

	if (err)
		return err;
	*code = acl.get_device(&current);
	if (*code)
		return failed(*code, "the device of this thread");
	if (current != device)
		return hpi_error(-EIO, "AscendCL: this thread's context is on device %d, not on device %d", current,
				 device);
	return 0;
}

static int enter(struct hpi_runtime_scope *scope, struct hpi_runtime_thread *thread, int *code)
{
	aclrtContext current = NULL;

	*thread = (struct hpi_runtime_thread){ .capture_mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED };
	*code = acl.get_context(&current);
	if (*code == ACL_ERROR_RT_CONTEXT_NULL)		/* a thread of ours, which has nothing to lose */
		*code = 0;
	if (!*code && current != scope->context)
		*code = acl.set_context(scope->context);
	if (*code)
		return hpi_error(-EIO, "AscendCL: using the program's context in this thread: code %d", *code);
	if (current && current != scope->context)
		thread->before = current;
	if (acl.exchange_capture_mode)
		acl.exchange_capture_mode(&thread->capture_mode);
	return 0;
}

static void leave(struct hpi_runtime_thread *thread)
{
	if (acl.exchange_capture_mode)
		acl.exchange_capture_mode(&thread->capture_mode);
	if (thread->before)
		acl.set_context(thread->before);
}

static void end(struct hpi_runtime_scope *scope)
{
	(void)scope;
}

/* ---- registration ---- */

static bool is_refusal(aclError code)
{
	return code && code != ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED && code != ACL_ERROR_RT_MEMORY_ALLOCATION &&
	       code != ACL_ERROR_RT_CONTEXT_NULL;
}

static int host_register(void *addr, uint64_t bytes, int *code)
{
	void *device_addr;

	*code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
	if (acl.host_register_v2 && acl.host_unregister) {
		*code = acl.host_register_v2(addr, bytes, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED);
		if (is_refusal(*code))
			*code = acl.host_register_v2(addr, bytes, ACL_HOST_REG_MAPPED);
	}
	if (*code == ACL_ERROR_RT_FEATURE_NOT_SUPPORT && acl.host_register && acl.host_unregister)
		*code = acl.host_register(addr, bytes, ACL_HOST_REGISTER_MAPPED, &device_addr);
	if (*code == ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		return hpi_error(-EEXIST, "AscendCL: the program has registered a part of it already (code %d)", *code);
	return *code ? failed(*code, "registering host memory") : 0;
}

/* At exit AscendCL is finalised by the program, and its contexts are gone: begin() fails then and nothing is called. */
static int host_unregister(void *addr, uint64_t bytes, int *code)
{
	(void)bytes;
	*code = acl.host_unregister(addr);
	if (*code == ACL_ERROR_HOST_MEMORY_NOT_REGISTERED)
		return hpi_error(-ENOENT, "AscendCL: not registered any more (code %d): its device has been reset",
				 *code);
	return *code ? hpi_error(-EIO, "AscendCL: unregistering: code %d", *code) : 0;
}

static int host_alloc(uint64_t bytes, void **out, int *code)
{
	*code = acl.malloc_host(out, bytes);
	return *code ? failed(*code, "allocating host memory") : 0;
}

static int host_free(void *addr, int *code)
{
	*code = acl.free_host(addr);
	return *code ? hpi_error(-EIO, "AscendCL: freeing host memory: code %d", *code) : 0;
}

/* For memory that is not registered some releases answer success and no address. */
static int device_pointer(void *addr, uint64_t *device_addr, int *code)
{
	void *out = NULL;

	*code = acl.host_device_pointer ? acl.host_device_pointer(addr, &out, 0) : ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
	if (*code)
		return failed(*code, "the device's address");
	if (!out)
		return hpi_error(-EINVAL, "AscendCL: %p is not registered", addr);
	*device_addr = (uintptr_t)out;
	return 0;
}

/* ---- fences ---- */

/* Over the device there is nothing to record: the query waits for all that it was given, also what came later. */
struct hpi_fence {
	aclrtEvent event;		/* NULL: over the scope's device */
};

static bool stream_is_capturing(void *stream)
{
	int status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
	void *model = NULL;
	aclError code;

	if (!acl.capture_info)
		return false;
	code = acl.capture_info(stream, &status, &model);
	return code == ACL_ERROR_RT_STREAM_CAPTURED || code == ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT ||
	       (!code && status != ACL_MODEL_RI_CAPTURE_STATUS_NONE);
}

static bool is_capturing(void *stream)
{
	if (stream != HPI_STREAM_DEVICE)
		return stream_is_capturing(stream);
	return stream_is_capturing(NULL) || hpi_capture_pending(stream_is_capturing);
}

static int fence_record(void *stream, struct hpi_fence **out, int *code)
{
	struct hpi_fence *fence;
	int err = 0;

	*code = 0;
	if (is_capturing(stream)) {
		if (stream != HPI_STREAM_DEVICE)
			err = hpi_capture_note(stream_is_capturing, stream);
		return err ? err : hpi_error(-EBUSY, "AscendCL: a stream is being captured");
	}
	fence = hpi_sys_fault && hpi_sys_fault("malloc") ? NULL : calloc(1, sizeof(*fence));
	if (!fence)
		return hpi_error(-ENOMEM, "no memory for a fence of %zu bytes", sizeof(*fence));
	if (stream != HPI_STREAM_DEVICE)
		*code = acl.create_event(&fence->event, ACL_EVENT_CAPTURE_STREAM_PROGRESS);
	if (!*code && fence->event) {
		*code = acl.record_event(fence->event, stream);
		if (*code)
			acl.destroy_event(fence->event);
	}
	if (*code) {
		free(fence);
		return failed(*code, "recording a fence");
	}
	*out = fence;
	return 0;
}

static int fence_query(struct hpi_fence *fence, int *code)
{
	int status = ACL_EVENT_RECORDED_STATUS_COMPLETE;

	*code = 0;
	if (!fence->event && is_capturing(HPI_STREAM_DEVICE))
		return -EBUSY;
	*code = fence->event ? acl.query_event(fence->event, &status) : acl.synchronize_device();
	if (*code)
		return failed(*code, "querying a fence") == -EIO ? -EIO : hpi_error_add(-EIO, ": the fence is lost");
	return status == ACL_EVENT_RECORDED_STATUS_COMPLETE ? 0 : -EBUSY;
}

static void fence_end(struct hpi_fence *fence)
{
	if (fence->event)
		acl.destroy_event(fence->event);
	free(fence);
}

/* ---- devices and their memory ---- */

static int device_count(int *count, int *code)
{
	uint32_t found = 0;

	*code = acl.device_count(&found);
	if (*code)
		return failed(*code, "counting devices");
	*count = (int)found;
	return 0;
}

/* Memory is told of the context's device only. */
static int device_read(int id, struct hpi_device *out, int *code)
{
	struct hpi_device device = { .id = id, .free_bytes = UINT64_MAX };
	size_t free_bytes, total;
	uint32_t count = 0;
	int32_t current;

	*code = acl.device_count(&count);
	if (*code)
		return failed(*code, "counting devices");
	if (id < 0 || (uint32_t)id >= count)
		return hpi_error(-ENODEV, "AscendCL: there is no device %d", id);
	if (acl.device_pci && acl.device_pci(id, device.pci_address, (int32_t)sizeof(device.pci_address)))
		device.pci_address[0] = '\0';
	if (!acl.get_device(&current) && current == id && !acl.mem_info(ACL_HBM_MEM, &free_bytes, &total)) {
		device.free_bytes = free_bytes;
		device.total_bytes = total;
	}
	*out = device;
	return 0;
}

static int memory_granule(int device, uint64_t *bytes, int *code)
{
	(void)device;
	*bytes = HPI_2M;
	*code = 0;
	return 0;
}

/* Alignment cannot be asked for; neither can a part of the space be given back. */
static int memory_reserve(uint64_t bytes, void **out, int *code)
{
	*code = acl.reserve_address && acl.map_mem ? acl.reserve_address(out, bytes, 0, NULL, 0) :
		ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
	return *code ? failed(*code, "reserving address space") : 0;
}

static int memory_release(void *addr, uint64_t bytes, int *code)
{
	(void)bytes;
	*code = acl.release_address(addr);
	return *code ? failed(*code, "releasing address space") : 0;
}

static int memory_map(int device, void *addr, uint64_t bytes, enum hugepin_class page_class, int *code)
{
	aclrtPhysicalMemProp prop = {
		.attribute = page_class == HUGEPIN_PAGES_1G ? ACL_HBM_MEM_HUGE1G : ACL_HBM_MEM_HUGE,
		.location = { .id = (uint32_t)device, .type = ACL_MEM_LOCATION_TYPE_DEVICE },
	};
	aclrtDrvMemHandle handle;
	int err;

	*code = acl.malloc_physical(&handle, bytes, &prop, 0);
	/* A product without 1G pages does not know the attribute. */
	if (page_class == HUGEPIN_PAGES_1G && (*code == ACL_ERROR_RT_PARAM_INVALID || *code == ACL_ERROR_INVALID_PARAM))
		*code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
	if (!*code) {
		*code = acl.map_mem(addr, bytes, 0, handle, 0);
		/* The mapping keeps the pages, as with CUDA. */
		acl.free_physical(handle);
	}
	if (!*code)
		return 0;
	err = failed(*code, "mapping device memory");
	return hpi_error_add(err, ": %llu bytes in %s pages on device %d", (unsigned long long)bytes,
			     hpi_class_name(page_class), device);
}

static int memory_unmap(void *addr, uint64_t bytes, int *code)
{
	(void)bytes;
	*code = acl.unmap_mem(addr);
	return *code ? failed(*code, "unmapping device memory") : 0;
}

static int memory_set(void *addr, unsigned char value, uint64_t bytes, int *code)
{
	*code = acl.memset(addr, bytes, value, bytes);
	return *code ? failed(*code, "setting device memory") : 0;
}

static int memory_copy(void *to, const void *from, uint64_t bytes, int *code)
{
	*code = acl.memcpy(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE);
	return *code ? failed(*code, "copying device memory") : 0;
}

const struct hpi_runtime hpi_runtime_ascend = {
	.name = "ascend",
	.max_register_bytes = REGISTER_MAX,
	.present = present,
	.load = load,
	.begin = begin,
	.begin_on = begin_on,
	.enter = enter,
	.leave = leave,
	.end = end,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.host_alloc = host_alloc,
	.host_free = host_free,
	.device_pointer = device_pointer,
	.fence_record = fence_record,
	.fence_query = fence_query,
	.fence_end = fence_end,
	.is_capturing = is_capturing,
	.device_count = device_count,
	.device_read = device_read,
	.memory_granule = memory_granule,
	.memory_reserve = memory_reserve,
	.memory_release = memory_release,
	.memory_map = memory_map,
	.memory_unmap = memory_unmap,
	.memory_set = memory_set,
	.memory_copy = memory_copy,
};
