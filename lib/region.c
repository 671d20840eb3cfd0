// SPDX-License-Identifier: MIT
/*
 * Regions: the module's memory as files. A handle is a descriptor, what was got, and the mappings made through it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../kmod/uapi/hugepin.h"
#include "internal.h"

struct area {
	struct area *next;
	void *addr;
	uint64_t bytes;
};

struct hugepin_region {
	struct hugepin_context *ctx;
	int fd;
	bool readonly;			/* the file's mode lets this process only read */
	uint64_t bytes;
	struct hpi_extents extents;
	pthread_mutex_t lock;		/* of @areas */
	struct area *areas;
};

/* ---- names ---- */

/* A directory of hugepinfs and a name in it. */
struct place {
	int dir_fd;
	bool opened;			/* for this place, not the context's mount */
	const char *base;		/* the tail of the name given */
};

static int check_base(const char *name, const char *base)
{
	if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
		return hpi_error(-EINVAL, "\"%.300s\" is not a name for a region", name);
	if (strlen(base) > HUGEPIN_NAME_MAX)
		return hpi_error(-ENAMETOOLONG, "a region's name of %zu bytes, at most %d are allowed", strlen(base),
				 HUGEPIN_NAME_MAX);
	return 0;
}

static int open_directory(const char *name, size_t length)
{
	char *path = strndup(name, length ? length : 1);	/* "/x" is in "/" */
	uint64_t magic = 0;
	int fd, err;

	if (!path)
		return hpi_error(-ENOMEM, "no memory for a path of %zu bytes", length);
	fd = hpi_sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		hpi_error(fd, "directory \"%.300s\": %s", path, strerror(-fd));
		goto out;
	}
	err = hpi_sys_file_system(fd, &magic);
	if (err || magic != HUGEPIN_FS_MAGIC) {
		hpi_error(0, "directory \"%.300s\" is not on hugepinfs", path);
		hpi_sys_close(fd);
		fd = -ENODEV;
	}
out:
	free(path);
	return fd;
}

static int place_find(struct hugepin_context *ctx, const char *name, struct place *out)
{
	const char *slash, *base;
	int err;

	if (!name)
		return hpi_error(-EINVAL, "a region's name is NULL");
	slash = strrchr(name, '/');
	base = slash ? slash + 1 : name;
	err = check_base(name, base);
	if (err)
		return err;
	*out = (struct place){ .dir_fd = ctx->mount_fd, .base = base };
	if (slash) {
		out->dir_fd = open_directory(name, (size_t)(slash - name));
		out->opened = true;
		return out->dir_fd < 0 ? out->dir_fd : 0;
	}
	if (ctx->mount_fd < 0)
		return hpi_error(-ENODEV, "region \"%.300s\": no hugepinfs is mounted at %s (option mount)", name,
				 hpi_options_string(ctx->options, HPI_OPT_MOUNT));
	return 0;
}

static void place_leave(struct place *place)
{
	if (place->opened)
		hpi_sys_close(place->dir_fd);
}

/* ---- handles ---- */

static struct hugepin_region *region_alloc(struct hugepin_context *ctx)
{
	struct hugepin_region *region = calloc(1, sizeof(*region));

	if (!region) {
		hpi_error(-ENOMEM, "no memory for a region's handle of %zu bytes", sizeof(*region));
		return NULL;
	}
	region->ctx = ctx;
	region->fd = -1;
	pthread_mutex_init(&region->lock, NULL);
	return region;
}

static void region_free(struct hugepin_region *region)
{
	pthread_mutex_destroy(&region->lock);
	free(region->extents.list);
	free(region);
}

static bool is_zero(const char *bytes, size_t count)
{
	while (count && !bytes[count - 1])
		count--;
	return !count;
}

