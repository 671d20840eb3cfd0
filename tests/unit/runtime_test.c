// SPDX-License-Identifier: MIT
/* Runtimes: the stand-in driver is what it says it is, cuda uses only what the program made, none locks. */
#include <dlfcn.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locked.h"
#include "runtime_world.h"

#define MEMORY_BYTES	HPI_MIB(16)

static char *memory;
static const struct hpi_runtime *cuda = &hpi_runtime_cuda, *none = &hpi_runtime_none;

/* What a CUDA program calls. */
static int (*cuInit)(unsigned int flags);
static int (*cuDeviceGetCount)(int *count);
static int (*cuCtxGetCurrent)(void **ctx);
static int (*cuCtxSetCurrent)(void *ctx);
static int (*cuDevicePrimaryCtxGetState)(int device, unsigned int *flags, int *active);
static int (*cuDevicePrimaryCtxRetain)(void **ctx, int device);
static int (*cuDevicePrimaryCtxRelease)(int device);
static int (*cuMemHostRegister)(void *p, size_t bytes, unsigned int flags);
static int (*cuMemHostUnregister)(void *p);
static int (*cuMemHostAlloc)(void **p, size_t bytes, unsigned int flags);
static int (*cuMemFreeHost)(void *p);
static int (*cuMemHostGetFlags)(unsigned int *flags, void *p);
static int (*cuMemHostGetDevicePointer)(unsigned long long *device, void *p, unsigned int flags);

static int group_setup(void **state)
{
	static const struct runtime_call calls[] = {
		RUNTIME_CALL(cuInit),
		RUNTIME_CALL(cuDeviceGetCount),
		RUNTIME_CALL(cuCtxGetCurrent),
		RUNTIME_CALL(cuCtxSetCurrent),
		RUNTIME_CALL(cuDevicePrimaryCtxGetState),
		RUNTIME_CALL(cuDevicePrimaryCtxRetain),
		{ "cuDevicePrimaryCtxRelease_v2", (void **)&cuDevicePrimaryCtxRelease },
		{ "cuMemHostRegister_v2", (void **)&cuMemHostRegister },
		RUNTIME_CALL(cuMemHostUnregister),
		RUNTIME_CALL(cuMemHostAlloc),
		RUNTIME_CALL(cuMemFreeHost),
		RUNTIME_CALL(cuMemHostGetFlags),
		{ "cuMemHostGetDevicePointer_v2", (void **)&cuMemHostGetDevicePointer },
	};

	(void)state;
	LOAD_RUNTIME("libcuda.so.1", calls);
	memory = map_memory(MEMORY_BYTES);
	return cuda->load();
}

static int setup(void **state)
{
	(void)state;
	loopback.reset();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	loopback.reset();
	return 0;
}

/* As a program after its first CUDA call: the primary context is active and this thread's. */
static void *program_starts_cuda(void)
{
	void *ctx;

	assert_int_equal(cuInit(0), 0);
	assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, 0), 0);
	assert_int_equal(cuCtxSetCurrent(ctx), 0);
	return ctx;
}

static bool primary_is_active(void)
{
	unsigned int flags;
	int active;

	assert_int_equal(cuDevicePrimaryCtxGetState(0, &flags, &active), 0);
	return active;
}

/* ---- the stand-in ---- */

/* C026: the driver's answers in the corners. */
static void test_stand_in_has_the_drivers_corner_answers(void **state)
{
	unsigned int flags = 77;
	unsigned long long device;
	void *p, *empty = memory;

	(void)state;
	program_starts_cuda();
	/* (1) unaligned with DEVICEMAP */
	assert_int_equal(cuMemHostRegister(memory + 100, 10000, 2), 0);
	/* (2) a page inside, and any overlap */
	assert_int_equal(cuMemHostRegister(memory + 4096, 4096, 0), 712);
	assert_int_equal(cuMemHostRegister(memory, HPI_MIB(1), 0), 712);
	/* (4) interior and unknown pointers */
	assert_int_equal(cuMemHostUnregister(memory + 4096), 1);
	assert_int_equal(cuMemHostUnregister(memory + HPI_MIB(8)), 713);
	assert_int_equal(cuMemHostGetDevicePointer(&device, memory + 200, 0), 0);
	assert_int_equal(device, (uintptr_t)memory + 200);
	assert_int_equal(cuMemHostUnregister(memory + 100), 0);
	assert_int_equal(cuMemHostUnregister(memory + 100), 713);
	/* (3) flags of an allocation with none, (4) it cannot be unregistered, (5) nothing can be allocated */
	assert_int_equal(cuMemHostAlloc(&p, 8192, 0), 0);
	assert_int_equal(cuMemHostGetFlags(&flags, p), 0);
	assert_int_equal(flags, 2);
	assert_int_equal(cuMemHostUnregister(p), 1);
	assert_int_equal(cuMemFreeHost(p), 0);
	assert_int_equal(cuMemHostAlloc(&empty, 0, 0), 0);
	assert_int_equal(cuMemHostRegister(memory, 0, 0), 1);
	assert_int_equal(cuMemHostRegister(NULL, 4096, 0), 1);
	assert_int_equal(cuMemHostRegister(memory, 4096, 0x10), 1);
}

