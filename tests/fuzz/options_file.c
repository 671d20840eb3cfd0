// SPDX-License-Identifier: MIT
/* Files of "option = value" lines: any bytes. */
#include <sys/mman.h>

#include "options_state.h"

static int load_bytes(struct hugepin_options *options, const void *bytes, size_t size)
{
	static int fd = -1;
	static char path[64];

	if (fd < 0) {
		fd = memfd_create("options", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	PROPERTY(fd >= 0 && !ftruncate(fd, 0));
	PROPERTY(pwrite(fd, bytes, size, 0) == (ssize_t)size);
	return hugepin_options_load_file(options, path);
}

static int load(struct hugepin_options *options, const char *text)
{
	return load_bytes(options, text, strlen(text));
}

static char *write_file(const struct hugepin_options *options)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	char *text = NULL;
	size_t size, i;
	FILE *out = open_memstream(&text, &size);

	PROPERTY(out);
	/* Without a blank before the value: "#" behind one begins a comment. */
	for (i = 0; !hugepin_options_at(options, i, &info); i++)
		if (is_set(&info))
			fprintf(out, "%s=%s\n", info.name, info.value);
	PROPERTY(!fclose(out));
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hugepin_options *options = fresh_options();
	char *text = fuzz_text(data, size);

	/* A NUL is refused wherever it is. */
	if (load_bytes(options, data, size) == 0)
		PROPERTY(strlen(text) == size);
	check_source(text, load, write_file);
	free(text);
	hugepin_options_destroy(options);
	return 0;
}
