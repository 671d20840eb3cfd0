// SPDX-License-Identifier: GPL-2.0
/* The knobs under /sys/class/misc/hugepin; each is described in Documentation/ABI/. One value a file. */
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "hugepin.h"

static struct kobject *scrub_kobj;
static DEFINE_MUTEX(tree_mutex);	/* of folders being made and removed; see hugepin.h for the order of locks */

static struct hugepin_reserve *to_reserve(struct kobject *kobj)
{
	struct hugepin_node *node;
	int id, class;

	for_each_hugepin_node(node, id)
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
			if (node->reserve[class].kobj == kobj)
				return &node->reserve[class];
	return NULL;
}

/* Decimal digits, one newline at the end allowed: no sign, no space, no base prefix. */
static int parse_knob(const char *buf, u64 max, u64 *out)
{
	int ret = hugepin_parse_digits(&buf, 10, max, out);

	if (ret)
		return ret;
	if (*buf == '\n')
		buf++;
	return *buf ? -EINVAL : 0;
}

/* ---- nodeN/hugepages-<kB>kB/ ---- */

/* What a write of it is about: a faulty page is of no use to anybody, and is made up for by the next write. */
static ssize_t nr_hugepages_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", hugepin_reserve_usable(to_reserve(kobj)));
}

static ssize_t nr_hugepages_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count)
{
	u64 pages;
	int ret;

	ret = parse_knob(buf, U64_MAX, &pages);
	if (!ret)
		ret = hugepin_reserve_resize(to_reserve(kobj), pages);
	return ret ?: count;
}

static struct kobj_attribute nr_hugepages_attr = __ATTR_RW(nr_hugepages);

static ssize_t user_limit_percent_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_reserve(kobj)->user_limit_percent));
}

static ssize_t user_limit_percent_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
					size_t count)
{
	u64 percent;
	int ret;

	ret = parse_knob(buf, 100, &percent);
	if (ret)
		return ret;
	WRITE_ONCE(to_reserve(kobj)->user_limit_percent, percent);
	return count;
}

static struct kobj_attribute user_limit_percent_attr = __ATTR_RW(user_limit_percent);

#define SNAPSHOT_ATTR(name, expression)									\
static ssize_t name##_hugepages_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)	\
{													\
	struct hugepin_info_pages s;									\
													\
	hugepin_reserve_snapshot(to_reserve(kobj), &s);							\
	return sysfs_emit(buf, "%llu\n", expression);							\
}													\
static struct kobj_attribute name##_hugepages_attr = __ATTR_RO(name##_hugepages)

static ssize_t shortfall_reason_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", hugepin_shortfall_text(READ_ONCE(to_reserve(kobj)->shortfall)));
}

static struct kobj_attribute shortfall_reason_attr = __ATTR_RO(shortfall_reason);

SNAPSHOT_ATTR(asked, s.asked);
SNAPSHOT_ATTR(free, s.clean + s.dirty);
SNAPSHOT_ATTR(clean, s.clean);
SNAPSHOT_ATTR(dirty, s.dirty);
SNAPSHOT_ATTR(inuse, s.in_use);
SNAPSHOT_ATTR(quarantined, s.quarantined);
SNAPSHOT_ATTR(poisoned, s.poisoned);

static struct attribute *reserve_attrs[] = {
	&nr_hugepages_attr.attr,
	&user_limit_percent_attr.attr,
	&asked_hugepages_attr.attr,
	&shortfall_reason_attr.attr,
	&free_hugepages_attr.attr,
	&clean_hugepages_attr.attr,
	&dirty_hugepages_attr.attr,
	&inuse_hugepages_attr.attr,
	&quarantined_hugepages_attr.attr,
	&poisoned_hugepages_attr.attr,
	NULL
};

static const struct attribute_group reserve_group = {
	.attrs = reserve_attrs,
};

/* ---- scrub/ ---- */

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(hugepin_scrub_enabled));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count)
{
	struct hugepin_node *node;
	u64 on;
	int id, ret;

	ret = parse_knob(buf, 1, &on);
	if (ret)
		return ret;
	WRITE_ONCE(hugepin_scrub_enabled, on);
	for_each_hugepin_node(node, id) {
		if (on)
			hugepin_scrub_kick(node);
		else
			hugepin_scrub_wake(node);
	}
	return count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

static ssize_t throttle_mib_s_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(hugepin_scrub_throttle_mib_s));
}

static ssize_t throttle_mib_s_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count)
{
	u64 rate;
	int ret;

	ret = parse_knob(buf, UINT_MAX, &rate);
	if (ret)
		return ret;
	WRITE_ONCE(hugepin_scrub_throttle_mib_s, rate);
	return count;
}

static struct kobj_attribute throttle_mib_s_attr = __ATTR_RW(throttle_mib_s);

static ssize_t workers_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(hugepin_scrub_workers));
}

static ssize_t workers_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count)
{
	struct hugepin_node *node;
	u64 workers;
	int id, ret;

	ret = parse_knob(buf, HUGEPIN_SCRUBBERS, &workers);
	if (ret)
		return ret;
	if (!workers)
		return -EINVAL;
	WRITE_ONCE(hugepin_scrub_workers, workers);
	for_each_hugepin_node(node, id)
		hugepin_scrub_kick(node);
	return count;
}

static struct kobj_attribute workers_attr = __ATTR_RW(workers);

