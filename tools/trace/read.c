// SPDX-License-Identifier: MIT
/* Checks a whole trace, then walks it. The input may be anything: nothing in it is believed before it is checked. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "bytes.h"
#include "format.h"

struct cursor {
	const uint8_t *at;
	const uint8_t *end;
	uint64_t time_us;
	uint64_t blocks;
	uint32_t thread;
};

struct hp_trace_reader {
	struct hp_trace_info info;
	struct cursor cursor;
	uint8_t *data;
	size_t bytes;
};

struct reason {
	char *text;
	size_t bytes;
};

__attribute__((format(printf, 3, 4)))
static int refuse(const struct reason *why, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (why->bytes)
		vsnprintf(why->text, why->bytes, format, args);
	va_end(args);
	return error;
}

/* ---- Events ---- */

static const char *get_varint(struct cursor *cursor, uint64_t *value)
{
	uint64_t result = 0;

	for (unsigned int shift = 0; cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		if (shift == 63 && byte > 1)
			return "a number of more than 64 bits";
		result |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (!byte && shift)
			return "a number written longer than needed";
		*value = result;
		return NULL;
	}
	return "the last event is cut short";
}

static const char *get_old_block(struct cursor *cursor, uint64_t *block)
{
	const char *wrong;
	uint64_t back;

	wrong = get_varint(cursor, &back);
	if (wrong)
		return wrong;
	if (!back || back > cursor->blocks)
		return "free of a block that was never allocated";
	*block = cursor->blocks - back;
	return NULL;
}

/* Return: NULL with *@event filled, or what is wrong with the event at the cursor. */
static const char *get_event(struct cursor *cursor, struct hp_trace_event *event)
{
	uint8_t tag = *cursor->at++;
	const char *wrong;
	uint64_t value;

	*event = (struct hp_trace_event){ .kind = tag & TAG_KIND, .align_log2 = tag >> TAG_ALIGN_SHIFT };
	wrong = get_varint(cursor, &value);
	if (wrong)
		return wrong;
	if (value > HP_TRACE_MAX_DURATION_US)
		return "time out of range";
	cursor->time_us += value;

	if (tag & TAG_THREAD) {
		wrong = get_varint(cursor, &value);
		if (wrong)
			return wrong;
		if (value >= HP_TRACE_MAX_THREADS || value == cursor->thread)
			return "thread number out of range";
		cursor->thread = (uint32_t)value;
	}
	event->time_us = cursor->time_us;
	event->thread = cursor->thread;

	if (event->kind == HP_TRACE_FREE)
		return get_old_block(cursor, &event->block);
	if (event->kind == HP_TRACE_REALLOC)
		wrong = get_old_block(cursor, &event->old_block);
	if (!wrong)
		wrong = get_varint(cursor, &event->bytes);
	event->block = cursor->blocks++;
	return wrong;
}

/* ---- Opening is checking ---- */

static int check_frame(const uint8_t *data, size_t bytes, const struct reason *why)
{
	size_t same = bytes < HP_TRACE_MAGIC_BYTES ? bytes : HP_TRACE_MAGIC_BYTES;
	const uint8_t *trailer;
	uint64_t body;

	if (!same || memcmp(data, HP_TRACE_MAGIC, same))
		return refuse(why, -EPROTO, "not an allocation trace (wrong magic)");
	if (bytes >= AT_HEADER_BYTES && get16(data + AT_VERSION) != HP_TRACE_VERSION)
		return refuse(why, -EOPNOTSUPP, "trace version %u; this reader knows %u", get16(data + AT_VERSION),
			      HP_TRACE_VERSION);
	if (bytes < HP_TRACE_HEADER_BYTES)
		return refuse(why, -ENODATA, "cut short: %zu of %u header bytes", bytes, HP_TRACE_HEADER_BYTES);
	if (get32(data + AT_HEADER_CRC) != crc32_z(0, data, AT_HEADER_CRC))
		return refuse(why, -EBADMSG, "damaged: the header's checksum does not match");
	if (get16(data + AT_HEADER_BYTES) != HP_TRACE_HEADER_BYTES || get32(data + AT_FLAGS) || get32(data + AT_ZERO))
		return refuse(why, -EOPNOTSUPP, "header of %u bytes with flags %#x: unknown to this reader",
			      get16(data + AT_HEADER_BYTES), get32(data + AT_FLAGS));

	body = get64(data + AT_BODY_BYTES);
	if (body > HP_TRACE_MAX_FILE_BYTES)
		return refuse(why, -EFBIG, "body of %" PRIu64 " bytes; the limit is %llu", body, HP_TRACE_MAX_FILE_BYTES);
	if (bytes < HP_TRACE_HEADER_BYTES + body + HP_TRACE_TRAILER_BYTES)
		return refuse(why, -ENODATA, "cut short: %zu of %" PRIu64 " bytes", bytes,
			      HP_TRACE_HEADER_BYTES + body + HP_TRACE_TRAILER_BYTES);
	if (bytes > HP_TRACE_HEADER_BYTES + body + HP_TRACE_TRAILER_BYTES)
		return refuse(why, -EBADMSG, "damaged: bytes after the end");

	trailer = data + HP_TRACE_HEADER_BYTES + body;
	if (memcmp(trailer + 4, HP_TRACE_TRAILER_MAGIC, 4))
		return refuse(why, -EBADMSG, "damaged: the end mark is missing");
	if (get32(trailer) != crc32_z(0, data + HP_TRACE_HEADER_BYTES, body))
		return refuse(why, -EBADMSG, "damaged: the events' checksum does not match");
	return 0;
}

