// SPDX-License-Identifier: MIT
/*
 * Registration of ranges with a runtime: in chunks, by several threads, all or nothing.
 *
 * A range is booked before the runtime is called and until the last of its chunks is unregistered. One that the
 * runtime refuses to let go stays booked, and its memory must stay mapped: a device may still write to it.
 *
 * Drivers hold locks of the whole machine or process while they pin, and other calls of theirs wait. A chunk bounds
 * that wait: between two calls the locks are free, and kernel locks go to whoever waits, not back to who asks again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "registry.h"

#define CHUNK_FLOOR	HPI_2M
#define THREADS_MAX	64
#define BATCH_MAX	64		/* ranges unregistered together */

/* ---- a job: the chunks of one range, or of several that go, worked off by several threads ---- */

struct job {
	const struct hpi_runtime *runtime;
	struct hpi_runtime_scope scope;
	struct hpi_range *range;	/* registering: the only one */
	struct hpi_range *const *ranges;	/* unregistering */
	size_t range_count;
	bool unregister;
	pthread_mutex_t lock;		/* of what follows, and of the range's chunks */
	uint64_t next_bytes;		/* registering: from here on nobody has begun */
	uint64_t chunk_bytes;		/* registering: most a call may take; becomes less */
	uint64_t done_bytes;		/* registering: for who wants to see it get on */
	size_t next_range, next_chunk;	/* unregistering */
	int err;			/* of the first failure, with its text */
	char text[512];
};

static void fail(struct job *job, const struct hpi_range *range, int err, const char *addr, uint64_t bytes)
{
	pthread_mutex_lock(&job->lock);
	if (!job->err) {
		job->err = err;
		snprintf(job->text, sizeof(job->text), "chunk of %llu bytes at offset %llu: %s",
			 (unsigned long long)bytes, (unsigned long long)(addr - range->addr), hugepin_error());
	}
	pthread_mutex_unlock(&job->lock);
}

/* Chunks end at multiples of their size, so that a default chunk never cuts a 1G page. */
static bool take_piece(struct job *job, char **addr, uint64_t *bytes)
{
	const struct hpi_range *range = job->range;
	uint64_t left, most;
	bool taken = false;

	pthread_mutex_lock(&job->lock);
	left = range->bytes - job->next_bytes;
	if (left && !job->err) {
		*addr = range->addr + job->next_bytes;
		most = job->chunk_bytes - (uintptr_t)*addr % job->chunk_bytes;
		*bytes = left < most ? left : most;
		job->next_bytes += *bytes;
		taken = true;
	}
	pthread_mutex_unlock(&job->lock);
	return taken;
}

/* What may be registered in one call now, at most @bytes; -ENOMEM if the chunk could not be booked then. */
static int prepare_chunk(struct job *job, uint64_t bytes, uint64_t *now, size_t *slot)
{
	struct hpi_range *range = job->range;
	struct hpi_chunk *chunks;
	size_t room;
	int err = 0;

	pthread_mutex_lock(&job->lock);
	if (range->count == range->room) {
		room = range->room ? range->room * 2 : 16;
		chunks = hpi_sys_fault && hpi_sys_fault("realloc") ? NULL :
			 realloc(range->chunks, room * sizeof(*chunks));
		if (chunks) {
			range->chunks = chunks;
			range->room = room;
		} else {
			err = hpi_error(-ENOMEM, "no memory to book %zu chunks", room);
		}
	}
	if (!err) {
		*slot = range->count++;
		range->chunks[*slot].live = false;
		*now = bytes < job->chunk_bytes ? bytes : job->chunk_bytes;
	}
	pthread_mutex_unlock(&job->lock);
	return err;
}

static void book_chunk(struct job *job, size_t slot, char *addr, uint64_t bytes)
{
	uint64_t done;

	pthread_mutex_lock(&job->lock);
	job->range->chunks[slot] = (struct hpi_chunk){ .addr = addr, .bytes = bytes, .live = true };
	job->done_bytes += bytes;
	done = job->done_bytes;
	pthread_mutex_unlock(&job->lock);
	hpi_log(HUGEPIN_LOG_DEBUG, "registered %llu of %llu bytes at %p with %s", (unsigned long long)done,
		(unsigned long long)job->range->bytes, (void *)job->range->addr, job->runtime->name);
}

