// SPDX-License-Identifier: MIT
/*
 * How pools grow, fall back, keep to their cap and give memory back, with sources of pages that the test controls.
 */
#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "locked.h"
#include "pool_world.h"

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

static void the_place_where_least_must_be_mapped_is_taken(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	char *p[3];

	(void)state;
	p[0] = take(pool, HPI_MIB(2));
	p[1] = take(pool, HPI_MIB(4));
	p[2] = take(pool, HPI_MIB(3));
	give(pool, p[1]);
	assert_int_equal(hugepin_pool_trim(pool, HPI_MIB(6)), HPI_MIB(4));
	/* The gap would need 4 MiB; behind the end, where 1 MiB is free, 2 MiB do for a block of 3. */
	p[1] = take(pool, HPI_MIB(3));
	assert_ptr_equal(p[1], p[2] + HPI_MIB(3));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(8));
	give(pool, p[0]);
	give(pool, p[1]);
	give(pool, p[2]);
	end_pool(pool);
}

static void an_aligned_block_maps_no_more_than_its_bytes(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	char *p = take(pool, HPI_MIB(2)), *q;

	(void)state;
	q = hugepin_alloc_aligned(pool, HPI_1G, HPI_MIB(3), 0);
	assert_int_equal((uintptr_t)q % HPI_1G, 0);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(6));
	give(pool, p);
	give(pool, q);
	end_pool(pool);
}

static void segments_of_two_rungs_never_touch(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context("cache_cap", "0", NULL), HUGEPIN_POOL_HOST, 2, &rung_2m,
						 &rung_base);
	char *p[3], *small, *large;

	(void)state;
	p[0] = take(pool, HPI_MIB(4));
	p[1] = take(pool, HPI_MIB(8));
	p[2] = take(pool, HPI_MIB(2));
	give(pool, p[1]);
	hugepin_pool_trim(pool, 0);
	source_2m.left = 0;
	/* Of the gap of 8 MiB the other rung may have the middle 4. */
	large = take(pool, HPI_MIB(6));
	assert_ptr_equal(large, p[2] + HPI_MIB(2) + HPI_MIB(2));
	small = take(pool, HPI_MIB(4));
	assert_ptr_equal(small, p[0] + HPI_MIB(4) + HPI_MIB(2));
	give(pool, p[0]);
	give(pool, p[2]);
	give(pool, small);
	give(pool, large);
	/* All is free and still four pieces: no block lies over a border. */
	assert_int_equal(stats_of(pool).free_bytes, HPI_MIB(16));
	p[0] = take(pool, HPI_MIB(6));
	assert_ptr_equal(p[0], large);
	give(pool, p[0]);
	source_2m.left = 64 * HPI_1G - HPI_MIB(6);
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
static void what_stands_against_several_rungs_is_said_once(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context("host_cap", "3M", NULL), HUGEPIN_POOL_HOST, 2, &rung_2m,
						 &rung_base);
	const char *first;

	(void)state;
	assert_null(hugepin_alloc(pool, HPI_MIB(4), 0));
	first = strstr(hugepin_error(), "over the cap");
	assert_non_null(first);
	assert_null(strstr(first + 1, "over the cap"));
	/* The numbers of the rungs differ: both are told. */
	assert_null(hugepin_alloc(pool, HPI_MIB(3) + 1, 0));
	assert_non_null(strstr(hugepin_error(), "asked 4194304 bytes"));
	assert_non_null(strstr(hugepin_error(), "asked 3149824 bytes"));
	end_pool(pool);
}

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
		there = (struct hpi_memory){ HPI_MIB(100), HPI_MIB(100) };
		pool = make_pool_on(ctx, HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
		pool->memory = memory_there;
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
	there = (struct hpi_memory){ HPI_MIB(100), HPI_MIB(100) };
	pool = make_pool_on(ctx, HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	pool->memory = memory_there;
	p[0] = take(pool, HPI_MIB(1));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(30));
	assert_null(hugepin_alloc(pool, HPI_MIB(30), 0));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(30));
	give(pool, p[0]);
	end_pool(pool);
	/* The dialect is Paddle's pinned pool: other pools, and pools without the option, take what is needed. */
	pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	give(pool, take(pool, HPI_MIB(1)));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(2));
	end_pool(pool);
	source_2m.left = 64 * HPI_1G;
}

