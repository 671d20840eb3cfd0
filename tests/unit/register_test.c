// SPDX-License-Identifier: MIT
/* Registration: chunks, threads, all or nothing, the registry, a runtime that refuses to let go or shuts down. */
#include <dirent.h>
#include <dlfcn.h>
#include <grp.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "locked.h"
#include "runtime_world.h"

#define MEMORY_BYTES	HPI_MIB(64)
#define PAGE		((uint64_t)4096)
#define NR_2M		"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

static struct hugepin_context *ctx;
static char *memory;			/* 1G-aligned, so that chunk borders are where the tests expect them */

static int (*cuInit)(unsigned int flags);
static int (*cuCtxSetCurrent)(void *ctx);
static int (*cuDevicePrimaryCtxRetain)(void **ctx, int device);
static int (*cuDevicePrimaryCtxReset)(int device);
static int (*cuMemHostRegister)(void *p, size_t bytes, unsigned int flags);
static int (*cuMemHostUnregister)(void *p);

static int group_setup(void **state)
{
	static const struct runtime_call calls[] = {
		RUNTIME_CALL(cuInit),
		RUNTIME_CALL(cuCtxSetCurrent),
		RUNTIME_CALL(cuDevicePrimaryCtxRetain),
		{ "cuDevicePrimaryCtxReset_v2", (void **)&cuDevicePrimaryCtxReset },
		{ "cuMemHostRegister_v2", (void **)&cuMemHostRegister },
		RUNTIME_CALL(cuMemHostUnregister),
	};
	char *p;

	(void)state;
	LOAD_RUNTIME("libcuda.so.1", calls);
	p = mmap(NULL, 2 * HPI_1G, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memory = (char *)hpi_round_up((uintptr_t)p, HPI_1G);
	assert_int_equal(mprotect(memory, MEMORY_BYTES, PROT_READ | PROT_WRITE), 0);
	return 0;
}

static void program_starts_cuda(void)
{
	void *current;

	assert_int_equal(cuInit(0), 0);
	assert_int_equal(cuDevicePrimaryCtxRetain(&current, 0), 0);
	assert_int_equal(cuCtxSetCurrent(current), 0);
}

static struct hugepin_context *context(const char *runtime, const char *chunk, const char *threads)
{
	return context_with(runtime, "register_chunk", chunk, "register_threads", threads, NULL);
}

static void restart(const char *runtime, const char *chunk, const char *threads)
{
	if (ctx)
		assert_int_equal(hugepin_context_destroy(ctx), 0);
	loopback.reset();
	ctx = context(runtime, chunk, threads);
	program_starts_cuda();
}

static int setup(void **state)
{
	(void)state;
	restart("cuda", "2M", "1");
	return 0;
}

static int teardown(void **state)
{
	struct loopback_ledger ledger;

	(void)state;
	loopback.ledger(&ledger);
	assert_int_equal(ledger.live, 0);
	assert_int_equal(ledger.registrations, ledger.unregistrations + ledger.dropped);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	ctx = NULL;
	loopback.reset();
	return 0;
}

/* ---- chunks ---- */

static void test_a_range_is_registered_in_chunks_and_found_whole(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(7)), 0);
	assert_int_equal(ledger_now().registrations, 4);
	assert_int_equal(ledger_now().largest_bytes, HPI_2M);
	assert_int_equal(ledger_now().live_bytes, HPI_MIB(7));
	assert_true(loopback.is_registered(memory, HPI_MIB(7)));
	assert_true(hpi_registry_has(ctx->registry, memory + HPI_MIB(3) + 5, HPI_MIB(4) - 5));
	assert_false(hpi_registry_has(ctx->registry, memory, HPI_MIB(7) + 1));
	assert_false(hpi_registry_has(ctx->registry, memory - 1, 2));
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(7)), 0);
	assert_false(hpi_registry_has(ctx->registry, memory, 1));
}

static void test_chunks_end_at_multiples_of_their_size(void **state)
{
	(void)state;
	/* begins 1 MiB before a border: 1 + 2 + 2 + 1 */
	assert_int_equal(hpi_register_range(ctx, memory + HPI_MIB(1), HPI_MIB(6)), 0);
	assert_int_equal(ledger_now().registrations, 4);
	assert_int_equal(cuMemHostRegister(memory + HPI_MIB(2), PAGE, 0), 712);
	assert_int_equal(cuMemHostUnregister(memory + HPI_MIB(2) + PAGE), 1);	/* interior: a chunk begins at 2 MiB */
	assert_int_equal(hpi_unregister_range(ctx, memory + HPI_MIB(1), HPI_MIB(6)), 0);
}

