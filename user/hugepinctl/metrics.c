// SPDX-License-Identifier: MIT
/*
 * hugepinctl metrics: what the module holds, as metrics for Prometheus; on standard output, or in a file that the
 * textfile collector of node_exporter reads.
 */
#include <errno.h>
#include <inttypes.h>

#include "host.h"
#include "samples.h"

enum {
	UP,
	BUILD_INFO,
	RESERVE,
	ASKED,
	PRESENT,
	LIMIT,
	REGIONS,
	REGION_BYTES,
	FORGOTTEN,
	FORGOTTEN_BYTES,
	HELD_BYTES,
	USER_HELD,
	USER_QUARANTINED,
	USER_PINNED
};

static const struct family families[] = {
	[UP] = { "hugepin_up", "Whether the hugepin module is loaded and answers.", { NULL } },
	[BUILD_INFO] = { "hugepin_build_info", "Version of the library that read the rest; always 1.", { "version" } },
	[RESERVE] = { "hugepin_reserve_bytes",
		      "Memory held by the module, by state; the states add up to all of it.",
		      { "node", "page_size", "state" } },
	[ASKED] = { "hugepin_reserve_asked_bytes", "Memory that was last asked for.", { "node", "page_size" } },
	[PRESENT] = { "hugepin_page_size_present",
		      "Whether the module has pages of that size on this kernel.",
		      { "page_size" } },
	[LIMIT] = { "hugepin_user_limit_ratio",
		    "Share of the reserve that one user may hold.",
		    { "node", "page_size" } },
	[REGIONS] = { "hugepin_regions", "Regions alive, with or without a name.", { NULL } },
	[REGION_BYTES] = { "hugepin_region_bytes", "Memory of all regions alive.", { NULL } },
	[FORGOTTEN] = { "hugepin_forgotten_regions", "Regions with a name that nobody uses.", { NULL } },
	[FORGOTTEN_BYTES] = { "hugepin_forgotten_region_bytes",
			      "Memory of regions with a name that nobody uses.",
			      { NULL } },
	[HELD_BYTES] = { "hugepin_region_held_bytes",
			 "Memory of regions that devices or pipes hold besides.",
			 { NULL } },
	[USER_HELD] = { "hugepin_user_held_bytes",
			"Memory that a user holds in regions and in quarantine.",
			{ "uid", "page_size" } },
	[USER_QUARANTINED] = { "hugepin_user_quarantined_bytes",
			       "Memory of a user's in quarantine.",
			       { "uid", "page_size" } },
	[USER_PINNED] = { "hugepin_user_pinned_bytes", "Memory of its own that a user has pinned.", { "uid" } },
};

/* ---- the reserve ---- */

static void add_reserve(struct samples *samples, const struct hugepin_reserve_info *info)
{
	const struct {
		const char *state;
		uint64_t pages;
	} states[] = {
		{ "clean", info->clean_pages },
		{ "dirty", info->dirty_pages },
		{ "in_use", info->in_use_pages },
		{ "quarantined", info->quarantined_pages },
		{ "poisoned", info->poisoned_pages },
	};
	const char *class = class_name(info->page_class);
	uint64_t bytes = class_bytes(info->page_class), percent;
	char node[16];

	snprintf(node, sizeof(node), "%d", info->node);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		sample_add(samples, RESERVE, (double)(states[i].pages * bytes), node, class, states[i].state);
	sample_add(samples, ASKED, (double)(info->asked_pages * bytes), node, class);
	if (!host_read_number(&percent, "/sys/class/misc/hugepin/node%d/hugepages-%" PRIu64 "kB/user_limit_percent",
			      info->node, bytes >> 10))
		sample_add(samples, LIMIT, (double)percent / 100, node, class);
}

/* ---- regions and users ---- */

struct totals {
	uint64_t regions, bytes, forgotten, forgotten_bytes, held_bytes;
};

static int add_region(const struct hugepin_listed_region *region, void *arg)
{
	struct totals *totals = arg;

	totals->regions++;
	totals->bytes += region->bytes;
	totals->held_bytes += region->held_bytes;
	if (region->path && !region->opens && !region->mappings && !region->held_bytes) {
		totals->forgotten++;
		totals->forgotten_bytes += region->bytes;
	}
	return 0;
}

