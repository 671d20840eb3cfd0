// SPDX-License-Identifier: MIT
/*
 * client - a program that uses the library for hours: for each line it reads it does one turn of work (blocks of all
 * sizes from three pools, named variables left and found again), gives everything back but its context, and answers
 * with a line: its own memory. At the end: whether that and the kernel's grew.
 */
#include <hugepin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/stress/memory.h"

#define TURNS_MAX	4096
#define BLOCKS		256
#define STEPS		4000
#define VARIABLES	2
#define VARIABLE_BYTES	(4u << 20)

static unsigned int seed = 1;
static unsigned long long blocks_checked, variables_found;

static void die(const char *what)
{
	fprintf(stderr, "client: %s: %s\n", what, hugepin_error());
	exit(1);
}

/* ---- blocks ---- */

struct block {
	unsigned char *start;
	size_t bytes;
	unsigned char mark;
};

static void fill(struct block *block)
{
	block->mark = 1 + rand_r(&seed) % 255;
	block->start[0] = block->start[block->bytes / 2] = block->start[block->bytes - 1] = block->mark;
}

static void check(const struct block *block)
{
	if (block->start[0] != block->mark || block->start[block->bytes / 2] != block->mark ||
	    block->start[block->bytes - 1] != block->mark) {
		fprintf(stderr, "client: a block of %zu bytes has others' bytes\n", block->bytes);
		exit(1);
	}
	blocks_checked++;
}

/* Small ones mostly; in all less than the reserve has. */
static size_t some_bytes(void)
{
	unsigned int kind = rand_r(&seed) % 100;

	return 1 + rand_r(&seed) % (kind < 70 ? 4096 : kind < 98 ? 65536 : 1 << 20);
}

static void use_pool(struct hugepin_context *ctx, enum hugepin_pool_kind kind)
{
	static struct block blocks[BLOCKS];
	struct hugepin_pool *pool;
	unsigned int step, i;

	memset(blocks, 0, sizeof(blocks));
	if (hugepin_pool_create(ctx, kind, &pool))
		die("a pool");
	for (step = 0; step < STEPS; step++) {
		struct block *block = &blocks[rand_r(&seed) % BLOCKS];

		if (block->start) {
			check(block);
			if (hugepin_free(pool, block->start))
				die("freeing");
			block->start = NULL;
			continue;
		}
		block->bytes = some_bytes();
		block->start = hugepin_alloc(pool, block->bytes, step % 8 ? 0 : HUGEPIN_ALLOC_ZERO);
		if (!block->start)
			die("a block");
		fill(block);
	}
	for (i = 0; i < BLOCKS; i++) {
		if (!blocks[i].start)
			continue;
		check(&blocks[i]);
		if (hugepin_free(pool, blocks[i].start))
			die("freeing");
	}
	if (hugepin_pool_destroy(pool))
		die("giving a pool back");
}

/* ---- variables: left by a pool that is gone, found by the next one ---- */

static void visit_variables(struct hugepin_context *ctx, int expected, uint64_t mark)
{
	struct hugepin_variable *variable;
	struct hugepin_pool *pool;
	unsigned int i;
	uint64_t *words;
	char name[32];
	int found;

	if (hugepin_pool_create(ctx, HUGEPIN_POOL_VARIABLE, &pool))
		die("a pool of variables");
	for (i = 0; i < VARIABLES; i++) {
		snprintf(name, sizeof(name), "soak%u", i);
		if (hugepin_variable_open(pool, name, VARIABLE_BYTES, &found, &variable))
			die(name);
		words = hugepin_variable_address(variable);
		if (found != expected || words[0] != (expected ? mark + i : 0)) {
			fprintf(stderr, "client: %s: found %d, %#llx\n", name, found, (unsigned long long)words[0]);
			exit(1);
		}
		words[0] = mark + i;
		variables_found += found;
		hugepin_variable_close(variable);
		if (expected && hugepin_region_unlink(ctx, name))
			die("unlinking");
	}
	if (hugepin_pool_destroy(pool))
		die("giving the variables' pool back");
}

static void turn(struct hugepin_context *ctx, uint64_t mark)
{
	use_pool(ctx, HUGEPIN_POOL_PINNED);
	use_pool(ctx, HUGEPIN_POOL_HOST);
	use_pool(ctx, HUGEPIN_POOL_VARIABLE);
	visit_variables(ctx, 0, mark);
	visit_variables(ctx, 1, mark);
}

/* ---- memory ---- */

static double own_kb(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	double kb = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %lf", &kb) == 1)
			break;
	if (file)
		fclose(file);
	return kb;
}

int main(void)
{
	static struct memory_samples samples;
	static double own[TURNS_MAX];
	struct hugepin_context *ctx;
	unsigned int turns = 0;
	char line[64];

	if (hugepin_context_create(NULL, &ctx))
		die("a context");
	while (turns < TURNS_MAX && fgets(line, sizeof(line), stdin) && strcmp(line, "end\n")) {
		turn(ctx, 1000 + turns);
		own[turns++] = own_kb();
		memory_sample(&samples);
		printf("turn %u: %.0f kB\n", turns, own[turns - 1]);
		fflush(stdout);
	}
	if (hugepin_context_destroy(ctx))
		die("giving the context back");
	if (turns < 4) {
		fprintf(stderr, "client: %u turns are too few\n", turns);
		return 1;
	}
	printf("library: %u turns, %llu blocks checked, %llu variables found again; "
	       "own memory %.0f kB first, %.0f half-way, %.0f last\n", turns, blocks_checked, variables_found, own[0], own[turns / 2], own[turns - 1]);
	memory_report(&samples);
	/* allocators may keep a little more now and then; a leak of a record a turn would be more over hours */
	return own[turns - 1] > own[turns / 2] + 256;
}
