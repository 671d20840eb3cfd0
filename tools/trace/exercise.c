// SPDX-License-Identifier: MIT
/*
 * A program for tools/trace/check to record: it calls each of the malloc family a known number of times with known
 * sizes, from several threads, and does what a recorder can trip over. "exercise HOW" ends in that way: return, _exit,
 * kill, exec, fork, closefrom.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 2000

static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "exercise: %s\n", what);
	abort();
}

/* Through pointers: compilers and checkers know these functions and have opinions on what is tried here. */
static void *(*volatile do_realloc)(void *, size_t) = realloc;
static void *(*volatile do_reallocarray)(void *, size_t, size_t) = reallocarray;

/* 11 blocks of at least 4096 bytes, of which 2 by a realloc of one that was; 2 smaller */
static void family(void)
{
	const size_t too_much = (size_t)1 << 62;
	void *p;

	free(malloc(5000));
	free(calloc(10, 500));
	free(malloc(100));
	must(!posix_memalign(&p, 4096, 8000), "posix_memalign");
	free(p);
	free(memalign(128, 6000));
	free(aligned_alloc(64, 6400));
	free(valloc(4096));
	free(pvalloc(5000));

	p = do_realloc(NULL, 10000);
	p = do_realloc(p, 1000000);
	must(p != NULL, "realloc");
	memset(p, 7, 1000000);
	must(!do_realloc(p, too_much) && errno == ENOMEM, "a realloc that cannot be");
	must(((char *)p)[999999] == 7, "the block after a failed realloc");
	p = do_reallocarray(p, 20, 1000);
	p = do_realloc(p, 200);		/* now too small to be recorded */
	p = do_realloc(p, 9000);	/* and again large enough: an allocation */
	must(!do_reallocarray(NULL, too_much, 16) && errno == ENOMEM, "a reallocarray that wraps");
	errno = 4711;
	free(p);
	must(errno == 4711, "free keeps errno");
}

/* Blocks that one thread allocates and the next one frees. */
static void *_Atomic handed_over[THREADS];

static void *worker(void *argument)
{
	size_t self = (size_t)argument;

	for (int i = 0; i < ROUNDS; i++) {
		void *mine = malloc(4096 + 64 * (size_t)(i % 100));

		must(mine != NULL, "malloc");
		free(__atomic_exchange_n((void **)&handed_over[(self + 1) % THREADS], mine, __ATOMIC_ACQ_REL));
	}
	return NULL;
}

static void in_child(int by_underscore)
{
	pid_t pid = by_underscore ? _Fork() : fork();

	must(pid >= 0, "fork");
	if (!pid) {
		for (int i = 0; i < ROUNDS; i++)
			free(malloc(8192));
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "return";
	pthread_t threads[THREADS];

	family();
	if (!strcmp(how, "aligned"))	/* more than a trace can tell of; address space only */
		free(memalign((size_t)1 << 32, 6000));
	for (size_t i = 0; i < THREADS; i++)
		must(!pthread_create(&threads[i], NULL, worker, (void *)i), "pthread_create");
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < THREADS; i++)
		free(handed_over[i]);

	if (!strcmp(how, "_exit"))
		_exit(7);
	if (!strcmp(how, "kill"))
		raise(SIGKILL);
	if (!strcmp(how, "exec"))
		execl(argv[0], argv[0], "return", (char *)NULL);
	if (!strcmp(how, "fork")) {
		in_child(0);
		in_child(1);
	}
	if (!strcmp(how, "closefrom")) {
		closefrom(3);
		for (int i = 0; i < 20 * ROUNDS; i++)	/* more than the recorder has room for in its first step */
			free(malloc(4096));
	}
	return 0;
}
