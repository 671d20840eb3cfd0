// SPDX-License-Identifier: MIT
/* hugepinctl without a module: the parser, plans, all or nothing against a stand-in reserve, signals, tables. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "host.h"
#include "tree.h"

#define NR(array)	(sizeof(array) / sizeof((array)[0]))

/* ---- The parser ---- */

static void spec_takes_what_the_grammar_says(void **state)
{
	static const struct {
		const char *text;
		struct spec spec;
	} cases[] = {
		{ "0:1G:4", { false, 0, HUGEPIN_PAGES_1G, false, 4 } },
		{ "1:2M:512", { false, 1, HUGEPIN_PAGES_2M, false, 512 } },
		{ "*:2M:+10", { true, -1, HUGEPIN_PAGES_2M, true, 10 } },
		{ "1023:1G:0", { false, 1023, HUGEPIN_PAGES_1G, false, 0 } },
		{ "2147483647:1G:1", { false, INT_MAX, HUGEPIN_PAGES_1G, false, 1 } },
		{ "0:1G:17179869183", { false, 0, HUGEPIN_PAGES_1G, false, 17179869183 } },
		{ "0:2M:8796093022207", { false, 0, HUGEPIN_PAGES_2M, false, 8796093022207 } },
	};

	(void)state;
	for (size_t i = 0; i < NR(cases); i++) {
		struct message why;
		struct spec spec;

		assert_int_equal(spec_parse(cases[i].text, &spec, &why), 0);
		assert_int_equal(spec.every_node, cases[i].spec.every_node);
		assert_int_equal(spec.node, cases[i].spec.node);
		assert_int_equal(spec.page_class, cases[i].spec.page_class);
		assert_int_equal(spec.relative, cases[i].spec.relative);
		assert_int_equal(spec.count, cases[i].spec.count);
	}
}

static void spec_refuses_everything_else_and_says_why(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "NODE:CLASS:COUNT" },
		{ "0", "NODE:CLASS:COUNT" },
		{ "0:1G", "NODE:CLASS:COUNT" },
		{ "0:1G:4:5", "NODE:CLASS:COUNT" },
		{ "0:1G:4:", "NODE:CLASS:COUNT" },
		{ ":1G:4", "not a node" },
		{ "-1:1G:4", "not a node" },
		{ "+1:1G:4", "not a node" },
		{ " 0:1G:4", "not a node" },
		{ "00:1G:4", "not a node" },
		{ "**:1G:4", "not a node" },
		{ "0x1:1G:4", "not a node" },
		{ "2147483648:1G:4", "beyond 2147483647" },
		{ "99999999999999999999999:1G:4", "beyond" },
		{ "0::4", "page size class" },
		{ "0:1g:4", "page size class" },
		{ "0:1GB:4", "page size class" },
		{ "0:4K:4", "page size class" },
		{ "0:base:4", "page size class" },
		{ "0:1G:", "not a count" },
		{ "0:1G:+", "not a count" },
		{ "0:1G:-1", "not a count" },
		{ "0:1G:++1", "not a count" },
		{ "0:1G:010", "not a count" },
		{ "0:1G:4 ", "not a count" },
		{ "0:1G:4k", "not a count" },
		{ "0:1G:1e3", "not a count" },
		{ "0:2M:10%", "percentage" },
		{ "0:1G:17179869184", "more than 17179869183" },
		{ "0:2M:8796093022208", "more than 8796093022207" },
		{ "0:2M:18446744073709551616", "more than" },
		{ "0:1G:11111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111",
		  "too long" },
	};

	(void)state;
	for (size_t i = 0; i < NR(cases); i++) {
		struct spec spec = { .node = 77, .count = 88 };
		struct message why = { "" };

		assert_int_equal(spec_parse(cases[i].text, &spec, &why), -EINVAL);
		assert_non_null(strstr(why.text, cases[i].says));
		assert_int_equal(spec.node, 77);
		assert_int_equal(spec.count, 88);
	}
}

