// SPDX-License-Identifier: MIT
/*
 * Making every page of a mapping resident before anybody touches it.
 *
 * The kernel zeroes a fresh page in the thread that asks for it, so one thread brings a terabyte in at the pace of one
 * CPU. Several do it here, and none where it would change what the memory is: a page that no policy places comes from
 * the node of the CPU that asks, so helpers stay on the node of the thread that they help.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "internal.h"

#define PIECE_BYTES	((uint64_t)64 << 20)	/* takes 10 ms and more, a thread a tenth of one to start */
#define HELPERS_MAX	63			/* register_threads less the caller */

/* ---- a piece ---- */

/* read(2) of zeroes stores them with the kernel's own copy, which answers EFAULT where a store of ours is a SIGBUS. */
static int populate_by_read(char *addr, uint64_t bytes)
{
	int fd = hpi_sys_open("/dev/zero", O_RDONLY, 0);
	int64_t got = 0;

	if (fd < 0)
		return fd;
	while (bytes && got >= 0) {
		got = hpi_sys_read(fd, addr, bytes < HPI_1G ? bytes : HPI_1G);
		if (got == 0)
			got = -EIO;
		if (got > 0) {
			addr += got;
			bytes -= (uint64_t)got;
		}
	}
	hpi_sys_close(fd);
	return got < 0 ? (int)got : 0;
}

/* EINVAL: before Linux 5.14; the others: a filter of system calls that does not know the advice. */
static bool cannot_populate(int err)
{
	return err == -EINVAL || err == -ENOSYS || err == -EPERM || err == -EACCES;
}

static int populate_piece(char *addr, uint64_t bytes)
{
	int err = hpi_sys_madvise(addr, bytes, MADV_POPULATE_WRITE);

	return cannot_populate(err) ? populate_by_read(addr, bytes) : err;
}

/* ---- all of them ---- */

struct job {
	char *addr;
	uint64_t bytes, piece_bytes;
	_Atomic uint64_t next;			/* from here on nobody has begun */
	_Atomic int err;			/* of the first piece that failed: no other is begun */
	cpu_set_t near;				/* where helpers run */
};

static void work(struct job *job)
{
	uint64_t at, left;
	int err = 0, none = 0;

	while (!err && !job->err) {
		at = atomic_fetch_add(&job->next, job->piece_bytes);
		if (at >= job->bytes)
			return;
		left = job->bytes - at;
		err = populate_piece(job->addr + at, left < job->piece_bytes ? left : job->piece_bytes);
	}
	if (err)
		atomic_compare_exchange_strong(&job->err, &none, err);
}

static void help(void *arg)
{
	struct job *job = arg;

	if (!sched_setaffinity(0, sizeof(job->near), &job->near))
		work(job);
}

/* How many may help: as many as there are pieces and CPUs for, beside the caller. */
static uint64_t helpers(struct hugepin_context *ctx, struct job *job)
{
	uint64_t threads = hpi_options_uint(ctx->options, HPI_OPT_REGISTER_THREADS);
	uint64_t pieces = (job->bytes - 1) / job->piece_bytes + 1, cpus;

	if (threads == 1 || pieces == 1 || hpi_thread_cpus_near("", &ctx->topology, &job->near))
		return 0;
	cpus = (uint64_t)CPU_COUNT(&job->near);
	if (threads > pieces)
		threads = pieces;
	return (threads < cpus ? threads : cpus) - 1;
}

int hpi_populate(struct hugepin_context *ctx, void *addr, uint64_t bytes, uint64_t page_bytes)
{
	struct job job = {
		.addr = addr, .bytes = bytes, .piece_bytes = page_bytes > PIECE_BYTES ? page_bytes : PIECE_BYTES,
	};
	uint64_t wanted = helpers(ctx, &job);
	pthread_t threads[HELPERS_MAX];
	size_t count = 0, i;

	while (count < wanted && !hpi_thread_start("hugepin-fill", help, &job, &threads[count]))
		count++;
	if (count < wanted)
		hpi_error_clear();		/* it takes longer, no more */
	work(&job);
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return job.err;
}

int hpi_populate_region(void *addr, uint64_t bytes, bool writable)
{
	const volatile char *p = addr;
	uint64_t i;
	int err = hpi_sys_madvise(addr, bytes, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);

	if (!cannot_populate(err))
		return err;
	for (i = 0; i < bytes; i += 4096)
		(void)p[i];
	return 0;
}
