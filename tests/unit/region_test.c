// SPDX-License-Identifier: MIT
/* Regions: what is asked of the module, its refusals in words, names, mappings. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_module.h"
#include "internal.h"

static struct hugepin_context *ctx;
static struct hugepin_region *region;
static char long_path[128];

static int load(void **state)
{
	(void)state;
	fake_module_load();
	ctx = fake_context("runtime", "none", NULL);
	region = NULL;
	return 0;
}

static int unload(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	hugepin_region_close(region);
	assert_int_equal(ctx->objects, 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	fake_module_unload();
	return 0;
}

static struct hugepin_region_request request(uint64_t bytes)
{
	return (struct hugepin_region_request){ .size = sizeof(struct hugepin_region_request), .bytes = bytes };
}

static void assert_text(const char *part)
{
	if (!strstr(hugepin_error(), part))
		fail_msg("\"%s\" does not have \"%s\"", hugepin_error(), part);
}

/* ---- making ---- */

static void test_an_unnamed_region_tells_what_was_given(void **state)
{
	struct hugepin_region_request r = request(HPI_1G + 3 * HPI_2M - 5);
	struct hugepin_extent_info extents[2];

	(void)state;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(hugepin_region_bytes(region), HPI_1G + 3 * HPI_2M);
	assert_true(hugepin_region_fd(region) >= 0);
	assert_int_equal(hugepin_region_extents(region, NULL, 0), 2);
	assert_int_equal(hugepin_region_extents(region, extents, 2), 2);
	assert_int_equal(extents[0].page_class, HUGEPIN_PAGES_1G);
	assert_int_equal(extents[0].bytes, HPI_1G);
	assert_int_equal(extents[1].page_class, HUGEPIN_PAGES_2M);
	assert_int_equal(extents[1].bytes, 3 * HPI_2M);
	assert_int_equal(extents[1].node, 0);
	assert_int_equal(fake.create.classes, 3);
	assert_int_equal(fake.create.flags, 0);
	assert_int_equal(fake.create.policy, HUGEPIN_POLICY_BIND);
}

static void test_extents_fill_a_short_array_and_no_more(void **state)
{
	struct hugepin_region_request r = request(HPI_1G + HPI_2M);
	struct hugepin_extent_info extents[2] = { { .node = 77 }, { .node = 78 } };

	(void)state;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(hugepin_region_extents(region, extents, 1), 2);
	assert_int_equal(extents[0].node, 0);
	assert_int_equal(extents[1].node, 78);
	assert_int_equal(hugepin_region_extents(region, NULL, 1), -EINVAL);
}

static void test_nodes_become_the_modules_mask(void **state)
{
	struct hugepin_region_request r = request(HPI_2M);

	(void)state;
	fake_topology(ctx, 4);
	fake.free[2][HUGEPIN_CLASS_2M] = 5;
	r.nodes = "2-3";
	r.policy = HUGEPIN_NODES_INTERLEAVE;
	r.flags = HUGEPIN_REGION_FALLBACK;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(fake.create_nodes, 0xc);
	assert_int_equal(fake.create.policy, HUGEPIN_POLICY_INTERLEAVE);
	assert_int_equal(fake.create.flags, HUGEPIN_CREATE_FALLBACK);
	hugepin_region_close(region);
	region = NULL;
	r.nodes = NULL;
	ctx->topology.nodes[1].allowed = false;
	ctx->topology.nodes[3].has_memory = false;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(fake.create_nodes, 0x5);
}

