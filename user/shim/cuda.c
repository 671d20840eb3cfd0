// SPDX-License-Identifier: MIT
/*
 * Pinned memory of CUDA's runtime and driver API, from the pinned pool.
 *
 * Served is only what we are sure of; all else goes to the real function, whose answer is right by definition. That
 * includes the first allocation of a thread, for which the runtime makes or takes a context: we never do.
 *
 * Codes are CUDA's; those we answer ourselves are the same numbers in the runtime's and the driver's API.
 */
#include <string.h>

#include "shim.h"

#define HOST_ALLOC_SERVED	0x3u	/* portable 1, mapped 2: both hold for what is registered */
#define HOST_ALLOC_MAPPED	0x2u	/* what the driver reports of every allocation */
#define PAGE			4096u	/* what programs rely on: direct I/O into pinned memory */

struct cuda_counters cuda_counters;

const char *const cuda_names[CUDA_ENTRIES] = {
	[CUDA_HOST_ALLOC] = "cudaHostAlloc",
	[CUDA_MALLOC_HOST] = "cudaMallocHost",
	[CU_MEM_HOST_ALLOC] = "cuMemHostAlloc",
	[CU_MEM_ALLOC_HOST] = "cuMemAllocHost",
	[CU_MEM_ALLOC_HOST_V2] = "cuMemAllocHost_v2",
	[CUDA_FREE_HOST] = "cudaFreeHost",
	[CU_MEM_FREE_HOST] = "cuMemFreeHost",
	[CUDA_HOST_GET_FLAGS] = "cudaHostGetFlags",
	[CU_MEM_HOST_GET_FLAGS] = "cuMemHostGetFlags",
	[CUDA_HOST_UNREGISTER] = "cudaHostUnregister",
	[CU_MEM_HOST_UNREGISTER] = "cuMemHostUnregister",
};

const char *const cuda_pass_names[PASS_REASONS] = {
	[PASS_ARGUMENTS] = "arguments for the real function",
	[PASS_NO_CONTEXT] = "no context yet",
	[PASS_NO_MEMORY] = "no memory in the pool",
	[PASS_CLOSED] = "no pool",
};

void cuda_reset_counters(void)
{
	memset(&cuda_counters, 0, sizeof(cuda_counters));
}

/* ---- the real functions ---- */

static _Atomic(void *) real_entry[CUDA_ENTRIES];
static THREAD_LOCAL unsigned int in_real;	/* which may call another of ours */

static void *real_of(enum cuda_entry id)
{
	void *symbol = atomic_load(&real_entry[id]);

	if (!symbol) {
		symbol = driver_find(cuda_names[id],
				     strncmp(cuda_names[id], "cuda", 4) ? "libcuda.so" : "libcudart.so");
		atomic_store(&real_entry[id], symbol);
	}
	return symbol;
}

static int real_alloc(enum cuda_entry id, void **out, size_t bytes, unsigned int flags)
{
	void *symbol = real_of(id);
	int code;

	if (!symbol)
		return CUDA_ERROR_NOT_INITIALIZED;
	in_real++;
	if (id == CUDA_HOST_ALLOC || id == CU_MEM_HOST_ALLOC)
		code = ((int (*)(void **, size_t, unsigned int))symbol)(out, bytes, flags);
	else
		code = ((int (*)(void **, size_t))symbol)(out, bytes);
	in_real--;
	return code;
}

static int real_end(enum cuda_entry id, void *addr)
{
	int (*symbol)(void *) = (int (*)(void *))real_of(id), code;

	if (!symbol)
		return CUDA_ERROR_NOT_INITIALIZED;
	in_real++;
	code = symbol(addr);
	in_real--;
	return code;
}

static int real_flags(enum cuda_entry id, unsigned int *flags, void *addr)
{
	int (*symbol)(unsigned int *, void *) = (int (*)(unsigned int *, void *))real_of(id);

	return symbol ? symbol(flags, addr) : CUDA_ERROR_NOT_INITIALIZED;
}

/* False: a call of the runtime's into the driver, which is not the program's. */
static bool count_call(enum cuda_entry id)
{
	settings_read();
	if (in_real)
		return false;
	atomic_fetch_add(&cuda_counters.calls[id], 1);
	return settings.hooking;
}

/* In a child of a fork CUDA answers that it is not initialised, of our blocks too. */
static bool is_ours(const void *addr)
{
	return pool_owns(&pinned_pool, addr) && atomic_load(&pinned_pool.state) != POOL_INHERITED;
}

static bool block_around(const void *addr, struct block *out)
{
	return is_ours(addr) && blocks_around(addr, atomic_load(&pinned_pool.largest), out);
}

/* ---- allocating ---- */

