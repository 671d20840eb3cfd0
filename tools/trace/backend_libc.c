// SPDX-License-Identifier: MIT
/* The C library's malloc, as the yardstick. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

static uint64_t own_bytes;	/* what the replay itself held before the first event, and still does */

static void libc_memory(struct backend_memory *memory)
{
	struct mallinfo2 info = mallinfo2();

	*memory = (struct backend_memory){
		.mapped_bytes = info.arena + info.hblkhd - own_bytes,
		.held_bytes = info.uordblks + info.hblkhd - own_bytes,
	};
}

static int libc_open(const struct backend_options *options)
{
	struct backend_memory before;

	if (options->setting_count) {
		errno = EINVAL;
		return -EINVAL;
	}
	malloc_trim(0);
	own_bytes = 0;
	libc_memory(&before);
	own_bytes = before.held_bytes;
	return 0;
}

static int libc_close(void)
{
	return 0;
}

static void *libc_alloc(uint64_t bytes, uint64_t align, bool zero)
{
	void *address;
	int error;

	if (align <= _Alignof(max_align_t))
		return zero ? calloc(1, bytes) : malloc(bytes);
	error = posix_memalign(&address, align, bytes);
	if (error) {
		errno = error;
		return NULL;
	}
	if (zero)
		memset(address, 0, bytes);
	return address;
}

/* realloc(p, 0) frees in glibc; the trace means a block of no bytes. */
static void *libc_realloc(void *old, uint64_t bytes)
{
	return realloc(old, bytes ? bytes : 1);
}

static int libc_free(void *address)
{
	free(address);
	return 0;
}

static const char *libc_error(void)
{
	return strerror(errno);
}

const struct backend backend_libc = {
	.name = "libc",
	.mapped_means = "mallinfo2: arena + hblkhd, above what the replay itself uses",
	.open = libc_open,
	.close = libc_close,
	.alloc = libc_alloc,
	.realloc = libc_realloc,
	.free = libc_free,
	.memory = libc_memory,
	.error = libc_error,
};
