// SPDX-License-Identifier: MIT
/*
 * Every number of every call takes every edge value: sizes that wrap, counts that multiply beyond 64 bits, signs,
 * addresses of the kernel. Whatever the answer is, the reserve is as before and no byte outside the caller's buffers
 * has changed.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "pinned.h"
#include "region.h"
#include "reserve.h"

#define FENCE		0xb3
#define FENCE_BYTES	4096

/*
 * Buffers that the calls may write, with a fence behind each. A caller may lie about their length: no more is written
 * than there is to tell, and there are fewer regions, users and nodes here than entries.
 */
static struct {
	struct hugepin_info_pages pages[8];
	unsigned char fence_1[FENCE_BYTES];
	struct hugepin_extent extents[8];
	unsigned char fence_2[FENCE_BYTES];
	unsigned char entries[8][4096];
	unsigned char fence_3[FENCE_BYTES];
	unsigned char users[8][4096];
	unsigned char fence_4[FENCE_BYTES];
	struct hugepin_shortfall shortfall;
	unsigned char fence_5[FENCE_BYTES];
	uint64_t mask[HUGEPIN_NODES_MAX / 64];
} room;

static int device, directory, region, pin;
static char *memory;

enum target { DEVICE, DIRECTORY, REGION, PIN };

struct field {
	const char *name;
	size_t at, bytes;
};

/* A good call, and its numbers. */
struct call {
	const char *name;
	unsigned int number;
	enum target target;
	void (*prepare)(void *args);
	int (*made)(const void *args);	/* the descriptor that a success made, or -1 */
	struct field fields[12];
};

#define FIELD(type, member)	{ #member, offsetof(struct type, member), sizeof(((struct type *)0)->member) }

static void good_info(void *args)
{
	*(struct hugepin_info *)args = (struct hugepin_info){
		.size = sizeof(struct hugepin_info), .pages = (uintptr_t)room.pages, .nr_pages = ARRAY_SIZE(room.pages),
	};
}

static void good_create(void *args)
{
	struct hugepin_create *create = args;

	*create = create_args(PAGE_2M, CLASS_2M);
	memset(room.mask, 0, sizeof(room.mask));
	room.mask[0] = 1;
	create->nodemask = (uintptr_t)room.mask;
	create->nodemask_bits = 1;
	create->extents = (uintptr_t)room.extents;
	create->nr_extents = ARRAY_SIZE(room.extents);
	create->shortfall = (uintptr_t)&room.shortfall;
}

static void good_region_info(void *args)
{
	*(struct hugepin_region_info *)args = (struct hugepin_region_info){
		.size = sizeof(struct hugepin_region_info), .extents = (uintptr_t)room.extents,
		.nr_extents = ARRAY_SIZE(room.extents),
	};
}

static void good_pin(void *args)
{
	*(struct hugepin_pin_range *)args = (struct hugepin_pin_range){
		.size = sizeof(struct hugepin_pin_range), .addr = (uintptr_t)memory, .bytes = PAGE_4K,
	};
}

static void good_export(void *args)
{
	*(struct hugepin_export *)args = (struct hugepin_export){
		.size = sizeof(struct hugepin_export), .bytes = PAGE_2M,
	};
}

static void good_list(void *args)
{
	*(struct hugepin_list *)args = (struct hugepin_list){
		.size = sizeof(struct hugepin_list), .entries = (uintptr_t)room.entries,
		.nr_entries = ARRAY_SIZE(room.entries), .entry_size = sizeof(struct hugepin_list_entry),
		.extents = (uintptr_t)room.extents, .nr_extents = ARRAY_SIZE(room.extents),
	};
}

static void good_users(void *args)
{
	*(struct hugepin_users *)args = (struct hugepin_users){
		.size = sizeof(struct hugepin_users), .entries = (uintptr_t)room.users,
		.nr_entries = ARRAY_SIZE(room.users), .entry_size = sizeof(struct hugepin_user_entry),
	};
}

static int none_made(const void *args)
{
	(void)args;
	return -1;
}

static int create_made(const void *args)
{
	return ((const struct hugepin_create *)args)->fd;
}

