// SPDX-License-Identifier: MIT
/* Pinned ranges: by the module or locked, whose release lets go of what, refusals in words, dma-bufs, runtime none. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_module.h"
#include "internal.h"
#include "locked.h"

#define PAGE		4096
#define MEMORY_BYTES	HPI_MIB(8)

static struct hugepin_context *ctx;
static char *memory;
static uint64_t locked_before;

static int start(uint32_t features)
{
	fake_module_load();
	fake.features = features;
	ctx = fake_context("runtime", "none", NULL);
	memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	locked_before = locked_kib();
	return memory == MAP_FAILED ? -1 : 0;
}

static int with_module(void **state)
{
	(void)state;
	return start(HUGEPIN_FEATURE_PIN | HUGEPIN_FEATURE_DMABUF);
}

static int with_old_module(void **state)
{
	(void)state;
	return start(0);
}

static int stop(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	assert_int_equal(fake_pins_open(), 0);
	assert_int_equal(locked_kib(), locked_before);
	assert_int_equal(ctx->objects, 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	fake_module_unload();
	munmap(memory, MEMORY_BYTES);
	return 0;
}

static void assert_text(const char *part)
{
	if (!strstr(hugepin_error(), part))
		fail_msg("\"%s\" does not have \"%s\"", hugepin_error(), part);
}

static struct hugepin_pin *pin_range(char *addr, uint64_t bytes)
{
	struct hugepin_pin *pin = NULL;

	if (hugepin_pin_range(ctx, addr, bytes, 0, &pin))
		fail_msg("%s", hugepin_error());
	return pin;
}

/* ---- by the module ---- */

static void test_the_module_pins_what_is_asked(void **state)
{
	struct hugepin_pin *pin;

	(void)state;
	assert_int_equal(hugepin_pin_range(ctx, memory + PAGE, 3 * PAGE, HUGEPIN_PIN_NEED_KMOD, &pin), 0);
	assert_int_equal(hugepin_pin_kind(pin), HUGEPIN_PIN_KMOD);
	assert_int_equal(fake.pin.size, sizeof(fake.pin));
	assert_int_equal(fake.pin.addr, (uintptr_t)memory + PAGE);
	assert_int_equal(fake.pin.bytes, 3 * PAGE);
	assert_int_equal(fake.pin.flags, 0);
	assert_int_equal(fake.pin.pad, 0);
	assert_int_equal(fake_pins_open(), 1);
	assert_int_equal(locked_kib(), locked_before);
	hugepin_pin_release(pin);
	assert_int_equal(fake_pins_open(), 0);
	hugepin_pin_release(NULL);
}

static void test_bad_ranges_are_refused_before_the_module(void **state)
{
	const struct {
		char *addr;
		uint64_t bytes;
		unsigned int flags;
		int err;
	} bad[] = {
		{ memory, 0, 0, -EINVAL },
		{ memory, PAGE + 1, 0, -EINVAL },
		{ memory + 1, PAGE, 0, -EINVAL },
		{ memory, PAGE, 2, -EINVAL },
		{ memory, PAGE, ~0u, -EINVAL },
		{ memory, UINT64_MAX - PAGE + 1, 0, -EOVERFLOW },
		{ (char *)(UINTPTR_MAX - PAGE + 1), 2 * PAGE, 0, -EOVERFLOW },
	};
	struct hugepin_pin *untouched = (void *)memory, *pin = untouched;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(hugepin_pin_range(ctx, bad[i].addr, bad[i].bytes, bad[i].flags, &pin), bad[i].err);
		assert_text("pinning");
		assert_ptr_equal(pin, untouched);
	}
	assert_int_equal(hugepin_pin_range(NULL, memory, PAGE, 0, &pin), -EINVAL);
	assert_int_equal(fake.pins, 0);
}

static void test_the_modules_refusals_are_told_and_leave_nothing(void **state)
{
	static const struct {
		int refused, err;
		const char *text;
	} refusals[] = {
		{ -EDQUOT, -EDQUOT, "has pinned 6291456 already and the limit is 8388608; raise memlock" },
		{ -EFAULT, -EFAULT, "not mapped for writing" },
		{ -EBUSY, -EBUSY, "cannot be moved" },
		{ -ENOTTY, -EOPNOTSUPP, "pins nothing" },
		{ -ENOMEM, -ENOMEM, "Cannot allocate memory" },
		{ -EMFILE, -EMFILE, "Too many open files" },
	};
	struct hugepin_pin *pin = NULL;
	size_t i;

	(void)state;
	fake.pin_held = HPI_MIB(6);
	fake.pin_limit = HPI_MIB(8);
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		fake.pin_err = refusals[i].refused;
		assert_int_equal(hugepin_pin_range(ctx, memory, HPI_MIB(4), 0, &pin), refusals[i].err);
		assert_text("4194304 bytes");
		assert_text(refusals[i].text);
		assert_null(pin);
		/* nor is it locked in its place: what was asked for was said to be there */
		assert_int_equal(locked_kib(), locked_before);
		assert_int_equal(ctx->objects, 0);
	}
}

