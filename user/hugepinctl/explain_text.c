// SPDX-License-Identifier: MIT
/* What explain found, as a map with tables for people and as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"

#define MAP_COLUMNS	64
#define WINDOWS_SHOWN	24		/* one by one */
#define PAGE_BYTES	((uint64_t)4096)

static const enum style state_styles[WINDOW_STATES] = {
	[WINDOW_FREE] = STYLE_GREEN,
	[WINDOW_MOVABLE] = STYLE_GREEN,
	[WINDOW_PERHAPS] = STYLE_YELLOW,
	[WINDOW_OURS] = STYLE_BOLD,
	[WINDOW_HUGETLB] = STYLE_YELLOW,
	[WINDOW_OURS_2M] = STYLE_YELLOW,
	[WINDOW_BLOCKED] = STYLE_RED,
	[WINDOW_ZONE] = STYLE_RED,
	[WINDOW_PARTIAL] = STYLE_DIM,
};

/* ---- for people ---- */

static void print_sign(enum window_state state, bool colour)
{
	printf("%s%c%s", style_on(state_styles[state], colour), window_state_signs[state],
	       style_off(state_styles[state], colour));
}

static void print_map(const struct node_scan *scan, bool colour)
{
	uint64_t next = 0;
	unsigned int column = 0;

	for (size_t i = 0; i < scan->nr_windows; i++) {
		const struct window *window = &scan->windows[i];

		/* a gap in the addresses begins a new line */
		if (!i || column == MAP_COLUMNS || window->pfn != next) {
			printf("%s  %12" PRIx64 "  ", i ? "\n" : "", window->pfn * PAGE_BYTES);
			column = 0;
		}
		print_sign(window_state(window), colour);
		next = window->pfn + WINDOW_PAGES;
		column++;
	}
	puts("\n");
}

static void print_states(const struct forecast *forecast, bool colour)
{
	for (int state = 0; state < WINDOW_STATES; state++) {
		if (!forecast->windows[state])
			continue;
		fputs("  ", stdout);
		print_sign((enum window_state)state, colour);
		printf(" %4" PRIu64 "  %s\n", forecast->windows[state], window_state_names[state]);
	}
	putchar('\n');
}

/* Rows as ADDRESS and what is in the way, most of it first. */
static void add_kinds(struct table *table, const struct tally *tally)
{
	bool done[PAGE_KINDS] = { false };
	char text[256] = "";

	for (;;) {
		int most = -1;
		size_t used = strlen(text);

		for (int kind = 0; kind < PAGE_KINDS; kind++)
			if (page_kind_blocks((enum page_kind)kind) && tally->pages[kind] && !done[kind] &&
			    (most < 0 || tally->pages[kind] > tally->pages[most]))
				most = kind;
		if (most < 0)
			break;
		done[most] = true;
		snprintf(text + used, sizeof(text) - used, "%s%" PRIu64 " %s", used ? ", " : "", tally->pages[most],
			 page_kind_names[most]);
	}
	table_cell(table, STYLE_PLAIN, "%s", text);
}

static bool has_obstacle(const struct window *window)
{
	enum window_state state = window_state(window);

	return state == WINDOW_PERHAPS || state == WINDOW_BLOCKED || state == WINDOW_HUGETLB ||
	       state == WINDOW_OURS_2M;
}

