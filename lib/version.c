// SPDX-License-Identifier: MIT
/*
 * The version that is linked in, where the header's macros are the version compiled against.
 */
#include "hugepin.h"

#define TEXT(n)		#n
#define DOTTED(a, b, c)	TEXT(a) "." TEXT(b) "." TEXT(c)

const char *hugepin_version(void)
{
	return DOTTED(HUGEPIN_VERSION_MAJOR, HUGEPIN_VERSION_MINOR, HUGEPIN_VERSION_PATCH);
}
