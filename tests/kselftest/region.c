// SPDX-License-Identifier: MIT
/* Regions in the self-tests; see region.h. */
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "region.h"

/* ---- making ---- */

struct hugepin_create create_args(uint64_t bytes, uint32_t classes)
{
	return (struct hugepin_create){
		.size = sizeof(struct hugepin_create),
		.bytes = bytes,
		.classes = classes,
		.policy = HUGEPIN_POLICY_BIND,
		.fd = -1,
	};
}

int region_create(int fd, struct hugepin_create *args)
{
	return ioctl(fd, HUGEPIN_IOC_CREATE, args) ? -errno : args->fd;
}

int device_open(void)
{
	return CHECK_OK(open(HUGEPIN_DEVICE, O_RDWR | O_CLOEXEC));
}

static int make(struct hugepin_create *args)
{
	struct hugepin_shortfall short_of = { 0 };
	int device = device_open(), fd;

	args->shortfall = (uintptr_t)&short_of;
	fd = region_create(device, args);
	if (fd < 0)
		ktap_fail_here("CREATE of %llu bytes, classes %#x: %s (reason %u, node %d, asked %llu, available %llu)",
			       args->bytes, args->classes, strerror(-fd), short_of.reason, (int)short_of.node,
			       short_of.asked, short_of.available);
	close(device);
	return fd;
}

int region_make(uint64_t bytes, uint32_t classes)
{
	struct hugepin_create args = create_args(bytes, classes);

	return make(&args);
}

int region_make_on(unsigned int node, uint64_t bytes, uint32_t classes)
{
	uint64_t mask[HUGEPIN_NODES_MAX / 64] = { 0 };
	struct hugepin_create args = create_args(bytes, classes);

	mask[node / 64] = 1ULL << node % 64;
	args.nodemask = (uintptr_t)mask;
	args.nodemask_bits = node + 1;
	return make(&args);
}

int region_create_named(int directory, const char *name, uint64_t bytes, unsigned int mode)
{
	struct hugepin_create args = create_args(bytes, CLASS_2M);

	args.name = (uintptr_t)name;
	args.mode = mode;
	return region_create(directory, &args);
}

struct hugepin_region_info region_info(int fd)
{
	struct hugepin_region_info info = { .size = sizeof(info) };

	CHECK_OK(ioctl(fd, HUGEPIN_IOC_REGION_INFO, &info));
	return info;
}

/* Folders on a tmpfs that only this case's mount namespace has, so that nothing is left to remove. */
static const char *mount_point(void)
{
	static char path[32];
	static unsigned int count;

	if (!count)
		CHECK_OK(mount("none", "/mnt", "tmpfs", 0, "mode=755"));
	snprintf(path, sizeof(path), "/mnt/%u", count++);
	CHECK_OK(mkdir(path, 0755));
	return path;
}

int fs_try_mount(const char *options)
{
	const char *path = mount_point();
	int error = mount("none", path, HUGEPIN_FS_NAME, 0, options) ? -errno : 0;

	if (!error)
		umount2(path, MNT_DETACH);
	return error;
}

