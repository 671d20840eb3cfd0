// SPDX-License-Identifier: MIT
/* Option sets: the table, values from every source, precedence, refusals that change nothing. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "comma_locale.h"
#include "options_set.h"

#define FRACTION "FLAGS_fraction_of_cuda_pinned_memory_to_use"

/* In place of the C library's, for this program: fails once, when the count comes to it. */
static int strdups_until_failure;

char *strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = strdups_until_failure && !--strdups_until_failure ? NULL : malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- The table ---- */

static void every_entry_is_complete_and_its_default_passes_its_own_checks(void **state)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	size_t i, j;

	(void)state;
	for (i = 0; i < HPI_OPT_COUNT; i++) {
		const struct hpi_option *option = hpi_options_entry(i);

		assert_non_null(option->name);
		assert_true(option->environment && option->dialect && option->default_value);
		assert_true(strlen(option->doc) > 40);
		assert_int_equal(option->type == HPI_TYPE_CHOICE, option->choices != NULL);
		/* A limit in the table that does not parse would be no limit. */
		if (option->min)
			assert_int_equal(hugepin_options_set(options, option->name, option->min), 0);
		if (option->max)
			assert_int_equal(hugepin_options_set(options, option->name, option->max), 0);
		/* hugepin_options_create() has put the default through its checks; one without a rival is also set. */
		if (!option->subject)
			assert_int_equal(hugepin_options_set(options, option->name, option->default_value), 0);
		for (j = 0; j < i; j++) {
			assert_string_not_equal(option->name, hpi_options_entry(j)->name);
			assert_string_not_equal(option->environment, hpi_options_entry(j)->environment);
		}
		assert_int_equal(hugepin_options_at(options, i, &info), 0);
		assert_string_equal(info.name, option->name);
		assert_string_equal(info.environment, option->environment);
	}
	assert_int_equal(hugepin_options_at(options, i, &info), -ENOENT);
}

static void fresh_set_has_every_default(void **state)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	size_t i;

	(void)state;
	for (i = 0; i < HPI_OPT_COUNT; i++) {
		assert_int_equal(hugepin_options_at(options, i, &info), 0);
		assert_string_equal(info.value, info.default_value);
		assert_string_equal(info.source, "default");
		assert_false(hpi_options_is_set(options, i));
	}
	assert_string_equal(hpi_options_string(options, HPI_OPT_RUNTIME), "auto");
	assert_int_equal(hpi_options_uint(options, HPI_OPT_RUNTIME), 0);
	assert_int_equal(hpi_options_uint(options, HPI_OPT_REGISTER_THREADS), 4);
	assert_true(hpi_options_uint(options, HPI_OPT_REGISTER_CHUNK) == HPI_1G);
	assert_true(hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_PINNED) == 0.5);
	assert_int_equal(hpi_options_uint(options, HPI_OPT_ASCEND_VARIABLE_1G), 0);
}

static void info_fits_callers_of_other_versions(void **state)
{
	struct {
		struct hugepin_option_info info;
		char newer[16];
	} large;
	struct hugepin_option_info info = { .size = sizeof(info) - 1, .name = "untouched" };

	(void)state;
	assert_int_equal(hugepin_options_get(options, "mount", &info), -EINVAL);
	assert_string_equal(info.name, "untouched");
	memset(&large, 0xee, sizeof(large));
	large.info.size = sizeof(large);
	assert_int_equal(hugepin_options_get(options, "mount", &large.info), 0);
	assert_int_equal(large.info.size, sizeof(large));
	assert_string_equal(large.info.value, "/run/hugepin");
	assert_int_equal(large.newer[0] | large.newer[15], 0);
	info.size = SIZE_MAX;
	assert_int_equal(hugepin_options_get(options, "mount", &info), -EINVAL);
	info.size = 4097;
	assert_int_equal(hugepin_options_at(options, 0, &info), -EINVAL);
	assert_string_equal(info.name, "untouched");
	info.size = sizeof(info);
	assert_int_equal(hugepin_options_get(options, "no_such", &info), -ENOENT);
	assert_int_equal(hugepin_options_get(options, NULL, &info), -EINVAL);
	assert_int_equal(hugepin_options_get(options, "mount", NULL), -EINVAL);
}

/* ---- One value ---- */

