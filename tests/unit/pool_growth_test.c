// SPDX-License-Identifier: MIT
/*
 * How pools grow, fall back, keep to their cap and give memory back; with sources of pages that the test controls,
 * and with the machine's own huge pages where they can be had.
 */
#include "pool_world.h"

#include <signal.h>
#include <sys/wait.h>

static void a_growth_maps_only_what_the_free_space_before_it_lacks(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	char *a, *b;

	(void)state;
	a = take(pool, HPI_MIB(3));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(4));
	b = take(pool, HPI_MIB(5));
	assert_ptr_equal(b, a + HPI_MIB(3));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(8));
	assert_int_equal(stats_of(pool).segments, 2);
	/* The block spans both segments, and each can be asked for. */
	assert_ptr_equal(segment_of_block(pool, b).addr, a);
	assert_ptr_equal(segment_of_block(pool, b + HPI_MIB(5) - 1).addr, a + HPI_MIB(4));
	give(pool, a);
	give(pool, b);
	assert_ptr_equal(take(pool, HPI_MIB(8)), a);
	assert_int_equal(source_2m.maps, 2);
	give(pool, a);
	end_pool(pool);
}

static void small_growths_take_a_little_more_once_much_is_mapped(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	static char *p[4096];
	size_t i;

	(void)state;
	for (i = 0; i < 4096; i++)
		p[i] = take(pool, HPI_MIB(2));
	/* 8 GiB in steps of 2 MiB: not 4096 segments, and not more than one part in 128 too much. */
	assert_in_range(stats_of(pool).segments, 1, 700);
	assert_in_range(stats_of(pool).mapped_bytes, HPI_GIB(8), HPI_GIB(8) + HPI_GIB(8) / 128);
	for (i = 0; i < 4096; i++)
		give(pool, p[i]);
	end_pool(pool);
}

static void a_block_at_the_end_grows_with_the_pool(void **state)
{
	struct hugepin_context *ctx = make_context("host_cap", "16M", NULL);
	struct hugepin_pool *pool = make_pool_on(ctx, HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	char *p, *small;

	(void)state;
	small = take(pool, HPI_MIB(1));
	p = take(pool, HPI_MIB(9));
	/* A copy would not fit under the cap. */
	assert_ptr_equal(hugepin_realloc(pool, p, HPI_MIB(15)), p);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(16));
	assert_null(hugepin_realloc(pool, p, HPI_MIB(15) + 1));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(stats_of(pool).requested_bytes, HPI_MIB(16));
	give(pool, p);
	give(pool, small);
	end_pool(pool);
}

static void space_that_trimming_left_is_mapped_again(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	char *a, *b, *c;

	(void)state;
	a = take(pool, HPI_MIB(4));
	b = take(pool, HPI_MIB(8));
	c = take(pool, HPI_MIB(2));
	give(pool, b);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(8));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(6));
	assert_int_equal(runtime.bytes, HPI_MIB(6));
	assert_ptr_equal(take(pool, HPI_MIB(6)), b);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(12));
	/* Too large for the gap that is left: behind everything. */
	assert_ptr_equal(take(pool, HPI_MIB(4)), c + HPI_MIB(2));
	give(pool, a);
	give(pool, b);
	give(pool, c);
	give(pool, c + HPI_MIB(2));
	end_pool(pool);
}

static void trim_stops_at_what_is_to_be_kept(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	char *p[4];
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++)
		p[i] = take(pool, HPI_MIB(2));
	give(pool, p[0]);
	give(pool, p[2]);
	give(pool, p[3]);
	assert_int_equal(hugepin_pool_trim(pool, HPI_MIB(7)), HPI_MIB(2));
	assert_int_equal(hugepin_pool_trim(pool, HPI_MIB(6)), 0);
	/* The end goes first. */
	assert_ptr_equal(segment_of_block(pool, p[2]).addr, p[2]);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(4));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(2));
	give(pool, p[1]);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(2));
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	end_pool(pool);
}

