// SPDX-License-Identifier: MIT
/*
 * What threads keep of what was freed: that it is never lost, never in the way, never given out twice, and counted.
 */
#include "pool_world.h"

#include <sys/wait.h>

#include "pool_cache.h"

static struct hugepin_pool *pool_with(const char *cap)
{
	return make_pool_on(make_context("cache_cap", cap, NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
}

static struct hugepin_pool *cached_pool(void)
{
	return pool_with("64M");
}

/* Small blocks first, so that the pool has room for spans when the test begins. */
static void warm(struct hugepin_pool *pool)
{
	give(pool, take(pool, HPI_MIB(1)));
}

static void a_freed_block_is_kept_and_serves_the_next_request(void **state)
{
	static const uint64_t sizes[] = { 1, 64, 65, 512, 513, 1000, 4096, 8191, 8192, 8193, 20000, 32768, 65536 };
	struct hugepin_pool *pool = cached_pool();
	char *p, *q;
	size_t i;

	(void)state;
	warm(pool);
	for (i = 0; i < 13; i++) {
		p = take(pool, sizes[i]);
		assert_int_equal(stats_of(pool).requested_bytes, sizes[i]);
		give(pool, p);
		assert_int_equal(stats_of(pool).active_bytes, 0);
		assert_in_range(stats_of(pool).cached_bytes, sizes[i], HPI_MIB(2));
		q = take(pool, sizes[i]);
		assert_ptr_equal(q, p);
		give(pool, q);
	}
	end_pool(pool);
}

static void at_most_an_eighth_of_a_block_that_can_be_kept_is_wasted(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	struct hugepin_pool_stats stats;
	uint64_t bytes;
	char *p;

	(void)state;
	warm(pool);
	for (bytes = 1; bytes <= WHOLE_MAX; bytes++) {
		assert_in_range(class_of(bytes), 0, CLASSES - 1);
		assert_in_range(class_bytes(class_of(bytes)), bytes, UINT32_MAX);
		assert_true(!class_of(bytes) || class_bytes(class_of(bytes) - 1) < bytes);
	}
	for (bytes = 512; bytes <= WHOLE_MAX; bytes += 61) {
		p = take(pool, bytes);
		stats = stats_of(pool);
		assert_in_range(stats.wasted_bytes, 0, bytes / 8 + 63);
		assert_int_equal((uintptr_t)p % HPI_POOL_GRAIN, 0);
		give(pool, p);
	}
	end_pool(pool);
}

/* C003: a cap of 0 is no caching at all. */
static void without_a_cap_for_them_nothing_is_kept(void **state)
{
	struct hugepin_pool *pool = pool_with("0");
	char *p[64];
	size_t i;

	(void)state;
	for (i = 0; i < 64; i++)
		p[i] = take(pool, 1 + i * 500);
	for (i = 0; i < 64; i++)
		give(pool, p[i]);
	assert_int_equal(stats_of(pool).cached_bytes, 0);
	assert_int_equal(stats_of(pool).free_bytes, stats_of(pool).mapped_bytes);
	end_pool(pool);
}

/* C003 */
static void a_trim_gives_back_what_is_kept(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	static char *p[4000];
	uint64_t mapped;
	size_t i;

	(void)state;
	for (i = 0; i < 4000; i++)
		p[i] = take(pool, 1 + i * 8);
	for (i = 0; i < 4000; i++)
		give(pool, p[i]);
	assert_in_range(stats_of(pool).cached_bytes, 1, UINT64_MAX);
	mapped = stats_of(pool).mapped_bytes;
	assert_int_equal(hugepin_pool_trim(pool, 0), mapped);
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	end_pool(pool);
}

static void what_is_kept_stays_within_the_cap(void **state)
{
	struct hugepin_pool *pool = pool_with("1M");
	struct hugepin_pool_stats stats;
	static char *p[4000];
	const struct cache *c;
	uint64_t kept = 0;
	unsigned int i;

	(void)state;
	warm(pool);
	for (i = 0; i < 4000; i++)
		p[i] = take(pool, 1 + i * 8);
	for (i = 0; i < 4000; i++)
		give(pool, p[i]);
	stats = stats_of(pool);
	assert_int_equal(stats.active_bytes, 0);
	for (c = pool->caches->first; c; c = c->next) {
		for (i = 0; i < CLASSES; i++)
			kept += c->stack[i].filled * (uint64_t)c->stack[i].bytes;
	}
	assert_in_range(kept, 1, HPI_MIB(1));
	end_pool(pool);
}

/* While it grows, what is kept would be mapped for nothing; later it saves time. */
static void a_pool_that_has_not_grown_for_long_keeps_more(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	uint64_t most[2] = { 0, 0 }, cached;
	static char *p[200];
	size_t i, k, round;

	(void)state;
	warm(pool);
	for (round = 0; round < 2; round++) {
		for (k = 0; k < 8; k++) {
			for (i = 0; i < 200; i++)
				p[i] = take(pool, 8193 + i * 280);
			for (i = 0; i < 200; i++)
				give(pool, p[i]);
			cached = stats_of(pool).cached_bytes;
			most[round] = cached > most[round] ? cached : most[round];
		}
		for (i = 0; i < 140000; i++)
			give(pool, take(pool, 100));
	}
	assert_in_range(most[0], 1, HPI_MIB(1));
	assert_in_range(most[1], 2 * most[0], HPI_MIB(64) / 2 + HPI_MIB(1));
	end_pool(pool);
}

static void large_blocks_are_kept_once_it_has_not_grown_for_long(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	uint64_t before;
	size_t i, round;

	(void)state;
	warm(pool);
	give(pool, take(pool, WHOLE_MAX));
	before = stats_of(pool).cached_bytes;
	assert_in_range(before, 0, WHOLE_MAX - 1);
	for (i = 0; i < 140000; i++)
		give(pool, take(pool, 100));
	for (round = 0; round < 8; round++)
		give(pool, take(pool, WHOLE_MAX));
	assert_in_range(stats_of(pool).cached_bytes, before + WHOLE_MAX, before + 2 * WHOLE_MAX);
	assert_true(hugepin_pool_trim(pool, 0) > 0);
	assert_int_equal(stats_of(pool).cached_bytes, 0);
	end_pool(pool);
}

/* Memory in caches never makes an allocation fail. */
static void what_is_kept_gives_way_under_the_pools_cap(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context("host_cap", "4M", NULL), HUGEPIN_POOL_HOST, 1, &rung_2m,
						 NULL);
	static char *p[2000];
	size_t i, count = 0;

	(void)state;
	for (i = 0; i < 2000; i++, count++) {
		p[i] = hugepin_alloc(pool, 1500, 0);
		if (!p[i])
			break;
	}
	assert_in_range(count, 1000, 2000);
	for (i = 0; i < count; i++)
		give(pool, p[i]);
	give(pool, take(pool, HPI_MIB(4)));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(4));
	end_pool(pool);
}

