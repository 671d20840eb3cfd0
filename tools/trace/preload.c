// SPDX-License-Identifier: MIT
/*
 * libtrace-record.so: stands before the program's malloc family and notes every call of at least min_bytes in the
 * spool file (spool.h). No locks, no table of live blocks: which free belongs to which allocation is worked out
 * afterwards by hugepin-trace-record.
 *
 * It must never change what the program does: every error of its own ends the recording, not the program.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "spool.h"

#define EXPORT __attribute__((visibility("default")))
#define BACKING_STEP (1u << 20)

/* initial-exec: the first access must not itself allocate */
#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	size_t (*usable_size)(void *);
} real;

static struct spool_header *spool;	/* NULL: not recording, for good */
static char *chunks;			/* the spool's first chunk */
static uint64_t start_us;
static uint32_t run;
static uint64_t min_bytes;
static char spool_path[4096];

/*
 * A page of its own that the kernel clears in every forked child, also after _Fork() or a bare clone(), which no
 * atfork handler sees. A child that shares the memory (vfork) really works on the parent's heap and is recorded.
 */
static _Atomic int *in_parent;

THREAD_LOCAL struct spool_record *next_record;
THREAD_LOCAL unsigned int records_left;
THREAD_LOCAL uint32_t thread_number;	/* from 1; 0: none yet */
THREAD_LOCAL bool resolving;

/* ---- Before dlsym() has answered: memory for dlsym() itself, never given back ---- */

static _Alignas(max_align_t) char early[32768];
static _Atomic size_t early_used;

static void *early_alloc(size_t bytes)
{
	size_t need = (bytes + 15) & ~(size_t)15;
	size_t at;

	if (need < bytes || need > sizeof(early))
		return NULL;
	at = atomic_fetch_add(&early_used, need);
	return at <= sizeof(early) - need ? early + at : NULL;
}

static bool is_early(const void *address)
{
	return (uintptr_t)address - (uintptr_t)early < sizeof(early);
}

