// SPDX-License-Identifier: MIT
/* What the processes of the stress do, but for devices (devices.c). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kmod/uapi/hugepin.h"
#include "stress.h"

#define SYSFS	"/sys/class/misc/hugepin/"

/* What takes no time by itself would take all of it from the others. */
static void leave_time(void)
{
	usleep(chance_of(20000));
}

static void write_knob(const char *path, unsigned int value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	char text[16];

	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	snprintf(text, sizeof(text), "%u\n", value);
	if (write(fd, text, strlen(text)) < 0) {
		if (errno != EBUSY && errno != ENOMEM && errno != EINTR)
			fail("%u to %s: %s", value, path, strerror(errno));
		count(&shared->refused, 1);
	}
	close(fd);
}

/* ---- the operator ---- */

static void resize(unsigned int node)
{
	char path[128];

	snprintf(path, sizeof(path), SYSFS "node%u/hugepages-2048kB/nr_hugepages", node);
	write_knob(path, 16 + chance_of(48));
}

static void limit(unsigned int node)
{
	char path[128], options[32];

	leave_time();
	snprintf(path, sizeof(path), SYSFS "node%u/hugepages-2048kB/user_limit_percent", node);
	write_knob(path, 50 + chance_of(51));
	snprintf(options, sizeof(options), "limit_2m=%u", 20 + chance_of(100));
	if (mount("none", PLACE, "hugepinfs", MS_REMOUNT, options))
		fail("remount with %s: %s", options, strerror(errno));
}

static void scrub(unsigned int which)
{
	static const struct {
		const char *path;
		unsigned int most;
	} knobs[] = {
		{ SYSFS "scrub/enabled", 2 }, { SYSFS "scrub/workers", 4 }, { SYSFS "scrub/throttle_mib_s", 4000 },
	};
	unsigned int i = chance_of(COUNT(knobs)), value = chance_of(knobs[i].most);

	(void)which;
	leave_time();
	write_knob(knobs[i].path, i == 1 ? 1 + value : value);
}

/* The mount holds the module: it must never go. */
static void unload(unsigned int which)
{
	(void)which;
	leave_time();
	count(&shared->unload_attempts, 1);
	if (!syscall(SYS_delete_module, "hugepin", O_NONBLOCK))
		fail("the module was unloaded while it was in use");
	if (errno != EWOULDBLOCK && errno != EBUSY)
		fail("unloading: %s", strerror(errno));
}

/* ---- who keeps named regions ---- */

static void plant_name(char *name, size_t room, unsigned int keeper, unsigned int i, unsigned int version)
{
	snprintf(name, room, "%u-%u-%u", keeper, i, version);
}

static int open_plant(int directory, unsigned int keeper, unsigned int i)
{
	struct plant *plant = &shared->plants[keeper][i];
	char name[32];
	int fd;

	plant_name(name, sizeof(name), keeper, i, plant->version);
	fd = openat(directory, name, O_RDWR | O_CLOEXEC);
	if (fd < 0 && plant->state == BEING_RENAMED) {
		plant_name(name, sizeof(name), keeper, i, ++plant->version);
		fd = openat(directory, name, O_RDWR | O_CLOEXEC);
	}
	return fd;
}

static void remove_plant(int directory, unsigned int keeper, unsigned int i)
{
	struct plant *plant = &shared->plants[keeper][i];
	bool must = plant->state == WHOLE;
	char name[32];

	plant->state = IN_THE_MAKING;		/* killed here, nobody expects it */
	plant_name(name, sizeof(name), keeper, i, plant->version);
	if (unlinkat(directory, name, 0) && (must || errno != ENOENT))
		fail("unlink of %s: %s", name, strerror(errno));
	plant->state = NOTHING;
}

static void check_plant(int directory, unsigned int keeper, unsigned int i)
{
	struct plant *plant = &shared->plants[keeper][i];
	uint64_t bytes = plant->pages * PAGE_2M;
	int fd = open_plant(directory, keeper, i);
	char *start;

	if (fd < 0)
		fail("plant %u of keeper %u is gone: %s", i, keeper, strerror(errno));
	plant->state = WHOLE;
	start = map_all(fd, bytes);
	check_bytes(start, 0, bytes, plant->seed, "a named region");
	munmap(start, bytes);
	close(fd);
}

static void make_plant(int directory, unsigned int keeper, unsigned int i)
{
	struct plant *plant = &shared->plants[keeper][i];
	char name[32], *start;
	int fd;

	plant->seed += 1000003 * (keeper + 1) + i;
	plant->version++;
	plant->pages = 1 + chance_of(3);
	plant->state = IN_THE_MAKING;
	plant_name(name, sizeof(name), keeper, i, plant->version);
	fd = make_region(directory, name, plant->pages, 1);
	if (fd < 0) {
		plant->state = NOTHING;
		return;
	}
	start = map_all(fd, plant->pages * PAGE_2M);
	check_zero(start, plant->pages * PAGE_2M);
	plant_bytes(start, 0, plant->pages * PAGE_2M, plant->seed);
	munmap(start, plant->pages * PAGE_2M);
	close(fd);
	plant->state = WHOLE;
}

static void rename_plant(int directory, unsigned int keeper, unsigned int i)
{
	struct plant *plant = &shared->plants[keeper][i];
	char from[32], to[32];

	plant_name(from, sizeof(from), keeper, i, plant->version);
	plant_name(to, sizeof(to), keeper, i, plant->version + 1);
	plant->state = BEING_RENAMED;
	if (renameat(directory, from, directory, to))
		fail("rename of %s: %s", from, strerror(errno));
	plant->version++;
	plant->state = WHOLE;
}

