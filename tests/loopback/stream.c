// SPDX-License-Identifier: MIT
/*
 * The stand-in CUDA driver: streams with work that goes on until a test says it is done, events behind it, and
 * captures.
 *
 * Work is numbered as it comes. An event stands behind the work up to its number: of one stream, of the legacy stream
 * and with it of all blocking ones, or of a whole context.
 */
#include <pthread.h>
#include <stdlib.h>

#include "driver.h"

#define LEGACY		((CUstream)0x1)
#define PER_THREAD	((CUstream)0x2)
#define EVENT_FLAGS	0x7u			/* BLOCKING_SYNC 1, DISABLE_TIMING 2, INTERPROCESS 4 */

enum capture { NOT_CAPTURING = 0, CAPTURING = 1, INVALIDATED = 2 };	/* as cuStreamIsCapturing() tells */

struct CUstream_st {
	struct CUstream_st *next;
	CUcontext ctx;
	bool blocking;
	enum capture capture;
	int mode;
	pthread_t captured_by;
};

struct CUevent_st {
	struct CUevent_st *next;
	CUcontext ctx;			/* NULL: never recorded */
	CUstream stream;		/* NULL: of the whole context */
	uint64_t number;
	bool captured;
};

struct work {
	struct work *next;
	CUcontext ctx;
	CUstream stream;
	bool blocking;
	uint64_t number;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *streams;
static struct CUevent_st *events;
static struct work *works;
static uint64_t last_number;
static bool broken;

static bool is_own(CUstream stream)		/* else one of the handles that stand for a stream of the context */
{
	return stream && stream != LEGACY && stream != PER_THREAD;
}

/* Lock held. */
static bool exists(CUstream stream)
{
	CUstream s;

	for (s = streams; s && s != stream; s = s->next)
		;
	return s;
}

static CUstream canonical(CUstream stream)
{
	return stream ? stream : LEGACY;
}

/* ---- captures; the lock is held ---- */

static bool invalidate(CUcontext ctx, bool blocking_only)
{
	bool any = false;
	CUstream s;

	for (s = streams; s; s = s->next) {
		if (s->ctx != ctx || s->capture == NOT_CAPTURING || (blocking_only && !s->blocking))
			continue;
		s->capture = INVALIDATED;
		any = broken = true;
	}
	return any;
}

bool stream_capture_conflict(void)
{
	int mode = context_capture_mode();
	bool any = false;
	CUstream s;

	pthread_mutex_lock(&lock);
	for (s = streams; s && mode != CU_STREAM_CAPTURE_MODE_RELAXED; s = s->next) {
		bool own = pthread_equal(s->captured_by, pthread_self());

		if (s->capture == NOT_CAPTURING || s->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
			continue;
		if (!own && (mode != CU_STREAM_CAPTURE_MODE_GLOBAL || s->mode != CU_STREAM_CAPTURE_MODE_GLOBAL))
			continue;
		s->capture = INVALIDATED;
		any = broken = true;
	}
	pthread_mutex_unlock(&lock);
	return any;
}

bool stream_capture_broken(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = broken;
	pthread_mutex_unlock(&lock);
	return is;
}

CUresult stream_use(CUstream stream, CUcontext current)
{
	CUresult code = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!is_own(stream) && !current)
		code = CUDA_ERROR_INVALID_CONTEXT;
	else if (is_own(stream) && !exists(stream))
		code = CUDA_ERROR_INVALID_HANDLE;
	else if (canonical(stream) == LEGACY && invalidate(current, true))
		code = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	pthread_mutex_unlock(&lock);
	return code;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	CUresult code = context_enter("cuStreamBeginCapture", NULL);

	if (code)
		return code;
	if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_own(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	if (!exists(stream))
		code = CUDA_ERROR_INVALID_HANDLE;
	else if (stream->capture != NOT_CAPTURING)
		code = CUDA_ERROR_ILLEGAL_STATE;
	if (!code) {
		stream->capture = CAPTURING;
		stream->mode = mode;
		stream->captured_by = pthread_self();
	}
	pthread_mutex_unlock(&lock);
	return code;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, void **graph);
EXPORT CUresult cuStreamEndCapture(CUstream stream, void **graph)
{
	static char empty_graph;
	CUresult code = context_enter("cuStreamEndCapture", NULL);

	if (code)
		return code;
	if (!graph || !is_own(stream))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (!exists(stream))
		code = CUDA_ERROR_INVALID_HANDLE;
	else if (stream->capture == NOT_CAPTURING)
		code = CUDA_ERROR_ILLEGAL_STATE;
	else if (stream->capture == INVALIDATED)
		code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!code || code == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) {
		stream->capture = NOT_CAPTURING;
		*graph = code ? NULL : &empty_graph;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

/* The legacy stream's answer tells of blocking streams that are captured, and breaks nothing. */
EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status);
EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
	CUcontext current;
	CUresult code = context_enter("cuStreamIsCapturing", &current);
	CUstream s;

	if (code)
		return code;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_own(stream) && !current)
		return CUDA_ERROR_INVALID_CONTEXT;
	*status = NOT_CAPTURING;
	pthread_mutex_lock(&lock);
	if (is_own(stream) && !exists(stream))
		code = CUDA_ERROR_INVALID_HANDLE;
	else if (is_own(stream))
		*status = stream->capture;
	for (s = streams; s && canonical(stream) == LEGACY; s = s->next)
		if (s->ctx == current && s->blocking && s->capture != NOT_CAPTURING)
			code = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	pthread_mutex_unlock(&lock);
	return code;
}

