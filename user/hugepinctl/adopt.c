// SPDX-License-Identifier: MIT
/* hugepinctl adopt: take pages over from the kernel's hugetlb pool, without their being anybody's in between. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt.h"
#include "host.h"

#define STEP_2M		64		/* pages; a 1G page goes alone */

struct adopt_request {
	int node;
	enum hugepin_class page_class;
	bool everything;		/* COUNT is "all" */
	bool dry_run, json;
	struct adoption adoption;
};

/* ---- the two pools ---- */

static unsigned long long class_kb(const struct adopt_request *request)
{
	return (unsigned long long)class_bytes(request->page_class) >> 10;
}

static int read_hugetlb(const struct adopt_request *request, const char *file, uint64_t *out)
{
	return host_read_number(out, "/sys/devices/system/node/node%d/hugepages/hugepages-%llukB/%s", request->node,
				class_kb(request), file);
}

static int read_reserve(const struct adopt_request *request, uint64_t *out)
{
	return host_read_number(out, "/sys/class/misc/hugepin/node%d/hugepages-%llukB/nr_hugepages", request->node,
				class_kb(request));
}

static int read_pools(void *arg, struct pools *out)
{
	const struct adopt_request *request = arg;
	struct pools now;
	int err = read_hugetlb(request, "nr_hugepages", &now.hugetlb);

	err = err ? err : read_reserve(request, &now.reserve);
	if (!err)
		*out = now;
	return err;
}

static int set_hugetlb(void *arg, uint64_t pages)
{
	const struct adopt_request *request = arg;
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, pages);
	return host_write(text, "/sys/devices/system/node/node%d/hugepages/hugepages-%llukB/nr_hugepages",
			  request->node, class_kb(request));
}

static int set_reserve(void *arg, uint64_t pages)
{
	const struct adopt_request *request = arg;
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, pages);
	return host_write(text, "/sys/class/misc/hugepin/node%d/hugepages-%llukB/nr_hugepages", request->node,
			  class_kb(request));
}

/* Both writes in a process of its own: who kills hugepinctl between them kills the one that waits. */
static int give(void *arg, struct pools target, enum pool_order order, struct pools *now)
{
	static const struct pool_ops pool_ops = {
		.read = read_pools,
		.set_hugetlb = set_hugetlb,
		.set_reserve = set_reserve,
	};
	sigset_t all, before;
	int status, err;
	pid_t child;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	child = fork();
	if (!child)
		_exit(-adopt_give(&pool_ops, arg, target, order) & 0xff);
	err = child < 0 ? -errno : 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (err)
		return err;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	err = WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
	if (read_pools(arg, now) && !err)
		err = -EIO;
	return err;
}

static bool interrupted(void *arg)
{
	(void)arg;
	return signals_caught();
}

/* ---- beforehand ---- */

/* Free pages of the node that nobody has been promised. */
static int read_available(const struct adopt_request *request, uint64_t *out)
{
	uint64_t free_here, free_all, promised;
	int err = read_hugetlb(request, "free_hugepages", &free_here);

	err = err ? err : host_read_number(&free_all, "/sys/kernel/mm/hugepages/hugepages-%llukB/free_hugepages",
					   class_kb(request));
	err = err ? err : host_read_number(&promised, "/sys/kernel/mm/hugepages/hugepages-%llukB/resv_hugepages",
					   class_kb(request));
	if (err)
		return err;
	free_all = free_all > promised ? free_all - promised : 0;
	*out = free_here < free_all ? free_here : free_all;
	return 0;
}

static int prepare(struct adopt_request *request, struct message *why)
{
	struct adoption *adoption = &request->adoption;
	const char *class = class_name(request->page_class);
	uint64_t available, dummy;
	int err;

	if (!host_exists("/sys/class/misc/hugepin"))
		return message_set(why, -ENODEV, "hugepin module is not loaded: modprobe hugepin");
	if (read_reserve(request, &dummy))
		return message_set(why, -ENXIO,
				   "the module has no %s pages on node %d; 'hugepinctl status' shows what it has",
				   class, request->node);
	err = read_available(request, &available);
	if (err)
		return message_set(why, err, "the kernel has no hugetlb pool of %s pages on node %d: %s", class,
				   request->node, strerror(-err));
	if (request->everything)
		adoption->count = available;
	if (adoption->count > available)
		return message_set(why, -EBUSY,
				   "asked to adopt %" PRIu64 " page%s of %s, the hugetlb pool of node %d has %" PRIu64
				   " that are free and promised to nobody",
				   adoption->count, PLURAL(adoption->count), class, request->node, available);
	err = read_pools(request, &adoption->before);
	if (err)
		return message_set(why, err, "the pools cannot be read: %s", strerror(-err));
	adoption->now = adoption->before;
	adoption->step_pages = request->page_class == HUGEPIN_PAGES_1G ? 1 : STEP_2M;
	return 0;
}

