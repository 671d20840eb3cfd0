// SPDX-License-Identifier: MIT
/* System calls as the library makes them: -errno, injected faults, whole files and lines. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <linux/magic.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "internal.h"
#include "tree.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct tree tree;

static int make_tree(void **state)
{
	(void)state;
	tree_make(&tree);
	return 0;
}

static int remove_tree(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	tree_remove(&tree, "");
	return 0;
}

/* ---- Injected faults ---- */

static const char *fault_call;
static int fault_errno;

static int one_fault(const char *call)
{
	return strcmp(call, fault_call) ? 0 : fault_errno;
}

static char page[4096] __attribute__((aligned(4096)));

static int try_open(void)
{
	return hpi_sys_open("/dev/null", O_RDONLY, 0);
}

static int try_mmap(void)
{
	void *p;

	return hpi_sys_mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &p);
}

static int try_munmap(void)
{
	return hpi_sys_munmap(page, sizeof(page));
}

static int try_ioctl(void)
{
	int n;

	return hpi_sys_ioctl(0, FIONREAD, &n);
}

static int try_madvise(void)
{
	return hpi_sys_madvise(page, sizeof(page), MADV_NORMAL);
}

static int try_mlock(void)
{
	return hpi_sys_mlock(page, sizeof(page));
}

static int try_munlock(void)
{
	return hpi_sys_munlock(page, sizeof(page));
}

static int try_memfd(void)
{
	return hpi_sys_memfd("test", 0);
}

static int try_ftruncate(void)
{
	return hpi_sys_ftruncate(0, 1);
}

static int try_unlink(void)
{
	return hpi_sys_unlink(tree_path(&tree, "kept"));
}

static int try_openat(void)
{
	return hpi_sys_open_at(AT_FDCWD, "/dev/null", O_RDONLY);
}

static int try_unlinkat(void)
{
	return hpi_sys_unlink_at(AT_FDCWD, tree_path(&tree, "kept"));
}

static int try_fstatfs(void)
{
	uint64_t magic;

	return hpi_sys_file_system(0, &magic);
}

static int try_getcpu(void)
{
	return hpi_sys_local_node();
}

static int try_read(void)
{
	char text[8];

	return hpi_sys_read_file(tree_path(&tree, "kept"), text, sizeof(text));
}

static int try_write(void)
{
	return hpi_sys_write_file(tree_path(&tree, "kept"), "x");
}

static void injected_fault_comes_back_as_its_errno_and_nothing_is_done(void **state)
{
	static const struct {
		const char *call;
		int (*try)(void);
	} table[] = {
		{ "open", try_open }, { "mmap", try_mmap }, { "munmap", try_munmap }, { "ioctl", try_ioctl },
		{ "madvise", try_madvise }, { "mlock", try_mlock }, { "munlock", try_munlock }, { "memfd", try_memfd },
		{ "ftruncate", try_ftruncate }, { "unlink", try_unlink }, { "getcpu", try_getcpu },
		{ "read", try_read },
		{ "write", try_write }, { "openat", try_openat }, { "unlinkat", try_unlinkat },
		{ "fstatfs", try_fstatfs },
	};
	/* EPERM is 1: as -1 it must not be taken for a system call's "look at errno". */
	static const int errnos[] = { EPERM, ENOMEM, EINTR };
	size_t i, j;

	(void)state;
	tree_write(&tree, "kept", "");
	hpi_sys_fault = one_fault;
	for (i = 0; i < COUNT(table); i++) {
		for (j = 0; j < COUNT(errnos); j++) {
			fault_call = table[i].call;
			fault_errno = errnos[j];
			errno = EBADF;
			assert_int_equal(table[i].try(), -errnos[j]);
		}
	}
	assert_int_equal(access(tree_path(&tree, "kept"), F_OK), 0);
	page[0] = 1;			/* still mapped */
	hpi_sys_fault = NULL;
}

