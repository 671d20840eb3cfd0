// SPDX-License-Identifier: MIT
/*
 * Pools on the machine's own 2M pages: what is given back is really free again, whatever way a process ends. Needs
 * root and some free memory in whole 2M pages, and is skipped without; the number of huge pages is put back after
 * each test.
 */
#include "pool_world.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define KNOBS		"/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define NR_HUGEPAGES	KNOBS "nr_hugepages"
#define FREE_HUGEPAGES	KNOBS "free_hugepages"

static char before[32];				/* the knob's text, "" when it was not changed */

static int setup(void **state)
{
	before[0] = '\0';
	return world_setup(state);
}

static int teardown(void **state)
{
	if (before[0])
		assert_int_equal(hpi_sys_write_file(NR_HUGEPAGES, before), 0);
	return world_teardown(state);
}

static uint64_t knob(const char *path)
{
	char text[32];
	uint64_t n;

	assert_int_equal(hpi_sys_read_file(path, text, sizeof(text)), 0);
	assert_int_equal(hpi_size_parse_uint(text, &n), 0);
	return n;
}

static void want_free_pages(uint64_t pages)
{
	char text[32];

	if (hpi_sys_read_file(NR_HUGEPAGES, before, sizeof(before)))
		skip();
	snprintf(text, sizeof(text), "%lu", knob(NR_HUGEPAGES) + pages);
	if (hpi_sys_write_file(NR_HUGEPAGES, text) || knob(FREE_HUGEPAGES) < pages)
		skip();
}

static struct hugepin_pool *huge_pool(enum hugepin_pool_kind kind)
{
	return make_pool(make_context("host_ladder", "hugetlb:2M", "pinned_ladder", "hugetlb:2M", NULL), kind);
}

/* C003 */
static void trim_gives_huge_pages_back_to_the_kernel(void **state)
{
	struct hugepin_pool *pool;
	uint64_t free_pages;
	size_t i, round;
	char *p[8];

	(void)state;
	want_free_pages(128);
	free_pages = knob(FREE_HUGEPAGES);
	pool = huge_pool(HUGEPIN_POOL_PINNED);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 8; i++) {
			p[i] = take(pool, HPI_MIB(16) - i);
			memset(p[i], 1, HPI_MIB(16) - i);
			assert_int_equal(segment_of_block(pool, p[i]).page_bytes, HPI_2M);
		}
		assert_int_equal(knob(FREE_HUGEPAGES), free_pages - 64);
		for (i = 0; i < 8; i++)
			give(pool, p[i]);
		assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(128));
		assert_int_equal(knob(FREE_HUGEPAGES), free_pages);
	}
	end_pool(pool);
}

static void end_of_the_pool_gives_huge_pages_back(void **state)
{
	struct hugepin_pool *pool;
	uint64_t free_pages;

	(void)state;
	want_free_pages(16);
	free_pages = knob(FREE_HUGEPAGES);
	pool = huge_pool(HUGEPIN_POOL_HOST);
	give(pool, take(pool, HPI_MIB(32)));
	assert_int_equal(knob(FREE_HUGEPAGES), free_pages - 16);
	end_pool(pool);
	assert_int_equal(knob(FREE_HUGEPAGES), free_pages);
}

/* C031: a start that finds too few pages says have and need, holds none of them, and does not stand in the next one's way. */
static void a_start_with_too_few_huge_pages_leaves_all_of_them_for_the_next(void **state)
{
	char have[32], need[32], more[32];
	struct hugepin_pool *pool;
	uint64_t free_pages;

	(void)state;
	want_free_pages(50);
	free_pages = knob(FREE_HUGEPAGES);
	snprintf(have, sizeof(have), "%lu", free_pages);
	snprintf(need, sizeof(need), "%lu", free_pages + 50);
	snprintf(more, sizeof(more), "%lu", knob(NR_HUGEPAGES) + 50);
	pool = huge_pool(HUGEPIN_POOL_HOST);
	assert_null(hugepin_alloc(pool, (free_pages + 50) * HPI_2M, 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), have));
	assert_non_null(strstr(hugepin_error(), need));
	assert_int_equal(knob(FREE_HUGEPAGES), free_pages);
	end_pool(pool);
	if (hpi_sys_write_file(NR_HUGEPAGES, more) || knob(FREE_HUGEPAGES) < free_pages + 50)
		skip();
	pool = huge_pool(HUGEPIN_POOL_HOST);
	give(pool, take(pool, (free_pages + 50) * HPI_2M));
	end_pool(pool);
	assert_int_equal(knob(FREE_HUGEPAGES), free_pages + 50);
}

