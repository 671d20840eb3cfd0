// SPDX-License-Identifier: MIT
/*
 * A client that does all there is to do (make, name, map, pin, export, import, pass on, fork), killed at each of its
 * system calls in turn: where the call begins, where it ends, and in the midst of it. Each time nothing is left of it:
 * no page, no region, no charge; and what another one holds is whole.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "driver.h"
#include "pinned.h"
#include "region.h"
#include "reserve.h"
#include "step.h"

#define STOPS_MAX	1000
#define BYTES		(2 * PAGE_2M)
#define SEED_OF_OTHER	77

static int directory;
static struct channel channel;

/* ---- the client ---- */

static void pin_and_import(int device, int region, char *start)
{
	int pin = pin_range(device, start, PAGE_2M), region_dmabuf = export_all(region), pin_dmabuf, driver, importer;
	struct hugepin_test_import import = { .max_segment = UINT32_MAX };
	struct hugepin_test_pin args = { .size = sizeof(args), .addr = (uintptr_t)start, .bytes = PAGE_2M };

	CHECK(pin >= 0, "PIN: %s", strerror(-pin));
	pin_dmabuf = export_all(pin);
	close(pin);
	driver = driver_open();
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &args));
	importer = driver_open();
	CHECK_OK(import_try(importer, region_dmabuf, &import));
	CHECK_OK(ioctl(importer, HUGEPIN_TEST_IOC_UNMAP));
	CHECK_OK(import_try(importer, pin_dmabuf, &import));
	close(pin_dmabuf);
	close(region_dmabuf);
	/* the pins of both drivers stay until its end */
}

static void move_and_unmap(char *start)
{
	char *hole = address_hole(BYTES, PAGE_2M), *moved;

	moved = mremap(start, PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, hole);
	CHECK(moved != MAP_FAILED, "mremap: %s", strerror(errno));
	CHECK_EQ(moved[0], 1);
	CHECK_OK(madvise(moved, PAGE_2M, MADV_DONTNEED));
	CHECK_OK(munmap(moved, PAGE_2M));
}

static void name_things(void)
{
	int region;

	CHECK_OK(mkdirat(directory, "d", 0700));
	region = region_create_named(directory, "a", PAGE_2M, 0600);
	CHECK(region >= 0, "named: %s", strerror(-region));
	CHECK_OK(renameat(directory, "a", directory, "d/b"));
	close(region);
	region = CHECK_OK(openat(directory, "d/b", O_RDWR));
	CHECK_ZERO(region_map(region, 0, PAGE_2M, PROT_READ | PROT_WRITE), PAGE_4K);
	CHECK_OK(unlinkat(directory, "d/b", 0));
	CHECK_OK(unlinkat(directory, "d", AT_REMOVEDIR));
}

static void client(void)
{
	int device = device_open(), region = region_make(BYTES, CLASS_2M), ends[2];
	char *start = region_map(region, 0, BYTES, PROT_READ | PROT_WRITE);
	struct iovec page = { start, PAGE_4K };
	pid_t child;

	start[0] = start[PAGE_2M] = 1;
	name_things();
	pin_and_import(device, region, start);
	CHECK_OK(pipe2(ends, O_CLOEXEC));
	CHECK_OK(vmsplice(ends[1], &page, 1, 0));
	descriptor_send(&channel, 1, region);
	child = fork();
	if (!child) {
		start[1] = 2;
		_exit(0);
	}
	CHECK_EQ(waitpid(child, NULL, 0), child);
	close(region);
	move_and_unmap(start);
	_exit(0);
}

/* ---- its deaths ---- */

enum moment { AT_A_STOP, IN_THE_MIDST };

