// SPDX-License-Identifier: MIT
/* A pool looked into: every byte that is mapped is in exactly one block or hole, in words, as JSON and as a picture. */
#include "fence_world.h"

#include <json-c/json.h>

#include "comma_locale.h"

/* ---- a pool with one of each ---- */

static struct hugepin_pool *pool;
static char *active, *deferred, *tiny[64];

static void fill_pool(void)
{
	size_t i;
	char *hole;

	pool = device_pool(NULL);
	active = take(pool, HPI_MIB(3) - 100);
	hole = take(pool, HPI_MIB(1));
	deferred = take(pool, HPI_2M);
	for (i = 0; i < 64; i++)
		tiny[i] = take(pool, 100);
	give(pool, hole);
	free_after(pool, deferred, work_on(0));
}

static void empty_pool(void)
{
	size_t i;

	for (i = 0; i < 64; i++)
		give(pool, tiny[i]);
	give(pool, active);
	end_device_pool(pool);
}

/* ---- blocks ---- */

struct sums {
	uint64_t bytes[4], requested, blocks;
	char *end;
	unsigned int stop_after;
	bool allocate;
};

static int add_up(const struct hugepin_block_info *info, void *arg)
{
	struct sums *sums = arg;

	assert_int_equal(info->size, sizeof(*info));
	assert_true((char *)info->addr >= sums->end);
	sums->end = (char *)info->addr + info->bytes;
	sums->bytes[info->state] += info->bytes;
	sums->requested += info->requested_bytes;
	sums->blocks += info->state == HUGEPIN_BLOCK_ACTIVE;
	if (sums->allocate)
		give(pool, take(pool, HPI_MIB(8)));
	return sums->stop_after && !--sums->stop_after ? -EINTR : 0;
}

static void blocks_add_up_to_the_statistics(void **state)
{
	struct sums sums = { .blocks = 0 };
	struct hugepin_pool_stats stats;

	(void)state;
	fill_pool();
	stats = stats_of(pool);
	assert_int_equal(hugepin_pool_each_block(pool, add_up, &sums), 0);
	assert_int_equal(sums.bytes[HUGEPIN_BLOCK_ACTIVE], stats.active_bytes);
	assert_int_equal(sums.bytes[HUGEPIN_BLOCK_CACHED], stats.cached_bytes);
	assert_int_equal(sums.bytes[HUGEPIN_BLOCK_DEFERRED], HPI_2M);
	assert_int_equal(sums.bytes[HUGEPIN_BLOCK_FREE], stats.free_bytes);
	assert_int_equal(sums.requested, HPI_MIB(3) - 100 + 64 * 100);
	assert_int_equal(sums.blocks, 65);
	empty_pool();
}

static void blocks_in_caches_are_cached(void **state)
{
	struct sums sums = { .blocks = 0 };
	char *p[100];
	size_t i;

	(void)state;
	pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	for (i = 0; i < 100; i++)
		p[i] = take(pool, i % 2 ? 100 : 20 * KIB);
	for (i = 0; i < 90; i++)
		give(pool, p[i]);
	assert_int_equal(hugepin_pool_each_block(pool, add_up, &sums), 0);
	assert_true(sums.bytes[HUGEPIN_BLOCK_CACHED] > 0);
	assert_int_equal(sums.bytes[HUGEPIN_BLOCK_CACHED], stats_of(pool).cached_bytes);
	assert_int_equal(sums.bytes[HUGEPIN_BLOCK_ACTIVE], stats_of(pool).active_bytes);
	assert_int_equal(sums.blocks, 10);
	assert_int_equal(sums.requested, 5 * 100 + 5 * 20 * KIB);
	for (; i < 100; i++)
		give(pool, p[i]);
	end_pool(pool);
}

static void walk_ends_when_the_callback_says_so_and_lets_it_allocate(void **state)
{
	struct sums sums = { .stop_after = 3, .allocate = true };

	(void)state;
	fill_pool();
	assert_int_equal(hugepin_pool_each_block(pool, add_up, &sums), -EINTR);
	assert_int_equal(sums.stop_after, 0);
	empty_pool();
}

