/* SPDX-License-Identifier: MIT */
/*
 * The check on a machine with an NVIDIA GPU: what the stand-in driver models, seen on the real one, and times beside
 * what people would use instead. The driver is loaded at run time: neither its header nor nvcc is needed.
 */
#ifndef HUGEPIN_GPU_H
#define HUGEPIN_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hugepin.h"

#define KIB	((uint64_t)1 << 10)
#define MIB	((uint64_t)1 << 20)
#define GIB	((uint64_t)1 << 30)

#define NON_BLOCKING	1u
#define PORTABLE	1u

typedef void *stream_t;
typedef unsigned long long device_ptr;

/* Functions of the driver; those marked are NULL on the stand-in or on older drivers. */
struct gpu {
	int (*init)(unsigned int flags);
	int (*driver_version)(int *version);
	int (*device_get)(int *device, int ordinal);
	int (*primary_retain)(void **context, int device);
	int (*context_set)(void *context);
	int (*context_get)(void **context);
	int (*host_register)(void *addr, size_t bytes, unsigned int flags);
	int (*host_unregister)(void *addr);
	int (*host_alloc)(void **out, size_t bytes, unsigned int flags);
	int (*host_free)(void *addr);
	int (*host_flags)(unsigned int *flags, void *addr);
	int (*host_device_pointer)(device_ptr *out, void *addr, unsigned int flags);
	int (*mem_alloc)(device_ptr *out, size_t bytes);
	int (*mem_free)(device_ptr addr);
	int (*copy_to_device)(device_ptr to, const void *from, size_t bytes, stream_t stream);
	int (*copy_to_host)(void *to, device_ptr from, size_t bytes, stream_t stream);
	int (*set)(device_ptr addr, unsigned char value, size_t count, stream_t stream);
	int (*stream_create)(stream_t *out, unsigned int flags);
	int (*stream_destroy)(stream_t stream);
	int (*stream_synchronize)(stream_t stream);
	int (*stream_query)(stream_t stream);	/* 600: not ready */
	int (*capture_begin)(stream_t stream, int mode);
	int (*capture_end)(stream_t stream, void **graph);
	/* may be NULL */
	int (*device_name)(char *name, int size, int device);
	int (*pointer_attribute)(void *out, int attribute, device_ptr addr);
	int (*module_load)(void **out, const void *image);
	int (*module_function)(void **out, void *module, const char *name);
	int (*launch)(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
		      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
		      stream_t stream, void **parameters, void **extra);
	int (*graph_destroy)(void *graph);
};
extern struct gpu gpu;
extern uint64_t work_bytes;		/* of host memory that each check works on */

/* ---- gpu.c ---- */

bool gpu_open(char *name, size_t size, int *version);
double now_s(void);
void must(int code, const char *what);	/* ends the program: nothing that follows would mean anything */

/* Host memory of one page size, resident; NULL with the reason where it cannot be had. */
struct pages {
	const char *name;
	uint64_t bytes;
	const char *ladder;		/* of a hugepin pool on the same pages */
};
extern const struct pages page_sizes[3];	/* 4K, 2M, 1G */
void *pages_map(const struct pages *pages, uint64_t bytes, const char **why);
void pages_unmap(void *addr, uint64_t bytes);

struct hugepin_context *context_make(const char *ladder);

/* ---- report.c: a table for people, JSON for programs ---- */

void report_value(const char *what, const char *how, double value, const char *unit);
void report_check(const char *what, bool ok, const char *format, ...) __attribute__((format(printf, 3, 4)));
void report_skip(const char *what, const char *why);
/* 0 where every check passed. */
int report_end(const char *json_path, const char *device, int driver);

/* ---- the checks ---- */

void check_registration(void);		/* registration.c */
void check_queries(void);
void check_copies(void);		/* copies.c */
void check_gather(void);		/* gather.c */
void check_device_pool(void);		/* streams.c */
void check_fences(void);
void check_capture(void);

#endif /* HUGEPIN_GPU_H */
