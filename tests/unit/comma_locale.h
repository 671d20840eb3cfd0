/* SPDX-License-Identifier: MIT */
/*
 * A process locale whose decimal point is a comma. Where the system has none, one is compiled from its sources into a
 * temporary directory; where it has no sources either, there is nothing to test with.
 */
#ifndef HUGEPIN_TESTS_COMMA_LOCALE_H
#define HUGEPIN_TESTS_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>

#include "tree.h"

static inline bool comma_locale_is_set(void)
{
	return setlocale(LC_ALL, "de_DE.UTF-8") && !strcmp(localeconv()->decimal_point, ",");
}

/* Skips the test unless the locale is in force afterwards. */
static inline void comma_locale_enter(struct tree *tree)
{
	char command[256];

	tree_make(tree);
	if (comma_locale_is_set())
		return;
	snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", tree->root);
	if (system(command) == 0) {
		setenv("LOCPATH", tree->root, 1);
		if (comma_locale_is_set())
			return;
	}
	tree_remove(tree, "");
	skip();
}

static inline void comma_locale_leave(struct tree *tree)
{
	setlocale(LC_ALL, "C");
	unsetenv("LOCPATH");
	tree_remove(tree, "");
}

#endif /* HUGEPIN_TESTS_COMMA_LOCALE_H */
