// SPDX-License-Identifier: MIT
/*
 * Small blocks: carved from spans, each of one class. What is here is behind the threads' stacks, for batches, under
 * the pool's lock. A span whose blocks are all free goes back to the arena at once.
 */
#include "pool_cache.h"

#include <stdlib.h>

/* ---- spans of a class that have free blocks ---- */

static void open_insert(struct hpi_caches *caches, struct span *span)
{
	struct span **first = &caches->open[span->class];

	span->prev = NULL;
	span->next = *first;
	if (*first)
		(*first)->prev = span;
	*first = span;
}

static void open_remove(struct hpi_caches *caches, struct span *span)
{
	if (span->next)
		span->next->prev = span->prev;
	if (span->prev)
		span->prev->next = span->next;
	else
		caches->open[span->class] = span->next;
}

/* ---- spans come and go ---- */

static void map_span(struct hugepin_pool *pool, const struct span *span, uintptr_t first, uintptr_t others)
{
	uintptr_t *slot = &pool->caches->map[(span->addr - (uintptr_t)pool->window) / HPI_TABLE_SLOT_BYTES];
	size_t i;

	for (i = 0; i < SPAN_BYTES / HPI_TABLE_SLOT_BYTES; i++)
		__atomic_store_n(&slot[i], i ? others : first, __ATOMIC_RELAXED);
}

static struct span *span_new(unsigned int class)
{
	uint32_t bytes = class_bytes(class), blocks = (uint32_t)(SPAN_BYTES / bytes), i;
	struct span *span = hpi_store_calloc(sizeof(*span) + blocks * sizeof(span->state[0]));

	if (!span)
		return NULL;
	span->class = class;
	span->bytes = bytes;
	span->reciprocal = (1ull << 32) / (bytes / HPI_POOL_GRAIN) + 1;
	span->blocks = (uint16_t)blocks;
	span->free = (uint16_t)blocks;
	for (i = 0; i < blocks; i++)
		span->free_bits[i / 64] |= 1ull << i % 64;
	return span;
}

static struct span *span_make(struct hugepin_pool *pool, unsigned int class)
{
	struct span *span = span_new(class);
	void *addr;

	if (!span)
		return NULL;
	addr = hpi_arena_alloc(pool->arena, HPI_TABLE_SLOT_BYTES, SPAN_BYTES, NULL);
	if (!addr) {
		free(span);
		return NULL;
	}
	span->addr = (uintptr_t)addr;
	span->chunk = hpi_table_find(&pool->arena->table, span->addr);
	span->chunk->kept = 1;
	hpi_arena_correct_requested(pool->arena, -(int64_t)span->chunk->requested);
	span->chunk->requested = 0;
	pool->caches->counts.active -= SPAN_BYTES;
	pool->caches->blocks--;
	map_span(pool, span, (uintptr_t)span | 1, (uintptr_t)span | 1);
	open_insert(pool->caches, span);
	return span;
}

static void span_end(struct hugepin_pool *pool, struct span *span)
{
	open_remove(pool->caches, span);
	map_span(pool, span, hpi_table_slot_of(span->chunk), 0);
	span->chunk->kept = 0;
	hpi_arena_free(pool->arena, (void *)span->addr);
	pool->caches->counts.active += SPAN_BYTES;
	pool->caches->blocks++;
	free(span);
}

void hpi_small_free_books(struct hugepin_pool *pool)
{
	struct span *span, *next;
	unsigned int class;

	for (class = 0; class < SMALL_CLASSES; class++) {
		for (span = pool->caches->open[class]; span; span = next) {
			next = span->next;
			free(span);
		}
	}
}

/* ---- blocks ---- */

static void span_take(struct span *span, struct small *out)
{
	uint64_t *bits = span->free_bits;
	unsigned int word = 0, i;

	while (!bits[word])
		word++;
	i = 64 * word + (unsigned int)__builtin_ctzll(bits[word]);
	bits[word] &= bits[word] - 1;
	span->free--;
	*out = (struct small){ (char *)span->addr + (uint64_t)i * span->bytes, &span->state[i] };
}

unsigned int hpi_small_take(struct hugepin_pool *pool, unsigned int class, struct small *out, unsigned int count)
{
	struct span *span;
	unsigned int got;

	for (got = 0; got < count; got++) {
		span = pool->caches->open[class];
		if (!span && !got)		/* a new one for what is needed, not for what is nice to have */
			span = span_make(pool, class);
		if (!span)
			break;
		span_take(span, &out[got]);
		if (!span->free)
			open_remove(pool->caches, span);
	}
	return got;
}

void hpi_small_give(struct hugepin_pool *pool, const struct small *small)
{
	struct span *span = span_at(pool->caches, (uint64_t)(small->ptr - pool->window));
	size_t i = (size_t)(small->state - span->state);

	span->free_bits[i / 64] |= 1ull << i % 64;
	if (!span->free++)
		open_insert(pool->caches, span);
	if (span->free == span->blocks)
		span_end(pool, span);
}
