/* SPDX-License-Identifier: MIT */
/*
 * The kernel fuzzer: what a process of it has in its hands, and what the files of it share.
 *
 * A run has a seed; workers run lives one after the other; a life is a process (and what it forks) that makes a few
 * hundred calls and is killed or ends. Every choice of a call comes from the run's seed, the worker, the life and the
 * number of the call alone, never from an answer of the kernel: so one life can be run again by itself.
 */
#ifndef HUGEPIN_FUZZ_KERNEL_WORLD_H
#define HUGEPIN_FUZZ_KERNEL_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "balance.h"

#define PAGE_4K		4096ULL
#define PAGE_2M		(2ULL << 20)
#define PAGE_1G		(1ULL << 30)

#define SLOTS		40
#define AREAS		24
#define CHILDREN	4
#define MOUNTS		3
#define OPS_MAX		64
#define WORKERS_MAX	64
#define WINDOW		0x200000000000ULL	/* where areas are put that have an address; nobody else is there */
#define WINDOW_BYTES	(64ULL << 30)
#define PATTERN		0x5a			/* the only byte but 0 that the fuzzer writes */

/* What a descriptor is, as far as choosing calls for it goes. */
enum kind {
	NONE, DEVICE, DIRECTORY, REGION, PIN, DMABUF, TEST, PIPE, SOCKET, OTHER, KINDS,
};

struct slot {
	int fd;
	enum kind kind;
};

struct area {
	char *start;
	uint64_t bytes;
};

struct op;

/* Written by all processes of the run. */
struct shared {
	struct {
		uint64_t calls, successes, ns;	/* of CPU time, where times are asked for */
	} op[OPS_MAX];
	uint64_t lives, kills, forks;
	uint64_t bytes_looked_at;	/* of fresh regions, for foreign ones */
	uint64_t foreign;		/* regions in which one was found */
	uint64_t poisoned, poison_max;
	int stop;
	struct trace {			/* of each worker */
		uint64_t processes;	/* that its life has forked */
		uint64_t next;		/* what was done last */
		struct {
			uint32_t life, index;
			uint16_t op, depth;
			int64_t result;
		} last[64];
	} trace[WORKERS_MAX];
};

struct world {
	uint64_t seed;			/* of this process: run, worker, life */
	uint64_t random;
	unsigned int worker, life, index, depth;
	bool verbose, times, knobs;
	struct shared *shared;
	struct slot slots[SLOTS];
	struct area areas[AREAS];
	pid_t children[CHILDREN];
	char place[32];			/* a folder of this worker's own for mounts */
};

struct op {
	const char *name;
	unsigned int weight;
	long (*perform)(struct world *w);	/* >= 0 or -errno */
};

/* ---- random.c: choices ---- */
uint64_t random_mix(uint64_t a, uint64_t b);
uint64_t random_word(struct world *w);
uint64_t below(struct world *w, uint64_t n);	/* 0 to n - 1 */
bool chance(struct world *w, unsigned int percent);
#define ONE_OF(w, array)	((array)[below((w), COUNT(array))])
uint64_t some_bytes(struct world *w);		/* a length or offset, mostly one that makes sense */
uint64_t odd_number(struct world *w);		/* one that seldom does */
const char *some_name(struct world *w);

/* ---- world.c: descriptors, areas, touching, one life ---- */
int keep_fd(struct world *w, int fd, enum kind kind);	/* takes @fd, or an error; returns it, or -errno */
int some_fd(struct world *w, enum kind kind);		/* mostly one of that kind; -1: none */
int close_one(struct world *w);
void keep_area(struct world *w, char *start, uint64_t bytes);
struct area *some_area(struct world *w);		/* NULL: none */
char *some_address(struct world *w);			/* in the window */
bool in_window(const char *start);
uint64_t within(const struct area *area, uint64_t bytes);	/* less outside of it: the fuzzer's own memory is behind */
uint64_t add(uint64_t *figure, uint64_t n);
/* Reads (and writes PATTERN to) a byte of each step: -EFAULT if that raised a signal. */
long touch(char *start, uint64_t bytes, uint64_t step, bool write);
/* Looks for a byte that is not zero in what must be a fresh region. */
void look_for_foreign(struct world *w, const char *start, uint64_t bytes);
void live(struct world *w, unsigned int calls);

/* ---- ops.c: all of them ---- */
const struct op *some_op(struct world *w, unsigned int *number);
const struct op *op_number(unsigned int number);
unsigned int op_count(void);

/* ---- op_*.c ---- */
extern const struct op region_ops[], memory_ops[], name_ops[], process_ops[], host_ops[];

#endif /* HUGEPIN_FUZZ_KERNEL_WORLD_H */
