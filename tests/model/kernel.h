/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of the kernel as kmod/reserve.c and kmod/account.c need in user space, on one thread: locks are counted, so
 * that a lock that is missing, taken twice or kept is found, and work is not queued. fuzz/kernel.h has the rest.
 */
#ifndef HUGEPIN_TESTS_MODEL_KERNEL_H
#define HUGEPIN_TESTS_MODEL_KERNEL_H

#include <stddef.h>

#include "../fuzz/kernel.h"

void model_fail(const char *file, int line, const char *what) __attribute__((noreturn));

#define MUST(condition)		((condition) ? (void)0 : model_fail(__FILE__, __LINE__, #condition))

/* ---- words ---- */

#define READ_ONCE(x)		(x)
#define WRITE_ONCE(x, value)	((x) = (value))
#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define min_not_zero(a, b)	((a) && (!(b) || (a) < (b)) ? (a) : (b))
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define struct_size(p, member, n)	(sizeof(*(p)) + sizeof((p)->member[0]) * (n))
#define WARN_ON(condition)	MUST(!(condition))
#define __must_hold(lock)
#define __force
#define array_index_nospec(i, n)	(i)
#define cond_resched()		((void)0)
#define HZ			100
#define time_after(a, b)	((long)((b) - (a)) < 0)
extern unsigned long jiffies;

/* ---- memory ---- */

#define GFP_KERNEL_ACCOUNT	0
#define kzalloc(bytes, flags)	calloc(1, bytes)
#define kvzalloc(bytes, flags)	calloc(1, bytes)
#define kzalloc_node(bytes, flags, node)	calloc(1, bytes)
#define kvfree(p)		free(p)

/* ---- lists ---- */

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)
#define list_entry(p, type, member)	((type *)((char *)(p) - offsetof(type, member)))
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_entry((head)->next, type, member))
#define list_for_each_entry(p, head, member) \
	for ((p) = list_entry((head)->next, typeof(*(p)), member); &(p)->member != (head); \
	     (p) = list_entry((p)->member.next, typeof(*(p)), member))
#define list_for_each_entry_safe(p, n, head, member) \
	for ((p) = list_entry((head)->next, typeof(*(p)), member), \
	     (n) = list_entry((p)->member.next, typeof(*(p)), member); &(p)->member != (head); \
	     (p) = (n), (n) = list_entry((n)->member.next, typeof(*(n)), member))

static inline void INIT_LIST_HEAD(struct list_head *list) { list->next = list->prev = list; }
static inline bool list_empty(const struct list_head *list) { return list->next == list; }
#define list_empty_careful list_empty

static inline void list_del_init(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	INIT_LIST_HEAD(entry);
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	*entry = (struct list_head){ head->next, head };
	head->next->prev = entry;
	head->next = entry;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head) { list_add(entry, head->prev); }

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	list_del_init(entry);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del_init(entry);
	list_add_tail(entry, head);
}

#include "users.h"

/* ---- locks ---- */

#define DEFINE_SPINLOCK(name)	spinlock_t name
#define DEFINE_MUTEX(name)	struct mutex name
#define spin_lock_init(l)	((l)->lock = 0)
#define spin_lock(l)		MUST(!(l)->lock++)
#define spin_unlock(l)		MUST(!--(l)->lock)
#define mutex_lock(m)		MUST(!(m)->mutex++)
#define mutex_unlock(m)		MUST(!--(m)->mutex)
#define mutex_lock_killable(m)	(mutex_lock(m), 0)
/* Of both kinds: each has one int. */
#define lockdep_assert_held(l)	MUST(*(const int *)(l) == 1)

/* ---- work that is not queued, and waits that would be for ever ---- */

struct delayed_work { int work; };
#define DECLARE_DELAYED_WORK(name, f)	\
	struct delayed_work name; \
	static __attribute__((unused)) void (*const name##_f)(struct work_struct *) = f
#define queue_delayed_work(wq, work, delay)	((void)(work))
#define cancel_delayed_work_sync(work)		((void)(work))
#define init_waitqueue_head(w)	((w)->wait = 0)
#define wake_up_all(w)		((void)(w))
#define wait_event(w, condition)	MUST(condition)

/* ---- nodes, users ---- */

#define N_MEMORY		0
#define nr_node_ids		2
#define for_each_node_state(id, state)	for ((id) = 0; (id) < 1; (id)++)
#define node_set(id, mask)	((mask).bits |= 1ul << (id))
#define nodes_clear(mask)	((mask).bits = 0)
#define first_node(mask)	((mask).bits & 1 ? 0 : MAX_NUMNODES)
#define next_node(id, mask)	MAX_NUMNODES

struct user_namespace {
	struct user_namespace *parent;
	kuid_t owner;
};
extern struct user_namespace init_user_ns;
extern struct user_namespace *model_user_ns;
extern kuid_t model_euid;
#define INVALID_UID		((kuid_t){ ~0u })
#define current_user_ns()	model_user_ns
#define current_euid()		model_euid
#define from_kuid_munged(ns, uid)	((uid).val)
#define __kuid_val(uid)	((uid).val)
static inline bool uid_eq(kuid_t a, kuid_t b) { return a.val == b.val; }

/* ---- pages ---- */

struct page {
	int count;
	int bytes;		/* whose they are, as the model says it */
};
static inline int page_ref_count(const struct page *page) { return page->count; }

/* ---- tracepoints ---- */

#define TP_PROTO(...)	__VA_ARGS__
#define TRACE_EVENT(name, proto, ...)	\
	static inline __attribute__((unused)) void trace_##name(proto) { }
#define DECLARE_EVENT_CLASS(name, proto, ...)
#define DEFINE_EVENT(class, name, proto, ...)	TRACE_EVENT(name, proto)
#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif /* HUGEPIN_TESTS_MODEL_KERNEL_H */
