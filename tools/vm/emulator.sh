# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Which QEMU runs the machines. Before 8.1 its emulation loses a race: a CPU that is inside an instruction which the kernel
# is rewriting (a static key, a tracepoint) may take the breakpoint written there for the time being after it has gone, and
# the kernel dies of "Oops: int3" anywhere at all. Where this machine's own is older, trixie's is unpacked in the cache.

_emulator_since=8.1
_emulator_suite=trixie
_emulator_name=qemu-system-x86_64

# emulator_path - have one; prints the program to start
emulator_path() {
	local folder
	if _emulator_own; then
		command -v "$_emulator_name"
		return
	fi
	folder=root/$_emulator_suite-qemu
	if [ ! -d "$(hp_cache_dir)/$folder" ]; then
		hp_need mmdebstrap || return
		hp_step "unpacking $_emulator_suite's QEMU" hp_cache_populate "$folder" _emulator_unpack >&2 || return
	fi
	printf '%s\n' "$(hp_cache_dir)/$folder/$_emulator_name"
}

_emulator_own() {
	local version
	version=$("$_emulator_name" --version 2>/dev/null | sed -nE '1s/.*version ([0-9.]+).*/\1/p')
	[ -n "$version" ] && printf '%s\n' "$_emulator_since" "$version" | sort -CV
}

# Unpacked, not installed: the loader of that suite starts it with that suite's libraries, from any place.
_emulator_unpack() {
	local folder=$1 options
	options=$(apt_network_options)
	mmdebstrap --variant=extract --include=qemu-system-x86 ${options:+--aptopt="$options"} \
		--aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
		--dpkgopt=path-exclude=/usr/share/{doc,man,locale,info}/'*' \
		"$_emulator_suite" "$folder" "$(apt_source_line "$_emulator_suite")" || return
	cat >"$folder/$_emulator_name" <<-'EOF' || return
		#!/bin/sh
		here=$(dirname "$(readlink -f "$0")")
		libraries=$here/usr/lib/x86_64-linux-gnu
		exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$here/usr/bin/${0##*/}" \
			-L "$here/usr/share/qemu" -L "$here/usr/share/seabios" "$@"
	EOF
	chmod +x "$folder/$_emulator_name"
	"$folder/$_emulator_name" --version
}
