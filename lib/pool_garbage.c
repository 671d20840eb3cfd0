// SPDX-License-Identifier: MIT
/*
 * Garbage: blocks that are given back, but not free yet, since the options say that they are to gather
 * (FLAGS_eager_delete_tensor_gb) or that only a share of a scope's is to be collected before it closes
 * (FLAGS_memory_fraction_of_eager_deletion). A block is judged once: collected, or passed over until its scope closes.
 *
 * A pool grows while it has garbage, as where these options come from; but it takes it all back before it fails.
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>

void hpi_garbage_configure(struct hugepin_pool *pool)
{
	const struct hugepin_options *options = pool->ctx->options;
	struct hpi_garbage *garbage = &pool->garbage;

	garbage->in_background = !hpi_options_bool(options, HPI_OPT_PADDLE_EAGER_DELETE_SCOPE);
	garbage->fraction = hpi_options_double(options, HPI_OPT_PADDLE_EAGER_DELETE_FRACTION);
	garbage->never = !hpi_options_scaled(options, HPI_OPT_PADDLE_EAGER_DELETE_GB, &garbage->threshold_bytes);
	garbage->gathers = !garbage->never && garbage->threshold_bytes;
}

static uint64_t release(struct hugepin_pool *pool, struct hpi_retired *list)
{
	struct hpi_retired *next;
	uint64_t bytes = 0;

	for (; list; list = next) {
		next = list->next;
		bytes += list->bytes;
		hpi_block_return(pool, list->ptr);
		free(list);
	}
	return bytes;
}

static void splice(struct hpi_retired **list, struct hpi_retired *more)
{
	struct hpi_retired *next;

	for (; more; more = next) {
		next = more->next;
		more->next = *list;
		*list = more;
	}
}

/* ---- Collection; with garbage.lock held ---- */

static struct hpi_retired *merge(struct hpi_retired *a, struct hpi_retired *b)
{
	struct hpi_retired *merged = NULL, **end = &merged, **larger;

	while (a && b) {
		larger = a->bytes >= b->bytes ? &a : &b;
		*end = *larger;
		*larger = (*larger)->next;
		end = &(*end)->next;
	}
	*end = a ? a : b;
	return merged;
}

/* Largest first, in place: there may be no memory to sort in. */
static struct hpi_retired *sort(struct hpi_retired *list)
{
	struct hpi_retired *slow = list, *fast, *half;

	if (!list || !list->next)
		return list;
	for (fast = list->next; fast && fast->next; fast = fast->next->next)
		slow = slow->next;
	half = slow->next;
	slow->next = NULL;
	return merge(sort(list), sort(half));
}

/*
 * Of all that was ever garbage in the scope, the fraction is to be chosen: counted by bytes, so that it holds over many
 * small collections too. What is not chosen now never is.
 */
static void collect_scope(struct hpi_garbage *garbage, struct hugepin_scope *scope, struct hpi_retired **out)
{
	struct hpi_retired *list = sort(scope->gathered), *next;
	uint64_t wanted;

	scope->gathered = NULL;
	for (next = list; next; next = next->next) {
		scope->considered_bytes += next->bytes;
		garbage->waiting_bytes -= next->bytes;
	}
	wanted = hpi_options_share(garbage->fraction, scope->considered_bytes);
	for (; list; list = next) {
		struct hpi_retired **to = &scope->passed;

		next = list->next;
		if (scope->chosen_bytes < wanted) {
			scope->chosen_bytes += list->bytes;
			to = out;
		}
		list->next = *to;
		*to = list;
	}
}

static struct hpi_retired *collect(struct hpi_garbage *garbage)
{
	struct hpi_retired *out = garbage->queue, *r;
	struct hugepin_scope *scope;

	for (r = out; r; r = r->next)
		garbage->waiting_bytes -= r->bytes;
	garbage->queue = NULL;
	for (scope = garbage->open; scope; scope = scope->next)
		collect_scope(garbage, scope, &out);
	return out;
}

/* ---- In ---- */

static void push(struct hpi_retired **list, struct hpi_retired *retired)
{
	retired->next = *list;
	*list = retired;
}

/* What is to be released now. With garbage.lock held. */
static struct hpi_retired *put(struct hpi_garbage *garbage, struct hpi_retired *retired)
{
	struct hugepin_scope *scope = retired->scope;

	retired->next = NULL;
	if (scope ? scope->closed : !garbage->gathers)
		return retired;
	if (scope && (garbage->never || retired->kept)) {
		push(&scope->passed, retired);
		return NULL;
	}
	push(scope ? &scope->gathered : &garbage->queue, retired);
	garbage->waiting_bytes += retired->bytes;
	return garbage->waiting_bytes >= garbage->threshold_bytes ? collect(garbage) : NULL;
}

