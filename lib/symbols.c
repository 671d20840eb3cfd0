// SPDX-License-Identifier: MIT
/*
 * Runtimes are loaded at run time: their library found, and the functions in it, once for the life of the process. It
 * stays loaded: a driver does not take well to being unloaded, and its functions may be under way.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "internal.h"

static void *open_library(const struct hpi_symbols *symbols, int flags)
{
	void *library = NULL;
	size_t i;

	for (i = 0; !library && symbols->libraries[i]; i++)
		library = dlopen(symbols->libraries[i], RTLD_NOW | RTLD_LOCAL | flags);
	return library;
}

bool hpi_symbols_are_loaded(const struct hpi_symbols *symbols)
{
	void *loaded = open_library(symbols, RTLD_NOLOAD);

	if (loaded)
		dlclose(loaded);
	return loaded;
}

/* The release that the program has loaded, if it has one. */
static int load(struct hpi_symbols *symbols)
{
	void *library = open_library(symbols, RTLD_NOLOAD);
	const struct hpi_symbol *symbol;
	const char *reason;

	if (!library)
		library = open_library(symbols, 0);
	if (!library) {
		reason = dlerror();
		return hpi_error(-ENODEV, "no %s: %s", symbols->what, reason ? reason : symbols->libraries[0]);
	}
	for (symbol = symbols->table; symbol->name; symbol++) {
		*symbol->function = dlsym(library, symbol->name);
		if (!*symbol->function && !symbol->later)
			return hpi_error(-EIO, "%s: it has no %s, and is older than %s", symbols->what, symbol->name,
					 symbols->oldest);
	}
	return 0;
}

int hpi_symbols_load(struct hpi_symbols *symbols)
{
	int err;

	pthread_mutex_lock(&symbols->lock);
	if (!symbols->tried) {
		symbols->err = load(symbols);
		if (symbols->err)
			snprintf(symbols->text, sizeof(symbols->text), "%s", hugepin_error());
		symbols->tried = true;
	}
	err = symbols->err;
	pthread_mutex_unlock(&symbols->lock);
	return err ? hpi_error(err, "%s", symbols->text) : 0;
}
