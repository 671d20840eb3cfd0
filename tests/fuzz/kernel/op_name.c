// SPDX-License-Identifier: MIT
/* hugepinfs as a file system: mounts and their options, names, directories; a region's file read and written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "world.h"

#define SHARED_PLACE	"/run/hugepin"

static long answer_of(long answer)
{
	return answer < 0 ? -errno : answer;
}

static const char *mount_point(struct world *w)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%u", w->place, (unsigned int)below(w, MOUNTS));
	return path;
}

static const char *mount_options(struct world *w)
{
	static const char *const names[] = { "limit_1g", "limit_2m", "nr_names", "uid", "gid", "mode", "size", "" };
	static const char *const odd[] = { "", "-1", "0x2", "1 ", "18446744073709551615", "99999999999999999999", "7", "8" };
	static char text[256];
	unsigned int count = below(w, 4), at = 0;

	text[0] = '\0';
	for (; count; count--) {
		const char *name = chance(w, 95) ? names[below(w, 6)] : ONE_OF(w, names);
		unsigned int most = !strcmp(name, "mode") ? 1000 : !strcmp(name, "nr_names") ? 12 : 2000;

		at += snprintf(text + at, sizeof(text) - at, "%s%s=", at ? "," : "", name);
		if (chance(w, 90))
			at += snprintf(text + at, sizeof(text) - at, "%u", (unsigned int)below(w, most));
		else
			at += snprintf(text + at, sizeof(text) - at, "%s", ONE_OF(w, odd));
	}
	return text;
}

static long mount_one(struct world *w)
{
	static const unsigned long flags[] = { 0, 0, 0, MS_NODEV, MS_RDONLY, MS_NOEXEC | MS_NOSUID };
	const char *path = mount_point(w);

	if (chance(w, 40))
		return answer_of(mount("none", path, "hugepinfs", ONE_OF(w, flags) | MS_REMOUNT, mount_options(w)));
	if (chance(w, 20))
		return answer_of(mount(SHARED_PLACE, path, NULL, MS_BIND, NULL));
	return answer_of(mount("none", path, "hugepinfs", ONE_OF(w, flags), mount_options(w)));
}

static long unmount(struct world *w)
{
	return answer_of(umount2(mount_point(w), chance(w, 70) ? MNT_DETACH : 0));
}

static long open_directory(struct world *w)
{
	const char *path = chance(w, 50) ? SHARED_PLACE : mount_point(w);

	return keep_fd(w, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), DIRECTORY);
}

static long open_name(struct world *w)
{
	static const int modes[] = { O_RDWR, O_RDWR, O_RDONLY, O_WRONLY, O_RDWR | O_CREAT, O_RDWR | O_TRUNC, O_PATH };
	int fd = openat(some_fd(w, DIRECTORY), some_name(w), ONE_OF(w, modes) | O_CLOEXEC | O_NONBLOCK, 0600);
	struct stat status;

	if (fd >= 0 && !fstat(fd, &status) && S_ISDIR(status.st_mode))
		return keep_fd(w, fd, DIRECTORY);
	return keep_fd(w, fd, REGION);
}

static long make_directory(struct world *w)
{
	return answer_of(mkdirat(some_fd(w, DIRECTORY), some_name(w), 0700 + below(w, 0100)));
}

static long unlink_name(struct world *w)
{
	return answer_of(unlinkat(some_fd(w, DIRECTORY), some_name(w), chance(w, 80) ? 0 : AT_REMOVEDIR));
}

static long rename_name(struct world *w)
{
	char from[300];
	const char *name = some_name(w);
	int directory = some_fd(w, DIRECTORY);

	snprintf(from, sizeof(from), "%s", name);
	return answer_of(syscall(SYS_renameat2, directory, from, chance(w, 70) ? directory : some_fd(w, DIRECTORY),
				 some_name(w), chance(w, 70) ? 0 : below(w, 8)));
}

/* What the file system does not have: links, nodes, plain files. */
static long other_names(struct world *w)
{
	int directory = some_fd(w, DIRECTORY);
	const char *name = some_name(w);

	switch (below(w, 4)) {
	case 0:
		return answer_of(symlinkat("a", directory, name));
	case 1:
		return answer_of(linkat(directory, name, directory, "l", 0));
	case 2:
		return answer_of(mknodat(directory, name, S_IFCHR | 0600, 0));
	default:
		return keep_fd(w, openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), OTHER);
	}
}

