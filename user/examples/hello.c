// SPDX-License-Identifier: MIT
/*
 * The shortest program: a pinned block, what it really is, and everything given back.
 *
 *	cc hello.c $(pkg-config --cflags --libs hugepin)
 */
#include <hugepin.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES	((size_t)64 << 20)

static int fail(const char *step)
{
	fprintf(stderr, "%s: %s\n", step, hugepin_error());
	return 1;
}

static int use(struct hugepin_pool *pool)
{
	struct hugepin_segment_info segment = { .size = sizeof(segment) };
	void *block = hugepin_alloc(pool, BLOCK_BYTES, 0);

	if (!block)
		return fail("allocating");
	memset(block, 1, BLOCK_BYTES);
	if (hugepin_block_segment(pool, block, &segment))
		return fail("asking for the segment");
	printf("%zu bytes at %p: pages of %llu bytes, node %d, registered with %s\n", BLOCK_BYTES, block,
	       (unsigned long long)segment.page_bytes, segment.node,
	       segment.registered[0] ? segment.registered : "nothing");
	return hugepin_free(pool, block) ? fail("freeing") : 0;
}

int main(void)
{
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	int status;

	if (hugepin_context_create(NULL, &ctx))
		return fail("making a context");
	if (hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool))
		return fail("making a pool");
	status = use(pool);
	if (hugepin_pool_destroy(pool) || hugepin_context_destroy(ctx))
		return fail("giving back");
	return status;
}
