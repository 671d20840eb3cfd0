// SPDX-License-Identifier: MIT
/* reserve and release: read, plan, carry out, and tell what came of it. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static const char *const headings[] = { "NODE", "CLASS", "BEFORE", "ASKED", "GOT", "NOW", "SIZE NOW", "-RESULT" };
#define COLUMNS		(sizeof(headings) / sizeof(headings[0]))

static const struct {
	const char *word;
	enum style style;
} states[] = {
	[CHANGE_TODO] = { "not tried", STYLE_DIM },
	[CHANGE_DONE] = { "ok", STYLE_GREEN },
	[CHANGE_SHORT] = { "short", STYLE_YELLOW },
	[CHANGE_RESTORED] = { "as before", STYLE_PLAIN },
	[CHANGE_STUCK] = { "NOT PUT BACK", STYLE_RED },
};

static const char *const results[] = {
	[APPLY_DONE] = "done",
	[APPLY_PARTIAL] = "partial",
	[APPLY_RESTORED] = "restored",
	[APPLY_STUCK] = "stuck",
};

/* ---- What came of it, for people and machines ---- */

static const char *state_word(const struct change_request *request, const struct change *change)
{
	if (!request->dry_run)
		return states[change->state].word;
	return change->target == change->before ? "no change" : "would change";
}

static int print_table(const struct change_request *request, const struct plan *plan, FILE *out)
{
	struct table *table = table_create(headings, COLUMNS);
	char size[HUMAN_SIZE];
	int err;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < plan->count; i++) {
		const struct change *change = &plan->changes[i];

		table_cell(table, STYLE_PLAIN, "%d", change->node);
		table_cell(table, STYLE_PLAIN, "%s", class_name(change->page_class));
		table_cell(table, STYLE_PLAIN, "%" PRIu64, change->before);
		table_cell(table, STYLE_PLAIN, "%" PRIu64, change->target);
		if (change->state == CHANGE_TODO)
			table_cell(table, STYLE_DIM, "-");
		else
			table_cell(table, STYLE_PLAIN, "%" PRIu64, change->got);
		table_cell(table, STYLE_BOLD, "%" PRIu64, change->now);
		table_cell(table, STYLE_PLAIN, "%s", human_bytes(change->now * class_bytes(change->page_class), size));
		table_cell(table, states[change->state].style, "%s", state_word(request, change));
	}
	err = table_print(table, out, colour_wanted(out));
	table_free(table);
	return err;
}

static int put_change(struct json_object *entry, const struct change_request *request, const struct change *change)
{
	int err = json_put_uint(entry, "node", (uint64_t)change->node);

	err = err ? err : json_put_text(entry, "class", class_name(change->page_class));
	err = err ? err : json_put_uint(entry, "page_bytes", class_bytes(change->page_class));
	err = err ? err : json_put_uint(entry, "before", change->before);
	err = err ? err : json_put_uint(entry, "asked", change->target);
	err = err ? err : json_put_uint(entry, "got", change->got);
	err = err ? err : json_put_uint(entry, "now", change->now);
	return err ? err : json_put_text(entry, "state", state_word(request, change));
}

static int print_json(const struct change_request *request, const struct plan *plan, const char *result,
		      const char *error)
{
	struct json_object *root = json_object_new_object(), *changes = json_object_new_array();
	int err = root ? json_put_text(root, "version", hugepin_version()) : -ENOMEM;

	err = err ? err : json_put_text(root, "result", result);
	if (!err && error)
		err = json_put_text(root, "error", error);
	if (err)
		json_object_put(changes);
	else
		err = json_put(root, "changes", changes);
	for (size_t i = 0; !err && i < plan->count; i++) {
		struct json_object *entry;

		err = json_push_object(changes, &entry);
		if (!err)
			err = put_change(entry, request, &plan->changes[i]);
	}
	if (!err)
		err = json_print(root, stdout);
	json_object_put(root);
	return err;
}

