// SPDX-License-Identifier: MIT
/* Memory is brought in by several threads, near the caller, and is as if one had done it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "internal.h"
#include "tree.h"

#define PIECE	((uint64_t)64 << 20)	/* that one thread brings in at a time, where pages are smaller */
#define BYTES	(5 * PIECE + 4096)

static struct hugepin_context *ctx;
static char *memory;

static struct hugepin_context *context(const char *threads)
{
	struct hugepin_options *options;
	struct hugepin_context *made;

	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(hugepin_options_set(options, "runtime", "none"), 0);
	assert_int_equal(hugepin_options_set(options, "register_threads", threads), 0);
	assert_int_equal(hugepin_context_create(options, &made), 0);
	hugepin_options_destroy(options);
	return made;
}

static int prepare(void **state)
{
	(void)state;
	ctx = context("4");
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	madvise(memory, BYTES, MADV_NOHUGEPAGE);	/* so that each page tells of itself */
	return 0;
}

static int clear(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	assert_int_equal(munmap(memory, BYTES), 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	return 0;
}

static uint64_t resident_pages(void)
{
	static unsigned char map[BYTES / 4096];
	uint64_t i, pages = 0;

	assert_int_equal(mincore(memory, BYTES, map), 0);
	for (i = 0; i < BYTES / 4096; i++)
		pages += map[i] & 1;
	return pages;
}

static unsigned int cpus(void)
{
	cpu_set_t process;

	assert_int_equal(sched_getaffinity(getpid(), sizeof(process), &process), 0);
	return (unsigned int)CPU_COUNT(&process);
}

/* ---- what is called, by any thread ---- */

static _Atomic unsigned int started, asked;
static unsigned int fail_from;		/* this call of madvise and all later ones; 0: none */
static int failure;
static bool threads_fail;

static int watch(const char *call)
{
	if (!strcmp(call, "pthread_create")) {
		started++;
		return threads_fail ? EAGAIN : 0;
	}
	if (!strcmp(call, "madvise") && ++asked >= fail_from && fail_from)
		return failure;
	return 0;
}

static void watch_calls(void)
{
	started = asked = fail_from = 0;
	threads_fail = false;
	hpi_sys_fault = watch;
}

/* ---- cases ---- */

static void every_page_is_brought_in_by_several_threads(void **state)
{
	unsigned int most = cpus() < 4 ? cpus() : 4;

	(void)state;
	watch_calls();
	assert_int_equal(hpi_populate(ctx, memory, BYTES, 4096), 0);
	assert_int_equal(started, most - 1);
	assert_int_equal(asked, 6);		/* the last piece is a page */
	assert_int_equal(resident_pages(), BYTES / 4096);
}

static void no_more_threads_than_asked_for_and_pieces(void **state)
{
	struct hugepin_context *alone = context("1");

	(void)state;
	watch_calls();
	assert_int_equal(hpi_populate(alone, memory, BYTES, 4096), 0);
	assert_int_equal(started, 0);
	assert_int_equal(hpi_populate(ctx, memory, PIECE, 4096), 0);
	assert_int_equal(started, 0);
	assert_int_equal(hpi_populate(ctx, memory, 2 * PIECE, 4096), 0);
	assert_int_equal(started, cpus() > 1);
	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_context_destroy(alone), 0);
}

/* Two threads at one page would wait for each other. */
static void no_page_is_cut(void **state)
{
	(void)state;
	watch_calls();
	assert_int_equal(hpi_populate(ctx, memory, 4 * PIECE, 2 * PIECE), 0);
	assert_int_equal(asked, 2);
}

static void a_thread_that_cannot_be_started_is_done_without(void **state)
{
	(void)state;
	watch_calls();
	threads_fail = true;
	hpi_error_clear();
	assert_int_equal(hpi_populate(ctx, memory, BYTES, 4096), 0);
	assert_int_equal(started, cpus() > 1);
	assert_int_equal(resident_pages(), BYTES / 4096);
	assert_string_equal(hugepin_error(), "");
}

