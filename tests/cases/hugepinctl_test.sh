#!/bin/sh
# SPDX-License-Identifier: MIT
# hugepinctl as people run it, by its exit status, its messages and the module's knobs (cases C007, C008, C066). Needs no
# more than busybox, prints TAP.
#
#	tests/cases/hugepinctl_test.sh PROGRAM			here, where the module is not loaded
#	tests/cases/hugepinctl_test.sh PROGRAM module	in a virtual machine with the module, as root, two nodes of 2 GiB
set -u

[ $# -eq 1 ] || [ "$#${2-}" = 2module ] || { echo "usage: $0 PROGRAM [module]" >&2; exit 2; }
ctl=$1
out=$(mktemp) err=$(mktemp) file=$(mktemp) || exit 2
tests=0 failed=0
sysfs=/sys/class/misc/hugepin

clean_up() {
	rm -f "$out" "$err" "$file"
}
trap clean_up EXIT

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
	sed 's/^/# stdout: /' "$out"
	sed 's/^/# stderr: /' "$err"
}

# ends STATUS ARGUMENT... - run hugepinctl
ends() {
	wanted=$1
	shift
	"$ctl" "$@" >"$out" 2>"$err"
	status=$?
	[ $status -eq "$wanted" ] || { echo "# status $status instead of $wanted"; false; }
}

says() {
	grep -qF -- "$2" "$1" || { echo "# not said: $2"; false; }
}

# fails STATUS MESSAGE ARGUMENT... - nothing on stdout, the message on stderr
fails() {
	message=$2
	wanted=$1
	shift 2
	ends "$wanted" "$@" && [ ! -s "$out" ] && says "$err" "$message"
}

prints() {
	message=$1
	shift
	ends 0 "$@" && [ ! -s "$err" ] && says "$out" "$message"
}

command_lines() {
	check 'without arguments it tells how it is used' fails 2 'usage: hugepinctl COMMAND'
	check 'the version is told' prints 'hugepinctl 0.' --version
	check 'help tells the exit status' prints 'not loaded' help
	check 'help of a command' prints '--partial' help reserve
	check 'help of help' prints 'usage: hugepinctl COMMAND' help help
	check 'an unknown command' fails 2 "'frob' is not a command" frob
	check 'an unknown option' fails 2 'frob' status --frob
	check 'status takes no argument' fails 2 "'0' was given" status 0
	check 'reserve without a SPEC' fails 2 'no SPEC' reserve
	check 'release of nothing' fails 2 'either SPECs or --all' release
	check 'release of both' fails 2 'either SPECs or --all' release --all 0:2M:1
	check 'a malformed SPEC behind a good one' fails 2 "'1g' is not a page size class" reserve 0:2M:1,0:1g:1
	check 'a negative count' fails 2 'not a count' reserve 0:2M:-1
	check 'a wait that is not a number' fails 2 "'1s' is not a number of seconds, 0 to 86400" reserve --wait=1s 0:2M:1
	check 'help of what is no command' fails 2 "'frob' is not a command" help frob
	check 'help of two commands' fails 2 "'ps' is one too many" help status ps
	check 'the version of something' fails 2 "'x' was given" --version x
	check 'an option is refused in the name of the program' fails 2 "hugepinctl: " status -z
	check 'not in that of its path' sh -c "! grep -q / '$err'"
	check 'a number of rounds beyond all' fails 2 "'4294967296' is not a number of rounds" top --rounds 4294967296
	check 'a delay that is none' fails 2 'not a delay of 0.1 to 3600 seconds' top --delay nan
	check 'a node that is none' fails 2 "'-' is not a node, 0 to 1023" explain -
	check 'tells the usage' says "$err" 'usage: hugepinctl explain'
	check 'no pages to adopt' fails 2 "'0' is not a count of 1 or more" adopt 0 2M 0
	check 'a file without a name' fails 1 "'' is not the name of a file" metrics --output ''
	check 'a word that config does not know' fails 2 "'frob' is neither 'get' nor 'check'" config frob
	check 'one option as an array of all' fails 2 'config get takes one NAME, and no --json' config --json get host_cap
	check 'a value given twice' fails 2 'config: --file is given twice' config -f /dev/null --file /dev/null
	check 'also of the same' fails 2 'metrics: --output is given twice' metrics -o "$file" -o "$file"
	check 'a switch is as often as one likes' prints '"name": "host_cap"' config -j -j
	check 'release of so many more' fails 2 'release takes the pages to give back as N' release 0:2M:+1
	check 'a node and class named twice' fails 2 'node 0: 2M is named twice' reserve 0:2M:1 0:2M:2
	check 'by a star' fails 2 'node 0: 2M is named twice' release '*:2M:1' 0:2M:2
	check 'a threshold below all' fails 2 'is less than 64K' run --host-threshold 65535 true
	check 'a program without a name' fails 127 "run: '': No such file" run ''
	check 'bytes that a terminal would obey' fails 2 "'?[31m?.' is not a command" "$(printf '\033[31m\n.')"
	check 'text that is longer than any line' fails 2 "' is not a command" "$(printf '%04000d' 0)"
}

