// SPDX-License-Identifier: MIT
/*
 * Trace files. As they are; with the frame and the checksums put right, which no fuzzer finds by itself; and as a list
 * of events that goes through the writer, whose file must then hold these events.
 */
#include <zlib.h>

#include "bytes.h"
#include "format.h"
#include "fuzz.h"

#define EVENTS	256

static void read_all(const void *data, size_t size)
{
	struct hp_trace_reader *reader = NULL;
	struct hp_trace_event event;
	char why[256] = "";
	uint64_t events = 0;

	if (hp_trace_open_memory(&reader, data, size, why, sizeof(why))) {
		PROPERTY(!reader && *why);
		return;
	}
	while (hp_trace_next(reader, &event) == 1)
		events++;
	PROPERTY(events == hp_trace_info(reader)->events);
	hp_trace_close(reader);
}

static void read_framed(const uint8_t *data, size_t size)
{
	uint8_t *file;
	size_t body;

	if (size < HP_TRACE_HEADER_BYTES + HP_TRACE_TRAILER_BYTES)
		return;
	file = malloc(size);
	PROPERTY(file);
	memcpy(file, data, size);
	body = size - HP_TRACE_HEADER_BYTES - HP_TRACE_TRAILER_BYTES;
	memcpy(file, HP_TRACE_MAGIC, HP_TRACE_MAGIC_BYTES);
	put16(file + 8, HP_TRACE_VERSION);
	put16(file + 10, HP_TRACE_HEADER_BYTES);
	put32(file + 12, 0);
	put64(file + 80, body);
	put32(file + 88, 0);
	put32(file + 92, (uint32_t)crc32(0, file, 92));
	put32(file + size - 8, (uint32_t)crc32(0, file + HP_TRACE_HEADER_BYTES, (uInt)body));
	memcpy(file + size - 4, "HPTE", 4);
	read_all(file, size);
	free(file);
}

static uint64_t take(const uint8_t **data, size_t *size, size_t bytes)
{
	uint64_t value = 0;

	for (; bytes && *size; bytes--, (*size)--)
		value = value << 8 | *(*data)++;
	return value;
}

static void write_and_read(const uint8_t *data, size_t size)
{
	struct hp_trace_writer *writer = hp_trace_writer_create(take(&data, &size, 1));
	struct hp_trace_event kept[EVENTS], event;
	struct hp_trace_reader *reader;
	uint64_t time_us = 0;
	size_t count = 0, bytes, i;
	const void *file;
	char why[256];

	PROPERTY(writer);
	while (size && count < EVENTS) {
		uint8_t kind = (uint8_t)take(&data, &size, 1);

		time_us += take(&data, &size, kind >> 6);
		event = (struct hp_trace_event){
			.kind = kind & 3,
			.thread = (uint32_t)take(&data, &size, kind >> 2 & 1),
			.align_log2 = (kind & 3) <= HP_TRACE_CALLOC ? kind >> 3 & 7 : 0,
			.time_us = time_us,
			.block = take(&data, &size, 1),
			.old_block = take(&data, &size, 1),
			.bytes = (kind & 3) == HP_TRACE_FREE ? 0 : take(&data, &size, kind >> 5 & 7),
		};
		if (!hp_trace_writer_add(writer, &event, event.kind == HP_TRACE_FREE ? NULL : &event.block))
			kept[count++] = event;
	}
	PROPERTY(!hp_trace_writer_finish(writer, 0, &file, &bytes));
	PROPERTY(!hp_trace_open_memory(&reader, file, bytes, why, sizeof(why)));
	for (i = 0; i < count; i++) {
		PROPERTY(hp_trace_next(reader, &event) == 1);
		PROPERTY(event.kind == kept[i].kind && event.thread == kept[i].thread && event.block == kept[i].block);
		PROPERTY(event.time_us == kept[i].time_us && event.align_log2 == kept[i].align_log2);
		PROPERTY(event.bytes == kept[i].bytes);
		PROPERTY(event.kind != HP_TRACE_REALLOC || event.old_block == kept[i].old_block);
	}
	PROPERTY(!hp_trace_next(reader, &event));
	hp_trace_close(reader);
	hp_trace_writer_destroy(writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_all(data, size);
	read_framed(data, size);
	write_and_read(data, size);
	return 0;
}
