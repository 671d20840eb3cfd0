// SPDX-License-Identifier: MIT
/*
 * Provider device: memory of an accelerator, mapped into address space that its pool has reserved there. The CPU never
 * touches it, and the library asks the runtime where it must be set or copied.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

static int map(struct hugepin_context *ctx, const struct hpi_request *request, struct hpi_mapping *out)
{
	bool is_1g = request->classes == HUGEPIN_CLASSES_1G;
	int err = hpi_device_map(ctx, request->device, request->addr, request->bytes,
				 is_1g ? HUGEPIN_PAGES_1G : HUGEPIN_PAGES_2M);

	if (err)
		return err;
	*out = (struct hpi_mapping){
		.addr = request->addr,
		.bytes = request->bytes,
		.provider = HUGEPIN_PROVIDER_DEVICE,
		.bytes_1g = is_1g ? request->bytes : 0,
		.bytes_2m = is_1g ? 0 : request->bytes,
		.node = -1,
		.fd = -1,
		.device = request->device,
		.zeroed = false,	/* nobody promises it */
	};
	return 0;
}

/* The reservation is the pool's, and stays in any case. */
static int unmap(struct hugepin_context *ctx, struct hpi_mapping *mapping, bool reserve)
{
	(void)reserve;
	return hpi_device_unmap(ctx, mapping->device, mapping->addr, mapping->bytes);
}

const struct hpi_provider hpi_provider_device = {
	.name = "device",
	.id = HUGEPIN_PROVIDER_DEVICE,
	.classes = HUGEPIN_CLASSES_1G | HUGEPIN_CLASSES_2M,
	.map = map,
	.unmap = unmap,
};