/* ---- telling ---- */

static int print_json(const struct adopt_request *request, const char *result, const char *error)
{
	const struct adoption *adoption = &request->adoption;
	struct json_object *root = json_object_new_object();
	int err = root ? json_put_text(root, "version", hugepin_version()) : -ENOMEM;

	err = err ? err : json_put_text(root, "result", result);
	if (!err && error)
		err = json_put_text(root, "error", error);
	err = err ? err : json_put_uint(root, "node", (uint64_t)request->node);
	err = err ? err : json_put_text(root, "class", class_name(request->page_class));
	err = err ? err : json_put_uint(root, "asked", adoption->count);
	err = err ? err : json_put_uint(root, "moved", adopt_moved(adoption));
	err = err ? err : json_put_uint(root, "returned", adoption->returned);
	err = err ? err : json_put_uint(root, "lost", adoption->lost);
	err = err ? err : json_put_uint(root, "hugetlb_before", adoption->before.hugetlb);
	err = err ? err : json_put_uint(root, "hugetlb_now", adoption->now.hugetlb);
	err = err ? err : json_put_uint(root, "reserve_before", adoption->before.reserve);
	err = err ? err : json_put_uint(root, "reserve_now", adoption->now.reserve);
	if (!err)
		err = json_print(root, stdout);
	json_object_put(root);
	return err;
}

static int print_human(const struct adopt_request *request, FILE *out)
{
	static const char *const headings[] = { "NODE", "CLASS", "-POOL", "BEFORE", "NOW", "SIZE NOW" };
	const struct adoption *adoption = &request->adoption;
	struct table *table = table_create(headings, sizeof(headings) / sizeof(headings[0]));
	char size[HUMAN_SIZE];
	int err;

	if (!table)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		uint64_t before = i ? adoption->before.reserve : adoption->before.hugetlb;
		uint64_t now = i ? adoption->now.reserve : adoption->now.hugetlb;

		table_cell(table, STYLE_PLAIN, "%d", request->node);
		table_cell(table, STYLE_PLAIN, "%s", class_name(request->page_class));
		table_cell(table, STYLE_PLAIN, "%s", i ? "reserve" : "hugetlb");
		table_cell(table, STYLE_PLAIN, "%" PRIu64, before);
		table_cell(table, STYLE_BOLD, "%" PRIu64, now);
		table_cell(table, STYLE_PLAIN, "%s", human_bytes(now * class_bytes(request->page_class), size));
	}
	err = table_print(table, out, colour_wanted(out));
	table_free(table);
	if (request->dry_run)
		fprintf(out, "\nwould move %" PRIu64 "\n", adoption->count);
	else
		fprintf(out, "\n%" PRIu64 " moved, %" PRIu64 " returned, %" PRIu64 " lost to others\n",
			adopt_moved(adoption), adoption->returned, adoption->lost);
	return err;
}

static void print(const struct adopt_request *request, const char *result, const char *error)
{
	if (request->json ? print_json(request, result, error) : print_human(request, error ? stderr : stdout))
		complain("no memory for the output");
}

