// SPDX-License-Identifier: MIT
/*
 * The table of options: those of PaddlePaddle, TensorFlow and Ascend, under the names, with the ranges and the defaults
 * that people know from there.
 */
#include <errno.h>
#include <string.h>

#include "options_table.h"

/* Most that fits 64 bits in bytes. */
#define MB_MAX		"17592186044415"
#define GB_MAX		"17179869183"
#define INT32_MAX_TEXT	"2147483647"
#define INT64_MAX_TEXT	"9223372036854775807"

static int check_group_count(const char *value)
{
	int64_t count;

	if (hpi_size_parse_int(value, &count) || !count)
		return hpi_error(-EINVAL, "is neither a number of parameters nor -1 for a single group");
	return 0;
}

static int check_group_memory(const char *value)
{
	double mb;

	if (hpi_size_parse_double(value, &mb) || (mb < 0 && mb != -1))
		return hpi_error(-EINVAL, "is negative and not -1, which means no limit");
	return 0;
}

/* "5,3": each id once. Whether there are such devices, the runtime knows. */
static int check_devices(const char *value)
{
	struct hpi_nodes seen = { 0 };		/* a set of small numbers */
	char word[16];
	uint64_t id;
	size_t length;

	while (*value) {
		length = strcspn(value, ",");
		if (length >= sizeof(word))
			return hpi_error(-EINVAL, "has an id of %zu characters", length);
		memcpy(word, value, length);
		word[length] = '\0';
		if (hpi_size_parse_uint(word, &id))
			return hpi_error(-EINVAL, "\"%.300s\" is no device's id: a whole number, commas between", word);
		if (id >= HPI_NODES_MAX)
			return hpi_error(-EINVAL, "id %s is beyond %d", word, HPI_NODES_MAX - 1);
		if (hpi_nodes_has(&seen, (unsigned int)id))
			return hpi_error(-EINVAL, "names device %s twice", word);
		hpi_nodes_set(&seen, (unsigned int)id);
		value += length;
		if (*value && !*++value)
			return hpi_error(-EINVAL, "ends in a comma");
	}
	return 0;
}

#define PADDLE(option)			.name = option, .environment = option, .dialect = "paddle"
#define TENSORFLOW(option, variable)	.name = option, .environment = variable, .dialect = "tensorflow"
#define ASCEND(option, variable)	.name = option, .environment = variable, .dialect = "ascend"

#define CHUNK_DOC \
	"It is a chunk, not a cap: when it is used up another of the same size is taken, and one that does not fit " \
	"shrinks to what is needed."