/* The table of a failure goes to stderr, with its message; JSON always to stdout. */
static void print_plan(const struct change_request *request, const struct plan *plan, const char *result,
		       const char *error)
{
	int err;

	if (request->json)
		err = print_json(request, plan, result, error);
	else
		err = print_table(request, plan, error ? stderr : stdout);
	if (err)
		complain("no memory for the output");
}

static const struct change *last_tried(const struct plan *plan)
{
	const struct change *change = plan->changes;

	for (size_t i = 0; i < plan->count; i++)
		if (plan->changes[i].state != CHANGE_TODO)
			change = &plan->changes[i];
	return change;
}

/* The knob is named: an administrator may have opened one of them to others, and not this one. */
static void explain_permission(const struct plan *plan, int err)
{
	const struct change *change = last_tried(plan);

	complain("/sys/class/misc/hugepin/node%d/hugepages-%llukB/nr_hugepages: %s; %s", change->node,
		 (unsigned long long)class_bytes(change->page_class) >> 10, strerror(-err),
		 err == -EROFS ? "sysfs is mounted read-only, as it is in containers: run this on the host" :
				 "writing it takes root, or CAP_DAC_OVERRIDE");
}

static void explain_range(const struct change *change)
{
	char size[HUMAN_SIZE];
	uint64_t bytes;

	if (!host_node_memory(change->node, &bytes))
		complain("node %d has %s of memory, %" PRIu64 " times %s, and a part of it is left to the node",
			 change->node, human_bytes(bytes, size), bytes / class_bytes(change->page_class),
			 class_name(change->page_class));
}

static bool was_put_back(const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->changes[i].state == CHANGE_RESTORED && plan->changes[i].got != plan->changes[i].before)
			return true;
	return false;
}

static void explain(const struct change_request *request, const struct plan *plan, enum apply_result result, int err,
		    const struct message *why)
{
	if (result == APPLY_DONE)
		return;
	complain("%s", why->text);
	if (status_of(err) == STATUS_PERMISSION)
		explain_permission(plan, err);
	if (err == -ERANGE)
		explain_range(last_tried(plan));
	switch (result) {
	case APPLY_PARTIAL:
		complain("less than asked was got; it is kept, as --partial says");
		break;
	case APPLY_STUCK:
		complain("not everything could be put back: see column NOW");
		break;
	default:
		complain("%s%s", was_put_back(plan) ? "everything was put back" : "nothing has changed",
			 err == -ENOMEM && !request->apply.partial ? "; --partial keeps what can be had" : "");
	}
	if ((err == -ENOMEM || err == -ERANGE) && last_tried(plan)->page_class == HUGEPIN_PAGES_1G)
		complain("'hugepinctl explain %d' tells how many 1G pages could be had, and what is in the way",
			 last_tried(plan)->node);
}

/* ---- Carrying it out ---- */

static int library_set(void *arg, int node, enum hugepin_class page_class, uint64_t pages, uint64_t *got)
{
	return hugepin_reserve_set(arg, node, page_class, pages, got);
}

static const char *library_error(void *arg)
{
	(void)arg;
	return hugepin_error();
}

static bool signal_came(void *arg)
{
	(void)arg;
	return signals_caught();
}

static void hold_signals(void *arg)
{
	(void)arg;
	signals_hold();
}

static int make_plan(const struct change_request *request, const struct snapshot *now, const struct spec *specs,
		     size_t nr, struct plan *out, struct message *why)
{
	if (request->everything)
		return plan_release_all(now, out, why);
	if (request->command == &command_release)
		return plan_release(now, specs, nr, out, why);
	return plan_reserve(now, specs, nr, out, why);
}

