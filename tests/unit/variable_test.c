// SPDX-License-Identifier: MIT
/*
 * Variables over stand-in regions: the functions of region.c are defined here, so that the library's own are not
 * linked. They keep named memory in a table, as the module does, and can be short of pages. The module itself is in
 * the kselftests.
 */
#include "pool_world.h"

#include <sys/wait.h>

#define NAMES	8

struct hugepin_region {
	char name[64];
	uint64_t bytes, page_bytes;
	unsigned int handles;
	bool linked;
	char *memory;
};

static struct hugepin_region names[NAMES];
static uint64_t free_1g, free_2m;		/* pages */
static unsigned int opens, creates, maps;
static unsigned int last_classes, last_policy;
static char last_nodes[64];
static bool refuse_map;
static const char *rival;			/* another process makes this name just before we do */
static bool rival_goes;				/* and removes it again */

static struct hugepin_region *lookup(const char *name)
{
	size_t i;

	for (i = 0; i < NAMES; i++) {
		if (names[i].linked && !strcmp(names[i].name, name))
			return &names[i];
	}
	return NULL;
}

static void drop(struct hugepin_region *region)
{
	if (region->linked || region->handles || !region->bytes)
		return;
	*(region->page_bytes == HPI_2M ? &free_2m : &free_1g) += region->bytes / region->page_bytes;
	free(region->memory);
	memset(region, 0, sizeof(*region));
}

static int make(const char *name, uint64_t bytes, unsigned int classes, struct hugepin_region **out)
{
	uint64_t page = classes & HUGEPIN_CLASSES_2M ? HPI_2M : HPI_1G;
	uint64_t *left = page == HPI_2M ? &free_2m : &free_1g, pages = (bytes + page - 1) / page;
	struct hugepin_region *region = names;

	if (lookup(name))
		return hpi_error(-EEXIST, "the name exists");
	if (pages > *left)
		return hpi_error(-ENOMEM, "asked %lu pages of %lu on node 0, %lu free", pages, page, *left);
	while (region->bytes)
		region++;
	*left -= pages;
	snprintf(region->name, sizeof(region->name), "%s", name);
	region->bytes = pages * page;
	region->page_bytes = page;
	region->linked = true;
	region->handles = 1;
	region->memory = calloc(1, 4096);	/* enough to tell a variable's contents */
	*out = region;
	return 0;
}

int hugepin_region_create(struct hugepin_context *ctx, const struct hugepin_region_request *request,
			  struct hugepin_region **out)
{
	struct hugepin_region *other;

	(void)ctx;
	creates++;
	assert_int_equal(request->size, sizeof(*request));
	last_classes = request->classes;
	last_policy = request->policy;
	snprintf(last_nodes, sizeof(last_nodes), "%s", request->nodes);
	if (rival && !strcmp(rival, request->name)) {
		if (!rival_goes) {
			rival = NULL;
			assert_int_equal(make(request->name, request->bytes, request->classes, &other), 0);
			other->memory[0] = 'r';
			other->handles = 0;
		}
		return hpi_error(-EEXIST, "the name exists");
	}
	return make(request->name, request->bytes, request->classes, out);
}

int hugepin_region_open(struct hugepin_context *ctx, const char *name, struct hugepin_region **out)
{
	struct hugepin_region *region = lookup(name);

	(void)ctx;
	opens++;
	if (!region)
		return hpi_error(-ENOENT, "no such name");
	region->handles++;
	*out = region;
	return 0;
}

void hugepin_region_close(struct hugepin_region *region)
{
	assert_true(region->handles > 0);
	region->handles--;
	drop(region);
}

int hugepin_region_unlink(struct hugepin_context *ctx, const char *name)
{
	struct hugepin_region *region = lookup(name);

	(void)ctx;
	if (!region)
		return -ENOENT;
	region->linked = false;
	drop(region);
	return 0;
}

uint64_t hugepin_region_bytes(const struct hugepin_region *region)
{
	return region->bytes;
}

