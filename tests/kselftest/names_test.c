// SPDX-License-Identifier: MIT
/* hugepinfs: names, owners, modes, mount options, and what outlives what. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define BYTES	(2 * PAGE_2M)
#define UNIT	"/run/hugepin"	/* where the boot unit mounts it */

static int make_named(int directory, const char *name)
{
	int fd = region_create_named(directory, name, BYTES, 0);

	CHECK(fd >= 0, "%s: %s", name, strerror(-fd));
	return fd;
}

static void write_marks(int fd, uint64_t seed)
{
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);

	marks_write(start, 0, BYTES, seed);
	CHECK_OK(munmap(start, BYTES));
}

static void check_marks(int fd, uint64_t seed)
{
	char *start = region_map(fd, 0, BYTES, PROT_READ);

	CHECK_MARKS(start, 0, BYTES, seed);
	CHECK_OK(munmap(start, BYTES));
}

static unsigned int entries_in(int directory, const char *name)
{
	DIR *stream = fdopendir(CHECK_OK(openat(directory, ".", O_RDONLY | O_DIRECTORY)));
	struct dirent *entry;
	unsigned int count = 0;

	CHECK(stream, "%s", strerror(errno));
	while ((entry = readdir(stream)))
		count += name ? !strcmp(entry->d_name, name) :
			 strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	closedir(stream);
	return count;
}

static void a_named_region_is_opened_by_its_path(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fd = make_named(directory, "emb0"), again;
	struct stat st;

	(void)arg;
	write_marks(fd, 1);
	close(fd);
	again = CHECK_OK(openat(directory, "emb0", O_RDWR));
	check_marks(again, 1);
	CHECK_OK(fstatat(directory, "emb0", &st, AT_SYMLINK_NOFOLLOW));
	CHECK(S_ISCHR(st.st_mode) && (st.st_mode & 07777) == 0600, "mode %o", st.st_mode);
	CHECK_EQ(st.st_size, BYTES);
	CHECK_EQ(st.st_uid, 0);
	CHECK_EQ(st.st_nlink, 1);
	CHECK_EQ(st.st_rdev, 0);
	CHECK_EQ(region_info(again).bytes, BYTES);
}

static void the_name_is_taken_once(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fd = make_named(directory, "emb0");

	(void)arg;
	write_marks(fd, 2);
	CHECK_EQ(region_create_named(directory, "emb0", PAGE_2M, 0), -EEXIST);
	check_marks(fd, 2);
	CHECK_EQ(entries_in(directory, NULL), 1);
	CHECK_OK(unlinkat(directory, "emb0", 0));
	close(make_named(directory, "emb0"));
}

static void names_up_to_255_bytes_and_odd_ones_work(const void *arg)
{
	char longest[HUGEPIN_NAME_MAX + 1];
	const char * const names[] = { longest, "...", " ", "a\nb", "-rf", "\xc3\xa9" };
	int directory = fs_mount(NULL, NULL);
	unsigned int i;

	(void)arg;
	memset(longest, 'x', HUGEPIN_NAME_MAX);
	longest[HUGEPIN_NAME_MAX] = '\0';
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		close(make_named(directory, names[i]));
		CHECK_EQ(entries_in(directory, names[i]), 1);
		CHECK_OK(unlinkat(directory, names[i], 0));
		CHECK_EQ(entries_in(directory, names[i]), 0);
	}
}

static void readdir_lists_every_name_once(const void *arg)
{
	int directory = fs_mount(NULL, NULL), i;
	char name[16];

	(void)arg;
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		close(CHECK_OK(region_create_named(directory, name, PAGE_2M, 0)));
	}
	CHECK_EQ(entries_in(directory, NULL), 8);
	for (i = 0; i < 8; i += 2) {
		snprintf(name, sizeof(name), "r%d", i);
		CHECK_OK(unlinkat(directory, name, 0));
	}
	CHECK_EQ(entries_in(directory, NULL), 4);
	CHECK_EQ(entries_in(directory, "r3"), 1);
	CHECK_EQ(entries_in(directory, "r4"), 0);
}

