#!/bin/sh
# SPDX-License-Identifier: MIT
# Three lists must be one: the functions that the public header declares, those of the version script, and the symbols
# that the shared library exports, each with a version. Differences are printed; "<" is only in the header.
#
#	tests/unit/exports_check.sh LIBRARY HEADER MAP
set -eu

if [ $# -ne 3 ]; then
	echo "usage: $0 LIBRARY HEADER MAP" >&2
	exit 2
fi
library=$1 header=$2 map=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${CC:-cc}" -E -P -x c "$header" | tr '\n' ' ' | grep -oE '\bhugepin_[a-z0-9_]+ *\(' | tr -d ' (' |
	sort -u >"$work/header"
sed -e 's|/\*.*\*/||' "$map" | grep -oE '\bhugepin_[a-z0-9_*]+ *;' | tr -d ' ;' | sort >"$work/map"
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/versioned"
sed -e 's/@@HUGEPIN_[0-9.]*$//' "$work/versioned" >"$work/library"

if [ ! -s "$work/header" ]; then
	echo "$header declares nothing that could be checked" >&2
	exit 1
fi
failed=0
if ! diff "$work/header" "$work/map"; then
	echo "$map does not list what $header declares" >&2
	failed=1
fi
# A symbol without "@@HUGEPIN_x.y" keeps whatever it has and differs here as well.
if ! diff "$work/header" "$work/library"; then
	echo "$library does not export what $header declares" >&2
	failed=1
fi
[ "$failed" -ne 0 ] || echo "$(wc -l <"$work/header") functions declared, listed and exported"
exit "$failed"
