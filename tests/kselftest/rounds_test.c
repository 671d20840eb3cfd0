// SPDX-License-Identifier: MIT
/*
 * A thousand short lives, each with all that a client does to a region (make it, map, touch, fork, pass the descriptor
 * on, move, advise, unmap), each killed in one of these acts, chosen by chance; afterwards the reserve is whole.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define ROUNDS		1000
#define WORKERS		2		/* each with one client at a time */
#define DELAY_US	400		/* killed at most that long after the act has begun; most are shorter */
#define TIMEOUT_S	240

struct client {
	int directory;			/* to make regions in */
	int shared;			/* a region to use instead of making one, or -1 */
	uint64_t page;			/* the region has one of this size, then one of 2M */
	bool named;
	char name[32];
	unsigned int seed;
	struct channel channel;		/* to the worker */
	int region;
	char *start;
	pid_t child;
};

static unsigned int seed_used;

static uint64_t bytes_of(const struct client *c)
{
	return c->page + PAGE_2M;
}

/* ---- what a client does ---- */

static void act_make(struct client *c)
{
	struct hugepin_create args = create_args(bytes_of(c), CLASS_2M);

	args.name = c->named ? (uintptr_t)c->name : 0;
	c->region = c->shared >= 0 ? dup(c->shared) : region_create(c->directory, &args);
	CHECK(c->region >= 0, "CREATE: %s", strerror(-c->region));
}

static void act_map(struct client *c)
{
	c->start = region_map(c->region, 0, bytes_of(c), PROT_READ | PROT_WRITE);
	if (c->shared < 0)
		CHECK_ZERO(c->start, 16 * PAGE_4K);
}

static void act_touch(struct client *c)
{
	uint64_t at;

	for (at = 0; at < bytes_of(c); at += PAGE_4K * (1 + rand_r(&c->seed) % 256))
		c->start[at] = 0x5a;
}

/* The child does the same to the same pages, and dies with its parent. */
static void act_fork(struct client *c)
{
	c->child = fork();
	CHECK(c->child >= 0, "fork: %s", strerror(errno));
	if (c->child)
		return;
	for (;;) {
		act_touch(c);
		madvise(c->start, bytes_of(c), MADV_DONTNEED);
	}
}

static void act_pass(struct client *c)
{
	descriptor_send(&c->channel, 1, c->region);
}

/* The last page; with 1G pages that is refused, and it stays where it is. */
static void act_move(struct client *c)
{
	char *from = c->start + c->page, *hole = address_hole(PAGE_2M, PAGE_2M);
	char *to = mremap(from, PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, hole);

	if (to == MAP_FAILED)
		return;
	to[0] = 1;
	CHECK(mremap(to, PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, from) == from, "back: %s", strerror(errno));
}

static void act_advise(struct client *c)
{
	static const int advice[] = {
		MADV_DONTNEED, MADV_COLD, MADV_PAGEOUT, MADV_NOHUGEPAGE, MADV_HUGEPAGE, MADV_FREE, MADV_REMOVE,
		MADV_MERGEABLE, MADV_POPULATE_WRITE,
	};

	/* whatever it answers: the mapping contract's tests know */
	madvise(c->start, bytes_of(c), advice[rand_r(&c->seed) % ARRAY_SIZE(advice)]);
}

static void act_unmap(struct client *c)
{
	CHECK_OK(munmap(c->start + c->page, PAGE_2M));
	close(c->region);
}

static const struct act {
	const char *name;
	void (*perform)(struct client *c);
} acts[] = {
	{ "make", act_make }, { "map", act_map }, { "touch", act_touch }, { "fork", act_fork }, { "pass", act_pass },
	{ "move", act_move }, { "advise", act_advise }, { "unmap", act_unmap },
};

/* Says when act @last begins, and waits to be killed after the final one. */
static void __attribute__((noreturn)) live(struct client *c, unsigned int last)
{
	unsigned int i;

	setpgid(0, 0);
	for (i = 0; i < ARRAY_SIZE(acts); i++) {
		if (i == last)
			channel_signal(&c->channel, 1);
		acts[i].perform(c);
	}
	for (;;)
		pause();
}

/* ---- a worker: one client after the other ---- */

static void delay_us(unsigned int us)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

/* All of the client's processes; its child comes to us, since we are the reaper. */
static void end_client(pid_t client)
{
	int status;
	pid_t one;

	CHECK_OK(kill(-client, SIGKILL));
	while ((one = wait(&status)) > 0)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%d ended with status %#x", one, status);
}

