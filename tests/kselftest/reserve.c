// SPDX-License-Identifier: MIT
/* Snapshots of the reserve, its knobs, and the hooks that compare and restore; see reserve.h. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "reserve.h"

#define MISC_DIR	"/sys/class/misc/hugepin"
#define KNOBS_MAX	(2 * RESERVE_ENTRIES + 8)

/* A file whose content is put back after every case. */
struct knob {
	char path[128];
	char text[64];
};

static struct knob knobs[KNOBS_MAX];
static unsigned int knob_count;
static struct reserve at_start;

void reserve_read(struct reserve *reserve)
{
	int fd = open(HUGEPIN_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		ktap_fail_here("%s: %s", HUGEPIN_DEVICE, strerror(errno));
	memset(reserve, 0, sizeof(*reserve));
	reserve->info.size = sizeof(reserve->info);
	reserve->info.pages = (uintptr_t)reserve->pages;
	reserve->info.nr_pages = RESERVE_ENTRIES;
	if (ioctl(fd, HUGEPIN_IOC_INFO, &reserve->info))
		ktap_fail_here("INFO: %s", strerror(errno));
	close(fd);
	CHECK(reserve->info.nr_pages <= RESERVE_ENTRIES, "%u entries", reserve->info.nr_pages);
}

static const struct hugepin_info_pages *find(const struct reserve *reserve, unsigned int node, unsigned int class)
{
	unsigned int i;

	for (i = 0; i < reserve->info.nr_pages; i++)
		if (reserve->pages[i].node == node && reserve->pages[i].class == class)
			return &reserve->pages[i];
	return NULL;
}

struct hugepin_info_pages reserve_of(unsigned int node, unsigned int class)
{
	const struct hugepin_info_pages *pages;
	struct reserve reserve;

	reserve_read(&reserve);
	pages = find(&reserve, node, class);
	return pages ? *pages : (struct hugepin_info_pages){ 0 };
}

uint64_t reserve_free_pages(unsigned int node, unsigned int class)
{
	struct hugepin_info_pages pages = reserve_of(node, class);

	return pages.clean + pages.dirty;
}

uint64_t reserve_free_class(unsigned int class)
{
	struct reserve reserve;
	uint64_t sum = 0;
	unsigned int i;

	reserve_read(&reserve);
	for (i = 0; i < reserve.info.nr_pages; i++)
		if (reserve.pages[i].class == class)
			sum += reserve.pages[i].clean + reserve.pages[i].dirty;
	return sum;
}

bool class_absent(unsigned int class)
{
	struct reserve reserve;

	reserve_read(&reserve);
	return reserve.info.absent[class] != HUGEPIN_ABSENT_NOT;
}

unsigned int reserve_nodes(unsigned int *nodes, unsigned int room)
{
	unsigned int i, count = 0;
	struct reserve reserve;

	reserve_read(&reserve);
	for (i = 0; i < reserve.info.nr_pages; i++) {
		if (reserve.pages[i].class != HUGEPIN_CLASS_2M)
			continue;
		if (count < room)
			nodes[count] = reserve.pages[i].node;
		count++;
	}
	return count;
}

unsigned int reserve_node_with(unsigned int class, uint64_t at_least)
{
	unsigned int i, best = 0;
	struct reserve reserve;
	uint64_t most = 0;

	reserve_read(&reserve);
	for (i = 0; i < reserve.info.nr_pages; i++) {
		const struct hugepin_info_pages *pages = &reserve.pages[i];

		if (pages->class == class && pages->clean + pages->dirty > most) {
			most = pages->clean + pages->dirty;
			best = pages->node;
		}
	}
	CHECK(most >= at_least, "no node has %" PRIu64 " free pages of class %u, at most %" PRIu64
	      ": see tests/kselftest/run", at_least, class, most);
	return best;
}

bool reserve_wait(bool (*holds)(const struct reserve *reserve, const void *arg), const void *arg)
{
	struct reserve reserve;
	int waited_ms;

	for (waited_ms = 0;; waited_ms += 10) {
		reserve_read(&reserve);
		if (holds(&reserve, arg))
			return true;
		if (waited_ms >= SETTLE_MS)
			return false;
		poll(NULL, 0, 10);
	}
}

static bool quarantined_is(const struct reserve *reserve, const void *arg)
{
	const struct hugepin_info_pages *want = arg, *pages = find(reserve, want->node, want->class);

	return pages && pages->quarantined == want->quarantined;
}

bool reserve_wait_quarantined(unsigned int node, unsigned int class, uint64_t pages)
{
	struct hugepin_info_pages want = { .node = node, .class = class, .quarantined = pages };

	return reserve_wait(quarantined_is, &want);
}

void reserve_check_same(const struct reserve *before, const char *what)
{
	struct reserve now;
	unsigned int i;

	reserve_read(&now);
	CHECK(now.info.regions == before->info.regions, "%s made a region", what);
	for (i = 0; i < now.info.nr_pages; i++) {
		const struct hugepin_info_pages *a = &before->pages[i], *b = &now.pages[i];

		CHECK(a->total == b->total && a->in_use == b->in_use && a->clean + a->dirty == b->clean + b->dirty &&
		      a->quarantined == b->quarantined && a->asked == b->asked, "%s changed node %u class %u", what,
		      a->node, a->class);
	}
}

/* ---- files ---- */

bool file_read(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, text, room - 1);
	close(fd);
	if (length < 0)
		return false;
	text[length] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

static int write_text(const char *path, const char *text, size_t length)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), error = 0;
	ssize_t done;

	if (fd < 0)
		return -errno;
	done = write(fd, text, length);
	if (done < 0)
		error = -errno;
	else if ((size_t)done != length)
		error = -EIO;
	close(fd);
	return error;
}

