// SPDX-License-Identifier: MIT
/*
 * Bookkeeping memory of the arena: slabs of descriptors, and the table from address to used chunk. Everything that can
 * fail for lack of memory is a *_reserve() call, made before the first change, so that a free never needs any.
 */
#include "arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE	64
#define SLAB_CHUNKS	1023			/* with the slab's own line: 64 KiB */
#define TABLE_LOG2_MIN	6

struct slab {
	struct slab *next;
	_Alignas(CACHE_LINE) struct chunk chunks[SLAB_CHUNKS];
};

_Static_assert(sizeof(struct chunk) == CACHE_LINE, "a descriptor is one cache line");

void *hpi_store_calloc(size_t bytes)
{
	void *p;

	if (hpi_sys_fault && hpi_sys_fault("calloc"))
		return NULL;
	p = aligned_alloc(CACHE_LINE, hpi_round_up(bytes, CACHE_LINE));
	if (p)
		memset(p, 0, bytes);
	return p;
}

int hpi_store_refill(struct store *store, size_t chunks)
{
	struct slab *slab;
	size_t i;

	while (store->spares < chunks) {
		slab = hpi_store_calloc(sizeof(*slab));
		if (!slab)
			return hpi_error(-ENOMEM, "no memory for %zu bytes of descriptors", sizeof(*slab));
		slab->next = store->slabs;
		store->slabs = slab;
		for (i = SLAB_CHUNKS; i--;)
			hpi_store_give(store, &slab->chunks[i]);
	}
	return 0;
}

void hpi_store_free(struct store *store)
{
	struct slab *slab, *next;

	for (slab = store->slabs; slab; slab = next) {
		next = slab->next;
		free(slab);
	}
	*store = (struct store){ 0 };
}

/* Open addressing, linear probing, three quarters full at most, no tombstones: a removal moves later entries up. */

static size_t slot_mask(const struct table *table)
{
	return ((size_t)1 << table->log2) - 1;
}

static size_t slot_of(const struct table *table, uintptr_t addr)
{
	uint64_t n = addr / HPI_ARENA_GRAIN * 0x9e3779b97f4a7c15ull;	/* 2^64 / golden ratio */

	return (size_t)(n >> (64 - table->log2));
}

static size_t most_hashed(unsigned int log2)
{
	return ((size_t)1 << log2) / 4 * 3;
}

int hpi_table_init(struct table *table)
{
	*table = (struct table){ .log2 = TABLE_LOG2_MIN, .most_hashed = most_hashed(TABLE_LOG2_MIN) };
	table->slots = hpi_store_calloc(sizeof(*table->slots) << table->log2);
	return table->slots ? 0 : hpi_error(-ENOMEM, "no memory for the table of blocks");
}

void hpi_table_free(struct table *table)
{
	free(table->slots);
	table->slots = NULL;
}

static void hash_insert(struct table *table, struct chunk *c)
{
	size_t mask = slot_mask(table), i = slot_of(table, c->addr);

	while (table->slots[i].addr)
		i = (i + 1) & mask;
	table->slots[i] = (struct table_slot){ c->addr, c };
}

int hpi_table_widen(struct table *table)
{
	struct table wider = { .log2 = table->log2 + 1 };
	size_t i;

	wider.slots = hpi_store_calloc(sizeof(*wider.slots) << wider.log2);
	if (!wider.slots)
		return hpi_error(-ENOMEM, "no memory to grow the table of blocks to %zu bytes",
				 sizeof(*wider.slots) << wider.log2);
	for (i = 0; i <= slot_mask(table); i++) {
		if (table->slots[i].addr)
			hash_insert(&wider, table->slots[i].chunk);
	}
	free(table->slots);
	table->slots = wider.slots;
	table->log2 = wider.log2;
	table->most_hashed = most_hashed(wider.log2);
	return 0;
}

void hpi_table_insert_hashed(struct table *table, struct chunk *c)
{
	hash_insert(table, c);
	table->hashed++;
}

static size_t slot_find(const struct table *table, uintptr_t addr)
{
	size_t mask = slot_mask(table), i = slot_of(table, addr);

	while (table->slots[i].addr && table->slots[i].addr != addr)
		i = (i + 1) & mask;
	return i;
}

struct chunk *hpi_table_find_hashed(const struct table *table, uintptr_t addr)
{
	return addr ? table->slots[slot_find(table, addr)].chunk : NULL;
}

void hpi_table_remove_hashed(struct table *table, uintptr_t addr)
{
	size_t mask = slot_mask(table), hole = slot_find(table, addr), i, home;

	for (i = (hole + 1) & mask; table->slots[i].addr; i = (i + 1) & mask) {
		home = slot_of(table, table->slots[i].addr);
		/* Stays if its home lies behind the hole: a probe from there does not pass the hole. */
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		table->slots[hole] = table->slots[i];
		hole = i;
	}
	table->slots[hole] = (struct table_slot){ 0, NULL };
	table->hashed--;
}
