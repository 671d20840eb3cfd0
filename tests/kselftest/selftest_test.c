// SPDX-License-Identifier: MIT
/*
 * The module's own test of 1G pages: it passes here (or no 1G page would be in the reserve), so what is left to see is
 * what becomes of the class when the kernel refuses, when it cannot be run, or without the class. Loads the module
 * again, so it runs alone.
 */
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/klog.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "load.h"
#include "region.h"

#define REFUSE	"/sys/module/hugepin_test/parameters/refuse_pins"
#define DIR_1G	"/sys/class/misc/hugepin/node%u/hugepages-1048576kB"

/* A module that has not seen a 1G page yet; the node to try one on. */
static unsigned int fresh(const char *refuse)
{
	unsigned int nodes[RESERVE_ENTRIES], n = reserve_nodes(nodes, RESERVE_ENTRIES), i;

	if (class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has no 1G pages");
	for (i = 0; i < n && !reserve_of(nodes[i], HUGEPIN_CLASS_1G).total; i++)
		;
	if (i == n)
		ktap_skip("the reserve has no 1G page, so none can be had");
	if (refuse && access(REFUSE, W_OK))
		ktap_skip("no kprobes in this kernel, or no hugepin_test: nothing that refuses pins");
	CHECK_EQ(unload(), 0);
	if (refuse)
		CHECK_EQ(file_write(REFUSE, refuse), 0);
	return nodes[i];
}

static void check_log(const char *text)
{
	static char log[1 << 20];
	int length = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);

	CHECK(length > 0, "no kernel log");
	log[length] = '\0';
	CHECK(strstr(log, text), "not in the kernel log: %s", text);
}

static void check_gone(unsigned int node, unsigned int why, const char *told)
{
	struct reserve reserve;
	char path[128], text[128];
	int waited;

	reserve_read(&reserve);
	CHECK_EQ(reserve.info.absent[HUGEPIN_CLASS_1G], why);
	CHECK(file_read("/sys/class/misc/hugepin/class_1g", text, sizeof(text)), "class_1g");
	CHECK(!strcmp(text, told), "class_1g: %s", text);
	snprintf(path, sizeof(path), DIR_1G, node);
	for (waited = 0; !access(path, F_OK) && waited < SETTLE_MS; waited += 10)
		poll(NULL, 0, 10);
	CHECK(access(path, F_OK), "%s is still there", path);
}

/* 2M pages are as good as ever, and a request that may fall back gets them. */
static void check_2m(unsigned int node)
{
	struct hugepin_create args = create_args(PAGE_2M, CLASS_2M | CLASS_1G);
	int device = device_open(), fd;

	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, "nr_hugepages", 4), 0);
	fd = CHECK_OK(region_create(device, &args));
	close(fd);
	args = create_args(PAGE_1G, CLASS_1G);
	CHECK_EQ(region_create(device, &args), -EOPNOTSUPP);
	close(device);
}

/* For the cases after this one: the class is there again, with a page as before. */
static void make_good(unsigned int node)
{
	if (!access(REFUSE, W_OK))
		CHECK_EQ(file_write(REFUSE, "0"), 0);
	CHECK_EQ(unload(), 0);
	CHECK_EQ(load(""), 0);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", 1), 0);
}

static void a_kernel_that_refuses_pins_has_no_1g_pages(const void *arg)
{
	const char *way = arg;
	unsigned int node = fresh(way);

	CHECK_EQ(load(""), 0);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", 1), -EOPNOTSUPP);
	check_log(*way == '1' ? "the self-test objects: the quick way to pin is closed (-14)" :
				"the self-test objects: the slow way to pin is closed (-14)");
	check_gone(node, HUGEPIN_ABSENT_SELFTEST, "absent: the self-test objected");
	check_2m(node);
	make_good(node);
}

static void at_load_it_takes_the_class_away_and_the_module_stays(const void *arg)
{
	unsigned int node = fresh("2");
	char parameter[64];

	(void)arg;
	snprintf(parameter, sizeof(parameter), "reserve=%u:1G:1,%u:2M:3", node, node);
	CHECK_EQ(load(parameter), 0);
	check_gone(node, HUGEPIN_ABSENT_SELFTEST, "absent: the self-test objected");
	CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_2M).total, 3);
	make_good(node);
}

static void the_parameter_takes_the_class_away(const void *arg)
{
	unsigned int node = fresh(NULL);
	char parameters[64];

	(void)arg;
	snprintf(parameters, sizeof(parameters), "enable_1g=0 reserve=%u:1G:1", node);
	CHECK_EQ(load(parameters), -EOPNOTSUPP);
	CHECK_EQ(load("enable_1g=0"), 0);
	check_gone(node, HUGEPIN_ABSENT_PARAM, "absent: switched off by the parameter enable_1g");
	check_2m(node);
	make_good(node);
}