/* C012: 2 GiB in 1G pages are there, 3 GiB are taken in steps of 64 MiB. */
static void falling_back_is_said_once_counted_and_told_of_each_block(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 2, &rung_1g, &rung_base);
	struct hugepin_segment_info first, last;
	struct hugepin_pool_stats stats;
	uint64_t in_1g = 0, in_base = 0;
	char *p[48];
	size_t i;

	(void)state;
	source_1g.left = HPI_GIB(2);
	for (i = 0; i < 48; i++) {
		p[i] = take(pool, HPI_MIB(64));
		first = segment_of_block(pool, p[i]);
		last = segment_of_block(pool, p[i] + HPI_MIB(64) - 1);
		assert_int_equal(first.page_bytes, last.page_bytes);
		in_1g += first.page_bytes == HPI_1G;
		in_base += first.page_bytes == 4096;
	}
	assert_int_equal(in_1g, 32);
	assert_int_equal(in_base, 16);
	stats = stats_of(pool);
	assert_int_equal(told.warnings, 1);
	assert_int_equal(told.errors, 0);
	assert_non_null(strstr(told.last, "asked 1 pages of 1073741824, 0 available"));
	assert_in_range(stats.fallbacks, 1, 16);
	assert_int_equal(stats.fallbacks, source_base.maps);
	for (i = 0; i < 48; i++)
		give(pool, p[i]);
	end_pool(pool);
	assert_int_equal(source_1g.left, HPI_GIB(2));
	source_1g.left = 64 * HPI_1G;
}

/* C012: one rung is strict. */
static void a_ladder_of_one_rung_refuses(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_1g, NULL);

	(void)state;
	source_1g.left = HPI_GIB(2);
	assert_null(hugepin_alloc(pool, HPI_GIB(2) + 1, 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "asked 3 pages of 1073741824, 2 available"));
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	source_1g.err = -EDQUOT;
	assert_null(hugepin_alloc(pool, HPI_GIB(2) + 1, 0));
	assert_int_equal(errno, EDQUOT);
	source_1g.err = -ENODEV;
	assert_null(hugepin_alloc(pool, HPI_GIB(2) + 1, 0));
	assert_int_equal(errno, ENOMEM);
	source_1g.left = 64 * HPI_1G;
	end_pool(pool);
}

/* C037: 100 GiB node divided by 1024; the fraction 0.5 is the chunk, others hold 20. */
static void a_chunk_that_does_not_fit_shrinks_to_what_is_needed(void **state)
{
	static const char *const fractions[] = { "0.5", "0.6" };
	static const uint64_t chunk[] = { HPI_MIB(50), HPI_MIB(60) };
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	char *p[3];
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		ctx = make_context("FLAGS_fraction_of_cuda_pinned_memory_to_use", fractions[i], NULL);
		ctx->topology.limit_bytes = HPI_MIB(100);
		pool = make_pool_on(ctx, HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
		source_2m.left = HPI_MIB(80);
		p[0] = take(pool, HPI_MIB(1));
		assert_int_equal(stats_of(pool).mapped_bytes, chunk[i]);
		p[1] = take(pool, chunk[i] - HPI_MIB(1));
		assert_int_equal(stats_of(pool).mapped_bytes, chunk[i]);
		p[2] = take(pool, HPI_MIB(1));
		assert_int_equal(stats_of(pool).mapped_bytes, chunk[i] + HPI_MIB(2));
		give(pool, p[0]);
		give(pool, p[1]);
		give(pool, p[2]);
		end_pool(pool);
		assert_int_equal(source_2m.left, HPI_MIB(80));
	}
	/* Cap and chunk are two settings: the cap shrinks the chunk, and is never passed. */
	ctx = make_context("FLAGS_fraction_of_cuda_pinned_memory_to_use", "0.5", "pinned_cap", "30M", NULL);
	ctx->topology.limit_bytes = HPI_MIB(100);
	pool = make_pool_on(ctx, HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	p[0] = take(pool, HPI_MIB(1));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(30));
	assert_null(hugepin_alloc(pool, HPI_MIB(30), 0));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(30));
	give(pool, p[0]);
	end_pool(pool);
	/* The dialect is Paddle's pinned pool: other pools, and pools without the option, take what is needed. */
	pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	assert_int_equal(pool->chunk_bytes, 0);
	end_pool(pool);
	source_2m.left = 64 * HPI_1G;
}

