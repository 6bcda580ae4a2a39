#!/usr/bin/env bash
# Compiles the examples in a package of their own. It has the crate's interface alone: within this repository examples also see the
# internals, which tests need.
#
# usage: examples-alone.sh TARGET_DIR   (the directory of what is compiled)
set -euo pipefail

here=$(dirname "$(dirname "$(readlink -f "$0")")")
package=$1/examples-alone
mkdir -p "$package/src/bin"
cp "$here"/examples/*.rs "$package/src/bin/"
cp -r "$here"/examples/support "$package/src/bin/"
cp "$here/Cargo.lock" "$package/"
cat >"$package/Cargo.toml" <<MANIFEST
[package]
name = "examples-alone"
edition = "2024"

[dependencies]
modex = { path = "$here" }

[workspace]
MANIFEST
exec "${CARGO:-cargo}" check --quiet --manifest-path "$package/Cargo.toml" --target-dir "$1"