static int tell(const struct adopt_request *request, int err, const struct message *why)
{
	const struct adoption *adoption = &request->adoption;

	if (!err) {
		print(request, "done", NULL);
		return STATUS_OK;
	}
	complain("%s", why->text);
	if (status_of(err) == STATUS_PERMISSION)
		complain("/sys/devices/system/node/node%d/hugepages/hugepages-%llukB/nr_hugepages: %s; %s",
			 request->node, class_kb(request), strerror(-err),
			 err == -EROFS ? "sysfs is mounted read-only, as it is in containers: run this on the host" :
					 "writing it takes root, or CAP_DAC_OVERRIDE");
	if (adoption->lost)
		complain("%" PRIu64 " page%s in neither pool: others have taken that memory", adoption->lost,
			 adoption->lost == 1 ? " is" : "s are");
	else if (adopt_moved(adoption))
		complain("%s", adoption->partial ?
				       "what was moved is kept, as --partial says" :
				       "not everything could be put back: pages of the reserve came into use");
	else
		complain("both pools are as before%s", adoption->partial ? "" : "; --partial keeps what can be moved");
	print(request, adoption->lost ? "lost" : !adopt_moved(adoption) ? "restored" :
	      adoption->partial ? "partial" : "stuck", why->text);
	if (adoption->lost || (adopt_moved(adoption) && !adoption->partial))
		return STATUS_FAILED;
	return adopt_moved(adoption) ? STATUS_PARTIAL : status_of(err);
}

/* ---- the command ---- */

static int adopt(struct adopt_request *request)
{
	const struct adopt_ops ops = { .give = give, .interrupted = interrupted, .arg = request };
	struct message why;
	int err, status;

	err = signals_catch();
	if (err) {
		complain("signals cannot be caught: %s", strerror(-err));
		return STATUS_FAILED;
	}
	if (!request->dry_run && session_lock()) {
		signals_release();
		return STATUS_FAILED;
	}
	err = prepare(request, &why);
	if (err) {
		complain("%s", why.text);
		status = status_of(err);
	} else if (request->dry_run) {
		print(request, "dry run", NULL);
		status = STATUS_OK;
	} else {
		err = adopt_move(&request->adoption, &ops, &why);
		status = tell(request, err, &why);
	}
	signals_hold();
	status = flush_output(status);
	signals_release();
	return status;
}

static int parse(struct adopt_request *request, char *const *arguments, struct message *why)
{
	uint64_t node;

	if (number_parse(arguments[0], 1023, &node))
		return message_set(why, -EINVAL, "'%s' is not a node, 0 to 1023", arguments[0]);
	request->node = (int)node;
	if (!strcmp(arguments[1], "1G"))
		request->page_class = HUGEPIN_PAGES_1G;
	else if (!strcmp(arguments[1], "2M"))
		request->page_class = HUGEPIN_PAGES_2M;
	else
		return message_set(why, -EINVAL, "'%s' is not a page size class, 1G or 2M", arguments[1]);
	request->everything = !strcmp(arguments[2], "all");
	if (!request->everything && (number_parse(arguments[2], UINT64_MAX >> 30, &request->adoption.count) ||
				     !request->adoption.count))
		return message_set(why, -EINVAL, "'%s' is not a count of 1 or more, nor all", arguments[2]);
	return 0;
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	struct adopt_request request = {
		.dry_run = option_given(line, 'n'),
		.adoption.partial = option_given(line, 'p'),
		.json = option_given(line, 'j'),
	};
	struct message why;

	if (nr_words != 3) {
		complain("adopt takes NODE CLASS COUNT, %zu arguments were given", nr_words);
		return usage_error(&command_adopt);
	}
	if (parse(&request, words, &why)) {
		complain("%s", why.text);
		return usage_error(&command_adopt);
	}
	return adopt(&request);
}

const struct command command_adopt = {
	.name = "adopt",
	.arguments = "[--dry-run] [--partial] [--json] NODE CLASS COUNT",
	.summary = "take pages over from the kernel's hugetlb pool",
	.options = {
		{ 'n', "dry-run", NULL, "check everything, say what would move, change nothing" },
		{ 'p', "partial", NULL,
		  "keep what was moved when the rest cannot be; else everything goes back" },
		{ 'j', "json", NULL, "machine-readable" },
	},
	.help = "  NODE    a node's number\n"
		"  CLASS   1G or 2M\n"
		"  COUNT   pages to move, or all: every one that is free and promised to nobody\n"
		"\n"
		"A few pages at a time leave the hugetlb pool and are reserved at once; what the reserve does not get\n"
		"goes back. Pages that others took in between are told, and the exit status is 1.\n",
	.takes_words = true,
	.run = run,
};
