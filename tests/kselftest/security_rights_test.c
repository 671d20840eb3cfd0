// SPDX-License-Identifier: MIT
/*
 * What others may do: with a descriptor that was passed to them, as root of a user namespace of their own, and against
 * a limit that several ask past at once, from several namespaces, or by way of quarantine.
 */
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pinned.h"
#include "region.h"
#include "reserve.h"

#define MAKER	1000
#define OTHER	1001
#define SUB	100000		/* the first of MAKER's subordinate uids */
#define RANKS	4

/* ---- descriptors that were passed on ---- */

struct passed {
	int where, device;
	int fd;			/* of the region "shared", open for reading */
	char *start;		/* a mapping of it for reading */
	bool reads;		/* its mode lets others read it */
};

static void reader_gets_no_more(const void *arg)
{
	const struct passed *passed = arg;
	char path[64], byte = 1;
	int memory;

	CHECK(mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, passed->fd, 0) == MAP_FAILED && errno == EACCES,
	      "mapped for writing: %s", strerror(errno));
	CHECK_ERRNO(mprotect(passed->start, PAGE_2M, PROT_READ | PROT_WRITE), EACCES);
	CHECK_EQ(export_try(passed->fd, 0, 0), -EBADF);
	CHECK_EQ(pin_range(passed->device, passed->start, PAGE_2M), -EFAULT);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", passed->fd);
	CHECK_ERRNO(open(path, O_RDWR), EACCES);
	if (!passed->reads)
		CHECK_ERRNO(open(path, O_RDONLY), EACCES);
	CHECK_OK(prctl(PR_SET_DUMPABLE, 1));
	memory = CHECK_OK(open("/proc/self/mem", O_RDWR));
	CHECK(pwrite(memory, &byte, 1, (uintptr_t)passed->start) == -1, "written by /proc/self/mem");
	CHECK_ERRNO(fchmod(passed->fd, 0666), EPERM);
	CHECK_ERRNO(fchown(passed->fd, OTHER, OTHER), EPERM);
	CHECK(ftruncate(passed->fd, 0) == -1, "cut");
	CHECK(unlinkat(passed->where, "shared", 0) == -1 && (errno == EPERM || errno == EACCES), "unlinked: %s",
	      strerror(errno));
	CHECK_EQ(*(volatile char *)passed->start, 'a');
}

static void a_descriptor_for_reading_gives_no_more(const void *arg)
{
	struct passed passed = { .where = fs_mount("mode=1777", NULL), .device = device_open() };
	int fd = CHECK_OK(region_create_named(passed.where, "shared", PAGE_2M, 0600));

	(void)arg;
	*region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE) = 'a';
	passed.fd = CHECK_OK(openat(passed.where, "shared", O_RDONLY));
	passed.start = region_map(passed.fd, 0, PAGE_2M, PROT_READ);
	as_user(OTHER, reader_gets_no_more, &passed);
	CHECK_OK(fchmod(fd, 0644));
	passed.reads = true;
	as_user(OTHER, reader_gets_no_more, &passed);
}

struct sharing {
	int device;
	unsigned int node;
	uint64_t limit;
	struct channel channel;
};

static int create_here(const struct sharing *sharing, uint64_t pages, struct hugepin_shortfall *short_of)
{
	uint64_t mask[HUGEPIN_NODES_MAX / 64] = { 0 };
	struct hugepin_create args = create_args(pages * PAGE_2M, CLASS_2M);

	mask[sharing->node / 64] = 1ULL << sharing->node % 64;
	args.nodemask = (uintptr_t)mask;
	args.nodemask_bits = sharing->node + 1;
	args.shortfall = (uintptr_t)short_of;
	return region_create(sharing->device, &args);
}

/* A share of @percent of a node's pages for each user, from now to the end of the case. */
static struct sharing share_out(unsigned int percent)
{
	struct sharing sharing = { .device = device_open(), .channel = channel_open() };

	sharing.node = reserve_node_with(HUGEPIN_CLASS_2M, 16);
	sharing.limit = reserve_of(sharing.node, HUGEPIN_CLASS_2M).total * percent / 100;
	CHECK_EQ(knob_write(sharing.node, HUGEPIN_CLASS_2M, "user_limit_percent", percent), 0);
	return sharing;
}

static void make_and_pass(const void *arg)
{
	const struct sharing *sharing = arg;

	descriptor_send(&sharing->channel, 1, CHECK_OK(create_here(sharing, sharing->limit, NULL)));
}

static void share_is_used_up(const void *arg)
{
	const struct sharing *sharing = arg;
	struct hugepin_shortfall short_of = { 0 };

	CHECK_EQ(create_here(sharing, 1, &short_of), -EDQUOT);
	CHECK_EQ(short_of.reason, HUGEPIN_SHORT_USER);
	CHECK_EQ(short_of.held, sharing->limit);
}

