// SPDX-License-Identifier: MIT
/*
 * bringup: how long until that much memory is mapped, zeroed and usable: a region from a clean reserve, and the same of
 * the kernel's own pages. bringup_dirty: the same with nothing clean, so that the module has to zero as the kernel
 * does.
 *
 * Memory of an emulated machine that nobody has written yet is paid for by its host at the first touch, and code by its
 * translation when it first runs. So there is one round more than is told, the first, and every round has all of them.
 * Taking pages into a reserve, hugepin's or hugetlb's, is no part of it.
 */
#include "vm.h"

struct round {
	const struct machine *m;
	const char *bench;
	bool counts;
	bool has_hugetlb_1g;
};

/* Whose time stands in the rows of both classes. */
static void tell_peer(const struct round *round, const struct peer *peer, double ms)
{
	if (round->counts && round->m->has_1g)
		tell(round->bench, "1G", 1, "ms", peer->name, ms);
	if (round->counts)
		tell(round->bench, "2M", 1, "ms", peer->name, ms);
}

static int measure_peer(const struct round *round, const struct peer *peer)
{
	double start = now_ms(), ms;
	void *memory = peer_map(peer, round->m->bytes);
	int ret;

	ms = now_ms() - start;
	if (!memory)
		return -1;
	ret = memory_check_and_dirty(memory, round->m->bytes);
	peer_unmap(memory, round->m->bytes);
	tell_peer(round, peer, ms);
	return ret;
}

static int measure_region(const struct round *round, enum hugepin_class page_class)
{
	struct hugepin_region *region;
	void *memory;
	double ms;
	int ret;

	if (region_make(round->m, page_class, round->m->bytes, &region, &memory, &ms))
		return -1;
	ret = memory_check_and_dirty(memory, round->m->bytes);
	hugepin_region_close(region);
	if (round->counts)
		tell(round->bench, class_name(page_class), 1, "ms", "hugepin", ms);
	return ret ? ret : reserve_settle(round->m);
}

static int measure_round(const struct round *round, bool all_peers)
{
	int ret = 0;

	if (round->m->has_1g)
		ret = measure_region(round, HUGEPIN_PAGES_1G);
	if (!ret)
		ret = measure_region(round, HUGEPIN_PAGES_2M);
	if (!ret)
		ret = measure_peer(round, &peer_hugetlb_2m);
	if (!ret && round->has_hugetlb_1g)
		ret = measure_peer(round, &peer_hugetlb_1g);
	if (!ret && all_peers)
		ret = measure_peer(round, &peer_thp);
	if (!ret && all_peers)
		ret = measure_peer(round, &peer_base);
	return ret;
}

static int measure(const struct machine *m, const char *bench, bool all_peers)
{
	struct round round = { .m = m, .bench = bench };
	unsigned int i;
	int ret;

	run_on(0);
	ret = reserve_set(m, HUGEPIN_PAGES_1G, m->bytes);
	if (!ret)
		ret = reserve_set(m, HUGEPIN_PAGES_2M, m->bytes);
	if (!ret)
		ret = peer_reserve(&peer_hugetlb_2m, m->bytes);
	round.has_hugetlb_1g = !ret && !peer_reserve(&peer_hugetlb_1g, m->bytes);
	if (!ret)
		ret = reserve_settle(m);
	for (i = 0; !ret && i <= m->repetitions; i++) {
		round.counts = i;
		progress(i ? "%s: repetition %u of %u" : "%s: the first time", bench, i, m->repetitions);
		ret = measure_round(&round, all_peers);
	}
	peer_reserve(&peer_hugetlb_2m, 0);
	peer_reserve(&peer_hugetlb_1g, 0);
	run_on(-1);
	return ret;
}

int bench_bringup(const struct machine *m)
{
	return measure(m, "bringup", true);
}

/* The pages must have been zeroed once, so that they are the machine's; and be dirty, so that they are zeroed again. */
int bench_bringup_dirty(const struct machine *m)
{
	int ret = reserve_set(m, HUGEPIN_PAGES_1G, m->bytes);

	if (!ret)
		ret = reserve_set(m, HUGEPIN_PAGES_2M, m->bytes);
	if (!ret)
		ret = reserve_settle(m);
	if (!ret)
		ret = scrub_enable(false);
	if (ret)
		return ret;
	ret = measure(m, "bringup_dirty", false);
	return scrub_enable(true) ? -1 : ret;
}
