// SPDX-License-Identifier: MIT
/*
 * stress [SECONDS [SEED]] - everything the module does, all at once, as root in a virtual machine: one process for each
 * role, one of them killed every few hundredths of a second. Each ten seconds all of them end, and then every planted
 * pattern must be whole, nothing in use but what has a name, and at the very end all pages be there. The kernel's own
 * memory is sampled at these pauses.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kmod/uapi/hugepin.h"
#include "memory.h"
#include "stress.h"

#define ROUND_S		10
#define KILL_MS		40		/* between kills, on average */
#define SETTLE_S	20
#define MAX_ROLES	32

struct shared *shared;

static unsigned int seed;		/* of this process */

/* ---- what roles use ---- */

void count(uint64_t *figure, uint64_t by)
{
	__atomic_add_fetch(figure, by, __ATOMIC_RELAXED);
}

void fail(const char *format, ...)
{
	va_list args;
	char text[sizeof(shared->wrong)];

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!__atomic_exchange_n(&shared->stop, 1, __ATOMIC_SEQ_CST))
		memcpy(shared->wrong, text, sizeof(text));
	_exit(1);
}

unsigned int chance_of(unsigned int n)
{
	return rand_r(&seed) % n;
}

int make_region(int where, const char *name, unsigned int pages, unsigned int classes)
{
	struct hugepin_create args = {
		.size = sizeof(args), .bytes = pages * PAGE_2M, .classes = classes, .policy = chance_of(3),
		.flags = HUGEPIN_CREATE_FALLBACK, .name = (uintptr_t)name,
	};

	if (!ioctl(where, HUGEPIN_IOC_CREATE, &args))
		return args.fd;
	if (errno != ENOMEM && errno != EDQUOT)
		fail("CREATE: %s", strerror(errno));
	count(&shared->refused, 1);
	return -errno;
}

char *map_all(int fd, uint64_t bytes)
{
	char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (start == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return start;
}

/* Two words of each base page, so that a page at a wrong place is seen as well as a foreign one. */
static uint64_t word_at(uint64_t offset, uint64_t planted)
{
	return (offset + 1) * 0x9e3779b97f4a7c15ULL ^ planted;
}

void plant_bytes(char *start, uint64_t base, uint64_t bytes, uint64_t planted)
{
	uint64_t at;

	for (at = 0; at < bytes; at += PAGE_4K) {
		*(uint64_t *)(start + at) = word_at(base + at, planted);
		*(uint64_t *)(start + at + PAGE_4K - 8) = word_at(base + at + PAGE_4K - 8, planted);
	}
}

void check_bytes(const char *start, uint64_t base, uint64_t bytes, uint64_t planted, const char *what)
{
	uint64_t at;

	for (at = 0; at < bytes; at += PAGE_4K) {
		const uint64_t *first = (const void *)(start + at), *last = (const void *)(start + at + PAGE_4K - 8);

		if (*first != word_at(base + at, planted) || *last != word_at(base + at + PAGE_4K - 8, planted))
			fail("%s: at %#llx there is %#llx", what, (unsigned long long)(base + at),
			     (unsigned long long)*first);
	}
	count(&shared->pages_checked, bytes / PAGE_2M);
}

void check_zero(const char *start, uint64_t bytes)
{
	uint64_t at;

	for (at = 0; at < bytes; at += 512)
		if (*(const uint64_t *)(start + at))
			fail("a fresh region has %#llx at %#llx", (unsigned long long)*(const uint64_t *)(start + at),
			     (unsigned long long)at);
	count(&shared->pages_checked, bytes / PAGE_2M);
}

/* ---- the supervisor ---- */

static pid_t start_role(const struct role *role)
{
	pid_t process;

	seed = seed * 1103515245 + 12345;
	process = fork();
	if (process)
		return process;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);		/* what it forks is killed with it */
	while (!shared->stop) {
		role->once(role->which);
		count(&shared->operations, 1);
	}
	_exit(0);
}

static void end_role(pid_t process)
{
	kill(process, SIGKILL);
	kill(-process, SIGKILL);
}

static void note_death(int status)
{
	if (!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL || shared->stop)
		return;
	snprintf(shared->wrong, sizeof(shared->wrong), "a process died of signal %d", WTERMSIG(status));
	shared->stop = 1;
}

static void reap(void)
{
	int status;

	while (waitpid(-1, &status, 0) > 0)
		note_death(status);
}

