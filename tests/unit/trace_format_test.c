// SPDX-License-Identifier: MIT
/* The trace format: what is written is read back; whatever else is refused, and said why. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

#include "bytes.h"
#include "format.h"

static const struct hp_trace_event sample[] = {
	{ .kind = HP_TRACE_ALLOC, .thread = 0, .align_log2 = 6, .time_us = 5, .block = 0, .bytes = 4096 },
	{ .kind = HP_TRACE_CALLOC, .thread = 3, .time_us = 5, .block = 1, .bytes = 1000000 },
	{ .kind = HP_TRACE_FREE, .thread = 3, .time_us = 900000, .block = 0 },
	{ .kind = HP_TRACE_REALLOC, .thread = 0, .time_us = 900001, .block = 2, .old_block = 1, .bytes = 5000000000 },
	{ .kind = HP_TRACE_ALLOC, .thread = 1, .align_log2 = 31, .time_us = 900001, .block = 3, .bytes = 0 },
	{ .kind = HP_TRACE_FREE, .thread = 1, .time_us = 900007, .block = 2 },
};

#define SAMPLE_EVENTS (sizeof(sample) / sizeof(sample[0]))

struct bytes {
	uint8_t *data;
	size_t count;
};

static struct bytes copy_of(struct hp_trace_writer *writer)
{
	struct bytes result;
	const void *data;

	assert_int_equal(hp_trace_writer_finish(writer, 77, &data, &result.count), 0);
	result.data = malloc(result.count + 64);
	assert_non_null(result.data);
	memcpy(result.data, data, result.count);
	hp_trace_writer_destroy(writer);
	return result;
}

static struct bytes write_sample(void)
{
	struct hp_trace_writer *writer = hp_trace_writer_create(1000);

	assert_non_null(writer);
	for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
		uint64_t block = UINT64_MAX;

		assert_int_equal(hp_trace_writer_add(writer, &sample[i], &block), 0);
		if (sample[i].kind != HP_TRACE_FREE)
			assert_int_equal(block, sample[i].block);
	}
	return copy_of(writer);
}

/* A trace with this body and right checksums, whatever the body is; the totals in the header are those of @like. */
static struct bytes frame(struct bytes like, const void *body, size_t body_bytes)
{
	struct bytes result = { malloc(HP_TRACE_HEADER_BYTES + body_bytes + HP_TRACE_TRAILER_BYTES),
				HP_TRACE_HEADER_BYTES + body_bytes + HP_TRACE_TRAILER_BYTES };
	uint8_t *trailer = result.data + HP_TRACE_HEADER_BYTES + body_bytes;

	assert_non_null(result.data);
	memcpy(result.data, like.data, HP_TRACE_HEADER_BYTES);
	memcpy(result.data + HP_TRACE_HEADER_BYTES, body, body_bytes);
	put64(result.data + AT_BODY_BYTES, body_bytes);
	put32(result.data + AT_HEADER_CRC, (uint32_t)crc32(0, result.data, AT_HEADER_CRC));
	put32(trailer, (uint32_t)crc32(0, body, (uInt)body_bytes));
	memcpy(trailer + 4, HP_TRACE_TRAILER_MAGIC, 4);
	return result;
}

static void seal_header(struct bytes trace)
{
	put32(trace.data + AT_HEADER_CRC, (uint32_t)crc32(0, trace.data, AT_HEADER_CRC));
}

static void assert_refused(const void *data, size_t count, int error, const char *reason)
{
	struct hp_trace_reader *reader = (void *)-1;
	char why[256] = "";
	int rc = hp_trace_open_memory(&reader, data, count, why, sizeof(why));

	if (rc != error || !strstr(why, reason))
		fail_msg("%d \"%s\" in place of %d \"%s\"", rc, why, error, reason);
	assert_ptr_equal(reader, (void *)-1);
}

static void assert_body_refused(const void *body, size_t body_bytes, const char *reason)
{
	struct bytes like = write_sample();
	struct bytes trace = frame(like, body, body_bytes);

	assert_refused(trace.data, trace.count, -EBADMSG, reason);
	free(trace.data);
	free(like.data);
}

#define BODY_REFUSED(reason, ...) \
	assert_body_refused((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }), reason)

