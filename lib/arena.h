/* SPDX-License-Identifier: MIT */
/*
 * Inside the arena: how free and used space is described. Seen by arena*.c, and by pool_cache*.c, which keep used
 * chunks.
 *
 *	runs, ordered by address        chunks of a run, ordered by address, without gaps
 *
 *	[0x40000000, 0x40600000) --->   low wall <-> free <-> used <-> free <-> high wall
 *	[0x80000000, 0x80200000) --->   low wall <-> used <-> high wall
 *
 *	bins:  free chunks by size      bin -> list or tree, with a bit for each that is not empty
 *	table: used and retired chunks  the only way from an address to its chunk
 *
 * Nothing is ever written to or read from the memory that is managed: it may be a device's, or under DMA.
 * Descriptors come from slabs of the C library's heap and go back there when the arena ends.
 *
 * What holds between calls (hpi_arena_check() tests all of it):
 * - runs do not overlap and do not touch; the chunks of a run cover it exactly;
 * - no two free chunks are neighbours;
 * - addresses and sizes of chunks are multiples of HPI_ARENA_GRAIN;
 * - every free chunk is in the bin of its size, every used or retired chunk in the table.
 *
 * A walled run needs no special case at its ends: a wall is never free, so merging stops there.
 */
#ifndef HUGEPIN_ARENA_H
#define HUGEPIN_ARENA_H

#include <stddef.h>

#include "internal.h"

#define HPI_ARENA_GRAIN		64ull			/* a cache line: what alignment and sizes are rounded to */

enum chunk_state {
	CHUNK_FREE,
	CHUNK_USED,
	CHUNK_RETIRED,		/* the user has given it back; not free before somebody says so */
	CHUNK_WALL,
};

/*
 * What a block in use is held for: what its user asked for and one more; 0: it is with a cache, its user has given it
 * back; HELD_RETIRED: its user has, and it is not free before somebody says so.
 */
#define HELD_RETIRED	0x80000000u

