// SPDX-License-Identifier: MIT
/*
 * Options about what is in memory, when it goes back and where it lies, by looking there: a test is named for its
 * option.
 */
#include <dirent.h>
#include <sched.h>
#include <time.h>

#include "pool_world.h"

/* Paddle's options would make chunks of 500 MB; these tests look at other things. */
#define POOL(...)	make_pool_on(make_context("strategy", "needed", __VA_ARGS__), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL)

static struct hugepin_scope *open_scope(struct hugepin_pool *pool)
{
	struct hugepin_scope *scope;

	assert_int_equal(hugepin_scope_open(pool, &scope), 0);
	return scope;
}

static struct hugepin_plan *begin(struct hugepin_pool *pool, uint64_t bytes)
{
	struct hugepin_plan *plan;

	assert_int_equal(hugepin_plan_begin(pool, bytes, &plan), 0);
	return plan;
}

static size_t zeros(const char *p, size_t bytes)
{
	size_t i, count = 0;

	for (i = 0; i < bytes; i++)
		count += !p[i];
	return count;
}

static void FLAGS_init_allocated_mem_fills_what_was_not_asked_for_zeroed(void **state)
{
	static const enum hugepin_pool_kind kinds[] = { HUGEPIN_POOL_HOST, HUGEPIN_POOL_PINNED, HUGEPIN_POOL_VARIABLE };
	struct hugepin_plan *plan;
	struct hugepin_scope *scope;
	struct hugepin_pool *pool;
	uint64_t size = 4096;
	void *in_group;
	size_t i;
	char *p;

	(void)state;
	for (i = 0; i < 3; i++) {
		pool = make_pool_on(make_context("strategy", "needed", "FLAGS_init_allocated_mem", "true", NULL), kinds[i], 1,
				    &rung_2m, NULL);
		p = take(pool, 10000);
		assert_int_equal(zeros(p, 10000), 0);
		p[0] = 0;
		p = hugepin_realloc(pool, p, 20000);
		assert_int_equal(zeros(p, 20000), 1);
		give(pool, p);
		/* Not on fresh memory, and not on memory that has been filled before. */
		p = hugepin_alloc(pool, 10000, HUGEPIN_ALLOC_ZERO);
		assert_int_equal(zeros(p, 10000), 10000);
		give(pool, p);
		scope = open_scope(pool);
		assert_int_equal(zeros(hugepin_scope_alloc(scope, 4096, 0), 4096), 0);
		hugepin_scope_close(scope);
		plan = begin(pool, 0);
		assert_int_equal(zeros(hugepin_plan_alloc(plan, 4096, 0), 4096), 0);
		assert_int_equal(zeros(hugepin_plan_alloc(plan, 4096, HUGEPIN_ALLOC_CLEAN), 4096), 4096);
		hugepin_plan_end(plan);
		assert_int_equal(hugepin_group_alloc(pool, &size, 1, 0, &in_group), 0);
		assert_int_equal(zeros(in_group, 4096), 0);
		give(pool, in_group);
		end_pool(pool);
	}
	/* Not set, fresh memory is as the kernel gives it. */
	pool = POOL(NULL);
	p = take(pool, 10000);
	assert_int_equal(zeros(p, 10000), 10000);
	give(pool, p);
	end_pool(pool);
}

static void FLAGS_eager_delete_tensor_gb_says_how_much_garbage_gathers(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_tensor_gb", "0", NULL);
	struct hugepin_scope *scope;
	char *p[3];
	int i;

	(void)state;
	/* 0: at once. */
	scope = open_scope(pool);
	p[0] = hugepin_scope_alloc(scope, HPI_MIB(1), 0);
	give(pool, p[0]);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	assert_ptr_equal(hugepin_scope_alloc(scope, HPI_MIB(1), 0), p[0]);
	hugepin_scope_close(scope);
	end_pool(pool);
	/* 3 MiB, all scopes and none together. */
	pool = POOL("FLAGS_eager_delete_tensor_gb", "0.0029296875", NULL);
	scope = open_scope(pool);
	for (i = 0; i < 3; i++)
		p[i] = i ? hugepin_scope_alloc(scope, HPI_MIB(1), 0) : take(pool, HPI_MIB(1));
	give(pool, p[0]);
	give(pool, p[1]);
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(2));
	give(pool, p[2]);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	hugepin_scope_close(scope);
	end_pool(pool);
	/* Negative: nothing of a scope before it closes. What is in no scope has none to wait for. */
	pool = POOL("FLAGS_eager_delete_tensor_gb", "-1", NULL);
	scope = open_scope(pool);
	give(pool, take(pool, HPI_MIB(1)));
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	for (i = 0; i < 3; i++)
		give(pool, hugepin_scope_alloc(scope, HPI_MIB(1), 0));
	assert_int_equal(hugepin_pool_collect(pool), 0);
	assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(3));
	hugepin_scope_close(scope);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	end_pool(pool);
}

