#!/bin/bash
# A Slurm cluster of a controller and three nodes on one machine, without systemd and without a trace outside.
# usage: unshare --pid --mount --net --uts --ipc --fork --kill-child --mount-proc cluster.sh DIRECTORY OURS SERVER PROGRAMS
#
#   DIRECTORY  an empty directory for all that the cluster writes; processes of the cluster find it as /mnt
#   OURS       the library under test, found as /mnt/ours/libpmix.so.2 (Debian's is /mnt/debian/libpmix.so.2)
#   SERVER     "ours" or "debian": which of the two Slurm's plug-in loads
#   PROGRAMS   a directory of programs, found as /mnt/programs
#
# The script is the first process of its process namespace: when it ends, all daemons and jobs end with it. It prints
# "ready" when the three nodes take jobs, and ends when its standard input does.
set -eu
directory=$1 ours=$2 server=$3 programs=$4
nodes="n1 n2 n3"
start_seconds_max=120
# The absolute path from which the plug-in loads its library.
plugin_library=$(readlink -f /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so)

fail() {
    echo "error: $*" >&2
    tail -n 20 /mnt/log/* >&2
    exit 1
}

wait_until() { # DESCRIPTION COMMAND...
    local what=$1 end=$((SECONDS + start_seconds_max))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "no $what within $start_seconds_max s"
        sleep 0.05
    done
}

# Ordinary users must reach programs and libraries, wherever those lie.
mkdir -p "$directory"/{log,state,munge,nodes,ours,debian,etc,programs,tmp}
chmod 755 "$directory"
cp "$plugin_library" "$directory/debian/libpmix.so.2"
cp "$ours" "$directory/ours/libpmix.so.2"
mount --bind "$directory" /mnt
mount --bind "$programs" /mnt/programs
mount --bind "/mnt/$server/libpmix.so.2" "$plugin_library"
# Open MPI names files after host, user and number of the job: those of another cluster have the same names.
chmod 1777 "$directory/tmp"
mount --bind /mnt/tmp /tmp
mount -t tmpfs tmpfs /dev/shm

# The names of the hosts, and Slurm's configuration, are this cluster's own.
# Slurm looks for names only where some address is not 127.0.0.1.
ip link set lo up
ip address add 10.77.0.1/24 dev lo
hostname head
printf "127.0.0.1 localhost\n10.77.0.1 head $nodes\n" >/mnt/hosts
mount --bind /mnt/hosts /etc/hosts
mount --bind /mnt/etc /etc/slurm

head -c 1024 /dev/urandom >/mnt/munge/key
chmod 400 /mnt/munge/key
cat >/etc/slurm/slurm.conf <<END
ClusterName=test
SlurmctldHost=head
SlurmUser=root
SlurmctldPort=6817
AuthType=auth/munge
AuthInfo=socket=/mnt/munge/socket
StateSaveLocation=/mnt/state
SlurmctldPidFile=/mnt/state/slurmctld.pid
SlurmdPidFile=/mnt/nodes/%n/slurmd.pid
SlurmdSpoolDir=/mnt/nodes/%n/spool
TmpFS=/mnt/nodes/%n/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
MpiDefault=pmix
SwitchType=switch/none
ReturnToService=2
KillWait=2
InactiveLimit=0
NodeName=n1 NodeAddr=10.77.0.1 Port=6821 CPUs=64
NodeName=n2 NodeAddr=10.77.0.1 Port=6822 CPUs=64
NodeName=n3 NodeAddr=10.77.0.1 Port=6823 CPUs=64
PartitionName=all Nodes=n1,n2,n3 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
END

munged --force --foreground --key-file=/mnt/munge/key --socket=/mnt/munge/socket --pid-file=/mnt/munge/pid \
    --seed-file=/mnt/munge/seed --log-file=/mnt/log/munged 2>/dev/null &
wait_until munged munge --no-input --socket=/mnt/munge/socket
slurmctld -D -f /etc/slurm/slurm.conf >/mnt/log/slurmctld 2>&1 &
for node in $nodes; do
    mkdir -p /mnt/nodes/$node/{spool,tmp}
    chmod 1777 /mnt/nodes/$node/tmp
    # A node is a host name and a configuration; processes and network are shared.
    unshare --uts sh -c "hostname $node && exec slurmd -D -f /etc/slurm/slurm.conf" >/mnt/log/slurmd.$node 2>&1 &
done
all_idle() { [ "$(sinfo --noheader --Node --format=%t | grep -cx idle)" = 3 ]; }
wait_until "idle nodes" all_idle
echo ready
cat >/dev/null
