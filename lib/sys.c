// SPDX-License-Identifier: MIT
/*
 * System calls: the one place where errno becomes -errno, and where tests make a call fail.
 *
 * Calls that may simply be made again after a signal are; the ones that did something before it came (ioctl, writing a
 * knob) report -EINTR, since only their caller knows what that means.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

_Static_assert(sizeof(size_t) == sizeof(uint64_t) && sizeof(off_t) == sizeof(uint64_t), "sizes are 64 bits wide");

int (*hpi_sys_fault)(const char *call);

static int fault(const char *call)
{
	return hpi_sys_fault ? -hpi_sys_fault(call) : 0;
}

/* 0 or -errno from a call that answers -1 on failure. */
static int status(int result)
{
	return result < 0 ? -errno : 0;
}

int hpi_sys_open(const char *path, int flags, unsigned int mode)
{
	int fd = fault("open");

	if (fd)
		return fd;
	do
		fd = open(path, flags | O_CLOEXEC, mode);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

/* Never repeated: Linux has given the descriptor back even when it says EINTR. */
void hpi_sys_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
}

int hpi_sys_mmap(void *addr, uint64_t bytes, int prot, int flags, int fd, uint64_t offset, void **out)
{
	int err = fault("mmap");
	void *mapped;

	if (err)
		return err;
	mapped = mmap(addr, bytes, prot, flags, fd, (off_t)offset);
	if (mapped == MAP_FAILED)
		return -errno;
	*out = mapped;
	return 0;
}

int hpi_sys_munmap(void *addr, uint64_t bytes)
{
	int err = fault("munmap");

	return err ? err : status(munmap(addr, bytes));
}

int hpi_sys_ioctl(int fd, unsigned long request, void *arg)
{
	int err = fault("ioctl");

	if (err)
		return err;
	err = ioctl(fd, request, arg);
	return err < 0 ? -errno : err;
}

int hpi_sys_madvise(void *addr, uint64_t bytes, int advice)
{
	int err = fault("madvise");

	if (err)
		return err;
	do
		err = status(madvise(addr, bytes, advice));
	while (err == -EINTR);
	return err;
}

int hpi_sys_membarrier(int command)
{
	int err = fault("membarrier");

	return err ? err : status((int)syscall(__NR_membarrier, command, 0, 0));
}

int hpi_sys_mlock(const void *addr, uint64_t bytes)
{
	int err = fault("mlock");

	if (err)
		return err;
	do
		err = status(mlock(addr, bytes));
	while (err == -EINTR);
	return err;
}

int hpi_sys_munlock(const void *addr, uint64_t bytes)
{
	int err = fault("munlock");

	return err ? err : status(munlock(addr, bytes));
}

