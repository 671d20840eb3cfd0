// SPDX-License-Identifier: GPL-2.0
/*
 * Who holds how much. An account is a user's (found by uid) or a mount's (owned by its superblock, with limits). Every
 * charged page holds a reference, so an account lives as long as it matters.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "hugepin.h"

struct hugepin_account {
	refcount_t refs;		/* put under account_lock */
	struct list_head link;		/* users: on the list */
	kuid_t uid;
	u64 limit[HUGEPIN_CLASS_COUNT];
	u64 held_class[HUGEPIN_CLASS_COUNT];
	u64 held[][HUGEPIN_CLASS_COUNT];	/* by node id */
};

static DEFINE_SPINLOCK(account_lock);
static LIST_HEAD(users);

static struct hugepin_account *account_make(void)
{
	struct hugepin_account *account;
	int class;

	account = kvzalloc(struct_size(account, held, nr_node_ids), GFP_KERNEL_ACCOUNT);
	if (!account)
		return NULL;
	refcount_set(&account->refs, 1);
	INIT_LIST_HEAD(&account->link);
	account->uid = INVALID_UID;
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
		account->limit[class] = U64_MAX;
	return account;
}

static struct hugepin_account *get_user_account(kuid_t uid)
{
	struct hugepin_account *account;

	lockdep_assert_held(&account_lock);
	list_for_each_entry(account, &users, link)
		if (uid_eq(account->uid, uid)) {
			refcount_inc(&account->refs);
			return account;
		}
	return NULL;
}

struct hugepin_account *hugepin_account_user(kuid_t uid)
{
	struct hugepin_account *account, *fresh;

	spin_lock(&account_lock);
	account = get_user_account(uid);
	spin_unlock(&account_lock);
	if (account)
		return account;

	fresh = account_make();
	if (!fresh)
		return NULL;
	fresh->uid = uid;
	spin_lock(&account_lock);
	account = get_user_account(uid);
	if (!account) {
		list_add(&fresh->link, &users);
		account = fresh;
		fresh = NULL;
	}
	spin_unlock(&account_lock);
	kvfree(fresh);
	return account;
}

struct hugepin_account *hugepin_account_mount(const u64 limit[HUGEPIN_CLASS_COUNT])
{
	struct hugepin_account *account = account_make();

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

void hugepin_account_put(struct hugepin_account *account)
{
	bool last;

	if (!account)
		return;
	spin_lock(&account_lock);
	last = refcount_dec_and_test(&account->refs);
	if (last)
		list_del(&account->link);
	spin_unlock(&account_lock);
	if (last)
		kvfree(account);
}

u64 hugepin_account_held(struct hugepin_account *account, int node, unsigned int class)
{
	return READ_ONCE(account->held[node][class]);
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
	account->held[page->reserve->node][page->reserve->class] += n;
	account->held_class[page->reserve->class] += n;
}

void hugepin_account_charge(struct hugepin_page *page, struct hugepin_account *user, struct hugepin_account *mount)
{
	spin_lock(&account_lock);
	refcount_inc(&user->refs);
	page->user = user;
	add(user, page, 1);
	page->mount = mount;
	if (mount) {
		refcount_inc(&mount->refs);
		add(mount, page, 1);
	}
	spin_unlock(&account_lock);
}

void hugepin_account_uncharge(struct hugepin_page *page)
{
	struct hugepin_account *user = page->user, *mount = page->mount;

	if (!user)
		return;
	spin_lock(&account_lock);
	add(user, page, -1);
	if (mount)
		add(mount, page, -1);
	page->user = NULL;
	page->mount = NULL;
	spin_unlock(&account_lock);
	hugepin_account_put(user);
	hugepin_account_put(mount);
}
