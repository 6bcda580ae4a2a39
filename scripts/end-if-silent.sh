#!/usr/bin/env bash
# Runs tests, and ends them if they print nothing for a long time. The run then shows the tests and processes that hang.
# Nothing else depends on this time. The longest limit of a consumer (tests/consumers/process.rs) is 310 seconds.
# usage: [SILENCE=480] end-if-silent.sh PROGRAM [ARGUMENT...]
set -uo pipefail
silence=${SILENCE:-480}

# The last line is ours. A process that a test has left behind may hold the pipe open for longer.
exec {lines}< <("$@" 2>&1; printf '\nended with %d\n' $?)
runner=$!
while true; do
    if IFS= read -r -t "$silence" -u "$lines" line; then
        [[ $line =~ ^'ended with '([0-9]+)$ ]] && exit "${BASH_REMATCH[1]}"
        printf '%s\n' "$line"
    elif (($? > 128)); then
        printf 'error: no line for %d seconds from %s\n' "$silence" "$*"
        ps -e --forest --cols 200 -o pid,ppid,etimes,stat,wchan:24,args
        pkill -KILL -P "$runner"
    else
        exit 1
    fi
done
