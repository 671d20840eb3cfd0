// SPDX-License-Identifier: MIT
/* What the rest of the system is told: power management, control groups, /proc/meminfo. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "region.h"
#include "reserve.h"

#define GROUP		"/mnt/hugepin-test"

/* ---- hibernation ---- */

#define SNAPSHOT_DEVICE	"/dev/snapshot"

static void need_hibernation(void)
{
	char text[256];

	if (!file_read("/sys/power/state", text, sizeof(text)) || !strstr(text, "disk"))
		ktap_skip("this kernel does not hibernate");
}

/*
 * Programs that write the image themselves open this device, which asks everybody who has a say first; without going on
 * nothing more happens.
 */
static void hibernation_is_begun_while_all_pages_are_free(const void *arg)
{
	int fd;

	(void)arg;
	need_hibernation();
	if (access(SNAPSHOT_DEVICE, F_OK))
		ktap_skip("this kernel has no " SNAPSHOT_DEVICE);
	CHECK(reserve_free_class(HUGEPIN_CLASS_2M), "no pages that could stand in the way");
	close(CHECK_OK(open(SNAPSHOT_DEVICE, O_RDONLY | O_CLOEXEC)));
	fd = region_make(PAGE_2M, CLASS_2M);
	CHECK_ERRNO(open(SNAPSHOT_DEVICE, O_RDONLY | O_CLOEXEC), EBUSY);
	close(fd);
	close(CHECK_OK(open(SNAPSHOT_DEVICE, O_RDONLY | O_CLOEXEC)));
}

static void hibernation_is_refused_while_pages_are_in_use(const void *arg)
{
	char *start;
	int fd, driver;
	struct hugepin_test_pin pin = { .size = sizeof(pin), .bytes = PAGE_2M };

	(void)arg;
	need_hibernation();
	fd = region_make(PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	CHECK_EQ(file_write("/sys/power/state", "disk"), -EBUSY);
	/* a device that writes on is as good a reason */
	driver = driver_open();
	pin.addr = (uintptr_t)start;
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin));
	CHECK_OK(munmap(start, PAGE_2M));
	close(fd);
	CHECK_EQ(file_write("/sys/power/state", "disk"), -EBUSY);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
}

/* ---- /proc/meminfo ---- */

static unsigned long long meminfo(const char *key)
{
	unsigned long long kib = file_number("/proc/meminfo", key);

	CHECK(kib, "no %s in /proc/meminfo", key);
	return kib;
}

/* As memory of the kernel's own: MemTotal and CommitLimit stay, MemAvailable goes down. */
static void the_reserve_is_memory_that_is_used(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 1);
	uint64_t before = reserve_of(node, HUGEPIN_CLASS_2M).total;
	unsigned long long total = meminfo("MemTotal:"), limit = meminfo("CommitLimit:");
	unsigned long long available = meminfo("MemAvailable:"), left;

	(void)arg;
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before + 100), 0);
	left = meminfo("MemAvailable:");
	CHECK_EQ(meminfo("MemTotal:"), total);
	CHECK_EQ(meminfo("CommitLimit:"), limit);
	/* half is left for what others free meanwhile */
	CHECK(left + 100 * 1024 < available, "MemAvailable %llu kB, then %llu kB", available, left);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", before), 0);
}

/* ---- control groups ---- */

/* A fresh group with dmem.max for @node; this process in it. */
static void enter_group(unsigned int node, unsigned long long most)
{
	char text[64];

	CHECK_OK(mount("none", "/mnt", "cgroup2", 0, NULL));
	if (access("/mnt/dmem.capacity", R_OK))
		ktap_skip("no dmem controller in this kernel");
	CHECK_EQ(file_write("/mnt/cgroup.subtree_control", "+dmem"), 0);
	CHECK_OK(mkdir(GROUP, 0755));
	snprintf(text, sizeof(text), "hugepin/node%u %llu", node, most);
	CHECK_EQ(file_write(GROUP "/dmem.max", text), 0);
	CHECK_EQ(file_write(GROUP "/cgroup.procs", "0"), 0);
}

static void leave_group(void)
{
	CHECK_EQ(file_write("/mnt/cgroup.procs", "0"), 0);
	CHECK_OK(rmdir(GROUP));
}

static unsigned long long group_holds(unsigned int node)
{
	char key[32];

	snprintf(key, sizeof(key), "hugepin/node%u ", node);
	return file_number(GROUP "/dmem.current", key);
}

static void a_group_gets_no_more_than_its_limit(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 8);
	struct hugepin_shortfall why = { .reason = 0 };
	struct hugepin_create args = create_args(4 * PAGE_2M, CLASS_2M);
	uint64_t mask = 1ULL << node, before = reserve_free_pages(node, HUGEPIN_CLASS_2M);
	int device = device_open(), fd;

	(void)arg;
	enter_group(node, 6 * PAGE_2M);
	fd = region_make_on(node, 3 * PAGE_2M, CLASS_2M);
	CHECK_EQ(group_holds(node), 3 * PAGE_2M);
	args.nodemask = (uintptr_t)&mask;
	args.nodemask_bits = 64;
	args.shortfall = (uintptr_t)&why;
	CHECK_EQ(region_create(device, &args), -EDQUOT);
	CHECK_EQ(why.reason, HUGEPIN_SHORT_CGROUP);
	CHECK_EQ(why.node, node);
	CHECK_EQ(why.asked, 4);
	CHECK_EQ(why.available, before - 3);
	CHECK_EQ(group_holds(node), 3 * PAGE_2M);	/* all or nothing */
	CHECK_EQ(reserve_free_pages(node, HUGEPIN_CLASS_2M), before - 3);
	close(region_make_on(node, 3 * PAGE_2M, CLASS_2M));
	close(fd);
	CHECK_EQ(group_holds(node), 0);
	leave_group();
}

static void a_group_pays_for_its_pages_in_quarantine(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 8);
	int driver = driver_open(), fd;
	char *start;
	struct hugepin_test_pin pin = { .size = sizeof(pin), .bytes = PAGE_2M };

	(void)arg;
	enter_group(node, 2 * PAGE_2M);
	fd = region_make_on(node, 2 * PAGE_2M, CLASS_2M);
	start = region_map(fd, 0, 2 * PAGE_2M, PROT_READ | PROT_WRITE);
	pin.addr = (uintptr_t)start;
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin));
	CHECK_OK(munmap(start, 2 * PAGE_2M));
	close(fd);
	CHECK_EQ(group_holds(node), PAGE_2M);
	CHECK_OK(ioctl(driver, HUGEPIN_TEST_IOC_UNPIN));
	CHECK(reserve_wait_quarantined(node, HUGEPIN_CLASS_2M, 0), "still in quarantine");
	CHECK_EQ(group_holds(node), 0);
	leave_group();
}

#define CASE(f, ...)	{ .name = #f, .run = f, .timeout_s = 90, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(hibernation_is_begun_while_all_pages_are_free),
	CASE(hibernation_is_refused_while_pages_are_in_use),
	CASE(the_reserve_is_memory_that_is_used),
	CASE(a_group_gets_no_more_than_its_limit),
	CASE(a_group_pays_for_its_pages_in_quarantine),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