static int pin_made(const void *args)
{
	return ((const struct hugepin_pin_range *)args)->fd;
}

static int export_made(const void *args)
{
	return ((const struct hugepin_export *)args)->fd;
}

#define CALL(n, t, good, what_made)	\
	.name = #n, .number = HUGEPIN_IOC_##n, .target = t, .prepare = good, .made = what_made

static const struct call calls[] = {
	{ CALL(INFO, DEVICE, good_info, none_made), .fields = {
		FIELD(hugepin_info, size), FIELD(hugepin_info, flags), FIELD(hugepin_info, pages),
		FIELD(hugepin_info, nr_pages), FIELD(hugepin_info, pad) } },
	{ CALL(CREATE, DEVICE, good_create, create_made), .fields = {
		FIELD(hugepin_create, size), FIELD(hugepin_create, flags), FIELD(hugepin_create, bytes),
		FIELD(hugepin_create, classes), FIELD(hugepin_create, policy), FIELD(hugepin_create, nodemask),
		FIELD(hugepin_create, nodemask_bits), FIELD(hugepin_create, mode), FIELD(hugepin_create, name),
		FIELD(hugepin_create, extents), FIELD(hugepin_create, nr_extents),
		FIELD(hugepin_create, shortfall) } },
	{ CALL(CREATE, DIRECTORY, good_create, create_made), .fields = {
		FIELD(hugepin_create, bytes), FIELD(hugepin_create, mode), FIELD(hugepin_create, name) } },
	{ CALL(REGION_INFO, REGION, good_region_info, none_made), .fields = {
		FIELD(hugepin_region_info, size), FIELD(hugepin_region_info, flags),
		FIELD(hugepin_region_info, extents), FIELD(hugepin_region_info, nr_extents) } },
	{ CALL(PIN, DEVICE, good_pin, pin_made), .fields = {
		FIELD(hugepin_pin_range, size), FIELD(hugepin_pin_range, flags), FIELD(hugepin_pin_range, addr),
		FIELD(hugepin_pin_range, bytes), FIELD(hugepin_pin_range, pad) } },
	{ CALL(EXPORT, REGION, good_export, export_made), .fields = {
		FIELD(hugepin_export, size), FIELD(hugepin_export, flags), FIELD(hugepin_export, offset),
		FIELD(hugepin_export, bytes), FIELD(hugepin_export, pad) } },
	{ CALL(EXPORT, PIN, good_export, export_made), .fields = {
		FIELD(hugepin_export, offset), FIELD(hugepin_export, bytes) } },
	{ CALL(LIST, DEVICE, good_list, none_made), .fields = {
		FIELD(hugepin_list, size), FIELD(hugepin_list, flags), FIELD(hugepin_list, cursor),
		FIELD(hugepin_list, entries), FIELD(hugepin_list, nr_entries), FIELD(hugepin_list, entry_size),
		FIELD(hugepin_list, extents), FIELD(hugepin_list, nr_extents), FIELD(hugepin_list, pad) } },
	{ CALL(USERS, DEVICE, good_users, none_made), .fields = {
		FIELD(hugepin_users, size), FIELD(hugepin_users, flags), FIELD(hugepin_users, cursor),
		FIELD(hugepin_users, entries), FIELD(hugepin_users, nr_entries),
		FIELD(hugepin_users, entry_size) } },
};

/* ---- values ---- */

static const uint64_t bases[] = {
	0, PAGE_4K, 1ULL << 16, PAGE_2M, PAGE_1G, 1ULL << 31, 1ULL << 32, 1ULL << 44, 1ULL << 47, 1ULL << 52,
	1ULL << 62, 1ULL << 63, 0x7fffffffffffffffULL, 0xffff800000000000ULL, 0xffffffff80000000ULL, 0xffffffffffe00000ULL,
	0xfffffffffffff000ULL,
};
static const int64_t steps[] = { -(int64_t)PAGE_2M, -(int64_t)PAGE_4K, -8, -1, 0, 1, 7, 8, 4096 };