/* C054: a runtime with a limit a call that nobody told us of. */
static void test_a_chunk_too_big_for_the_runtime_is_halved(void **state)
{
	const uint64_t limit = HPI_MIB(8);
	const uint64_t sizes[] = { limit - PAGE, limit, limit + PAGE, 3 * limit + 5 * PAGE };
	size_t i;

	(void)state;
	restart("cuda", "1G", "2");
	loopback.limit(limit);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(hpi_register_range(ctx, memory, sizes[i]), 0);
		assert_string_equal(hugepin_error(), "");
		assert_true(ledger_now().largest_bytes <= limit);
		assert_int_equal(ledger_now().live_bytes, sizes[i]);
		assert_true(loopback.is_registered(memory, sizes[i]));
		assert_int_equal(hpi_unregister_range(ctx, memory, sizes[i]), 0);
	}
}

static void test_halving_ends_at_2m(void **state)
{
	(void)state;
	restart("cuda", "1G", "1");
	loopback.limit(HPI_2M - PAGE);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(16)), -EIO);
	assert_text("CUDA_ERROR_OUT_OF_MEMORY");
	assert_text("chunk of 2097152 bytes at offset 0");
	assert_int_equal(ledger_now().calls, 4);		/* 16, 8, 4, 2 MiB */
	assert_int_equal(ledger_now().registrations, 0);
	assert_false(hpi_registry_has(ctx->registry, memory, 1));
}

/* C054: a failure in a later chunk takes the earlier ones back. */
static void test_a_failure_rolls_back(void **state)
{
	static const struct {
		int code, err;
	} failures[] = { { 1, -EINVAL }, { 712, -EEXIST }, { 999, -EIO }, { 3, -EIO } };
	const char *const threads[] = { "1", "4" };
	size_t i, t;

	(void)state;
	for (t = 0; t < 2; t++)
		for (i = 0; i < 4; i++) {
			restart("cuda", "2M", threads[t]);
			loopback.fail_nth("cuMemHostRegister", 3, failures[i].code);
			assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(16)), failures[i].err);
			assert_text("registering 16777216 bytes");
			assert_text("with cuda");
			assert_int_equal(ledger_now().live, 0);
			assert_int_equal(ledger_now().misuses, 0);
			assert_false(hpi_registry_has(ctx->registry, memory, 1));
			assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(16)), 0);
			assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(16)), 0);
		}
}

/* Each call of a registration and its end, each time it is made: the driver's ledger and the registry agree then. */
static void test_every_failure_leaves_all_or_nothing(void **state)
{
	static const char *const calls[] = {
		"cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode", "cuMemHostRegister", "cuMemHostUnregister",
	};
	unsigned int nth, failures;
	size_t i;
	int err;

	(void)state;
	restart("cuda", "2M", "3");
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (failures = 0, nth = 1; nth <= 24; nth++) {
			loopback.fail_nth(calls[i], nth, 999);
			err = hpi_register_range(ctx, memory, HPI_MIB(16));
			failures += err != 0;
			assert_int_equal(hpi_registry_has(ctx->registry, memory, HPI_MIB(16)), !err);
			assert_int_equal(loopback.is_registered(memory, HPI_MIB(16)), !err);
			if (err)
				assert_int_equal(ledger_now().live, 0);
			if (!err && hpi_unregister_range(ctx, memory, HPI_MIB(16))) {
				failures++;
				assert_true(ledger_now().live > 0);		/* held, so booked: nobody else gets it */
				assert_int_equal(hpi_register_range(ctx, memory, PAGE), -EEXIST);
				assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(16)), 0);
			}
			loopback.fail_clear();
			assert_int_equal(ledger_now().live, 0);
		}
		assert_in_range(failures, 1, 24);
	}
	assert_int_equal(ledger_now().misuses, 0);
}

static char progress[128];
static unsigned int progress_lines;

static void keep_progress(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	if (!strncmp(line, "registered ", 11)) {
		progress_lines++;
		snprintf(progress, sizeof(progress), "%s", line);
	}
}

