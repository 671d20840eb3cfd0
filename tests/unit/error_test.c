// SPDX-License-Identifier: MIT
/* The thread's error text and the log. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "internal.h"

static int clear_error(void **state)
{
	(void)state;
	hpi_error_clear();
	return 0;
}

static void text_is_empty_until_something_fails(void **state)
{
	(void)state;
	assert_string_equal(hugepin_error(), "");
}

static void error_returns_its_code_and_keeps_errno(void **state)
{
	(void)state;
	errno = EBADF;
	assert_int_equal(hpi_error(-ENOMEM, "asked %d, available %d", 5, 3), -ENOMEM);
	assert_int_equal(errno, EBADF);
	assert_string_equal(hugepin_error(), "asked 5, available 3");
}

static void later_error_replaces_the_text(void **state)
{
	(void)state;
	hpi_error(-EINVAL, "a first and longer text");
	hpi_error(-EINVAL, "second");
	assert_string_equal(hugepin_error(), "second");
}

static void old_text_may_be_part_of_the_new_one(void **state)
{
	(void)state;
	hpi_error(-EINVAL, "inner");
	hpi_error(-EIO, "outer: %s (%s)", hugepin_error(), hugepin_error());
	assert_string_equal(hugepin_error(), "outer: inner (inner)");
	hpi_error_add(-EIO, "%s", hugepin_error());
	assert_string_equal(hugepin_error(), "outer: inner (inner); outer: inner (inner)");
}

static void added_text_is_separated_once(void **state)
{
	(void)state;
	assert_int_equal(hpi_error_add(-EDQUOT, "alone"), -EDQUOT);
	assert_string_equal(hugepin_error(), "alone");
	hpi_error_add(-EDQUOT, "second %d", 2);
	hpi_error_add(-EDQUOT, ", third");
	hpi_error_add(-EDQUOT, " (fourth)");
	assert_string_equal(hugepin_error(), "alone; second 2, third (fourth)");
}

static void long_text_ends_in_an_ellipsis(void **state)
{
	char *big = malloc(5000);
	size_t length;
	int i;

	(void)state;
	assert_non_null(big);
	memset(big, 'x', 4999);
	big[4999] = '\0';
	hpi_error(-EINVAL, "%s", big);
	length = strlen(hugepin_error());
	assert_int_equal(length, 1023);
	assert_string_equal(hugepin_error() + length - 4, "x...");
	/* Adding to a full text neither overruns it nor hides that something is missing. */
	for (i = 0; i < 100; i++)
		hpi_error_add(-EINVAL, "%s", i & 1 ? big : "y");
	length = strlen(hugepin_error());
	assert_true(length <= 1023);
	assert_non_null(strstr(hugepin_error() + length - 8, "..."));
	free(big);
}

static void text_of_just_the_buffers_length_is_whole(void **state)
{
	char text[1024];

	(void)state;
	memset(text, 'x', 1023);
	text[1023] = '\0';
	hpi_error(-EINVAL, "%s", text);
	assert_string_equal(hugepin_error(), text);
}

static void text_is_one_line_of_printable_bytes(void **state)
{
	(void)state;
	hpi_error(-EINVAL, "value \"%s\"", "a\nb\tc\033[31m\x7f" "d\303\274");
	assert_string_equal(hugepin_error(), "value \"a?b?c?[31m?d\303\274\"");
}

static void *other_thread(void *arg)
{
	*(bool *)arg = !*hugepin_error();
	hpi_error(-EINVAL, "of the other thread");
	return NULL;
}

static void text_belongs_to_its_thread(void **state)
{
	pthread_t thread;
	bool empty = false;

	(void)state;
	hpi_error(-EINVAL, "of this thread");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &empty), 0);
	pthread_join(thread, NULL);
	assert_true(empty);
	assert_string_equal(hugepin_error(), "of this thread");
}

/* ---- Log ---- */

struct record {
	int lines;
	enum hugepin_log_level level;
	char line[1100];
};

static void record_line(enum hugepin_log_level level, const char *line, void *arg)
{
	struct record *record = arg;

	record->lines++;
	record->level = level;
	snprintf(record->line, sizeof(record->line), "%s", line);
	errno = ENOTTY;
}

