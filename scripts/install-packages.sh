#!/usr/bin/env bash
# Installs the Debian packages named on the command line that are missing.
# Uses apt as root or through sudo; without either it names what is missing and stops.
set -euo pipefail

missing=()
for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo)
else
    echo "error: missing Debian packages: ${missing[*]}" >&2
    echo "       install them as root: apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
# A new machine may still install packages of its own.
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
