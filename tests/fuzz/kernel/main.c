// SPDX-License-Identifier: MIT
/*
 * A fuzzer of the module, to be run as root in a virtual machine: see world.h for how it chooses, fuzz --help for how
 * it is told. It watches the kernel's log and the page counts meanwhile, and that nothing is missing at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

#define STUCK_S		120	/* a process that was killed is gone by then */
#define SETTLE_S	20

static struct options {
	uint64_t seed;
	unsigned int seconds, workers, calls, poison;
	long only_worker, only_life;
	bool verbose, times, knobs;
} options = { .seconds = 60, .workers = 4, .calls = 1000, .only_worker = -1, .only_life = -1, .knobs = true };

static struct shared *shared;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* ---- a worker: lives, one after the other ---- */

/* All processes of the life, which are ours since we are their reaper; false: one does not go. */
static bool end_life(pid_t life)
{
	double until = now() + STUCK_S;
	pid_t one;

	kill(-life, SIGKILL);
	while ((one = waitpid(-1, NULL, WNOHANG)) >= 0 || errno != ECHILD) {
		if (one > 0)
			continue;
		if (now() > until)
			return false;
		kill(-life, SIGKILL);	/* one may have been forked meanwhile */
		usleep(500);
	}
	return true;
}

static void __attribute__((noreturn)) be(struct world *w)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	live(w, options.calls);
	_exit(0);
}

/* What it mounted goes first, mounts on mounts too. */
static void unmount_all(const struct world *w)
{
	char path[64];
	unsigned int i;

	for (i = 0; i < MOUNTS; i++) {
		snprintf(path, sizeof(path), "%s/%u", w->place, i);
		while (!umount2(path, MNT_DETACH))
			;
	}
}

static bool one_life(struct world *w)
{
	uint64_t chances = random_mix(w->seed, ~0ULL);
	int most_ms = chances % 100 < 40 ? 1 + chances / 100 % 300 : 20000;
	struct pollfd ended;
	pid_t life = fork();
	bool killed;

	if (life < 0)
		return false;
	if (!life)
		be(w);
	setpgid(life, life);
	shared->trace[w->worker].processes = 0;
	ended = (struct pollfd){ .fd = syscall(SYS_pidfd_open, life, 0), .events = POLLIN };
	killed = poll(&ended, 1, most_ms) == 0;
	close(ended.fd);
	if (killed)
		add(&shared->kills, 1);
	add(&shared->lives, 1);
	if (!end_life(life))
		return false;
	unmount_all(w);
	return true;
}

static void __attribute__((noreturn)) work(unsigned int worker)
{
	struct world w = { .worker = worker, .shared = shared, .knobs = options.knobs, .verbose = options.verbose,
			   .times = options.times };
	char path[64];
	unsigned int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		_exit(1);
	snprintf(w.place, sizeof(w.place), "/tmp/fuzz%u", worker);
	mkdir(w.place, 0755);
	for (i = 0; i < MOUNTS; i++) {
		snprintf(path, sizeof(path), "%s/%u", w.place, i);
		mkdir(path, 0755);
	}
	for (w.life = options.only_life < 0 ? 0 : options.only_life; !shared->stop; w.life++) {
		w.seed = random_mix(random_mix(options.seed, worker), w.life);
		if (!one_life(&w)) {
			fprintf(stderr, "worker %u: life %u does not end\n", worker, w.life);
			_exit(1);
		}
		if (options.only_life >= 0)
			break;
	}
	_exit(0);
}

/* ---- the supervisor ---- */

static bool log_is_bad(int kmsg)
{
	static const char *const marks[] = {
		"BUG:", "WARNING:", "Oops", "KASAN", "UBSAN", "refcount_t", "Bad page", "general protection",
		"possible recursive locking", "circular locking",
	};
	char line[1024];
	ssize_t length;
	unsigned int i;

	while ((length = read(kmsg, line, sizeof(line) - 1)) > 0) {
		line[length] = '\0';
		for (i = 0; i < COUNT(marks); i++)
			if (strstr(line, marks[i]))
				return true;
	}
	return false;
}

static void show_traces(void)
{
	unsigned int worker, i;

	for (worker = 0; worker < options.workers; worker++) {
		const struct trace *trace = &shared->trace[worker];

		for (i = 0; i < COUNT(trace->last); i++) {
			unsigned int at = (trace->next + i) % COUNT(trace->last);
			const struct op *op = op_number(trace->last[at].op);

			printf("%u.%u depth %u, %u: %s: %lld\n", worker, trace->last[at].life, trace->last[at].depth,
			       trace->last[at].index, op ? op->name : "?", (long long)trace->last[at].result);
		}
	}
}

/* Until the time is up, a worker has ended or something is wrong: NULL or what. */
static const char *supervise(unsigned int seconds)
{
	int kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	double until = now() + seconds;
	struct balance balance;
	const char *wrong = NULL;
	int status;

	lseek(kmsg, 0, SEEK_END);
	while (!wrong && now() < until) {
		usleep(100000);
		wrong = balance_read(&balance);
		if (!wrong && log_is_bad(kmsg))
			wrong = "the kernel has complained";
		if (!wrong && waitpid(-1, &status, WNOHANG) > 0) {
			if (status)
				wrong = "a worker failed";
			break;
		}
	}
	if (wrong)
		show_traces();
	close(kmsg);
	return wrong;
}

