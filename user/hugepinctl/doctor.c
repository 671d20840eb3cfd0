// SPDX-License-Identifier: MIT
/* hugepinctl doctor: is this host fit for hugepin, and what to do where it is not. */
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>

#include "doctor.h"

static const struct {
	const char *word;
	enum style style;
} healths[HEALTH_COUNT] = {
	[HEALTH_OK] = { "ok", STYLE_GREEN },
	[HEALTH_WARN] = { "warn", STYLE_YELLOW },
	[HEALTH_BAD] = { "bad", STYLE_RED },
};

void found(struct doctor *doctor, enum health health, const char *subject, const char *fmt, ...)
{
	struct finding *finding;
	va_list args;

	if (doctor->count == FINDINGS_MAX)
		return;
	finding = &doctor->findings[doctor->count++];
	*finding = (struct finding){ .health = health, .subject = subject };
	va_start(args, fmt);
	vsnprintf(finding->text, sizeof(finding->text), fmt, args);
	va_end(args);
	text_for_terminal(finding->text);
}

void advice(struct doctor *doctor, const char *fmt, ...)
{
	struct finding *finding = &doctor->findings[doctor->count - 1];
	va_list args;

	va_start(args, fmt);
	vsnprintf(finding->advice, sizeof(finding->advice), fmt, args);
	va_end(args);
}

/* ---- telling ---- */

static void count_healths(const struct doctor *doctor, size_t counts[HEALTH_COUNT])
{
	for (int i = 0; i < HEALTH_COUNT; i++)
		counts[i] = 0;
	for (size_t i = 0; i < doctor->count; i++)
		counts[doctor->findings[i].health]++;
}

static void print_human(const struct doctor *doctor)
{
	bool colour = colour_wanted(stdout);
	size_t counts[HEALTH_COUNT];

	for (size_t i = 0; i < doctor->count; i++) {
		const struct finding *finding = &doctor->findings[i];
		enum style style = healths[finding->health].style;

		printf("%s%-4s%s  %-9s  %s\n", style_on(style, colour), healths[finding->health].word,
		       style_off(style, colour), finding->subject, finding->text);
		if (*finding->advice)
			printf("%17s-> %s\n", "", finding->advice);
	}
	count_healths(doctor, counts);
	printf("\n%zu ok, %zu to look at, %zu bad\n", counts[HEALTH_OK], counts[HEALTH_WARN], counts[HEALTH_BAD]);
}

static int put_finding(struct json_object *entry, const struct finding *finding)
{
	int err = json_put_text(entry, "health", healths[finding->health].word);

	err = err ? err : json_put_text(entry, "subject", finding->subject);
	err = err ? err : json_put_text(entry, "text", finding->text);
	return err || !*finding->advice ? err : json_put_text(entry, "advice", finding->advice);
}

static int print_json(const struct doctor *doctor)
{
	struct json_object *root = json_object_new_object(), *array = json_object_new_array();
	size_t counts[HEALTH_COUNT];
	int err = json_put(root, "findings", array);

	count_healths(doctor, counts);
	err = err ? err : json_put_text(root, "version", hugepin_version());
	for (int i = 0; !err && i < HEALTH_COUNT; i++)
		err = json_put_uint(root, healths[i].word, counts[i]);
	for (size_t i = 0; !err && i < doctor->count; i++) {
		struct json_object *entry;

		err = json_push_object(array, &entry);
		err = err ? err : put_finding(entry, &doctor->findings[i]);
	}
	if (!err)
		err = json_print(root, stdout);
	json_object_put(root);
	return err;
}

static void view_reserve(struct reserve_view *view)
{
	struct hugepin_context *ctx;

	view->err = session_open(&ctx, &view->why);
	view->library_fails = view->err;
	if (view->err)
		return;
	view->err = snapshot_take(ctx, &view->snapshot, &view->why);
	view->there = !view->err;
	hugepin_context_destroy(ctx);
}

static int examine(bool json)
{
	struct doctor doctor = { .count = 0 };
	struct reserve_view view = { .there = false };
	size_t counts[HEALTH_COUNT];

	view_reserve(&view);
	examine_module(&doctor, &view);
	examine_reserve(&doctor, &view);
	examine_host(&doctor);
	examine_runtimes(&doctor, &view);
	snapshot_free(&view.snapshot);
	if (!json)
		print_human(&doctor);
	else if (print_json(&doctor)) {
		complain("no memory for the output");
		return STATUS_FAILED;
	}
	count_healths(&doctor, counts);
	return flush_output(counts[HEALTH_BAD] ? STATUS_FAILED : STATUS_OK);
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	(void)words, (void)nr_words;
	return examine(option_given(line, 'j'));
}

const struct command command_doctor = {
	.name = "doctor",
	.arguments = "[--json]",
	.summary = "check whether this host is fit, and tell what to do",
	.options = {
		{ 'j', "json", NULL,
		  "machine-readable: findings, each with health (ok, warn, bad), text and advice" },
	},
	.help = "Changes nothing, and looks with the rights of who calls it: run it as the user who will train.\n"
		"Exit status 1 when something is bad, 0 when all is well or only worth a look.\n",
	.run = run,
};
