// SPDX-License-Identifier: MIT
/*
 * Pools as their users see them: blocks, sizes, alignments, realloc, zero bytes, statistics, threads and children.
 * How a pool grows is in pool_growth_test.c.
 */
#include "pool_world.h"

#include <sys/resource.h>

#include <sys/wait.h>

static struct hugepin_pool *base_pool(enum hugepin_pool_kind kind)
{
	return make_pool(make_context("host_ladder", "base", "pinned_ladder", "base", NULL), kind);
}

static struct hugepin_pool *fake_pool(enum hugepin_pool_kind kind)
{
	return make_pool_on(make_context(NULL), kind, 1, &rung_2m, NULL);
}

static void blocks_are_apart_aligned_and_resident(void **state)
{
	static const uint64_t sizes[] = { 1, 63, 64, 65, 4096, 100000, HPI_MIB(3), HPI_MIB(20) };
	struct hugepin_pool *pool = base_pool(HUGEPIN_POOL_HOST);
	unsigned char resident[HPI_MIB(20) / 4096 + 1];
	char *block[8];
	size_t i, k;

	(void)state;
	for (i = 0; i < 8; i++) {
		block[i] = take(pool, sizes[i]);
		assert_int_equal((uintptr_t)block[i] % 64, 0);
		assert_int_equal(mincore((void *)((uintptr_t)block[i] & ~4095ul), sizes[i], resident), 0);
		for (k = 0; k < (sizes[i] + 4095) / 4096; k++)
			assert_true(resident[k] & 1);
		memset(block[i], (int)i + 1, sizes[i]);
	}
	for (i = 0; i < 8; i++) {
		for (k = 0; k < sizes[i]; k++)
			assert_int_equal(block[i][k], i + 1);
		give(pool, block[i]);
	}
	assert_int_equal(stats_of(pool).active_bytes, 0);
	end_pool(pool);
}

/* C001 */
static void what_is_mapped_is_the_request_in_whole_pages(void **state)
{
	const uint64_t bytes = 8695185408;
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_PINNED);
	struct hugepin_pool_stats stats;
	char *p = take(pool, bytes);

	(void)state;
	stats = stats_of(pool);
	assert_int_equal(stats.mapped_bytes, 4147 * HPI_2M);
	assert_int_equal(stats.registered_bytes, 8696889344);
	assert_int_equal(stats.requested_bytes, bytes);
	assert_int_equal(stats.active_bytes, bytes);
	assert_int_equal(stats.wasted_bytes, 0);
	give(pool, p);
	end_pool(pool);
	pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_1g, NULL);
	p = take(pool, bytes);
	assert_int_equal(stats_of(pool).mapped_bytes, 9 * HPI_1G);
	give(pool, p);
	p = take(pool, 100);
	assert_int_equal(stats_of(pool).wasted_bytes, 28);
	give(pool, p);
	end_pool(pool);
}

/* C002: the budget is what is locked, and it is checked before anything is. The case's numbers, divided by 1024. */
static void the_cap_holds_for_what_is_locked(void **state)
{
	const uint64_t block = (uint64_t)(1.20 * 1048576), cap = (uint64_t)(41.22 * 1048576);
	struct hugepin_pool_stats stats;
	struct hugepin_pool *pool;
	char *p[34], text[32];
	unsigned int maps;
	size_t i;

	(void)state;
	snprintf(text, sizeof(text), "%lu", cap);
	pool = make_pool_on(make_context("pinned_cap", text, NULL), HUGEPIN_POOL_PINNED, 1, &rung_base, NULL);
	for (i = 0; i < 34; i++) {
		p[i] = take(pool, block);
		assert_in_range(stats_of(pool).mapped_bytes, 1, cap);
	}
	maps = source_base.maps;
	stats = stats_of(pool);
	errno = 0;
	assert_null(hugepin_alloc(pool, block, 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "cap"));
	assert_non_null(strstr(hugepin_error(), text));
	snprintf(text, sizeof(text), "mapped %lu", stats.mapped_bytes);
	assert_non_null(strstr(hugepin_error(), text));
	assert_int_equal(source_base.maps, maps);
	assert_int_equal(source_base.failed_maps, 0);
	assert_int_equal(stats_of(pool).mapped_bytes, stats.mapped_bytes);
	assert_int_equal(stats_of(pool).requested_bytes, 34 * block);
	for (i = 0; i < 34; i++)
		give(pool, p[i]);
	end_pool(pool);
}

