#!/bin/bash
# SPDX-License-Identifier: MIT
# That what is written of hugepinctl is what it takes: its manual page and its help have the same commands, options and
# exit statuses, and the other documents name none that is not there; that the report in README.md is the demo's; that
# man(1) formats every page without a word. Prints TAP.
#
#	tests/cases/manual_test.sh BUILD
set -u

[ $# -eq 1 ] || { echo "usage: $0 BUILD" >&2; exit 2; }
ctl=$1/bin/hugepinctl
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 2
page=Documentation/man/hugepinctl.1
tests=0 failed=0

check() { # DESCRIPTION COMMAND…
	local what=$1
	shift
	tests=$((tests + 1))
	if "$@"; then
		echo "ok $tests - $what"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $tests - $what"
}

same() { # A B
	[ -z "$1" ] || [ "$1" != "$2" ] || return 0
	diff <(echo "$1") <(echo "$2") | sed 's/^/# /'
	return 1
}

# ---- the two of them ----

help_commands() {
	"$ctl" help | sed -n '/^usage/,/^  -V/ s/^  \([a-z]*\)  *.*/\1/p' | sort
}

page_commands() {
	awk '/^\.Sh DESCRIPTION/ { exit } before == ".Nm" && $1 == ".Cm" { print $2 } { before = $0 }' $page | sort -u
}

help_options() { # COMMAND: a line "LETTER NAME" for each
	"$ctl" help "$1" | sed -n 's/^  -\(.\), --\([a-z-]*\).*/\1 \2/p' | grep -v '^h help$' | sort
}

synopsis_options() { # COMMAND
	awk -v command="$1" '
		/^\.Sh DESCRIPTION/ { exit }
		/^\.Nm/ { on = 0 }
		$1 == ".Cm" && $2 == command { on = 1 }
		on { print }' $page | grep -oE 'Fl \\-[a-z][a-z-]*' | sed 's/Fl \\-//' | sort -u
}

# Where a letter stands before a name, with it.
section_options() { # COMMAND
	awk -v command="$1" '/^\.S[hs] / { on = $2 == command } on' $page |
		grep -oE '(Fl [a-z] , )?Fl \\-[a-z][a-z-]*' | sed 's/Fl \(.\) , Fl \\-/\1 /; s/Fl \\-//' | sort -u
}

explained() { # COMMAND
	local letter name section
	section=$(section_options "$1")
	while read -r letter name; do
		grep -qxE "($letter )?$name" <<<"$section" || { echo "# $1: nothing of -$letter, --$name"; return 1; }
	done < <(help_options "$1")
}

no_others() { # COMMAND: no letter and no name that the help has not
	local known
	known=$(help_options "$1"; help_options "$1" | cut -d' ' -f2)
	! section_options "$1" | grep -vxF -- "$known" | sed "s/^/# $1: /" | grep .
}

page_statuses() {
	sed -n '/^\.Sh EXIT STATUS/,/^\.El/ s/^\.It \([0-9]*\)$/\1/p' $page
}

help_statuses() {
	"$ctl" help | sed -n '/^Exit status/,$ s/^  \([0-9]*\)  .*/\1/p'
}

# ---- the other documents ----

# used - "COMMAND OPTION…" for each command line in them: what stands behind hugepinctl on the line, up to a program
used() {
	grep -hoE "hugepinctl [a-z]+( +[^;|#\`')]*)?" README.md Documentation/*.md |
		awk '{ line = $2; for (i = 3; i <= NF && $i != "--"; i++) if ($i ~ /^--/) line = line " " $i; print line }' | sort -u
}

known() {
	local command words option options status=0
	while read -r command words; do
		[ "$command" != and ] || continue	# "hugepinctl and hugepin-boot"
		options=$(help_options "$command" | cut -d' ' -f2)
		help_commands | grep -qxF "$command" || { echo "# no command $command"; status=1; }
		for option in $words; do
			grep -qxF -- "${option#--}" <<<"$options" || { echo "# $command has no $option"; status=1; }
		done
	done < <(used)
	return $status
}

report_in_readme() {
	sed -n '/^1  /,/^demo: ok$/p' README.md
}

demo_titles() {
	grep -hoE 'report_section\("[^"]*", "[^"]*"' tools/demo.d/*.c | sed 's/.*("\(.\)", "\(.*\)"/\1  \2/' | sort
}

# known_lines - what each line of the report begins with stands in the demo; "took" is the last of a table's
known_lines() {
	! report_in_readme | sed -n '/^[1-9-] /d; s/^   \([a-z ]\{11\}\) .*/\1/p' | sed 's/ *$//' | grep . | sort -u |
		grep -vxF -- "$(grep -hoE 'report_line\("[^"]*"' tools/demo.d/*.c | cut -d'"' -f2)" | sed 's/^/# /' | grep .
}

quiet() { # PAGE
	local said
	said=$(LC_ALL=C.UTF-8 man --warnings -l "$1" 2>&1 >/dev/null)
	[ -z "$said" ] || { echo "# $said"; false; }
}

check 'the page has the commands of the help' same "$(help_commands)" "$(page_commands)"
for command in $(help_commands); do
	[ "$command" != help ] || continue
	check "$command: the synopsis has its options" \
		[ "$(help_options "$command" | cut -d' ' -f2 | sort)" = "$(synopsis_options "$command")" ]
	check "$command: the page explains each" explained "$command"
	check "$command: and no other" no_others "$command"
done
check 'the page has the exit statuses of the help' same "$(help_statuses)" "$(page_statuses)"
check 'version is --version' same "$("$ctl" --version)" "$("$ctl" version)"
check 'and stands in the page' grep -qx '\.Cm version \.' $page
check 'help of hugepin-boot stands in its page' grep -qx '\.It Cm help' Documentation/man/hugepin-boot.8
check 'the documents name commands and options that are there' known
check "README has the demo's steps" same "$(demo_titles)" "$(report_in_readme | grep -E '^[1-9-]  ' | sort)"
check 'and no line that it does not print' known_lines
for manual in Documentation/man/*.[1-9]; do
	check "man formats ${manual##*/} without a word" quiet "$manual"
done
echo "1..$tests"
[ $failed -eq 0 ]
