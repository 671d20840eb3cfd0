// SPDX-License-Identifier: MIT
/* The mapping contract: access from other processes, page walkers, memory policies, background scanners. */
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mapping.h"
#include "module/uapi.h"
#include "reserve.h"

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC	(1 << 15)
#endif
#define LOAD_MS	300	/* how long things run against each other */

/* A child that has the area, marked with @seed, and waits; it checks @expect when let go. */
struct target {
	pid_t pid;
	struct channel channel;
};

static struct target target_start(struct area *area, uint64_t seed, uint64_t expect)
{
	struct target target = { .channel = channel_open() };

	target.pid = ktap_fork();
	if (!target.pid) {
		marks_write(area->start, 0, area->bytes, seed);
		channel_signal(&target.channel, 1);
		channel_wait(&target.channel, 1);
		CHECK_MARKS(area->start, 0, area->bytes, expect);
		ktap_exit();
	}
	channel_wait(&target.channel, 0);
	CHECK_OK(munmap(area->start, area->bytes));	/* no access but through the other */
	return target;
}

static void target_end(const struct target *target)
{
	channel_signal(&target->channel, 0);
	ktap_join(target->pid);
}

/* Reads or writes @bytes at @at in the target by process_vm_* in one piece. */
static void transfer(const struct target *target, char *at, char *buffer, uint64_t bytes, bool write)
{
	struct iovec local = { buffer, bytes }, remote = { at, bytes };
	ssize_t done = write ? process_vm_writev(target->pid, &local, 1, &remote, 1, 0) :
			       process_vm_readv(target->pid, &local, 1, &remote, 1, 0);

	CHECK(done == (ssize_t)bytes, "%zd of %llu bytes: %s", done, (unsigned long long)bytes,
	      done < 0 ? strerror(errno) : "short");
}

static void process_vm_readv_and_writev_reach_it(struct area *area)
{
	/* from the end of the first page on, so that one transfer meets pages of both classes where there are both */
	uint64_t base = area->page - PAGE_2M, bytes = area->bytes - base;
	char *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *view;
	struct target target = target_start(area, 50, 51);

	CHECK(buffer != MAP_FAILED, "%s", strerror(errno));
	view = region_map(area->fd, 0, area->bytes, PROT_READ | PROT_WRITE);
	transfer(&target, area->start + base, buffer, bytes, false);
	CHECK(!memcmp(buffer, view + base, bytes), "what was read is not what is there");
	marks_write(view, 0, area->bytes, 51);
	memcpy(buffer, view + base, bytes);
	memset(view + base, 0, bytes);
	transfer(&target, area->start + base, buffer, bytes, true);
	target_end(&target);	/* it finds all the new marks */
}

static void proc_mem_reaches_it(struct area *area)
{
	struct target target = target_start(area, 52, 52);
	uint64_t words[8], again[8];
	const uint64_t offsets[] = { 0, area->page - 32, area->page + PAGE_4K - 8, area->bytes - sizeof(words) };
	char path[64];
	unsigned int i;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", target.pid);
	fd = CHECK_OK(open(path, O_RDWR));
	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		off_t at = (uintptr_t)area->start + offsets[i];

		CHECK_EQ(pread(fd, words, sizeof(words), at), sizeof(words));
		CHECK_EQ(pwrite(fd, words, sizeof(words), at), sizeof(words));
		CHECK_EQ(pread(fd, again, sizeof(again), at), sizeof(again));
		CHECK(!memcmp(words, again, sizeof(words)), "other bytes at %#llx", (unsigned long long)offsets[i]);
	}
	CHECK_EQ(pread(fd, words, 8, (uintptr_t)area->start), 8);
	CHECK(words[0] == *(uint64_t *)region_map(area->fd, 0, PAGE_2M, PROT_READ), "not the region's bytes");
	target_end(&target);
}