/* C043 */
static void alignments_are_powers_of_two_up_to_1g(void **state)
{
	static const uint64_t sizes[] = { 1, HPI_2M, 64000000, HPI_1G };
	const struct hpi_rung *rungs[] = { &rung_2m, &rung_1g };
	uint64_t alignment, filler;
	struct hugepin_pool *pool;
	size_t i, k;
	char *p;

	(void)state;
	for (k = 0; k < 2; k++) {
		pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, rungs[k], NULL);
		for (i = 0; i < 4; i++) {
			for (alignment = 1; alignment <= HPI_1G; alignment *= 2) {
				filler = (uintptr_t)take(pool, 64);
				p = hugepin_alloc_aligned(pool, alignment, sizes[i], 0);
				assert_non_null(p);
				assert_int_equal((uintptr_t)p % (alignment < 64 ? 64 : alignment), 0);
				give(pool, p);
				give(pool, (void *)filler);
				assert_int_equal(stats_of(pool).active_bytes, 0);
			}
		}
		assert_null(hugepin_alloc_aligned(pool, 0, 64, 0));
		assert_int_equal(errno, EINVAL);
		assert_null(hugepin_alloc_aligned(pool, 3, 64, 0));
		assert_int_equal(errno, EINVAL);
		assert_null(hugepin_alloc_aligned(pool, 1ull << 47, 64, 0));
		assert_int_equal(errno, ENOMEM);
		end_pool(pool);
	}
}

/* C045 */
static void sizes_that_wrap_are_refused_and_change_nothing(void **state)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 4095, ((size_t)1 << 63) - 1, (size_t)1 << 62,
					(((size_t)1 << 32) + 1) * 4096 };
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_HOST);
	size_t i;
	char *p;

	(void)state;
	p = take(pool, 64);
	for (i = 0; i < 5; i++) {
		assert_null(hugepin_alloc(pool, sizes[i], HUGEPIN_ALLOC_ZERO));
		assert_int_equal(errno, ENOMEM);
		assert_null(hugepin_alloc_aligned(pool, HPI_1G, sizes[i], 0));
		assert_int_equal(errno, ENOMEM);
		assert_null(hugepin_realloc(pool, p, sizes[i]));
		assert_int_equal(errno, ENOMEM);
	}
	assert_int_equal(source_2m.maps, 1);
	assert_int_equal(stats_of(pool).active_bytes, 64);
	assert_int_equal(stats_of(pool).failed_allocs, 15);
	give(pool, p);
	end_pool(pool);
}

/* C046 */
static void zero_size_blocks_take_no_memory(void **state)
{
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_PINNED);
	struct hugepin_pool_stats before, after;
	char *p[1000], *warm;
	size_t i, k;

	(void)state;
	warm = take(pool, HPI_MIB(1));
	give(pool, warm);
	before = stats_of(pool);
	for (i = 0; i < 1000; i++) {
		p[i] = take(pool, 0);
		for (k = 0; k < i; k++)
			assert_ptr_not_equal(p[i], p[k]);
	}
	assert_int_equal(stats_of(pool).active_blocks, 1000);
	assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
	for (i = 0; i < 1000; i++)
		give(pool, p[i]);
	assert_int_equal(hugepin_free(pool, p[0]), -EINVAL);
	p[0] = hugepin_alloc_aligned(pool, HPI_2M, 0, HUGEPIN_ALLOC_ZERO);
	assert_non_null(p[0]);
	assert_int_equal((uintptr_t)p[0] % HPI_2M, 0);
	give(pool, p[0]);
	after = stats_of(pool);
	assert_int_equal(after.allocs - before.allocs, 1001);
	assert_int_equal(after.frees, after.allocs);
	before.allocs = after.allocs;
	before.frees = after.frees;
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(runtime.registers, 1);
	end_pool(pool);
}

