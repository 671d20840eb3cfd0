// SPDX-License-Identifier: MIT
/* Loads hostalloc.c as a plugin, whose runtime is in nobody else's scope: so Python loads its extensions. */
#include <dlfcn.h>

#include "expect.h"

int main(void)
{
	void *plugin = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL);
	int (*run)(void);

	EXPECT(plugin);
	*(void **)&run = dlsym(plugin, "plugin_main");
	EXPECT(run);
	return run();
}
