// SPDX-License-Identifier: MIT
/* A process of the fuzzer: its descriptors and areas, how it touches memory, and its life. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

uint64_t add(uint64_t *figure, uint64_t n)
{
	return __atomic_add_fetch(figure, n, __ATOMIC_RELAXED);
}

/* ---- descriptors ---- */

/* A place for it is found by chance: what was there goes. */
int keep_fd(struct world *w, int fd, enum kind kind)
{
	struct slot *slot = &w->slots[below(w, SLOTS)];

	if (fd < 0)
		return -errno;
	if (slot->kind != NONE)
		close(slot->fd);
	*slot = (struct slot){ fd, kind };
	return fd;
}

static struct slot *some_slot(struct world *w, enum kind kind)
{
	unsigned int first = below(w, SLOTS), i;

	for (i = 0; i < SLOTS; i++) {
		struct slot *slot = &w->slots[(first + i) % SLOTS];

		if (slot->kind != NONE && (kind == NONE || slot->kind == kind))
			return slot;
	}
	return NULL;
}

int some_fd(struct world *w, enum kind kind)
{
	struct slot *slot = some_slot(w, chance(w, 3) ? NONE : kind);

	return slot ? slot->fd : -1;
}

int close_one(struct world *w)
{
	struct slot *slot = some_slot(w, NONE);

	if (!slot)
		return -EBADF;
	slot->kind = NONE;
	return close(slot->fd) ? -errno : 0;
}

/* ---- areas ---- */

void keep_area(struct world *w, char *start, uint64_t bytes)
{
	w->areas[below(w, AREAS)] = (struct area){ start, bytes };	/* what was there stays mapped until it dies */
}

struct area *some_area(struct world *w)
{
	unsigned int first = below(w, AREAS), i;

	for (i = 0; i < AREAS; i++)
		if (w->areas[(first + i) % AREAS].bytes)
			return &w->areas[(first + i) % AREAS];
	return NULL;
}

/* Mostly where 2M entries are possible, sometimes where 1G ones are. */
char *some_address(struct world *w)
{
	uint64_t unit = chance(w, 90) ? PAGE_2M : chance(w, 50) ? PAGE_1G : PAGE_4K;
	uint64_t near = unit == PAGE_1G ? WINDOW_BYTES / PAGE_1G : 64;

	return (char *)(WINDOW + below(w, near) * unit);	/* NOLINT: a number of ours */
}

bool in_window(const char *start)
{
	return (uintptr_t)start >= WINDOW && (uintptr_t)start < WINDOW + WINDOW_BYTES;
}

uint64_t within(const struct area *area, uint64_t bytes)
{
	return in_window(area->start) || bytes < area->bytes ? bytes : area->bytes;
}

/* ---- touching ---- */

static sigjmp_buf touched;
static volatile sig_atomic_t touching;

static void caught(int signal)
{
	if (touching)
		siglongjmp(touched, signal);
	_exit(128 + signal);
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = caught, .sa_flags = SA_NODEFER };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Apart from sigsetjmp(), so that nothing is in a register that it would bring back. */
static void __attribute__((noinline)) walk(volatile char *start, uint64_t bytes, uint64_t step, bool write)
{
	uint64_t at;

	for (at = 0; at < bytes; at += step) {
		if (write)
			start[at] = PATTERN;
		else
			(void)start[at];
	}
}

long touch(char *start, uint64_t bytes, uint64_t step, bool write)
{
	touching = 1;
	if (sigsetjmp(touched, 1)) {
		touching = 0;
		return -EFAULT;
	}
	walk(start, bytes, step, write);
	touching = 0;
	return 0;
}

static bool __attribute__((noinline)) all_zero(const char *start, uint64_t bytes)
{
	const volatile uint64_t *words = (const void *)start;
	uint64_t at, found = 0;

	for (at = 0; at < bytes / sizeof(*words); at += 64)
		found |= words[at];
	return !found;
}

/* A word of each 512 bytes finds a page, or a part of one. */
void look_for_foreign(struct world *w, const char *start, uint64_t bytes)
{
	volatile bool zero = true;

	touching = 1;
	if (!sigsetjmp(touched, 1))
		zero = all_zero(start, bytes);
	touching = 0;
	add(&w->shared->bytes_looked_at, bytes);
	if (!zero)
		add(&w->shared->foreign, 1);
}

/* ---- a life ---- */

static void remember(struct world *w, unsigned int number, long result)
{
	struct trace *trace = &w->shared->trace[w->worker];
	uint64_t at = add(&trace->next, 1) % COUNT(trace->last);

	trace->last[at].life = w->life;
	trace->last[at].index = w->index;
	trace->last[at].op = number;
	trace->last[at].depth = w->depth;
	trace->last[at].result = result;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

void live(struct world *w, unsigned int calls)
{
	uint64_t start = 0;
	unsigned int number;
	long result;

	catch_signals();
	for (; calls && !w->shared->stop; calls--, w->index++) {
		const struct op *op;

		w->random = random_mix(w->seed, w->index);
		op = some_op(w, &number);
		remember(w, number, -1000);	/* under way */
		if (w->times)
			start = cpu_ns();
		result = op->perform(w);
		if (w->times)
			add(&w->shared->op[number].ns, cpu_ns() - start);
		add(&w->shared->op[number].calls, 1);
		if (result >= 0)
			add(&w->shared->op[number].successes, 1);
		remember(w, number, result);
		if (w->verbose)
			fprintf(stderr, "%d %u.%u/%u %s: %s\n", getpid(), w->life, w->depth, w->index, op->name,
				result < 0 ? strerror(-result) : "ok");
	}
}
