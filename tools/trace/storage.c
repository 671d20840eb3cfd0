// SPDX-License-Identifier: MIT
/* Whole files in and out, plain or zstd. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "format.h"

#define ZSTD_LEVEL 19		/* recordings are written once and read often */
#define READ_BYTES 65536u

static const uint8_t zstd_magic[4] = { 0x28, 0xb5, 0x2f, 0xfd };

__attribute__((format(printf, 4, 5)))
static int fail(char *why, size_t why_bytes, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (why_bytes)
		vsnprintf(why, why_bytes, format, args);
	va_end(args);
	return error;
}

/* ---- Loading ---- */

struct loaded {
	uint8_t *data;
	size_t bytes;
	size_t capacity;
};

/* Room for some more, by doubling: the size of what is to come is never taken from the file's own word. */
static int make_room(struct loaded *loaded)
{
	size_t capacity = loaded->capacity ? loaded->capacity * 2 : 2 * READ_BYTES;
	uint8_t *grown;

	if (loaded->bytes > HP_TRACE_MAX_FILE_BYTES)
		return -EFBIG;
	if (loaded->capacity - loaded->bytes >= READ_BYTES)
		return 0;
	grown = realloc(loaded->data, capacity);
	if (!grown)
		return -ENOMEM;
	loaded->data = grown;
	loaded->capacity = capacity;
	return 0;
}

static int read_all(int fd, struct loaded *loaded)
{
	for (;;) {
		ssize_t got;
		int rc = make_room(loaded);

		if (rc)
			return rc;
		got = read(fd, loaded->data + loaded->bytes, loaded->capacity - loaded->bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			return 0;
		loaded->bytes += (size_t)got;
	}
}

/* Return: 0, -EBADMSG, -ENODATA, -ENOMEM, -EFBIG */
static int decompress(const struct loaded *packed, struct loaded *plain)
{
	ZSTD_inBuffer in = { packed->data, packed->bytes, 0 };
	ZSTD_DStream *stream = ZSTD_createDStream();
	size_t hint = 1;
	int rc = 0;

	if (!stream)
		return -ENOMEM;
	/* One frame: 0 says that it is complete. Full output with nothing left to read still has to be drained. */
	while (hint) {
		ZSTD_outBuffer out;
		size_t in_before = in.pos;

		rc = make_room(plain);
		if (rc)
			break;
		out = (ZSTD_outBuffer){ plain->data + plain->bytes, plain->capacity - plain->bytes, 0 };
		hint = ZSTD_decompressStream(stream, &out, &in);
		if (ZSTD_isError(hint)) {
			rc = -EBADMSG;
			break;
		}
		plain->bytes += out.pos;
		if (hint && in.pos == in_before && !out.pos) {
			rc = -ENODATA;
			break;
		}
	}
	if (!rc && plain->bytes > HP_TRACE_MAX_FILE_BYTES)
		rc = -EFBIG;
	if (!rc && in.pos != in.size)
		rc = -EBADMSG;
	ZSTD_freeDStream(stream);
	return rc;
}

int hp_trace_load(const char *path, void **data, size_t *bytes, char *why, size_t why_bytes)
{
	struct loaded file = { 0 }, plain = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc;

	if (fd < 0) {
		rc = -errno;
		return fail(why, why_bytes, rc, "cannot open: %s", strerror(-rc));
	}
	rc = read_all(fd, &file);
	close(fd);
	if (rc) {
		fail(why, why_bytes, rc, "cannot read: %s", strerror(-rc));
		goto out;
	}
	if (file.bytes < sizeof(zstd_magic) || memcmp(file.data, zstd_magic, sizeof(zstd_magic))) {
		plain = file;
		file.data = NULL;
	} else {
		rc = decompress(&file, &plain);
		if (rc)
			fail(why, why_bytes, rc, "the zstd stream is %s",
			     rc == -ENODATA ? "cut short" : rc == -EBADMSG ? "damaged" : strerror(-rc));
	}
	if (!rc) {
		*data = plain.data;
		*bytes = plain.bytes;
		plain.data = NULL;
	}
out:
	free(plain.data);
	free(file.data);
	return rc;
}

/* ---- Storing ---- */

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		ssize_t put = write(fd, data, bytes);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		data += put;
		bytes -= (size_t)put;
	}
	return 0;
}

static int write_file(const char *path, const void *data, size_t bytes)
{
	char *temporary;
	mode_t mask;
	int fd, rc;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkstemp(temporary);
	if (fd < 0) {
		rc = -errno;
		goto no_file;
	}
	mask = umask(0);
	umask(mask);
	rc = write_all(fd, data, bytes);
	if (!rc && (fchmod(fd, 0666 & ~mask) || fsync(fd)))
		rc = -errno;
	if (close(fd) && !rc)
		rc = -errno;
	if (!rc && rename(temporary, path))
		rc = -errno;
	if (rc)
		unlink(temporary);
no_file:
	free(temporary);
	return rc;
}

static int compress_whole(const void *data, size_t bytes, void **packed, size_t *packed_bytes)
{
	size_t room = ZSTD_compressBound(bytes);
	void *out = malloc(room);
	size_t got;

	if (!out)
		return -ENOMEM;
	got = ZSTD_compress(out, room, data, bytes, ZSTD_LEVEL);
	if (ZSTD_isError(got)) {
		free(out);
		return -ENOMEM;
	}
	*packed = out;
	*packed_bytes = got;
	return 0;
}

int hp_trace_store(const char *path, const void *data, size_t bytes, char *why, size_t why_bytes)
{
	size_t length = strlen(path);
	void *packed = NULL;
	int rc = 0;

	if (length > 4 && !strcmp(path + length - 4, ".zst"))
		rc = compress_whole(data, bytes, &packed, &bytes);
	if (!rc)
		rc = write_file(path, packed ? packed : data, bytes);
	free(packed);
	if (rc)
		fail(why, why_bytes, rc, "cannot write: %s", strerror(-rc));
	return rc;
}