static void contents_survive_the_death_of_their_maker(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fd;
	pid_t child = ktap_fork();

	(void)arg;
	if (!child) {
		fd = make_named(directory, "emb0");
		write_marks(fd, 7);
		region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE)[4096 + 8] = 'x';
		kill(getpid(), SIGKILL);
	}
	ktap_join_killed(child, SIGKILL);
	fd = CHECK_OK(openat(directory, "emb0", O_RDWR));
	check_marks(fd, 7);
	CHECK_EQ(region_map(fd, 0, BYTES, PROT_READ)[4096 + 8], 'x');
}

static void an_unlinked_region_lives_until_its_last_user(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fd = make_named(directory, "emb0");
	unsigned long long in_use = reserve_of(0, HUGEPIN_CLASS_2M).in_use + reserve_of(1, HUGEPIN_CLASS_2M).in_use;
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);
	struct stat st;

	(void)arg;
	marks_write(start, 0, BYTES, 3);
	CHECK_OK(unlinkat(directory, "emb0", 0));
	CHECK_ERRNO(openat(directory, "emb0", O_RDWR), ENOENT);
	CHECK_OK(fstat(fd, &st));
	CHECK_EQ(st.st_nlink, 0);
	check_marks(fd, 3);
	close(fd);
	CHECK_MARKS(start, 0, BYTES, 3);	/* only the mapping is left */
	start[PAGE_2M + 1] = 1;
	CHECK_EQ(reserve_of(0, HUGEPIN_CLASS_2M).in_use + reserve_of(1, HUGEPIN_CLASS_2M).in_use, in_use);
	CHECK_OK(munmap(start, BYTES));
}

static void a_name_without_users_keeps_its_pages_until_unlinked(const void *arg)
{
	int directory = fs_mount(NULL, NULL);
	struct reserve before, now;

	(void)arg;
	reserve_read(&before);
	close(make_named(directory, "emb0"));
	reserve_read(&now);
	CHECK_EQ(now.info.regions, before.info.regions + 1);
	CHECK_OK(unlinkat(directory, "emb0", 0));
	reserve_read(&now);	/* no file was open: the unlink itself gave the pages back */
	CHECK_EQ(now.info.regions, before.info.regions);
}

static void umask_applies_to_names_only(const void *arg)
{
	int directory = fs_mount(NULL, NULL), device = device_open(), fd;
	struct hugepin_create args = create_args(PAGE_2M, CLASS_2M);
	struct stat st;

	(void)arg;
	umask(027);
	fd = CHECK_OK(region_create_named(directory, "wide", PAGE_2M, 0777));
	CHECK_OK(fstat(fd, &st));
	CHECK_EQ(st.st_mode & 07777, 0750);
	args.mode = 0666;
	fd = CHECK_OK(region_create(device, &args));
	CHECK_OK(fstat(fd, &st));
	CHECK_EQ(st.st_mode & 07777, 0666);
}

static void owner_and_mode_are_an_inode_s_usual_ones(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fd = make_named(directory, "emb0");
	struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
	struct stat st;

	(void)arg;
	CHECK_OK(fchmodat(directory, "emb0", 0640, 0));
	CHECK_OK(fchownat(directory, "emb0", 1000, 1001, 0));
	CHECK_OK(futimens(fd, times));
	CHECK_OK(fstat(fd, &st));
	CHECK_EQ(st.st_mode & 07777, 0640);
	CHECK_EQ(st.st_uid, 1000);
	CHECK_EQ(st.st_gid, 1001);
	CHECK_EQ(st.st_mtime, 2000);
	CHECK_EQ(st.st_size, BYTES);
	write_marks(fd, 4);
	check_marks(fd, 4);
}

static void only_regions_and_directories_are_made_in_it(const void *arg)
{
	int directory = fs_mount(NULL, NULL);

	(void)arg;
	CHECK(openat(directory, "file", O_RDWR | O_CREAT, 0600) < 0, "open made a file");
	CHECK(mknodat(directory, "fifo", S_IFIFO | 0600, 0) < 0, "mknod made a fifo");
	CHECK(mknodat(directory, "null", S_IFCHR | 0600, makedev(1, 3)) < 0, "mknod made a device");
	CHECK(symlinkat("/etc/passwd", directory, "link") < 0, "symlink made a link");
	CHECK(openat(directory, ".", O_RDWR | O_TMPFILE, 0600) < 0, "O_TMPFILE made a file");
	CHECK_EQ(entries_in(directory, NULL), 0);
}

