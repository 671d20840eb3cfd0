# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The debug kernel: none of Debian's has KASAN or lockdep, so this one is compiled, once, from Debian's newest source of
# that series with tinyconfig and debug.config. It lies in the cache as the others do (fetch.sh):
#
#   kernel/VERSION-debug-KEY/vmlinux   (image points to it: QEMU needs no other)
#   kernel/VERSION-debug-KEY/modules   lists only, for --modprobe: everything is built in
#   kernel/VERSION-debug-KEY/headers   what modules are built against; the rest of the tree, 2 GB, is not kept
#
# KEY is made of the source's full version, debug.config and the compiler, so a change of one makes another kernel.

_debug_gib=4	# free disk space that compiling takes, for a while

kernel_is_debug() { [[ $1 == *-debug ]]; }

# debug_fetch KERNEL - with fresh package lists: have the newest in the cache; prints its release
debug_fetch() {
	local kernel=$1 version package release
	read -r version package <<<"$(_debug_source "$kernel")"
	if [ -z "$package" ]; then
		hp_say "no linux-source-${kernel%-debug}.x in: $(kernel_suites "$kernel")"
		return 1
	fi
	hp_need gcc || return
	release=${version%%-*}-debug-$({ echo "$version $(_debug_compiler)"; cat "$here/debug.config"; } |
		sha256sum | head -c 8)
	if [ ! -d "$(kernel_dir "$release")" ]; then
		hp_need make "$(_debug_compiler)" libc6-dev binutils bc bison flex libelf-dev perl xz-utils || return
		_debug_room || return
	fi
	hp_cache_populate "kernel/$release" _debug_build "$kernel" "$package=$version" "$release" >&2 || return
	printf '%s\n' "$release"
}

# _debug_source KERNEL - "VERSION PACKAGE" of the newest source
_debug_source() {
	local names
	mapfile -t names < <(apt_private "$1" apt-cache search --names-only "^linux-source-${1%-debug}\\.[0-9]+\$" |
		cut -d' ' -f1)
	[ "${#names[@]}" -eq 0 ] || apt_private "$1" apt-cache show "${names[@]}" |
		awk '/^Package:/ { package = $2 } /^Version:/ { print $2, package }' | sort -rV | sed -n 1p
}

# The machine's own, by its full name: modules must be compiled by the same one.
_debug_compiler() { printf 'gcc-%s\n' "$(gcc -dumpversion | cut -d. -f1)"; }

_debug_room() {
	local kib
	kib=$(df --output=avail -k "$(hp_cache_dir)" | tail -n 1)
	[ "$kib" -ge $((_debug_gib << 20)) ] || {
		hp_say "compiling a kernel takes $_debug_gib GiB for a while; $(hp_cache_dir) has $((kib >> 20)) GiB free"
		return 1
	}
}

# _debug_build KERNEL PACKAGE=VERSION RELEASE FOLDER - a subshell, so that the tree goes however this ends
_debug_build() (
	kernel=$1 package=$2 release=$3 folder=$4 tree=$4/tree
	trap 'rm -rf "$tree"' EXIT
	mkdir "$tree" || exit
	hp_step "fetching ${package%%=*}" _debug_unpack "$kernel" "$package" "$tree" || exit
	printf 'CC = %s\n' "$(_debug_compiler)" >"$tree/.kernelvariables" || exit
	hp_step "configuring $release" _debug_configure "$tree" "$release" || exit
	_debug_compile "$tree" "$release" || exit
	hp_step "keeping what is needed of $release" _debug_keep "$tree" "$release" "$folder"
)