/* The bytes that begin a wait and those that carry descriptors come the same way; -1: none (any more). */
static int take_descriptor(const struct client *c)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;
	int fd;

	while (recvmsg(c->channel.ends[0], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1) {
		header = CMSG_FIRSTHDR(&message);
		if (header) {
			memcpy(&fd, CMSG_DATA(header), sizeof(fd));
			return fd;
		}
		message.msg_controllen = sizeof(control);
	}
	return -1;
}

/* What the dead client has passed on is used once more. */
static void use_what_was_passed(const struct client *c)
{
	int fd = take_descriptor(c);
	char *start;

	if (fd < 0)
		return;
	start = region_map(fd, 0, bytes_of(c), PROT_READ | PROT_WRITE);
	close(fd);
	start[bytes_of(c) - 1] = 2;
	CHECK_OK(munmap(start, bytes_of(c)));
}

static void one_life(struct client *c, unsigned int last)
{
	pid_t parent = getpid(), client;

	c->channel = channel_open();
	client = fork();
	CHECK(client >= 0, "fork: %s", strerror(errno));
	if (!client) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(KTAP_FAIL);
		live(c, last);
	}
	channel_wait(&c->channel, 0);
	delay_us(rand_r(&c->seed) % DELAY_US);
	end_client(client);
	if (rand_r(&c->seed) % 2)
		use_what_was_passed(c);		/* else it goes with the socket, unseen */
	close(c->channel.ends[0]);
	close(c->channel.ends[1]);
	if (c->named && unlinkat(c->directory, c->name, 0))
		CHECK_EQ(errno, ENOENT);
}

static void work(unsigned int worker, int directory, int shared, unsigned int rounds)
{
	struct client client = {
		.directory = directory, .shared = shared, .page = shared < 0 ? PAGE_2M : PAGE_1G,
		.seed = seed_used + worker,
	};
	unsigned int round;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (round = 0; round < rounds; round++) {
		client.named = shared < 0 && rand_r(&client.seed) % 3 == 0;
		snprintf(client.name, sizeof(client.name), "worker%u", worker);
		one_life(&client, rand_r(&client.seed) % ARRAY_SIZE(acts));
	}
	ktap_exit();
}

static void live_and_be_killed(int shared, unsigned int rounds)
{
	int directory = fs_mount(NULL, NULL);
	pid_t workers[WORKERS];
	unsigned int i;

	for (i = 0; i < WORKERS; i++) {
		workers[i] = ktap_fork();
		if (!workers[i])
			work(i, directory, shared, rounds / WORKERS);
	}
	for (i = 0; i < WORKERS; i++)
		ktap_join(workers[i]);
	ktap_note("%u clients killed", rounds);
}

/* ---- the cases; that the reserve is whole soon afterwards is looked at by the hooks ---- */

/* C030: whatever kills a process, all of its pages can be had again. */
static void killed_in_any_act_nothing_is_leaked(const void *arg)
{
	live_and_be_killed(-1, *(const unsigned int *)arg);
}

/* A page of 1 GiB takes seconds to zero here: all clients share one. */
static void killed_with_a_shared_1g_page_nothing_is_leaked(const void *arg)
{
	char *start;
	int fd;

	if (class_absent(HUGEPIN_CLASS_1G))
		ktap_skip("this kernel has no 1G class");
	if (!reserve_free_class(HUGEPIN_CLASS_1G))
		ktap_skip("the reserve has no 1G page");
	fd = region_make(PAGE_1G + PAGE_2M, CLASS_1G | CLASS_2M);
	start = region_map(fd, 0, PAGE_1G, PROT_READ | PROT_WRITE);
	memset(start, 1, PAGE_4K);
	live_and_be_killed(fd, *(const unsigned int *)arg / 10);
	CHECK_EQ(start[1], 1);		/* they write to each base page's first byte only */
}

#define CASE(f)	{ .name = #f, .run = f, .arg = &rounds, .timeout_s = TIMEOUT_S }

int main(int argc, char **argv)
{
	const char *seed = getenv("HUGEPIN_SEED"), *text = getenv("HUGEPIN_ROUNDS");
	static unsigned int rounds = ROUNDS;
	const struct ktap_case cases[] = {
		CASE(killed_in_any_act_nothing_is_leaked),
		CASE(killed_with_a_shared_1g_page_nothing_is_leaked),
	};

	seed_used = seed ? strtoul(seed, NULL, 10) : (unsigned long)time(NULL);
	if (text)
		rounds = strtoul(text, NULL, 10);
	ktap_note("HUGEPIN_SEED=%u HUGEPIN_ROUNDS=%u", seed_used, rounds);
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
