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

static int map(struct hugepin_context *ctx, const struct hpi_request *request, struct hpi_mapping *out)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	void *addr;
	int err;

	if (!request->bytes || request->bytes % page_bytes)
		return hpi_error(-EINVAL, "base: %llu bytes are not whole pages of %llu",
				 (unsigned long long)request->bytes, (unsigned long long)page_bytes);
	err = hpi_room_check("", &ctx->topology, request->policy, "base", request->bytes);
	if (err)
		return err;
	err = hpi_mapping_place(request->addr, request->bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, &addr);
	if (err)
		return hpi_error(err, "base: mapping %llu bytes: %s", (unsigned long long)request->bytes,
				 strerror(-err));
	err = hpi_policy_apply(request->policy, &ctx->topology, addr, request->bytes);
	if (!err) {
		err = hpi_populate(ctx, addr, request->bytes, page_bytes);
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
