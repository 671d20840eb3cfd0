// SPDX-License-Identifier: MIT
/*
 * Holds a region, for the tests of hugepinctl ps.
 *
 *	holder NAME|- MIB [leave|unlink]
 *
 * Makes a region, with a name or (-) without, and maps it; says "ready" and waits for a signal. With "leave" it ends
 * at once, so that only the name stays; with "unlink" it removes the name first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hugepin.h"

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "holder: %s: %s\n", what, hugepin_error());
	exit(1);
}

int main(int argc, char **argv)
{
	struct hugepin_region_request request = { .size = sizeof(request), .mode = 0660 };
	struct hugepin_region *region;
	struct hugepin_context *ctx;
	const char *then = argc > 3 ? argv[3] : "";
	void *addr;

	if (argc < 3) {
		fprintf(stderr, "usage: holder NAME|- MIB [leave|unlink]\n");
		return 2;
	}
	request.bytes = strtoull(argv[2], NULL, 10) << 20;
	request.name = strcmp(argv[1], "-") ? argv[1] : NULL;
	must(hugepin_context_create(NULL, &ctx), "the library");
	must(hugepin_region_create(ctx, &request, &region), "the region");
	must(hugepin_region_map(region, 0, 0, HUGEPIN_MAP_POPULATE, &addr), "mapping it");
	if (!strcmp(then, "leave"))
		return 0;
	if (!strcmp(then, "unlink"))
		must(hugepin_region_unlink(ctx, argv[1]), "its name");
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
