// SPDX-License-Identifier: MIT
/* Messages for people, and the one table from an errno to an exit status. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "hugepinctl.h"

int message_set(struct message *why, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, args);
	va_end(args);
	return err;
}

void complain(const char *fmt, ...)
{
	char line[2 * PATH_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	/* Words of the command line and names of files are in it: any bytes. */
	text_for_terminal(line);
	/* What stdout has so far comes first, where both go to one place. */
	fflush(stdout);
	fprintf(stderr, "hugepinctl: %s\n", line);
}

int status_of(int err)
{
	switch (-err) {
	case 0:
		return STATUS_OK;
	case ENODEV:
		return STATUS_NO_MODULE;
	case EACCES:
	case EPERM:
	case EROFS:
		return STATUS_PERMISSION;
	default:
		return STATUS_FAILED;
	}
}

int flush_output(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	complain("standard output could not be written: %s", strerror(errno));
	return status == STATUS_OK ? STATUS_FAILED : status;
}
