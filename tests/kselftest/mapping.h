/* SPDX-License-Identifier: MIT */
/*
 * The mapping contract, row by row: what each memory call does to an area that maps a region. Each row is run on an
 * area of 2M pages and, where there are 1G pages, on one of a 1G page followed by 2M pages.
 */
#ifndef HUGEPIN_KSELFTEST_MAPPING_H
#define HUGEPIN_KSELFTEST_MAPPING_H

#include "region.h"

struct area {
	int fd;
	uint64_t bytes;
	uint64_t bytes_1g;	/* of them, at the beginning, in 1G pages */
	uint64_t page;		/* size of the first page */
	char *start;		/* the whole region, mapped for reading and writing, not touched yet */
};

struct mapping_row {
	const char *name;
	void (*run)(struct area *area);
};

#define ROW(f)	{ #f, f }

/* Tables that end with an empty row. */
extern const struct mapping_row mapping_place_rows[];	/* mapping_place.c: mmap, munmap, mremap, mprotect */
extern const struct mapping_row mapping_advice_rows[];	/* mapping_advice.c: madvise, THP switches, mlock */
extern const struct mapping_row mapping_file_rows[];	/* mapping_file.c: descriptor, fork, futex, msync */
extern const struct mapping_row mapping_peek_rows[];	/* mapping_peek.c: other processes, walkers, policies */
extern const struct mapping_row mapping_io_rows[];	/* mapping_io.c: input and output from and to the area */
extern const struct mapping_row mapping_death_rows[];	/* mapping_death.c: processes that end in the midst of it */

#define FAULT_AROUND	(16 * PAGE_2M)	/* what one fault maps of 2M pages, aligned */

/* Fails the case unless touching every 4K takes one fault for each 1G page and each FAULT_AROUND of 2M pages. */
void check_huge_entries(const struct area *area, char *start, uint64_t offset, uint64_t bytes);

#endif /* HUGEPIN_KSELFTEST_MAPPING_H */
