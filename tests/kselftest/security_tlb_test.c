// SPDX-License-Identifier: MIT
/*
 * Stale translations: a thread on one CPU writes through an address without a pause, while another takes the mapping
 * away and the page goes to a new owner. No write may arrive there, however the page was let go.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "region.h"
#include "reserve.h"

#define ROUNDS	16
#define LEFT	3		/* pages that go round */
#define INK	0x5eed5eed5eed5eedULL

/* ---- the writer ---- */

struct writer {
	pthread_t thread;
	_Atomic(char *) at;		/* NULL: rests */
	atomic_uint written;		/* goes up while it writes */
	atomic_bool faulted;
};

static __thread sigjmp_buf fault_return;

static void on_fault(int signal)
{
	siglongjmp(fault_return, signal);
}

static void stay_on(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK_OK(sched_setaffinity(0, sizeof(set), &set));
}

/* A word in each 4 KiB, over and over: an old entry of 2 MiB and old ones of 4 KiB would be met alike. */
static void write_until_it_faults(struct writer *writer, char *start)
{
	uint64_t at = 0;

	if (sigsetjmp(fault_return, 1)) {
		atomic_store(&writer->at, NULL);
		atomic_store(&writer->faulted, true);
		return;
	}
	for (;;) {
		*(volatile uint64_t *)(start + at) = INK;
		at = (at + PAGE_4K) % PAGE_2M;
		atomic_fetch_add_explicit(&writer->written, 1, memory_order_relaxed);
	}
}

static void *write_always(void *arg)
{
	struct writer *writer = arg;
	char *start;

	stay_on(1);
	for (;;) {
		start = atomic_load(&writer->at);
		if (start)
			write_until_it_faults(writer, start);
		else
			sched_yield();
	}
	return NULL;
}

static void start_writing(struct writer *writer, char *start)
{
	unsigned int before = atomic_load(&writer->written);

	atomic_store(&writer->faulted, false);
	atomic_store(&writer->at, start);
	while (atomic_load(&writer->written) - before < 1000)	/* its CPU has the translation by now */
		sched_yield();
}

/* ---- the new owner: another process, which has all free pages of the node ---- */

static bool has_ink(const char *start, uint64_t bytes)
{
	uint64_t at;

	for (at = 0; at < bytes; at += PAGE_4K)
		if (*(const volatile uint64_t *)(start + at))
			return true;
	return false;
}

/* Takes all pages when told so, looks for as long as the writer could go on, and gives them back. */
static void own_next(unsigned int node, uint64_t pages, const struct channel *channel)
{
	stay_on(0);
	for (;;) {
		char *start;
		int fd;

		channel_wait(channel, 1);
		fd = region_make_on(node, pages * PAGE_2M, CLASS_2M);
		start = region_map(fd, 0, pages * PAGE_2M, PROT_READ | PROT_WRITE);
		CHECK(!has_ink(start, pages * PAGE_2M), "the old owner writes here");
		channel_signal(channel, 1);
		channel_wait(channel, 1);		/* the writer has faulted */
		CHECK(!has_ink(start, pages * PAGE_2M), "the old owner has written here");
		CHECK_OK(munmap(start, pages * PAGE_2M));
		close(fd);
		channel_signal(channel, 1);
	}
}

/* ---- ways to let a page go ---- */

struct way {
	const char *name;
	/* The page of @fd, mapped at @start, has no user afterwards. */
	void (*let_go)(int where, int fd, char *start);
	bool named;
};

static void by_munmap(int where, int fd, char *start)
{
	(void)where;
	close(fd);
	CHECK_OK(munmap(start, PAGE_2M));
}

static void by_unlink(int where, int fd, char *start)
{
	close(fd);
	CHECK_OK(unlinkat(where, "page", 0));
	CHECK_OK(munmap(start, PAGE_2M));
}

static void by_mremap(int where, int fd, char *start)
{
	char *there = address_hole(PAGE_2M, PAGE_2M);

	(void)where;
	close(fd);
	there = mremap(start, PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, there);
	CHECK(there != MAP_FAILED, "%s", strerror(errno));
	CHECK_EQ(*(volatile uint64_t *)there, INK);
	CHECK_OK(munmap(there, PAGE_2M));
}

