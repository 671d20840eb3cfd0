/* SPDX-License-Identifier: MIT */
/* What explain found, and how it is told: to people, to programs, as a picture. */
#ifndef HUGEPINCTL_EXPLAIN_H
#define HUGEPINCTL_EXPLAIN_H

#include "host.h"

#define ADVICE_MAX	8
#define OWNERS_SHOWN	5

struct named_owner {
	uint64_t pages;
	char path[192];			/* of the control group, below its mount */
};
struct explanation {
	struct node_map map;
	struct node_scan scan;
	struct forecast forecast;
	struct named_owner owners[OWNERS_SHOWN];
	size_t nr_owners;
	struct message advice[ADVICE_MAX];
	size_t nr_advice;
};
struct explain_report {
	struct explanation *nodes;
	size_t count;
	uint64_t pins;			/* pins of pages that drivers hold, on all nodes together */
	bool blocks;			/* list every memory block that cannot go offline */
};

/* ---- advice.c ---- */

/* @pins: on the host; @absent: why the module has no 1G pages, or NULL. */
void advise(struct explanation *node, uint64_t pins, const char *absent);
uint64_t pins_outstanding(void);
/* The largest owners of kernel pages, by the path of their control group. */
void name_owners(struct explanation *node);

/* ---- explain_text.c ---- */

int explain_print(const struct explain_report *report);
int explain_print_json(const struct explain_report *report);

/* ---- explain_svg.c ---- */

int explain_write_svg(const struct explain_report *report, FILE *out);

#endif /* HUGEPINCTL_EXPLAIN_H */
