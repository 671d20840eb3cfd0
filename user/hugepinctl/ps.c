// SPDX-License-Identifier: MIT
/* hugepinctl ps: who holds what, and which names nobody uses any more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ps.h"

/* ---- collecting ---- */

/* Room for one more in an array that doubles. */
static void *grow(void *array, size_t count, size_t entry)
{
	return count & (count - 1) ? array : reallocarray(array, count ? count * 2 : 1, entry);
}

static int take_region(const struct hugepin_listed_region *info, void *arg)
{
	struct ps_region *region, *more;
	struct ps *ps = arg;

	more = grow(ps->regions, ps->nr_regions, sizeof(*more));
	if (!more)
		return -ENOMEM;
	ps->regions = more;
	region = &ps->regions[ps->nr_regions];
	*region = (struct ps_region){ .info = *info };
	region->extents = malloc((info->nr_extents + 1) * sizeof(*region->extents));
	region->path = info->path ? strdup(info->path) : NULL;
	ps->nr_regions++;
	if (!region->extents || (info->path && !region->path))
		return -ENOMEM;
	if (info->nr_extents)
		memcpy(region->extents, info->extents, info->nr_extents * sizeof(*region->extents));
	return 0;
}

static int take_user(const struct hugepin_listed_user *info, void *arg)
{
	struct hugepin_listed_user *more;
	struct ps *ps = arg;

	more = grow(ps->users, ps->nr_users, sizeof(*more));
	if (!more)
		return -ENOMEM;
	ps->users = more;
	ps->users[ps->nr_users++] = *info;
	return 0;
}

void ps_free(struct ps *ps)
{
	for (size_t i = 0; i < ps->nr_regions; i++) {
		free(ps->regions[i].path);
		free(ps->regions[i].extents);
	}
	free(ps->regions);
	free(ps->users);
	free(ps->holders);
	*ps = (struct ps){ 0 };
}

static int explain(int err, struct message *why)
{
	if (err == -ENOMEM)
		return message_set(why, err, "no memory for the list of regions");
	if (err == -ENODEV)
		return message_set(why, err, "hugepin module is not loaded: modprobe hugepin");
	return message_set(why, err, "%s", hugepin_error());
}

int ps_collect(struct hugepin_context *ctx, bool processes, struct ps *ps, struct message *why)
{
	int err = hugepin_region_visit(ctx, take_region, ps);

	if (err)
		return explain(err, why);
	/* A mount in a container tells its regions, not the users of the host. */
	err = hugepin_user_visit(ctx, take_user, ps);
	ps->users_known = !err;
	if (err == -ENOMEM)
		return explain(err, why);
	err = processes ? holders_find(ps) : 0;
	return err ? message_set(why, err, "the processes cannot be looked at: %s", strerror(-err)) : 0;
}

static int show(bool json, bool forgotten)
{
	struct ps ps = { 0 };
	struct hugepin_context *ctx;
	struct message why;
	int err = session_open(&ctx, &why);

	if (!err) {
		err = ps_collect(ctx, true, &ps, &why);
		hugepin_context_destroy(ctx);
	}
	if (err) {
		complain("%s", why.text);
	} else {
		err = json ? ps_print_json(&ps, forgotten) : ps_print(&ps, forgotten);
		if (err)
			complain("no memory for the output");
	}
	ps_free(&ps);
	return flush_output(status_of(err));
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	(void)words, (void)nr_words;
	return show(option_given(line, 'j'), option_given(line, 'f'));
}

const struct command command_ps = {
	.name = "ps",
	.arguments = "[--json] [--forgotten]",
	.summary = "show who holds what: regions, users, processes",
	.options = {
		{ 'j', "json", NULL, "machine-readable: regions, users, and the processes of each region" },
		{ 'f', "forgotten", NULL, "only regions whose name nobody uses" },
	},
	.help = "A region is forgotten when it has a name and nothing else: no open file, no mapping, no device that\n"
		"holds its pages. Removing the name gives its memory back.\n"
		"Processes of others are seen by root only; how many were not is told.\n",
	.run = run,
};