int hugepin_region_map(struct hugepin_region *region, uint64_t offset, uint64_t bytes, unsigned int flags, void **out)
{
	assert_int_equal(offset, 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(flags, HUGEPIN_MAP_POPULATE);
	maps++;
	if (refuse_map)
		return hpi_error(-ENOMEM, "mapping refused");
	*out = region->memory;
	return 0;
}

static int setup(void **state)
{
	world_setup(state);
	memset(names, 0, sizeof(names));
	free_1g = 3;
	free_2m = 600;
	opens = creates = maps = 0;
	refuse_map = false;
	rival = NULL;
	rival_goes = false;
	return 0;
}

static int teardown(void **state)
{
	size_t i;

	for (i = 0; i < NAMES; i++)
		assert_int_equal(names[i].handles, 0);
	assert_int_equal(free_1g, 3);
	assert_int_equal(free_2m, 600);
	return world_teardown(state);
}

static struct hugepin_pool *variable_pool(const char *key, const char *value)
{
	struct hugepin_context *ctx = make_context(key, value, NULL);

	ctx->mount_fd = open("/dev/null", O_RDONLY);	/* the module is here, it says */
	memset(ctx->absent, 0, sizeof(ctx->absent));
	return make_pool(ctx, HUGEPIN_POOL_VARIABLE);
}

static void a_variable_is_made_zeroed_and_found_again_with_its_contents(void **state)
{
	struct hugepin_pool *pool = variable_pool("variable_ladder", "kmod:2M");
	struct hugepin_variable *v;
	int found = 7;

	(void)state;
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_MIB(3) + 1, &found, &v), 0);
	assert_int_equal(found, 0);
	assert_int_equal(hugepin_variable_bytes(v), HPI_MIB(3) + 1);
	assert_int_equal(hugepin_region_bytes(hugepin_variable_region(v)), HPI_MIB(4));
	assert_int_equal(*(char *)hugepin_variable_address(v), 0);
	assert_string_equal(last_nodes, "0");
	strcpy(hugepin_variable_address(v), "trained");
	hugepin_variable_close(v);
	end_pool(pool);

	pool = variable_pool("variable_ladder", "kmod:2M");
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_MIB(4), &found, &v), 0);
	assert_int_equal(found, 1);
	assert_string_equal(hugepin_variable_address(v), "trained");
	hugepin_variable_close(v);
	hugepin_variable_close(NULL);
	assert_int_equal(hugepin_region_unlink(pool->ctx, "emb0"), 0);
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_MIB(4), NULL, &v), 0);
	assert_int_equal(*(char *)hugepin_variable_address(v), 0);
	hugepin_variable_close(v);
	assert_int_equal(hugepin_region_unlink(pool->ctx, "emb0"), 0);
	end_pool(pool);
}

static void another_size_is_refused_with_both_sizes(void **state)
{
	struct hugepin_pool *pool = variable_pool("variable_ladder", "kmod:2M");
	struct hugepin_variable *v, *other = NULL;
	int found = 7;

	(void)state;
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_MIB(4), NULL, &v), 0);
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_MIB(4) + 1, &found, &other), -EEXIST);
	assert_non_null(strstr(hugepin_error(), "4194304"));
	assert_non_null(strstr(hugepin_error(), "6291456"));
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_2M, &found, &other), -EEXIST);
	assert_null(other);
	assert_int_equal(found, 7);
	assert_int_equal(stats_of(pool).active_blocks, 1);
	hugepin_variable_close(v);
	hugepin_region_unlink(pool->ctx, "emb0");
	end_pool(pool);
}

static void of_two_that_make_the_same_name_one_finds_it(void **state)
{
	struct hugepin_pool *pool = variable_pool("variable_ladder", "kmod:2M");
	struct hugepin_variable *v;
	int found;

	(void)state;
	rival = "emb0";
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_2M, &found, &v), 0);
	assert_int_equal(found, 1);
	assert_int_equal(*(char *)hugepin_variable_address(v), 'r');
	hugepin_variable_close(v);
	hugepin_region_unlink(pool->ctx, "emb0");
	/* A name that is always there when we make it and never when we open it ends in an error, not in a loop. */
	rival = "ghost";
	rival_goes = true;
	assert_int_equal(hugepin_variable_open(pool, "ghost", HPI_2M, &found, &v), -EEXIST);
	end_pool(pool);
}

