// SPDX-License-Identifier: MIT
/* The check on a GPU: what registering costs by page size, chunk and threads, and what the driver says afterwards. */
#include "gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ALREADY_REGISTERED = 712, NOT_REGISTERED = 713, MEMORY_TYPE = 2, MEMORY_TYPE_HOST = 1 };

/* ---- cost ---- */

struct share {
	char *addr;
	uint64_t bytes, chunk;
	void *context;
	int code;
};

static void *register_share(void *arg)
{
	struct share *share = arg;
	uint64_t at;

	share->code = gpu.context_set(share->context);
	for (at = 0; !share->code && at < share->bytes; at += share->chunk)
		share->code = gpu.host_register(share->addr + at, share->chunk, PORTABLE);
	return NULL;
}

static double register_in(char *addr, uint64_t chunk, unsigned int threads)
{
	struct share shares[4];
	pthread_t helpers[4];
	double start, took;
	unsigned int i;
	uint64_t at;

	start = now_s();
	for (i = 0; i < threads; i++) {
		shares[i] = (struct share){ .addr = addr + i * (work_bytes / threads), .bytes = work_bytes / threads,
					    .chunk = chunk };
		must(gpu.context_get(&shares[i].context), "cuCtxGetCurrent");
		must(pthread_create(&helpers[i], NULL, register_share, &shares[i]), "thread");
	}
	for (i = 0; i < threads; i++) {
		pthread_join(helpers[i], NULL);
		must(shares[i].code, "cuMemHostRegister");
	}
	took = now_s() - start;
	for (at = 0; at < work_bytes; at += chunk)
		must(gpu.host_unregister(addr + at), "cuMemHostUnregister");
	return took;
}

static double per_gib(double seconds)
{
	return seconds * 1e3 * (double)GIB / (double)work_bytes;
}

static void register_pages(const struct pages *pages)
{
	static const unsigned int parts[] = { 1, 16, 16 }, threads[] = { 1, 1, 4 };
	const char *why;
	char how[96], *addr = pages_map(pages, work_bytes, &why);
	uint64_t chunk;
	size_t i;

	snprintf(how, sizeof(how), "%s pages", pages->name);
	if (!addr) {
		report_skip(how, why);
		return;
	}
	for (i = 0; i < 3; i++) {
		chunk = work_bytes / parts[i];
		if (chunk % pages->bytes)
			chunk = pages->bytes;
		if (work_bytes / chunk % threads[i])
			continue;
		snprintf(how, sizeof(how), "%s pages, chunks of %llu MiB, %u threads", pages->name,
			 (unsigned long long)(chunk / MIB), threads[i]);
		report_value("cuMemHostRegister", how, per_gib(register_in(addr, chunk, threads[i])), "ms/GiB");
	}
	pages_unmap(addr, work_bytes);
}

static void pool_pages(const struct pages *pages)
{
	struct hugepin_context *ctx = context_make(pages->ladder);
	struct hugepin_pool *pool;
	double start = now_s();
	char how[96];
	void *p;

	must(hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool), "pinned pool");
	p = hugepin_alloc(pool, work_bytes, 0);
	snprintf(how, sizeof(how), "first block, ladder %s", pages->ladder);
	if (p)
		report_value("hugepin pinned pool", how, per_gib(now_s() - start), "ms/GiB");
	else
		report_skip(how, hugepin_error());
	must(hugepin_free(pool, p), "free");
	must(hugepin_pool_destroy(pool), "pool");
	must(hugepin_context_destroy(ctx), "context");
}

void check_registration(void)
{
	double start;
	void *p;
	size_t i;

	start = now_s();
	must(gpu.host_alloc(&p, work_bytes, PORTABLE), "cuMemHostAlloc");
	report_value("cuMemHostAlloc", "the driver's own memory", per_gib(now_s() - start), "ms/GiB");
	start = now_s();
	must(gpu.host_free(p), "cuMemFreeHost");
	report_value("cuMemFreeHost", "the driver's own memory", per_gib(now_s() - start), "ms/GiB");
	for (i = 0; i < 3; i++)
		register_pages(&page_sizes[i]);
	for (i = 0; i < 3; i++)
		pool_pages(&page_sizes[i]);
}

