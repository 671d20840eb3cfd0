// SPDX-License-Identifier: MIT
/* LIST: whether regions that are forgotten can be found, by whom, and that nothing stands still for who looks. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define ENTRIES	64

struct listing {
	struct hugepin_list_entry entries[ENTRIES];
	struct hugepin_extent extents[ENTRIES];
	unsigned int count, calls;
};

static struct hugepin_list list_args(struct listing *l, unsigned int room)
{
	return (struct hugepin_list){
		.size = sizeof(struct hugepin_list),
		.entries = (uintptr_t)&l->entries[l->count],
		.nr_entries = room,
		.entry_size = sizeof(l->entries[0]),
	};
}

/* All that @fd lists, @step entries a call. */
static void list_all(int fd, struct listing *l, unsigned int step)
{
	uint64_t cursor = 0;

	l->count = l->calls = 0;
	do {
		struct hugepin_list list = list_args(l, step);

		CHECK(l->count + step <= ENTRIES, "more than %u regions", l->count);
		list.cursor = cursor;
		CHECK_OK(ioctl(fd, HUGEPIN_IOC_LIST, &list));
		CHECK(list.nr_entries <= step, "%u entries into room for %u", list.nr_entries, step);
		l->count += list.nr_entries;
		l->calls++;
		cursor = list.cursor;
	} while (cursor);
}

static const struct hugepin_list_entry *entry_of(const struct listing *l, int fd)
{
	const struct hugepin_list_entry *found = NULL;
	struct stat st;
	unsigned int i;

	CHECK_OK(fstat(fd, &st));
	for (i = 0; i < l->count; i++) {
		if (l->entries[i].dev != st.st_dev || l->entries[i].ino != st.st_ino)
			continue;
		CHECK(!found, "listed twice");
		found = &l->entries[i];
	}
	CHECK(found, "region %u:%u %llu is not among the %u listed", major(st.st_dev), minor(st.st_dev),
	      (unsigned long long)st.st_ino, l->count);
	return found;
}

static void the_device_lists_regions_of_all_mounts(const void *arg)
{
	int device = device_open(), first = fs_mount(NULL, NULL), second = fs_mount(NULL, NULL);
	int unnamed = region_make(PAGE_2M, CLASS_2M);
	int a = region_create_named(first, "a", 2 * PAGE_2M, 0640), b = region_create_named(second, "b", PAGE_2M, 0);
	const struct hugepin_list_entry *e;
	struct listing l;
	struct stat st;

	(void)arg;
	list_all(device, &l, 16);
	e = entry_of(&l, unnamed);
	CHECK_EQ(e->flags, 0);
	CHECK(!*e->path, "a path without a name: '%s'", e->path);
	e = entry_of(&l, b);
	CHECK(!strcmp(e->path, "b") && e->flags == HUGEPIN_LIST_NAMED, "'%s', flags %x", e->path, e->flags);
	e = entry_of(&l, a);
	CHECK(!strcmp(e->path, "a"), "'%s'", e->path);
	CHECK_OK(fstat(a, &st));
	CHECK_EQ(e->mode, st.st_mode);
	CHECK_EQ(e->bytes, 2 * PAGE_2M);
	CHECK_EQ(e->bytes_1g, 0);
	CHECK_EQ(e->uid, 0);
	CHECK_EQ(e->charged_uid, 0);
	CHECK_EQ(e->id, region_info(a).id);
	CHECK_EQ(e->created_ns, region_info(a).created_ns);
}

static void a_directory_lists_its_mount_only(const void *arg)
{
	int first = fs_mount(NULL, NULL), second = fs_mount(NULL, NULL), below;
	int a = region_create_named(first, "a", PAGE_2M, 0), b = region_create_named(second, "b", PAGE_2M, 0);
	int unnamed = region_create_named(first, NULL, PAGE_2M, 0);
	struct listing l;

	(void)arg;
	list_all(first, &l, 16);
	CHECK_EQ(l.count, 2);
	entry_of(&l, a);
	entry_of(&l, unnamed);
	list_all(second, &l, 16);
	CHECK_EQ(l.count, 1);
	entry_of(&l, b);
	CHECK_OK(mkdirat(first, "below", 0700));
	below = CHECK_OK(openat(first, "below", O_RDONLY | O_DIRECTORY));
	list_all(below, &l, 16);
	CHECK_EQ(l.count, 2);
}