const struct hpi_option hpi_options_dialects[HPI_OPT_COUNT] = {
	[HPI_OPT_PADDLE_ALLOCATOR_STRATEGY] = {
		PADDLE("FLAGS_allocator_strategy"),
		.type = HPI_TYPE_CHOICE,
		.choices = "naive_best_fit|auto_growth",
		.default_value = "auto_growth",
		.subject = "growth of pools",
		.doc = "How a device pool grows. naive_best_fit: by chunks, of the sizes that "
		       "FLAGS_fraction_of_gpu_memory_to_use, FLAGS_initial_gpu_memory_in_mb and "
		       "FLAGS_reallocate_gpu_memory_in_mb give; less fragmentation. auto_growth: by what is needed. "
		       "Host and pinned pools work by chunks in this dialect, whatever this says; strategy sets it "
		       "for all pools.",
	},
	[HPI_OPT_PADDLE_FRACTION_CPU] = {
		PADDLE("FLAGS_fraction_of_cpu_memory_to_use"),
		.type = HPI_TYPE_DOUBLE,
		.default_value = "1.0",
		.min = "0",
		.max = "1",
		.doc = "Size of the host pool's chunk as a share of the container's memory or the machine's, "
		       "whichever is less, but no more than FLAGS_initial_cpu_memory_in_mb. "
		       CHUNK_DOC,
	},
	[HPI_OPT_PADDLE_INITIAL_CPU_MB] = {
		PADDLE("FLAGS_initial_cpu_memory_in_mb"),
		.type = HPI_TYPE_UINT,
		.unit = "MB",
		.default_value = "500",
		.min = "0",
		.max = MB_MAX,
		.doc = "Most that the host pool's chunk has; the chunk is the smaller of this and "
		       "FLAGS_fraction_of_cpu_memory_to_use of the memory. 0: no chunks, the pool takes what is "
		       "needed.",
	},
	[HPI_OPT_PADDLE_FRACTION_PINNED] = {
		PADDLE("FLAGS_fraction_of_cuda_pinned_memory_to_use"),
		.type = HPI_TYPE_DOUBLE,
		.default_value = "0.5",
		.min = "0",
		.max = "1",
		.doc = "Size of the pinned pool's chunk as a share of the container's memory or the machine's, "
		       "whichever is less. "
		       CHUNK_DOC,
	},
	[HPI_OPT_PADDLE_FRACTION_GPU] = {
		PADDLE("FLAGS_fraction_of_gpu_memory_to_use"),
		.type = HPI_TYPE_DOUBLE,
		.default_value = "0.92",
		.min = "0",
		.max = "1",
		.doc = "Size of a device pool's chunk as a share of the device memory that is available when the pool "
		       "is made. "
		       CHUNK_DOC,
	},
	[HPI_OPT_PADDLE_INITIAL_GPU_MB] = {
		PADDLE("FLAGS_initial_gpu_memory_in_mb"),
		.type = HPI_TYPE_UINT,
		.unit = "MB",
		.default_value = "0",
		.min = "0",
		.max = MB_MAX,
		.doc = "Size of a device pool's first chunk, instead of FLAGS_fraction_of_gpu_memory_to_use. Later "
		       "chunks have the size FLAGS_reallocate_gpu_memory_in_mb if that is given, else the fraction. "
		       "0: off.",
	},
	[HPI_OPT_PADDLE_REALLOCATE_GPU_MB] = {
		PADDLE("FLAGS_reallocate_gpu_memory_in_mb"),
		.type = HPI_TYPE_INT,
		.unit = "MB",
		.default_value = "0",
		.min = "0",
		.max = MB_MAX,
		.doc = "Size of each later chunk of a device pool, instead of FLAGS_fraction_of_gpu_memory_to_use. "
		       "The first has the size FLAGS_initial_gpu_memory_in_mb if that is given, else the fraction. 0: "
		       "off.",
	},
	[HPI_OPT_PADDLE_INIT_ALLOCATED_MEM] = {
		PADDLE("FLAGS_init_allocated_mem"),
		.type = HPI_TYPE_BOOL,
		.default_value = "false",
		.doc = "Fill every allocated block of every pool with a pattern that is not zero, so that code which "
		       "takes fresh memory for zeroed shows itself. A block that was asked for zeroed is zero.",
	},
	[HPI_OPT_PADDLE_EAGER_DELETE_GB] = {
		PADDLE("FLAGS_eager_delete_tensor_gb"),
		.type = HPI_TYPE_DOUBLE,
		.unit = "GB",
		.default_value = "0.0",
		.max = GB_MAX,
		.doc = "Freed blocks gather as garbage and go back once all of a pool's are this much. 0: at once. "
		       "Negative: there is no collection, and nothing of a scope goes back before it closes. A pool that is "
		       "short of memory takes its garbage back before an allocation fails.",
	},
	[HPI_OPT_PADDLE_EAGER_DELETE_FRACTION] = {
		PADDLE("FLAGS_memory_fraction_of_eager_deletion"),
		.type = HPI_TYPE_DOUBLE,
		.default_value = "1.0",
		.min = "0",
		.max = "1",
		.doc = "The share of a scope's garbage, by bytes and largest first, that is collected; what is passed "
		       "over waits for the scope to close. 0: nothing is collected.",
	},
	[HPI_OPT_PADDLE_FAST_EAGER_DELETION] = {
		PADDLE("FLAGS_fast_eager_deletion_mode"),
		.type = HPI_TYPE_BOOL,
		.default_value = "true",
		.doc = "true: work ordered on the same stream may use a freed block at once. false: only once the "
		       "fence of the block has passed. Another stream waits for the fence either way.",
	},
	[HPI_OPT_PADDLE_EAGER_DELETE_SCOPE] = {
		PADDLE("FLAGS_eager_delete_scope"),
		.type = HPI_TYPE_BOOL,
		.default_value = "true",
		.doc = "When a scope closes, its allocations go back: true, inside the call that closes it; false, by "
		       "a thread in the background.",
	},
	[HPI_OPT_PADDLE_FUSE_GROUPS_SIZE] = {
		PADDLE("FLAGS_fuse_parameter_groups_size"),
		.type = HPI_TYPE_INT,
		.unit = "parameters",
		.default_value = "3",
		.min = "-1",
		.max = INT32_MAX_TEXT,
		.check = check_group_count,
		.doc = "How many parameters lie next to each other as one group. 1: each is its own; -1: all are one "
		       "group. FLAGS_fuse_parameter_memory_size holds besides.",
	},
	[HPI_OPT_PADDLE_FUSE_MEMORY_MB] = {
		PADDLE("FLAGS_fuse_parameter_memory_size"),
		.type = HPI_TYPE_DOUBLE,
		.unit = "MB",
		.default_value = "-1.0",
		.min = "-1",
		.max = MB_MAX,
		.check = check_group_memory,
		.doc = "Most memory of a group of parameters, which has one at least. -1: no such limit; 0: all are one "
		       "group, however many. Else FLAGS_fuse_parameter_groups_size holds besides.",
	},
	[HPI_OPT_TF_GPU_FRACTION] = {
		TENSORFLOW("per_process_gpu_memory_fraction", "HUGEPIN_PER_PROCESS_GPU_MEMORY_FRACTION"),
		.type = HPI_TYPE_DOUBLE,
		.default_value = "0",
		.min = "0",
		.max = "1",
		.doc = "Most memory of its device that a device pool takes, as a share of the device's; taken at once "
		       "unless allow_growth is set. 0: no such cap. per_process_host_memory_fraction is the like for "
		       "host memory.",
	},
	[HPI_OPT_TF_ALLOCATOR_TYPE] = {
		TENSORFLOW("allocator_type", "HUGEPIN_ALLOCATOR_TYPE"),
		.type = HPI_TYPE_CHOICE,
		.choices = "|BFC",
		.may_be_empty = true,
		.default_value = "",
		.doc = "The allocator of device pools: best fit with coalescing, by its name or, if this is empty, as "
		       "hugepin's only one.",
	},
	[HPI_OPT_TF_DEFERRED_DELETION] = {
		TENSORFLOW("deferred_deletion_bytes", "HUGEPIN_DEFERRED_DELETION_BYTES"),
		.type = HPI_TYPE_BYTES,
		.unit = "bytes",
		.default_value = "0",
		.min = "0",
		.max = INT64_MAX_TEXT,
		.doc = "Frees and unregistrations that would call the driver gather up to this many bytes and go out "
		       "in one batch. 0: 8M.",
	},
	[HPI_OPT_TF_ALLOW_GROWTH] = {
		TENSORFLOW("allow_growth", "HUGEPIN_ALLOW_GROWTH"),
		.type = HPI_TYPE_BOOL,
		.default_value = "false",
		.subject = "growth of pools",
		.doc = "true: a device pool begins small and its segments double as it grows. false: it takes its "
		       "share of the device at once.",
	},
	[HPI_OPT_TF_VISIBLE_DEVICES] = {
		TENSORFLOW("visible_device_list", "HUGEPIN_VISIBLE_DEVICE_LIST"),
		.type = HPI_TYPE_LIST,
		.may_be_empty = true,
		.default_value = "",
		.check = check_devices,
		.doc = "Which devices the process uses, and in which order: 5,3 makes device 5 number 0 and device 3 "
		       "number 1. The ids are those that CUDA_VISIBLE_DEVICES or its like has left. Empty: all of "
		       "them. One that is not there is an error.",
	},
	[HPI_OPT_TF_POLL_ACTIVE_US] = {
		TENSORFLOW("polling_active_delay_usecs", "HUGEPIN_POLLING_ACTIVE_DELAY_USECS"),
		.type = HPI_TYPE_INT,
		.unit = "us",
		.default_value = "0",
		.min = "0",
		.max = INT32_MAX_TEXT,
		.doc = "How long the poller of fences sleeps between two looks while some are pending. 0: 10 us.",
	},
	[HPI_OPT_TF_POLL_INACTIVE_MS] = {
		TENSORFLOW("polling_inactive_delay_msecs", "HUGEPIN_POLLING_INACTIVE_DELAY_MSECS"),
		.type = HPI_TYPE_INT,
		.unit = "ms",
		.default_value = "0",
		.min = "0",
		.max = INT32_MAX_TEXT,
		.doc = "How long after the first fence the poller looks for the first time; while none is pending it "
		       "sleeps. 0: 1 ms.",
	},
	[HPI_OPT_TF_FORCE_GPU_COMPATIBLE] = {
		TENSORFLOW("force_gpu_compatible", "HUGEPIN_FORCE_GPU_COMPATIBLE"),
		.type = HPI_TYPE_BOOL,
		.default_value = "false",
		.doc = "Allocations from the host pool are served from the pinned pool, within its cap. A risk to the "
		       "host: what is pinned cannot be swapped or moved, and a program that allocates much of it can "
		       "bring the machine to a stand.",
	},
	[HPI_OPT_ASCEND_CLEAN_POLICY] = {
		ASCEND("atomic_clean_policy", "HUGEPIN_ATOMIC_CLEAN_POLICY"),
		.type = HPI_TYPE_CHOICE,
		.choices = "0|1",
		.default_value = "0",
		.doc = "How a plan's blocks that must be zero when a step begins are cleared. 0: they lie next to "
		       "each other and are cleared in one pass. 1: they lie anywhere and each is cleared at its first "
		       "use in the step; the peak is lower, the step may be slower.",
	},
	[HPI_OPT_ASCEND_STATIC_POLICY] = {
		ASCEND("static_memory_policy", "HUGEPIN_STATIC_MEMORY_POLICY"),
		.type = HPI_TYPE_CHOICE,
		.choices = "0|1|2|3|4",
		.default_value = "0",
		.doc = "Where plans lie. 0: each block at its real size, anywhere. 2: successive plans share one "
		       "extent, the largest so far; a plan that needs more releases it and takes a new one, and a "
		       "second plan at the same time is refused. 3: an extent that grows at its end, within address "
		       "space reserved once. 4: both. 1 means 2. 3 and 4 may cost speed for memory.",
	},
	[HPI_OPT_ASCEND_VARIABLE_1G] = {
		ASCEND("variable_use_1g_huge_page", "HUGEPIN_VARIABLE_USE_1G_HUGE_PAGE"),
		.type = HPI_TYPE_CHOICE,
		.choices = "0|1|2",
		.default_value = "0",
		.subject = "page size of variables",
		.doc = "Page size of variables and constants. 0: 2M pages, then base pages. 1: 1G pages or an error. "
		       "2: 1G pages, then 2M pages, then an error. An error names node, size, asked and available; "
		       "nothing stays held.",
	},
};
