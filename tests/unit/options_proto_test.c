// SPDX-License-Identifier: MIT
/* TensorFlow's GPUOptions as text: what is read, what is refused with its line, and that a refusal changes nothing. */
#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comma_locale.h"
#include "options_set.h"

#define FRACTION "per_process_gpu_memory_fraction"

static int load(const char *text)
{
	return hugepin_options_load_proto(options, text, "job.pbtxt");
}

static void make_fresh_set(void)
{
	hugepin_options_destroy(options);
	assert_int_equal(hugepin_options_create(&options), 0);
}

static void every_field_of_gpu_options_is_read(void **state)
{
	(void)state;
	assert_int_equal(load("gpu_options {\n"
			      "  per_process_gpu_memory_fraction: 0.5\n"
			      "  allocator_type: \"BFC\"\n"
			      "  deferred_deletion_bytes: 16777216\n"
			      "  allow_growth: true\n"
			      "  visible_device_list: \"5,3\"\n"
			      "  polling_active_delay_usecs: 50\n"
			      "  polling_inactive_delay_msecs: 2\n"
			      "  force_gpu_compatible: false\n"
			      "}\n"), 0);
	assert_option(FRACTION, "0.5", "job.pbtxt:2");
	assert_option("allocator_type", "BFC", "job.pbtxt:3");
	assert_true(hpi_options_uint(options, HPI_OPT_TF_DEFERRED_DELETION) == HPI_MIB(16));
	assert_true(hpi_options_bool(options, HPI_OPT_TF_ALLOW_GROWTH));
	assert_option("visible_device_list", "5,3", "job.pbtxt:6");
	assert_int_equal(hpi_options_int(options, HPI_OPT_TF_POLL_ACTIVE_US), 50);
	assert_int_equal(hpi_options_int(options, HPI_OPT_TF_POLL_INACTIVE_MS), 2);
	assert_option("force_gpu_compatible", "false", "job.pbtxt:9");
	assert_true(hpi_options_is_set(options, HPI_OPT_TF_FORCE_GPU_COMPATIBLE));
	assert_true(hpi_options_dialect_active(options, "tensorflow"));
	assert_false(hpi_options_dialect_active(options, "paddle"));
}

static void notations_that_people_keep_mean_the_same(void **state)
{
	static const char *const texts[] = {
		"gpu_options { allow_growth: true per_process_gpu_memory_fraction: 0.5 }",
		"gpu_options: { allow_growth: true, per_process_gpu_memory_fraction: 0.5 }",
		"gpu_options < allow_growth: true; per_process_gpu_memory_fraction: 0.5; >;",
		"gpu_options{allow_growth:true per_process_gpu_memory_fraction:0.5}",
		"allow_growth: true\nper_process_gpu_memory_fraction: 0.5\n",
		"config { gpu_options { allow_growth: 1 per_process_gpu_memory_fraction: .5 } }",
		"gpu_options { allow_growth: true per_process_gpu_memory_fraction: 0.5f }",
		"gpu_options { per_process_gpu_memory_fraction: 5e-1F allow_growth: true }",
		"config.gpu_options { allow_growth: t } gpu_options { per_process_gpu_memory_fraction: 5e-1 }",
		"# for small cards\ngpu_options {\r\n\tallow_growth: True # slow\n#}\nper_process_gpu_memory_fraction#\n:\n.50}",
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(texts); i++) {
		make_fresh_set();
		assert_int_equal(load(texts[i]), 0);
		assert_true(hpi_options_bool(options, HPI_OPT_TF_ALLOW_GROWTH));
		assert_true(hpi_options_double(options, HPI_OPT_TF_GPU_FRACTION) == 0.5);
	}
}

static void an_editors_byte_order_mark_is_named(void **state)
{
	(void)state;
	assert_int_equal(load("\xef\xbb\xbfgpu_options { allow_growth: true }"), -EINVAL);
	assert_non_null(strstr(hugepin_error(), ":1: the text begins with a byte order mark"));
	assert_false(hpi_options_is_set(options, HPI_OPT_TF_ALLOW_GROWTH));
}

