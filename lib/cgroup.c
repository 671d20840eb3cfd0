// SPDX-License-Identifier: MIT
/*
 * The container's limits: the least limit on the way from this process's cgroup up to the mount's root, of memory or of
 * huge pages of one size.
 *
 * /proc/self/cgroup tells the group's path, /proc/self/mountinfo where hierarchies are mounted and which of their
 * directories is seen there. In a container the two need not match (a mount of the container's own group, while the
 * path is the host's), and then the directory that is mounted is the group. What lies above it cannot be seen in v2;
 * v1 tells of it in hierarchical_memory_limit.
 *
 * Only hard limits count: memory.high and soft limits slow a group down, they do not end it.
 *
 * A group's headroom is what it may still be charged: its limit less its usage, and the file pages in it, which the
 * kernel drops before it kills.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct limit_files {
	const char *limit_file;		/* NULL: there is no such limit in this version */
	const char *stat_file;		/* tells of limits above what is mounted, or NULL */
	const char *usage_file;		/* of memory and swap only, as is what follows */
	const char *file_pages[2];	/* what memory.stat calls them, of the group and those below it; NULL: none count */
	const char *usual_mounts[2];	/* where it is if mountinfo cannot be read */
};

struct hierarchy {
	const struct limit_files *files;
	char path[PATH_MAX];		/* of this process's group, "" if it has none */
};

struct search {
	const char *root;
	const char *controller;		/* "memory", "hugetlb" */
	struct hierarchy v1, v2;
	bool headroom;			/* not the limits are wanted but what is left of them */
	uint64_t limit;
	int err;			/* of a callback, with its text set; the reader's own errors come without */
};

/* These files may be missing, unreadable or gone meanwhile: then they limit nothing that could be known. */
static bool is_absent(int err)
{
	return err == -ENOENT || err == -ENOTDIR || err == -ENODEV || err == -ENODATA || err == -EACCES ||
	       err == -EPERM;
}

static int path_too_long(void)
{
	return hpi_error(-ENAMETOOLONG, "path of the cgroup is longer than %d bytes", PATH_MAX - 1);
}

/* A number of bytes from a file, @none if it is not there or says "max". */
static int to_bytes(const char *file, const char *text, int err, uint64_t none, uint64_t *out)
{
	*out = none;
	if (is_absent(err))
		return 0;
	if (err)
		return hpi_error(err, "reading the cgroup's %s: %s", file, strerror(-err));
	if (!strcmp(text, "max"))
		return 0;
	if (hpi_size_parse_uint(text, out))
		return hpi_error(-EIO, "the cgroup's %s is \"%s\", not a number of bytes", file, text);
	return 0;
}

static int bytes_in(const char *directory, const char *name, const char *key, uint64_t none, uint64_t *out)
{
	char file[PATH_MAX], text[32] = "";
	int err;

	if ((size_t)snprintf(file, sizeof(file), "%s/%s", directory, name) >= sizeof(file))
		return path_too_long();
	if (key)
		err = hpi_sys_read_field(file, key, text, sizeof(text));
	else
		err = hpi_sys_read_file(file, text, sizeof(text));
	return to_bytes(file, text, err, none, out);
}

/* Of @limit what the group has not used, or could have back at once. */
static int subtract_usage(const struct limit_files *files, const char *directory, uint64_t *limit)
{
	uint64_t usage, file_pages, kept;
	int err, i;

	err = bytes_in(directory, files->usage_file, NULL, 0, &usage);
	for (i = 0, kept = usage; !err && i < 2 && files->file_pages[i]; i++) {
		err = bytes_in(directory, "memory.stat", files->file_pages[i], 0, &file_pages);
		kept -= file_pages < kept ? file_pages : kept;
	}
	*limit -= kept < *limit ? kept : *limit;
	return err;
}