static void test_an_interrupted_pin_is_made_again(void **state)
{
	(void)state;
	fake.pin_interrupts = 3;
	hugepin_pin_release(pin_range(memory, PAGE));
	assert_int_equal(fake.pins, 4);
}

static void test_a_context_with_pins_is_not_destroyed(void **state)
{
	struct hugepin_pin *pin = pin_range(memory, PAGE);

	(void)state;
	assert_int_equal(hugepin_context_destroy(ctx), -EBUSY);
	assert_text("1 pools, regions and pins");
	hugepin_pin_release(pin);
}

/* ---- locked ---- */

static void test_without_a_module_that_pins_the_range_is_locked(void **state)
{
	struct hugepin_pin *pin;

	(void)state;
	pin = pin_range(memory, HPI_MIB(1));
	assert_int_equal(hugepin_pin_kind(pin), HUGEPIN_PIN_LOCKED);
	if (locking_works())
		assert_int_equal(locked_kib() - locked_before, 1024);
	assert_int_equal(hugepin_pin_export(pin, 0, 0), -EOPNOTSUPP);
	assert_text("mlock");
	hugepin_pin_release(pin);
	assert_int_equal(locked_kib(), locked_before);
}

static void test_who_needs_the_module_is_refused_without(void **state)
{
	struct hugepin_pin *pin = NULL;
	struct hugepin_context *with = ctx;

	(void)state;
	assert_int_equal(hugepin_pin_range(ctx, memory, PAGE, HUGEPIN_PIN_NEED_KMOD, &pin), -EOPNOTSUPP);
	assert_text("pins nothing");
	fake.device_err = -ENOENT;
	ctx = fake_context("runtime", "none", NULL);
	assert_int_equal(hugepin_pin_range(ctx, memory, PAGE, HUGEPIN_PIN_NEED_KMOD, &pin), -EOPNOTSUPP);
	assert_text("is not here");
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	fake.device_err = -EACCES;
	ctx = fake_context("runtime", "none", NULL);
	assert_int_equal(hugepin_pin_range(ctx, memory, PAGE, HUGEPIN_PIN_NEED_KMOD, &pin), -EOPNOTSUPP);
	assert_text("may not open");
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	assert_null(pin);
	ctx = with;
}

static void test_overlapping_locks_are_each_held_until_their_release(void **state)
{
	struct hugepin_pin *a, *b, *c, *d;

	(void)state;
	if (!locking_works())
		skip();
	a = pin_range(memory, 8 * PAGE);
	b = pin_range(memory + 4 * PAGE, 8 * PAGE);
	c = pin_range(memory + 6 * PAGE, PAGE);
	d = pin_range(memory, 8 * PAGE);		/* the same as a */
	assert_int_equal(locked_kib() - locked_before, 12 * 4);
	hugepin_pin_release(a);
	assert_int_equal(locked_kib() - locked_before, 12 * 4);
	hugepin_pin_release(d);
	assert_int_equal(locked_kib() - locked_before, 8 * 4);
	hugepin_pin_release(b);
	assert_int_equal(locked_kib() - locked_before, 4);
	d = pin_range(memory, 16 * PAGE);
	hugepin_pin_release(c);
	assert_int_equal(locked_kib() - locked_before, 16 * 4);
	a = pin_range(memory + 2 * PAGE, PAGE);
	b = pin_range(memory + 5 * PAGE, 2 * PAGE);
	hugepin_pin_release(d);				/* leaves islands */
	assert_int_equal(locked_kib() - locked_before, 3 * 4);
	hugepin_pin_release(b);
	hugepin_pin_release(a);
}

