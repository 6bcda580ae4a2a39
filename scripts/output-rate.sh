#!/bin/bash
# Compares forwarded output and input with plain pipes, run by run:
#   scripts/output-rate.sh MODEX [RUNS]
# 64 ranks write 16 MiB each, and 8 ranks read 128 MiB each. Prints medians in seconds.
set -euo pipefail
modex=$(realpath "$1")
runs=${2:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# `yes` ends with the pipe.
(yes "a line of output, as an ordinary program prints it, with a length of 80 bytes or so" || true) | head -c 16777216 >small
for _ in 1 2 3 4 5 6 7 8; do cat small; done >large

now() { date +%s.%N; }
log() { echo "$2 - $3" | bc >>"$1"; }

output_pipe() {
    begin=$(now)
    (for _ in $(seq 64); do cat small & done; wait) | cat >/dev/null
    log output-pipe "$(now)" "$begin"
}
output_run() {
    begin=$(now)
    "$modex" run -n 64 -- cat small >/dev/null
    log output-run "$(now)" "$begin"
}
output_tool() {
    rm -f go
    "$modex" run -n 64 -- sh -c 'until [ -e go ]; do sleep 0.1; done; exec cat small' >/dev/null &
    launcher=$!
    sleep 1.5
    "$modex" output --pid "$launcher" 2>>missing >/dev/null &
    tool=$!
    sleep 0.7
    begin=$(now)
    touch go
    wait "$tool"
    log output-tool "$(now)" "$begin"
    wait "$launcher"
}
input_pipe() {
    begin=$(now)
    tee <large >(cat >/dev/null) >(cat >/dev/null) >(cat >/dev/null) >(cat >/dev/null) >(cat >/dev/null) \
        >(cat >/dev/null) >(cat >/dev/null) | cat >/dev/null
    log input-pipe "$(now)" "$begin"
}
input_run() {
    begin=$(now)
    "$modex" run -n 8 --stdin all -- sh -c 'cat >/dev/null' <large
    log input-run "$(now)" "$begin"
}
input_tool() {
    "$modex" run -n 8 --stdin tools -- sh -c 'cat >/dev/null' </dev/null &
    launcher=$!
    sleep 1
    begin=$(now)
    "$modex" output --stdin --pid "$launcher" <large >/dev/null
    wait "$launcher"
    log input-tool "$(now)" "$begin"
}

cases="output-pipe output-run output-tool input-pipe input-run input-tool"
for _ in $(seq "$runs"); do
    for case in $cases; do "${case/-/_}"; done
done
for case in $cases; do
    printf '%s %.2f\n' "$case" "$(sort -g "$case" | sed -n "$(((runs + 1) / 2))p")"
done
if [ -s missing ]; then
    echo "The tool missed output:" && cat missing
fi
