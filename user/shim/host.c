// SPDX-License-Identifier: MIT
/* Large blocks of the malloc family, from the host pool; whatever it does not have is the C library's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim.h"

#define ALIGN_MAX	((size_t)1 << 30)
#define BYTES_MAX	((size_t)1 << 47)	/* beyond that there is no address space: a mistake, for nobody to serve */

struct host_counters host_counters;

static void count_passed(size_t bytes)
{
	atomic_fetch_add(&host_counters.passed, 1);
	atomic_fetch_add(&host_counters.passed_bytes, bytes);
}

void *host_take(size_t align, size_t bytes, bool zero)
{
	void *block;

	settings_read();
	if (!host_wants(bytes) || bytes > BYTES_MAX || gate_inside())
		return NULL;
	block = align <= ALIGN_MAX ? pool_take(&host_pool, align > BLOCK_ALIGN ? align : BLOCK_ALIGN, bytes, 0, zero) :
				     NULL;
	if (!block)
		count_passed(bytes);
	return block;
}

/* The C library would find no chunk there, and might not notice. */
static __attribute__((noreturn)) void misused(const char *call, const void *addr)
{
	say("%s: %p is no block in use", call, addr);
	abort();
}

static bool is_inherited(void)
{
	return atomic_load_explicit(&host_pool.state, memory_order_relaxed) == POOL_INHERITED;
}

/* In a child: whole pages of its copy go back to the system. */
static void drop_inherited(const struct block *block)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = round_up((uintptr_t)block->addr, page);
	uintptr_t to = ((uintptr_t)block->addr + block->bytes) & ~(page - 1);

	if (from < to && !inheritance.lost)
		madvise((void *)from, to - from, MADV_DONTNEED);
	atomic_fetch_add(&host_counters.dropped, 1);
}

void host_free(void *addr)
{
	int saved = errno;
	struct block block;

	if (!blocks_remove(addr, &block))
		misused("free()", addr);
	if (is_inherited())
		drop_inherited(&block);
	else
		pool_give(&host_pool, &block);
	errno = saved;
}

size_t host_bytes(const void *addr)
{
	struct block block;

	if (!blocks_at(addr, &block))
		misused("malloc_usable_size()", addr);
	return block.bytes;
}

/* Out of the pool: the new size is too small for it, or it has no room. On failure the old block is as it was. */
static void *move_out(void *old, size_t old_bytes, size_t bytes)
{
	void *block = real.malloc(bytes);

	if (!block)
		return NULL;
	memcpy(block, old, old_bytes < bytes ? old_bytes : bytes);
	host_free(old);
	return block;
}

static void *resize_ours(void *old, size_t bytes)
{
	struct block block;
	void *now = NULL;

	if (!blocks_at(old, &block))
		misused("realloc()", old);
	if (!bytes) {
		host_free(old);
		return NULL;		/* as the C library answers */
	}
	if (host_wants(bytes)) {
		now = bytes > BYTES_MAX ? NULL : pool_resize(&host_pool, &block, bytes);
		if (!now && bytes <= BYTES_MAX)
			count_passed(bytes);
	}
	if (!now)
		now = move_out(old, block.bytes, bytes);
	/* A block that is to become smaller need not fail. */
	if (!now && bytes < block.bytes)
		now = pool_resize(&host_pool, &block, bytes);
	return now;
}

void *host_realloc(void *old, size_t bytes)
{
	size_t old_bytes;
	void *now;

	if (host_owns(old))
		return resize_ours(old, bytes);
	now = host_take(0, bytes, false);
	if (!now)
		return real.realloc(old, bytes);
	old_bytes = real.usable_size(old);
	memcpy(now, old, old_bytes < bytes ? old_bytes : bytes);
	real.free(old);
	return now;
}