/* C050: a long registration can be seen to get on, call by call. */
static void test_progress_is_told_a_chunk_at_a_time(void **state)
{
	(void)state;
	hugepin_log_set(keep_progress, NULL, HUGEPIN_LOG_DEBUG);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(16)), 0);
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_ERROR);
	assert_int_equal(progress_lines, 8);
	assert_non_null(strstr(progress, "registered 16777216 of 16777216 bytes"));
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(16)), 0);
}

/* C024: a runtime that forgot a registration, and memory that is another's at the same address. */
static void test_a_stale_range_gives_way_when_its_address_is_used_again(void **state)
{
	char *again;

	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	assert_int_equal(cuDevicePrimaryCtxReset(0), 0);
	program_starts_cuda();
	assert_int_equal(hpi_register_range(ctx, memory + HPI_MIB(2), PAGE), -EEXIST);	/* until it is given up */
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
	again = mmap(memory, HPI_MIB(4), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_ptr_equal(again, memory);
	assert_int_equal(hpi_register_range(ctx, memory + HPI_MIB(2), HPI_MIB(2)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory + HPI_MIB(2), HPI_MIB(2)), 0);
}

static void test_bad_ranges_are_refused(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, 0), -EINVAL);
	assert_int_equal(hpi_register_range(ctx, memory + 64, PAGE), -EINVAL);
	assert_int_equal(hpi_register_range(ctx, memory, 100), -EINVAL);
	assert_int_equal(hpi_register_range(ctx, memory, UINT64_MAX - PAGE + 1), -EINVAL);
	assert_int_equal(ledger_now().calls, 0);
}

/* ---- threads ---- */

static void test_chunks_are_registered_side_by_side(void **state)
{
	(void)state;
	restart("cuda", "2M", "4");
	loopback.delay(20000);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(32)), 0);
	assert_true(ledger_now().most_parallel > 1);
	assert_true(ledger_now().most_parallel <= 4);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(32)), 0);
	restart("cuda", "2M", "1");
	loopback.delay(1000);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(32)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(32)), 0);
	assert_int_equal(ledger_now().most_parallel, 1);
}

/* Threads besides this and the main one, and how many of them have every signal blocked that can be. */
static void count_threads(unsigned int *threads, unsigned int *blocked)
{
	DIR *dir = opendir("/proc/self/task");
	char path[300], text[32];
	struct dirent *entry;

	*threads = *blocked = 0;
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid() || atoi(entry->d_name) == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		if (hpi_sys_read_field(path, "SigBlk:", text, sizeof(text)))
			continue;
		(*threads)++;
		/* of the first 15 all but SIGKILL */
		*blocked += (strtoull(text, NULL, 16) & 0x7fff) == 0x7fff - (1 << 8);
	}
	if (dir)
		closedir(dir);
}

static void *watch(void *arg)
{
	unsigned int threads, blocked, *most = arg, i;

	for (i = 0; i < 200; i++) {
		count_threads(&threads, &blocked);
		if (threads > most[0]) {
			most[0] = threads;
			most[1] = blocked;
		}
		usleep(1000);
	}
	return NULL;
}

static void test_helper_threads_take_no_signals(void **state)
{
	unsigned int before[2] = { 0, 0 }, most[2] = { 0, 0 };
	pthread_t watcher;

	(void)state;
	restart("cuda", "2M", "3");
	count_threads(&before[0], &before[1]);		/* a sanitizer has threads of its own */
	loopback.delay(50000);
	assert_int_equal(pthread_create(&watcher, NULL, watch, most), 0);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(16)), 0);
	pthread_join(watcher, NULL);
	assert_int_equal(most[0] - before[0], 2);
	assert_int_equal(most[1] - before[1], 2);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(16)), 0);
}

static void *register_own(void *arg)
{
	char *mine = arg;
	unsigned int i;

	for (i = 0; i < 50; i++)
		if (hpi_register_range(ctx, mine, HPI_MIB(4)) || !hpi_registry_has(ctx->registry, mine, HPI_MIB(4)) ||
		    hpi_unregister_range(ctx, mine, HPI_MIB(4)))
			return NULL;
	return arg;
}

static void test_threads_register_their_own_ranges_at_once(void **state)
{
	pthread_t threads[8];
	void *result;
	int i;

	(void)state;
	restart("cuda", "2M", "2");
	for (i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, register_own, memory + i * HPI_MIB(4)), 0);
	for (i = 0; i < 8; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_non_null(result);
	}
	assert_int_equal(ledger_now().misuses, 0);
}

/* ---- the registry ---- */

