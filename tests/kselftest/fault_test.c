// SPDX-License-Identifier: MIT
/*
 * Every allocation and every copy between user and kernel fails once: each call is made again and again, with its
 * first, second, third … fault injected (/proc/self/fail-nth), until it gets through without one. After each the
 * reserve, the mount's limits, the names, the pins and the descriptors are as before.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include "fault.h"
#include "region.h"
#include "reserve.h"

#define DEBUG_DIR	"/sys/kernel/debug/"
#define FAULTS_MAX	2000	/* no call here comes near: more means that it never gets through */
#define RSEQ_BYTES	32	/* what the C library registers */
#define TIMEOUT_S	1200	/* a few hundred calls each, on a slow kernel */

/* ---- injecting ---- */

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

static void settings_make(void)
{
	size_t i;

	reserve_hooks.start();
	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (file_read(settings[i].path, settings[i].before, sizeof(settings[i].before)))
			file_write(settings[i].path, settings[i].text);
}

static void settings_restore(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].before[0])
			file_write(settings[i].path, settings[i].before);
	reserve_hooks.restore();
}

static void faults_open(void)
{
	fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth < 0 && errno == ENOENT)
		ktap_skip("this kernel has no /proc/self/fail-nth");
	CHECK(fail_nth >= 0, "/proc/self/fail-nth: %s", strerror(errno));
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

static void faults_arm(unsigned int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", nth);

	CHECK_EQ(pwrite(fail_nth, text, length, 0), length);
}

/* Whether the fault has come. One that was still to come may hit this reading or writing: then it had not. */
static bool faults_disarm(void)
{
	char text[16] = "";
	ssize_t length = pread(fail_nth, text, sizeof(text) - 1, 0);

	CHECK(length > 0 || errno == EFAULT, "/proc/self/fail-nth: %s", strerror(errno));
	if (pwrite(fail_nth, "0", 1, 0) != 1)
		CHECK_EQ(errno, EFAULT);
	return length > 0 && atoi(text) == 0;
}

/* ---- the rule ---- */

static int lowest_free_descriptor(void)
{
	int fd = CHECK_OK(dup(STDOUT_FILENO));

	close(fd);
	return fd;
}

/* Once, with fault @nth to come; whether it came. */
static bool once(const struct fault_call *call, unsigned int nth, unsigned int *failures)
{
	int descriptor = lowest_free_descriptor(), result;
	const char *changed;
	bool came;

	faults_arm(nth);
	result = call->perform();
	came = faults_disarm();
	if (result < 0) {
		CHECK(came, "without a fault: %s", strerror(-result));
		CHECK(result == -ENOMEM || result == -EFAULT || result == -call->may_fail_with, "fault %u: %s", nth,
		      strerror(-result));
		(*failures)++;
		if (call->look)
			call->look(nth);
	} else {
		call->undo();
	}
	changed = reserve_hooks.after();
	CHECK(!changed, "fault %u (the call answered %d): %s", nth, result, changed);
	CHECK(lowest_free_descriptor() == descriptor, "fault %u left a descriptor behind", nth);
	return came;
}

static void any_fault_in_it_leaves_no_trace(const void *arg)
{
	const struct fault_call *call = arg;
	unsigned int nth = 1, failures = 0;

	faults_open();
	rseq_end();
	call->prepare();
	reserve_hooks.before();
	while (once(call, nth, &failures))
		CHECK(++nth < FAULTS_MAX, "still a fault at the %dth", FAULTS_MAX);
	CHECK(nth > 1, "no fault came: nothing was tested");
	ktap_note("%s: %u faults, %u of them made it fail", call->name, nth - 1, failures);
}

int main(int argc, char **argv)
{
	struct ktap_case *cases = calloc(fault_call_count, sizeof(*cases));
	struct ktap_hooks hooks = reserve_hooks;
	size_t i;

	if (!cases)
		return KTAP_FAIL;
	for (i = 0; i < fault_call_count; i++)
		cases[i] = (struct ktap_case){
			.name = "any_fault_in_it_leaves_no_trace", .run = any_fault_in_it_leaves_no_trace,
			.arg = &fault_calls[i], .variant = fault_calls[i].name, .timeout_s = TIMEOUT_S,
		};
	hooks.start = settings_make;
	hooks.restore = settings_restore;
	return ktap_main(argc, argv, cases, fault_call_count, &hooks);
}
