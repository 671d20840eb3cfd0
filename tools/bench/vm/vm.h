/* SPDX-License-Identifier: MIT */
/*
 * hugepin-bench-vm: what the module costs, measured beside the kernel's own pages, inside a machine that has the
 * module. Prototypes are grouped under the file that defines them. What returns int answers 0, or -1 when it could not
 * be carried out; why has been said by then.
 */
#ifndef HUGEPIN_BENCH_VM_H
#define HUGEPIN_BENCH_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hugepin.h>

#define KIB(n)		((uint64_t)(n) << 10)
#define MIB(n)		((uint64_t)(n) << 20)
#define GIB(n)		((uint64_t)(n) << 30)
#define LINE_BYTES	64
#define NODE		0		/* the machine has no other */

struct machine {
	struct hugepin_context *ctx;
	bool has_1g;
	uint64_t bytes;			/* of memory that is made ready, pinned, registered; whole GiB */
	unsigned int repetitions;
};

/* ---- main.c ---- */

/* One measurement, a line of its own on stdout: BENCH, CASE, THREADS, UNIT, WHO, VALUE, with tabs between. */
void tell(const char *bench, const char *name, unsigned int threads, const char *unit, const char *who, double value);
void progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));	/* -1 */
double now_ms(void);
void run_on(int cpu);			/* -1: on all */

/* ---- kernel.c: the kernel's own pages ---- */

struct peer {
	const char *name;
	unsigned int huge_shift;	/* of hugetlb pages; 0: not such */
	int advice;			/* madvise() of others */
};

extern const struct peer peer_hugetlb_2m, peer_hugetlb_1g, peer_thp, peer_base;

/* Every byte mapped, zeroed, with its page-table entry; NULL, and said. */
void *peer_map(const struct peer *peer, uint64_t bytes);
void peer_unmap(void *memory, uint64_t bytes);
/* Puts as many bytes into the kernel's pool of such pages; less is an error, and given back. */
int peer_reserve(const struct peer *peer, uint64_t bytes);
/* A number in a file of sysfs or procfs. */
int knob_read(const char *path, uint64_t *value);
int knob_write(const char *path, uint64_t value);

/* ---- region.c: the module's ---- */

const char *class_name(enum hugepin_class page_class);
uint64_t class_bytes(enum hugepin_class page_class);
int reserve_set(const struct machine *m, enum hugepin_class page_class, uint64_t bytes);
/* Waits until every free page is zeroed, or, with the scrubber off, until none is in use. */
int reserve_settle(const struct machine *m);
int scrub_enable(bool on);
/* A region of @bytes in pages of one class, mapped and populated; how long that took is in *@ms. */
int region_make(const struct machine *m, enum hugepin_class page_class, uint64_t bytes, struct hugepin_region **region,
		void **memory, double *ms);
/* That every line of new memory begins with zeros. Then writes to all of them. */
int memory_check_and_dirty(void *memory, uint64_t bytes);
/* A region whose pages are all written to, and gone: that many are dirty, with the scrubber off. */
int reserve_make_dirty(const struct machine *m, enum hugepin_class page_class, uint64_t bytes);

/* ---- what is measured ---- */

int bench_bringup(const struct machine *m);		/* bringup.c */
int bench_bringup_dirty(const struct machine *m);
int bench_scrub(const struct machine *m);		/* scrub.c */
int bench_pin(const struct machine *m);			/* pin.c */
int bench_register(const struct machine *m);		/* register.c */
int bench_calls(const struct machine *m);		/* calls.c */
int bench_limits(const struct machine *m);		/* limits.c */
int bench_memory(const struct machine *m);		/* cost.c */

#endif /* HUGEPIN_BENCH_VM_H */
