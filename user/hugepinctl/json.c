// SPDX-License-Identifier: MIT
/* json-c, with every lack of memory told: an object that could not be built whole is never printed. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "hugepinctl.h"

int json_put(struct json_object *object, const char *key, struct json_object *value)
{
	if (value && object && !json_object_object_add(object, key, value))
		return 0;
	json_object_put(value);
	return -ENOMEM;
}

int json_push(struct json_object *array, struct json_object *value)
{
	if (value && array && !json_object_array_add(array, value))
		return 0;
	json_object_put(value);
	return -ENOMEM;
}

int json_push_object(struct json_object *array, struct json_object **out)
{
	*out = json_object_new_object();
	return json_push(array, *out);
}

int json_put_uint(struct json_object *object, const char *key, uint64_t value)
{
	return json_put(object, key, json_object_new_uint64(value));
}

int json_put_text(struct json_object *object, const char *key, const char *value)
{
	struct json_object *text = NULL;
	char *copy = strdup(value);

	if (copy) {
		text_for_json(copy);
		text = json_object_new_string(copy);
		free(copy);
	}
	return json_put(object, key, text);
}

int json_print(struct json_object *object, FILE *out)
{
	const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
								  JSON_C_TO_STRING_NOSLASHESCAPE);

	if (!text)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	return 0;
}
