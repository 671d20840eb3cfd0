// SPDX-License-Identifier: MIT
/*
 * The table of options: hugepin's own. Adding one means an id in internal.h and an entry here or, for another system's
 * dialect, in options_dialects.c; Documentation/options.md follows by "make options-doc".
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "options_table.h"

static int check_directory(const char *value)
{
	if (value[0] != '/')
		return hpi_error(-EINVAL, "is not an absolute path");
	if (strlen(value) >= PATH_MAX)
		return hpi_error(-EINVAL, "has %zu bytes, a path may have %d", strlen(value), PATH_MAX - 1);
	return 0;
}

static int check_policy(const char *value)
{
	enum hugepin_policy policy;
	struct hpi_nodes nodes;
	bool local;

	int device;

	return hpi_policy_is_device(value, &device) ? 0 : hpi_policy_split(value, &policy, &nodes, &local);
}

static int check_ladder(const char *value)
{
	struct hpi_ladder ladder;

	return hpi_ladder_parse(value, &ladder);
}

static int check_chunk(const char *value)
{
	uint64_t bytes;

	if (hpi_size_parse_bytes(value, &bytes) || bytes % HPI_2M)
		return hpi_error(-EINVAL, "is not a multiple of 2M");
	return 0;
}

#define OWN(option)	.name = option, .dialect = "hugepin"

#define LADDER_DOC \
	"Rungs in order, separated by commas: kmod:1G, kmod:1G+2M (1G pages with the rest in 2M pages) and kmod:2M " \
	"of the hugepin module, hugetlb:1G and hugetlb:2M of the kernel's own huge pages, thp for transparent huge " \
	"pages as far as the kernel gives some, base for base pages, runtime for memory that the accelerator's runtime " \
	"allocates and pins itself (ascend). The first that can give the memory does; a ladder of one rung is strict."

#define CAP_DOC \
	"An allocation that would take the pool beyond it is refused. 0: no cap of the pool's own."

static const struct hpi_option own[HPI_OPT_COUNT] = {
	[HPI_OPT_RUNTIME] = {
		OWN("runtime"),
		.environment = "HUGEPIN_RUNTIME",
		.type = HPI_TYPE_CHOICE,
		.choices = "auto|none|cuda|ascend|hip",
		.default_value = "auto",
		.doc = "The accelerator's runtime with which pinned memory is registered. auto takes the first that "
		       "is on this machine, or none; one asked for by name is an error where its driver is not there; "
		       "none keeps pinned memory resident without registering it.",
	},
	[HPI_OPT_MOUNT] = {
		OWN("mount"),
		.environment = "HUGEPIN_MOUNT",
		.type = HPI_TYPE_STRING,
		.default_value = "/run/hugepin",
		.check = check_directory,
		.doc = "The mount of hugepinfs in which names of regions and variables are looked up. In a container "
		       "this is the place where its tenant's mount is bound.",
	},
	[HPI_OPT_NODE_POLICY] = {
		OWN("node_policy"),
		.environment = "HUGEPIN_NODE_POLICY",
		.type = HPI_TYPE_STRING,
		.default_value = "local",
		.check = check_policy,
		.doc = "Where memory comes from: local (the node of the thread that makes the pool grow, then the "
		       "others, nearest first), bind:LIST (these nodes only), interleave:LIST (these in turn), "
		       "preferred:LIST (these first), device:N (the node next to device N first; known once the "
		       "program has initialised the runtime). LIST is node ids such as 0-3,8; a node or device that "
		       "does not exist is an error.",
	},
	[HPI_OPT_STRATEGY] = {
		OWN("strategy"),
		.subject = "growth of pools",
		.environment = "HUGEPIN_STRATEGY",
		.type = HPI_TYPE_CHOICE,
		.choices = "needed|chunks|doubling",
		.default_value = "needed",
		.doc = "How a pool grows. needed: by what an allocation needs, rounded to pages. chunks: by equal "
		       "chunks, of the size that FLAGS_fraction_of_... and FLAGS_initial_... give. doubling: each "
		       "segment is twice as large as the one before. What does not fit shrinks to what is needed. "
		       "FLAGS_allocator_strategy and allow_growth say it in other systems' words, for the device "
		       "pool: two of them in one source are refused, else the higher source wins.",
	},
	[HPI_OPT_HOST_LADDER] = {
		OWN("host_ladder"),
		.environment = "HUGEPIN_HOST_LADDER",
		.type = HPI_TYPE_LIST,
		.default_value = "kmod:1G+2M,kmod:2M,hugetlb:2M,thp,base",
		.check = check_ladder,
		.doc = "What the host pool tries. "
		       LADDER_DOC,
	},
	[HPI_OPT_PINNED_LADDER] = {
		OWN("pinned_ladder"),
		.environment = "HUGEPIN_PINNED_LADDER",
		.type = HPI_TYPE_LIST,
		.default_value = "kmod:1G+2M,kmod:2M,hugetlb:2M,thp,base",
		.check = check_ladder,
		.doc = "What the pinned pool tries; runtime ascend adds \"runtime\" at the end of the default. "
		       LADDER_DOC,
	},
	[HPI_OPT_VARIABLE_LADDER] = {
		OWN("variable_ladder"),
		.subject = "page size of variables",
		.environment = "HUGEPIN_VARIABLE_LADDER",
		.type = HPI_TYPE_LIST,
		.default_value = "kmod:2M,hugetlb:2M,thp,base",
		.check = check_ladder,
		.doc = "What the variable pool tries. "
		       LADDER_DOC
		       " variable_use_1g_huge_page says the same in Ascend's words: both in one source are refused, "
		       "else the higher source wins.",
	},
	[HPI_OPT_HOST_CAP] = {
		OWN("host_cap"),
		.unit = "bytes",
		.environment = "HUGEPIN_HOST_CAP",
		.type = HPI_TYPE_BYTES,
		.default_value = "0",
		.doc = "Most memory that the host pool maps. "
		       CAP_DOC,
	},
	[HPI_OPT_PINNED_CAP] = {
		OWN("pinned_cap"),
		.unit = "bytes",
		.environment = "HUGEPIN_PINNED_CAP",
		.type = HPI_TYPE_BYTES,
		.default_value = "0",
		.doc = "Most memory that the pinned pool maps. "
		       CAP_DOC,
	},
	[HPI_OPT_VARIABLE_CAP] = {
		OWN("variable_cap"),
		.unit = "bytes",
		.environment = "HUGEPIN_VARIABLE_CAP",
		.type = HPI_TYPE_BYTES,
		.default_value = "0",
		.doc = "Most memory that the variable pool maps. "
		       CAP_DOC,
	},
	[HPI_OPT_DEVICE_CAP] = {
		OWN("device_cap"),
		.unit = "bytes",
		.environment = "HUGEPIN_DEVICE_CAP",
		.type = HPI_TYPE_BYTES,
		.default_value = "0",
		.doc = "Most memory that a device pool maps on its device. "
		       CAP_DOC,
	},
	[HPI_OPT_HOST_FRACTION] = {
		OWN("per_process_host_memory_fraction"),
		.environment = "HUGEPIN_PER_PROCESS_HOST_MEMORY_FRACTION",
		.type = HPI_TYPE_DOUBLE,
		.default_value = "0",
		.min = "0",
		.max = "1",
		.doc = "Most memory that the host, pinned and variable pools of a process map together, as a share of the "
		       "container's memory or the machine's, whichever is less. 0: no such cap. The caps of single "
		       "pools hold besides.",
	},
	[HPI_OPT_CACHE_CAP] = {
		OWN("cache_cap"),
		.unit = "bytes",
		.environment = "HUGEPIN_CACHE_CAP",
		.type = HPI_TYPE_BYTES,
		.default_value = "64M",
		.doc = "Most freed memory that the threads' caches of one pool keep for quick reuse, all threads "
		       "together. 0: nothing is cached, and every free goes to the pool itself.",
	},
	[HPI_OPT_REGISTER_CHUNK] = {
		OWN("register_chunk"),
		.unit = "bytes",
		.environment = "HUGEPIN_REGISTER_CHUNK",
		.type = HPI_TYPE_BYTES,
		.default_value = "1G",
		.min = "2M",
		.max = "256G",
		.check = check_chunk,
		.doc = "How much one call registers with the runtime; a multiple of 2M. A larger range is registered "
		       "in several calls, so that each is bounded in time and below the runtime's own limit.",
	},
	[HPI_OPT_REGISTER_THREADS] = {
		OWN("register_threads"),
		.unit = "threads",
		.environment = "HUGEPIN_REGISTER_THREADS",
		.type = HPI_TYPE_UINT,
		.default_value = "4",
		.min = "1",
		.max = "64",
		.doc = "How many threads side by side register the chunks of one range, and zero memory that does not "
		       "come from the reserve. They live for that call only.",
	},
	[HPI_OPT_RAISE_MEMLOCK] = {
		OWN("raise_memlock"),
		.environment = "HUGEPIN_RAISE_MEMLOCK",
		.type = HPI_TYPE_BOOL,
		.default_value = "false",
		.doc = "Where pinned memory would go over the soft limit of locked memory (RLIMIT_MEMLOCK), raise "
		       "that limit, for the whole process, as far as the hard one allows. false: such an allocation "
		       "is refused with asked, held and both limits.",
	},
	[HPI_OPT_SCRUB] = {
		OWN("scrub"),
		.environment = "HUGEPIN_SCRUB",
		.type = HPI_TYPE_BOOL,
		.default_value = "true",
		.doc = "Whether the module zeroes free pages in the background, for the whole host: hugepin-boot sets "
		       "the module's knob scrub/enabled to it, where /etc/hugepin.conf has no line scrub. Pools do not "
		       "look at it: memory is handed out zeroed either way; with false, the one who takes it waits.",
	},
	[HPI_OPT_LOG_LEVEL] = {
		OWN("log_level"),
		.environment = "HUGEPIN_LOG_LEVEL",
		.type = HPI_TYPE_CHOICE,
		.choices = "none|error|warning|info|debug",
		.default_value = "none",
		.doc = "What hugepinctl run prints of the library's log, on the program's standard error: lines of this "
		       "level and of those before it. The library itself never prints; a program that calls "
		       "hugepin_log_set() has its own level from then on.",
	},
};

const struct hpi_option *hpi_options_entry(enum hpi_option_id id)
{
	return own[id].name ? &own[id] : &hpi_options_dialects[id];
}

/* What a name says without the ways to write it: of FLAGS_host_cap, --host-cap and hostCap the letters h o s t c a p. */
static const char *bare(const char *name)
{
	name += strspn(name, "-");
	if (!strncmp(name, "FLAGS_", 6))
		return name + 6;
	return strncmp(name, "HUGEPIN_", 8) ? name : name + 8;
}

static char next_letter(const char **name)
{
	char c;

	*name += strspn(*name, "-_.");
	c = **name;
	*name += c != '\0';
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_alike(const char *a, const char *b)
{
	char c;

	a = bare(a);
	b = bare(b);
	while ((c = next_letter(&a)) == next_letter(&b))
		if (!c)
			return true;
	return false;
}

const struct hpi_option *hpi_options_alike(const char *name)
{
	int id;

	for (id = 0; id < HPI_OPT_COUNT; id++)
		if (is_alike(name, hpi_options_entry(id)->name))
			return hpi_options_entry(id);
	return NULL;
}
