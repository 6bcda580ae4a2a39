#!/usr/bin/env bash
# Runs each fuzz target so many times, starting from its committed corpus, which is only read. Counts and a fixed seed
# make a run repeatable: for a search, give another seed and many runs.
# usage: [FUZZ_SEED=N] [SANITIZER=address] fuzz-smoke.sh RUNS TARGET...
# A finding fails the script and stays in fuzz/artifacts/TARGET.
set -euo pipefail
runs=$1
seed=${FUZZ_SEED:-1}
shift
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz --version 0.13.2
# Stable compilers refuse the sanitizer flags without this; it is set for the fuzz build alone.
export RUSTC_BOOTSTRAP=1
# cargo-fuzz compiles the library as one unit, with one thread. A short run gains more by all processors.
export RUSTFLAGS="${RUSTFLAGS-} -Ccodegen-units=16"
cd "$(dirname "$0")/../fuzz"
sanitizer=--sanitizer=${SANITIZER:-none}
cargo fuzz build "$sanitizer"

# The first directory receives what the fuzzer finds interesting; the others are read.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for target in "$@"; do
    mkdir "$scratch/$target"
    options=(-runs="$runs" -seed="$seed" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=0 -print_final_stats=0)
    [[ ! -f dictionaries/$target.dict ]] || options+=(-dict="dictionaries/$target.dict")
    cargo fuzz run "$sanitizer" "$target" "$scratch/$target" "corpus/$target" -- "${options[@]}"
    echo "fuzz target $target: no finding in $runs runs"
done
