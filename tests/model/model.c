// SPDX-License-Identifier: MIT
/* The steps and the invariants; see model.h. */
#include <string.h>

#include "model.h"

/* ---- guards ---- */

enum guard_id {
	MAPPING_HOLDS_REGION, RELEASE_ASKS_HOLDERS, SCAN_ASKS_HOLDERS, RELEASE_FORGETS_ZERO, TAKER_ZEROES,
	CHARGE_LASTS, SCRUBBER_TAKES_OFF, SET_STATE_POISONS, FAULTY_IS_WITHHELD, TAKE_MUTEX, PUT_ASKS_ZERO,
	SCRUB_END_ASKS, FREE_MEANS_UNHELD,
};

const struct guard guards[] = {
	[MAPPING_HOLDS_REGION]	= { "mapping-holds-region", "a region ends while it is mapped" },
	[RELEASE_ASKS_HOLDERS]	= { "release-asks-holders", "a held page is free when its region ends" },
	[SCAN_ASKS_HOLDERS]	= { "scan-asks-holders", "the scan lets pages go that are held" },
	[RELEASE_FORGETS_ZERO]	= { "release-forgets-zero", "what a region had passes for zero" },
	[TAKER_ZEROES]		= { "taker-zeroes", "a dirty page is handed out as it is" },
	[CHARGE_LASTS]		= { "charge-lasts", "the charge ends with the region" },
	[SCRUBBER_TAKES_OFF]	= { "scrubber-takes-off", "a page stays on the list while it is scrubbed" },
	[SET_STATE_POISONS]	= { "set-state-poisons", "a faulty page becomes free again" },
	[FAULTY_IS_WITHHELD]	= { "faulty-is-withheld", "a faulty page is given back to the system" },
	[TAKE_MUTEX]		= { "take-mutex", "two plan at once" },
	[PUT_ASKS_ZERO]		= { "put-asks-zero", "a page put back passes for zero" },
	[SCRUB_END_ASKS]	= { "scrub-end-asks", "a scrub that was cut short passes for done" },
	[FREE_MEANS_UNHELD]	= { "free-means-unheld", "a page is given back to the system while it is held" },
};
const size_t guard_count = sizeof(guards) / sizeof(guards[0]);
const struct guard *missing;

static bool guarded(enum guard_id id)
{
	return missing != &guards[id];
}

/* ---- what steps find ---- */

enum { NOT_ZERO_WHEN_GIVEN = 1, SCRUBBED_IN_USE };

static const char *const findings[] = {
	[NOT_ZERO_WHEN_GIVEN]	= "a region was given bytes of another",
	[SCRUBBED_IN_USE]	= "a page in use was zeroed",
};

/* ---- helpers ---- */

unsigned int slot_user(unsigned int slot)
{
	return slot == SLOTS - 1;
}

static struct model_page *page_of(struct world *w, unsigned int s)
{
	return &w->pages[w->slots[s].page];
}

static unsigned int charged_to(const struct world *w, unsigned int user)
{
	unsigned int p, n = 0;

	for (p = 0; p < PAGES; p++)
		n += w->pages[p].charged == 1 + user;
	return n;
}

static bool is_idle(const struct model_page *page)
{
	return !page->held && !page->glimpsed;
}

static bool is_free(const struct model_page *page)
{
	return page->place == ON_LIST && (page->state == CLEAN || page->state == DIRTY);
}

/* As set_state(): a faulty page does not become free. */
static void set_state(struct model_page *page, enum state state)
{
	if (page->faulty && (state == CLEAN || state == DIRTY) && guarded(SET_STATE_POISONS))
		state = POISONED;
	page->state = state;
	page->place = ON_LIST;
}

/* ---- making a region ---- */

bool plan(struct world *w, unsigned int s)
{
	if (w->slots[s].life != NO_REGION || (w->taker != NONE && guarded(TAKE_MUTEX)))
		return false;
	if (charged_to(w, slot_user(s)) >= SHARE)
		return false;
	w->taker = s;
	w->slots[s].life = PLANNED;
	return true;
}

