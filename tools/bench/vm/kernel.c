// SPDX-License-Identifier: MIT
/*
 * What people use instead of regions: the kernel's own huge pages and base pages, by nothing but system calls. All are
 * ready when the call returns, as a region is: hugetlb pages by MAP_POPULATE, the others by the advice that does the
 * same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "vm.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT		26
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE	23
#endif

const struct peer peer_hugetlb_2m = { .name = "hugetlb 2M", .huge_shift = 21 };
const struct peer peer_hugetlb_1g = { .name = "hugetlb 1G", .huge_shift = 30 };
const struct peer peer_thp = { .name = "THP", .advice = MADV_HUGEPAGE };
const struct peer peer_base = { .name = "base pages", .advice = MADV_NOHUGEPAGE };

static void *map(uint64_t bytes, int flags)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* From a 2M boundary on, so that all of it can be huge; what was mapped before it stays until the end. */
static void *map_advised(const struct peer *peer, uint64_t bytes)
{
	char *memory = map(bytes + MIB(2), 0);

	if (!memory)
		return NULL;
	memory += -(uintptr_t)memory % MIB(2);
	if (madvise(memory, bytes, peer->advice) || madvise(memory, bytes, MADV_POPULATE_WRITE)) {
		peer_unmap(memory, bytes);
		return NULL;
	}
	return memory;
}

void *peer_map(const struct peer *peer, uint64_t bytes)
{
	void *memory = peer->huge_shift ?
		       map(bytes, MAP_HUGETLB | (int)(peer->huge_shift << MAP_HUGE_SHIFT) | MAP_POPULATE) :
		       map_advised(peer, bytes);

	if (!memory)
		complain("%" PRIu64 " bytes of %s: %s", bytes, peer->name, strerror(errno));
	return memory;
}

void peer_unmap(void *memory, uint64_t bytes)
{
	munmap(memory, bytes);
}

int knob_read(const char *path, uint64_t *value)
{
	FILE *file = fopen(path, "re");
	int n;

	if (!file)
		return complain("%s: %s", path, strerror(errno));
	n = fscanf(file, "%" SCNu64, value);
	fclose(file);
	return n == 1 ? 0 : complain("%s: no number", path);
}

int knob_write(const char *path, uint64_t value)
{
	FILE *file = fopen(path, "we");
	int failed;

	if (!file)
		return complain("%s: %s", path, strerror(errno));
	failed = fprintf(file, "%" PRIu64 "\n", value) < 0;
	failed |= fclose(file);
	return failed ? complain("%s: %" PRIu64 ": %s", path, value, strerror(errno)) : 0;
}

int peer_reserve(const struct peer *peer, uint64_t bytes)
{
	uint64_t pages = bytes >> peer->huge_shift, got;
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/hugepages/hugepages-%ukB/nr_hugepages", NODE,
		 1u << (peer->huge_shift - 10));
	if (knob_write(path, pages) || knob_read(path, &got))
		return -1;
	if (got >= pages)
		return 0;
	knob_write(path, 0);
	return complain("%s: %" PRIu64 " pages asked, %" PRIu64 " got", peer->name, pages, got);
}