/* One after the other dies and another takes its place, until the time is up. */
static void round_of(double seconds)
{
	struct timespec pause = { 0, KILL_MS * 1000000L };
	pid_t processes[MAX_ROLES];
	double until = now() + seconds;
	unsigned int i;

	for (i = 0; i < role_count; i++)
		processes[i] = start_role(&roles[i]);
	while (now() < until && !shared->stop) {
		int status;
		pid_t one;

		nanosleep(&pause, NULL);
		i = chance_of(role_count);
		end_role(processes[i]);
		if (waitpid(processes[i], &status, 0) > 0)	/* its last call may make a name: its successor must find it */
			note_death(status);
		count(&shared->kills, 1);
		processes[i] = start_role(&roles[i]);
		while ((one = waitpid(-1, &status, WNOHANG)) > 0) {
			note_death(status);
			for (i = 0; i < role_count; i++)	/* a role that ends by itself begins anew */
				if (processes[i] == one)
					processes[i] = start_role(&roles[i]);
		}
	}
	for (i = 0; i < role_count; i++)
		end_role(processes[i]);
	reap();
}

/* In a process of its own, since a check that fails ends it. */
static void check_all_plants(bool remove)
{
	pid_t process = fork();
	unsigned int keeper;

	if (!process) {
		for (keeper = 0; keeper < KEEPERS; keeper++)
			check_plants(keeper, remove);
		_exit(0);
	}
	reap();
}

/* Of names in such a state or a later one. */
static uint64_t planted_pages(unsigned int from)
{
	unsigned int keeper, i;
	uint64_t sum = 0;

	for (keeper = 0; keeper < KEEPERS; keeper++)
		for (i = 0; i < PLANTS; i++)
			if (shared->plants[keeper][i].state >= from)
				sum += shared->plants[keeper][i].pages;
	return sum;
}

/* With all roles ended: what is in use is what has a name. */
static const char *in_use_is_planted(void)
{
	static char why[160];
	struct balance balance;
	unsigned int tries = 10 * SETTLE_S;
	const char *wrong;

	for (;; usleep(100000)) {
		wrong = balance_read(&balance);
		/* whose maker was killed may be there or not */
		if (wrong || (!balance.quarantined && balance.in_use >= planted_pages(WHOLE) &&
			      balance.in_use <= planted_pages(IN_THE_MAKING)))
			return wrong;
		if (!tries--)
			break;
	}
	snprintf(why, sizeof(why), "in use %llu, quarantined %llu, with a name %llu to %llu",
		 (unsigned long long)balance.in_use, (unsigned long long)balance.quarantined,
		 (unsigned long long)planted_pages(WHOLE), (unsigned long long)planted_pages(IN_THE_MAKING));
	return why;
}

static const char *run(double seconds, struct memory_samples *samples)
{
	double until = now() + seconds;
	const char *wrong = NULL;

	while (!wrong && now() < until) {
		round_of(until - now() < ROUND_S ? until - now() : ROUND_S);
		if (!shared->stop)
			check_all_plants(false);
		if (!shared->stop)
			wrong = in_use_is_planted();
		if (shared->stop)
			wrong = shared->wrong;
		memory_sample(samples);
	}
	return wrong;
}

static const char *end(const struct knob_values *knobs, struct balance *before)
{
	const char *wrong;

	if (!shared->stop)
		check_all_plants(true);
	if (shared->stop)
		return shared->wrong;
	wrong = knobs_empty(knobs, SETTLE_S);
	if (!wrong)
		wrong = knobs_restore(knobs, before);
	return wrong ? wrong : balance_settles(before, SETTLE_S);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 60, start = now();
	static struct memory_samples samples;
	static struct knob_values knobs;
	struct balance before;
	const char *wrong;

	seed = argc > 2 ? strtoul(argv[2], NULL, 0) : (unsigned long)time(NULL);
	printf("stress: %.0f s, seed %u\n", seconds, seed);
	fflush(stdout);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	wrong = shared == MAP_FAILED ? "no memory" : balance_read(&before);
	if (!wrong)
		wrong = knobs_read(&knobs);
	if (!wrong)
		wrong = run(seconds, &samples);
	if (!wrong)
		wrong = end(&knobs, &before);
	if (shared == MAP_FAILED)
		return 2;
	printf("%llu operations of %u roles in %.0f s, %llu refused for want of pages; %llu kills, "
	       "%llu attempts to unload, %llu pages of 2M checked\n", (unsigned long long)shared->operations, role_count, now() - start,
	       (unsigned long long)shared->refused, (unsigned long long)shared->kills,
	       (unsigned long long)shared->unload_attempts, (unsigned long long)shared->pages_checked);
	memory_report(&samples);
	printf(wrong ? "FAILED: %s\n" : "pages lost: 0, patterns broken: 0%s\n", wrong ? wrong : "");
	return wrong ? 1 : 0;
}
