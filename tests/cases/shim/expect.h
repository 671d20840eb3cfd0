/* SPDX-License-Identifier: MIT */
/* For small programs that say what went wrong and end with 1. */
#ifndef SHIM_TEST_EXPECT_H
#define SHIM_TEST_EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(what)                                                                                                   \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                             \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

#define EXPECT_CODE(call, wanted)                                                                                      \
	do {                                                                                                           \
		int expect_code = (call), expect_wanted = (wanted);                                                    \
		if (expect_code != expect_wanted) {                                                                    \
			fprintf(stderr, "%s:%d: %s is %d instead of %d\n", __FILE__, __LINE__, #call,            \
				expect_code, expect_wanted);                                                           \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

#endif /* SHIM_TEST_EXPECT_H */
