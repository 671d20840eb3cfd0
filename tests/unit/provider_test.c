// SPDX-License-Identifier: MIT
/*
 * Providers: all or nothing, resident, in the place of a reservation, told as they are. kmod against the stand-in for
 * the module; hugetlb against the kernel's own pages (skipped where nr_hugepages may not be written or others use such
 * pages); base as it is.
 */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <numaif.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_module.h"
#include "internal.h"
#include "kernel_pages.h"
#include "tree.h"

static struct hugepin_context *ctx;
static struct hpi_policy local = { .policy = HUGEPIN_NODES_PREFERRED };
static struct hpi_policy bind_0 = { .policy = HUGEPIN_NODES_BIND, .nodes = { { 1 } } };

static void assert_text(const char *part)
{
	if (!strstr(hugepin_error(), part))
		fail_msg("\"%s\" does not have \"%s\"", hugepin_error(), part);
}

static int load(void **state)
{
	(void)state;
	fake_module_load();
	ctx = fake_context("runtime", "none", NULL);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	hpi_sys_fault = NULL;
	assert_int_equal(hugepin_context_destroy(ctx), 0);
	fake_module_unload();
	return 0;
}

static void *reserve(uint64_t bytes)
{
	void *p = mmap(NULL, bytes + HPI_1G, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return (void *)hpi_round_up((uintptr_t)p, HPI_1G);
}

/* What /proc/self/maps has at @addr: "rw-s", "---p", or "" for a hole. */
static const char *mode_at(const void *addr)
{
	static char mode[8];
	uintptr_t begin, end;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	assert_non_null(maps);
	mode[0] = '\0';
	while (fgets(line, sizeof(line), maps)) {
		char m[8];

		if (sscanf(line, "%lx-%lx %7s", &begin, &end, m) == 3 && (uintptr_t)addr >= begin &&
		    (uintptr_t)addr < end)
			strcpy(mode, m);
	}
	fclose(maps);
	return mode;
}

static unsigned int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void assert_resident_and_zero(const struct hpi_mapping *mapping)
{
	size_t pages = mapping->bytes / 4096, i;
	unsigned char *vec = malloc(pages);

	assert_non_null(vec);
	assert_int_equal(mincore(mapping->addr, mapping->bytes, vec), 0);
	for (i = 0; i < pages; i++)
		assert_true(vec[i] & 1);
	free(vec);
	for (i = 0; i < mapping->bytes; i += 4096)
		assert_int_equal(((const char *)mapping->addr)[i], 0);
	assert_true(mapping->zeroed);
}

static struct hpi_request request(uint64_t bytes, unsigned int classes, void *addr)
{
	return (struct hpi_request){ .bytes = bytes, .classes = classes, .policy = &local, .addr = addr };
}

/* ---- kmod ---- */

static void test_kmod_maps_a_region_over_a_reservation(void **state)
{
	struct hpi_request r = request(3 * HPI_2M, HUGEPIN_CLASSES_2M, reserve(4 * HPI_2M));
	unsigned int files = open_files();
	struct hpi_mapping m;

	(void)state;
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), 0);
	assert_ptr_equal(m.addr, r.addr);
	assert_int_equal(m.bytes, 3 * HPI_2M);
	assert_int_equal(m.provider, HUGEPIN_PROVIDER_KMOD);
	assert_int_equal(m.bytes_2m, 3 * HPI_2M);
	assert_int_equal(m.bytes_1g, 0);
	assert_int_equal(m.node, 0);
	assert_true(m.fd >= 0);
	assert_resident_and_zero(&m);
	assert_string_equal(mode_at(m.addr), "rw-s");
	assert_string_equal(mode_at((char *)m.addr + 3 * HPI_2M), "---p");
	assert_int_equal(hpi_provider_kmod.unmap(ctx, &m, true), 0);
	assert_string_equal(mode_at(r.addr), "---p");
	assert_int_equal(open_files(), files);
}