static void paths_follow_renames_and_end_with_the_name(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fd = region_create_named(directory, "a", PAGE_2M, 0);
	const struct hugepin_list_entry *e;
	struct listing l;

	(void)arg;
	CHECK_OK(mkdirat(directory, "jobs", 0755));
	CHECK_OK(renameat(directory, "a", directory, "jobs/b c"));
	list_all(directory, &l, 4);
	e = entry_of(&l, fd);
	CHECK(!strcmp(e->path, "jobs/b c"), "'%s'", e->path);
	CHECK_OK(unlinkat(directory, "jobs/b c", 0));
	list_all(directory, &l, 4);
	e = entry_of(&l, fd);
	CHECK(!e->flags && !*e->path, "flags %x, '%s'", e->flags, e->path);
	close(fd);
	list_all(directory, &l, 4);
	CHECK_EQ(l.count, 0);
}

static void a_long_path_is_told_by_its_end(const void *arg)
{
	char folder[201], name[201];
	int directory = fs_mount(NULL, NULL), at = directory, fd, depth;
	const struct hugepin_list_entry *e;
	struct listing l;

	(void)arg;
	memset(folder, 'f', sizeof(folder) - 1);
	memset(name, 'n', sizeof(name) - 1);
	folder[200] = name[200] = '\0';
	for (depth = 0; depth < 3; depth++) {
		CHECK_OK(mkdirat(at, folder, 0755));
		at = CHECK_OK(openat(at, folder, O_RDONLY | O_DIRECTORY));
	}
	fd = CHECK_OK(region_create_named(at, name, PAGE_2M, 0));
	list_all(directory, &l, 4);
	e = entry_of(&l, fd);
	CHECK_EQ(e->flags, HUGEPIN_LIST_NAMED | HUGEPIN_LIST_CUT);
	CHECK_EQ(strlen(e->path), HUGEPIN_LIST_PATH - 1);
	CHECK(!strcmp(e->path + strlen(e->path) - 200, name), "'%s'", e->path);
}

static void a_cursor_goes_over_all_once_oldest_first(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fds[9];
	unsigned int i, step;
	struct listing l;
	char name[8];

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		snprintf(name, sizeof(name), "c%u", i);
		fds[i] = CHECK_OK(region_create_named(directory, name, PAGE_2M, 0));
	}
	for (step = 1; step <= 10; step += 3) {
		list_all(directory, &l, step);
		CHECK_EQ(l.count, ARRAY_SIZE(fds));
		for (i = 0; i < ARRAY_SIZE(fds); i++)
			CHECK(entry_of(&l, fds[i]) == &l.entries[i], "region %u is out of order", i);
	}
	CHECK_EQ(l.calls, 1);
	/* one that goes between two calls does not make the next one miss any */
	list_all(directory, &l, 3);
	{
		struct hugepin_list list = list_args(&l, 3);

		list.entries = (uintptr_t)l.entries;
		CHECK_OK(ioctl(directory, HUGEPIN_IOC_LIST, &list));
		close(fds[2]);
		CHECK_OK(unlinkat(directory, "c2", 0));
		list.nr_entries = ENTRIES;
		CHECK_OK(ioctl(directory, HUGEPIN_IOC_LIST, &list));
		CHECK_EQ(list.nr_entries, 6);
		CHECK_EQ(list.cursor, 0);
	}
}

