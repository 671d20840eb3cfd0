// SPDX-License-Identifier: MIT
/* hugepinctl adopt against stand-in pools: what falls short, goes back, is lost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "adopt.h"

/* The kernel's side: both pools, the free memory between them, and what goes wrong. */
struct host {
	struct pools pools;
	uint64_t unused;		/* pages that either may take */
	uint64_t pinned;		/* of the hugetlb pool, in use */
	uint64_t reserve_max;		/* the reserve gets no more */
	uint64_t reserve_used;		/* and gives back no more */
	uint64_t stolen;		/* pages that others take as soon as they are free */
	int err;			/* of every write */
	unsigned int gives, interrupt_at;
};

static int read_pools(void *arg, struct pools *out)
{
	const struct host *host = arg;

	*out = host->pools;
	return 0;
}

static int set_hugetlb(void *arg, uint64_t pages)
{
	struct host *host = arg;

	if (host->err)
		return host->err;
	if (pages < host->pinned)
		pages = host->pinned;
	while (host->pools.hugetlb > pages) {
		host->pools.hugetlb--;
		if (host->stolen)
			host->stolen--;
		else
			host->unused++;
	}
	while (host->pools.hugetlb < pages && host->unused) {
		host->pools.hugetlb++;
		host->unused--;
	}
	return 0;
}

static int set_reserve(void *arg, uint64_t pages)
{
	struct host *host = arg;

	if (host->err)
		return host->err;
	while (host->pools.reserve > pages && host->pools.reserve > host->reserve_used) {
		host->pools.reserve--;
		host->unused++;
	}
	while (host->pools.reserve < pages && host->unused && host->pools.reserve < host->reserve_max) {
		host->pools.reserve++;
		host->unused--;
	}
	if (host->pools.reserve > pages)
		return -EBUSY;
	return host->pools.reserve == pages ? 0 : -ENOMEM;
}

static int give(void *arg, struct pools target, enum pool_order order, struct pools *now)
{
	static const struct pool_ops ops = { read_pools, set_hugetlb, set_reserve };
	struct host *host = arg;
	int err = adopt_give(&ops, host, target, order);

	host->gives++;
	*now = host->pools;
	return err;
}

static bool interrupted(void *arg)
{
	const struct host *host = arg;

	return host->interrupt_at && host->gives >= host->interrupt_at;
}

static int move(struct host *host, struct adoption *adoption, struct message *why)
{
	const struct adopt_ops ops = { .give = give, .interrupted = interrupted, .arg = host };

	adoption->before = adoption->now = host->pools;
	return adopt_move(adoption, &ops, why);
}

static void pages_move_a_few_at_a_time(void **state)
{
	struct host host = { .pools = { 100, 7 }, .reserve_max = 1000 };
	struct adoption adoption = { .count = 70, .step_pages = 32 };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), 0);
	assert_int_equal(host.pools.hugetlb, 30);
	assert_int_equal(host.pools.reserve, 77);
	assert_int_equal(adopt_moved(&adoption), 70);
	assert_int_equal(adoption.returned, 0);
	assert_int_equal(adoption.lost, 0);
	assert_int_equal(host.gives, 3);
}

static void a_reserve_that_gets_no_more_leaves_both_as_before(void **state)
{
	struct host host = { .pools = { 100, 0 }, .reserve_max = 50 };
	struct adoption adoption = { .count = 70, .step_pages = 32 };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), -ENOMEM);
	assert_non_null(strstr(why.text, "the reserve got 18 of 32 pages"));
	assert_int_equal(host.pools.hugetlb, 100);
	assert_int_equal(host.pools.reserve, 0);
	assert_int_equal(adoption.returned, 64);
	assert_int_equal(adoption.lost, 0);
}

