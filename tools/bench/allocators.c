// SPDX-License-Identifier: MIT
/*
 * hugepin's pool and what people use instead. A peer is loaded from its library by name and called through its own
 * symbols; nothing is interposed, so the worker's own malloc stays the C library's. Settings come by the environment
 * (see peers.py), as a user would give them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <hugepin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

static void *(*peer_alloc)(size_t bytes);
static void (*peer_free)(void *ptr);

static void *open_library(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		bench_complain("%s", dlerror());
	return handle;
}

static int find(void *handle, const char *name, void *function)
{
	*(void **)function = dlsym(handle, name);
	return *(void **)function ? 0 : bench_complain("%s", dlerror());
}

static int open_peer(const char *library, const char *alloc, const char *free)
{
	void *handle = open_library(library);

	return handle && !find(handle, alloc, &peer_alloc) && !find(handle, free, &peer_free) ? 0 : -1;
}

static int open_glibc(void)
{
	peer_alloc = malloc;
	peer_free = free;
	return 0;
}

static int open_mimalloc(void)
{
	return open_peer("libmimalloc.so.2", "mi_malloc", "mi_free");
}

static int open_jemalloc(void)
{
	return open_peer("libjemalloc.so.2", "malloc", "free");
}

static int open_tcmalloc(void)
{
	return open_peer("libtcmalloc_minimal.so.4", "tc_malloc", "tc_free");
}

/* The modes of <tbb/scalable_allocator.h> have no variable of the environment, save one; ours stands in. */
#define TBB_SET_HUGE_SIZE_THRESHOLD	2

static int open_tbb(void)
{
	const char *threshold = getenv("BENCH_TBB_HUGE_SIZE_THRESHOLD");
	int (*mode)(int mode, intptr_t value);
	void *handle = open_library("libtbbmalloc.so.2");

	if (!handle || find(handle, "scalable_malloc", &peer_alloc) || find(handle, "scalable_free", &peer_free) ||
	    find(handle, "scalable_allocation_mode", &mode))
		return -1;
	if (threshold && mode(TBB_SET_HUGE_SIZE_THRESHOLD, (intptr_t)strtoull(threshold, NULL, 10)))
		return bench_complain("scalable_allocation_mode: refused");
	return 0;
}

static void *(*memkind_alloc)(void *kind, size_t bytes);
static void (*memkind_free)(void *kind, void *ptr);
static void *memkind_kind;

static void *memkind_alloc_hugetlb(size_t bytes)
{
	return memkind_alloc(memkind_kind, bytes);
}

static void memkind_free_hugetlb(void *ptr)
{
	memkind_free(memkind_kind, ptr);
}

static int open_memkind(void)
{
	void *handle = open_library("libmemkind.so.0"), **kind;
	int (*check)(void *kind);

	if (!handle || find(handle, "memkind_malloc", &memkind_alloc) || find(handle, "memkind_free", &memkind_free) ||
	    find(handle, "memkind_check_available", &check) || find(handle, "MEMKIND_HUGETLB", &kind))
		return -1;
	memkind_kind = *kind;
	if (check(memkind_kind))
		return bench_complain("memkind: its hugetlb kind is not available: no free 2M pages");
	peer_alloc = memkind_alloc_hugetlb;
	peer_free = memkind_free_hugetlb;
	return 0;
}

static void *(*dpdk_alloc)(const char *type, size_t bytes, unsigned int alignment);

static void *dpdk_alloc_line(size_t bytes)
{
	return dpdk_alloc(NULL, bytes, 0);
}

/* Its heap grows by 2M pages; with BENCH_DPDK_NO_HUGE it is of base pages, and sized at the start. */
static int open_dpdk(void)
{
	char *huge[] = { "bench", "--in-memory", "--no-pci", "--no-telemetry", "-l", "0", "--log-level=1", NULL };
	char *base[] = { "bench", "--no-huge", "-m", "4096", "--no-shconf", "--no-pci", "--no-telemetry", "-l", "0",
			 "--log-level=1", NULL };
	bool no_huge = getenv("BENCH_DPDK_NO_HUGE");
	void *handle = open_library("librte_eal.so.23");
	int (*init)(int count, char **arguments);

	if (!handle || find(handle, "rte_eal_init", &init) || find(handle, "rte_malloc", &dpdk_alloc) ||
	    find(handle, "rte_free", &peer_free))
		return -1;
	if ((no_huge ? init(10, base) : init(7, huge)) < 0)
		return bench_complain("rte_eal_init: failed");
	peer_alloc = dpdk_alloc_line;
	return 0;
}

/* ---- hugepin ---- */

static struct hugepin_pool *pool;

static void *hugepin_take(size_t bytes)
{
	return hugepin_alloc(pool, bytes, 0);
}

static void hugepin_give(void *ptr)
{
	if (hugepin_free(pool, ptr)) {
		bench_complain("%s", hugepin_error());
		abort();
	}
}

static int open_hugepin(void)
{
	struct hugepin_context *ctx;

	if (hugepin_context_create(NULL, &ctx) || hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool))
		return bench_complain("%s", hugepin_error());
	peer_alloc = hugepin_take;
	peer_free = hugepin_give;
	return 0;
}

uint64_t allocator_mapped_bytes(void)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };

	return pool && !hugepin_pool_stats_get(pool, &stats) ? stats.mapped_bytes : 0;
}

/* ---- the table ---- */

static void *take(size_t bytes)
{
	return peer_alloc(bytes);
}

static void give(void *ptr)
{
	peer_free(ptr);
}

static const struct allocator allocators[] = {
	{ "hugepin", open_hugepin, hugepin_take, hugepin_give },
	{ "glibc", open_glibc, malloc, free },
	{ "mimalloc", open_mimalloc, take, give },
	{ "jemalloc", open_jemalloc, take, give },
	{ "tcmalloc", open_tcmalloc, take, give },
	{ "tbb", open_tbb, take, give },
	{ "memkind", open_memkind, take, give },
	{ "dpdk", open_dpdk, take, give },
};

const struct allocator *allocator_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++) {
		if (!strcmp(allocators[i].name, name))
			return &allocators[i];
	}
	return NULL;
}