static void test_kmod_tells_a_mixed_region(void **state)
{
	struct hpi_request r = request(HPI_1G + HPI_2M, HUGEPIN_CLASSES_1G | HUGEPIN_CLASSES_2M, NULL);
	struct hpi_mapping m;

	(void)state;
	fake_topology(ctx, 2);
	fake.free[1][HUGEPIN_CLASS_2M] = 1;
	fake.free[0][HUGEPIN_CLASS_2M] = 0;
	r.policy = &(struct hpi_policy){ .policy = HUGEPIN_NODES_INTERLEAVE, .nodes = { { 3 } } };
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), 0);
	assert_int_equal(m.bytes_1g, HPI_1G);
	assert_int_equal(m.bytes_2m, HPI_2M);
	assert_int_equal(m.node, -1);
	assert_int_equal(fake.create.policy, HUGEPIN_POLICY_INTERLEAVE);
	assert_int_equal(fake.create_nodes, 3);
	assert_int_equal(fake.create.flags, 0);		/* strict: a shortage is the ladder's to deal with */
	assert_int_equal(hpi_provider_kmod.unmap(ctx, &m, false), 0);
}

static void test_kmod_short_of_1g_leaves_the_reservation(void **state)
{
	struct hpi_request r = request(5 * HPI_1G, HUGEPIN_CLASSES_1G | HUGEPIN_CLASSES_2M, reserve(5 * HPI_1G));
	unsigned int files = open_files();
	struct hpi_mapping m;

	(void)state;
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), -ENOMEM);
	assert_text("asked 5 pages of 1G");
	assert_text("4 free");
	assert_string_equal(mode_at(r.addr), "---p");
	assert_int_equal(open_files(), files);
}

static void test_kmod_without_the_class_goes_to_the_next_rung(void **state)
{
	struct hpi_request r = request(HPI_1G, HUGEPIN_CLASSES_1G | HUGEPIN_CLASSES_2M, NULL);
	struct hpi_mapping m;

	(void)state;
	ctx->absent[HUGEPIN_PAGES_1G] = HUGEPIN_ABSENT_KERNEL;
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), -EOPNOTSUPP);
	assert_text("this kernel cannot");
	assert_int_equal(fake.creates, 0);
	/* below 1 GiB no 1G page was meant */
	r.bytes = HPI_2M;
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), 0);
	assert_int_equal(fake.create.classes, 1u << HUGEPIN_CLASS_2M);
	assert_int_equal(hpi_provider_kmod.unmap(ctx, &m, false), 0);
	r.classes = HUGEPIN_CLASSES_1G;
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), -EINVAL);
}

static void test_kmod_without_the_module_is_absent_not_broken(void **state)
{
	struct hpi_request r = request(HPI_2M, HUGEPIN_CLASSES_2M, NULL);
	int device = ctx->device_fd, mount = ctx->mount_fd;
	struct hpi_mapping m;

	(void)state;
	ctx->device_fd = ctx->mount_fd = -1;
	ctx->module_err = -ENODEV;
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), -ENODEV);
	ctx->module_err = -EACCES;
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), -ENODEV);
	assert_text("may open neither");
	ctx->device_fd = device;
	ctx->mount_fd = mount;
}

static const char *failing_call;
static int failing_errno;

static int fail_call(const char *call)
{
	return strcmp(call, failing_call) ? 0 : failing_errno;
}

static void fail_at(const char *call, int error)
{
	failing_call = call;
	failing_errno = error;
	hpi_sys_fault = fail_call;
}

static void test_kmod_failing_to_make_entries_gives_everything_back(void **state)
{
	struct hpi_request r = request(HPI_2M, HUGEPIN_CLASSES_2M, reserve(HPI_2M));
	unsigned int files = open_files();
	struct hpi_mapping m;

	(void)state;
	fail_at("madvise", ENOMEM);
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), -ENOMEM);
	assert_text("page-table entries");
	assert_string_equal(mode_at(r.addr), "---p");
	assert_int_equal(open_files(), files);
	fail_at("mmap", ENOMEM);
	assert_int_equal(hpi_provider_kmod.map(ctx, &r, &m), -ENOMEM);
	assert_int_equal(open_files(), files);
}

/* ---- hugetlb ---- */

