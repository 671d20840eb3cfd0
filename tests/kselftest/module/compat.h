/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place of this module that knows that kernels differ. Kbuild looks into the kernel's headers and defines
 * HAVE_*; nothing here asks for a version.
 */
#ifndef HUGEPIN_TEST_COMPAT_H
#define HUGEPIN_TEST_COMPAT_H

#include <linux/mm.h>
#include <linux/module.h>

/* Both take the mmap lock as held for reading. */
static inline long compat_pin_user_pages(unsigned long start, unsigned long nr_pages, unsigned int gup_flags,
					 struct page **pages)
{
#ifdef HAVE_GUP_VMAS
	return pin_user_pages(start, nr_pages, gup_flags, pages, NULL);
#else
	return pin_user_pages(start, nr_pages, gup_flags, pages);
#endif
}

static inline long compat_get_user_pages(unsigned long start, unsigned long nr_pages, unsigned int gup_flags,
					 struct page **pages)
{
#ifdef HAVE_GUP_VMAS
	return get_user_pages(start, nr_pages, gup_flags, pages, NULL);
#else
	return get_user_pages(start, nr_pages, gup_flags, pages);
#endif
}

#ifdef HAVE_IMPORT_NS_STRING
#define COMPAT_IMPORT_NS(name)	MODULE_IMPORT_NS(#name)
#else
#define COMPAT_IMPORT_NS(name)	MODULE_IMPORT_NS(name)
#endif

#endif /* HUGEPIN_TEST_COMPAT_H */