/* C048, with the pool full at 32 MiB */
static void realloc_shrinks_always_and_keeps_the_block_when_it_cannot_grow(void **state)
{
	struct hugepin_context *ctx = make_context("host_ladder", "base", "host_cap", "32M", NULL);
	struct hugepin_pool *pool = make_pool(ctx, HUGEPIN_POOL_HOST);
	char *p, *q, *rest;
	size_t i;

	(void)state;
	p = take(pool, HPI_MIB(8));
	memset(p, 7, HPI_MIB(8));
	rest = take(pool, HPI_MIB(24));
	assert_null(hugepin_realloc(pool, p, HPI_MIB(16)));
	assert_int_equal(errno, ENOMEM);
	for (i = 0; i < HPI_MIB(8); i += 4096)
		assert_int_equal(p[i], 7);
	assert_ptr_equal(hugepin_realloc(pool, p, HPI_MIB(1)), p);
	assert_int_equal(stats_of(pool).active_bytes, HPI_MIB(25));
	assert_ptr_equal(hugepin_realloc(pool, p, HPI_MIB(8)), p);
	assert_int_equal(stats_of(pool).free_bytes, 0);
	give(pool, rest);
	/* realloc(NULL, n) allocates; realloc(p, 0) frees and gives a block of no bytes; that one grows like any. */
	q = hugepin_realloc(pool, NULL, 1000);
	memset(q, 9, 1000);
	q = hugepin_realloc(pool, q, 0);
	assert_non_null(q);
	assert_int_equal(stats_of(pool).active_bytes, HPI_MIB(8));
	q = hugepin_realloc(pool, q, 500);
	assert_int_equal(stats_of(pool).requested_bytes, HPI_MIB(8) + 500);
	give(pool, q);
	assert_null(hugepin_realloc(pool, q, 10));
	assert_int_equal(errno, EINVAL);
	assert_null(hugepin_realloc(pool, p + 64, 10));
	assert_int_equal(errno, EINVAL);
	give(pool, p);
	end_pool(pool);
}

/* C048 */
static void realloc_keeps_the_contents_from_4k_to_1g(void **state)
{
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_PINNED);
	uint64_t bytes, i;
	char *p = take(pool, 4 * KIB), *other;

	(void)state;
	memset(p, 1, 4 * KIB);
	for (bytes = 8 * KIB; bytes <= HPI_1G; bytes *= 2) {
		other = take(pool, 64);		/* in the way, so that it must move */
		p = hugepin_realloc(pool, p, bytes);
		assert_non_null(p);
		for (i = 0; i < bytes / 2; i = i ? 2 * i : 4 * KIB)
			assert_int_equal(*(uint64_t *)(p + i), i ? i : 0x0101010101010101ull);
		*(uint64_t *)(p + bytes / 2) = bytes / 2;
		give(pool, other);
	}
	assert_int_equal(stats_of(pool).registered_bytes, stats_of(pool).mapped_bytes);
	give(pool, p);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	end_pool(pool);
}

