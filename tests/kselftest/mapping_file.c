// SPDX-License-Identifier: MIT
/* The mapping contract: calls on the descriptor, fork, futexes, synchronising. */
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mapping.h"

static void the_length_cannot_be_changed(struct area *area)
{
	char path[64];

	marks_write(area->start, 0, area->bytes, 40);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", area->fd);
	CHECK_ERRNO(ftruncate(area->fd, 0), EINVAL);
	CHECK_ERRNO(ftruncate(area->fd, area->bytes), EINVAL);
	CHECK_ERRNO(truncate(path, 0), EINVAL);
	/* the core asks for a regular file before it asks us */
	CHECK(fallocate(area->fd, 0, 0, PAGE_2M) == -1, "fallocate succeeded");
	CHECK(errno == ENODEV || errno == EINVAL, "%s", strerror(errno));
	CHECK(fallocate(area->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_2M) == -1, "a hole was punched");
	close(CHECK_OK(open(path, O_RDWR | O_TRUNC)));
	CHECK_EQ(lseek(area->fd, 0, SEEK_END), area->bytes);
	CHECK_MARKS(area->start, 0, area->bytes, 40);
}

static void the_descriptor_is_neither_read_nor_written(struct area *area)
{
	char byte = 0;
	int other = CHECK_OK(memfd_create("other", 0));
	loff_t zero = 0;

	marks_write(area->start, 0, area->bytes, 41);
	CHECK_ERRNO(read(area->fd, &byte, 1), EINVAL);
	CHECK_ERRNO(write(area->fd, &byte, 1), EINVAL);
	/* ESPIPE for an unnamed region, EINVAL for one opened by its name */
	CHECK(pread(area->fd, &byte, 1, 0) == -1, "pread read it");
	CHECK(pwrite(area->fd, &byte, 1, 0) == -1, "pwrite wrote it");
	CHECK_OK(ftruncate(other, PAGE_4K));
	CHECK(sendfile(other, area->fd, &zero, PAGE_4K) == -1, "sendfile read it");
	CHECK(sendfile(area->fd, other, &zero, PAGE_4K) == -1, "sendfile wrote it");
	CHECK(copy_file_range(other, &zero, area->fd, NULL, PAGE_4K, 0) == -1, "copy_file_range wrote it");
	CHECK_ERRNO(ioctl(area->fd, HUGEPIN_IOC_CREATE, NULL), ENOTTY);
	CHECK_ERRNO(ioctl(area->fd, HUGEPIN_IOC_INFO, NULL), ENOTTY);
	CHECK_MARKS(area->start, 0, area->bytes, 41);
}

static void synchronising_succeeds(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 42);
	CHECK_OK(msync(area->start, area->bytes, MS_SYNC));
	CHECK_OK(msync(area->start, area->bytes, MS_ASYNC));
	CHECK_OK(msync(area->start, area->bytes, MS_SYNC | MS_INVALIDATE));
	CHECK_OK(msync(area->start + 3 * PAGE_4K, PAGE_4K, MS_SYNC));
	CHECK_OK(fsync(area->fd));
	CHECK_OK(fdatasync(area->fd));
	CHECK_OK(syncfs(area->fd));
	posix_fadvise(area->fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(area->fd, 0, 0, POSIX_FADV_WILLNEED);
	CHECK_MARKS(area->start, 0, area->bytes, 42);
}

static void another_process_takes_the_descriptor_by_pidfd(struct area *area)
{
	struct channel channel = channel_open();
	pid_t child;
	int pidfd, fd;

	marks_write(area->start, 0, area->bytes, 43);
	child = ktap_fork();
	if (!child) {
		channel_wait(&channel, 1);
		ktap_exit();
	}
	pidfd = CHECK_OK(syscall(SYS_pidfd_open, child, 0));
	fd = CHECK_OK(syscall(SYS_pidfd_getfd, pidfd, area->fd, 0));
	channel_signal(&channel, 0);
	ktap_join(child);
	CHECK_MARKS(region_map(fd, 0, area->bytes, PROT_READ), 0, area->bytes, 43);
}

