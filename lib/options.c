// SPDX-License-Identifier: MIT
/*
 * Option sets: values by source, in force is the highest source that set one, whatever the order of calls.
 *
 * Text becomes a value in one place, hpi_options_put(), which changes the set only once everything is checked.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options_table.h"

union value {
	uint64_t u;		/* uint, bytes, a choice's position */
	int64_t i;
	double d;
	bool b;
};

struct setting {
	char *text;		/* as it was given; NULL: not set by this source */
	char *where;
	union value value;
};

struct hugepin_options {
	struct setting settings[HPI_OPT_COUNT][HPI_SOURCE_COUNT];
};

static const char *const type_names[] = {
	[HPI_TYPE_BOOL] = "bool", [HPI_TYPE_INT] = "int", [HPI_TYPE_UINT] = "uint", [HPI_TYPE_DOUBLE] = "double",
	[HPI_TYPE_BYTES] = "bytes", [HPI_TYPE_CHOICE] = "choice", [HPI_TYPE_STRING] = "string",
	[HPI_TYPE_LIST] = "list",
};

/* ---- A value from text ---- */

static int parse_choice(const char *choices, const char *text, uint64_t *position)
{
	size_t length = strlen(text);
	uint64_t n;

	for (n = 0; *choices; n++) {
		size_t word = strcspn(choices, "|");

		if (word == length && !memcmp(choices, text, length)) {
			*position = n;
			return 0;
		}
		choices += word + (choices[word] == '|');
	}
	return -EINVAL;
}

static int parse_type(const struct hpi_option *option, const char *text, union value *out)
{
	switch (option->type) {
	case HPI_TYPE_BOOL:
		return hpi_size_parse_bool(text, &out->b);
	case HPI_TYPE_INT:
		return hpi_size_parse_int(text, &out->i);
	case HPI_TYPE_UINT:
		return hpi_size_parse_uint(text, &out->u);
	case HPI_TYPE_DOUBLE:
		return hpi_size_parse_double(text, &out->d);
	case HPI_TYPE_BYTES:
		return hpi_size_parse_bytes(text, &out->u);
	case HPI_TYPE_CHOICE:
		return parse_choice(option->choices, text, &out->u);
	case HPI_TYPE_STRING:
	case HPI_TYPE_LIST:
		break;
	}
	return 0;
}

static bool is_less(enum hpi_option_type type, const union value *a, const union value *b)
{
	if (type == HPI_TYPE_DOUBLE)
		return a->d < b->d;
	if (type == HPI_TYPE_INT)
		return a->i < b->i;
	return a->u < b->u;
}

static const char *const wrong_type[] = {
	[HPI_TYPE_BOOL] = "is none of 0, 1, true, false, yes, no, on, off",
	[HPI_TYPE_INT] = "is not a whole number",
	[HPI_TYPE_UINT] = "is not a whole number of digits alone",
	[HPI_TYPE_DOUBLE] = "is not a finite decimal number with a point",
	[HPI_TYPE_BYTES] = "is not a number of bytes such as 4096, 512K, 2M or 1G",
	[HPI_TYPE_CHOICE] = "is not a choice of this option",
	[HPI_TYPE_STRING] = "", [HPI_TYPE_LIST] = "",
};

/* Whole percents are the usual mistake with a fraction, and easily told from a share a bit too large. */
static int above_maximum(const struct hpi_option *option, const char *text, const union value *value)
{
	uint64_t percent;

	if (option->type != HPI_TYPE_DOUBLE || strcmp(option->max, "1") || value->d < 2)
		return hpi_error(-EINVAL, "is above the maximum");
	if (!hpi_size_parse_uint(text, &percent) && percent <= 100)
		return hpi_error(-EINVAL, "is above the maximum; %s looks like percent, which is written %llu.%02llu",
				 text, (unsigned long long)percent / 100, (unsigned long long)percent % 100);
	return hpi_error(-EINVAL, "is above the maximum; %s looks like percent", text);
}