static void zero_flag_gives_zeroes_and_does_not_touch_fresh_memory(void **state)
{
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_HOST);
	unsigned char resident[2048];
	size_t i;
	char *p;

	(void)state;
	p = hugepin_alloc(pool, HPI_MIB(8), HUGEPIN_ALLOC_ZERO);
	assert_int_equal(mincore(p, HPI_MIB(8), resident), 0);
	for (i = 0; i < 2048; i++)
		assert_false(resident[i] & 1);		/* the source maps without pages: nobody has written */
	memset(p, 5, HPI_MIB(8));
	give(pool, p);
	p = hugepin_alloc(pool, HPI_MIB(7), HUGEPIN_ALLOC_ZERO);
	for (i = 0; i < HPI_MIB(7); i++)
		assert_int_equal(p[i], 0);
	give(pool, p);
	end_pool(pool);
}

static void unknown_flags_and_foreign_pointers_are_refused(void **state)
{
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_HOST);
	struct hugepin_pool_stats stats = { .size = sizeof(stats) - 8 };
	struct hugepin_segment_info info = { .size = sizeof(info) };
	struct hugepin_pool *none = NULL;
	char *p = take(pool, 100);

	(void)state;
	assert_null(hugepin_alloc(pool, 64, 2));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(hugepin_free(pool, NULL), 0);
	assert_int_equal(hugepin_free(pool, &stats), -EINVAL);
	assert_int_equal(hugepin_free(pool, p + 64), -EINVAL);
	assert_non_null(strstr(hugepin_error(), "not a block"));
	assert_int_equal(hugepin_pool_stats_get(pool, &stats), -EINVAL);
	assert_int_equal(hugepin_block_segment(pool, &stats, &info), -ENOENT);
	assert_int_equal(hugepin_pool_segment(pool, 1, &info), -ENOENT);
	assert_int_equal(hugepin_pool_segment(pool, 0, &info), 0);
	assert_ptr_equal(info.addr, segment_of_block(pool, p).addr);
	assert_int_equal(hugepin_pool_create(pool->ctx, 7, &none), -EINVAL);
	assert_null(none);
	assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
	assert_non_null(strstr(hugepin_error(), "1 blocks of together 100 bytes"));
	assert_int_equal(hugepin_context_destroy(pool->ctx), -EBUSY);
	give(pool, p);
	assert_int_equal(hugepin_free(pool, p), -EINVAL);
	assert_int_equal(hugepin_pool_destroy(NULL), 0);
	end_pool(pool);
}

/* A caller compiled with a later header: what this library does not know reads as zero. */
static void a_longer_struct_is_filled_up_with_zeroes(void **state)
{
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_HOST);
	struct {
		struct hugepin_pool_stats stats;
		uint64_t later;
	} longer = { .stats.size = sizeof(longer), .later = 99 };

	(void)state;
	assert_int_equal(hugepin_pool_stats_get(pool, &longer.stats), 0);
	assert_int_equal(longer.later, 0);
	assert_int_equal(longer.stats.size, sizeof(longer));
	end_pool(pool);
}

static void a_size_that_nobody_set_is_refused(void **state)
{
	static const size_t sizes[] = { 0, 8, 4097, SIZE_MAX };
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_HOST);
	struct hugepin_pool_stats stats;
	struct hugepin_segment_info info;
	char *p = take(pool, 1);
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		stats.size = sizes[i];
		assert_int_equal(hugepin_pool_stats_get(pool, &stats), -EINVAL);
		info.size = sizes[i];
		assert_int_equal(hugepin_pool_segment(pool, 0, &info), -EINVAL);
		assert_int_equal(hugepin_block_segment(pool, p, &info), -EINVAL);
	}
	give(pool, p);
	end_pool(pool);
}

/* C070, as far as it is without events */
static void active_bytes_end_at_zero(void **state)
{
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_PINNED);
	struct hugepin_pool_stats stats;
	char *p[3];
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++)
		p[i] = take(pool, HPI_MIB(1) << i);
	assert_int_equal(stats_of(pool).active_bytes, HPI_MIB(7));
	for (i = 0; i < 3; i++) {
		give(pool, p[i]);
		assert_int_equal(stats_of(pool).active_bytes, HPI_MIB(7) - (HPI_MIB(2) << i) + HPI_MIB(1));
	}
	stats = stats_of(pool);
	assert_int_equal(stats.allocs, 3);
	assert_int_equal(stats.frees, 3);
	assert_int_equal(stats.active_blocks, 0);
	assert_int_equal(stats.peak_active_bytes, HPI_MIB(7));
	assert_int_equal(stats.peak_mapped_bytes, HPI_MIB(8));
	end_pool(pool);
}