static void segment_that_cannot_go_is_deferred(void **state)
{
	struct sums sums = { .blocks = 0 };

	(void)state;
	pool = device_pool(NULL);
	give(pool, take(pool, HPI_MIB(4)));
	source_2m.refuse_unmap = true;
	assert_int_equal(hugepin_pool_trim(pool, 0), -ENOMEM);
	assert_int_equal(hugepin_pool_each_block(pool, add_up, &sums), 0);
	assert_int_equal(sums.bytes[HUGEPIN_BLOCK_DEFERRED], HPI_MIB(4));
	source_2m.refuse_unmap = false;
	end_device_pool(pool);
}

static void pool_of_an_address_is_found(void **state)
{
	struct hugepin_pool *other;
	char *p, *nothing;

	(void)state;
	fill_pool();
	other = device_pool(pool->ctx);
	p = take(other, KIB);
	nothing = take(other, 0);
	assert_ptr_equal(hugepin_pool_of(pool->ctx, active + 17), pool);
	assert_ptr_equal(hugepin_pool_of(pool->ctx, p), other);
	assert_ptr_equal(hugepin_pool_of(pool->ctx, nothing), other);
	assert_null(hugepin_pool_of(pool->ctx, &p));
	assert_int_equal(errno, ENOENT);
	give(other, p);
	give(other, nothing);
	assert_int_equal(hugepin_pool_destroy(other), 0);
	assert_null(hugepin_pool_of(pool->ctx, p));
	empty_pool();
}

/* ---- text ---- */

struct text {
	char *bytes;
	size_t length, room, most;
};

static int append(const char *piece, size_t length, void *arg)
{
	struct text *text = arg;

	if (text->most && text->length + length > text->most)
		return -ENOSPC;
	if (text->length + length + 1 > text->room) {
		text->room = 2 * (text->length + length + 1);
		text->bytes = realloc(text->bytes, text->room);
		assert_non_null(text->bytes);
	}
	memcpy(text->bytes + text->length, piece, length);
	text->length += length;
	text->bytes[text->length] = '\0';
	return 0;
}

static int64_t number(struct json_object *object, const char *key)
{
	struct json_object *value;

	assert_true(json_object_object_get_ex(object, key, &value));
	return json_object_get_int64(value);
}

static const char *string(struct json_object *object, const char *key)
{
	struct json_object *value;

	assert_true(json_object_object_get_ex(object, key, &value));
	return json_object_get_string(value);
}

static void json_has_every_segment_and_block(void **state)
{
	struct text text = { .length = 0 };
	struct json_object *root, *stats, *segments, *blocks;
	int64_t bytes[2] = { 0 };
	size_t i;

	(void)state;
	fill_pool();
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_JSON, append, &text), 0);
	root = json_tokener_parse(text.bytes);
	assert_non_null(root);
	assert_string_equal(string(root, "pool"), "pinned");
	assert_true(json_object_object_get_ex(root, "stats", &stats));
	assert_true(json_object_object_get_ex(root, "segments", &segments));
	assert_true(json_object_object_get_ex(root, "blocks", &blocks));
	assert_int_equal(number(stats, "active_blocks"), 65);
	for (i = 0; i < json_object_array_length(segments); i++)
		bytes[0] += number(json_object_array_get_idx(segments, i), "bytes");
	for (i = 0; i < json_object_array_length(blocks); i++)
		bytes[1] += number(json_object_array_get_idx(blocks, i), "bytes");
	assert_int_equal(bytes[0], number(stats, "mapped_bytes"));
	assert_int_equal(bytes[1], number(stats, "mapped_bytes"));
	assert_string_equal(string(json_object_array_get_idx(segments, 0), "registered"), "device");
	assert_string_equal(string(json_object_array_get_idx(blocks, 0), "state"), "active");
	assert_int_equal(strtoull(string(json_object_array_get_idx(blocks, 0), "address"), NULL, 16), (uintptr_t)active);
	json_object_put(root);
	free(text.bytes);
	empty_pool();
}

/* ---- the picture ---- */

static unsigned int count(const char *text, const char *part)
{
	unsigned int n = 0;

	for (text = strstr(text, part); text; text = strstr(text + 1, part))
		n++;
	return n;
}

