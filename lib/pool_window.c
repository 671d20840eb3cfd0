// SPDX-License-Identifier: MIT
/*
 * A pool's address space: reserved once, so that segments can lie back to back, and sized to what the process may have.
 */
#include "pool.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define WINDOW_MIN	HPI_GIB(64)		/* where nothing limits it */
#define WINDOW_FLOOR	HPI_GIB(1)		/* below that a pool is of no use */
#define WINDOW_SMALL	HPI_GIB(8)		/* below that it is not worth a gigabyte to align it to one */
#define NOTHING_MAX	HPI_GIB(16)		/* a grain each: room for 2^28 zero-size blocks */
#define PROGRAM_SHARE	4			/* of a limited address space a pool takes one part in so many */

uint64_t hpi_window_share(void)
{
	struct rlimit limit;
	uint64_t used_kib;
	char text[32];

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	if (hpi_sys_read_field("/proc/self/status", "VmSize:", text, sizeof(text)))
		return limit.rlim_cur / PROGRAM_SHARE;
	text[strspn(text, "0123456789")] = '\0';	/* a unit follows */
	if (hpi_size_parse_uint(text, &used_kib) || used_kib * 1024 > limit.rlim_cur)
		return 0;
	return (limit.rlim_cur - used_kib * 1024) / PROGRAM_SHARE;
}

static uint64_t alignment_of(uint64_t window)
{
	return window < WINDOW_SMALL ? HPI_2M : HPI_1G;
}

static uint64_t nothing_of(uint64_t window)
{
	return window / 4 < NOTHING_MAX ? window / 4 : NOTHING_MAX;
}

static uint64_t total_of(uint64_t window)
{
	return window + nothing_of(window) + alignment_of(window);
}

static uint64_t smaller(uint64_t window)
{
	return window / 2 > WINDOW_FLOOR ? hpi_round_up(window / 2, HPI_2M) : WINDOW_FLOOR;
}

static int lay_out(struct hugepin_pool *pool, uint64_t window)
{
	pool->reserved_bytes = total_of(window);
	pool->window = (char *)hpi_round_up((uintptr_t)pool->reserved, alignment_of(window));
	pool->window_end = pool->window + window;
	pool->nothing = pool->window_end;
	pool->nothing_end = pool->nothing + nothing_of(window);
	return 0;
}

/* The device's address space; its addresses for blocks of no bytes never have memory either. */
static int reserve_on_device(struct hugepin_pool *pool)
{
	uint64_t total, available, window;
	int err = hpi_device_memory(pool->ctx, pool->device, &total, &available);

	if (err)
		return hpi_error_add(err, ", for a %s pool", hpi_pool_name(pool));
	window = hpi_round_up(2 * total, HPI_1G);
	if (window < WINDOW_SMALL)
		window = WINDOW_SMALL;
	err = hpi_device_reserve(pool->ctx, pool->device, total_of(window), &pool->reserved);
	if (err)
		return hpi_error_add(err, ": %llu bytes of address space for a %s pool",
				     (unsigned long long)total_of(window), hpi_pool_name(pool));
	return lay_out(pool, window);
}

/*
 * Address space costs nothing, so there is several times the machine's memory: holes that alignment and trimming
 * leave must not be what ends a pool. Under RLIMIT_AS less has to do, and the program's own share stays free; of very
 * little the pool takes its floor all the same.
 */
int hpi_window_reserve(struct hugepin_pool *pool)
{
	uint64_t window = hpi_round_up(4 * pool->ctx->topology.memory_bytes, HPI_1G), share = hpi_window_share();
	int err;

	if (pool->device >= 0)
		return reserve_on_device(pool);
	if (window < WINDOW_MIN)
		window = WINDOW_MIN;
	while (window > WINDOW_FLOOR && total_of(window) > share)
		window = smaller(window);
	for (;;) {
		err = hpi_sys_mmap(NULL, total_of(window), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
				   0, &pool->reserved);
		if (err != -ENOMEM || window == WINDOW_FLOOR)
			break;
		window = smaller(window);
	}
	if (err)
		return hpi_error(err, "%s pool: reserving %llu bytes of address space: %s", hpi_pool_name(pool),
				 (unsigned long long)total_of(window), strerror(-err));
	return lay_out(pool, window);
}

int hpi_window_release(struct hugepin_pool *pool)
{
	int err;

	if (pool->device >= 0)
		return hpi_device_release(pool->ctx, pool->device, pool->reserved, pool->reserved_bytes);
	err = hpi_sys_munmap(pool->reserved, pool->reserved_bytes);
	return err ? hpi_error(err, "%s pool: giving back its address space: %s", hpi_pool_name(pool), strerror(-err)) :
		     0;
}