/* One cache line. */
struct chunk {
	uintptr_t addr;
	uint64_t bytes;
	struct chunk *prev, *next;			/* neighbours in the run */
	union {						/* free: in its bin, a list or a tree */
		struct {
			struct chunk *bin_prev, *bin_next;	/* bin_next alone links spare descriptors */
		};
		struct {
			struct chunk *left, *right;
		};
	};
	uint8_t state;
	uint8_t mark;					/* used: its owner's, as long as it has that size; or 0 */
	uint16_t bin;					/* free: where it is */
	union {
		uint32_t priority;			/* free: in its tree, if it is not alone there */
		uint32_t reciprocal;			/* used: 0; see below */
	};
	union {						/* last: see below */
		uint64_t held;				/* used or retired */
		uint64_t clean;				/* free: so many bytes at its end are known to be zero */
	};
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half of held comes first");

static inline uintptr_t chunk_end(const struct chunk *c) { return c->addr + c->bytes; }
static inline uint64_t chunk_requested(const struct chunk *c) { return c->held ? c->held - 1 : 0; }	/* a used one's */

/*
 * A lot: blocks of one size in a row. A used chunk is a lot of one. The owner of the table's map (see there) has lots
 * of many, each in a used chunk. Such a lot begins with a struct chunk of its own, with the first block's address and the
 * bytes that each has; from where c->held is on it has 32 bits for each block, what that is held for, and behind the
 * last one's once more, always 0.
 */
#define LOT_BYTES	(128 * 1024u)			/* at most, of many of at most 8 KiB */

static inline uint32_t lot_reciprocal(uint32_t bytes)	/* of a lot of many; of one it is 0 */
{
	return (1u << 20) / (bytes / (uint32_t)HPI_ARENA_GRAIN) + 1;
}

static inline uint32_t *lot_held(struct chunk *c)
{
	return (uint32_t *)((char *)c + offsetof(struct chunk, held));
}

/* What the block of the lot that starts at @addr is held for; NULL: none does. */
static inline uint32_t *lot_held_at(struct chunk *c, uintptr_t addr)
{
	uint64_t offset = addr - c->addr, i = offset / HPI_ARENA_GRAIN * c->reciprocal >> 20;

	return __builtin_expect(i * c->bytes == offset, 1) ? &lot_held(c)[i] : NULL;
}

struct run {
	uintptr_t start, end;
	struct chunk low, high;				/* walls */
};

/* ---- arena_bins.c: free chunks by size ---- */

/*
 * Sizes are counted in grains. Below BIN_FIRST_TREE of them each has a bin: a list. From there on each power of two is
 * covered by BIN_COLUMNS bins in equal steps, each a treap, ordered by size, then address. Bins lie in rows, for the
 * bits.
 */
#define BIN_COLUMNS_LOG2	6
#define BIN_COLUMNS		(1u << BIN_COLUMNS_LOG2)
#define BIN_FIRST_TREE_LOG2	10
#define BIN_FIRST_TREE		(1u << BIN_FIRST_TREE_LOG2)
/* What makes the first tree's bin follow the last list's. */
#define BIN_ROW_SHIFT		(BIN_FIRST_TREE / BIN_COLUMNS - 1 - (BIN_FIRST_TREE_LOG2 - BIN_COLUMNS_LOG2))
#define BIN_ROWS		64
#define BIN_COUNT		(BIN_ROWS * BIN_COLUMNS)

struct bins {
	uint64_t rows;					/* a bit for each row that has a chunk */
	uint64_t columns[BIN_ROWS];			/* a bit for each bin of the row that has a chunk */
	struct chunk *head[BIN_COUNT];			/* of the list, or root of the tree */
};

void hpi_bins_insert(struct bins *bins, struct chunk *c);
void hpi_bins_remove(struct bins *bins, struct chunk *c);
/*
 * The smallest chunk that has room for @bytes, and of those from 64 KiB on the lowest. With an @alignment beyond the
 * grain the search for the smallest is bounded. NULL: there is none at all.
 */
struct chunk *hpi_bins_find(const struct bins *bins, uint64_t alignment, uint64_t bytes);
/* The free chunk that has all of [addr, addr + bytes). Cost grows with the number of free chunks of @bytes or more. */
struct chunk *hpi_bins_holding(const struct bins *bins, uintptr_t addr, uint64_t bytes);
uint64_t hpi_bins_largest(const struct bins *bins);
int hpi_bins_check(const struct bins *bins, uint64_t *count);		/* lists, links and bits agree */

/* ---- arena_table.c: used chunks by address; descriptors ---- */

struct table_slot {
	uintptr_t addr;					/* 0: empty */
	struct chunk *chunk;
};

/*
 * With a map, chunks of more than a slot lie there, by address: at most one starts in a slot (made smaller, it may be
 * joined by another: that one is hashed). The slot has the chunk's address and, in its upper bits, where in the slot
 * the chunk starts: so the map's owner may ask it about any block, without the arena's lock, and looks at no other
 * chunk. A slot with bit 0 set belongs to the owner: it leads to a lot,
 * whose @prev is the chunk there.
 */
#define HPI_TABLE_SLOT_BYTES	8192ull

#define HPI_TABLE_START_SHIFT	57		/* no address has bits from here on: there are at most 2^7 grains in a slot */
#define HPI_TABLE_OWNERS	1ull

static inline struct chunk *hpi_table_slot_lot(uintptr_t slot)
{
	return (struct chunk *)(slot & ((1ull << HPI_TABLE_START_SHIFT) - 1) & ~HPI_TABLE_OWNERS);
}

/* The lot that a slot says @addr is in; or NULL. Without a branch that depends on what sort it is. */
static inline struct chunk *hpi_table_slot_at(uintptr_t slot, uintptr_t addr)
{
	uintptr_t start = addr % HPI_TABLE_SLOT_BYTES / HPI_ARENA_GRAIN, mine = (slot & HPI_TABLE_OWNERS) - 1;

	return __builtin_expect(((slot >> HPI_TABLE_START_SHIFT) ^ start) & mine, 0) ? NULL : hpi_table_slot_lot(slot);
}

/* What a slot says of the chunk that starts at @addr; NULL: none does, or the slot is the owner's. */
static inline struct chunk *hpi_table_slot_chunk(uintptr_t slot, uintptr_t addr)
{
	return slot & HPI_TABLE_OWNERS ? NULL : hpi_table_slot_at(slot, addr);
}

static inline uintptr_t hpi_table_slot_of(const struct chunk *c)
{
	return (uintptr_t)c | c->addr % HPI_TABLE_SLOT_BYTES / HPI_ARENA_GRAIN << HPI_TABLE_START_SHIFT;
}

struct table {
	struct table_slot *slots;
	unsigned int log2;				/* of the number of slots */
	size_t hashed, most_hashed, used;
	uintptr_t *map;					/* NULL: none. Written under the arena's lock, read by anybody */
	uintptr_t map_start;
	uint64_t map_bytes;				/* of addresses */
};

int hpi_table_init(struct table *table);
void hpi_table_free(struct table *table);
int hpi_table_widen(struct table *table);		/* or -ENOMEM */
void hpi_table_insert_hashed(struct table *table, struct chunk *c);
struct chunk *hpi_table_find_hashed(const struct table *table, uintptr_t addr);
void hpi_table_remove_hashed(struct table *table, uintptr_t addr);

static inline int hpi_table_reserve(struct table *table)	/* room for one more, or -ENOMEM */
{
	return __builtin_expect(table->hashed < table->most_hashed, 1) ? 0 : hpi_table_widen(table);
}

/* The map's slot for @addr, or NULL. */
static inline uintptr_t *hpi_table_map_slot(const struct table *table, uintptr_t addr)
{
	uint64_t offset = addr - table->map_start;

	return offset < table->map_bytes ? &table->map[offset / HPI_TABLE_SLOT_BYTES] : NULL;
}

/* The chunk that starts at @addr, if the map has it. */
static inline struct chunk *hpi_table_map_chunk(const uintptr_t *slot, uintptr_t addr)
{
	uintptr_t value = slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) : 0;
	struct chunk *c = value & HPI_TABLE_OWNERS ? hpi_table_slot_lot(value)->prev : hpi_table_slot_at(value, addr);

