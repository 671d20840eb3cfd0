// SPDX-License-Identifier: MIT
/* Pinned ranges: what is pinned stays, what is refused leaves nothing, and who is charged for it until when. */
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "pinned.h"
#include "region.h"
#include "reserve.h"

#define BYTES	(2 * PAGE_2M)
#define USER	1000
#define OTHER	1001

/* ---- memory of every kind ---- */

static char *map(int protection, int flags, int fd, uint64_t bytes)
{
	char *start = mmap(NULL, bytes, protection, flags, fd, 0);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	return start;
}

static char *anonymous(uint64_t bytes)
{
	return map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, bytes);
}

static char *base_pages(void)
{
	char *start = anonymous(BYTES);

	CHECK_OK(madvise(start, BYTES, MADV_NOHUGEPAGE));
	return start;
}

static char *transparent_huge_pages(void)
{
	char *start = anonymous(BYTES + PAGE_2M);

	start = (char *)(uintptr_t)(((uintptr_t)start + PAGE_2M - 1) & ~(PAGE_2M - 1));
	CHECK_OK(madvise(start, BYTES, MADV_HUGEPAGE));
	*start = 1;
	CHECK_EQ(pages_of(driver_open(), start, PAGE_4K).order, 9);
	return start;
}

#define HUGETLB_KNOB	"/proc/sys/vm/nr_hugepages"

/* The kernel's pool goes back when the pages do: they are mapped now and surplus to what is set then. */
static char *hugetlb_pages(void)
{
	char before[32], more[32], *start;
	int error;

	CHECK(file_read(HUGETLB_KNOB, before, sizeof(before)), "no " HUGETLB_KNOB);
	snprintf(more, sizeof(more), "%ld", atol(before) + (long)(BYTES / PAGE_2M));
	CHECK_EQ(file_write(HUGETLB_KNOB, more), 0);
	start = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	error = errno;
	if (start != MAP_FAILED)
		memset(start, 0, BYTES);
	CHECK_EQ(file_write(HUGETLB_KNOB, before), 0);
	CHECK(start != MAP_FAILED, "%s", strerror(error));
	return start;
}

static char *region_pages(void)
{
	return region_map(region_make(BYTES, CLASS_2M), 0, BYTES, PROT_READ | PROT_WRITE);
}

static int memory_file(void)
{
	int fd = CHECK_OK(memfd_create("range", MFD_CLOEXEC));

	CHECK_OK(ftruncate(fd, BYTES));
	return fd;
}

static char *shared_memory(void)
{
	return map(PROT_READ | PROT_WRITE, MAP_SHARED, memory_file(), BYTES);
}

static char *private_file(void)
{
	return map(PROT_READ | PROT_WRITE, MAP_PRIVATE, memory_file(), BYTES);
}

struct memory {
	char *(*make)(void);
};

static const struct memory base = { base_pages }, thp = { transparent_huge_pages }, hugetlb = { hugetlb_pages },
			   region = { region_pages }, shared = { shared_memory }, private = { private_file };

/* ---- pins hold ---- */

/* References to the compound page at @start, once they have come down to @most; recently used pages have some more. */
static long long refs_at_most(int driver, const char *start, long long most)
{
	long long refs;
	int waited_ms;

	for (waited_ms = 0; (refs = pages_of(driver, start, PAGE_4K).refs) > most && waited_ms < SETTLE_MS;
	     waited_ms += 10)
		poll(NULL, 0, 10);
	return refs;
}

static void fdinfo(int pin, unsigned long long *bytes, unsigned long long *runs)
{
	char path[64], line[128];
	unsigned int found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pin);
	file = fopen(path, "r");
	CHECK(file, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file))
		found += sscanf(line, "pinned-bytes: %llu", bytes) == 1 || sscanf(line, "runs: %llu", runs) == 1;
	fclose(file);
	CHECK_EQ(found, 2);
}

