/* SPDX-License-Identifier: MIT */
/*
 * Inside hugepinctl. Prototypes are grouped under the file that defines them; a subcommand is one file with one struct
 * command, named in the table of main.c. Functions return 0 or -errno and put their reason into a struct message; only
 * the subcommands print, and their result is the exit status.
 */
#ifndef HUGEPINCTL_H
#define HUGEPINCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "hugepin.h"

/* Exit status; hugepinctl(1) and --help say the same. */
enum status {
	STATUS_OK = 0,
	STATUS_FAILED = 1,		/* nothing changed, unless the message says what */
	STATUS_USAGE = 2,
	STATUS_NO_MODULE = 3,
	STATUS_PARTIAL = 4,		/* --partial kept less than was asked */
	STATUS_PERMISSION = 5,
};

#define OPTIONS_MAX	8		/* of one command; --help is everyone's */

struct command_option {
	char letter;			/* 0 behind the last */
	const char *name;
	const char *argument;		/* NULL: a switch */
	const char *help;		/* lines with \n between */
};
struct command_line;
struct command {
	const char *name;
	const char *arguments;		/* behind the name in the usage line */
	const char *summary;		/* one line */
	struct command_option options[OPTIONS_MAX];
	const char *help;		/* behind the options; NULL: they say all */
	bool takes_words;
	bool words_are_a_program;	/* options behind the first word are its own */
	int (*run)(const struct command_line *line, char **words, size_t nr_words);
};
extern const struct command command_status, command_reserve, command_release, command_run;
extern const struct command command_explain, command_ps, command_doctor, command_config;
extern const struct command command_adopt, command_metrics, command_top, command_completion;

/* ---- main.c ---- */

const struct command *command_at(size_t position);		/* as help lists them; NULL behind the last */

/* ---- command.c: what a command takes ---- */

/* Parses the command line and runs the command; the exit status. */
int command_start(const struct command *command, int argc, char **argv);
/* What an option was given with, "" for a switch; NULL: it was not given. */
const char *option_value(const struct command_line *line, char letter);
bool option_given(const struct command_line *line, char letter);
const struct command_option *command_option_at(const struct command *command, size_t position);	/* NULL behind --help */
int print_help(const struct command *command);			/* on stdout; the exit status */
int usage_error(const struct command *command);			/* points to the help; STATUS_USAGE */

/* ---- message.c: one line of reason, and how it reaches the user ---- */

struct message {
	char text[512];
};
/* Returns @err (negative): return message_set(why, -EINVAL, "..."); */
int message_set(struct message *why, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));	/* "hugepinctl: ..." on stderr */
int status_of(int err);					/* what a failure with -errno exits with */
int flush_output(int status);				/* @status; STATUS_FAILED if stdout cannot be written */

#define PLURAL(n)	((n) == 1 ? "" : "s")	/* "%u page%s" */

/* ---- text.c: in place, byte by byte: each that does not fit becomes '?' ---- */

void text_for_terminal(char *text);			/* UTF-8 without control characters */
void text_for_json(char *text);				/* UTF-8; json-c writes control characters as escapes */

/* ---- output.c ---- */

/*
 * What @write writes replaces the file at @path, or nothing does; @write returns 0 or -errno. -EINVAL: what is there is
 * not a regular file; a device, a pipe or a link is not replaced by one.
 */
int file_replace(const char *path, int (*write)(FILE *out, void *arg), void *arg, struct message *why);

/* ---- spec.c: NODE:CLASS:COUNT ---- */

#define CLASS_FIRST	HUGEPIN_PAGES_2M
#define CLASS_LAST	HUGEPIN_PAGES_1G

struct spec {
	bool every_node;		/* "*" */
	int node;
	enum hugepin_class page_class;
	bool relative;			/* "+N" */
	uint64_t count;
};
/* The whole of @text or nothing: -EINVAL with the reason. */
int spec_parse(const char *text, struct spec *out, struct message *why);
/*
 * Every argument is a SPEC or several with commas between; no two of them may mean the same node and class. *@out is
 * the caller's to free.
 */
