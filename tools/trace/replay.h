/* SPDX-License-Identifier: MIT */
/* A replay under way, between replay.c (command line, reports) and play.c (what is done to the allocator). */
#ifndef HUGEPIN_TRACE_REPLAY_H
#define HUGEPIN_TRACE_REPLAY_H

#include "backend.h"
#include "format.h"

struct block {
	uint8_t *address;
	uint64_t bytes;
};

struct replay {
	const struct backend *backend;
	struct hp_trace_reader *reader;
	const struct hp_trace_info *info;
	bool touch;
	bool verify;

	struct block *blocks;		/* by number; from mmap, to stay out of what libc reports */
	uint64_t live_bytes;

	uint64_t operations;
	uint64_t peak_live_bytes;
	uint64_t peak_mapped_bytes;
	uint64_t wasted_bytes;		/* held beyond what was asked for, at the peak of the live bytes */
	double seconds;			/* without the sampling of libc's figures */
};

/* ---- play.c ---- */

/* From the first event to the last, then free what lives on. Return: 0 or -errno, complained about. */
int play_all(struct replay *replay);

/* ---- replay.c ---- */

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
