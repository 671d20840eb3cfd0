// SPDX-License-Identifier: MIT
/*
 * Runtime hip: host memory registered through AMD's HIP runtime, libamdhip64.so as it is on the machine.
 *
 * - The types and numbers are those of HIP's public headers; error codes are CUDA's of the same meaning.
 * - HIP keeps a last error for each thread, which a later hipGetLastError() of the program would find. Newer releases
 *   keep it until it is read, older ones overwrite it with the result of every call, success too. So where a thread
 *   has an error that the program has not read yet, our calls are made by a thread of their own; elsewhere ours is
 *   taken off again. Either way the program finds what it would have found without us.
 * - HIP has no contexts to borrow: its first call, whoever makes it, initialises it. Programs that must not have it
 *   initialised say runtime=none.
 * - Device memory is not offered: hipMemAllocationProp has had two layouts, and nothing tells which one the library
 *   uses.
 *
 * Not run on hardware.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

typedef int hipError_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;

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
	hipErrorStreamCaptureUnsupported = 900,
	hipErrorCapturedEvent = 907,

	hipHostRegisterPortable = 1,
	hipEventDisableTiming = 2,
	hipStreamCaptureModeRelaxed = 2,
};

#define hipStreamPerThread	((hipStream_t)2)

/* No limit of one call is known; a multiple of every page size that bounds the time of one. */
#define REGISTER_MAX	HPI_GIB(64)

static struct {
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
} hip;

