# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Saying what is going on, on stderr, so that stdout stays the command's own.
#
# On a terminal a step shows a line that counts seconds; elsewhere a step that takes more than three seconds is
# announced once and closed with its duration. Short steps say nothing.

hp_say()  { printf '%s\n' "$*" >&2; }
hp_die()  { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit "${HP_DIE_STATUS:-1}"; }

_hp_ticker() {
	local text=$1 seconds=0 idle
	trap 'exit 0' TERM
	# Reading from a pipe that stays silent sleeps without a child process, which would outlive the ticker and
	# keep the caller's stderr open.
	exec {idle}<> <(:)
	while :; do
		read -rt 1 -u "$idle" || :
		seconds=$((seconds + 1))
		if [ -t 2 ]; then
			printf '\r%s … %d s' "$text" "$seconds" >&2
		elif [ "$seconds" -eq 3 ]; then
			printf '%s …\n' "$text" >&2
		fi
	done
}

# hp_step TEXT COMMAND… - run COMMAND with its output kept back; shown when it fails.
# Return: the command's status. The command runs in this shell, but where bash suspends "set -e" (in "if", "||"), a
# function given as COMMAND must return its own failures.
hp_step() {
	local text=$1 log ticker status=0 start=$SECONDS
	shift
	log=$(mktemp)
	_hp_ticker "$text" &
	ticker=$!
	"$@" >"$log" 2>&1 </dev/null || status=$?
	kill "$ticker" 2>/dev/null || :
	wait "$ticker" 2>/dev/null || :
	if [ -t 2 ]; then
		printf '\r\033[K' >&2
	fi
	if [ "$status" -ne 0 ]; then
		hp_say "$text: failed (status $status):"
		cat "$log" >&2
	elif [ $((SECONDS - start)) -ge 3 ]; then
		hp_say "$text: done, $((SECONDS - start)) s"
	fi
	rm -f "$log"
	return "$status"
}
