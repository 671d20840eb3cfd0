// SPDX-License-Identifier: MIT
/*
 * What went wrong, told: the thread's error text behind hugepin_error(), and the log callback.
 *
 * The text lives in a fixed buffer of the thread, so that telling of a failed allocation needs no allocation.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define TEXT_SIZE	1024
#define ELLIPSIS	"..."

static _Thread_local char error_text[TEXT_SIZE];

/*
 * Formats behind the first @used bytes of @buffer, always one line: values quoted in a text come from files and the
 * environment and may hold anything. What does not fit ends in an ellipsis.
 */
static void format_line(char buffer[TEXT_SIZE], size_t used, const char *fmt, va_list args)
{
	int length = vsnprintf(buffer + used, TEXT_SIZE - used, fmt, args);
	char *c;

	if (length < 0)
		buffer[used] = '\0';
	else if ((size_t)length >= TEXT_SIZE - used)
		memcpy(buffer + TEXT_SIZE - sizeof(ELLIPSIS), ELLIPSIS, sizeof(ELLIPSIS));
	for (c = buffer + used; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
}

int hpi_error(int err, const char *fmt, ...)
{
	/* An argument may be the old text: a caller that wraps hugepin_error() into its own. */
	char line[TEXT_SIZE];
	int saved = errno;
	va_list args;

	va_start(args, fmt);
	format_line(line, 0, fmt, args);
	va_end(args);
	memcpy(error_text, line, sizeof(line));
	errno = saved;
	return err;
}

int hpi_error_add(int err, const char *fmt, ...)
{
	char line[TEXT_SIZE];
	size_t used = strlen(error_text);
	int saved = errno;
	va_list args;

	memcpy(line, error_text, sizeof(line));
	/* Room for the separator and for an ellipsis that shows that something is missing. */
	if (used > TEXT_SIZE - 8)
		used = TEXT_SIZE - 8;
	if (used && !strchr(" ,;:", fmt[0])) {
		line[used++] = ';';
		line[used++] = ' ';
	}
	va_start(args, fmt);
	format_line(line, used, fmt, args);
	va_end(args);
	memcpy(error_text, line, sizeof(line));
	errno = saved;
	return err;
}

void hpi_error_clear(void)
{
	error_text[0] = '\0';
}

const char *hugepin_error(void)
{
	return error_text;
}

/* ---- Log ---- */

typedef void log_fn(enum hugepin_log_level level, const char *line, void *arg);

/* A writer goes before new readers: else lines without a gap would keep hugepin_log_set() waiting for good. */
#define LOG_LOCK_FREE	PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP

static pthread_rwlock_t log_lock = LOG_LOCK_FREE;
static log_fn *log_function;		/* under log_lock, with its argument */
static void *log_argument;
static atomic_int log_level = -1;	/* highest level wanted; read without the lock to make silence cheap */
static pthread_once_t log_fork_once = PTHREAD_ONCE_INIT;

/* Another thread may have been inside the callback when this one forked: its hold on the lock has no owner here. */
static void log_after_fork(void)
{
	log_lock = (pthread_rwlock_t)LOG_LOCK_FREE;
}

static void log_watch_fork(void)
{
	pthread_atfork(NULL, NULL, log_after_fork);
}

/* When this returns the former function is not running and will not be called again. */
void hugepin_log_set(log_fn *fn, void *arg, enum hugepin_log_level level)
{
	if (fn)
		pthread_once(&log_fork_once, log_watch_fork);
	pthread_rwlock_wrlock(&log_lock);
	log_function = fn;
	log_argument = arg;
	atomic_store_explicit(&log_level, fn ? (int)level : -1, memory_order_relaxed);
	pthread_rwlock_unlock(&log_lock);
}

void hpi_log(enum hugepin_log_level level, const char *fmt, ...)
{
	char line[TEXT_SIZE];
	int saved = errno;
	va_list args;

	if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
		return;
	va_start(args, fmt);
	format_line(line, 0, fmt, args);
	va_end(args);
	pthread_rwlock_rdlock(&log_lock);
	/* Looked at again: the level may have changed with the function. */
	if (log_function && (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed))
		log_function(level, line, log_argument);
	pthread_rwlock_unlock(&log_lock);
	errno = saved;
}
