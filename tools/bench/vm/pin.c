// SPDX-License-Identifier: MIT
/*
 * pin: a long-term pin of memory that is there already, by the test module, which pins as a driver does: what a
 * registration costs in the kernel, by page size. It writes down each base page and looks for contiguous runs, as
 * drivers do to fill their tables; that is part of every time alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "uapi.h"
#include "vm.h"

static int measure_range(int driver, void *memory, uint64_t bytes, double *ms)
{
	struct hugepin_test_pin pin = { .size = sizeof(pin), .addr = (uintptr_t)memory, .bytes = bytes };
	double start = now_ms();

	if (ioctl(driver, HUGEPIN_TEST_IOC_PIN, &pin))
		return complain("pin: %s", strerror(errno));
	*ms = now_ms() - start;
	return ioctl(driver, HUGEPIN_TEST_IOC_UNPIN) ? complain("unpin: %s", strerror(errno)) : 0;
}

/* The first time is not told. */
static int measure(const struct machine *m, int driver, void *memory, const char *name, const char *who)
{
	unsigned int i;
	double ms = 0;

	progress("pin: %s of %s", name ? name : "memory", who);
	for (i = 0; i <= m->repetitions; i++) {
		if (measure_range(driver, memory, GIB(1), &ms))
			return -1;
		if (!i)
			continue;
		if (name) {
			tell("pin", name, 1, "ms", who, ms);
			continue;
		}
		if (m->has_1g)
			tell("pin", "1G", 1, "ms", who, ms);
		tell("pin", "2M", 1, "ms", who, ms);
	}
	return 0;
}

static int measure_region(const struct machine *m, int driver, enum hugepin_class page_class)
{
	struct hugepin_region *region;
	void *memory;
	double ms;
	int ret;

	if (region_make(m, page_class, GIB(1), &region, &memory, &ms))
		return -1;
	ret = measure(m, driver, memory, class_name(page_class), "hugepin");
	hugepin_region_close(region);
	return ret ? ret : reserve_settle(m);
}

static int measure_peer(const struct machine *m, int driver, const struct peer *peer)
{
	void *memory = peer_map(peer, GIB(1));
	int ret;

	if (!memory)
		return -1;
	ret = measure(m, driver, memory, NULL, peer->name);
	peer_unmap(memory, GIB(1));
	return ret;
}

static int measure_all(const struct machine *m, int driver)
{
	if (reserve_set(m, HUGEPIN_PAGES_1G, m->bytes) || reserve_set(m, HUGEPIN_PAGES_2M, m->bytes) ||
	    reserve_settle(m) || peer_reserve(&peer_hugetlb_2m, GIB(1)))
		return -1;
	if ((m->has_1g && measure_region(m, driver, HUGEPIN_PAGES_1G)) || measure_region(m, driver, HUGEPIN_PAGES_2M))
		return -1;
	return measure_peer(m, driver, &peer_hugetlb_2m) || measure_peer(m, driver, &peer_thp) ||
	       measure_peer(m, driver, &peer_base) ? -1 : 0;
}

int bench_pin(const struct machine *m)
{
	int driver = open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC), ret;

	if (driver < 0)
		return complain("%s: %s", HUGEPIN_TEST_DEVICE, strerror(errno));
	run_on(0);
	ret = measure_all(m, driver);
	run_on(-1);
	close(driver);
	peer_reserve(&peer_hugetlb_2m, 0);
	return ret;
}
