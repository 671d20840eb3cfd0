// SPDX-License-Identifier: MIT
/* The mapping contract: advice, the switches of transparent huge pages, locking. */
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mapping.h"
#include "reserve.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED	24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL	102
#endif
#define THP_ENABLED	"/sys/kernel/mm/transparent_hugepage/enabled"

enum answer {
	YES,		/* 0 */
	NO,		/* an error */
	EITHER,		/* the kernel's choice; it has no effect here */
};

static const struct advice {
	const char *name;
	int value;
	enum answer answer;
	int undo;	/* advice that takes it back, or -1 */
} advices[] = {
	{ "NORMAL", MADV_NORMAL, YES, -1 },
	{ "RANDOM", MADV_RANDOM, YES, MADV_NORMAL },
	{ "SEQUENTIAL", MADV_SEQUENTIAL, YES, MADV_NORMAL },
	{ "WILLNEED", MADV_WILLNEED, YES, -1 },
	{ "DONTNEED", MADV_DONTNEED, YES, -1 },
	{ "DONTNEED_LOCKED", MADV_DONTNEED_LOCKED, EITHER, -1 },
	{ "FREE", MADV_FREE, NO, -1 },
	{ "REMOVE", MADV_REMOVE, NO, -1 },
	{ "COLD", MADV_COLD, EITHER, -1 },
	{ "PAGEOUT", MADV_PAGEOUT, EITHER, -1 },
	{ "POPULATE_READ", MADV_POPULATE_READ, YES, -1 },
	{ "POPULATE_WRITE", MADV_POPULATE_WRITE, YES, -1 },
	{ "COLLAPSE", MADV_COLLAPSE, NO, -1 },
	{ "MERGEABLE", MADV_MERGEABLE, EITHER, MADV_UNMERGEABLE },
	{ "HUGEPAGE", MADV_HUGEPAGE, YES, -1 },
	{ "DONTDUMP", MADV_DONTDUMP, YES, -1 },
	{ "DODUMP", MADV_DODUMP, NO, -1 },
	{ "WIPEONFORK", MADV_WIPEONFORK, NO, -1 },
	{ "KEEPONFORK", MADV_KEEPONFORK, YES, -1 },
	{ "GUARD_INSTALL", MADV_GUARD_INSTALL, NO, -1 },
	{ "an unknown one", 9999, NO, -1 },
};

static void advise(const struct area *area, char *start, uint64_t bytes, bool whole_pages)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(advices); i++) {
		const struct advice *advice = &advices[i];
		int got = madvise(start, bytes, advice->value), error = errno;

		/* what needs an area of its own cannot have one inside a page, so a part may be refused */
		CHECK(advice->answer == EITHER || got == (advice->answer == NO ? -1 : 0) || !whole_pages,
		      "MADV_%s: %d %s", advice->name, got, got ? strerror(error) : "");
		CHECK(advice->answer != NO || got == -1, "MADV_%s on a part was accepted", advice->name);
		CHECK(marks_wrong(area->start, 0, area->bytes, 20) == -1, "MADV_%s changed the bytes", advice->name);
		CHECK_EQ(write_signal(start, *start), 0);
		if (!got && advice->undo >= 0)
			CHECK_OK(madvise(start, bytes, advice->undo));
	}
}

static void advice_never_changes_the_bytes(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 20);
	advise(area, area->start, area->bytes, true);
}

static void advice_on_one_page_never_changes_the_bytes(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 20);
	advise(area, area->start + area->page, PAGE_2M, true);
}

static void advice_on_a_part_of_a_page_never_changes_the_bytes(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 20);
	advise(area, area->start + 3 * PAGE_4K, PAGE_4K, false);
	advise(area, area->start + area->page + 5 * PAGE_4K, 2 * PAGE_4K, false);
}

static void dontneed_drops_entries_and_keeps_bytes(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 21);
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	check_huge_entries(area, area->start, 0, area->bytes);	/* so they were dropped, and come back huge */
	CHECK_MARKS(area->start, 0, area->bytes, 21);
}

/*
 * Tries to split the page as if it were in the page cache: advice on a part of a huge page whose reference count is
 * what a cached one's would be.
 */
