#!/bin/sh
# SPDX-License-Identifier: MIT
# hugepinctl and hugepin-boot killed at their system calls, one after the other, as root in a virtual machine (busybox,
# dash, coreutils' tr and realpath are enough): the host is never worse than before. From the top of the tree:
#
#	tools/check.d/killed-vm KERNEL
#
#	EVERY=1		each place where a call begins or ends, else every so many (7)
#
# TAP, and "N passed, N failed, N skipped" last.
set -u

top=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
killat=$top/build/tests/kselftest/killat
every=${EVERY:-7}
reserve=/sys/class/misc/hugepin/node0/hugepages-2048kB
hugetlb=/sys/devices/system/node/node0/hugepages/hugepages-2048kB
passed=0 failed=0
: >/tmp/again.out

# deaths DESCRIPTION CHECK KILLAT-ARGUMENTS... - until the program has come to its end unharmed
deaths() {
	what=$1 check=$2 n=$every count=0 wrong=
	shift 2
	prepare
	while [ -z "$wrong" ]; do
		# "-a" goes before the number
		case $1 in
		-a) (shift; exec "$killat" -a "$n" "$@") >/tmp/killed.out 2>&1 ;;
		*) "$killat" "$n" "$@" >/tmp/killed.out 2>&1 ;;
		esac
		status=$?
		[ $status -eq 0 ] || [ $status -eq 3 ] || wrong="killat ended with $status"
		$check || wrong="after a death at place $n: $wrong"
		[ $status -eq 0 ] || break
		count=$((count + 1)) n=$((n + every))
	done
	ended=$(grep '^ended' /tmp/killed.out)
	if [ -n "$wrong" ] || [ $count -eq 0 ]; then
		failed=$((failed + 1))
		echo "not ok $((passed + failed)) - $what: ${wrong:-no death}"
		sed 's/^/# /' /tmp/killed.out /tmp/again.out
	else
		passed=$((passed + 1))
		echo "ok $((passed + failed)) - $what"
	fi
	echo "# $count deaths; $ended"
}

# what CONDITION... - note why not
holds() {
	why=$1
	shift
	[ "$@" ] || { wrong="$why: $*"; return 1; }
}

pages() { echo $(($(cat $reserve/nr_hugepages) + $(cat $hugetlb/nr_hugepages))); }

nothing_held() {
	holds 'pages in use' "$(cat $reserve/inuse_hugepages)" -eq 0 &&
		holds 'pages in quarantine' "$(cat $reserve/quarantined_hugepages)" -eq 0 &&
		holds 'free pages are not all' "$(cat $reserve/free_hugepages)" -eq "$(cat $reserve/nr_hugepages)"
}

# ---- reserve: something between what was and what was asked for, all of it free, and asking again mends it ----

check_reserve() {
	nothing_held || return
	held=$(cat $reserve/nr_hugepages)
	holds 'fewer pages than before' "$held" -ge 8 && holds 'more pages than asked for' "$held" -le 40 || return
	hugepinctl reserve 0:2M:40 >/tmp/again.out 2>&1
	holds 'reserve again' $? -eq 0 && holds 'pages' "$(cat $reserve/nr_hugepages)" -eq 40 || return
	prepare
}

prepare() {
	echo 0 >$hugetlb/nr_hugepages
	echo 8 >$reserve/nr_hugepages
}

deaths 'reserve: between what was and what was asked for, and again makes it whole' check_reserve \
	hugepinctl reserve 0:2M:40

# ---- adopt: killed alone, no page is lost; with the process that moves pages, those of one step at most ----

prepare() {
	echo 8 >$reserve/nr_hugepages
	echo 16 >$hugetlb/nr_hugepages
	before=$(pages)
}

check_adopt() {
	nothing_held || return
	holds 'pages of both pools are fewer' "$(pages)" -eq "$before" || return
	prepare
}

check_adopt_all() {
	nothing_held || return
	holds 'pages of both pools are more' "$(pages)" -le "$before" &&
		holds 'hugetlb pages that nobody has' "$(cat $hugetlb/free_hugepages)" -eq "$(cat $hugetlb/nr_hugepages)" ||
		return
	# what is in neither pool is the node's free memory: both can have it again
	prepare
	holds 'both pools as before' "$(pages)" -eq 24
}

deaths 'adopt: no page of either pool is lost' check_adopt hugepinctl adopt 0 2M 16
deaths 'adopt with all its processes: what is in no pool can be had again' check_adopt_all \
	-a hugepinctl adopt 0 2M 16

# ---- the boot service: a second start does all that the first did not ----

cat >/etc/hugepin.conf <<-END
	reserve = 0:2M:24
	mount = /run/hugepin-killed
	mount_options = gid=1000,mode=1770
	user_limit_percent = 90
END
boot=$top/build/sbin/hugepin-boot

prepare() {
	umount /run/hugepin-killed 2>/dev/null
	echo 0 >$hugetlb/nr_hugepages
	echo 8 >$reserve/nr_hugepages
	echo 100 >$reserve/user_limit_percent
}

check_boot() {
	nothing_held || return
	holds 'fewer pages than before' "$(cat $reserve/nr_hugepages)" -ge 8 || return
	dash "$boot" start >/tmp/again.out 2>&1
	holds 'start again' $? -eq 0 && holds 'pages' "$(cat $reserve/nr_hugepages)" -eq 24 &&
		holds 'the limit' "$(cat $reserve/user_limit_percent)" -eq 90 &&
		holds 'mounts' "$(grep -c ' /run/hugepin-killed hugepinfs ' /proc/mounts)" -eq 1 || return
	prepare
}

if [ -x "$boot" ]; then
	# each death takes a whole start to mend: fewer of them, spread over all processes
	every=$((every * ${BOOT_FACTOR:-20}))
	deaths 'hugepin-boot: a second start makes all of it good' check_boot -a dash "$boot" start
fi
echo 0 >$hugetlb/nr_hugepages
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
