// SPDX-License-Identifier: MIT
/* TensorFlow's GPUOptions as text. */
#include "options_state.h"

static int load(struct hugepin_options *options, const char *text)
{
	return hugepin_options_load_proto(options, text, "fuzz");
}

static void write_string(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++)
		fprintf(out, "\\%03o", (unsigned char)*text);
	putc('"', out);
}

static char *write_proto(const struct hugepin_options *options)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	char *text = NULL;
	size_t size, i;
	FILE *out = open_memstream(&text, &size);

	PROPERTY(out);
	fputs("gpu_options {\n", out);
	for (i = 0; !hugepin_options_at(options, i, &info); i++) {
		if (!is_set(&info))
			continue;
		PROPERTY(!strcmp(info.dialect, "tensorflow"));
		fprintf(out, "%s: ", info.name);
		if (!strcmp(info.type, "choice") || !strcmp(info.type, "list"))
			write_string(out, info.value);
		else
			fputs(info.value, out);
		putc('\n', out);
	}
	fputs("}\n", out);
	PROPERTY(!fclose(out));
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	check_source(text, load, write_proto);
	free(text);
	return 0;
}
