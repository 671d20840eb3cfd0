// SPDX-License-Identifier: MIT
/*
 * Where each block in use begins and how long it is.
 *
 *	root: a leaf for each GiB of address space -> leaf: an entry for each 4 KiB
 *
 * An entry is one word, so that it is there or not: no locks, and it can be read in the child of a fork whatever other
 * threads did. Leaves are made when needed, never given back, and cost memory only where they were written.
 */
#include <string.h>
#include <sys/mman.h>

#include "shim.h"

#define GRAIN_SHIFT	12
#define LEAF_SHIFT	30
#define ADDRESS_BITS	47
#define LEAF_ENTRIES	((size_t)1 << (LEAF_SHIFT - GRAIN_SHIFT))
#define LEAF_BYTES	(LEAF_ENTRIES * sizeof(entry_t))

/*
 * bits 0-5: the block's offset in its 4 KiB, in BLOCK_ALIGN; 6-13: tag; 14: in use; 16-63: bytes
 */
typedef atomic_ullong entry_t;

#define IN_USE		(1ull << 14)

static _Atomic(entry_t *) root[(size_t)1 << (ADDRESS_BITS - LEAF_SHIFT)];

static unsigned long long encode(const struct block *block)
{
	uintptr_t offset = (uintptr_t)block->addr & ((1u << GRAIN_SHIFT) - 1);

	return (unsigned long long)block->bytes << 16 | IN_USE | (unsigned long long)(block->tag & 0xff) << 6 |
	       offset / BLOCK_ALIGN;
}

static bool decode(unsigned long long entry, uintptr_t grain, struct block *out)
{
	if (!(entry & IN_USE))
		return false;
	out->addr = (char *)(grain << GRAIN_SHIFT) + (entry & 0x3f) * BLOCK_ALIGN;
	out->bytes = entry >> 16;
	out->tag = entry >> 6 & 0xff;
	return true;
}

static entry_t *leaf_of(uintptr_t addr)
{
	return addr >> ADDRESS_BITS ? NULL : atomic_load_explicit(&root[addr >> LEAF_SHIFT], memory_order_acquire);
}

static entry_t *entry_in(entry_t *leaf, uintptr_t addr)
{
	return leaf ? &leaf[addr >> GRAIN_SHIFT & (LEAF_ENTRIES - 1)] : NULL;
}

static entry_t *leaf_map(void)
{
	void *leaf = mmap(NULL, LEAF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return leaf == MAP_FAILED ? NULL : leaf;
}

bool blocks_spare_get(struct blocks_spare *out)
{
	out->leaf = leaf_map();
	return out->leaf;
}

void blocks_spare_drop(struct blocks_spare *spare)
{
	if (spare->leaf)
		munmap(spare->leaf, LEAF_BYTES);
}

/* Two threads may both make one: the first stays. */
static entry_t *leaf_make(uintptr_t addr, struct blocks_spare *spare)
{
	entry_t *leaf, *there = NULL;

	if (addr >> ADDRESS_BITS)
		return NULL;
	leaf = spare ? spare->leaf : leaf_map();
	if (!leaf)
		return NULL;
	if (atomic_compare_exchange_strong(&root[addr >> LEAF_SHIFT], &there, leaf)) {
		if (spare)
			spare->leaf = NULL;
		return leaf;
	}
	if (!spare)
		munmap(leaf, LEAF_BYTES);
	return there;
}

bool blocks_add(const struct block *block, struct blocks_spare *spare)
{
	uintptr_t addr = (uintptr_t)block->addr;
	entry_t *leaf = leaf_of(addr);

	if (!leaf)
		leaf = leaf_make(addr, spare);
	if (!leaf)
		return false;
	atomic_store_explicit(entry_in(leaf, addr), encode(block), memory_order_release);
	return true;
}

bool blocks_at(const void *addr, struct block *out)
{
	entry_t *entry = entry_in(leaf_of((uintptr_t)addr), (uintptr_t)addr);

	return entry &&
	       decode(atomic_load_explicit(entry, memory_order_acquire), (uintptr_t)addr >> GRAIN_SHIFT, out) &&
	       out->addr == addr;
}

bool blocks_remove(const void *addr, struct block *out)
{
	entry_t *entry = entry_in(leaf_of((uintptr_t)addr), (uintptr_t)addr);

	if (!blocks_at(addr, out))
		return false;
	return decode(atomic_exchange(entry, 0), (uintptr_t)addr >> GRAIN_SHIFT, out);
}

bool blocks_around(const void *addr, size_t most, struct block *out)
{
	uintptr_t at = (uintptr_t)addr, first = at > most ? at - most : 0, grain;
	entry_t *entry;

	for (grain = at >> GRAIN_SHIFT; grain >= first >> GRAIN_SHIFT; grain--) {
		entry = entry_in(leaf_of(grain << GRAIN_SHIFT), grain << GRAIN_SHIFT);
		if (entry && decode(atomic_load_explicit(entry, memory_order_acquire), grain, out) &&
		    (uintptr_t)out->addr <= at)
			return at - (uintptr_t)out->addr < out->bytes;
		if (!grain)
			break;
	}
	return false;
}

void blocks_each(const void *from, const void *to, void (*fn)(const struct block *block, void *arg), void *arg)
{
	uintptr_t grain = (uintptr_t)from >> GRAIN_SHIFT, end = ((uintptr_t)to - 1) >> GRAIN_SHIFT;
	struct block block;
	entry_t *leaf;

	while (grain <= end) {
		leaf = leaf_of(grain << GRAIN_SHIFT);
		if (!leaf) {
			grain = (grain | (LEAF_ENTRIES - 1)) + 1;
			continue;
		}
		if (decode(atomic_load_explicit(entry_in(leaf, grain << GRAIN_SHIFT), memory_order_acquire), grain,
			   &block) &&
		    block.addr >= (const char *)from && block.addr < (const char *)to)
			fn(&block, arg);
		grain++;
	}
}
