// SPDX-License-Identifier: MIT
/*
 * Only under the shim: what it does when it cannot wait for the device, or when memory runs out.
 */
#include <string.h>

#include "cudart.h"
#include "expect.h"
#include "loopback.h"

#define MIB	((size_t)1 << 20)

static struct loopback driver;

static char *take(size_t bytes)
{
	void *block = NULL;

	EXPECT_CODE(cudaHostAlloc(&block, bytes, 0), 0);
	return block;
}

static void a_block_freed_during_a_capture_is_used_again_only_after_a_wait(void)
{
	char *block = take(40 * MIB), *other = take(MIB), *next;

	driver.fail_nth("cuCtxSynchronize", 1, 900);
	EXPECT_CODE(cudaFreeHost(block), 0);
	next = take(40 * MIB);
	EXPECT(next != block);
	EXPECT_CODE(cudaFreeHost(other), 0);		/* this wait succeeds: the block is free now */
	other = take(40 * MIB);
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
	EXPECT_CODE(cudaFreeHost(take(4096)), 0);
	EXPECT(!loopback_load(&driver));
	a_block_freed_during_a_capture_is_used_again_only_after_a_wait();
	an_error_of_earlier_work_is_told_by_the_free();
	what_the_driver_will_not_register_it_allocates_itself();
	puts("ok");
	return 0;
}
