#!/usr/bin/env bash
# Searches with one fuzz target for so many seconds, starting from its committed corpus. New inputs are kept between runs in
# fuzz/found/TARGET, which is nobody's but this machine's.
# usage: fuzz.sh TARGET SECONDS
# A finding ends the search and stays in fuzz/artifacts/TARGET.
set -euo pipefail
usage="usage: make fuzz TARGET=registration SECONDS=3600; targets:"
cd "$(dirname "$0")/../fuzz"
targets=$(cd fuzz_targets && ls | sed 's/\.rs$//' | tr '\n' ' ')
target=${1:-}
seconds=${2:-}
[[ -n $target && -f fuzz_targets/$target.rs && $seconds =~ ^[0-9]+$ && $seconds -gt 0 ]] || { echo "$usage $targets" >&2; exit 2; }
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz --version 0.13.2
# Stable compilers refuse the sanitizer flags without this; it is set for the fuzz build alone.
export RUSTC_BOOTSTRAP=1
mkdir -p "found/$target" "corpus/$target"
options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1)
[[ ! -f dictionaries/$target.dict ]] || options+=(-dict="dictionaries/$target.dict")
cargo fuzz run --sanitizer=none "$target" "found/$target" "corpus/$target" -- "${options[@]}"
echo "fuzz target $target: no finding in $seconds seconds"