static void assert_sample_comes_back(struct hp_trace_reader *reader)
{
	struct hp_trace_event event;

	for (size_t i = 0; i < SAMPLE_EVENTS; i++) {
		assert_int_equal(hp_trace_next(reader, &event), 1);
		assert_int_equal(event.kind, sample[i].kind);
		assert_int_equal(event.thread, sample[i].thread);
		assert_int_equal(event.align_log2, sample[i].align_log2);
		assert_int_equal(event.time_us, sample[i].time_us);
		assert_int_equal(event.block, sample[i].block);
		assert_int_equal(event.old_block, sample[i].old_block);
		assert_int_equal(event.bytes, sample[i].bytes);
	}
	assert_int_equal(hp_trace_next(reader, &event), 0);
	assert_int_equal(hp_trace_next(reader, &event), 0);
}

static void what_is_written_is_read(void **state)
{
	struct bytes trace = write_sample();
	const struct hp_trace_info *info;
	struct hp_trace_reader *reader;

	(void)state;
	assert_int_equal(hp_trace_open_memory(&reader, trace.data, trace.count, NULL, 0), 0);
	info = hp_trace_info(reader);
	assert_int_equal(info->min_bytes, 1000);
	assert_int_equal(info->events, SAMPLE_EVENTS);
	assert_int_equal(info->blocks, 4);
	assert_int_equal(info->peak_live_bytes, 5000000000);
	assert_int_equal(info->live_at_end_bytes, 0);
	assert_int_equal(info->small_allocs, 77);
	assert_int_equal(info->duration_us, 900007);
	assert_int_equal(info->threads, 4);
	assert_int_equal(info->largest_align_log2, 31);
	assert_sample_comes_back(reader);
	hp_trace_rewind(reader);
	assert_sample_comes_back(reader);
	hp_trace_close(reader);
	free(trace.data);
}

static void a_trace_without_events_is_one(void **state)
{
	struct bytes trace = copy_of(hp_trace_writer_create(1));
	struct hp_trace_reader *reader;
	struct hp_trace_event event;

	(void)state;
	assert_int_equal(hp_trace_open_memory(&reader, trace.data, trace.count, NULL, 0), 0);
	assert_int_equal(hp_trace_next(reader, &event), 0);
	hp_trace_close(reader);
	hp_trace_close(NULL);
	free(trace.data);
}

static void cut_anywhere_is_refused(void **state)
{
	struct bytes trace = write_sample();

	(void)state;
	assert_refused(trace.data, 0, -EPROTO, "magic");
	for (size_t count = 1; count < trace.count; count++)
		assert_refused(trace.data, count, -ENODATA, "cut short");
	free(trace.data);
}

