// SPDX-License-Identifier: MIT
/*
 * Provider base: anonymous memory in the machine's base pages, the last rung of a ladder. The kernel may put
 * transparent huge pages under it; they are not promised, so they count as base pages.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

/*
 * Where a container has no room, the kernel does not refuse the pages: it kills. A limit is no promise, since others
 * use the same memory; but what exceeds all of it, or what is left of it and of swap, cannot come to a good end.
 */
int hpi_base_check_room(struct hugepin_context *ctx, const char *name, uint64_t bytes)
{
	uint64_t charge = bytes + bytes / 512;		/* page tables are charged too */
	uint64_t headroom, swap_kib = 0;
	char text[32];

	if (bytes > ctx->topology.limit_bytes)
		return hpi_error(-ENOMEM, "%s: asked %llu bytes, the container's or machine's memory is %llu", name,
				 (unsigned long long)bytes, (unsigned long long)ctx->topology.limit_bytes);
	if (hpi_cgroup_memory_headroom("", &headroom)) {
		hpi_error_clear();	/* what cannot be known forbids nothing */
		return 0;
	}
	if (charge <= headroom)
		return 0;
	if (!hpi_sys_read_field("/proc/meminfo", "SwapFree:", text, sizeof(text))) {
		text[strspn(text, "0123456789")] = '\0';	/* a unit follows */
		hpi_size_parse_uint(text, &swap_kib);
	}
	if (charge - headroom <= swap_kib * 1024)
		return 0;
	return hpi_error(-ENOMEM, "%s: asked %llu bytes, the container has %llu left of its limit of %llu, and %llu "
			 "of swap", name, (unsigned long long)bytes, (unsigned long long)headroom,
			 (unsigned long long)ctx->topology.limit_bytes, (unsigned long long)swap_kib * 1024);
}

static int map(struct hugepin_context *ctx, const struct hpi_request *request, struct hpi_mapping *out)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	void *addr;
	int err;

	if (!request->bytes || request->bytes % page_bytes)
		return hpi_error(-EINVAL, "base: %llu bytes are not whole pages of %llu",
				 (unsigned long long)request->bytes, (unsigned long long)page_bytes);
	err = hpi_base_check_room(ctx, "base", request->bytes);
	if (err)
		return err;
	err = hpi_mapping_place(request->addr, request->bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, &addr);
	if (err)
		return hpi_error(err, "base: mapping %llu bytes: %s", (unsigned long long)request->bytes,
				 strerror(-err));
	err = hpi_policy_apply(request->policy, &ctx->topology, addr, request->bytes);
	if (!err) {
		err = hpi_mapping_populate(addr, request->bytes);
		if (err)
			err = hpi_error(err == -EFAULT ? -ENOMEM : err, "base: no memory for %llu bytes: %s",
					(unsigned long long)request->bytes, strerror(-err));
	}
	if (err) {
		hpi_mapping_undo(addr, request->bytes, request->addr);
		return err;
	}
	*out = (struct hpi_mapping){
		.addr = addr,
		.bytes = request->bytes,
		.provider = HUGEPIN_PROVIDER_BASE,
		.node = hpi_mapping_node(addr, request->bytes, page_bytes),
		.fd = -1,
		.zeroed = true,
	};
	return 0;
}

const struct hpi_provider hpi_provider_base = {
	.name = "base",
	.id = HUGEPIN_PROVIDER_BASE,
	.classes = 1u << HUGEPIN_PAGES_BASE,
	.map = map,
	.unmap = hpi_mapping_unmap,
};