#define FIGURE_ATTR(name, expression)									\
static ssize_t name##_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)		\
{													\
	const struct hugepin_figures *f = &hugepin_figures;						\
													\
	return sysfs_emit(buf, "%llu\n", (u64)(expression));						\
}													\
static struct kobj_attribute name##_attr = __ATTR_RO(name)

static u64 rate_mib_s(const struct hugepin_figures *f)
{
	u64 ms = div_u64(atomic64_read(&f->scrub_ns), NSEC_PER_MSEC);

	return ms ? div64_u64((atomic64_read(&f->scrub_bytes) >> 20) * MSEC_PER_SEC, ms) : 0;
}

FIGURE_ATTR(done_mib, atomic64_read(&f->scrub_bytes) >> 20);
FIGURE_ATTR(busy_ms, div_u64(atomic64_read(&f->scrub_ns), NSEC_PER_MSEC));
FIGURE_ATTR(rate_mib_s, rate_mib_s(f));
FIGURE_ATTR(creations, atomic64_read(&f->creations));
FIGURE_ATTR(creations_waited, atomic64_read(&f->creations_waited));
FIGURE_ATTR(creations_zeroed, atomic64_read(&f->creations_zeroed));

static struct attribute *scrub_attrs[] = {
	&enabled_attr.attr,
	&throttle_mib_s_attr.attr,
	&workers_attr.attr,
	&done_mib_attr.attr,
	&busy_ms_attr.attr,
	&rate_mib_s_attr.attr,
	&creations_attr.attr,
	&creations_waited_attr.attr,
	&creations_zeroed_attr.attr,
	NULL
};

static const struct attribute_group scrub_group = {
	.attrs = scrub_attrs,
};

/* ---- the device itself ---- */

static ssize_t uapi_version_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", HUGEPIN_UAPI_VERSION);
}

static DEVICE_ATTR_RO(uapi_version);

static ssize_t class_1g_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", hugepin_absent_reason(HUGEPIN_CLASS_1G));
}

static DEVICE_ATTR_RO(class_1g);

static ssize_t regions_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", hugepin_region_count());
}

static DEVICE_ATTR_RO(regions);

static struct attribute *device_attrs[] = {
	&dev_attr_uapi_version.attr,
	&dev_attr_class_1g.attr,
	&dev_attr_regions.attr,
	NULL
};

static const struct attribute_group device_group = {
	.attrs = device_attrs,
};

const struct attribute_group *hugepin_device_groups[] = { &device_group, NULL };

/* ---- making and ending the tree ---- */

static int add_class(struct hugepin_node *node, int class)
{
	struct kobject **kobj = &node->reserve[class].kobj;
	char name[32];

	snprintf(name, sizeof(name), "hugepages-%llukB", hugepin_class_bytes(class) >> 10);
	*kobj = kobject_create_and_add(name, node->kobj);
	return *kobj ? sysfs_create_group(*kobj, &reserve_group) : -ENOMEM;
}

static int add_node(struct hugepin_node *node, struct kobject *device)
{
	char name[16];
	int class, ret;

	snprintf(name, sizeof(name), "node%d", node->id);
	node->kobj = kobject_create_and_add(name, device);
	if (!node->kobj)
		return -ENOMEM;
	for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
		if (hugepin_absent[class])
			continue;
		ret = add_class(node, class);
		if (ret)
			return ret;
	}
	return 0;
}

/* Waits for reads and writes that are under way. */
static void remove(struct kobject **kobj)
{
	if (!*kobj)
		return;
	kobject_del(*kobj);
	kobject_put(*kobj);
	*kobj = NULL;
}

static int add_all(struct kobject *device)
{
	struct hugepin_node *node;
	int id, ret;

	lockdep_assert_held(&tree_mutex);
	scrub_kobj = kobject_create_and_add("scrub", device);
	if (!scrub_kobj)
		return -ENOMEM;
	ret = sysfs_create_group(scrub_kobj, &scrub_group);
	if (ret)
		return ret;
	for_each_hugepin_node(node, id) {
		ret = add_node(node, device);
		if (ret)
			return ret;
	}
	return 0;
}

static void remove_all(void)
{
	struct hugepin_node *node;
	int id, class;

	lockdep_assert_held(&tree_mutex);
	for_each_hugepin_node(node, id) {
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++)
			remove(&node->reserve[class].kobj);
		remove(&node->kobj);
	}
	remove(&scrub_kobj);
}

int hugepin_sysfs_init(struct kobject *device)
{
	int ret;

	mutex_lock(&tree_mutex);
	ret = add_all(device);
	if (ret)
		remove_all();
	mutex_unlock(&tree_mutex);
	return ret;
}

/*
 * The self-test has taken the class away: so go its folders. It was a write to a file in one of them that found out, so
 * they go when that has returned.
 */
static void withdraw_work(struct work_struct *work)
{
	struct hugepin_node *node;
	int id;

	mutex_lock(&tree_mutex);
	for_each_hugepin_node(node, id)
		remove(&node->reserve[HUGEPIN_CLASS_1G].kobj);
	mutex_unlock(&tree_mutex);
}

static DECLARE_WORK(withdraw, withdraw_work);

void hugepin_sysfs_withdraw(void)
{
	queue_work(hugepin_wq, &withdraw);
}

/* hugepin_stopping makes long writes end. The last of them may have queued the withdrawal of what is gone by then. */
void hugepin_sysfs_exit(void)
{
	mutex_lock(&tree_mutex);
	remove_all();
	mutex_unlock(&tree_mutex);
	cancel_work_sync(&withdraw);
}
