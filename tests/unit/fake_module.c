// SPDX-License-Identifier: MIT
/* The stand-in for the hugepin module: open, ioctl and statfs as it would answer them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_module.h"
#include "internal.h"

int __real_hpi_sys_open(const char *path, int flags, unsigned int mode);
int __wrap_hpi_sys_open(const char *path, int flags, unsigned int mode);
int __real_hpi_sys_ioctl(int fd, unsigned long request, void *arg);
int __wrap_hpi_sys_ioctl(int fd, unsigned long request, void *arg);
int __real_hpi_sys_file_system(int fd, uint64_t *magic);
int __wrap_hpi_sys_file_system(int fd, uint64_t *magic);
int __real_hpi_sys_read_file(const char *path, char *buffer, size_t size);
int __wrap_hpi_sys_read_file(const char *path, char *buffer, size_t size);
int __real_hpi_sys_write_file(const char *path, const char *text);
int __wrap_hpi_sys_write_file(const char *path, const char *text);

#define REGIONS_MAX	64
#define EXTENTS_MAX	(FAKE_NODES * HUGEPIN_CLASS_COUNT)

struct fake_region {
	dev_t dev;
	ino_t ino;
	uint64_t bytes, bytes_1g;
	uint32_t count;
	struct hugepin_extent extents[EXTENTS_MAX];
};

struct fake_module fake;
static struct fake_region regions[REGIONS_MAX];
static size_t region_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int device = -1;			/* a file that stands for /dev/hugepin */

void fake_module_load(void)
{
	const char *tmp = getenv("TMPDIR");

	fake = (struct fake_module){ .free = { { 512, 4 } } };
	snprintf(fake.mount, sizeof(fake.mount), "%.40s/hugepin-fs-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(fake.mount))
		abort();
	device = memfd_create("device", MFD_CLOEXEC);
	region_count = 0;
}

void fake_module_unload(void)
{
	char command[128];

	if (fake.mount[0]) {
		snprintf(command, sizeof(command), "rm -rf '%s'", fake.mount);
		if (system(command))
			abort();
	}
	close(device);
	device = -1;
	fake = (struct fake_module){ .device_err = -ENOENT };
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return !fstat(a, &x) && !fstat(b, &y) && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static bool in_mount(int fd)
{
	char link[64], path[4096];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0 || !fake.mount[0])
		return false;
	path[length] = '\0';
	return !strncmp(path, fake.mount, strlen(fake.mount));
}

int __wrap_hpi_sys_open(const char *path, int flags, unsigned int mode)
{
	char again[64];

	if (strcmp(path, HUGEPIN_DEVICE))
		return __real_hpi_sys_open(path, flags, mode);
	if (fake.device_err)
		return fake.device_err;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", device);
	return __real_hpi_sys_open(again, flags, mode);
}

int __wrap_hpi_sys_file_system(int fd, uint64_t *magic)
{
	if (!in_mount(fd))
		return __real_hpi_sys_file_system(fd, magic);
	*magic = HUGEPIN_FS_MAGIC;
	return 0;
}

/* ---- sysfs ---- */

static const char *redirect(const char *path, char *buffer, size_t size)
{
	static const char own[] = "/sys/class/misc/hugepin";

	if (!fake.sysfs[0] || strncmp(path, own, sizeof(own) - 1))
		return path;
	snprintf(buffer, size, "%s%s", fake.sysfs, path + sizeof(own) - 1);
	return buffer;
}

int __wrap_hpi_sys_read_file(const char *path, char *buffer, size_t size)
{
	char other[256];

	return __real_hpi_sys_read_file(redirect(path, other, sizeof(other)), buffer, size);
}

int __wrap_hpi_sys_write_file(const char *path, const char *text)
{
	char other[256];
	const char *to = redirect(path, other, sizeof(other));

	if (to != path && fake.knob_write_err)
		return fake.knob_write_err;
	return __real_hpi_sys_write_file(to, text);
}

/* ---- ioctls ---- */

static int info(struct hugepin_info *info)
{
	struct hugepin_info_pages *pages = (void *)(uintptr_t)info->pages;
	uint32_t node, class, count = 0;

	/* 2M before 1G and the nodes downwards: the order is the library's work */
	for (node = FAKE_NODES; node--;)
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
			uint64_t n = fake.free[node][class];

			if (!n || fake.absent[class])
				continue;
			if (pages && count < info->nr_pages)
				pages[count] = (struct hugepin_info_pages){
					.node = node, .class = class, .asked = n + 9, .total = n + 6, .clean = n,
					.dirty = 1, .in_use = 2, .quarantined = 3,
				};
			count++;
		}
	info->version = HUGEPIN_UAPI_VERSION;
	info->features = fake.features;
	memcpy(info->absent, fake.absent, sizeof(info->absent));
	info->nr_pages = count;
	return 0;
}

