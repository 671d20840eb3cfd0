/* SPDX-License-Identifier: MIT */
/*
 * KTAP: test cases in processes of their own, one result line each.
 *
 * A case runs in a child with its own process group and mount namespace, so that a crash, a hang or a forgotten mount
 * is that case's failure and nothing more. The program's hooks look at the system before and after each case.
 */
#ifndef HUGEPIN_KTAP_H
#define HUGEPIN_KTAP_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

struct ktap_case {
	const char *name;		/* the behaviour under test */
	void (*run)(const void *arg);	/* returns: passed */
	const void *arg;
	const char *variant;		/* shown after the name, or NULL */
	unsigned int timeout_s;		/* 0: KTAP_TIMEOUT_S; KTAP_PATIENCE=N in the environment: N times that */
};

struct ktap_hooks {
	void (*start)(void);		/* once; before any case */
	void (*before)(void);		/* in the parent, before each case */
	/* After each case, when all its processes are gone; NULL or why the system is not as it was. */
	const char *(*after)(void);
	void (*restore)(void);		/* after the last case and on a signal; must be async-signal-safe */
};

#define KTAP_TIMEOUT_S	30
#define KTAP_PASS	0
#define KTAP_FAIL	1
#define KTAP_SKIP	4

/*
 * Runs the cases whose "name [variant]" contains one of the words on the command line (all, if there are none) and
 * returns the program's exit status: 0 if none failed. -l lists the cases.
 */
int ktap_main(int argc, char **argv, const struct ktap_case *cases, size_t count, const struct ktap_hooks *hooks);

/* A remark in the report, one line. */
void ktap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the case as failed; @what is the condition that does not hold, in the program's words, or NULL. */
void ktap_fail(const char *file, int line, const char *what, const char *format, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
/* Ends the case as skipped. Only for what this kernel or machine truly lacks. */
void ktap_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* fork() that cannot fail and whose child dies with the case; a child ends with ktap_exit() or by a signal. */
pid_t ktap_fork(void);
void ktap_exit(void) __attribute__((noreturn));
/* Waits for a child: fails the case unless it passed all its checks; or unless it died of @signal. */
void ktap_join(pid_t child);
void ktap_join_killed(pid_t child, int signal);

#define ktap_fail_here(...)		ktap_fail(__FILE__, __LINE__, NULL, __VA_ARGS__)
#define ktap_fail_as(what, ...)		ktap_fail(__FILE__, __LINE__, what, __VA_ARGS__)

/* CHECK(condition, "format", …): the condition holds, or the case fails with the text. */
#define CHECK(condition, ...)								\
	do {										\
		if (!(condition))							\
			ktap_fail_as(#condition, __VA_ARGS__);				\
	} while (0)

#define CHECK_EQ(left, right)								\
	do {										\
		long long left_ = (left), right_ = (right);				\
											\
		if (left_ != right_)							\
			ktap_fail_as(#left " == " #right, "%lld and %lld", left_, right_);	\
	} while (0)

/* The call answers 0 or more; gives its answer. */
#define CHECK_OK(call)									\
	({										\
		long long answer_ = (call);						\
											\
		if (answer_ < 0)							\
			ktap_fail_as(#call, "%s", strerror(errno));			\
		answer_;								\
	})

/* The call answers -1 and @error. */
#define CHECK_ERRNO(call, error)							\
	do {										\
		long long answer_ = (errno = 0, (long long)(call));			\
		int error_ = errno;							\
											\
		if (answer_ != -1 || error_ != (error))					\
			ktap_fail_as(#call, "%lld (%s), not " #error, answer_,		\
				     error_ ? strerror(error_) : "no error");		\
	} while (0)

#endif /* HUGEPIN_KTAP_H */