static void test_stand_in_keeps_a_ledger(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	program_starts_cuda();
	assert_int_equal(cuMemHostRegister(memory, 4096, 1), 0);
	assert_int_equal(cuMemHostRegister(memory + 4096, 8192, 1), 0);
	assert_true(loopback.is_registered(memory, 3 * 4096));
	assert_false(loopback.is_registered(memory, 4 * 4096));
	assert_int_equal(cuMemHostRegister(memory, 4096, 1), 712);
	assert_int_equal(cuMemHostUnregister(memory), 0);
	loopback.ledger(&ledger);
	assert_int_equal(ledger.registrations, 2);
	assert_int_equal(ledger.unregistrations, 1);
	assert_int_equal(ledger.live, 1);
	assert_int_equal(ledger.live_bytes, 8192);
	assert_int_equal(ledger.misuses, 1);
	assert_int_equal(ledger.largest_bytes, 8192);
	/* what is left ends with its context */
	assert_int_equal(cuDevicePrimaryCtxRelease(0), 0);
	loopback.ledger(&ledger);
	assert_int_equal(ledger.dropped, 1);
	assert_int_equal(ledger.live, 0);
}

static void test_stand_in_holds_the_pages(void **state)
{
	uint64_t before = locked_kib();

	(void)state;
	program_starts_cuda();
	assert_int_equal(cuMemHostRegister(memory, HPI_MIB(1), 1), 0);
	if (!loopback.pins_really())
		assert_int_equal(locked_kib() - before, 1024);
	assert_int_equal(cuMemHostUnregister(memory), 0);
	assert_int_equal(locked_kib(), before);
	/* C072: what cannot be pinned is refused */
	munmap(memory + HPI_MIB(1), 4096);
	assert_int_equal(cuMemHostRegister(memory, HPI_MIB(2), 1), 1);
	assert_int_equal(locked_kib(), before);
	assert_ptr_equal(mmap(memory + HPI_MIB(1), 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 memory + HPI_MIB(1));
}

/* ---- cuda ---- */

static int begin_register_end(void)
{
	struct hpi_runtime_scope scope;
	struct hpi_runtime_thread thread;
	int err, code;

	err = cuda->begin(&scope, &code);
	if (err)
		return err;
	err = cuda->enter(&scope, &thread, &code);
	if (!err) {
		err = cuda->host_register(memory, HPI_2M, &code);
		if (!err)
			err = cuda->host_unregister(memory, HPI_2M, &code);
		cuda->leave(&thread);
	}
	cuda->end(&scope);
	return err;
}

static void test_cuda_is_never_initialised_by_the_library(void **state)
{
	int count;

	(void)state;
	assert_int_equal(begin_register_end(), -EIO);
	assert_text("no context");
	assert_text("code 3");
	assert_int_equal(cuDeviceGetCount(&count), 3);
	/* initialised, and no context yet: none is made */
	assert_int_equal(cuInit(0), 0);
	assert_int_equal(begin_register_end(), -EIO);
	assert_text("code 201");
	assert_false(primary_is_active());
}

static void test_cuda_uses_the_threads_context(void **state)
{
	void *ctx = program_starts_cuda(), *current;

	(void)state;
	assert_int_equal(begin_register_end(), 0);
	assert_int_equal(cuCtxGetCurrent(&current), 0);
	assert_ptr_equal(current, ctx);
	assert_int_equal(cuDevicePrimaryCtxRelease(0), 0);
	assert_false(primary_is_active());
}

static void *other_thread(void *arg)
{
	void *current = arg;

	*(int *)arg = begin_register_end();
	return cuCtxGetCurrent(&current) || current ? arg : NULL;
}

static void test_cuda_borrows_the_active_primary_context_and_lets_it_go(void **state)
{
	void *result;
	pthread_t thread;
	int err = 77;

	(void)state;
	program_starts_cuda();
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &err), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal(err, 0);
	assert_null(result);			/* that thread has no context of ours left */
	assert_int_equal(cuDevicePrimaryCtxRelease(0), 0);
	assert_false(primary_is_active());	/* the program's was the last reference */
}