static void number_is_exact_at_its_limit(void **state)
{
	uint64_t out = 5;

	(void)state;
	assert_int_equal(number_parse("18446744073709551615", UINT64_MAX, &out), 0);
	assert_true(out == UINT64_MAX);
	assert_int_equal(number_parse("18446744073709551616", UINT64_MAX, &out), -ERANGE);
	assert_int_equal(number_parse("86400", 86400, &out), 0);
	assert_int_equal(number_parse("86401", 86400, &out), -ERANGE);
	assert_int_equal(number_parse("7", 3, &out), -ERANGE);
	assert_int_equal(number_parse("3", 3, &out), 0);
	assert_int_equal(out, 3);
}

static void arguments_are_split_at_commas_and_taken_whole(void **state)
{
	char *good[] = { "0:1G:4,1:1G:+2", "*:2M:8" }, *bad[] = { "0:1G:4", "1:1G:4,,*:2M:8" };
	struct spec *specs = NULL;
	struct message why;
	size_t nr = 0;

	(void)state;
	assert_int_equal(spec_parse_all(good, 2, &specs, &nr, &why), 0);
	assert_int_equal(nr, 3);
	assert_int_equal(specs[1].node, 1);
	assert_true(specs[1].relative);
	assert_true(specs[2].every_node);
	free(specs);

	specs = NULL;
	assert_int_equal(spec_parse_all(bad, 2, &specs, &nr, &why), -EINVAL);
	assert_null(specs);
	assert_int_equal(nr, 3);
}

static void what_is_named_twice_is_known_without_the_host(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "0:1G:8,*:1G:9", "node 0: 1G is named twice" },
		{ "*:2M:8,0:2M:+1", "node 0: 2M is named twice" },
		{ "0:2M:1,7:2M:1,0:1G:1,7:2M:2", "node 7: 2M is named twice" },
		{ "*:2M:1,*:1G:1,*:2M:1", "every node: 2M is named twice" },
	};

	(void)state;
	for (size_t i = 0; i < NR(cases); i++) {
		char *argument = (char *)cases[i].text;
		struct spec *specs = NULL;
		struct message why;
		size_t nr = 0;

		assert_int_equal(spec_parse_all(&argument, 1, &specs, &nr, &why), -EINVAL);
		assert_string_equal(why.text, cases[i].says);
		assert_null(specs);
	}
}

/* ---- Plans: two nodes, of which node 4 is the second ---- */

static struct hugepin_reserve_info entries[] = {
	{ .node = 0, .page_class = HUGEPIN_PAGES_1G, .total_pages = 4, .clean_pages = 1, .in_use_pages = 2,
	  .quarantined_pages = 1 },
	{ .node = 0, .page_class = HUGEPIN_PAGES_2M, .total_pages = 100, .clean_pages = 60, .dirty_pages = 40 },
	{ .node = 4, .page_class = HUGEPIN_PAGES_2M, .total_pages = 10, .clean_pages = 4, .poisoned_pages = 1,
	  .in_use_pages = 5 },
};
static const struct snapshot now = { .entries = entries, .count = NR(entries) };

typedef int plan_fn(const struct snapshot *now, const struct spec *specs, size_t nr, struct plan *out,
		    struct message *why);

static int plan_text(plan_fn *make, const struct snapshot *on, const char *text, struct plan *plan, struct message *why)
{
	char *argument = (char *)text;
	struct spec *specs;
	size_t nr;
	int err;

	assert_int_equal(spec_parse_all(&argument, 1, &specs, &nr, why), 0);
	err = make(on, specs, nr, plan, why);
	free(specs);
	return err;
}

static void expect_change(const struct change *change, int node, enum hugepin_class page_class, uint64_t before,
			  uint64_t target)
{
	assert_int_equal(change->node, node);
	assert_int_equal(change->page_class, page_class);
	assert_int_equal(change->before, before);
	assert_int_equal(change->target, target);
	assert_int_equal(change->state, CHANGE_TODO);
}

