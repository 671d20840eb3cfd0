// SPDX-License-Identifier: MIT
/* Step 5: clients killed in the middle of writing. Unnamed memory comes back clean, named memory is found again. */
#include <inttypes.h>
#include <string.h>

#include "demo.h"

#define WHOLE_MS	5000
#define TABLE_NAME	"demo-table"
#define TABLE_BYTES	MIB(256)
#define TABLE_STEP	KIB(64) /* the writer counts what it has written in these */

struct place {
	int node;
	uint64_t bytes;
};

static void written(struct client_share *share, uint64_t bytes)
{
	__atomic_fetch_add(&share->written_bytes, bytes, __ATOMIC_RELEASE);
}

static void ready(struct client_share *share)
{
	__atomic_store_n(&share->ready, true, __ATOMIC_RELEASE);
}

/* ---- unnamed ---- */

/* All that the node has, in the client's own context: then the next one cannot but get the same pages. */
static void *take_node(struct client_share *share, const struct place *place)
{
	static const struct setting settings[] = { { "runtime", "none" } };
	char nodes[16];
	struct hugepin_region_request request = {
		.size = sizeof(request),
		.flags = HUGEPIN_REGION_FALLBACK,
		.bytes = place->bytes,
		.nodes = nodes,
	};
	struct hugepin_context *ctx;
	struct hugepin_region *region;
	void *memory;

	snprintf(nodes, sizeof(nodes), "%d", place->node);
	if (context_open(settings, 1, &ctx))
		client_fail(share, "context: %s", hugepin_error());
	if (hugepin_region_create(ctx, &request, &region))
		client_fail(share, "region: %s", hugepin_error());
	if (hugepin_region_map(region, 0, 0, HUGEPIN_MAP_POPULATE, &memory))
		client_fail(share, "map: %s", hugepin_error());
	return memory;
}

/* Never ends by itself. From both ends in turn, so that pages of every class are written early. */
static void write_for_ever(struct client_share *share, int socket, const void *arg)
{
	const struct place *place = arg;
	uint64_t blocks = place->bytes / PAGE_2M;
	char *memory = take_node(share, place);

	(void)socket;
	ready(share);
	for (uint64_t i = 0;; i++) {
		uint64_t step = i % blocks, block = step % 2 ? blocks - 1 - step / 2 : step / 2;

		memory_fill(memory + block * PAGE_2M, block * PAGE_2M, PAGE_2M);
		written(share, PAGE_2M);
	}
}

static void count_nonzero(struct client_share *share, int socket, const void *arg)
{
	const struct place *place = arg;

	(void)socket;
	share->value = memory_nonzero_bytes(take_node(share, place), place->bytes);
}

/* A writer, killed when it has written about as much as chance says. */
static int kill_writer(struct demo *demo, const struct place *place, uint64_t *written_bytes, int64_t *whole_us)
{
	struct client writer;
	int ret = client_start(write_for_ever, place, &writer);

	if (ret)
		return report_stop(demo, "starting a client: %s", strerror(-ret));
	ret = client_wait(demo, &writer, random_between(place->bytes / 8, place->bytes / 2));
	if (!ret) {
		sleep_ms((unsigned int)random_between(0, 20));
		ret = client_kill(demo, &writer);
	}
	if (!ret)
		*whole_us = reserve_wait_whole_us(demo->ctx, WHOLE_MS);
	*written_bytes = writer.share->written_bytes;
	client_end(&writer);
	return ret;
}

static int next_client(struct demo *demo, const struct place *place, uint64_t *nonzero)
{
	struct client reader;
	int ret = client_start(count_nonzero, place, &reader);

	if (ret)
		return report_stop(demo, "starting a client: %s", strerror(-ret));
	ret = client_finish(demo, &reader);
	*nonzero = reader.share->value;
	client_end(&reader);
	return ret;
}

static int unnamed(struct demo *demo)
{
	struct place place = { .node = demo->node[1] };
	char text[TEXT_SIZE], size[TEXT_SIZE], us[TEXT_SIZE];
	uint64_t written_bytes = 0, nonzero = 0;
	struct reserve_sum sum;
	int64_t whole_us = 0;

	if (reserve_sum(demo->ctx, place.node, &sum))
		return report_stop(demo, "reading the reserve: %s", hugepin_error());
	place.bytes = sum.free_1g * PAGE_1G + sum.free_2m * PAGE_2M;
	report_progress("a client is writing into all of node %d", place.node);
	if (kill_writer(demo, &place, &written_bytes, &whole_us))
		return -1;
	report_line("unnamed", "a client with all of node %d killed after writing %s", place.node,
		    text_bytes(written_bytes, text));
	if (report_check(demo, whole_us >= 0, "pages are still in use or quarantined %d ms after the client's death",
			 WHOLE_MS))
		report_line("whole", "the reserve has every page back after %s", text_us((uint64_t)whole_us, us));
	report_progress("the next client is reading the same pages");
	if (next_client(demo, &place, &nonzero))
		return -1;
	demo->results.nonzero_bytes_seen += nonzero;
	if (report_check(demo, !nonzero, "the next client saw %" PRIu64 " bytes that are not zero", nonzero))
		report_line("clean", "the next client got the same pages: 0 of %s are not zero",
			    text_bytes(place.bytes, size));
	return 0;
}

