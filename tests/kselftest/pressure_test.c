// SPDX-License-Identifier: MIT
/*
 * When memory is short: nodes in fragments or without free memory, groups at their limit and clients killed for want of
 * memory, blocks to be taken offline. Bounded times, errors that say why, and the reserve is whole.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pinned.h"
#include "region.h"
#include "reserve.h"

#define BOUND_S		60.0	/* emulated, beside others; on a host it is under a second */
#define LEFT_MIB	256	/* of a node that is filled up, for the kernel */
#define GROUP		"/mnt/hugepin-pressure"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static uint64_t node_free_mib(unsigned int node)
{
	char path[64], text[4096], *line;
	int fd, length;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", node);
	fd = CHECK_OK(open(path, O_RDONLY | O_CLOEXEC));
	length = CHECK_OK(read(fd, text, sizeof(text) - 1));
	close(fd);
	text[length] = '\0';
	line = strstr(text, "MemFree:");
	CHECK(line, "%s has no MemFree", path);
	return strtoull(line + strlen("MemFree:"), NULL, 10) / 1024;
}

/* As a shell would see the write to the knob fail: what was got stays, and the files say why. */
static void check_short(unsigned int node, uint64_t before, uint64_t asked, const char *reason)
{
	double start = now();
	int error = knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", asked);
	double took = now() - start;
	uint64_t total = knob_read(node, HUGEPIN_CLASS_2M, "nr_hugepages");
	char path[128], text[128];

	CHECK_EQ(error, -ENOMEM);
	CHECK(took < BOUND_S, "it took %.1f s", took);
	CHECK(total >= before && total < asked, "asked %" PRIu64 " pages, had %" PRIu64 ", have %" PRIu64, asked,
	      before, total);
	CHECK_EQ(knob_read(node, HUGEPIN_CLASS_2M, "asked_hugepages"), asked);
	knob_path(path, sizeof(path), node, HUGEPIN_CLASS_2M, "shortfall_reason");
	CHECK(file_read(path, text, sizeof(text)), "%s: %s", path, strerror(errno));
	CHECK(strstr(text, reason), "the reason is '%s', not '%s'", text, reason);
	ktap_note("%" PRIu64 " of %" PRIu64 " pages after %.1f s: %s", total, asked, took, text);
}

/* ---- fragments ---- */

/* The program beside this one, on @node; true once it is ready. */
static pid_t fragment(unsigned int node, uint64_t mib)
{
	char path[512], number[32], amount[32], line[64] = "";
	int ends[2];
	ssize_t length;
	pid_t child;

	length = CHECK_OK(readlink("/proc/self/exe", path, sizeof(path) - 16));
	path[length] = '\0';
	strcat(dirname(path), "/fragment");
	snprintf(number, sizeof(number), "%u", node);
	snprintf(amount, sizeof(amount), "%" PRIu64, mib / 2 * 2);
	CHECK_OK(pipe(ends));
	child = fork();
	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		execl(path, path, number, amount, NULL);
		_exit(127);
	}
	close(ends[1]);
	CHECK(read(ends[0], line, sizeof(line) - 1) > 0, "%s %s %s failed", path, number, amount);
	close(ends[0]);
	ktap_note("fragments: %s", strtok(line, "\n"));
	return child;
}

static void end(pid_t child)
{
	int status;

	CHECK_OK(kill(child, SIGKILL));
	CHECK_EQ(waitpid(child, &status, 0), child);
}

static void in_fragments_a_shortfall_is_told_and_mended_when_they_go(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 1);
	uint64_t before = knob_read(node, HUGEPIN_CLASS_2M, "nr_hugepages"), free = node_free_mib(node);
	/* as many as would fit by their bytes with room to spare, and do not for want of ranges */
	uint64_t asked = before + (free - LEFT_MIB) / 4;
	pid_t child = fragment(node, free - LEFT_MIB);

	(void)arg;
	CHECK(node_free_mib(node) > (asked - before) * 2, "the fragmenter keeps too much: %" PRIu64 " MiB are free",
	      node_free_mib(node));
	check_short(node, before, asked, "no further free range of that size");
	end(child);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", asked), 0);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before), 0);
}

/* ---- no free memory ---- */

/* A child that fills the node as far as it goes; here there is no swap. */
static pid_t fill(unsigned int node, uint64_t mib)
{
	unsigned long mask = 1UL << node;
	struct channel channel = channel_open();
	pid_t child = ktap_fork();
	uint64_t at;
	char *start;

	if (child) {
		channel_wait(&channel, 0);
		return child;
	}
	CHECK_OK(syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &mask, 65));
	CHECK_EQ(file_write("/proc/self/oom_score_adj", "1000"), 0);
	start = mmap(NULL, mib * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	for (at = 0; at < mib * MiB; at += PAGE_4K)
		start[at] = 1;
	channel_signal(&channel, 1);
	for (;;)
		pause();
}

static void a_node_without_free_memory_gives_none_and_serves_what_it_has(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 4);
	uint64_t before = knob_read(node, HUGEPIN_CLASS_2M, "nr_hugepages"), free = node_free_mib(node);
	pid_t child = fill(node, free - 64);
	char *start;
	int fd;

	(void)arg;
	check_short(node, before, before + 128, "no more without eating the node's last free memory");
	/* what is reserved is there, whatever else is not */
	fd = region_make_on(node, 4 * PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, 4 * PAGE_2M, PROT_READ | PROT_WRITE);
	CHECK_ZERO(start, 4 * PAGE_2M);
	marks_write(start, 0, 4 * PAGE_2M, 5);
	CHECK_MARKS(start, 0, 4 * PAGE_2M, 5);
	end(child);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before + 128), 0);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before), 0);
}

