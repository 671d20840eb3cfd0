// SPDX-License-Identifier: MIT
/* The check on a GPU: the driver, the clock, host memory of a page size, and the order of things. */
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct gpu gpu;
uint64_t work_bytes = 4 * GIB;

const struct pages page_sizes[3] = {
	{ "4K", 4 * KIB, "base" },
	{ "2M", 2 * MIB, "hugetlb:2M" },
	{ "1G", GIB, "hugetlb:1G" },
};

static const struct {
	const char *name;
	void **function;
	bool needed;
} symbols[] = {
	{ "cuInit", (void **)&gpu.init, true },
	{ "cuDriverGetVersion", (void **)&gpu.driver_version, true },
	{ "cuDeviceGet", (void **)&gpu.device_get, true },
	{ "cuDevicePrimaryCtxRetain", (void **)&gpu.primary_retain, true },
	{ "cuCtxSetCurrent", (void **)&gpu.context_set, true },
	{ "cuCtxGetCurrent", (void **)&gpu.context_get, true },
	{ "cuMemHostRegister_v2", (void **)&gpu.host_register, true },
	{ "cuMemHostUnregister", (void **)&gpu.host_unregister, true },
	{ "cuMemHostAlloc", (void **)&gpu.host_alloc, true },
	{ "cuMemFreeHost", (void **)&gpu.host_free, true },
	{ "cuMemHostGetFlags", (void **)&gpu.host_flags, true },
	{ "cuMemHostGetDevicePointer_v2", (void **)&gpu.host_device_pointer, true },
	{ "cuMemAlloc_v2", (void **)&gpu.mem_alloc, true },
	{ "cuMemFree_v2", (void **)&gpu.mem_free, true },
	{ "cuMemcpyHtoDAsync_v2", (void **)&gpu.copy_to_device, true },
	{ "cuMemcpyDtoHAsync_v2", (void **)&gpu.copy_to_host, true },
	{ "cuMemsetD8Async", (void **)&gpu.set, true },
	{ "cuStreamCreate", (void **)&gpu.stream_create, true },
	{ "cuStreamDestroy_v2", (void **)&gpu.stream_destroy, true },
	{ "cuStreamSynchronize", (void **)&gpu.stream_synchronize, true },
	{ "cuStreamQuery", (void **)&gpu.stream_query, true },
	{ "cuStreamBeginCapture_v2", (void **)&gpu.capture_begin, true },
	{ "cuStreamEndCapture", (void **)&gpu.capture_end, true },
	{ "cuDeviceGetName", (void **)&gpu.device_name, false },
	{ "cuPointerGetAttribute", (void **)&gpu.pointer_attribute, false },
	{ "cuModuleLoadData", (void **)&gpu.module_load, false },
	{ "cuModuleGetFunction", (void **)&gpu.module_function, false },
	{ "cuLaunchKernel", (void **)&gpu.launch, false },
	{ "cuGraphDestroy", (void **)&gpu.graph_destroy, false },
};

bool gpu_open(char *name, size_t size, int *version)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context;
	int device, code;
	size_t i;

	if (!driver) {
		fprintf(stderr, "no CUDA driver: %s\n", dlerror());
		return false;
	}
	for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		*symbols[i].function = dlsym(driver, symbols[i].name);
		if (!*symbols[i].function && symbols[i].needed) {
			fprintf(stderr, "the CUDA driver has no %s\n", symbols[i].name);
			return false;
		}
	}
	code = gpu.init(0);
	if (!code)
		code = gpu.device_get(&device, 0);
	if (!code)
		code = gpu.primary_retain(&context, device);
	if (!code)
		code = gpu.context_set(context);
	if (!code)
		code = gpu.driver_version(version);
	if (code) {
		fprintf(stderr, "no GPU to work with: CUDA code %d\n", code);
		return false;
	}
	snprintf(name, size, "stand-in");
	return !gpu.device_name || !gpu.device_name(name, (int)size, device);
}

double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void must(int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "%s: code %d; %s\n", what, code, hugepin_error());
	exit(1);
}

void *pages_map(const struct pages *pages, uint64_t bytes, const char **why)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, shift = __builtin_ctzll(pages->bytes);
	bool huge = shift > 12;
	void *addr;

	if (bytes % pages->bytes) {
		*why = "less than a page of it is worked on";
		return NULL;
	}
	if (huge)
		flags |= MAP_HUGETLB | MAP_POPULATE | shift << MAP_HUGE_SHIFT;
	addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (addr == MAP_FAILED) {
		*why = strerror(errno);
		return NULL;
	}
	if (!huge) {
		madvise(addr, bytes, MADV_NOHUGEPAGE);
		memset(addr, 0, bytes);
	}
	return addr;
}

void pages_unmap(void *addr, uint64_t bytes)
{
	munmap(addr, bytes);
}

struct hugepin_context *context_make(const char *ladder)
{
	struct hugepin_options *options;
	struct hugepin_context *ctx;

	must(hugepin_options_create(&options), "options");
	must(hugepin_options_set(options, "runtime", "cuda"), "runtime");
	if (ladder)
		must(hugepin_options_set(options, "pinned_ladder", ladder), "pinned_ladder");
	must(hugepin_context_create(options, &ctx), "context");
	hugepin_options_destroy(options);
	return ctx;
}

/* gpu-check [BYTES [JSON]] */
int main(int argc, char **argv)
{
	char name[128], *end = "";
	int version = 0;

	if (argc > 1)
		work_bytes = strtoull(argv[1], &end, 10);
	if (argc > 3 || *end || !work_bytes || work_bytes % (4 * MIB)) {
		fprintf(stderr, "usage: gpu-check [BYTES [JSON]], BYTES a multiple of 4 MiB\n");
		return 2;
	}
	if (!gpu_open(name, sizeof(name), &version))
		return 2;
	check_queries();
	check_registration();
	check_copies();
	check_gather();
	check_device_pool();
	check_fences();
	check_capture();
	return report_end(argc > 2 ? argv[2] : NULL, name, version);
}
