// SPDX-License-Identifier: MIT
/* hugepinctl config: the library's options, what they are set to and by what; and whether a file of them is good. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "hugepinctl.h"

static const char *const headings[] = {
	"-DIALECT", "-OPTION", "-VALUE", "-SET BY", "-DEFAULT", "-RANGE", "-TYPE", "-UNIT",
};
#define COLUMNS		(sizeof(headings) / sizeof(headings[0]))

static const char *shown(const char *value)
{
	return *value ? value : "\"\"";
}

static void add_row(struct table *table, const struct hugepin_option_info *info)
{
	bool set = strcmp(info->source, "default") != 0;

	table_cell(table, STYLE_DIM, "%s", info->dialect);
	table_cell(table, set ? STYLE_BOLD : STYLE_PLAIN, "%s", info->name);
	table_cell(table, set ? STYLE_BOLD : STYLE_PLAIN, "%s", shown(info->value));
	table_cell(table, STYLE_PLAIN, "%s", info->source);
	table_cell(table, STYLE_PLAIN, "%s", set ? shown(info->default_value) : "");	/* it stands there already */
	if (*info->choices)
		table_cell(table, STYLE_PLAIN, "%s%s", info->choices[0] == '|' ? "\"\"" : "", info->choices);
	else if (*info->max)
		table_cell(table, STYLE_PLAIN, "%s%s%s", info->min, *info->min ? " to " : "up to ", info->max);
	else
		table_cell(table, STYLE_PLAIN, "%s", "");
	table_cell(table, STYLE_PLAIN, "%s", info->type);
	table_cell(table, STYLE_PLAIN, "%s", strcmp(info->unit, info->type) ? info->unit : "");
}

static int print_table(const struct hugepin_options *options)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	struct table *table = table_create(headings, COLUMNS);
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; !hugepin_options_at(options, i, &info); i++)
		add_row(table, &info);
	err = table_print(table, stdout, colour_wanted(stdout));
	table_free(table);
	return err;
}

/* "a|b" as an array; a word may be empty. */
static int put_choices(struct json_object *entry, const char *choices)
{
	struct json_object *array = json_object_new_array();
	int err = json_put(entry, "choices", array);

	while (!err && *choices) {
		size_t length = strcspn(choices, "|");

		err = json_push(array, json_object_new_string_len(choices, (int)length));
		choices += length + (choices[length] == '|');
	}
	return err;
}

static int put_option(struct json_object *entry, const struct hugepin_option_info *info)
{
	int err = json_put_text(entry, "name", info->name);

	err = err ? err : json_put_text(entry, "dialect", info->dialect);
	err = err ? err : json_put_text(entry, "type", info->type);
	err = err ? err : json_put_text(entry, "unit", info->unit);
	err = err ? err : json_put_text(entry, "default", info->default_value);
	err = err ? err : json_put_text(entry, "min", info->min);
	err = err ? err : json_put_text(entry, "max", info->max);
	err = err ? err : put_choices(entry, info->choices);
	err = err ? err : json_put_text(entry, "value", info->value);
	err = err ? err : json_put_text(entry, "source", info->source);
	return err ? err : json_put_text(entry, "doc", info->doc);
}

static int print_json(const struct hugepin_options *options)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	struct json_object *array = json_object_new_array();
	int err = array ? 0 : -ENOMEM;

	for (size_t i = 0; !err && !hugepin_options_at(options, i, &info); i++) {
		struct json_object *entry;

		err = json_push_object(array, &entry);
		err = err ? err : put_option(entry, &info);
	}
	err = err ? err : json_print(array, stdout);
	json_object_put(array);
	return err;
}

/* What a program started from here would have in force: the file is read as one that HUGEPIN_CONFIG names. */
static int load(const char *file, struct hugepin_options **out)
{
	struct hugepin_options *options;
	int err = hugepin_options_create(&options);

	if (err)
		return err;
	err = hugepin_options_load_environment(options);
	if (!err && file)
		err = hugepin_options_load_file(options, file);
	if (err)
		hugepin_options_destroy(options);
	else
		*out = options;
	return err;
}

static int refused(int err)
{
	complain("config: %s", hugepin_error());
	return status_of(err);
}

static int list(const char *file, bool json)
{
	struct hugepin_options *options;
	int err = load(file, &options);

	if (err)
		return refused(err);
	err = json ? print_json(options) : print_table(options);
	if (err)
		complain("config: no memory for the output");
	hugepin_options_destroy(options);
	return flush_output(status_of(err));
}

static int get(const char *file, const char *name)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	struct hugepin_options *options;
	int err = load(file, &options);

	if (err)
		return refused(err);
	err = hugepin_options_get(options, name, &info);
	if (err)
		err = refused(err);
	else
		printf("%s\n", info.value);
	hugepin_options_destroy(options);
	return flush_output(err);
}

/* Each file alone, without the environment. */
static int check(char *const *files, size_t count)
{
	struct hugepin_options *options;
	int status = STATUS_OK;

	for (size_t i = 0; i < count; i++) {
		int err = hugepin_options_create(&options);

		if (err)
			return refused(err);
		err = hugepin_options_load_file(options, files[i]);
		if (err)
			status = refused(err);
		else
			printf("%s: good\n", files[i]);
		hugepin_options_destroy(options);
	}
	return flush_output(status);
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	const char *file = option_value(line, 'f'), *verb = nr_words ? words[0] : "";
	bool json = option_given(line, 'j');

	if (!nr_words)
		return list(file, json);
	if (!strcmp(verb, "get") && nr_words == 2 && !json)
		return get(file, words[1]);
	if (!strcmp(verb, "check") && nr_words >= 2 && !json && !file)
		return check(words + 1, nr_words - 1);
	if (!strcmp(verb, "get"))
		complain("config get takes one NAME, and no --json");
	else if (!strcmp(verb, "check"))
		complain("config check takes one FILE or more, and no option");
	else
		complain("config: '%s' is neither 'get' nor 'check'", verb);
	return usage_error(&command_config);
}

const struct command command_config = {
	.name = "config",
	.arguments = "[--json] [--file FILE] | get [--file FILE] NAME | check FILE...",
	.summary = "show the library's options, what is in force and what set it; check a file of them",
	.options = {
		{ 'f', "file", "FILE", "read FILE as well, as if HUGEPIN_CONFIG named it" },
		{ 'j', "json", NULL,
		  "an array with one object an option: name, dialect, type, unit, default, min, max,\n"
		  "choices, value, source, doc" },
	},
	.help = "Without a word: every option, with the value that a program started here would have.\n"
		"  get NAME         that value alone\n"
		"  check FILE...    tell whether these files are good; the environment is not looked at\n"
		"A value that is wrong, wherever it is set, is told with its place and reason, and nothing is shown.\n"
		"A file whose name ends in .pbtxt or .textproto holds TensorFlow's gpu_options.\n",
	.takes_words = true,
	.run = run,
};
