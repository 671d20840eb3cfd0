// SPDX-License-Identifier: MIT
/*
 * Contexts: the options in force checked against this machine, and what all pools and regions made from them share.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kmod/uapi/hugepin.h"
#include "internal.h"

/* ---- fork ---- */

/*
 * A page that the kernel wipes in every child, also one made by a raw clone() that runs no fork handlers. Where that
 * cannot be had hpi_context_is_child() asks getpid(): right, but a system call for every block.
 */
static uint32_t *fork_mark_make(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page;

	if (hpi_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &page))
		return NULL;
	if (hpi_sys_madvise(page, bytes, MADV_WIPEONFORK)) {
		hpi_sys_munmap(page, bytes);
		return NULL;
	}
	*(uint32_t *)page = HPI_FORK_MARK;
	return page;
}

bool hpi_context_is_child(const struct hugepin_context *ctx)
{
	if (ctx->fork_mark)
		return *(volatile uint32_t *)ctx->fork_mark != HPI_FORK_MARK;
	return getpid() != ctx->pid;
}

int hpi_context_check(const struct hugepin_context *ctx)
{
	if (!ctx)
		return hpi_error(-EINVAL, "the context is NULL");
	if (!hpi_context_is_child(ctx))
		return 0;
	return hpi_error(-EPERM, "process %d is a child of process %d, which made this context: make one of its own",
			 (int)getpid(), (int)ctx->pid);
}

/* ---- the module ---- */