static void a_debugger_reads_and_writes_it(struct area *area)
{
	struct target target = target_start(area, 53, 53);
	char *at = area->start + area->page + 24, *view;
	int status;
	const long mark = 0x12345678;
	long word;

	CHECK_OK(ptrace(PTRACE_SEIZE, target.pid, NULL, NULL));
	CHECK_OK(ptrace(PTRACE_INTERRUPT, target.pid, NULL, NULL));
	CHECK_EQ(waitpid(target.pid, &status, __WALL), target.pid);
	CHECK_OK(ptrace(PTRACE_POKEDATA, target.pid, at, (void *)mark));
	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, target.pid, at, NULL);
	CHECK(!errno && word == mark, "%#lx %s", word, strerror(errno));
	view = region_map(area->fd, 0, area->bytes, PROT_READ);
	CHECK_EQ(*(long *)(view + area->page + 24), mark);
	CHECK_OK(ptrace(PTRACE_DETACH, target.pid, NULL, NULL));
	target_end(&target);
}

/* ---- core dumps ---- */

#define SIGN_WORDS	16

static void sign(volatile uint64_t *words, uint64_t seed)
{
	unsigned int i;

	for (i = 0; i < SIGN_WORDS; i++)
		words[i] = (i + 1) * 0x9e3779b97f4a7c15ULL ^ seed;
}

static bool file_contains(const char *path, uint64_t seed)
{
	int fd = CHECK_OK(open(path, O_RDONLY));
	uint64_t words[SIGN_WORDS];
	struct stat st;
	char *content;
	bool found;

	sign(words, seed);
	CHECK_OK(fstat(fd, &st));
	content = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(content != MAP_FAILED, "%s", strerror(errno));
	found = memmem(content, st.st_size, words, sizeof(words));
	munmap(content, st.st_size);
	close(fd);
	return found;
}

/* Where nothing may be touched a debugger may all the same, if the kernel lets it. It is answered in either case. */
static void a_debugger_gets_an_answer_where_nothing_may_be_touched(struct area *area)
{
	int memory = CHECK_OK(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
	char *untouched = region_map(area->fd, 0, area->bytes, PROT_NONE);
	char *const places[] = { area->start, untouched };
	uint64_t offset = area->bytes - PAGE_4K;
	unsigned int i;
	char byte;

	area->start[PAGE_4K] = 5;
	area->start[offset] = 6;
	CHECK_OK(mprotect(area->start, area->bytes, PROT_NONE));
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		if (pread(memory, &byte, 1, (uintptr_t)places[i] + PAGE_4K) == 1)
			CHECK_EQ(byte, 5);
		if (pread(memory, &byte, 1, (uintptr_t)places[i] + offset) == 1)
			CHECK_EQ(byte, 6);
		CHECK_EQ(read_signal(places[i] + PAGE_4K), SIGSEGV);
	}
	CHECK_OK(mprotect(area->start, area->bytes, PROT_READ | PROT_WRITE));
	CHECK_EQ(area->start[PAGE_4K], 5);
}

static void core_dumps_leave_it_out(struct area *area)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	struct stat st;
	pid_t child;

	CHECK_OK(mount("none", "/mnt", "tmpfs", 0, NULL));
	if (file_write("/proc/sys/kernel/core_pattern", "/mnt/core"))
		ktap_skip("no core dumps: %s", strerror(errno));
	file_write("/proc/sys/kernel/core_uses_pid", "0");
	child = ktap_fork();
	if (!child) {
		char *own = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK_OK(setrlimit(RLIMIT_CORE, &unlimited));
		sign((volatile uint64_t *)(area->start + PAGE_4K), 111);
		sign((volatile uint64_t *)(area->start + area->bytes - PAGE_4K), 111);
		sign((volatile uint64_t *)own, 222);
		abort();
	}
	ktap_join_killed(child, SIGABRT);
	CHECK_OK(stat("/mnt/core", &st));
	CHECK(file_contains("/mnt/core", 222), "the core lacks the program's own memory, so this shows nothing");
	CHECK(!file_contains("/mnt/core", 111), "the core has the region");
	CHECK((uint64_t)st.st_size < 64 * MiB, "the core has %lld bytes", (long long)st.st_size);
}

/* ---- walkers ---- */

static void read_all(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char buffer[16384];

	if (fd < 0)
		return;
	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
	close(fd);
}

static void walk_pagemap(pid_t pid, const struct area *area)
{
	uint64_t entries[512], offset;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	for (offset = 0; offset < area->bytes; offset += 64 * MiB)
		if (pread(fd, entries, sizeof(entries), ((uintptr_t)area->start + offset) / PAGE_4K * 8) < 0)
			break;
	close(fd);
}