# Standard output that cannot be written is no success, whatever was printed, and in one line.
output_that_fails() {
	for command in --version help 'help run' 'config' 'config --json' 'completion bash'; do
		# shellcheck disable=SC2086 # several words
		"$ctl" $command >/dev/full 2>"$err"
		check "$command on a full disk" [ $? -eq 1 ]
		check 'says so once' [ "$(grep -c 'standard output could not be written: No space left' "$err")" -eq 1 ]
	done
	"$ctl" config >&- 2>"$err"
	check 'a closed standard output' [ $? -eq 1 ]
	rm -f "$file" && mkfifo "$file"
	: <"$file" &
	exec 9>"$file"
	wait $!			# it has opened the pipe, and is gone
	"$ctl" config >&9 2>"$err"
	check 'a reader that has gone' [ $? -eq 1 ]
	exec 9>&-
	rm -f "$file"
	check 'is told of, not died of' says "$err" 'Broken pipe'
}

# At the limit of a file's size a write fails as on a full disk, and leaves nothing behind. Messages go through a pipe:
# they cannot be written to a file either.
file_limit() {
	mkdir "$file"
	(ulimit -f 0; "$ctl" metrics --output "$file/a.prom" 2>&1; echo "status $?.") | cat >"$out"
	check 'a file at the limit of its size' says "$out" 'status 1.'
	check 'is told of, not died of' says "$out" 'a.prom cannot be written: File too large'
	check 'and nothing of it is left' rmdir "$file"
	rm -rf "$file"
	(ulimit -f 0; "$ctl" config 2>&1 >"$file"; echo "status $?.") | cat >"$out"
	check 'standard output at the limit' says "$out" 'status 1.'
	check 'is told of' says "$out" 'standard output could not be written: File too large'
}

# Descriptors and signals are the program's: here what is ignored, as it is without hugepinctl.
same_signals() {
	[ "$("$ctl" run -q grep SigIgn /proc/self/status)" = "$(grep SigIgn /proc/self/status)" ]
}

inherited_signals() {
	check 'a program ignores what it would without' same_signals
	(trap '' PIPE XFSZ && same_signals)
	check 'also a broken pipe and a file too large' [ $? -eq 0 ]
}

without_module() {
	message='hugepin module is not loaded: modprobe hugepin'
	check 'status without the module' fails 3 "$message" status
	check 'status as JSON without the module' fails 3 "$message" status --json
	check 'reserve without the module' fails 3 "$message" reserve 0:2M:1
	check 'release without the module' fails 3 "$message" release --all
	check 'a dry run without the module' fails 3 "$message" reserve --dry-run 0:2M:1
	check 'metrics without the module' ends 3 metrics
	check 'have one that says so' says "$out" 'hugepin_up 0'
	check 'in a file, too' ends 3 metrics --output "$file"
	check 'which has it' says "$file" 'hugepin_up 0'
	check 'and nobody is told every 15 s' [ ! -s "$err" ]
}