/* The error text is the reason alone, to follow "option = value". */
static int parse_value(const struct hpi_option *option, const char *text, union value *out)
{
	union value limit;
	int err;

	if (!text[0] && !option->may_be_empty)
		return hpi_error(-EINVAL, "is empty");
	err = parse_type(option, text, out);
	if (err == -ERANGE)
		return hpi_error(-EINVAL, "is beyond any %s", type_names[option->type]);
	if (err == -EINVAL)
		return hpi_error(-EINVAL, "%s", wrong_type[option->type]);
	if (err)
		return hpi_error(err, "cannot be read: %s", strerror(-err));
	if (option->min && !parse_type(option, option->min, &limit) && is_less(option->type, out, &limit))
		return hpi_error(-EINVAL, "is below the minimum");
	if (option->max && !parse_type(option, option->max, &limit) && is_less(option->type, &limit, out))
		return above_maximum(option, text, out);
	return option->check ? option->check(text) : 0;
}

static int refuse(int err, const struct hpi_option *option, const char *text, const char *where)
{
	bool unit = option->unit && option->type != HPI_TYPE_BYTES;

	hpi_error(err, "option %s = \"%.200s\" (%s): %s", option->name, text, where, hugepin_error());
	if (text[0] == '"' || text[0] == '\'')		/* as in files that a shell does not read */
		hpi_error_add(err, "; the quotes are part of it: leave them out");
	if (option->choices)
		hpi_error_add(err, "; choices are %s%s", option->choices[0] == '|' ? "\"\"" : "", option->choices);
	else if (option->max)
		hpi_error_add(err, "; range is %s%s%s%s%s", option->min ? option->min : "",
			      option->min ? " to " : "up to ", option->max, unit ? " " : "", unit ? option->unit : "");
	return err;
}

/* ---- The set ---- */

int hpi_options_find(const char *name)
{
	int id;

	for (id = 0; id < HPI_OPT_COUNT; id++)
		if (!strcmp(hpi_options_entry(id)->name, name))
			return id;
	return -ENOENT;
}

static const struct setting *in_force(const struct hugepin_options *options, enum hpi_option_id id)
{
	int source = HPI_SOURCE_API;

	while (source > HPI_SOURCE_DEFAULT && !options->settings[id][source].text)
		source--;
	return &options->settings[id][source];
}

static int source_of(const struct hugepin_options *options, enum hpi_option_id id)
{
	return (int)(in_force(options, id) - options->settings[id]);
}

static int put_setting(struct setting *setting, const char *text, const char *where, const union value *value)
{
	char *new_text = strdup(text), *new_where = strdup(where);

	if (!new_text || !new_where) {
		free(new_text);
		free(new_where);
		return hpi_error(-ENOMEM, "no memory for an option's value, %zu bytes",
				 strlen(text) + strlen(where) + 2);
	}
	free(setting->text);
	free(setting->where);
	*setting = (struct setting){ .text = new_text, .where = new_where, .value = *value };
	return 0;
}

/* Another option on the same subject that the same source has set, or -1. */
static int find_rival(const struct hugepin_options *options, enum hpi_option_id id, enum hpi_source source)
{
	const char *subject = hpi_options_entry(id)->subject;
	int other;

	for (other = 0; other < HPI_OPT_COUNT; other++) {
		const struct hpi_option *option = hpi_options_entry(other);

		if (other != (int)id && option->subject && !strcmp(option->subject, subject) &&
		    options->settings[other][source].text)
			return other;
	}
	return -1;
}

int hpi_options_put(struct hugepin_options *options, enum hpi_option_id id, enum hpi_source source, const char *text,
		    const char *where)
{
	const struct hpi_option *option = hpi_options_entry(id);
	union value value = { 0 };
	int err = parse_value(option, text, &value);

	if (err)
		return refuse(err, option, text, where);
	if (option->subject && source != HPI_SOURCE_DEFAULT) {
		const struct setting *rival;
		int other = find_rival(options, id, source);

		if (other >= 0) {
			rival = &options->settings[other][source];
			return hpi_error(-EINVAL, "option %s = \"%.200s\" (%s) and option %s = \"%.200s\" (%s) say the "
					 "same thing in two dialects: set one of them", option->name, text, where,
					 hpi_options_entry(other)->name, rival->text, rival->where);
		}
	}
	return put_setting(&options->settings[id][source], text, where, &value);
}

int hpi_options_unknown(const char *key, const char *where)
{
	const struct hpi_option *alike = hpi_options_alike(key);

	hpi_error(-ENOENT, "unknown option \"%.200s\" (%s)", key, where);
	if (alike && !strcmp(alike->environment, key))
		return hpi_error_add(-ENOENT, ": outside of the environment it is %s", alike->name);
	return alike ? hpi_error_add(-ENOENT, "; there is %s", alike->name) : -ENOENT;
}

