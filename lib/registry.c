// SPDX-License-Identifier: MIT
/*
 * The registry of what is registered with the runtime, so that double and overlapping requests are answered without it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "registry.h"

struct hpi_registry {
	pthread_mutex_t lock;
	size_t count, room;
	struct hpi_range **ranges;		/* by address; they never overlap */
};

int hpi_registry_create(struct hpi_registry **out)
{
	struct hpi_registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return hpi_error(-ENOMEM, "no memory for a registry of %zu bytes", sizeof(*registry));
	pthread_mutex_init(&registry->lock, NULL);
	*out = registry;
	return 0;
}

static void range_free(struct hpi_range *range)
{
	free(range->chunks);
	free(range);
}

void hpi_registry_destroy(struct hpi_registry *registry)
{
	size_t i;

	for (i = 0; i < registry->count; i++)
		range_free(registry->ranges[i]);
	free(registry->ranges);
	pthread_mutex_destroy(&registry->lock);
	free(registry);
}

/* Position of the first range that ends behind @addr. Lock held. */
static size_t lower_bound(const struct hpi_registry *registry, const char *addr)
{
	size_t low = 0, high = registry->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (registry->ranges[middle]->addr + registry->ranges[middle]->bytes <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Lock held. */
static struct hpi_range *range_at(const struct hpi_registry *registry, const char *addr)
{
	size_t at = lower_bound(registry, addr);

	return at < registry->count && registry->ranges[at]->addr <= addr ? registry->ranges[at] : NULL;
}

static int insert(struct hpi_registry *registry, struct hpi_range *range)
{
	size_t at = lower_bound(registry, range->addr), room = registry->room ? registry->room * 2 : 16;
	struct hpi_range **ranges, *next = at < registry->count ? registry->ranges[at] : NULL;

	if (next && next->addr < range->addr + range->bytes)
		return hpi_error(-EEXIST, "registering %llu bytes at %p: overlaps %llu bytes registered at %p",
				 (unsigned long long)range->bytes, (void *)range->addr, (unsigned long long)next->bytes,
				 (void *)next->addr);
	if (registry->count == registry->room) {
		ranges = realloc(registry->ranges, room * sizeof(struct hpi_range *));
		if (!ranges)
			return hpi_error(-ENOMEM, "registering: no memory for a registry of %zu ranges", room);
		registry->ranges = ranges;
		registry->room = room;
	}
	memmove(&registry->ranges[at + 1], &registry->ranges[at], (registry->count - at) * sizeof(struct hpi_range *));
	registry->ranges[at] = range;
	registry->count++;
	return 0;
}

int hpi_registry_book(struct hpi_registry *registry, char *addr, uint64_t bytes, struct hpi_range **out)
{
	struct hpi_range *range = calloc(1, sizeof(*range));
	int err;

	if (!range)
		return hpi_error(-ENOMEM, "registering: no memory for %zu bytes", sizeof(*range));
	*range = (struct hpi_range){ .addr = addr, .bytes = bytes, .state = HPI_RANGE_BUSY };
	pthread_mutex_lock(&registry->lock);
	err = insert(registry, range);
	pthread_mutex_unlock(&registry->lock);
	if (err)
		free(range);
	else
		*out = range;
	return err;
}

void hpi_registry_unbook(struct hpi_registry *registry, struct hpi_range *range)
{
	size_t at;

	pthread_mutex_lock(&registry->lock);
	at = lower_bound(registry, range->addr);
	registry->count--;
	memmove(&registry->ranges[at], &registry->ranges[at + 1], (registry->count - at) * sizeof(struct hpi_range *));
	pthread_mutex_unlock(&registry->lock);
	range_free(range);
}

void hpi_registry_set_state(struct hpi_registry *registry, struct hpi_range *range, enum hpi_range_state state)
{
	pthread_mutex_lock(&registry->lock);
	range->state = state;
	pthread_mutex_unlock(&registry->lock);
}

bool hpi_registry_has(struct hpi_registry *registry, const void *addr, uint64_t bytes)
{
	const char *at = addr, *end = at + bytes;
	const struct hpi_range *range = NULL;

	pthread_mutex_lock(&registry->lock);
	do {
		range = range_at(registry, at);
		if (range && range->state != HPI_RANGE_LIVE)
			range = NULL;
		if (range)
			at = range->addr + range->bytes;
	} while (range && at < end);
	pthread_mutex_unlock(&registry->lock);
	return range;
}

int hpi_registry_claim(struct hpi_registry *registry, void *addr, uint64_t bytes, struct hpi_range **out,
		       enum hpi_range_state *before)
{
	struct hpi_range *range;
	int err = 0;

	pthread_mutex_lock(&registry->lock);
	range = range_at(registry, addr);
	if (!range || range->addr != addr || range->bytes != bytes) {
		err = hpi_error(-ENOENT, "unregistering %llu bytes at %p: no such range is registered",
				(unsigned long long)bytes, addr);
	} else if (range->state == HPI_RANGE_BUSY) {
		err = hpi_error(-EBUSY, "unregistering %llu bytes at %p: another thread is at it",
				(unsigned long long)bytes, addr);
	} else {
		*before = range->state;
		range->state = HPI_RANGE_BUSY;
		*out = range;
	}
	pthread_mutex_unlock(&registry->lock);
	return err;
}