static void test_bad_requests_are_refused_before_the_module_is_asked(void **state)
{
	struct hugepin_region_request r = request(HPI_2M);
	struct { struct hugepin_region_request known; uint64_t more; } longer = { .known = r, .more = 0 };
	const struct {
		size_t size;
		uint64_t bytes;
		unsigned int flags, classes, policy, mode;
		const char *nodes, *text;
		int err;
	} bad[] = {
		{ .size = 4, .bytes = 1, .err = -EINVAL, .text = "size is 4" },
		{ .size = 4097, .bytes = 1, .err = -EINVAL, .text = "size is 4097" },
		{ .bytes = 0, .err = -EINVAL, .text = "0 bytes" },
		{ .bytes = UINT64_MAX, .err = -EINVAL, .text = "18446744073709551615 bytes" },
		{ .bytes = 1, .flags = 6, .err = -EINVAL, .text = "flags 0x6" },
		{ .bytes = 1, .classes = 1, .err = -EINVAL, .text = "classes 0x1" },
		{ .bytes = 1, .classes = 8, .err = -EINVAL, .text = "classes 0x8" },
		{ .bytes = 1, .policy = 3, .err = -EINVAL, .text = "policy 3" },
		{ .bytes = 1, .mode = 01777, .err = -EINVAL, .text = "mode 01777" },
		{ .bytes = 1, .nodes = "", .err = -EINVAL, .text = "\"\"" },
		{ .bytes = 1, .nodes = "0-", .err = -EINVAL, .text = "\"0-\"" },
		{ .bytes = 1, .nodes = "0,1000", .err = -ENODEV, .text = "node 1000 does not exist" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		r = (struct hugepin_region_request){
			.size = bad[i].size ? bad[i].size : sizeof(r), .bytes = bad[i].bytes, .flags = bad[i].flags,
			.classes = bad[i].classes, .policy = (enum hugepin_policy)bad[i].policy, .mode = bad[i].mode,
			.nodes = bad[i].nodes,
		};
		assert_int_equal(hugepin_region_create(ctx, &r, &region), bad[i].err);
		assert_text(bad[i].text);
		assert_null(region);
	}
	assert_int_equal(hugepin_region_create(ctx, NULL, &region), -EINVAL);
	/* A caller of a newer library: fine as long as it does not ask for what is not known here. */
	longer.known.size = sizeof(longer);
	longer.more = 1;
	assert_int_equal(hugepin_region_create(ctx, &longer.known, &region), -EINVAL);
	assert_int_equal(fake.creates, 0);
	longer.more = 0;
	assert_int_equal(hugepin_region_create(ctx, &longer.known, &region), 0);
}

static void test_1g_is_left_out_only_where_the_class_is_absent(void **state)
{
	struct hugepin_region_request r = request(HPI_1G);

	(void)state;
	ctx->absent[HUGEPIN_PAGES_1G] = HUGEPIN_ABSENT_SELFTEST;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(fake.create.classes, 1u << HUGEPIN_CLASS_2M);
	r.classes = HUGEPIN_CLASSES_1G;
	fake.create_err = -EOPNOTSUPP;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), -EOPNOTSUPP);
	assert_int_equal(fake.create.classes, 1u << HUGEPIN_CLASS_1G);
	assert_text("self-test");
}

static void test_refusals_have_the_modules_numbers(void **state)
{
	struct hugepin_region_request r = request(5 * HPI_1G);
	const struct {
		int err, got;
		struct hugepin_shortfall shortfall;
		unsigned int flags;
		const char *parts[4];
	} refusals[] = {
		{ -ENOMEM,
		  -ENOMEM,
		  { HUGEPIN_SHORT_FREE, HUGEPIN_CLASS_1G, 0, 0, 5, 3, 0, 0 },
		  0,
		  { "5368709120 bytes", "asked 5 pages of 1G on node 0, 3 free", "hugepinctl reserve",
		    "allow fallback" } },
		{ -ENOMEM,
		  -ENOMEM,
		  { HUGEPIN_SHORT_FREE, HUGEPIN_CLASS_2M, HUGEPIN_NODE_ANY, 0, 9, 1, 0, 0 },
		  1,
		  { "asked 9 pages of 2M on node 0, 1 free" } },
		{ -EDQUOT,
		  -EDQUOT,
		  { HUGEPIN_SHORT_USER, HUGEPIN_CLASS_1G, 1, 0, 5, 0, 6, 2 },
		  0,
		  { "asked 5 pages of 1G on node 1", "may hold 6", "holds 2", "user_limit_percent" } },
		{ -EDQUOT,
		  -EDQUOT,
		  { HUGEPIN_SHORT_MOUNT, HUGEPIN_CLASS_2M, HUGEPIN_NODE_ANY, 0, 5, 0, 7, 4 },
		  0,
		  { "asked 5 pages of 2M", "may hold 7", "holds 4" } },
		{ -EDQUOT,
		  -EDQUOT,
		  { HUGEPIN_SHORT_CGROUP, HUGEPIN_CLASS_2M, 1, 0, 5, 9, 0, 0 },
		  0,
		  { "asked 5 pages of 2M on node 1", "dmem.max", "hugepin/node1" } },
		{ -ENOMEM, -ENOMEM, { 0 }, 0, { "bookkeeping" } },
		{ -ENODEV, -ENODEV, { 0 }, 0, { "node 0" } },
		{ -ENOTTY, -ENODEV, { 0 }, 0, { "not hugepinfs" } },
		{ -EINTR, -EINTR, { 0 }, 0, { "Interrupted" } },
	};
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		fake.create_err = refusals[i].err;
		fake.shortfall = refusals[i].shortfall;
		r.flags = refusals[i].flags;
		assert_int_equal(hugepin_region_create(ctx, &r, &region), refusals[i].got);
		assert_null(region);
		for (k = 0; k < 4 && refusals[i].parts[k]; k++)
			assert_text(refusals[i].parts[k]);
		if (r.flags)
			assert_null(strstr(hugepin_error(), "allow fallback"));
	}
	assert_int_equal(ctx->objects, 0);
}

