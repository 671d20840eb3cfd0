// SPDX-License-Identifier: MIT
/* The kernel's own huge pages as sysfs counts them: pages, not kB, each size by itself, nodes by their ids. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "internal.h"
#include "tree.h"

static struct tree tree;

static int setup(void **state)
{
	(void)state;
	tree_make(&tree);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tree_remove(&tree, "");
	return 0;
}

static void write_counter(const char *directory, unsigned long kib, const char *name, unsigned long pages)
{
	char path[256], text[32];

	snprintf(path, sizeof(path), "%s/hugepages-%lukB/%s", directory, kib, name);
	snprintf(text, sizeof(text), "%lu\n", pages);
	tree_write(&tree, path, text);
}

static void write_pool(unsigned long kib, unsigned long pages, unsigned long free_pages, unsigned long reserved)
{
	static const char directory[] = "sys/kernel/mm/hugepages";

	write_counter(directory, kib, "nr_hugepages", pages);
	write_counter(directory, kib, "free_hugepages", free_pages);
	write_counter(directory, kib, "resv_hugepages", reserved);
	write_counter(directory, kib, "nr_overcommit_hugepages", 0);
	write_counter(directory, kib, "surplus_hugepages", 0);
}

static void write_node(unsigned int id, unsigned long kib, unsigned long free_pages)
{
	char directory[64];

	snprintf(directory, sizeof(directory), "sys/devices/system/node/node%u/hugepages", id);
	write_counter(directory, kib, "free_hugepages", free_pages);
}

static uint64_t free_on(const char *list, uint64_t page_bytes)
{
	struct hpi_nodes nodes;

	assert_int_equal(hpi_nodes_parse(list, &nodes), 0);
	return hpi_hugetlb_free_on(tree.root, page_bytes, &nodes);
}

/* C064: 2 pages of 1G and 1024 of 2M are 4 GiB, what meminfo calls Hugetlb; it counts only its default size in pages */
static void each_size_is_counted_in_its_own_pages(void **state)
{
	struct hpi_hugetlb_pool small, large;
	char hugetlb[32];
	uint64_t kib;

	(void)state;
	tree_write(&tree, "proc/meminfo", "MemTotal:       67108864 kB\nHugePages_Total:       2\nHugePages_Rsvd:     4096\n"
		   "Hugepagesize:    1048576 kB\nHugetlb:         4194304 kB\n");
	write_pool(2048, 1024, 1000, 4096);
	write_pool(1048576, 2, 2, 0);
	write_node(0, 2048, 600);
	write_node(1, 2048, 400);
	write_node(0, 1048576, 2);
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_2M, &small), 0);
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_1G, &large), 0);
	assert_int_equal(small.total_pages * HPI_2M, HPI_GIB(2));
	assert_int_equal(large.total_pages * HPI_1G, HPI_GIB(2));
	assert_int_equal(hpi_sys_read_field(tree_path(&tree, "proc/meminfo"), "Hugetlb:", hugetlb, sizeof(hugetlb)), 0);
	kib = strtoull(hugetlb, NULL, 10);
	assert_int_equal(small.total_pages * HPI_2M + large.total_pages * HPI_1G, kib << 10);
	assert_int_equal(small.reserved_pages, 4096);
	assert_int_equal(free_on("0-1", HPI_2M), small.free_pages);
	assert_int_equal(free_on("0-1", HPI_1G), large.free_pages);
}

/* C062: huge pages on node 8 alone, of nodes 0, 8 and 252 to 255 */
static void pages_belong_to_the_id_of_their_node(void **state)
{
	(void)state;
	write_node(0, 2048, 0);
	write_node(8, 2048, 77);
	write_node(252, 2048, 0);
	write_node(255, 2048, 5);
	assert_int_equal(free_on("8", HPI_2M), 77);
	assert_int_equal(free_on("0,252", HPI_2M), 0);
	assert_int_equal(free_on("252-255", HPI_2M), 5);
	assert_int_equal(free_on("0-1023", HPI_2M), 82);
	assert_int_equal(free_on("1-7", HPI_2M), 0);
	assert_int_equal(free_on("8", HPI_1G), 0);
}

static void missing_or_malformed_counter_is_an_error_that_names_it(void **state)
{
	struct hpi_hugetlb_pool pool;

	(void)state;
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_2M, &pool), -ENODEV);
	assert_non_null(strstr(hugepin_error(), "hugepages-2048kB/nr_hugepages"));
	write_pool(2048, 10, 10, 0);
	tree_write(&tree, "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "10 kB\n");
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_2M, &pool), -ENODEV);
	assert_non_null(strstr(hugepin_error(), "free_hugepages"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_size_is_counted_in_its_own_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_belong_to_the_id_of_their_node, setup, teardown),
		cmocka_unit_test_setup_teardown(missing_or_malformed_counter_is_an_error_that_names_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
