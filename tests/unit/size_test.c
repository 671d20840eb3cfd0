// SPDX-License-Identifier: MIT
/* Numbers from text, whole or not at all, and sizes as text. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "comma_locale.h"
#include "internal.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void uint_takes_digits_alone(void **state)
{
	static const char *const bad[] = {
		"", " 1", "1 ", "+1", "-1", "-0", "0x10", "1.0", "1e3", "1k", "1\n", "\xd9\xa1",
		"99999999999999999999x",
	};
	uint64_t n = 77;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(hpi_size_parse_uint(bad[i], &n), -EINVAL);
	assert_int_equal(hpi_size_parse_uint(NULL, &n), -EINVAL);
	assert_int_equal(n, 77);
	assert_int_equal(hpi_size_parse_uint("007", &n), 0);
	assert_int_equal(n, 7);
}

/* C045: counts and sizes that wrap in 32 or 64 bits */
static void uint_refuses_what_64_bits_cannot_hold(void **state)
{
	uint64_t n = 77;

	(void)state;
	assert_int_equal(hpi_size_parse_uint("18446744073709551615", &n), 0);
	assert_true(n == UINT64_MAX);
	n = 77;
	assert_int_equal(hpi_size_parse_uint("18446744073709551616", &n), -ERANGE);
	assert_int_equal(hpi_size_parse_uint("184467440737095516160", &n), -ERANGE);
	assert_int_equal(hpi_size_parse_uint("99999999999999999999999999", &n), -ERANGE);
	assert_int_equal(n, 77);
	assert_int_equal(hpi_size_parse_uint("4294967297", &n), 0);
	assert_true(n == 4294967297);
}

static void int_reaches_both_ends(void **state)
{
	static const char *const bad[] = { "", "-", "--1", "+1", "- 1", "1-", "-0x1", "-1.5", "−1" };
	int64_t n = 77;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(hpi_size_parse_int(bad[i], &n), -EINVAL);
	assert_int_equal(hpi_size_parse_int(NULL, &n), -EINVAL);
	assert_int_equal(hpi_size_parse_int("9223372036854775808", &n), -ERANGE);
	assert_int_equal(hpi_size_parse_int("-9223372036854775809", &n), -ERANGE);
	assert_int_equal(n, 77);
	assert_int_equal(hpi_size_parse_int("9223372036854775807", &n), 0);
	assert_true(n == INT64_MAX);
	assert_int_equal(hpi_size_parse_int("-9223372036854775808", &n), 0);
	assert_true(n == INT64_MIN);
	assert_int_equal(hpi_size_parse_int("-0", &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(hpi_size_parse_int("-1", &n), 0);
	assert_int_equal(n, -1);
}

static const struct {
	const char *text;
	double value;
} doubles[] = {
	{ "0", 0 }, { "-0.0", 0 }, { "1", 1 }, { "1.0", 1 }, { "0.5", 0.5 }, { ".5", 0.5 }, { "5.", 5 },
	{ "-2.25", -2.25 },
	{ "1e3", 1000 }, { "1E-3", 0.001 }, { "2.5e+1", 25 }, { "0.1", 0.1 },
	{ "1.7976931348623157e308", 1.7976931348623157e308 },
	{ "1e-999", 0 }, { "9007199254740993", 9007199254740992.0 },
};

static void double_is_read_to_the_nearest(void **state)
{
	double d;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(doubles); i++) {
		d = -77;
		errno = EBADF;
		assert_int_equal(hpi_size_parse_double(doubles[i].text, &d), 0);
		assert_true(d == doubles[i].value);
		assert_false(__builtin_signbit(d) && d == 0);
		assert_int_equal(errno, EBADF);
	}
}

/* C033: what is not finite passes every comparison with a range */
static void double_refuses_what_is_not_finite_and_junk(void **state)
{
	static const char *const bad[] = {
		"nan", "NaN", "-nan", "nan(1)", "inf", "-inf", "INFINITY", "0x1p-1", "0x1", "", " 0.5", "0.5 ", "0.5x",
		"+0.5",
		".", "-", "-.", "e5", ".e5", "1e", "1e+", "1e5.0", "1..2", "1.2.3", "0,5", "0.5,", "1_000", "--1",
		"0.5\n",
	};
	double d = 77;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(hpi_size_parse_double(bad[i], &d), -EINVAL);
	assert_int_equal(hpi_size_parse_double(NULL, &d), -EINVAL);
	assert_int_equal(hpi_size_parse_double("1e999", &d), -ERANGE);
	assert_int_equal(hpi_size_parse_double("-1e999", &d), -ERANGE);
	assert_true(d == 77);
}

/* C035: under a locale with a decimal comma */
static void numbers_are_the_same_under_a_decimal_comma(void **state)
{
	char text[32], point[32];
	struct tree tree;
	double d = 0;

	(void)state;
	comma_locale_enter(&tree);
	snprintf(point, sizeof(point), "%.1f", 0.5);
	assert_string_equal(point, "0,5");	/* the locale is in force */
	assert_int_equal(hpi_size_parse_double("0.5", &d), 0);
	assert_true(d == 0.5);
	assert_int_equal(hpi_size_parse_double("0,5", &d), -EINVAL);
	hpi_size_format(5690831667, text, sizeof(text));
	assert_string_equal(text, "5.3 GiB");
	assert_string_equal(localeconv()->decimal_point, ",");	/* and still is */
	comma_locale_leave(&tree);
}

static void bool_takes_its_eight_words(void **state)
{
	static const char *const yes[] = { "1", "true", "yes", "on", "True", "TRUE", "ON", "Yes" };
	static const char *const no[] = { "0", "false", "no", "off", "False", "FALSE", "OFF", "No" };
	static const char *const bad[] = { "", "2", "00", "t", "y", "tru", "truee", " on", "on ", "-1", "enable" };
	bool b;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(yes); i++) {
		b = false;
		assert_int_equal(hpi_size_parse_bool(yes[i], &b), 0);
		assert_true(b);
		assert_int_equal(hpi_size_parse_bool(no[i], &b), 0);
		assert_false(b);
	}
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(hpi_size_parse_bool(bad[i], &b), -EINVAL);
	assert_int_equal(hpi_size_parse_bool(NULL, &b), -EINVAL);
}