static void test_without_the_module_the_error_says_so(void **state)
{
	struct hugepin_region_request r = request(HPI_2M);

	(void)state;
	close(ctx->device_fd);
	close(ctx->mount_fd);
	ctx->device_fd = ctx->mount_fd = -1;
	ctx->module_err = -ENODEV;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), -ENODEV);
	assert_text("module is not here");
	r.name = "emb0";
	assert_int_equal(hugepin_region_create(ctx, &r, &region), -ENODEV);
	assert_text(fake.mount);
}

/* ---- names ---- */

static void test_a_named_region_is_found_again_with_its_contents(void **state)
{
	struct hugepin_region_request r = request(2 * HPI_2M);
	struct hugepin_extent_info extent;
	struct hugepin_region *again;
	struct stat st;
	void *p;

	(void)state;
	r.name = "emb0";
	r.mode = 0640;
	r.classes = HUGEPIN_CLASSES_2M;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_string_equal(fake.create_name, "emb0");
	assert_int_equal(fake.create.mode, 0640);
	assert_int_equal(hugepin_region_map(region, 0, 0, 0, &p), 0);
	strcpy((char *)p + HPI_2M, "still here");
	hugepin_region_close(region);

	assert_int_equal(hugepin_region_open(ctx, "emb0", &again), 0);
	region = again;
	assert_int_equal(hugepin_region_bytes(again), 2 * HPI_2M);
	assert_int_equal(hugepin_region_extents(again, &extent, 1), 1);
	assert_int_equal(extent.bytes, 2 * HPI_2M);
	assert_int_equal(hugepin_region_map(again, HPI_2M, HPI_2M, HUGEPIN_MAP_READONLY, &p), 0);
	assert_string_equal(p, "still here");
	assert_int_equal(hugepin_region_unlink(ctx, "emb0"), 0);
	assert_int_equal(fstat(hugepin_region_fd(again), &st), 0);
	assert_int_equal(st.st_nlink, 0);
	assert_int_equal(hugepin_region_unlink(ctx, "emb0"), -ENOENT);
	assert_text("emb0");
}

static void test_a_name_with_a_slash_is_a_path_in_any_mount(void **state)
{
	struct hugepin_region_request r = request(HPI_2M);
	struct hugepin_region *other;
	char directory[100];

	(void)state;
	snprintf(directory, sizeof(directory), "%s/tenant", fake.mount);
	assert_int_equal(mkdir(directory, 0700), 0);
	snprintf(long_path, sizeof(long_path), "%s/emb", directory);
	r.name = long_path;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_string_equal(fake.create_name, "emb");
	assert_int_equal(hugepin_region_open(ctx, long_path, &other), 0);
	hugepin_region_close(other);
	assert_int_equal(hugepin_region_open(ctx, "emb", &other), -ENOENT);
	assert_int_equal(hugepin_region_unlink(ctx, long_path), 0);
	assert_int_equal(access(long_path, F_OK), -1);
	r.name = "/tmp/emb";
	if (!strncmp(fake.mount, "/tmp/", 5)) {
		assert_int_equal(hugepin_region_create(ctx, &r, &other), -ENODEV);
		assert_text("\"/tmp\" is not on hugepinfs");
	}
	r.name = "/nowhere/emb";
	assert_int_equal(hugepin_region_create(ctx, &r, &other), -ENOENT);
	r.name = "/emb";
	assert_int_equal(hugepin_region_create(ctx, &r, &other), -ENODEV);
	assert_text("\"/\" is not on hugepinfs");
}

