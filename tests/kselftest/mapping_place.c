// SPDX-License-Identifier: MIT
/* The mapping contract: where areas may be, and moving, cutting and protecting them. */
#include <sys/syscall.h>
#include <unistd.h>

#include "mapping.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif

static void *map_at(void *where, const struct area *area, int flags)
{
	return mmap(where, area->bytes, PROT_READ | PROT_WRITE, flags, area->fd, 0);
}

static void the_whole_region_is_mapped_in_huge_entries(struct area *area)
{
	CHECK_EQ((uintptr_t)area->start % area->page, 0);
	check_huge_entries(area, area->start, 0, area->bytes);
	marks_write(area->start, 0, area->bytes, 1);
	CHECK_MARKS(area->start, 0, area->bytes, 1);
}

static void every_part_aligned_to_2m_is_mapped_alone(struct area *area)
{
	uint64_t offset, step = area->bytes_1g ? 170 * PAGE_2M : PAGE_2M;

	marks_write(area->start, 0, area->bytes, 2);
	for (offset = 0; offset < area->bytes; offset += step) {
		uint64_t bytes = area->bytes - offset < 2 * PAGE_2M ? PAGE_2M : 2 * PAGE_2M;
		char *part = region_map(area->fd, offset, bytes, PROT_READ | PROT_WRITE);

		CHECK_EQ((uintptr_t)part % PAGE_2M, 0);
		*(volatile uint64_t *)(part + 64) = offset + 3;
		CHECK_EQ(*(volatile uint64_t *)(area->start + offset + 64), offset + 3);
		CHECK(!memcmp(part, area->start + offset, bytes), "other bytes at %#llx", (unsigned long long)offset);
		CHECK_OK(munmap(part, bytes));
	}
	CHECK_MARKS(area->start, 0, area->bytes, 2);
}

static void two_mappings_show_the_same_bytes(struct area *area)
{
	char *other = region_map(area->fd, 0, area->bytes, PROT_READ | PROT_WRITE);

	marks_write(area->start, 0, area->bytes, 3);
	CHECK_MARKS(other, 0, area->bytes, 3);
	marks_write(other, 0, area->bytes, 4);
	CHECK_MARKS(area->start, 0, area->bytes, 4);
	CHECK_OK(munmap(other, area->bytes));
	CHECK_MARKS(area->start, 0, area->bytes, 4);
}

static void a_mapping_outlives_its_descriptor(struct area *area)
{
	char *part = region_map(area->fd, 0, PAGE_2M, PROT_READ | PROT_WRITE);

	close(area->fd);
	marks_write(area->start, 0, area->bytes, 5);
	CHECK_OK(munmap(part, PAGE_2M));
	CHECK_MARKS(area->start, 0, area->bytes, 5);
}

