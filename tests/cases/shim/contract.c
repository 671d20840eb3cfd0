// SPDX-License-Identifier: MIT
/*
 * What a program may find out about pinned memory: it must be the same with the shim and without. Every answer here was
 * asked of the stand-in driver, whose answers are C026's; the program is run both ways.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cudart.h"
#include "expect.h"
#include "loopback.h"

#define MIB		((size_t)1 << 20)
#define PORTABLE	1u
#define MAPPED		2u
#define WRITE_COMBINED	4u

int cuMemHostAlloc(void **out, size_t bytes, unsigned int flags);
int cuMemAllocHost(void **out, size_t bytes);
int cuMemAllocHost_v2(void **out, size_t bytes);
int cuMemFreeHost(void *addr);
int cuMemHostGetFlags(unsigned int *flags, void *addr);
int cuMemHostUnregister(void *addr);
int standin_work(void *addr, size_t bytes, unsigned int ms);

static struct loopback driver;

static char *take(size_t bytes, unsigned int flags)
{
	void *block = NULL;

	EXPECT_CODE(cudaHostAlloc(&block, bytes, flags), 0);
	EXPECT(block);
	return block;
}

static void flags_are_those_asked_for_and_mapped(void)
{
	static const unsigned int asked[] = { 0, PORTABLE, MAPPED, PORTABLE | MAPPED, WRITE_COMBINED };
	unsigned int flags;
	size_t i;

	for (i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		char *block = take(3 * MIB, asked[i]);

		EXPECT_CODE(cudaHostGetFlags(&flags, block), 0);
		EXPECT(flags == (asked[i] | MAPPED));
		EXPECT_CODE(cuMemHostGetFlags(&flags, block + 3 * MIB - 1), 0);
		EXPECT(flags == (asked[i] | MAPPED));
		EXPECT_CODE(cudaFreeHost(block), 0);
	}
	EXPECT_CODE(cudaHostGetFlags(&flags, &flags), 1);
}

static void unregistering_it_is_refused_and_changes_nothing(void)
{
	static char unknown[4096];
	char *block = take(8 * MIB, 0);

	EXPECT_CODE(cudaHostUnregister(block), 1);
	EXPECT_CODE(cudaHostUnregister(block + 4096), 1);
	EXPECT_CODE(cuMemHostUnregister(block), 1);
	EXPECT_CODE(cudaHostUnregister(unknown), 713);
	EXPECT(driver.is_registered(block, 8 * MIB));
	EXPECT_CODE(cudaHostRegister(block + 4096, 4096, 0), 712);
	EXPECT_CODE(cudaFreeHost(block), 0);
}

static void registering_other_memory_works_as_before(void)
{
	static char memory[3 * 4096];

	EXPECT_CODE(cudaHostRegister(memory + 1, 4096, MAPPED), 0);
	EXPECT_CODE(cudaHostRegister(memory + 2, 4096, 0), 712);
	EXPECT_CODE(cudaHostUnregister(memory + 1), 0);
}

static void wrong_arguments_get_the_real_answer(void)
{
	void *block = &block;
	char *good = take(4096, 0);

	EXPECT_CODE(cudaHostAlloc(NULL, MIB, 0), 1);
	EXPECT_CODE(cudaHostAlloc(&block, MIB, 0x80), 1);
	EXPECT(block == &block);
	EXPECT_CODE(cudaHostAlloc(&block, 0, 0), 0);
	EXPECT_CODE(cudaFreeHost(NULL), 0);
	EXPECT_CODE(cudaFreeHost(good + 64), 1);
	EXPECT_CODE(cudaFreeHost(good), 0);
	EXPECT_CODE(cudaFreeHost(good), 1);
	EXPECT_CODE(cudaFreeHost(&block), 1);
	EXPECT_CODE(cudaHostAlloc(&block, (size_t)1 << 60, 0), 2);
}

static void the_device_pointer_is_the_same_address(void)
{
	char *block = take(MIB, MAPPED);
	void *device = NULL;

	EXPECT_CODE(cudaHostGetDevicePointer(&device, block + 100, 0), 0);
	EXPECT(device == block + 100);
	EXPECT_CODE(cudaFreeHost(block), 0);
}

static void every_entry_point_allocates(void)
{
	void *a = NULL, *b = NULL, *c = NULL, *d = NULL;

	EXPECT_CODE(cudaMallocHost(&a, 5), 0);
	EXPECT_CODE(cuMemHostAlloc(&b, MIB, PORTABLE), 0);
	EXPECT_CODE(cuMemAllocHost(&c, MIB), 0);
	EXPECT_CODE(cuMemAllocHost_v2(&d, MIB), 0);
	memset(a, 1, 5);
	memset(b, 2, MIB);
	memset(c, 3, MIB);
	memset(d, 4, MIB);
	EXPECT(*(char *)a == 1 && *(char *)b == 2 && *(char *)c == 3 && *(char *)d == 4);
	EXPECT_CODE(cudaFreeHost(b), 0);	/* the driver's by the runtime, and the other way round */
	EXPECT_CODE(cuMemFreeHost(a), 0);
	EXPECT_CODE(cuMemFreeHost(c), 0);
	EXPECT_CODE(cuMemFreeHost(d), 0);
}