static void a_block_freed_twice_or_never_given_is_refused(void **state)
{
	static const uint64_t sizes[] = { 100, 8192, 20000, 100000 };
	struct hugepin_pool *pool = cached_pool();
	uint64_t frees;
	char *p;
	size_t i;

	(void)state;
	warm(pool);
	for (i = 0; i < 4; i++) {
		p = take(pool, sizes[i]);
		assert_int_equal(hugepin_free(pool, p + 64), -EINVAL);
		assert_int_equal(hugepin_free(pool, p + 1), -EINVAL);
		give(pool, p);
		frees = stats_of(pool).frees;
		assert_int_equal(hugepin_free(pool, p), -EINVAL);
		assert_null(hugepin_realloc(pool, p, 10));
		assert_int_equal(errno, EINVAL);
		assert_int_equal(stats_of(pool).frees, frees);
	}
	assert_int_equal(hugepin_free(pool, pool->window_end - 64), -EINVAL);
	end_pool(pool);
}

static void numbers_and_peaks_are_exact_for_one_thread(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	struct hugepin_pool_stats stats;
	char *p[100];
	size_t i;

	(void)state;
	warm(pool);
	for (i = 0; i < 100; i++)
		give(pool, take(pool, HPI_MIB(1)));
	for (i = 0; i < 100; i++)
		p[i] = take(pool, 16384);
	assert_int_equal(stats_of(pool).requested_bytes, 100 * 16384);
	for (i = 0; i < 100; i++)
		give(pool, p[i]);
	for (i = 0; i < 100; i++)
		p[i] = take(pool, 3000);
	stats = stats_of(pool);
	assert_int_equal(stats.active_bytes, 100 * 3072);
	assert_int_equal(stats.requested_bytes, 100 * 3000);
	assert_int_equal(stats.active_blocks, 100);
	assert_int_equal(stats.allocs, 301);
	assert_int_equal(stats.frees, 201);
	assert_int_equal(stats.peak_requested_bytes, 100 * 16384);
	for (i = 0; i < 100; i++)
		give(pool, p[i]);
	end_pool(pool);
}