int hugepin_options_create(struct hugepin_options **out)
{
	struct hugepin_options *options = calloc(1, sizeof(*options));
	int id, err = 0;

	if (!options)
		return hpi_error(-ENOMEM, "no memory for an option set, %zu bytes", sizeof(*options));
	for (id = 0; !err && id < HPI_OPT_COUNT; id++)
		err = hpi_options_put(options, id, HPI_SOURCE_DEFAULT, hpi_options_entry(id)->default_value, "default");
	if (err)
		hugepin_options_destroy(options);
	else
		*out = options;
	return err;
}

void hugepin_options_destroy(struct hugepin_options *options)
{
	int id, source;

	for (id = 0; options && id < HPI_OPT_COUNT; id++) {
		for (source = 0; source < HPI_SOURCE_COUNT; source++) {
			free(options->settings[id][source].text);
			free(options->settings[id][source].where);
		}
	}
	free(options);
}

int hpi_options_copy(const struct hugepin_options *options, struct hugepin_options **out)
{
	struct hugepin_options *copy = calloc(1, sizeof(*copy));
	const struct setting *from;
	int id, source, err = 0;

	if (!copy)
		return hpi_error(-ENOMEM, "no memory for an option set, %zu bytes", sizeof(*copy));
	for (id = 0; !err && id < HPI_OPT_COUNT; id++) {
		for (source = 0; !err && source < HPI_SOURCE_COUNT; source++) {
			from = &options->settings[id][source];
			if (from->text)
				err = put_setting(&copy->settings[id][source], from->text, from->where, &from->value);
		}
	}
	if (err)
		hugepin_options_destroy(copy);
	else
		*out = copy;
	return err;
}

void hpi_options_replace(struct hugepin_options *options, struct hugepin_options *copy)
{
	struct hugepin_options old = *options;

	*options = *copy;
	*copy = old;
	hugepin_options_destroy(copy);
}

int hugepin_options_set(struct hugepin_options *options, const char *key, const char *value)
{
	int id;

	if (!options || !key || !value)
		return hpi_error(-EINVAL, "setting an option (API): %s is NULL",
				 !options ? "the option set" : !key ? "the name" : "the value");
	id = hpi_options_find(key);
	if (id < 0)
		return hpi_options_unknown(key, "API");
	return hpi_options_put(options, id, HPI_SOURCE_API, value, "API");
}

/* ---- Reading a set ---- */

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

/* A caller with an older header's shorter struct is refused; members that only a newer one has are zeroed. */
static int describe(const struct hugepin_options *options, enum hpi_option_id id, struct hugepin_option_info *info)
{
	const struct hpi_option *option = hpi_options_entry(id);
	size_t size = info->size;
	struct hugepin_option_info full = {
		.size = size,
		.name = option->name,
		.dialect = option->dialect,
		.type = type_names[option->type],
		.unit = or_empty(option->unit),
		.default_value = option->default_value,
		.min = or_empty(option->min),
		.max = or_empty(option->max),
		.choices = or_empty(option->choices),
		.value = in_force(options, id)->text,
		.source = in_force(options, id)->where,
		.doc = option->doc,
		.environment = option->environment,
	};

	if (size < sizeof(full) || size > HPI_STRUCT_MAX)
		return hpi_error(-EINVAL, "struct hugepin_option_info of %zu bytes, this library's has %zu", size,
				 sizeof(full));
	memset(info, 0, size);
	memcpy(info, &full, sizeof(full));
	return 0;
}

int hugepin_options_get(const struct hugepin_options *options, const char *key, struct hugepin_option_info *info)
{
	int id;

	if (!options || !key || !info)
		return hpi_error(-EINVAL, "reading an option: %s is NULL",
				 !options ? "the option set" : !key ? "the name" : "the result");
	id = hpi_options_find(key);
	return id < 0 ? hpi_options_unknown(key, "API") : describe(options, id, info);
}

int hugepin_options_at(const struct hugepin_options *options, size_t position, struct hugepin_option_info *info)
{
	if (!options || !info)
		return hpi_error(-EINVAL, "reading an option: %s is NULL", options ? "the result" : "the option set");
	/* The end of a listing is no failure to tell of. */
	return position < HPI_OPT_COUNT ? describe(options, position, info) : -ENOENT;
}

