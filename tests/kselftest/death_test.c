// SPDX-License-Identifier: MIT
/* Clients killed at any moment of their life leak nothing, and whoever comes next reads zeroes. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define CLIENTS	4
#define KILLS	60
#define LONGEST_LIFE_MS	25

static void dirty(char *start, uint64_t bytes, unsigned int *seed)
{
	uint64_t at;

	for (at = 0; at < bytes; at += PAGE_4K * (1 + rand_r(seed) % 64))
		start[at] = 0x5a;
}

/* Creates, maps, writes and unmaps for ever; what it gets it finds zeroed. Running out of pages is no failure. */
static void client(int where, unsigned int seed)
{
	char name[32];

	for (;;) {
		struct hugepin_create args = create_args((1 + rand_r(&seed) % 3) * PAGE_2M, CLASS_2M);
		bool named = rand_r(&seed) % 3 == 0;
		uint64_t word;
		char *start;
		int fd;

		snprintf(name, sizeof(name), "%d-%u", getpid(), rand_r(&seed) % 1000);
		args.name = named ? (uintptr_t)name : 0;
		fd = region_create(where, &args);
		if (fd < 0) {
			CHECK(fd == -ENOMEM || fd == -EEXIST, "CREATE: %s", strerror(-fd));
			continue;
		}
		start = region_map(fd, 0, args.bytes, PROT_READ | PROT_WRITE);
		word = nonzero_at(start, args.bytes);
		CHECK(word == (uint64_t)-1, "another's byte at %" PRIu64, word);
		dirty(start, args.bytes, &seed);
		if (rand_r(&seed) % 2)
			close(fd);
		CHECK_OK(munmap(start, args.bytes));
		if (named)
			CHECK_OK(unlinkat(where, name, 0));
		close(fd);
	}
}

static pid_t start_client(int where, unsigned int seed)
{
	pid_t child = ktap_fork();

	if (!child)
		client(where, seed);
	return child;
}

static void check_all_free_pages_are_zero(void)
{
	uint64_t bytes = reserve_free_class(HUGEPIN_CLASS_2M) * PAGE_2M, at;
	int fd = region_make(bytes, CLASS_2M);
	char *start = region_map(fd, 0, bytes, PROT_READ);

	for (at = 0; at < bytes; at += 16 * PAGE_2M)	/* in parts that are read whole */
		CHECK_ZERO(start + at, bytes - at < 16 * PAGE_2M ? bytes - at : 16 * PAGE_2M);
}

static void killed_clients_leak_nothing_and_show_nothing(const void *arg)
{
	unsigned int seed = *(const unsigned int *)arg, kills, i;
	/* names that killed clients leave go with this mount, at the end of this case */
	int where = fs_mount(NULL, NULL);
	pid_t children[CLIENTS];

	for (i = 0; i < CLIENTS; i++)
		children[i] = start_client(where, seed + i);
	for (kills = 0; kills < KILLS; kills++) {
		i = rand_r(&seed) % CLIENTS;
		poll(NULL, 0, rand_r(&seed) % LONGEST_LIFE_MS);
		kill(children[i], SIGKILL);
		ktap_join_killed(children[i], SIGKILL);
		children[i] = start_client(where, seed + kills);
	}
	for (i = 0; i < CLIENTS; i++) {
		kill(children[i], SIGKILL);
		ktap_join_killed(children[i], SIGKILL);
	}
	check_all_free_pages_are_zero();
}

/* A request for much, so that it is killed while it zeroes. */
static void a_client_killed_in_create_leaves_nothing(const void *arg)
{
	unsigned int node = reserve_node_with(HUGEPIN_CLASS_2M, 8), round;
	uint64_t bytes = reserve_free_pages(node, HUGEPIN_CLASS_2M) * PAGE_2M;

	(void)arg;
	for (round = 0; round < 6; round++) {
		pid_t child = ktap_fork();
		int status;

		if (!child) {
			int fd = region_make_on(node, bytes, CLASS_2M);
			char *start = region_map(fd, 0, bytes, PROT_READ | PROT_WRITE);

			memset(start, 0x5a, bytes);	/* dirty for the next one */
			ktap_exit();
		}
		poll(NULL, 0, 5 + 20 * round);
		kill(child, round % 2 ? SIGKILL : SIGTERM);
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK(!WIFEXITED(status) || !WEXITSTATUS(status), "the client failed");
		CHECK_EQ(reserve_of(node, HUGEPIN_CLASS_2M).quarantined, 0);
	}
	check_all_free_pages_are_zero();
}

static void all_clients_killed_at_once_leak_nothing(const void *arg)
{
	int where = fs_mount(NULL, NULL), round;
	unsigned int i;

	for (round = 0; round < 3; round++) {
		pid_t children[CLIENTS];

		for (i = 0; i < CLIENTS; i++)
			children[i] = start_client(where, *(const unsigned int *)arg + i + round);
		poll(NULL, 0, 50);
		for (i = 0; i < CLIENTS; i++)
			kill(children[i], SIGKILL);
		for (i = 0; i < CLIENTS; i++)
			ktap_join_killed(children[i], SIGKILL);
	}
	check_all_free_pages_are_zero();
}

static unsigned int seed_used = 20240229;

#define CASE(f)	{ .name = #f, .run = f, .arg = &seed_used, .timeout_s = 60 }

static const struct ktap_case cases[] = {
	CASE(killed_clients_leak_nothing_and_show_nothing),
	CASE(a_client_killed_in_create_leaves_nothing),
	CASE(all_clients_killed_at_once_leak_nothing),
};

int main(int argc, char **argv)
{
	const char *seed = getenv("HUGEPIN_SEED");

	if (seed)
		seed_used = strtoul(seed, NULL, 10);
	ktap_note("HUGEPIN_SEED=%u", seed_used);
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
