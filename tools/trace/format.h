/* SPDX-License-Identifier: MIT */
/*
 * The allocation trace: who asked for how much memory, aligned how, for how long; never what was in it.
 *
 * A trace is one file, plain or a zstd stream of the same bytes (*.zst). All numbers are little-endian.
 *
 *   header, 96 bytes
 *      0  8  magic "\x89HPTR\r\n\x1a" (the line ends catch a file that went through a text transfer)
 *      8  2  version, 1
 *     10  2  header bytes, 96
 *     12  4  flags, 0
 *     16  8  min_bytes: smaller blocks were not recorded, only counted
 *     24  8  events
 *     32  8  blocks: allocations among the events, a realloc being one
 *     40  8  peak_live_bytes: the most that was asked for and not yet freed
 *     48  8  live_at_end_bytes: what was never freed
 *     56  8  small_allocs: allocations below min_bytes
 *     64  8  duration_us: time of the last event
 *     72  4  threads: thread numbers are below this
 *     76  4  largest_align_log2
 *     80  8  body bytes
 *     88  4  0
 *     92  4  CRC-32 (zlib's) of bytes 0..91
 *   body: the events in the order they happened
 *   trailer, 8 bytes
 *      0  4  CRC-32 of the body
 *      4  4  "HPTE"; nothing may follow
 *
 * An event:
 *   1 byte   bits 0-1  kind: 0 alloc, 1 calloc, 2 realloc, 3 free
 *            bit  2    the thread is another than the event's before (at first: than 0)
 *            bits 3-7  alloc, calloc: log2 of the alignment asked for (31: or more), 0 for none; else 0
 *   varint   microseconds since the event before
 *   varint   thread, only with bit 2
 *   varint   realloc, free: how many blocks ago the old one was allocated, 1 for the latest
 *   varint   alloc, calloc, realloc: bytes
 *
 * Blocks are numbered from 0 in the order of their allocation, and a number is never used twice: a realloc ends one
 * block and begins another. A varint is 7 bits a byte, lowest first, bit 7 set on all but the last; 64 bits at most,
 * and never longer than needed.
 *
 * Reading: hp_trace_open() takes a file only as a whole. Checksums, totals, ranges, and that no block is freed twice,
 * are checked for every event before it returns, so after it hp_trace_next() cannot fail and a replay need not check
 * again.
 */
#ifndef HUGEPIN_TRACE_FORMAT_H
#define HUGEPIN_TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define HP_TRACE_MAGIC "\x89HPTR\r\n\x1a"
#define HP_TRACE_MAGIC_BYTES 8
#define HP_TRACE_VERSION 1
#define HP_TRACE_HEADER_BYTES 96
#define HP_TRACE_TRAILER_BYTES 8

/* Beyond these a file is refused, whatever its checksums say. */
#define HP_TRACE_MAX_FILE_BYTES (256ull << 20)	/* decompressed; some 50 million events */
#define HP_TRACE_MAX_BLOCK_BYTES (1ull << 46)
#define HP_TRACE_MAX_LIVE_BYTES (1ull << 52)
#define HP_TRACE_MAX_ALIGN_LOG2 31
#define HP_TRACE_MAX_THREADS (1u << 20)
#define HP_TRACE_MAX_DURATION_US (1ull << 50)
#define HP_TRACE_MAX_EVENT_BYTES 41		/* kind and four varints */

enum hp_trace_kind {
	HP_TRACE_ALLOC,
	HP_TRACE_CALLOC,
	HP_TRACE_REALLOC,
	HP_TRACE_FREE,
};

struct hp_trace_event {
	enum hp_trace_kind kind;
	uint32_t thread;
	uint32_t align_log2;
	uint64_t time_us;	/* since the recording began; never falls */
	uint64_t block;		/* the block that begins; for a free, that ends */
	uint64_t old_block;	/* realloc: the block that ends */
	uint64_t bytes;		/* alloc, calloc, realloc */
};