# Documentation goes, but for the file that the top Kconfig reads.
_debug_unpack() {
	local kernel=$1 package=$2 tree=$3
	(cd "$tree" && apt_private "$kernel" apt-get download "$package") || return
	dpkg-deb --fsys-tarfile "$tree"/*.deb | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		tar -xJ -C "$tree" --strip-components=1 --wildcards --exclude='*/Documentation/*/*' || return
	rm "$tree"/*.deb
}

_debug_make() {
	nice -n 19 make -C "$1" -j"$(nproc)" KBUILD_BUILD_USER=hugepin KBUILD_BUILD_HOST=hugepin \
		KBUILD_BUILD_TIMESTAMP=@0 "${@:2}"
}

_debug_configure() {
	local tree=$1 release=$2 version wrong
	version=$(_debug_make "$tree" -s kernelversion) || return
	if [ "${release#"$version"-}" = "$release" ]; then
		echo "the source calls itself $version, not ${release%%-*}"
		return 1
	fi
	_debug_make "$tree" -s tinyconfig || return
	{
		cat "$here/debug.config"
		printf 'CONFIG_LOCALVERSION="%s"\n# CONFIG_LOCALVERSION_AUTO is not set\n' "${release#"$version"}"
	} >>"$tree/.config" || return
	# It warns of every line that tinyconfig has already set otherwise.
	{ _debug_make "$tree" -s olddefconfig 2>&1 || return; } | sed '/warning: override: /d'
	[ "${PIPESTATUS[0]}" -eq 0 ] || return
	wrong=$(_debug_unmet "$tree/.config")
	[ -z "$wrong" ] || {
		printf 'this source does not take these lines of debug.config:\n%s\n' "$wrong"
		return 1
	}
}

# _debug_unmet CONFIG - lines of debug.config that do not hold; what is "not set" may also not be there at all
_debug_unmet() {
	awk '
		!/^CONFIG_|^# CONFIG_.* is not set$/ { next }
		{ name = $1 == "#" ? $2 : $1; sub(/=.*/, "", name) }
		NR == FNR { have[name] = $0; next }
		$1 == "#" ? have[name] ~ /=/ : have[name] != $0 { print }' "$1" "$here/debug.config"
}

# Takes ten minutes on two idle CPUs: says how far it is, on a terminal all the time, elsewhere once a minute.
_debug_compile() {
	local tree=$1 log=$1/build.log watcher status=0 start=$SECONDS
	hp_say "compiling $2, once; takes about ten minutes on two CPUs …"
	: >"$log"
	_debug_watch "$log" &
	watcher=$!
	_debug_make "$tree" vmlinux modules >"$log" 2>&1 </dev/null || status=$?
	kill "$watcher" 2>/dev/null || :
	wait "$watcher" 2>/dev/null || :
	if [ -t 2 ]; then
		printf '\r\033[K' >&2
	fi
	if [ "$status" -ne 0 ]; then
		hp_say "compiling $2: failed (status $status):"
		tail -n 40 "$log" >&2
		return "$status"
	fi
	hp_say "compiling $2: done, $((SECONDS - start)) s"
}

_debug_watch() {
	local log=$1 idle ticks=0
	trap 'exit 0' TERM
	exec {idle}<> <(:)	# reading it sleeps without a child process (see progress.sh)
	while :; do
		read -rt 5 -u "$idle" || :
		ticks=$((ticks + 1))
		if [ -t 2 ]; then
			printf '\r  %s\033[K' "$(_debug_progress "$log" $((ticks * 5)))" >&2
		elif [ $((ticks % 12)) -eq 0 ]; then
			hp_say "  $(_debug_progress "$log" $((ticks * 5)))"
		fi
	done
}

_debug_progress() {
	awk -v seconds="$2" '$1 == "CC" || $1 == "AS" { count++; last = $NF }
		END { printf "%d min %02d s: %d files, %s", seconds / 60, seconds % 60, count, last }' "$1"
}

_debug_keep() {
	local tree=$1 release=$2 folder=$3 lists=$3/lib/modules/$2
	# shellcheck disable=SC2016 # expanded by make
	_debug_make "$tree" -s run-command \
		KBUILD_RUN_COMMAND='$(srctree)/scripts/package/install-extmod-build '"$folder/headers" || return
	cp "$tree"/{.config,.kernelvariables} "$folder/headers" || return
	[ "$(cat "$folder/headers/include/config/kernel.release")" = "$release" ] || {
		echo "the kernel calls itself $(cat "$folder/headers/include/config/kernel.release")"
		return 1
	}
	strip -s -o "$folder/vmlinux" "$tree/vmlinux" || return
	ln -s vmlinux "$folder/image" || return

	mkdir -p "$lists" || return
	ln -s "lib/modules/$release" "$folder/modules" || return
	cp "$tree"/modules.{builtin,builtin.modinfo,order} "$lists" || return
	depmod -b "$folder" "$release"
}
