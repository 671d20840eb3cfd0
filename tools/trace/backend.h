/* SPDX-License-Identifier: MIT */
/* What a trace can be replayed against. A new one is a file with this table and a line in replay.c. */
#ifndef HUGEPIN_TRACE_BACKEND_H
#define HUGEPIN_TRACE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BACKEND_MAX_SETTINGS 64

struct backend_options {
	const char *pool;				/* "host", "pinned", "variable" */
	const char *settings[BACKEND_MAX_SETTINGS];	/* "key=value" */
	size_t setting_count;
};

struct backend_memory {
	uint64_t mapped_bytes;		/* taken from the system */
	uint64_t held_bytes;		/* in blocks that are in use, with all rounding and bookkeeping inside */
	uint64_t peak_mapped_bytes;	/* 0: not kept; then memory() is sampled */
};

struct backend {
	const char *name;
	const char *mapped_means;	/* what mapped_bytes is, for the report */

	/* All: 0 or -errno; error() then has a text. */
	int (*open)(const struct backend_options *options);
	int (*close)(void);		/* complains about what is still in use */

	/* @align is a power of two, 1 for none asked. NULL with errno. */
	void *(*alloc)(uint64_t bytes, uint64_t align, bool zero);
	void *(*realloc)(void *old, uint64_t bytes);
	int (*free)(void *address);
	void (*memory)(struct backend_memory *memory);
	const char *(*error)(void);
};

extern const struct backend backend_libc;
extern const struct backend backend_hugepin;

#endif
