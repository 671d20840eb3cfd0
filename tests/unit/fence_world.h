/* SPDX-License-Identifier: MIT */
/*
 * A runtime with streams, for tests of fences: work is given to a stream and done when the test says so. The poller
 * stands still until the test lets it look.
 */
#ifndef FENCE_WORLD_H
#define FENCE_WORLD_H

#include "pool_world.h"

#define STREAMS	4

struct stream {
	unsigned int given, done;		/* pieces of work */
	bool capturing;
};

struct hpi_fence {
	size_t count;
	struct {
		struct stream *stream;
		unsigned int given;
	} parts[STREAMS];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	struct stream streams[STREAMS];
	void *context;				/* that the threads have; NULL: none */
	_Atomic bool shut_down;
	int refuse_record, refuse_query;	/* an errno to answer */
	unsigned int records, device_records, broken_captures, queries, live;
	/* the poller */
	bool free_running;
	unsigned int looks;			/* that it may still take */
	unsigned int pauses;
	uint64_t pause_ns;			/* of the last one */
} device = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };

/* ---- the runtime ---- */

static int device_begin(struct hpi_runtime_scope *scope, int *code)
{
	*scope = (struct hpi_runtime_scope){ .device = -1, .context = device.context };
	*code = 0;
	if (device.shut_down)
		return hpi_error(-ESHUTDOWN, "device: shutting down");
	return device.context ? 0 : hpi_error(-EIO, "device: no context");
}

static int device_enter(struct hpi_runtime_scope *scope, struct hpi_runtime_thread *thread, int *code)
{
	*thread = (struct hpi_runtime_thread){ .pushed = true };
	*code = 0;
	if (device.shut_down)
		return hpi_error(-EIO, "device: shutting down");
	return scope->context == device.context ? 0 : hpi_error(-EIO, "device: the context is gone");
}

static bool any_capture(void)
{
	size_t i;

	for (i = 0; i < STREAMS; i++) {
		if (device.streams[i].capturing)
			return true;
	}
	return false;
}

static void add_part(struct hpi_fence *fence, struct stream *stream)
{
	fence->parts[fence->count].stream = stream;
	fence->parts[fence->count++].given = stream->given;
}

static int record_now(struct stream *stream, struct hpi_fence *fence)
{
	size_t i;

	if (device.refuse_record)
		return hpi_error(-device.refuse_record, "device: refuses to record");
	if ((void *)stream == HPI_STREAM_DEVICE) {
		if (any_capture())
			return -EBUSY;
		device.device_records++;
		for (i = 0; i < STREAMS; i++)
			add_part(fence, &device.streams[i]);
		return 0;
	}
	if (!stream)
		stream = &device.streams[0];
	if (stream < device.streams || stream >= device.streams + STREAMS)
		return hpi_error(-EINVAL, "device: %p is not a stream", (void *)stream);
	if (stream->capturing)
		return -EBUSY;
	device.records++;
	add_part(fence, stream);
	return 0;
}

static int device_record(void *stream, struct hpi_fence **out, int *code)
{
	struct hpi_fence *fence = calloc(1, sizeof(*fence));
	int err;

	assert_non_null(fence);
	*code = 0;
	pthread_mutex_lock(&device.lock);
	err = record_now(stream, fence);
	device.live += !err;
	pthread_mutex_unlock(&device.lock);
	if (err)
		free(fence);
	else
		*out = fence;
	return err;
}

static int device_query(struct hpi_fence *fence, int *code)
{
	size_t i;
	int err = 0;

	*code = 0;
	pthread_mutex_lock(&device.lock);
	device.queries++;
	for (i = 0; i < fence->count; i++) {
		if (fence->parts[i].stream->done < fence->parts[i].given)
			err = -EBUSY;
	}
	if (device.refuse_query)
		err = hpi_error(-device.refuse_query, "device: in error");
	pthread_mutex_unlock(&device.lock);
	return err;
}

