// SPDX-License-Identifier: MIT
/*
 * Provider thp: anonymous memory under which the kernel is asked to put transparent huge pages. It may do so for all of
 * it, for a part, or not at all; no flag tells, so the pages are looked at afterwards. What came in 2M pages is
 * reported as such and the rest as base pages; where none did the rung gives nothing, and the ladder goes on.
 *
 * The kernel may split such a page later, though not while it is pinned.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "internal.h"

#define ENABLED		"/sys/kernel/mm/transparent_hugepage/enabled"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

/* ---- may there be any ---- */

static int check_enabled(void)
{
	char text[64];

	if (hpi_sys_read_file(ENABLED, text, sizeof(text)))
		return hpi_error(-ENODEV, "thp: this kernel has no transparent huge pages");
	if (strstr(text, "[never]"))
		return hpi_error(-ENODEV, "thp: transparent huge pages are off on this machine (" ENABLED " is never)");
	if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1)
		return hpi_error(-ENODEV, "thp: transparent huge pages are off for this process");
	return 0;
}

/* ---- how many are there: PAGEMAP_SCAN of Linux 6.7, else smaps ---- */

struct scan_region {
	uint64_t start, end, categories;
};

struct scan {
	uint64_t size, flags, start, end, walk_end, regions, regions_count, max_pages;
	uint64_t inverted, mask, any_of, returned;
};

#define SCAN		_IOWR('f', 16, struct scan)
#define SCAN_IS_HUGE	(1ull << 6)

static int scan_huge(const void *addr, uint64_t bytes, uint64_t *huge)
{
	struct scan_region regions[64] = { { 0 } };
	struct scan scan = {
		.size = sizeof(scan),
		.start = (uintptr_t)addr,
		.end = (uintptr_t)addr + bytes,
		.regions = (uintptr_t)regions,
		.regions_count = sizeof(regions) / sizeof(regions[0]),
		.mask = SCAN_IS_HUGE,
		.returned = SCAN_IS_HUGE,
	};
	int fd = hpi_sys_open("/proc/self/pagemap", O_RDONLY, 0), count = 0, i;

	if (fd < 0)
		return fd;
	*huge = 0;
	for (; scan.start < scan.end; scan.start = scan.walk_end) {
		count = hpi_sys_fault ? -hpi_sys_fault("pagemap") : 0;
		if (!count)
			count = ioctl(fd, SCAN, &scan);
		if (count < 0)
			break;
		for (i = 0; i < count; i++)
			*huge += regions[i].end - regions[i].start;
	}
	hpi_sys_close(fd);
	return count < 0 ? -EOPNOTSUPP : 0;
}

/* An area of smaps may hold our memory and more, since the kernel merges what is alike. */
struct area {
	uintptr_t addr, end;
	bool inside;
	uint64_t others, huge;			/* bytes of the areas, beyond ours; and on huge pages */
};

static int read_area(char *line, size_t length, void *arg)
{
	struct area *area = arg;
	unsigned long start, end, kib;

	(void)length;
	if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
		area->inside = start < area->end && end > area->addr;
		if (area->inside && start < area->addr)
			area->others += area->addr - start;
		if (area->inside && end > area->end)
			area->others += end - area->end;
	} else if (area->inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1) {
		area->huge += (uint64_t)kib * 1024;
	}
	return 0;
}

/* At least so much: the others' memory may all be on huge pages. */
static int read_huge(const void *addr, uint64_t bytes, uint64_t *huge)
{
	struct area area = { .addr = (uintptr_t)addr, .end = (uintptr_t)addr + bytes };
	int err = hpi_sys_read_lines("/proc/self/smaps", HPI_SYS_LINE_MAX, read_area, &area);

	*huge = area.huge > area.others ? area.huge - area.others : 0;
	return err;
}

/* Memory that nobody can tell of counts as base pages. */
static uint64_t count_huge(const void *addr, uint64_t bytes)
{
	uint64_t huge;

	if (!scan_huge(addr, bytes, &huge) || !read_huge(addr, bytes, &huge))
		return huge & ~(HPI_2M - 1);
	return 0;
}

