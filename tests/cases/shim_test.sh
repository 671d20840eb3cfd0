#!/bin/sh
# SPDX-License-Identifier: MIT
# hugepinctl run and the preload shim, under small programs and a stand-in CUDA runtime (cases C026, C028, C068, C073).
# Prints TAP. As root it takes 2M pages of this machine for the time of the test; without any, what needs them is skipped.
#
#	tests/cases/shim_test.sh [BUILD]		BUILD: the build folder, "build" if none is given
# shellcheck disable=SC2016 # what stands in single quotes is for another shell
set -u

build=$(cd "${1:-build}" && pwd) || exit 2
programs=$build/tests/cases/shim
ctl=$build/bin/hugepinctl
work=$(mktemp -d) || exit 2
out=$work/out err=$work/err report=$work/report
tests=0 failed=0
pool=/proc/sys/vm/nr_hugepages
pages_before=
export LD_LIBRARY_PATH="$programs"
unset HUGEPIN_HOST_LADDER HUGEPIN_PINNED_LADDER LD_PRELOAD

clean_up() {
	[ -z "$pages_before" ] || echo "$pages_before" >$pool
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# check DESCRIPTION COMMAND... - one line of TAP; what was printed, when it fails
check() {
	what=$1
	shift
	tests=$((tests + 1))
	if "$@"; then
		echo "ok $tests - $what"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $tests - $what"
	for file in "$out" "$err" "$report"; do
		[ ! -s "$file" ] || sed "s|^|# ${file##*/}: |" "$file"
	done
}

skip() {
	tests=$((tests + 1))
	echo "ok $tests - $1 # SKIP $2"
}

# ends STATUS COMMAND... - run it
ends() {
	wanted=$1
	shift
	: >"$report"
	timeout --kill-after 5 120 "$@" >"$out" 2>"$err"
	status=$?
	[ $status -eq "$wanted" ] || { echo "# status $status instead of $wanted"; false; }
}

says() {
	grep -qE -- "$2" "$1" || { echo "# not said: $2"; false; }
}

# works OPTIONS -- PROGRAM... - under the shim, which reports to a file and nowhere else
works() {
	ends 0 "$ctl" run --report "$report" "$@" && says "$out" '^ok$' && [ ! -s "$err" ]
}

reports() {
	says "$report" "$1"
}

# fails STATUS MESSAGE ARGUMENT... - hugepinctl run itself
fails() {
	message=$2
	wanted=$1
	shift 2
	ends "$wanted" "$ctl" run "$@" && says "$err" "$message" && [ ! -s "$out" ]
}

# Pages of the kernel's own pool, so that $1 are free; whether they are.
take_pages() {
	[ -n "$pages_before" ] || pages_before=$(cat $pool)
	used=$(awk '/HugePages_Total/ { n = $2 } /HugePages_Free/ { n -= $2 } /HugePages_Rsvd/ { n += $2 } END { print n }' \
		/proc/meminfo)
	echo $((used + $1)) 2>/dev/null >$pool
	[ "$(awk '/HugePages_Free/ { n = $2 } /HugePages_Rsvd/ { n -= $2 } END { print n }' /proc/meminfo)" -ge "$1" ]
}

# ---- the command line ----

command_lines() {
	check 'without a program it tells how it is used' fails 2 'no program was given'
	check 'an unknown option' fails 2 'frob' --frob true
	check 'a threshold that is no size' fails 2 'threshold=1X is no size' --host-threshold 1X true
	check 'a threshold with a sign' fails 2 'threshold=-1M is no size' --host-threshold=-1M true
	for size in '64 ' '1 ' '1 B' '1 iB' ' 1M' ''; do
		check "no threshold: '$size'" fails 2 "threshold=$size is no size" -t "$size" true
	done
	check 'sizes are written as in the options of the library' same_sizes
	check 'a threshold that wraps' fails 2 'is no size' --host-threshold 99999999T true
	check 'a threshold below the least' fails 2 'less than 64K' --host-threshold 65535 true
	check 'a report that cannot be written' fails 1 'report=/nowhere/x: No such file' --report /nowhere/x true
	check 'quiet and a report contradict' fails 2 'contradict' --quiet --report x true
	check 'a program that is not there' fails 127 "'nosuch': No such file" nosuch
	check 'a program that cannot be run' fails 126 'Permission denied' -- "$err"
	check 'an option of the library that is wrong' \
		env HUGEPIN_HOST_CAP=lots sh -c '"$1" run true 2>&1 | grep -q "option host_cap = \"lots\" (environment)"' sh "$ctl"
	check 'the exit status is the program'\''s' ends 7 "$ctl" run -- sh -c 'exit 7'
	check 'arguments behind the program are the program'\''s' ends 0 "$ctl" run sh -c 'test "$1" = --quiet' sh --quiet
	sh -c 'kill -s PIPE $$'
	check 'a broken pipe ends the program as ever' ends $? sh -c '"$1" run sh -c "kill -s PIPE \$\$"' sh "$ctl"
	check 'a process with nothing to tell tells nothing' ends 0 "$ctl" run sh -c true
	check 'on standard error neither' [ ! -s "$err" ]
	check 'asked for, it does' ends 0 "$ctl" run --report - bash -c true
	check 'in one line' says "$err" '^hugepin: bash\[[0-9]+\]: cuda: not loaded$'
	static_program
}

same_sizes() {
	for size in 65536 0065536 65536B 65536i 65536iB 64K 64k 64Ki 64KB 64kiB 64KiBB 64KBi 64KK 1M 1m 1Mi 1MB 1mi \
		1MIB 1Mb 1G 1gi 1T 1tiB 1P 1E 1.5M +1M 0x10000 1,000,000 1M1 16777215T 16777216T \
		18446744073709551615 18446744073709551616; do
		env HUGEPIN_HOST_CAP="$size" "$ctl" run -q true 2>"$err"
		ends $? "$ctl" run -q -t "$size" true || { echo "# of $size"; return 1; }
	done
}

static_program() {
	if busybox true 2>/dev/null && ! ldd "$(command -v busybox)" >/dev/null 2>&1; then
		check 'a statically linked program works' ends 0 "$ctl" run busybox true
		check 'and is said not to be hooked' says "$err" 'busybox is statically linked: it cannot be hooked'
	else
		skip 'a statically linked program' 'no static busybox here'
	fi
}

# ---- CUDA ----

cuda() {
	served='allocations: 1 served, 64 MiB in all, peak 64 MiB, on .* pages; 1 passed on \(no context yet 1\)'
	for program in dynamic plugin; do
		check "$program: with the shared runtime" works -- "$programs/$program"
		check "$program: the entry points are told" reports 'cuda: hooked cudaHostAlloc 2, cudaFreeHost 2;'
		check "$program: what was served, and what came before there was a context" reports "$served"
		check "$program: the pointer from before went to the real free" reports 'frees: 1 served, 1 passed on$'
	done
	for program in static dlsym procaddress; do
		check "$program: works as before" works -- "$programs/$program"
		check "$program: is said not to be hooked" reports 'cuda: nothing hooked, though libcuda(rt)?.so is loaded'
	done
	check 'the contract without the shim' ends 0 "$programs/contract"
	check 'the contract with it' works -- "$programs/contract"
	check 'was served' reports 'allocations: 40[0-9] served'
	check 'and closed by the reset' reports 'closed: the program ended the context'
	check 'frees that cannot wait, memory that cannot be had' works -- "$programs/deferred"
	check 'are counted' reports 'no memory in the pool 1\); frees: [0-9]+ served, 3 passed on, 3 deferred$'
	check 'with the malloc family too' works --host-threshold 64K -- "$programs/contract"
	export HUGEPIN_RUNTIME=none
	check 'memory that is not registered is not served' works -- "$programs/dynamic"
	check 'but passed on' reports 'allocations: 0 served, .*; 2 passed on'
	unset HUGEPIN_RUNTIME
}

# ---- the malloc family ----

# heap_programs WHAT REPORT
heap_programs() {
	check "$1: the malloc family" works --host-threshold 1M -- "$programs/heap"
	check "$1: was served" reports "malloc from 1 MiB on: [1-9][0-9]* served, .*$2"
	check "$1: in threads" works --host-threshold 1M -- "$programs/heap" threads
	check "$1: was served" reports "malloc from 1 MiB on: [1-9][0-9]* served, .*$2"
	check "$1: from the least threshold on" works --host-threshold 64K -- "$programs/heap" threads
	check "$1: before main() and after it" works --host-threshold 1M -- "$programs/early"
	check "$1: was served" reports 'malloc from 1 MiB on: 2 served'
	check "$1: forks" works --host-threshold 1M -- "$programs/forks"
	for how in return exit _exit thread; do
		check "$1: ends by $how" ends 0 "$ctl" run --host-threshold 1M -- "$programs/exits" $how
	done
	check "$1: a double free ends by SIGABRT" ends 134 "$ctl" run --host-threshold 1M -- "$programs/exits" misuse
	check "$1: and says so" says "$err" 'free\(\): 0x[0-9a-f]+ is no block in use'
	check "$1: the shim's code in threads" ends 0 "$programs/stress"
}

heap() {
	check 'without the shim: the malloc family' ends 0 "$programs/heap"
	check 'without the shim: in threads' ends 0 "$programs/heap" threads
	check 'without the shim: forks' ends 0 "$programs/forks"
	check 'left alone without a threshold' works -- "$programs/heap"
	check 'and not told of' reports 'cuda: not loaded$'
	export HUGEPIN_HOST_LADDER=base
	heap_programs 'base pages' 'base pages;'
	unset HUGEPIN_HOST_LADDER
	if ! take_pages 256; then
		skip '2M pages' 'they cannot be had here'
		return
	fi
	heap_programs '2M pages' '2M pages'
	check 'a child copies what it inherits' reports_copy
	check 'a child without memory for it' ends 0 "$ctl" run --host-threshold 1M -- "$programs/forks" lack
	check 'is told' says "$err" 'no memory for a copy of the large blocks of process'
	check 'no page is left in use' take_pages 256
	export HUGEPIN_HOST_CAP=8M
	check 'under a cap' works --host-threshold 1M -- "$programs/heap" threads
	check 'the rest is the C library'\''s' reports 'peak [0-9.]+ MiB, on [0-8] MiB of 2M pages; [1-9][0-9]* passed on'
	unset HUGEPIN_HOST_CAP
	export HUGEPIN_HOST_LADDER=hugetlb:1G
	check 'without pages' works --host-threshold 1M -- "$programs/heap"
	unset HUGEPIN_HOST_LADDER
	check 'all is the C library'\''s' reports ' 0 served, 0 B in all, peak 0 B; [1-9][0-9]* passed on'
}

reports_copy() {
	works --host-threshold 1M -- "$programs/forks" && reports 'of process [0-9]+: 10 MiB copied, 1 blocks freed'
}

# ---- processes ----

processes() {
	export HUGEPIN_HOST_LADDER=hugetlb:2M,base
	check 'what a hooked program starts is hooked' works --host-threshold 1M -- bash -c "'$programs/heap'; true"
	check 'the program' reports '^hugepin: heap.* [1-9][0-9]* served'
	check 'and its parent' reports '^hugepin: bash'
	check 'not with --no-children' works --no-children --host-threshold 1M -- bash -c "'$programs/heap'; true"
	check 'then the parent only' sh -c '! grep -q "heap\[" "$1" && grep -q "bash\[" "$1"' sh "$report"
	check 'exec goes on hooked' works --host-threshold 1M -- sh -c "exec '$programs/heap'"
	check 'in one line' [ "$(wc -l <"$report")" -eq 1 ]
	check 'twenty at once' works --host-threshold 1M -- sh -c '
		for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "$1" >/dev/null & done; wait; echo ok' \
		sh "$programs/early"
	check 'leave twenty whole lines' [ "$(grep -cE '^hugepin: early\[.* passed on$' "$report")" -eq 20 ]
	check 'a relative report follows no chdir' in_other_directory
	export HUGEPIN_HOST_LADDER=hugetlb:1G,base
	check 'the log is not printed' works --host-threshold 1M -- "$programs/heap"
	export HUGEPIN_LOG_LEVEL=warning
	check 'unless asked for' ends 0 "$ctl" run --quiet --host-threshold 1M -- "$programs/heap"
	check 'a smaller page is told with its reason' \
		says "$err" '^hugepin: heap\[[0-9]+\]: warning: host pool: fell back to rung 2 of its ladder, base .* hugetlb: '
	check 'and no more than asked for' sh -c '! grep -v "\]: warning: " "$1"' sh "$err"
	check 'a file behind the number has none of it' log_goes_nowhere
	unset HUGEPIN_LOG_LEVEL
	export HUGEPIN_HOST_LADDER=hugetlb:2M,base
	check 'quiet is quiet' ends 0 "$ctl" run --quiet --host-threshold 1M -- "$programs/heap"
	check 'on standard error' [ ! -s "$err" ]
	check 'by default it is told there' ends 0 "$ctl" run --host-threshold 1M -- "$programs/heap"
	check 'once' [ "$(grep -c '^hugepin: heap' "$err")" -eq 1 ]
	check 'other preloads stay' env LD_PRELOAD=libm.so.6 "$ctl" run -- sh -c 'case $LD_PRELOAD in *shim.so:libm.so.6) ;;
		*) exit 1 ;; esac'
	shim=$(realpath "$build/lib/libhugepin-shim.so")
	check 'one whose name goes on where the shim'\''s ends, too' preloads "$shim.bak" "$shim:$shim.bak"
	check 'the shim comes first' preloads "libm.so.6:$shim" "$shim:libm.so.6"
	check 'and once' preloads " $shim libm.so.6:: libdl.so.2 $shim:" "$shim:libm.so.6:libdl.so.2"
	check 'also alone' preloads "$shim" "$shim"
	check 'also before nothing' preloads '' "$shim"
	check 'standard error that was replaced is left alone' replaced_stderr
	python_workers
	set_user_id
	unset HUGEPIN_HOST_LADDER
}

