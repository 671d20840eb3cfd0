// SPDX-License-Identifier: MIT
/*
 * The two pools that the shim serves from, each made by the first allocation that wants it.
 *
 * Making one loads libraries (a CUDA driver, libhugetlbfs), and the dynamic loader holds a lock while it runs
 * constructors, which allocate. So nobody ever waits for a pool to be made: the others do without it meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shim.h"

/*
 * A pool grows by what is lacking, a segment each time, and a segment of a file has a descriptor. The program's limit
 * on those may be 1024, so the shim makes a pool grow in larger steps: at least this, and an eighth of what it has.
 */
#define STEP_MIN	MIB(16)
#define STEP_PARTS	8

/*
 * Finding out that there are no pages takes a tenth of a millisecond. What could not be had is not asked for again
 * for so long, so that a program that has to do without loses no more than a hundredth of its time.
 */
#define SHORT_MS	10

struct pool host_pool = { .kind = HUGEPIN_POOL_HOST, .low = UINTPTR_MAX };
struct pool pinned_pool = { .kind = HUGEPIN_POOL_PINNED, .low = UINTPTR_MAX };

static atomic_flag making = ATOMIC_FLAG_INIT;

/* ---- making ---- */

static bool is_default(struct hugepin_options *options, const char *key)
{
	struct hugepin_option_info info = { .size = sizeof(info) };

	return !hugepin_options_get(options, key, &info) && !strcmp(info.source, "default");
}

static int set_default(struct hugepin_options *options, const char *key, const char *value)
{
	return is_default(options, key) ? hugepin_options_set(options, key, value) : 0;
}

/*
 * What the environment does not say. Host memory: huge pages or none, since a pool's base pages are resident at
 * once, and programs ask malloc() for more than they touch. No runtime. Pinned memory: the driver that the program
 * has loaded.
 */
static int choose(struct pool *pool, struct hugepin_options *options)
{
	struct hugepin_option_info runtime = { .size = sizeof(runtime) };
	int err;

	if (pool->kind == HUGEPIN_POOL_PINNED) {
		err = set_default(options, "runtime", "cuda");
		if (!err && !hugepin_options_get(options, "runtime", &runtime) && !strcmp(runtime.value, "none")) {
			snprintf(pool->reason, sizeof(pool->reason), "option runtime is none, set by %s",
				 runtime.source);
			err = -ENODEV;
		}
		return err;
	}
	err = hugepin_options_set(options, "runtime", "none");
	return err ? err : set_default(options, "host_ladder", "kmod:1G+2M,kmod:2M,hugetlb:2M");
}

/*
 * The first use of hugetlb pages loads libhugetlbfs. It is had now, in a pool of no further use, and not later with a
 * pool's locks held, for which a constructor's allocation might wait. Whether there are such pages does not matter.
 */
static void load_hugetlb_now(void)
{
	struct hugepin_options *options;
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;

	if (hugepin_options_create(&options))
		return;
	if (hugepin_options_set(options, "runtime", "none") ||
	    hugepin_options_set(options, "host_ladder", "hugetlb:2M") || hugepin_context_create(options, &ctx))
		goto no_context;
	if (!hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool)) {
		hugepin_free(pool, hugepin_alloc(pool, 1, 0));
		hugepin_pool_destroy(pool);
	}
	hugepin_context_destroy(ctx);
no_context:
	hugepin_options_destroy(options);
}

/* The option's; from the second on as enum hugepin_log_level. */
static const char *const levels[] = { "none", "error", "warning", "info", "debug" };

static void tell(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)arg;
	if (stderr_is_still())
		say("%s: %s", levels[level + 1], line);
}

static void log_as_asked(struct hugepin_options *options)
{
	struct hugepin_option_info info = { .size = sizeof(info) };
	unsigned int i = 0;

	if (hugepin_options_get(options, "log_level", &info))
		return;
	while (i < 4 && strcmp(info.value, levels[i]))
		i++;
	if (i)
		hugepin_log_set(tell, NULL, i - 1);
}

static int make(struct pool *pool)
{
	struct hugepin_options *options;
	int err;

	err = hugepin_options_create(&options);
	if (err)
		return err;
	err = hugepin_options_load_environment(options);
	if (!err) {
		load_hugetlb_now();
		log_as_asked(options);
		err = choose(pool, options);
	}
	if (!err)
		err = hugepin_context_create(options, &pool->ctx);
	hugepin_options_destroy(options);
	if (err)
		return err;
	err = hugepin_pool_create(pool->ctx, pool->kind, &pool->pool);
	if (err) {
		snprintf(pool->reason, sizeof(pool->reason), "%s", hugepin_error());
		hugepin_context_destroy(pool->ctx);
	}
	return err;
}

static bool ready(struct pool *pool)
{
	enum pool_state state = atomic_load_explicit(&pool->state, memory_order_acquire);
	struct visit visit;

	if (state != POOL_FRESH)
		return state == POOL_READY;
	if (!settings.hooking || atomic_flag_test_and_set(&making))
		return false;
	state = POOL_FRESH;
	if (atomic_compare_exchange_strong(&pool->state, &state, POOL_MAKING)) {
		gate_enter_unheld(&visit);
		state = make(pool) ? POOL_CLOSED : POOL_READY;
		if (state == POOL_CLOSED && !*pool->reason)
			snprintf(pool->reason, sizeof(pool->reason), "%s", hugepin_error());
		atomic_store_explicit(&pool->state, state, memory_order_release);
		gate_leave(&visit);
	}
	atomic_flag_clear(&making);
	return state == POOL_READY;
}

void pool_close(struct pool *pool, const char *reason)
{
	enum pool_state state = POOL_READY;

	if (atomic_compare_exchange_strong(&pool->state, &state, POOL_CLOSED))
		snprintf(pool->reason, sizeof(pool->reason), "%s", reason);
}

