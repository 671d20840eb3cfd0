#!/bin/sh
# SPDX-License-Identifier: MIT
# Tenants in containers, in a virtual machine: a mount of hugepinfs each, bound into a container that has neither the device nor
# a writable /sys nor privileges. From the top of the tree: tools/check.d/container-vm KERNEL
#
# Prints TAP and, last, "N passed, N failed, N skipped".
set -u

top=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
tenant=$top/build/tests/cases/tenant
inside=$top/tests/cases/container/inside
out=$(mktemp) err=$(mktemp) || exit 2
passed=0 failed=0
export BIND="$top"

check() { # DESCRIPTION COMMAND…
	what=$1
	shift
	if "$@" >"$out" 2>"$err"; then
		passed=$((passed + 1))
		echo "ok $((passed + failed)) - $what"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $((passed + failed)) - $what"
	sed 's/^/# stdout: /' "$out"
	sed 's/^/# stderr: /' "$err"
}

as() { # USER COMMAND…
	who=$1
	shift
	su "$who" -s /bin/sh -c "BIND='$BIND' PATH='$PATH' $*"
}
says() { # TEXT COMMAND…: succeeds and prints TEXT
	text=$1
	shift
	"$@" >"$out.said" 2>&1 && { cat "$out.said"; grep -qF -- "$text" "$out.said"; }
}
refused() { # TEXT COMMAND…: fails and prints TEXT
	text=$1
	shift
	! "$@" >"$out.said" 2>&1 && { cat "$out.said"; grep -qE -- "$text" "$out.said"; }
}
sum() { cat /sys/class/misc/hugepin/node*/hugepages-2048kB/"$1"_hugepages | awk '{ n += $1 } END { print n }'; }
is() { # FILE NUMBER: within five seconds
	tries=0
	until [ "$(sum "$1")" = "$2" ]; do
		tries=$((tries + 1))
		[ $tries -lt 50 ] || { echo "$1 is $(sum "$1"), not $2"; return 1; }
		sleep 0.1
	done
}
hugetlb() { cat /sys/kernel/mm/hugepages/hugepages-*/nr_hugepages /sys/kernel/mm/hugepages/hugepages-*/free_hugepages; }

chmod 755 "$top" 2>/dev/null
hugepinctl reserve '*:2M:64' >/dev/null || exit 2
hugetlb >/tmp/hugetlb.before
mkdir -p /run/tenants/a /run/tenants/b
mount -t hugepinfs -o uid=1000,gid=1000,mode=0700,limit_2m=16,limit_1g=0 none /run/tenants/a || exit 2
mount -t hugepinfs -o uid=1001,gid=1001,mode=0700,limit_2m=32,limit_1g=0 none /run/tenants/b || exit 2

a() { as user "$inside" /run/tenants/a "$@"; }
b() { as other "$inside" /run/tenants/b "$@"; }

check 'the container has no device and a /sys it cannot write' a "sh -c '[ ! -e /dev/hugepin ] && ! echo 1 >/sys/class/misc/hugepin/scrub/enabled'"
check 'a region with a name can be made inside' says 'took 8388608 bytes' a "$tenant take emb0 8"
check 'the host sees the name, owned by the tenant' says 1000 stat -c %u /run/tenants/a/emb0
check 'another container of the tenant finds its contents' says '1048576 of 1048576 words' a "$tenant check emb0"
check 'the other tenant does not see the name' refused 'No such file|cannot' b "$tenant check emb0"
check "the other tenant cannot reach the first one's mount" refused 'ermission' as other "ls /run/tenants/a"
check 'more than the limit is refused with asked, limit and held' refused 'asked 17 pages.*may hold 16' a "$tenant take - 34"
check 'what the name holds counts against the limit' refused 'asked 13 pages.*may hold 16 and holds 4' a "$tenant take - 26"
check 'as much as is left can be had' says 'took 25165824 bytes' a "$tenant take - 24"
check 'an unnamed region went with its process' is inuse 4

a "$tenant take - 24 600" >/dev/null 2>&1 &
check 'a container holds all that is left' is inuse 16
# shellcheck disable=SC2046 # one word each
kill -9 $(pidof tenant)
wait
check 'killed, its memory is free again' is inuse 4
check 'the name and its contents have stayed' says '1048576 of 1048576 words' a "$tenant check emb0"

a "sh -c 'until [ -e /hugepin/late ]; do sleep 0.1; done; $tenant check late'" >/tmp/late 2>&1 &
sleep 0.5
check 'a name made later on the host' says took env HUGEPIN_MOUNT=/run/tenants/a "$tenant" take later 2
chown 1000:1000 /run/tenants/a/later
mv /run/tenants/a/later /run/tenants/a/late	# seen only once it is the tenant's
wait
check '… appears in a container that runs already' says 'words are as written' cat /tmp/late
check 'df tells the truth inside' says 32768 a "df -k /hugepin"
check 'the limit can be raised while containers run' mount -o remount,limit_2m=24 /run/tenants/a
check '… and counts at once' says took a "$tenant take - 26"
rm /run/tenants/a/emb0 /run/tenants/a/late
check 'with the names gone everything is back' is free 128
check "the kernel's own huge pages are as they were" sh -c 'cat /sys/kernel/mm/hugepages/hugepages-*/nr_hugepages /sys/kernel/mm/hugepages/hugepages-*/free_hugepages | cmp - /tmp/hugetlb.before'
umount /run/tenants/a /run/tenants/b

# ---- Kubernetes: what the DaemonSet's init container runs ----

daemon_set() { # LIMIT_2M of team-a
	mkdir -p /tenants /etc/hugepin
	printf 'team-a 1000 1000 1 %s\n\nteam-b 2000 2000 0 8\n' "$1" >/etc/hugepin/tenants
	sh -euc "$(awk '/^ *- \|$/ { on = 1; next } on && substr($0, 1, 14) == sprintf("%14s", "") { print substr($0, 15); next }
		on { exit }' "$top/user/kubernetes/tenant-mounts.yaml")"
}
limits_are() { # TENANT OPTIONS
	grep -Eq " /tenants/$1 hugepinfs .*$2" /proc/mounts || { grep hugepinfs /proc/mounts; false; }
}

check 'the DaemonSet mounts for each tenant' daemon_set 16
check '… with its limits' limits_are team-a 'limit_1g=1,limit_2m=16,uid=1000,gid=1000,mode=0?770'
check '… and those of the next' limits_are team-b limit_2m=8
check 'a tenant makes a name there' as user "HUGEPIN_MOUNT=/tenants/team-a $tenant take emb0 8"
check 'run again it changes the limits' daemon_set 24
check '… there' limits_are team-a limit_2m=24
check '… and mounts nothing twice' [ "$(grep -c ' /tenants/team-a ' /proc/mounts)" -eq 1 ]
check '… nor loses a name' as user "HUGEPIN_MOUNT=/tenants/team-a $tenant check emb0"
rm -f /tenants/team-a/emb0
umount /tenants/team-a /tenants/team-b
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
