// SPDX-License-Identifier: MIT
/* Small files of the host, in /proc, /sys and /etc, under a root that the tests set; read whole or refused. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

const char *host_root = "";

static int path_make(char path[PATH_MAX], const char *fmt, va_list args)
{
	int root = snprintf(path, PATH_MAX, "%s", host_root), rest;

	if (root < 0 || root >= PATH_MAX)
		return -ENAMETOOLONG;
	rest = vsnprintf(path + root, (size_t)(PATH_MAX - root), fmt, args);
	return rest < 0 || rest >= PATH_MAX - root ? -ENAMETOOLONG : 0;
}

static int open_path(int flags, const char *fmt, va_list args)
{
	char path[PATH_MAX];
	int err = path_make(path, fmt, args), fd;

	if (err)
		return err;
	fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int host_open(int flags, const char *fmt, ...)
{
	va_list args;
	int fd;

	va_start(args, fmt);
	fd = open_path(flags, fmt, args);
	va_end(args);
	return fd;
}

FILE *host_open_text(const char *fmt, ...)
{
	va_list args;
	FILE *file;
	int fd;

	va_start(args, fmt);
	fd = open_path(O_RDONLY, fmt, args);
	va_end(args);
	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

DIR *host_open_dir(const char *fmt, ...)
{
	va_list args;
	DIR *dir;
	int fd;

	va_start(args, fmt);
	fd = open_path(O_RDONLY | O_DIRECTORY, fmt, args);
	va_end(args);
	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	dir = fdopendir(fd);
	if (!dir)
		close(fd);
	return dir;
}

bool host_exists(const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list args;
	int err;

	va_start(args, fmt);
	err = path_make(path, fmt, args);
	va_end(args);
	return !err && !access(path, F_OK);
}

static ssize_t read_all(int fd, char *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = read(fd, buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int read_text(char *buffer, size_t size, const char *fmt, va_list args)
{
	int fd = open_path(O_RDONLY, fmt, args);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read_all(fd, buffer, size);
	close(fd);
	if (n < 0)
		return (int)n;
	if ((size_t)n == size)
		return -EFBIG;
	buffer[n] = '\0';
	while (n && buffer[n - 1] == '\n')
		buffer[--n] = '\0';
	return 0;
}

int host_read(char *buffer, size_t size, const char *fmt, ...)
{
	va_list args;
	int err;

	va_start(args, fmt);
	err = read_text(buffer, size, fmt, args);
	va_end(args);
	return err;
}

int host_read_number(uint64_t *out, const char *fmt, ...)
{
	char text[32];
	va_list args;
	int err;

	va_start(args, fmt);
	err = read_text(text, sizeof(text), fmt, args);
	va_end(args);
	return err ? err : number_parse(text, UINT64_MAX, out);
}

int host_write(const char *text, const char *fmt, ...)
{
	size_t length = strlen(text);
	va_list args;
	ssize_t n;
	int fd, err = 0;

	va_start(args, fmt);
	fd = open_path(O_WRONLY, fmt, args);
	va_end(args);
	if (fd < 0)
		return fd;
	n = write(fd, text, length);
	if (n < 0)
		err = -errno;
	else if ((size_t)n != length)
		err = -EIO;
	close(fd);
	return err;
}

/* ---- folders of numbered entries ---- */

int host_node_memory(int node, uint64_t *bytes)
{
	FILE *file = host_open_text("/sys/devices/system/node/node%d/meminfo", node);
	uint64_t kb = 0;
	char line[128];
	int err = -ENOENT;

	if (!file)
		return -errno;
	while (err && fgets(line, sizeof(line), file))
		if (sscanf(line, "Node %*d MemTotal: %" SCNu64 " kB", &kb) == 1)
			err = 0;
	fclose(file);
	*bytes = kb << 10;
	return err;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int take_numbers(DIR *dir, const char *prefix, uint64_t **numbers, size_t *count)
{
	size_t length = strlen(prefix), room = 0;
	const struct dirent *entry;

	while ((entry = readdir(dir))) {
		uint64_t number;

		if (strncmp(entry->d_name, prefix, length) || number_parse(entry->d_name + length, UINT64_MAX, &number))
			continue;
		if (*count == room) {
			uint64_t *more;

			room = room ? room * 2 : 64;
			more = reallocarray(*numbers, room, sizeof(*more));
			if (!more)
				return -ENOMEM;
			*numbers = more;
		}
		(*numbers)[(*count)++] = number;
	}
	return 0;
}

int host_numbered(const char *folder, const char *prefix, uint64_t **out, size_t *count)
{
	DIR *dir = host_open_dir("%s", folder);
	uint64_t *numbers = NULL;
	size_t nr = 0;
	int err;

	if (!dir)
		return -errno;
	err = take_numbers(dir, prefix, &numbers, &nr);
	closedir(dir);
	if (err) {
		free(numbers);
		return err;
	}
	if (nr)
		qsort(numbers, nr, sizeof(*numbers), compare_numbers);
	*out = numbers;
	*count = nr;
	return 0;
}
