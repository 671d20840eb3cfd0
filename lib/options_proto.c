// SPDX-License-Identifier: MIT
/*
 * TensorFlow's GPUOptions as the text of a protocol buffer, which is how people keep them:
 *
 *	gpu_options { allow_growth: true  per_process_gpu_memory_fraction: 0.5 }
 *
 * A value reaches the table's own parser as text, so that ranges and messages are those of every other source. What
 * that parser takes and this notation does not (yes, 8M, a string without quotes) is refused here, and so is a number
 * that protocol buffers would read otherwise: 010 is eight there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options_table.h"

#define VALUE_MAX	4096
#define TEXT_MAX	((size_t)1 << 20)

enum level {
	LEVEL_TOP,			/* the fields of GPUOptions may stand there, or a message that holds them */
	LEVEL_CONFIG,
	LEVEL_GPU_OPTIONS,
};

static const struct {
	const char *name;
	enum level from, to;
} messages[] = {
	{ "gpu_options", LEVEL_TOP, LEVEL_GPU_OPTIONS },
	{ "config.gpu_options", LEVEL_TOP, LEVEL_GPU_OPTIONS },
	{ "config", LEVEL_TOP, LEVEL_CONFIG },
	{ "gpu_options", LEVEL_CONFIG, LEVEL_GPU_OPTIONS },
};

struct proto {
	struct hugepin_options *options;
	enum hpi_source source;
	const char *name;			/* of the text, for messages and listings; NULL: none */
	const char *at;
	unsigned int line;
	unsigned int seen[HPI_OPT_COUNT];	/* line that set it, 0: none */
};

#define REFUSE(proto, fmt, ...) \
	hpi_error(-EINVAL, "%s:%u: " fmt, (proto)->name ? (proto)->name : "API", (proto)->line, ##__VA_ARGS__)

/* ---- Characters; isalpha() and the like follow the locale ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

/* First character of the next token. Until then the line is that of the token before, which messages are about. */
static char peek(struct proto *proto)
{
	for (;; proto->at++) {
		if (*proto->at == '#')
			proto->at += strcspn(proto->at, "\n");
		if (*proto->at == '\n')
			proto->line++;
		else if (!*proto->at || !strchr(" \t\r\v\f", *proto->at))
			return *proto->at;
	}
}

static bool take(struct proto *proto, char c)
{
	if (peek(proto) != c)
		return false;
	proto->at++;
	return true;
}

/* ---- Values ---- */

/* The digits of \nnn or \xhh, @base 8 or 16, at most @most. */
static unsigned int take_code(struct proto *proto, unsigned int base, unsigned int most)
{
	static const char digits[] = "0123456789abcdef";
	unsigned int code = 0;

	while (most-- && *proto->at) {
		char lower = *proto->at >= 'A' && *proto->at <= 'F' ? *proto->at - 'A' + 'a' : *proto->at;
		const char *digit = memchr(digits, lower, base);

		if (!digit)
			break;
		code = code * base + (unsigned int)(digit - digits);
		proto->at++;
	}
	return code;
}

/* What stands behind a backslash, as one byte. */
static int take_escape(struct proto *proto, char *out)
{
	static const char names[] = "abfnrtv\\'\"?", bytes[] = "\a\b\f\n\r\t\v\\'\"?";
	const char *name = *proto->at ? strchr(names, *proto->at) : NULL;
	unsigned int code;

	if (name) {
		*out = bytes[name - names];
		proto->at++;
		return 0;
	}
	if (*proto->at == 'x' || *proto->at == 'X') {
		proto->at++;
		code = take_code(proto, 16, 2);
	} else {
		code = take_code(proto, 8, 3);
	}
	if (!code || code > 0xff)
		return REFUSE(proto, "a string has an escape that is unknown or no character");
	*out = (char)code;
	return 0;
}

/* Strings next to each other are one. */
static int take_string(struct proto *proto, char value[VALUE_MAX])
{
	size_t length = 0;
	int err;

	while (peek(proto) == '"' || peek(proto) == '\'') {
		char quote = *proto->at++;

		while (*proto->at != quote) {
			char c = *proto->at;

			if (!c || c == '\n')
				return REFUSE(proto, "a string has no end on its line");
			if (length + 1 == VALUE_MAX)
				return REFUSE(proto, "a string of more than %d bytes", VALUE_MAX - 1);
			proto->at++;
			err = c == '\\' ? take_escape(proto, &c) : 0;
			if (err)
				return err;
			value[length++] = c;
		}
		proto->at++;
	}
	value[length] = '\0';
	return 0;
}

static int take_word(struct proto *proto, char *word, size_t size)
{
	size_t length = 0;

	peek(proto);
	while (is_word_char(proto->at[length]) || (proto->at[length] && strchr("+-", proto->at[length])))
		length++;
	if (length >= size)
		return REFUSE(proto, "a word of %zu characters", length);
	memcpy(word, proto->at, length);
	word[length] = '\0';
	proto->at += length;
	return 0;
}

static int check_bool(struct proto *proto, const char *field, char *value)
{
	static const char *const words[] = { "true", "True", "t", "1", "false", "False", "f", "0" };
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(value, words[i])) {
			strcpy(value, i < 4 ? "true" : "false");
			return 0;
		}
	}
	return REFUSE(proto, "%s is true or false here, not \"%.64s\"", field, value);
}