# preloads BEFORE AFTER - LD_PRELOAD, outside and in the program; ld.so complains of what it does not find
preloads() {
	ends 0 env LD_PRELOAD="$1" "$ctl" run -- sh -c 'echo "$LD_PRELOAD"' && [ "$(cat "$out")" = "$2" ]
}

in_other_directory() {
	(cd "$work" && ends 0 "$ctl" run --report here -- bash -c 'cd /; true') && [ -s "$work/here" ]
}

replaced_stderr() {
	ends 0 "$ctl" run --host-threshold 1M -- sh -c "exec '$programs/heap' 2>'$work/other'" && [ -s "$work/other" ] &&
		ends 0 "$ctl"  run --report - -- bash -c "exec 2>'$work/data'; true" && [ ! -s "$work/data" ]
}

log_goes_nowhere() {
	ends 0 "$ctl" run --quiet --host-threshold 1M -- bash -c "exec 2>'$work/log'; x=\$(printf %04000000d 0)" &&
		[ ! -s "$work/log" ]
}

python_workers() {
	if ! python3 -c 'import multiprocessing' 2>/dev/null; then
		skip 'python workers' 'no python3 here'
		return
	fi
	workers=$(dirname "$0")/shim/workers.py
	report=$work/python	# of its own: a helper process of python's outlives it
	check 'python: workers by fork and by spawn' works --host-threshold 1M -- python3 "$workers"
	check 'python: was served, in the spawned ones too' [ "$(grep -c 'python3.* [1-9][0-9]* served' "$report")" -ge 2 ]
	report=$work/report
}

