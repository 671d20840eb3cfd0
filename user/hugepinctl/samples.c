// SPDX-License-Identifier: MIT
/* Samples of metrics in Prometheus' text format and as JSON. */
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "samples.h"

void sample_add(struct samples *samples, size_t family, double value, ...)
{
	size_t count = samples->count;
	struct sample *sample;
	va_list args;

	if (!(count & (count - 1))) {
		struct sample *more = reallocarray(samples->list, count ? count * 2 : 1, sizeof(*more));

		if (!more) {
			samples->broken = true;
			return;
		}
		samples->list = more;
	}
	sample = &samples->list[samples->count++];
	*sample = (struct sample){ .family = family, .value = value };
	va_start(args, value);
	for (size_t i = 0; i < LABELS_MAX && samples->families[family].labels[i]; i++)
		snprintf(sample->labels[i], sizeof(sample->labels[i]), "%s", va_arg(args, const char *));
	va_end(args);
}

void samples_free(struct samples *samples)
{
	free(samples->list);
	samples->list = NULL;
	samples->count = 0;
}

/* Backslash, quote and newline are the format's own. */
static void write_value(FILE *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '\\' || *value == '"')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
}

static void write_sample(const struct family *family, const struct sample *sample, FILE *out)
{
	fputs(family->name, out);
	for (size_t i = 0; i < LABELS_MAX && family->labels[i]; i++) {
		fprintf(out, "%c%s=\"", i ? ',' : '{', family->labels[i]);
		write_value(out, sample->labels[i]);
		fputc('"', out);
	}
	/* 17 digits are every bit of a double: bytes stay whole up to 2^53 */
	fprintf(out, "%s %.17g\n", family->labels[0] ? "}" : "", sample->value);
}

int samples_write_text(const struct samples *samples, FILE *out)
{
	if (samples->broken)
		return -ENOMEM;
	for (size_t family = 0; family < samples->nr_families; family++) {
		bool told = false;

		for (size_t i = 0; i < samples->count; i++) {
			const struct family *of = &samples->families[family];

			if (samples->list[i].family != family)
				continue;
			if (!told)
				fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", of->name, of->help, of->name);
			told = true;
			write_sample(of, &samples->list[i], out);
		}
	}
	return 0;
}

static int put_sample(struct json_object *entry, const struct samples *samples, const struct sample *sample)
{
	const struct family *family = &samples->families[sample->family];
	struct json_object *labels = json_object_new_object();
	int err = json_put(entry, "labels", labels);

	for (size_t i = 0; !err && i < LABELS_MAX && family->labels[i]; i++)
		err = json_put_text(labels, family->labels[i], sample->labels[i]);
	err = err ? err : json_put_text(entry, "name", family->name);
	return err ? err : json_put(entry, "value", json_object_new_double(sample->value));
}

int samples_write_json(const struct samples *samples, FILE *out)
{
	struct json_object *root = json_object_new_object(), *array = json_object_new_array();
	int err = json_put(root, "samples", array);

	if (samples->broken)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < samples->count; i++) {
		struct json_object *entry;

		err = json_push_object(array, &entry);
		err = err ? err : put_sample(entry, samples, &samples->list[i]);
	}
	if (!err)
		err = json_print(root, out);
	json_object_put(root);
	return err;
}
