#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples that need no module, as people run them: on base pages, and on huge pages of the kernel's own where this
# process may ask for some. Prints TAP and, last, "N passed, N failed, N skipped".
#
#	tests/cases/examples_test.sh [BUILD/bin/hugepinctl]
set -u

top=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
build=${1:-$top/build/bin/hugepinctl}
build=$(readlink -f "${build%/bin/hugepinctl}")
examples=$top/user/examples
overcommit=/proc/sys/vm/nr_overcommit_hugepages
pages=128
export LD_LIBRARY_PATH="$build/lib" PYTHONPATH="$top/user/python" PYTHONDONTWRITEBYTECODE=1
# Not what the machine happens to have: what a check is about is said there.
export HUGEPIN_RUNTIME=none HUGEPIN_PINNED_LADDER=base HUGEPIN_HOST_LADDER=base
out=$(mktemp) err=$(mktemp) || exit 2
passed=0 failed=0 skipped=0 given=0

clean_up() {
	rm -f "$out" "$err"
	[ $given -eq 0 ] || echo $(($(cat $overcommit) - given)) >$overcommit
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

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

# says TEXT COMMAND... - it succeeds, prints TEXT, and nothing on stderr
says() {
	text=$1
	shift
	"$@" >"$out" 2>"$err" && grep -qF -- "$text" "$out" && [ ! -s "$err" ]
}

# fails TEXT COMMAND... - it ends with 1 and TEXT on stderr, no traceback
fails() {
	text=$1
	shift
	"$@" >"$out" 2>"$err"
	[ $? -eq 1 ] && grep -qF -- "$text" "$err" && ! grep -q Traceback "$err"
}

python() {
	/usr/bin/python3 -X dev -W error "$@"
}

# torch: Debian's warns while it is imported, so that warnings cannot be errors here
with_torch() {
	/usr/bin/python3 -X dev -W ignore "$@"
}

# same_bits - a training that stops and one that goes on to the same step do not differ
same_bits() {
	python "$examples/embedding.py" --plain --rows 3000 --steps 200 >"$out" 2>"$err" || return 1
	bits=$(grep '^step 200: sha256' "$out")
	python "$examples/embedding.py" --plain --rows 3000 --steps 200 >"$out" 2>"$err" || return 1
	[ -n "$bits" ] && grep -qF "$bits" "$out"
}

# cut_short STORES - a step that ends after so many rows, or before it is said to be done, is put back and done again
cut_short() {
	PYTHONPATH="$PYTHONPATH:$examples" python - "$1" >"$out" 2>"$err" <<-'END'
		import sys
		import numpy
		import embedding

		class Cut(Exception):
		    pass

		class Table:
		    """Dies in the middle of a step's store."""
		    def __init__(self, table, count):
		        self.table, self.count, self.shape = table, count, table.shape
		    def __getitem__(self, key):
		        return self.table[key]
		    def __setitem__(self, key, value):
		        rows = key[1][:self.count]
		        self.table[:, rows] = value[:, :self.count]
		        raise Cut

		def arrays():
		    batch = embedding.BATCH
		    return numpy.zeros((2, 900, 8), "f4"), embedding.Journal(
		        numpy.zeros(2, "i8"), numpy.zeros(batch, "i8"), numpy.zeros((2, batch, 8), "f4"))

		table, journal = arrays()
		whole, other = arrays()
		for step in range(6):
		    embedding.train_step(whole, other, step)
		for step in range(5):
		    embedding.train_step(table, journal, step)
		before = table.copy()
		try:
		    embedding.train_step(Table(table, int(sys.argv[1])), journal, 5)
		except Cut:
		    pass
		assert int(sys.argv[1]) == 0 or (table != before).any()
		assert journal.recover(table) == (5, True) and (table == before).all()
		assert journal.recover(table) == (5, False)
		embedding.train_step(table, journal, 5)
		assert table.tobytes() == whole.tobytes() and journal.recover(table) == (6, False)
	END
}

on_base_pages() {
	check 'hello in C' says 'pages of 4096 bytes' "$build/examples/hello"
	check 'hello in C says what is wrong' fails 'option pinned_cap = "x"' env HUGEPIN_PINNED_CAP=x "$build/examples/hello"
	check 'hello in C says what it lacks' fails 'cap 1048576' env HUGEPIN_PINNED_CAP=1M "$build/examples/hello"
	check 'hello in Python' says 'sum 16777216' python "$examples/hello.py"
	check 'a loader with pinned staging buffers trains as one without' says '40 batches through 4 pinned buffers' \
		with_torch "$examples/loader.py"
	check 'a key-value cache of fixed blocks' says 'evictions' python "$examples/kvcache.py"
	check 'a training has the same bits each time' same_bits
	for rows in 0 1 100 256; do
		check "a step killed after $rows rows is put back" cut_short $rows
	done
	check 'a table by name without the module says so' fails 'no hugepinfs is mounted at /nowhere' \
		env HUGEPIN_MOUNT=/nowhere /usr/bin/python3 "$examples/embedding.py"
}

on_huge_pages() {
	export HUGEPIN_PINNED_LADDER=hugetlb:2M HUGEPIN_HOST_LADDER=hugetlb:2M
	check 'hello in C on huge pages' says 'pages of 2097152 bytes' "$build/examples/hello"
	check 'hello in Python on huge pages' says 'pages of 2097152 bytes' python "$examples/hello.py"
	check 'a loader on huge pages' says '40 batches' with_torch "$examples/loader.py"
	check 'a key-value cache on huge pages' says 'in pages of 2097152' python "$examples/kvcache.py"
	check 'four processes share one table by descriptor' says '4 processes wrote to and read one table' \
		python "$examples/sharing.py"
}

on_base_pages
if [ "$(id -u)" -eq 0 ] && echo $(($(cat $overcommit) + pages)) >$overcommit; then
	given=$pages
	on_huge_pages
else
	skip 'the examples on huge pages' "$overcommit is root's to write"
fi

echo "1..$((passed + failed + skipped))"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
