// SPDX-License-Identifier: MIT
/*
 * Does to an allocator what the recorded program did to its own, in the recorded order, on one thread.
 *
 * The trace does not say which bytes the program touched, so the replay writes one byte in every 4 KiB of each new
 * block (as a program that fills its tensors makes every page resident), and its last byte. With --verify those bytes,
 * and a word at both ends, tell the block and are looked at again when it ends: overlaps, lost contents and dirty
 * callocs show.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "replay.h"

#define TOUCH_BYTES 4096u

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- Contents ---- */

static uint64_t mark(uint64_t block)
{
	return (block + 1) * 0x9e3779b97f4a7c15ull;
}

static void touch(const struct block *it)
{
	if (!it->bytes)
		return;
	for (uint64_t at = 0; at < it->bytes; at += TOUCH_BYTES)
		((volatile uint8_t *)it->address)[at] = 1;
	((volatile uint8_t *)it->address)[it->bytes - 1] = 1;
}

/* Where the word at the end begins; a block too small for two words has none. */
static uint64_t last_word_at(const struct block *it)
{
	return it->bytes >= 2 * sizeof(uint64_t) ? it->bytes - sizeof(uint64_t) : it->bytes;
}

static void write_marks(const struct block *it, uint64_t number)
{
	uint64_t word = mark(number);

	if (!it->bytes)
		return;
	for (uint64_t at = 0; at < it->bytes; at += TOUCH_BYTES)
		it->address[at] = (uint8_t)word;
	if (it->bytes >= sizeof(word))
		memcpy(it->address, &word, sizeof(word));
	memcpy(it->address + last_word_at(it), &word, it->bytes - last_word_at(it));
}

/* @bytes: how much of the block must still be there, less than all after it was made smaller */
static bool marks_hold(const struct block *it, uint64_t number, uint64_t bytes)
{
	uint64_t word = mark(number);

	if (!bytes)
		return true;
	if (bytes >= sizeof(word) && memcmp(it->address, &word, sizeof(word)))
		return false;
	if (bytes == it->bytes && memcmp(it->address + last_word_at(it), &word, it->bytes - last_word_at(it)))
		return false;
	/* Marks that lie in the word at the end were overwritten by it. */
	for (uint64_t at = 0; at < bytes && at < last_word_at(it); at += TOUCH_BYTES)
		if (it->address[at] != (uint8_t)word)
			return false;
	return true;
}

static bool is_zero(const struct block *it)
{
	for (uint64_t at = 0; at < it->bytes; at++)
		if (it->address[at])
			return false;
	return true;
}

/* ---- One event ---- */

static int bad(uint64_t number, const char *what)
{
	complain("block %" PRIu64 ": %s", number, what);
	return -EIO;
}

static int no_memory(const struct replay *replay, const struct hp_trace_event *event)
{
	complain("block %" PRIu64 " of %" PRIu64 " bytes: %s", event->block, event->bytes, replay->backend->error());
	return -ENOMEM;
}

static void sample(struct replay *replay)
{
	struct backend_memory memory;
	double start = now();
	bool at_peak = replay->live_bytes > replay->peak_live_bytes;

	if (at_peak)
		replay->peak_live_bytes = replay->live_bytes;
	replay->backend->memory(&memory);
	if (memory.mapped_bytes > replay->peak_mapped_bytes)
		replay->peak_mapped_bytes = memory.mapped_bytes;
	if (memory.peak_mapped_bytes > replay->peak_mapped_bytes)
		replay->peak_mapped_bytes = memory.peak_mapped_bytes;
	if (at_peak && memory.held_bytes > replay->live_bytes)
		replay->wasted_bytes = memory.held_bytes - replay->live_bytes;
	replay->seconds -= now() - start;
}

static int begin(struct replay *replay, const struct hp_trace_event *event)
{
	struct block *it = &replay->blocks[event->block];
	uint64_t align = 1ull << event->align_log2;
	bool zero = event->kind == HP_TRACE_CALLOC;

	it->address = replay->backend->alloc(event->bytes, align, zero);
	it->bytes = event->bytes;
	if (!it->address)
		return event->bytes ? no_memory(replay, event) : 0;
	if (replay->verify && (uintptr_t)it->address % align)
		return bad(event->block, "not aligned as asked");
	if (replay->verify && zero && !is_zero(it))
		return bad(event->block, "calloc gave bytes that are not zero");
	return 0;
}

static int resize(struct replay *replay, const struct hp_trace_event *event)
{
	struct block *old = &replay->blocks[event->old_block], *it = &replay->blocks[event->block];
	uint64_t kept = old->bytes < event->bytes ? old->bytes : event->bytes;
	struct block moved;

	if (replay->verify && !marks_hold(old, event->old_block, old->bytes))
		return bad(event->old_block, "contents changed by somebody else (before a realloc)");
	it->address = replay->backend->realloc(old->address, event->bytes);
	it->bytes = event->bytes;
	if (!it->address && event->bytes)
		return no_memory(replay, event);
	moved = (struct block){ it->address, old->bytes };
	if (replay->verify && !marks_hold(&moved, event->old_block, kept))
		return bad(event->block, "realloc lost contents");
	replay->live_bytes -= old->bytes;
	old->address = NULL;
	return 0;
}

static int end(struct replay *replay, uint64_t number)
{
	struct block *it = &replay->blocks[number];
	int rc;

	if (replay->verify && !marks_hold(it, number, it->bytes))
		return bad(number, "contents changed by somebody else");
	rc = replay->backend->free(it->address);
	if (rc) {
		complain("block %" PRIu64 ": free: %s", number, replay->backend->error());
		return rc;
	}
	replay->live_bytes -= it->bytes;
	it->address = NULL;
	return 0;
}

static int play(struct replay *replay, const struct hp_trace_event *event)
{
	const struct block *it = &replay->blocks[event->block];
	int rc;

	replay->operations++;
	if (event->kind == HP_TRACE_FREE)
		return end(replay, event->block);
	rc = event->kind == HP_TRACE_REALLOC ? resize(replay, event) : begin(replay, event);
	if (rc)
		return rc;
	replay->live_bytes += event->bytes;
	if (replay->verify)
		write_marks(it, event->block);
	else if (replay->touch)
		touch(it);
	return 0;
}

int play_all(struct replay *replay)
{
	struct hp_trace_event event;
	struct backend_memory memory;
	bool sampled;
	double start;
	int rc = 0;

	/* An allocator that keeps its own peak is asked once, where the program's memory peaks. */
	replay->backend->memory(&memory);
	sampled = replay->backend == &backend_libc;
	start = now();
	while (!rc && hp_trace_next(replay->reader, &event)) {
		rc = play(replay, &event);
		if (!rc && event.kind != HP_TRACE_FREE &&
		    (sampled || (replay->live_bytes == replay->info->peak_live_bytes && !replay->peak_live_bytes)))
			sample(replay);
	}
	replay->seconds += now() - start;
	sample(replay);
	for (uint64_t i = 0; i < replay->info->blocks && !rc; i++)
		if (replay->blocks[i].address)
			rc = end(replay, i);
	return rc;
}
