// SPDX-License-Identifier: MIT
/*
 * Runtimes: which accelerator's host-memory interface a context uses. Loaded at run time, none is needed to build.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

/* In the order in which "auto" looks for them; "none" is always there. */
static const struct hpi_runtime *const runtimes[] = {
	&hpi_runtime_cuda,
	&hpi_runtime_ascend,
	&hpi_runtime_hip,
	&hpi_runtime_none,
};

#define RUNTIMES	(sizeof(runtimes) / sizeof(runtimes[0]))

static const struct hpi_runtime *find_present(void)
{
	size_t i;
	int err;

	for (i = 0; i < RUNTIMES; i++) {
		if (!runtimes[i]->present())
			continue;
		err = runtimes[i]->load();
		if (!err)
			return runtimes[i];
		hpi_log(HUGEPIN_LOG_WARNING, "runtime %s is on this machine and cannot be used: %s", runtimes[i]->name,
			hugepin_error());
		hpi_error_clear();
	}
	return &hpi_runtime_none;
}

int hpi_runtime_find(const char *name, const struct hpi_runtime **out)
{
	size_t i;
	int err;

	if (!strcmp(name, "auto")) {
		*out = find_present();
		return 0;
	}
	for (i = 0; i < RUNTIMES; i++) {
		if (strcmp(name, runtimes[i]->name) != 0)
			continue;
		err = runtimes[i]->load();
		if (!err)
			*out = runtimes[i];
		return err;
	}
	return hpi_error(-EINVAL, "there is no runtime \"%.300s\"", name);
}
