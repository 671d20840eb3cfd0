// SPDX-License-Identifier: MIT
/*
 * The module goes when nothing of it is in use, and not before. Removes and loads it (the file is $HUGEPIN_KO), so it
 * runs last and alone.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "load.h"
#include "pinned.h"
#include "region.h"
#include "reserve.h"

/* The last put of a file runs when the process returns to user space, and elsewhere at times: give it a moment. */
static void check_unloads(void)
{
	int error, waited_ms;

	for (waited_ms = 0; (error = unload()) == -EAGAIN || error == -EBUSY; waited_ms += 10) {
		if (waited_ms >= SETTLE_MS)
			break;
		poll(NULL, 0, 10);
	}
	CHECK(!error, "%s", strerror(-error));
	CHECK(access(HUGEPIN_DEVICE, F_OK) && errno == ENOENT, HUGEPIN_DEVICE " is still there");
	error = load("");
	CHECK(!error, "loading it again: %s", strerror(-error));
	CHECK_OK(access(HUGEPIN_DEVICE, R_OK | W_OK));
}

static void check_stays(const char *why)
{
	int error = unload();

	CHECK(error == -EAGAIN || error == -EBUSY, "with %s: %s", why, error ? strerror(-error) : "unloaded");
}

static void some_pages(void)
{
	unsigned int node;

	CHECK(reserve_nodes(&node, 1), "no node");
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", 8), 0);
}

static void an_idle_module_goes_and_comes_again(const void *arg)
{
	int round;

	(void)arg;
	for (round = 0; round < 3; round++) {
		some_pages();
		check_unloads();
	}
}

static void an_open_device_holds_it(const void *arg)
{
	int device = device_open();

	(void)arg;
	check_stays("/dev/hugepin open");
	close(device);
	check_unloads();
}

static void an_open_region_holds_it(const void *arg)
{
	int fd;

	(void)arg;
	some_pages();
	fd = region_make(PAGE_2M, CLASS_2M);
	check_stays("a region open");
	close(fd);
	check_unloads();
}

static void a_mapping_holds_it(const void *arg)
{
	char *start;
	int fd;

	(void)arg;
	some_pages();
	fd = region_make(2 * PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, 2 * PAGE_2M, PROT_READ | PROT_WRITE);
	start[0] = 1;
	close(fd);
	check_stays("a region mapped");
	CHECK_OK(munmap(start, PAGE_2M));
	check_stays("half of a region mapped");
	CHECK_OK(munmap(start + PAGE_2M, PAGE_2M));
	check_unloads();
}

static void a_descriptor_in_flight_holds_it(const void *arg)
{
	struct channel channel = channel_open();
	int fd;

	(void)arg;
	some_pages();
	fd = region_make(PAGE_2M, CLASS_2M);
	descriptor_send(&channel, 0, fd);
	close(fd);
	check_stays("a descriptor in flight");
	close(channel.ends[0]);
	close(channel.ends[1]);
	check_unloads();
}

static void a_mount_holds_it_with_and_without_names(const void *arg)
{
	const char *path;
	int directory = fs_mount(NULL, &path);
	struct hugepin_create args = create_args(PAGE_2M, CLASS_2M);

	(void)arg;
	some_pages();
	close(directory);
	check_stays("an empty mount");
	directory = CHECK_OK(open(path, O_RDONLY | O_DIRECTORY));
	args.name = (uintptr_t)"emb0";
	close(CHECK_OK(region_create(directory, &args)));
	close(directory);
	check_stays("a name");
	CHECK_OK(umount(path));		/* and the name with it */
	check_unloads();
}

static void a_region_of_a_detached_mount_holds_it(const void *arg)
{
	const char *path;
	int directory = fs_mount(NULL, &path), fd;
	struct hugepin_create args = create_args(PAGE_2M, CLASS_2M);

	(void)arg;
	some_pages();
	args.name = (uintptr_t)"emb0";
	fd = CHECK_OK(region_create(directory, &args));
	close(directory);
	CHECK_OK(umount2(path, MNT_DETACH));
	check_stays("a region of a mount that is gone from sight");
	close(fd);
	check_unloads();
}

static void a_pinned_range_holds_it(const void *arg)
{
	char *start = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int device = device_open(), pin;

	(void)arg;
	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	pin = CHECK_OK(pin_range(device, start, PAGE_2M));
	close(device);
	CHECK_OK(munmap(start, PAGE_2M));
	check_stays("a pinned range");
	close(pin);
	check_unloads();
}

static void a_dma_buf_and_its_importer_hold_it(const void *arg)
{
	int driver = driver_open(), fd, dmabuf;
	char *start;

	(void)arg;
	some_pages();
	fd = region_make(PAGE_2M, CLASS_2M);
	dmabuf = export_all(fd);
	close(fd);
	check_stays("a dma-buf");
	import_make(driver, dmabuf);
	start = region_map(dmabuf, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	close(dmabuf);
	check_stays("a dma-buf imported and mapped");
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNMAP));
	check_stays("a dma-buf mapped");
	CHECK_OK(munmap(start, PAGE_2M));
	check_unloads();
}

