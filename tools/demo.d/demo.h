/* SPDX-License-Identifier: MIT */
/*
 * The demo: one program that does hugepin's main job inside a machine with two nodes, checks what came of it and
 * reports. Everything of hugepin's goes through the library's public header. Prototypes are grouped under the file
 * that defines them.
 *
 * A step returns 0, or -1 when it could not be carried out; it has said why by then. What could be carried out but
 * gave a wrong result is told to report_check(), so that one failure does not hide the next.
 */
#ifndef HUGEPIN_DEMO_H
#define HUGEPIN_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <hugepin.h>

#define KIB(n)		((uint64_t)(n) << 10)
#define MIB(n)		((uint64_t)(n) << 20)
#define GIB(n)		((uint64_t)(n) << 30)
#define BASE_PAGE	KIB(4)
#define PAGE_2M		MIB(2)
#define PAGE_1G		GIB(1)

#define RESERVES_MAX	4		/* two nodes, two classes */

/* One line of the reservation. */
struct demo_reserve {
	int node;
	enum hugepin_class page_class;
	uint64_t asked, got;		/* pages */
	uint64_t before;		/* held before the demo, to be put back */
};

/* The results, as --json gives them. */
struct demo_results {
	char kernel[72];
	struct demo_reserve reserve[RESERVES_MAX];
	size_t nr_reserve;
	uint64_t region_bytes, region_1g_bytes, region_2m_bytes;
	int region_node;
	uint64_t ready_us, hugetlb_ready_us;
	double ratio;
	uint64_t replay_ops, peak_live_bytes, peak_mapped_bytes;
	double replay_seconds;
	int strict_errno;
	uint64_t fallback_1g_bytes, fallback_2m_bytes;
	uint64_t leaked_pages;
	uint64_t nonzero_bytes_seen;
	uint64_t named_bytes_recovered;
	uint64_t pinned_pages;
	uint64_t quarantined_during_pin, quarantined_after;
};

struct demo {
	const char *trace;
	struct hugepin_context *ctx;
	const char *absent_1g;		/* why there are no 1G pages here, or NULL */
	int node[2];
	unsigned int failures;
	struct demo_results results;
};

/* ---- report.c: what is printed ---- */

