// SPDX-License-Identifier: MIT
/*
 * Helper threads of the library's own. A thread inherits from its creator what was meant for that one alone: the
 * signals that it takes and the CPUs that it was pinned to. A helper takes no signals, for the program's handlers run
 * in the program's threads; and runs where the process may, that is where its first thread may: so numactl and taskset
 * hold, and a worker pinned to one CPU does not share it with a helper that it happened to start.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define CPUS_MAX	8192		/* as many as the kernel can be built for */

struct start {
	const char *name;
	void (*fn)(void *arg);
	void *arg;
};

/* Where this cannot be had the thread stays on its creator's CPUs: it is slower, no more. */
static void leave_creators_cpus(void)
{
	unsigned long cpus[CPUS_MAX / (8 * sizeof(unsigned long))] = { 0 };

	if (!sched_getaffinity(getpid(), sizeof(cpus), (cpu_set_t *)cpus))
		sched_setaffinity(0, sizeof(cpus), (cpu_set_t *)cpus);
}

static void *run(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	pthread_setname_np(pthread_self(), start.name);
	leave_creators_cpus();
	start.fn(start.arg);
	return NULL;
}

int hpi_thread_start(const char *name, void (*fn)(void *arg), void *arg, pthread_t *out)
{
	struct start *start = hpi_sys_fault && hpi_sys_fault("malloc") ? NULL : malloc(sizeof(*start));
	sigset_t all, before;
	int err;

	if (!start)
		return hpi_error(-ENOMEM, "no memory to start the thread %s", name);
	*start = (struct start){ .name = name, .fn = fn, .arg = arg };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = hpi_sys_fault ? hpi_sys_fault("pthread_create") : 0;
	if (!err)
		err = pthread_create(out, NULL, run, start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		return 0;
	free(start);
	return hpi_error(-err, "starting the thread %s: %s", name, strerror(err));
}

/* CPUs are listed as nodes are: "0-31,64-95". */
static int cpus_of_node(const char *root, int node, cpu_set_t *out)
{
	char path[PATH_MAX], text[8192];
	struct hpi_nodes cpus;
	unsigned int cpu;
	int err;

	CPU_ZERO(out);
	if ((size_t)snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%d/cpulist", root, node) >= sizeof(path))
		return -ENAMETOOLONG;
	err = hpi_sys_read_file(path, text, sizeof(text));
	if (!err)
		err = hpi_nodes_parse(text, &cpus);
	for (cpu = 0; !err && cpu < HPI_NODES_MAX && cpu < CPU_SETSIZE; cpu++)
		if (hpi_nodes_has(&cpus, cpu))
			CPU_SET(cpu, out);
	return err;
}

int hpi_thread_cpus_near(const char *root, const struct hpi_topology *topology, cpu_set_t *out)
{
	int node = hpi_topology_local_node(), err;
	cpu_set_t process;

	if (sched_getaffinity(getpid(), sizeof(process), &process))
		return -errno;
	if (topology->count == 1) {
		*out = process;
		return 0;
	}
	if (node < 0)
		return -ENODEV;
	err = cpus_of_node(root, node, out);
	if (err)
		return err;
	CPU_AND(out, out, &process);
	return CPU_COUNT(out) ? 0 : -ENODEV;	/* the thread alone may be here, and not the process's first */
}
