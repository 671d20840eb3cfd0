// SPDX-License-Identifier: MIT
/* The mapping contract: processes that end in the midst of it. The hooks look whether every page is back. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mapping.h"
#include "reserve.h"

/* What a process does for ever until it is killed. */
static void touching(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 70);
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
}

static void populating(struct area *area)
{
	char *start = mmap(NULL, area->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, area->fd, 0);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	CHECK_OK(munmap(start, area->bytes));
}

static void protecting(struct area *area)
{
	CHECK_OK(mprotect(area->start, area->bytes, PROT_READ));
	read_signal(area->start);
	CHECK_OK(mprotect(area->start, area->bytes, PROT_READ | PROT_WRITE));
	area->start[area->page] = 1;
}

static void switching_entries(struct area *area)
{
	CHECK_OK(madvise(area->start, area->bytes, MADV_NOHUGEPAGE));
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	touch_faults(area->start, PAGE_2M);
	CHECK_OK(madvise(area->start, area->bytes, MADV_HUGEPAGE));
	area->start[area->bytes - 1] = 1;
}

static void moving(struct area *area)
{
	static char *there;

	if (!there)
		there = address_hole(area->bytes, area->page);
	area->start[0] = 1;
	if (mremap(area->start, area->bytes, area->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there) {
		char *swap = area->start;

		area->start = there;
		there = swap;
	}
}

static void forking(struct area *area)
{
	pid_t child = ktap_fork();

	if (!child) {
		area->start[PAGE_4K] = 1;
		ktap_exit();
	}
	ktap_join(child);
}

static void locking(struct area *area)
{
	CHECK_OK(mlock(area->start, area->bytes));
	CHECK_OK(munlock(area->start, area->bytes));
}

static void splicing(struct area *area)
{
	struct iovec one = { area->start + PAGE_4K, PAGE_4K };
	int ends[2];

	CHECK_OK(pipe(ends));
	CHECK_EQ(vmsplice(ends[1], &one, 1, 0), PAGE_4K);
	close(ends[0]);
	close(ends[1]);
}

static const struct {
	const char *name;
	void (*act)(struct area *area);
} acts[] = {
	{ "touching", touching }, { "populating", populating }, { "protecting", protecting },
	{ "switching entries", switching_entries }, { "moving", moving }, { "forking", forking },
	{ "locking", locking }, { "splicing", splicing },
};

static pid_t start_act(struct area *area, unsigned int act)
{
	struct channel channel = channel_open();
	pid_t child = ktap_fork();

	if (!child) {
		acts[act].act(area);
		channel_signal(&channel, 1);
		for (;;)
			acts[act].act(area);
	}
	close(channel.ends[1]);
	channel_wait(&channel, 0);
	close(channel.ends[0]);
	return child;
}

static void killed_in_any_act_everything_comes_back(struct area *area)
{
	unsigned int act, round;

	for (act = 0; act < ARRAY_SIZE(acts); act++) {
		for (round = 0; round < 3; round++) {
			pid_t child = start_act(area, act);

			poll(NULL, 0, round * 3);
			kill(child, SIGKILL);
			ktap_join_killed(child, SIGKILL);
		}
	}
	marks_write(area->start, 0, area->bytes, 71);
	CHECK_MARKS(area->start, 0, area->bytes, 71);
}

static void a_dying_process_is_reaped_early(struct area *area)
{
	unsigned int act;

	marks_write(area->start, 0, area->bytes, 72);
	for (act = 0; act < 3; act++) {
		pid_t child = start_act(area, act);
		int pidfd = CHECK_OK(syscall(SYS_pidfd_open, child, 0)), tries;

		kill(child, SIGKILL);
		for (tries = 0; tries < 50; tries++)
			if (syscall(SYS_process_mrelease, pidfd, 0) && errno == ESRCH)
				break;
		ktap_join_killed(child, SIGKILL);
		close(pidfd);
	}
	marks_write(area->start, 0, area->bytes, 73);
	CHECK_MARKS(area->start, 0, area->bytes, 73);
}

static void a_process_that_calls_exec_leaves_nothing(struct area *area)
{
	pid_t child = ktap_fork();

	if (!child) {
		marks_write(area->start, 0, area->bytes, 74);
		execl("/bin/sh", "sh", "-c", ":", NULL);
		ktap_fail_here("exec: %s", strerror(errno));
	}
	ktap_join(child);
	CHECK_MARKS(area->start, 0, area->bytes, 74);
}

/* ---- out of memory ---- */

static const char *cgroup_make(void)
{
	static char path[64] = "/sys/fs/cgroup";
	char file[96];

	/* the tree may be there already; a second mount of it is the same one */
	if (access("/sys/fs/cgroup/cgroup.controllers", R_OK)) {
		CHECK_OK(mount("none", "/mnt", "tmpfs", 0, NULL));
		if (mount("none", "/mnt", "cgroup2", 0, NULL))
			ktap_skip("no cgroup2: %s", strerror(errno));
		strcpy(path, "/mnt");
	}
	snprintf(file, sizeof(file), "%s/cgroup.subtree_control", path);
	if (file_write(file, "+memory"))
		ktap_skip("no memory controller for cgroups");
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/hugepin-%d", getpid());
	CHECK(!mkdir(path, 0755), "%s: %s", path, strerror(errno));
	return path;
}

static void out_of_memory_gives_everything_back(struct area *area)
{
	const char *path = cgroup_make();
	char file[96];
	pid_t child;

	snprintf(file, sizeof(file), "%s/memory.max", path);
	CHECK_EQ(file_write(file, "16M"), 0);
	snprintf(file, sizeof(file), "%s/memory.swap.max", path);
	file_write(file, "0");		/* only there with swap */
	child = ktap_fork();
	if (!child) {
		snprintf(file, sizeof(file), "%s/cgroup.procs", path);
		CHECK_EQ(file_write(file, "0"), 0);
		marks_write(area->start, 0, area->bytes, 75);
		for (;;) {
			char *more = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			memset(more, 1, PAGE_2M);
		}
	}
	ktap_join_killed(child, SIGKILL);
	while (rmdir(path) && errno == EBUSY)
		poll(NULL, 0, 10);
	CHECK_MARKS(area->start, 0, area->bytes, 75);
}

const struct mapping_row mapping_death_rows[] = {
	ROW(killed_in_any_act_everything_comes_back),
	ROW(a_dying_process_is_reaped_early),
	ROW(a_process_that_calls_exec_leaves_nothing),
	ROW(out_of_memory_gives_everything_back),
	{ NULL, NULL },
};
