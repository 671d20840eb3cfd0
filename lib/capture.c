// SPDX-License-Identifier: MIT
/*
 * Streams that the program named while they were being captured into a graph. Runtimes tell of captures of a stream
 * that one can name, and of few others; so what was named is remembered until its capture is seen to have ended.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "internal.h"

struct capture {
	bool (*is_capturing)(void *stream);	/* of the runtime that it is a stream of */
	void *stream;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static size_t count, room;

/* Lock held. */
static int make_room(void)
{
	size_t more = room ? 2 * room : 16;
	struct capture *larger;

	if (count < room)
		return 0;
	larger = hpi_sys_fault && hpi_sys_fault("realloc") ? NULL : realloc(captures, more * sizeof(*captures));
	if (!larger)
		return hpi_error(-ENOBUFS, "no memory to remember that a stream is being captured, beside %zu others", count);
	captures = larger;
	room = more;
	return 0;
}

int hpi_capture_note(bool (*is_capturing)(void *stream), void *stream)
{
	int err = 0;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < count && (captures[i].stream != stream || captures[i].is_capturing != is_capturing); i++)
		;
	if (i == count)
		err = make_room();
	if (i == count && !err)
		captures[count++] = (struct capture){ .is_capturing = is_capturing, .stream = stream };
	pthread_mutex_unlock(&lock);
	return err;
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
