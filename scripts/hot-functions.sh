#!/usr/bin/env bash
# Writes scripts/hot-functions.txt: what a rank of a demo job runs through, for scripts/link-in-order.sh. Worth doing again
# when clients do other things than before, or with another compiler; the list is then part of the change.
#
# usage: hot-functions.sh MODEX   (the command as `make build` has made it)
set -euo pipefail

modex=$(readlink -f "$1")
list=$(dirname "$(readlink -f "$0")")/hot-functions.txt
work=$(mktemp -d "${TMPDIR:-/tmp}/modex-hot-XXXXXX")
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2016 # the ranks' shells expand these
rank='exec valgrind --quiet --tool=callgrind --demangle=no --callgrind-out-file="$1/rank-$PMIX_RANK" "$2" demo'
"$modex" run -n 4 -- sh -c "$rank" rank "$work" "$modex" >/dev/null
# Both a function and one that is called are named once, where they first occur.
cat "$work"/rank-* | sed -nE 's/^c?fn=\([0-9]+\) ([A-Za-z_][^ ]*)$/\1/p' | sed -E "s/'[0-9]+$//; s/\.llvm\.[0-9]+//" |
    LC_ALL=C sort -u >"$work/list"
mv "$work/list" "$list"
echo "$(wc -l <"$list") functions in $list"
