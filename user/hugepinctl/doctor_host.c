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

struct group_limit {
	const char *controller;		/* of cgroup v1, where it has a mount by its name; "": v2 */
	const char *file;
	const char *what;		/* it binds */
};
#define BINDS_TABLES	"page tables of large mappings count; pages of the reserve do not"
#define BINDS_HUGETLB	"binds the rung 'hugetlb' of the ladder only"
static const struct group_limit group_limits[] = {
	{ "", "memory.max", BINDS_TABLES },
	{ "", "hugetlb.2MB.max", BINDS_HUGETLB },
	{ "", "hugetlb.1GB.max", BINDS_HUGETLB },
	{ "memory", "memory.limit_in_bytes", BINDS_TABLES },
	{ "hugetlb", "hugetlb.2MB.limit_in_bytes", BINDS_HUGETLB },
	{ "hugetlb", "hugetlb.1GB.limit_in_bytes", BINDS_HUGETLB },
};

/* Is @name one of "cpu,memory"? "" is the only one of "". */
static bool is_listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (;; list++) {
		size_t next = strcspn(list, ",");

		if (next == length && !strncmp(list, name, length))
			return true;
		list += next;
		if (!*list)
			return false;
	}
}

/* This process's group of lines "4:memory:/group", "0::/group"; "" for the root, or where no other can be seen. */
static void own_group(const char *controller, char *group, size_t size)
{
	FILE *file = host_open_text("/proc/self/cgroup");
	char line[512];

	*group = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		char *rest = line, *controllers;

		line[strcspn(line, "\n")] = '\0';
		strsep(&rest, ":");
		controllers = strsep(&rest, ":");
		if (!rest || !is_listed(controllers, controller))
			continue;
		/* "/.." in front: outside of the cgroup namespace */
		snprintf(group, size, "%s", strcmp(rest, "/") && strncmp(rest, "/..", 3) ? rest : "");
	}
	if (file)
		fclose(file);
}

static uint64_t host_memory(void)
{
	FILE *file = host_open_text("/proc/meminfo");
	uint64_t kb = UINT64_MAX >> 10;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemTotal: %" SCNu64, &kb) == 1)
			break;
	if (file)
		fclose(file);
	return kb << 10;
}

/*
 * The least on the way up, as the library has it. In a container whose own group is what is mounted, the groups on the
 * way are not there, and the mount's root is what counts.
 */
static void examine_group_limit(struct doctor *doctor, const struct group_limit *limit)
{
	uint64_t least = host_memory(), bytes;	/* "unlimited" of v1 is a number beyond all memory, of v2 it is "max" */
	char group[512], at[512] = "", size[HUMAN_SIZE], *slash;
	bool limited = false;

	own_group(limit->controller, group, sizeof(group));
	do {
		if (!host_read_number(&bytes, CGROUPS "%s%s%s/%s", *limit->controller ? "/" : "", limit->controller,
				      group, limit->file) && bytes < least) {
			limited = true;
			least = bytes;
			strcpy(at, group);
		}
		slash = strrchr(group, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
	if (!limited)
		return;
	found(doctor, HEALTH_OK, "cgroup", "%s of %s: %s", limit->file, *at ? at : "/", human_bytes(least, size));
	advice(doctor, "%s", limit->what);
}

static void examine_groups(struct doctor *doctor)
{
	for (size_t i = 0; i < sizeof(group_limits) / sizeof(group_limits[0]); i++)
		examine_group_limit(doctor, &group_limits[i]);
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
