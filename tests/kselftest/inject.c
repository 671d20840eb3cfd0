// SPDX-License-Identifier: MIT
/* Faults injected one by one; see inject.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include "inject.h"
#include "region.h"
#include "reserve.h"

#define DEBUG_DIR	"/sys/kernel/debug/"
#define RSEQ_BYTES	32	/* what the C library registers */

/* Spared by default are allocations that may wait (all of ours), highmem, single pages. And no report of each fault. */
static struct setting {
	const char *path, *text;
	char before[16];
} settings[] = {
	{ DEBUG_DIR "failslab/ignore-gfp-wait", "N", "" },
	{ DEBUG_DIR "failslab/verbose", "0", "" },
	{ DEBUG_DIR "fail_page_alloc/ignore-gfp-wait", "N", "" },
	{ DEBUG_DIR "fail_page_alloc/ignore-gfp-highmem", "N", "" },
	{ DEBUG_DIR "fail_page_alloc/min-order", "0", "" },
	{ DEBUG_DIR "fail_page_alloc/verbose", "0", "" },
	{ DEBUG_DIR "fail_usercopy/verbose", "0", "" },
};

static int fail_nth = -1;

static void start(void)
{
	size_t i;

	reserve_hooks.start();
	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (file_read(settings[i].path, settings[i].before, sizeof(settings[i].before)))
			file_write(settings[i].path, settings[i].text);
}

static void restore(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].before[0])
			file_write(settings[i].path, settings[i].before);
	reserve_hooks.restore();
}

struct ktap_hooks inject_hooks(void)
{
	struct ktap_hooks hooks = reserve_hooks;

	hooks.start = start;
	hooks.restore = restore;
	return hooks;
}

void inject_report(bool wanted)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].before[0] && strstr(settings[i].path, "/verbose"))
			CHECK_EQ(file_write(settings[i].path, wanted ? "2" : "0"), 0);
}

/*
 * The kernel writes to a thread's rseq area when it has moved to another CPU, and ends a process where that fails: a
 * fault that comes there says nothing of the call. So this thread has none.
 */
static void rseq_end(void)
{
#ifdef RSEQ_SIG
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	if (__rseq_size)
		CHECK_OK(syscall(SYS_rseq, area, RSEQ_BYTES, RSEQ_FLAG_UNREGISTER, RSEQ_SIG));
#endif
}

void inject_open(void)
{
	fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth < 0 && errno == ENOENT)
		ktap_skip("this kernel has no /proc/self/fail-nth");
	CHECK(fail_nth >= 0, "/proc/self/fail-nth: %s", strerror(errno));
	rseq_end();
}

void inject_arm(unsigned int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", nth);

	CHECK_EQ(pwrite(fail_nth, text, length, 0), length);
}

unsigned int inject_disarm(void)
{
	char text[16] = "";
	ssize_t length = pread(fail_nth, text, sizeof(text) - 1, 0);

	CHECK(length > 0 || errno == EFAULT, "/proc/self/fail-nth: %s", strerror(errno));
	if (pwrite(fail_nth, "0", 1, 0) != 1)
		CHECK_EQ(errno, EFAULT);
	return length > 0 ? strtoul(text, NULL, 10) : 1;
}
