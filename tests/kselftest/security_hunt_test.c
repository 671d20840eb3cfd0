// SPDX-License-Identifier: MIT
/*
 * The hunter: a user who asks for memory again and again and reads one word of every 64 bytes of it, while other users
 * fill theirs with a pattern and die. Memory is zero when it is handed out, so whatever else he reads is somebody's.
 *
 * HUNT_SECONDS=N in the environment makes the hunt longer; HUNT_SEED=N repeats one.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define PREY		3
#define PREY_UID	2000
#define HUNTER_UID	3000
#define LINE		64
#define LONGEST_LIFE_MS	40
#define PLANTED		0x7072657900000000ULL	/* above the uid of who planted it */

static unsigned int hunt_seconds = 8, seed_used = 20240711;

struct hunt {
	int device;		/* opened by root: whoever has it may ask */
	int where;		/* a directory for names */
};

/* What the hunter has seen; shared with the parent. */
struct bag {
	uint64_t regions, bytes, words, foreign;
	uint64_t first_word, first_offset;
};

static void become(unsigned int uid)
{
	CHECK_OK(setgid(uid));
	CHECK_OK(setuid(uid));
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

/* ---- the prey ---- */

static void plant(char *start, uint64_t bytes, uint64_t word)
{
	uint64_t at;

	for (at = 0; at < bytes; at += sizeof(word))
		*(uint64_t *)(start + at) = word;
}

/* A page that a pipe holds when its region ends goes to quarantine, until the pipe goes with its owner. */
static void leave_in_pipe(const char *start)
{
	struct iovec part = { (void *)start, PAGE_4K };
	int ends[2];

	CHECK_OK(pipe(ends));
	CHECK_EQ(vmsplice(ends[1], &part, 1, 0), (ssize_t)PAGE_4K);
}

/* Fills what it gets, for ever: it is killed. Running out of pages is no failure. */
static void be_prey(const struct hunt *hunt, unsigned int uid, unsigned int seed)
{
	char name[32];

	become(uid);
	for (;;) {
		uint64_t bytes = (1 + rand_r(&seed) % 4) * PAGE_2M;
		struct hugepin_create args = create_args(bytes, CLASS_2M);
		bool named = rand_r(&seed) % 4 == 0;
		char *start;
		int fd;

		if (rand_r(&seed) % 16 == 0)
			args.classes = CLASS_1G;
		snprintf(name, sizeof(name), "%d-%u", getpid(), rand_r(&seed));
		args.name = named ? (uintptr_t)name : 0;
		fd = region_create(named ? hunt->where : hunt->device, &args);
		if (fd < 0) {
			CHECK(fd == -ENOMEM || fd == -EOPNOTSUPP, "CREATE: %s", strerror(-fd));
			continue;
		}
		start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);
		if (rand_r(&seed) % 4 == 0)
			CHECK_OK(madvise(start, bytes, MADV_NOHUGEPAGE));
		plant(start, bytes, PLANTED | uid);
		if (rand_r(&seed) % 4 == 0)
			leave_in_pipe(start);
		if (named)
			CHECK_OK(unlinkat(hunt->where, name, 0));
		if (rand_r(&seed) % 2)
			CHECK_OK(munmap(start, bytes));
		if (rand_r(&seed) % 2)
			close(fd);
	}
}

static pid_t start_prey(const struct hunt *hunt, unsigned int number, unsigned int seed)
{
	pid_t child = ktap_fork();

	if (!child)
		be_prey(hunt, PREY_UID + number, seed);
	return child;
}

/* ---- the hunter ---- */

/* One word of every line, another one each time. */
static void look_through(const char *start, uint64_t bytes, unsigned int word, struct bag *bag)
{
	uint64_t at = word % (LINE / sizeof(uint64_t)) * sizeof(uint64_t);

	for (; at < bytes; at += LINE) {
		uint64_t found = *(const volatile uint64_t *)(start + at);

		bag->words++;
		if (!found)
			continue;
		if (!bag->foreign) {
			bag->first_word = found;
			bag->first_offset = at;
		}
		bag->foreign += sizeof(found);
	}
	bag->bytes += bytes;
	bag->regions++;
}

