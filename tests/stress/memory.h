/* SPDX-License-Identifier: MIT */
/* The kernel's own memory, sampled at the pauses of a run: whether it stays flat. */
#ifndef HUGEPIN_STRESS_MEMORY_H
#define HUGEPIN_STRESS_MEMORY_H

#define MEMORY_SAMPLES	4096

struct memory_samples {
	struct {
		double at_s, slab_kb, other_kb;
	} sample[MEMORY_SAMPLES];
	unsigned int count;
};

double now(void);
void memory_sample(struct memory_samples *samples);
/* First, last and the slope of the second half, in kB an hour; too few samples: what there is. */
void memory_report(const struct memory_samples *samples);

#endif /* HUGEPIN_STRESS_MEMORY_H */
