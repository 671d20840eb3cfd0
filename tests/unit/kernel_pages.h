/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own 2M pages, for tests that need some. They are the machine's: where others use them a test is skipped
 * and says so. What a test has leaked is its own, and fails it.
 */
#ifndef HUGEPIN_TESTS_KERNEL_PAGES_H
#define HUGEPIN_TESTS_KERNEL_PAGES_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define PAGES_2M	"/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define NR_2M		PAGES_2M "nr_hugepages"
#define MORE_2M		PAGES_2M "nr_overcommit_hugepages"

static char nr_2m_before[32];			/* "": it may not be written */
static char more_2m_before[32];
static unsigned int nr_2m;			/* as the test has set it */

static inline int begin_2m(void **state)
{
	(void)state;
	if (hpi_sys_read_file(NR_2M, nr_2m_before, sizeof(nr_2m_before)) || access(NR_2M, W_OK) ||
	    hpi_sys_read_file(MORE_2M, more_2m_before, sizeof(more_2m_before)))
		nr_2m_before[0] = '\0';
	return 0;
}

static inline int end_2m(void **state)
{
	(void)state;
	if (!nr_2m_before[0])
		return 0;
	return hpi_sys_write_file(NR_2M, nr_2m_before) ?: hpi_sys_write_file(MORE_2M, more_2m_before);
}

static inline struct hpi_hugetlb_pool pool_2m(void)
{
	struct hpi_hugetlb_pool pool;

	assert_int_equal(hpi_hugetlb_pool_read("", HPI_2M, &pool), 0);
	return pool;
}

/* What this process itself has of them: pages mapped, and whether a file of them is open. */
static inline unsigned int mapped_2m(void)
{
	char text[32];

	assert_int_equal(hpi_sys_read_field("/proc/self/status", "HugetlbPages:", text, sizeof(text)), 0);
	return (unsigned int)(strtoul(text, NULL, 10) / 2048);
}

static inline bool has_file_2m(void)
{
	char path[64], link[64];
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	bool has = false;
	ssize_t length;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%.16s", entry->d_name);
		length = readlink(path, link, sizeof(link) - 1);
		link[length > 0 ? length : 0] = '\0';
		has |= !strncmp(link, "/memfd:hugepin ", 15);
	}
	closedir(dir);
	return has;
}

static inline void skip_unless_free_2m(unsigned int pages)
{
	struct hpi_hugetlb_pool pool = pool_2m();

	if (pool.total_pages == nr_2m && pool.free_pages == pages && !pool.reserved_pages)
		return;
	print_message("others use the kernel's 2M pages: set to %u, there are %llu, %llu free, %llu reserved, %u in this "
		      "test\n", nr_2m, (unsigned long long)pool.total_pages, (unsigned long long)pool.free_pages,
		      (unsigned long long)pool.reserved_pages, mapped_2m());
	skip();
}

/* So many pages, all of them free, and no more when they are used up; end_2m() puts back what was there. */
static inline void need_2m(unsigned int pages)
{
	char text[32];

	if (!nr_2m_before[0]) {
		print_message(NR_2M " may not be written\n");
		skip();
	}
	nr_2m = pages;
	snprintf(text, sizeof(text), "%u", pages);
	assert_int_equal(hpi_sys_write_file(NR_2M, text), 0);
	assert_int_equal(hpi_sys_write_file(MORE_2M, "0"), 0);
	skip_unless_free_2m(pages);
}

/* What this process has is what a test answers for. */
static inline void assert_free_2m(unsigned int pages)
{
	assert_int_equal(mapped_2m(), nr_2m - pages);
	assert_true(pages < nr_2m || !has_file_2m());
	skip_unless_free_2m(pages);
}

#endif /* HUGEPIN_TESTS_KERNEL_PAGES_H */