static void value_out_of_range_is_refused_with_option_value_range_and_source(void **state)
{
	static const char *const bad[] = { "0", "65", "-1", "", "4.0", "0x4", " 4", "4 ", "four",
					  "18446744073709551616" };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(hugepin_options_set(options, "register_threads", bad[i]), -EINVAL);
		assert_error_has("register_threads = \"");
		assert_error_has(bad[i]);
		assert_error_has("range is 1 to 64 threads");
		assert_error_has("(API)");
		assert_option("register_threads", "4", "default");
	}
	assert_int_equal(hugepin_options_set(options, "register_threads", "64"), 0);
	assert_int_equal(hugepin_options_set(options, "register_threads", "65"), -EINVAL);
	assert_option("register_threads", "64", "API");
	assert_int_equal(hpi_options_uint(options, HPI_OPT_REGISTER_THREADS), 64);
}

static void chunk_is_a_multiple_of_2m_within_its_range(void **state)
{
	(void)state;
	assert_int_equal(hugepin_options_set(options, "register_chunk", "2M"), 0);
	assert_true(hpi_options_uint(options, HPI_OPT_REGISTER_CHUNK) == HPI_2M);
	assert_int_equal(hugepin_options_set(options, "register_chunk", "256G"), 0);
	assert_int_equal(hugepin_options_set(options, "register_chunk", "3145728"), -EINVAL);
	assert_error_has("multiple of 2M");
	assert_error_has("2M to 256G");
	assert_int_equal(hugepin_options_set(options, "register_chunk", "1M"), -EINVAL);
	assert_error_has("below the minimum");
	assert_int_equal(hugepin_options_set(options, "register_chunk", "257G"), -EINVAL);
	assert_error_has("above the maximum");
	assert_int_equal(hugepin_options_set(options, "register_chunk", "1.5G"), -EINVAL);
	assert_true(hpi_options_uint(options, HPI_OPT_REGISTER_CHUNK) == 256 * HPI_1G);
}

static void choice_is_one_of_its_words(void **state)
{
	(void)state;
	assert_int_equal(hugepin_options_set(options, "runtime", "cuda"), 0);
	assert_int_equal(hpi_options_uint(options, HPI_OPT_RUNTIME), 2);
	assert_int_equal(hugepin_options_set(options, "runtime", "none"), 0);
	assert_int_equal(hugepin_options_set(options, "runtime", "CUDA"), -EINVAL);
	assert_error_has("auto|none|cuda");
	assert_int_equal(hugepin_options_set(options, "runtime", "cud"), -EINVAL);
	assert_int_equal(hugepin_options_set(options, "runtime", "auto|none"), -EINVAL);
	assert_int_equal(hugepin_options_set(options, "runtime", ""), -EINVAL);
	assert_string_equal(hpi_options_string(options, HPI_OPT_RUNTIME), "none");
	assert_int_equal(hugepin_options_set(options, "variable_use_1g_huge_page", "2"), 0);
	assert_int_equal(hpi_options_uint(options, HPI_OPT_ASCEND_VARIABLE_1G), 2);
	assert_int_equal(hugepin_options_set(options, "variable_use_1g_huge_page", "3"), -EINVAL);
	assert_int_equal(hugepin_options_set(options, "variable_use_1g_huge_page", "02"), -EINVAL);
}

static void texts_with_a_syntax_are_checked_when_they_are_set(void **state)
{
	(void)state;
	assert_int_equal(hugepin_options_set(options, "mount", "run/hugepin"), -EINVAL);
	assert_error_has("absolute");
	assert_int_equal(hugepin_options_set(options, "mount", "/mnt/tenant#1"), 0);
	assert_int_equal(hugepin_options_set(options, "node_policy", "bind:3-1"), -EINVAL);
	assert_error_has("node_policy");
	assert_error_has("3-1");
	assert_int_equal(hugepin_options_set(options, "node_policy", "interleave:0,8"), 0);
	assert_int_equal(hugepin_options_set(options, "host_ladder", "tape:2M"), -EINVAL);
	assert_error_has("host_ladder");
	assert_error_has("tape:2M");
	assert_int_equal(hugepin_options_set(options, "host_ladder", "hugetlb:2M,base"), 0);
	assert_string_equal(hpi_options_string(options, HPI_OPT_HOST_LADDER), "hugetlb:2M,base");
}

