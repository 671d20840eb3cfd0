/* SPDX-License-Identifier: MIT */
/* Inside the stand-in CUDA driver: the types and numbers of the CUDA driver API, and what its files owe each other. */
#ifndef HUGEPIN_LOOPBACK_DRIVER_H
#define HUGEPIN_LOOPBACK_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loopback.h"

#define EXPORT __attribute__((visibility("default")))

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

typedef struct {
	int type;
	int id;
} CUmemLocation;

typedef struct {
	int type;
	int requested_handle_types;
	CUmemLocation location;
	void *win32_metadata;
	unsigned char flags[8];
} CUmemAllocationProp;

typedef struct {
	CUmemLocation location;
	int flags;
} CUmemAccessDesc;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_ILLEGAL_STATE = 401,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CUDA_ERROR_CAPTURED_EVENT = 907,
	CUDA_ERROR_UNKNOWN = 999,
};

#define CU_MEMHOSTREGISTER_KNOWN	0xfu	/* PORTABLE 1, DEVICEMAP 2, IOMEMORY 4, READ_ONLY 8 */
#define CU_MEMHOSTALLOC_KNOWN		0x7u	/* PORTABLE 1, DEVICEMAP 2, WRITECOMBINED 4 */
#define CU_MEMHOST_DEVICEMAP		0x2u
#define CU_STREAM_CAPTURE_MODE_GLOBAL	0
#define CU_STREAM_CAPTURE_MODE_RELAXED	2
#define CU_STREAM_NON_BLOCKING		0x1u

/* ---- control.c: faults and the environment ---- */

/* What @call is to answer instead of doing its work, or CUDA_SUCCESS. */
CUresult driver_fault(const char *call);
uint64_t driver_limit(void);
void driver_delay(void);
bool driver_capture_check(void);		/* false: an unsafe call, and the capture is broken */
unsigned int driver_devices(void);
bool driver_starts_with_context(void);
void driver_ledger_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- context.c ---- */

/* Initialised, not shut down, no fault to inject; @current: the thread's context, or NULL for no matter. */
CUresult context_enter(const char *call, CUcontext *current);
int context_capture_mode(void);			/* of the calling thread */
CUdevice context_device(CUcontext ctx);
bool context_is_device(CUdevice device);
void context_reset(void);

/* ---- stream.c: work in streams, events, captures ---- */

void stream_reset(void);
void stream_read(struct loopback_ledger *out);
void stream_work(void *stream);
void stream_done(void *stream);
/* A potentially unsafe call of this thread meets a capture, which it breaks. */
bool stream_capture_conflict(void);
bool stream_capture_broken(void);
/* The stream may be given work now; breaks the captures that it would become part of. */
CUresult stream_use(CUstream stream, CUcontext current);

/* ---- memory.c: memory of the devices ---- */

void memory_reset(void);
void memory_read(struct loopback_ledger *out);
void memory_limit(uint64_t bytes);		/* of each device */
CUresult memory_unreserve(uintptr_t addr);
CUresult memory_create(CUdevice device, uint64_t bytes, CUmemGenericAllocationHandle *out);
CUresult memory_map(uintptr_t addr, uint64_t bytes, CUmemGenericAllocationHandle handle);	/* with access */
CUresult memory_unmap(uintptr_t addr);
bool memory_is_mapped(CUmemGenericAllocationHandle handle);

/* ---- ledger.c ---- */

void ledger_reset(void);
void ledger_read(struct loopback_ledger *out);
bool ledger_covers(const void *addr, uint64_t bytes);
void ledger_drop(CUcontext ctx);		/* all that was registered in it */

/* ---- pin.c: keeping pages where they are ---- */

/* A handle >= 0 for pin_end(), CUDA's code in *@code otherwise. */
int pin_begin(void *addr, uint64_t bytes, CUresult *code);
void pin_end(int handle, void *addr, uint64_t bytes);
bool pin_is_real(void);

#endif /* HUGEPIN_LOOPBACK_DRIVER_H */
