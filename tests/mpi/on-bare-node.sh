#!/bin/sh
# As on-node.sh, without the variables of the caller, as ssh does.
exec env -i HOME="$HOME" PATH=/usr/local/bin:/usr/bin:/bin TMPDIR="$TMPDIR" "$(dirname "$0")/on-node.sh" "$@"