set_user_id() {
	if [ "$(id -u)" -ne 0 ]; then
		skip 'a set-user-ID program' 'needs root'
		return
	fi
	chmod 755 "$work"
	cp "$programs/heap" "$work/heap"
	chown nobody "$work/heap"
	chmod 4755 "$work/heap"
	check 'a set-user-ID program runs unhooked' ends 0 "$ctl" run --host-threshold 1M --report "$report" -- "$work/heap"
	check 'which is told' says "$err" 'is set-user-ID or set-group-ID: it is not hooked'
	check 'and it reports nothing' [ ! -s "$report" ]
}

# ---- writing where it cannot be written ----

# As ends, with standard error into a pipe whose reader has gone. Opened for both, no end waits for the other.
ends_unread() {
	mkfifo "$work/pipe"
	exec 9<>"$work/pipe"
	exec 8>"$work/pipe" 9<&-
	ends "$1" sh -c 'exec "$@" 2>&8' sh "$ctl" run --host-threshold 1M -- "$programs/heap"
	same=$?
	exec 8>&-
	rm "$work/pipe"
	return $same
}

# Neither the program nor the shim may make a file longer.
ends_at_limit() {
	ends "$1" sh -c 'ulimit -f 0; exec "$@" >/dev/null' sh "$ctl" run --report "$report" -- bash -c true
}

