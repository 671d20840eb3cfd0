// SPDX-License-Identifier: MIT
/* doctor on what is around the module: limits, containers, the kernel's own huge pages. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "doctor.h"

#define CGROUPS		"/sys/fs/cgroup"
#define MEMLOCK_LITTLE	((uint64_t)64 << 20)

/* ---- the kernel ---- */

static void examine_kernel(struct doctor *doctor)
{
	static const struct {
		const char *file, *without, *advice;
	} parts[] = {
		{ "/sys/devices/system/node/online", "no NUMA: everything is node 0, and nothing can be bound", "" },
		{ "/proc/kpageflags", "no /proc/kpageflags: explain cannot look", "a kernel with PROC_PAGE_MONITOR" },
		{ "/sys/devices/system/memory/block_size_bytes", "no memory blocks: explain cannot look",
		  "a kernel with MEMORY_HOTPLUG" },
		{ "/proc/self/maps", "no /proc: ps finds no processes", "mount -t proc proc /proc" },
	};
	bool whole = true;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (host_exists("%s", parts[i].file))
			continue;
		whole = false;
		found(doctor, HEALTH_WARN, "kernel", "%s", parts[i].without);
		advice(doctor, "%s", parts[i].advice);
	}
	if (whole)
		found(doctor, HEALTH_OK, "kernel", "has NUMA, memory blocks and the state of pages");
	if (host_exists(CGROUPS "/dmem.capacity"))
		found(doctor, HEALTH_OK, "kernel", "has control groups for device memory (dmem)");
}

/* ---- limits ---- */

static void examine_memlock(struct doctor *doctor)
{
	struct rlimit limit;
	char size[HUMAN_SIZE];

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY || !geteuid()) {
		found(doctor, HEALTH_OK, "memlock",
		      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : "does not bind root");
		return;
	}
	found(doctor, limit.rlim_cur < MEMLOCK_LITTLE ? HEALTH_WARN : HEALTH_OK, "memlock",
	      "%s of its own memory may be pinned by a user", human_bytes(limit.rlim_cur, size));
	if (limit.rlim_cur < MEMLOCK_LITTLE)
		advice(doctor,
		       "pages of the reserve do not count, pinned ranges and hipHostRegister do: raise memlock in "
		       "/etc/security/limits.d");
}

/* ---- containers and control groups ---- */

static bool in_container(void)
{
	return host_exists("/.dockerenv") || host_exists("/run/.containerenv") || host_exists("/run/systemd/container");
}

static void examine_container(struct doctor *doctor)
{
	struct statvfs sys;

	if (statvfs("/sys", &sys))
		return;
	if (in_container())
		found(doctor, HEALTH_OK, "container", "this is a container; its reserve is the host's");
	if (!(sys.f_flag & ST_RDONLY))
		return;
	found(doctor, HEALTH_WARN, "container", "/sys is read-only: the reserve cannot be changed from here");
	advice(doctor, "run 'hugepinctl reserve' on the host; regions need /dev/hugepin or a mount of hugepinfs only");
}

/* This process's group of cgroup v2, "" where there is none. */
static void own_group(char *group, size_t size)
{
	FILE *file = host_open_text("/proc/self/cgroup");
	char line[512];

	*group = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "0::", 3))
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(group, size, "%s", line + 3);
	}
	if (file)
		fclose(file);
}

static void examine_group_limit(struct doctor *doctor, const char *group, const char *file, const char *what)
{
	char size[HUMAN_SIZE];
	uint64_t bytes;

	/* "max" is no number, and no limit */
	if (host_read_number(&bytes, CGROUPS "%s/%s", group, file))
		return;
	found(doctor, HEALTH_OK, "cgroup", "%s of %s: %s", file, *group ? group : "/", human_bytes(bytes, size));
	if (*what)
		advice(doctor, "%s", what);
}

static void examine_groups(struct doctor *doctor)
{
	char group[512];

	own_group(group, sizeof(group));
	examine_group_limit(doctor, group, "memory.max",
			    "page tables of large mappings count; pages of the reserve do not");
	examine_group_limit(doctor, group, "hugetlb.2MB.max", "binds the rung 'hugetlb' of the ladder only");
	examine_group_limit(doctor, group, "hugetlb.1GB.max", "binds the rung 'hugetlb' of the ladder only");
}

/* ---- the kernel's own huge pages ---- */

static void examine_thp(struct doctor *doctor)
{
	char text[64];

	if (host_read(text, sizeof(text), "/sys/kernel/mm/transparent_hugepage/enabled")) {
		found(doctor, HEALTH_WARN, "thp", "this kernel has no transparent huge pages");
		return;
	}
	if (!strstr(text, "[never]")) {
		found(doctor, HEALTH_OK, "thp", "%s", text);
		return;
	}
	found(doctor, HEALTH_WARN, "thp", "never: what the reserve cannot serve gets pages of 4K");
	advice(doctor, "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled");
}

static void examine_hugetlb(struct doctor *doctor)
{
	static const unsigned int sizes_kb[] = { 1048576, 2048 };

	for (size_t i = 0; i < sizeof(sizes_kb) / sizeof(sizes_kb[0]); i++) {
		uint64_t total, unused;
		const char *class = i ? "2M" : "1G";

		if (host_read_number(&total, "/sys/kernel/mm/hugepages/hugepages-%ukB/nr_hugepages", sizes_kb[i]) ||
		    !total)
			continue;
		unused = 0;
		host_read_number(&unused, "/sys/kernel/mm/hugepages/hugepages-%ukB/free_hugepages", sizes_kb[i]);
		found(doctor, unused ? HEALTH_WARN : HEALTH_OK, "hugetlb",
		      "the kernel's pool has %" PRIu64 " page%s of %s, %" PRIu64 " free", total, PLURAL(total), class,
		      unused);
		if (unused)
			advice(doctor, "if nobody needs them there: hugepinctl adopt NODE %s %" PRIu64, class, unused);
	}
}

void examine_host(struct doctor *doctor)
{
	examine_kernel(doctor);
	examine_memlock(doctor);
	examine_container(doctor);
	examine_groups(doctor);
	examine_thp(doctor);
	examine_hugetlb(doctor);
}