static void free_segments_give_way_to_a_block_under_the_cap(void **state)
{
	struct hugepin_context *ctx = make_context("host_cap", "32M", NULL);
	struct hugepin_pool *pool = make_pool_on(ctx, HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	char *a, *b, *c;

	(void)state;
	a = take(pool, HPI_MIB(12));
	b = take(pool, HPI_MIB(2));
	c = take(pool, HPI_MIB(12));
	give(pool, a);
	give(pool, c);
	/* 26 of 32 MiB are mapped; 18 fit only if the free 24 are not kept. */
	a = take(pool, HPI_MIB(18));
	assert_in_range(stats_of(pool).mapped_bytes, HPI_MIB(20), HPI_MIB(32));
	/* What could not help in any case stays. */
	give(pool, a);
	assert_null(hugepin_alloc(pool, HPI_MIB(31), 0));
	assert_in_range(stats_of(pool).free_bytes, HPI_MIB(18), HPI_MIB(30));
	give(pool, b);
	end_pool(pool);
}

static void a_refused_registration_leaves_nothing_mapped(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 2, &rung_2m, &rung_base);
	char *p = take(pool, HPI_MIB(2));
	struct hugepin_pool_stats before = stats_of(pool), after;

	(void)state;
	runtime.refuse_register = true;
	assert_null(hugepin_alloc(pool, HPI_MIB(8), 0));
	assert_int_equal(errno, EIO);
	assert_non_null(strstr(hugepin_error(), "code"));
	after = stats_of(pool);
	assert_int_equal(after.failed_allocs, 1);
	after.failed_allocs = 0;
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(source_2m.left, 64 * HPI_1G - HPI_MIB(2));
	assert_int_equal(source_base.maps, 0);
	runtime.refuse_register = false;
	give(pool, p);
	end_pool(pool);
}

static void what_the_runtime_will_not_let_go_stays_mapped_and_booked(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	struct hugepin_pool_stats stats;
	char *p = take(pool, HPI_MIB(4));

	(void)state;
	p[0] = 1;
	give(pool, p);
	runtime.refuse_unregister = true;
	assert_int_equal(hugepin_pool_trim(pool, 0), -EIO);
	stats = stats_of(pool);
	assert_int_equal(stats.mapped_bytes, HPI_MIB(4));
	assert_int_equal(stats.registered_bytes, HPI_MIB(4));
	assert_int_equal(stats.deferred_bytes, HPI_MIB(4));
	assert_int_equal(stats.free_bytes, 0);
	assert_int_equal(p[0], 1);
	assert_string_equal(segment_of_block(pool, p).registered, "test");
	/* The pool goes on beside it, and ends when the runtime lets go. */
	p = take(pool, HPI_MIB(4));
	give(pool, p);
	assert_int_equal(hugepin_pool_destroy(pool), -EIO);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(8));
	runtime.refuse_unregister = false;
	source_2m.refuse_unmap = true;
	assert_int_equal(hugepin_pool_trim(pool, 0), -ENOMEM);
	assert_int_equal(stats_of(pool).registered_bytes, 0);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(8));
	source_2m.refuse_unmap = false;
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(8));
	end_pool(pool);
}

static void every_block_of_a_pinned_pool_is_registered(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	char *p[64];
	size_t i;

	(void)state;
	for (i = 0; i < 64; i++) {
		p[i] = take(pool, 1 + i * 77777);
		assert_string_equal(segment_of_block(pool, p[i]).registered, "test");
		assert_true(hpi_registry_has(pool->ctx->registry, segment_of_block(pool, p[i]).addr,
					     segment_of_block(pool, p[i]).bytes));
	}
	assert_int_equal(stats_of(pool).registered_bytes, stats_of(pool).mapped_bytes);
	for (i = 0; i < 64; i++)
		give(pool, p[i]);
	end_pool(pool);
}

/* ---- variable_use_1g_huge_page ---- */

static struct hugepin_pool *ascend_pool(const char *mode)
{
	struct hugepin_context *ctx = make_context("variable_use_1g_huge_page", mode, NULL);
	struct hugepin_pool *pool = make_pool(ctx, HUGEPIN_POOL_VARIABLE);
	size_t i;

	/* Keep the ladder that the mode made, but on sources that can be counted. */
	for (i = 0; i < pool->ladder.count; i++) {
		struct hpi_rung *rung = &pool->ladder.rungs[i];

		*rung = rung->classes & HUGEPIN_CLASSES_1G ? rung_1g :
			rung->classes & HUGEPIN_CLASSES_2M ? rung_2m : rung_base;
	}
	source_1g.left = HPI_GIB(3);
	source_2m.left = 600 * HPI_2M;
	return pool;
}

