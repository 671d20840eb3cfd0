// SPDX-License-Identifier: MIT
/*
 * Blocks that are freed while a device may still use them: retired, and given back when the device's work has passed.
 *
 *	used -> behind its fences -> garbage, or free
 *	                          -> used, by work that is ordered behind on the same stream
 */
#include "pool.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define STREAMS_MAX	1024
#define DRAIN_PAUSE_NS	20000		/* about what a poller's look takes to come round */

/* retired is first: whoever has it in the end frees all of it. */
struct fenced {
	struct hpi_retired retired;
	struct hugepin_pool *pool;
	struct hpi_wait wait;			/* with room for its fences */
};

static struct fenced *fenced_of(struct hpi_wait *wait)
{
	return (struct fenced *)((char *)wait - offsetof(struct fenced, wait));
}

/* The pool may be gone once its count of blocks behind fences is down. */
static void pass(struct hpi_wait *wait)
{
	struct fenced *fenced = fenced_of(wait);
	struct hugepin_pool *pool = fenced->pool;

	if (!wait->claimed) {
		__atomic_sub_fetch(&pool->fenced_bytes, wait->bytes, __ATOMIC_RELAXED);
		hpi_garbage_put(pool, &fenced->retired);
	} else {
		hpi_scope_drop(pool, fenced->retired.scope);
		free(fenced);
	}
	__atomic_sub_fetch(&pool->fenced, 1, __ATOMIC_RELEASE);
}

static int check_streams(const struct hugepin_pool *pool, void *const *streams, size_t count)
{
	size_t i;

	if (count > STREAMS_MAX || (count && !streams))
		return hpi_error(-EINVAL, "%s pool: freeing a block after %zu streams at %p: at most %d, and not NULL",
				 hpi_pool_name(pool), count, (const void *)streams, STREAMS_MAX);
	for (i = 0; i < count; i++) {
		if (streams[i] == HPI_STREAM_DEVICE)
			return hpi_error(-EINVAL, "%s pool: %p is not a stream", hpi_pool_name(pool), streams[i]);
	}
	return 0;
}

static struct fenced *make_fenced(struct hugepin_pool *pool, void *ptr, size_t count)
{
	size_t bytes = sizeof(struct fenced) + (count ? count : 1) * sizeof(struct hpi_fence *);
	struct fenced *fenced = hpi_sys_fault && hpi_sys_fault("malloc") ? NULL : malloc(bytes);

	if (!fenced) {
		hpi_error(-ENOMEM, "%s pool: no memory to note what a block waits for; it stays in use",
			  hpi_pool_name(pool));
		return NULL;
	}
	fenced->retired = (struct hpi_retired){ .ptr = ptr };
	fenced->pool = pool;
	fenced->wait.passed = pass;
	return fenced;
}

static bool is_registered(struct hugepin_pool *pool)
{
	bool registered;

	hpi_pool_lock(pool);
	registered = pool->registered_bytes;
	hpi_pool_unlock(pool);
	return registered;
}

/* A block that was taken in a scope goes on as its scope's garbage. */
static void leave_scope(struct fenced *fenced)
{
	struct hpi_retired *left = hpi_scope_leave(fenced->pool, fenced->retired.ptr);

	if (!left)
		return;
	fenced->retired.scope = left->scope;
	fenced->retired.kept = left->kept;
	free(left);
}

/*
 * The fences come first: what they cost, and how they can fail, leaves the block as it is. On failure the note is still
 * the caller's.
 */
static int retire(struct hugepin_pool *pool, struct fenced *fenced, void *const *streams, size_t count)
{
	int now = hpi_fence_record(pool->ctx, &fenced->wait, streams, count, is_registered(pool));
	void *ptr = fenced->retired.ptr;
	uint64_t bytes = 0;

	if (now < 0)
		return hpi_error_add(now, "; the block at %p stays in use", ptr);
	if (hpi_block_retire(pool, ptr, &bytes)) {
		hpi_fence_drop(pool->ctx, &fenced->wait);
		return hpi_error(-EINVAL, "%p is not a block of the %s pool, or is freed already", ptr,
				 hpi_pool_name(pool));
	}
	leave_scope(fenced);
	if (!bytes) {
		hpi_fence_drop(pool->ctx, &fenced->wait);
		hpi_scope_drop(pool, fenced->retired.scope);
		free(fenced);
		return 0;
	}
	fenced->retired.bytes = fenced->wait.bytes = bytes;
	__atomic_add_fetch(&pool->fenced, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&pool->fenced_bytes, bytes, __ATOMIC_RELAXED);
	if (now == HPI_WAIT_PASSED)
		pass(&fenced->wait);
	else
		hpi_fence_queue(pool->ctx, &fenced->wait);
	return 0;
}

