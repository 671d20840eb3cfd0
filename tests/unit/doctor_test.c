// SPDX-License-Identifier: MIT
/* hugepinctl doctor against hosts made of files: what it finds, how bad it is, what it advises. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include <cmocka.h>

#include "doctor.h"
#include "tree.h"

static struct tree tree;

static int begin(void **state)
{
	(void)state;
	tree_make(&tree);
	host_root = tree.root;
	unsetenv("LD_LIBRARY_PATH");
	return 0;
}

static int end(void **state)
{
	(void)state;
	host_root = "";
	tree_remove(&tree, "");
	return 0;
}

/* A finding of @subject whose text has @text. */
static const struct finding *get(const struct doctor *doctor, const char *subject, const char *text)
{
	for (size_t i = 0; i < doctor->count; i++)
		if (!strcmp(doctor->findings[i].subject, subject) && strstr(doctor->findings[i].text, text))
			return &doctor->findings[i];
	for (size_t i = 0; i < doctor->count; i++)
		print_message("%s: %s\n", doctor->findings[i].subject, doctor->findings[i].text);
	fail_msg("no finding of %s with \"%s\"", subject, text);
	return NULL;
}

static void assert_found(const struct doctor *doctor, enum health health, const char *subject, const char *text,
			 const char *advice)
{
	const struct finding *finding = get(doctor, subject, text);

	assert_int_equal(finding->health, health);
	if (!strstr(finding->advice, advice))
		fail_msg("\"%s\" does not advise \"%s\"", finding->advice, advice);
}

/* ---- the module ---- */

static void a_module_that_is_built_is_to_be_loaded(void **state)
{
	struct reserve_view view = { .err = -ENODEV };
	struct doctor doctor = { .count = 0 };
	struct utsname kernel;
	char name[256];

	(void)state;
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_BAD, "module", "not loaded", "install hugepin-dkms");
	uname(&kernel);
	snprintf(name, sizeof(name), "lib/modules/%s/updates/dkms/hugepin.ko.xz", kernel.release);
	tree_write(&tree, name, "");
	doctor.count = 0;
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_BAD, "module", "not loaded", "modprobe hugepin");
}

static void a_module_that_sysfs_does_not_show_is_not_missing(void **state)
{
	struct reserve_view view = { .there = true };
	struct doctor doctor = { .count = 0 };

	(void)state;
	tree_write(&tree, "dev/hugepin", "");
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_WARN, "module", "answers, but has no /sys/class/misc/hugepin", "mount -t sysfs");
	assert_found(&doctor, HEALTH_OK, "device", "may be used", "");
}

static void a_library_that_does_not_work_is_told(void **state)
{
	struct reserve_view view = { .library_fails = true, .err = -EIO, .why = { "/sys/x is \"0-\"" } };
	struct doctor doctor = { .count = 0 };

	(void)state;
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_BAD, "library", "does not work here: /sys/x is \"0-\"", "");
	tree_write(&tree, "sys/class/misc/hugepin/uapi_version", "1\n");
	doctor.count = 0;
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_BAD, "library", "/sys/x", "");
	for (size_t i = 0; i < doctor.count; i++)
		assert_null(strstr(doctor.findings[i].text, "does not answer"));
}

static void a_kernel_that_wants_signatures_is_told(void **state)
{
	static const unsigned char on[] = { 6, 0, 0, 0, 1 }, off[] = { 6, 0, 0, 0, 0 };
	static const char variable[] = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
	struct reserve_view view = { .err = -ENODEV };
	struct doctor doctor = { .count = 0 };

	(void)state;
	tree_write_bytes(&tree, variable, off, sizeof(off));
	tree_write(&tree, "sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_OK, "signature", "without a signature", "");
	tree_write_bytes(&tree, variable, on, sizeof(on));
	doctor.count = 0;
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_WARN, "signature", "Secure Boot", "mokutil");
	tree_write_bytes(&tree, variable, off, sizeof(off));
	tree_write(&tree, "sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	doctor.count = 0;
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_WARN, "signature", "lockdown", "mokutil");
}

static void a_mount_and_a_device_are_found(void **state)
{
	struct reserve_view view = { .there = true };
	struct doctor doctor = { .count = 0 };

	(void)state;
	tree_write(&tree, "sys/class/misc/hugepin/uapi_version", "1\n");
	tree_write(&tree, "proc/self/mounts", "none /run/x tmpfs rw 0 0\n");
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_OK, "module", "interface version 1", "");
	assert_found(&doctor, HEALTH_WARN, "device", "No such file", "bind-mount");
	assert_found(&doctor, HEALTH_WARN, "mount", "not mounted", "mount -t hugepinfs");
	tree_write(&tree, "dev/hugepin", "");
	tree_write(&tree, "proc/self/mounts", "none /run/x hugepinfs rw,limit_2m=4 0 0\n");
	doctor.count = 0;
	examine_module(&doctor, &view);
	assert_found(&doctor, HEALTH_OK, "device", "mode 0644", "");
	assert_found(&doctor, HEALTH_OK, "mount", "hugepinfs on /run/x (rw,limit_2m=4)", "");
}