static void test_cuda_codes_become_errno(void **state)
{
	static const struct { int code, err; } registering[] = {
		{ 1, -EINVAL }, { 2, -ENOMEM }, { 712, -EEXIST }, { 4, -EIO }, { 999, -EIO }, { 801, -EIO },
	}, ending[] = {
		{ 713, -ENOENT }, { 1, -EIO }, { 999, -EIO },
	};
	size_t i;
	int code;

	(void)state;
	for (i = 0; i < sizeof(registering) / sizeof(registering[0]); i++) {
		loopback.reset();
		program_starts_cuda();
		loopback.fail_nth("cuMemHostRegister", 1, registering[i].code);
		assert_int_equal(cuda->host_register(memory, HPI_2M, &code), registering[i].err);
		assert_int_equal(code, registering[i].code);
	}
	for (i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		loopback.reset();
		program_starts_cuda();
		assert_int_equal(cuda->host_register(memory, HPI_2M, &code), 0);
		loopback.fail_nth("cuMemHostUnregister", 1, ending[i].code);
		assert_int_equal(cuda->host_unregister(memory, HPI_2M, &code), ending[i].err);
		assert_int_equal(code, ending[i].code);
	}
}

/* C028: code 4 while the process exits is no error; alone, it is. */
static void test_cuda_shutting_down_is_told_from_one_bad_call(void **state)
{
	struct hpi_runtime_scope scope;
	int code;

	(void)state;
	program_starts_cuda();
	assert_int_equal(cuda->host_register(memory, HPI_2M, &code), 0);
	loopback.fail_nth("cuMemHostUnregister", 1, 4);
	assert_int_equal(cuda->host_unregister(memory, HPI_2M, &code), -EIO);
	assert_text("CUDA_ERROR_DEINITIALIZED");
	loopback.shutdown(1);
	assert_int_equal(cuda->host_unregister(memory, HPI_2M, &code), 0);
	assert_int_equal(cuda->begin(&scope, &code), -ESHUTDOWN);
	assert_int_equal(code, 4);
}

static void test_cuda_does_not_break_a_stream_capture(void **state)
{
	(void)state;
	program_starts_cuda();
	loopback.capture(1);
	assert_int_equal(begin_register_end(), 0);
	assert_false(loopback.capture_broken());
	/* the program's own mode is as it was */
	assert_int_equal(cuMemHostRegister(memory, 4096, 0), 900);
	assert_true(loopback.capture_broken());
}

static void test_each_step_of_borrowing_may_fail(void **state)
{
	static const char *const calls[] = {
		"cuCtxGetCurrent",
		"cuDeviceGetCount",
		"cuDeviceGet",
		"cuDevicePrimaryCtxGetState",
		"cuDevicePrimaryCtxRetain",
		"cuCtxPushCurrent",
		"cuThreadExchangeStreamCaptureMode",
	};
	void *current;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		loopback.reset();
		program_starts_cuda();
		assert_int_equal(cuCtxSetCurrent(NULL), 0);
		loopback.fail_nth(calls[i], 1, 999);
		assert_int_equal(begin_register_end(), -EIO);
		assert_text("999");
		assert_int_equal(cuCtxGetCurrent(&current), 0);
		assert_null(current);
		assert_int_equal(cuDevicePrimaryCtxRelease(0), 0);
		assert_false(primary_is_active());
	}
}

/* ---- choosing ---- */

static void test_runtimes_are_found_by_name(void **state)
{
	const struct hpi_runtime *runtime = NULL;

	(void)state;
	assert_int_equal(hpi_runtime_find("none", &runtime), 0);
	assert_ptr_equal(runtime, none);
	assert_int_equal(hpi_runtime_find("cuda", &runtime), 0);
	assert_ptr_equal(runtime, cuda);
	assert_int_equal(hpi_runtime_find("", &runtime), -EINVAL);
	assert_int_equal(hpi_runtime_find("CUDA", &runtime), -EINVAL);
	/* the program has loaded the driver: it is one of CUDA */
	assert_int_equal(hpi_runtime_find("auto", &runtime), 0);
	assert_ptr_equal(runtime, cuda);
}

/* ---- none ---- */

static int limited(uint64_t limit_bytes)
{
	struct rlimit limit = { limit_bytes, limit_bytes };

	return setrlimit(RLIMIT_MEMLOCK, &limit) || setgroups(0, NULL) || setgid(65534) || setuid(65534);
}

