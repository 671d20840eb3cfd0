// SPDX-License-Identifier: MIT
/* Directories of hugepinfs: made, listed, moved and removed as anywhere, and regions in them. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define BYTES	(2 * PAGE_2M)

static int open_at(int directory, const char *name)
{
	return CHECK_OK(openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int make_directory(int parent, const char *name, unsigned int mode)
{
	CHECK_OK(mkdirat(parent, name, mode));
	return open_at(parent, name);
}

static void make_region(int directory, const char *name)
{
	int fd = region_create_named(directory, name, BYTES, 0);

	CHECK(fd >= 0, "%s: %s", name, strerror(-fd));
	close(fd);
}

static struct stat stat_of(int directory, const char *name)
{
	struct stat st;

	CHECK_OK(fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW));
	return st;
}

static void regions_are_made_in_nested_directories(const void *arg)
{
	int root = fs_mount(NULL, NULL), job = make_directory(root, "job", 0755), rank = make_directory(job, "0", 0755);
	int fd = region_create_named(rank, "emb", BYTES, 0640);
	char *start;

	(void)arg;
	CHECK(fd >= 0, "%s", strerror(-fd));
	start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	marks_write(start, 0, BYTES, 1);
	CHECK_OK(munmap(start, BYTES));
	close(fd);
	close(rank);
	close(job);
	fd = CHECK_OK(openat(root, "job/0/emb", O_RDWR));
	start = region_map(fd, 0, BYTES, PROT_READ);
	CHECK_MARKS(start, 0, BYTES, 1);
	CHECK_EQ(stat_of(root, "job/0/emb").st_mode & 07777, 0640);
	/* a name is one of its directory */
	CHECK_EQ(region_create_named(open_at(root, "job/0"), "emb", BYTES, 0), -EEXIST);
	make_region(root, "emb");
	/* and one without a name may be made there as well */
	CHECK_OK(region_create_named(open_at(root, "job"), NULL, PAGE_2M, 0));
}

static void a_directory_has_the_usual_numbers(const void *arg)
{
	int root = fs_mount(NULL, NULL), one;
	struct stat st;

	(void)arg;
	umask(027);
	one = make_directory(root, "one", 0777);
	st = stat_of(root, "one");
	CHECK(S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0750, "mode %o", st.st_mode);
	CHECK_EQ(st.st_nlink, 2);
	CHECK_EQ(stat_of(root, ".").st_nlink, 3);
	make_directory(one, "two", 0755);
	make_region(one, "emb");
	CHECK_EQ(stat_of(root, "one").st_nlink, 3);
	CHECK_EQ(stat_of(one, "..").st_ino, stat_of(root, ".").st_ino);
	CHECK_OK(unlinkat(one, "two", AT_REMOVEDIR));
	CHECK_EQ(stat_of(root, "one").st_nlink, 2);
	CHECK_ERRNO(mkdirat(root, "one", 0755), EEXIST);
	CHECK_ERRNO(mkdirat(one, "emb", 0755), EEXIST);
	CHECK_EQ(region_create_named(root, "one", BYTES, 0), -EEXIST);
}

static void only_an_empty_directory_is_removed(const void *arg)
{
	int root = fs_mount(NULL, NULL), one = make_directory(root, "one", 0755);
	struct reserve before, now;

	(void)arg;
	reserve_read(&before);
	make_region(one, "emb");
	CHECK_ERRNO(unlinkat(root, "one", AT_REMOVEDIR), ENOTEMPTY);
	CHECK_ERRNO(unlinkat(root, "one", 0), EISDIR);
	CHECK_ERRNO(unlinkat(one, "emb", AT_REMOVEDIR), ENOTDIR);
	CHECK_OK(unlinkat(one, "emb", 0));
	reserve_read(&now);
	CHECK_EQ(now.info.regions, before.info.regions);
	CHECK_OK(unlinkat(root, "one", AT_REMOVEDIR));
	CHECK_ERRNO(openat(root, "one", O_RDONLY), ENOENT);
	/* whoever has it open can make nothing in it any more */
	CHECK_EQ(region_create_named(one, "emb", BYTES, 0), -ENOENT);
	CHECK_ERRNO(mkdirat(one, "two", 0755), ENOENT);
	reserve_read(&now);
	CHECK_EQ(now.info.regions, before.info.regions);
}