/* ---- streams ---- */

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned int flags);
EXPORT CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
	CUcontext current;
	CUresult code = context_enter("cuStreamCreate", &current);
	CUstream stream;

	if (code)
		return code;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || flags & ~CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->ctx = current;
	stream->blocking = !flags;
	pthread_mutex_lock(&lock);
	stream->next = streams;
	streams = stream;
	pthread_mutex_unlock(&lock);
	*out = stream;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream);
EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	CUresult code = context_enter("cuStreamDestroy", NULL);
	CUstream *link;

	if (code)
		return code;
	pthread_mutex_lock(&lock);
	for (link = &streams; *link && *link != stream; link = &(*link)->next)
		;
	if (*link)
		*link = stream->next;
	else
		code = CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_unlock(&lock);
	if (!code)
		free(stream);
	return code;
}

EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *out);
EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *out)
{
	CUcontext current;
	CUresult code = context_enter("cuStreamGetCtx", &current);

	if (code)
		return code;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_own(stream) && !current)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	if (is_own(stream) && !exists(stream))
		code = CUDA_ERROR_INVALID_HANDLE;
	else
		*out = is_own(stream) ? stream->ctx : current;
	pthread_mutex_unlock(&lock);
	return code;
}

/* ---- work ---- */

void stream_work(void *handle)
{
	CUstream stream = canonical(handle);
	struct work *work = calloc(1, sizeof(*work));

	if (!work)
		abort();
	work->stream = stream;
	if (is_own(stream))
		work->ctx = stream->ctx;
	else
		context_enter("loopback_work", &work->ctx);
	work->blocking = !is_own(stream) || stream->blocking;
	pthread_mutex_lock(&lock);
	work->number = ++last_number;
	work->next = works;
	works = work;
	pthread_mutex_unlock(&lock);
}

void stream_done(void *stream)
{
	struct work **link, *work;

	pthread_mutex_lock(&lock);
	for (link = &works; *link;) {
		work = *link;
		if (stream && work->stream != stream) {
			link = &work->next;
			continue;
		}
		*link = work->next;
		free(work);
	}
	pthread_mutex_unlock(&lock);
}

/* Lock held. */
static bool is_pending(CUcontext ctx, CUstream stream, uint64_t number)
{
	struct work *w;

	for (w = works; w; w = w->next)
		if (w->ctx == ctx && w->number <= number &&
		    (!stream || w->stream == stream || (stream == LEGACY && w->blocking)))
			return true;
	return false;
}

/* Waiting for what only the test can end would be a test that hangs: it is told so instead. */
static CUresult synchronize(CUcontext ctx, CUstream stream)
{
	bool pending;

	pthread_mutex_lock(&lock);
	pending = is_pending(ctx, stream, last_number);
	pthread_mutex_unlock(&lock);
	return pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream);
EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	CUcontext current;
	CUresult code = context_enter("cuStreamSynchronize", &current);

	if (!code)
		code = stream_use(stream, current);
	if (!code && !driver_capture_check())
		code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return code ? code : synchronize(is_own(stream) ? stream->ctx : current, canonical(stream));
}