static void end_ascend_pool(struct hugepin_pool *pool)
{
	end_pool(pool);
	assert_int_equal(source_1g.left, HPI_GIB(3));
	assert_int_equal(source_2m.left, 600 * HPI_2M);
	source_1g.left = 64 * HPI_1G;
	source_2m.left = 64 * HPI_1G;
}

/* C011: 3 pages of 1G and 600 of 2M are there. */
static void mode_0_takes_2m_then_base_pages(void **state)
{
	struct hugepin_pool *pool = ascend_pool("0");
	char *p, *q;

	(void)state;
	p = take(pool, HPI_GIB(1));
	assert_int_equal(segment_of_block(pool, p).page_bytes, HPI_2M);
	q = take(pool, HPI_GIB(5));
	assert_int_equal(segment_of_block(pool, q).page_bytes, 4096);
	assert_int_equal(told.errors, 0);
	assert_int_equal(told.warnings, 1);
	assert_int_equal(source_1g.maps, 0);
	give(pool, p);
	give(pool, q);
	end_ascend_pool(pool);
}

static void mode_1_takes_1g_pages_or_fails_with_one_line(void **state)
{
	struct hugepin_pool *pool = ascend_pool("1");
	char *p;

	(void)state;
	assert_null(hugepin_alloc(pool, HPI_GIB(5), 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(told.errors, 1);
	assert_non_null(strstr(told.last, "asked 5 pages of 1073741824, 3 available on node 0"));
	assert_int_equal(source_1g.left, HPI_GIB(3));
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	p = take(pool, HPI_GIB(1) + 1);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_GIB(2));
	give(pool, p);
	end_ascend_pool(pool);
}

static void mode_2_says_that_1g_pages_failed_and_takes_2m_or_nothing(void **state)
{
	struct hugepin_pool *pool = ascend_pool("2");
	char *p;

	(void)state;
	/* 600 pages of 2M are too few for 5 GiB: nothing of either class is held afterwards. */
	assert_null(hugepin_alloc(pool, HPI_GIB(5), 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(told.errors, 1);
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	assert_int_equal(source_1g.left, HPI_GIB(3));
	assert_int_equal(source_2m.left, 600 * HPI_2M);
	source_1g.left = 0;
	p = take(pool, HPI_GIB(1));
	assert_int_equal(segment_of_block(pool, p).page_bytes, HPI_2M);
	assert_int_equal(told.errors, 2);
	assert_non_null(strstr(told.last, "asked 1 pages of 1073741824, 0 available"));
	source_1g.left = HPI_GIB(3);
	give(pool, p);
	end_ascend_pool(pool);
}

/* ---- the machine's own 2M pages ---- */

#define NR_HUGEPAGES	"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#define FREE_HUGEPAGES	"/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

static uint64_t knob(const char *path)
{
	char text[32];
	uint64_t n;

	assert_int_equal(hpi_sys_read_file(path, text, sizeof(text)), 0);
	assert_int_equal(hpi_size_parse_uint(text, &n), 0);
	return n;
}

static void put_back(const char *text)
{
	assert_int_equal(hpi_sys_write_file(NR_HUGEPAGES, text), 0);
}

/* Makes @pages free pages of 2M or skips: it takes root, and a machine with that much memory in one piece. */
static void want_free_pages(uint64_t pages, char before[32])
{
	char text[32];

	if (hpi_sys_read_file(NR_HUGEPAGES, before, 32))
		skip();
	snprintf(text, sizeof(text), "%lu", knob(NR_HUGEPAGES) + pages);
	if (hpi_sys_write_file(NR_HUGEPAGES, text))
		skip();
	if (knob(FREE_HUGEPAGES) < pages) {
		put_back(before);
		skip();
	}
}

/* C003 */
static void trim_gives_huge_pages_back_to_the_kernel(void **state)
{
	struct hugepin_pool *pool;
	uint64_t free_pages;
	char before[32], *p[8];
	size_t i, round;

	(void)state;
	want_free_pages(128, before);
	free_pages = knob(FREE_HUGEPAGES);
	pool = make_pool(make_context("pinned_ladder", "hugetlb:2M", NULL), HUGEPIN_POOL_PINNED);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 8; i++) {
			p[i] = take(pool, HPI_MIB(16) - i);
			memset(p[i], 1, HPI_MIB(16) - i);
			assert_int_equal(segment_of_block(pool, p[i]).page_bytes, HPI_2M);
		}
		assert_int_equal(knob(FREE_HUGEPAGES), free_pages - 64);
		for (i = 0; i < 8; i++)
			give(pool, p[i]);
		assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(128));
		assert_int_equal(knob(FREE_HUGEPAGES), free_pages);
	}
	end_pool(pool);
	put_back(before);
}

