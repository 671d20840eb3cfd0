// SPDX-License-Identifier: MIT
/* What a process does to areas that map regions, dma-bufs and memory of its own. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "world.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#define MADV_GUARD_INSTALL_	102
#define MADV_GUARD_REMOVE_	103

static long answer_of(long answer)
{
	return answer < 0 ? -errno : answer;
}

static long map_region(struct world *w)
{
	static const int kinds[] = { MAP_SHARED, MAP_SHARED, MAP_SHARED, MAP_SHARED_VALIDATE, MAP_PRIVATE };
	static const int more[] = { 0, 0, 0, 0, MAP_POPULATE, MAP_LOCKED, MAP_NORESERVE, MAP_NONBLOCK };
	static const int fixed[] = { 0, 0, 0, MAP_FIXED, MAP_FIXED_NOREPLACE };
	uint64_t bytes = some_bytes(w), offset = chance(w, 75) ? 0 : some_bytes(w);
	int flags = ONE_OF(w, kinds) | ONE_OF(w, more) | ONE_OF(w, fixed);
	int protection = chance(w, 70) ? PROT_READ | PROT_WRITE : (int)below(w, 8);
	char *hint = chance(w, 50) || flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) ? some_address(w) : NULL;
	char *start = mmap(hint, bytes, protection, flags, some_fd(w, chance(w, 90) ? REGION : DMABUF), offset);

	if (start == MAP_FAILED)
		return -errno;
	keep_area(w, start, bytes);
	return 0;
}

/* Base pages, 2M pages by chance (THP). */
static long map_memory(struct world *w)
{
	uint64_t bytes = PAGE_4K << below(w, 11);
	char *start = mmap(chance(w, 50) ? some_address(w) : NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_ANONYMOUS | (chance(w, 70) ? MAP_PRIVATE : MAP_SHARED), -1, 0);

	if (start == MAP_FAILED)
		return -errno;
	keep_area(w, start, bytes);
	return 0;
}

/* A part of an area, at whole pages mostly; false: there is none. */
static bool some_part(struct world *w, char **start, uint64_t *bytes)
{
	struct area *area = some_area(w);
	uint64_t unit = chance(w, 80) ? PAGE_2M : PAGE_4K, units, first;

	if (!area)
		return false;
	*start = area->start;
	*bytes = area->bytes;
	units = area->bytes / unit;
	if (units < 2 || chance(w, 40))
		return true;
	first = below(w, units);
	*start += unit * first;
	*bytes = unit * (1 + below(w, units - first));
	/* beyond the end only where nothing of the fuzzer's own can be */
	if (in_window(*start) && chance(w, 5))
		*bytes += PAGE_2M;
	return true;
}

static long unmap(struct world *w)
{
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	return answer_of(munmap(start, bytes));
}

static long remap(struct world *w)
{
	static const int flags[] = {
		0, MREMAP_MAYMOVE, MREMAP_MAYMOVE, MREMAP_MAYMOVE | MREMAP_FIXED, MREMAP_MAYMOVE | MREMAP_FIXED,
		MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, MREMAP_FIXED,
	};
	char *start, *to = some_address(w), *moved;
	uint64_t bytes, new_bytes;
	int how = ONE_OF(w, flags);

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	new_bytes = chance(w, 70) ? bytes : some_bytes(w);
	moved = mremap(start, chance(w, 95) ? bytes : 0, new_bytes, how, to);
	if (moved == MAP_FAILED)
		return -errno;
	keep_area(w, moved, new_bytes);
	return 0;
}

static long protect(struct world *w)
{
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	return answer_of(mprotect(start, bytes, below(w, 4) | (chance(w, 5) ? PROT_EXEC : 0)));
}

/*
 * Not MADV_WIPEONFORK: hugepin's areas refuse it, and of moved anonymous memory it leaves a child an area that 7.3 warns
 * of when it is split (Documentation/testing.md).
 */
static long advise(struct world *w)
{
	static const int advice[] = {
		MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE, MADV_REMOVE, MADV_DONTFORK,
		MADV_DOFORK, MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP,
		MADV_KEEPONFORK, MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
		MADV_COLLAPSE, MADV_GUARD_INSTALL_, MADV_GUARD_REMOVE_,
	};
	int how = ONE_OF(w, advice);
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	/* guards are installed page by page whether the process is killed or not: terabytes of anonymous memory take hours */
	if (how == MADV_GUARD_INSTALL_ && bytes > PAGE_1G)
		bytes = PAGE_1G;
	return answer_of(madvise(start, bytes, how));
}

