#!/bin/bash
# Runs Debian's OpenPMIx for s390x, a big-endian machine, in an emulator beside the library under test:
#   scripts/big-endian.sh MODEX LIBRARY_DIRECTORY
# Its ranks and tools use our server, and its server and ours exchange the data of a fence. A little-endian client can't reach
# its server: OpenPMIx's own can't, either. Packages of s390x are unpacked, not installed.
set -euo pipefail
modex=$(realpath "$1")
library=$(realpath "$2")
source=$(dirname "$(realpath "$0")")/../tests/big_endian
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

apt=(apt-get -qq -o APT::Architecture=s390x -o APT::Architectures=s390x -o APT::Install-Recommends=false
    -o APT::Sandbox::User= -o Dir::State::status=/dev/null -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache")
mkdir -p "$work"/{lists/partial,cache/archives/partial,machine,tmp}
"${apt[@]}" update
"${apt[@]}" --yes --download-only install libpmix2 libpmix-bin >/dev/null
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$work/machine"
done
foreign=$work/machine/usr/lib/s390x-linux-gnu
emulator="qemu-s390x -L $work/machine -E LD_LIBRARY_PATH=$foreign:$work/machine/lib/s390x-linux-gnu"
emulator+=" -E PMIX_MCA_mca_base_component_path=$foreign/pmix2/lib/pmix"

flags=(-O1 -g -Wall -Wextra -I/usr/lib/x86_64-linux-gnu/pmix2/include)
for name in rank host; do
    s390x-linux-gnu-gcc "${flags[@]}" "$source/$name.c" -o "$work/$name.s390x" \
        "$foreign/libpmix.so.2" -Wl,-rpath-link,"$foreign"
    cc "${flags[@]}" "$source/$name.c" -o "$work/$name" -L/usr/lib/x86_64-linux-gnu/pmix2/lib -lpmix
done
# Even ranks have the other byte order.
cat >"$work/mixed" <<END
#!/bin/sh
[ \$((PMIX_RANK % 2)) = 1 ] || exec $emulator $work/rank.s390x "\$@"
LD_LIBRARY_PATH=$library exec $work/rank "\$@"
END
chmod +x "$work/mixed"

export TMPDIR=$work/tmp
expect_ranks() {
    cat "$work/log"
    for rank in 0 1 2 3; do
        order=$([ $((rank % 2)) = 1 ] && echo "little-endian, modex" || echo "big-endian, OpenPMIx")
        grep -q "^rank $rank of 4, $order.*: all values are right$" "$work/log"
    done
}
echo "Ranks of both byte orders at our server:"
timeout 120 "$modex" run -n 4 -- "$work/mixed" >"$work/log" 2>&1 || true
expect_ranks

echo "Two nodes, one of them with a big-endian server:"
mkdir "$work/fences"
# shellcheck disable=SC2086
timeout 120 $emulator "$work/host.s390x" 0 "$work/fences" "$work/mixed" fences >"$work/log" 2>&1 &
LD_LIBRARY_PATH=$library timeout 120 "$work/host" 1 "$work/fences" "$work/mixed" fences >"$work/log1" 2>&1 || true
wait $! || true
cat "$work/log1" >>"$work/log"
expect_ranks

echo "A big-endian tool at our server:"
"$modex" run -n 1 -- sh -c 'touch "$0"; sleep 60' "$work/started" &
launcher=$!
trap 'kill $launcher || true; wait || true; rm -rf "$work"' EXIT
until [ -e "$work/started" ]; do
    kill -0 $launcher
    sleep 0.1
done
# shellcheck disable=SC2086
timeout 60 $emulator "$work/machine/usr/bin/pps" 2>&1 | tee "$work/log"
grep -qw "^Active nspaces: modex-$launcher" "$work/log"
