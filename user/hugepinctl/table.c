// SPDX-License-Identifier: MIT
/*
 * Aligned text tables, sizes for people, and bars. Widths are counted in bytes, so text beyond ASCII belongs into a
 * last, left-aligned column, which is not padded.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hugepinctl.h"

struct cell {
	char *text;
	enum style style;
};

struct table {
	size_t columns, cells, room;
	const char *const *headings;
	struct cell *cell;
	bool broken;			/* memory was lacking */
};

static const char *const codes[STYLE_COUNT] = {
	[STYLE_PLAIN] = "",
	[STYLE_BOLD] = "\033[1m",
	[STYLE_DIM] = "\033[2m",
	[STYLE_GREEN] = "\033[32m",
	[STYLE_YELLOW] = "\033[33m",
	[STYLE_RED] = "\033[31m",
};

struct table *table_create(const char *const *headings, size_t columns)
{
	struct table *table = calloc(1, sizeof(*table));

	if (table) {
		table->headings = headings;
		table->columns = columns;
	}
	return table;
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->cells; i++)
		free(table->cell[i].text);
	free(table->cell);
	free(table);
}

static struct cell *next_cell(struct table *table)
{
	if (table->cells == table->room) {
		size_t more = table->room ? table->room * 2 : table->columns * 8;
		struct cell *cell = reallocarray(table->cell, more, sizeof(*cell));

		if (!cell)
			return NULL;
		table->cell = cell;
		table->room = more;
	}
	return &table->cell[table->cells];
}

void table_cell(struct table *table, enum style style, const char *fmt, ...)
{
	struct cell *cell = next_cell(table);
	va_list args;
	int length;

	if (!cell) {
		table->broken = true;
		return;
	}
	va_start(args, fmt);
	length = vasprintf(&cell->text, fmt, args);
	va_end(args);
	if (length < 0) {
		table->broken = true;
		return;
	}
	text_for_terminal(cell->text);
	cell->style = style;
	table->cells++;
}

const char *style_on(enum style style, bool colour)
{
	return colour ? codes[style] : "";
}

const char *style_off(enum style style, bool colour)
{
	return colour && style != STYLE_PLAIN ? "\033[0m" : "";
}

bool colour_wanted(FILE *out)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no_colour && *no_colour)
		return false;
	return isatty(fileno(out)) && term && strcmp(term, "dumb");
}

static size_t width_of(const struct table *table, size_t column)
{
	const char *heading = table->headings[column];
	size_t width = strlen(heading) - (*heading == '-');

	for (size_t i = column; i < table->cells; i += table->columns) {
		size_t length = strlen(table->cell[i].text);

		if (length > width)
			width = length;
	}
	return width;
}

static const struct cell *cell_at(const struct table *table, size_t row, size_t column)
{
	return &table->cell[row * table->columns + column];
}

/* Blanks are held back until something follows them, so that no line ends in blanks. */
static void print_cell(FILE *out, const struct cell *cell, size_t width, bool left, size_t *blanks, bool colour)
{
	size_t pad = width > strlen(cell->text) ? width - strlen(cell->text) : 0;

	if (!left)
		*blanks += pad;
	if (*cell->text) {
		fprintf(out, "%*s%s%s%s", (int)*blanks, "", style_on(cell->style, colour), cell->text,
			style_off(cell->style, colour));
		*blanks = 0;
	}
	*blanks += 2 + (left ? pad : 0);
}

int table_print(const struct table *table, FILE *out, bool colour)
{
	size_t rows = 1 + table->cells / table->columns;

	if (table->broken)
		return -ENOMEM;
	for (size_t row = 0; row < rows; row++) {
		size_t blanks = 0;

		for (size_t column = 0; column < table->columns; column++) {
			const char *heading = table->headings[column];
			bool left = *heading == '-';
			struct cell title = { (char *)heading + left, STYLE_BOLD };

			print_cell(out, row ? cell_at(table, row - 1, column) : &title, width_of(table, column), left,
				   &blanks, colour);
		}
		fputc('\n', out);
	}
	return 0;
}

const char *human_bytes(uint64_t bytes, char buffer[HUMAN_SIZE])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	size_t unit = 0;
	uint64_t whole = bytes, tenths = 0;

	while (whole >= 1024) {
		tenths = whole % 1024 * 10 / 1024;
		whole /= 1024;
		unit++;
	}
	if (tenths)
		snprintf(buffer, HUMAN_SIZE, "%llu.%llu %s", (unsigned long long)whole, (unsigned long long)tenths,
			 units[unit]);
	else
		snprintf(buffer, HUMAN_SIZE, "%llu %s", (unsigned long long)whole, units[unit]);
	return buffer;
}

void bar_share(const uint64_t *parts, size_t count, unsigned int width, unsigned int *cells)
{
	unsigned int left = width;
	double whole = 0, rest = 0;

	for (size_t i = 0; i < count; i++)
		whole += (double)parts[i];
	rest = whole;
	for (size_t i = 0; i < count; i++) {
		unsigned int behind = 0;

		/* Of what is left, in proportion to what is left: so the last part that is not zero takes the rest. */
		for (size_t j = i + 1; j < count; j++)
			behind += parts[j] != 0;
		cells[i] = parts[i] ? (unsigned int)((double)parts[i] / rest * left + 0.5) : 0;
		if (parts[i] && !cells[i] && left)
			cells[i] = 1;
		if (cells[i] && cells[i] + behind > left)
			cells[i] = left > behind ? left - behind : left > 0;
		left -= cells[i];
		rest -= (double)parts[i];
	}
}