const char *file_after(const char *path, const char *key)
{
	static char text[8192];
	int fd = CHECK_OK(open(path, O_RDONLY | O_CLOEXEC));
	const char *found;
	ssize_t length;

	length = CHECK_OK(read(fd, text, sizeof(text) - 1));
	close(fd);
	text[length] = '\0';
	found = strstr(text, key);
	return found ? found + strlen(key) : NULL;
}

unsigned long long file_number(const char *path, const char *key)
{
	const char *text = file_after(path, key);

	return text ? strtoull(text, NULL, 10) : 0;
}

int file_write(const char *path, const char *text)
{
	return write_text(path, text, strlen(text));
}

void knob_path(char *path, size_t room, unsigned int node, unsigned int class, const char *file)
{
	unsigned int kib = class == HUGEPIN_CLASS_1G ? 1u << 20 : 1u << 11;

	snprintf(path, room, MISC_DIR "/node%u/hugepages-%ukB/%s", node, kib, file);
}

int knob_write_text(unsigned int node, unsigned int class, const char *file, const char *text, size_t length)
{
	char path[128];

	knob_path(path, sizeof(path), node, class, file);
	return write_text(path, text, length);
}

int knob_write(unsigned int node, unsigned int class, const char *file, uint64_t value)
{
	char text[24];

	return knob_write_text(node, class, file, text, snprintf(text, sizeof(text), "%" PRIu64, value));
}

uint64_t knob_read(unsigned int node, unsigned int class, const char *file)
{
	char path[128], text[64], *end;
	uint64_t value;

	knob_path(path, sizeof(path), node, class, file);
	CHECK(file_read(path, text, sizeof(text)), "%s: %s", path, strerror(errno));
	value = strtoull(text, &end, 10);
	CHECK(end != text && !*end, "%s reads '%s'", path, text);
	return value;
}

/* ---- the rule: every case leaves the reserve as it found it ---- */

