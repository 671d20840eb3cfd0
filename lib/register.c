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

/* ---- a job: the chunks of one range, worked off by several threads ---- */

struct job {
	const struct hpi_runtime *runtime;
	struct hpi_runtime_scope scope;
	struct hpi_range *range;
	bool unregister;
	pthread_mutex_t lock;		/* of what follows, and of the range's chunks */
	uint64_t next_bytes;		/* registering: from here on nobody has begun */
	uint64_t chunk_bytes;		/* registering: most a call may take; becomes less */
	uint64_t done_bytes;		/* registering: for who wants to see it get on */
	size_t next_chunk;		/* unregistering */
	int err;			/* of the first failure, with its text */
	char text[512];
};

static void fail(struct job *job, int err, const char *addr, uint64_t bytes)
{
	pthread_mutex_lock(&job->lock);
	if (!job->err) {
		job->err = err;
		snprintf(job->text, sizeof(job->text), "chunk of %llu bytes at offset %llu: %s",
			 (unsigned long long)bytes, (unsigned long long)(addr - job->range->addr), hugepin_error());
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
			fail(job, err, addr, bytes);
			return;
		}
		err = job->runtime->host_register(addr, now, &code);
		if (err == -ENOMEM && halve(job, now))
			continue;
		if (err) {
			/* ENOMEM is kept for our own books: the runtime's shortage is a refusal like any other. */
			fail(job, err == -ENOMEM ? -EIO : err, addr, now);
			return;
		}
		book_chunk(job, slot, addr, now);
		addr += now;
		bytes -= now;
	}
}

static bool take_live_chunk(struct job *job, struct hpi_chunk *out, size_t *slot)
{
	struct hpi_range *range = job->range;
	bool taken = false;

	pthread_mutex_lock(&job->lock);
	while (!taken && job->next_chunk < range->count) {
		*slot = job->next_chunk++;
		*out = range->chunks[*slot];
		taken = out->live;
	}
	pthread_mutex_unlock(&job->lock);
	return taken;
}

/* Goes on after a failure: what can be unregistered is. */
static void unregister_chunk(struct job *job, const struct hpi_chunk *chunk, size_t slot)
{
	int code, err = job->runtime->host_unregister(chunk->addr, chunk->bytes, &code);

	if (err == -ENOENT)	/* nothing holds the memory any more, which is what was wanted */
		hpi_log(HUGEPIN_LOG_WARNING, "unregistering %llu bytes at %p: %s", (unsigned long long)chunk->bytes,
			(void *)chunk->addr, hugepin_error());
	else if (err)
		fail(job, err, chunk->addr, chunk->bytes);
	if (err && err != -ENOENT)
		return;
	pthread_mutex_lock(&job->lock);
	job->range->chunks[slot].live = false;
	pthread_mutex_unlock(&job->lock);
}

static void work(void *arg)
{
	struct job *job = arg;
	struct hpi_runtime_thread thread;
	struct hpi_chunk chunk;
	uint64_t bytes;
	size_t slot;
	char *addr;
	int code;

	if (job->runtime->enter(&job->scope, &thread, &code)) {
		fail(job, -EIO, job->range->addr, 0);
		return;
	}
	if (job->unregister)
		while (take_live_chunk(job, &chunk, &slot))
			unregister_chunk(job, &chunk, slot);
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

static int job_begin(struct job *job, struct hugepin_context *ctx, struct hpi_range *range)
{
	int code;

	*job = (struct job){
		.runtime = range->runtime,
		.range = range,
		.chunk_bytes = hpi_options_uint(ctx->options, HPI_OPT_REGISTER_CHUNK),
	};
	if (job->runtime->max_register_bytes)
		job->chunk_bytes = min_u64(job->chunk_bytes, job->runtime->max_register_bytes);
	pthread_mutex_init(&job->lock, NULL);
	return job->runtime->begin(&job->scope, &code);
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

static void run_unregister(struct hugepin_context *ctx, struct job *job)
{
	job->unregister = true;
	job->err = 0;
	run(job, min_u64(hpi_options_uint(ctx->options, HPI_OPT_REGISTER_THREADS), live_chunks(job->range)));
}

/* Some of a range is registered after a failure: @err and its text are what the caller gets if that can be undone. */
static int roll_back(struct hugepin_context *ctx, struct job *job, int err)
{
	struct hpi_range *range = job->range;
	unsigned long long bytes = range->bytes;
	char reason[sizeof(job->text)];

	memcpy(reason, job->text, sizeof(reason));
	if (live_chunks(range))
		run_unregister(ctx, job);
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
	err = job_begin(&job, ctx, range);
	if (err) {
		pthread_mutex_destroy(&job.lock);
		hpi_registry_unbook(ctx->registry, range);
		return hpi_error_add(err == -ESHUTDOWN ? -EIO : err, ": registering %llu bytes at %p",
				     (unsigned long long)bytes, addr);
	}
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

int hpi_unregister_range(struct hugepin_context *ctx, void *addr, uint64_t bytes)
{
	struct hpi_range *range = NULL;
	struct job job;
	enum hpi_range_state before;
	int err;

	err = hpi_context_check(ctx);
	if (!err)
		err = hpi_registry_claim(ctx->registry, addr, bytes, &range, &before);
	if (err)
		return err;
	err = job_begin(&job, ctx, range);
	if (err) {
		pthread_mutex_destroy(&job.lock);
		if (err == -ESHUTDOWN) {	/* the process is exiting, and the driver let go of everything */
			hpi_registry_unbook(ctx->registry, range);
			return 0;
		}
		hpi_registry_set_state(ctx->registry, range, before);
		return hpi_error_add(-EIO, ": unregistering %llu bytes at %p", (unsigned long long)bytes, addr);
	}
	run_unregister(ctx, &job);
	if (live_chunks(range)) {
		err = hpi_error(-EIO, "unregistering %llu bytes at %p with %s: %s; the memory must stay mapped",
				(unsigned long long)bytes, addr, ctx->runtime->name, job.text);
		hpi_registry_set_state(ctx->registry, range, HPI_RANGE_STUCK);
	} else {
		hpi_registry_unbook(ctx->registry, range);
	}
	job_end(&job);
	return err;
}

int hpi_unregister_mapping(struct hugepin_context *ctx, const struct hpi_mapping *mapping)
{
	if (mapping->provider == HUGEPIN_PROVIDER_RUNTIME)
		return 0;
	return hpi_unregister_range(ctx, mapping->addr, mapping->bytes);
}