/* ---- what the driver and its runtime say ---- */

static struct {
	int (*attributes)(void *out, const void *ptr);
	int (*flags)(unsigned int *flags, void *ptr);
	int (*host_register)(void *ptr, size_t bytes, unsigned int flags);
	int (*last_error)(void);
} cudart;

struct attributes {			/* cudaPointerAttributes, from CUDA 11 on */
	int type, device;
	void *device_pointer, *host_pointer;
	long reserved[8];
};

static bool load_runtime(void)
{
	static const char *const names[] = {
		"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so",
	};
	void *library = NULL;
	size_t i;

	for (i = 0; !library && i < sizeof(names) / sizeof(names[0]); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return false;
	*(void **)&cudart.attributes = dlsym(library, "cudaPointerGetAttributes");
	*(void **)&cudart.flags = dlsym(library, "cudaHostGetFlags");
	*(void **)&cudart.host_register = dlsym(library, "cudaHostRegister");
	*(void **)&cudart.last_error = dlsym(library, "cudaGetLastError");
	return cudart.attributes && cudart.flags && cudart.host_register && cudart.last_error;
}

static void ask_runtime(struct hugepin_pool *pool, char *p)
{
	struct attributes attributes = { .type = -1 };
	unsigned int flags = 0;
	char why[96];
	int code;

	if (!load_runtime()) {
		report_skip("the CUDA runtime's own queries", "no libcudart is found");
		return;
	}
	code = cudart.last_error();
	if (code) {
		snprintf(why, sizeof(why), "the libcudart that is found does not work on this driver: code %d", code);
		report_skip("the CUDA runtime's own queries", why);
		return;
	}
	code = cudart.attributes(&attributes, p + 4096);
	report_check("cudaPointerGetAttributes", !code && attributes.type == MEMORY_TYPE_HOST,
		     "code %d, type %d (1: registered host memory)", code, attributes.type);
	code = cudart.flags(&flags, p + 4096);
	report_check("cudaHostGetFlags", !code && flags & PORTABLE, "code %d, flags %#x", code, flags);
	/* C024: what fails inside hugepin is no last error of the program's. */
	must(hugepin_alloc(pool, (size_t)1 << 50, 0) != NULL, "a block of a pebibyte");
	code = cudart.last_error();
	report_check("cudaGetLastError after a refused block", !code, "code %d", code);
	code = cudart.host_register(p, 4096, 0);
	report_check("cudaHostRegister of registered memory", code == ALREADY_REGISTERED, "code %d", code);
	cudart.last_error();
}

void check_queries(void)
{
	struct hugepin_context *ctx = context_make("base");
	struct hugepin_pool *pool;
	unsigned int flags = 0, type = 0;
	int code;
	char *p;

	must(hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool), "pinned pool");
	p = hugepin_alloc_aligned(pool, 2 * MIB, 4 * MIB, 0);
	must(!p, "a block of 4 MiB");
	code = gpu.host_flags(&flags, p + 4096);
	report_check("cuMemHostGetFlags of a block", !code && flags & PORTABLE, "code %d, flags %#x", code, flags);
	if (gpu.pointer_attribute) {
		code = gpu.pointer_attribute(&type, MEMORY_TYPE, (uintptr_t)p);
		report_check("cuPointerGetAttribute of a block", !code && type == MEMORY_TYPE_HOST, "code %d, type %u",
			     code, type);
	}
	code = gpu.host_register(p + 4096, 4096, 0);
	report_check("an inner page registered again", code == ALREADY_REGISTERED, "code %d", code);
	code = gpu.host_unregister(p + 4096);
	report_check("an inner pointer unregistered", code == 1, "code %d", code);
	code = gpu.host_unregister(&code);
	report_check("an unknown pointer unregistered", code == NOT_REGISTERED, "code %d", code);
	ask_runtime(pool, p);
	must(hugepin_free(pool, p), "free");
	must(hugepin_pool_destroy(pool), "pool");
	code = gpu.host_flags(&flags, p);
	report_check("the memory of a pool that has ended", code != 0, "code %d", code);
	must(hugepin_context_destroy(ctx), "context");
}
