// SPDX-License-Identifier: MIT
/*
 * Runtime none: no accelerator. Registered memory is locked, so that it stays resident; the kernel may still move it.
 *
 * Regions and hugetlb memory cannot be swapped and are not charged when they are locked, but the kernel checks the
 * length against the limit before it looks at what is there; the caller's smaller chunks then pass.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "internal.h"

static bool present(void)
{
	return true;
}

static int load(void)
{
	return 0;
}

static int begin(struct hpi_runtime_scope *scope, int *code)
{
	*scope = (struct hpi_runtime_scope){ .device = -1 };
	*code = 0;
	return 0;
}

static int enter(struct hpi_runtime_scope *scope, struct hpi_runtime_thread *thread, int *code)
{
	(void)scope;
	*thread = (struct hpi_runtime_thread){ .pushed = false };
	*code = 0;
	return 0;
}

static void leave(struct hpi_runtime_thread *thread)
{
	(void)thread;
}

static void end(struct hpi_runtime_scope *scope)
{
	(void)scope;
}

/* Locked by this process so far; UINT64_MAX: the kernel does not say. */
static uint64_t locked_bytes(void)
{
	char text[32], *unit;
	uint64_t kib;

	if (hpi_sys_read_field("/proc/self/status", "VmLck:", text, sizeof(text)))
		return UINT64_MAX;
	unit = strchr(text, ' ');
	if (unit)
		*unit = '\0';
	return hpi_size_parse_uint(text, &kib) ? UINT64_MAX : kib << 10;
}

static int refuse(uint64_t bytes, int err)
{
	unsigned long long asked = bytes, locked = locked_bytes();
	struct rlimit limit;

	/* ENOMEM is the limit, or a hole in the range; EPERM a limit of 0. */
	if (err != -ENOMEM && err != -EPERM && err != -EAGAIN)
		return hpi_error(-EIO, "mlock of %llu bytes: %s", asked, strerror(-err));
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || locked == UINT64_MAX)
		return hpi_error(-ENOMEM, "mlock of %llu bytes: %s", asked, strerror(-err));
	if (limit.rlim_cur == RLIM_INFINITY || locked + asked <= limit.rlim_cur)
		return hpi_error(err == -EAGAIN ? -ENOMEM : -EINVAL,
				 "mlock of %llu bytes: %s; %llu are locked already, "
				 "which the limit allows: the range has a hole or cannot be made resident",
				 asked, strerror(-err), locked);
	return hpi_error(-ENOMEM, "mlock of %llu bytes: %llu are locked already and the limit is %llu; raise memlock "
			 "(ulimit -l, LimitMEMLOCK= of the unit)", asked, locked, (unsigned long long)limit.rlim_cur);
}

static int host_register(void *addr, uint64_t bytes, int *code)
{
	int err = hpi_sys_mlock(addr, bytes);

	*code = -err;
	if (!err)
		return 0;
	err = refuse(bytes, err);
	/* The kernel locks what lies before a hole. */
	hpi_sys_munlock(addr, bytes);
	return err;
}

static int host_unregister(void *addr, uint64_t bytes, int *code)
{
	int err = hpi_sys_munlock(addr, bytes);

	*code = -err;
	return err ? hpi_error(-EIO, "munlock of %llu bytes: %s", (unsigned long long)bytes, strerror(-err)) : 0;
}

const struct hpi_runtime hpi_runtime_none = {
	.name = "none",
	.present = present,
	.load = load,
	.begin = begin,
	.enter = enter,
	.leave = leave,
	.end = end,
	.host_register = host_register,
	.host_unregister = host_unregister,
};