int hugepin_free_after(struct hugepin_pool *pool, void *ptr, void *const *streams, size_t count)
{
	struct fenced *fenced;
	int err = hpi_context_check(pool->ctx);

	if (!err)
		err = check_streams(pool, streams, count);
	if (err || !ptr)
		return err;
	fenced = make_fenced(pool, ptr, count);
	if (!fenced)
		return -ENOMEM;
	err = retire(pool, fenced, streams, count);
	if (err)
		free(fenced);
	else
		hpi_error_clear();		/* of a fence that could not be recorded now */
	return err;
}

/* ---- reuse on the same stream ---- */

struct claim {
	struct hugepin_pool *pool;
	uint64_t bytes;
	void *ptr;
};

/* A plan's block is for its plan alone. */
static bool is_in_plan(const struct fenced *fenced)
{
	const char *ptr = fenced->retired.ptr;

	return fenced->retired.kept || ptr < fenced->pool->window || ptr >= fenced->pool->window_end;
}

/* All of the block is given, since its rest would be free for others too early: so it must not be much larger. */
static bool fits(struct hpi_wait *wait, void *arg)
{
	struct fenced *fenced = fenced_of(wait);
	struct claim *claim = arg;

	if (fenced->pool != claim->pool || is_in_plan(fenced) || wait->bytes < claim->bytes ||
	    wait->bytes - claim->bytes > wait->bytes / 16 + HPI_POOL_GRAIN)
		return false;
	claim->ptr = fenced->retired.ptr;
	__atomic_sub_fetch(&claim->pool->fenced_bytes, wait->bytes, __ATOMIC_RELAXED);
	return true;
}

void *hugepin_alloc_on(struct hugepin_pool *pool, size_t bytes, unsigned int flags, void *stream)
{
	struct claim claim = { .pool = pool, .bytes = bytes };
	int err = hpi_context_check(pool->ctx);

	if (!err)
		err = check_streams(pool, &stream, 1);
	if (err) {
		errno = -err;
		return NULL;
	}
	/* Zeroing would be done by this thread, now. */
	if (bytes && !flags && pool->reuse_on_stream && hpi_fence_claim(pool->ctx, stream, fits, &claim) &&
	    !hpi_block_revive(pool, claim.ptr, bytes))
		return claim.ptr;
	return hugepin_alloc(pool, bytes, flags);
}

/* ---- waiting ---- */

static bool any(const struct hugepin_pool *pool)
{
	return __atomic_load_n(&pool->fenced, __ATOMIC_ACQUIRE);
}

uint64_t hpi_pool_fenced(const struct hugepin_pool *pool)
{
	return __atomic_load_n(&pool->fenced_bytes, __ATOMIC_RELAXED);
}

bool hpi_pool_let_pass(struct hugepin_pool *pool)
{
	uint64_t before = hpi_pool_fenced(pool);

	if (!any(pool))
		return false;
	hpi_fences_poll(pool->ctx, true, NULL);
	return hpi_pool_fenced(pool) < before;
}

int64_t hugepin_pool_poll(struct hugepin_pool *pool)
{
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	hpi_pool_let_pass(pool);
	hpi_error_clear();
	return (int64_t)hpi_pool_fenced(pool);
}

/* The text is that of the runtime's refusal, which this thread may not be the one to have met. */
static int cannot_wait(const struct hugepin_pool *pool, int err)
{
	return hpi_error(err == -EBUSY ? err : -EIO, "%s pool: %llu bytes wait for a device, and no fence can be recorded: %s",
			 hpi_pool_name(pool), (unsigned long long)hpi_pool_fenced(pool),
			 err == -EBUSY ? "a stream is being captured into a graph" : "the runtime refuses");
}

int hugepin_pool_drain(struct hugepin_pool *pool)
{
	static const struct timespec moment = { .tv_nsec = DRAIN_PAUSE_NS };
	int err = hpi_context_check(pool->ctx), refused = 0;

	if (err)
		return err;
	while (any(pool)) {
		if (hpi_fences_poll(pool->ctx, true, &refused) == HPI_FENCES_GATHERED && refused && any(pool))
			return cannot_wait(pool, refused);
		if (any(pool))
			nanosleep(&moment, NULL);
	}
	hpi_error_clear();
	return 0;
}
