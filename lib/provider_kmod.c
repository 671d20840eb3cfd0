// SPDX-License-Identifier: MIT
/*
 * Provider kmod: unnamed regions of the hugepin module. Their pages exist and are zero before they are mapped, so
 * mapping makes page-table entries and nothing else.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

/* The classes that a length can have pages of. One of them absent is for the ladder's next rung: -EOPNOTSUPP. */
static int classes_for(struct hugepin_context *ctx, const struct hpi_request *request, unsigned int *out)
{
	unsigned int classes = request->classes;

	if (classes & HUGEPIN_CLASSES_2M && request->bytes < HPI_1G)
		classes &= ~HUGEPIN_CLASSES_1G;
	if (classes & HUGEPIN_CLASSES_1G && ctx->absent[HUGEPIN_PAGES_1G])
		return hpi_error(-EOPNOTSUPP, "kmod: %llu bytes with 1G pages: %s", (unsigned long long)request->bytes,
				 hugepin_class_absent(ctx, HUGEPIN_PAGES_1G));
	*out = classes;
	return 0;
}

static void tell(const struct hpi_extents *extents, struct hpi_mapping *mapping)
{
	size_t i;

	mapping->node = extents->count ? extents->list[0].node : -1;
	for (i = 0; i < extents->count; i++) {
		const struct hugepin_extent_info *extent = &extents->list[i];

		if (extent->node != mapping->node)
			mapping->node = -1;
		if (extent->page_class == HUGEPIN_PAGES_1G)
			mapping->bytes_1g += extent->bytes;
		else
			mapping->bytes_2m += extent->bytes;
	}
}

/*
 * Over a reservation this is MAP_FIXED, which the module takes for regions with 1G pages only together with
 * MAP_SHARED_VALIDATE: a plain MAP_SHARED | MAP_FIXED there is how mremap() would come. MAP_POPULATE is no help, since
 * mmap does not tell when it fails.
 */
static int map_region(const struct hpi_request *request, struct hpi_mapping *mapping)
{
	int err = hpi_mapping_place(request->addr, mapping->bytes, MAP_SHARED_VALIDATE, mapping->fd, &mapping->addr);

	if (err)
		return hpi_error(err, "kmod: mapping a region of %llu bytes at %p: %s",
				 (unsigned long long)mapping->bytes, request->addr, strerror(-err));
	err = hpi_populate_region(mapping->addr, mapping->bytes, true);
	if (!err)
		return 0;
	hpi_mapping_undo(mapping->addr, mapping->bytes, request->addr);
	return hpi_error(err, "kmod: making the page-table entries of a region of %llu bytes: %s",
			 (unsigned long long)mapping->bytes, strerror(-err));
}

static int map(struct hugepin_context *ctx, const struct hpi_request *request, struct hpi_mapping *out)
{
	uint64_t granule = request->classes & HUGEPIN_CLASSES_2M ? HPI_2M : HPI_1G;
	struct hpi_mapping mapping = { .provider = HUGEPIN_PROVIDER_KMOD, .zeroed = true };
	struct hpi_extents extents = { .count = 0 };
	struct hpi_take take = { .bytes = request->bytes, .policy = request->policy->policy };
	struct hpi_nodes nodes;
	int err;

	if (!request->bytes || request->bytes % granule || (uintptr_t)request->addr % HPI_2M)
		return hpi_error(-EINVAL, "kmod: %llu bytes at %p are not whole pages of %s",
				 (unsigned long long)request->bytes, request->addr, granule == HPI_1G ? "1G" : "2M");
	take.dir_fd = hpi_context_module_fd(ctx);
	if (take.dir_fd < 0)
		return take.dir_fd == -EACCES ? -ENODEV : take.dir_fd;	/* so that a ladder goes on */
	err = classes_for(ctx, request, &take.classes);
	if (err)
		return err;
	hpi_policy_nodes(request->policy, &ctx->topology, &nodes);
	take.nodes = &nodes;
	mapping.fd = hpi_region_take(ctx, &take, &mapping.bytes, &extents);
	if (mapping.fd < 0)
		return mapping.fd;
	tell(&extents, &mapping);
	free(extents.list);
	err = map_region(request, &mapping);
	if (err) {
		hpi_sys_close(mapping.fd);
		return err;
	}
	*out = mapping;
	return 0;
}

const struct hpi_provider hpi_provider_kmod = {
	.name = "kmod",
	.id = HUGEPIN_PROVIDER_KMOD,
	.classes = HUGEPIN_CLASSES_2M | HUGEPIN_CLASSES_1G,
	.map = map,
	.unmap = hpi_mapping_unmap,
};
