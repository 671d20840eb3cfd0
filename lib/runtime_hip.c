// SPDX-License-Identifier: MIT
/*
 * Runtime hip: host memory registered through AMD's HIP runtime, libamdhip64.so as it is on the machine.
 *
 * - Error codes are CUDA's of the same meaning.
 * - HIP keeps a last error for each thread, which a later hipGetLastError() of the program would find. Newer releases
 *   keep it until it is read, older ones overwrite it with the result of every call, success too. So where a thread
 *   has an error that the program has not read yet, our calls are made by a thread of their own; elsewhere ours is
 *   taken off again. Either way the program finds what it would have found without us.
 * - HIP has no contexts to borrow: its first call, whoever makes it, initialises it. Programs that must not have it
 *   initialised say runtime=none.
 *
 * Not run on hardware.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "hip.h"

#define hipStreamPerThread	((hipStream_t)2)

/* No limit of one call is known; a multiple of every page size that bounds the time of one. */
#define REGISTER_MAX	HPI_GIB(64)

struct hpi_hip hpi_hip;

static const struct hpi_symbol table[] = {
	{ "hipPeekAtLastError", (void **)&hpi_hip.peek_last_error, false },
	{ "hipGetLastError", (void **)&hpi_hip.get_last_error, false },
	{ "hipGetDevice", (void **)&hpi_hip.get_device, false },
	{ "hipSetDevice", (void **)&hpi_hip.set_device, false },
	{ "hipGetDeviceCount", (void **)&hpi_hip.device_count, false },
	{ "hipDeviceGetPCIBusId", (void **)&hpi_hip.device_pci, false },
	{ "hipMemGetInfo", (void **)&hpi_hip.mem_info, false },
	{ "hipDeviceSynchronize", (void **)&hpi_hip.device_synchronize, false },
	{ "hipHostRegister", (void **)&hpi_hip.host_register, false },
	{ "hipHostUnregister", (void **)&hpi_hip.host_unregister, false },
	{ "hipHostGetDevicePointer", (void **)&hpi_hip.host_device_pointer, false },
	{ "hipEventCreateWithFlags", (void **)&hpi_hip.event_create, false },
	{ "hipEventRecord", (void **)&hpi_hip.event_record, false },
	{ "hipEventQuery", (void **)&hpi_hip.event_query, false },
	{ "hipEventDestroy", (void **)&hpi_hip.event_destroy, false },
	{ "hipGetErrorName", (void **)&hpi_hip.error_name, false },
	{ "hipStreamIsCapturing", (void **)&hpi_hip.stream_capturing, true },
	{ "hipThreadExchangeStreamCaptureMode", (void **)&hpi_hip.exchange_capture_mode, true },
	{ "hipStreamGetDevice", (void **)&hpi_hip.stream_device, true },
	{ "hipRuntimeGetVersion", (void **)&hpi_hip.runtime_version, false },
	{ "hipStreamCreateWithFlags", (void **)&hpi_hip.stream_create, false },
	{ "hipStreamDestroy", (void **)&hpi_hip.stream_destroy, false },
	{ "hipStreamSynchronize", (void **)&hpi_hip.stream_synchronize, false },
	{ "hipMemsetD8Async", (void **)&hpi_hip.memset_async, false },
	{ "hipMemcpyDtoDAsync", (void **)&hpi_hip.copy_async, false },
	{ "hipMemGetAllocationGranularity", (void **)&hpi_hip.mem_granularity, true },
	{ "hipMemAddressReserve", (void **)&hpi_hip.mem_reserve, true },
	{ "hipMemAddressFree", (void **)&hpi_hip.mem_address_free, true },
	{ "hipMemCreate", (void **)&hpi_hip.mem_create, true },
	{ "hipMemRelease", (void **)&hpi_hip.mem_release, true },
	{ "hipMemMap", (void **)&hpi_hip.mem_map, true },
	{ "hipMemUnmap", (void **)&hpi_hip.mem_unmap, true },
	{ "hipMemSetAccess", (void **)&hpi_hip.mem_access, true },
	{ 0 },
};

/* ---- loading ---- */

static const char *const libraries[] = {
	"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", NULL,
};
static struct hpi_symbols symbols = {
	.what = "HIP runtime",
	.oldest = "ROCm 5",
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
	return hpi_symbols_are_loaded(&symbols) || !access("/dev/kfd", F_OK);
}

/* ---- calls that leave the thread's last error, device and capture mode as they were ---- */

struct call {
	hipError_t (*fn)(void *arg);
	void *arg;
	int device;
	hipError_t code;
};

static void do_call(struct call *call)
{
	int mode = hipStreamCaptureModeRelaxed;

	if (hpi_hip.exchange_capture_mode)
		hpi_hip.exchange_capture_mode(&mode);
	call->code = call->fn(call->arg);
	if (hpi_hip.exchange_capture_mode)
		hpi_hip.exchange_capture_mode(&mode);
}

