// SPDX-License-Identifier: MIT
/*
 * fragment NODE MIB - take so much of the node's memory in base pages, keep one of each 2 MiB where it cannot be moved,
 * let the rest go, say "ready PAGES" and wait to be killed: the node then has much free memory and hardly a free range.
 * What keeps a page is a reference from a pipe (vmsplice), which neither reclaim nor compaction gets past.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_4K		4096UL
#define BLOCK_PAGES	512UL		/* of 2 MiB */
#define PIPE_PAGES	16		/* what a pipe has room for, unasked */
#define FRAMES		((1UL << 55) - 1)

static void die(const char *what)
{
	fprintf(stderr, "fragment: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void keep(char *page)
{
	static unsigned int kept;
	static int ends[2];
	struct iovec vector = { page, PAGE_4K };

	if (kept++ % PIPE_PAGES == 0 && pipe(ends))
		die("pipe");
	if (vmsplice(ends[1], &vector, 1, 0) != (ssize_t)PAGE_4K)
		die("vmsplice");
}

/* One of each block of physical memory, told by the frame numbers. */
static unsigned long keep_one_of_each_block(char *start, uint64_t bytes)
{
	static uint64_t entries[BLOCK_PAGES];
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	unsigned char *seen;
	unsigned long kept = 0, i;
	uint64_t at;

	seen = calloc(1, 1UL << 20);		/* blocks of 2 TiB */
	if (fd < 0 || !seen)
		die("pagemap");
	for (at = 0; at < bytes; at += sizeof(entries) / 8 * PAGE_4K) {
		if (pread(fd, entries, sizeof(entries), ((uintptr_t)start + at) / PAGE_4K * 8) != sizeof(entries))
			die("pagemap");
		for (i = 0; i < BLOCK_PAGES; i++) {
			uint64_t block = (entries[i] & FRAMES) / BLOCK_PAGES;

			if (!block || block >= 1UL << 20 || seen[block])
				continue;
			seen[block] = 1;
			keep(start + at + i * PAGE_4K);
			kept++;
		}
	}
	close(fd);
	free(seen);
	return kept;
}

int main(int argc, char **argv)
{
	unsigned long node = argc == 3 ? strtoul(argv[1], NULL, 10) : 64, mask, kept;
	uint64_t bytes = argc == 3 ? strtoull(argv[2], NULL, 10) << 20 : 0, at;
	char *start;

	if (node >= 64 || !bytes || bytes % (BLOCK_PAGES * PAGE_4K)) {
		fprintf(stderr, "usage: fragment NODE MIB   (an even number)\n");
		return 2;
	}
	mask = 1UL << node;
	if (syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 65))
		die("set_mempolicy");
	start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED)
		die("mmap");
	madvise(start, bytes, MADV_NOHUGEPAGE);
	for (at = 0; at < bytes; at += PAGE_4K)
		start[at] = 1;
	kept = keep_one_of_each_block(start, bytes);
	munmap(start, bytes);
	printf("ready %lu\n", kept);
	fflush(stdout);
	for (;;)
		pause();
}
