// SPDX-License-Identifier: MIT
/* The table of all operations, and which one comes next. */
#include <stdlib.h>

#include "world.h"

static const struct op *const tables[] = { region_ops, memory_ops, name_ops, process_ops, host_ops };

static const struct op *ops[OPS_MAX];
static unsigned int count, weights;

static void collect(void)
{
	const struct op *op;
	unsigned int i;

	for (i = 0; i < COUNT(tables); i++) {
		for (op = tables[i]; op->name; op++) {
			if (count == OPS_MAX)
				abort();
			ops[count++] = op;
			weights += op->weight;
		}
	}
}

unsigned int op_count(void)
{
	if (!count)
		collect();
	return count;
}

const struct op *op_number(unsigned int number)
{
	return number < op_count() ? ops[number] : NULL;
}

const struct op *some_op(struct world *w, unsigned int *number)
{
	unsigned int all = op_count();
	uint64_t at = below(w, weights);

	for (*number = 0; *number < all - 1 && at >= ops[*number]->weight; (*number)++)
		at -= ops[*number]->weight;
	return ops[*number];
}