static void advice_on_a_part_does_not_split_a_page_in_pipes(struct area *area)
{
	static const int advices_that_split[] = { MADV_COLD, MADV_PAGEOUT };
	int pipes[2][2], i, in_pipes = 0;

	marks_write(area->start, 0, area->bytes, 22);
	for (i = 0; i < 2; i++) {
		CHECK_OK(pipe(pipes[i]));
		CHECK_OK(fcntl(pipes[i][1], F_SETPIPE_SZ, 1 << 20));
	}
	/* around 511 references, one by one, each with both kinds of advice */
	for (i = 0; i < 512; i++) {
		struct iovec one = { area->start + (i + 1ULL) % 512 * PAGE_4K, PAGE_4K };
		unsigned int a;

		if (vmsplice(pipes[i / 256][1], &one, 1, SPLICE_F_NONBLOCK) == (ssize_t)PAGE_4K)
			in_pipes++;
		for (a = 0; i > 500 && a < ARRAY_SIZE(advices_that_split); a++)
			madvise(area->start + 7 * PAGE_4K, PAGE_4K, advices_that_split[a]);
	}
	CHECK(in_pipes >= 500, "%d references", in_pipes);
	CHECK_MARKS(area->start, 0, area->bytes, 22);
}

/* Where 4K entries have been, their table stays, so huge ones come back only in a mapping made anew. */
static void check_huge_again(struct area *area, uint64_t seed)
{
	CHECK_OK(munmap(area->start, area->bytes));
	area->start = region_map(area->fd, 0, area->bytes, PROT_READ | PROT_WRITE);
	check_huge_entries(area, area->start, 0, area->bytes);
	CHECK_MARKS(area->start, 0, area->bytes, seed);
}

/* In 4K entries; newer kernels map a 2M page by a huge entry even so, since it is there already. */
static void it_works_where_huge_pages_are_not_wanted(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 23);
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	CHECK_OK(madvise(area->start, area->bytes, MADV_NOHUGEPAGE));
	ktap_note("MADV_NOHUGEPAGE: %lu faults for the first 2M", touch_faults(area->start, PAGE_2M));
	CHECK_MARKS(area->start, 0, area->bytes, 23);
	marks_write(area->start, 0, area->bytes, 24);
	CHECK_MARKS(region_map(area->fd, 0, area->bytes, PROT_READ), 0, area->bytes, 24);
	CHECK_OK(madvise(area->start, area->bytes, MADV_HUGEPAGE));
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	CHECK_MARKS(area->start, 0, area->bytes, 24);
	check_huge_again(area, 24);
}

static void small_and_huge_entries_of_one_page_agree(struct area *area)
{
	char *small = region_map(area->fd, 0, area->bytes, PROT_READ | PROT_WRITE);

	CHECK_OK(madvise(small, area->bytes, MADV_NOHUGEPAGE));
	marks_write(area->start, 0, area->bytes, 25);
	CHECK_MARKS(small, 0, area->bytes, 25);
	marks_write(small, 0, area->bytes, 26);
	CHECK_MARKS(area->start, 0, area->bytes, 26);
	CHECK_OK(munmap(area->start, area->bytes));
	CHECK_MARKS(small, 0, area->bytes, 26);
}

static void the_process_switch_for_huge_pages_does_no_harm(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 27);
	CHECK_OK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	CHECK_MARKS(area->start, 0, area->bytes, 27);		/* through the entries there are */
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	CHECK_MARKS(area->start, 0, area->bytes, 27);		/* and through new ones */
	marks_write(area->start, 0, area->bytes, 28);
	CHECK_OK(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	CHECK_MARKS(area->start, 0, area->bytes, 28);
	check_huge_again(area, 28);
}

static void the_system_switch_for_huge_pages_does_no_harm(struct area *area)
{
	static const char * const choices[] = { "never", "madvise", "always" };
	unsigned int i;

	marks_write(area->start, 0, area->bytes, 28);
	for (i = 0; i < ARRAY_SIZE(choices); i++) {
		char *other;

		CHECK_EQ(file_write(THP_ENABLED, choices[i]), 0);
		CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
		CHECK_MARKS(area->start, 0, area->bytes, 28);
		other = region_map(area->fd, 0, area->bytes, PROT_READ | PROT_WRITE);
		CHECK_MARKS(other, 0, area->bytes, 28);
		marks_write(other, 0, area->bytes, 28);
		CHECK_OK(munmap(other, area->bytes));
	}
}

