// SPDX-License-Identifier: MIT
/* The mapping contract: input and output with the area as the buffer, copied and not copied. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <linux/loop.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mapping.h"

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY	60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY	0x4000000
#endif

#define IO_BYTES	(256 * KiB)

/* A place that crosses from the first page into the second. */
static char *crossing(const struct area *area)
{
	return area->start + area->page - IO_BYTES / 2;
}

static void fill(char *bytes, unsigned char seed)
{
	uint64_t i;

	for (i = 0; i < IO_BYTES; i++)
		bytes[i] = (i * 31 + i / 4096 + seed) & 0xff;
}

static void check_filled(const char *bytes, unsigned char seed)
{
	uint64_t i;

	for (i = 0; i < IO_BYTES; i++)
		CHECK((unsigned char)bytes[i] == ((i * 31 + i / 4096 + seed) & 0xff), "wrong byte %llu",
		      (unsigned long long)i);
}

static void read_and_write_of_files_work(struct area *area)
{
	int file = CHECK_OK(memfd_create("file", 0));

	fill(crossing(area), 1);
	CHECK_EQ(write(file, crossing(area), IO_BYTES), IO_BYTES);
	memset(crossing(area), 0, IO_BYTES);
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));	/* read() has to fault it in */
	CHECK_EQ(pread(file, crossing(area), IO_BYTES, 0), IO_BYTES);
	check_filled(crossing(area), 1);
}

/* ---- pipes ---- */

static void move_through_pipe(char *from, char *to, unsigned int flags)
{
	int ends[2];
	uint64_t done;

	CHECK_OK(pipe(ends));
	for (done = 0; done < IO_BYTES; done += 16 * PAGE_4K) {
		struct iovec part = { from + done, 16 * PAGE_4K };

		CHECK_EQ(vmsplice(ends[1], &part, 1, flags), 16 * PAGE_4K);
		CHECK_EQ(read(ends[0], to + done, 16 * PAGE_4K), 16 * PAGE_4K);
	}
	close(ends[0]);
	close(ends[1]);
}

static void vmsplice_lends_its_pages_to_a_pipe(struct area *area)
{
	char *copy = malloc(IO_BYTES);

	CHECK(copy, "no memory");
	fill(crossing(area), 2);
	move_through_pipe(crossing(area), copy, 0);
	check_filled(copy, 2);
	fill(crossing(area), 3);
	move_through_pipe(crossing(area), copy, SPLICE_F_GIFT);	/* a gift that must not be taken */
	check_filled(copy, 3);
	check_filled(crossing(area), 3);
	free(copy);
}

static void splice_moves_pages_from_a_pipe_to_a_file(struct area *area)
{
	int file = CHECK_OK(memfd_create("file", 0)), ends[2];
	struct iovec part = { crossing(area), 16 * PAGE_4K };
	char *copy = malloc(16 * PAGE_4K);

	CHECK(copy, "no memory");
	fill(crossing(area), 4);
	CHECK_OK(pipe(ends));
	CHECK_EQ(vmsplice(ends[1], &part, 1, SPLICE_F_GIFT), 16 * PAGE_4K);
	CHECK_EQ(splice(ends[0], NULL, file, NULL, 16 * PAGE_4K, SPLICE_F_MOVE), 16 * PAGE_4K);
	memset(crossing(area), 0, 16 * PAGE_4K);	/* the file must not see this */
	CHECK_EQ(pread(file, copy, 16 * PAGE_4K, 0), 16 * PAGE_4K);
	memcpy(crossing(area), copy, 16 * PAGE_4K);
	check_filled(crossing(area), 4);
	free(copy);
}

/* ---- sockets ---- */

