// SPDX-License-Identifier: MIT
/*
 * Scatters pages that cannot move over a node, for the tests of hugepinctl explain: buffers of pipes.
 *
 *	fragmenter NODE FILL_MIB STEP_MIB BURST_MIB
 *
 * The kernel gathers such pages in few places. So memory is filled with ordinary pages step by step, with a burst of pipe
 * buffers after each, large enough that the kernel has to open a new place for them; then the ordinary pages are given
 * back. Says "ready" and waits for a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB		((size_t)1 << 20)
#define STEPS_MAX	1024

static void die(const char *what)
{
	fprintf(stderr, "fragmenter: %s: %s\n", what, strerror(errno));
	exit(1);
}

static size_t number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!*text || *end || value > 1UL << 20) {
		fprintf(stderr, "fragmenter: '%s' is not a number of up to %lu\n", text, 1UL << 20);
		exit(2);
	}
	return value;
}

/* One MiB in a pipe; its descriptors stay open until the process ends. */
static void fill_pipe(void)
{
	static const char bytes[MIB];
	int fds[2];

	if (pipe(fds) || fcntl(fds[1], F_SETPIPE_SZ, (int)MIB) < 0)
		die("a pipe of 1 MiB");
	if (write(fds[1], bytes, MIB) != (ssize_t)MIB)
		die("writing to a pipe");
}

static void *fill_memory(size_t bytes)
{
	void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		die("memory");
	madvise(addr, bytes, MADV_HUGEPAGE);
	if (madvise(addr, bytes, MADV_POPULATE_WRITE))
		die("filling memory");
	return addr;
}

int main(int argc, char **argv)
{
	void *filled[STEPS_MAX];
	size_t fill, step, burst, steps;
	unsigned long mask;

	if (argc != 5) {
		fprintf(stderr, "usage: fragmenter NODE FILL_MIB STEP_MIB BURST_MIB\n");
		return 2;
	}
	mask = 1UL << number(argv[1]) % 64;
	fill = number(argv[2]);
	step = number(argv[3]);
	burst = number(argv[4]);
	steps = step ? fill / step : 0;
	if (!steps || steps > STEPS_MAX) {
		fprintf(stderr, "fragmenter: 1 to %d steps\n", STEPS_MAX);
		return 2;
	}
	if (set_mempolicy(MPOL_BIND, &mask, 8 * sizeof(mask)))
		die("the node");
	for (size_t i = 0; i < steps; i++) {
		filled[i] = fill_memory(step * MIB);
		for (size_t n = 0; n < burst; n++)
			fill_pipe();
	}
	for (size_t i = 0; i < steps; i++)
		munmap(filled[i], step * MIB);
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