static void test_what_is_no_name_is_refused(void **state)
{
	static const char *const bad[] = { "", ".", "..", "a/", "/", "a/.." };
	struct hugepin_region_request r = request(HPI_2M);
	char name[HUGEPIN_NAME_MAX + 2];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		r.name = bad[i];
		assert_int_equal(hugepin_region_create(ctx, &r, &region), -EINVAL);
		assert_int_equal(hugepin_region_open(ctx, bad[i], &region), -EINVAL);
		assert_int_equal(hugepin_region_unlink(ctx, bad[i]), -EINVAL);
	}
	assert_int_equal(hugepin_region_open(ctx, NULL, &region), -EINVAL);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	r.name = name;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), -ENAMETOOLONG);
	assert_int_equal(fake.creates, 0);
	name[HUGEPIN_NAME_MAX] = '\0';
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
}

static void test_a_taken_name_is_refused_and_left_alone(void **state)
{
	struct hugepin_region_request r = request(HPI_2M);
	struct hugepin_region *second = NULL;

	(void)state;
	r.name = "emb0";
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(hugepin_region_create(ctx, &r, &second), -EEXIST);
	assert_text("\"emb0\" exists");
	assert_null(second);
	assert_int_equal(hugepin_region_open(ctx, "emb0", &second), 0);
	hugepin_region_close(second);
}

static void test_only_regions_are_opened(void **state)
{
	char path[100];

	(void)state;
	snprintf(path, sizeof(path), "%s/file", fake.mount);
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	assert_int_equal(hugepin_region_open(ctx, "file", &region), -ENODEV);
	assert_text("\"file\" is not a region");
	snprintf(path, sizeof(path), "%s/link", fake.mount);
	assert_int_equal(symlink("file", path), 0);
	assert_int_equal(hugepin_region_open(ctx, "link", &region), -ENODEV);
	snprintf(path, sizeof(path), "%s/directory", fake.mount);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(hugepin_region_open(ctx, "directory", &region), -ENODEV);
	assert_int_equal(hugepin_region_open(ctx, "absent", &region), -ENOENT);
	assert_null(region);
}

static int deny_once(const char *call)
{
	static int denied;

	return !strcmp(call, "openat") && !denied++ ? EACCES : 0;
}

static void test_who_may_only_read_may_map_for_reading(void **state)
{
	struct hugepin_region_request r = request(HPI_2M);
	struct hugepin_region *reader;
	void *p;

	(void)state;
	r.name = "shared";
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	hpi_sys_fault = deny_once;
	assert_int_equal(hugepin_region_open(ctx, "shared", &reader), 0);
	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_region_map(reader, 0, 0, 0, &p), -EACCES);
	assert_text("only read");
	assert_int_equal(hugepin_region_map(reader, 0, 0, HUGEPIN_MAP_READONLY, &p), 0);
	hugepin_region_close(reader);
}

/* ---- mappings ---- */

static void test_ranges_outside_or_out_of_step_are_refused(void **state)
{
	struct hugepin_region_request r = request(4 * HPI_2M);
	const struct {
		uint64_t offset, bytes;
		unsigned int flags;
	} bad[] = {
		{ 4096, 0, 0 },
		{ 0, 4096, 0 },
		{ 4 * HPI_2M, 0, 0 },
		{ 0, 5 * HPI_2M, 0 },
		{ 3 * HPI_2M, 2 * HPI_2M, 0 },
		{ HPI_2M, UINT64_MAX - HPI_2M + 1, 0 },
		{ 0, 0, 4 },
	};
	size_t i;
	void *p = NULL;

	(void)state;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hugepin_region_map(region, bad[i].offset, bad[i].bytes, bad[i].flags, &p), -EINVAL);
	assert_null(p);
}

static bool is_mapped(void *p)
{
	unsigned char vec;

	return !mincore(p, 4096, &vec);
}