static void any_flipped_bit_is_refused(void **state)
{
	struct bytes trace = write_sample();

	(void)state;
	for (size_t bit = 0; bit < trace.count * 8; bit++) {
		struct hp_trace_reader *reader;

		trace.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(hp_trace_open_memory(&reader, trace.data, trace.count, NULL, 0) < 0);
		trace.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(trace.data);
}

static void foreign_files_are_refused(void **state)
{
	static const char text[] = "#!/bin/sh\necho This is not a trace, though it is longer than the header of one: "
				   "ninety-six bytes and some.\n";
	struct bytes trace = write_sample();

	(void)state;
	assert_refused(text, sizeof(text), -EPROTO, "not an allocation trace");
	trace.data[0] = 0x09;	/* the top bit lost on the way */
	assert_refused(trace.data, trace.count, -EPROTO, "not an allocation trace");
	free(trace.data);
}

static void another_version_is_named(void **state)
{
	struct bytes trace = write_sample();

	(void)state;
	put16(trace.data + AT_VERSION, 2);
	seal_header(trace);
	assert_refused(trace.data, trace.count, -EOPNOTSUPP, "trace version 2; this reader knows 1");
	put16(trace.data + AT_VERSION, 1);
	put32(trace.data + AT_FLAGS, 1);
	seal_header(trace);
	assert_refused(trace.data, trace.count, -EOPNOTSUPP, "flags 0x1");
	free(trace.data);
}

static void bytes_after_the_end_are_refused(void **state)
{
	struct bytes trace = write_sample();

	(void)state;
	trace.data[trace.count] = 0;
	assert_refused(trace.data, trace.count + 1, -EBADMSG, "bytes after the end");
	free(trace.data);
}

static void totals_that_do_not_match_are_named(void **state)
{
	static const struct {
		enum hp_trace_offset at;
		const char *name;
	} totals[] = {
		{ AT_EVENTS, "events:" },
		{ AT_BLOCKS, "blocks:" },
		{ AT_PEAK_LIVE, "peak live bytes:" },
		{ AT_LIVE_AT_END, "bytes live at the end:" },
		{ AT_DURATION, "duration:" },
		{ AT_THREADS, "threads:" },
		{ AT_LARGEST_ALIGN, "largest alignment:" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
		struct bytes trace = write_sample();

		trace.data[totals[i].at] ^= 0x10;
		seal_header(trace);
		assert_refused(trace.data, trace.count, -EBADMSG, totals[i].name);
		free(trace.data);
	}
}

static void a_body_beyond_the_limit_is_refused(void **state)
{
	struct bytes trace = write_sample();

	(void)state;
	put64(trace.data + AT_BODY_BYTES, HP_TRACE_MAX_FILE_BYTES + 1);
	seal_header(trace);
	assert_refused(trace.data, trace.count, -EFBIG, "limit");
	put64(trace.data + AT_BODY_BYTES, UINT64_MAX);
	seal_header(trace);
	assert_refused(trace.data, trace.count, -EFBIG, "limit");
	free(trace.data);
}

static void events_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	/* tag, microseconds, (thread), (how many blocks ago), (bytes) */
	BODY_REFUSED("never allocated", 3, 0, 1);
	BODY_REFUSED("never allocated", 0, 0, 16, 3, 0, 0);
	BODY_REFUSED("never allocated", 0, 0, 16, 3, 0, 2);
	BODY_REFUSED("never allocated", 2, 0, 1, 16);
	BODY_REFUSED("event 2 at byte 102: free of a block that is already free", 0, 0, 16, 3, 0, 1, 3, 0, 1);
	BODY_REFUSED("already free", 0, 0, 16, 3, 0, 1, 2, 0, 1, 16);
	BODY_REFUSED("already free", 0, 0, 16, 2, 0, 1, 16, 3, 0, 2);
	BODY_REFUSED("alignment on a free", 0, 0, 16, 3 | 1 << 3, 0, 1);
	BODY_REFUSED("alignment on a free", 0, 0, 16, 2 | 1 << 3, 0, 1, 16);
	BODY_REFUSED("thread number", 4, 0, 0, 16);
	BODY_REFUSED("thread number", 4, 0, 0x80, 0x80, 0x40, 16);
	BODY_REFUSED("time out of range", 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 16);
	BODY_REFUSED("block too large", 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f);
	BODY_REFUSED("block too large", 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
	BODY_REFUSED("cut short", 0);
	BODY_REFUSED("cut short", 0, 0);
	BODY_REFUSED("cut short", 0, 0, 0x80);
	BODY_REFUSED("cut short", 4, 0);
}

static void numbers_are_written_one_way_only(void **state)
{
	(void)state;
	BODY_REFUSED("longer than needed", 0, 0, 0x90, 0x00);
	BODY_REFUSED("longer than needed", 0, 0x80, 0x80, 0x00, 16);
	BODY_REFUSED("more than 64 bits", 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02);
	BODY_REFUSED("more than 64 bits", 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00);
}

static void live_bytes_cannot_wrap(void **state)
{
	struct hp_trace_writer *writer = hp_trace_writer_create(1);
	struct hp_trace_event event = { .kind = HP_TRACE_ALLOC, .bytes = HP_TRACE_MAX_BLOCK_BYTES };
	int rc = 0;

	(void)state;
	for (uint64_t i = 0; i < HP_TRACE_MAX_LIVE_BYTES / HP_TRACE_MAX_BLOCK_BYTES && !rc; i++)
		rc = hp_trace_writer_add(writer, &event, NULL);
	assert_int_equal(rc, 0);
	event.bytes = 1;
	assert_int_equal(hp_trace_writer_add(writer, &event, NULL), -EINVAL);
	hp_trace_writer_destroy(writer);
}

static void the_writer_refuses_what_a_reader_would(void **state)
{
	const struct hp_trace_event wrong[] = {
		{ .kind = HP_TRACE_FREE, .time_us = 10, .block = 5 },
		{ .kind = HP_TRACE_REALLOC, .time_us = 10, .old_block = 5, .bytes = 1 },
		{ .kind = HP_TRACE_ALLOC, .time_us = 9, .bytes = 1 },
		{ .kind = HP_TRACE_ALLOC, .time_us = 10, .bytes = HP_TRACE_MAX_BLOCK_BYTES + 1 },
		{ .kind = HP_TRACE_ALLOC, .time_us = 10, .align_log2 = 32, .bytes = 1 },
		{ .kind = HP_TRACE_ALLOC, .time_us = 10, .thread = HP_TRACE_MAX_THREADS, .bytes = 1 },
		{ .kind = HP_TRACE_FREE, .time_us = 10, .block = 0, .align_log2 = 1 },
	};
	struct hp_trace_writer *writer = hp_trace_writer_create(1);
	struct hp_trace_event event = { .kind = HP_TRACE_ALLOC, .time_us = 10, .bytes = 3 };
	struct hp_trace_reader *reader;
	struct bytes trace;

	(void)state;
	assert_int_equal(hp_trace_writer_add(writer, &event, NULL), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(hp_trace_writer_add(writer, &wrong[i], NULL), -EINVAL);

	/* and is as it was */
	trace = copy_of(writer);
	assert_int_equal(hp_trace_open_memory(&reader, trace.data, trace.count, NULL, 0), 0);
	assert_int_equal(hp_trace_info(reader)->events, 1);
	hp_trace_close(reader);
	free(trace.data);
}

static void many_random_events_come_back(void **state)
{
	enum { EVENTS = 20000 };
	struct hp_trace_writer *writer = hp_trace_writer_create(1);
	struct hp_trace_event *events = calloc(EVENTS, sizeof(*events));
	uint64_t live[EVENTS], lives = 0, time_us = 0;
	struct hp_trace_reader *reader;
	struct hp_trace_event event;
	struct bytes trace;

	(void)state;
	srand(1);
	for (size_t i = 0; i < EVENTS; i++) {
		unsigned int pick = lives ? (unsigned int)rand() % 4 : HP_TRACE_ALLOC;
		uint64_t *chosen = lives ? &live[(uint64_t)rand() % lives] : NULL;
		struct hp_trace_event *it = &events[i];

		time_us += (uint64_t)(rand() % 3) * (uint64_t)(rand() % 100000);
		*it = (struct hp_trace_event){ .kind = pick, .thread = (uint32_t)rand() % 3, .time_us = time_us };
		if (pick == HP_TRACE_FREE) {
			it->block = *chosen;
			*chosen = live[--lives];
		} else {
			it->bytes = (uint64_t)rand() >> rand() % 31;
			it->old_block = pick == HP_TRACE_REALLOC ? *chosen : 0;
			it->align_log2 = pick == HP_TRACE_REALLOC ? 0 : (uint32_t)rand() % 13;
		}
		assert_int_equal(hp_trace_writer_add(writer, it, &it->block), 0);
		if (pick == HP_TRACE_REALLOC)
			*chosen = it->block;
		else if (pick != HP_TRACE_FREE)
			live[lives++] = it->block;
	}
	trace = copy_of(writer);
	assert_int_equal(hp_trace_open_memory(&reader, trace.data, trace.count, NULL, 0), 0);
	for (size_t i = 0; i < EVENTS; i++) {
		assert_int_equal(hp_trace_next(reader, &event), 1);
		assert_memory_equal(&event, &events[i], sizeof(event));
	}
	assert_int_equal(hp_trace_next(reader, &event), 0);
	hp_trace_close(reader);
	free(events);
	free(trace.data);
}

/* ---- Files ---- */

static void stored_files_load_again(void **state)
{
	static const char *const names[] = { "plain.hptrace", "packed.hptrace.zst" };
	char directory[] = "/tmp/trace_format_test.XXXXXX";
	struct bytes trace = write_sample();

	(void)state;
	assert_non_null(mkdtemp(directory));
	for (size_t i = 0; i < 2; i++) {
		struct hp_trace_reader *reader;
		char path[128], why[256] = "";

		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		assert_int_equal(hp_trace_store(path, trace.data, trace.count, why, sizeof(why)), 0);
		assert_int_equal(hp_trace_open(&reader, path, why, sizeof(why)), 0);
		assert_sample_comes_back(reader);
		hp_trace_close(reader);
		unlink(path);
	}
	/* no temporary file is left behind */
	assert_int_equal(rmdir(directory), 0);
	free(trace.data);
}

static int open_bytes(const void *data, size_t count, char *why, size_t why_bytes)
{
	char path[] = "/tmp/trace_format_test.XXXXXX";
	struct hp_trace_reader *reader = NULL;
	int fd = mkstemp(path);
	int rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, count), count);
	close(fd);
	rc = hp_trace_open(&reader, path, why, why_bytes);
	unlink(path);
	hp_trace_close(reader);
	return rc;
}

static void a_damaged_zstd_stream_is_refused(void **state)
{
	struct bytes trace = write_sample();
	uint8_t packed[1024];
	char why[256] = "";
	size_t count;

	(void)state;
	count = ZSTD_compress(packed, sizeof(packed) - 1, trace.data, trace.count, 3);
	assert_false(ZSTD_isError(count));
	assert_int_equal(open_bytes(packed, count, why, sizeof(why)), 0);
	for (size_t cut = 4; cut < count; cut++) {
		assert_int_equal(open_bytes(packed, cut, why, sizeof(why)), -ENODATA);
		assert_non_null(strstr(why, "cut short"));
	}
	packed[count] = 0;
	assert_int_equal(open_bytes(packed, count + 1, why, sizeof(why)), -EBADMSG);
	assert_non_null(strstr(why, "damaged"));
	for (size_t bit = 32; bit < count * 8; bit++) {
		packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
		/* A few bits of the frame's header change nothing that matters; then the trace must still be whole. */
		open_bytes(packed, count, why, sizeof(why));
		packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(trace.data);
}

/* Some kilobytes that unpack to more than the limit must not take the memory they ask for. */
static void a_zstd_bomb_is_refused(void **state)
{
	size_t count = (size_t)HP_TRACE_MAX_FILE_BYTES + (1u << 20), room = ZSTD_compressBound(count);
	void *zeros = calloc(1, count), *packed = malloc(room);
	char why[256] = "";
	size_t packed_count;

	(void)state;
	assert_non_null(zeros);
	assert_non_null(packed);
	packed_count = ZSTD_compress(packed, room, zeros, count, 1);
	assert_false(ZSTD_isError(packed_count));
	assert_true(packed_count < 1u << 20);
	assert_int_equal(open_bytes(packed, packed_count, why, sizeof(why)), -EFBIG);
	free(packed);
	free(zeros);
}

static void a_missing_file_is_named(void **state)
{
	struct hp_trace_reader *reader;
	char why[256] = "";

	(void)state;
	assert_int_equal(hp_trace_open(&reader, "/nonexistent/trace", why, sizeof(why)), -ENOENT);
	assert_string_equal(why, "cannot open: No such file or directory");
	assert_int_equal(hp_trace_store("/nonexistent/trace", "", 0, why, sizeof(why)), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_trace_without_events_is_one),
		cmocka_unit_test(cut_anywhere_is_refused),
		cmocka_unit_test(any_flipped_bit_is_refused),
		cmocka_unit_test(foreign_files_are_refused),
		cmocka_unit_test(another_version_is_named),
		cmocka_unit_test(bytes_after_the_end_are_refused),
		cmocka_unit_test(totals_that_do_not_match_are_named),
		cmocka_unit_test(a_body_beyond_the_limit_is_refused),
		cmocka_unit_test(events_that_make_no_sense_are_refused),
		cmocka_unit_test(numbers_are_written_one_way_only),
		cmocka_unit_test(live_bytes_cannot_wrap),
		cmocka_unit_test(the_writer_refuses_what_a_reader_would),
		cmocka_unit_test(many_random_events_come_back),
		cmocka_unit_test(stored_files_load_again),
		cmocka_unit_test(a_damaged_zstd_stream_is_refused),
		cmocka_unit_test(a_zstd_bomb_is_refused),
		cmocka_unit_test(a_missing_file_is_named),
	};

	return cmocka_run_group_tests_name("trace_format", tests, NULL, NULL);
}
