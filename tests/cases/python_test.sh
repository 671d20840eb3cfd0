#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of hugepin.py with Debian's python3, numpy and torch, each module in a process of its own. Prints TAP.
#
#	tests/cases/python_test.sh [BUILD/bin/hugepinctl]	PYTHON=/usr/bin/python3-dbg for another interpreter
#
# test_variable.py needs the module: tests/cases/examples_vm.sh.
set -u

top=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
build=${1:-$top/build/bin/hugepinctl}
build=$(readlink -f "${build%/bin/hugepinctl}")
export TEST_LIBRARY="$build/lib/libhugepin.so.0" TEST_CUDA="$build/tests/loopback/libcuda.so.1"
export PYTHONDONTWRITEBYTECODE=1

cd "$top/user/python" || exit 2
for module in test_arrays test_lifetime test_options test_processes test_fence; do
	echo "# $module"
	"${PYTHON:-/usr/bin/python3}" -X dev -W error tap.py $module || echo "# $module ended with status $?"
done 2>&1 | awk '
	/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $1; f += $3; s += $5; ended++; next }
	{ print; fflush() }
	END {
		if (ended < 5) {
			f++
			print "not ok - " ended " of 5 modules came to their end\n1..1"
		}
		print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"
		exit f > 0
	}'
