// SPDX-License-Identifier: MIT
/*
 * Threads do everything at once to one pool: blocks of every kind come and go by every way there is, scopes and plans
 * open and close, the pool is trimmed, collected and polled, while one thread looks at the numbers, which must always
 * add up. Every block bears its owner's mark at both ends for as long as it is his. Meant for ThreadSanitizer, too.
 *
 * STORM_SECONDS=N in the environment makes the crowd's storm last so long (tests/stress/pools).
 */
#include <stdatomic.h>
#include <time.h>

#include "fence_world.h"

#define WORKERS 4
#define SLOTS 32
#define ROUNDS 1000

/* cmocka's own end the program without a word outside its thread. */
#define MUST(x)                                                                                  \
	do {                                                                                     \
		if (!(x)) {                                                                      \
			print_error("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, hugepin_error()); \
			abort();                                                                 \
		}                                                                                \
	} while (0)

struct block {
	char *p;
	uint64_t bytes;
};

struct worker {
	pthread_t thread;
	struct hugepin_pool *pool;
	uint64_t random;
	struct block own[SLOTS];
	uint64_t done;
};

static bool over; /* atomic: the workers have ended */
static int64_t watched; /* bytes of segments that a watch knows of */

static uint64_t next(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static uint64_t some_bytes(struct worker *w)
{
	static const uint64_t most[] = { 256, 8 * KIB, 40 * KIB, HPI_MIB(3) };

	return 16 + next(w) % most[next(w) % 4];
}

/* ---- marks ---- */

static void mark(const struct worker *w, char *p, uint64_t bytes)
{
	memcpy(p, &w, sizeof(w));
	memcpy(p + bytes - sizeof(w), &w, sizeof(w));
}

static void check_mark(const struct worker *w, const char *p, uint64_t bytes)
{
	MUST(!memcmp(p, &w, sizeof(w)));
	MUST(!memcmp(p + bytes - sizeof(w), &w, sizeof(w)));
}

static char *marked(const struct worker *w, void *p, uint64_t bytes)
{
	MUST(p);
	mark(w, p, bytes);
	return p;
}

/* ---- what a worker does ---- */

static void swap_block(struct worker *w)
{
	struct block *b = &w->own[next(w) % SLOTS];
	void *stream = &device.streams[next(w) % STREAMS];

	if (!b->p) {
		b->bytes = some_bytes(w);
		b->p = marked(w,
			      next(w) % 2 ? hugepin_alloc(w->pool, b->bytes, 0) :
					    hugepin_alloc_on(w->pool, b->bytes, 0, stream),
			      b->bytes);
		return;
	}
	check_mark(w, b->p, b->bytes);
	switch (next(w) % 4) {
	case 0:
		MUST(!hugepin_free(w->pool, b->p));
		break;
	case 1:
		MUST(!hugepin_free_after(w->pool, b->p, NULL, 0));
		break;
	default:
		MUST(!hugepin_free_after(w->pool, b->p, &(void *){ work_on(next(w) % STREAMS) }, 1));
	}
	b->p = NULL;
}

static void resize_block(struct worker *w)
{
	struct block *b = &w->own[next(w) % SLOTS];

	if (!b->p)
		return;
	check_mark(w, b->p, b->bytes);
	b->bytes = some_bytes(w);
	b->p = marked(w, hugepin_realloc(w->pool, b->p, b->bytes), b->bytes);
}

static void use_scope(struct worker *w)
{
	struct hugepin_scope *scope;
	struct block b[8];
	size_t i;

	MUST(!hugepin_scope_open(w->pool, &scope));
	for (i = 0; i < 8; i++) {
		b[i].bytes = some_bytes(w);
		b[i].p = marked(w, hugepin_scope_alloc(scope, b[i].bytes, 0), b[i].bytes);
	}
	MUST(!hugepin_free(w->pool, b[0].p));
	MUST(!hugepin_free_after(w->pool, b[1].p, &(void *){ work_on(0) }, 1));
	b[2].bytes += KIB;
	b[2].p = marked(w, hugepin_realloc(w->pool, b[2].p, b[2].bytes), b[2].bytes);
	for (i = 2; i < 8; i++)
		check_mark(w, b[i].p, b[i].bytes);
	hugepin_scope_close(scope);
}

static void use_plan(struct worker *w)
{
	uint64_t bytes = some_bytes(w), clean_bytes = some_bytes(w);
	struct hugepin_plan *plan;
	char *p, *clean;

	MUST(!hugepin_plan_begin(w->pool, bytes, &plan));
	p = marked(w, hugepin_plan_alloc(plan, bytes, 0), bytes);
	clean = hugepin_plan_alloc(plan, clean_bytes, HUGEPIN_ALLOC_CLEAN);
	MUST(clean); /* another thread may be clearing it: it is not looked into */
	check_mark(w, p, bytes);
	if (next(w) % 2)
		MUST(!hugepin_free(w->pool, clean));
	else if (next(w) % 2)
		MUST(!hugepin_free_after(w->pool, p, &(void *){ work_on(1) }, 1));
	hugepin_plan_end(plan);
}

static void use_group(struct worker *w)
{
	const uint64_t sizes[4] = { some_bytes(w), some_bytes(w), some_bytes(w), some_bytes(w) };
	void *p[4];
	size_t i;

	MUST(!hugepin_group_alloc(w->pool, sizes, 4, 0, p));
	for (i = 0; i < 4; i++)
		mark(w, p[i], sizes[i]);
	for (i = 0; i < 4; i++) {
		check_mark(w, p[i], sizes[i]);
		MUST(!hugepin_free(w->pool, p[i]));
	}
}

static void use_batch(struct worker *w)
{
	uint64_t bytes = some_bytes(w);
	void *p[6];
	size_t i;

	MUST(!hugepin_alloc_batch(w->pool, bytes, 6, 0, p));
	for (i = 0; i < 6; i++)
		mark(w, p[i], bytes);
	MUST(hugepin_usable_bytes(w->pool, p[0]) >= bytes);
	for (i = 0; i < 6; i++)
		check_mark(w, p[i], bytes);
	MUST(!hugepin_free_batch(w->pool, p, 6));
}

static void tend(struct worker *w)
{
	switch (next(w) % 5) {
	case 0:
		MUST(hugepin_pool_trim(w->pool, next(w) % HPI_MIB(64)) >= 0);
		break;
	case 1:
		MUST(hugepin_pool_collect(w->pool) >= 0);
		break;
	case 2:
		MUST(hugepin_pool_poll(w->pool) >= 0);
		break;
	case 3:
		MUST(hugepin_pool_clean(w->pool) >= 0);
		break;
	default:
		work_done(next(w) % STREAMS);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		switch (next(w) % 32) {
		case 0:
			use_scope(w);
			break;
		case 1:
			use_plan(w);
			break;
		case 2:
			use_group(w);
			break;
		case 3:
			use_batch(w);
			break;
		case 4:
			tend(w);
			break;
		case 5:
		case 6:
			resize_block(w);
			break;
		default:
			swap_block(w);
		}
	}
	for (i = 0; i < SLOTS; i++) {
		if (w->own[i].p) {
			check_mark(w, w->own[i].p, w->own[i].bytes);
			MUST(!hugepin_free(w->pool, w->own[i].p));
		}
	}
	return NULL;
}

/* ---- who looks on ---- */

static void look_once(const struct hugepin_pool *pool)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };

	MUST(!hugepin_pool_stats_get(pool, &stats));
	MUST(stats.active_bytes + stats.cached_bytes + stats.deferred_bytes + stats.free_bytes == stats.mapped_bytes);
	MUST(stats.requested_bytes <= stats.active_bytes && stats.active_bytes <= stats.peak_active_bytes);
	MUST(stats.allocs >= stats.frees);
	MUST(stats.requested_bytes <= stats.peak_requested_bytes && stats.registered_bytes <= stats.mapped_bytes);
}

static int count_bytes(const struct hugepin_block_info *info, void *arg)
{
	*(uint64_t *)arg += info->bytes;
	return 0;
}

static void watch_segment(enum hugepin_segment_event event, const struct hugepin_segment_info *info, void *arg)
{
	int64_t *watched = arg;

	*watched += event == HUGEPIN_SEGMENT_CAME ? (int64_t)info->bytes : -(int64_t)info->bytes;
	MUST(*watched >= 0);
}

static void *look(void *arg)
{
	struct hugepin_pool *pool = arg;
	struct hugepin_segment_info info = { .size = sizeof(info) };
	uint64_t bytes;
	size_t looks = 0;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		look_once(pool);
		hugepin_pool_segment(pool, looks % 4, &info);
		bytes = 0;
		MUST(!hugepin_pool_each_block(pool, count_bytes, &bytes));
		MUST(bytes % HPI_2M == 0); /* of whole segments */
		looks++;
	}
	return looks ? NULL : arg;
}

static void storm(bool watching, const char *key, ...)
{
	static const char *const none[] = { "register_threads", "1" };
	const char *words[4] = { none[0], none[1], none[0], none[1] };
	struct worker workers[WORKERS] = { 0 };
	struct hugepin_watch *watch;
	struct hugepin_pool *pool;
	pthread_t looker;
	va_list args;
	size_t i;
	void *failed;

	va_start(args, key);
	for (i = 0; key && i < 4; i++, key = va_arg(args, const char *))
		words[i] = key;
	va_end(args);
	pool = device_pool(make_context("static_memory_policy", "3", words[0], words[1], words[2], words[3], NULL));
	poller_run();
	watched = 0;
	if (watching)
		assert_int_equal(hugepin_segment_watch(pool, watch_segment, &watched, &watch), 0);
	over = false;
	assert_int_equal(pthread_create(&looker, NULL, look, pool), 0);
	for (i = 0; i < WORKERS; i++) {
		workers[i].pool = pool;
		workers[i].random = 0x9e3779b97f4a7c15ull * (i + 1);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(looker, &failed);
	assert_null(failed);
	for (i = 0; i < STREAMS; i++)
		work_done(i);
	assert_int_equal(hugepin_pool_drain(pool), 0);
	hugepin_pool_collect(pool);
	assert_int_equal(stats_of(pool).active_blocks, 0);
	assert_int_equal(stats_of(pool).requested_bytes, 0);
	if (watching)
		assert_int_equal(watched, stats_of(pool).mapped_bytes);
	end_device_pool(pool);
	assert_int_equal(watched, 0);
}

static void all_at_once(void **state)
{
	(void)state;
	storm(false, NULL);
}

static void all_at_once_while_garbage_gathers(void **state)
{
	(void)state;
	storm(false, "FLAGS_eager_delete_tensor_gb", "0.01", "FLAGS_memory_fraction_of_eager_deletion", "0.5", NULL);
}

static void all_at_once_while_scopes_close_in_the_background(void **state)
{
	(void)state;
	storm(false, "FLAGS_eager_delete_scope", "false", "atomic_clean_policy", "1", NULL);
}

static void all_at_once_against_a_cap(void **state)
{
	(void)state;
	storm(false, "pinned_cap", "4G", "cache_cap", "0", NULL);
}

static void all_at_once_before_a_watch(void **state)
{
	(void)state;
	storm(true, NULL);
}

/* ---- a crowd: 64 threads that give each other their blocks ---- */

#define CROWD 64
#define TABLE 128 /* where blocks are laid down and picked up */
#define CROWD_ROUNDS 150

struct crowd {
	struct hugepin_pool *pool;
	_Atomic(uint64_t *) table[TABLE];
	atomic_bool over;
	atomic_ullong allocs, remote_frees, tended, looks, watches;
	time_t until; /* 0: CROWD_ROUNDS each */
};

struct member {
	pthread_t thread;
	struct crowd *crowd;
	struct worker random;
};

/* A block's length, at both ends, tells whoever frees it whether it is whole. */
static uint64_t *lay_down(uint64_t *p, uint64_t bytes)
{
	MUST(p);
	p[0] = bytes;
	p[bytes / sizeof(*p) - 1] = bytes;
	return p;
}

static void free_picked_up(struct crowd *crowd, struct worker *w, uint64_t *p)
{
	uint64_t bytes = p[0];

	MUST(bytes >= 2 * sizeof(*p) && p[bytes / sizeof(*p) - 1] == bytes);
	switch (next(w) % 8) {
	case 0:
		MUST(!hugepin_free_after(crowd->pool, p, &(void *){ work_on(next(w) % STREAMS) }, 1));
		break;
	case 1:
		MUST(!hugepin_free_after(crowd->pool, p, NULL, 0));
		break;
	case 2:
		MUST(!hugepin_free_batch(crowd->pool, (void *[]){ p }, 1));
		break;
	default:
		MUST(!hugepin_free(crowd->pool, p));
	}
	crowd->remote_frees++;
}

static bool goes_on(const struct crowd *crowd, unsigned int round)
{
	return crowd->until ? time(NULL) < crowd->until : round < CROWD_ROUNDS;
}

/* What lies in the table is mostly another thread's. */
static void *be_in_crowd(void *arg)
{
	struct member *m = arg;
	struct crowd *crowd = m->crowd;
	struct worker *w = &m->random;
	uint64_t bytes, *p;
	unsigned int round;

	for (round = 0; goes_on(crowd, round); round++) {
		bytes = (some_bytes(w) + 2 * sizeof(*p)) & ~(sizeof(*p) - 1);
		p = lay_down(hugepin_alloc(crowd->pool, bytes, 0), bytes);
		crowd->allocs++;
		p = atomic_exchange(&crowd->table[next(w) % TABLE], p);
		if (p)
			free_picked_up(crowd, w, p);
		if (next(w) % 32 == 0) {
			tend(w);
			crowd->tended++;
		}
	}
	return NULL;
}

static void *look_at_crowd(void *arg)
{
	struct crowd *crowd = arg;
	uint64_t bytes;

	while (!crowd->over) {
		look_once(crowd->pool);
		bytes = 0;
		MUST(!hugepin_pool_each_block(crowd->pool, count_bytes, &bytes));
		MUST(bytes % HPI_2M == 0);
		crowd->looks++;
	}
	return NULL;
}

/* A watch that comes late is told of all segments there are, and of none after it went. */
static void *watch_crowd(void *arg)
{
	struct crowd *crowd = arg;
	struct hugepin_watch *watch;
	int64_t bytes;

	while (!crowd->over) {
		bytes = 0;
		MUST(!hugepin_segment_watch(crowd->pool, watch_segment, &bytes, &watch));
		sched_yield();
		hugepin_segment_unwatch(watch);
		MUST(bytes >= 0);
		crowd->watches++;
	}
	return NULL;
}

static void clear_table(struct crowd *crowd)
{
	size_t i;

	for (i = 0; i < TABLE; i++)
		if (crowd->table[i])
			MUST(!hugepin_free(crowd->pool, crowd->table[i]));
}

static void sixty_four_threads_free_each_other_s_blocks(void **state)
{
	const char *seconds = getenv("STORM_SECONDS");
	struct crowd *crowd = test_calloc(1, sizeof(*crowd));
	struct member *members = test_calloc(CROWD, sizeof(*members));
	pthread_t lookers[2], watcher;
	size_t i;

	(void)state;
	crowd->pool = device_pool(make_context("register_threads", "1", NULL));
	crowd->until = seconds ? time(NULL) + strtol(seconds, NULL, 10) : 0;
	poller_run();
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&lookers[i], NULL, look_at_crowd, crowd), 0);
	assert_int_equal(pthread_create(&watcher, NULL, watch_crowd, crowd), 0);
	for (i = 0; i < CROWD; i++) {
		members[i].crowd = crowd;
		members[i].random = (struct worker){ .pool = crowd->pool, .random = 0x9e3779b97f4a7c15ull * (i + 1) };
		assert_int_equal(pthread_create(&members[i].thread, NULL, be_in_crowd, &members[i]), 0);
	}
	for (i = 0; i < CROWD; i++)
		pthread_join(members[i].thread, NULL);
	crowd->over = true;
	for (i = 0; i < 2; i++)
		pthread_join(lookers[i], NULL);
	pthread_join(watcher, NULL);
	clear_table(crowd);
	for (i = 0; i < STREAMS; i++)
		work_done(i);
	assert_int_equal(hugepin_pool_drain(crowd->pool), 0);
	hugepin_pool_collect(crowd->pool);
	assert_int_equal(stats_of(crowd->pool).active_blocks, 0);
	assert_int_equal(stats_of(crowd->pool).requested_bytes, 0);
	print_message("%d threads: %llu allocations, %llu blocks freed by others, %llu trims and the like, "
		      "%llu looks at the statistics, %llu watches\n", CROWD, crowd->allocs, crowd->remote_frees,
		      crowd->tended, crowd->looks, crowd->watches);
	end_device_pool(crowd->pool);
	test_free(members);
	test_free(crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(all_at_once),
		DEVICE_TEST(all_at_once_while_garbage_gathers),
		DEVICE_TEST(all_at_once_while_scopes_close_in_the_background),
		DEVICE_TEST(all_at_once_against_a_cap),
		DEVICE_TEST(all_at_once_before_a_watch),
		DEVICE_TEST(sixty_four_threads_free_each_other_s_blocks),
	};

	if (getenv("STORM_SECONDS"))
		cmocka_set_test_filter("sixty_four_*");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
