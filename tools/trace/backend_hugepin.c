// SPDX-License-Identifier: MIT
/* A pool of libhugepin, through the public header only. */
#include <errno.h>
#include <hugepin.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"

static struct hugepin_context *context;
static struct hugepin_pool *pool;

static int set_all(struct hugepin_options *set, const struct backend_options *options)
{
	int rc = hugepin_options_load_environment(set);

	for (size_t i = 0; i < options->setting_count && !rc; i++) {
		const char *equals = strchr(options->settings[i], '=');
		char key[128];

		if (!equals || (size_t)(equals - options->settings[i]) >= sizeof(key))
			return -EINVAL;
		snprintf(key, sizeof(key), "%.*s", (int)(equals - options->settings[i]), options->settings[i]);
		rc = hugepin_options_set(set, key, equals + 1);
	}
	return rc;
}

static int kind_of(const char *name, enum hugepin_pool_kind *kind)
{
	static const char *const names[] = {
		[HUGEPIN_POOL_HOST] = "host",
		[HUGEPIN_POOL_PINNED] = "pinned",
		[HUGEPIN_POOL_VARIABLE] = "variable",
	};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name)) {
			*kind = (enum hugepin_pool_kind)i;
			return 0;
		}
	return -EINVAL;
}

static int pool_open(const struct backend_options *options)
{
	enum hugepin_pool_kind kind = HUGEPIN_POOL_HOST;
	struct hugepin_options *set;
	int rc = kind_of(options->pool, &kind);

	if (!rc)
		rc = hugepin_options_create(&set);
	if (rc)
		return rc;
	rc = set_all(set, options);
	if (!rc)
		rc = hugepin_context_create(set, &context);
	hugepin_options_destroy(set);
	if (rc)
		return rc;
	rc = hugepin_pool_create(context, kind, &pool);
	if (rc)
		hugepin_context_destroy(context);
	return rc;
}

static int pool_close(void)
{
	int rc = hugepin_pool_destroy(pool);

	return rc ? rc : hugepin_context_destroy(context);
}

static void *pool_alloc(uint64_t bytes, uint64_t align, bool zero)
{
	unsigned int flags = zero ? HUGEPIN_ALLOC_ZERO : 0;

	return align <= 64 ? hugepin_alloc(pool, bytes, flags) : hugepin_alloc_aligned(pool, align, bytes, flags);
}

static void *pool_realloc(void *old, uint64_t bytes)
{
	return hugepin_realloc(pool, old, bytes);
}

static int pool_free(void *address)
{
	return hugepin_free(pool, address);
}

static void pool_memory(struct backend_memory *memory)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };

	hugepin_pool_stats_get(pool, &stats);
	*memory = (struct backend_memory){
		.mapped_bytes = stats.mapped_bytes,
		.held_bytes = stats.active_bytes,
		.peak_mapped_bytes = stats.peak_mapped_bytes,
	};
}

const struct backend backend_hugepin = {
	.name = "hugepin",
	.mapped_means = "the pool's peak_mapped_bytes",
	.open = pool_open,
	.close = pool_close,
	.alloc = pool_alloc,
	.realloc = pool_realloc,
	.free = pool_free,
	.memory = pool_memory,
	.error = hugepin_error,
};