static int check_integer(struct proto *proto, const char *field, const char *value)
{
	const char *digits = value + (*value == '-');

	if (!*digits || digits[strspn(digits, "0123456789")])
		return REFUSE(proto, "%s is a decimal whole number here, not \"%.64s\"", field, value);
	if (digits[0] == '0' && digits[1])
		return REFUSE(proto, "%s = %.64s is octal in this notation: leave out the first 0", field, value);
	return 0;
}

/* "0.5f": the same number, as in C. */
static void cut_suffix(char *value)
{
	size_t length = strlen(value);

	if (length > 1 && (value[length - 1] == 'f' || value[length - 1] == 'F') &&
	    (is_digit(value[length - 2]) || value[length - 2] == '.'))
		value[length - 1] = '\0';
}

static int take_value(struct proto *proto, const struct hpi_option *option, char value[VALUE_MAX])
{
	bool text = option->type == HPI_TYPE_CHOICE || option->type == HPI_TYPE_LIST;
	bool quoted = peek(proto) == '"' || peek(proto) == '\'';
	int err;

	if (quoted != text)
		return REFUSE(proto, "%s %s", option->name,
			      text ? "is a string and stands in quotes" : "is no string: leave out the quotes");
	if (quoted)
		return take_string(proto, value);
	err = take_word(proto, value, VALUE_MAX);
	if (err)
		return err;
	if (option->type == HPI_TYPE_BOOL)
		return check_bool(proto, option->name, value);
	if (option->type != HPI_TYPE_DOUBLE)
		return check_integer(proto, option->name, value);
	cut_suffix(value);
	return 0;
}

/* ---- Fields and messages ---- */

static int put_value(struct proto *proto, int id, unsigned int line, const char *value)
{
	char *where;
	int err;

	if (!proto->name)
		return hpi_options_put(proto->options, id, proto->source, value, "API");
	if (asprintf(&where, "%s:%u", proto->name, line) < 0)
		return hpi_error(-ENOMEM, "no memory to read %s", proto->name);
	err = hpi_options_put(proto->options, id, proto->source, value, where);
	free(where);
	return err;
}

static int read_scalar(struct proto *proto, const char *field, enum level level)
{
	unsigned int line = proto->line;
	char value[VALUE_MAX];
	int id = hpi_options_find(field);
	int err;

	if (level == LEVEL_CONFIG || id < 0 || strcmp(hpi_options_entry(id)->dialect, "tensorflow") != 0) {
		REFUSE(proto, "hugepin has no field \"%.64s\" of %s", field,
		       level == LEVEL_CONFIG ? "config" : "gpu_options");
		return -ENOENT;
	}
	if (proto->seen[id])
		return REFUSE(proto, "field %s stands here a second time, first on line %u", field, proto->seen[id]);
	if (!take(proto, ':'))
		return REFUSE(proto, "behind the field %s a \":\" is missing", field);
	err = take_value(proto, hpi_options_entry(id), value);
	if (err)
		return err;
	proto->seen[id] = line;
	return put_value(proto, id, line, value);
}

static int read_message(struct proto *proto, enum level level, char end);