static void pins_hold_until_the_last_close(const void *arg)
{
	int device = device_open(), driver = driver_open(), round, pin, again;
	char *start = ((const struct memory *)arg)->make();
	unsigned long long bytes, runs;
	long long held, own;

	marks_write(start, 0, BYTES, 1);
	own = 1LL << pages_of(driver, start, PAGE_4K).order;
	own = own == 1 || own > 512 ? 512 : own;	/* a large page has a reference for each base page, a small one many */
	for (round = 0; round < 3; round++) {
		pin = CHECK_OK(pin_range(device, start, BYTES));
		held = pages_of(driver, start, PAGE_4K).refs;
		again = CHECK_OK(dup(pin));
		close(pin);
		CHECK(pages_of(driver, start, PAGE_4K).refs >= held - 8, "let go before the last close");
		fdinfo(again, &bytes, &runs);
		CHECK_EQ(bytes, BYTES);
		CHECK(runs >= 1 && runs <= BYTES / PAGE_4K, "%llu runs", runs);
		close(again);
		CHECK(refs_at_most(driver, start, held - own) <= held - own, "%lld references, %lld while pinned",
		      (long long)pages_of(driver, start, PAGE_4K).refs, held);
	}
	CHECK_MARKS(start, 0, BYTES, 1);
	CHECK_OK(munmap(start, BYTES));
}

static void huge_pages_are_few_runs(const void *arg)
{
	char *start = ((const struct memory *)arg)->make();
	int pin = CHECK_OK(pin_range(device_open(), start, BYTES));
	unsigned long long bytes, runs;

	fdinfo(pin, &bytes, &runs);
	CHECK(runs <= BYTES / PAGE_2M, "%llu runs", runs);
	CHECK_OK(munmap(start, BYTES));
}

static void parts_and_overlaps_are_pinned_each_for_itself(const void *arg)
{
	int device = device_open(), driver = driver_open(), one, two;
	char *start = ((const struct memory *)arg)->make();
	unsigned long long bytes, runs;
	long long held;

	memset(start, 1, BYTES);
	one = CHECK_OK(pin_range(device, start + 3 * PAGE_4K, BYTES - 7 * PAGE_4K));
	two = CHECK_OK(pin_range(device, start + 2 * PAGE_4K, 2 * PAGE_4K));
	fdinfo(one, &bytes, &runs);
	CHECK_EQ(bytes, BYTES - 7 * PAGE_4K);
	held = pages_of(driver, start + 3 * PAGE_4K, PAGE_4K).refs;
	close(one);
	CHECK(pages_of(driver, start + 3 * PAGE_4K, PAGE_4K).refs < held, "the first is not let go");
	held = pages_of(driver, start + 3 * PAGE_4K, PAGE_4K).refs;
	close(two);
	CHECK(refs_at_most(driver, start + 3 * PAGE_4K, held - 1) < held, "the second is not let go");
	CHECK_OK(munmap(start, BYTES));
}

static long move_to(char *start, int node)
{
	void *page = start;
	int status = -EIO;

	CHECK_OK(syscall(SYS_move_pages, 0, 1UL, &page, &node, &status, 2 /* MPOL_MF_MOVE */));
	return status;
}

/* What mlock() does not give. */
static void a_pinned_page_does_not_move(const void *arg)
{
	unsigned int nodes[64], count = reserve_nodes(nodes, 64), here, there;
	int device = device_open(), driver = driver_open(), pin;
	char *start = anonymous(PAGE_4K);
	long status;

	(void)arg;
	if (count < 2)
		ktap_skip("one node");
	*start = 1;
	here = pages_of(driver, start, PAGE_4K).node;
	there = here == nodes[0] ? nodes[1] : nodes[0];
	pin = CHECK_OK(pin_range(device, start, PAGE_4K));
	status = move_to(start, there);
	CHECK(status < 0, "moved to node %ld", status);
	CHECK_EQ(pages_of(driver, start, PAGE_4K).node, here);
	close(pin);
	CHECK_EQ(move_to(start, there), there);
	CHECK_EQ(pages_of(driver, start, PAGE_4K).node, there);
}

/* The pin breaks what is shared beforehand, so that owner and pin stay on one page. */
static void a_child_does_not_part_a_range_from_its_pin(const void *arg)
{
	int device = device_open(), driver = driver_open(), pin, dmabuf;
	char *start = anonymous(PAGE_4K), byte = 0;
	struct channel channel = channel_open();
	pid_t child;

	(void)arg;
	*start = 1;
	pin = CHECK_OK(pin_range(device, start, PAGE_4K));
	dmabuf = export_all(pin);
	import_make(driver, dmabuf);
	child = ktap_fork();
	if (!child) {
		channel_wait(&channel, 1);
		CHECK_EQ(*start, 1);
		ktap_exit();
	}
	*start = 2;
	CHECK_OK(device_io(driver, false, 0, &byte, 1));
	CHECK_EQ(byte, 2);
	channel_signal(&channel, 0);
	ktap_join(child);
}

