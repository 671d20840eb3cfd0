/* SPDX-License-Identifier: MIT */
/*
 * The stress of the module: roles, each a process that does one kind of thing again and again, killed now and then and
 * started anew. What is planted in memory depends on a seed and the offset, so that whoever holds it can check it.
 */
#ifndef HUGEPIN_STRESS_H
#define HUGEPIN_STRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/fuzz/kernel/balance.h"

#define PAGE_4K		4096ULL
#define PAGE_2M		(2ULL << 20)
#define PLACE		"/run/hugepin"
#define KEEPERS		2
#define PLANTS		4		/* of each keeper */

/* A named region with a pattern. Its keeper may be killed between any two steps. */
struct plant {
	enum { NOTHING, IN_THE_MAKING, WHOLE, BEING_RENAMED } state;
	uint64_t seed;
	unsigned int version;		/* part of its name */
	unsigned int pages;
};

struct shared {
	int stop;
	struct plant plants[KEEPERS][PLANTS];
	uint64_t operations, refused, kills, pages_checked, unload_attempts;
	char wrong[256];		/* the first thing that was not as it should be */
};

extern struct shared *shared;

/* ---- stress.c ---- */
void count(uint64_t *figure, uint64_t by);
/* Notes it, for all to stop; does not return. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
unsigned int chance_of(unsigned int n);	/* 0 to n - 1 */
/* A new region, or -errno where that is no failure: no page left, over a limit, the name is there. */
int make_region(int where, const char *name, unsigned int pages, unsigned int classes);
void plant_bytes(char *start, uint64_t base, uint64_t bytes, uint64_t seed);
void check_bytes(const char *start, uint64_t base, uint64_t bytes, uint64_t seed, const char *what);
void check_zero(const char *start, uint64_t bytes);
char *map_all(int fd, uint64_t bytes);

/* ---- roles.c, devices.c ---- */
struct role {
	const char *name;
	void (*once)(unsigned int which);	/* one round of it */
	unsigned int which;
};
extern const struct role roles[];
extern const unsigned int role_count;
void pin_and_export(unsigned int which);
void hold_past_the_end(unsigned int which);
void check_plants(unsigned int keeper, bool remove);

#endif /* HUGEPIN_STRESS_H */