/* Takes @pages of a class from the nodes of the mask, lowest first. */
static bool take(struct fake_region *region, uint64_t mask, uint32_t class, uint64_t pages)
{
	uint32_t node;

	for (node = 0; node < FAKE_NODES && pages; node++) {
		uint64_t n = mask >> node & 1 ? fake.free[node][class] : 0;

		if (n > pages)
			n = pages;
		if (!n)
			continue;
		fake.free[node][class] -= n;
		region->extents[region->count++] = (struct hugepin_extent){ .node = node, .class = class, .pages = n };
		pages -= n;
	}
	return !pages;
}

static int refuse(const struct hugepin_create *create, struct hugepin_shortfall shortfall, int err)
{
	if (create->shortfall)
		*(struct hugepin_shortfall *)(uintptr_t)create->shortfall = shortfall;
	return err;
}

static int make_file(int dir_fd, const struct hugepin_create *create)
{
	const char *name = (const char *)(uintptr_t)create->name;
	int fd;

	fd = name ? openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, create->mode ? create->mode : 0600) :
		    memfd_create("region", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)create->bytes))
		abort();
	return fd;
}

static int create(int dir_fd, struct hugepin_create *create)
{
	struct fake_region *region = &regions[region_count], before = { 0 };
	uint64_t mask = *(uint64_t *)(uintptr_t)create->nodemask, n_1g = 0, n_2m,
		 saved[FAKE_NODES][HUGEPIN_CLASS_COUNT];
	struct stat st;
	int fd;

	fake.create = *create;
	fake.create_nodes = mask;
	fake.create_name[0] = '\0';
	if (create->name)
		snprintf(fake.create_name, sizeof(fake.create_name), "%s", (const char *)(uintptr_t)create->name);
	fake.creates++;
	if (fake.create_err)
		return refuse(create, fake.shortfall, fake.create_err);
	*region = before;
	memcpy(saved, fake.free, sizeof(saved));
	if (create->classes & 1u << HUGEPIN_CLASS_1G)
		n_1g = create->classes & 1u << HUGEPIN_CLASS_2M ? create->bytes / HPI_1G :
		       (create->bytes + HPI_1G - 1) / HPI_1G;
	n_2m = n_1g * HPI_1G >= create->bytes ? 0 : (create->bytes - n_1g * HPI_1G + HPI_2M - 1) / HPI_2M;
	if (!take(region, mask, HUGEPIN_CLASS_1G, n_1g) || !take(region, mask, HUGEPIN_CLASS_2M, n_2m)) {
		memcpy(fake.free, saved, sizeof(saved));
		return refuse(create, (struct hugepin_shortfall){
			.reason = HUGEPIN_SHORT_FREE, .class = n_1g ? HUGEPIN_CLASS_1G : HUGEPIN_CLASS_2M,
			.node = HUGEPIN_NODE_ANY, .asked = n_1g ? n_1g : n_2m,
			.available = fake.free[0][n_1g ? HUGEPIN_CLASS_1G : HUGEPIN_CLASS_2M] }, -ENOMEM);
	}
	create->bytes = n_1g * HPI_1G + n_2m * HPI_2M;
	fd = make_file(dir_fd, create);
	if (fd < 0) {
		memcpy(fake.free, saved, sizeof(saved));
		return fd;
	}
	fstat(fd, &st);
	region->dev = st.st_dev;
	region->ino = st.st_ino;
	region->bytes = create->bytes;
	region->bytes_1g = n_1g * HPI_1G;
	region_count++;
	memcpy((void *)(uintptr_t)create->extents, region->extents, region->count * sizeof(region->extents[0]));
	create->nr_extents = region->count;
	create->fd = fd;
	return 0;
}

static int region_info(int fd, struct hugepin_region_info *info)
{
	struct stat st;
	size_t i;

	fstat(fd, &st);
	for (i = 0; i < region_count; i++) {
		const struct fake_region *region = &regions[i];

		if (region->ino != st.st_ino || region->dev != st.st_dev)
			continue;
		memcpy((void *)(uintptr_t)info->extents, region->extents, region->count * sizeof(region->extents[0]));
		info->nr_extents = region->count;
		info->bytes = region->bytes;
		info->bytes_1g = region->bytes_1g;
		return 0;
	}
	return -ENOTTY;
}

/* ---- LIST and USERS ---- */

static int list(struct hugepin_list *list)
{
	struct hugepin_list_entry *entries = (void *)(uintptr_t)list->entries;
	struct hugepin_extent *extents = (void *)(uintptr_t)list->extents;
	uint32_t room = list->nr_entries < 2 ? list->nr_entries : 2, count = 0, used = 0;
	size_t i;

	fake.lists++;
	for (i = list->cursor; i < region_count && count < room; i++) {
		const struct fake_region *region = &regions[i];
		struct hugepin_list_entry *entry = &entries[count++];

		*entry = (struct hugepin_list_entry){
			.id = i + 1, .dev = region->dev, .ino = region->ino, .bytes = region->bytes,
			.bytes_1g = region->bytes_1g, .created_ns = 1000 + i, .used_ns = 2000 + i, .mappings = 3, .opens = 4,
			.held_bytes = HPI_2M, .refs = 5, .charged_uid = 1000, .uid = 1001, .gid = 1002, .mode = 0100640,
			.flags = i ? HUGEPIN_LIST_NAMED : 0, .nr_extents = region->count, .first_extent = used,
		};
		if (i)
			snprintf(entry->path, sizeof(entry->path), "name%zu", i);
		memcpy(extents + used, region->extents, region->count * sizeof(*extents));
		used += region->count;
	}
	list->nr_entries = count;
	list->nr_extents = used;
	list->cursor = i < region_count ? i : 0;
	return 0;
}