/* The runtime could not take @bytes at once: all go on with less. False at the floor. */
static bool halve(struct job *job, uint64_t bytes)
{
	uint64_t half = bytes / 2 / CHUNK_FLOOR * CHUNK_FLOOR;

	if (bytes <= CHUNK_FLOOR)
		return false;
	pthread_mutex_lock(&job->lock);
	if (half < CHUNK_FLOOR)
		half = CHUNK_FLOOR;
	if (half < job->chunk_bytes)
		job->chunk_bytes = half;
	pthread_mutex_unlock(&job->lock);
	return true;
}

static void register_piece(struct job *job, char *addr, uint64_t bytes)
{
	uint64_t now;
	size_t slot;
	int err, code;

	while (bytes) {
		err = prepare_chunk(job, bytes, &now, &slot);
		if (err) {
			fail(job, job->range, err, addr, bytes);
			return;
		}
		err = job->runtime->host_register(addr, now, &code);
		if ((err == -ENOMEM || err == -EDQUOT) && halve(job, now))
			continue;
		if (err) {
			/* ENOMEM is kept for our own books: the runtime's shortage is a refusal like any other. */
			fail(job, job->range, err == -ENOMEM ? -EIO : err, addr, now);
			return;
		}
		book_chunk(job, slot, addr, now);
		addr += now;
		bytes -= now;
	}
}

static bool take_live_chunk(struct job *job, struct hpi_range **range, struct hpi_chunk *out, size_t *slot)
{
	bool taken = false;

	pthread_mutex_lock(&job->lock);
	while (!taken && job->next_range < job->range_count) {
		*range = job->ranges[job->next_range];
		if (job->next_chunk == (*range)->count) {
			job->next_range++;
			job->next_chunk = 0;
			continue;
		}
		*slot = job->next_chunk++;
		*out = (*range)->chunks[*slot];
		taken = out->live;
	}
	pthread_mutex_unlock(&job->lock);
	return taken;
}

/* Goes on after a failure: what can be unregistered is. */
static void unregister_chunk(struct job *job, struct hpi_range *range, const struct hpi_chunk *chunk, size_t slot)
{
	int code, err = job->runtime->host_unregister(chunk->addr, chunk->bytes, &code);

	if (err == -ENOENT)	/* nothing holds the memory any more, which is what was wanted */
		hpi_log(HUGEPIN_LOG_WARNING, "unregistering %llu bytes at %p: %s", (unsigned long long)chunk->bytes,
			(void *)chunk->addr, hugepin_error());
	else if (err)
		fail(job, range, err, chunk->addr, chunk->bytes);
	if (err && err != -ENOENT)
		return;
	pthread_mutex_lock(&job->lock);
	range->chunks[slot].live = false;
	pthread_mutex_unlock(&job->lock);
}

static void work(void *arg)
{
	struct job *job = arg;
	struct hpi_runtime_thread thread;
	struct hpi_range *range = job->unregister ? job->ranges[0] : job->range;
	struct hpi_chunk chunk;
	uint64_t bytes;
	size_t slot;
	char *addr;
	int code;

	if (job->runtime->enter(&job->scope, &thread, &code)) {
		fail(job, range, -EIO, range->addr, 0);
		return;
	}
	if (job->unregister)
		while (take_live_chunk(job, &range, &chunk, &slot))
			unregister_chunk(job, range, &chunk, slot);
	else
		while (take_piece(job, &addr, &bytes))
			register_piece(job, addr, bytes);
	job->runtime->leave(&thread);
}

