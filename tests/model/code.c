// SPDX-License-Identifier: GPL-2.0
/*
 * The module's own reserve.c and account.c step by step beside the model. From every state that calls lead to, every
 * call that is possible there is made on both, and afterwards both must agree: on each page's state, list, zero_steps,
 * charge and fault, on every counter, on what each user holds. Calls are made whole here; what happens when others get
 * in between is what the model is for.
 *
 *	code		last line: states and calls; 0 if both agree everywhere
 */
#include "../../kmod/hugepin.h"
#include "model.h"

#define STATES_MAX	(1u << 20)
#define TABLE		(1u << 22)
#define DEPTH_MAX	64

unsigned long jiffies;
bool hugepin_stopping;
struct workqueue_struct *hugepin_wq;
struct user_namespace init_user_ns;
struct user_namespace *model_user_ns = &init_user_ns;
kuid_t model_euid;

static struct world world;
static struct hugepin_page *pages[PAGES];	/* NULL: the system's */
static struct hugepin_page *scrubbed;
static struct hugepin_account *users[USERS];

static const char *doing = "beginning";

_Static_assert(HUGEPIN_CLEAN == (int)CLEAN && HUGEPIN_DIRTY == (int)DIRTY && HUGEPIN_IN_USE == (int)IN_USE &&
	       HUGEPIN_QUARANTINED == (int)QUARANTINED && HUGEPIN_POISONED == (int)POISONED &&
	       HUGEPIN_STATES == (int)SYSTEM,
	       "the model's states are the module's");

void model_fail(const char *file, int line, const char *what)
{
	printf("%s:%d: not so: %s (%s)\n", file, line, what, doing);
	exit(1);
}

/* ---- the rest of the module ---- */

bool hugepin_page_idle(struct page *page)
{
	return page->count == 1;
}

void hugepin_page_detach(struct page *page)
{
	MUST(page->count >= 1);
}

unsigned int hugepin_page_steps(const struct hugepin_page *page)
{
	MUST(page->reserve->class == HUGEPIN_CLASS_2M);
	return 1;
}

bool hugepin_page_is_zero(const struct hugepin_page *page)
{
	return page->zero_steps == hugepin_page_steps(page);
}

void hugepin_page_free(struct hugepin_page *page)
{
	free(page->page);
}

void hugepin_poison_unwatch(struct hugepin_page *page)
{
	unsigned int p;

	for (p = 0; p < PAGES; p++)
		if (pages[p] == page)
			pages[p] = NULL;
}

void hugepin_scrub_init(struct hugepin_node *node) { MUST(node); }
void hugepin_scrub_kick(struct hugepin_node *node) { MUST(node); }
void hugepin_scrub_stop(struct hugepin_node *node) { MUST(node); }
void hugepin_cgroup_uncharge(struct hugepin_page *page) { MUST(page); }

static void zero_page(struct hugepin_page *page)
{
	if (!hugepin_page_is_zero(page))
		page->page->bytes = ZEROES;
	page->zero_steps = 1;
}

static struct hugepin_reserve *reserve(void)
{
	return &hugepin_node(0)->reserve[HUGEPIN_CLASS_2M];
}

static unsigned int number_of(const struct hugepin_page *page)
{
	unsigned int p;

	for (p = 0; p < PAGES; p++)
		if (pages[p] == page)
			return p;
	model_fail(__FILE__, __LINE__, "a page that is none of ours");
}

/* ---- a call, whole: on the module and on the model ---- */

static bool any_free(void)
{
	return hugepin_reserve_free(reserve()) > reserve()->scrubbing;
}

static bool call_take(unsigned int s)
{
	struct hugepin_account *user = users[slot_user(s)];
	struct hugepin_page *page;
	bool waited = false;
	u64 held;

	if (!any_free() || !plan(&world, s))
		return false;
	MUST(hugepin_account_room(user, 0, HUGEPIN_CLASS_2M, SHARE, &held) > 0);
	mutex_lock(&hugepin_take_mutex);
	page = hugepin_reserve_take(reserve(), true, &waited);
	MUST(page && !waited);
	hugepin_account_charge(page, user, NULL);
	mutex_unlock(&hugepin_take_mutex);
	MUST(take_page(&world, s * PAGES + number_of(page)));
	return charge(&world, s);
}

static struct hugepin_page *page_in(unsigned int s)
{
	return pages[world.slots[s].page];
}