static int in_child(int (*fn)(struct hugepin_pool *, char *), struct hugepin_pool *pool, char *p)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(fn(pool, p));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Returns the line at fault: assertions of a child would be lost. */
#define CHILD_ASSERT(x)	do { if (!(x)) return __LINE__ % 200 + 1; } while (0)

static int child_reads_and_is_refused(struct hugepin_pool *pool, char *p)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };
	struct hugepin_pool *own;
	struct hugepin_context *ctx;
	char *q;
	size_t i;

	for (i = 0; i < HPI_MIB(8); i++)
		CHILD_ASSERT(p[i] == (char)0xa5);
	CHILD_ASSERT(!hugepin_alloc(pool, 64, 0) && errno == EPERM);
	CHILD_ASSERT(!hugepin_alloc(pool, 0, 0) && errno == EPERM);
	CHILD_ASSERT(!hugepin_realloc(pool, p, 64) && errno == EPERM);
	CHILD_ASSERT(hugepin_free(pool, p) == -EPERM);
	CHILD_ASSERT(hugepin_pool_trim(pool, 0) == -EPERM);
	CHILD_ASSERT(hugepin_pool_stats_get(pool, &stats) == -EPERM);
	CHILD_ASSERT(hugepin_pool_create(pool->ctx, HUGEPIN_POOL_HOST, &own) == -EPERM);
	CHILD_ASSERT(!hugepin_context_create(NULL, &ctx) && !hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &own));
	q = hugepin_alloc(own, HPI_MIB(4), 0);
	CHILD_ASSERT(q);
	memset(q, 1, HPI_MIB(4));
	CHILD_ASSERT(!hugepin_free(own, q) && !hugepin_pool_destroy(own) && !hugepin_context_destroy(ctx));
	/* Ending the parent's pool here forgets it here, and the memory stays readable. */
	CHILD_ASSERT(!hugepin_pool_destroy(pool));
	CHILD_ASSERT(p[HPI_MIB(8) - 1] == (char)0xa5);
	return 0;
}

/* C021, C023 */
static void a_child_reads_every_byte_and_its_calls_are_refused(void **state)
{
	struct hugepin_pool *pool = base_pool(HUGEPIN_POOL_PINNED);
	char *p = take(pool, HPI_MIB(8)), *more[3];
	size_t i;

	(void)state;
	memset(p, 0xa5, HPI_MIB(8));
	assert_int_equal(in_child(child_reads_and_is_refused, pool, p), 0);
	assert_int_equal(runtime.unregisters, 0);
	for (i = 0; i < 3; i++) {
		more[i] = take(pool, HPI_MIB(4));
		memset(more[i], 0x5a, HPI_MIB(4));
	}
	for (i = 0; i < HPI_MIB(8); i++)
		assert_int_equal(p[i], (char)0xa5);
	give(pool, p);
	for (i = 0; i < 3; i++)
		give(pool, more[i]);
	end_pool(pool);
}

#define THREADS		4
#define THREAD_BLOCKS	64

struct worker {
	struct hugepin_pool *pool;
	uint64_t seed;
	void **exchange;			/* one slot each pair of threads hands blocks over in */
};

static uint64_t roll(struct worker *w, uint64_t sides)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return w->seed % sides;
}

static void fill(uint64_t *p, uint64_t bytes)
{
	p[0] = bytes;
	p[1] = (uintptr_t)p;
	p[bytes / 8 - 1] = ~(uintptr_t)p;
}

