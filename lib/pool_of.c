// SPDX-License-Identifier: MIT
/* The pools of a context, so that an address leads to the one that has it. */
#include "pool.h"

#include <errno.h>

void hpi_pools_add(struct hugepin_pool *pool)
{
	struct hugepin_context *ctx = pool->ctx;

	pthread_mutex_lock(&ctx->pools_lock);
	pool->next = ctx->pools;
	ctx->pools = pool;
	pthread_mutex_unlock(&ctx->pools_lock);
}

/* In a child of a fork the lock may be held by a thread that is not here, and nobody looks. */
void hpi_pools_remove(struct hugepin_pool *pool)
{
	struct hugepin_context *ctx = pool->ctx;
	bool child = hpi_context_is_child(ctx);
	struct hugepin_pool **link;

	if (!child)
		pthread_mutex_lock(&ctx->pools_lock);
	for (link = &ctx->pools; *link && *link != pool; link = &(*link)->next)
		;
	if (*link)
		*link = pool->next;
	if (!child)
		pthread_mutex_unlock(&ctx->pools_lock);
}

static bool holds(const struct hugepin_pool *pool, const void *ptr)
{
	bool found;

	if (hpi_block_is_empty(pool, ptr))
		return true;
	hpi_pool_lock(pool);
	found = hpi_segment_of(pool, ptr);
	hpi_pool_unlock(pool);
	return found;
}

struct hugepin_pool *hugepin_pool_of(struct hugepin_context *ctx, const void *ptr)
{
	struct hugepin_pool *pool;
	int err = hpi_context_check(ctx);

	if (err) {
		errno = -err;
		return NULL;
	}
	pthread_mutex_lock(&ctx->pools_lock);
	for (pool = ctx->pools; pool && !holds(pool, ptr); pool = pool->next)
		;
	pthread_mutex_unlock(&ctx->pools_lock);
	if (!pool)
		errno = -hpi_error(-ENOENT, "%p is in no pool of this context", ptr);
	return pool;
}