EXPORT CUresult cuStreamQuery(CUstream stream);
EXPORT CUresult cuStreamQuery(CUstream stream)
{
	return cuStreamSynchronize(stream);	/* which does not wait here */
}

/* Weak: the tests of the shim have one that waits for work of their own. */
EXPORT __attribute__((weak)) CUresult cuCtxSynchronize(void);
EXPORT __attribute__((weak)) CUresult cuCtxSynchronize(void)
{
	CUcontext current;
	CUresult code = context_enter("cuCtxSynchronize", &current);
	bool capturing;

	if (code)
		return code;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	capturing = invalidate(current, false);
	pthread_mutex_unlock(&lock);
	return capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : synchronize(current, NULL);
}

/* ---- events ---- */

EXPORT CUresult cuEventCreate(CUevent *out, unsigned int flags);
EXPORT CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
	CUcontext current;
	CUresult code = context_enter("cuEventCreate", &current);
	CUevent event;

	if (code)
		return code;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || flags & ~EVENT_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->ctx = current;
	pthread_mutex_lock(&lock);
	event->next = events;
	events = event;
	pthread_mutex_unlock(&lock);
	*out = event;
	return CUDA_SUCCESS;
}

/* Lock held; the link that holds it, or the last one. */
static CUevent *find_event(CUevent event)
{
	CUevent *link;

	for (link = &events; *link && *link != event; link = &(*link)->next)
		;
	return link;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event);
EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	CUresult code = context_enter("cuEventDestroy", NULL);
	CUevent *link;

	if (code)
		return code;
	pthread_mutex_lock(&lock);
	link = find_event(event);
	if (*link)
		*link = event->next;
	else
		code = CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_unlock(&lock);
	if (!code)
		free(event);
	return code;
}

/* An event and what it is recorded in are of one context. */
static CUresult record(CUevent event, CUstream stream, CUcontext ctx, bool captured)
{
	CUresult code = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!*find_event(event) || event->ctx != ctx) {
		code = CUDA_ERROR_INVALID_HANDLE;
	} else {
		event->stream = stream;
		event->number = last_number;
		event->captured = captured;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream);
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CUcontext current;
	CUresult code = context_enter("cuEventRecord", &current);

	if (!code)
		code = stream_use(stream, current);
	if (code)
		return code;
	if (is_own(stream) && stream->capture == INVALIDATED)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	return record(event, canonical(stream), is_own(stream) ? stream->ctx : current,
		      is_own(stream) && stream->capture == CAPTURING);
}

EXPORT CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event);
EXPORT CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	CUresult code = context_enter("cuCtxRecordEvent", NULL);
	bool capturing;

	if (code)
		return code;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	capturing = invalidate(ctx, false);
	pthread_mutex_unlock(&lock);
	return capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : record(event, NULL, ctx, false);
}

EXPORT CUresult cuEventQuery(CUevent event);
EXPORT CUresult cuEventQuery(CUevent event)
{
	CUresult code = context_enter("cuEventQuery", NULL);

	if (!code && !driver_capture_check())
		code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (code)
		return code;
	pthread_mutex_lock(&lock);
	if (!*find_event(event))
		code = CUDA_ERROR_INVALID_HANDLE;
	else if (event->captured)
		code = CUDA_ERROR_CAPTURED_EVENT;
	else if (event->number && is_pending(event->ctx, event->stream, event->number))
		code = CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&lock);
	return code;
}

/* ---- for the other files ---- */

void stream_reset(void)
{
	stream_done(NULL);
	pthread_mutex_lock(&lock);
	while (streams) {
		CUstream next = streams->next;

		free(streams);
		streams = next;
	}
	while (events) {
		CUevent next = events->next;

		free(events);
		events = next;
	}
	broken = false;
	pthread_mutex_unlock(&lock);
}

void stream_read(struct loopback_ledger *out)
{
	CUstream s;
	CUevent e;

	pthread_mutex_lock(&lock);
	for (out->streams = 0, s = streams; s; s = s->next)
		out->streams++;
	for (out->events = 0, e = events; e; e = e->next)
		out->events++;
	pthread_mutex_unlock(&lock);
}
