// SPDX-License-Identifier: MIT
/*
 * What the shim writes and cannot write must not be seen by the program: no signal, whatever the program does with it,
 * and no other errno. The shim's code is linked, not preloaded.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "expect.h"
#include "shim.h"

static volatile sig_atomic_t handled;

static void handle(int signo)
{
	(void)signo;
	handled++;
}

static bool waits(int signo)
{
	sigset_t waiting;

	EXPECT(!sigpending(&waiting));
	return sigismember(&waiting, signo);
}

static bool blocked(int signo)
{
	sigset_t mask;

	EXPECT(!pthread_sigmask(SIG_BLOCK, NULL, &mask));
	return sigismember(&mask, signo);
}

/* @fd: writing to it brings @signo. */
static void write_there(int fd, int signo)
{
	static void (*const dispositions[])(int) = { SIG_DFL, SIG_IGN, handle };
	sigset_t one;
	size_t i;

	sigemptyset(&one);
	sigaddset(&one, signo);
	for (i = 0; i < sizeof(dispositions) / sizeof(dispositions[0]); i++) {
		EXPECT(signal(signo, dispositions[i]) != SIG_ERR);
		errno = ENOTTY;
		put_text(fd, "text\n", 5);
		EXPECT_CODE(errno, ENOTTY);
		EXPECT(!handled && !waits(signo) && !blocked(signo));
	}
	EXPECT(!pthread_sigmask(SIG_BLOCK, &one, NULL));
	put_text(fd, "text\n", 5);
	EXPECT(!waits(signo) && blocked(signo));
	raise(signo);
	put_text(fd, "text\n", 5);
	EXPECT(waits(signo) && blocked(signo));
	EXPECT(!pthread_sigmask(SIG_UNBLOCK, &one, NULL));
	EXPECT_CODE(handled, 1);	/* the program's own, once */
	handled = 0;
}

int main(void)
{
	struct rlimit limit = { 0, 0 };
	FILE *file = tmpfile();
	int ends[2];

	EXPECT(file && !pipe(ends) && !close(ends[0]) && !setrlimit(RLIMIT_FSIZE, &limit));
	write_there(ends[1], SIGPIPE);
	write_there(fileno(file), SIGXFSZ);
	EXPECT(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	say("to nobody");
	return 0;
}
