// SPDX-License-Identifier: MIT
/*
 * What comes back from the module: no byte beside what was asked for, none that was left on the kernel's stack or in
 * its heap, and no address of the kernel, neither in answers nor in any file that shows the module.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pinned.h"
#include "region.h"
#include "reserve.h"

#define STAIN	0x5c		/* what is left about in the kernel */
#define PAINT	0xa7		/* what the caller's buffers are filled with */
#define ROOM	64		/* entries of an array */
#define SPARE	256		/* bytes behind each array that must stay as they are */

/* ---- staining the kernel: what a system call copies in and never clears ---- */

static void stain_stack(void)
{
	struct pollfd sets[256];

	memset(sets, STAIN, sizeof(sets));
	poll(sets, ARRAY_SIZE(sets), 0);	/* the first ones lie on the stack, the rest in the heap */
}

/* An attribute that is refused: its value was copied to the heap, and that freed, in every size there is. */
static void stain_heap(void)
{
	static char value[16384];
	size_t bytes;

	memset(value, STAIN, sizeof(value));
	for (bytes = 32; bytes <= sizeof(value); bytes += bytes < 1024 ? 32 : 1024)
		setxattr("/mnt", "user.stain", value, bytes, XATTR_REPLACE);
}

static void stain(void)
{
	unsigned int i;

	for (i = 0; i < 4; i++) {
		stain_heap();
		stain_stack();
	}
}

/* ---- the caller's side: a struct and its arrays, each in painted surroundings ---- */

static struct answer {
	union {
		unsigned char bytes[512];
		struct hugepin_info info;
		struct hugepin_create create;
		struct hugepin_region_info region;
		struct hugepin_pin_range pin;
		struct hugepin_export export;
		struct hugepin_list list;
		struct hugepin_users users;
	};
	unsigned char array[ROOM * sizeof(struct hugepin_list_entry) + SPARE];
	unsigned char extents[ROOM * sizeof(struct hugepin_extent) + SPARE];
	unsigned char shortfall[sizeof(struct hugepin_shortfall) + SPARE];
} answer;

/* A request of @bytes bytes in a buffer that is painted behind it. */
static void begin(size_t bytes)
{
	memset(&answer, PAINT, sizeof(answer));
	memset(answer.bytes, 0, bytes);
	*(uint32_t *)answer.bytes = bytes;
}

static void check_untouched(const char *what, const unsigned char *from, const unsigned char *end)
{
	const unsigned char *p;

	for (p = from; p < end; p++)
		CHECK(*p == PAINT, "%s: byte %zu behind the end was written: %#x", what, (size_t)(p - from), *p);
}

/* Three neighbours that are stains are no chance. */
static void check_clean(const char *what, const unsigned char *from, size_t bytes)
{
	size_t i;

	for (i = 0; i + 3 <= bytes; i++)
		CHECK(from[i] != STAIN || from[i + 1] != STAIN || from[i + 2] != STAIN,
		      "%s: byte %zu was left in the kernel by somebody else", what, i);
}

/* A number that could be an address of the kernel: the upper half, but for small negative ones. */
static bool is_kernel_address(uint64_t word)
{
	return word >= 0xffff800000000000ULL && word < 0xfffffffffffff000ULL;
}

static void check_no_addresses(const char *what, const unsigned char *from, size_t bytes)
{
	uint64_t word;
	size_t i;

	for (i = 0; i + sizeof(word) <= bytes; i += sizeof(word)) {
		memcpy(&word, from + i, sizeof(word));
		CHECK(!is_kernel_address(word) || word == 0x0101010101010101ULL * PAINT,
		      "%s: byte %zu: %#" PRIx64, what, i, word);
	}
}

/* After a call that wrote @bytes of the struct, and so many bytes of each array. */
static void check_answer(const char *what, size_t bytes, size_t array, size_t extents, size_t shortfall)
{
	const struct {
		const unsigned char *start;
		size_t used, size;
	} parts[] = {
		{ answer.bytes, bytes, sizeof(answer.bytes) },
		{ answer.array, array, sizeof(answer.array) },
		{ answer.extents, extents, sizeof(answer.extents) },
		{ answer.shortfall, shortfall, sizeof(answer.shortfall) },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		check_clean(what, parts[i].start, parts[i].size);
		check_no_addresses(what, parts[i].start, parts[i].used);
		check_untouched(what, parts[i].start + parts[i].used, parts[i].start + parts[i].size);
	}
}

/* ---- the calls ---- */

static void info_answers_what_was_asked(const void *arg)
{
	unsigned int count;

	(void)arg;
	begin(sizeof(answer.info));
	answer.info.pages = (uintptr_t)answer.array;
	answer.info.nr_pages = ROOM;
	stain();
	CHECK_OK(ioctl(device_open(), HUGEPIN_IOC_INFO, answer.bytes));
	count = answer.info.nr_pages;
	check_answer("INFO", sizeof(answer.info), count * sizeof(struct hugepin_info_pages), 0, 0);

	begin(sizeof(answer.info));
	answer.info.pages = (uintptr_t)answer.array;
	answer.info.nr_pages = 1;
	CHECK_OK(ioctl(device_open(), HUGEPIN_IOC_INFO, answer.bytes));
	CHECK_EQ(answer.info.nr_pages, count);
	check_answer("INFO of one", sizeof(answer.info), sizeof(struct hugepin_info_pages), 0, 0);
}

