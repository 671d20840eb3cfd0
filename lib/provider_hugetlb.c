// SPDX-License-Identifier: MIT
/*
 * Provider hugetlb: the kernel's own huge pages, from a file without a name.
 *
 * mmap reserves pages against the pool's total only: a cgroup's limit, a bound node or a mount's quota strike at the
 * touch, as a SIGBUS. So every page is made resident here, by a call that answers with an error instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

struct page_size {
	const char *name;
	uint64_t bytes;
	unsigned int memfd_flag;
	bool mount_useless;	/* set once for good (racing threads set the same): no more calls that fail */
};

static struct page_size size_2m = { .name = "2M", .bytes = HPI_2M, .memfd_flag = MFD_HUGE_2MB };
static struct page_size size_1g = { .name = "1G", .bytes = HPI_1G, .memfd_flag = MFD_HUGE_1GB };

/* This process may make no such file: the ladder goes on, with memory that needs none. */
static bool is_barred(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -EPERM || err == -EACCES || err == -ENOSYS;
}

/* A mount first: its limits are the operator's word. Else no mount is needed, nor a privilege. */
static int open_file(struct page_size *size)
{
	const char *mount = hpi_hugetlb_mount(size->bytes);
	int fd;

	if (mount && !__atomic_load_n(&size->mount_useless, __ATOMIC_RELAXED)) {
		fd = hpi_sys_open(mount, O_TMPFILE | O_RDWR | O_EXCL, 0600);
		if (fd >= 0)
			return fd;
		if (fd == -EMFILE || fd == -ENFILE)
			return hpi_error(-ENODEV, "hugetlb: a file in %s: %s", mount, strerror(-fd));
		__atomic_store_n(&size->mount_useless, true, __ATOMIC_RELAXED);
		hpi_log(HUGEPIN_LOG_INFO,
			"hugetlb: no file can be made in %s (%s), anonymous files are used from now on", mount,
			strerror(-fd));
	}
	fd = hpi_sys_memfd("hugepin", MFD_HUGETLB | size->memfd_flag);
	/* EINVAL: built without hugetlbfs; ENODEV: without this size */
	if (fd == -EINVAL || fd == -ENODEV)
		return hpi_error(-ENODEV, "hugetlb: this kernel has no %s pages", size->name);
	if (fd < 0)
		return hpi_error(is_barred(fd) ? -ENODEV : fd, "hugetlb: memfd_create for %s pages: %s", size->name,
				 strerror(-fd));
	return fd;
}

/* Huge pages are short, at mmap or at the touch: says of what. Nothing of the attempt is held any more. */
static int shortage(const struct hpi_request *request, const struct page_size *size, const char *step, int err)
{
	unsigned long long asked = request->bytes / size->bytes, more = 0;
	struct hpi_hugetlb_pool pool;
	char nodes[64];

	if (err != -ENOMEM && err != -EFAULT && err != -ENOSPC)
		return hpi_error(is_barred(err) ? -ENODEV : err, "hugetlb: %s of %llu page%s of %s: %s", step, asked,
				 HPI_PLURAL(asked), size->name, strerror(-err));
	if (hpi_hugetlb_pool_read("", size->bytes, &pool))
		return hpi_error(-ENOMEM, "hugetlb: asked %llu page%s of %s, refused at %s", asked, HPI_PLURAL(asked),
				 size->name, step);
	if (pool.overcommit_pages > pool.surplus_pages)
		more = pool.overcommit_pages - pool.surplus_pages;
	hpi_error(-ENOMEM,
		  "hugetlb: asked %llu page%s of %s, %llu free of %llu, %llu of them reserved, %llu more on demand; "
		  "refused at %s",
		  asked, HPI_PLURAL(asked), size->name, (unsigned long long)pool.free_pages,
		  (unsigned long long)pool.total_pages, (unsigned long long)pool.reserved_pages, more, step);
	if (pool.limit_bytes != UINT64_MAX)
		hpi_error_add(-ENOMEM, ", cgroup limit %llu pages (hugetlb.%sB)",
			      (unsigned long long)(pool.limit_bytes / size->bytes), size->name);
	if (request->policy->policy == HUGEPIN_NODES_BIND) {
		hpi_nodes_name(&request->policy->nodes, nodes, sizeof(nodes));
		hpi_error_add(-ENOMEM, ", bound to %s with %llu free", nodes,
			      (unsigned long long)hpi_hugetlb_free_on("", size->bytes, &request->policy->nodes));
	}
	return hpi_error_add(-ENOMEM, ", raise nr_hugepages or the limit");
}

static int fill(struct hugepin_context *ctx, const struct hpi_request *request, const struct page_size *size, int fd,
		void **addr)
{
	int err;

	err = hpi_sys_ftruncate(fd, request->bytes);
	if (err == -EFBIG)
		return hpi_error(-ENODEV, "hugetlb: a file of %llu bytes is over the limit of files (ulimit -f)",
				 (unsigned long long)request->bytes);
	if (err)
		return hpi_error(err, "hugetlb: a file of %llu bytes: %s", (unsigned long long)request->bytes,
				 strerror(-err));
	err = hpi_mapping_place(request->addr, request->bytes, MAP_SHARED, fd, addr);
	if (err)
		return shortage(request, size, "mmap", err);
	err = hpi_policy_apply(request->policy, &ctx->topology, *addr, request->bytes);
	if (err) {
		hpi_mapping_undo(*addr, request->bytes, request->addr);
		return err;
	}
	err = hpi_populate(ctx, *addr, request->bytes, size->bytes);
	if (!err)
		return 0;
	/* Numbers afterwards, and of an empty file: what this call itself had taken is free again. */
	hpi_mapping_undo(*addr, request->bytes, request->addr);
	hpi_sys_ftruncate(fd, 0);
	return shortage(request, size, "populating", err);
}

static int map(struct hugepin_context *ctx, const struct hpi_request *request, struct hpi_mapping *out)
{
	struct page_size *size = request->classes & HUGEPIN_CLASSES_1G ? &size_1g : &size_2m;
	void *addr = NULL;
	int fd, err;

	if (!request->bytes || request->bytes % size->bytes || (uintptr_t)request->addr % size->bytes)
		return hpi_error(-EINVAL, "hugetlb: %llu bytes at %p are not whole pages of %s",
				 (unsigned long long)request->bytes, request->addr, size->name);
	fd = open_file(size);
	if (fd < 0)
		return fd;
	err = fill(ctx, request, size, fd, &addr);
	if (err) {
		hpi_sys_close(fd);
		return err;
	}
	*out = (struct hpi_mapping){
		.addr = addr,
		.bytes = request->bytes,
		.provider = HUGEPIN_PROVIDER_HUGETLB,
		.bytes_1g = size == &size_1g ? request->bytes : 0,
		.bytes_2m = size == &size_2m ? request->bytes : 0,
		.node = hpi_mapping_node(addr, request->bytes, size->bytes),
		.fd = fd,
		.zeroed = true,
	};
	return 0;
}

const struct hpi_provider hpi_provider_hugetlb = {
	.name = "hugetlb",
	.id = HUGEPIN_PROVIDER_HUGETLB,
	.classes = HUGEPIN_CLASSES_2M | HUGEPIN_CLASSES_1G,
	.map = map,
	.unmap = hpi_mapping_unmap,
};
