#!/usr/bin/env bash
# Writes scripts/hot-functions.txt for scripts/link-in-order.sh: the functions that a rank of a demo job runs through, those that an MPI
# library calls in the C library, and those that a resource manager calls there. Worth doing again when one of them does other things
# than before, or with another compiler; the list is then part of the change.
#
# usage: hot-functions.sh MODEX LIBDIR   (the command as `make build` has made it, and where `make lib` has put the library)
set -euo pipefail

modex=$(readlink -f "$1")
libdir=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d "${TMPDIR:-/tmp}/modex-hot-XXXXXX")
trap 'rm -rf "$work"' EXIT

traced() {
    echo "valgrind --quiet --tool=callgrind --demangle=no --callgrind-out-file=$work/$1"
}

cc -I "$here/../libpmix/include" "$here/hot-functions.c" -o "$work/hot" -L "$libdir" -l:libpmix.so.2 -Wl,-rpath,"$libdir"
printf '#!/bin/sh\nexec %s-$PMIX_RANK %s\n' "$(traced client)" "$work/hot" >"$work/client"
chmod +x "$work/client"
# shellcheck disable=SC2046 # a command and its options
"$modex" run -n 4 -- sh -c "exec $(traced demo)-\$PMIX_RANK $modex demo" >/dev/null
"$work/hot" "$work/client" "$work"
# The server's life in parts, which lie next to each other: until the registration of a job, that, its processes, and the rest.
# shellcheck disable=SC2046
$(traced host) --dump-before=PMIx_server_register_nspace --dump-before=PMIx_server_register_client "$work/hot" "$work/hot" "$work"

# Both a function and one that is called are named once, where they first occur.
functions() {
    cat "$@" | sed -nE 's/^c?fn=\([0-9]+\) ([A-Za-z_][^ ]*)$/\1/p' | sed -E "s/'[0-9]+$//; s/\.llvm\.[0-9]+//" | LC_ALL=C sort -u
}
touch "$work/list"
append() {
    { grep -vxFf "$work/list" || true; } >"$work/more"
    cat "$work/more" >>"$work/list"
}
# What clients and servers share lies between what each has for itself.
functions "$work"/demo-* "$work"/client-* >"$work/clients"
functions "$work"/host* >"$work/servers"
LC_ALL=C comm -23 "$work/clients" "$work/servers" | append
LC_ALL=C comm -12 "$work/clients" "$work/servers" | append
for part in "$work"/host.* "$work/host"; do
    functions "$part" | append
done
mv "$work/list" "$here/hot-functions.txt"
echo "$(wc -l <"$here/hot-functions.txt") functions in $here/hot-functions.txt"
