// SPDX-License-Identifier: MIT
/* Processes and what goes between them: forks, kills, descriptors by dup and over sockets, pipes, other users. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

#define FORKS_MAX	12	/* of a life */
#define DEPTH_MAX	3

static long answer_of(long answer)
{
	return answer < 0 ? -errno : answer;
}

/* ---- processes ---- */

static void reap(struct world *w)
{
	unsigned int i;

	for (i = 0; i < CHILDREN; i++)
		if (w->children[i] && waitpid(w->children[i], NULL, WNOHANG) == w->children[i])
			w->children[i] = 0;
}

static long fork_one(struct world *w)
{
	unsigned int calls = below(w, 200), i;
	pid_t child;

	reap(w);
	for (i = 0; i < CHILDREN && w->children[i]; i++)
		;
	if (i == CHILDREN || w->depth == DEPTH_MAX || add(&w->shared->trace[w->worker].processes, 1) > FORKS_MAX)
		return -EAGAIN;
	child = fork();
	if (child < 0)
		return -errno;
	if (!child) {
		memset(w->children, 0, sizeof(w->children));
		w->depth++;
		w->seed = random_mix(w->seed, 1000 + w->index);
		w->index = 0;
		live(w, calls);
		_exit(0);
	}
	add(&w->shared->forks, 1);
	w->children[i] = child;
	return 0;
}

static long kill_one(struct world *w)
{
	pid_t child = w->children[below(w, CHILDREN)];

	reap(w);
	if (!child)
		return -ESRCH;
	if (kill(child, chance(w, 70) ? SIGKILL : SIGSTOP))
		return -errno;
	add(&w->shared->kills, 1);
	return 0;
}

/* Less than it had; only for the life that is running. */
static long become(struct world *w)
{
	struct rlimit limit = { below(w, 64) << 20, below(w, 64) << 20 };

	switch (below(w, 4)) {
	case 0:
		if (w->index < 20 || chance(w, 90))
			return -EAGAIN;
		return answer_of(syscall(SYS_setuid, 1000 + below(w, 3)));
	case 1:
		limit.rlim_max = RLIM_INFINITY;
		return answer_of(setrlimit(RLIMIT_MEMLOCK, &limit));
	case 2:
		if (chance(w, 90))
			return -EAGAIN;
		return answer_of(unshare(CLONE_NEWUSER));
	default:
		return answer_of(prctl(PR_SET_THP_DISABLE, below(w, 2), 0, 0, 0));
	}
}

/* ---- descriptors ---- */

static long copy_fd(struct world *w)
{
	enum kind kind = REGION + below(w, 4);
	int fd = some_fd(w, kind);

	return keep_fd(w, fcntl(fd, F_DUPFD_CLOEXEC, 0), kind);
}

static long close_fd(struct world *w)
{
	return close_one(w);
}

/* Opened again through /proc: another open file of the same region, with another mode perhaps. */
static long open_again(struct world *w)
{
	char path[32] = "/proc/self/fd/", *digits = path + strlen(path);
	int fd = some_fd(w, REGION), at = 1000;

	if (fd < 0)
		return -EBADF;
	for (; at; at /= 10)
		if (fd >= at || at == 1)
			*digits++ = '0' + fd / at % 10;
	*digits = '\0';
	return keep_fd(w, open(path, (chance(w, 70) ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK), REGION);
}

static long make_pipe(struct world *w)
{
	int ends[2], result;

	if (chance(w, 50)) {
		if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
			return -errno;
		result = keep_fd(w, ends[0], PIPE);
		keep_fd(w, ends[1], PIPE);
		return result;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return -errno;
	result = keep_fd(w, ends[0], SOCKET);
	keep_fd(w, ends[1], SOCKET);
	return result;
}

static long send_fd(struct world *w)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int fd = some_fd(w, DEVICE + below(w, 5));

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return answer_of(sendmsg(some_fd(w, SOCKET), &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

static long receive_fd(struct world *w)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;
	int fd;

	if (recvmsg(some_fd(w, SOCKET), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS)
		return -ENODATA;
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	return keep_fd(w, fd, REGION);	/* mostly */
}

/* A region's pages in a pipe: references that outlive it. Or what is in a pipe to the area: the other end decides. */
static long pages_to_pipe(struct world *w)
{
	struct area *area = some_area(w);
	struct iovec part;

	if (!area)
		return -EINVAL;
	part = (struct iovec){ area->start, within(area, PAGE_4K * (1 + below(w, 4))) };
	return answer_of(vmsplice(some_fd(w, PIPE), &part, 1, SPLICE_F_NONBLOCK));
}

static long pages_from_pipe(struct world *w)
{
	static char bytes[16384];

	return answer_of(read(some_fd(w, PIPE), bytes, 1 + below(w, sizeof(bytes))));
}

const struct op process_ops[] = {
	{ "fork", 3, fork_one }, { "kill", 8, kill_one }, { "become", 5, become }, { "dup", 50, copy_fd },
	{ "close", 80, close_fd }, { "open_again", 20, open_again }, { "pipe", 15, make_pipe }, { "send_fd", 20, send_fd },
	{ "receive_fd", 20, receive_fd }, { "vmsplice", 20, pages_to_pipe }, { "read_pipe", 15, pages_from_pipe },
	{ NULL, 0, NULL },
};
