/* SPDX-License-Identifier: MIT */
/*
 * A model of the module's pages: two pages of one reserve, three regions of one page each that come and go (two of one
 * user, one of another), devices that hold pages, the scrubber, the scan of the quarantine, growing, shrinking and
 * memory that turns out faulty. States and functions have the names that they have in kmod/.
 *
 * A step is what no other CPU can get in between of: a section under a lock, or one access. Whatever order of steps is
 * possible is looked at; in each state that comes of it the invariants must hold.
 */
#ifndef HUGEPIN_TESTS_MODEL_H
#define HUGEPIN_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGES	2
#define SLOTS	3		/* regions that there may be at once */
#define USERS	2
#define SHARE	1		/* pages that a user may hold */
#define NONE	0xff

/* As enum hugepin_page_state, and before and after that. */
enum state { CLEAN, DIRTY, IN_USE, QUARANTINED, POISONED, SYSTEM, WITHHELD };

/* Who has it in hand; of pages on a list, the reserve. */
enum place { ON_LIST, IN_SLOT, IN_SCRUBBER, IN_SCAN, IN_RESIZING };

/* Whose bytes are in it: zeroes, those of slot n (1 + n), or of whoever had it before us. */
enum { ZEROES = 0, OF_SYSTEM = 1 + SLOTS };

struct model_page {
	uint8_t state, place;
	uint8_t bytes;
	uint8_t zero;		/* zero_steps says all */
	uint8_t charged;	/* 1 + user, or 0 */
	uint8_t held;		/* by devices: a bit for the slot that pinned it */
	uint8_t glimpsed;	/* a reference for a moment, by who walks entries without a lock */
	uint8_t faulty;		/* known to be */
	uint8_t broken;		/* is so */
	uint8_t idle;		/* what was found when it was released */
	uint8_t scrubbed;	/* a worker has it */
};

/* How far a region is. */
enum life { NO_REGION, PLANNED, TAKEN, CHARGED, READY, ALIVE, UNCHARGED, RELEASED };

struct slot {
	uint8_t life, page, mapped;
};

struct world {
	struct model_page pages[PAGES];
	struct slot slots[SLOTS];
	uint8_t taker;		/* who has take_mutex: a slot, SLOTS for shrinking, or NONE */
	uint8_t scan_uncharged;	/* the page in the scan's hands is */
	uint8_t wrong;		/* 1 + what a step has found wrong */
};

struct step {
	const char *name;
	const char *function;	/* of kmod/, or NULL: somebody else's doing */
	/* Does it, in *@w, with @i of the range; false: it is not possible now. */
	bool (*take)(struct world *w, unsigned int i);
	unsigned int range;
	bool settles;		/* once begun or given up, it comes to that by itself */
};

extern const struct step steps[];
extern const size_t step_count;

/* Functions of kmod/ that change what a page is and are no steps. */
extern const char *const elsewhere[];
extern const size_t elsewhere_count;

/* What can be left out of the module, by name; exactly one is, or none. */
struct guard {
	const char *name, *without;
};
extern const struct guard guards[];
extern const size_t guard_count;
extern const struct guard *missing;

void world_begin(struct world *w);
/* NULL, or what does not hold. */
const char *world_wrong(const struct world *w);
/* Nobody has a page, and none is on its way. */
bool world_settled(const struct world *w);
unsigned int slot_user(unsigned int slot);

/* ---- the steps, for those who do several in a row ---- */
bool plan(struct world *w, unsigned int s);
bool take_page(struct world *w, unsigned int i);	/* slot * PAGES + page */
bool charge(struct world *w, unsigned int s);
bool zero_missing(struct world *w, unsigned int s);
bool give(struct world *w, unsigned int s);
bool put_uncharge(struct world *w, unsigned int s);
bool put_back(struct world *w, unsigned int s);
bool map(struct world *w, unsigned int s);
bool unmap(struct world *w, unsigned int s);
bool touch(struct world *w, unsigned int s);
bool pin(struct world *w, unsigned int s);
bool device_writes(struct world *w, unsigned int i);	/* slot * PAGES + page */
bool unpin(struct world *w, unsigned int i);
bool release_account(struct world *w, unsigned int s);
bool release_state(struct world *w, unsigned int s);
bool scrub_begin(struct world *w, unsigned int p);
bool scrub_zero(struct world *w, unsigned int p);
bool scrub_end(struct world *w, unsigned int p);
bool scan_take(struct world *w, unsigned int p);
bool scan_uncharge(struct world *w, unsigned int p);
bool scan_end(struct world *w, unsigned int p);
bool grow_zeroed(struct world *w, unsigned int p);
bool grow_unzeroed(struct world *w, unsigned int p);
bool shrink_take(struct world *w, unsigned int p);
bool shrink_remove(struct world *w, unsigned int p);
bool breaks(struct world *w, unsigned int p);
bool mark_faulty(struct world *w, unsigned int p);

#endif /* HUGEPIN_TESTS_MODEL_H */