/* What is locked is what a model of pages and counts says, after any order of locking and letting go. */
static void test_any_order_of_locks_and_releases_adds_up(void **state)
{
	struct {
		struct hugepin_pin *pin;
		unsigned int first, count;
	} held[16] = { { NULL, 0, 0 } };
	unsigned int counts[64] = { 0 }, round, i, locked, seed = 7, at;

	(void)state;
	if (!locking_works())
		skip();
	for (round = 0; round < 2000; round++) {
		at = rand_r(&seed) % 16;
		if (held[at].pin) {
			hugepin_pin_release(held[at].pin);
			held[at].pin = NULL;
			for (i = 0; i < held[at].count; i++)
				counts[held[at].first + i]--;
		} else {
			held[at].first = rand_r(&seed) % 64;
			held[at].count = 1 + rand_r(&seed) % (64 - held[at].first);
			held[at].pin = pin_range(memory + held[at].first * PAGE, held[at].count * PAGE);
			for (i = 0; i < held[at].count; i++)
				counts[held[at].first + i]++;
		}
		for (i = locked = 0; i < 64; i++)
			locked += counts[i] > 0;
		assert_int_equal(locked_kib() - locked_before, locked * 4);
	}
	for (i = 0; i < 16; i++)
		hugepin_pin_release(held[i].pin);
}

static void test_a_range_may_be_unmapped_before_its_release(void **state)
{
	struct hugepin_pin *pin = pin_range(memory + HPI_MIB(4), HPI_MIB(1));

	(void)state;
	assert_int_equal(munmap(memory + HPI_MIB(4), HPI_MIB(1)), 0);
	hugepin_pin_release(pin);
	assert_int_equal(locked_kib(), locked_before);
}

static int fail_call_errno;
static const char *fail_call;

static int fail_one(const char *call)
{
	return strcmp(call, fail_call) ? 0 : fail_call_errno;
}

static void test_a_lock_that_fails_leaves_others_as_they_were(void **state)
{
	struct hugepin_pin *pin = pin_range(memory, 4 * PAGE), *other = NULL;
	uint64_t locked = locked_kib();

	(void)state;
	if (!locking_works()) {
		hugepin_pin_release(pin);
		skip();
	}
	munmap(memory + HPI_MIB(1), PAGE);	/* the kernel locks what lies before the hole */
	assert_int_equal(hugepin_pin_range(ctx, memory, HPI_MIB(2), 0, &other), -EFAULT);
	assert_text("hole");
	assert_int_equal(locked_kib(), locked);
	fail_call = "mlock";
	fail_call_errno = EAGAIN;
	hpi_sys_fault = fail_one;
	assert_int_equal(hugepin_pin_range(ctx, memory, 2 * PAGE, 0, &other), -ENOMEM);
	fail_call_errno = EIO;
	assert_int_equal(hugepin_pin_range(ctx, memory, 2 * PAGE, 0, &other), -EFAULT);
	hpi_sys_fault = NULL;
	assert_null(other);
	assert_int_equal(locked_kib(), locked);
	hugepin_pin_release(pin);
}

