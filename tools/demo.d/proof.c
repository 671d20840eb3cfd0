// SPDX-License-Identifier: MIT
/*
 * What the kernel itself says of a mapping. The test module takes a reference to each page, the way a driver does, and
 * tells node and order of what it got; numa_maps tells the node on some kernels (6.12 shows nothing for such areas).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "demo.h"
#include "uapi.h"

#define ORDER_2M	9
#define ORDER_1G	18

static int look_at(int fd, const char *memory, uint64_t bytes, unsigned int order, int node, struct proof *out)
{
	uint64_t page = BASE_PAGE << order;

	for (uint64_t at = 0; at < bytes; at += page) {
		struct hugepin_test_pages pages = {
			.size = sizeof(pages),
			.addr = (uintptr_t)memory + at,
			.bytes = page,
		};

		if (ioctl(fd, HUGEPIN_TEST_IOC_PAGES, &pages))
			return -errno;
		out->frames += page / BASE_PAGE;
		out->elsewhere += (int)pages.node == node ? pages.other : page / BASE_PAGE - pages.other;
		out->wrong_size += pages.order != order || pages.runs != 1;
		out->runs += pages.runs;
	}
	return 0;
}

int proof_frames(void *memory, uint64_t bytes_1g, uint64_t bytes_2m, int node, struct proof *out)
{
	int fd = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	*out = (struct proof){ 0 };
	err = look_at(fd, memory, bytes_1g, ORDER_1G, node, out);
	if (!err)
		err = look_at(fd, (char *)memory + bytes_1g, bytes_2m, ORDER_2M, node, out);
	close(fd);
	return err;
}

int proof_runs(void *memory, uint64_t bytes, uint64_t *runs)
{
	struct hugepin_test_pages pages = { .size = sizeof(pages), .addr = (uintptr_t)memory, .bytes = bytes };
	int fd = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, HUGEPIN_TEST_IOC_PAGES, &pages))
		err = -errno;
	else
		*runs = pages.runs;
	close(fd);
	return err;
}

/* Adds up the " N<node>=<pages>" of one line. */
static void count_nodes(const char *line, int node, uint64_t *here, uint64_t *elsewhere)
{
	for (const char *at = line; (at = strstr(at, " N")); at += 2) {
		uint64_t pages;
		int id;

		if (sscanf(at, " N%d=%" SCNu64, &id, &pages) == 2)
			*(id == node ? here : elsewhere) += pages;
	}
}

int proof_numa_maps(const void *memory, int node, uint64_t *here, uint64_t *elsewhere)
{
	FILE *file = fopen("/proc/self/numa_maps", "re");
	char *line = NULL;
	size_t room = 0;

	*here = *elsewhere = 0;
	if (!file)
		return -errno;
	while (getline(&line, &room, file) > 0)
		if (strtoull(line, NULL, 16) == (uintptr_t)memory)
			count_nodes(line, node, here, elsewhere);
	free(line);
	fclose(file);
	return 0;
}
