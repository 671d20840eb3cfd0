// SPDX-License-Identifier: MIT
/* The stand-in CUDA driver: faults, from tests and from the environment. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

#define FAULTS_MAX	16

struct fault {
	char call[48];
	bool always;
	unsigned int left;		/* else: it strikes when this reaches 0, once */
	CUresult code;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[FAULTS_MAX];
static size_t fault_count;
static uint64_t limit_bytes;
static unsigned int delay_us, devices = 1;
static bool shut_down, with_context, capturing, broken;
static int ledger_fd = -1;

/* ---- the environment ---- */

/* A typing error in a test's environment must not look like a test that passes. */
static void bad_environment(const char *name, const char *value)
{
	fprintf(stderr, "loopback: %s=%s does not parse\n", name, value);
	abort();
}

static uint64_t number(const char *name, const char *text, uint64_t most)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n > most)
		bad_environment(name, text);
	return n;
}

static uint64_t from_environment(const char *name, uint64_t otherwise, uint64_t most)
{
	const char *text = getenv(name);

	return text ? number(name, text, most) : otherwise;
}

static void add_fault(const char *call, size_t length, unsigned int nth, CUresult code)
{
	if (fault_count == FAULTS_MAX || length >= sizeof(faults[0].call))
		abort();
	faults[fault_count] = (struct fault){ .always = !nth, .left = nth, .code = code };
	memcpy(faults[fault_count].call, call, length);
	fault_count++;
}

static void read_fault(void)
{
	static const char name[] = "LOOPBACK_FAIL_NTH";
	const char *text = getenv(name), *nth, *code;
	char field[16];

	if (!text)
		return;
	nth = strchr(text, ':');
	code = nth ? strchr(nth + 1, ':') : NULL;
	if (!code || nth == text || (size_t)(nth - text) >= sizeof(faults[0].call) ||
	    (size_t)(code - nth) > sizeof(field))
		bad_environment(name, text);
	snprintf(field, sizeof(field), "%.*s", (int)(code - nth - 1), nth + 1);
	add_fault(text, (size_t)(nth - text), (unsigned int)number(name, field, 1u << 30),
		  (CUresult)number(name, code + 1, CUDA_ERROR_UNKNOWN));
}

static void __attribute__((constructor)) start(void)
{
	const char *ledger = getenv("LOOPBACK_LEDGER");

	read_fault();
	limit_bytes = from_environment("LOOPBACK_LIMIT_BYTES", 0, UINT64_MAX);
	delay_us = (unsigned int)from_environment("LOOPBACK_DELAY_US", 0, 10000000);
	devices = (unsigned int)from_environment("LOOPBACK_DEVICES", 1, 8);
	shut_down = from_environment("LOOPBACK_SHUTDOWN", 0, 1);
	with_context = from_environment("LOOPBACK_CONTEXT", 0, 1);
	memory_limit(from_environment("LOOPBACK_DEVICE_BYTES", 1ull << 30, UINT64_MAX));
	if (ledger) {
		ledger_fd = open(ledger, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (ledger_fd < 0)
			bad_environment("LOOPBACK_LEDGER", ledger);
	}
}

static void __attribute__((destructor)) finish(void)
{
	struct loopback_ledger l;

	ledger_read(&l);
	driver_ledger_line("exit registrations=%llu unregistrations=%llu dropped=%llu live=%llu misuses=%llu",
			   (unsigned long long)l.registrations, (unsigned long long)l.unregistrations,
			   (unsigned long long)l.dropped, (unsigned long long)l.live, (unsigned long long)l.misuses);
}

void driver_ledger_line(const char *format, ...)
{
	char line[256];
	va_list args;
	int length;

	if (ledger_fd < 0)
		return;
	va_start(args, format);
	length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[length] = '\n';
	if (write(ledger_fd, line, (size_t)length + 1) != length + 1)
		abort();
}

/* ---- asked by the driver ---- */

CUresult driver_fault(const char *call)
{
	CUresult code = CUDA_SUCCESS;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < fault_count; i++) {
		struct fault *f = &faults[i];

		if (strcmp(f->call, call))
			continue;
		if (f->always || (f->left && !--f->left))
			code = f->code;
	}
	if (shut_down)
		code = CUDA_ERROR_DEINITIALIZED;
	pthread_mutex_unlock(&lock);
	return code;
}

uint64_t driver_limit(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	bytes = limit_bytes;
	pthread_mutex_unlock(&lock);
	return bytes;
}

void driver_delay(void)
{
	unsigned int us;

	pthread_mutex_lock(&lock);
	us = delay_us;
	pthread_mutex_unlock(&lock);
	if (us)
		usleep(us);
}

bool driver_capture_check(void)
{
	bool ok;

	pthread_mutex_lock(&lock);
	ok = !capturing || context_capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED;
	if (!ok)
		broken = true;
	pthread_mutex_unlock(&lock);
	return !stream_capture_conflict() && ok;
}

unsigned int driver_devices(void)
{
	unsigned int count;

	pthread_mutex_lock(&lock);
	count = devices;
	pthread_mutex_unlock(&lock);
	return count;
}

bool driver_starts_with_context(void)
{
	return with_context;
}

/* ---- asked by tests ---- */

static void reset(void)
{
	pthread_mutex_lock(&lock);
	fault_count = 0;
	limit_bytes = 0;
	delay_us = 0;
	devices = 1;
	shut_down = with_context = capturing = broken = false;
	pthread_mutex_unlock(&lock);
	stream_reset();
	memory_reset();
	context_reset();
	ledger_reset();
}

static void fail_nth(const char *call, unsigned int nth, int code)
{
	pthread_mutex_lock(&lock);
	add_fault(call, strlen(call), nth, code);
	pthread_mutex_unlock(&lock);
}

static void fail_clear(void)
{
	pthread_mutex_lock(&lock);
	fault_count = 0;
	pthread_mutex_unlock(&lock);
}

static void limit(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	limit_bytes = bytes;
	pthread_mutex_unlock(&lock);
}

static void delay(unsigned int us)
{
	pthread_mutex_lock(&lock);
	delay_us = us;
	pthread_mutex_unlock(&lock);
}

static void set(bool *flag, int on)
{
	pthread_mutex_lock(&lock);
	*flag = on;
	pthread_mutex_unlock(&lock);
}

static void shutdown_driver(int on)
{
	set(&shut_down, on);
}

static void capture(int on)
{
	set(&broken, 0);
	set(&capturing, on);
}

static int capture_broken(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = broken;
	pthread_mutex_unlock(&lock);
	return is || stream_capture_broken();
}

static void set_devices(unsigned int count)
{
	pthread_mutex_lock(&lock);
	devices = count;
	pthread_mutex_unlock(&lock);
}

static void read_ledger(struct loopback_ledger *out)
{
	ledger_read(out);
	stream_read(out);
	memory_read(out);
}

static int is_registered(const void *addr, uint64_t bytes)
{
	return ledger_covers(addr, bytes);
}

static int pins_really(void)
{
	return pin_is_real();
}

EXPORT const struct loopback *loopback_get(void);

EXPORT const struct loopback *loopback_get(void)
{
	static const struct loopback calls = {
		.reset = reset,
		.fail_nth = fail_nth,
		.fail_clear = fail_clear,
		.limit = limit,
		.delay = delay,
		.shutdown = shutdown_driver,
		.capture = capture,
		.capture_broken = capture_broken,
		.ledger = read_ledger,
		.is_registered = is_registered,
		.pins_really = pins_really,
		.devices = set_devices,
		.device_memory = memory_limit,
		.work = stream_work,
		.done = stream_done,
	};

	return &calls;
}