static void reserve_plans_exactly_the_nodes_named(void **state)
{
	struct message why;
	struct plan plan;

	(void)state;
	assert_int_equal(plan_text(plan_reserve, &now, "4:2M:75,0:2M:25", &plan, &why), 0);
	assert_int_equal(plan.count, 2);
	expect_change(&plan.changes[0], 0, HUGEPIN_PAGES_2M, 100, 25);
	expect_change(&plan.changes[1], 4, HUGEPIN_PAGES_2M, 9, 75);	/* one of 10 is faulty */
	plan_free(&plan);
}

static void reserve_gives_back_first_and_takes_1g_before_2m(void **state)
{
	struct message why;
	struct plan plan;

	(void)state;
	assert_int_equal(plan_text(plan_reserve, &now, "*:2M:+5,0:1G:+1", &plan, &why), 0);
	assert_int_equal(plan.count, 3);
	expect_change(&plan.changes[0], 0, HUGEPIN_PAGES_1G, 4, 5);
	expect_change(&plan.changes[1], 0, HUGEPIN_PAGES_2M, 100, 105);
	expect_change(&plan.changes[2], 4, HUGEPIN_PAGES_2M, 9, 14);
	plan_free(&plan);

	assert_int_equal(plan_text(plan_reserve, &now, "4:2M:20,0:1G:5,0:2M:9", &plan, &why), 0);
	expect_change(&plan.changes[0], 0, HUGEPIN_PAGES_2M, 100, 9);
	expect_change(&plan.changes[1], 0, HUGEPIN_PAGES_1G, 4, 5);
	expect_change(&plan.changes[2], 4, HUGEPIN_PAGES_2M, 9, 20);
	plan_free(&plan);
}

static void release_plans_down_to_what_is_not_free(void **state)
{
	struct message why;
	struct plan plan;

	(void)state;
	assert_int_equal(plan_text(plan_release, &now, "0:2M:100,4:2M:4", &plan, &why), 0);
	expect_change(&plan.changes[0], 0, HUGEPIN_PAGES_2M, 100, 0);
	expect_change(&plan.changes[1], 4, HUGEPIN_PAGES_2M, 9, 5);
	plan_free(&plan);

	assert_int_equal(plan_release_all(&now, &plan, &why), 0);
	assert_int_equal(plan.count, 3);
	expect_change(&plan.changes[0], 0, HUGEPIN_PAGES_1G, 4, 3);
	expect_change(&plan.changes[1], 0, HUGEPIN_PAGES_2M, 100, 0);
	expect_change(&plan.changes[2], 4, HUGEPIN_PAGES_2M, 9, 5);
	plan_free(&plan);
}

static void plan_refuses_with_numbers_what_cannot_be(void **state)
{
	static const struct snapshot no_1g = {
		.entries = &entries[1], .count = 2, .absent[HUGEPIN_PAGES_1G] = "this kernel cannot",
	};
	static const struct {
		plan_fn *make;
		const struct snapshot *on;
		const char *text;
		int err;
		const char *says;
	} cases[] = {
		{ plan_reserve, &now, "1:2M:4", -ENXIO, "node 1 cannot hold 2M pages; nodes with memory: 0, 4" },
		{ plan_reserve, &now, "4:1G:4", -ENXIO, "node 4 cannot hold 1G pages" },
		{ plan_reserve, &no_1g, "0:2M:4,0:1G:4", -EOPNOTSUPP, "1G pages are absent on this host: this kernel" },
		{ plan_reserve, &no_1g, "*:1G:4", -EOPNOTSUPP, "this kernel cannot" },
		{ plan_reserve, &now, "0:1G:2", -EBUSY, "2 pages: 3 of 4 are not free (2 in use, 1 quarantined)" },
		{ plan_reserve, &now, "0:1G:+17179869180", -EOVERFLOW, "4 + 17179869180 pages" },
		{ plan_release, &now, "0:1G:2", -EBUSY, "asked to give back 2, free 1 of 4 (2 in use, 1 quarantined" },
		{ plan_release, &now, "4:2M:11", -EBUSY, "asked to give back 11, free 4 of 10" },
	};

	(void)state;
	for (size_t i = 0; i < NR(cases); i++) {
		struct plan plan = { .count = 99 };
		struct message why = { "" };

		assert_int_equal(plan_text(cases[i].make, cases[i].on, cases[i].text, &plan, &why), cases[i].err);
		assert_non_null(strstr(why.text, cases[i].says));
		assert_int_equal(plan.count, 99);
	}
}

