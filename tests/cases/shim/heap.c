// SPDX-License-Identifier: MIT
/*
 * The whole malloc family, with sizes on both sides of a threshold of 1 MiB: contents, alignments, zeroes and errors are as
 * the C library's, whoever serves. `heap threads` does it in many threads at once, with frees in others.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

#define KIB	((size_t)1 << 10)
#define MIB	((size_t)1 << 20)

static bool is_filled(const char *block, size_t bytes, char mark)
{
	return !bytes || (*block == mark && !memcmp(block, block + 1, bytes - 1));
}

static void blocks_hold_what_is_written(void)
{
	static const size_t sizes[] = { 1, 4096, MIB - 1, MIB, MIB + 1, 3 * MIB + 5, 32 * MIB };
	char *blocks[7];
	size_t i;

	for (i = 0; i < 7; i++) {
		blocks[i] = malloc(sizes[i]);
		EXPECT(blocks[i] && malloc_usable_size(blocks[i]) >= sizes[i]);
		EXPECT(!((uintptr_t)blocks[i] % 16));
		memset(blocks[i], (char)i + 1, sizes[i]);
	}
	for (i = 0; i < 7; i++) {
		EXPECT(is_filled(blocks[i], sizes[i], (char)i + 1));
		free(blocks[i]);
	}
}

static void calloc_gives_zeroes(void)
{
	char *dirty = malloc(4 * MIB), *clean;

	memset(dirty, 0xff, 4 * MIB);
	free(dirty);
	clean = calloc(4, MIB);
	EXPECT(clean && is_filled(clean, 4 * MIB, 0));
	free(clean);
	clean = calloc(3, 1000);
	EXPECT(clean && is_filled(clean, 3000, 0));
	free(clean);
}

static void realloc_keeps_contents_across_the_threshold(void)
{
	static const size_t sizes[] = { 100, 2 * MIB, 3 * MIB, 30 * MIB, 4 * MIB, 900 * KIB, 10, 5 * MIB };
	char *block = NULL;
	size_t i, kept;

	for (i = 0; i < 8; i++) {
		block = realloc(block, sizes[i]);
		EXPECT(block);
		kept = i && sizes[i] > sizes[i - 1] ? sizes[i - 1] : sizes[i];
		EXPECT(!i || is_filled(block, kept, (char)i));
		memset(block, (char)i + 1, sizes[i]);
	}
	EXPECT(!realloc(block, 0));
}

static void alignments_are_kept(void)
{
	static const size_t aligns[] = { 16, 64, 4096, 64 * KIB, 2 * MIB };
	size_t i;
	void *a, *b, *c;

	for (i = 0; i < 5; i++) {
		a = memalign(aligns[i], 2 * MIB);
		b = aligned_alloc(aligns[i], 2 * MIB);
		EXPECT(!posix_memalign(&c, aligns[i], 2 * MIB));
		EXPECT(a && b && c);
		EXPECT(!(((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % aligns[i]));
		memset(a, 1, 2 * MIB);
		memset(b, 2, 2 * MIB);
		memset(c, 3, 2 * MIB);
		EXPECT(is_filled(a, 2 * MIB, 1) && is_filled(b, 2 * MIB, 2));
		free(a);
		free(b);
		free(c);
	}
	a = valloc(MIB);
	b = pvalloc(MIB + 1);
	EXPECT(a && b && !(((uintptr_t)a | (uintptr_t)b) % 4096) && malloc_usable_size(b) >= MIB + 4096);
	free(a);
	free(b);
}

static void what_cannot_be_is_refused(void)
{
	volatile size_t huge = SIZE_MAX / 2;	/* not for the compiler to know */
	void *block = &block, *kept = malloc(2 * MIB);

	errno = 0;
	EXPECT(!malloc(huge) && errno == ENOMEM);
	errno = 0;
	EXPECT(!calloc(huge, 3) && errno == ENOMEM);
	errno = 0;
	EXPECT(!reallocarray(kept, huge, 3) && errno == ENOMEM);
	memset(kept, 9, 2 * MIB);
	errno = 0;
	EXPECT(!realloc(kept, huge) && errno == ENOMEM && is_filled(kept, 2 * MIB, 9));
	EXPECT(posix_memalign(&block, 24, 2 * MIB) == EINVAL && block == &block);
	EXPECT(posix_memalign(&block, 4, 2 * MIB) == EINVAL && block == &block);
	errno = 0;
	EXPECT(!pvalloc(SIZE_MAX) && errno == ENOMEM);
	errno = 77;
	free(kept);
	EXPECT(errno == 77);
	free(NULL);
}

/* ---- threads ---- */

#define THREADS	8
#define ROUNDS	200

struct exchange {
	pthread_mutex_t lock;
	char *block;
	size_t bytes;
};
static struct exchange exchange = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Puts a block down and takes the one that another thread left, so that most frees are another's. */
static void swap(char **block, size_t *bytes)
{
	struct exchange mine = { .block = *block, .bytes = *bytes };

	pthread_mutex_lock(&exchange.lock);
	*block = exchange.block;
	*bytes = exchange.bytes;
	exchange.block = mine.block;
	exchange.bytes = mine.bytes;
	pthread_mutex_unlock(&exchange.lock);
}

static void *churn(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	size_t i, bytes, more;
	char *block;

	for (i = 0; i < ROUNDS; i++) {
		bytes = (size_t)rand_r(&seed) % (3 * MIB) + 1;
		block = i % 3 ? malloc(bytes) : calloc(1, bytes);
		EXPECT(block && (i % 3 || is_filled(block, bytes, 0)));
		memset(block, (char)bytes, bytes);
		swap(&block, &bytes);
		EXPECT(!block || is_filled(block, bytes, (char)bytes));
		if (block && i % 4 == 0) {
			more = bytes + (size_t)rand_r(&seed) % MIB;
			block = realloc(block, more);
			EXPECT(block && is_filled(block, bytes, (char)bytes));
		}
		free(block);
	}
	return NULL;
}

static void threads_share_the_heap(void)
{
	pthread_t threads[THREADS];
	size_t i;

	for (i = 0; i < THREADS; i++)
		EXPECT(!pthread_create(&threads[i], NULL, churn, (void *)(i + 1)));
	for (i = 0; i < THREADS; i++)
		EXPECT(!pthread_join(threads[i], NULL));
	free(exchange.block);
}

/* ---- a thread that is cancelled while it allocates leaves no lock behind ---- */

static void *allocate_for_ever(void *arg)
{
	(void)arg;
	for (;;) {
		free(malloc(2 * MIB));
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled_threads_leave_no_lock(void)
{
	pthread_t thread;
	size_t i;

	for (i = 0; i < 50; i++) {
		EXPECT(!pthread_create(&thread, NULL, allocate_for_ever, NULL));
		EXPECT(!pthread_cancel(thread));
		EXPECT(!pthread_join(thread, NULL));
		free(malloc(2 * MIB));
	}
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		threads_share_the_heap();
		cancelled_threads_leave_no_lock();
	} else {
		blocks_hold_what_is_written();
		calloc_gives_zeroes();
		realloc_keeps_contents_across_the_threshold();
		alignments_are_kept();
		what_cannot_be_is_refused();
	}
	puts("ok");
	return 0;
}
