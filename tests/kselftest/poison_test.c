// SPDX-License-Identifier: MIT
/*
 * Faulty memory: heard of at once, never zeroed, handed out or given back again; a program that has it mapped gets
 * SIGBUS at the next touch and no sooner. Poisoned pages are held for good, so each case ends with the module loaded
 * anew.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "driver.h"
#include "load.h"
#include "region.h"

#define CORRUPT	"/sys/kernel/debug/hwpoison/corrupt-pfn"

static uint64_t pfn_of(int driver, const char *address)
{
	struct hugepin_test_poison find = {
		.size = sizeof(find), .flags = HUGEPIN_TEST_POISON_FIND, .addr = (uintptr_t)address,
	};

	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_POISON, &find));
	return find.pfn;
}

/* What the machine-check code does when the hardware reports it. */
static void report(int driver, uint64_t pfn)
{
	struct hugepin_test_poison poison = { .size = sizeof(poison), .pfn = pfn };

	if (ioctl(driver, HUGEPIN_TEST_IOC_POISON, &poison)) {
		CHECK(errno == EOPNOTSUPP, "%s", strerror(errno));
		ktap_skip("this kernel hears of no machine checks (X86_MCE)");
	}
}

static bool poisoned_is(const struct reserve *reserve, const void *arg)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < reserve->info.nr_pages; i++)
		sum += reserve->pages[i].poisoned;
	return sum == *(const uint64_t *)arg;
}

static void check_poisoned(uint64_t pages)
{
	CHECK(reserve_wait(poisoned_is, &pages), "not %llu pages poisoned", (unsigned long long)pages);
}

static bool nothing_dirty(const struct reserve *reserve, const void *arg)
{
	unsigned int i;

	(void)arg;
	for (i = 0; i < reserve->info.nr_pages; i++)
		if (reserve->pages[i].dirty)
			return false;
	return true;
}

static void load_anew(void)
{
	int error, waited_ms;

	for (waited_ms = 0; (error = unload()) == -EAGAIN && waited_ms < SETTLE_MS; waited_ms += 10)
		poll(NULL, 0, 10);	/* the last put of a file may be under way */
	CHECK(!error, "%s", strerror(-error));
	CHECK_EQ(load(""), 0);
}

static sigjmp_buf back;
static volatile int code;
static void *volatile where;

static void caught(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	code = info->si_code;
	where = info->si_addr;
	siglongjmp(back, 1);
}

/* The si_code of the SIGBUS that reading raises, 0 if none. */
static int bus_code(const char *address)
{
	struct sigaction action = { .sa_sigaction = caught, .sa_flags = SA_SIGINFO };

	CHECK_OK(sigaction(SIGBUS, &action, NULL));
	code = 0;
	if (!sigsetjmp(back, 1))
		*(const volatile char *)address;
	return code;
}

/* The kernel tells its listeners from a work item, so it may take a moment. */
static void check_lost(char *address)
{
	int got, waited_ms;

	for (waited_ms = 0; !(got = bus_code(address)) && waited_ms < SETTLE_MS; waited_ms += 10)
		poll(NULL, 0, 10);
	CHECK(got == BUS_MCEERR_AR, "SIGBUS with code %d", got);
	CHECK(where == address, "at %p, not %p", where, (void *)address);
}

/* @arg: the class */
static void a_mapped_page_is_unmapped_and_the_next_touch_is_sigbus(const void *arg)
{
	unsigned int class = *(const unsigned int *)arg;
	uint64_t page = class == HUGEPIN_CLASS_1G ? PAGE_1G : PAGE_2M, before;
	int driver = driver_open(), fd;
	char *start;

	if (!reserve_free_class(class))
		ktap_skip("no pages of that class in the reserve");
	before = reserve_free_class(class);
	fd = region_make(page, 1u << class);
	start = region_map(fd, 0, page, PROT_READ | PROT_WRITE);
	start[5 * PAGE_4K] = 1;
	report(driver, pfn_of(driver, start + 7 * PAGE_4K));
	check_poisoned(0);			/* it is in use, and stays so until the region ends */
	check_lost(start + 7 * PAGE_4K);
	check_lost(start + 5 * PAGE_4K);	/* lost with the huge page */
	close(fd);
	CHECK_OK(munmap(start, page));
	check_poisoned(1);
	CHECK_EQ(reserve_free_class(class), before - 1);
	close(driver);
	load_anew();
}

static void its_neighbours_stay(const void *arg)
{
	int driver = driver_open(), fd = region_make(3 * PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, 3 * PAGE_2M, PROT_READ | PROT_WRITE), *again;

	(void)arg;
	marks_write(start, 0, 3 * PAGE_2M, 3);
	report(driver, pfn_of(driver, start + PAGE_2M));
	poll(NULL, 0, 100);
	check_lost(start + PAGE_2M + 100);
	CHECK_MARKS(start, 0, PAGE_2M, 3);
	CHECK_EQ(bus_code(start + 2 * PAGE_2M), 0);
	again = region_map(fd, 0, 3 * PAGE_2M, PROT_READ);
	check_lost(again + PAGE_2M);
	CHECK_OK(munmap(again, 3 * PAGE_2M));
	/* a device cannot have it any more either */
	{
		struct hugepin_test_pin pin = {
			.size = sizeof(pin), .addr = (uintptr_t)start, .bytes = 3 * PAGE_2M,
		};

		CHECK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin) && (errno == EHWPOISON || errno == EFAULT), "%s",
		      strerror(errno));
	}
	CHECK_OK(munmap(start, 3 * PAGE_2M));
	close(fd);
	close(driver);
	load_anew();
}