/* Clean ones first. Which one of several is the list's matter: any. */
bool take_page(struct world *w, unsigned int i)
{
	struct slot *slot = &w->slots[i / PAGES];
	struct model_page *page = &w->pages[i % PAGES];
	unsigned int p;

	if (slot->life != PLANNED || !is_free(page))
		return false;
	for (p = 0; p < PAGES && page->state == DIRTY; p++)
		if (is_free(&w->pages[p]) && w->pages[p].state == CLEAN)
			return false;
	page->state = IN_USE;
	page->place = IN_SLOT;
	slot->page = i % PAGES;
	slot->life = TAKEN;
	return true;
}

/* There was none after all. */
static bool give_up(struct world *w, unsigned int s)
{
	unsigned int p;

	if (w->slots[s].life != PLANNED)
		return false;
	for (p = 0; p < PAGES; p++)
		if (is_free(&w->pages[p]))
			return false;
	w->slots[s].life = NO_REGION;
	w->taker = NONE;
	return true;
}

bool charge(struct world *w, unsigned int s)
{
	if (w->slots[s].life != TAKEN)
		return false;
	page_of(w, s)->charged = 1 + slot_user(s);
	w->slots[s].life = CHARGED;
	w->taker = NONE;
	return true;
}

bool zero_missing(struct world *w, unsigned int s)
{
	struct model_page *page = page_of(w, s);

	if (w->slots[s].life != CHARGED || page->faulty)
		return false;
	if (!page->zero && guarded(TAKER_ZEROES)) {
		page->bytes = ZEROES;
		page->zero = 1;
	}
	w->slots[s].life = READY;
	return true;
}

bool give(struct world *w, unsigned int s)
{
	if (w->slots[s].life != READY)
		return false;
	if (page_of(w, s)->bytes != ZEROES)
		w->wrong = NOT_ZERO_WHEN_GIVEN;
	w->slots[s].life = ALIVE;
	return true;
}

/* The maker was killed, or the page turned out faulty. */
bool put_uncharge(struct world *w, unsigned int s)
{
	if (w->slots[s].life != CHARGED && w->slots[s].life != READY)
		return false;
	page_of(w, s)->charged = 0;
	w->slots[s].life = UNCHARGED;
	return true;
}

bool put_back(struct world *w, unsigned int s)
{
	struct model_page *page = page_of(w, s);

	if (w->slots[s].life != UNCHARGED)
		return false;
	set_state(page, page->zero || !guarded(PUT_ASKS_ZERO) ? CLEAN : DIRTY);
	w->slots[s] = (struct slot){ .page = NONE };
	return true;
}

/* ---- using it ---- */

bool map(struct world *w, unsigned int s)
{
	if (w->slots[s].life != ALIVE || w->slots[s].mapped || page_of(w, s)->faulty)
		return false;
	w->slots[s].mapped = 1;
	return true;
}

bool unmap(struct world *w, unsigned int s)
{
	if (!w->slots[s].mapped)
		return false;
	w->slots[s].mapped = 0;
	return true;
}

bool touch(struct world *w, unsigned int s)
{
	if (!w->slots[s].mapped)
		return false;
	page_of(w, s)->bytes = 1 + s;
	return true;
}

bool pin(struct world *w, unsigned int s)
{
	if (!w->slots[s].mapped)
		return false;
	page_of(w, s)->held |= 1 << s;
	return true;
}

bool device_writes(struct world *w, unsigned int i)
{
	struct model_page *page = &w->pages[i % PAGES];

	if (!(page->held >> i / PAGES & 1))
		return false;
	page->bytes = 1 + i / PAGES;
	return true;
}

bool unpin(struct world *w, unsigned int i)
{
	struct model_page *page = &w->pages[i % PAGES];

	if (!(page->held >> i / PAGES & 1))
		return false;
	page->held &= ~(1 << i / PAGES);
	return true;
}