static void put(void *args, const struct field *field, uint64_t value)
{
	memcpy((char *)args + field->at, &value, field->bytes);
}

static int target_of(enum target target)
{
	return target == DEVICE ? device : target == DIRECTORY ? directory : target == REGION ? region : pin;
}

static bool fence_stands(const unsigned char *fence)
{
	unsigned int i;

	for (i = 0; i < FENCE_BYTES; i++)
		if (fence[i] != FENCE)
			return false;
	return true;
}

static bool fences_stand(void)
{
	return fence_stands(room.fence_1) && fence_stands(room.fence_2) && fence_stands(room.fence_3) &&
	       fence_stands(room.fence_4) && fence_stands(room.fence_5);
}

static void set_fences(void)
{
	memset(room.fence_1, FENCE, FENCE_BYTES);
	memset(room.fence_2, FENCE, FENCE_BYTES);
	memset(room.fence_3, FENCE, FENCE_BYTES);
	memset(room.fence_4, FENCE, FENCE_BYTES);
	memset(room.fence_5, FENCE, FENCE_BYTES);
}

/* One call; whether it succeeded. What is behind the args must stay, which begin with what they really are. */
static bool try_value(const struct call *call, const struct field *field, uint64_t value)
{
	struct {
		union {
			uint64_t align;
			unsigned char args[256];
		};
		unsigned char fence[FENCE_BYTES];
	} own;
	int fd;

	memset(own.args, 0, sizeof(own.args));
	memset(own.fence, FENCE, sizeof(own.fence));
	call->prepare(own.args);
	put(own.args, field, value);
	if (ioctl(target_of(call->target), call->number, own.args)) {
		CHECK(errno != EIO && errno != ENOSYS, "%s, %s=%#" PRIx64 ": %s", call->name, field->name, value,
		      strerror(errno));
		return false;
	}
	fd = call->made(own.args);
	if (fd >= 0)
		close(fd);
	CHECK(fence_stands(own.fence), "%s, %s=%#" PRIx64 ": written behind the struct", call->name, field->name,
	      value);
	return true;
}

static unsigned int try_field(const struct call *call, const struct field *field)
{
	unsigned int i, k, good = 0;

	for (i = 0; i < ARRAY_SIZE(bases); i++)
		for (k = 0; k < ARRAY_SIZE(steps); k++) {
			uint64_t value = bases[i] + steps[k];

			good += try_value(call, field, value);
			CHECK(fences_stand(), "%s, %s=%#" PRIx64 ": written outside the buffers", call->name,
			      field->name, value);
		}
	return good;
}

static void every_number_takes_every_value(const void *arg)
{
	const struct call *call = arg;
	unsigned int f, tried = 0, good = 0;
	struct reserve before;

	device = device_open();
	directory = fs_mount(NULL, NULL);
	region = region_make(2 * PAGE_2M, CLASS_2M);
	memory = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED, "%s", strerror(errno));
	pin = CHECK_OK(pin_range(device, memory, PAGE_2M));
	set_fences();
	reserve_read(&before);
	for (f = 0; f < ARRAY_SIZE(call->fields) && call->fields[f].name; f++) {
		good += try_field(call, &call->fields[f]);
		tried += ARRAY_SIZE(bases) * ARRAY_SIZE(steps);
	}
	reserve_check_same(&before, call->name);
	CHECK(good, "no call succeeded: the good one is not good");
	ktap_note("%s: %u calls, %u of them answered", call->name, tried, good);
}

static struct ktap_case cases[ARRAY_SIZE(calls)];

int main(int argc, char **argv)
{
	static const char *const on[] = { "device", "directory", "region", "pinned range" };
	static char variants[ARRAY_SIZE(calls)][64];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		snprintf(variants[i], sizeof(variants[i]), "%s on the %s", calls[i].name, on[calls[i].target]);
		cases[i] = (struct ktap_case){
			.name = "every_number_takes_every_value", .run = every_number_takes_every_value,
			.arg = &calls[i], .variant = variants[i], .timeout_s = 180,
		};
	}
	return ktap_main(argc, argv, cases, ARRAY_SIZE(cases), &reserve_hooks);
}