static void test_hugetlb_gives_resident_pages_over_a_reservation(void **state)
{
	struct hpi_request r = request(4 * HPI_2M, HUGEPIN_CLASSES_2M, reserve(4 * HPI_2M));
	struct hpi_mapping m;

	(void)state;
	need_2m(8);
	assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), 0);
	assert_ptr_equal(m.addr, r.addr);
	assert_int_equal(m.provider, HUGEPIN_PROVIDER_HUGETLB);
	assert_int_equal(m.bytes_2m, 4 * HPI_2M);
	assert_true(m.node >= 0);
	assert_free_2m(4);
	assert_resident_and_zero(&m);
	assert_int_equal(hpi_provider_hugetlb.unmap(ctx, &m, true), 0);
	assert_string_equal(mode_at(r.addr), "---p");
	assert_free_2m(8);
}

/* C013: the pool is exhausted; the answer is an error with numbers, not a SIGBUS at the touch. */
static void test_hugetlb_short_of_pages_is_an_error_with_numbers(void **state)
{
	struct hpi_request r = request(16 * HPI_2M, HUGEPIN_CLASSES_2M, reserve(16 * HPI_2M));
	unsigned int files = open_files();
	struct hpi_mapping m;

	(void)state;
	need_2m(8);
	assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), -ENOMEM);
	assert_text("asked 16 pages of 2M, 8 free of 8, 0 of them reserved");
	assert_text("nr_hugepages");
	assert_string_equal(mode_at(r.addr), "---p");
	assert_free_2m(8);
	assert_int_equal(open_files(), files);
}

/* C013: what strikes only at the touch, a cgroup's limit or a bound node without pages, is found by populating. */
static void test_hugetlb_short_at_the_touch_gives_everything_back(void **state)
{
	static const int errors[] = { EFAULT, ENOMEM };
	struct hpi_request r = request(4 * HPI_2M, HUGEPIN_CLASSES_2M, reserve(4 * HPI_2M));
	struct hpi_mapping m;
	size_t i;

	(void)state;
	need_2m(8);
	r.policy = &bind_0;
	for (i = 0; i < 2; i++) {
		fail_at("madvise", errors[i]);
		assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), -ENOMEM);
		assert_text("refused at populating");
		assert_text("8 free of 8, 0 of them reserved");
		assert_text("bound to node 0 with 8 free");
		assert_string_equal(mode_at(r.addr), "---p");
		assert_free_2m(8);
	}
	fail_at("madvise", EIO);
	assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), -EIO);
}

static void test_hugetlb_on_a_kernel_that_cannot_populate(void **state)
{
	struct hpi_request r = request(4 * HPI_2M, HUGEPIN_CLASSES_2M, NULL);
	struct hpi_mapping m;

	(void)state;
	need_2m(8);
	fail_at("madvise", EINVAL);
	assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), 0);
	assert_free_2m(4);
	assert_resident_and_zero(&m);
	assert_int_equal(hpi_provider_hugetlb.unmap(ctx, &m, false), 0);
}

/* C013: where a store is a SIGBUS, populating answers EFAULT. */
static void test_populating_without_pages_is_an_error_not_a_signal(void **state)
{
	void *p;
	int fd;

	(void)state;
	need_2m(0);
	fd = hpi_sys_memfd("empty", MFD_HUGETLB | 21u << 26);
	assert_true(fd >= 0);
	assert_int_equal(hpi_sys_ftruncate(fd, HPI_2M), 0);
	assert_int_equal(hpi_mapping_place(NULL, HPI_2M, MAP_SHARED | MAP_NORESERVE, fd, &p), 0);
	assert_int_equal(hpi_populate(ctx, p, HPI_2M, HPI_2M), -EFAULT);
	fail_at("madvise", EINVAL);
	assert_int_equal(hpi_populate(ctx, p, HPI_2M, HPI_2M), -EFAULT);
	hpi_mapping_undo(p, HPI_2M, false);
	close(fd);
}

static void test_hugetlb_without_the_page_size_goes_to_the_next_rung(void **state)
{
	static const int errors[] = { EINVAL, ENODEV };
	struct hpi_request r = request(HPI_1G, HUGEPIN_CLASSES_1G, NULL);
	struct hpi_mapping m;
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		fail_at("memfd", errors[i]);
		assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), -ENODEV);
		assert_text("no 1G pages");
	}
	r.bytes = HPI_2M;
	assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), -EINVAL);
}

