// SPDX-License-Identifier: MIT
/* hugepinctl top: the reserve and its regions, again and again: on a terminal's other screen, or line by line. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "ps.h"

#define TENTHS_MAX	36000		/* an hour between two looks */

struct top_request {
	bool batch, json;
	uint64_t rounds;		/* 0: until told to end */
	unsigned int tenths;		/* of a second between two looks */
};

/* ---- the terminal ---- */

static volatile sig_atomic_t ended, resized;
static struct termios terminal_before;

static void note(int signo)
{
	if (signo == SIGWINCH)
		resized = 1;
	else
		ended = signo;
}

static void catch_signals(void)
{
	const struct sigaction action = { .sa_handler = note };	/* no SA_RESTART: the wait must end */
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

/* The other screen, no cursor, no wrapping of long lines; keys come one by one. */
static bool enter_screen(void)
{
	struct termios terminal;

	if (tcgetattr(STDIN_FILENO, &terminal_before))
		return false;
	terminal = terminal_before;
	terminal.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	terminal.c_cc[VMIN] = 0;
	terminal.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &terminal))
		return false;
	fputs("\033[?1049h\033[?25l\033[?7l\033[2J", stdout);
	return true;
}

static void leave_screen(void)
{
	fputs("\033[?7h\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
}

/* The lines that fit, each cleared to its end, and nothing of the picture before below them. */
static void show_lines(const char *text)
{
	struct winsize size = { .ws_row = 24 };
	unsigned int rows;

	if (resized)
		fputs("\033[2J", stdout);
	resized = 0;
	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	rows = size.ws_row ? size.ws_row : 24;
	fputs("\033[H", stdout);
	for (unsigned int row = 0; *text && row < rows; row++) {
		int length = (int)strcspn(text, "\n");

		printf("%s%.*s\033[K", row ? "\n" : "", length, text);
		text += length + (text[length] == '\n');
	}
	fputs("\033[J", stdout);
	fflush(stdout);
}

/* ---- one look ---- */

static void print_clock(FILE *out, const struct top_request *request)
{
	time_t now = time(NULL);
	struct tm local;
	char text[32];

	strftime(text, sizeof(text), "%F %T", localtime_r(&now, &local));
	fprintf(out, "hugepinctl top  %s  every %u.%u s%s\n\n", text, request->tenths / 10, request->tenths % 10,
		request->batch ? "" : "  q quits");
}

/* Zeroed meanwhile, and taken or given back: what the reserve did since the look before. */
static void print_change(FILE *out, const struct snapshot *before, const struct snapshot *now)
{
	int64_t used = 0, dirty = 0;
	char a[HUMAN_SIZE], b[HUMAN_SIZE];

	for (size_t i = 0; i < now->count; i++) {
		const struct hugepin_reserve_info *new = &now->entries[i];
		const struct hugepin_reserve_info *old = snapshot_find(before, new->node, new->page_class);
		int64_t bytes = (int64_t)class_bytes(new->page_class);

		if (!old)
			continue;
		used += ((int64_t)new->in_use_pages - (int64_t)old->in_use_pages) * bytes;
		dirty += ((int64_t)new->dirty_pages - (int64_t)old->dirty_pages) * bytes;
	}
	if (before->count)
		fprintf(out, "since the look before: in use %c%s, dirty %c%s\n", used < 0 ? '-' : '+',
			human_bytes((uint64_t)(used < 0 ? -used : used), a), dirty < 0 ? '-' : '+',
			human_bytes((uint64_t)(dirty < 0 ? -dirty : dirty), b));
}

static int print_look(FILE *out, const struct top_request *request, struct hugepin_context *ctx,
		      const struct snapshot *before, const struct snapshot *now)
{
	const struct look look = look_at(stdout);
	struct ps ps = { 0 };
	struct message why;
	int err;

	if (request->json)
		return status_print_json(now, out);
	print_clock(out, request);
	err = status_print(now, &look, out);
	if (err)
		return err;
	print_change(out, before, now);
	/* An older module cannot list: then the reserve is all there is to see. */
	err = ps_collect(ctx, false, &ps, &why);
	if (!err && ps.nr_regions) {
		fputc('\n', out);
		err = ps_print_regions(&ps, false, look.colour, out);
	}
	if (request->batch)
		fputc('\n', out);
	ps_free(&ps);
	return err == -EOPNOTSUPP ? 0 : err;
}

/* ---- again and again ---- */

/* Waits for the next round; false when it is the end. */
static bool wait_for_next(const struct top_request *request)
{
	struct pollfd keys = { .fd = request->batch ? -1 : STDIN_FILENO, .events = POLLIN };
	char key;

	if (ended)
		return false;
	if (poll(&keys, 1, (int)request->tenths * 100) <= 0)
		return !ended;
	/* A terminal that has gone away reads as an end, not as a key. */
	if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q')
		return false;
	return !ended;
}

static int one_round(const struct top_request *request, struct hugepin_context *ctx, struct snapshot *before,
		     struct message *why)
{
	struct snapshot now;
	size_t size = 0;
	char *text = NULL;
	FILE *out;
	int err = snapshot_take(ctx, &now, why);

	if (err)
		return err;
	out = open_memstream(&text, &size);
	err = out ? print_look(out, request, ctx, before, &now) : -ENOMEM;
	if (out && fclose(out))
		err = -ENOMEM;
	if (err) {
		message_set(why, err, "the view cannot be made: %s", strerror(-err));
	} else if (request->batch) {
		fputs(text, stdout);
		if (fflush(stdout))
			err = -EIO;
	} else {
		show_lines(text);
	}
	free(text);
	snapshot_free(before);
	*before = now;
	return err;
}

static int loop(const struct top_request *request, struct message *why)
{
	struct snapshot before = { 0 };
	struct hugepin_context *ctx;
	int err = session_open(&ctx, why);

	if (err)
		return err;
	for (uint64_t round = 1; !err; round++) {
		err = one_round(request, ctx, &before, why);
		if (err || round == request->rounds || !wait_for_next(request))
			break;
	}
	snapshot_free(&before);
	hugepin_context_destroy(ctx);
	return err;
}

static int top(struct top_request *request)
{
	struct message why;
	bool screen;
	int err;

	catch_signals();
	request->batch = request->batch || request->json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
	screen = !request->batch && enter_screen();
	request->batch = !screen;
	err = loop(request, &why);
	if (screen)
		leave_screen();
	/* That standard output has failed, flush_output() tells. */
	if (err && !ferror(stdout))
		complain("%s", why.text);
	return flush_output(status_of(err));
}

/* "2", "0.5": seconds with a tenth at most. */
static int parse_seconds(const char *text, unsigned int *tenths)
{
	size_t length = strcspn(text, ".");
	uint64_t whole, tenth = 0;
	char number[16];

	if (length >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, length);
	number[length] = '\0';
	if (number_parse(number, TENTHS_MAX / 10, &whole) ||
	    (text[length] && number_parse(text + length + 1, 9, &tenth)))
		return -EINVAL;
	*tenths = (unsigned int)(whole * 10 + tenth);
	return *tenths && *tenths <= TENTHS_MAX ? 0 : -EINVAL;
}

static int run(const struct command_line *line, char **words, size_t nr_words)
{
	struct top_request request = {
		.tenths = 20,
		.batch = option_given(line, 'b'),
		.json = option_given(line, 'j'),
	};
	const char *rounds = option_value(line, 'n'), *delay = option_value(line, 'd');

	(void)words, (void)nr_words;
	if (rounds && (number_parse(rounds, UINT32_MAX, &request.rounds) || !request.rounds)) {
		complain("'%s' is not a number of rounds, 1 to %u", rounds, UINT32_MAX);
		return usage_error(&command_top);
	}
	if (delay && parse_seconds(delay, &request.tenths)) {
		complain("'%s' is not a delay of 0.1 to %u seconds", delay, TENTHS_MAX / 10);
		return usage_error(&command_top);
	}
	return top(&request);
}

const struct command command_top = {
	.name = "top",
	.arguments = "[--batch] [--rounds N] [--delay SECONDS] [--json]",
	.summary = "watch the reserve and its regions",
	.options = {
		{ 'b', "batch", NULL,
		  "line by line, for files and pipes; so it is where there is no terminal" },
		{ 'n', "rounds", "N", "end after so many looks" },
		{ 'd', "delay", "SECONDS", "between two of them: 0.1 to 3600, 2 without this" },
		{ 'j', "json", NULL, "each look an object, as of hugepinctl status --json" },
	},
	.help = "On a terminal, q quits and any other key looks at once.\n",
	.run = run,
};
