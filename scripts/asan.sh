#!/usr/bin/env bash
# AddressSanitizer over the fuzz targets and the C suite.
#
# usage: asan.sh PART...   parts: fuzz (needs RUNS and TARGETS), c
#
# The C library takes the sanitizer's functions from the program that loads it. The C programs are compiled with
# gcc's AddressSanitizer, whose interface is the same.
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/host: //p')
# Stable compilers refuse the flag without RUSTC_BOOTSTRAP. The option --target keeps it away from build scripts and macros.
sanitized=(env RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/asan cargo)

for part in "$@"; do
    case $part in
    fuzz) SANITIZER=address scripts/fuzz-smoke.sh "$RUNS" $TARGETS ;;
    c)
        # Without libpmix/link-args' `-z defs`: the sanitizer's functions are the program's.
        "${sanitized[@]}" rustc --target "$host" --package libpmix --lib --crate-type cdylib -- \
            -Clink-arg=-Wl,-soname,libpmix.so.2 -Clink-arg=-Wl,-z,nodelete
        library=$PWD/target/asan/library
        install -D -m 755 "target/asan/$host/debug/libpmix.so" "$library/libpmix.so.2"
        MODEX_LIBPMIX_DIR=$library MODEX_SANITIZER=address cargo test --all-features --test consumers capi::
        ;;
    *) echo "usage: asan.sh fuzz|c ..." >&2; exit 2 ;;
    esac
done
