// SPDX-License-Identifier: MIT
/* Helper threads take neither signals nor the CPUs of who starts them. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "internal.h"

struct seen {
	sigset_t blocked;
	cpu_set_t cpus;
	char name[16];
};

static void look(void *arg)
{
	struct seen *seen = arg;

	pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
	sched_getaffinity(0, sizeof(seen->cpus), &seen->cpus);
	pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
}

/* Started by a thread of the program that is pinned to one CPU and takes a signal. */
static void *start_one(void *arg)
{
	sigset_t none, after;
	pthread_t thread;
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	assert_int_equal(hpi_thread_start("hugepin-test", look, arg, &thread), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_false(sigismember(&after, SIGUSR1));
	return NULL;
}

static void helper_takes_neither_signals_nor_its_creators_cpus(void **state)
{
	cpu_set_t process;
	struct seen seen;
	pthread_t creator;
	int signal;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(process), &process), 0);
	if (CPU_COUNT(&process) < 2) {
		print_message("one CPU: a pinned thread has all there are\n");
		skip();
	}
	assert_int_equal(pthread_create(&creator, NULL, start_one, &seen), 0);
	assert_int_equal(pthread_join(creator, NULL), 0);
	for (signal = 1; signal < 32; signal++)
		assert_true(signal == SIGKILL || signal == SIGSTOP || sigismember(&seen.blocked, signal));
	assert_true(CPU_EQUAL(&seen.cpus, &process));
	assert_string_equal(seen.name, "hugepin-test");
}

static const char *failing;
static int failure;

static int inject(const char *call)
{
	return strcmp(call, failing) ? 0 : failure;
}

static void failure_to_start_is_told_and_leaves_the_signal_mask(void **state)
{
	struct seen seen;
	pthread_t thread;
	sigset_t after;

	(void)state;
	hpi_sys_fault = inject;
	failing = "malloc";
	failure = ENOMEM;
	assert_int_equal(hpi_thread_start("hugepin-test", look, &seen, &thread), -ENOMEM);
	failing = "pthread_create";
	failure = EAGAIN;
	assert_int_equal(hpi_thread_start("hugepin-test", look, &seen, &thread), -EAGAIN);
	hpi_sys_fault = NULL;
	assert_non_null(strstr(hugepin_error(), "hugepin-test"));
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_false(sigismember(&after, SIGUSR1));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(helper_takes_neither_signals_nor_its_creators_cpus),
		cmocka_unit_test(failure_to_start_is_told_and_leaves_the_signal_mask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
