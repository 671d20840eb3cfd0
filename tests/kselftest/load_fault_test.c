// SPDX-License-Identifier: MIT
/*
 * Loading with one fault after the other: the module is loaded again and again, with each allocation from the first of
 * its own on failing in turn (/proc/self/fail-nth), until it gets through without one. Either it does not load and
 * nothing of it is there, or it does and is whole. Removes and loads the module (the file is $HUGEPIN_KO), so it runs
 * alone.
 *
 * Most allocations of a load are the kernel's own, the same ones for every module. The first of ours is looked for by
 * the kernel's report of where a fault came.
 */
#include <stdio.h>
#include <sys/klog.h>
#include <unistd.h>

#include "inject.h"
#include "load.h"
#include "region.h"
#include "reserve.h"

#define FAULTS_MAX	5000
#define TIMEOUT_S	1800
#define STEP		64
/*
 * What is there once is enough: one class, and pages on one node, so many that a load that loses them loses more than
 * what else comes and goes.
 */
#define PARAMETERS	"enable_1g=0 reserve=%u:2M:%u"
#define PAGES		16
#define NOISE_KIB	(16 * 1024)

/* ---- what there is of it ---- */

static bool kernel_knows_file_system(void)
{
	return file_after("/proc/filesystems", "\t" HUGEPIN_FS_NAME "\n");
}

static void check_absent(unsigned int nth)
{
	static const char * const paths[] = {
		HUGEPIN_DEVICE, "/sys/class/misc/hugepin", "/sys/module/hugepin", "/sys/devices/virtual/workqueue/hugepin",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(paths); i++)
		CHECK(access(paths[i], F_OK) && errno == ENOENT, "%s is there after fault %u", paths[i], nth);
	CHECK(!kernel_knows_file_system(), HUGEPIN_FS_NAME " is there after fault %u", nth);
}

/*
 * Loaded, so of use: its knobs may be missing together, which the log tells, but never some of them. A device that got
 * no node in /dev is one all the same for the kernel, whose making it is.
 */
static void check_whole(unsigned int nth, bool came)
{
	struct reserve reserve;
	unsigned int i;
	char path[128];
	bool knobs;

	if (came && access(HUGEPIN_DEVICE, F_OK) && !access("/sys/class/misc/hugepin/dev", F_OK))
		return;
	CHECK_OK(access(HUGEPIN_DEVICE, R_OK | W_OK));
	CHECK(kernel_knows_file_system(), "fault %u: no " HUGEPIN_FS_NAME, nth);
	reserve_read(&reserve);
	CHECK(reserve.info.nr_pages, "fault %u: no node", nth);
	knobs = !access("/sys/class/misc/hugepin/scrub", F_OK);
	CHECK(knobs || came, "loaded without a fault and without knobs");
	for (i = 0; i < reserve.info.nr_pages; i++) {
		const struct hugepin_info_pages *p = &reserve.pages[i];

		knob_path(path, sizeof(path), p->node, p->class, "nr_hugepages");
		CHECK(!access(path, F_OK) == knobs, "fault %u: %s: some knobs are there, some not", nth, path);
		if (!knobs)
			continue;
		CHECK_EQ(knob_read(p->node, p->class, "nr_hugepages"), p->total);
		CHECK_EQ(knob_read(p->node, p->class, "asked_hugepages"), p->asked);
		CHECK(came || p->total == p->asked, "%llu of %llu pages without a fault", p->total, p->asked);
	}
	if (!came && reserve_free_class(HUGEPIN_CLASS_2M))
		close(region_make(PAGE_2M, CLASS_2M));
}

/* ---- where a fault comes ---- */

/* With fault @nth to come; whether it came. @error: what loading answered. */
static bool load_with(const char *parameters, unsigned int nth, int *error)
{
	inject_arm(nth);
	*error = load(parameters);
	return !inject_disarm();
}

enum place { UNTOLD, OTHERS, OURS };

/* Where the kernel log, after the last @mark, says that a fault came. */
static enum place place_told(const char *mark)
{
	static char log[1 << 20];
	int length = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);
	const char *at, *last = NULL;

	CHECK(length > 0, "no kernel log");
	log[length] = '\0';
	for (at = log; (at = strstr(at, mark)); at++)
		last = at;
	CHECK(last, "not in the kernel log: %s", mark);
	if (!strstr(last, "FAULT_INJECTION: forcing a failure"))
		return UNTOLD;
	/* a frame that is sure: others have a question mark */
	return strstr(last, "  do_one_initcall+") ? OURS : OTHERS;
}

