// SPDX-License-Identifier: MIT
/*
 * A program that allocates 64 MiB of pinned memory twice and frees both: the first before any context is there. Built four
 * times: with the shared runtime, with the static one, with dlopen() and dlsym() (-DBY_DLSYM), and with the driver's
 * entry points from cuGetProcAddress() (-DBY_PROC_ADDRESS). It must not matter to it whether it is hooked.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "cudart.h"
#include "expect.h"
#include "loopback.h"

#define BYTES	((size_t)64 << 20)

static int (*host_alloc)(void **out, size_t bytes, unsigned int flags);
static int (*free_host)(void *addr);

#if defined(BY_DLSYM) || defined(BY_PROC_ADDRESS)
static void *find(void *handle, const char *name)
{
	void *symbol = dlsym(handle, name);

	EXPECT(symbol);
	return symbol;
}

#endif

#if defined(BY_DLSYM)
static void start(void)
{
	void *runtime = dlopen("libcudart.so.12", RTLD_NOW | RTLD_LOCAL);

	EXPECT(runtime);
	*(void **)&host_alloc = find(runtime, "cudaHostAlloc");
	*(void **)&free_host = find(runtime, "cudaFreeHost");
}
#elif defined(BY_PROC_ADDRESS)
static int (*get)(const char *name, void **out, int version, uint64_t flags);

static void *entry(const char *name)
{
	void *function = NULL;

	EXPECT_CODE(get(name, &function, 12000, 0), 0);
	return function;
}

static void start(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *ctx = NULL;
	int (*init)(unsigned int), (*retain)(void **, int), (*set)(void *);

	EXPECT(driver);
	*(void **)&get = find(driver, "cuGetProcAddress");
	*(void **)&init = entry("cuInit");
	*(void **)&retain = entry("cuDevicePrimaryCtxRetain");
	*(void **)&set = entry("cuCtxSetCurrent");
	*(void **)&host_alloc = entry("cuMemHostAlloc");
	*(void **)&free_host = entry("cuMemFreeHost");
	EXPECT_CODE(init(0), 0);
	EXPECT_CODE(retain(&ctx, 0), 0);
	EXPECT_CODE(set(ctx), 0);
}
#else
static void start(void)
{
	host_alloc = cudaHostAlloc;
	free_host = cudaFreeHost;
}
#endif

int main(void)
{
	struct loopback driver;
	void *first = NULL, *second = NULL;

	start();
	EXPECT_CODE(host_alloc(&first, BYTES, 0), 0);
	EXPECT_CODE(host_alloc(&second, BYTES, 0), 0);
	EXPECT(first && second && first != second);
	EXPECT(!((uintptr_t)first % 4096) && !((uintptr_t)second % 4096));
	EXPECT(!loopback_load(&driver));
	EXPECT(driver.is_registered(first, BYTES) && driver.is_registered(second, BYTES));
	memset(first, 1, BYTES);
	memset(second, 2, BYTES);
	EXPECT(((char *)first)[BYTES - 1] == 1 && ((char *)second)[0] == 2);
	EXPECT_CODE(free_host(second), 0);
	EXPECT_CODE(free_host(first), 0);
	puts("ok");
	return 0;
}
