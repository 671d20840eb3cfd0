// SPDX-License-Identifier: MIT
/*
 * A picture of a pool, to scale: rows of as many bytes each, a frame for each segment, a bar for each block. Where
 * blocks are smaller than can be seen a column of one pixel shows their shares instead, so that a million of them is
 * not a megabyte of rectangles and nothing is left out.
 */
#include "pool_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS		1000u		/* pixels of a row */
#define LEFT		150u		/* for addresses */
#define TOP		92u
#define ROW_HEIGHT	44u
#define BAR_TOP		16u		/* within the row, below the segments' captions */
#define BAR_HEIGHT	22u
#define ROWS_WANTED	24u
#define BAR_PIXELS	3u		/* what is narrower is shown by shares */
#define CAPTION_PIXELS	190u		/* what a segment's caption takes */
#define HUNDREDTHS	100u		/* of a pixel: places are whole numbers of them, the same under every locale */
#define STATES		4u

#define PLACE		"%llu.%02llu"
#define PLACE_OF(n)	(unsigned long long)(n) / HUNDREDTHS, (unsigned long long)(n) % HUNDREDTHS

static const char *const colours[STATES] = {
	[HUGEPIN_BLOCK_ACTIVE] = "#2f6db5",
	[HUGEPIN_BLOCK_CACHED] = "#58a55c",
	[HUGEPIN_BLOCK_DEFERRED] = "#e08e2b",
	[HUGEPIN_BLOCK_FREE] = "#e8e8e8",
};

struct picture {
	struct hpi_writer *writer;
	const struct hpi_view *view;
	uint64_t row_bytes;		/* a multiple of COLUMNS is not needed: columns are computed by position */
	char *row;			/* its first address */
	unsigned int y;
	size_t next_block;		/* the first that reaches into the row, or lies behind it */
	uint64_t (*shares)[STATES];	/* bytes of a column by state */
};

/* ---- layout ---- */

static bool starts_run(const struct hpi_view *view, size_t segment)
{
	const struct hugepin_segment_info *s = &view->segments[segment];

	return !segment || (char *)s[-1].addr + s[-1].bytes != s->addr;
}

static char *end_of_run(const struct hpi_view *view, size_t segment)
{
	while (segment + 1 < view->segment_count && !starts_run(view, segment + 1))
		segment++;
	return (char *)view->segments[segment].addr + view->segments[segment].bytes;
}

static unsigned int count_rows(const struct hpi_view *view, uint64_t row_bytes)
{
	uint64_t rows = 0;
	size_t i;

	for (i = 0; i < view->segment_count; i++) {
		if (starts_run(view, i))
			rows += ((uint64_t)(end_of_run(view, i) - (char *)view->segments[i].addr) + row_bytes - 1) / row_bytes;
	}
	return (unsigned int)rows;
}

/* A power of two, so that rows begin at addresses one can read. */
static uint64_t choose_row_bytes(const struct hpi_view *view)
{
	uint64_t row_bytes = HPI_2M;

	while (view->stats.mapped_bytes / row_bytes > ROWS_WANTED)
		row_bytes *= 2;
	return row_bytes;
}

/* ---- one row ---- */

/* In hundredths of a pixel from the row's begin. Rows have 2^57 bytes at most, so in two steps. */
static uint64_t place_of(const struct picture *picture, const char *addr)
{
	uint64_t offset = (uint64_t)(addr - picture->row), unit = picture->row_bytes / HPI_2M;

	return offset / unit * (COLUMNS * HUNDREDTHS) / HPI_2M;
}

static char *later(char *a, char *b)
{
	return a > b ? a : b;
}

static char *earlier(char *a, char *b)
{
	return a < b ? a : b;
}

/* A block too small to be seen: its bytes go to the columns that it lies in. */
static void add_shares(struct picture *picture, char *from, char *to, enum hugepin_block_state state)
{
	unsigned int column = (unsigned int)(place_of(picture, from) / HUNDREDTHS);
	char *end;

	for (; from < to && column < COLUMNS; from = end, column++) {
		end = picture->row + (picture->row_bytes * (column + 1) + COLUMNS - 1) / COLUMNS;
		end = earlier(end, to);
		if (end > from)
			picture->shares[column][state] += (uint64_t)(end - from);
		else
			end = from;
	}
}

