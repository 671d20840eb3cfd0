// SPDX-License-Identifier: MIT
/* hugepin-trace-record: runs a program with the recorder preloaded and writes its trace. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "convert.h"

#define EXIT_OURS 125	/* as env(1) and timeout(1): the failure is ours, not the program's */
#define DEFAULT_MIN_BYTES 1024
#define DEFAULT_OUTPUT "trace.hptrace.zst"

static volatile sig_atomic_t child;

static const char usage[] =
	"Usage: record [-o FILE] [--min-bytes N] -- PROGRAM [ARGUMENT...]\n"
	"Run PROGRAM and write the trace of its memory allocations.\n"
	"\n"
	"  -o, --output FILE   the trace; compressed if it ends in .zst (default " DEFAULT_OUTPUT ")\n"
	"      --min-bytes N   record blocks of N bytes and more, only count smaller ones (default 1024)\n"
	"      --library FILE  the recorder (default: libtrace-record.so beside this program's directory, in ../lib)\n"
	"  -h, --help\n"
	"\n"
	"The exit status is PROGRAM's (128 + N after signal N); 125 if the recording failed, 126 and 127 if PROGRAM\n"
	"could not be run. Only PROGRAM itself is recorded, not its children; after an exec the recording begins anew.\n";

__attribute__((format(printf, 1, 2)))
static void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("record: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

static int parse_bytes(const char *text, uint64_t *bytes)
{
	unsigned long long value;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || value > HP_TRACE_MAX_BLOCK_BYTES)
		return -EINVAL;
	*bytes = value;
	return 0;
}

static int find_library(const char *given, char path[PATH_MAX])
{
	static const char beside[] = "/../lib/libtrace-record.so";
	ssize_t length;
	char *slash;

	if (given)
		return realpath(given, path) ? 0 : -errno;
	length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	if (length < 0)
		return -errno;
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash || (size_t)(slash - path) + sizeof(beside) > PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(slash, beside, sizeof(beside));
	return access(path, R_OK) ? -errno : 0;
}

/* ---- The spool file ---- */

