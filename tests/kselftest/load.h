/* SPDX-License-Identifier: MIT */
/* The module taken away and loaded again (the file is $HUGEPIN_KO), for programs that run alone. */
#ifndef HUGEPIN_KSELFTEST_LOAD_H
#define HUGEPIN_KSELFTEST_LOAD_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktap.h"
#include "reserve.h"

#define UNIT	"/run/hugepin"	/* where the boot unit mounts hugepinfs */

/* Without waiting for it to be free, as rmmod does; 0 or -errno. */
static inline int unload(void)
{
	return syscall(SYS_delete_module, "hugepin", O_NONBLOCK) ? -errno : 0;
}

static inline int load(const char *parameters)
{
	int fd = open(getenv("HUGEPIN_KO"), O_RDONLY | O_CLOEXEC), error;

	if (fd < 0)
		return -errno;
	error = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
	close(fd);
	return error;
}

/* A case that failed half-way may have left it unloaded; the hooks look at it next. */
static inline const char *load_after(void)
{
	if (access(HUGEPIN_DEVICE, F_OK) && load(""))
		return "the module is gone and does not load again";
	return reserve_hooks.after();
}

/*
 * ktap_main() without the unit's mount, which would hold the module, in every case's mount namespace too. @hooks are
 * reserve_hooks, or others that call them.
 */
static inline int load_main(int argc, char **argv, const struct ktap_case *cases, size_t count,
			    struct ktap_hooks hooks)
{
	const char *path = getenv("HUGEPIN_KO");
	bool mounted;
	int status;

	if (!path || access(path, R_OK)) {
		ktap_note("no module to load again: HUGEPIN_KO=%s", path ? path : "");
		return KTAP_FAIL;
	}
	hooks.after = load_after;
	mounted = !umount(UNIT);
	status = ktap_main(argc, argv, cases, count, &hooks);
	if (mounted && mount("none", UNIT, HUGEPIN_FS_NAME, 0, NULL)) {
		ktap_note("mounting %s again: %s", UNIT, strerror(errno));
		status = KTAP_FAIL;
	}
	return status;
}

#endif /* HUGEPIN_KSELFTEST_LOAD_H */