# with_mount COMMAND... - in a mount namespace, behind commands that change it; sets what ends() does
with_mount() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare -m sh -euc "$1"'; shift; exec "$@"' sh "$@" >"$out" 2>"$err"
	status=$?
}

# What the library reads first is garbled: no call of it works.
library_that_fails() {
	online=/sys/devices/system/node/online
	if ! unshare -m true 2>/dev/null || [ ! -e $online ]; then
		tests=$((tests + 1))
		echo "ok $tests - a library that does not work # SKIP a mount namespace takes root, and NUMA"
		return
	fi
	echo 0- >"$file"
	garble="mount --bind $file $online"
	with_mount "$garble" "$ctl" metrics
	check 'metrics where the library does not work' [ $status -eq 1 ]
	check 'have one that says so' says "$out" 'hugepin_up 0'
	check 'and which library' says "$out" 'hugepin_build_info{version='
	check 'with the reason beside them' says "$err" "$online"
	with_mount "$garble" "$ctl" doctor
	check 'doctor where the library does not work' [ $status -eq 1 ]
	check 'tells that' grep -q "^bad   library    does not work here: .*$online" "$out"

	with_mount 'mount -t tmpfs none /dev; : >/dev/hugepin' "$ctl" doctor
	check 'a file in the place of the device pins nothing' sh -c "! grep -q 'pinned by the module' '$out'"
}

# ---- With the module ----

knob() {
	echo "$sysfs/node$1/hugepages-2048kB/nr_hugepages"
}

hold() {
	[ "$(cat "$(knob 0)")" -eq "$1" ] && [ "$(cat "$(knob 1)")" -eq "$2" ] && return
	echo "# nodes hold $(cat "$(knob 0)") and $(cat "$(knob 1)") instead of $1 and $2"
	false
}

reserve_and_release() {
	check 'each node gets exactly what it was asked for' ends 0 reserve 0:2M:25 1:2M:75
	check 'the knobs say so' hold 25 75
	check 'a count relative to what is held' ends 0 reserve 0:2M:+5
	check 'touches that node only' hold 30 75
	check 'a star is every node' ends 0 reserve '*:2M:+1'
	check 'with the count for each' hold 31 76
	check 'a lower count gives back' ends 0 reserve 0:2M:25,1:2M:75
	check 'down to what was asked' hold 25 75
	check 'a dry run tells what would change' prints 'would change' reserve -n 0:2M:100
	check 'a dry run changes nothing' hold 25 75
	check 'a dry run of more than there is' fails 1 '999999 pages were asked for, its memory of' reserve -n 1:2M:999999
	check 'release gives back so many' ends 0 release 0:2M:5
	check 'and no more' hold 20 75
	check 'release of more than is free' fails 1 'asked to give back 21, free 20 of 20' release 1:2M:1 0:2M:21
	check 'changes nothing' hold 20 75
	check 'an unknown node is named with those there are' fails 1 'nodes with memory: 0, 1' reserve 0:2M:9,7:2M:1
	check 'a node named twice' fails 2 'named twice' reserve 0:2M:9 '*:2M:1'
	check 'more than the node could ever hold' ends 1 reserve 0:2M:30 1:2M:999999
	check 'puts back what went before' hold 20 75
}

adds_up() {
	awk '$1 ~ /^[01]$/ { rows++; if ($4 != $5 + $6 + $7 + $8 + $9) bad = 1 } END { exit bad || rows < 2 }' "$out"
}

# Takes 400 MiB of node 1 away, so that 800 pages are short there but not more than the node could ever hold.
take_away() {
	mkdir -p /tmp/away
	mount -t tmpfs -o mpol=bind:1,size=400m none /tmp/away
	dd if=/dev/zero of=/tmp/away/file bs=1M count=400 2>/dev/null
}

