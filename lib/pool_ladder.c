// SPDX-License-Identifier: MIT
/*
 * Down a pool's ladder, and what is said of it: a fallback once, a failure with every rung's reason.
 */
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define REASONS_SIZE	768

static bool goes_on(int err)
{
	return err == -ENOMEM || err == -EDQUOT || err == -ENODEV || err == -EOPNOTSUPP;
}

/* Of two rungs' failures the one that says more: over a limit beats short beats not here. */
static int worse(int a, int b)
{
	static const int order[] = { -EDQUOT, -ENOMEM, -EOPNOTSUPP, -ENODEV };
	size_t i;

	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (a == order[i] || b == order[i])
			return order[i];
	}
	return a;
}

/* Said once for each pool, rung and cause. Ascend's dialect calls leaving 1G pages an error, though one it survives. */
static void tell_fallback(struct hugepin_pool *pool, size_t rung, int cause, const char *reasons)
{
	unsigned int bit = 1u << (-cause % 32);		/* distinct for the errors that go on */
	const struct hpi_rung *first = &pool->ladder.rungs[0], *used = &pool->ladder.rungs[rung];
	bool left_1g = first->classes & HUGEPIN_CLASSES_1G && !(used->classes & HUGEPIN_CLASSES_1G);

	if (!cause || pool->warned[rung] & bit)
		return;
	pool->warned[rung] |= bit;
	hpi_log(pool->ascend && left_1g ? HUGEPIN_LOG_ERROR : HUGEPIN_LOG_WARNING,
		"%s pool: fell back to rung %zu of its ladder, %s with pages of %llu bytes: %s", hpi_pool_name(pool),
		rung + 1, used->provider->name, (unsigned long long)hpi_ladder_granule(used), reasons);
}

/* Adds hugepin_error() to what earlier rungs said; what stands against several, such as a cap, is said once. */
static void add_reason(char reasons[REASONS_SIZE])
{
	size_t used = strlen(reasons);

	if (used && strstr(reasons, hugepin_error()))
		return;
	snprintf(reasons + used, REASONS_SIZE - used, "%s%s", used ? "; " : "", hugepin_error());
}

int hpi_pool_descend(struct hugepin_pool *pool, int (*attempt)(struct hugepin_pool *pool, size_t rung, void *arg),
		     void *arg)
{
	int err, cause = 0, result = -ENODEV;
	char reasons[REASONS_SIZE] = "";
	size_t rung;

	for (rung = 0; rung < pool->ladder.count; rung++) {
		err = attempt(pool, rung, arg);
		if (!err) {
			tell_fallback(pool, rung, cause, reasons);
			hpi_error_clear();
			return 0;
		}
		if (err == HPI_RUNG_SKIPPED)
			continue;
		add_reason(reasons);
		if (!goes_on(err))
			return hpi_error(err, "%s", reasons);
		result = worse(result, err);
		cause = err;
	}
	return hpi_error(result, "%s", reasons);
}

int hpi_pool_refuse(struct hugepin_pool *pool, int err, const char *what, uint64_t bytes)
{
	char reasons[REASONS_SIZE];

	snprintf(reasons, sizeof(reasons), "%s", hugepin_error());
	hpi_error(err, "%s pool: %s of %llu bytes: %s", hpi_pool_name(pool), what, (unsigned long long)bytes, reasons);
	if (pool->ascend)
		hpi_log(HUGEPIN_LOG_ERROR, "%s", hugepin_error());
	return err;
}
