// SPDX-License-Identifier: MIT
/* hugepin's own calls, with structs that are mostly as they should be, each then spoilt somewhere now and then. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kmod/uapi/hugepin.h"
#include "world.h"

/* One member, one bit or the size: the struct has room behind it for a longer one. */
static void spoil(struct world *w, void *args, size_t bytes)
{
	uint32_t *words = args;

	if (!chance(w, 8))
		return;
	if (chance(w, 30))
		words[0] = chance(w, 50) ? bytes + 8 * below(w, 8) : odd_number(w);
	else if (chance(w, 50))
		words[below(w, bytes / 4)] ^= 1U << below(w, 32);
	else
		words[below(w, bytes / 4)] = odd_number(w);
}

static long call(int fd, unsigned long request, void *args)
{
	int answer = ioctl(fd, request, args);

	return answer < 0 ? -errno : answer;
}

static long device(struct world *w)
{
	static const int modes[] = { O_RDWR, O_RDWR, O_RDWR, O_RDONLY, O_WRONLY, O_PATH };

	return keep_fd(w, open(HUGEPIN_DEVICE, ONE_OF(w, modes) | O_CLOEXEC), DEVICE);
}

static long create(struct world *w)
{
	struct {
		struct hugepin_create args;
		uint64_t more[8];
	} in = { 0 };
	struct hugepin_extent extents[4];
	struct hugepin_shortfall shortfall;
	static uint64_t mask[16];
	bool on_directory = chance(w, 60);
	int fd = some_fd(w, on_directory ? DIRECTORY : DEVICE);
	bool look = chance(w, 20);
	long answer;
	void *start;

	mask[0] = 1 + below(w, 3);
	mask[15] = chance(w, 2);
	in.args = (struct hugepin_create){
		.size = sizeof(in.args),
		.flags = chance(w, 30) ? HUGEPIN_CREATE_FALLBACK : 0,
		.bytes = chance(w, 1) ? PAGE_1G + some_bytes(w) : some_bytes(w),
		.classes = chance(w, 70) ? 1 : 1 + below(w, 3),
		.policy = below(w, 3),
		.mode = chance(w, 50) ? 0 : below(w, 01000),
		.name = on_directory && chance(w, 60) ? (uintptr_t)some_name(w) : 0,
		.extents = chance(w, 30) ? (uintptr_t)extents : 0,
		.nr_extents = below(w, COUNT(extents) + 1),
		.shortfall = chance(w, 80) ? (uintptr_t)&shortfall : 0,
	};
	if (chance(w, 40)) {
		in.args.nodemask = (uintptr_t)mask;
		in.args.nodemask_bits = chance(w, 80) ? 2 : odd_number(w);
	}
	/* a wrong one of these would be written over the fuzzer's own memory */
	spoil(w, &in, offsetof(struct hugepin_create, name));
	if (chance(w, 1))
		in.args.extents = (uintptr_t)some_address(w);
	answer = call(fd, HUGEPIN_IOC_CREATE, &in);
	if (answer)
		return answer;
	if (look) {
		uint64_t bytes = in.args.bytes < 4 * PAGE_2M ? in.args.bytes : 4 * PAGE_2M;

		start = mmap(NULL, bytes, PROT_READ, MAP_SHARED, in.args.fd, 0);
		if (start != MAP_FAILED) {
			/* a named one may have been mapped by others by now */
			if (!in.args.name)
				look_for_foreign(w, start, bytes);
			munmap(start, bytes);
		}
	}
	return keep_fd(w, in.args.fd, REGION);
}

static long info(struct world *w)
{
	struct hugepin_info_pages pages[8];
	struct {
		struct hugepin_info args;
		uint64_t more[8];
	} in = { 0 };

	in.args = (struct hugepin_info){
		.size = sizeof(in.args), .pages = chance(w, 60) ? (uintptr_t)pages : 0,
		.nr_pages = below(w, COUNT(pages) + 1),
	};
	spoil(w, &in, offsetof(struct hugepin_info, pages));
	return call(some_fd(w, chance(w, 80) ? DEVICE : DIRECTORY), HUGEPIN_IOC_INFO, &in);
}

static long region_info(struct world *w)
{
	struct hugepin_extent extents[4];
	struct {
		struct hugepin_region_info args;
		uint64_t more[8];
	} in = { 0 };

	in.args = (struct hugepin_region_info){
		.size = chance(w, 80) ? sizeof(in.args) : 48,
		.extents = chance(w, 60) ? (uintptr_t)extents : 0,
		.nr_extents = below(w, COUNT(extents) + 1),
	};
	spoil(w, &in, offsetof(struct hugepin_region_info, extents));
	return call(some_fd(w, REGION), HUGEPIN_IOC_REGION_INFO, &in);
}