/* C019: what was asked, what is locked already, the limit and what to do; and afterwards nothing is locked. */
static void test_none_over_the_limit_tells_all_numbers(void **state)
{
	int status, code;
	pid_t pid;

	(void)state;
	if (geteuid() || !locking_works())
		skip();
	pid = fork();
	if (!pid) {
		if (limited(HPI_MIB(8)))
			_exit(77);
		if (none->host_register(memory, HPI_MIB(4), &code) || locked_kib() != 4096)
			_exit(1);
		if (none->host_register(memory, HPI_MIB(16), &code) != -EDQUOT || code != EDQUOT)
			_exit(2);
		if (!strstr(hugepin_error(),
			    "mlock of 16777216 bytes: 4194304 are locked already and the limit is 8388608") ||
		    !strstr(hugepin_error(), "memlock"))
			_exit(3);
		if (none->host_unregister(memory, HPI_MIB(4), &code) || locked_kib())
			_exit(4);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* C020: the soft limit is raised as far as the hard one, by the option alone. What exceeds the hard one is refused. */
static int lock_with_soft_limit(void)
{
	struct rlimit limit = { HPI_MIB(1), HPI_MIB(8) };
	struct hugepin_options *options;
	struct hugepin_context *ctx;
	int code;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgroups(0, NULL) || setgid(65534) || setuid(65534))
		return 77;
	if (none->host_register(memory, HPI_MIB(4), &code) != -EDQUOT || getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur != HPI_MIB(1) || locked_kib())
		return 1;
	if (hugepin_options_create(&options) || hugepin_options_set(options, "raise_memlock", "true") ||
	    hugepin_options_set(options, "runtime", "none") || hugepin_context_create(options, &ctx))
		return 2;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur != HPI_MIB(1))	/* not before it is needed */
		return 3;
	if (none->host_register(memory, HPI_MIB(4), &code) || locked_kib() != 4096 ||
	    getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur != HPI_MIB(8))
		return 4;
	if (none->host_register(memory + HPI_MIB(4), HPI_MIB(12), &code) != -EDQUOT || locked_kib() != 4096)
		return 5;
	return none->host_unregister(memory, HPI_MIB(4), &code) || hugepin_context_destroy(ctx) ? 6 : 0;
}

static void test_soft_limit_is_raised_by_the_option_alone(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() || !locking_works())
		skip();
	pid = fork();
	if (!pid)
		_exit(lock_with_soft_limit());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static int mlock_error;

static int fail_mlock(const char *call)
{
	return strcmp(call, "mlock") ? 0 : mlock_error;
}

static void test_none_failing_leaves_nothing_locked(void **state)
{
	uint64_t before = locked_kib();
	struct rlimit old;
	int code;

	(void)state;
	if (!locking_works())
		skip();
	/* A hole: the kernel locks what lies before it. */
	munmap(memory + HPI_MIB(2), 4096);
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
	if (old.rlim_max < HPI_MIB(8))
		skip();
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ old.rlim_max, old.rlim_max }), 0);
	assert_int_equal(none->host_register(memory, HPI_MIB(4), &code), -EINVAL);
	assert_text("hole");
	assert_int_equal(locked_kib(), before);
	assert_ptr_equal(mmap(memory + HPI_MIB(2), 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 memory + HPI_MIB(2));
	hpi_sys_fault = fail_mlock;
	mlock_error = EAGAIN;
	assert_int_equal(none->host_register(memory, HPI_MIB(4), &code), -ENOMEM);
	mlock_error = EIO;
	assert_int_equal(none->host_register(memory, HPI_MIB(4), &code), -EIO);
	assert_int_equal(code, EIO);
	assert_int_equal(locked_kib(), before);
	setrlimit(RLIMIT_MEMLOCK, &old);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_stand_in_has_the_drivers_corner_answers),
		TEST(test_stand_in_keeps_a_ledger),
		TEST(test_stand_in_holds_the_pages),
		TEST(test_cuda_is_never_initialised_by_the_library),
		TEST(test_cuda_uses_the_threads_context),
		TEST(test_cuda_borrows_the_active_primary_context_and_lets_it_go),
		TEST(test_cuda_codes_become_errno),
		TEST(test_cuda_shutting_down_is_told_from_one_bad_call),
		TEST(test_cuda_does_not_break_a_stream_capture),
		TEST(test_each_step_of_borrowing_may_fail),
		TEST(test_runtimes_are_found_by_name),
		TEST(test_none_over_the_limit_tells_all_numbers),
		TEST(test_soft_limit_is_raised_by_the_option_alone),
		TEST(test_none_failing_leaves_nothing_locked),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
