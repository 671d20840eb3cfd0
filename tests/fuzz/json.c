// SPDX-License-Identifier: MIT
/*
 * What hugepinctl writes for programs: any text in JSON and in Prometheus' format, which json-c and a strict reader of
 * lines must take. The input is names, with a NUL behind each.
 */
#include <json-c/json.h>

#include "fuzz.h"
#include "samples.h"

static const struct family families[] = {
	{ "one", "no label", { NULL } },
	{ "two", "a label", { "node" } },
	{ "three", "three labels", { "node", "size", "state" } },
};

/* The bytes written, ended by a NUL; the caller's to free. */
static char *written(int (*write)(const void *what, FILE *out), const void *what)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	PROPERTY(out && !write(what, out) && !fclose(out));
	PROPERTY(strlen(text) == size);
	return text;
}

static int write_object(const void *what, FILE *out)
{
	return json_print((struct json_object *)what, out);
}

static int write_samples_json(const void *what, FILE *out)
{
	return samples_write_json(what, out);
}

static int write_samples_text(const void *what, FILE *out)
{
	return samples_write_text(what, out);
}

static struct json_object *parse(const char *text)
{
	struct json_tokener *tokener = json_tokener_new();
	struct json_object *object;

	PROPERTY(tokener);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	object = json_tokener_parse_ex(tokener, text, (int)strlen(text));
	PROPERTY(json_tokener_get_error(tokener) == json_tokener_success);
	json_tokener_free(tokener);
	return object;
}

static void check_text(const char *name)
{
	struct json_object *object = json_object_new_object(), *again;
	char *text, *fit = strdup(name);

	PROPERTY(object && fit);
	PROPERTY(!json_put_text(object, "name", name) && !json_put_uint(object, "length", strlen(name)));
	text = written(write_object, object);
	again = parse(text);
	text_for_json(fit);
	PROPERTY(!strcmp(json_object_get_string(json_object_object_get(again, "name")), fit));
	PROPERTY(json_object_get_uint64(json_object_object_get(again, "length")) == strlen(name));
	PROPERTY(strlen(fit) == strlen(name));
	json_object_put(again);
	json_object_put(object);
	free(fit);
	free(text);
}

/* A terminal is shown no control character, and what was fit stays. */
static void check_terminal(const char *name)
{
	char *fit = strdup(name), *again;
	const unsigned char *c;

	PROPERTY(fit);
	text_for_terminal(fit);
	for (c = (const unsigned char *)fit; *c; c++)
		PROPERTY(*c >= 0x20 && *c != 0x7f);
	again = strdup(fit);
	PROPERTY(again);
	text_for_terminal(again);
	PROPERTY(!strcmp(fit, again));
	free(again);
	free(fit);
}

/* A label's value, between its quotes; the character behind the closing one. */
static const char *skip_value(const char *c)
{
	for (; *c != '"'; c++) {
		PROPERTY(*c && *c != '\n');
		if (*c == '\\') {
			c++;
			PROPERTY(*c == '\\' || *c == '"' || *c == 'n');
		}
	}
	return c + 1;
}

/* name{label="value",label="value"} number */
static void check_sample_line(const char *c)
{
	char *end;

	c += strcspn(c, "{ \n");
	if (*c == '{') {
		do {
			c++;
			c += strcspn(c, "=\n");
			PROPERTY(c[0] == '=' && c[1] == '"');
			c = skip_value(c + 2);
		} while (*c == ',');
		PROPERTY(*c == '}');
		c++;
	}
	PROPERTY(*c == ' ');
	strtod(c, &end);
	PROPERTY(end > c && *end == '\n');
}

static void check_samples(const char *name, const char *other)
{
	struct samples samples = { .families = families, .nr_families = sizeof(families) / sizeof(families[0]) };
	size_t lines = 0;
	char *text, *line;

	sample_add(&samples, 0, (double)strlen(name));
	sample_add(&samples, 1, 1e300, name);
	sample_add(&samples, 2, -0.1, name, other, name);
	sample_add(&samples, 2, 0x1p53 + 1, other, other, "");
	PROPERTY(!samples.broken);
	text = written(write_samples_json, &samples);
	json_object_put(parse(text));
	free(text);
	text = written(write_samples_text, &samples);
	for (line = text; *line; line = strchr(line, '\n') + 1) {
		lines++;
		PROPERTY(strchr(line, '\n'));
		if (*line != '#')
			check_sample_line(line);
	}
	PROPERTY(lines == 2 * 3 + 4);
	free(text);
	samples_free(&samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = fuzz_text(data, size), *other;
	size_t length = strlen(name);

	other = length < size ? fuzz_text(data + length + 1, size - length - 1) : strdup("");
	PROPERTY(other);
	check_text(name);
	check_text(other);
	check_terminal(name);
	check_samples(name, other);
	free(other);
	free(name);
	return 0;
}
