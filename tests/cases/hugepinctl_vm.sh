#!/bin/sh
# SPDX-License-Identifier: MIT
# hugepinctl's commands on a machine with the module, as root and as an ordinary user (cases C031, C066): what they tell
# against what is there. Needs no more than busybox; nodes of 8 GiB and 1 GiB; from the top of the tree:
#
#	tools/check.d/hugepinctl-vm KERNEL
#
# Prints TAP, metrics behind "metrics: ", JSON behind "json: ", and, last, "N passed, N failed, N skipped".
set -u

top=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
programs=$top/build/tests/cases
reserve=/sys/class/misc/hugepin/node0
hugetlb=/sys/devices/system/node/node0/hugepages
out=$(mktemp) err=$(mktemp) || exit 2
passed=0 failed=0 skipped=0

# check DESCRIPTION COMMAND... - a line of TAP; what was printed, when it fails
check() {
	what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok $((passed + failed + skipped)) - $what"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $((passed + failed + skipped)) - $what"
	sed 's/^/# stdout: /' "$out"
	sed 's/^/# stderr: /' "$err"
}

skip() {
	skipped=$((skipped + 1))
	echo "ok $((passed + failed + skipped)) - $1 # SKIP $2"
}

# ends STATUS ARGUMENT... - run hugepinctl; JSON is told, for a parser outside
ends() {
	wanted=$1
	shift
	hugepinctl "$@" >"$out" 2>"$err"
	status=$?
	case " $* " in *' --json '*) sed 's/^/json: /' "$out" ;; esac
	[ $status -eq "$wanted" ] || { echo "# status $status instead of $wanted"; false; }
}

# user_ends STATUS ARGUMENT... - the same as an ordinary member of the device's group
user_ends() {
	wanted=$1
	shift
	su user -c "hugepinctl $*" >"$out" 2>"$err"
	status=$?
	[ $status -eq "$wanted" ] || { echo "# status $status instead of $wanted"; false; }
}

says() {
	grep -qE -- "$2" "$1" || { echo "# not said: $2"; false; }
}

# number KEY - the first number that JSON in $out has for a key
number() {
	sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$out" | head -n 1
}

# ready FILE... - wait until each says so
ready() {
	for file; do
		tries=0
		until grep -q ready "$file" 2>/dev/null; do
			tries=$((tries + 1))
			[ $tries -lt 200 ] || return 1
			sleep 0.1
		done
	done
}

pages() {
	cat "$1"
}

# ---- doctor ----

doctor() {
	check 'doctor finds nothing bad' ends 0 doctor
	check 'and says what to do' says "$out" '-> hugepinctl reserve'
	check 'doctor as JSON' ends 0 doctor --json
	check 'counts what is bad' [ "$(number bad)" = 0 ]
	check 'doctor tells a user who is not in the group' user_ends 1 doctor
	check 'of the device' says "$out" '^bad +device +/dev/hugepin: Permission denied; mode 0660'
}

# ---- ps (C031: holders are told although no directory has a name of theirs) ----

ps_pid_of() {
	awk -v id="$1" '/^REGION/ { on = 1; next } on && $1 == id { print $2 }' "$out"
}

forgotten_is() {
	awk -v name="$1" '$NF == name && / forgotten / { found = 1 } END { exit !found }' "$out"
}

processes() {
	check 'a reserve for it' ends 0 reserve 0:2M:64
	"$programs/holder" emb0 20 >/tmp/h1 & named=$!
	"$programs/holder" - 8 >/tmp/h2 & unnamed=$!
	"$programs/holder" gone 4 unlink >/tmp/h3 & unlinked=$!
	"$programs/holder" left 6 leave
	ready /tmp/h1 /tmp/h2 /tmp/h3
	rm /run/hugepin/emb0
	check 'ps' ends 0 ps
	check 'a region without a name any more has its process' says "$out" " $named +root +1 +20 MiB +holder"
	check 'so has one that never had a name' says "$out" " $unnamed +root +1 +8 MiB +holder"
	check 'so has one whose name was removed' says "$out" " $unlinked +root +1 +4 MiB +holder"
	check 'a name that nobody uses is forgotten' forgotten_is left
	check 'and how to free it is told' says "$out" '1 region is forgotten, 6 MiB: rm its name'
	check 'users are told' says "$out" '^root +0 +19 +38 MiB'
	check 'only the forgotten ones' ends 0 ps --forgotten
	check 'without the others' [ "$(grep -c MiB "$out")" -eq 2 ]
	check 'ps as JSON' ends 0 ps --json
	check 'has the name' says "$out" '"name": "left"'
	check 'and the processes' says "$out" "\"pid\": $unnamed"
	check 'and modes as chmod takes them' says "$out" '"mode": "0660"'
	"$programs/holder" "$(printf 'a\033[31m\n\377')z" 2 leave
	check 'a name of any bytes does not reach the terminal' ends 0 ps
	check 'but what can be shown of it' says "$out" ' a\?\[31m\?\?z$'
	check 'and is valid JSON' ends 0 ps --json
	rm /run/hugepin/a*z
	check 'too few pages fail' sh -c "! $programs/holder - 4096 >$out 2>$err"
	check 'and the command that helps' says "$err" "asked 4 pages of 1G.*0 free; reserve more with 'hugepinctl reserve 0:1G:\+4'"
}

