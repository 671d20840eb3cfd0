#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs configured by Paddle's variables alone, by a fragment of TensorFlow's alone and by Ascend's MemoryConfig alone, which
# say what they observe of the memory that they get.
#
#	tests/cases/options_test.sh [BUILD]
#
# BUILD: the folder that "make tests" built into. Prints TAP, one plan for each job.
set -u

build=${1:-build}
status=0
stage=$(mktemp -d) || exit 2
trap 'rm -rf "$stage"' EXIT

# job NAME [VARIABLE=VALUE...] [-- ARGUMENT] - with nothing else in its environment
job() {
	program=$build/tests/cases/options_$1
	shift
	variables=
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		variables="$variables $1"
		shift
	done
	[ $# -eq 0 ] || shift
	# shellcheck disable=SC2086 # words
	env -i $variables "$program" "$@" || status=1
}

job paddle FLAGS_initial_cpu_memory_in_mb=16 FLAGS_init_allocated_mem=true FLAGS_eager_delete_tensor_gb=0.00390625 \
	FLAGS_fuse_parameter_groups_size=2

echo 'gpu_options { force_gpu_compatible: true allocator_type: "BFC" }' >"$stage/job.pbtxt"
job tensorflow -- "$stage/job.pbtxt"

cat >"$stage/job.conf" <<-END
	atomic_clean_policy = 0
	static_memory_policy = 2
	variable_use_1g_huge_page = 2
END
job ascend -- "$stage/job.conf"

exit $status
