// SPDX-License-Identifier: MIT
/* Choices: numbers that depend on the run's seed and the call alone, and values that calls may like. */
#include <stdint.h>

#include "world.h"

/* One step of splitmix64 over both. */
uint64_t random_mix(uint64_t a, uint64_t b)
{
	uint64_t z = a + (b + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

uint64_t random_word(struct world *w)
{
	return w->random = random_mix(w->random, 0);
}

uint64_t below(struct world *w, uint64_t n)
{
	return (random_word(w) >> 11) % n;
}

bool chance(struct world *w, unsigned int percent)
{
	return below(w, 100) < percent;
}

uint64_t odd_number(struct world *w)
{
	static const uint64_t odd[] = {
		0, 1, 4095, 4097, PAGE_2M - 1, PAGE_2M + 1, PAGE_1G - 4096, PAGE_1G, PAGE_1G + 1, UINT32_MAX,
		1ULL << 32, INT64_MAX, INT64_MAX - PAGE_1G, INT64_MAX - PAGE_1G + 1, UINT64_MAX, UINT64_MAX - 4095,
		UINT64_MAX - PAGE_2M + 1, 1ULL << 63, 1ULL << 47, (1ULL << 47) - 4096,
	};

	return chance(w, 80) ? ONE_OF(w, odd) : random_word(w) >> below(w, 64);
}

uint64_t some_bytes(struct world *w)
{
	if (chance(w, 4))
		return odd_number(w);
	if (chance(w, 4))
		return PAGE_4K * (1 + below(w, 1024));
	return PAGE_2M * (chance(w, 60) ? 1 : 1 + below(w, 4));
}

/* Few enough that processes meet at them. */
const char *some_name(struct world *w)
{
	static const char *const good[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
	static const char *const folders[] = { "d0", "d1", "d0/a", "d0/b", "d1/a", "d0/d1", "d0/d1/a" };
	static char longest[300];
	static const char *const bad[] = { "", ".", "..", "a/b", "/", "\xff\xfe", "a\nb", longest };
	size_t i;

	for (i = 0; i < sizeof(longest) - 1; i++)
		longest[i] = 'n';
	/* 255 bytes are a name, 256 are not */
	longest[254 + below(w, 3)] = '\0';
	if (chance(w, 70))
		return ONE_OF(w, good);
	return chance(w, 85) ? ONE_OF(w, folders) : ONE_OF(w, bad);
}