static long change(struct world *w)
{
	struct timespec times[2] = { { below(w, 1 << 30), 0 }, { 0, UTIME_NOW } };
	int directory = some_fd(w, DIRECTORY), region = some_fd(w, REGION);
	const char *name = some_name(w);

	switch (below(w, 6)) {
	case 0:
		return answer_of(fchmodat(directory, name, 0400 | below(w, 01000), 0));
	case 1:
		return answer_of(fchownat(directory, name, 1000 * below(w, 3), -1, 0));
	case 2:
		return answer_of(fchmod(region, 0400 | below(w, 01000)));
	case 3:
		return answer_of(utimensat(directory, name, times, 0));
	case 4:
		return answer_of(ftruncate(region, some_bytes(w)));
	default:
		return answer_of(fallocate(region, below(w, 4), 0, some_bytes(w)));
	}
}

static long look(struct world *w)
{
	static char bytes[4096];
	struct statfs statistics;
	struct stat status;
	int directory = some_fd(w, DIRECTORY);

	switch (below(w, 6)) {
	case 0:
		lseek(directory, below(w, 4), SEEK_SET);
		return answer_of(syscall(SYS_getdents64, directory, bytes, sizeof(bytes)));
	case 1:
		return answer_of(fstatfs(chance(w, 50) ? directory : some_fd(w, REGION), &statistics));
	case 2:
		return answer_of(fstat(some_fd(w, REGION), &status));
	case 3:
		return answer_of(fgetxattr(some_fd(w, REGION), "user.a", bytes, sizeof(bytes)));
	case 4:
		return answer_of(faccessat(directory, some_name(w), R_OK | W_OK, 0));
	default:
		return answer_of(fstatat(directory, some_name(w), &status, 0));
	}
}

static long mounts(struct world *w)
{
	static char text[4096];
	int fd = open(chance(w, 50) ? "/proc/self/mountinfo" : "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	long result;

	if (fd < 0)
		return -errno;
	result = answer_of(read(fd, text, sizeof(text)));
	close(fd);
	return result;
}

/* A region's file cannot be read: the memory is to be mapped. It answers so whoever asks. */
static long read_file(struct world *w)
{
	static char bytes[4096];
	int region = some_fd(w, REGION);
	loff_t offset = 0;

	switch (below(w, 6)) {
	case 0:
		return answer_of(pread(region, bytes, sizeof(bytes), 0));
	case 1:
		memset(bytes, PATTERN, sizeof(bytes));
		return answer_of(pwrite(region, bytes, sizeof(bytes), 0));
	case 2:
		return answer_of(splice(region, &offset, some_fd(w, PIPE), NULL, sizeof(bytes), SPLICE_F_NONBLOCK));
	case 3:
		return answer_of(lseek(region, some_bytes(w), below(w, 5)));
	case 4:
		return answer_of(sendfile(some_fd(w, PIPE), region, &offset, sizeof(bytes)));
	default:
		return answer_of(fsync(region));
	}
}

const struct op name_ops[] = {
	{ "mount", 12, mount_one }, { "umount", 5, unmount }, { "open_directory", 35, open_directory },
	{ "openat", 60, open_name }, { "mkdirat", 15, make_directory }, { "unlinkat", 45, unlink_name },
	{ "renameat2", 35, rename_name }, { "other_names", 8, other_names }, { "chmod", 20, change }, { "stat", 40, look },
	{ "mountinfo", 8, mounts }, { "read_file", 15, read_file }, { NULL, 0, NULL },
};
