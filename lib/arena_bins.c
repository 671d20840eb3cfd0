// SPDX-License-Identifier: MIT
/*
 * Free chunks by size: two levels of bins with a bitmap each find the right bin in a few instructions, however many
 * chunks there are.
 *
 * Within a bin, replays of a training program's allocations decide: exact best fit, lowest address first, maps 4 %
 * more than is live at the peak; taking just any chunk of the right bin 8 to 27 % more. So bins with several sizes
 * are ordered trees. They are treaps, for their few lines: a chunk's priority is a hash of its address, kept beside
 * it. Chunks below 64 KiB lie in lists of one size, in which every step costs the same with 4,000 chunks as with
 * 65,000.
 */
#include "arena.h"

#include <errno.h>

/* How many chunks an aligned request looks at in a bin before it takes one that fits at any address. */
#define ALIGNED_LOOKS	32

static inline bool is_list(unsigned int bin)
{
	return bin < BIN_FIRST_TREE;
}

/* @bytes: a multiple of the grain, > 0 */
static inline unsigned int bin_of(uint64_t bytes)
{
	uint64_t grains = bytes / HPI_ARENA_GRAIN;
	unsigned int shift;

	if (grains < BIN_FIRST_TREE)
		return (unsigned int)grains;
	shift = 63 - (unsigned int)__builtin_clzll(grains) - BIN_COLUMNS_LOG2;
	return (shift + BIN_ROW_SHIFT) * BIN_COLUMNS + (unsigned int)(grains >> shift);
}

/* The first bin from @bin on that has a chunk; BIN_COUNT if there is none. */
static inline unsigned int bin_seek(const struct bins *bins, unsigned int bin)
{
	unsigned int row = bin / BIN_COLUMNS;
	uint64_t columns, rows;

	if (bin >= BIN_COUNT)
		return BIN_COUNT;
	columns = bins->columns[row] & (~0ull << bin % BIN_COLUMNS);
	if (!columns) {
		rows = bins->rows & ~((2ull << row) - 1);
		if (!rows)
			return BIN_COUNT;
		row = (unsigned int)__builtin_ctzll(rows);
		columns = bins->columns[row];
	}
	return row * BIN_COLUMNS + (unsigned int)__builtin_ctzll(columns);
}

/*
 * The first chunk stays first unless the new one lies lower: taking low addresses first leaves the high ones to become
 * whole again.
 */
static void list_insert(struct chunk **head, struct chunk *c)
{
	struct chunk *first = *head;

	if (first && first->addr < c->addr) {
		c->bin_prev = first;
		c->bin_next = first->bin_next;
		first->bin_next = c;
	} else {
		c->bin_prev = NULL;
		c->bin_next = first;
		*head = c;
	}
	if (c->bin_next)
		c->bin_next->bin_prev = c;
}

static void list_remove(struct chunk **head, struct chunk *c)
{
	if (c->bin_next)
		c->bin_next->bin_prev = c->bin_prev;
	if (c->bin_prev)
		c->bin_prev->bin_next = c->bin_next;
	else
		*head = c->bin_next;
}

static bool key_less(uint64_t bytes, uintptr_t addr, const struct chunk *than)
{
	return bytes < than->bytes || (bytes == than->bytes && addr < than->addr);
}

/* Mixed twice: mixed once, chunks at regular distances could make a tree into a line. */
static inline uint32_t priority_of(const struct chunk *c)
{
	uint64_t n = c->addr * 0x9e3779b97f4a7c15ull;	/* 2^64 / golden ratio */

	return (uint32_t)((n ^ n >> 32) * 0x9e3779b97f4a7c15ull >> 32);
}

