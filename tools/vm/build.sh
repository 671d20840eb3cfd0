# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Our modules for one kernel. Sources are copied to build/kmod/KERNEL/src first, laid out as in the tree, so that
# kernels never share objects; a build with the same sources, kernel and settings as the last one is skipped.

# What the kernel's build leaves beside the sources; neither copied nor deleted as "gone from the tree".
_build_products=(-name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*' -o -name modules.order
	-o -name Module.symvers -o -name '*.a')
_build_sources=(kmod tests/kselftest/module)

# kernel_build KERNEL OUTDIR
kernel_build() {
	local kernel=$1 output=$2
	[ -e "$root/kmod/Kbuild" ] || { hp_say "no module to build: kmod/Kbuild is not there"; return 1; }
	mkdir -p "$output"
	output=$(readlink -f "$output")
	hp_cache_locked "build-$(printf '%s' "$output" | cksum | cut -d' ' -f1)" _kernel_build "$kernel" "$output"
}

_kernel_build() {
	local kernel=$1 output=$2 headers release fingerprint
	headers=$(readlink -f "$(kernel_dir "$kernel")/headers")
	release=$(kernel_release "$kernel")
	fingerprint=$(_build_fingerprint "$release")
	if [ "$(cat "$output/.built" 2>/dev/null)" = "$fingerprint" ]; then
		return 0
	fi
	rm -f "$output/.built"
	# Objects of another patch level or with other warnings are of no use.
	if [ "$(cat "$output/.release" 2>/dev/null)" != "$release$(_build_settings)" ]; then
		rm -rf "$output/src"
		printf '%s' "$release$(_build_settings)" >"$output/.release"
	fi
	_build_stage "$output/src"
	_build_tools "$kernel" "$headers" || return
	hp_step "building the module for $release" _build_run "$kernel" "$headers" "$output" || return
	grep -v 'pahole version' "$output/build.log" | grep -E -A4 'warning:|WARNING:' >&2 || :
	_build_install "$output/src/kmod/hugepin.ko" "$output" || return
	rm -f "$output/hugepin_test.ko"
	if [ -e "$output/src/tests/kselftest/module/hugepin_test.ko" ]; then
		_build_install "$output/src/tests/kselftest/module/hugepin_test.ko" "$output" || return
	fi
	printf '%s\n' "$fingerprint" >"$output/.built"
}

_build_settings() { printf 'W=%s C=%s%s' "${HUGEPIN_W:-}" "${HUGEPIN_SPARSE:-}" "${HUGEPIN_COVER:+ cover}"; }

_build_list() {
	local directory
	for directory in "${_build_sources[@]}"; do
		[ ! -d "$1/$directory" ] || (cd "$1" && find "$directory" -type f ! \( "${_build_products[@]}" \))
	done | LC_ALL=C sort
}

_build_fingerprint() {
	{
		printf '%s %s\n' "$1" "$(_build_settings)"
		(cd "$root" && _build_list . | xargs -r -d '\n' sha256sum)
	} | sha256sum | cut -d' ' -f1
}

# _build_stage FOLDER - bring FOLDER up to date, touching only what differs, so that make rebuilds only that
_build_stage() {
	local folder=$1 file
	mkdir -p "$folder"
	while read -r file; do
		[ -e "$root/$file" ] || rm -f "$folder/$file"
	done < <(_build_list "$folder")
	while read -r file; do
		if ! cmp -s "$root/$file" "$folder/$file"; then
			mkdir -p "$folder/${file%/*}"
			cp "$root/$file" "$folder/$file"
			chmod u+w "$folder/$file"
		fi
	done < <(_build_list "$root")
}

_build_compiler() { grep -oE 'gcc-[0-9]+$' "$1/.kernelvariables"; }

# _build_tools KERNEL HEADERS - have the compiler the headers ask for, here or in a small root of another suite
_build_tools() {
	local suite compiler
	suite=$(kernel_build_suite "$1")
	compiler=$(_build_compiler "$2")
	if [ -z "$suite" ]; then
		hp_need make "$compiler" libelf1 ${HUGEPIN_SPARSE:+sparse}
	elif [ ! -d "$(hp_cache_dir)/root/$suite-$compiler" ]; then
		hp_need mmdebstrap || return
		hp_step "making a small $suite root for $compiler" \
			hp_cache_populate "root/$suite-$compiler" _build_root "$suite" "$compiler"
	fi
}

_build_root() {
	local suite=$1 compiler=$2 folder=$3 options
	options=$(apt_network_options)
	mmdebstrap --variant=apt --include="make,$compiler,libelf-dev,sparse" ${options:+--aptopt="$options"} \
		--aptopt='Acquire::Languages "none"' --dpkgopt=path-exclude=/usr/share/{doc,man,locale,info}/'*' \
		"$suite" "$folder" "$(apt_source_line "$suite")"
}

# _build_run KERNEL HEADERS OUTPUT - compile both modules; the output is kept in OUTPUT/build.log too
_build_run() {
	local suite sources=$3/src
	suite=$(kernel_build_suite "$1")
	{
		_build_make "$suite" "$2" "$sources" "$sources/kmod" &&
		if [ -d "$sources/tests/kselftest/module" ]; then
			_build_make "$suite" "$2" "$sources" "$sources/tests/kselftest/module" \
				KBUILD_EXTRA_SYMBOLS="$sources/kmod/Module.symvers"
		fi
	} >"$3/build.log" 2>&1 || { cat "$3/build.log"; return 1; }
}

# _build_make SUITE HEADERS SOURCES MODULE [VARIABLE…]
_build_make() {
	local suite=$1 headers=$2 sources=$3 module=$4 command
	shift 4
	command=(make -s -C "$headers" M="$module" -j"$(nproc)" "$@" modules)
	[ -z "${HUGEPIN_W:-}" ] || command+=("W=$HUGEPIN_W")
	[ -z "${HUGEPIN_SPARSE:-}" ] || command+=(C=1)
	[ -z "${HUGEPIN_COVER:-}" ] || command+=(HUGEPIN_COVER=1)
	if [ -z "$suite" ]; then
		"${command[@]}"
	else
		_build_chroot "$(hp_cache_dir)/root/$suite-$(_build_compiler "$headers")" "$sources" "${command[@]}"
	fi
}

# _build_chroot ROOT SOURCES COMMAND… - run COMMAND in ROOT, which sees the kernels and SOURCES at the same paths.
# The mounts are in a namespace of their own: they end with the command, however it ends.
_build_chroot() {
	local folder=$1 options=(--mount)
	shift
	[ "$(id -u)" -eq 0 ] || options+=(--map-root-user)
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare "${options[@]}" /bin/sh -euc '
		folder=$1 sources=$2 kernels=$3
		shift 3
		for path in "$sources" "$kernels"; do
			mkdir -p "$folder$path"
			mount --bind "$path" "$folder$path"
		done
		# objtool reads limits from proc
		for path in /dev /proc; do
			mount --rbind "$path" "$folder$path"
		done
		exec chroot "$folder" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C "$@"
	' sh "$folder" "$1" "$(hp_cache_dir)/kernel" "${@:2}"
}

# Debug information is most of a module; the copy with it stays in src/.
_build_install() {
	strip --strip-debug -o "$2/.new.ko" "$1" && mv "$2/.new.ko" "$2/${1##*/}"
}
