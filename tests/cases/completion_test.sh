#!/bin/bash
# SPDX-License-Identifier: MIT
# What bash and zsh complete for hugepinctl, and that the program takes every option they offer. Prints TAP.
#
#	tests/cases/completion_test.sh BUILD
set -u

[ $# -eq 1 ] || { echo "usage: $0 BUILD" >&2; exit 2; }
ctl=$1/bin/hugepinctl
PATH=$1/bin:$PATH
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

# ---- bash ----

# shellcheck source=/dev/null
. "$1/completion/hugepinctl.bash"

# completes WORD… WANTED: with the last word before WANTED half-written, WANTED is offered
completes() {
	local wanted=${*: -1}

	COMP_WORDS=("${@:1:$#-1}")
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	COMPREPLY=()
	_hugepinctl 2>/dev/null
	printf '%s\n' "${COMPREPLY[@]}" | grep -qxF -- "$wanted" ||
		{ echo "# ${COMP_WORDS[*]}: ${COMPREPLY[*]}, not $wanted"; false; }
}

offers_nothing() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	_hugepinctl 2>/dev/null
	[ ${#COMPREPLY[@]} -eq 0 ]
}

check 'bash: commands' completes hugepinctl ex explain
check 'bash: options' completes hugepinctl explain --s --svg
check 'bash: files behind an option that wants one' completes hugepinctl explain --svg /etc/host /etc/hosts
check 'bash: nothing behind an option that wants a number' offers_nothing hugepinctl top --rounds ''
check 'bash: nodes' completes hugepinctl explain '' 0
check 'bash: classes' completes hugepinctl adopt 0 '' 1G
check 'bash: all as a count' completes hugepinctl adopt 0 2M '' all
check 'bash: shells' completes hugepinctl completion z zsh
check 'bash: programs' completes hugepinctl run tru true
check 'bash: the words of config' completes hugepinctl config ch check
check 'bash: files behind them' completes hugepinctl config check /etc/host /etc/hosts
check 'bash: commands behind help' completes hugepinctl help ado adopt
check 'bash: nothing for a command that is none' offers_nothing hugepinctl frob ''

# ---- zsh, with what its completion calls standing in ----

zsh_says() { # TEXT COMMAND…
	local text=$1
	shift
	# shellcheck disable=SC2016 # zsh's own variables
	zsh -fc '
		_arguments() { [[ $1 == -C ]] && state=argument || print -rl -- "$@" }
		_describe() { print -rl -- ${(P)2} }
		file=$1; shift
		words=("$@")
		. $file' zsh "$build/completion/hugepinctl.zsh" "$@" | grep -qF -- "$text"
}
build=$1

check 'zsh: the file is sound' zsh -n "$1/completion/hugepinctl.zsh"
check 'zsh: options with what they do' zsh_says '--blocks[list the memory blocks' explain
check 'zsh: files behind an option that wants one' zsh_says ':FILE:_files' explain
check 'zsh: nodes, classes and all' zsh_says '2:class:(1G 2M)' adopt
check 'zsh: the words of config' zsh_says '1:word:(get check' config
check 'zsh: commands behind help' zsh_says 'explain:show what stands in the way' help

# ---- the program takes what is offered ----

takes() { # COMMAND OPTION
	local value=()

	case $2 in
	--svg | --output | --report | --file) value=(/dev/null) ;;
	--host-threshold) value=(1M) ;;
	--rounds | --delay | --wait) value=(1) ;;
	esac
	"$ctl" "$1" "$2" "${value[@]}" --help >/dev/null 2>&1 || { echo "# $1 $2 is not taken"; false; }
}

takes_all() {
	local command option status=0

	for command in $("$ctl" completion bash | sed -n "s/.*compgen -W '\\(.*\\)help --version.*/\\1/p"); do
		COMP_WORDS=(hugepinctl "$command" --)
		COMP_CWORD=2
		COMPREPLY=()
		_hugepinctl
		for option in "${COMPREPLY[@]}"; do
			takes "$command" "$option" || status=1
			count=$((count + 1))
		done
	done
	return $status
}

count=0
check 'the program takes every option that is offered' takes_all
check 'and there are many' [ $count -gt 25 ]

echo "1..$tests"
[ $failed -eq 0 ]
