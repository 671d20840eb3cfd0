// SPDX-License-Identifier: MIT
/*
 * Runtime cuda: fences, and captures of streams into graphs.
 *
 * A fence over everything cannot be an event on the legacy default stream: that one waits for blocking streams only,
 * and programs (PyTorch's streams, NCCL's) work in non-blocking ones. From CUDA 12.5 on a context can be recorded as
 * a whole; before, querying such a fence is a synchronisation of the context, which blocks until all that it was
 * given has ended, what came after the fence included. Both are prohibited while any stream of the context is being
 * captured, and break the capture. The driver tells without harm of captures of blocking streams, by the legacy
 * stream's state, and of a stream whose handle one has; nothing tells of others. For those it is either breaking a
 * capture, with a loud error for the program, or using memory again that a device still writes to; the former is
 * chosen. A program that captures non-blocking streams names the stream when it frees.
 *
 * Nothing here is retained: a program that destroys a context has no work left in it.
 */
#include <errno.h>
#include <stdlib.h>

#include "cuda.h"

struct part {
	CUcontext ctx;
	CUevent event;			/* NULL: none, the context is synchronised when the fence is queried */
	bool passed;
};

struct hpi_fence {
	size_t count;
	struct part parts[];
};

/* ---- captures ---- */

static bool is_capture_code(CUresult code)
{
	return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_CAPTURED_EVENT;
}