static const char *end_workers(void)
{
	const char *wrong = NULL;
	int status;

	shared->stop = 1;
	while (wait(&status) > 0)
		if (status)
			wrong = "a worker failed";
	return wrong;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	return walk->level ? remove(path) : 0;
}

static const char *restore(const struct knob_values *knobs, struct balance *before)
{
	const char *wrong;

	/* the mount that all share; a bind of it may have made it read-only */
	if (mount("none", "/run/hugepin", "hugepinfs", MS_REMOUNT, ""))
		return "/run/hugepin cannot be made writable";
	if (nftw("/run/hugepin", remove_one, 16, FTW_DEPTH | FTW_PHYS))
		return "names in /run/hugepin cannot be removed";
	wrong = knobs_empty(knobs, SETTLE_S);
	if (!wrong)
		wrong = knobs_restore(knobs, before);
	return wrong ? wrong : balance_settles(before, SETTLE_S);
}

static void report(double seconds)
{
	uint64_t calls = 0, successes = 0;
	unsigned int i;

	for (i = 0; i < op_count(); i++) {
		calls += shared->op[i].calls;
		successes += shared->op[i].successes;
		if (options.times)
			printf("%-14s %8llu calls, %8llu successes, %8.1f ms, %8.1f us a call\n", op_number(i)->name,
			       (unsigned long long)shared->op[i].calls, (unsigned long long)shared->op[i].successes,
			       shared->op[i].ns / 1e6, shared->op[i].ns / 1e3 / (shared->op[i].calls + !shared->op[i].calls));
		else if (options.verbose || (shared->op[i].calls > 50 && !shared->op[i].successes))
			printf("%s: %llu calls, %llu successes\n", op_number(i)->name,
			       (unsigned long long)shared->op[i].calls, (unsigned long long)shared->op[i].successes);
	}
	printf("seed %llu: %llu calls in %.0f s, %llu of them successes (%.1f%%); %llu lives, %llu forks, %llu kills; "
	       "%llu MiB of fresh regions looked at, foreign bytes in %llu regions\n",
	       (unsigned long long)options.seed, (unsigned long long)calls, seconds, (unsigned long long)successes,
	       calls ? 100.0 * successes / calls : 0.0, (unsigned long long)shared->lives,
	       (unsigned long long)shared->forks, (unsigned long long)shared->kills,
	       (unsigned long long)shared->bytes_looked_at >> 20, (unsigned long long)shared->foreign);
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "seed", 1, NULL, 's' }, { "seconds", 1, NULL, 't' }, { "workers", 1, NULL, 'w' },
		{ "calls", 1, NULL, 'c' }, { "life", 1, NULL, 'l' }, { "poison", 1, NULL, 'p' },
		{ "verbose", 0, NULL, 'v' }, { "times", 0, NULL, 'T' },
		{ "no-knobs", 0, NULL, 'k' }, { NULL, 0, NULL, 0 },
	};
	int which;

	options.seed = time(NULL);
	while ((which = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (which) {
		case 's': options.seed = strtoull(optarg, NULL, 0); break;
		case 't': options.seconds = strtoul(optarg, NULL, 0); break;
		case 'w': options.workers = strtoul(optarg, NULL, 0); break;
		case 'c': options.calls = strtoul(optarg, NULL, 0); break;
		case 'p': options.poison = strtoul(optarg, NULL, 0); break;
		case 'T': options.times = true; break;
		case 'v': options.verbose = true; break;
		case 'k': options.knobs = false; break;
		case 'l':
			if (sscanf(optarg, "%ld.%ld", &options.only_worker, &options.only_life) == 2)
				break;
			/* fall through */
		default:
			fputs("usage: fuzz [--seed N] [--seconds N] [--workers N] [--calls N] [--poison N] [--no-knobs]\n"
			      "            [--life WORKER.LIFE] [--times] [--verbose]\n"
			      "  --calls   of a life (1000)\n"
			      "  --poison  pages that may be reported faulty (0), each lost for good\n"
			      "  --life    that one alone, as the same seed made it\n"
			      "  --times   tells how much CPU time each kind of call took\n", stderr);
			exit(2);
		}
	}
	if (!options.workers || options.workers > WORKERS_MAX)
		options.workers = 4;
}

int main(int argc, char **argv)
{
	static struct knob_values knobs;
	struct balance before;
	const char *wrong, *later;
	unsigned int i;
	double start;

	parse(argc, argv);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	wrong = shared == MAP_FAILED ? "no memory" : balance_read(&before);
	if (!wrong)
		wrong = knobs_read(&knobs);
	if (wrong) {
		printf("not run: %s\n", wrong);
		return 2;
	}
	shared->poison_max = options.poison;
	printf("seed %llu, %u workers\n", (unsigned long long)options.seed, options.workers);
	fflush(stdout);
	start = now();
	for (i = 0; i < options.workers; i++)
		if ((options.only_worker < 0 || options.only_worker == i) && !fork())
			work(i);
	wrong = supervise(options.seconds);
	later = end_workers();
	wrong = wrong ? wrong : later;
	report(now() - start);
	later = restore(&knobs, &before);
	wrong = wrong ? wrong : later;
	if (!wrong && shared->foreign)
		wrong = "a fresh region had bytes of others";
	if (wrong)
		printf("FAILED: %s\n", wrong);
	else
		printf("pages lost: 0 of %llu\n", (unsigned long long)before.total);
	return wrong ? 1 : 0;
}
