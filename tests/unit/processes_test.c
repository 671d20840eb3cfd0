// SPDX-License-Identifier: MIT
/*
 * Several processes and one pool's memory; processes that end while the library is at work.
 */
#include "fence_world.h"

#include <sys/wait.h>

#include "../loopback/loopback.h"

/* ---- one table, several processes ---- */

#define RANKS	4
#define TABLE	HPI_MIB(8)
#define NR_2M	"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

static char nr_before[32];

/* Pages of the kernel's own, since a table to be shared needs a file. */
static void need_pages(void)
{
	char text[32];

	nr_before[0] = '\0';
	if (access(NR_2M, W_OK) || hpi_sys_read_file(NR_2M, nr_before, sizeof(nr_before))) {
		print_message("the kernel's 2M pages cannot be reserved here\n");
		skip();
	}
	snprintf(text, sizeof(text), "%lu", strtoul(nr_before, NULL, 10) + TABLE / HPI_2M);
	if (hpi_sys_write_file(NR_2M, text)) {
		print_message("no 2M pages are to be had\n");
		skip();
	}
}

static int give_pages_back(void **state)
{
	if (nr_before[0])
		hpi_sys_write_file(NR_2M, nr_before);
	nr_before[0] = '\0';
	return world_teardown(state);
}

/* Another process, with a driver and a context of its own: it maps the same pages and registers them for itself. */
static int be_a_rank(int fd, uint64_t offset, unsigned int rank)
{
	struct loopback_ledger ledger;
	struct hugepin_context *ctx;
	struct loopback driver;
	uint64_t *table;
	size_t i;

	setenv("LOOPBACK_CONTEXT", "1", 1);
	if (loopback_load(&driver))
		return 77;
	ctx = make_context(NULL);
	if (hpi_runtime_find("cuda", &ctx->runtime))
		return 1;
	table = mmap(NULL, TABLE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (table == MAP_FAILED || hpi_register_range(ctx, table, TABLE))
		return 2;
	driver.ledger(&ledger);
	if (ledger.live_bytes != TABLE || ledger.misuses)
		return 3;
	for (i = 0; i < TABLE / sizeof(*table); i += 512) {
		if (table[i] != i)
			return 4;
	}
	table[1 + rank] = 1000 + rank;			/* of which the others will know */
	if (hpi_unregister_range(ctx, table, TABLE))
		return 5;
	driver.ledger(&ledger);
	if (ledger.live || ledger.registrations != ledger.unregistrations)
		return 6;
	return munmap(table, TABLE) || hugepin_context_destroy(ctx) ? 7 : 0;
}

static void four_processes_register_one_table_each_for_itself(void **state)
{
	struct hugepin_segment_info segment;
	struct hugepin_pool *pool;
	pid_t ranks[RANKS];
	unsigned int i;
	uint64_t *table;
	int status;

	(void)state;
	need_pages();
	pool = make_pool(make_context("host_ladder", "hugetlb:2M", NULL), HUGEPIN_POOL_HOST);
	table = (uint64_t *)take(pool, TABLE);
	for (i = 0; i < TABLE / sizeof(*table); i += 512)
		table[i] = i;
	segment = segment_of_block(pool, table);
	assert_true(segment.fd >= 0);
	assert_ptr_equal(segment.addr, table);
	for (i = 0; i < RANKS; i++) {
		ranks[i] = fork();
		if (!ranks[i])
			_exit(be_a_rank(segment.fd, segment.offset, i));
	}
	for (i = 0; i < RANKS; i++) {
		assert_int_equal(waitpid(ranks[i], &status, 0), ranks[i]);
		assert_int_equal(status, 0);
		assert_int_equal(table[1 + i], 1000 + i);
	}
	give(pool, table);
	end_pool(pool);
}

/* ---- ends of a process ---- */

static struct hugepin_pool *left;

/* As a static object's destructor does, when the runtime has gone before it. */
static void end_late(void)
{
	struct hugepin_context *ctx = left->ctx;

	device.shut_down = true;
	if (hugepin_pool_destroy(left) || hugepin_context_destroy(ctx) || told.warnings || told.errors)
		_exit(9);
}

static void *exit_here(void *arg)
{
	(void)arg;
	exit(0);
}

/* A process with fences pending, its poller running; the stream is never done. */
static int end_by(void *(*how)(void *arg), bool late)
{
	pthread_t thread;

	hpi_poller_pause = NULL;
	left = device_pool(NULL);
	free_after(left, take(left, KIB), work_on(0));
	if (hugepin_free_after(left, take(left, KIB), NULL, 0))
		return 1;
	if (late && atexit(end_late))
		return 2;
	if (pthread_create(&thread, NULL, how, NULL))
		return 3;
	pthread_join(thread, NULL);
	return 4;
}

static void assert_ends_well(bool late)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(end_by(exit_here, late));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void process_exits_from_any_thread_with_fences_pending(void **state)
{
	(void)state;
	assert_ends_well(false);
}

/* C028 */
static void static_destructor_ends_a_pool_after_its_runtime_has_gone(void **state)
{
	(void)state;
	assert_ends_well(true);
}

/* A plugin that links the library is unloaded while a poller may run: the code stays. */
static void library_stays_loaded_after_dlclose(void **state)
{
	const char *(*version)(void);
	char path[4200], *slash;
	void *library;
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);

	(void)state;
	assert_true(length > 0);
	path[length] = '\0';
	slash = strrchr(path, '/');
	strcpy(slash, "/../../lib/libhugepin.so.0");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		print_message("%s\n", dlerror());
		skip();
	}
	*(void **)&version = dlsym(library, "hugepin_version");
	assert_non_null(version);
	assert_int_equal(dlclose(library), 0);
	assert_string_equal(version(), hugepin_version());
	assert_non_null(dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
}

/* ---- pools dropped ---- */

/* C004: what a program drops without freeing is refused; what it frees is unregistered, and the books end at zero. */
static void a_thousand_pools_end_with_nothing_registered(void **state)
{
	struct hugepin_context *ctx = make_context(NULL);
	struct hugepin_pool *pool;
	unsigned int i;
	char *p;

	(void)state;
	for (i = 0; i < 1000; i++) {
		pool = make_pool_on(ctx, HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
		p = take(pool, HPI_MIB(1));
		assert_string_equal(segment_of_block(pool, p).registered, "test");
		if (i == 0)
			assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
		give(pool, p);
		assert_int_equal(hugepin_pool_destroy(pool), 0);
	}
	assert_int_equal(runtime.registers, 1000);
	assert_int_equal(runtime.unregisters, 1000);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(four_processes_register_one_table_each_for_itself, world_setup, give_pages_back),
		DEVICE_TEST(process_exits_from_any_thread_with_fences_pending),
		DEVICE_TEST(static_destructor_ends_a_pool_after_its_runtime_has_gone),
		TEST(library_stays_loaded_after_dlclose),
		TEST(a_thousand_pools_end_with_nothing_registered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
