#!/bin/sh
# SPDX-License-Identifier: MIT
# What a host booted with systemd has made of /etc/hugepin.conf; runs inside, as a unit. TAP on standard output.
set -u

passed=0 failed=0
knobs=/sys/class/misc/hugepin
out=$(mktemp)
chmod 666 "$out"

check() { # DESCRIPTION COMMAND…
	what=$1
	shift
	if "$@" >"$out" 2>&1; then
		passed=$((passed + 1))
		echo "ok $((passed + failed)) - $what"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $((passed + failed)) - $what"
	sed 's/^/# /' "$out"
}

says() { # PATTERN COMMAND…: succeeds and prints it
	pattern=$1
	shift
	said=$("$@" 2>&1) && printf '%s\n' "$said" && printf '%s\n' "$said" | grep -Eq -- "$pattern"
}
refused() { # PATTERN COMMAND…: fails and prints it
	pattern=$1
	shift
	! said=$("$@" 2>&1) && printf '%s\n' "$said" && printf '%s\n' "$said" | grep -Eq -- "$pattern"
}
as() { # USER COMMAND…
	who=$1
	shift
	runuser -u "$who" -- "$@"
}
pages() { # NODE: held
	cat $knobs/node"$1"/hugepages-2048kB/nr_hugepages
}

check 'the unit has done its work' systemctl is-active hugepin.service
check 'it has run before sysinit.target' says 'sysinit.target' systemctl show -p Before hugepin.service
check 'node 0 holds what was asked in pages' says '^48$' pages 0
check 'node 1 holds what was asked in percent' says '^[0-9]+$' pages 1
# shellcheck disable=SC2016 # awk's
check '… which is 4% of its memory' sh -c '
	kb=$(awk "\$3 == \"MemTotal:\" { print \$4 }" /sys/devices/system/node/node1/meminfo)
	[ "$(cat /sys/class/misc/hugepin/node1/hugepages-2048kB/nr_hugepages)" -eq $((kb * 4 / 100 / 2048)) ]'
check 'the journal says so' says '0:2M:48,1:2M:4% is reserved as asked' journalctl -b -u hugepin.service -o cat
check 'hugepinfs is mounted' says ' /run/hugepin hugepinfs ' cat /proc/mounts
check "… for the group, with the sticky bit" says '^root hugepin 1770$' stat -c '%U %G %a' /run/hugepin
check 'the device is for the group' says '^root hugepin 660$' stat -c '%U %G %a' /dev/hugepin
check 'the limit of a user is as configured' says '^75$' cat $knobs/node0/hugepages-2048kB/user_limit_percent

check 'a member of the group makes a name' says 'took 4194304' as alice /tenant take emb0 4
check 'a member of the group sees the reserve' says '48' as alice hugepinctl status
check 'changing the reserve is refused to him, with what it needs' refused 'ermission|CAP_' as alice hugepinctl reserve 0:2M:49
check 'who is not in the group is told so' refused 'hugepin' as bob /tenant take emb1 4

collector=/var/lib/prometheus/node-exporter
up_is() { # VALUE: within 40 seconds
	tries=0
	until grep -qx "hugepin_up $1" $collector/hugepin.prom 2>/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 80 ] || { systemctl status hugepin-metrics.service hugepin-metrics.timer; return 1; }
		sleep 0.5
	done
}
quiet() {
	[ -z "$(journalctl -b -q -u hugepin-metrics.service -o cat)" ] || { journalctl -b -u hugepin-metrics.service; false; }
	! systemctl is-failed hugepin-metrics.service
}
systemctl start hugepin-metrics.timer
sleep 17
check 'metrics without a collector to take them: nothing fails, nothing is said' quiet
mkdir -p $collector
check '… and once there is one they come' up_is 1

check 'an upgrade is refused while a name is there, and names it' refused '/run/hugepin/emb0' hugepin-boot upgrade
check '… and nothing has changed' says '^48$' pages 0
check '… nor has the name gone' says 'words are as written' as alice /tenant check emb0
check 'stopping the unit does not take it away either' sh -c '
	systemctl stop hugepin.service
	systemctl is-failed hugepin.service && [ -d /sys/class/misc/hugepin ] && [ -e /run/hugepin/emb0 ]'
rm /run/hugepin/emb0
check 'with the name gone the module is replaced' hugepin-boot upgrade
check '… and everything is reserved again' says '^48$' pages 0
check '… and mounted' says ' /run/hugepin hugepinfs ' cat /proc/mounts

sed -i 's/^reserve = .*/reserve = 0:1G:2/' /etc/hugepin.conf
check 'a shortfall fails the unit' sh -c '! systemctl restart hugepin.service'
check '… with asked and got in the journal' says 'asked 2|2 +[01] ' journalctl -b -u hugepin.service -o cat
check '… and hugepinfs is there all the same' says ' /run/hugepin hugepinfs ' cat /proc/mounts

echo 'reserve = 7:2M:1' >/etc/hugepin.conf
before=$(cat $knobs/node*/hugepages-*/nr_hugepages)
check 'a node that is not there is refused' refused 'no node 7' hugepin-boot start
check '… and nothing has changed' [ "$before" = "$(cat $knobs/node*/hugepages-*/nr_hugepages)" ]
: >/etc/hugepin.conf
check 'stop gives everything back' hugepin-boot stop
check '… and the module is gone' [ ! -d $knobs ]
check 'which the metrics tell' up_is 0
check '… without a word besides' quiet

echo "$passed passed, $failed failed, 0 skipped"