static void free_segments_give_way_to_a_block_under_the_cap(void **state)
{
	struct hugepin_context *ctx = make_context("host_cap", "32M", NULL);
	struct hugepin_pool *pool = make_pool_on(ctx, HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	char *a, *b, *c, *d;

	(void)state;
	a = take(pool, HPI_MIB(12));
	b = take(pool, HPI_MIB(2));
	c = take(pool, HPI_MIB(12));
	d = take(pool, HPI_MIB(2));
	give(pool, a);
	give(pool, c);
	/* What could not help in any case changes nothing. */
	assert_null(hugepin_alloc(pool, HPI_MIB(30), 0));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(28));
	/* 28 of 32 MiB are mapped: 18 fit only if the free 24, which lie apart, are not kept. */
	a = take(pool, HPI_MIB(18));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(22));
	give(pool, a);
	give(pool, b);
	give(pool, d);
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

static int no_realloc(const char *call)
{
	return strcmp(call, "realloc") ? 0 : ENOMEM;
}

static void a_registration_without_memory_to_book_it_is_no_refusal(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);

	(void)state;
	hpi_sys_fault = no_realloc;
	assert_null(hugepin_alloc(pool, HPI_MIB(8), 0));
	hpi_sys_fault = NULL;
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "no memory to book"));
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	assert_int_equal(runtime.registers, 0);
	end_pool(pool);
}

/* Whatever a rung met, the answer is one of those the header tells of. */
static void what_a_rung_met_comes_out_as_a_documented_error(void **state)
{
	static const struct {
		int met, told;
	} errors[] = { { -EMFILE, ENOMEM }, { -ENFILE, ENOMEM }, { -EPERM, ENOMEM }, { -ENODEV, ENOMEM },
		       { -EFBIG, ENOMEM }, { -EDQUOT, EDQUOT }, { -EIO, EIO } };
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	size_t i;

	(void)state;
	source_2m.left = 0;
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		source_2m.err = errors[i].met;
		assert_null(hugepin_alloc(pool, 1, 0));
		assert_int_equal(errno, errors[i].told);
	}
	source_2m.err = 0;
	source_2m.left = 64 * HPI_1G;
	end_pool(pool);
}

static int no_files(const char *call)
{
	return strcmp(call, "memfd") && strcmp(call, "open") ? 0 : EMFILE;
}

static void without_descriptors_a_pool_goes_on_to_base_pages(void **state)
{
	struct hugepin_pool *pool = make_pool(make_context("host_ladder", "hugetlb:2M,base", NULL), HUGEPIN_POOL_HOST);
	char *p;

	(void)state;
	hpi_sys_fault = no_files;
	p = take(pool, HPI_MIB(1));
	hpi_sys_fault = NULL;
	assert_int_equal(segment_of_block(pool, p).provider, HUGEPIN_PROVIDER_BASE);
	assert_int_equal(stats_of(pool).fallbacks, 1);
	assert_non_null(strstr(told.last, strerror(EMFILE)));
	give(pool, p);
	end_pool(pool);
}

static void base_pages_beyond_the_machines_memory_are_refused_with_numbers(void **state)
{
	struct hugepin_context *ctx = make_context("host_ladder", "base", NULL);
	struct hugepin_pool *pool;

	(void)state;
	ctx->topology.memory_bytes = HPI_MIB(8);
	pool = make_pool(ctx, HUGEPIN_POOL_HOST);
	assert_null(hugepin_alloc(pool, HPI_MIB(8) + 1, 0));
	assert_int_equal(errno, ENOMEM);
	assert_non_null(strstr(hugepin_error(), "asked 8392704 bytes"));
	assert_non_null(strstr(hugepin_error(), "memory is 8388608"));
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	give(pool, take(pool, HPI_MIB(2)));
	end_pool(pool);
}

static int pin_under_a_limit_of_64k(void)
{
	struct rlimit limit = { 64 * KIB, 64 * KIB };
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;
	char *p, *q;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgroups(0, NULL) || setgid(65534) || setuid(65534))
		return 77;
	ctx = make_context("pinned_ladder", "thp,base", NULL);
	ctx->runtime = &hpi_runtime_none;
	pool = make_pool(ctx, HUGEPIN_POOL_PINNED);
	p = hugepin_alloc(pool, 100, 0);
	q = hugepin_alloc(pool, 60 * KIB, 0);
	if (!p || !q || locked_kib() != 64)
		return 1;
	if (hugepin_alloc(pool, 4 * KIB, 0) || errno != ENOMEM || !strstr(hugepin_error(), "the limit is 65536") ||
	    locked_kib() != 64)
		return 2;
	if (hugepin_free(pool, p) || hugepin_free(pool, q) || hugepin_pool_trim(pool, 0) != (int64_t)(64 * KIB) || locked_kib())
		return 3;
	/* What is free counts: only what is lacking is locked besides. */
	p = hugepin_alloc(pool, 32 * KIB, 0);
	if (!p || hugepin_free(pool, p) || !hugepin_alloc(pool, 64 * KIB, 0) || locked_kib() != 64)
		return 4;
	return 0;
}

