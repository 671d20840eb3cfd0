// SPDX-License-Identifier: MIT
/*
 * Variables: named regions, kept by the module for the job that comes after this one. They count against their
 * pool's cap and in its numbers; the arena has no part in them.
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>

#define RACES_MAX	16		/* others make and remove the name as often as that, between our two calls */

struct hugepin_variable {
	struct hugepin_pool *pool;
	struct hugepin_region *region;
	uint64_t requested;
	void *addr;
};

struct wish {
	const char *name;
	uint64_t bytes;
	struct hugepin_region *region;
};

/* What a region made for @bytes on this rung has: only 1G pages allowed, it is rounded up to them. */
static uint64_t region_bytes(const struct hpi_rung *rung, uint64_t bytes)
{
	return hpi_round_up(bytes, hpi_ladder_granule(rung));
}

static bool is_kmod(const struct hpi_rung *rung)
{
	return rung->provider->id == HUGEPIN_PROVIDER_KMOD;
}

static int create_on(struct hugepin_pool *pool, size_t rung, void *arg)
{
	const struct hpi_rung *r = &pool->ladder.rungs[rung];
	struct wish *wish = arg;
	char list[8 * HPI_NODES_MAX];
	struct hpi_nodes nodes;
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.bytes = wish->bytes,
		.classes = r->classes,
		.policy = pool->policy.policy,
		.nodes = list,
		.name = wish->name,
	};
	int err;

	if (!is_kmod(r))
		return HPI_RUNG_SKIPPED;
	err = hpi_caps_charge(pool, region_bytes(r, wish->bytes));
	if (err)
		return err;
	hpi_policy_nodes(&pool->policy, &pool->ctx->topology, &nodes);
	hpi_nodes_format(&nodes, list, sizeof(list));
	err = hugepin_region_create(pool->ctx, &request, &wish->region);
	if (err)
		hpi_caps_uncharge(pool, region_bytes(r, wish->bytes));
	return err;
}

static bool has_kmod(const struct hugepin_pool *pool)
{
	size_t i;

	for (i = 0; i < pool->ladder.count; i++) {
		if (is_kmod(&pool->ladder.rungs[i]))
			return true;
	}
	return false;
}

/* -EEXIST: the name is taken meanwhile */
static int create(struct hugepin_pool *pool, struct wish *wish)
{
	int err;

	if (!has_kmod(pool))
		return hpi_error(-ENODEV, "variable \"%s\": named variables need the hugepin module, and no rung of "
				 "the pool's ladder is kmod", wish->name);
	err = hpi_pool_descend(pool, create_on, wish);
	return err && err != -EEXIST ? hpi_pool_refuse(pool, err, "a variable", wish->bytes) : err;
}

/* Of the size that a region of @bytes would have on some rung of this pool's ladder. */
static bool size_matches(const struct hugepin_pool *pool, uint64_t bytes, uint64_t existing)
{
	size_t i;

	if (existing == hpi_round_up(bytes, HPI_2M))
		return true;
	for (i = 0; i < pool->ladder.count; i++) {
		if (is_kmod(&pool->ladder.rungs[i]) && existing == region_bytes(&pool->ladder.rungs[i], bytes))
			return true;
	}
	return false;
}

/* -ENOENT: there is none. */
static int open_existing(struct hugepin_pool *pool, struct wish *wish)
{
	uint64_t existing;
	int err;

	err = hugepin_region_open(pool->ctx, wish->name, &wish->region);
	if (err)
		return err;
	existing = hugepin_region_bytes(wish->region);
	if (size_matches(pool, wish->bytes, existing))
		err = hpi_caps_charge(pool, existing);
	else
		err = hpi_error(-EEXIST, "variable \"%s\" is there with %llu bytes; asked for %llu, which is %llu in "
				"whole pages", wish->name, (unsigned long long)existing, (unsigned long long)wish->bytes,
				(unsigned long long)hpi_round_up(wish->bytes, HPI_2M));
	if (err)
		hugepin_region_close(wish->region);
	return err;
}

