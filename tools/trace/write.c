// SPDX-License-Identifier: MIT
/* Builds a trace in memory; storage.c puts it into a file. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>

#include "bytes.h"
#include "format.h"

struct hp_trace_writer {
	struct hp_trace_totals totals;
	uint32_t last_thread;
	bool finished;
	uint8_t *data;		/* header, then the body so far */
	size_t bytes;
	size_t capacity;
};

static int reserve(struct hp_trace_writer *writer, size_t more)
{
	size_t capacity = writer->capacity;
	uint8_t *grown;

	if (writer->bytes + more > HP_TRACE_MAX_FILE_BYTES)
		return -EFBIG;
	if (writer->bytes + more <= capacity)
		return 0;
	capacity = 2 * (writer->bytes + more);
	grown = realloc(writer->data, capacity);
	if (!grown)
		return -ENOMEM;
	writer->data = grown;
	writer->capacity = capacity;
	return 0;
}

static void put_varint(struct hp_trace_writer *writer, uint64_t value)
{
	while (value >= 0x80) {
		writer->data[writer->bytes++] = (uint8_t)value | 0x80;
		value >>= 7;
	}
	writer->data[writer->bytes++] = (uint8_t)value;
}

struct hp_trace_writer *hp_trace_writer_create(uint64_t min_bytes)
{
	struct hp_trace_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	if (reserve(writer, HP_TRACE_HEADER_BYTES)) {
		free(writer);
		return NULL;
	}
	writer->totals.info.min_bytes = min_bytes;
	memset(writer->data, 0, HP_TRACE_HEADER_BYTES);
	writer->bytes = HP_TRACE_HEADER_BYTES;
	return writer;
}

int hp_trace_writer_add(struct hp_trace_writer *writer, const struct hp_trace_event *event, uint64_t *block)
{
	uint64_t number = writer->totals.info.blocks;
	uint64_t before_us = writer->totals.info.duration_us;
	bool other_thread = event->thread != writer->last_thread;
	const char *rule;
	int rc;

	if (writer->finished)
		return -EINVAL;
	rc = reserve(writer, HP_TRACE_MAX_EVENT_BYTES + HP_TRACE_TRAILER_BYTES);
	if (!rc)
		rc = hp_trace_totals_add(&writer->totals, event, &rule);
	if (rc)
		return rc;

	writer->data[writer->bytes++] = (uint8_t)(event->kind | (other_thread ? TAG_THREAD : 0) |
						  event->align_log2 << TAG_ALIGN_SHIFT);
	put_varint(writer, event->time_us - before_us);
	if (other_thread)
		put_varint(writer, event->thread);
	if (event->kind == HP_TRACE_FREE)
		put_varint(writer, number - event->block);
	if (event->kind == HP_TRACE_REALLOC)
		put_varint(writer, number - event->old_block);
	if (event->kind != HP_TRACE_FREE)
		put_varint(writer, event->bytes);
	writer->last_thread = event->thread;
	if (block && event->kind != HP_TRACE_FREE)
		*block = number;
	return 0;
}

int hp_trace_writer_finish(struct hp_trace_writer *writer, uint64_t small_allocs, const void **data, size_t *bytes)
{
	struct hp_trace_info *info = &writer->totals.info;
	size_t body = writer->bytes - HP_TRACE_HEADER_BYTES;
	uint8_t *at;
	int rc;

	if (writer->finished)
		return -EINVAL;
	rc = reserve(writer, HP_TRACE_TRAILER_BYTES);
	if (rc)
		return rc;

	at = writer->data;
	memcpy(at + AT_MAGIC, HP_TRACE_MAGIC, HP_TRACE_MAGIC_BYTES);
	put16(at + AT_VERSION, HP_TRACE_VERSION);
	put16(at + AT_HEADER_BYTES, HP_TRACE_HEADER_BYTES);
	put64(at + AT_MIN_BYTES, info->min_bytes);
	put64(at + AT_EVENTS, info->events);
	put64(at + AT_BLOCKS, info->blocks);
	put64(at + AT_PEAK_LIVE, info->peak_live_bytes);
	put64(at + AT_LIVE_AT_END, info->live_at_end_bytes);
	put64(at + AT_SMALL_ALLOCS, small_allocs);
	put64(at + AT_DURATION, info->duration_us);
	put32(at + AT_THREADS, info->threads);
	put32(at + AT_LARGEST_ALIGN, info->largest_align_log2);
	put64(at + AT_BODY_BYTES, body);
	put32(at + AT_HEADER_CRC, (uint32_t)crc32(0, at, AT_HEADER_CRC));

	at += writer->bytes;
	put32(at, (uint32_t)crc32_z(0, writer->data + HP_TRACE_HEADER_BYTES, body));
	memcpy(at + 4, HP_TRACE_TRAILER_MAGIC, 4);
	writer->bytes += HP_TRACE_TRAILER_BYTES;
	writer->finished = true;
	*data = writer->data;
	*bytes = writer->bytes;
	return 0;
}

void hp_trace_writer_destroy(struct hp_trace_writer *writer)
{
	if (!writer)
		return;
	hp_trace_totals_destroy(&writer->totals);
	free(writer->data);
	free(writer);
}
