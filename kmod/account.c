// SPDX-License-Identifier: GPL-2.0
/*
 * Who holds how much. An account is a user's (found by uid) or a mount's (owned by its superblock, with limits). Every
 * charged page holds a reference, so an account lives as long as it matters.
 *
 * There can be as many users as there are pages and pinned ranges, each another uid of a container: so neither finding
 * one nor going on with a listing is a walk over all of them.
 *
 * A user in a user namespace has the namespace's owner as parent: what it holds counts for the owner too, so that a set
 * of subordinate uids is no way around the owner's share.
 */
#include <linux/cred.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/rbtree.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "hugepin.h"

struct hugepin_account {
	unsigned int refs;		/* under account_lock */
	u64 id;				/* users: greater than those of older ones; 0 for a mount */
	struct hlist_node by_uid;	/* users, and the next: under account_lock */
	struct rb_node by_id;
	kuid_t uid;
	struct hugepin_account *parent;	/* with a reference, or NULL */
	u64 locked;			/* base pages of pinned ranges */
	u64 limit[HUGEPIN_CLASS_COUNT];
	u64 held_class[HUGEPIN_CLASS_COUNT];
	u64 quarantined[HUGEPIN_CLASS_COUNT];	/* of these */
	u64 held[][HUGEPIN_CLASS_COUNT];	/* by node id */
};

static DEFINE_SPINLOCK(account_lock);
/* What follows is under account_lock: users by uid and parent, and oldest first. */
static DEFINE_HASHTABLE(users, 10);
static struct rb_root users_by_id = RB_ROOT;
static u64 last_id;

static struct hugepin_account *account_make(kuid_t uid, struct hugepin_account *parent)
{
	struct hugepin_account *account;
	int class;

	account = kvzalloc(struct_size(account, held, nr_node_ids), GFP_KERNEL_ACCOUNT);
	if (!account)
		return NULL;
	account->refs = 1;
	account->uid = uid;
	account->parent = parent;
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
		account->limit[class] = U64_MAX;
	return account;
}

/* Drops a reference; returns the account if it was the last, to be ended by account_end() without the lock. */
static struct hugepin_account *put_locked(struct hugepin_account *account)
{
	lockdep_assert_held(&account_lock);
	if (--account->refs)
		return NULL;
	if (account->id) {
		hash_del(&account->by_uid);
		rb_erase(&account->by_id, &users_by_id);
	}
	return account;
}

static void account_end(struct hugepin_account *account)
{
	while (account) {
		struct hugepin_account *parent = account->parent;

		kvfree(account);
		if (!parent)
			return;
		spin_lock(&account_lock);
		account = put_locked(parent);
		spin_unlock(&account_lock);
	}
}

void hugepin_account_put(struct hugepin_account *account)
{
	if (!account)
		return;
	spin_lock(&account_lock);
	account = put_locked(account);
	spin_unlock(&account_lock);
	account_end(account);
}

static unsigned long user_key(kuid_t uid, const struct hugepin_account *parent)
{
	return __kuid_val(uid) ^ hash_ptr(parent, 32);
}

static struct hugepin_account *get_user_locked(kuid_t uid, const struct hugepin_account *parent)
{
	struct hugepin_account *account;

	lockdep_assert_held(&account_lock);
	hash_for_each_possible(users, account, by_uid, user_key(uid, parent))
		if (uid_eq(account->uid, uid) && account->parent == parent) {
			account->refs++;
			return account;
		}
	return NULL;
}

static void add_user_locked(struct hugepin_account *user)
{
	struct rb_node **at = &users_by_id.rb_node, *above = NULL;

	lockdep_assert_held(&account_lock);
	user->id = ++last_id;
	hash_add(users, &user->by_uid, user_key(user->uid, user->parent));
	while (*at) {			/* the newest: to the right of all others */
		above = *at;
		at = &above->rb_right;
	}
	rb_link_node(&user->by_id, above, at);
	rb_insert_color(&user->by_id, &users_by_id);
}

/* Consumes the reference on @parent, also on failure. */
static struct hugepin_account *user_below(kuid_t uid, struct hugepin_account *parent)
{
	struct hugepin_account *account, *fresh;

	fresh = account_make(uid, parent);
	spin_lock(&account_lock);
	account = get_user_locked(uid, parent);
	if (!account && fresh) {
		add_user_locked(fresh);
		spin_unlock(&account_lock);
		return fresh;
	}
	spin_unlock(&account_lock);
	kvfree(fresh);
	hugepin_account_put(parent);	/* the account found has one of its own */
	return account;
}

struct hugepin_account *hugepin_account_user(void)
{
	struct user_namespace *around[33], *ns;	/* the kernel nests 32 deep */
	struct hugepin_account *account = NULL;
	kuid_t last = INVALID_UID;
	int n = 0;

	for (ns = current_user_ns(); ns != &init_user_ns && n < ARRAY_SIZE(around); ns = ns->parent)
		around[n++] = ns;
	while (n >= 0) {
		kuid_t uid = n ? around[n - 1]->owner : current_euid();

		n--;
		if (uid_eq(uid, last))	/* an owner inside its own namespace */
			continue;
		account = user_below(uid, account);
		if (!account)
			return NULL;
		last = uid;
	}
	return account;
}

struct hugepin_account *hugepin_account_mount(const u64 limit[HUGEPIN_CLASS_COUNT])
{
	struct hugepin_account *account = account_make(INVALID_UID, NULL);

