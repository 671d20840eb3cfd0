// SPDX-License-Identifier: MIT
/*
 * Small blocks: carved from spans, each of one class. What is here is behind the threads' stacks, for batches, under
 * the pool's lock. A span whose blocks are all free goes back to the arena at once.
 */
#include "pool_cache.h"

#include <stdlib.h>

/* ---- spans of a class that have free blocks ---- */

static void open_insert(struct span *span)
{
	struct span **first = &span->home->open[span->class];

	span->prev = NULL;
	span->next = *first;
	if (*first)
		(*first)->prev = span;
	*first = span;
}

static void open_remove(struct span *span)
{
	if (span->next)
		span->next->prev = span->prev;
	if (span->prev)
		span->prev->next = span->next;
	else
		span->home->open[span->class] = span->next;
}

/* ---- spans come and go ---- */

static void map_span(struct hugepin_pool *pool, const struct span *span, uintptr_t first, uintptr_t others)
{
	uintptr_t *slot = &pool->caches->map[(span_addr(span) - (uintptr_t)pool->window) / HPI_TABLE_SLOT_BYTES];
	size_t i;

	for (i = 0; i < SPAN_BYTES / HPI_TABLE_SLOT_BYTES; i++)
		__atomic_store_n(&slot[i], i ? others : first, __ATOMIC_RELAXED);
}

static struct span *span_new(struct cache *home, unsigned int class)
{
	uint32_t bytes = class_bytes(class), blocks = (uint32_t)(SPAN_BYTES / bytes), i;
	struct span *span = hpi_store_calloc(sizeof(*span) + (blocks + 1) * sizeof(span->held[0]));

	if (!span)
		return NULL;
	span->home = home;
	span->class = (uint16_t)class;
	span->lot.mark = mark_of(class);
	span->lot.bytes = bytes;
	span->lot.reciprocal = lot_reciprocal(bytes);
	span->blocks = (uint16_t)blocks;
	span->free = (uint16_t)blocks;
	for (i = 0; i < blocks; i++)
		span->free_bits[i / 64] |= 1ull << i % 64;
	return span;
}

static struct span *span_make(struct cache *home, unsigned int class)
{
	struct hugepin_pool *pool = home->pool;
	struct span *span = span_new(home, class);
	uintptr_t slot;
	void *addr;

	if (!span)
		return NULL;
	addr = hpi_arena_alloc(pool->arena, HPI_TABLE_SLOT_BYTES, SPAN_BYTES, NULL);
	if (!addr) {
		free(span);
		return NULL;
	}
	span->lot.addr = (uintptr_t)addr - SPAN_BEFORE * span->lot.bytes;
	span->lot.prev = hpi_table_find(&pool->arena->table, (uintptr_t)addr);
	span->lot.prev->held = 0;
	pool->caches->counts.active -= SPAN_BYTES;
	pool->caches->counts.requested -= SPAN_BYTES;
	pool->caches->blocks--;
	slot = (uintptr_t)&span->lot | HPI_TABLE_OWNERS;
	map_span(pool, span, slot, slot);
	open_insert(span);
	return span;
}

static void span_end(struct hugepin_pool *pool, struct span *span)
{
	open_remove(span);
	map_span(pool, span, hpi_table_slot_of(span->lot.prev), 0);
	span->lot.prev->held = SPAN_BYTES + 1;
	hpi_arena_free(pool->arena, (void *)span_addr(span));
	pool->caches->counts.active += SPAN_BYTES;
	pool->caches->counts.requested += SPAN_BYTES;
	pool->caches->blocks++;
	free(span);
}

void hpi_small_free_books(struct cache *cache)
{
	struct span *span, *next;
	unsigned int class;

	for (class = 0; class < SMALL_CLASSES; class++) {
		for (span = cache->open[class]; span; span = next) {
			next = span->next;
			free(span);
		}
	}
}

/* ---- blocks ---- */

static void span_take(struct span *span, struct block *out)
{
	uint64_t *bits = span->free_bits;
	unsigned int word = 0, i;

	while (!bits[word])
		word++;
	i = 64 * word + (unsigned int)__builtin_ctzll(bits[word]);
	bits[word] &= bits[word] - 1;
	span->free--;
	*out = (struct block){ (char *)span_addr(span) + i * span->lot.bytes, &span->held[i] };
}

/* Another's, for want of room for one of its own. */
static struct span *find_open(const struct hpi_caches *caches, unsigned int class)
{
	const struct cache *c;

	for (c = __atomic_load_n(&caches->first, __ATOMIC_ACQUIRE); c && !c->open[class]; c = c->next)
		;
	return c ? c->open[class] : NULL;
}

unsigned int hpi_small_take(struct cache *cache, unsigned int class, struct block *out, unsigned int count)
{
	struct span *span = NULL;
	unsigned int got = 0;

	while (got < count) {
		if (!span)
			span = cache->open[class];
		if (!span && !got)		/* a new one for what is needed, not for what is nice to have */
			span = span_make(cache, class);
		if (!span && !got)
			span = find_open(cache->pool->caches, class);
		if (!span)
			break;
		span_take(span, &out[got++]);
		if (!span->free) {
			open_remove(span);
			span = NULL;
		}
	}
	return got;
}

void hpi_small_give(struct hugepin_pool *pool, const struct block *block)
{
	struct span *span = span_at(pool->caches, (uint64_t)(block->ptr - pool->window));
	size_t i = (size_t)(block->held - span->held);

	span->free_bits[i / 64] |= 1ull << i % 64;
	if (!span->free++)
		open_insert(span);
	if (span->free == span->blocks)
		span_end(pool, span);
}