void pool_child(void)
{
	atomic_flag_clear(&making);
}

/* ---- counting ---- */

static void widen(struct pool *pool, const char *addr, size_t bytes)
{
	uintptr_t low = atomic_load(&pool->low), high = atomic_load(&pool->high), from = (uintptr_t)addr;

	while (from < low && !atomic_compare_exchange_weak(&pool->low, &low, from))
		;
	while (from + bytes > high && !atomic_compare_exchange_weak(&pool->high, &high, from + bytes))
		;
}

static void count_active(struct pool *pool, size_t more, size_t less)
{
	unsigned long long active = atomic_fetch_add(&pool->active_bytes, more - less) + more - less;
	unsigned long long peak = atomic_load(&pool->peak_bytes);
	size_t largest = atomic_load(&pool->largest);

	while (active > peak && !atomic_compare_exchange_weak(&pool->peak_bytes, &peak, active))
		;
	while (more > largest && !atomic_compare_exchange_weak(&pool->largest, &largest, more))
		;
}

/* ---- growing ---- */

static void grow_ahead(struct pool *pool)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };
	unsigned long long seen = atomic_load(&pool->mapped_seen), step;

	if (hugepin_pool_stats_get(pool->pool, &stats) || stats.mapped_bytes == seen)
		return;
	step = stats.mapped_bytes / STEP_PARTS;
	step = step > STEP_MIN ? step : STEP_MIN;
	/* What cannot be had ahead is not missed. */
	if (stats.mapped_bytes > seen && stats.mapped_bytes - seen < step && stats.free_bytes < step) {
		hugepin_free(pool->pool, hugepin_alloc(pool->pool, step, 0));
		hugepin_pool_stats_get(pool->pool, &stats);
	}
	atomic_store(&pool->mapped_seen, stats.mapped_bytes);
}

/* ---- shortage ---- */

static unsigned long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
}

static bool is_short(struct pool *pool, size_t bytes)
{
	unsigned long long end = atomic_load_explicit(&pool->short_end_ms, memory_order_relaxed);

	return end && bytes >= atomic_load_explicit(&pool->short_bytes, memory_order_relaxed) && now_ms() < end;
}

static void note_shortage(struct pool *pool, size_t bytes)
{
	atomic_store(&pool->short_bytes, bytes);
	atomic_store(&pool->short_end_ms, now_ms() + SHORT_MS);
}

static void note_room(struct pool *pool, size_t bytes)
{
	if (bytes >= atomic_load_explicit(&pool->short_bytes, memory_order_relaxed))
		atomic_store_explicit(&pool->short_end_ms, 0, memory_order_relaxed);
}

/* ---- blocks, in and out ---- */

void *pool_take(struct pool *pool, size_t align, size_t bytes, unsigned int tag, bool zero)
{
	struct block block = { .bytes = bytes, .tag = tag };
	struct visit visit;

	if (gate_inside() || !ready(pool) || is_short(pool, bytes))
		return NULL;
	gate_enter(&visit);
	block.addr = hugepin_alloc_aligned(pool->pool, align, bytes, zero ? HUGEPIN_ALLOC_ZERO : 0);
	if (block.addr && !blocks_add(&block, NULL)) {
		hugepin_free(pool->pool, block.addr);
		block.addr = NULL;
	}
	if (block.addr) {
		widen(pool, block.addr, bytes);
		atomic_fetch_add(&pool->served, 1);
		atomic_fetch_add(&pool->served_bytes, bytes);
		count_active(pool, bytes, 0);
		grow_ahead(pool);
	} else {
		note_shortage(pool, bytes);
	}
	gate_leave(&visit);
	return block.addr;
}

void pool_give(struct pool *pool, const struct block *block)
{
	struct visit visit;

	gate_enter(&visit);
	hugepin_free(pool->pool, block->addr);	/* refused in a child that no fork handler saw: the parent's block */
	atomic_fetch_add(&pool->given, 1);
	atomic_fetch_sub(&pool->active_bytes, block->bytes);
	note_room(pool, block->bytes);
	gate_leave(&visit);
}

/* Without memory to note what the block waits for it stays in use, which is safe. */
void pool_give_after(struct pool *pool, const struct block *block)
{
	struct visit visit;

	gate_enter(&visit);
	hugepin_free_after(pool->pool, block->addr, NULL, 0);
	atomic_fetch_add(&pool->given, 1);
	atomic_fetch_sub(&pool->active_bytes, block->bytes);
	gate_leave(&visit);
}

void pool_untake(struct pool *pool, const struct block *block)
{
	atomic_fetch_sub(&pool->served, 1);
	atomic_fetch_sub(&pool->served_bytes, block->bytes);
	atomic_fetch_sub(&pool->given, 1);
	pool_give(pool, block);
}

void *pool_resize(struct pool *pool, const struct block *block, size_t bytes)
{
	struct block old, now = { .bytes = bytes, .tag = block->tag };
	struct blocks_spare spare;
	struct visit visit;

	if (gate_inside() || atomic_load(&pool->state) != POOL_READY || !blocks_spare_get(&spare))
		return NULL;
	gate_enter(&visit);
	if (blocks_remove(block->addr, &old)) {
		now.addr = hugepin_realloc(pool->pool, old.addr, bytes);
		blocks_add(now.addr ? &now : &old, &spare);
	}
	if (now.addr) {
		widen(pool, now.addr, bytes);
		count_active(pool, bytes, old.bytes);
		atomic_fetch_add(&pool->served_bytes, bytes > old.bytes ? bytes - old.bytes : 0);
		grow_ahead(pool);
	}
	gate_leave(&visit);
	blocks_spare_drop(&spare);
	return now.addr;
}
