// SPDX-License-Identifier: MIT
/*
 * Scopes: what was taken in one goes back when it closes. The pool keeps a table, by address, of the blocks that are in
 * scopes, so that a block can be freed like any other, by any thread, and leaves its scope then.
 *
 *	in a scope -> freed -> (behind fences: away) -> garbage of the scope -> free
 *	in a scope -> its scope closes -> free
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS_MIN	64

static void *books(size_t count, size_t bytes)
{
	return hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(count, bytes);
}

/* ---- The table; all with garbage.lock held ---- */

static size_t bucket_of(const struct hpi_garbage *garbage, const void *ptr)
{
	uint64_t hash = ((uintptr_t)ptr / HPI_POOL_GRAIN) * 0x9e3779b97f4a7c15ull;

	return (hash >> 32) & (garbage->bucket_count - 1);
}

static struct hpi_live **find(struct hpi_garbage *garbage, const void *ptr)
{
	struct hpi_live **at;

	if (!garbage->live_count)
		return NULL;
	for (at = &garbage->buckets[bucket_of(garbage, ptr)]; *at; at = &(*at)->chain) {
		if ((*at)->retired.ptr == ptr)
			return at;
	}
	return NULL;
}

static void table_insert(struct hpi_garbage *garbage, struct hpi_live *live)
{
	struct hpi_live **bucket = &garbage->buckets[bucket_of(garbage, live->retired.ptr)];

	live->chain = *bucket;
	*bucket = live;
	garbage->live_count++;
}

static void table_remove(struct hpi_garbage *garbage, struct hpi_live **at)
{
	*at = (*at)->chain;
	garbage->live_count--;
}

/* Twice as many buckets; without memory for them the chains get longer, no more. False: there are none at all. */
static bool table_reserve(struct hpi_garbage *garbage)
{
	size_t old_count = garbage->bucket_count, i;
	struct hpi_live **old = garbage->buckets, **buckets, *live;

	if (garbage->live_count < old_count)
		return true;
	buckets = books(old_count ? 2 * old_count : BUCKETS_MIN, sizeof(struct hpi_live *));
	if (!buckets)
		return old;
	garbage->buckets = buckets;
	garbage->bucket_count = old_count ? 2 * old_count : BUCKETS_MIN;
	garbage->live_count = 0;
	for (i = 0; i < old_count; i++) {
		while ((live = old[i])) {
			old[i] = live->chain;
			table_insert(garbage, live);
		}
	}
	free(old);
	return true;
}

/* ---- Blocks of a scope ---- */

static void scope_link(struct hugepin_scope *scope, struct hpi_live *live)
{
	live->prev = NULL;
	live->next = scope->live;
	if (scope->live)
		scope->live->prev = live;
	scope->live = live;
}

static void scope_unlink(struct hugepin_scope *scope, struct hpi_live *live)
{
	if (live->prev)
		live->prev->next = live->next;
	else
		scope->live = live->next;
	if (live->next)
		live->next->prev = live->prev;
}

struct hpi_live *hpi_scope_note(struct hugepin_scope *scope)
{
	struct hpi_garbage *garbage = &scope->pool->garbage;
	struct hpi_live *live = books(1, sizeof(*live));
	bool room;

	if (!live)
		goto no_memory;
	pthread_mutex_lock(&garbage->lock);
	room = table_reserve(garbage);
	pthread_mutex_unlock(&garbage->lock);
	if (room)
		return live;
	free(live);
no_memory:
	hpi_error(-ENOMEM, "%s pool: no memory to note a block of a scope", hpi_pool_name(scope->pool));
	errno = ENOMEM;
	return NULL;
}

void hpi_scope_enter(struct hugepin_scope *scope, struct hpi_live *live, void *ptr)
{
	struct hpi_garbage *garbage = &scope->pool->garbage;

	live->retired.ptr = ptr;
	live->retired.scope = scope;
	pthread_mutex_lock(&garbage->lock);
	table_insert(garbage, live);
	scope_link(scope, live);
	pthread_mutex_unlock(&garbage->lock);
}

struct hpi_retired *hpi_scope_leave(struct hugepin_pool *pool, void *ptr)
{
	struct hpi_garbage *garbage = &pool->garbage;
	struct hpi_live **at, *live = NULL;

	if (!__atomic_load_n(&garbage->scopes, __ATOMIC_RELAXED))
		return NULL;
	pthread_mutex_lock(&garbage->lock);
	at = find(garbage, ptr);
	if (at) {
		live = *at;
		table_remove(garbage, at);
		scope_unlink(live->retired.scope, live);
		live->retired.scope->away++;
	}
	pthread_mutex_unlock(&garbage->lock);
	return live ? &live->retired : NULL;
}

void hpi_scope_drop(struct hugepin_pool *pool, struct hugepin_scope *scope)
{
	bool last;

	if (!scope)
		return;
	pthread_mutex_lock(&pool->garbage.lock);
	last = !--scope->away && scope->closed;
	pthread_mutex_unlock(&pool->garbage.lock);
	if (last)
		free(scope);
}