static void at_load_it_passes(const void *arg)
{
	unsigned int node = fresh(NULL);
	char parameter[64];

	(void)arg;
	snprintf(parameter, sizeof(parameter), "reserve=%u:1G:1", node);
	CHECK_EQ(load(parameter), 0);
	CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_1G).total, 1);
	CHECK_EQ(reserve_free_pages(node, HUGEPIN_CLASS_1G), 1);
	check_log("hugepin: 1G pages are mapped and pinned as they should");
	CHECK_EQ(unload(), 0);		/* nothing of the test holds the module */
	CHECK_EQ(load(""), 0);
	make_good(node);
}

static void a_test_that_cannot_be_run_gives_the_page_back(const void *arg)
{
	unsigned int node = fresh(NULL);
	char path[128], text[128];
	pid_t child;

	(void)arg;
	CHECK_EQ(load(""), 0);
	child = ktap_fork();
	if (!child) {
		CHECK_OK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
		CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", 1), -ENOMEM);
		ktap_exit();
	}
	ktap_join(child);
	CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_1G).total, 0);
	knob_path(path, sizeof(path), node, HUGEPIN_CLASS_1G, "shortfall_reason");
	CHECK(file_read(path, text, sizeof(text)) && !strcmp(text, "the self-test did not pass"), "%s", text);
	CHECK(!class_absent(HUGEPIN_CLASS_1G), "absent, without an objection");
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", 1), 0);
	CHECK(file_read(path, text, sizeof(text)) && !strcmp(text, "none"), "%s", text);
}

/* The next page fault that the kernel takes on this process's behalf is its end. */
static void die_of_a_fault_in_the_kernel(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS, .size = sizeof(attr),
		.sample_period = 1, .exclude_user = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	CHECK(fd >= 0, "perf_event_open: %s", strerror(errno));
	CHECK_OK(fcntl(fd, F_SETOWN, getpid()));
	CHECK_OK(fcntl(fd, F_SETSIG, SIGKILL));
	CHECK_OK(fcntl(fd, F_SETFL, O_ASYNC));
}

static void being_killed_in_it_is_no_objection(const void *arg)
{
	unsigned int node = fresh(NULL);
	pid_t child;

	(void)arg;
	if (access("/proc/sys/kernel/perf_event_paranoid", F_OK))
		ktap_skip("this kernel has no perf events");
	CHECK_EQ(load(""), 0);
	child = ktap_fork();
	if (!child) {
		die_of_a_fault_in_the_kernel();
		knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", 1);
		ktap_exit();
	}
	ktap_join_killed(child, SIGKILL);
	check_log("the self-test could not be run: killed (-4)");
	CHECK(!class_absent(HUGEPIN_CLASS_1G), "absent, without an objection");
	CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_1G).total, 0);
	CHECK_EQ(knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", 1), 0);
}

/* Refused or not: the folders that an objection takes away go with all others then. */
static void unloading_in_the_middle_is_sound(const void *arg)
{
	unsigned int node = fresh(arg);
	int round;

	CHECK_EQ(load(""), 0);
	for (round = 0; round < 3; round++) {
		pid_t child = ktap_fork();
		int error, waited;

		if (!child) {
			knob_write(node, HUGEPIN_CLASS_1G, "nr_hugepages", 1);	/* any answer: it may be gone */
			ktap_exit();
		}
		poll(NULL, 0, 50 + 200 * round);
		for (waited = 0; (error = unload()) == -EAGAIN && waited < SETTLE_MS; waited++)
			poll(NULL, 0, 1);
		ktap_join(child);
		CHECK(!error, "%s", strerror(-error));
		CHECK_EQ(load(""), 0);
	}
	make_good(node);
}

#define CASE(f, ...)	{ .name = #f, .run = f, .timeout_s = 120, ##__VA_ARGS__ }

static const struct ktap_case cases[] = {
	CASE(a_kernel_that_refuses_pins_has_no_1g_pages, .variant = "the quick way", .arg = "1"),
	CASE(a_kernel_that_refuses_pins_has_no_1g_pages, .variant = "the slow way", .arg = "2"),
	CASE(at_load_it_takes_the_class_away_and_the_module_stays),
	CASE(the_parameter_takes_the_class_away),
	CASE(at_load_it_passes),
	CASE(a_test_that_cannot_be_run_gives_the_page_back),
	CASE(being_killed_in_it_is_no_objection),
	CASE(unloading_in_the_middle_is_sound, .variant = "it passes"),
	CASE(unloading_in_the_middle_is_sound, .variant = "it objects", .arg = "2"),
};

int main(int argc, char **argv)
{
	return load_main(argc, argv, cases, ARRAY_SIZE(cases), reserve_hooks);
}