static void small_blocks_are_resized_within_their_class_or_move(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	char *p, *q;

	(void)state;
	warm(pool);
	p = take(pool, 1000);
	memset(p, 7, 1000);
	assert_ptr_equal(hugepin_realloc(pool, p, 1024), p);
	assert_int_equal(stats_of(pool).requested_bytes, 1024);
	assert_ptr_equal(hugepin_realloc(pool, p, 10), p);
	assert_int_equal(stats_of(pool).requested_bytes, 10);
	q = hugepin_realloc(pool, p, 2000);
	assert_non_null(q);
	assert_ptr_not_equal(q, p);
	assert_int_equal(q[9], 7);
	q = hugepin_realloc(pool, q, 0);
	assert_non_null(q);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	give(pool, q);
	end_pool(pool);
}

/* Made as small as those in spans it is still one of the arena, and takes nobody's place in a stack. */
static void a_block_made_small_or_large_goes_back_to_the_arena(void **state)
{
	static const uint64_t sizes[] = { 64, 4096, 8192, 10240, 20480, 65536 };
	struct hugepin_pool *pool = cached_pool();
	char *p[12];
	size_t i;

	(void)state;
	warm(pool);
	for (i = 0; i < 6; i++) {
		p[i] = take(pool, 20000);
		p[6 + i] = take(pool, 20000);		/* behind it, so that it does not grow everywhere */
		p[i] = hugepin_realloc(pool, p[i], sizes[i]);
		assert_non_null(p[i]);
		assert_true(hugepin_usable_bytes(pool, p[i]) >= sizes[i]);
	}
	for (i = 0; i < 12; i++)
		give(pool, p[i]);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	for (i = 0; i < 6; i++)
		assert_int_equal(hugepin_free(pool, p[i]), -EINVAL);
	for (i = 0; i < 6; i++)
		p[i] = take(pool, sizes[i]);
	assert_int_equal(stats_of(pool).requested_bytes, 64 + 4096 + 8192 + 10240 + 20480 + 65536);
	for (i = 0; i < 6; i++)
		give(pool, p[i]);
	assert_true(hugepin_pool_trim(pool, 0) > 0);
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	end_pool(pool);
}

static void a_retired_small_block_is_deferred_until_it_returns(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	uint64_t bytes = 0;
	char *p;

	(void)state;
	warm(pool);
	p = take(pool, 700);
	assert_int_equal(hpi_block_retire(pool, p, &bytes), 0);
	assert_int_equal(bytes, 704);
	assert_int_equal(stats_of(pool).deferred_bytes, 704);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	assert_int_equal(hugepin_free(pool, p), -EINVAL);
	assert_int_equal(hpi_block_retire(pool, p, &bytes), -EINVAL);
	hpi_block_return(pool, p);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	end_pool(pool);
}

/* ---- threads ---- */

static void *leave_some(void *arg)
{
	struct hugepin_pool *pool = arg;
	char *p[50];
	size_t i;

	for (i = 0; i < 50; i++)
		p[i] = hugepin_alloc(pool, 100 + 300 * i, 0);
	for (i = 0; i < 50; i++)
		hugepin_free(pool, p[i]);
	return NULL;
}

