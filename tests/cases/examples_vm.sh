#!/bin/sh
# SPDX-License-Identifier: MIT
# Named variables from Python, and the examples that need the module, in a virtual machine. Needs busybox and Debian's
# python3 and numpy; from the top of the tree, with the library built:
#
#	tools/vm/run --memory 3G --python --take /usr/lib/python3/dist-packages/numpy --take user/python \
#		--take user/examples --take build/examples --take tests/cases/examples_vm.sh 7 -- tests/cases/examples_vm.sh
#
# Prints TAP and, last, "N passed, N failed, N skipped".
set -u

top=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
examples=$top/user/examples
export PYTHONPATH="$top/user/python" PYTHONDONTWRITEBYTECODE=1
out=$(mktemp) err=$(mktemp) || exit 2
passed=0 failed=0
trap 'rm -f "$out" "$err"' EXIT

# check DESCRIPTION COMMAND... - a line of TAP; what was printed, when it fails
check() {
	what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok $((passed + failed)) - $what"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $((passed + failed)) - $what"
	sed 's/^/# stdout: /' "$out"
	sed 's/^/# stderr: /' "$err"
}

# says TEXT COMMAND... - it succeeds and prints TEXT
says() {
	text=$1
	shift
	"$@" >"$out" 2>"$err" && grep -qF -- "$text" "$out"
}

python() {
	/usr/bin/python3 -X dev -W error "$@"
}

free_pages() {
	cat /sys/class/misc/hugepin/node*/hugepages-2048kB/free_hugepages | awk '{ n += $1 } END { print n }'
}

variables() {
	(cd "$top/user/python" && python tap.py test_variable) >"$out" 2>"$err"
	status=$?
	sed 's/^/# /' "$out"
	return $status
}

embedding() {
	python "$examples/embedding.py" --rows 5000 --columns 32 "$@"
}

# killed STEPS - start the training, kill -9 it after so many steps more have been reported
killed() {
	: >"$out"
	# a function in the background would be a shell of its own, and that what is killed
	/usr/bin/python3 "$examples/embedding.py" --rows 5000 --columns 32 --steps 100000 >"$out" 2>"$err" &
	pid=$!
	tries=0
	until [ "$(grep -c '^step' "$out")" -ge "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 900 ] && kill -0 $pid || return 1
		sleep 0.1
	done
	kill -9 $pid
	wait $pid 2>/dev/null
	[ $? -eq 137 ] && ! kill -0 $pid 2>/dev/null
}

# found - what is there after a kill, looked at twice: the same step, the same bits
found() {
	embedding --steps 0 >"$out" 2>"$err" && grep -q '^found at step [1-9]' "$out" || return 1
	first=$(grep sha256 "$out")
	embedding --steps 0 >"$out" 2>"$err" && [ "$(grep sha256 "$out")" = "$first" ]
}

# as_never_killed - go on to some steps beyond; the bits are those of a training in ordinary memory never interrupted
as_never_killed() {
	step=$(sed -n 's/^step \([0-9]*\): sha256.*/\1/p' "$out")
	goal=$((step + 50))
	embedding --steps $goal >"$out" 2>"$err" && grep -q "^found at step $step" "$out" || return 1
	bits=$(grep sha256 "$out")
	embedding --plain --steps $goal >"$out" 2>"$err" || return 1
	[ -n "$bits" ] && [ "$(grep sha256 "$out")" = "$bits" ]
}

hugepinctl reserve '*:2M:+128' >/dev/null || { echo 'Bail out! no reserve'; exit 1; }
before=$(free_pages)

check 'named variables: their tests' variables
check 'hello in C, on the pages of the module' says 'pages of 2097152 bytes' "$top/build/examples/hello"
check 'hello in Python, on the pages of the module' says 'pages of 2097152 bytes' python "$examples/hello.py"
check 'a training is killed' killed 1
check 'its table is there, bit for bit' found
check 'it goes on and is killed again' killed 2
check 'its table is there again, bit for bit' found
check 'it ends with the bits of one never killed' as_never_killed
check 'its table is removed' embedding --unlink
check 'four processes share one table by its name' says '4 processes' python "$examples/sharing.py" --name table0
check 'four processes share one table by descriptor' says '4 processes' python "$examples/sharing.py"
check 'a key-value cache of fixed blocks' says 'pages of 2097152' python "$examples/kvcache.py" --steps 2000
check 'every page is free again' [ "$(free_pages)" = "$before" ]

echo "1..$((passed + failed))"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
