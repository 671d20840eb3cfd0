/* SPDX-License-Identifier: MIT */
/*
 * One option set a test, with a directory for its files, and how a test fills and reads it.
 */
#ifndef HUGEPIN_TESTS_OPTIONS_SET_H
#define HUGEPIN_TESTS_OPTIONS_SET_H

#include "options_table.h"
#include "tree.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct tree tree;
static struct hugepin_options *options;

static inline int make_set(void **state)
{
	(void)state;
	tree_make(&tree);
	assert_int_equal(hugepin_options_create(&options), 0);
	return 0;
}

static inline int remove_set(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	hugepin_options_destroy(options);
	tree_remove(&tree, "");
	return 0;
}

static inline const char *conf_path(void)
{
	return tree_path(&tree, "hugepin.conf");
}

static inline int load_text(const char *text)
{
	tree_write(&tree, "hugepin.conf", text);
	return hugepin_options_load_file(options, conf_path());
}

static inline int load_environment(char **entries)
{
	char **own = environ;
	int err;

	environ = entries;
	err = hugepin_options_load_environment(options);
	environ = own;		/* the test framework reads it as well */
	return err;
}

static inline void assert_option(const char *key, const char *value, const char *source)
{
	struct hugepin_option_info info = { .size = sizeof(info) };

	assert_int_equal(hugepin_options_get(options, key, &info), 0);
	assert_string_equal(info.value, value);
	assert_string_equal(info.source, source);
}

static inline void assert_error_has(const char *part)
{
	if (!strstr(hugepin_error(), part))
		fail_msg("\"%s\" is not in \"%s\"", part, hugepin_error());
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, make_set, remove_set)

#endif /* HUGEPIN_TESTS_OPTIONS_SET_H */