/* ---- Starting ---- */

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void spool_open(void)
{
	const char *path = getenv(SPOOL_ENV);
	struct spool_header *header;
	int32_t nobody = 0;
	int fd;

	if (!path || strlen(path) >= sizeof(spool_path))
		return;
	memcpy(spool_path, path, strlen(path) + 1);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	header = mmap(NULL, SPOOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (header == MAP_FAILED)
		goto no_map;
	if (header->magic != SPOOL_MAGIC)
		goto no_owner;

	/* The first to come is recorded, through all its execs; its children inherit the preload and step aside. */
	if (!atomic_compare_exchange_strong(&header->owner, &nobody, getpid()) && nobody != getpid())
		goto no_owner;

	in_parent = mmap(NULL, SPOOL_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (in_parent == MAP_FAILED || madvise(in_parent, SPOOL_CHUNK_BYTES, MADV_WIPEONFORK)) {
		atomic_store(&header->failed, errno);
		goto no_owner;
	}
	atomic_store(in_parent, 1);
	run = atomic_fetch_add(&header->run, 1) + 1;
	atomic_store(&header->threads, 0);
	atomic_store(&header->small_allocs, 0);
	start_us = now_us();
	min_bytes = header->min_bytes;
	chunks = (char *)header + SPOOL_CHUNK_BYTES;
	spool = header;
	close(fd);
	return;

no_owner:
	munmap(header, SPOOL_BYTES);
no_map:
	close(fd);
}

/* ld.so runs this before the program has a second thread; a library's early malloc can come before the constructor. */
static void start(void)
{
	int saved = errno;

	resolving = true;
	real.calloc = dlsym(RTLD_NEXT, "calloc");
	real.realloc = dlsym(RTLD_NEXT, "realloc");
	real.free = dlsym(RTLD_NEXT, "free");
	real.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
	real.memalign = dlsym(RTLD_NEXT, "memalign");
	real.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	real.usable_size = dlsym(RTLD_NEXT, "malloc_usable_size");
	spool_open();
	real.malloc = dlsym(RTLD_NEXT, "malloc");
	resolving = false;
	errno = saved;
}

/* false: called from inside start(), so the real functions are not there yet */
static inline bool ready(void)
{
	if (__builtin_expect(real.malloc != NULL, 1))
		return true;
	if (resolving)
		return false;
	start();
	return real.malloc != NULL;
}

__attribute__((constructor)) static void constructor(void)
{
	ready();
}

/* ---- Recording ---- */

static void give_up(int error)
{
	atomic_store(&spool->failed, (uint32_t)error);
	atomic_store(in_parent, 0);
}

/*
 * A page of a sparse file that the file system cannot back is a SIGBUS, so blocks are asked for first. Threads that
 * come at the same time may both ask for a step; that is harmless. The file is opened anew each time: a descriptor
 * kept open could be closed by the program and its number be another file by now.
 */
static bool back(uint64_t until)
{
	uint64_t have = atomic_load(&spool->backed_bytes);

	while (have < until) {
		uint64_t want = have + BACKING_STEP;
		int fd = open(spool_path, O_RDWR | O_CLOEXEC);
		int error = fd < 0 ? errno : 0;

		if (!error)
			error = want > SPOOL_BYTES ? EFBIG : posix_fallocate(fd, (off_t)have, BACKING_STEP);
		if (fd >= 0)
			close(fd);
		if (error) {
			give_up(error);
			return false;
		}
		if (atomic_compare_exchange_strong(&spool->backed_bytes, &have, want))
			have = want;
	}
	return true;
}

static struct spool_record *take_record(void)
{
	if (!records_left) {
		uint64_t chunk = atomic_fetch_add(&spool->chunks, 1);

		if (!back((chunk + 2) * SPOOL_CHUNK_BYTES))
			return NULL;
		next_record = (struct spool_record *)(chunks + chunk * SPOOL_CHUNK_BYTES);
		records_left = SPOOL_CHUNK_RECORDS;
		if (!thread_number)
			thread_number = atomic_fetch_add(&spool->threads, 1) + 1;
	}
	records_left--;
	return next_record++;
}

static inline bool recording(void)
{
	return spool && atomic_load_explicit(in_parent, memory_order_relaxed);
}

static void note(enum spool_kind kind, const void *address, size_t bytes, size_t align)
{
	int saved = errno;
	struct spool_record *record = take_record();

	if (record) {
		record->sequence = atomic_fetch_add(&spool->sequence, 1);
		record->address = (uintptr_t)address;
		record->bytes = bytes;
		record->time_us = now_us() - start_us;
		record->thread = thread_number;
		record->align_log2 = align > 1 ? (uint16_t)(64 - __builtin_clzl(align - 1)) : 0;
		record->run = run;
		__atomic_store_n(&record->kind, kind, __ATOMIC_RELEASE);
	}
	errno = saved;
}

static inline void note_alloc(enum spool_kind kind, const void *address, size_t bytes, size_t align)
{
	if (!address || !recording())
		return;
	if (bytes >= min_bytes)
		note(kind, address, bytes, align);
	else
		atomic_fetch_add_explicit(&spool->small_allocs, 1, memory_order_relaxed);
}

/* The cheap way past small blocks: what the allocator gave is never less than what was asked of it. */
static inline bool may_be_recorded(void *address)
{
	return recording() && (!real.usable_size || real.usable_size(address) >= min_bytes);
}

/* ---- The malloc family ---- */

EXPORT void *malloc(size_t bytes)
{
	void *address;

	if (!ready())
		return early_alloc(bytes);
	address = real.malloc(bytes);
	note_alloc(SPOOL_MALLOC, address, bytes, 0);
	return address;
}

EXPORT void *calloc(size_t count, size_t each)
{
	size_t bytes = 0;
	bool wraps = __builtin_mul_overflow(count, each, &bytes);
	void *address;

	if (!ready())
		return wraps ? NULL : early_alloc(bytes);	/* static memory, used once: still zero */
	address = real.calloc(count, each);
	note_alloc(SPOOL_CALLOC, address, bytes, 0);
	return address;
}

EXPORT void free(void *address)
{
	if (!address || is_early(address) || !ready())
		return;
	if (may_be_recorded(address))
		note(SPOOL_FREE, address, 0, 0);
	real.free(address);
}

static void *realloc_early(void *old, size_t bytes)
{
	size_t left = (size_t)(early + sizeof(early) - (char *)old);
	void *address = malloc(bytes);

	if (address)
		memcpy(address, old, bytes < left ? bytes : left);
	return address;
}

EXPORT void *realloc(void *old, size_t bytes)
{
	void *address;
	bool noted;

	if (!old)
		return malloc(bytes);
	if (is_early(old))
		return realloc_early(old, bytes);
	if (!ready())
		return NULL;

	noted = may_be_recorded(old);
	if (noted)
		note(SPOOL_REALLOC_FROM, old, 0, 0);
	address = real.realloc(old, bytes);
	if (noted)
		note(SPOOL_REALLOC_TO, address, bytes, 0);
	else
		note_alloc(SPOOL_MALLOC, address, bytes, 0);
	return address;
}

EXPORT void *reallocarray(void *old, size_t count, size_t each)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, each, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

EXPORT int posix_memalign(void **out, size_t align, size_t bytes)
{
	int error;

	if (!ready())
		return ENOMEM;
	error = real.posix_memalign(out, align, bytes);
	if (!error)
		note_alloc(SPOOL_MALLOC, *out, bytes, align);
	return error;
}

EXPORT void *memalign(size_t align, size_t bytes)
{
	void *address;

	if (!ready())
		return NULL;
	address = real.memalign(align, bytes);
	note_alloc(SPOOL_MALLOC, address, bytes, align);
	return address;
}

EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
	void *address;

	if (!ready())
		return NULL;
	address = real.aligned_alloc(align, bytes);
	note_alloc(SPOOL_MALLOC, address, bytes, align);
	return address;
}

/* What these do is fixed by memalign. */
EXPORT void *valloc(size_t bytes)
{
	return memalign((size_t)sysconf(_SC_PAGESIZE), bytes);
}

EXPORT void *pvalloc(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (bytes > SIZE_MAX - page) {
		errno = ENOMEM;
		return NULL;
	}
	return memalign(page, (bytes + page - 1) / page * page);
}