/* ---- what is refused leaves nothing ---- */

static void bad_requests_are_refused(const void *arg)
{
	static const struct {
		struct hugepin_pin_range pin;
		uint64_t from_start;	/* added to the range's address; all: addr is as it is */
		int error;
	} bad[] = {
		{ { .size = sizeof(struct hugepin_pin_range) - 1, .bytes = PAGE_4K }, 0, EINVAL },
		{ { .size = PAGE_4K + 1, .bytes = PAGE_4K }, 0, E2BIG },
		{ { .size = sizeof(struct hugepin_pin_range), .flags = 1, .bytes = PAGE_4K }, 0, EINVAL },
		{ { .size = sizeof(struct hugepin_pin_range), .pad = 1, .bytes = PAGE_4K }, 0, EINVAL },
		{ { .size = sizeof(struct hugepin_pin_range) }, 0, EINVAL },
		{ { .size = sizeof(struct hugepin_pin_range), .bytes = PAGE_4K }, 1, EINVAL },
		{ { .size = sizeof(struct hugepin_pin_range), .bytes = PAGE_4K }, PAGE_4K / 2, EINVAL },
		{ { .size = sizeof(struct hugepin_pin_range), .bytes = PAGE_4K + 1 }, 0, EINVAL },
		{ { .size = sizeof(struct hugepin_pin_range), .bytes = -PAGE_4K }, 0, EOVERFLOW },
		{ { .size = sizeof(struct hugepin_pin_range), .bytes = 1ULL << 63 }, 1ULL << 63, EOVERFLOW },
		{ { .size = sizeof(struct hugepin_pin_range), .bytes = 1ULL << 62 }, 0, EFAULT },
		{ { .size = sizeof(struct hugepin_pin_range), .bytes = PAGE_4K }, 1ULL << 62, EFAULT },
		{ { .size = sizeof(struct hugepin_pin_range), .bytes = 2 * PAGE_4K }, 0, EFAULT },	/* a hole */
	};
	struct hugepin_pin_range *pin = (void *)anonymous(PAGE_4K);
	int device = device_open(), directory = fs_mount(NULL, NULL), next;
	char *start = anonymous(2 * PAGE_4K);
	unsigned int i;

	(void)arg;
	CHECK_OK(munmap(start + PAGE_4K, PAGE_4K));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		*pin = bad[i].pin;
		pin->addr = (uintptr_t)start + bad[i].from_start;
		errno = 0;
		CHECK(ioctl(device, HUGEPIN_IOC_PIN, pin) == -1 && errno == bad[i].error, "request %u: %s", i,
		      strerror(errno));
	}
	CHECK_EQ(pin_range(CHECK_OK(open(HUGEPIN_DEVICE, O_RDONLY)), start, PAGE_4K), -EBADF);
	CHECK_EQ(pin_range(directory, start, PAGE_4K), -ENOTTY);
	CHECK_EQ(pin_range(region_make(PAGE_2M, CLASS_2M), start, PAGE_4K), -ENOTTY);
	CHECK_EQ(pin_range(CHECK_OK(pin_range(device, start, PAGE_4K)), start, PAGE_4K), -ENOTTY);
	CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_PIN, NULL), EFAULT);
	/* it can be read, but not answered */
	*pin = (struct hugepin_pin_range){ .size = sizeof(*pin), .addr = (uintptr_t)start, .bytes = PAGE_4K };
	CHECK_OK(mprotect(pin, PAGE_4K, PROT_READ));
	next = CHECK_OK(dup(device));
	close(next);
	CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_PIN, pin), EFAULT);
	CHECK_EQ(dup(device), next);
}

static void a_hole_leaves_nothing_pinned(const void *arg)
{
	int device = device_open(), driver = driver_open();
	char *start = ((const struct memory *)arg)->make();
	long long refs;

	memset(start, 1, BYTES);
	close(CHECK_OK(pin_range(device, start, BYTES)));	/* settles where the pages are */
	CHECK_OK(munmap(start + PAGE_2M, PAGE_2M));
	refs = pages_of(driver, start, PAGE_4K).refs;
	CHECK_EQ(pin_range(device, start, BYTES), -EFAULT);
	CHECK(refs_at_most(driver, start, refs) <= refs, "references are left");
}

