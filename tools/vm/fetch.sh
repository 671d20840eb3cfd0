# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Kernels in the cache: kernel/RELEASE holds what the packages contain, kernel/KERNEL points at the release in use.
#
#   kernel/RELEASE/image     the bootable image
#   kernel/RELEASE/vmlinux   the same unpacked: QEMU starts it directly, which saves a fifth of the boot
#   kernel/RELEASE/modules   its modules (with modules.dep)
#   kernel/RELEASE/headers   what M= builds are made against (absolute paths inside rewritten to here)

kernel_dir() { printf '%s/kernel/%s\n' "$(hp_cache_dir)" "$1"; }

kernel_release() {
	local target
	target=$(readlink "$(kernel_dir "$1")") && printf '%s\n' "${target##*/}"
}

kernel_flavour() {
	case $1 in
	*-full) echo amd64 ;;
	*)      echo cloud-amd64 ;;
	esac
}

# kernel_fetch KERNEL - have it in the cache; asks for a newer version when that was last done a day ago
kernel_fetch() {
	if _kernel_is_current "$1"; then
		return 0
	fi
	hp_need kmod zstd lz4 || return
	hp_cache_locked "kernel-$1" _kernel_refresh "$1"
}

_kernel_is_current() {
	local directory
	directory=$(kernel_dir "$1")
	[ -e "$directory/image" ] && hp_fresh "$directory.checked" 86400 || return 1
	! kernel_is_debug "$1" || [ "$directory.checked" -nt "$here/debug.config" ]
}

_kernel_refresh() {
	local kernel=$1 directory suites release
	directory=$(kernel_dir "$kernel")
	if _kernel_is_current "$kernel"; then
		return 0	# the run that had the lock did it
	fi
	read -ra suites <<<"$(kernel_suites "$kernel")"
	mkdir -p "${directory%/*}"
	if ! hp_step "asking for the newest $kernel kernel" apt_update "$kernel" "${suites[@]}"; then
		[ -e "$directory/image" ] || return 1
		hp_say "using the $kernel kernel of the cache: $(kernel_release "$kernel")"
		touch "$directory.checked"
		return 0
	fi
	if kernel_is_debug "$kernel"; then
		release=$(debug_fetch "$kernel") || return
	else
		release=$(_kernel_newest "$kernel") || return
		hp_step "fetching kernel $release" \
			hp_cache_populate "kernel/$release" _kernel_unpack "$kernel" "$release" || return
	fi
	ln -sfnT "$release" "$directory"
	touch "$directory.checked"
	_kernel_prune
}

# Releases that no kernel name points at any more; not at once, since a build may still be using one. And what a killed
# run left half-made.
_kernel_prune() {
	local release
	find "$(hp_cache_dir)/kernel" -maxdepth 1 -name '.new.*' -mtime +1 -exec rm -rf --one-file-system {} +
	for release in "$(hp_cache_dir)"/kernel/*/; do
		release=${release%/}
		[ ! -L "$release" ] || continue
		[ -n "$(find "$release" -maxdepth 0 -mtime +7)" ] || continue
		[ -n "$(find "${release%/*}" -maxdepth 1 -lname "${release##*/}")" ] || rm -rf --one-file-system "$release"
	done
}

# _kernel_newest KERNEL - the newest release that has both an image and headers
_kernel_newest() {
	local kernel=$1 version pattern names release
	version=${kernel%-full}
	# 6.1.0-57-cloud-amd64, 6.12.117+deb12-cloud-amd64; never rt-amd64 for amd64
	pattern="^linux-headers-${version//./\\.}\\.[0-9][0-9a-z.+]*(-[0-9]+)?-$(kernel_flavour "$kernel")\$"
	mapfile -t names < <(apt_private "$kernel" apt-cache search --names-only "$pattern" | cut -d' ' -f1)
	while read -r _ release; do
		if apt_private "$kernel" apt-cache show "linux-image-$release" >/dev/null 2>&1; then
			printf '%s\n' "$release"
			return 0
		fi
	done < <([ "${#names[@]}" -eq 0 ] || apt_private "$kernel" apt-cache show "${names[@]}" |
		awk '/^Package:/ { sub("linux-headers-", "", $2); release = $2 } /^Version:/ { print $2, release }' |
		sort -rV)
	hp_say "no $kernel kernel with headers in: $(kernel_suites "$kernel")"
	return 1
}

# _kernel_unpack KERNEL RELEASE FOLDER - download and unpack; FOLDER is renamed to kernel/RELEASE afterwards
_kernel_unpack() {
	local kernel=$1 release=$2 folder=$3 debs package packages image
	# The release's own packages and what they need from the same source; 7.x splits the image into several.
	mapfile -t packages < <(apt_private "$kernel" apt-cache depends --recurse --no-recommends --no-suggests \
		--no-conflicts --no-breaks --no-replaces --no-enhances "linux-image-$release" "linux-headers-$release" |
		grep -E '^linux-(image|binary|base|modules|headers|kbuild)-[0-9]' | grep -v -- '-unsigned' | sort -u)
	[ "${#packages[@]}" -gt 0 ] || return
	debs=$(mktemp -d "$folder/.debs.XXXXXX") || return
	(cd "$debs" && apt_private "$kernel" apt-get download "${packages[@]}") || return
	for package in "$debs"/*.deb; do
		dpkg -x "$package" "$folder" || return
	done
	rm -rf "$debs"

	# Where the merged /usr is spelled out (7.x), older tools still look in lib.
	[ -e "$folder/lib" ] || ln -s usr/lib "$folder/lib"
	ln -s "lib/modules/$release" "$folder/modules"
	ln -s "usr/src/linux-headers-$release" "$folder/headers"
	for image in "boot/vmlinuz-$release" "lib/modules/$release/vmlinuz"; do
		if [ -e "$folder/$image" ]; then
			ln -sfn "$image" "$folder/image"
		fi
	done
	[ -e "$folder/image" ] || { echo "no image in: ${packages[*]}"; return 1; }
	_kernel_uncompress "$folder/image" "$folder/vmlinux"
	depmod -b "$folder" "$release" || return

	# The headers name each other by absolute path. The vmlinux beside them is for type information of modules (BTF),
	# which would need pahole and which nothing here uses.
	sed -i "s|/usr/src/linux-|$(kernel_dir "$release")/usr/src/linux-|g" "$folder/headers/Makefile" || return
	rm -f "$folder/headers/vmlinux"
	chmod -R u+w "$folder"
}

# _kernel_uncompress IMAGE OUT - what is packed inside a bzImage; no OUT where it is packed in a way not known here
_kernel_uncompress() {
	local image=$1 out=$2 at
	# The magic numbers of zstd and of lz4's old format can occur by chance too: the one that yields an ELF file is it.
	while read -r at; do
		tail -c "+$((at + 1))" "$image" | zstd -dcq >"$out" 2>/dev/null || :
		[ "$(head -c 4 "$out" | tail -c 3)" != ELF ] || return 0
	done < <(LC_ALL=C grep -aobP '\x28\xb5\x2f\xfd' "$image" | cut -d: -f1)
	while read -r at; do
		tail -c "+$((at + 1))" "$image" | lz4 -dcq >"$out" 2>/dev/null || :
		[ "$(head -c 4 "$out" | tail -c 3)" != ELF ] || return 0
	done < <(LC_ALL=C grep -aobP '\x02\x21\x4c\x18' "$image" | cut -d: -f1)
	rm -f "$out"
}
