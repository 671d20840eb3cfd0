// SPDX-License-Identifier: MIT
/* The check on a GPU: what was found, line by line for people as it comes, and as JSON at the end. */
#include "gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROWS_MAX	256

enum kind { VALUE, PASSED, FAILED, SKIPPED };

static struct row {
	enum kind kind;
	char what[96], how[160];
	double value;
	const char *unit;
} rows[ROWS_MAX];
static size_t count;

/* One more than fits would be lost in silence: so it fails. */
static struct row *add(enum kind kind, const char *what)
{
	struct row *row;

	must(count == ROWS_MAX, "too many rows");
	row = &rows[count++];
	row->kind = kind;
	snprintf(row->what, sizeof(row->what), "%s", what);
	return row;
}

void report_value(const char *what, const char *how, double value, const char *unit)
{
	struct row *row = add(VALUE, what);

	snprintf(row->how, sizeof(row->how), "%s", how);
	row->value = value;
	row->unit = unit;
	printf("%-34s %-40s %12.4f %s\n", what, how, value, unit);
	fflush(stdout);
}

void report_check(const char *what, bool ok, const char *format, ...)
{
	struct row *row = add(ok ? PASSED : FAILED, what);
	va_list args;

	va_start(args, format);
	vsnprintf(row->how, sizeof(row->how), format, args);
	va_end(args);
	printf("%-6s %s: %s\n", ok ? "ok" : "NOT OK", what, row->how);
	fflush(stdout);
}

void report_skip(const char *what, const char *why)
{
	struct row *row = add(SKIPPED, what);

	snprintf(row->how, sizeof(row->how), "%s", why);
	printf("skip   %s: %s\n", what, why);
}

static void put_text(FILE *file, const char *key, const char *text)
{
	fprintf(file, "\"%s\": \"", key);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', file);
		fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
	}
	fputc('"', file);
}

static void write_json(FILE *file, const char *device, int driver)
{
	static const char *const kinds[] = { "value", "passed", "failed", "skipped" };
	size_t i;

	fputs("{ ", file);
	put_text(file, "device", device);
	fprintf(file, ", \"driver\": %d, \"bytes\": %llu, \"rows\": [\n", driver, (unsigned long long)work_bytes);
	for (i = 0; i < count; i++) {
		fputs("  { ", file);
		put_text(file, "kind", kinds[rows[i].kind]);
		fputs(", ", file);
		put_text(file, "what", rows[i].what);
		fputs(", ", file);
		put_text(file, "how", rows[i].how);
		if (rows[i].kind == VALUE)
			fprintf(file, ", \"value\": %.9g, \"unit\": \"%s\"", rows[i].value, rows[i].unit);
		fprintf(file, " }%s\n", i + 1 < count ? "," : "");
	}
	fputs("] }\n", file);
}

int report_end(const char *json_path, const char *device, int driver)
{
	size_t number[4] = { 0 }, i;
	FILE *file;

	for (i = 0; i < count; i++)
		number[rows[i].kind]++;
	printf("%s, driver %d: %zu values\n%zu passed, %zu failed, %zu skipped\n", device, driver, number[VALUE],
	       number[PASSED], number[FAILED], number[SKIPPED]);
	if (json_path) {
		file = fopen(json_path, "w");
		must(!file, json_path);
		write_json(file, device, driver);
		must(fclose(file), json_path);
	}
	return number[FAILED] || !number[PASSED];
}
