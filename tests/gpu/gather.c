// SPDX-License-Identifier: MIT
/*
 * The check on a GPU: random rows of a table in host memory, gathered by a kernel, as an embedding table is read. What
 * differs between page sizes is how many translations the device and the IOMMU need.
 */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_BYTES	512u
#define REPEATS		3

/* A block of 32 threads copies one row, 16 bytes a thread. */
static const char kernel[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry gather(.param .u64 table, .param .u64 index, .param .u64 out)\n"
	"{\n"
	"	.reg .b32 %r<8>;\n"
	"	.reg .b64 %rd<16>;\n"
	"	ld.param.u64 %rd1, [table];\n"
	"	ld.param.u64 %rd2, [index];\n"
	"	ld.param.u64 %rd3, [out];\n"
	"	cvta.to.global.u64 %rd1, %rd1;\n"
	"	cvta.to.global.u64 %rd2, %rd2;\n"
	"	cvta.to.global.u64 %rd3, %rd3;\n"
	"	mov.u32 %r1, %ctaid.x;\n"
	"	mov.u32 %r2, %tid.x;\n"
	"	mul.wide.u32 %rd4, %r1, 8;\n"
	"	add.s64 %rd5, %rd2, %rd4;\n"
	"	ld.global.u64 %rd6, [%rd5];\n"
	"	shl.b64 %rd7, %rd6, 9;\n"
	"	mul.wide.u32 %rd8, %r2, 16;\n"
	"	add.s64 %rd9, %rd1, %rd7;\n"
	"	add.s64 %rd9, %rd9, %rd8;\n"
	"	ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd9];\n"
	"	mul.wide.u32 %rd10, %r1, 512;\n"
	"	add.s64 %rd11, %rd3, %rd10;\n"
	"	add.s64 %rd11, %rd11, %rd8;\n"
	"	st.global.v4.u32 [%rd11], {%r3, %r4, %r5, %r6};\n"
	"	ret;\n"
	"}\n";

static void *function;
static stream_t stream;
static uint64_t rows, gathered;
static uint64_t *index_host;
static device_ptr index_device, out;

static void write_table(char *table)
{
	uint64_t row;

	for (row = 0; row < rows; row++)
		*(uint64_t *)(table + row * ROW_BYTES) = row ^ 0x5bd1e995;
}

/* The same rows for every page size. */
static void choose_rows(void)
{
	uint64_t seed = 88172645463325252ull, i;

	for (i = 0; i < gathered; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		index_host[i] = seed % rows;
	}
	must(gpu.copy_to_device(index_device, index_host, gathered * 8, stream), "copy");
	must(gpu.stream_synchronize(stream), "copy");
}

static bool is_gathered(void)
{
	char *back = malloc(gathered * ROW_BYTES);
	bool right = true;
	uint64_t i;

	must(!back, "no memory");
	must(gpu.copy_to_host(back, out, gathered * ROW_BYTES, stream), "copy");
	must(gpu.stream_synchronize(stream), "copy");
	for (i = 0; i < gathered && right; i++)
		right = *(uint64_t *)(back + i * ROW_BYTES) == (index_host[i] ^ 0x5bd1e995);
	free(back);
	return right;
}

static void gather_from(const struct pages *pages)
{
	const char *why;
	char how[64], *table = pages_map(pages, work_bytes, &why);
	device_ptr table_device;
	void *parameters[] = { &table_device, &index_device, &out };
	double best = 0, start, took;
	int i;

	snprintf(how, sizeof(how), "%u-byte rows, %s pages", ROW_BYTES, pages->name);
	if (!table) {
		report_skip(how, why);
		return;
	}
	write_table(table);
	must(gpu.host_register(table, work_bytes, PORTABLE), "cuMemHostRegister");
	must(gpu.host_device_pointer(&table_device, table, 0), "cuMemHostGetDevicePointer");
	for (i = 0; i < REPEATS; i++) {
		must(gpu.set(out, 0, gathered * ROW_BYTES, stream), "cuMemsetD8Async");
		must(gpu.stream_synchronize(stream), "cuMemsetD8Async");
		start = now_s();
		must(gpu.launch(function, (unsigned int)gathered, 1, 1, 32, 1, 1, 0, stream, parameters, NULL),
		     "cuLaunchKernel");
		must(gpu.stream_synchronize(stream), "gather");
		took = now_s() - start;
		if (!best || took < best)
			best = took;
	}
	report_value("gather by a kernel", how, (double)(gathered * ROW_BYTES) / (double)GIB / best, "GiB/s");
	report_check("rows gathered", is_gathered(), "%s, %llu of %llu", how, (unsigned long long)gathered,
		     (unsigned long long)rows);
	must(gpu.host_unregister(table), "cuMemHostUnregister");
	pages_unmap(table, work_bytes);
}

void check_gather(void)
{
	void *module;
	size_t i;
	int code;

	if (!gpu.module_load || !gpu.module_function || !gpu.launch) {
		report_skip("gather by a kernel", "this driver launches nothing");
		return;
	}
	code = gpu.module_load(&module, kernel);
	report_check("the kernel is loaded", !code, "code %d", code);
	if (code)
		return;
	rows = work_bytes / ROW_BYTES;
	gathered = rows / 8 < MIB ? rows / 8 : MIB;
	index_host = malloc(gathered * 8);
	must(!index_host, "no memory");
	must(gpu.module_function(&function, module, "gather"), "cuModuleGetFunction");
	must(gpu.stream_create(&stream, NON_BLOCKING), "cuStreamCreate");
	must(gpu.mem_alloc(&index_device, gathered * 8), "cuMemAlloc");
	must(gpu.mem_alloc(&out, gathered * ROW_BYTES), "cuMemAlloc");
	choose_rows();
	for (i = 0; i < 3; i++)
		gather_from(&page_sizes[i]);
	must(gpu.mem_free(out), "cuMemFree");
	must(gpu.mem_free(index_device), "cuMemFree");
	must(gpu.stream_destroy(stream), "cuStreamDestroy");
	free(index_host);
}