static int compare_counts(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/*
 * The windows that are closest to being had: those with fewer pages in the way than @pages, and of those with just as
 * many the first @ties. @count: windows that have any.
 */
struct closest {
	uint64_t pages;
	size_t ties, count;
};

static int find_closest(const struct node_scan *scan, struct closest *out)
{
	uint64_t *counts = calloc(scan->nr_windows + 1, sizeof(*counts));

	if (!counts)
		return -ENOMEM;
	*out = (struct closest){ .pages = UINT64_MAX };
	for (size_t i = 0; i < scan->nr_windows; i++)
		if (has_obstacle(&scan->windows[i]))
			counts[out->count++] = blocking_pages(&scan->windows[i].tally);
	qsort(counts, out->count, sizeof(*counts), compare_counts);
	if (out->count > WINDOWS_SHOWN) {
		out->pages = counts[WINDOWS_SHOWN - 1];
		while (out->ties < WINDOWS_SHOWN && counts[WINDOWS_SHOWN - 1 - out->ties] == out->pages)
			out->ties++;
	}
	free(counts);
	return 0;
}

/* To be asked once for each window, in order. */
static bool is_shown(const struct window *window, struct closest *closest)
{
	uint64_t pages = blocking_pages(&window->tally);

	if (!has_obstacle(window) || pages > closest->pages)
		return false;
	return pages < closest->pages || (closest->ties && closest->ties--);
}

static int print_windows(const struct node_scan *scan, bool colour)
{
	static const char *const headings[] = { "WINDOW AT", "FREE", "MOVABLE", "-IN THE WAY, IN PAGES OF 4 KiB" };
	struct table *table = table_create(headings, 4);
	char free_size[HUMAN_SIZE], movable_size[HUMAN_SIZE];
	struct closest closest = { .count = 0 };
	size_t rows = 0;
	int err = table ? find_closest(scan, &closest) : -ENOMEM;

	for (size_t i = 0; !err && i < scan->nr_windows && rows < WINDOWS_SHOWN; i++) {
		const struct window *window = &scan->windows[i];

		if (!is_shown(window, &closest))
			continue;
		rows++;
		table_cell(table, STYLE_PLAIN, "%" PRIx64, window->pfn * PAGE_BYTES);
		table_cell(table, STYLE_PLAIN, "%s",
			   human_bytes(window->tally.pages[PAGE_FREE] * PAGE_BYTES, free_size));
		table_cell(table, STYLE_PLAIN, "%s",
			   human_bytes(window->tally.pages[PAGE_MOVABLE] * PAGE_BYTES, movable_size));
		add_kinds(table, &window->tally);
	}
	if (!err && rows)
		err = table_print(table, stdout, colour);
	if (!err && rows < closest.count)
		printf("  %zu of %zu, those with the least in the way; --json has all\n", rows, closest.count);
	if (rows)
		putchar('\n');
	table_free(table);
	return err;
}

static int print_blocks(const struct explanation *node, bool colour)
{
	static const char *const headings[] = { "MEMORY BLOCK", "AT", "ZONE", "-KEEPS IT ONLINE, IN PAGES OF 4 KiB" };
	struct table *table = table_create(headings, 4);
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < node->map.nr_blocks; i++) {
		const struct block *block = &node->map.blocks[i];
		const struct zone *zone = node_map_zone(&node->map, block, block->pfn);

		if (!block->online || !block_is_stuck(&node->scan.blocks[i]))
			continue;
		table_cell(table, STYLE_PLAIN, "memory%" PRIu64, block->number);
		table_cell(table, STYLE_PLAIN, "%" PRIx64, block->pfn * PAGE_BYTES);
		table_cell(table, STYLE_PLAIN, "%s", zone ? zone->name : "-");
		add_kinds(table, &node->scan.blocks[i]);
	}
	err = table_print(table, stdout, colour);
	putchar('\n');
	table_free(table);
	return err;
}

static void print_owners(const struct explanation *node)
{
	for (size_t i = 0; i < node->nr_owners; i++)
		printf("  %10" PRIu64 " kernel pages are charged to %s\n", node->owners[i].pages, node->owners[i].path);
	if (node->nr_owners)
		putchar('\n');
}

static void print_forecast(const struct forecast *forecast, bool colour)
{
	fputs(style_on(STYLE_BOLD, colour), stdout);
	if (forecast->now == forecast->most)
		printf("%" PRIu64 " 1G %s could be had now", forecast->now, forecast->now == 1 ? "page" : "pages");
	else
		printf("%" PRIu64 " to %" PRIu64 " 1G pages could be had now", forecast->now, forecast->most);
	puts(style_off(STYLE_BOLD, colour));
}

static int print_node(const struct explanation *node, bool blocks, bool colour)
{
	const struct forecast *forecast = &node->forecast;
	char size[HUMAN_SIZE];
	int err;

	printf("%snode %d%s: %zu windows of 1 GiB, %s free or in files\n\n", style_on(STYLE_BOLD, colour),
	       node->map.node, style_off(STYLE_BOLD, colour), node->scan.nr_windows,
	       human_bytes(forecast->available_pages * PAGE_BYTES, size));
	print_map(&node->scan, colour);
	print_states(forecast, colour);
	err = print_windows(&node->scan, colour);
	print_owners(node);
	if (!err && blocks && forecast->blocks_stuck)
		err = print_blocks(node, colour);
	printf("%" PRIu64 " of %zu memory blocks of %s cannot go offline%s\n", forecast->blocks_stuck,
	       node->map.nr_blocks, human_bytes(node->map.block_pages * PAGE_BYTES, size),
	       forecast->blocks_stuck && !blocks ? "; --blocks lists them" : "");
	print_forecast(forecast, colour);
	for (size_t i = 0; i < node->nr_advice; i++)
		printf("  - %s\n", node->advice[i].text);
	return err;
}

int explain_print(const struct explain_report *report)
{
	bool colour = colour_wanted(stdout);
	int err = 0;

	for (size_t i = 0; !err && i < report->count; i++) {
		if (i)
			putchar('\n');
		err = print_node(&report->nodes[i], report->blocks, colour);
	}
	return err;
}