static void regions_and_directories_move_between_directories(const void *arg)
{
	int root = fs_mount(NULL, NULL), from = make_directory(root, "from", 0755);
	int to = make_directory(root, "to", 0755), inner = make_directory(from, "inner", 0755), fd;
	char *start;

	(void)arg;
	make_region(inner, "emb");
	fd = CHECK_OK(openat(inner, "emb", O_RDWR));
	start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	marks_write(start, 0, BYTES, 2);
	CHECK_OK(renameat(from, "inner", to, "inner"));
	CHECK_OK(renameat(inner, "emb", root, "emb0"));		/* still open, and elsewhere now */
	CHECK_EQ(stat_of(root, "from").st_nlink, 2);
	CHECK_EQ(stat_of(root, "to").st_nlink, 3);
	CHECK_EQ(stat_of(inner, "..").st_ino, stat_of(root, "to").st_ino);
	CHECK_MARKS(start, 0, BYTES, 2);
	CHECK_OK(munmap(start, BYTES));
	start = region_map(CHECK_OK(openat(root, "emb0", O_RDWR)), 0, BYTES, PROT_READ);
	CHECK_MARKS(start, 0, BYTES, 2);
	CHECK_ERRNO(renameat(root, "to", inner, "loop"), EINVAL);
	CHECK_ERRNO(renameat(root, "emb0", root, "from"), EISDIR);
	CHECK_ERRNO(renameat(root, "from", root, "emb0"), ENOTDIR);
	CHECK_ERRNO(renameat(root, "from", root, "to"), ENOTEMPTY);
	CHECK_OK(renameat(root, "from", to, "inner"));		/* over an empty one */
	CHECK_EQ(stat_of(root, "to").st_nlink, 3);
	CHECK_ERRNO(openat(root, "from", O_RDONLY), ENOENT);
}

static void a_region_replaced_by_a_rename_gives_its_pages_back(const void *arg)
{
	int root = fs_mount(NULL, NULL), one = make_directory(root, "one", 0755);
	struct reserve before, now;

	(void)arg;
	make_region(root, "emb");
	reserve_read(&before);
	make_region(one, "emb");
	CHECK_ERRNO(syscall(SYS_renameat2, one, "emb", root, "emb", 1 /* RENAME_NOREPLACE */), EEXIST);
	CHECK_OK(renameat(one, "emb", root, "emb"));
	reserve_read(&now);
	CHECK_EQ(now.info.regions, before.info.regions);
	CHECK_OK(unlinkat(root, "one", AT_REMOVEDIR));
}

static void a_setgid_directory_gives_its_group(const void *arg)
{
	int root = fs_mount(NULL, NULL), shared = make_directory(root, "shared", 0755);

	(void)arg;
	CHECK_OK(fchown(shared, 0, 1001));
	CHECK_OK(fchmod(shared, 02775));
	make_region(shared, "emb");
	CHECK_EQ(stat_of(shared, "emb").st_gid, 1001);
	CHECK_EQ(stat_of(shared, "emb").st_uid, 0);
	make_directory(shared, "below", 0755);
	CHECK_EQ(stat_of(shared, "below").st_gid, 1001);
	CHECK_EQ(stat_of(shared, "below").st_mode & S_ISGID, S_ISGID);
	make_region(root, "own");
	CHECK_EQ(stat_of(root, "own").st_gid, 0);
}

static void nobody_among_directories_of_root(const void *arg)
{
	int root = *(const int *)arg, open = open_at(root, "open"), own;

	CHECK_EQ(region_create_named(open_at(root, "readable"), "x", PAGE_2M, 0), -EACCES);
	CHECK_ERRNO(mkdirat(root, "readable/x", 0755), EACCES);
	CHECK_ERRNO(openat(root, "closed", O_RDONLY | O_DIRECTORY), EACCES);
	CHECK_ERRNO(openat(root, "closed/emb", O_RDONLY), EACCES);
	/* sticky: one's own, and nothing of others */
	CHECK_ERRNO(unlinkat(open, "emb", 0), EPERM);
	CHECK_ERRNO(renameat(open, "emb", open, "mine"), EPERM);
	CHECK_ERRNO(unlinkat(open, "dir", AT_REMOVEDIR), EPERM);
	own = make_directory(open, "own", 0700);
	CHECK_EQ(stat_of(open, "own").st_uid, NOBODY);
	make_region(own, "emb");
	CHECK_OK(renameat(own, "emb", open, "mine"));
	CHECK_OK(unlinkat(open, "mine", 0));
	CHECK_OK(unlinkat(open, "own", AT_REMOVEDIR));
}