static void unknown_and_missing_names_are_refused(void **state)
{
	(void)state;
	assert_int_equal(hugepin_options_set(options, "no_such_option", "1"), -ENOENT);
	assert_error_has("no_such_option");
	assert_int_equal(hugepin_options_set(options, "", "1"), -ENOENT);
	assert_int_equal(hugepin_options_set(options, "HUGEPIN_MOUNT", "/x"), -ENOENT);
	assert_error_has("is mount");
	assert_int_equal(hugepin_options_set(options, "register_thread", "1"), -ENOENT);
	assert_int_equal(hugepin_options_set(options, NULL, "1"), -EINVAL);
	assert_int_equal(hugepin_options_set(options, "mount", NULL), -EINVAL);
	assert_int_equal(hugepin_options_set(NULL, "mount", "/x"), -EINVAL);
}

static void name_that_is_nearly_one_is_told_the_right_one(void **state)
{
	static const char *const names[][2] = {
		{ "host-cap", "there is host_cap" },
		{ "HostCap", "there is host_cap" },
		{ "--host_cap", "there is host_cap" },
		{ "initial_cpu_memory_in_mb", "there is FLAGS_initial_cpu_memory_in_mb" },
		{ "FLAGS_allow_growth", "there is allow_growth" },
		{ "variableUse1gHugePage", "there is variable_use_1g_huge_page" },
	};
	char *variable[] = { "HUGEPIN_INIT_ALLOCATED_MEM=1", NULL };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(names); i++) {
		assert_int_equal(hugepin_options_set(options, names[i][0], "1"), -ENOENT);
		assert_error_has(names[i][1]);
	}
	assert_int_equal(hugepin_options_set(options, "_", "1"), -ENOENT);
	assert_null(strstr(hugepin_error(), "there is"));
	assert_int_equal(load_environment(variable), -ENOENT);
	assert_error_has("HUGEPIN_INIT_ALLOCATED_MEM is no option (environment); there is FLAGS_init_allocated_mem");
}

/* As files of variables have them, which not everybody that reads such takes away. */
static void quotes_around_a_value_are_named(void **state)
{
	char *quoted[] = { "HUGEPIN_HOST_CAP=\"1G\"", NULL };

	(void)state;
	assert_int_equal(load_environment(quoted), -EINVAL);
	assert_error_has("leave them out");
	assert_int_equal(load_text("runtime = 'none'\n"), -EINVAL);
	assert_error_has("leave them out; choices are auto|none");
	assert_option("host_cap", "0", "default");
}

static void zero_that_was_set_is_not_unset(void **state)
{
	(void)state;
	assert_false(hpi_options_is_set(options, HPI_OPT_PINNED_CAP));
	assert_int_equal(hugepin_options_set(options, "pinned_cap", "0"), 0);
	assert_true(hpi_options_is_set(options, HPI_OPT_PINNED_CAP));
	assert_option("pinned_cap", "0", "API");
	assert_option("host_cap", "0", "default");
}

/* C045: sizes that wrap */
static void cap_takes_64_bits_and_no_more(void **state)
{
	(void)state;
	assert_int_equal(hugepin_options_set(options, "host_cap", "18446744073709551615"), 0);
	assert_true(hpi_options_uint(options, HPI_OPT_HOST_CAP) == UINT64_MAX);
	assert_int_equal(hugepin_options_set(options, "host_cap", "4294967297"), 0);
	assert_true(hpi_options_uint(options, HPI_OPT_HOST_CAP) == 4294967297);
	assert_int_equal(hugepin_options_set(options, "host_cap", "18446744073709551616"), -EINVAL);
	assert_int_equal(hugepin_options_set(options, "host_cap", "16777216T"), -EINVAL);
	assert_int_equal(hugepin_options_set(options, "host_cap", "-1"), -EINVAL);
	assert_true(hpi_options_uint(options, HPI_OPT_HOST_CAP) == 4294967297);
}

