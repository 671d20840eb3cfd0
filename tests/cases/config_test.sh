#!/bin/sh
# SPDX-License-Identifier: MIT
# hugepinctl config as people run it: what it lists, what it gives to scripts, what it says of a bad value (cases C011,
# C032, C033). Prints TAP.
#
#	tests/cases/config_test.sh BUILD
set -u

[ $# -eq 1 ] || { echo "usage: $0 BUILD" >&2; exit 2; }
ctl=$1/bin/hugepinctl
dir=$(mktemp -d) || exit 2
out=$dir/out err=$dir/err
tests=0 failed=0
trap 'rm -rf "$dir"' EXIT

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

# with NAME=VALUE... -- ARGUMENT... - run hugepinctl config in an environment of these alone; its status is in $status
with() {
	settings=
	while [ "$1" != -- ]; do
		settings="$settings $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # no setting here has blanks
	env -i $settings "$ctl" config "$@" >"$out" 2>"$err"
	status=$?
}

# fails STATUS MESSAGE - what the last run did: nothing on stdout
fails() {
	[ $status -eq "$1" ] && [ ! -s "$out" ] && grep -qF -- "$2" "$err"
}

prints() {
	[ $status -eq 0 ] && [ ! -s "$err" ] && [ "$(cat "$out")" = "$1" ]
}

row() {
	[ $status -eq 0 ] && [ ! -s "$err" ] && tr -s ' ' <"$out" | grep -qxF -- "$1"
}

json() {
	[ $status -eq 0 ] && [ ! -s "$err" ] && python3 - "$out" <<'END'
import json, sys
options = json.load(open(sys.argv[1]))
keys = "name dialect type unit default min max choices value source doc".split()
assert all(list(option) == keys for option in options)
by_name = {option["name"]: option for option in options}
assert len(by_name) == len(options)
count = lambda dialect: sum(option["dialect"] == dialect for option in options)
assert (count("paddle"), count("tensorflow"), count("ascend")) == (14, 8, 3) and count("hugepin") >= 15
cap = by_name["pinned_cap"]
assert (cap["value"], cap["source"], cap["default"], cap["type"], cap["choices"]) == ("0", "environment", "0", "bytes", [])
assert by_name["host_cap"]["source"] == "default"
assert by_name["allocator_type"]["choices"] == ["", "BFC"]
fraction = by_name["FLAGS_fraction_of_cuda_pinned_memory_to_use"]
assert (fraction["min"], fraction["max"], fraction["value"]) == ("0", "1", "0.25")
assert by_name["FLAGS_initial_cpu_memory_in_mb"]["unit"] == "MB"
END
}

json_value() { # NAME VALUE, as Python writes it
	[ $status -eq 0 ] && [ ! -s "$err" ] && python3 - "$out" "$1" "$2" <<'END'
import ast, json, sys
value = {option["name"]: option["value"] for option in json.load(open(sys.argv[1]))}[sys.argv[2]]
assert value == ast.literal_eval(f"'{sys.argv[3]}'"), value
END
}

fraction=FLAGS_fraction_of_cuda_pinned_memory_to_use

with -- ; check 'every option has a row' row 'hugepin register_chunk 1G default 2M to 256G bytes'
check 'an empty value shows' row 'tensorflow allocator_type "" default ""|BFC choice'
with HUGEPIN_PINNED_CAP=0 $fraction=0.25 -- --json
check 'for scripts, an object an option with these keys' json
with HUGEPIN_MOUNT="/mnt/a$(printf '\033\377')b" -- --json
check 'a value that is no text is text as JSON' json_value mount '/mnt/a\x1b?b'
with HUGEPIN_MOUNT="/mnt/a$(printf '\033\377')b" --
check '… and does nothing to a terminal' row 'hugepin mount /mnt/a??b environment /run/hugepin string'
with HUGEPIN_PINNED_CAP=0 --
check 'a 0 that was set is told from one that was not' row 'hugepin pinned_cap 0 environment 0 bytes'

printf 'pinned_cap = 2G\nregister_threads = 8\n' >"$dir/good.conf"
with HUGEPIN_CONFIG="$dir/good.conf" HUGEPIN_PINNED_CAP=1G -- get pinned_cap
check 'the environment stands above its file' prints 1G
with HUGEPIN_CONFIG="$dir/good.conf" --
check 'a value from a file has its line' row "hugepin register_threads 8 $dir/good.conf:2 4 1 to 64 uint threads"
with HUGEPIN_PINNED_CAP=1G -- --file "$dir/good.conf" get register_threads
check 'a file that is named' prints 8
with FLAGS_call_stack_level=2 -- get strategy
check "another of Paddle's flags is none of ours" prints needed
with -- get no_such
check 'an option that there is not' fails 1 'unknown option "no_such"'

for value in nan inf 1.7 100 0,5 0x1 '' 1e999; do
	with $fraction=$value --
	check "a fraction of '$value' in the environment" fails 1 "$fraction = \"$value\" (environment)"
done
with $fraction=100 -- --json
check 'the same for scripts, with a hint of percent' fails 1 'looks like percent, which is written 1.00'
with HUGEPIN_VARIABLE_USE_1G_HUGE_PAGE=3 -- get mount
check 'a mode that there is not, whatever was asked for' fails 1 'choices are 0|1|2'
with HUGEPIN_STRATEGY=chunks FLAGS_allocator_strategy=auto_growth --
check 'two systems in one source' fails 1 'FLAGS_allocator_strategy'
with HUGEPIN_NO_SUCH=1 --
check 'a variable that is no option' fails 1 'HUGEPIN_NO_SUCH is no option'

printf 'pinned_cap = 2G\n\nregister_threads = 65\n' >"$dir/bad.conf"
printf 'gpu_options {\n  allow_growth: true\n}\n' >"$dir/good.pbtxt"
printf 'gpu_options {\n  allow_growth: perhaps\n}\n' >"$dir/bad.pbtxt"
with HUGEPIN_NO_SUCH=1 -- check "$dir/good.conf"
check 'a good file, whatever the environment says' prints "$dir/good.conf: good"
with -- check "$dir/bad.conf"
check 'a bad line' fails 1 "$dir/bad.conf:3"
with -- check "$dir/bad.pbtxt"
check "a bad line of TensorFlow's" fails 1 "$dir/bad.pbtxt:2"
with -- check "$dir/bad.conf" "$dir/good.pbtxt"
check 'each file is looked at' [ "$status$(cat "$out")" = "1$dir/good.pbtxt: good" ]
with -- check "$dir/none.conf"
check 'a file that is not there' fails 1 "$dir/none.conf: No such file"
with -- check
check 'check of nothing' fails 2 'config check takes one FILE or more'
with -- show
check 'a word that is none' fails 2 "'show' is neither 'get' nor 'check'"

echo "1..$tests"
[ $failed -eq 0 ]
