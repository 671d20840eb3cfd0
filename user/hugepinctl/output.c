// SPDX-License-Identifier: MIT
/* A file that is replaced whole or stays as it was: written beside it under another name, then renamed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hugepinctl.h"

static int fill(int fd, int (*write)(FILE *out, void *arg), void *arg)
{
	FILE *out = fdopen(fd, "w");
	int err;

	if (!out) {
		err = -errno;
		close(fd);
		return err;
	}
	err = write(out, arg);
	if (!err && (fflush(out) || ferror(out)))
		err = errno ? -errno : -EIO;
	if (!err && fsync(fd) && errno != EINVAL)
		err = -errno;
	if (fclose(out) && !err)
		err = -errno;
	return err;
}

int file_replace(const char *path, int (*write)(FILE *out, void *arg), void *arg, struct message *why)
{
	char beside[PATH_MAX];
	struct stat there;
	mode_t mask;
	int fd, err;

	if (!*path)
		return message_set(why, -EINVAL, "'' is not the name of a file");
	/* Root can rename over /dev/null. */
	if (!lstat(path, &there) && !S_ISREG(there.st_mode))
		return message_set(why, -EINVAL, "%s is not a regular file, and is not replaced by one", path);
	/* The point keeps collectors, which look for a suffix, from taking the file half-written. */
	if ((size_t)snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= sizeof(beside))
		return message_set(why, -ENAMETOOLONG, "%s: %s", path, strerror(ENAMETOOLONG));
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return message_set(why, -errno, "%s: a file beside it cannot be made: %s", path, strerror(errno));
	mask = umask(0);
	umask(mask);
	err = fchmod(fd, 0666 & ~mask) ? -errno : 0;
	if (err)
		close(fd);
	else
		err = fill(fd, write, arg);
	if (!err && rename(beside, path))
		err = -errno;
	if (!err)
		return 0;
	unlink(beside);
	return message_set(why, err, "%s cannot be written: %s", path, strerror(-err));
}