static long read_memory(struct world *w)
{
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes) || bytes > 4 * PAGE_2M)
		return -EINVAL;
	return touch(start, bytes, chance(w, 80) ? PAGE_2M : 16 * PAGE_4K, false);
}

static long write_memory(struct world *w)
{
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes) || bytes > 4 * PAGE_2M)
		return -EINVAL;
	return touch(start, bytes, chance(w, 80) ? PAGE_2M : 16 * PAGE_4K, true);
}

static long lock(struct world *w)
{
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	if (chance(w, 50))
		return answer_of(munlock(start, bytes));
	return answer_of(chance(w, 50) ? mlock(start, bytes) : mlock2(start, bytes, MLOCK_ONFAULT));
}

static long sync_memory(struct world *w)
{
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	return answer_of(msync(start, bytes, 1 + below(w, 6)));
}

static long resident(struct world *w)
{
	static unsigned char map[4096];
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes) || bytes > sizeof(map) * PAGE_4K)
		return -EINVAL;
	return answer_of(mincore(start, bytes, map));
}

static long place(struct world *w)
{
	unsigned long nodes = 1 + below(w, 3);
	char *start;
	uint64_t bytes;
	void *page;
	int node = below(w, 3), status;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	page = start;
	if (chance(w, 50))
		return answer_of(syscall(SYS_mbind, start, bytes, below(w, 5), &nodes, 3, below(w, 8)));
	return answer_of(syscall(SYS_move_pages, 0, 1L, &page, chance(w, 50) ? &node : NULL, &status, MPOL_MF_MOVE));
}

/* Another's way to the memory: its own process, by number. */
static long copy_across(struct world *w)
{
	static char bytes_of_mine[8192];
	struct iovec mine = { bytes_of_mine, sizeof(bytes_of_mine) }, theirs;
	char *start;
	uint64_t bytes;
	size_t i;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	theirs = (struct iovec){ start, bytes };
	if (chance(w, 50)) {
		theirs.iov_base = start + below(w, bytes);
		theirs.iov_len = 1 + below(w, start + bytes - (char *)theirs.iov_base);
	}
	for (i = 0; i < sizeof(bytes_of_mine); i++)
		bytes_of_mine[i] = PATTERN;
	return answer_of(chance(w, 50) ? process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) :
			 process_vm_writev(getpid(), &mine, 1, &theirs, 1, 0));
}

/* The word is PATTERN or 0, and nobody wakes anybody: it returns at once or when the time is up. */
static long futex(struct world *w)
{
	struct timespec soon = { 0, 1000 };
	char *start;
	uint64_t bytes;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	return answer_of(syscall(SYS_futex, start, chance(w, 60) ? FUTEX_WAKE : FUTEX_WAIT, 0, &soon, NULL, 0));
}

static long map_table(struct world *w)
{
	static uint64_t entries[1024];
	char *start;
	uint64_t bytes;
	int fd, result;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	fd = open(chance(w, 70) ? "/proc/self/pagemap" : chance(w, 50) ? "/proc/self/smaps" : "/proc/self/numa_maps",
		  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	result = pread(fd, entries, sizeof(entries), chance(w, 70) ? (uintptr_t)start / PAGE_4K * 8 : 0);
	if (result < 0)
		result = -errno;
	close(fd);
	return result;
}

static long watch(struct world *w)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .mode = 1 + below(w, 7) };
	char *start;
	uint64_t bytes;
	long result;
	int fd;

	if (!some_part(w, &start, &bytes))
		return -EINVAL;
	fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	area.range.start = (uintptr_t)start;
	area.range.len = bytes;
	result = ioctl(fd, UFFDIO_API, &api) ? -errno : answer_of(ioctl(fd, UFFDIO_REGISTER, &area));
	close(fd);	/* or a touch of the area would wait for us for ever */
	return result;
}

const struct op memory_ops[] = {
	{ "mmap", 110, map_region }, { "mmap_memory", 20, map_memory }, { "munmap", 50, unmap },
	{ "mremap", 40, remap }, { "mprotect", 30, protect }, { "madvise", 60, advise },
	{ "read_memory", 50, read_memory }, { "write_memory", 50, write_memory }, { "mlock", 15, lock },
	{ "msync", 10, sync_memory }, { "mincore", 10, resident }, { "mbind", 6, place },
	{ "process_vm", 10, copy_across }, { "futex", 15, futex }, { "pagemap", 8, map_table },
	{ "userfaultfd", 8, watch }, { NULL, 0, NULL },
};
