// SPDX-License-Identifier: MIT
/*
 * Looks at every state that the model can come to.
 *
 *	explore			all states; 0 if every invariant holds in each
 *	explore --without GUARD	the same with that guard left out; 0 if that is found; the shortest way there
 *	explore --guards	the guards' names
 *	explore --names		the functions of kmod/ that change what a page is
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define STATES_MAX	(1u << 20)
#define TABLE		(1u << 22)
#define SETTLING_MAX	64

static struct seen {
	struct world world;
	uint32_t from;		/* index of the state before */
	uint8_t step, i;
} *seen;
static uint32_t *table;		/* 1 + index, by hash */
static uint32_t count;
static uint64_t transitions, taken[64];

static uint64_t hash(const struct world *w)
{
	const unsigned char *byte = (const unsigned char *)w;
	uint64_t h = 0xcbf29ce484222325ull;
	size_t i;

	for (i = 0; i < sizeof(*w); i++)
		h = (h ^ byte[i]) * 0x100000001b3ull;
	return h ^ h >> 29;
}

/* True if it is new. */
static bool add(const struct world *w, uint32_t from, size_t step, unsigned int i)
{
	uint32_t at;

	for (at = hash(w) % TABLE; table[at]; at = (at + 1) % TABLE)
		if (!memcmp(&seen[table[at] - 1].world, w, sizeof(*w)))
			return false;
	if (count == STATES_MAX) {
		fprintf(stderr, "more than %u states\n", STATES_MAX);
		exit(2);
	}
	seen[count] = (struct seen){ .world = *w, .from = from, .step = step, .i = i };
	table[at] = ++count;
	return true;
}

static void print_way(uint32_t to)
{
	uint32_t way[256], length = 0;

	for (; to && length < 256; to = seen[to].from)
		way[length++] = to;
	while (length--)
		printf("    %s %u\n", steps[seen[way[length]].step].name, seen[way[length]].i);
}

/* Whatever state it is in: when users let go, everything comes back by itself. */
static bool settles(struct world w)
{
	unsigned int round, i;
	bool moved = true;
	size_t s;

	for (round = 0; round < SETTLING_MAX && moved; round++) {
		moved = false;
		for (s = 0; s < step_count && !moved; s++)
			for (i = 0; i < steps[s].range && steps[s].settles && !moved; i++)
				moved = steps[s].take(&w, i);
	}
	return !moved && world_settled(&w);
}

/* NULL, or what is wrong in a state that is reached; the way there is printed. */
static const char *explore(void)
{
	const char *wrong = NULL;
	struct world w;
	uint32_t at;
	unsigned int i;
	size_t s;

	world_begin(&w);
	add(&w, 0, 0, 0);
	for (at = 0; at < count; at++) {
		wrong = world_wrong(&seen[at].world);
		if (wrong) {
			print_way(at);
			return wrong;
		}
		for (s = 0; s < step_count; s++) {
			for (i = 0; i < steps[s].range; i++) {
				w = seen[at].world;
				if (!steps[s].take(&w, i))
					continue;
				transitions++;
				taken[s]++;
				add(&w, at, s, i);
			}
		}
	}
	for (at = 0; at < count; at++) {
		if (!settles(seen[at].world)) {
			print_way(at);
			return "something never comes back";
		}
	}
	return NULL;
}

/* A step that is never possible is a mistake in the model. */
static int check_all_taken(void)
{
	size_t s;

	for (s = 0; s < step_count; s++) {
		if (!taken[s]) {
			printf("the step '%s' is never taken\n", steps[s].name);
			return 1;
		}
	}
	return 0;
}

static int begin(void)
{
	seen = malloc(STATES_MAX * sizeof(*seen));
	table = calloc(TABLE, sizeof(*table));
	if (seen && table)
		return 0;
	fprintf(stderr, "no memory for %u states\n", STATES_MAX);
	return 2;
}

static int explore_whole(void)
{
	const char *wrong = explore();

	printf("%u states, %llu transitions: %s\n", count, (unsigned long long)transitions,
	       wrong ? wrong : "all is well");
	return wrong ? 1 : check_all_taken();
}

static int explore_without(const char *name)
{
	const char *wrong;
	size_t g;

	for (g = 0; g < guard_count; g++)
		if (!strcmp(guards[g].name, name))
			missing = &guards[g];
	if (!missing) {
		fprintf(stderr, "no guard %s\n", name);
		return 2;
	}
	wrong = explore();
	printf("without %s (%s): %s, after %u states\n", missing->name, missing->without,
	       wrong ? wrong : "nothing is found", count);
	return !wrong;
}

int main(int argc, char **argv)
{
	size_t i;

	if (argc == 2 && !strcmp(argv[1], "--guards")) {
		for (i = 0; i < guard_count; i++)
			puts(guards[i].name);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--names")) {
		for (i = 0; i < step_count; i++)
			if (steps[i].function)
				puts(steps[i].function);
		for (i = 0; i < elsewhere_count; i++)
			puts(elsewhere[i]);
		return 0;
	}
	if (argc != 1 && (argc != 3 || strcmp(argv[1], "--without"))) {
		fprintf(stderr, "usage: %s [--without GUARD | --guards | --names]\n", argv[0]);
		return 2;
	}
	if (begin())
		return 2;
	return argc == 1 ? explore_whole() : explore_without(argv[2]);
}
