/* SPDX-License-Identifier: MIT */
/*
 * A tree of small files out of a fuzzer's input, for readers of sysfs and proc. The input is parts that end in a record
 * separator (0x1e): a letter that says which file of a table, then what is in it. A file that no part names is not
 * there.
 */
#ifndef HUGEPIN_TESTS_FUZZ_TREE_H
#define HUGEPIN_TESTS_FUZZ_TREE_H

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define TREE_ROOM	128
#define TREE_END	0x1e

static char tree_root[TREE_ROOM];

static int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void tree_remove(void)
{
	nftw(tree_root, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* In memory, for the time of the process. */
static void tree_begin(void)
{
	if (*tree_root)
		return;
	snprintf(tree_root, sizeof(tree_root), "/dev/shm/fuzz-tree-%d", (int)getpid());
	PROPERTY(!mkdir(tree_root, 0700));
	atexit(tree_remove);
}

static void tree_path(char *path, size_t size, const char *name)
{
	PROPERTY((size_t)snprintf(path, size, "%s/%s", tree_root, name) < size);
}

static void tree_write(const char *name, const uint8_t *bytes, size_t size)
{
	char path[512], *slash;
	int fd;

	tree_path(path, sizeof(path), name);
	for (slash = strchr(path + strlen(tree_root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	PROPERTY(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && !close(fd));
}

/* @names: the table, of @count files at most 26. */
static void tree_make(const uint8_t *data, size_t size, const char *const *names, size_t count)
{
	const uint8_t *end;
	char path[512];
	size_t i, part;

	tree_begin();
	for (i = 0; i < count; i++) {
		tree_path(path, sizeof(path), names[i]);
		unlink(path);
	}
	for (; size; data += part, size -= part) {
		end = memchr(data, TREE_END, size);
		part = end ? (size_t)(end - data) + 1 : size;
		if (data[0] >= 'a' && data[0] < 'a' + count)
			tree_write(names[data[0] - 'a'], data + 1, part - 1 - (end != NULL));
	}
}

#endif /* HUGEPIN_TESTS_FUZZ_TREE_H */
