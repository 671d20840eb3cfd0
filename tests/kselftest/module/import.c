// SPDX-License-Identifier: GPL-2.0
/*
 * An importer of dma-bufs as a device's driver is one: it attaches, maps, and knows nothing of the memory but the DMA
 * addresses it was given. Each import has a platform device of its own, so that each can have its own limits.
 */
#include <linux/dma-buf.h>
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>

#include "compat.h"
#include "driver.h"

struct import {
	struct platform_device *device;
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attachment;
	struct sg_table *table;
};

static struct platform_device *device_make(const struct hugepin_test_import *request)
{
	struct platform_device *device = platform_device_register_simple("hugepin_test", PLATFORM_DEVID_AUTO, NULL, 0);
	int ret;

	if (IS_ERR(device))
		return device;
	ret = dma_coerce_mask_and_coherent(&device->dev, DMA_BIT_MASK(64));
	if (!ret && device_iommu_mapped(&device->dev))	/* import_pages() could not follow its addresses */
		ret = -EOPNOTSUPP;
	if (ret) {
		platform_device_unregister(device);
		return ERR_PTR(ret);
	}
	if (request->max_segment)
		dma_set_max_seg_size(&device->dev, request->max_segment);
	if (request->boundary)
		dma_set_seg_boundary(&device->dev, request->boundary - 1);
	return device;
}

static void measure(const struct import *import, struct hugepin_test_import *request)
{
	struct scatterlist *sg;
	unsigned int i;

	request->entries = 0;
	request->bytes = 0;
	request->largest = 0;
	for_each_sgtable_dma_sg(import->table, sg, i) {
		request->entries++;
		request->bytes += sg_dma_len(sg);
		request->largest = max_t(u64, request->largest, sg_dma_len(sg));
	}
}

/* An entry that is not whole pages, or faults in the sum, are the exporter's. */
static int import_pages(const struct import *import, u64 bytes, struct page **pages)
{
	struct scatterlist *sg;
	unsigned int i;
	u64 nr = 0, at;

	for_each_sgtable_dma_sg(import->table, sg, i) {
		phys_addr_t start = dma_to_phys(&import->device->dev, sg_dma_address(sg));

		if (!PAGE_ALIGNED(start | sg_dma_len(sg)))
			return -EIO;
		for (at = 0; at < sg_dma_len(sg); at += PAGE_SIZE)
			pages[nr++] = pfn_to_page(PHYS_PFN(start + at));
	}
	return nr << PAGE_SHIFT == bytes ? 0 : -EIO;
}

static int import_map(struct import *import, struct hugepin_test_import *request, struct page ***pages)
{
	int ret;

	import->table = dma_buf_map_attachment_unlocked(import->attachment, DMA_BIDIRECTIONAL);
	if (IS_ERR(import->table))
		return PTR_ERR(import->table);
	measure(import, request);
	*pages = kvmalloc_array(request->bytes >> PAGE_SHIFT, sizeof(**pages), GFP_KERNEL);
	ret = *pages ? import_pages(import, import->dmabuf->size, *pages) : -ENOMEM;
	if (!ret)
		return 0;
	kvfree(*pages);
	dma_buf_unmap_attachment_unlocked(import->attachment, import->table, DMA_BIDIRECTIONAL);
	return ret;
}

struct import *import_begin(struct hugepin_test_import *request, struct page ***pages)
{
	struct import *import;
	int ret;

	if (request->boundary && (!is_power_of_2(request->boundary) || request->boundary > 1ULL << 32))
		return ERR_PTR(-EINVAL);
	import = kzalloc(sizeof(*import), GFP_KERNEL);
	if (!import)
		return ERR_PTR(-ENOMEM);
	import->dmabuf = dma_buf_get(request->fd);
	ret = PTR_ERR_OR_ZERO(import->dmabuf);
	if (ret)
		goto out_free;
	import->device = device_make(request);
	ret = PTR_ERR_OR_ZERO(import->device);
	if (ret)
		goto out_dmabuf;
	import->attachment = dma_buf_attach(import->dmabuf, &import->device->dev);
	ret = PTR_ERR_OR_ZERO(import->attachment);
	if (ret)
		goto out_device;
	ret = import_map(import, request, pages);
	if (!ret)
		return import;

	dma_buf_detach(import->dmabuf, import->attachment);
out_device:
	platform_device_unregister(import->device);
out_dmabuf:
	dma_buf_put(import->dmabuf);
out_free:
	kfree(import);
	return ERR_PTR(ret);
}

void import_end(struct import *import)
{
	dma_buf_unmap_attachment_unlocked(import->attachment, import->table, DMA_BIDIRECTIONAL);
	dma_buf_detach(import->dmabuf, import->attachment);
	platform_device_unregister(import->device);
	dma_buf_put(import->dmabuf);
	kfree(import);
}

COMPAT_IMPORT_NS(DMA_BUF);