const char *hpi_options_string(const struct hugepin_options *options, enum hpi_option_id id)
{
	return in_force(options, id)->text;
}

uint64_t hpi_options_uint(const struct hugepin_options *options, enum hpi_option_id id)
{
	enum hpi_option_type type = hpi_options_entry(id)->type;

	assert(type == HPI_TYPE_UINT || type == HPI_TYPE_BYTES || type == HPI_TYPE_CHOICE);
	return in_force(options, id)->value.u;
}

int64_t hpi_options_int(const struct hugepin_options *options, enum hpi_option_id id)
{
	assert(hpi_options_entry(id)->type == HPI_TYPE_INT);
	return in_force(options, id)->value.i;
}

double hpi_options_double(const struct hugepin_options *options, enum hpi_option_id id)
{
	assert(hpi_options_entry(id)->type == HPI_TYPE_DOUBLE);
	return in_force(options, id)->value.d;
}

bool hpi_options_bool(const struct hugepin_options *options, enum hpi_option_id id)
{
	assert(hpi_options_entry(id)->type == HPI_TYPE_BOOL);
	return in_force(options, id)->value.b;
}

bool hpi_options_scaled(const struct hugepin_options *options, enum hpi_option_id id, uint64_t *bytes)
{
	const struct hpi_option *option = hpi_options_entry(id);
	int shift = !strcmp(option->unit, "GB") ? 30 : 20;
	const union value *value = &in_force(options, id)->value;

	assert(!strcmp(option->unit, "GB") || !strcmp(option->unit, "MB"));
	if (option->type == HPI_TYPE_DOUBLE) {
		double scaled = ldexp(value->d, shift);		/* exact */

		if (scaled < 0)
			return false;
		*bytes = (uint64_t)scaled;
		*bytes += scaled - (double)*bytes >= 0.5;
		return true;
	}
	assert(option->type == HPI_TYPE_UINT || (option->type == HPI_TYPE_INT && value->i >= 0));
	*bytes = value->u << shift;
	return true;
}

unsigned int hpi_options_static_policy(const struct hugepin_options *options)
{
	unsigned int policy = (unsigned int)hpi_options_uint(options, HPI_OPT_ASCEND_STATIC_POLICY);

	return policy == 1 ? 2 : policy;
}

uint64_t hpi_options_deferred_deletion(const struct hugepin_options *options)
{
	uint64_t bytes = hpi_options_uint(options, HPI_OPT_TF_DEFERRED_DELETION);

	return bytes ? bytes : HPI_MIB(8);
}

bool hpi_options_is_set(const struct hugepin_options *options, enum hpi_option_id id)
{
	return source_of(options, id) != HPI_SOURCE_DEFAULT;
}

const char *hpi_options_source(const struct hugepin_options *options, enum hpi_option_id id)
{
	return in_force(options, id)->where;
}

bool hpi_options_dialect_active(const struct hugepin_options *options, const char *dialect)
{
	int id;

	for (id = 0; id < HPI_OPT_COUNT; id++)
		if (!strcmp(hpi_options_entry(id)->dialect, dialect) && hpi_options_is_set(options, id))
			return true;
	return false;
}

bool hpi_options_outranks(const struct hugepin_options *options, enum hpi_option_id id, enum hpi_option_id other)
{
	return source_of(options, id) > source_of(options, other);
}

/* A double is mantissa * 2^exponent with 53 bits of mantissa: the product with 64 bits is exact in 128. */
uint64_t hpi_options_share(double fraction, uint64_t bytes)
{
	unsigned __int128 product, half;
	int exponent;
	double mantissa;
	int shift;

	assert(fraction >= 0 && fraction <= 1);
	mantissa = frexp(fraction, &exponent);
	shift = 53 - exponent;
	product = (unsigned __int128)(uint64_t)ldexp(mantissa, 53) * bytes;
	if (shift > 120)
		return 0;
	/* To the nearest, a half downwards: 0.7 of 10 is 7 although the double is a little less than 0.7. */
	half = ((unsigned __int128)1 << (shift - 1)) - 1;
	return (uint64_t)((product + half) >> shift);
}