static void by_mapping_over_it(int where, int fd, char *start)
{
	(void)where;
	close(fd);
	CHECK(mmap(start, PAGE_2M, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start, "%s",
	      strerror(errno));
}

/* Protected first: what is unmapped afterwards has an entry of another kind. */
static void by_mprotect(int where, int fd, char *start)
{
	(void)where;
	close(fd);
	CHECK_OK(mprotect(start, PAGE_2M, PROT_READ));
	CHECK_OK(munmap(start, PAGE_2M));
}

/* The entries go, come back as small ones while the other thread writes, and go again. */
static void by_changing_entries(int where, int fd, char *start)
{
	unsigned int i;

	(void)where;
	close(fd);
	for (i = 0; i < 8; i++) {
		CHECK_OK(madvise(start, PAGE_2M, i % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
		CHECK_OK(madvise(start, PAGE_2M, MADV_DONTNEED));
	}
	CHECK_OK(munmap(start, PAGE_2M));
}

static const struct way ways[] = {
	{ .name = "munmap", .let_go = by_munmap },
	{ .name = "unlink", .let_go = by_unlink, .named = true },
	{ .name = "mremap", .let_go = by_mremap },
	{ .name = "another mapping over it", .let_go = by_mapping_over_it },
	{ .name = "mprotect", .let_go = by_mprotect },
	{ .name = "changing entries", .let_go = by_changing_entries },
};

static void one_round(const struct way *way, int where, unsigned int node, struct writer *writer,
		      const struct channel *channel)
{
	int fd = way->named ? CHECK_OK(region_create_named(where, "page", PAGE_2M, 0600)) :
			      region_make_on(node, PAGE_2M, CLASS_2M);
	char *start = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);

	start_writing(writer, start);
	CHECK(has_ink(start, PAGE_2M), "the new owner would not see the writer");
	way->let_go(where, fd, start);
	channel_signal(channel, 0);		/* all free pages, this one too */
	channel_wait(channel, 0);
	while (!atomic_load(&writer->faulted))
		sched_yield();
	channel_signal(channel, 0);
	channel_wait(channel, 0);		/* they are free again */
}

static void no_write_reaches_the_next_owner(const void *arg)
{
	const struct way *way = arg;
	unsigned int node = way->named ? 0 : reserve_node_with(HUGEPIN_CLASS_2M, LEFT + 1), round;
	struct sigaction action = { .sa_handler = on_fault };
	int where = fs_mount(NULL, NULL);
	struct channel channel = channel_open();
	struct writer writer = { .at = NULL };
	uint64_t free = reserve_free_pages(node, HUGEPIN_CLASS_2M);
	pid_t owner;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		ktap_skip("one CPU");
	stay_on(0);		/* before there is a second thread; named pages come from the caller's node */
	CHECK(free > LEFT, "%llu pages are free on node %u", (unsigned long long)free, node);
	region_make_on(node, (free - LEFT) * PAGE_2M, CLASS_2M);	/* so that the next owner is quick */
	owner = ktap_fork();
	if (!owner)
		own_next(node, LEFT, &channel);
	CHECK_OK(sigaction(SIGSEGV, &action, NULL));
	CHECK_EQ(pthread_create(&writer.thread, NULL, write_always, &writer), 0);
	for (round = 0; round < ROUNDS; round++)
		one_round(way, where, node, &writer, &channel);
	kill(owner, SIGKILL);
	ktap_join_killed(owner, SIGKILL);
	ktap_note("%s: %u rounds, %u writes", way->name, ROUNDS, atomic_load(&writer.written));
}

#define NO_WRITE(way)	\
	{ .name = "no_write_reaches_the_next_owner", .run = no_write_reaches_the_next_owner, .arg = &ways[way], \
	  .timeout_s = 180 }

static struct ktap_case cases[] = {
	NO_WRITE(0), NO_WRITE(1), NO_WRITE(2), NO_WRITE(3), NO_WRITE(4), NO_WRITE(5),
};

int main(int argc, char **argv)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		cases[i].variant = ways[i].name;
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
