// SPDX-License-Identifier: MIT
/*
 * Fills pages of a node that cannot move, for the tests of hugepinctl explain: buffers of pipes.
 *
 *	fragmenter NODE MIB
 *
 * Says "ready" and waits for a signal. The kernel gathers such pages in few places; several of these with memory
 * filled in between scatter them.
 */
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB	((size_t)1 << 20)

static void die(const char *what)
{
	fprintf(stderr, "fragmenter: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value > max) {
		fprintf(stderr, "fragmenter: '%s' is not a number of up to %lu\n", text, max);
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

int main(int argc, char **argv)
{
	unsigned long mask, mib;

	if (argc != 3) {
		fprintf(stderr, "usage: fragmenter NODE MIB\n");
		return 2;
	}
	mask = 1UL << number(argv[1], 63);
	mib = number(argv[2], 400);
	if (set_mempolicy(MPOL_BIND, &mask, 8 * sizeof(mask)))
		die("the node");
	for (unsigned long i = 0; i < mib; i++)
		fill_pipe();
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