/* ---- kills for want of memory ---- */

static void enter_small_group(const char *most)
{
	char text[256];

	CHECK_OK(mount("none", "/mnt", "cgroup2", 0, NULL));
	if (!file_read("/mnt/cgroup.controllers", text, sizeof(text)) || !strstr(text, "memory"))
		ktap_skip("no memory controller in this kernel");
	CHECK_EQ(file_write("/mnt/cgroup.subtree_control", "+memory"), 0);
	CHECK_OK(mkdir(GROUP, 0755));
	CHECK_EQ(file_write(GROUP "/memory.max", most), 0);
}

/* Holds a region, a pin of it and one of its own memory, and then wants more than the group may have. */
static void hold_and_be_killed(void)
{
	int device = device_open(), fd;
	uint64_t at, bytes = 64 * MiB;
	char *start, *own;

	CHECK_EQ(file_write(GROUP "/cgroup.procs", "0"), 0);
	fd = region_make(3 * PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, 3 * PAGE_2M, PROT_READ | PROT_WRITE);
	memset(start, 1, 3 * PAGE_2M);
	own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(own != MAP_FAILED, "%s", strerror(errno));
	CHECK_OK(pin_range(device, start, PAGE_2M));
	CHECK_OK(pin_range(device, own, 64 * PAGE_4K));
	for (at = 0; at < bytes; at += PAGE_4K)
		own[at] = 1;
}

/* C030: among the deaths that leave nothing behind. */
static void clients_killed_for_want_of_memory_leave_nothing(const void *arg)
{
	unsigned int round;
	const char *changed;

	(void)arg;
	enter_small_group("33554432");
	reserve_hooks.before();
	for (round = 0; round < 10; round++) {
		pid_t child = ktap_fork();

		if (!child) {
			hold_and_be_killed();
			ktap_exit();
		}
		ktap_join_killed(child, SIGKILL);
		changed = reserve_hooks.after();
		CHECK(!changed, "round %u: %s", round, changed);
	}
	CHECK_OK(rmdir(GROUP));
}

/* A PIN that would bring in more than the group may have ends in a kill or an error, in time, and nothing is held. */
static void a_pin_over_the_groups_limit_holds_nothing(const void *arg)
{
	double start = now();
	const char *changed;
	pid_t child;
	int status;

	(void)arg;
	enter_small_group("33554432");
	reserve_hooks.before();
	child = fork();
	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		char *own;
		int device = device_open();

		CHECK_EQ(file_write(GROUP "/cgroup.procs", "0"), 0);
		own = mmap(NULL, 128 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		_exit(own != MAP_FAILED && pin_range(device, own, 128 * MiB) < 0 ? 0 : 1);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : !WEXITSTATUS(status),
	      "pinned 128 MiB in a group of 32 MiB: status %#x", status);
	CHECK(now() - start < BOUND_S, "it took %.1f s", now() - start);
	changed = reserve_hooks.after();
	CHECK(!changed, "%s", changed);
	CHECK_OK(rmdir(GROUP));
}

/* ---- blocks that shall go offline ---- */

static uint64_t frame_of(const char *address)
{
	int fd = CHECK_OK(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
	uint64_t entry;

	CHECK_EQ(pread(fd, &entry, sizeof(entry), (uintptr_t)address / PAGE_4K * sizeof(entry)), sizeof(entry));
	close(fd);
	return entry & ((1ULL << 55) - 1);
}

static void a_block_with_free_reserve_pages_stays_online(const void *arg)
{
	char path[96], text[32], *start;
	uint64_t block_bytes, frame;
	double began;
	int fd, error;

	(void)arg;
	if (!file_read("/sys/devices/system/memory/block_size_bytes", text, sizeof(text)))
		ktap_skip("this kernel has no memory hotplug");
	block_bytes = strtoull(text, NULL, 16);
	fd = region_make(PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	start[0] = 1;
	frame = frame_of(start);
	CHECK(frame, "no frame number in pagemap");
	CHECK_OK(munmap(start, PAGE_2M));
	close(fd);
	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%llu/state",
		 frame * PAGE_4K / block_bytes);
	began = now();
	error = file_write(path, "offline");
	CHECK(error == -EBUSY || error == -EINTR, "%s: %s", path, strerror(-error));
	CHECK(now() - began < BOUND_S, "it took %.1f s", now() - began);
	CHECK(file_read(path, text, sizeof(text)) && !strcmp(text, "online"), "the block is %s", text);
}

#define CASE(f)	{ .name = #f, .run = f, .timeout_s = 600 }

static const struct ktap_case cases[] = {
	CASE(in_fragments_a_shortfall_is_told_and_mended_when_they_go),
	CASE(a_node_without_free_memory_gives_none_and_serves_what_it_has),
	CASE(clients_killed_for_want_of_memory_leave_nothing),
	CASE(a_pin_over_the_groups_limit_holds_nothing),
	CASE(a_block_with_free_reserve_pages_stays_online),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