/* ---- as JSON ---- */

static int put_tally(struct json_object *entry, const struct tally *tally)
{
	struct json_object *pages = json_object_new_object();
	int err = json_put(entry, "pages", pages);

	for (int kind = 0; !err && kind < PAGE_KINDS; kind++)
		if (tally->pages[kind])
			err = json_put_uint(pages, page_kind_keys[kind], tally->pages[kind]);
	return err;
}

static int put_windows(struct json_object *root, const struct node_scan *scan)
{
	struct json_object *array = json_object_new_array(), *entry;
	int err = json_put(root, "windows", array);

	for (size_t i = 0; !err && i < scan->nr_windows; i++) {
		const struct window *window = &scan->windows[i];

		err = json_push_object(array, &entry);
		err = err ? err : json_put_uint(entry, "address", window->pfn * PAGE_BYTES);
		err = err ? err : json_put_text(entry, "state", window_state_keys[window_state(window)]);
		err = err ? err : put_tally(entry, &window->tally);
	}
	return err;
}

static int put_blocks(struct json_object *root, const struct explanation *node)
{
	struct json_object *array = json_object_new_array(), *entry;
	int err = json_put(root, "stuck_blocks", array);

	for (size_t i = 0; !err && i < node->map.nr_blocks; i++) {
		const struct block *block = &node->map.blocks[i];

		if (!block->online || !block_is_stuck(&node->scan.blocks[i]))
			continue;
		err = json_push_object(array, &entry);
		err = err ? err : json_put_uint(entry, "block", block->number);
		err = err ? err : json_put_uint(entry, "address", block->pfn * PAGE_BYTES);
		err = err ? err : put_tally(entry, &node->scan.blocks[i]);
	}
	return err;
}

static int put_owners(struct json_object *root, const struct explanation *node)
{
	struct json_object *array = json_object_new_array(), *entry;
	int err = json_put(root, "kernel_pages_by_group", array);

	for (size_t i = 0; !err && i < node->nr_owners; i++) {
		err = json_push_object(array, &entry);
		err = err ? err : json_put_text(entry, "group", node->owners[i].path);
		err = err ? err : json_put_uint(entry, "pages", node->owners[i].pages);
	}
	return err;
}

static int put_advice(struct json_object *root, const struct explanation *node)
{
	struct json_object *array = json_object_new_array();
	int err = json_put(root, "advice", array);

	for (size_t i = 0; !err && i < node->nr_advice; i++)
		err = json_push(array, json_object_new_string(node->advice[i].text));
	return err;
}

static int put_states(struct json_object *root, const struct forecast *forecast)
{
	struct json_object *states = json_object_new_object();
	int err = json_put(root, "states", states);

	for (int state = 0; !err && state < WINDOW_STATES; state++)
		err = json_put_uint(states, window_state_keys[state], forecast->windows[state]);
	return err;
}

static int put_node(struct json_object *entry, const struct explanation *node)
{
	const struct forecast *forecast = &node->forecast;
	int err = json_put_uint(entry, "node", (uint64_t)node->map.node);

	err = err ? err : json_put_uint(entry, "obtainable_1g", forecast->now);
	err = err ? err : json_put_uint(entry, "obtainable_1g_most", forecast->most);
	err = err ? err : json_put_uint(entry, "room_1g", forecast->room);
	err = err ? err : json_put_uint(entry, "floor_bytes", forecast->floor_pages * PAGE_BYTES);
	err = err ? err : json_put_uint(entry, "available_bytes", forecast->available_pages * PAGE_BYTES);
	err = err ? err : put_states(entry, forecast);
	err = err ? err : put_tally(entry, &node->scan.sum);
	err = err ? err : put_windows(entry, &node->scan);
	err = err ? err : json_put_uint(entry, "block_bytes", node->map.block_pages * PAGE_BYTES);
	err = err ? err : put_blocks(entry, node);
	err = err ? err : put_owners(entry, node);
	return err ? err : put_advice(entry, node);
}

int explain_print_json(const struct explain_report *report)
{
	struct json_object *root = json_object_new_object(), *array = json_object_new_array(), *entry;
	int err = json_put(root, "nodes", array);

	err = err ? err : json_put_text(root, "version", hugepin_version());
	err = err ? err : json_put_uint(root, "driver_pins", report->pins);
	for (size_t i = 0; !err && i < report->count; i++) {
		err = json_push_object(array, &entry);
		err = err ? err : put_node(entry, &report->nodes[i]);
	}
	if (!err)
		err = json_print(root, stdout);
	json_object_put(root);
	return err;
}
