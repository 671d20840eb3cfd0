// SPDX-License-Identifier: MIT
/*
 * What `hugepinctl run` asked for, through the environment. Read at the first allocation that could matter, which may
 * come before every constructor: so this allocates nothing.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim.h"

struct settings settings = { .threshold = THRESHOLD_MIN };

/*
 * A reader that has gone, or a limit on files, must not end a program that has not written anything itself. The signal
 * of a failed write goes to the thread that made it: it is held here and taken back. One that waited before is the
 * program's, and stays.
 */
void put_text(int fd, const char *text, size_t length)
{
	static const struct timespec at_once;
	sigset_t ours, before, waiting;
	int saved = errno, signo = 0;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	if (pthread_sigmask(SIG_BLOCK, &ours, &before))
		return;
	sigpending(&waiting);
	if (write(fd, text, length) < 0)
		signo = errno == EPIPE ? SIGPIPE : errno == EFBIG ? SIGXFSZ : 0;
	if (signo && !sigismember(&waiting, signo)) {
		sigemptyset(&ours);
		sigaddset(&ours, signo);
		sigtimedwait(&ours, NULL, &at_once);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = saved;
}

void say(const char *format, ...)
{
	char line[1280];		/* the library's are up to 1023 bytes */
	va_list args;
	int length = snprintf(line, sizeof(line), "hugepin: %s[%d]: ", program_invocation_short_name, (int)getpid());

	va_start(args, format);
	if (length > 0 && (size_t)length < sizeof(line))
		length += vsnprintf(line + length, sizeof(line) - (size_t)length, format, args);
	va_end(args);
	if (length < 0)
		return;
	if ((size_t)length > sizeof(line) - 1)
		length = sizeof(line) - 1;
	line[length++] = '\n';
	put_text(STDERR_FILENO, line, (size_t)length);
}

static struct stat stderr_then;

/* At the first allocation or, where there was none, before main(). */
static __attribute__((constructor)) void remember_stderr(void)
{
	if (!stderr_then.st_mode && fstat(STDERR_FILENO, &stderr_then))
		stderr_then.st_mode = 0;
}

bool stderr_is_still(void)
{
	struct stat now;

	return stderr_then.st_mode && !fstat(STDERR_FILENO, &now) && now.st_dev == stderr_then.st_dev &&
	       now.st_ino == stderr_then.st_ino;
}

/* Decimal digits only, as hugepinctl writes them. */
static bool parse(const char *text, size_t *out)
{
	size_t n = 0;

	if (!*text)
		return false;
	for (; *text; text++)
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (size_t)(*text - '0'), &n))
			return false;
	*out = n;
	return true;
}

static bool is_this_library(const char *entry, size_t length)
{
	static const char name[] = "libhugepin-shim.so";
	size_t own = sizeof(name) - 1;

	return length >= own && !memcmp(entry + length - own, name, own) &&
	       (length == own || entry[length - own - 1] == '/');
}

/* Ours out of LD_PRELOAD, in place; others stay. The environment's strings are writable. */
static void leave_children_alone(char *preload)
{
	char *in = preload, *out = preload;
	size_t length;

	while (*in) {
		in += strspn(in, " :");
		length = strcspn(in, " :");
		if (length && !is_this_library(in, length)) {
			if (out > preload)
				*out++ = ':';
			memmove(out, in, length);
			out += length;
		}
		in += length;
	}
	*out = '\0';
}

void settings_read(void)
{
	static bool done;
	const char *threshold, *children;
	char *preload;
	size_t bytes = SIZE_MAX;

	if (done || !environ)
		return;
	done = true;
	remember_stderr();
	threshold = getenv(ENV_THRESHOLD);
	children = getenv(ENV_CHILDREN);
	preload = getenv("LD_PRELOAD");
	settings.report = getenv(ENV_REPORT);
	settings.hooking = !getauxval(AT_SECURE);
	if (settings.hooking && threshold && (!parse(threshold, &bytes) || bytes < THRESHOLD_MIN)) {
		say("%s=%s is not a number of bytes from %zu on: nothing is served", ENV_THRESHOLD, threshold,
		    THRESHOLD_MIN);
		settings.hooking = false;
	}
	if (settings.hooking && preload && children && !strcmp(children, "0"))
		leave_children_alone(preload);
	atomic_store(&settings.threshold, settings.hooking ? bytes : SIZE_MAX);
}
