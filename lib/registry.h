/* SPDX-License-Identifier: MIT */
/* The registry between registry.c, which keeps it, and register.c, which does what it books. */
#ifndef HUGEPIN_REGISTRY_H
#define HUGEPIN_REGISTRY_H

#include "internal.h"

struct hpi_chunk {
	char *addr;
	uint64_t bytes;
	bool live;			/* registered with the runtime */
};

enum hpi_range_state {
	HPI_RANGE_BUSY,			/* a call is at work on it */
	HPI_RANGE_LIVE,			/* all of it is registered */
	HPI_RANGE_STUCK,			/* some of it is, since the runtime refused to unregister */
};

struct hpi_range {
	char *addr;
	uint64_t bytes;
	enum hpi_range_state state;
	const struct hpi_runtime *runtime;	/* that has it */
	size_t count, room;
	struct hpi_chunk *chunks;	/* those not live are free slots */
};

/* A new range, busy. -EEXIST: overlaps one that is booked. */
int hpi_registry_book(struct hpi_registry *registry, char *addr, uint64_t bytes, struct hpi_range **out);
/* Forgets and frees a range that the caller has busy. */
void hpi_registry_unbook(struct hpi_registry *registry, struct hpi_range *range);
void hpi_registry_set_state(struct hpi_registry *registry, struct hpi_range *range, enum hpi_range_state state);
/* Makes the range booked for exactly this busy, for the caller alone; @before: what it was. -ENOENT, -EBUSY. */
int hpi_registry_claim(struct hpi_registry *registry, void *addr, uint64_t bytes, struct hpi_range **out,
		       enum hpi_range_state *before);

#endif /* HUGEPIN_REGISTRY_H */