static void partial_keeps_what_was_moved(void **state)
{
	struct host host = { .pools = { 100, 0 }, .reserve_max = 50 };
	struct adoption adoption = { .count = 70, .step_pages = 32, .partial = true };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), -ENOMEM);
	assert_int_equal(host.pools.hugetlb, 50);
	assert_int_equal(host.pools.reserve, 50);
	assert_int_equal(adopt_moved(&adoption), 50);
	assert_int_equal(adoption.returned, 14);
	assert_int_equal(adoption.lost, 0);
}

static void pages_that_came_into_use_end_it(void **state)
{
	struct host host = { .pools = { 100, 0 }, .pinned = 60, .reserve_max = 1000 };
	struct adoption adoption = { .count = 70, .step_pages = 32 };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), -ENOMEM);
	assert_non_null(strstr(why.text, "the hugetlb pool gave 8 of 32 pages"));
	assert_int_equal(host.pools.hugetlb, 100);
	assert_int_equal(host.pools.reserve, 0);
	assert_int_equal(adoption.lost, 0);
}

static void pages_that_others_take_are_told(void **state)
{
	struct host host = { .pools = { 100, 0 }, .stolen = 5, .reserve_max = 1000 };
	struct adoption adoption = { .count = 70, .step_pages = 32 };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), -ENOMEM);
	assert_int_equal(adoption.lost, 5);
	assert_int_equal(host.pools.hugetlb, 95);
	assert_int_equal(host.pools.reserve, 0);
}

static void a_signal_puts_everything_back_also_with_partial(void **state)
{
	struct host host = { .pools = { 100, 3 }, .reserve_max = 1000, .interrupt_at = 2 };
	struct adoption adoption = { .count = 96, .step_pages = 32, .partial = true };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), -EINTR);
	assert_int_equal(host.pools.hugetlb, 100);
	assert_int_equal(host.pools.reserve, 3);
	assert_int_equal(adoption.returned, 64);
}

static void free_memory_of_the_node_is_left_alone(void **state)
{
	struct host host = { .pools = { 100, 0 }, .unused = 500, .pinned = 60, .reserve_max = 1000 };
	struct adoption adoption = { .count = 70, .step_pages = 64, .partial = true };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), -ENOMEM);
	assert_int_equal(host.pools.hugetlb, 60);
	assert_int_equal(host.pools.reserve, 40);
	assert_int_equal(host.unused, 500);
}

static void pages_of_the_reserve_that_came_into_use_stay(void **state)
{
	struct host host = { .pools = { 100, 0 }, .reserve_max = 50, .reserve_used = 20 };
	struct adoption adoption = { .count = 70, .step_pages = 32 };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), -ENOMEM);
	assert_int_equal(host.pools.hugetlb, 80);
	assert_int_equal(host.pools.reserve, 20);
	assert_int_equal(adoption.lost, 0);
}

static void a_pool_that_may_not_be_written_is_named(void **state)
{
	struct host host = { .pools = { 100, 3 }, .err = -EACCES };
	struct adoption adoption = { .count = 96, .step_pages = 32 };
	struct message why;

	(void)state;
	assert_int_equal(move(&host, &adoption, &why), -EACCES);
	assert_non_null(strstr(why.text, "the hugetlb pool cannot be changed: Permission denied"));
	assert_int_equal(adoption.returned, 0);
	assert_int_equal(adoption.lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_move_a_few_at_a_time),
		cmocka_unit_test(a_reserve_that_gets_no_more_leaves_both_as_before),
		cmocka_unit_test(partial_keeps_what_was_moved),
		cmocka_unit_test(pages_that_came_into_use_end_it),
		cmocka_unit_test(pages_that_others_take_are_told),
		cmocka_unit_test(a_signal_puts_everything_back_also_with_partial),
		cmocka_unit_test(free_memory_of_the_node_is_left_alone),
		cmocka_unit_test(pages_of_the_reserve_that_came_into_use_stay),
		cmocka_unit_test(a_pool_that_may_not_be_written_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