/* pin_user_pages_fast() and others take a reference and look again whether the entry is there. */
static bool glimpse(struct world *w, unsigned int s)
{
	if (!w->slots[s].mapped)
		return false;
	page_of(w, s)->glimpsed = 1;
	return true;
}

static bool look_away(struct world *w, unsigned int p)
{
	if (!w->pages[p].glimpsed)
		return false;
	w->pages[p].glimpsed = 0;
	return true;
}

/* ---- its end ---- */

bool release_account(struct world *w, unsigned int s)
{
	struct model_page *page = page_of(w, s);

	if (w->slots[s].life != ALIVE || (w->slots[s].mapped && guarded(MAPPING_HOLDS_REGION)))
		return false;
	if (guarded(RELEASE_FORGETS_ZERO))
		page->zero = 0;
	page->idle = is_idle(page) || !guarded(RELEASE_ASKS_HOLDERS);
	if (page->idle || !guarded(CHARGE_LASTS))
		page->charged = 0;
	w->slots[s].life = RELEASED;
	return true;
}

bool release_state(struct world *w, unsigned int s)
{
	struct model_page *page = page_of(w, s);

	if (w->slots[s].life != RELEASED)
		return false;
	set_state(page, page->idle ? page->zero ? CLEAN : DIRTY : QUARANTINED);
	page->idle = 0;
	w->slots[s] = (struct slot){ .page = NONE, .mapped = w->slots[s].mapped };
	return true;
}

/* ---- the scrubber ---- */

bool scrub_begin(struct world *w, unsigned int p)
{
	struct model_page *page = &w->pages[p];
	unsigned int i;

	if (!is_free(page) || page->state != DIRTY)
		return false;
	for (i = 0; i < PAGES; i++)	/* one worker */
		if (w->pages[i].scrubbed)
			return false;
	page->scrubbed = 1;
	page->place = guarded(SCRUBBER_TAKES_OFF) ? IN_SCRUBBER : ON_LIST;
	return true;
}

bool scrub_zero(struct world *w, unsigned int p)
{
	struct model_page *page = &w->pages[p];

	if (!page->scrubbed || page->zero || page->faulty)
		return false;
	if (page->state == IN_USE)
		w->wrong = SCRUBBED_IN_USE;
	page->bytes = ZEROES;
	page->zero = 1;
	return true;
}

/* Zeroed, or stopped before since somebody waits for the page. */
bool scrub_end(struct world *w, unsigned int p)
{
	struct model_page *page = &w->pages[p];

	if (!page->scrubbed)
		return false;
	page->scrubbed = 0;
	set_state(page, page->zero || !guarded(SCRUB_END_ASKS) ? CLEAN : DIRTY);
	return true;
}

/* ---- the scan of the quarantine ---- */

bool scan_take(struct world *w, unsigned int p)
{
	struct model_page *page = &w->pages[p];
	unsigned int i;

	if (page->state != QUARANTINED || page->place != ON_LIST || (!is_idle(page) && guarded(SCAN_ASKS_HOLDERS)))
		return false;
	for (i = 0; i < PAGES; i++)	/* scan_mutex; one after the other */
		if (w->pages[i].place == IN_SCAN)
			return false;
	page->place = IN_SCAN;
	return true;
}

bool scan_uncharge(struct world *w, unsigned int p)
{
	if (w->pages[p].place != IN_SCAN || w->scan_uncharged)
		return false;
	w->pages[p].charged = 0;
	w->scan_uncharged = 1;
	return true;
}

bool scan_end(struct world *w, unsigned int p)
{
	if (w->pages[p].place != IN_SCAN || !w->scan_uncharged)
		return false;
	set_state(&w->pages[p], DIRTY);
	w->scan_uncharged = 0;
	return true;
}

/* ---- growing and shrinking ---- */

static bool grow(struct model_page *page, bool zeroed)
{
	if (page->state != SYSTEM)
		return false;
	page->bytes = zeroed ? ZEROES : OF_SYSTEM;
	page->zero = zeroed;
	set_state(page, zeroed ? CLEAN : DIRTY);
	return true;
}

