// SPDX-License-Identifier: MIT
/*
 * The table of options. Adding one means an id in internal.h and an entry here; Documentation/options.md follows by
 * "make options-doc".
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

	return hpi_policy_split(value, &policy, &nodes, &local);
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
	"of the hugepin module, hugetlb:1G and hugetlb:2M of the kernel's own huge pages, base for base pages. The " \
	"first that can give the memory does; a ladder of one rung is strict."

#define CAP_DOC \
	"An allocation that would take the pool beyond it is refused. 0: no cap of the pool's own."

const struct hpi_option hpi_options_table[HPI_OPT_COUNT] = {
	[HPI_OPT_RUNTIME] = {
		OWN("runtime"),
		.environment = "HUGEPIN_RUNTIME",
		.type = HPI_TYPE_CHOICE,
		.choices = "auto|none|cuda",
		.default_value = "auto",
		.doc = "The accelerator's runtime with which pinned memory is registered. auto takes the first that "
		       "is on this machine, or none; cuda is an error where there is no CUDA driver; none keeps "
		       "pinned memory resident without registering it.",
	},
	[HPI_OPT_MOUNT] = {
		OWN("mount"),
		.environment = "HUGEPIN_MOUNT",
		.type = HPI_TYPE_STRING,
		.default_value = "/run/hugepin",
		.check = check_directory,
		.doc = "The mount of hugepinfs in which names of regions and variables are looked up. In a "
		       "container this is the place where its tenant's mount is bound.",
	},
	[HPI_OPT_NODE_POLICY] = {
		OWN("node_policy"),
		.environment = "HUGEPIN_NODE_POLICY",
		.type = HPI_TYPE_STRING,
		.default_value = "local",
		.check = check_policy,
		.doc = "Where memory comes from: local (the node of the thread that makes the pool grow, then the "
		       "others, nearest first), bind:LIST (these nodes only), interleave:LIST (these in turn), "
		       "preferred:LIST (these first). LIST is node ids such as 0-3,8; a node that does not exist is "
		       "an error.",
	},
	[HPI_OPT_HOST_LADDER] = {
		OWN("host_ladder"),
		.environment = "HUGEPIN_HOST_LADDER",
		.type = HPI_TYPE_LIST,
		.default_value = "kmod:1G+2M,kmod:2M,hugetlb:2M,base",
		.check = check_ladder,
		.doc = "What the host pool tries. "
		       LADDER_DOC,
	},
	[HPI_OPT_PINNED_LADDER] = {
		OWN("pinned_ladder"),
		.environment = "HUGEPIN_PINNED_LADDER",
		.type = HPI_TYPE_LIST,
		.default_value = "kmod:1G+2M,kmod:2M,hugetlb:2M,base",
		.check = check_ladder,
		.doc = "What the pinned pool tries. "
		       LADDER_DOC,
	},
	[HPI_OPT_VARIABLE_LADDER] = {
		OWN("variable_ladder"),
		.rival = "variable_use_1g_huge_page",
		.environment = "HUGEPIN_VARIABLE_LADDER",
		.type = HPI_TYPE_LIST,
		.default_value = "kmod:2M,hugetlb:2M,base",
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
	[HPI_OPT_REGISTER_CHUNK] = {
		OWN("register_chunk"),
		.unit = "bytes",
		.environment = "HUGEPIN_REGISTER_CHUNK",
		.type = HPI_TYPE_BYTES,
		.default_value = "1G",
		.min = "2M",
		.max = "256G",
		.check = check_chunk,
		.doc = "How much one call registers with the runtime; a multiple of 2M. A larger range is "
		       "registered in several calls, so that each is bounded in time and below the runtime's own "
		       "limit.",
	},
	[HPI_OPT_REGISTER_THREADS] = {
		OWN("register_threads"),
		.unit = "threads",
		.environment = "HUGEPIN_REGISTER_THREADS",
		.type = HPI_TYPE_UINT,
		.default_value = "4",
		.min = "1",
		.max = "64",
		.doc = "How many threads register the chunks of one range side by side. They live for that call "
		       "only.",
	},
	[HPI_OPT_PADDLE_FRACTION_PINNED] = {
		.name = "FLAGS_fraction_of_cuda_pinned_memory_to_use",
		.environment = "FLAGS_fraction_of_cuda_pinned_memory_to_use",
		.dialect = "paddle",
		.type = HPI_TYPE_DOUBLE,
		.default_value = "0.5",
		.min = "0",
		.max = "1",
		.doc = "Size of the pinned pool's chunk as a share of the container's memory or the machine's, "
		       "whichever is less. It is a chunk, not a cap: when it is used up another of the same size is "
		       "taken, and one that does not fit shrinks to what is needed.",
	},
	[HPI_OPT_ASCEND_VARIABLE_1G] = {
		.name = "variable_use_1g_huge_page",
		.environment = "HUGEPIN_VARIABLE_USE_1G_HUGE_PAGE",
		.dialect = "ascend",
		.type = HPI_TYPE_CHOICE,
		.choices = "0|1|2",
		.default_value = "0",
		.rival = "variable_ladder",
		.doc = "Page size of variables and constants. 0: 2M pages, then base pages. 1: 1G pages or an "
		       "error. 2: 1G pages, then 2M pages, then an error. An error names node, size, asked and "
		       "available; nothing stays held.",
	},
};
