#!/bin/sh
# A remote-start agent that starts "remote" daemons here, each believing itself on the host it was sent to: a name space
# of its own for the host name is all that orted asks for.
# usage: on-node.sh HOST COMMAND [ARGUMENT...]   (mpirun --mca plm_rsh_agent .../on-node.sh)
host=$1
shift
if [ "$(id -u)" = 0 ]; then
    private="unshare --uts"
else
    private="unshare --user --map-root-user --uts"
fi
# Like ssh, the agent hands the joined words to a shell.
exec $private sh -c 'hostname "$0" && exec sh -c "$1"' "$host" "$*"