static void begin_create(uint64_t bytes)
{
	begin(sizeof(answer.create));
	answer.create.bytes = bytes;
	answer.create.classes = CLASS_2M;
	answer.create.extents = (uintptr_t)answer.extents;
	answer.create.nr_extents = ROOM;
	answer.create.shortfall = (uintptr_t)answer.shortfall;
	stain();
}

static void create_answers_what_was_asked(const void *arg)
{
	struct hugepin_shortfall *shortfall = (void *)answer.shortfall;
	int device = device_open();

	(void)arg;
	begin_create(PAGE_2M);
	CHECK_OK(ioctl(device, HUGEPIN_IOC_CREATE, answer.bytes));
	check_answer("CREATE", sizeof(answer.create), 0, answer.create.nr_extents * sizeof(struct hugepin_extent), 0);

	begin_create((reserve_free_class(HUGEPIN_CLASS_2M) + 1) * PAGE_2M);
	CHECK_ERRNO(ioctl(device, HUGEPIN_IOC_CREATE, answer.bytes), ENOMEM);
	check_answer("a CREATE that is short", sizeof(answer.create), 0, 0, sizeof(*shortfall));
	CHECK_EQ(shortfall->pad, 0);
}

static void region_info_answers_what_was_asked(const void *arg)
{
	static const size_t sizes[] = { 48, 64, sizeof(struct hugepin_region_info), 256 };
	int fd = region_make(2 * PAGE_2M, CLASS_2M);
	unsigned int i;

	(void)arg;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(sizes[i]);
		answer.region.extents = (uintptr_t)answer.extents;
		answer.region.nr_extents = ROOM;
		stain();
		CHECK_OK(ioctl(fd, HUGEPIN_IOC_REGION_INFO, answer.bytes));
		check_answer("REGION_INFO", sizes[i], 0, answer.region.nr_extents * sizeof(struct hugepin_extent), 0);
	}
}

struct pinning {
	int device;
	const char *page;
};

static void refused_pin(const void *arg)
{
	const struct pinning *pinning = arg;
	struct rlimit none = { 0, 0 };

	CHECK_OK(setrlimit(RLIMIT_MEMLOCK, &none));
	begin(sizeof(answer.pin));
	answer.pin.addr = (uintptr_t)pinning->page;
	answer.pin.bytes = PAGE_4K;
	stain();
	CHECK_ERRNO(ioctl(pinning->device, HUGEPIN_IOC_PIN, answer.bytes), EDQUOT);
	check_answer("a PIN over the limit", sizeof(answer.pin), 0, 0, 0);
}