static void nobody_meets_a_region_of_root(const void *arg)
{
	int directory = *(const int *)arg;
	struct stat st;

	CHECK_ERRNO(openat(directory, "emb0", O_RDWR), EACCES);
	CHECK_ERRNO(openat(directory, "emb0", O_RDONLY), EACCES);
	CHECK_OK(openat(directory, "readable", O_RDONLY));
	CHECK_ERRNO(openat(directory, "readable", O_RDWR), EACCES);
	CHECK_OK(fstatat(directory, "emb0", &st, 0));
	CHECK_ERRNO(unlinkat(directory, "emb0", 0), EPERM);	/* the root is sticky */
	CHECK_ERRNO(fchmodat(directory, "emb0", 0666, 0), EPERM);
	close(make_named(directory, "own"));
	CHECK_OK(fstatat(directory, "own", &st, 0));
	CHECK_EQ(st.st_uid, NOBODY);
	CHECK_OK(unlinkat(directory, "own", 0));
}

static void others_are_kept_out_by_mode(const void *arg)
{
	int directory = fs_mount(NULL, NULL);

	(void)arg;
	close(make_named(directory, "emb0"));
	close(CHECK_OK(region_create_named(directory, "readable", BYTES, 0644)));
	as_user(NOBODY, nobody_meets_a_region_of_root, &directory);
	CHECK_EQ(entries_in(directory, NULL), 2);
}

static void nobody_may_not_create(const void *arg)
{
	int directory = *(const int *)arg;

	CHECK_EQ(region_create_named(directory, "own", PAGE_2M, 0), -EACCES);
	CHECK_EQ(region_create_named(directory, NULL, PAGE_2M, 0), -EACCES);
}

static void a_directory_closed_to_a_user_gives_no_regions(const void *arg)
{
	int directory = fs_mount("mode=755", NULL);

	(void)arg;
	as_user(NOBODY, nobody_may_not_create, &directory);
	CHECK_EQ(entries_in(directory, NULL), 0);
}