/* C032: more than the whole, and percents */
static void fraction_above_one_is_refused_with_a_hint_of_percent(void **state)
{
	static const struct {
		const char *value;
		const char *hint;
	} bad[] = {
		{ "1.0000001", NULL }, { "1.7", NULL }, { "4.0", "4.0 looks like percent" },
		{ "40", "40 looks like percent, which is written 0.40" },
		{ "100", "100 looks like percent, which is written 1.00" },
		{ "200", "200 looks like percent" }, { "-0.1", NULL },
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(hugepin_options_set(options, FRACTION, bad[i].value), -EINVAL);
		assert_error_has(bad[i].value);
		assert_error_has("range is 0 to 1");
		assert_int_equal(strstr(hugepin_error(), "percent") != NULL, bad[i].hint != NULL);
		if (bad[i].hint)
			assert_error_has(bad[i].hint);
		assert_option(FRACTION, "0.5", "default");
	}
	assert_int_equal(hugepin_options_set(options, FRACTION, "1.0"), 0);
	assert_true(hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_PINNED) == 1.0);
}

/* C033: what is not finite, from every source */
static void fraction_that_is_not_finite_is_refused_from_every_source(void **state)
{
	static const char *const bad[] = {
		"nan", "NaN", "-nan", "nan(1)", "inf", "-inf", "1e999", "0x1p-1", "", "0.5x",
	};
	char text[128], entry[128], *entries[] = { entry, NULL };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(hugepin_options_set(options, FRACTION, bad[i]), -EINVAL);
		assert_error_has("(API)");
		snprintf(text, sizeof(text), FRACTION " = %s\n", bad[i]);
		assert_int_equal(load_text(text), -EINVAL);
		assert_error_has("hugepin.conf:1)");
		snprintf(entry, sizeof(entry), FRACTION "=%s", bad[i]);
		assert_int_equal(load_environment(entries), -EINVAL);
		assert_error_has("(environment)");
		assert_error_has(FRACTION);
		assert_option(FRACTION, "0.5", "default");
	}
	/* Blanks do not count in a file; elsewhere they are part of the value. */
	assert_int_equal(hugepin_options_set(options, FRACTION, " 0.5"), -EINVAL);
	assert_int_equal(hugepin_options_set(options, FRACTION, "-0.0"), 0);
	assert_false(__builtin_signbit(hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_PINNED)));
}

/* C035: a process that has a decimal comma */
static void fraction_is_the_same_under_a_decimal_comma(void **state)
{
	char *entries[] = { FRACTION "=0.25", NULL };
	struct tree locale;

	(void)state;
	comma_locale_enter(&locale);
	assert_int_equal(load_environment(entries), 0);
	assert_true(hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_PINNED) == 0.25);
	assert_int_equal(hugepin_options_set(options, FRACTION, "0,5"), -EINVAL);
	assert_int_equal(hugepin_options_set(options, FRACTION, "30"), -EINVAL);
	assert_error_has("0.30");
	assert_option(FRACTION, "0.25", "environment");
	assert_string_equal(localeconv()->decimal_point, ",");
	comma_locale_leave(&locale);
}

/* ---- Sources ---- */

static void higher_source_is_in_force_whatever_the_order(void **state)
{
	char *entries[] = { "HUGEPIN_REGISTER_THREADS=16", NULL };
	char where[PATH_MAX + 16];

	(void)state;
	assert_int_equal(hugepin_options_set(options, "register_threads", "32"), 0);
	assert_int_equal(load_environment(entries), 0);
	assert_int_equal(load_text("\nregister_threads = 8\nregister_chunk=4M # small\n"), 0);
	assert_option("register_threads", "32", "API");
	snprintf(where, sizeof(where), "%s:3", conf_path());
	assert_option("register_chunk", "4M", where);
	assert_string_equal(hpi_options_source(options, HPI_OPT_REGISTER_CHUNK), where);

	hugepin_options_destroy(options);
	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(load_environment(entries), 0);
	assert_int_equal(load_text("register_threads = 8\n"), 0);
	assert_option("register_threads", "16", "environment");
	assert_int_equal(hpi_options_uint(options, HPI_OPT_REGISTER_THREADS), 16);
}

static void later_file_overrides_an_earlier_one(void **state)
{
	(void)state;
	assert_int_equal(load_text("register_threads = 8\nhost_cap = 1G\n"), 0);
	assert_int_equal(load_text("register_threads = 9\n"), 0);
	assert_int_equal(hpi_options_uint(options, HPI_OPT_REGISTER_THREADS), 9);
	assert_true(hpi_options_uint(options, HPI_OPT_HOST_CAP) == HPI_1G);
}