static void relative_count_reaches_the_limit_exactly(void **state)
{
	struct message why;
	struct plan plan;

	(void)state;
	assert_int_equal(plan_text(plan_reserve, &now, "0:1G:+17179869179", &plan, &why), 0);
	assert_int_equal(plan.changes[0].target, 17179869183);
	plan_free(&plan);
}

static void a_dry_run_takes_off_what_is_left_to_the_node(void **state)
{
	static const struct {
		unsigned int mib;
		enum hugepin_class page_class;
		uint64_t pages;			/* that may be asked for, and not one more */
	} cases[] = {
		{ 1024, HUGEPIN_PAGES_2M, (1024 - 128) / 2 },
		{ 8192, HUGEPIN_PAGES_2M, (8192 - 256) / 2 },
		{ 8192, HUGEPIN_PAGES_1G, 7 },
		{ 1048576, HUGEPIN_PAGES_1G, 1022 },
		{ 64, HUGEPIN_PAGES_2M, 0 },
	};
	struct tree tree;

	(void)state;
	tree_make(&tree);
	host_root = tree.root;
	for (size_t i = 0; i < NR(cases); i++) {
		struct change change = { .node = 1, .page_class = cases[i].page_class, .target = cases[i].pages };
		struct plan plan = { .changes = &change, .count = 1 };
		struct message why = { "" };
		char text[64];

		snprintf(text, sizeof(text), "Node 1 MemTotal:       %u kB\n", cases[i].mib << 10);
		tree_write(&tree, "sys/devices/system/node/node1/meminfo", text);
		assert_int_equal(change_check_room(&plan, &why), 0);
		change.target++;
		assert_int_equal(change_check_room(&plan, &why), -ERANGE);
		assert_non_null(strstr(why.text, "is left to the node"));
		change.before = change.target + 1;	/* to give back is always possible */
		assert_int_equal(change_check_room(&plan, &why), 0);
	}
	host_root = "";
	tree_remove(&tree, "");
}

/* ---- All or nothing, against a stand-in for the module ---- */

struct fake {
	uint64_t held[3], room[3];	/* by change; a knob keeps what it got, up to its room */
	uint64_t grows_by;		/* pages that one try adds at most; 0: any */
	int fail_at, fail_err;		/* call that fails with this, changing nothing; 0: none */
	int interrupt_at;		/* call during which a signal comes */
	int stop_at;			/* call that a stop and a continue end early */
	int busy_from;			/* from this call on pages cannot be given back */
	int calls, tries_before_room;
	bool interrupted, committed;
};

static int fake_set(void *arg, int node, enum hugepin_class page_class, uint64_t pages, uint64_t *got)
{
	struct fake *fake = arg;
	uint64_t *held = &fake->held[node], to = pages;
	int call = ++fake->calls, err = 0;

	(void)page_class;
	if (call == fake->fail_at)
		return fake->fail_err;
	if (call == fake->stop_at)
		return -EINTR;
	if (call == fake->interrupt_at) {
		fake->interrupted = true;
		to = *held + (pages - *held) / 2;
		err = -EINTR;
	} else if (pages > *held) {
		uint64_t room = call > fake->tries_before_room ? fake->room[node] : *held;

		if (to > room)
			to = room > *held ? room : *held;
		if (fake->grows_by && to > *held + fake->grows_by)
			to = *held + fake->grows_by;
		err = to < pages ? -ENOMEM : 0;
	} else if (pages < *held && fake->busy_from && call >= fake->busy_from) {
		to = *held;
		err = -EBUSY;
	}
	*held = to;
	*got = to;
	return err;
}

static const char *fake_error(void *arg)
{
	(void)arg;
	return "asked so many, got so few";
}

static bool fake_interrupted(void *arg)
{
	return ((struct fake *)arg)->interrupted;
}

static void fake_commit(void *arg)
{
	((struct fake *)arg)->committed = true;
}

