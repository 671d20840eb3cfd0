// SPDX-License-Identifier: MIT
/* The environment: a line of the input is a variable. HUGEPIN_CONFIG is left out: it would name files of this machine. */
#include "options_state.h"

#define VARIABLES	64

static int load(struct hugepin_options *options, const char *text)
{
	char *lines = strdup(text), *rest = lines, *line, *entries[VARIABLES + 1];
	char **own = environ;
	size_t count = 0;
	int err;

	PROPERTY(lines);
	while (count < VARIABLES && (line = strsep(&rest, "\n")))
		if (strncmp(line, "HUGEPIN_CONFIG=", 15) != 0)
			entries[count++] = line;
	entries[count] = NULL;
	environ = entries;
	err = hugepin_options_load_environment(options);
	environ = own;
	free(lines);
	return err;
}

static char *write_environment(const struct hugepin_options *options)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	char *text = NULL;
	size_t size, i;
	FILE *out = open_memstream(&text, &size);

	PROPERTY(out);
	for (i = 0; !hugepin_options_at(options, i, &info); i++)
		if (is_set(&info))
			fprintf(out, "%s=%s\n", info.environment, info.value);
	PROPERTY(!fclose(out));
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	check_source(text, load, write_environment);
	free(text);
	return 0;
}