static void permissions_and_the_sticky_bit_hold(const void *arg)
{
	int root = fs_mount("mode=755", NULL), open, closed;

	(void)arg;
	make_directory(root, "readable", 0755);
	closed = make_directory(root, "closed", 0700);
	make_region(closed, "emb");
	open = make_directory(root, "open", 0755);
	CHECK_OK(fchmod(open, 01777));
	make_region(open, "emb");
	make_directory(open, "dir", 0777);
	as_user(NOBODY, nobody_among_directories_of_root, &root);
	make_region(closed, "other");	/* the directory is as it was */
}

static void the_mount_s_limits_hold_below(const void *arg)
{
	int root = fs_mount("limit_2m=3,limit_1g=0", NULL), one = make_directory(root, "one", 0755);
	struct hugepin_shortfall short_of = { 0 };
	struct hugepin_create args = create_args(2 * PAGE_2M, CLASS_2M);
	struct statfs fs;

	(void)arg;
	make_region(one, "emb");
	args.shortfall = (uintptr_t)&short_of;
	CHECK_EQ(region_create(one, &args), -EDQUOT);
	CHECK_EQ(short_of.reason, HUGEPIN_SHORT_MOUNT);
	CHECK_EQ(short_of.limit, 3);
	CHECK_EQ(short_of.held, 2);
	CHECK_EQ(region_create(root, &args), -EDQUOT);
	CHECK_OK(fstatfs(one, &fs));
	CHECK_EQ(fs.f_bavail * fs.f_bsize, PAGE_2M);
	CHECK_OK(renameat(one, "emb", root, "emb"));	/* moving changes nothing of that */
	CHECK_EQ(region_create(one, &args), -EDQUOT);
	CHECK_OK(unlinkat(root, "emb", 0));
	close(CHECK_OK(region_create(one, &args)));
}

static void unmounting_ends_a_whole_tree(const void *arg)
{
	const char *path;
	int root = fs_mount(NULL, &path), one = make_directory(root, "one", 0755), two = make_directory(one, "two", 0755);
	struct reserve before, now;

	(void)arg;
	reserve_read(&before);
	make_region(two, "emb");
	make_region(one, "emb");
	close(two);
	close(one);
	close(root);
	CHECK_OK(umount(path));
	reserve_read(&now);
	CHECK_EQ(now.info.regions, before.info.regions);
}

static void a_read_only_mount_takes_no_directories(const void *arg)
{
	const char *path;
	int root = fs_mount(NULL, &path), again;

	(void)arg;
	make_directory(root, "one", 0755);
	CHECK_OK(mount("none", path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	again = CHECK_OK(open(path, O_RDONLY | O_DIRECTORY));
	CHECK_ERRNO(mkdirat(again, "two", 0755), EROFS);
	CHECK_ERRNO(unlinkat(again, "one", AT_REMOVEDIR), EROFS);
	CHECK_EQ(region_create_named(open_at(again, "one"), "emb", PAGE_2M, 0), -EROFS);
}

#define CASE(f)	{ .name = #f, .run = f }

static const struct ktap_case cases[] = {
	CASE(regions_are_made_in_nested_directories),
	CASE(a_directory_has_the_usual_numbers),
	CASE(only_an_empty_directory_is_removed),
	CASE(regions_and_directories_move_between_directories),
	CASE(a_region_replaced_by_a_rename_gives_its_pages_back),
	CASE(a_setgid_directory_gives_its_group),
	CASE(permissions_and_the_sticky_bit_hold),
	CASE(the_mount_s_limits_hold_below),
	CASE(unmounting_ends_a_whole_tree),
	CASE(a_read_only_mount_takes_no_directories),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