static void walk_forever(pid_t pid, const struct area *area)
{
	static const char * const files[] = { "smaps", "smaps_rollup", "numa_maps", "maps", "status", "oom_score" };
	static const char * const clears[] = { "1", "3", "4", "5" };	/* referenced, file, soft-dirty, peak */
	char path[64];
	unsigned int i, round;

	for (round = 0;; round++) {
		for (i = 0; i < ARRAY_SIZE(files); i++) {
			snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
			read_all(path);
		}
		walk_pagemap(pid, area);
		snprintf(path, sizeof(path), "/proc/%d/clear_refs", pid);
		file_write(path, clears[round % ARRAY_SIZE(clears)]);
	}
}

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Works on the area for LOAD_MS in ways that make and drop entries. */
static void work_on_area(struct area *area, bool advise)
{
	static unsigned char resident[2 * GiB / PAGE_4K];
	long long end = now_ms() + LOAD_MS;
	unsigned int seed = 1, rounds = 0;

	while (now_ms() < end || rounds < 3) {
		uint64_t at = rand_r(&seed) % (area->bytes / PAGE_2M) * PAGE_2M;

		marks_write(area->start, 0, area->bytes, 1000 + rounds);
		if (advise)
			CHECK_OK(madvise(area->start + at, PAGE_2M, MADV_DONTNEED));
		CHECK_OK(mincore(area->start, area->bytes, resident));
		CHECK_MARKS(area->start, 0, area->bytes, 1000 + rounds);
		rounds++;
	}
}

static void walkers_do_no_harm(struct area *area)
{
	pid_t parent = getpid(), child = ktap_fork();

	if (!child)
		walk_forever(parent, area);
	work_on_area(area, true);
	kill(child, SIGKILL);
	ktap_join_killed(child, SIGKILL);
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	check_huge_entries(area, area->start, 0, area->bytes);
}

static void smaps_counts_the_area(struct area *area)
{
	unsigned long from, to;
	char line[512];
	bool inside = false, flags = false;
	FILE *file;

	marks_write(area->start, 0, area->bytes, 54);
	file = fopen("/proc/self/smaps", "re");
	CHECK(file, "%s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from == (uintptr_t)area->start && to == from + area->bytes;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			flags = strstr(line, " de") && strstr(line, " dd") && strstr(line, " sh");
	}
	fclose(file);
	CHECK(flags, "no area of that length with the flags de (no growing), dd (no dump), sh (shared)");
	CHECK_MARKS(area->start, 0, area->bytes, 54);
}

/* ---- userfaultfd, policies, background scanners ---- */

