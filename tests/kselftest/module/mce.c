// SPDX-License-Identifier: GPL-2.0
/* A memory error that the hardware did not have: given to those who listen to machine checks. */
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/types.h>
#include <linux/uaccess.h>

#include "driver.h"

#ifdef CONFIG_X86_MCE
#include <asm/mce.h>

/*
 * A DRAM error as AMD's northbridge (bank 4, extended code 8) and as Intel's controllers (code 0x80) report it, so that
 * either kind of processor takes it for one. Without a severity: the kernel leaves the page alone.
 */
static int tell(u64 pfn)
{
	struct mce m = {
		.status = MCI_STATUS_VAL | MCI_STATUS_UC | MCI_STATUS_EN | MCI_STATUS_MISCV | MCI_STATUS_ADDRV |
			  8ULL << 16 | 0x80,
		.addr = pfn << PAGE_SHIFT,
		.misc = MCI_MISC_ADDR_PHYS << 6 | PAGE_SHIFT,
		.bank = 4,
		.cpuvendor = boot_cpu_data.x86_vendor,
	};
#ifdef HAVE_MCE_HW_ERR
	struct mce_hw_err err = { .m = m };

	mce_log(&err);
#else
	mce_log(&m);
#endif
	return 0;
}
#else
static int tell(u64 pfn)
{
	return -EOPNOTSUPP;
}
#endif

long poison(void __user *argument)
{
	struct hugepin_test_poison poison;
	struct page *page;

	if (copy_from_user(&poison, argument, sizeof(poison)))
		return -EFAULT;
	if (poison.size != sizeof(poison) || (poison.flags & ~HUGEPIN_TEST_POISON_FIND))
		return -EINVAL;
	if (!(poison.flags & HUGEPIN_TEST_POISON_FIND))
		return tell(poison.pfn);
	if (get_user_pages_fast(poison.addr & PAGE_MASK, 1, 0, &page) != 1)
		return -EFAULT;
	poison.pfn = page_to_pfn(page);
	put_page(page);
	return copy_to_user(argument, &poison, sizeof(poison)) ? -EFAULT : 0;
}
