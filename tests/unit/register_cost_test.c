// SPDX-License-Identifier: MIT
/*
 * What registering costs, and whom: how long others wait for the driver meanwhile, that it is told by page size, and
 * that no more is registered than was asked for.
 */
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "pool_world.h"

#define BYTES		HPI_MIB(64)

/* ---- C050: a driver with one lock for the whole machine, which goes to whoever has waited longest ---- */

/* Seen by both processes. */
struct driver {
	atomic_uint next_ticket, serving;
	_Atomic uint64_t registered;		/* bytes, so far */
	_Atomic uint64_t worst;			/* bytes that were registered while the other process waited for one answer */
	atomic_uint answers;
	atomic_bool inside, over;		/* a registration is under way; all of them are done */
};

static struct driver *driver;

static void driver_lock(void)
{
	unsigned int ticket = atomic_fetch_add(&driver->next_ticket, 1);

	while (atomic_load(&driver->serving) != ticket)
		sched_yield();
}

static void driver_unlock(void)
{
	atomic_fetch_add(&driver->serving, 1);
}

/* Takes until the other process has begun to wait: a registration of any size is long enough for that. */
static int slow_register(void *addr, uint64_t bytes, int *code)
{
	unsigned int alone;

	(void)addr;
	*code = 0;
	driver_lock();
	atomic_store(&driver->inside, true);
	alone = atomic_load(&driver->serving) + 1;
	while (atomic_load(&driver->next_ticket) == alone)
		sched_yield();
	atomic_fetch_add(&driver->registered, bytes);
	atomic_store(&driver->inside, false);
	driver_unlock();
	return 0;
}

static int quick_unregister(void *addr, uint64_t bytes, int *code)
{
	(void)addr;
	(void)bytes;
	*code = 0;
	return 0;
}

static const struct hpi_runtime slow_runtime = {
	.name = "slow",
	.begin = runtime_begin,
	.enter = runtime_enter,
	.leave = runtime_leave,
	.end = runtime_end,
	.host_register = slow_register,
	.host_unregister = quick_unregister,
};

/* The other process: asks how much memory there is, again and again. */
static void ask_for_memory_info(void)
{
	uint64_t before, meanwhile;

	while (!atomic_load(&driver->over)) {
		if (!atomic_load(&driver->inside)) {	/* an answer that nobody delays */
			sched_yield();
			continue;
		}
		before = atomic_load(&driver->registered);
		driver_lock();
		meanwhile = atomic_load(&driver->registered) - before;
		if (meanwhile > atomic_load(&driver->worst))
			atomic_store(&driver->worst, meanwhile);
		atomic_fetch_add(&driver->answers, 1);
		driver_unlock();
	}
	_exit(0);
}

/* The worst wait of the other process, in bytes, while this one registers. */
static uint64_t worst_wait(const char *chunk, unsigned int *answers)
{
	struct hugepin_context *ctx = make_context("register_chunk", chunk, "register_threads", "1", NULL);
	char *memory = mmap(NULL, BYTES + HPI_MIB(64), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *aligned;
	int status;
	pid_t child;

	assert_ptr_not_equal(memory, MAP_FAILED);
	aligned = (char *)hpi_round_up((uintptr_t)memory, HPI_MIB(64));
	driver = mmap(NULL, sizeof(*driver), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(driver, MAP_FAILED);
	ctx->runtime = &slow_runtime;
	child = fork();
	if (!child)
		ask_for_memory_info();
	assert_int_equal(hpi_register_range(ctx, aligned, BYTES), 0);
	atomic_store(&driver->over, true);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(hpi_unregister_range(ctx, aligned, BYTES), 0);
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	*answers = atomic_load(&driver->answers);
	status = (int)(atomic_load(&driver->worst) >> 20);
	munmap(driver, sizeof(*driver));
	munmap(memory, BYTES + HPI_MIB(64));
	return HPI_MIB(status);
}

static void another_process_waits_for_one_chunk_at_most(void **state)
{
	unsigned int answers;

	(void)state;
	assert_int_equal(worst_wait("64M", &answers), HPI_MIB(64));	/* in one call: for all of it */
	assert_int_equal(worst_wait("8M", &answers), HPI_MIB(8));
	assert_true(answers >= 8);				/* one between any two chunks */
	assert_int_equal(worst_wait("2M", &answers), HPI_MIB(2));
	assert_true(answers >= 32);
}

/* ---- C053: the cost is one of pages; by how much is measured by the benchmarks' row "pin" ---- */

static char growth_line[512];

static void keep_growth(enum hugepin_log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	if (strstr(line, " from "))
		snprintf(growth_line, sizeof(growth_line), "%s", line);
}

static void a_growth_tells_what_registering_cost_by_page_size(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);
	const char *cost;

	(void)state;
	hugepin_log_set(keep_growth, NULL, HUGEPIN_LOG_INFO);
	give(pool, take(pool, HPI_2M));
	assert_non_null(strstr(growth_line, "2097152 in 2M pages"));
	cost = strstr(growth_line, "registered in ");
	assert_non_null(cost);
	assert_non_null(strstr(cost, " ms a GiB"));
	end_pool(pool);
	pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_HOST, 1, &rung_2m, NULL);
	give(pool, take(pool, HPI_2M));
	assert_null(strstr(growth_line, "registered"));
	end_pool(pool);
}

/* Nothing by making a pool, and no more than was asked for by growing it. */
static void what_is_registered_at_the_start_is_the_programs_to_say(void **state)
{
	struct hugepin_pool *pool = make_pool_on(make_context(NULL), HUGEPIN_POOL_PINNED, 1, &rung_2m, NULL);

	(void)state;
	assert_int_equal(runtime.bytes, 0);
	assert_int_equal(hugepin_pool_grow(pool, HPI_MIB(48), 0), 0);
	assert_int_equal(runtime.bytes, HPI_MIB(48));
	give(pool, take(pool, HPI_MIB(40)));
	assert_int_equal(runtime.bytes, HPI_MIB(48));
	end_pool(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(another_process_waits_for_one_chunk_at_most),
		TEST(a_growth_tells_what_registering_cost_by_page_size),
		TEST(what_is_registered_at_the_start_is_the_programs_to_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