/* Three nodes holding 1, 2 and 3 pages shall hold 10 each; @fake says what the host makes of it. */
struct attempt {
	struct change changes[3];
	struct plan plan;
	int err;
	struct message why;
	enum apply_result result;
};

static void apply(struct attempt *attempt, struct fake *fake, const struct apply_options *options, uint64_t target)
{
	const struct apply_ops ops = { fake_set, fake_error, fake_interrupted, fake_commit, fake };

	for (int i = 0; i < 3; i++) {
		uint64_t before = fake->held[i] ? fake->held[i] : (uint64_t)i + 1;

		fake->held[i] = before;
		attempt->changes[i] = (struct change){ .node = i, .page_class = HUGEPIN_PAGES_2M, .before = before,
						       .got = before, .now = before, .target = target };
	}
	attempt->plan = (struct plan){ attempt->changes, 3 };
	attempt->result = plan_apply(&attempt->plan, options, &ops, &attempt->err, &attempt->why);
	assert_true(fake->committed);
	for (int i = 0; i < 3; i++)
		assert_int_equal(attempt->changes[i].now, fake->held[i]);
}

static const struct apply_options all_or_nothing, keep_partial = { .partial = true };

static void expect_held(const struct fake *fake, uint64_t a, uint64_t b, uint64_t c)
{
	assert_int_equal(fake->held[0], a);
	assert_int_equal(fake->held[1], b);
	assert_int_equal(fake->held[2], c);
}

static void enough_room_is_done(void **state)
{
	struct fake fake = { .room = { 10, 10, 10 } };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &all_or_nothing, 10);
	assert_int_equal(attempt.result, APPLY_DONE);
	assert_int_equal(attempt.err, 0);
	expect_held(&fake, 10, 10, 10);
}

static void shortfall_puts_everything_back_and_tells_asked_and_got(void **state)
{
	struct fake fake = { .room = { 10, 7, 10 } };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &all_or_nothing, 10);
	assert_int_equal(attempt.result, APPLY_RESTORED);
	assert_int_equal(attempt.err, -ENOMEM);
	assert_string_equal(attempt.why.text, "asked so many, got so few");
	expect_held(&fake, 1, 2, 3);
	assert_int_equal(attempt.changes[0].got, 10);
	assert_int_equal(attempt.changes[1].got, 7);
	assert_int_equal(attempt.changes[2].state, CHANGE_TODO);
}

static void every_failing_call_leaves_the_reserve_as_it_was(void **state)
{
	static const int errors[] = { -EACCES, -EROFS, -ERANGE, -EBUSY, -EIO, -ENODEV };

	(void)state;
	for (size_t e = 0; e < NR(errors); e++) {
		for (int call = 1; call <= 3; call++) {
			struct fake fake = { .room = { 10, 10, 10 }, .fail_at = call, .fail_err = errors[e] };
			struct attempt attempt;

			apply(&attempt, &fake, &keep_partial, 10);
			assert_int_equal(attempt.result, APPLY_RESTORED);
			assert_int_equal(attempt.err, errors[e]);
			expect_held(&fake, 1, 2, 3);
		}
	}
}

static void partial_keeps_what_was_got_and_goes_on(void **state)
{
	struct fake fake = { .room = { 10, 7, 10 } };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &keep_partial, 10);
	assert_int_equal(attempt.result, APPLY_PARTIAL);
	assert_int_equal(attempt.err, -ENOMEM);
	expect_held(&fake, 10, 7, 10);
	assert_int_equal(attempt.changes[1].state, CHANGE_SHORT);
}

static void partial_of_nothing_is_a_failure(void **state)
{
	struct fake fake = { .room = { 1, 2, 3 } };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &keep_partial, 10);
	assert_int_equal(attempt.result, APPLY_RESTORED);
	assert_int_equal(attempt.err, -ENOMEM);
	expect_held(&fake, 1, 2, 3);
}

