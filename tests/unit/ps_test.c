// SPDX-License-Identifier: MIT
/*
 * hugepinctl ps: who holds a region, found among this test's own processes; metrics' text; files replaced whole; names
 * that are no text.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ps.h"
#include "samples.h"
#include "tree.h"

#define BYTES	(3 << 20)

/* A file of memory stands for a region: what is looked at in /proc is the same. */
static struct ps_region stand_in(int *fd)
{
	struct ps_region region = { .path = NULL };
	struct stat st;

	*fd = memfd_create("region", MFD_CLOEXEC);
	assert_true(*fd >= 0);
	assert_int_equal(ftruncate(*fd, BYTES), 0);
	fstat(*fd, &st);
	region.info.dev = st.st_dev;
	region.info.ino = st.st_ino;
	return region;
}

static const struct holder *holder_of(const struct ps *ps, size_t region, int pid)
{
	for (size_t i = 0; i < ps->nr_holders; i++)
		if (ps->holders[i].region == region && ps->holders[i].pid == pid)
			return &ps->holders[i];
	return NULL;
}

static void descriptors_and_mappings_are_found(void **state)
{
	struct ps_region regions[2];
	struct ps ps = { .regions = regions, .nr_regions = 2 };
	const struct holder *holder;
	int fds[2], again;
	void *addr;

	(void)state;
	regions[0] = stand_in(&fds[0]);
	regions[1] = stand_in(&fds[1]);
	again = dup(fds[0]);
	addr = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fds[1], 0);
	assert_ptr_not_equal(addr, MAP_FAILED);
	close(fds[1]);
	assert_int_equal(holders_find(&ps), 0);
	holder = holder_of(&ps, 0, getpid());
	assert_non_null(holder);
	assert_int_equal(holder->descriptors, 2);
	assert_int_equal(holder->mapped_bytes, 0);
	assert_int_equal(holder->uid, getuid());
	assert_string_equal(holder->comm, "ps_test");
	holder = holder_of(&ps, 1, getpid());
	assert_non_null(holder);
	assert_int_equal(holder->descriptors, 0);
	assert_int_equal(holder->mapped_bytes, BYTES);
	assert_int_equal(ps.nr_holders, 2);
	free(ps.holders);
	munmap(addr, BYTES);
	close(fds[0]);
	close(again);
}

static void a_name_alone_is_forgotten(void **state)
{
	char name[] = "emb0";
	struct ps_region region = { .path = name };

	(void)state;
	assert_true(ps_is_forgotten(&region));
	region.info.held_bytes = 1;
	assert_false(ps_is_forgotten(&region));
	region.info.held_bytes = 0;
	region.info.mappings = 1;
	assert_false(ps_is_forgotten(&region));
	region.info.mappings = 0;
	region.path = NULL;
	assert_false(ps_is_forgotten(&region));
}

/* ---- metrics ---- */

static const struct family families[] = {
	{ "a_bytes", "Of a.", { "node", "who" } },
	{ "b_count", "Of b.", { NULL } },
};

static void samples_are_grouped_and_quoted(void **state)
{
	struct samples samples = { .families = families, .nr_families = 2 };
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	sample_add(&samples, 0, 9007199254740991.0, "0", "x");
	sample_add(&samples, 1, 0.5);
	sample_add(&samples, 0, 3, "1", "a\"b\\c\nd");
	assert_int_equal(samples_write_text(&samples, out), 0);
	fclose(out);
	assert_string_equal(text, "# HELP a_bytes Of a.\n# TYPE a_bytes gauge\n"
				  "a_bytes{node=\"0\",who=\"x\"} 9007199254740991\n"
				  "a_bytes{node=\"1\",who=\"a\\\"b\\\\c\\nd\"} 3\n"
				  "# HELP b_count Of b.\n# TYPE b_count gauge\nb_count 0.5\n");
	free(text);
	samples_free(&samples);
}

/* ---- files replaced whole ---- */

static int write_arg(FILE *out, void *arg)
{
	fputs(arg, out);
	return 0;
}

static int write_half(FILE *out, void *arg)
{
	fputs(arg, out);
	return -EIO;
}

