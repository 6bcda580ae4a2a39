#!/usr/bin/env bash
# Installs what `make build lib` has built, or removes it again. The Makefile gives everything in the environment.
# Files of another PMIx library stay, unless FORCE=1.
# usage: install.sh install|uninstall
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PREFIX:?}" "${BINDIR:?}" "${LIBDIR:?}" "${INCLUDEDIR:?}" "${DATADIR:?}" "${PMIX_VERSION:?}" "${BUILT:?}"
root=${DESTDIR:-}
case $PREFIX in
    /*) ;;
    *) echo "error: PREFIX=$PREFIX is not an absolute path" >&2; exit 1 ;;
esac

headers() { (cd libpmix/include && find . -name '*.h' -printf '%P\n'); }
completion_bash=$DATADIR/bash-completion/completions/modex
completion_zsh=$DATADIR/zsh/site-functions/_modex
completion_fish=$DATADIR/fish/vendor_completions.d/modex.fish

package_description() {
    cat <<END
prefix=$PREFIX
libdir=$LIBDIR
includedir=$INCLUDEDIR

Name: pmix
Description: PMIx from shared memory (modex)
Version: $PMIX_VERSION
Libs: -L\${libdir} -lpmix
Cflags: -I\${includedir}
END
}

# The wrapper of the compiler. A tree below DESTDIR works, too: the place of the script shows where the tree is.
compiler_wrapper() {
    cat <<END
#!/bin/sh
# Part of modex.
# Compiles and links C programs with the PMIx library beside it. PMIX_CC names another compiler than cc.
# usage: pmixcc [--showme[:command|:compile|:link|:incdirs|:libdirs|:libs|:version]] [ARGUMENT...]
here=\$(dirname "\$(readlink -f "\$0")")
root=\${here%'$BINDIR'}
[ "\$root" != "\$here" ] || root=
compiler=\${PMIX_CC:-cc}
includedir=\$root'$INCLUDEDIR'
libdir=\$root'$LIBDIR'
END
    cat <<'END'
if [ $# = 0 ]; then
    sed -n '/^# usage: /s/^# //p' "$0" >&2
    exit 2
fi
case $1 in
    --showme:command) echo "$compiler"; exit ;;
    --showme:compile) echo "-I$includedir"; exit ;;
    --showme:link) echo "-L$libdir -Wl,-rpath,$libdir -Wl,--enable-new-dtags -lpmix"; exit ;;
    --showme:incdirs) echo "$includedir"; exit ;;
    --showme:libdirs) echo "$libdir"; exit ;;
    --showme:libs) echo pmix; exit ;;
END
    echo "    --showme:version) echo \"pmixcc of modex, PMIx $PMIX_VERSION\"; exit ;;"
    cat <<'END'
    --showme:*) echo "pmixcc: error: unknown option $1" >&2; exit 2 ;;
esac
show=
[ "$1" != --showme ] || { show=echo; shift; }
# Without linking the flags of the linker would be warned of.
links=1
for argument; do
    case $argument in -c | -S | -E | -M | -MM | -fsyntax-only) links= ;; esac
done
if [ -n "$links" ]; then
    set -- "$@" -L"$libdir" -Wl,-rpath,"$libdir" -Wl,--enable-new-dtags -lpmix
fi
# PMIX_CC may hold options.
# shellcheck disable=SC2086
if [ -n "$show" ]; then echo $compiler -I"$includedir" "$@"; else exec $compiler -I"$includedir" "$@"; fi
END
}

# Files with the names of ours that belong to another library. `PMIx_Get_version`, headers, `pmix.pc` and `pmixcc` have our mark.
ours='modex[- ][0-9.]+ ([0-9.]+ )?\(PMIx Standard|^/\* Part of modex\.|^# Part of modex\.|^Description: .*\(modex\)$'
others_files() {
    { printf '%s\n' "$LIBDIR/libpmix.so.2" "$LIBDIR/libpmix.so" "$LIBDIR/pkgconfig/pmix.pc" "$BINDIR/pmixcc"; headers | sed "s|^|$INCLUDEDIR/|"; } |
        while read -r file; do
            [ ! -e "$root$file" ] || LC_ALL=C grep -qaE "$ours" "$root$file" || echo "$root$file"
        done
}

spare_others() {
    local files
    [ "${FORCE:-}" != 1 ] || return 0
    files=$(others_files)
    [ -z "$files" ] || {
        echo "error: ${files%%$'\n'*} belongs to another PMIx library; choose another PREFIX, or $1 it with FORCE=1" >&2
        exit 1
    }
}

install_all() {
    spare_others replace
    # The second is looked for beside the first.
    install -D -m 755 "$BUILT/modex" "$root$BINDIR/modex"
    install -D -m 755 "$BUILT/modex-topology" "$root$BINDIR/modex-topology"
    install -D -m 755 "$BUILT/libpmix.so.2" "$root$LIBDIR/libpmix.so.2"
    ln -sfn libpmix.so.2 "$root$LIBDIR/libpmix.so"
    # For `modex host`.
    install -D -m 755 "$BUILT/libmodex-pmix.so" "$root$LIBDIR/libmodex-pmix.so"
    headers | while read -r header; do
        install -D -m 644 "libpmix/include/$header" "$root$INCLUDEDIR/$header"
    done
    mkdir -p "$root$LIBDIR/pkgconfig"
    package_description >"$root$LIBDIR/pkgconfig/pmix.pc"
    compiler_wrapper | install -m 755 /dev/stdin "$root$BINDIR/pmixcc"
    "$BUILT/modex" man --out-dir "$root$DATADIR/man/man1"
    mkdir -p "$(dirname "$root$completion_bash")" "$(dirname "$root$completion_zsh")" "$(dirname "$root$completion_fish")"
    "$BUILT/modex" completions bash >"$root$completion_bash"
    "$BUILT/modex" completions zsh >"$root$completion_zsh"
    "$BUILT/modex" completions fish >"$root$completion_fish"
    echo "installed in $root$PREFIX"
    [ -n "$root" ] || case :${LD_LIBRARY_PATH:-}: in
        *:"$LIBDIR":*) ;;
        *) echo "programs find the library with LD_LIBRARY_PATH=$LIBDIR, or after ldconfig" ;;
    esac
}

uninstall_all() {
    spare_others remove
    rm -f "$root$BINDIR/modex" "$root$BINDIR/modex-topology" "$root$BINDIR/pmixcc" "$root$LIBDIR/libpmix.so" "$root$LIBDIR/libpmix.so.2" "$root$LIBDIR/libmodex-pmix.so" "$root$LIBDIR/pkgconfig/pmix.pc"
    headers | while read -r header; do
        rm -f "$root$INCLUDEDIR/$header"
    done
    rm -f "$root$DATADIR"/man/man1/modex.1 "$root$DATADIR"/man/man1/modex-*.1
    rm -f "$root$completion_bash" "$root$completion_zsh" "$root$completion_fish"
    # Only the folder that is ours alone; the others may be in use.
    rmdir "$root$INCLUDEDIR/modex" 2>/dev/null || true
}

case ${1:-} in
    install) install_all ;;
    uninstall) uninstall_all ;;
    *) echo "usage: install.sh install|uninstall" >&2; exit 2 ;;
esac
