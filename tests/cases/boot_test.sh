#!/bin/sh
# SPDX-License-Identifier: MIT
# What root runs on words that others wrote: hugepin-boot on configurations that are wrong, Slurm's prolog and epilog on
# comments of users. Nothing of the host is changed; the scripts for Slurm see file systems and a mount(8) of their own,
# which takes root. Prints TAP.
#
#	tests/cases/boot_test.sh BUILD
set -u

user=$(realpath "$(dirname "$0")/../../user")
dir=$(mktemp -d) || exit 2
conf=$dir/hugepin.conf out=$dir/out err=$dir/err
tests=0 failed=0
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2

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

# ---- hugepin-boot ----

boot() { # ARGUMENT...
	timeout 20 "$user/boot/hugepin-boot" "$@" >"$out" 2>"$err"
	status=$?
}

# with FORMAT - check a configuration that printf writes; the group hugepin need not be there
with() {
	# shellcheck disable=SC2059 # a format
	printf "$1" >"$conf"
	boot check "$conf"
}

prints() { [ $status -eq 0 ] && [ ! -s "$err" ] && [ "$(cat "$out")" = "$1" ]; }
refuses() { [ $status -eq 1 ] && [ ! -s "$out" ] && grep -qF -- "$1" "$err"; }

ids='mount_options = gid=root,mode=1770\n'
default='mount /run/hugepin (gid=root,mode=1770)'
if mount | grep -q 'type hugepinfs' || [ -n "$(ls -A /run/hugepin 2>/dev/null)" ]; then
	printf 'ok 1 - words of others # SKIP hugepinfs is in use on this host\n1..1\n'
	exit 0
fi

with "$ids"
check 'a configuration without a reserve' prints "$default"
with "${ids}reserve = 0:2M:4,0:2M:8 # the last one holds\n"
check 'the last entry for a node and class holds' prints "$default
reserve 0:2M:8"
with "${ids}\r\n \t\r\nreserve\t=\t0:2M:4\r\n  # blank and tab\r\nwait=5"
check 'lines that another system ended, and one without an end' prints "$default
reserve 0:2M:4"
with "${ids}mount = /run//x/../hugepin/\n"
check 'a path is the same however it is written' prints "$default"
touch 'evil:2M:4'
with "${ids}reserve = *:2M:4\n"
check 'a star is no file name' [ $status -eq 0 ]

with "${ids}user_limit_percent = 75\nscrub = off\nscrub_throttle = 200\n"
check 'knobs' prints "$default
user_limit_percent 75
scrub off
scrub_throttle 200"
export HUGEPIN_SCRUB=0
with "$ids"
check 'scrubbing as an option of the library' prints "$default
scrub off"
with "${ids}scrub = on\n"
check 'the file goes before the environment' prints "$default
scrub on"
export HUGEPIN_SCRUB=of
with "$ids"
check 'an option that is neither on nor off' refuses 'HUGEPIN_SCRUB = of is none of 0, 1, true'
unset HUGEPIN_SCRUB

with "${ids}wait = 5\nwait = 6\n"
check 'a key that comes twice' refuses "$conf:3: wait is set a second time"
with "${ids}nr = 5\n"
check 'a key that there is not' refuses "$conf:2: no such key: nr"
with "${ids}reserve 0:2M:4\n"
check 'a line that is no assignment' refuses "$conf:2: 'reserve 0:2M:4' is not key = value"
for spec in 0:2M:04 0:2M:1000000000 0:2M:101%% 0:2M:010%% 0:2M:9%%9 0:1g:1 00:1G:1 0:2M:-1 '0:2M:4;id' "\$(id):2M:4"; do
	with "${ids}reserve = 0:2M:1,$spec\n"
	check "a reserve of $spec" refuses "$conf:2: reserve:"
done
with "${ids}reserve = 0:2M:4,\n"
check 'an entry that is empty' refuses "$conf:2: reserve = 0:2M:4, has an empty entry"
with "${ids}reserve = 4095:2M:4\n"
check 'a node that is not there' refuses 'there is no node 4095'
with "${ids}reserve = 0:2M\\000:4\n"
check 'a zero byte' refuses "$conf has control characters"
with "${ids}wait = 1\\033[2J\n"
check 'what a terminal would obey' refuses "$conf has control characters"
for place in / /run/.. relative '/a\\040b' '/a b' ''; do
	with "${ids}mount = $place\n"
	check "a mount at '$place'" refuses "$conf:2: mount = "
done
with "${ids}mount = /usr\n"
check 'a mount over what is there' refuses '/usr is not an empty directory'
with 'mount_options = gid=no_such_group\n'
check 'a group that is not there' refuses "'no_such_group' is in no group of this host"

