// SPDX-License-Identifier: MIT
/*
 * The poller: a thread that looks whether fences have passed, so that memory comes back without anybody asking. One a
 * context, started with the first fence, ended with the context.
 *
 * While fences are pending it looks every polling_active_delay_usecs. While none are it does not run at all; the first
 * that comes then is looked at after polling_inactive_delay_msecs, and so is again what could not be recorded.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "internal.h"

#define ACTIVE_DEFAULT_NS	10000ull
#define INACTIVE_DEFAULT_NS	1000000ull
#define NS_IN_S			1000000000ull

void (*hpi_poller_pause)(uint64_t ns);

struct hpi_poller {
	pthread_mutex_t lock;			/* of the rest */
	pthread_cond_t wake;
	pthread_t thread;
	bool tried, running, stop, wanted;
	uint64_t active_ns, inactive_ns;
};

/* Lock held. Only the end cuts a pause short. */
static void pause_for(struct hpi_poller *poller, uint64_t ns)
{
	struct timespec until;

	if (hpi_poller_pause) {
		pthread_mutex_unlock(&poller->lock);
		hpi_poller_pause(ns);
		pthread_mutex_lock(&poller->lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / NS_IN_S);
	until.tv_nsec = (long)(ns % NS_IN_S);
	while (!poller->stop && pthread_cond_timedwait(&poller->wake, &poller->lock, &until) != ETIMEDOUT)
		;
}

static void work(void *arg)
{
	struct hugepin_context *ctx = arg;
	struct hpi_poller *poller = ctx->poller;
	uint64_t delay = poller->inactive_ns;
	enum hpi_fences_left left;

	prctl(PR_SET_TIMERSLACK, 1ul);		/* this thread's: else 10 us become 60 */
	pthread_mutex_lock(&poller->lock);
	while (!poller->stop) {
		if (!poller->wanted) {
			pthread_cond_wait(&poller->wake, &poller->lock);
			continue;
		}
		pause_for(poller, delay);
		if (poller->stop)
			break;
		poller->wanted = false;
		pthread_mutex_unlock(&poller->lock);
		left = hpi_fences_poll(ctx, false, NULL);
		pthread_mutex_lock(&poller->lock);
		if (left != HPI_FENCES_NONE)
			poller->wanted = true;
		delay = left == HPI_FENCES_PENDING ? poller->active_ns : poller->inactive_ns;
	}
	pthread_mutex_unlock(&poller->lock);
}

/* Without a poller fences are looked at when an allocation finds no room, and when somebody asks. */
static void start(struct hugepin_context *ctx)
{
	struct hpi_poller *poller = ctx->poller;

	poller->tried = true;
	poller->running = !hpi_thread_start("hugepin-poller", work, ctx, &poller->thread);
	if (!poller->running)
		hpi_log(HUGEPIN_LOG_WARNING, "fences: %s; memory behind them comes back when some is asked for",
			hugepin_error());
}

void hpi_poller_wake(struct hugepin_context *ctx)
{
	struct hpi_poller *poller = ctx->poller;

	pthread_mutex_lock(&poller->lock);
	if (!poller->tried)
		start(ctx);
	if (!poller->wanted) {
		poller->wanted = true;
		pthread_cond_signal(&poller->wake);
	}
	pthread_mutex_unlock(&poller->lock);
}

int hpi_poller_create(struct hugepin_context *ctx)
{
	struct hpi_poller *poller = hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(1, sizeof(*poller));
	pthread_condattr_t attr;

	if (!poller)
		return hpi_error(-ENOMEM, "no memory for a poller of fences");
	poller->active_ns = 1000 * (uint64_t)hpi_options_int(ctx->options, HPI_OPT_TF_POLL_ACTIVE_US);
	if (!poller->active_ns)
		poller->active_ns = ACTIVE_DEFAULT_NS;
	poller->inactive_ns = 1000000 * (uint64_t)hpi_options_int(ctx->options, HPI_OPT_TF_POLL_INACTIVE_MS);
	if (!poller->inactive_ns)
		poller->inactive_ns = INACTIVE_DEFAULT_NS;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&poller->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&poller->lock, NULL);
	ctx->poller = poller;
	return 0;
}

/* A child of a fork has the books but not the thread, which may hold the lock for ever. */
void hpi_poller_destroy(struct hugepin_context *ctx)
{
	struct hpi_poller *poller = ctx->poller;

	if (!poller)
		return;
	if (!hpi_context_is_child(ctx)) {
		pthread_mutex_lock(&poller->lock);
		poller->stop = true;
		pthread_cond_signal(&poller->wake);
		pthread_mutex_unlock(&poller->lock);
		if (poller->running)
			pthread_join(poller->thread, NULL);
		pthread_cond_destroy(&poller->wake);
		pthread_mutex_destroy(&poller->lock);
	}
	free(poller);
}
