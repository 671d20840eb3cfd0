// SPDX-License-Identifier: MIT
/* Ladders: their syntax, and what happens from rung to rung. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_module.h"
#include "internal.h"

static struct hugepin_context *ctx;
static struct hpi_policy local = { .policy = HUGEPIN_NODES_PREFERRED };

static int load(void **state)
{
	(void)state;
	fake_module_load();
	ctx = fake_context("runtime", "none", NULL);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	fake_module_unload();
	return 0;
}

static void assert_text(const char *part)
{
	if (!strstr(hugepin_error(), part))
		fail_msg("\"%s\" does not have \"%s\"", hugepin_error(), part);
}

static struct hpi_ladder ladder(const char *text)
{
	struct hpi_ladder out;

	assert_int_equal(hpi_ladder_parse(text, &out), 0);
	return out;
}

static int map(const char *text, size_t first, uint64_t bytes, struct hpi_mapping *out, size_t *rung)
{
	struct hpi_ladder l = ladder(text);
	struct hpi_request request = { .bytes = bytes, .policy = &local };

	return hpi_ladder_map(ctx, &l, first, &request, out, rung);
}

/* ---- syntax ---- */

static void test_every_rung_is_known_in_order(void **state)
{
	struct hpi_ladder l = ladder("runtime,base,thp,hugetlb:2M,hugetlb:1G,kmod:2M,kmod:1G+2M,kmod:1G");
	const struct { const struct hpi_provider *provider; unsigned int classes; uint64_t granule; } expected[] = {
		{ &hpi_provider_runtime, 1, (uint64_t)sysconf(_SC_PAGESIZE) },
		{ &hpi_provider_base, 1, (uint64_t)sysconf(_SC_PAGESIZE) },
		{ &hpi_provider_thp, HUGEPIN_CLASSES_2M, HPI_2M },
		{ &hpi_provider_hugetlb, HUGEPIN_CLASSES_2M, HPI_2M },
		{ &hpi_provider_hugetlb, HUGEPIN_CLASSES_1G, HPI_1G },
		{ &hpi_provider_kmod, HUGEPIN_CLASSES_2M, HPI_2M },
		{ &hpi_provider_kmod, HUGEPIN_CLASSES_1G | HUGEPIN_CLASSES_2M, HPI_2M },
		{ &hpi_provider_kmod, HUGEPIN_CLASSES_1G, HPI_1G },
	};
	size_t i;

	(void)state;
	assert_int_equal(l.count, 8);
	for (i = 0; i < 8; i++) {
		assert_ptr_equal(l.rungs[i].provider, expected[i].provider);
		assert_int_equal(l.rungs[i].classes, expected[i].classes);
		assert_int_equal(hpi_ladder_granule(&l.rungs[i]), expected[i].granule);
	}
}

static void test_what_is_no_ladder_is_refused_whole(void **state)
{
	static const char *const bad[] = {
		"", ",", "base,", ",base", "base,,kmod:2M", "kmod", "kmod:", "kmod:4K", "kmod:2M+1G",
		"hugetlb:1G+2M", "base:2M", "thp:2M", "kmod:2M base", " base", "base ", "Base", "kmod:2m",
		"kmod:2M,hugetlb:2M,kmod:2M", "base,base",
	};
	struct hpi_ladder l = { .count = 77 };
	char many[3000] = "";
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(hpi_ladder_parse(bad[i], &l), -EINVAL);
		assert_int_equal(l.count, 77);
	}
	assert_int_equal(hpi_ladder_parse(NULL, &l), -EINVAL);
	assert_int_equal(hpi_ladder_parse("kmod:2M,kmod:4K", &l), -EINVAL);
	assert_text("\"kmod:4K\" is not a rung; there are kmod:1G, kmod:1G+2M, kmod:2M, hugetlb:1G, hugetlb:2M, "
		    "thp, base, runtime");
	assert_int_equal(hpi_ladder_parse("base,base", &l), -EINVAL);
	assert_text("base is there twice");
	/* however long it is, what is wrong still fits */
	memset(many, 'x', sizeof(many) - 1);
	assert_int_equal(hpi_ladder_parse(many, &l), -EINVAL);
	assert_text("is not a rung; there are kmod:1G");
}

/* ---- from rung to rung ---- */

