// SPDX-License-Identifier: MIT
/* The reserve: INFO in order, the knob of a node and class, why a class is absent. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_module.h"
#include "internal.h"
#include "tree.h"

#define KNOB_1G	"node0/hugepages-1048576kB/nr_hugepages"
#define KNOB_2M	"node0/hugepages-2048kB/nr_hugepages"

static struct hugepin_context *ctx;
static struct tree tree;

static int load(void **state)
{
	(void)state;
	fake_module_load();
	tree_make(&tree);
	tree_write(&tree, "uapi_version", "1\n");
	tree_write(&tree, KNOB_1G, "2\n");
	tree_write(&tree, KNOB_2M, "0\n");
	strcpy(fake.sysfs, tree.root);
	ctx = fake_context("runtime", "none", NULL);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	tree_remove(&tree, "");
	fake_module_unload();
	return 0;
}

static void assert_text(const char *part)
{
	if (!strstr(hugepin_error(), part))
		fail_msg("\"%s\" does not have \"%s\"", hugepin_error(), part);
}

static void test_entries_come_by_node_and_1g_first(void **state)
{
	struct hugepin_reserve_info info = { .size = sizeof(info) };
	const struct { int node; enum hugepin_class class; uint64_t clean; } expected[] = {
		{ 0, HUGEPIN_PAGES_1G, 4 }, { 0, HUGEPIN_PAGES_2M, 512 }, { 2, HUGEPIN_PAGES_1G, 1 },
		{ 3, HUGEPIN_PAGES_2M, 7 },
	};
	size_t i;

	(void)state;
	fake.free[2][HUGEPIN_CLASS_1G] = 1;
	fake.free[3][HUGEPIN_CLASS_2M] = 7;
	for (i = 0; i < 4; i++) {
		assert_int_equal(hugepin_reserve_at(ctx, i, &info), 0);
		assert_int_equal(info.node, expected[i].node);
		assert_int_equal(info.page_class, expected[i].class);
		assert_int_equal(info.clean_pages, expected[i].clean);
		assert_int_equal(info.asked_pages, expected[i].clean + 9);
		assert_int_equal(info.total_pages, info.clean_pages + info.dirty_pages + info.in_use_pages +
				 info.quarantined_pages + info.poisoned_pages);
		assert_int_equal(info.size, sizeof(info));
	}
	assert_int_equal(hugepin_reserve_at(ctx, 4, &info), -ENOENT);
	assert_text("there are 4");
	assert_int_equal(hugepin_reserve_at(ctx, (size_t)-1, &info), -ENOENT);
	info.size = 4097;
	assert_int_equal(hugepin_reserve_at(ctx, 0, &info), -EINVAL);
	info.size = 8;
	assert_int_equal(hugepin_reserve_at(ctx, 0, &info), -EINVAL);
	assert_int_equal(hugepin_reserve_at(ctx, 0, NULL), -EINVAL);
}

static void test_reading_without_the_module_says_why(void **state)
{
	struct hugepin_reserve_info info = { .size = sizeof(info) };
	int device = ctx->device_fd, mount = ctx->mount_fd;

	(void)state;
	ctx->device_fd = ctx->mount_fd = -1;
	ctx->module_err = -ENODEV;
	assert_int_equal(hugepin_reserve_at(ctx, 0, &info), -ENODEV);
	ctx->module_err = -EACCES;
	assert_int_equal(hugepin_reserve_at(ctx, 0, &info), -EACCES);
	assert_string_equal(hugepin_class_absent(ctx, HUGEPIN_PAGES_2M),
			    "the hugepin module is not here or may not be used");
	ctx->device_fd = device;
	fake.device_is_dumb = true;
	assert_int_equal(hugepin_reserve_at(ctx, 0, &info), -ENOTTY);
	ctx->mount_fd = mount;
}

static void test_each_reason_for_an_absent_class_has_its_words(void **state)
{
	static const char *const parts[] = { NULL, "kernel", "parameter", "self-test", "newer" };
	unsigned int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		ctx->absent[HUGEPIN_PAGES_1G] = i;
		if (parts[i])
			assert_non_null(strstr(hugepin_class_absent(ctx, HUGEPIN_PAGES_1G), parts[i]));
		else
			assert_null(hugepin_class_absent(ctx, HUGEPIN_PAGES_1G));
		assert_null(hugepin_class_absent(ctx, HUGEPIN_PAGES_2M));
	}
	assert_non_null(hugepin_class_absent(ctx, HUGEPIN_PAGES_BASE));
}

static void test_setting_writes_the_knob_and_reads_it_back(void **state)
{
	uint64_t got = 77;

	(void)state;
	assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_2M, 640, &got), 0);
	assert_int_equal(got, 640);
	assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_1G, 3, NULL), 0);
	assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_1G, 0, &got), 0);
	assert_int_equal(got, 0);
}

static void test_each_refusal_has_asked_and_got(void **state)
{
	const struct { int from, to; const char *part; } refusals[] = {
		{ -ENOMEM, -ENOMEM, "asked 8 pages of 1G on node 0, got 2" },
		{ -EBUSY, -EBUSY, "8 pages of 1G on node 0, 2 are held" },
		{ -ERANGE, -ERANGE, "asked 8 pages of 1G on node 0, more than it can hold; it holds 2" },
		{ -EINTR, -EINTR, "2 of 8 pages" },
		{ -EACCES, -EACCES, "root" },
		{ -EPERM, -EACCES, "root" },
		{ -EROFS, -EROFS, "reserve on the host" },
	};
	uint64_t got;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		fake.knob_write_err = refusals[i].from;
		got = 77;
		assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_1G, 8, &got), refusals[i].to);
		assert_text(refusals[i].part);
		assert_int_equal(got, 2);
	}
}

/* C068, for our own knobs: a container's read-only sysfs is no failure when there is nothing to change. */
static void test_read_only_sysfs_is_fine_when_the_value_is_there(void **state)
{
	uint64_t got;

	(void)state;
	fake.knob_write_err = -EROFS;
	assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_1G, 2, &got), 0);
	assert_int_equal(got, 2);
	fake.knob_write_err = -ENOMEM;
	assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_1G, 2, &got), -ENOMEM);
}

static void test_what_is_missing_is_told(void **state)
{
	(void)state;
	assert_int_equal(hugepin_reserve_set(ctx, 9, HUGEPIN_PAGES_2M, 1, NULL), -ENODEV);
	assert_text("on node 9");
	assert_int_equal(hugepin_reserve_set(ctx, -1, HUGEPIN_PAGES_2M, 1, NULL), -ENODEV);
	assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_BASE, 1, NULL), -ENODEV);
	tree_remove(&tree, "node0/hugepages-1048576kB");
	ctx->absent[HUGEPIN_PAGES_1G] = HUGEPIN_ABSENT_KERNEL;
	assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_1G, 1, NULL), -ENODEV);
	assert_text("this kernel cannot");
	tree_remove(&tree, "node0");
	tree_remove(&tree, "uapi_version");
	assert_int_equal(hugepin_reserve_set(ctx, 0, HUGEPIN_PAGES_2M, 1, NULL), -ENODEV);
	assert_text("not loaded");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, load, unload)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_entries_come_by_node_and_1g_first),
		TEST(test_reading_without_the_module_says_why),
		TEST(test_each_reason_for_an_absent_class_has_its_words),
		TEST(test_setting_writes_the_knob_and_reads_it_back),
		TEST(test_each_refusal_has_asked_and_got),
		TEST(test_read_only_sysfs_is_fine_when_the_value_is_there),
		TEST(test_what_is_missing_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
