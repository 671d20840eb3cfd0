#!/bin/bash
# SPDX-License-Identifier: MIT
# Debian's Slurm on one machine with our prolog and epilog: a job gets a mount of its own and gives it back, also when killed.
# Runs inside, as root, with the module loaded. TAP on standard output.
set -u

passed=0 failed=0
out=$(mktemp)
check() { # DESCRIPTION COMMAND…
	local what=$1
	shift
	if "$@" >"$out" 2>&1; then
		passed=$((passed + 1))
		echo "ok $((passed + failed)) - $what"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $((passed + failed)) - $what"
	sed 's/^/# /' "$out"
}
says() { # PATTERN COMMAND…: succeeds and prints it
	local pattern=$1 said
	shift
	said=$("$@" 2>&1) && printf '%s\n' "$said" && printf '%s\n' "$said" | grep -Eq -- "$pattern"
}
refused() { # PATTERN COMMAND…: fails and prints it
	local pattern=$1 said
	shift
	! said=$("$@" 2>&1) && printf '%s\n' "$said" && printf '%s\n' "$said" | grep -Eq -- "$pattern"
}
within() { # SECONDS COMMAND…
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.2
	done
}
as() { runuser -u "$1" -- "${@:2}"; }
job() { as alice srun --quiet --time=5 "$@"; }
free() { cat /sys/class/misc/hugepin/node*/hugepages-2048kB/free_hugepages | awk '{ n += $1 } END { print n }'; }
all_free() { [ "$(free)" = "$whole" ]; }
no_mounts() { ! grep -q hugepin-jobs /proc/mounts && [ -z "$(ls /run/hugepin-jobs)" ]; }
running() { squeue -h -o %T | grep -q RUNNING; }
idle() { [ -z "$(squeue -h)" ] && sinfo -h -o %T | grep -q idle; }

modprobe hugepin reserve='*:2M:32'
whole=$(free)
# Slurm resolves names only where there is an address beyond the loopback's own.
ip address add 10.0.0.1/32 dev lo
printf '127.0.0.1 localhost\n10.0.0.1 %s\n' "$(hostname)" >/etc/hosts
install -d -o munge -g munge -m 755 /run/munge
[ -s /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 && chown munge: /etc/munge/munge.key && chmod 400 /etc/munge/munge.key; } 2>/dev/null
runuser -u munge -- munged
install -d -o slurm -g slurm /var/lib/slurm/slurmctld /var/log/slurm
install -d /var/lib/slurm/slurmd /etc/slurm
cat >/etc/slurm/slurm.conf <<-END
	ClusterName=test
	SlurmctldHost=$(hostname)
	SlurmUser=slurm
	StateSaveLocation=/var/lib/slurm/slurmctld
	SlurmdSpoolDir=/var/lib/slurm/slurmd
	SlurmctldLogFile=/var/log/slurm/slurmctld.log
	SlurmdLogFile=/var/log/slurm/slurmd.log
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SchedulerType=sched/builtin
	ReturnToService=2
	KillWait=1
	Prolog=/usr/share/hugepin/slurm/prolog
	TaskProlog=/usr/share/hugepin/slurm/task_prolog
	Epilog=/usr/share/hugepin/slurm/epilog
	PrologFlags=Alloc
	NodeName=$(hostname) CPUs=$(nproc) State=UNKNOWN
	PartitionName=main Nodes=ALL Default=YES State=UP
END
echo IgnoreSystemd=yes >/etc/slurm/cgroup.conf
slurmctld
slurmd
check 'the node is idle' within 60 idle

# shellcheck disable=SC2016 # expanded in the job
check 'a job has a mount of its own' says '^/run/hugepin-jobs/[0-9]+$' job --comment=hugepin:2m=16 sh -c 'stat -f -c %T "$HUGEPIN_MOUNT" >/dev/null && echo $HUGEPIN_MOUNT'
check '… gone when the job has ended' within 30 no_mounts
check 'what it asked for can be had' says 'took 16777216' job --comment=hugepin:2m=16 /tenant take table 16
check 'a name it leaves goes with it' within 30 no_mounts
check '… and so does its memory' within 30 all_free
check 'more than it asked for is refused' refused 'may hold 16' job --comment=hugepin:2m=16 /tenant take table 34
within 30 idle
# shellcheck disable=SC2016 # expanded in the job
check 'a wrong comment costs the job its mount, not the node' says '^none$' job --comment=hugepin:2m=lots sh -c 'echo ${HUGEPIN_MOUNT:-none}'
check '… which is idle again' within 30 idle

as alice sbatch --quiet --time=5 --comment=hugepin:2m=32 --output=/dev/null --wrap='/tenant take table 60 600' >/dev/null
# shellcheck disable=SC2016 # expanded by each try
check 'a job holds its memory' within 60 sh -c '[ "$(cat /sys/class/misc/hugepin/node*/hugepages-2048kB/inuse_hugepages | awk "{ n += \$1 } END { print n }")" = 30 ]'
scancel --signal=KILL --full --user=alice
check 'killed, it has given back its mount' within 60 no_mounts
check '… and its memory' within 30 all_free
check 'the node is idle' within 30 idle

pkill slurmd
pkill slurmctld
pkill munged
[ $failed -eq 0 ] || tail -n 30 /var/log/slurm/*.log
modprobe -r hugepin
echo "$passed passed, $failed failed, 0 skipped"
