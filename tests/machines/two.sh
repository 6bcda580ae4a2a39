#!/bin/bash
# Two machines as network namespaces with a cable between them, and munge.
# usage: unshare --pid --mount --net --uts --ipc --fork --kill-child --mount-proc two.sh
# The first machine is this namespace with the address 10.78.0.1. The second one is the namespace `second`, 10.78.0.2.
# Prints "ready", and ends with its input.
set -eu
trap 'kill $(jobs -p) 2>/dev/null' EXIT
mount -t tmpfs tmpfs /run
mkdir -p /run/netns /run/munge
ip netns add second
ip link add one type veth peer name two netns second
ip addr add 10.78.0.1/24 dev one
ip link set one up
ip link set lo up
ip -n second addr add 10.78.0.2/24 dev two
ip -n second link set two up
ip -n second link set lo up
head -c 128 /dev/urandom >/run/munge/key
chmod 600 /run/munge/key
chmod 755 /run/munge
munged --force --foreground --key-file=/run/munge/key --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/pid \
    --seed-file=/run/munge/seed --log-file=/run/munge/log 2>/dev/null &
until munge --no-input >/dev/null 2>&1; do sleep 0.05; done
echo ready
cat >/dev/null