/* C024: what is registered is answered without the runtime. */
static void test_overlaps_are_refused_without_the_runtime(void **state)
{
	const struct { uint64_t offset, bytes; } overlaps[] = {
		{ HPI_MIB(8), HPI_MIB(4) }, { HPI_MIB(9), PAGE }, { HPI_MIB(4), HPI_MIB(4) + PAGE },
		{ HPI_MIB(12) - PAGE, HPI_MIB(4) }, { 0, HPI_MIB(32) },
	};
	uint64_t calls;
	size_t i;

	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory + HPI_MIB(8), HPI_MIB(4)), 0);
	calls = ledger_now().calls;
	for (i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
		assert_int_equal(hpi_register_range(ctx, memory + overlaps[i].offset, overlaps[i].bytes), -EEXIST);
		assert_text("overlaps 4194304 bytes");
	}
	assert_int_equal(ledger_now().calls, calls);
	/* neighbours are fine, and are found as one */
	assert_int_equal(hpi_register_range(ctx, memory + HPI_MIB(12), HPI_MIB(2)), 0);
	assert_int_equal(hpi_register_range(ctx, memory + HPI_MIB(4), HPI_MIB(4)), 0);
	assert_true(hpi_registry_has(ctx->registry, memory + HPI_MIB(5), HPI_MIB(9)));
	assert_int_equal(hpi_unregister_range(ctx, memory + HPI_MIB(8), HPI_MIB(4)), 0);
	assert_false(hpi_registry_has(ctx->registry, memory + HPI_MIB(5), HPI_MIB(9)));
	assert_int_equal(hpi_unregister_range(ctx, memory + HPI_MIB(4), HPI_MIB(4)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory + HPI_MIB(12), HPI_MIB(2)), 0);
}

/* C024: the program registered a part itself; its registration stays its own. */
static void test_what_the_program_registered_is_left_alone(void **state)
{
	(void)state;
	assert_int_equal(cuMemHostRegister(memory + HPI_MIB(4), PAGE, 0), 0);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), -EEXIST);
	assert_text("the program has registered a part of it");
	assert_int_equal(ledger_now().live_bytes, PAGE);
	assert_int_equal(cuMemHostUnregister(memory + HPI_MIB(4)), 0);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(8)), 0);
}

static void test_only_exact_ranges_are_unregistered_and_once(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), -ENOENT);
	assert_int_equal(hpi_unregister_range(ctx, memory + HPI_MIB(2), HPI_MIB(6)), -ENOENT);
	assert_int_equal(hpi_unregister_range(ctx, memory - HPI_MIB(2), HPI_MIB(10)), -ENOENT);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(8)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(8)), -ENOENT);
	assert_text("no such range");
	assert_int_equal(ledger_now().misuses, 0);
}

struct model {
	uint64_t begin, end;
};

/* Against a list of ranges in pages: every answer of the registry is the list's. */
static void test_the_registry_agrees_with_a_list(void **state)
{
	struct model live[64];
	size_t count = 0, i, step, expected_overlaps = 0;
	unsigned int seed = 12345;

	(void)state;
	restart("none", "2M", "1");
	for (step = 0; step < 4000; step++) {
		uint64_t begin = (unsigned int)rand_r(&seed) % 1024, end = begin + 1 + (unsigned int)rand_r(&seed) % 16;
		bool overlap = false, covered = false;

		for (i = 0; i < count; i++) {
			overlap |= begin < live[i].end && live[i].begin < end;
			covered |= begin >= live[i].begin && end <= live[i].end;
		}
		if (covered)
			assert_true(hpi_registry_has(ctx->registry, memory + begin * PAGE, (end - begin) * PAGE));
		if (count == 64 || (count && rand_r(&seed) % 3 == 0)) {
			i = (unsigned int)rand_r(&seed) % count;
			assert_int_equal(hpi_unregister_range(ctx, memory + live[i].begin * PAGE,
							      (live[i].end - live[i].begin) * PAGE), 0);
			live[i] = live[--count];
			continue;
		}
		assert_int_equal(hpi_register_range(ctx, memory + begin * PAGE, (end - begin) * PAGE),
				 overlap ? -EEXIST : 0);
		expected_overlaps += overlap;
		if (!overlap)
			live[count++] = (struct model){ begin, end };
	}
	assert_true(expected_overlaps > 100);
	while (count--)
		assert_int_equal(hpi_unregister_range(ctx, memory + live[count].begin * PAGE,
						      (live[count].end - live[count].begin) * PAGE), 0);
}