static void file_may_have_comments_blanks_and_no_last_newline(void **state)
{
	(void)state;
	assert_int_equal(load_text("# a comment = 1\n\n  \t\n\truntime\t=\tnone\t# why\n  mount = /mnt/a#b  \n"
				   FRACTION "=0.75"), 0);
	assert_string_equal(hpi_options_string(options, HPI_OPT_RUNTIME), "none");
	assert_string_equal(hpi_options_string(options, HPI_OPT_MOUNT), "/mnt/a#b");
	assert_true(hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_PINNED) == 0.75);
	assert_int_equal(load_text(""), 0);
}

static void one_bad_line_and_the_file_changes_nothing(void **state)
{
	static const struct {
		const char *text;
		int err;
		const char *says[3];
	} table[] = {
		{ "host_cap = 1G\nno_such = 1\n", -ENOENT, { "hugepin.conf:2", "no_such" } },
		{ "host_cap = 1G\nFLAGS_allocator_unknown = 1\n", -ENOENT, { "hugepin.conf:2" } },
		{ "host_cap = 1G\nHUGEPIN_MOUNT = /x\n", -ENOENT, { "hugepin.conf:2", "is mount" } },
		{ "host_cap = 1G\nregister_threads\n", -EINVAL, { "hugepin.conf:2", "option = value" } },
		{ "host_cap = 1G\n= 4\n", -EINVAL, { "hugepin.conf:2", "option = value" } },
		{ "host_cap = 1G\nregister_threads =\n", -EINVAL, { "hugepin.conf:2", "empty" } },
		{ "host_cap = 1G\nregister_threads = # 4\n", -EINVAL, { "hugepin.conf:2", "empty" } },
		{ "host_cap = 1G\nregister_threads = 4 5\n", -EINVAL, { "hugepin.conf:2", "4 5" } },
		{ "host_cap = 1G\nregister_threads = \"4\"\n", -EINVAL, { "hugepin.conf:2" } },
		{ "host_cap = 1G\nregister_threads = 65\n", -EINVAL, { "hugepin.conf:2", "65", "1 to 64" } },
		{ "host_cap = 1G\n\nhost_cap = 1G\n", -EINVAL, { "hugepin.conf:3", "line 1", "host_cap" } },
		{ "host_cap = 1G\nregister_threads = 4\r\n", -EINVAL, { "hugepin.conf:2", "CR LF" } },
		{ "\xef\xbb\xbfhost_cap = 1G\n", -EINVAL, { "hugepin.conf:1", "byte order mark" } },
		{ "host_cap = 1G\n\xef\xbb\xbf\n", -EINVAL, { "hugepin.conf:2" } },
	};
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(table); i++) {
		assert_int_equal(load_text(table[i].text), table[i].err);
		for (j = 0; j < 3 && table[i].says[j]; j++)
			assert_error_has(table[i].says[j]);
		assert_option("host_cap", "0", "default");
	}
}

static void file_that_is_no_text_or_cannot_be_read_changes_nothing(void **state)
{
	static const char nul[] = "host_cap = 1G\nregister_threads = 4\0 5\n";
	char *text = malloc(5002);

	(void)state;
	tree_write_bytes(&tree, "hugepin.conf", nul, sizeof(nul) - 1);
	assert_int_equal(hugepin_options_load_file(options, conf_path()), -EINVAL);
	assert_error_has("hugepin.conf:2");
	assert_error_has("NUL");
	assert_non_null(text);
	memset(text, '#', 5000);
	memcpy(text, "host_cap = 1G\n", 14);
	strcpy(text + 5000, "\n");
	assert_int_equal(load_text(text), -EINVAL);
	assert_error_has("hugepin.conf:2");
	assert_error_has("4096");
	free(text);
	assert_int_equal(hugepin_options_load_file(options, tree_path(&tree, "none")), -ENOENT);
	assert_error_has("none");
	assert_int_equal(hugepin_options_load_file(options, tree.root), -EISDIR);
	assert_int_equal(hugepin_options_load_file(options, NULL), -EINVAL);
	assert_int_equal(hugepin_options_load_file(options, "/dev/zero"), -EINVAL);
	assert_error_has("not a regular file");
	assert_int_equal(mkfifo(tree_path(&tree, "fifo"), 0600), 0);
	assert_int_equal(hugepin_options_load_file(options, tree_path(&tree, "fifo")), -EINVAL);	/* at once */
	assert_error_has("not a regular file");
	assert_option("host_cap", "0", "default");
}

