// SPDX-License-Identifier: MIT
/* The rules a trace's events keep, and the totals they build up: the same for whoever writes and whoever reads. */
#include <errno.h>
#include <stdlib.h>

#include "format.h"

static int make_room(struct hp_trace_totals *totals)
{
	uint64_t capacity = totals->size_of_capacity;
	uint64_t *grown;

	if (totals->info.blocks < capacity)
		return 0;
	capacity = capacity ? capacity * 2 : 1024;
	grown = realloc(totals->size_of, capacity * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	totals->size_of = grown;
	totals->size_of_capacity = capacity;
	return 0;
}

static const char *broken_rule(const struct hp_trace_totals *totals, const struct hp_trace_event *event)
{
	uint64_t ends = event->kind == HP_TRACE_FREE ? event->block : event->old_block;

	if (event->thread >= HP_TRACE_MAX_THREADS)
		return "thread number out of range";
	if (event->time_us < totals->info.duration_us || event->time_us > HP_TRACE_MAX_DURATION_US)
		return "time out of range";

	if (event->kind == HP_TRACE_FREE || event->kind == HP_TRACE_REALLOC) {
		if (ends >= totals->info.blocks)
			return "free of a block that was never allocated";
		if (totals->size_of[ends] == HP_TRACE_DEAD)
			return "free of a block that is already free";
		if (event->align_log2)
			return "alignment on a free or realloc";
	}
	if (event->kind != HP_TRACE_FREE) {
		if (event->bytes > HP_TRACE_MAX_BLOCK_BYTES)
			return "block too large";
		if (totals->live_bytes + event->bytes > HP_TRACE_MAX_LIVE_BYTES)
			return "live bytes too many";
		if (event->align_log2 > HP_TRACE_MAX_ALIGN_LOG2)
			return "alignment out of range";
	}
	return NULL;
}

int hp_trace_totals_add(struct hp_trace_totals *totals, const struct hp_trace_event *event, const char **rule)
{
	struct hp_trace_info *info = &totals->info;

	*rule = broken_rule(totals, event);
	if (*rule)
		return -EINVAL;

	/* A realloc has both blocks alive for a moment; the peak counts it as the program asked: one after the other. */
	switch (event->kind) {
	case HP_TRACE_REALLOC:
		if (make_room(totals))
			return -ENOMEM;
		totals->live_bytes -= totals->size_of[event->old_block];
		totals->size_of[event->old_block] = HP_TRACE_DEAD;
		break;
	case HP_TRACE_FREE:
		totals->live_bytes -= totals->size_of[event->block];
		totals->size_of[event->block] = HP_TRACE_DEAD;
		break;
	default:
		if (make_room(totals))
			return -ENOMEM;
		break;
	}
	if (event->kind != HP_TRACE_FREE) {
		totals->size_of[info->blocks++] = event->bytes;
		totals->live_bytes += event->bytes;
		if (totals->live_bytes > info->peak_live_bytes)
			info->peak_live_bytes = totals->live_bytes;
		if (event->align_log2 > info->largest_align_log2)
			info->largest_align_log2 = event->align_log2;
	}
	info->events++;
	info->duration_us = event->time_us;
	info->live_at_end_bytes = totals->live_bytes;
	if (event->thread >= info->threads)
		info->threads = event->thread + 1;
	return 0;
}

void hp_trace_totals_destroy(struct hp_trace_totals *totals)
{
	free(totals->size_of);
}
