// SPDX-License-Identifier: MIT
/*
 * limits: 4,096 named regions of one page, made one after the other, then opened. Told is what the last tenth costs, as
 * a multiple of the first: medians, so that the machine's own pauses do not count.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "vm.h"

#define REGIONS		4096
#define TENTH		(REGIONS / 10)

static double ms[REGIONS];

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void tell_growth(const char *name)
{
	qsort(ms, TENTH, sizeof(*ms), by_value);
	qsort(ms + REGIONS - TENTH, TENTH, sizeof(*ms), by_value);
	tell("limits", name, 1, "last tenth / first", "hugepin", ms[REGIONS - TENTH / 2] / ms[TENTH / 2]);
}

static int create(const struct machine *m, const char *name)
{
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.bytes = MIB(2),
		.classes = HUGEPIN_CLASSES_2M,
		.name = name,
	};
	struct hugepin_region *region;

	if (hugepin_region_create(m->ctx, &request, &region))
		return complain("region %s: %s", name, hugepin_error());
	hugepin_region_close(region);
	return 0;
}

static int open_one(const struct machine *m, const char *name)
{
	struct hugepin_region *region;

	if (hugepin_region_open(m->ctx, name, &region))
		return complain("opening region %s: %s", name, hugepin_error());
	hugepin_region_close(region);
	return 0;
}

static int unlink_one(const struct machine *m, const char *name)
{
	return hugepin_region_unlink(m->ctx, name) ? complain("unlinking region %s: %s", name, hugepin_error()) : 0;
}

static int each(const struct machine *m, int (*act)(const struct machine *m, const char *name))
{
	char name[32];
	double start;
	int i;

	for (i = 0; i < REGIONS; i++) {
		snprintf(name, sizeof(name), "bench-%d", i);
		start = now_ms();
		if (act(m, name))
			return -1;
		ms[i] = now_ms() - start;
	}
	return 0;
}

int bench_limits(const struct machine *m)
{
	if (reserve_set(m, HUGEPIN_PAGES_1G, 0) || reserve_set(m, HUGEPIN_PAGES_2M, REGIONS * MIB(2)))
		return -1;
	progress("limits: zeroing %d pages", REGIONS);
	if (reserve_settle(m))
		return -1;
	progress("limits: creating, opening and unlinking %d regions", REGIONS);
	run_on(0);
	if (each(m, create))
		return -1;
	tell_growth("4096 regions, create");
	if (each(m, open_one))
		return -1;
	tell_growth("4096 regions, open");
	if (each(m, unlink_one))
		return -1;
	run_on(-1);
	return reserve_set(m, HUGEPIN_PAGES_2M, 0);
}