static int spool_create(char path[PATH_MAX], uint64_t min_bytes, struct spool_header **out)
{
	const char *directory = getenv("TMPDIR");
	struct spool_header *spool;
	int fd, rc;

	if (snprintf(path, PATH_MAX, "%s/hugepin-trace.XXXXXX", directory && *directory ? directory : "/tmp") >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The header's blocks come first: a page that cannot be backed is a SIGBUS. */
	rc = ftruncate(fd, SPOOL_BYTES) ? -errno : -posix_fallocate(fd, 0, SPOOL_CHUNK_BYTES);
	if (rc)
		goto no_space;
	spool = mmap(NULL, SPOOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (spool == MAP_FAILED) {
		rc = -errno;
		goto no_space;
	}
	close(fd);
	spool->min_bytes = min_bytes;
	atomic_store(&spool->backed_bytes, SPOOL_CHUNK_BYTES);
	spool->magic = SPOOL_MAGIC;
	*out = spool;
	return 0;

no_space:
	close(fd);
	unlink(path);
	return rc;
}

/* ---- The program ---- */

static void pass_on(int number)
{
	if (child > 0)
		kill((pid_t)child, number);
}

static void run_program(char **argv, const char *library, const char *spool_path)
{
	const char *before = getenv("LD_PRELOAD");
	char *preload;

	if (asprintf(&preload, "%s%s%s", library, before && *before ? ":" : "", before ? before : "") < 0 ||
	    setenv("LD_PRELOAD", preload, 1) || setenv(SPOOL_ENV, spool_path, 1))
		_exit(EXIT_OURS);
	execvp(argv[0], argv);
	complain("%s: %s", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* Return: the program's wait status, or -errno. */
static int spawn_and_wait(char **argv, const char *library, const char *spool_path)
{
	struct sigaction forward = { .sa_handler = pass_on, .sa_flags = SA_RESTART };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction old_int, old_quit;
	int status;
	pid_t pid;

	/* From the terminal these reach the program too; the trace is wanted all the more then. */
	sigaction(SIGINT, &ignore, &old_int);
	sigaction(SIGQUIT, &ignore, &old_quit);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		sigaction(SIGINT, &old_int, NULL);
		sigaction(SIGQUIT, &old_quit, NULL);
		run_program(argv, library, spool_path);
	}
	child = pid;
	sigaction(SIGTERM, &forward, NULL);
	sigaction(SIGHUP, &forward, NULL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	child = 0;
	return status;
}

/* ---- The trace ---- */

static int write_trace(const struct spool_header *spool, const char *output)
{
	struct hp_trace_writer *writer = hp_trace_writer_create(spool->min_bytes);
	struct hp_trace_converted done;
	uint32_t failed = atomic_load(&spool->failed);
	char why[256] = "out of memory";
	const void *data;
	size_t bytes;
	int rc;

	if (!atomic_load(&spool->run)) {
		complain("no trace: the recorder was not loaded (a static or set-user-ID program?)");
		rc = -ENOEXEC;
		goto out;
	}
	if (failed) {
		complain("no trace: the recording ended early: %s", strerror((int)failed));
		rc = -(int)failed;
		goto out;
	}
	rc = writer ? hp_trace_convert(spool, writer, &done) : -ENOMEM;
	if (!rc)
		rc = hp_trace_writer_finish(writer, atomic_load(&spool->small_allocs), &data, &bytes);
	if (rc) {
		complain("no trace: %s", strerror(-rc));
		goto out;
	}
	rc = hp_trace_store(output, data, bytes, why, sizeof(why));
	if (rc) {
		complain("%s: %s", output, why);
		goto out;
	}
	fprintf(stderr, "record: %s: %" PRIu64 " records, %zu bytes before compression, %" PRIu64
		" smaller blocks only counted\n", output, done.events, bytes, atomic_load(&spool->small_allocs));
	if (done.implied_frees)
		complain("%" PRIu64 " blocks were freed where the recorder could not see it", done.implied_frees);
out:
	hp_trace_writer_destroy(writer);
	return rc;
}

int main(int argc, char **argv)
{
	enum { OPT_MIN_BYTES = 256, OPT_LIBRARY };
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "min-bytes", required_argument, NULL, OPT_MIN_BYTES },
		{ "library", required_argument, NULL, OPT_LIBRARY },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	char library[PATH_MAX], spool_path[PATH_MAX];
	const char *output = DEFAULT_OUTPUT, *given = NULL;
	uint64_t min_bytes = DEFAULT_MIN_BYTES;
	struct spool_header *spool = NULL;
	int opt, rc, status;

	/* "+": what follows the program's name is the program's */
	while ((opt = getopt_long(argc, argv, "+o:h", options, NULL)) != -1) {
		switch (opt) {
		case 'o':
			output = optarg;
			break;
		case OPT_MIN_BYTES:
			if (parse_bytes(optarg, &min_bytes)) {
				complain("--min-bytes: \"%s\" is not a number of bytes", optarg);
				return EXIT_OURS;
			}
			break;
		case OPT_LIBRARY:
			given = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return EXIT_OURS;
		}
	}
	if (optind == argc) {
		fputs(usage, stderr);
		return EXIT_OURS;
	}
	rc = find_library(given, library);
	if (rc) {
		complain("cannot find the recorder: %s", strerror(-rc));
		return EXIT_OURS;
	}
	rc = spool_create(spool_path, min_bytes, &spool);
	if (rc) {
		complain("cannot make the spool file: %s", strerror(-rc));
		return EXIT_OURS;
	}
	status = spawn_and_wait(argv + optind, library, spool_path);
	unlink(spool_path);
	if (status < 0) {
		complain("cannot run the program: %s", strerror(-status));
		return EXIT_OURS;
	}
	/* A program that could not be started has no trace, and has said so itself. */
	if (!atomic_load(&spool->run) && WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127))
		return WEXITSTATUS(status);
	rc = write_trace(spool, output);
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return rc ? EXIT_OURS : WEXITSTATUS(status);
}