/* The pages outlive the module, and the last unpin frees them. */
static void quarantined_pages_do_not_hold_it(const void *arg)
{
	struct hugepin_test_pin pin = { .size = sizeof(pin), .bytes = 2 * PAGE_2M };
	struct hugepin_test_io io = { .size = sizeof(io) };
	int driver = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC), fd;
	uint64_t word = 0;
	char *start;

	(void)arg;
	if (driver < 0)
		ktap_skip("the test module is not loaded");
	some_pages();
	fd = region_make(2 * PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, 2 * PAGE_2M, PROT_READ | PROT_WRITE);
	pin.addr = (uintptr_t)start;
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin));
	*(uint64_t *)start = 0x1234;
	CHECK_OK(munmap(start, 2 * PAGE_2M));
	close(fd);
	check_unloads();
	io.buffer = (uintptr_t)&word;
	io.bytes = sizeof(word);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_READ, &io));
	CHECK_EQ(word, 0x1234);
	close(driver);
}

static void reserving_at_load_works_and_bad_words_do_not_load(const void *arg)
{
	static const char * const bad[] = {
		"reserve=0:2M:abc", "reserve=0:4M:1", "reserve=0:2M", "reserve=0:2M:-1", "reserve=900:2M:1",
		"reserve=0:2M:101%", "reserve=0:2M:1,", "reserve=:2M:1", "reserve=0:2M:99999999", "reserve=x:2M:1",
	};
	unsigned int i, node;
	int error;

	(void)arg;
	CHECK(reserve_nodes(&node, 1), "no node");
	CHECK_EQ(unload(), 0);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		error = load(bad[i]);
		CHECK(error, "'%s' was taken", bad[i]);
	}
	error = load("reserve=*:2M:9,*:2M:5");
	CHECK(!error, "%s", strerror(-error));
	CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_2M).total, 5);
	check_unloads();
}

/* Answers to a write to a knob of a module that goes. */
#define ENDED_EARLY	10

static void grow_by_half_of_the_node(unsigned int node)
{
	char path[96];
	int error;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", node);
	error = knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", (file_number(path, "MemFree:") << 10) / 2 / PAGE_2M);
	_exit(error == -EINTR ? ENDED_EARLY : KTAP_PASS);	/* any other answer: it may be gone */
}

/*
 * Until the first of what @child reserves is there, if it has not ended before. No pause: all of it may take a
 * millisecond.
 */
static void wait_for_growth(unsigned int node, pid_t child)
{
	uint64_t before = reserve_of(node, HUGEPIN_CLASS_2M).total;
	siginfo_t ended = { 0 };

	while (reserve_of(node, HUGEPIN_CLASS_2M).total == before && !ended.si_pid)
		CHECK_OK(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT));
}

/* Growing takes a while; unloading must not wait for all of it, nor go under it: at its beginning, and while it goes on. */
static void unloading_while_a_knob_is_written_is_sound(const void *arg)
{
	unsigned int node, early = 0;
	int round;

	(void)arg;
	CHECK(reserve_nodes(&node, 1), "no node");
	for (round = 0; round < 5 || (!early && round < 50); round++) {
		pid_t child = ktap_fork();
		int error, status;

		if (!child)
			grow_by_half_of_the_node(node);
		if (round % 2)
			wait_for_growth(node, child);
		else
			poll(NULL, 0, 2 + 5 * (round % 5));
		error = unload();
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK(!error, "%s", strerror(-error));	/* a knob does not hold the module */
		CHECK(WIFEXITED(status), "status %#x", status);
		early += WEXITSTATUS(status) == ENDED_EARLY;
		CHECK_EQ(load(""), 0);
	}
	CHECK(early, "no write was ended by the unloading: nothing was tested");
	ktap_note("%u of %d writes were ended by it", early, round);
}

#define CASE(f)	{ .name = #f, .run = f }

static const struct ktap_case cases[] = {
	CASE(an_idle_module_goes_and_comes_again),
	CASE(an_open_device_holds_it),
	CASE(an_open_region_holds_it),
	CASE(a_mapping_holds_it),
	CASE(a_descriptor_in_flight_holds_it),
	CASE(a_mount_holds_it_with_and_without_names),
	CASE(a_region_of_a_detached_mount_holds_it),
	CASE(a_pinned_range_holds_it),
	CASE(a_dma_buf_and_its_importer_hold_it),
	CASE(quarantined_pages_do_not_hold_it),
	CASE(reserving_at_load_works_and_bad_words_do_not_load),
	CASE(unloading_while_a_knob_is_written_is_sound),
};

int main(int argc, char **argv)
{
	return load_main(argc, argv, cases, ARRAY_SIZE(cases), reserve_hooks);
}
