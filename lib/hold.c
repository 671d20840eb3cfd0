// SPDX-License-Identifier: MIT
/*
 * Ranges of the program's own memory that are held: pinned by the module, or locked by mlock() where there is none.
 *
 * The kernel counts neither locks nor who wanted them: one munlock() lets go of a page however often it was locked. So
 * the locked ranges of the whole process are listed here, and only what no other of them covers is unlocked.
 *
 * Fork: locks are not inherited, and a pin's descriptor is closed in the child, which would hold the memory for as long
 * as it lives. (A child made by a raw clone() runs no handlers and keeps it until it ends or executes another program.)
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../kmod/uapi/hugepin.h"
#include "internal.h"

struct hpi_hold {
	struct hpi_hold *next;
	char *addr;
	uint64_t bytes;
	int fd;				/* the module's pin; -1: locked */
	bool by_address;		/* ended by hpi_hold_end_at(), nobody has the pointer */
	bool inherited;			/* its parent's: here it holds nothing, and is not listed */
};

static pthread_mutex_t holds_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hpi_hold *holds;			/* under holds_lock */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* ---- fork ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&holds_lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&holds_lock);
}

static void after_fork_child(void)
{
	struct hpi_hold *hold, *next;

	for (hold = holds; hold; hold = next) {
		next = hold->next;
		hpi_sys_close(hold->fd);
		hold->fd = -1;
		hold->inherited = true;
		if (hold->by_address)
			free(hold);
	}
	holds = NULL;
	pthread_mutex_unlock(&holds_lock);
}

