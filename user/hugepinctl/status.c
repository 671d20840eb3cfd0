// SPDX-License-Identifier: MIT
/* hugepinctl status: what the module holds, per node and class, for people and as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "hugepinctl.h"

#define BAR_WIDTH	16
#define BAR_PARTS	4		/* used, withheld, dirty, clean */

static const char *const headings[] = {
	"NODE", "CLASS", "ASKED", "TOTAL", "CLEAN", "DIRTY", "IN USE", "QUARANTINED", "POISONED", "SIZE", "-USE",
};
#define COLUMNS		(sizeof(headings) / sizeof(headings[0]))

static const struct {
	const char *word, *ascii, *utf8;
	enum style style;
} bar_parts[BAR_PARTS] = {
	{ "in use", "#", "\u2588", STYLE_BOLD },
	{ "quarantined or poisoned", "x", "\u2573", STYLE_RED },
	{ "dirty", "-", "\u2592", STYLE_YELLOW },
	{ "clean", "=", "\u2591", STYLE_GREEN },
};

struct look look_at(FILE *out)
{
	struct winsize size;
	struct look look = { .colour = colour_wanted(out), .bar = true };

	if (isatty(fileno(out)) && !ioctl(fileno(out), TIOCGWINSZ, &size) && size.ws_col && size.ws_col < 98)
		look.bar = false;
	look.utf8 = setlocale(LC_CTYPE, "") && !strcmp(nl_langinfo(CODESET), "UTF-8");
	return look;
}

static void add_bar(struct table *table, const struct hugepin_reserve_info *info, const struct look *look)
{
	const uint64_t parts[BAR_PARTS] = {
		info->in_use_pages,
		info->quarantined_pages + info->poisoned_pages,
		info->dirty_pages,
		info->clean_pages,
	};
	unsigned int cells[BAR_PARTS];
	char text[BAR_WIDTH * 4 + BAR_PARTS * 16 + 1] = "", *end = text;

	bar_share(parts, BAR_PARTS, BAR_WIDTH, cells);
	for (size_t i = 0; i < BAR_PARTS; i++) {
		if (!cells[i])
			continue;
		end = stpcpy(end, style_on(bar_parts[i].style, look->colour));
		for (unsigned int n = 0; n < cells[i]; n++)
			end = stpcpy(end, look->utf8 ? bar_parts[i].utf8 : bar_parts[i].ascii);
		end = stpcpy(end, style_off(bar_parts[i].style, look->colour));
	}
	table_cell(table, STYLE_PLAIN, "%s", text);
}

static void add_count(struct table *table, uint64_t pages, enum style style)
{
	table_cell(table, pages ? style : STYLE_DIM, "%" PRIu64, pages);
}

static void add_row(struct table *table, const char *node, const struct hugepin_reserve_info *info,
		    const struct look *look)
{
	char size[HUMAN_SIZE];

	table_cell(table, STYLE_PLAIN, "%s", node);
	table_cell(table, STYLE_PLAIN, "%s", class_name(info->page_class));
	add_count(table, info->asked_pages, pages_short(info) ? STYLE_YELLOW : STYLE_PLAIN);
	add_count(table, info->total_pages, STYLE_PLAIN);
	add_count(table, info->clean_pages, STYLE_GREEN);
	add_count(table, info->dirty_pages, STYLE_YELLOW);
	add_count(table, info->in_use_pages, STYLE_BOLD);
	add_count(table, info->quarantined_pages, STYLE_RED);
	add_count(table, info->poisoned_pages, STYLE_RED);
	table_cell(table, STYLE_PLAIN, "%s", human_bytes(info->total_pages * class_bytes(info->page_class), size));
	if (look->bar)
		add_bar(table, info, look);
}

static void add_to(struct hugepin_reserve_info *sum, const struct hugepin_reserve_info *info)
{
	sum->asked_pages += info->asked_pages;
	sum->total_pages += info->total_pages;
	sum->clean_pages += info->clean_pages;
	sum->dirty_pages += info->dirty_pages;
	sum->in_use_pages += info->in_use_pages;
	sum->quarantined_pages += info->quarantined_pages;
	sum->poisoned_pages += info->poisoned_pages;
}

/* One row a class, where there is more than one node to add up. */
static void add_totals(struct table *table, const struct snapshot *now, const struct look *look)
{
	for (int c = CLASS_LAST; c >= CLASS_FIRST; c--) {
		struct hugepin_reserve_info sum = { .page_class = (enum hugepin_class)c };
		unsigned int nodes = 0;

		for (size_t i = 0; i < now->count; i++) {
			if (now->entries[i].page_class != sum.page_class)
				continue;
			add_to(&sum, &now->entries[i]);
			nodes++;
		}
		if (nodes > 1)
			add_row(table, "all", &sum, look);
	}
}

static int print_table(const struct snapshot *now, const struct look *look, FILE *out)
{
	struct table *table = table_create(headings, look->bar ? COLUMNS : COLUMNS - 1);
	char node[16];
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < now->count; i++) {
		snprintf(node, sizeof(node), "%d", now->entries[i].node);
		add_row(table, node, &now->entries[i], look);
	}
	add_totals(table, now, look);
	err = table_print(table, out, look->colour);
	table_free(table);
	return err;
}