/* "gpu_options {", with a ":" before the brace or without; "<" for the brace is an old notation. */
static int read_field(struct proto *proto, enum level level)
{
	char name[128];
	size_t i;
	int err;

	if (!is_word_char(peek(proto)) || is_digit(*proto->at))
		return REFUSE(proto, "a field's name is wanted at \"%.20s\"", proto->at);
	err = take_word(proto, name, sizeof(name));
	if (err)
		return err;
	for (i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		if (messages[i].from != level || strcmp(messages[i].name, name) != 0)
			continue;
		take(proto, ':');
		if (take(proto, '{'))
			return read_message(proto, messages[i].to, '}');
		if (take(proto, '<'))
			return read_message(proto, messages[i].to, '>');
		return REFUSE(proto, "%s is a message: a \"{\" is missing", name);
	}
	return read_scalar(proto, name, level);
}

/* No deeper than messages[] is. @end 0: the text's own. */
static int read_message(struct proto *proto, enum level level, char end)
{
	int err;

	while (peek(proto) != end) {
		if (!*proto->at)
			return REFUSE(proto, "the text ends before a \"%c\"", end);
		err = read_field(proto, level);
		if (err)
			return err;
		if (!take(proto, ','))
			take(proto, ';');
	}
	if (end)
		take(proto, end);
	return 0;
}

static int read_text(struct hugepin_options *options, enum hpi_source source, const char *text, const char *name)
{
	struct proto proto = { .options = options, .source = source, .name = name, .at = text, .line = 1 };

	if (!strncmp(text, HPI_BYTE_ORDER_MARK, strlen(HPI_BYTE_ORDER_MARK)))
		return REFUSE(&proto, "the text begins with a byte order mark; save it as UTF-8 without");
	return read_message(&proto, LEVEL_TOP, '\0');
}

/* ---- A file of it ---- */

struct text {
	char *bytes;			/* NUL-terminated, NULL while empty */
	size_t length, size;
	int err;
};

static int reserve(struct text *text, size_t size)
{
	char *bytes;

	if (size <= text->size)
		return 0;
	size = size < 4096 ? 4096 : 2 * size;
	bytes = realloc(text->bytes, size);
	if (!bytes)
		return -ENOMEM;
	text->bytes = bytes;
	text->size = size;
	return 0;
}

static int append_line(char *line, size_t length, void *arg)
{
	struct text *text = arg;

	text->err = strlen(line) != length ? -EILSEQ : text->length + length >= TEXT_MAX ? -EFBIG : 0;
	if (!text->err)
		text->err = reserve(text, text->length + length + 2);
	if (text->err)
		return text->err;
	memcpy(text->bytes + text->length, line, length);
	text->length += length + 1;
	memcpy(text->bytes + text->length - 1, "\n", 2);
	return 0;
}

bool hpi_options_is_proto(const char *path)
{
	static const char *const suffixes[] = { ".pbtxt", ".textproto" };
	size_t length = strlen(path), suffix, i;

	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		suffix = strlen(suffixes[i]);
		if (length > suffix && !strcmp(path + length - suffix, suffixes[i]))
			return true;
	}
	return false;
}

int hpi_options_read_proto(struct hugepin_options *options, const char *path)
{
	struct text text = { .bytes = NULL };
	int err = hpi_sys_read_lines(path, TEXT_MAX, append_line, &text);

	if (text.err == -EILSEQ)
		err = hpi_error(-EINVAL, "%s: a NUL byte; this is not a text file", path);
	else if (err == -EFBIG)
		err = hpi_error(-EINVAL, "%s: more than %zu bytes", path, TEXT_MAX);
	else if (err == -EINVAL)
		err = hpi_error(err, "reading options from %s: not a regular file", path);
	else if (err)
		err = hpi_error(err, "reading options from %s: %s", path, strerror(-err));
	else
		err = read_text(options, HPI_SOURCE_FILE, text.bytes ? text.bytes : "", path);
	free(text.bytes);
	return err;
}

/* ---- From the program ---- */

struct fragment {
	const char *text, *where;
};

static int read_fragment(struct hugepin_options *options, const void *arg)
{
	const struct fragment *fragment = arg;

	return read_text(options, HPI_SOURCE_API, fragment->text, fragment->where);
}

int hugepin_options_load_proto(struct hugepin_options *options, const char *text, const char *where)
{
	struct fragment fragment = { .text = text, .where = where };

	if (!options || !text)
		return hpi_error(-EINVAL, "reading gpu_options (API): %s is NULL",
				 options ? "the text" : "the option set");
	return hpi_options_change(options, read_fragment, &fragment);
}
