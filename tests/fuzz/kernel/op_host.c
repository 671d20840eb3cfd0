// SPDX-License-Identifier: MIT
/* What root and devices do: the knobs, the stand-in driver that pins pages and imports dma-bufs, faulty memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/kselftest/module/uapi.h"
#include "world.h"

#define SYSFS	"/sys/class/misc/hugepin"

static long write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	long result;

	if (fd < 0)
		return -errno;
	result = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return result;
}

static void number_text(struct world *w, char *text, size_t room, unsigned int most)
{
	static const char *const odd[] = { "", "-1", " 1", "0x1", "1 2", "18446744073709551616", "a", "1\n\n", "\n" };

	if (chance(w, 90))
		snprintf(text, room, "%u\n", (unsigned int)below(w, most + 1));
	else if (chance(w, 70))
		snprintf(text, room, "%s", ONE_OF(w, odd));
	else
		snprintf(text, room, "%llu", (unsigned long long)odd_number(w));
}

/* The reserve goes up and down under everybody; what the run began with is asked for again in between. */
static long write_knob(struct world *w)
{
	static const struct {
		const char *file;
		unsigned int most;
	} scrub[] = { { "enabled", 1 }, { "throttle_mib_s", 2000 }, { "workers", 16 } };
	unsigned int node = below(w, 2), i;
	char path[128], text[32];

	if (!w->knobs)
		return -EAGAIN;
	switch (below(w, 4)) {
	case 0:
		snprintf(path, sizeof(path), SYSFS "/node%u/hugepages-2048kB/nr_hugepages", node);
		number_text(w, text, sizeof(text), 40);
		break;
	case 1:
		snprintf(path, sizeof(path), SYSFS "/node%u/hugepages-%dkB/user_limit_percent", node,
			 chance(w, 80) ? 2048 : 1048576);
		number_text(w, text, sizeof(text), 100);
		break;
	case 2:
		snprintf(path, sizeof(path), SYSFS "/node%u/hugepages-1048576kB/nr_hugepages", node);
		number_text(w, text, sizeof(text), chance(w, 95) ? 1 : 100);
		break;
	default:
		i = below(w, COUNT(scrub));
		snprintf(path, sizeof(path), SYSFS "/scrub/%s", scrub[i].file);
		number_text(w, text, sizeof(text), scrub[i].most);
	}
	return write_text(path, text);
}

static long read_knob(struct world *w)
{
	static const char *const files[] = {
		"regions", "class_1g", "uapi_version", "scrub/rate_mib_s", "scrub/creations_waited", "scrub/enabled",
		"scrub/throttle_mib_s", "scrub/workers", "scrub/busy_ms", "scrub/done_mib", "scrub/creations",
		"scrub/creations_zeroed",
		"node0/hugepages-2048kB/free_hugepages", "node1/hugepages-2048kB/clean_hugepages",
		"node0/hugepages-2048kB/dirty_hugepages", "node1/hugepages-2048kB/quarantined_hugepages",
		"node0/hugepages-2048kB/shortfall_reason", "node0/hugepages-2048kB/asked_hugepages",
		"node1/hugepages-2048kB/inuse_hugepages", "node1/hugepages-2048kB/poisoned_hugepages",
		"node0/hugepages-2048kB/user_limit_percent", "node0/hugepages-2048kB/nr_hugepages",
	};
	char path[128], text[128];
	long result;
	int fd;

	snprintf(path, sizeof(path), SYSFS "/%s", ONE_OF(w, files));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	result = read(fd, text, sizeof(text)) < 0 ? -errno : 0;
	close(fd);
	return result;
}

static long open_driver(struct world *w)
{
	return keep_fd(w, open(HUGEPIN_TEST_DEVICE, O_RDWR | O_CLOEXEC), TEST);
}

static long device_pin(struct world *w)
{
	struct area *area = some_area(w);
	struct hugepin_test_pin args = { .size = sizeof(args), .flags = below(w, 4) };

	if (!area)
		return -EINVAL;
	args.addr = (uintptr_t)area->start;
	args.bytes = area->bytes < 2 * PAGE_2M ? area->bytes : 2 * PAGE_2M;
	return ioctl(some_fd(w, TEST), HUGEPIN_TEST_IOC_PIN, &args) ? -errno : 0;
}

static long device_import(struct world *w)
{
	struct hugepin_test_import args = {
		.size = sizeof(args), .fd = some_fd(w, DMABUF), .max_segment = chance(w, 50) ? 0 : PAGE_2M << below(w, 8),
	};

	return ioctl(some_fd(w, TEST), HUGEPIN_TEST_IOC_IMPORT, &args) ? -errno : 0;
}

static long device_io(struct world *w)
{
	static char bytes[8192];
	struct hugepin_test_io args = {
		.size = sizeof(args), .offset = chance(w, 80) ? below(w, PAGE_2M) : some_bytes(w),
		.buffer = (uintptr_t)bytes, .bytes = 1 + below(w, sizeof(bytes)),
	};
	bool write = chance(w, 50);

	memset(bytes, PATTERN, sizeof(bytes));
	return ioctl(some_fd(w, TEST), write ? HUGEPIN_TEST_IOC_WRITE : HUGEPIN_TEST_IOC_READ, &args) ? -errno : 0;
}

static long device_let_go(struct world *w)
{
	return ioctl(some_fd(w, TEST), chance(w, 50) ? HUGEPIN_TEST_IOC_UNPIN : HUGEPIN_TEST_IOC_UNMAP) ? -errno : 0;
}

/* Costs a page for good, so that only a few are reported in a run. */
static long report_faulty(struct world *w)
{
	struct area *area = some_area(w);
	struct hugepin_test_poison args = { .size = sizeof(args), .flags = HUGEPIN_TEST_POISON_FIND };
	int driver = some_fd(w, TEST);

	if (!area || add(&w->shared->poisoned, 1) > w->shared->poison_max)
		return -EAGAIN;
	args.addr = (uintptr_t)area->start;
	if (ioctl(driver, HUGEPIN_TEST_IOC_POISON, &args))
		return -errno;
	args.flags = 0;
	return ioctl(driver, HUGEPIN_TEST_IOC_POISON, &args) ? -errno : 0;
}

const struct op host_ops[] = {
	{ "write_knob", 3, write_knob }, { "read_knob", 10, read_knob }, { "open_driver", 15, open_driver },
	{ "device_pin", 20, device_pin }, { "device_import", 20, device_import }, { "device_io", 20, device_io },
	{ "device_let_go", 20, device_let_go }, { "report_faulty", 1, report_faulty }, { NULL, 0, NULL },
};
