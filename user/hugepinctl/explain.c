// SPDX-License-Identifier: MIT
/* hugepinctl explain: why a node has no more pages of 1 GiB, and what would raise their number. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "explain.h"

#define PAGE_BYTES	4096	/* windows are counted in pages of this size */

struct explain_request {
	const char *node, *svg;
	bool json, blocks;
};

/* ---- progress, on a terminal only ---- */

static int progress_node;

static void show_progress(uint64_t done, uint64_t all)
{
	static time_t shown;
	time_t now = time(NULL);

	if (now == shown && done != all)
		return;
	shown = now;
	fprintf(stderr, "\rnode %d: %3" PRIu64 " %% of its pages%s", progress_node, done * 100 / all,
		done == all ? "\r\033[K" : "");
	fflush(stderr);
}

/* ---- looking ---- */

static bool holds_pages(const struct snapshot *reserve, int node)
{
	for (size_t i = 0; i < reserve->count; i++)
		if (reserve->entries[i].node == node && reserve->entries[i].total_pages)
			return true;
	return false;
}

/* Empty where the module is not loaded: then nothing is ours. */
static void take_reserve(struct snapshot *out)
{
	struct hugepin_context *ctx;
	struct message why;

	*out = (struct snapshot){ 0 };
	if (session_open(&ctx, &why))
		return;
	if (snapshot_take(ctx, out, &why))
		*out = (struct snapshot){ 0 };
	hugepin_context_destroy(ctx);
}

static int examine_node(int id, const struct snapshot *reserve, uint64_t pins, struct explanation *out,
			struct message *why)
{
	int err = node_map_read(id, &out->map, why);

	if (err)
		return err;
	progress_node = id;
	err = node_scan_run(&out->map, holds_pages(reserve, id), &out->scan,
			    isatty(STDERR_FILENO) ? show_progress : NULL, why);
	if (err)
		return err;
	forecast_make(&out->map, &out->scan, &out->forecast);
	name_owners(out);
	advise(out, pins, reserve->absent[HUGEPIN_PAGES_1G]);
	return 0;
}

static bool has_memory(uint64_t node)
{
	char folder[64];
	uint64_t *blocks;
	size_t count;

	snprintf(folder, sizeof(folder), "/sys/devices/system/node/node%" PRIu64, node);
	if (host_numbered(folder, "memory", &blocks, &count))
		return false;
	free(blocks);
	return count > 0;
}

/* The nodes asked for: one, or all that have memory. */
static int choose_nodes(const struct explain_request *request, uint64_t **out, size_t *count, struct message *why)
{
	uint64_t *nodes = NULL, wanted = 0;
	size_t nr = 0, kept = 0;
	int err;

	if (request->node && number_parse(request->node, 1023, &wanted))
		return message_set(why, -EINVAL, "'%s' is not a node, 0 to 1023", request->node);
	err = host_numbered("/sys/devices/system/node", "node", &nodes, &nr);
	if (err)
		return message_set(why, err, "/sys/devices/system/node: %s", strerror(-err));
	for (size_t i = 0; i < nr; i++)
		if (has_memory(nodes[i]) && (!request->node || nodes[i] == wanted))
			nodes[kept++] = nodes[i];
	if (!kept) {
		free(nodes);
		if (!request->node)
			return message_set(why, -ENXIO, "no node shows its memory in /sys/devices/system/node");
		return message_set(why, -ENXIO, "there is no node %s with memory; 'hugepinctl explain' shows all",
				   request->node);
	}
	*out = nodes;
	*count = kept;
	return 0;
}

static void free_report(struct explain_report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		node_scan_free(&report->nodes[i].scan);
		node_map_free(&report->nodes[i].map);
	}
	free(report->nodes);
}

static int make_report(const struct explain_request *request, struct explain_report *out, struct message *why)
{
	struct explain_report report = { .blocks = request->blocks, .pins = pins_outstanding() };
	struct snapshot reserve;
	uint64_t *nodes = NULL;
	size_t count = 0;
	int err = choose_nodes(request, &nodes, &count, why);

	if (err)
		return err;
	report.nodes = calloc(count, sizeof(*report.nodes));
	if (!report.nodes)
		err = message_set(why, -ENOMEM, "no memory for %zu nodes", count);
	take_reserve(&reserve);
	for (size_t i = 0; !err && i < count; i++) {
		report.count = i + 1;
		err = examine_node((int)nodes[i], &reserve, report.pins, &report.nodes[i], why);
	}
	snapshot_free(&reserve);
	free(nodes);
	if (err)
		free_report(&report);
	else
		*out = report;
	return err;
}

/* ---- telling ---- */

static int write_svg(FILE *out, void *arg)
{
	return explain_write_svg(arg, out);
}

static int tell(const struct explain_request *request, struct explain_report *report)
{
	struct message why;
	int err = 0;

	if (request->svg) {
		err = file_replace(request->svg, write_svg, report, &why);
		if (err) {
			complain("%s", why.text);
			return status_of(err);
		}
	}
	err = request->json ? explain_print_json(report) : explain_print(report);
	if (err)
		complain("no memory for the output");
	return status_of(err);
}

static int explain(const struct explain_request *request)
{
	struct explain_report report;
	struct message why;
	int err, status;

	if (sysconf(_SC_PAGESIZE) != PAGE_BYTES) {
		complain("explain knows machines with base pages of 4 KiB, this one has %ld bytes",
			 sysconf(_SC_PAGESIZE));
		return STATUS_FAILED;
	}
	err = make_report(request, &report, &why);
	if (err) {
		complain("%s", why.text);
		return err == -EINVAL ? usage_error(&command_explain) : status_of(err);
	}
	status = tell(request, &report);
	free_report(&report);
	return flush_output(status);
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	struct explain_request request = {
		.node = words[0],
		.svg = option_value(line, 's'),
		.json = option_given(line, 'j'),
		.blocks = option_given(line, 'b'),
	};

	if (nr_words > 1) {
		complain("explain takes one node, '%s' is one too many", words[1]);
		return usage_error(&command_explain);
	}
	return explain(&request);
}

const struct command command_explain = {
	.name = "explain",
	.arguments = "[--json] [--svg FILE] [--blocks] [NODE]",
	.summary = "show what stands in the way of 1G pages, and how many could be had",
	.options = {
		{ 'j', "json", NULL, "machine-readable: every window of 1 GiB with its pages by kind" },
		{ 's', "svg", "FILE", "write the map as a picture, too" },
		{ 'b', "blocks", NULL, "list the memory blocks that cannot go offline, and what keeps them" },
	},
	.help = "Without NODE, every node with memory. Reads the state of every page, about half a minute a TiB;\n"
		"changes nothing. Needs root, for the kernel shows pages to nobody else.\n",
	.takes_words = true,
	.run = run,
};
