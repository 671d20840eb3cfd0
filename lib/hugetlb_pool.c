// SPDX-License-Identifier: MIT
/*
 * The kernel's own huge pages: what sysfs and the cgroups say of them, for errors that name numbers; and where
 * libhugetlbfs finds a mount of them.
 *
 * libhugetlbfs is loaded when it is first needed and kept to itself, not linked: its constructor scans the mounts and
 * may print, and it exports a shmget() that would take the place of libc's for the whole program. Two of its calls are
 * used, the page sizes and the mount for one; hugetlbfs_unlinked_fd_for_size() prints when a file cannot be made, and
 * O_TMPFILE gives the same file without ever having a name.
 */
#include <dlfcn.h>
#include <errno.h>
#include <hugetlbfs.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define SYSFS_POOLS		"/sys/kernel/mm/hugepages/hugepages-%llukB"
#define SYSFS_NODE_POOLS	"/sys/devices/system/node/node%u/hugepages/hugepages-%llukB"

static int read_counter(const char *directory, const char *name, uint64_t *out)
{
	char path[PATH_MAX], text[32];
	int err;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
		return -ENAMETOOLONG;
	err = hpi_sys_read_file(path, text, sizeof(text));
	return err ? err : hpi_size_parse_uint(text, out);
}

int hpi_hugetlb_pool_read(const char *root, uint64_t page_bytes, struct hpi_hugetlb_pool *out)
{
	struct hpi_hugetlb_pool pool = { .limit_bytes = UINT64_MAX };
	const struct {
		const char *name;
		uint64_t *value;
	} counters[] = {
		{ "nr_hugepages", &pool.total_pages },
		{ "free_hugepages", &pool.free_pages },
		{ "resv_hugepages", &pool.reserved_pages },
		{ "nr_overcommit_hugepages", &pool.overcommit_pages },
		{ "surplus_hugepages", &pool.surplus_pages },
	};
	char directory[PATH_MAX];
	size_t i;

	if ((size_t)snprintf(directory, sizeof(directory), "%s" SYSFS_POOLS, root,
			     (unsigned long long)page_bytes >> 10) >= sizeof(directory))
		return hpi_error(-ENAMETOOLONG, "the path of the huge page counters is too long");
	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (read_counter(directory, counters[i].name, counters[i].value))
			return hpi_error(-ENODEV, "%s/%s cannot be read", directory, counters[i].name);
	/* Unreadable is not unlimited, but there is nothing to tell then. */
	if (hpi_cgroup_hugetlb_limit(root, page_bytes, &pool.limit_bytes))
		pool.limit_bytes = UINT64_MAX;
	*out = pool;
	return 0;
}

uint64_t hpi_hugetlb_free_on(const char *root, uint64_t page_bytes, const struct hpi_nodes *nodes)
{
	char directory[PATH_MAX];
	uint64_t pages, sum = 0;
	unsigned int id;

	for (id = 0; id < HPI_NODES_MAX; id++) {
		if (!hpi_nodes_has(nodes, id))
			continue;
		if ((size_t)snprintf(directory, sizeof(directory), "%s" SYSFS_NODE_POOLS, root, id,
				     (unsigned long long)page_bytes >> 10) < sizeof(directory) &&
		    !read_counter(directory, "free_hugepages", &pages))
			sum += pages;
	}
	return sum;
}

/* ---- libhugetlbfs ---- */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static const char *mount_2m, *mount_1g;		/* the library's strings, for good */

static int any_line(char *line, size_t length, void *arg)
{
	(void)line;
	(void)length;
	(void)arg;
	return 0;
}

/* Its constructor would print: no huge pages in this kernel, or a line of mounts longer than its buffer. */
static bool would_complain(void)
{
	char text[32];

	return hpi_sys_read_field("/proc/meminfo", "Hugepagesize:", text, sizeof(text)) ||
	       hpi_sys_read_lines("/proc/mounts", 2000, any_line, NULL);
}

static void ask_library(void)
{
	__typeof__(hugetlbfs_find_path_for_size) *find_mount;
	__typeof__(gethugepagesizes) *get_sizes;
	long sizes[16];
	void *library;
	int count, i;

	if (would_complain())
		return;
	library = dlopen("libhugetlbfs.so.0", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	get_sizes = (__typeof__(get_sizes))dlsym(library, "gethugepagesizes");
	find_mount = (__typeof__(find_mount))dlsym(library, "hugetlbfs_find_path_for_size");
	if (!get_sizes || !find_mount)
		return;
	count = get_sizes(sizes, sizeof(sizes) / sizeof(sizes[0]));
	for (i = 0; i < count; i++) {
		if (sizes[i] == (long)HPI_2M)
			mount_2m = find_mount(sizes[i]);
		else if (sizes[i] == (long)HPI_1G)
			mount_1g = find_mount(sizes[i]);
	}
}

/* Asked once: a mount made later is not seen, and memory then comes from files without one. */
const char *hpi_hugetlb_mount(uint64_t page_bytes)
{
	pthread_once(&library_once, ask_library);
	return page_bytes == HPI_1G ? mount_1g : mount_2m;
}