static void memory_that_cannot_be_written_is_refused(const void *arg)
{
	int device = device_open(), fd = memory_file(), sealed;
	char path[64];

	(void)arg;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	sealed = CHECK_OK(open(path, O_RDONLY));
	CHECK_EQ(pin_range(device, map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, BYTES), BYTES), -EFAULT);
	CHECK_EQ(pin_range(device, map(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, BYTES), BYTES), -EFAULT);
	CHECK_EQ(pin_range(device, map(PROT_READ, MAP_SHARED, sealed, BYTES), BYTES), -EFAULT);
	CHECK_EQ(pin_range(device, map(PROT_READ, MAP_SHARED, region_make(BYTES, CLASS_2M), BYTES), BYTES), -EFAULT);
}

/* A mapping longer than its file: the part behind the end raises SIGBUS when touched, and is refused here. */
static void memory_behind_the_end_of_its_file_is_refused(const void *arg)
{
	char *start = map(PROT_READ | PROT_WRITE, MAP_SHARED, memory_file(), 2 * BYTES);

	(void)arg;
	CHECK_EQ(pin_range(device_open(), start, 2 * BYTES), -EFAULT);
	CHECK_OK(pin_range(device_open(), start, BYTES));
}

/* ---- the ledger ---- */

#define LIMIT	(2 * MiB)

static void set_limit(uint64_t bytes)
{
	struct rlimit limit = { bytes, bytes };

	CHECK_OK(setrlimit(RLIMIT_MEMLOCK, &limit));
}

/* Refused, with what is @held and the limit in numbers. */
static void check_over(int device, const char *start, uint64_t bytes, uint64_t held, uint64_t limit)
{
	struct hugepin_pin_range pin = { .addr = (uintptr_t)start, .bytes = bytes };

	CHECK_EQ(pin_try(device, &pin), -EDQUOT);
	CHECK_EQ(pin.held, held);
	CHECK_EQ(pin.limit, limit);
}

/* Nothing is charged to this user: a limit of one page lets one page through. A close by a killed process takes a while. */
static void check_nothing_held(int device)
{
	char *page = anonymous(PAGE_4K);
	int waited_ms, pin;

	set_limit(PAGE_4K);
	for (waited_ms = 0; (pin = pin_range(device, page, PAGE_4K)) == -EDQUOT && waited_ms < SETTLE_MS; waited_ms += 10)
		poll(NULL, 0, 10);
	CHECK(pin >= 0, "%s", strerror(-pin));
	close(pin);
	munmap(page, PAGE_4K);
}

static void user_meets_the_limit(const void *arg)
{
	int device = *(const int *)arg, one, two;
	char *start = anonymous(LIMIT + PAGE_4K);

	set_limit(LIMIT);
	check_over(device, start, LIMIT + PAGE_4K, 0, LIMIT);
	one = CHECK_OK(pin_range(device, start, LIMIT - 3 * PAGE_4K));
	check_over(device, start, 4 * PAGE_4K, LIMIT - 3 * PAGE_4K, LIMIT);
	two = CHECK_OK(pin_range(device, start, 3 * PAGE_4K));		/* twice the same memory counts twice */
	check_over(device, start, PAGE_4K, LIMIT, LIMIT);
	close(one);
	CHECK_OK(pin_range(device, start, LIMIT - 3 * PAGE_4K));
	CHECK_OK(munmap(start, LIMIT + PAGE_4K));			/* the range goes, its charge stays */
	check_over(device, start, PAGE_4K, LIMIT, LIMIT);
	close(two);
	set_limit(PAGE_4K);						/* lower than what is held */
	check_over(device, start, PAGE_4K, LIMIT - 3 * PAGE_4K, PAGE_4K);
	set_limit(0);
	check_over(device, start, PAGE_4K, LIMIT - 3 * PAGE_4K, 0);
}

static void user_holds_nothing(const void *arg)
{
	check_nothing_held(*(const int *)arg);
}

static void the_limit_is_kept_to_the_page(const void *arg)
{
	int device = device_open();

	(void)arg;
	as_user(USER, user_meets_the_limit, &device);
	as_user(USER, user_holds_nothing, &device);	/* the end of the process let go of the rest */
}

static void failures_are_not_charged(const void *arg)
{
	int device = *(const int *)arg;
	char *start = anonymous(LIMIT);

	set_limit(LIMIT);
	CHECK_OK(munmap(start + LIMIT / 2, PAGE_4K));
	CHECK_EQ(pin_range(device, start, LIMIT), -EFAULT);
	CHECK_EQ(pin_range(device, start + 1, PAGE_4K), -EINVAL);
	check_nothing_held(device);
}

