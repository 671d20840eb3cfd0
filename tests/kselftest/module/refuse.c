// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the kernel refuse a way of pinning, as an update of it may: refuse_pins=1 the quick one, 2 the slow one, 0
 * none. Only calls with FOLL_NOFAULT, which hugepin's self-test makes and hardly anybody else. The parameter is there
 * where the kernel has kprobes.
 */
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>

#include "driver.h"

#ifdef CONFIG_KPROBES

#define REFUSE_MAX	2

static const char * const ways[REFUSE_MAX + 1] = { NULL, "pin_user_pages_fast", "pin_user_pages" };
static unsigned int refused;
static DEFINE_MUTEX(refuse_lock);
static struct kprobe probe;

/* Stands in for the function probed: the stack is as at its entry. */
static long refuse(void)
{
	return -EFAULT;
}

static int at_entry(struct kprobe *p, struct pt_regs *regs)
{
	if (!(regs_get_kernel_argument(regs, 2) & FOLL_NOFAULT))
		return 0;
	instruction_pointer_set(regs, (unsigned long)refuse);
	return 1;
}

void refuse_nothing(void)
{
	mutex_lock(&refuse_lock);
	if (refused)
		unregister_kprobe(&probe);
	refused = 0;
	mutex_unlock(&refuse_lock);
}

static int refuse_set(const char *text, const struct kernel_param *param)
{
	unsigned int way;
	int ret = kstrtouint(text, 10, &way);

	if (ret)
		return ret;
	if (way > REFUSE_MAX)
		return -EINVAL;
	refuse_nothing();
	if (!way)
		return 0;
	mutex_lock(&refuse_lock);
	probe = (struct kprobe){ .symbol_name = ways[way], .pre_handler = at_entry };
	ret = register_kprobe(&probe);
	if (!ret)
		refused = way;
	mutex_unlock(&refuse_lock);
	return ret;
}

static const struct kernel_param_ops refuse_ops = {
	.set = refuse_set,
	.get = param_get_uint,
};
module_param_cb(refuse_pins, &refuse_ops, &refused, 0644);
MODULE_PARM_DESC(refuse_pins, "refuse a way of pinning: 1 the quick one, 2 the slow one, 0 none");

#else

void refuse_nothing(void)
{
}

#endif
