# SPDX-License-Identifier: MIT
# Completion of hugepinctl(1) for bash. Nodes come from the program itself: nothing is offered that is not there.

# The nodes and classes that hugepinctl status knows, as NODE:CLASS:
_hugepinctl_specs()
{
	hugepinctl status 2>/dev/null | awk '$1 ~ /^[0-9]+$/ && $2 ~ /^(1G|2M)$/ { print $1 ":" $2 ":" }'
}

_hugepinctl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		words='status reserve release run config help --version --help'
	else
		case $command in
		status) words='--json --help' ;;
		reserve) words='--dry-run --partial --wait --json --help' ;;
		release) words='--dry-run --all --json --help' ;;
		config) words='--json --file --help get check' ;;
		help) words='status reserve release run config' ;;
		*) return ;;
		esac
		# A colon begins a new word in bash: behind one there is a class or a count, which nobody can guess.
		if [[ $command == re* && $cur != -* ]]; then
			[[ $cur != : && ${COMP_WORDS[COMP_CWORD - 1]} != : ]] || return
			words=$(_hugepinctl_specs)
			compopt -o nospace 2>/dev/null
		fi
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _hugepinctl hugepinctl