int spec_parse_all(char *const *arguments, size_t count, struct spec **out, size_t *nr, struct message *why);
/* Decimal digits only, no sign, no leading zero, no overflow. */
int number_parse(const char *text, uint64_t max, uint64_t *out);
const char *class_name(enum hugepin_class page_class);
uint64_t class_bytes(enum hugepin_class page_class);

/* ---- session.c: the library, and one look at the reserve ---- */

struct snapshot {
	struct hugepin_reserve_info *entries;	/* by node, 1G before 2M */
	size_t count;
	const char *absent[CLASS_LAST + 1];	/* why the module lacks a class, or NULL */
};
int session_open(struct hugepin_context **out, struct message *why);
int snapshot_take(struct hugepin_context *ctx, struct snapshot *out, struct message *why);
void snapshot_free(struct snapshot *snapshot);
const struct hugepin_reserve_info *snapshot_find(const struct snapshot *snapshot, int node,
						 enum hugepin_class page_class);
static inline uint64_t pages_free(const struct hugepin_reserve_info *info)
{
	return info->clean_pages + info->dirty_pages;
}
/* What nr_hugepages reads and is written as: a faulty page is of no use. */
static inline uint64_t pages_usable(const struct hugepin_reserve_info *info)
{
	return info->total_pages - info->poisoned_pages;
}
static inline bool pages_short(const struct hugepin_reserve_info *info)
{
	return info->asked_pages > pages_usable(info);
}
/*
 * Lets one command at a time change the reserve, so that what one gives back on failure is not another's. Held until
 * the process ends. -EINTR when a signal ends the wait. Where no lock file can be made there is no lock: 0.
 */
int session_lock(void);

/* ---- plan.c: from specs to what each node and class shall hold ---- */

enum change_state {
	CHANGE_TODO,			/* not reached */
	CHANGE_DONE,
	CHANGE_SHORT,			/* tried, holds less (or, when giving back, more) than asked */
	CHANGE_RESTORED,		/* tried, holds what it held before */
	CHANGE_STUCK,			/* tried, could not be put back */
};
struct change {
	int node;
	enum hugepin_class page_class;
	uint64_t before;		/* pages held, faulty ones apart, here and below */
	uint64_t target;		/* pages to hold */
	uint64_t got;			/* most that was reached towards @target */
	uint64_t now;			/* held afterwards */
	enum change_state state;
};
struct plan {
	struct change *changes;
	size_t count;
};
/*
 * @specs: as of spec_parse_all(), for plan_release() none relative. All three: -ENXIO (node), -EOPNOTSUPP (class),
 * -EBUSY (in use), -EOVERFLOW; @out is untouched on failure.
 */
int plan_reserve(const struct snapshot *now, const struct spec *specs, size_t nr, struct plan *out,
		 struct message *why);
int plan_release(const struct snapshot *now, const struct spec *specs, size_t nr, struct plan *out,
		 struct message *why);
int plan_release_all(const struct snapshot *now, struct plan *out, struct message *why);
void plan_free(struct plan *plan);

/* ---- apply.c: carry out a plan, all or nothing ---- */

/* What applying needs from the world; the tests have their own. */
struct apply_ops {
	int (*set)(void *arg, int node, enum hugepin_class page_class, uint64_t pages, uint64_t *got);
	const char *(*error)(void *arg);	/* text of the last failure of @set */
	bool (*interrupted)(void *arg);		/* a signal has asked to end */
	void (*commit)(void *arg);		/* from here on signals wait */
	void *arg;
};
enum apply_result {
	APPLY_DONE,
	APPLY_PARTIAL,			/* short, and kept as the caller wished */
	APPLY_RESTORED,			/* failed; everything is as it was before */
	APPLY_STUCK,			/* failed; the changes marked CHANGE_STUCK could not be put back */
};
struct apply_options {
	bool partial;			/* keep what was got of pages that are short */
	bool free_only;			/* pages that came into use since the plan was made may stay */
	uint64_t wait_s;		/* go on trying for pages that are short so long */
};
/* *@err: 0 or the first failure's -errno, @why its text. */
enum apply_result plan_apply(struct plan *plan, const struct apply_options *options, const struct apply_ops *ops,
			     int *err, struct message *why);

