/* SPDX-License-Identifier: MIT */
/*
 * What the tests of runtimes share: the stand-in that a test has loaded and its ledger, the calls of it that the
 * program makes by itself, contexts with options, and a look at the error text.
 */
#ifndef HUGEPIN_TESTS_RUNTIME_WORLD_H
#define HUGEPIN_TESTS_RUNTIME_WORLD_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../loopback/loopback.h"
#include "internal.h"

static struct loopback loopback;

/* A call of the runtime's, and the variable that the test calls it by. */
struct runtime_call {
	const char *name;
	void **function;
};

#define RUNTIME_CALL(call)	{ #call, (void **)&call }

/* The stand-in of @library and @count calls of it. */
static inline void load_runtime(const char *library, const struct runtime_call calls[], size_t count)
{
	size_t i;

	assert_int_equal(loopback_load_from(library, &loopback), 0);
	for (i = 0; i < count; i++) {
		*calls[i].function = dlsym(dlopen(library, RTLD_NOW), calls[i].name);
		if (!*calls[i].function)
			fail_msg("%s has no %s", library, calls[i].name);
	}
}

#define LOAD_RUNTIME(library, calls)	load_runtime(library, calls, sizeof(calls) / sizeof((calls)[0]))

static inline struct loopback_ledger ledger_now(void)
{
	struct loopback_ledger ledger;

	loopback.ledger(&ledger);
	return ledger;
}

/* Options as key, value, ... NULL. */
static inline struct hugepin_context *vcontext_with(const char *runtime, va_list args)
{
	struct hugepin_options *options;
	struct hugepin_context *made;
	const char *key;

	assert_int_equal(hugepin_options_create(&options), 0);
	assert_int_equal(hugepin_options_set(options, "runtime", runtime), 0);
	while ((key = va_arg(args, const char *)))
		assert_int_equal(hugepin_options_set(options, key, va_arg(args, const char *)), 0);
	if (hugepin_context_create(options, &made))
		fail_msg("%s", hugepin_error());
	hugepin_options_destroy(options);
	return made;
}

static inline struct hugepin_context *context_with(const char *runtime, ...)
{
	struct hugepin_context *made;
	va_list args;

	va_start(args, runtime);
	made = vcontext_with(runtime, args);
	va_end(args);
	return made;
}

static inline void assert_text(const char *part)
{
	if (!strstr(hugepin_error(), part))
		fail_msg("\"%s\" does not have \"%s\"", hugepin_error(), part);
}

/* Memory to register. */
static inline char *map_memory(uint64_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

#endif /* HUGEPIN_TESTS_RUNTIME_WORLD_H */