static void a_read_only_mount_takes_no_names(const void *arg)
{
	const char *path;
	int directory = fs_mount(NULL, &path), again;

	(void)arg;
	close(make_named(directory, "emb0"));
	CHECK_OK(mount("none", path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	again = CHECK_OK(open(path, O_RDONLY | O_DIRECTORY));
	CHECK_EQ(region_create_named(again, "emb1", PAGE_2M, 0), -EROFS);
	CHECK_ERRNO(unlinkat(again, "emb0", 0), EROFS);
	CHECK_EQ(entries_in(again, NULL), 1);
}

static void reading_only_is_enforced_on_mappings(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fd = make_named(directory, "emb0"), reader;
	char *start;

	(void)arg;
	write_marks(fd, 9);
	reader = CHECK_OK(openat(directory, "emb0", O_RDONLY));
	CHECK_ERRNO((long)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0), EACCES);
	start = region_map(reader, 0, BYTES, PROT_READ);
	CHECK_MARKS(start, 0, BYTES, 9);
	CHECK_ERRNO(mprotect(start, BYTES, PROT_READ | PROT_WRITE), EACCES);
	CHECK_EQ(write_signal(start, 1), SIGSEGV);
	CHECK_MARKS(start, 0, BYTES, 9);
	CHECK_ERRNO((long)mmap(NULL, BYTES, PROT_READ, MAP_SHARED, CHECK_OK(openat(directory, "emb0", O_WRONLY)), 0),
		    EACCES);
}

static void a_descriptor_is_reopened_through_proc(const void *arg)
{
	int fd = region_make(BYTES, CLASS_2M), again;
	char path[64];

	(void)arg;
	write_marks(fd, 5);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = CHECK_OK(open(path, O_RDWR));
	close(fd);
	check_marks(again, 5);
}

static void a_descriptor_is_passed_over_a_socket(const void *arg)
{
	struct channel channel = channel_open();
	pid_t child = ktap_fork();
	int fd;

	(void)arg;
	if (!child) {
		fd = region_make(BYTES, CLASS_2M);
		write_marks(fd, 6);
		descriptor_send(&channel, 1, fd);
		close(fd);
		ktap_exit();
	}
	ktap_join(child);	/* the region is in flight only, now */
	fd = descriptor_receive(&channel, 0);
	check_marks(fd, 6);
}

static void a_descriptor_that_nobody_takes_off_the_socket_is_not_leaked(const void *arg)
{
	struct channel channel = channel_open();

	(void)arg;
	descriptor_send(&channel, 0, region_make(BYTES, CLASS_2M));
	/* the hooks find the region if it outlives this process */
}

static void mounts_are_apart(const void *arg)
{
	int one = fs_mount(NULL, NULL), two = fs_mount(NULL, NULL), fd = make_named(one, "emb0");

	(void)arg;
	write_marks(fd, 1);
	CHECK_ERRNO(openat(two, "emb0", O_RDWR), ENOENT);
	fd = make_named(two, "emb0");
	write_marks(fd, 2);
	check_marks(CHECK_OK(openat(one, "emb0", O_RDWR)), 1);
	CHECK_EQ(entries_in(one, NULL) + entries_in(two, NULL), 2);
}

static void unmounting_ends_names_but_not_what_is_in_use(const void *arg)
{
	const char *path;
	int directory = fs_mount(NULL, &path), fd = make_named(directory, "emb0");
	char *start = region_map(fd, 0, BYTES, PROT_READ | PROT_WRITE);

	(void)arg;
	close(make_named(directory, "emb1"));
	marks_write(start, 0, BYTES, 8);
	close(directory);
	CHECK_ERRNO(umount(path), EBUSY);
	close(fd);
	CHECK_ERRNO(umount(path), EBUSY);
	CHECK_OK(umount2(path, MNT_DETACH));
	CHECK_MARKS(start, 0, BYTES, 8);
	CHECK_OK(munmap(start, BYTES));
}

static void statfs_tells_magic_and_limits(const void *arg)
{
	int directory = fs_mount("limit_2m=4,limit_1g=0", NULL);
	struct statfs fs;

	(void)arg;
	close(make_named(directory, "emb0"));
	CHECK_OK(fstatfs(directory, &fs));
	CHECK_EQ(fs.f_type, HUGEPIN_FS_MAGIC);
	CHECK_EQ(fs.f_namelen, HUGEPIN_NAME_MAX);
	CHECK_EQ(fs.f_blocks * fs.f_bsize, 4 * PAGE_2M);
	CHECK_EQ(fs.f_bavail * fs.f_bsize, 2 * PAGE_2M);
}

/* What df shows: of a mount without limits, or with more than there is, the reserve. Others take from that. */
static void statfs_without_limits_tells_of_the_reserve(const void *arg)
{
	int open_ended = fs_mount(NULL, NULL), generous = fs_mount("limit_2m=1000000,limit_1g=1000", NULL);
	uint64_t blocks = 0, free = 0;
	struct reserve reserve;
	struct statfs fs;
	unsigned int i;

	(void)arg;
	close(make_named(generous, "emb0"));
	reserve_read(&reserve);
	for (i = 0; i < reserve.info.nr_pages; i++) {
		const struct hugepin_info_pages *p = &reserve.pages[i];
		uint64_t each = p->class == HUGEPIN_CLASS_1G ? PAGE_1G / PAGE_2M : 1;

		blocks += p->total * each;
		free += (p->clean + p->dirty) * each;
	}
	for (i = 0; i < 2; i++) {
		CHECK_OK(fstatfs(i ? generous : open_ended, &fs));
		CHECK_EQ(fs.f_bsize, PAGE_2M);
		CHECK_EQ(fs.f_blocks, blocks);
		CHECK_EQ(fs.f_bfree, free);
		CHECK_EQ(fs.f_bavail, free);
	}
}

/* What tells one mount's files from another's, in events and in traces. */
static void mounts_have_ids_of_their_own(const void *arg)
{
	int one = fs_mount(NULL, NULL), other = fs_mount(NULL, NULL);
	struct statfs fs, again, others;

	(void)arg;
	CHECK_OK(fstatfs(one, &fs));
	CHECK_OK(fstatfs(one, &again));
	CHECK_OK(fstatfs(other, &others));
	CHECK(!memcmp(&fs.f_fsid, &again.f_fsid, sizeof(fs.f_fsid)), "one mount, two ids");
	CHECK(memcmp(&fs.f_fsid, &others.f_fsid, sizeof(fs.f_fsid)), "two mounts, one id");
}

static void check_files(const char *path, uint64_t most, uint64_t left)
{
	struct statfs st;

	CHECK_OK(statfs(path, &st));
	CHECK(st.f_files == most && st.f_ffree == left, "%llu of %llu names left, not %llu of %llu",
	      (unsigned long long)st.f_ffree, (unsigned long long)st.f_files, (unsigned long long)left,
	      (unsigned long long)most);
}

static void a_mount_gets_no_more_names_than_its_limit(const void *arg)
{
	const char *path;
	int directory = fs_mount("nr_names=3", &path), fd, again;

	(void)arg;
	check_files(path, 3, 3);
	CHECK_OK(mkdirat(directory, "d", 0755));
	close(make_named(directory, "a"));
	fd = make_named(directory, "b");
	check_files(path, 3, 0);
	CHECK_EQ(region_create_named(directory, "c", BYTES, 0), -ENOSPC);
	CHECK_EQ(region_create_named(directory, "a", BYTES, 0), -EEXIST);
	CHECK_ERRNO(mkdirat(directory, "e", 0755), ENOSPC);
	again = CHECK_OK(region_create_named(directory, NULL, BYTES, 0));	/* has no name */
	close(again);
	check_files(path, 3, 0);
	CHECK_OK(unlinkat(directory, "b", 0));
	check_files(path, 3, 0);		/* it is still open */
	close(fd);
	check_files(path, 3, 1);
	CHECK_OK(renameat(directory, "a", directory, "d/a"));
	close(make_named(directory, "c"));
	CHECK_OK(renameat(directory, "c", directory, "d/a"));	/* replaces it */
	check_files(path, 3, 1);
	CHECK_OK(unlinkat(directory, "d/a", 0));
	CHECK_OK(unlinkat(directory, "d", AT_REMOVEDIR));
	check_files(path, 3, 3);
	CHECK_OK(mount("none", path, NULL, MS_REMOUNT, "nr_names=1"));
	close(make_named(directory, "a"));
	CHECK_EQ(region_create_named(directory, "b", BYTES, 0), -ENOSPC);
	CHECK_OK(mount("none", path, NULL, MS_REMOUNT, "nr_names=0"));
	check_files(path, 0, 0);
	CHECK_OK(unlinkat(directory, "a", 0));
	CHECK_EQ(region_create_named(directory, "a", BYTES, 0), -ENOSPC);
}

/* 4,096 where HUGEPIN_2M=2048 or more gives it the pages; as many as there are elsewhere. */
static void a_name_for_every_page_of_the_reserve(const void *arg)
{
	uint64_t pages = reserve_free_class(HUGEPIN_CLASS_2M), i, count = pages < 4096 ? pages : 4096;
	const char *path;
	int directory = fs_mount(NULL, &path);
	struct hugepin_list list = { .size = sizeof(list), .entry_size = sizeof(struct hugepin_list_entry) };
	struct hugepin_list_entry *entries = malloc(HUGEPIN_LIST_MAX * sizeof(*entries));
	uint64_t listed = 0;
	char name[16];

	(void)arg;
	CHECK(entries, "no memory");
	ktap_note("%llu names", (unsigned long long)count);
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "n%llu", (unsigned long long)i);
		close(CHECK_OK(region_create_named(directory, name, PAGE_2M, 0)));
	}
	check_files(path, 65536, 65536 - count);
	CHECK_EQ(entries_in(directory, NULL), count);
	do {
		list.entries = (uintptr_t)entries;
		list.nr_entries = HUGEPIN_LIST_MAX;
		CHECK_OK(ioctl(directory, HUGEPIN_IOC_LIST, &list));
		for (i = 0; i < list.nr_entries; i++) {
			snprintf(name, sizeof(name), "n%llu", (unsigned long long)(listed + i));
			CHECK(!strcmp(entries[i].path, name), "%s instead of %s", entries[i].path, name);
		}
		listed += list.nr_entries;
	} while (list.cursor);
	CHECK_EQ(listed, count);
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "n%llu", (unsigned long long)i);
		close(CHECK_OK(openat(directory, name, O_RDWR)));
		CHECK_OK(unlinkat(directory, name, 0));
	}
	check_files(path, 65536, 65536);
}

