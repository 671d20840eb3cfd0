// SPDX-License-Identifier: MIT
/* hugepin-trace-replay: asks an allocator for what a recorded program asked for, and reports; or describes a trace. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "replay.h"

static const struct backend *const backends[] = { &backend_hugepin, &backend_libc };

static const char usage[] =
	"Usage: replay [OPTION...] TRACE\n"
	"Replay an allocation trace against an allocator; report time, peak live, peak mapped and wasted bytes.\n"
	"\n"
	"  -b, --backend NAME    hugepin (default) or libc\n"
	"      --pool KIND       hugepin's pool: host (default), pinned, variable\n"
	"      --ladder LIST     what the pool tries; short for --set <KIND>_ladder=LIST\n"
	"      --set KEY=VALUE   an option of hugepin; may be repeated\n"
	"      --no-touch        do not write into the blocks\n"
	"      --verify          write patterns and check them when a block ends (slower)\n"
	"      --speed none      as fast as possible; the only speed so far\n"
	"      --describe        only say what the trace holds\n"
	"  -j, --json\n"
	"  -h, --help\n"
	"\n"
	"Exit status: 0, 1 the replay failed or a check did, 2 usage, 3 the trace was refused.\n";

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("replay: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

/* ---- Reports ---- */

static void put_number(struct json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

static void put_text(struct json_object *object, const char *key, const char *value)
{
	json_object_object_add(object, key, json_object_new_string(value));
}

static void print_json(struct json_object *object)
{
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}

static double ratio(const struct replay *replay)
{
	return replay->peak_live_bytes ? (double)replay->peak_mapped_bytes / (double)replay->peak_live_bytes : 0;
}

static void report_json(const struct replay *replay)
{
	struct json_object *object = json_object_new_object();

	put_text(object, "backend", replay->backend->name);
	put_number(object, "ops", replay->operations);
	json_object_object_add(object, "seconds", json_object_new_double(replay->seconds));
	put_number(object, "peak_live_bytes", replay->peak_live_bytes);
	put_number(object, "peak_mapped_bytes", replay->peak_mapped_bytes);
	put_number(object, "wasted_bytes", replay->wasted_bytes);
	json_object_object_add(object, "mapped_per_live", json_object_new_double(ratio(replay)));
	put_text(object, "mapped_means", replay->backend->mapped_means);
	json_object_object_add(object, "touched", json_object_new_boolean(replay->touch));
	json_object_object_add(object, "verified", json_object_new_boolean(replay->verify));
	print_json(object);
}

static void report(const struct replay *replay)
{
	printf("backend            %s\n", replay->backend->name);
	printf("ops                %" PRIu64 "\n", replay->operations);
	printf("seconds            %.4f%s\n", replay->seconds,
	       replay->verify ? " (with checks)" : replay->touch ? "" : " (blocks not touched)");
	printf("peak_live_bytes    %" PRIu64 "\n", replay->peak_live_bytes);
	printf("peak_mapped_bytes  %" PRIu64 " (%.4f of live; %s)\n", replay->peak_mapped_bytes, ratio(replay),
	       replay->backend->mapped_means);
	printf("wasted_bytes       %" PRIu64 " (held beyond what was asked for, at peak live)\n", replay->wasted_bytes);
}

/* Blocks by size, a bin each power of two. */
struct sizes {
	uint64_t blocks[64];
	uint64_t bytes[64];
};

static void count_sizes(struct hp_trace_reader *reader, struct sizes *sizes)
{
	struct hp_trace_event event;

	while (hp_trace_next(reader, &event)) {
		int bin = event.bytes ? 63 - __builtin_clzll(event.bytes) : 0;

		if (event.kind == HP_TRACE_FREE)
			continue;
		sizes->blocks[bin]++;
		sizes->bytes[bin] += event.bytes;
	}
}

static void describe_json(const struct hp_trace_info *info, const struct sizes *sizes)
{
	struct json_object *object = json_object_new_object(), *bins = json_object_new_array();

	put_number(object, "min_bytes", info->min_bytes);
	put_number(object, "events", info->events);
	put_number(object, "blocks", info->blocks);
	put_number(object, "peak_live_bytes", info->peak_live_bytes);
	put_number(object, "live_at_end_bytes", info->live_at_end_bytes);
	put_number(object, "small_allocs", info->small_allocs);
	put_number(object, "duration_us", info->duration_us);
	put_number(object, "threads", info->threads);
	put_number(object, "largest_align_log2", info->largest_align_log2);
	for (unsigned int i = 0; i < 64; i++) {
		struct json_object *bin;

		if (!sizes->blocks[i])
			continue;
		bin = json_object_new_object();
		put_number(bin, "from_bytes", (uint64_t)1 << i);
		put_number(bin, "blocks", sizes->blocks[i]);
		put_number(bin, "bytes", sizes->bytes[i]);
		json_object_array_add(bins, bin);
	}
	json_object_object_add(object, "sizes", bins);
	print_json(object);
}

static void describe(const struct hp_trace_info *info, const struct sizes *sizes)
{
	printf("events             %" PRIu64 " in %.1f s by %u threads\n", info->events, (double)info->duration_us / 1e6,
	       info->threads);
	printf("blocks             %" PRIu64 " of at least %" PRIu64 " bytes; %" PRIu64 " smaller were only counted\n",
	       info->blocks, info->min_bytes, info->small_allocs);
	printf("peak_live_bytes    %" PRIu64 "\n", info->peak_live_bytes);
	printf("live_at_end_bytes  %" PRIu64 "\n", info->live_at_end_bytes);
	printf("largest alignment  %" PRIu64 "\n\n%12s %10s %16s\n", (uint64_t)1 << info->largest_align_log2, "from bytes",
	       "blocks", "bytes in all");
	for (unsigned int i = 0; i < 64; i++)
		if (sizes->blocks[i])
			printf("%12" PRIu64 " %10" PRIu64 " %16" PRIu64 "\n", (uint64_t)1 << i, sizes->blocks[i],
			       sizes->bytes[i]);
}

/* ---- Command line ---- */

static const struct backend *backend_named(const char *name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (!strcmp(backends[i]->name, name))
			return backends[i];
	return NULL;
}

static int run(struct replay *replay, const struct backend_options *options, bool json)
{
	uint64_t table_bytes = (replay->info->blocks + 1) * sizeof(*replay->blocks);
	int rc, closed;

	replay->blocks = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (replay->blocks == MAP_FAILED) {
		complain("no memory for the table of blocks");
		return -ENOMEM;
	}
	rc = replay->backend->open(options);
	if (rc) {
		complain("cannot open backend %s: %s", replay->backend->name, replay->backend->error());
		goto no_backend;
	}
	rc = play_all(replay);
	closed = replay->backend->close();
	if (closed && !rc) {
		complain("cannot close backend %s: %s", replay->backend->name, replay->backend->error());
		rc = closed;
	}
	if (!rc && json)
		report_json(replay);
	else if (!rc)
		report(replay);
no_backend:
	munmap(replay->blocks, table_bytes);
	return rc;
}

int main(int argc, char **argv)
{
	enum { OPT_POOL = 256, OPT_LADDER, OPT_SET, OPT_NO_TOUCH, OPT_VERIFY, OPT_SPEED, OPT_DESCRIBE };
	static const struct option options[] = {
		{ "backend", required_argument, NULL, 'b' },
		{ "pool", required_argument, NULL, OPT_POOL },
		{ "ladder", required_argument, NULL, OPT_LADDER },
		{ "set", required_argument, NULL, OPT_SET },
		{ "no-touch", no_argument, NULL, OPT_NO_TOUCH },
		{ "verify", no_argument, NULL, OPT_VERIFY },
		{ "speed", required_argument, NULL, OPT_SPEED },
		{ "describe", no_argument, NULL, OPT_DESCRIBE },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct replay replay = { .backend = backends[0], .touch = true };
	struct backend_options settings = { .pool = "host" };
	bool json = false, only_describe = false;
	char ladder_setting[512];
	const char *ladder = NULL;
	char why[256];
	int opt, rc;

	while ((opt = getopt_long(argc, argv, "b:jh", options, NULL)) != -1) {
		switch (opt) {
		case 'b':
			replay.backend = backend_named(optarg);
			if (!replay.backend) {
				complain("no backend \"%s\"", optarg);
				return 2;
			}
			break;
		case OPT_POOL:
			settings.pool = optarg;
			break;
		case OPT_LADDER:
			ladder = optarg;
			break;
		case OPT_SET:
			if (!strchr(optarg, '=') || settings.setting_count == BACKEND_MAX_SETTINGS - 1) {
				complain("--set %s: not KEY=VALUE, or too many", optarg);
				return 2;
			}
			settings.settings[settings.setting_count++] = optarg;
			break;
		case OPT_NO_TOUCH:
			replay.touch = false;
			break;
		case OPT_VERIFY:
			replay.verify = true;
			break;
		case OPT_SPEED:
			if (strcmp(optarg, "none")) {
				complain("--speed %s: only \"none\" is known", optarg);
				return 2;
			}
			break;
		case OPT_DESCRIBE:
			only_describe = true;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind + 1 != argc) {
		fputs(usage, stderr);
		return 2;
	}
	if (ladder) {
		snprintf(ladder_setting, sizeof(ladder_setting), "%s_ladder=%s", settings.pool, ladder);
		settings.settings[settings.setting_count++] = ladder_setting;
	}
	rc = hp_trace_open(&replay.reader, argv[optind], why, sizeof(why));
	if (rc) {
		complain("%s: %s", argv[optind], why);
		return 3;
	}
	replay.info = hp_trace_info(replay.reader);
	if (only_describe) {
		struct sizes sizes = { 0 };

		count_sizes(replay.reader, &sizes);
		(json ? describe_json : describe)(replay.info, &sizes);
	} else {
		rc = run(&replay, &settings, json);
	}
	hp_trace_close(replay.reader);
	return rc ? 1 : 0;
}
