# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Debian packages a tool needs, installed only when missing. Needs progress.sh.

# hp_missing PACKAGE… - print those that are not installed
hp_missing() {
	local package
	for package in "$@"; do
		# The status of a removed package with its configuration left is "deinstall ok config-files".
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			printf '%s\n' "$package"
	done
}

# hp_need PACKAGE… - install what is missing; says what to do where it cannot
hp_need() {
	local missing
	mapfile -t missing < <(hp_missing "$@")
	[ "${#missing[@]}" -gt 0 ] || return 0
	if [ "$(id -u)" -ne 0 ]; then
		hp_say "missing packages; run as root: apt-get install ${missing[*]}"
		return 1
	fi
	hp_step "installing ${missing[*]}" _hp_install "${missing[@]}"
}

_hp_install() {
	# Lists may be absent (fresh machine) or name versions that the mirror has dropped: update only then.
	_hp_apt_get install "$@" || { _hp_apt_get update && _hp_apt_get install "$@"; }
}

_hp_apt_get() {
	local command=$1
	shift
	set -- -q -y "$command" "$@"
	[ "$command" != install ] || set -- --no-install-recommends "$@"
	DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 "$@"
}
