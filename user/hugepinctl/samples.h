/* SPDX-License-Identifier: MIT */
/* Samples of metrics, gathered first and then written whole in one of two formats. */
#ifndef HUGEPINCTL_SAMPLES_H
#define HUGEPINCTL_SAMPLES_H

#include "hugepinctl.h"

#define LABELS_MAX	3

struct family {				/* what a metric is; one table has them all */
	const char *name, *help;
	const char *labels[LABELS_MAX];	/* names, NULL behind the last */
};
struct sample {
	size_t family;			/* index into the table */
	char labels[LABELS_MAX][32];	/* values, as many as the family has names */
	double value;
};
struct samples {
	const struct family *families;
	size_t nr_families;
	struct sample *list;
	size_t count;
	bool broken;			/* memory was lacking */
};
/* Label values follow @value, as many as the family has names, as const char *. */
void sample_add(struct samples *samples, size_t family, double value, ...);
void samples_free(struct samples *samples);
/* Prometheus' text format: every family once, with its HELP and TYPE, all gauges. */
int samples_write_text(const struct samples *samples, FILE *out);
int samples_write_json(const struct samples *samples, FILE *out);

#endif /* HUGEPINCTL_SAMPLES_H */