static void watch_fork(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- the list ---- */

static struct hpi_hold *hold_make(void *addr, uint64_t bytes, bool by_address)
{
	struct hpi_hold *hold = calloc(1, sizeof(*hold));

	if (!hold) {
		hpi_error(-ENOMEM, "holding %llu bytes at %p: no memory for %zu bytes", (unsigned long long)bytes, addr,
			  sizeof(*hold));
		return NULL;
	}
	*hold = (struct hpi_hold){ .addr = addr, .bytes = bytes, .fd = -1, .by_address = by_address };
	pthread_once(&fork_once, watch_fork);
	return hold;
}

static void list_add(struct hpi_hold *hold)
{
	pthread_mutex_lock(&holds_lock);
	hold->next = holds;
	holds = hold;
	pthread_mutex_unlock(&holds_lock);
}

/* Lock held. */
static void list_remove(struct hpi_hold *hold)
{
	struct hpi_hold **link;

	for (link = &holds; *link != hold; link = &(*link)->next)
		;
	*link = hold->next;
}

/* The end of the locked range that covers @at (@covered), else where the next one begins, at most @end. Lock held. */
static char *next_border(const struct hpi_hold *leaving, char *at, char *end, bool *covered)
{
	const struct hpi_hold *hold;

	*covered = false;
	for (hold = holds; hold; hold = hold->next) {
		if (hold == leaving || hold->fd >= 0 || hold->addr + hold->bytes <= at)
			continue;
		if (hold->addr <= at) {
			*covered = true;
			return hold->addr + hold->bytes < end ? hold->addr + hold->bytes : end;
		}
		if (hold->addr < end)
			end = hold->addr;
	}
	return end;
}

/* Unlocks what only @hold covers. What is not mapped any more is not locked either. Lock held. */
static int unlock(const struct hpi_hold *hold)
{
	char *at = hold->addr, *end = hold->addr + hold->bytes, *border;
	bool covered;
	int err;

	for (; at < end; at = border) {
		border = next_border(hold, at, end, &covered);
		err = covered ? 0 : hpi_sys_munlock(at, (uint64_t)(border - at));
		if (err && err != -ENOMEM)
			return err;
	}
	return 0;
}

/* Lock held; frees @hold on success. Sets no text: a caller may have one already. */
static int end_locked(struct hpi_hold *hold)
{
	int err = hold->fd < 0 ? unlock(hold) : 0;

	if (err)
		return err;
	list_remove(hold);
	hpi_sys_close(hold->fd);
	free(hold);
	return 0;
}

/* ---- the limit on locked memory ---- */

static bool may_raise;		/* some context's option says so; atomic */

void hpi_hold_may_raise(void)
{
	__atomic_store_n(&may_raise, true, __ATOMIC_RELAXED);
}

/* To be called when a request was over the limit. True: it is higher now. */
static bool raise_limit(void)
{
	struct rlimit limit;

	if (!__atomic_load_n(&may_raise, __ATOMIC_RELAXED) || getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == limit.rlim_max)
		return false;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return false;
	hpi_log(HUGEPIN_LOG_INFO, "raised this process's soft limit on locked memory to its hard limit");
	return true;
}

/* ---- pins ---- */

static int refuse_pin(const struct hugepin_pin_range *pin, int err)
{
	unsigned long long bytes = pin->bytes;
	void *addr = (void *)(uintptr_t)pin->addr;

	switch (err) {
	case -EDQUOT:
		return hpi_error(err, "pinning %llu bytes at %p: this user has pinned %llu already and the limit is "
				 "%llu; raise memlock (ulimit -l, LimitMEMLOCK= of the unit)", bytes, addr,
				 (unsigned long long)pin->held, (unsigned long long)pin->limit);
	case -EFAULT:
		return hpi_error(err, "pinning %llu bytes at %p: part of it is not mapped for writing", bytes, addr);
	case -ENOTTY:
		return hpi_error(-EOPNOTSUPP, "pinning %llu bytes at %p: this module pins nothing", bytes, addr);
	case -EBUSY:
		return hpi_error(err, "pinning %llu bytes at %p: a page cannot be moved to where it may stay", bytes,
				 addr);
	default:
		return hpi_error(err, "pinning %llu bytes at %p: %s", bytes, addr, strerror(-err));
	}
}

int hpi_hold_pin(int device_fd, void *addr, uint64_t bytes, bool by_address, struct hpi_hold **out)
{
	struct hugepin_pin_range pin = { .size = sizeof(pin), .addr = (uintptr_t)addr, .bytes = bytes };
	struct hpi_hold *hold = hold_make(addr, bytes, by_address);
	int err;

	if (!hold)
		return -ENOMEM;
	do	/* a fatal signal alone ends it, but older modules may know more */
		err = hpi_sys_ioctl(device_fd, HUGEPIN_IOC_PIN, &pin);
	while (err == -EINTR || (err == -EDQUOT && raise_limit()));
	if (err) {
		free(hold);
		return refuse_pin(&pin, err);
	}
	hold->fd = pin.fd;
	list_add(hold);
	*out = hold;
	return 0;
}

/* ---- locks ---- */

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

static bool has_hole(const char *addr, uint64_t bytes)
{
	uint64_t piece = 4096 * (uint64_t)sysconf(_SC_PAGESIZE), now;
	unsigned char resident[4096];

	for (; bytes; addr += now, bytes -= now) {
		now = bytes < piece ? bytes : piece;
		if (mincore((void *)addr, now, resident) && errno == ENOMEM)
			return true;
	}
	return false;
}

/* Undoes what a failed mlock() has done: it locks what lies before a hole. @before: what is locked without. */
static bool undo_lock(const struct hpi_hold *hold, uint64_t *before)
{
	uint64_t after = locked_bytes();

	pthread_mutex_lock(&holds_lock);
	unlock(hold);
	pthread_mutex_unlock(&holds_lock);
	*before = locked_bytes();
	return after > *before;
}

/*
 * Of mlock()'s errors those that are the limit's: then it has locked nothing, while before a hole, or where pages
 * cannot be made resident, it has.
 */
static bool is_over_limit(const struct hpi_hold *hold, int err, uint64_t *before)
{
	bool did_some = undo_lock(hold, before);
	struct rlimit limit;

	if ((err != -ENOMEM && err != -EPERM) || *before == UINT64_MAX || getrlimit(RLIMIT_MEMLOCK, &limit))
		return false;
	return limit.rlim_cur != RLIM_INFINITY && *before + hold->bytes > limit.rlim_cur && !did_some &&
	       !has_hole(hold->addr, hold->bytes);
}

static int refuse_lock(const struct hpi_hold *hold, int err, bool over, uint64_t before)
{
	unsigned long long asked = hold->bytes;
	struct rlimit limit;

	/* ENOMEM is the limit, or a hole in the range; EPERM a limit of 0. */
	if (err != -ENOMEM && err != -EPERM && err != -EAGAIN)
		return hpi_error(-EIO, "mlock of %llu bytes: %s", asked, strerror(-err));
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || before == UINT64_MAX)
		return hpi_error(-ENOMEM, "mlock of %llu bytes: %s", asked, strerror(-err));
	if (over)
		return hpi_error(-EDQUOT, "mlock of %llu bytes: %llu are locked already and the limit is %llu; raise "
				 "memlock (ulimit -l, LimitMEMLOCK= of the unit)", asked, (unsigned long long)before,
				 (unsigned long long)limit.rlim_cur);
	return hpi_error(err == -EAGAIN ? -ENOMEM : -EFAULT, "mlock of %llu bytes: %s: the range has a hole or cannot be "
			 "made resident; %llu were locked before", asked, strerror(-err), (unsigned long long)before);
}