static void picture_has_a_frame_for_each_segment(void **state)
{
	struct text text = { .length = 0 };

	(void)state;
	fill_pool();
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_SVG, append, &text), 0);
	assert_int_equal(strncmp(text.bytes, "<svg ", 5), 0);
	assert_string_equal(text.bytes + text.length - 7, "</svg>\n");
	assert_true(count(text.bytes, "stroke=\"#222\" stroke-width=\"1.2\"") >= stats_of(pool).segments);
	assert_int_equal(count(text.bytes, "<title>deferred, 2 MiB"), 1);
	free(text.bytes);
	empty_pool();
}

static void picture_is_the_same_under_every_locale(void **state)
{
	struct text point = { .length = 0 }, comma = { .length = 0 };
	struct tree tree;

	(void)state;
	comma_locale_enter(&tree);
	fill_pool();
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_SVG, append, &comma), 0);
	comma_locale_leave(&tree);
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_SVG, append, &point), 0);
	assert_string_equal(comma.bytes, point.bytes);
	free(point.bytes);
	free(comma.bytes);
	empty_pool();
}

static void picture_of_many_blocks_stays_small(void **state)
{
	struct text text = { .length = 0 };
	size_t i, blocks = 20000;
	char **p = calloc(blocks, sizeof(*p));

	(void)state;
	assert_non_null(p);
	pool = device_pool(NULL);
	for (i = 0; i < blocks; i++)
		p[i] = take(pool, 3 * KIB);
	for (i = 0; i < blocks; i += 3)
		give(pool, p[i]);
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_SVG, append, &text), 0);
	assert_true(text.length < 50 * blocks);
	for (i = 0; i < blocks; i++) {
		if (i % 3)
			give(pool, p[i]);
	}
	free(text.bytes);
	free(p);
	end_device_pool(pool);
}

static void picture_of_an_empty_pool_is_one(void **state)
{
	struct text text = { .length = 0 };

	(void)state;
	pool = device_pool(NULL);
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_SVG, append, &text), 0);
	assert_string_equal(text.bytes + text.length - 7, "</svg>\n");
	free(text.bytes);
	end_device_pool(pool);
}

/* ---- failures ---- */

static void snapshot_ends_with_the_error_of_the_writer(void **state)
{
	struct text text = { .most = 700 };

	(void)state;
	fill_pool();
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_JSON, append, &text), -ENOSPC);
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_SVG, append, &text), -ENOSPC);
	assert_int_equal(hugepin_pool_snapshot(pool, (enum hugepin_snapshot)7, append, &text), -EINVAL);
	free(text.bytes);
	empty_pool();
}

static const char *failing;

static int no_memory(const char *call)
{
	return strcmp(call, failing) ? 0 : ENOMEM;
}

static void without_memory_nothing_is_copied(void **state)
{
	struct sums sums = { .blocks = 0 };
	struct text text = { .length = 0 };

	(void)state;
	fill_pool();
	hpi_sys_fault = no_memory;
	failing = "calloc";
	assert_int_equal(hugepin_pool_each_block(pool, add_up, &sums), -ENOMEM);
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_JSON, append, &text), -ENOMEM);
	failing = "malloc";
	assert_int_equal(hugepin_pool_snapshot(pool, HUGEPIN_SNAPSHOT_SVG, append, &text), -ENOMEM);
	hpi_sys_fault = NULL;
	assert_int_equal(sums.blocks + text.length, 0);
	empty_pool();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		DEVICE_TEST(blocks_add_up_to_the_statistics),
		DEVICE_TEST(blocks_in_caches_are_cached),
		DEVICE_TEST(walk_ends_when_the_callback_says_so_and_lets_it_allocate),
		DEVICE_TEST(segment_that_cannot_go_is_deferred),
		DEVICE_TEST(pool_of_an_address_is_found),
		DEVICE_TEST(json_has_every_segment_and_block),
		DEVICE_TEST(picture_has_a_frame_for_each_segment),
		DEVICE_TEST(picture_is_the_same_under_every_locale),
		DEVICE_TEST(picture_of_many_blocks_stays_small),
		DEVICE_TEST(picture_of_an_empty_pool_is_one),
		DEVICE_TEST(snapshot_ends_with_the_error_of_the_writer),
		DEVICE_TEST(without_memory_nothing_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