static void bad_requests_are_refused(void **state)
{
	struct hugepin_pool *pool = variable_pool("variable_ladder", "kmod:2M"), *host;
	struct hugepin_variable *v = NULL;

	(void)state;
	assert_int_equal(hugepin_variable_open(pool, "emb0", 0, NULL, &v), -EINVAL);
	assert_int_equal(hugepin_variable_open(pool, "emb0", UINT64_MAX, NULL, &v), -EINVAL);
	assert_int_equal(hugepin_variable_open(pool, NULL, HPI_2M, NULL, &v), -EINVAL);
	host = make_pool(pool->ctx, HUGEPIN_POOL_HOST);
	assert_int_equal(hugepin_variable_open(host, "emb0", HPI_2M, NULL, &v), -EINVAL);
	assert_int_equal(hugepin_pool_destroy(host), 0);
	assert_int_equal(creates + opens, 0);
	assert_null(v);
	end_pool(pool);
}

static void without_the_module_on_the_ladder_there_are_no_variables(void **state)
{
	struct hugepin_context *ctx = make_context("variable_ladder", "hugetlb:2M,base", NULL);
	struct hugepin_pool *pool = make_pool(ctx, HUGEPIN_POOL_VARIABLE);
	struct hugepin_variable *v;

	(void)state;
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_2M, NULL, &v), -ENODEV);
	assert_int_equal(creates, 0);
	end_pool(pool);
}

static void a_pool_of_the_module_alone_is_refused_where_it_is_not(void **state)
{
	struct hugepin_context *ctx = make_context("variable_ladder", "kmod:2M", NULL);
	struct hugepin_pool *pool = NULL;

	(void)state;
	hpi_sys_close(ctx->device_fd);
	hpi_sys_close(ctx->mount_fd);
	ctx->device_fd = ctx->mount_fd = -1;
	assert_int_equal(hugepin_pool_create(ctx, HUGEPIN_POOL_VARIABLE, &pool), -ENODEV);
	assert_null(pool);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
}

static void a_variable_that_cannot_be_mapped_leaves_no_name(void **state)
{
	struct hugepin_pool *pool = variable_pool("variable_ladder", "kmod:2M");
	struct hugepin_variable *v;

	(void)state;
	refuse_map = true;
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_2M, NULL, &v), -ENOMEM);
	assert_null(lookup("emb0"));
	refuse_map = false;
	/* One that was there keeps its name. */
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_2M, NULL, &v), 0);
	hugepin_variable_close(v);
	refuse_map = true;
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_2M, NULL, &v), -ENOMEM);
	assert_non_null(lookup("emb0"));
	hugepin_region_unlink(pool->ctx, "emb0");
	assert_int_equal(stats_of(pool).mapped_bytes, 0);
	end_pool(pool);
}

static void variables_count_in_the_numbers_and_under_the_cap(void **state)
{
	struct hugepin_pool *pool = variable_pool("variable_cap", "8M");
	struct hugepin_pool_stats stats;
	struct hugepin_variable *v[2];

	(void)state;
	assert_int_equal(hugepin_variable_open(pool, "a", HPI_MIB(3), NULL, &v[0]), 0);
	stats = stats_of(pool);
	assert_int_equal(stats.active_bytes, HPI_MIB(4));
	assert_int_equal(stats.requested_bytes, HPI_MIB(3));
	assert_int_equal(stats.mapped_bytes, HPI_MIB(4));
	assert_int_equal(hugepin_variable_open(pool, "b", HPI_MIB(5), NULL, &v[1]), -ENOMEM);
	assert_non_null(strstr(hugepin_error(), "asked 6291456 bytes, mapped 4194304, cap 8388608"));
	assert_int_equal(hugepin_variable_open(pool, "b", HPI_MIB(4), NULL, &v[1]), 0);
	assert_int_equal(hugepin_pool_destroy(pool), -EBUSY);
	hugepin_variable_close(v[0]);
	hugepin_variable_close(v[1]);
	stats = stats_of(pool);
	assert_int_equal(stats.mapped_bytes, 0);
	assert_int_equal(stats.allocs, stats.frees);
	assert_int_equal(stats.peak_mapped_bytes, HPI_MIB(8));
	hugepin_region_unlink(pool->ctx, "a");
	hugepin_region_unlink(pool->ctx, "b");
	end_pool(pool);
}