static void text_without_fields_sets_nothing(void **state)
{
	static const char *const texts[] = { "", " \n", "# nothing", "gpu_options {}", "config: { gpu_options: {} }" };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(texts); i++)
		assert_int_equal(load(texts[i]), 0);
	assert_false(hpi_options_dialect_active(options, "tensorflow"));
}

static void strings_have_both_quotes_escapes_and_parts(void **state)
{
	static const struct {
		const char *text, *value;
	} table[] = {
		{ "visible_device_list: '0,1'", "0,1" },
		{ "visible_device_list: \"0\" ',' # and\n \"1\"", "0,1" },
		{ "visible_device_list: \"\\60\\x2C\\0611\"", "0,11" },
		{ "visible_device_list: ''", "" },
		{ "allocator_type: \"\\102FC\"", "BFC" },
	};
	static const char *const bad[] = {
		"visible_device_list: \"0\\q1\"", "visible_device_list: \"0\\0\"", "visible_device_list: \"\\777\"",
		"visible_device_list: \"\\x\"", "visible_device_list: \"0", "visible_device_list: \"0\n\"",
		"visible_device_list: \"0'", "visible_device_list: \"0\\", "visible_device_list: 0",
		"visible_device_list: \"\\n\"", "allocator_type: BFC", "allocator_type: \"\\u0042FC\"",
	};
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(table); i++) {
		make_fresh_set();
		assert_int_equal(load(table[i].text), 0);
		assert_option(table[i].text[0] == 'a' ? "allocator_type" : "visible_device_list", table[i].value,
			      "job.pbtxt:1");
	}
	make_fresh_set();
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(load(bad[i]), -EINVAL);
		assert_error_has("job.pbtxt:1");
		assert_false(hpi_options_dialect_active(options, "tensorflow"));
	}
}

static void bad_text_is_refused_with_its_line_and_changes_nothing(void **state)
{
	static const struct {
		const char *text;
		int err;
		const char *says[2];
	} table[] = {
		{ "per_process_gpu_memory_fraction: 1.5", -EINVAL, { "job.pbtxt:2)", "range is 0 to 1" } },
		{ "per_process_gpu_memory_fraction: nan", -EINVAL, { "job.pbtxt:2)", "not a finite" } },
		{ "per_process_gpu_memory_fraction: -inf", -EINVAL, { "job.pbtxt:2)" } },
		{ "per_process_gpu_memory_fraction: 0.5ff", -EINVAL, { "job.pbtxt:2)" } },
		{ "per_process_gpu_memory_fraction: f", -EINVAL, { "job.pbtxt:2)" } },
		{ "per_process_gpu_memory_fraction: inff", -EINVAL, { "job.pbtxt:2)" } },
		{ "polling_active_delay_usecs: 1f", -EINVAL, { "job.pbtxt:2", "whole number" } },
		{ "per_process_gpu_memory_fraction: 0x1", -EINVAL, { "job.pbtxt:2)" } },
		{ "per_process_gpu_memory_fraction: 0,5", -EINVAL, { "job.pbtxt:2", "a field's name" } },
		{ "per_process_gpu_memory_fraction: \"0.5\"", -EINVAL, { "job.pbtxt:2", "quotes" } },
		{ "per_process_gpu_memory_fraction: }", -EINVAL, { "job.pbtxt:2)", "is empty" } },
		{ "per_process_gpu_memory_fraction 0.5", -EINVAL, { "job.pbtxt:2", "\":\" is missing" } },
		{ "allocator_type: \"bfc\"", -EINVAL, { "job.pbtxt:2)", "choices are \"\"|BFC" } },
		{ "deferred_deletion_bytes: 8M", -EINVAL, { "job.pbtxt:2", "whole number" } },
		{ "deferred_deletion_bytes: 010", -EINVAL, { "job.pbtxt:2", "octal" } },
		{ "deferred_deletion_bytes: -1", -EINVAL, { "job.pbtxt:2)" } },
		{ "deferred_deletion_bytes: 9223372036854775808", -EINVAL, { "above the maximum" } },
		{ "polling_active_delay_usecs: 2147483648", -EINVAL, { "range is 0 to 2147483647 us" } },
		{ "polling_active_delay_usecs: -1", -EINVAL, { "below the minimum" } },
		{ "force_gpu_compatible: yes", -EINVAL, { "job.pbtxt:2", "true or false" } },
		{ "force_gpu_compatible: 2", -EINVAL, { "true or false" } },
		{ "force_gpu_compatible: { }", -EINVAL, { "true or false" } },
		{ "visible_device_list: \"1,1\"", -EINVAL, { "names device 1 twice" } },
		{ "no_such_field: 1", -ENOENT, { "job.pbtxt:2", "\"no_such_field\"" } },
		{ "no_such_field\n\n: 1", -ENOENT, { "job.pbtxt:2" } },
		{ "experimental { memory_limit_mb: 1 }", -ENOENT, { "job.pbtxt:2", "experimental" } },
		{ "gpu_options { }", -ENOENT, { "job.pbtxt:2", "of gpu_options" } },
		{ "host_cap: 1", -ENOENT, { "\"host_cap\"" } },
		{ "FLAGS_init_allocated_mem: true", -ENOENT, { "FLAGS_init_allocated_mem" } },
		{ "\nallow_growth: false", -EINVAL, { "job.pbtxt:3", "first on line 1" } },
		{ "[ext]: 1", -EINVAL, { "a field's name" } },
		{ ",,", -EINVAL, { "a field's name" } },
		{ ">", -EINVAL, { "a field's name" } },
		{ "} }", -EINVAL, { "a field's name" } },
		{ "} allow_soft_placement: true", -ENOENT, { "allow_soft_placement" } },
		{ "} config { allow_growth: true }", -ENOENT, { "of config" } },
		{ "} gpu_options allow_growth", -EINVAL, { "\"{\" is missing" } },
		{ "# }", -EINVAL, { "ends before a \"}\"" } },
	};
	char text[256];
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(table); i++) {
		snprintf(text, sizeof(text), "gpu_options { allow_growth: true\n%s%s", table[i].text,
			 strchr(table[i].text, '}') ? "" : " }");
		if (load(text) != table[i].err)
			fail_msg("\"%s\" is not refused, or otherwise", text);
		for (j = 0; j < 2 && table[i].says[j]; j++)
			assert_error_has(table[i].says[j]);
		assert_false(hpi_options_dialect_active(options, "tensorflow"));
	}
}

