/* SPDX-License-Identifier: MIT */
/* A CUDA program on the stand-in driver, for the tests of runtime cuda: what it calls, and how it begins. */
#ifndef HUGEPIN_TEST_CUDA_WORLD_H
#define HUGEPIN_TEST_CUDA_WORLD_H

#include "../loopback/loopback.h"
#include "internal.h"

static struct loopback loopback;

static int (*cuInit)(unsigned int flags);
static int (*cuCtxSetCurrent)(void *ctx);
static int (*cuDevicePrimaryCtxRetain)(void **ctx, int device);
static int (*cuDevicePrimaryCtxReset)(int device);
static int (*cuStreamCreate)(void **stream, unsigned int flags);
static int (*cuStreamDestroy)(void *stream);
static int (*cuStreamBeginCapture)(void *stream, int mode);
static int (*cuStreamEndCapture)(void *stream, void **graph);
static int (*cuMemcpyDtoH)(void *to, unsigned long long from, size_t bytes);

#define NON_BLOCKING	1
#define CAPTURE_GLOBAL	0

static struct hpi_runtime_scope scope;
static struct hpi_runtime_thread entered;

static inline int load_world(void)
{
	static const struct {
		const char *name;
		void **function;
	} calls[] = {
		{ "cuInit", (void **)&cuInit },
		{ "cuCtxSetCurrent", (void **)&cuCtxSetCurrent },
		{ "cuDevicePrimaryCtxRetain", (void **)&cuDevicePrimaryCtxRetain },
		{ "cuDevicePrimaryCtxReset_v2", (void **)&cuDevicePrimaryCtxReset },
		{ "cuStreamCreate", (void **)&cuStreamCreate },
		{ "cuStreamDestroy_v2", (void **)&cuStreamDestroy },
		{ "cuStreamBeginCapture_v2", (void **)&cuStreamBeginCapture },
		{ "cuStreamEndCapture", (void **)&cuStreamEndCapture },
		{ "cuMemcpyDtoH_v2", (void **)&cuMemcpyDtoH },
	};
	size_t i;

	assert_int_equal(loopback_load(&loopback), 0);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		*calls[i].function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), calls[i].name);
		assert_non_null(*calls[i].function);
	}
	return hpi_runtime_cuda.load();
}

static inline void *start_device(int device)
{
	void *ctx;

	assert_int_equal(cuInit(0), 0);
	assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, device), 0);
	return ctx;
}

/* A program with a context on device 0, and a thread of it inside a scope of ours. */
static inline void begin_world(unsigned int devices)
{
	int code;

	loopback.reset();
	loopback.devices(devices);
	assert_int_equal(cuCtxSetCurrent(start_device(0)), 0);
	assert_int_equal(hpi_runtime_cuda.begin(&scope, &code), 0);
	assert_int_equal(hpi_runtime_cuda.enter(&scope, &entered, &code), 0);
}

static inline void end_world(void)
{
	hpi_sys_fault = NULL;
	hpi_runtime_cuda.leave(&entered);
	hpi_runtime_cuda.end(&scope);
	loopback.reset();
}

static inline void assert_text(const char *part)
{
	if (!strstr(hugepin_error(), part))
		fail_msg("\"%s\" does not have \"%s\"", hugepin_error(), part);
}

#endif /* HUGEPIN_TEST_CUDA_WORLD_H */