static const struct hpi_symbol table[] = {
	{ "hipPeekAtLastError", (void **)&hip.peek_last_error, false },
	{ "hipGetLastError", (void **)&hip.get_last_error, false },
	{ "hipGetDevice", (void **)&hip.get_device, false },
	{ "hipSetDevice", (void **)&hip.set_device, false },
	{ "hipGetDeviceCount", (void **)&hip.device_count, false },
	{ "hipDeviceGetPCIBusId", (void **)&hip.device_pci, false },
	{ "hipMemGetInfo", (void **)&hip.mem_info, false },
	{ "hipDeviceSynchronize", (void **)&hip.device_synchronize, false },
	{ "hipHostRegister", (void **)&hip.host_register, false },
	{ "hipHostUnregister", (void **)&hip.host_unregister, false },
	{ "hipHostGetDevicePointer", (void **)&hip.host_device_pointer, false },
	{ "hipEventCreateWithFlags", (void **)&hip.event_create, false },
	{ "hipEventRecord", (void **)&hip.event_record, false },
	{ "hipEventQuery", (void **)&hip.event_query, false },
	{ "hipEventDestroy", (void **)&hip.event_destroy, false },
	{ "hipGetErrorName", (void **)&hip.error_name, false },
	{ "hipStreamIsCapturing", (void **)&hip.stream_capturing, true },
	{ "hipThreadExchangeStreamCaptureMode", (void **)&hip.exchange_capture_mode, true },
	{ "hipStreamGetDevice", (void **)&hip.stream_device, true },
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

#define ANY_DEVICE	(-1)		/* the calling thread's, if that can be told */

struct call {
	hipError_t (*fn)(void *arg);
	void *arg;
	int device;
	hipError_t code;
};

static void do_call(struct call *call)
{
	int mode = hipStreamCaptureModeRelaxed;

	if (hip.exchange_capture_mode)
		hip.exchange_capture_mode(&mode);
	call->code = call->fn(call->arg);
	if (hip.exchange_capture_mode)
		hip.exchange_capture_mode(&mode);
}

static void call_in_thread(void *arg)
{
	struct call *call = arg;

	call->code = call->device == ANY_DEVICE ? hipSuccess : hip.set_device(call->device);
	if (!call->code)
		do_call(call);
}

static hipError_t call_hip(hipError_t (*fn)(void *arg), void *arg, int device)
{
	struct call call = { .fn = fn, .arg = arg, .device = device };
	hipError_t unread = hip.peek_last_error();
	int current = ANY_DEVICE;
	pthread_t thread;

	if (!unread && device != ANY_DEVICE && hip.get_device(&current))
		hip.get_last_error();
	if (!unread && current == device) {
		do_call(&call);
		if (call.code)
			hip.get_last_error();
		return call.code;
	}
	if (hpi_thread_start("hugepin-hip", call_in_thread, &call, &thread))
		return hipErrorOutOfMemory;
	pthread_join(thread, NULL);
	return call.code;
}

static int failed(hipError_t code, const char *what)
{
	switch (code) {
	case hipErrorOutOfMemory:
		return hpi_error(-ENOMEM, "HIP: %s: %s (%d)", what, hip.error_name(code), code);
	case hipErrorInvalidValue:
	case hipErrorInvalidHandle:
		return hpi_error(-EINVAL, "HIP: %s: %s (%d)", what, hip.error_name(code), code);
	case hipErrorInvalidDevice:
		return hpi_error(-ENODEV, "HIP: %s: %s (%d)", what, hip.error_name(code), code);
	default:
		return hpi_error(-EIO, "HIP: %s: %s (%d)", what, hip.error_name(code), code);
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

	return hip.host_register(range->addr, range->bytes, hipHostRegisterPortable);
}

static hipError_t give_unregister(void *arg)
{
	return hip.host_unregister(((struct range *)arg)->addr);
}

static hipError_t ask_device_pointer(void *arg)
{
	struct range *range = arg;

	return hip.host_device_pointer(&range->device_addr, range->addr, 0);
}

static int host_register(void *addr, uint64_t bytes, int *code)
{
	struct range range = { .addr = addr, .bytes = bytes };

	*code = call_hip(give_register, &range, ANY_DEVICE);
	if (*code == hipErrorHostMemoryAlreadyRegistered)
		return hpi_error(-EEXIST, "HIP: the program has registered a part of it already (code %d)", *code);
	return *code ? failed(*code, "registering") : 0;
}

static int host_unregister(void *addr, uint64_t bytes, int *code)
{
	struct range range = { .addr = addr };

	(void)bytes;
	*code = call_hip(give_unregister, &range, ANY_DEVICE);
	if (*code == hipSuccess || *code == hipErrorDeinitialized)
		return 0;
	if (*code == hipErrorHostMemoryNotRegistered)
		return hpi_error(-ENOENT, "HIP: %s (%d): its device has been reset", hip.error_name(*code), *code);
	return hpi_error(-EIO, "HIP: unregistering: %s (%d)", hip.error_name(*code), *code);
}

static int device_pointer(void *addr, uint64_t *device_addr, int *code)
{
	struct range range = { .addr = addr };

	*code = call_hip(ask_device_pointer, &range, ANY_DEVICE);
	if (*code)
		return failed(*code, "the device's address");
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
	hipError_t code = hip.stream_capturing(stream, &status);

	return code ? code : status ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

/* Of the default stream the runtime tells whether a blocking one is captured. */
static bool stream_is_capturing(void *stream)
{
	return hip.stream_capturing && is_capture_code(call_hip(ask_capturing, stream, ANY_DEVICE));
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
	hipError_t code = hip.event_create(&fence->event, hipEventDisableTiming);

	if (code)
		return code;
	code = hip.event_record(fence->event, fence->stream);
	if (code) {
		hip.event_destroy(fence->event);
		fence->event = NULL;
	}
	return code;
}

static hipError_t ask_event(void *arg)
{
	return hip.event_query(((struct hpi_fence *)arg)->event);
}

static hipError_t give_destroy(void *arg)
{
	return hip.event_destroy(((struct hpi_fence *)arg)->event);
}

static hipError_t wait_for_device(void *arg)
{
	(void)arg;
	return hip.device_synchronize();
}

/* A thread's own default stream is not to be reached from another thread: then the fence is over the devices. */
static bool is_over_devices(void *stream)
{
	return stream == HPI_STREAM_DEVICE || (stream == hipStreamPerThread && hip.peek_last_error());
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
	*fence = (struct hpi_fence){ .stream = stream, .device = ANY_DEVICE };
	if (!is_over_devices(stream)) {
		if (hip.stream_device && stream && stream != hipStreamPerThread &&
		    hip.stream_device(stream, &fence->device))
			fence->device = ANY_DEVICE;
		*code = call_hip(give_record, fence, fence->device);
	}
	if (*code) {
		free(fence);
		return is_capture_code(*code) ? hpi_error(-EBUSY, "HIP: the stream is captured (%d)", *code) :
		       failed(*code, "recording a fence");
	}
	*out = fence;
	return 0;
}

static hipError_t query_devices(void)
{
	hipError_t code;
	int count = 0, device;

	code = hip.device_count(&count);
	for (device = 0; !code && device < count; device++)
		code = call_hip(wait_for_device, NULL, device);
	return code;
}

static int fence_query(struct hpi_fence *fence, int *code)
{
	*code = 0;
	if (!fence->event && is_capturing(HPI_STREAM_DEVICE))
		return -EBUSY;
	*code = fence->event ? call_hip(ask_event, fence, ANY_DEVICE) : query_devices();
	if (*code == hipSuccess || *code == hipErrorDeinitialized)
		return 0;
	if (*code == hipErrorNotReady || is_capture_code(*code))
		return -EBUSY;
	return hpi_error(-EIO, "HIP: querying a fence: %s (%d)", hip.error_name(*code), *code);
}

static void fence_end(struct hpi_fence *fence)
{
	if (fence->event)
		call_hip(give_destroy, fence, ANY_DEVICE);
	free(fence);
}

/* ---- devices ---- */

static hipError_t ask_count(void *count)
{
	return hip.device_count(count);
}

static hipError_t ask_device(void *arg)
{
	struct hpi_device *device = arg;
	size_t free_bytes, total;
	hipError_t code = hip.device_pci(device->pci_address, (int)sizeof(device->pci_address), device->id);

	if (!code)
		code = hip.mem_info(&free_bytes, &total);
	if (code)
		return code;
	device->free_bytes = free_bytes;
	device->total_bytes = total;
	return hipSuccess;
}

static int device_count(int *count, int *code)
{
	*code = call_hip(ask_count, count, ANY_DEVICE);
	return *code ? failed(*code, "counting devices") : 0;
}

static int device_read(int id, struct hpi_device *out, int *code)
{
	struct hpi_device device = { .id = id };

	*code = call_hip(ask_device, &device, id);
	if (*code)
		return failed(*code, "reading a device");
	*out = device;
	return 0;
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
	.device_count = device_count,
	.device_read = device_read,
};
