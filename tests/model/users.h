/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's hash tables and ordered trees, as much as kmod/account.c needs to find users. A tree is not balanced
 * here: only what it holds, and in which order, is the same.
 */
#ifndef HUGEPIN_TESTS_MODEL_USERS_H
#define HUGEPIN_TESTS_MODEL_USERS_H

#include <stddef.h>
#include <stdint.h>

/* ---- hash tables ---- */

struct hlist_node { struct hlist_node *next, **pprev; };
struct hlist_head { struct hlist_node *first; };

#define DEFINE_HASHTABLE(name, bits)	struct hlist_head name[1 << (bits)]
#define hash_ptr(p, bits)	((unsigned int)((uintptr_t)(p) >> 4))
#define hash_bucket(table, key)	(&(table)[(key) % ARRAY_SIZE(table)])
#define hash_add(table, node, key)	hlist_add(node, hash_bucket(table, key))
#define hash_entry(node, type, member)	((type *)((char *)(node) - offsetof(type, member)))
#define hash_for_each_possible(table, p, member, key) \
	for (struct hlist_node *at_ = hash_bucket(table, key)->first; \
	     at_ && ((p) = hash_entry(at_, typeof(*(p)), member), true); at_ = at_->next)

static inline void hlist_add(struct hlist_node *node, struct hlist_head *head)
{
	*node = (struct hlist_node){ head->first, &head->first };
	if (node->next)
		node->next->pprev = &node->next;
	head->first = node;
}

static inline void hash_del(struct hlist_node *node)
{
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
}

/* ---- ordered trees ---- */

struct rb_node { struct rb_node *above, *rb_left, *rb_right; };
struct rb_root { struct rb_node *rb_node; };

#define RB_ROOT			((struct rb_root){ NULL })
#define rb_entry(p, type, member)	((type *)((char *)(p) - offsetof(type, member)))
#define rb_insert_color(node, root)	((void)(root))

static inline void rb_link_node(struct rb_node *node, struct rb_node *above, struct rb_node **link)
{
	*node = (struct rb_node){ above, NULL, NULL };
	*link = node;
}

static inline struct rb_node *rb_next(const struct rb_node *node)
{
	struct rb_node *at = node->rb_right;

	while (at && at->rb_left)
		at = at->rb_left;
	if (at)
		return at;
	for (at = node->above; at && node == at->rb_right; at = at->above)
		node = at;
	return at;
}

static inline void rb_put_at(struct rb_node *old, struct rb_node *node, struct rb_root *root)
{
	if (!old->above)
		root->rb_node = node;
	else if (old->above->rb_left == old)
		old->above->rb_left = node;
	else
		old->above->rb_right = node;
	if (node)
		node->above = old->above;
}

/* What was to its left goes below the least of what was to its right. */
static inline void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *left = node->rb_left, *right = node->rb_right, *least = right;

	rb_put_at(node, right ? right : left, root);
	if (!left || !right)
		return;
	while (least->rb_left)
		least = least->rb_left;
	least->rb_left = left;
	left->above = least;
}

#endif /* HUGEPIN_TESTS_MODEL_USERS_H */