/* C030: the child takes 177 of 256 pages and is killed; then all 256 can be had. */
static void a_killed_process_leaves_no_huge_page_behind(void **state)
{
	struct hugepin_pool *pool;
	uint64_t free_pages;
	char before[32], *p, byte;
	int pipes[2], status;
	pid_t pid;

	(void)state;
	want_free_pages(256, before);
	free_pages = knob(FREE_HUGEPAGES);
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		pool = make_pool(make_context("host_ladder", "hugetlb:2M", NULL), HUGEPIN_POOL_HOST);
		p = hugepin_alloc(pool, 177 * HPI_2M, 0);
		if (p && write(pipes[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	assert_int_equal(knob(FREE_HUGEPAGES), free_pages - 177);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	close(pipes[0]);
	assert_int_equal(knob(FREE_HUGEPAGES), free_pages);
	pool = make_pool(make_context("host_ladder", "hugetlb:2M", NULL), HUGEPIN_POOL_HOST);
	p = take(pool, 256 * HPI_2M);
	give(pool, p);
	end_pool(pool);
	put_back(before);
}

static int child_tries_to_grow(struct hugepin_pool *pool, char *p)
{
	size_t i;

	for (i = 0; i < HPI_MIB(12); i += 4096)
		p[i] = 1;
	for (i = 0; i < 3; i++) {
		if (hugepin_alloc(pool, HPI_MIB(4), 0) || errno != EPERM)
			return 1;
	}
	return 0;
}

/* C023: parent and child do not grow the same file. */
static void a_child_does_not_grow_its_parents_huge_page_files(void **state)
{
	struct hugepin_pool *pool;
	char before[32], *p, *q[3];
	int status;
	size_t i;
	pid_t pid;

	(void)state;
	want_free_pages(16, before);
	pool = make_pool(make_context("host_ladder", "hugetlb:2M", NULL), HUGEPIN_POOL_HOST);
	p = take(pool, HPI_MIB(12));
	pid = fork();
	if (!pid)
		_exit(child_tries_to_grow(pool, p));
	for (i = 0; i < 3; i++) {
		q[i] = take(pool, HPI_MIB(4));
		memset(q[i], 2, HPI_MIB(4));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	give(pool, p);
	for (i = 0; i < 3; i++)
		give(pool, q[i]);
	end_pool(pool);
	put_back(before);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_growth_maps_only_what_the_free_space_before_it_lacks),
		TEST(small_growths_take_a_little_more_once_much_is_mapped),
		TEST(a_block_at_the_end_grows_with_the_pool),
		TEST(space_that_trimming_left_is_mapped_again),
		TEST(trim_stops_at_what_is_to_be_kept),
		TEST(falling_back_is_said_once_counted_and_told_of_each_block),
		TEST(a_ladder_of_one_rung_refuses),
		TEST(a_chunk_that_does_not_fit_shrinks_to_what_is_needed),
		TEST(free_segments_give_way_to_a_block_under_the_cap),
		TEST(a_refused_registration_leaves_nothing_mapped),
		TEST(what_the_runtime_will_not_let_go_stays_mapped_and_booked),
		TEST(every_block_of_a_pinned_pool_is_registered),
		TEST(mode_0_takes_2m_then_base_pages),
		TEST(mode_1_takes_1g_pages_or_fails_with_one_line),
		TEST(mode_2_says_that_1g_pages_failed_and_takes_2m_or_nothing),
		TEST(trim_gives_huge_pages_back_to_the_kernel),
		TEST(a_killed_process_leaves_no_huge_page_behind),
		TEST(a_child_does_not_grow_its_parents_huge_page_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
