// SPDX-License-Identifier: MIT
/*
 * What waits for a device: one queue a context, of blocks whose user has let go while work that uses them may be under
 * way.
 *
 *	recorded	has its fences: passes when the runtime says so of each
 *	gathered	has none yet, and will get one over all the work of every device, together with the others gathered
 *
 * A fence recorded later waits for more, never for less. So whatever names no stream is gathered, until
 * deferred_deletion_bytes of it are there, somebody asks, or nothing else is left to wait for: the driver is called
 * once for many. What names its streams is recorded at once: the caller may destroy them right after, and only its
 * thread knows which context is meant. A capture under way, or a runtime that refuses, leaves a block among the
 * gathered: it is tried again, and never used early.
 *
 * Locks: polling, then lock. polling is held over calls of the runtime, which may take long; lock never is. Only who
 * holds polling takes waits off the queue, so one that is being queried stays.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "internal.h"

#define PENDING_MAX	16		/* streams remembered in one pass over the queue */
#define CLAIM_LOOK	256		/* waits looked at for one to claim: this must cost less than an allocation */
#define LOST_MAX	3		/* passes in a row in which the runtime could not tell: it will not any more */
#define DEFAULT_STREAM	1			/* handles up to this one are the default stream of the thread's context */
#define THREAD_STREAM	2			/* of the thread */
#define SEVERAL		((void *)-2)	/* instead of a stream: nothing is known of what comes later */

struct hpi_fences {
	pthread_mutex_t polling;
	pthread_mutex_t lock;			/* of the rest */
	struct hpi_wait *first, **end;		/* recorded, the oldest first */
	struct hpi_wait *gathered;		/* linked by also */
	uint64_t gathered_bytes, gather_bytes;
	int gathered_err;			/* of the last try to record a fence for them, 0 before the first */
	unsigned int lost_passes;		/* the last so many passes over the queue had a query that failed */
	bool told;
};

/* ---- calls of the runtime ---- */

struct visit {
	const struct hpi_runtime *runtime;
	struct hpi_runtime_scope scope;
	struct hpi_runtime_thread thread;
	bool begun, entered;
};

static bool has_fences(const struct hugepin_context *ctx)
{
	return ctx->runtime != &hpi_runtime_none && ctx->runtime->fence_record;
}

/* In @context if that is still there, else where the thread may work. -ESHUTDOWN, -EIO. */
static int visit_begin(struct visit *visit, struct hugepin_context *ctx, void *context)
{
	int err, code = 0;

	*visit = (struct visit){ .runtime = ctx->runtime };
	if (context) {
		visit->scope = (struct hpi_runtime_scope){ .context = context, .device = -1 };
		visit->entered = !visit->runtime->enter(&visit->scope, &visit->thread, &code);
		if (visit->entered)
			return 0;
	}
	err = visit->runtime->begin(&visit->scope, &code);
	if (err)
		return err;
	visit->begun = true;
	err = visit->runtime->enter(&visit->scope, &visit->thread, &code);
	visit->entered = !err;
	return err;
}

static void visit_end(struct visit *visit)
{
	if (visit->entered)
		visit->runtime->leave(&visit->thread);
	if (visit->begun)
		visit->runtime->end(&visit->scope);
}

static void end_fences(const struct hpi_runtime *runtime, struct hpi_wait *wait)
{
	while (wait->count)
		runtime->fence_end(wait->fences[--wait->count]);
}

/* Said once: it may come back with every poll. */
static void tell_unrecorded(struct hpi_fences *fences, int err)
{
	if (err == -EBUSY || __atomic_exchange_n(&fences->told, true, __ATOMIC_RELAXED))
		return;
	hpi_log(HUGEPIN_LOG_WARNING, "fences: %s; what was freed behind it is not used again until a fence over all work "
		"of the device has passed", hugepin_error());
}

/* ---- recording ---- */

/*
 * Of several streams that are being captured each is to be remembered, for their captures end one by one. -ENOMEM: one
 * cannot be.
 */
static int remember_captured(const struct hpi_runtime *runtime, void *const *streams, size_t count)
{
	struct hpi_fence *fence;
	int err, code;
	size_t i;

	for (i = 0; i < count && runtime->is_capturing; i++) {
		if (!runtime->is_capturing(streams[i]))
			continue;
		err = runtime->fence_record(streams[i], &fence, &code);
		if (!err)
			runtime->fence_end(fence);	/* its capture has just ended */
		if (err == -ENOBUFS)
			return -ENOMEM;
	}
	return 0;
}

