/* SPDX-License-Identifier: MIT */
/*
 * What the fuzzers have in common. A broken property ends the run, and libFuzzer keeps the input that broke it.
 */
#ifndef HUGEPIN_TESTS_FUZZ_H
#define HUGEPIN_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PROPERTY(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

/* The input as a string; it ends at the first NUL. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	PROPERTY(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif /* HUGEPIN_TESTS_FUZZ_H */