static void what_a_thread_leaves_is_taken_over_or_given_back(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	const struct cache *c;
	unsigned int i, count = 0;
	pthread_t thread;

	(void)state;
	for (i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&thread, NULL, leave_some, pool), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	for (c = pool->caches->first; c; c = c->next)
		count++;
	assert_int_equal(count, 1);
	assert_in_range(stats_of(pool).cached_bytes, 1, UINT64_MAX);
	assert_in_range(hugepin_pool_trim(pool, 0), 1, INT64_MAX);
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	end_pool(pool);
}

struct lingering {
	struct hugepin_pool *pool;
	pthread_barrier_t used, ended;
};

static void *linger(void *arg)
{
	struct lingering *l = arg;

	leave_some(l->pool);
	pthread_barrier_wait(&l->used);
	pthread_barrier_wait(&l->ended);
	return NULL;
}

static void a_pool_may_end_before_the_threads_that_used_it(void **state)
{
	struct lingering l = { .pool = cached_pool() };
	struct hugepin_pool *next;
	pthread_t thread;

	(void)state;
	pthread_barrier_init(&l.used, NULL, 2);
	pthread_barrier_init(&l.ended, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, linger, &l), 0);
	pthread_barrier_wait(&l.used);
	end_pool(l.pool);
	next = cached_pool();
	leave_some(next);
	pthread_barrier_wait(&l.ended);
	assert_int_equal(pthread_join(thread, NULL), 0);
	end_pool(next);
	pthread_barrier_destroy(&l.used);
	pthread_barrier_destroy(&l.ended);
}

#define PASSED		400

/* Blocks that this thread takes and another frees. */
struct passing {
	struct hugepin_pool *pool;
	char *block[PASSED];
	pthread_barrier_t barrier;
	size_t rounds;
};

static void *free_passed(void *arg)
{
	struct passing *pass = arg;
	size_t i, round;

	for (round = 0; round < pass->rounds; round++) {
		pthread_barrier_wait(&pass->barrier);
		for (i = 0; i < PASSED; i++)
			assert_int_equal(hugepin_free(pass->pool, pass->block[i]), 0);
		pthread_barrier_wait(&pass->barrier);
	}
	return NULL;
}

/* What the one has too many of serves the other, and goes when it is wanted elsewhere. */
static void what_one_thread_frees_serves_another(void **state)
{
	static struct passing pass = { .rounds = 20 };
	uint64_t shared = 0, bytes;
	pthread_t thread;
	size_t i, round;

	(void)state;
	pass.pool = pool_with("8M");
	warm(pass.pool);
	for (i = 0; i < 140000; i++)
		give(pass.pool, take(pass.pool, 100));
	pthread_barrier_init(&pass.barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, free_passed, &pass), 0);
	for (round = 0; round < pass.rounds; round++) {
		for (i = 0, bytes = 0; i < PASSED; i++) {
			pass.block[i] = take(pass.pool, 9000 + i * 100);
			memset(pass.block[i], (int)i, 9000 + i * 100);
			bytes += 9000 + i * 100;
		}
		for (i = 0; i < PASSED; i++)
			assert_int_equal((unsigned char)pass.block[i][9000 + i * 100 - 1], i % 256);
		assert_int_equal(stats_of(pass.pool).requested_bytes, bytes);
		pthread_barrier_wait(&pass.barrier);
		pthread_barrier_wait(&pass.barrier);
		assert_int_equal(stats_of(pass.pool).active_bytes, 0);
		assert_in_range(stats_of(pass.pool).cached_bytes, 1, HPI_MIB(8) + SMALL_CLASSES * SPAN_BYTES);
		if (pass.pool->caches->shared_bytes > shared)
			shared = pass.pool->caches->shared_bytes;
		if (round % 2 == 0 && round > 10)
			hugepin_pool_trim(pass.pool, HPI_MIB(32));
		for (i = 0; i < 140000; i++)
			give(pass.pool, take(pass.pool, 100));
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_barrier_destroy(&pass.barrier);
	assert_in_range(shared, HPI_MIB(1), HPI_MIB(8));
	assert_true(hugepin_pool_trim(pass.pool, 0) > 0);
	assert_int_equal(pass.pool->caches->shared_bytes, 0);
	assert_int_equal(stats_of(pass.pool).mapped_bytes, 0);
	end_pool(pass.pool);
}

