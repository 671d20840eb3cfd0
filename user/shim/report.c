// SPDX-License-Identifier: MIT
/*
 * The line that a process leaves at exit: what was hooked and served, and what could not be. By default on standard
 * error, and only of processes that have something to tell; with a file or "-" asked for, of every one.
 *
 * A process that ends by _exit(), a signal or exec leaves none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim.h"

struct line {
	char text[4096];
	size_t length;
};

static void __attribute__((format(printf, 2, 3))) add(struct line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - line->length;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line->text + line->length, room, format, args);
	va_end(args);
	if (length > 0)
		line->length += (size_t)length < room ? (size_t)length : room - 1;
}

/* In whole numbers: the program's locale may have a decimal comma. */
static void add_bytes(struct line *line, unsigned long long bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned long long rest, tenths;
	unsigned int unit = 0;

	while (unit < 4 && bytes >> 10 * (unit + 1))
		unit++;
	rest = bytes & ((1ull << 10 * unit) - 1);
	if (!rest) {
		add(line, "%llu %s", bytes >> 10 * unit, units[unit]);
		return;
	}
	tenths = (bytes >> 10 * unit) * 10 + ((rest * 10 + (1ull << (10 * unit - 1))) >> 10 * unit);
	add(line, "%llu.%llu %s", tenths / 10, tenths % 10, units[unit]);
}

/* ---- pools ---- */

struct pages {
	unsigned long long bytes_1g, bytes_2m, bytes_base;
};

/* What is mapped now; a pool gives little back before the end. */
static struct pages pages_of(const struct pool *pool)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };
	struct pages pages = { 0 };
	struct visit visit;
	size_t i;

	/* The parent's is not asked; nor is a pool inside which exit() was called, by a signal handler. */
	if (!pool->pool || atomic_load(&pool->state) == POOL_INHERITED || gate_inside())
		return pages;
	gate_enter(&visit);
	for (i = 0; !hugepin_pool_segment(pool->pool, i, &info); i++) {
		pages.bytes_1g += info.bytes_1g;
		pages.bytes_2m += info.bytes_2m;
		pages.bytes_base += info.bytes - info.bytes_1g - info.bytes_2m;
	}
	gate_leave(&visit);
	return pages;
}

static void add_pages(struct line *line, const char *before, unsigned long long bytes, const char *name)
{
	if (!bytes)
		return;
	add(line, "%s", before);
	add_bytes(line, bytes);
	add(line, " of %s pages", name);
}

static void add_pool(struct line *line, struct pool *pool)
{
	struct pages pages = pages_of(pool);

	add(line, "%llu served, ", atomic_load(&pool->served));
	add_bytes(line, atomic_load(&pool->served_bytes));
	add(line, " in all, peak ");
	add_bytes(line, atomic_load(&pool->peak_bytes));
	add_pages(line, ", on ", pages.bytes_1g, "1G");
	add_pages(line, pages.bytes_1g ? " and " : ", on ", pages.bytes_2m, "2M");
	add_pages(line, pages.bytes_1g || pages.bytes_2m ? " and " : ", on ", pages.bytes_base, "base");
}

/* ---- CUDA ---- */

static unsigned long long sum(const atomic_ullong *counters, size_t count)
{
	unsigned long long all = 0;

	while (count--)
		all += atomic_load(&counters[count]);
	return all;
}

static void add_calls(struct line *line)
{
	const char *before = " hooked ";
	unsigned long long calls;
	size_t i;

	for (i = 0; i < CUDA_ENTRIES; i++) {
		calls = atomic_load(&cuda_counters.calls[i]);
		if (!calls)
			continue;
		add(line, "%s%s %llu", before, cuda_names[i], calls);
		before = ", ";
	}
}

static void add_passed(struct line *line)
{
	const char *before = " (";
	unsigned long long passed = sum(cuda_counters.passed, PASS_REASONS), because;
	size_t i;

	add(line, "; %llu passed on", passed);
	for (i = 0; i < PASS_REASONS; i++) {
		because = atomic_load(&cuda_counters.passed[i]);
		if (!because)
			continue;
		add(line, "%s%s %llu", before, cuda_pass_names[i], because);
		before = ", ";
	}
	if (passed)
		add(line, ")");
}

