// SPDX-License-Identifier: MIT
/*
 * Step 1: set pages aside on two nodes, and give them back at the end. Where the module has no 1G pages, as many bytes
 * in 2M pages take their place, so that the rest of the job is the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

#define SETTLE_US	(180 * UINT64_C(1000000))
#define NR_2M		512 /* on each node */
static const unsigned int nr_1g[] = { 3, 1 }; /* on the first and the second node */

static const char *class_name(enum hugepin_class page_class)
{
	return page_class == HUGEPIN_PAGES_1G ? "1G" : "2M";
}

/* ---- looks at the reserve ---- */

static void add(struct reserve_sum *sum, const struct hugepin_reserve_info *info)
{
	uint64_t free_pages = info->clean_pages + info->dirty_pages;
	bool is_1g = info->page_class == HUGEPIN_PAGES_1G;

	sum->total += info->total_pages;
	sum->clean += info->clean_pages;
	sum->dirty += info->dirty_pages;
	sum->in_use += info->in_use_pages;
	sum->quarantined += info->quarantined_pages;
	sum->poisoned += info->poisoned_pages;
	sum->free_1g += is_1g ? free_pages : 0;
	sum->free_2m += is_1g ? 0 : free_pages;
	sum->dirty_bytes += info->dirty_pages * (is_1g ? PAGE_1G : PAGE_2M);
}

int reserve_sum(struct hugepin_context *ctx, int node, struct reserve_sum *out)
{
	struct hugepin_reserve_info info = { .size = sizeof(info) };
	size_t position = 0;
	int err;

	*out = (struct reserve_sum){ 0 };
	while (!(err = hugepin_reserve_at(ctx, position++, &info)))
		if (node == NODE_EVERY || info.node == node)
			add(out, &info);
	return err == -ENOENT ? 0 : err;
}

int reserve_settle(struct demo *demo)
{
	uint64_t start = now_us(), said = 0;
	struct reserve_sum sum;
	char text[TEXT_SIZE];

	for (;;) {
		uint64_t waited = now_us() - start;

		if (reserve_sum(demo->ctx, NODE_EVERY, &sum))
			return report_stop(demo, "reading the reserve: %s", hugepin_error());
		if (sum.clean + sum.poisoned == sum.total)
			return 0;
		if (waited > SETTLE_US)
			return report_stop(demo,
					   "after %u s the reserve has %" PRIu64 " dirty, %" PRIu64 " used, %" PRIu64
					   " quarantined pages of %" PRIu64,
					   (unsigned int)(SETTLE_US / 1000000), sum.dirty, sum.in_use, sum.quarantined,
					   sum.total);
		if (waited - said > 4000000) {
			report_progress("waiting until the module has zeroed %s", text_bytes(sum.dirty_bytes, text));
			said = waited;
		}
		sleep_ms(20);
	}
}

int64_t reserve_wait_whole_us(struct hugepin_context *ctx, unsigned int limit_ms)
{
	uint64_t start = now_us();
	struct reserve_sum sum;

	for (;;) {
		uint64_t waited = now_us() - start;

		if (!reserve_sum(ctx, NODE_EVERY, &sum) && !sum.in_use && !sum.quarantined)
			return (int64_t)waited;
		if (waited > limit_ms * UINT64_C(1000))
			return -1;
		sleep_ms(1);
	}
}

/* ---- setting aside ---- */

/* The first two nodes that the module manages. */
static int find_nodes(struct demo *demo)
{
	struct hugepin_reserve_info info = { .size = sizeof(info) };
	unsigned int found = 0;

	for (size_t i = 0; found < 2 && !hugepin_reserve_at(demo->ctx, i, &info); i++)
		if (!found || demo->node[found - 1] != info.node)
			demo->node[found++] = info.node;
	if (found < 2)
		return report_stop(demo, "the demo needs two nodes with memory, the module knows %u", found);
	return 0;
}

static uint64_t held_now(struct demo *demo, int node, enum hugepin_class page_class)
{
	struct hugepin_reserve_info info = { .size = sizeof(info) };

	for (size_t i = 0; !hugepin_reserve_at(demo->ctx, i, &info); i++)
		if (info.node == node && info.page_class == page_class)
			return info.total_pages;
	return 0;
}

static void want(struct demo *demo, int node, enum hugepin_class page_class, uint64_t pages)
{
	demo->results.reserve[demo->results.nr_reserve++] = (struct demo_reserve){
		.node = node,
		.page_class = page_class,
		.asked = pages,
		.before = held_now(demo, node, page_class),
	};
}

