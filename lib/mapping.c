// SPDX-License-Identifier: MIT
/*
 * What all providers do with address space: put a mapping in a reservation's place, tell the node of its pages, and
 * leave no gap behind.
 */
#include <numaif.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

static int reserve(void *addr, uint64_t bytes)
{
	void *at;

	return hpi_sys_mmap(addr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0,
			    &at);
}

int hpi_mapping_place(void *addr, uint64_t bytes, int flags, int fd, void **out)
{
	int err;

	err = hpi_sys_mmap(addr, bytes, PROT_READ | PROT_WRITE, flags | (addr ? MAP_FIXED : 0), fd, 0, out);
	/* A failed MAP_FIXED may have removed what was there. */
	if (err && addr && reserve(addr, bytes))
		hpi_log(HUGEPIN_LOG_ERROR, "the reservation of %llu bytes at %p could not be put back",
			(unsigned long long)bytes, addr);
	return err;
}

static int clear(void *addr, uint64_t bytes, bool keep_reserved)
{
	return keep_reserved ? reserve(addr, bytes) : hpi_sys_munmap(addr, bytes);
}

void hpi_mapping_undo(void *addr, uint64_t bytes, bool keep_reserved)
{
	int err = clear(addr, bytes, keep_reserved);

	if (err)
		hpi_log(HUGEPIN_LOG_ERROR, "%llu bytes at %p stay mapped: %s", (unsigned long long)bytes, addr,
			strerror(-err));
}

int hpi_mapping_unmap(struct hugepin_context *ctx, struct hpi_mapping *mapping, bool keep_reserved)
{
	int err = clear(mapping->addr, mapping->bytes, keep_reserved);

	(void)ctx;
	if (err)
		return hpi_error(err, "unmapping %llu bytes at %p: %s", (unsigned long long)mapping->bytes,
				 mapping->addr, strerror(-err));
	hpi_sys_close(mapping->fd);
	mapping->fd = -1;
	return 0;
}

/* Nodes of the @count pages that begin at @at and are @step apart: the one they share, or -1. */
static int shared_node(const char *at, uint64_t step, size_t count)
{
	void *pages[256];
	int nodes[256];
	size_t i;

	for (i = 0; i < count; i++)
		pages[i] = (void *)(at + i * step);
	if (move_pages(0, count, pages, NULL, nodes, 0))
		return -1;
	for (i = 1; i < count; i++)
		if (nodes[i] != nodes[0])
			return -1;
	return nodes[0] < 0 ? -1 : nodes[0];
}

int hpi_mapping_node(const void *addr, uint64_t bytes, uint64_t page_bytes)
{
	uint64_t pages = bytes / page_bytes, step = 1, done, batch;
	const char *at = addr;
	int node, first = -1;

	/*
	 * All huge pages are asked for; of base pages one in an odd number, since an even one may miss every second
	 * node.
	 */
	if (page_bytes < HPI_2M && pages > 4096)
		step = pages / 4096 | 1;
	pages = (pages + step - 1) / step;
	for (done = 0; done < pages; done += batch) {
		batch = pages - done < 256 ? pages - done : 256;
		node = shared_node(at + done * step * page_bytes, step * page_bytes, batch);
		if (node < 0 || (done && node != first))
			return -1;
		first = node;
	}
	return first;
}
