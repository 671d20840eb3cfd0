// SPDX-License-Identifier: MIT
/* REGION_INFO and USERS: what is being done with a region, who holds how much, and that the numbers are right. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"
#include "pinned.h"
#include "region.h"
#include "reserve.h"

static struct hugepin_users users_args(struct hugepin_user_entry *entries, unsigned int room)
{
	return (struct hugepin_users){
		.size = sizeof(struct hugepin_users),
		.entries = (uintptr_t)entries,
		.nr_entries = room,
		.entry_size = sizeof(*entries),
	};
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void files_areas_and_times_are_counted(const void *arg)
{
	int fd = region_make(2 * PAGE_2M, CLASS_2M), again, copy = dup(fd);
	struct hugepin_region_info info = region_info(fd);
	uint64_t before = now_ns();
	char path[32], *start;
	pid_t child;
	struct channel channel = channel_open();

	(void)arg;
	CHECK_EQ(info.opens, 1);
	CHECK_EQ(info.mappings, 0);
	CHECK(info.used_ns >= info.created_ns && info.used_ns < before, "used %llu, made %llu, now %llu",
	      info.used_ns, info.created_ns, (unsigned long long)before);
	start = region_map(fd, 0, 2 * PAGE_2M, PROT_READ | PROT_WRITE);
	marks_write(start, 0, 2 * PAGE_2M, 5);
	info = region_info(fd);
	CHECK_EQ(info.mappings, 1);
	CHECK_EQ(info.opens, 1);
	CHECK(info.used_ns >= before, "a mapping is no use");
	CHECK_EQ(info.refs, 0);
	CHECK_EQ(info.held_bytes, 0);

	CHECK_OK(mprotect(start, PAGE_2M, PROT_READ));	/* two areas now */
	CHECK_EQ(region_info(fd).mappings, 2);
	child = ktap_fork();
	if (!child) {
		channel_wait(&channel, 1);
		ktap_exit();
	}
	CHECK_EQ(region_info(fd).mappings, 4);
	channel_signal(&channel, 0);
	ktap_join(child);
	CHECK_EQ(region_info(fd).mappings, 2);
	CHECK_OK(munmap(start, PAGE_2M));
	CHECK_EQ(region_info(fd).mappings, 1);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	before = now_ns();
	again = CHECK_OK(open(path, O_RDONLY));
	info = region_info(fd);
	CHECK_EQ(info.opens, 2);
	CHECK(info.used_ns >= before, "an open is no use");
	close(again);
	close(copy);
	CHECK_EQ(region_info(fd).opens, 1);
	CHECK_OK(munmap(start + PAGE_2M, PAGE_2M));
	CHECK_EQ(region_info(fd).mappings, 0);
}

/* Moved out of step with the offset it gets base entries, which take references of their own. */
static void base_entries_are_no_references(const void *arg)
{
	int fd = region_make(PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	char *there = address_hole(2 * PAGE_2M, PAGE_2M) + PAGE_4K;

	(void)arg;
	CHECK(mremap(start, PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there, "%s", strerror(errno));
	CHECK(touch_faults(there, PAGE_2M) >= 512, "huge entries after all: nothing was tested");
	CHECK_EQ(region_info(fd).refs, 0);
	CHECK_EQ(region_info(fd).mappings, 1);
	CHECK_OK(munmap(there, PAGE_2M));
	CHECK_EQ(region_info(fd).mappings, 0);
}

static bool nothing_quarantined(const struct reserve *reserve, const void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0; i < reserve->info.nr_pages; i++)
		if (reserve->pages[i].quarantined)
			return false;
	return true;
}

static void pins_are_told_and_go_to_quarantine(const void *arg)
{
	int driver = driver_open(), device = device_open(), fd = region_make(3 * PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, 3 * PAGE_2M, PROT_READ | PROT_WRITE);
	struct hugepin_test_pin pin = {
		.size = sizeof(pin), .addr = (uintptr_t)start + PAGE_2M, .bytes = PAGE_2M + PAGE_4K,
	};
	struct hugepin_user_entry entries[8];
	struct hugepin_users users = users_args(entries, ARRAY_SIZE(entries));
	struct hugepin_region_info info;

	(void)arg;
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin));
	info = region_info(fd);
	CHECK_EQ(info.held_bytes, 2 * PAGE_2M);
	CHECK_EQ(info.refs, 513);
	CHECK_OK(munmap(start, 3 * PAGE_2M));
	CHECK_EQ(region_info(fd).refs, 513);
	close(fd);
	CHECK_OK(ioctl(device, HUGEPIN_IOC_USERS, &users));
	CHECK_EQ(users.nr_entries, 1);
	CHECK_EQ(users.cursor, 0);
	CHECK_EQ(entries[0].uid, 0);
	CHECK_EQ(entries[0].held[HUGEPIN_CLASS_2M], 2);
	CHECK_EQ(entries[0].quarantined[HUGEPIN_CLASS_2M], 2);
	CHECK_EQ(entries[0].pinned, 0);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
	CHECK(reserve_wait(nothing_quarantined, NULL), "still in quarantine");
	users.nr_entries = ARRAY_SIZE(entries);
	CHECK_OK(ioctl(device, HUGEPIN_IOC_USERS, &users));
	CHECK_EQ(users.nr_entries, 0);
}