static void a_reserve_that_is_short_is_told_with_numbers(void **state)
{
	struct hugepin_reserve_info entries[] = {
		{ .node = 0, .page_class = HUGEPIN_PAGES_1G, .asked_pages = 4, .total_pages = 3, .clean_pages = 3 },
		{ .node = 0, .page_class = HUGEPIN_PAGES_2M, .asked_pages = 9, .total_pages = 9, .clean_pages = 7,
		  .poisoned_pages = 2 },
	};
	struct reserve_view view = { .there = true, .snapshot = { .entries = entries, .count = 2 } };
	struct doctor doctor = { .count = 0 };

	(void)state;
	view.snapshot.absent[HUGEPIN_PAGES_1G] = "this kernel cannot";
	tree_write(&tree, "sys/class/misc/hugepin/node0/hugepages-2048kB/user_limit_percent", "50\n");
	tree_write(&tree, "sys/class/misc/hugepin/node0/hugepages-1048576kB/user_limit_percent", "0\n");
	examine_reserve(&doctor, &view);
	assert_found(&doctor, HEALTH_WARN, "classes", "1G pages are absent: this kernel cannot", "6.12");
	assert_found(&doctor, HEALTH_WARN, "reserve", "node 0: 1G: asked 4, got 3", "hugepinctl explain 0");
	assert_found(&doctor, HEALTH_WARN, "reserve", "node 0: 2M: asked 9, got 7", "hugepinctl explain 0");
	assert_found(&doctor, HEALTH_WARN, "reserve", "2 faulty pages", "kernel log");
	assert_found(&doctor, HEALTH_OK, "reserve", "node 0: 2M: a user may hold 50 %", "");
	assert_found(&doctor, HEALTH_WARN, "reserve", "node 0: 1G: a user may hold 0 %", "user_limit_percent");
	entries[0].total_pages = entries[1].total_pages = 0;
	doctor.count = 0;
	examine_reserve(&doctor, &view);
	assert_found(&doctor, HEALTH_WARN, "reserve", "nothing is reserved", "hugepinctl reserve");
}

/* ---- around it ---- */

static void what_the_kernel_lacks_is_told(void **state)
{
	struct doctor doctor = { .count = 0 };

	(void)state;
	tree_write(&tree, "sys/devices/system/node/online", "0\n");
	tree_write(&tree, "proc/self/maps", "");
	examine_host(&doctor);
	assert_found(&doctor, HEALTH_WARN, "kernel", "no /proc/kpageflags", "PROC_PAGE_MONITOR");
	assert_found(&doctor, HEALTH_WARN, "kernel", "no memory blocks", "MEMORY_HOTPLUG");
	tree_write(&tree, "proc/kpageflags", "");
	tree_write(&tree, "sys/devices/system/memory/block_size_bytes", "8000000\n");
	doctor.count = 0;
	examine_host(&doctor);
	assert_found(&doctor, HEALTH_OK, "kernel", "has NUMA", "");
}

