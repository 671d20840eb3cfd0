// SPDX-License-Identifier: MIT
/*
 * Every allocation and every copy between user and kernel fails once: each call is made again and again, with its
 * first, second, third … fault injected (/proc/self/fail-nth), until it gets through without one. After each the
 * reserve, the mount's limits, the names, the pins and the descriptors are as before.
 */
#include <stdlib.h>
#include <unistd.h>

#include "fault.h"
#include "inject.h"
#include "region.h"
#include "reserve.h"

#define FAULTS_MAX	2000	/* no call here comes near: more means that it never gets through */
#define TIMEOUT_S	1200	/* a few hundred calls each, on a slow kernel */

static int lowest_free_descriptor(void)
{
	int fd = CHECK_OK(dup(STDOUT_FILENO));

	close(fd);
	return fd;
}

/* Once, with fault @nth to come; whether it came. */
static bool once(const struct fault_call *call, unsigned int nth, unsigned int *failures)
{
	int descriptor = lowest_free_descriptor(), result;
	const char *changed;
	bool came;

	inject_arm(nth);
	result = call->perform();
	came = !inject_disarm();
	if (result < 0) {
		CHECK(came, "without a fault: %s", strerror(-result));
		CHECK(result == -ENOMEM || result == -EFAULT || result == -call->may_fail_with, "fault %u: %s", nth,
		      strerror(-result));
		(*failures)++;
		if (call->look)
			call->look(nth);
	} else {
		call->undo();
	}
	changed = reserve_hooks.after();
	CHECK(!changed, "fault %u (the call answered %d): %s", nth, result, changed);
	CHECK(lowest_free_descriptor() == descriptor, "fault %u left a descriptor behind", nth);
	return came;
}

static void any_fault_in_it_leaves_no_trace(const void *arg)
{
	const struct fault_call *call = arg;
	unsigned int nth = 1, failures = 0;

	inject_open();
	call->prepare();
	reserve_hooks.before();
	while (once(call, nth, &failures))
		CHECK(++nth < FAULTS_MAX, "still a fault at the %dth", FAULTS_MAX);
	CHECK(nth > 1, "no fault came: nothing was tested");
	ktap_note("%s: %u faults, %u of them made it fail", call->name, nth - 1, failures);
}

int main(int argc, char **argv)
{
	struct ktap_case *cases = calloc(fault_call_count, sizeof(*cases));
	struct ktap_hooks hooks = inject_hooks();
	size_t i;

	if (!cases)
		return KTAP_FAIL;
	for (i = 0; i < fault_call_count; i++)
		cases[i] = (struct ktap_case){
			.name = "any_fault_in_it_leaves_no_trace", .run = any_fault_in_it_leaves_no_trace,
			.arg = &fault_calls[i], .variant = fault_calls[i].name, .timeout_s = TIMEOUT_S,
		};
	return ktap_main(argc, argv, cases, fault_call_count, &hooks);
}