static void real_failure_comes_back_as_its_errno(void **state)
{
	uint64_t magic = 77;
	void *p = page;
	int n;

	(void)state;
	assert_int_equal(hpi_sys_open("/nowhere/at/all", O_RDONLY, 0), -ENOENT);
	assert_int_equal(hpi_sys_mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &p), -EINVAL);
	assert_int_equal(hpi_sys_mmap(NULL, 4096, PROT_READ, MAP_SHARED, -1, 0, &p), -EBADF);
	assert_ptr_equal(p, page);
	assert_int_equal(hpi_sys_munmap(page + 1, 1), -EINVAL);
	assert_int_equal(hpi_sys_ioctl(-1, FIONREAD, &n), -EBADF);
	assert_int_equal(hpi_sys_madvise(page + 1, 1, MADV_NORMAL), -EINVAL);
	if (mlock(NULL, 4096)) {	/* the sanitizers' mlock() does nothing, successfully */
		assert_int_equal(hpi_sys_mlock(NULL, 4096), -ENOMEM);
		assert_int_equal(hpi_sys_munlock(NULL, 4096), -ENOMEM);
	}
	assert_int_equal(hpi_sys_memfd("test", ~0u), -EINVAL);
	assert_int_equal(hpi_sys_ftruncate(-1, 1), -EBADF);
	assert_int_equal(hpi_sys_ftruncate(-1, UINT64_MAX), -EFBIG);
	assert_int_equal(hpi_sys_unlink("/nowhere/at/all"), -ENOENT);
	assert_int_equal(hpi_sys_open_at(AT_FDCWD, "/nowhere/at/all", O_RDONLY), -ENOENT);
	assert_int_equal(hpi_sys_open_at(-1, "relative", O_RDONLY), -EBADF);
	assert_int_equal(hpi_sys_unlink_at(AT_FDCWD, "/nowhere/at/all"), -ENOENT);
	assert_int_equal(hpi_sys_file_system(-1, &magic), -EBADF);
	assert_int_equal(magic, 77);
	assert_int_equal(hpi_sys_write_file("/nowhere/at/all", "1"), -ENOENT);
	assert_int_equal(hpi_sys_write_file("/dev/full", "1"), -ENOSPC);
}

static void calls_do_what_they_are_named_for(void **state)
{
	void *p = NULL;
	int fd = hpi_sys_memfd("test", 0);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(hpi_sys_ftruncate(fd, 8192), 0);
	assert_int_equal(hpi_sys_mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0, &p), 0);
	memset(p, 1, 8192);
	assert_int_equal(hpi_sys_madvise(p, 8192, MADV_DONTNEED), 0);
	assert_int_equal(hpi_sys_munmap(p, 8192), 0);
	errno = EPIPE;
	hpi_sys_close(fd);
	hpi_sys_close(fd);		/* fails now */
	hpi_sys_close(-1);
	assert_int_equal(errno, EPIPE);
	fd = hpi_sys_open(tree_path(&tree, "new"), O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	hpi_sys_close(fd);
	assert_int_equal(hpi_sys_unlink(tree_path(&tree, "new")), 0);
	assert_true(hpi_sys_local_node() >= 0);
	assert_false(hpi_sys_secure());
}

/* ---- Whole files ---- */