static void check_and_free(struct hugepin_pool *pool, uint64_t *p)
{
	uint64_t bytes = p[0];

	if (p[1] != (uintptr_t)p || p[bytes / 8 - 1] != ~(uintptr_t)p || hugepin_free(pool, p))
		abort();
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t *mine[THREAD_BLOCKS] = { NULL }, bytes;
	void **slot;
	unsigned int step;
	size_t i;

	for (step = 0; step < 20000; step++) {
		i = roll(w, THREAD_BLOCKS);
		if (mine[i]) {
			slot = &w->exchange[roll(w, THREADS)];
			/* Half of the blocks are freed by whoever finds them. */
			if (roll(w, 2))
				mine[i] = __atomic_exchange_n(slot, mine[i], __ATOMIC_ACQ_REL);
			if (mine[i])
				check_and_free(w->pool, mine[i]);
			mine[i] = NULL;
			continue;
		}
		bytes = 64 + roll(w, roll(w, 8) ? 4096 : HPI_MIB(1)) / 8 * 8;
		mine[i] = hugepin_alloc_aligned(w->pool, 64ull << roll(w, 4), bytes, 0);
		if (!mine[i])
			abort();
		fill(mine[i], bytes);
		if (step % 4096 == 0)
			hugepin_pool_trim(w->pool, 0);
	}
	for (i = 0; i < THREAD_BLOCKS; i++) {
		if (mine[i])
			check_and_free(w->pool, mine[i]);
	}
	return NULL;
}

/* C052: a block may be freed by another thread. */
static void threads_share_a_pool(void **state)
{
	struct hugepin_pool *pool = base_pool(HUGEPIN_POOL_PINNED);
	void *exchange[THREADS] = { NULL };
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	size_t i;

	(void)state;
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ pool, i * 7919 + 1, exchange };
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (i = 0; i < THREADS; i++) {
		if (exchange[i])
			check_and_free(pool, exchange[i]);
	}
	assert_int_equal(stats_of(pool).active_blocks, 0);
	assert_int_equal(stats_of(pool).allocs, stats_of(pool).frees);
	end_pool(pool);
}

static void *grow_slowly(void *pool)
{
	return hugepin_alloc(pool, HPI_MIB(64), 0);
}

/* C052: registering takes minutes for large memory; the pool's other users do not wait for it. */
static void blocks_come_and_go_while_the_pool_registers(void **state)
{
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_PINNED), *other = fake_pool(HUGEPIN_POOL_PINNED);
	pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
	void *slow, *first, *second;
	pthread_t thread;

	(void)state;
	first = take(pool, HPI_MIB(1));
	second = take(other, HPI_MIB(1));
	pthread_mutex_lock(&held);
	runtime.held = &held;
	assert_int_equal(pthread_create(&thread, NULL, grow_slowly, pool), 0);
	while (!stats_of(pool).deferred_bytes)
		usleep(100);
	give(pool, first);
	first = take(pool, HPI_MIB(2));
	give(other, second);
	second = take(other, HPI_MIB(2));
	assert_int_equal(stats_of(pool).registered_bytes, HPI_MIB(2));
	pthread_mutex_unlock(&held);
	assert_int_equal(pthread_join(thread, &slow), 0);
	assert_non_null(slow);
	runtime.held = NULL;
	give(pool, slow);
	give(pool, first);
	give(other, second);
	end_pool(pool);
	end_pool(other);
}

static int calls_until_failure;

static int fail_calloc(const char *call)
{
	return strcmp(call, "calloc") || calls_until_failure-- ? 0 : ENOMEM;
}

static int fail_mmap(const char *call)
{
	return strcmp(call, "mmap") ? 0 : ENOMEM;
}

static unsigned int mmaps_until_success;

static int fail_first_mmaps(const char *call)
{
	if (strcmp(call, "mmap") || !mmaps_until_success)
		return 0;
	mmaps_until_success--;
	return ENOMEM;
}