static void call_in_thread(void *arg)
{
	struct call *call = arg;

	call->code = call->device == HPI_HIP_ANY_DEVICE ? hipSuccess : hpi_hip.set_device(call->device);
	if (!call->code)
		do_call(call);
}

hipError_t hpi_hip_call(hipError_t (*fn)(void *arg), void *arg, int device)
{
	struct call call = { .fn = fn, .arg = arg, .device = device };
	hipError_t unread = hpi_hip.peek_last_error();
	int current = HPI_HIP_ANY_DEVICE;
	pthread_t thread;

	if (!unread && device != HPI_HIP_ANY_DEVICE && hpi_hip.get_device(&current))
		hpi_hip.get_last_error();
	if (!unread && current == device) {
		do_call(&call);
		if (call.code)
			hpi_hip.get_last_error();
		return call.code;
	}
	if (hpi_thread_start("hugepin-hip", call_in_thread, &call, &thread))
		return hipErrorOutOfMemory;
	pthread_join(thread, NULL);
	return call.code;
}

int hpi_hip_failed(hipError_t code, const char *what)
{
	switch (code) {
	case hipErrorOutOfMemory:
		return hpi_error(-ENOMEM, "HIP: %s: %s (%d)", what, hpi_hip.error_name(code), code);
	case hipErrorInvalidValue:
	case hipErrorInvalidHandle:
		return hpi_error(-EINVAL, "HIP: %s: %s (%d)", what, hpi_hip.error_name(code), code);
	case hipErrorNotSupported:
		return hpi_error(-EOPNOTSUPP, "HIP: %s: %s (%d)", what, hpi_hip.error_name(code), code);
	case hipErrorInvalidDevice:
		return hpi_error(-ENODEV, "HIP: %s: %s (%d)", what, hpi_hip.error_name(code), code);
	default:
		return hpi_error(-EIO, "HIP: %s: %s (%d)", what, hpi_hip.error_name(code), code);
	}
}

/* ---- scopes: nothing to borrow, each call finds its device ---- */

static int begin(struct hpi_runtime_scope *scope, int *code)
{
	*scope = (struct hpi_runtime_scope){ .device = -1 };
	*code = 0;
	return 0;
}

static int begin_on(struct hpi_runtime_scope *scope, int device, int *code)
{
	*scope = (struct hpi_runtime_scope){ .device = device };
	*code = 0;
	return 0;
}

static int enter(struct hpi_runtime_scope *scope, struct hpi_runtime_thread *thread, int *code)
{
	(void)scope;
	*thread = (struct hpi_runtime_thread){ .pushed = false };
	*code = 0;
	return 0;
}

static void leave(struct hpi_runtime_thread *thread)
{
	(void)thread;
}

static void end(struct hpi_runtime_scope *scope)
{
	(void)scope;
}

/* ---- registration ---- */

struct range {
	void *addr;
	size_t bytes;
	void *device_addr;
};

static hipError_t give_register(void *arg)
{
	struct range *range = arg;

	return hpi_hip.host_register(range->addr, range->bytes, hipHostRegisterPortable);
}

static hipError_t give_unregister(void *arg)
{
	return hpi_hip.host_unregister(((struct range *)arg)->addr);
}

static hipError_t ask_device_pointer(void *arg)
{
	struct range *range = arg;

	return hpi_hip.host_device_pointer(&range->device_addr, range->addr, 0);
}

static int host_register(void *addr, uint64_t bytes, int *code)
{
	struct range range = { .addr = addr, .bytes = bytes };

	*code = hpi_hip_call(give_register, &range, HPI_HIP_ANY_DEVICE);
	if (*code == hipErrorHostMemoryAlreadyRegistered)
		return hpi_error(-EEXIST, "HIP: the program has registered a part of it already (code %d)", *code);
	return *code ? hpi_hip_failed(*code, "registering") : 0;
}

static int host_unregister(void *addr, uint64_t bytes, int *code)
{
	struct range range = { .addr = addr };

	(void)bytes;
	*code = hpi_hip_call(give_unregister, &range, HPI_HIP_ANY_DEVICE);
	if (*code == hipSuccess || *code == hipErrorDeinitialized)
		return 0;
	if (*code == hipErrorHostMemoryNotRegistered)
		return hpi_error(-ENOENT, "HIP: %s (%d): its device has been reset", hpi_hip.error_name(*code), *code);
	return hpi_error(-EIO, "HIP: unregistering: %s (%d)", hpi_hip.error_name(*code), *code);
}

static int device_pointer(void *addr, uint64_t *device_addr, int *code)
{
	struct range range = { .addr = addr };

	*code = hpi_hip_call(ask_device_pointer, &range, HPI_HIP_ANY_DEVICE);
	if (*code)
		return hpi_hip_failed(*code, "the device's address");
	*device_addr = (uintptr_t)range.device_addr;
	return 0;
}

/* ---- fences ---- */

/* Over the devices there is nothing to record: the query waits for all that they were given, also what came later. */
struct hpi_fence {
	hipEvent_t event;
	hipStream_t stream;
	int device;
};

