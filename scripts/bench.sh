#!/usr/bin/env bash
# Measures this machine with `modex bench`, and beside it what the machine allows at best.
# usage: bench.sh [OUTPUT_DIR]   (also writes the figures there as JSON and SVG)
# The limits are measured by a C program of another project, if it is there: MODEX_LIMITS_C, or ../shared/peer/limits.c.
set -euo pipefail
cd "$(dirname "$0")/.."
modex=${CARGO_TARGET_DIR:-target}/release/modex
limits_source=${MODEX_LIMITS_C:-../shared/peer/limits.c}
output=${1:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[ -z "$output" ] || mkdir -p "$output"

limits() {
    [ -f "$limits_source" ] || return 0
    [ -x "$scratch/limits" ] || cc -O2 -o "$scratch/limits" "$limits_source" -pthread
    echo "== limits of this machine $1"
    # One JSON line for each figure: name, median and unit are enough beside ours.
    "$scratch/limits" "$scratch" | grep -E "$2" |
        sed -E 's/.*"name":"([^"]*)".*"p50":([^,]*).*"unit":"([^"]*)".*/\1 \2 \3/' | while read -r name p50 unit; do
        printf '%-42s %12s %s\n' "$name" "$p50" "$unit"
    done
}

limits "before" "clock|syscall|hash_probe|roundtrip|spawn|fork_exit|map_touch1.memfd"
for scenario in get put fence init register launch; do
    echo "== modex bench $scenario"
    if [ -n "$output" ]; then
        "$modex" bench "$scenario" --json --plot "$output/$scenario.svg" >"$output/$scenario.json"
        echo "in $output/$scenario.json and $output/$scenario.svg"
    else
        "$modex" bench "$scenario"
    fi
done
limits "after" "hash_probe.L1"