static void malformed_mappings_are_refused(struct area *area)
{
	const struct {
		uint64_t bytes, offset;
	} bad[] = {
		{ PAGE_2M, PAGE_4K }, { PAGE_2M, PAGE_2M - PAGE_4K }, { PAGE_4K, 0 }, { PAGE_2M + PAGE_4K, 0 },
		{ PAGE_2M - PAGE_4K, PAGE_2M }, { area->bytes + PAGE_2M, 0 }, { area->bytes, PAGE_2M },
		{ PAGE_2M, area->bytes }, { PAGE_2M, area->bytes + GiB }, { PAGE_2M, 1ULL << 62 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		void *got = mmap(NULL, bad[i].bytes, PROT_READ, MAP_SHARED, area->fd, bad[i].offset);

		CHECK(got == MAP_FAILED, "%#llx bytes at %#llx were mapped", (unsigned long long)bad[i].bytes,
		      (unsigned long long)bad[i].offset);
		/* the core itself answers EOVERFLOW for what lies past the end of any file */
		CHECK(errno == EINVAL || errno == EOVERFLOW, "%s", strerror(errno));
	}
	CHECK_ERRNO((long)mmap(NULL, 0, PROT_READ, MAP_SHARED, area->fd, 0), EINVAL);
}

static void private_mappings_are_refused(struct area *area)
{
	CHECK_ERRNO((long)map_at(NULL, area, MAP_PRIVATE), EINVAL);
	CHECK_ERRNO((long)map_at(NULL, area, MAP_PRIVATE | MAP_POPULATE), EINVAL);
	CHECK_ERRNO((long)mmap(NULL, area->bytes, PROT_READ, MAP_PRIVATE, area->fd, 0), EINVAL);
}

static void fixed_places_need_a_word_more_with_1g_pages(struct area *area)
{
	char *hole = address_hole(area->bytes, area->page);
	char *old = mmap(hole, area->bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

	CHECK(old == hole, "%s", strerror(errno));
	marks_write(area->start, 0, area->bytes, 6);
	old[0] = 77;
	if (area->bytes_1g) {
		CHECK_ERRNO((long)map_at(hole, area, MAP_SHARED | MAP_FIXED), EINVAL);
		CHECK_EQ(old[0], 77);	/* what was there still is */
	} else {
		CHECK(map_at(hole, area, MAP_SHARED | MAP_FIXED) == hole, "%s", strerror(errno));
		CHECK_MARKS(hole, 0, area->bytes, 6);
	}
	CHECK_ERRNO((long)map_at(hole, area, MAP_SHARED | MAP_FIXED_NOREPLACE), EEXIST);
	CHECK(map_at(hole, area, MAP_SHARED_VALIDATE | MAP_FIXED) == hole, "%s", strerror(errno));
	CHECK_MARKS(hole, 0, area->bytes, 6);
	CHECK_OK(munmap(hole, area->bytes));
	CHECK(map_at(hole, area, MAP_SHARED | MAP_FIXED_NOREPLACE) == hole, "%s", strerror(errno));
	check_huge_entries(area, hole, 0, area->bytes);
	CHECK_MARKS(hole, 0, area->bytes, 6);
}

static void fixed_places_out_of_step_are_2m_aligned_or_refused(struct area *area)
{
	char *hole = address_hole(area->bytes + PAGE_2M, area->page);

	CHECK_ERRNO((long)map_at(hole + PAGE_4K, area, MAP_SHARED_VALIDATE | MAP_FIXED), EINVAL);
	CHECK_ERRNO((long)map_at(hole + PAGE_4K, area, MAP_SHARED | MAP_FIXED_NOREPLACE), EINVAL);
	/* 2M further the 1G page can have no entry of its own any more */
	CHECK(map_at(hole + PAGE_2M, area, MAP_SHARED_VALIDATE | MAP_FIXED) == hole + PAGE_2M, "%s", strerror(errno));
	marks_write(hole + PAGE_2M, 0, area->bytes, 7);
	CHECK_MARKS(area->start, 0, area->bytes, 7);
}

static void populating_leaves_nothing_to_fault(struct area *area)
{
	char *start = map_at(NULL, area, MAP_SHARED | MAP_POPULATE);

	CHECK(start != MAP_FAILED, "%s", strerror(errno));
	CHECK(touch_faults(start, area->bytes) <= 2, "MAP_POPULATE left faults");
	CHECK_OK(munmap(start, area->bytes));

	CHECK_OK(madvise(area->start, area->bytes, MADV_POPULATE_READ));
	CHECK_OK(madvise(area->start, area->bytes, MADV_POPULATE_WRITE));
	CHECK(touch_faults(area->start, area->bytes) <= 2, "MADV_POPULATE_WRITE left faults");
	CHECK_OK(madvise(area->start, area->bytes, MADV_DONTNEED));
	CHECK_OK(madvise(area->start + PAGE_2M, PAGE_4K, MADV_POPULATE_WRITE));
	CHECK(touch_faults(area->start + PAGE_2M, PAGE_4K) <= 2, "a part was not populated");
	CHECK_OK(madvise(area->start, area->bytes, MADV_POPULATE_WRITE));
}

static void check_unmoved(const struct area *area, uint64_t seed)
{
	CHECK_MARKS(area->start, 0, area->bytes, seed);
	CHECK_EQ(write_signal(area->start + area->bytes - 1, 0), 0);
}

static void moving_works_for_2m_and_is_refused_with_1g_pages(struct area *area)
{
	char *hole = address_hole(area->bytes, area->page), *got;

	marks_write(area->start, 0, area->bytes, 8);
	got = mremap(area->start, area->bytes, area->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, hole);
	if (area->bytes_1g) {
		CHECK(got == MAP_FAILED && errno == EINVAL, "%p %s", got, strerror(errno));
		got = mremap(area->start + area->bytes_1g, PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, hole);
		CHECK(got == MAP_FAILED && errno == EINVAL, "%p %s", got, strerror(errno));
		check_unmoved(area, 8);
		return;
	}
	CHECK(got == hole, "%s", strerror(errno));
	CHECK_EQ(read_signal(area->start), SIGSEGV);
	CHECK_EQ(read_signal(area->start + area->bytes - 1), SIGSEGV);
	CHECK_MARKS(hole, 0, area->bytes, 8);
	CHECK_MARKS(region_map(area->fd, 0, area->bytes, PROT_READ), 0, area->bytes, 8);
	CHECK_OK(madvise(hole, area->bytes, MADV_DONTNEED));
	check_huge_entries(area, hole, 0, area->bytes);
}

static void one_page_moves_out_of_the_middle(struct area *area)
{
	char *hole = address_hole(PAGE_2M, PAGE_2M);

	if (area->bytes_1g)	/* refused whole, see above */
		return;
	marks_write(area->start, 0, area->bytes, 9);
	CHECK(mremap(area->start + PAGE_2M, PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, hole) == hole, "%s",
	      strerror(errno));
	CHECK_EQ(read_signal(area->start + PAGE_2M), SIGSEGV);
	CHECK_EQ(read_signal(area->start + PAGE_2M - 1), 0);
	CHECK_EQ(read_signal(area->start + 2 * PAGE_2M), 0);
	*(volatile uint64_t *)(hole + 8) = 99;
	CHECK_EQ(*(volatile uint64_t *)(region_map(area->fd, PAGE_2M, PAGE_2M, PROT_READ) + 8), 99);
}

static void moving_out_of_step_keeps_the_bytes(struct area *area)
{
	char *hole = address_hole(area->bytes + PAGE_2M, PAGE_2M), *got;

	marks_write(area->start, 0, area->bytes, 10);
	got = mremap(area->start, area->bytes, area->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, hole + PAGE_4K);
	if (area->bytes_1g) {
		CHECK(got == MAP_FAILED, "moved");
		check_unmoved(area, 10);
		return;
	}
	CHECK(got == hole + PAGE_4K, "%s", strerror(errno));
	CHECK_EQ(read_signal(area->start), SIGSEGV);
	CHECK_MARKS(got, 0, area->bytes, 10);
	marks_write(got, 0, area->bytes, 11);
	CHECK_MARKS(region_map(area->fd, 0, area->bytes, PROT_READ), 0, area->bytes, 11);
	CHECK_OK(madvise(got, area->bytes, MADV_DONTNEED));
	CHECK_MARKS(got, 0, area->bytes, 11);
	/* and back into step, from where huge entries are possible again */
	CHECK(mremap(got, area->bytes, area->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, area->start) == area->start, "%s",
	      strerror(errno));
	CHECK_MARKS(area->start, 0, area->bytes, 11);
	CHECK_OK(munmap(area->start, area->bytes));
}

static void growing_and_leaving_a_copy_are_refused(struct area *area)
{
	uint64_t bytes = area->bytes;

	marks_write(area->start, 0, bytes, 12);
	CHECK(mremap(area->start, bytes, bytes + PAGE_2M, MREMAP_MAYMOVE) == MAP_FAILED, "grown");
	CHECK(mremap(area->start, bytes, bytes + PAGE_4K, 0) == MAP_FAILED, "grown in place");
	CHECK(mremap(area->start, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) == MAP_FAILED, "left a copy");
	CHECK(mremap(area->start, 0, bytes, MREMAP_MAYMOVE) == MAP_FAILED, "mapped twice");
	check_unmoved(area, 12);
}

static void shrinking_works_at_page_borders_only(struct area *area)
{
	uint64_t bytes = area->bytes;

	marks_write(area->start, 0, bytes, 13);
	CHECK(mremap(area->start, bytes, bytes - PAGE_4K, 0) == MAP_FAILED && errno == EINVAL, "cut inside a page");
	check_unmoved(area, 13);
	marks_write(area->start, 0, bytes, 13);
	CHECK(mremap(area->start, bytes, bytes - PAGE_2M, 0) == area->start, "%s", strerror(errno));
	CHECK_EQ(read_signal(area->start + bytes - PAGE_2M), SIGSEGV);
	CHECK_EQ(read_signal(area->start + bytes - PAGE_2M - 1), 0);
	CHECK_MARKS(region_map(area->fd, 0, bytes, PROT_READ), 0, bytes, 13);
}

static void parts_of_a_page_are_not_unmapped_or_protected(struct area *area)
{
	uint64_t inside = area->bytes_1g ? PAGE_2M : PAGE_4K;

	marks_write(area->start, 0, area->bytes, 14);
	CHECK_ERRNO(munmap(area->start + inside, inside), EINVAL);
	CHECK_ERRNO(munmap(area->start, inside), EINVAL);
	CHECK_ERRNO(munmap(area->start + area->bytes - PAGE_4K, PAGE_4K), EINVAL);
	CHECK_ERRNO(mprotect(area->start + inside, inside, PROT_READ), EINVAL);
	CHECK_ERRNO(mprotect(area->start + area->bytes - PAGE_4K, PAGE_4K, PROT_NONE), EINVAL);
	CHECK((long)mmap(area->start + inside, inside, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == -1,
	      "something else was mapped into a page");
	check_unmoved(area, 14);
}

/* Its entries go as whole pages too: of a part of one the kernel would say that somebody else's lock is not held. */
static void a_part_loses_access_beside_another_process(struct area *area)
{
	uint64_t inside = area->bytes_1g ? PAGE_2M : PAGE_4K;
	struct channel channel = channel_open();
	pid_t child;

	marks_write(area->start, 0, area->bytes, 18);
	child = ktap_fork();
	if (!child) {
		char *mine = region_map(area->fd, 0, area->bytes, PROT_READ | PROT_WRITE);

		CHECK_MARKS(mine, 0, area->bytes, 18);
		channel_signal(&channel, 1);
		channel_wait(&channel, 1);
		CHECK_MARKS(mine, 0, area->bytes, 18);
		ktap_exit();
	}
	channel_wait(&channel, 0);
	CHECK_ERRNO(mprotect(area->start, inside, PROT_NONE), EINVAL);
	CHECK_ERRNO(mprotect(area->start + inside, inside, PROT_NONE), EINVAL);
	/* an area that has no more than a part of the page may lose all of its access */
	CHECK_OK(mprotect(region_map(area->fd, 0, PAGE_2M, PROT_READ), PAGE_2M, PROT_NONE));
	channel_signal(&channel, 0);
	ktap_join(child);
	check_unmoved(area, 18);
}

static void whole_pages_are_unmapped_alone(struct area *area)
{
	uint64_t second = area->page;	/* the page after the first */

	marks_write(area->start, 0, area->bytes, 15);
	CHECK_OK(munmap(area->start + second, PAGE_2M));
	CHECK_EQ(read_signal(area->start + second), SIGSEGV);
	CHECK_EQ(read_signal(area->start + second + PAGE_2M), 0);
	CHECK_OK(munmap(area->start, area->page));
	CHECK_EQ(read_signal(area->start), SIGSEGV);
	CHECK_MARKS(region_map(area->fd, 0, area->bytes, PROT_READ), 0, area->bytes, 15);
}

static void protection_is_changed_and_changed_back(struct area *area)
{
	marks_write(area->start, 0, area->bytes, 16);
	CHECK_OK(mprotect(area->start, area->bytes, PROT_READ));
	CHECK_EQ(write_signal(area->start, 1), SIGSEGV);
	CHECK_EQ(write_signal(area->start + area->bytes - 1, 1), SIGSEGV);
	CHECK_MARKS(area->start, 0, area->bytes, 16);
	CHECK_OK(mprotect(area->start, area->bytes, PROT_NONE));
	CHECK_EQ(read_signal(area->start + PAGE_4K), SIGSEGV);
	CHECK_OK(mprotect(area->start, area->bytes, PROT_READ | PROT_WRITE));
	CHECK_MARKS(area->start, 0, area->bytes, 16);
	marks_write(area->start, 0, area->bytes, 17);
	CHECK_MARKS(area->start, 0, area->bytes, 17);
	CHECK_OK(mprotect(area->start + area->page, PAGE_2M, PROT_READ));	/* one page of several */
	CHECK_EQ(write_signal(area->start + area->page, 1), SIGSEGV);
	CHECK_EQ(write_signal(area->start + area->page + PAGE_2M, 0), 0);
	CHECK_EQ(write_signal(area->start, 0), 0);
}

static void a_read_fault_first_then_a_write(struct area *area)
{
	char *other = region_map(area->fd, 0, area->bytes, PROT_READ);

	/* zero is not given: the region with a 1G page is shared by cases */
	CHECK_EQ(read_signal(area->start), 0);
	CHECK_EQ(read_signal(area->start + area->bytes - 1), 0);
	marks_write(area->start, 0, area->bytes, 18);
	CHECK_MARKS(other, 0, area->bytes, 18);
}

/* The old way to rearrange pages within an area; the core makes it a MAP_FIXED mapping of the same file. */
static void remap_file_pages_rearranges_2m_and_is_refused_with_1g(struct area *area)
{
	long got;

	marks_write(area->start, 0, area->bytes, 19);
	got = syscall(SYS_remap_file_pages, area->start, (long)PAGE_2M, 0L, (long)(PAGE_2M / PAGE_4K), 0L);
	if (area->bytes_1g) {
		CHECK(got == -1 && errno == EINVAL, "%ld %s", got, strerror(errno));
		check_unmoved(area, 19);
		return;
	}
	if (got && errno == ENOSYS)
		ktap_skip("no remap_file_pages");
	CHECK(!got, "%s", strerror(errno));
	CHECK(!memcmp(area->start, area->start + PAGE_2M, PAGE_2M), "the first page shows other bytes than the second");
}

const struct mapping_row mapping_place_rows[] = {
	ROW(the_whole_region_is_mapped_in_huge_entries),
	ROW(every_part_aligned_to_2m_is_mapped_alone),
	ROW(two_mappings_show_the_same_bytes),
	ROW(a_mapping_outlives_its_descriptor),
	ROW(malformed_mappings_are_refused),
	ROW(private_mappings_are_refused),
	ROW(fixed_places_need_a_word_more_with_1g_pages),
	ROW(fixed_places_out_of_step_are_2m_aligned_or_refused),
	ROW(populating_leaves_nothing_to_fault),
	ROW(moving_works_for_2m_and_is_refused_with_1g_pages),
	ROW(one_page_moves_out_of_the_middle),
	ROW(moving_out_of_step_keeps_the_bytes),
	ROW(growing_and_leaving_a_copy_are_refused),
	ROW(shrinking_works_at_page_borders_only),
	ROW(parts_of_a_page_are_not_unmapped_or_protected),
	ROW(a_part_loses_access_beside_another_process),
	ROW(whole_pages_are_unmapped_alone),
	ROW(protection_is_changed_and_changed_back),
	ROW(a_read_fault_first_then_a_write),
	ROW(remap_file_pages_rearranges_2m_and_is_refused_with_1g),
	{ NULL, NULL },
};