static void FLAGS_memory_fraction_of_eager_deletion_is_the_share_collected_largest_first(void **state)
{
	static const struct {
		const char *fraction;
		uint64_t collected;		/* of 8, 4, 2 and 1 MiB */
	} rows[] = { { "1.0", 15 }, { "0.8", 12 }, { "0.5", 8 }, { "0.1", 8 }, { "0", 0 } };
	struct hugepin_scope *scope;
	struct hugepin_pool *pool;
	char *p[4];
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pool = POOL("FLAGS_memory_fraction_of_eager_deletion", rows[i].fraction, "FLAGS_eager_delete_tensor_gb",
			    "1", NULL);
		scope = open_scope(pool);
		for (j = 0; j < 4; j++)
			p[j] = hugepin_scope_alloc(scope, HPI_MIB(1ull << j), 0);
		for (j = 0; j < 4; j++)
			give(pool, p[j]);
		assert_int_equal(hugepin_pool_collect(pool), HPI_MIB(rows[i].collected));
		assert_int_equal(hugepin_pool_collect(pool), 0);
		assert_int_equal(stats_of(pool).deferred_bytes, HPI_MIB(15 - rows[i].collected));
		hugepin_scope_close(scope);
		assert_int_equal(stats_of(pool).deferred_bytes, 0);
		end_pool(pool);
	}
}

/* One line of /proc/self/task/TID/status, of the thread with this name. False: there is none. */
static bool thread_line(const char *name, const char *key, char *out, size_t size)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[sizeof("/proc/self/task//status") + 256], text[64];
	struct dirent *entry;
	bool found = false;

	assert_non_null(tasks);
	while (!found && (entry = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		found = !hpi_sys_read_field(path, "Name:", text, sizeof(text)) && !strcmp(text, name) &&
			!hpi_sys_read_field(path, key, out, size);
	}
	closedir(tasks);
	return found;
}

static void *close_pinned_to_a_cpu(void *arg)
{
	cpu_set_t first;
	int cpu = 0;

	sched_getaffinity(0, sizeof(first), &first);
	while (!CPU_ISSET(cpu, &first))
		cpu++;
	CPU_ZERO(&first);
	CPU_SET(cpu, &first);
	sched_setaffinity(0, sizeof(first), &first);
	hugepin_scope_close(arg);
	return NULL;
}