static void knob_add(const char *path)
{
	struct knob *knob = &knobs[knob_count];
	char *open_bracket;

	if (knob_count == KNOBS_MAX || !file_read(path, knob->text, sizeof(knob->text)))
		return;
	snprintf(knob->path, sizeof(knob->path), "%s", path);
	open_bracket = strchr(knob->text, '[');		/* a choice: always [madvise] never */
	if (open_bracket) {
		memmove(knob->text, open_bracket + 1, strlen(open_bracket));
		knob->text[strcspn(knob->text, "]")] = '\0';
	}
	knob_count++;
}

static void knobs_save(void)
{
	static const char * const paths[] = {
		"/sys/kernel/mm/transparent_hugepage/enabled",
		"/sys/kernel/mm/ksm/run",
		"/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
		"/proc/sys/kernel/numa_balancing",
		"/proc/sys/kernel/core_pattern",
	};
	struct reserve reserve;
	char path[128];
	unsigned int i;

	reserve_read(&reserve);
	for (i = 0; i < reserve.info.nr_pages; i++) {
		knob_path(path, sizeof(path), reserve.pages[i].node, reserve.pages[i].class, "nr_hugepages");
		knob_add(path);
		knob_path(path, sizeof(path), reserve.pages[i].node, reserve.pages[i].class, "user_limit_percent");
		knob_add(path);
	}
	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		knob_add(paths[i]);
}

static bool knob_differs(const struct knob *knob)
{
	char text[64], choice[sizeof(knob->text) + 2];

	if (!file_read(knob->path, text, sizeof(text)))
		return true;
	snprintf(choice, sizeof(choice), "[%s]", knob->text);
	return strcmp(text, knob->text) && !strstr(text, choice);
}

/* Only open, read, write and close: runs in signal handlers too. */
static void knobs_restore(void)
{
	unsigned int i;

	for (i = 0; i < knob_count; i++)
		if (knob_differs(&knobs[i]))
			file_write(knobs[i].path, knobs[i].text);
}

static bool is_as_before(const struct reserve *now, const void *arg)
{
	const struct reserve *before = arg;
	unsigned int i;

	if (now->info.regions != before->info.regions || now->info.nr_pages != before->info.nr_pages)
		return false;
	for (i = 0; i < now->info.nr_pages; i++) {
		const struct hugepin_info_pages *a = &before->pages[i], *b = find(now, a->node, a->class);

		if (!b || a->total != b->total || a->in_use != b->in_use || a->quarantined != b->quarantined ||
		    a->poisoned != b->poisoned)
			return false;
	}
	return true;
}

static void remember(void)
{
	reserve_read(&at_start);
}

static const char *describe_change(void)
{
	static char text[400];
	struct reserve now;
	int length;
	unsigned int i;

	reserve_read(&now);
	length = snprintf(text, sizeof(text), "the reserve is not as before: regions %llu -> %llu",
			  (unsigned long long)at_start.info.regions, (unsigned long long)now.info.regions);
	for (i = 0; i < at_start.info.nr_pages && length < (int)sizeof(text); i++) {
		const struct hugepin_info_pages *a = &at_start.pages[i], *b = find(&now, a->node, a->class);

		if (b && (a->total != b->total || a->in_use != b->in_use || a->quarantined != b->quarantined ||
			  a->poisoned != b->poisoned))
			length += snprintf(text + length, sizeof(text) - length,
				"; node %u class %u total %llu -> %llu, in use %llu -> %llu,"
				" quarantined %llu -> %llu, poisoned %llu -> %llu",
				a->node, a->class, a->total, b->total, a->in_use, b->in_use,
				a->quarantined, b->quarantined, a->poisoned, b->poisoned);
	}
	return text;
}

static const char *compare(void)
{
	knobs_restore();
	return reserve_wait(is_as_before, &at_start) ? NULL : describe_change();
}

const struct ktap_hooks reserve_hooks = {
	.start = knobs_save,
	.before = remember,
	.after = compare,
	.restore = knobs_restore,
};