# Under a reader of the FIFO that stays, but need not read before the program has ended.
ends_with_fifo() {
	exec 9<>"$work/fifo"
	ends 0 "$ctl" run --report "$work/fifo" -- bash -c true
	same=$?
	timeout 2 head -n 1 <&9 >"$report"
	exec 9<&-
	return $same
}

fifos() {
	mkfifo "$work/fifo"
	check 'a FIFO without a reader is no report' fails 1 'report=.*/fifo: is a FIFO without a reader$' \
		--report "$work/fifo" true
	check 'one with a reader is' ends_with_fifo
	check 'which gets the line' reports '^hugepin: bash'
	check 'a reader that has gone is not waited for' ends 0 sh -c '
		exec 9<>"$1"
		exec "$2" run --report "$1" -- bash -c "exec 9<&-; true"' sh "$work/fifo" "$ctl"
}

unwritable() {
	check 'what cannot be written brings no signal' ends 0 "$programs/signals"
	export HUGEPIN_HOST_LADDER=hugetlb:1G,base
	check 'nobody reads standard error: the program ends as without' ends_unread 0
	export HUGEPIN_LOG_LEVEL=warning
	check 'nor when the log goes there' ends_unread 0
	unset HUGEPIN_HOST_LADDER HUGEPIN_LOG_LEVEL
	check 'the report is at the limit of files: likewise' ends_at_limit 0
	fifos
}