/* ---- named ---- */

static char *open_table(struct client_share *share, int *found)
{
	static const struct setting settings[] = { { "runtime", "none" }, { "variable_ladder", "kmod:2M" } };
	struct hugepin_variable *table;
	struct hugepin_context *ctx;
	struct hugepin_pool *pool;

	if (context_open(settings, 2, &ctx))
		client_fail(share, "context: %s", hugepin_error());
	if (hugepin_pool_create(ctx, HUGEPIN_POOL_VARIABLE, &pool))
		client_fail(share, "variable pool: %s", hugepin_error());
	if (hugepin_variable_open(pool, TABLE_NAME, TABLE_BYTES, found, &table))
		client_fail(share, "variable: %s", hugepin_error());
	return hugepin_variable_address(table);
}

static void train(struct client_share *share, int socket, const void *arg)
{
	char *table;
	int found;

	(void)socket;
	(void)arg;
	table = open_table(share, &found);
	if (found)
		client_fail(share, "a table of the name " TABLE_NAME " was there already");
	ready(share);
	for (uint64_t at = 0; at < TABLE_BYTES; at += TABLE_STEP) {
		memory_fill(table + at, at, TABLE_STEP);
		written(share, TABLE_STEP);
	}
	for (;;)
		sleep_ms(1000);
}

/* Looks at what was written, and that nothing is behind it but the step that the writer was killed in. */
static void resume(struct client_share *share, int socket, const void *arg)
{
	const uint64_t *written_bytes = arg;
	uint64_t rest = *written_bytes + TABLE_STEP;
	char *table;
	int found;

	(void)socket;
	table = open_table(share, &found);
	if (!found)
		client_fail(share, "the table " TABLE_NAME " is gone");
	share->value = memory_matching_bytes(table, 0, *written_bytes);
	share->other = rest < TABLE_BYTES ? memory_nonzero_bytes(table + rest, TABLE_BYTES - rest) : 0;
}

static int kill_trainer(struct demo *demo, uint64_t *written_bytes)
{
	struct client trainer;
	int ret = client_start(train, NULL, &trainer);

	if (ret)
		return report_stop(demo, "starting a client: %s", strerror(-ret));
	ret = client_wait(demo, &trainer, random_between(TABLE_BYTES / 8, TABLE_BYTES / 2) / TABLE_STEP * TABLE_STEP);
	if (!ret)
		ret = client_kill(demo, &trainer);
	*written_bytes = trainer.share->written_bytes;
	client_end(&trainer);
	return ret;
}

static int named(struct demo *demo)
{
	char text[TEXT_SIZE], size[TEXT_SIZE];
	uint64_t written_bytes = 0, recovered, stray;
	struct client resumer;
	int ret;

	if (kill_trainer(demo, &written_bytes))
		return -1;
	ret = client_start(resume, &written_bytes, &resumer);
	if (ret)
		return report_stop(demo, "starting a client: %s", strerror(-ret));
	ret = client_finish(demo, &resumer);
	recovered = resumer.share->value;
	stray = resumer.share->other;
	client_end(&resumer);
	if (ret)
		return ret;
	demo->results.named_bytes_recovered = recovered;
	report_line("named", "a client with the variable \"" TABLE_NAME "\" of %s killed after writing %s",
		    text_bytes(TABLE_BYTES, size), text_bytes(written_bytes, text));
	if (report_check(demo, recovered == written_bytes, "%" PRIu64 " of %" PRIu64 " bytes came back", recovered,
			 written_bytes))
		report_line("found", "the next client opened it by name and read all %s bytes back",
			    text_count(recovered, text));
	report_check(demo, !stray, "%" PRIu64 " bytes that nobody wrote are not zero", stray);
	demo->results.nonzero_bytes_seen += stray;
	return 0;
}

int step_death(struct demo *demo)
{
	int ret;

	report_section("5", "kill -9 in the middle of writing: nothing leaks, nobody sees it, what has a name stays");
	ret = unnamed(demo);
	if (ret)
		return ret;
	ret = named(demo);
	if (hugepin_region_unlink(demo->ctx, TABLE_NAME) && !ret)
		ret = report_stop(demo, "removing " TABLE_NAME ": %s", hugepin_error());
	return ret;
}