give_back() {
	umount /tmp/away
}

shortfall() {
	asked=800
	take_away
	check 'a shortfall fails' ends 1 reserve 0:2M:30 "1:2M:$asked"
	check 'with asked and got' says "$err" "$asked"
	check 'and everything is put back' hold 20 75
	check 'the way out is named' says "$err" '--partial keeps what can be had'
	check '--partial keeps it and says so' ends 4 reserve --partial "1:2M:$asked" 0:2M:30
	check 'and goes on with the next' [ "$(cat "$(knob 0)")" -eq 30 ]
	check 'status tells a node that is short' prints "node 1: 2M: asked $asked, got" status
	check 'all that is free can be released' ends 0 release --all
	check 'to nothing' hold 0 0
	"$ctl" reserve --wait 300 0:2M:20 1:2M:$asked >"$out" 2>"$err" &
	sleep 5
	give_back
	wait $!
	check '--wait goes on until there is room' [ $? -eq 0 ]
	check 'and then has it all' hold 20 $asked
}

interrupted() {
	take_away
	ends 0 reserve 0:2M:20 1:2M:75
	# Not INT: what a shell starts in the background ignores that, and so does hugepinctl then.
	for signal in TERM HUP; do
		"$ctl" reserve --wait 300 0:2M:40 1:2M:800 >"$out" 2>"$err" &
		pid=$!
		until [ "$(cat "$(knob 0)")" -eq 40 ]; do sleep 0.1; done
		sleep 3
		kill -s $signal $pid
		wait $pid
		status=$?
		check "$signal ends it by that signal" [ $status -eq $((128 + $(kill -l $signal))) ]
		check 'and everything is put back' hold 20 75
	done
	give_back
}

at_once() {
	pids=
	for _ in 1 2 3 4 5; do
		"$ctl" reserve '*:2M:+3' >/dev/null 2>&1 &
		pids="$pids $!"
	done
	# shellcheck disable=SC2086 # several words
	wait $pids
	check 'five relative ones at once all count' hold 35 90
}

permission() {
	su user -c "$ctl status" >"$out" 2>"$err"
	check 'status is for everyone' [ $? -eq 0 ]
	su user -c "$ctl reserve 0:2M:50" >"$out" 2>"$err"
	check 'a user may not reserve' [ $? -eq 5 ]
	check 'the message has the path' says "$err" "$(knob 0)"
	check 'the errno' says "$err" 'Permission denied'
	check 'and the capability' says "$err" 'CAP_DAC_OVERRIDE'
	mount -o remount,ro,bind /sys
	check 'knobs that are mounted read-only' ends 5 reserve 0:2M:50
	check 'the message says why' says "$err" 'read-only'
	mount -o remount,rw,bind /sys
	check 'nothing has changed' hold 35 90
}

json() {
	check 'status as JSON' prints '"in_use": 0' status --json
	check 'changes as JSON' prints '"result": "done"' reserve --json 0:2M:20 1:2M:75
	check 'a failure as JSON' ends 1 reserve --json 1:2M:76 0:2M:999999
	check 'has its error' says "$out" '"error": '
	check 'and was put back' says "$out" '"result": "restored"'
}

with_module() {
	check 'status of an empty reserve' prints '0 B reserved' status
	reserve_and_release
	check 'status with pages' prints '190 MiB reserved' status
	check 'the states add up to the total' adds_up
	json
	shortfall
	interrupted
	at_once
	permission
	check 'all is given back' ends 0 release --all
	check 'to nothing' hold 0 0
}

command_lines
output_that_fails
file_limit
inherited_signals
if [ $# -eq 1 ]; then
	without_module
	library_that_fails
else
	with_module
fi
echo "1..$tests"
[ $failed -eq 0 ]