static void signal_in_any_call_puts_everything_back_even_with_partial(void **state)
{
	(void)state;
	for (int call = 1; call <= 3; call++) {
		struct fake fake = { .room = { 10, 10, 10 }, .interrupt_at = call };
		struct attempt attempt;

		apply(&attempt, &fake, &keep_partial, 10);
		assert_int_equal(attempt.result, APPLY_RESTORED);
		assert_int_equal(attempt.err, -EINTR);
		assert_string_equal(attempt.why.text, "interrupted by a signal");
		expect_held(&fake, 1, 2, 3);
	}
}

static void stop_and_continue_is_no_interruption(void **state)
{
	struct fake fake = { .room = { 10, 10, 10 }, .stop_at = 2 };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &all_or_nothing, 10);
	assert_int_equal(attempt.result, APPLY_DONE);
	expect_held(&fake, 10, 10, 10);
}

static void stop_and_continue_while_putting_back_leaves_nothing_behind(void **state)
{
	for (int call = 3; call <= 4; call++) {
		struct fake fake = { .room = { 10, 10, 10 }, .interrupt_at = 2, .stop_at = call };
		struct attempt attempt;

		apply(&attempt, &fake, &all_or_nothing, 10);
		assert_int_equal(attempt.result, APPLY_RESTORED);
		expect_held(&fake, 1, 2, 3);
	}
	(void)state;
}

static void what_cannot_be_put_back_is_told(void **state)
{
	struct fake fake = { .room = { 10, 10, 5 }, .busy_from = 1 };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &all_or_nothing, 10);
	assert_int_equal(attempt.result, APPLY_STUCK);
	assert_int_equal(attempt.err, -ENOMEM);
	assert_int_equal(attempt.changes[0].state, CHANGE_STUCK);
	assert_int_equal(attempt.changes[0].now, 10);
	assert_int_equal(attempt.changes[2].now, 5);
}

static void progress_is_followed_by_another_try(void **state)
{
	struct fake fake = { .room = { 10, 10, 10 }, .grows_by = 3 };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &all_or_nothing, 10);
	assert_int_equal(attempt.result, APPLY_DONE);
	expect_held(&fake, 10, 10, 10);
}

static void tries_are_bounded_without_wait(void **state)
{
	struct fake fake = { .room = { 1000, 1000, 1000 }, .grows_by = 1 };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &all_or_nothing, 1000);
	assert_int_equal(attempt.result, APPLY_RESTORED);
	assert_int_equal(attempt.changes[0].got, 5);
	expect_held(&fake, 1, 2, 3);
}

static void wait_goes_on_until_there_is_room(void **state)
{
	struct fake fake = { .room = { 10, 10, 10 }, .tries_before_room = 1 };
	const struct apply_options patient = { .wait_s = 30 };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &patient, 10);
	assert_int_equal(attempt.result, APPLY_DONE);
	assert_int_equal(fake.calls, 4);
	expect_held(&fake, 10, 10, 10);
}

static void release_of_everything_lets_pages_that_came_into_use_stay(void **state)
{
	struct fake fake = { .held = { 4, 4, 4 }, .busy_from = 2 };
	const struct apply_options free_only = { .free_only = true };
	struct attempt attempt;

	(void)state;
	apply(&attempt, &fake, &free_only, 2);
	assert_int_equal(attempt.result, APPLY_DONE);
	expect_held(&fake, 2, 4, 4);
}

/* ---- Signals, each in a child that says with its exit what it saw ---- */

static int in_child(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void caught_then_released(void)
{
	if (signals_catch() || signals_caught() || raise(SIGTERM) || !signals_caught())
		_exit(1);
	signals_hold();
	signals_release();
}

static void waits_while_held(void)
{
	if (signals_catch())
		_exit(1);
	signals_hold();
	raise(SIGINT);
	if (!signals_caught())
		_exit(2);
	signals_release();
}

static void ignored_as_under_nohup(void)
{
	signal(SIGHUP, SIG_IGN);
	if (signals_catch() || raise(SIGHUP) || signals_caught())
		_exit(1);
	signals_hold();
	raise(SIGHUP);
	if (signals_caught())
		_exit(2);
	signals_release();
}

/* The signal comes before the call that would block for ever; the alarm behind it ends that call. */
static void blocking_call_after_the_signal(void)
{
	int ends[2];
	char c;

	if (pipe(ends) || signals_catch() || raise(SIGINT))
		_exit(1);
	if (read(ends[0], &c, 1) != -1 || errno != EINTR || read(ends[0], &c, 1) != -1 || errno != EINTR)
		_exit(2);
	signals_hold();
	if (!signals_caught())
		_exit(3);
}

static void signals_end_the_process_once_everything_is_put_back(void **state)
{
	int status = in_child(caught_then_released);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
	status = in_child(waits_while_held);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGINT);
}