/* A copy from the device is under way when the block is freed. Whoever gets the memory next must not see its writes. */
static void freeing_waits_for_the_device(void)
{
	char *block = take(4 * MIB, 0), *next;
	size_t i;

	EXPECT_CODE(standin_work(block, 4 * MIB, 300), 0);
	EXPECT_CODE(cudaFreeHost(block), 0);
	next = take(4 * MIB, 0);
	memset(next, 0, 4 * MIB);
	usleep(400000);
	for (i = 0; i < 4 * MIB; i += 4096)
		EXPECT(!next[i]);
	EXPECT_CODE(cudaFreeHost(next), 0);
}

static void *in_thread(void *arg)
{
	size_t i;

	for (i = 1; i <= 50; i++) {
		char *block = take(i * 100000, 0);

		memset(block, (int)(uintptr_t)arg, i * 100000);
		EXPECT(block[i * 100000 - 1] == (char)(uintptr_t)arg);
		EXPECT_CODE(cudaFreeHost(block), 0);
	}
	return NULL;
}

static void threads_allocate_side_by_side(void)
{
	pthread_t threads[8];
	size_t i;

	for (i = 0; i < 8; i++)
		EXPECT(!pthread_create(&threads[i], NULL, in_thread, (void *)(i + 1)));
	for (i = 0; i < 8; i++)
		EXPECT(!pthread_join(threads[i], NULL));
}

static void a_child_of_a_fork_has_no_cuda(void)
{
	char *block = take(2 * MIB, 0);
	void *other;
	int status;
	pid_t pid = fork();

	if (!pid) {
		EXPECT_CODE(cudaFreeHost(block), 3);
		EXPECT_CODE(cudaHostAlloc(&other, MIB, 0), 3);
		_exit(0);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	EXPECT_CODE(cudaFreeHost(block), 0);
}

static void after_a_device_reset_memory_is_pinned_again(void)
{
	char *block;

	EXPECT_CODE(cudaDeviceReset(), 0);
	block = take(2 * MIB, 0);
	EXPECT(driver.is_registered(block, 2 * MIB));
	EXPECT_CODE(cudaFreeHost(block), 0);
}

/* Answered by the driver while it shuts down; the exit must stay quiet, and its status 0. */
static void *left_over;

static __attribute__((destructor)) void free_late(void)
{
	driver.shutdown(1);
	EXPECT_CODE(cudaFreeHost(left_over), 4);
}

int main(void)
{
	EXPECT_CODE(cudaFreeHost(take(4096, 0)), 0);	/* the context is there from here on */
	EXPECT(!loopback_load(&driver));
	flags_are_those_asked_for_and_mapped();
	unregistering_it_is_refused_and_changes_nothing();
	registering_other_memory_works_as_before();
	wrong_arguments_get_the_real_answer();
	the_device_pointer_is_the_same_address();
	every_entry_point_allocates();
	freeing_waits_for_the_device();
	threads_allocate_side_by_side();
	a_child_of_a_fork_has_no_cuda();
	left_over = take(MIB, 0);
	after_a_device_reset_memory_is_pinned_again();
	puts("ok");
	return 0;
}