bool grow_zeroed(struct world *w, unsigned int p)
{
	return grow(&w->pages[p], true);
}

bool grow_unzeroed(struct world *w, unsigned int p)
{
	return grow(&w->pages[p], false);
}

/* Dirty ones first. */
bool shrink_take(struct world *w, unsigned int p)
{
	struct model_page *page = &w->pages[p];
	bool held = page->state == QUARANTINED && page->place == ON_LIST && !guarded(FREE_MEANS_UNHELD);
	unsigned int i;

	if (w->taker != NONE || (!is_free(page) && !held))
		return false;
	for (i = 0; i < PAGES && page->state == CLEAN; i++)
		if (is_free(&w->pages[i]) && w->pages[i].state == DIRTY)
			return false;
	page->state = IN_USE;
	page->place = IN_RESIZING;
	w->taker = SLOTS;
	return true;
}

bool shrink_remove(struct world *w, unsigned int p)
{
	struct model_page *page = &w->pages[p];

	if (page->place != IN_RESIZING)
		return false;
	page->state = (page->faulty || page->broken) && guarded(FAULTY_IS_WITHHELD) ? WITHHELD : SYSTEM;
	page->place = ON_LIST;
	page->bytes = OF_SYSTEM;
	page->zero = 0;
	w->taker = NONE;
	return true;
}

/* ---- faulty memory; one page is enough of it ---- */

bool breaks(struct world *w, unsigned int p)
{
	if (p || w->pages[p].broken || w->pages[p].state == SYSTEM || w->pages[p].state == WITHHELD)
		return false;
	w->pages[p].broken = 1;
	return true;
}

/* All entries for it go too, and it stays the region's. */
bool mark_faulty(struct world *w, unsigned int p)
{
	struct model_page *page = &w->pages[p];
	unsigned int s;

	if (!page->broken || page->faulty || page->state == SYSTEM || page->state == WITHHELD)
		return false;
	page->faulty = 1;
	if (is_free(page))
		set_state(page, POISONED);
	for (s = 0; s < SLOTS; s++)
		if (w->slots[s].page == p && w->slots[s].life == ALIVE)
			w->slots[s].mapped = 0;
	return true;
}

const struct step steps[] = {
	{ "plan", NULL, plan, SLOTS, false },
	{ "take", "hugepin_reserve_take", take_page, SLOTS * PAGES, true },
	{ "give up", NULL, give_up, SLOTS, true },
	{ "charge", "take_pages", charge, SLOTS, true },
	{ "put: uncharge", "hugepin_reserve_put", put_uncharge, SLOTS, true },
	{ "put: state", "hugepin_reserve_put", put_back, SLOTS, true },
	{ "zero", "hugepin_page_zero", zero_missing, SLOTS, false },
	{ "give", NULL, give, SLOTS, false },
	{ "map", NULL, map, SLOTS, false },
	{ "touch", NULL, touch, SLOTS, false },
	{ "pin", NULL, pin, SLOTS, false },
	{ "a device writes", NULL, device_writes, SLOTS * PAGES, false },
	{ "unpin", NULL, unpin, SLOTS * PAGES, true },
	{ "glimpse", NULL, glimpse, SLOTS, false },
	{ "look away", NULL, look_away, PAGES, true },
	{ "unmap", NULL, unmap, SLOTS, true },
	{ "release: account", "hugepin_reserve_release", release_account, SLOTS, true },
	{ "release: state", "hugepin_reserve_release", release_state, SLOTS, true },
	{ "scrub: begin", "hugepin_reserve_scrub_begin", scrub_begin, PAGES, true },
	{ "scrub: zero", "hugepin_page_zero", scrub_zero, PAGES, true },
	{ "scrub: end", "hugepin_reserve_scrub_end", scrub_end, PAGES, true },
	{ "scan: take", "quarantine_batch", scan_take, PAGES, true },
	{ "scan: uncharge", "quarantine_batch", scan_uncharge, PAGES, true },
	{ "scan: state", "quarantine_batch", scan_end, PAGES, true },
	{ "grow, zeroed", "hugepin_reserve_add", grow_zeroed, PAGES, false },
	{ "grow", "hugepin_reserve_add", grow_unzeroed, PAGES, false },
	{ "shrink: take", "hugepin_reserve_take", shrink_take, PAGES, false },
	{ "shrink: remove", "hugepin_reserve_remove", shrink_remove, PAGES, true },
	{ "memory breaks", NULL, breaks, PAGES, false },
	{ "mark faulty", "hugepin_reserve_mark_faulty", mark_faulty, PAGES, true },
};
const size_t step_count = sizeof(steps) / sizeof(steps[0]);

