// SPDX-License-Identifier: MIT
/*
 * Whole blocks of the arena that a cache keeps, in lists by size with a bit for each. A request takes the smallest that is
 * large enough, if that wastes little: sizes that repeat, as a training program's do, fit exactly.
 */
#include "pool_cache.h"

#define STEPS	(1u << KEEP_STEPS_LOG2)

/* The list of chunks of @bytes, more than SMALL_MAX. */
static unsigned int list_of(uint64_t bytes)
{
	unsigned int msb = 63 - (unsigned int)__builtin_clzll(bytes);

	return (msb - 13) * STEPS + (unsigned int)(bytes >> (msb - KEEP_STEPS_LOG2) & (STEPS - 1));
}

static struct chunk *pop(struct cache *cache, unsigned int list)
{
	struct chunk *c = cache->keep[list];

	cache->keep[list] = c->bin_next;
	if (!c->bin_next)
		cache->keep_bits[list / 64] &= ~(1ull << list % 64);
	cache->kept_bytes -= c->bytes;
	return c;
}

struct chunk *hpi_keep_take(struct cache *cache, uint64_t bytes)
{
	unsigned int list = list_of(bytes), word = list / 64, step = list % 64;
	const struct chunk *c = cache->keep[list];
	uint64_t behind;

	if (c && c->bytes >= bytes)
		return pop(cache, list);
	/* The lists behind this one have larger chunks only; those of up to a sixteenth more are the next four. */
	behind = (cache->keep_bits[word] >> step >> 1 | cache->keep_bits[word + 1] << (63 - step)) & 0xf;
	if (!behind)
		return NULL;
	list += 1 + (unsigned int)__builtin_ctzll(behind);
	if (cache->keep[list]->bytes > bytes + bytes / KEEP_SLACK)
		return NULL;
	return pop(cache, list);
}

void hpi_keep_put(struct cache *cache, struct chunk *c)
{
	unsigned int list = list_of(c->bytes);

	c->bin_next = cache->keep[list];
	cache->keep[list] = c;
	cache->keep_bits[list / 64] |= 1ull << list % 64;
	cache->kept_bytes += c->bytes;
}

void hpi_keep_give(struct cache *cache, uint64_t most_bytes)
{
	struct hugepin_pool *pool = cache->pool;
	unsigned int word = KEEP_OCTAVES;
	struct chunk *c;

	while (cache->kept_bytes > most_bytes) {
		while (!cache->keep_bits[word])
			word--;
		c = pop(cache, word * 64 + 63 - (unsigned int)__builtin_clzll(cache->keep_bits[word]));
		c->kept = 0;
		pool->caches->counts.active += (int64_t)c->bytes;
		pool->caches->blocks++;
		hpi_arena_free(pool->arena, (void *)c->addr);
	}
}