/* Into a tree that has some. The first had no need of a priority. */
static void tree_insert(struct chunk **link, struct chunk *c)
{
	struct chunk **low = &c->left, **high = &c->right, *rest;

	(*link)->priority = priority_of(*link);
	c->priority = priority_of(c);
	while (*link && (*link)->priority > c->priority)
		link = key_less(c->bytes, c->addr, *link) ? &(*link)->left : &(*link)->right;
	/* What hung here is divided into what goes below and above @c. */
	for (rest = *link, *link = c; rest;) {
		if (key_less(c->bytes, c->addr, rest)) {
			*high = rest;
			high = &rest->left;
			rest = rest->left;
		} else {
			*low = rest;
			low = &rest->right;
			rest = rest->right;
		}
	}
	*low = NULL;
	*high = NULL;
}

static void tree_remove(struct chunk **link, struct chunk *c)
{
	struct chunk *low = c->left, *high = c->right;

	while (*link != c)
		link = key_less(c->bytes, c->addr, *link) ? &(*link)->left : &(*link)->right;
	while (low && high) {
		if (low->priority > high->priority) {
			*link = low;
			link = &low->right;
			low = low->right;
		} else {
			*link = high;
			link = &high->left;
			high = high->left;
		}
	}
	*link = low ? low : high;
}

/* The first chunk in order that is not less than (bytes, addr). */
static struct chunk *tree_seek(struct chunk *c, uint64_t bytes, uintptr_t addr)
{
	struct chunk *found = NULL;

	while (c) {
		if (key_less(c->bytes, c->addr, &(struct chunk){ .bytes = bytes, .addr = addr })) {
			c = c->right;
		} else {
			found = c;
			c = c->left;
		}
	}
	return found;
}

/* The chunks of a bin in turn, beginning with one of at least @bytes if it is a tree. */
static inline struct chunk *bin_first(const struct bins *bins, unsigned int bin, uint64_t bytes)
{
	return is_list(bin) ? bins->head[bin] : tree_seek(bins->head[bin], bytes, 0);
}

static struct chunk *bin_next(const struct bins *bins, unsigned int bin, const struct chunk *c)
{
	return is_list(bin) ? c->bin_next : tree_seek(bins->head[bin], c->bytes, c->addr + 1);
}

void hpi_bins_insert(struct bins *bins, struct chunk *c)
{
	unsigned int bin = bin_of(c->bytes);
	struct chunk **head = &bins->head[bin];

	c->bin = (uint16_t)bin;
	if (*head) {
		if (is_list(bin))
			list_insert(head, c);
		else
			tree_insert(head, c);
		return;
	}
	c->bin_prev = NULL;			/* or left and right */
	c->bin_next = NULL;
	*head = c;
	bins->columns[bin / BIN_COLUMNS] |= 1ull << bin % BIN_COLUMNS;
	bins->rows |= 1ull << bin / BIN_COLUMNS;
}

void hpi_bins_remove(struct bins *bins, struct chunk *c)
{
	unsigned int bin = c->bin;
	struct chunk **head = &bins->head[bin];

	if (*head != c || c->bin_prev || c->bin_next) {
		if (is_list(bin))
			list_remove(head, c);
		else
			tree_remove(head, c);
		return;
	}
	*head = NULL;				/* it was alone there */
	bins->columns[bin / BIN_COLUMNS] &= ~(1ull << bin % BIN_COLUMNS);
	if (!bins->columns[bin / BIN_COLUMNS])
		bins->rows &= ~(1ull << bin / BIN_COLUMNS);
}

static bool fits(const struct chunk *c, uint64_t alignment, uint64_t bytes)
{
	uint64_t skip = -c->addr & (alignment - 1);

	return c->bytes >= bytes && c->bytes - bytes >= skip;
}

/* Looks at @looks chunks in each of @count bins that have any, from the one of @from on. */
static struct chunk *search(const struct bins *bins, uint64_t from, uint64_t alignment, uint64_t bytes, size_t count,
			    size_t looks)
{
	unsigned int bin = bin_of(from);
	struct chunk *c;
	size_t i;

	for (; count && (bin = bin_seek(bins, bin)) < BIN_COUNT; bin++, count--) {
		for (c = bin_first(bins, bin, from), i = 0; c && i < looks; c = bin_next(bins, bin, c), i++) {
			if (fits(c, alignment, bytes))
				return c;
		}
	}
	return NULL;
}