/* The limit of one directory of a hierarchy. "unlimited" of v1 is a number near 2^63: it needs no special case. */
static int read_group(struct search *search, const struct hierarchy *h, const char *directory)
{
	uint64_t limit, above = UINT64_MAX;
	int err;

	err = bytes_in(directory, h->files->limit_file, NULL, UINT64_MAX, &limit);
	if (!err && h->files->stat_file)
		err = bytes_in(directory, h->files->stat_file, "hierarchical_memory_limit ", UINT64_MAX, &above);
	if (above < limit)
		limit = above;
	if (!err && search->headroom && limit != UINT64_MAX)
		err = subtract_usage(h->files, directory, &limit);
	if (!err && limit < search->limit)
		search->limit = limit;
	return err;
}

/* @mount shows the directory @mounted of the hierarchy. */
static int walk_up(struct search *search, const struct hierarchy *h, const char *mount, const char *mounted)
{
	char directory[PATH_MAX];
	const char *below = h->path;
	size_t length = strlen(mounted), top;
	char *slash;
	int err;

	if (length > 1) {
		bool inside = !strncmp(below, mounted, length) && (below[length] == '/' || !below[length]);

		below = inside ? below + length : "";
	}
	/* "/.." in front: the group is outside of the cgroup namespace, only the mount itself is known. */
	if (!strcmp(below, "/") || !strncmp(below, "/..", 3))
		below = "";
	top = strlen(search->root) + strlen(mount);
	if ((size_t)snprintf(directory, sizeof(directory), "%s%s%s", search->root, mount, below) >= sizeof(directory))
		return path_too_long();
	for (;;) {
		err = read_group(search, h, directory);
		if (err)
			return err;
		slash = strrchr(directory, '/');
		if (!slash || (size_t)(slash - directory) < top)
			return 0;
		*slash = '\0';
	}
}

static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; *list; list += strcspn(list, ","), list += *list == ',')
		if (strcspn(list, ",") == length && !memcmp(list, word, length))
			return true;
	return false;
}

/* "4:memory:/path", "0::/path" */
static int note_membership(char *line, size_t length, void *arg)
{
	struct search *search = arg;
	char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
	struct hierarchy *h;

	(void)length;
	if (!path)
		return 0;
	*path++ = '\0';
	controllers++;
	if (!*controllers)
		h = &search->v2;
	else if (has_word(controllers, search->controller))
		h = &search->v1;
	else
		return 0;
	if (!h->files->limit_file)
		return 0;
	if ((size_t)snprintf(h->path, sizeof(h->path), "%s", path) >= sizeof(h->path))
		search->err = path_too_long();
	return !!search->err;
}

/* Blank, tab, newline and backslash in a path of mountinfo are written as three octal digits. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* "31 24 0:27 /mounted /mount/point rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate" */
static int note_mount(char *line, size_t length, void *arg)
{
	struct search *search = arg;
	char *mounted, *mount, *type, *options, *save;
	const struct hierarchy *h = NULL;
	int i;

	(void)length;
	type = strstr(line, " - ");
	if (!type)
		return 0;
	*type = '\0';
	type = strtok_r(type + 3, " ", &save);
	if (!type || !strtok_r(NULL, " ", &save))
		return 0;
	options = strtok_r(NULL, " ", &save);
	if (!strcmp(type, "cgroup2"))
		h = &search->v2;
	else if (!strcmp(type, "cgroup") && options && has_word(options, search->controller))
		h = &search->v1;
	if (!h || !h->path[0])
		return 0;
	mounted = strtok_r(line, " ", &save);
	for (i = 0; mounted && i < 3; i++)
		mounted = strtok_r(NULL, " ", &save);
	mount = mounted ? strtok_r(NULL, " ", &save) : NULL;
	if (!mount)
		return 0;
	unescape(mounted);
	unescape(mount);
	search->err = walk_up(search, h, mount, mounted);
	return !!search->err;
}

static int read_usual_mounts(struct search *search, const struct hierarchy *h)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && h->path[0] && i < 2; i++)
		err = walk_up(search, h, h->files->usual_mounts[i], "/");
	return err;
}

