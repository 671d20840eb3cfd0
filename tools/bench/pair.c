// SPDX-License-Identifier: MIT
/*
 * pair: every thread has a set of live blocks; one operation frees one of them, chosen at random, and allocates another
 * of a random size in its place. Result: nanoseconds a pair, mean of the threads. worst: the same, timed one by one;
 * result: nanoseconds of the 99.99th percentile, of the slower thread.
 *
 * Each live block keeps a number at its beginning, which is looked at when it goes: with one wrong byte there is no
 * result. (In pair only when blocks are touched: looking at a block costs more than a pair.)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

#define STEPS		65536			/* of the random walk that is drawn beforehand */
#define TOUCH_BYTES	4096
#define THREADS_MAX	64

struct step {
	uint32_t victim;
	uint32_t grains;			/* of size: 16 bytes each */
};

struct walker {					/* no cache line of another's: it counts in each operation */
	_Alignas(128) const struct job *job;
	unsigned int cpu;
	uint64_t **block;
	struct step *step;
	size_t at;
	uint64_t operations;
	uint32_t *nanoseconds;			/* of each operation, for worst */
	double seconds;
	int failed;
};

static struct walker walkers[THREADS_MAX];
static pthread_barrier_t start, end;

static uint64_t mark_of(const struct walker *w, size_t victim)
{
	return ((uint64_t)w->cpu << 32 | victim) * 0x9e3779b97f4a7c15ull + 1;
}

static void touch(char *block, uint64_t bytes)
{
	uint64_t at;

	for (at = 0; at < bytes; at += TOUCH_BYTES)
		((volatile char *)block)[at] = 1;
}

/* Frees one block and allocates another in its place. */
static int exchange(struct walker *w, const struct step *step, bool touching)
{
	const struct allocator *allocator = w->job->allocator;
	uint64_t *old = w->block[step->victim], *block;
	uint64_t bytes = (uint64_t)step->grains * 16;

	if (old) {
		if (touching && *old != mark_of(w, step->victim))
			return bench_complain("a block was written to by somebody else");
		allocator->free(old);
	}
	block = allocator->alloc(bytes);
	if (!block)
		return bench_complain("no block of %llu bytes", (unsigned long long)bytes);
	if (touching) {
		touch((char *)block, bytes);
		*block = mark_of(w, step->victim);
	}
	w->block[step->victim] = block;
	return 0;
}

static int walk(struct walker *w, uint64_t operations, bool touching)
{
	uint64_t i;

	for (i = 0; i < operations; i++) {
		if (exchange(w, &w->step[w->at], touching))
			return -1;
		w->at = (w->at + 1) % STEPS;
	}
	return 0;
}

static int walk_timed(struct walker *w, uint64_t operations, bool touching)
{
	double before = bench_now(), after;
	uint64_t i;

	for (i = 0; i < operations; i++) {
		if (exchange(w, &w->step[w->at], touching))
			return -1;
		w->at = (w->at + 1) % STEPS;
		after = bench_now();
		w->nanoseconds[i] = (uint32_t)((after - before) * 1e9);
		before = after;
	}
	return 0;
}

static void work(struct walker *w)
{
	double from;

	pthread_barrier_wait(&start);
	from = bench_now();
	w->failed |= w->nanoseconds ? walk_timed(w, w->operations, w->job->touch) :
				      walk(w, w->operations, w->job->touch);
	w->seconds = bench_now() - from;
	pthread_barrier_wait(&end);
}

static void *work_on(void *arg)
{
	struct walker *w = arg;

	bench_pin(w->cpu);
	for (;;)
		work(w);
	return NULL;
}

/* All threads at once; those beside the first live as long as the process. */
static int walk_together(const struct job *job, uint64_t operations)
{
	int failed = 0;
	uint64_t i;

	for (i = 0; i < job->threads; i++)
		walkers[i].operations = operations;
	work(&walkers[0]);
	for (i = 0; i < job->threads; i++)
		failed |= walkers[i].failed;
	return failed;
}

