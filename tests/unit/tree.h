/* SPDX-License-Identifier: MIT */
/*
 * File trees in a temporary directory, for code that reads sysfs and proc under a root prefix.
 */
#ifndef HUGEPIN_TESTS_TREE_H
#define HUGEPIN_TESTS_TREE_H

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
	char root[64];
};

static inline void tree_make(struct tree *tree)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(tree->root, sizeof(tree->root), "%.40s/hugepin-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(tree->root));
}

/* The whole path of @name, in a buffer that the next call uses again. */
static inline const char *tree_path(const struct tree *tree, const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", tree->root, name);
	return path;
}

static inline void tree_write_bytes(const struct tree *tree, const char *name, const void *bytes, size_t size)
{
	char path[PATH_MAX];
	char *slash;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", tree->root, name);
	for (slash = strchr(path + strlen(tree->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static inline void tree_write(const struct tree *tree, const char *name, const char *text)
{
	tree_write_bytes(tree, name, text, strlen(text));
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* @name "" removes all of it. */
static inline void tree_remove(const struct tree *tree, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", tree->root, name);
	assert_int_equal(nftw(path, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#endif /* HUGEPIN_TESTS_TREE_H */