static void draw_block(struct picture *picture, char *from, char *to, const struct hugepin_block_info *block)
{
	uint64_t x = place_of(picture, from), width = place_of(picture, to) - x;
	char size[32];

	if (width < BAR_PIXELS * HUNDREDTHS) {
		add_shares(picture, from, to, block->state);
		return;
	}
	hpi_size_format(block->bytes, size, sizeof(size));
	hpi_writer_print(picture->writer,
			 "<rect x=\"" PLACE "\" y=\"%u\" width=\"" PLACE "\" height=\"%u\" fill=\"%s\"%s><title>%s, %s at %p</title>"
			 "</rect>\n", PLACE_OF(LEFT * HUNDREDTHS + x), picture->y + BAR_TOP, PLACE_OF(width), BAR_HEIGHT,
			 colours[block->state],
			 block->state == HUGEPIN_BLOCK_FREE ? "" : " stroke=\"#fff\" stroke-width=\"0.6\"",
			 hpi_view_state(block->state), size, block->addr);
}

static uint64_t share_height(const struct picture *picture, unsigned int column, unsigned int state)
{
	return place_of(picture, picture->row + picture->shares[column][state]) * BAR_HEIGHT;
}

/* One path a state, of a stroke for each column: a row of a thousand is then some kilobytes. */
static void draw_share_of(struct picture *picture, unsigned int state)
{
	bool begun = false;
	unsigned int column, above;
	uint64_t y;

	for (column = 0; column < COLUMNS; column++) {
		if (!picture->shares[column][state])
			continue;
		if (!begun)
			hpi_writer_print(picture->writer, "<path stroke=\"%s\" d=\"", colours[state]);
		begun = true;
		y = (picture->y + BAR_TOP) * HUNDREDTHS;
		for (above = 0; above < state; above++)
			y += share_height(picture, column, above);
		hpi_writer_print(picture->writer, "M%u.5 " PLACE "v" PLACE, LEFT + column, PLACE_OF(y),
				 PLACE_OF(share_height(picture, column, state)));
	}
	if (begun)
		hpi_writer_print(picture->writer, "\"/>\n");
}

static void draw_blocks(struct picture *picture, char *row_end)
{
	const struct hpi_view *view = picture->view;
	unsigned int state;
	size_t i;

	memset(picture->shares, 0, COLUMNS * sizeof(picture->shares[0]));
	for (i = picture->next_block; i < view->block_count; i++) {
		const struct hugepin_block_info *block = &view->blocks[i];
		char *end = (char *)block->addr + block->bytes;

		if ((char *)block->addr >= row_end)
			break;
		if (end > picture->row)
			draw_block(picture, later(block->addr, picture->row), earlier(end, row_end), block);
		if (end <= row_end)
			picture->next_block = i + 1;
	}
	for (state = 0; state < STATES; state++)
		draw_share_of(picture, state);
}

static void draw_segments(struct picture *picture, char *row_end)
{
	const struct hpi_view *view = picture->view;
	char size[32], page[32];
	size_t i;

	for (i = 0; i < view->segment_count; i++) {
		const struct hugepin_segment_info *s = &view->segments[i];
		char *from = later(s->addr, picture->row), *to = earlier((char *)s->addr + s->bytes, row_end);
		uint64_t x, width;

		if (from >= to)
			continue;
		x = place_of(picture, from);
		width = place_of(picture, to) - x;
		hpi_writer_print(picture->writer, "<rect x=\"" PLACE "\" y=\"%u\" width=\"" PLACE "\" height=\"%u\" fill=\"none\" "
				 "stroke=\"#222\" stroke-width=\"1.2\"/>\n", PLACE_OF(LEFT * HUNDREDTHS + x),
				 picture->y + BAR_TOP, PLACE_OF(width), BAR_HEIGHT);
		if (from != s->addr || width < CAPTION_PIXELS * HUNDREDTHS)
			continue;
		hpi_size_format(s->bytes, size, sizeof(size));
		hpi_size_format(s->page_bytes, page, sizeof(page));
		hpi_writer_print(picture->writer, "<text x=\"" PLACE "\" y=\"%u\" class=\"s\">%s, %s, pages of %s",
				 PLACE_OF((LEFT + 1) * HUNDREDTHS + x), picture->y + BAR_TOP - 4, size, hpi_view_provider(s->provider), page);
		if (s->node >= 0)
			hpi_writer_print(picture->writer, ", node %d", s->node);
		hpi_writer_print(picture->writer, "</text>\n");
	}
}