/* 0, -EINVAL: no stream, or -ENOMEM: a capture cannot be remembered. Whatever else fails leaves the wait without fences. */
static int record_streams(struct hpi_fences *fences, const struct hpi_runtime *runtime, struct hpi_wait *wait,
			  void *const *streams, size_t count)
{
	size_t stopped;
	int err, code;

	while (wait->count < count) {
		err = runtime->fence_record(streams[wait->count], &wait->fences[wait->count], &code);
		if (!err) {
			wait->count++;
			continue;
		}
		stopped = wait->count;
		end_fences(runtime, wait);
		if (err == -EINVAL)
			return err;
		if (err != -ENOBUFS)
			tell_unrecorded(fences, err);
		return remember_captured(runtime, streams + stopped, count - stopped);
	}
	return 0;
}

/*
 * Where no context is current and none is active a device may still be at work, in a context that another thread made;
 * but not on memory that was never registered.
 */
static int no_context(int err, bool registered)
{
	if (err == -ESHUTDOWN || !registered) {
		hpi_error_clear();
		return HPI_WAIT_PASSED;
	}
	return 0;
}

int hpi_fence_record(struct hugepin_context *ctx, struct hpi_wait *wait, void *const *streams, size_t count,
		     bool registered)
{
	struct visit visit;
	int err;

	wait->next = wait->also = NULL;
	wait->count = 0;
	wait->claimed = false;
	wait->context = NULL;
	wait->stream = !count ? HPI_STREAM_DEVICE : count == 1 ? streams[0] : SEVERAL;
	if (!has_fences(ctx))
		return HPI_WAIT_PASSED;
	err = visit_begin(&visit, ctx, NULL);
	if (err) {
		err = no_context(err, registered);
	} else {
		wait->context = visit.scope.context;
		err = record_streams(ctx->fences, ctx->runtime, wait, streams, count);
	}
	visit_end(&visit);
	return err;
}

void hpi_fence_drop(struct hugepin_context *ctx, struct hpi_wait *wait)
{
	if (wait->count)
		end_fences(ctx->runtime, wait);
}

/* Lock held. Fences are asked of in the order they were recorded. */
static void append(struct hpi_fences *fences, struct hpi_wait *wait)
{
	wait->next = NULL;
	*fences->end = wait;
	fences->end = &wait->next;
}

/* Lock held. With all that wait together with it. */
static void gather(struct hpi_fences *fences, struct hpi_wait *wait)
{
	struct hpi_wait *last = wait;

	for (;; last = last->also) {
		fences->gathered_bytes += last->bytes;
		if (!last->also)
			break;
	}
	last->also = fences->gathered;
	fences->gathered = wait;
}

/* Moves those of the list that came from the same context as the first to a list of their own. */
static struct hpi_wait *take_alike(struct hpi_wait **list)
{
	struct hpi_wait *alike = NULL, **end = &alike, **at = list, *wait;
	void *context = (*list)->context;

	while (*at) {
		wait = *at;
		if (wait->context != context) {
			at = &wait->also;
			continue;
		}
		*at = wait->also;
		*end = wait;
		end = &wait->also;
	}
	*end = NULL;
	return alike;
}

/* One fence for @batch; the first carries it. 0; -ESHUTDOWN: there is nothing to wait for any more. */
static int record_batch(struct hugepin_context *ctx, struct hpi_wait *batch)
{
	struct visit visit;
	int err, code;

	err = visit_begin(&visit, ctx, batch->context);
	end_fences(ctx->runtime, batch);		/* those that the runtime could not tell of */
	if (!err)
		err = ctx->runtime->fence_record(HPI_STREAM_DEVICE, &batch->fences[0], &code);
	visit_end(&visit);
	if (!err)
		batch->count = 1;
	else if (err != -ESHUTDOWN)
		tell_unrecorded(ctx->fences, err);
	return err;
}

static void add_passed(struct hpi_wait **passed, struct hpi_wait *wait)
{
	wait->next = *passed;
	*passed = wait;
}

