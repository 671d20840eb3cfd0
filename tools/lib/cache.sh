# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The cache folder: downloads and things built from them. Losing it costs time, never results.
#
# Nothing appears in it half-made: a folder is filled under a temporary name and renamed, with a lock held, so that two
# runs at once end with one copy and neither sees the other's work in progress.

hp_cache_dir() { printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/hugepin"; }

# hp_cache_locked NAME COMMAND… - run COMMAND while holding the lock NAME; says so when another run has it.
# The lock is a descriptor of this shell only: programs started by COMMAND must not keep it (9>&- for daemons).
hp_cache_locked() {
	local name=$1 file status=0
	shift
	file=$(hp_cache_dir)/lock/$name
	mkdir -p "${file%/*}"
	(
		flock -w 2 9 || {
			printf 'waiting for another run that is working on %s …\n' "$name" >&2
			flock 9
		}
		"$@"
	) 9>"$file" || status=$?
	return "$status"
}

# hp_cache_populate NAME COMMAND… - make the folder NAME in the cache, unless it is there already.
# COMMAND gets the folder to fill as its last argument. Prints nothing; the result is $(hp_cache_dir)/NAME.
hp_cache_populate() {
	local name=$1
	shift
	[ -d "$(hp_cache_dir)/$name" ] || hp_cache_locked "${name//\//-}" _hp_cache_fill "$name" "$@"
}

_hp_cache_fill() {
	local target temporary
	target=$(hp_cache_dir)/$1
	shift
	[ ! -d "$target" ] || return 0	# the run that had the lock made it
	mkdir -p "${target%/*}"
	temporary=$(mktemp -d "${target%/*}/.new.XXXXXX")
	chmod 755 "$temporary"
	if "$@" "$temporary"; then
		mv -T "$temporary" "$target"
	else
		rm -rf --one-file-system "$temporary"
		return 1
	fi
}

# hp_fresh FILE SECONDS - true when FILE was touched less than SECONDS ago
hp_fresh() {
	local touched
	touched=$(stat -c %Y "$1" 2>/dev/null) || return 1
	[ $(($(date +%s) - touched)) -lt "$2" ]
}
