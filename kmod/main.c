// SPDX-License-Identifier: GPL-2.0
/* Loading and unloading, module parameters, /dev/hugepin. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/slab.h>

#include "compat.h"
#include "hugepin.h"

bool hugepin_stopping;
unsigned int hugepin_absent[HUGEPIN_CLASS_COUNT];
struct workqueue_struct *hugepin_wq;

static char *reserve = "";
module_param(reserve, charp, 0444);
MODULE_PARM_DESC(reserve, "pages to reserve at load: NODE:1G|2M:COUNT[%], comma between, * for every node");

static bool enable_1g = true;
module_param(enable_1g, bool, 0444);
MODULE_PARM_DESC(enable_1g, "offer 1G pages where the kernel can map and pin them safely (default: on)");

const char *hugepin_absent_reason(unsigned int class)
{
	switch (hugepin_absent[class]) {
	case HUGEPIN_ABSENT_NOT:
		return "present";
	case HUGEPIN_ABSENT_KERNEL:
		return "absent: this kernel cannot map and pin such pages safely";
	case HUGEPIN_ABSENT_PARAM:
		return "absent: switched off by the parameter enable_1g";
	default:
		return "absent: the self-test objected";
	}
}

/* ---- /dev/hugepin ---- */

/*
 * Unnamed regions made here live on a mount that nobody sees. It exists while the device is open; a region keeps it
 * through its own file. Were it there all the time, its superblock would hold the module for good.
 */
static struct vfsmount *hidden_mount;
static int hidden_mount_users;

struct vfsmount *hugepin_hidden_mount(void)
{
	return hidden_mount;
}

int hugepin_hidden_mount_get(void)
{
	return simple_pin_fs(&hugepinfs_type, &hidden_mount, &hidden_mount_users);
}

void hugepin_hidden_mount_put(void)
{
	simple_release_fs(&hidden_mount, &hidden_mount_users);
}

static int device_open(struct inode *inode, struct file *file)
{
	int ret = hugepin_hidden_mount_get();

	return ret ?: nonseekable_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
	hugepin_hidden_mount_put();
	return 0;
}

static const struct file_operations device_fops = {
	.owner		= THIS_MODULE,
	.open		= device_open,
	.release	= device_release,
	.unlocked_ioctl	= hugepin_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

static struct miscdevice device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "hugepin",
	.mode	= 0660,
	.fops	= &device_fops,
	.groups	= hugepin_device_groups,
};

/* ---- load and unload ---- */

static void __init find_classes(void)
{
	if (!HUGEPIN_HAVE_1G || !boot_cpu_has(X86_FEATURE_GBPAGES))
		hugepin_absent[HUGEPIN_CLASS_1G] = HUGEPIN_ABSENT_KERNEL;
	else if (!enable_1g)
		hugepin_absent[HUGEPIN_CLASS_1G] = HUGEPIN_ABSENT_PARAM;
	if (hugepin_absent[HUGEPIN_CLASS_1G])
		pr_info("1G pages %s\n", hugepin_absent_reason(HUGEPIN_CLASS_1G));
}

static int __init reserve_at_load(void)
{
	struct hugepin_spec *specs;
	unsigned int count;
	int ret;

	if (!*reserve)
		return 0;
	specs = kcalloc(HUGEPIN_SPEC_MAX, sizeof(*specs), GFP_KERNEL);
	if (!specs)
		return -ENOMEM;
	ret = hugepin_spec_parse(reserve, specs, &count);
	if (!ret)
		hugepin_spec_apply(specs, count);
	kfree(specs);
	return ret;
}

static int __init hugepin_init(void)
{
	int ret;

	find_classes();
	hugepin_wq = alloc_workqueue("hugepin", WQ_UNBOUND | WQ_SYSFS, 0);
	if (!hugepin_wq)
		return -ENOMEM;
	ret = hugepin_reserve_init();
	if (ret)
		goto out_wq;
	ret = hugepin_cgroup_init();
	if (ret)
		goto out_reserve;
	ret = reserve_at_load();
	if (ret)
		goto out_reserve;
	ret = hugepin_power_init();
	if (ret)
		goto out_reserve;
	ret = misc_register(&device);
	if (ret)
		goto out_power;
	/* the device may be open already, and hugepinfs mounted: from here on loading does not fail */
	if (register_filesystem(&hugepinfs_type))
		pr_err("there is another file system called hugepinfs: regions have no names\n");
	if (hugepin_sysfs_init(&device.this_device->kobj))
		pr_err("no memory for the knobs: the reserve can be set by the parameter only\n");
	hugepin_poison_init();
	return 0;

out_power:
	hugepin_power_exit();
out_reserve:
	hugepin_sysfs_exit();	/* there is no folder yet; withdrawing them may be queued */
	hugepin_reserve_exit();
	hugepin_cgroup_exit();
out_wq:
	destroy_workqueue(hugepin_wq);
	return ret;
}

static void __exit hugepin_exit(void)
{
	WRITE_ONCE(hugepin_stopping, true);
	hugepin_poison_exit();
	hugepin_sysfs_exit();
	misc_deregister(&device);
	unregister_filesystem(&hugepinfs_type);
	hugepin_power_exit();
	hugepin_reserve_exit();
	hugepin_cgroup_exit();
	destroy_workqueue(hugepin_wq);
}

module_init(hugepin_init);
module_exit(hugepin_exit);

MODULE_DESCRIPTION("Huge-page and pinned memory for training hosts");
MODULE_LICENSE("GPL");
