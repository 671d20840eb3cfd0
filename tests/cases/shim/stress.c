// SPDX-License-Identifier: MIT
/*
 * The shim's own code in many threads, linked and not preloaded, so that a sanitizer sees it: blocks taken, resized and
 * given back in other threads than they came from, and a fork now and then.
 */
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "shim.h"

#define THREADS	6
#define SLOTS	16
#define ROUNDS	600

struct real_malloc real;

void report_reset(void)
{
}

/* fork.c copies what the program's other threads may be writing, as fork() itself does. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:^fill$\n";
}

static _Atomic(char *) slots[SLOTS];

/* Its length stands at its beginning, and once more at its end. */
static char *take(size_t bytes, bool zero)
{
	char *block = host_take(0, bytes, zero);

	if (!block)
		return NULL;
	EXPECT(host_owns(block) && host_bytes(block) == bytes);
	if (zero)
		EXPECT(!block[0] && !block[bytes / 2] && !block[bytes - 1]);
	memcpy(block, &bytes, sizeof(bytes));
	memcpy(block + bytes - sizeof(bytes), &bytes, sizeof(bytes));
	return block;
}

static size_t check(const char *block)
{
	size_t first, last;

	memcpy(&first, block, sizeof(first));
	EXPECT(host_bytes(block) == first);
	memcpy(&last, block + first - sizeof(last), sizeof(last));
	EXPECT(first == last);
	return first;
}

static char *resize(char *block, size_t bytes)
{
	char *now = host_realloc(block, bytes);

	EXPECT(now);
	if (!host_owns(now)) {
		free(now);
		return NULL;
	}
	memcpy(now, &bytes, sizeof(bytes));
	memcpy(now + bytes - sizeof(bytes), &bytes, sizeof(bytes));
	return now;
}

static void *churn(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg, i;
	char *block;

	for (i = 0; i < ROUNDS; i++) {
		size_t bytes = THRESHOLD_MIN + (size_t)rand_r(&seed) % MIB(1);

		block = atomic_exchange(&slots[rand_r(&seed) % SLOTS], take(bytes, i % 5 == 0));
		if (!block)
			continue;
		check(block);
		if (i % 7 == 0)
			block = resize(block, THRESHOLD_MIN + (size_t)rand_r(&seed) % MIB(2));
		if (block)
			host_free(block);
	}
	return NULL;
}

static void fork_once(char *mine)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		/* A sanitizer's runtime may not be fit for more in the child of threads. */
		_exit(check(mine) == MIB(3) && !host_take(0, MIB(1), false) ? 0 : 1);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
}

int main(void)
{
	struct visit visit;
	pthread_t threads[THREADS];
	char *mine, *block;
	size_t i;

	setenv(ENV_THRESHOLD, "65536", 1);
	setenv("HUGEPIN_HOST_LADDER", "hugetlb:2M,base", 1);
	real = (struct real_malloc){ malloc, calloc, realloc, free, memalign, aligned_alloc, posix_memalign,
				     malloc_usable_size };
	fork_watch();
	mine = take(MIB(3), true);
	EXPECT(mine);
	for (i = 0; i < THREADS; i++)
		EXPECT(!pthread_create(&threads[i], NULL, churn, (void *)(i + 1)));
	for (i = 0; i < 10; i++)
		fork_once(mine);
	for (i = 0; i < THREADS; i++)
		EXPECT(!pthread_join(threads[i], NULL));
	for (i = 0; i < SLOTS; i++) {
		block = atomic_load(&slots[i]);
		if (block) {
			check(block);
			host_free(block);
		}
	}
	host_free(mine);
	EXPECT(!atomic_load(&host_pool.active_bytes));
	EXPECT(atomic_load(&host_pool.served) > THREADS * ROUNDS / 2);
	gate_enter(&visit);
	EXPECT(!hugepin_pool_destroy(host_pool.pool));	/* every block has come back */
	EXPECT(!hugepin_context_destroy(host_pool.ctx));
	gate_leave(&visit);
	puts("ok");
	return 0;
}
