// SPDX-License-Identifier: MIT
/* The options of Paddle, TensorFlow and Ascend: names, defaults and ranges as people know them from there. */
#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "options_set.h"

#define MOST	12

static const struct known {
	const char *name, *dialect, *default_value;
	const char *good[MOST], *bad[MOST];
} known[] = {
	{ "FLAGS_allocator_strategy", "paddle", "auto_growth", { "naive_best_fit", "auto_growth" },
	  { "", "thread_local", "Auto_Growth", "auto_growth ", "0" } },
	{ "FLAGS_fraction_of_cpu_memory_to_use", "paddle", "1.0", { "0", "0.0", "1", "1.0", "1e-3" },
	  { "", "-0.1", "1.0000001", "nan", "inf", "0,5", "0x1p-1", "50%" } },
	{ "FLAGS_initial_cpu_memory_in_mb", "paddle", "500", { "0", "1", "500", "17592186044415" },
	  { "", "-1", "17592186044416", "0.5", "500M", "0x10", "nan", "1e3" } },
	{ "FLAGS_fraction_of_cuda_pinned_memory_to_use", "paddle", "0.5", { "0", "1", "0.92" }, { "", "1.1", "-1" } },
	{ "FLAGS_fraction_of_gpu_memory_to_use", "paddle", "0.92", { "0", "1", "0.92" }, { "", "2", "-0.01" } },
	{ "FLAGS_initial_gpu_memory_in_mb", "paddle", "0", { "0", "1", "17592186044415" },
	  { "", "-1", "17592186044416", "1.0", "99999999999999999999" } },
	{ "FLAGS_reallocate_gpu_memory_in_mb", "paddle", "0", { "0", "1", "17592186044415" },
	  { "", "-1", "17592186044416", "-9223372036854775809", "1.0" } },
	{ "FLAGS_init_allocated_mem", "paddle", "false", { "true", "false", "0", "1", "True" },
	  { "", "2", "-1", "t" } },
	{ "FLAGS_eager_delete_tensor_gb", "paddle", "0.0", { "0", "-1", "-0.001", "2.5", "17179869183" },
	  { "", "nan", "-inf", "1e999", "17179869184", "1G" } },
	{ "FLAGS_memory_fraction_of_eager_deletion", "paddle", "1.0", { "0", "0.5", "1" },
	  { "", "1.5", "-0.5", "nan" } },
	{ "FLAGS_fast_eager_deletion_mode", "paddle", "true", { "true", "0", "off" }, { "", "fast" } },
	{ "FLAGS_eager_delete_scope", "paddle", "true", { "false", "1" }, { "", "2" } },
	{ "FLAGS_fuse_parameter_groups_size", "paddle", "3", { "-1", "1", "3", "2147483647" },
	  { "", "0", "-0", "-2", "2147483648", "1.5", "nan" } },
	{ "FLAGS_fuse_parameter_memory_size", "paddle", "-1.0", { "-1", "-1.0", "0", "0.5", "64", "17592186044415" },
	  { "", "-0.5", "-2", "-1.0001", "nan", "inf", "17592186044416" } },
	{ "per_process_gpu_memory_fraction", "tensorflow", "0", { "0", "0.5", "1.0" }, { "", "1.5", "-1", "nan" } },
	{ "allocator_type", "tensorflow", "", { "", "BFC" }, { "bfc", "BFC ", "|", "cuda_malloc" } },
	{ "deferred_deletion_bytes", "tensorflow", "0", { "0", "1", "8M", "9223372036854775807" },
	  { "", "-1", "9223372036854775808", "1.5" } },
	{ "allow_growth", "tensorflow", "false", { "true", "false", "1" }, { "", "2" } },
	{ "visible_device_list", "tensorflow", "", { "", "0", "5,3", "1023,0" },
	  { ",", "0,", ",0", "0,,1", "0,0", "-1", "1,-1", "0 1", "0, 1", "1024", "GPU-8a", "123456789012345678" } },
	{ "polling_active_delay_usecs", "tensorflow", "0", { "0", "10", "2147483647" },
	  { "", "-1", "2147483648", "10us" } },
	{ "polling_inactive_delay_msecs", "tensorflow", "0", { "0", "1", "2147483647" },
	  { "", "-1", "2147483648", "1ms" } },
	{ "force_gpu_compatible", "tensorflow", "false", { "true", "no" }, { "", "yes please" } },
	{ "atomic_clean_policy", "ascend", "0", { "0", "1" }, { "", "2", "-1", "00", "true" } },
	{ "static_memory_policy", "ascend", "0", { "0", "1", "2", "3", "4" }, { "", "5", "-1", "2.0" } },
	/* C011: what is no mode */
	{ "variable_use_1g_huge_page", "ascend", "0", { "0", "1", "2" }, { "", "3", "-1", "2 ", "1G" } },
};

