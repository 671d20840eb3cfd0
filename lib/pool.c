// SPDX-License-Identifier: MIT
/*
 * Pools: made, used and ended.
 */
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT_MAX	HPI_1G

static void *fail(int err)
{
	errno = -err;
	return NULL;
}

static void free_books(struct hugepin_pool *pool)
{
	hpi_caches_end(pool, hpi_context_is_child(pool->ctx));
	hpi_arena_destroy(pool->arena);
	hpi_arena_destroy(pool->zero_size);
	hpi_garbage_free_books(pool);
	hpi_extents_free_books(pool);
	free(pool->segments);
	free(pool);
}

static int open_books(struct hugepin_pool *pool)
{
	int err;

	err = hpi_arena_create(&pool->arena);
	if (!err)
		err = hpi_arena_create(&pool->zero_size);
	if (!err)
		err = hpi_window_reserve(pool);
	if (err)
		return err;
	err = hpi_arena_add(pool->zero_size, pool->nothing, (uint64_t)(pool->nothing_end - pool->nothing),
			    false);
	if (!err)
		err = hpi_caches_create(pool);
	if (err)
		hpi_window_release(pool);
	return err;
}

static int create(struct hugepin_context *ctx, enum hugepin_pool_kind kind, int device, struct hugepin_pool **out)
{
	struct hugepin_pool *pool;
	int err = hpi_context_check(ctx);

	if (err)
		return err;
	pool = hpi_store_calloc(sizeof(*pool));
	if (!pool)
		return hpi_error(-ENOMEM, "no memory for a pool");
	pool->quick = (struct hpi_quick){ .alloc_id = HPI_NEVER_QUICK, .free_id = HPI_NEVER_QUICK };
	pool->ctx = ctx;
	pool->kind = kind;
	err = hpi_pool_configure(pool, device);
	if (!err)
		err = open_books(pool);
	if (err) {
		free_books(pool);
		return err;
	}
	pthread_mutex_init(&pool->growth, NULL);
	hpi_pool_lock_init(pool);
	pthread_mutex_init(&pool->garbage.lock, NULL);
	pthread_cond_init(&pool->garbage.wake, NULL);
	hpi_ahead_init(pool);
	hpi_watches_init(pool);
	hpi_pools_add(pool);
	__atomic_add_fetch(&ctx->objects, 1, __ATOMIC_RELAXED);
	hpi_log(HUGEPIN_LOG_INFO, "%s pool: made, %llu bytes of address space, cap %llu, memory of %llu bytes",
		hpi_pool_name(pool), (unsigned long long)(pool->window_end - pool->window),
		(unsigned long long)pool->cap_bytes, (unsigned long long)ctx->topology.limit_bytes);
	*out = pool;
	return 0;
}

int hugepin_pool_create(struct hugepin_context *ctx, enum hugepin_pool_kind kind, struct hugepin_pool **out)
{
	return create(ctx, kind, kind == HUGEPIN_POOL_DEVICE ? 0 : -1, out);
}

int hugepin_pool_create_on(struct hugepin_context *ctx, enum hugepin_pool_kind kind, int device,
			   struct hugepin_pool **out)
{
	if (device < 0)
		return hpi_error(-EINVAL, "%d is no number of a device", device);
	return create(ctx, kind, device, out);
}

static int check_unused(struct hugepin_pool *pool)
{
	struct hpi_arena_stats arena, zero_size;
	uint64_t blocks, bytes;

	hpi_caches_lock(pool);
	hpi_pool_sum(pool, &arena);
	hpi_arena_stats(pool->zero_size, &zero_size);
	blocks = arena.active_blocks + zero_size.active_blocks + pool->variables;
	bytes = arena.requested_bytes + pool->variable_requested;
	hpi_caches_unlock(pool);
	if (!blocks)
		return 0;
	return hpi_error(-EBUSY, "%s pool: %llu blocks of together %llu bytes are in use, %llu of them variables",
			 hpi_pool_name(pool), (unsigned long long)blocks, (unsigned long long)bytes,
			 (unsigned long long)pool->variables);
}