/* Records what is gathered; what need not wait any more goes to @passed. Polling held. */
static void record_gathered(struct hugepin_context *ctx, struct hpi_wait **passed)
{
	struct hpi_fences *fences = ctx->fences;
	struct hpi_wait *list, *batch;
	int err;

	pthread_mutex_lock(&fences->lock);
	list = fences->gathered;
	fences->gathered = NULL;
	fences->gathered_bytes = 0;
	fences->gathered_err = 0;
	pthread_mutex_unlock(&fences->lock);
	while (list) {
		batch = take_alike(&list);
		err = record_batch(ctx, batch);
		if (err == -ESHUTDOWN) {
			add_passed(passed, batch);
			continue;
		}
		pthread_mutex_lock(&fences->lock);
		if (err) {
			fences->gathered_err = err;
			gather(fences, batch);
		} else {
			append(fences, batch);
		}
		pthread_mutex_unlock(&fences->lock);
	}
}

/* ---- asking ---- */

/* Streams found pending in this pass: what was recorded behind them later is pending, too. */
struct pending {
	void *streams[PENDING_MAX];
	size_t count;
};

static bool is_behind(const struct pending *pending, const struct hpi_wait *wait)
{
	size_t i;

	for (i = 0; i < pending->count; i++) {
		if (pending->streams[i] == wait->stream)
			return true;
	}
	return false;
}

static void note_pending(struct pending *pending, const struct hpi_wait *wait)
{
	if (pending->count < PENDING_MAX && wait->stream != SEVERAL)
		pending->streams[pending->count++] = wait->stream;
}

/* 0: all have passed; -EBUSY; else the runtime cannot tell. */
static int query(const struct hpi_runtime *runtime, struct hpi_wait *wait)
{
	int err = 0, code;

	while (!err && wait->count) {
		err = runtime->fence_query(wait->fences[wait->count - 1], &code);
		if (!err)
			runtime->fence_end(wait->fences[--wait->count]);
	}
	return err;
}

/* Lock held. */
static void unlink_at(struct hpi_fences *fences, struct hpi_wait **link)
{
	*link = (*link)->next;
	if (!*link)
		fences->end = link;
}

/* What became of a wait that was queried: off the queue, or one further. Returns the link to go on from. */
static struct hpi_wait **settle(struct hugepin_context *ctx, struct hpi_wait **link, int err, struct hpi_wait **passed)
{
	struct hpi_fences *fences = ctx->fences;
	struct hpi_wait *wait = *link;

	if (err == -EBUSY && !wait->claimed)
		return &wait->next;
	unlink_at(fences, link);
	if (wait->claimed || !err) {
		add_passed(passed, wait);
	} else {
		fences->gathered_err = err;
		gather(fences, wait);
	}
	return link;
}

/* Polling held, so that only other threads' new waits change the queue, at its end. */
static void query_all(struct hugepin_context *ctx, bool shut_down, struct hpi_wait **passed)
{
	struct hpi_fences *fences = ctx->fences;
	struct pending pending = { .count = 0 };
	struct hpi_wait **link, *wait;
	bool lost = false;
	int err;

	pthread_mutex_lock(&fences->lock);
	link = &fences->first;
	while (*link) {
		wait = *link;
		if (!wait->claimed && is_behind(&pending, wait)) {
			link = &wait->next;
			continue;
		}
		pthread_mutex_unlock(&fences->lock);
		err = shut_down ? 0 : query(ctx->runtime, wait);
		if (err == -EBUSY)
			note_pending(&pending, wait);
		else if (err)
			tell_unrecorded(fences, err);
		lost = lost || (err && err != -EBUSY);
		pthread_mutex_lock(&fences->lock);
		link = settle(ctx, link, err, passed);
	}
	fences->lost_passes = lost ? fences->lost_passes + 1 : 0;
	pthread_mutex_unlock(&fences->lock);
}

/* Without locks: whoever gets a block back may take some of his own. */
static void let_pass(struct hugepin_context *ctx, struct hpi_wait *passed)
{
	struct hpi_wait *next, *also;

	for (; passed; passed = next) {
		next = passed->next;
		end_fences(ctx->runtime, passed);	/* of what was claimed, or is not waited for any more */
		for (; passed; passed = also) {
			also = passed->also;
			passed->passed(passed);
		}
	}
}

/* A device in error takes fences and never tells of them: for who asks why, they are as good as not recorded. */
static enum hpi_fences_left count_left(struct hpi_fences *fences, int *err)
{
	enum hpi_fences_left left = HPI_FENCES_NONE;