static long list(struct world *w)
{
	static char entries[16 * (sizeof(struct hugepin_list_entry) + 64)];
	struct hugepin_extent extents[16];
	struct hugepin_list args = {
		.size = sizeof(args), .cursor = chance(w, 70) ? 0 : below(w, 100000), .entries = (uintptr_t)entries,
		.nr_entries = chance(w, 98) ? 1 + below(w, 16) : 0,
		.entry_size = sizeof(struct hugepin_list_entry) + (chance(w, 80) ? 0 : 8 * below(w, 9)),
		.extents = chance(w, 50) ? (uintptr_t)extents : 0,
		.nr_extents = below(w, COUNT(extents) + 1),
	};

	if (chance(w, 3))
		args.entries = (uintptr_t)some_address(w);
	if (chance(w, 3))
		args.entry_size = below(w, sizeof(struct hugepin_list_entry));
	if (chance(w, 3))
		args.flags = args.pad = below(w, 2);
	return call(some_fd(w, chance(w, 50) ? DEVICE : DIRECTORY), HUGEPIN_IOC_LIST, &args);
}

static long users(struct world *w)
{
	struct hugepin_user_entry entries[8];
	struct hugepin_users args = {
		.size = sizeof(args), .flags = chance(w, 2), .cursor = chance(w, 70) ? 0 : random_word(w) >> 40,
		.entries = (uintptr_t)entries, .nr_entries = chance(w, 98) ? 1 + below(w, COUNT(entries)) : 0,
		.entry_size = chance(w, 95) ? sizeof(entries[0]) : below(w, sizeof(entries[0])),
	};

	return call(some_fd(w, DEVICE), HUGEPIN_IOC_USERS, &args);
}

static long pin(struct world *w)
{
	struct area *area = some_area(w);
	struct {
		struct hugepin_pin_range args;
		uint64_t more[8];
	} in = { 0 };
	long answer;

	in.args = (struct hugepin_pin_range){
		.size = sizeof(in.args),
		.addr = (uintptr_t)some_address(w),
		.bytes = PAGE_4K << below(w, 11),
	};
	if (area && chance(w, 90)) {
		in.args.addr = (uintptr_t)area->start;
		in.args.bytes = within(area, in.args.bytes);
	}
	if (chance(w, 3))
		in.args.addr++;
	if (in_window((char *)in.args.addr) && chance(w, 3))
		in.args.bytes = odd_number(w);
	spoil(w, &in, offsetof(struct hugepin_pin_range, addr));
	answer = call(some_fd(w, DEVICE), HUGEPIN_IOC_PIN, &in);
	return answer ? answer : keep_fd(w, in.args.fd, PIN);
}

static long export(struct world *w)
{
	struct {
		struct hugepin_export args;
		uint64_t more[8];
	} in = { 0 };
	long answer;

	in.args = (struct hugepin_export){
		.size = sizeof(in.args),
		.offset = chance(w, 70) ? 0 : some_bytes(w), .bytes = chance(w, 60) ? 0 : some_bytes(w),
	};
	spoil(w, &in, sizeof(in.args));
	answer = call(some_fd(w, chance(w, 75) ? REGION : PIN), HUGEPIN_IOC_EXPORT, &in);
	return answer ? answer : keep_fd(w, in.args.fd, DMABUF);
}

/* Any of the numbers, on anything, with a struct that is not for it. */
static long any_call(struct world *w)
{
	static uint64_t args[512];
	unsigned int number = 0x7e + below(w, 12);
	unsigned int i;

	/* short enough that what it points to is zero: nothing of ours is written to */
	memset(args, 0, sizeof(args));
	args[0] = (uint32_t)(chance(w, 80) ? 32 + 8 * below(w, 16) : odd_number(w));	/* and no flags */
	for (i = 1; i < 3 && chance(w, 50); i++)
		args[i] = odd_number(w);
	return call(some_fd(w, below(w, KINDS)), _IO(HUGEPIN_IOC_TYPE, number),
		    chance(w, 90) ? args : (void *)some_address(w));
}

const struct op region_ops[] = {
	{ "open_device", 30, device }, { "CREATE", 100, create }, { "INFO", 60, info }, { "REGION_INFO", 80, region_info },
	{ "LIST", 30, list }, { "USERS", 30, users }, { "PIN", 50, pin }, { "EXPORT", 70, export },
	{ "any_call", 10, any_call }, { NULL, 0, NULL },
};