static int give_everything_back(struct hugepin_pool *pool)
{
	uint64_t given = 0;
	int err;

	if (hpi_watches_are_told_here(pool))	/* it may be a thread that is to be ended here */
		return hpi_error(-EDEADLK, "%s pool: not destroyed by a callback of its own watch", hpi_pool_name(pool));
	err = check_unused(pool);
	if (!err)
		err = hpi_scopes_check(pool);
	if (err)
		return err;
	hpi_ahead_stop(pool);
	err = hugepin_pool_drain(pool);
	if (err)
		return hpi_error_add(err, "; the pool stays");
	hpi_garbage_stop(pool);
	hpi_garbage_reclaim(pool);
	err = hpi_pool_trim(pool, 0, &given);
	if (err)
		return hpi_error_add(-EIO, "; the pool stays, with what could not be given back");
	err = hpi_extents_unmap(pool);
	return err ? err : hpi_window_release(pool);
}

/* In a child the locks may be held by threads that are not here, so nothing is locked: only this thread is. */
static void forget(struct hugepin_pool *pool)
{
	size_t i;

	for (i = 0; i < pool->segment_count; i++)
		hpi_sys_close(pool->segments[i].mapping.fd);
}

int hugepin_pool_destroy(struct hugepin_pool *pool)
{
	struct hugepin_context *ctx;
	int err;

	if (!pool)
		return 0;
	ctx = pool->ctx;
	if (hpi_context_is_child(ctx)) {
		forget(pool);
	} else {
		err = give_everything_back(pool);
		if (err)
			return err;
		pthread_cond_destroy(&pool->garbage.wake);
		pthread_mutex_destroy(&pool->garbage.lock);
		hpi_ahead_end(pool);
		hpi_pool_lock_end(pool);
		pthread_mutex_destroy(&pool->growth);
	}
	hpi_pools_remove(pool);
	hpi_watches_end(pool, hpi_context_is_child(ctx));
	free_books(pool);
	__atomic_sub_fetch(&ctx->objects, 1, __ATOMIC_RELAXED);
	return 0;
}

void *hpi_pool_allocate(struct hugepin_pool *pool, uint64_t alignment, uint64_t bytes, unsigned int flags)
{
	bool zeroed = false;
	void *p;
	int err = hpi_block_take(pool, alignment, bytes, &zeroed, &p);

	if (!err) {
		err = hpi_fill_block(pool, p, bytes, flags, zeroed);
		if (err)
			hpi_block_free(pool, p);
	}
	if (err) {
		hpi_pool_lock(pool);
		pool->failed_allocs++;
		hpi_pool_unlock(pool);
		return fail(err);
	}
	return p;
}

void *hugepin_alloc_aligned(struct hugepin_pool *pool, size_t alignment, size_t bytes, unsigned int flags)
{
	int err = hpi_context_check(pool->ctx);

	if (err)
		return fail(err);
	if (flags & ~HUGEPIN_ALLOC_ZERO)
		return fail(hpi_error(-EINVAL, "unknown flags %#x for an allocation", flags & ~HUGEPIN_ALLOC_ZERO));
	if (!hpi_is_pow2(alignment))
		return fail(hpi_error(-EINVAL, "alignment %zu is not a power of two", alignment));
	if (alignment > ALIGNMENT_MAX)
		return fail(hpi_error(-ENOMEM, "alignment %zu is more than %llu", alignment,
				      (unsigned long long)ALIGNMENT_MAX));
	return hpi_pool_allocate(pool, alignment, bytes, flags);
}

int hpi_pool_no_block(const struct hugepin_pool *pool, const void *ptr)
{
	return hpi_error(-EINVAL, "%p is not a block of the %s pool, or is freed already", ptr, hpi_pool_name(pool));
}