/* No descriptor is left, or a filter of system calls knows no such file: base pages need neither. */
static void test_hugetlb_without_a_file_goes_to_the_next_rung(void **state)
{
	static const int errors[] = { EMFILE, ENFILE, EPERM, EACCES, ENOSYS };
	struct hpi_request r = request(HPI_1G, HUGEPIN_CLASSES_1G, NULL);
	struct hpi_mapping m;
	size_t i;

	(void)state;
	for (i = 0; i < 5; i++) {
		fail_at("memfd", errors[i]);
		assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), -ENODEV);
		assert_text(strerror(errors[i]));
	}
	fail_at("memfd", EIO);
	assert_int_equal(hpi_provider_hugetlb.map(ctx, &r, &m), -EIO);
}

static void in_own_mounts(const char *directory)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", directory, "hugetlbfs", 0, "pagesize=2M,size=8M"))
		_exit(77);
}

/* In a child, since libhugetlbfs looks once: pages come from the mount, whose quota holds, and nothing is printed. */
static void test_hugetlb_takes_a_mount_and_stays_silent(void **state)
{
	struct hpi_request r = request(3 * HPI_2M, HUGEPIN_CLASSES_2M, NULL);
	struct tree tree;
	struct hpi_mapping m, more;
	char path[256], link[64];
	int status, output[2];
	ssize_t length;
	pid_t pid;

	(void)state;
	need_2m(16);
	if (geteuid())
		skip();
	tree_make(&tree);
	assert_int_equal(pipe(output), 0);
	pid = fork();
	if (!pid) {
		dup2(output[1], 1);
		dup2(output[1], 2);
		in_own_mounts(tree.root);
		if (hpi_provider_hugetlb.map(ctx, &r, &m))
			_exit(1);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", m.fd);
		length = readlink(link, path, sizeof(path) - 1);
		path[length > 0 ? length : 0] = '\0';
		if (strncmp(path, tree.root, strlen(tree.root)))
			_exit(2);
		/* 8 MiB are allowed there, 6 are taken */
		_exit(hpi_provider_hugetlb.map(ctx, &r, &more) == -ENOMEM ? 0 : 3);
	}
	close(output[1]);
	assert_int_equal(read(output[0], path, sizeof(path)), 0);
	close(output[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	tree_remove(&tree, "");
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
	assert_free_2m(16);
}

static unsigned int memfds, opens;

static int count_calls(const char *call)
{
	memfds += !strcmp(call, "memfd");
	opens += !strcmp(call, "open");
	return 0;
}

/* C067: without a privilege, and without failing calls over and over. */
static void test_hugetlb_needs_no_privilege_and_repeats_no_failing_call(void **state)
{
	struct hpi_request r = request(HPI_2M, HUGEPIN_CLASSES_2M, NULL);
	struct hpi_mapping m;
	int status, i;
	pid_t pid;

	(void)state;
	need_2m(4);
	if (geteuid())
		skip();
	pid = fork();
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(77);
		for (i = 0; i < 1000; i++) {
			if (i == 1)
				hpi_sys_fault = count_calls;
			if (hpi_provider_hugetlb.map(ctx, &r, &m) || hpi_provider_hugetlb.unmap(ctx, &m, false))
				_exit(1);
		}
		_exit(memfds + opens == 999 ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* The kernel sends SIGXFSZ to who makes a file larger than its limit allows, as batch systems set it. */
static void test_hugetlb_over_the_limit_of_files_goes_to_the_next_rung(void **state)
{
	struct hpi_request r = request(2 * HPI_2M, HUGEPIN_CLASSES_2M, NULL);
	struct rlimit before, limit;
	struct hpi_mapping m;
	int err;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ .rlim_cur = 2 * HPI_2M - 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	err = hpi_provider_hugetlb.map(ctx, &r, &m);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(err, -ENODEV);
	if (!strstr(hugepin_error(), "this kernel has no 2M pages"))
		assert_text("a file of 4194304 bytes is over the limit of files");
}

/* ---- the kernel's pool in numbers ---- */

static void write_pool(const struct tree *tree, const char *free_pages)
{
#define POOL "sys/kernel/mm/hugepages/hugepages-2048kB/"
	tree_write(tree, POOL "nr_hugepages", "2048\n");
	tree_write(tree, POOL "free_hugepages", free_pages);
	tree_write(tree, POOL "resv_hugepages", "3\n");
	tree_write(tree, POOL "nr_overcommit_hugepages", "10\n");
	tree_write(tree, POOL "surplus_hugepages", "4\n");
	tree_write(tree, "sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "7\n");
	tree_write(tree, "sys/devices/system/node/node3/hugepages/hugepages-2048kB/free_hugepages", "5\n");
}

/* C014: the pages are free, the group may have none of them; the limit is read each time. */
static void test_a_cgroups_limit_is_read_at_each_shortage(void **state)
{
	struct hpi_hugetlb_pool pool;
	struct tree tree;

	(void)state;
	tree_make(&tree);
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_2M, &pool), -ENODEV);
	write_pool(&tree, "2048\n");
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_2M, &pool), 0);
	assert_int_equal(pool.total_pages, 2048);
	assert_int_equal(pool.free_pages, 2048);
	assert_int_equal(pool.reserved_pages, 3);
	assert_int_equal(pool.overcommit_pages, 10);
	assert_int_equal(pool.surplus_pages, 4);
	assert_int_equal(pool.limit_bytes, UINT64_MAX);
	assert_int_equal(hpi_hugetlb_free_on(tree.root, HPI_2M, &(struct hpi_nodes){ { 0xb } }), 12);

	tree_write(&tree, "proc/self/cgroup", "0::/pod/container\n");
	tree_write(&tree, "sys/fs/cgroup/pod/hugetlb.2MB.max", "0\n");
	tree_write(&tree, "sys/fs/cgroup/pod/container/hugetlb.2MB.max", "max\n");
	tree_write(&tree, "sys/fs/cgroup/pod/container/memory.max", "1\n");
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_2M, &pool), 0);
	assert_int_equal(pool.limit_bytes, 0);
	tree_write(&tree, "sys/fs/cgroup/pod/hugetlb.2MB.max", "4194304\n");
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_2M, &pool), 0);
	assert_int_equal(pool.limit_bytes, 4194304);

	tree_write(&tree, "proc/self/cgroup", "5:cpu:/\n4:hugetlb:/job\n3:memory:/other\n");
	tree_write(&tree, "sys/fs/cgroup/hugetlb/job/hugetlb.2MB.limit_in_bytes", "2097152\n");
	assert_int_equal(hpi_hugetlb_pool_read(tree.root, HPI_2M, &pool), 0);
	assert_int_equal(pool.limit_bytes, 2097152);
	tree_remove(&tree, "");
}