static void long_words_and_strings_have_an_end(void **state)
{
	char *text = malloc(8192);

	(void)state;
	assert_non_null(text);
	memset(text, 'a', 8191);
	text[8191] = '\0';
	assert_int_equal(load(text), -EINVAL);
	assert_error_has("8191 characters");
	memcpy(text, "visible_device_list: '", 22);
	text[8190] = '\'';
	assert_int_equal(load(text), -EINVAL);
	assert_error_has("more than 4095 bytes");
	free(text);
}

/* It is one source with hugepin_options_set(). */
static void text_is_the_programs_own_word(void **state)
{
	char *entries[] = { "HUGEPIN_ALLOW_GROWTH=0", NULL };

	(void)state;
	assert_int_equal(hugepin_options_load_proto(options, "allow_growth: true", NULL), 0);
	assert_int_equal(load_environment(entries), 0);
	assert_option("allow_growth", "true", "API");
	assert_int_equal(hugepin_options_load_proto(options, "allow_growth: maybe", NULL), -EINVAL);
	assert_error_has("API:1");
	assert_int_equal(hugepin_options_set(options, "strategy", "doubling"), -EINVAL);
	assert_error_has("allow_growth");
	assert_int_equal(hugepin_options_load_proto(options, NULL, NULL), -EINVAL);
	assert_int_equal(hugepin_options_load_proto(NULL, "", NULL), -EINVAL);
}

static void file_with_the_suffix_is_read_as_a_file(void **state)
{
	char *entries[] = { "HUGEPIN_DEFERRED_DELETION_BYTES=1M", NULL };
	char where[PATH_MAX + 16];

	(void)state;
	tree_write(&tree, "job.pbtxt", "gpu_options {\n  deferred_deletion_bytes: 4096\n  allow_growth: true\n}");
	tree_write(&tree, "job.textproto", "polling_inactive_delay_msecs: 7 ");
	tree_write(&tree, ".pbtxt.conf", "polling_active_delay_usecs = 8\n");
	assert_int_equal(load_environment(entries), 0);
	assert_int_equal(hugepin_options_load_file(options, tree_path(&tree, "job.pbtxt")), 0);
	assert_int_equal(hugepin_options_load_file(options, tree_path(&tree, "job.textproto")), 0);
	assert_int_equal(hugepin_options_load_file(options, tree_path(&tree, ".pbtxt.conf")), 0);
	assert_option("deferred_deletion_bytes", "1M", "environment");
	snprintf(where, sizeof(where), "%s:3", tree_path(&tree, "job.pbtxt"));
	assert_option("allow_growth", "true", where);
	assert_int_equal(hpi_options_int(options, HPI_OPT_TF_POLL_INACTIVE_MS), 7);
	assert_int_equal(hpi_options_int(options, HPI_OPT_TF_POLL_ACTIVE_US), 8);
}