/* It is not among those held, and another comes for it when the same number is asked for again. */
static void check_made_up_for(const struct reserve *before)
{
	unsigned int i, less = 0;

	for (i = 0; i < before->info.nr_pages; i++) {
		const struct hugepin_info_pages *p = &before->pages[i];
		uint64_t held;

		if (p->class != HUGEPIN_CLASS_2M)
			continue;
		held = knob_read(p->node, p->class, "nr_hugepages");
		if (held == p->total)
			continue;
		CHECK_EQ(held, p->total - 1);
		CHECK_EQ(knob_write(p->node, p->class, "nr_hugepages", p->total), 0);
		CHECK_EQ(knob_read(p->node, p->class, "nr_hugepages"), p->total);
		less++;
	}
	CHECK_EQ(less, 1);
	check_poisoned(1);
}

static void a_free_page_is_never_handed_out_again(const void *arg)
{
	int driver = driver_open(), fd = region_make(PAGE_2M, CLASS_2M), round;
	char *start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	struct reserve before;
	uint64_t pfn, free_pages, all;

	(void)arg;
	*start = 1;
	pfn = pfn_of(driver, start);
	CHECK_OK(munmap(start, PAGE_2M));
	close(fd);
	for (round = 0; round < 6 && !reserve_wait(nothing_dirty, NULL); round++)
		;	/* a 1G page takes its time when emulated */
	CHECK(round < 6, "not scrubbed");
	free_pages = reserve_free_class(HUGEPIN_CLASS_2M);
	reserve_read(&before);
	report(driver, pfn + 3);
	check_poisoned(1);
	CHECK_EQ(reserve_free_class(HUGEPIN_CLASS_2M), free_pages - 1);
	report(driver, pfn + 4);	/* no news */
	poll(NULL, 0, 200);
	check_poisoned(1);
	check_made_up_for(&before);
	for (round = 0; round < 2; round++) {
		uint64_t at;

		all = reserve_free_class(HUGEPIN_CLASS_2M) * PAGE_2M;
		fd = region_make(all, CLASS_2M);
		start = region_map(fd, 0, all, PROT_READ | PROT_WRITE);
		for (at = 0; at < all; at += PAGE_2M)
			CHECK(pfn_of(driver, start + at) != pfn, "handed out");
		CHECK_OK(munmap(start, all));
		close(fd);
	}
	close(driver);
	load_anew();
}

static void a_page_in_quarantine_is_put_aside_when_it_comes_back(const void *arg)
{
	int driver = driver_open(), fd = region_make(PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	struct hugepin_test_pin pin = { .size = sizeof(pin), .addr = (uintptr_t)start, .bytes = PAGE_2M };
	uint64_t pfn;

	(void)arg;
	*start = 1;
	pfn = pfn_of(driver, start);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin));
	CHECK_OK(munmap(start, PAGE_2M));
	close(fd);
	report(driver, pfn);
	poll(NULL, 0, 300);
	check_poisoned(0);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
	check_poisoned(1);
	close(driver);
	load_anew();
}

static void an_error_in_other_memory_is_none_of_ours(const void *arg)
{
	int driver = driver_open();
	char *other = mmap(NULL, PAGE_4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	(void)arg;
	CHECK(other != MAP_FAILED, "%s", strerror(errno));
	*other = 1;
	report(driver, pfn_of(driver, other));
	report(driver, 1ULL << 40);
	poll(NULL, 0, 300);
	check_poisoned(0);
	CHECK_EQ(*other, 1);
	close(driver);
}

/* The kernel's own injector only sets the flag, as memory_failure() does for a driver's page. */
static void a_flagged_page_is_found_when_it_is_scrubbed(const void *arg)
{
	int driver = driver_open(), fd;
	char text[32], *start;

	(void)arg;
	if (access(CORRUPT, W_OK))
		ktap_skip("no " CORRUPT " (HWPOISON_INJECT, debugfs)");
	fd = region_make(PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	*start = 1;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)pfn_of(driver, start + PAGE_4K));
	file_write(CORRUPT, text);	/* EBUSY, since it can do nothing about it; the flag is set */
	CHECK_OK(munmap(start, PAGE_2M));
	close(fd);
	check_poisoned(1);
	close(driver);
	load_anew();
}

static const unsigned int class_2m = HUGEPIN_CLASS_2M, class_1g = HUGEPIN_CLASS_1G;

#define CASE(f, ...)	{ .name = #f, .run = f, .timeout_s = 60, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(a_mapped_page_is_unmapped_and_the_next_touch_is_sigbus, .variant = "2M", .arg = &class_2m),
	CASE(a_mapped_page_is_unmapped_and_the_next_touch_is_sigbus, .variant = "1G", .arg = &class_1g),
	CASE(its_neighbours_stay),
	CASE(a_free_page_is_never_handed_out_again),
	CASE(a_page_in_quarantine_is_put_aside_when_it_comes_back),
	CASE(an_error_in_other_memory_is_none_of_ours),
	CASE(a_flagged_page_is_found_when_it_is_scrubbed),
};

int main(int argc, char **argv)
{
	mkdir("/sys/kernel/debug", 0700);
	mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);	/* or the case that wants it skips */
	return load_main(argc, argv, cases, ARRAY_SIZE(cases), reserve_hooks);
}
