/* SPDX-License-Identifier: MIT */
/* Inside hugepin-bench: one process measures one allocator in one case, so that no two ever meet. */
#ifndef HUGEPIN_BENCH_WORKER_H
#define HUGEPIN_BENCH_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- allocators.c ---- */

struct allocator {
	const char *name;
	int (*open)(void);			/* 0, or complained about */
	void *(*alloc)(size_t bytes);
	void (*free)(void *ptr);
};

const struct allocator *allocator_find(const char *name);
uint64_t allocator_mapped_bytes(void);		/* of hugepin's pool */

/* ---- a case, as the command line has it ---- */

struct job {
	const struct allocator *allocator;
	uint64_t min_bytes, max_bytes;		/* of a block; sizes are spread evenly over the powers of two between */
	uint64_t live;				/* blocks of a thread in use at any time */
	uint64_t threads;
	uint64_t operations;			/* of a thread in one repetition */
	uint64_t warm_up;			/* operations before the first repetition */
	uint64_t grow;				/* and before these, when they touch: as many that do not */
	bool touch;				/* writes a byte of each 4 KiB of a new block */
};

/* ---- pair.c, remote.c, fill.c, gather.c, bookkeeping.c: what is measured. Each prints its result of one repetition ---- */

struct bench {
	const char *name;
	int (*open)(const struct job *job);
	int (*repeat)(const struct job *job);
	int (*close)(const struct job *job);	/* frees all; checks what must hold */
};

extern const struct bench bench_pair, bench_worst, bench_remote, bench_holes, bench_limits, bench_gather, bench_bookkeeping;

/* ---- worker.c ---- */

double bench_now(void);				/* seconds */
void bench_pin(unsigned int cpu);		/* the calling thread */
uint64_t bench_random(uint64_t *state);
/* From @job's range, so that every power of two is as likely as every other. */
uint64_t bench_size(const struct job *job, uint64_t *state);
int bench_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));	/* -1 */

#endif
