// SPDX-License-Identifier: MIT
/* Contexts: what of the module is found, options against the machine, children of a fork. */
#include <errno.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_module.h"
#include "internal.h"

static int load(void **state)
{
	(void)state;
	fake_module_load();
	return 0;
}

static int unload(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	fake_module_unload();
	return 0;
}

static int create_with(const char *key, const char *value, struct hugepin_context **out)
{
	struct hugepin_options *options;
	int err;

	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(hugepin_options_set(options, key, value), 0);
	err = hugepin_context_create(options, out);
	hugepin_options_destroy(options);
	return err;
}

static void test_device_and_mount_are_both_opened(void **state)
{
	struct hugepin_context *ctx = fake_context("runtime", "none", NULL);

	(void)state;
	assert_true(ctx->device_fd >= 0);
	assert_true(ctx->mount_fd >= 0);
	assert_int_equal(hpi_context_module_fd(ctx), ctx->device_fd);
	assert_string_equal(ctx->runtime->name, "none");
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static void test_a_mount_alone_serves_in_a_container(void **state)
{
	struct hugepin_context *ctx;

	(void)state;
	fake.device_err = -ENOENT;
	fake.absent[HUGEPIN_CLASS_1G] = HUGEPIN_ABSENT_PARAM;
	ctx = fake_context("runtime", "none", NULL);
	assert_int_equal(ctx->device_fd, -1);
	assert_int_equal(hpi_context_module_fd(ctx), ctx->mount_fd);
	assert_int_equal(ctx->absent[HUGEPIN_PAGES_1G], HUGEPIN_ABSENT_PARAM);
	assert_int_equal(ctx->absent[HUGEPIN_PAGES_2M], HUGEPIN_ABSENT_NOT);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static void test_no_module_is_no_error_until_it_is_needed(void **state)
{
	struct hugepin_context *ctx;

	(void)state;
	fake_module_unload();
	assert_int_equal(create_with("mount", "/nowhere/at/all", &ctx), 0);
	assert_int_equal(ctx->device_fd, -1);
	assert_int_equal(ctx->mount_fd, -1);
	assert_int_equal(hpi_context_module_fd(ctx), -ENODEV);
	assert_non_null(strstr(hugepin_error(), "/nowhere/at/all"));
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static void test_a_forbidden_device_is_told_from_a_missing_one(void **state)
{
	struct hugepin_context *ctx;

	(void)state;
	fake.device_err = -EACCES;
	assert_int_equal(create_with("mount", "/nowhere", &ctx), 0);
	assert_int_equal(hpi_context_module_fd(ctx), -EACCES);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static void test_a_directory_of_another_file_system_is_no_mount(void **state)
{
	struct hugepin_context *ctx;

	(void)state;
	assert_int_equal(create_with("mount", "/", &ctx), 0);
	assert_int_equal(ctx->mount_fd, -1);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static void test_a_device_that_does_not_answer_is_as_good_as_none(void **state)
{
	struct hugepin_context *ctx;

	(void)state;
	fake.device_is_dumb = true;
	assert_int_equal(create_with("mount", "/nowhere", &ctx), 0);
	assert_int_equal(ctx->device_fd, -1);
	assert_int_equal(hpi_context_module_fd(ctx), -ENODEV);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static void test_a_node_that_does_not_exist_is_refused_with_option_and_source(void **state)
{
	struct hugepin_context *ctx = (void *)1;

	(void)state;
	assert_int_equal(create_with("node_policy", "bind:0,1023", &ctx), -ENODEV);
	assert_ptr_equal(ctx, (void *)1);
	assert_non_null(strstr(hugepin_error(), "node 1023"));
	assert_non_null(strstr(hugepin_error(), "node_policy"));
	assert_non_null(strstr(hugepin_error(), "API"));
}

static void test_a_runtime_asked_for_by_name_must_be_there(void **state)
{
	struct hugepin_context *ctx;
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	(void)state;
	if (driver) {
		dlclose(driver);
		skip();
	}
	assert_int_equal(create_with("runtime", "cuda", &ctx), -ENODEV);
	assert_non_null(strstr(hugepin_error(), "libcuda.so.1"));
	assert_non_null(strstr(hugepin_error(), "option runtime"));
	assert_int_equal(create_with("runtime", "auto", &ctx), 0);
	assert_string_equal(ctx->runtime->name, "none");
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static void test_a_context_with_regions_is_busy(void **state)
{
	struct hugepin_context *ctx = fake_context("runtime", "none", NULL);
	struct hugepin_region_request request = { .size = sizeof(request), .bytes = HPI_2M };
	struct hugepin_region *region;

	(void)state;
	assert_int_equal(hugepin_region_create(ctx, &request, &region), 0);
	assert_int_equal(hugepin_context_destroy(ctx), -EBUSY);
	assert_non_null(strstr(hugepin_error(), "1 pools, regions and pins"));
	hugepin_region_close(region);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	assert_int_equal(hugepin_context_destroy(NULL), 0);
}

/* Exit status 0: the child is refused, and can end its copy of the context. */
static int child_is_refused(struct hugepin_context *ctx)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		bool refused = hpi_context_check(ctx) == -EPERM && hpi_context_is_child(ctx) &&
			       strstr(hugepin_error(), "child of process");

		_exit(refused && !hugepin_context_destroy(ctx) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_a_child_of_a_fork_is_refused(void **state)
{
	struct hugepin_context *ctx = fake_context("runtime", "none", NULL);

	(void)state;
	assert_non_null(ctx->fork_mark);
	assert_int_equal(hpi_context_check(ctx), 0);
	assert_int_equal(child_is_refused(ctx), 0);
	assert_int_equal(hpi_context_check(ctx), 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static int no_madvise(const char *call)
{
	return strcmp(call, "madvise") ? 0 : EINVAL;
}

static void test_a_child_of_a_fork_is_refused_where_pages_cannot_be_wiped(void **state)
{
	struct hugepin_context *ctx;

	(void)state;
	hpi_sys_fault = no_madvise;
	ctx = fake_context("runtime", "none", NULL);
	assert_null(ctx->fork_mark);
	assert_int_equal(child_is_refused(ctx), 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static unsigned int fault_after;

static int fail_later(const char *call)
{
	(void)call;
	return fault_after-- ? 0 : ENOMEM;
}

static void test_any_system_call_may_fail(void **state)
{
	struct hugepin_options *options;
	struct hugepin_context *ctx;
	unsigned int i, made = 0;
	int err;

	(void)state;
	assert_int_equal(hugepin_options_create(&options), 0);
	for (i = 0; i < 200; i++) {
		fault_after = i;
		hpi_sys_fault = fail_later;
		err = hugepin_context_create(options, &ctx);
		hpi_sys_fault = NULL;
		if (!err) {
			made++;
			assert_int_equal(hugepin_context_destroy(ctx), 0);
		} else {
			assert_true(*hugepin_error());
		}
	}
	assert_true(made);
	hugepin_options_destroy(options);
}

static void test_a_null_context_is_refused(void **state)
{
	(void)state;
	assert_int_equal(hpi_context_check(NULL), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, load, unload)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_device_and_mount_are_both_opened),
		TEST(test_a_mount_alone_serves_in_a_container),
		TEST(test_no_module_is_no_error_until_it_is_needed),
		TEST(test_a_forbidden_device_is_told_from_a_missing_one),
		TEST(test_a_directory_of_another_file_system_is_no_mount),
		TEST(test_a_device_that_does_not_answer_is_as_good_as_none),
		TEST(test_a_node_that_does_not_exist_is_refused_with_option_and_source),
		TEST(test_a_runtime_asked_for_by_name_must_be_there),
		TEST(test_a_context_with_regions_is_busy),
		TEST(test_a_child_of_a_fork_is_refused),
		TEST(test_a_child_of_a_fork_is_refused_where_pages_cannot_be_wiped),
		TEST(test_any_system_call_may_fail),
		TEST(test_a_null_context_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