static unsigned int entries_in(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static void a_file_is_replaced_whole_or_stays(void **state)
{
	struct tree tree;
	struct message why;
	char path[128], text[16];
	struct stat st;

	(void)state;
	tree_make(&tree);
	snprintf(path, sizeof(path), "%s/x.prom", tree.root);
	assert_int_equal(file_replace(path, write_arg, "first", &why), 0);
	assert_int_equal(file_replace(path, write_half, "second", &why), -EIO);
	assert_non_null(strstr(why.text, path));
	assert_int_equal(host_read(text, sizeof(text), "%s", path), 0);
	assert_string_equal(text, "first");
	assert_int_equal(entries_in(tree.root), 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777 & ~0644, 0);
	assert_int_equal(st.st_mode & 0444, 0444);
	snprintf(path, sizeof(path), "%s/none/x.prom", tree.root);
	assert_int_equal(file_replace(path, write_arg, "first", &why), -ENOENT);
	tree_remove(&tree, "");
}

static void what_is_no_regular_file_is_not_replaced(void **state)
{
	static const mode_t types[] = { S_IFIFO, S_IFLNK, S_IFDIR };
	struct message why;
	struct tree tree;
	struct stat st;
	char path[128];

	(void)state;
	tree_make(&tree);
	snprintf(path, sizeof(path), "%s/x.prom", tree.root);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_int_equal(types[i] == S_IFIFO ? mkfifo(path, 0600) :
				 types[i] == S_IFLNK ? symlink("/dev/null", path) : mkdir(path, 0700), 0);
		assert_int_equal(file_replace(path, write_arg, "text", &why), -EINVAL);
		assert_non_null(strstr(why.text, "not a regular file"));
		assert_int_equal(lstat(path, &st), 0);
		assert_int_equal(st.st_mode & S_IFMT, types[i]);
		assert_int_equal(entries_in(tree.root), 1);
		assert_int_equal(remove(path), 0);
	}
	tree_remove(&tree, "");
}

/* ---- names that others chose ---- */

static void text_of_others_is_made_fit_to_be_shown(void **state)
{
	static const struct {
		const char *text, *terminal, *json;
	} cases[] = {
		{ "emb0", "emb0", "emb0" },
		{ "\033[2Jemb\n", "?[2Jemb?", "\033[2Jemb\n" },
		{ "a\177b", "a?b", "a\177b" },
		{ "gr\303\266\303\237e \346\274\242 \360\237\246\231", "gr\303\266\303\237e \346\274\242 \360\237\246\231",
		  "gr\303\266\303\237e \346\274\242 \360\237\246\231" },
		{ "\302\233" "2J", "??2J", "\302\233" "2J" },		/* a control sequence in two bytes */
		{ "cut\303", "cut?", "cut?" },				/* as the kernel cuts a name to 15 bytes */
		{ "cut\346\274", "cut??", "cut??" },
		{ "\200\277\376\377", "????", "????" },
		{ "\300\257 \340\200\257 \360\200\200\257", "?? ??? ????", "?? ??? ????" },	/* longer than need be */
		{ "\355\240\200 \364\220\200\200", "??? ????", "??? ????" },	/* a surrogate; beyond the last */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];

		strcpy(text, cases[i].text);
		text_for_terminal(text);
		assert_string_equal(text, cases[i].terminal);
		strcpy(text, cases[i].text);
		text_for_json(text);
		assert_string_equal(text, cases[i].json);
	}
}

static void names_reach_no_terminal_as_they_are(void **state)
{
	char path[] = "/\033]0;root\007\377";
	struct ps_region region = { .path = path };
	const struct ps ps = { .regions = &region, .nr_regions = 1 };
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(ps_print_regions(&ps, false, false, out), 0);
	fclose(out);
	assert_non_null(strstr(text, "/?]0;root??\n"));
	assert_null(strchr(text, '\033'));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_and_mappings_are_found),
		cmocka_unit_test(a_name_alone_is_forgotten),
		cmocka_unit_test(samples_are_grouped_and_quoted),
		cmocka_unit_test(a_file_is_replaced_whole_or_stays),
		cmocka_unit_test(what_is_no_regular_file_is_not_replaced),
		cmocka_unit_test(text_of_others_is_made_fit_to_be_shown),
		cmocka_unit_test(names_reach_no_terminal_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