static int open_walker(const struct job *job, unsigned int cpu)
{
	uint64_t state = 0x2545f4914f6cdd1dull * (cpu + 1);
	struct walker *w = &walkers[cpu];
	size_t i;

	*w = (struct walker){ .job = job, .cpu = cpu };
	w->block = calloc(job->live, sizeof(*w->block));
	w->step = calloc(STEPS, sizeof(*w->step));
	if (!w->block || !w->step)
		return bench_complain("no memory");
	for (i = 0; i < STEPS; i++)
		w->step[i] = (struct step){ i < job->live ? (uint32_t)i : (uint32_t)(bench_random(&state) % job->live),
					    (uint32_t)(bench_size(job, &state) / 16) };
	return 0;
}

static void free_all(const struct job *job)
{
	uint64_t i, k;

	for (i = 0; i < job->threads; i++) {
		for (k = 0; k < job->live; k++) {
			if (walkers[i].block[k])
				job->allocator->free(walkers[i].block[k]);
			walkers[i].block[k] = NULL;
		}
	}
}

/*
 * Walks that write are slow, and few; so that heaps have grown to what they will need, and know it, others come before
 * them.
 */
static int grow(const struct job *job)
{
	struct job untouched = *job;
	int failed;
	uint64_t i;

	untouched.touch = false;
	for (i = 0; i < job->threads; i++)
		walkers[i].job = &untouched;
	failed = walk_together(&untouched, job->grow);
	free_all(job);
	for (i = 0; i < job->threads; i++)
		walkers[i].job = job;
	return failed;
}

static int pair_open(const struct job *job)
{
	unsigned int i;
	pthread_t thread;

	if (job->threads > THREADS_MAX || job->live > STEPS)
		return bench_complain("at most %d threads and %d live blocks", THREADS_MAX, STEPS);
	pthread_barrier_init(&start, NULL, (unsigned int)job->threads);
	pthread_barrier_init(&end, NULL, (unsigned int)job->threads);
	for (i = 0; i < job->threads; i++) {
		if (open_walker(job, i) || (i && pthread_create(&thread, NULL, work_on, &walkers[i])))
			return bench_complain("no memory or no thread");
	}
	if (job->touch && job->grow && grow(job))
		return -1;
	return walk_together(job, job->warm_up > job->live ? job->warm_up : job->live);
}

static int pair_repeat(const struct job *job)
{
	double seconds = 0;
	uint64_t i;

	if (walk_together(job, job->operations))
		return -1;
	for (i = 0; i < job->threads; i++)
		seconds += walkers[i].seconds;
	printf("%.3f\n", seconds / (double)job->threads / (double)job->operations * 1e9);
	return 0;
}

static int pair_close(const struct job *job)
{
	free_all(job);
	return 0;
}

const struct bench bench_pair = { "pair", pair_open, pair_repeat, pair_close };

static int worst_open(const struct job *job)
{
	uint64_t i;

	if (pair_open(job))
		return -1;
	for (i = 0; i < job->threads; i++) {
		walkers[i].nanoseconds = calloc(job->operations, sizeof(uint32_t));
		if (!walkers[i].nanoseconds)
			return bench_complain("no memory");
	}
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int worst_repeat(const struct job *job)
{
	uint32_t worst = 0, percentile;
	uint64_t i;

	if (walk_together(job, job->operations))
		return -1;
	for (i = 0; i < job->threads; i++) {
		qsort(walkers[i].nanoseconds, job->operations, sizeof(uint32_t), by_value);
		percentile = walkers[i].nanoseconds[job->operations - 1 - job->operations / 10000];
		worst = percentile > worst ? percentile : worst;
	}
	printf("%u\n", worst);
	return 0;
}

const struct bench bench_worst = { "worst", worst_open, worst_repeat, pair_close };
