// SPDX-License-Identifier: MIT
/* hugepinctl run: start a program with the preload shim before it. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hugepinctl.h"

#define SHIM		"libhugepin-shim.so"
#define THRESHOLD_MIN	((uint64_t)64 << 10)

/* As env(1), nohup(1) and the shell have it. */
#define STATUS_CANNOT_RUN	126
#define STATUS_NOT_FOUND	127

struct run_request {
	const char *threshold, *report;
	bool quiet, no_children;
	char **program;
};

/* ---- numbers ---- */

/* As the library's options of bytes, whose parser no public function gives access to; the tests compare the two. */
static int parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "KkMmGgTt";
	const char *unit, *digits = text;
	unsigned int shift = 0;
	uint64_t n = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
			return -EINVAL;
	if (text == digits)
		return -EINVAL;
	unit = *text ? strchr(units, *text) : NULL;
	if (unit) {
		shift = 10 * (unsigned int)((unit - units) / 2 + 1);
		text++;
		text += *text == 'i';
	}
	text += *text == 'B';
	if (*text || __builtin_mul_overflow(n, (uint64_t)1 << shift, &n))
		return -EINVAL;
	*out = n;
	return 0;
}

/* ---- the environment ---- */

static bool is_there(const char *path)
{
	return !access(path, R_OK);
}

/* Beside this program, as in the build tree and under a prefix; else where it was to be installed. */
static int find_shim(char path[PATH_MAX], struct message *why)
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - sizeof("/../lib/" SHIM));
	char *slash;

	path[length < 0 ? 0 : length] = '\0';
	slash = strrchr(path, '/');
	if (slash) {
		strcpy(slash, "/../lib/" SHIM);
		if (is_there(path))
			return 0;
	}
	if (!is_there(SHIM_DIR "/" SHIM))
		return message_set(why, -ENOENT, "there is no " SHIM ", neither in ../lib beside this program nor in "
				   SHIM_DIR);
	strcpy(path, SHIM_DIR "/" SHIM);
	return 0;
}

static int set_variable(const char *name, const char *value, struct message *why)
{
	if (value ? !setenv(name, value, 1) : !unsetenv(name))
		return 0;
	return message_set(why, -errno, "%s=%s: %s", name, value ? value : "", strerror(errno));
}

/* @shim before @others, without another @shim among them; NULL: no memory. */
static char *join_preload(const char *shim, const char *others)
{
	size_t own = strlen(shim), length;
	char *all = malloc(own + 1 + strlen(others) + 1), *end;

	if (!all)
		return NULL;
	end = stpcpy(all, shim);
	for (; *others; others += length) {
		others += strspn(others, " :");
		length = strcspn(others, " :");
		if (!length || (length == own && !memcmp(others, shim, own)))
			continue;
		*end++ = ':';
		end = mempcpy(end, others, length);
	}
	*end = '\0';
	return all;
}

/* First in LD_PRELOAD, once. ld.so splits it at blanks and colons, and knows no quoting. */
static int set_preload(struct message *why)
{
	const char *before = getenv("LD_PRELOAD");
	char path[PATH_MAX], shim[PATH_MAX], *all;
	int err = find_shim(path, why);

	if (err)
		return err;
	if (!realpath(path, shim))
		return message_set(why, -errno, "%s: %s", path, strerror(errno));
	if (strpbrk(shim, " :\t\n"))
		return message_set(why, -EINVAL, "the dynamic loader cannot preload %s: a blank or a colon in its path",
				   shim);
	all = join_preload(shim, before ? before : "");
	if (!all)
		return message_set(why, -ENOMEM, "no memory for LD_PRELOAD");
	err = set_variable("LD_PRELOAD", all, why);
	free(all);
	return err;
}

static int set_threshold(const char *text, struct message *why)
{
	char number[24];
	uint64_t bytes;

	if (!text)
		return set_variable("HUGEPINCTL_RUN_THRESHOLD", NULL, why);
	if (parse_size(text, &bytes))
		return message_set(why, -EINVAL, "--host-threshold=%s is no size, such as 65536, 512K, 1M or 2GiB",
				   text);
	if (bytes < THRESHOLD_MIN)
		return message_set(why, -EINVAL,
				   "--host-threshold=%s is less than 64K: small blocks are the C library's", text);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)bytes);
	return set_variable("HUGEPINCTL_RUN_THRESHOLD", number, why);
}

/*
 * That it can be written is known now, not when the program has ended. The shim opens it in the same way: without
 * waiting for the reader of a FIFO.
 */
static int check_report(const char *file, struct message *why)
{
	int fd, flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY;
	struct stat there;
	bool fifo = !stat(file, &there) && S_ISFIFO(there.st_mode);

	fd = open(file, fifo ? flags | O_NONBLOCK : flags, 0666);
	if (fd >= 0) {
		close(fd);
		return 0;
	}
	return message_set(why, -errno, "--report=%s: %s", file,
			   fifo && errno == ENXIO ? "is a FIFO without a reader" : strerror(errno));
}

