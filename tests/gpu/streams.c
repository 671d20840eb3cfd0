// SPDX-License-Identifier: MIT
/* The check on a GPU: the device pool beside the driver's allocations, fences behind real streams, a captured graph. */
#include "gpu.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS	64

/* ---- the device pool ---- */

/* The first round, which may have to grow, is not counted on either side. */
static double driver_round_us(uint64_t bytes)
{
	double start = 0;
	device_ptr p;
	int i;

	for (i = 0; i <= ROUNDS; i++) {
		if (i == 1)
			start = now_s();
		must(gpu.mem_alloc(&p, bytes), "cuMemAlloc");
		must(gpu.mem_free(p), "cuMemFree");
	}
	return (now_s() - start) / ROUNDS * 1e6;
}

static double pool_round_us(struct hugepin_pool *pool, uint64_t bytes)
{
	double start = 0;
	void *p;
	int i;

	for (i = 0; i <= ROUNDS; i++) {
		if (i == 1)
			start = now_s();
		p = hugepin_alloc(pool, bytes, 0);
		must(!p, "a block of the device pool");
		must(hugepin_free(pool, p), "free");
	}
	return (now_s() - start) / ROUNDS * 1e6;
}

static bool is_zero_on_device(struct hugepin_pool *pool)
{
	static char back[MIB];
	char *p = hugepin_alloc(pool, sizeof(back), HUGEPIN_ALLOC_ZERO);
	bool zero;

	must(!p, "a zeroed block");
	memset(back, 1, sizeof(back));
	must(gpu.copy_to_host(back, (uintptr_t)p, sizeof(back), NULL), "copy");
	must(gpu.stream_synchronize(NULL), "copy");
	zero = !back[0] && !memcmp(back, back + 1, sizeof(back) - 1);
	must(hugepin_free(pool, p), "free");
	return zero;
}

void check_device_pool(void)
{
	static const uint64_t sizes[] = { 4 * KIB, MIB, 32 * MIB };
	struct hugepin_context *ctx = context_make(NULL);
	struct hugepin_pool *pool;
	char how[64];
	size_t i;

	must(hugepin_pool_create(ctx, HUGEPIN_POOL_DEVICE, &pool), "device pool");
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(how, sizeof(how), "%llu KiB", (unsigned long long)(sizes[i] / KIB));
		report_value("cuMemAlloc and cuMemFree", how, driver_round_us(sizes[i]), "us");
		report_value("device pool, alloc and free", how, pool_round_us(pool, sizes[i]), "us");
	}
	report_check("zeroed block of the device pool", is_zero_on_device(pool), "1 MiB read back");
	must(hugepin_pool_destroy(pool), "pool");
	must(hugepin_context_destroy(ctx), "context");
}

/* ---- fences ---- */

static uint64_t deferred(struct hugepin_pool *pool)
{
	struct hugepin_pool_stats stats = { .size = sizeof(stats) };

	must(hugepin_pool_stats_get(pool, &stats), "stats");
	return stats.deferred_bytes;
}

struct copying {
	struct hugepin_pool *pool;
	stream_t stream;
	device_ptr device;
	uint64_t bytes;
};

/* The device writes to a block while it is given back, behind the stream or without naming it. */
static void free_under_copy(struct copying *copying, bool named)
{
	const char *what = named ? "block freed behind its stream" : "block freed without a stream";
	char *p = hugepin_alloc(copying->pool, copying->bytes, 0), *q;
	uint64_t waiting;
	bool busy;
	int i;

	must(!p, "a block");
	for (i = 0; i < 64; i++)	/* longer than the pool takes to grow by another block */
		must(gpu.copy_to_host(p, copying->device, copying->bytes, copying->stream), "copy");
	must(hugepin_free_after(copying->pool, p, named ? &copying->stream : NULL, named), "free");
	waiting = deferred(copying->pool);
	q = hugepin_alloc(copying->pool, copying->bytes, 0);
	busy = gpu.stream_query(copying->stream) != 0;
	must(gpu.stream_synchronize(copying->stream), "copies");
	must(hugepin_pool_drain(copying->pool), "drain");
	report_check(what, q && !(busy && q == p) && !deferred(copying->pool), "%llu MiB waited, the copies %s",
		     (unsigned long long)(waiting / MIB), busy ? "still ran" : "were over");
	must(hugepin_free(copying->pool, q), "free");
}

void check_fences(void)
{
	struct hugepin_context *ctx = context_make("base");
	struct copying copying = { .bytes = work_bytes / 4 < 256 * MIB ? work_bytes / 4 : 256 * MIB };

	must(hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &copying.pool), "pinned pool");
	must(gpu.stream_create(&copying.stream, NON_BLOCKING), "cuStreamCreate");
	must(gpu.mem_alloc(&copying.device, copying.bytes), "cuMemAlloc");
	free_under_copy(&copying, true);
	free_under_copy(&copying, false);
	must(gpu.mem_free(copying.device), "cuMemFree");
	must(gpu.stream_destroy(copying.stream), "cuStreamDestroy");
	must(hugepin_pool_destroy(copying.pool), "pool");
	must(hugepin_context_destroy(ctx), "context");
}

/* A stream is captured in the strictest mode, while the pool grows, registers, and gets a block of that stream back. */
void check_capture(void)
{
	struct hugepin_context *ctx = context_make("base");
	struct hugepin_pool *pool;
	void *graph = NULL, *p, *q;
	stream_t stream;
	int code;

	must(hugepin_pool_create(ctx, HUGEPIN_POOL_PINNED, &pool), "pinned pool");
	must(gpu.stream_create(&stream, NON_BLOCKING), "cuStreamCreate");
	p = hugepin_alloc(pool, MIB, 0);
	must(!p, "a block");
	must(gpu.capture_begin(stream, 0), "cuStreamBeginCapture");
	q = hugepin_alloc(pool, 64 * MIB, 0);
	report_check("a pool grows while a stream is captured", q, "%s", q ? "64 MiB registered" : hugepin_error());
	must(hugepin_free_after(pool, p, &stream, 1), "free");
	hugepin_pool_poll(pool);
	code = gpu.capture_end(stream, &graph);
	report_check("the capture stays whole", !code && graph, "code %d", code);
	if (graph && gpu.graph_destroy)
		gpu.graph_destroy(graph);
	must(hugepin_pool_drain(pool), "drain");
	must(hugepin_free(pool, q), "free");
	must(gpu.stream_destroy(stream), "cuStreamDestroy");
	must(hugepin_pool_destroy(pool), "pool");
	must(hugepin_context_destroy(ctx), "context");
}
