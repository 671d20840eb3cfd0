// SPDX-License-Identifier: MIT
/* explain's map as a picture: a cell for each window of 1 GiB, filled from below by what is in it. Plain SVG 1.1. */
#include <inttypes.h>

#include "explain.h"

#define CELL		40		/* user units, the edge of a window */
#define GAP		4
#define COLUMNS		16
#define LEFT		110		/* room for addresses */
#define HEADING		30
#define LEGEND_COLUMNS	5
#define LEGEND_HEIGHT	(24 * ((PAGE_KINDS + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS) + 8)

static const char *const kind_colours[PAGE_KINDS] = {
	[PAGE_FREE] = "#e8f3e8",
	[PAGE_MOVABLE] = "#9ccc9c",
	[PAGE_OURS] = "#3f72af",
	[PAGE_HUGETLB] = "#9b7fc9",
	[PAGE_SLAB] = "#f0a63a",
	[PAGE_TABLE] = "#e2725b",
	[PAGE_KERNEL] = "#c0392b",
	[PAGE_RESERVED] = "#6d2f2f",
	[PAGE_POISONED] = "#000000",
	[PAGE_ABSENT] = "#bdbdbd",
};

static void write_rectangle(FILE *out, unsigned int x, double y, double height, const char *colour)
{
	fprintf(out, "<rect x=\"%u\" y=\"%.2f\" width=\"%d\" height=\"%.2f\" fill=\"%s\"/>\n", x, y, CELL, height,
		colour);
}

/* What is not a zero share is seen: half a unit at least. The free part, drawn first, is what the others lie upon. */
static void write_window(FILE *out, const struct window *window, unsigned int x, unsigned int y)
{
	enum window_state state = window_state(window);
	double bottom = y + CELL;

	fprintf(out, "<g><title>%" PRIx64 ": %s", window->pfn * 4096, window_state_names[state]);
	for (int kind = 0; kind < PAGE_KINDS; kind++)
		if (window->tally.pages[kind])
			fprintf(out, ", %" PRIu64 " %s", window->tally.pages[kind], page_kind_names[kind]);
	fputs("</title>\n", out);
	write_rectangle(out, x, y, CELL, window->online ? kind_colours[PAGE_FREE] : kind_colours[PAGE_ABSENT]);
	for (int kind = PAGE_KINDS - 1; kind > PAGE_FREE; kind--) {
		double height = (double)window->tally.pages[kind] * CELL / WINDOW_PAGES;

		if (!window->tally.pages[kind])
			continue;
		if (height < 0.5)
			height = 0.5;
		if (height > bottom - y)
			height = bottom - y;
		bottom -= height;
		write_rectangle(out, x, bottom, height, kind_colours[kind]);
	}
	fprintf(out, "<rect x=\"%u\" y=\"%u\" width=\"%d\" height=\"%d\" fill=\"none\" ", x, y, CELL, CELL);
	if (state == WINDOW_FREE || state == WINDOW_MOVABLE)
		fputs("stroke=\"#2e7d32\" stroke-width=\"2\"/></g>\n", out);
	else
		fputs("stroke=\"#888888\" stroke-width=\"1\"/></g>\n", out);
}

/* Where the window behind another one goes: as in the map for people, a gap in the addresses begins a new row. */
struct place {
	unsigned int row, column;
	uint64_t next;			/* page behind the last window */
};

static void advance(struct place *place, const struct node_scan *scan, size_t i)
{
	if (i && (place->column + 1 == COLUMNS || scan->windows[i].pfn != place->next)) {
		place->row++;
		place->column = 0;
	} else if (i) {
		place->column++;
	}
	place->next = scan->windows[i].pfn + WINDOW_PAGES;
}

static unsigned int rows_of(const struct node_scan *scan)
{
	struct place place = { 0 };

	for (size_t i = 0; i < scan->nr_windows; i++)
		advance(&place, scan, i);
	return place.row + 1;
}

static unsigned int height_of(const struct explanation *node)
{
	return HEADING + rows_of(&node->scan) * (CELL + GAP) + GAP;
}

static void write_node(FILE *out, const struct explanation *node, unsigned int top)
{
	struct place place = { 0 };

	fprintf(out, "<text x=\"%d\" y=\"%u\" font-weight=\"bold\">node %d: %" PRIu64, GAP, top + 20, node->map.node,
		node->forecast.now);
	if (node->forecast.most > node->forecast.now)
		fprintf(out, " to %" PRIu64, node->forecast.most);
	fputs(" 1G pages could be had</text>\n", out);
	for (size_t i = 0; i < node->scan.nr_windows; i++) {
		unsigned int y;

		advance(&place, &node->scan, i);
		y = top + HEADING + place.row * (CELL + GAP);
		if (!place.column)
			fprintf(out, "<text x=\"%d\" y=\"%u\">%" PRIx64 "</text>\n", GAP, y + CELL / 2 + 5,
				node->scan.windows[i].pfn * 4096);
		write_window(out, &node->scan.windows[i], LEFT + place.column * (CELL + GAP), y);
	}
}

static void write_legend(FILE *out, unsigned int top)
{
	for (int kind = 0; kind < PAGE_KINDS; kind++) {
		unsigned int x = LEFT + (unsigned int)kind % LEGEND_COLUMNS * 140;
		unsigned int y = top + (unsigned int)kind / LEGEND_COLUMNS * 24;

		fprintf(out, "<rect x=\"%u\" y=\"%u\" width=\"14\" height=\"14\" fill=\"%s\" stroke=\"#888888\"/>\n", x,
			y + 8, kind_colours[kind]);
		fprintf(out, "<text x=\"%u\" y=\"%u\">%s</text>\n", x + 20, y + 20, page_kind_names[kind]);
	}
}

int explain_write_svg(const struct explain_report *report, FILE *out)
{
	unsigned int top = 0, height = LEGEND_HEIGHT;

	for (size_t i = 0; i < report->count; i++)
		height += height_of(&report->nodes[i]);
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" font-family=\"sans-serif\" "
		"font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
		(unsigned int)(LEFT + COLUMNS * (CELL + GAP) + GAP), height);
	for (size_t i = 0; i < report->count; i++) {
		write_node(out, &report->nodes[i], top);
		top += height_of(&report->nodes[i]);
	}
	write_legend(out, top);
	fputs("</svg>\n", out);
	return 0;
}