/* 1G pages of all nodes come first: each needs a whole free range, which 2M pages would break up. */
static void make_plan(struct demo *demo)
{
	for (int i = 0; i < 2 && !demo->absent_1g; i++)
		want(demo, demo->node[i], HUGEPIN_PAGES_1G, nr_1g[i]);
	for (int i = 0; i < 2; i++)
		want(demo, demo->node[i], HUGEPIN_PAGES_2M,
		     NR_2M + (demo->absent_1g ? nr_1g[i] * (PAGE_1G / PAGE_2M) : 0));
}

static int set_aside(struct demo *demo, struct demo_reserve *reserve)
{
	int err;

	report_progress("setting %" PRIu64 " x %s aside on node %d", reserve->asked, class_name(reserve->page_class),
			reserve->node);
	err = hugepin_reserve_set(demo->ctx, reserve->node, reserve->page_class, reserve->asked, &reserve->got);
	if (!err && reserve->got == reserve->asked)
		return 0;
	return report_stop(demo, "node %d, %s pages: asked %" PRIu64 ", got %" PRIu64 ": %s", reserve->node,
			   class_name(reserve->page_class), reserve->asked, reserve->got,
			   err ? hugepin_error() : "and no error");
}

/* The table as the operator sees it. */
static int show_table(struct demo *demo)
{
	char *const argv[] = { "hugepinctl", "status", NULL };
	char *text;
	int status = spawn_read(argv, &text);

	if (status) {
		free(text);
		return report_stop(demo, status < 0 ? "hugepinctl: %s" : "hugepinctl status failed (%s, status %d)",
				   strerror(status < 0 ? -status : 0), status);
	}
	report_text(text);
	free(text);
	return 0;
}

int step_reserve(struct demo *demo)
{
	struct demo_results *r = &demo->results;
	char us[TEXT_SIZE], bytes[TEXT_SIZE];
	uint64_t start = now_us(), total = 0;

	report_section("1", "Reserve: huge pages set aside on each node, zeroed before anyone asks for them");
	if (find_nodes(demo))
		return -1;
	make_plan(demo);
	for (size_t i = 0; i < r->nr_reserve; i++) {
		if (set_aside(demo, &r->reserve[i]))
			return -1;
		total += r->reserve[i].got * (r->reserve[i].page_class == HUGEPIN_PAGES_1G ? PAGE_1G : PAGE_2M);
	}
	if (reserve_settle(demo) || show_table(demo))
		return -1;
	report_line("took", "%s until all %s were zeroed, once and in the background", text_us(now_us() - start, us),
		    text_bytes(total, bytes));
	if (demo->absent_1g)
		report_line("instead", "of 1G pages, as many bytes in 2M pages are set aside here and asked for below");
	return 0;
}

/* ---- giving back ---- */

static uint64_t difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Pages that are not where they were: still used or held by somebody, or not given back. */
int step_give_back(struct demo *demo)
{
	struct demo_results *r = &demo->results;
	uint64_t leaked, kept = 0;
	struct reserve_sum sum;
	char text[TEXT_SIZE];

	report_section("-", "Afterwards: everything is given back");
	if (reserve_sum(demo->ctx, NODE_EVERY, &sum))
		return report_stop(demo, "reading the reserve: %s", hugepin_error());
	leaked = sum.in_use + sum.quarantined;
	for (size_t i = r->nr_reserve; i-- > 0;) {
		struct demo_reserve *reserve = &r->reserve[i];
		uint64_t left = reserve->got;

		if (hugepin_reserve_set(demo->ctx, reserve->node, reserve->page_class, reserve->before, &left))
			report_check(demo, false, "giving back node %d's %s pages: %s", reserve->node,
				     class_name(reserve->page_class), hugepin_error());
		kept += difference(left, reserve->before);
	}
	/* What is in use cannot be given back either: the same pages. */
	r->leaked_pages = leaked = leaked > kept ? leaked : kept;
	if (report_check(demo, !leaked,
			 "%" PRIu64 " pages leaked: %" PRIu64 " in use, %" PRIu64 " quarantined, %" PRIu64
			 " not given back",
			 leaked, sum.in_use, sum.quarantined, kept))
		report_line("leaked", "0 of %s pages", text_count(sum.total, text));
	return 0;
}
