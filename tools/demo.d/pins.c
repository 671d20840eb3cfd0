// SPDX-License-Identifier: MIT
/*
 * Step 6: memory pinned for a device, and a client that dies while the device may still use it.
 *
 * The client's pinned pool registers its memory with the runtime "cuda", for which the stand-in of tests/loopback is
 * found: it pins through the test module, as a driver does, and the pins live as long as the descriptors they were
 * made with. The client hands those to the demo, which then stands for work in flight on the device, and is killed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "demo.h"
#include "driver.h"
#include "uapi.h"

#define BLOCK_BYTES	(GIB(1) + MIB(128))
#define BACK_MS		5000
#define READ_BYTES	MIB(1)

struct wish {
	int node;
	const char *ladder;
};

/* ---- the client ---- */

static void pinned_block(struct client_share *share, const struct wish *wish, struct hugepin_pool **pool)
{
	char policy[24];
	const struct setting settings[] = {
		{ "runtime", "cuda" },
		{ "pinned_ladder", wish->ladder },
		{ "node_policy", policy },
	};
	struct hugepin_context *ctx;

	snprintf(policy, sizeof(policy), "bind:%d", wish->node);
	if (context_open(settings, sizeof(settings) / sizeof(settings[0]), &ctx))
		client_fail(share, "context: %s", hugepin_error());
	if (hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, pool))
		client_fail(share, "pinned pool: %s", hugepin_error());
	if (!hugepin_alloc(*pool, BLOCK_BYTES, 0))
		client_fail(share, "a pinned block of %" PRIu64 " bytes: %s", BLOCK_BYTES, hugepin_error());
}

/* The same pattern in every base page, so that the reader need not know where a page belongs. */
static void mark_pages(char *memory, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += BASE_PAGE)
		memory_fill(memory + at, 0, BASE_PAGE);
}

static void describe(struct client_share *share, struct hugepin_pool *pool)
{
	struct hugepin_segment_info segment = { .size = sizeof(segment) };
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };
	int err;

	if (hugepin_pool_stats_get(pool, &stats))
		client_fail(share, "the pool's numbers: %s", hugepin_error());
	share->bytes = stats.registered_bytes;
	for (size_t i = 0; !hugepin_pool_segment(pool, i, &segment); i++) {
		uint64_t runs = 0;

		mark_pages(segment.addr, segment.bytes);
		err = proof_runs(segment.addr, segment.bytes, &runs);
		if (err)
			client_fail(share, "asking the test module for the segment's pages: %s", strerror(-err));
		share->runs += runs;
		share->bytes_1g += segment.bytes_1g;
		share->bytes_2m += segment.bytes_2m;
	}
	if (stats.registered_bytes != stats.mapped_bytes || driver_registered_bytes() != stats.mapped_bytes)
		client_fail(share,
			    "of %" PRIu64 " bytes mapped %" PRIu64 " are registered by the pool, %" PRIu64
			    " by the driver",
			    stats.mapped_bytes, stats.registered_bytes, driver_registered_bytes());
}