/* ---- the provider ---- */

static int fill(struct hugepin_context *ctx, void *addr, uint64_t bytes, uint64_t *huge)
{
	int err = hpi_sys_madvise(addr, bytes, MADV_HUGEPAGE);

	if (err)
		return hpi_error(-ENODEV, "thp: madvise(MADV_HUGEPAGE) of %llu bytes: %s", (unsigned long long)bytes,
				 strerror(-err));
	err = hpi_populate(ctx, addr, bytes, HPI_2M);
	if (err)
		return hpi_error(err == -EFAULT ? -ENOMEM : err, "thp: no memory for %llu bytes: %s",
				 (unsigned long long)bytes, strerror(-err));
	*huge = count_huge(addr, bytes);
	/* What was short at the touch may be found by moving pages about; an older kernel does not know the advice. */
	if (*huge < bytes && !hpi_sys_madvise(addr, bytes, MADV_COLLAPSE))
		*huge = count_huge(addr, bytes);
	if (!*huge)
		return hpi_error(-ENOMEM, "thp: asked %llu page%s of 2M, the kernel has put none there",
				 (unsigned long long)(bytes / HPI_2M), HPI_PLURAL(bytes / HPI_2M));
	return 0;
}

/* Without an address of the caller's the place is chosen so that huge pages fit. */
static int place(void *at, uint64_t bytes, void **addr)
{
	char *area, *begin;
	void *reserved;
	int err;

	if (at)
		return hpi_mapping_place(at, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, addr);
	err = hpi_sys_mmap(NULL, bytes + HPI_2M, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &reserved);
	if (err)
		return err;
	area = reserved;
	begin = (char *)hpi_round_up((uintptr_t)area, HPI_2M);
	if (begin > area)
		hpi_sys_munmap(area, (uint64_t)(begin - area));
	hpi_sys_munmap(begin + bytes, (uint64_t)(area + HPI_2M - begin));
	err = hpi_mapping_place(begin, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, addr);
	if (err)
		hpi_mapping_undo(begin, bytes, false);
	return err;
}

static int map(struct hugepin_context *ctx, const struct hpi_request *request, struct hpi_mapping *out)
{
	uint64_t huge = 0;
	void *addr;
	int err;

	if (!request->bytes || (request->bytes | (uintptr_t)request->addr) % HPI_2M)
		return hpi_error(-EINVAL, "thp: %llu bytes at %p are not whole pages of 2M",
				 (unsigned long long)request->bytes, request->addr);
	err = check_enabled();
	if (!err)
		err = hpi_room_check("", &ctx->topology, request->policy, "thp", request->bytes);
	if (err)
		return err;
	err = place(request->addr, request->bytes, &addr);
	if (err)
		return hpi_error(err, "thp: mapping %llu bytes: %s", (unsigned long long)request->bytes, strerror(-err));
	err = hpi_policy_apply(request->policy, &ctx->topology, addr, request->bytes);
	if (!err)
		err = fill(ctx, addr, request->bytes, &huge);
	if (err) {
		hpi_mapping_undo(addr, request->bytes, request->addr);
		return err;
	}
	*out = (struct hpi_mapping){
		.addr = addr,
		.bytes = request->bytes,
		.provider = HUGEPIN_PROVIDER_THP,
		.bytes_2m = huge,
		.node = hpi_mapping_node(addr, request->bytes,
					 huge == request->bytes ? HPI_2M : (uint64_t)sysconf(_SC_PAGESIZE)),
		.fd = -1,
		.zeroed = true,
	};
	return 0;
}

const struct hpi_provider hpi_provider_thp = {
	.name = "thp",
	.id = HUGEPIN_PROVIDER_THP,
	.classes = HUGEPIN_CLASSES_2M,
	.map = map,
	.unmap = hpi_mapping_unmap,
};