int fs_mount(const char *options, const char **path)
{
	const char *where = mount_point();

	CHECK(!mount("none", where, HUGEPIN_FS_NAME, 0, options), "options '%s': %s", options ? options : "",
	      strerror(errno));
	if (path)
		*path = where;
	return CHECK_OK(open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* ---- mapping ---- */

char *region_map(int fd, uint64_t offset, uint64_t bytes, int protection)
{
	char *start = mmap(NULL, bytes, protection, MAP_SHARED, fd, offset);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	return start;
}

char *address_hole(uint64_t bytes, uint64_t alignment)
{
	uint64_t whole = bytes + 3 * alignment;
	char *start = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	CHECK_OK(munmap(start, whole));
	return (char *)(uintptr_t)(((uintptr_t)start + 2 * alignment - 1) & ~(alignment - 1));
}

unsigned long touch_faults(char *start, uint64_t bytes)
{
	struct rusage before = { 0 }, after = { 0 };
	uint64_t at;

	getrusage(RUSAGE_SELF, &after);		/* so that the stack and the call itself fault now */
	getrusage(RUSAGE_SELF, &before);
	for (at = 0; at < bytes; at += PAGE_4K)
		((volatile char *)start)[at] += 0;
	getrusage(RUSAGE_SELF, &after);
	return after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt;
}

/* ---- bytes ---- */

static uint64_t mark_of(uint64_t offset, uint64_t seed)
{
	uint64_t mark = (offset + 1) * 0x9e3779b97f4a7c15ULL ^ seed * 0xbf58476d1ce4e5b9ULL;

	return (mark ^ mark >> 31) | 1;		/* never zero */
}

static uint64_t next_mark(uint64_t at, uint64_t bytes)
{
	if (at < 4 * MiB || at >= bytes - 4 * MiB)
		return at + PAGE_4K;
	return at + PAGE_2M;
}

void marks_write(char *start, uint64_t base, uint64_t bytes, uint64_t seed)
{
	uint64_t at;

	for (at = 0; at < bytes; at = next_mark(at, bytes))
		*(volatile uint64_t *)(start + at) = mark_of(base + at, seed);
}

long long marks_wrong(const char *start, uint64_t base, uint64_t bytes, uint64_t seed)
{
	uint64_t at;

	for (at = 0; at < bytes; at = next_mark(at, bytes))
		if (*(const volatile uint64_t *)(start + at) != mark_of(base + at, seed))
			return at;
	return -1;
}

long long nonzero_at(const char *start, uint64_t bytes)
{
	uint64_t step = bytes <= 64 * MiB ? sizeof(uint64_t) : PAGE_4K, at;

	for (at = 0; at < bytes; at += step) {
		const uint64_t *word = (const uint64_t *)(start + at);

		if (*word)
			return at;
		if (step == PAGE_4K && (word[255] || word[511]))
			return at + 255 * sizeof(uint64_t);
	}
	return -1;
}

/* ---- touching ---- */

static sigjmp_buf touch_return;

static void on_touch_signal(int signal)
{
	siglongjmp(touch_return, signal);
}

static int touch(char *address, bool write, char value)
{
	struct sigaction action = { .sa_handler = on_touch_signal, .sa_flags = SA_NODEFER }, segv, bus;
	int raised;

	sigaction(SIGSEGV, &action, &segv);
	sigaction(SIGBUS, &action, &bus);
	raised = sigsetjmp(touch_return, 0);
	if (!raised) {
		if (write)
			*(volatile char *)address = value;
		else
			(void)*(volatile char *)address;
	}
	sigaction(SIGSEGV, &segv, NULL);
	sigaction(SIGBUS, &bus, NULL);
	return raised;
}

int read_signal(const char *address)
{
	return touch((char *)address, false, 0);
}

int write_signal(char *address, char value)
{
	return touch(address, true, value);
}

/* ---- processes ---- */

void as_user(unsigned int uid, void (*check)(const void *arg), const void *arg)
{
	pid_t child = ktap_fork();

	if (!child) {
		CHECK_OK(setgroups(0, NULL));
		CHECK_OK(setgid(uid));
		CHECK_OK(setuid(uid));
		check(arg);
		ktap_exit();
	}
	ktap_join(child);
}

struct channel channel_open(void)
{
	struct channel channel;

	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.ends));
	return channel;
}

void channel_signal(const struct channel *channel, int side)
{
	CHECK_EQ(write(channel->ends[side], "", 1), 1);
}

void channel_wait(const struct channel *channel, int side)
{
	char byte;

	CHECK_EQ(read(channel->ends[side], &byte, 1), 1);
}

void descriptor_send(const struct channel *channel, int side, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	CHECK_EQ(sendmsg(channel->ends[side], &message, 0), 1);
}

int descriptor_receive(const struct channel *channel, int side)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;
	int fd;

	CHECK_EQ(recvmsg(channel->ends[side], &message, MSG_CMSG_CLOEXEC), 1);
	header = CMSG_FIRSTHDR(&message);
	CHECK(header && header->cmsg_type == SCM_RIGHTS, "no descriptor came");
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return fd;
}
