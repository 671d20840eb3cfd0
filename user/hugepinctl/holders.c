// SPDX-License-Identifier: MIT
/*
 * Which processes hold which regions: by the device and inode numbers of their descriptors and mappings in /proc.
 * Regions that have no name any more, or never had one, are found like any other.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ps.h"

/* A region by what /proc shows of it; sorted. */
struct key {
	uint64_t dev, ino;
	size_t region;
};
struct search {
	struct ps *ps;
	struct key *keys;
	size_t room;			/* of ps->holders */
	size_t first;			/* holder of the process looked at */
	int pid;
	bool blind;			/* a part of the process could not be seen */
};

static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

static const struct key *find_region(const struct search *search, uint64_t dev, uint64_t ino)
{
	const struct key key = { .dev = dev, .ino = ino };

	return bsearch(&key, search->keys, search->ps->nr_regions, sizeof(key), compare_keys);
}

/* The entry of this process for @region, made when it is the first. NULL: no memory. */
static struct holder *holder_of(struct search *search, size_t region)
{
	struct ps *ps = search->ps;

	for (size_t i = search->first; i < ps->nr_holders; i++)
		if (ps->holders[i].region == region)
			return &ps->holders[i];
	if (ps->nr_holders == search->room) {
		size_t room = search->room ? search->room * 2 : 64;
		struct holder *more = reallocarray(ps->holders, room, sizeof(*more));

		if (!more)
			return NULL;
		ps->holders = more;
		search->room = room;
	}
	ps->holders[ps->nr_holders] = (struct holder){ .region = region, .pid = search->pid };
	return &ps->holders[ps->nr_holders++];
}

/* ---- one process ---- */

static int look_at_descriptors(struct search *search)
{
	DIR *dir = host_open_dir("/proc/%d/fd", search->pid);
	const struct dirent *entry;
	int err = 0;

	if (!dir) {
		search->blind = errno == EACCES || errno == EPERM;
		return 0;
	}
	while (!err && (entry = readdir(dir))) {
		const struct key *key;
		struct holder *holder;
		struct statx st;

		/* DONT_SYNC: a server that is gone must not stop us */
		if (entry->d_name[0] == '.' || statx(dirfd(dir), entry->d_name, AT_STATX_DONT_SYNC, STATX_INO, &st))
			continue;
		key = find_region(search, makedev(st.stx_dev_major, st.stx_dev_minor), st.stx_ino);
		if (!key)
			continue;
		holder = holder_of(search, key->region);
		if (holder)
			holder->descriptors++;
		else
			err = -ENOMEM;
	}
	closedir(dir);
	return err;
}

static int look_at_mappings(struct search *search)
{
	FILE *file = host_open_text("/proc/%d/maps", search->pid);
	size_t size = 0;
	char *line = NULL;
	int err = 0;

	if (!file) {
		search->blind = search->blind || errno == EACCES || errno == EPERM;
		return 0;
	}
	while (!err && getline(&line, &size, file) > 0) {
		uint64_t start, end, ino;
		unsigned int major, minor;
		const struct key *key;
		struct holder *holder;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %x:%x %" SCNu64, &start, &end, &major, &minor,
			   &ino) != 5 ||
		    !ino)
			continue;
		key = find_region(search, makedev(major, minor), ino);
		if (!key)
			continue;
		holder = holder_of(search, key->region);
		if (holder)
			holder->mapped_bytes += end - start;
		else
			err = -ENOMEM;
	}
	free(line);
	fclose(file);
	return err;
}

/* Name and owner, for the entries that the process got. */
static void name_process(struct search *search)
{
	char comm[64] = "?";
	struct stat st = { .st_uid = (uid_t)-1 };
	int fd;

	if (search->first == search->ps->nr_holders)
		return;
	host_read(comm, sizeof(comm), "/proc/%d/comm", search->pid);
	fd = host_open(O_PATH | O_DIRECTORY, "/proc/%d", search->pid);
	if (fd >= 0) {
		fstat(fd, &st);
		close(fd);
	}
	for (size_t i = search->first; i < search->ps->nr_holders; i++) {
		struct holder *holder = &search->ps->holders[i];

		holder->uid = st.st_uid;
		snprintf(holder->comm, sizeof(holder->comm), "%.15s", comm);
	}
}

static int look_at_process(struct search *search, int pid)
{
	int err;

	search->pid = pid;
	search->first = search->ps->nr_holders;
	search->blind = false;
	err = look_at_descriptors(search);
	if (!err)
		err = look_at_mappings(search);
	if (err)
		return err;
	name_process(search);
	search->ps->unseen += search->blind;
	return 0;
}

/* ---- all of them ---- */

static int compare_holders(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->region != y->region)
		return x->region < y->region ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

int holders_find(struct ps *ps)
{
	struct search search = { .ps = ps };
	uint64_t *pids = NULL;
	size_t count = 0;
	int err;

	if (!ps->nr_regions)
		return 0;
	search.keys = calloc(ps->nr_regions, sizeof(*search.keys));
	if (!search.keys)
		return -ENOMEM;
	for (size_t i = 0; i < ps->nr_regions; i++)
		search.keys[i] = (struct key){ ps->regions[i].info.dev, ps->regions[i].info.ino, i };
	qsort(search.keys, ps->nr_regions, sizeof(*search.keys), compare_keys);
	err = host_numbered("/proc", "", &pids, &count);
	for (size_t i = 0; !err && i < count; i++)
		err = look_at_process(&search, (int)pids[i]);
	free(pids);
	free(search.keys);
	if (!err && ps->nr_holders)
		qsort(ps->holders, ps->nr_holders, sizeof(*ps->holders), compare_holders);
	return err;
}