static void creation_fails_cleanly(void **state)
{
	struct hugepin_context *ctx = make_context(NULL);
	struct hugepin_pool *pool = NULL;
	int i, err = -ENOMEM;

	(void)state;
	hpi_sys_fault = fail_mmap;
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "address space"));
	hpi_sys_fault = fail_calloc;
	for (i = 0; err; i++) {
		calls_until_failure = i;
		err = hugepin_pool_create(ctx, HUGEPIN_POOL_HOST, &pool);
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_null(pool);
		}
	}
	assert_in_range(i, 6, 12);
	hpi_sys_fault = NULL;
	end_pool(pool);
}

/* Each bookkeeping allocation of a first block fails once; then nothing is mapped, registered or counted. */
static void a_block_fails_cleanly_without_memory_for_bookkeeping(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context("cache_cap", "0", NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m,
						 NULL);
	char *p = NULL;
	int i;

	(void)state;
	hpi_sys_fault = fail_calloc;
	for (i = 0; !p; i++) {
		calls_until_failure = i;
		p = hugepin_alloc(pool, 1000, 0);
		if (p)
			break;
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(stats_of(pool).active_bytes, 0);
		assert_int_equal(stats_of(pool).mapped_bytes, 0);
		assert_int_equal(runtime.bytes, 0);
		assert_int_equal(source_2m.left, 64 * HPI_1G);
	}
	assert_in_range(i, 3, 16);
	hpi_sys_fault = NULL;
	give(pool, p);
	end_pool(pool);
}

static void realloc_to_nothing_needs_no_memory(void **state)
{
	struct hugepin_pool *pool = fake_pool(HUGEPIN_POOL_HOST);
	char *p = take(pool, HPI_MIB(3)), *q, *nothing[1000];
	size_t count = 0, i;
	uint64_t failed;

	(void)state;
	/* What the books of zero-size blocks have in store is used up first. */
	hpi_sys_fault = fail_calloc;
	do
		calls_until_failure = 0;
	while (count < 1000 && (nothing[count] = hugepin_alloc(pool, 0, 0)) && ++count);
	assert_in_range(count, 1, 999);
	failed = stats_of(pool).failed_allocs;
	calls_until_failure = 0;
	q = hugepin_realloc(pool, p, 0);
	hpi_sys_fault = NULL;
	assert_ptr_equal(q, p);
	assert_string_equal(hugepin_error(), "");
	for (i = 0; i < count; i++)
		give(pool, nothing[i]);
	assert_int_equal(stats_of(pool).requested_bytes, 0);
	assert_int_equal(stats_of(pool).active_bytes, 64);
	assert_int_equal(stats_of(pool).active_blocks, 1);
	assert_int_equal(stats_of(pool).failed_allocs, failed);
	/* It is a block of no bytes like any other. */
	q = hugepin_realloc(pool, q, 0);
	assert_non_null(q);
	assert_int_equal(stats_of(pool).active_bytes, 0);
	q = hugepin_realloc(pool, q, 1000);
	assert_int_equal(stats_of(pool).requested_bytes, 1000);
	give(pool, q);
	end_pool(pool);
}