static void limits_and_huge_pages_of_the_kernel_are_told(void **state)
{
	struct doctor doctor = { .count = 0 };

	(void)state;
	tree_write(&tree, "proc/self/cgroup", "0::/job\n");
	tree_write(&tree, "sys/fs/cgroup/job/memory.max", "1073741824\n");
	tree_write(&tree, "sys/fs/cgroup/job/hugetlb.2MB.max", "max\n");
	tree_write(&tree, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
	tree_write(&tree, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "12\n");
	tree_write(&tree, "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "10\n");
	examine_host(&doctor);
	assert_found(&doctor, HEALTH_OK, "cgroup", "memory.max of /job: 1 GiB", "page tables");
	assert_found(&doctor, HEALTH_WARN, "thp", "never", "madvise");
	assert_found(&doctor, HEALTH_WARN, "hugetlb", "12 pages of 2M, 10 free", "hugepinctl adopt NODE 2M 10");
	for (size_t i = 0; i < doctor.count; i++)
		assert_null(strstr(doctor.findings[i].text, "hugetlb.2MB.max"));
}

static void limits_of_cgroup_v1_are_told_below_all_memory(void **state)
{
	struct doctor doctor = { .count = 0 };
	size_t found = 0;

	(void)state;
	tree_write(&tree, "proc/meminfo", "MemTotal:       24684092 kB\nMemFree: 5 kB\n");
	tree_write(&tree, "proc/self/cgroup",
		   "9:name=systemd:/memory\n5:cpu,memory:/jobs/7\n4:hugetlb:/docker/af\n0::/../x\n");
	tree_write(&tree, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	tree_write(&tree, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1073741824\n");
	tree_write(&tree, "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "2147483648\n");
	/* a container's: its own group is what is mounted */
	tree_write(&tree, "sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes", "4194304\n");
	tree_write(&tree, "sys/fs/cgroup/hugetlb/hugetlb.1GB.limit_in_bytes", "9223372035781033984\n");
	examine_host(&doctor);
	assert_found(&doctor, HEALTH_OK, "cgroup", "memory.limit_in_bytes of /jobs: 1 GiB", "page tables");
	assert_found(&doctor, HEALTH_OK, "cgroup", "hugetlb.2MB.limit_in_bytes of /: 4 MiB", "rung 'hugetlb'");
	for (size_t i = 0; i < doctor.count; i++)
		found += !strcmp(doctor.findings[i].subject, "cgroup");
	assert_int_equal(found, 2);
}

static void runtimes_are_told_by_device_and_library(void **state)
{
	struct reserve_view view = { .err = -ENODEV };
	struct doctor doctor = { .count = 0 };

	(void)state;
	examine_runtimes(&doctor, &view);
	assert_found(&doctor, HEALTH_OK, "iommu", "off", "");
	assert_found(&doctor, HEALTH_OK, "runtime", "no accelerator's: memory is locked by mlock()", "");
	/* another device there, then the module, then its answers through a mount beside something else */
	tree_write(&tree, "dev/none", "");
	assert_int_equal(symlink("/dev/null", tree_path(&tree, "dev/hugepin")), 0);
	doctor.count = 0;
	examine_runtimes(&doctor, &view);
	assert_found(&doctor, HEALTH_OK, "runtime", "no accelerator's: memory is locked by mlock()", "");
	view.there = true;
	doctor.count = 0;
	examine_runtimes(&doctor, &view);
	assert_found(&doctor, HEALTH_OK, "runtime", "no accelerator's: memory is pinned by the module", "");
	tree_remove(&tree, "dev");
	tree_write(&tree, "dev/hugepin", "");
	doctor.count = 0;
	examine_runtimes(&doctor, &view);
	assert_found(&doctor, HEALTH_OK, "runtime", "no accelerator's: memory is locked by mlock()", "");
	tree_write(&tree, "dev/nvidiactl", "");
	tree_write(&tree, "opt/rocm/lib/libamdhip64.so", "");
	tree_write(&tree, "dev/davinci_manager", "");
	tree_write(&tree, "opt/cann/libascendcl.so", "");
	setenv("LD_LIBRARY_PATH", ":/none:/opt/cann", 1);
	tree_write(&tree, "sys/kernel/iommu_groups/0/type", "identity\n");
	tree_write(&tree, "sys/kernel/iommu_groups/1/type", "DMA-FQ\n");
	doctor.count = 0;
	examine_runtimes(&doctor, &view);
	assert_found(&doctor, HEALTH_BAD, "runtime", "cuda: /dev/nvidiactl is there, but no libcuda.so.1", "NVIDIA");
	assert_found(&doctor, HEALTH_WARN, "runtime", "hip: a library is there, but no /dev/kfd", "driver");
	assert_found(&doctor, HEALTH_OK, "runtime", "ascend: device and library", "");
	assert_found(&doctor, HEALTH_WARN, "iommu", "2 groups, 1 of them translate", "iommu=pt");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_module_that_is_built_is_to_be_loaded, begin, end),
		cmocka_unit_test_setup_teardown(a_module_that_sysfs_does_not_show_is_not_missing, begin, end),
		cmocka_unit_test_setup_teardown(a_library_that_does_not_work_is_told, begin, end),
		cmocka_unit_test_setup_teardown(a_kernel_that_wants_signatures_is_told, begin, end),
		cmocka_unit_test_setup_teardown(a_mount_and_a_device_are_found, begin, end),
		cmocka_unit_test_setup_teardown(a_reserve_that_is_short_is_told_with_numbers, begin, end),
		cmocka_unit_test_setup_teardown(what_the_kernel_lacks_is_told, begin, end),
		cmocka_unit_test_setup_teardown(limits_and_huge_pages_of_the_kernel_are_told, begin, end),
		cmocka_unit_test_setup_teardown(limits_of_cgroup_v1_are_told_below_all_memory, begin, end),
		cmocka_unit_test_setup_teardown(runtimes_are_told_by_device_and_library, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
