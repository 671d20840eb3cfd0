// SPDX-License-Identifier: MIT
/*
 * Runtime none: no accelerator. Registered memory is pinned by the module where that can be had, else locked, so that
 * it stays resident; the kernel may still move it.
 *
 * Regions and hugetlb memory cannot be swapped and are not charged when they are locked, but the kernel checks the
 * length against the limit before it looks at what is there; the caller's smaller chunks then pass.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../kmod/uapi/hugepin.h"
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

/* In a runtime's words; the code is the same number. */
static int answer(int err, int *code)
{
	if (err == -EFAULT)
		err = -EINVAL;
	*code = -err;
	return err;
}

static int lock_register(void *addr, uint64_t bytes, int *code)
{
	struct hpi_hold *hold;

	return answer(hpi_hold_lock(addr, bytes, true, &hold), code);
}

/* The device is opened for the call: a runtime has no context that could keep it, and is there for as long as the process. */
static int pin(void *addr, uint64_t bytes)
{
	struct hpi_hold *hold;
	int fd = hpi_sys_open(HUGEPIN_DEVICE, O_RDWR, 0), err;

	if (fd < 0)
		return hpi_error(fd, HUGEPIN_DEVICE ": %s", strerror(-fd));
	err = hpi_hold_pin(fd, addr, bytes, true, &hold);
	hpi_sys_close(fd);
	return err;
}

/* What the module does not pin, for a limit of its own perhaps, is locked as without it. */
static int pin_register(void *addr, uint64_t bytes, int *code)
{
	int err = pin(addr, bytes);

	*code = 0;
	if (!err)
		return 0;
	hpi_log(HUGEPIN_LOG_INFO, "%s; locking it instead", hugepin_error());
	return lock_register(addr, bytes, code);
}

static int host_unregister(void *addr, uint64_t bytes, int *code)
{
	int err = hpi_hold_end_at(addr, bytes);

	*code = -err;
	return err;
}

/* No device: memory is where the program sees it, and there is no work that a fence could wait for. */
static int device_pointer(void *addr, uint64_t *device_addr, int *code)
{
	*device_addr = (uintptr_t)addr;
	*code = 0;
	return 0;
}

static int fence_record(void *stream, struct hpi_fence **out, int *code)
{
	(void)stream;
	*out = NULL;
	*code = 0;
	return 0;
}

static int fence_query(struct hpi_fence *fence, int *code)
{
	(void)fence;
	*code = 0;
	return 0;
}

static void fence_end(struct hpi_fence *fence)
{
	(void)fence;
}

static bool is_capturing(void *stream)
{
	(void)stream;
	return false;
}

static int device_count(int *count, int *code)
{
	*count = *code = 0;
	return 0;
}

#define RUNTIME_NONE(register)		\
	.name = "none",			\
	.present = present,		\
	.load = load,			\
	.begin = begin,			\
	.enter = enter,			\
	.leave = leave,			\
	.end = end,			\
	.host_register = register,	\
	.host_unregister = host_unregister, \
	.device_pointer = device_pointer, \
	.fence_record = fence_record,	\
	.fence_query = fence_query,	\
	.fence_end = fence_end,		\
	.is_capturing = is_capturing,	\
	.device_count = device_count

const struct hpi_runtime hpi_runtime_none = { RUNTIME_NONE(lock_register) };
const struct hpi_runtime hpi_runtime_none_pinning = { RUNTIME_NONE(pin_register) };