void hpi_garbage_put(struct hugepin_pool *pool, struct hpi_retired *retired)
{
	struct hugepin_scope *scope = retired->scope;
	struct hpi_retired *list;

	pthread_mutex_lock(&pool->garbage.lock);
	list = put(&pool->garbage, retired);
	pthread_mutex_unlock(&pool->garbage.lock);
	release(pool, list);
	hpi_scope_drop(pool, scope);		/* it is the scope's garbage now, no longer away */
}

int hpi_garbage_free(struct hugepin_pool *pool, void *ptr)
{
	struct hpi_retired *retired = hpi_scope_leave(pool, ptr);
	uint64_t bytes;
	int err;

	if (!retired && pool->garbage.gathers && !(hpi_sys_fault && hpi_sys_fault("calloc")))
		retired = calloc(1, sizeof(*retired));
	if (!retired)
		return hpi_block_free(pool, ptr);	/* without memory for the queue: at once */
	err = hpi_block_retire(pool, ptr, &bytes);
	if (err || !bytes) {
		hpi_scope_drop(pool, retired->scope);
		free(retired);
		return err;
	}
	retired->ptr = ptr;
	retired->bytes = bytes;
	hpi_garbage_put(pool, retired);
	return 0;
}

/* ---- Out ---- */

uint64_t hpi_garbage_collect(struct hugepin_pool *pool)
{
	struct hpi_retired *list;

	pthread_mutex_lock(&pool->garbage.lock);
	list = collect(&pool->garbage);
	pthread_mutex_unlock(&pool->garbage.lock);
	return release(pool, list);
}

/* All but what keeps its place. With garbage.lock held. */
static void take_passed(struct hugepin_scope *scope, struct hpi_retired **out)
{
	struct hpi_retired *list = scope->passed, *next;

	scope->passed = NULL;
	for (; list; list = next) {
		next = list->next;
		push(list->kept ? &scope->passed : out, list);
	}
}

uint64_t hpi_garbage_reclaim(struct hugepin_pool *pool)
{
	struct hpi_garbage *garbage = &pool->garbage;
	struct hpi_retired *list;
	struct hugepin_scope *scope;

	pthread_mutex_lock(&garbage->lock);
	list = collect(garbage);
	for (scope = garbage->open; scope; scope = scope->next)
		take_passed(scope, &list);
	splice(&list, garbage->closed);
	garbage->closed = NULL;
	pthread_mutex_unlock(&garbage->lock);
	return release(pool, list);
}

int64_t hugepin_pool_collect(struct hugepin_pool *pool)
{
	int err = hpi_context_check(pool->ctx);

	return err ? err : (int64_t)hpi_garbage_collect(pool);
}

/* ---- The reaper: closed scopes' blocks go back in the background ---- */

static void reap(void *arg)
{
	struct hugepin_pool *pool = arg;
	struct hpi_garbage *garbage = &pool->garbage;
	struct hpi_retired *list;

	pthread_mutex_lock(&garbage->lock);
	while (!garbage->stop || garbage->closed) {
		list = garbage->closed;
		if (!list) {
			pthread_cond_wait(&garbage->wake, &garbage->lock);
			continue;
		}
		garbage->closed = NULL;
		pthread_mutex_unlock(&garbage->lock);
		release(pool, list);
		pthread_mutex_lock(&garbage->lock);
	}
	pthread_mutex_unlock(&garbage->lock);
}

/* With garbage.lock held. Without a thread the caller does the work: closing does not fail. */
static bool have_reaper(struct hugepin_pool *pool)
{
	struct hpi_garbage *garbage = &pool->garbage;

	if (!garbage->reaping && !hpi_thread_start("hugepin-reaper", reap, pool, &garbage->reaper))
		garbage->reaping = true;
	if (!garbage->reaping)
		hpi_error_clear();
	return garbage->reaping;
}

void hpi_garbage_close(struct hugepin_pool *pool, struct hpi_retired *list, bool at_once)
{
	struct hpi_garbage *garbage = &pool->garbage;

	if (!list)
		return;
	if (garbage->in_background && !at_once) {
		pthread_mutex_lock(&garbage->lock);
		if (have_reaper(pool)) {
			splice(&garbage->closed, list);
			list = NULL;
			pthread_cond_signal(&garbage->wake);
		}
		pthread_mutex_unlock(&garbage->lock);
	}
	release(pool, list);
}

void hpi_garbage_stop(struct hugepin_pool *pool)
{
	struct hpi_garbage *garbage = &pool->garbage;

	pthread_mutex_lock(&garbage->lock);
	garbage->stop = true;
	pthread_cond_signal(&garbage->wake);
	pthread_mutex_unlock(&garbage->lock);
	if (garbage->reaping)
		pthread_join(garbage->reaper, NULL);
	garbage->reaping = false;
	garbage->stop = false;
}

/* In a child of a fork the queues still have what the parent's had. */
void hpi_garbage_free_books(struct hugepin_pool *pool)
{
	struct hpi_garbage *garbage = &pool->garbage;
	struct hpi_retired *list = garbage->queue, *next;

	splice(&list, garbage->closed);
	for (; list; list = next) {
		next = list->next;
		free(list);
	}
	free(garbage->buckets);
}