static int fail_every_read(const char *call)
{
	return strcmp(call, "read") ? 0 : EIO;
}

static void read_error_changes_nothing(void **state)
{
	(void)state;
	hpi_sys_fault = fail_every_read;
	assert_int_equal(load_text("host_cap = 1G\n"), -EIO);
	assert_error_has("hugepin.conf");
	assert_option("host_cap", "0", "default");
}

static void environment_sets_own_names_and_those_of_paddle(void **state)
{
	char *entries[] = {
		"PATH=/bin", "HUGEPIN_PINNED_CAP=8G", FRACTION "=0.9", "FLAGS_call_stack_level=2", "flags_x=1",
		"HUGEPIN",
		"HUGEPIN_VARIABLE_USE_1G_HUGE_PAGE=1", "register_threads=5", NULL,
	};

	(void)state;
	assert_int_equal(load_environment(entries), 0);
	assert_option("pinned_cap", "8G", "environment");
	assert_option(FRACTION, "0.9", "environment");
	assert_option("variable_use_1g_huge_page", "1", "environment");
	assert_option("register_threads", "4", "default");
}

static void bad_variable_and_the_environment_changes_nothing(void **state)
{
	char *unknown[] = { "HUGEPIN_HOST_CAP=1G", "HUGEPIN_NO_SUCH=1", NULL };
	char *trace[] = { "HUGEPIN_TRACE_SPOOL=/tmp/x", NULL };
	char *lower[] = { "HUGEPIN_HOST_CAP=1G", "HUGEPIN_mount=/x", NULL };
	char *empty[] = { "HUGEPIN_HOST_CAP=1G", "HUGEPIN_REGISTER_THREADS=", NULL };
	char *twice[] = { "HUGEPIN_HOST_CAP=1G", "HUGEPIN_HOST_CAP=2G", NULL };

	(void)state;
	assert_int_equal(load_environment(unknown), -ENOENT);
	assert_error_has("HUGEPIN_NO_SUCH is no option");
	assert_int_equal(load_environment(trace), -ENOENT);
	assert_int_equal(load_environment(lower), -ENOENT);
	assert_int_equal(load_environment(empty), -EINVAL);
	assert_error_has("register_threads = \"\" (environment)");
	assert_int_equal(load_environment(twice), -EINVAL);
	assert_error_has("twice");
	assert_option("host_cap", "0", "default");
}

static void config_file_of_the_environment_is_read_below_it(void **state)
{
	char config[PATH_MAX + 16], *entries[] = { "HUGEPIN_REGISTER_THREADS=16", config, NULL };
	char *empty[] = { "HUGEPIN_CONFIG=", NULL };
	char where[PATH_MAX + 16];

	(void)state;
	snprintf(config, sizeof(config), "HUGEPIN_CONFIG=%s", conf_path());
	snprintf(where, sizeof(where), "%s:2", conf_path());
	tree_write(&tree, "hugepin.conf", "register_threads = 8\nhost_cap = 1G\n");
	assert_int_equal(load_environment(entries), 0);
	assert_option("register_threads", "16", "environment");
	assert_option("host_cap", "1G", where);
	tree_write(&tree, "hugepin.conf", "register_chunk = 4M\nhost_cap = x\n");
	assert_int_equal(load_environment(entries), -EINVAL);
	assert_error_has(where);
	assert_option("register_chunk", "1G", "default");
	tree_remove(&tree, "hugepin.conf");
	assert_int_equal(load_environment(entries), -ENOENT);
	assert_int_equal(load_environment(empty), -EINVAL);
	assert_error_has("HUGEPIN_CONFIG");
	assert_option("host_cap", "1G", where);
}

static int be_secure(const char *call)
{
	return strcmp(call, "secure") ? 0 : EPERM;
}

static void environment_of_a_set_user_id_program_is_ignored(void **state)
{
	char *entries[] = { "HUGEPIN_HOST_CAP=1G", "HUGEPIN_CONFIG=/etc/shadow", "HUGEPIN_NO_SUCH=1", NULL };

	(void)state;
	hpi_sys_fault = be_secure;
	assert_int_equal(load_environment(entries), 0);
	assert_option("host_cap", "0", "default");
	hpi_sys_fault = NULL;
	assert_int_not_equal(load_environment(entries), 0);
}