/*
 * Security modules that look at paths are asked, as for mknod(2) of a character device 0:0. That is a whiteout's
 * number, and 7.x counts those among regular files.
 */
static void a_sandbox_without_the_right_makes_no_names(const void *arg)
{
	const struct landlock_ruleset_attr rules = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_REG,
	};
	int directory = fs_mount(NULL, NULL), ruleset;

	(void)arg;
	ruleset = syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
	if (ruleset < 0)
		ktap_skip("no Landlock in this kernel: %s", strerror(errno));
	CHECK_OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK_OK(syscall(SYS_landlock_restrict_self, ruleset, 0));
	CHECK_EQ(region_create_named(directory, "a", BYTES, 0), -EACCES);
	CHECK_EQ(entries_in(directory, NULL), 0);
	close(CHECK_OK(region_create_named(directory, NULL, BYTES, 0)));
}

static void good_mount_options_are_applied(const void *arg)
{
	int directory = fs_mount("uid=1000,gid=1001,mode=750,limit_2m=3", NULL);
	struct stat st;

	(void)arg;
	CHECK_OK(fstat(directory, &st));
	CHECK_EQ(st.st_uid, 1000);
	CHECK_EQ(st.st_gid, 1001);
	CHECK_EQ(st.st_mode & 07777, 0750);
}