/* Whether there was anything to hook, whoever calls it. */
static bool add_cuda(struct line *line)
{
	unsigned long long deferred = atomic_load(&cuda_counters.deferred);

	if (!sum(cuda_counters.calls, CUDA_ENTRIES)) {
		if (!driver_loaded("libcuda.so") && !driver_loaded("libcudart.so")) {
			add(line, " cuda: not loaded");
			return false;
		}
		add(line,
		    " cuda: nothing hooked, though %s is loaded: no call for host memory, or by a static runtime, "
		    "dlsym() or cuGetProcAddress(), which go around the shim",
		    driver_loaded("libcudart.so") ? "libcudart.so" : "libcuda.so");
		return true;
	}
	add(line, " cuda:");
	add_calls(line);
	add(line, "; allocations: ");
	add_pool(line, &pinned_pool);
	add_passed(line);
	add(line, "; frees: %llu served, %llu passed on", atomic_load(&pinned_pool.given),
	    atomic_load(&cuda_counters.foreign));
	if (deferred)
		add(line, ", %llu deferred", deferred);
	if (atomic_load(&pinned_pool.state) == POOL_CLOSED)
		add(line, "; closed: %s", pinned_pool.reason);
	return true;
}

/* ---- the malloc family ---- */

static bool add_host(struct line *line)
{
	unsigned long long passed = atomic_load(&host_counters.passed);

	if (atomic_load(&settings.threshold) == SIZE_MAX)
		return false;
	add(line, "; malloc from ");
	add_bytes(line, atomic_load(&settings.threshold));
	add(line, " on: ");
	add_pool(line, &host_pool);
	add(line, "; %llu passed on", passed);
	if (passed) {
		add(line, ", ");
		add_bytes(line, atomic_load(&host_counters.passed_bytes));
	}
	if (inheritance.copied_bytes || atomic_load(&host_counters.dropped)) {
		add(line, "; of process %d: ", (int)inheritance.parent);
		add_bytes(line, inheritance.copied_bytes);
		add(line, " copied, %llu blocks freed", atomic_load(&host_counters.dropped));
	}
	if (atomic_load(&host_pool.state) == POOL_CLOSED)
		add(line, "; closed: %s", host_pool.reason);
	return passed || atomic_load(&host_pool.served) || inheritance.copied_bytes;
}

/* ---- writing ---- */

/* The end of a program waits for nobody to read a FIFO; of what is no FIFO, O_NONBLOCK would change other things. */
static int open_report(const char *path)
{
	int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY;
	struct stat there;

	if (!stat(path, &there) && S_ISFIFO(there.st_mode))
		flags |= O_NONBLOCK;
	return open(path, flags, 0666);
}

/* One write to a file opened for appending: lines of several processes do not mix. */
static void put(const struct line *line, const char *path)
{
	int fd = STDERR_FILENO;

	if (path)
		fd = open_report(path);
	else if (!stderr_is_still())
		return;
	if (fd < 0)
		return;
	put_text(fd, line->text, line->length);
	if (path)
		close(fd);
}

static __attribute__((destructor)) void report(void)
{
	const char *wanted = settings.report;
	struct line line = { .length = 0 };
	bool anything;

	if (!settings.hooking || (wanted && !*wanted))
		return;
	add(&line, "hugepin: %s[%d]:", program_invocation_short_name, (int)getpid());
	anything = add_cuda(&line);
	anything |= add_host(&line);
	line.text[line.length < sizeof(line.text) - 1 ? line.length++ : line.length - 1] = '\n';
	if (wanted || anything)
		put(&line, wanted && strcmp(wanted, "-") ? wanted : NULL);
}

/* ---- a child of a fork ---- */

static void reset_pool(struct pool *pool)
{
	atomic_store(&pool->served, 0);
	atomic_store(&pool->served_bytes, 0);
	atomic_store(&pool->active_bytes, 0);
	atomic_store(&pool->peak_bytes, 0);
	atomic_store(&pool->given, 0);
}

void report_reset(void)
{
	reset_pool(&host_pool);
	reset_pool(&pinned_pool);
	cuda_reset_counters();
	memset(&host_counters, 0, sizeof(host_counters));
}
