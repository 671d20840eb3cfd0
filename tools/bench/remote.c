// SPDX-License-Identifier: MIT
/*
 * remote: one thread allocates, another frees; the blocks go through a ring of @live between them. Result: nanoseconds
 * a block, from the first to the last.
 *
 * They tell each other how far they are once in BATCH blocks, as queues between threads do: a cache line that goes to
 * and fro for each block costs more than the block.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker.h"

#define SIZES		65536
#define BATCH		8

static void **ring;
static uint32_t *sizes;
static const struct job *the_job;
static uint64_t blocks;				/* to be passed on until both meet again */
static pthread_barrier_t start;
static _Alignas(64) uint64_t put;		/* by the allocating thread */
static _Alignas(64) uint64_t got;		/* by the freeing one */

static void wait_for(const uint64_t *count, uint64_t least)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least)
		__builtin_ia32_pause();
}

static uint64_t end_of_batch(uint64_t i, uint64_t end)
{
	return end - i < BATCH ? end : i + BATCH;
}

static void *consume(void *arg)
{
	uint64_t i, end, batch;

	(void)arg;
	bench_pin(1);
	for (;;) {
		pthread_barrier_wait(&start);
		for (i = got, end = i + blocks; i < end;) {
			batch = end_of_batch(i, end);
			wait_for(&put, batch);
			for (; i < batch; i++)
				the_job->allocator->free(ring[i % the_job->live]);
			__atomic_store_n(&got, i, __ATOMIC_RELEASE);
		}
		pthread_barrier_wait(&start);
	}
	return NULL;
}

static void produce_batch(const struct job *job, uint64_t i, uint64_t end)
{
	void *block;

	for (; i < end; i++) {
		block = job->allocator->alloc((size_t)sizes[i % SIZES] * 16);
		if (!block) {
			bench_complain("no block");
			exit(1);
		}
		*(volatile uint64_t *)block = i;
		ring[i % job->live] = block;
	}
}

static void produce(const struct job *job, uint64_t operations)
{
	uint64_t i, end, batch;

	blocks = operations;
	pthread_barrier_wait(&start);
	for (i = put, end = i + operations; i < end; i = batch) {
		batch = end_of_batch(i, end);
		if (batch > job->live)
			wait_for(&got, batch - job->live);
		produce_batch(job, i, batch);
		__atomic_store_n(&put, batch, __ATOMIC_RELEASE);
	}
	pthread_barrier_wait(&start);
}

static int remote_open(const struct job *job)
{
	uint64_t state = 0x2545f4914f6cdd1dull;
	pthread_t thread;
	size_t i;

	if (job->live < BATCH)
		return bench_complain("at least %d live blocks", BATCH);
	the_job = job;
	sizes = calloc(SIZES, sizeof(*sizes));
	ring = calloc(job->live, sizeof(*ring));
	if (!sizes || !ring)
		return bench_complain("no memory");
	for (i = 0; i < SIZES; i++)
		sizes[i] = (uint32_t)(bench_size(job, &state) / 16);
	pthread_barrier_init(&start, NULL, 2);
	if (pthread_create(&thread, NULL, consume, NULL))
		return bench_complain("no thread");
	produce(job, job->warm_up > job->live ? job->warm_up : job->live);
	return 0;
}

static int remote_repeat(const struct job *job)
{
	double from = bench_now();

	produce(job, job->operations);
	printf("%.3f\n", (bench_now() - from) / (double)job->operations * 1e9);
	return 0;
}

static int remote_close(const struct job *job)
{
	(void)job;
	return put == got ? 0 : bench_complain("blocks were lost");
}

const struct bench bench_remote = { "remote", remote_open, remote_repeat, remote_close };
