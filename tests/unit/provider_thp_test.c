// SPDX-License-Identifier: MIT
/*
 * Provider thp: what is said to be on 2M pages is; what is not, is not said so. Skipped where the machine has
 * transparent huge pages off.
 */
#include "pool_world.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#define BYTES	HPI_MIB(16)

static struct hugepin_context *ctx;
static const struct hpi_policy local = { .policy = HUGEPIN_NODES_PREFERRED };

static void need_thp(void)
{
	char text[64];

	if (hpi_sys_read_file("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text)) ||
	    strstr(text, "[never]")) {
		print_message("transparent huge pages are off on this machine\n");
		skip();
	}
}

/* What smaps says of huge pages in the area that holds @addr and of its length. */
static uint64_t huge_in_smaps(const void *addr, uint64_t *area_bytes)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long begin, end, kib, huge = 0;
	bool inside = false;
	char line[512];

	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
			inside = (uintptr_t)addr >= begin && (uintptr_t)addr < end;
			if (inside)
				*area_bytes = end - begin;
		} else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1) {
			huge = kib * KIB;
		}
	}
	fclose(smaps);
	return huge;
}

/* Between pages of another kind, so that the area is ours alone. */
static char *reservation(void)
{
	void *p;

	assert_int_equal(hpi_sys_mmap(NULL, BYTES + 2 * HPI_2M, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &p), 0);
	return (char *)hpi_round_up((uintptr_t)p + 4096, HPI_2M);
}

static void map_it(void *addr, struct hpi_mapping *out)
{
	const struct hpi_request request = { .bytes = BYTES, .classes = HUGEPIN_CLASSES_2M, .policy = &local, .addr = addr };

	if (hpi_provider_thp.map(ctx, &request, out)) {
		print_error("%s\n", hugepin_error());
		fail();
	}
}

static int refused(void *addr, uint64_t bytes)
{
	const struct hpi_request request = { .bytes = bytes, .classes = HUGEPIN_CLASSES_2M, .policy = &local, .addr = addr };
	struct hpi_mapping mapping;

	return hpi_provider_thp.map(ctx, &request, &mapping);
}

static bool is_reserved(const void *addr)
{
	return hpi_sys_madvise((void *)addr, 4096, MADV_POPULATE_READ) == -EINVAL;	/* mapped, not to be read */
}

static void memory_is_resident_and_told_as_smaps_has_it(void **state)
{
	unsigned char resident[BYTES / 4096];
	uint64_t area_bytes = 0;
	struct hpi_mapping m;
	char *at = reservation();
	size_t i;

	(void)state;
	need_thp();
	map_it(at, &m);
	assert_ptr_equal(m.addr, at);
	assert_int_equal(m.provider, HUGEPIN_PROVIDER_THP);
	assert_true(m.bytes_2m > 0 && m.bytes_2m <= BYTES);
	assert_int_equal(m.bytes_2m, huge_in_smaps(at, &area_bytes));
	assert_int_equal(area_bytes, BYTES);
	assert_int_equal(m.fd, -1);
	assert_int_equal(mincore(at, BYTES, resident), 0);
	for (i = 0; i < sizeof(resident); i++)
		assert_true(resident[i] & 1);
	for (i = 0; i < BYTES; i += 4096)
		assert_int_equal(at[i], 0);
	assert_int_equal(hpi_provider_thp.unmap(ctx, &m, true), 0);
	assert_true(is_reserved(at));
}

static void without_an_address_it_is_aligned_to_huge_pages(void **state)
{
	struct hpi_mapping m;

	(void)state;
	need_thp();
	map_it(NULL, &m);
	assert_int_equal((uintptr_t)m.addr % HPI_2M, 0);
	assert_true(m.bytes_2m > 0);
	assert_int_equal(hpi_provider_thp.unmap(ctx, &m, false), 0);
}

static const char *failing;
static int failure;
static unsigned int passes;		/* calls of it that succeed before */

static int inject(const char *call)
{
	if (strcmp(call, failing))
		return 0;
	if (passes) {
		passes--;
		return 0;
	}
	return failure;
}

static void fail_at(const char *call, int error, unsigned int after)
{
	failing = call;
	failure = error;
	passes = after;
	hpi_sys_fault = inject;
}

/* Before Linux 6.7 */
static void smaps_tells_where_the_kernel_cannot_be_asked_of_pages(void **state)
{
	uint64_t area_bytes;
	struct hpi_mapping m;
	char *at = reservation();

	(void)state;
	need_thp();
	fail_at("pagemap", ENOTTY, 0);
	map_it(at, &m);
	hpi_sys_fault = NULL;
	assert_true(m.bytes_2m > 0);
	assert_int_equal(m.bytes_2m, huge_in_smaps(at, &area_bytes));
	assert_int_equal(hpi_provider_thp.unmap(ctx, &m, false), 0);
}