static int check_request(const struct hugepin_region_request *r)
{
	const unsigned int all = HUGEPIN_CLASSES_2M | HUGEPIN_CLASSES_1G;

	if (!r || r->size < sizeof(*r) || r->size > HPI_STRUCT_MAX)
		return hpi_error(-EINVAL, "region request: size is %zu, not %zu", r ? r->size : 0, sizeof(*r));
	if (!is_zero((const char *)(r + 1), r->size - sizeof(*r)))
		return hpi_error(-EINVAL,
				 "region request: of its %zu bytes this library knows %zu, and the rest is not 0",
				 r->size, sizeof(*r));
	if (r->flags & ~HUGEPIN_REGION_FALLBACK)
		return hpi_error(-EINVAL, "region request: unknown flags %#x", r->flags & ~HUGEPIN_REGION_FALLBACK);
	if (r->classes & ~all)
		return hpi_error(-EINVAL, "region request: unknown classes %#x", r->classes & ~all);
	if ((unsigned int)r->policy > HUGEPIN_NODES_PREFERRED)
		return hpi_error(-EINVAL, "region request: unknown policy %u", (unsigned int)r->policy);
	if (r->mode & ~0777u)
		return hpi_error(-EINVAL, "region request: mode %#o is not within 0777", r->mode);
	/* so that rounding up never wraps and the length is a file's */
	if (!r->bytes || r->bytes > INT64_MAX - HPI_1G)
		return hpi_error(-EINVAL, "region request: %llu bytes is not between 1 and %llu",
				 (unsigned long long)r->bytes, (unsigned long long)(INT64_MAX - HPI_1G));
	return 0;
}

static int request_nodes(struct hugepin_context *ctx, const char *text, struct hpi_nodes *out)
{
	int err;

	if (!text) {
		hpi_topology_usable(&ctx->topology, out);
		return 0;
	}
	if (hpi_nodes_parse(text, out))
		return hpi_error(-EINVAL, "region request: \"%.300s\" is not a list of node ids like \"0-3,8\"", text);
	err = hpi_policy_check_nodes(out, &ctx->topology);
	return err ? hpi_error_add(err, ": region request for node%s %s", HPI_PLURAL(hpi_nodes_count(out)), text) : 0;
}

/* 0 and both together leave 1G out where there is no such class; 1G alone is refused by the module with the reason. */
static unsigned int request_classes(struct hugepin_context *ctx, unsigned int classes)
{
	if (!classes)
		classes = HUGEPIN_CLASSES_2M | HUGEPIN_CLASSES_1G;
	if (classes & HUGEPIN_CLASSES_2M && ctx->absent[HUGEPIN_PAGES_1G])
		classes &= ~HUGEPIN_CLASSES_1G;
	return classes;
}

int hugepin_region_create(struct hugepin_context *ctx, const struct hugepin_region_request *request,
			  struct hugepin_region **out)
{
	struct hugepin_region *region;
	struct place place = { .dir_fd = -1 };
	struct hpi_nodes nodes = { { 0 } };
	int err;

	err = hpi_context_check(ctx);
	if (!err)
		err = check_request(request);
	if (!err)
		err = request_nodes(ctx, request->nodes, &nodes);
	if (!err && request->name)
		err = place_find(ctx, request->name, &place);
	else if (!err)
		err = place.dir_fd = hpi_context_module_fd(ctx);
	if (err < 0)
		return err;
	region = region_alloc(ctx);
	if (!region) {
		err = -ENOMEM;
		goto out;
	}
	err = hpi_region_take(ctx, &(struct hpi_take){
		.dir_fd = place.dir_fd,
		.name = place.base,
		.mode = request->mode,
		.bytes = request->bytes,
		.classes = request_classes(ctx, request->classes),
		.fallback = request->flags & HUGEPIN_REGION_FALLBACK,
		.policy = request->policy,
		.nodes = &nodes,
	}, &region->bytes, &region->extents);
	if (err < 0) {
		region_free(region);
		goto out;
	}
	region->fd = err;
	err = 0;
	__atomic_fetch_add(&ctx->objects, 1, __ATOMIC_RELAXED);
	*out = region;
out:
	place_leave(&place);
	return err;
}

