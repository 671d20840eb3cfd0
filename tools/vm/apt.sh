# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Packages of other Debian suites without touching the machine's own apt: private lists and cache, the machine's own
# mirror and keyring.

# apt_machine_sources - the machine's Debian archives, one "SUITE URI [OPTIONS]" a line; both formats of sources lists
apt_machine_sources() {
	local file
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -f "$file" ] || continue
		# deb [options] URI SUITE COMPONENT…
		sed -nE 's/#.*//; s/[[:space:]]+/ /g; s/^deb (\[[^]]*\] )?([^ ]+) ([^ ]+) .*/\3 \2 \1/p' "$file"
	done
	for file in /etc/apt/sources.list.d/*.sources; do
		[ -f "$file" ] || continue
		awk '
			function flush(  u, s, i, j) {
				if (types ~ /(^| )deb( |$)/ && enabled !~ /^(no|false|0)$/)
					for (i = split(uris, u); i > 0; i--)
						for (j = split(suites, s); j > 0; j--)
							print s[j], u[i], (options == "" ? "" : "[" substr(options, 2) "]")
				types = uris = suites = options = enabled = ""
			}
			/^#/ { next }
			/^[ \t]*$/ { flush(); next }
			{
				value = $0; sub(/^[^:]*:[ \t]*/, "", value)
				field = tolower($1)
			}
			field == "types:"   { types = value }
			field == "uris:"    { uris = value }
			field == "suites:"  { suites = value }
			field == "enabled:" { enabled = tolower(value) }
			# A key written into the file itself (many lines) cannot be an option; the keyring stands in.
			field == "signed-by:" && value ~ /^\// { options = options " signed-by=" value }
			field == "trusted:"   { options = options " trusted=" value }
			END { flush() }' "$file"
	done
}

# apt_source_line SUITE - a sources.list line for SUITE from the mirror this machine uses
apt_source_line() {
	local suite=$1 codename wanted line uri options keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	# shellcheck disable=SC1091
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	case $suite in
	*-security) wanted="($codename|stable|oldstable)-security" ;;
	*)          wanted="($codename|stable|oldstable)" ;;
	esac
	# Other archives have suites of these names too; one called debian is preferred.
	line=$(apt_machine_sources | awk -v wanted="^$wanted/?$" '
		$1 ~ wanted { if (!first) first = $0; if (!debian && $2 ~ /debian/) debian = $0 }
		END { print debian ? debian : first }')
	if [ -z "$line" ]; then
		hp_say "no Debian archive for $suite in /etc/apt/sources.list or sources.list.d; add this machine's mirror there"
		return 1
	fi
	read -r _ uri options <<<"$line"
	if [ -z "$options" ] && [ -f "$keyring" ]; then
		options="[signed-by=$keyring]"
	fi
	printf 'deb %s %s %s main\n' "$options" "$uri" "$suite"
}

# apt_private NAME COMMAND ARG… - run apt-get or apt-cache on the private lists NAME
apt_private() {
	local folder command=$2
	folder=$(hp_cache_dir)/apt/$1
	shift 2
	"$command" -q \
		-o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$folder/state" -o Dir::State::Lists="$folder/lists" -o Dir::State::Status=/dev/null \
		-o Dir::Cache="$folder/cache" \
		-o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Sandbox::User=root \
		-o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# apt_update NAME SUITE… - make or refresh the private lists NAME
apt_update() {
	local name=$1 folder suite
	folder=$(hp_cache_dir)/apt/$1
	shift
	mkdir -p "$folder"/{state,lists/partial,cache/archives/partial} || return
	for suite in "$@"; do
		apt_source_line "$suite" || return
	done >"$folder/sources.list"
	# Without this option apt-get calls a failed download a success with warnings.
	apt_private "$name" apt-get -o APT::Update::Error-Mode=any update
}

# apt_network_options - the machine's proxy and checking settings, as options for another apt
apt_network_options() {
	apt-config dump | sed -nE 's/^(Acquire::(https?::Proxy|Check-[A-Za-z-]+)[^ ]* ".*";)$/\1/p'
}
