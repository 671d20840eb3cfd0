// SPDX-License-Identifier: MIT
/*
 * A program with another's rights, or without: says what its environment could do to it. The library is linked
 * statically, as a set-user-ID program may not be led to another one.
 *
 * Prints "options good" or "options refused", "host_cap VALUE", and a line "loaded" for each part of a library that
 * came from a folder "planted".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hugepin.h"

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, hugepin_error());
	return 1;
}

static void show_planted(void)
{
	char *line = NULL, *path;
	size_t room = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && getline(&line, &room, maps) > 0) {
		path = strchr(line, '/');
		if (path && strstr(path, "/planted/"))
			puts("loaded");
	}
	free(line);
	if (maps)
		fclose(maps);
}

int main(void)
{
	struct hugepin_options *options;
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	struct hugepin_option_info info = { .size = sizeof(info) };
	int err;

	if (hugepin_options_create(&options))
		return fail("options");
	err = hugepin_options_load_environment(options);
	printf("options %s\n", err ? "refused" : "good");
	if (hugepin_options_get(options, "host_cap", &info))
		return fail("host_cap");
	printf("host_cap %s\n", info.value);
	if (hugepin_options_set(options, "runtime", "cuda"))
		return fail("runtime");
	err = hugepin_context_create(options, &ctx);
	hugepin_options_destroy(options);
	if (err)
		return 0;	/* there is no such library for it */
	if (!hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool)) {
		show_planted();
		hugepin_pool_destroy(pool);
	}
	hugepin_context_destroy(ctx);
	return 0;
}
