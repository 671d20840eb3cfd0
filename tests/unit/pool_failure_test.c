// SPDX-License-Identifier: MIT
/*
 * Each allocation and system call of each call on a pool fails once, one after the other: the call says so and has
 * changed nothing, or it succeeds all the same and has done its work.
 */
#include "fence_world.h"

#define STEPS_MAX	200		/* more than any call has */

static struct {
	unsigned int until;			/* so many more succeed before one fails; 0: none fails */
	bool struck;
	char call[32];
} fault;

static int strike(const char *call)
{
	if (!fault.until || --fault.until)
		return 0;
	fault.struck = true;
	snprintf(fault.call, sizeof(fault.call), "%s", call);
	return ENOMEM;
}

static struct world {
	struct hugepin_pool *pool;
	struct hugepin_scope *scope;
	struct hugepin_plan *plan;
	char *block, *in_scope;
} world;

/* A call under test: 0 or -errno. undo: takes back what a success did. */
struct subject {
	const char *name;
	int (*fn)(void);
	void (*undo)(void);
	bool never_fails;			/* a lack of memory costs it time, no more */
};

static void *got[64];
static struct hugepin_scope *got_scope;
static struct hugepin_plan *got_plan;

static int said(void *p)
{
	got[0] = p;
	return p ? 0 : -errno;
}

static void give_got(void)
{
	give(world.pool, got[0]);
}

static int take_growing(void)
{
	return said(hugepin_alloc(world.pool, HPI_MIB(64), HUGEPIN_ALLOC_ZERO));
}

static int take_small(void)
{
	return said(hugepin_alloc(world.pool, 64, 0));
}

static int take_on(void)
{
	return said(hugepin_alloc_on(world.pool, HPI_MIB(64), 0, &device.streams[1]));
}

static int open_scope(void)
{
	return hugepin_scope_open(world.pool, &got_scope);
}

static void close_got(void)
{
	hugepin_scope_close(got_scope);
}

static int take_in_scope(void)
{
	return said(hugepin_scope_alloc(world.scope, HPI_MIB(64), 0));
}

static int take_group(void)
{
	uint64_t sizes[40];
	size_t i;

	for (i = 0; i < 40; i++)
		sizes[i] = HPI_MIB(1) + 64 * i;
	return hugepin_group_alloc(world.pool, sizes, 40, HUGEPIN_ALLOC_ZERO, got);
}

static void give_group(void)
{
	size_t i;

	for (i = 0; i < 40; i++)
		give(world.pool, got[i]);
}

static int begin_plan(void)
{
	return hugepin_plan_begin(world.pool, HPI_MIB(64), &got_plan);
}

static void end_got(void)
{
	hugepin_plan_end(got_plan);
}

static int take_in_plan(void)
{
	return said(hugepin_plan_alloc(world.plan, HPI_MIB(64), 0));
}

static int take_clean(void)
{
	return said(hugepin_plan_alloc(world.plan, HPI_MIB(8), HUGEPIN_ALLOC_CLEAN));
}

static int grow_block(void)
{
	char *p = hugepin_realloc(world.pool, world.block, HPI_MIB(64));

	if (!p)
		return -errno;
	world.block = p;
	return 0;
}

static void shrink_block(void)
{
	world.block = hugepin_realloc(world.pool, world.block, HPI_MIB(1));
	assert_non_null(world.block);
}

static int free_block(void)
{
	return hugepin_free(world.pool, world.block);
}

static void take_block(void)
{
	world.block = take(world.pool, HPI_MIB(1));
}

static int free_block_of_scope(void)
{
	return hugepin_free(world.pool, world.in_scope);
}

static int free_after_scope(void)
{
	return hugepin_free_after(world.pool, world.in_scope, &(void *){ work_on(1) }, 1);
}

static void take_block_in_scope(void)
{
	work_done(1);
	assert_int_equal(hugepin_pool_drain(world.pool), 0);
	world.in_scope = hugepin_scope_alloc(world.scope, HPI_MIB(1), 0);
	assert_non_null(world.in_scope);
}

static int free_after_stream(void)
{
	return hugepin_free_after(world.pool, world.block, &(void *){ work_on(1) }, 1);
}

static int free_after_all(void)
{
	work_on(1);
	return hugepin_free_after(world.pool, world.block, NULL, 0);
}

static void take_block_again(void)
{
	work_done(1);
	assert_int_equal(hugepin_pool_drain(world.pool), 0);
	take_block();
}

static int close_full_scope(void)
{
	struct hugepin_scope *scope;

	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_scope_open(world.pool, &scope), 0);
	assert_non_null(hugepin_scope_alloc(scope, HPI_MIB(1), 0));
	give(world.pool, hugepin_scope_alloc(scope, HPI_MIB(1), 0));
	hpi_sys_fault = strike;
	hugepin_scope_close(scope);
	return 0;
}

