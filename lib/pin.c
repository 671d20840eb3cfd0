// SPDX-License-Identifier: MIT
/* Pinned ranges as the caller's objects, and dma-bufs of them and of regions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kmod/uapi/hugepin.h"
#include "internal.h"

struct hugepin_pin {
	struct hugepin_context *ctx;
	struct hpi_hold *hold;
	uint64_t bytes;
	bool kmod;			/* what it was made as: a child's has lost its descriptor */
};

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- pinning ---- */

static int check_range(const void *addr, uint64_t bytes, unsigned int flags)
{
	unsigned long long length = bytes, page = page_bytes();

	if (flags & ~HUGEPIN_PIN_NEED_KMOD)
		return hpi_error(-EINVAL, "pinning: unknown flags %#x", flags & ~HUGEPIN_PIN_NEED_KMOD);
	if (!bytes || (bytes | (uintptr_t)addr) % page)
		return hpi_error(-EINVAL, "pinning %llu bytes at %p: not whole pages of %llu bytes", length, addr, page);
	if ((uintptr_t)addr > UINTPTR_MAX - bytes)
		return hpi_error(-EOVERFLOW, "pinning %llu bytes at %p: the range wraps", length, addr);
	return 0;
}

static int hold(struct hugepin_context *ctx, void *addr, uint64_t bytes, unsigned int flags, struct hpi_hold **out)
{
	int err;

	if (ctx->can_pin)
		return hpi_hold_pin(ctx->device_fd, addr, bytes, false, out);
	if (flags & HUGEPIN_PIN_NEED_KMOD) {
		if (ctx->device_fd >= 0)
			return hpi_error(-EOPNOTSUPP, "pinning: the hugepin module here is one that pins nothing");
		return hpi_error(-EOPNOTSUPP, "pinning needs " HUGEPIN_DEVICE ", which %s",
				 ctx->module_err == -EACCES ? "this process may not open" : "is not here");
	}
	err = hpi_hold_lock(addr, bytes, false, out);
	return err == -EIO ? hpi_error_add(-EFAULT, ": pinning without the module") : err;
}

int hugepin_pin_range(struct hugepin_context *ctx, void *addr, uint64_t bytes, unsigned int flags,
		      struct hugepin_pin **out)
{
	struct hugepin_pin *pin;
	int err;

	err = hpi_context_check(ctx);
	if (!err)
		err = check_range(addr, bytes, flags);
	if (err)
		return err;
	pin = calloc(1, sizeof(*pin));
	if (!pin)
		return hpi_error(-ENOMEM, "pinning: no memory for a handle of %zu bytes", sizeof(*pin));
	err = hold(ctx, addr, bytes, flags, &pin->hold);
	if (err) {
		free(pin);
		return err;
	}
	pin->ctx = ctx;
	pin->bytes = bytes;
	pin->kmod = hpi_hold_is_pin(pin->hold);
	__atomic_fetch_add(&ctx->objects, 1, __ATOMIC_RELAXED);
	*out = pin;
	return 0;
}

void hugepin_pin_release(struct hugepin_pin *pin)
{
	if (!pin)
		return;
	if (hpi_hold_end(pin->hold))
		hpi_log(HUGEPIN_LOG_ERROR, "a pinned range stays locked: %s", hugepin_error());
	__atomic_fetch_sub(&pin->ctx->objects, 1, __ATOMIC_RELAXED);
	free(pin);
}

enum hugepin_pin_kind hugepin_pin_kind(const struct hugepin_pin *pin)
{
	return pin->kmod ? HUGEPIN_PIN_KMOD : HUGEPIN_PIN_LOCKED;
}

/* ---- dma-bufs ---- */

int hpi_pin_export(int fd, uint64_t whole, uint64_t unit, uint64_t offset, uint64_t bytes)
{
	struct hugepin_export export = { .size = sizeof(export), .offset = offset, .bytes = bytes };
	unsigned long long at = offset, length = bytes;
	int err;

	if (offset % unit || bytes % unit)
		return hpi_error(-EINVAL, "exporting: offset %llu and length %llu must be multiples of %llu", at, length,
				 (unsigned long long)unit);
	if (offset >= whole || bytes > whole - offset)
		return hpi_error(-EINVAL, "exporting: %llu bytes at offset %llu are not within the %llu there are", length,
				 at, (unsigned long long)whole);
	err = hpi_sys_ioctl(fd, HUGEPIN_IOC_EXPORT, &export);
	if (err == -ENOTTY)
		return hpi_error(-EOPNOTSUPP, "exporting: this module makes no dma-bufs");
	if (err == -EBADF)
		return hpi_error(-EACCES, "exporting: this process may only read the region");
	if (err)
		return hpi_error(err, "exporting %llu bytes at offset %llu: %s", length, at, strerror(-err));
	return export.fd;
}

int hugepin_pin_export(const struct hugepin_pin *pin, uint64_t offset, uint64_t bytes)
{
	int err = hpi_context_check(pin->ctx);

	if (err)
		return err;
	if (!pin->kmod)
		return hpi_error(-EOPNOTSUPP, "exporting: the range is locked by mlock(), not pinned by the module");
	return hpi_pin_export(hpi_hold_fd(pin->hold), pin->bytes, page_bytes(), offset, bytes);
}