static void pin_and_wait(struct client_share *share, int socket, const void *arg)
{
	const char *failure = driver_begin();
	struct hugepin_pool *pool;
	int fds[CLIENT_FDS_MAX], count, err;

	if (failure)
		client_fail(share, "%s", failure);
	pinned_block(share, arg, &pool);
	describe(share, pool);
	count = driver_descriptors(fds, CLIENT_FDS_MAX);
	err = count < 0 ? count : client_send_fds(socket, fds, (unsigned int)count);
	if (err)
		client_fail(share, "handing over the descriptors of the pins: %s", strerror(-err));
	__atomic_store_n(&share->ready, true, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

/* ---- the device ---- */

struct held {
	uint64_t pages, as_left; /* base pages that are pinned; of them those that hold what the client wrote */
};

/* Goes through @fd's pages until nothing more is pinned. */
static int device_read(int fd, char *buffer, struct held *held)
{
	struct hugepin_test_io io = {
		.size = sizeof(io),
		.buffer = (uintptr_t)buffer,
		.bytes = READ_BYTES,
	};

	while (!ioctl(fd, HUGEPIN_TEST_IOC_READ, &io)) {
		for (uint64_t at = 0; at < READ_BYTES; at += BASE_PAGE)
			held->as_left += memory_matching_bytes(buffer + at, 0, BASE_PAGE) == BASE_PAGE;
		held->pages += READ_BYTES / BASE_PAGE;
		io.offset += READ_BYTES;
	}
	return errno == ERANGE ? 0 : -errno;
}

static int device_read_all(struct demo *demo, const int *fds, unsigned int count, struct held *held)
{
	char *buffer = malloc(READ_BYTES);
	int err = buffer ? 0 : -ENOMEM;

	report_progress("the device is reading what the dead client wrote");
	*held = (struct held){ 0 };
	for (unsigned int i = 0; !err && i < count; i++)
		err = device_read(fds[i], buffer, held);
	free(buffer);
	return err ? report_stop(demo, "reading through the pins: %s", strerror(-err)) : 0;
}

/* ---- the step ---- */

static void report_registered(struct demo *demo, const struct client_share *share)
{
	uint64_t huge_pages = share->bytes_1g / PAGE_1G + share->bytes_2m / PAGE_2M;
	char pages[TEXT_PAGES_SIZE], size[TEXT_SIZE];

	report_line("registered", "%s (%s) by the stand-in driver, in %" PRIu64 " contiguous runs",
		    text_bytes(share->bytes, size), text_pages(share->bytes_1g, share->bytes_2m, pages), share->runs);
	report_check(demo, share->bytes >= BLOCK_BYTES && share->bytes_1g + share->bytes_2m == share->bytes,
		     "%" PRIu64 " bytes are registered, %" PRIu64 " in 1G and %" PRIu64 " in 2M pages; %" PRIu64
		     " are in use",
		     share->bytes, share->bytes_1g, share->bytes_2m, BLOCK_BYTES);
	report_check(demo, share->runs && share->runs <= huge_pages,
		     "%" PRIu64 " contiguous runs in %" PRIu64 " huge pages", share->runs, huge_pages);
}

/* The client is dead, its pins are not. */
static int look_during(struct demo *demo, const struct client_share *share, uint64_t used_before, const int *fds,
		       unsigned int count)
{
	uint64_t wanted = share->bytes / BASE_PAGE;
	char pinned[TEXT_SIZE], all[TEXT_SIZE];
	struct reserve_sum sum;
	struct held held;

	if (reserve_sum(demo->ctx, NODE_EVERY, &sum))
		return report_stop(demo, "reading the reserve: %s", hugepin_error());
	demo->results.quarantined_during_pin = sum.quarantined;
	report_line("killed", "with the pins held: %" PRIu64 " pages quarantined, nobody's and free for nobody",
		    sum.quarantined);
	report_check(demo, sum.quarantined && sum.quarantined == used_before && !sum.in_use,
		     "%" PRIu64 " pages are quarantined and %" PRIu64
		     " in use after the death of a client that had %" PRIu64,
		     sum.quarantined, sum.in_use, used_before);
	if (device_read_all(demo, fds, count, &held))
		return -1;
	demo->results.pinned_pages = held.pages;
	report_line("device", "still holds %s of %s base pages, contents as the client left them",
		    text_count(held.pages, pinned), text_count(wanted, all));
	report_check(demo, wanted && held.pages == wanted && held.as_left == wanted,
		     "%" PRIu64 " of %" PRIu64 " base pages are pinned, %" PRIu64 " hold what the client wrote",
		     held.pages, wanted, held.as_left);
	return 0;
}

static int look_after(struct demo *demo)
{
	int64_t back_us = reserve_wait_whole_us(demo->ctx, BACK_MS);
	struct reserve_sum sum;
	char us[TEXT_SIZE];

	if (reserve_sum(demo->ctx, NODE_EVERY, &sum))
		return report_stop(demo, "reading the reserve: %s", hugepin_error());
	demo->results.quarantined_after = sum.quarantined;
	if (report_check(demo, back_us >= 0 && !sum.quarantined,
			 "%" PRIu64 " pages are quarantined %d ms after the unpin", sum.quarantined, BACK_MS))
		report_line("unpinned", "0 pages quarantined, all are back %s after the last pin went",
			    text_us((uint64_t)back_us, us));
	return 0;
}

static int kill_and_look(struct demo *demo, struct client *client)
{
	int fds[CLIENT_FDS_MAX], ret;
	struct reserve_sum before;
	unsigned int count;

	ret = client_receive_fds(client->socket, fds, &count);
	if (ret)
		return report_stop(demo, "receiving the pins: %s", strerror(-ret));
	ret = reserve_sum(demo->ctx, NODE_EVERY, &before);
	if (ret)
		ret = report_stop(demo, "reading the reserve: %s", hugepin_error());
	if (!ret)
		ret = client_kill(demo, client);
	if (!ret)
		ret = look_during(demo, client->share, before.in_use, fds, count);
	for (unsigned int i = 0; i < count; i++)
		close(fds[i]);
	return ret ? ret : look_after(demo);
}

int step_pins(struct demo *demo)
{
	struct wish wish = { .node = demo->node[0], .ladder = demo->absent_1g ? "kmod:2M" : "kmod:1G+2M" };
	struct client client;
	int ret;

	report_section("6", "Pinned for a device: what it may still write to is kept from everybody else");
	report_progress("a client is pinning memory");
	ret = client_start(pin_and_wait, &wish, &client);
	if (ret)
		return report_stop(demo, "starting a client: %s", strerror(-ret));
	ret = client_wait(demo, &client, 0);
	if (!ret) {
		report_registered(demo, client.share);
		ret = kill_and_look(demo, &client);
	}
	client_end(&client);
	return ret;
}