static void ignored_signals_stay_ignored(void **state)
{
	(void)state;
	assert_int_equal(in_child(ignored_as_under_nohup), 0);
}

static void signal_before_a_blocking_call_still_ends_it(void **state)
{
	(void)state;
	assert_int_equal(in_child(blocking_call_after_the_signal), 0);
}

/* ---- What people and machines read ---- */

static void table_aligns_and_leaves_no_blanks_at_line_ends(void **state)
{
	static const char *const headings[] = { "NODE", "-NAME", "TOTAL", "-" };
	struct table *table = table_create(headings, 4);
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_non_null(table);
	assert_non_null(out);
	table_cell(table, STYLE_RED, "%d", 0);
	table_cell(table, STYLE_PLAIN, "a");
	table_cell(table, STYLE_PLAIN, "%d", 123456);
	table_cell(table, STYLE_PLAIN, "x");
	table_cell(table, STYLE_PLAIN, "12345");
	table_cell(table, STYLE_PLAIN, "longer");
	table_cell(table, STYLE_PLAIN, "1");
	table_cell(table, STYLE_PLAIN, "y");
	assert_int_equal(table_print(table, out, false), 0);
	fclose(out);
	assert_string_equal(text, " NODE  NAME     TOTAL\n"
				  "    0  a       123456  x\n"
				  "12345  longer       1  y\n");
	free(text);
	table_free(table);
}

static void colour_does_not_move_columns(void **state)
{
	static const char *const headings[] = { "A", "B" };
	struct table *table = table_create(headings, 2);
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	table_cell(table, STYLE_RED, "100");
	table_cell(table, STYLE_PLAIN, "1");
	assert_int_equal(table_print(table, out, true), 0);
	fclose(out);
	assert_string_equal(text, "  \033[1mA\033[0m  \033[1mB\033[0m\n\033[31m100\033[0m  1\n");
	free(text);
	table_free(table);
}

static void sizes_are_rounded_down(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 2ull << 20, "2 MiB" },
		{ 1ull << 30, "1 GiB" },
		{ (5ull << 30) + 154 * (2ull << 20), "5.3 GiB" },
		{ (1ull << 40) - 1, "1023.9 GiB" },
		{ UINT64_MAX, "15.9 EiB" },
	};
	char buffer[HUMAN_SIZE];

	(void)state;
	for (size_t i = 0; i < NR(cases); i++)
		assert_string_equal(human_bytes(cases[i].bytes, buffer), cases[i].text);
}

static void bar_shows_every_part_and_fills_its_width(void **state)
{
	static const struct {
		uint64_t parts[4];
		unsigned int cells[4];
	} cases[] = {
		{ { 0, 0, 0, 0 }, { 0, 0, 0, 0 } },
		{ { 1, 0, 0, 3 }, { 4, 0, 0, 12 } },
		{ { 1, 1, 1, 1000000 }, { 1, 1, 1, 13 } },
		{ { 1000000, 1, 1, 1 }, { 13, 1, 1, 1 } },
		{ { 0, 0, 0, 1 }, { 0, 0, 0, 16 } },
		{ { UINT64_MAX / 4, UINT64_MAX / 4, UINT64_MAX / 4, UINT64_MAX / 4 }, { 4, 4, 4, 4 } },
	};

	(void)state;
	for (size_t i = 0; i < NR(cases); i++) {
		unsigned int cells[4];

		bar_share(cases[i].parts, 4, 16, cells);
		assert_memory_equal(cells, cases[i].cells, sizeof(cells));
	}
	for (unsigned int seed = 1; seed < 5000; seed++) {
		uint64_t parts[4] = { seed % 7, seed % 11 * 1000, seed % 13, seed % 3 * 77 };
		unsigned int cells[4], sum = 0;

		bar_share(parts, 4, 16, cells);
		for (int p = 0; p < 4; p++) {
			assert_int_equal(cells[p] != 0, parts[p] != 0);
			sum += cells[p];
		}
		assert_int_equal(sum, parts[0] || parts[1] || parts[2] || parts[3] ? 16 : 0);
	}
}