/* C011: 3 pages of 1G and 600 of 2M. */
static void variable_use_1g_huge_page_decides_the_page_size(void **state)
{
	struct hugepin_variable *v;
	struct hugepin_pool *pool;
	int found;

	(void)state;
	pool = variable_pool("variable_use_1g_huge_page", "0");
	assert_int_equal(hugepin_variable_open(pool, "t", HPI_GIB(1) + 1, NULL, &v), 0);
	assert_int_equal(last_classes, HUGEPIN_CLASSES_2M);
	assert_int_equal(free_2m, 600 - 513);
	hugepin_variable_close(v);
	hugepin_region_unlink(pool->ctx, "t");
	end_pool(pool);

	pool = variable_pool("variable_use_1g_huge_page", "1");
	assert_int_equal(hugepin_variable_open(pool, "t", HPI_GIB(5), NULL, &v), -ENOMEM);
	assert_int_equal(told.errors, 1);
	assert_non_null(strstr(told.last, "asked 5 pages of 1073741824 on node 0, 3 free"));
	assert_int_equal(free_1g, 3);
	assert_int_equal(hugepin_variable_open(pool, "t", HPI_GIB(1) + 1, NULL, &v), 0);
	assert_int_equal(free_1g, 1);
	hugepin_variable_close(v);
	assert_int_equal(hugepin_variable_open(pool, "t", HPI_GIB(1) + 1, &found, &v), 0);
	assert_int_equal(found, 1);
	hugepin_variable_close(v);
	hugepin_region_unlink(pool->ctx, "t");
	end_pool(pool);

	memset(&told, 0, sizeof(told));
	pool = variable_pool("variable_use_1g_huge_page", "2");
	assert_int_equal(hugepin_variable_open(pool, "t", HPI_GIB(5), NULL, &v), -ENOMEM);
	assert_int_equal(told.errors, 1);
	assert_non_null(strstr(told.last, "asked 2560 pages of 2097152 on node 0, 600 free"));
	free_1g = 0;
	assert_int_equal(hugepin_variable_open(pool, "t", HPI_GIB(1), NULL, &v), 0);
	assert_int_equal(told.errors, 2);
	assert_int_equal(free_2m, 600 - 512);
	hugepin_variable_close(v);
	free_1g = 3;
	hugepin_region_unlink(pool->ctx, "t");
	end_pool(pool);
}

static void closing_in_a_child_leaves_the_parents_books(void **state)
{
	struct hugepin_pool *pool = variable_pool("variable_ladder", "kmod:2M");
	struct hugepin_variable *v, *other;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(hugepin_variable_open(pool, "emb0", HPI_2M, NULL, &v), 0);
	pid = fork();
	if (!pid) {
		if (hugepin_variable_open(pool, "b", HPI_2M, NULL, &other) != -EPERM)
			_exit(1);
		hugepin_variable_close(v);
		_exit(pool->variables == 1 ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	hugepin_variable_close(v);
	hugepin_region_unlink(pool->ctx, "emb0");
	end_pool(pool);
}

int main(void)
{
#define VARIABLE_TEST(name)	cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		VARIABLE_TEST(a_variable_is_made_zeroed_and_found_again_with_its_contents),
		VARIABLE_TEST(another_size_is_refused_with_both_sizes),
		VARIABLE_TEST(of_two_that_make_the_same_name_one_finds_it),
		VARIABLE_TEST(bad_requests_are_refused),
		VARIABLE_TEST(without_the_module_on_the_ladder_there_are_no_variables),
		VARIABLE_TEST(a_pool_of_the_module_alone_is_refused_where_it_is_not),
		VARIABLE_TEST(a_variable_that_cannot_be_mapped_leaves_no_name),
		VARIABLE_TEST(variables_count_in_the_numbers_and_under_the_cap),
		VARIABLE_TEST(variable_use_1g_huge_page_decides_the_page_size),
		VARIABLE_TEST(closing_in_a_child_leaves_the_parents_books),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