static void locking_succeeds(struct area *area)
{
	char *other;

	CHECK_OK(mlock(area->start, area->bytes));
	marks_write(area->start, 0, area->bytes, 29);
	CHECK_OK(munlock(area->start, area->bytes));
	CHECK_OK(mlock(area->start + 5 * PAGE_4K, PAGE_4K));
	CHECK_OK(munlock(area->start + 5 * PAGE_4K, PAGE_4K));
	CHECK_OK(mlock2(area->start, area->bytes, MLOCK_ONFAULT));
	CHECK_OK(mlockall(MCL_CURRENT | MCL_FUTURE));
	other = region_map(area->fd, 0, area->bytes, PROT_READ | PROT_WRITE);
	CHECK_MARKS(other, 0, area->bytes, 29);
	CHECK_OK(madvise(other, area->bytes, MADV_DONTNEED_LOCKED) == 0 || errno == EINVAL ? 0 : -1);
	CHECK_OK(munmap(other, area->bytes));
	CHECK_OK(munlockall());
	CHECK_MARKS(area->start, 0, area->bytes, 29);
}

static void advice_from_another_process_does_no_harm(struct area *area)
{
	static const int values[] = { MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED, MADV_COLLAPSE };
	struct channel channel = channel_open();
	pid_t child = ktap_fork();
	struct iovec whole = { area->start, area->bytes };
	int pidfd, i;

	if (!child) {
		marks_write(area->start, 0, area->bytes, 30);
		channel_signal(&channel, 1);
		channel_wait(&channel, 1);
		CHECK_MARKS(area->start, 0, area->bytes, 30);
		ktap_exit();
	}
	channel_wait(&channel, 0);
	pidfd = CHECK_OK(syscall(SYS_pidfd_open, child, 0));
	for (i = 0; i < (int)ARRAY_SIZE(values); i++)
		syscall(SYS_process_madvise, pidfd, &whole, 1UL, values[i], 0);
	channel_signal(&channel, 0);
	ktap_join(child);
}

static void check_in_fork(struct area *area, bool there)
{
	pid_t child = ktap_fork();

	if (!child) {
		CHECK_EQ(read_signal(area->start), there ? 0 : SIGSEGV);
		CHECK_EQ(read_signal(area->start + area->bytes - 1), there ? 0 : SIGSEGV);
		if (there)
			CHECK_MARKS(area->start, 0, area->bytes, 31);
		ktap_exit();
	}
	ktap_join(child);
}

static void a_fork_with_dontfork_has_no_area(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 31);
	check_in_fork(area, true);
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTFORK));
	check_in_fork(area, false);
	if (madvise(area->start, area->bytes, MADV_DOFORK)) {	/* newer kernels: never again for an area of a driver */
		CHECK(errno == EINVAL, "MADV_DOFORK: %s", strerror(errno));
		check_in_fork(area, false);
	} else {
		check_in_fork(area, true);
	}
	CHECK_MARKS(area->start, 0, area->bytes, 31);
}

const struct mapping_row mapping_advice_rows[] = {
	ROW(advice_never_changes_the_bytes),
	ROW(advice_on_one_page_never_changes_the_bytes),
	ROW(advice_on_a_part_of_a_page_never_changes_the_bytes),
	ROW(dontneed_drops_entries_and_keeps_bytes),
	ROW(advice_on_a_part_does_not_split_a_page_in_pipes),
	ROW(it_works_where_huge_pages_are_not_wanted),
	ROW(small_and_huge_entries_of_one_page_agree),
	ROW(the_process_switch_for_huge_pages_does_no_harm),
	ROW(the_system_switch_for_huge_pages_does_no_harm),
	ROW(locking_succeeds),
	ROW(advice_from_another_process_does_no_harm),
	ROW(a_fork_with_dontfork_has_no_area),
	{ NULL, NULL },
};