static void config_file_of_the_environment_may_be_such_a_file(void **state)
{
	char config[PATH_MAX + 16], *entries[] = { config, NULL };
	char where[PATH_MAX + 16];

	(void)state;
	tree_write(&tree, "job.pbtxt", "gpu_options { allow_growth: true }");
	snprintf(config, sizeof(config), "HUGEPIN_CONFIG=%s", tree_path(&tree, "job.pbtxt"));
	snprintf(where, sizeof(where), "%s:1", tree_path(&tree, "job.pbtxt"));
	assert_int_equal(load_environment(entries), 0);
	assert_option("allow_growth", "true", where);
}

static int fail_every_read(const char *call)
{
	return strcmp(call, "read") ? 0 : EIO;
}

static void file_that_cannot_be_read_whole_changes_nothing(void **state)
{
	static const char nul[] = "allow_growth: true\n#\0\n";
	const char *path = tree_path(&tree, "job.pbtxt");
	char *text = malloc((1 << 20) + 2);

	(void)state;
	assert_non_null(text);
	assert_int_equal(hugepin_options_load_file(options, path), -ENOENT);
	assert_error_has(path);
	tree_write_bytes(&tree, "job.pbtxt", nul, sizeof(nul) - 1);
	assert_int_equal(hugepin_options_load_file(options, path), -EINVAL);
	assert_error_has("NUL");
	memset(text, '\n', (1 << 20) + 1);
	text[(1 << 20) + 1] = '\0';
	tree_write(&tree, "job.pbtxt", text);
	assert_int_equal(hugepin_options_load_file(options, path), -EINVAL);
	assert_error_has("1048576 bytes");
	free(text);
	tree_write(&tree, "job.pbtxt", "allow_growth: true");
	hpi_sys_fault = fail_every_read;
	assert_int_equal(hugepin_options_load_file(options, path), -EIO);
	hpi_sys_fault = NULL;
	assert_false(hpi_options_dialect_active(options, "tensorflow"));
	tree_write(&tree, "dir.pbtxt/file", "");
	assert_int_equal(hugepin_options_load_file(options, tree_path(&tree, "dir.pbtxt")), -EISDIR);
}

/* C035: a process that has a decimal comma */
static void number_is_the_same_under_a_decimal_comma(void **state)
{
	struct tree locale;

	(void)state;
	comma_locale_enter(&locale);
	assert_int_equal(load("per_process_gpu_memory_fraction: 0.25"), 0);
	assert_true(hpi_options_double(options, HPI_OPT_TF_GPU_FRACTION) == 0.25);
	assert_int_equal(load("per_process_gpu_memory_fraction: 0,75"), -EINVAL);
	assert_true(hpi_options_double(options, HPI_OPT_TF_GPU_FRACTION) == 0.25);
	comma_locale_leave(&locale);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_field_of_gpu_options_is_read),
		TEST(notations_that_people_keep_mean_the_same),
		TEST(an_editors_byte_order_mark_is_named),
		TEST(text_without_fields_sets_nothing),
		TEST(strings_have_both_quotes_escapes_and_parts),
		TEST(bad_text_is_refused_with_its_line_and_changes_nothing),
		TEST(long_words_and_strings_have_an_end),
		TEST(text_is_the_programs_own_word),
		TEST(file_with_the_suffix_is_read_as_a_file),
		TEST(config_file_of_the_environment_may_be_such_a_file),
		TEST(file_that_cannot_be_read_whole_changes_nothing),
		TEST(number_is_the_same_under_a_decimal_comma),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