	return c && c->addr == addr ? c : NULL;
}

static inline void hpi_table_insert(struct table *table, struct chunk *c)	/* after hpi_table_reserve() */
{
	uintptr_t *slot = c->bytes > HPI_TABLE_SLOT_BYTES ? hpi_table_map_slot(table, c->addr) : NULL;

	table->used++;
	if (slot && !*slot)
		__atomic_store_n(slot, hpi_table_slot_of(c), __ATOMIC_RELAXED);
	else
		hpi_table_insert_hashed(table, c);
}

static inline struct chunk *hpi_table_find(const struct table *table, uintptr_t addr)
{
	struct chunk *c = hpi_table_map_chunk(hpi_table_map_slot(table, addr), addr);

	return c ? c : hpi_table_find_hashed(table, addr);
}

static inline void hpi_table_remove(struct table *table, uintptr_t addr)	/* must be there */
{
	uintptr_t *slot = hpi_table_map_slot(table, addr);

	table->used--;
	if (hpi_table_map_chunk(slot, addr))
		__atomic_store_n(slot, 0, __ATOMIC_RELAXED);
	else
		hpi_table_remove_hashed(table, addr);
}

struct slab;

struct store {
	struct slab *slabs;
	struct chunk *spare;
	size_t spares;
};

int hpi_store_refill(struct store *store, size_t chunks);

static inline int hpi_store_reserve(struct store *store, size_t chunks)	/* so many spare descriptors, or -ENOMEM */
{
	return __builtin_expect(store->spares >= chunks, 1) ? 0 : hpi_store_refill(store, chunks);
}

static inline struct chunk *hpi_store_take(struct store *store)		/* after hpi_store_reserve() */
{
	struct chunk *c = store->spare;

	store->spare = c->bin_next;
	store->spares--;
	return c;
}

static inline void hpi_store_give(struct store *store, struct chunk *c)
{
	c->bin_next = store->spare;
	store->spare = c;
	store->spares++;
}

void hpi_store_free(struct store *store);

/* ---- arena.c ---- */

struct hpi_arena {
	struct store store;
	struct table table;
	uint64_t mapped, active, requested, retired;	/* bytes */
	uint64_t retired_blocks;
	struct run **runs;				/* ordered by address */
	size_t run_count, run_room;
	struct bins bins;
};

static inline void chunk_link(struct chunk *a, struct chunk *b)
{
	a->next = b;
	b->prev = a;
}

/*
 * Cuts a free chunk, out of its bin, to exactly [addr, addr + bytes); what is left over on either side stays free, in
 * bins. Takes up to two descriptors, which must have been reserved.
 */
void hpi_arena_carve(struct hpi_arena *arena, struct chunk *c, uintptr_t addr, uint64_t bytes);
/* Puts a free chunk that is linked into its run, but in no bin, together with free neighbours and into a bin. */
void hpi_arena_settle(struct hpi_arena *arena, struct chunk *c);

/* ---- arena_space.c: runs come and go ---- */

/* Position of the first run that ends above @addr. */
size_t hpi_arena_run_after(const struct hpi_arena *arena, uintptr_t addr);

#endif /* HUGEPIN_ARENA_H */