/* A block at the end of what is mapped grows with it: moving would hold old and new at once. */
static int resize_growing(struct hugepin_pool *pool, void *ptr, uint64_t bytes, uint64_t *old)
{
	int err;

	pthread_mutex_lock(&pool->growth);
	err = hpi_pool_extend(pool, ptr, *old, bytes);
	if (!err)
		err = hpi_block_resize(pool, ptr, bytes, old);
	pthread_mutex_unlock(&pool->growth);
	hpi_watches_tell(pool);
	return err;
}

static void *move(struct hugepin_pool *pool, void *ptr, uint64_t old, uint64_t bytes)
{
	void *p = hpi_pool_allocate(pool, HPI_POOL_GRAIN, bytes, 0);
	uint64_t kept = old < bytes ? old : bytes;
	int err = 0;

	if (!p)
		return NULL;
	if (pool->device < 0)
		memcpy(p, ptr, kept);
	else if (kept)
		err = hpi_device_copy(pool->ctx, pool->device, p, ptr, kept);
	if (err) {
		hpi_block_free(pool, p);
		return fail(err);
	}
	hpi_scope_moved(pool, ptr, p);
	hugepin_free(pool, ptr);
	hpi_error_clear();		/* of growing in place */
	return p;
}

static bool is_zero_size_block(struct hugepin_pool *pool, const void *ptr)
{
	bool is_block;

	hpi_pool_lock(pool);
	is_block = hpi_arena_block_bytes(pool->zero_size, ptr) == 0;
	hpi_pool_unlock(pool);
	return is_block;
}

/* Must not fail: what cannot become a zero-size block shrinks in place, to a grain. */
static void *empty(struct hugepin_pool *pool, void *ptr)
{
	uint64_t old;
	void *p;

	if (hpi_block_bytes(pool, ptr) == UINT64_MAX)
		return fail(hpi_pool_no_block(pool, ptr));
	if (!hpi_block_take(pool, HPI_POOL_GRAIN, 0, NULL, &p)) {
		hpi_scope_moved(pool, ptr, p);
		hugepin_free(pool, ptr);
		return p;
	}
	hpi_error_clear();
	return hpi_block_resize(pool, ptr, 0, &old) ? fail(hpi_pool_no_block(pool, ptr)) : ptr;
}

void *hugepin_realloc(struct hugepin_pool *pool, void *ptr, size_t bytes)
{
	uint64_t old = 0;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return fail(err);
	if (!ptr)
		return hpi_pool_allocate(pool, HPI_POOL_GRAIN, bytes, 0);
	if (hpi_scope_is_plan(pool, ptr))
		return fail(hpi_error(-EINVAL, "the block at %p is a plan's, and keeps its size", ptr));
	if (hpi_block_is_empty(pool, ptr)) {
		if (!is_zero_size_block(pool, ptr))
			return fail(hpi_pool_no_block(pool, ptr));
		return bytes ? move(pool, ptr, 0, bytes) : ptr;
	}
	if (!bytes)
		return empty(pool, ptr);
	err = hpi_block_resize(pool, ptr, bytes, &old);
	if (err == -EINVAL)
		return fail(hpi_pool_no_block(pool, ptr));
	if (err == -ENOSPC)
		err = resize_growing(pool, ptr, bytes, &old);
	if (err)
		return move(pool, ptr, old, bytes);
	if (bytes > old)
		hpi_fill_block(pool, (char *)ptr + old, bytes - old, 0, false);
	return ptr;
}

int hpi_pool_trim(struct hugepin_pool *pool, uint64_t keep_bytes, uint64_t *given)
{
	bool watched;
	int err = 0;

	pthread_mutex_lock(&pool->growth);
	watched = hpi_watches_any(pool);
	if (!watched)
		err = hpi_segments_trim(pool, keep_bytes, given);
	pthread_mutex_unlock(&pool->growth);
	return watched ? hpi_watches_trim(pool, keep_bytes, given) : err;
}

int64_t hugepin_pool_trim(struct hugepin_pool *pool, uint64_t keep_bytes)
{
	uint64_t given = 0;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	hpi_garbage_collect(pool);
	err = hpi_pool_trim(pool, keep_bytes, &given);
	return given || !err ? (int64_t)given : err;
}