static void all_options_of_the_other_systems_are_known(void **state)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	size_t own = 0, others = 0, i;

	(void)state;
	for (i = 0; !hugepin_options_at(options, i, &info); i++) {
		own += !strcmp(info.dialect, "hugepin");
		others += strcmp(info.dialect, "hugepin") != 0;
	}
	assert_int_equal(others, COUNT(known));
	assert_int_equal(own + others, HPI_OPT_COUNT);
	for (i = 0; i < COUNT(known); i++) {
		assert_int_equal(hugepin_options_get(options, known[i].name, &info), 0);
		assert_string_equal(info.dialect, known[i].dialect);
		assert_string_equal(info.default_value, known[i].default_value);
	}
}

static void values_that_they_take_are_taken_from_every_source(void **state)
{
	char text[256], entry[256], *entries[] = { entry, NULL };
	struct hugepin_option_info info = { .size = sizeof(info) };
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(known); i++) {
		hugepin_options_destroy(options);
		assert_int_equal(hugepin_options_create(&options), 0);
		for (j = 0; j < MOST && known[i].good[j]; j++) {
			snprintf(text, sizeof(text), "%s = %s\n", known[i].name, known[i].good[j]);
			assert_int_equal(load_text(text), 0);
		}
		assert_int_equal(hugepin_options_get(options, known[i].name, &info), 0);
		assert_non_null(strstr(info.source, "hugepin.conf:1"));
		for (j = 0; j < MOST && known[i].good[j]; j++) {
			snprintf(entry, sizeof(entry), "%s=%s", info.environment, known[i].good[j]);
			assert_int_equal(load_environment(entries), 0);
			assert_option(known[i].name, known[i].good[j], "environment");
		}
		for (j = 0; j < MOST && known[i].good[j]; j++) {
			assert_int_equal(hugepin_options_set(options, known[i].name, known[i].good[j]), 0);
			assert_option(known[i].name, known[i].good[j], "API");
		}
		assert_true(hpi_options_dialect_active(options, known[i].dialect));
	}
}

static bool has_outer_blanks(const char *value)
{
	size_t length = strlen(value);

	return length && (value[0] == ' ' || value[length - 1] == ' ');
}

/* C033 for every option, not the fractions alone */
static void values_beyond_them_are_refused_from_every_source(void **state)
{
	char text[256], entry[256], *entries[] = { "HUGEPIN_HOST_CAP=1G", entry, NULL };
	struct hugepin_option_info info = { .size = sizeof(info) };
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(known); i++) {
		assert_int_equal(hugepin_options_get(options, known[i].name, &info), 0);
		for (j = 0; j < MOST && known[i].bad[j]; j++) {
			assert_int_equal(hugepin_options_set(options, known[i].name, known[i].bad[j]), -EINVAL);
			assert_error_has("(API)");
			snprintf(entry, sizeof(entry), "%s=%s", info.environment, known[i].bad[j]);
			assert_int_equal(load_environment(entries), -EINVAL);
			assert_error_has(known[i].name);
			assert_error_has("(environment)");
			snprintf(text, sizeof(text), "host_cap = 1G\n%s = %s\n", known[i].name, known[i].bad[j]);
			if (!has_outer_blanks(known[i].bad[j])) {	/* which do not count in a file */
				assert_int_equal(load_text(text), -EINVAL);
				assert_error_has("hugepin.conf:2)");
				assert_error_has(known[i].bad[j]);
			}
			assert_option(known[i].name, known[i].default_value, "default");
			assert_option("host_cap", "0", "default");
		}
	}
}

/* C032: every fraction, hugepin's own as well */
static void every_fraction_ends_at_one_and_knows_a_percent(void **state)
{
	static const char *const bad[] = { "1.0000001", "1.7", "4.0", "100", "200" };
	size_t id, i, fractions = 0;

	(void)state;
	for (id = 0; id < HPI_OPT_COUNT; id++) {
		const struct hpi_option *option = hpi_options_entry(id);

		if (option->type != HPI_TYPE_DOUBLE || !option->max || strcmp(option->max, "1") != 0)
			continue;
		fractions++;
		for (i = 0; i < COUNT(bad); i++) {
			assert_int_equal(hugepin_options_set(options, option->name, bad[i]), -EINVAL);
			assert_error_has("range is 0 to 1");
			assert_int_equal(!strstr(hugepin_error(), "looks like percent"), i < 2);
			assert_false(hpi_options_is_set(options, id));
		}
		assert_int_equal(hugepin_options_set(options, option->name, "1.0"), 0);
		assert_true(hpi_options_double(options, id) == 1.0);
	}
	assert_int_equal(fractions, 6);
}