static bool is_capture_code(hipError_t code)
{
	return code >= hipErrorStreamCaptureUnsupported && code <= hipErrorCapturedEvent;
}

static hipError_t ask_capturing(void *stream)
{
	int status = 0;
	hipError_t code = hpi_hip.stream_capturing(stream, &status);

	return code ? code : status ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

/* Of the default stream the runtime tells whether a blocking one is captured. */
static bool stream_is_capturing(void *stream)
{
	return hpi_hip.stream_capturing && is_capture_code(hpi_hip_call(ask_capturing, stream, HPI_HIP_ANY_DEVICE));
}

static bool is_capturing(void *stream)
{
	if (stream != HPI_STREAM_DEVICE)
		return stream_is_capturing(stream);
	return stream_is_capturing(NULL) || hpi_capture_pending(stream_is_capturing);
}

static hipError_t give_record(void *arg)
{
	struct hpi_fence *fence = arg;
	hipError_t code = hpi_hip.event_create(&fence->event, hipEventDisableTiming);

	if (code)
		return code;
	code = hpi_hip.event_record(fence->event, fence->stream);
	if (code) {
		hpi_hip.event_destroy(fence->event);
		fence->event = NULL;
	}
	return code;
}

static hipError_t ask_event(void *arg)
{
	return hpi_hip.event_query(((struct hpi_fence *)arg)->event);
}

static hipError_t give_destroy(void *arg)
{
	return hpi_hip.event_destroy(((struct hpi_fence *)arg)->event);
}

static hipError_t wait_for_device(void *arg)
{
	(void)arg;
	return hpi_hip.device_synchronize();
}

/* A thread's own default stream is not to be reached from another thread: then the fence is over the devices. */
static bool is_over_devices(void *stream)
{
	return stream == HPI_STREAM_DEVICE || (stream == hipStreamPerThread && hpi_hip.peek_last_error());
}

static int fence_record(void *stream, struct hpi_fence **out, int *code)
{
	struct hpi_fence *fence;
	int err = 0;

	*code = 0;
	if (is_capturing(stream)) {
		if (stream != HPI_STREAM_DEVICE)
			err = hpi_capture_note(stream_is_capturing, stream);
		return err ? err : hpi_error(-EBUSY, "HIP: a stream is being captured");
	}
	fence = hpi_sys_fault && hpi_sys_fault("malloc") ? NULL : malloc(sizeof(*fence));
	if (!fence)
		return hpi_error(-ENOMEM, "no memory for a fence of %zu bytes", sizeof(*fence));
	*fence = (struct hpi_fence){ .stream = stream, .device = HPI_HIP_ANY_DEVICE };
	if (!is_over_devices(stream)) {
		if (hpi_hip.stream_device && stream && stream != hipStreamPerThread &&
		    hpi_hip.stream_device(stream, &fence->device))
			fence->device = HPI_HIP_ANY_DEVICE;
		*code = hpi_hip_call(give_record, fence, fence->device);
	}
	if (*code) {
		free(fence);
		return is_capture_code(*code) ? hpi_error(-EBUSY, "HIP: the stream is captured (%d)", *code) :
		       hpi_hip_failed(*code, "recording a fence");
	}
	*out = fence;
	return 0;
}

static hipError_t query_devices(void)
{
	hipError_t code;
	int count = 0, device;

	code = hpi_hip.device_count(&count);
	for (device = 0; !code && device < count; device++)
		code = hpi_hip_call(wait_for_device, NULL, device);
	return code;
}

static int fence_query(struct hpi_fence *fence, int *code)
{
	*code = 0;
	if (!fence->event && is_capturing(HPI_STREAM_DEVICE))
		return -EBUSY;
	*code = fence->event ? hpi_hip_call(ask_event, fence, HPI_HIP_ANY_DEVICE) : query_devices();
	if (*code == hipSuccess || *code == hipErrorDeinitialized)
		return 0;
	if (*code == hipErrorNotReady || is_capture_code(*code))
		return -EBUSY;
	return hpi_error(-EIO, "HIP: querying a fence: %s (%d)", hpi_hip.error_name(*code), *code);
}

static void fence_end(struct hpi_fence *fence)
{
	if (fence->event)
		hpi_hip_call(give_destroy, fence, HPI_HIP_ANY_DEVICE);
	free(fence);
}

const struct hpi_runtime hpi_runtime_hip = {
	.name = "hip",
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
	.device_pointer = device_pointer,
	.fence_record = fence_record,
	.fence_query = fence_query,
	.fence_end = fence_end,
	.is_capturing = is_capturing,
	.device_count = hpi_hip_device_count,
	.device_read = hpi_hip_device_read,
	.memory_granule = hpi_hip_memory_granule,
	.memory_reserve = hpi_hip_memory_reserve,
	.memory_release = hpi_hip_memory_release,
	.memory_map = hpi_hip_memory_map,
	.memory_unmap = hpi_hip_memory_unmap,
	.memory_set = hpi_hip_memory_set,
	.memory_copy = hpi_hip_memory_copy,
};