static void test_mappings_end_with_unmap_or_with_the_handle(void **state)
{
	struct hugepin_region_request r = request(4 * HPI_2M);
	void *a, *b, *c;

	(void)state;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(hugepin_region_map(region, 0, HPI_2M, 0, &a), 0);
	assert_int_equal(hugepin_region_map(region, 0, 0, HUGEPIN_MAP_POPULATE, &b), 0);
	assert_int_equal(hugepin_region_map(region, HPI_2M, 0, HUGEPIN_MAP_READONLY | HUGEPIN_MAP_POPULATE, &c), 0);
	strcpy((char *)b + HPI_2M, "shared");
	assert_string_equal(c, "shared");
	assert_int_equal(hugepin_region_unmap(region, (char *)b + 4096), -EINVAL);
	assert_text("not a mapping of this region");
	assert_int_equal(hugepin_region_unmap(region, b), 0);
	assert_int_equal(hugepin_region_unmap(region, b), -EINVAL);
	assert_false(is_mapped(b));
	assert_true(is_mapped(a));
	hugepin_region_close(region);
	region = NULL;
	assert_false(is_mapped(a));
	assert_false(is_mapped(c));
}

static int no_populate(const char *call)
{
	return strcmp(call, "madvise") ? 0 : ENOMEM;
}

static int old_kernel(const char *call)
{
	return strcmp(call, "madvise") ? 0 : EINVAL;
}

static void test_populating_is_all_or_nothing_and_keeps_contents(void **state)
{
	struct hugepin_region_request r = request(2 * HPI_2M);
	unsigned char vec[2 * HPI_2M / 4096];
	void *a, *b = NULL;
	size_t i;

	(void)state;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(hugepin_region_map(region, 0, 0, 0, &a), 0);
	strcpy(a, "kept");
	hpi_sys_fault = no_populate;
	assert_int_equal(hugepin_region_map(region, 0, 0, HUGEPIN_MAP_POPULATE, &b), -ENOMEM);
	assert_null(b);
	hpi_sys_fault = old_kernel;
	assert_int_equal(hugepin_region_map(region, 0, 0, HUGEPIN_MAP_POPULATE, &b), 0);
	assert_int_equal(mincore(b, sizeof(vec) * 4096, vec), 0);
	for (i = 0; i < sizeof(vec); i++)
		assert_true(vec[i] & 1);
	assert_string_equal(b, "kept");
}

static void test_a_child_keeps_its_mappings_when_it_closes(void **state)
{
	struct hugepin_region_request r = request(HPI_2M);
	int status;
	pid_t pid;
	void *p, *q;

	(void)state;
	assert_int_equal(hugepin_region_create(ctx, &r, &region), 0);
	assert_int_equal(hugepin_region_map(region, 0, 0, 0, &p), 0);
	pid = fork();
	if (!pid) {
		bool refused = hugepin_region_map(region, 0, 0, 0, &q) == -EPERM &&
			       hugepin_region_unmap(region, p) == -EPERM &&
			       hugepin_region_create(ctx, &r, &region) == -EPERM &&
			       hugepin_region_open(ctx, "x", &region) == -EPERM &&
			       hugepin_region_unlink(ctx, "x") == -EPERM;

		hugepin_region_close(region);
		strcpy(p, "from the child");
		_exit(refused && !hugepin_context_destroy(ctx) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_equal(p, "from the child");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, load, unload)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_unnamed_region_tells_what_was_given),
		TEST(test_extents_fill_a_short_array_and_no_more),
		TEST(test_nodes_become_the_modules_mask),
		TEST(test_bad_requests_are_refused_before_the_module_is_asked),
		TEST(test_1g_is_left_out_only_where_the_class_is_absent),
		TEST(test_refusals_have_the_modules_numbers),
		TEST(test_without_the_module_the_error_says_so),
		TEST(test_a_named_region_is_found_again_with_its_contents),
		TEST(test_a_name_with_a_slash_is_a_path_in_any_mount),
		TEST(test_what_is_no_name_is_refused),
		TEST(test_a_taken_name_is_refused_and_left_alone),
		TEST(test_only_regions_are_opened),
		TEST(test_who_may_only_read_may_map_for_reading),
		TEST(test_ranges_outside_or_out_of_step_are_refused),
		TEST(test_mappings_end_with_unmap_or_with_the_handle),
		TEST(test_populating_is_all_or_nothing_and_keeps_contents),
		TEST(test_a_child_keeps_its_mappings_when_it_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
