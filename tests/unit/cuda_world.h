/* SPDX-License-Identifier: MIT */
/* A CUDA program on the stand-in driver, for the tests of runtime cuda: what it calls, and how it begins. */
#ifndef HUGEPIN_TEST_CUDA_WORLD_H
#define HUGEPIN_TEST_CUDA_WORLD_H

#include "runtime_world.h"

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
	static const struct runtime_call calls[] = {
		RUNTIME_CALL(cuInit),
		RUNTIME_CALL(cuCtxSetCurrent),
		RUNTIME_CALL(cuDevicePrimaryCtxRetain),
		{ "cuDevicePrimaryCtxReset_v2", (void **)&cuDevicePrimaryCtxReset },
		RUNTIME_CALL(cuStreamCreate),
		{ "cuStreamDestroy_v2", (void **)&cuStreamDestroy },
		{ "cuStreamBeginCapture_v2", (void **)&cuStreamBeginCapture },
		RUNTIME_CALL(cuStreamEndCapture),
		{ "cuMemcpyDtoH_v2", (void **)&cuMemcpyDtoH },
	};

	LOAD_RUNTIME("libcuda.so.1", calls);
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

#endif /* HUGEPIN_TEST_CUDA_WORLD_H */
