#!/bin/sh
# SPDX-License-Identifier: MIT
# Tricks with the environment, with symbolic links and with owners against what runs with more rights than its caller:
# set-user-ID programs that use the library, hugepin-boot, the shim's report. Prints TAP. Takes root.
#
#	tests/cases/security_test.sh BUILD
set -u

[ $# -eq 1 ] || { echo "usage: $0 BUILD" >&2; exit 2; }
build=$(realpath "$1")
boot=$(realpath "$(dirname "$0")/../../user")/boot/hugepin-boot
dir=$(mktemp -d) || exit 2
out=$dir/out err=$dir/err
tests=0 failed=0
trap 'rm -rf "$dir"' EXIT

if [ "$(id -u)" -ne 0 ]; then
	printf '1..1\nok 1 - other users # SKIP needs root\n'
	exit 0
fi
chmod 755 "$dir"

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

# as_nobody COMMAND... - its status is in $status
as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@" >"$out" 2>"$err"
	status=$?
}

as_root() {
	"$@" >"$out" 2>"$err"
	status=$?
}

says() { [ $status -eq 0 ] && grep -qxF -- "$1" "$out"; }
says_not() { [ $status -eq 0 ] && ! grep -qF -- "$1" "$out"; }
refuses() { [ $status -eq 1 ] && [ ! -s "$out" ] && grep -qF -- "$1" "$err"; }

# ---- the library in a program with another's rights ----

mkdir -m 755 "$dir/planted"
cp "$build/tests/loopback/libcuda.so.1" "$dir/planted/" || exit 2
printf 'host_cap = 3G\n' >"$dir/planted/options"

# privileged NAME MODE - a copy of the program, with that mode, as nobody; the environment is what a caller would plant
privileged() {
	cp "$build/tests/cases/security_privileged" "$dir/$1" && chmod "$2" "$dir/$1" || exit 2
	as_nobody env HUGEPIN_HOST_CAP=5G LD_LIBRARY_PATH="$dir/planted" "$dir/$1"
}

privileged plain 755
check 'an ordinary program takes its options from the environment' says 'host_cap 5G'
check 'and its runtime from where it is told' says loaded
default=$(env -i "$dir/plain" | grep host_cap)

for mode in 4755 2755; do
	privileged "mode$mode" $mode
	check "a program of mode $mode takes none from there" says "$default"
	check "nor a library (mode $mode)" says_not loaded
	as_nobody env HUGEPIN_CONFIG="$dir/planted/options" "$dir/mode$mode"
	check "nor a file of options (mode $mode)" says "$default"
	as_nobody env HUGEPIN_HOST_CAP=nonsense HUGEPIN_NO_SUCH=1 "$dir/mode$mode"
	check "nor is it stopped by wrong ones (mode $mode)" says 'options good'
done

# ---- the shim in such a program ----

touch "$dir/report"
chmod 600 "$dir/report"
as_nobody env LD_PRELOAD="$build/lib/libhugepin-shim.so" HUGEPIN_RUN_REPORT="$dir/report" "$dir/mode4755"
check 'the shim does not write for it where its caller may not' [ ! -s "$dir/report" ]
check 'nor stand in its way' says "$default"

# ---- hugepin-boot ----

conf=$dir/hugepin.conf
printf 'mount_options = gid=root,mode=1770\n' >"$conf"
expected='mount /run/hugepin (gid=root,mode=1770)'

chown 65534 "$conf"
as_root "$boot" check "$conf"
check "a configuration of another user" refuses 'is not root'
chown 0 "$conf"

mkdir "$dir/theirs"
chown 65534 "$dir/theirs"
cp "$conf" "$dir/theirs/conf"
chown 65534 "$dir/theirs/conf"
ln -s "$dir/theirs/conf" "$dir/link"
as_root "$boot" check "$dir/link"
check 'a link to one' refuses 'is not root'

chmod 664 "$conf"
chgrp 65534 "$conf"
as_root "$boot" check "$conf"
check 'a configuration that another group may write' refuses 'may write it'
chmod 644 "$conf"
chgrp 0 "$conf"

# Programs of its caller's, for every name that it uses
mkdir "$dir/bin"
for program in awk cat cut dirname find getent grep hugepinctl id ls modprobe mount realpath sed sh sort tail tr umount wc; do
	printf '#!/bin/sh\n: >%s/tricked\nexit 1\n' "$dir" >"$dir/bin/$program"
	chmod 755 "$dir/bin/$program"
done
printf ': >%s/tricked\n' "$dir" >"$dir/startup"
as_root env PATH="$dir/bin" IFS=/ ENV="$dir/startup" BASH_ENV="$dir/startup" CDPATH="$dir" \
	conf="$dir/theirs/conf" mount=/ reserve=0:1G:1 knobs=/nowhere "$boot" check "$conf"
check 'hugepin-boot in an environment of tricks' says "$expected"
check 'runs no program of it' [ ! -e "$dir/tricked" ]

echo "1..$tests"
[ $failed -eq 0 ]