static void hunt_until_killed(const struct hunt *hunt, unsigned int seed, struct bag *bag)
{
	unsigned int round;

	become(HUNTER_UID);
	for (round = 0; ; round++) {
		struct hugepin_create args = create_args((1 + rand_r(&seed) % 8) * PAGE_2M, CLASS_2M);
		char *start;
		int fd;

		if (round % 32 == 31)
			args.classes = CLASS_1G;
		fd = region_create(hunt->device, &args);
		if (fd < 0)
			continue;
		start = region_map(fd, 0, args.bytes, PROT_READ);
		look_through(start, args.bytes, round, bag);
		CHECK_OK(munmap(start, args.bytes));
		close(fd);
	}
}

/* ---- the hunt ---- */

static void no_byte_of_another_user_is_ever_seen(const void *arg)
{
	struct hunt hunt = { .device = device_open(), .where = fs_mount(NULL, NULL) };
	struct bag *bag = mmap(NULL, PAGE_4K, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int seed = seed_used, kills = 0, i;
	uint64_t end = now_ms() + hunt_seconds * 1000ULL;
	pid_t prey[PREY], hunter;

	(void)arg;
	CHECK(bag != MAP_FAILED, "%s", strerror(errno));
	for (i = 0; i < PREY; i++)
		prey[i] = start_prey(&hunt, i, seed + i);
	hunter = ktap_fork();
	if (!hunter)
		hunt_until_killed(&hunt, seed, bag);
	while (now_ms() < end) {
		i = rand_r(&seed) % PREY;
		poll(NULL, 0, rand_r(&seed) % LONGEST_LIFE_MS);
		kill(prey[i], SIGKILL);
		ktap_join_killed(prey[i], SIGKILL);
		prey[i] = start_prey(&hunt, i, seed + ++kills);
	}
	kill(hunter, SIGKILL);
	ktap_join_killed(hunter, SIGKILL);
	for (i = 0; i < PREY; i++) {
		kill(prey[i], SIGKILL);
		ktap_join_killed(prey[i], SIGKILL);
	}
	ktap_note("%" PRIu64 " bytes in %" PRIu64 " regions, %" PRIu64 " words looked at, %u kills", bag->bytes,
		  bag->regions, bag->words, kills);
	ktap_note("%" PRIu64 " foreign bytes", bag->foreign);
	CHECK(!bag->foreign, "the first: %#" PRIx64 " at %#" PRIx64, bag->first_word, bag->first_offset);
	CHECK(bag->regions > 10 && kills > 10, "there was no hunt");
}

/* The hunter would find what is there: he is shown a page that its owner has not left. */
static void the_hunter_finds_what_is_planted(const void *arg)
{
	int fd = region_make(PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	struct bag bag = { 0 };
	unsigned int word;

	(void)arg;
	for (word = 0; word < LINE / sizeof(uint64_t); word++) {
		uint64_t *planted = (uint64_t *)(start + PAGE_2M - LINE) + word;

		*planted = PLANTED;
		bag = (struct bag){ 0 };
		look_through(start, PAGE_2M, word, &bag);
		CHECK_EQ(bag.foreign, sizeof(uint64_t));
		*planted = 0;
	}
	CHECK_EQ(bag.first_word, PLANTED);
}

static struct ktap_case cases[] = {
	{ .name = "the_hunter_finds_what_is_planted", .run = the_hunter_finds_what_is_planted },
	{ .name = "no_byte_of_another_user_is_ever_seen", .run = no_byte_of_another_user_is_ever_seen },
};

int main(int argc, char **argv)
{
	const char *seconds = getenv("HUNT_SECONDS"), *seed = getenv("HUNT_SEED");

	if (seconds)
		hunt_seconds = strtoul(seconds, NULL, 10);
	if (seed)
		seed_used = strtoul(seed, NULL, 10);
	ktap_note("HUNT_SECONDS=%u HUNT_SEED=%u", hunt_seconds, seed_used);
	cases[1].timeout_s = 2 * hunt_seconds + 30;
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