const char *const elsewhere[] = {
	"set_state",	/* part of the steps that call it */
	"new_page",	/* before others can see the page: "grow" */
	"add_first",	/* likewise, in use by the self-test; it then shrinks */
	"free_list",	/* unloading: nobody is left */
};
const size_t elsewhere_count = sizeof(elsewhere) / sizeof(elsewhere[0]);

/* ---- the world ---- */

void world_begin(struct world *w)
{
	unsigned int i;

	memset(w, 0, sizeof(*w));
	for (i = 0; i < PAGES; i++) {
		w->pages[i].state = SYSTEM;
		w->pages[i].bytes = OF_SYSTEM;
	}
	for (i = 0; i < SLOTS; i++)
		w->slots[i].page = NONE;
	w->taker = NONE;
}

static const char *page_wrong(const struct world *w, unsigned int p)
{
	const struct model_page *page = &w->pages[p];
	bool is_ours = page->state == CLEAN || page->state == DIRTY;
	unsigned int s, owners = 0;

	for (s = 0; s < SLOTS; s++) {
		if (w->slots[s].page != p)
			continue;
		owners++;
		if (page->state != IN_USE || page->place != IN_SLOT)
			return "a region has a page that is not in use";
		if (w->slots[s].life >= CHARGED && w->slots[s].life <= ALIVE && page->charged != 1 + slot_user(s))
			return "a region's page is not charged to its user";
		if (page->held & ~(1 << s))
			return "a device of another holds a region's page";
	}
	if (owners > 1)
		return "a page has two owners";
	if (page->held && !owners && page->state != QUARANTINED && page->state != POISONED)
		return "a page that a device holds is free";
	if (page->state == QUARANTINED && page->place == ON_LIST && !page->charged)
		return "a page in quarantine is charged to nobody";
	if (page->charged && page->state != IN_USE && page->state != QUARANTINED)
		return "a page that nobody has is charged";
	if (page->state == CLEAN && (page->bytes != ZEROES || !page->zero))
		return "a clean page is not zero";
	if (page->faulty && is_ours && page->place == ON_LIST)
		return "a page known to be faulty is free";
	if (page->broken && page->state == SYSTEM)
		return "a faulty page was given back to the system";
	return NULL;
}

const char *world_wrong(const struct world *w)
{
	const char *wrong = w->wrong ? findings[w->wrong] : NULL;
	unsigned int i;

	for (i = 0; i < PAGES && !wrong; i++)
		wrong = page_wrong(w, i);
	for (i = 0; i < USERS && !wrong; i++)
		if (charged_to(w, i) > SHARE)
			wrong = "a user holds more than the share";
	for (i = 0; i < SLOTS && !wrong; i++)
		if (w->slots[i].mapped && w->slots[i].life != ALIVE)
			wrong = "a region that is gone is mapped";
	return wrong;
}

bool world_settled(const struct world *w)
{
	unsigned int i;

	if (w->taker != NONE)
		return false;
	for (i = 0; i < SLOTS; i++)
		if (w->slots[i].life != NO_REGION)
			return false;
	for (i = 0; i < PAGES; i++) {
		const struct model_page *page = &w->pages[i];

		if (page->place != ON_LIST || page->charged || page->held || page->state == DIRTY ||
		    page->state == QUARANTINED || page->state == IN_USE)
			return false;
	}
	return true;
}