int hpi_hold_lock(void *addr, uint64_t bytes, bool by_address, struct hpi_hold **out)
{
	struct hpi_hold *hold = hold_make(addr, bytes, by_address);
	uint64_t before = 0;
	bool over;
	int err;

	if (!hold)
		return -ENOMEM;
	/* Listed before it is locked: a neighbour that ends meanwhile leaves these pages locked. */
	list_add(hold);
	err = hpi_sys_mlock(addr, bytes);
	over = err && is_over_limit(hold, err, &before);
	if (over && raise_limit()) {
		err = hpi_sys_mlock(addr, bytes);
		over = err && is_over_limit(hold, err, &before);
	}
	if (!err) {
		*out = hold;
		return 0;
	}
	err = refuse_lock(hold, err, over, before);
	pthread_mutex_lock(&holds_lock);
	for (; end_locked(hold); hold->bytes = 0)	/* what cannot be unlocked is not ours to keep listed */
		;
	pthread_mutex_unlock(&holds_lock);
	return err;
}

/* ---- the end ---- */

static int answer(int err, const void *addr, uint64_t bytes)
{
	return err ? hpi_error(-EIO, "munlock of %llu bytes at %p: %s", (unsigned long long)bytes, addr, strerror(-err)) : 0;
}

bool hpi_hold_is_pin(const struct hpi_hold *hold)
{
	return hold->fd >= 0;
}

int hpi_hold_fd(const struct hpi_hold *hold)
{
	return hold->fd;
}

int hpi_hold_end(struct hpi_hold *hold)
{
	const char *addr = hold->addr;
	uint64_t bytes = hold->bytes;
	int err;

	if (hold->inherited) {
		free(hold);
		return 0;
	}
	pthread_mutex_lock(&holds_lock);
	err = end_locked(hold);
	pthread_mutex_unlock(&holds_lock);
	return answer(err, addr, bytes);
}

int hpi_hold_end_at(void *addr, uint64_t bytes)
{
	struct hpi_hold *hold;
	int err;

	pthread_mutex_lock(&holds_lock);
	for (hold = holds; hold; hold = hold->next)
		if (hold->by_address && hold->addr == addr && hold->bytes == bytes)
			break;
	err = hold ? end_locked(hold) : 0;
	pthread_mutex_unlock(&holds_lock);
	if (!hold)
		return hpi_error(-ENOENT, "%llu bytes at %p are not held", (unsigned long long)bytes, addr);
	return answer(err, addr, bytes);
}