/* ---- a runtime that refuses ---- */

static void test_a_refused_unregistration_stays_booked_and_can_be_tried_again(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), 0);
	loopback.fail_nth("cuMemHostUnregister", 2, 999);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(8)), -EIO);
	assert_text("must stay mapped");
	assert_text("chunk of 2097152 bytes at offset 2097152");
	assert_int_equal(ledger_now().live, 1);		/* the others were let go */
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), -EEXIST);
	assert_false(hpi_registry_has(ctx->registry, memory, HPI_MIB(8)));
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(8)), 0);
	assert_int_equal(ledger_now().misuses, 0);
}

static void test_a_roll_back_that_fails_stays_booked(void **state)
{
	(void)state;
	loopback.fail_nth("cuMemHostRegister", 3, 1);
	loopback.fail_nth("cuMemHostUnregister", 1, 999);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), -ENOTRECOVERABLE);
	assert_text("CUDA_ERROR_INVALID_VALUE");
	assert_text("rolling back");
	assert_text("must stay mapped");
	assert_int_equal(ledger_now().live, 1);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(8)), 0);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(8)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(8)), 0);
}

static void test_without_a_context_nothing_is_booked_and_nothing_lost(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	loopback.fail_nth("cuCtxGetCurrent", 1, 201);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), -EIO);
	assert_true(hpi_registry_has(ctx->registry, memory, HPI_MIB(4)));
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
	loopback.fail_nth("cuCtxGetCurrent", 1, 3);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), -EIO);
	assert_text("no context");
	/* a thread that cannot get into it */
	loopback.fail_nth("cuThreadExchangeStreamCaptureMode", 1, 999);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), -EIO);
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
}

static unsigned int warnings;

static void count_warnings(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)arg;
	warnings += level == HUGEPIN_LOG_WARNING && strstr(line, "713") != NULL;
}

/* The program reset its device: nothing holds the memory any more. */
static void test_registrations_that_went_with_their_context_are_done(void **state)
{
	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	assert_int_equal(cuDevicePrimaryCtxReset(0), 0);
	program_starts_cuda();
	warnings = 0;
	hugepin_log_set(count_warnings, NULL, HUGEPIN_LOG_WARNING);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_ERROR);
	assert_int_equal(warnings, 2);
	assert_int_equal(ledger_now().dropped, 2);
}

/* ---- the end of the process ---- */

static char *exit_memory;
static bool from_thread;

static void at_exit(void)
{
	unsigned int i;

	loopback.shutdown(1);
	for (i = 0; i < 1000; i++)
		if (hpi_unregister_range(ctx, exit_memory + i * PAGE, PAGE))
			_exit(3);
	if (hugepin_context_destroy(ctx))
		_exit(4);
}

static void *exiting_thread(void *arg)
{
	(void)arg;
	exit(0);
}

static void child_exits(int output)
{
	pthread_t thread;
	unsigned int i;

	dup2(output, 1);
	dup2(output, 2);
	loopback.reset();
	ctx = context("cuda", "2M", "4");
	program_starts_cuda();
	exit_memory = memory;
	for (i = 0; i < 1000; i++)
		if (hpi_register_range(ctx, memory + i * PAGE, PAGE))
			_exit(2);
	atexit(at_exit);
	if (!from_thread)
		exit(0);
	pthread_create(&thread, NULL, exiting_thread, NULL);
	pthread_join(thread, NULL);
}

/* C028: 1000 live ranges when the driver shuts down before the program's own objects end. */
static void test_exit_with_the_driver_already_down_is_quiet(void **state)
{
	int status, output[2], i;
	char said[2048];
	ssize_t length;
	pid_t pid;

	(void)state;
	for (i = 0; i < 2; i++) {
		from_thread = i;
		fflush(NULL);
		assert_int_equal(pipe(output), 0);
		pid = fork();
		if (!pid) {
			close(output[0]);
			child_exits(output[1]);
		}
		close(output[1]);
		length = read(output[0], said, sizeof(said) - 1);
		close(output[0]);
		said[length > 0 ? length : 0] = '\0';
		assert_string_equal(said, "");
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

static void test_a_child_of_a_fork_neither_registers_nor_unregisters(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(4)), 0);
	pid = fork();
	if (!pid) {
		bool refused = hpi_unregister_range(ctx, memory, HPI_MIB(4)) == -EPERM &&
			       hpi_register_range(ctx, memory + HPI_MIB(8), HPI_MIB(4)) == -EPERM;

		_exit(refused && ledger_now().live == 2 && !hugepin_context_destroy(ctx) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(4)), 0);
}