static void pin_and_export_answer_what_was_asked(const void *arg)
{
	char *page = mmap(NULL, PAGE_4K, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pinning pinning = { device_open(), page };
	int pin;

	(void)arg;
	CHECK(page != MAP_FAILED, "%s", strerror(errno));
	begin(sizeof(answer.pin));
	answer.pin.addr = (uintptr_t)page;
	answer.pin.bytes = PAGE_4K;
	stain();
	CHECK_OK(ioctl(pinning.device, HUGEPIN_IOC_PIN, answer.bytes));
	pin = answer.pin.fd;
	check_answer("PIN", sizeof(answer.pin), 0, 0, 0);
	CHECK_EQ(answer.pin.pad, 0);

	begin(sizeof(answer.export));
	stain();
	CHECK_OK(ioctl(pin, HUGEPIN_IOC_EXPORT, answer.bytes));
	check_answer("EXPORT", sizeof(answer.export), 0, 0, 0);
	CHECK_EQ(answer.export.pad, 0);

	as_user(NOBODY, refused_pin, &pinning);
}

static void begin_list(uint32_t entry_size)
{
	begin(sizeof(answer.list));
	answer.list.entries = (uintptr_t)answer.array;
	answer.list.nr_entries = sizeof(answer.array) / entry_size / 2;
	answer.list.entry_size = entry_size;
	answer.list.extents = (uintptr_t)answer.extents;
	answer.list.nr_extents = ROOM;
	stain();
}

static void check_path_is_zero_behind_its_end(const unsigned char *entry)
{
	const struct hugepin_list_entry *e = (const void *)entry;
	size_t i;

	CHECK_EQ(e->pad, 0);
	for (i = strnlen(e->path, sizeof(e->path)); i < sizeof(e->path); i++)
		CHECK(!e->path[i], "byte %zu of a path's rest is %#x", i, e->path[i]);
}

static void list_answers_what_was_asked(const void *arg)
{
	const uint32_t strides[] = { sizeof(struct hugepin_list_entry), sizeof(struct hugepin_list_entry) + 64, 4096 };
	int where = fs_mount(NULL, NULL), device = device_open();
	uint32_t i, k;

	(void)arg;
	region_make(PAGE_2M, CLASS_2M);
	CHECK_OK(region_create_named(where, "a-name-of-some-length", PAGE_2M, 0600));
	CHECK_OK(region_create_named(where, "b", PAGE_2M, 0600));
	for (i = 0; i < ARRAY_SIZE(strides); i++) {
		begin_list(strides[i]);
		CHECK_OK(ioctl(device, HUGEPIN_IOC_LIST, answer.bytes));
		CHECK(answer.list.nr_entries >= 3, "%u regions", answer.list.nr_entries);
		check_answer("LIST", sizeof(answer.list), (size_t)answer.list.nr_entries * strides[i],
			     answer.list.nr_extents * sizeof(struct hugepin_extent), 0);
		for (k = 0; k < answer.list.nr_entries; k++)
			check_path_is_zero_behind_its_end(answer.array + (size_t)k * strides[i]);
	}
}

static void users_answers_what_was_asked(const void *arg)
{
	const uint32_t strides[] = { sizeof(struct hugepin_user_entry), sizeof(struct hugepin_user_entry) + 16, 1024 };
	uint32_t i;

	(void)arg;
	region_make(PAGE_2M, CLASS_2M);
	for (i = 0; i < ARRAY_SIZE(strides); i++) {
		begin(sizeof(answer.users));
		answer.users.entries = (uintptr_t)answer.array;
		answer.users.nr_entries = ROOM / 4;
		answer.users.entry_size = strides[i];
		stain();
		CHECK_OK(ioctl(device_open(), HUGEPIN_IOC_USERS, answer.bytes));
		CHECK(answer.users.nr_entries >= 1, "no user");
		check_answer("USERS", sizeof(answer.users), (size_t)answer.users.nr_entries * strides[i], 0, 0);
	}
}

/* ---- files ---- */

/* "ffff" and twelve more hexadecimal digits, as %px would write an address. */
static void check_text(const char *where, const char *text)
{
	const char *p = text;

	for (; (p = strstr(p, "ffff")); p++)
		CHECK(strspn(p, "0123456789abcdef") < 16 || !is_kernel_address(strtoull(p, NULL, 16)), "%s: %.60s",
		      where, p);
}

static void check_file(const char *path)
{
	static char text[65536];
	ssize_t got;
	int fd = open(path, O_RDONLY | O_NONBLOCK);

	if (fd < 0)		/* a knob that is written only */
		return;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return;
	text[got] = '\0';
	check_text(path, text);
}

/* All files below a folder; how many. */
static unsigned int check_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned int count = 0;
	struct dirent *entry;
	char path[512];

	CHECK(dir, "%s: %s", folder, strerror(errno));
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || (size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >=
		    sizeof(path))
			continue;
		if (entry->d_type == DT_DIR) {
			count += check_folder(path);
		} else if (entry->d_type == DT_REG) {
			check_file(path);
			count++;
		}
	}
	closedir(dir);
	return count;
}

static void check_descriptor(int fd)
{
	char path[64], link[256] = "";

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	check_file(path);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK_OK(readlink(path, link, sizeof(link) - 1));
	check_text(path, link);
}

static void check_log(void)
{
	static char log[1 << 18];
	int bytes = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);
	char *line;

	CHECK(bytes > 0, "no kernel log");
	log[bytes] = '\0';
	for (line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		if (strstr(line, "] hugepin: "))
			check_text("the kernel log", line);
}

static void no_file_shows_an_address_of_the_kernel(const void *arg)
{
	int where = fs_mount(NULL, NULL), device = device_open(), fd, pin, dmabuf;
	char *page;

	(void)arg;
	fd = CHECK_OK(region_create_named(where, "shown", PAGE_2M, 0600));
	page = region_map(fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);
	pin = CHECK_OK(pin_range(device, page, PAGE_4K));
	dmabuf = export_all(fd);
	CHECK(check_folder("/sys/class/misc/hugepin/") >= 8, "no knobs");
	CHECK(check_folder("/sys/module/hugepin/parameters") >= 2, "no parameters");
	check_descriptor(where);
	check_descriptor(device);
	check_descriptor(fd);
	check_descriptor(pin);
	check_descriptor(dmabuf);
	check_file("/proc/self/maps");
	check_file("/proc/self/smaps");
	check_file("/proc/self/numa_maps");
	check_file("/proc/self/mountinfo");
	check_file("/proc/filesystems");
	check_log();
}

#define CASE(f)	{ .name = #f, .run = f, .timeout_s = 120 }

static const struct ktap_case cases[] = {
	CASE(info_answers_what_was_asked),
	CASE(create_answers_what_was_asked),
	CASE(region_info_answers_what_was_asked),
	CASE(pin_and_export_answer_what_was_asked),
	CASE(list_answers_what_was_asked),
	CASE(users_answers_what_was_asked),
	CASE(no_file_shows_an_address_of_the_kernel),
};

int main(int argc, char **argv)
{
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