static void bad_mount_options_are_refused(const void *arg)
{
	static const char * const bad[] = {
		"limit_2m=abc", "limit_2m=-1", "limit_2m=", "limit_2m", "limit_2m=1k", "limit_2m=0x10", "limit_2m= 1",
		"limit_2m=1 ", "limit_2m=18446744073709551616", "limit_1g=-0", "limit_1g=1.5", "nr_names=", "nr_names=-1", "nr_names=1k", "limit_4m=1", "size=1G",
		"mode=9", "mode=", "mode=77777", "mode=-1", "mode=u+rwx", "uid=-1", "uid=4294967295", "uid=4294967296",
		"uid=root", "gid=-1", "gid=4294967295", "nonsense", "limit_2m=1,nonsense", "nonsense=1,limit_2m=1",
		"mode=755,mode=abc",
	};
	unsigned int i;

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		int error = fs_try_mount(bad[i]);

		CHECK(error == -EINVAL, "'%s': %s", bad[i], error ? strerror(-error) : "accepted");
	}
}

static void a_mount_gets_no_more_than_its_limit(const void *arg)
{
	const char *path;
	int other = fs_mount(NULL, NULL), directory = fs_mount("limit_2m=3", &path), fd;
	struct hugepin_shortfall short_of = { 0 };
	struct hugepin_create args = create_args(2 * PAGE_2M, CLASS_2M);

	(void)arg;
	args.shortfall = (uintptr_t)&short_of;
	CHECK_EQ(region_create_named(directory, "all", 4 * PAGE_2M, 0), -EDQUOT);
	fd = make_named(directory, "emb0");
	CHECK_EQ(region_create(directory, &args), -EDQUOT);
	CHECK_EQ(short_of.reason, HUGEPIN_SHORT_MOUNT);
	CHECK_EQ(short_of.class, HUGEPIN_CLASS_2M);
	CHECK_EQ(short_of.asked, 2);
	CHECK_EQ(short_of.limit, 3);
	CHECK_EQ(short_of.held, 2);
	close(CHECK_OK(region_create_named(other, "emb0", 4 * PAGE_2M, 0)));	/* its neighbour is not concerned */
	args.bytes = PAGE_2M;
	close(CHECK_OK(region_create(directory, &args)));
	close(fd);
	CHECK_EQ(region_create_named(directory, "emb1", 2 * PAGE_2M, 0), -EDQUOT);	/* the name still holds its two */
	CHECK_OK(unlinkat(directory, "emb0", 0));
	close(CHECK_OK(region_create_named(directory, "emb1", 3 * PAGE_2M, 0)));
	CHECK_OK(mount("none", path, NULL, MS_REMOUNT, "limit_2m=5"));
	close(CHECK_OK(region_create_named(directory, "emb2", 2 * PAGE_2M, 0)));
	CHECK_EQ(region_create_named(directory, "emb3", PAGE_2M, 0), -EDQUOT);
}