# ---- metrics ----

metrics() {
	check 'metrics' ends 0 metrics
	sed 's/^/metrics: /' "$out"
	check 'bytes in use' says "$out" '^hugepin_reserve_bytes{node="0",page_size="2M",state="in_use"} 39845888$'
	check 'forgotten regions' says "$out" '^hugepin_forgotten_regions 1$'
	check 'metrics in a file' ends 0 metrics --output /tmp/hugepin.prom
	check 'has them all' says /tmp/hugepin.prom '^hugepin_user_pinned_bytes{uid="0"} 0$'
	check 'and nothing is left beside it' [ "$(find /tmp -name 'hugepin.prom*' | wc -l)" -eq 1 ]
	check 'a folder that is not there fails' ends 1 metrics --output /tmp/no/hugepin.prom
	check 'status as JSON' ends 0 status --json
	check 'a change as JSON' ends 0 reserve --dry-run --json 0:2M:65
	check 'a refusal as JSON' ends 1 reserve --json 0:2M:99999
	check 'metrics as JSON' ends 0 metrics --json
	check 'has the samples' says "$out" '"name": "hugepin_regions"'
}

view() {
	check 'top ends after so many looks' ends 0 top --rounds 2 --delay 0.2
	check 'both have the reserve' [ "$(grep -c '^38\|reserved:' "$out")" -eq 2 ]
	check 'and the regions' [ "$(grep -c forgotten "$out")" -eq 2 ]
	check 'what changed between them is told' says "$out" 'since the look before: in use \+0 B'
	check 'top on a terminal: a key looks at once, q ends it and leaves the screen as it was' terminal
	check 'and fits its lines to it' [ "$(tr '\033' '\n' <"$out" | grep -c '^\[K')" -le $((8 * looks)) ]
}

# A minute between two looks: only a key makes it sooner, and q ends it, with the screen as it was.
terminal() {
	start=$(cut -d. -f1 /proc/uptime)
	(sleep 2; printf x; sleep 1; printf q) |
		script -qec 'stty rows 8 cols 100; hugepinctl top --delay 60' /dev/null >"$out" 2>"$err" || return 1
	looks=$(tr '\033' '\n' <"$out" | grep -c '^\[H')
	[ "$looks" -ge 2 ] && [ $(($(cut -d. -f1 /proc/uptime) - start)) -lt 30 ] &&
		grep -q '1049h' "$out" && tail -n 1 "$out" | grep -q '1049l'
}

# ---- an ordinary user (C066) ----

ordinary_user() {
	check 'without the group ps has the mount alone' user_ends 0 ps
	check 'whose regions it tells' says "$out" ' forgotten +left'
	check 'not those of the device' [ "$(grep -c '8 MiB' "$out")" -eq 0 ]
	check 'and that there may be others' says "$out" 'only the mount of hugepinfs was looked at'
	chgrp 1000 /dev/hugepin
	for command in status ps metrics doctor 'top --rounds 1'; do
		# shellcheck disable=SC2086 # several words
		check "a member of the group may: $command" user_ends 0 $command
	done
	user_ends 0 ps
	check 'what ps cannot see it says' says "$out" '[0-9]+ processes of other users could not be looked into'
	check 'a member may make a region' su user -c "$programs/holder - 2 leave"
	check 'a member may not reserve' user_ends 5 reserve 0:2M:70
	check 'the message has path, errno and capability' says "$err" "$reserve/.*Permission denied.*CAP_DAC_OVERRIDE"
	echo 1 >$hugetlb/hugepages-2048kB/nr_hugepages
	check 'a member may not adopt' user_ends 5 adopt 0 2M 1
	check 'the message has path, errno and capability, too' says "$err" "$hugetlb/.*Permission denied.*CAP_DAC_OVERRIDE"
	echo 0 >$hugetlb/hugepages-2048kB/nr_hugepages
	check 'a member may not see pages' user_ends 5 explain
	check 'the message has path, errno and capability as well' says "$err" '/proc/kpageflags: .*denied.*CAP_DAC_READ_SEARCH'
	chgrp 0 /dev/hugepin
}

# ---- adopt ----

both_hold() {
	[ "$(pages "$hugetlb/hugepages-$1/nr_hugepages")" -eq "$2" ] &&
		[ "$(pages "$reserve/hugepages-$1/nr_hugepages")" -eq "$3" ]
}