static void failed_allocation_changes_nothing_wherever_it_comes(void **state)
{
	char *entries[] = { "HUGEPIN_HOST_CAP=2G", "HUGEPIN_PINNED_CAP=2G", NULL };
	struct hugepin_options *other = NULL;
	int step, at, err, failures = 0;

	(void)state;
	assert_int_equal(hugepin_options_set(options, "mount", "/mnt/a"), 0);
	tree_write(&tree, "hugepin.conf", "host_cap = 1G\nvariable_cap = 1G\n");
	for (step = 0; step < 6; step++) {
		for (at = 1;; at++) {
			strdups_until_failure = at;
			err = step == 0 ? hugepin_options_load_file(options, conf_path()) :
			      step == 1 ? load_environment(entries) :
			      step == 2 ? hugepin_options_set(options, "mount", "/mnt/b") :
			      step == 3 ? hpi_options_copy(options, &other) :
			      step == 4 ? hugepin_options_create(&other) :
			      hugepin_options_load_proto(options, "allow_growth: true allocator_type: 'BFC'", "text");
			if (!err)
				break;
			assert_int_equal(err, -ENOMEM);
			assert_error_has("no memory");
			assert_null(other);
			assert_int_equal(hpi_options_is_set(options, HPI_OPT_VARIABLE_CAP), step > 0);
			assert_int_equal(hpi_options_is_set(options, HPI_OPT_PINNED_CAP), step > 1);
			assert_option("mount", step > 2 ? "/mnt/b" : "/mnt/a", "API");
			assert_false(hpi_options_is_set(options, HPI_OPT_TF_ALLOW_GROWTH));
			failures++;
		}
		strdups_until_failure = 0;
		hugepin_options_destroy(other);
		other = NULL;
	}
	assert_true(failures > 4 * HPI_OPT_COUNT);
}

/* ---- Dialects ---- */

static void dialect_is_active_once_one_of_its_options_is_set(void **state)
{
	(void)state;
	assert_false(hpi_options_dialect_active(options, "paddle"));
	assert_int_equal(hugepin_options_set(options, "pinned_cap", "1G"), 0);
	assert_true(hpi_options_dialect_active(options, "hugepin"));
	assert_false(hpi_options_dialect_active(options, "paddle"));
	assert_int_equal(hugepin_options_set(options, FRACTION, "0.5"), 0);	/* the default, set */
	assert_true(hpi_options_dialect_active(options, "paddle"));
	assert_false(hpi_options_dialect_active(options, "ascend"));
}

static void two_dialects_that_disagree_in_one_source_are_refused(void **state)
{
	char *both[] = { "HUGEPIN_VARIABLE_LADDER=base", "HUGEPIN_VARIABLE_USE_1G_HUGE_PAGE=1", NULL };
	char *one[] = { "HUGEPIN_VARIABLE_LADDER=base", NULL };

	(void)state;
	assert_int_equal(load_environment(both), -EINVAL);
	assert_error_has("variable_ladder");
	assert_error_has("variable_use_1g_huge_page");
	assert_int_equal(load_text("variable_use_1g_huge_page = 1\nvariable_ladder = base\n"), -EINVAL);
	assert_error_has("hugepin.conf:1");
	assert_error_has("hugepin.conf:2");
	assert_false(hpi_options_is_set(options, HPI_OPT_VARIABLE_LADDER));
	/* In different sources the higher one speaks. */
	assert_int_equal(load_text("variable_use_1g_huge_page = 1\n"), 0);
	assert_true(hpi_options_outranks(options, HPI_OPT_ASCEND_VARIABLE_1G, HPI_OPT_VARIABLE_LADDER));
	assert_false(hpi_options_outranks(options, HPI_OPT_VARIABLE_LADDER, HPI_OPT_ASCEND_VARIABLE_1G));
	assert_int_equal(load_environment(one), 0);
	assert_true(hpi_options_outranks(options, HPI_OPT_VARIABLE_LADDER, HPI_OPT_ASCEND_VARIABLE_1G));
	assert_int_equal(hugepin_options_set(options, "variable_use_1g_huge_page", "0"), 0);
	assert_true(hpi_options_outranks(options, HPI_OPT_ASCEND_VARIABLE_1G, HPI_OPT_VARIABLE_LADDER));
	assert_int_equal(hugepin_options_set(options, "variable_ladder", "base"), -EINVAL);
}