static void FLAGS_eager_delete_scope_false_closes_in_a_thread_of_its_own(void **state)
{
	struct hugepin_pool *pool = POOL("FLAGS_eager_delete_scope", "false", NULL);
	struct hugepin_scope *scope = open_scope(pool);
	const struct timespec pause = { .tv_nsec = 1000000 };
	char ours[256], theirs[256];
	pthread_t thread;
	int i;

	(void)state;
	for (i = 0; i < 50; i++)
		assert_non_null(hugepin_scope_alloc(scope, KIB, 0));
	assert_int_equal(pthread_create(&thread, NULL, close_pinned_to_a_cpu, scope), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(stats_of(pool).active_blocks, 0);
	for (i = 0; i < 5000 && stats_of(pool).deferred_bytes; i++)
		nanosleep(&pause, NULL);
	assert_int_equal(stats_of(pool).deferred_bytes, 0);
	/* It takes no signals, and has the process's CPUs, not those of the thread that closed. */
	assert_true(thread_line("hugepin-reaper", "SigBlk:", theirs, sizeof(theirs)));
	assert_int_equal(strtoull(theirs, NULL, 16) & 0x7fffffff, 0x7fffffff & ~(1u << 8 | 1u << 18));
	assert_true(thread_line("hugepin-reaper", "Cpus_allowed:", theirs, sizeof(theirs)));
	assert_int_equal(hpi_sys_read_field("/proc/self/status", "Cpus_allowed:", ours, sizeof(ours)), 0);
	assert_string_equal(theirs, ours);
	end_pool(pool);
	assert_false(thread_line("hugepin-reaper", "Name:", theirs, sizeof(theirs)));
	/* true, its default: inside the call, and there is no thread. */
	pool = POOL("FLAGS_eager_delete_scope", "true", NULL);
	scope = open_scope(pool);
	assert_non_null(hugepin_scope_alloc(scope, HPI_MIB(1), 0));
	hugepin_scope_close(scope);
	assert_int_equal(stats_of(pool).free_bytes, HPI_MIB(2));
	assert_false(thread_line("hugepin-reaper", "Name:", theirs, sizeof(theirs)));
	end_pool(pool);
}

/* Lengths of the runs of blocks that lie back to back, as digits. */
static const char *runs(struct hugepin_pool *pool, const uint64_t sizes[], size_t count)
{
	static char text[32];
	size_t i, length = 0, run = 1;
	char *walls[32];
	void *p[32];

	/* Holes of all these sizes, with walls between, so that no group can lie behind another. */
	for (i = 0; i < 32; i++)
		walls[i] = take(pool, i % 2 ? 64 : 4096);
	for (i = 0; i < 32; i += 2)
		give(pool, walls[i]);
	assert_int_equal(hugepin_group_alloc(pool, sizes, count, 0, p), 0);
	for (i = 1; i <= count; i++, run++) {
		if (i < count && (char *)p[i] == (char *)p[i - 1] + hpi_round_up(sizes[i - 1], 64))
			continue;
		text[length++] = (char)('0' + run);
		run = 0;
	}
	text[length] = '\0';
	for (i = 0; i < count; i++)
		give(pool, p[i]);
	for (i = 1; i < 32; i += 2)
		give(pool, walls[i]);
	assert_int_equal(stats_of(pool).active_blocks, 0);
	end_pool(pool);
	return text;
}

/* Eight parameters of 1 KiB: a group of n of them takes up a hole of 4 KiB, or the next one. */
static const uint64_t kibs[8] = { 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024 };

/* The holes are the arena's. */
#define UNCACHED	"cache_cap", "0"

static void FLAGS_fuse_parameter_groups_size_is_how_many_lie_together(void **state)
{
	static const uint64_t large[8] = { 2200, 2200, 2200, 2200, 2200, 2200, 2200, 2200 };

	(void)state;
	/* One of them to a hole, so groups of one are never neighbours. */
	assert_string_equal(runs(POOL("FLAGS_fuse_parameter_groups_size", "1", UNCACHED, NULL), large, 8), "11111111");
	assert_string_equal(runs(POOL("FLAGS_fuse_parameter_groups_size", "3", UNCACHED, NULL), kibs, 8), "332");
	assert_string_equal(runs(POOL("FLAGS_eager_delete_scope", "true", UNCACHED, NULL), kibs, 8), "332");	/* its default */
	assert_string_equal(runs(POOL("FLAGS_fuse_parameter_groups_size", "-1", UNCACHED, NULL), kibs, 8), "8");
	assert_string_equal(runs(POOL("cache_cap", "0", NULL), kibs, 8), "8");		/* no option of Paddle's is set */
}

static void FLAGS_fuse_parameter_memory_size_is_how_much_lies_together(void **state)
{
	static const uint64_t mixed[5] = { 1024, 4096, 1024, 1024, 1024 };

	(void)state;
	/* 3 KiB by bytes alone; and with the count of 2, whichever is less. */
	assert_string_equal(runs(POOL("FLAGS_fuse_parameter_memory_size", "0.0029296875",
				      "FLAGS_fuse_parameter_groups_size", "-1", UNCACHED, NULL), kibs, 8), "332");
	assert_string_equal(runs(POOL("FLAGS_fuse_parameter_memory_size", "0.00390625",
				      "FLAGS_fuse_parameter_groups_size", "3", UNCACHED, NULL), kibs, 8), "332");
	/* What is larger than the limit is a group of its own. */
	assert_string_equal(runs(POOL("FLAGS_fuse_parameter_memory_size", "0.0029296875", UNCACHED, NULL), mixed, 5), "113");
	assert_string_equal(runs(POOL("FLAGS_fuse_parameter_memory_size", "0", UNCACHED, NULL), kibs, 8), "8");
	assert_string_equal(runs(POOL("FLAGS_fuse_parameter_memory_size", "-1", UNCACHED, NULL), kibs, 8), "332");
}

/* A step of a graph: a CLEAN block that is used and freed, then another block of the same size. */
static uint64_t peak_of_a_step(const char *static_policy, const char *clean_policy)
{
	struct hugepin_pool *pool = POOL("static_memory_policy", static_policy, "atomic_clean_policy", clean_policy, NULL);
	struct hugepin_plan *plan = begin(pool, 0);
	uint64_t peak;
	char *p, *q;
	int step;

	for (step = 0; step < 3; step++) {
		assert_true(hugepin_pool_clean(pool) >= 0);
		p = hugepin_plan_alloc(plan, HPI_MIB(4), HUGEPIN_ALLOC_CLEAN);
		assert_int_equal(zeros(p, HPI_MIB(4)), HPI_MIB(4));
		memset(p, 1, HPI_MIB(4));
		if (clean_policy[0] == '1')
			give(pool, p);
		q = hugepin_plan_alloc(plan, HPI_MIB(4), 0);
		memset(q, 2, HPI_MIB(4));
		give(pool, q);
		if (clean_policy[0] == '0')
			break;			/* its blocks are the plan's for good */
	}
	peak = stats_of(pool).peak_mapped_bytes;
	hugepin_plan_end(plan);
	end_pool(pool);
	return peak;
}

static void atomic_clean_policy_1_has_a_lower_peak_than_one_pass(void **state)
{
	struct hugepin_pool *pool = POOL("strategy", "doubling", NULL);
	struct hugepin_plan *plan = begin(pool, 0);
	int i;

	(void)state;
	/* Whatever the strategy: a plan's extents have what it needs. */
	for (i = 0; i < 5; i++)
		assert_non_null(hugepin_plan_alloc(plan, HPI_MIB(2), HUGEPIN_ALLOC_CLEAN));
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_MIB(10));
	hugepin_plan_end(plan);
	end_pool(pool);
	assert_int_equal(peak_of_a_step("0", "0"), HPI_MIB(8));
	assert_int_equal(peak_of_a_step("0", "1"), HPI_MIB(4));
	assert_int_equal(peak_of_a_step("3", "0"), HPI_MIB(8));
	assert_int_equal(peak_of_a_step("3", "1"), HPI_MIB(4));
}