/* C037: the fraction is no cap, and says nothing of one */
static void chunk_and_cap_are_two_settings(void **state)
{
	struct hugepin_option_info info = { .size = sizeof(info) };

	(void)state;
	assert_int_equal(load_text("FLAGS_fraction_of_cuda_pinned_memory_to_use = 0.6\n"), 0);
	assert_false(hpi_options_is_set(options, HPI_OPT_PINNED_CAP));
	assert_true(hpi_options_uint(options, HPI_OPT_PINNED_CAP) == 0);
	assert_int_equal(load_text("FLAGS_fraction_of_cuda_pinned_memory_to_use = 0.5\npinned_cap = 51G\n"), 0);
	assert_true(hpi_options_uint(options, HPI_OPT_PINNED_CAP) == HPI_GIB(51));
	assert_true(hpi_options_share(hpi_options_double(options, HPI_OPT_PADDLE_FRACTION_PINNED), HPI_GIB(100)) ==
		    HPI_GIB(50));
	assert_int_equal(hugepin_options_get(options, "FLAGS_fraction_of_cuda_pinned_memory_to_use", &info), 0);
	assert_non_null(strstr(info.doc, "a chunk, not a cap"));
}

static void assert_scaled(enum hpi_option_id id, const char *text, uint64_t bytes)
{
	uint64_t got = 1;

	assert_int_equal(hugepin_options_set(options, hpi_options_entry(id)->name, text), 0);
	assert_true(hpi_options_scaled(options, id, &got));
	if (got != bytes)
		fail_msg("%s is %llu bytes, not %llu", text, (unsigned long long)got, (unsigned long long)bytes);
}

static void megabytes_and_gigabytes_lose_no_bytes(void **state)
{
	uint64_t bytes = 7;

	(void)state;
	assert_scaled(HPI_OPT_PADDLE_INITIAL_CPU_MB, "500", HPI_MIB(500));
	assert_scaled(HPI_OPT_PADDLE_INITIAL_CPU_MB, "17592186044415", UINT64_MAX - HPI_MIB(1) + 1);
	assert_scaled(HPI_OPT_PADDLE_REALLOCATE_GPU_MB, "3", HPI_MIB(3));
	assert_scaled(HPI_OPT_PADDLE_INITIAL_GPU_MB, "0", 0);
	assert_scaled(HPI_OPT_PADDLE_EAGER_DELETE_GB, "2.5", HPI_MIB(2560));
	assert_scaled(HPI_OPT_PADDLE_EAGER_DELETE_GB, "0.1", 107374182);		/* .4 */
	assert_scaled(HPI_OPT_PADDLE_EAGER_DELETE_GB, "0.7", 751619277);		/* 276.8 */
	assert_scaled(HPI_OPT_PADDLE_EAGER_DELETE_GB, "1e-300", 0);
	assert_scaled(HPI_OPT_PADDLE_EAGER_DELETE_GB, "17179869183", UINT64_MAX - HPI_1G + 1);
	/* 2^23 GiB and a byte: the last double that tells it */
	assert_scaled(HPI_OPT_PADDLE_EAGER_DELETE_GB, "8388607.9999999990686774", (1ull << 53) - 1);
	assert_scaled(HPI_OPT_PADDLE_FUSE_MEMORY_MB, "0.5", 524288);
	assert_int_equal(hugepin_options_set(options, "FLAGS_eager_delete_tensor_gb", "-1e308"), 0);
	assert_false(hpi_options_scaled(options, HPI_OPT_PADDLE_EAGER_DELETE_GB, &bytes));
	assert_int_equal(hugepin_options_set(options, "FLAGS_fuse_parameter_memory_size", "-1"), 0);
	assert_false(hpi_options_scaled(options, HPI_OPT_PADDLE_FUSE_MEMORY_MB, &bytes));
	assert_true(bytes == 7);
	/* -0.0 is 0, at once, and not "no collection" */
	assert_scaled(HPI_OPT_PADDLE_EAGER_DELETE_GB, "-0.0", 0);
}

static void zero_means_off_and_is_not_unset(void **state)
{
	(void)state;
	assert_option("FLAGS_initial_gpu_memory_in_mb", "0", "default");
	assert_int_equal(load_text("FLAGS_initial_gpu_memory_in_mb = 0\n"), 0);
	assert_true(hpi_options_is_set(options, HPI_OPT_PADDLE_INITIAL_GPU_MB));
	assert_true(hpi_options_dialect_active(options, "paddle"));
	assert_false(hpi_options_is_set(options, HPI_OPT_PADDLE_REALLOCATE_GPU_MB));
}