struct hp_trace_info {
	uint64_t min_bytes;
	uint64_t events;
	uint64_t blocks;
	uint64_t peak_live_bytes;
	uint64_t live_at_end_bytes;
	uint64_t small_allocs;
	uint64_t duration_us;
	uint32_t threads;
	uint32_t largest_align_log2;
};

/* ---- read.c ---- */

struct hp_trace_reader;

/**
 * hp_trace_open - read and check a whole trace, plain or zstd
 * @out:  set on success, untouched on failure; hp_trace_close() ends it
 * @path: file
 * @why:  on failure, filled with the reason; may be NULL with @why_bytes 0
 *
 * Return: 0, or
 *   -EPROTO     not a trace of this format
 *   -EOPNOTSUPP a version or flag that this reader does not know
 *   -ENODATA    cut short
 *   -EBADMSG    damaged: a checksum, a total, or an event that makes no sense
 *   -EFBIG      over HP_TRACE_MAX_FILE_BYTES
 *   or what open, read or malloc gave
 */
int hp_trace_open(struct hp_trace_reader **out, const char *path, char *why, size_t why_bytes);

/* The same for plain bytes in memory, which are copied. */
int hp_trace_open_memory(struct hp_trace_reader **out, const void *data, size_t bytes, char *why, size_t why_bytes);

const struct hp_trace_info *hp_trace_info(const struct hp_trace_reader *reader);

/* Return: 1 with *@event filled, 0 after the last. */
int hp_trace_next(struct hp_trace_reader *reader, struct hp_trace_event *event);

void hp_trace_rewind(struct hp_trace_reader *reader);
void hp_trace_close(struct hp_trace_reader *reader);

/* ---- write.c ---- */

struct hp_trace_writer;

/* Return: a writer, or NULL without memory. */
struct hp_trace_writer *hp_trace_writer_create(uint64_t min_bytes);

/*
 * Events come in their order. The writer numbers blocks (event->block is ignored for all but a free) and refuses what a
 * reader would refuse. For an allocation *@block is set to the new number; it may be NULL.
 * Return: 0, -EINVAL, -ENOMEM, -EFBIG.
 */
int hp_trace_writer_add(struct hp_trace_writer *writer, const struct hp_trace_event *event, uint64_t *block);

/*
 * Finishes header and trailer. *@data belongs to the writer and lives until its destruction; nothing can be added
 * after.
 * Return: 0, -ENOMEM.
 */
int hp_trace_writer_finish(struct hp_trace_writer *writer, uint64_t small_allocs, const void **data, size_t *bytes);

void hp_trace_writer_destroy(struct hp_trace_writer *writer);

/* ---- storage.c ---- */

/*
 * Load a whole file, decompressed when it begins as a zstd stream does. *@data is the caller's, to free().
 * Return: 0 or an errno value as hp_trace_open() gives it, with the reason in @why.
 */
int hp_trace_load(const char *path, void **data, size_t *bytes, char *why, size_t why_bytes);

/*
 * Store under @path, compressed when that ends in ".zst"; through a temporary file, so a failure leaves no half of one.
 * Return: 0 or -errno, with the reason in @why.
 */
int hp_trace_store(const char *path, const void *data, size_t bytes, char *why, size_t why_bytes);

/* ---- totals.c: shared by read.c and write.c ---- */

/* The totals as they build up, and the rules an event must keep; one place, so that both sides agree. */
struct hp_trace_totals {
	struct hp_trace_info info;
	uint64_t live_bytes;
	uint64_t *size_of;		/* by block; HP_TRACE_DEAD after its end */
	uint64_t size_of_capacity;
};

#define HP_TRACE_DEAD UINT64_MAX

/* Return: 0, -EINVAL with *@rule the rule that was broken, -ENOMEM; only on 0 is @totals changed. */
int hp_trace_totals_add(struct hp_trace_totals *totals, const struct hp_trace_event *event, const char **rule);
void hp_trace_totals_destroy(struct hp_trace_totals *totals);

#endif