static void names_in_a_directory_are_not_followed_elsewhere(void **state)
{
	uint64_t magic = 0;
	int dir = hpi_sys_open("/proc/self", O_RDONLY | O_DIRECTORY, 0), tmp, fd;

	(void)state;
	assert_true(dir >= 0);
	assert_int_equal(hpi_sys_file_system(dir, &magic), 0);
	assert_int_equal(magic, PROC_SUPER_MAGIC);
	hpi_sys_close(dir);
	tmp = hpi_sys_open(tree.root, O_RDONLY | O_DIRECTORY, 0);
	assert_true(tmp >= 0);
	tree_write(&tree, "file", "x");
	assert_int_equal(symlinkat("file", tmp, "link"), 0);
	assert_int_equal(hpi_sys_open_at(tmp, "link", O_RDONLY), -ELOOP);
	fd = hpi_sys_open_at(tmp, "file", O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	hpi_sys_close(fd);
	assert_int_equal(hpi_sys_unlink_at(tmp, "link"), 0);
	assert_int_equal(access(tree_path(&tree, "file"), F_OK), 0);
	hpi_sys_close(tmp);
}

static void small_file_is_read_whole_or_not(void **state)
{
	char text[8];

	(void)state;
	tree_write(&tree, "f", "1234567");
	assert_int_equal(hpi_sys_read_file(tree_path(&tree, "f"), text, sizeof(text)), 0);
	assert_string_equal(text, "1234567");
	tree_write(&tree, "f", "12345678");
	assert_int_equal(hpi_sys_read_file(tree_path(&tree, "f"), text, sizeof(text)), -EFBIG);
	tree_write(&tree, "f", "two\n\n");
	assert_int_equal(hpi_sys_read_file(tree_path(&tree, "f"), text, sizeof(text)), 0);
	assert_string_equal(text, "two\n");
	tree_write(&tree, "f", "");
	assert_int_equal(hpi_sys_read_file(tree_path(&tree, "f"), text, sizeof(text)), 0);
	assert_string_equal(text, "");
	tree_write_bytes(&tree, "f", "a\0b", 3);
	assert_int_equal(hpi_sys_read_file(tree_path(&tree, "f"), text, sizeof(text)), -EILSEQ);
	assert_int_equal(hpi_sys_read_file(tree.root, text, sizeof(text)), -EISDIR);
	assert_int_equal(hpi_sys_read_file(tree_path(&tree, "none"), text, sizeof(text)), -ENOENT);
}

static void written_file_holds_just_the_text(void **state)
{
	char text[16];

	(void)state;
	tree_write(&tree, "knob", "a longer one");
	assert_int_equal(hpi_sys_write_file(tree_path(&tree, "knob"), "12"), 0);
	assert_int_equal(hpi_sys_read_file(tree_path(&tree, "knob"), text, sizeof(text)), 0);
	assert_string_equal(text, "12");
}

static void count_signal(int signal)
{
	(void)signal;
}

static void reading_goes_on_after_a_signal(void **state)
{
	struct sigaction action = { .sa_handler = count_signal }, old;
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { { 0, 0 }, { 0, 0 } };
	char text[8] = "";
	int ends[2], status;
	int64_t got;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(sigaction(SIGALRM, &action, &old), 0);		/* no SA_RESTART */
	child = fork();
	if (!child) {
		usleep(50000);
		if (write(ends[1], "abc", 3) != 3)
			_exit(1);
		usleep(50000);
		_exit(write(ends[1], "de", 2) != 2);
	}
	close(ends[1]);
	setitimer(ITIMER_REAL, &often, NULL);
	got = hpi_sys_read(ends[0], text, sizeof(text));
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(got, 5);
	assert_string_equal(text, "abcde");
	close(ends[0]);
}

/* ---- Lines ---- */

struct lines {
	unsigned int count, stop_at;
	int stop_with;
	size_t bytes;
	char last[64];
};

static int count_line(char *line, size_t length, void *arg)
{
	struct lines *lines = arg;

	lines->count++;
	lines->bytes += length;
	snprintf(lines->last, sizeof(lines->last), "%s", line);
	return lines->count == lines->stop_at ? lines->stop_with : 0;
}

static void lines_are_handed_out_with_or_without_a_last_newline(void **state)
{
	static const struct {
		const char *text, *last;
		unsigned int count;
	} table[] = {
		{ "", "", 0 }, { "\n", "", 1 }, { "a", "a", 1 }, { "a\n", "a", 1 }, { "a\nb", "b", 2 },
		{ "a\n\nb\n\n", "", 4 },
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(table); i++) {
		struct lines lines = { 0 };

		tree_write(&tree, "f", table[i].text);
		assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "f"), 100, count_line, &lines), 0);
		assert_int_equal(lines.count, table[i].count);
		assert_string_equal(lines.last, table[i].last);
	}
}