static void json_passes_a_lack_of_memory_on(void **state)
{
	struct json_object *object = json_object_new_object();

	(void)state;
	assert_int_equal(json_put(object, "a", NULL), -ENOMEM);
	assert_int_equal(json_put(NULL, "a", json_object_new_int(1)), -ENOMEM);
	assert_int_equal(json_push(NULL, json_object_new_int(1)), -ENOMEM);
	assert_int_equal(json_put_uint(object, "big", UINT64_MAX), 0);
	assert_string_equal(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN),
			    "{\"big\":18446744073709551615}");
	json_object_put(object);
}

static void errno_values_have_their_exit_status(void **state)
{
	(void)state;
	assert_int_equal(status_of(0), 0);
	assert_int_equal(status_of(-ENOMEM), 1);
	assert_int_equal(status_of(-EBUSY), 1);
	assert_int_equal(status_of(-ENODEV), 3);
	assert_int_equal(status_of(-EACCES), 5);
	assert_int_equal(status_of(-EPERM), 5);
	assert_int_equal(status_of(-EROFS), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_takes_what_the_grammar_says),
		cmocka_unit_test(spec_refuses_everything_else_and_says_why),
		cmocka_unit_test(number_is_exact_at_its_limit),
		cmocka_unit_test(arguments_are_split_at_commas_and_taken_whole),
		cmocka_unit_test(what_is_named_twice_is_known_without_the_host),
		cmocka_unit_test(reserve_plans_exactly_the_nodes_named),
		cmocka_unit_test(reserve_gives_back_first_and_takes_1g_before_2m),
		cmocka_unit_test(release_plans_down_to_what_is_not_free),
		cmocka_unit_test(plan_refuses_with_numbers_what_cannot_be),
		cmocka_unit_test(relative_count_reaches_the_limit_exactly),
		cmocka_unit_test(a_dry_run_takes_off_what_is_left_to_the_node),
		cmocka_unit_test(enough_room_is_done),
		cmocka_unit_test(shortfall_puts_everything_back_and_tells_asked_and_got),
		cmocka_unit_test(every_failing_call_leaves_the_reserve_as_it_was),
		cmocka_unit_test(partial_keeps_what_was_got_and_goes_on),
		cmocka_unit_test(partial_of_nothing_is_a_failure),
		cmocka_unit_test(signal_in_any_call_puts_everything_back_even_with_partial),
		cmocka_unit_test(stop_and_continue_is_no_interruption),
		cmocka_unit_test(stop_and_continue_while_putting_back_leaves_nothing_behind),
		cmocka_unit_test(what_cannot_be_put_back_is_told),
		cmocka_unit_test(progress_is_followed_by_another_try),
		cmocka_unit_test(tries_are_bounded_without_wait),
		cmocka_unit_test(wait_goes_on_until_there_is_room),
		cmocka_unit_test(release_of_everything_lets_pages_that_came_into_use_stay),
		cmocka_unit_test(signals_end_the_process_once_everything_is_put_back),
		cmocka_unit_test(ignored_signals_stay_ignored),
		cmocka_unit_test(signal_before_a_blocking_call_still_ends_it),
		cmocka_unit_test(table_aligns_and_leaves_no_blanks_at_line_ends),
		cmocka_unit_test(colour_does_not_move_columns),
		cmocka_unit_test(sizes_are_rounded_down),
		cmocka_unit_test(bar_shows_every_part_and_fills_its_width),
		cmocka_unit_test(json_passes_a_lack_of_memory_on),
		cmocka_unit_test(errno_values_have_their_exit_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
