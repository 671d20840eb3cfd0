/* SPDX-License-Identifier: MIT */
/*
 * One option's description, and the table of them all: the only place where an option is described. Parser, range
 * check, listing and reference page are made from it. Below it, what the files of options offer each other.
 */
#ifndef HUGEPIN_OPTIONS_TABLE_H
#define HUGEPIN_OPTIONS_TABLE_H

#include "internal.h"

enum hpi_option_type {
	HPI_TYPE_BOOL,
	HPI_TYPE_INT,
	HPI_TYPE_UINT,
	HPI_TYPE_DOUBLE,
	HPI_TYPE_BYTES,
	HPI_TYPE_CHOICE,
	HPI_TYPE_STRING,
	HPI_TYPE_LIST,
};

struct hpi_option {
	const char *name;
	const char *environment;	/* the variable that sets it */
	const char *dialect;		/* "hugepin", "paddle", "tensorflow", "ascend" */
	enum hpi_option_type type;
	const char *unit;		/* NULL: none */
	const char *default_value;	/* of the dialect; see hpi_options_dialect_active() */
	const char *min, *max;		/* in the option's own notation; NULL: only the type's */
	const char *choices;		/* "a|b|c": a choice's value is its position; a word may be empty */
	bool may_be_empty;		/* "" is a value of it */
	int (*check)(const char *value);	/* what type and range cannot say; sets the error text. May be NULL */
	const char *subject;		/* options of one subject say the same thing: two in one source are refused */
	const char *doc;
};

/* options_table.c has hugepin's own and finds the others, which options_dialects.c has. */
const struct hpi_option *hpi_options_entry(enum hpi_option_id id);
extern const struct hpi_option hpi_options_dialects[HPI_OPT_COUNT];	/* hugepin's own are empty here */
const struct hpi_option *hpi_options_alike(const char *name);	/* the one that may be meant, or NULL */

enum hpi_source {		/* ascending precedence */
	HPI_SOURCE_DEFAULT,
	HPI_SOURCE_FILE,
	HPI_SOURCE_ENVIRONMENT,
	HPI_SOURCE_API,
	HPI_SOURCE_COUNT,
};

int hpi_options_find(const char *name);				/* id, or -ENOENT without an error text */
int hpi_options_unknown(const char *name, const char *where);	/* -ENOENT with one */
#define HPI_BYTE_ORDER_MARK	"\xef\xbb\xbf"			/* in UTF-8; an editor's, and seen by nobody */
/* Checks the whole of @text and sets one source's value; @where is what listings and errors call that source. */
int hpi_options_put(struct hugepin_options *options, enum hpi_option_id id, enum hpi_source source, const char *text,
		    const char *where);
/* Makes @options what @copy is, and ends @copy. */
void hpi_options_replace(struct hugepin_options *options, struct hugepin_options *copy);
/* options_source.c: all or nothing: @read works on a copy of the set, which replaces it on success. */
int hpi_options_change(struct hugepin_options *options, int (*read)(struct hugepin_options *copy, const void *arg),
		       const void *arg);
/* options_proto.c: TensorFlow's text form; a file of it goes by its suffix. */
bool hpi_options_is_proto(const char *path);
int hpi_options_read_proto(struct hugepin_options *options, const char *path);

#endif /* HUGEPIN_OPTIONS_TABLE_H */
