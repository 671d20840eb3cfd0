// SPDX-License-Identifier: MIT
/* Running cases and reporting them; see ktap.h. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ktap.h"

#define REASON_BYTES	512

static const int ending_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static const struct ktap_hooks *active_hooks;
static volatile pid_t running_case;	/* process group of the case, for the signal handler */
static char *reason;			/* shared with the case: why it was skipped */

/* One write a line: several processes report at once. */
static void say(const char *prefix, const char *format, va_list ap)
{
	char line[1024];
	int length = snprintf(line, sizeof(line), "%s", prefix);

	length += vsnprintf(line + length, sizeof(line) - length - 1, format, ap);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (write(STDOUT_FILENO, line, length) < 0)
		_exit(KTAP_FAIL);
}

static void __attribute__((format(printf, 1, 2))) print(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say("", format, ap);
	va_end(ap);
}

void ktap_note(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say("# ", format, ap);
	va_end(ap);
}

void ktap_fail(const char *file, int line, const char *what, const char *format, ...)
{
	const char *name = strrchr(file, '/');
	char prefix[400];
	va_list ap;

	snprintf(prefix, sizeof(prefix), "# %s:%d: %s%s", name ? name + 1 : file, line, what ? what : "",
		 what ? ": " : "");
	va_start(ap, format);
	say(prefix, format, ap);
	va_end(ap);
	_exit(KTAP_FAIL);
}

void ktap_skip(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(reason, REASON_BYTES, format, ap);
	va_end(ap);
	_exit(KTAP_SKIP);
}

pid_t ktap_fork(void)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		ktap_fail_here("fork: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(KTAP_FAIL);
	}
	return child;
}

void ktap_exit(void)
{
	_exit(KTAP_PASS);
}

static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			ktap_fail_here("waitpid(%d): %s", child, strerror(errno));
	return status;
}

void ktap_join(pid_t child)
{
	int status = wait_for(child);

	if (WIFEXITED(status) && WEXITSTATUS(status) == KTAP_PASS)
		return;
	if (WIFSIGNALED(status))
		ktap_fail_here("a child died of signal %d", WTERMSIG(status));
	_exit(WEXITSTATUS(status));	/* it said why */
}

void ktap_join_killed(pid_t child, int signal)
{
	int status = wait_for(child);

	if (WIFEXITED(status) && WEXITSTATUS(status) != KTAP_PASS)
		_exit(WEXITSTATUS(status));
	if (!WIFSIGNALED(status) || WTERMSIG(status) != signal)
		ktap_fail_here("a child ended with status %#x, not by signal %d", status, signal);
}

static void on_signal(int signal)
{
	if (running_case > 0)
		kill(-running_case, SIGKILL);
	if (active_hooks->restore)
		active_hooks->restore();
	_exit(128 + signal);
}

static void handle_signals(void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };
	size_t i;

	for (i = 0; i < sizeof(ending_signals) / sizeof(ending_signals[0]); i++)
		sigaction(ending_signals[i], &action, NULL);
}

static void case_child(const struct ktap_case *one)
{
	handle_signals(SIG_DFL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		ktap_fail_here("cannot have a mount namespace: %s", strerror(errno));
	one->run(one->arg);
	_exit(KTAP_PASS);
}

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Ends whatever the case left running; we are its subreaper, so waiting until nobody is left is possible. */
static void reap_all(pid_t group)
{
	kill(-group, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

/* How many times as long as elsewhere a case may take here. */
static unsigned int patience(void)
{
	const char *text = getenv("KTAP_PATIENCE");
	unsigned long times;
	char *end;

	if (!text)
		return 1;
	times = strtoul(text, &end, 10);
	if (*end || !times || times > 100)
		ktap_fail_here("KTAP_PATIENCE=%s: want a number from 1 to 100", text);
	return times;
}

/* Runs the case; its exit status, or -signal, or -SIGALRM when it took too long. */
static int run_case(const struct ktap_case *one)
{
	long long end = now_ms() + 1000LL * patience() * (one->timeout_s ? one->timeout_s : KTAP_TIMEOUT_S);
	int status = 0;
	pid_t child, done;

	reason[0] = '\0';
	child = fork();
	if (child < 0)
		ktap_fail_here("fork: %s", strerror(errno));
	if (!child)
		case_child(one);
	setpgid(child, child);
	running_case = child;
	while ((done = waitpid(child, &status, WNOHANG)) == 0 && now_ms() < end)
		poll(NULL, 0, 2);
	reap_all(child);
	running_case = 0;
	if (done != child)
		return -SIGALRM;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void case_title(const struct ktap_case *one, char *title, size_t room)
{
	if (one->variant)
		snprintf(title, room, "%s [%s]", one->name, one->variant);
	else
		snprintf(title, room, "%s", one->name);
}

/* Reports the case as number @number; true unless it failed. */
static bool report_case(const struct ktap_case *one, unsigned int number)
{
	const char *changed;
	char title[160];
	int result;

	case_title(one, title, sizeof(title));
	if (active_hooks->before)
		active_hooks->before();
	result = run_case(one);
	changed = active_hooks->after ? active_hooks->after() : NULL;
	if (changed)
		ktap_note("%s: %s", title, changed);
	if (result == -SIGALRM)
		ktap_note("%s: killed, it took too long", title);
	else if (result < 0)
		ktap_note("%s: died of signal %d (%s)", title, -result, strsignal(-result));

	if (!changed && result == KTAP_PASS)
		print("ok %u %s", number, title);
	else if (!changed && result == KTAP_SKIP)
		print("ok %u %s # SKIP %s", number, title, reason);
	else
		print("not ok %u %s", number, title);
	return !changed && (result == KTAP_PASS || result == KTAP_SKIP);
}

static bool chosen(const struct ktap_case *one, int argc, char **argv)
{
	char title[160];
	int i;

	case_title(one, title, sizeof(title));
	for (i = 1; i < argc; i++)
		if (strstr(title, argv[i]))
			return true;
	return argc < 2;
}

static void prepare(const struct ktap_hooks *hooks)
{
	active_hooks = hooks;
	reason = mmap(NULL, REASON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reason == MAP_FAILED)
		ktap_fail_here("mmap: %s", strerror(errno));
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (hooks->start)
		hooks->start();
	handle_signals(on_signal);
}

int ktap_main(int argc, char **argv, const struct ktap_case *cases, size_t count, const struct ktap_hooks *hooks)
{
	unsigned int number = 0, planned = 0, failed = 0;
	bool list = argc == 2 && !strcmp(argv[1], "-l");
	char title[160];
	size_t i;

	for (i = 0; i < count; i++) {
		case_title(&cases[i], title, sizeof(title));
		if (list)
			print("%s", title);
		else
			planned += chosen(&cases[i], argc, argv);
	}
	if (list)
		return 0;
	print("KTAP version 1");
	prepare(hooks);
	print("1..%u", planned);
	for (i = 0; i < count; i++)
		if (chosen(&cases[i], argc, argv))
			failed += !report_case(&cases[i], ++number);
	if (hooks->restore)
		hooks->restore();
	return failed || !planned ? KTAP_FAIL : KTAP_PASS;
}