static void draw_rows(struct picture *picture)
{
	const struct hpi_view *view = picture->view;
	char *end;
	size_t i;

	for (i = 0; i < view->segment_count; i++) {
		if (!starts_run(view, i))
			continue;
		end = end_of_run(view, i);
		for (picture->row = view->segments[i].addr; picture->row < end; picture->row += picture->row_bytes) {
			hpi_writer_print(picture->writer, "<text x=\"%u\" y=\"%u\" text-anchor=\"end\">%p</text>\n", LEFT - 8,
					 picture->y + BAR_TOP + 15, (void *)picture->row);
			draw_blocks(picture, earlier(picture->row + picture->row_bytes, end));
			draw_segments(picture, earlier(picture->row + picture->row_bytes, end));
			picture->y += ROW_HEIGHT;
		}
	}
}

/* ---- head ---- */

static void draw_head(struct picture *picture, const char *pool_name, unsigned int rows)
{
	const struct hugepin_pool_stats *stats = &picture->view->stats;
	const uint64_t bytes[STATES] = {
		[HUGEPIN_BLOCK_ACTIVE] = stats->active_bytes,
		[HUGEPIN_BLOCK_CACHED] = stats->cached_bytes,
		[HUGEPIN_BLOCK_DEFERRED] = stats->deferred_bytes,
		[HUGEPIN_BLOCK_FREE] = stats->free_bytes,
	};
	unsigned int width = LEFT + COLUMNS + 20, height = TOP + rows * ROW_HEIGHT + 20, state;
	char size[32], row[32];

	hpi_writer_print(picture->writer,
			 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\" "
			 "font-family=\"sans-serif\" font-size=\"12\">\n<style>.s { font-size: 11px; fill: #333 }</style>\n"
			 "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", width, height, width, height);
	hpi_size_format(stats->mapped_bytes, size, sizeof(size));
	hpi_size_format(picture->row_bytes, row, sizeof(row));
	hpi_writer_print(picture->writer, "<text x=\"20\" y=\"30\" font-size=\"18\">%s pool: %s in %llu segments, "
			 "%llu blocks in use; a row is %s</text>\n", pool_name, size, (unsigned long long)stats->segments,
			 (unsigned long long)stats->active_blocks, row);
	for (state = 0; state < STATES; state++) {
		hpi_size_format(bytes[state], size, sizeof(size));
		hpi_writer_print(picture->writer, "<rect x=\"%u\" y=\"46\" width=\"14\" height=\"14\" fill=\"%s\" stroke=\"#222\" "
				 "stroke-width=\"0.5\"/>\n<text x=\"%u\" y=\"58\">%s %s</text>\n", 20 + 190 * state,
				 colours[state], 40 + 190 * state, hpi_view_state((enum hugepin_block_state)state), size);
	}
}

int hpi_snapshot_svg(struct hpi_writer *writer, const char *pool_name, const struct hpi_view *view)
{
	struct picture picture = { .writer = writer, .view = view, .row_bytes = choose_row_bytes(view), .y = TOP };

	picture.shares = hpi_sys_fault && hpi_sys_fault("malloc") ? NULL : malloc(COLUMNS * sizeof(picture.shares[0]));
	if (!picture.shares)
		return hpi_error(-ENOMEM, "%s pool: no memory to draw it", pool_name);
	draw_head(&picture, pool_name, count_rows(view, picture.row_bytes));
	draw_rows(&picture);
	hpi_writer_print(writer, "</svg>\n");
	free(picture.shares);
	return 0;
}
