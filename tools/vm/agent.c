// SPDX-License-Identifier: MIT
/*
 * Process 1 of the machine: mounts what a Linux system has, then runs commands that come over the second serial line
 * and sends back what they print and how they end. (A script of busybox commands would do the first part as well; it
 * took half a second, a tenth of the whole boot.)
 *
 * A frame, in both directions: the four bytes "HPvm", a type, an id and a length (32 bits each, little endian), then
 * that many bytes. The id is the command's; whoever connects later tells old frames from its own by it. The magic
 * lets both sides find the next frame after the other side went away in the middle of one.
 *
 *   to here:    R  run: strings, each ended by NUL: folder, number of variables, variables, program, arguments
 *               K  send the signal (one byte) to the running command's process group
 *               T  have the kernel log the blocked tasks and what each CPU does
 *   from here:  H  ready        O  standard output    E  standard error
 *               X  ended: 32 bits, the exit status, 128 + n after signal n
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define LINE		"/dev/ttyS1"
#define FRAME_MAX	(1 << 20)

static const char magic[4] = { 'H', 'P', 'v', 'm' };

struct frame {
	char magic[4];
	uint8_t type;
	uint32_t id;
	uint32_t bytes;
} __attribute__((packed));

struct command {
	uint32_t id;
	pid_t pid;	/* 0: none is running */
	int out[2];	/* ends we read: standard output, standard error; -1 when closed */
};

static int line = -1;

static void write_all(int fd, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0 && errno != EINTR)
			return;
		if (n > 0) {
			at += n;
			bytes -= n;
		}
	}
}

static void send_frame(uint8_t type, uint32_t id, const void *data, uint32_t bytes)
{
	struct frame f = { .type = type, .id = id, .bytes = bytes };

	memcpy(f.magic, magic, sizeof(magic));
	write_all(line, &f, sizeof(f));
	write_all(line, data, bytes);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		return;
	write_all(fd, text, strlen(text));
	close(fd);
}

/* The host reads the kernel log until this mark before it judges a command. */
static void mark(const char *what, uint32_t id)
{
	char text[64];

	snprintf(text, sizeof(text), "<6>hugepin-vm: %s %u\n", what, id);
	write_file("/dev/kmsg", text);
}

/* In the child. What a login on Debian would have: no core files, 8 MiB that may be locked. */
static _Noreturn void become(const char *folder, char **env, char **argv)
{
	struct rlimit core = { 0, 0 }, locked = { 8 << 20, 8 << 20 }, files = { 1024, 524288 };
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	setsid();
	dup2(null, 0);
	close(null);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setrlimit(RLIMIT_CORE, &core);
	setrlimit(RLIMIT_MEMLOCK, &locked);
	setrlimit(RLIMIT_NOFILE, &files);
	if (chdir(folder) && chdir("/"))
		_exit(126);
	environ = env;
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static void start(struct command *c, uint32_t id, char *data, uint32_t bytes)
{
	char **strings, *folder;
	int out[2], err[2];
	uint32_t count = 0, n = 0;
	size_t variables;

	for (uint32_t i = 0; i < bytes; i++)
		count += !data[i];
	strings = calloc(count + 2, sizeof(*strings));
	for (char *at = data; n < count; at += strlen(at) + 1)
		strings[n++] = at;
	folder = strings[0];
	variables = count > 1 ? strtoul(strings[1], NULL, 10) : 0;
	if (count < 3 + variables) {
		free(strings);
		return;
	}
	/* One slot moves so that the variables end in a NULL of their own: the count's slot becomes the first one. */
	memmove(&strings[1], &strings[2], variables * sizeof(*strings));
	strings[1 + variables] = NULL;

	mark("run", id);
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		abort();
	c->id = id;
	c->pid = fork();
	if (!c->pid) {
		dup2(out[1], 1);
		dup2(err[1], 2);
		become(folder, &strings[1], &strings[2 + variables]);
	}
	close(out[1]);
	close(err[1]);
	c->out[0] = out[0];
	c->out[1] = err[0];
	for (int i = 0; i < 2; i++)
		fcntl(c->out[i], F_SETFL, O_NONBLOCK);
	free(strings);
}

/* Pass on what is there; true while more may come at once. */
static int forward(struct command *c, int which)
{
	char buffer[16384];
	ssize_t n = read(c->out[which], buffer, sizeof(buffer));

	if (n > 0) {
		send_frame("OE"[which], c->id, buffer, n);
		return 1;
	}
	if (n == 0) {
		close(c->out[which]);
		c->out[which] = -1;
	}
	return 0;
}

static void finish(struct command *c, int status)
{
	uint32_t code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

	/* Only what is in the pipes now: a process left in the background may hold them open for ever. */
	for (int i = 0; i < 2; i++) {
		while (c->out[i] >= 0 && forward(c, i))
			;
		if (c->out[i] >= 0)
			close(c->out[i]);
		c->out[i] = -1;
	}
	c->pid = 0;
	mark("end", c->id);
	send_frame('X', c->id, &code, sizeof(code));
}

static void reap(struct command *c)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == c->pid)
			finish(c, status);
}