# ---- C068: /sys and /proc/sys read-only, as in a container ----

read_only() {
	if ! unshare -m true 2>/dev/null; then
		skip 'read-only /sys' 'no mount namespace can be made'
		return
	fi
	export HUGEPIN_HOST_LADDER=hugetlb:2M
	sys='mount -o remount,ro,bind /sys && mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys'
	if take_pages 256; then
		check 'read-only /sys, pages enough' works --host-threshold 1M -- unshare -m sh -c "$sys && '$programs/heap'"
		check 'they are used' reports '^hugepin: heap.* [1-9][0-9]* served, .* of 2M pages'
	else
		skip 'read-only /sys, pages enough' '2M pages cannot be had here'
	fi
	export HUGEPIN_HOST_LADDER=hugetlb:1G
	check 'read-only /sys, pages short' works --host-threshold 1M -- unshare -m sh -c "$sys && '$programs/heap'"
	check 'the rest is the C library'\''s' reports '^hugepin: heap.* [1-9][0-9]* passed on'
	export HUGEPIN_HOST_LADDER=hugetlb:2M
	check 'nr_hugepages missing' works --host-threshold 1M -- \
		unshare -m sh -c "mount -t tmpfs none /sys/kernel/mm && '$programs/heap'"
	unset HUGEPIN_HOST_LADDER
}

command_lines
cuda
heap
processes
unwritable
read_only
echo "1..$tests"
[ $failed -eq 0 ]