/* Plans of 4, 2 and 6 MiB, one after the other, with a block of the pool's own between. */
static void successive_plans(struct hugepin_pool *pool, uint64_t mapped[3])
{
	static const uint64_t sizes[3] = { HPI_MIB(4), HPI_MIB(2), HPI_MIB(6) };
	struct hugepin_plan *plan;
	char *own[3];
	int i;

	for (i = 0; i < 3; i++) {
		plan = begin(pool, sizes[i]);
		assert_non_null(hugepin_plan_alloc(plan, sizes[i], 0));
		own[i] = take(pool, HPI_MIB(2));
		mapped[i] = stats_of(pool).mapped_bytes - HPI_MIB(2) * (uint64_t)(i + 1);
		hugepin_plan_end(plan);
	}
	for (i = 0; i < 3; i++)
		give(pool, own[i]);
	end_pool(pool);
}

static void static_memory_policy_says_where_successive_plans_lie(void **state)
{
	struct hugepin_plan *plan, *second;
	struct hugepin_pool *pool;
	uint64_t mapped[3];

	(void)state;
	/* 0: what a plan leaves is the pool's, which fills it with its own. */
	successive_plans(POOL("static_memory_policy", "0", NULL), mapped);
	assert_int_equal(mapped[0], HPI_MIB(4));
	assert_int_equal(mapped[1], HPI_MIB(2));
	/* 2, and 1 which means 2: the largest so far, taken anew when it is too small. */
	successive_plans(POOL("static_memory_policy", "2", NULL), mapped);
	assert_int_equal(mapped[0], HPI_MIB(4));
	assert_int_equal(mapped[1], HPI_MIB(4));
	assert_int_equal(mapped[2], HPI_MIB(6));
	source_2m.maps = source_2m.unmaps = 0;
	successive_plans(POOL("static_memory_policy", "1", NULL), mapped);
	assert_int_equal(mapped[2], HPI_MIB(6));
	assert_int_equal(source_2m.maps, 2 + 3);
	/* 3: extended in place, and two plans at a time. */
	source_2m.maps = 0;
	successive_plans(POOL("static_memory_policy", "3", NULL), mapped);
	assert_int_equal(mapped[2], HPI_MIB(6));
	assert_int_equal(source_2m.maps, 2 + 3);
	pool = POOL("static_memory_policy", "3", NULL);
	plan = begin(pool, HPI_MIB(2));
	second = begin(pool, HPI_MIB(2));
	hugepin_plan_end(plan);
	hugepin_plan_end(second);
	end_pool(pool);
	/* 4: extended in place, one at a time. */
	pool = POOL("static_memory_policy", "4", NULL);
	plan = begin(pool, HPI_MIB(2));
	assert_non_null(hugepin_plan_alloc(plan, HPI_MIB(5), 0));
	assert_int_equal(hugepin_plan_begin(pool, HPI_MIB(2), &second), -EBUSY);
	hugepin_plan_end(plan);
	assert_int_equal(source_2m.left, 64 * HPI_1G - stats_of(pool).mapped_bytes);
	end_pool(pool);
}