/* The calling thread is one of @threads; with fewer than asked for it takes longer, no more. */
static void run(struct job *job, uint64_t threads)
{
	pthread_t helpers[THREADS_MAX];
	size_t count = 0, i;

	while (count + 1 < threads && count < THREADS_MAX &&
	       !hpi_thread_start("hugepin-reg", work, job, &helpers[count]))
		count++;
	if (count + 1 < threads)
		hpi_error_clear();
	work(job);
	for (i = 0; i < count; i++)
		pthread_join(helpers[i], NULL);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t live_chunks(const struct hpi_range *range)
{
	uint64_t live = 0;
	size_t i;

	for (i = 0; i < range->count; i++)
		live += range->chunks[i].live;
	return live;
}

/* ---- the calls ---- */

static int job_begin(struct job *job, struct hugepin_context *ctx, const struct hpi_runtime *runtime)
{
	int code;

	*job = (struct job){
		.runtime = runtime,
		.chunk_bytes = hpi_options_uint(ctx->options, HPI_OPT_REGISTER_CHUNK),
	};
	if (job->runtime->max_register_bytes)
		job->chunk_bytes = min_u64(job->chunk_bytes, job->runtime->max_register_bytes);
	pthread_mutex_init(&job->lock, NULL);
	code = job->runtime->begin(&job->scope, &code);
	if (code)
		pthread_mutex_destroy(&job->lock);
	return code;
}

static void job_end(struct job *job)
{
	job->runtime->end(&job->scope);
	pthread_mutex_destroy(&job->lock);
}

static void run_register(struct hugepin_context *ctx, struct job *job)
{
	uint64_t pieces = (job->range->bytes - 1) / job->chunk_bytes + 1;

	run(job, min_u64(hpi_options_uint(ctx->options, HPI_OPT_REGISTER_THREADS), pieces));
}

static void run_unregister(struct hugepin_context *ctx, struct job *job, struct hpi_range *const ranges[], size_t count)
{
	uint64_t live = 0;
	size_t i;

	for (i = 0; i < count; i++)
		live += live_chunks(ranges[i]);
	job->ranges = ranges;
	job->range_count = count;
	job->unregister = true;
	job->err = 0;
	run(job, min_u64(hpi_options_uint(ctx->options, HPI_OPT_REGISTER_THREADS), live));
}

/* Some of a range is registered after a failure: @err and its text are what the caller gets if that can be undone. */
static int roll_back(struct hugepin_context *ctx, struct job *job, int err)
{
	struct hpi_range *range = job->range;
	unsigned long long bytes = range->bytes;
	char reason[sizeof(job->text)];

	memcpy(reason, job->text, sizeof(reason));
	if (live_chunks(range))
		run_unregister(ctx, job, &range, 1);
	if (live_chunks(range)) {
		hpi_error(-ENOTRECOVERABLE,
			  "registering %llu bytes at %p with %s: %s; and rolling back: %s; the memory must stay mapped",
			  bytes, (void *)range->addr, ctx->runtime->name, reason, job->text);
		hpi_registry_set_state(ctx->registry, range, HPI_RANGE_STUCK);
		return -ENOTRECOVERABLE;
	}
	hpi_error(err, "registering %llu bytes at %p with %s: %s", bytes, (void *)range->addr, ctx->runtime->name,
		  reason);
	hpi_registry_unbook(ctx->registry, range);
	return err;
}

static int register_with(struct hugepin_context *ctx, const struct hpi_runtime *runtime, void *addr, uint64_t bytes)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	struct hpi_range *range = NULL;
	struct job job;
	int err;

	err = hpi_context_check(ctx);
	if (err)
		return err;
	if (!bytes || (bytes | (uintptr_t)addr) % page_bytes || (uintptr_t)addr > UINTPTR_MAX - bytes)
		return hpi_error(-EINVAL, "registering %llu bytes at %p: not whole pages of %llu bytes",
				 (unsigned long long)bytes, addr, (unsigned long long)page_bytes);
	err = hpi_registry_book(ctx->registry, addr, bytes, &range);
	if (err)
		return err;
	range->runtime = runtime;	/* busy, so nobody else looks */
	err = job_begin(&job, ctx, runtime);
	if (err) {
		hpi_registry_unbook(ctx->registry, range);
		return hpi_error_add(err == -ESHUTDOWN ? -EIO : err, ": registering %llu bytes at %p",
				     (unsigned long long)bytes, addr);
	}
	job.range = range;
	run_register(ctx, &job);
	err = job.err;
	if (err)
		err = roll_back(ctx, &job, err);
	else
		hpi_registry_set_state(ctx->registry, range, HPI_RANGE_LIVE);
	job_end(&job);
	if (!err)
		hpi_error_clear();	/* of chunks that had to be halved */
	return err;
}

int hpi_register_range(struct hugepin_context *ctx, void *addr, uint64_t bytes)
{
	bool pins = ctx && ctx->runtime == &hpi_runtime_none && ctx->can_pin;

	return register_with(ctx, pins ? &hpi_runtime_none_pinning : ctx ? ctx->runtime : NULL, addr, bytes);
}