/* ---- base ---- */

static void test_base_gives_resident_memory_over_a_reservation(void **state)
{
	static const int errors[] = { EINVAL, ENOSYS, EPERM, EACCES };
	struct hpi_request r = request(3 * 4096 * 1000, 1, reserve(HPI_MIB(16)));
	struct hpi_mapping m;
	size_t i;

	(void)state;
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
	assert_ptr_equal(m.addr, r.addr);
	assert_int_equal(m.provider, HUGEPIN_PROVIDER_BASE);
	assert_int_equal(m.bytes_1g + m.bytes_2m, 0);
	assert_int_equal(m.fd, -1);
	assert_true(m.node >= 0);
	assert_resident_and_zero(&m);
	assert_int_equal(hpi_provider_base.unmap(ctx, &m, true), 0);
	assert_string_equal(mode_at(r.addr), "---p");
	for (i = 0; i < 4; i++) {	/* the kernel does not know the advice, or a filter does not */
		fail_at("madvise", errors[i]);
		assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
		assert_resident_and_zero(&m);
		assert_int_equal(hpi_provider_base.unmap(ctx, &m, i < 3), 0);
	}
	assert_string_equal(mode_at(r.addr), "");
}

static void test_base_short_of_memory_leaves_the_reservation(void **state)
{
	struct hpi_request r = request(HPI_2M, 1, reserve(HPI_2M));
	struct hpi_mapping m;

	(void)state;
	fail_at("madvise", ENOMEM);
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), -ENOMEM);
	assert_text("no memory for 2097152 bytes");
	assert_string_equal(mode_at(r.addr), "---p");
	r.bytes = 100;
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), -EINVAL);
	r.bytes = 0;
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), -EINVAL);
}

