#!/usr/bin/env bash
# Runs each fuzz target for some seconds, starting from its committed corpus.
# usage: fuzz-smoke.sh SECONDS TARGET...
set -euo pipefail
seconds=$1
shift
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz --version 0.13.2
# Stable compilers refuse the sanitizer flags without this; it is set for the fuzz build alone.
export RUSTC_BOOTSTRAP=1
cd "$(dirname "$0")/../fuzz"
cargo fuzz build --sanitizer=none
for target in "$@"; do
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    cargo fuzz run --sanitizer=none "$target" "$scratch" "corpus/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -max_len=65536 -verbosity=0 -print_final_stats=0
    rm -rf "$scratch"
    echo "fuzz target $target: no finding in $seconds s"
done
