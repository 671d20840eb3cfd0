// SPDX-License-Identifier: MIT
/* The results as data. The keys are a promise to whoever compares runs. */
#include <errno.h>
#include <json-c/json.h>

#include "demo.h"

/* Each takes @value over, also on failure; NULL is a lack of memory. */
static int put(struct json_object *object, const char *key, struct json_object *value)
{
	if (!value || json_object_object_add(object, key, value)) {
		json_object_put(value);
		return -ENOMEM;
	}
	return 0;
}

static int put_uint(struct json_object *object, const char *key, uint64_t n)
{
	return put(object, key, json_object_new_uint64(n));
}

/* Adds a new object under @key and gives it back, borrowed. */
static int put_object(struct json_object *object, const char *key, struct json_object **out)
{
	*out = json_object_new_object();
	return put(object, key, *out);
}

static int put_reserve(struct json_object *root, const struct demo_results *r)
{
	struct json_object *array = json_object_new_array();
	int err = put(root, "reserve", array);

	for (size_t i = 0; !err && i < r->nr_reserve; i++) {
		const struct demo_reserve *reserve = &r->reserve[i];
		const char *class_name = reserve->page_class == HUGEPIN_PAGES_1G ? "1G" : "2M";
		struct json_object *entry = json_object_new_object();

		if (!entry || json_object_array_add(array, entry)) {
			json_object_put(entry);
			return -ENOMEM;
		}
		err = put(entry, "node", json_object_new_int(reserve->node));
		err = err ? err : put(entry, "class", json_object_new_string(class_name));
		err = err ? err : put_uint(entry, "asked", reserve->asked);
		err = err ? err : put_uint(entry, "got", reserve->got);
	}
	return err;
}

static int put_region(struct json_object *root, const struct demo_results *r)
{
	struct json_object *region;
	int err = put_object(root, "region", &region);

	err = err ? err : put_uint(region, "bytes", r->region_bytes);
	err = err ? err : put_uint(region, "bytes_1g", r->region_1g_bytes);
	err = err ? err : put_uint(region, "bytes_2m", r->region_2m_bytes);
	err = err ? err : put(region, "node", json_object_new_int(r->region_node));
	err = err ? err : put_uint(region, "ready_us", r->ready_us);
	err = err ? err : put_uint(root, "hugetlb_ready_us", r->hugetlb_ready_us);
	return err ? err : put(root, "ratio", json_object_new_double(r->ratio));
}

static int put_replay(struct json_object *root, const struct demo_results *r)
{
	struct json_object *replay;
	int err = put_object(root, "replay", &replay);

	err = err ? err : put_uint(replay, "ops", r->replay_ops);
	err = err ? err : put(replay, "seconds", json_object_new_double(r->replay_seconds));
	err = err ? err : put_uint(replay, "peak_live_bytes", r->peak_live_bytes);
	return err ? err : put_uint(replay, "peak_mapped_bytes", r->peak_mapped_bytes);
}

static int put_rest(struct json_object *root, const struct demo_results *r)
{
	struct json_object *fallback;
	int err = put(root, "strict_errno", json_object_new_int(r->strict_errno));

	err = err ? err : put_object(root, "fallback", &fallback);
	err = err ? err : put_uint(fallback, "bytes_1g", r->fallback_1g_bytes);
	err = err ? err : put_uint(fallback, "bytes_2m", r->fallback_2m_bytes);
	err = err ? err : put_uint(root, "leaked_pages", r->leaked_pages);
	err = err ? err : put_uint(root, "nonzero_bytes_seen", r->nonzero_bytes_seen);
	err = err ? err : put_uint(root, "named_bytes_recovered", r->named_bytes_recovered);
	err = err ? err : put_uint(root, "pinned_pages", r->pinned_pages);
	err = err ? err : put_uint(root, "quarantined_during_pin", r->quarantined_during_pin);
	return err ? err : put_uint(root, "quarantined_after", r->quarantined_after);
}

int json_write(const struct demo_results *results, FILE *out)
{
	struct json_object *root = json_object_new_object();
	const char *text;
	int err;

	if (!root)
		return -ENOMEM;
	err = put(root, "kernel", json_object_new_string(results->kernel));
	err = err ? err : put_reserve(root, results);
	err = err ? err : put_region(root, results);
	err = err ? err : put_replay(root, results);
	err = err ? err : put_rest(root, results);
	text = err ? NULL : json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
	if (!err && !text)
		err = -ENOMEM;
	if (!err && (fprintf(out, "%s\n", text) < 0 || fflush(out)))
		err = -errno;
	json_object_put(root);
	return err;
}