static void a_region_is_renamed(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fd = make_named(directory, "emb0");

	(void)arg;
	write_marks(fd, 3);
	close(fd);
	CHECK_OK(renameat(directory, "emb0", directory, "emb1"));
	CHECK_ERRNO(openat(directory, "emb0", O_RDWR), ENOENT);
	check_marks(CHECK_OK(openat(directory, "emb1", O_RDWR)), 3);
	close(make_named(directory, "emb0"));
	CHECK_OK(renameat(directory, "emb0", directory, "emb1"));	/* replaces, as everywhere */
	CHECK_EQ(entries_in(directory, NULL), 1);
}

static void the_units_mount_serves_names(const void *arg)
{
	char name[32];
	struct statfs fs;
	int directory;

	(void)arg;
	if (statfs(UNIT, &fs) || (unsigned long)fs.f_type != HUGEPIN_FS_MAGIC)
		ktap_skip("no hugepinfs on " UNIT);
	snprintf(name, sizeof(name), "kselftest-%d", getpid());
	directory = CHECK_OK(open(UNIT, O_RDONLY | O_DIRECTORY));
	close(make_named(directory, name));
	CHECK_EQ(entries_in(directory, name), 1);
	CHECK_OK(unlinkat(directory, name, 0));
}

static void makers_of_one_name_at_once_make_one(const void *arg)
{
	int directory = fs_mount(NULL, NULL), round, i, status, made;
	pid_t children[3];

	(void)arg;
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 3; i++) {
			children[i] = ktap_fork();
			if (!children[i])
				_exit(region_create_named(directory, "race", PAGE_2M, 0) >= 0 ? 10 : 11);
		}
		for (i = made = 0; i < 3; i++) {
			CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) >= 10, "status %#x", status);
			made += WEXITSTATUS(status) == 10;
		}
		CHECK_EQ(made, 1);
		CHECK_OK(unlinkat(directory, "race", 0));
	}
}

#define CASE(f, ...)	{ .name = #f, .run = f, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(a_named_region_is_opened_by_its_path),
	CASE(the_name_is_taken_once),
	CASE(names_up_to_255_bytes_and_odd_ones_work),
	CASE(readdir_lists_every_name_once),
	CASE(contents_survive_the_death_of_their_maker),
	CASE(an_unlinked_region_lives_until_its_last_user),
	CASE(a_name_without_users_keeps_its_pages_until_unlinked),
	CASE(umask_applies_to_names_only),
	CASE(owner_and_mode_are_an_inode_s_usual_ones),
	CASE(only_regions_and_directories_are_made_in_it),
	CASE(others_are_kept_out_by_mode),
	CASE(a_directory_closed_to_a_user_gives_no_regions),
	CASE(a_read_only_mount_takes_no_names),
	CASE(reading_only_is_enforced_on_mappings),
	CASE(a_descriptor_is_reopened_through_proc),
	CASE(a_descriptor_is_passed_over_a_socket),
	CASE(a_descriptor_that_nobody_takes_off_the_socket_is_not_leaked),
	CASE(mounts_are_apart),
	CASE(unmounting_ends_names_but_not_what_is_in_use),
	CASE(statfs_tells_magic_and_limits),
	CASE(statfs_without_limits_tells_of_the_reserve),
	CASE(mounts_have_ids_of_their_own),
	CASE(a_mount_gets_no_more_names_than_its_limit),
	CASE(a_name_for_every_page_of_the_reserve, .timeout_s = 300),
	CASE(a_sandbox_without_the_right_makes_no_names),
	CASE(good_mount_options_are_applied),
	CASE(bad_mount_options_are_refused),
	CASE(a_mount_gets_no_more_than_its_limit),
	CASE(a_region_is_renamed),
	CASE(the_units_mount_serves_names),
	CASE(makers_of_one_name_at_once_make_one),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