int hpi_register_mapping(struct hugepin_context *ctx, const struct hpi_mapping *mapping)
{
	if (mapping->provider == HUGEPIN_PROVIDER_RUNTIME)
		return 0;
	if (mapping->provider == HUGEPIN_PROVIDER_KMOD)
		return register_with(ctx, ctx->runtime, mapping->addr, mapping->bytes);
	return hpi_register_range(ctx, mapping->addr, mapping->bytes);
}

/* ---- ranges that go ---- */

struct batch {
	size_t count;
	struct hpi_range *ranges[BATCH_MAX];
	enum hpi_range_state before[BATCH_MAX];
	struct hpi_span *spans[BATCH_MAX];
};

/* What the runtime has let go of is forgotten. */
static void end_range(struct hugepin_context *ctx, const struct job *job, struct hpi_range *range, struct hpi_span *span)
{
	span->err = 0;
	if (!live_chunks(range)) {
		hpi_registry_unbook(ctx->registry, range);
		return;
	}
	hpi_registry_set_state(ctx->registry, range, HPI_RANGE_STUCK);
	span->err = hpi_error(-EIO, "unregistering %llu bytes at %p with %s: %s; the memory must stay mapped",
			      (unsigned long long)span->bytes, span->addr, ctx->runtime->name, job->text);
}

/* Of a runtime that is shutting down: the process is exiting, and the driver let go of everything. */
static void end_without_runtime(struct hugepin_context *ctx, const struct batch *batch, size_t i, int err)
{
	struct hpi_span *span = batch->spans[i];

	span->err = 0;
	if (err == -ESHUTDOWN) {
		hpi_registry_unbook(ctx->registry, batch->ranges[i]);
		return;
	}
	hpi_registry_set_state(ctx->registry, batch->ranges[i], batch->before[i]);
	span->err = -EIO;
}

static void unregister_batch(struct hugepin_context *ctx, const struct batch *batch)
{
	struct job job;
	size_t i;
	int err = job_begin(&job, ctx, batch->ranges[0]->runtime);

	if (err) {
		for (i = 0; i < batch->count; i++)
			end_without_runtime(ctx, batch, i, err);
		if (err != -ESHUTDOWN)
			hpi_error_add(-EIO, ": unregistering %llu bytes at %p", (unsigned long long)batch->spans[0]->bytes,
				      batch->spans[0]->addr);
		return;
	}
	run_unregister(ctx, &job, batch->ranges, batch->count);
	for (i = 0; i < batch->count; i++)
		end_range(ctx, &job, batch->ranges[i], batch->spans[i]);
	job_end(&job);
}

/* The next of them that are one runtime's. Returns how many spans that was, with those that are not registered. */
static size_t claim_batch(struct hugepin_context *ctx, struct hpi_span spans[], size_t count, struct batch *batch)
{
	size_t i, n = 0;

	for (i = 0; i < count && n < BATCH_MAX; i++) {
		spans[i].err = hpi_registry_claim(ctx->registry, spans[i].addr, spans[i].bytes, &batch->ranges[n],
						  &batch->before[n]);
		if (spans[i].err)
			continue;
		if (batch->ranges[n]->runtime != batch->ranges[0]->runtime) {
			hpi_registry_set_state(ctx->registry, batch->ranges[n], batch->before[n]);
			break;
		}
		batch->spans[n++] = &spans[i];
	}
	batch->count = n;
	return i;
}

int hpi_unregister_ranges(struct hugepin_context *ctx, struct hpi_span spans[], size_t count)
{
	struct batch batch;
	size_t i, done;
	int err = hpi_context_check(ctx);

	for (i = 0; i < count && err; i++)
		spans[i].err = err;
	if (err)
		return err;
	for (done = 0; done < count;) {
		done += claim_batch(ctx, &spans[done], count - done, &batch);
		if (batch.count)
			unregister_batch(ctx, &batch);
	}
	for (i = 0; i < count && !err; i++)
		err = spans[i].err;
	return err;
}

int hpi_unregister_range(struct hugepin_context *ctx, void *addr, uint64_t bytes)
{
	struct hpi_span span = { .addr = addr, .bytes = bytes };

	return hpi_unregister_ranges(ctx, &span, 1);
}