/* Takes 177 pages, says so and ends as it is told: by a signal from outside, or by its own doing. */
static void take_and_die(int told_fd, int signal_number)
{
	struct hugepin_pool *pool = huge_pool(HUGEPIN_POOL_HOST);
	char *p = hugepin_alloc(pool, 177 * HPI_2M, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);	/* a test that is killed must not leave the pages taken */
	if (!p || write(told_fd, "x", 1) != 1)
		_exit(1);
	if (signal_number == SIGABRT)
		abort();
	pause();
	_exit(1);
}

/* C030: 256 pages are free, 177 are taken; whatever kills the process, all 256 can be had at once afterwards. */
static void a_killed_process_leaves_no_huge_page_behind(void **state)
{
	static const int signals[] = { SIGKILL, SIGINT, SIGSEGV, SIGABRT };
	struct hugepin_pool *pool;
	int pipes[2], status;
	uint64_t free_pages;
	char byte;
	size_t i;
	pid_t pid;

	(void)state;
	want_free_pages(256);
	free_pages = knob(FREE_HUGEPAGES);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		assert_int_equal(pipe(pipes), 0);
		pid = fork();
		if (!pid) {
			signal(signals[i], SIG_DFL);
			take_and_die(pipes[1], signals[i]);
		}
		close(pipes[1]);
		assert_int_equal(read(pipes[0], &byte, 1), 1);
		if (signals[i] != SIGABRT) {
			assert_int_equal(knob(FREE_HUGEPAGES), free_pages - 177);
			assert_int_equal(kill(pid, signals[i]), 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		close(pipes[0]);
		assert_int_equal(knob(FREE_HUGEPAGES), free_pages);
	}
	pool = huge_pool(HUGEPIN_POOL_HOST);
	give(pool, take(pool, 256 * HPI_2M));
	end_pool(pool);
}

static int child_tries_to_grow(struct hugepin_pool *pool, char *p)
{
	size_t i;

	for (i = 0; i < HPI_MIB(12); i += 4096)
		p[i] = 1;
	for (i = 0; i < 3; i++) {
		if (hugepin_alloc(pool, HPI_MIB(4), 0) || errno != EPERM)
			return 1;
	}
	return 0;
}

/* C023: parent and child do not grow the same file. */
static void a_child_does_not_grow_its_parents_huge_page_files(void **state)
{
	struct hugepin_pool *pool;
	char *p, *q[3];
	int status;
	size_t i;
	pid_t pid;

	(void)state;
	want_free_pages(16);
	pool = huge_pool(HUGEPIN_POOL_HOST);
	p = take(pool, HPI_MIB(12));
	pid = fork();
	if (!pid)
		_exit(child_tries_to_grow(pool, p));
	for (i = 0; i < 3; i++) {
		q[i] = take(pool, HPI_MIB(4));
		memset(q[i], 2, HPI_MIB(4));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	give(pool, p);
	for (i = 0; i < 3; i++)
		give(pool, q[i]);
	end_pool(pool);
}

int main(void)
{
#define HUGE_TEST(name)	cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		HUGE_TEST(trim_gives_huge_pages_back_to_the_kernel),
		HUGE_TEST(end_of_the_pool_gives_huge_pages_back),
		HUGE_TEST(a_start_with_too_few_huge_pages_leaves_all_of_them_for_the_next),
		HUGE_TEST(a_killed_process_leaves_no_huge_page_behind),
		HUGE_TEST(a_child_does_not_grow_its_parents_huge_page_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
