// SPDX-License-Identifier: MIT
/*
 * Streams that the program named while they were being captured into a graph. Runtimes tell of captures of a stream
 * that one can name, and of few others; so what was named is remembered until its capture is seen to have ended.
 */
#include <pthread.h>

#include "internal.h"

#define CAPTURES_MAX	32			/* a process captures one or two at a time */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	bool (*is_capturing)(void *stream);	/* of the runtime that it is a stream of */
	void *stream;
} captures[CAPTURES_MAX];
static size_t count;

void hpi_capture_note(bool (*is_capturing)(void *stream), void *stream)
{
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < count && (captures[i].stream != stream || captures[i].is_capturing != is_capturing); i++)
		;
	if (i == count && count < CAPTURES_MAX) {
		captures[count].is_capturing = is_capturing;
		captures[count++].stream = stream;
	}
	pthread_mutex_unlock(&lock);
}

bool hpi_capture_pending(bool (*is_capturing)(void *stream))
{
	bool pending = false;
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < count && !pending) {
		pending = captures[i].is_capturing == is_capturing && is_capturing(captures[i].stream);
		if (pending || captures[i].is_capturing != is_capturing)
			i++;
		else
			captures[i] = captures[--count];
	}
	pthread_mutex_unlock(&lock);
	return pending;
}