static void tcp_pair(int *client, int *server)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = CHECK_OK(socket(AF_INET, SOCK_STREAM, 0));
	socklen_t length = sizeof(address);

	if (bind(listener, (struct sockaddr *)&address, sizeof(address)))
		ktap_skip("no loopback interface: %s", strerror(errno));
	CHECK_OK(listen(listener, 1));
	CHECK_OK(getsockname(listener, (struct sockaddr *)&address, &length));
	*client = CHECK_OK(socket(AF_INET, SOCK_STREAM, 0));
	if (connect(*client, (struct sockaddr *)&address, sizeof(address)))
		ktap_skip("no loopback interface: %s", strerror(errno));
	*server = CHECK_OK(accept(listener, NULL, NULL));
	close(listener);
}

/* Waits for the kernel's word that it is done with the buffer of @sends calls. */
static void await_completions(int socket, unsigned int sends)
{
	unsigned int done = 0;

	while (done < sends) {
		struct pollfd poll_for = { .fd = socket };
		char control[128];
		struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };
		struct sock_extended_err *report;

		CHECK(poll(&poll_for, 1, 5000) == 1, "%u of %u completions", done, sends);
		CHECK_OK(recvmsg(socket, &message, MSG_ERRQUEUE));
		report = (struct sock_extended_err *)CMSG_DATA(CMSG_FIRSTHDR(&message));
		CHECK_EQ(report->ee_errno, 0);
		CHECK_EQ(report->ee_origin, SO_EE_ORIGIN_ZEROCOPY);
		done += report->ee_data - report->ee_info + 1;
	}
}

