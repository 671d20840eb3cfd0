/* SPDX-License-Identifier: MIT */
/* Little-endian numbers at the header's offsets (format.h), for read.c and write.c. */
#ifndef HUGEPIN_TRACE_BYTES_H
#define HUGEPIN_TRACE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

enum hp_trace_offset {
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_HEADER_BYTES = 10,
	AT_FLAGS = 12,
	AT_MIN_BYTES = 16,
	AT_EVENTS = 24,
	AT_BLOCKS = 32,
	AT_PEAK_LIVE = 40,
	AT_LIVE_AT_END = 48,
	AT_SMALL_ALLOCS = 56,
	AT_DURATION = 64,
	AT_THREADS = 72,
	AT_LARGEST_ALIGN = 76,
	AT_BODY_BYTES = 80,
	AT_ZERO = 88,
	AT_HEADER_CRC = 92,
};

#define HP_TRACE_TRAILER_MAGIC "HPTE"

#define TAG_KIND 0x03u
#define TAG_THREAD 0x04u
#define TAG_ALIGN_SHIFT 3

static inline uint16_t get16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static inline uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static inline uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static inline void put16(uint8_t *at, uint16_t value)
{
	value = htole16(value);
	memcpy(at, &value, sizeof(value));
}

static inline void put32(uint8_t *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static inline void put64(uint8_t *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
}

#endif
