/* SPDX-License-Identifier: MIT */
/*
 * What the preloaded recorder leaves and hugepin-trace-record reads: a sparse file, mapped shared by both, so that
 * nothing is lost when the program dies by a signal or _exit().
 *
 *   page 0          struct spool_header
 *   page 1, 2, ...  chunks of records; a thread takes a whole chunk and fills it alone
 *
 * A record's place in the global order is its sequence number, taken with one atomic add: for an allocation after the
 * allocator returned, for a free before the allocator is called. So an address is never seen taken twice.
 */
#ifndef HPTRACE_SPOOL_H
#define HPTRACE_SPOOL_H

#include <stdatomic.h>
#include <stdint.h>

/* Path of the spool file. Not HUGEPIN_...: libhugepin refuses names of its own that it does not know. */
#define SPOOL_ENV "HPTRACE_SPOOL"
#define SPOOL_MAGIC 0x6c6f6f7073707468ull
#define SPOOL_CHUNK_BYTES 4096u
#define SPOOL_BYTES (8ull << 30)		/* sparse; what one recording can hold */

enum spool_kind {
	SPOOL_NONE = 0,		/* a slot that was not filled */
	SPOOL_MALLOC,
	SPOOL_CALLOC,
	SPOOL_FREE,
	SPOOL_REALLOC_FROM,	/* the old block, before the call */
	SPOOL_REALLOC_TO,	/* the new block, after it, of any size; address 0 but bytes not: the old one lives on */
};

struct spool_record {
	uint64_t sequence;
	uint64_t address;
	uint64_t bytes;
	uint64_t time_us;	/* since the recording began */
	uint32_t thread;
	uint16_t kind;		/* written last: a record cut short by death stays SPOOL_NONE */
	uint16_t align_log2;	/* 0: what malloc gives */
	uint32_t run;		/* which exec of the program */
};

#define SPOOL_CHUNK_RECORDS (SPOOL_CHUNK_BYTES / sizeof(struct spool_record))

struct spool_header {
	uint64_t magic;
	uint64_t min_bytes;
	_Atomic int32_t owner;		/* the one process that is recorded; 0: nobody came yet */
	_Atomic uint32_t run;		/* counts the owner's exec calls; only the last run is kept */
	_Atomic uint32_t threads;
	_Atomic uint32_t failed;	/* errno that ended the recording early; 0: none */
	_Atomic uint64_t sequence;
	_Atomic uint64_t chunks;	/* taken so far */
	_Atomic uint64_t backed_bytes;	/* the part of the file that has disk blocks */
	_Atomic uint64_t small_allocs;	/* below min_bytes, only counted */
};

_Static_assert(sizeof(struct spool_header) <= SPOOL_CHUNK_BYTES, "the header is one chunk");

#endif