static void a_socket_sends_it_without_a_copy(struct area *area)
{
	char *received = malloc(IO_BYTES);
	uint64_t sent = 0, got = 0;
	int client, server, one = 1;
	unsigned int sends = 0;

	CHECK(received, "no memory");
	tcp_pair(&client, &server);
	if (setsockopt(client, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		ktap_skip("this kernel has no MSG_ZEROCOPY: %s", strerror(errno));
	fill(crossing(area), 5);
	while (got < IO_BYTES) {
		if (sent < IO_BYTES) {
			ssize_t n = send(client, crossing(area) + sent, IO_BYTES - sent, MSG_ZEROCOPY | MSG_DONTWAIT);

			CHECK(n > 0 || errno == EAGAIN, "send: %s", strerror(errno));
			if (n > 0) {
				sent += n;
				sends++;
			}
		}
		got += CHECK_OK(recv(server, received + got, IO_BYTES - got, 0));
	}
	await_completions(client, sends);
	check_filled(received, 5);
	free(received);
}

static void a_dead_sender_s_pages_come_back(struct area *area)
{
	int client, server, one = 1;
	pid_t child;

	tcp_pair(&client, &server);
	if (setsockopt(client, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		ktap_skip("this kernel has no MSG_ZEROCOPY: %s", strerror(errno));
	child = ktap_fork();
	if (!child) {
		fill(crossing(area), 6);
		CHECK(send(client, crossing(area), IO_BYTES, MSG_ZEROCOPY | MSG_DONTWAIT) > 0, "%s", strerror(errno));
		kill(getpid(), SIGKILL);
	}
	ktap_join_killed(child, SIGKILL);
	/* nobody ever reads: the socket's end has to give them back, which the hooks look for */
}

/* ---- direct I/O ---- */

struct block_device {
	int fd;
	char path[32];
};

/* One without a medium of its own: a loop device over a file in memory. */
static struct block_device block_device_make(uint64_t bytes)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number, file;
	struct block_device loop;

	if (control < 0)
		ktap_skip("no loop devices here: tools/vm/run --modprobe loop");
	number = CHECK_OK(ioctl(control, LOOP_CTL_GET_FREE));
	snprintf(loop.path, sizeof(loop.path), "/dev/loop%d", number);
	loop.fd = CHECK_OK(open(loop.path, O_RDWR | O_DIRECT | O_CLOEXEC));
	file = CHECK_OK(memfd_create("medium", MFD_CLOEXEC));
	CHECK_OK(ftruncate(file, bytes));
	CHECK_OK(ioctl(loop.fd, LOOP_SET_FD, file));
	close(file);
	close(control);
	return loop;
}

static void block_device_end(struct block_device *loop)
{
	CHECK_OK(ioctl(loop->fd, LOOP_CLR_FD));
	close(loop->fd);
}

static void direct_io_there_and_back(struct area *area, int file, unsigned char seed)
{
	fill(crossing(area), seed);
	CHECK_EQ(pwrite(file, crossing(area), IO_BYTES, 64 * KiB), IO_BYTES);
	memset(crossing(area), 0, IO_BYTES);
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));	/* it has to be faulted in */
	CHECK_EQ(pread(file, crossing(area), IO_BYTES, 64 * KiB), IO_BYTES);
	check_filled(crossing(area), seed);
}

static void direct_io_reads_into_it_and_writes_from_it(struct area *area)
{
	struct block_device loop = block_device_make(2 * MiB);

	direct_io_there_and_back(area, loop.fd, 7);
	block_device_end(&loop);
}

static void direct_io_of_a_file_system_does_too(struct area *area)
{
	struct block_device loop = block_device_make(8 * MiB);
	char command[64];
	int file;

	snprintf(command, sizeof(command), "mke2fs %s >/dev/null 2>&1", loop.path);
	if (system(command))
		ktap_skip("no mke2fs here");
	if (mount(loop.path, "/mnt", "ext4", 0, NULL)) {
		CHECK_EQ(errno, ENODEV);
		ktap_skip("this kernel has no ext4");
	}
	file = CHECK_OK(open("/mnt/file", O_RDWR | O_CREAT | O_DIRECT, 0600));
	direct_io_there_and_back(area, file, 10);
	close(file);
	CHECK_OK(umount2("/mnt", 0));
	block_device_end(&loop);
}

/* ---- io_uring ---- */

struct ring {
	int fd;
	struct io_uring_params params;
	char *queues;			/* both queues, in one mapping */
	struct io_uring_sqe *entries;
};

static struct ring ring_open(void)
{
	struct ring ring = { 0 };
	size_t bytes, completions;

	ring.fd = syscall(SYS_io_uring_setup, 4, &ring.params);
	if (ring.fd < 0 && (errno == ENOSYS || errno == EPERM))
		ktap_skip("no io_uring here: %s", strerror(errno));
	CHECK(ring.fd >= 0, "%s", strerror(errno));
	CHECK(ring.params.features & IORING_FEAT_SINGLE_MMAP, "an old ring");
	bytes = ring.params.sq_off.array + ring.params.sq_entries * sizeof(uint32_t);
	completions = ring.params.cq_off.cqes + ring.params.cq_entries * sizeof(struct io_uring_cqe);
	ring.queues = mmap(NULL, bytes > completions ? bytes : completions, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
			   IORING_OFF_SQ_RING);
	ring.entries = mmap(NULL, ring.params.sq_entries * sizeof(*ring.entries), PROT_READ | PROT_WRITE, MAP_SHARED,
			    ring.fd, IORING_OFF_SQES);
	CHECK(ring.queues != MAP_FAILED && ring.entries != MAP_FAILED, "%s", strerror(errno));
	return ring;
}

static uint32_t *ring_word(const struct ring *ring, uint32_t offset)
{
	return (uint32_t *)(ring->queues + offset);
}

/* Does one operation; its result. */
static int ring_do(struct ring *ring, uint8_t opcode, int fd, char *at, uint32_t bytes)
{
	uint32_t tail = *ring_word(ring, ring->params.sq_off.tail), slot = tail & (ring->params.sq_entries - 1), head;
	const struct io_uring_cqe *done;

	memset(&ring->entries[slot], 0, sizeof(ring->entries[slot]));
	ring->entries[slot].opcode = opcode;
	ring->entries[slot].fd = fd;
	ring->entries[slot].addr = (uintptr_t)at;
	ring->entries[slot].len = bytes;
	ring_word(ring, ring->params.sq_off.array)[slot] = slot;
	__atomic_store_n(ring_word(ring, ring->params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	CHECK_EQ(syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0), 1);
	head = *ring_word(ring, ring->params.cq_off.head);
	CHECK(head != __atomic_load_n(ring_word(ring, ring->params.cq_off.tail), __ATOMIC_ACQUIRE), "no completion");
	done = (const struct io_uring_cqe *)(ring->queues + ring->params.cq_off.cqes) +
	       (head & (ring->params.cq_entries - 1));
	head++;
	__atomic_store_n(ring_word(ring, ring->params.cq_off.head), head, __ATOMIC_RELEASE);
	return done->res;
}

static int register_buffer(const struct ring *ring, char *start, uint64_t bytes)
{
	struct iovec buffer = { start, bytes };

	return syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS, &buffer, 1) ? -errno : 0;
}

/* Whether this kernel takes fixed buffers from areas that have a file at all, whatever file. */
static bool fixed_buffers_of_files(const struct ring *ring)
{
	int zero = CHECK_OK(open("/dev/zero", O_RDWR));
	char *start = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
	int error;

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	error = register_buffer(ring, start, PAGE_2M);
	if (!error)
		CHECK_OK(syscall(SYS_io_uring_register, ring->fd, IORING_UNREGISTER_BUFFERS, NULL, 0));
	return error != -EOPNOTSUPP;
}

static void io_uring_takes_it_as_a_fixed_buffer(struct area *area)
{
	/* one buffer is 1 GiB at most: the first page alone, then a stretch that crosses into the next */
	char *stretch = area->start + area->page - PAGE_2M;
	struct ring ring = ring_open();
	int file = CHECK_OK(memfd_create("file", 0)), error;

	error = register_buffer(&ring, area->start, area->page);
	if (error == -EOPNOTSUPP && !fixed_buffers_of_files(&ring))
		ktap_skip("this kernel refuses fixed buffers in any area with a file");
	CHECK(!error, "registering the first page: %s", strerror(-error));
	CHECK_OK(syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 0));
	error = register_buffer(&ring, stretch, area->start + area->bytes - stretch);
	CHECK(!error, "registering across pages: %s", strerror(-error));
	fill(crossing(area), 8);
	CHECK_EQ(ring_do(&ring, IORING_OP_WRITE_FIXED, file, crossing(area), IO_BYTES), IO_BYTES);
	memset(crossing(area), 0, IO_BYTES);
	CHECK_EQ(ring_do(&ring, IORING_OP_READ_FIXED, file, crossing(area), IO_BYTES), IO_BYTES);
	check_filled(crossing(area), 8);
	/* The ring's pins stay until its end, which the hooks look for. */
	CHECK_OK(munmap(area->start, area->bytes));
}

static void io_uring_reads_into_it(struct area *area)
{
	struct ring ring = ring_open();
	int file = CHECK_OK(memfd_create("file", 0));

	fill(crossing(area), 9);
	CHECK_EQ(ring_do(&ring, IORING_OP_WRITE, file, crossing(area), IO_BYTES), IO_BYTES);
	memset(crossing(area), 0, IO_BYTES);
	CHECK_EQ(ring_do(&ring, IORING_OP_READ, file, crossing(area), IO_BYTES), IO_BYTES);
	check_filled(crossing(area), 9);
}

const struct mapping_row mapping_io_rows[] = {
	ROW(read_and_write_of_files_work),
	ROW(vmsplice_lends_its_pages_to_a_pipe),
	ROW(splice_moves_pages_from_a_pipe_to_a_file),
	ROW(a_socket_sends_it_without_a_copy),
	ROW(a_dead_sender_s_pages_come_back),
	ROW(direct_io_reads_into_it_and_writes_from_it),
	ROW(direct_io_of_a_file_system_does_too),
	ROW(io_uring_takes_it_as_a_fixed_buffer),
	ROW(io_uring_reads_into_it),
	{ NULL, NULL },
};
