// SPDX-License-Identifier: GPL-2.0
/*
 * dma-bufs of a region or a pinned range. The buffer holds the region's (or the pin's) file, so its memory lives as
 * long as any importer, whatever becomes of names, descriptors and processes.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "compat.h"
#include "hugepin.h"

struct buffer {
	struct file *file;		/* the region's or the pin's */
	u64 offset, bytes;
	struct mutex lock;		/* guards mapped */
	struct list_head mapped;	/* tables that importers hold, for CPU access */
};

struct table {
	struct list_head link;
	struct sg_table sg;
	struct device *dev;
	enum dma_data_direction direction;
};

/* ---- runs of neighbouring pages, region or pinned range alike ---- */

/* Cuts the part [@skip, @skip + @left) out of a sequence of runs and joins neighbours before @each sees them. */
struct walk {
	u64 skip, left;			/* base pages */
	struct hugepin_run run;
	int (*each)(const struct hugepin_run *run, void *arg);
	void *arg;
};

static int walk_flush(struct walk *walk)
{
	struct hugepin_run run = walk->run;

	walk->run.pages = 0;
	return run.pages ? walk->each(&run, walk->arg) : 0;
}

static int walk_run(const struct hugepin_run *run, void *arg)
{
	struct walk *walk = arg;
	u64 skip = min(walk->skip, run->pages), pages = min(run->pages - skip, walk->left);
	struct page *page;
	int ret;

	walk->skip -= skip;
	if (!pages)
		return 0;
	walk->left -= pages;
	page = pfn_to_page(page_to_pfn(run->page) + skip);
	if (walk->run.pages && page_to_pfn(page) == page_to_pfn(walk->run.page) + walk->run.pages) {
		walk->run.pages += pages;
		return 0;
	}
	ret = walk_flush(walk);
	walk->run = (struct hugepin_run){ .page = page, .pages = pages };
	return ret;
}

static int walk_runs(const struct buffer *buffer, int (*each)(const struct hugepin_run *run, void *arg), void *arg)
{
	struct walk walk = {
		.skip = buffer->offset >> PAGE_SHIFT,
		.left = buffer->bytes >> PAGE_SHIFT,
		.each = each,
		.arg = arg,
	};
	int ret;

	if (hugepin_pin_is(buffer->file))
		ret = hugepin_pin_for_each(buffer->file, walk_run, &walk);
	else
		ret = hugepin_region_for_each(file_inode(buffer->file)->i_private, walk_run, &walk);
	return ret ?: walk_flush(&walk);
}

/* ---- scatterlists ---- */

/* What an importer's device can take as one entry, in base pages. */
struct fill {
	u64 segment;			/* at most so many */
	u64 boundary;			/* never across a multiple of this */
	u64 entries;			/* counted first, then filled */
	struct scatterlist *next;
};

/* -EINVAL: less than a page, which is less than this memory can be cut into. */
static int fill_limits(struct device *dev, struct fill *fill)
{
	u64 bytes = min_t(u64, dma_get_max_seg_size(dev), round_down(UINT_MAX, PAGE_SIZE));	/* a length's type */

	*fill = (struct fill){
		.segment = bytes >> PAGE_SHIFT,
		.boundary = dma_get_seg_boundary_nr_pages(dev, PAGE_SHIFT),
	};
	return fill->segment && dma_get_seg_boundary(dev) >= PAGE_SIZE - 1 ? 0 : -EINVAL;
}

/* Of the run, the pages from @done on that make the next entry. */
static u64 entry_pages(const struct fill *fill, const struct hugepin_run *run, u64 done)
{
	u64 inside = (page_to_pfn(run->page) + done) & (fill->boundary - 1);

	return min3(run->pages - done, fill->segment, fill->boundary - inside);
}

/* A terabyte in one run has millions of entries for a device that takes 64 KiB each. */
static void breathe(u64 entries)
{
	if (!(entries % 4096))
		cond_resched();
}

static int count_entries(const struct hugepin_run *run, void *arg)
{
	struct fill *fill = arg;
	u64 done;

	for (done = 0; done < run->pages; done += entry_pages(fill, run, done))
		breathe(++fill->entries);
	return fill->entries > UINT_MAX ? -E2BIG : 0;
}

static int fill_entries(const struct hugepin_run *run, void *arg)
{
	struct fill *fill = arg;
	u64 done, n, filled = 0;

	for (done = 0; done < run->pages; done += n) {
		n = entry_pages(fill, run, done);
		sg_set_page(fill->next, pfn_to_page(page_to_pfn(run->page) + done), n << PAGE_SHIFT, 0);
		fill->next = sg_next(fill->next);
		breathe(++filled);
	}
	return 0;
}