static void a_limited_address_space_is_left_to_the_program(void **state)
{
	static const uint64_t left[] = { HPI_GIB(4), HPI_GIB(16), HPI_GIB(200) };
	struct hugepin_context *ctx = make_context(NULL);
	struct rlimit before, limit;
	struct hugepin_pool *pool;
	size_t i, window;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	for (i = 0; i < 3; i++) {
		limit = before;
		limit.rlim_cur = address_space_used() + left[i];
		assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
		pool = make_pool(ctx, HUGEPIN_POOL_HOST);
		assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
		window = (size_t)(pool->window_end - pool->window);
		assert_true(window >= HPI_1G);
		assert_true(window == HPI_1G || pool->reserved_bytes <= left[i] / 4);
		assert_true(pool->reserved_bytes <= left[i] / 2);
		pool->ladder.count = 1;
		pool->ladder.rungs[0] = rung_2m;
		give(pool, take(pool, 0));
		give(pool, take(pool, HPI_MIB(3)));
		assert_int_equal(hugepin_pool_destroy(pool), 0);
	}
	/* A limit that nobody told of: both ranges become smaller until they fit. */
	mmaps_until_success = 3;
	hpi_sys_fault = fail_first_mmaps;
	pool = make_pool(ctx, HUGEPIN_POOL_HOST);
	hpi_sys_fault = NULL;
	assert_true(pool->window_end - pool->window <= (ptrdiff_t)(4 * ctx->topology.memory_bytes / 8 + HPI_1G) ||
		    pool->window_end - pool->window <= (ptrdiff_t)HPI_GIB(8));
	assert_true(pool->nothing_end - pool->nothing <= (pool->window_end - pool->window) / 4);
	end_pool(pool);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STACKS_ARE_OURS	true
#else
#define STACKS_ARE_OURS	false			/* sanitizers put their own things there */
#endif

static void *grow_and_fail(void *arg)
{
	struct hugepin_pool *pool = arg;
	struct hugepin_context *ctx;
	void *p = hugepin_alloc(pool, HPI_MIB(3), 0);

	p = hugepin_realloc(pool, p, HPI_MIB(5));
	if (!p || hugepin_alloc(pool, 1ull << 46, 0) || hugepin_free(pool, p) || hugepin_pool_trim(pool, 0) <= 0)
		return arg;
	if (hugepin_context_create(NULL, &ctx) || hugepin_context_destroy(ctx))
		return arg;
	return NULL;
}

static void a_stack_of_a_few_pages_is_enough(void **state)
{
	struct hugepin_context *ctx = make_context("pinned_ladder", "hugetlb:2M,thp,base", NULL);
	struct hugepin_pool *pool = make_pool(ctx, HUGEPIN_POOL_PINNED);
	pthread_attr_t attributes;
	pthread_t thread;
	void *failed;

	(void)state;
	assert_int_equal(pthread_attr_init(&attributes), 0);
	assert_int_equal(pthread_attr_setstacksize(&attributes, (STACKS_ARE_OURS ? 40 : 1024) * KIB), 0);
	assert_int_equal(pthread_create(&thread, &attributes, grow_and_fail, pool), 0);
	assert_int_equal(pthread_join(thread, &failed), 0);
	pthread_attr_destroy(&attributes);
	assert_null(failed);
	end_pool(pool);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(blocks_are_apart_aligned_and_resident),
		TEST(what_is_mapped_is_the_request_in_whole_pages),
		TEST(the_cap_holds_for_what_is_locked),
		TEST(alignments_are_powers_of_two_up_to_1g),
		TEST(sizes_that_wrap_are_refused_and_change_nothing),
		TEST(zero_size_blocks_take_no_memory),
		TEST(realloc_shrinks_always_and_keeps_the_block_when_it_cannot_grow),
		TEST(realloc_keeps_the_contents_from_4k_to_1g),
		TEST(zero_flag_gives_zeroes_and_does_not_touch_fresh_memory),
		TEST(unknown_flags_and_foreign_pointers_are_refused),
		TEST(a_longer_struct_is_filled_up_with_zeroes),
		TEST(a_size_that_nobody_set_is_refused),
		TEST(active_bytes_end_at_zero),
		TEST(a_child_reads_every_byte_and_its_calls_are_refused),
		TEST(threads_share_a_pool),
		TEST(blocks_come_and_go_while_the_pool_registers),
		TEST(creation_fails_cleanly),
		TEST(a_block_fails_cleanly_without_memory_for_bookkeeping),
		TEST(realloc_to_nothing_needs_no_memory),
		TEST(a_limited_address_space_is_left_to_the_program),
		TEST(a_stack_of_a_few_pages_is_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
