// SPDX-License-Identifier: MIT
/*
 * Snapshots of a pool after any order of allocations and frees: json-c takes them, and blocks, segments and statistics
 * agree; the picture's elements are closed. The first byte says whether the pool has caches, which make many blocks;
 * every two that follow are a call.
 */
#include <json-c/json.h>
#include <stdbool.h>

#include "fuzz.h"
#include "hugepin.h"

#define BLOCKS	32

static struct hugepin_context *contexts[2];	/* without caches, with them */

static int append(const char *text, size_t length, void *out)
{
	return fwrite(text, 1, length, out) == length ? 0 : -1;
}

/* The caller's to free. */
static char *snapshot(struct hugepin_pool *pool, enum hugepin_snapshot format)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	PROPERTY(out && !hugepin_pool_snapshot(pool, format, append, out) && !fclose(out));
	PROPERTY(strlen(text) == length);
	return text;
}

static struct hugepin_context *context(bool caches)
{
	struct hugepin_context **ctx = &contexts[caches];
	struct hugepin_options *options;

	if (*ctx)
		return *ctx;
	PROPERTY(!hugepin_options_create(&options));
	PROPERTY(!hugepin_options_set(options, "host_ladder", "base"));
	PROPERTY(!hugepin_options_set(options, "runtime", "none"));
	PROPERTY(caches || !hugepin_options_set(options, "cache_cap", "0"));
	PROPERTY(!hugepin_context_create(options, ctx));
	hugepin_options_destroy(options);
	return *ctx;
}

static void use_pool(struct hugepin_pool *pool, void **blocks, const uint8_t *data, size_t size)
{
	size_t i;

	for (i = 0; i + 1 < size; i += 2) {
		void **block = &blocks[data[i] % BLOCKS];

		if (*block) {
			PROPERTY(!hugepin_free(pool, *block));
			*block = NULL;
		} else {
			*block = hugepin_alloc(pool, 1 + ((size_t)data[i + 1] << data[i] / 32), 0);
			PROPERTY(*block);
		}
		if (data[i] == 255)
			PROPERTY(hugepin_pool_trim(pool, data[i + 1]) >= 0);
	}
}

static uint64_t number(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	PROPERTY(json_object_is_type(value, json_type_int));
	return json_object_get_uint64(value);
}

static uint64_t sum(struct json_object *root, const char *array_key, const char *key)
{
	struct json_object *array = json_object_object_get(root, array_key);
	uint64_t all = 0;
	size_t i;

	PROPERTY(json_object_is_type(array, json_type_array));
	for (i = 0; i < json_object_array_length(array); i++)
		all += number(json_object_array_get_idx(array, i), key);
	return all;
}

static void check_json(const char *text)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *root, *stats;

	PROPERTY(tokener);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	root = json_tokener_parse_ex(tokener, text, (int)strlen(text));
	PROPERTY(json_tokener_get_error(tokener) == json_tokener_success);
	json_tokener_free(tokener);
	stats = json_object_object_get(root, "stats");
	PROPERTY(sum(root, "segments", "bytes") == number(stats, "mapped_bytes"));
	PROPERTY(sum(root, "blocks", "bytes") == number(stats, "mapped_bytes"));
	PROPERTY(sum(root, "blocks", "requested_bytes") == number(stats, "requested_bytes"));
	PROPERTY(number(stats, "active_bytes") + number(stats, "cached_bytes") + number(stats, "deferred_bytes") +
		 number(stats, "free_bytes") == number(stats, "mapped_bytes"));
	json_object_put(root);
}

/* As many elements end as begin, and no text begins one. */
static void check_picture(const char *text)
{
	long depth = 0;
	const char *c;

	for (c = strchr(text, '<'); c; c = strchr(c + 1, '<')) {
		const char *end = strchr(c, '>');

		PROPERTY(end);
		if (c[1] == '?' || c[1] == '!')
			continue;
		depth += c[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
		PROPERTY(depth >= 0);
	}
	PROPERTY(depth == 0 && strstr(text, "</svg>"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *blocks[BLOCKS] = { NULL };
	struct hugepin_pool *pool;
	char *json, *picture;
	size_t i;

	if (!size)
		return 0;
	PROPERTY(!hugepin_pool_create(context(data[0] == 'c'), HUGEPIN_POOL_HOST, &pool));
	use_pool(pool, blocks, data + 1, size < 256 ? size - 1 : 255);
	json = snapshot(pool, HUGEPIN_SNAPSHOT_JSON);
	picture = snapshot(pool, HUGEPIN_SNAPSHOT_SVG);
	check_json(json);
	check_picture(picture);
	free(json);
	free(picture);
	for (i = 0; i < BLOCKS; i++)
		PROPERTY(!blocks[i] || !hugepin_free(pool, blocks[i]));
	PROPERTY(!hugepin_pool_destroy(pool));
	return 0;
}