static void extents_are_told_by_node_and_class(const void *arg)
{
	int directory = fs_mount(NULL, NULL), fds[2];
	struct hugepin_list list;
	struct listing l = { .count = 0 };
	unsigned int i;
	uint64_t sum;

	(void)arg;
	fds[0] = CHECK_OK(region_create_named(directory, "a", 3 * PAGE_2M, 0));
	fds[1] = CHECK_OK(region_create_named(directory, "b", 5 * PAGE_2M, 0));
	list = list_args(&l, ENTRIES);
	list.extents = (uintptr_t)l.extents;
	list.nr_extents = ENTRIES;
	CHECK_OK(ioctl(directory, HUGEPIN_IOC_LIST, &list));
	l.count = list.nr_entries;
	CHECK_EQ(l.count, 2);
	for (i = 0; i < 2; i++) {
		const struct hugepin_list_entry *e = entry_of(&l, fds[i]);
		unsigned int j;

		for (sum = 0, j = 0; j < e->nr_extents; j++)
			sum += l.extents[e->first_extent + j].pages;
		CHECK_EQ(sum * PAGE_2M, e->bytes);
	}
	/* room for the first one's alone: the second is for the next call */
	list = list_args(&l, ENTRIES);
	list.entries = (uintptr_t)l.entries;
	list.extents = (uintptr_t)l.extents;
	list.nr_extents = l.entries[0].nr_extents;
	CHECK_OK(ioctl(directory, HUGEPIN_IOC_LIST, &list));
	CHECK_EQ(list.nr_entries, 1);
	CHECK(list.cursor, "the end, with one of two");
	list.cursor = 0;
	list.nr_entries = ENTRIES;
	list.nr_extents = 0;
	CHECK_ERRNO(ioctl(directory, HUGEPIN_IOC_LIST, &list), EMSGSIZE);
	CHECK(list.nr_extents >= 1, "how many extents there are is not told");
}

static void list_as_a_stranger(const void *arg)
{
	struct listing l;

	CHECK_ERRNO(open(HUGEPIN_DEVICE, O_RDONLY), EACCES);
	list_all(*(const int *)arg, &l, 4);
	CHECK_EQ(l.count, 1);
	CHECK_EQ(l.entries[0].charged_uid, 0);
}

static void a_stranger_sees_a_mount_he_may_read_and_no_more(const void *arg)
{
	int other = region_make(PAGE_2M, CLASS_2M), directory = fs_mount("mode=755", NULL);

	(void)arg;
	close(CHECK_OK(region_create_named(directory, "a", PAGE_2M, 0)));
	as_user(NOBODY, list_as_a_stranger, &directory);
	close(other);
}

static void larger_entries_are_filled_up_with_zeros(const void *arg)
{
	enum { STRIDE = sizeof(struct hugepin_list_entry) + 16 };
	int directory = fs_mount(NULL, NULL);
	struct hugepin_list list = { .size = sizeof(list), .nr_entries = 2, .entry_size = STRIDE };
	char room[2 * STRIDE];
	unsigned int i;

	(void)arg;
	close(CHECK_OK(region_create_named(directory, "a", PAGE_2M, 0)));
	close(CHECK_OK(region_create_named(directory, "b", PAGE_2M, 0)));
	memset(room, 0xff, sizeof(room));
	list.entries = (uintptr_t)room;
	CHECK_OK(ioctl(directory, HUGEPIN_IOC_LIST, &list));
	CHECK_EQ(list.nr_entries, 2);
	for (i = 0; i < 2; i++) {
		const struct hugepin_list_entry *e = (void *)(room + i * STRIDE);

		CHECK(e->path[0] == "ab"[i] && !e->path[1], "'%s'", e->path);
		CHECK_EQ(nonzero_at(room + (i + 1) * STRIDE - 16, 16), -1);
	}
}

static void what_is_malformed_is_refused(const void *arg)
{
	static struct listing l;
	int device = device_open(), fd = region_make(PAGE_2M, CLASS_2M);
	const struct hugepin_list good = list_args(&l, 4);
	struct hugepin_list list;

	(void)arg;
#define REFUSED(member, value, error)						\
	do {									\
		list = good;							\
		list.member = value;						\
		CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_LIST, &list), error);	\
	} while (0)
	REFUSED(size, 40, EINVAL);
	REFUSED(flags, 1, EINVAL);
	REFUSED(pad, 1, EINVAL);
	REFUSED(entries, 0, EINVAL);
	REFUSED(entries, 8, EFAULT);
	REFUSED(nr_entries, 0, EINVAL);
	REFUSED(entry_size, good.entry_size - 8, EINVAL);
	REFUSED(entry_size, good.entry_size + 4, EINVAL);
	REFUSED(entry_size, 1u << 31, EINVAL);
	list = good;
	list.cursor = ~0ULL;
	CHECK_OK(ioctl(device, HUGEPIN_IOC_LIST, &list));
	CHECK_EQ(list.nr_entries, 0);
	CHECK_EQ(list.cursor, 0);
	list = good;
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_LIST, &list), ENOTTY);
}