# Killed at any moment, a page is in one of both pools: what is left of the step under way ends by itself.
killed() {
	hugepinctl adopt 0 2M all >/dev/null 2>&1 &
	pid=$!
	until [ "$(pages $reserve/hugepages-2048kB/nr_hugepages)" -gt 144 ]; do :; done
	kill -9 $pid
	wait $pid 2>/dev/null
	sleep 0.5
	moved=$(($(pages $reserve/hugepages-2048kB/nr_hugepages) - 144))
	[ $((moved + $(pages $hugetlb/hugepages-2048kB/nr_hugepages))) -eq 420 ]
}

adopt() {
	echo 100 >$hugetlb/hugepages-2048kB/nr_hugepages
	check 'adopt says what it would do' ends 0 adopt --dry-run 0 2M 80
	check 'and does nothing' both_hold 2048kB 100 64
	check 'adopt moves pages of 2M' ends 0 adopt 0 2M 80
	check 'from one pool to the other' both_hold 2048kB 20 144
	check 'it tells how many' says "$out" '^80 moved, 0 returned, 0 lost'
	check 'more than is free is refused' ends 1 adopt 0 2M 21
	check 'with the numbers' says "$err" 'asked to adopt 21 pages of 2M, the hugetlb pool of node 0 has 20'
	check 'and nothing moves' both_hold 2048kB 20 144
	echo 420 >$hugetlb/hugepages-2048kB/nr_hugepages
	check 'killed half-way no page is lost' killed
	check 'the next one goes on' ends 0 adopt --json 0 2M all
	check 'to the end' both_hold 2048kB 0 564
	check 'lost is 0' [ "$(number lost)" = 0 ]
	echo 2 >$hugetlb/hugepages-1048576kB/nr_hugepages
	check 'explain sees hugetlb pages in the way' ends 0 explain --json 0
	check 'in two windows' [ "$(number hugetlb)" = 2 ]
	check 'adopt moves pages of 1G' ends 0 adopt 0 1G 2
	check 'both' both_hold 1048576kB 0 2
	check 'explain sees them as ours' ends 0 explain --json 0
	check 'in two windows, too' [ "$(number hugepin_1g)" = 2 ]
	kill $named $unnamed $unlinked
	rm /run/hugepin/left
	check 'all goes back' ends 0 release --all
}

# ---- explain: what it foretells, against what can be had ----

# foretold - as many 1G pages as explain says can be had at least, give or take one
foretold() {
	ends 0 explain --json 0 || return 1
	least=$(number obtainable_1g) most=$(number obtainable_1g_most)
	hugepinctl reserve --partial 0:1G:7 >/dev/null 2>&1
	got=$(pages $reserve/hugepages-1048576kB/nr_hugepages)
	hugepinctl release --all >/dev/null
	echo "# foretold $least to $most, got $got"
	[ "$got" -ge $((least - 1)) ] && [ "$got" -le $((least + 1)) ] && [ "$got" -le "$most" ]
}

# The node is filled step by step with pages of the reserve, pipes' buffers between them, and the reserve given back.
fragment() {
	for step in 1 2 3; do
		hugepinctl reserve '0:2M:+700' >"$out" 2>"$err" || return 1
		"$programs/fragmenter" 0 6 >/tmp/f$step &
		ready /tmp/f$step || return 1
	done
	hugepinctl release --all >/dev/null
}

explain() {
	check 'an empty node: the forecast holds' foretold
	empty=$got
	check 'pages that cannot move are scattered' fragment
	check 'a scattered node: the forecast holds' foretold
	check 'and it has fewer pages than an empty one' [ "$got" -lt "$empty" ]
	check 'explain for people, with a picture' ends 0 explain --blocks --svg /tmp/map.svg 0
	sed 's/^/# /' "$out"
	check 'names the windows in the way' says "$out" "kernel's own pages are in the way"
	check 'and blocks that cannot go offline' says "$out" '^ *memory[0-9]+ .* kernel'
	windows=$(sed -n 's/.*: \([0-9]*\) windows of 1 GiB.*/\1/p' "$out")
	check 'the picture has a title a window' [ "$(grep -c '<title>' /tmp/map.svg)" -eq "$windows" ]
	check 'a node that is not there' ends 1 explain 5
	check 'is told' says "$err" 'there is no node 5 with memory'
}

doctor
processes
metrics
view
ordinary_user
adopt
if [ "$(cat /sys/class/misc/hugepin/class_1g)" = present ]; then
	explain
else
	check 'explain where 1G pages are absent' ends 0 explain 0
	check 'tells that they are' says "$out" 'hugepin has no 1G pages here'
	skip 'explain against reservations' "this kernel's 1G pages are absent"
fi

echo "1..$((passed + failed + skipped))"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