static int open_place(void)
{
	int fd = open(PLACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		fail(PLACE ": %s", strerror(errno));
	return fd;
}

static void keep(unsigned int keeper)
{
	unsigned int i = chance_of(PLANTS);
	int directory = open_place();

	switch (shared->plants[keeper][i].state) {
	case IN_THE_MAKING:	/* left by one that was killed: its bytes are unknown */
		remove_plant(directory, keeper, i);
		break;
	case NOTHING:
		make_plant(directory, keeper, i);
		break;
	default:
		check_plant(directory, keeper, i);
		if (chance_of(3) == 0)
			remove_plant(directory, keeper, i);
		else if (chance_of(2))
			rename_plant(directory, keeper, i);
	}
	close(directory);
}

/* When the keeper has ended. */
void check_plants(unsigned int keeper, bool remove)
{
	int directory = open_place();
	unsigned int i;

	for (i = 0; i < PLANTS; i++) {
		if (shared->plants[keeper][i].state >= WHOLE)
			check_plant(directory, keeper, i);
		if (remove && shared->plants[keeper][i].state != NOTHING)
			remove_plant(directory, keeper, i);
	}
	close(directory);
}

/* ---- who maps unnamed ones ---- */

/* Moved away and back, in part, with a child that checks what it inherited meanwhile. */
static void map_and_move(unsigned int which)
{
	unsigned int pages = 2 + chance_of(3);
	uint64_t bytes = pages * PAGE_2M, seed = getpid() * 1000ULL + chance_of(1000);
	int device = open(HUGEPIN_DEVICE, O_RDWR | O_CLOEXEC), fd = make_region(device, NULL, pages, 1), status;
	char *start, *moved, *hole;
	pid_t child;

	(void)which;
	close(device);
	if (fd < 0)
		return;
	start = map_all(fd, bytes);
	check_zero(start, bytes);
	plant_bytes(start, 0, bytes, seed);
	child = fork();
	if (!child) {
		check_bytes(start, 0, bytes, seed, "what a child inherited");
		_exit(0);
	}
	hole = mmap(NULL, 2 * PAGE_2M, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (hole == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	moved = hole + (-(uintptr_t)hole & (PAGE_2M - 1));
	if (mremap(start + PAGE_2M, PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, moved) != moved)
		fail("mremap: %s", strerror(errno));
	check_bytes(moved, PAGE_2M, PAGE_2M, seed, "a moved area");
	check_bytes(start, 0, PAGE_2M, seed, "what was not moved");
	munmap(hole, 2 * PAGE_2M);
	if (child > 0 && waitpid(child, &status, 0) == child && status)
		fail("a child ended with status %#x", status);
	close(fd);
	munmap(start, bytes);
}

/* The descriptor goes through a socket; its region has no other user while it is there. */
static void pass_on(unsigned int which)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0, *start;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int device = open(HUGEPIN_DEVICE, O_RDWR | O_CLOEXEC), fd = make_region(device, NULL, 1, 1), ends[2];
	uint64_t seed = getpid() + 7ULL * which;

	close(device);
	if (fd < 0)
		return;
	start = map_all(fd, PAGE_2M);
	plant_bytes(start, 0, PAGE_2M, seed);
	munmap(start, PAGE_2M);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) || sendmsg(ends[0], &message, 0) != 1)
		fail("passing a descriptor: %s", strerror(errno));
	close(fd);
	close(ends[0]);
	usleep(chance_of(20000));
	if (recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC) != 1)
		fail("receiving a descriptor: %s", strerror(errno));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	start = map_all(fd, PAGE_2M);
	check_bytes(start, 0, PAGE_2M, seed, "a region that was passed on");
	munmap(start, PAGE_2M);
	close(fd);
	close(ends[1]);
}

/* ---- who looks ---- */

static void look(unsigned int which)
{
	static struct hugepin_list_entry entries[32];
	struct hugepin_list list = {
		.size = sizeof(list), .entries = (uintptr_t)entries, .nr_entries = COUNT(entries),
		.entry_size = sizeof(entries[0]),
	};
	int device = open(HUGEPIN_DEVICE, O_RDONLY | O_CLOEXEC);
	struct balance balance;
	const char *wrong = balance_read(&balance);

	(void)which;
	leave_time();
	if (wrong)
		fail("%s", wrong);
	do {
		if (device < 0 || ioctl(device, HUGEPIN_IOC_LIST, &list))
			fail("LIST: %s", strerror(errno));
		list.nr_entries = COUNT(entries);
	} while (list.cursor);
	close(device);
}

const struct role roles[] = {
	{ "resize", resize, 0 }, { "resize", resize, 1 }, { "limit", limit, 0 }, { "scrub", scrub, 0 },
	{ "unload", unload, 0 }, { "keep", keep, 0 }, { "keep", keep, 1 }, { "map_and_move", map_and_move, 0 },
	{ "map_and_move", map_and_move, 1 }, { "pass_on", pass_on, 0 }, { "look", look, 0 },
	{ "pin_and_export", pin_and_export, 0 }, { "hold_past_the_end", hold_past_the_end, 0 },
	{ "hold_past_the_end", hold_past_the_end, 1 },
};
const unsigned int role_count = COUNT(roles);
