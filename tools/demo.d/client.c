// SPDX-License-Identifier: MIT
/*
 * Clients: processes of their own that use hugepin, so that the demo can kill them and look at what is left. They tell
 * how far they are through shared memory, which outlives them, and pass descriptors over a socket.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo.h"

#define WAIT_US	(60 * UINT64_C(1000000))

int client_start(void (*body)(struct client_share *share, int socket, const void *arg), const void *arg,
		 struct client *out)
{
	struct client_share *share;
	int ends[2], err;
	pid_t pid;

	share = mmap(NULL, sizeof(*share), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (share == MAP_FAILED)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		err = -errno;
		goto no_socket;
	}
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		err = -errno;
		goto no_process;
	}
	if (!pid) {
		/* A demo that is interrupted leaves no writer behind. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		body(share, ends[1], arg);
		_exit(0);
	}
	close(ends[1]);
	*out = (struct client){ .pid = pid, .socket = ends[0], .share = share };
	return 0;

no_process:
	close(ends[0]);
	close(ends[1]);
no_socket:
	munmap(share, sizeof(*share));
	return err;
}

void client_fail(struct client_share *share, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(share->failure, sizeof(share->failure), fmt, args);
	va_end(args);
	_exit(1);
}

/* Takes the process's status and says what went wrong; @expected: the signal it should have died of, or 0. */
static int reap(struct demo *demo, struct client *client, int expected)
{
	int status;

	while (waitpid(client->pid, &status, 0) < 0)
		if (errno != EINTR)
			return report_stop(demo, "waitpid: %s", strerror(errno));
	client->pid = 0;
	if (expected && WIFSIGNALED(status) && WTERMSIG(status) == expected)
		return 0;
	if (!expected && WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (client->share->failure[0])
		return report_stop(demo, "the client: %s", client->share->failure);
	if (WIFSIGNALED(status))
		return report_stop(demo, "the client died of signal %d (%s)", WTERMSIG(status),
				   strsignal(WTERMSIG(status)));
	return report_stop(demo, "the client ended by itself with status %d", WEXITSTATUS(status));
}

static bool ended(const struct client *client)
{
	siginfo_t info = { 0 };

	return !waitid(P_PID, (id_t)client->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

int client_wait(struct demo *demo, struct client *client, uint64_t written_bytes)
{
	uint64_t start = now_us();

	for (;;) {
		uint64_t written = __atomic_load_n(&client->share->written_bytes, __ATOMIC_ACQUIRE);

		if (__atomic_load_n(&client->share->ready, __ATOMIC_ACQUIRE) && written >= written_bytes)
			return 0;
		if (ended(client)) {
			reap(demo, client, SIGKILL);
			return -1;
		}
		if (now_us() - start > WAIT_US)
			return report_stop(demo, "the client had %" PRIu64 " of %" PRIu64 " bytes written after %u s",
					   written, written_bytes, (unsigned int)(WAIT_US / 1000000));
		sleep_ms(1);
	}
}

int client_finish(struct demo *demo, struct client *client)
{
	return reap(demo, client, 0);
}

int client_kill(struct demo *demo, struct client *client)
{
	if (kill(client->pid, SIGKILL))
		return report_stop(demo, "kill: %s", strerror(errno));
	return reap(demo, client, SIGKILL);
}

void client_end(struct client *client)
{
	if (client->pid) {
		kill(client->pid, SIGKILL);
		while (waitpid(client->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close(client->socket);
	munmap(client->share, sizeof(*client->share));
}

/* ---- descriptors ---- */

union fd_message {
	char buffer[CMSG_SPACE(CLIENT_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int client_send_fds(int socket, const int *fds, unsigned int count)
{
	union fd_message control = { 0 };
	struct iovec data = { .iov_base = &count, .iov_len = sizeof(count) };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = CMSG_SPACE(count * sizeof(*fds)),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	if (!count || count > CLIENT_FDS_MAX)
		return -EINVAL;
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(count * sizeof(*fds));
	memcpy(CMSG_DATA(head), fds, count * sizeof(*fds));
	return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int client_receive_fds(int socket, int *fds, unsigned int *count)
{
	union fd_message control = { 0 };
	struct iovec data = { .iov_base = count, .iov_len = sizeof(*count) };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof(control.buffer),
	};
	struct cmsghdr *head;
	ssize_t n;

	do {
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	head = CMSG_FIRSTHDR(&message);
	if (n != sizeof(*count) || !head || head->cmsg_type != SCM_RIGHTS || *count > CLIENT_FDS_MAX ||
	    head->cmsg_len != CMSG_LEN(*count * sizeof(*fds)))
		return -EPROTO;
	memcpy(fds, CMSG_DATA(head), *count * sizeof(*fds));
	return 0;
}