void report_section(const char *number, const char *title);
/* "   label        text", broken at 100 columns */
void report_line(const char *label, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_text(const char *text);			/* several lines as they are, indented */
/* Counts a failure and prints the text unless @holds; returns @holds. */
bool report_check(struct demo *demo, bool holds, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Says why a step cannot go on; returns -1. */
int report_stop(struct demo *demo, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What is being done, where it takes longer. On stderr, unless marked. */
void report_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * From now on everything goes to stdout, where order is kept: a line of progress begins with the first of these bytes,
 * the results with the second.
 */
void report_mark(void);
#define REPORT_MARK_PROGRESS	0x1d
#define REPORT_MARK_RESULTS	0x1e

#define TEXT_SIZE	32
const char *text_bytes(uint64_t bytes, char buffer[TEXT_SIZE]);		/* "3.3 GiB" */
const char *text_count(uint64_t n, char buffer[TEXT_SIZE]);		/* "865,280" */
const char *text_us(uint64_t us, char buffer[TEXT_SIZE]);		/* "912 us", "1.31 ms", "6.51 s" */
#define TEXT_PAGES_SIZE	64
const char *text_pages(uint64_t bytes_1g, uint64_t bytes_2m, char buffer[TEXT_PAGES_SIZE]); /* "3 x 1G + 2 x 2M" */

/* ---- json.c: the results as data ---- */

int json_write(const struct demo_results *results, FILE *out);		/* 0 or -errno */

/* ---- memory.c: time, contents ---- */

uint64_t now_us(void);
void sleep_ms(unsigned int ms);
uint64_t random_between(uint64_t low, uint64_t high);
uint64_t memory_nonzero_bytes(const void *memory, uint64_t bytes);
/* A pattern without a zero byte that depends on the place; @offset is @memory's, all multiples of 8. */
void memory_fill(void *memory, uint64_t offset, uint64_t bytes);
uint64_t memory_matching_bytes(const void *memory, uint64_t offset, uint64_t bytes);	/* from the start on */

/* ---- context.c: the library, set up by the demo and not by the environment ---- */

struct setting {
	const char *key, *value;
};
int context_open(const struct setting *settings, size_t count, struct hugepin_context **out);

/* ---- reserve.c: step 1, and looks at the reserve ---- */

struct reserve_sum {
	uint64_t total, clean, dirty, in_use, quarantined, poisoned;		/* pages of all classes */
	uint64_t free_1g, free_2m;						/* clean or dirty */
	uint64_t dirty_bytes;
};
#define NODE_EVERY	(-1)
int reserve_sum(struct hugepin_context *ctx, int node, struct reserve_sum *out);	/* 0 or -errno */
/* Waits until every page of the reserve is free and zeroed again; -1 when that does not happen. */
int reserve_settle(struct demo *demo);
/* Waits until no page is in use or quarantined, dirty or not; the time it took. -1 after @limit_ms. */
int64_t reserve_wait_whole_us(struct hugepin_context *ctx, unsigned int limit_ms);
int step_reserve(struct demo *demo);
int step_give_back(struct demo *demo);

/* ---- ready.c: step 2 ---- */

int step_ready(struct demo *demo);

/* ---- proof.c: what the kernel says of a mapping ---- */

struct proof {
	uint64_t frames;		/* base pages looked at */
	uint64_t elsewhere;		/* of them not on the node */
	uint64_t wrong_size;		/* huge pages that are not of the size they should have */
	uint64_t runs;			/* physically contiguous */
};
/* Asks the test module what pages are really there: @bytes_1g of 1G pages, then @bytes_2m of 2M pages. */
int proof_frames(void *memory, uint64_t bytes_1g, uint64_t bytes_2m, int node, struct proof *out);
/* Physically contiguous runs in any mapping. */
int proof_runs(void *memory, uint64_t bytes, uint64_t *runs);
/* Base pages on @node and elsewhere according to numa_maps; both 0 where it does not tell. */
int proof_numa_maps(const void *memory, int node, uint64_t *here, uint64_t *elsewhere);

/* ---- hugetlb.c: the same from the kernel's own huge pages ---- */

int hugetlb_ready_us(struct demo *demo, uint64_t bytes, int other_than_node, int *node, uint64_t *us);

/* ---- replay.c, shortage.c, death.c, pins.c: steps 3 to 6 ---- */

int step_replay(struct demo *demo);
int step_shortage(struct demo *demo);
int step_death(struct demo *demo);
int step_pins(struct demo *demo);

/* ---- client.c: other processes that use hugepin, to be killed or waited for ---- */

/* Shared between the demo and one client. */
struct client_share {
	uint64_t written_bytes;		/* atomic; how far the writer is */
	uint64_t bytes, bytes_1g, bytes_2m, runs, value, other;	/* what the body wants to tell */
	bool ready;			/* atomic; set by the body */
	char failure[512];		/* empty when all went well */
};
struct client {
	pid_t pid;
	int socket;			/* to the client */
	struct client_share *share;
};
/* @body runs in a process of its own, with a context of its own if it wants one; returning ends it. */
int client_start(void (*body)(struct client_share *share, int socket, const void *arg), const void *arg,
		 struct client *out);
/* Body's side: keeps the reason for the demo and ends the client. */
_Noreturn void client_fail(struct client_share *share, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Waits until @client is ready and has written that much; -1 if it ended before or took too long, told as a failure. */
int client_wait(struct demo *demo, struct client *client, uint64_t written_bytes);
/* Waits for the end of @client; -1 if it failed, told as a failure. */
int client_finish(struct demo *demo, struct client *client);
int client_kill(struct demo *demo, struct client *client);		/* kill -9 and wait; the share stays */
void client_end(struct client *client);					/* whatever its state; frees */
#define CLIENT_FDS_MAX	16
int client_send_fds(int socket, const int *fds, unsigned int count);
int client_receive_fds(int socket, int *fds, unsigned int *count);	/* -errno; *count as sent */

/* ---- spawn.c: other programs ---- */

/* Runs a program; what it printed, NUL-terminated, is to be freed. Its status, 128 + n after signal n, or -errno. */
int spawn_read(char *const argv[], char **output);

#endif /* HUGEPIN_DEMO_H */