static void collect(void)
{
	hugepin_pool_collect(world.pool);
}

static const struct subject subjects[] = {
	{ "alloc", take_growing, give_got, false },
	{ "alloc, small", take_small, give_got, false },
	{ "alloc_on", take_on, give_got, false },
	{ "scope_open", open_scope, close_got, false },
	{ "scope_alloc", take_in_scope, give_got, false },
	{ "group_alloc", take_group, give_group, false },
	{ "plan_begin", begin_plan, end_got, false },
	{ "plan_alloc", take_in_plan, give_got, false },
	{ "plan_alloc, CLEAN", take_clean, give_got, false },
	{ "realloc", grow_block, shrink_block, false },
	{ "free", free_block, take_block, true },
	{ "free, in a scope", free_block_of_scope, take_block_in_scope, true },
	{ "free_after", free_after_stream, take_block_again, false },
	{ "free_after, all", free_after_all, take_block_again, false },
	{ "free_after, in a scope", free_after_scope, take_block_in_scope, false },
	{ "scope_close", close_full_scope, collect, true },
};

static void assert_unchanged(const struct subject *subject, const struct hugepin_pool_stats *was, uint64_t left,
			     uint64_t registered, unsigned int fences)
{
	struct hugepin_pool_stats now = stats_of(world.pool);

	if (now.active_blocks != was->active_blocks || now.requested_bytes != was->requested_bytes ||
	    now.active_bytes != was->active_bytes || now.mapped_bytes != was->mapped_bytes ||
	    now.registered_bytes != was->registered_bytes || now.segments != was->segments ||
	    now.deferred_bytes != was->deferred_bytes || source_2m.left != left || runtime.bytes != registered ||
	    device.live != fences)
		fail_msg("%s changed something when its %s failed", subject->name, fault.call);
}

static void try_every_fault(const struct subject *subject)
{
	struct hugepin_pool_stats was;
	uint64_t left, registered;
	unsigned int step, fences;
	int err;

	for (step = 1; step < STEPS_MAX; step++) {
		hugepin_pool_trim(world.pool, 0);
		was = stats_of(world.pool);
		left = source_2m.left;
		registered = runtime.bytes;
		fences = device.live;
		hpi_error_clear();
		fault.struck = false;
		fault.until = step;
		hpi_sys_fault = strike;
		err = subject->fn();
		hpi_sys_fault = NULL;
		if (err && (!fault.struck || subject->never_fails))
			fail_msg("%s: %d, %s after %s", subject->name, err, hugepin_error(), fault.call);
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_string_not_equal(hugepin_error(), "");
			assert_unchanged(subject, &was, left, registered, fences);
		} else {
			if (*hugepin_error())
				fail_msg("%s succeeded and says \"%s\"", subject->name, hugepin_error());
			subject->undo();
		}
		if (!fault.struck)
			return;
	}
	fail_msg("%s has more than %d steps", subject->name, STEPS_MAX);
}

static void try_all(const char *static_policy, const char *gigabytes, const char *in_call)
{
	struct hugepin_context *ctx = make_context("static_memory_policy", static_policy, "FLAGS_eager_delete_tensor_gb",
						   gigabytes, "FLAGS_eager_delete_scope", in_call, NULL);
	size_t i;

	for (i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
		world.pool = device_pool(i ? make_context("static_memory_policy", static_policy,
							  "FLAGS_eager_delete_tensor_gb", gigabytes,
							  "FLAGS_eager_delete_scope", in_call, NULL) : ctx);
		take_block();
		assert_int_equal(hugepin_scope_open(world.pool, &world.scope), 0);
		world.in_scope = hugepin_scope_alloc(world.scope, HPI_MIB(1), 0);
		assert_int_equal(hugepin_plan_begin(world.pool, 0, &world.plan), 0);
		try_every_fault(&subjects[i]);
		hugepin_plan_end(world.plan);
		hugepin_scope_close(world.scope);
		give(world.pool, world.block);
		end_device_pool(world.pool);
		device.free_running = false;
	}
}

static void a_step_that_fails_leaves_no_trace(void **state)
{
	(void)state;
	try_all("3", "0", "true");
}

static void nor_does_it_where_garbage_gathers_and_scopes_close_in_the_background(void **state)
{
	(void)state;
	try_all("0", "1", "false");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(a_step_that_fails_leaves_no_trace),
		DEVICE_TEST(nor_does_it_where_garbage_gathers_and_scopes_close_in_the_background),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