/* Length and extents from the descriptor; -ENODEV if it is not a region's. */
static int read_info(struct hugepin_region *region, const char *name)
{
	struct hugepin_extent raw[HUGEPIN_CLASS_COUNT * 64];
	struct hugepin_region_info info = {
		.size = sizeof(info),
		.extents = (uintptr_t)raw,
		.nr_extents = sizeof(raw) / sizeof(raw[0]),
	};
	struct hpi_extents *extents = &region->extents;
	struct hugepin_extent *more = NULL;
	int err = hpi_sys_ioctl(region->fd, HUGEPIN_IOC_REGION_INFO, &info);

	if (!err && info.nr_extents > sizeof(raw) / sizeof(raw[0])) {
		more = malloc(info.nr_extents * sizeof(*more));
		if (!more)
			return hpi_error(-ENOMEM, "no memory for %u extents of region \"%.300s\"", info.nr_extents, name);
		info.extents = (uintptr_t)more;
		err = hpi_sys_ioctl(region->fd, HUGEPIN_IOC_REGION_INFO, &info);	/* they never change */
	}
	if (!err) {
		extents->list = malloc((info.nr_extents + 1) * sizeof(*extents->list));
		err = extents->list ? 0 : -ENOMEM;
	}
	if (!err) {
		hpi_region_convert(more ? more : raw, info.nr_extents, extents->list);
		extents->count = info.nr_extents;
		region->bytes = info.bytes;
	}
	free(more);
	if (err == -ENOTTY || err == -EINVAL)
		return hpi_error(-ENODEV, "\"%.300s\" is not a region", name);
	return err ? hpi_error(err, "region \"%.300s\": reading what it is made of: %s", name, strerror(-err)) : 0;
}

static int open_region(struct hugepin_region *region, const struct place *place, const char *name)
{
	region->fd = hpi_sys_open_at(place->dir_fd, place->base, O_RDWR);
	if (region->fd == -EACCES || region->fd == -EROFS) {
		region->readonly = true;
		region->fd = hpi_sys_open_at(place->dir_fd, place->base, O_RDONLY);
	}
	if (region->fd == -EISDIR || region->fd == -ELOOP)
		return hpi_error(-ENODEV, "\"%.300s\" is not a region", name);
	if (region->fd < 0)
		return hpi_error(region->fd, "region \"%.300s\": %s", name, strerror(-region->fd));
	return read_info(region, name);
}

int hugepin_region_open(struct hugepin_context *ctx, const char *name, struct hugepin_region **out)
{
	struct hugepin_region *region;
	struct place place = { .dir_fd = -1 };
	int err;

	err = hpi_context_check(ctx);
	if (!err)
		err = place_find(ctx, name, &place);
	if (err)
		return err;
	region = region_alloc(ctx);
	err = region ? open_region(region, &place, name) : -ENOMEM;
	if (!err) {
		__atomic_fetch_add(&ctx->objects, 1, __ATOMIC_RELAXED);
		*out = region;
	} else if (region) {
		hpi_sys_close(region->fd);
		region_free(region);
	}
	place_leave(&place);
	return err;
}

void hugepin_region_close(struct hugepin_region *region)
{
	struct area *area;
	bool child;

	if (!region)
		return;
	/* A child of a fork keeps the mappings it inherited. */
	child = hpi_context_is_child(region->ctx);
	while (region->areas) {
		area = region->areas;
		region->areas = area->next;
		if (!child)
			hpi_mapping_undo(area->addr, area->bytes, false);
		free(area);
	}
	hpi_sys_close(region->fd);
	__atomic_fetch_sub(&region->ctx->objects, 1, __ATOMIC_RELAXED);
	region_free(region);
}

int hugepin_region_unlink(struct hugepin_context *ctx, const char *name)
{
	struct place place = { .dir_fd = -1 };
	int err;

	err = hpi_context_check(ctx);
	if (!err)
		err = place_find(ctx, name, &place);
	if (err)
		return err;
	err = hpi_sys_unlink_at(place.dir_fd, place.base);
	if (err)
		hpi_error(err, "removing region \"%.300s\": %s", name, strerror(-err));
	place_leave(&place);
	return err;
}