/* At the grain's alignment. A bin may have only smaller ones; the next that has any has larger ones only. */
static struct chunk *best_fit(const struct bins *bins, uint64_t bytes)
{
	unsigned int own = bin_of(bytes), bin = bin_seek(bins, own);
	struct chunk *c;

	if (bin == BIN_COUNT)
		return NULL;
	c = bin_first(bins, bin, bytes);
	if (c || bin != own)
		return c;
	bin = bin_seek(bins, own + 1);
	return bin == BIN_COUNT ? NULL : bin_first(bins, bin, bytes);
}

struct chunk *hpi_bins_find(const struct bins *bins, uint64_t alignment, uint64_t bytes)
{
	uint64_t anywhere = bytes + alignment - HPI_ARENA_GRAIN;	/* has room for the block wherever it lies */
	struct chunk *c;

	if (alignment == HPI_ARENA_GRAIN)
		return best_fit(bins, bytes);
	c = search(bins, bytes, alignment, bytes, 2, ALIGNED_LOOKS);
	if (!c)
		c = search(bins, anywhere, alignment, bytes, 2, 1);
	/* The last resort before the pool maps more memory, which costs far more than any search. */
	if (!c)
		c = search(bins, bytes, alignment, bytes, SIZE_MAX, SIZE_MAX);
	return c;
}

struct chunk *hpi_bins_holding(const struct bins *bins, uintptr_t addr, uint64_t bytes)
{
	unsigned int bin = bin_of(bytes);
	struct chunk *c;

	for (; (bin = bin_seek(bins, bin)) < BIN_COUNT; bin++) {
		for (c = bin_first(bins, bin, bytes); c; c = bin_next(bins, bin, c)) {
			if (c->addr <= addr && addr + bytes <= chunk_end(c))
				return c;
		}
	}
	return NULL;
}

uint64_t hpi_bins_largest(const struct bins *bins)
{
	const struct chunk *c;
	unsigned int row, bin;

	if (!bins->rows)
		return 0;
	row = 63 - (unsigned int)__builtin_clzll(bins->rows);
	bin = row * BIN_COLUMNS + 63 - (unsigned int)__builtin_clzll(bins->columns[row]);
	c = bins->head[bin];
	while (!is_list(bin) && c->right)
		c = c->right;
	return c->bytes;
}

/* @c is where it belongs, relative to @prev in the same bin and, in a tree, to its children. */
static bool in_place(unsigned int bin, const struct chunk *prev, const struct chunk *c)
{
	if (c->state != CHUNK_FREE || c->bin != bin || bin_of(c->bytes) != bin)
		return false;
	if (is_list(bin))
		return c->bin_prev == prev;
	return (!c->left || c->left->priority <= c->priority) && (!c->right || c->right->priority <= c->priority);
}

int hpi_bins_check(const struct bins *bins, uint64_t *count)
{
	const struct chunk *c, *prev;
	unsigned int bin, row;

	*count = 0;
	for (bin = 0; bin < BIN_COUNT; bin++) {
		row = bin / BIN_COLUMNS;
		c = bins->head[bin];
		if (!c != !(bins->columns[row] >> bin % BIN_COLUMNS & 1))
			return hpi_error(-EUCLEAN, "bin %u: chunks and bit disagree", bin);
		if (!bins->columns[row] != !(bins->rows >> row & 1))
			return hpi_error(-EUCLEAN, "bin row %u: columns and bit disagree", row);
		for (c = bin_first(bins, bin, 0), prev = NULL; c; prev = c, c = bin_next(bins, bin, c), (*count)++) {
			if (!in_place(bin, prev, c))
				return hpi_error(-EUCLEAN, "bin %u: chunk %#lx of %#lx bytes, state %u, is misplaced",
						 bin, c->addr, c->bytes, c->state);
		}
	}
	return 0;
}