/* Of the current context where the handle is not a stream's own. */
static bool stream_is_capturing(void *stream)
{
	int status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult code = hpi_cu.stream_capturing(stream, &status);

	return is_capture_code(code) || (!code && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* ---- contexts of the program, one after the other made current ---- */

typedef int visit(CUcontext ctx, void *arg, int *code);

static int visit_in(CUcontext ctx, visit *fn, void *arg, int *code)
{
	CUcontext current = NULL;
	bool pushed;
	int err;

	*code = hpi_cu.ctx_get_current(&current);
	pushed = !*code && current != ctx;
	if (pushed)
		*code = hpi_cu.ctx_push(ctx);
	if (*code)
		return hpi_error(-EIO, "CUDA: using a context of the program: %s (%d)", hpi_cuda_name(*code), *code);
	err = fn(ctx, arg, code);
	if (pushed)
		hpi_cu.ctx_pop(&current);
	return err;
}

/* The current context, and the primary contexts that are active; until @fn gives other than 0. */
static int visit_all(visit *fn, void *arg, int *code)
{
	int count = 0, ordinal, active, err;
	CUcontext own = NULL, ctx;
	unsigned int flags;
	CUdevice device;

	*code = hpi_cu.ctx_get_current(&own);
	if (!*code)
		*code = hpi_cu.device_count(&count);
	if (*code)
		return hpi_error(-EIO, "CUDA: counting devices: %s (%d)", hpi_cuda_name(*code), *code);
	err = fn(own, arg, code);
	for (ordinal = 0; !err && ordinal < count; ordinal++) {
		*code = hpi_cu.device_get(&device, ordinal);
		if (!*code)
			*code = hpi_cu.primary_state(device, &flags, &active);
		if (!*code && !active)
			continue;
		if (!*code)
			*code = hpi_cu.primary_retain(&ctx, device);
		if (*code)
			return hpi_error(-EIO, "CUDA: device %d: %s (%d)", ordinal, hpi_cuda_name(*code), *code);
		if (ctx != own)
			err = visit_in(ctx, fn, arg, code);
		hpi_cu.primary_release(device);
	}
	return err;
}

static int find_capture(CUcontext ctx, void *arg, int *code)
{
	(void)ctx;
	*code = 0;
	return *(bool *)arg = stream_is_capturing(CU_STREAM_LEGACY);	/* the first is enough */
}

/* -EBUSY: one is under way. */
static int check_captures(int *code)
{
	bool is = false;
	int err = visit_all(find_capture, &is, code);

	if (!err && !is)
		is = hpi_capture_pending(stream_is_capturing);
	return is ? hpi_error(-EBUSY, "CUDA: a stream is being captured") : err;
}

/* Where it cannot be told, recording fails as well, and says why. */
bool hpi_cuda_is_capturing(void *stream)
{
	int code;

	return stream == HPI_STREAM_DEVICE ? check_captures(&code) == -EBUSY : stream_is_capturing(stream);
}

/* ---- recording ---- */

static int refused(CUresult code)
{
	switch (code) {
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_HANDLE:
		return hpi_error(-EINVAL, "CUDA: recording a fence: %s (%d): not a stream", hpi_cuda_name(code), code);
	case CUDA_ERROR_OUT_OF_MEMORY:
		return hpi_error(-ENOMEM, "CUDA: recording a fence: %s (%d)", hpi_cuda_name(code), code);
	default:
		return hpi_error(is_capture_code(code) ? -EBUSY : -EIO, "CUDA: recording a fence: %s (%d)",
				 hpi_cuda_name(code), code);
	}
}

static struct part *add_part(struct hpi_fence *fence, CUcontext ctx)
{
	struct part *part = &fence->parts[fence->count++];

	*part = (struct part){ .ctx = ctx };
	return part;
}

static int record_stream(CUcontext ctx, void *arg, int *code)
{
	struct hpi_fence *fence = ((void **)arg)[0];
	CUstream stream = ((void **)arg)[1];
	struct part *part = add_part(fence, ctx);

	*code = hpi_cu.event_create(&part->event, CU_EVENT_DISABLE_TIMING);
	if (!*code)
		*code = hpi_cu.event_record(part->event, stream);
	return *code ? refused(*code) : 0;
}

static int record_context(CUcontext ctx, void *arg, int *code)
{
	struct part *part = add_part(arg, ctx);

	*code = 0;
	if (!hpi_cu.ctx_record_event)
		return 0;
	*code = hpi_cu.event_create(&part->event, CU_EVENT_DISABLE_TIMING);
	if (!*code)
		*code = hpi_cu.ctx_record_event(ctx, part->event);
	if (is_capture_code(*code))
		hpi_log(HUGEPIN_LOG_WARNING,
			"CUDA: a fence over all work met a capture that the driver does not tell of: %s (%d); "
			"the capture is broken", hpi_cuda_name(*code), *code);
	return *code ? refused(*code) : 0;
}

/* An event and its stream are of one context, which need not be the thread's. */
static int record_in_its_context(struct hpi_fence *fence, CUstream stream, int *code)
{
	void *arg[] = { fence, stream };
	CUcontext ctx = NULL;
	int err;

	if (stream_is_capturing(stream)) {
		err = hpi_capture_note(stream_is_capturing, stream);
		return err ? err : hpi_error(-EBUSY, "CUDA: the stream is being captured");
	}
	*code = hpi_cu.stream_context(stream, &ctx);
	return *code ? refused(*code) : visit_in(ctx, record_stream, arg, code);
}

int hpi_cuda_fence_record(void *stream, struct hpi_fence **out, int *code)
{
	struct hpi_fence *fence;
	int count = 0, err = 0;

	*code = stream == HPI_STREAM_DEVICE ? hpi_cu.device_count(&count) : 0;
	if (*code)
		return hpi_error(-EIO, "CUDA: counting devices: %s (%d)", hpi_cuda_name(*code), *code);
	if (stream == HPI_STREAM_DEVICE)
		err = check_captures(code);
	if (err)
		return err;
	fence = hpi_sys_fault && hpi_sys_fault("malloc") ? NULL :
		malloc(sizeof(*fence) + ((size_t)count + 1) * sizeof(fence->parts[0]));
	if (!fence)
		return hpi_error(-ENOMEM, "no memory for a fence over %d devices", count);
	fence->count = 0;
	err = stream == HPI_STREAM_DEVICE ? visit_all(record_context, fence, code) :
	      record_in_its_context(fence, stream, code);
	if (err)
		hpi_cuda_fence_end(fence);
	else
		*out = fence;
	return err;
}

/* ---- querying ---- */

static int synchronize(CUcontext ctx, void *arg, int *code)
{
	(void)ctx;
	(void)arg;
	*code = hpi_cu.ctx_synchronize();
	return *code;
}

static CUresult query_part(const struct part *part)
{
	int code;

	if (part->event)
		return hpi_cu.event_query(part->event);
	visit_in(part->ctx, synchronize, NULL, &code);
	return code;
}

/* Work whose context is gone has ended, and so has all when the process exits. */
static bool is_over(CUresult code)
{
	return code == CUDA_SUCCESS || code == CUDA_ERROR_DEINITIALIZED || code == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
	       code == CUDA_ERROR_INVALID_CONTEXT;
}

int hpi_cuda_fence_query(struct hpi_fence *fence, int *code)
{
	size_t i;

	for (i = 0; i < fence->count; i++) {
		struct part *part = &fence->parts[i];

		if (part->passed)
			continue;
		/* Synchronising would break the capture: later. */
		if (!part->event && hpi_cuda_is_capturing(HPI_STREAM_DEVICE))
			return -EBUSY;
		*code = query_part(part);
		if (*code == CUDA_ERROR_NOT_READY)
			return -EBUSY;
		if (!is_over(*code))
			return hpi_error(is_capture_code(*code) ? -EBUSY : -EIO, "CUDA: querying a fence: %s (%d)",
					 hpi_cuda_name(*code), *code);
		part->passed = true;
	}
	*code = 0;
	return 0;
}

void hpi_cuda_fence_end(struct hpi_fence *fence)
{
	size_t i;

	for (i = 0; i < fence->count; i++)
		if (fence->parts[i].event)
			hpi_cu.event_destroy(fence->parts[i].event);
	free(fence);
}