#define ROUNDS	20000
#define SHARED	256

struct churn {
	struct hugepin_pool *pool;
	char *_Atomic *shared;
	unsigned int seed;
	bool failed;
};

/* Blocks go from thread to thread through a table; each is filled by who takes it and looked at by who frees it. */
static void *churn(void *arg)
{
	struct churn *t = arg;
	unsigned int i, at;
	uint64_t bytes;
	char *p;

	for (i = 0; i < ROUNDS; i++) {
		bytes = 16 + (uint64_t)rand_r(&t->seed) % (i % 64 ? 4000 : 200000);
		p = hugepin_alloc(t->pool, bytes, 0);
		if (!p) {
			t->failed = true;
			return NULL;
		}
		memcpy(p, &bytes, sizeof(bytes));
		memcpy(p + bytes - 8, &bytes, sizeof(bytes));
		at = (unsigned int)rand_r(&t->seed) % SHARED;
		p = __atomic_exchange_n((char **)&t->shared[at], p, __ATOMIC_ACQ_REL);
		if (!p)
			continue;
		memcpy(&bytes, p, sizeof(bytes));
		if (memcmp(p + bytes - 8, &bytes, sizeof(bytes)) || hugepin_free(t->pool, p))
			t->failed = true;
	}
	return NULL;
}

static void blocks_freed_by_other_threads_and_snapshots_add_up(void **state)
{
	static char *_Atomic shared[SHARED];
	struct hugepin_pool *pool = cached_pool();
	struct churn work[3];
	pthread_t thread[3];
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		work[i] = (struct churn){ .pool = pool, .shared = shared, .seed = i };
		assert_int_equal(pthread_create(&thread[i], NULL, churn, &work[i]), 0);
	}
	for (i = 0; i < 200; i++) {
		struct hugepin_pool_stats stats = { .size = sizeof(stats) };

		assert_int_equal(hugepin_pool_stats_get(pool, &stats), 0);
		assert_int_equal(stats.active_bytes + stats.cached_bytes + stats.deferred_bytes + stats.free_bytes,
				 stats.mapped_bytes);
		assert_in_range(stats.requested_bytes, 0, stats.active_bytes);
		if (i % 50 == 0)
			hugepin_pool_trim(pool, 0);
	}
	for (i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_false(work[i].failed);
	}
	for (i = 0; i < SHARED; i++) {
		if (shared[i])
			give(pool, shared[i]);
	}
	assert_int_equal(stats_of(pool).active_bytes, 0);
	assert_int_equal(stats_of(pool).requested_bytes, 0);
	assert_int_equal(stats_of(pool).active_blocks, 0);
	end_pool(pool);
}

/* ---- when something is not to be had ---- */

static int calls_until_failure;

static int fail_one_calloc(const char *call)
{
	return strcmp(call, "calloc") || calls_until_failure-- ? 0 : ENOMEM;
}

static void without_memory_for_a_cache_blocks_come_from_the_arena(void **state)
{
	struct hugepin_pool *pool;
	char *p[3];
	int i, k;

	(void)state;
	for (i = 0; i < 12; i++) {
		pool = cached_pool();
		warm(pool);
		hpi_caches_empty(pool);
		calls_until_failure = i;
		hpi_sys_fault = fail_one_calloc;
		for (k = 0; k < 3; k++)
			p[k] = hugepin_alloc(pool, 500 + 5000 * (size_t)k, 0);
		hpi_sys_fault = NULL;
		for (k = 0; k < 3; k++) {
			if (p[k])
				give(pool, p[k]);
		}
		assert_int_equal(stats_of(pool).active_bytes, 0);
		end_pool(pool);
	}
}

static int no_membarrier(const char *call)
{
	return strcmp(call, "membarrier") ? 0 : EPERM;
}