static void *take(size_t bytes, unsigned int flags, enum cuda_pass *why)
{
	struct block block = { .bytes = round_up(bytes, PAGE) };

	if (!driver_has_context()) {
		*why = PASS_NO_CONTEXT;
		return NULL;
	}
	block.addr = pool_take(&pinned_pool, PAGE, block.bytes, flags, false);
	if (!block.addr) {
		*why = atomic_load(&pinned_pool.state) == POOL_READY ? PASS_NO_MEMORY : PASS_CLOSED;
		return NULL;
	}
	/* A context that the program ended took the registration of what was mapped in it along. */
	if (driver_knows(block.addr) && driver_knows(block.addr + block.bytes - 1))
		return block.addr;
	pool_close(&pinned_pool, "the program ended the context in which the memory was registered");
	if (blocks_remove(block.addr, &block))
		pool_untake(&pinned_pool, &block);
	*why = PASS_CLOSED;
	return NULL;
}

static int allocate(enum cuda_entry id, void **out, size_t bytes, unsigned int flags)
{
	enum cuda_pass why = PASS_ARGUMENTS;
	void *block = NULL;

	if (!count_call(id))
		return real_alloc(id, out, bytes, flags);
	if (out && bytes && bytes < SIZE_MAX - PAGE && !(flags & ~HOST_ALLOC_SERVED))
		block = take(bytes, flags, &why);
	if (block) {
		*out = block;
		return CUDA_SUCCESS;
	}
	atomic_fetch_add(&cuda_counters.passed[why], 1);
	return real_alloc(id, out, bytes, flags);
}

/* ---- freeing ---- */

/*
 * The real call waits for the device, so a program may free what a copy still reads; so do we. Where one cannot wait,
 * the library does, and the block is used again only after a fence over all work.
 */
static int give(const struct block *block)
{
	int code = driver_wait();

	if (!code) {
		pool_give(&pinned_pool, block);
		return CUDA_SUCCESS;
	}
	atomic_fetch_add(&cuda_counters.deferred, 1);
	pool_give_after(&pinned_pool, block);
	/* While a stream is being captured one cannot wait; that is for later, and no failure of this call. */
	return code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? CUDA_SUCCESS : code;
}

static int release(enum cuda_entry id, void *addr)
{
	struct block block;

	if (!count_call(id))
		return real_end(id, addr);
	if (is_ours(addr) && blocks_remove(addr, &block))
		return give(&block);
	atomic_fetch_add(&cuda_counters.foreign, 1);
	return real_end(id, addr);
}

/* ---- what a program asks of a pointer ---- */

static int get_flags(enum cuda_entry id, unsigned int *flags, void *addr)
{
	struct block block;

	if (!count_call(id) || !flags || !block_around(addr, &block))
		return real_flags(id, flags, addr);
	*flags = block.tag | HOST_ALLOC_MAPPED;
	return CUDA_SUCCESS;
}

/* A block may begin where a registration of the pool's does: the real call would end that. */
static int unregister(enum cuda_entry id, void *addr)
{
	struct block block;

	if (!count_call(id) || !is_ours(addr))
		return real_end(id, addr);
	return block_around(addr, &block) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* ---- the entry points ---- */

EXPORT int cudaHostAlloc(void **out, size_t bytes, unsigned int flags);
EXPORT int cudaMallocHost(void **out, size_t bytes);
EXPORT int cudaFreeHost(void *addr);
EXPORT int cudaHostGetFlags(unsigned int *flags, void *addr);
EXPORT int cudaHostUnregister(void *addr);
EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned int flags);
EXPORT int cuMemAllocHost(void **out, size_t bytes);
EXPORT int cuMemAllocHost_v2(void **out, size_t bytes);
EXPORT int cuMemFreeHost(void *addr);
EXPORT int cuMemHostGetFlags(unsigned int *flags, void *addr);
EXPORT int cuMemHostUnregister(void *addr);

EXPORT int cudaHostAlloc(void **out, size_t bytes, unsigned int flags)
{
	return allocate(CUDA_HOST_ALLOC, out, bytes, flags);
}

EXPORT int cudaMallocHost(void **out, size_t bytes)
{
	return allocate(CUDA_MALLOC_HOST, out, bytes, 0);
}

EXPORT int cudaFreeHost(void *addr)
{
	return release(CUDA_FREE_HOST, addr);
}

EXPORT int cudaHostGetFlags(unsigned int *flags, void *addr)
{
	return get_flags(CUDA_HOST_GET_FLAGS, flags, addr);
}

EXPORT int cudaHostUnregister(void *addr)
{
	return unregister(CUDA_HOST_UNREGISTER, addr);
}

EXPORT int cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
	return allocate(CU_MEM_HOST_ALLOC, out, bytes, flags);
}

EXPORT int cuMemAllocHost(void **out, size_t bytes)
{
	return allocate(CU_MEM_ALLOC_HOST, out, bytes, 0);
}

EXPORT int cuMemAllocHost_v2(void **out, size_t bytes)
{
	return allocate(CU_MEM_ALLOC_HOST_V2, out, bytes, 0);
}

EXPORT int cuMemFreeHost(void *addr)
{
	return release(CU_MEM_FREE_HOST, addr);
}

EXPORT int cuMemHostGetFlags(unsigned int *flags, void *addr)
{
	return get_flags(CU_MEM_HOST_GET_FLAGS, flags, addr);
}

EXPORT int cuMemHostUnregister(void *addr)
{
	return unregister(CU_MEM_HOST_UNREGISTER, addr);
}