static int users(struct hugepin_users *users)
{
	struct hugepin_user_entry *entries = (void *)(uintptr_t)users->entries;

	entries[0] = (struct hugepin_user_entry){
		.uid = 1000 + (uint32_t)users->cursor, .depth = (uint32_t)users->cursor, .held = { 7, 2 },
		.quarantined = { 1, 0 }, .pinned = 4096,
	};
	users->nr_entries = 1;
	users->cursor = users->cursor ? 0 : 1;
	return 0;
}

/* ---- PIN and EXPORT ---- */

static bool is_memfd(int fd, const char *name)
{
	char link[64], path[128], want[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	snprintf(want, sizeof(want), "/memfd:%s", name);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return false;
	path[length] = '\0';
	return !strncmp(path, want, strlen(want));
}

unsigned int fake_pins_open(void)
{
	unsigned int count = 0;
	int fd;

	for (fd = 0; fd < 256; fd++)
		count += is_memfd(fd, "pin");
	return count;
}

static int pin(struct hugepin_pin_range *pin)
{
	pthread_mutex_lock(&lock);
	fake.pin = *pin;
	fake.pins++;
	pthread_mutex_unlock(&lock);
	if (fake.pin_interrupts && fake.pin_interrupts--)
		return -EINTR;
	if (fake.pin_err) {
		pin->held = fake.pin_held;
		pin->limit = fake.pin_limit;
		return fake.pin_err;
	}
	pin->fd = memfd_create("pin", MFD_CLOEXEC);
	return pin->fd < 0 ? -errno : 0;
}

static int export(struct hugepin_export *export)
{
	fake.export = *export;
	if (fake.export_err)
		return fake.export_err;
	export->fd = memfd_create("dmabuf", MFD_CLOEXEC);
	return export->fd < 0 ? -errno : 0;
}

int __wrap_hpi_sys_ioctl(int fd, unsigned long request, void *arg)
{
	bool known = device >= 0 && ((same_file(fd, device) && !fake.device_is_dumb) || in_mount(fd));

	if (request == HUGEPIN_IOC_REGION_INFO)
		return region_info(fd, arg);
	if (known && request == HUGEPIN_IOC_INFO)
		return info(arg);
	if (known && request == HUGEPIN_IOC_CREATE)
		return create(fd, arg);
	if (known && fake.can_list && request == HUGEPIN_IOC_LIST)
		return fake.list_err ? fake.list_err : list(arg);
	if (known && fake.can_list && request == HUGEPIN_IOC_USERS && !in_mount(fd))
		return fake.list_err ? fake.list_err : users(arg);
	if (known && request == HUGEPIN_IOC_PIN && fake.features & HUGEPIN_FEATURE_PIN)
		return pin(arg);
	if ((is_memfd(fd, "pin") || is_memfd(fd, "region")) && request == HUGEPIN_IOC_EXPORT)
		return export(arg);
	return __real_hpi_sys_ioctl(fd, request, arg);
}

/* ---- contexts ---- */

void fake_topology(struct hugepin_context *ctx, unsigned int count)
{
	struct hpi_topology *t = &ctx->topology;
	unsigned int i, j;

	hpi_topology_free(t);
	*t = (struct hpi_topology){ .count = count, .memory_bytes = HPI_GIB(64), .limit_bytes = HPI_GIB(64) };
	t->nodes = calloc(count, sizeof(*t->nodes));
	t->distances = calloc(count, count);
	if (!t->nodes || !t->distances)
		abort();
	for (i = 0; i < count; i++) {
		t->nodes[i] = (struct hpi_node){ .id = i, .has_memory = true, .has_cpus = true, .allowed = true,
						 .memory_bytes = HPI_GIB(64) / count };
		for (j = 0; j < count; j++)
			t->distances[i * count + j] = i == j ? 10 : 20;
	}
}

static void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s\n", hugepin_error());
	abort();
}

struct hugepin_context *fake_context(const char *key, ...)
{
	struct hugepin_options *options;
	struct hugepin_context *ctx;
	va_list args;

	must(hugepin_options_create(&options));
	if (fake.mount[0])
		must(hugepin_options_set(options, "mount", fake.mount));
	va_start(args, key);
	for (; key; key = va_arg(args, const char *))
		must(hugepin_options_set(options, key, va_arg(args, const char *)));
	va_end(args);
	must(hugepin_context_create(options, &ctx));
	hugepin_options_destroy(options);
	return ctx;
}