static void share_is_whole(const void *arg)
{
	const struct sharing *sharing = arg;

	close(CHECK_OK(create_here(sharing, sharing->limit, NULL)));
}

/* Nor does whoever receives one pay for it, or take the charge over. */
static void a_passed_region_stays_its_maker_s_charge(const void *arg)
{
	struct sharing sharing = share_out(25);
	int fd;

	(void)arg;
	as_user(MAKER, make_and_pass, &sharing);
	fd = descriptor_receive(&sharing.channel, 0);
	as_user(MAKER, share_is_used_up, &sharing);	/* its maker is dead */
	as_user(OTHER, share_is_whole, &sharing);
	close(fd);
	as_user(MAKER, share_is_whole, &sharing);
}

/* ---- root of a user namespace ---- */

/* The calling user's child becomes uid @uid (in the namespace: 0 or 1) of a user namespace that MAKER owns. */
static void enter_own_namespace(const struct channel *channel, unsigned int uid)
{
	CHECK_OK(setgroups(0, NULL));
	CHECK_OK(setgid(MAKER));
	CHECK_OK(setuid(MAKER));
	CHECK_OK(prctl(PR_SET_DUMPABLE, 1));
	CHECK_OK(unshare(CLONE_NEWUSER | CLONE_NEWNS));
	channel_signal(channel, 1);
	channel_wait(channel, 1);	/* the map is written */
	CHECK_OK(setresuid(uid, uid, uid));
}

/* The other side of it. */
static void map_uids(const struct channel *channel, pid_t child)
{
	char path[64], map[64];

	channel_wait(channel, 0);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
	snprintf(map, sizeof(map), "0 %u 1\n1 %u 64\n", MAKER, SUB);
	CHECK_EQ(file_write(path, map), 0);
	channel_signal(channel, 0);
}

static void check_root_of_nothing(unsigned int node)
{
	static const char *const knobs[] = { "nr_hugepages", "user_limit_percent" };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++)
		CHECK_EQ(knob_write(node, HUGEPIN_CLASS_2M, knobs[i], 1), -EACCES);
	CHECK_EQ(file_write("/sys/class/misc/hugepin/scrub/enabled", "0"), -EACCES);
	CHECK_EQ(file_write("/sys/class/misc/hugepin/scrub/workers", "16"), -EACCES);
	CHECK_ERRNO(open(HUGEPIN_DEVICE, O_RDWR), EACCES);
	CHECK_ERRNO(mount("none", "/mnt", HUGEPIN_FS_NAME, 0, NULL), EPERM);
	CHECK_ERRNO(syscall(SYS_delete_module, "hugepin", O_NONBLOCK), EPERM);
}

static void root_of_a_user_namespace_is_nobody_here(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 1);
	struct channel channel = channel_open();
	struct reserve before;
	pid_t child;

	(void)arg;
	reserve_read(&before);
	child = ktap_fork();
	if (!child) {
		enter_own_namespace(&channel, 0);
		check_root_of_nothing(node);
		ktap_exit();
	}
	map_uids(&channel, child);
	ktap_join(child);
	reserve_check_same(&before, "root of a user namespace");
}

/* ---- limits ---- */

/* Takes page after page until it is refused, and keeps them until it is let go. */
static void take_all_there_is(const struct sharing *sharing)
{
	struct hugepin_shortfall short_of = { 0 };
	int fd;

	channel_wait(&sharing->channel, 1);
	while ((fd = create_here(sharing, 1, &short_of)) >= 0)
		;
	CHECK_EQ(fd, -EDQUOT);
	CHECK_EQ(short_of.reason, HUGEPIN_SHORT_USER);
	CHECK_EQ(short_of.limit, sharing->limit);
	channel_signal(&sharing->channel, 1);
	channel_wait(&sharing->channel, 1);
	ktap_exit();
}

/* Each rank is in a user namespace of its own, as another uid of it, and asks when all the others ask. */
static void namespaces_at_once_share_their_owner_s_share(const void *arg)
{
	struct sharing sharing = share_out(50);
	struct hugepin_info_pages before = reserve_of(sharing.node, HUGEPIN_CLASS_2M);
	struct channel channels[RANKS];
	pid_t ranks[RANKS];
	unsigned int i;

	(void)arg;
	for (i = 0; i < RANKS; i++) {
		sharing.channel = channels[i] = channel_open();
		ranks[i] = ktap_fork();
		if (!ranks[i]) {
			enter_own_namespace(&sharing.channel, i);
			take_all_there_is(&sharing);
		}
		map_uids(&channels[i], ranks[i]);
	}
	for (i = 0; i < RANKS; i++)
		channel_signal(&channels[i], 0);
	for (i = 0; i < RANKS; i++)
		channel_wait(&channels[i], 0);
	CHECK_EQ(reserve_of(sharing.node, HUGEPIN_CLASS_2M).in_use - before.in_use, sharing.limit);
	as_user(MAKER, share_is_used_up, &sharing);
	as_user(OTHER, share_is_whole, &sharing);
	for (i = 0; i < RANKS; i++) {
		channel_signal(&channels[i], 0);
		ktap_join(ranks[i]);
	}
}