/* In a child, whose limits and user are its own: 0, 77 where that cannot be had, or the step that went wrong. */
static void in_a_child(int (*run)(void))
{
	int status;
	pid_t pid;

	if (geteuid() || !locking_works())
		skip();
	pid = fork();
	if (!pid)
		_exit(run());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static bool become_nobody(void)
{
	return !setgroups(0, NULL) && !setgid(65534) && !setuid(65534);
}

static const struct rlimit limit_2m = { HPI_MIB(2), HPI_MIB(2) };

/* Another user with a limit: what was asked, what is locked already, the limit and what to do. */
static int go_over_the_limit(void)
{
	struct hugepin_pin *pin = NULL;

	if (setrlimit(RLIMIT_MEMLOCK, &limit_2m) || !become_nobody())
		return 77;
	ctx = fake_context("runtime", "none", NULL);
	if (hugepin_pin_range(ctx, memory, HPI_MIB(1), 0, &pin))
		return 1;
	if (hugepin_pin_range(ctx, memory + HPI_MIB(1), HPI_MIB(4), 0, &pin) != -EDQUOT)
		return 2;
	if (!strstr(hugepin_error(), "4194304 bytes: 1048576 are locked already and the limit is 2097152") ||
	    !strstr(hugepin_error(), "memlock"))
		return 3;
	hugepin_pin_release(pin);
	return locked_kib() ? 4 : 0;
}

static void test_over_the_limit_tells_all_numbers(void **state)
{
	(void)state;
	in_a_child(go_over_the_limit);
}

static bool is_told_as_hole(char *addr, uint64_t bytes)
{
	struct hugepin_pin *pin = NULL;

	return hugepin_pin_range(ctx, addr, bytes, 0, &pin) == -EFAULT && strstr(hugepin_error(), "hole");
}

/* Some is locked before the hole is met, or the limit is not for this user: neither makes it the limit's doing. */
static int pin_holes(void)
{
	munmap(memory + HPI_MIB(1), PAGE);
	if (setrlimit(RLIMIT_MEMLOCK, &limit_2m))
		return 77;
	ctx = fake_context("runtime", "none", NULL);
	if (!is_told_as_hole(memory, HPI_MIB(4)))
		return 1;
	if (!is_told_as_hole(memory + HPI_MIB(1), HPI_MIB(4)))
		return 2;
	if (mprotect(memory + HPI_MIB(2), HPI_MIB(3), PROT_NONE) || !is_told_as_hole(memory + HPI_MIB(2), HPI_MIB(3)))
		return 3;	/* root's, and cannot be made resident */
	if (!become_nobody())
		return 77;
	if (!is_told_as_hole(memory, HPI_MIB(2)))
		return 4;
	return locked_kib() ? 5 : 0;
}

static void test_a_hole_is_not_told_as_the_limit(void **state)
{
	(void)state;
	in_a_child(pin_holes);
}

static void *pin_and_release(void *arg)
{
	unsigned int seed = (uintptr_t)arg, round, at;
	struct hugepin_pin *pin;

	for (round = 0; round < 300; round++) {
		at = rand_r(&seed) % 64;
		if (hugepin_pin_range(ctx, memory + at * PAGE, (1 + rand_r(&seed) % 64) * PAGE, 0, &pin))
			return arg;
		hugepin_pin_release(pin);
	}
	return NULL;
}

static void test_threads_may_pin_the_same_memory(void **state)
{
	pthread_t threads[4];
	void *result;
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pin_and_release, (void *)(i + 1)), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	assert_int_equal(locked_kib(), locked_before);
}

/* ---- fork ---- */

static void test_a_child_has_nothing_of_its_parents_pins(void **state)
{
	struct hugepin_pin *pin = pin_range(memory, 4 * PAGE), *other = NULL;
	uint64_t locked = locked_kib();
	unsigned int open = fake_pins_open();
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		if (fake_pins_open() || hugepin_pin_range(ctx, memory, PAGE, 0, &other) != -EPERM)
			_exit(1);
		if (hugepin_pin_export(pin, 0, 0) != -EPERM)
			_exit(2);
		hugepin_pin_release(pin);
		/* what the child pins is its own */
		ctx = fake_context("runtime", "none", NULL);
		if (hugepin_pin_range(ctx, memory, PAGE, 0, &other))
			_exit(3);
		hugepin_pin_release(other);
		_exit(locked_kib() || fake_pins_open() || hugepin_context_destroy(ctx) ? 4 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(locked_kib(), locked);
	assert_int_equal(fake_pins_open(), open);
	hugepin_pin_release(pin);
}

/* ---- dma-bufs ---- */

static void test_a_pinned_range_is_exported(void **state)
{
	struct hugepin_pin *pin = pin_range(memory, 8 * PAGE);
	int fd = hugepin_pin_export(pin, 2 * PAGE, 3 * PAGE);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fake.export.size, sizeof(fake.export));
	assert_int_equal(fake.export.offset, 2 * PAGE);
	assert_int_equal(fake.export.bytes, 3 * PAGE);
	hugepin_pin_release(pin);
	assert_int_equal(close(fd), 0);		/* the caller's */
}

static void test_a_region_is_exported(void **state)
{
	struct hugepin_region_request r = { .size = sizeof(r), .bytes = 3 * HPI_2M };
	struct hugepin_region *region;
	int fd;

	(void)state;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	fd = hugepin_region_export(region, HPI_2M, 0);
	assert_true(fd >= 0);
	assert_int_equal(fake.export.offset, HPI_2M);
	assert_int_equal(fake.export.bytes, 0);
	assert_int_equal(hugepin_region_export(region, PAGE, 0), -EINVAL);
	assert_text("multiples of 2097152");
	hugepin_region_close(region);
	assert_int_equal(close(fd), 0);
}

