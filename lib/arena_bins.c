// SPDX-License-Identifier: MIT
/*
 * Free chunks by size: two levels of bins with a bitmap each find the right bin in a few instructions, however many
 * chunks there are.
 *
 * Within a bin, replays of a training program's allocations decide: exact best fit, lowest address first, maps 4 %
 * more than is live at the peak; taking just any chunk of the right bin 8 to 27 % more. So bins with several sizes
 * are ordered trees. They are treaps, for their few lines: a chunk's priority is a hash of its address, so needs no
 * room. Chunks below 8 KiB lie in lists of one size, in which every step costs the same with 4,000 chunks as with
 * 65,000.
 */
#include "arena.h"

#include <errno.h>

/* How many chunks an aligned request looks at in a bin before it takes one that fits at any address. */
#define ALIGNED_LOOKS	32

struct bin {
	unsigned int row, column;
};

/* @bytes: a multiple of the grain, > 0 */
static struct bin bin_of(uint64_t bytes)
{
	uint64_t grains = bytes / HPI_ARENA_GRAIN;
	unsigned int msb = 63 - (unsigned int)__builtin_clzll(grains);
	unsigned int shift;

	if (grains < BIN_COLUMNS)
		return (struct bin){ 0, (unsigned int)grains };
	shift = msb - BIN_COLUMNS_LOG2;
	return (struct bin){ shift + 1, (unsigned int)(grains >> shift) & (BIN_COLUMNS - 1) };
}

/* The first bin at or after @bin that has a chunk; false if there is none. */
static bool bin_seek(const struct bins *bins, struct bin *bin)
{
	uint64_t columns, rows;

	if (bin->row >= BIN_ROWS)
		return false;
	columns = bins->columns[bin->row] & (~0ull << bin->column);
	if (!columns) {
		rows = bins->rows & ~((2ull << bin->row) - 1);
		if (!rows)
			return false;
		bin->row = (unsigned int)__builtin_ctzll(rows);
		columns = bins->columns[bin->row];
	}
	bin->column = (unsigned int)__builtin_ctzll(columns);
	return true;
}

static void bin_step(struct bin *bin)
{
	if (++bin->column == BIN_COLUMNS) {
		bin->column = 0;
		bin->row++;
	}
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

/* Distinct for distinct chunks. Mixed twice: mixed once, chunks at regular distances could make a tree into a line. */
static uint64_t priority(const struct chunk *c)
{
	uint64_t n = c->addr * 0x9e3779b97f4a7c15ull;	/* 2^64 / golden ratio */

	return (n ^ n >> 32) * 0x9e3779b97f4a7c15ull;
}

static void tree_insert(struct chunk **link, struct chunk *c)
{
	struct chunk **low = &c->left, **high = &c->right, *rest;

	while (*link && priority(*link) > priority(c))
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
		if (priority(low) > priority(high)) {
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
static struct chunk *bin_first(const struct bins *bins, struct bin bin, uint64_t bytes)
{
	struct chunk *head = bins->head[bin.row][bin.column];

	return bin.row < BIN_FIRST_TREE_ROW ? head : tree_seek(head, bytes, 0);
}

static struct chunk *bin_next(const struct bins *bins, struct bin bin, const struct chunk *c)
{
	if (bin.row < BIN_FIRST_TREE_ROW)
		return c->bin_next;
	return tree_seek(bins->head[bin.row][bin.column], c->bytes, c->addr + 1);
}

void hpi_bins_insert(struct bins *bins, struct chunk *c)
{
	struct bin bin = bin_of(c->bytes);
	struct chunk **head = &bins->head[bin.row][bin.column];

	if (bin.row < BIN_FIRST_TREE_ROW)
		list_insert(head, c);
	else
		tree_insert(head, c);
	bins->columns[bin.row] |= 1ull << bin.column;
	bins->rows |= 1ull << bin.row;
}

void hpi_bins_remove(struct bins *bins, struct chunk *c)
{
	struct bin bin = bin_of(c->bytes);
	struct chunk **head = &bins->head[bin.row][bin.column];

	if (bin.row < BIN_FIRST_TREE_ROW)
		list_remove(head, c);
	else
		tree_remove(head, c);
	if (*head)
		return;
	bins->columns[bin.row] &= ~(1ull << bin.column);
	if (!bins->columns[bin.row])
		bins->rows &= ~(1ull << bin.row);
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
	struct bin bin = bin_of(from);
	struct chunk *c;
	size_t i;

	for (; count && bin_seek(bins, &bin); bin_step(&bin), count--) {
		for (c = bin_first(bins, bin, from), i = 0; c && i < looks; c = bin_next(bins, bin, c), i++) {
			if (fits(c, alignment, bytes))
				return c;
		}
	}
	return NULL;
}

struct chunk *hpi_bins_find(const struct bins *bins, uint64_t alignment, uint64_t bytes)
{
	uint64_t anywhere = bytes + alignment - HPI_ARENA_GRAIN;	/* has room for the block wherever it lies */
	struct chunk *c;

	/* A bin may have only smaller ones; the next that has any has larger ones only. */
	if (alignment == HPI_ARENA_GRAIN)
		return search(bins, bytes, alignment, bytes, 2, 1);
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
	struct bin bin = bin_of(bytes);
	struct chunk *c;

	for (; bin_seek(bins, &bin); bin_step(&bin)) {
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
	unsigned int row;

	if (!bins->rows)
		return 0;
	row = 63 - (unsigned int)__builtin_clzll(bins->rows);
	c = bins->head[row][63 - (unsigned int)__builtin_clzll(bins->columns[row])];
	while (row >= BIN_FIRST_TREE_ROW && c->right)
		c = c->right;
	return c->bytes;
}

/* @c is where it belongs, relative to @prev in the same bin and, in a tree, to its children. */
static bool in_place(struct bin bin, const struct chunk *prev, const struct chunk *c)
{
	struct bin own = bin_of(c->bytes);

	if (c->state != CHUNK_FREE || own.row != bin.row || own.column != bin.column)
		return false;
	if (bin.row < BIN_FIRST_TREE_ROW)
		return c->bin_prev == prev;
	return (!c->left || priority(c->left) < priority(c)) && (!c->right || priority(c->right) < priority(c));
}

int hpi_bins_check(const struct bins *bins, uint64_t *count)
{
	const struct chunk *c, *prev;
	struct bin bin;

	*count = 0;
	for (bin = (struct bin){ 0, 0 }; bin.row < BIN_ROWS; bin_step(&bin)) {
		c = bins->head[bin.row][bin.column];
		if (!c != !(bins->columns[bin.row] >> bin.column & 1))
			return hpi_error(-EUCLEAN, "bin %u.%u: chunks and bit disagree", bin.row, bin.column);
		if (!bin.column && !bins->columns[bin.row] != !(bins->rows >> bin.row & 1))
			return hpi_error(-EUCLEAN, "bin row %u: columns and bit disagree", bin.row);
		for (c = bin_first(bins, bin, 0), prev = NULL; c; prev = c, c = bin_next(bins, bin, c), (*count)++) {
			if (!in_place(bin, prev, c))
				return hpi_error(-EUCLEAN, "bin %u.%u: chunk %#lx of %#lx bytes, state %u, is misplaced",
						 bin.row, bin.column, c->addr, c->bytes, c->state);
		}
	}
	return 0;
}