static void it_is_reopened_and_passed(struct area *area)
{
	struct channel channel = channel_open();
	char path[64];
	int again, passed;

	marks_write(area->start, 0, area->bytes, 44);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", area->fd);
	again = CHECK_OK(open(path, O_RDWR));
	descriptor_send(&channel, 0, again);
	close(again);
	passed = descriptor_receive(&channel, 1);
	CHECK_MARKS(region_map(passed, 0, area->bytes, PROT_READ | PROT_WRITE), 0, area->bytes, 44);
}

/* C021: the child has all of it */
static void a_fork_shares(struct area *area)
{
	pid_t child;

	marks_write(area->start, 0, area->bytes, 45);
	child = ktap_fork();
	if (!child) {
		CHECK_MARKS(area->start, 0, area->bytes, 45);
		marks_write(area->start, 0, area->bytes, 46);
		ktap_exit();
	}
	ktap_join(child);
	CHECK_MARKS(area->start, 0, area->bytes, 46);
}

static void a_fork_shares_4k_entries_too(struct area *area)
{
	pid_t child;

	CHECK_OK(madvise(area->start, area->bytes, MADV_NOHUGEPAGE));
	marks_write(area->start, 0, area->bytes, 47);
	child = ktap_fork();
	if (!child) {
		marks_write(area->start, 0, area->bytes, 48);
		CHECK_OK(munmap(area->start, area->bytes));
		ktap_exit();
	}
	ktap_join(child);
	CHECK_MARKS(area->start, 0, area->bytes, 48);
}

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* The waiter maps the region itself, so that only a shared key can join the two. */
static void wait_in_child(const struct area *area, uint64_t offset)
{
	const struct timespec five_s = { .tv_sec = 5 };
	uint32_t *ours = (uint32_t *)(area->start + offset);
	pid_t child;
	int tries;

	*ours = 1;
	child = ktap_fork();
	if (!child) {
		uint32_t *word = (uint32_t *)(region_map(area->fd, 0, area->bytes, PROT_READ | PROT_WRITE) + offset);

		CHECK_OK(munmap(area->start, area->bytes));
		while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 1)
			CHECK(!futex(word, FUTEX_WAIT, 1, &five_s) || errno == EAGAIN || errno == EINTR, "waiting: %s",
			      strerror(errno));
		ktap_exit();
	}
	/* first woken without a change, to see that there is a waiter */
	for (tries = 0; tries < 2000; tries++) {
		long woken = futex(ours, FUTEX_WAKE, 1, NULL);

		CHECK(woken >= 0, "waking: %s", strerror(errno));
		if (woken == 1)
			break;
		poll(NULL, 0, 1);
	}
	CHECK(tries < 2000, "nobody waits");
	__atomic_store_n(ours, 2, __ATOMIC_SEQ_CST);
	CHECK_OK(futex(ours, FUTEX_WAKE, 1, NULL));
	ktap_join(child);
}

static void futexes_work_between_processes(struct area *area)
{
	wait_in_child(area, 0);
	wait_in_child(area, area->page / 2 + PAGE_4K + 64);
	wait_in_child(area, area->bytes - 4);
}

static void futexes_work_on_4k_entries(struct area *area)
{
	CHECK_OK(madvise(area->start, area->bytes, MADV_NOHUGEPAGE));
	wait_in_child(area, 5 * PAGE_4K + 8);
	wait_in_child(area, area->bytes - PAGE_2M + 8);
}

const struct mapping_row mapping_file_rows[] = {
	ROW(the_length_cannot_be_changed),
	ROW(the_descriptor_is_neither_read_nor_written),
	ROW(synchronising_succeeds),
	ROW(another_process_takes_the_descriptor_by_pidfd),
	ROW(it_is_reopened_and_passed),
	ROW(a_fork_shares),
	ROW(a_fork_shares_4k_entries_too),
	ROW(futexes_work_between_processes),
	ROW(futexes_work_on_4k_entries),
	{ NULL, NULL },
};
