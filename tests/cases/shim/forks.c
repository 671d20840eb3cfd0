// SPDX-License-Identifier: MIT
/*
 * fork(), as loader workers use it: what the child does to memory it inherits is the child's alone, and what the
 * parent does afterwards the parent's; whatever is freed where. Also while other threads allocate, through several
 * generations.
 *
 *	forks		as above
 *	forks lack	there is no memory for a copy: the child can still exec
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define MIB	((size_t)1 << 20)

static void expect_success(pid_t pid)
{
	int status = -1;

	EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void each_has_its_own(void)
{
	char *block = malloc(10 * MIB), *more;
	int to_child[2], to_parent[2];
	char token = 0;
	pid_t pid;

	memset(block, 1, 10 * MIB);
	EXPECT(!pipe(to_child) && !pipe(to_parent));
	pid = fork();
	if (!pid) {
		close(to_child[1]);	/* so that it ends with a parent that fails */
		EXPECT(block[0] == 1 && block[10 * MIB - 1] == 1);
		memset(block, 2, 5 * MIB);
		EXPECT(write(to_parent[1], &token, 1) == 1 && read(to_child[0], &token, 1) == 1);
		EXPECT(block[0] == 2 && block[10 * MIB - 1] == 1);
		block = realloc(block, 20 * MIB);
		EXPECT(block && block[5 * MIB - 1] == 2 && block[5 * MIB] == 1);
		free(block);
		more = malloc(5 * MIB);
		memset(more, 4, 5 * MIB);
		free(more);
		exit(0);
	}
	EXPECT(read(to_parent[0], &token, 1) == 1);
	EXPECT(block[0] == 1);
	memset(block, 3, 10 * MIB);
	EXPECT(write(to_child[1], &token, 1) == 1);
	expect_success(pid);
	EXPECT(block[0] == 3 && block[10 * MIB - 1] == 3);
	free(block);
}

static void a_grandchild_inherits_from_the_child(void)
{
	char *block = malloc(3 * MIB);
	pid_t pid;

	memset(block, 1, 3 * MIB);
	pid = fork();
	if (!pid) {
		block[0] = 2;
		pid = fork();
		if (!pid) {
			EXPECT(block[0] == 2 && block[1] == 1);
			block[0] = 3;
			free(block);
			exit(0);
		}
		expect_success(pid);
		EXPECT(block[0] == 2);
		exit(0);
	}
	expect_success(pid);
	EXPECT(block[0] == 1);
	free(block);
}

static atomic_bool stop;

static void *churn(void *arg)
{
	unsigned int seed = (unsigned int)(size_t)arg;

	while (!atomic_load(&stop)) {
		size_t bytes = MIB + (size_t)rand_r(&seed) % (2 * MIB);
		char *block = malloc(bytes);

		EXPECT(block);
		block[0] = block[bytes - 1] = 1;
		free(block);
	}
	return NULL;
}

static void forks_while_threads_allocate(void)
{
	char *block = malloc(4 * MIB);
	pthread_t threads[4];
	size_t i;
	pid_t pid;

	memset(block, 7, 4 * MIB);
	for (i = 0; i < 4; i++)
		EXPECT(!pthread_create(&threads[i], NULL, churn, (void *)(i + 1)));
	for (i = 0; i < 50; i++) {
		pid = fork();
		if (!pid) {
			EXPECT(block[0] == 7 && block[4 * MIB - 1] == 7);
			memset(block, 8, 4 * MIB);
			free(block);
			free(malloc(2 * MIB));
			_exit(0);
		}
		expect_success(pid);
		EXPECT(block[0] == 7);
	}
	atomic_store(&stop, true);
	for (i = 0; i < 4; i++)
		EXPECT(!pthread_join(threads[i], NULL));
	free(block);
}

static void without_memory_for_a_copy(char *self)
{
	char *block = malloc(64 * MIB);
	struct rlimit limit;
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	pid_t pid;
	int status;

	memset(block, 1, 64 * MIB);
	EXPECT(file && fscanf(file, "%ld", &pages) == 1);
	fclose(file);
	limit.rlim_cur = limit.rlim_max = (rlim_t)pages * 4096 + 16 * MIB;
	EXPECT(!setrlimit(RLIMIT_AS, &limit));
	pid = fork();
	if (!pid) {
		execl(self, self, "small", NULL);
		_exit(1);
	}
	expect_success(pid);
	pid = fork();
	if (!pid)
		_exit(block[0]);
	EXPECT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	EXPECT(block[0] == 1);
	free(block);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "small"))
		return 0;
	if (argc > 1) {
		without_memory_for_a_copy(argv[0]);
	} else {
		each_has_its_own();
		a_grandchild_inherits_from_the_child();
		forks_while_threads_allocate();
	}
	puts("ok");
	return 0;
}
