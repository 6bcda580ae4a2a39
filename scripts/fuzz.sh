#!/usr/bin/env bash
# Work with one fuzz target.
#
# usage: fuzz.sh search TARGET SECONDS   search from the committed corpus; new inputs stay in fuzz/found/TARGET
#        fuzz.sh repro TARGET FILE       run one input again
#        fuzz.sh min TARGET FILE         find a shorter input with the same failure
#        fuzz.sh cov TARGET              lines of the library that the corpus reaches
#        fuzz.sh describe FILE           print the job that an input of the target `registration` describes
#
# A finding fails the script and stays in fuzz/artifacts/TARGET. SANITIZER=address looks for wrong memory accesses, too.
set -euo pipefail
usage() {
    echo "usage: make fuzz TARGET=NAME SECONDS=N, make fuzz-repro|fuzz-min TARGET=NAME INPUT=FILE, make fuzz-cov TARGET=NAME," \
        "make fuzz-describe INPUT=FILE; targets: $(cd "$here/fuzz_targets" && echo *.rs | sed 's/\.rs//g')" >&2
    exit 2
}
here=$(cd "$(dirname "$0")/../fuzz" && pwd)
work=${1:-}
shift || usage
input=${*: -1}
if [[ $work == @(repro|min|describe) ]]; then
    [[ -f $input ]] || { echo "error: no file $input" >&2; usage; }
    input=$(readlink -f "$input")
fi
cd "$here"
if [[ $work == describe ]]; then
    exec cargo run --quiet --example describe "$input"
fi
target=${1:-}
[[ -n $target && -f fuzz_targets/$target.rs ]] || usage
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz --version 0.13.2
# Stable compilers refuse the sanitizer flags without this; it is set for the fuzz build alone.
export RUSTC_BOOTSTRAP=1
sanitizer=--sanitizer=${SANITIZER:-none}
case $work in
search)
    [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage
    mkdir -p "found/$target" "corpus/$target"
    options=(-max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1)
    [[ ! -f dictionaries/$target.dict ]] || options+=(-dict="dictionaries/$target.dict")
    cargo fuzz run "$sanitizer" "$target" "found/$target" "corpus/$target" -- "${options[@]}"
    echo "fuzz target $target: no finding in $2 seconds"
    ;;
repro) cargo fuzz run "$sanitizer" "$target" "$input" ;;
min) cargo fuzz tmin "$sanitizer" "$target" "$input" ;;
cov)
    rustup component add llvm-tools >/dev/null
    cargo fuzz coverage "$target" "corpus/$target"
    host=$(rustc -vV | sed -n 's/host: //p')
    tools=$(rustc --print sysroot)/lib/rustlib/$host/bin
    "$tools/llvm-cov" report "target/$host/coverage/$host/release/$target" -instr-profile="coverage/$target/coverage.profdata" \
        --ignore-filename-regex='(\.cargo|rustc|fuzz)/'
    ;;
*) usage ;;
esac