static int check_totals(const uint8_t *header, const struct hp_trace_info *seen, const struct reason *why)
{
	const struct {
		const char *name;
		uint64_t said;
		uint64_t seen;
	} totals[] = {
		{ "events", get64(header + AT_EVENTS), seen->events },
		{ "blocks", get64(header + AT_BLOCKS), seen->blocks },
		{ "peak live bytes", get64(header + AT_PEAK_LIVE), seen->peak_live_bytes },
		{ "bytes live at the end", get64(header + AT_LIVE_AT_END), seen->live_at_end_bytes },
		{ "duration", get64(header + AT_DURATION), seen->duration_us },
		{ "threads", get32(header + AT_THREADS), seen->threads },
		{ "largest alignment", get32(header + AT_LARGEST_ALIGN), seen->largest_align_log2 },
	};

	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++)
		if (totals[i].said != totals[i].seen)
			return refuse(why, -EBADMSG, "damaged: %s: the header says %" PRIu64 ", the events give %" PRIu64,
				      totals[i].name, totals[i].said, totals[i].seen);
	return 0;
}

static int check_events(struct hp_trace_reader *reader, const struct reason *why)
{
	struct hp_trace_totals totals = { 0 };
	struct cursor *cursor = &reader->cursor;
	int rc = 0;

	while (!rc && cursor->at < cursor->end) {
		size_t offset = (size_t)(cursor->at - reader->data);
		struct hp_trace_event event;
		const char *wrong = get_event(cursor, &event);

		if (!wrong && hp_trace_totals_add(&totals, &event, &wrong) == -ENOMEM)
			rc = refuse(why, -ENOMEM, "out of memory");
		else if (wrong)
			rc = refuse(why, -EBADMSG, "damaged: event %" PRIu64 " at byte %zu: %s", totals.info.events, offset,
				    wrong);
	}
	if (!rc)
		rc = check_totals(reader->data, &totals.info, why);
	if (!rc) {
		reader->info = totals.info;
		reader->info.min_bytes = get64(reader->data + AT_MIN_BYTES);
		reader->info.small_allocs = get64(reader->data + AT_SMALL_ALLOCS);
	}
	hp_trace_totals_destroy(&totals);
	return rc;
}

/* Takes @data over, also on failure. */
static int open_owned(struct hp_trace_reader **out, uint8_t *data, size_t bytes, const struct reason *why)
{
	struct hp_trace_reader *reader;
	int rc = check_frame(data, bytes, why);

	if (rc)
		goto no_frame;
	reader = calloc(1, sizeof(*reader));
	if (!reader) {
		rc = refuse(why, -ENOMEM, "out of memory");
		goto no_frame;
	}
	reader->data = data;
	reader->bytes = bytes;
	hp_trace_rewind(reader);
	rc = check_events(reader, why);
	if (rc)
		goto no_events;
	hp_trace_rewind(reader);
	*out = reader;
	return 0;

no_events:
	free(reader);
no_frame:
	free(data);
	return rc;
}

int hp_trace_open(struct hp_trace_reader **out, const char *path, char *why, size_t why_bytes)
{
	void *data;
	size_t bytes;
	int rc = hp_trace_load(path, &data, &bytes, why, why_bytes);

	return rc ? rc : open_owned(out, data, bytes, &(struct reason){ why, why_bytes });
}

int hp_trace_open_memory(struct hp_trace_reader **out, const void *data, size_t bytes, char *why, size_t why_bytes)
{
	const struct reason reason = { why, why_bytes };
	uint8_t *copy = malloc(bytes ? bytes : 1);

	if (!copy)
		return refuse(&reason, -ENOMEM, "out of memory");
	if (bytes)
		memcpy(copy, data, bytes);
	return open_owned(out, copy, bytes, &reason);
}

/* ---- Walking ---- */

const struct hp_trace_info *hp_trace_info(const struct hp_trace_reader *reader)
{
	return &reader->info;
}

int hp_trace_next(struct hp_trace_reader *reader, struct hp_trace_event *event)
{
	if (reader->cursor.at == reader->cursor.end)
		return 0;
	get_event(&reader->cursor, event);
	return 1;
}

void hp_trace_rewind(struct hp_trace_reader *reader)
{
	reader->cursor = (struct cursor){
		.at = reader->data + HP_TRACE_HEADER_BYTES,
		.end = reader->data + reader->bytes - HP_TRACE_TRAILER_BYTES,
	};
}

void hp_trace_close(struct hp_trace_reader *reader)
{
	if (!reader)
		return;
	free(reader->data);
	free(reader);
}