/* C020: what cannot be raised is no reason to fail where less will do; nor does anything of it end the process. */
static void under_a_limit_of_locked_memory_a_pool_pins_what_fits(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() || !locking_works())
		skip();
	pid = fork();
	if (!pid)
		_exit(pin_under_a_limit_of_64k());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static void a_chunk_of_base_pages_leaves_half_of_the_containers_memory(void **state)
{
	struct hugepin_context *ctx = make_context("pinned_ladder", "base",
						   "FLAGS_fraction_of_cuda_pinned_memory_to_use", "1.0", NULL);
	struct hugepin_pool *pool;
	char *p;

	(void)state;
	ctx->topology.limit_bytes = HPI_MIB(64);
	pool = make_pool(ctx, HUGEPIN_POOL_PINNED);
	there = (struct hpi_memory){ HPI_MIB(64), HPI_MIB(64) };
	pool->memory = memory_there;
	p = take(pool, HPI_MIB(4));
	assert_in_range(stats_of(pool).mapped_bytes, HPI_MIB(4), HPI_MIB(34));
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

/* The second chunk is refused, and then the first is not let go. */
static void a_registration_that_cannot_be_rolled_back_stays_booked(void **state)
{
	struct hugepin_context *ctx = make_context("register_chunk", "2M", "register_threads", "1", NULL);
	struct hugepin_pool *pool = make_pool_on(ctx, HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);

	(void)state;
	runtime.refuse_after = 1;
	runtime.refuse_unregister = true;
	assert_null(hugepin_alloc(pool, HPI_MIB(4), 0));
	assert_int_equal(errno, EIO);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(4));
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(4));
	assert_int_equal(source_2m.unmaps, 0);
	runtime.refuse_unregister = false;
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_MIB(4));
	assert_int_equal(runtime.bytes, 0);
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
static void variable_use_1g_huge_page_0_takes_2m_then_base_pages(void **state)
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

static void variable_use_1g_huge_page_1_takes_1g_pages_or_fails_with_one_line(void **state)
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

static void variable_use_1g_huge_page_2_says_that_1g_pages_failed_and_takes_2m_or_nothing(void **state)
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_growth_maps_only_what_the_free_space_before_it_lacks),
		TEST(small_growths_take_a_little_more_once_much_is_mapped),
		TEST(a_block_at_the_end_grows_with_the_pool),
		TEST(space_that_trimming_left_is_mapped_again),
		TEST(the_place_where_least_must_be_mapped_is_taken),
		TEST(an_aligned_block_maps_no_more_than_its_bytes),
		TEST(segments_of_two_rungs_never_touch),
		TEST(trim_stops_at_what_is_to_be_kept),
		TEST(falling_back_is_said_once_counted_and_told_of_each_block),
		TEST(what_stands_against_several_rungs_is_said_once),
		TEST(a_ladder_of_one_rung_refuses),
		TEST(a_chunk_that_does_not_fit_shrinks_to_what_is_needed),
		TEST(free_segments_give_way_to_a_block_under_the_cap),
		TEST(a_refused_registration_leaves_nothing_mapped),
		TEST(a_registration_without_memory_to_book_it_is_no_refusal),
		TEST(what_a_rung_met_comes_out_as_a_documented_error),
		TEST(without_descriptors_a_pool_goes_on_to_base_pages),
		TEST(base_pages_beyond_the_machines_memory_are_refused_with_numbers),
		TEST(under_a_limit_of_locked_memory_a_pool_pins_what_fits),
		TEST(a_chunk_of_base_pages_leaves_half_of_the_containers_memory),
		TEST(what_the_runtime_will_not_let_go_stays_mapped_and_booked),
		TEST(a_registration_that_cannot_be_rolled_back_stays_booked),
		TEST(every_block_of_a_pinned_pool_is_registered),
		TEST(variable_use_1g_huge_page_0_takes_2m_then_base_pages),
		TEST(variable_use_1g_huge_page_1_takes_1g_pages_or_fails_with_one_line),
		TEST(variable_use_1g_huge_page_2_says_that_1g_pages_failed_and_takes_2m_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
