// SPDX-License-Identifier: MIT
/*
 * Numbers from text and sizes as text.
 *
 * A number is read whole or refused: no blanks, no '+', no trailing bytes, no wrap. Nothing here looks at the locale of
 * the process, where the decimal point may be a comma; libc's own readers and isdigit() do.
 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *s)
{
	while (is_digit(*s))
		s++;
	return s;
}

/* Reads the digits at *@text and moves it behind them; -EINVAL: none there. */
static int take_uint(const char **text, uint64_t *out)
{
	const char *s = *text;
	uint64_t n = 0;

	if (!s || !is_digit(*s))
		return -EINVAL;
	for (; is_digit(*s); s++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
			return -ERANGE;
	*text = s;
	*out = n;
	return 0;
}

int hpi_size_parse_uint(const char *text, uint64_t *out)
{
	uint64_t n;
	int err;

	/* All digits first: of "99999999999999999999x" the junk is the news, not the size. */
	if (!text || *skip_digits(text))
		return -EINVAL;
	err = take_uint(&text, &n);
	if (!err)
		*out = n;
	return err;
}

int hpi_size_parse_int(const char *text, int64_t *out)
{
	bool negative = text && *text == '-';
	uint64_t n;
	int err = hpi_size_parse_uint(text && negative ? text + 1 : text, &n);

	if (err)
		return err;
	if (n > (uint64_t)INT64_MAX + negative)
		return -ERANGE;
	*out = negative ? (int64_t)(0 - n) : (int64_t)n;
	return 0;
}

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_c_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* [-]digits[.digits][e[+-]digits], with a digit on at least one side of the point: no hex, no "nan", no "inf". */
static bool is_decimal(const char *s)
{
	const char *whole, *fraction;

	if (*s == '-')
		s++;
	whole = s;
	s = skip_digits(s);
	if (*s == '.') {
		fraction = s + 1;
		s = skip_digits(fraction);
		if (s == fraction && fraction == whole + 1)
			return false;
	} else if (s == whole) {
		return false;
	}
	if (*s == 'e' || *s == 'E') {
		s++;
		if (*s == '+' || *s == '-')
			s++;
		if (!is_digit(*s))
			return false;
		s = skip_digits(s);
	}
	return !*s;
}

int hpi_size_parse_double(const char *text, double *out)
{
	int saved = errno;
	double value;

	if (!text || !is_decimal(text))
		return -EINVAL;
	pthread_once(&c_locale_once, make_c_locale);
	if (!c_locale)
		return -ENOMEM;
	value = strtod_l(text, NULL, c_locale);
	errno = saved;
	if (!isfinite(value))
		return -ERANGE;
	*out = value == 0 ? 0 : value;		/* -0.0 has no meaning for any option */
	return 0;
}

/* ASCII only: under a Turkish locale strcasecmp() may not take "I" for "i". @word is in lower case. */
static bool is_word(const char *text, const char *word)
{
	for (; *text && *word; text++, word++)
		if ((*text >= 'A' && *text <= 'Z' ? *text - 'A' + 'a' : *text) != *word)
			return false;
	return !*text && !*word;
}

int hpi_size_parse_bool(const char *text, bool *out)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "0", false }, { "false", false }, { "no", false }, { "off", false },
		{ "1", true }, { "true", true }, { "yes", true }, { "on", true },
	};
	size_t i;

	if (!text)
		return -EINVAL;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (is_word(text, words[i].word)) {
			*out = words[i].value;
			return 0;
		}
	}
	return -EINVAL;
}

/* "", "B", or one of K M G T in either case with "", "i", "B" or "iB" behind; all are powers of 2^10. */
static int unit_shift(const char *unit, unsigned int *shift)
{
	switch (*unit) {
	case 'K': case 'k':
		*shift = 10;
		break;
	case 'M': case 'm':
		*shift = 20;
		break;
	case 'G': case 'g':
		*shift = 30;
		break;
	case 'T': case 't':
		*shift = 40;
		break;
	default:
		*shift = 0;
		return !*unit || !strcmp(unit, "B") ? 0 : -EINVAL;
	}
	unit++;
	if (*unit == 'i')
		unit++;
	if (*unit == 'B')
		unit++;
	return *unit ? -EINVAL : 0;
}

int hpi_size_parse_bytes(const char *text, uint64_t *out)
{
	unsigned int shift;
	uint64_t n;
	int err;

	if (!text || unit_shift(skip_digits(text), &shift))
		return -EINVAL;
	err = take_uint(&text, &n);
	if (err)
		return err;
	if (__builtin_mul_overflow(n, (uint64_t)1 << shift, &n))
		return -ERANGE;
	*out = n;
	return 0;
}

/*
 * Tenths are rounded to the nearest, in integers. A value that is no whole number of its unit keeps its ".0", so that
 * "1.0 GiB" tells that it is not exactly "1 GiB".
 */
int hpi_size_format(uint64_t bytes, char *buffer, size_t size)
{
	static const char units[] = "KMGTPE";
	unsigned int unit = 0, shift = 10;
	unsigned __int128 tenths;

	if (bytes < 10240)
		return snprintf(buffer, size, bytes == 1 ? "%llu byte" : "%llu bytes", (unsigned long long)bytes);
	for (;;) {
		tenths = ((unsigned __int128)bytes * 10 + ((uint64_t)1 << (shift - 1))) >> shift;
		if (tenths < 10240 || !units[unit + 1])
			break;
		unit++;
		shift += 10;
	}
	if (!(bytes & (((uint64_t)1 << shift) - 1)))
		return snprintf(buffer, size, "%llu %ciB", (unsigned long long)(bytes >> shift), units[unit]);
	return snprintf(buffer, size, "%llu.%llu %ciB", (unsigned long long)(tenths / 10),
			(unsigned long long)(tenths % 10), units[unit]);
}
