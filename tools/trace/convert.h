/* SPDX-License-Identifier: MIT */
/* From the recorder's spool file to a trace. */
#ifndef HUGEPIN_TRACE_CONVERT_H
#define HUGEPIN_TRACE_CONVERT_H

#include "format.h"
#include "spool.h"

struct hp_trace_converted {
	uint64_t events;
	uint64_t implied_frees;		/* blocks whose address was given out again without a free that we saw */
};

/*
 * @spool: the mapped spool file, of SPOOL_BYTES; nobody may write to it any more
 * Return: 0 or -errno.
 */
int hp_trace_convert(const struct spool_header *spool, struct hp_trace_writer *writer, struct hp_trace_converted *done);

#endif