static void test_bad_exports_are_refused(void **state)
{
	struct hugepin_pin *pin = pin_range(memory, 8 * PAGE);
	static const struct {
		uint64_t offset, bytes;
		int refused, err;
		const char *text;
	} bad[] = {
		{ 1, 0, 0, -EINVAL, "multiples of 4096" },
		{ 0, 100, 0, -EINVAL, "multiples of 4096" },
		{ 8 * PAGE, 0, 0, -EINVAL, "not within the 32768" },
		{ 0, 9 * PAGE, 0, -EINVAL, "not within" },
		{ 4 * PAGE, UINT64_MAX - PAGE + 1, 0, -EINVAL, "not within" },
		{ 0, 0, -ENOTTY, -EOPNOTSUPP, "makes no dma-bufs" },
		{ 0, 0, -EBADF, -EACCES, "only read" },
		{ 0, 0, -EMFILE, -EMFILE, "Too many open files" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fake.export_err = bad[i].refused;
		assert_int_equal(hugepin_pin_export(pin, bad[i].offset, bad[i].bytes), bad[i].err);
		assert_text(bad[i].text);
	}
	hugepin_pin_release(pin);
}

/* ---- runtime none ---- */

static void test_runtime_none_pins_by_the_module(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	assert_int_equal(fake_pins_open(), 1);
	assert_int_equal(fake.pin.bytes, HPI_MIB(4));
	assert_int_equal(locked_kib(), locked_before);
	/* the same range, pinned by its owner as well, is apart */
	hugepin_pin_release(pin_range(memory, HPI_MIB(4)));
	assert_int_equal(fake_pins_open(), 1);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
	assert_int_equal(fake_pins_open(), 0);
}

static void test_runtime_none_does_not_pin_the_modules_own_memory(void **state)
{
	struct hpi_mapping mapping = { .addr = memory, .bytes = HPI_MIB(4), .provider = HUGEPIN_PROVIDER_KMOD };

	(void)state;
	assert_int_equal(hpi_register_mapping(ctx, &mapping), 0);
	assert_int_equal(fake.pins, 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
	mapping.provider = HUGEPIN_PROVIDER_BASE;
	assert_int_equal(hpi_register_mapping(ctx, &mapping), 0);
	assert_int_equal(fake.pins, 1);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
}

static void test_runtime_none_locks_what_the_module_does_not_pin(void **state)
{
	(void)state;
	fake.pin_err = -EDQUOT;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	assert_int_equal(fake_pins_open(), 0);
	if (locking_works())
		assert_int_equal(locked_kib() - locked_before, 4096);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
	assert_int_equal(locked_kib(), locked_before);
	fake.device_err = -EMFILE;		/* the context has it, another descriptor is not to be had */
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
}

static void test_a_lock_that_is_not_let_go_stays_booked(void **state)
{
	(void)state;
	fake.pin_err = -EDQUOT;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	fail_call = "munlock";
	fail_call_errno = EIO;
	hpi_sys_fault = fail_one;
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), -EIO);
	hpi_sys_fault = NULL;
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
}

#define MODULE(name)	cmocka_unit_test_setup_teardown(name, with_module, stop)
#define OLD(name)	cmocka_unit_test_setup_teardown(name, with_old_module, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MODULE(test_the_module_pins_what_is_asked),
		MODULE(test_bad_ranges_are_refused_before_the_module),
		MODULE(test_the_modules_refusals_are_told_and_leave_nothing),
		MODULE(test_an_interrupted_pin_is_made_again),
		MODULE(test_a_context_with_pins_is_not_destroyed),
		MODULE(test_threads_may_pin_the_same_memory),
		MODULE(test_a_range_may_be_unmapped_before_its_release),
		MODULE(test_a_child_has_nothing_of_its_parents_pins),
		MODULE(test_a_pinned_range_is_exported),
		MODULE(test_a_region_is_exported),
		MODULE(test_bad_exports_are_refused),
		MODULE(test_runtime_none_pins_by_the_module),
		MODULE(test_runtime_none_does_not_pin_the_modules_own_memory),
		MODULE(test_runtime_none_locks_what_the_module_does_not_pin),
		MODULE(test_a_lock_that_is_not_let_go_stays_booked),
		OLD(test_without_a_module_that_pins_the_range_is_locked),
		OLD(test_who_needs_the_module_is_refused_without),
		OLD(test_overlapping_locks_are_each_held_until_their_release),
		OLD(test_any_order_of_locks_and_releases_adds_up),
		OLD(test_a_range_may_be_unmapped_before_its_release),
		OLD(test_a_lock_that_fails_leaves_others_as_they_were),
		OLD(test_over_the_limit_tells_all_numbers),
		OLD(test_a_hole_is_not_told_as_the_limit),
		OLD(test_threads_may_pin_the_same_memory),
		OLD(test_a_child_has_nothing_of_its_parents_pins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
