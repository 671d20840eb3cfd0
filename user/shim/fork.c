// SPDX-License-Identifier: MIT
/*
 * A child of fork() has a copy of its parent's memory, except that a pool's huge pages are those of a file, which
 * both would share: a list that the child sorts would be sorted in the parent. So the forking thread copies the
 * blocks in use into anonymous memory before the fork, and the child moves the copies to where the blocks were.
 *
 * The copy is taken when every other fork handler has run (ours is the first to be registered, so its prepare comes
 * last): a lock that the program takes for the fork holds for it too. Nothing is served from the parent's pool in the
 * child: what it allocates comes from the C library. vfork(), posix_spawn() and system() copy nothing.
 *
 * Pinned blocks stay shared: a device may be at them, and CUDA does not work in the child anyway.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim.h"

#define GIB	((uintptr_t)1 << 30)

struct copy {
	char *addr;
	size_t bytes;
	int fd;
	size_t used;			/* of @bytes, in blocks */
	char *shadow;			/* NULL: nothing is used */
};

struct inheritance inheritance;

/* From prepare to parent or child; the gate is closed so long. */
static struct copy *copies;
static size_t count, room;
static bool closed, complete;
static pid_t forking;

/* ---- taking ---- */

static bool grow_list(void)
{
	size_t more = room ? 2 * room : 64;
	struct copy *list = realloc(copies, more * sizeof(*list));	/* the gate is closed: the C library's */

	if (!list)
		return false;
	copies = list;
	room = more;
	return true;
}

/* A segment on pages that a child would share. */
static bool list_segment(const struct hugepin_segment_info *info)
{
	if (info->fd < 0)
		return true;
	if (count == room && !grow_list())
		return false;
	copies[count++] = (struct copy){ .addr = info->addr, .bytes = info->bytes, .fd = info->fd };
	return true;
}

static bool list_segments(void)
{
	struct hugepin_segment_info info = { .size = sizeof(info) };
	size_t i;

	for (i = 0; !hugepin_pool_segment(host_pool.pool, i, &info); i++)
		if (!list_segment(&info))
			return false;
	return true;
}

/* The parts of blocks that lie in the segment; a block may have begun in the one before. */
struct part {
	struct copy *copy;
	void (*fn)(struct copy *copy, const char *from, size_t bytes);
};

static void each_part(const struct block *block, void *arg)
{
	const struct part *part = arg;
	const char *from = block->addr, *to = from + block->bytes, *end = part->copy->addr + part->copy->bytes;

	if (from < part->copy->addr)
		from = part->copy->addr;
	if (to > end)
		to = end;
	if (from < to)
		part->fn(part->copy, from, (size_t)(to - from));
}

static void each_in(struct copy *copy, void (*fn)(struct copy *copy, const char *from, size_t bytes))
{
	struct part part = { .copy = copy, .fn = fn };
	struct block before;

	if (blocks_around(copy->addr, atomic_load(&host_pool.largest), &before) && before.addr < copy->addr)
		each_part(&before, &part);
	blocks_each(copy->addr, copy->addr + copy->bytes, each_part, &part);
}

static void add_used(struct copy *copy, const char *from, size_t bytes)
{
	(void)from;
	copy->used += bytes;
}

static void fill(struct copy *copy, const char *from, size_t bytes)
{
	memcpy(copy->shadow + (from - copy->addr), from, bytes);
}

/* Bytes that the kernel calls available; without an answer, all there could be. */
static uint64_t available(void)
{
	static const char key[] = "\nMemAvailable:";
	char text[512], *at;
	int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[length < 0 ? 0 : length] = '\0';
	at = strstr(text, key);
	return at ? strtoull(at + sizeof(key) - 1, NULL, 10) * 1024 : UINT64_MAX;
}

/* False: not all, since memory is short; better no child's memory than an end to all by the OOM killer. */
static bool copy_blocks(void)
{
	uint64_t used = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		each_in(&copies[i], add_used);
		used += copies[i].used;
	}
	if (used && used > available())
		return false;
	for (i = 0; i < count; i++) {
		struct copy *copy = &copies[i];

		if (!copy->used)
			continue;
		copy->shadow = mmap(NULL, copy->bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (copy->shadow == MAP_FAILED) {
			copy->shadow = NULL;
			return false;
		}
		madvise(copy->shadow, copy->bytes, MADV_HUGEPAGE);	/* faster, if it can be had */
		each_in(copy, fill);
	}
	return true;
}

/* ---- the handlers ---- */

static void prepare(void)
{
	forking = getpid();
	count = 0;
	complete = false;
	closed = gate_close();
	if (!closed)		/* forked by a signal handler that struck inside a pool */
		return;
	complete = atomic_load(&host_pool.state) != POOL_READY || (list_segments() && copy_blocks());
}

static void parent(void)
{
	size_t i;

	if (!closed)
		return;
	for (i = 0; i < count; i++)
		if (copies[i].shadow)
			munmap(copies[i].shadow, copies[i].bytes);
	gate_open();
}

/*
 * The descriptor keeps the parent's pages from going with the parent. It is closed if it still is the segment's: a
 * program that closes what it does not know may have a file of its own behind the number.
 */
static void close_segment(const struct copy *copy)
{
	struct stat stat;

	if (!fstat(copy->fd, &stat) && (size_t)stat.st_size == copy->bytes)
		close(copy->fd);
}

static bool take_over(const struct copy *copy)
{
	void *at = copy->addr;

	if (copy->shadow)
		at = mremap(copy->shadow, copy->bytes, copy->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, copy->addr);
	inheritance.copied_bytes += copy->used;
	close_segment(copy);
	return at == copy->addr;
}

/* Rather a clear end than writes into the parent's memory. The window is larger than what was served, by GiBs. */
static void give_up(void)
{
	uintptr_t from = atomic_load(&host_pool.low) & ~(GIB - 1), to = round_up(atomic_load(&host_pool.high), GIB);

	inheritance.lost = true;
	mmap((void *)from, to - from, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	say("no memory for a copy of the large blocks of process %d: they are not in this child", (int)forking);
}

static void inherit(struct pool *pool)
{
	enum pool_state state = atomic_load(&pool->state);

	/* The thread that was making it is not here; what it had is of no use and of no harm. */
	if (state == POOL_MAKING)
		atomic_store(&pool->state, POOL_FRESH);
	else if (state == POOL_READY || (state == POOL_CLOSED && pool->pool))
		atomic_store(&pool->state, POOL_INHERITED);
}

static void child(void)
{
	size_t i;

	inheritance = (struct inheritance){ .parent = forking };
	for (i = 0; i < count && complete; i++)
		complete = take_over(&copies[i]);
	if (!complete && atomic_load(&host_pool.served))
		give_up();
	inherit(&host_pool);
	inherit(&pinned_pool);
	pool_child();
	gate_reset();
	report_reset();
}

void fork_watch(void)
{
	pthread_atfork(prepare, parent, child);
}