static bool call_zero(unsigned int s)
{
	if (!zero_missing(&world, s))
		return false;
	zero_page(page_in(s));
	return true;
}

static bool call_put(unsigned int s)
{
	struct hugepin_page *page;

	if (!put_uncharge(&world, s))
		return false;
	page = page_in(s);
	MUST(put_back(&world, s));
	hugepin_reserve_put(page);
	return true;
}

static bool call_touch(unsigned int s)
{
	if (!touch(&world, s))
		return false;
	page_in(s)->page->bytes = 1 + s;
	return true;
}

static bool call_pin(unsigned int s)
{
	if (world.slots[s].mapped && world.pages[world.slots[s].page].held >> s & 1)
		return false;
	if (!pin(&world, s))
		return false;
	page_in(s)->page->count++;
	return true;
}

static bool call_device_writes(unsigned int i)
{
	if (!device_writes(&world, i))
		return false;
	pages[i % PAGES]->page->bytes = 1 + i / PAGES;
	return true;
}

static bool call_unpin(unsigned int i)
{
	if (!unpin(&world, i))
		return false;
	pages[i % PAGES]->page->count--;
	return true;
}

static bool call_release(unsigned int s)
{
	struct hugepin_page *page;

	if (!release_account(&world, s))
		return false;
	page = page_in(s);
	MUST(release_state(&world, s));
	hugepin_reserve_release(page);
	return true;
}

static bool call_scrub_begin(unsigned int unused)
{
	(void)unused;
	if (scrubbed)
		return false;
	scrubbed = hugepin_reserve_scrub_begin(reserve());
	return scrubbed && scrub_begin(&world, number_of(scrubbed));
}

static bool call_scrub_zero(unsigned int unused)
{
	(void)unused;
	if (!scrubbed || !scrub_zero(&world, number_of(scrubbed)))
		return false;
	zero_page(scrubbed);
	return true;
}

/* It is broken and nobody has heard of it: the scrubber finds it so. */
static bool call_scrub_end(unsigned int unused)
{
	unsigned int p;
	int err = 0;

	(void)unused;
	if (!scrubbed)
		return false;
	p = number_of(scrubbed);
	if (world.pages[p].broken && !world.pages[p].zero)
		err = -EHWPOISON;
	else if (!world.pages[p].zero)
		err = -EINTR;
	if (err == -EHWPOISON)
		mark_faulty(&world, p);
	hugepin_reserve_scrub_end(scrubbed, err);
	scrubbed = NULL;
	return scrub_end(&world, p);
}

static bool call_scan(unsigned int unused)
{
	unsigned int p;

	(void)unused;
	jiffies += HZ;
	hugepin_quarantine_check();
	for (p = 0; p < PAGES; p++)
		if (scan_take(&world, p))
			MUST(scan_uncharge(&world, p) && scan_end(&world, p));
	return true;
}

static void grow_by(unsigned int p, bool zeroed)
{
	struct hugepin_page *page = calloc(1, sizeof(*page));

	MUST(page);
	page->page = calloc(1, sizeof(*page->page));
	MUST(page->page);
	page->page->count = 1;
	page->page->bytes = zeroed ? ZEROES : OF_SYSTEM;
	INIT_LIST_HEAD(&page->link);
	page->reserve = reserve();
	page->state = zeroed ? HUGEPIN_CLEAN : HUGEPIN_DIRTY;
	page->zero_steps = zeroed;
	pages[p] = page;
	hugepin_reserve_add(page);
}

static bool call_grow_zeroed(unsigned int p)
{
	if (!grow_zeroed(&world, p))
		return false;
	grow_by(p, true);
	return true;
}

static bool call_grow_unzeroed(unsigned int p)
{
	if (!grow_unzeroed(&world, p))
		return false;
	grow_by(p, false);
	return true;
}

static bool call_shrink(unsigned int unused)
{
	struct hugepin_page *page;
	bool waited = false;
	unsigned int p;

	(void)unused;
	if (!any_free())
		return false;
	mutex_lock(&hugepin_take_mutex);
	page = hugepin_reserve_take(reserve(), false, &waited);
	mutex_unlock(&hugepin_take_mutex);
	MUST(page && !waited);
	p = number_of(page);
	hugepin_reserve_remove(page);
	hugepin_poison_unwatch(page);
	hugepin_page_free(page);
	kfree(page);
	return shrink_take(&world, p) && shrink_remove(&world, p);
}

