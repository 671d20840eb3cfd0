// SPDX-License-Identifier: MIT
/* All pieces of an arena, free and in use, in the order of their addresses: for pictures and for whoever looks for a leak. */
#include "arena.h"

void hpi_arena_walk(const struct hpi_arena *arena, void (*fn)(const struct hpi_arena_piece *piece, void *arg), void *arg)
{
	static const enum hugepin_block_state states[] = {
		[CHUNK_FREE] = HUGEPIN_BLOCK_FREE,
		[CHUNK_USED] = HUGEPIN_BLOCK_ACTIVE,
		[CHUNK_RETIRED] = HUGEPIN_BLOCK_DEFERRED,
	};
	struct hpi_arena_piece piece;
	const struct chunk *c;
	size_t i;

	for (i = 0; i < arena->run_count; i++) {
		for (c = arena->runs[i]->low.next; c != &arena->runs[i]->high; c = c->next) {
			piece = (struct hpi_arena_piece){ .addr = (void *)c->addr, .bytes = c->bytes, .state = states[c->state] };
			if (c->state == CHUNK_USED) {
				piece.requested = chunk_requested(c);
				piece.kept = !c->held;
			}
			fn(&piece, arg);
		}
	}
}