/* Of an allocation that is not to warn no fault is told: then it is the next one's place. */
static bool is_ours(const char *parameters, unsigned int nth)
{
	enum place place;
	char mark[64];
	int error;

	do {
		/* the line's end, too, or it is shown with the next one only */
		snprintf(mark, sizeof(mark), "load_fault_test: fault %u of %d\n", nth, getpid());
		CHECK_EQ(file_write("/dev/kmsg", mark), 0);
		CHECK(load_with(parameters, nth, &error), "no fault %u, and none of ours before", nth);
		if (!error)
			CHECK_EQ(unload(), 0);
		place = place_told(mark);
		nth++;
	} while (place == UNTOLD);
	return place == OURS;
}

/* The faults of the kernel's loader until it has read the parameters, one of which it does not know. */
static unsigned int faults_of_loader(void)
{
	unsigned int left;

	inject_arm(FAULTS_MAX);
	CHECK_EQ(load("enable_1g=perhaps"), -EINVAL);
	left = inject_disarm();
	CHECK(left, "the loader alone has %d", FAULTS_MAX);
	return FAULTS_MAX - left;
}

/* In steps, and then by halves: ours come one after the other, behind those of the loader. */
static unsigned int first_of_ours(const char *parameters)
{
	unsigned int before = faults_of_loader(), ours = before + STEP;

	inject_report(true);
	for (; !is_ours(parameters, ours); ours += STEP)
		before = ours;
	while (ours - before > 1) {
		unsigned int middle = (before + ours) / 2;

		*(is_ours(parameters, middle) ? &ours : &before) = middle;
	}
	inject_report(false);
	return ours;
}

/* ---- the rule ---- */

/* With what CPUs keep for themselves of what was freed to them, which may be all of our pages. */
static unsigned long long free_kib(void)
{
	unsigned long long kib = file_number("/proc/meminfo", "MemFree:"), pages;
	char line[128];
	FILE *zones = fopen("/proc/zoneinfo", "r");

	CHECK(zones, "/proc/zoneinfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), zones)) {
		if (sscanf(line, " count: %llu", &pages) == 1)
			kib += pages * (unsigned long long)sysconf(_SC_PAGESIZE) / 1024;
	}
	fclose(zones);
	return kib;
}

/* Once, with fault @nth to come; whether it came. */
static bool once(const char *parameters, unsigned int nth, unsigned int *failures)
{
	unsigned long long before = free_kib(), after;
	int error;
	bool came = load_with(parameters, nth, &error);

	if (error) {
		CHECK(came, "without a fault: %s", strerror(-error));
		CHECK_EQ(error, -ENOMEM);
		(*failures)++;
	} else {
		check_whole(nth, came);
		CHECK_EQ(unload(), 0);
	}
	check_absent(nth);
	after = free_kib();
	CHECK(after + NOISE_KIB > before, "fault %u: %llu kB were free, now %llu", nth, before, after);
	return came;
}

static void any_fault_while_loading_leaves_all_or_nothing(const void *arg)
{
	unsigned int node, nth, first, failures = 0;
	char parameters[64];

	(void)arg;
	CHECK(reserve_nodes(&node, 1), "no node");
	snprintf(parameters, sizeof(parameters), PARAMETERS, node, PAGES);
	inject_open();
	CHECK_EQ(unload(), 0);
	nth = first = first_of_ours(parameters);
	while (once(parameters, nth, &failures))
		CHECK(++nth < FAULTS_MAX, "still a fault at the %dth", FAULTS_MAX);
	CHECK(failures, "no fault kept it from loading: nothing was tested");
	ktap_note("faults %u to %u, %u of them kept it from loading", first, nth - 1, failures);
}

#define CASE(f)	{ .name = #f, .run = f, .timeout_s = TIMEOUT_S }

static const struct ktap_case cases[] = {
	CASE(any_fault_while_loading_leaves_all_or_nothing),
};

int main(int argc, char **argv)
{
	return load_main(argc, argv, cases, ARRAY_SIZE(cases), inject_hooks());
}