static bool call_breaks(unsigned int p)
{
	return breaks(&world, p);
}

static bool call_mark(unsigned int p)
{
	if (!mark_faulty(&world, p))
		return false;
	MUST(hugepin_reserve_mark_faulty(pages[p]));
	MUST(!hugepin_reserve_mark_faulty(pages[p]));
	return true;
}

static bool call_give(unsigned int s)
{
	return give(&world, s);
}

static bool call_map(unsigned int s)
{
	return map(&world, s);
}

static bool call_unmap(unsigned int s)
{
	return unmap(&world, s);
}

static const struct call {
	const char *name;
	bool (*make)(unsigned int i);
	unsigned int range;
} calls[] = {
	{ "take", call_take, SLOTS },
	{ "zero", call_zero, SLOTS },
	{ "put", call_put, SLOTS },
	{ "give", call_give, SLOTS },
	{ "map", call_map, SLOTS },
	{ "touch", call_touch, SLOTS },
	{ "pin", call_pin, SLOTS },
	{ "a device writes", call_device_writes, SLOTS * PAGES },
	{ "unpin", call_unpin, SLOTS * PAGES },
	{ "unmap", call_unmap, SLOTS },
	{ "release", call_release, SLOTS },
	{ "scrub: begin", call_scrub_begin, 1 },
	{ "scrub: zero", call_scrub_zero, 1 },
	{ "scrub: end", call_scrub_end, 1 },
	{ "scan", call_scan, 1 },
	{ "grow, zeroed", call_grow_zeroed, PAGES },
	{ "grow", call_grow_unzeroed, PAGES },
	{ "shrink", call_shrink, 1 },
	{ "memory breaks", call_breaks, PAGES },
	{ "mark faulty", call_mark, PAGES },
};

/* ---- whether both agree ---- */

static const struct list_head *list_of(enum state state)
{
	switch (state) {
	case CLEAN:
		return &reserve()->clean;
	case DIRTY:
		return &reserve()->dirty;
	case QUARANTINED:
		return &reserve()->quarantine;
	case POISONED:
		return &reserve()->poisoned;
	default:
		return NULL;
	}
}

static unsigned int times_on(const struct list_head *list, const struct hugepin_page *page)
{
	const struct list_head *at;
	unsigned int n = 0;

	for (at = list->next; at != list; at = at->next)
		n += at == &page->link;
	return n;
}

static void compare_page(unsigned int p)
{
	static const enum state on_lists[] = { CLEAN, DIRTY, QUARANTINED, POISONED };
	const struct model_page *model = &world.pages[p];
	const struct hugepin_page *page = pages[p];
	unsigned int i;

	MUST(!page == (model->state == SYSTEM || model->state == WITHHELD));
	if (!page)
		return;
	MUST((unsigned int)page->state == model->state);
	MUST(page->zero_steps == model->zero);
	MUST(page->faulty == model->faulty);
	MUST(page->user == (model->charged ? users[model->charged - 1] : NULL));
	MUST(page->page->bytes == model->bytes);
	MUST(page->page->count == 1 + __builtin_popcount(model->held));
	for (i = 0; i < ARRAY_SIZE(on_lists); i++)
		MUST(times_on(list_of(on_lists[i]), page) ==
		     (model->place == ON_LIST && model->state == on_lists[i]));
}

static u64 in_state(enum state state)
{
	u64 n = 0;
	unsigned int p;

	for (p = 0; p < PAGES; p++)
		n += world.pages[p].state == state;
	return n;
}

static void compare_user(unsigned int user)
{
	struct hugepin_user_entry entries[USERS] = { 0 };
	u64 cursor = 0, held, charged = 0, quarantined = 0, listed = 0, quarantine_listed = 0;
	unsigned int p;
	u32 i, count;

	for (p = 0; p < PAGES; p++) {
		if (world.pages[p].charged != 1 + user)
			continue;
		charged++;
		quarantined += world.pages[p].state == QUARANTINED;
	}
	MUST(hugepin_account_room(users[user], 0, HUGEPIN_CLASS_2M, 100, &held) == 100 - charged);
	MUST(held == charged);
	count = hugepin_account_list(&cursor, entries, USERS);
	for (i = 0; i < count; i++) {
		if (entries[i].uid != 1000 + user)
			continue;
		listed += entries[i].held[HUGEPIN_CLASS_2M];
		quarantine_listed += entries[i].quarantined[HUGEPIN_CLASS_2M];
	}
	MUST(listed == charged && quarantine_listed == quarantined);
}