static int open_mount(const char *path)
{
	uint64_t magic = 0;
	int fd = hpi_sys_open(path, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fd;
	if (hpi_sys_file_system(fd, &magic) || magic != HUGEPIN_FS_MAGIC) {
		hpi_sys_close(fd);
		return -ENODEV;
	}
	return fd;
}

/* What answers INFO is the module; a device that is something else is as good as none. */
static int read_module(struct hugepin_context *ctx, int fd, uint32_t *features)
{
	struct hugepin_info info = { .size = sizeof(info) };
	int err = hpi_sys_ioctl(fd, HUGEPIN_IOC_INFO, &info);

	if (err)
		return err;
	ctx->absent[HUGEPIN_PAGES_2M] = info.absent[HUGEPIN_CLASS_2M];
	ctx->absent[HUGEPIN_PAGES_1G] = info.absent[HUGEPIN_CLASS_1G];
	*features = info.features;
	return 0;
}

/* The device where one may be opened; the mount for names, and where a container has nothing else. None is no error. */
static void open_module(struct hugepin_context *ctx)
{
	const char *mount = hpi_options_string(ctx->options, HPI_OPT_MOUNT);
	int fds[] = { hpi_sys_open(HUGEPIN_DEVICE, O_RDWR, 0), open_mount(mount) }, i, err;
	uint32_t features[] = { 0, 0 };

	ctx->module_err = fds[0] == -EACCES || fds[0] == -EPERM || fds[1] == -EACCES ? -EACCES : -ENODEV;
	for (i = 0; i < 2; i++) {
		err = fds[i] < 0 ? fds[i] : read_module(ctx, fds[i], &features[i]);
		if (!err)
			continue;
		hpi_log(HUGEPIN_LOG_DEBUG, "%s: %s", i ? mount : HUGEPIN_DEVICE, strerror(-err));
		hpi_sys_close(fds[i]);
		fds[i] = -1;
	}
	ctx->device_fd = fds[0];
	ctx->mount_fd = fds[1];
	ctx->can_pin = features[0] & HUGEPIN_FEATURE_PIN;
}

int hpi_context_module_fd(const struct hugepin_context *ctx)
{
	const char *mount = hpi_options_string(ctx->options, HPI_OPT_MOUNT);

	if (ctx->device_fd >= 0)
		return ctx->device_fd;
	if (ctx->mount_fd >= 0)
		return ctx->mount_fd;
	if (ctx->module_err == -EACCES)
		return hpi_error(-EACCES, "the hugepin module: this process may open neither " HUGEPIN_DEVICE " nor %s",
				 mount);
	return hpi_error(-ENODEV, "the hugepin module is not here: no " HUGEPIN_DEVICE ", no hugepinfs at %s", mount);
}

/* ---- making and ending ---- */

static int take_options(const struct hugepin_options *options, struct hugepin_options **out)
{
	struct hugepin_options *fresh;
	int err;

	if (options)
		return hpi_options_copy(options, out);
	err = hugepin_options_create(&fresh);
	if (err)
		return err;
	err = hugepin_options_load_environment(fresh);
	if (err) {
		hugepin_options_destroy(fresh);
		return err;
	}
	*out = fresh;
	return 0;
}

static int check_options(const struct hugepin_context *ctx)
{
	const char *text = hpi_options_string(ctx->options, HPI_OPT_NODE_POLICY);
	struct hpi_policy policy;
	int err, device;

	if (hpi_policy_is_device(text, &device))	/* found when a pool is made: the runtime may not be up yet */
		return 0;
	err = hpi_policy_parse(text, &ctx->topology, &policy);
	return err ? hpi_error_add(err, ", option node_policy, set by %s",
				   hpi_options_source(ctx->options, HPI_OPT_NODE_POLICY)) : 0;
}

static int find_runtime(struct hugepin_context *ctx)
{
	int err = hpi_runtime_find(hpi_options_string(ctx->options, HPI_OPT_RUNTIME), &ctx->runtime);

	return err ? hpi_error_add(err, ", option runtime, set by %s",
				   hpi_options_source(ctx->options, HPI_OPT_RUNTIME)) : 0;
}

static void context_free(struct hugepin_context *ctx)
{
	hpi_sys_close(ctx->device_fd);
	hpi_sys_close(ctx->mount_fd);
	hpi_poller_destroy(ctx);
	hpi_fences_destroy(ctx);
	if (ctx->registry)
		hpi_registry_destroy(ctx->registry);
	if (ctx->fork_mark)
		hpi_sys_munmap(ctx->fork_mark, (uint64_t)sysconf(_SC_PAGESIZE));
	hpi_topology_free(&ctx->topology);
	hugepin_options_destroy(ctx->options);
	free(ctx);
}

int hugepin_context_create(const struct hugepin_options *options, struct hugepin_context **out)
{
	struct hugepin_context *ctx = calloc(1, sizeof(*ctx));
	int err;

	if (!ctx)
		return hpi_error(-ENOMEM, "no memory for a context of %zu bytes", sizeof(*ctx));
	ctx->device_fd = ctx->mount_fd = -1;
	ctx->pid = getpid();
	err = take_options(options, &ctx->options);
	if (!err)
		err = hpi_topology_read("", &ctx->topology);
	if (!err)
		err = check_options(ctx);
	if (!err)
		err = find_runtime(ctx);
	if (!err)
		err = hpi_registry_create(&ctx->registry);
	if (!err)
		err = hpi_fences_create(ctx);
	if (!err)
		err = hpi_poller_create(ctx);
	if (err) {
		context_free(ctx);
		return err;
	}
	if (hpi_options_bool(ctx->options, HPI_OPT_RAISE_MEMLOCK))
		hpi_hold_may_raise();
	pthread_mutex_init(&ctx->pools_lock, NULL);
	ctx->fork_mark = fork_mark_make();
	open_module(ctx);
	*out = ctx;
	return 0;
}

int hugepin_context_destroy(struct hugepin_context *ctx)
{
	unsigned int objects;

	if (!ctx)
		return 0;
	objects = __atomic_load_n(&ctx->objects, __ATOMIC_RELAXED);
	if (objects)
		return hpi_error(-EBUSY, "the context has %u pools, regions and pins", objects);
	context_free(ctx);
	return 0;
}
