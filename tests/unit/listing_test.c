// SPDX-License-Identifier: MIT
/* Who holds what: regions and users as the module lists them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_module.h"
#include "internal.h"

static struct hugepin_context *ctx;

static int load(void **state)
{
	(void)state;
	fake_module_load();
	fake.can_list = true;
	ctx = fake_context("runtime", "none", NULL);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	fake_module_unload();
	return 0;
}

struct seen {
	unsigned int count, stop_at;
	struct hugepin_listed_region last;
	struct hugepin_extent_info first_extent;
	char path[64];
};

static int see(const struct hugepin_listed_region *region, void *arg)
{
	struct seen *seen = arg;

	assert_int_equal(region->size, sizeof(*region));
	assert_true(region->id > seen->last.id);
	seen->last = *region;
	seen->first_extent = region->extents[0];
	snprintf(seen->path, sizeof(seen->path), "%s", region->path ? region->path : "(none)");
	return ++seen->count == seen->stop_at ? -ECANCELED : 0;
}

static void make_regions(struct hugepin_region **regions, unsigned int count)
{
	const struct hugepin_region_request request = { .size = sizeof(request), .bytes = 4 * HPI_2M };

	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(hugepin_region_create(ctx, &request, &regions[i]), 0);
}

static void test_every_region_is_told_once_over_several_calls(void **state)
{
	struct hugepin_region *regions[5];
	struct seen seen = { .count = 0 };

	(void)state;
	make_regions(regions, 5);
	assert_int_equal(hugepin_region_visit(ctx, see, &seen), 0);
	assert_int_equal(seen.count, 5);
	assert_int_equal(fake.lists, 3);
	assert_string_equal(seen.path, "name4");
	assert_int_equal(seen.last.bytes, 4 * HPI_2M);
	assert_int_equal(seen.last.charged_uid, 1000);
	assert_int_equal(seen.last.references, 5);
	assert_int_equal(seen.last.nr_extents, 1);
	assert_int_equal(seen.first_extent.page_class, HUGEPIN_PAGES_2M);
	assert_int_equal(seen.first_extent.bytes, 4 * HPI_2M);
	for (int i = 0; i < 5; i++)
		hugepin_region_close(regions[i]);
}

static void test_a_region_without_a_name_has_no_path(void **state)
{
	struct hugepin_region *region;
	struct seen seen = { .count = 0 };

	(void)state;
	make_regions(&region, 1);
	assert_int_equal(hugepin_region_visit(ctx, see, &seen), 0);
	assert_null(seen.last.path);
	hugepin_region_close(region);
}

static void test_a_visit_ends_with_what_the_visitor_returns(void **state)
{
	struct hugepin_region *regions[4];
	struct seen seen = { .stop_at = 3 };

	(void)state;
	make_regions(regions, 4);
	assert_int_equal(hugepin_region_visit(ctx, see, &seen), -ECANCELED);
	assert_int_equal(seen.count, 3);
	for (int i = 0; i < 4; i++)
		hugepin_region_close(regions[i]);
}

static int see_user(const struct hugepin_listed_user *user, void *arg)
{
	unsigned int *count = arg;

	assert_int_equal(user->uid, 1000 + *count);
	assert_int_equal(user->depth, *count);
	assert_int_equal(user->held_2m_pages, 7);
	assert_int_equal(user->held_1g_pages, 2);
	assert_int_equal(user->quarantined_2m_pages, 1);
	assert_int_equal(user->pinned_bytes, 4096);
	++*count;
	return 0;
}

static void test_every_user_is_told(void **state)
{
	unsigned int count = 0;

	(void)state;
	assert_int_equal(hugepin_user_visit(ctx, see_user, &count), 0);
	assert_int_equal(count, 2);
}

static void test_a_module_that_cannot_list_says_so(void **state)
{
	struct seen seen = { .count = 0 };

	(void)state;
	fake.can_list = false;
	assert_int_equal(hugepin_region_visit(ctx, see, &seen), -EOPNOTSUPP);
	assert_non_null(strstr(hugepin_error(), "newer"));
	assert_int_equal(hugepin_user_visit(ctx, see_user, NULL), -EOPNOTSUPP);
}

static void test_nobody_to_tell_is_refused(void **state)
{
	(void)state;
	assert_int_equal(hugepin_region_visit(ctx, NULL, NULL), -EINVAL);
	assert_int_equal(hugepin_user_visit(ctx, NULL, NULL), -EINVAL);
}

static void test_a_failing_call_is_told(void **state)
{
	struct seen seen = { .count = 0 };

	(void)state;
	fake.list_err = -ENOMEM;
	assert_int_equal(hugepin_region_visit(ctx, see, &seen), -ENOMEM);
	assert_int_equal(hugepin_user_visit(ctx, see_user, NULL), -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_region_is_told_once_over_several_calls, load, unload),
		cmocka_unit_test_setup_teardown(test_a_region_without_a_name_has_no_path, load, unload),
		cmocka_unit_test_setup_teardown(test_a_visit_ends_with_what_the_visitor_returns, load, unload),
		cmocka_unit_test_setup_teardown(test_every_user_is_told, load, unload),
		cmocka_unit_test_setup_teardown(test_a_module_that_cannot_list_says_so, load, unload),
		cmocka_unit_test_setup_teardown(test_nobody_to_tell_is_refused, load, unload),
		cmocka_unit_test_setup_teardown(test_a_failing_call_is_told, load, unload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