static void test_an_unmap_that_fails_keeps_the_mapping(void **state)
{
	struct hpi_request r = request(HPI_2M, 1, NULL);
	struct hpi_mapping m;

	(void)state;
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
	fail_at("munmap", ENOMEM);
	assert_int_equal(hpi_provider_base.unmap(ctx, &m, false), -ENOMEM);
	assert_string_equal(mode_at(m.addr), "rw-p");
	hpi_sys_fault = NULL;
	assert_int_equal(hpi_provider_base.unmap(ctx, &m, false), 0);
}

/* ---- policy ---- */

static int policy_of(void *addr)
{
	int mode;

	return get_mempolicy(&mode, NULL, 0, addr, MPOL_F_ADDR) ? -1 : mode;
}

static void test_memory_is_bound_before_it_is_touched(void **state)
{
	struct hpi_request r = request(HPI_2M, 1, NULL);
	const struct { enum hugepin_policy policy; int mode; } modes[] = {
		{ HUGEPIN_NODES_BIND, MPOL_BIND }, { HUGEPIN_NODES_INTERLEAVE, MPOL_INTERLEAVE },
		{ HUGEPIN_NODES_PREFERRED, MPOL_PREFERRED_MANY },
	};
	struct hpi_policy policy = bind_0;
	struct hpi_mapping m;
	size_t i;

	(void)state;
	r.policy = &policy;
	for (i = 0; i < 3; i++) {
		policy.policy = modes[i].policy;
		assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
		if (policy_of(m.addr) == -1)
			skip();			/* no NUMA in this kernel */
		assert_int_equal(policy_of(m.addr), modes[i].mode);
		assert_int_equal(m.node, 0);
		assert_int_equal(hpi_provider_base.unmap(ctx, &m, false), 0);
	}
	r.policy = &local;
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
	assert_int_equal(policy_of(m.addr), MPOL_DEFAULT);
	assert_int_equal(hpi_provider_base.unmap(ctx, &m, false), 0);
}

/* C060, C038: with a node of memory alone on the machine, default memory keeps to the others; but numactl's word holds. */
static void test_local_keeps_to_nodes_with_cpus(void **state)
{
	struct hpi_request r = request(HPI_2M, 1, NULL);
	struct hpi_mapping m;

	(void)state;
	fake_topology(ctx, 2);
	ctx->topology.nodes[0].has_cpus = true;
	ctx->topology.nodes[1].has_cpus = false;
	r.policy = &local;
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
	if (policy_of(m.addr) == -1)
		skip();			/* no NUMA in this kernel */
	assert_int_equal(policy_of(m.addr), MPOL_BIND);
	assert_int_equal(m.node, 0);
	assert_int_equal(hpi_provider_base.unmap(ctx, &m, false), 0);

	assert_int_equal(set_mempolicy(MPOL_LOCAL, NULL, 0), 0);
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
	assert_int_equal(policy_of(m.addr), MPOL_DEFAULT);	/* none of its own: the thread's holds */
	assert_int_equal(hpi_provider_base.unmap(ctx, &m, false), 0);
	set_mempolicy(MPOL_DEFAULT, NULL, 0);

	fail_at("mbind", EPERM);	/* a container's filter: said in the log, and no failure */
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
	assert_int_equal(hpi_provider_base.unmap(ctx, &m, false), 0);
}

static void test_mbind_forbidden_is_harmless_only_with_one_node(void **state)
{
	struct hpi_request r = request(HPI_2M, 1, NULL);
	struct hpi_mapping m;

	(void)state;
	r.policy = &bind_0;
	fake_topology(ctx, 1);
	fail_at("mbind", EPERM);
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), 0);
	assert_int_equal(hpi_provider_base.unmap(ctx, &m, false), 0);
	fake_topology(ctx, 2);
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), -EOPNOTSUPP);
	assert_text("seccomp");
	fail_at("mbind", EIO);
	assert_int_equal(hpi_provider_base.map(ctx, &r, &m), -EIO);
}

