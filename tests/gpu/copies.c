// SPDX-License-Identifier: MIT
/* The check on a GPU: copies both ways, by page size, beside memory that the driver allocated, and what arrived. */
#include "gpu.h"

#include <stdio.h>
#include <string.h>

#define REPEATS	5

static device_ptr device;
static uint64_t bytes;
static stream_t stream;

static double best_rate(char *host, bool to_device)
{
	double best = 0, start, took;
	int i;

	for (i = 0; i < REPEATS; i++) {
		start = now_s();
		must(to_device ? gpu.copy_to_device(device, host, bytes, stream) :
				 gpu.copy_to_host(host, device, bytes, stream), "copy");
		must(gpu.stream_synchronize(stream), "copy");
		took = now_s() - start;
		if (!best || took < best)
			best = took;
	}
	return (double)bytes / (double)GIB / best;
}

static void fill(char *host, uint64_t salt)
{
	uint64_t *words = (uint64_t *)host, i;

	for (i = 0; i < bytes / 8; i++)
		words[i] = i * 0x9e3779b97f4a7c15ull + salt;
}

static bool is_filled(const char *host, uint64_t salt)
{
	const uint64_t *words = (const uint64_t *)host;
	uint64_t i;

	for (i = 0; i < bytes / 8; i++)
		if (words[i] != i * 0x9e3779b97f4a7c15ull + salt)
			return false;
	return true;
}

static void copy_with(char *host, const char *how)
{
	uint64_t salt = (uintptr_t)host;

	fill(host, salt);
	report_value("host to device", how, best_rate(host, true), "GiB/s");
	memset(host, 0, bytes);
	report_value("device to host", how, best_rate(host, false), "GiB/s");
	report_check("bytes that went there and back", is_filled(host, salt), "%s", how);
}

static void copy_pages(const struct pages *pages)
{
	const char *why;
	char how[64], *host = pages_map(pages, work_bytes, &why);

	snprintf(how, sizeof(how), "registered, %s pages", pages->name);
	if (!host) {
		report_skip(how, why);
		return;
	}
	must(gpu.host_register(host, work_bytes, PORTABLE), "cuMemHostRegister");
	copy_with(host, how);
	must(gpu.host_unregister(host), "cuMemHostUnregister");
	pages_unmap(host, work_bytes);
}

void check_copies(void)
{
	void *host;
	size_t i;

	bytes = work_bytes < GIB ? work_bytes : GIB;
	must(gpu.mem_alloc(&device, bytes), "cuMemAlloc");
	must(gpu.stream_create(&stream, NON_BLOCKING), "cuStreamCreate");
	must(gpu.host_alloc(&host, bytes, PORTABLE), "cuMemHostAlloc");
	copy_with(host, "cuMemHostAlloc");
	must(gpu.host_free(host), "cuMemFreeHost");
	for (i = 0; i < 3; i++)
		copy_pages(&page_sizes[i]);
	must(gpu.stream_destroy(stream), "cuStreamDestroy");
	must(gpu.mem_free(device), "cuMemFree");
}
