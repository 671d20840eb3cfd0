// SPDX-License-Identifier: MIT
/*
 * Only under the shim: what it does when it cannot wait for the device, or when memory runs out.
 */
#include <string.h>
#include <unistd.h>

#include "cudart.h"
#include "expect.h"
#include "loopback.h"

#define MIB	((size_t)1 << 20)

static struct loopback driver;
static int (*stream_create)(void **out, unsigned int flags);
static int (*begin_capture)(void *stream, int mode);
static int (*end_capture)(void *stream, void **graph);

static char *take(size_t bytes)
{
	void *block = NULL;

	EXPECT_CODE(cudaHostAlloc(&block, bytes, 0), 0);
	return block;
}

/* The library finds out by itself when the capture has ended: no other free is needed. */
static void a_block_freed_during_a_capture_is_used_again_after_it(void)
{
	char *block = take(40 * MIB), *next, *other;
	void *stream = NULL, *graph = NULL;
	unsigned int tries = 0;

	EXPECT_CODE(stream_create(&stream, 0), 0);
	EXPECT_CODE(begin_capture(stream, 0), 0);
	EXPECT_CODE(cudaFreeHost(block), 0);
	usleep(20000);
	next = take(40 * MIB);
	EXPECT(next != block);
	EXPECT(!driver.capture_broken());
	EXPECT_CODE(end_capture(stream, &graph), 0);
	EXPECT(graph);
	while ((other = take(40 * MIB)) != block && ++tries < 1000) {
		EXPECT_CODE(cudaFreeHost(other), 0);
		usleep(10000);
	}
	EXPECT(other == block);
	EXPECT_CODE(cudaFreeHost(other), 0);
	EXPECT_CODE(cudaFreeHost(next), 0);
}

static void an_error_of_earlier_work_is_told_by_the_free(void)
{
	char *block = take(MIB);

	driver.fail_nth("cuCtxSynchronize", 1, 700);
	EXPECT_CODE(cudaFreeHost(block), 700);
	EXPECT_CODE(cudaFreeHost(block), 1);
	block = take(MIB);
	driver.fail_nth("cuStreamIsCapturing", 1, 700);
	EXPECT_CODE(cudaFreeHost(block), 700);
}

static void what_the_driver_will_not_register_it_allocates_itself(void)
{
	char *block;

	driver.fail_nth("cuMemHostRegister", 0, 999);
	block = take(700 * MIB);	/* more than is mapped */
	memset(block, 1, 700 * MIB);
	EXPECT_CODE(cudaFreeHost(block), 0);
}

int main(void)
{
	void *library;

	EXPECT_CODE(cudaFreeHost(take(4096)), 0);
	EXPECT(!loopback_load(&driver));
	library = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&stream_create = dlsym(library, "cuStreamCreate");
	*(void **)&begin_capture = dlsym(library, "cuStreamBeginCapture_v2");
	*(void **)&end_capture = dlsym(library, "cuStreamEndCapture");
	EXPECT(stream_create && begin_capture && end_capture);
	a_block_freed_during_a_capture_is_used_again_after_it();
	an_error_of_earlier_work_is_told_by_the_free();
	what_the_driver_will_not_register_it_allocates_itself();
	puts("ok");
	return 0;
}