	pthread_mutex_lock(&fences->lock);
	if (fences->first)
		left = HPI_FENCES_PENDING;
	else if (fences->gathered)
		left = HPI_FENCES_GATHERED;
	if (err)
		*err = fences->gathered_err;
	if (err && left == HPI_FENCES_PENDING && fences->lost_passes >= LOST_MAX) {
		*err = -EIO;
		left = HPI_FENCES_GATHERED;
	}
	pthread_mutex_unlock(&fences->lock);
	return left;
}

enum hpi_fences_left hpi_fences_poll(struct hugepin_context *ctx, bool record, int *err)
{
	struct hpi_fences *fences = ctx->fences;
	struct hpi_wait *passed = NULL;
	struct visit visit;
	bool shut_down;

	if (count_left(fences, err) == HPI_FENCES_NONE)
		return HPI_FENCES_NONE;
	pthread_mutex_lock(&fences->polling);
	/* Without a context the runtime is asked all the same: it knows whether the fences' own are gone. */
	shut_down = visit_begin(&visit, ctx, NULL) == -ESHUTDOWN;
	query_all(ctx, shut_down, &passed);
	visit_end(&visit);
	if (record || count_left(fences, NULL) == HPI_FENCES_GATHERED)
		record_gathered(ctx, &passed);
	pthread_mutex_unlock(&fences->polling);
	let_pass(ctx, passed);
	return count_left(fences, err);
}

/* ---- queueing ---- */

void hpi_fence_queue(struct hugepin_context *ctx, struct hpi_wait *wait)
{
	struct hpi_fences *fences = ctx->fences;
	struct hpi_wait *passed = NULL;
	bool full;

	pthread_mutex_lock(&fences->lock);
	if (wait->count)
		append(fences, wait);
	else
		gather(fences, wait);
	full = fences->gathered_bytes >= fences->gather_bytes && !fences->gathered_err;
	pthread_mutex_unlock(&fences->lock);
	if (full) {
		pthread_mutex_lock(&fences->polling);
		record_gathered(ctx, &passed);
		pthread_mutex_unlock(&fences->polling);
		let_pass(ctx, passed);
	}
	hpi_poller_wake(ctx);
}

/* What a stream's handle is good in: NULL for every context. False: it says nothing. */
static bool context_of(struct hugepin_context *ctx, void *stream, void **context)
{
	struct visit visit;

	*context = NULL;
	if (!has_fences(ctx) || (uintptr_t)stream == THREAD_STREAM)
		return false;
	if ((uintptr_t)stream > DEFAULT_STREAM)
		return true;
	if (!visit_begin(&visit, ctx, NULL))
		*context = visit.scope.context;
	visit_end(&visit);
	return *context;
}

/*
 * What waits for @stream alone may be used again by work that is put there behind it: the stream keeps the order. The
 * oldest that fits: were the best searched for, a full queue would cost more than fresh memory.
 */
bool hpi_fence_claim(struct hugepin_context *ctx, void *stream, bool (*fits)(struct hpi_wait *wait, void *arg), void *arg)
{
	struct hpi_fences *fences = ctx->fences;
	unsigned int left = CLAIM_LOOK;
	bool found = false;
	void *context;
	struct hpi_wait *wait;

	if (!context_of(ctx, stream, &context))
		return false;
	pthread_mutex_lock(&fences->lock);
	for (wait = fences->first; wait && left-- && !found; wait = wait->next) {
		found = wait->stream == stream && (!context || wait->context == context) && !wait->claimed &&
			fits(wait, arg);
		if (found)
			wait->claimed = true;
	}
	pthread_mutex_unlock(&fences->lock);
	return found;
}

/* ---- the queue itself ---- */

int hpi_fences_create(struct hugepin_context *ctx)
{
	struct hpi_fences *fences = hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(1, sizeof(*fences));

	if (!fences)
		return hpi_error(-ENOMEM, "no memory for a queue of fences");
	fences->gather_bytes = hpi_options_deferred_deletion(ctx->options);
	fences->end = &fences->first;
	pthread_mutex_init(&fences->polling, NULL);
	pthread_mutex_init(&fences->lock, NULL);
	ctx->fences = fences;
	return 0;
}

/* Empty, but in a child of a fork: there the waits go with the process. */
void hpi_fences_destroy(struct hugepin_context *ctx)
{
	struct hpi_fences *fences = ctx->fences;

	if (!fences)
		return;
	if (!hpi_context_is_child(ctx)) {
		pthread_mutex_destroy(&fences->lock);
		pthread_mutex_destroy(&fences->polling);
	}
	free(fences);
}
