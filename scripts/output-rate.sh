#!/bin/bash
# Compares forwarded output and input with plain pipes, run by run:
#   scripts/output-rate.sh MODEX LIBDIR [RUNS]
# LIBDIR has libpmix.so.2 for a tool in C. 64 ranks write 16 MiB each, and 8 ranks read 128 MiB each. A first pass
# checks that every line and every byte arrives whole. Then it prints medians in seconds.
set -euo pipefail
modex=$(realpath "$1")
library=$(realpath "$2")
runs=${3:-5}
source=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
gcc -O1 -I"$source/../libpmix/include" "$source/io-tool.c" -o tool -L"$library" -l:libpmix.so.2 "-Wl,-rpath,$library"
line="a line of output, as an ordinary program prints it, with a length of 80 bytes or so"
lines=199728
# `yes` ends with the pipe.
(yes "$line" || true) | head -n "$lines" >small
for _ in 1 2 3 4 5 6 7 8; do cat small; done >large

now() { date +%s.%N; }
log() { echo "$(now) - $2" | bc >>"$1"; }

# Output goes to $out, and ranks read their input with $reader.
out=/dev/null reader='cat >/dev/null'

output_pipe() {
    begin=$(now)
    (for _ in $(seq 64); do cat small & done; wait) | cat >/dev/null
    log output-pipe "$begin"
}
output_run() {
    begin=$(now)
    "$modex" run -n 64 -- cat small >"$out"
    log output-run "$begin"
}
# NAME COMMAND ...: the command and the launcher's process number run a tool that shows the output. All ranks begin
# when a writer opens the pipe for which they wait, and it stays open for late ones.
output_of() {
    rm -f go
    mkfifo go
    "$modex" run -n 64 -- sh -c ': <go; exec cat small' >/dev/null &
    launcher=$!
    sleep 1.5
    "${@:2}" "$launcher" 2>>missing >"$out" &
    tool=$!
    sleep 0.7
    begin=$(now)
    exec 4<>go
    wait "$tool"
    log "$1" "$begin"
    wait "$launcher"
    exec 4>&-
}
output_tool() { output_of output-tool "$modex" output --pid; }
output_c_tool() { output_of output-c-tool ./tool pull; }
input_pipe() {
    begin=$(now)
    tee <large >(cat >/dev/null) >(cat >/dev/null) >(cat >/dev/null) >(cat >/dev/null) >(cat >/dev/null) \
        >(cat >/dev/null) >(cat >/dev/null) | cat >/dev/null
    log input-pipe "$begin"
}
input_run() {
    begin=$(now)
    "$modex" run -n 8 --stdin all -- sh -c "$reader" <large >"$out"
    log input-run "$begin"
}
# NAME COMMAND ...: the command and the launcher's process number run a tool that gives the ranks its input.
input_of() {
    "$modex" run -n 8 --stdin tools -- sh -c "$reader" </dev/null >"$out" &
    launcher=$!
    sleep 1
    begin=$(now)
    "${@:2}" "$launcher" <large >/dev/null
    wait "$launcher"
    log "$1" "$begin"
}
input_tool() { input_of input-tool "$modex" output --stdin --pid; }
input_c_tool() { input_of input-c-tool ./tool push; }

# CASE COUNT LINE: runs a case once. Its output must be so many of this line, and no other.
check() {
    exec 3> >(awk -v line="$3" '$0 == line { whole++ } END { print whole + 0, NR }' >counts)
    counter=$!
    out=/dev/fd/3 reader=cksum
    "${1//-/_}"
    exec 3>&-
    wait "$counter"
    out=/dev/null reader='cat >/dev/null'
    rm "$1"
    if [ "$(cat counts)" != "$2 $2" ]; then
        echo "$1: $2 whole lines are expected; whole lines and all lines are $(cat counts)" >&2
        exit 1
    fi
}

for case in output-run output-tool output-c-tool; do check "$case" "$((64 * lines))" "$line"; done
for case in input-run input-tool input-c-tool; do check "$case" 8 "$(cksum <large)"; done
cases="output-pipe output-run output-tool output-c-tool input-pipe input-run input-tool input-c-tool"
for _ in $(seq "$runs"); do
    for case in $cases; do "${case//-/_}"; done
done
for case in $cases; do
    printf '%s %.2f\n' "$case" "$(sort -g "$case" | sed -n "$(((runs + 1) / 2))p")"
done
if [ -s missing ]; then
    echo "A tool missed output:" && cat missing
fi