/* ---- without an accelerator ---- */

static void test_none_locks_and_unlocks(void **state)
{
	uint64_t before = locked_kib();

	(void)state;
	if (!locking_works())
		skip();
	restart("none", "2M", "4");
	assert_int_equal(hpi_register_range(ctx, memory, HPI_MIB(7)), 0);
	assert_int_equal(locked_kib() - before, 7 * 1024);
	assert_true(hpi_registry_has(ctx->registry, memory, HPI_MIB(7)));
	assert_int_equal(hpi_unregister_range(ctx, memory, HPI_MIB(7)), 0);
	assert_int_equal(locked_kib(), before);
}

static int as_limited_user(uint64_t limit_bytes)
{
	struct rlimit limit = { limit_bytes, limit_bytes };

	return setrlimit(RLIMIT_MEMLOCK, &limit) || setgroups(0, NULL) || setgid(65534) || setuid(65534);
}

/* Exit status of a child that registers 16 MiB with a limit of 8, of huge pages or of base pages. */
static int register_under_a_limit(char *huge)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (as_limited_user(HPI_MIB(8)))
			_exit(77);
		ctx = context("none", "1G", "1");
		if (hpi_register_range(ctx, memory, HPI_MIB(16)) != -EDQUOT || locked_kib() ||
		    !strstr(hugepin_error(), "the limit is 8388608"))
			_exit(1);
		if (huge && (hpi_register_range(ctx, huge, HPI_MIB(16)) || locked_kib() ||
			     hpi_unregister_range(ctx, huge, HPI_MIB(16))))
			_exit(2);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* C019: base pages are refused with the numbers and nothing stays locked; huge pages are not charged. */
static void test_the_lock_limit_holds_for_base_pages_only(void **state)
{
	char before[32], *huge = NULL;
	int fd = -1, result;

	(void)state;
	if (geteuid() || !locking_works())
		skip();
	if (!hpi_sys_read_file(NR_2M, before, sizeof(before)) && !hpi_sys_write_file(NR_2M, "8"))
		fd = memfd_create("huge", MFD_HUGETLB | MFD_HUGE_2MB);
	if (fd >= 0 && !ftruncate(fd, HPI_MIB(16)))
		huge = mmap(NULL, HPI_MIB(16), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (huge == MAP_FAILED)
		huge = NULL;
	result = register_under_a_limit(huge);
	if (huge)
		munmap(huge, HPI_MIB(16));
	if (fd >= 0) {
		close(fd);
		assert_int_equal(hpi_sys_write_file(NR_2M, before), 0);
	}
	if (result == 77)
		skip();
	assert_int_equal(result, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_range_is_registered_in_chunks_and_found_whole),
		TEST(test_chunks_end_at_multiples_of_their_size),
		TEST(test_a_chunk_too_big_for_the_runtime_is_halved),
		TEST(test_halving_ends_at_2m),
		TEST(test_a_failure_rolls_back),
		TEST(test_every_failure_leaves_all_or_nothing),
		TEST(test_progress_is_told_a_chunk_at_a_time),
		TEST(test_a_stale_range_gives_way_when_its_address_is_used_again),
		TEST(test_bad_ranges_are_refused),
		TEST(test_chunks_are_registered_side_by_side),
		TEST(test_helper_threads_take_no_signals),
		TEST(test_threads_register_their_own_ranges_at_once),
		TEST(test_overlaps_are_refused_without_the_runtime),
		TEST(test_what_the_program_registered_is_left_alone),
		TEST(test_only_exact_ranges_are_unregistered_and_once),
		TEST(test_the_registry_agrees_with_a_list),
		TEST(test_a_refused_unregistration_stays_booked_and_can_be_tried_again),
		TEST(test_a_roll_back_that_fails_stays_booked),
		TEST(test_without_a_context_nothing_is_booked_and_nothing_lost),
		TEST(test_registrations_that_went_with_their_context_are_done),
		TEST(test_exit_with_the_driver_already_down_is_quiet),
		TEST(test_a_child_of_a_fork_neither_registers_nor_unregisters),
		TEST(test_none_locks_and_unlocks),
		TEST(test_the_lock_limit_holds_for_base_pages_only),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