static void take_names(int where, unsigned int rank, const struct channel *channel)
{
	unsigned int taken = 0;
	char name[32];
	int fd;

	channel_wait(channel, 1);
	do {
		snprintf(name, sizeof(name), "%u-%u", rank, taken++);
		fd = region_create_named(where, name, PAGE_2M, 0600);
	} while (fd >= 0);
	CHECK_EQ(fd, -EDQUOT);
	channel_signal(channel, 1);
	channel_wait(channel, 1);
	ktap_exit();
}

static void ranks_at_once_share_a_mount_s_limit(const void *arg)
{
	int where = fs_mount("limit_2m=7", NULL);
	struct channel channels[RANKS];
	struct reserve before, after;
	pid_t ranks[RANKS];
	unsigned int i;

	(void)arg;
	reserve_read(&before);
	for (i = 0; i < RANKS; i++) {
		channels[i] = channel_open();
		ranks[i] = ktap_fork();
		if (!ranks[i])
			take_names(where, i, &channels[i]);
	}
	for (i = 0; i < RANKS; i++)
		channel_signal(&channels[i], 0);
	for (i = 0; i < RANKS; i++)
		channel_wait(&channels[i], 0);
	reserve_read(&after);
	CHECK_EQ(after.info.regions - before.info.regions, 7);
	for (i = 0; i < RANKS; i++) {
		channel_signal(&channels[i], 0);
		ktap_join(ranks[i]);
	}
}

/* The user's regions end at once, each with a page in a pipe: what is in quarantine is the user's still. */
static void user_hides_pages_in_quarantine(const void *arg)
{
	const struct sharing *sharing = arg;
	struct hugepin_shortfall short_of = { 0 };
	int pipes[64][2], fd, waited_ms;
	uint64_t taken;
	struct iovec part = { .iov_len = PAGE_4K };

	CHECK(sharing->limit < ARRAY_SIZE(pipes), "more pages than pipes");
	for (taken = 0; (fd = create_here(sharing, 1, &short_of)) >= 0; taken++) {
		CHECK(taken < sharing->limit, "%" PRIu64 " pages taken, the share is %" PRIu64, taken + 1,
		      sharing->limit);
		part.iov_base = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
		*(volatile char *)part.iov_base = 1;
		CHECK_OK(pipe(pipes[taken]));
		CHECK_EQ(vmsplice(pipes[taken][1], &part, 1, 0), (ssize_t)PAGE_4K);
		CHECK_OK(munmap(part.iov_base, PAGE_2M));
		close(fd);
	}
	CHECK_EQ(fd, -EDQUOT);
	CHECK_EQ(taken, sharing->limit);
	CHECK_EQ(short_of.held, sharing->limit);
	CHECK_EQ(knob_read(sharing->node, HUGEPIN_CLASS_2M, "quarantined_hugepages"), sharing->limit);
	close(pipes[0][0]);		/* one comes back, and one may be had */
	close(pipes[0][1]);
	for (waited_ms = 0; (fd = create_here(sharing, 1, &short_of)) < 0 && waited_ms < SETTLE_MS; waited_ms += 10)
		poll(NULL, 0, 10);
	close(CHECK_OK(fd));
	CHECK_EQ(create_here(sharing, 2, &short_of), -EDQUOT);
}

static void quarantine_is_no_way_around_the_share(const void *arg)
{
	struct sharing sharing = share_out(25);

	(void)arg;
	as_user(MAKER, user_hides_pages_in_quarantine, &sharing);
	CHECK(reserve_wait_quarantined(sharing.node, HUGEPIN_CLASS_2M, 0), "pages did not come back");
	as_user(MAKER, share_is_whole, &sharing);
}

#define CASE(f)	{ .name = #f, .run = f, .timeout_s = 120 }

static const struct ktap_case cases[] = {
	CASE(a_descriptor_for_reading_gives_no_more),
	CASE(a_passed_region_stays_its_maker_s_charge),
	CASE(root_of_a_user_namespace_is_nobody_here),
	CASE(namespaces_at_once_share_their_owner_s_share),
	CASE(ranks_at_once_share_a_mount_s_limit),
	CASE(quarantine_is_no_way_around_the_share),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
