/* SPDX-License-Identifier: MIT */
/*
 * Option sets as text, for the properties that the fuzzers of all sources check: a refused input changes nothing and
 * says why; one that was taken, written out and read again, gives the same set.
 */
#ifndef HUGEPIN_TESTS_OPTIONS_STATE_H
#define HUGEPIN_TESTS_OPTIONS_STATE_H

#include <stdbool.h>
#include <unistd.h>

#include "fuzz.h"
#include "hugepin.h"

static inline struct hugepin_options *fresh_options(void)
{
	struct hugepin_options *options;

	PROPERTY(!hugepin_options_create(&options));
	return options;
}

static inline bool is_set(const struct hugepin_option_info *info)
{
	return strcmp(info->source, "default") != 0;
}

/* Every option with its value and, if @sources, what set it. */
static inline char *state_of(const struct hugepin_options *options, bool sources)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	char *text = NULL;
	size_t size, i;
	FILE *out = open_memstream(&text, &size);

	PROPERTY(out);
	for (i = 0; !hugepin_options_at(options, i, &info); i++)
		fprintf(out, "%s=%s %s\n", info.name, info.value, sources ? info.source : is_set(&info) ? "set" : "");
	PROPERTY(!fclose(out));
	return text;
}

/*
 * @load takes one text into a set; @write makes such a text of a set. The set that a refusal must not touch has a value
 * of its own beforehand; the one that is written and read again has none but the text's.
 */
static inline void check_source(const char *text, int (*load)(struct hugepin_options *options, const char *text),
				char *(*write)(const struct hugepin_options *options))
{
	struct hugepin_options *options = fresh_options(), *again = fresh_options();
	char *before, *after, *written;
	int err;

	PROPERTY(!hugepin_options_set(options, "register_threads", "7"));
	before = state_of(options, true);
	err = load(options, text);
	if (err) {
		after = state_of(options, true);
		PROPERTY(!strcmp(before, after));
		PROPERTY(*hugepin_error() && !strchr(hugepin_error(), '\n'));
		free(after);
	}
	err = load(again, text);
	if (!err) {
		struct hugepin_options *third = fresh_options();
		char *once, *twice;

		written = write(again);
		PROPERTY(!load(third, written));
		once = state_of(again, false);
		twice = state_of(third, false);
		PROPERTY(!strcmp(once, twice));
		hugepin_options_destroy(third);
		free(written);
		free(once);
		free(twice);
	}
	free(before);
	hugepin_options_destroy(options);
	hugepin_options_destroy(again);
}

#endif /* HUGEPIN_TESTS_OPTIONS_STATE_H */