static void hold_a_page(const void *arg)
{
	int device = device_open(), fd = region_make(PAGE_2M, CLASS_2M);
	char *start = mmap(NULL, PAGE_4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int pin = CHECK_OK(pin_range(device, start, PAGE_4K));

	channel_signal(arg, 1);
	channel_wait(arg, 1);
	close(pin);
	close(fd);
}

static void users_are_told_one_by_one(const void *arg)
{
	struct hugepin_user_entry entry;
	struct hugepin_users users = users_args(&entry, 1);
	int device = device_open(), mine = region_make(2 * PAGE_2M, CLASS_2M);
	struct channel channel = channel_open();
	pid_t child;

	(void)arg;
	CHECK_OK(chmod(HUGEPIN_DEVICE, 0666));
	child = ktap_fork();
	if (!child) {
		as_user(NOBODY, hold_a_page, &channel);
		ktap_exit();
	}
	channel_wait(&channel, 0);
	CHECK_OK(chmod(HUGEPIN_DEVICE, 0660));
	CHECK_OK(ioctl(device, HUGEPIN_IOC_USERS, &users));
	CHECK_EQ(entry.uid, 0);
	CHECK_EQ(entry.held[HUGEPIN_CLASS_2M], 2);
	CHECK(users.cursor, "the end after one of two users");
	CHECK_OK(ioctl(device, HUGEPIN_IOC_USERS, &users));
	CHECK_EQ(users.nr_entries, 1);
	CHECK_EQ(entry.uid, NOBODY);
	CHECK_EQ(entry.held[HUGEPIN_CLASS_2M], 1);
	CHECK_EQ(entry.quarantined[HUGEPIN_CLASS_2M], 0);
	CHECK_EQ(entry.pinned, PAGE_4K);
	CHECK_EQ(users.cursor, 0);
	channel_signal(&channel, 0);
	ktap_join(child);
	close(mine);
}

/* As many as there may be: the ids of a container, each with one pin. More than one call tells. */
#define MANY	(HUGEPIN_LIST_MAX + 400)

static int pin_as(int device, const char *start, unsigned int uid)
{
	int pin;

	CHECK_OK(seteuid(uid));
	pin = CHECK_OK(pin_range(device, start, PAGE_4K));
	CHECK_OK(seteuid(0));
	return pin;
}

/* Users @first, @first + @step, …, @count of them, oldest first, and no other; with room for all of them. */
static void check_users(int device, unsigned int first, unsigned int step, unsigned int count)
{
	static struct hugepin_user_entry entries[MANY + 1];
	struct hugepin_users users = users_args(entries, ARRAY_SIZE(entries));
	unsigned int told = 0, i;

	do {
		users.nr_entries = ARRAY_SIZE(entries);
		CHECK_OK(ioctl(device, HUGEPIN_IOC_USERS, &users));
		CHECK(users.nr_entries <= HUGEPIN_LIST_MAX, "%u at once", users.nr_entries);
		for (i = 0; i < users.nr_entries; i++, told++) {
			CHECK_EQ(entries[i].uid, first + told * step);
			CHECK_EQ(entries[i].pinned, PAGE_4K);
		}
	} while (users.cursor);
	CHECK_EQ(told, count);
}

static void many_users_are_told_once_and_oldest_first(const void *arg)
{
	const struct rlimit files = { .rlim_cur = MANY + 64, .rlim_max = MANY + 64 };
	char *start = mmap(NULL, PAGE_4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int device = device_open(), pins[MANY];
	const unsigned int first = 100000;
	unsigned int i;

	(void)arg;
	CHECK_OK(setrlimit(RLIMIT_NOFILE, &files));
	for (i = 0; i < MANY; i++)
		pins[i] = pin_as(device, start, first + i);
	check_users(device, first, 1, MANY);
	for (i = 0; i < MANY; i += 2)
		close(pins[i]);
	check_users(device, first + 1, 2, MANY / 2);
	for (i = 0; i < MANY; i += 2)		/* who comes again is new */
		pins[i] = pin_as(device, start, first + MANY + i);
	for (i = 1; i < MANY; i += 2)
		close(pins[i]);
	check_users(device, first + MANY, 2, MANY / 2);
}

static void region_info_knows_older_callers(const void *arg)
{
	int fd = region_make(PAGE_2M, CLASS_2M);
	struct hugepin_region_info info;

	(void)arg;
	memset(&info, 0xff, sizeof(info));
	memset(&info, 0, offsetof(struct hugepin_region_info, id));
	info.size = offsetof(struct hugepin_region_info, id);
	CHECK_OK(ioctl(fd, HUGEPIN_IOC_REGION_INFO, &info));
	CHECK_EQ(info.bytes, PAGE_2M);
	CHECK_EQ(info.id, ~0ULL);
	/* room for extents, of no matter without an array */
	info = (struct hugepin_region_info){ .size = sizeof(info), .nr_extents = 7 };
	CHECK_OK(ioctl(fd, HUGEPIN_IOC_REGION_INFO, &info));
	CHECK_EQ(info.nr_extents, 1);
}

static void what_is_malformed_is_refused(const void *arg)
{
	static struct hugepin_user_entry entries[4];
	int device = device_open(), directory = fs_mount(NULL, NULL), fd = region_make(PAGE_2M, CLASS_2M);
	const struct hugepin_users good = users_args(entries, ARRAY_SIZE(entries));
	struct hugepin_users users;

	(void)arg;
#define REFUSED(member, value, error)						\
	do {									\
		users = good;							\
		users.member = value;						\
		CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_USERS, &users), error);	\
	} while (0)
	REFUSED(size, sizeof(users) - 8, EINVAL);
	REFUSED(flags, 1, EINVAL);
	REFUSED(entries, 0, EINVAL);
	REFUSED(entries, 8, EFAULT);
	REFUSED(nr_entries, 0, EINVAL);
	REFUSED(entry_size, good.entry_size - 8, EINVAL);
	REFUSED(entry_size, good.entry_size + 4, EINVAL);
	REFUSED(entry_size, 1u << 31, EINVAL);
	users = good;
	CHECK_ERRNO(ioctl(directory, HUGEPIN_IOC_USERS, &users), ENOTTY);
	CHECK_ERRNO(ioctl(fd, HUGEPIN_IOC_USERS, &users), ENOTTY);
}

#define CASE(f, ...)	{ .name = #f, .run = f, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(files_areas_and_times_are_counted),
	CASE(base_entries_are_no_references),
	CASE(pins_are_told_and_go_to_quarantine),
	CASE(users_are_told_one_by_one),
	CASE(many_users_are_told_once_and_oldest_first, .timeout_s = 120),
	CASE(region_info_knows_older_callers),
	CASE(what_is_malformed_is_refused),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