/* Line ends fall on every place of the reader's window, also a line that just fills it. */
static void lines_of_every_length_arrive_whole(void **state)
{
	static char text[9002];
	size_t length;

	(void)state;
	for (length = 0; length <= 9000; length += length > 4000 && length < 4200 ? 1 : 61) {
		struct lines lines = { 0 };

		memset(text, 'x', length);
		text[length] = '\n';
		tree_write_bytes(&tree, "f", text, length + 1);
		assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "f"), 9000, count_line, &lines), 0);
		assert_int_equal(lines.count, 1);
		assert_int_equal(lines.bytes, length);
		tree_write_bytes(&tree, "f", text, length);
		memset(&lines, 0, sizeof(lines));
		assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "f"), 9000, count_line, &lines), 0);
		assert_int_equal(lines.bytes, length);
	}
}

static void line_longer_than_allowed_is_refused(void **state)
{
	struct lines lines = { 0 };

	(void)state;
	tree_write(&tree, "f", "short\n12345678901\n");
	assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "f"), 10, count_line, &lines), -EFBIG);
	assert_int_equal(lines.count, 1);
	assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "f"), 11, count_line, &lines), 0);
	/* Endless without a line end: refused before memory runs out. */
	assert_int_equal(truncate(tree_path(&tree, "f"), 2 * HPI_SYS_LINE_MAX), 0);
	assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "f"), HPI_SYS_LINE_MAX, count_line, &lines), -EFBIG);
}

static void line_function_can_end_the_reading(void **state)
{
	struct lines good = { .stop_at = 2, .stop_with = 1 }, bad = { .stop_at = 2, .stop_with = -EDOM };

	(void)state;
	tree_write(&tree, "f", "a\nb\nc\n");
	assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "f"), 10, count_line, &good), 0);
	assert_int_equal(good.count, 2);
	assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "f"), 10, count_line, &bad), -EDOM);
	assert_int_equal(bad.count, 2);
	assert_int_equal(hpi_sys_read_lines(tree_path(&tree, "none"), 10, count_line, &bad), -ENOENT);
	assert_int_equal(hpi_sys_read_lines(tree.root, 10, count_line, &bad), -EISDIR);
	assert_int_equal(bad.count, 2);
}

static void field_is_found_by_its_key(void **state)
{
	char value[8];

	(void)state;
	tree_write(&tree, "status", "Name:\ta b\nTotal:   12 kB\nEmpty:\nTotal: 13\nLong: 12345678\n");
	assert_int_equal(hpi_sys_read_field(tree_path(&tree, "status"), "Total:", value, sizeof(value)), 0);
	assert_string_equal(value, "12 kB");
	assert_int_equal(hpi_sys_read_field(tree_path(&tree, "status"), "Name:", value, sizeof(value)), 0);
	assert_string_equal(value, "a b");
	assert_int_equal(hpi_sys_read_field(tree_path(&tree, "status"), "Empty:", value, sizeof(value)), 0);
	assert_string_equal(value, "");
	assert_int_equal(hpi_sys_read_field(tree_path(&tree, "status"), "otal:", value, sizeof(value)), -ENODATA);
	assert_int_equal(hpi_sys_read_field(tree_path(&tree, "status"), "Long:", value, sizeof(value)), -EFBIG);
	assert_int_equal(hpi_sys_read_field(tree_path(&tree, "none"), "Total:", value, sizeof(value)), -ENOENT);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, make_tree, remove_tree)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(injected_fault_comes_back_as_its_errno_and_nothing_is_done),
		TEST(real_failure_comes_back_as_its_errno),
		TEST(calls_do_what_they_are_named_for),
		TEST(names_in_a_directory_are_not_followed_elsewhere),
		TEST(small_file_is_read_whole_or_not),
		TEST(written_file_holds_just_the_text),
		TEST(reading_goes_on_after_a_signal),
		TEST(lines_are_handed_out_with_or_without_a_last_newline),
		TEST(lines_of_every_length_arrive_whole),
		TEST(line_longer_than_allowed_is_refused),
		TEST(line_function_can_end_the_reading),
		TEST(field_is_found_by_its_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
