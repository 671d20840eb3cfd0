// SPDX-License-Identifier: MIT
/*
 * The CUDA driver that the program has loaded: asked, never initialised, and no context is ever made. Nothing is looked
 * up before the program has the driver, so that it is the program's own.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "shim.h"

typedef struct CUctx_st *CUcontext;

enum {
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_MEMORYTYPE_HOST = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

static struct {
	int (*ctx_get_current)(CUcontext *ctx);
	int (*ctx_synchronize)(void);
	int (*ctx_push)(CUcontext ctx);
	int (*ctx_pop)(CUcontext *ctx);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*primary_state)(int device, unsigned int *flags, int *active);
	int (*primary_retain)(CUcontext *ctx, int device);
	int (*primary_release)(int device);
	int (*pointer_attribute)(void *data, int attribute, unsigned long long pointer);
	int (*exchange_capture_mode)(int *mode);
	int (*stream_capturing)(void *stream, int *status);
} cu;

static const struct {
	const char *name;
	void **function;
} symbols[] = {
	{ "cuCtxGetCurrent", (void **)&cu.ctx_get_current },
	{ "cuCtxSynchronize", (void **)&cu.ctx_synchronize },
	{ "cuCtxPushCurrent_v2", (void **)&cu.ctx_push },
	{ "cuCtxPopCurrent_v2", (void **)&cu.ctx_pop },
	{ "cuDeviceGetCount", (void **)&cu.device_count },
	{ "cuDeviceGet", (void **)&cu.device_get },
	{ "cuDevicePrimaryCtxGetState", (void **)&cu.primary_state },
	{ "cuDevicePrimaryCtxRetain", (void **)&cu.primary_retain },
	{ "cuDevicePrimaryCtxRelease_v2", (void **)&cu.primary_release },
	{ "cuPointerGetAttribute", (void **)&cu.pointer_attribute },
	{ "cuThreadExchangeStreamCaptureMode", (void **)&cu.exchange_capture_mode },
	{ "cuStreamIsCapturing", (void **)&cu.stream_capturing },
};

#define SYMBOLS	(sizeof(symbols) / sizeof(symbols[0]))

enum load_state { LOAD_NOT_YET, LOAD_DONE, LOAD_FAILED };

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(enum load_state) load_state;

/* Of a lookup that did not find: the program is not to see it in its dlerror(). */
static void *lookup(void *handle, const char *name)
{
	void *symbol = dlsym(handle, name);

	if (!symbol)
		dlerror();
	return symbol;
}

/* The handle is kept: what was looked up stays. Looked up without the lock, since a loader's lock is taken inside. */
static enum load_state load(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD), *found[SYMBOLS];
	size_t i;

	if (!driver) {
		dlerror();
		return LOAD_NOT_YET;
	}
	for (i = 0; i < SYMBOLS; i++) {
		found[i] = lookup(driver, symbols[i].name);
		if (!found[i])
			return LOAD_FAILED;	/* older than CUDA 10.1 */
	}
	pthread_mutex_lock(&load_lock);
	for (i = 0; i < SYMBOLS; i++)
		*symbols[i].function = found[i];
	atomic_store_explicit(&load_state, LOAD_DONE, memory_order_release);
	pthread_mutex_unlock(&load_lock);
	return LOAD_DONE;
}

static bool is_loaded(void)
{
	enum load_state state = atomic_load_explicit(&load_state, memory_order_acquire);

	if (state == LOAD_NOT_YET) {
		state = load();
		if (state == LOAD_FAILED)
			atomic_store(&load_state, state);
	}
	return state == LOAD_DONE;
}

bool driver_has_context(void)
{
	CUcontext ctx = NULL;

	return is_loaded() && !cu.ctx_get_current(&ctx) && ctx;
}

bool driver_knows(const void *addr)
{
	unsigned int type = 0;

	return !cu.pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)addr) &&
	       type == CU_MEMORYTYPE_HOST;
}

/* ---- waiting ---- */

static bool is_capture_code(int code)
{
	return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_CAPTURED_EVENT;
}

/* The legacy stream tells of captures of all blocking streams of the current context, by a code or by its status. */
static int wait_current(void)
{
	int status = 0, code = cu.stream_capturing(NULL, &status);

	if (is_capture_code(code) || (!code && status))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return code ? code : cu.ctx_synchronize();
}

/*
 * A program that resets its device between the first two calls would get a context from us; it is let go at once.
 */
static int wait_primary(int device, CUcontext current)
{
	CUcontext ctx, ignored;
	unsigned int flags;
	int active = 0, code = cu.primary_state(device, &flags, &active);

	if (code || !active)
		return code;
	code = cu.primary_retain(&ctx, device);
	if (code)
		return code;
	if (ctx != current) {
		code = cu.ctx_push(ctx);
		if (!code) {
			code = wait_current();
			cu.ctx_pop(&ignored);
		}
	}
	cu.primary_release(device);
	return code;
}

static int wait_all(void)
{
	CUcontext current = NULL;
	int count = 0, i, device, code;

	code = cu.ctx_get_current(&current);
	if (!code && current)
		code = wait_current();
	if (!code)
		code = cu.device_count(&count);
	for (i = 0; i < count && !code; i++) {
		code = cu.device_get(&device, i);
		if (!code)
			code = wait_primary(device, current);
	}
	return code;
}

/* Waiting is an unsafe call during a capture: in relaxed mode it does not break one of another thread. */
int driver_wait(void)
{
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED, code;

	if (!is_loaded())
		return CUDA_ERROR_NOT_INITIALIZED;
	code = cu.exchange_capture_mode(&mode);
	if (code)
		return code;
	code = wait_all();
	cu.exchange_capture_mode(&mode);
	return code;
}

/* ---- the program's libraries ---- */

struct search {
	const char *name;
	char path[4096];
};

static int is_searched(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	const char *base = strrchr(info->dlpi_name, '/');

	(void)size;
	base = base ? base + 1 : info->dlpi_name;
	if (strncmp(base, search->name, strlen(search->name)) || strlen(info->dlpi_name) >= sizeof(search->path))
		return 0;
	strcpy(search->path, info->dlpi_name);
	return 1;
}

bool driver_loaded(const char *library)
{
	struct search search = { .name = library };

	return dl_iterate_phdr(is_searched, &search);
}

/*
 * Behind us in the global scope; or, where a plugin brought the library for itself (Python's extensions do), in
 * the first loaded object of that name.
 */
void *driver_find(const char *name, const char *library)
{
	struct search search = { .name = library };
	void *symbol = lookup(RTLD_NEXT, name), *handle;

	if (symbol || !dl_iterate_phdr(is_searched, &search))
		return symbol;
	handle = dlopen(search.path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (!handle) {
		dlerror();
		return NULL;
	}
	symbol = lookup(handle, name);
	if (!symbol)
		dlclose(handle);
	return symbol;
}