static void print_summary(const struct snapshot *now, FILE *out)
{
	uint64_t total = 0, used = 0, clean = 0, dirty = 0;
	char a[HUMAN_SIZE], b[HUMAN_SIZE], c[HUMAN_SIZE], d[HUMAN_SIZE];

	for (size_t i = 0; i < now->count; i++) {
		uint64_t bytes = class_bytes(now->entries[i].page_class);

		total += now->entries[i].total_pages * bytes;
		used += now->entries[i].in_use_pages * bytes;
		clean += now->entries[i].clean_pages * bytes;
		dirty += now->entries[i].dirty_pages * bytes;
	}
	fprintf(out, "\n%s reserved: %s in use, %s clean, %s dirty\n", human_bytes(total, a), human_bytes(used, b),
	       human_bytes(clean, c), human_bytes(dirty, d));
}

static void print_legend(const struct look *look, FILE *out)
{
	for (size_t i = 0; i < BAR_PARTS; i++)
		fprintf(out, "%s%s%s%s %s", i ? "   " : "", style_on(bar_parts[i].style, look->colour),
		       look->utf8 ? bar_parts[i].utf8 : bar_parts[i].ascii,
		       style_off(bar_parts[i].style, look->colour), bar_parts[i].word);
	fputc('\n', out);
}

static void print_notes(const struct snapshot *now, const struct look *look, FILE *out)
{
	for (size_t i = 0; i < now->count; i++) {
		const struct hugepin_reserve_info *info = &now->entries[i];

		if (pages_short(info))
			fprintf(out, "%snode %d: %s: asked %" PRIu64 ", got %" PRIu64 "%s\n",
			       style_on(STYLE_YELLOW, look->colour), info->node, class_name(info->page_class),
			       info->asked_pages, pages_usable(info), style_off(STYLE_YELLOW, look->colour));
	}
	for (int c = CLASS_LAST; c >= CLASS_FIRST; c--)
		if (now->absent[c])
			fprintf(out, "%s pages are absent: %s\n", class_name((enum hugepin_class)c), now->absent[c]);
}

int status_print(const struct snapshot *now, const struct look *look, FILE *out)
{
	uint64_t total = 0;
	int err = print_table(now, look, out);

	if (err)
		return err;
	for (size_t i = 0; i < now->count; i++)
		total += now->entries[i].total_pages;
	print_summary(now, out);
	if (look->bar && total)
		print_legend(look, out);
	print_notes(now, look, out);
	return 0;
}

static int print_human(const struct snapshot *now)
{
	const struct look look = look_at(stdout);

	return status_print(now, &look, stdout);
}

static int put_entry(struct json_object *entry, const struct hugepin_reserve_info *info)
{
	int err = json_put_uint(entry, "node", (uint64_t)info->node);

	err = err ? err : json_put_text(entry, "class", class_name(info->page_class));
	err = err ? err : json_put_uint(entry, "page_bytes", class_bytes(info->page_class));
	err = err ? err : json_put_uint(entry, "asked", info->asked_pages);
	err = err ? err : json_put_uint(entry, "total", info->total_pages);
	err = err ? err : json_put_uint(entry, "clean", info->clean_pages);
	err = err ? err : json_put_uint(entry, "dirty", info->dirty_pages);
	err = err ? err : json_put_uint(entry, "in_use", info->in_use_pages);
	err = err ? err : json_put_uint(entry, "quarantined", info->quarantined_pages);
	return err ? err : json_put_uint(entry, "poisoned", info->poisoned_pages);
}

static int put_reserve(struct json_object *root, const struct snapshot *now)
{
	struct json_object *array = json_object_new_array();
	int err = json_put(root, "reserve", array);

	for (size_t i = 0; !err && i < now->count; i++) {
		struct json_object *entry;

		err = json_push_object(array, &entry);
		if (!err)
			err = put_entry(entry, &now->entries[i]);
	}
	return err;
}

int status_print_json(const struct snapshot *now, FILE *out)
{
	struct json_object *root = json_object_new_object(), *absent = json_object_new_object();
	int err = root ? json_put_text(root, "version", hugepin_version()) : -ENOMEM;

	err = err ? err : put_reserve(root, now);
	if (err)
		json_object_put(absent);
	else
		err = json_put(root, "absent", absent);
	for (int c = CLASS_LAST; !err && c >= CLASS_FIRST; c--)
		if (now->absent[c])
			err = json_put_text(absent, class_name((enum hugepin_class)c), now->absent[c]);
	if (!err)
		err = json_print(root, out);
	json_object_put(root);
	return err;
}

static int show(bool json)
{
	struct hugepin_context *ctx;
	struct snapshot now;
	struct message why;
	int err = session_open(&ctx, &why);

	if (!err) {
		err = snapshot_take(ctx, &now, &why);
		hugepin_context_destroy(ctx);
	}
	if (err) {
		complain("%s", why.text);
		return status_of(err);
	}
	err = json ? status_print_json(&now, stdout) : print_human(&now);
	snapshot_free(&now);
	if (err)
		complain("no memory for the output");
	return flush_output(status_of(err));
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	(void)words, (void)nr_words;
	return show(option_given(line, 'j'));
}

const struct command command_status = {
	.name = "status",
	.arguments = "[--json]",
	.summary = "show what is reserved on each node, and in which state it is",
	.options = {
		{ 'j', "json", NULL, "machine-readable: version, reserve (one entry a node and class), absent" },
	},
	.help = "ASKED is what was last asked for, TOTAL what is held:\n"
		"TOTAL = CLEAN + DIRTY + IN USE + QUARANTINED + POISONED, counted in pages of the class.\n",
	.run = run,
};