static void compare(void)
{
	struct hugepin_info_pages info;
	unsigned int i;

	MUST(!world_wrong(&world));
	for (i = 0; i < PAGES; i++)
		compare_page(i);
	for (i = 0; i < USERS; i++)
		compare_user(i);
	hugepin_reserve_snapshot(reserve(), &info);
	MUST(info.clean == in_state(CLEAN) && info.dirty == in_state(DIRTY) && info.in_use == in_state(IN_USE));
	MUST(info.quarantined == in_state(QUARANTINED) && info.poisoned == in_state(POISONED));
	MUST(info.total == info.clean + info.dirty + info.in_use + info.quarantined + info.poisoned);
	MUST(reserve()->scrubbing == (scrubbed != NULL));
}

/* ---- beginning and end ---- */

static void begin(void)
{
	unsigned int i;

	world_begin(&world);
	MUST(!hugepin_reserve_init());
	for (i = 0; i < USERS; i++) {
		model_euid.val = 1000 + i;
		users[i] = hugepin_account_user();
		MUST(users[i]);
	}
}

/* Everybody lets go, and the module is unloaded; nothing is left then. */
static void end(void)
{
	unsigned int i;

	doing = "ending";
	for (i = 0; i < SLOTS * PAGES; i++)
		call_unpin(i);
	for (i = 0; i < SLOTS; i++) {
		call_put(i);
		call_unmap(i);
		call_release(i);
	}
	call_scrub_end(0);
	hugepin_reserve_exit();
	hugepin_stopping = false;
	for (i = 0; i < USERS; i++)
		hugepin_account_put(users[i]);
	for (i = 0; i < PAGES; i++)
		MUST(!pages[i]);
}

/* ---- every state ---- */

/* Which of two pages on a list is the first decides which is taken, so it is part of the state. */
struct key {
	struct world world;
	uint8_t order;
};

static struct reached {
	struct key key;
	uint32_t from;
	uint8_t call, i;
} *reached;
static uint32_t *table, count;

static struct key key_now(void)
{
	struct key key;
	unsigned int state;

	memset(&key, 0, sizeof(key));
	key.world = world;
	for (state = CLEAN; state <= POISONED; state++) {
		const struct list_head *list = list_of(state);

		if (list && !list_empty(list) && pages[1] && list->next == &pages[1]->link)
			key.order |= 1 << state;
	}
	return key;
}

static void add(uint32_t from, unsigned int call, unsigned int i)
{
	const struct key key = key_now();
	const unsigned char *byte = (const unsigned char *)&key;
	uint32_t at = 2166136261u;
	size_t k;

	for (k = 0; k < sizeof(key); k++)
		at = (at ^ byte[k]) * 16777619u;
	for (at %= TABLE; table[at]; at = (at + 1) % TABLE)
		if (!memcmp(&reached[table[at] - 1].key, &key, sizeof(key)))
			return;
	MUST(count < STATES_MAX);
	reached[count] = (struct reached){ .key = key, .from = from, .call = call, .i = i };
	table[at] = ++count;
}

/* From the beginning to that state again. */
static void go_to(uint32_t state)
{
	uint32_t way[DEPTH_MAX], length = 0;

	for (; state; state = reached[state].from) {
		MUST(length < DEPTH_MAX);
		way[length++] = state;
	}
	while (length--) {
		const struct reached *r = &reached[way[length]];

		doing = calls[r->call].name;
		MUST(calls[r->call].make(r->i));
	}
}

static unsigned long long try_all_from(uint32_t at)
{
	unsigned long long made = 0;
	unsigned int call, i;

	for (call = 0; call < ARRAY_SIZE(calls); call++) {
		for (i = 0; i < calls[call].range; i++) {
			begin();
			go_to(at);
			doing = calls[call].name;
			if (calls[call].make(i)) {
				compare();
				add(at, call, i);
				made++;
			}
			end();
		}
	}
	return made;
}

int main(void)
{
	unsigned long long made = 0;
	uint32_t at;

	reached = malloc(STATES_MAX * sizeof(*reached));
	table = calloc(TABLE, sizeof(*table));
	MUST(reached && table);
	begin();
	compare();
	add(0, 0, 0);
	end();
	for (at = 0; at < count; at++)
		made += try_all_from(at);
	printf("%u states, %llu calls: the code and the model agree\n", count, made);
	return 0;
}