/* The neighbour's pages are in the same area of smaps, and are not counted as ours. */
static void a_neighbours_huge_pages_are_not_ours(void **state)
{
	struct hpi_mapping m;
	char *at = reservation();
	void *half;

	(void)state;
	need_thp();
	assert_int_equal(hpi_mapping_place(at + BYTES / 2, BYTES / 2, MAP_PRIVATE | MAP_ANONYMOUS, -1, &half), 0);
	assert_int_equal(madvise(half, BYTES / 2, MADV_HUGEPAGE), 0);
	assert_int_equal(hpi_populate(ctx, half, BYTES / 2, HPI_2M), 0);
	fail_at("pagemap", ENOTTY, 0);
	{
		const struct hpi_request request = { .bytes = BYTES / 2, .classes = HUGEPIN_CLASSES_2M, .policy = &local,
						     .addr = at };

		assert_int_equal(hpi_provider_thp.map(ctx, &request, &m), 0);
	}
	hpi_sys_fault = NULL;
	assert_true(m.bytes_2m <= BYTES / 2);
	assert_int_equal(hpi_provider_thp.unmap(ctx, &m, false), 0);
	munmap(half, BYTES / 2);
}

static void every_failure_leaves_the_reservation(void **state)
{
	static const struct {
		const char *call;
		int error;
		unsigned int after;
		int expected;
	} cases[] = {
		{ "mmap", ENOMEM, 0, -ENOMEM },
		{ "madvise", EINVAL, 0, -ENODEV },		/* MADV_HUGEPAGE */
		{ "madvise", ENOMEM, 1, -ENOMEM },		/* populating */
		{ "madvise", EFAULT, 1, -ENOMEM },
	};
	char *at = reservation();
	size_t i;

	(void)state;
	need_thp();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fail_at(cases[i].call, cases[i].error, cases[i].after);
		assert_int_equal(refused(at, BYTES), cases[i].expected);
		hpi_sys_fault = NULL;
		assert_true(is_reserved(at));
	}
	assert_int_equal(refused(at + 4096, HPI_2M), -EINVAL);
	assert_int_equal(refused(at, 4096), -EINVAL);
	assert_int_equal(refused(at, 0), -EINVAL);
}

static int blind(const char *call)
{
	static bool touched;

	touched |= !strcmp(call, "madvise");
	return touched && !strcmp(call, "open") ? EACCES : 0;
}

static void memory_without_any_huge_page_is_given_back(void **state)
{
	char *at = reservation();

	(void)state;
	need_thp();
	hpi_sys_fault = blind;		/* nothing can be told of the pages, so none counts */
	assert_int_equal(refused(at, BYTES), -ENOMEM);
	hpi_sys_fault = NULL;
	assert_non_null(strstr(hugepin_error(), "asked 8 pages of 2M, the kernel has put none there"));
	assert_true(is_reserved(at));
}

/* C012: the fall from 2M pages to base pages is said once, counted, and told of each segment */
static int fall_to_base_pages(void)
{
	struct hugepin_pool *pool;
	char *p, *q;

	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return 1;
	pool = make_pool(make_context("host_ladder", "thp,base", NULL), HUGEPIN_POOL_HOST);
	p = take(pool, HPI_MIB(4));
	q = take(pool, HPI_MIB(8));
	assert_int_equal(told.warnings, 1);
	assert_non_null(strstr(told.last, "off for this process"));
	assert_int_equal(segment_of_block(pool, p).page_bytes, 4096);
	assert_int_equal(segment_of_block(pool, p).bytes_2m, 0);
	assert_int_equal(segment_of_block(pool, q).provider, HUGEPIN_PROVIDER_BASE);
	assert_int_equal(stats_of(pool).fallbacks, stats_of(pool).segments);
	give(pool, p);
	give(pool, q);
	end_pool(pool);
	return 0;
}

static void where_huge_pages_are_off_the_ladder_goes_on_and_says_so_once(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid)
		_exit(fall_to_base_pages());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_pool_tells_its_pages(void **state)
{
	struct hugepin_pool *pool = make_pool(make_context("host_ladder", "thp", NULL), HUGEPIN_POOL_HOST);
	char *p;

	(void)state;
	need_thp();
	p = take(pool, HPI_MIB(3));
	assert_int_equal(segment_of_block(pool, p).provider, HUGEPIN_PROVIDER_THP);
	assert_int_equal(segment_of_block(pool, p).bytes, HPI_MIB(4));
	if (segment_of_block(pool, p).bytes_2m == HPI_MIB(4))
		assert_int_equal(segment_of_block(pool, p).page_bytes, HPI_2M);
	else
		assert_int_equal(segment_of_block(pool, p).page_bytes, 4096);
	give(pool, p);
	end_pool(pool);
}

static int setup(void **state)
{
	ctx = make_context(NULL);
	return world_setup(state);
}

static int teardown(void **state)
{
	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	return world_teardown(state);
}

#define THP_TEST(name)	cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		THP_TEST(memory_is_resident_and_told_as_smaps_has_it),
		THP_TEST(without_an_address_it_is_aligned_to_huge_pages),
		THP_TEST(smaps_tells_where_the_kernel_cannot_be_asked_of_pages),
		THP_TEST(a_neighbours_huge_pages_are_not_ours),
		THP_TEST(every_failure_leaves_the_reservation),
		THP_TEST(memory_without_any_huge_page_is_given_back),
		THP_TEST(where_huge_pages_are_off_the_ladder_goes_on_and_says_so_once),
		THP_TEST(a_pool_tells_its_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
