// SPDX-License-Identifier: MIT
/* Step 3: the memory of a real training run, served from the module's pages. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

#define LEAST_OPS		10000
#define MOST_MAPPED_PER_LIVE	1.05

static bool get_uint(struct json_object *root, const char *key, uint64_t *out)
{
	struct json_object *value;

	if (!json_object_object_get_ex(root, key, &value) || !json_object_is_type(value, json_type_int))
		return false;
	*out = json_object_get_uint64(value);
	return true;
}

static bool parse(const char *text, struct demo_results *r)
{
	struct json_object *root = json_tokener_parse(text), *seconds;
	bool ok = root && get_uint(root, "ops", &r->replay_ops) &&
		  get_uint(root, "peak_live_bytes", &r->peak_live_bytes) &&
		  get_uint(root, "peak_mapped_bytes", &r->peak_mapped_bytes) &&
		  json_object_object_get_ex(root, "seconds", &seconds);

	if (ok)
		r->replay_seconds = json_object_get_double(seconds);
	json_object_put(root);
	return ok;
}

static void report(struct demo *demo)
{
	struct demo_results *r = &demo->results;
	double ratio = r->peak_live_bytes ? (double)r->peak_mapped_bytes / (double)r->peak_live_bytes : 0;
	char ops[TEXT_SIZE], live[TEXT_SIZE], mapped[TEXT_SIZE];

	report_line("operations", "%s in %.2f s, each block touched as the program did", text_count(r->replay_ops, ops),
		    r->replay_seconds);
	report_line("peak", "%s live, %s mapped: %.4f of live", text_bytes(r->peak_live_bytes, live),
		    text_bytes(r->peak_mapped_bytes, mapped), ratio);
	report_check(demo, r->replay_ops >= LEAST_OPS, "%" PRIu64 " operations, at least %d are wanted", r->replay_ops,
		     LEAST_OPS);
	report_check(demo, ratio && ratio <= MOST_MAPPED_PER_LIVE,
		     "%.4f mapped over live (%" PRIu64 " / %" PRIu64 " bytes), at most %.2f is wanted", ratio,
		     r->peak_mapped_bytes, r->peak_live_bytes, MOST_MAPPED_PER_LIVE);
}

int step_replay(struct demo *demo)
{
	/* Only the module's pages: a pool that fell back to others would show something else. */
	char *ladder = demo->absent_1g ? "kmod:2M" : "kmod:1G+2M";
	char *const argv[] = {
		"hugepin-trace-replay", "--json", "--pool", "host", "--ladder", ladder, (char *)demo->trace, NULL,
	};
	char *text;
	int status;

	report_section("3", "The allocations of a PyTorch training run, replayed on a host pool of the module's pages");
	if (reserve_settle(demo))
		return -1;
	report_progress("replaying %s", basename(demo->trace));
	status = spawn_read(argv, &text);
	if (status < 0) {
		free(text);
		return report_stop(demo, "%s: %s", argv[0], strerror(-status));
	}
	if (status || !parse(text, &demo->results)) {
		free(text);
		return report_stop(demo, "%s ended with status %d, or its answer cannot be read", argv[0], status);
	}
	free(text);
	report(demo);
	return 0;
}
