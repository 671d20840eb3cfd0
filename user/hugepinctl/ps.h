/* SPDX-License-Identifier: MIT */
/* What ps knows: regions, users, and the processes that hold regions. */
#ifndef HUGEPINCTL_PS_H
#define HUGEPINCTL_PS_H

#include "host.h"

struct ps_region {
	struct hugepin_listed_region info;	/* its strings and arrays are ours */
	char *path;
	struct hugepin_extent_info *extents;
};
struct holder {				/* one process and one region */
	size_t region;			/* index */
	int pid;
	unsigned int uid;
	char comm[16];
	unsigned int descriptors;
	uint64_t mapped_bytes;
};
struct ps {
	struct ps_region *regions;	/* by id */
	size_t nr_regions;
	struct hugepin_listed_user *users;
	size_t nr_users;
	struct holder *holders;		/* by region, then by process */
	size_t nr_holders;
	unsigned int unseen;		/* processes that could not be looked into */
	bool users_known;
};

/* Somebody made it, gave it a name and left it. */
static inline bool ps_is_forgotten(const struct ps_region *region)
{
	return region->path && !region->info.opens && !region->info.mappings && !region->info.held_bytes;
}

/* ---- ps.c ---- */

/* @processes: look for holders, too, which takes a look at every process. @ps is empty at first, ended by ps_free(). */
int ps_collect(struct hugepin_context *ctx, bool processes, struct ps *ps, struct message *why);
void ps_free(struct ps *ps);

/* ---- holders.c ---- */

/*
 * Fills ps->holders and ps->unseen for ps->regions, from the descriptors and mappings of all processes: 0 or -ENOMEM.
 */
int holders_find(struct ps *ps);

/* ---- ps_text.c ---- */

int ps_print_regions(const struct ps *ps, bool forgotten, bool colour, FILE *out);
int ps_print(const struct ps *ps, bool forgotten);
int ps_print_json(const struct ps *ps, bool forgotten);

#endif /* HUGEPINCTL_PS_H */