/* A user in a user namespace counts for its owner, too: told once, as the owner. */
static int add_user(const struct hugepin_listed_user *user, void *arg)
{
	double gib = (double)class_bytes(HUGEPIN_PAGES_1G), mib2 = (double)class_bytes(HUGEPIN_PAGES_2M);
	struct samples *samples = arg;
	char uid[16];

	if (user->depth)
		return 0;
	snprintf(uid, sizeof(uid), "%u", user->uid);
	sample_add(samples, USER_HELD, (double)user->held_1g_pages * gib, uid, "1G");
	sample_add(samples, USER_HELD, (double)user->held_2m_pages * mib2, uid, "2M");
	sample_add(samples, USER_QUARANTINED, (double)user->quarantined_1g_pages * gib, uid, "1G");
	sample_add(samples, USER_QUARANTINED, (double)user->quarantined_2m_pages * mib2, uid, "2M");
	sample_add(samples, USER_PINNED, (double)user->pinned_bytes, uid);
	return 0;
}

/* An older module, or a mount without the device, tells less; what it does not tell is left out. */
static void add_listing(struct samples *samples, struct hugepin_context *ctx)
{
	struct totals totals = { 0 };

	if (!hugepin_region_visit(ctx, add_region, &totals)) {
		sample_add(samples, REGIONS, (double)totals.regions);
		sample_add(samples, REGION_BYTES, (double)totals.bytes);
		sample_add(samples, FORGOTTEN, (double)totals.forgotten);
		sample_add(samples, FORGOTTEN_BYTES, (double)totals.forgotten_bytes);
		sample_add(samples, HELD_BYTES, (double)totals.held_bytes);
	}
	hugepin_user_visit(ctx, add_user, samples);
}

static int gather(struct samples *samples, struct message *why)
{
	struct hugepin_context *ctx;
	struct snapshot now;
	int err = session_open(&ctx, why);

	sample_add(samples, BUILD_INFO, 1, hugepin_version());
	if (err) {
		sample_add(samples, UP, 0);
		return err;
	}
	err = snapshot_take(ctx, &now, why);
	sample_add(samples, UP, !err);
	if (!err) {
		for (size_t i = 0; i < now.count; i++)
			add_reserve(samples, &now.entries[i]);
		for (int c = CLASS_LAST; c >= CLASS_FIRST; c--)
			sample_add(samples, PRESENT, !now.absent[c], class_name((enum hugepin_class)c));
		add_listing(samples, ctx);
		snapshot_free(&now);
	}
	hugepin_context_destroy(ctx);
	return err;
}

/* ---- the command ---- */

static int write_text(FILE *out, void *arg)
{
	return samples_write_text(arg, out);
}

static int write_json(FILE *out, void *arg)
{
	return samples_write_json(arg, out);
}

static int tell(const char *path, bool json)
{
	struct samples samples = { .families = families, .nr_families = sizeof(families) / sizeof(families[0]) };
	int (*write)(FILE *out, void *arg) = json ? write_json : write_text;
	struct message why;
	int status, err = gather(&samples, &why);

	/* Without the module the metrics say so: one that goes missing raises no alarm, and every 15 s is no news. */
	if (err && !(path && err == -ENODEV))
		complain("%s", why.text);
	status = status_of(err);
	err = path ? file_replace(path, write, &samples, &why) : write(stdout, &samples);
	if (err) {
		complain("%s", path ? why.text : "no memory for the output");
		status = status_of(err);
	}
	samples_free(&samples);
	return flush_output(status);
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	(void)words, (void)nr_words;
	return tell(option_value(line, 'o'), option_given(line, 'j'));
}

const struct command command_metrics = {
	.name = "metrics",
	.arguments = "[--json] [--output FILE]",
	.summary = "print metrics for Prometheus",
	.options = {
		{ 'j', "json", NULL, "the same samples as JSON" },
		{ 'o', "output", "FILE",
		  "replace FILE by them, whole or not at all: for the textfile collector of\n"
		  "node_exporter, as /var/lib/prometheus/node-exporter/hugepin.prom" },
	},
	.help = "Without the module hugepin_up is 0, nothing is told of the reserve, and the exit status is 3;\n"
		"with --output nothing else is said of it.\n",
	.run = run,
};