static void a_piece_that_fails_is_the_answer_and_ends_it(void **state)
{
	(void)state;
	watch_calls();
	fail_from = 2;
	failure = ENOMEM;
	assert_int_equal(hpi_populate(ctx, memory, BYTES, 4096), -ENOMEM);
	assert_true(asked <= 1 + 4);		/* those that were at it already */
}

static void a_kernel_that_cannot_populate_is_made_to_by_reading(void **state)
{
	(void)state;
	watch_calls();
	fail_from = 1;
	failure = EINVAL;
	assert_int_equal(hpi_populate(ctx, memory, BYTES, 4096), 0);
	assert_int_equal(resident_pages(), BYTES / 4096);
}

/* The thread's own CPUs do not count, the process's do (thread.c). */
static void *populate_pinned(void *arg)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	(void)arg;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(hpi_populate(ctx, memory, 2 * PIECE, 4096), 0);
	return NULL;
}

static void a_pinned_thread_is_helped_by_the_processs_cpus(void **state)
{
	pthread_t thread;

	(void)state;
	watch_calls();
	assert_int_equal(pthread_create(&thread, NULL, populate_pinned, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(started, cpus() > 1);
}

static void helpers_are_on_the_callers_node(void **state)
{
	struct hpi_topology two = { .count = 2 };
	char name[64], list[32];
	cpu_set_t process, near;
	struct tree tree;
	int cpu = 0, node = hpi_topology_local_node();

	(void)state;
	assert_true(node >= 0);
	assert_int_equal(sched_getaffinity(getpid(), sizeof(process), &process), 0);
	while (!CPU_ISSET(cpu, &process))
		cpu++;
	tree_make(&tree);
	snprintf(name, sizeof(name), "sys/devices/system/node/node%d/cpulist", node);

	/* of the process's CPUs the one that is on the node; the other is not the process's */
	snprintf(list, sizeof(list), "%d,1023\n", cpu);
	tree_write(&tree, name, list);
	assert_int_equal(hpi_thread_cpus_near(tree.root, &two, &near), 0);
	assert_int_equal(CPU_COUNT(&near), CPU_ISSET(1023, &process) ? 2 : 1);
	assert_true(CPU_ISSET(cpu, &near));

	tree_write(&tree, name, "1022-1023,1024\n");	/* more CPUs than we know */
	assert_int_equal(hpi_thread_cpus_near(tree.root, &two, &near), -ERANGE);
	tree_write(&tree, name, "a\n");
	assert_int_equal(hpi_thread_cpus_near(tree.root, &two, &near), -EINVAL);
	assert_int_equal(hpi_thread_cpus_near("/nowhere", &two, &near), -ENOENT);

	/* this thread is where the process may not be: nobody can help it there */
	snprintf(list, sizeof(list), "%d\n", CPU_ISSET(1023, &process) ? 1022 : 1023);
	tree_write(&tree, name, list);
	assert_int_equal(hpi_thread_cpus_near(tree.root, &two, &near), -ENODEV);

	/* one node has them all */
	two.count = 1;
	assert_int_equal(hpi_thread_cpus_near("/nowhere", &two, &near), 0);
	assert_true(CPU_EQUAL(&near, &process));
	tree_remove(&tree, "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_page_is_brought_in_by_several_threads, prepare, clear),
		cmocka_unit_test_setup_teardown(no_more_threads_than_asked_for_and_pieces, prepare, clear),
		cmocka_unit_test_setup_teardown(no_page_is_cut, prepare, clear),
		cmocka_unit_test_setup_teardown(a_thread_that_cannot_be_started_is_done_without, prepare, clear),
		cmocka_unit_test_setup_teardown(a_piece_that_fails_is_the_answer_and_ends_it, prepare, clear),
		cmocka_unit_test_setup_teardown(a_kernel_that_cannot_populate_is_made_to_by_reading, prepare, clear),
		cmocka_unit_test_setup_teardown(a_pinned_thread_is_helped_by_the_processs_cpus, prepare, clear),
		cmocka_unit_test(helpers_are_on_the_callers_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
