/* SPDX-License-Identifier: MIT */
/* The reserve as the self-tests see it: snapshots, knobs, and the rule that every case leaves it as it found it. */
#ifndef HUGEPIN_KSELFTEST_RESERVE_H
#define HUGEPIN_KSELFTEST_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "ktap.h"
#include "uapi/hugepin.h"

#define RESERVE_ENTRIES	128
#define SETTLE_MS	5000	/* pages may take that long to come back: delayed puts, the quarantine */

struct reserve {
	struct hugepin_info info;
	struct hugepin_info_pages pages[RESERVE_ENTRIES];
};

/* Hooks that compare the reserve before and after each case and put the knobs back; give them to ktap_main(). */
extern const struct ktap_hooks reserve_hooks;

void reserve_read(struct reserve *reserve);
/* The entry of @node and @class in a fresh snapshot; all zero if there is none. */
struct hugepin_info_pages reserve_of(unsigned int node, unsigned int class);
uint64_t reserve_free_pages(unsigned int node, unsigned int class);
uint64_t reserve_free_class(unsigned int class);	/* summed over the nodes */
bool class_absent(unsigned int class);
unsigned int reserve_nodes(unsigned int *nodes, unsigned int room);	/* ids; how many there are */
/* The node with most free pages of the class; fails the case when none has @at_least. */
unsigned int reserve_node_with(unsigned int class, uint64_t at_least);

/* Fails the case, naming @what, unless everything but the cleanness of free pages is as before. */
void reserve_check_same(const struct reserve *before, const char *what);

/* Waits up to SETTLE_MS until the predicate holds for a fresh snapshot; whether it came to. */
bool reserve_wait(bool (*holds)(const struct reserve *reserve, const void *arg), const void *arg);
bool reserve_wait_quarantined(unsigned int node, unsigned int class, uint64_t pages);

/* Files of /sys/class/misc/hugepin/nodeN/hugepages-<kB>kB/. Writing answers 0 or -errno. */
void knob_path(char *path, size_t room, unsigned int node, unsigned int class, const char *file);
int knob_write_text(unsigned int node, unsigned int class, const char *file, const char *text, size_t length);
int knob_write(unsigned int node, unsigned int class, const char *file, uint64_t value);
uint64_t knob_read(unsigned int node, unsigned int class, const char *file);

/* Small files. Reading gives the first line, without the newline; writing answers 0 or -errno. */
bool file_read(const char *path, char *text, size_t room);
int file_write(const char *path, const char *text);

/* Of files of several lines, up to 8 KiB: what follows the first @key, or NULL; and that as a number, or 0. */
const char *file_after(const char *path, const char *key);
unsigned long long file_number(const char *path, const char *key);

#endif /* HUGEPIN_KSELFTEST_RESERVE_H */