int hpi_sys_memfd(const char *name, unsigned int flags)
{
	int fd = fault("memfd");

	if (fd)
		return fd;
	fd = memfd_create(name, flags | MFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Over RLIMIT_FSIZE the kernel would not only refuse but send SIGXFSZ, which ends the process. */
int hpi_sys_ftruncate(int fd, uint64_t bytes)
{
	int err = fault("ftruncate");
	struct rlimit limit;

	if (err)
		return err;
	if (bytes > INT64_MAX || (!getrlimit(RLIMIT_FSIZE, &limit) && bytes > limit.rlim_cur))
		return -EFBIG;
	do
		err = status(ftruncate(fd, (off_t)bytes));
	while (err == -EINTR);
	return err;
}

int hpi_sys_unlink(const char *path)
{
	int err = fault("unlink");

	return err ? err : status(unlink(path));
}

int hpi_sys_open_at(int dir_fd, const char *name, int flags)
{
	int fd = fault("openat");

	if (fd)
		return fd;
	do
		fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

int hpi_sys_unlink_at(int dir_fd, const char *name)
{
	int err = fault("unlinkat");

	return err ? err : status(unlinkat(dir_fd, name, 0));
}

int hpi_sys_file_system(int fd, uint64_t *magic)
{
	struct statfs fs;
	int err = fault("fstatfs");

	if (err)
		return err;
	do
		err = status(fstatfs(fd, &fs));
	while (err == -EINTR);
	if (!err)
		*magic = (uint64_t)fs.f_type;
	return err;
}

uint64_t hpi_sys_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int hpi_sys_local_node(void)
{
	unsigned int node;
	int err = fault("getcpu");

	if (!err)
		err = status(getcpu(NULL, &node));
	return err ? err : (int)node;
}

bool hpi_sys_secure(void)
{
	return fault("secure") || getauxval(AT_SECURE);
}

/* ---- Whole small files, and lines of larger ones ---- */

int64_t hpi_sys_read(int fd, void *buffer, size_t size)
{
	size_t got = 0;
	ssize_t n;
	int err = fault("read");

	if (err)
		return err;
	while (got < size) {
		n = read(fd, (char *)buffer + got, size - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (int64_t)got;
}

int hpi_sys_read_file(const char *path, char *buffer, size_t size)
{
	int fd = hpi_sys_open(path, O_RDONLY, 0);
	int64_t got;

	if (fd < 0)
		return fd;
	got = hpi_sys_read(fd, buffer, size);
	hpi_sys_close(fd);
	if (got < 0)
		return (int)got;
	if ((size_t)got == size)
		return -EFBIG;
	if (memchr(buffer, '\0', (size_t)got))
		return -EILSEQ;
	if (got && buffer[got - 1] == '\n')
		got--;
	buffer[got] = '\0';
	return 0;
}

int hpi_sys_write_file(const char *path, const char *text)
{
	size_t length = strlen(text);
	ssize_t written;
	int fd = hpi_sys_open(path, O_WRONLY | O_TRUNC, 0);
	int err;

	if (fd < 0)
		return fd;
	/* One write: a knob takes its value whole, and must not get it a second time after a signal. */
	err = fault("write");
	if (!err) {
		written = write(fd, text, length);
		if (written < 0)
			err = -errno;
		else if ((size_t)written != length)
			err = -EIO;
	}
	hpi_sys_close(fd);
	return err;
}

/* A window over a file: bytes [0, fill) of data are read and not yet handed out. */
struct window {
	char *data;
	size_t fill, size, max_line;
};

/* Makes room for more of an unfinished line. */
static int window_grow(struct window *w)
{
	size_t size = w->size ? w->size * 2 : 4096;
	char *data;

	if (w->fill < w->size)
		return 0;
	if (w->fill > w->max_line)
		return -EFBIG;
	data = realloc(w->data, size);
	if (!data)
		return -ENOMEM;
	w->data = data;
	w->size = size;
	return 0;
}

/* Hands out the lines the window has; at the end of the file the rest is a line as well. */
static int window_lines(struct window *w, bool end, int (*fn)(char *line, size_t length, void *arg), void *arg)
{
	char *line = w->data, *stop = w->data + w->fill, *newline;
	int err = 0;

	while (!err && line < stop) {
		newline = memchr(line, '\n', (size_t)(stop - line));
		if (!newline && !end)
			break;
		if (!newline)
			newline = stop;		/* there is room for the NUL: the file ended before the window did */
		*newline = '\0';
		err = (size_t)(newline - line) > w->max_line ? -EFBIG : fn(line, (size_t)(newline - line), arg);
		line = newline < stop ? newline + 1 : stop;
	}
	w->fill = (size_t)(stop - line);
	memmove(w->data, line, w->fill);
	return err;
}

/* A FIFO or a device may never end, or do something when it is read. A directory is left to read(), for its error. */
static int check_regular(int fd)
{
	struct stat stat;

	if (fstat(fd, &stat))
		return -errno;
	return S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode) ? 0 : -EINVAL;
}

int hpi_sys_read_lines(const char *path, size_t max_line, int (*fn)(char *line, size_t length, void *arg), void *arg)
{
	struct window w = { .max_line = max_line };
	int fd = hpi_sys_open(path, O_RDONLY | O_NONBLOCK, 0);
	bool end = false;
	int64_t got;
	int err = 0;

	if (fd < 0)
		return fd;
	err = check_regular(fd);
	while (!err && !end) {
		err = window_grow(&w);
		if (err)
			break;
		got = hpi_sys_read(fd, w.data + w.fill, w.size - w.fill);
		if (got < 0) {
			err = (int)got;
			break;
		}
		end = w.fill + (size_t)got < w.size;
		w.fill += (size_t)got;
		err = window_lines(&w, end, fn, arg);
	}
	hpi_sys_close(fd);
	free(w.data);
	return err < 0 ? err : 0;
}

struct field {
	const char *key;
	char *buffer;
	size_t size;
	int err;
};

static int match_field(char *line, size_t length, void *arg)
{
	struct field *field = arg;
	size_t skip = strlen(field->key);

	if (length < skip || memcmp(line, field->key, skip))
		return 0;
	skip += strspn(line + skip, " \t");
	field->err = -EFBIG;
	if (length - skip < field->size) {
		memcpy(field->buffer, line + skip, length - skip + 1);
		field->err = 0;
	}
	return 1;
}

int hpi_sys_read_field(const char *path, const char *key, char *buffer, size_t size)
{
	struct field field = { .key = key, .buffer = buffer, .size = size, .err = -ENODATA };
	int err = hpi_sys_read_lines(path, HPI_SYS_LINE_MAX, match_field, &field);

	return err ? err : field.err;
}