static void static_policy_1_means_2(void **state)
{
	static const char *const given[] = { "0", "1", "2", "3", "4" };
	static const unsigned int meant[] = { 0, 2, 2, 3, 4 };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(given); i++) {
		assert_int_equal(hugepin_options_set(options, "static_memory_policy", given[i]), 0);
		assert_int_equal(hpi_options_static_policy(options), meant[i]);
	}
}

/* Each pair of the three that say how a pool grows */
static void two_systems_words_for_growth_are_refused_in_one_source(void **state)
{
	static const struct {
		const char *name, *value, *entry;
		enum hpi_option_id id;
	} words[] = {
		{ "strategy", "needed", "HUGEPIN_STRATEGY=needed", HPI_OPT_STRATEGY },
		{ "FLAGS_allocator_strategy", "naive_best_fit", "FLAGS_allocator_strategy=naive_best_fit",
		  HPI_OPT_PADDLE_ALLOCATOR_STRATEGY },
		{ "allow_growth", "true", "HUGEPIN_ALLOW_GROWTH=true", HPI_OPT_TF_ALLOW_GROWTH },
	};
	char text[256], *entries[] = { NULL, NULL, NULL };
	size_t i, j;

	(void)state;
	for (i = 0; i < COUNT(words); i++) {
		for (j = 0; j < COUNT(words); j++) {
			if (i == j)
				continue;
			hugepin_options_destroy(options);
			assert_int_equal(hugepin_options_create(&options), 0);
			snprintf(text, sizeof(text), "%s = %s\n%s = %s\n", words[i].name, words[i].value, words[j].name,
				 words[j].value);
			assert_int_equal(load_text(text), -EINVAL);
			assert_error_has(words[i].name);
			assert_error_has(words[j].name);
			entries[0] = (char *)words[i].entry;
			entries[1] = (char *)words[j].entry;
			assert_int_equal(load_environment(entries), -EINVAL);
			assert_error_has(words[i].name);
			assert_false(hpi_options_is_set(options, words[i].id));
			/* In different sources the higher one speaks. */
			entries[1] = NULL;
			assert_int_equal(load_environment(entries), 0);
			assert_int_equal(hugepin_options_set(options, words[j].name, words[j].value), 0);
			assert_true(hpi_options_outranks(options, words[j].id, words[i].id));
			assert_int_equal(hugepin_options_set(options, words[i].name, words[i].value), -EINVAL);
			/* The same option again is no rival of itself. */
			assert_int_equal(hugepin_options_set(options, words[j].name, words[j].value), 0);
		}
	}
}

static void options_on_different_things_go_together(void **state)
{
	(void)state;
	assert_int_equal(load_text("FLAGS_fraction_of_gpu_memory_to_use = 0.5\n"
				   "per_process_gpu_memory_fraction = 0.5\n"
				   "device_cap = 8G\n"
				   "static_memory_policy = 4\n"
				   "deferred_deletion_bytes = 1M\n"
				   "FLAGS_eager_delete_tensor_gb = 1\n"
				   "allow_growth = true\n"
				   "variable_use_1g_huge_page = 2\n"
				   "per_process_host_memory_fraction = 0.25\n"), 0);
	assert_true(hpi_options_dialect_active(options, "paddle"));
	assert_true(hpi_options_dialect_active(options, "tensorflow"));
	assert_true(hpi_options_dialect_active(options, "ascend"));
}

static void environment_names_are_those_of_the_system_or_begin_with_hugepin(void **state)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	size_t i, j;

	(void)state;
	for (i = 0; !hugepin_options_at(options, i, &info); i++) {
		if (!strcmp(info.dialect, "paddle")) {
			assert_string_equal(info.environment, info.name);
			continue;
		}
		assert_memory_equal(info.environment, "HUGEPIN_", 8);
		assert_int_equal(strlen(info.environment), strlen(info.name) + 8);
		for (j = 0; info.name[j]; j++) {
			char c = info.name[j];

			assert_int_equal(info.environment[8 + j], c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_options_of_the_other_systems_are_known),
		TEST(values_that_they_take_are_taken_from_every_source),
		TEST(values_beyond_them_are_refused_from_every_source),
		TEST(every_fraction_ends_at_one_and_knows_a_percent),
		TEST(chunk_and_cap_are_two_settings),
		TEST(megabytes_and_gigabytes_lose_no_bytes),
		TEST(zero_means_off_and_is_not_unset),
		TEST(static_policy_1_means_2),
		TEST(two_systems_words_for_growth_are_refused_in_one_source),
		TEST(options_on_different_things_go_together),
		TEST(environment_names_are_those_of_the_system_or_begin_with_hugepin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
