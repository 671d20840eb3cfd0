/* SPDX-License-Identifier: MIT */
/*
 * The stand-in runtimes, as tests see them: faults to inject, and a ledger of what was registered. A program finds
 * these in the libcuda.so.1, libamdhip64.so or libascendcl.so it has loaded; each has its own.
 *
 * The environment sets the same, for programs that know nothing of this:
 *	LOOPBACK_FAIL_NTH=CALL:N:CODE	the N-th call of CALL from the start on returns CODE; N 0: every call
 *	LOOPBACK_LIMIT_BYTES=N		one registration of more than N bytes is CUDA_ERROR_OUT_OF_MEMORY
 *	LOOPBACK_DELAY_US=N		each registration and unregistration takes that much longer
 *	LOOPBACK_SHUTDOWN=1		every call returns CUDA_ERROR_DEINITIALIZED, as in a process that exits
 *	LOOPBACK_CONTEXT=1		initialised, device 0's primary context active: as after cudaFree(0)
 *	LOOPBACK_DEVICES=N		devices there are, 1 to 8
 *	LOOPBACK_DEVICE_BYTES=N		memory that each of them has
 *	LOOPBACK_LEDGER=FILE		a line for each registration, its end, and the exit goes to FILE
 */
#ifndef HUGEPIN_LOOPBACK_H
#define HUGEPIN_LOOPBACK_H

#include <dlfcn.h>
#include <stdint.h>

struct loopback_ledger {
	uint64_t registrations;		/* that succeeded */
	uint64_t unregistrations;	/* that succeeded */
	uint64_t dropped;		/* ended with their context instead */
	uint64_t live;			/* of registrations, neither ended nor dropped */
	uint64_t live_bytes;
	uint64_t calls;			/* of cuMemHostRegister and cuMemHostUnregister, refused ones too */
	uint64_t misuses;		/* double, overlapping or unknown: what a correct caller never asks for */
	uint64_t largest_bytes;		/* of one registration */
	uint64_t most_parallel;		/* calls that were inside the driver at once */
	uint64_t streams, events;	/* that are there */
	uint64_t device_bytes;		/* of pages created */
	uint64_t device_reserved_bytes;	/* of address space */
	uint64_t device_mapped_bytes;
};

struct loopback {
	void (*reset)(void);		/* no contexts, no faults, an empty ledger; the environment counts no more */
	/* Adds to what is set: the @nth call from now on returns @code, once; 0: every call does. */
	void (*fail_nth)(const char *call, unsigned int nth, int code);
	void (*fail_clear)(void);	/* what has not struck never will */
	void (*limit)(uint64_t bytes);	/* 0: none */
	void (*delay)(unsigned int us);
	void (*shutdown)(int on);
	void (*capture)(int on);	/* a capture in global mode is under way in some other thread */
	int (*capture_broken)(void);	/* by a call of a thread whose mode is not relaxed */
	void (*ledger)(struct loopback_ledger *out);
	int (*is_registered)(const void *addr, uint64_t bytes);		/* all of it, whatever the chunks */
	int (*pins_really)(void);	/* by the kernel, so that pages cannot move or go; else they are locked */
	void (*devices)(unsigned int count);
	void (*device_memory)(uint64_t bytes);	/* that each device has; 1 GiB after a reset */
	/* Gives a stream (NULL: the legacy one of the thread's context) work that goes on until done(). */
	void (*work)(void *stream);
	void (*done)(void *stream);	/* NULL: all work there is */
};

/* From the library of that name that is found first; 0, or -1 if there is none or it is not a stand-in. */
static inline int loopback_load_from(const char *library, struct loopback *out)
{
	void *driver = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	const struct loopback *(*get)(void);

	if (!driver)
		return -1;
	*(void **)&get = dlsym(driver, "loopback_get");
	if (!get)
		return -1;
	*out = *get();
	return 0;
}

static inline int loopback_load(struct loopback *out)
{
	return loopback_load_from("libcuda.so.1", out);
}

#endif /* HUGEPIN_LOOPBACK_H */