static void test_policies_are_checked_against_the_machine(void **state)
{
	struct hpi_policy policy = { .policy = 77 };
	struct hpi_nodes nodes;

	(void)state;
	fake_topology(ctx, 3);
	ctx->topology.nodes[1].has_memory = false;
	ctx->topology.nodes[2].allowed = false;
	assert_int_equal(hpi_policy_parse("bind:0,1", &ctx->topology, &policy), -ENODEV);
	assert_text("node 1 has no memory");
	assert_int_equal(hpi_policy_parse("preferred:2", &ctx->topology, &policy), -ENODEV);
	assert_text("node 2 is not allowed");
	assert_int_equal(hpi_policy_parse("interleave:0-3", &ctx->topology, &policy), -ENODEV);
	assert_int_equal(hpi_policy_parse("bind:", &ctx->topology, &policy), -EINVAL);
	assert_int_equal(hpi_policy_parse("close", &ctx->topology, &policy), -EINVAL);
	assert_int_equal(policy.policy, 77);
	assert_int_equal(hpi_policy_parse("bind:0", &ctx->topology, &policy), 0);
	assert_int_equal(policy.policy, HUGEPIN_NODES_BIND);
	assert_int_equal(policy.nodes.bits[0], 1);
	assert_int_equal(hpi_policy_parse("local", &ctx->topology, &policy), 0);
	assert_int_equal(hpi_nodes_count(&policy.nodes), 0);
	hpi_policy_nodes(&policy, &ctx->topology, &nodes);
	assert_int_equal(nodes.bits[0], 1);
}

static void test_local_is_the_nearest_node_with_memory(void **state)
{
	struct hpi_nodes nodes;
	uint8_t *d;

	(void)state;
	fake_topology(ctx, 3);
	d = ctx->topology.distances;
	/* wherever this thread runs: its own node has no memory, and the next one is node 2 */
	ctx->topology.nodes[0].has_memory = false;
	d[1] = 30;
	d[2] = 21;
	if (hpi_topology_local_node() != 0)
		skip();
	hpi_policy_nodes(&local, &ctx->topology, &nodes);
	assert_int_equal(nodes.bits[0], 4);
	fail_at("getcpu", ENOSYS);
	hpi_policy_nodes(&local, &ctx->topology, &nodes);
	assert_int_equal(nodes.bits[0], 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, load, unload)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_kmod_maps_a_region_over_a_reservation),
		TEST(test_kmod_tells_a_mixed_region),
		TEST(test_kmod_short_of_1g_leaves_the_reservation),
		TEST(test_kmod_without_the_class_goes_to_the_next_rung),
		TEST(test_kmod_without_the_module_is_absent_not_broken),
		TEST(test_kmod_failing_to_make_entries_gives_everything_back),
		TEST(test_hugetlb_takes_a_mount_and_stays_silent),	/* first: libhugetlbfs looks for mounts once */
		TEST(test_hugetlb_gives_resident_pages_over_a_reservation),
		TEST(test_hugetlb_short_of_pages_is_an_error_with_numbers),
		TEST(test_hugetlb_short_at_the_touch_gives_everything_back),
		TEST(test_hugetlb_on_a_kernel_that_cannot_populate),
		TEST(test_populating_without_pages_is_an_error_not_a_signal),
		TEST(test_hugetlb_without_the_page_size_goes_to_the_next_rung),
		TEST(test_hugetlb_without_a_file_goes_to_the_next_rung),
		TEST(test_hugetlb_needs_no_privilege_and_repeats_no_failing_call),
		TEST(test_hugetlb_over_the_limit_of_files_goes_to_the_next_rung),
		TEST(test_a_cgroups_limit_is_read_at_each_shortage),
		TEST(test_base_gives_resident_memory_over_a_reservation),
		TEST(test_base_short_of_memory_leaves_the_reservation),
		TEST(test_an_unmap_that_fails_keeps_the_mapping),
		TEST(test_memory_is_bound_before_it_is_touched),
		TEST(test_local_keeps_to_nodes_with_cpus),
		TEST(test_mbind_forbidden_is_harmless_only_with_one_node),
		TEST(test_policies_are_checked_against_the_machine),
		TEST(test_local_is_the_nearest_node_with_memory),
	};

	return cmocka_run_group_tests(tests, begin_2m, end_2m);
}