static void log_hands_over_lines_up_to_its_level(void **state)
{
	struct record record = { 0 };

	(void)state;
	hugepin_log_set(record_line, &record, HUGEPIN_LOG_WARNING);
	errno = EBADF;
	hpi_log(HUGEPIN_LOG_INFO, "not wanted");
	assert_int_equal(record.lines, 0);
	hpi_log(HUGEPIN_LOG_WARNING, "node %d\nshort", 3);
	assert_int_equal(record.lines, 1);
	assert_int_equal(record.level, HUGEPIN_LOG_WARNING);
	assert_string_equal(record.line, "node 3?short");
	assert_int_equal(errno, EBADF);
	hpi_log(HUGEPIN_LOG_ERROR, "worse");
	assert_int_equal(record.lines, 2);
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_DEBUG);
	hpi_log(HUGEPIN_LOG_ERROR, "to nobody");
	assert_int_equal(record.lines, 2);
}

static void log_line_leaves_the_error_text_alone(void **state)
{
	struct record record = { 0 };

	(void)state;
	hugepin_log_set(record_line, &record, HUGEPIN_LOG_DEBUG);
	hpi_error(-EINVAL, "kept");
	hpi_log(HUGEPIN_LOG_ERROR, "%s", "line");
	assert_string_equal(hugepin_error(), "kept");
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_ERROR);
}

static atomic_bool talking;
static atomic_int torn;

static void expect_pair(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	if (*(int *)arg != 'e')
		torn++;
}

static void expect_other_pair(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	if (*(int *)arg != 'o')
		torn++;
}

static void *talk(void *arg)
{
	(void)arg;
	while (talking)
		hpi_log(HUGEPIN_LOG_ERROR, "line");
	return NULL;
}

/* The old argument is spoilt as soon as the function is replaced: a late call with it would be seen. */
static void replaced_log_function_is_never_called_again(void **state)
{
	pthread_t threads[4];
	int i, arg[2];

	(void)state;
	talking = true;
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, talk, NULL), 0);
	for (i = 0; i < 2000; i++) {
		arg[i % 2] = i % 2 ? 'e' : 'o';
		hugepin_log_set(i % 2 ? expect_pair : expect_other_pair, &arg[i % 2], HUGEPIN_LOG_DEBUG);
		arg[1 - i % 2] = 0;
	}
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_ERROR);
	talking = false;
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(torn, 0);
}

static void slow_line(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	atomic_store((atomic_bool *)arg, true);
	usleep(200000);
}

static void *log_one(void *arg)
{
	(void)arg;
	hpi_log(HUGEPIN_LOG_ERROR, "slow");
	return NULL;
}

static void fork_during_a_callback_leaves_a_usable_log(void **state)
{
	struct record record = { 0 };
	atomic_bool inside = false;
	pthread_t thread;
	int status;
	pid_t child;

	(void)state;
	hugepin_log_set(slow_line, &inside, HUGEPIN_LOG_ERROR);
	assert_int_equal(pthread_create(&thread, NULL, log_one, NULL), 0);
	while (!inside)
		usleep(1000);
	child = fork();
	if (!child) {
		alarm(10);
		hugepin_log_set(record_line, &record, HUGEPIN_LOG_ERROR);
		hpi_log(HUGEPIN_LOG_ERROR, "in the child");
		_exit(record.lines == 1 ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pthread_join(thread, NULL);
	hugepin_log_set(NULL, NULL, HUGEPIN_LOG_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_empty_until_something_fails),
		cmocka_unit_test_setup(error_returns_its_code_and_keeps_errno, clear_error),
		cmocka_unit_test_setup(later_error_replaces_the_text, clear_error),
		cmocka_unit_test_setup(old_text_may_be_part_of_the_new_one, clear_error),
		cmocka_unit_test_setup(added_text_is_separated_once, clear_error),
		cmocka_unit_test_setup(long_text_ends_in_an_ellipsis, clear_error),
		cmocka_unit_test_setup(text_of_just_the_buffers_length_is_whole, clear_error),
		cmocka_unit_test_setup(text_is_one_line_of_printable_bytes, clear_error),
		cmocka_unit_test_setup(text_belongs_to_its_thread, clear_error),
		cmocka_unit_test(log_hands_over_lines_up_to_its_level),
		cmocka_unit_test(log_line_leaves_the_error_text_alone),
		cmocka_unit_test(replaced_log_function_is_never_called_again),
		cmocka_unit_test(fork_during_a_callback_leaves_a_usable_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