int hugepin_region_fd(const struct hugepin_region *region)
{
	return region->fd;
}

uint64_t hugepin_region_bytes(const struct hugepin_region *region)
{
	return region->bytes;
}

int hugepin_region_extents(const struct hugepin_region *region, struct hugepin_extent_info *extents, size_t count)
{
	size_t n = region->extents.count;

	if (count && !extents)
		return hpi_error(-EINVAL, "no array for %zu extents", count);
	if (count)
		memcpy(extents, region->extents.list, (count < n ? count : n) * sizeof(*extents));
	return (int)n;
}

int hugepin_region_export(const struct hugepin_region *region, uint64_t offset, uint64_t bytes)
{
	int err = hpi_context_check(region->ctx);

	return err ? err : hpi_pin_export(region->fd, region->bytes, HPI_2M, offset, bytes);
}

/* ---- mappings ---- */

static int check_range(const struct hugepin_region *region, uint64_t offset, uint64_t *bytes, unsigned int flags)
{
	unsigned long long whole = region->bytes;

	if (flags & ~(HUGEPIN_MAP_READONLY | HUGEPIN_MAP_POPULATE))
		return hpi_error(-EINVAL, "mapping a region: unknown flags %#x", flags);
	if (region->readonly && !(flags & HUGEPIN_MAP_READONLY))
		return hpi_error(-EACCES, "mapping a region for writing: its mode lets this process only read");
	if (offset % HPI_2M || *bytes % HPI_2M)
		return hpi_error(-EINVAL, "mapping a region: offset %llu and length %llu must be multiples of 2 MiB",
				 (unsigned long long)offset, (unsigned long long)*bytes);
	if (offset >= region->bytes || *bytes > region->bytes - offset)
		return hpi_error(-EINVAL, "mapping a region: %llu bytes at offset %llu are not within its %llu",
				 (unsigned long long)*bytes, (unsigned long long)offset, whole);
	if (!*bytes)
		*bytes = region->bytes - offset;
	return 0;
}

int hugepin_region_map(struct hugepin_region *region, uint64_t offset, uint64_t bytes, unsigned int flags, void **out)
{
	bool writable = !(flags & HUGEPIN_MAP_READONLY);
	struct area *area;
	int err;

	err = hpi_context_check(region->ctx);
	if (!err)
		err = check_range(region, offset, &bytes, flags);
	if (err)
		return err;
	area = malloc(sizeof(*area));
	if (!area)
		return hpi_error(-ENOMEM, "mapping a region: no memory for %zu bytes", sizeof(*area));
	area->bytes = bytes;
	err = hpi_sys_mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, region->fd, offset,
			   &area->addr);
	if (!err && flags & HUGEPIN_MAP_POPULATE) {
		/* not MAP_POPULATE: mmap does not tell when it fails */
		err = hpi_populate_region(area->addr, bytes, writable);
		if (err)
			hpi_mapping_undo(area->addr, bytes, false);
	}
	if (err) {
		free(area);
		return hpi_error(err, "mapping %llu bytes of a region at offset %llu: %s", (unsigned long long)bytes,
				 (unsigned long long)offset, strerror(-err));
	}
	pthread_mutex_lock(&region->lock);
	area->next = region->areas;
	region->areas = area;
	pthread_mutex_unlock(&region->lock);
	*out = area->addr;
	return 0;
}

int hugepin_region_unmap(struct hugepin_region *region, void *addr)
{
	struct area **link, *area;
	int err;

	err = hpi_context_check(region->ctx);
	if (err)
		return err;
	pthread_mutex_lock(&region->lock);
	for (link = &region->areas; *link && (*link)->addr != addr; link = &(*link)->next)
		;
	area = *link;
	err = area ? hpi_sys_munmap(area->addr, area->bytes) : -EINVAL;
	if (!err)
		*link = area->next;
	pthread_mutex_unlock(&region->lock);
	if (err)
		return hpi_error(err, "unmapping %p: %s", addr, area ? strerror(-err) : "not a mapping of this region");
	free(area);
	return 0;
}