static void device_end(struct hpi_fence *fence)
{
	pthread_mutex_lock(&device.lock);
	device.live--;
	pthread_mutex_unlock(&device.lock);
	free(fence);
}

static const struct hpi_runtime device_runtime = {
	.name = "device",
	.begin = device_begin,
	.enter = device_enter,
	.leave = runtime_leave,
	.end = runtime_end,
	.host_register = runtime_register,
	.host_unregister = runtime_unregister,
	.fence_record = device_record,
	.fence_query = device_query,
	.fence_end = device_end,
};

/* ---- work ---- */

static inline void *work_on(size_t stream)
{
	pthread_mutex_lock(&device.lock);
	device.streams[stream].given++;
	pthread_mutex_unlock(&device.lock);
	return &device.streams[stream];
}

static inline void work_done(size_t stream)
{
	pthread_mutex_lock(&device.lock);
	device.streams[stream].done = device.streams[stream].given;
	pthread_mutex_unlock(&device.lock);
}

static inline void capture(size_t stream, bool on)
{
	pthread_mutex_lock(&device.lock);
	device.streams[stream].capturing = on;
	pthread_mutex_unlock(&device.lock);
}

/* ---- the poller ---- */

static void poller_waits(uint64_t ns)
{
	pthread_mutex_lock(&device.lock);
	device.pauses++;
	device.pause_ns = ns;
	pthread_cond_broadcast(&device.moved);
	while (!device.free_running && !device.looks)
		pthread_cond_wait(&device.moved, &device.lock);
	device.looks -= device.looks > 0;
	pthread_mutex_unlock(&device.lock);
}

/* Waits until the poller has begun its @nth pause; returns how long that was to be. */
static inline uint64_t poller_pause(unsigned int nth)
{
	uint64_t ns;

	pthread_mutex_lock(&device.lock);
	while (device.pauses < nth)
		pthread_cond_wait(&device.moved, &device.lock);
	assert_int_equal(device.pauses, nth);
	ns = device.pause_ns;
	pthread_mutex_unlock(&device.lock);
	return ns;
}

static inline void poller_look(unsigned int looks)
{
	pthread_mutex_lock(&device.lock);
	device.looks += looks;
	pthread_cond_broadcast(&device.moved);
	pthread_mutex_unlock(&device.lock);
}

static inline void poller_run(void)
{
	pthread_mutex_lock(&device.lock);
	device.free_running = true;
	pthread_cond_broadcast(&device.moved);
	pthread_mutex_unlock(&device.lock);
}

/* ---- pools ---- */

/* @ctx, or NULL for one of its own with the defaults. */
static inline struct hugepin_pool *device_pool(struct hugepin_context *ctx)
{
	struct hugepin_pool *pool;

	if (!ctx)
		ctx = make_context(NULL);
	ctx->runtime = &device_runtime;
	pool = make_pool_on(ctx, HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	return pool;
}

static inline void end_device_pool(struct hugepin_pool *pool)
{
	size_t i;

	for (i = 0; i < STREAMS; i++)
		work_done(i);
	poller_run();
	end_pool(pool);
}

static inline void free_after(struct hugepin_pool *pool, void *ptr, void *stream)
{
	if (hugepin_free_after(pool, ptr, &stream, 1))
		print_error("%s\n", hugepin_error());
	assert_string_equal(hugepin_error(), "");
}

static inline int device_setup(void **state)
{
	device.context = &device;
	device.shut_down = device.free_running = false;
	device.refuse_record = device.refuse_query = 0;
	device.records = device.device_records = device.queries = device.live = 0;
	device.looks = device.pauses = 0;
	memset(device.streams, 0, sizeof(device.streams));
	hpi_poller_pause = poller_waits;
	return world_setup(state);
}

static inline int device_teardown(void **state)
{
	hpi_poller_pause = NULL;
	assert_int_equal(device.live, 0);
	return world_teardown(state);
}

#define DEVICE_TEST(name)	cmocka_unit_test_setup_teardown(name, device_setup, device_teardown)

#endif /* FENCE_WORLD_H */
