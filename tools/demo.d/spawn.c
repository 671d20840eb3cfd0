// SPDX-License-Identifier: MIT
/* Runs another program of the project and reads what it prints. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo.h"

extern char **environ;

/* Everything there is to read, NUL-terminated, or NULL with errno. */
static char *read_all(int fd)
{
	size_t room = 4096, used = 0;
	char *text = malloc(room);

	while (text) {
		ssize_t n = read(fd, text + used, room - used - 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (!n) {
				text[used] = '\0';
				return text;
			}
			break;
		}
		used += (size_t)n;
		if (room - used < 2) {
			char *more = realloc(text, room * 2);

			if (!more)
				break;
			text = more;
			room *= 2;
		}
	}
	free(text); /* keeps errno */
	return NULL;
}

static int start(char *const argv[], int out, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int err = posix_spawn_file_actions_init(&actions);

	if (err)
		return -err;
	err = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (!err)
		err = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

int spawn_read(char *const argv[], char **output)
{
	int ends[2], err, status, kept;
	char *text = NULL;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	err = start(argv, ends[1], &pid);
	close(ends[1]);
	if (err)
		goto out;
	text = read_all(ends[0]);
	kept = text ? 0 : errno;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	err = kept ? -kept : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
out:
	close(ends[0]);
	*output = text;
	return err;
}
