// SPDX-License-Identifier: MIT
/* The knobs as the run found them; and the reserve emptied once, which shows a page that is still held. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "balance.h"

#define SYSFS	"/sys/class/misc/hugepin/"

static char why[256];

static bool read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, room - 1);

	if (fd >= 0)
		close(fd);
	if (length < 0)
		return false;
	text[length] = '\0';
	return true;
}

static const char *write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	const char *wrong = NULL;

	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		snprintf(why, sizeof(why), "%.*s to %s: %s", (int)strcspn(text, "\n"), text, path, strerror(errno));
		wrong = why;
	}
	if (fd >= 0)
		close(fd);
	return wrong;
}

const char *knobs_read(struct knob_values *knobs)
{
	static const char *const patterns[] = {
		SYSFS "scrub/enabled", SYSFS "scrub/throttle_mib_s", SYSFS "scrub/workers",
		SYSFS "node*/hugepages-*/user_limit_percent",
		SYSFS "node*/hugepages-1048576kB/nr_hugepages",		/* first: 2M pages break ranges up */
		SYSFS "node*/hugepages-2048kB/nr_hugepages",
	};
	unsigned int i, j;
	glob_t found;

	for (i = 0; i < COUNT(patterns); i++) {
		if (glob(patterns[i], 0, NULL, &found))
			continue;
		for (j = 0; j < found.gl_pathc && knobs->count < COUNT(knobs->knob); j++) {
			struct knob_value *knob = &knobs->knob[knobs->count];

			snprintf(knob->path, sizeof(knob->path), "%s", found.gl_pathv[j]);
			if (read_text(knob->path, knob->text, sizeof(knob->text)))
				knobs->count++;
		}
		globfree(&found);
	}
	return knobs->count ? NULL : "no knobs";
}

/*
 * The reserve was empty a moment ago, so its pages went back to the kernel; but an hour later the kernel may have no free
 * GiB in one piece any more. If that is what the module says, fewer 1G pages are expected, and it is told.
 */
static bool fewer_1g(const char *knob, const char *wanted, struct balance *expected)
{
	static const char folder[] = "hugepages-1048576kB/";
	const char *in = strstr(knob, folder);
	char path[192], reason[64], have[32];
	unsigned long missing;

	if (!in)
		return false;
	snprintf(path, sizeof(path), "%.*sshortfall_reason", (int)(in - knob + sizeof(folder) - 1), knob);
	if (!read_text(path, reason, sizeof(reason)) || strcmp(reason, "no further free range of that size\n") ||
	    !read_text(knob, have, sizeof(have)))
		return false;
	missing = strtoul(wanted, NULL, 10) - strtoul(have, NULL, 10);
	expected->total -= missing * PAGES_2M_OF_1G;
	printf("%s: %lu fewer than before, %s", knob, missing, reason);
	return true;
}

const char *knobs_restore(const struct knob_values *knobs, struct balance *expected)
{
	unsigned int i;

	for (i = 0; i < knobs->count; i++) {
		const char *wrong = write_text(knobs->knob[i].path, knobs->knob[i].text);

		if (wrong && !fewer_1g(knobs->knob[i].path, knobs->knob[i].text, expected))
			return wrong;
	}
	return NULL;
}

/* @wrong, with what is held. */
static const char *with_balance(const char *wrong)
{
	static char text[512];
	struct balance b;

	if (balance_read(&b))
		return wrong;
	snprintf(text, sizeof(text), "%s; pages of 2M: in use %llu, quarantined %llu; regions %llu, users that hold something %llu",
		 wrong, (unsigned long long)b.in_use, (unsigned long long)b.quarantined, (unsigned long long)b.regions,
		 (unsigned long long)b.users);
	return text;
}

/* All but what is poisoned can be given back, soon after the last user has gone. */
const char *knobs_empty(const struct knob_values *knobs, unsigned int seconds)
{
	unsigned int tries = 10 * seconds, i;
	const char *wrong;

	for (;; usleep(100000)) {
		wrong = NULL;
		for (i = 0; i < knobs->count && !wrong; i++)
			if (strstr(knobs->knob[i].path, "nr_hugepages"))
				wrong = write_text(knobs->knob[i].path, "0\n");
		if (!wrong || !tries--)
			return wrong ? with_balance(wrong) : NULL;
	}
}
