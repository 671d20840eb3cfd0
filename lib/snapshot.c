// SPDX-License-Identifier: MIT
/*
 * Snapshots of a pool for people and programs: JSON with every block, or a picture (snapshot_svg.c). Written piece by
 * piece through the caller's function, since a pool may have millions of blocks.
 */
#include "pool_view.h"

#include <errno.h>
#include <stdio.h>

void hpi_writer_print(struct hpi_writer *writer, const char *format, ...)
{
	char text[1024];
	va_list args;
	int length;

	if (writer->err)
		return;
	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(text))
		writer->err = -EOVERFLOW;	/* no line is that long */
	else
		writer->err = writer->write(text, (size_t)length, writer->arg);
}

struct number {
	const char *name;
	uint64_t value;
};

static void print_numbers(struct hpi_writer *writer, const struct number *numbers, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		hpi_writer_print(writer, "%s\"%s\": %llu", i ? ", " : "", numbers[i].name,
				 (unsigned long long)numbers[i].value);
}

static void print_stats(struct hpi_writer *writer, const struct hugepin_pool_stats *stats)
{
	const struct number numbers[] = {
		{ "active_bytes", stats->active_bytes },
		{ "cached_bytes", stats->cached_bytes },
		{ "deferred_bytes", stats->deferred_bytes },
		{ "free_bytes", stats->free_bytes },
		{ "mapped_bytes", stats->mapped_bytes },
		{ "registered_bytes", stats->registered_bytes },
		{ "requested_bytes", stats->requested_bytes },
		{ "wasted_bytes", stats->wasted_bytes },
		{ "peak_active_bytes", stats->peak_active_bytes },
		{ "peak_requested_bytes", stats->peak_requested_bytes },
		{ "peak_mapped_bytes", stats->peak_mapped_bytes },
		{ "cap_bytes", stats->cap_bytes },
		{ "active_blocks", stats->active_blocks },
		{ "allocs", stats->allocs },
		{ "frees", stats->frees },
		{ "failed_allocs", stats->failed_allocs },
		{ "fallbacks", stats->fallbacks },
	};

	hpi_writer_print(writer, "\"stats\": {");
	print_numbers(writer, numbers, sizeof(numbers) / sizeof(numbers[0]));
	hpi_writer_print(writer, "}");
}

/* Addresses as text: many readers of JSON have no integers of 64 bits. */
static void print_segment(struct hpi_writer *writer, const struct hugepin_segment_info *segment)
{
	const struct number numbers[] = {
		{ "bytes", segment->bytes },
		{ "page_bytes", segment->page_bytes },
		{ "bytes_1g", segment->bytes_1g },
		{ "bytes_2m", segment->bytes_2m },
	};

	hpi_writer_print(writer, "{\"address\": \"%#llx\", \"provider\": \"%s\", ", (unsigned long long)segment->addr,
			 hpi_view_provider(segment->provider));
	print_numbers(writer, numbers, sizeof(numbers) / sizeof(numbers[0]));
	hpi_writer_print(writer, ", \"node\": %d, \"registered\": \"%s\"}", segment->node, segment->registered);
}

static void print_block(struct hpi_writer *writer, const struct hugepin_block_info *block)
{
	hpi_writer_print(writer, "{\"address\": \"%#llx\", \"bytes\": %llu, \"requested_bytes\": %llu, \"state\": \"%s\"}",
			 (unsigned long long)block->addr, (unsigned long long)block->bytes,
			 (unsigned long long)block->requested_bytes, hpi_view_state(block->state));
}

static void print_json(struct hpi_writer *writer, const char *pool_name, const struct hpi_view *view)
{
	size_t i;

	hpi_writer_print(writer, "{\"pool\": \"%s\",\n", pool_name);
	print_stats(writer, &view->stats);
	hpi_writer_print(writer, ",\n\"segments\": [");
	for (i = 0; i < view->segment_count; i++) {
		hpi_writer_print(writer, "%s\n", i ? "," : "");
		print_segment(writer, &view->segments[i]);
	}
	hpi_writer_print(writer, "],\n\"blocks\": [");
	for (i = 0; i < view->block_count; i++) {
		hpi_writer_print(writer, "%s\n", i ? "," : "");
		print_block(writer, &view->blocks[i]);
	}
	hpi_writer_print(writer, "]}\n");
}

int hugepin_pool_snapshot(const struct hugepin_pool *pool, enum hugepin_snapshot format,
			  int (*write)(const char *text, size_t length, void *arg), void *arg)
{
	struct hpi_writer writer = { .write = write, .arg = arg };
	struct hpi_view view;
	int err = hpi_context_check(pool->ctx);

	if (err)
		return err;
	if (format != HUGEPIN_SNAPSHOT_JSON && format != HUGEPIN_SNAPSHOT_SVG)
		return hpi_error(-EINVAL, "%d is no format of a snapshot", (int)format);
	if (!write)
		return hpi_error(-EINVAL, "%s pool: a snapshot with nowhere to write", hpi_pool_name(pool));
	err = hpi_view_take(pool, &view);
	if (err)
		return err;
	if (format == HUGEPIN_SNAPSHOT_JSON)
		print_json(&writer, hpi_pool_name(pool), &view);
	else
		err = hpi_snapshot_svg(&writer, hpi_pool_name(pool), &view);
	hpi_view_free(&view);
	if (!err && writer.err)
		err = hpi_error(writer.err, "%s pool: the snapshot could not be written", hpi_pool_name(pool));
	return err;
}
