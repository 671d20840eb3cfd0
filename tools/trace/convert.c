// SPDX-License-Identifier: MIT
/* Puts the threads' records into one order and finds out which free belongs to which allocation. */
#include "convert.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>

struct live {
	uint64_t address;
	uint64_t block;
};

struct converter {
	struct hp_trace_writer *writer;
	struct hp_trace_converted *done;
	uint64_t min_bytes;
	uint64_t time_us;
	void *live;			/* tsearch() tree of struct live */
	struct live **in_realloc;	/* by thread: the block whose realloc has begun */
};

static int by_address(const void *a, const void *b)
{
	const struct live *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int by_sequence(const void *a, const void *b)
{
	const struct spool_record *x = a, *y = b;

	return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Return: the block at @address, now the caller's to free(), or NULL. */
static struct live *take(struct converter *to, uint64_t address)
{
	const struct live key = { .address = address };
	struct live **found = tfind(&key, &to->live, by_address);
	struct live *live = found ? *found : NULL;

	if (live)
		tdelete(&key, &to->live, by_address);
	return live;
}

static int put(struct converter *to, struct live *live)
{
	return tsearch(live, &to->live, by_address) ? 0 : -ENOMEM;
}

static struct hp_trace_event event_of(struct converter *to, const struct spool_record *record, enum hp_trace_kind kind)
{
	/* Sequence number and time are not taken in one step; the order is the sequence's. */
	if (record->time_us > to->time_us)
		to->time_us = record->time_us;
	return (struct hp_trace_event){
		.kind = kind,
		.thread = record->thread - 1,
		/* The format has no room for more, and there are no pages as large as that. */
		.align_log2 = record->align_log2 < HP_TRACE_MAX_ALIGN_LOG2 ? record->align_log2 :
			      HP_TRACE_MAX_ALIGN_LOG2,
		.time_us = to->time_us,
		.bytes = record->bytes,
	};
}

static int end_block(struct converter *to, const struct spool_record *record, struct live *live)
{
	struct hp_trace_event event = event_of(to, record, HP_TRACE_FREE);

	event.align_log2 = 0;
	event.block = live->block;
	free(live);
	return hp_trace_writer_add(to->writer, &event, NULL);
}

/* @old: the block that a realloc ends, or NULL; taken over */
static int begin_block(struct converter *to, const struct spool_record *record, enum hp_trace_kind kind, struct live *old)
{
	struct live *gone = take(to, record->address);
	struct hp_trace_event event;
	struct live *live;
	int rc;

	/* Somebody freed it where we could not see, or else the allocator could not have given it out again. */
	if (gone) {
		to->done->implied_frees++;
		rc = end_block(to, record, gone);
		if (rc) {
			free(old);
			return rc;
		}
	}
	event = event_of(to, record, kind);
	event.old_block = old ? old->block : 0;
	live = old ? old : malloc(sizeof(*live));
	if (!live)
		return -ENOMEM;
	live->address = record->address;
	rc = hp_trace_writer_add(to->writer, &event, &live->block);
	if (!rc)
		rc = put(to, live);
	if (rc)
		free(live);
	return rc;
}

static int end_realloc(struct converter *to, const struct spool_record *record)
{
	struct live *old = to->in_realloc[record->thread - 1];
	bool keeps = record->address && record->bytes >= to->min_bytes;

	to->in_realloc[record->thread - 1] = NULL;
	if (!record->address && record->bytes)
		return old ? put(to, old) : 0;
	if (old && keeps)
		return begin_block(to, record, HP_TRACE_REALLOC, old);
	if (old)
		return end_block(to, record, old);
	return keeps ? begin_block(to, record, HP_TRACE_ALLOC, NULL) : 0;
}

static int convert_one(struct converter *to, const struct spool_record *record)
{
	struct live *live;

	switch (record->kind) {
	case SPOOL_MALLOC:
		return begin_block(to, record, HP_TRACE_ALLOC, NULL);
	case SPOOL_CALLOC:
		return begin_block(to, record, HP_TRACE_CALLOC, NULL);
	case SPOOL_FREE:
		live = take(to, record->address);
		return live ? end_block(to, record, live) : 0;
	case SPOOL_REALLOC_FROM:
		to->in_realloc[record->thread - 1] = take(to, record->address);
		return 0;
	case SPOOL_REALLOC_TO:
		return end_realloc(to, record);
	default:
		return -EBADMSG;
	}
}

/* Return: how many; *@out is the caller's. The program could have written into the spool: count on nothing. */
static int64_t collect(const struct spool_header *spool, struct spool_record **out)
{
	uint64_t last = atomic_load(&spool->backed_bytes) / SPOOL_CHUNK_BYTES;
	uint64_t chunks = atomic_load(&spool->chunks);
	uint32_t threads = atomic_load(&spool->threads);
	uint32_t run = atomic_load(&spool->run);
	struct spool_record *records;
	int64_t count = 0;

	if (last > SPOOL_BYTES / SPOOL_CHUNK_BYTES)
		return -EBADMSG;
	if (!last || chunks > last - 1)
		chunks = last ? last - 1 : 0;
	records = malloc(chunks * SPOOL_CHUNK_RECORDS * sizeof(*records) + 1);
	if (!records)
		return -ENOMEM;
	for (uint64_t c = 0; c < chunks; c++) {
		const void *chunk = (const char *)spool + (c + 1) * SPOOL_CHUNK_BYTES;
		const struct spool_record *record = chunk;

		for (size_t i = 0; i < SPOOL_CHUNK_RECORDS; i++, record++)
			if (record->kind != SPOOL_NONE && record->run == run && record->thread - 1 < threads)
				records[count++] = *record;
	}
	qsort(records, (size_t)count, sizeof(*records), by_sequence);
	*out = records;
	return count;
}

int hp_trace_convert(const struct spool_header *spool, struct hp_trace_writer *writer, struct hp_trace_converted *done)
{
	struct converter to = { .writer = writer, .done = done, .min_bytes = spool->min_bytes };
	uint32_t threads = atomic_load(&spool->threads);
	struct spool_record *records = NULL;
	int64_t count;
	int rc = 0;

	*done = (struct hp_trace_converted){ 0 };
	if (threads >= HP_TRACE_MAX_THREADS)
		return -EFBIG;
	count = collect(spool, &records);
	if (count < 0)
		return (int)count;
	to.in_realloc = calloc(threads + 1, sizeof(*to.in_realloc));
	if (!to.in_realloc)
		rc = -ENOMEM;
	for (int64_t i = 0; i < count && !rc; i++)
		rc = convert_one(&to, &records[i]);
	done->events = (uint64_t)count;

	for (uint32_t i = 0; to.in_realloc && i < threads; i++)
		free(to.in_realloc[i]);
	free(to.in_realloc);
	tdestroy(to.live, free);
	free(records);
	return rc;
}