static void test_the_first_rung_that_gives_is_taken(void **state)
{
	struct hpi_mapping mapping;
	size_t rung = 77;

	(void)state;
	assert_int_equal(map("kmod:2M,base", 0, HPI_2M - 1, &mapping, &rung), 0);
	assert_int_equal(rung, 0);
	assert_int_equal(mapping.provider, HUGEPIN_PROVIDER_KMOD);
	assert_int_equal(mapping.bytes, HPI_2M);
	assert_int_equal(hpi_provider_kmod.unmap(ctx, &mapping, false), 0);
	assert_int_equal(map("kmod:2M,base", 1, 5000, &mapping, &rung), 0);
	assert_int_equal(rung, 1);
	assert_int_equal(mapping.provider, HUGEPIN_PROVIDER_BASE);
	assert_int_equal(mapping.bytes, hpi_round_up(5000, (uint64_t)sysconf(_SC_PAGESIZE)));
	assert_int_equal(hpi_provider_base.unmap(ctx, &mapping, false), 0);
}

static void test_shortages_limits_and_absence_go_on_to_the_next_rung(void **state)
{
	static const int errors[] = { -ENOMEM, -EDQUOT, -ENODEV, -EOPNOTSUPP };
	struct hpi_mapping mapping;
	size_t i, rung;

	(void)state;
	for (i = 0; i < 4; i++) {
		fake.create_err = errors[i];
		assert_int_equal(map("kmod:1G,kmod:2M,base", 0, HPI_2M, &mapping, &rung), 0);
		assert_int_equal(rung, 2);
		assert_string_equal(hugepin_error(), "");
		assert_int_equal(hpi_provider_base.unmap(ctx, &mapping, false), 0);
	}
	assert_int_equal(fake.creates, 8);
}

static void test_anything_else_ends_the_ladder(void **state)
{
	static const int errors[] = { -EINTR, -EPERM, -EINVAL, -EFAULT };
	struct hpi_mapping mapping;
	size_t i, rung = 77;

	(void)state;
	for (i = 0; i < 4; i++) {
		fake.create_err = errors[i];
		assert_int_equal(map("kmod:2M,base", 0, HPI_2M, &mapping, &rung), errors[i]);
		assert_int_equal(rung, 77);
		assert_text("kmod:2M: ");
		assert_null(strstr(hugepin_error(), "base: "));
	}
}

static int no_base_memory(const char *call)
{
	return strcmp(call, "mmap") ? 0 : ENOMEM;
}

static void test_a_failure_has_every_rungs_reason(void **state)
{
	struct hpi_mapping mapping;
	size_t rung = 77;

	(void)state;
	fake.create_err = -EDQUOT;
	fake.shortfall = (struct hugepin_shortfall){ .reason = HUGEPIN_SHORT_USER,
						     .class = HUGEPIN_CLASS_2M,
						     .asked = 1,
						     .limit = 6,
						     .held = 6 };
	hpi_sys_fault = no_base_memory;
	assert_int_equal(map("kmod:2M,base", 0, HPI_2M, &mapping, &rung), -ENOMEM);
	assert_text("no memory from the ladder for 2097152 bytes");
	assert_text("kmod:2M: region of 2097152 bytes: asked 1 page of 2M on node 0, where one user may hold 6");
	assert_text("; base: base: mapping 2097152 bytes");
	assert_int_equal(rung, 77);
	/* one rung: strict, its own error comes out */
	assert_int_equal(map("kmod:2M", 0, HPI_2M, &mapping, &rung), -EDQUOT);
	fake.create_err = -EOPNOTSUPP;
	assert_int_equal(map("kmod:1G", 0, HPI_2M, &mapping, &rung), -EOPNOTSUPP);
}

static void test_lengths_that_wrap_are_refused(void **state)
{
	struct hpi_mapping mapping;
	size_t rung;

	(void)state;
	assert_int_equal(map("kmod:1G,kmod:2M,base", 0, UINT64_MAX - 4096, &mapping, &rung), -ENOMEM);
	assert_int_equal(fake.creates, 0);
	assert_int_equal(map("base", 1, 4096, &mapping, &rung), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, load, unload)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_every_rung_is_known_in_order),
		TEST(test_what_is_no_ladder_is_refused_whole),
		TEST(test_the_first_rung_that_gives_is_taken),
		TEST(test_shortages_limits_and_absence_go_on_to_the_next_rung),
		TEST(test_anything_else_ends_the_ladder),
		TEST(test_a_failure_has_every_rungs_reason),
		TEST(test_lengths_that_wrap_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
