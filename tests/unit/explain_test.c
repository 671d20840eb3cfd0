// SPDX-License-Identifier: MIT
/* hugepinctl explain against a node made of files: windows, zones, blocks, the forecast. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/kernel-page-flags.h>

#include "host.h"
#include "tree.h"

#define BLOCK_PAGES	(1u << 15)		/* 128 MiB */
#define GIB_BLOCKS	8
#define RESERVED	32			/* the kernel's own bit */
#define BIT(n)		(1ULL << (n))

static struct tree tree;

/* ---- a node ---- */

/* Node 0 from 4 GiB on, @gib of it, all in zone Normal unless a test says otherwise; every page free. */
static void make_zone(const char *name, uint64_t start, uint64_t pages, uint64_t free_pages, uint64_t file,
		      uint64_t cpu)
{
	char text[1024];
	int fd;

	snprintf(text, sizeof(text),
		 "Node 0, zone %8s\n"
		 "  pages free     %llu\n"
		 "        spanned  %llu\n"
		 "        present  %llu\n"
		 "        managed  %llu\n"
		 "        cma      0\n"
		 "      nr_free_pages %llu\n"
		 "      nr_zone_inactive_file %llu\n"
		 "      nr_zone_active_file 0\n"
		 "      nr_free_cma  0\n"
		 "  pagesets\n"
		 "    cpu: 0\n"
		 "              count:    %llu\n"
		 "              high:     99\n"
		 "  start_pfn:           %llu\n",
		 name, (unsigned long long)free_pages, (unsigned long long)pages, (unsigned long long)pages,
		 (unsigned long long)pages, (unsigned long long)free_pages, (unsigned long long)file,
		 (unsigned long long)cpu, (unsigned long long)start);
	fd = open(tree_path(&tree, "proc/zoneinfo"), O_WRONLY | O_CREAT | O_APPEND, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void make_block(unsigned int number, const char *state, const char *zones)
{
	char name[128];

	snprintf(name, sizeof(name), "sys/devices/system/memory/memory%u/state", number);
	tree_write(&tree, name, state);
	snprintf(name, sizeof(name), "sys/devices/system/memory/memory%u/valid_zones", number);
	tree_write(&tree, name, zones);
	snprintf(name, sizeof(name), "sys/devices/system/memory/memory%u/node0/x", number);
	tree_write(&tree, name, "");
	snprintf(name, sizeof(name), "sys/devices/system/node/node0/memory%u/x", number);
	tree_write(&tree, name, "");
}

static void set_pages(uint64_t pfn, uint64_t count, uint64_t flags)
{
	uint64_t *entries = malloc(count * sizeof(*entries));
	int fd = open(tree_path(&tree, "proc/kpageflags"), O_WRONLY | O_CREAT, 0644);

	assert_true(fd >= 0 && entries);
	for (uint64_t i = 0; i < count; i++)
		entries[i] = flags;
	assert_int_equal(pwrite(fd, entries, count * sizeof(*entries), (off_t)(pfn * sizeof(*entries))),
			 count * sizeof(*entries));
	free(entries);
	close(fd);
}

static void set_compound(uint64_t pfn, uint64_t count, uint64_t flags)
{
	set_pages(pfn, 1, flags | BIT(KPF_COMPOUND_HEAD));
	set_pages(pfn + 1, count - 1, flags | BIT(KPF_COMPOUND_TAIL));
}

static uint64_t window_pfn(unsigned int index)
{
	return (4 + index) * WINDOW_PAGES;
}

static void make_node(unsigned int gib)
{
	tree_write(&tree, "proc/zoneinfo", "Node 1, zone   Normal\n        spanned  5\n  start_pfn:           77\n");
	tree_write(&tree, "sys/devices/system/memory/block_size_bytes", "8000000\n");
	for (unsigned int i = 0; i < gib * GIB_BLOCKS; i++)
		make_block(4 * GIB_BLOCKS + i, "online\n", "Normal\n");
	set_pages(window_pfn(0), gib * WINDOW_PAGES, BIT(KPF_BUDDY));
}

static int begin(void **state)
{
	(void)state;
	tree_make(&tree);
	host_root = tree.root;
	return 0;
}

static int end(void **state)
{
	(void)state;
	host_root = "";
	tree_remove(&tree, "");
	return 0;
}

struct result {
	struct node_map map;
	struct node_scan scan;
	struct forecast forecast;
};

static struct result look(bool ours)
{
	struct result result;
	struct message why;

	if (node_map_read(0, &result.map, &why) || node_scan_run(&result.map, ours, &result.scan, NULL, &why))
		fail_msg("%s", why.text);
	forecast_make(&result.map, &result.scan, &result.forecast);
	return result;
}

static void done(struct result *result)
{
	node_scan_free(&result->scan);
	node_map_free(&result->map);
}

static void assert_state(const struct result *result, unsigned int window, enum window_state state)
{
	assert_string_equal(window_state_keys[window_state(&result->scan.windows[window])], window_state_keys[state]);
}

/* ---- tests ---- */

static void a_node_of_free_pages_gives_all_but_the_floor(void **state)
{
	struct result result;

	(void)state;
	make_node(4);
	make_zone("Normal", window_pfn(0), 4 * WINDOW_PAGES, 4 * WINDOW_PAGES, 0, 0);
	result = look(false);
	assert_int_equal(result.scan.nr_windows, 4);
	assert_int_equal(result.forecast.windows[WINDOW_FREE], 4);
	assert_int_equal(result.forecast.floor_pages, 4 * WINDOW_PAGES / 32);
	assert_int_equal(result.forecast.room, 3);
	assert_int_equal(result.forecast.now, 3);
	assert_int_equal(result.forecast.blocks_stuck, 0);
	done(&result);
}

static void what_moves_is_no_obstacle_and_what_does_not_is(void **state)
{
	struct result result;

	(void)state;
	make_node(7);
	make_zone("Normal", window_pfn(0), 8 * WINDOW_PAGES, 7 * WINDOW_PAGES, WINDOW_PAGES, 0);
	set_pages(window_pfn(0) + 5, 1000, BIT(KPF_LRU) | BIT(KPF_MMAP));
	set_pages(window_pfn(1) + 5, 1, BIT(KPF_SLAB));
	set_pages(window_pfn(2) + 5, 3, 0);
	set_pages(window_pfn(3) + 5, 2, BIT(KPF_PGTABLE));
	set_pages(window_pfn(4) + 5, 1, BIT(RESERVED));
	set_pages(window_pfn(5) + 5, 1, BIT(KPF_HWPOISON) | BIT(KPF_LRU));
	result = look(false);
	assert_state(&result, 0, WINDOW_MOVABLE);
	for (unsigned int window = 1; window < 6; window++)
		assert_state(&result, window, WINDOW_BLOCKED);
	assert_state(&result, 6, WINDOW_FREE);
	assert_int_equal(result.forecast.now, 2);
	assert_int_equal(result.forecast.most, 2);
	assert_int_equal(result.forecast.slab_only, 1);
	assert_int_equal(result.scan.sum.pages[PAGE_MOVABLE], 1000);
	assert_int_equal(result.scan.windows[2].tally.pages[PAGE_KERNEL], 3);
	assert_int_equal(result.forecast.blocks_stuck, 4);	/* a poisoned page keeps no block */
	done(&result);
}

static void pages_that_may_be_free_in_lists_of_cpus_make_it_a_range(void **state)
{
	struct result result;

	(void)state;
	make_node(3);
	make_zone("Normal", window_pfn(0), 4 * WINDOW_PAGES, 4 * WINDOW_PAGES, 0, 20);
	set_pages(window_pfn(0) + 5, 20, 0);
	set_pages(window_pfn(1) + 5, 21, 0);
	set_compound(window_pfn(2) + 8, 8, 0);
	result = look(false);
	assert_state(&result, 0, WINDOW_PERHAPS);
	assert_state(&result, 1, WINDOW_BLOCKED);
	assert_state(&result, 2, WINDOW_BLOCKED);
	assert_int_equal(result.forecast.now, 0);
	assert_int_equal(result.forecast.most, 1);
	done(&result);
}

static void a_tail_is_what_its_head_is(void **state)
{
	struct result result;

	(void)state;
	make_node(1);
	make_zone("Normal", window_pfn(0), 2 * WINDOW_PAGES, 2 * WINDOW_PAGES, 0, 0);
	set_pages(window_pfn(0) + 512, 1, BIT(KPF_COMPOUND_HEAD) | BIT(KPF_LRU) | BIT(KPF_THP));
	set_pages(window_pfn(0) + 513, 511, BIT(KPF_COMPOUND_TAIL) | BIT(KPF_THP));
	result = look(true);
	assert_state(&result, 0, WINDOW_MOVABLE);
	assert_int_equal(result.scan.sum.pages[PAGE_MOVABLE], 512);
	done(&result);
}

static void pages_of_ours_are_known_by_size_and_only_where_there_are_some(void **state)
{
	struct result result;

	(void)state;
	make_node(3);
	make_zone("Normal", window_pfn(0), 4 * WINDOW_PAGES, 4 * WINDOW_PAGES, 0, 0);
	set_compound(window_pfn(0), WINDOW_PAGES, 0);
	set_compound(window_pfn(1) + 512, 512, BIT(KPF_MMAP));
	set_compound(window_pfn(2) + 512, 256, 0);
	result = look(true);
	assert_state(&result, 0, WINDOW_OURS);
	assert_state(&result, 1, WINDOW_OURS_2M);
	assert_state(&result, 2, WINDOW_BLOCKED);
	assert_int_equal(result.scan.sum.pages[PAGE_OURS], WINDOW_PAGES + 512);
	assert_int_equal(result.scan.blocks[7].pages[PAGE_OURS], BLOCK_PAGES);
	done(&result);
	result = look(false);
	assert_state(&result, 0, WINDOW_BLOCKED);
	assert_int_equal(result.scan.sum.pages[PAGE_OURS], 0);
	done(&result);
}

static void hugetlb_pages_are_told_apart(void **state)
{
	struct result result;

	(void)state;
	make_node(2);
	make_zone("Normal", window_pfn(0), 2 * WINDOW_PAGES, 2 * WINDOW_PAGES, 0, 0);
	set_compound(window_pfn(0), 512, BIT(KPF_HUGE));
	set_compound(window_pfn(1), 512, BIT(KPF_HUGE));
	set_pages(window_pfn(1) + 600, 1, BIT(KPF_SLAB));
	result = look(false);
	assert_state(&result, 0, WINDOW_HUGETLB);
	assert_state(&result, 1, WINDOW_BLOCKED);
	done(&result);
}

static void holes_offline_blocks_and_zones_spoil_a_window(void **state)
{
	struct result result;

	(void)state;
	make_node(5);
	make_zone("DMA32", 16, window_pfn(1) + BLOCK_PAGES - 16, 0, 0, 0);
	make_zone("Normal", window_pfn(1) + BLOCK_PAGES, 4 * WINDOW_PAGES, 5 * WINDOW_PAGES, 0, 0);
	make_zone("Movable", window_pfn(3), WINDOW_PAGES, 0, 0, 0);
	make_block(4 * GIB_BLOCKS + 3, "offline\n", "Normal\n");		/* window 0 */
	make_block(5 * GIB_BLOCKS, "online\n", "none\n");			/* window 1: by span, two zones */
	for (unsigned int i = 0; i < GIB_BLOCKS; i++)
		make_block(7 * GIB_BLOCKS + i, "online\n", "Movable\n");	/* window 3 */
	set_pages(window_pfn(4) + 7, 1, BIT(KPF_NOPAGE));			/* window 4 */
	result = look(false);
	assert_state(&result, 0, WINDOW_PARTIAL);
	assert_state(&result, 1, WINDOW_PARTIAL);
	assert_state(&result, 2, WINDOW_FREE);
	assert_state(&result, 3, WINDOW_ZONE);
	assert_state(&result, 4, WINDOW_PARTIAL);
	assert_int_equal(result.scan.windows[0].tally.pages[PAGE_ABSENT], BLOCK_PAGES);
	done(&result);
}

static void a_block_of_two_nodes_is_not_whole(void **state)
{
	struct result result;

	(void)state;
	make_node(1);
	make_zone("Normal", window_pfn(0), WINDOW_PAGES, WINDOW_PAGES, 0, 0);
	tree_write(&tree, "sys/devices/system/memory/memory33/node1/x", "");
	result = look(false);
	assert_state(&result, 0, WINDOW_PARTIAL);
	done(&result);
}

static void a_file_that_ends_early_is_a_hole(void **state)
{
	struct result result;

	(void)state;
	make_node(1);
	make_zone("Normal", window_pfn(0), WINDOW_PAGES, WINDOW_PAGES, 0, 0);
	assert_int_equal(truncate(tree_path(&tree, "proc/kpageflags"), (off_t)((window_pfn(0) + 1000) * 8)), 0);
	result = look(false);
	assert_int_equal(result.scan.sum.pages[PAGE_ABSENT], WINDOW_PAGES - 1000);
	done(&result);
}

static void what_is_missing_is_named(void **state)
{
	/* blocks are powers of two of 2 MiB to 1 TiB */
	static const char *const no_sizes[] = { "many\n", "0\n", "3\n", "100000\n", "180000000\n", "8000000000000000\n" };
	struct node_map map;
	struct node_scan scan;
	struct message why;

	(void)state;
	assert_int_equal(node_map_read(0, &map, &why), -ENOENT);
	assert_non_null(strstr(why.text, "/proc/zoneinfo"));
	tree_write(&tree, "proc/zoneinfo", "Node 1, zone   Normal\n");
	assert_int_equal(node_map_read(0, &map, &why), -ENXIO);
	assert_non_null(strstr(why.text, "/proc/zoneinfo tells nothing of node 0"));
	make_zone("Normal", 0, 1, 1, 0, 0);
	assert_int_equal(node_map_read(0, &map, &why), -ENOENT);
	assert_non_null(strstr(why.text, "block_size_bytes"));
	for (size_t i = 0; i < sizeof(no_sizes) / sizeof(no_sizes[0]); i++) {
		tree_write(&tree, "sys/devices/system/memory/block_size_bytes", no_sizes[i]);
		assert_int_equal(node_map_read(0, &map, &why), -EIO);
	}
	make_node(1);
	make_zone("Normal", window_pfn(0), WINDOW_PAGES, WINDOW_PAGES, 0, 0);
	assert_int_equal(unlink(tree_path(&tree, "proc/kpageflags")), 0);
	assert_int_equal(node_map_read(0, &map, &why), 0);
	assert_int_equal(node_scan_run(&map, false, &scan, NULL, &why), -ENOENT);
	assert_non_null(strstr(why.text, "/proc/kpageflags: No such file"));
	tree_write(&tree, "proc/kpageflags", "");
	assert_int_equal(node_scan_run(&map, false, &scan, NULL, &why), -ENODATA);
	assert_non_null(strstr(why.text, "/proc/kpageflags tells of no page"));
	node_map_free(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_node_of_free_pages_gives_all_but_the_floor, begin, end),
		cmocka_unit_test_setup_teardown(what_moves_is_no_obstacle_and_what_does_not_is, begin, end),
		cmocka_unit_test_setup_teardown(pages_that_may_be_free_in_lists_of_cpus_make_it_a_range, begin, end),
		cmocka_unit_test_setup_teardown(a_tail_is_what_its_head_is, begin, end),
		cmocka_unit_test_setup_teardown(pages_of_ours_are_known_by_size_and_only_where_there_are_some, begin,
						end),
		cmocka_unit_test_setup_teardown(hugetlb_pages_are_told_apart, begin, end),
		cmocka_unit_test_setup_teardown(holes_offline_blocks_and_zones_spoil_a_window, begin, end),
		cmocka_unit_test_setup_teardown(a_block_of_two_nodes_is_not_whole, begin, end),
		cmocka_unit_test_setup_teardown(a_file_that_ends_early_is_a_hole, begin, end),
		cmocka_unit_test_setup_teardown(what_is_missing_is_named, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