static void bytes_have_units_of_1024(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 }, { "4096", 4096 }, { "4096B", 4096 }, { "512K", 512 << 10 }, { "512k", 512 << 10 },
		{ "2M", 2 << 20 },
		{ "2Mi", 2 << 20 }, { "2MB", 2 << 20 }, { "2MiB", 2 << 20 }, { "1G", 1 << 30 }, { "1g", 1 << 30 },
		{ "3T", 3ull << 40 }, { "16777215T", 16777215ull << 40 }, { "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = {
		"", "M", "-1M", "+1M", " 1M", "1 M", "1M ", "1MM", "1Mb", "1MI", "1iB", "1i", "1BB", "1MBi", "1.5G",
		"1,5G", "0x1M",
		"1P", "1Gib", "1e3", "nanG",
	};
	uint64_t n;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(good); i++) {
		assert_int_equal(hpi_size_parse_bytes(good[i].text, &n), 0);
		assert_true(n == good[i].bytes);
	}
	n = 77;
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(hpi_size_parse_bytes(bad[i], &n), -EINVAL);
	assert_int_equal(hpi_size_parse_bytes(NULL, &n), -EINVAL);
	assert_int_equal(n, 77);
}

/* C045: a unit makes the number wrap */
static void bytes_refuse_what_64_bits_cannot_hold(void **state)
{
	static const char *const large[] = { "16777216T", "17179869184G", "18446744073709551615K",
					    "18446744073709551616" };
	uint64_t n = 77;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(large); i++)
		assert_int_equal(hpi_size_parse_bytes(large[i], &n), -ERANGE);
	assert_int_equal(n, 77);
}

static void sizes_are_written_to_a_tenth_and_exact_where_short(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} table[] = {
		{ 0, "0 bytes" }, { 1, "1 byte" }, { 4096, "4096 bytes" }, { 10239, "10239 bytes" },
		{ 10240, "10 KiB" },
		{ 10241, "10.0 KiB" }, { 2 << 20, "2 MiB" }, { (2 << 20) + 1, "2.0 MiB" }, { 5690831667, "5.3 GiB" },
		{ 1 << 30, "1 GiB" }, { (1 << 30) - 1, "1.0 GiB" }, { 1023 << 20, "1023 MiB" }, { 1ull << 40, "1 TiB" },
		{ 1ull << 60, "1 EiB" }, { UINT64_MAX, "16.0 EiB" },
	};
	char text[32], tiny[4] = "zzz";
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(table); i++) {
		assert_int_equal(hpi_size_format(table[i].bytes, text, sizeof(text)), strlen(table[i].text));
		assert_string_equal(text, table[i].text);
	}
	assert_int_equal(hpi_size_format(1 << 30, tiny, sizeof(tiny)), 5);
	assert_string_equal(tiny, "1 G");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uint_takes_digits_alone),
		cmocka_unit_test(uint_refuses_what_64_bits_cannot_hold),
		cmocka_unit_test(int_reaches_both_ends),
		cmocka_unit_test(double_is_read_to_the_nearest),
		cmocka_unit_test(double_refuses_what_is_not_finite_and_junk),
		cmocka_unit_test(numbers_are_the_same_under_a_decimal_comma),
		cmocka_unit_test(bool_takes_its_eight_words),
		cmocka_unit_test(bytes_have_units_of_1024),
		cmocka_unit_test(bytes_refuse_what_64_bits_cannot_hold),
		cmocka_unit_test(sizes_are_written_to_a_tenth_and_exact_where_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
