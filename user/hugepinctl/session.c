// SPDX-License-Identifier: MIT
/* The library as this program uses it, one look at the reserve, and the lock between two commands that change it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "hugepinctl.h"

#define LOCK_FILE	"/run/hugepinctl.lock"

/* No accelerator's runtime is loaded and no HUGEPIN_ variable read: neither has a say in what the host holds. */
int session_open(struct hugepin_context **out, struct message *why)
{
	struct hugepin_options *options;
	int err = hugepin_options_create(&options);

	if (err)
		return message_set(why, err, "%s", hugepin_error());
	err = hugepin_options_set(options, "runtime", "none");
	if (!err)
		err = hugepin_context_create(options, out);
	if (err)
		message_set(why, err, "%s", hugepin_error());
	hugepin_options_destroy(options);
	return err;
}

static int grow(struct snapshot *snapshot, size_t *room)
{
	size_t more = *room ? *room * 2 : 16;
	struct hugepin_reserve_info *entries = reallocarray(snapshot->entries, more, sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	snapshot->entries = entries;
	*room = more;
	return 0;
}

int snapshot_take(struct hugepin_context *ctx, struct snapshot *out, struct message *why)
{
	struct snapshot taken = { 0 };
	size_t room = 0;
	int err = 0;

	for (;;) {
		if (taken.count == room && grow(&taken, &room)) {
			err = message_set(why, -ENOMEM, "no memory for %zu nodes and classes", taken.count + 1);
			break;
		}
		taken.entries[taken.count] = (struct hugepin_reserve_info){ .size = sizeof(*taken.entries) };
		err = hugepin_reserve_at(ctx, taken.count, &taken.entries[taken.count]);
		if (err)
			break;
		taken.count++;
	}
	if (err == -ENODEV)
		message_set(why, err, "hugepin module is not loaded: modprobe hugepin");
	else if (err != -ENOENT && err != -ENOMEM)
		message_set(why, err, "the reserve cannot be read: %s", hugepin_error());
	if (err != -ENOENT) {
		snapshot_free(&taken);
		return err;
	}
	for (int c = CLASS_FIRST; c <= CLASS_LAST; c++)
		taken.absent[c] = hugepin_class_absent(ctx, (enum hugepin_class)c);
	*out = taken;
	return 0;
}

void snapshot_free(struct snapshot *snapshot)
{
	free(snapshot->entries);
	snapshot->entries = NULL;
	snapshot->count = 0;
}

const struct hugepin_reserve_info *snapshot_find(const struct snapshot *snapshot, int node,
						 enum hugepin_class page_class)
{
	for (size_t i = 0; i < snapshot->count; i++)
		if (snapshot->entries[i].node == node && snapshot->entries[i].page_class == page_class)
			return &snapshot->entries[i];
	return NULL;
}

int session_lock(void)
{
	int fd = open(LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	/* No /run, or no right to write there: then the knobs, which need more, give the better answer. */
	if (fd < 0)
		return 0;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno == EWOULDBLOCK) {
		complain("waiting for another hugepinctl that is changing the reserve");
		if (!flock(fd, LOCK_EX))
			return 0;
	}
	if (errno == EINTR) {
		close(fd);
		return -EINTR;
	}
	close(fd);
	return 0;
}