/* True: it came to its @nth stop and died there, or a moment later. */
static bool die_at(unsigned int nth, enum moment moment)
{
	volatile unsigned int left = nth * 7919 % 20000;
	pid_t process = fork();
	unsigned int stops;
	bool reached;
	int status;

	CHECK(process >= 0, "fork: %s", strerror(errno));
	if (!process) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		step_begin();
		client();
	}
	CHECK(step_attach(process, 0), "it ended before its first call");
	reached = step_to(process, nth, &stops, &status);
	if (!reached) {
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "undisturbed, it ended with status %#x", status);
		return false;
	}
	if (moment == IN_THE_MIDST) {
		ptrace(PTRACE_DETACH, process, 0, 0);
		while (left)		/* not a sleep, which would be too long by far */
			left--;
	}
	kill(process, SIGKILL);
	/* its child may have become ours */
	while (waitpid(-1, &status, __WALL) > 0)
		;
	return true;
}

/* Names stay by design when their maker dies; whoever cleans up finds at most these. */
static void remove_names(void)
{
	if (unlinkat(directory, "a", 0))
		CHECK_EQ(errno, ENOENT);
	if (unlinkat(directory, "d/b", 0))
		CHECK_EQ(errno, ENOENT);
	if (unlinkat(directory, "d", AT_REMOVEDIR))
		CHECK_EQ(errno, ENOENT);
}

struct holdings {
	struct hugepin_user_entry entry[16];
	unsigned int count;
};

static struct holdings holdings(int device)
{
	struct holdings h = { 0 };
	struct hugepin_users users = {
		.size = sizeof(users), .entries = (uintptr_t)h.entry, .nr_entries = ARRAY_SIZE(h.entry),
		.entry_size = sizeof(h.entry[0]),
	};

	CHECK_OK(ioctl(device, HUGEPIN_IOC_USERS, &users));
	h.count = users.nr_entries;
	return h;
}

/* What it passed on goes with the socket. */
static void end_channel(void)
{
	close(channel.ends[0]);
	close(channel.ends[1]);
}

static void killed_at_each_call_it_leaves_nothing(const void *arg)
{
	enum moment moment = *(const enum moment *)arg;
	int device = device_open(), other;
	unsigned int nth = 1;
	const char *changed;
	struct holdings before, after;
	char *marked;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	directory = fs_mount(NULL, NULL);
	other = region_make(BYTES, CLASS_2M);
	marked = region_map(other, 0, BYTES, PROT_READ | PROT_WRITE);
	marks_write(marked, 0, BYTES, SEED_OF_OTHER);
	before = holdings(device);
	reserve_hooks.before();
	for (;; nth++) {
		bool reached;

		channel = channel_open();
		reached = die_at(nth, moment);
		end_channel();
		remove_names();
		changed = reserve_hooks.after();
		CHECK(!changed, "killed at stop %u: %s", nth, changed);
		after = holdings(device);
		CHECK(after.count == before.count && !memcmp(after.entry, before.entry, sizeof(after.entry)),
		      "killed at stop %u: a charge stayed: %u users, %llu pages, %llu bytes pinned", nth, after.count,
		      after.entry[0].held[HUGEPIN_CLASS_2M], after.entry[0].pinned);
		CHECK_MARKS(marked, 0, BYTES, SEED_OF_OTHER);
		if (!reached)
			break;
		CHECK(nth < STOPS_MAX, "still alive after %u stops", nth);
	}
	CHECK(nth > 50, "it ended after %u stops: nothing was tested", nth);
	ktap_note("%u deaths", nth - 1);
}

/* C030: whatever kills a process, and wherever, nothing stays. */
int main(int argc, char **argv)
{
	static const enum moment at = AT_A_STOP, in = IN_THE_MIDST;
	static const struct ktap_case cases[] = {
		{ .name = "killed_at_each_call_it_leaves_nothing", .variant = "where it begins and ends",
		  .run = killed_at_each_call_it_leaves_nothing, .arg = &at, .timeout_s = 400 },
		{ .name = "killed_at_each_call_it_leaves_nothing", .variant = "in the midst",
		  .run = killed_at_each_call_it_leaves_nothing, .arg = &in, .timeout_s = 400 },
	};

	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