static void a_refused_range_is_not_charged(const void *arg)
{
	int device = device_open();

	(void)arg;
	as_user(USER, failures_are_not_charged, &device);
}

static void user_tries_a_child(const void *arg)
{
	int device = *(const int *)arg;
	char *start = anonymous(LIMIT);
	struct channel channel = channel_open();
	pid_t child;

	set_limit(LIMIT);
	CHECK_OK(pin_range(device, start, LIMIT - PAGE_4K));
	child = ktap_fork();
	if (!child) {
		CHECK_OK(setsid());
		check_over(device, start, 2 * PAGE_4K, LIMIT - PAGE_4K, LIMIT);
		descriptor_send(&channel, 1, CHECK_OK(pin_range(device, start, PAGE_4K)));
		ktap_exit();
	}
	ktap_join(child);
	check_over(device, start, PAGE_4K, LIMIT, LIMIT);	/* in flight, and its maker is gone */
	close(descriptor_receive(&channel, 0));
	CHECK_OK(pin_range(device, start, PAGE_4K));
}

static void a_child_is_no_way_around_the_limit(const void *arg)
{
	int device = device_open();

	(void)arg;
	as_user(USER, user_tries_a_child, &device);
}

struct passing {
	int device;
	struct channel channel;
};

static void pin_and_pass(const void *arg)
{
	const struct passing *passing = arg;

	set_limit(LIMIT);
	descriptor_send(&passing->channel, 1, CHECK_OK(pin_range(passing->device, anonymous(LIMIT), LIMIT)));
}

static void user_is_at_its_limit(const void *arg)
{
	set_limit(LIMIT);
	check_over(*(const int *)arg, anonymous(PAGE_4K), PAGE_4K, LIMIT, LIMIT);
}

static void a_passed_descriptor_keeps_its_maker_charged(const void *arg)
{
	struct passing passing = { device_open(), channel_open() };
	int pin, dmabuf;

	(void)arg;
	as_user(USER, pin_and_pass, &passing);
	pin = descriptor_receive(&passing.channel, 0);
	as_user(USER, user_is_at_its_limit, &passing.device);	/* its maker is dead */
	as_user(OTHER, user_holds_nothing, &passing.device);	/* others are not concerned */
	dmabuf = export_all(pin);
	close(pin);
	as_user(USER, user_is_at_its_limit, &passing.device);	/* a dma-buf of it is enough */
	close(dmabuf);
	as_user(USER, user_holds_nothing, &passing.device);
}

static void the_privileged_are_counted_only(const void *arg)
{
	int device = device_open();
	char *start = anonymous(2 * LIMIT);

	(void)arg;
	set_limit(LIMIT);
	CHECK_OK(pin_range(device, start, 2 * LIMIT));
	CHECK_OK(pin_range(device, start, 2 * LIMIT));
}

/* User USER makes a user namespace in which it has another uid besides; both count for USER. */
static void pin_as_subordinate(const struct passing *passing)
{
	CHECK_OK(setgroups(0, NULL));
	CHECK_OK(setgid(USER));
	CHECK_OK(setuid(USER));
	set_limit(LIMIT);
	CHECK_OK(prctl(PR_SET_DUMPABLE, 1));
	CHECK_OK(unshare(CLONE_NEWUSER));
	channel_signal(&passing->channel, 1);
	channel_wait(&passing->channel, 1);		/* the map is written */
	CHECK_OK(setresuid(0, 0, 0));			/* with all capabilities, which count in there only */
	check_over(passing->device, anonymous(2 * LIMIT), 2 * LIMIT, 0, LIMIT);
	CHECK_OK(setresuid(1, 1, 1));
	descriptor_send(&passing->channel, 1, CHECK_OK(pin_range(passing->device, anonymous(LIMIT), LIMIT)));
	check_over(passing->device, anonymous(PAGE_4K), PAGE_4K, LIMIT, LIMIT);
}

static void a_user_namespace_is_no_way_around_the_limit(const void *arg)
{
	struct passing passing = { device_open(), channel_open() };
	char path[64];
	pid_t child;
	int pin;

	(void)arg;
	child = ktap_fork();
	if (!child) {
		pin_as_subordinate(&passing);
		ktap_exit();
	}
	channel_wait(&passing.channel, 0);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
	CHECK_EQ(file_write(path, "0 1000 1\n1 100000 10\n"), 0);
	channel_signal(&passing.channel, 0);
	pin = descriptor_receive(&passing.channel, 0);
	ktap_join(child);
	as_user(USER, user_is_at_its_limit, &passing.device);
	as_user(OTHER, user_holds_nothing, &passing.device);
	close(pin);
	as_user(USER, user_holds_nothing, &passing.device);
}

