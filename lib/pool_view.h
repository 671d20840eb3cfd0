/* SPDX-License-Identifier: MIT */
/* A pool as it was at one moment, copied, so that it can be looked at without a lock. Seen by pool_view.c and snapshot*.c. */
#ifndef HUGEPIN_POOL_VIEW_H
#define HUGEPIN_POOL_VIEW_H

#include "pool.h"

struct hpi_view {
	struct hugepin_pool_stats stats;
	struct hugepin_segment_info *segments;		/* ordered by address */
	struct hugepin_block_info *blocks;		/* the same; free space among them */
	size_t segment_count, segment_room, block_count, block_room;
};

int hpi_view_take(const struct hugepin_pool *pool, struct hpi_view *out);	/* -ENOMEM with the text set */
void hpi_view_free(struct hpi_view *view);

const char *hpi_view_state(enum hugepin_block_state state);
const char *hpi_view_provider(enum hugepin_provider provider);

/* ---- what snapshots are written with ---- */

struct hpi_writer {
	int (*write)(const char *text, size_t length, void *arg);
	void *arg;
	int err;					/* of the first write that failed: no more are made */
};
void hpi_writer_print(struct hpi_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- snapshot_svg.c ---- */

int hpi_snapshot_svg(struct hpi_writer *writer, const char *pool_name, const struct hpi_view *view);	/* -ENOMEM */

#endif /* HUGEPIN_POOL_VIEW_H */
