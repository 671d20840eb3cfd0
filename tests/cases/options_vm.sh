#!/bin/sh
# SPDX-License-Identifier: MIT
# The jobs of options_test.sh in a virtual machine, on the module's pages; its counters before and after. From the top of the
# tree, with the tests built:
#
#	tools/vm/run --memory 2G --take build/tests/cases --take build/lib --take tests/cases 7 -- tests/cases/options_vm.sh
#
# Prints TAP and, last, "N passed, N failed, N skipped".
set -u

top=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
build=${1:-$top/build}
knobs=/sys/class/misc/hugepin/node0/hugepages-2048kB
out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT

echo 32 >"$knobs/nr_hugepages" || exit 2
sh "$top/tests/cases/options_test.sh" "$build" >"$out"
status=$?
# A tenth of 32 pages for each user; root has no limit.
echo 10 >"$knobs/user_limit_percent" || exit 2
chmod 666 /dev/hugepin
su user -s /bin/sh -c "HUGEPIN_HOST_LADDER=kmod:2M exec $build/tests/cases/options_limit 3" >>"$out" || status=1
echo 100 >"$knobs/user_limit_percent"
cat "$out"
passed=$(grep -c '^ok ' "$out") failed=$(grep -c '^not ok ' "$out")
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
free=$(cat "$knobs/free_hugepages")
if [ "$free" -eq 32 ]; then
	passed=$((passed + 1))
	echo "ok - all 32 pages of the reserve are free again"
else
	failed=$((failed + 1))
	echo "not ok - $free of the reserve's 32 pages are free"
fi
echo 0 >"$knobs/nr_hugepages"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
