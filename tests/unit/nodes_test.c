// SPDX-License-Identifier: MIT
/* Sets of node ids and the syntax of a node policy. */
#include <errno.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "internal.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void lists_are_sets(void **state)
{
	static const struct {
		const char *text, *normal;
		unsigned int count;
	} table[] = {
		{ "0", "0", 1 }, { "0-3,8", "0-3,8", 5 }, { "8,0-3", "0-3,8", 5 }, { "3-3", "3", 1 },
		{ "1,1,1", "1", 1 },
		{ "0-4,2-6", "0-6", 7 }, { "0-1,2-3", "0-3", 4 }, { "1023", "1023", 1 }, { "0-1023", "0-1023", 1024 },
		{ "63,64", "63-64", 2 }, { "0,8,252-255", "0,8,252-255", 6 }, { "00,01", "0-1", 2 },
	};
	struct hpi_nodes nodes;
	char text[64];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(table); i++) {
		assert_int_equal(hpi_nodes_parse(table[i].text, &nodes), 0);
		assert_int_equal(hpi_nodes_count(&nodes), table[i].count);
		assert_int_equal(hpi_nodes_format(&nodes, text, sizeof(text)), strlen(table[i].normal));
		assert_string_equal(text, table[i].normal);
	}
}

static void name_says_node_of_one_and_nodes_of_several(void **state)
{
	static const struct {
		const char *list, *name;
	} table[] = { { "3", "node 3" }, { "0-1", "nodes 0-1" }, { "0,8", "nodes 0,8" } };
	struct hpi_nodes nodes;
	char text[64], small[6];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(table); i++) {
		assert_int_equal(hpi_nodes_parse(table[i].list, &nodes), 0);
		assert_int_equal(hpi_nodes_name(&nodes, text, sizeof(text)), strlen(table[i].name));
		assert_string_equal(text, table[i].name);
	}
	assert_int_equal(hpi_nodes_name(&nodes, small, sizeof(small)), strlen("nodes 0,8"));
	assert_string_equal(small, "nodes");
	assert_int_equal(hpi_nodes_name(&nodes, NULL, 0), strlen("nodes 0,8"));
}

static void malformed_lists_are_refused_whole(void **state)
{
	static const char *const bad[] = {
		"", ",", "0,", ",0", "0,,1", "3-1", "0-", "-1", "-", "0-1-2", " 0", "0 ", "0, 1", "0 - 1", "a", "0x1",
		"0;1", "+1", "0\n",
	};
	static const char *const large[] = { "1024", "0-1024", "4294967296", "99999999999999999999" };
	struct hpi_nodes nodes = { { 77 } };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++)
		assert_int_equal(hpi_nodes_parse(bad[i], &nodes), -EINVAL);
	for (i = 0; i < COUNT(large); i++)
		assert_int_equal(hpi_nodes_parse(large[i], &nodes), -ERANGE);
	assert_int_equal(hpi_nodes_parse(NULL, &nodes), -EINVAL);
	assert_int_equal(nodes.bits[0], 77);
}

static void ids_beyond_the_largest_are_in_no_set(void **state)
{
	struct hpi_nodes all;

	(void)state;
	memset(&all, 0xff, sizeof(all));
	assert_true(hpi_nodes_has(&all, HPI_NODES_MAX - 1));
	assert_false(hpi_nodes_has(&all, HPI_NODES_MAX));
	assert_false(hpi_nodes_has(&all, ~0u));
}

static void short_buffer_is_cut_and_the_length_told(void **state)
{
	struct hpi_nodes nodes = { { 0 } };
	char small[5] = "zzzz", *big;
	unsigned int id;
	int length;

	(void)state;
	assert_int_equal(hpi_nodes_format(&nodes, small, sizeof(small)), 0);
	assert_string_equal(small, "");
	for (id = 0; id < HPI_NODES_MAX; id += 2)
		hpi_nodes_set(&nodes, id);
	length = hpi_nodes_format(&nodes, small, sizeof(small));
	assert_string_equal(small, "0,2,");
	assert_int_equal(hpi_nodes_format(&nodes, NULL, 0), length);
	big = malloc((size_t)length + 1);
	assert_non_null(big);
	assert_int_equal(hpi_nodes_format(&nodes, big, (size_t)length + 1), length);
	assert_int_equal(strlen(big), length);
	assert_string_equal(big + length - 10, ",1020,1022");
	free(big);
}

static void policy_text_is_split(void **state)
{
	static const struct {
		const char *text;
		enum hugepin_policy policy;
		const char *nodes;
		bool local;
	} table[] = {
		{ "local", HUGEPIN_NODES_PREFERRED, "", true },
		{ "bind:0-1", HUGEPIN_NODES_BIND, "0-1", false },
		{ "interleave:0,8", HUGEPIN_NODES_INTERLEAVE, "0,8", false },
		{ "preferred:252", HUGEPIN_NODES_PREFERRED, "252", false },
	};
	enum hugepin_policy policy;
	struct hpi_nodes nodes;
	char text[64];
	bool local;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(table); i++) {
		policy = 77;
		local = !table[i].local;
		assert_int_equal(hpi_policy_split(table[i].text, &policy, &nodes, &local), 0);
		assert_int_equal(policy, table[i].policy);
		assert_int_equal(local, table[i].local);
		hpi_nodes_format(&nodes, text, sizeof(text));
		assert_string_equal(text, table[i].nodes);
	}
}

static void malformed_policy_is_refused_with_its_text(void **state)
{
	static const char *const bad[] = {
		"", "Local", "local:", "local:0", "bind", "bind:", "bind:3-1", "bind: 0", "bind:0,", "bind:1024",
		"interleave0", "near:0",
	};
	enum hugepin_policy policy = 77;
	struct hpi_nodes nodes = { { 77 } };
	bool local = true;
	size_t i;
	char list[3000] = "";

	(void)state;
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(hpi_policy_split(bad[i], &policy, &nodes, &local), -EINVAL);
		assert_non_null(strstr(hugepin_error(), bad[i]));
	}
	assert_int_equal(hpi_policy_split(NULL, &policy, &nodes, &local), -EINVAL);
	assert_int_equal(policy, 77);
	assert_int_equal(nodes.bits[0], 77);
	assert_true(local);
	hpi_policy_split("bind:1024", &policy, &nodes, &local);
	assert_non_null(strstr(hugepin_error(), "1023"));
	/* however long it is, what is wrong still fits */
	memset(list, '1', sizeof(list) - 1);
	memcpy(list, "bind:", 5);
	hpi_policy_split(list, &policy, &nodes, &local);
	assert_non_null(strstr(hugepin_error(), "no list of ids"));
	hpi_policy_split(list + 1, &policy, &nodes, &local);
	assert_non_null(strstr(hugepin_error(), "none of local"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_sets),
		cmocka_unit_test(name_says_node_of_one_and_nodes_of_several),
		cmocka_unit_test(malformed_lists_are_refused_whole),
		cmocka_unit_test(ids_beyond_the_largest_are_in_no_set),
		cmocka_unit_test(short_buffer_is_cut_and_the_length_told),
		cmocka_unit_test(policy_text_is_split),
		cmocka_unit_test(malformed_policy_is_refused_with_its_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
