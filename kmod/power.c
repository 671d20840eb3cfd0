// SPDX-License-Identifier: GPL-2.0
/*
 * Hibernation writes every page to the image, ours too: terabytes that devices may be writing to meanwhile. It is
 * refused while pages are in use. Suspending leaves memory as it is and is nothing to us.
 */
#include <linux/notifier.h>
#include <linux/suspend.h>

#include "hugepin.h"

static u64 busy_bytes(void)
{
	struct hugepin_info_pages s;
	struct hugepin_node *node;
	u64 bytes = 0;
	int id, class;

	hugepin_quarantine_check();
	for_each_hugepin_node(node, id) {
		for (class = 0; class < HUGEPIN_CLASS_COUNT; class++) {
			hugepin_reserve_snapshot(&node->reserve[class], &s);
			bytes += (s.in_use + s.quarantined) * hugepin_class_bytes(class);
		}
	}
	return bytes;
}

static int power_event(struct notifier_block *nb, unsigned long event, void *data)
{
	u64 bytes;

	if (event != PM_HIBERNATION_PREPARE)
		return NOTIFY_DONE;
	bytes = busy_bytes();
	if (!bytes)
		return NOTIFY_DONE;
	pr_err("no hibernation: %llu MiB of pages are in use or held by devices\n", bytes >> 20);
	return notifier_from_errno(-EBUSY);
}

static struct notifier_block power_nb = {
	.notifier_call = power_event,
};

/* Where the kernel has no such thing these do nothing. */
int hugepin_power_init(void)
{
	return register_pm_notifier(&power_nb);
}

void hugepin_power_exit(void)
{
	unregister_pm_notifier(&power_nb);
}
