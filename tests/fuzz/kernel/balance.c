// SPDX-License-Identifier: MIT
/* Whether the module's pages add up: at any time state by state, and at the end with nothing held and none missing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kmod/uapi/hugepin.h"
#include "balance.h"

static char why[256];

static const char *users_read(int device, struct balance *balance)
{
	struct hugepin_user_entry entries[64];
	struct hugepin_users users = {
		.size = sizeof(users), .entries = (uintptr_t)entries, .nr_entries = COUNT(entries),
		.entry_size = sizeof(entries[0]),
	};

	if (ioctl(device, HUGEPIN_IOC_USERS, &users)) {
		snprintf(why, sizeof(why), "USERS: %s", strerror(errno));
		return why;
	}
	balance->users = users.nr_entries;
	return NULL;
}

static const char *pages_read(int device, struct balance *balance)
{
	struct hugepin_info_pages pages[32];
	struct hugepin_info info = { .size = sizeof(info), .pages = (uintptr_t)pages, .nr_pages = COUNT(pages) };
	unsigned int i;

	if (ioctl(device, HUGEPIN_IOC_INFO, &info)) {
		snprintf(why, sizeof(why), "INFO: %s", strerror(errno));
		return why;
	}
	balance->regions = info.regions;
	for (i = 0; i < info.nr_pages && i < COUNT(pages); i++) {
		const struct hugepin_info_pages *p = &pages[i];
		uint64_t sum = p->clean + p->dirty + p->in_use + p->quarantined + p->poisoned;
		uint64_t weight = p->class == HUGEPIN_CLASS_1G ? PAGES_2M_OF_1G : 1;

		if (sum != p->total) {
			snprintf(why, sizeof(why), "node %u class %u: total %llu, the states add up to %llu", p->node,
				 p->class, p->total, (unsigned long long)sum);
			return why;
		}
		balance->total += weight * p->total;
		balance->free += weight * (p->clean + p->dirty);
		balance->in_use += weight * p->in_use;
		balance->quarantined += weight * p->quarantined;
		balance->poisoned += weight * p->poisoned;
	}
	return NULL;
}

const char *balance_read(struct balance *balance)
{
	int device = open(HUGEPIN_DEVICE, O_RDONLY | O_CLOEXEC);
	const char *wrong;

	memset(balance, 0, sizeof(*balance));
	if (device < 0) {
		snprintf(why, sizeof(why), HUGEPIN_DEVICE ": %s", strerror(errno));
		return why;
	}
	wrong = pages_read(device, balance);
	if (!wrong)
		wrong = users_read(device, balance);
	close(device);
	return wrong;
}

const char *balance_settles(const struct balance *before, unsigned int seconds)
{
	unsigned int tries = 10 * seconds;
	struct balance b;
	const char *wrong;

	for (;; usleep(100000)) {
		wrong = balance_read(&b);
		if (wrong)
			return wrong;
		if (!b.in_use && !b.quarantined && !b.regions && !b.users &&
		    b.total - b.poisoned == before->total - before->poisoned)
			return NULL;
		if (!tries--)
			break;
	}
	snprintf(why, sizeof(why),
		 "pages of 2M: %llu of %llu, in use %llu, quarantined %llu; regions %llu, users that hold something %llu",
		 (unsigned long long)b.total, (unsigned long long)before->total, (unsigned long long)b.in_use,
		 (unsigned long long)b.quarantined, (unsigned long long)b.regions, (unsigned long long)b.users);
	return why;
}