static int make_table(const struct buffer *buffer, struct device *dev, struct sg_table *sg)
{
	struct fill fill;
	int ret;

	ret = fill_limits(dev, &fill);
	if (!ret)
		ret = walk_runs(buffer, count_entries, &fill);
	if (!ret)
		ret = sg_alloc_table(sg, fill.entries, GFP_KERNEL);
	if (ret)
		return ret;
	fill.next = sg->sgl;
	return walk_runs(buffer, fill_entries, &fill);	/* which has no error to give */
}

static struct sg_table *buffer_map(struct dma_buf_attachment *attachment, enum dma_data_direction direction)
{
	struct buffer *buffer = attachment->dmabuf->priv;
	struct table *table;
	int ret;

	table = kzalloc(sizeof(*table), GFP_KERNEL);
	if (!table)
		return ERR_PTR(-ENOMEM);
	table->dev = attachment->dev;
	table->direction = direction;
	ret = make_table(buffer, attachment->dev, &table->sg);
	if (ret)
		goto out_free;
	ret = dma_map_sgtable(attachment->dev, &table->sg, direction, 0);
	if (ret)
		goto out_table;
	mutex_lock(&buffer->lock);
	list_add(&table->link, &buffer->mapped);
	mutex_unlock(&buffer->lock);
	return &table->sg;

out_table:
	sg_free_table(&table->sg);
out_free:
	kfree(table);
	return ERR_PTR(ret);
}

static void buffer_unmap(struct dma_buf_attachment *attachment, struct sg_table *sg, enum dma_data_direction direction)
{
	struct buffer *buffer = attachment->dmabuf->priv;
	struct table *table = container_of(sg, struct table, sg);

	mutex_lock(&buffer->lock);
	list_del(&table->link);
	mutex_unlock(&buffer->lock);
	dma_unmap_sgtable(attachment->dev, sg, direction, 0);
	sg_free_table(sg);
	kfree(table);
}

/* ---- the CPU's side ---- */

static int buffer_begin_cpu(struct dma_buf *dmabuf, enum dma_data_direction direction)
{
	struct buffer *buffer = dmabuf->priv;
	struct table *table;

	mutex_lock(&buffer->lock);
	list_for_each_entry(table, &buffer->mapped, link)
		dma_sync_sgtable_for_cpu(table->dev, &table->sg, table->direction);
	mutex_unlock(&buffer->lock);
	return 0;
}

static int buffer_end_cpu(struct dma_buf *dmabuf, enum dma_data_direction direction)
{
	struct buffer *buffer = dmabuf->priv;
	struct table *table;

	mutex_lock(&buffer->lock);
	list_for_each_entry(table, &buffer->mapped, link)
		dma_sync_sgtable_for_device(table->dev, &table->sg, table->direction);
	mutex_unlock(&buffer->lock);
	return 0;
}

/*
 * The area becomes one of the region itself, with the region's rules. A dma-buf has no say in the address, so it may be
 * out of step for huge entries. A pinned range is its owner's memory and is mapped there already.
 */
static int buffer_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct buffer *buffer = dmabuf->priv;

	if (hugepin_pin_is(buffer->file))
		return -EOPNOTSUPP;
	vma->vm_pgoff += buffer->offset >> PAGE_SHIFT;
	vma_set_file(vma, buffer->file);
	return hugepin_region_map_area(buffer->file, vma, false);
}

static void buffer_release(struct dma_buf *dmabuf)
{
	struct buffer *buffer = dmabuf->priv;

	WARN_ON(!list_empty(&buffer->mapped));
	fput(buffer->file);
	kfree(buffer);
}

static const struct dma_buf_ops buffer_ops = {
	.map_dma_buf		= buffer_map,
	.unmap_dma_buf		= buffer_unmap,
	.begin_cpu_access	= buffer_begin_cpu,
	.end_cpu_access		= buffer_end_cpu,
	.mmap			= buffer_mmap,
	.release		= buffer_release,
};

/* A dma-buf of [@offset, @offset + @bytes) of the region or pinned range behind @file, which the caller has checked. */
struct dma_buf *hugepin_dmabuf_make(struct file *file, u64 offset, u64 bytes)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct buffer *buffer;
	struct dma_buf *dmabuf;

	buffer = kzalloc(sizeof(*buffer), GFP_KERNEL_ACCOUNT);
	if (!buffer)
		return ERR_PTR(-ENOMEM);
	buffer->file = get_file(file);
	buffer->offset = offset;
	buffer->bytes = bytes;
	mutex_init(&buffer->lock);
	INIT_LIST_HEAD(&buffer->mapped);
	info.ops = &buffer_ops;
	info.size = bytes;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = buffer;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		fput(buffer->file);
		kfree(buffer);
	}
	return dmabuf;
}

HUGEPIN_IMPORT_NS(DMA_BUF);