/* Needs growth held. */
static int open_or_create(struct hugepin_pool *pool, struct wish *wish, int *found)
{
	int race, err;

	for (race = 0; race < RACES_MAX; race++) {
		err = open_existing(pool, wish);
		if (err != -ENOENT) {
			*found = 1;
			return err;
		}
		err = create(pool, wish);
		if (err != -EEXIST) {
			*found = 0;
			return err;
		}
	}
	return hpi_error(-EEXIST, "variable \"%s\": its name came and went %d times", wish->name, RACES_MAX);
}

/* Needs growth held. @sign: 1 opened, -1 closed. */
static void count(struct hugepin_pool *pool, const struct hugepin_variable *variable, int sign)
{
	hpi_pool_lock(pool);
	pool->variables += (uint64_t)sign;
	pool->variable_bytes += (uint64_t)sign * hugepin_region_bytes(variable->region);
	pool->variable_requested += (uint64_t)sign * variable->requested;
	if (sign > 0)
		pool->allocs++;
	else
		pool->frees++;
	hpi_pool_note_peaks(pool);
	hpi_pool_unlock(pool);
}

static int open_locked(struct hugepin_pool *pool, struct wish *wish, int *found, struct hugepin_variable *variable)
{
	int err;

	err = open_or_create(pool, wish, found);
	if (err)
		return err;
	err = hugepin_region_map(wish->region, 0, 0, HUGEPIN_MAP_POPULATE, &variable->addr);
	if (err) {
		err = hpi_error_add(err, "; variable \"%s\"", wish->name);
		hpi_caps_uncharge(pool, hugepin_region_bytes(wish->region));
		hugepin_region_close(wish->region);
		if (!*found)
			hugepin_region_unlink(pool->ctx, wish->name);
		return err;
	}
	variable->region = wish->region;
	count(pool, variable, 1);
	return 0;
}

int hugepin_variable_open(struct hugepin_pool *pool, const char *name, uint64_t bytes, int *found,
			  struct hugepin_variable **out)
{
	struct wish wish = { .name = name, .bytes = bytes };
	struct hugepin_variable *variable;
	int err, was_there;

	err = hpi_context_check(pool->ctx);
	if (err)
		return err;
	if (pool->kind != HUGEPIN_POOL_VARIABLE)
		return hpi_error(-EINVAL, "variables are not for the %s pool", hpi_pool_name(pool));
	if (!name)
		return hpi_error(-EINVAL, "a variable's name is NULL");
	if (!bytes || bytes > INT64_MAX - HPI_1G)
		return hpi_error(-EINVAL, "variable \"%s\": %llu bytes is not between 1 and %llu", name,
				 (unsigned long long)bytes, (unsigned long long)(INT64_MAX - HPI_1G));
	variable = hpi_sys_fault && hpi_sys_fault("calloc") ? NULL : calloc(1, sizeof(*variable));
	if (!variable)
		return hpi_error(-ENOMEM, "variable \"%s\": no memory for a handle", name);
	variable->pool = pool;
	variable->requested = bytes;
	pthread_mutex_lock(&pool->growth);
	err = open_locked(pool, &wish, &was_there, variable);
	pthread_mutex_unlock(&pool->growth);
	if (err) {
		free(variable);
		return err;
	}
	if (found)
		*found = was_there;
	*out = variable;
	return 0;
}

void *hugepin_variable_address(const struct hugepin_variable *variable)
{
	return variable->addr;
}

uint64_t hugepin_variable_bytes(const struct hugepin_variable *variable)
{
	return variable->requested;
}

const struct hugepin_region *hugepin_variable_region(const struct hugepin_variable *variable)
{
	return variable->region;
}

void hugepin_variable_close(struct hugepin_variable *variable)
{
	struct hugepin_pool *pool;

	if (!variable)
		return;
	pool = variable->pool;
	/* In a child the pool's books are the parent's, and its locks perhaps held by nobody that is here. */
	if (hpi_context_is_child(pool->ctx)) {
		hugepin_region_close(variable->region);
	} else {
		pthread_mutex_lock(&pool->growth);
		count(pool, variable, -1);
		hpi_caps_uncharge(pool, hugepin_region_bytes(variable->region));
		hugepin_region_close(variable->region);
		pthread_mutex_unlock(&pool->growth);
	}
	free(variable);
}