/* ---- signals ---- */

#define LARGE	(256 * MiB)

struct killing {
	int device, delay_ms;
};

static void user_is_killed_at_it(const void *arg)
{
	const struct killing *killing = arg;
	char *start = anonymous(LARGE);
	int device = killing->device;
	pid_t child;

	CHECK_OK(madvise(start, LARGE, MADV_NOHUGEPAGE));
	set_limit(LARGE);
	child = ktap_fork();
	if (!child) {
		pin_range(device, start, LARGE);
		for (;;)
			pause();
	}
	poll(NULL, 0, killing->delay_ms);
	kill(child, SIGKILL);
	ktap_join_killed(child, SIGKILL);
	check_nothing_held(device);
}

static void a_killed_pin_holds_nothing(const void *arg)
{
	static const int delays_ms[] = { 0, 5, 20, 60, 200 };
	struct killing killing = { .device = device_open() };
	struct rlimit limit = { LARGE, LARGE };
	unsigned int i;

	(void)arg;
	CHECK_OK(setrlimit(RLIMIT_MEMLOCK, &limit));
	for (i = 0; i < ARRAY_SIZE(delays_ms); i++) {
		killing.delay_ms = delays_ms[i];
		as_user(USER, user_is_killed_at_it, &killing);
	}
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

/* A profiler's timer must not make a large range begin anew for ever. */
static void other_signals_do_not_end_a_pin(const void *arg)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, never = { 0 };
	char *start = anonymous(LARGE / 4);
	int pin, device = device_open();

	(void)arg;
	CHECK_OK(madvise(start, LARGE / 4, MADV_NOHUGEPAGE));
	CHECK_OK(sigaction(SIGALRM, &action, NULL));
	CHECK_OK(setitimer(ITIMER_REAL, &often, NULL));
	pin = pin_range(device, start, LARGE / 4);
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK(pin >= 0, "%s", strerror(-pin));
	CHECK(alarms > 0, "no signal came meanwhile: the range is too small for this test");
}

#define CASE(f)		{ .name = #f, .run = f, .timeout_s = 60 }
#define ON(f, memory)	{ .name = #f, .run = f, .arg = &(memory), .variant = #memory, .timeout_s = 60 }

static const struct ktap_case cases[] = {
	ON(pins_hold_until_the_last_close, base),
	ON(pins_hold_until_the_last_close, thp),
	ON(pins_hold_until_the_last_close, hugetlb),
	ON(pins_hold_until_the_last_close, region),
	ON(pins_hold_until_the_last_close, shared),
	ON(pins_hold_until_the_last_close, private),
	ON(huge_pages_are_few_runs, thp),
	ON(huge_pages_are_few_runs, hugetlb),
	ON(huge_pages_are_few_runs, region),
	ON(parts_and_overlaps_are_pinned_each_for_itself, base),
	ON(parts_and_overlaps_are_pinned_each_for_itself, thp),
	ON(parts_and_overlaps_are_pinned_each_for_itself, hugetlb),
	ON(parts_and_overlaps_are_pinned_each_for_itself, region),
	ON(parts_and_overlaps_are_pinned_each_for_itself, shared),
	CASE(a_pinned_page_does_not_move),
	CASE(a_child_does_not_part_a_range_from_its_pin),
	CASE(bad_requests_are_refused),
	ON(a_hole_leaves_nothing_pinned, base),
	ON(a_hole_leaves_nothing_pinned, thp),
	ON(a_hole_leaves_nothing_pinned, hugetlb),
	ON(a_hole_leaves_nothing_pinned, region),
	CASE(memory_that_cannot_be_written_is_refused),
	CASE(memory_behind_the_end_of_its_file_is_refused),
	CASE(the_limit_is_kept_to_the_page),
	CASE(a_refused_range_is_not_charged),
	CASE(a_child_is_no_way_around_the_limit),
	CASE(a_passed_descriptor_keeps_its_maker_charged),
	CASE(the_privileged_are_counted_only),
	CASE(a_user_namespace_is_no_way_around_the_limit),
	CASE(a_killed_pin_holds_nothing),
	CASE(other_signals_do_not_end_a_pin),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