	if (account)
		hugepin_account_set_limits(account, limit);
	return account;
}

void hugepin_account_set_limits(struct hugepin_account *account, const u64 limit[HUGEPIN_CLASS_COUNT])
{
	spin_lock(&account_lock);
	memcpy(account->limit, limit, sizeof(account->limit));
	spin_unlock(&account_lock);
}

u64 hugepin_account_room(struct hugepin_account *user, int node, unsigned int class, u64 limit, u64 *held)
{
	*held = 0;
	spin_lock(&account_lock);
	for (; user; user = user->parent)
		*held = max(*held, user->held[node][class]);
	spin_unlock(&account_lock);
	return limit - min(limit, *held);
}

u64 hugepin_account_held_class(struct hugepin_account *account, unsigned int class)
{
	return READ_ONCE(account->held_class[class]);
}

u64 hugepin_account_limit(struct hugepin_account *account, unsigned int class)
{
	return READ_ONCE(account->limit[class]);
}

static void add(struct hugepin_account *account, const struct hugepin_page *page, u64 n)
{
	lockdep_assert_held(&account_lock);
	for (; account; account = account->parent) {
		account->held[page->reserve->node][page->reserve->class] += n;
		account->held_class[page->reserve->class] += n;
	}
}

static void add_quarantined(struct hugepin_account *user, const struct hugepin_page *page, u64 n)
{
	lockdep_assert_held(&account_lock);
	for (; user; user = user->parent)
		user->quarantined[page->reserve->class] += n;
}

void hugepin_account_charge(struct hugepin_page *page, struct hugepin_account *user, struct hugepin_account *mount)
{
	spin_lock(&account_lock);
	user->refs++;
	page->user = user;
	add(user, page, 1);
	page->mount = mount;
	if (mount) {
		mount->refs++;
		add(mount, page, 1);
	}
	spin_unlock(&account_lock);
}

void hugepin_account_uncharge(struct hugepin_page *page)
{
	struct hugepin_account *user = page->user, *mount = page->mount;

	hugepin_cgroup_uncharge(page);
	if (!user)
		return;
	page->user = NULL;
	page->mount = NULL;
	spin_lock(&account_lock);
	if (page->state == HUGEPIN_QUARANTINED)
		add_quarantined(user, page, -1);
	add(user, page, -1);
	user = put_locked(user);
	if (mount) {
		add(mount, page, -1);
		mount = put_locked(mount);
	}
	spin_unlock(&account_lock);
	account_end(user);
	account_end(mount);
}

void hugepin_account_quarantine(struct hugepin_page *page)
{
	spin_lock(&account_lock);
	add_quarantined(page->user, page, 1);
	spin_unlock(&account_lock);
}

/* ---- who there is ---- */

static bool holds_something(const struct hugepin_account *user)
{
	int class;

	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
		if (user->held_class[class])
			return true;
	return user->locked;
}

static void tell_user(const struct hugepin_account *user, struct hugepin_user_entry *entry)
{
	const struct hugepin_account *parent;
	int class;

	lockdep_assert_held(&account_lock);
	entry->uid = from_kuid_munged(current_user_ns(), user->uid);
	for (parent = user->parent; parent; parent = parent->parent)
		entry->depth++;
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
		entry->held[class] = user->held_class[class];
		entry->quarantined[class] = user->quarantined[class];
	}
	entry->pinned = user->locked << PAGE_SHIFT;
}

/* The oldest user that is younger than @id. */
static struct rb_node *first_after(u64 id)
{
	struct rb_node *at = users_by_id.rb_node, *found = NULL;

	lockdep_assert_held(&account_lock);
	while (at) {
		if (rb_entry(at, struct hugepin_account, by_id)->id > id) {
			found = at;
			at = at->rb_left;
		} else {
			at = at->rb_right;
		}
	}
	return found;
}

u32 hugepin_account_list(u64 *cursor, struct hugepin_user_entry *entries, u32 room)
{
	u64 after = *cursor;
	struct rb_node *at;
	u32 count = 0;

	*cursor = 0;
	spin_lock(&account_lock);
	for (at = first_after(after); at; at = rb_next(at)) {
		const struct hugepin_account *user = rb_entry(at, struct hugepin_account, by_id);

		if (!holds_something(user))
			continue;
		if (count == room) {
			*cursor = after;
			break;
		}
		tell_user(user, &entries[count++]);
		after = user->id;
	}
	spin_unlock(&account_lock);
	return count;
}

/* ---- pinned ranges ---- */

int hugepin_account_lock(struct hugepin_account *user, u64 pages, struct hugepin_limit *limit)
{
	const u64 most = limit->limit >> PAGE_SHIFT;
	struct hugepin_account *account;
	int ret = 0;

	spin_lock(&account_lock);
	for (account = user; account && !ret; account = account->parent) {
		limit->held = account->locked << PAGE_SHIFT;
		if (limit->limit != U64_MAX && (account->locked > most || pages > most - account->locked))
			ret = -EDQUOT;
	}
	for (account = user; account && !ret; account = account->parent)
		account->locked += pages;
	spin_unlock(&account_lock);
	return ret;
}

void hugepin_account_unlock(struct hugepin_account *user, u64 pages)
{
	spin_lock(&account_lock);
	for (; user; user = user->parent)
		user->locked -= pages;
	spin_unlock(&account_lock);
}