/* C011 for what is not a plain block. */
static void variable_use_1g_huge_page_holds_for_groups_plans_and_scopes_of_variables(void **state)
{
	struct hugepin_context *ctx = make_context("variable_use_1g_huge_page", "1", "static_memory_policy", "3", NULL);
	struct hugepin_pool *pool = make_pool(ctx, HUGEPIN_POOL_VARIABLE);
	static const uint64_t sizes[2] = { HPI_GIB(1), 64 };
	struct hugepin_scope *scope;
	struct hugepin_plan *plan;
	void *p[2], *refused[2], *in_plan;
	size_t i;

	(void)state;
	for (i = 0; i < pool->ladder.count; i++) {
		assert_int_equal(pool->ladder.rungs[i].classes, HUGEPIN_CLASSES_1G);
		pool->ladder.rungs[i] = rung_1g;
	}
	source_1g.left = HPI_GIB(3);
	assert_int_equal(hugepin_group_alloc(pool, sizes, 2, 0, p), 0);
	assert_int_equal(segment_of_block(pool, p[1]).page_bytes, HPI_1G);
	plan = begin(pool, 64);
	in_plan = hugepin_plan_alloc(plan, 64, 0);
	assert_int_equal(segment_of_block(pool, in_plan).page_bytes, HPI_1G);
	/* All three pages are taken: each refuses in one line, and holds no more than before. */
	told.errors = 0;
	assert_null(hugepin_plan_alloc(plan, HPI_GIB(1), 0));
	assert_int_equal(hugepin_group_alloc(pool, sizes, 2, 0, refused), -ENOMEM);
	assert_int_equal(hugepin_scope_open(pool, &scope), 0);
	assert_null(hugepin_scope_alloc(scope, HPI_GIB(1), 0));
	hugepin_scope_close(scope);
	assert_int_equal(told.errors, 3);
	assert_int_equal(stats_of(pool).mapped_bytes, HPI_GIB(3));
	hugepin_plan_end(plan);
	assert_int_equal(hugepin_pool_trim(pool, 0), HPI_GIB(1));
	source_1g.left += 61 * HPI_1G;
	give(pool, p[0]);
	give(pool, p[1]);
	end_pool(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(FLAGS_init_allocated_mem_fills_what_was_not_asked_for_zeroed),
		TEST(FLAGS_eager_delete_tensor_gb_says_how_much_garbage_gathers),
		TEST(FLAGS_memory_fraction_of_eager_deletion_is_the_share_collected_largest_first),
		TEST(FLAGS_eager_delete_scope_false_closes_in_a_thread_of_its_own),
		TEST(FLAGS_fuse_parameter_groups_size_is_how_many_lie_together),
		TEST(FLAGS_fuse_parameter_memory_size_is_how_much_lies_together),
		TEST(atomic_clean_policy_1_has_a_lower_peak_than_one_pass),
		TEST(static_memory_policy_says_where_successive_plans_lie),
		TEST(variable_use_1g_huge_page_holds_for_groups_plans_and_scopes_of_variables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