for bad in gid= uid=,mode=1770 gid mode= mode mode=9 mode=0x1ff mode=17777; do
	with "mount_options = gid=root,$bad\n"
	check "mount options with $bad" refuses "$conf:1: mount_options: '${bad%%,*}' is neither"
done
for bad in ',,' gid=root,,mode=1770 ,gid=root 'gid=root,'; do
	with "mount_options = $bad\n"
	check "mount options $bad" refuses "$conf:1: mount_options = $bad has an empty entry"
done
with 'mount_options = ro,gid=0,mode=01770,limit_2m=4\n'
check "others are the kernel's to know" prints 'mount /run/hugepin (ro,gid=0,mode=01770,limit_2m=4)'
with 'mount_options = gid=-x\n'
check 'a group like an option' refuses "'-x' is in no group of this host"
check 'is none of getent' sh -c "! grep -qi usage '$err'"
printf '%b' "$ids" >-x.conf
boot check -x.conf
check 'a file like an option' prints "$default"

with "$ids"
chmod 666 "$conf"
boot check "$conf"
check 'a configuration that anybody may write' refuses 'others may write it'
rm "$conf"
mkfifo "$conf"
boot check "$conf"
check 'a pipe' refuses "$conf is not a regular file"
rm "$conf"
boot check "$conf"
check 'a file that is not there' refuses "$conf: there is no such file"
boot start now
check 'a word too many' [ $status -eq 2 ]

# ---- Slurm ----

# slurm SCRIPT NAME=VALUE... - run it where the module seems loaded and mount(8) only tells what it was asked
slurm() {
	script=$user/slurm/$1
	shift
	mkdir -p "$dir/bin"
	printf '#!/bin/sh\necho "mount $*"\n' >"$dir/bin/mount"
	chmod +x "$dir/bin/mount"
	# shellcheck disable=SC2016 # the inner shell's
	unshare -m sh -euc 'mount -t tmpfs none /sys/class/misc; mkdir /sys/class/misc/hugepin; mount -t tmpfs none /run
		script=$1 dir=$2; shift 2
		env -i PATH="$dir/bin:$PATH" "$@" "$script"' sh "$script" "$dir" "$@" >"$out" 2>"$err"
	status=$?
}

options() { # EXPECTED
	[ $status -eq 0 ] && [ ! -s "$err" ] && [ "$(cat "$out")" = "mount -t hugepinfs -o $1 none /run/hugepin-jobs/7" ]
}
no_mount() { [ $status -eq 0 ] && [ ! -s "$out" ] && grep -qF 'no mount' "$err"; }

job='SLURM_JOB_ID=7 SLURM_JOB_UID=1000'
if ! unshare -m true 2>/dev/null || [ ! -d /sys/class/misc ]; then
	tests=$((tests + 1))
	echo "ok $tests - Slurm's prolog and epilog # SKIP a mount namespace takes root, and sysfs"
else
	# shellcheck disable=SC2086 # two settings
	{
	slurm prolog $job
	check 'a job without a comment has no limits of its own' options 'uid=1000,mode=0700'
	slurm prolog $job SLURM_JOB_COMMENT='hugepin:1g=4,2m=2048'
	check 'a comment sets limits' options 'uid=1000,mode=0700,limit_1g=4,limit_2m=2048'
	slurm prolog $job SLURM_JOB_COMMENT='my run hugepin:2m=5 and more'
	check 'it ends at a blank' options 'uid=1000,mode=0700,limit_2m=5'
	slurm prolog $job SLURM_JOB_COMMENT="hugepin:2m=5
,uid=0,mode=0777"
	check 'it ends at a line' options 'uid=1000,mode=0700,limit_2m=5'
	for asked in '' 2m= 2m=-1 2m=1,uid=0 2m=1,2m=2 2m=1,1g=1,2m=1 4k=1 2m=1234567890 '2m=1;id' "2m=\$(id)"; do
		slurm prolog $job SLURM_JOB_COMMENT="hugepin:$asked"
		check "a comment of '$asked' costs the job its mount, not the node" no_mount
	done
	}
	for id in ../../etc '7 8' 7x; do
		slurm prolog SLURM_JOB_ID="$id" SLURM_JOB_UID=1000
		check "the prolog of a job '$id'" [ "$status:$(cat "$out")" = 1: ]
		slurm epilog SLURM_JOB_ID="$id"
		check "the epilog of a job '$id'" [ "$status:$(cat "$out")" = 1: ]
	done
fi

echo "1..$tests"
[ $failed -eq 0 ]
