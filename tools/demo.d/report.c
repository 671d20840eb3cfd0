// SPDX-License-Identifier: MIT
/* The report for people: sections of aligned lines on stdout, progress on stderr. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

#define WIDTH	100
#define INDENT	3
#define LABEL	11

static bool marked;

void report_mark(void)
{
	marked = true;
}

void report_progress(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (marked) {
		putchar(REPORT_MARK_PROGRESS);
		vprintf(fmt, args);
		putchar('\n');
		fflush(stdout);
	} else {
		vfprintf(stderr, fmt, args);
		fputs(" ...\n", stderr);
	}
	va_end(args);
}

void report_section(const char *number, const char *title)
{
	printf("\n%-*s%s\n", INDENT, number, title);
	fflush(stdout);
}

/* Bytes of the longest part of @text that fits in @columns and ends before a blank. */
static size_t fitting(const char *text, size_t columns)
{
	size_t length = strlen(text), cut = columns;

	if (length <= columns)
		return length;
	while (cut && text[cut] != ' ')
		cut--;
	return cut ? cut : columns;
}

static void print_wrapped(const char *label, const char *text)
{
	do {
		size_t part = fitting(text, WIDTH - INDENT - LABEL - 1);

		printf("%*s%-*s %.*s\n", INDENT, "", LABEL, label, (int)part, text);
		text += part;
		while (*text == ' ')
			text++;
		label = "";
	} while (*text);
	fflush(stdout);
}

static void print_formatted(const char *label, const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) < 0) {
		print_wrapped(label, fmt);
		return;
	}
	print_wrapped(label, text);
	free(text);
}

void report_line(const char *label, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_formatted(label, fmt, args);
	va_end(args);
}

void report_text(const char *text)
{
	while (*text) {
		size_t length = strcspn(text, "\n");

		if (length)
			printf("%*s%.*s\n", INDENT, "", (int)length, text);
		text += length + (text[length] == '\n');
	}
	fflush(stdout);
}

bool report_check(struct demo *demo, bool holds, const char *fmt, ...)
{
	va_list args;

	if (holds)
		return true;
	demo->failures++;
	va_start(args, fmt);
	print_formatted("FAILED", fmt, args);
	va_end(args);
	return false;
}

int report_stop(struct demo *demo, const char *fmt, ...)
{
	va_list args;

	demo->failures++;
	va_start(args, fmt);
	print_formatted("FAILED", fmt, args);
	va_end(args);
	return -1;
}

const char *text_bytes(uint64_t bytes, char buffer[TEXT_SIZE])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	unsigned int unit = 0;
	double n = (double)bytes;

	while (n >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		n /= 1024;
		unit++;
	}
	snprintf(buffer, TEXT_SIZE, n == (double)(uint64_t)n ? "%.0f %s" : "%.1f %s", n, units[unit]);
	return buffer;
}

const char *text_count(uint64_t n, char buffer[TEXT_SIZE])
{
	char digits[TEXT_SIZE], *out = buffer;
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, n);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return buffer;
}

const char *text_us(uint64_t us, char buffer[TEXT_SIZE])
{
	if (us < 1000)
		snprintf(buffer, TEXT_SIZE, "%" PRIu64 " us", us);
	else if (us < 1000000)
		snprintf(buffer, TEXT_SIZE, "%.2f ms", (double)us / 1e3);
	else
		snprintf(buffer, TEXT_SIZE, "%.2f s", (double)us / 1e6);
	return buffer;
}

const char *text_pages(uint64_t bytes_1g, uint64_t bytes_2m, char buffer[TEXT_PAGES_SIZE])
{
	uint64_t nr_1g = bytes_1g / PAGE_1G, nr_2m = bytes_2m / PAGE_2M;

	if (nr_1g && nr_2m)
		snprintf(buffer, TEXT_PAGES_SIZE, "%" PRIu64 " x 1G + %" PRIu64 " x 2M", nr_1g, nr_2m);
	else if (nr_1g)
		snprintf(buffer, TEXT_PAGES_SIZE, "%" PRIu64 " x 1G", nr_1g);
	else
		snprintf(buffer, TEXT_PAGES_SIZE, "%" PRIu64 " x 2M", nr_2m);
	return buffer;
}
