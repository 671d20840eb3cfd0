// SPDX-License-Identifier: MIT
/*
 * Options from files and from the environment. Every source is read into a copy of the set, which replaces it when all
 * of it was good.
 *
 * A file is lines of "option = value" with LF ends. Blanks around option and value do not count, nothing is quoted, a
 * line longer than 4096 bytes, a NUL, a CR LF end or an option given twice is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options_table.h"

#define LINE_MAX_BYTES	4096

int hpi_options_change(struct hugepin_options *options, int (*read)(struct hugepin_options *copy, const void *arg),
		       const void *arg)
{
	struct hugepin_options *copy;
	int err = hpi_options_copy(options, &copy);

	if (err)
		return err;
	err = read(copy, arg);
	if (err)
		hugepin_options_destroy(copy);
	else
		hpi_options_replace(options, copy);
	return err;
}

/* ---- Files ---- */

struct file_reader {
	struct hugepin_options *options;
	const char *path;
	unsigned int line;
	unsigned int seen[HPI_OPT_COUNT];	/* line that set it, 0: none */
	int err;				/* of a line, with the error text set */
};

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static char *trim(char *s)
{
	char *end = s + strlen(s);

	while (end > s && is_blank(end[-1]))
		end--;
	*end = '\0';
	while (is_blank(*s))
		s++;
	return s;
}

/* '#' starts a comment at the start of a line or behind a blank, so that a path may hold one. */
static void cut_comment(char *line)
{
	char *c;

	for (c = line; *c; c++) {
		if (*c == '#' && (c == line || is_blank(c[-1]))) {
			*c = '\0';
			return;
		}
	}
}

static int read_assignment(struct file_reader *reader, char *line, const char *where)
{
	char *key, *value;
	int id, err;

	cut_comment(line);
	key = trim(line);
	if (!*key)
		return 0;
	value = strchr(key, '=');
	if (!value || value == key)
		return hpi_error(-EINVAL, "%s: \"%.200s\" is not \"option = value\"", where, key);
	*value++ = '\0';
	key = trim(key);
	value = trim(value);
	id = hpi_options_find(key);
	if (id < 0)
		return hpi_options_unknown(key, where);
	if (reader->seen[id])
		return hpi_error(-EINVAL, "option %s is set twice: %s and line %u of the same file", key, where,
				 reader->seen[id]);
	err = hpi_options_put(reader->options, id, HPI_SOURCE_FILE, value, where);
	reader->seen[id] = reader->line;
	return err;
}

static int read_line(char *line, size_t length, void *arg)
{
	struct file_reader *reader = arg;
	char *where;

	reader->line++;
	if (asprintf(&where, "%s:%u", reader->path, reader->line) < 0) {
		reader->err = hpi_error(-ENOMEM, "no memory to read %s", reader->path);
		return 1;
	}
	if (strlen(line) != length)
		reader->err = hpi_error(-EINVAL, "%s: a NUL byte; this is not a text file", where);
	else if (reader->line == 1 && has_prefix(line, HPI_BYTE_ORDER_MARK))
		reader->err = hpi_error(-EINVAL, "%s: the file begins with a byte order mark; save it as UTF-8 without",
					where);
	else if (length && line[length - 1] == '\r')
		reader->err = hpi_error(-EINVAL, "%s: the line ends in CR LF; save the file with LF line ends", where);
	else
		reader->err = read_assignment(reader, line, where);
	free(where);
	return reader->err ? 1 : 0;
}

static int read_assignments(struct hugepin_options *options, const char *path)
{
	struct file_reader reader = { .options = options, .path = path };
	int err = hpi_sys_read_lines(path, LINE_MAX_BYTES, read_line, &reader);

	if (err == -EFBIG)
		return hpi_error(-EINVAL, "%s:%u: a line of more than %d bytes", path, reader.line + 1, LINE_MAX_BYTES);
	if (err == -EINVAL)
		return hpi_error(err, "reading options from %s: not a regular file", path);
	if (err)
		return hpi_error(err, "reading options from %s: %s", path, strerror(-err));
	return reader.err;
}

static int read_file(struct hugepin_options *options, const void *path)
{
	return hpi_options_is_proto(path) ? hpi_options_read_proto(options, path) : read_assignments(options, path);
}

int hugepin_options_load_file(struct hugepin_options *options, const char *path)
{
	if (!options || !path)
		return hpi_error(-EINVAL, "reading options from a file: %s is NULL",
				 options ? "the path" : "the option set");
	return hpi_options_change(options, read_file, path);
}

/* ---- Environment ---- */

/* "NAME=value": is it NAME? */
static bool is_variable(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(entry, name, length) && entry[length] == '=';
}

static int unknown_variable(const char *entry)
{
	const struct hpi_option *alike;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry, "="), entry);
	alike = hpi_options_alike(name);
	return hpi_error(-ENOENT, "%.*s is no option (environment)%s%s", (int)strcspn(entry, "="), entry,
			 alike ? "; there is " : "", alike ? alike->environment : "");
}

static int read_variable(struct hugepin_options *options, const char *entry, bool seen[HPI_OPT_COUNT])
{
	int id;

	for (id = 0; id < HPI_OPT_COUNT; id++) {
		const char *name = hpi_options_entry(id)->environment;

		if (!is_variable(entry, name))
			continue;
		if (seen[id])
			return hpi_error(-EINVAL, "%s is in the environment twice", name);
		seen[id] = true;
		return hpi_options_put(options, id, HPI_SOURCE_ENVIRONMENT, entry + strlen(name) + 1, "environment");
	}
	if (!has_prefix(entry, "HUGEPIN_") || is_variable(entry, "HUGEPIN_CONFIG"))
		return 0;
	return unknown_variable(entry);
}

static int read_environment(struct hugepin_options *options, const void *unused)
{
	const char *config = getenv("HUGEPIN_CONFIG");
	bool seen[HPI_OPT_COUNT] = { false };
	char **entry;
	int err = 0;

	(void)unused;
	if (config && !*config)
		return hpi_error(-EINVAL, "HUGEPIN_CONFIG (environment) is empty: it names a file of options");
	if (config)
		err = read_file(options, config);
	for (entry = environ; !err && entry && *entry; entry++)
		err = read_variable(options, *entry, seen);
	return err;
}

int hugepin_options_load_environment(struct hugepin_options *options)
{
	if (!options)
		return hpi_error(-EINVAL, "reading options from the environment: the option set is NULL");
	if (hpi_sys_secure()) {
		hpi_log(HUGEPIN_LOG_INFO, "options in the environment are ignored: the program has another's rights");
		return 0;
	}
	return hpi_options_change(options, read_environment, NULL);
}