/* Lists into memory whose page comes when the parent, who gets the descriptor, gives it. */
static void list_slowly(const struct channel *channel, int device, int uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .mode = UFFDIO_REGISTER_MODE_MISSING, .range.len = PAGE_4K };
	struct hugepin_list list = { .size = sizeof(list), .nr_entries = 1,
				     .entry_size = sizeof(struct hugepin_list_entry) };
	void *slow = mmap(NULL, PAGE_4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(slow != MAP_FAILED, "%s", strerror(errno));
	area.range.start = list.entries = (uintptr_t)slow;
	CHECK_OK(ioctl(uffd, UFFDIO_API, &api));
	CHECK_OK(ioctl(uffd, UFFDIO_REGISTER, &area));
	descriptor_send(channel, 1, uffd);
	channel_wait(channel, 1);
	CHECK_OK(ioctl(device, HUGEPIN_IOC_LIST, &list));
	CHECK_EQ(list.nr_entries, 1);
	CHECK(!strcmp(((struct hugepin_list_entry *)slow)->path, "a"), "the region it had begun with is not told");
}

static bool nothing_in_use(const struct reserve *reserve, const void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0; i < reserve->info.nr_pages; i++)
		if (reserve->pages[i].in_use)
			return false;
	return true;
}

static void a_caller_that_takes_its_time_holds_no_region(const void *arg)
{
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC), device = device_open(), directory, fd;
	struct channel channel = channel_open();
	struct uffdio_zeropage give = { .range.len = PAGE_4K };
	struct uffd_msg fault;
	const char *path;
	pid_t child;

	(void)arg;
	if (uffd < 0 && errno == ENOSYS)
		ktap_skip("this kernel has no userfaultfd");
	CHECK(uffd >= 0, "userfaultfd: %s", strerror(errno));
	close(uffd);		/* it is for the memory of who opens it */
	child = ktap_fork();
	if (!child) {
		list_slowly(&channel, device, CHECK_OK(syscall(SYS_userfaultfd, O_CLOEXEC)));
		ktap_exit();
	}
	uffd = descriptor_receive(&channel, 0);
	directory = fs_mount(NULL, &path);
	fd = CHECK_OK(region_create_named(directory, "a", PAGE_2M, 0));
	channel_signal(&channel, 0);
	CHECK_EQ(read(uffd, &fault, sizeof(fault)), sizeof(fault));
	close(fd);
	CHECK_OK(unlinkat(directory, "a", 0));
	CHECK(reserve_wait(nothing_in_use, NULL), "the region is held by a caller of LIST");
	close(directory);
	CHECK_OK(umount(path));
	give.range.start = fault.arg.pagefault.address & -PAGE_4K;
	CHECK_OK(ioctl(uffd, UFFDIO_ZEROPAGE, &give));
	ktap_join(child);
}

static void listing_while_regions_come_and_go(const void *arg)
{
	int device = device_open(), round;
	const struct timespec pause = { .tv_nsec = 1000000 };
	pid_t child = ktap_fork();
	struct listing l;

	(void)arg;
	if (!child) {
		for (round = 0; round < 60; round++) {
			const char *path;
			int directory = fs_mount(NULL, &path), fd = region_create_named(directory, "a", PAGE_2M, 0);

			CHECK(fd >= 0, "%s", strerror(-fd));
			close(fd);
			close(directory);
			if (round % 2)
				CHECK_OK(umount(path));
			else
				CHECK_OK(umount2(path, MNT_DETACH));
		}
		ktap_exit();
	}
	for (round = 0; round < 200; round++) {
		list_all(device, &l, 2);
		nanosleep(&pause, NULL);
	}
	ktap_join(child);
	list_all(device, &l, 4);
	CHECK_EQ(l.count, 0);
}

#define CASE(f, ...)	{ .name = #f, .run = f, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(the_device_lists_regions_of_all_mounts),
	CASE(a_directory_lists_its_mount_only),
	CASE(paths_follow_renames_and_end_with_the_name),
	CASE(a_long_path_is_told_by_its_end),
	CASE(a_cursor_goes_over_all_once_oldest_first),
	CASE(extents_are_told_by_node_and_class),
	CASE(a_stranger_sees_a_mount_he_may_read_and_no_more),
	CASE(larger_entries_are_filled_up_with_zeros),
	CASE(what_is_malformed_is_refused),
	CASE(a_caller_that_takes_its_time_holds_no_region),
	CASE(listing_while_regions_come_and_go),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
