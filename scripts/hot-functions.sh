#!/usr/bin/env bash
# Writes scripts/hot-functions.txt: what a rank of a demo job runs through, and what an MPI library does in the C library,
# for scripts/link-in-order.sh. Worth doing again when clients do other things than before, or with another compiler; the
# list is then part of the change.
#
# usage: hot-functions.sh MODEX LIBDIR   (the command as `make build` has made it, and where `make lib` has put the library)
set -euo pipefail

modex=$(readlink -f "$1")
libdir=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d "${TMPDIR:-/tmp}/modex-hot-XXXXXX")
trap 'rm -rf "$work"' EXIT

cc -I "$here/../include" "$here/hot-functions.c" -o "$work/client" -L "$libdir" -l:libpmix.so.2 -Wl,-rpath,"$libdir"
# shellcheck disable=SC2016 # the ranks' shells expand these
rank='exec valgrind --quiet --tool=callgrind --demangle=no --callgrind-out-file="$1/$2-$PMIX_RANK" "$3" ${4:-}'
"$modex" run -n 4 -- sh -c "$rank" rank "$work" demo "$modex" demo >/dev/null
"$modex" run -n 4 -- sh -c "$rank" rank "$work" client "$work/client"
# Both a function and one that is called are named once, where they first occur.
cat "$work"/demo-* "$work"/client-* | sed -nE 's/^c?fn=\([0-9]+\) ([A-Za-z_][^ ]*)$/\1/p' |
    sed -E "s/'[0-9]+$//; s/\.llvm\.[0-9]+//" | LC_ALL=C sort -u >"$work/list"
mv "$work/list" "$here/hot-functions.txt"
echo "$(wc -l <"$here/hot-functions.txt") functions in $here/hot-functions.txt"