/* @absent is set where the file cannot be had. */
static int read_lines(struct search *search, const char *name, int (*fn)(char *, size_t, void *), bool *absent)
{
	char file[PATH_MAX];
	int err;

	*absent = false;
	if ((size_t)snprintf(file, sizeof(file), "%s/proc/self/%s", search->root, name) >= sizeof(file))
		return path_too_long();
	err = hpi_sys_read_lines(file, HPI_SYS_LINE_MAX, fn, search);
	*absent = is_absent(err);
	if (err && !*absent)
		return hpi_error(err, "reading %s: %s", file, strerror(-err));
	return search->err;
}

static int read_groups(struct search *search)
{
	bool absent;
	int err = read_lines(search, "cgroup", note_membership, &absent);

	if (err || absent)
		return err;
	err = read_lines(search, "mountinfo", note_mount, &absent);
	if (err || !absent)
		return err;
	err = read_usual_mounts(search, &search->v1);
	return err ? err : read_usual_mounts(search, &search->v2);
}

/* @files: of v1 and v2 */
static int least(const char *root, const char *controller, const struct limit_files files[2], bool headroom,
		 uint64_t *out)
{
	struct search *search = calloc(1, sizeof(*search));
	int err;

	if (!search)
		return hpi_error(-ENOMEM, "no memory to read the cgroup's limits, %zu bytes", sizeof(*search));
	*search = (struct search){
		.root = root,
		.controller = controller,
		.v1 = { .files = &files[0] },
		.v2 = { .files = &files[1] },
		.headroom = headroom,
		.limit = UINT64_MAX,
	};
	err = read_groups(search);
	if (!err)
		*out = search->limit;
	free(search);
	return err;
}

static const struct limit_files memory_files[2] = {
	{ "memory.limit_in_bytes", "memory.stat", "memory.usage_in_bytes",
	  { "total_inactive_file ", "total_active_file " }, { "/sys/fs/cgroup/memory", "/dev/cgroup/memory" } },
	{ "memory.max", NULL, "memory.current",
	  { "inactive_file ", "active_file " }, { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" } },
};

int hpi_cgroup_memory_limit(const char *root, uint64_t *out)
{
	return least(root, "memory", memory_files, false, out);
}

int hpi_cgroup_memory_headroom(const char *root, uint64_t *out)
{
	return least(root, "memory", memory_files, true, out);
}

/* v2 limits swap by itself, v1 memory and swap together. */
int hpi_cgroup_swap_headroom(const char *root, uint64_t *out)
{
	static const struct limit_files v1[2] = {
		{ "memory.memsw.limit_in_bytes", NULL, "memory.memsw.usage_in_bytes",
		  { "total_inactive_file ", "total_active_file " }, { "/sys/fs/cgroup/memory", "/dev/cgroup/memory" } },
	};
	static const struct limit_files v2[2] = {
		[1] = { "memory.swap.max", NULL, "memory.swap.current",
			.usual_mounts = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" } },
	};
	uint64_t both, memory, swap;
	int err = least(root, "memory", v2, true, &swap);

	if (!err)
		err = least(root, "memory", v1, true, &both);
	if (!err)
		err = hpi_cgroup_memory_headroom(root, &memory);
	if (err)
		return err;
	both = both == UINT64_MAX ? both : both - (memory < both ? memory : both);
	*out = swap < both ? swap : both;
	return 0;
}

int hpi_cgroup_hugetlb_limit(const char *root, uint64_t page_bytes, uint64_t *out)
{
#define HUGETLB_FILES(size)										\
	{ { "hugetlb." size ".limit_in_bytes", .usual_mounts = { "/sys/fs/cgroup/hugetlb", "/dev/cgroup/hugetlb" } }, \
	  { "hugetlb." size ".max", .usual_mounts = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" } } }
	static const struct limit_files files[2][2] = { HUGETLB_FILES("2MB"), HUGETLB_FILES("1GB") };

	return least(root, "hugetlb", files[page_bytes == HPI_1G], false, out);
}