/* ---- Copies and shares ---- */

static void copy_is_whole_and_independent(void **state)
{
	struct hugepin_options *copy, *original = options;

	(void)state;
	assert_int_equal(load_text("register_threads = 8\n"), 0);
	assert_int_equal(hugepin_options_set(options, FRACTION, "0.25"), 0);
	assert_int_equal(hpi_options_copy(options, &copy), 0);
	assert_int_equal(hugepin_options_set(options, FRACTION, "0.75"), 0);
	options = copy;
	assert_option(FRACTION, "0.25", "API");
	assert_int_equal(hpi_options_uint(copy, HPI_OPT_REGISTER_THREADS), 8);
	assert_true(hpi_options_double(copy, HPI_OPT_PADDLE_FRACTION_PINNED) == 0.25);
	hugepin_options_destroy(copy);
	options = original;
	assert_option(FRACTION, "0.75", "API");
	hugepin_options_destroy(NULL);
}

/* C032: bytes beyond 2^53 */
static void share_loses_no_bytes(void **state)
{
	static const uint64_t bytes[] = {
		0, 1, 4096, (1ull << 53) + 1, (1ull << 60) + 1, UINT64_MAX - 1, UINT64_MAX,
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bytes); i++) {
		assert_true(hpi_options_share(1.0, bytes[i]) == bytes[i]);
		assert_true(hpi_options_share(0.0, bytes[i]) == 0);
		assert_true(hpi_options_share(0.5, bytes[i]) == bytes[i] / 2);
		assert_true(hpi_options_share(0.25, bytes[i] & ~3ull) == bytes[i] / 4);
		assert_true(hpi_options_share(0.75, bytes[i] & ~3ull) == bytes[i] / 4 * 3);
		assert_true(hpi_options_share(0x1.fffffffffffffp-1, bytes[i]) <= bytes[i]);
	}
	assert_true(hpi_options_share(0.7, 10) == 7);
	/* the double 0.1 is that much more than a tenth */
	assert_true(hpi_options_share(0.1, 1000000000000000000) == 100000000000000006);
	assert_true(hpi_options_share(0x1p-64, UINT64_MAX) == 1);
	assert_true(hpi_options_share(0x1p-65, UINT64_MAX) == 0);
	assert_true(hpi_options_share(0x1p-1074, UINT64_MAX) == 0);
	assert_true(hpi_options_share(0.92, 85899345920) == 79027398246);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_entry_is_complete_and_its_default_passes_its_own_checks),
		TEST(fresh_set_has_every_default),
		TEST(info_fits_callers_of_other_versions),
		TEST(value_out_of_range_is_refused_with_option_value_range_and_source),
		TEST(chunk_is_a_multiple_of_2m_within_its_range),
		TEST(choice_is_one_of_its_words),
		TEST(texts_with_a_syntax_are_checked_when_they_are_set),
		TEST(unknown_and_missing_names_are_refused),
		TEST(name_that_is_nearly_one_is_told_the_right_one),
		TEST(quotes_around_a_value_are_named),
		TEST(zero_that_was_set_is_not_unset),
		TEST(cap_takes_64_bits_and_no_more),
		TEST(fraction_above_one_is_refused_with_a_hint_of_percent),
		TEST(fraction_that_is_not_finite_is_refused_from_every_source),
		TEST(fraction_is_the_same_under_a_decimal_comma),
		TEST(higher_source_is_in_force_whatever_the_order),
		TEST(later_file_overrides_an_earlier_one),
		TEST(file_may_have_comments_blanks_and_no_last_newline),
		TEST(one_bad_line_and_the_file_changes_nothing),
		TEST(file_that_is_no_text_or_cannot_be_read_changes_nothing),
		TEST(read_error_changes_nothing),
		TEST(environment_sets_own_names_and_those_of_paddle),
		TEST(bad_variable_and_the_environment_changes_nothing),
		TEST(config_file_of_the_environment_is_read_below_it),
		TEST(environment_of_a_set_user_id_program_is_ignored),
		TEST(failed_allocation_changes_nothing_wherever_it_comes),
		TEST(dialect_is_active_once_one_of_its_options_is_set),
		TEST(two_dialects_that_disagree_in_one_source_are_refused),
		TEST(copy_is_whole_and_independent),
		TEST(share_loses_no_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