/* Whatever directory the program goes to. */
static int set_report(const struct run_request *request, struct message *why)
{
	char *cwd = NULL, *path = NULL;
	const char *file = request->report;
	int err;

	if (request->quiet || !file || !strcmp(file, "-"))
		return set_variable("HUGEPINCTL_RUN_REPORT", request->quiet ? "" : file, why);
	err = check_report(file, why);
	if (err)
		return err;
	if (*file != '/') {
		cwd = getcwd(NULL, 0);
		if (!cwd || asprintf(&path, "%s/%s", cwd, file) < 0) {
			free(cwd);
			return message_set(why, -ENOMEM, "--report=%s: no path to it", file);
		}
		file = path;
	}
	err = set_variable("HUGEPINCTL_RUN_REPORT", file, why);
	free(path);
	free(cwd);
	return err;
}

/* The library's options come from the environment too: one that is wrong is told here, once. */
static int check_options(struct message *why)
{
	struct hugepin_options *options;
	int err = hugepin_options_create(&options);

	if (!err) {
		err = hugepin_options_load_environment(options);
		hugepin_options_destroy(options);
	}
	return err ? message_set(why, err, "%s", hugepin_error()) : 0;
}

static int prepare(const struct run_request *request, struct message *why)
{
	int err = set_threshold(request->threshold, why);

	if (!err)
		err = check_options(why);
	if (!err)
		err = set_report(request, why);
	if (!err)
		err = set_variable("HUGEPINCTL_RUN_CHILDREN", request->no_children ? "0" : NULL, why);
	if (!err)
		err = set_preload(why);
	return err;
}

/* ---- the program ---- */

/* As execvp() will find it; false where it will not. */
static bool find_program(const char *name, char path[PATH_MAX])
{
	const char *at = getenv("PATH"), *end;

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && !access(path, X_OK);
	for (at = at ? at : "/bin:/usr/bin"; ; at = end + 1) {
		end = strchrnul(at, ':');
		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "", name) < PATH_MAX &&
		    !access(path, X_OK))
			return true;
		if (!*end)
			return false;
	}
}

/* A program without a dynamic loader has nobody to preload for it. Not ELF: a script, whose interpreter counts. */
static bool is_static(int fd)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;
	unsigned int i;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(part))
		return false;
	for (i = 0; i < head.e_phnum; i++)
		if (pread(fd, &part, sizeof(part), (off_t)(head.e_phoff + i * sizeof(part))) != sizeof(part) ||
		    part.p_type == PT_INTERP)
			return false;
	return true;
}

/* What will not be hooked whatever we set runs as it always did, and is told. */
static void warn_if_not_hooked(const char *name)
{
	char path[PATH_MAX];
	struct stat stat;
	int fd;

	if (!find_program(name, path))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return;
	if (!fstat(fd, &stat) && stat.st_mode & (S_ISUID | S_ISGID))
		complain("run: %s is set-user-ID or set-group-ID: it is not hooked", path);
	else if (is_static(fd))
		complain("run: %s is statically linked: it cannot be hooked", path);
	close(fd);
}

static int start(char **program)
{
	int err;

	signals_restore_writes();
	execvp(program[0], program);
	err = errno;
	signals_ignore_writes();
	complain("run: '%s': %s", program[0], strerror(err));
	return err == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	struct run_request request = {
		.threshold = option_value(line, 't'),
		.report = option_value(line, 'r'),
		.quiet = option_given(line, 'q'),
		.no_children = option_given(line, 'c'),
		.program = words,
	};
	struct message why;
	int err;

	if (!nr_words || (request.quiet && request.report)) {
		complain(nr_words ? "run: --quiet and --report contradict" : "run: no program was given");
		return usage_error(&command_run);
	}
	err = prepare(&request, &why);
	if (err) {
		complain("run: %s", why.text);
		return err == -EINVAL ? STATUS_USAGE : status_of(err);
	}
	warn_if_not_hooked(request.program[0]);
	return start(request.program);
}

const struct command command_run = {
	.name = "run",
	.arguments = "[--host-threshold SIZE] [--report FILE|-] [--quiet] [--no-children] [--] PROGRAM [ARGUMENT]...",
	.summary = "run a program with its pinned and large memory from hugepin's pools",
	.options = {
		{ 't', "host-threshold", "SIZE",
		  "blocks of the malloc family of at least SIZE (64K or more) come from\n"
		  "huge pages too; 65536, 512K, 1M, 2GiB" },
		{ 'r', "report", "FILE",
		  "append the line that each process leaves at exit to FILE; with -, write\n"
		  "it to standard error. By default those with something to tell do that" },
		{ 'q', "quiet", NULL, "no such line" },
		{ 'c', "no-children", NULL, "programs that PROGRAM starts are not hooked" },
	},
	.help = "Pinned host memory that PROGRAM allocates with CUDA's runtime or driver API comes from a pool of\n"
		"pinned huge pages. What cannot be served or hooked works as without, and is told at exit.\n"
		"\n"
		"The library's options are set by the environment, such as HUGEPIN_HOST_CAP=8G.\n"
		"The exit status is PROGRAM's; 126: it cannot be run, 127: there is no such program.\n",
	.takes_words = true,
	.words_are_a_program = true,
	.run = run,
};