/* ---- signals.c: INT, TERM and HUP while the reserve is being changed; those of a failed write ---- */

/*
 * A reader that has gone, or a limit on files, must not end a command between two changes, or before it has cleaned up:
 * the write fails instead, and is told.
 */
void signals_ignore_writes(void);
void signals_restore_writes(void);	/* as our parent had them: what is ignored is inherited by a program */
int signals_catch(void);		/* from now on they are noted, and keep interrupting until signals_hold() */
bool signals_caught(void);
void signals_hold(void);		/* from now on they wait */
void signals_release(void);		/* as before signals_catch(); ends the process by the signal that was caught */

/* ---- change.c: what reserve and release have in common ---- */

struct change_request {
	const struct command *command;
	bool dry_run, json, everything;		/* @everything: release --all */
	struct apply_options apply;
	char *const *arguments;
	size_t nr_arguments;
};
int change_run(const struct change_request *request);
/* -ERANGE: more than the module would ever take of a node; how much it can get, only trying tells. */
int change_check_room(const struct plan *plan, struct message *why);

/* ---- table.c: aligned text tables ---- */

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GREEN, STYLE_YELLOW, STYLE_RED, STYLE_COUNT };

struct table;
/* @headings: "Name" for a right-aligned column, "-Name" for a left-aligned one; NULL on lack of memory. */
struct table *table_create(const char *const *headings, size_t columns);
void table_free(struct table *table);
/* Next cell, row by row. A lack of memory is remembered and told by table_print(). */
void table_cell(struct table *table, enum style style, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int table_print(const struct table *table, FILE *out, bool colour);	/* -ENOMEM: nothing printed */
bool colour_wanted(FILE *out);						/* a terminal, and NO_COLOR is not set */
const char *style_on(enum style style, bool colour);
const char *style_off(enum style style, bool colour);

/* How a table with bars is drawn where it goes. */
struct look {
	bool colour, utf8, bar;
};
/* The bar is left out on a terminal that is too narrow for it; a file or pipe has no width. */
struct look look_at(FILE *out);

#define HUMAN_SIZE	24
const char *human_bytes(uint64_t bytes, char buffer[HUMAN_SIZE]);	/* "5.3 GiB", rounded down */
/*
 * @width cells shared out over @count parts in proportion; a part that is not zero gets a cell at least while there are
 * cells enough. The cells add up to @width unless all parts are zero.
 */
void bar_share(const uint64_t *parts, size_t count, unsigned int width, unsigned int *cells);

/* ---- status.c: the reserve as hugepinctl status shows it ---- */

int status_print(const struct snapshot *now, const struct look *look, FILE *out);
int status_print_json(const struct snapshot *now, FILE *out);

/* ---- json.c: objects whose building cannot be half done ---- */

struct json_object;
/* Both take @value over, also on failure; NULL counts as a lack of memory and is passed on. All: 0 or -ENOMEM. */
int json_put(struct json_object *object, const char *key, struct json_object *value);
int json_push(struct json_object *array, struct json_object *value);
int json_push_object(struct json_object *array, struct json_object **out);	/* an empty one; @array's */
int json_put_uint(struct json_object *object, const char *key, uint64_t value);
int json_put_text(struct json_object *object, const char *key, const char *value);
int json_print(struct json_object *object, FILE *out);

#endif /* HUGEPINCTL_H */
