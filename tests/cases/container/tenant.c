// SPDX-License-Identifier: MIT
/*
 * What a job in a container does with its tenant's mount, as the test of containers needs it.
 *
 *	tenant take NAME MIB [SECONDS]	make the region NAME ("-": without a name), write a pattern all over it, stay so long
 *	tenant check NAME		open it and read the pattern back
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hugepin.h>

static int fail(const char *what)
{
	printf("%s: %s\n", what, hugepin_error());
	return 1;
}

static uint64_t pattern(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull;
}

static int take(struct hugepin_context *ctx, const char *name, uint64_t mib, unsigned int seconds)
{
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.bytes = mib << 20,
		.classes = HUGEPIN_CLASSES_2M,
		.name = strcmp(name, "-") ? name : NULL,
	};
	struct hugepin_region *region;
	uint64_t *words, i;
	void *addr;

	if (hugepin_region_create(ctx, &request, &region))
		return fail("take");
	if (hugepin_region_map(region, 0, 0, HUGEPIN_MAP_POPULATE, &addr))
		return fail("map");
	words = addr;
	for (i = 0; i < hugepin_region_bytes(region) / sizeof(*words); i++) {
		if (words[i]) {
			printf("take: word %llu is not zero\n", (unsigned long long)i);
			return 1;
		}
		words[i] = pattern(i);
	}
	printf("took %llu bytes\n", (unsigned long long)hugepin_region_bytes(region));
	fflush(stdout);
	sleep(seconds);
	hugepin_region_close(region);
	return 0;
}

static int check(struct hugepin_context *ctx, const char *name)
{
	struct hugepin_region *region;
	const uint64_t *words;
	uint64_t i, count;
	void *addr;

	if (hugepin_region_open(ctx, name, &region))
		return fail("check");
	if (hugepin_region_map(region, 0, 0, HUGEPIN_MAP_READONLY, &addr))
		return fail("map");
	words = addr;
	count = hugepin_region_bytes(region) / sizeof(*words);
	for (i = 0; i < count && words[i] == pattern(i); i++)
		;
	printf("%llu of %llu words are as written\n", (unsigned long long)i, (unsigned long long)count);
	hugepin_region_close(region);
	return i < count;
}

int main(int argc, char **argv)
{
	struct hugepin_context *ctx;
	int status = 2;

	if (hugepin_context_create(NULL, &ctx))
		return fail("context");
	if (argc >= 4 && !strcmp(argv[1], "take"))
		status = take(ctx, argv[2], strtoull(argv[3], NULL, 10), argc > 4 ? (unsigned int)atoi(argv[4]) : 0);
	else if (argc == 3 && !strcmp(argv[1], "check"))
		status = check(ctx, argv[2]);
	else
		fprintf(stderr, "usage: tenant take NAME|- MIB [SECONDS] | check NAME\n");
	hugepin_context_destroy(ctx);
	return status;
}
