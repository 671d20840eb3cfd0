// SPDX-License-Identifier: MIT
/* Large blocks that come before main() and go after it: from constructors to destructors, and in exit handlers. */
#include <string.h>

#include "expect.h"

#define MIB	((size_t)1 << 20)

static char *block;

static __attribute__((constructor(101))) void begin(void)
{
	block = malloc(3 * MIB);
	EXPECT(block);
	memset(block, 5, 3 * MIB);
}

static __attribute__((destructor(101))) void end(void)
{
	char *last = malloc(2 * MIB);

	EXPECT(last && block[0] == 5 && block[3 * MIB - 1] == 5);
	last[0] = 1;
	free(last);
	free(block);
}

static void at_exit(void)
{
	block = realloc(block, 9 * MIB);
	EXPECT(block && block[3 * MIB - 1] == 5);
}

int main(void)
{
	EXPECT(block[0] == 5);
	EXPECT(!atexit(at_exit));
	puts("ok");
	return 0;
}