static int userfault_open(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 && errno == ENOSYS)
		ktap_skip("this kernel has no userfaultfd");
	CHECK(fd >= 0, "userfaultfd: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int userfault_register(int fd, const struct area *area, uint64_t mode)
{
	struct uffdio_register range = {
		.range = { .start = (uintptr_t)area->start, .len = area->bytes }, .mode = mode,
	};

	return ioctl(fd, UFFDIO_REGISTER, &range) ? -errno : 0;
}

static void userfaultfd_cannot_hold_up_faults(struct area *area)
{
	int fd = userfault_open(0);

	CHECK_EQ(userfault_register(fd, area, UFFDIO_REGISTER_MODE_MISSING), -EINVAL);
	CHECK_EQ(userfault_register(fd, area, UFFDIO_REGISTER_MODE_WP), -EINVAL);
	CHECK(userfault_register(fd, area, UFFDIO_REGISTER_MODE_MINOR) < 0, "minor faults were registered");
	marks_write(area->start, 0, area->bytes, 55);
	CHECK_MARKS(area->start, 0, area->bytes, 55);
}

/* The one kind that newer kernels take on any memory: tracking writes, resolved by the kernel itself. */
static void write_tracking_keeps_bytes_and_writes(struct area *area)
{
	struct uffdio_writeprotect protect = {
		.range = { .start = (uintptr_t)area->start, .len = area->bytes },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	int fd = userfault_open(UFFD_FEATURE_WP_ASYNC), error;

	if (fd < 0)
		ktap_skip("this kernel does not track writes asynchronously");
	marks_write(area->start, 0, area->bytes, 56);
	error = userfault_register(fd, area, UFFDIO_REGISTER_MODE_WP);
	if (!error && ioctl(fd, UFFDIO_WRITEPROTECT, &protect))
		ktap_note("UFFDIO_WRITEPROTECT: %s", strerror(errno));
	CHECK_MARKS(area->start, 0, area->bytes, 56);
	marks_write(area->start, 0, area->bytes, 57);
	CHECK_MARKS(area->start, 0, area->bytes, 57);
	close(fd);
	marks_write(area->start, 0, area->bytes, 58);
	CHECK_MARKS(area->start, 0, area->bytes, 58);
}

/* Node of the first page as the test module sees it, or -1 without it. */
static int node_of(const struct area *area)
{
	struct hugepin_test_pages pages = { .size = sizeof(pages), .addr = (uintptr_t)area->start, .bytes = PAGE_4K };
	int fd = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	CHECK_OK(ioctl(fd, HUGEPIN_TEST_IOC_PAGES, &pages));
	close(fd);
	return pages.node;
}

static void policies_move_nothing(struct area *area)
{
	unsigned long other, all = 3;
	void *pages[3] = { area->start, area->start + area->page, area->start + area->bytes - PAGE_4K };
	int where, status[3], targets[3], i;
	unsigned int nodes[2];

	if (reserve_nodes(nodes, 2) < 2)
		ktap_skip("one node");
	marks_write(area->start, 0, area->bytes, 59);
	where = node_of(area);
	other = 1UL << (where == (int)nodes[0] ? nodes[1] : nodes[0]);
	for (i = 0; i < 3; i++)
		targets[i] = __builtin_ctzl(other);

	/* any answer is fine, none may have an effect */
	syscall(SYS_mbind, area->start, area->bytes, MPOL_BIND, &other, 64UL, MPOL_MF_MOVE);
	syscall(SYS_mbind, area->start, area->bytes, MPOL_BIND, &other, 64UL, MPOL_MF_MOVE_ALL | MPOL_MF_STRICT);
	syscall(SYS_mbind, area->start + PAGE_4K, PAGE_4K, MPOL_BIND, &other, 64UL, MPOL_MF_MOVE);
	syscall(SYS_move_pages, 0, 3UL, pages, NULL, status, 0);
	syscall(SYS_move_pages, 0, 3UL, pages, targets, status, MPOL_MF_MOVE_ALL);
	syscall(SYS_migrate_pages, 0, 64UL, &all, &other);
	CHECK_EQ(node_of(area), where);
	CHECK_MARKS(area->start, 0, area->bytes, 59);

	CHECK_OK(syscall(SYS_set_mempolicy, MPOL_BIND, &other, 64UL));
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	CHECK_MARKS(area->start, 0, area->bytes, 59);
	CHECK_EQ(node_of(area), where);
}

static void background_scanners_do_no_harm(struct area *area)
{
	/* what the kernel does not have is not tested; the hooks put all of these back */
	file_write("/proc/sys/kernel/numa_balancing", "1");
	file_write("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "1");
	if (!file_write("/sys/kernel/mm/ksm/run", "1"))
		madvise(area->start, area->bytes, MADV_MERGEABLE);
	work_on_area(area, false);
}

static void compaction_does_no_harm(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 60);
	if (file_write("/proc/sys/vm/compact_memory", "1"))
		ktap_skip("this kernel has no compaction");
	CHECK_EQ(file_write("/proc/sys/vm/drop_caches", "3"), 0);
	CHECK_MARKS(area->start, 0, area->bytes, 60);
}

/* Where the region's first page is in memory, in base pages. pagemap does not show 1G entries, so in smaller ones. */
static uint64_t first_frame(const struct area *area)
{
	int file = CHECK_OK(open("/proc/self/pagemap", O_RDONLY));
	char *start = region_map(area->fd, 0, PAGE_2M, PROT_READ);
	uint64_t entry;

	CHECK_EQ(read_signal(start), 0);
	CHECK_EQ(pread(file, &entry, sizeof(entry), (uintptr_t)start / PAGE_4K * sizeof(entry)), sizeof(entry));
	CHECK_OK(munmap(start, PAGE_2M));
	close(file);
	CHECK(entry >> 63, "pagemap does not show the page: %#llx", (unsigned long long)entry);
	return entry & ((1ULL << 55) - 1);
}

#define PAGEMAP_SOFT_DIRTY	(1ULL << 55)
#define PAGEMAP_PRESENT		(1ULL << 63)

static bool pagemap_has(int pagemap, const char *addr, uint64_t flag)
{
	uint64_t entry;

	CHECK_EQ(pread(pagemap, &entry, sizeof(entry), (uintptr_t)addr / PAGE_4K * sizeof(entry)), sizeof(entry));
	return entry & flag;
}

/* A region of its own that is larger than what one fault maps. */
static void a_touch_maps_the_2m_pages_around(struct area *area)
{
	uint64_t bytes = FAULT_AROUND + 2 * PAGE_2M, at, touched = bytes / 2;
	int file = CHECK_OK(open("/proc/self/pagemap", O_RDONLY)), fd;
	char *start;

	if (area->bytes_1g)
		ktap_skip("the same for every region's 2M pages");
	fd = region_make(bytes, CLASS_2M);
	start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);
	CHECK_EQ(read_signal(start + touched), 0);
	for (at = 0; at < bytes; at += PAGE_2M) {
		bool mapped = pagemap_has(file, start + at, PAGEMAP_PRESENT);

		CHECK(mapped == ((uintptr_t)(start + at) / FAULT_AROUND == (uintptr_t)(start + touched) / FAULT_AROUND),
		      "%p was touched, and %p is %smapped", start + touched, start + at, mapped ? "" : "not ");
	}
	close(fd);
	close(file);
}

/* Dumpers that copy what was written since they looked (CRIU) go by this. */
static void a_write_dirties_no_page_around(struct area *area)
{
	int file = CHECK_OK(open("/proc/self/pagemap", O_RDONLY));
	char *page = area->start + area->bytes_1g;
	uint64_t at;

	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	if (file_write("/proc/self/clear_refs", "4"))
		ktap_skip("clear_refs cannot be written");
	page[PAGE_2M] = 1;
	if (!pagemap_has(file, page + PAGE_2M, PAGEMAP_SOFT_DIRTY))
		ktap_skip("this kernel does not track writes in pagemap");
	for (at = 0; at < area->bytes - area->bytes_1g; at += PAGE_2M)
		CHECK_EQ(pagemap_has(file, page + at, PAGEMAP_SOFT_DIRTY), at == PAGE_2M);
	page[0] = 1;		/* by itself, although it is mapped by now */
	CHECK(pagemap_has(file, page, PAGEMAP_SOFT_DIRTY), "a write went unseen");
	marks_write(area->start, 0, area->bytes, 62);
	CHECK_MARKS(area->start, 0, area->bytes, 62);
	close(file);
}

/*
 * C059: the block's other pages may be moved out, ours stay. A block with a hole in it, or in two zones, the kernel
 * refuses without looking at its pages: -EINVAL. Which block ours lie in is not ours to say.
 */
static void memory_with_its_pages_is_not_taken_offline(struct area *area)
{
	char path[96], text[32];
	int err;

	marks_write(area->start, 0, area->bytes, 61);
	if (!file_read("/sys/devices/system/memory/block_size_bytes", text, sizeof(text)))
		ktap_skip("this kernel has no memory hotplug");
	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%llu/state",
		 first_frame(area) * PAGE_4K / strtoull(text, NULL, 16));
	err = file_write(path, "offline");
	CHECK(err == -EBUSY || err == -EINVAL, "%s: %d", path, err);
	if (err == -EINVAL)
		ktap_note("%s: refused for the block itself", path);
	CHECK(file_read(path, text, sizeof(text)) && !strcmp(text, "online"), "%s: %s", path, text);
	CHECK_MARKS(area->start, 0, area->bytes, 61);
}

const struct mapping_row mapping_peek_rows[] = {
	ROW(process_vm_readv_and_writev_reach_it),
	ROW(proc_mem_reaches_it),
	ROW(a_debugger_reads_and_writes_it),
	ROW(a_debugger_gets_an_answer_where_nothing_may_be_touched),
	ROW(core_dumps_leave_it_out),
	ROW(walkers_do_no_harm),
	ROW(smaps_counts_the_area),
	ROW(userfaultfd_cannot_hold_up_faults),
	ROW(write_tracking_keeps_bytes_and_writes),
	ROW(policies_move_nothing),
	ROW(background_scanners_do_no_harm),
	ROW(compaction_does_no_harm),
	ROW(a_touch_maps_the_2m_pages_around),
	ROW(a_write_dirties_no_page_around),
	ROW(memory_with_its_pages_is_not_taken_offline),
	{ NULL, NULL },
};
