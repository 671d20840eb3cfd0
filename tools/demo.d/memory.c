// SPDX-License-Identifier: MIT
/* Time, and what is in memory. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "demo.h"

#define WORDS_AT_ONCE	8

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void sleep_ms(unsigned int ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

uint64_t random_between(uint64_t low, uint64_t high)
{
	uint64_t n = now_us();

	/* Not for secrets: without entropy the clock does. */
	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != sizeof(n))
		n *= 0x9e3779b97f4a7c15ull;
	return low + n % (high - low + 1);
}

static uint64_t nonzero_bytes_of(const uint64_t *words, uint64_t count)
{
	const unsigned char *bytes = (const unsigned char *)words;
	uint64_t found = 0;

	for (uint64_t i = 0; i < count * sizeof(*words); i++)
		found += bytes[i] != 0;
	return found;
}

uint64_t memory_nonzero_bytes(const void *memory, uint64_t bytes)
{
	const uint64_t *word = memory, *end = word + bytes / sizeof(*word);
	uint64_t found = 0;

	for (; word + WORDS_AT_ONCE <= end; word += WORDS_AT_ONCE)
		if (word[0] | word[1] | word[2] | word[3] | word[4] | word[5] | word[6] | word[7])
			found += nonzero_bytes_of(word, WORDS_AT_ONCE);
	return found + nonzero_bytes_of(word, end - word);
}

static uint64_t pattern(uint64_t offset)
{
	return (offset * 0x9e3779b97f4a7c15ull) | 0x0101010101010101ull;
}

void memory_fill(void *memory, uint64_t offset, uint64_t bytes)
{
	uint64_t *words = memory;

	for (uint64_t i = 0; i < bytes / sizeof(*words); i++)
		words[i] = pattern(offset + i * sizeof(*words));
}

uint64_t memory_matching_bytes(const void *memory, uint64_t offset, uint64_t bytes)
{
	const uint64_t *words = memory;
	uint64_t i = 0;

	while (i < bytes / sizeof(*words) && words[i] == pattern(offset + i * sizeof(*words)))
		i++;
	return i * sizeof(*words);
}