bool hpi_scope_is_plan(struct hugepin_pool *pool, const void *ptr)
{
	struct hpi_garbage *garbage = &pool->garbage;
	struct hpi_live **at;
	bool is_plan;

	if (!__atomic_load_n(&garbage->scopes, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&garbage->lock);
	at = find(garbage, ptr);
	is_plan = at && (*at)->retired.scope->is_plan;
	pthread_mutex_unlock(&garbage->lock);
	return is_plan;
}

void hpi_scope_moved(struct hugepin_pool *pool, void *from, void *to)
{
	struct hpi_garbage *garbage = &pool->garbage;
	struct hpi_live **at, *live;

	if (!__atomic_load_n(&garbage->scopes, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&garbage->lock);
	at = find(garbage, from);
	if (at) {
		live = *at;
		table_remove(garbage, at);
		live->retired.ptr = to;
		table_insert(garbage, live);
	}
	pthread_mutex_unlock(&garbage->lock);
}

/* ---- Open and close ---- */

int hpi_scopes_check(struct hugepin_pool *pool)
{
	unsigned int scopes = __atomic_load_n(&pool->garbage.scopes, __ATOMIC_RELAXED);

	return scopes ? hpi_error(-EBUSY, "%s pool: %u scopes or plans are open", hpi_pool_name(pool), scopes) : 0;
}

int hugepin_scope_open(struct hugepin_pool *pool, struct hugepin_scope **out)
{
	struct hpi_garbage *garbage = &pool->garbage;
	struct hugepin_scope *scope;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	scope = books(1, sizeof(*scope));
	if (!scope)
		return hpi_error(-ENOMEM, "%s pool: no memory for a scope", hpi_pool_name(pool));
	scope->pool = pool;
	pthread_mutex_lock(&garbage->lock);
	scope->next = garbage->open;
	if (scope->next)
		scope->next->prev = scope;
	garbage->open = scope;
	__atomic_add_fetch(&garbage->scopes, 1, __ATOMIC_RELAXED);
	hpi_quick_frees(pool, false);
	pthread_mutex_unlock(&garbage->lock);
	*out = scope;
	return 0;
}

void *hugepin_scope_alloc(struct hugepin_scope *scope, size_t bytes, unsigned int flags)
{
	int err = hpi_context_check(scope->pool->ctx);
	struct hpi_live *live;
	void *ptr;

	if (!err && flags & ~HUGEPIN_ALLOC_ZERO)
		err = hpi_error(-EINVAL, "unknown flags %#x for an allocation in a scope", flags & ~HUGEPIN_ALLOC_ZERO);
	if (err) {
		errno = -err;
		return NULL;
	}
	live = hpi_scope_note(scope);
	if (!live)
		return NULL;
	ptr = hpi_pool_allocate(scope->pool, HPI_POOL_GRAIN, bytes, flags);
	if (ptr)
		hpi_scope_enter(scope, live, ptr);
	else
		free(live);
	return ptr;
}

static void append(struct hpi_retired **list, struct hpi_retired *more)
{
	while (*list)
		list = &(*list)->next;
	*list = more;
}

/* Out of the table and the list of open ones; what it has is the caller's. */
static struct hpi_live *detach(struct hugepin_scope *scope, struct hpi_retired **garbage_of_it)
{
	struct hpi_garbage *garbage = &scope->pool->garbage;
	struct hpi_live *live = scope->live, *l;
	struct hpi_retired *r;

	for (l = live; l; l = l->next)
		table_remove(garbage, find(garbage, l->retired.ptr));
	for (r = scope->gathered; r; r = r->next)
		garbage->waiting_bytes -= r->bytes;
	append(&scope->gathered, scope->passed);
	*garbage_of_it = scope->gathered;
	if (scope->next)
		scope->next->prev = scope->prev;
	if (scope->prev)
		scope->prev->next = scope->next;
	else
		garbage->open = scope->next;
	if (!__atomic_sub_fetch(&garbage->scopes, 1, __ATOMIC_RELAXED))
		hpi_quick_frees(scope->pool, true);
	scope->closed = true;
	return live;
}

/* In a child of a fork the locks may be held by threads that are not here, and the pool is the parent's. */
static void forget(struct hugepin_scope *scope)
{
	struct hpi_live *live;
	struct hpi_retired *r;

	append(&scope->gathered, scope->passed);
	while ((live = scope->live)) {
		scope->live = live->next;
		free(live);
	}
	while ((r = scope->gathered)) {
		scope->gathered = r->next;
		free(r);
	}
	free(scope);
}

void hugepin_scope_close(struct hugepin_scope *scope)
{
	hpi_scope_end(scope, false);
}

void hpi_scope_end(struct hugepin_scope *scope, bool at_once)
{
	struct hpi_retired *list = NULL;
	struct hpi_live *live, *next;
	struct hugepin_pool *pool;
	bool last;

	if (!scope)
		return;
	pool = scope->pool;
	if (hpi_context_is_child(pool->ctx)) {
		forget(scope);
		return;
	}
	pthread_mutex_lock(&pool->garbage.lock);
	live = detach(scope, &list);
	last = !scope->away;
	pthread_mutex_unlock(&pool->garbage.lock);
	for (; live; live = next) {
		next = live->next;
		if (hpi_block_retire(pool, live->retired.ptr, &live->retired.bytes) || !live->retired.bytes) {
			free(live);		/* it had no bytes, and is free */
			continue;
		}
		live->retired.next = list;
		list = &live->retired;
	}
	if (last)
		free(scope);
	hpi_garbage_close(pool, list, at_once);
}
