#!/usr/bin/env bash
# What clients of Debian's OpenPMIx gain or lose when the server's library alone is exchanged: pmixbench (tests/peer) with
#   stock  OpenPMIx in the server, its default store
#   hash   OpenPMIx in the server, PMIX_MCA_gds=hash: job information comes over the socket, as from ours
#   modex  our library in the server
# and the system's library in all clients. Prints medians over rounds and the median of paired ratios to "stock".
#   scripts/compare-server.sh [-n ROUNDS] [-r RANKS] [-d DIRECTORY of our libpmix.so.2; without it `make lib`]
# "job.last_byte" is the time from the start of PMIx_Init until the last byte of the server's answers reached the client
# ("delivered"); "client.init" is all of PMIx_Init. Under the store of "stock" a client maps the information instead.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
rounds=5 ranks=100k directory=
while getopts n:r:d: option; do
    case $option in
    n) rounds=$OPTARG ;;
    r) ranks=$OPTARG ;;
    d) directory=$(cd "$OPTARG" && pwd) ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
target=${CARGO_TARGET_DIR:-$repository/target}
if [ -z "$directory" ]; then
    make -C "$repository" lib >&2
    directory=$target/release
fi
[ -e "$directory/libpmix.so.2" ] || { echo "error: no libpmix.so.2 in $directory" >&2; exit 2; }

work=$target/compare-server
mkdir -p "$work"
peer=$repository/tests/peer
# shellcheck disable=SC2046
cc -std=gnu11 -O2 -g -pthread -rdynamic -Wall -Wextra -I"$peer" $(pkg-config --cflags pmix) \
    "$peer"/main.c "$peer"/server.c "$peer"/client.c "$peer"/util.c \
    "$repository"/tests/interop/client_library.c "$repository"/tests/interop/arrival.c -o "$work/pmixbench" \
    -Wl,--wrap=posix_spawn -Wl,--wrap=PMIx_Init $(pkg-config --libs-only-L pmix) -lpmix -lm -ldl

rows='^#|^measurement|^FAILED|^client\.init |^job\.|^server\.init |^server\.register_nspace |^commit|^fence\.'
compare() {
    echo
    echo "== $1 ($rounds rounds)"
    shift
    "$peer/compare.sh" -n "$rounds" -b "$work/pmixbench" stock= hash=,PMIX_MCA_gds=hash "modex=$directory" -- "$@" |
        grep -E "$rows"
}
unset CLIENT_LIBRARY
compare "2 and 8 clients" --scenario=fence --no-topology
compare "2 and 8 clients, topology shared by the server" --scenario=fence
compare "2 clients of a job of $ranks ranks" --scenario=scale --ranks="$ranks" --no-topology