static void handle(struct command *c, const struct frame *f, char *data)
{
	switch (f->type) {
	case 'R':
		if (c->pid) {	/* whoever asked for it is gone */
			kill(-c->pid, SIGKILL);
			waitpid(c->pid, NULL, 0);
			finish(c, SIGKILL);
		}
		start(c, f->id, data, f->bytes);
		break;
	case 'K':
		if (c->pid && c->id == f->id && f->bytes == 1)
			kill(-c->pid, data[0]);
		break;
	case 'T':
		write_file("/proc/sysrq-trigger", "w");
		write_file("/proc/sysrq-trigger", "l");
		break;
	}
}

/* Take the whole frames off the front of the buffer; returns the bytes that remain. */
static size_t take_frames(struct command *c, char *buffer, size_t used)
{
	size_t at = 0;
	struct frame f;

	while (used - at >= sizeof(f)) {
		memcpy(&f, buffer + at, sizeof(f));
		if (memcmp(f.magic, magic, sizeof(magic)) || f.bytes > FRAME_MAX) {
			at++;
			continue;
		}
		if (used - at < sizeof(f) + f.bytes)
			break;
		handle(c, &f, buffer + at + sizeof(f));
		at += sizeof(f) + f.bytes;
	}
	memmove(buffer, buffer + at, used - at);
	return used - at;
}

/* The root itself is a tmpfs, so /tmp and /run need no other. What a kernel lacks is simply not there. */
static const struct {
	const char *type, *place, *options;
} mounts[] = {
	{ "proc",	"/proc",		NULL },
	{ "sysfs",	"/sys",			NULL },
	{ "devtmpfs",	"/dev",			NULL },
	{ "devpts",	"/dev/pts",		"ptmxmode=666" },
	{ "tmpfs",	"/dev/shm",		"mode=1777" },
	{ "cgroup2",	"/sys/fs/cgroup",	NULL },
	{ "debugfs",	"/sys/kernel/debug",	NULL },
	{ "tracefs",	"/sys/kernel/tracing",	NULL },
};

static void set_up(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int s;

	umask(022);
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i].place, 0755);
		mount(mounts[i].type, mounts[i].place, mounts[i].type, 0, mounts[i].options);
	}
	mark("init", 0);
	chmod("/tmp", 01777);
	chmod("/var/tmp", 01777);
	symlink("/proc/self/fd", "/dev/fd");
	sethostname("hugepin", 7);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ioctl(s, SIOCSIFFLAGS, &lo);
	close(s);
}

static void open_line(void)
{
	struct termios t;

	line = open(LINE, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (line < 0 || tcgetattr(line, &t))
		abort();
	cfmakeraw(&t);
	t.c_cflag |= CLOCAL;
	cfsetspeed(&t, B115200);
	tcsetattr(line, TCSANOW, &t);
}

int main(void)
{
	static char buffer[sizeof(struct frame) + FRAME_MAX];
	struct command c = { .out = { -1, -1 } };
	size_t used = 0;
	sigset_t set;
	int signals;

	set_up();
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	open_line();
	send_frame('H', 0, NULL, 0);

	for (;;) {
		struct pollfd p[] = {
			{ line, POLLIN, 0 }, { signals, POLLIN, 0 },
			{ c.out[0], POLLIN, 0 }, { c.out[1], POLLIN, 0 },
		};
		struct signalfd_siginfo info;
		ssize_t n;

		if (poll(p, 4, -1) < 0)
			continue;
		for (int i = 0; i < 2; i++)
			if (p[2 + i].revents)
				forward(&c, i);
		if (p[1].revents) {
			while (read(signals, &info, sizeof(info)) > 0)
				;
			reap(&c);
		}
		if (p[0].revents) {
			n = read(line, buffer + used, sizeof(buffer) - used);
			if (n > 0)
				used = take_frames(&c, buffer, used + n);
		}
	}
}
