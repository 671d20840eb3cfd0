/* SPDX-License-Identifier: MIT */
/* What doctor finds: one line for each thing looked at, and what to do about it. */
#ifndef HUGEPINCTL_DOCTOR_H
#define HUGEPINCTL_DOCTOR_H

#include "host.h"

enum health { HEALTH_OK, HEALTH_WARN, HEALTH_BAD, HEALTH_COUNT };

#define FINDINGS_MAX	64

struct finding {
	enum health health;
	const char *subject;
	char text[256];
	char advice[256];		/* "" where there is nothing to do */
};
struct doctor {
	struct finding findings[FINDINGS_MAX];
	size_t count;
};

/* ---- doctor.c ---- */

void found(struct doctor *doctor, enum health health, const char *subject, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Of what was found last. */
void advice(struct doctor *doctor, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- doctor_module.c: the module, as this process can use it ---- */

struct reserve_view {
	bool there;
	bool library_fails;		/* no call of the library's works here */
	struct snapshot snapshot;	/* of the reserve, when @there */
	struct message why;		/* when not */
	int err;
};
void examine_module(struct doctor *doctor, const struct reserve_view *view);
void examine_reserve(struct doctor *doctor, const struct reserve_view *view);

/* ---- doctor_host.c: what is around it ---- */

void examine_host(struct doctor *doctor);

/* ---- doctor_runtime.c: accelerators, their runtimes, and the way their transfers take ---- */

void examine_runtimes(struct doctor *doctor, const struct reserve_view *view);

#endif /* HUGEPINCTL_DOCTOR_H */