/* A part of what the node has may be in zones that the module does not take from: it may refuse what passes here. */
int change_check_room(const struct plan *plan, struct message *why)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct change *change = &plan->changes[i];
		uint64_t bytes, left, pages;
		char size[HUMAN_SIZE];

		if (host_node_memory(change->node, &bytes))
			continue;
		left = node_floor_bytes(bytes);
		pages = (bytes > left ? bytes - left : 0) / class_bytes(change->page_class);
		if (change->target > change->before && change->target > pages)
			return message_set(why, -ERANGE,
					   "node %d: %s: %" PRIu64 " pages were asked for, its memory of %s has %"
					   PRIu64 " beside the part that is left to the node",
					   change->node, class_name(change->page_class), change->target,
					   human_bytes(bytes, size), pages);
	}
	return 0;
}

static int carry_out(const struct change_request *request, struct hugepin_context *ctx, struct plan *plan)
{
	static const int statuses[] = {
		[APPLY_DONE] = STATUS_OK,
		[APPLY_PARTIAL] = STATUS_PARTIAL,
		[APPLY_RESTORED] = STATUS_FAILED,
		[APPLY_STUCK] = STATUS_FAILED,
	};
	const struct apply_ops ops = {
		.set = library_set,
		.error = library_error,
		.interrupted = signal_came,
		.commit = hold_signals,
		.arg = ctx,
	};
	enum apply_result result;
	struct message why;
	int err;

	result = plan_apply(plan, &request->apply, &ops, &err, &why);
	explain(request, plan, result, err, &why);
	print_plan(request, plan, results[result], err ? why.text : NULL);
	return result == APPLY_RESTORED ? status_of(err) : statuses[result];
}

static int refuse(const struct message *why, int err)
{
	complain("%s", why->text);
	return err == -EINVAL ? STATUS_USAGE : status_of(err);
}

/* The signals are caught and the lock is held. */
static int plan_and_carry_out(const struct change_request *request, const struct spec *specs, size_t nr)
{
	struct hugepin_context *ctx;
	struct snapshot now;
	struct plan plan;
	struct message why;
	int err = session_open(&ctx, &why), status;

	if (err)
		return refuse(&why, err);
	err = snapshot_take(ctx, &now, &why);
	if (!err) {
		err = make_plan(request, &now, specs, nr, &plan, &why);
		snapshot_free(&now);
	}
	if (!err && request->dry_run) {
		err = change_check_room(&plan, &why);
		if (err)
			plan_free(&plan);
	}
	if (err) {
		status = refuse(&why, err);
	} else if (request->dry_run) {
		print_plan(request, &plan, "dry run", NULL);
		status = STATUS_OK;
	} else {
		status = carry_out(request, ctx, &plan);
	}
	if (!err)
		plan_free(&plan);
	hugepin_context_destroy(ctx);
	return status;
}

static int read_specs(const struct change_request *request, struct spec **specs, size_t *nr, struct message *why)
{
	int err = spec_parse_all(request->arguments, request->nr_arguments, specs, nr, why);

	for (size_t i = 0; !err && request->command == &command_release && i < *nr; i++)
		if ((*specs)[i].relative)
			err = message_set(why, -EINVAL, "+%" PRIu64 ": release takes the pages to give back as N",
					  (*specs)[i].count);
	return err;
}

int change_run(const struct change_request *request)
{
	struct spec *specs = NULL;
	struct message why;
	size_t nr = 0;
	int err, status;

	err = read_specs(request, &specs, &nr, &why);
	if (err) {
		free(specs);
		complain("%s", why.text);
		return err == -EINVAL ? usage_error(request->command) : status_of(err);
	}
	err = signals_catch();
	if (err) {
		complain("signals cannot be caught: %s", strerror(-err));
		status = STATUS_FAILED;
	} else {
		status = STATUS_FAILED;
		if (request->dry_run || !session_lock())
			status = plan_and_carry_out(request, specs, nr);
		signals_hold();
		if (status == STATUS_OK && flush_output(status) != STATUS_OK) {
			complain("all went well but for that: hugepinctl status shows what is held");
			status = STATUS_FAILED;
		}
		signals_release();
	}
	free(specs);
	return status;
}