static void without_the_kernels_barrier_caches_are_left_alone(void **state)
{
	struct lingering l = { .pool = cached_pool() };
	pthread_t thread;

	(void)state;
	if (hpi_cache_heavy)
		skip();		/* membarrier() is not to be had here at all */
	pthread_barrier_init(&l.used, NULL, 2);
	pthread_barrier_init(&l.ended, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, linger, &l), 0);
	pthread_barrier_wait(&l.used);
	leave_some(l.pool);
	hpi_sys_fault = no_membarrier;
	hpi_caches_empty(l.pool);
	hpi_sys_fault = NULL;
	assert_in_range(stats_of(l.pool).cached_bytes, 1, UINT64_MAX);
	pthread_barrier_wait(&l.ended);
	assert_int_equal(pthread_join(thread, NULL), 0);
	hpi_caches_empty(l.pool);
	assert_int_equal(stats_of(l.pool).cached_bytes, 0);
	end_pool(l.pool);
}

static void a_child_neither_uses_nor_needs_its_parents_caches(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	int status;
	pid_t pid;
	char *p;

	(void)state;
	warm(pool);
	p = take(pool, 100);
	give(pool, take(pool, 100));
	pid = fork();
	if (!pid) {
		errno = 0;
		if (hugepin_alloc(pool, 100, 0) || errno != EPERM || hugepin_free(pool, p) != -EPERM)
			_exit(1);
		_exit(hugepin_pool_destroy(pool) ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	give(pool, p);
	end_pool(pool);
}

/* Takes and gives back 20 blocks of @bytes and a little more each. */
static void use_and_keep(struct hugepin_pool *pool, uint64_t bytes)
{
	char *p[20];
	size_t i;

	for (i = 0; i < 20; i++)
		p[i] = take(pool, bytes + i * 1000);
	for (i = 0; i < 20; i++)
		give(pool, p[i]);
}

/* Else caches would be emptied, and kept small, whenever they have made the pool grow by another segment. */
static void growing_for_what_is_kept_is_not_growing(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	uint64_t mapped, grown_at;
	char *p[16];
	size_t i;

	(void)state;
	warm(pool);
	for (i = 0; i < 16; i++)
		p[i] = take(pool, HPI_MIB(1));
	for (i = 0; i < 16; i++)
		give(pool, p[i]);
	for (i = 0; i < 140000; i++)
		give(pool, take(pool, 100));
	mapped = stats_of(pool).mapped_bytes;
	grown_at = pool->caches->grown_at;
	for (i = 0; i < 64 && stats_of(pool).mapped_bytes == mapped; i++)
		use_and_keep(pool, 100000 + i % 8 * 80000);
	assert_in_range(stats_of(pool).mapped_bytes, mapped + 1, mapped + HPI_MIB(64));
	assert_int_equal(pool->caches->grown_at, grown_at);
	for (i = 0; i < 16; i++)
		p[i] = take(pool, HPI_MIB(2));
	assert_true(pool->caches->grown_at > grown_at);
	for (i = 0; i < 16; i++)
		give(pool, p[i]);
	end_pool(pool);
}

/* Blocks that are kept only by a pool that has stopped growing, too. */
static void a_thread_that_only_frees_feeds_one_that_only_allocates(void **state)
{
	static struct passing pass = { .rounds = 40 };
	pthread_t thread;
	size_t i, round;

	(void)state;
	pass.pool = cached_pool();
	warm(pass.pool);
	pthread_barrier_init(&pass.barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, free_passed, &pass), 0);
	for (round = 0; round < pass.rounds; round++) {
		for (i = 0; i < PASSED; i++)
			pass.block[i] = take(pass.pool, 100000 + i % 4 * 20000);
		pthread_barrier_wait(&pass.barrier);
		pthread_barrier_wait(&pass.barrier);
		for (i = 0; round < 2 && i < 140000; i++)
			give(pass.pool, take(pass.pool, 100));
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_barrier_destroy(&pass.barrier);
	assert_in_range(pass.pool->caches->shared_bytes, HPI_MIB(8), HPI_MIB(64));
	end_pool(pass.pool);
}

#define TURNS		8
#define TAKEN_A_TURN	100

struct taker {
	struct hugepin_pool *pool;
	pthread_barrier_t *turn;
	char *block[TURNS * TAKEN_A_TURN];
};

static void *take_in_turns(void *arg)
{
	struct taker *t = arg;
	unsigned int i, k;

	for (i = 0; i < TURNS; i++) {
		pthread_barrier_wait(t->turn);
		for (k = 0; k < TAKEN_A_TURN; k++)
			t->block[i * TAKEN_A_TURN + k] = take(t->pool, 256);
	}
	return NULL;
}

static struct span *span_with(const struct hugepin_pool *pool, const char *block)
{
	return span_at(pool->caches, (uint64_t)(block - pool->window));
}

/* What 16 neighbours are held for is in one cache line, which two threads would take from each other time and again. */
static void threads_do_not_take_neighbouring_blocks(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	pthread_barrier_t turn;
	struct taker takers[2] = { { .pool = pool, .turn = &turn }, { .pool = pool, .turn = &turn } };
	pthread_t thread;
	unsigned int i, k;

	(void)state;
	warm(pool);
	pthread_barrier_init(&turn, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, take_in_turns, &takers[1]), 0);
	take_in_turns(&takers[0]);
	pthread_join(thread, NULL);
	for (i = 0; i < TURNS * TAKEN_A_TURN; i++) {
		assert_non_null(span_with(pool, takers[0].block[i]));
		for (k = 0; k < TURNS * TAKEN_A_TURN; k++)
			assert_ptr_not_equal(span_with(pool, takers[0].block[i]), span_with(pool, takers[1].block[k]));
	}
	for (i = 0; i < 2 * TURNS * TAKEN_A_TURN; i++)
		give(pool, takers[i % 2].block[i / 2]);
	pthread_barrier_destroy(&turn);
	end_pool(pool);
}

static void *take_one(void *arg)
{
	return take(arg, 256);
}

static void a_pool_without_room_for_a_span_gives_of_anothers(void **state)
{
	struct hugepin_pool *pool = cached_pool();
	char *mine, *rest;
	pthread_t thread;
	void *theirs;

	(void)state;
	warm(pool);
	mine = take(pool, 256);
	rest = take(pool, HPI_MIB(2) - SPAN_BYTES);
	assert_int_equal(pthread_create(&thread, NULL, take_one, pool), 0);
	pthread_join(thread, &theirs);
	assert_ptr_equal(span_with(pool, theirs), span_with(pool, mine));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(2));
	give(pool, theirs);
	give(pool, mine);
	give(pool, rest);
	end_pool(pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_freed_block_is_kept_and_serves_the_next_request),
		TEST(at_most_an_eighth_of_a_block_that_can_be_kept_is_wasted),
		TEST(without_a_cap_for_them_nothing_is_kept),
		TEST(a_trim_gives_back_what_is_kept),
		TEST(what_is_kept_stays_within_the_cap),
		TEST(a_pool_that_has_not_grown_for_long_keeps_more),
		TEST(large_blocks_are_kept_once_it_has_not_grown_for_long),
		TEST(what_is_kept_gives_way_under_the_pools_cap),
		TEST(a_block_freed_twice_or_never_given_is_refused),
		TEST(numbers_and_peaks_are_exact_for_one_thread),
		TEST(small_blocks_are_resized_within_their_class_or_move),
		TEST(a_block_made_small_or_large_goes_back_to_the_arena),
		TEST(a_retired_small_block_is_deferred_until_it_returns),
		TEST(what_a_thread_leaves_is_taken_over_or_given_back),
		TEST(a_pool_may_end_before_the_threads_that_used_it),
		TEST(what_one_thread_frees_serves_another),
		TEST(growing_for_what_is_kept_is_not_growing),
		TEST(a_thread_that_only_frees_feeds_one_that_only_allocates),
		TEST(blocks_freed_by_other_threads_and_snapshots_add_up),
		TEST(threads_do_not_take_neighbouring_blocks),
		TEST(a_pool_without_room_for_a_span_gives_of_anothers),
		TEST(without_memory_for_a_cache_blocks_come_from_the_arena),
		TEST(without_the_kernels_barrier_caches_are_left_alone),
		TEST(a_child_neither_uses_nor_needs_its_parents_caches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
